"""What warps wait for on the machine: phases, groups of their warpgroup, and each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from legalsat.analyses.ptx.clocks import Clock
from legalsat.analyses.ptx.contract_barriers import Barrier

if TYPE_CHECKING:
    from legalsat.analyses.ptx_machine.machine import Run, Warp


@dataclass(slots=True)
class Wait:
    """What lanes wait for: the end of a phase, or so many groups of the warps of a warpgroup, or a meeting.

    Without any of these they wait until no other warp can go on; `apart`: until launches that are run together part.
    `looks`: who only looks whether a phase has ended waits as long as anything else can go on, and may see it ended.
    """

    number: int = 0
    barrier: Barrier | None = None
    warps: list[Warp] | None = None
    meeting: Meeting | None = None
    apart: bool = False
    looks: bool = False

    def over(self, run: Run) -> bool:
        """Has it come?"""
        if self.barrier is not None:
            return self.barrier.phase > self.number
        if self.meeting is not None:
            return self.meeting.over
        if self.warps is not None:
            return all(other.groups["wgmma"] >= self.number for other in self.warps)
        return not self.apart and self.number not in run.patient


@dataclass
class Meeting:
    """Warps that have come to a barrier of the block, or of the cluster; `relaxed`: what they knew by CTA."""

    relaxed: list[tuple[int, Clock]] = field(default_factory=list)
    arrivals: list[tuple[Warp, Any]] = field(default_factory=list)
    threads: int = 0
    over: bool = False
    wanted: int = 0
    line: int = 0

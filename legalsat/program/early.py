"""Whether a kernel may be brought in before the one in front of it ends (programmatic dependent launch)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from legalsat.program.kernel import MeetSetup
from legalsat.program.pipeline import AwaitGrid, Fence, LaunchDependents, Registers, Start, Sync

OWN = (Start, Fence, MeetSetup, Sync, Registers)  # what touches nothing that another kernel may have written


def begins_early(body: Iterable[object]) -> bool:
    """Return whether all that a kernel reads or writes of global memory comes behind its wait for what is in front.

    Only then may it be launched as a dependent one. That it waits first also keeps whoever is two in front of it
    apart: the kernel in front lets it in no sooner than it has waited itself.

    Args:
        body: what all threads of the kernel do, in order.
    """
    for op in body:
        if isinstance(op, AwaitGrid):
            return True
        if not isinstance(op, OWN):
            return False
    return False


def runs_beside(body: Sequence[object], front: Sequence[object]) -> bool:
    """Return whether a kernel may be brought in while the one in front of it runs, of which it needs nothing.

    The one in front lets it in when all that is further in front is done, since it has waited for that. What comes
    behind waits for this kernel alone, so this one waits for the one in front before it ends.

    Args:
        body: what all threads of the kernel do, in order.
        front: what those of the kernel in front do, which touches nothing that this one writes or reads.
    """
    lets_in = any(isinstance(op, LaunchDependents) for op in front)  # behind its wait, since it begins early
    return begins_early(front) and lets_in and bool(body) and isinstance(body[-1], AwaitGrid)

"""A printed kernel of a movement on the PTX machine: launched, recorded, and compared with its plan's program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.conformance.granules_conformance import granules_conformance
from bench.conformance.movement_conformance import ADDRESSES, movement_conformance, trips
from legalsat.analyses.copy_engine import tx_bytes
from legalsat.analyses.ptx.bounds import Bounds
from legalsat.analyses.ptx.text import parse
from legalsat.analyses.ptx_machine.alu import LANES
from legalsat.analyses.ptx_machine.events import Event, Recorder
from legalsat.analyses.ptx_machine.machine import Run
from legalsat.analyses.ptx_machine.program import compile_kernel
from legalsat.plans.movement_plan import MovementPlan
from legalsat.program.pipeline import Pipeline
from legalsat.runtime.program import AddressArgument, MapArgument, NumberArgument, Recipe

MOST_WORK = 20_000_000  # instructions of a run
MOST_SECONDS = 120.0  # of processor time


@dataclass(frozen=True)
class Moved:
    """What a text did in one block.

    Attributes:
        block: its number. streams: events of each warp. findings: breaks of the asynchronous contract, in words.
    """

    block: int
    streams: Mapping[int, Sequence[Event]]
    findings: tuple[str, ...]

    @property
    def events(self) -> int:
        """How many events all warps have together; meetings of a warp's own lanes are none."""
        return sum(event.what != "lanes" for stream in self.streams.values() for event in stream)


class PrintedMovement:
    """The PTX of a movement's kernel, made ready to run.

    Args:
        ptx: what a compiler makes of the text.
        plan: that is printed.
        recipe: its launch.
        printer: the backend.

    Raises:
        NotPtx: the text is none.
        Undecided: it uses what the machine does not follow.
    """

    def __init__(self, ptx: str, plan: MovementPlan, recipe: Recipe, printer: str) -> None:
        module = parse(ptx)
        (entry,) = module.kernels
        self.plan, self.printer, self._recipe = plan, printer, recipe
        self._machine = compile_kernel(module, replace(entry, threads=(recipe.threads, 1, 1)), traced=True)
        self._recorder = Recorder(self._machine)
        self._maps: dict[str, int] = {}
        self._boxes: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        for parameter, given in zip(entry.parameters, recipe.arguments, strict=False):
            if isinstance(given, MapArgument):
                self._maps[parameter.name] = len(self._maps)
                self._boxes[parameter.name] = tx_bytes(given.map)
            elif isinstance(given, AddressArgument):
                self._numbers[parameter.name] = ADDRESSES[given.operand]
            elif isinstance(given, NumberArgument):
                self._numbers[parameter.name] = int(given.value)

    def run(self, block: int) -> Moved:
        """Run a block, and return what it did.

        Raises:
            Undecided: the text depends on what is not known, or does not end.
        """
        self._recorder.clear()
        self._machine.bounds = Bounds(MOST_SECONDS)
        grid = {"%nctaid.x": self._recipe.grid[0], "%ctaid.x": block}
        run = Run(self._machine, grid | self._numbers, self._boxes, MOST_WORK)
        run.run()
        findings = tuple(one.message for one in run.order.findings.values() if one.level == "error")
        return Moved(block, {warp: self._recorder.streams.get(warp, []) for warp in range(self.warps)}, findings)

    @property
    def warps(self) -> int:
        """Of a block."""
        return self._recipe.threads // LANES

    def differences(self, moved: Moved, program: Pipeline | None = None) -> list[str]:
        """Return in words where what was recorded is not what the plan's program, or another one, says."""
        if self.plan.granules is not None:
            return granules_conformance(self.plan, self.plan.granules, moved.block, moved.streams, program)
        return movement_conformance(
            self.plan, moved.block, moved.streams, self._maps, printer=self.printer, program=program
        )


def blocks_of(plan: MovementPlan, *, few: bool = False) -> Iterator[int]:
    """Yield numbers of blocks: the first, the last and one between, or of a persistent grid such with few tiles.

    A block of a persistent grid has as many tiles as are left from its number on. So one that is given a number near
    their end has few, also where no launch has so many blocks: 0, 1, and as many as take its ring round once or twice.
    """
    tiles, programs = plan.launch.tiles, plan.launch.programs
    if plan.granules is not None:
        tiles, programs = plan.granules.blocks, 0
    if not programs:
        yield from sorted({0, tiles - 1} if few else {0, tiles // 2, tiles - 1})
        return
    stages = plan.pipeline.stages
    counts = {1, stages + 1} if few else {0, 1, stages, stages + 1, 2 * stages + 1}
    most = trips(plan, 0)
    for count in sorted(min(count, most) for count in counts):
        yield tiles if not count else tiles - 1 - programs * (count - 1)

"""A printed kernel of a product on the PTX machine: launched, recorded, and compared with its program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from bench.conformance.kernel_conformance import conformance
from bench.conformance.kernel_launches import Launch
from legalsat.analyses.copy_engine import tx_bytes
from legalsat.analyses.ptx.bounds import Bounds
from legalsat.analyses.ptx.text import parse
from legalsat.analyses.ptx_machine.alu import LANES
from legalsat.analyses.ptx_machine.events import Event, Recorder
from legalsat.analyses.ptx_machine.machine import Run
from legalsat.analyses.ptx_machine.memory import SHARED_BYTES
from legalsat.analyses.ptx_machine.program import compile_kernel
from legalsat.extract.kernels.kernel_memory import KernelMemory
from legalsat.extract.kernels.kernel_program import kernel_program
from legalsat.extract.kernels.kernel_tiles import Share, Tile, TileScheduler
from legalsat.extract.kernels.product_maps import Placed, maps_of, result_lies, steps_of, stored_type
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_kernel import ProductKernel
from legalsat.program.pipeline import Pipeline

MAP_BYTES = 128  # of a tensor map among the parameters
MOST_WORK = 20_000_000  # instructions of a run
MOST_SECONDS = 120.0  # of processor time


@dataclass(frozen=True)
class Recorded:
    """What a text did in one launch.

    Attributes:
        launch: which. streams: events of each warp of the cluster, by its index.
        findings: breaks of the asynchronous contract that the machine met, in words.
    """

    launch: Launch
    streams: Mapping[int, Sequence[Event]]
    findings: tuple[str, ...]

    @property
    def events(self) -> int:
        """How many events all warps have together; meetings of a warp's own lanes are none."""
        return sum(event.what != "lanes" for stream in self.streams.values() for event in stream)


class PrintedKernel:
    """The PTX of a kernel, made ready to run: as nvcc makes it of what backend cute prints.

    Args:
        ptx: of the text.
        gemm: a product that the kernel computes.
        kernel: how it does.

    Attributes:
        program: what the kernel does, which backends print.

    Raises:
        NotPtx: the text is none.
        Undecided: it uses what the machine does not follow.
    """

    traced: ClassVar[bool] = True  # whether coordinates are compared too

    def __init__(self, ptx: str, gemm: Gemm, kernel: ProductKernel) -> None:
        module = parse(ptx)
        (entry,) = module.kernels
        self.gemm, self.kernel = gemm, kernel
        self.program = kernel_program(kernel, stored_type(gemm, kernel).bytes)
        shape = replace(entry, cluster=(kernel.cluster_blocks, 1, 1), threads=(kernel.threads, 1, 1))
        self._machine = compile_kernel(module, shape, traced=self.traced, told=kernel.groups > 0 or kernel.stream_k)
        self._recorder = Recorder(self._machine)
        self._names = [one.name for one in entry.parameters]
        (self._base,) = (self._machine.symbols[name] for name in self._machine.shared)
        self._boxes = {name: tx_bytes(one.map) for name, one in self.maps().items()}
        self.along_rows, _ = result_lies(gemm, kernel)

    def maps(self) -> dict[str, Placed]:
        """Return the tensor maps by the names of parameters; one that has several has them side by side."""
        found = [one for maps in maps_of(self.gemm, self.kernel).values() for one in maps]
        return {self._names[0] + (f"+{MAP_BYTES * n}" if n else ""): one for n, one in enumerate(found)}

    def numbers(self, launch: Launch) -> dict[str, int]:
        """Return the parameters of a launch that are numbers, by their names."""
        return dict(zip(self._names[1:], launch.numbers, strict=True))

    def run(self, launch: Launch) -> Recorded:
        """Run a launch, and return what it did.

        Raises:
            Undecided: the text depends on what is not known, or does not end.
        """
        self._recorder.clear()
        self._machine.bounds = Bounds(MOST_SECONDS)
        run = Run(self._machine, launch.blocks | self.numbers(launch), self._boxes, MOST_WORK)
        run.told = launch.told
        run.run()
        findings = tuple(one.message for one in run.order.findings.values() if one.level == "error")
        return Recorded(launch, self._recorder.streams, findings)

    def differences(self, recorded: Recorded, program: Pipeline | None = None) -> list[str]:
        """Return in words where what was recorded is not what the kernel's program, or another one, says."""
        program = program or self.program
        memory = KernelMemory(program, self.kernel, self.along_rows)
        found = conformance(
            program, recorded.launch.values, self.kernel, recorded.streams, memory=memory, base=self._base
        )
        return found or list(self.misplaced(recorded, memory))

    def misplaced(self, recorded: Recorded, memory: KernelMemory) -> Iterator[str]:
        """Yield loads that are not the boxes that the scheduler's tiles have at their k-tile, in words."""
        listed = [(operand, n) for operand, maps in maps_of(self.gemm, self.kernel).items() for n, _ in enumerate(maps)]
        names, launch = dict(zip(self.maps(), listed, strict=True)), recorded.launch
        of_a, of_b = steps_of(self.gemm, self.kernel)
        scheduler = replace(launch.scheduler, axes=(any(of_a), any(of_b)))
        for index, stream in sorted(recorded.streams.items()):
            cta = index // (self.kernel.threads // LANES)
            tiles = (tile for tile in self._tiles(launch, cta) for tile in self._phases(scheduler, tile))
            places = [(tile, n) for tile in tiles for n in range(self._stages(tile))]
            for item, loads in self._by_item(stream, memory):
                tile, k_tile = places[item]
                done = {self._share(event, names, item, memory.stage_bytes) for event in loads}
                said = {
                    share
                    for operand in {one.operand for one in done}
                    for share in scheduler.shares(operand, tile, k_tile, cta)
                }
                for one in sorted(done ^ said, key=str)[:1]:
                    who = "the text" if one in done else "the scheduler"
                    yield f"CTA {cta}, k-tile {k_tile} of the tile at {tile.m}, {tile.n}: {who} alone has {one}"

    def _by_item(self, stream: Sequence[Event], memory: KernelMemory) -> list[tuple[int, list[Event]]]:
        """Return loads with the item of their ring, whose bytes a barrier expects first."""
        found: list[tuple[int, list[Event]]] = []
        items: dict[str, int] = {}
        for event in stream:
            if event.what == "expect":
                ring = memory.barrier(event.spans[0][0] % SHARED_BYTES - self._base).partition("[")[0]
                items[ring] = items.get(ring, -1) + 1
                found.append((items[ring], []))
            elif event.what == "load":
                found[-1][1].append(event)
        return found

    def _tiles(self, launch: Launch, cta: int) -> Iterator[Tile]:
        return (launch.scheduler.tile(number, cta) for number in launch.own)

    def _phases(self, scheduler: TileScheduler, tile: Tile) -> Iterator[Tile]:
        """Yield a tile in each phase of k, where sums slide between phases."""
        yield from (replace(tile, lines=scheduler.phase(turn, tile.member)) for turn in range(self.kernel.slides))
        yield from [tile] * (not self.kernel.slides)

    def _stages(self, tile: Tile) -> int:
        """Return the items of a tile: rows that are realigned in registers end one later."""
        return tile.k_tiles + (self.kernel.realign == "registers")

    def _share(self, event: Event, names: Mapping[str, tuple[str, int]], item: int, stage_bytes: int) -> Share:
        operand, number = names[event.name]
        first = event.spans[0][0] % SHARED_BYTES - self._base
        return Share(operand, number, tuple(event.at), first - item % self.kernel.stages * stage_bytes)

"""The fastest kernel of a product by measurement: the most promising ones are timed once, and the winner is kept.

They are timed as they run in a model: back to back, in CUDA graphs, on operands that L2 does not hold, in turns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import legalsat
from legalsat.errors import LegalSatError
from legalsat.operators.gemm import Gemm
from legalsat.runtime.cache import Cache, key_of
from legalsat.runtime.kernel import Kernel
from legalsat.runtime.program import Program, read_program, write_program
from legalsat.targets import Target

BACKEND = "cute"  # which prints them
MOST = 16  # kernels of a product that are timed
ROTATED_BYTES = 256 << 20  # of operands that launches go through, so that L2 holds none of them from one to the next
MOST_SETS = 32  # of operands, each with a result: launches of a graph
QUICK, FINAL, FINALISTS = 3, 11, 3  # rounds of all kernels, then of the best few and the one that is predicted best
LEAST_MICROSECONDS = 300.0  # of a sample: short graphs are replayed several times
WINS = 0.99  # of the predicted one's time, or less: what another one takes to win


@dataclass(frozen=True, slots=True)
class Timed:
    """A kernel that was timed: its median time and the predicted one, in microseconds, and what it is."""

    microseconds: float
    predicted: float
    kernel: str
    program: Program


def candidates(product: Gemm, target: Target, most: int = MOST) -> list[tuple[float, str, Program]]:
    """Return predicted microseconds, a description and the program of kernels of a product, cheapest first.

    None where the backend prints none of them, as on tcgen05.

    Args:
        product: what to compute.
        target: the GPU.
        most: how many.
    """
    from legalsat.backends import refusal_of  # noqa: PLC0415 - backends import plans
    from legalsat.backends.cute.program import program_for  # noqa: PLC0415
    from legalsat.extract.kernels.product_kernels import product_kernels  # noqa: PLC0415

    refusal = refusal_of(BACKEND)
    found = [one for one in product_kernels(product, target, most) if not refusal(product, one[1])]
    return [(time / 1000, str(kernel), program_for(product, kernel, target)) for time, kernel in found]


def kept(product: Gemm, target: Target, cache: Cache) -> Program | None:
    """Return the winner of an earlier measurement, None where there was none."""
    return read_program(cache, _key(product, target))


def keep(product: Gemm, target: Target, cache: Cache, timed: Sequence[Timed]) -> None:
    """Keep the winner."""
    if timed:
        write_program(cache, _key(product, target), timed[0].program)


def _key(product: Gemm, target: Target) -> str:
    from legalsat.runtime.planned import sources  # noqa: PLC0415 - which asks for choices

    return key_of("choice", legalsat.__version__, sources(), target.name, repr(product))


def measured(
    found: Sequence[tuple[float, str, Program]],
    sets: Sequence[tuple[Any, ...]],
    torch: Any,
    cache: Cache,
) -> list[Timed]:
    """Return the kernels that can be built and loaded, fastest first.

    Args:
        found: what `candidates` returns.
        sets: arrays of a call, the result last; launches go through them in turn.
        torch: the module, whose current GPU is used.
        cache: of images.

    Raises:
        LegalSatError: none can; the last one's reason.
    """
    kernels: dict[int, Kernel] = {}
    refusal: LegalSatError | None = None
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # compilers are processes of their own
        built = [pool.submit(Kernel(program, cache=cache).build) for _, _, program in found]
    for number, one in enumerate(built):
        try:
            kernels[number] = one.result().load(torch.cuda.current_device())
        except LegalSatError as error:
            refusal = error
    if not kernels:
        raise refusal or LegalSatError("there is no kernel to time; see what legalsat.torch.way says of the operands")
    graphs = _Graphs(kernels, sets, torch)
    times = ranked(list(kernels), graphs.medians)
    return [Timed(time, *found[number]) for number, time in times.items()]


def ranked(numbers: Sequence[int], medians: Callable[[Sequence[int], int], dict[int, float]]) -> dict[int, float]:
    """Return the times of kernels, fastest first; the first of all stays the first where no other is clearly faster.

    Args:
        numbers: of kernels, predicted fastest first.
        medians: returns the median times of some of them, which so many rounds time in turns.
    """
    default, times = numbers[0], medians(numbers, QUICK)
    best = sorted(numbers, key=times.__getitem__)[:FINALISTS]
    finalists = [default, *(number for number in best if number != default)]
    times |= medians(finalists, FINAL)  # in turns with the one that runs where nobody tunes
    winner = min(finalists, key=times.__getitem__)
    if times[winner] > WINS * times[default]:
        winner = default
    finalists.sort(key=lambda number: (number != winner, times[number]))
    others = sorted(set(numbers) - set(finalists), key=times.__getitem__)
    return {number: times[number] for number in (*finalists, *others)}


class _Graphs:
    """CUDA graphs of kernels, each of which launches one of them on every set of arrays."""

    def __init__(self, kernels: dict[int, Kernel], sets: Sequence[tuple[Any, ...]], torch: Any) -> None:
        self._torch, self._stream, self._launches = torch, torch.cuda.Stream(), len(sets)
        self._graphs: dict[int, Any] = {}
        self._replays: dict[int, int] = {}
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            for number, kernel in kernels.items():
                for *arrays, out in sets:  # what is made of constant operands is made by a call that is not captured
                    kernel(*arrays, out=out)
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=self._stream):
                    for *arrays, out in sets:
                        kernel(*arrays, out=out)
                self._graphs[number], self._replays[number] = graph, 1
                once = self._time(number) * self._launches
                self._replays[number] = max(1, round(LEAST_MICROSECONDS / once))

    def medians(self, numbers: Sequence[int], rounds: int) -> dict[int, float]:
        """Return median microseconds of a launch of some kernels, in turns."""
        samples: dict[int, list[float]] = {number: [] for number in numbers}
        with self._torch.cuda.stream(self._stream):
            for _ in range(rounds):
                for number in numbers:
                    samples[number].append(self._time(number))
        return {number: sorted(times)[len(times) // 2] for number, times in samples.items()}

    def _time(self, number: int) -> float:
        begin, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record(self._stream)
        for _ in range(self._replays[number]):
            self._graphs[number].replay()
        end.record(self._stream)
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1000 / (self._replays[number] * self._launches)

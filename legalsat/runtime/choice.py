"""The fastest kernel of a product by measurement: the most promising ones are timed once, and the winner is kept."""

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
FLUSH_BYTES = 256 << 20  # written before each launch, so that L2 is cold
QUICK, FINAL, FINALISTS = 5, 15, 3  # launches of each, and of the best few once more


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
    found: Sequence[tuple[float, str, Program]], run: Callable[[Kernel], None], torch: Any, cache: Cache
) -> list[Timed]:
    """Return the kernels that can be built and loaded, fastest first.

    Args:
        found: what `candidates` returns.
        run: launches a kernel once.
        torch: the module, whose current stream and GPU are used.
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
    times = _medians(kernels, run, torch, QUICK)
    best = sorted(times, key=times.__getitem__)[:FINALISTS]
    times |= _medians({number: kernels[number] for number in best}, run, torch, FINAL)
    ordered = [*sorted(best, key=times.__getitem__), *sorted(times.keys() - set(best), key=times.__getitem__)]
    return [Timed(times[i], *found[i]) for i in ordered]


def _medians(kernels: dict[int, Kernel], run: Callable[[Kernel], None], torch: Any, rounds: int) -> dict[int, float]:
    """Return median microseconds, kernels in turns."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    samples: dict[int, list[float]] = {number: [] for number in kernels}
    for turn in range(rounds + 1):  # the first one loads images
        for number, kernel in kernels.items():
            flush.zero_()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            run(kernel)
            end.record()
            end.synchronize()
            if turn:
                samples[number].append(begin.elapsed_time(end) * 1000)
    return {number: sorted(times)[len(times) // 2] for number, times in samples.items()}

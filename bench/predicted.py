"""Predicted times of first choices against cuBLAS's measured ones, on the CPU alone.

Run `python -m bench.predicted [--target h200|h100] [--dtype bf16|e4m3] [--every N]`. The tables in bench/data hold
products that cuBLAS takes 12 us and more for: durations of its kernels, which leave launches out. Predictions are of
calls in CUDA graphs, launches included; there cuBLAS takes LAUNCHED times as long as its table says. Both ratios are
printed, of each their geometric mean and the share above 1.15, and the ten products that are worst.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.gpu.gemm_shapes import Shape, product_of
from legalsat.extract.kernels.product_kernels import best_kernels
from legalsat.targets import target

DATA = Path(__file__).parent / "data"
TARGETS, DTYPES = ("h200", "h100"), ("bf16", "e4m3")
LAUNCHED = 1.034  # of its table's time, what cuBLAS takes in CUDA graphs: 46 shapes on an H200
SLOW = 1.15
WORST = 10


@dataclass(frozen=True, slots=True)
class Predicted:
    """A product: microseconds of cuBLAS's kernels, and those predicted of the first choice, which is named."""

    shape: Shape
    cublas: float
    ours: float
    kernel: str

    @property
    def ratio(self) -> float:
        """How many times as long as cuBLAS's kernels the first choice takes."""
        return self.ours / self.cublas


def table_of(chip: str, dtype: str) -> list[tuple[Shape, float]]:
    """Return products and the microseconds of cuBLAS's kernels.

    Raises:
        FileNotFoundError: cuBLAS was not measured on that chip with that type.
    """
    rows = json.loads((DATA / f"cublas_{chip}_{dtype}.json").read_text(encoding="utf-8"))["rows"]
    return [(Shape(m, n, k, form, dtype), us) for m, n, k, form, us in rows]


def predictions(chip: str = "h200", dtype: str = "bf16", every: int = 1) -> list[Predicted]:
    """Return the predictions for every so many products of a table; those that have no kernel are left out."""
    rows = table_of(chip, dtype)[::every]
    best = best_kernels([product_of(shape) for shape, _ in rows], target(chip))
    return [
        Predicted(shape, us, found[0] / 1000, str(found[1]))
        for (shape, us), found in zip(rows, best, strict=True)
        if found is not None
    ]


def mean_of(found: Sequence[Predicted]) -> float:
    """Return the geometric mean of the ratios to the table's times."""
    return statistics.geometric_mean(one.ratio for one in found)


def _lines(found: Sequence[Predicted], chip: str, dtype: str) -> Iterator[str]:
    yield f"{len(found)} products of {dtype}, {chip}: predicted first choices, launches included, against cuBLAS"
    for what, of_table in (("its kernels alone, as in the table", 1.0), (f"in CUDA graphs, {LAUNCHED}x", LAUNCHED)):
        slow = sum(one.ratio > SLOW * of_table for one in found) / len(found)
        yield f"  {what:36} mean {mean_of(found) / of_table:.4f}, {slow:6.1%} above {SLOW}"
    yield f"{'worst':28} {'cuBLAS':>8} {'ours':>8} {'ratio':>6}  kernel"
    for one in sorted(found, key=lambda one: -one.ratio)[:WORST]:
        yield f"{one.shape!s:28} {one.cublas:8.1f} {one.ours:8.1f} {one.ratio:6.2f}  {one.kernel}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=TARGETS, default=TARGETS[0])
    parser.add_argument("--dtype", choices=DTYPES, default=DTYPES[0])
    parser.add_argument("--every", type=int, default=1, help="take one product of so many")
    given = parser.parse_args(arguments)
    if not (DATA / f"cublas_{given.target}_{given.dtype}.json").exists():
        parser.error(f"cuBLAS was not measured with {given.dtype} on an {given.target}; name another pair")
    for line in _lines(predictions(given.target, given.dtype, given.every), given.target, given.dtype):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())

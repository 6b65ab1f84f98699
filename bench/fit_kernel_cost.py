"""Fits constants of `legalsat.extract.cost.kernel_cost` to kernels that a GPU ran, and says how far off they are.

    python -m bench.fit_kernel_cost dense.json [more.json ...] --of LAUNCH STORED_BY_THREADS [--folds 5] [--steps 40]

Files are those of `bench.gpu.dense run` and of `bench.gpu.members run`; of the latter those kernels that are listed
today. Without constants it says how far predictions are off, by what is done to operands. What is made small is the
mean of the squared logarithm of predicted over measured time, each product counted once, by steps along one constant
after the other. With folds, products are also predicted by constants that were fitted without them. Nothing is written:
constants are set by hand, with what was seen.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.gpu.dense import MOST_LISTED
from bench.gpu.gemm import shape_of
from bench.gpu.gemm_shapes import product_of
from bench.gpu.member_cases import operator_of
from legalsat.extract.cost import kernel_cost
from legalsat.extract.cost.kernel_columns import KernelColumns
from legalsat.extract.cost.kernel_cost import Products, kernel_times
from legalsat.extract.kernels.product_kernels import each_kernel
from legalsat.plans.product_kernel import ProductKernel
from legalsat.targets import Target, target

FACTORS = (1.3, 1.1, 1.03, 1.01)  # of a step
# Columns that are truths.
FLAGS = {"swapped", "ping_pong", "in_registers", "overlapped", "by_sums", "by_rows", "turned", "by_columns"}
FLAGS |= {"clipped"} | {f"{what}_{side}" for what in ("relaid", "transposed", "aligned") for side in "ab"}


@dataclass(frozen=True)
class Timed:
    """Kernels of one product, and the nanoseconds that each was measured to take."""

    products: Products
    kernels: KernelColumns
    gpu: Target
    nanoseconds: NDArray[np.float64]

    @property
    def off(self) -> NDArray[np.float64]:
        """Logarithms of predicted over measured times."""
        found: NDArray[np.float64] = np.log(kernel_times(self.products, self.kernels, self.gpu)[0] / self.nanoseconds)
        return found


def timed_in(file: Path) -> list[Timed]:
    """Return what a file has, predicted for the GPU that it was timed on."""
    report, found = json.loads(file.read_text(encoding="utf-8")), list[Timed]()
    gpu = target("h100" if "H100" in report["machine"]["gpu"] else "h200")
    for row in report["rows"]:
        if "candidates" in row:
            found += filter(None, [_of_members(row, gpu)])
            continue
        numbers = [_told(row["kernels"][name]) | row["numbers"][name] for name in row["us"]]
        if not numbers:
            continue
        # A column that a file does not know is that of kernels which do without.
        without = [{"loaded": one["columns"], "spans_a": 1, "spans_b": 1, "buffers": 2} | one for one in numbers]
        columns = {one.name: np.array([kernel.get(one.name, 0) for kernel in without]) for one in fields(KernelColumns)}
        kernels = KernelColumns(**{name: one > 0 if name in FLAGS else one for name, one in columns.items()})
        products = Products.of([product_of(shape_of(row))], gpu)
        found.append(Timed(products, kernels, gpu, 1000 * np.array(list(row["us"].values()))))
    return found


def _of_members(row: dict[str, Any], gpu: Target) -> Timed | None:
    """Return the kernels of a batch or of groups that are listed by the words of those that were timed."""
    operator, found = operator_of(row), dict[str, ProductKernel]()
    told = {one["kernel"]: row["us"][str(n)] for n, one in enumerate(row["candidates"]) if str(n) in row["us"]}
    for _, kernel in islice(each_kernel(operator, gpu), MOST_LISTED):
        if (words := str(kernel)) in told:
            found.setdefault(words, kernel)
        if len(found) == len(told):
            break
    times = 1000 * np.array([told[words] for words in found])
    return Timed(Products.of([operator], gpu), KernelColumns.of([*found.values()]), gpu, times) if found else None


def _told(words: str) -> dict[str, bool]:
    """Return what the words of a kernel say that numbers of older files do not: which copies are transposes."""
    return {f"transposed_{side.lower()}": f"transpose {side} first" in words for side in "AB"}


def error(timed: Sequence[Timed], constants: Mapping[str, float]) -> float:
    """Return the mean squared logarithm with these constants, each product counted once."""
    with Constants(constants):
        return float(np.mean([np.mean(one.off**2) for one in timed]))


class Constants:
    """Constants of the cost as given, for the time of a block."""

    def __init__(self, values: Mapping[str, float]) -> None:
        """Remember what they are outside of the block."""
        self.values, self.before = values, {name: getattr(kernel_cost, name) for name in values}

    def __enter__(self) -> None:
        """Set them."""
        for name, value in self.values.items():
            setattr(kernel_cost, name, value)

    def __exit__(self, *_: object) -> None:
        """Set them back."""
        for name, value in self.before.items():
            setattr(kernel_cost, name, value)


def fitted(timed: Sequence[Timed], names: Sequence[str], steps: int) -> dict[str, float]:
    """Return the constants that make the error small, from those that there are."""
    found = {name: float(getattr(kernel_cost, name)) for name in names}
    least = error(timed, found)
    for step in range(steps):
        factor, better = FACTORS[min(step * len(FACTORS) // steps, len(FACTORS) - 1)], False
        for name in names:
            for by in (factor, 1 / factor):
                tried = {**found, name: found[name] * by}
                if (one := error(timed, tried)) < least:
                    least, found, better = one, tried, True
        if not better and factor == FACTORS[-1]:
            break
    return found


def said(timed: Sequence[Timed], constants: Mapping[str, float]) -> str:
    """Return how far predictions are off with these constants, and how good first choices of those timed are."""
    with Constants(constants):
        off = [one.off for one in timed]
    mean = math.exp(float(np.mean([np.mean(np.abs(one)) for one in off])))
    high = math.exp(float(np.mean([np.mean(one) for one in off])))
    chosen = [
        one.nanoseconds.min() / one.nanoseconds[np.argmin(one.nanoseconds * np.exp(by))]
        for one, by in zip(timed, off, strict=True)
    ]
    best = math.exp(float(np.mean(np.log(chosen))))
    return f"off by {mean:.4f}, {high:.4f} of the measured time in the mean, choices {best:.4f} of the best"


def by_form(timed: Sequence[Timed]) -> Iterator[str]:
    """Yield how far predictions are off for kernels that do alike with operands."""
    forms = np.concatenate([_forms(one.kernels) for one in timed])
    off = np.concatenate([one.off for one in timed])
    for form in np.unique(forms):
        mine = off[forms == form]
        mean, high = math.exp(float(np.mean(np.abs(mine)))), math.exp(float(np.mean(mine)))
        yield f"  {form:28} {len(mine):5} kernels, off by {mean:.4f}, {high:.4f} of the measured time in the mean"


def _forms(kernels: KernelColumns) -> NDArray[np.str_]:
    """Return what is done to operands, by the words of kernels."""
    ways = {
        "A realigned in registers": kernels.in_registers,
        "A phase-shifted along K": kernels.phases > 1,
        "B in phases of K": kernels.slides > 0,
        "aligned in shared memory": kernels.aligned_a | kernels.aligned_b,
        "padded or transposed first": kernels.relaid_a | kernels.relaid_b,
    }
    return np.select([*ways.values()], [*ways], "as operands lie")


def main() -> int:
    """Fit, and say what was found."""
    parser = argparse.ArgumentParser(prog="python -m bench.fit_kernel_cost")
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--of", nargs="+", default=[], metavar="CONSTANT")
    parser.add_argument("--folds", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    asked = parser.parse_args()
    timed = [one for file in asked.files for one in timed_in(file)]
    now: dict[str, Any] = {name: getattr(kernel_cost, name) for name in asked.of}
    print(f"{len(timed)} products, {sum(len(one.nanoseconds) for one in timed)} kernels")
    print("as it is:", said(timed, now))
    if not asked.of:
        print(*by_form(timed), sep="\n")
        return 0
    found = fitted(timed, asked.of, asked.steps)
    print("fitted:  ", said(timed, found))
    for name, value in found.items():
        print(f"  {name} = {value:.4g}  # {now[name]:.4g} before")
    if asked.folds:
        order = list(range(len(timed)))
        random.Random(1).shuffle(order)
        held: list[str] = []
        for fold in range(asked.folds):
            out = set(order[fold :: asked.folds])
            kept = fitted([one for i, one in enumerate(timed) if i not in out], asked.of, asked.steps)
            held.append(said([timed[i] for i in out], kept))
        print("held out:", *held, sep="\n  ")
    return 0


if __name__ == "__main__":
    sys.exit(main())

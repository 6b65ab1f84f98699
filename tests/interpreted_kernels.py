"""Kernels run by the interpreter, against numpy."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

import legalsat as ls
from bench.kernels.interpreted import drawn_numbers, exact
from legalsat.extract.kernels.interpreter import interpret
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.targets import target


def assert_exact(kinds: Iterable[tuple[ls.Gemm, ProductKernel]]) -> None:
    """Each kernel gives its product, some ends of rows of A and beginnings of B's being infinite."""
    for seed, (gemm, kernel) in enumerate(kinds):
        a, b = (one.astype(float) for one in drawn_numbers(gemm, seed))
        a[3::17, -1], b[5::19, 0] = np.inf, -np.inf
        with np.errstate(invalid="ignore"):
            found = interpret(GemmPlan(gemm, target("h200"), kernel), a, b, clusters=2, seed=seed)
            assert np.array_equal(found, exact(gemm, a, b), equal_nan=True), f"{gemm}: {kernel}"

"""Do plans of products compute the product? Their kernels run on numpy, without a GPU.

    python -m bench.kernels.interpreted [PLANS] [SEED]     # 500 random products by random kernels when left out

Every role of every CTA runs its program in an order that chance decides; loads, multiplications and stores take effect
at any time that the program allows. Maps act as the copy engine's model says, descriptors as the matrix unit's. All is
compared with numpy, every element, and bytes around C. Writes bench/results/interpreted.json.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from typing import Any

import numpy as np

import legalsat as ls
from bench.kernels.conformance import name_of
from bench.machine import RESULTS
from legalsat.dtypes import dtype as dtype_of
from legalsat.errors import LegalSatError
from legalsat.extract.kernels.encoded import decoded, encoded
from legalsat.extract.kernels.interpreter import interpret
from legalsat.extract.kernels.product_class import LEAST_SHARED_TURNS
from legalsat.extract.kernels.product_kernels import product_kernels
from legalsat.extract.kernels.product_maps import ROW_BYTES
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.targets import target
from legalsat.tensor import plain

TARGET, PLANS, SEED = "h200", 500, 11
RESULT = RESULTS / "interpreted.json"
TOGETHER = 0.5  # of the plans, of which all clusters run at once
SHARED_OUT = 0.15  # of the plans, by stream-K, which no others of so few tiles and so short k are


def drawn_numbers(gemm: ls.Gemm, seed: int) -> tuple[Any, Any]:
    """Return small whole numbers for A and B, whose sums are exact."""
    r = np.random.default_rng(seed)
    low, high = (0, 5) if gemm.dtype.kind == "uint" else (-2, 3)
    return r.integers(low, high, plain(gemm.a.shape)), r.integers(low, high, plain(gemm.b.shape))


def exact(gemm: ls.Gemm, a: Any, b: Any) -> Any:
    """Return C, each element rounded to its type."""
    name = gemm.out_dtype.name
    return decoded(encoded(a.astype(np.float64) @ b.swapaxes(-1, -2).astype(np.float64), name), name)


def small(gemm: ls.Gemm, kernel: ProductKernel, r: random.Random) -> ls.Gemm:
    """Return a small product that a kernel is for: operands lie alike, extents leave the same rest by 128."""

    def extent(of: int, least: int = 0) -> int:
        rest = of % 128
        return 128 * (least + r.randint(0, 1)) + rest if rest else 128 * (least + r.randint(1, 2))

    least = max(1, kernel.slides) * kernel.tile[2] * kernel.least_k_tiles  # of each phase
    m, n, k = extent(gemm.m), extent(gemm.n), extent(gemm.k, -(-least // 128))
    batch = (2,) if gemm.batch else ()

    def alike(rows: int, one: ls.Tensor) -> ls.Tensor:
        lines = (k, 1) if one.strides[-1] == 1 else (1, rows)
        return ls.Tensor((*batch, rows, k), gemm.dtype, (*(rows * k for _ in batch), *lines))

    a, b = alike(m, gemm.a), alike(n, gemm.b)
    return ls.Gemm(m, n, k, gemm.dtype, out_dtype=gemm.out_dtype, a=a, b=b, batch=batch)


def drawn_plan(r: random.Random) -> GemmPlan:
    """Return a random product of any extents, types, pitches and majors, by one of its kernels."""
    while True:
        m, n = (r.choice((r.randint(1, 40), 8 * r.randint(1, 40), r.randint(1, 300))) for _ in range(2))
        k = r.choice((r.randint(1, 200), 64 * r.randint(1, 12), r.randint(1, 900)))
        dtype = r.choice(("bf16", "bf16", "fp16", "e4m3", "fp32", "tf32", "i8", "u8"))
        shared_out = r.random() < SHARED_OUT  # whose k-tiles clusters share out, which are many then
        if shared_out:
            turns = LEAST_SHARED_TURNS + r.randint(1, 9)
            k = turns * ROW_BYTES // dtype_of(dtype).bytes - r.choice((0, 16, r.randint(1, 31)))
        out = r.choice((None, None, {"i8": "i8", "u8": "i8", "bf16": "e4m3", "fp16": "e5m2"}.get(dtype)))
        a, b = (
            ls.Tensor((rows, k), dtype, r.choice(((k + r.choice((0, 0, 1, 8)), 1), (1, rows + r.choice((0, 0, 1, 8))))))
            for rows in (m, n)
        )
        gemm = ls.Gemm(m, n, k, dtype, out_dtype=out, a=a, b=b)
        kernels = [one for _, one in product_kernels(gemm, target(TARGET)) if -(-k // one.tile[2]) >= one.least_k_tiles]
        kernels = [one for one in kernels if one.stream_k == shared_out]
        if kernels:
            return GemmPlan(gemm, target(TARGET), r.choice(kernels))


def main(count: int = PLANS, seed: int = SEED) -> int:
    """Run, print and write; return 1 where an element is wrong."""
    r = random.Random(seed)
    started = time.process_time()
    kinds, wrong = Counter[str](), list[str]()
    for number in range(count):
        plan = drawn_plan(r)
        assert plan.kernel is not None
        kinds[name_of(plan.kernel)] += 1
        a, b = drawn_numbers(plan.operator, number)
        clusters, together = r.randint(1, 8 if plan.kernel.stream_k else 3), r.random() < TOGETHER
        try:
            got = interpret(plan, a, b, clusters=clusters, seed=number, together=together)
            off = int((got != exact(plan.operator, a, b)).sum())
            told = f"{off} elements wrong" if off else ""
        except LegalSatError as error:
            told = str(error)
        if told:
            wrong.append(f"{plan.operator}: {plan.kernel}: {told}")
            print(wrong[-1], flush=True)
    seconds = round(time.process_time() - started, 1)
    print(f"{count - len(wrong)} of {count} plans right, of {len(kinds)} classes, {seconds} s")
    found = {"target": TARGET, "seed": seed, "plans": count, "classes": len(kinds), "wrong": wrong, "seconds": seconds}
    RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))

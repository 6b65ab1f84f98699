"""Which batches and groups `bench.gpu.members` times or checks, as plain numbers, and their operators."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

ROUTINGS = ("uniform", "zipf", "sparse")
OF = ("bmm", "drawn", "grouped", "odd", "gradients", "clipped", "scaled", "random", "loose", "cut")
CHECKED = OF[-3:]  # alone, not timed
BMM = (  # batch, m, n, k
    (64, 1024, 1024, 128), (64, 1024, 1024, 127), (64, 1024, 1023, 128), (128, 577, 577, 64), (128, 577, 64, 577),
    (256, 197, 197, 64), (256, 197, 64, 197), (16, 2048, 2047, 2048), (16, 2048, 2048, 2047), (16, 2047, 2048, 2048),
    (16, 2048, 2048, 2048), (32, 512, 512, 512), (32, 511, 513, 515), (96, 384, 64, 384), (96, 384, 65, 384),
    (8, 4096, 4096, 128), (8, 4095, 4097, 128), (12, 1500, 1500, 64), (12, 1500, 64, 1500), (48, 1024, 128, 1000),
    (48, 1024, 128, 1001), (256, 128, 128, 128), (256, 129, 127, 128), (64, 257, 257, 88), (64, 257, 88, 257),
    (4, 3000, 3000, 3000), (4, 3001, 2999, 3001), (200, 196, 320, 320), (200, 196, 321, 320), (32, 1370, 1370, 64),
)  # fmt: skip
GROUPED = (  # rows, groups, n, k, routing
    (8192, 8, 4096, 4096, "uniform"), (8192, 64, 2048, 2048, "uniform"), (8192, 128, 1536, 2048, "uniform"),
    (4096, 256, 2048, 7168, "uniform"), (16384, 32, 1408, 2048, "uniform"), (1024, 64, 2048, 2048, "uniform"),
    (8192, 64, 2048, 2048, "zipf"), (8192, 128, 1536, 2048, "sparse"), (4096, 256, 7168, 2048, "zipf"),
    (16384, 8, 14336, 4096, "zipf"), (16384, 8, 4096, 14336, "uniform"), (4096, 8, 14336, 4096, "uniform"),
    (8192, 128, 2048, 768, "zipf"), (8192, 64, 2816, 2048, "sparse"), (8192, 64, 2047, 2048, "uniform"),
    (8192, 64, 2048, 2047, "uniform"),
)  # fmt: skip

GRADIENTS = (  # rows of the weights, groups, their columns, tokens, routing
    (2048, 64, 2048, 8192, "uniform"), (2048, 128, 1536, 8192, "uniform"), (2048, 32, 1408, 16384, "uniform"),
    (2048, 64, 2048, 8192, "zipf"), (4096, 8, 14336, 16384, "uniform"), (768, 128, 2048, 8192, "sparse"),
    (2048, 64, 2047, 8192, "uniform"),
)  # fmt: skip
CLIPPED = (  # as GRADIENTS, and a type; both operands lie along k
    *((*one, "e4m3") for one in GRADIENTS[:6]),
    *((*GRADIENTS[i], "bf16") for i in (0, 2, 3, 4)),
    *((*GRADIENTS[i], dtype) for dtype in ("i8", "fp32") for i in (2, 4)),
)
TYPES = ("e4m3", "bf16", "i8", "fp32", "e5m2", "fp16", "u8")

ODD = (  # each three behind one whose extents are whole
    *((8192, 64, n, k, "uniform") for n, k in ((2048, 2048), (2048, 2047), (2047, 2048), (2047, 2047))),
    *((16384, 32, n, k, "zipf") for n, k in ((1408, 2048), (1408, 2041), (1403, 2048), (1403, 2041))),
    *((8192, 8, n, k, "uniform") for n, k in ((4096, 4096), (4096, 4095), (4093, 4096), (4093, 4095))),
    *((8192, 128, n, k, "sparse") for n, k in ((1536, 2048), (1536, 2043), (1535, 2048), (1535, 2043))),
)
SCALED = (
    (8192, 64, 2048, 2048, "uniform"), (8192, 128, 1536, 2048, "uniform"), (4096, 256, 2048, 7168, "uniform"),
    (16384, 32, 1408, 2048, "zipf"), (1024, 64, 2048, 2048, "sparse"), (16384, 8, 4096, 14336, "uniform"),
    (16384, 8, 14336, 4096, "zipf"),
)  # fmt: skip

LISTED = {"grouped": GROUPED, "odd": ODD, "gradients": GRADIENTS, "scaled": SCALED}


def ends_of(rows: int, groups: int, routing: str, seed: int) -> list[int]:
    """Return where groups end, rows given to them at random: alike, by Zipf's law, or to three in ten groups alone."""
    rng = random.Random(f"{rows} {groups} {routing} {seed}")
    weights = [1.0] * groups
    if routing == "zipf":
        weights = [1 / (1 + i) for i in range(groups)]
        rng.shuffle(weights)
    elif routing == "sparse":
        weights = [float(rng.random() < 0.3) for _ in range(groups)]
        weights[rng.randrange(groups)] = 1.0
    sizes = [0] * groups
    for group in rng.choices(range(groups), weights, k=rows):
        sizes[group] += 1
    found, end = list[int](), 0
    for size in sizes:
        end += size
        found.append(end)
    return found


def drawn(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Yield batches with work and memory enough to be timed."""
    for _ in range(30):
        n, k = (round(math.exp(rng.uniform(math.log(low), math.log(2048)))) for low in (64, 64))
        m = round(math.exp(rng.uniform(math.log(128), math.log(2048))))
        m, n, k = (one if rng.random() < 0.6 else -(-one // 8) * 8 for one in (m, n, k))
        moved, work = 2 * (m * k + n * k + m * n), m * n * k
        batch = max(4, min(256, round(rng.uniform(5e7, 4e8) / moved), round(1.5e11 / work)))
        yield {"kind": "bmm", "batch": [batch], "m": m, "n": n, "k": k}


def loose(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Yield small batches, and groups of rows, of which most begin anywhere."""
    for _ in range(24):
        m, n, k = (rng.randrange(9, 400) for _ in range(3))
        batch = [rng.randrange(2, 9) for _ in range(rng.choice((1, 2)))]
        yield {"kind": "bmm", "batch": batch, "m": m, "n": n, "k": k}
    for _ in range(16):
        m, n, k = rng.randrange(9, 2000), rng.randrange(9, 400), 2 * rng.randrange(9, 200) - 1
        yield {"kind": "grouped", "groups": rng.randrange(1, 40), "m": m, "n": n, "k": k, "routing": "zipf"}


def cut(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Yield small groups along k, of operands that lie along it, or one of which does."""
    for number in range(4 * len(TYPES)):
        dtype = TYPES[number % len(TYPES)]
        m, n, k = rng.randrange(1, 400), rng.randrange(1, 400), rng.randrange(1, 3000)
        m, n = (one if rng.random() < 0.3 else 8 * -(-one // 8) for one in (m, n))
        pitch = k if rng.random() < 0.25 else 16 * -(-k // 16)
        majors = rng.choice(("KM", "MK")) if dtype in {"bf16", "fp16"} and rng.random() < 0.3 else "KK"
        case = {"kind": "gradients", "groups": rng.randrange(1, 40), "m": m, "n": n, "k": k, "routing": "zipf"}
        yield {**case, "dtype": dtype, "majors": majors, "pitch": pitch}


def cases(of: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what is to be computed, as plain numbers."""
    rng = random.Random(seed)
    if of in DRAWN:
        yield from DRAWN[of](rng)
        return
    if of == "bmm":
        for batch, m, n, k in BMM:
            yield {"kind": "bmm", "batch": [batch], "m": m, "n": n, "k": k}
    elif of == "clipped":
        for m, groups, n, k, routing, dtype in CLIPPED:
            case = {"kind": "gradients", "groups": groups, "m": m, "n": n, "k": k, "routing": routing}
            yield {**case, "dtype": dtype, "majors": "KK", "pitch": k}
    elif of in LISTED:
        kind = "grouped" if of == "odd" else of
        for m, groups, n, k, routing in LISTED[of]:
            yield {"kind": kind, "groups": groups, "m": m, "n": n, "k": k, "routing": routing}
    else:
        for _ in range(16):
            m, n, k = (rng.randrange(1, 400) for _ in range(3))
            yield {
                "kind": "bmm",
                "batch": [rng.randrange(1, 9) for _ in range(rng.choice((1, 2)))],
                "m": m,
                "n": n,
                "k": k,
            }
            n, k = (one if rng.random() < 0.4 else 8 * -(-one // 8) for one in (n, k))
            yield {"kind": "grouped", "groups": rng.randrange(1, 40), "m": 5 * m, "n": n, "k": k, "routing": "zipf"}
            yield {"kind": "scaled", "groups": rng.randrange(1, 40), "m": 5 * m, "n": n, "k": k, "routing": "zipf"}
            m, n = (one if rng.random() < 0.3 else 8 * -(-one // 8) for one in (m, n))
            yield {"kind": "gradients", "groups": rng.randrange(1, 40), "m": m, "n": n, "k": 5 * k, "routing": "zipf"}


DRAWN: dict[str, Callable[[random.Random], Iterator[dict[str, Any]]]] = {"drawn": drawn, "loose": loose, "cut": cut}


def operator_of(case: dict[str, Any]) -> Any:
    """Return the operator of a case, B as torch's bmm has it, or as weights of experts lie: K-major."""
    from legalsat import Gemm, GroupedGemm, Tensor  # noqa: PLC0415 - the GPU's machine has no solver

    m, n, k = (case[name] for name in "mnk")
    if case["kind"] == "grouped":
        return GroupedGemm(m, n, k, "bf16", groups=case["groups"])
    if case["kind"] == "scaled":
        return GroupedGemm(m, n, k, "e4m3", groups=case["groups"], scaled="rows")
    if case["kind"] == "gradients":  # operands have a row for each token, or lie along k
        dtype, pitch = case.get("dtype", "bf16"), case.get("pitch", k)
        a, b = (
            Tensor((extent, k), dtype, (pitch, 1) if major == "K" else (1, extent))
            for extent, major in zip((m, n), case.get("majors", "MM"), strict=True)
        )
        return GroupedGemm(m, n, k, dtype, groups=case["groups"], along="k", a=a, b=b)
    batch = tuple(case["batch"])
    steps = [n * k * math.prod(batch[i + 1 :]) for i in range(len(batch))]
    return Gemm(m, n, k, "bf16", batch=batch, b=Tensor((*batch, n, k), "bf16", (*steps, 1, n)))

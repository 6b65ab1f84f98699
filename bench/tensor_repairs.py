"""Repairs of random illegal tensors: each is applied and judged again, and small ones compared with every padding.

    python -m bench.tensor_repairs [COUNT] [--seconds 180]

A tensor counts as missed if an offered repair is not legal, if a layout would do and none is offered, or if exhaustive
search over all longer pitches finds one that adds fewer bytes, or as many with fewer strides changed, or a smaller
alignment. Explanations of products are timed as well: of every shape of the shipped catalogue, and of odd ones, each
asked for once in a process that has explained others. Result: bench/results/tensor_repairs.json.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import legalsat as ls
from legalsat.demo import shapes
from legalsat.extract.tensor_repair import boxed
from legalsat.operators import Copy, padded
from legalsat.targets import target
from legalsat.tensor import Tensor, plain

RESULT = Path(__file__).parent / "results" / "tensor_repairs.json"
TARGET = "h200"
DTYPES = ("u8", "i8", "e4m3", "bf16", "fp16", "fp32", "fp64", "i64")
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 31, 33, 60, 63, 64, 65, 100, 127, 1000, 4095)
SMALL_EXTENTS = (1, 2, 3, 4, 5, 6, 8)
TILES = (1, 2, 4, 8, 16, 30, 32, 60, 64, 128)
MOST_PADDINGS = 150  # that are tried one by one for a tensor


@dataclass(frozen=True, slots=True)
class Case:
    """A tensor with the options of its explanation, and whether it is small enough to try every padding."""

    tensor: Tensor
    tile: tuple[int, ...] | None
    consumer: str | None
    small: bool

    @property
    def operator(self) -> Copy:
        """What is explained."""
        return Copy(self.tensor, tile=self.tile, consumer=self.consumer)  # type: ignore[arg-type]

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments of `explain`."""
        return {"tile": self.tile, "consumer": self.consumer}


@dataclass(slots=True)
class Outcome:
    """What was found of one illegal tensor: kinds of repairs, milliseconds of explain, paddings tried, and misses."""

    kinds: list[str]
    milliseconds: float
    tried: int = 0
    exhausted: bool = False
    misses: list[str] = field(default_factory=list)


def cases(seed: int) -> Iterator[Case]:
    """Yield random tensors without end, legal ones among them."""
    draw = random.Random(seed)
    for _ in count():
        small = draw.random() < 0.4
        rank = draw.choice((1, 2, 2, 3) if small else (1, 2, 2, 2, 3, 4, 5))
        shape = tuple(draw.choice(SMALL_EXTENTS if small else EXTENTS[: None if rank < 4 else 12]) for _ in range(rank))
        dtype = draw.choice(DTYPES)
        align = draw.choice((256, 256, 256, 16, 8, 4))
        tensor = Tensor(shape, dtype, _strides(draw, shape), align)
        if align == 256 and draw.random() < 0.15:
            tensor = Tensor(shape, dtype, tensor.strides, 256, draw.randrange(1, 16) * tensor.dtype.bytes % 256)
        tile = tuple(draw.choice(TILES[:6] if rank > 2 else TILES) for _ in shape) if draw.random() < 0.7 else None
        consumer = draw.choice((None, None, None, "threads"))
        if tile is not None and rank == 2 and draw.random() < 0.3:
            tile, consumer = (draw.choice((64, 128)), draw.choice((16, 32, 64))), draw.choice(("wgmma.a", "wgmma.b"))
        yield Case(tensor, tile, consumer, small)


def _strides(draw: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides: axes in any order, each dense, an element or a few apart, or skipping elements."""
    order = list(range(len(shape)))
    if draw.random() < 0.3:
        draw.shuffle(order)
    strides, step = [0] * len(shape), draw.choice((1,) * 12 + (2,))
    for axis in reversed(order):
        strides[axis] = step
        step = step * shape[axis] + draw.choice((0, 0, 0, 0, 1, 2, 3, 8))
    return tuple(strides)


def paddings(tensor: Tensor, most_span: int) -> Iterator[tuple[int, ...]]:
    """Yield all longer strides that span at most so many elements, each axis stepping over what lies inside it."""
    shape, strides = plain(tensor.shape), plain(tensor.strides)
    order = sorted((a for a in range(tensor.rank) if shape[a] > 1), key=lambda a: (strides[a], shape[a]))

    def longer(pitch: tuple[int, ...], place: int, span: int, kept: bool) -> Iterator[tuple[int, ...]]:
        if place == len(order):
            yield pitch
            return
        axis = order[place]
        low = strides[axis] if kept else max(strides[axis], span)
        for stride in range(low, (most_span - span) // (shape[axis] - 1) + 1):
            same = stride == strides[axis]
            if not same and stride < span:
                continue  # what changes has memory of its own
            made = (*pitch[:axis], stride, *pitch[axis + 1 :])
            yield from longer(made, place + 1, span + (shape[axis] - 1) * stride, kept and same)

    return longer(strides, 0, 1, True)


def smaller(case: Case, pitch: tuple[int, ...]) -> tuple[tuple[int, ...] | None, int, bool]:
    """Return a legal padding that is smaller than the one offered, how many were tried, and whether those were all."""
    tensor = case.tensor
    strides = plain(tensor.strides)

    def size(one: tuple[int, ...]) -> tuple[int, int]:
        return Tensor(tensor.shape, tensor.dtype, one).span_bits, sum(map(int.__ne__, one, strides))

    offered = size(pitch)
    rivals = [p for p in _some(paddings(tensor, offered[0] // tensor.dtype.bits)) if p != strides and size(p) < offered]
    rivals.sort(key=size)
    base = {"align": tensor.align, "offset": tensor.offset} if tensor.address % 16 == 0 else {}
    for number, rival in enumerate(rivals[:MOST_PADDINGS], start=1):
        other = Tensor(tensor.shape, tensor.dtype, rival, **base)
        if boxed(Copy(other, tile=case.tile, consumer=case.consumer), target(TARGET)) is not None:  # type: ignore[arg-type]
            return rival, number, True
    return None, min(len(rivals), MOST_PADDINGS), len(rivals) <= MOST_PADDINGS


def _some(found: Iterator[tuple[int, ...]], most: int = 20_000) -> list[tuple[int, ...]]:
    return [one for one, _ in zip(found, range(most), strict=False)]


def outcome(case: Case) -> Outcome | None:
    """Return what comes of one tensor; None if it is legal."""
    chip = target(TARGET)
    begin = time.perf_counter()
    found = ls.explain(case.tensor, chip, **case.options)
    result = Outcome([r.kind for r in found.repairs], 1e3 * (time.perf_counter() - begin))
    if found.legal:
        return None
    if not found.diagnostics:
        result.misses.append("refused without a reason")
    for repair in found.repairs:
        if repair.kind == "fall back":
            ok = repair.after == case.tensor and found.plan is not None
        else:
            options = case.options if isinstance(repair.after, Tensor) else {}
            ok = ls.explain(repair.after, chip, **options).legal
        if not ok:
            result.misses.append(f"{repair.kind} is not legal: {repair.message}")
        if repair.kind == "align":
            less = Tensor(case.tensor.shape, case.tensor.dtype, case.tensor.strides, repair.after.align // 2)
            if boxed(Copy(less, tile=case.tile, consumer=case.consumer), chip) is not None:  # type: ignore[arg-type]
                result.misses.append(f"align to {less.align} would do")
        if repair.kind == "pad" and case.small:
            rival, result.tried, result.exhausted = smaller(case, plain(repair.after.strides))
            if rival is not None:
                result.misses.append(f"strides {rival} would do instead of {repair.after.strides}")
    if all(kind == "fall back" for kind in result.kinds):
        suited = Copy(padded(case.tensor), tile=case.tile, consumer=case.consumer)  # type: ignore[arg-type]
        if boxed(suited, chip) is not None:
            result.misses.append("a padded copy would do, and nothing is offered")
    return result


def measure(wanted: int, seconds: float, seed: int = 1) -> dict[str, Any]:
    """Return counts over so many illegal tensors, fewer if time runs out."""
    end = time.monotonic() + seconds
    outcomes: list[Outcome] = []
    misses = []
    kinds: Counter[str] = Counter()
    for case in cases(seed):
        if len(outcomes) == wanted or time.monotonic() > end:
            break
        found = outcome(case)
        if found is None:
            continue
        outcomes.append(found)
        kinds.update(set(found.kinds))
        misses += [f"{case.operator}, consumer {case.consumer}: {miss}" for miss in found.misses]
        if sys.stderr.isatty():
            print(f"{len(outcomes)} of {wanted} tensors, {len(misses)} misses", end="\r", file=sys.stderr, flush=True)
    times = sorted(one.milliseconds for one in outcomes)
    searched = [one for one in outcomes if one.tried]
    return {
        "command": "python -m bench.tensor_repairs",
        "target": TARGET,
        "illegal_tensors": len(outcomes),
        "repairs": sum(len(one.kinds) for one in outcomes),
        "tensors_with_a_repair_of_kind": dict(sorted(kinds.items())),
        "without_any_repair": sum(not one.kinds for one in outcomes),
        "only_falling_back": sum(bool(one.kinds) and set(one.kinds) == {"fall back"} for one in outcomes),
        "compared_with_all_paddings": len(searched),
        "of_these_to_the_end": sum(one.exhausted for one in searched),
        "paddings_tried": sum(one.tried for one in searched),
        "explain_milliseconds": {"p50": _at(times, 0.5), "p95": _at(times, 0.95)},
        "misses": misses,
    }


def products(wanted: int = 200, seed: int = 1) -> dict[str, Any]:
    """Return how long explanations of products take: shapes of the catalogue, then odd ones, bf16 and e4m3."""
    draw = random.Random(seed)
    catalogue = shapes()
    extents = [tuple(one) for one in (*catalogue["entries"], *catalogue["cliff"]["entries"])][: wanted // 2]
    while len(extents) < wanted:
        extents.append(tuple(draw.choice((draw.randrange(1, 9000), 8 * draw.randrange(1, 1100))) for _ in "mnk"))
    for warm in ((256, 256, 256), (256, 256, 255)):
        ls.explain(ls.Gemm(*warm, "bf16"), TARGET)
    times: dict[bool, list[float]] = {True: [], False: []}
    for m, n, k in extents:
        product = ls.Gemm(m, n, k, draw.choice(("bf16", "bf16", "e4m3")))
        begin = time.perf_counter()
        found = ls.explain(product, TARGET)
        times[found.legal].append(1e3 * (time.perf_counter() - begin))
    rows = {"all": times[True] + times[False], "legal": times[True], "refused": times[False]}
    return {
        name: {"count": len(row), "p50": _at(sorted(row), 0.5), "p95": _at(sorted(row), 0.95)}
        for name, row in rows.items()
    }


def _at(times: list[float], share: float) -> float:
    return round(times[min(int(len(times) * share), len(times) - 1)], 1) if times else 0.0


def main() -> int:
    """Run, print the counts, and keep them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=180.0)
    args = parser.parse_args()
    found = measure(args.count, args.seconds)
    found["explain_products_milliseconds"] = products()
    text = json.dumps(found, indent=1)
    print(text)
    RESULT.write_text(text + "\n", encoding="utf-8")
    return int(bool(found["misses"]))


if __name__ == "__main__":
    sys.exit(main())

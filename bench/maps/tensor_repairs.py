"""Repairs of random refused tensors and operators: each is applied, judged again, timed, and compared with all others.

    python -m bench.maps.tensor_repairs [COUNT] [--seconds 540]

Copies, transposes and paddings, on several GPUs, for 1 to 10,000 uses. A subject counts as missed if its verdict is not
that of the encode call's rules in plain numbers (`bench.maps.row_search`); if an offered repair is not legal; if totals
are not once + uses x time, repairs not in their order, or one that is slower than changing nothing above it; if a
layout would do and none is offered; or if exhaustive search finds a repair of the same kind that adds fewer bytes.
Products are explained and timed as well: every shape of the shipped catalogue, and odd ones, each asked for once in a
process that has explained others; their repairs must be in the order of their totals too.
Result: bench/results/tensor_repairs.json.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice, pairwise
from typing import Any

import legalsat as ls
from bench.machine import RESULTS
from bench.maps.row_search import Lies, least_dense, paddings, smaller_padding, smaller_view, span
from legalsat.demo import shapes
from legalsat.extract.explain.tensor_repair import boxed, mended, with_source
from legalsat.operators import MATRIX_CONSUMERS, Copy, Move, Pad, Transpose, padded
from legalsat.targets import target
from legalsat.tensor import Tensor, plain

RESULT = RESULTS / "tensor_repairs.json"
TARGETS = ("h200", "h200", "h200", "b200", "rtx5090")
DTYPES = ("u8", "i8", "e4m3", "bf16", "fp16", "fp32", "fp64", "i64")
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 31, 33, 60, 63, 64, 65, 100, 127, 1000, 4095)
SMALL_EXTENTS = (1, 2, 3, 4, 5, 6, 8)
TILES = (1, 2, 4, 8, 16, 30, 32, 60, 64, 128)
USES = (1, 10, 100, 10_000)
# Of an operator that no plain rule judges: paddings that are planned one by one, and the elements that it has at most.
MOST_PADDINGS, MOST_PLANNED = 150, 300


@dataclass(frozen=True, slots=True)
class Case:
    """What is explained, for which GPU and how many uses; of a tensor with options the copy that it stands for."""

    operator: Move
    alone: bool
    target: str
    uses: int

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments of `explain`, but for uses."""
        return {"tile": self.operator.tile, "consumer": self.operator.consumer} if self.alone else {}

    def explained(self) -> ls.Explanation:
        """Return the explanation."""
        subject = self.operator.source if self.alone else self.operator
        return ls.explain(subject, self.target, uses=self.uses, **self.options)

    @property
    def by_plain_rules(self) -> bool:
        """Whether plain rules of the encode call are all that decides: one box of bytes for no matrix unit."""
        one = self.operator
        if not isinstance(one, Copy) or one.consumer in MATRIX_CONSUMERS or one.target != Copy(one.source).target:
            return False
        return one.tile is None or (math.prod(one.tile) * one.source.dtype.bytes <= 2**16 and max(one.tile) <= 128)


@dataclass(slots=True)
class Outcome:
    """What was found of one refused subject: kinds of repairs, milliseconds of explain, layouts tried, and misses."""

    kinds: list[str]
    milliseconds: float
    tried: int = 0
    searched: int = 0
    misses: list[str] = field(default_factory=list)


def cases(seed: int) -> Iterator[Case]:
    """Yield random tensors and operators without end, legal ones among them."""
    draw = random.Random(seed)
    for _ in count():
        small = draw.random() < 0.4
        rank = draw.choice((1, 2, 2, 3) if small else (1, 2, 2, 2, 3, 4, 5, 6))
        shape = tuple(draw.choice(SMALL_EXTENTS if small else EXTENTS[: None if rank < 4 else 12]) for _ in range(rank))
        dtype = draw.choice(DTYPES)
        align = draw.choice((256, 256, 256, 16, 8, 4))
        tensor = Tensor(shape, dtype, _strides(draw, shape), align)
        if align == 256 and draw.random() < 0.15:
            tensor = Tensor(shape, dtype, tensor.strides, 256, draw.randrange(1, 16) * tensor.dtype.bytes % 256)
        tile = (
            tuple(draw.choice((*TILES[: 6 if rank > 2 else None], n)) for n in shape) if draw.random() < 0.7 else None
        )
        consumer = draw.choice((None, None, None, "threads"))
        if tile is not None and rank == 2 and draw.random() < 0.3:
            tile, consumer = (draw.choice((64, 128)), draw.choice((16, 32, 64))), draw.choice(("wgmma.a", "wgmma.b"))
        chip = "h200" if consumer in MATRIX_CONSUMERS else draw.choice(TARGETS)
        operator: Move = Copy(tensor, tile=tile, consumer=consumer)  # type: ignore[arg-type]
        kind = draw.random()
        if kind < 0.12 and rank > 1:
            operator = Transpose(tensor, draw.sample(range(rank), rank), tile=tile)
        elif kind < 0.2 and rank <= 3:
            around = tuple((draw.choice((0, 0, 1, 3, 8)), draw.choice((0, 0, 1, 3, 8))) for _ in shape)
            operator = Pad(tensor, around)
        yield Case(operator, isinstance(operator, Copy) and kind < 0.8, chip, draw.choice(USES))


def _strides(draw: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return strides: axes in any order, each dense, an element or a few apart, or skipping elements; some repeated."""
    order = list(range(len(shape)))
    if draw.random() < 0.3:
        draw.shuffle(order)
    strides, step = [0] * len(shape), draw.choice((1,) * 12 + (2,))
    for axis in reversed(order):
        strides[axis] = step
        step = step * shape[axis] + draw.choice((0, 0, 0, 0, 1, 2, 3, 8))
    if draw.random() < 0.05:
        strides[draw.randrange(len(shape))] = 0
    return tuple(strides)


def outcome(case: Case) -> Outcome | None:
    """Return what comes of one subject; None if it is legal, as it should be."""
    begin = time.perf_counter()
    found = case.explained()
    result = Outcome([r.kind for r in found.repairs], 1e3 * (time.perf_counter() - begin))
    result.misses += _verdict_misses(case, found)
    if found.legal:
        return result if result.misses else None
    result.misses += _order_misses(case, found)
    for repair in found.repairs:
        if repair.mends:
            options = case.options if isinstance(repair.after, Tensor) else {}
            if not ls.explain(repair.after, case.target, **options).legal:
                result.misses.append(f"{repair.kind} is not legal: {repair.message}")
            result.misses += _changed(case, repair)
            result.misses += _smaller(case, repair, result)
        elif found.plan is None or repair.nanoseconds != found.plan.cost.nanoseconds:
            result.misses.append("changing nothing is not what is planned")
    if not any(repair.mends for repair in found.repairs):
        suited = with_source(case.operator, padded(case.operator.source))
        if mended(suited, target(case.target)) is not None:
            result.misses.append("a padded copy would do, and nothing is offered")
    return result


def _verdict_misses(case: Case, found: ls.Explanation) -> Iterator[str]:
    if not found.legal and not found.diagnostics:
        yield "refused without a reason"
    sides = isinstance(case.operator, Copy)  # of others both tensors may have the same cause
    codes = [(d.code, "" if sides else d.where) for d in found.diagnostics if d.level == "error"]
    if len(codes) != len(set(codes)):
        yield "one cause is told twice"
    if case.by_plain_rules and found.legal != _encodes(case.operator.source, case.operator.tile):
        yield f"the encode call's rules say {'refused' if found.legal else 'legal'}"


def _encodes(tensor: Tensor, tile: tuple[int, ...] | None) -> bool:
    return _lies(tensor, tile).encodes


def _lies(tensor: Tensor, tile: tuple[int, ...] | None) -> Lies:
    return Lies(plain(tensor.shape), plain(tensor.strides), tensor.dtype.bytes, tensor.address, tile)


def _order_misses(case: Case, found: ls.Explanation) -> Iterator[str]:
    totals = [repair.once + case.uses * (repair.nanoseconds or 0.0) for repair in found.repairs]
    if any(abs(one - (repair.total or 0.0)) > 0.1 for one, repair in zip(totals, found.repairs, strict=True)):
        yield "a total is not applying once and all uses"
    if any(one > other + 0.1 for one, other in pairwise(totals)):
        yield "not in the order of totals"
    for place, repair in enumerate(found.repairs):
        if not repair.mends and any(one > totals[place] + 0.1 for one in totals[:place]):
            yield "a slower repair stands above changing nothing"


def _changed(case: Case, repair: ls.Repair) -> Iterator[str]:
    """Yield what a repair changes without saying so: other elements, another shape, other tiles."""
    before, after = case.operator, repair.after
    source = after if isinstance(after, Tensor) else after.source
    if repair.kind in ("split", "padding"):
        return  # they say so
    if source.size != before.source.size or source.dtype != before.source.dtype:
        yield f"{repair.kind} has other elements"
    if repair.kind != "view" and source.shape != before.source.shape and "view axes" not in repair.message:
        yield f"{repair.kind} has another shape"
    small = repair.kind == "view" and not repair.bytes_added and source.size <= 4096
    if small and _offsets(source) != _offsets(before.source):
        yield "the view has other elements"


def _offsets(tensor: Tensor) -> list[int]:
    found = [0]
    for extent, stride in zip(plain(tensor.shape), plain(tensor.strides), strict=True):
        found = [offset + i * stride for offset in found for i in range(extent)]
    return sorted(found)


def _smaller(case: Case, repair: ls.Repair, result: Outcome) -> Iterator[str]:
    """Yield what exhaustive search finds to add fewer bytes than an offered repair of the same kind."""
    source, after = case.operator.source, repair.after
    lies = after if isinstance(after, Tensor) else after.source
    if repair.kind == "align":
        less = Tensor(source.shape, source.dtype, source.strides, lies.align // 2)
        if mended(with_source(case.operator, less), target(case.target)) is not None:
            yield f"align to {less.align} would do"
    elif case.by_plain_rules:
        yield from _by_search(case, repair, result)
    elif repair.kind == "pad" and not isinstance(case.operator, Copy) and source.size <= MOST_PLANNED:
        yield from _planned(case, plain(lies.strides), result)


def _by_search(case: Case, repair: ls.Repair, result: Outcome) -> Iterator[str]:
    source, after = case.operator.source, repair.after
    lies, tile = (after, case.operator.tile) if isinstance(after, Tensor) else (after.source, after.tile)
    rounded = "round the box up" in repair.message
    asked = _lies(source, case.operator.tile if repair.kind == "view" else tile)
    asked = asked._replace(address=source.address if source.address % 16 == 0 else 0)
    tried, strides = 0, plain(lies.strides)
    if repair.kind == "pad":
        rival, tried = smaller_padding(asked, span(asked.shape, strides))
        if rival is not None:
            yield f"strides {rival} would do instead of {strides}"
    elif repair.kind == "view" and not rounded:  # the tile of a rounded one has other rows
        words, tried = smaller_view(asked, repair.bytes_added)
        if words:
            yield f"the view {words} would do instead of {lies}"
    elif repair.kind == "dense":
        least, tried = least_dense(asked), 1
        if least is not None and span(asked.shape, strides) > max(least, span(asked.shape, asked.strides)):
            yield f"a packed copy of {least} elements would do instead of {strides}"
    elif repair.kind == "tile" and rounded and tile is not None:
        for axis, (old, new) in enumerate(zip(case.operator.tile or (), tile, strict=True)):
            for extent in range(old, new):
                if _encodes(lies, (*tile[:axis], extent, *tile[axis + 1 :])):
                    yield f"a box of {extent} along axis {axis} would do"
            tried += new - old
    result.tried, result.searched = result.tried + tried, result.searched + bool(tried)


def _planned(case: Case, pitch: tuple[int, ...], result: Outcome) -> Iterator[str]:
    """Yield a padding of an operator that the planner takes and that adds fewer bytes than the offered one."""
    source, below = case.operator.source, span(plain(case.operator.source.shape), pitch)
    result.searched += 1
    for strides in _all_paddings(source, below)[:MOST_PADDINGS]:
        base = {"align": source.align, "offset": source.offset} if source.address % 16 == 0 else {}
        result.tried += 1
        rival = Tensor(source.shape, source.dtype, strides, **base)
        if boxed(with_source(case.operator, rival), target(case.target)) is not None:
            yield f"strides {strides} would do instead of {pitch}"
            return


def _all_paddings(tensor: Tensor, below: int) -> list[tuple[int, ...]]:
    shape, strides = plain(tensor.shape), plain(tensor.strides)
    found = (pitch for pitch in paddings(shape, strides, 1, below) if pitch != strides)
    return sorted(islice(found, 20_000), key=lambda pitch: span(shape, pitch))


def measure(wanted: int, seconds: float, seed: int = 1) -> dict[str, Any]:
    """Return counts over so many refused subjects, fewer if time runs out."""
    end = time.monotonic() + seconds
    outcomes: list[Outcome] = []
    misses: list[str] = []
    kinds: Counter[str] = Counter()
    subjects: Counter[str] = Counter()
    legal = 0
    for case in cases(seed):
        if len(outcomes) == wanted or time.monotonic() > end:
            break
        found = outcome(case)
        if found is None:
            legal += 1
            continue
        outcomes.append(found)
        kinds.update(set(found.kinds))
        subjects[type(case.operator).__name__] += 1
        misses += [f"{case.operator}, {case.operator.consumer}, {case.target}: {miss}" for miss in found.misses]
        if sys.stderr.isatty():
            print(f"{len(outcomes)} of {wanted} subjects, {len(misses)} misses", end="\r", file=sys.stderr, flush=True)
    times = sorted(one.milliseconds for one in outcomes)
    return {
        "command": "python -m bench.maps.tensor_repairs",
        "targets": sorted(set(TARGETS)),
        "refused": dict(sorted(subjects.items())),
        "legal_beside_them": legal,
        "repairs": sum(len(one.kinds) for one in outcomes),
        "subjects_with_a_repair_of_kind": dict(sorted(kinds.items())),
        "without_any_repair": sum(not one.kinds for one in outcomes),
        "only_falling_back": sum(bool(one.kinds) and set(one.kinds) == {"fall back"} for one in outcomes),
        "compared_with_exhaustive_search": sum(one.searched for one in outcomes),
        "layouts_tried": sum(one.tried for one in outcomes),
        "explain_milliseconds": {"p50": _at(times, 0.5), "p95": _at(times, 0.95)},
        "misses": misses,
    }


def products(wanted: int = 317, seed: int = 1) -> dict[str, Any]:
    """Return how long explanations of products take: shapes of the catalogue, then odd ones, bf16 and e4m3."""
    draw = random.Random(seed)
    catalogue = shapes()
    extents = [tuple(one) for one in (*catalogue["entries"], *catalogue["cliff"]["entries"])][: wanted // 2]
    while len(extents) < wanted:
        extents.append(tuple(draw.choice((draw.randrange(1, 9000), 8 * draw.randrange(1, 1100))) for _ in "mnk"))
    for warm in ((256, 256, 256), (256, 256, 255)):
        ls.explain(ls.Gemm(*warm, "bf16"), TARGETS[0])
    times: dict[bool, list[float]] = {True: [], False: []}
    unordered = 0
    for m, n, k in extents:
        product = ls.Gemm(m, n, k, draw.choice(("bf16", "bf16", "e4m3")))
        begin = time.perf_counter()
        found = ls.explain(product, TARGETS[0])
        times[found.legal].append(1e3 * (time.perf_counter() - begin))
        totals = [repair.total or 0.0 for repair in found.repairs]
        unordered += totals != sorted(totals)
    rows = {"all": times[True] + times[False], "legal": times[True], "refused": times[False]}
    said = {
        name: {"count": len(row), "p50": _at(sorted(row), 0.5), "p95": _at(sorted(row), 0.95)}
        for name, row in rows.items()
    }
    return {**said, "not_in_the_order_of_their_totals": unordered}


def _at(times: list[float], share: float) -> float:
    return round(times[min(int(len(times) * share), len(times) - 1)], 1) if times else 0.0


def main() -> int:
    """Run, print the counts, and keep them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=540.0)
    args = parser.parse_args()
    found = measure(args.count, args.seconds)
    found["explain_products_milliseconds"] = products()
    text = json.dumps(found, indent=1)
    print(text)
    RESULT.write_text(text + "\n", encoding="utf-8")
    return int(bool(found["misses"]))


if __name__ == "__main__":
    sys.exit(main())

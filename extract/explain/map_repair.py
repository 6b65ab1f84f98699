"""Repairs of a tensor map: the smallest changes after which no rule refuses it, cheapest first.

A repair changes a set of parts (`legalsat.extract.explain.map_changes`) of which no smaller set will do, each no more
than it must. Candidates are the least changes for every choice of rank, data type, swizzle and interleave; the rules
judge them all at once, and each repair by itself once more. A rule that only warns and held before still holds after
it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legalsat.explanation import Repair
from legalsat.extract.cost.cost import LAUNCH_NANOSECONDS, NOMINAL
from legalsat.extract.explain.map_changes import (
    BYTE,
    LEAST_INTERLEAVED_RANK,
    Boxes,
    Choice,
    Memory,
    Rows,
    Shape,
    boxes,
    covers,
    extent_of,
    granule_of,
    least_row,
    memories,
    moved_address,
    pieces,
    ranked,
    recast,
    recasts,
    shape_of,
    stepped,
)
from legalsat.extract.explain.map_words import said_of, sentence
from legalsat.rule import Requirement, Rule
from legalsat.rules import TENSOR_MAP_RULES
from legalsat.rules.tma import FILL_NAN, FLOAT_TYPES, INTERLEAVE_NONE
from legalsat.rules.tma_packed import ALIGN16_6BIT
from legalsat.targets import Target
from legalsat.units.sites import SWIZZLE_SPANS, TmaCopy
from legalsat.units.tensor_map import (
    INTERLEAVES,
    L2_PROMOTIONS,
    MAP_TYPES,
    OOB_FILLS,
    SWIZZLES,
    TensorMap,
    driver_value,
)
from legalsat.view.snippets_map import map_snippets

DATA = frozenset({"pad", "extent", "address"})
"""Parts whose change has data lie anew in memory; so has giving up an interleave."""
_GRADUAL = frozenset({"pad", "box", "swizzle", "dtype", "global_dim"})  # parts that more merges may change less
_ZERO_FILL, _NO_PROMOTION = OOB_FILLS.index("zero"), L2_PROMOTIONS.index("none")
# As in `legalsat.operators.batch`: what is larger is refused by its own rule, and products stay inside 63 bits.
_CEILING = 2**58


class Size(NamedTuple):
    """How much a repair asks of its user. The first field in which two sizes differ decides which is smaller.

    Attributes:
        data: 1 if data must be laid out anew in memory, which takes time and a copy; 0 if only the request changes.
        parts: how many parts change.
        unswizzled: 1 if a swizzle is given up, which brings bank conflicts.
        copies: boxes that cover the old box, times maps that cover the old tensor.
        overhang: bits that these boxes move more than the old box did.
        shorter: strides that become shorter, so that data lie closer than the user had them.
        added: bytes that the tensor spans more than before.
        distance: between new values and old ones: dimensions merged; bits and enum value of the data type; enum
            values of swizzle, interleave, L2 promotion and fill (from 0 where the old one has no meaning); bytes of
            the address; bytes of all strides; elements of the box, dimension by dimension.
    """

    data: int
    parts: int
    unswizzled: int
    copies: int
    overhang: int
    shorter: int
    added: int
    distance: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MapRepair:
    """A legal tensor map in place of a refused one: how large the change is, its parts, the map, and words a part."""

    size: Size
    parts: frozenset[str]
    after: TensorMap
    said: tuple[str, ...]


class _Base(NamedTuple):
    """Dimensions of a rank with legal steps, and the enumerations to go with them."""

    shape: Shape
    choice: Choice


@dataclass(frozen=True, slots=True)
class _Draft:
    """A map but for its box and swizzle: enum values, its dimensions with the old box and memory, and with the new."""

    choice: Choice
    fill: int
    promotion: int
    address: int
    shape: Shape
    memory: Memory
    dims: tuple[int, ...]
    maps: int
    parts: frozenset[str]


class _Candidate(NamedTuple):
    """A map that may be legal."""

    draft: _Draft
    choice: Choice
    boxes: Boxes
    parts: frozenset[str]


def map_repairs(tm: TensorMap, target: Target) -> list[MapRepair]:
    """Return the repairs of a tensor map that is refused on `target`, smallest first; empty where nothing helps."""
    if target.tma is None or not tm.rank or 0 in tm.global_dim or driver_value("dtype", tm.dtype) >= len(MAP_TYPES):
        return []
    warned = _failing(tm, target, "warning")
    least: dict[frozenset[str], list[_Candidate]] = {}
    covered: dict[Any, list[Rows]] = {}
    for bases in _stages(tm, target):  # most of the later ones are beside the point once the first are judged
        known = frozenset(least)
        drafts = (draft for base in bases for draft in _drafts(base, tm, target, known))
        for candidate in _legal(list(_candidates(drafts, target, known, covered)), tm, target, warned):
            least.setdefault(candidate.parts, []).append(candidate)
        least = {parts: held for parts, held in least.items() if not any(fewer < parts for fewer in least)}
    found = sorted((min((_size(c, tm), i) for i, c in enumerate(held)), held) for held in least.values())
    repairs = [_repair(held[at], size, tm) for (size, at), held in found]
    return [one for one in repairs if not _failing(one.after, target, "error") and _as_quiet(one, tm, target, warned)]


def as_repair(found: MapRepair, tm: TensorMap, target: Target) -> Repair:
    """Return a repair of `tm` as explanations hold it."""
    once = 0.0
    if found.size.data:
        bandwidth = (target.device or NOMINAL).memory_bandwidth
        once = round(LAUNCH_NANOSECONDS + 2 * _payload(tm) / bandwidth * 1e9, 1)
    return Repair(
        kind_of(found),
        sentence(found.said),
        found.after,
        max(0, found.size.added),
        once=once,
        snippets=map_snippets(tm, found.after, found.parts),
    )


def kind_of(found: MapRepair) -> str:
    """Return what a repair does, in a word for each part: first what it does to data."""
    words = {"address": "align", "extent": "pad", "pad": "dense" if found.size.shorter else "pad"}
    if found.size.copies > 1:
        words |= {"box": "split", "global_dim": "split"}
    order = sorted(found.parts, key=lambda part: (part not in DATA, part))
    return " and ".join(dict.fromkeys(words.get(part, part) for part in order))


def _payload(tm: TensorMap) -> int:
    """Return the bytes that the tensor has in memory."""
    stored: list[int] = [n for n, stride in zip(tm.global_dim[1:], tm.global_stride, strict=True) if stride]
    inner: int = tm.global_dim[0]
    return math.prod(stored) * inner * _choice(tm).bits // BYTE


def _choice(tm: TensorMap) -> Choice:
    return Choice(*(driver_value(name, getattr(tm, name)) for name in Choice._fields))


def _by_stride(strides: tuple[int, ...]) -> tuple[int, ...]:
    return (0, *sorted(range(1, len(strides) + 1), key=lambda d: strides[d - 1]))


def _stages(tm: TensorMap, target: Target) -> Iterator[list[_Base]]:
    """Yield ranks, interleaves and data types to try: first the map's own, as far as it is legal."""
    tma, own = target.tma, _choice(tm)
    assert tma is not None
    nan_refused = _nan_refused(tm)
    first: list[_Base] = []
    merged: list[_Base] = []
    recast_ones: list[_Base] = []
    for interleave in _interleaves(own, tm.rank):
        laid = own._replace(interleave=interleave)
        whole = stepped(shape_of(tm), interleave, tma)
        different: dict[Any, Shape] = {}  # which of the dimensions of one element is dropped is often all the same
        for shape in ranked(whole, laid, tma) if whole is not None else ():
            different.setdefault((shape.dims, shape.strides, shape.box), shape)
        shapes = sorted(different.values(), key=lambda shape: shape.merges)
        fewest = shapes[0].merges if shapes else 0
        for shape in shapes:
            for dtype in recasts(shape, laid, tma, nan_refused=nan_refused):
                same = first if shape.merges == fewest else merged
                (same if dtype == own.dtype else recast_ones).append(_Base(shape, laid._replace(dtype=dtype)))
    yield from (first, merged, recast_ones)


def _drafts(base: _Base, tm: TensorMap, target: Target, found: frozenset[frozenset[str]]) -> Iterator[_Draft]:
    """Yield the least change of memory, extents and fill for a shape and a data type, if there is any."""
    (before, choice), tma, own = base, target.tma, _choice(tm)
    assert tma is not None
    if _needless(before.changes if choice.dtype == own.dtype else before.changes | {"dtype"}, found):
        return
    shape = recast(before, own.dtype, choice.dtype)
    whole_groups = (extent_of(shape.dims, choice.dtype), *shape.dims[1:])
    fill, promotion = driver_value("oob_fill", tm.oob_fill), driver_value("l2_promotion", tm.l2_promotion)
    unfit = _nan_refused(tm) and choice.dtype not in FLOAT_TYPES
    filled = _ZERO_FILL if fill >= len(OOB_FILLS) or unfit else fill
    promoted = promotion if promotion < len(L2_PROMOTIONS) else _NO_PROMOTION
    address = moved_address(tm.address, granule_of(choice.dtype, choice.interleave))
    dims, maps = pieces(shape, whole_groups, choice, tma)
    changed = {
        "interleave": choice.interleave != own.interleave,
        "oob_fill": filled != fill,
        "l2_promotion": promoted != promotion,
        "address": address != tm.address,
        "extent": whole_groups != shape.dims,
        "global_dim": dims != whole_groups,
    }
    parts = shape.changes.union(part for part in changed if changed[part])
    for lies in memories(shape, whole_groups[0], choice, tma):
        yield _Draft(choice, filled, promoted, address, shape, lies, dims, maps, parts | lies.changes)


def _nan_refused(tm: TensorMap) -> bool:
    return driver_value("oob_fill", tm.oob_fill) == FILL_NAN and driver_value("dtype", tm.dtype) not in FLOAT_TYPES


def _candidates(
    drafts: Iterable[_Draft], target: Target, found: frozenset[frozenset[str]], covered: dict[Any, list[Rows]]
) -> Iterator[_Candidate]:
    """Yield drafts with every swizzle and the least change of the box; none that changes more than what is found.

    `covered` keeps the ways to cover the outer dimensions of a box.
    """
    tma = target.tma
    assert tma is not None
    for draft in drafts:
        if _needless(draft.parts, found):
            continue
        least, own = least_row(draft.choice.interleave, tma), draft.choice.swizzle
        outer_box = (draft.shape.box[1:], draft.shape.steps[1:], least)
        if outer_box not in covered:
            covered[outer_box] = covers(draft.shape, least, target)
        by_span: dict[int, Boxes | None] = {}
        for swizzle in range(tma.swizzles):
            parts = draft.parts if swizzle == own else draft.parts | {"swizzle"}
            if _needless(parts, found):
                continue
            choice = draft.choice._replace(swizzle=swizzle)
            span = SWIZZLE_SPANS[swizzle] if swizzle else 0
            if span not in by_span:
                by_span[span] = boxes(draft.shape, covered[outer_box], choice, target)
            cover = by_span[span]
            if cover is not None:
                boxed = parts if cover.extents == draft.shape.box else parts | {"box"}
                yield _Candidate(draft, choice, cover, boxed)


def _needless(parts: frozenset[str], found: frozenset[frozenset[str]]) -> bool:
    """Whether fewer parts will do, or the same ones without anything more to gain."""
    return any(fewer < parts or (fewer == parts and not parts & _GRADUAL) for fewer in found)


def _interleaves(own: Choice, rank: int) -> tuple[int, ...]:
    """Return the interleaves to try: the map's own and, where it is refused for rank or type, none."""
    if own.interleave >= len(INTERLEAVES):
        return (INTERLEAVE_NONE,)
    if own.interleave != INTERLEAVE_NONE and (rank < LEAST_INTERLEAVED_RANK or own.dtype == ALIGN16_6BIT):
        return own.interleave, INTERLEAVE_NONE
    return (own.interleave,)


def _size(candidate: _Candidate, tm: TensorMap) -> Size:
    draft, own, new = candidate.draft, _choice(tm), candidate.choice
    gives_up = "interleave" in candidate.parts and own.interleave < len(INTERLEAVES)
    types = MAP_TYPES[own.dtype], MAP_TYPES[new.dtype]
    return Size(
        data=int(gives_up or not DATA.isdisjoint(candidate.parts)),
        parts=len(candidate.parts),
        unswizzled=int(new.swizzle == 0 < own.swizzle < len(SWIZZLES)),
        copies=candidate.boxes.copies * draft.maps,
        overhang=candidate.boxes.overhang_bits,
        shorter=draft.memory.shorter,
        added=draft.memory.added,
        distance=(
            draft.shape.merges,
            abs(types[1].bits - types[0].bits),
            abs(new.dtype - own.dtype),
            _apart(own.swizzle, new.swizzle, len(SWIZZLES)),
            _apart(own.interleave, new.interleave, len(INTERLEAVES)),
            _apart(driver_value("l2_promotion", tm.l2_promotion), draft.promotion, len(L2_PROMOTIONS)),
            _apart(driver_value("oob_fill", tm.oob_fill), draft.fill, len(OOB_FILLS)),
            abs(draft.address - tm.address),
            sum(abs(new - old) for new, old in zip(draft.memory.strides, draft.shape.strides, strict=True)),
            *(abs(new - old) for new, old in zip(candidate.boxes.extents, draft.shape.box, strict=True)),
        ),
    )


def _apart(old: int, new: int, known: int) -> int:
    return abs(new - old) if old < known else new


def _repair(candidate: _Candidate, size: Size, tm: TensorMap) -> MapRepair:
    draft, extents = candidate.draft, candidate.boxes.extents
    tiled = draft.shape.tiled
    boxed = {"box": extents} if tiled else dict(zip(("channels", "pixels"), extents, strict=True))
    after = replace(
        tm,
        **candidate.choice._asdict(),
        oob_fill=draft.fill,
        l2_promotion=draft.promotion,
        address=draft.address,
        global_dim=draft.dims,
        global_stride=draft.memory.strides,
        element_stride=draft.shape.steps,
        **boxed,
    )
    return MapRepair(size, candidate.parts, after, said_of(tm, after, draft.shape, candidate.boxes, draft.memory))


def _legal(
    candidates: list[_Candidate], tm: TensorMap, target: Target, warned: frozenset[tuple[str, int]]
) -> Iterator[_Candidate]:
    """Yield the candidates that no rule refuses, and of which no rule warns that did not before."""
    groups: dict[tuple[int, ...], list[_Candidate]] = {}
    for candidate in candidates:
        groups.setdefault(_by_stride(candidate.draft.memory.strides), []).append(candidate)
    for by_stride, group in groups.items():
        holds = np.ones(len(group), dtype=np.bool_)
        for rule, place, requirement in _requirements(_batch(group, tm, by_stride), target):
            if rule.level == "error" or not _known(rule, place, warned, len(by_stride) == tm.rank):
                holds &= requirement.condition
        yield from (candidate for candidate, legal in zip(group, holds, strict=True) if legal)


def _known(rule: Rule, place: int, warned: frozenset[tuple[str, int]], same_rank: bool) -> bool:
    """Whether the map as it was had the warning; of another rank, any of the rule's."""
    return (rule.code, place) in warned if same_rank else any(code == rule.code for code, _ in warned)


def _requirements(site: TmaCopy, target: Target) -> Iterator[tuple[Rule, int, Requirement]]:
    """Yield what the rules require at a site, with the place of each among its rule's."""
    for rule in TENSOR_MAP_RULES:
        for place, requirement in enumerate(rule(site, target)):
            yield rule, place, requirement


def _batch(group: list[_Candidate], tm: TensorMap, by_stride: tuple[int, ...]) -> TmaCopy:
    """Return the site of many maps of one rank, its numbers arrays over them."""

    def column(values: list[int]) -> NDArray[np.int64]:
        return np.array([min(value, _CEILING) for value in values], dtype=np.int64)

    def columns(rows: list[tuple[int, ...]]) -> tuple[NDArray[np.int64], ...]:
        return tuple(column(list(values)) for values in zip(*rows, strict=True))

    extents = columns([c.boxes.extents for c in group])
    tiled = group[0].draft.shape.tiled
    return TmaCopy(
        tiled=tiled,
        rank=len(by_stride),
        dtype=column([c.choice.dtype for c in group]),
        interleave=column([c.choice.interleave for c in group]),
        swizzle=column([c.choice.swizzle for c in group]),
        l2_promotion=column([c.draft.promotion for c in group]),
        oob_fill=column([c.draft.fill for c in group]),
        map_offset=tm.map_offset,
        address=column([c.draft.address % _CEILING for c in group]),
        global_dim=columns([c.draft.dims for c in group]),
        global_stride=columns([c.draft.memory.strides for c in group]),
        element_stride=columns([c.draft.shape.steps for c in group]),
        box=extents if tiled else (),
        lower_corner=tm.lower_corner,
        upper_corner=tm.upper_corner,
        channels=0 if tiled else extents[0],
        pixels=0 if tiled else extents[1],
        by_stride=by_stride,
    )


def _failing(tm: TensorMap, target: Target, level: str) -> frozenset[tuple[str, int]]:
    """Return the requirements of one level that a map does not meet, each by its rule's code and its place there."""
    site = replace(TmaCopy.of(tm), by_stride=_by_stride(tm.global_stride))
    asked = _requirements(site, target)
    return frozenset((rule.code, place) for rule, place, r in asked if rule.level == level and not r.condition)


def _as_quiet(found: MapRepair, tm: TensorMap, target: Target, warned: frozenset[tuple[str, int]]) -> bool:
    now = _failing(found.after, target, "warning")
    return now <= warned if found.after.rank == tm.rank else {code for code, _ in now} <= {code for code, _ in warned}

"""The smallest repairs of a tensor map, by trying all values there are in small domains.

This shares with `legalsat.extract.explain.map_repair` what a repair *is* (the parts that may change, and what is
smaller, as its docstrings say) and the rules, which judge all combinations at once. It has no idea what makes a map
legal, so that it tries extents, strides and addresses that the rules then refuse: every box extent alone, many of them
together, steps of 16 bytes of every stride, every swizzle, every data type that describes the same bytes, every way to
merge dimensions. A set of parts is left out where fewer of them will do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.maps.map_ways import NOTHING, Dimensions, Parts, ways
from legalsat.rules import TENSOR_MAP_RULES
from legalsat.targets import Target
from legalsat.units.sites import TmaCopy
from legalsat.units.tensor_map import MAP_TYPES, TensorMap, driver_value

Size = tuple[int, ...]
_Term = tuple[tuple[str, ...], list[int]]  # the axes that a number hangs on, and the number over all their values
MOST_BOXES = 30_000
MOST_STRIDES, MOST_VECTORS = 4_000, 20_000  # of one order of the dimensions, and of all together
LARGEST = 2**58
DATA_PARTS = {"pad", "extent", "address"}


@dataclass(frozen=True)
class Smallest:
    """The smallest repair of a set of parts."""

    size: Size
    after: TensorMap


@dataclass
class _Axis:
    """Values to try for some fields, and which parts they change; the first is the value as it is."""

    values: list[Any]
    parts: list[Parts]

    def of(self, parts: Parts) -> list[int]:
        """Return the places of the values that change just these parts."""
        return [i for i, changed in enumerate(self.parts) if changed == parts]

    @property
    def kinds(self) -> list[Parts]:
        """The different sets of parts, fewest first."""
        return sorted(set(self.parts), key=len)


@dataclass
class Search:
    """All repairs of one tensor map on one target."""

    tm: TensorMap
    target: Target
    most_boxes: int = MOST_BOXES
    found: dict[Parts, Smallest] = field(default_factory=dict)
    tried: int = 0

    def run(self) -> dict[Parts, Smallest]:
        """Return the smallest repair of every set of parts of which no smaller set will do."""
        if self.target.tma is None or not self.tm.rank or 0 in self.tm.global_dim:
            return {}
        if driver_value("dtype", self.tm.dtype) >= len(MAP_TYPES):
            return {}
        self._before = {
            (rule.code, place)
            for rule in TENSOR_MAP_RULES
            if rule.level == "warning"
            for place, r in enumerate(
                rule(replace(TmaCopy.of(self.tm), by_stride=_order(self.tm.global_stride)), self.target)
            )
            if not r.condition
        }
        for seen in sorted(ways(self.tm), key=lambda s: (len(s.parts), s.merges)):
            if not any(parts < seen.parts for parts in self.found):
                self._try(seen)
        return {p: s for p, s in self.found.items() if not any(other < p for other in self.found)}

    def _try(self, seen: Dimensions) -> None:
        """Judge every combination of values for one way to see the tensor."""
        axes = {
            "box": self._boxes(seen),
            "swizzle": self._swizzles(),
            "memory": _memories(seen),
            "address": self._addresses(),
            "extents": self._extents(seen),
            "fill": self._fills(),
            "promotion": self._promotions(),
        }
        for order in sorted({_order(strides) for strides in axes["memory"].values}):
            places = [i for i, strides in enumerate(axes["memory"].values) if _order(strides) == order]
            if 0 not in places:
                places = [0, *places]  # as it is; judged in another order, so it is not taken
            memory = _Axis([axes["memory"].values[i] for i in places], [axes["memory"].parts[i] for i in places])
            self._judge(seen, {**axes, "memory": memory}, order)

    def _judge(self, seen: Dimensions, axes: dict[str, _Axis], order: tuple[int, ...]) -> None:
        few = {name: _Axis(axis.values[:2], axis.parts[:2]) for name, axis in axes.items()}
        refused = [
            {i for i, extent in enumerate(condition.shape) if extent > 1}
            for condition in self._conditions(seen, few, order)
            if not condition.flat[0]
        ]  # the axes of each condition that the map as it is does not meet: some value of them must change
        kinds = itertools.product(*(axis.kinds for axis in axes.values()))
        for changes in sorted(kinds, key=lambda parts: len(frozenset().union(*parts))):
            parts = seen.parts.union(*changes)
            if not parts or any(fewer < parts for fewer in self.found):
                continue
            if any(all(changes[i] == NOTHING for i in needed) for needed in refused):
                continue
            chosen = {
                name: _Axis([a.values[i] for i in a.of(p)], [p])
                for (name, a), p in zip(axes.items(), changes, strict=True)
            }
            chosen = self._alone(seen, chosen, order)
            if any(not axis.values for axis in chosen.values()):
                continue
            if order != _order(chosen["memory"].values[0]):
                continue
            self._take(seen, chosen, order, parts)

    def _alone(self, seen: Dimensions, axes: dict[str, _Axis], order: tuple[int, ...]) -> dict[str, _Axis]:
        """Return the values that break no condition on one axis alone."""
        shape = {name: len(axis.values) for name, axis in axes.items()}
        kept = {name: np.ones(count, dtype=np.bool_) for name, count in shape.items()}
        for condition in self._conditions(seen, axes, order):
            varying = [i for i, extent in enumerate(condition.shape) if extent > 1]
            if len(varying) == 1:
                kept[[*axes][varying[0]]] &= condition.reshape(-1)
            elif not varying and not condition.all():
                return {name: _Axis([], []) for name in axes}
        return {
            name: _Axis([v for v, keep in zip(axis.values, kept[name], strict=True) if keep], axis.parts)
            for name, axis in axes.items()
        }

    def _conditions(
        self, seen: Dimensions, axes: dict[str, _Axis], order: tuple[int, ...]
    ) -> Iterator[NDArray[np.bool_]]:
        """Yield what must hold, as arrays with an axis for each kind of value."""
        names = [*axes]

        def column(name: str, values: Sequence[int]) -> NDArray[np.int64]:
            shape = [1] * len(names)
            shape[names.index(name)] = len(values)
            return np.array([min(v, LARGEST) for v in values], dtype=np.int64).reshape(shape)

        def columns(name: str) -> tuple[NDArray[np.int64], ...]:
            return tuple(column(name, values) for values in zip(*axes[name].values, strict=True))

        tm, tiled = self.tm, self.tm.mode == "tiled"
        box = columns("box")
        site = TmaCopy(
            tiled=tiled,
            rank=len(seen.dims),
            dtype=column("fill", [seen.code] * len(axes["fill"].values)),
            interleave=column("fill", [seen.interleave] * len(axes["fill"].values)),
            swizzle=column("swizzle", axes["swizzle"].values),
            l2_promotion=column("promotion", axes["promotion"].values),
            oob_fill=column("fill", axes["fill"].values),
            map_offset=tm.map_offset,
            address=column("address", [a % LARGEST for a in axes["address"].values]),
            global_dim=tuple(
                column("extents", values) for values in zip(*(v[0] for v in axes["extents"].values), strict=True)
            ),
            global_stride=columns("memory") if len(seen.dims) > 1 else (),
            element_stride=seen.steps,
            box=box if tiled else (),
            lower_corner=tm.lower_corner,
            upper_corner=tm.upper_corner,
            channels=0 if tiled else box[0],
            pixels=0 if tiled else box[1],
            by_stride=order,
        )
        for rule in TENSOR_MAP_RULES:
            for place, requirement in enumerate(rule(site, self.target)):
                said = (rule.code, place) in self._before
                if len(seen.dims) != tm.rank:
                    said = any(code == rule.code for code, _ in self._before)
                if rule.level == "error" or not said:
                    yield np.asarray(requirement.condition).reshape(
                        np.shape(requirement.condition) or (1,) * len(names)
                    )
        yield self._apart(seen, axes)

    def _apart(self, seen: Dimensions, axes: dict[str, _Axis]) -> NDArray[np.bool_]:
        """Return where data that lie anew do not overlap, but for what stride 0 repeats."""
        table = np.ones((len(axes["memory"].values), len(axes["extents"].values)), dtype=np.bool_)
        for j, (_, inner, _) in enumerate(axes["extents"].values):
            for i, strides in enumerate(axes["memory"].values):
                anew = inner != seen.dims[0] or any(
                    new != old and n != 1 for new, old, n in zip(strides, seen.strides, seen.dims[1:], strict=True)
                )
                covered = -(-inner * seen.bits // 8)
                for stride, extent in sorted(zip(strides, seen.dims[1:], strict=True)) if anew else ():
                    if stride and extent != 1:
                        table[i, j] &= stride >= covered
                        covered = stride * extent
        shape = [1] * len(axes)
        shape[[*axes].index("memory")], shape[[*axes].index("extents")] = table.shape
        return table.reshape(shape)

    def _take(self, seen: Dimensions, axes: dict[str, _Axis], order: tuple[int, ...], parts: Parts) -> None:
        """Keep the smallest of the legal combinations.

        Axes that no condition joins are independent of each other, so that every pair of their legal values is legal.
        """
        conditions = [c for c in self._conditions(seen, axes, order) if c.size > 1 or not c.all()]
        names = [*axes]
        groups = [{name} for name in names]
        for condition in conditions:
            joined = {names[i] for i, extent in enumerate(condition.shape) if extent > 1}
            touched = [group for group in groups if group & joined]
            groups = [group for group in groups if not group & joined] + [set().union(*touched)]
        places: dict[str, NDArray[np.intp]] = {}
        for group in groups:
            legal = np.ones([len(axes[name].values) if name in group else 1 for name in names], dtype=np.bool_)
            self.tried += legal.size
            for condition in conditions:
                if all(extent == 1 or name in group for name, extent in zip(names, condition.shape, strict=True)):
                    legal &= condition
            at = np.nonzero(legal)
            if not at[0].size:
                return
            places |= {name: place for name, place in zip(names, at, strict=True) if name in group}
        group_of = {name: group for group in groups for name in group}
        size = []
        for terms in self._fields(seen, axes, parts):
            value = 1
            for over, values in terms:
                value *= _least(values, over, axes, places, group_of)
            size.append(value)
        held = self.found.get(parts)
        if held is None or tuple(size) < held.size:
            chosen = {name: axis.values[places[name][0]] for name, axis in axes.items()}
            self.found[parts] = Smallest(tuple(size), self._after(seen, chosen))

    def _fields(self, seen: Dimensions, axes: dict[str, _Axis], parts: Parts) -> Iterator[list[_Term]]:
        """Yield the fields of the size, most important first, each a product of terms."""
        tm, boxes, lies, extents = self.tm, axes["box"].values, axes["memory"].values, axes["extents"].values
        code, swizzle, interleave, promotion, fill = (
            driver_value(n, getattr(tm, n)) for n in ("dtype", "swizzle", "interleave", "l2_promotion", "oob_fill")
        )
        covers = [self._cover(seen, box) for box in boxes]
        now = _span(seen.dims[0], seen, seen.strides)
        closer = [
            sum(new < old and n != 1 for new, old, n in zip(s, seen.strides, seen.dims[1:], strict=True)) for s in lies
        ]
        added = [_span(inner, seen, strides) - now for strides in lies for _, inner, _ in extents]
        yield [((), [int(bool(parts & DATA_PARTS) or ("interleave" in parts and interleave <= 2))])]
        yield [((), [len(parts)])]
        yield [(("swizzle",), [int(s == 0 < swizzle < 7) for s in axes["swizzle"].values])]
        yield [(("box",), [copies for copies, _ in covers]), (("extents",), [maps for _, _, maps in extents])]
        yield [(("box",), [overhang for _, overhang in covers])]
        yield [(("memory",), closer)]
        yield [(("memory", "extents"), added)]
        yield [((), [seen.merges])]
        yield [((), [abs(MAP_TYPES[seen.code].bits - MAP_TYPES[code].bits)])]
        yield [((), [abs(seen.code - code)])]
        yield [(("swizzle",), [_gap(swizzle, s, 7) for s in axes["swizzle"].values])]
        yield [((), [_gap(interleave, seen.interleave, 3)])]
        yield [(("promotion",), [_gap(promotion, p, 4) for p in axes["promotion"].values])]
        yield [(("fill",), [_gap(fill, f, 2) for f in axes["fill"].values])]
        yield [(("address",), [abs(a - tm.address) for a in axes["address"].values])]
        yield [(("memory",), [sum(abs(a - b) for a, b in zip(s, seen.strides, strict=True)) for s in lies])]
        for d, old in enumerate(seen.box):
            yield [(("box",), [abs(box[d] - old) for box in boxes])]

    def _cover(self, seen: Dimensions, box: tuple[int, ...]) -> tuple[int, int]:
        """Return how many boxes cover the old one, and the bits that they move more than it."""
        steps = seen.steps[1:] if self.tm.mode == "tiled" else (1,)
        copies, moved, old = max(1, -(-seen.box[0] // max(1, box[0]))), box[0], max(1, seen.box[0])
        for new, was, step in zip(box[1:], seen.box[1:], steps, strict=True):
            elements, wanted = -(-new // step), max(1, -(-was // step))
            copies *= -(-wanted // max(1, elements))
            moved *= elements
            old *= wanted
        bits = MAP_TYPES[seen.code].bits
        return copies, (copies * moved - old) * bits

    def _after(self, seen: Dimensions, values: dict[str, Any]) -> TensorMap:
        box = values["box"]
        shape: dict[str, Any] = {"box": box} if self.tm.mode == "tiled" else {"channels": box[0], "pixels": box[1]}
        return replace(
            self.tm,
            dtype=seen.code,
            interleave=seen.interleave,
            swizzle=values["swizzle"],
            address=values["address"],
            global_dim=values["extents"][0],
            global_stride=values["memory"],
            element_stride=seen.steps,
            oob_fill=values["fill"],
            l2_promotion=values["promotion"],
            **shape,
        )

    def _boxes(self, seen: Dimensions) -> _Axis:
        """Every extent of one dimension alone, and many of all together."""
        tiled = self.tm.mode == "tiled"
        tops = [256] * len(seen.box) if tiled else [256, 1024]
        found: dict[tuple[int, ...], None] = {seen.box: None}
        for d, top in enumerate(tops):
            for extent in range(1, top + 1):
                found[(*seen.box[:d], extent, *seen.box[d + 1 :])] = None
        steps = seen.steps if tiled else (1, 1)
        together = [
            _extents_to_try(own, step, top, MAP_TYPES[seen.code].bits if d == 0 else 0)
            for d, (own, step, top) in enumerate(zip(seen.box, steps, tops, strict=True))
        ]
        while math.prod(map(len, together)) > self.most_boxes:
            longest = max(together, key=len)
            del longest[len(longest) // 2]
        for extents in itertools.product(*together):
            found[extents] = None
        boxes = [*found]
        return _Axis(boxes, [NOTHING, *([frozenset({"box"})] * (len(boxes) - 1))])

    def _swizzles(self) -> _Axis:
        own = driver_value("swizzle", self.tm.swizzle)
        return _changing("swizzle", own, range(8))

    def _addresses(self) -> _Axis:
        own = self.tm.address
        onwards = {own // g * g + more for g in (16, 32) for more in (0, g // 2, g, 2 * g)}
        room = sorted(a for a in onwards if own < a < 2**64)
        return _changing("address", own, room or range(2**64 - 64, 2**64, 8))

    def _fills(self) -> _Axis:
        own = driver_value("oob_fill", self.tm.oob_fill)
        refused = own > 1 or (own == 1 and not self.tm.map_type.is_float)
        return _changing("oob_fill", own, range(2) if refused else ())

    def _promotions(self) -> _Axis:
        own = driver_value("l2_promotion", self.tm.l2_promotion)
        return _changing("l2_promotion", own, range(4) if own > 3 else ())

    def _extents(self, seen: Dimensions) -> _Axis:
        """Extents of the tensor: as they are, whole groups of packed types, cut into several maps.

        A value is the extents, the innermost before it is cut, and how many maps there are.
        """
        values: list[Any] = []
        parts: list[Parts] = []
        packed = MAP_TYPES[seen.code].is_packed
        inners = {seen.dims[0]: None, **{-(-seen.dims[0] // g) * g: None for g in (2, 64, 128, 256) if packed}}
        granule = 32 if seen.interleave == 2 or MAP_TYPES[seen.code].name in ("16u4_align16b", "16u6_align16b") else 16
        rank = len(seen.dims)
        cuttable = range(rank) if self.tm.mode == "tiled" else (0, rank - 1)  # windows lie across pixels
        for inner in inners:
            whole = (inner, *seen.dims[1:])
            ragged = packed and inner % (2 if MAP_TYPES[seen.code].name == "16u4_align8b" else 128)
            for cut in itertools.product(
                *(
                    _cuts(n, seen, granule) if d == 0 else _cuts(n) if d in cuttable else [n]
                    for d, n in enumerate(whole)
                )
            ):
                if ragged and cut[0] != inner:
                    continue  # the last piece would not be whole groups
                count = math.prod(-(-n // each) for n, each in zip(whole, cut, strict=True))
                values.append((cut, inner, count))
                names = (("extent", inner != seen.dims[0]), ("global_dim", cut != whole))
                parts.append(frozenset(name for name, changed in names if changed))
        return _Axis(values, parts)


def _least(
    values: list[int],
    over: tuple[str, ...],
    axes: dict[str, _Axis],
    places: dict[str, NDArray[np.intp]],
    group_of: dict[str, set[str]],
) -> int:
    """Return the least of a field's values over the places left, and leave the places where it is the least."""
    if not over:
        return values[0]
    many = [name for name in over if len(axes[name].values) > 1]
    group = group_of[many[0]] if many else {over[0]}
    assert all(group_of[name] is group for name in many), "a field hangs on axes that no condition joins"
    index = np.zeros(len(places[next(iter(group))]), dtype=np.int64)
    for name in over:
        index = index * len(axes[name].values) + (places[name] if name in group else 0)
    ordered = sorted(set(values))
    rank = {value: place for place, value in enumerate(ordered)}
    ranks = np.array([rank[value] for value in values])[index]
    least = int(ranks.min())
    for name in group:
        places[name] = places[name][ranks == least]
    return ordered[least]


def _cuts(extent: int, inner: Dimensions | None = None, granule: int = 16) -> list[int]:
    """Return extents of pieces of a dimension, its own first; pieces of the innermost begin at legal addresses."""
    if extent <= 2**32:
        return [extent]
    found = {-(-extent // count) for count in range(-(-extent // 2**32), -(-extent // 2**31) + 2)} | {2**31, 2**32}
    if inner is not None and not inner.interleave:
        groups = 128 if inner.bits in (4, 6) else 1
        step = math.lcm(8 * granule // math.gcd(8 * granule, inner.bits), groups)
        found = {-(-each // step) * step for each in found}
    return [extent, *sorted(each for each in found if each < extent)]


def _extents_to_try(old: int, step: int, top: int, bits: int) -> list[int]:
    """Return extents of one dimension to try beside those of others: equal parts of the old one, few first."""
    wanted = max(1, -(-old // step))
    granule = 128 // math.gcd(128, bits) if bits else 1
    found: dict[int, None] = dict.fromkeys([old] if old <= top else [])
    if bits in (4, 6):
        found[128] = None
    for elements in range(min(wanted, (top - 1) // step + 1), 0, -1):
        even = -(-wanted // -(-wanted // elements))
        found[min(-(-even // granule) * granule if bits else step * even, top)] = None
    return [*found]


def _memories(seen: Dimensions) -> _Axis:
    """Strides: as they are, and multiples of 16 bytes from there and from what they step over on."""
    found: dict[tuple[int, ...], None] = {seen.strides: None}
    moving = [d for d in range(1, len(seen.dims)) if seen.dims[d] != 1]
    inner = -(-seen.dims[0] * seen.bits // 8)
    inners = {inner} | {
        -(-(-(-seen.dims[0] // g) * g) * seen.bits // 8) for g in (2, 128) if MAP_TYPES[seen.code].is_packed
    }
    sorted_dims = sorted(moving, key=lambda d: (seen.strides[d - 1], d))

    def grow(at: int, order: Sequence[int], strides: list[int], covered: int) -> Iterator[list[int]]:
        if at == len(order):
            yield strides
            return
        d = order[at]
        old = seen.strides[d - 1]
        options = {old}
        for granule in (16, 32):
            for base in (old, max(old, covered), covered):
                first = -(-base // granule) * granule
                options |= {first, first + granule} if order is sorted_dims else {first}
        for stride in sorted(options if old else {0}):
            reach = stride * seen.dims[d] if stride else covered
            yield from grow(at + 1, order, [*strides[: d - 1], stride, *strides[d:]], reach)

    reach, crowded = inner, False
    for d in sorted_dims:
        crowded |= seen.strides[d - 1] < reach or seen.strides[d - 1] >= 2**40
        reach = seen.strides[d - 1] * seen.dims[d]
    orders = [sorted_dims, *(list(order) for order in itertools.permutations(moving) if crowded)]
    idle = [d for d in range(1, len(seen.dims)) if seen.dims[d] == 1]
    choices = []
    for d in idle:
        old = seen.strides[d - 1]
        choices.append({old, *(old // g * g + more for g in (16, 32) for more in (0, g)), 2**40 - 16, 2**40 - 32, 128})
    ways = itertools.chain.from_iterable(
        itertools.islice(grow(0, order, [*seen.strides], covered), MOST_STRIDES)
        for covered in inners
        for order in orders
    )
    for strides in ways:
        for free in itertools.product(*choices):
            for d, stride in zip(idle, free, strict=True):
                strides[d - 1] = stride
            if len(found) < MOST_VECTORS:
                found[tuple(strides)] = None
    vectors = [*found]
    return _Axis(vectors, [_memory_parts(strides, seen) for strides in vectors])


def _memory_parts(strides: tuple[int, ...], seen: Dimensions) -> Parts:
    changed = [n == 1 for new, old, n in zip(strides, seen.strides, seen.dims[1:], strict=True) if new != old]
    return frozenset({"global_stride"} if True in changed else ()) | frozenset({"pad"} if False in changed else ())


def _changing(part: str, own: int, others: Iterable[int]) -> _Axis:
    values = [own, *(v for v in others if v != own)]
    return _Axis(values, [NOTHING, *([frozenset({part})] * (len(values) - 1))])


def _order(strides: tuple[int, ...]) -> tuple[int, ...]:
    return (0, *sorted(range(1, len(strides) + 1), key=lambda d: strides[d - 1]))


def _span(inner: int, seen: Dimensions, strides: tuple[int, ...]) -> int:
    return -(-inner * seen.bits // 8) + sum((n - 1) * s for n, s in zip(seen.dims[1:], strides, strict=True))


def _gap(old: int, new: int, known: int) -> int:
    return abs(new - old) if old < known else new

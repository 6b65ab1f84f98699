"""The cheapest way to move a tensor, by trying every way there is: what the planner is measured against.

It has no e-graph, no solver, no bounds and no pruning. It shares with the planner what a plan *is*: accesses, views,
the plain reading of the rules (`rule.check`), and the cost model. It tries

- every list of modes that equals the operator's (`bench.search.equal_accesses`): what the laws make of it, read
  forwards and backwards, so that a mode is also cut wherever two modes would merge to it;
- every word of `word_is_moved` and every means of `MEANS`, which bring a tile straight from the source;
- every box whose extents divide the tile's, up to the box limit, with every swizzle, the same L2 promotion; a store by
  boxes or by threads; 1 to 4 stages where somebody works on a stage while the next ones load;
- every size of a vector on either side.

What the rules do not say, a plan's kernel still needs; each such condition stands below with its reason. Boxes divide
the tile because the copy engine writes whole boxes: one that reached past the tile would be written over the
neighbouring box in shared memory, and stored over the neighbouring tile, so that no other extent is ever legal. Tiles
that threads take in hand are tried with rows as the laws make them alone: a row that is cut in two would pass for two
rows to the cost model, which knows conflicts between rows, not within one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bench.search.equal_accesses import TooManyWays, divisors, equal_accesses
from legalsat.extract.cost.cost import WAITING_STORE, Work, cost_of, order
from legalsat.extract.search.views import map_type, turned, views_of
from legalsat.logic import ceil_div, round_up
from legalsat.operators import MATRIX_CONSUMERS, Move, atom_bytes
from legalsat.operators.access import Access
from legalsat.plans.movement_plan import MovementCost, View
from legalsat.rule import Rule
from legalsat.rules import COPY_RULES, MOVEMENT_RULES, REGISTER_RULES, SHARED_RULES, VECTOR_RULES
from legalsat.targets import GRANULE_BYTES, Target
from legalsat.tensor import plain
from legalsat.units.sites import SWIZZLE_SPANS, Movement, RegisterTile, SharedStages, TmaCopy, VectorAccess
from legalsat.units.tensor_map import INTERLEAVES, L2_PROMOTIONS, driver_value

MEANS = ("tma", "tma.phases", "bulk", "cp.async", "threads", "fragments")
MOST_BOXES = 20_000  # combinations of a box and a swizzle, over all views of a problem
GRANULE_BITS = 8 * GRANULE_BYTES
STAGES = (1, 2, 3, 4)
VECTOR_BYTES = (1, 2, 4, 8, 16)
PATTERN_ROWS = 8  # rows over which a swizzle's pattern runs (FACTS SW-02 to SW-04)
CORE_ROW_BYTES = 16  # of a core matrix of wgmma, which is what rows are without a swizzle
BUFFER_ALIGNMENT = 128  # bytes (FACTS M-11)
# Repeats when eight threads read 16 bytes of eight swizzled rows, by swizzle: atoms of 16, 32 and 64 bytes.
SWIZZLED_REPEATS = (8, 1, 1, 1, 2, 2, 4)
LOADS = {"threads": "ld.global", "cp.async": "cp.async", "bulk": "cp.async.bulk", "fragments": "ld.global.fragment"}
STORE = "st.global"


@dataclass(frozen=True, slots=True)
class Way:
    """One legal way: the access with its means, the views that move whole rows, what a tile asks for, what it costs."""

    access: Access
    views: tuple[View, ...]
    work: Work
    cost: MovementCost


def cheapest(starts: Iterable[Access], operator: Move, target: Target, *, cuts: bool = True) -> Way | None:
    """Return the cheapest way to move any of the tiled accesses, None where no way is legal.

    Raises:
        TooManyWays: there are more than `MOST_BOXES` combinations of a box and a swizzle, or too many lists of modes.
    """
    trial = _Trial(operator, target)
    best: Way | None = None
    for start in starts:
        for access, whole_rows in equal_accesses(start, cuts=cuts).items():
            if word_is_moved(access.word, operator):
                for way in trial.ways(access, whole_rows=whole_rows):
                    if best is None or order(way.cost) < order(best.cost):
                        best = way
    return best


def word_is_moved(word: int, operator: Move) -> bool:
    """Whether backends move such words: bytes, 16 and 32 bits of an element that has as many, the element itself.

    An element of its own size needs a data type of the tensor map; Triton's copies take no wider words than 32 bits.
    """
    element = operator.source.dtype
    if word == element.bits and map_type(word, element) is not None:
        return True
    return word == 8 or (word in (16, 32) and word <= element.bits)


@dataclass(frozen=True, slots=True)
class _Map:
    """A legal choice for one tensor map, and what its tile then asks for."""

    box: tuple[int, ...]
    swizzle: int
    boxes: int
    conflicts: int


@dataclass
class _Trial:
    """Tries every way to deliver accesses of one operator on one target."""

    operator: Move
    target: Target
    _maps: dict[Any, list[_Map]] = field(default_factory=dict)
    _seen: set[Any] = field(default_factory=set)
    _tried: int = 0

    @cached_property
    def _feeds(self) -> bool:
        return self.operator.consumer in MATRIX_CONSUMERS

    @property
    def _stages(self) -> tuple[int, ...]:
        """Stages of the ring: a movement that nobody computes on takes one block a tile instead of a ring."""
        return STAGES if self._feeds else STAGES[:1]

    @property
    def _store_factor(self) -> float:
        """Of a tile in shared memory: threads wait for all of it before they store, unless the next comes meanwhile."""
        return 1.0 if self._feeds else WAITING_STORE

    def ways(self, access: Access, *, whole_rows: bool = True) -> Iterator[Way]:
        """Yield every legal way to deliver the access; accesses that look the same to both sides once.

        Without `whole_rows`, what boxes brought goes out by boxes as it came in.
        """
        for load, store in views_of(access):
            if (key := (access.word, load, store)) in self._seen:
                continue
            self._seen.add(key)
            for means in MEANS:
                ways = {"tma": self._by_boxes, "tma.phases": self._by_phases}.get(means, self._by_vectors)
                delivered = Access(access.word, access.modes, means)
                for views, work in set(ways(delivered, load, store, whole_rows=whole_rows)):
                    yield Way(delivered, views, work, cost_of(delivered, (load, store), work, self.target))

    def _holds(self, rules: Sequence[Rule], site: Any) -> bool:
        return not any(d.level == "error" for rule in rules for d in rule.check(site, self.target))

    def _movement(self, access: Access, *, row_bytes: int = 0, shifted: bool = False) -> bool:
        """Whether the movement as a whole is legal: words of whole bytes, units that the chip has, its consumer."""
        source = self.operator.source
        site = Movement(
            word=access.word,
            consumer=self.operator.consumer,
            element=source.dtype.name,
            tile=self.operator.tile or (),
            k_major=not source.strides or source.strides[-1] == 1,
            by=access.by,
            row_bytes=row_bytes,
            shifted=shifted,
        )
        return self._holds(MOVEMENT_RULES, site)

    def _operand_row(self, load: View, word: int) -> int | None:
        """Return the bytes of the operand's rows in the tile, None where the innermost dimension holds no such rows.

        wgmma finds rows at a distance that its descriptor names, so a row lies in one piece.
        """
        source, tile = self.operator.source, self.operator.tile or ()
        axis = next((a for a in reversed(range(len(tile))) if source.strides[a] == 1), None)
        if axis is None:
            return None
        bits = source.dtype.bits
        row, whole = tile[axis] * bits, plain(source.shape)[axis] * bits
        if row % word or load.tile[0] * word % row or load.extent[0] * word % whole:
            return None
        return row // 8

    def _by_boxes(
        self, access: Access, load: View, store: View, *, whole_rows: bool
    ) -> Iterator[tuple[tuple[View, ...], Work]]:
        """Yield the ways by boxes of one map, stored by boxes of another or by threads."""
        if not self._movement(access):
            return
        if self._feeds and self._operand_row(load, access.word) != load.tile[0] * access.word // 8:
            return
        word, turns = access.word, turned(load, store)
        size = _tile_bytes(access)
        handled = 2 * ceil_div(size, GRANULE_BYTES * self.target.lanes)  # threads read a granule each, and write it
        source, target = self.operator.source.address, self.operator.target.address
        # Threads take the tile in hand if they turn it or somebody reads it there. Else the engine alone sees it, and
        # it goes out from where it came in: both maps cut the same boxes, with the same swizzle.
        in_hand = turns or self.operator.consumer is not None
        if in_hand and not whole_rows:
            return
        loads = self._legal_maps(load, word, source, in_hand=in_hand)
        stores = self._legal_maps(store, word, target, in_hand=in_hand) if loads else []
        if turns:
            pairs = {(m.boxes, m.conflicts) for m in loads}, {(m.boxes, m.conflicts) for m in stores}
            both = {(a + b, max(c, d)) for (a, c), (b, d) in itertools.product(*pairs)}
        else:
            back = [store.groups.index(group) for group in load.groups]
            alike = {(tuple(m.box[i] for i in back), m.swizzle): m for m in stores}
            matched = [(m, alike[m.box, m.swizzle]) for m in loads if (m.box, m.swizzle) in alike]
            both = {(one.boxes + other.boxes, max(one.conflicts, other.conflicts)) for one, other in matched}
        for stages in self._stages:
            # The turned tile lies on the loaded one, which all threads have read; not in a ring, where loads go on.
            second = size if turns and stages > 1 else 0
            if both and self._holds(SHARED_RULES, SharedStages(stages, size, second)):
                for boxes, conflicts in both:
                    shared = stages * size + second
                    yield (load, store), Work(boxes, handled * turns, conflicts, 2, 1.0, stages, shared)
        if not whole_rows or not _threads_store(store, word, target):
            return
        alone = self._legal_maps(load, word, source, in_hand=True)
        for stages in self._stages:
            if alone and self._holds(SHARED_RULES, SharedStages(stages, size, 0)):
                for boxes, conflicts in {(m.boxes, m.conflicts) for m in alone}:
                    yield (load,), Work(boxes, handled, conflicts, 2, self._store_factor, stages, stages * size)

    def _legal_maps(self, view: View, word: int, address: int, *, in_hand: bool) -> list[_Map]:
        key = view.side, view.extent, view.stride, view.tile, word, address, in_hand
        if key not in self._maps:
            self._maps[key] = list(self._find_maps(view, word, address, in_hand=in_hand))
        return self._maps[key]

    def _find_maps(self, view: View, word: int, address: int, *, in_hand: bool) -> Iterator[_Map]:
        """Yield every legal box and swizzle of a view."""
        tma = self.target.tma
        if (
            tma is None
            or map_type(word, self.operator.source.dtype) is None
            or any(stride % 8 for stride in view.stride[1:])
        ):
            return  # a map has no field for such elements or strides
        row, *rows = view.tile
        granules = row * word // GRANULE_BITS
        limit = tma.max_box_extent
        # Threads address the tile as one block of rows: boxes lie side by side along swizzled rows only.
        extents = [[n] if in_hand and n <= limit else [] if in_hand else divisors(n, limit) for n in rows]
        rules = list(COPY_RULES)
        for swizzle in range(tma.swizzles):
            # A swizzled row fills its span, or its pitch leaves holes (FACTS M-08, WG-18), and the pattern runs over
            # eight rows. A plain row is not cut but by the box limit: so backends lay plain tiles out.
            if swizzle:
                whole, ragged = divmod(8 * SWIZZLE_SPANS[swizzle], word)
                inner = [whole] if not ragged and row % whole == 0 and math.prod(rows) % PATTERN_ROWS == 0 else []
            else:
                inner = [n for n in (row if in_hand else min(row, limit),) if row % n == 0]
            for box in itertools.product(inner, *extents):
                self._tried += 1
                if self._tried > MOST_BOXES:
                    raise TooManyWays(f"more than {MOST_BOXES} boxes and swizzles")
                site = self._site(view, word, address, box, swizzle)
                broken = next((rule for rule in rules if not self._holds((rule,), site)), None)
                if broken is not None:
                    rules.remove(broken)  # most likely to be broken by the next box too
                    rules.insert(0, broken)
                    continue
                repeats = SWIZZLED_REPEATS[swizzle] if swizzle else math.gcd(granules, 8)
                boxes = math.prod(tile // n for tile, n in zip(view.tile, box, strict=True))
                yield _Map(box, swizzle, boxes, repeats if in_hand else 1)

    def _site(self, view: View, word: int, address: int, box: tuple[int, ...], swizzle: int) -> TmaCopy:
        return TmaCopy(
            tiled=True,
            rank=len(view.extent),
            dtype=driver_value("dtype", map_type(word, self.operator.source.dtype) or ""),
            interleave=INTERLEAVES.index("none"),
            swizzle=swizzle,
            l2_promotion=L2_PROMOTIONS.index("128B"),
            oob_fill=0,
            map_offset=0,
            address=address,
            global_dim=view.extent,
            global_stride=tuple(stride // 8 for stride in view.stride[1:]),
            element_stride=(1,) * len(view.extent),
            box=box,
            stores=view.side == "target",
            inner_stride_bits=view.stride[0],
            tile=view.tile,
            side=view.side,
            atom_bytes=atom_bytes(self.operator),
            by_stride=view.by_stride,
        )

    def _by_phases(
        self, access: Access, load: View, store: View, *, whole_rows: bool
    ) -> Iterator[tuple[tuple[View, ...], Work]]:
        """Yield the ways by boxes of one map a phase: rows r apart share a map, since r pitches are whole granules.

        One dimension's stride at most is no multiple of a granule, and a tile holds as many of its rows in each phase;
        or the tensor begins inside a granule. A phase's rows begin at the granule before, and are so much longer.
        """
        word, source = access.word, self.operator.source
        if not whole_rows:
            return
        if load.tile[0] < load.extent[0] and load.tile[0] * word % GRANULE_BITS:
            return  # the next tile's rows would begin inside a granule
        wild = [i for i in range(1, len(load.extent)) if load.extent[i] > 1 and load.stride[i] % GRANULE_BITS]
        first = 8 * source.address % GRANULE_BITS
        if load.stride[0] != word or word % 8 or GRANULE_BITS % word or first % word or source.align % GRANULE_BYTES:
            return
        if len(load.extent) == 1 or len(wild) > 1 or not (wild or first):
            return
        at = wild[0] if wild else len(load.extent) - 1
        pitch, margin = load.stride[at], GRANULE_BITS // word
        phases = GRANULE_BITS // math.gcd(GRANULE_BITS, pitch) if wild else 1
        if pitch % word or load.tile[at] % phases or load.extent[at] < phases:
            return
        if not self._movement(access, row_bytes=GRANULE_BYTES, shifted=True) or _begins_inside_bytes(load, store):
            return
        rows = _with(load.tile, {at: load.tile[at] // phases})[1:]
        # Phases follow one another in shared memory, so each takes a multiple of what boxes must start at.
        step = BUFFER_ALIGNMENT // math.gcd(BUFFER_ALIGNMENT, GRANULE_BYTES * math.prod(rows)) * margin
        tile = (round_up(round_up(load.tile[0], margin) + margin, step), *rows)
        common: set[_Map] | None = None
        shifts = []
        for number in range(phases):
            before, shift = divmod(first + number * pitch, GRANULE_BITS)
            shifts.append(shift // 8)
            extent = {0: load.extent[0] + shift // word, at: ceil_div(load.extent[at] - number, phases)}
            stride = _with(load.stride, {at: phases * pitch})
            view = View(load.side, load.groups, _with(load.extent, extent), stride, tile)
            address = source.align + before * GRANULE_BYTES
            maps = set(self._legal_maps(view, word, address, in_hand=True))
            common = maps if common is None else common & maps  # one shared layout for all phases
        size = _tile_bytes(access)
        instructions = [ceil_div(size, n * self.target.lanes) for n in self._vectors(store, word, STORE)]
        read = ceil_div(size, math.gcd(GRANULE_BYTES, *shifts) * self.target.lanes)
        shared = phases * math.prod(tile) * word // 8
        if self._holds(SHARED_RULES, SharedStages(1, shared, 0)):
            for one, written in itertools.product(common or (), instructions):
                issued = read + written
                yield (load,), Work(phases * one.boxes, issued, one.conflicts, 2, self._store_factor, 1, shared)

    def _by_vectors(
        self, access: Access, load: View, store: View, *, whole_rows: bool
    ) -> Iterator[tuple[tuple[View, ...], Work]]:
        """Yield the ways by vectors of threads, by asynchronous copies, by bulk copies of rows, and as fragments."""
        word, means, turns = access.word, access.by, turned(load, store)
        size, row = _tile_bytes(access), load.tile[0] * word // 8
        # What threads load stays in registers, unless somebody reads it in shared memory or it is turned there.
        staged = means not in ("threads", "fragments") or (
            means == "threads" and (turns or self.operator.consumer is not None)
        )
        if staged and self._feeds:
            row = self._operand_row(load, word) or 0
            if not row or (means == "bulk" and row != CORE_ROW_BYTES):  # bulk copies swizzle nothing
                return
        if _begins_inside_bytes(load, store):
            return
        if not self._movement(access, row_bytes=row if self._feeds and staged else 0):
            return
        if means in ("threads", "fragments") and not self._holds(REGISTER_RULES, RegisterTile(size)):
            return
        bulk = means == "bulk"
        loads = self._vectors(load, word, LOADS[means], sizes=(GRANULE_BYTES,) if bulk else VECTOR_BYTES)
        stores = self._vectors(store, word, STORE)
        runs = math.prod(load.tile[1:]) if bulk else 0
        for stages in self._stages if staged else STAGES[:1]:
            if staged and not self._holds(SHARED_RULES, SharedStages(stages, size, 0)):
                continue
            for read, written in itertools.product(loads, stores):
                # By whom a granule is issued: the load unless the engine makes it, the store, and shared memory's side
                # of a staged tile, which threads read and, if they loaded it, wrote.
                issued = [written, *([] if bulk else [read])]
                issued += [GRANULE_BYTES] * (staged * (2 if means == "threads" else 1))
                yield (
                    (load,),
                    Work(
                        boxes=runs,
                        instructions=sum(ceil_div(size, n * self.target.lanes) for n in issued),
                        conflicts=2 if turns and staged else 1,
                        passes=2 * staged,
                        store_factor=self._store_factor if staged else 1.0,
                        stages=stages,
                        shared_bytes=stages * size * staged,
                    ),
                )

    def _vectors(self, view: View, word: int, instruction: str, sizes: Sequence[int] = VECTOR_BYTES) -> list[int]:
        """Return the legal sizes of a side's vectors, in bytes."""
        end = self.operator.source if view.side == "source" else self.operator.target
        # Where elements lie side by side, the innermost dimension is a row; the others step over what faster ones span.
        side_by_side = view.stride[0] == word
        dims = zip(view.stride[side_by_side:], view.extent[side_by_side:], strict=True)
        outer = sorted((stride, extent) for stride, extent in dims if extent > 1)
        spans = itertools.accumulate(
            ((n - 1) * s for s, n in outer), initial=word * (view.extent[0] if side_by_side else 1)
        )
        # A fragment holds pairs along the operand's last axis, K.
        torn = instruction == LOADS["fragments"] and end.strides[-1:] != (1,)
        site: dict[str, Any] = {
            "instruction": instruction,
            "side": view.side,
            "word": word,
            "address": end.address,
            "strides": tuple(stride // 8 for stride, _ in outer),
            "stepped_over": tuple(ceil_div(span, 8) for span in list(spans)[:-1]),
            "inner_stride_bits": 0 if torn else view.stride[0],
            "row_bits": view.extent[0] * word,
            "tile_bits": view.tile[0] * word,
        }
        return [size for size in sizes if self._holds(VECTOR_RULES, VectorAccess(bytes=size, **site))]


def _begins_inside_bytes(*views: View) -> bool:
    """Whether some packed element begins inside a byte, so that no thread can move it alone."""
    return any(n > 1 and stride % 8 for view in views for n, stride in zip(view.extent, view.stride, strict=True))


def _threads_store(store: View, word: int, address: int) -> bool:
    """Whether threads can store what the engine loaded: words at multiples of their size that share no memory.

    Every stride steps over all that the faster ones span, and the base is one that kernels vectorise from.
    """
    spanned = word
    for stride, extent in sorted(zip(store.stride, store.extent, strict=True)):
        if extent > 1 and (stride < spanned or stride % word):
            return False
        spanned += (extent - 1) * stride
    return address % GRANULE_BYTES == 0


def _tile_bytes(access: Access) -> int:
    return -(-math.prod(m.tile for m in access.modes) * access.word // 8)


def _with(numbers: tuple[int, ...], changed: dict[int, int]) -> tuple[int, ...]:
    return tuple(changed.get(i, n) for i, n in enumerate(numbers))

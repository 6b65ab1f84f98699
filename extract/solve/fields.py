"""The solver chooses every field that a candidate leaves open, under all rules at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from legalsat.diagnostics import Diagnostic
from legalsat.dtypes import DType
from legalsat.errors import LegalSatError
from legalsat.extract.explain.recorded import evaluated, open_number
from legalsat.extract.search.columns import Column
from legalsat.extract.search.schedule import MAX_STAGES, PATTERN_ROWS
from legalsat.extract.search.views import map_type
from legalsat.extract.solve.requirements import Wanted
from legalsat.logic import Condition, Value, ceil_div, choose, implies, pick
from legalsat.operators.access import Access
from legalsat.plans.movement_plan import View
from legalsat.rules import COPY_RULES, SHARED_RULES
from legalsat.targets import GRANULE_BYTES, Target
from legalsat.units.sites import SWIZZLE_SPANS, SharedStages, TmaCopy
from legalsat.units.tensor_map import INTERLEAVES, L2_PROMOTIONS, SWIZZLES, TensorMap, driver_value

# What the objective weighs, most important first: repeated shared accesses, boxes, stages, then taste.
_CONFLICT, _BOX, _STAGE, _TASTE = 10**9, 10**4, 10**3, 1
# By swizzle: eight rows of one span take all banks once with 16-byte atoms, half of them with 32, a quarter with 64.
_SWIZZLED_CONFLICTS = (8, 1, 1, 1, 2, 2, 4)
# A hint that no rule restricts; 128B is what every framework asks for (FACTS TM-21).
_L2_PROMOTION = L2_PROMOTIONS.index("128B")


@dataclass(frozen=True, slots=True)
class Solution:
    """Solved tensor maps in the order of the views, ring stages, and how often shared accesses repeat."""

    tensor_maps: tuple[TensorMap, ...]
    stages: int
    conflicts: int


@dataclass(frozen=True)
class Conflict:
    """No fields satisfy the rules; which ones is found out when somebody asks, since most candidates only fall away.

    Attributes:
        reasons: what the rules say, or how to find it out.
    """

    reasons: tuple[Diagnostic, ...] | Callable[[], tuple[Diagnostic, ...]]

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What the rules involved say, a minimal set of them.

        Raises:
            SolverGaveUp: time or effort ran out.
        """
        return self.reasons() if callable(self.reasons) else self.reasons


@dataclass(frozen=True, slots=True)
class _Open:
    """One tensor map: its site with an open number for every field that the view does not fix, and their values."""

    site: TmaCopy
    box: tuple[Value, ...]
    choices: dict[str, Sequence[int]]
    given: list[Condition]


@lru_cache(maxsize=512)
def solve(
    access: Access,
    views: tuple[View, ...],
    element: DType,
    align: tuple[int, ...],
    target: Target,
    *,
    threads_read: bool,
    turned: bool,
    column: Column | None = None,
    atom_bytes: int = 0,
    max_stages: int = MAX_STAGES,
    max_conflicts: int | None = None,
    deadline: float | None = None,
) -> Solution | Conflict:
    """Return fields for the tensor maps of `views` (the load's first), or the rules that forbid any.

    Args:
        access: the movement; its tiles are what the boxes must cover exactly.
        views: one per tensor map.
        element: the tensor's dtype, which names the data type where words are elements.
        align: bytes that each side's base address is a multiple of.
        target: the GPU.
        threads_read: whether threads, and not the copy engine alone, read the tile; then swizzles matter.
        turned: whether the tile's dimensions run in another order in the target, whose map then has its own layout.
        column: what windows fix of the load's map, where it loads columns of pixels.
        atom_bytes: bytes that the matrix unit which reads the tile has swizzles keep together, 0 where none reads it.
        max_stages: stages of the ring at most; as many are taken as fit.
        max_conflicts: how often a shared access may repeat, where more conflicts may come with fewer boxes; as seldom
            as possible when left out.
        deadline: `time.monotonic()` at which to give up, none where only the solver's effort is limited.

    Raises:
        SolverGaveUp: time or effort ran out.
    """
    type_name = map_type(access.word, element)
    if type_name is None:
        raise LegalSatError(f"no tensor-map data type has {access.word} bits; recast the tensor to bytes")
    opened = [
        _open(
            view,
            driver_value("dtype", type_name),
            a,
            target,
            column,
            threads_read=threads_read,
            atom=atom_bytes,
        )
        for view, a in zip(views, align, strict=True)
    ]
    tile_bytes = ceil_div(math.prod(views[0].tile) * access.word, 8)
    choices = {name: values for one in opened for name, values in one.choices.items()}
    stages: Value = 1
    if max_stages > 1:
        stages, choices["stages"] = open_number("stages"), range(1, max_stages + 1)
    # The turned tile lies on the loaded one, unless that is a ring that goes on being filled.
    shared = SharedStages(stages, tile_bytes, choose(stages > 1, tile_bytes, 0) if turned else 0)
    wanted = Wanted(target)
    wanted.judge(COPY_RULES, *(o.site for o in opened))
    wanted.judge(SHARED_RULES, shared)
    for one in opened:
        wanted.give(one.given)
    if len(opened) > 1 and not turned:
        wanted.give(_same_tile(opened, views))
    conflicts: Value = 1
    for one, view in zip(opened, views, strict=True) if threads_read else ():
        repeats = _conflicts(one.site, view)
        conflicts = choose(repeats > conflicts, repeats, conflicts)
    if max_conflicts is not None:
        wanted.give([conflicts <= max_conflicts])
    weight = _CONFLICT if max_conflicts is None else 0
    found = wanted.optimum(choices, _objective(opened, views, stages, weight * conflicts), deadline)
    if found is None:

        def reasons() -> tuple[Diagnostic, ...]:
            codes = wanted.codes(choices, deadline)
            plainest = (_plainest(o, view, target, boxed=bool(codes)) for o, view in zip(opened, views, strict=True))
            return wanted.said_of(codes or {r.code for r in COPY_RULES}, *plainest, replace(shared, stages=1))

        return Conflict(reasons)
    maps = tuple(_solved(o, type_name, found) for o in opened)
    return Solution(maps, evaluated(stages, found), evaluated(conflicts, found))


def _open(
    view: View,
    data_type: int,
    align: int,
    target: Target,
    column: Column | None,
    *,
    threads_read: bool,
    atom: int,
) -> _Open:
    """Return the site of a view with an open number for every field that the view does not fix, and their values."""
    rank, name = len(view.extent), view.side
    choices: dict[str, Sequence[int]] = {}

    def field(what: str, values: Sequence[int]) -> Value:
        """Return an open number that is one of `values`; where there is one only, that."""
        if len(values) == 1:
            return values[0]
        choices[f"{name}.{what}"] = values
        return open_number(f"{name}.{what}")

    # Every element of the tile is wanted, in dense rows, which leaves steps and interleave no choice.
    limits = _limits(view, target, column)
    box = tuple(field(f"box{i}", _divisors(n, most)) for i, (n, most) in enumerate(zip(view.tile, limits, strict=True)))
    steps = tuple(field(f"step{i}", (1,)) for i in range(rank))
    swizzle = field("swizzle", range(target.tma.swizzles if target.tma else 1))
    interleave = field("interleave", (INTERLEAVES.index("none"),))
    site = TmaCopy(
        tiled=True,
        rank=rank,
        dtype=data_type,
        interleave=interleave,
        swizzle=swizzle,
        l2_promotion=_L2_PROMOTION,
        oob_fill=0,
        map_offset=0,
        address=align,
        global_dim=view.extent,
        global_stride=tuple(s // 8 if s % 8 == 0 else s / 8 for s in view.stride[1:]),
        element_stride=steps,
        box=box,
        stores=view.side == "target",
        inner_stride_bits=view.stride[0] if rank else None,
        tile=view.tile,
        side=view.side,
        atom_bytes=atom,
        by_stride=view.by_stride,
        before=view.before,
    )
    if column is not None and view.side == "source":
        site = _under_windows(site, box, column)
    given: list[Condition] = []
    if rank:
        # A swizzled row fills its span, or the pitch would leave holes (FACTS M-08, WG-18); a plain one is not cut
        # without need, which is how every backend lays an unswizzled tile out.
        given.append(implies(swizzle != 0, site.inner_bits == 8 * pick(SWIZZLE_SPANS, swizzle)))
        given.append(implies(swizzle == 0, box[0] == min(view.tile[0], limits[0])))
        outer = range(1, rank) if column is None else (rank - 1,)  # a column is under one tap, whatever the reader
        if math.prod(view.tile[i] for i in outer) % PATTERN_ROWS:
            given.append(swizzle == 0)
        if threads_read:
            # Threads address the tile as one block of rows: boxes lie side by side only along swizzled rows.
            given += [box[i] == view.tile[i] for i in outer]
            given.append(implies(swizzle == 0, box[0] == view.tile[0]))
    return _Open(site, box, choices, given)


def _limits(view: View, target: Target, column: Column | None) -> tuple[int, ...]:
    """Return how many elements a box spans along each dimension at most; under windows, one tap along each axis."""
    tma = target.tma
    if tma is None or column is None:
        return (tma.max_box_extent if tma else 1,) * len(view.tile)
    loads = view.side == "source"
    first, last = (tma.max_channels, tma.max_pixels) if loads else (tma.max_box_extent, tma.max_box_extent)
    return (first, *(1 for _ in view.tile[1:-1]), last)


def _under_windows(site: TmaCopy, box: tuple[Value, ...], column: Column) -> TmaCopy:
    """Return the site of the im2col map that loads columns of this box."""
    return replace(
        site,
        tiled=False,
        rank=len(column.global_dim),
        global_dim=column.global_dim,
        global_stride=column.global_stride,
        element_stride=column.element_stride,
        box=(),
        lower_corner=column.lower_corner,
        upper_corner=column.upper_corner,
        offsets=column.offsets,
        channels=box[0],
        pixels=box[-1],
        tile=(math.prod(site.tile[:-1]), site.tile[-1]),
        by_stride=(),
        axes=tuple(reversed(range(len(column.global_dim)))),
    )


def _same_tile(opened: Sequence[_Open], views: Sequence[View]) -> Iterator[Condition]:
    """States that both maps lay the same tile out alike, for a tile that goes out as it came in."""
    load, store = opened
    yield load.site.swizzle == store.site.swizzle
    for extent, group in zip(load.box, views[0].groups, strict=True):
        yield extent == store.box[views[1].groups.index(group)]


def _conflicts(site: TmaCopy, view: View) -> Value:
    """Return how often eight threads that read 16 bytes of eight rows each hit the same banks; 1 is never.

    Plain rows are as long as the tile's, and rows of an odd number of granules take turns through the eight banks'
    groups. Swizzled rows fill their span. A matrix unit is taken to read the atoms that it asks for without conflicts.
    """
    if site.atom_bytes > GRANULE_BYTES:
        return 1
    plain = math.gcd(view.tile[0] * site.element_bits // (8 * GRANULE_BYTES), 8) if view.tile else 1
    return choose(site.swizzle == 0, plain, pick(_SWIZZLED_CONFLICTS, site.swizzle))


def _objective(opened: Sequence[_Open], views: Sequence[View], stages: Value, conflicts: Value) -> Value:
    cost: Value = conflicts + _STAGE * (MAX_STAGES - stages)
    for o, view in zip(opened, views, strict=True):
        for extent, tile in zip(o.box, view.tile, strict=True):
            cost = cost + _BOX * _log_boxes(extent, tile)
        cost = cost + _TASTE * o.site.swizzle
    return cost


def _log_boxes(extent: Value, tile: int) -> Value:
    """Return 100 log2 of the boxes along a dimension: a sum of these orders plans as the product of boxes does."""
    result: Value = 0
    for choice in _divisors(tile, tile)[:-1]:
        result = choose(extent == choice, round(100 * math.log2(tile // choice)), result)
    return result


def _divisors(number: int, limit: int) -> list[int]:
    # A tile of a million elements has its useful divisors among the first 256 numbers, and itself.
    small = [d for d in range(1, min(number, limit, 256) + 1) if number % d == 0]
    return small if number > limit or number <= 256 else [*small, number]


def _solved(opened: _Open, type_name: str, found: dict[str, int]) -> TensorMap:
    site = opened.site

    def value(number: Value) -> int:
        return int(evaluated(number, found))

    return TensorMap(
        dtype=type_name,
        global_dim=tuple(site.global_dim),
        global_stride=tuple(site.global_stride),
        box=tuple(map(value, site.box)),
        element_stride=tuple(map(value, site.element_stride)),
        address=site.address,
        interleave=INTERLEAVES[value(site.interleave)],
        swizzle=SWIZZLES[value(site.swizzle)],
        l2_promotion=L2_PROMOTIONS[site.l2_promotion],
        mode="tiled" if site.tiled else "im2col",
        lower_corner=tuple(site.lower_corner),
        upper_corner=tuple(site.upper_corner),
        channels=value(site.channels),
        pixels=value(site.pixels),
    )


def _plainest(opened: _Open, view: View, target: Target, *, boxed: bool) -> TmaCopy:
    """Return the site with the plainest fields, which a refusal speaks of: whole boxes where they fit, no swizzle.

    Where no boxes can be laid out as the tile's reader wants them, the tile itself is judged as one box.
    """
    site = opened.site
    limits = _limits(view, target, None)
    box = tuple(_divisors(n, most)[-1] if boxed else n for n, most in zip(view.tile, limits, strict=True))
    if not site.tiled:
        return replace(site, channels=box[0], pixels=box[-1], swizzle=0, interleave=0)
    return replace(site, box=box, element_stride=(1,) * site.rank, swizzle=0, interleave=0)

"""A tensor by its rows: the tensor map that keeps its axes and strides, as whoever tiles it would encode it.

Its fastest axis is dimension 0 and every other axis a dimension of its own; none is merged, cut or left out. What a
plan makes of a tensor may be another map of the same bytes: this is about the one that a loop over its axes needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from legalsat.diagnostics import Diagnostic, worst_first
from legalsat.extract.search.delivery import Question
from legalsat.extract.search.planner import BOXES
from legalsat.extract.search.views import map_type
from legalsat.extract.solve.fields import Conflict
from legalsat.extract.solve.fields import solve as solve_fields
from legalsat.logic import round_up
from legalsat.operators import MATRIX_CONSUMERS, Move, atom_bytes, dense_like
from legalsat.operators.access import Access, Mode
from legalsat.plans.movement_plan import View
from legalsat.rules import COPY_RULES, UNIT_AXIS_RULES, judge
from legalsat.rules.causes import FOLLOWS
from legalsat.targets import GRANULE_BYTES, MAX_BOX_EXTENT, Target
from legalsat.tensor import Tensor, plain
from legalsat.units.sites import TmaCopy, UnitAxes
from legalsat.units.tensor_map import driver_value

BYTE = 8
PACKED_ROW = 128  # elements of a row of a box of packed elements, which nothing else may have
ROW_BYTES, MOST_ROWS = 128, 128  # of the box that is spoken of where no tile is given
# What the encode call or the copy itself refuses of a tensor whatever the tile; the others are about boxes.
_WHOLE_TILES = {"TMA003", "TMA008", "TMA009", "TMA017", "TMA021", "TMA027", "TMA033"}


@dataclass(frozen=True, slots=True)
class Rows:
    """A tensor as dimensions of a tensor map.

    Attributes:
        word: bits of what the map counts: the element, or a byte of packed ones.
        axes: the tensor's axis of each dimension, fastest first.
        extent, tile: words along each dimension; `tile` of a chosen box where none is asked for.
        stride: bits between neighbours; of axes of one element some that is legal.
    """

    word: int
    axes: tuple[int, ...]
    extent: tuple[int, ...]
    stride: tuple[int, ...]
    tile: tuple[int, ...]

    def site(self, tensor: Tensor, type_name: str) -> TmaCopy:
        """Return the map as rules judge it, with the plainest box."""
        box = tuple(_divisor(n) for n in self.tile)
        return TmaCopy(
            tiled=True,
            rank=len(self.axes),
            dtype=driver_value("dtype", type_name),
            interleave=0,
            swizzle=0,
            l2_promotion=0,
            oob_fill=0,
            map_offset=0,
            address=tensor.address,
            global_dim=self.extent,
            global_stride=tuple(s // BYTE if s % BYTE == 0 else s / BYTE for s in self.stride[1:]),
            element_stride=(1,) * len(self.axes),
            box=box,
            inner_stride_bits=self.stride[0],
            tile=self.tile,
            side="source",
            by_stride=self.view.by_stride,
            axes=self.axes,
        )

    @property
    def view(self) -> View:
        """The rows as the solver of boxes takes them."""
        groups = tuple((i,) for i in range(len(self.axes)))
        return View("source", groups, self.extent, self.stride, self.tile)


def axes_of(tensor: Tensor, tile: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """Return the axes of a tensor without dims, fastest first: those that have anything to step to, then the others.

    The one that is dense comes first; of several the last, as frameworks number them. An axis of one element is among
    them where a tile goes beyond it. Where none is dense, another one may come first, since its stride means nothing.
    """
    shape, strides = plain(tensor.shape), plain(tensor.strides)
    tiled = [shape[a] > 1 or (tile is not None and tile[a] > 1 and strides[a] == 1) for a in range(tensor.rank)]
    long = sorted((a for a in range(tensor.rank) if tiled[a]), key=lambda a: (strides[a] == 0, strides[a], -a))
    units = sorted((a for a in range(tensor.rank) if not tiled[a]), key=lambda a: (strides[a] != 1, -a))
    if units and not (long and strides[long[0]] == 1):
        return (units[0], *long, *units[1:])
    return (*long, *units)


def unit_axes(tensor: Tensor) -> UnitAxes:
    """Return the axes of one element whose strides a framework hands to the encode call."""
    axes = axes_of(tensor)
    inner = axes[:1] if axes and tensor.strides[axes[0]] == 1 else ()
    units = tuple(a for a in range(tensor.rank) if tensor.shape[a] == 1 and a not in inner)
    return UnitAxes(units, tuple(plain(tensor.strides)[a] * tensor.dtype.bits for a in units))


def settled(tensor: Tensor, target: Target) -> Tensor:
    """Return the tensor with strides of axes of one element that every encoder may hand on; the same memory.

    They become what a dense tensor would have there if that is legal, else as long as the tensor.
    """
    shape, strides = plain(tensor.shape), list(plain(tensor.strides))
    units = unit_axes(tensor)
    granule = math.lcm(BYTE * GRANULE_BYTES * (2 if tensor.dtype.bits % BYTE else 1), tensor.dtype.bits)
    step, changed = granule // tensor.dtype.bits, False
    longest = round_up(tensor.span_bits // tensor.dtype.bits, step)
    for axis, stride in reversed(list(zip(units.axes, units.strides, strict=True))):
        if not any(judge(UnitAxes((axis,), (stride,)), target, UNIT_AXIS_RULES)):
            continue
        follows = strides[axis + 1] * shape[axis + 1] if axis + 1 < len(shape) else 0
        legal = (
            follows
            and follows % step == 0
            and not judge(UnitAxes((axis,), (follows * tensor.dtype.bits,)), target, UNIT_AXIS_RULES)
        )
        strides[axis], changed = follows if legal else longest, True
    return Tensor(shape, tensor.dtype, strides, tensor.align, tensor.offset) if changed else tensor


def rows_of(tensor: Tensor, tile: tuple[int, ...] | None, word: int) -> Rows | None:
    """Return a tensor's rows in words of so many bits; None where these would tear elements apart."""
    shape, strides, bits = plain(tensor.shape), plain(tensor.strides), tensor.dtype.bits
    axes = axes_of(tensor, tile)
    if not axes:  # a scalar is one element of one axis
        return Rows(word, (0,), (1,), (word,), (max(1, BYTE * GRANULE_BYTES // word),))
    granule = math.lcm(BYTE * GRANULE_BYTES, word) // word
    extent = [shape[a] for a in axes]
    spans = [tile[a] for a in axes] if tile is not None else []
    if word != bits:
        inner = [extent[0], *spans[:1], *(strides[a] for a in axes[1:] if shape[a] > 1)]
        if strides[axes[0]] != 1 or any(n * bits % word for n in inner):
            return None
        extent[0] = extent[0] * bits // word
        spans[:1] = [n * bits // word for n in spans[:1]]
    if not spans:
        row = PACKED_ROW if word < BYTE else min(round_up(extent[0], granule), BYTE * ROW_BYTES // word)
        spans = [max(row, granule), *(min(n, MOST_ROWS) for n in extent[1:2]), *(1 for _ in extent[2:])]
    dense = 1 if shape[axes[0]] == 1 else strides[axes[0]]
    steps = (0 if shape[a] == 1 else strides[a] * bits for a in axes[1:])
    first = word if dense == 1 else dense * bits
    return Rows(word, axes, tuple(extent), (first, *steps), tuple(spans))


@lru_cache(maxsize=4096)
def row_errors(copy: Move, target: Target) -> tuple[Diagnostic, ...]:
    """Return why no map keeps the axes of a copy's source and brings its tiles; empty where one does.

    Packed elements may travel as bytes. One cause is told once, for the fastest axis that has it.
    """
    word = max(copy.source.dtype.bits, BYTE)  # a map moves whole granules of packed elements, so that none is torn
    broken = Question(copy, Access(word, (), by=BOXES[0]), target).judged()
    if broken:
        return tuple(broken)
    said: list[tuple[Diagnostic, ...]] = []
    for rows, type_name in _in_words(copy):
        site = rows.site(copy.source, type_name)
        found = tuple(told(site, target, tiled=copy.tile is not None))
        if not found and copy.tile is not None:
            found = _unboxed(copy, rows, site, target)
        if not found:
            return ()
        said.append(found)
    return min(said, key=len, default=())


def _in_words(copy: Move) -> Iterator[tuple[Rows, str]]:
    """Yield the rows of a copy's source in its own words, and of packed elements in bytes, with the data type."""
    bits = copy.source.dtype.bits
    for word in dict.fromkeys((bits, BYTE) if bits < BYTE else (bits,)):
        rows, type_name = rows_of(copy.source, copy.tile, word), map_type(word, copy.source.dtype)
        if rows is None:
            continue
        if type_name is None:
            type_name = copy.source.dtype.map_type  # for a rule to say what is wrong with it
        yield rows, type_name


def told(site: TmaCopy, target: Target, *, tiled: bool = True) -> list[Diagnostic]:
    """Return the errors of a tensor's rows, a cause once: of several axes that break a rule the fastest is told.

    Args:
        site: the rows.
        target: the GPU.
        tiled: whether its box is asked for; what is wrong with one that nobody asked for is not said.
    """
    found = []
    for rule in COPY_RULES:
        if rule.level == "error" and (tiled or rule.code not in _WHOLE_TILES):
            said = rule.told(site, target)
            if said is not None:
                found.append(said)
    return worst_first(found, FOLLOWS)


def in_axes(
    found: Iterable[Diagnostic], tensor: Tensor, tile: tuple[int, ...] | None, target: Target, side: str = "source"
) -> tuple[Diagnostic, ...]:
    """Return what is said of one side's maps in axes of its tensor, where its rows break the same rules."""
    word = max(tensor.dtype.bits, BYTE)
    rows, type_name = rows_of(tensor, tile, word), map_type(word, tensor.dtype)
    if rows is None or type_name is None:
        return tuple(found)
    site = replace(rows.site(tensor, type_name), side=side, stores=side == "target")
    mine = {one.code: one for one in told(site, target)}
    named = (mine.get(one.code, one) if f"of the {side}" in one.where else one for one in found)
    return tuple(dict.fromkeys(named))


def _unboxed(copy: Move, rows: Rows, site: TmaCopy, target: Target) -> tuple[Diagnostic, ...]:
    """Return why no boxes fill the tile as its reader wants it; empty where some do."""
    modes = tuple(Mode(n, s, s, t) for n, s, t in zip(rows.extent, rows.stride, rows.tile, strict=True))
    question = Question(copy, Access(rows.word, modes, by=BOXES[0]), target)
    found = solve_fields(
        question.access,
        (rows.view,),
        copy.source.dtype,
        (copy.source.address,),
        target,
        threads_read=copy.consumer is not None,
        turned=False,
        atom_bytes=atom_bytes(copy),
        max_stages=question.most_stages,
    )
    if not isinstance(found, Conflict):
        return ()
    codes = {one.code for one in found.diagnostics}
    mine = [one for one in told(site, target) if one.code in codes]
    known = {one.code for one in mine}
    return tuple(worst_first([*mine, *(one for one in found.diagnostics if one.code not in known)], FOLLOWS))


def _divisor(tile: int) -> int:
    """Return the longest box that fills a tile in equal parts."""
    return next(n for n in range(min(tile, MAX_BOX_EXTENT), 0, -1) if tile % n == 0)


def of_rows(operator: Move) -> bool:
    """Whether a copy asks for nothing but the tiles of its source: where they go, and who reads them, is free."""
    reader = operator.tile is None and operator.consumer in MATRIX_CONSUMERS
    return operator.target == dense_like(operator.source) and not reader


def warnings_of(tensor: Tensor, target: Target) -> tuple[Diagnostic, ...]:
    """Return what frameworks may make of a tensor that is legal: strides of axes of one element, each cause once."""
    if target.tma is None:
        return ()
    site = unit_axes(tensor)
    return tuple(said for rule in UNIT_AXIS_RULES if (said := rule.told(site, target)) is not None)

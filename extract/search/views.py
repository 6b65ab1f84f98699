"""How a tensor map sees an access: its modes sorted by one side's strides, merged only where that is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from legalsat.dtypes import DType
from legalsat.operators.access import Access
from legalsat.plans.movement_plan import View
from legalsat.targets import GRANULE_BYTES, MAX_RANK
from legalsat.units.tensor_map import TensorMap
from legalsat.view.margins import Margin

WORD_TYPES = {4: "16u4_align8b", 8: "u8", 16: "u16", 32: "u32", 64: "u64"}


def map_type(word: int, element: DType) -> str | None:
    """Return the tensor-map data type for words of `word` bits: the element's own if it has that size."""
    return element.map_type if word == element.bits and word != 6 else WORD_TYPES.get(word)


@dataclass(slots=True)
class _Dimension:
    modes: tuple[int, ...]
    extent: int
    stride: int
    tile: int
    before: int = 0
    padded: bool = False


def view_of(access: Access, side: str, *, whole: bool = False, margins: Sequence[Margin] = ()) -> View:
    """Return the view of one side, "source" or "target".

    Every mode is a dimension of its own, except that neighbours merge while the innermost is too short for one granule
    (or, if it is to be `whole`, no whole number of granules), or there are more than five. They merge only where the
    inner one's tile is whole and memory continues. Of modes with `margins` the source has just some words: padded ones
    stay apart.
    """
    modes = access.modes
    strides = [getattr(mode, side) for mode in modes]
    order = sorted(range(len(strides)), key=lambda i: (strides[i] == 0, strides[i], modes[i].extent))
    dims = [_Dimension((i,), modes[i].extent, strides[i], modes[i].tile) for i in order]
    for dim, i in zip(dims, order, strict=True) if margins else ():
        dim.padded = margins[i] != (0, dim.extent)
        if side == "source":
            dim.before, dim.extent = margins[i]
    granule = 8 * GRANULE_BYTES
    while len(dims) > 1 and _mergeable(dims, 0):
        row = dims[0].tile * access.word
        if row >= granule and not (whole and row % granule):
            break
        _merge(dims, 0)
    while len(dims) > MAX_RANK:
        at = next((i for i in range(len(dims) - 1) if _mergeable(dims, i)), None)
        if at is None:
            break
        _merge(dims, at)
    return View(
        side,
        tuple(d.modes for d in dims),
        tuple(d.extent for d in dims),
        tuple(d.stride for d in dims),
        tuple(d.tile for d in dims),
        tuple(d.before for d in dims) if margins and side == "source" else (),
    )


def views_of(access: Access, margins: Sequence[Margin] = (), *, stores: bool = True) -> tuple[tuple[View, View], ...]:
    """Return the ways to see both sides; of modes with `margins` the source has just some words.

    First, if there is one, that in which the tile can go out as it came in: where only dimensions that a tile does not
    spread over change places, the target's map lists them in the source's order, for a map's order is the order in
    shared memory. Then each side in its own rows, which are longer where memory goes on: threads turn such a tile.
    Where nothing is stored the load has to suit nobody.
    """
    load, store = (view_of(access, side, margins=margins) for side in ("source", "target"))
    if not stores:
        return ((load, store),)
    whole = partial(view_of, access, whole=True, margins=margins)
    apart = whole("source"), whole("target")
    spread, other = ([g for g, tile in zip(v.groups, v.tile, strict=True) if tile > 1] for v in (load, store))
    if spread != other or set(load.groups) != set(store.groups):
        return (apart,)
    alike = load, store
    at = [store.groups.index(group) for group in load.groups]
    if store.stride[at[0]] == access.word:
        extent, stride, tile = (tuple(column[i] for i in at) for column in (store.extent, store.stride, store.tile))
        alike = load, View("target", load.groups, extent, stride, tile)
    return (alike,) if apart == (load, store) else (alike, apart)


def box_of(view: View, tm: TensorMap) -> tuple[int, ...]:
    """Return how many elements of each dimension of a view one copy by its map brings; of im2col, those under a tap."""
    return tm.box if tm.mode == "tiled" else (tm.channels, *(1 for _ in view.tile[1:-1]), tm.pixels)


def turned(load: View, store: View) -> bool:
    """Whether the tile's dimensions run in another order in the target, so that threads must turn it."""
    return load.groups != store.groups


def storable(store: View, word: int, align: int) -> bool:
    """Whether threads can store words of `word` bits to a base aligned to `align` bytes.

    Each word must lie at a multiple of its size, and no two may share memory: every stride steps over all that the
    faster ones span. The base must be one that kernels vectorise from, a multiple of 16 bytes.
    """
    spanned = word
    for extent, stride in sorted(zip(store.extent, store.stride, strict=True), key=lambda pair: pair[1]):
        if extent > 1 and (stride < spanned or stride % word):
            return False
        spanned += (extent - 1) * stride
    return 8 * align % word == 0 and align % GRANULE_BYTES == 0


def _mergeable(dims: list[_Dimension], at: int) -> bool:
    inner, outer = dims[at], dims[at + 1]
    apart = inner.padded or outer.padded
    return not apart and inner.tile == inner.extent and outer.stride == inner.extent * inner.stride


def _merge(dims: list[_Dimension], at: int) -> None:
    inner, outer = dims[at], dims.pop(at + 1)
    dims[at] = _Dimension(
        inner.modes + outer.modes, inner.extent * outer.extent, inner.stride, inner.extent * outer.tile
    )

"""What may be changed of a tensor map, and the least change of each part once the enumerations are chosen.

A repair of a tensor map changes some of these parts, and what it describes stays what it was:

- `box`: extents of the box (im2col: channels and pixels). Several smaller boxes cover the old one, side by side.
- `swizzle`, `l2_promotion`, `oob_fill`: another value. The last two change only where they are refused themselves.
- `dtype`: the same bytes cut into other words, so that dimension 0 of tensor and box counts those; without interleave,
  and not for types that round as they load. Where NaN fill of integers is refused: floats of the same size.
- `element_stride`: 1 where it is 0 or ignored; a step beyond 8 is folded into the dimension's stride, extent and box.
- `interleave`: none, where it is unknown, or refused for its rank or type. Data that lay interleaved then lie anew.
- `rank`: neighbours merged where memory continues and the box stays the same one; dimensions of one element dropped
  where there are too many, added where interleave wants three.
- `global_dim`: a dimension of too many elements is cut into several maps with an address each.
- `global_stride`: strides of dimensions of one element, to the nearest that is legal: nothing steps over them.
- `pad`: strides of the others; data lie anew, so that nothing overlaps but what stride 0 repeats.
- `extent`: the innermost extent of packed types, rounded up to whole groups; the tensor gets more elements.
- `address`: the tensor moves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from legalsat.logic import ceil_div, round_up
from legalsat.rules.tma import INTERLEAVE_32B, INTERLEAVE_NONE
from legalsat.rules.tma_packed import ALIGN8_4BIT, ALIGN16, ALIGN16_4BIT, PACKED_BOX
from legalsat.targets import GRANULE_BYTES, Target, TmaLimits
from legalsat.units.sites import SWIZZLE_SPANS
from legalsat.units.tensor_map import MAP_TYPES, UINT64_MAX, TensorMap

BYTE = 8
SLICE_BYTES = (0, 16, 32)  # by interleave; dimension 0 counts slices (measured; see legalsat.analyses.copy_engine)
LEAST_INTERLEAVED_RANK = 3
_WIDEST_ROW = 256 * 8  # bytes of a box: elements, and bytes of each
_WORDS = tuple(i for i, t in enumerate(MAP_TYPES) if t.name in ("u8", "u16", "u32", "u64"))
_ROUNDING = ("f32_ftz", "tf32", "tf32_ftz")
_MOST_SHAPES = 64  # ways to drop or merge dimensions that are tried; maps of legal rank have at most 16


@dataclass(frozen=True, slots=True)
class Shape:
    """A tensor map's dimensions once it has another rank, other steps or another word.

    Attributes:
        tiled: whether it is tiled, not im2col.
        dims, strides, steps: as in `TensorMap`; strides in bytes, of dimension 1 on.
        box: extents of the box; of im2col channels and pixels.
        changes: the parts changed so far.
        merges: dimensions that were merged.
        said: what was done to the dimensions, in words.
    """

    tiled: bool
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    steps: tuple[int, ...]
    box: tuple[int, ...]
    changes: frozenset[str] = frozenset()
    merges: int = 0
    said: tuple[str, ...] = ()

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    def changed(self, part: str, said: str, **values: object) -> Shape:
        """Return the shape with other values, of which `part` is the name."""
        return replace(self, changes=self.changes | {part}, said=(*self.said, said), **values)  # type: ignore[arg-type]


def shape_of(tm: TensorMap) -> Shape:
    """Return the shape of a tensor map as it is."""
    tiled = tm.mode == "tiled"
    return Shape(
        tiled, tm.global_dim, tm.global_stride, tm.element_stride, tm.box if tiled else (tm.channels, tm.pixels)
    )


class Choice(NamedTuple):
    """What is chosen from enumerations, as driver values."""

    dtype: int
    swizzle: int
    interleave: int

    @property
    def bits(self) -> int:
        """Bits of a step along dimension 0 of the tensor: of an element, or of a slice of an interleaved one."""
        interleaved = 0 < self.interleave < len(SLICE_BYTES)
        return BYTE * SLICE_BYTES[self.interleave] if interleaved else MAP_TYPES[self.dtype].bits


def ranked(shape: Shape, choice: Choice, tma: TmaLimits) -> Iterator[Shape]:
    """Yield the shape with as many dimensions as there may be: as it is, and with some dropped, merged or added."""
    if not shape.tiled:
        yield shape
        return
    interleave, bits = choice.interleave, choice.bits
    missing = LEAST_INTERLEAVED_RANK - shape.rank
    if interleave != INTERLEAVE_NONE and missing > 0:
        outermost = shape.strides[-1] * shape.dims[-1] if shape.strides else shape.dims[0] * bits // BYTE
        added = (1,) * missing
        yield shape.changed(
            "rank",
            f"add {'a dimension' if missing == 1 else f'{missing} dimensions'} of 1 element to get "
            f"{LEAST_INTERLEAVED_RANK}, which interleave needs",
            dims=shape.dims + added,
            strides=shape.strides + (round_up(max(outermost, 1), SLICE_BYTES[interleave]),) * missing,
            steps=shape.steps + added,
            box=shape.box + added,
        )
        return
    idle = [d for d in range(1, shape.rank) if shape.dims[d] == shape.box[d] == 1]
    excess = max(0, shape.rank - tma.max_rank)
    for dropped in range(min(excess, len(idle)), -1, -1):
        for axes in itertools.islice(itertools.combinations(idle, dropped), _MOST_SHAPES):
            yield from itertools.islice(_merged(_dropped(shape, axes), excess - dropped, bits), _MOST_SHAPES)


def _dropped(shape: Shape, axes: tuple[int, ...]) -> Shape:
    if not axes:
        return shape
    kept = [d for d in range(shape.rank) if d not in axes]
    which = f"dimension {axes[0]}" if len(axes) == 1 else f"dimensions {_listed(axes)}"
    return shape.changed(
        "rank",
        f"drop {which} of 1 element",
        dims=tuple(shape.dims[d] for d in kept),
        strides=tuple(shape.strides[d - 1] for d in kept[1:]),
        steps=tuple(shape.steps[d] for d in kept),
        box=tuple(shape.box[d] for d in kept),
    )


def _merged(shape: Shape, least: int, bits: int, below: int | None = None) -> Iterator[Shape]:
    """Yield the shape with at least so many pairs of neighbours merged: memory continues, the box stays the same one.

    The box spans the inner dimension, or one element of the outer and a part of the inner that divides it.
    """
    if least <= 0:
        yield shape
    for d in range(shape.rank - 2 if below is None else below - 1, -1, -1):
        (inner, outer), (box, over) = shape.dims[d : d + 2], shape.box[d : d + 2]
        step = bits if d == 0 else BYTE * shape.strides[d - 1]
        continues = BYTE * shape.strides[d] == inner * step and shape.steps[d : d + 2] == (1, 1)
        if not continues or not inner or not (box == inner or (over == 1 and box and inner % box == 0)):
            continue
        once = replace(
            shape.changed("rank", f"merge dimensions {d} and {d + 1}, which are contiguous"),
            merges=shape.merges + 1,
            dims=(*shape.dims[:d], inner * outer, *shape.dims[d + 2 :]),
            strides=(*shape.strides[:d], *shape.strides[d + 1 :]),
            steps=(*shape.steps[:d], *shape.steps[d + 1 :]),
            box=(*shape.box[:d], box * over, *shape.box[d + 2 :]),
        )
        yield from _merged(once, least - 1, bits, d)


def stepped(shape: Shape, interleave: int, tma: TmaLimits) -> Shape | None:
    """Return the shape with legal element strides; None where what the map describes has none."""
    for d, step in enumerate(shape.steps):
        if 1 <= step <= tma.max_element_stride:
            continue
        steps = (*shape.steps[:d], 1, *shape.steps[d + 1 :])
        if step == 0 or (d == 0 and interleave == INTERLEAVE_NONE):
            why = "; it is ignored without interleave" if step else ""
            shape = shape.changed("element_stride", f"set element stride {d} to 1 (now {step}){why}", steps=steps)
        elif d and shape.tiled:
            extent, box = ceil_div(shape.dims[d], step), ceil_div(shape.box[d], step)
            stride = shape.strides[d - 1] * step
            shape = shape.changed(
                "element_stride",
                f"fold element stride {step} of dimension {d} into the tensor: a stride of {stride} bytes (now "
                f"{shape.strides[d - 1]}), an extent of {extent} (now {shape.dims[d]}), a box of {box} (now "
                f"{shape.box[d]})",
                steps=steps,
                dims=(*shape.dims[:d], extent, *shape.dims[d + 1 :]),
                strides=(*shape.strides[: d - 1], stride, *shape.strides[d:]),
                box=(*shape.box[:d], box, *shape.box[d + 1 :]),
            )
        else:
            return None
    return shape


def recasts(shape: Shape, choice: Choice, tma: TmaLimits, *, nan_refused: bool) -> Iterator[int]:
    """Yield data types that the bytes of a type can be moved as; itself, if the target has it, is the first."""
    code, own = choice.dtype, MAP_TYPES[choice.dtype]
    if code < tma.map_types:
        yield code
    if nan_refused:
        yield from (i for i, t in enumerate(MAP_TYPES[: tma.map_types]) if t.is_float and t.bits == own.bits)
    if choice.interleave != INTERLEAVE_NONE or own.name in _ROUNDING:
        return
    if code == ALIGN16_4BIT and tma.map_types > ALIGN8_4BIT:
        yield ALIGN8_4BIT
    for i in _WORDS:
        bits = MAP_TYPES[i].bits
        if bits != own.bits and not any(n * own.bits % bits for n in (shape.dims[0], shape.box[0])):
            yield i


def recast(shape: Shape, code: int, dtype: int) -> Shape:
    """Return the shape with dimension 0 of tensor and box counted in words of another type than `code`."""
    if dtype == code:
        return shape
    own, new = MAP_TYPES[code], MAP_TYPES[dtype]
    said = f"move the bytes as {new.name} (now {own.name})"
    if own.bits == new.bits:
        said += ", which has a NaN" if not own.is_packed else ", without gaps in shared memory"
        return shape.changed("dtype", said)
    extent = shape.dims[0] * own.bits // new.bits
    inner = shape.box[0] * own.bits // new.bits
    said += f", so that dimension 0 counts {extent} (now {shape.dims[0]})"
    said += f" and the box {inner} (now {shape.box[0]})" if shape.tiled else f", {inner} of them channels"
    return shape.changed("dtype", said, dims=(extent, *shape.dims[1:]), box=(inner, *shape.box[1:]))


class Boxes(NamedTuple):
    """Boxes that cover the old one: extents of each, how many, and the bits that they move more than it did."""

    extents: tuple[int, ...]
    copies: int
    overhang_bits: int


class Rows(NamedTuple):
    """Boxes along the outer dimensions: how many, rows of each, distances from the old extents, extents."""

    copies: int
    rows: int
    distance: tuple[int, ...]
    extents: tuple[int, ...]


def _options(extent: int, step: int, most: int) -> list[Rows]:
    """Return ways to cover one outer dimension, few copies first, each with the fewest elements that will do."""
    wanted = max(1, ceil_div(extent, step))
    elements = min((most - 1) // step + 1, wanted)
    found: list[Rows] = []
    while elements:
        copies = ceil_div(wanted, elements)
        elements = ceil_div(wanted, copies)
        reach = min(max(extent, step * (elements - 1) + 1), step * elements, most)
        found.append(Rows(copies, elements, (abs(reach - extent),), (reach,)))
        elements -= 1
    return found


def least_row(interleave: int, tma: TmaLimits) -> int:
    """Return the fewest bytes that a row of a box may have (TMA008)."""
    return tma.alignment if tma.measured or interleave == INTERLEAVE_NONE else 1


def covers(shape: Shape, least: int, target: Target) -> list[Rows]:
    """Return the ways to cover the box's outer dimensions of which no other has fewer copies and fewer rows.

    A row takes at least `least` bytes of shared memory.
    """
    tma = target.tma
    assert tma is not None
    most = tma.max_box_extent if shape.tiled else tma.max_pixels
    steps = shape.steps[1:] if shape.tiled else (1,)
    options = [_options(extent, step, most) for extent, step in zip(shape.box[1:], steps, strict=True)]
    if math.prod(column[0].rows for column in options) * _WIDEST_ROW <= target.shared_bytes_per_block:
        options = [column[:1] for column in options]  # the usual case: as few pieces as each dimension's limit asks
    most_rows = target.shared_bytes_per_block // least
    found = [Rows(1, 1, (), ())]
    for column in options:
        pairs = sorted(
            (one.copies * other.copies, one.rows * other.rows, one.distance + other.distance, i, j)
            for i, one in enumerate(found)
            for j, other in enumerate(column)
            if one.rows * other.rows <= most_rows
        )
        joined: list[Rows] = []
        for copies, rows, distance, i, j in pairs:
            if not joined or rows < joined[-1].rows:
                joined.append(Rows(copies, rows, distance, found[i].extents + column[j].extents))
        found = joined
    return found


def boxes(shape: Shape, outer: Sequence[Rows], choice: Choice, target: Target) -> Boxes | None:
    """Return the boxes that cover the old one with the fewest copies, then bits; None where none are legal.

    `outer` is what `covers` says of the other dimensions.
    """
    tma = target.tma
    assert tma is not None
    bits, own = MAP_TYPES[choice.dtype].bits, shape.box[0]
    narrow = choice.swizzle != 0 and choice.interleave == INTERLEAVE_NONE
    least = least_row(choice.interleave, tma)
    granule = math.lcm(bits, BYTE * least) // bits if least > 1 else 1
    span = SWIZZLE_SPANS[choice.swizzle]
    most = tma.max_box_extent if shape.tiled else tma.max_channels
    most = min(most, BYTE * span // bits) if narrow else most
    inner = [PACKED_BOX] if choice.dtype in ALIGN16 else range(granule, most + 1, granule)
    # What the box moved; counted in bits, since dimension 0 may count other words than it did.
    steps = shape.steps[1:] if shape.tiled else (1,)
    old = max(1, own) * math.prod(max(1, ceil_div(e, s)) for e, s in zip(shape.box[1:], steps, strict=True))
    best: tuple[int, int, tuple[int, ...], tuple[int, ...]] | None = None
    fewest = 0
    for extent in inner:
        if extent > most:
            continue
        copies = max(1, ceil_div(own, extent))
        if copies == fewest:
            continue  # no fewer copies of wider rows
        fewest = copies
        pitch = span if narrow else ceil_div(extent * bits, BYTE)
        rows = target.shared_bytes_per_block // pitch
        way = next((way for way in outer if way.rows <= rows), None)
        if way is not None:
            all_copies = copies * way.copies
            moved = all_copies * way.rows * extent
            key = (all_copies, (moved - old) * bits, (abs(extent - own), *way.distance), (extent, *way.extents))
            best = min(best, key) if best else key
    return None if best is None else Boxes(best[3], best[0], best[1])


class Memory(NamedTuple):
    """Where the tensor lies: strides in bytes, parts changed for it, strides made shorter, bytes that it spans more."""

    strides: tuple[int, ...]
    changes: frozenset[str]
    shorter: int
    added: int


def extent_of(dims: tuple[int, ...], dtype: int) -> int:
    """Return the innermost extent as whole groups of a packed type."""
    if dtype in ALIGN16:
        return int(round_up(dims[0], PACKED_BOX))
    return int(round_up(dims[0], 2)) if dtype == ALIGN8_4BIT else dims[0]


def granule_of(dtype: int, interleave: int) -> int:
    """Return the bytes that addresses and strides are multiples of."""
    return 2 * GRANULE_BYTES if interleave == INTERLEAVE_32B or dtype in ALIGN16 else GRANULE_BYTES


def memories(shape: Shape, inner: int, choice: Choice, tma: TmaLimits) -> Iterator[Memory]:
    """Yield strides that are legal and the least longer, where dimension 0 is to have `inner` elements.

    They are shorter than before only where they are too long to be legal. Folded steps leave extents rounded up, which
    may seem to overlap, so then data that lie anew are tried too. Nothing where no strides will do.
    """
    found: dict[Memory, None] = {}
    for anew in (False, True) if "element_stride" in shape.changes else (False,):
        for nearest in (True, False):
            lies = _memory(shape, inner, choice, tma, anew=anew, nearest=nearest)
            if lies is not None:
                found[lies] = None
    yield from found


def _memory(shape: Shape, inner: int, choice: Choice, tma: TmaLimits, *, anew: bool, nearest: bool) -> Memory | None:
    """Return legal strides; if data lie `anew`, or must, so that nothing overlaps but what stride 0 repeats.

    Strides of dimensions of one element become the `nearest` that is legal, or a longer one.
    """
    granule, bits = granule_of(choice.dtype, choice.interleave), choice.bits
    strides, changes, shorter = list(shape.strides), set(), 0
    wrong = [d for d, stride in enumerate(strides, start=1) if stride % granule or stride >= tma.max_stride]
    for d in wrong:
        if shape.dims[d] == 1:
            longer = min(round_up(strides[d - 1], granule), tma.max_stride - granule)
            shorter_by = strides[d - 1] % granule if strides[d - 1] < tma.max_stride else 0
            near = nearest and shorter_by and 2 * shorter_by < granule
            strides[d - 1] = strides[d - 1] - shorter_by if near else longer
            changes.add("global_stride")
    if anew or inner != shape.dims[0] or any(shape.dims[d] != 1 for d in wrong):
        rows = [(stride, d) for d, stride in enumerate(strides, start=1) if stride and shape.dims[d] != 1]
        lies = _apart(shape, rows, ceil_div(inner * bits, BYTE), granule, tma)
        if lies is None:
            return None
        for (stride, d), wanted in lies.items():
            shorter += wanted < stride
            if wanted != stride:
                strides[d - 1] = wanted
                changes.add("pad")
    now = _span(shape.dims, shape.strides, bits)
    added = _span((inner, *shape.dims[1:]), strides, bits) - now if changes or inner != shape.dims[0] else 0
    return Memory(tuple(strides), frozenset(changes), shorter, added)


def _apart(
    shape: Shape, rows: list[tuple[int, int]], inner: int, granule: int, tma: TmaLimits
) -> dict[tuple[int, int], int] | None:
    """Return strides for which nothing overlaps: the fewest shorter, then spanning the least, then nearest the old.

    Where data overlapped or come closer, any dimension may become the outer one.

    Args:
        shape: the dimensions.
        rows: old strides in bytes, with the dimension of each.
        inner: bytes of a row, which all strides step over.
        granule: of which strides are multiples.
        tma: the target's limits.
    """
    ordered = sorted(rows)
    covered, overlapped = inner, False
    for stride, d in ordered:
        overlapped |= stride < covered
        covered = stride * shape.dims[d]
    best: tuple[tuple[int, int, int], dict[tuple[int, int], int]] | None = None
    for count in range(len(rows) + 1):
        free = overlapped or count > 0
        for close in itertools.combinations(rows, count):
            for order in itertools.permutations(ordered) if free else (ordered,):
                lies, covered = {}, inner
                for stride, d in order:
                    lies[stride, d] = round_up(covered if (stride, d) in close else max(stride, covered), granule)
                    covered = lies[stride, d] * shape.dims[d]
                if all(new < tma.max_stride for new in lies.values()):
                    gaps = [new - old for (old, _), new in lies.items()]
                    span = sum(new * (shape.dims[d] - 1) for (_, d), new in lies.items())
                    key = (sum(gap < 0 for gap in gaps), span, sum(map(abs, gaps)))
                    best = (key, lies) if best is None or key < best[0] else best
        if best is not None:
            return best[1]
    return None


def _span(dims: Sequence[int], strides: Sequence[int], bits: int) -> int:
    """Return bytes from the first to the last; a dimension of one element spans nothing."""
    return int(ceil_div(dims[0] * bits, BYTE)) + sum((n - 1) * s for n, s in zip(dims[1:], strides, strict=True))


def moved_address(address: int, granule: int) -> int:
    """Return the nearest multiple of `granule` from `address` on, or the last one below 2^64."""
    up = int(round_up(address, granule))
    return up if up <= UINT64_MAX else up - granule


def pieces(shape: Shape, dims: tuple[int, ...], choice: Choice, tma: TmaLimits) -> tuple[tuple[int, ...], int]:
    """Return extents of each of several tensors, none of them empty, and how many tensors there are.

    Of im2col only channels and images are cut, since windows lie across pixels.

    They are as few as can be, and as short as so many can be. All but the first begin at an address that is legal.
    """
    cut, count = [], 1
    for d, extent in enumerate(dims):
        whole = not shape.tiled and 0 < d < shape.rank - 1
        parts = 1 if whole else ceil_div(extent, tma.max_extent)
        each = ceil_div(extent, parts)
        if parts > 1 and d == 0 and choice.interleave == INTERLEAVE_NONE:
            bits = choice.bits
            step = math.lcm(bits, BYTE * granule_of(choice.dtype, choice.interleave)) // bits
            each = round_up(each, math.lcm(step, PACKED_BOX) if choice.dtype in ALIGN16 else step)
        cut.append(each)
        count *= parts
    return tuple(cut), count


def _listed(axes: Sequence[int]) -> str:
    return ", ".join(map(str, axes[:-1])) + f" and {axes[-1]}"

"""What a repair of a tensor map does, in words: the numbers that it sets, and what they were."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from legalsat.extract.explain.map_changes import BYTE, Boxes, Memory, Shape, granule_of
from legalsat.logic import ceil_div
from legalsat.units.sites import SWIZZLE_SPANS
from legalsat.units.tensor_map import MAP_TYPES, TensorMap, driver_value

_Change = tuple[int, int, int]  # dimension, new number, old number


def sentence(said: Sequence[str]) -> str:
    """Return several things to do as one sentence."""
    return said[0] if len(said) == 1 else ", ".join(said[:-1]) + f", and {said[-1]}"


def said_of(tm: TensorMap, after: TensorMap, shape: Shape, boxes: Boxes, memory: Memory) -> tuple[str, ...]:
    """Return what turns one tensor map into another, a phrase a part.

    Args:
        tm: the map before.
        after: the map after.
        shape: its dimensions with the new rank, steps and words, but the old box and memory.
        boxes: how many of the new boxes cover the old one.
        memory: how far the new strides reach.
    """
    return (
        *_data(tm, after, shape, memory),
        *shape.said,
        *_maps(after, shape),
        *(_box(after, shape, boxes) if shape.tiled else _column(shape, boxes)),
        *_options(tm, after),
    )


def _data(tm: TensorMap, after: TensorMap, shape: Shape, memory: Memory) -> Iterator[str]:
    adding = f", adding {memory.added} bytes" if memory.added > 0 else ""
    if after.global_dim[0] > shape.dims[0]:
        yield f"pad dimension 0 to {_elements(after.global_dim[0])} (now {shape.dims[0]}){adding}"
        adding = ""
    strides = _changes(after.global_stride, shape.strides, start=1)
    moved = [change for change in strides if shape.dims[change[0]] != 1]
    idle = [change for change in strides if shape.dims[change[0]] == 1]
    if moved:
        yield f"{'copy the tensor, bringing' if memory.shorter else 'pad'} {_strides(moved)}{adding}"
    if after.address != tm.address:
        granule = granule_of(driver_value("dtype", after.dtype), driver_value("interleave", after.interleave))
        yield f"move the tensor to a multiple of {granule} bytes (it begins {tm.address % granule} bytes past one)"
    if idle:
        one = "it has 1 element" if len(idle) == 1 else "they have 1 element each"
        yield f"set {_strides(idle)}, which moves nothing, since {one}"


def _changes(new: Sequence[int], old: Sequence[int], *, start: int = 0) -> list[_Change]:
    pairs = enumerate(zip(new, old, strict=True), start)
    return [(d, after, before) for d, (after, before) in pairs if after != before]


def _strides(changed: Sequence[_Change]) -> str:
    axes, new, old = (_listed(column) for column in zip(*changed, strict=True))
    if len(changed) == 1:
        return f"dimension {axes} to a stride of {new} bytes (now {old})"
    return f"dimensions {axes} to strides of {new} bytes (now {old})"


def _listed(numbers: Sequence[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} and {last}" if first else last


def _elements(count: int) -> str:
    return "1 element" if count == 1 else f"{count} elements"


def _maps(after: TensorMap, shape: Shape) -> Iterator[str]:
    for d, new, old in _changes(after.global_dim, shape.dims):
        if new < old:
            count = f"{ceil_div(old, new)} maps of {_elements(new)} (now {old})"
            yield f"cut dimension {d} of the tensor into {count}, with an address each"


def _box(after: TensorMap, shape: Shape, boxes: Boxes) -> Iterator[str]:
    changed = _changes(boxes.extents, shape.box)
    shorter = [change for change in changed if change[1] < change[2]]
    if len(shorter) > 1:
        extents, were = (" x ".join(map(str, each)) for each in (boxes.extents, shape.box))
        yield f"split the box into {boxes.copies} boxes of {extents} elements (now {were})"
        return
    for d, new, old in changed:
        step = shape.steps[d] if d else 1
        count = ceil_div(ceil_div(old, step), ceil_div(new, step))
        if count > 1:
            beyond = f", {count * new - old} of them beyond it" if step == 1 and count * new > old else ""
            yield f"split dimension {d} of the box into {count} boxes of {_elements(new)} (now {old}{beyond})"
        elif new < old:
            yield f"shorten dimension {d} of the box to {_elements(new)} (now {old}), which takes as many steps"
        elif d:
            yield f"give the box {_elements(new)} along dimension {d} (now {old})"
        else:
            size = new * MAP_TYPES[driver_value("dtype", after.dtype)].bits // BYTE
            yield f"round dimension 0 of the box up to {size} bytes, {_elements(new)} (now {old})"


def _column(shape: Shape, boxes: Boxes) -> Iterator[str]:
    for part, new, old in _changes(boxes.extents, shape.box):
        what = ("channels", "pixels")[part]
        yield (
            f"load the {what} in {ceil_div(old, new)} parts of {new} (now {old})"
            if new < old
            else (f"load {new} {what} (now {old})")
        )


def _options(tm: TensorMap, after: TensorMap) -> Iterator[str]:
    if after.swizzle != tm.swizzle:
        span = SWIZZLE_SPANS[driver_value("swizzle", after.swizzle)]
        wide = "" if after.swizzle == "none" else f", whose span is {span} bytes"
        yield f"use {'no swizzle' if not wide else f'swizzle {after.swizzle}'} (now {tm.swizzle}){wide}"
    if after.interleave != tm.interleave:
        yield f"use no interleave (now {tm.interleave}), for data that lie without"
    if after.oob_fill != tm.oob_fill:
        yield f"fill with {after.oob_fill} (now {tm.oob_fill})"
    if after.l2_promotion != tm.l2_promotion:
        yield f"use L2 promotion {after.l2_promotion} (now {tm.l2_promotion})"

"""Layouts of a tensor worth trying where boxes refuse its own: better bases, longer pitches, dense, other orders.

Each is yielded with its kind and with what to do, in words; of a kind those that add the fewest bytes come first.
`{strides}` in the words stands for the strides that the layout has once axes of one element are settled too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

from legalsat.logic import round_up
from legalsat.operators import dense_like, padded
from legalsat.targets import GRANULE_BYTES
from legalsat.tensor import Tensor, plain

GRANULE_BITS = 8 * GRANULE_BYTES
GRANULES = (GRANULE_BITS, 2 * GRANULE_BITS)  # the second of packed types alone (TMA031, TMA032)
ALIGNMENTS = (16, 32)
MOST_PADS, MOST_ORDERS = 6, 2  # that are worth planning
MOST_COMBINATIONS = 4096  # of pitches that are listed


def row_major_of(tensor: Tensor) -> Tensor:
    """Return a dense tensor of the same shape whose last axis is the fastest."""
    return Tensor(tensor.shape, tensor.dtype)


def alignment(tensor: Tensor) -> int:
    """Return the largest power of two that the base is surely a multiple of, in bytes."""
    return tensor.address & -tensor.address


def _base(tensor: Tensor) -> tuple[dict[str, int], str]:
    """Return the base of a copy, as arguments of `Tensor`, and the words for it where the old one will not do."""
    least = ALIGNMENTS[tensor.dtype.bits % 8 != 0]
    if tensor.address % least == 0:
        return {"align": tensor.align, "offset": tensor.offset}, ""
    return {"align": least}, f", at a base aligned to {least} bytes (now {alignment(tensor)})"


def aligned(tensor: Tensor) -> Iterator[tuple[str, str, Tensor]]:
    """Yield the tensor at bases that are aligned better, the least first."""
    for least in ALIGNMENTS[: 2 if tensor.dtype.bits % 8 else 1]:
        if tensor.address % least:
            message = f"copy the tensor to an allocation aligned to {least} bytes (now {alignment(tensor)})"
            yield "align", message, Tensor(tensor.shape, tensor.dtype, tensor.strides, least)


def longer_pitches(tensor: Tensor) -> Iterator[tuple[str, str, Tensor]]:
    """Yield longer pitches, those that add the fewest bytes first, and of these the ones that change fewest strides.

    Axes stay in their order, none moves closer, and each steps over what lies inside it.
    """
    shape, strides, bits = plain(tensor.shape), plain(tensor.strides), tensor.dtype.bits
    base, at = _base(tensor)
    order = by_stride(tensor)
    if not order or strides[order[0]] != 1:
        return
    found: set[tuple[int, tuple[int, ...]]] = set()
    for granule in GRANULES[: 2 if bits % 8 else 1]:
        for pitch in islice(_padded_pitches(shape, strides, order, math.lcm(granule, bits) // bits), MOST_COMBINATIONS):
            if pitch != strides:
                found.add((Tensor(shape, tensor.dtype, pitch).span_bits, pitch))
    ranked = sorted((span, sum(map(int.__ne__, pitch, strides)), pitch) for span, pitch in found)
    for _, _, pitch in ranked[:MOST_PADS]:
        after = Tensor(shape, tensor.dtype, pitch, **base)
        yield "pad", f"pad {said_of_pitches(tensor, after)}, adding {bytes_added(tensor, after)} bytes{at}", after


def row_pitches(tensor: Tensor, inner: int | None = None) -> Iterator[tuple[str, str, Tensor]]:
    """Yield the tensor with the shortest pitches that are whole granules, axis by axis from the fastest one outwards.

    A stride that is whole granules stays unless what lies inside it grew beyond it; one that changes steps over all
    that lies inside. No other strides of which that is true span less, since a span grows with every stride in it.

    Args:
        tensor: what lies with other pitches.
        inner: the axis of rows, where a tile says which; the fastest one when left out.
    """
    base, at = _base(tensor)
    bits = tensor.dtype.bits
    for granule in GRANULES[: 2 if bits % 8 else 1]:
        pitch = _least_pitches(tensor, math.lcm(granule, bits) // bits, inner)
        if pitch is not None:
            after = Tensor(tensor.shape, tensor.dtype, pitch, **base)
            words = said_of_pitches(tensor, after)
            yield "pad", f"pad {words}, adding {bytes_added(tensor, after)} bytes{at}", after


def _least_pitches(tensor: Tensor, granule: int, inner: int | None) -> tuple[int, ...] | None:
    """Return the shortest legal strides in elements, None if those of the tensor are or its fastest axis has gaps.

    `inner` is the axis of rows, where that is known; it may have one element.
    """
    shape, strides = plain(tensor.shape), list(plain(tensor.strides))
    order = by_stride(tensor)
    dense = bool(order) and strides[order[0]] == 1 and inner in (None, order[0])
    if not dense and not any(n == 1 for n in shape):
        return None
    span, kept = 1, True
    for axis in order:
        stride = strides[axis]
        if not (dense and axis == order[0]):
            low = stride if kept else max(stride, span)
            wanted = low if low % granule == 0 else round_up(max(low, span), granule)
            kept &= wanted == stride
            strides[axis] = wanted
        span += (shape[axis] - 1) * strides[axis]
    return None if kept else tuple(strides)


def said_of_pitches(before: Tensor, after: Tensor) -> str:
    """Return which axes have which pitch instead of which; "" where all have what they had."""
    bits, old, new = before.dtype.bits, plain(before.strides), plain(after.strides)
    said = ""
    for axis in by_stride(before)[::-1]:
        if new[axis] != old[axis]:
            pitch, was = _bytes(new[axis] * bits), _bytes(old[axis] * bits)
            begin = f"{said}, axis {axis} to {pitch}" if said else f"axis {axis} to a pitch of {pitch} bytes"
            said = f"{begin} (now {was})"
    head, comma, tail = said.rpartition(", ")
    return f"{head} and {tail}" if comma else said


def by_stride(tensor: Tensor) -> list[int]:
    """Return the axes along which there is anything to step to, fastest first."""
    shape, strides = plain(tensor.shape), plain(tensor.strides)
    return sorted((a for a in range(tensor.rank) if shape[a] > 1 and strides[a]), key=lambda a: (strides[a], shape[a]))


def _padded_pitches(
    shape: tuple[int, ...], strides: tuple[int, ...], order: list[int], granule: int
) -> Iterator[tuple[int, ...]]:
    """Yield strides no smaller than the old ones: each a multiple of a granule, or such that its axis merges.

    An axis keeps its stride, or takes the next granule that steps over what lies inside, or continues the axis inside.
    """

    def longer(pitch: tuple[int, ...], place: int, *, kept: bool) -> Iterator[tuple[int, ...]]:
        if place == len(order):
            yield pitch
            return
        axis, inside = order[place], order[:place]
        span = 1 + sum((shape[a] - 1) * pitch[a] for a in inside)
        floor = strides[axis] if kept else max(strides[axis], span)
        merging = shape[inside[-1]] * pitch[inside[-1]]
        choices = {round_up(max(floor, span), granule)}
        choices |= {floor} if floor % granule == 0 else set()
        choices |= {merging} if merging >= floor else set()
        for stride in sorted(choices):
            longer_ = (*pitch[:axis], stride, *pitch[axis + 1 :])
            yield from longer(longer_, place + 1, kept=kept and stride == strides[axis])

    return longer(strides, 1, kept=True)


def _bytes(bits: int) -> str:
    return str(bits // 8) if bits % 8 == 0 else f"{bits / 8:g}"


def packed(tensor: Tensor) -> Iterator[tuple[str, str, Tensor]]:
    """Yield packed copies, and such with padded rows: axes row-major, or in the order that they have.

    What a stride of 0 repeats need not be stored again and again.
    """
    base, at = _base(tensor)
    shape, bits = plain(tensor.shape), tensor.dtype.bits
    held = [a for a in range(tensor.rank) if shape[a] > 1 and tensor.strides[a] != 0]
    units = [max(s, 1) if n == 1 else 0 for n, s in zip(shape, plain(tensor.strides), strict=True)]
    like = by_stride(tensor)
    if not held:  # all of it is one element again and again
        held = like = [a for a in range(tensor.rank) if shape[a] > 1]
    for order, said in ((held[::-1], "row-major memory"), (like, "memory, its axes in the same order")):
        for granule in (1, math.lcm(GRANULE_BITS, bits) // bits):
            strides, step = list(units), 1
            for axis in order:
                strides[axis], step = step, step * shape[axis]
                step = step if axis != order[0] else round_up(step, granule)
            how = f"to dense {said}" if granule == 1 and 0 not in strides else "to memory with strides {strides}"
            yield "dense", f"copy the tensor {how}{at}", Tensor(shape, tensor.dtype, strides, **base)
    # Rows of one element, where the last axis has no more.
    once = Tensor([n if a in held else 1 for a, n in enumerate(shape)], tensor.dtype, tensor.strides)
    for one in (row_major_of(once), dense_like(once)):
        pitches = plain(padded(one).strides)
        strides = [step if a in held or n == 1 else 0 for a, (n, step) in enumerate(zip(shape, pitches, strict=True))]
        yield (
            "dense",
            f"copy the tensor to memory with strides {{strides}}{at}",
            Tensor(shape, tensor.dtype, strides, **base),
        )


def reordered(tensor: Tensor) -> Iterator[tuple[str, str, Tensor]]:
    """Yield dense copies in which another axis is the fastest, and every stride suits boxes."""
    base, at = _base(tensor)
    shape, bits, order = plain(tensor.shape), tensor.dtype.bits, by_stride(tensor)
    found = []
    for fastest in order[1:]:
        strides, step = [0 if n > 1 and s == 0 else 1 for n, s in zip(shape, tensor.strides, strict=True)], 1
        for axis in (fastest, *(a for a in order if a != fastest)):
            strides[axis] = step
            step *= shape[axis]
        if all(s * bits % GRANULE_BITS == 0 for s, n in zip(strides, shape, strict=True) if n > 1 and s > 1):
            message = f"store axis {fastest} fastest, in shared memory too: strides {{strides}}{at}"
            found.append(("order", message, Tensor(shape, tensor.dtype, strides, **base)))
    yield from found[:MOST_ORDERS]


def may_suit(tensor: Tensor, tile: tuple[int, ...] | None) -> bool:
    """Whether every stride is whole granules, or its axis may merge with the one that it continues."""
    shape, strides, bits = plain(tensor.shape), plain(tensor.strides), tensor.dtype.bits
    axes = [a for a in range(tensor.rank) if shape[a] > 1 and strides[a]]

    def merges(axis: int) -> bool:
        return any(
            strides[axis] == shape[inner] * strides[inner]
            and (tile is None or tile[axis] == 1 or tile[inner] >= shape[inner])
            for inner in axes
        )

    return all(strides[a] == 1 or strides[a] * bits % GRANULE_BITS == 0 or merges(a) for a in axes)


def bytes_added(before: Tensor, after: Tensor) -> int:
    """Return how many bytes a layout spans more than another one."""
    return max(after.span_bits - before.span_bits, 0) // 8

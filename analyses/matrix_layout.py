"""Which bytes of shared memory a matrix unit reads with a descriptor, and the descriptor that reads a given layout.

One instruction reads a block of `mn` rows of A (or columns of C) by 32 bytes of K, in chunks of 16 bytes. How far
apart chunks lie is FACTS WG-11 and WG-12 (wgmma), TC-10 (tcgen05):

| major | swizzle | inside a chunk | rows | leading offset | stride offset |
|---|---|---|---|---|---|
| K | none | K | 8 MN, 16 bytes apart | next chunk of K | next 8 MN |
| K | 32B, 64B, 128B | K | 8 MN, a span apart | not looked at: chunks of K are neighbours | next 8 MN |
| MN | none | MN | 8 K, 16 bytes apart | next 8 K | next chunk of MN |
| MN | 32B, 64B, 128B | MN | 8 K, a span apart | next span of MN | next 8 K |
| MN | 128B_atom_32B | MN | 4 K, a span apart | next span of MN | next 4 K |

All of it is added to the start address, and then bits of the sum are exchanged as the copy engine does (SW-02).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from legalsat.checks import choice, integer, one_of
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.layout import Layout
from legalsat.layout.swizzle import Swizzle
from legalsat.options import MAJORS, Major
from legalsat.printable import shown
from legalsat.units.matrix_descriptor import CHUNK_BYTES, PERIODS, REACH, SPANS, MatrixDescriptor, MatrixOperand

ELEMENT_BITS = (4, 8, 16, 32)
MOST_LISTED = 2**20  # addresses; an instruction reads 256 rows of 64 elements at most
UNUSED_LEADING = 16  # PTX: "assumed 1"

Addresses = NDArray[np.int64]


class NoSuchDescriptor(LegalSatError, ValueError):
    """No matrix descriptor reads this layout; the message says where it departs from those that one can."""


def read_addresses(descriptor: MatrixDescriptor, major: Major, mn: int, k: int, element_bits: int) -> Addresses:
    """Return the shared byte address from which one instruction takes each element: int64, shape (mn, k).

    Elements of 4 bits lie two to a byte, the first one in the lower half.

    Args:
        descriptor: what the instruction is given.
        major: "K" or "MN".
        mn: rows of A or columns of C.
        k: elements along K; `mn` times `k` is at most 2^20.
        element_bits: 4, 8, 16 or 32, what an element takes in shared memory.

    Raises:
        InvalidInput: an argument has no meaning, or there are more elements than that.
    """
    if not isinstance(descriptor, MatrixDescriptor):
        raise InvalidInput(f"descriptor is {shown(descriptor)}; give a MatrixDescriptor")
    mn, k = integer(mn, "mn", low=1), integer(k, "k", low=1)
    if mn * k > MOST_LISTED:
        raise InvalidInput(f"mn and k name {mn * k} elements; give at most {MOST_LISTED}, or one instruction's")
    element_bits = _bits(element_bits)
    d, span = descriptor, SPANS[descriptor.swizzle]
    # Along the major axis in bytes; along the other one in rows of the pattern.
    axes = (np.arange(mn, dtype=np.int64)[:, None], np.arange(k, dtype=np.int64)[None, :])
    along, across = axes[::-1] if one_of(major, "major", MAJORS) == "K" else axes
    byte = along * element_bits // 8
    rows = _rows(d.swizzle)
    within = across % rows * span
    if d.swizzle == "none":
        far, near = (d.leading, d.stride) if major == "K" else (d.stride, d.leading)
        linear = byte // span * far + byte % span + within + across // rows * near
    elif major == "K":
        linear = byte + within + across // rows * d.stride
    else:
        linear = byte // span * d.leading + byte % span + within + across // rows * d.stride
    return _swizzled(d.start + linear, d.swizzle, d.base_offset)


def _swizzled(address: Addresses, swizzle: str, base_offset: int = 0) -> Addresses:
    """Exchange chunks as hardware does; the pattern begins `base_offset` lines of 128 bytes later (WG-14)."""
    begin = 128 * base_offset
    return Swizzle.tma(swizzle)(address - begin) + begin if swizzle != "none" else address


def tile_layout(  # noqa: PLR0917
    mn: int, k: int, element_bits: int, swizzle: str, major: Major, box_mn: int | None = None
) -> Layout:
    """Return where the elements of a tile lie that the copy engine brings as boxes, before the swizzle.

    A box is as wide along the major axis as the swizzle's span (16 bytes without one), and its rows lie a span apart
    (FACTS M-08). Boxes lie one after the other: of a K-major tile, all rows of one span, then the next span of K; of
    an MN-major one, all of K for one span, then the next span of MN. As a box holds at most 256 rows, longer ones are
    several boxes in a row, which changes nothing.

    Args:
        mn: rows of A or columns of C.
        k: elements along K.
        element_bits: 4, 8, 16 or 32, what an element takes in shared memory.
        swizzle: of the tensor map, by name.
        major: "K" or "MN", the axis that runs fastest in global memory.
        box_mn: K-major only: rows after which the next ones lie behind all of K, such as those of one warpgroup;
            all of them when left out.

    Returns:
        The layout (mn, k) -> offset in elements.

    Raises:
        InvalidInput: sizes that do not divide.
    """
    mn, k = integer(mn, "mn", low=1), integer(k, "k", low=1)
    span = SPANS[one_of(swizzle, "swizzle", SPANS)] * 8 // _bits(element_bits)
    rows = mn if box_mn is None else integer(box_mn, "box_mn", low=1)
    along, across = (k, mn) if one_of(major, "major", MAJORS) == "K" else (mn, k)
    width = min(span, along)
    for what, extent, step in (("mn", mn, rows), ("the major axis", along, width)):
        if extent % step:
            raise InvalidInput(f"{what} has {extent} elements; give a multiple of {step}")
    if major == "K":
        return Layout(((rows, mn // rows), (width, k // width)), ((span, rows * k // width * span), (1, rows * span)))
    return Layout(((width, mn // width), across), ((1, across * span), span))


def matrix_operand(
    layout: Layout,
    swizzle: str,
    element_bits: int,
    *,
    unit: str,
    major: Major,
    block: int,
    k_bytes: int = 32,
    mn: int | None = None,
) -> MatrixOperand:
    """Return how a matrix unit reads a tile: one descriptor, and what to add to its start for each instruction.

    Every element of every instruction is compared with what `read_addresses` says.

    Args:
        layout: (mn, k) -> offset in elements, before the swizzle, of a tile whose address is a multiple of the
            swizzle's period. Any nesting, of two modes at the top.
        swizzle: by name.
        element_bits: 4, 8, 16 or 32, what an element takes in shared memory.
        unit: "wgmma" or "tcgen05".
        major: "K" or "MN", the axis whose elements lie side by side.
        block: rows of A or columns of C that one instruction reads; divides the tile's.
        k_bytes: bytes of K that one instruction reads.
        mn: rows of A or columns of C to read, where the tile is padded to whole spans with more; all when left out.

    Raises:
        InvalidInput: an argument has no meaning, or the tile is not made of whole instructions.
        NoSuchDescriptor: no descriptor reads this layout; the message says why.
    """
    bits = _bits(element_bits)
    _require_small(layout, bits)
    place = _places(layout)
    if mn is not None:
        place = place[: integer(mn, "mn", low=1, high=place.shape[0])]
    return operand_at(place, swizzle, bits, unit=unit, major=major, block=block, k_bytes=k_bytes)


def operand_at(
    place: Addresses, swizzle: str, element_bits: int, *, unit: str, major: Major, block: int, k_bytes: int
) -> MatrixOperand:
    """Return what `matrix_operand` does, of elements that lie in `place`: offsets in elements, shape (mn, k)."""
    bits, first = element_bits, MatrixDescriptor(unit, 0, 0, swizzle)
    one_of(major, "major", MAJORS)
    step = integer(k_bytes, "k_bytes", low=CHUNK_BYTES) * 8 // bits
    for what, extent, size in (("mn", place.shape[0], integer(block, "block", low=8)), ("k", place.shape[1], step)):
        if extent % size:
            raise InvalidInput(f"{what} has {extent} elements, no multiple of the {size} that one instruction reads")
    _require_chunks(place if major == "K" else place.T, bits)
    linear = place * bits // 8
    starts = linear[::block, ::step]
    leading, stride = _offsets(linear[:block, :step], swizzle, major, bits)
    _require_aligned((*starts.flat,), leading, stride, swizzle)
    descriptor = replace(first, leading=leading, stride=stride)
    stored = _swizzled(linear, swizzle)
    for (b, s), start in np.ndenumerate(starts):
        read = read_addresses(replace(descriptor, start=int(start)), major, block, step, bits)
        held = stored[b * block :, s * step :][:block, :step]
        if (read != held).any():
            i, j = np.argwhere(read != held)[0]
            raise NoSuchDescriptor(
                f"element ({b * block + i}, {s * step + j}) lies at byte {held[i, j]}, and a descriptor that reads the "
                f"tile's first elements (LBO {leading}, SBO {stride}, swizzle {swizzle}) looks for it at {read[i, j]}; "
                "lay the tile out as the copy engine does, in atoms at equal distances"
            )
    return MatrixOperand(major, block, descriptor, tuple(tuple(map(int, row)) for row in starts))


def _bits(element_bits: int) -> int:
    return choice(element_bits, "element_bits", ELEMENT_BITS)


def _require_small(layout: Layout, bits: int) -> None:
    """Raise unless the layout has two modes and no more elements than a descriptor's reach holds."""
    if not isinstance(layout, Layout) or layout.rank != 2:
        raise InvalidInput(f"layout is {shown(layout)}; give one of two modes, (mn, k)")
    most = 8 * REACH // bits
    if layout.size > most:
        raise InvalidInput(f"layout has {layout.size} elements of {bits} bits; give at most {most}, {REACH} bytes")
    if layout.cosize > 2**40:  # far beyond any address, and so that sums stay below 2^63
        raise NoSuchDescriptor(f"layout spans {layout.cosize} elements; keep it between 0 and {REACH} bytes")


def _places(layout: Layout) -> Addresses:
    return layout.offsets().reshape(layout[0].size, layout[1].size, order="F")


def _require_chunks(place: Addresses, bits: int) -> None:
    """Raise unless every 16 bytes along the last axis lie together, at a multiple of 16 bytes."""
    elements = 8 * CHUNK_BYTES // bits
    if place.shape[1] % elements:
        raise NoSuchDescriptor(
            f"the major axis has {place.shape[1]} elements; give a multiple of {elements}, which are 16 bytes"
        )
    chunks = place.reshape(place.shape[0], -1, elements)
    if (chunks != chunks[:, :, :1] + np.arange(elements)).any():
        raise NoSuchDescriptor(
            "elements of a chunk of 16 bytes are apart; name the axis that runs fastest as the major"
        )
    if (chunks[:, :, 0] % elements).any():
        raise NoSuchDescriptor("a chunk of 16 bytes starts at no multiple of 16; pad rows to a multiple of 16 bytes")


def _offsets(first: Addresses, swizzle: str, major: Major, bits: int) -> tuple[int, int]:
    """Return LBO and SBO, read off where the first instruction's elements lie; 0 for steps that it does not take."""
    chunk, span = 8 * CHUNK_BYTES // bits, 8 * SPANS[swizzle] // bits

    def step(mn: int, k: int) -> int:
        return int(first[mn, k] - first[0, 0]) if mn < first.shape[0] and k < first.shape[1] else 0

    match major, swizzle:
        case "K", "none":
            return step(0, chunk), step(8, 0)
        case "K", _:
            return UNUSED_LEADING, step(8, 0)
        case "MN", "none":
            return step(0, 8), step(chunk, 0)
        case _:
            return step(span, 0), step(0, _rows(swizzle))


def _rows(swizzle: str) -> int:
    """Rows of a group, which is what offsets step over."""
    return PERIODS[swizzle] // SPANS[swizzle] if swizzle == "128B_atom_32B" else 8


def _require_aligned(starts: tuple[int, ...], leading: int, stride: int, swizzle: str) -> None:
    """Raise unless every start and every group of rows is where the swizzle's pattern begins, so base offset 0 serves.

    Inside a row of the pattern a start may lie anywhere: exchanging bits of the sum takes care of it.
    """
    for what, value in (("leading offset", leading), ("stride offset", stride), *(("start", s) for s in starts)):
        if not 0 <= value < REACH:
            raise NoSuchDescriptor(f"{what} is {value} bytes; keep it between 0 and {REACH - CHUNK_BYTES}")
        if what != "leading offset" and value % PERIODS[swizzle] >= SPANS[swizzle]:
            raise NoSuchDescriptor(
                f"{what} is {value} bytes, inside the pattern of swizzle {swizzle}; "
                f"give atoms a distance that is a multiple of {PERIODS[swizzle]} bytes"
            )

"""What the tensor copy engine (TMA) does with one box: bytes counted, shared memory used, and which byte goes where.

The engine moves *units* in *rows*. A unit is one element, or one 16- or 32-byte slice with interleave. A row is what
lies contiguous in shared memory: the box along dimension 0, or one pixel with im2col. The rules, with their sources:

- **Count.** The barrier counts every unit of the box, also the filled ones (FACTS M-10, IC-07).
- **Tiled.** Dimension d takes ceil(box / element stride) units, `element stride` apart, from the coordinate on. Each
  unit is judged by its own strided position: outside the extent it is filled. Dimension 0 ignores its element stride
  without interleave (M-04) and obeys it with interleave.
- **Interleave.** Dimensions run W[, H, D], slice, N. One load takes **one** slice, whatever the box says at rank-2;
  extent and coordinate count slices there. Dimension 0 counts units of 16 or 32 bytes, whatever the data type.
- **Im2col.** Pixel k walks an odometer over W, H, D, N. It starts at the coordinate, steps by the element stride and,
  once past `extent - 1 + upper corner`, goes back to the lower corner and carries; N steps by its element stride too.
  The instruction's offsets are added only to address a pixel and to judge it. A start outside the pixel box faults.
- **Row pitch.** The swizzle span without interleave (M-08), else the row's own bytes.
- **Swizzle.** XOR on the absolute shared address (M-09, SW-02 to SW-04), with interleave too.
- **Wrap.** An address is the sum of all coordinates times their strides, modulo 2^64 (M-21).
- **Fill.** Zeros, or `NAN_FILL_WORD` for every float type (M-10).
- **Stores** write whole 16-byte granules (M-13), drop what lies outside, and fault on negative coordinates (M-12).

Where no FACTS id stands, the rule was measured on an H200: the images in truth/smem_images.npz, and 4,300 random
loads and stores whose every word was predicted. "128B_atom_32B", which sm_90 lacks, is documented (SW-05) and was not
measured. Not modelled: data types of 4 and 6 bits, other atoms of 128B swizzles, gather4, im2col::w; sm_90 has none.
Bytes are followed, not values: loads as "tf32" and "tf32_ftz" round the low 13 mantissa bits away, to nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legalsat.checks import counted, integer, integers
from legalsat.dims import Open
from legalsat.errors import InvalidInput
from legalsat.logic import round_up
from legalsat.printable import shown
from legalsat.units.tensor_map import INT32_MAX, INT32_MIN, MAP_TYPES, TensorMap

FILLED = -1
UNTOUCHED = -2
NAN_FILL_WORD = 0x7FF77FF7

_GRANULE_BYTES = 16
_SHARED_ALIGNMENT = 128
_SHARED_BYTES = 233_472  # M-05: the 228 KiB of one multiprocessor.
_LARGEST_EXTENT = 2**32  # M-07

_SLICE_BYTES = {"none": 0, "16B": 16, "32B": 32}
_SPAN_BYTES = {"none": 0, "32B": 32, "64B": 64, "128B": 128, "128B_atom_32B": 128}
_ATOM_BYTES: dict[str | int, int] = {"128B_atom_32B": 32}  # that a swizzle keeps together, where these are no 16
# IC-06: the largest filter offset that the instruction takes, by number of spatial dimensions.
_LARGEST_OFFSET = {1: 2**16 - 1, 2: 2**8 - 1, 3: 2**5 - 1}

Bytes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Shape:
    """The engine's view of a tensor map: `rows` rows of `units` units of `unit_bytes`, `pitch` bytes apart."""

    slice_bytes: int
    span: int
    atom: int
    unit_bytes: int
    units: int
    rows: int

    @property
    def row_bytes(self) -> int:
        return self.units * self.unit_bytes

    @property
    def pitch(self) -> int:
        return self.row_bytes if self.slice_bytes or not self.span else self.span


def _look_up(tm: TensorMap, field: str, table: dict[str, int]) -> int:
    value = getattr(tm, field)
    if value not in table:
        raise InvalidInput(f"{field} {value} is none that is modelled; give one of {', '.join(table)}")
    return table[value]


def _shape(tm: TensorMap) -> _Shape:
    """Read `tm` as the engine does; raises `InvalidInput` where the map has no meaning to it."""
    if not isinstance(tm, TensorMap):
        raise InvalidInput(f"{shown(tm)} is no tensor map; give a TensorMap")
    return _shape_of(tm)


@lru_cache(maxsize=4096)
def _shape_of(tm: TensorMap) -> _Shape:
    slice_bytes = _look_up(tm, "interleave", _SLICE_BYTES)
    span = _look_up(tm, "swizzle", _SPAN_BYTES)
    if tm.map_type.is_packed:
        whole = ", ".join(t.name for t in MAP_TYPES if not t.is_packed)
        raise InvalidInput(
            f"data type {tm.dtype} packs 4- or 6-bit values, which sm_90 cannot copy; give one of {whole}"
        )
    least = 3 if slice_bytes or tm.mode == "im2col" else 1
    if not least <= tm.rank <= 5:
        raise InvalidInput(f"rank is {tm.rank}, outside {least} to 5; fold or add dimensions")
    known = [one for one in tm.global_dim if not isinstance(one, Open)]  # a box takes its bytes whatever the others are
    integers(known, "global_dim", low=1, high=_LARGEST_EXTENT)
    integers(tm.element_stride, "element_stride", low=1, high=8)
    unit_bytes = slice_bytes or tm.map_type.bits // 8
    if tm.mode == "im2col":
        channels = integer(tm.channels, "channels", low=1)
        rows = integer(tm.pixels, "pixels", low=1)
        units = 1 if slice_bytes else channels
    else:
        integers(tm.box, "box", low=1)
        units, *outer = (_taken(tm, d) for d in range(tm.rank))
        rows = int(np.prod(outer, dtype=object)) if outer else 1
    shape = _Shape(slice_bytes, span, _ATOM_BYTES.get(tm.swizzle, _GRANULE_BYTES), unit_bytes, units, rows)
    if not slice_bytes and shape.row_bytes % _GRANULE_BYTES:
        raise InvalidInput(
            f"the inner box has {shape.row_bytes} bytes, no multiple of {_GRANULE_BYTES}, which the driver refuses; "
            f"widen it to {round_up(shape.row_bytes, _GRANULE_BYTES)} bytes"
        )
    if span and not slice_bytes and shape.row_bytes > span:
        raise InvalidInput(
            f"the inner box has {shape.row_bytes} bytes, more than the span of swizzle {tm.swizzle}, which the driver "
            f"refuses; narrow it to {span} bytes or drop the swizzle"
        )
    return shape


def _taken(tm: TensorMap, d: int) -> int:
    """Units that a tiled load takes along dimension `d`."""
    if _is_slice(tm, d):
        return 1
    return -(-tm.box[d] // _step(tm, d))


def _is_slice(tm: TensorMap, d: int) -> bool:
    return tm.interleave != "none" and d == tm.rank - 2


def _step(tm: TensorMap, d: int) -> int:
    """Element stride that dimension `d` obeys."""
    return 1 if d == 0 and tm.interleave == "none" else tm.element_stride[d]


def tx_bytes(tm: TensorMap) -> int:
    """Return the bytes that the mbarrier counts for one load of the box of `tm`.

    They do not depend on the coordinate: filled bytes count. Sources: FACTS M-04, M-10, TM-13, IC-07; interleave
    measured.

    Args:
        tm: the map.

    Raises:
        InvalidInput: the engine has no meaning for `tm`; the message names the field.
    """
    shape = _shape(tm)
    return shape.rows * shape.row_bytes


def smem_bytes(tm: TensorMap) -> int:
    """Return the bytes of shared memory, from a 128-byte aligned base on, that one box of `tm` needs.

    More than `tx_bytes` where rows are shorter than the swizzle span (FACTS M-08), and where interleaved rows end
    inside a span, because the swizzle moves bytes within the whole span.

    Args:
        tm: the map.

    Raises:
        InvalidInput: as `tx_bytes`.
    """
    shape = _shape(tm)
    needed: int = round_up(shape.rows * shape.pitch, shape.span or 1)
    return needed


def smem_image(
    tm: TensorMap, coordinate: Any, base: int = 0, offsets: Any = (), shared_bytes: int | None = None
) -> Bytes:
    """Return where each shared byte comes from, after one load of the box of `tm`.

    Args:
        tm: the tensor map.
        coordinate: `rank` signed 32-bit numbers, fastest dimension first, in elements. With interleave, in units of
            16 or 32 bytes in dimension 0 and in slices in dimension rank-2.
        base: shared byte address at which the box is put. Address 0 is 1024-byte aligned, so that the swizzle of an
            address is its swizzle in the kernel.
        offsets: im2col only: rank-2 filter offsets, fastest spatial dimension first; zeros when left out.
        shared_bytes: length of the image; `base + smem_bytes(tm)` when left out.

    Returns:
        int64 array. Entry `a` belongs to shared byte address `a`: the byte offset from the tensor's global address,
        `FILLED` (-1) for a byte outside the tensor, `UNTOUCHED` (-2) for a byte that the load leaves alone.

    Raises:
        InvalidInput: the load would fault (FACTS M-11, M-12, im2col start outside the pixel box), the box is larger
            than any shared memory, or an argument has no meaning.
    """
    shape = _shape(tm)
    destination = _addresses(tm, shape, base)
    source = _sources(tm, shape, _coordinate(tm, coordinate), _offsets(tm, offsets))
    end = base + smem_bytes(tm)
    length = end if shared_bytes is None else integer(shared_bytes, "shared_bytes", low=end, high=_SHARED_BYTES)
    image = np.full(length, UNTOUCHED, dtype=np.int64)
    image[destination] = source
    return image


def store_footprint(tm: TensorMap, coordinate: Any, base: int = 0) -> Bytes:
    """Return every global byte that one store of the box of `tm` writes, and the shared byte it takes.

    A store that overhangs dimension 0 writes on to the next 16-byte boundary, into the row's padding (FACTS M-13).
    With overlapping strides a global byte can appear more than once; which write lasts is undefined.

    Args:
        tm: the tensor map.
        coordinate: as in `smem_image`, none negative.
        base: as in `smem_image`.

    Returns:
        int64 array of shape (bytes, 2): byte offset from the tensor's global address, shared byte address. In the
        order of the box, rows outermost.

    Raises:
        InvalidInput: the store would fault (FACTS M-11, M-12), or an argument has no meaning.
    """
    shape = _shape(tm)
    shared = _addresses(tm, shape, base)
    start = _coordinate(tm, coordinate)
    if min(start) < 0:
        raise InvalidInput(
            f"coordinate {start} is negative, and a store there is an illegal instruction; start at 0 or later"
        )
    if any(low < 0 for low in tm.lower_corner) or any(high > 0 for high in tm.upper_corner):
        raise InvalidInput(
            f"pixel box corners {tm.lower_corner} and {tm.upper_corner} reach outside the tensor, which no store may; "
            "raise the lower corner and lower the upper corner to 0"
        )
    written = _sources(tm, shape, start, _offsets(tm, ()), whole_granules=True)
    kept = written != FILLED
    return np.stack([written[kept], shared[kept]], axis=1)


def _addresses(tm: TensorMap, shape: _Shape, base: int) -> Bytes:
    """Return the shared address of each byte of the box, rows by row bytes, swizzled; checks `base` and the size."""
    base = integer(base, "base", low=0)
    if base % _SHARED_ALIGNMENT:
        raise InvalidInput(
            f"base is {base}, no multiple of {_SHARED_ALIGNMENT}, and the copy is a misaligned address; "
            f"move it to {round_up(base, _SHARED_ALIGNMENT)}"
        )
    if base + smem_bytes(tm) > _SHARED_BYTES:
        raise InvalidInput(f"the box ends at shared byte {base + smem_bytes(tm)}; end it by {_SHARED_BYTES}")
    return _swizzled(shape, base)


@lru_cache(maxsize=64)
def _swizzled(shape: _Shape, base: int) -> Bytes:
    linear = base + np.arange(shape.rows)[:, None] * shape.pitch + np.arange(shape.row_bytes)
    found: Bytes = linear ^ (linear >> 7) % max(1, shape.span // shape.atom) * shape.atom
    found.flags.writeable = False  # boxes of one shape share it
    return found


def _coordinate(tm: TensorMap, coordinate: Any) -> tuple[int, ...]:
    start = integers(coordinate, "coordinate", low=INT32_MIN, high=INT32_MAX, length=tm.rank)
    inner = start[0] * tm.map_type.bits // 8
    if tm.interleave == "none" and inner % _GRANULE_BYTES:
        raise InvalidInput(
            f"coordinate[0] is {start[0]}, {inner} bytes into the row and no multiple of {_GRANULE_BYTES}, which is an "
            f"illegal instruction; start at a multiple of {_GRANULE_BYTES * 8 // tm.map_type.bits} elements"
        )
    return start


def _offsets(tm: TensorMap, offsets: Any) -> tuple[int, ...]:
    if tm.mode == "tiled":
        return integers(offsets, "offsets of a tiled copy", length=0)
    given = integers(offsets, "offsets", low=0, high=_LARGEST_OFFSET[tm.rank - 2])
    if len(given) not in (0, tm.rank - 2):
        raise InvalidInput(f"offsets has {counted(len(given))}; give {tm.rank - 2}")
    return given or (0,) * (tm.rank - 2)


def _sources(
    tm: TensorMap, shape: _Shape, start: tuple[int, ...], offsets: tuple[int, ...], whole_granules: bool = False
) -> Bytes:
    """Return the global byte offset of each byte of the box, rows by row bytes; `FILLED` outside the tensor.

    With `whole_granules`, a 16-byte granule counts as inside if its first byte is.
    """
    positions = _tiled_positions(tm, start) if tm.mode == "tiled" else _im2col_positions(tm, start, offsets, shape)
    extents = list(tm.global_dim)
    if whole_granules and not shape.slice_bytes:
        extents[0] = round_up(extents[0] * shape.unit_bytes, _GRANULE_BYTES) // shape.unit_bytes
    strides = (shape.unit_bytes, *tm.global_stride)
    # By broadcasting, dimension 0 last, which units have; out-of-range positions go to 0 to keep products small.
    inside, sums = np.ones((1, 1), dtype=bool), np.zeros((1, 1), dtype=np.uint64)
    for position, extent, stride in [*zip(positions, extents, strides, strict=True)][::-1]:
        within = (position >= 0) & (position < extent)
        valid = np.where(within, position, 0)
        inside = inside & within
        sums = sums + valid.astype(np.uint64) * np.uint64(stride % 2**64)
    offset = sums.view(np.int64)
    if (offset[inside] < 0).any():
        raise InvalidInput(
            f"the box reaches {int(sums[inside].max())} bytes into the tensor; keep strides x extents below 2^63 "
            "bytes, or let them wrap to where the tensor is"
        )
    found = offset[:, :, None] + np.arange(shape.unit_bytes)
    if not inside.all():
        found = np.where(inside[:, :, None], found, FILLED)
    return found.reshape(shape.rows, shape.row_bytes)


def _tiled_positions(tm: TensorMap, start: tuple[int, ...]) -> list[Bytes]:
    """Return the position of every unit per dimension: (1, units) for dimension 0, (rows, 1) for the others."""
    axes = [start[d] + _step(tm, d) * np.arange(_taken(tm, d), dtype=np.int64) for d in range(tm.rank)]
    # "ij" over the reversed axes makes dimension 1 the fastest row index.
    outer = np.meshgrid(*axes[:0:-1], indexing="ij")[::-1]
    return [axes[0][None, :], *(axis.reshape(-1, 1) for axis in outer)]


def _im2col_positions(tm: TensorMap, start: tuple[int, ...], offsets: tuple[int, ...], shape: _Shape) -> list[Bytes]:
    """Return the position of every unit per dimension, as `_tiled_positions`: rows are pixels."""
    channel = tm.rank - 2 if shape.slice_bytes else 0
    spatial = range(tm.rank - 2) if shape.slice_bytes else range(1, tm.rank - 1)
    carry = np.arange(shape.rows, dtype=np.int64)[:, None]
    positions: dict[int, Bytes] = {channel: start[channel] + np.arange(shape.units, dtype=np.int64)[None, :]}
    for d, low, upper, shift in zip(spatial, tm.lower_corner, tm.upper_corner, offsets, strict=True):
        high = tm.global_dim[d] - 1 + upper
        if not low <= start[d] <= high:
            raise InvalidInput(
                f"coordinate[{d}] is {start[d]}, outside the pixel box {low} to {high}, and the copy is an illegal "
                "instruction; start inside the pixel box"
            )
        step = tm.element_stride[d]
        first, later = (high - start[d]) // step + 1, (high - low) // step + 1
        wrapped = carry - first
        position = np.where(wrapped < 0, start[d] + step * carry, low + step * (wrapped % later))
        carry = np.where(wrapped < 0, 0, wrapped // later + 1)
        positions[d] = position + shift
    positions[tm.rank - 1] = start[-1] + tm.element_stride[-1] * carry
    return [positions[d] for d in range(tm.rank)]

"""The 128 bytes of a CUtensorMap: which bits hold which argument of the encode call, read and written.

The toolkit calls these bytes opaque. `FIELDS` was learned from 3,000 maps that the driver of an H200 wrote (driver
580.159.04, API 13.0); `tests/test_tensor_map_bytes.py` reads and writes all of them bit for bit. The first 64 bytes are
what the hardware reads; the others are the driver's own notes. Only tiled maps of the 13 data types and 4 swizzles of
compute capability 9.0 were measured. What im2col puts in place of the box stands in NVIDIA's TensorRT-LLM
(`cpp/tensorrt_llm/kernels/contextFusedMultiHeadAttention/tmaDescriptor.h`, Apache-2.0), whose tiled descriptors agree
with the measured ones but for a version of 1; so im2col maps are read, and are not written.

Not in the bytes: where the CUtensorMap itself lies (`map_offset`), and what was passed for dimensions past the rank.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from legalsat.checks import flag
from legalsat.dtypes import DTYPES
from legalsat.errors import InvalidInput
from legalsat.units.blobs import HARDWARE_BYTES, MAP_BYTES, bytes_of, no_map
from legalsat.units.matrix_descriptor import PERIODS
from legalsat.units.tensor_map import INTERLEAVES, L2_PROMOTIONS, MODES, OOB_FILLS, SWIZZLES, TensorMap

_HALF_OPTION = "hardware_only=True, --hardware-only"
_HEADER = "TensorRT-LLM, not measured"


class Field(NamedTuple):
    """One argument's bits: `width` of them at each of `places`, (64-bit word, lowest bit), one place an axis.

    They hold the number less `least`, the least that it can be.
    """

    name: str
    width: int
    places: tuple[tuple[int, int], ...]
    meaning: str
    least: int = 0
    source: str = "measured on an H200"


FIELDS = (
    Field("address", 64, ((0, 0),), "global address, bytes"),
    Field("mode", 1, ((1, 0),), "0 tiled, 1 im2col", source=f"0 measured on an H200, 1: {_HEADER}"),
    Field("version", 3, ((1, 1),), "0; TensorRT-LLM writes 1"),
    Field("rank", 3, ((1, 4),), "dimensions", least=1),
    Field("dtype", 4, ((1, 7),), "code of `DTYPE_CODES`, that of PTX's tensormap.replace .elemtype"),
    Field("interleave", 2, ((1, 11),), "the driver's enum"),
    Field("swizzle", 2, ((1, 13),), "the driver's enum"),
    Field("oob_fill", 1, ((1, 15),), "the driver's enum"),
    Field("round_to_tf32", 1, ((1, 16),), "1 for tf32 and tf32_ftz, whose codes are those of f32 and f32_ftz"),
    Field("l2_promotion", 2, ((1, 17),), "the driver's enum"),
    Field("blackwell", 1, ((1, 21),), "see `BLACKWELL_BIT`", source="NVIDIA driver 595.71.05 release notes"),
    Field("global_stride", 32, ((1, 32), (2, 0), (2, 32), (3, 0)), "bits 4 to 35 of the stride in bytes"),
    Field("global_stride_high", 4, ((3, 32), (3, 36), (3, 40), (3, 44)), "bits 36 to 39 of the stride in bytes"),
    Field("global_dim", 32, ((4, 0), (4, 32), (5, 0), (5, 32), (6, 0)), "elements", least=1),
    Field("element_stride", 3, ((6, 32), (6, 35), (6, 38), (6, 41), (6, 44)), "elements", least=1),
    Field("box", 8, ((6, 56), (7, 0), (7, 8), (7, 16), (7, 24)), "tiled: elements", least=1),
    Field("channels", 8, ((6, 56),), "im2col: channels per pixel", 1, _HEADER),
    Field(
        "lower_corner", 16, ((7, 0),), "im2col: an axis takes 16, 8 or 5 bits at rank 3, 4 or 5, signed", source=_HEADER
    ),
    Field("upper_corner", 16, ((7, 16),), "im2col: as the lower corner", source=_HEADER),
    Field("pixels", 10, ((7, 32),), "im2col: pixels per column", 1, _HEADER),
    Field("box_bytes", 64, ((8, 0),), "element bytes times the product of floor(box / element stride), as in TMA017"),
    Field("pattern_bytes", 64, ((9, 0),), "bytes after which the swizzle repeats: 16, 256, 512 or 1024"),
)
_FIELD = {field.name: field for field in FIELDS}
_IN_COLUMNS = {"channels", "lower_corner", "upper_corner", "pixels"}

# Drivers may set bit 21 of the second word on Blackwell. Up to driver 595.71 some do for tensors whose allocation is
# below 128 KiB and not dense, which then fault; NVIDIA's workaround, as CUTLASS's and Triton's, clears it (FACTS M-19).
BLACKWELL_BIT = 1 << 21
_SMALL_BYTES = 128 * 1024

# Map type -> the hardware's code, and whether it rounds to tf32.
DTYPE_CODES = {
    **{name: (code, 0) for code, name in enumerate(("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32"))},
    "f32_ftz": (8, 0),
    "f64": (9, 0),
    "bf16": (10, 0),
    "tf32": (7, 1),
    "tf32_ftz": (8, 1),
}
_DTYPES = {code: name for name, code in DTYPE_CODES.items()}
# The names that were measured, in the order of the driver's enums, which the bits hold.
_ENUMS = {
    "interleave": INTERLEAVES,
    "swizzle": SWIZZLES[:4],
    "l2_promotion": L2_PROMOTIONS,
    "oob_fill": OOB_FILLS,
}
_CORNER_BITS = {3: 16, 4: 8, 5: 5}
_MAX_RANK = 5


@dataclass(frozen=True, slots=True)
class DecodedMap:
    """What a map's bytes say.

    Attributes:
        tensor_map: the arguments of the encode call.
        notes: sentences on what the bytes leave open, and on what in them needs care.
    """

    tensor_map: TensorMap
    notes: tuple[str, ...]


def decode(blob: Any, *, hardware_only: bool = False) -> TensorMap:
    """Return the `TensorMap` whose CUtensorMap holds these bytes: what the encode call was asked for.

    Args:
        blob: 128 bytes: bytes or anything with the buffer protocol (a numpy array, a ctypes object); a CUtensorMap of
            cuda.bindings; a list of 128 bytes, 32 words of 32 bits or 16 of 64; or these as hex text. Text with 0x
            before each number holds little-endian words, as a debugger prints them; other text is bytes in order.
        hardware_only: read the first 64 bytes alone, as the hardware does: for maps that another driver wrote or that
            tensormap.replace changed, whose other half may not fit. 64 bytes will do then.

    Raises:
        InvalidInput: no encode call writes these bytes; the message says what gives them away.
    """
    return decode_with_notes(blob, hardware_only=hardware_only).tensor_map


def decode_with_notes(blob: Any, *, hardware_only: bool = False) -> DecodedMap:
    """Return what `decode` does, with notes on what the bytes leave open.

    Raises:
        InvalidInput: as `decode`.
    """
    flag(hardware_only, "hardware_only")
    data = bytes_of(blob)
    lengths = {MAP_BYTES, HARDWARE_BYTES} if hardware_only else {MAP_BYTES}
    if len(data) not in lengths:
        raise no_map(f"there are {len(data)}; give {MAP_BYTES}{_length_hint(len(data))}")
    data = data[:HARDWARE_BYTES] if hardware_only else data
    if not any(data):
        raise no_map("all are zero; encode the map first, and copy it only after the encode call has returned 0")
    words = _words(data)
    try:
        tm = _read(words)
    except InvalidInput as error:
        for size in (8, 4):
            if _reads(_words(_reversed(data, size))):
                advice = f"each {8 * size}-bit word is printed highest byte first; reverse the bytes of each"
                raise InvalidInput(f"{error} (but {advice})") from None
        raise
    return DecodedMap(tm, tuple(_notes(tm, words)))


def encode_blob(tm: TensorMap) -> bytes:
    """Return the 128 bytes that the driver of an H200 writes for a tiled map.

    The map is not judged: `legalsat.violations` says whether the driver would have accepted it.

    Args:
        tm: a tiled map.

    Raises:
        InvalidInput: an argument does not fit its bits, or nobody measured how such a map is written: im2col, the
            packed data types and the 128-byte swizzles of compute capability 10.0.
    """
    if not isinstance(tm, TensorMap):
        raise InvalidInput(f"encode_blob takes a TensorMap, not {type(tm).__name__}; make one with legalsat.TensorMap")
    if tm.mode != "tiled":
        raise InvalidInput("nobody measured how the driver writes an im2col map; let the driver encode it")
    return struct.pack("<16Q", *_write(tm))


def _length_hint(length: int) -> str:
    if length in (4, 8):
        return ": this is the size of a pointer, so copy what it points at"
    if length == HARDWARE_BYTES:
        return f", or read the hardware's half alone ({_HALF_OPTION})"
    return ", as sizeof(CUtensorMap) says"


def _words(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 8}Q", data)


def _reversed(data: bytes, size: int) -> bytes:
    return b"".join(data[i : i + size][::-1] for i in range(0, len(data), size))


def _get(words: Sequence[int], name: str) -> tuple[int, ...]:
    field = _FIELD[name]
    return tuple((words[word] >> bit & (1 << field.width) - 1) + field.least for word, bit in field.places)


def _read(words: Sequence[int]) -> TensorMap:
    """Return the map that 16 words, or the hardware's 8, hold; every bit must be what that map is written as."""
    (rank,), (mode,) = _get(words, "rank"), _get(words, "mode")
    if rank > _MAX_RANK:
        raise no_map(f"rank {rank} in bits 4 to 6 of word 1, where 1 to {_MAX_RANK} can be")
    tiled = MODES[mode] == "tiled"
    if not tiled and rank not in _CORNER_BITS:
        raise no_map(f"an im2col map of rank {rank}, where 3 to {_MAX_RANK} can be")
    (code,), (rounds,), (address,) = (_get(words, name) for name in ("dtype", "round_to_tf32", "address"))
    if (code, rounds) not in _DTYPES:
        rounded = " with the bit that rounds to tf32" if rounds else ""
        raise no_map(
            f"data type code {code}{rounded} is none that was measured (0 to 10, and 7 and 8 rounded); if the map "
            "is for a packed type of compute capability 10.0, nobody measured those"
        )
    enums = {name: _get(words, name)[0] for name in _ENUMS}
    for name, value in enums.items():
        if value >= len(_ENUMS[name]):
            raise no_map(f"{name} is {value}, where 0 to {len(_ENUMS[name]) - 1} can be")
    strides = zip(_get(words, "global_stride"), _get(words, "global_stride_high"), strict=True)
    arguments: dict[str, Any] = {
        "dtype": _DTYPES[code, rounds],
        "address": address,
        "global_dim": _get(words, "global_dim")[:rank],
        "global_stride": tuple((high << 32 | low) << 4 for low, high in strides)[: rank - 1],
        "element_stride": _get(words, "element_stride")[:rank],
        "mode": MODES[mode],
        **{name: _ENUMS[name][value] for name, value in enums.items()},
    }
    if tiled:
        arguments["box"] = _get(words, "box")[:rank]
    else:
        (arguments["channels"],), (arguments["pixels"],) = _get(words, "channels"), _get(words, "pixels")
        for name in ("lower_corner", "upper_corner"):
            arguments[name] = _corner(_get(words, name)[0], rank)
    tm = TensorMap(**arguments)
    _compare(words, _write(tm), tm)
    return tm


def _reads(words: Sequence[int]) -> bool:
    try:
        _read(words)
    except InvalidInput:
        return False
    return True


def _corner(bits: int, rank: int) -> tuple[int, ...]:
    width = _CORNER_BITS[rank]
    parts = (bits >> width * axis & (1 << width) - 1 for axis in range(rank - 2))
    return tuple(part - (part >> width - 1 << width) for part in parts)


def _write(tm: TensorMap) -> list[int]:
    """Return the words that hold `tm`: 16, or the hardware's 8 of an im2col map."""
    if tm.dtype not in DTYPE_CODES:
        raise InvalidInput(f"nobody measured how a map of data type {tm.dtype} is written; let the driver encode it")
    if not 1 <= tm.rank <= _MAX_RANK:
        raise InvalidInput(f"rank is {tm.rank}; a map holds 1 to {_MAX_RANK} dimensions")
    for axis, stride in enumerate(tm.global_stride, start=1):
        if stride % 16 or stride >= 1 << 40:
            raise InvalidInput(f"stride of dimension {axis} is {stride} bytes; a map holds multiples of 16 below 2^40")
    code, rounds = DTYPE_CODES[str(tm.dtype)]
    values: dict[str, tuple[int, ...]] = {
        "address": (tm.address,),
        "mode": (MODES.index(tm.mode),),
        "rank": (tm.rank,),
        "dtype": (code,),
        "round_to_tf32": (rounds,),
        "global_stride": tuple(stride >> 4 & 0xFFFF_FFFF for stride in tm.global_stride),
        "global_stride_high": tuple(stride >> 36 for stride in tm.global_stride),
        "global_dim": tm.global_dim,
        "element_stride": tm.element_stride,
    }
    for name, names in _ENUMS.items():
        value = getattr(tm, name)
        if value not in names:
            raise InvalidInput(f"nobody measured how {name} {value} is written; give one of {', '.join(names)}")
        values[name] = (names.index(value),)
    if tm.mode == "tiled":
        values["box"] = tm.box
    else:
        values["channels"], values["pixels"] = (tm.channels,), (tm.pixels,)
        for name in ("lower_corner", "upper_corner"):
            width = _CORNER_BITS[tm.rank]
            parts = (part % (1 << width) << width * axis for axis, part in enumerate(getattr(tm, name)))
            values[name] = (sum(parts),)
    _check_fit(values)
    if tm.mode == "tiled":
        steps = (extent // step for extent, step in zip(tm.box, tm.element_stride, strict=True))
        values["box_bytes"] = (math.prod(steps) * tm.map_type.bits // 8,)
        values["pattern_bytes"] = (PERIODS[str(tm.swizzle)],)
    words = [0] * (MAP_BYTES // 8 if tm.mode == "tiled" else HARDWARE_BYTES // 8)
    for name, numbers in values.items():
        for number, (word, bit) in zip(numbers, _FIELD[name].places, strict=False):
            words[word] |= (number - _FIELD[name].least) << bit
    return words


def _check_fit(values: Mapping[str, Sequence[int]]) -> None:
    for name, numbers in values.items():
        field = _FIELD[name]
        most = field.least + (1 << field.width) - 1
        for axis, number in enumerate(numbers):
            if not field.least <= number <= most:
                where = f"{name}[{axis}]" if len(field.places) > 1 else name
                raise InvalidInput(f"{where} is {number}; a map's bytes hold {field.least} to {most}")


def _compare(words: Sequence[int], written: Sequence[int], tm: TensorMap) -> None:
    """Refuse words that `tm` is not written as: bits of no field, or fields that say otherwise than the rest."""
    for number, (found, wanted) in enumerate(zip(words, written, strict=False)):
        strange = found ^ wanted
        if number == 1:
            strange &= ~BLACKWELL_BIT
        if not strange:
            continue
        low, high = (strange & -strange).bit_length() - 1, strange.bit_length() - 1
        bits = f"bit {low} of word {number} is" if low == high else f"bits {low} to {high} of word {number} are"
        owner = _owner(number, low, tm)
        if owner in ("box_bytes", "pattern_bytes"):
            raise no_map(
                f"word {number} is {found}, where a {tm} has {wanted} ({_FIELD[owner].meaning}); if another driver "
                f"wrote it, or tensormap.replace changed it, read the hardware's half alone ({_HALF_OPTION})"
            )
        if owner is not None:
            raise no_map(f"{bits} set in {owner}, past what a map of rank {tm.rank} has")
        raise no_map(f"{bits} set, where no encode call writes; check that all {MAP_BYTES} were copied, from the start")


def _owner(word: int, bit: int, tm: TensorMap) -> str | None:
    """Return the field of a map like `tm` that a bit belongs to."""
    other = {"box"} if tm.mode == "im2col" else _IN_COLUMNS
    for field in FIELDS:
        for where, start in field.places:
            if where == word and start <= bit < start + field.width and field.name not in {*other, "version"}:
                return field.name
    return None


def _notes(tm: TensorMap, words: Sequence[int]) -> Iterable[str]:
    carried = [dtype.name for dtype in DTYPES.values() if dtype.map_type == tm.dtype]
    if len(carried) > 1:
        names = f"{', '.join(carried[:-1])} and {carried[-1]}"
        yield f"a map of {tm.dtype} carries {names} alike; its bytes do not say which"
    if tm.mode == "im2col":
        yield (
            "the corners, channels and pixels are read as TensorRT-LLM's header lays them out; nobody measured an "
            "im2col map, so compare them with the encode call's"
        )
    if words[1] & BLACKWELL_BIT:
        extents = zip((0, *tm.global_stride), tm.global_dim, strict=True)
        inner = -(-tm.global_dim[0] * tm.map_type.bits // 8)
        span = inner + sum(stride * (extent - 1) for stride, extent in extents)
        advice = (
            f"this tensor spans {span} bytes: unless it is dense, clear the bit, or update the driver"
            if span < _SMALL_BYTES
            else "this tensor spans more"
        )
        yield (
            "bit 21 of word 1 is set, a bit of Blackwell's; drivers up to 595.71 set it wrongly for tensors that lie "
            f"below 128 KiB and are not dense, whose copies may fault; {advice} (NVIDIA driver 595.71.05 release notes)"
        )
    if len(words) * 8 < MAP_BYTES:
        yield "bytes 64 to 127, the driver's own, were not looked at"

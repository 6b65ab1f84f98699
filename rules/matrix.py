"""Rules of a matrix descriptor beside the tile that it is to describe, for wgmma and tcgen05 alike."""

from __future__ import annotations

from legalsat.logic import any_of, implies, multiple_of, pick, within
from legalsat.matrix_descriptor import CHUNK_BYTES, PERIODS, REACH, SPANS
from legalsat.rule import Requirements, Source, Unit, require
from legalsat.sites import MatrixRead
from legalsat.targets import Tcgen05Limits, WgmmaLimits
from legalsat.tensor_map import SWIZZLES

MATRIX = Unit("matrix descriptor", lambda target: target.wgmma or target.tcgen05)
_PTX = "PTX ISA 9.1, 9.7.15.5 and 9.7.16.4, matrix descriptor"
_LINE = 128  # bytes, which patterns count in
_KNOWN = tuple(name for name in SWIZZLES if name in SPANS)
_SPANS = tuple(SPANS[name] for name in _KNOWN)
_LINES = tuple(max(1, PERIODS[name] // _LINE) for name in _KNOWN)
_Limits = WgmmaLimits | Tcgen05Limits


@MATRIX.rule("MDESC001", Source(_PTX, "start").saying("start addresses must be 16-byte aligned"), refused_by="hardware")
def matrix_start_misaligned(read: MatrixRead, limits: _Limits) -> Requirements:
    """A tile starts at a multiple of 16 bytes below 2^18; the word keeps no lower and no higher bits."""
    yield require(
        multiple_of(read.start, CHUNK_BYTES) & within(0, read.start, REACH - 1),
        "the tile starts at byte {start}, no multiple of {step} below {reach}",
        help="move the tile to a multiple of {step} bytes",
        start=read.start,
        step=CHUNK_BYTES,
        reach=REACH,
    )


@MATRIX.rule(
    "MDESC002",
    Source(_PTX, "leading, stride").saying("matrix-descriptor-encode(x) = (x & 0x3FFFF) >> 4"),
    refused_by="hardware",
)
def matrix_offset_out_of_range(read: MatrixRead, limits: _Limits) -> Requirements:
    """The leading and the stride offset are multiples of 16 bytes below 2^18; the word keeps no other bits."""
    for name, offset in (("leading", read.leading), ("stride", read.stride)):
        yield require(
            multiple_of(offset, CHUNK_BYTES) & within(0, offset, REACH - 1),
            "{name} offset of {offset} bytes, no multiple of {step} below {reach}",
            help="keep atoms of the tile at distances of a multiple of {step} bytes, below {reach}",
            name=name,
            offset=offset,
            step=CHUNK_BYTES,
            reach=REACH,
        )


@MATRIX.rule(
    "MDESC003", Source(_PTX, "swizzle").saying("the swizzling mode used for the matrix"), refused_by="hardware"
)
def matrix_swizzle_differs(read: MatrixRead, limits: _Limits) -> Requirements:
    """The descriptor names the swizzle that the tile was written with."""
    yield require(
        read.swizzle == read.tile_swizzle,
        "swizzle {told} for a tile that was written with {real}",
        help="name swizzle {real}",
        told=_name(read.swizzle),
        real=_name(read.tile_swizzle),
    )


@MATRIX.rule(
    "MDESC004",
    Source(_PTX, "leading, stride").saying("strides between repeating patterns along the two dimensions"),
    refused_by="hardware",
)
def matrix_offset_differs(read: MatrixRead, limits: _Limits) -> Requirements:
    """The leading and the stride offset are the tile's own distances, where one instruction steps by them.

    Which distance is which depends on the major axis and on the swizzle: K-major, the stride leads to the next eight
    rows, and the leading offset to the next 16 bytes of K, but only without a swizzle; with one, nobody looks at it.
    MN-major with a swizzle, the leading offset leads to the next span along MN and the stride to the next rows of K;
    without one it is the other way round.
    """
    bits, span = read.block * read.element_bits, 8 * pick(_SPANS, read.swizzle)
    plain = read.swizzle == 0
    if read.major == "K":
        looked = (("leading", plain), ("stride", read.block > 8))
    else:
        looked = (("leading", any_of(plain, bits > span)), ("stride", any_of(read.swizzle > 0, bits > span)))
    for name, steps in looked:
        told, real = getattr(read, name), getattr(read, f"tile_{name}")
        yield require(
            implies(steps, told == real),
            "{name} offset of {told} bytes for a tile whose own is {real}",
            help="set the {name} offset to {real} bytes",
            name=name,
            told=told,
            real=real,
        )


@MATRIX.rule(
    "MDESC005",
    Source(_PTX, "base_offset").saying("base offset = (pattern start addr >> 0x7) & 0x7"),
    refused_by="hardware",
)
def matrix_pattern_misaligned(read: MatrixRead, limits: _Limits) -> Requirements:
    """The base offset says in which 128-byte line of its period the swizzle's pattern begins.

    The copy engine's pattern follows the address, so it begins at a multiple of 256, 512 or 1024 bytes and the base
    offset is 0. Threads that swizzle offsets into a buffer begin it where the buffer begins.
    """
    lines = pick(_LINES, read.swizzle)
    yield require(
        implies(read.swizzle > 0, multiple_of(read.pattern, _LINE)),
        "the swizzle's pattern begins at byte {pattern}, no multiple of {line}",
        help="move the buffer to a multiple of {period} bytes",
        pattern=read.pattern,
        line=_LINE,
        period=_LINE * lines,
    )
    yield require(
        implies(read.swizzle > 0, read.base_offset % lines == read.pattern // _LINE % lines),
        "base offset {told} for a pattern that begins at byte {pattern}",
        help="move the buffer to a multiple of {period} bytes, with base offset 0",
        told=read.base_offset,
        pattern=read.pattern,
        period=_LINE * lines,
    )


@MATRIX.rule("MDESC006", Source(_PTX, "major").saying("K-major and MN-major canonical layouts"), refused_by="hardware")
def matrix_major_differs(read: MatrixRead, limits: _Limits) -> Requirements:
    """The instruction is told the axis whose elements lie side by side in the tile."""
    yield require(
        read.major == read.tile_major,
        "read as {told}-major, and the tile is {real}-major",
        help="set the instruction to {real}-major",
        told=read.major,
        real=read.tile_major,
    )


def _name(swizzle: object) -> object:
    return _KNOWN[swizzle] if isinstance(swizzle, int) and swizzle < len(_KNOWN) else swizzle

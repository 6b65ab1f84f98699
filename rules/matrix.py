"""Rules of a matrix descriptor beside the tile that it is to describe, for wgmma and tcgen05 alike."""

from __future__ import annotations

from legalsat.logic import all_of, any_of, implies, multiple_of, pick, within
from legalsat.rule import Requirements, Source, Unit, require
from legalsat.targets import Tcgen05Limits, WgmmaLimits
from legalsat.units.matrix_descriptor import CHUNK_BYTES, PERIODS, REACH, SPANS, MatrixWord
from legalsat.units.shared_tile import UnreadTile
from legalsat.units.sites import MatrixRead
from legalsat.units.tensor_map import SWIZZLES

_TCGEN05 = "PTX ISA 9.1, 9.7.16.4.1, shared memory descriptor"
MATRIX = Unit("matrix descriptor", lambda target: target.wgmma or target.tcgen05)
_PTX = "PTX ISA 9.1, 9.7.15.5 and 9.7.16.4, matrix descriptor"
_WHOSE = {0: "as wgmma's descriptors have it", 1: "as tcgen05's descriptors have it"}
_LINE = 128  # bytes, which patterns count in
_KNOWN = tuple(name for name in SWIZZLES if name in SPANS)
_ATOM = _KNOWN.index("128B_atom_32B")  # whose groups have 4 rows
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
    plain, swizzled = read.swizzle == 0, read.swizzle > 0
    # One instruction reads 32 bytes of K, which elements of 32 bits fill with the 8 rows of one group.
    deep = any_of(256 // read.element_bits > 8, read.swizzle == _ATOM)
    if read.major == "K":
        looked = (("leading", plain), ("stride", read.block > 8))
    else:
        looked = (
            ("leading", any_of(all_of(plain, deep), all_of(swizzled, bits > span))),
            ("stride", any_of(all_of(plain, bits > span), all_of(swizzled, deep))),
        )
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


@MATRIX.rule("MDESC007", Source(_TCGEN05, "version").saying("Fixed constant value of 0b001"), refused_by="hardware")
def matrix_version_differs(written: MatrixWord, limits: _Limits) -> Requirements:
    """Bits 46 to 48 hold 1 in descriptors of tcgen05 and 0 in those of wgmma; else both look alike.

    A word that was built for the other unit has all its fields in the right places, the swizzle too, and is wrong in
    bit 46 alone. CUTLASS calls it the version.
    """
    yield require(
        written.version == written.wanted_version,
        "bits 46 to 48 hold {version}, {whose}, and {unit} wants {wanted} there",
        help="set bits 46 to 48 to {wanted}, as {unit} has them; the other fields stay where they are",
        version=written.version,
        whose=_WHOSE.get(written.version, "which no descriptor has"),
        unit=written.unit,
        wanted=written.wanted_version,
    )


@MATRIX.rule("MDESC008", Source(_TCGEN05, "reserved").saying("53-60: Fixed constant value of 0"), refused_by="hardware")
def matrix_reserved_bits_set(written: MatrixWord, limits: _Limits) -> Requirements:
    """Bits outside of the fields are 0.

    The fields are bits 0 to 13 (start), 16 to 29 (LBO), 32 to 45 (SBO), 46 to 48 (version), 49 to 51 (base offset) and
    62 to 63 (wgmma) or 52 and 61 to 63 (tcgen05). Bits 14, 15, 30 and 31 are set where an address or an offset was not
    masked before it was shifted in: they keep (x & 0x3FFFF) >> 4.
    """
    yield require(
        not written.reserved,
        "{unit} keeps {bits} 0, and they are set",
        help="keep (x & 0x3ffff) >> 4 of the start and of both offsets, and set no other bit",
        unit=written.unit,
        bits=_bits(written.reserved),
    )


@MATRIX.rule("MDESC009", Source(_TCGEN05, "swizzle").saying("Values 3, 5 and 7 are invalid"), refused_by="hardware")
def matrix_swizzle_code_unknown(written: MatrixWord, limits: _Limits) -> Requirements:
    """The swizzle's code is one that the unit has; tcgen05's three bits have five, wgmma's two have four."""
    yield require(
        bool(written.swizzle),
        "swizzle code {code} in bits 61 to 63 means nothing to {unit}",
        help="name the swizzle by one of its codes: {codes}",
        code=written.swizzle_code,
        unit=written.unit,
        codes=", ".join(f"{code} for {name}" for name, code in written.swizzle_codes.items()),
    )


@MATRIX.rule(
    "MDESC010",
    Source(_TCGEN05, "leading").saying("0: byte offset relative, 1: byte address absolute"),
    refused_by="hardware",
)
def matrix_leading_absolute(written: MatrixWord, limits: _Limits) -> Requirements:
    """Bit 52 makes the leading offset an address, which sm_103a alone has, with swizzle 128B and base offset 0."""
    has = isinstance(limits, Tcgen05Limits) and limits.absolute_leading
    yield require(
        has or not written.absolute,
        "bit 52 makes the leading offset an address, which sm_103a alone takes",
        help="set bit 52 to 0, which means that the leading offset is a distance",
    )
    told = written.descriptor
    if has and told is not None:
        yield require(
            not written.absolute or (told.swizzle == "128B" and told.base_offset == 0),
            "bit 52 makes the leading offset an address, with swizzle {swizzle} and base offset {base}",
            help="set bit 52 to 0, or use swizzle 128B and base offset 0",
            swizzle=told.swizzle,
            base=told.base_offset,
        )


@MATRIX.rule("MDESC011", Source(_PTX, "layout").saying("K-major and MN-major canonical layouts"), refused_by="hardware")
def matrix_layout_unreadable(tile: UnreadTile, limits: _Limits) -> Requirements:
    """A tile lies as some descriptor reads it.

    A unit reads chunks of 16 bytes, 8 rows of chunks as a swizzle places them, and steps by two offsets; rows of
    another pitch than the swizzle's span, or atoms at unequal distances, are out of its reach.
    """
    yield require(
        not tile.reason,
        "no descriptor of {unit} reads the layout {layout}: {reason}",
        help="store the tile in atoms of 8 rows of 16, 32, 64 or 128 bytes, as the copy engine's boxes lie",
        unit=tile.unit,
        layout=tile.layout,
        reason=tile.reason,
    )


def _bits(bits: tuple[int, ...]) -> str:
    """Return positions of bits in words, such as "bits 14 to 15 and 61"."""
    runs: list[list[int]] = []
    for bit in bits:
        if runs and runs[-1][-1] == bit - 1:
            runs[-1][1:] = [bit]
        else:
            runs.append([bit])
    *first, last = [" to ".join(map(str, run)) for run in runs] or ["none"]
    return f"bit{'s' * (len(bits) > 1)} {', '.join(first)}{' and ' * bool(first)}{last}"


def _name(swizzle: object) -> object:
    return _KNOWN[swizzle] if isinstance(swizzle, int) and swizzle < len(_KNOWN) else swizzle

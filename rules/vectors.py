"""Rules of rows that are moved in vectors: by threads, asynchronously, or by bulk copies without a tensor map."""

from __future__ import annotations

from legalsat.logic import among, any_of, multiple_of
from legalsat.rule import Requirements, Source, require
from legalsat.rules.movement import CHIP
from legalsat.targets import Target
from legalsat.units.sites import RegisterTile, VectorAccess

BULK = "cp.async.bulk"
GRANULE = 16
# By instruction: what its vectors may measure, in bytes. Fragments of operand A hold pairs of 16-bit elements side by
# side (PTX ISA 9.1, 9.7.15, register fragments of wgmma), so a load for them brings 4 bytes at most.
SIZES = {
    "ld.global": (1, 2, 4, 8, 16),
    "st.global": (1, 2, 4, 8, 16),
    "cp.async": (4, 8, 16),
    "ld.global.fragment": (1, 2, 4),
}
_DEVICE_MEMORY = Source("CUDA C++ programming guide, device memory accesses", "strides")


@CHIP.rule(
    "VEC001",
    Source("PTX ISA 9.1, ld, st, and 9.7.9.25.3, cp.async", "dtype").saying("cp-size can only be 4, 8 and 16"),
    refused_by="hardware",
)
def vector_of_no_size(access: VectorAccess, target: Target) -> Requirements:
    """An instruction moves 1, 2, 4, 8 or 16 bytes, an asynchronous copy 4, 8 or 16, a bulk copy a multiple of 16."""
    sizes = SIZES.get(access.instruction)
    yield require(
        multiple_of(access.bytes, GRANULE) if sizes is None else among(access.bytes, sizes),
        "{instruction} moves no {bytes} bytes at a time",
        help="move {sizes} bytes at a time",
        instruction=access.instruction,
        bytes=access.bytes,
        sizes="a multiple of 16" if sizes is None else " or ".join(map(str, sizes)),
    )


@CHIP.rule("VEC002", _DEVICE_MEMORY.saying("its address is a multiple of its size"), refused_by="hardware")
def vector_misaligned(access: VectorAccess, target: Target) -> Requirements:
    """Every vector lies at a multiple of its size, and bulk copies at multiples of 16 bytes: base and strides are such.

    Sources: the programming guide for loads and stores; PTX ISA 9.1, 9.7.9.25.4 for bulk copies.
    """
    size = GRANULE if access.instruction == BULK else access.bytes
    yield require(
        multiple_of(access.address, size),
        "base {address} is no multiple of {bytes} bytes",
        help="copy the tensor to an allocation aligned to {bytes} bytes, or move fewer bytes at a time",
        address=access.address,
        bytes=size,
    )
    for stride in access.strides:
        yield require(
            multiple_of(stride, size),
            "stride of {stride} bytes is no multiple of {bytes} bytes",
            help="pad the stride to a multiple of {bytes} bytes, or move fewer bytes at a time",
            stride=stride,
            bytes=size,
        )


@CHIP.rule("VEC003", _DEVICE_MEMORY.saying("words of size equal to 1, 2, 4, 8, or 16 bytes"), refused_by="hardware")
def vector_torn(access: VectorAccess, target: Target) -> Requirements:
    """Vectors fill rows and tiles evenly, and hold whole elements: none is partly in the tensor and partly outside."""
    bits = access.bytes * 8
    for what, extent in (("row", access.row_bits), ("tile's row", access.tile_bits)):
        yield require(
            multiple_of(extent, bits),
            "{what} of {extent} bits is cut by vectors of {bits} bits",
            help="move fewer bytes at a time, or pad the {what}",
            what=what,
            extent=extent,
            bits=bits,
        )
    yield require(
        multiple_of(bits, access.word),
        "vectors of {bits} bits cut elements of {word} bits",
        help="move whole elements",
        bits=bits,
        word=access.word,
    )


@CHIP.rule("VEC004", _DEVICE_MEMORY.saying("words of size equal to 1, 2, 4, 8, or 16 bytes"), refused_by="hardware")
def vector_of_strangers(access: VectorAccess, target: Target) -> Requirements:
    """A vector of more than one element needs neighbours that lie side by side."""
    yield require(
        any_of(access.bytes * 8 == access.word, access.inner_stride_bits == access.word),
        "elements {stride} bits apart do not fill a vector of {bytes} bytes",
        help="move one element at a time, or copy the tensor so that its fastest axis is contiguous",
        stride=access.inner_stride_bits,
        bytes=access.bytes,
    )


@CHIP.rule(
    "VEC005",
    _DEVICE_MEMORY.saying("concurrent writes to one address: which is last is undefined"),
    refused_by="hardware",
)
def vector_stores_overlap(access: VectorAccess, target: Target) -> Requirements:
    """A store's elements each have memory of their own; where a stride is 0 or too small, threads race."""
    if access.side != "target":
        return
    for stride, covered in zip(access.strides, access.stepped_over, strict=True):
        yield require(
            stride >= covered,
            "stride of {stride} bytes is less than the {covered} it steps over, so stores overlap",
            help="give every element memory of its own before storing",
            stride=stride,
            covered=covered,
        )


@CHIP.rule(
    "REG001",
    Source("CUDA C++ programming guide, compute capabilities", "tile").saying(
        "maximum number of 32-bit registers per thread: 255"
    ),
    refused_by="hardware",
)
def tile_exceeds_registers(tile: RegisterTile, target: Target) -> Requirements:
    """A tile that threads hold leaves half of the registers of eight warps to the kernel: 128 KiB at most."""
    limit = target.registers_per_processor * 4 // 2
    yield require(
        tile.bytes <= limit,
        "tile of {bytes} bytes does not fit into {limit} bytes of registers",
        help="take a tile of at most {limit} bytes",
        bytes=tile.bytes,
        limit=limit,
    )

"""Rules that a movement adds to its tensor maps: the innermost dimension, stores, and shared memory as a whole."""

from __future__ import annotations

from legalsat.logic import all_of, any_of, multiple_of, product
from legalsat.rule import Requirements, Source, Unit, require
from legalsat.rules.tma import TMA
from legalsat.targets import Target, TmaLimits
from legalsat.units.means import MEANS
from legalsat.units.sites import Movement, SharedStages, TmaCopy

SHARED = Unit("shared memory", lambda target: target)
CHIP = Unit("chip", lambda target: target)
NEED_TMA, NEED_CP_ASYNC = (
    frozenset(one.name for one in MEANS.values() if one.unit == unit) for unit in ("tma", "cp_async")
)


@TMA.rule(
    "TMA024",
    Source("PTX ISA 9.1, 5.5.2", "global_stride").saying("the innermost dimension of a tensor map has no stride"),
    refused_by="document",
)
def innermost_not_contiguous(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """Elements along the innermost dimension lie side by side: a tensor map has strides for the others only.

    A tensor with no axis of stride 1, such as `x[:, ::2]`, has no tensor map.
    """
    if copy.inner_stride_bits is not None:
        yield require(
            copy.inner_stride_bits == copy.element_bits,
            "innermost stride is {stride} bits, but elements of {size} bits must lie side by side",
            help="copy the tensor to dense memory first, or take a wider element type if neighbours belong together",
            stride=copy.inner_stride_bits,
            size=copy.element_bits,
        )


@TMA.rule(
    "TMA025",
    Source("measured on an H200, FACTS M-13", "global_dim").saying(
        "a store past the inner extent writes up to the next 16-byte boundary"
    ),
    refused_by="hardware",
)
def store_clobbers_past_inner_extent(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """A store overwrites what lies between the end of a row and the next multiple of 16 bytes.

    Rows past the end are dropped, but columns are cut in granules of 16 bytes only. If those bytes are not the
    tensor's own to lose, store through registers instead.
    """
    if copy.stores and copy.rank >= 1:
        yield require(
            multiple_of(copy.global_dim[0] * copy.element_bits, 8 * tma.store_granule),
            "rows of {extent} elements of {bits} bits end inside a {granule}-byte granule, which a store overwrites",
            help="store from registers, or give each row {granule}-byte padding that may be overwritten",
            extent=copy.global_dim[0],
            bits=copy.element_bits,
            granule=tma.store_granule,
        )


@TMA.rule(
    "TMA026",
    Source("PTX ISA 9.1, 9.7.9.27", "global_stride").saying("the order of overlapping writes is undefined"),
    refused_by="hardware",
)
def store_overlaps(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """A store's elements each have memory of their own; where a stride is 0 or too small, writes race."""
    if not copy.stores or copy.rank < 1:
        return
    for axis, (stride, covered) in enumerate(zip(copy.global_stride, copy.stepped_over, strict=True), start=1):
        yield require(
            (stride >= covered) | (copy.global_dim[axis] == 1),
            "stride of {axis} is {stride} bytes, less than the {covered} it steps over, so stores overlap",
            help="give every element memory of its own before storing",
            axis=copy.named(axis),
            stride=stride,
            covered=covered,
        )


@TMA.rule(
    "TMA027",
    Source("measured on an H200, FACTS M-11", "box").saying(
        "a shared address that is no multiple of 128 bytes is a misaligned address at launch"
    ),
    refused_by="hardware",
)
def boxes_misaligned_in_shared_memory(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """Boxes that fill a tile side by side start at multiples of 128 bytes, so each takes a multiple of that."""
    if not copy.tile:
        return
    box = copy.box if copy.tiled else (copy.channels, copy.pixels)
    alone = all_of(*(extent == tile for extent, tile in zip(box, copy.tile, strict=True)))
    bits = product([*box, copy.element_bits])
    yield require(
        any_of(alone, multiple_of(bits, 8 * tma.shared_alignment)),
        "boxes of {bits} bits side by side start at no multiples of {alignment} bytes in shared memory",
        help="give the tile extents with larger powers of two in them, or make it one box",
        bits=bits,
        alignment=tma.shared_alignment,
    )


@SHARED.rule(
    "SMEM002",
    Source("measured on an H200, FACTS M-11", "shared").saying(
        "a shared address that is no multiple of 128 bytes is a misaligned address at launch"
    ),
    refused_by="hardware",
)
def stages_misaligned(shared: SharedStages, target: Target) -> Requirements:
    """The stages of a ring lie one after another at multiples of 128 bytes, so each takes a multiple of that."""
    if target.tma is not None:
        yield require(
            any_of(shared.stages == 1, multiple_of(shared.ring, target.tma.shared_alignment)),
            "stages of {ring} bytes start at no multiples of {alignment} bytes",
            help="take one stage, or a tile of a multiple of {alignment} bytes",
            ring=shared.ring,
            alignment=target.tma.shared_alignment,
        )


@SHARED.rule(
    "SMEM001",
    Source("CUDA programming guide, compute capabilities (FACTS HW-01)", "shared").saying(
        "maximum amount of shared memory per thread block"
    ),
    refused_by="driver",
)
def shared_memory_exceeded(shared: SharedStages, target: Target) -> Requirements:
    """All stages of all buffers, and their barriers, fit into the shared memory of one block."""
    yield require(
        shared.bytes <= target.shared_bytes_per_block,
        "block needs {bytes} bytes of shared memory, more than {limit}",
        help="take a smaller tile or fewer stages, at most {limit} bytes together",
        bytes=shared.bytes,
        limit=target.shared_bytes_per_block,
    )


@CHIP.rule(
    "WORD001",
    Source("CUDA C++ programming guide, device memory accesses", "dtype").saying(
        "global memory instructions support reading or writing words of size equal to 1, 2, 4, 8, or 16 bytes"
    ),
    refused_by="hardware",
)
def elements_share_bytes(movement: Movement, target: Target) -> Requirements:
    """A movement keeps bytes whole: packed 4- and 6-bit elements move only where neighbours stay neighbours.

    That needs the axis of stride 1 to be the fastest on both sides and to fill whole bytes.
    """
    yield require(
        multiple_of(movement.word, 8),
        "elements of {bits} bits share bytes, and this movement would tear them apart",
        help="keep the fastest axis fastest and pad it to whole bytes, or unpack the elements to 8 bits first",
        bits=movement.word,
    )


@CHIP.rule(
    "UNIT001",
    Source("PTX ISA 9.1, 9.7.9.27, cp.async.bulk.tensor", "target").saying("requires sm_90 or higher"),
    refused_by="hardware",
)
def no_tensor_memory_accelerator(movement: Movement, target: Target) -> Requirements:
    """The chip has a tensor memory accelerator: NVIDIA's from compute capability 9.0 on.

    Earlier chips copy with cp.async or plain loads, AMD's with loads that write shared memory directly.
    """
    yield require(
        target.tma is not None or movement.by not in NEED_TMA,
        "{target} has no tensor memory accelerator",
        help="plan for sm_90a, sm_100a or sm_120a, or copy with plain loads and stores",
        target=target,
    )


@CHIP.rule(
    "UNIT003",
    Source("PTX ISA 9.1, 9.7.9.25.3, cp.async", "target").saying("requires sm_80 or higher"),
    refused_by="hardware",
)
def no_asynchronous_copies(movement: Movement, target: Target) -> Requirements:
    """Threads can ask for asynchronous copies: NVIDIA's from compute capability 8.0 on."""
    yield require(
        target.cp_async or movement.by not in NEED_CP_ASYNC,
        "{target} has no cp.async",
        help="plan for an NVIDIA GPU from sm_80 on, or copy with plain loads and stores",
        target=target,
    )


@CHIP.rule(
    "UNIT002",
    Source("PTX ISA 9.1, 9.7.15, wgmma", "target").saying("requires sm_90a"),
    refused_by="hardware",
)
def no_warpgroup_matrix_multiply(movement: Movement, target: Target) -> Requirements:
    """A tile for wgmma needs a chip that has it, which is Hopper alone."""
    yield require(
        target.wgmma is not None or not movement.feeds_wgmma,
        "{target} has no wgmma to read the tile",
        help="plan for sm_90a, or name another consumer",
        target=target,
    )


@CHIP.rule(
    "UNIT004",
    Source("PTX ISA 9.1, 9.7.16, tcgen05", "target").saying("supported on sm_100a, sm_103a and sm_110a"),
    refused_by="hardware",
)
def no_tensor_memory(movement: Movement, target: Target) -> Requirements:
    """A tile for tcgen05 needs a chip that has it, which are Blackwells for data centres."""
    yield require(
        target.tcgen05 is not None or not movement.feeds_tcgen05,
        "{target} has no tcgen05 to read the tile",
        help="plan for sm_100a, or name another consumer",
        target=target,
    )


@TMA.rule(
    "TMA028",
    Source("PTX ISA 9.1, 9.7.9.27.1.2", "global_dim").saying("tensor coordinates are of type .s32"),
    refused_by="hardware",
)
def extent_beyond_coordinates(copy: TmaCopy, tma: TmaLimits) -> Requirements:
    """A movement reaches every element, so every coordinate fits a signed 32-bit number.

    The driver accepts extents up to 2^32; what lies beyond 2^31 - 1 no copy instruction can name.
    """
    for axis, extent in enumerate(copy.global_dim if copy.tile else ()):
        yield require(
            extent < 2**31,
            "{axis} has {extent} elements, but coordinates end at 2^31 - 1",
            help="split the tensor along {axis}, so that every extent is below 2^31",
            axis=copy.named(axis),
            extent=extent,
        )

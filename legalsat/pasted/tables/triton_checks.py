"""What Triton and Gluon say before a kernel runs: checks of descriptors, frontends, verifiers and lowerings.

Sources: the messages that the Python modules and the library of Triton 3.9 hold (`tools/tensor_descriptor.py`,
`experimental/gluon`, the verifiers of ttg, ttng and nvgpu). Their older ones are in `host_checks` and `compilers`.
"""

from __future__ import annotations

from legalsat.pasted.grammar import Sentence
from legalsat.pasted.tables.host_checks import PAD, SPLIT_BOX, STEP
from legalsat.pasted.tables.ptxas import ARCHITECTURE, TYPES

_IM2COL = "give an im2col map 3 to 5 dimensions, a block of pixels by channels, and both corners of the pixels' box"
_TRANSFER = (
    "take 4 or 8 warps and a tile of 64 or 128 rows, and let Gluon choose the registers' layout "
    "(get_tmem_reg_layout), which matches the shapes that tcgen05.ld and st have"
)
_PAIR = "give the operands, the sums and the product the same two_ctas, and split A by rows and B by columns"
_SCALES = "lay the scales out in blocks of 128 x 4 for the copy, and copy them into tensor memory of the scales' layout"

TRITON_CHECKS = (
    Sentence(
        "Triton",
        r"strides must be 16-byte aligned, but got a stride of (?P<extent>\d+) \* (?P<size>\d+) = (?P<bytes>\d+) bytes",
        "TMA005",
        "a stride is {extent} elements of {size} bytes, {bytes} bytes, no multiple of 16",
        PAD,
    ),
    Sentence(
        "Triton",
        r"element_?[sS]trides\[(?P<axis>-?\d+)\] must be (?:in \(0, 8\]|1), got (?P<step>-?\d+)",
        "TMA007",
        "element stride of dimension {axis} is {step}, outside 1 to 8 or not 1 in the innermost dimension",
        STEP,
    ),
    Sentence(
        "Triton",
        r"im2col mode requires rank 3, 4, or 5, got (?P<rank>\d+)|IM2COL mode requires at least 3D coordinates",
        "TMA001",
        "an im2col map has {rank} dimensions, outside 3 to 5",
        _IM2COL,
    ),
    Sentence(
        "Triton",
        r"im2col: block_shape must be 2D|TensorDescIm2ColType requires rank-2|im2col mode requires a 2D block"
        r"|blockSize must have exactly 2 dimensions for im2col",
        "TMA041",
        "the block of an im2col map is not of pixels by channels",
        _IM2COL,
    ),
    Sentence(
        "Triton",
        r"pixel_box_(?:lower|upper)_corner required for im2col|Pixel box (?:corner )?rank (?:mismatch|too large)",
        "TMA043",
        "the corners of the pixels' box are missing or are not one number for each axis of pixels",
        _IM2COL,
    ),
    Sentence(
        "Triton",
        r"FP4 padded operands must be swizzled with 128-byte|fp4_padded only supports 128 byte swizzling"
        r"|b4x16_p64\) only supports 128-byte swizzling",
        "TMA034",
        "4-bit elements padded to bytes are swizzled by other than 128 bytes",
        "take swizzle 128B for the padded 4-bit operand",
    ),
    Sentence(
        "Triton",
        r"swizzlingByteWidth must be 0, 32, 64, or 128|Unsupported swizzling size"
        r"|swizzle_byte_width in \[0, 32, 64, 128\]",
        "TMA011",
        "the layout's swizzle is none that the copy engine has",
        "take a swizzle of 0, 32, 64 or 128 bytes",
    ),
    Sentence(
        "Triton",
        r"[Tt]ensor descriptor element type must have size 1, 2, or 4(?:[^\n]{0,40}?but got (?P<size>\d+))?"
        r"|invalid TMA descriptor type",
        "TMA010",
        "the descriptor's elements have {size} bytes, not 1, 2 or 4",
        "view 64-bit elements as twice as many of 32 bits",
    ),
    Sentence(
        "Triton",
        r"getTMABlockShape failed|tensor ?map descriptor must have dimensions between 1 and",
        "TMA003",
        "no boxes of 1 to 256 elements along each axis make up the block",
        SPLIT_BOX,
    ),
    Sentence(
        "MLIR",
        r"tensormap descriptor must have last dimension of (?P<bytes>\d+)",
        "TMA009",
        "the box's last dimension is not the {bytes} bytes of its swizzle",
        "take a box as wide as the swizzle, or another swizzle",
    ),
    Sentence(
        "Triton",
        r"Cannot fallback on descriptor atomic op, unsupported for type (?P<type>\S+)",
        "COPY013",
        "a descriptor does not reduce {type}, by the copy engine or by threads",
        "reduce 32- or 64-bit integers, or add f16, bf16, f32",
    ),
    Sentence(
        "Triton",
        r"16-bit float types require native tma support",
        "TOOL004",
        "a descriptor adds 16-bit floats only where there is a copy engine, from sm_90 on",
        "reduce in f32, or take a GPU of compute capability 9.0 or more",
    ),
    Sentence(
        "Triton",
        r"descriptor (?P<what>gather|scatter) is not supported on Hopper",
        "TOOL004",
        "the copy engine's {what} of rows (tile::gather4, tile::scatter4) exists from sm_100 on",
        "load the rows by pointers, or take a GPU of Blackwell",
    ),
    Sentence(
        "Triton",
        r"requires tcgen05 support|requires cluster-capable SM90\+|requires (?:blackwell|hopper) or newer",
        "TOOL004",
        "the kernel needs a unit that the GPU it is compiled for lacks",
        ARCHITECTURE,
    ),
    Sentence(
        "Triton",
        r"num_?[wW]arps must be a power of two and >= 4|must be a power of two and >= 4, got (?P<given>\d+)",
        "TOOL007",
        "a layout of tensor memory or of wgmma is spread over whole warpgroups: 4 warps, or a power of two of them",
        "take 4 or 8 warps",
    ),
    Sentence(
        "Triton",
        r"TMEM layout '[^'\n]{0,40}' unsupported for shape|Unsupported TMEM access atom"
        r"|Unpacked is unsupported with TMEM|Failed to lower TMEM load/store"
        r"|splitn with 1 register|able to `tmem\.load` into `tl\.split`"
        r"|tmem_load reduction (?:requires|with)|failed to compute TMEM encoding",
        "TMEM012",
        "no shape of tcgen05.ld or st moves this tile between tensor memory and these registers",
        _TRANSFER,
    ),
    Sentence(
        "Triton",
        r"split offset must be 32-bit aligned in tensor memory",
        "TMEM008",
        "a slice of tensor memory begins inside a column of 32 bits",
        "begin slices at an even column of 16-bit elements, a multiple of 4 of 8-bit ones",
    ),
    Sentence(
        "Triton",
        r"Source layout should be swizzled|The source should not be swizzled|at least 128 contiguous bits per TMEM row"
        r"|Shape \d+x128b requires multicast|failed to find valid tcgen05\.copy layout",
        "TMEM024",
        "tcgen05.cp copies no such tile of shared memory into tensor memory",
        "give the source the layout that the copy reads, 128 bits of a row after the other, and the shape and "
        "multicast of its table",
    ),
    Sentence(
        "Triton",
        r"scales in tensor memory must use #ttng\.tensor_memory_scales_encoding|tensor-memory scale descriptors must",
        "TMEM022",
        "scales lie in tensor memory in another layout than the product reads",
        _SCALES,
    ),
    Sentence(
        "Triton",
        r"Tmem layout must have blockM=128|does not support blockM ?= ?64",
        "TCGEN003",
        "the product has tiles of 128 rows alone here",
        "take a tile of 128 rows for each CTA",
    ),
    Sentence(
        "Triton",
        r"does not support transposed float32 operands",
        "TCGEN007",
        "a tf32 operand is not K-major",
        "lay both operands out K-major: A by rows, B by columns",
    ),
    Sentence(
        "Triton",
        r"WGMMA only allows first operand to be in registers",
        "WGMMA009",
        "B comes from registers; wgmma reads B from shared memory alone",
        "write B to shared memory, or compute the transposed product, whose A it is",
    ),
    Sentence(
        "Triton",
        r"WGMMA result layout must be Hopper NVMMA|unsupported swizzling for provided MMA version",
        "TOOL006",
        "the layout is none of the product's instruction",
        "give the sums an NVMMA layout of version 3 and operands an NVMMAShared one",
    ),
    Sentence(
        "Triton",
        r"unsupported WGMMA A register type (?P<type>\S+)|unsupported type for warpgroup accumulator",
        "WGMMA009",
        "wgmma has no such type of A or of sums: {type}",
        TYPES,
    ),
    Sentence(
        "Triton",
        r"at least 16-byte alignment to be representable in a matrix descriptor",
        "MDESC001",
        "an operand's buffer begins at no multiple of 16 bytes of shared memory",
        "align the buffer to 16 bytes, or to its swizzle's pattern: 256, 512 or 1024",
    ),
    Sentence(
        "Triton",
        r"(?:LHS|RHS) operand's encoding must have twoCTA|returned value's encoding must have twoCTA"
        r"|twoCTA mode expects the first basis|twoCTAs layout requires the first",
        "TMEM015",
        "products of one CTA and of a pair are mixed, or a pair's operand is split along the wrong axis",
        _PAIR,
    ),
    Sentence(
        "Triton",
        r"two_?[cC][tT][aA]s? ?= ?[tT]rue[^\n]{0,80}(?:cga_layout[^\n]{0,12}(?:empty|\[\]|\(\))|num_ctas ?= ?1\b)",
        "TMEM015",
        "the layout is one of a pair of CTAs, and nothing is split between the two",
        "give the layout a cga_layout whose first basis halves the rows, and launch with num_ctas=2",
    ),
    Sentence(
        "Triton",
        r"A-shift can be applied only when matrix A is in tensor memory",
        "TCGEN016",
        "A is shifted and lies in shared memory",
        "write A to tensor memory, or drop the shift",
    ),
    Sentence(
        "LLVM",
        r"invalid (?:input|result type) length \S+ for shape \S+ in tcgen05\.(?:ld|st)",
        "TMEM013",
        "tcgen05.ld or st of this shape moves another number of registers",
        "give as many registers as the shape and its repetitions have",
    ),
    Sentence(
        "MLIR",
        r"unsupported (?:Kind, )?(?:ScaleVecSize and )?BlockScaleFormat attributes? for mma"
        r"|Invalid tcgen05\.mma(?:\.sp)?\.block_scale attributes",
        "TCGEN010",
        "no instruction has this kind with so many elements for each scale of this type",
        "take 32 elements to a scale of ue8m0 for mxf8f6f4 and mxf4, 16 or 32 for mxf4nvf4",
    ),
    Sentence(
        "MLIR",
        r"failed to satisfy constraint: tcgen05 MMA Supported Types",
        "TCGEN001",
        "tcgen05 has no such kind",
        "choose the kind of the operands' types",
    ),
    Sentence(
        "Triton",
        r"Not pipelining TMA load because the per-stage shared-memory allocation size is not a multiple of",
        "SMEM002",
        "a stage is no multiple of 128 bytes, so that the loads are not pipelined",
        "take a block whose bytes are a multiple of 128",
        "warning",
    ),
    Sentence(
        "Triton",
        r"insertion (?:block|point)[^\n]{0,60}(?:cross-CTA mbarrier|tracked mbarrier)|cross-CTA mbarrier init sync"
        r"|mbarrier\.init op but could not find any mbarrier use",
        "PIPE003",
        "no place is found where all CTAs of the cluster see the barriers initialised before any uses them",
        "initialise all barriers at the kernel's beginning, outside of branches and loops",
    ),
    Sentence(
        "Triton",
        r"barrier must have a contiguous shared-memory layout|barrier allocation must be a descriptor of Nxi64",
        "PIPE025",
        "a barrier's memory is no row of 64-bit words",
        "allocate barriers with allocate_mbarrier, or as 64-bit integers",
    ),
    Sentence(
        "Triton",
        r"c_shape must be divisible \[64, 8\]",
        "WGMMA002",
        "the sums' tile is no multiple of 64 rows and 8 columns",
        "take a tile of multiples of 64 rows and 8 columns",
    ),
)

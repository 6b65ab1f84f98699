"""More checks of libraries of kernels behind which a rule of the hardware is.

Sources: `python/CuTeDSL`, `examples/python/CuTeDSL`, `include/cute` and `include/cutlass` of CUTLASS, `src` of
TileLang, `csrc` and `deep_gemm/include` of DeepGEMM, `include` of ThunderKittens, the `triton` package,
`jax/experimental/mosaic/gpu` and `csrc` of FlashInfer, of summer 2026, read through for every message that an
explanation did not understand yet.
"""

from __future__ import annotations

from legalsat.pasted.grammar import Sentence
from legalsat.pasted.tables.host_checks import PAD, SPAN

_K_MAJOR = "lay the operand out K-major: A by rows, B by columns, as a tensor of (N, K)"
_SCALES = "lay the scales out in blocks of 128 rows x 4 columns, one scale for 16 (nvfp4) or 32 (mxfp) elements of K"
_COLUMNS = "allocate a power of two of at least 32 columns, 512 in all, and free them before the next allocation"
_REGISTERS = "take 24 to 256 registers in steps of 8, all warps together no more than the block begins with"
_ARRIVALS = "initialise it with the number of threads, warps or commits that arrive for each phase"
_MASK = "name in the mask CTAs of the cluster alone, and launch the cluster that the multicast is made for"
_WHOLE = "take a tile of whole atoms of the swizzle or no swizzle, and let copy and product share it"

_VECTORS = "copy the slice to a tensor of its own, or pad its rows to a multiple of 16 bytes"

KERNEL_CHECKS = (
    Sentence(
        "nvcc",
        r"Value '(?P<what>(?:compute|sm)_\w{2,8})' is not defined for option 'gpu-(?:architecture|code)'",
        "TOOL004",
        "this toolkit compiles for no {what}",
        "name an architecture that the toolkit and the GPU share, with the suffix that its matrix instructions need",
    ),
    Sentence(
        "CuTe DSL",
        r"the contiguous dimension of [\w/]{1,12} tensors? is not 16 bytes aligned",
        "TMA005",
        "rows of an operand are no multiple of 16 bytes",
        PAD,
    ),
    Sentence(
        "CuTe DSL",
        r"Scale factor data type not supported",
        "TCGEN010",
        "the scales' type does not go with the vector size",
        _SCALES,
    ),
    Sentence(
        "CuTe DSL",
        r"expects the instruction extent in the K-mode to be (?P<k>[\w.]{1,8}), but got (?P<given>[\w.]{1,8})",
        "WGMMA009/TCGEN018",
        "an instruction multiplies {k} elements of K for these types, and {given} are asked",
        "let the tiled product repeat the instruction along K",
    ),
    Sentence(
        "CuTe DSL",
        r"expects num_multicast to be (?P<asked>[^,\n]{1,60}), but got (?P<given>\w{1,8})",
        "PIPE017",
        "the copy is made for {given} CTAs, and its operation for {asked}",
        _MASK,
    ),
    Sentence(
        "CuTe DSL",
        r"expects a multicast mask to be provided via the mcast_mask",
        "PIPE017",
        "a multicast does not say which CTAs it is for",
        _MASK,
    ),
    Sentence(
        "CuTe DSL",
        r"mbarrier_(?:init|arrive):? count must be in \[1, (?P<most>\d{1,9})\],? got (?P<count>-?\d{1,9})",
        "PIPE021",
        "a barrier counts 1 to {most} arrivals, and {count} are given",
        _ARRIVALS,
    ),
    Sentence(
        "CuTe DSL",
        r"[nm]_dim=(?P<given>\d{1,6}) out of range: must be (?P<sizes>a multiple of \d{1,3} in \[\d{1,4}, \d{1,4}\])",
        "TCGEN003/WGMMA008",
        "the instruction descriptor holds {sizes}, and {given} is given",
        "take a tile that the instruction has",
    ),
    Sentence(
        "CuTe DSL",
        r"reg_count must be a multiple of 8, got (?P<given>\d{1,6})|Unsupported number of registers: "
        r"(?P<given_too>\d{1,6})|Negative register budget",
        "TOOL003",
        "setmaxnreg does not take the number of registers that is asked",
        _REGISTERS,
    ),
    Sentence(
        "CuTe DSL",
        r"tcgen05\.(?P<what>ld|st): shape must be one of",
        "TMEM012",
        "tcgen05.{what} has no such shape",
        "take 16x64b, 16x128b, 16x256b, 32x32b or 16x32bx2, with a number of repeats that is a power of two",
    ),
    Sentence(
        "CuTe DSL",
        r"num_columns must be multiple of 32 and power of two",
        "TMEM001",
        "tensor memory is allocated by powers of two of at least 32 columns",
        _COLUMNS,
    ),
    Sentence(
        "CuTe DSL",
        r"total allocated columns must be less than or equal to (?P<most>\d{1,6})",
        "TMEM002",
        "more columns of tensor memory than the {most} of a multiprocessor are allocated",
        _COLUMNS,
    ),
    Sentence(
        "CuTe DSL",
        r"stride=1 index not found, needed for f4 tensor|Cannot find dimension with stride=1",
        "TMA024",
        "no axis of the tensor has stride 1",
        "hand over a tensor whose fastest axis is contiguous, as x.contiguous() has it",
    ),
    Sentence(
        "CuTe DSL",
        r"Expected rank\(global_strides\) to match rank\(global_dims\) - 1",
        "TMA005",
        "a map has a stride for every axis but the fastest",
        "leave out the stride of the fastest axis, and give the others in bytes",
    ),
    Sentence(
        "CuTe DSL",
        r"im2col mode requires 3-\d coordinate elements|coordinates must have 1-\d elements",
        "TMA001",
        "a map has 1 to 5 axes, and 3 to 5 with im2col",
        "merge axes that follow each other",
    ),
    Sentence(
        "CuTe DSL",
        r"tile_shape_mnk\[2\] must be divisible by blk_sf",
        "TCGEN010",
        "K of the tile is no multiple of the scales' blocks",
        _SCALES,
    ),
    Sentence(
        "CUTLASS",
        r"CAN IMPLEMENT: Problem Size doesn't meet the minimum alignment requirements for Scale Factors",
        "TCGEN010",
        "the rows of scales are no whole blocks",
        _SCALES,
    ),
    Sentence(
        "CUTLASS",
        r"CAN IMPLEMENT: Alignment setting is invalid",
        "TMA005",
        "the alignment that the kernel is made for is none that the copy engine takes: 16 bytes or more",
        PAD,
    ),
    Sentence(
        "CUTLASS",
        r"multicast size too large for [A-D] tile",
        "PIPE017",
        "a multicast has more CTAs than the tile has parts to send",
        _MASK,
    ),
    Sentence(
        "CUTLASS",
        r"cudaOccupancyMaxActiveClusters\(\) returned error|ClusterLauncher: init\(kernel\) failed",
        "TOOL008",
        "no cluster of this shape with this much shared memory can run on the GPU",
        "take a smaller cluster (1 x 1 x 1 on sm_120), a smaller tile or fewer stages",
    ),
    Sentence(
        "CuTe",
        r"Majorness of smem doesn't match majorness of gmem",
        "TMA024",
        "the shared tile's fastest axis is not the tensor's",
        "let both be K-major or both MN-major, for a copy does not transpose",
    ),
    Sentence(
        "CuTe",
        r"Register source operand A must have K major layout",
        "WGMMA011",
        "A from registers is K-major, for wgmma does not turn registers",
        _K_MAJOR,
    ),
    Sentence(
        "CuTe",
        r"UMMA expects N_SM == 1 or N_SM == 2|UMMA\.WS expects N_SM == 1",
        "TMEM016",
        "tcgen05 multiplies with one CTA or a pair",
        "take cta_group::1, or cta_group::2 in clusters of pairs",
    ),
    Sentence(
        "CuTe",
        r"smem_box_shape\[i\] ?% ?multicast == 0",
        "PIPE017",
        "the box cannot be cut into a part for each CTA of the multicast",
        "take a box that is a multiple of the CTAs that share it",
    ),
    Sentence(
        "DeepGEMM",
        r"32 <= kNumTmemCols and kNumTmemCols <= 512|(?:kNumTmemCols|kNumCols) <= 512",
        "TMEM002",
        "the tile's accumulators and scales take more columns of tensor memory than there are",
        _COLUMNS,
    ),
    Sentence(
        "DeepGEMM",
        r"UMMA_M == 64 and UMMA_N % 8 == 0",
        "TCGEN004",
        "the tile is none that tcgen05 multiplies: 64 rows with columns in steps of 8, 128 or 256 in steps of 16",
        "take a tile of such rows and columns",
    ),
    Sentence(
        "DeepGEMM",
        r"kSwizzle\w*(?:Mode)? == BLOCK_[KN] ?\* ?sizeof\(\w+\)|BLOCK_[KN] ?\* ?sizeof\(\w+\) ?(?:==|% ?) ?kSwizzle\w+",
        "TMA009",
        "the box's rows are not the swizzle's width",
        SPAN,
    ),
    Sentence(
        "DeepGEMM",
        r"SMEM_\w+_SIZE % 1024 == 0|kNum\w+BytesPerStage % kSwizzleAlignment == 0",
        "SMEM002",
        "a stage is no multiple of 1024 bytes, at which the swizzle's pattern repeats",
        "round the stage's bytes up to 1024",
    ),
    Sentence(
        "DeepGEMM",
        r"kNumDispatchRegisters ?\* ?kNumDispatchThreads",
        "TOOL003",
        "the warps' registers are more than the 65536 of a multiprocessor",
        _REGISTERS,
    ),
    Sentence(
        "DeepGEMM",
        r"BLOCK_[MN] % UMMA_STEP_N == 0|BLOCK_K % UMMA_K == 0|kHeadDim % WGMMA::K == 0",
        "TCGEN018/WGMMA009",
        "the tile is no whole number of instructions",
        "take a tile that the instruction's rows, columns and depth divide",
    ),
    Sentence(
        "DeepGEMM",
        r"(?:sf|t)\.stride\(-?\d\) == (?:sf|t)\.size\(-\d\)",
        "COPY010",
        "the tensor's strides are not those of a dense one",
        "hand over a contiguous tensor, or the strides that it has",
    ),
    Sentence(
        "ThunderKittens",
        r"_swizzle_bytes == 0 .{1,4}_swizzle_bytes == 32",
        "TMA011",
        "the tile's swizzle is none of 32, 64 and 128 bytes",
        _WHOLE,
    ),
    Sentence(
        "ThunderKittens",
        r"Tensor memory scale tile must always be 128x16",
        "TMEM023",
        "scales lie in tensor memory as 128 lanes of 16 bytes",
        _SCALES,
    ),
    Sentence(
        "Triton",
        r"multicast_cta must be (?P<asked><= num_ctas - 1|positive)[^,\n]{0,20}, got (?P<given>-?\d{1,6})",
        "PIPE017",
        "a multicast names CTA {given}, which the cluster has not",
        _MASK,
    ),
    Sentence(
        "Triton",
        r"pixel_box_(?:lower|upper)_corner\[\d\] must be in \[(?P<sizes>-?\d{1,6}, -?\d{1,6})\], got "
        r"(?P<given>-?\d{1,9})",
        "TMA043",
        "a corner of the pixel box is {given}, outside of {sizes}",
        "take a corner that the bits of this rank hold",
    ),
    Sentence(
        "TileLang",
        r"cp\.async(?: transfer)? (?:count|byte width|bytes?)[^\n]{0,40}(?:must|requires|got)|ptx_cp_async requires a "
        r"final PTX byte width",
        "VEC001",
        "a cp.async moves 4, 8 or 16 bytes",
        "copy whole vectors of 4, 8 or 16 bytes, or by ordinary loads",
    ),
    Sentence(
        "TileLang",
        r"Check failed: \(?stride == 4 .{1,4}stride ?% ?8 == 0",
        "TILE003",
        "the tile's rows are no whole granules of a swizzle: 4 or a multiple of 8 elements",
        _WHOLE,
    ),
    Sentence(
        "TileLang",
        r"Not a canonical (?P<what>GMMA|UMMA)_(?:MN|K) layout: (?P<where>[^\n]{1,60})",
        "MDESC011",
        "no {what} descriptor describes the tile's layout ({where})",
        _WHOLE,
    ),
    Sentence(
        "TileLang",
        r"tl\.deallocate_tmem expects a TMEM buffer|TMEM buffer for tl\.deallocate_tmem is not tracked",
        "TMEM005",
        "tensor memory is freed that was not allocated there",
        "free the buffer that alloc_tmem gave, in the same or an outer block",
    ),
    Sentence(
        "FlashInfer",
        r"(?P<name>\w{1,40})(?:\.stride\((?P<axis>-?\d)\)| stride (?P<axis_too>\d)) must be 1\b",
        "TMA024",
        "axis {axis} of {name} is not contiguous",
        "hand over {name}.contiguous(), or a view whose last axis has stride 1",
    ),
    Sentence(
        "FlashInfer",
        r"(?P<name>\w{1,40})(?:\.stride\((?P<axis>-?\d)\)| stride (?P<axis_too>\d)) must (?:equal|be 0)\b",
        "COPY010",
        "axis {axis} of {name} has another stride than the kernel takes for granted",
        "hand over a tensor that is laid out as the kernel reads it, {name}.contiguous() for a dense one",
    ),
    Sentence(
        "FlashInfer",
        r"TMA descriptor for '(?P<name>\w{1,40})' resolved a non-positive global dim",
        "TMA002",
        "an extent of {name} is 0, which no map has",
        "skip the launch where a tensor is empty",
    ),
    Sentence(
        "FlashInfer",
        r"does not meet minimum alignment requirements for (?:\w{1,8} )?MOE GEMM",
        "TMA005",
        "rows of the experts' weights or activations are no multiple of 16 bytes, or of the scales' blocks",
        PAD,
    ),
    Sentence(
        "Mosaic GPU",
        r"Swizzle=(?P<swizzle>\d{1,4}) is too big for MMA with M=64",
        "TCGEN008",
        "an atom of the {swizzle}-byte swizzle is wider than the product's columns",
        "take a smaller swizzle for both the copy and the product",
    ),
    Sentence(
        "Mosaic GPU",
        r"[AB] scale shape(?: mismatch|\[0\] must be)|is not divisible by [AB] scale second dimension",
        "TCGEN010",
        "the scales are not of the shape that the product's blocks have",
        _SCALES,
    ),
    Sentence(
        "Mosaic GPU",
        r"Only (?P<types>[\w, ]{4,60}) are supported for A in registers",
        "WGMMA011",
        "wgmma takes A of {types} from registers, and other types from shared memory alone",
        "put A into shared memory",
    ),
    Sentence(
        "Mosaic GPU",
        r"Can't make a multicast reference into a peer reference|No cluster axes found|Unknown cluster axis",
        "PIPE017",
        "a multicast or a remote reference names no axis of the cluster",
        _MASK,
    ),
    Sentence(
        "causal_conv1d",
        r"requires strides \([^\n]{1,60}\) to be multiples of (?P<elements>\d{1,3})",
        "VEC002",
        "strides are no multiple of {elements} elements, which the kernel reads as vectors of 16 bytes",
        _VECTORS,
    ),
    Sentence(
        "xFormers",
        r"attn_bias is not correctly aligned|attn_bias\.stride\([-\d]{1,3}\) % (?P<elements>\d{1,3}) != 0"
        r"|[Mm]ask\w* (?:is )?not (?:correctly )?aligned",
        "VEC002",
        "rows of the attention's bias or mask are no multiple of 16 bytes, and are read as vectors",
        "allocate the mask with rows of a multiple of 8 elements of 16 bits, and slice it to the keys that there are",
    ),
)

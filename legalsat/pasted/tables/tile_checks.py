"""What TileLang, TVM, ThunderKittens, DeepGEMM, nvFuser and Transformer Engine check of tiles, copies and products.

Sources: the checks in `src` and `tilelang` of TileLang, `include` of ThunderKittens, `csrc` and `deep_gemm` of
DeepGEMM, `csrc` of nvFuser and `transformer_engine/common`, of summer 2026.
"""

from __future__ import annotations

from legalsat.pasted.grammar import Sentence
from legalsat.pasted.tables.host_checks import CONTIGUOUS, PAD, SPAN, STEP, WIDER_BOX

_ATOMS = "build the tile of whole atoms of the swizzle, 8 rows of its bytes, and let the copy and the product share it"
_TMEM = "take fewer or narrower accumulators, 512 columns in all, or free them before the next allocation"
_K_MAJOR = "lay the operand out K-major: A by rows, B by columns, as a tensor of (N, K)"

TILE_CHECKS = (
    Sentence(
        "ThunderKittens",
        r"smem_stride\[(?P<axis>[0-4])\] (?:<= 8|== 1)",
        "TMA007",
        "element stride of dimension {axis} is outside 1 to 8",
        STEP,
    ),
    Sentence(
        "ThunderKittens",
        r"smem_shape\[0\] ?\* ?sizeof\(dtype\) <= ST::swizzle_bytes",
        "TMA009",
        "the box's innermost extent is wider than the tile's swizzle",
        SPAN,
    ),
    Sentence(
        "ThunderKittens",
        r"\(smem_shape\[0\] ?\* ?sizeof\(dtype\)\) % 16 == 0",
        "TMA008",
        "the box's innermost extent is no multiple of 16 bytes",
        WIDER_BOX,
    ),
    Sentence(
        "ThunderKittens",
        r"TMA does not support async (?P<what>[\w/]+) reductions for (?P<type>\w+) types",
        "COPY013",
        "the copy engine does not reduce {type} by {what}",
        "reduce 32- or 64-bit integers, or add f16, bf16, f32; others by threads",
    ),
    Sentence(
        "ThunderKittens",
        r"Requested a TMA descriptor for a type not initialized in the global layout",
        "TOOL010",
        "the global layout (gl) makes maps for the tiles of its template alone, and this tile is none of them",
        "name the shared tile's type in the gl's template arguments",
    ),
    Sentence(
        "ThunderKittens",
        r"n_reg must be a multiple of 8",
        "TOOL003",
        "a number of registers is no multiple of 8",
        "take 24 to 256 registers in steps of 8 for each warpgroup",
    ),
    Sentence(
        "ThunderKittens",
        r"(?P<what>Warp|Warpgroup) \(GROUP_WARPS=\d\) function called from a non",
        "TOOL007",
        "an operation of a whole {what} is called from a group of another size",
        "call it as warpgroup:: from 4 warps, or as warp:: from one",
    ),
    Sentence(
        "DeepGEMM",
        r"get_major_type_ab\((?P<what>\w+)\) == (?:cute::)?UMMA::Major::K",
        "WGMMA010/TCGEN007",
        "operand {what} is not K-major, and its type is only multiplied K-major here",
        _K_MAJOR,
    ),
    Sentence(
        "DeepGEMM",
        r"fp4_unpacked_smem or gmem_\w+ % 128 == 0",
        "TMA030",
        "packed elements of 4 bits do not fill a multiple of 128 along the innermost axis",
        "pad the innermost axis to a multiple of 128 elements",
    ),
    Sentence(
        "DeepGEMM",
        r"sf\.stride\(-?1\) == get_tma_aligned_size|stride\(-2\) == get_tma_aligned_size",
        "TMA005",
        "the scales' rows are not padded to a multiple of 16 bytes",
        "make the scales with get_mn_major_tma_aligned_tensor (get_col_major_tma_aligned_tensor before)",
    ),
    Sentence(
        "DeepGEMM",
        r"Math warp groups exceed TMEM stages|Invalid tensor memory columns|Too many tensor memory",
        "TMEM002",
        "the sums and scales need more columns of tensor memory than there are, or no size that is allocated",
        _TMEM,
    ),
    Sentence(
        "TileLang",
        r"allocates (?P<needed>\d+) TMEM columns across [^\n]{0,80}but a CTA only has (?P<limit>\d+)",
        "TMEM002",
        "the block needs {needed} columns of tensor memory, more than {limit}",
        _TMEM,
    ),
    Sentence(
        "TileLang",
        r"innermost box dim of a BulkCopy is not the swizzle|inner_box_dim: ?\d* is not divisible",
        "TMA009",
        "the box's innermost extent is not the swizzle's",
        SPAN,
    ),
    Sentence(
        "TileLang",
        r"BulkCopy1D requires total_bytes to be 16-byte aligned, but got (?P<bytes>\d+)",
        "BULK002",
        "a bulk copy of {bytes} bytes, no multiple of 16",
        "copy whole multiples of 16 bytes, or by threads (disable_tma)",
    ),
    Sentence(
        "TileLang",
        r"is_one\(desc\.global_stride\[0\]\)|requires unit innermost global stride, got (?P<given>\d+)",
        "TMA024",
        "the innermost axis of the copied region is not the contiguous one",
        CONTIGUOUS,
    ),
    Sentence(
        "TileLang",
        r"Cannot detect TMA layout|TMA atomic-add layout is not encodable",
        "COPY012",
        "the shared buffer's layout is none that a box of a tensor map is written in",
        "annotate the buffer with a swizzled layout of 32, 64 or 128 bytes, or copy by threads (disable_tma)",
    ),
    Sentence(
        "TileLang",
        r"Cannot find matched (?P<what>WGMMA|TCGEN5MMA|MMA) configurations? for|(?P<what_too>wgmma|tcgen05mma)_\w*: "
        r"unsupported (?:configuration|accumulator type)",
        "WGMMA009/TCGEN001",
        "{what} has no instruction of these types and shape",
        "take a pair of types and a shape of the instruction's table, and sums of f32, or f16 of f16 operands",
    ),
    Sentence(
        "TileLang",
        r"(?:WGMMA|UMMA) (?:MN-major )?operand is not a canonical|Not a canonical [GU]MMA_\w+ layout"
        r"|(?:WGMMA|UMMA|TMEM) (?:operand )?layout is not decodable",
        "MDESC004",
        "the tile in shared memory lies in none of the layouts that the matrix unit reads",
        _ATOMS,
    ),
    Sentence(
        "TileLang",
        r"(?:Tensor memory copy|TCGEN5MMA|Block-scaled GEMM|Warp-Group MMA) requires (?:loop |thread )?"
        r"(?:thread bounds|thread_bounds|128\*k threads)[^\n]{0,80}",
        "TOOL007",
        "the threads that take part are no whole warps or warpgroups",
        "launch a multiple of 128 threads, and begin the roles at multiples of 32 or 128",
    ),
    Sentence(
        "TileLang",
        r"TMEM (?:address|origin|copy) must start (?:on|at) an? (?:b32|even)",
        "TMEM008",
        "a slice of tensor memory begins inside a column of 32 bits",
        "begin slices at an even column of 16-bit elements, a multiple of 4 of 8-bit ones",
    ),
    Sentence(
        "TileLang",
        r"T\.(?:\w+_)?gemm\w* (?:2CTA )?(?:[MNK] )?shape check failed: ?(?P<said>[^\n]{0,120})",
        "TOOL010",
        "the operands of a product do not agree in their extents: {said}",
        "give A (M, K) and B (K, N), or their transposes with transpose_A and transpose_B",
    ),
    Sentence(
        "nvFuser",
        r"(?:the )?first element of elementStrides must be 1|first element of elementStrides mu",
        "TMA007",
        "the innermost axis of the box has a step, which the copy engine ignores",
        STEP,
    ),
    Sentence(
        "nvFuser",
        r"TMem load/store: Warps are not accessing the correct sub-partition",
        "TMEM010",
        "a warp reads or writes the lanes of tensor memory of another warp",
        "let warp w access the lanes of 32 * (w % 4) alone",
    ),
    Sentence(
        "nvFuser",
        r"TMem load/store must be warp-collective",
        "TMEM014",
        "tensor memory is accessed by less than a whole warp",
        "take blocks of whole warps, four for all lanes",
    ),
    Sentence(
        "nvFuser",
        r"TIDx must be exactly a warp group|Expected the number of warp groups to be two",
        "TOOL007",
        "the threads that multiply form no warpgroups",
        "take 128 threads along x for each warpgroup",
    ),
    Sentence(
        "Transformer Engine",
        r"must be a multiple of TMA_GMEM_ALIGNMENT|bit data type, expected multiple of (?P<granule>\d+)",
        "TMA005",
        "the rows are no multiple of 16 bytes",
        PAD,
    ),
    Sentence(
        "Transformer Engine",
        r"It requires aligned smem pointer",
        "COPY004",
        "the shared memory of a copy does not begin at a multiple of 128 bytes",
        "begin each buffer of a box at a multiple of 128 bytes of shared memory",
    ),
    Sentence(
        "Transformer Engine",
        r"(?:GEMM|lhs|rhs)[^\n]{0,60}scales? must be (?:pre-)?swizzled|must be pre-swizzled for"
        r"|[Ee]xpected [^\n]{0,40}(?:with|to have) scales in GEMM swizzled format",
        "TOOL006",
        "scales lie by rows, and the product reads them in blocks of 128 x 4",
        "swizzle the scales once before the product (nvte_swizzle_scaling_factors)",
    ),
    Sentence(
        "Transformer Engine",
        r"product of all dimensions except the last to be divisible by 8 and the last dimension to be divisible by "
        r"(?P<granule>\d+)",
        "TMA005",
        "rows are no multiple of 16 bytes, 16 elements of 8 bits, or there are no multiple of 8 of them",
        "pad tokens to a multiple of 8 and features to a multiple of {granule}",
    ),
    Sentence(
        "TVM",
        r"Failed to set the allowed dynamic shared memory size to (?P<needed>\d+)"
        r"|Failed to set max dynamic shared memory size to (?P<needed_too>\d+)",
        "SMEM001",
        "the kernel asks for {needed} bytes of shared memory, more than a block of this GPU has",
        "take a smaller tile or fewer stages: 227 KB is the limit on sm_90 and sm_100, 99 KB on sm_86, sm_89, sm_120",
    ),
)

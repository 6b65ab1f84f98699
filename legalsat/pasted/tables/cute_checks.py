"""What CUTLASS 4's collectives, CuTe's traits and the CuTe DSL check, beside the sentences in `compilers`.

Sources: static assertions and traces of `include/cute` and `include/cutlass`, and exceptions and diagnostics of
`python/CuTeDSL`, of CUTLASS in August 2026.
"""

from __future__ import annotations

from legalsat.pasted.grammar import Sentence
from legalsat.pasted.tables.host_checks import PAD
from legalsat.pasted.tables.ptxas import ARCHITECTURE

_STAGES = (
    "take a smaller tile or epilogue tile, or fewer operands in the epilogue: StageCountAutoCarveout takes as many "
    "stages as fit beside them, and the pipeline needs two"
)
_ELECT = "let one elected thread do it (elect.sync in a warp that is whole), or count every thread that arrives"

CUTE_CHECKS = (
    Sentence(
        "CUTLASS",
        r"Specialization requires Stages (?:\w+ )?set to value (?P<least>\d+) or more"
        r"|mainloop must have at least (?P<least_too>\d+) stages|(?:StagesC|StagesD) must be >= 1",
        "SMEM001",
        "fewer stages fit shared memory than the pipeline needs: what the tile and the epilogue leave is too little",
        _STAGES,
    ),
    Sentence(
        "CUTLASS",
        r"[AB] shape and/or strides have alignment issue",
        "TMA005",
        "channels or a stride of an operand are no multiple of 16 bytes",
        PAD,
    ),
    Sentence(
        "CuTe",
        r"threadIdx\.x\) / 32\) % 4\) == \(\(\(tmem_addr >> 16\) / 32\) % 4",
        "TMEM010",
        "a warp reads or writes the lanes of tensor memory of another warp",
        "let warp w access the lanes of 32 * (w % 4) alone: begin the epilogue's warps at a multiple of 4",
    ),
    Sentence(
        "CuTe",
        r"(?:GMMA|UMMA) Descriptors can only be constructed on rank-2 tensors|Unrecognized MajorMode",
        "MDESC004",
        "a matrix descriptor is asked of a tensor that is no tile of one operand",
        "partition the tile by the product first (partition_fragment_A, make_fragment_A), without its stages",
    ),
    Sentence(
        "CuTe",
        r"Expected dst to have the specific TMEM layout|Expected src to have the specific TMEM layout"
        r"|Must pass 1x tmem copy operator|No TMEM_(?:STORE|LOAD) matching",
        "TMEM012",
        "the copy's instruction moves no such tile of tensor memory",
        "take the copy of make_tmem_copy for the sums' own tile, whose lanes are those of its warps",
    ),
    Sentence(
        "CUTLASS",
        r"Each (?:scale|zero) stage must be 128B aligned",
        "SMEM002",
        "a stage of scales is no multiple of 128 bytes",
        "take a tile whose scales of a stage fill a multiple of 128 bytes",
    ),
    Sentence(
        "CUTLASS",
        r"CUTLASS_SM90_CLUSTER_LAUNCH_ENABLED not defined",
        "TOOL004",
        "the host code was compiled without launches of clusters: an old toolkit, or no target of sm_90 or later",
        ARCHITECTURE,
    ),
    Sentence(
        "CUTLASS",
        r"check_cluster_dims\(\) failed|Launch (?:fallback_)?cluster must have exactly 3 dimensions",
        "TOOL008",
        "the cluster's shape is none that the launch takes",
        "take a cluster of at most 8 CTAs that divides the grid, written as three numbers",
    ),
    Sentence(
        "CuTe",
        r"static assertion failed with \"Divisibility Condition\"(?:[\s\S]{0,600}?shape_div\([^\n]{0,200}?"
        r"IntTupleA ?= ?cute::_(?P<given>\d+), IntTupleB ?= ?cute::_(?P<needed>\d+))?",
        "WGMMA004/TILE002",
        "an extent of {given} is divided into parts of {needed}, and neither is a multiple of the other",
        "take a tile that the epilogue's or the copy's part divides, such as a multiple of 64 columns",
    ),
    Sentence(
        "CuTe",
        r"active CTAs in TMA must divide domain size",
        "COPY007",
        "the tile is not split evenly among the CTAs that multicast it",
        "take a tile that the cluster's extent along that axis divides",
    ),
    Sentence(
        "CUTLASS",
        r"Tiled MmA does not match expected warp groups|size\(TiledMma\{\}\) == \d+",
        "TOOL007",
        "the product's warpgroups are not those of the kernel's schedule",
        "take a tile of 128 rows or more for a cooperative schedule, or a ping-pong one for 64",
    ),
    Sentence(
        "CuTe",
        r"Ambiguous scatter detected in copy",
        "VEC005",
        "several elements are copied to one place",
        "give the destination no axis of stride 0",
    ),
    Sentence(
        "CuTe DSL",
        r"(?:v\d\.b32 )?requires (?P<bytes>\d+)-byte aligned pointer, but \w+ has alignment (?P<got>\d+)"
        r"|is not a multiple of assumed_align=(?P<got_too>\d+)",
        "VEC002",
        "an access of {bytes} bytes is made at a pointer that is known to be aligned to {got} bytes",
        "allocate it with that alignment, state what is known (assumed_align), or take a narrower access",
    ),
    Sentence(
        "CuTe DSL",
        r"expects the 'sf_vec_size' Op parameter to be (?P<sizes>\d+(?: or \d+)?)"
        r"|expects the scale factor vector size to be (?P<sizes_too>\d+ or \d+)"
        r"|[Uu]nsupported sf_vec_size: \d+|sf_vec_size must be 16 or 32",
        "TCGEN010",
        "so many elements per scale do not exist for these types: {sizes}",
        "take 32 elements per scale for 8-bit floats, 16 or 32 for 4-bit ones",
    ),
    Sentence(
        "CuTe DSL",
        r"Expected affine layout for [^\n]{0,80} operand [AB], but got composed layout",
        "WGMMA004",
        "the swizzle is part of the operand's layout, and the instruction asks for it in the pointer",
        "make the tensor of recast_ptr(ptr, swizzle) and the layout without the swizzle",
    ),
    Sentence(
        "CuTe DSL",
        r"MbarrierArriveNeedsElect|MbarrierCountMismatch",
        "PIPE005",
        "more or fewer threads arrive at a barrier than it counts",
        _ELECT,
    ),
    Sentence(
        "CuTe DSL",
        r"ExpectTxNeedsCompletion|Cta2TmaMulticastMayHang",
        "PIPE006",
        "a barrier is told bytes that no copy brings to it",
        "expect the bytes of the copies that complete at that barrier, of both CTAs at the leader's for a pair",
    ),
    Sentence(
        "CuTe DSL",
        r"Tcgen05LdNeedsCommit|Tcgen05LdMissingAfterFence",
        "PIPE019",
        "tensor memory is read before the products that write it are complete",
        "commit the products to a barrier, wait for it, and execute tcgen05.fence::after_thread_sync before tcgen05.ld",
    ),
    Sentence(
        "CuTe DSL",
        r"Tcgen05CollectiveNeedsFullWarp|PartialWarpElectSync|NestedMultiLaneElectSync",
        "TMEM014",
        "an instruction of a whole warp is executed by a part of it",
        "execute it outside of branches that lanes take differently, and elect one lane only inside",
    ),
    Sentence(
        "CuTe DSL",
        r"Tcgen05CommitNeedsElect",
        "PIPE005",
        "every lane commits, so that the barrier counts more arrivals than it was initialised with",
        _ELECT,
    ),
    Sentence(
        "CuTe DSL",
        r"PreSignalParityConflict",
        "PIPE007",
        "a wait has the parity of a phase that was already signalled before the loop",
        "begin the producer's waits with the parity 1 of a barrier that is fresh, or arrive at it first, not both",
    ),
    Sentence(
        "CuTe DSL",
        r"Unsupported GPU architecture '(?P<what>\w+)'\. This kernel is only compatible with: (?P<target>[\w, ]{1,60})",
        "TOOL004",
        "the kernel is for {target}, and is compiled for {what}",
        "set CUTE_DSL_ARCH to the GPU with its suffix, or choose a kernel for the GPU that is there",
    ),
)

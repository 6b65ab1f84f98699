"""What compilers refuse in tiles, layouts and operands before anything runs: static assertions and verifiers.

Sources: the static assertions of CUTLASS 4.2's headers, the verifiers in Triton 3.6's library, and public threads
about TileLang and the CuTe DSL.
"""

from __future__ import annotations

from legalsat.pasted.grammar import Sentence
from legalsat.pasted.tables.ptxas import ARCHITECTURE, TYPES

_SMALLER = "take a smaller tile, fewer stages or a narrower accumulator, so that the block fits"
_CANONICAL = "build the layout of a swizzle's atoms, such as 8 rows of 128 bytes with swizzle 128B, K-major or MN-major"
_ROWS = "take a tile whose rows are a multiple of 64 for each warpgroup, or mma of warps for fewer rows"
_COLUMNS = "take a number of columns that the instruction has: a multiple of 8 up to 256"
_K_MAJOR = "lay the operand out K-major; only 16-bit types are read with M or N contiguous by wgmma"
_TMEM = "take fewer or narrower accumulators, 512 columns in all, or free them before the next allocation"
_GATHER = (
    "give a block of 1 row, at least 8 row indices, and columns of at least 32 bytes that begin at a multiple of 16 "
    "bytes; or load without the gather"
)
_LAYOUTS = (
    "give every user of the buffer the layout that the matrix unit or the tensor map needs, or a buffer of its own"
)
_WARPS = "take a multiple of 4 warps, 128 threads, for each group that multiplies: 2 groups if it is cooperative"
_SCALED = (
    "take 16 or 32 elements per scale, as the kind has, and scales of its type, K-major in whole blocks of 128 x 4"
)

COMPILERS = (
    Sentence(
        "CuTe",
        r"Could not find a common tile-gmem vectorization",
        "TMA024",
        "the tile and global memory share no contiguous axis: the tile leaves out the axis of stride 1",
        "let the tile span the tensor's axis of stride 1, and give the shared layout the same major order",
    ),
    Sentence(
        "CuTe",
        r"TMA requires CTA_Tile and SLayout top-level (?:size|shape) equivalence",
        "COPY007",
        "the shared layout has another size than the tile that the map copies",
        "give the shared layout exactly the tile's extents, without its stages",
    ),
    Sentence(
        "CuTe",
        r"Bulk Copy requires copy vector size align to 16B",
        "BULK002",
        "a bulk copy's size is no multiple of 16 bytes",
        "copy whole multiples of 16 bytes, or without the bulk copy",
    ),
    Sentence(
        "CuTe",
        r"Unsupported layout swizzle|Unsupported pair of SmemSwizzleBits|Expected 16B swizzle base for |B base swizzle"
        r"|SWIZZLE_128B_BASE32B is invalid for Major-K",
        "MDESC003",
        "the layout's swizzle is none that the matrix unit and the copy engine know",
        "take Swizzle<1,4,3>, <2,4,3> or <3,4,3>: 32, 64 or 128 bytes in atoms of 16 bytes",
    ),
    Sentence(
        "CuTe",
        r"Unknown TMA Format",
        "TMA010",
        "no tensor map has the element type",
        "view the elements as an unsigned integer of the same size",
    ),
    Sentence(
        "CUTLASS",
        r"No eligible GMMA operator for request",
        "WGMMA009",
        "wgmma has no instruction of these types, shape and majors",
        TYPES,
    ),
    Sentence("CUTLASS", r"Tile_M must be a multiple of 64", "WGMMA002", "the tile's rows are no multiple of 64", _ROWS),
    Sentence(
        "CUTLASS", r"Tile_N must be a multiple of 8", "WGMMA008", "the tile's columns are no multiple of 8", _COLUMNS
    ),
    Sentence(
        "CUTLASS",
        r"Tile_K must be a multiple of (?P<k>\d+)",
        "WGMMA009",
        "the tile's depth is no multiple of {k} elements, 32 bytes, that one instruction takes",
        "take a tile along K that is a multiple of {k} elements",
    ),
    Sentence(
        "CUTLASS",
        r"Register source A operand GMMAs must have K-major A",
        "WGMMA011",
        "A comes from registers and is not K-major",
        _K_MAJOR,
    ),
    Sentence(
        "CUTLASS",
        r"Mixed input GEMM does not support MN major|Only K major inputs are supported"
        r"|only supports RowMajor A, and ColMajorB|Only MMA\.MXF8F6F4 supports non-K major"
        r"|Layout[AB] must be K major|This MMA does not support transpose"
        r"|MMAv5 with kind=mxf4\w* does not support transpose",
        "TCGEN007",
        "an operand of a narrow type is not K-major",
        "lay both operands out K-major: A by rows, B by columns",
    ),
    Sentence(
        "CUTLASS",
        r"A from TMEM can't be transposed",
        "TCGEN009",
        "A lies in tensor memory and is transposed",
        "write A to tensor memory row by row, or keep it in shared memory",
    ),
    Sentence(
        "CUTLASS",
        r"(?P<what>\w*(?:MMA|UTCMMA)\w*(?: \(with \.ws\))?) N-mode size should be "
        r"(?P<sizes>[\d or,]*(?:a multiple of \d+ between \d+ and \d+)?)",
        "TCGEN004",
        "{what} has no tile of so many columns; it has {sizes}",
        "take columns that are {sizes}",
    ),
    Sentence(
        "CUTLASS",
        r"supports (?:types with leq )?\d+bit types",
        "TCGEN001",
        "the instruction's kind does not multiply these types",
        "choose the kind of the operands' types",
    ),
    Sentence(
        "CUTLASS",
        r"result type can only be int32_t",
        "TCGEN002",
        "sums of 8-bit integers are not int32",
        "take int32 accumulators",
    ),
    Sentence(
        "CUTLASS",
        r"Vector size can only be (?P<sizes>[^\n\"]{1,60})",
        "TCGEN010",
        "so many elements per scale do not exist: {sizes}",
        _SCALED,
    ),
    Sentence(
        "CUTLASS",
        r"Not enough SMEM or TMEM capacity|S(?:MEM|mem) usage (?:exceeded capacity|is too high)",
        "SMEM001",
        "a block's buffers need more shared memory than there is",
        _SMALLER,
    ),
    Sentence(
        "CUTLASS",
        r"SmemLayoutAtom\w? must (?:evenly divide|be rank 2)|BLK_(?:MN0|K0) must be a multiple of",
        "WGMMA004",
        "the tile is no multiple of the atom of its shared layout",
        "take a tile that whole atoms fill, or an atom of a narrower swizzle",
    ),
    Sentence(
        "CUTLASS",
        r"tensor coordinate offset values don't meet requirements for TMA LOAD IM2COL"
        r"|Padding values don't meet requirements for TMA LOAD IM2COL",
        "TMA043",
        "paddings or offsets of the filter are outside what an im2col map can say",
        "take smaller paddings and filters: corners of -32768 to 32767 for one spatial axis, -128 to 127 for two, "
        "-16 to 15 for three",
    ),
    Sentence(
        "Triton",
        r"element type combination exists only for untransposed operands",
        "WGMMA010",
        "an operand is not K-major, and its type is only read K-major",
        _K_MAJOR,
    ),
    Sentence(
        "Triton",
        r"hopperMma\w*[^`]{0,200}Assertion `n ==",
        "WGMMA008",
        "the columns that are left to each warpgroup are none of the instruction's",
        "take fewer warps or more columns: each group of 4 warps multiplies at least 64 rows by 8 columns of its own",
    ),
    Sentence(
        "Mosaic GPU",
        r"Tiling \(\(64, ?\d+\)[^\n]{0,80} does not apply to shape",
        "WGMMA002",
        "the rows are no multiple of 64, or the columns none of 8, as a layout of wgmma has them",
        _ROWS,
    ),
    Sentence(
        "Mosaic GPU",
        r"Tiling \(\(128, ?\d+\)[^\n]{0,80} does not apply to shape",
        "TCGEN003",
        "the rows are no multiple of 128, or the columns none of 8, as tensor memory has them",
        "take 128 rows for each block of sums, or a layout of 64",
    ),
    Sentence(
        "Triton",
        r"WGMMA result M dimension must be divisible by 64",
        "WGMMA002",
        "the result's rows are no multiple of 64",
        _ROWS,
    ),
    Sentence(
        "Triton",
        r"WGMMA result N dimension must be divisible by 8",
        "WGMMA008",
        "the result's columns are no multiple of 8",
        _COLUMNS,
    ),
    Sentence(
        "Triton",
        r"WGMMA [AB] operand must have NVMMA shared|(?:LHS|RHS) operand must have a NVMMAShared",
        "WGMMA004",
        "an operand's buffer has no layout that the matrix unit reads",
        _CANONICAL,
    ),
    Sentence(
        "Triton",
        r"failed to find valid (?P<unit>wgmma|tcgen05\.mma|tcgen05\.copy) layout",
        "MDESC004",
        "the tile in shared memory lies in none of the layouts that {unit} reads",
        _CANONICAL,
    ),
    Sentence(
        "Triton",
        r"tensor descriptor block shape must have at least (?P<least>\d+) columns, but got (?P<got>\d+)",
        "TMA008",
        "the block has {got} columns, less than {least}, 32 bytes",
        "take a block of at least {least} columns in the last dimension",
    ),
    Sentence(
        "Triton",
        r"descriptor (?P<what>gather|scatter) of (?P<type>\w+) must have at least (?P<least>\d+) columns, "
        r"but got (?P<got>\d+)",
        "TOOL005",
        "{what} of {type} has {got} columns, less than {least}",
        _GATHER,
    ),
    Sentence(
        "Triton",
        r"descriptor (?P<what>gather|scatter) must have at least (?P<least>\d+) rows, but got "
        r"[^\n]{0,12}?(?P<got>\d+)",
        "TOOL005",
        "{what} of {got} rows, less than {least}",
        _GATHER,
    ),
    Sentence(
        "Triton",
        r"descriptor block must have (?:exactly )?1 row, but got (?P<got>[^\n]{1,40})",
        "TOOL005",
        "a gather's block has more than 1 row: {got}",
        _GATHER,
    ),
    Sentence(
        "Triton",
        r"descriptor (?:gather|scatter) only supports 2D|(?:Gather|Scatter)4 mode expects 5 coordinates"
        r"|x offsets must (?:be 1D|have dtype)",
        "TOOL005",
        "rows are gathered from other than a matrix",
        _GATHER,
    ),
    Sentence(
        "Triton",
        r"is too small for the swizzle byte size|Expected block_shape\[-1\] to be at least",
        "TMA009",
        "the block's innermost extent is less than the layout's swizzle",
        "take a narrower swizzle, or a block of at least the swizzle's bytes in the last dimension",
    ),
    Sentence(
        "Triton",
        r"TMA descriptor layout must (?:match shared layout|not be transposed)"
        r"|TMA descriptor must have NVMMA shared layout|TMA shared memory and layout ranks must match",
        "COPY012",
        "the descriptor's layout and the buffer's differ",
        _LAYOUTS,
    ),
    Sentence(
        "Triton",
        r"TMA dtype cannot be greater than 32 bits|tensor descriptor dtype must be 8, 16, or 32 bits",
        "TMA010",
        "the descriptor's elements are wider than Triton takes",
        "view 64-bit elements as twice as many of 32 bits",
    ),
    Sentence(
        "Triton",
        r"fp4 ?_?[Pp]added[^\n]{0,40}strides[^\n]{0,20}32[- ]byte",
        "TMA032",
        "strides of 4-bit elements padded to bytes are no multiple of 32 bytes",
        "pad every stride to a multiple of 32 bytes",
    ),
    Sentence(
        "Triton",
        r"fp4 ?_?[Pp]added[^\n]{0,20}(?:base|address|pointer)[^\n]{0,20}32[- ]byte",
        "TMA031",
        "the address of 4-bit elements padded to bytes is no multiple of 32 bytes",
        "begin the tensor at a multiple of 32 bytes",
    ),
    Sentence(
        "Triton",
        r"inconsistent two_ctas setting across matmuls|must have twoCTA",
        "TMEM015",
        "products of one CTA and of a pair are mixed in one kernel",
        "give all products of the kernel the same two_ctas",
    ),
    Sentence(
        "Triton",
        r"Barrier arrive underflow",
        "PIPE005",
        "more arrivals or bytes come than the barrier counts",
        "count the arrivals: the number at initialisation, and the bytes of every copy in one phase",
    ),
    Sentence(
        "Triton",
        r"Barrier used before initialization",
        "PIPE001",
        "a barrier is used before it is initialised",
        "initialise it, fence, and let all threads meet before the first use",
    ),
    Sentence(
        "Triton",
        r"Barrier re-initialized without prior invalidation|Shared memory reused before barrier "
        r"invalidation|Barrier invalidated while a thread is waiting",
        "PIPE024",
        "a barrier's memory is used again while it is a barrier",
        "invalidate it after the last wait of all threads",
    ),
    Sentence(
        "Triton",
        r"Buffer being accessed has outstanding (?P<what>\w+)",
        "PIPE008",
        "a buffer is used while {what} of it are outstanding",
        "wait for the barrier of the buffer's last use before it is written or read again",
    ),
    Sentence(
        "TileLang",
        r"Get different layout for (?P<buffer>\w+)",
        "TOOL006",
        "buffer {buffer} is asked for in two layouts",
        _LAYOUTS,
    ),
    Sentence(
        "TileLang",
        r"no available layout found",
        "TOOL006",
        "no layout of a fragment suits all that use it, such as one of elements that are no multiple of the threads",
        "take a width that is a multiple of the threads, or as many threads as divide it",
    ),
    Sentence(
        "the CuTe DSL",
        r"failed to partition '[^'\n]{0,40}\((?P<m>\d+), ?(?P<n>\d+)[^'\n]{0,20}' with tiled_mma",
        "WGMMA002/TCGEN003",
        "a tile of {m} x {n} is not made of whole instructions, which have 64 rows of wgmma and 64 or 128 of tcgen05, "
        "and columns in steps of 8",
        "take {m} up to a multiple of 64 rows, or the other operand for the rows (swap A and B) if {n} is one",
    ),
    Sentence("CuTe DSL", r"invalid layout of A/B/D", "MDESC004", "an operand's layout fits no instruction", _CANONICAL),
    Sentence(
        "Triton",
        r"Kernel requires a runtime memory allocation",
        "TOOL009",
        "the kernel makes tensor maps in memory that nobody gave it",
        "call triton.set_allocator with a function that returns memory of the asked size and alignment, before the "
        "launch",
    ),
    Sentence(
        "Triton",
        r"failed to legalize operation '(?P<what>tt\.\w*descriptor\w*|ttng\.\w+|nvgpu\.\w+|nvvm\.\w+)'",
        "TOOL004",
        "{what} does not exist on the GPU that the text was compiled for{here}",
        ARCHITECTURE,
    ),
    Sentence(
        "CuTe",
        r"Static shape_div failure|(?:Shape|Stride|Static|Failed) Divisibility Condition|"
        r"tile_to_shape: block shape does not divide",
        "WGMMA004/TILE002",
        "a tile is no multiple of the instruction's or the swizzle's atom, nor the atom of it",
        "take a tile that whole atoms fill along each axis and for each warpgroup, or an atom of a narrower swizzle",
    ),
    Sentence(
        "CuTe",
        r"no instance of overloaded function \W{0,8}cute::make_tiled_mma",
        "WGMMA009",
        "the matrix unit has no instruction for these types, shape and majors, so none was selected",
        TYPES + "; convert the operand of the other type first",
    ),
    Sentence(
        "CuTe DSL",
        r"unable to partition input tensors for TMA",
        "COPY007",
        "the shared tensor and the global one are not split into tiles of the map's box alike",
        "group the modes of one box in both tensors (group_modes), and leave stages and tiles in the modes behind",
    ),
    Sentence(
        "CuTe DSL",
        r"expects the M-mode to be 64, but got (?P<m>\d{1,6})",
        "WGMMA009",
        "an instruction of wgmma has 64 rows, and {m} are given",
        _ROWS,
    ),
    Sentence(
        "CuTe DSL",
        r"expects the M-mode to be (?P<sizes>(?!64,)[\d or,]{1,20}?), but got (?P<m>\d{1,6})",
        "TCGEN003",
        "tcgen05 has {sizes} rows for this kind and number of CTAs, and {m} are given",
        "take a tile of {sizes} rows, or change the number of CTAs that multiply together",
    ),
    Sentence(
        "CuTe DSL",
        r"expects the N-mode to satisfy (?P<sizes>[\w <>=%]{1,60}?)[,.] but got (?P<n>\d{1,6})",
        "WGMMA008/TCGEN004",
        "the instruction's columns satisfy {sizes}, and {n} are given",
        "take a number of columns with {sizes}",
    ),
    Sentence(
        "CuTe DSL",
        r"expects the '(?P<what>sf_type|sf_dtype|sf_vec_size)' Op parameter to be (?P<type>[^\n]{1,60})",
        "TCGEN010",
        "the instruction's {what} is not {type}",
        _SCALED,
    ),
    Sentence(
        "CuTe DSL",
        r"expects the '(?P<what>(?:a|b|ab|acc|accumulator)_d?type)' Op parameter to be (?P<type>[^\n]{1,60})",
        "TCGEN001",
        "the instruction's {what} is not {type}",
        TYPES,
    ),
    Sentence(
        "CUTLASS",
        r"\bError Internal\b|kErrorInternal|Failed to initialize GEMM",
        "SMEM001",
        "the kernel could not be set up on this GPU: most often it asks for more shared memory than the GPU has, as "
        "one that was built for another GPU does",
        "compare the bytes that the trace prints with the GPU's limit (CUTLASS_DEBUG_TRACE_LEVEL=1); take a smaller "
        "tile, fewer stages or a smaller cluster, or a kernel that was built for the GPU",
    ),
    Sentence(
        "PyTorch",
        r"cutlass cannot (?:initialize|run)\b",
        "TOOL004",
        "a kernel of CUTLASS cannot be set up on this GPU: it is built for another one, as the scaled product of rows "
        "in PyTorch is for sm_90 and later with its shared memory{own}",
        "take one scale for each tensor, which other kernels multiply, or a GPU that the kernel is built for",
    ),
    Sentence(
        "CUTLASS",
        r"Error Invalid Problem|kErrorInvalidProblem",
        "TOOL010",
        "the kernel does not take a problem of this size: an extent of 0, no multiple of its alignment, 16 bytes of "
        "each "
        "operand's type as a rule, or of its tile, its split of K or its scale block",
        "pad M, N and K to multiples of 16 bytes and of the scale block, or choose a kernel of a smaller alignment",
    ),
    Sentence(
        "DeepGEMM",
        r"0x807fffff",
        "TOOL010",
        "a scale is no positive power of two, and only the exponent of each is kept (UE8M0)",
        "round the scales up to powers of two, those of padded rows too, which torch.empty leaves at anything; zero or "
        "one is safe there",
    ),
    Sentence(
        "CUTLASS",
        r"No MMA matches (?P<what>\w+) for given data types",
        "PROD001",
        "{what} multiplies no such types",
        "take types that the instruction has, or convert an operand first",
    ),
)

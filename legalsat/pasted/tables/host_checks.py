"""Error texts of Triton, TileLang, CUTLASS, DeepGEMM and PyTorch about tensor maps, before the driver sees them.

Each is a sentence that names one condition; numbers in it are taken over. Sources: the texts as Triton 3.6 and
CUTLASS 4.2 raise them and as public TileLang, PyTorch and Triton threads show them; what cuda-gdb and the GPU's own
messages say besides.
"""

from __future__ import annotations

from legalsat.pasted.grammar import Sentence

PAD = "pad the tensor so that every stride but the innermost is a multiple of 16 bytes, 8 elements of 2 bytes"
SPLIT_BOX = "split the box into several of 1 to 256 elements in every dimension"
EXTENT = "split the tensor along the dimension, and skip the copy of an empty one"
RANK = "merge contiguous dimensions or drop those of extent 1, to get 1 to 5"
ADDRESS = "begin the slice at a multiple of {granule} bytes, or copy it to a fresh allocation"
STEP = "give element strides of 1 to 8, 1 in the innermost dimension"
OBJECT = "declare the CUtensorMap alignas(128), or allocate it at a multiple of 64 bytes"
CONTIGUOUS = "put the axis of stride 1 innermost, or copy the tensor to dense memory first"
NAN = "fill with zero, or take a floating-point type"
SPAN = "take a box of at most the swizzle's span, 32, 64 or 128 bytes, in the innermost dimension, or a wider swizzle"
WIDER_BOX = "take a block of at least 16 bytes in the last dimension, and a multiple of 16"

HOST_CHECKS = (
    # Triton and Gluon: the checks of TensorDescriptor on the host and of make_tensor_descriptor in kernels.
    Sentence(
        "a descriptor's maker",
        r"(?:[Dd]escriptor|"
        r"TMA)(?! strides)[\s\S]{0,200}?\b(?P<extent>\d+)(?: elements?)? \* (?P<size>\d+)(?: bytes?(?:/element)?)? = "
        r"(?P<bytes>[1-9]|1[0-5]) bytes",
        "TMA008",
        "the block's last dimension has {extent} elements of {size} bytes, {bytes} bytes, less than 16",
        WIDER_BOX,
    ),
    Sentence("Triton", r"\bshape must be positive", "TMA002", "an extent of the tensor is 0", EXTENT),
    Sentence(
        "Triton",
        r"\brank (?:must not be zero|cannot be more than 5|must be 1-5)",
        "TMA001",
        "the tensor has 0 or more than 5 dimensions",
        RANK,
    ),
    Sentence(
        "Triton",
        r"Expected 1 <= ndim <= 5 but got (?P<rank>\d+) dimensions",
        "TMA001",
        "the tensor has {rank} dimensions, outside 1 to 5",
        RANK,
    ),
    Sentence(
        "Triton", r"Last dimension must be contiguous", "TMA024", "the last dimension's stride is not 1", CONTIGUOUS
    ),
    Sentence(
        "Triton",
        r"Tensor descriptor last dim must be 1 but got (?P<stride>\S+)",
        "TMA024",
        "the last dimension's stride is {stride} elements, not 1",
        CONTIGUOUS,
    ),
    Sentence(
        "Triton",
        r"Padding option `nan` is (?:only supported for floating|not supported for integer)",
        "TMA015",
        "NaN fill of a type that is no floating-point type",
        NAN,
    ),
    Sentence(
        "Triton",
        r"CUtensorMap must be aligned to \d+B, but got \(&map\) mod \d+ = (?P<offset>\d+)",
        "TMA019",
        "the CUtensorMap object is {offset} bytes off its alignment",
        OBJECT,
    ),
    Sentence(
        "Triton",
        r"out of resource: (?P<what>threads|registers), Required: (?P<needed>\d+), Hardware limit: (?P<limit>\d+)",
        "TOOL003",
        "the kernel has {needed} {what}, and its registers leave {limit}",
        "take fewer warps for each role or a smaller tile, so that the threads' registers fit the SM together",
    ),
    Sentence(
        "Triton",
        r"tensor memory, Required: (?P<needed>\d+)(?:, Hardware limit: (?P<limit>\d+))?"
        r"|OutOfResources\((?P<needed_too>\d+), (?P<limit_too>\d+), 'tensor memory'\)",
        "TMEM002",
        "the kernel needs {needed} columns of tensor memory, more than {limit}",
        "take a narrower block or fewer buffers of sums; 64-row buffers lie side by side in the columns, too",
    ),
    # TileLang: the checks before the encode call, and the lowering of copies.
    Sentence(
        "TileLang",
        r"globalStrides\[\d+\] \(raw globalStride\[(?P<axis>\d+)\] = (?P<stride>\d+)\) must be < 2\^40",
        "TMA006",
        "stride of dimension {axis} is {stride} bytes, not less than 2^40",
        "check the stride for an overflow; split the tensor if it is real",
    ),
    Sentence(
        "TileLang",
        r"globalStrides\[\d+\] \(raw globalStride\[(?P<axis>\d+)\]\) must be non-zero",
        "TMA023",
        "stride of dimension {axis} is 0, which TileLang refuses and the driver accepts",
        "give the broadcast dimension memory of its own, or drop it from the map and repeat the copy",
    ),
    Sentence(
        "TileLang",
        r"globalAddress must be (?P<granule>\d+)-byte aligned, but mod\d+=(?P<rest>\d+)",
        "TMA004",
        "the address is {rest} bytes past a multiple of {granule}",
        ADDRESS,
    ),
    Sentence(
        "TileLang",
        r"globalAddress must be non-null",
        "CUDA001",
        "the global address is null, which TileLang refuses and drivers of CUDA 13.0 accept",
        "encode no map for an operand that is absent or empty, or pass the address of one that is there",
    ),
    Sentence(
        "TileLang", r"globalDim\[(?P<axis>\d+)\] must be non-zero", "TMA002", "extent of dimension {axis} is 0", EXTENT
    ),
    Sentence(
        "TileLang",
        r"globalDim\[(?P<axis>\d+)\] must be <= 2\^32, but got (?P<extent>\d+)",
        "TMA002",
        "extent of dimension {axis} is {extent}, more than 2^32",
        EXTENT,
    ),
    Sentence(
        "TileLang",
        r"tensorRank must be in \[(?:1|3), 5\].{0,40}, but got (?P<rank>\d+)",
        "TMA001",
        "the map has {rank} dimensions",
        RANK,
    ),
    Sentence(
        "TileLang",
        r"tensorRank must be >= 3 when interleave",
        "TMA016",
        "interleave with fewer than 3 dimensions",
        "use interleave none, or split a dimension to get 3",
    ),
    Sentence(
        "TileLang",
        r"boxDim\[(?P<axis>\d+)\] must be (?:<= 256, but got (?P<extent>\d+)|non-zero)",
        "TMA003",
        "the box of dimension {axis} is outside 1 to 256 elements",
        SPLIT_BOX,
    ),
    Sentence(
        "TileLang",
        r"boxDim\[0\] \* elementSize must be a multiple of 16 bytes.{0,80}but got (?P<extent>\d+) \* "
        r"(?P<bits>\d+) bits",
        "TMA008",
        "the inner box has {extent} elements of {bits} bits, no multiple of 16 bytes",
        "take an inner box that is a multiple of 16 bytes",
    ),
    Sentence(
        "TileLang",
        r"elementStrides\[(?P<axis>\d+)\] must be in \[1, 8\], but got (?P<step>\d+)",
        "TMA007",
        "element stride of dimension {axis} is {step}, outside 1 to 8",
        STEP,
    ),
    Sentence(
        "TileLang",
        r"FILL_NAN_REQUEST_ZERO_FMA can\s+only be used with floating",
        "TMA015",
        "NaN fill of a type that is no floating-point type",
        NAN,
    ),
    Sentence(
        "TileLang",
        r"swizzle must be (?:set to )?CU_TENSOR_MAP_SWIZZLE_32B",
        "TMA020",
        "interleave 32B with another swizzle",
        "use swizzle 32B, which every driver must accept",
    ),
    # CUTLASS and CuTe: assertions before the encode call, static assertions, and what can_implement says.
    Sentence(
        "CuTe",
        r"gmem_address\) & 0b1111\) == 0",
        "TMA004",
        "the address is no multiple of 16 bytes",
        ADDRESS.format(granule=16),
    ),
    Sentence(
        "CuTe",
        r"gmem_prob_stride\[(?P<axis>[1-4])\] & 0b1111\) == 0",
        "TMA005",
        "stride of dimension {axis} is no multiple of 16 bytes",
        PAD,
    ),
    Sentence(
        "CuTe",
        r"gmem_prob_stride\[(?P<axis>[1-4])\]\)? < \(uint64_t\(1\) << 40\)",
        "TMA006",
        "stride of dimension {axis} is not less than 2^40 bytes",
        "check the stride for an overflow; split the tensor if it is real",
    ),
    Sentence(
        "CuTe",
        r"gmem_prob_shape\[(?P<axis>[0-4])\] (?:>=|<=) \(uint64_t\(1\)",
        "TMA002",
        "extent of dimension {axis} is outside 1 to 2^32",
        EXTENT,
    ),
    Sentence(
        "CuTe",
        r"smem_box_shape\[(?P<axis>[0-4])\] (?:>=|<=) \(uint32_t\(1\)",
        "TMA003",
        "the box of dimension {axis} is outside 1 to 256 elements",
        SPLIT_BOX,
    ),
    Sentence(
        "CuTe",
        r"smem_box_stride\[(?P<axis>[0-4])\] (?:>=|<=) \(uint32_t\([18]\)",
        "TMA007",
        "element stride of dimension {axis} is outside 1 to 8",
        STEP,
    ),
    Sentence(
        "CUTLASS",
        r"Should meet TMA alignment requirement|static_assert\(detail::is_aligned<|minimum alignment requirements for "
        r"TMA|Error Misaligned Operand|kErrorMisalignedOperand",
        "TMA005",
        "an extent or a leading dimension of an operand is no multiple of the kernel's alignment, 16 bytes as a rule",
        PAD + ", or build the kernel for a smaller alignment; so is C, if its epilogue stores with the copy engine",
    ),
    Sentence(
        "CUTLASS",
        r"cutlass.{0,200}Invalid status|cutlass cannot implement",
        "TMA005",
        "can_implement refused the problem; with copy engine kernels it is most often a leading dimension of A, B, C "
        "or D that is no multiple of 16 bytes, and with block scales an N or K that is no multiple of the scale block",
        "run with CUTLASS_DEBUG_TRACE_LEVEL=1, which prints the condition; pad leading dimensions to multiples of 16 "
        "bytes, or choose an epilogue without the copy engine; pad N and K to whole scale blocks, such as 128, take "
        "groups of "
        "scales as deep as the tile, 128, or "
        "choose a kernel without block scales",
    ),
    Sentence(
        "CuTe DSL",
        r"make_gmma_smem_desc",
        "WGMMA004",
        "the tile in shared memory lies in none of the layouts that wgmma reads",
        "build its layout of a swizzle's atoms (make_smem_layout_atom), such as rows of 128 bytes with swizzle 128B",
    ),
    Sentence(
        "DeepGEMM",
        r"Misaligned barriers",
        "PIPE025",
        "a barrier lies at no multiple of 8 bytes of shared memory",
        "round what lies before the barriers, such as scales, up to a multiple of 8 bytes",
    ),
    Sentence(
        "the GPU",
        r"[Cc]luster (?:target )?block not present|CLUSTER_BLOCK_NOT_PRESENT",
        "PIPE015",
        "a block reaches into another one of its cluster that is not there any more",
        "let all blocks of a cluster meet at a cluster barrier before any of them ends, those too that have no work",
    ),
    Sentence(
        "the GPU",
        r"CGA out-of-range|[Cc]luster (?:target )?block not present|CLUSTER_BLOCK_NOT_PRESENT",
        "PIPE017",
        "a copy or an arrival names a block that the cluster does not have, or that has already ended",
        "name ranks below the cluster's size alone in multicast masks and remote addresses, and let all blocks of a "
        "cluster meet at a cluster barrier before any of them ends",
    ),
    Sentence(
        "compute-sanitizer",
        r"Invalid __global__ (?P<access>read|write) of size (?P<bytes>\d+)(?![\s\S]{0,600}?\bis misaligned)",
        "CUDA700",
        "threads of this kernel {access} {bytes} bytes where no allocation is; what they access does not end where its "
        "array does, as boxes of a tensor map would",
        "mask what threads load and store in the tiles that overhang, scales and biases of a row or a column too, or "
        "allocate these arrays in whole tiles, a cluster's tiles together",
    ),
    Sentence(
        "compute-sanitizer",
        r"(?:[Ii]nvalid|out-of-bounds) global (?:[\w-]+ ){0,2}(?P<access>read|write)s?\b",
        "CUDA700",
        "threads of this kernel {access} where no allocation is; what they access does not end where its array does, "
        "as boxes of a tensor map would",
        "mask what threads load and store in the tiles that overhang, scales and biases of a row or a column too, or "
        "allocate these arrays in whole tiles",
    ),
    Sentence(
        "PyTorch",
        r"both dimensions of (?P<operand>\w+) to be divisi?a?ble by (?P<granule>\d+)",
        "TMA005",
        "an extent of {operand} is no multiple of {granule}",
        "pad the extent to a multiple of {granule}",
    ),
    Sentence(
        "PyTorch",
        r"must be swizzled to SWIZZLE_(?P<rows>\d+)_(?P<groups>\d+)_(?P<columns>\d+)",
        "TOOL006",
        "scales lie by rows, and the matrix unit reads them in blocks of {rows} x {groups} x {columns}",
        "lay the scales out in those blocks, as the quantizer's swizzled form does",
    ),
    Sentence(
        "Mosaic",
        r"Failed to infer a possible set of layouts",
        "TOOL006",
        "no layout suits every operation that uses one of the arrays",
        "give each buffer transforms that tile its last two axes, and cast registers with plgpu.layout_cast",
    ),
    Sentence(
        "TileLang",
        r"WGMMA operand layout contiguity \(k_major=(?P<major>\w+)\)",
        "WGMMA010",
        "the tile lies K-major: {major}, and the product was told otherwise",
        "give the tile the major that transpose_A and transpose_B say, and at least 16 columns",
    ),
    Sentence(
        "PyTorch",
        r"prepare_grouped_gemm_data: block: \[",
        "TMA005",
        "a grouped product asserts on the device: a group's rows, where they are the depth, or a stride are no "
        "multiple of 16 "
        "bytes: 16 elements of 8 bits, 8 of 16 bits",
        "pad each group to a multiple of 16 bytes of its operands' type, so that every offset is one",
    ),
    Sentence(
        "FlashInfer",
        r"Unsupported group_size: (?P<given>\d+)",
        "TOOL010",
        "no attention kernel is built for {given} heads of queries to each head of keys and values (group_size); those "
        "for 1, 2, 3, 4 and 8 are, and the hardware has no such rule",
        "choose another attention backend, or repeat the heads of keys and values until a group is one of these",
    ),
    Sentence(
        "cuBLAS",
        r"cuBLAS API failed with status 15",
        "TOOL004",
        "cuBLAS has no such product of these types and layouts on this GPU (CUBLAS_STATUS_NOT_SUPPORTED, 15): 8-bit "
        "floats are multiplied with A transposed and B not, from sm_89 on; 8-bit integers in tiled orders (COL32, "
        "col_turing, col_ampere) by sm_75 to sm_89 alone",
        "lay the operands out as cuBLAS's table of their types asks: K-major both, of 8-bit types, and no tiled order",
    ),
)

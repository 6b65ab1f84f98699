"""What PyTorch and the libraries beside it check of the operands of scaled, grouped and compiled products.

Sources: the checks of `_scaled_mm`, `_grouped_mm` and `_scaled_grouped_mm` in PyTorch 2.4 to 2.11
(`torch/_meta_registrations.py`, `aten/src/ATen/native/cuda`), and of its inductor.
"""

from __future__ import annotations

from legalsat.pasted.grammar import Sentence
from legalsat.pasted.tables.host_checks import ADDRESS, PAD

_TN = "give A by rows and B by columns: b.t() of a tensor of (N, K) that is contiguous, as cuBLAS multiplies 8 bits"
_DEPTH = "pad the extent to a multiple of 16, with zeros along the depth"
_SCALES = (
    "give one scale of (1,) or (1, 1) to each tensor, or (M, 1) and (1, N) to rows and columns, in float32; for mxfp8 "
    "and nvfp4 the blocks of 128 x 4 that are padded to whole ones"
)

_BLOCKS = "lay the scales out in blocks of 128 rows x 4 columns, padded to whole ones, and say SWIZZLE_32_4_4"

TORCH_CHECKS = (
    Sentence(
        "PyTorch",
        r"Expected (?P<what>\w+) stride along (?P<axis>\d+) dim to be multiple of 16 bytes, got (?P<stride>\d+)",
        "TMA005",
        "stride of axis {axis} of {what} is {stride} elements, no multiple of 16 bytes",
        PAD,
    ),
    Sentence(
        "PyTorch", r"strides should be multiple of 16 bytes", "TMA005", "a stride is no multiple of 16 bytes", PAD
    ),
    Sentence(
        "PyTorch",
        r"expected dynamic dimension byte size to be non-negative multiple of 16",
        "TMA005",
        "a group's rows, where they are the contiguous axis, are no multiple of 16 bytes",
        "pad each group to a multiple of 16 bytes, 8 elements of 16 bits, 16 of 8",
    ),
    Sentence(
        "PyTorch",
        r"expected data_ptr to be aligned to (?P<granule>\d+) bytes",
        "TMA004",
        "the address of an operand is no multiple of {granule} bytes",
        ADDRESS,
    ),
    Sentence(
        "PyTorch",
        r"Invalid strides/sizes, got (?P<stride>[^\n]{1,60}) for strides and (?P<extent>[^\n]{1,60}) for sizes",
        "TMA024",
        "strides {stride} of a tensor of {extent}: neither of the last two axes is contiguous, or rows overlap",
        "make one of the last two axes contiguous (.contiguous())",
    ),
    Sentence(
        "PyTorch",
        r"[Ee]xpected (?P<what>\w+) (?:tensor )?to be (?:row|column) major|mat_?(?:1|a|self) must be row[_ ]major"
        r"|mat_?(?:2|b) must be col(?:umn)?[_ ]major|Expected mat_?\w (?:to )?(?:not )?(?:to )?be transposed"
        r"|Only multiplication of row-major and column-major matrices is supported",
        "WGMMA010/TCGEN007",
        "an operand of 8 or 4 bits is not K-major, as such products take both",
        _TN,
    ),
    Sentence(
        "PyTorch",
        r"mat2 shape \((?P<rows>\d+) ?x ?(?P<columns>\d+)\)? must be divisible by (?P<granule>\d+)",
        "TMA005",
        "an extent of B, {rows} x {columns}, is no multiple of {granule}",
        _DEPTH,
    ),
    Sentence(
        "PyTorch",
        r"Expected both dimensions of mat2 to be divisible by (?P<granule>\d+) but got mat2 shape:? ?"
        r"\(?(?P<rows>\d+) ?x ?(?P<columns>\d+)",
        "TMA005",
        "an extent of B, {rows} x {columns}, is no multiple of {granule}",
        _DEPTH,
    ),
    Sentence(
        "PyTorch",
        r"Invalid scaling configuration|scale tensors must be (?:2-dimensional|2D), but got"
        r"|[Ss]cale_?[ab]? must (?:be|have) [^\n]{0,40}(?:contiguous|1D|2D|elements|shape)"
        r"|For (?:[Rr]ow|[Bb]lock|[Tt]ensor)[Ww]ise scaling, (?:both )?scale",
        "TOOL010",
        "the scales have another shape, type or order than the product asks for",
        _SCALES,
    ),
    Sentence(
        "PyTorch",
        r"Multiplication of two Float8_e5m2 matrices is not supported",
        "PROD001",
        "two operands of e5m2, which cuBLAS does not multiply and the hardware does",
        "make one operand e4m3, or choose another backend",
    ),
    Sentence(
        "PyTorch",
        r"_(?:scaled|grouped|scaled_grouped)_(?:grouped_)?mm is only supported on (?:CUDA )?devices? with compute "
        r"capability (?P<target>[^\n]{1,60})",
        "TOOL004",
        "the product exists for compute capability {target}{own}",
        "take such a GPU, or multiply in 16 bits",
    ),
    Sentence(
        "PyTorch",
        r"Expected trailing dimension of (?P<what>mat\w?) to be divisible by (?P<granule>\d+)"
        r"(?: but got \w+ shape:? ?\(?(?P<rows>\d+) ?x ?(?P<columns>\d+))?",
        "TMA005",
        "the contiguous extent of {what}, {columns}, is no multiple of {granule}",
        _DEPTH,
    ),
    Sentence(
        "PyTorch",
        r"contraction dimension of mat_a and mat_b must match",
        "TOOL010",
        "the operands of a product do not agree in their depth",
        "transpose one operand until the columns of A are the rows of B",
    ),
    Sentence(
        "PyTorch",
        r"scale_(?P<what>[ab]) (?:must have )?strides (?:must be )?\((?P<asked>[^()\n]{1,40})\); got:? "
        r"\[(?P<stride>[^\]\n]{1,40})|expected scale_(?P<what_too>[ab])\.stride\(\d\) to be (?P<asked_too>\d+), but "
        r"got (?P<stride_too>\d+)",
        "TOOL010",
        "the scales of {what} have strides {stride}, and the product takes them with {asked}",
        "lay the scales out as asked; an axis of one element may have any stride, and some versions refuse what it has",
    ),
    Sentence(
        "PyTorch",
        r"scale_?(?:_(?P<what>[ab]))?(?: swizzle types)? must (?:use|be) SWIZZLE_32_4_4",
        "TCGEN010/TOOL010",
        "scales of blocks are passed as they are, and the product reads them swizzled",
        _BLOCKS,
    ),
    Sentence(
        "PyTorch",
        r"(?P<what>mat_?[ab12]) shape to be divisible by (?P<granule>\d+)",
        "TMA005",
        "an extent of {what} is no multiple of {granule}",
        _DEPTH,
    ),
    Sentence(
        "PyTorch",
        r"[Ss]caling (?:is )?only supported (?:in CUDA )?(?:for|on) (?P<target>[\w/, ]{2,40})"
        r"|Block-wise scaling for [\w ]{1,40} is only supported on (?P<target_too>[\w, ]{2,40})",
        "TOOL004",
        "scales of this kind exist on {target} alone{own}",
        "take such a GPU, or scale by tensors or rows",
    ),
    Sentence(
        "PyTorch",
        r"Offsets have to be int32|Have to provide offsets if there is a 2d matrix|[Oo]ffs(?:ets)? has to be 1D"
        r"|matrix batch sizes have to match|scale must have the same (?:length|batch dimension|first dimension) as mat",
        "TOOL010",
        "the groups' offsets or scales have another shape or type than the operands ask for",
        "give one offset of int32 to each group, where a matrix of rows is divided, and one scale to each of its rows",
    ),
)

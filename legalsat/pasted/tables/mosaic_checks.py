"""What JAX's Mosaic GPU and Pallas refuse when they trace or lower a kernel.

Sources: the exceptions in `jax/experimental/mosaic/gpu` and `jax/_src/pallas/mosaic_gpu` of JAX in August 2026.
"""

from __future__ import annotations

from legalsat.pasted.grammar import Sentence
from legalsat.pasted.tables.host_checks import CONTIGUOUS, WIDER_BOX

_TILES = (
    "give the buffer TilingTransform((8, n)) and SwizzleTransform(bytes) with n elements as wide as the swizzle, and "
    "slices of whole tiles"
)
_ROWS = "take a tile of multiples of 64 rows and 8 columns for wgmma, of 64 or 128 rows for tcgen05"
_COLUMNS = "take a multiple of the columns that the message names, 256 at most"
_TMEM = "take fewer or narrower accumulators, 512 columns in all, or reuse one by aliasing"
_GATHER = "gather along the first axis of a matrix, with whole boxes of at least 128 bytes and unsigned 32-bit indices"

MOSAIC_CHECKS = (
    Sentence(
        "Mosaic GPU",
        r"Async copies with (?:swizzle=)?(?P<swizzle>\d+)? ?require the last dimension of the slice to be exactly "
        r"(?P<bytes>\d+) bytes(?: i\.e\. (?P<extent>\d+) elements, but got (?P<got>\d+))?",
        "TMA009",
        "the last dimension of the slice is not the {bytes} bytes of its swizzle: {got} elements, not {extent}",
        "take a slice exactly as wide as the swizzle in its last dimension, tile the buffer by it, or take a narrower "
        "swizzle",
    ),
    Sentence(
        "Mosaic GPU",
        r"bits copied along the last dimension to be divisible by 128, but got (?P<bits>\d+)",
        "TMA008",
        "the last dimension of the copy has {bits} bits, no multiple of 16 bytes",
        WIDER_BOX,
    ),
    Sentence(
        "Mosaic GPU",
        r"async_copy assumes the GMEM reference is contiguous|stride of the last dimension after transforming the "
        r"GMEM reference to be 1",
        "TMA024",
        "the array in global memory is not contiguous, or its last dimension is not the contiguous one",
        CONTIGUOUS,
    ),
    Sentence(
        "Mosaic GPU",
        r"Swizzle (?P<swizzle>\d+) requires the trailing dimension to be of size (?P<extent>\d+), but got shape"
        r"|Swizzled dimension of size=\d+ is not a multiple|Reshape shape [^\n]{0,60} is not divisible by swizzle"
        r"|MMA (?:lhs|rhs) tiling does not fit swizzle|Tiling does not fit swizzle"
        r"|Tiling should be \(8, ?swizzle_elems\)|expected SMEM tiling to be \(8|[BK] (?:dimension )?tiling (?:is )?"
        r"(?:too small|smaller than the width)[^\n]{0,60}Increase swizzle"
        r"|must be transformed by swizzling and tiling|Minor tiling dimension does not fit swizzle",
        "WGMMA004",
        "the tile in shared memory is not made of atoms of its swizzle, 8 rows of the swizzle's bytes",
        _TILES,
    ),
    Sentence(
        "Mosaic GPU",
        r"subview (?:dynamic )?offset[^\n]{0,40}not a (?:known )?multiple",
        "COPY005",
        "a part of a swizzled buffer begins inside the swizzle's pattern",
        "slice swizzled buffers at multiples of the swizzle's width",
    ),
    Sentence(
        "Mosaic GPU",
        r"Non-matching swizzles of operands|rhs swizzle must match lhs swizzle",
        "TOOL006",
        "the two operands of a product have two swizzles, which Mosaic refuses and the hardware multiplies",
        "give both operands' buffers the same swizzle",
    ),
    Sentence(
        "Mosaic GPU",
        r"(?:\bm|tile_m=?|block_m=?)[= ]?(?P<m>\d+) must be divisible by 64|is not a multiple of 64x8",
        "WGMMA002",
        "the tile has {m} rows, no multiple of 64, or columns that are none of 8",
        _ROWS,
    ),
    Sentence(
        "Mosaic GPU",
        r"\bM must be a multiple of \d+(?: and <= 256)?, got: (?P<m>\d+)|Only M=128 is supported for MMA"
        r"|TMEM references must have either \d+ or \d+ rows, but got (?P<m_too>\d+)"
        r"|TMEM refs must have at least 32 rows|is not divisible into tiles of shape",
        "TCGEN003",
        "the tile has {m} rows, which tensor memory or tcgen05 has not",
        "take 128 rows for one CTA, or 64 with a layout of 64",
    ),
    Sentence(
        "Mosaic GPU",
        r"\bN must be a multiple of (?P<step>\d+)[^\n]{0,60}got:? (?:N=)?(?P<n>\d+)",
        "TCGEN004",
        "the product has {n} columns, no multiple of {step} or more than 256",
        _COLUMNS,
    ),
    Sentence(
        "Mosaic GPU",
        r"[Tt]otal TMEM allocation exceeds memory limit(?:\. Requested (?P<needed>\d+) columns which exceeds limit of "
        r"(?P<limit>\d+))?",
        "TMEM002",
        "the kernel needs {needed} columns of tensor memory, more than {limit}",
        _TMEM,
    ),
    Sentence(
        "Mosaic GPU",
        r"ncols must be a power of 2 and within \[32, 512\], got: (?P<got>\d+)",
        "TMEM001",
        "an allocation of {got} columns of tensor memory is no power of two of 32 to 512",
        "round the columns up to a power of two of at least 32",
    ),
    Sentence(
        "Mosaic GPU",
        r"aliased TMEM references are collective and some are not|mix collective and non-collective TMEM",
        "TMEM015",
        "tensor memory of one CTA and of a pair is mixed in one kernel",
        "make all allocations and products of the kernel collective, or none",
    ),
    Sentence(
        "Mosaic GPU",
        r"num must be a power of 2 and <= 128, got: (?P<got>\d+)|Loads from TMEM layout [^\n]{0,200}not supported",
        "TMEM012",
        "no shape of tcgen05.ld or st moves this tile between tensor memory and these registers",
        "take one of plgpu.Layout's for tensor memory (TCGEN05, TCGEN05_M64_COLLECTIVE, TCGEN05_TMEM_NATIVE)",
    ),
    Sentence(
        "Mosaic GPU",
        r"Misaligned barrier allocation",
        "PIPE025",
        "barriers lie in memory that is no multiple of 8 bytes",
        "give each barrier 8 bytes of shared memory",
    ),
    Sentence(
        "Mosaic GPU",
        r"Not all copy_smem_to_gmem read-side operations completed before kernel finished",
        "PIPE014",
        "the kernel ends while bulk stores still read its shared memory",
        "end the kernel with plgpu.wait_smem_to_gmem(0)",
    ),
    Sentence(
        "Mosaic GPU",
        r"constituent warps have (?P<what>participated in the barrier previously|previously observed different phases)",
        "PIPE018",
        "warps of one warpgroup wait at a barrier differently",
        "let all warps of a warpgroup wait equally often, in the same branch",
    ),
    Sentence(
        "Mosaic GPU",
        r"Cannot encode value in an MMA descriptor: (?P<value>\d+)",
        "MDESC002",
        "an offset of {value} bytes does not fit a matrix descriptor, which holds multiples of 16 below 2^18",
        "take a smaller tile, or a layout whose atoms lie closer together",
    ),
    Sentence(
        "Mosaic GPU",
        r"Gather(?:s/scatters|/scatter) (?:only supported|indices must|TMA|unsupported|operations are)"
        r"|Only 2D gathers/scatters",
        "TOOL005",
        "rows are gathered as the copy engine or Mosaic does not",
        _GATHER,
    ),
    Sentence(
        "Mosaic GPU",
        r"cross swizzle tile boundaries|(?:contiguous dimension of the reference must|Tiled strides must|dimension of "
        r"the reference must have strides that)[^\n]{0,40}multiples? of the (?:layout's )?vector",
        "VEC004",
        "the registers' vectors do not lie in one row of the buffer's tiles",
        "load with the layout of the matrix unit (plgpu.Layout.WGMMA), and give the buffer the tiling and swizzle that "
        "it reads",
    ),
    Sentence(
        "Mosaic GPU",
        r"Only copies transferring a number of bytes divisible by the warpgroup size"
        r"|must have a number of elements that is a multiple of 128 \(got (?P<got>\d+)\)"
        r"|Transfer is not a multiple of \d+ bytes",
        "TOOL007",
        "the elements are no multiple of the 128 threads of a warpgroup",
        "take arrays whose elements are a multiple of 128",
    ),
    Sentence(
        "Mosaic GPU",
        r"Collective (?:arrivals|TMEM)[^\n]{0,60}only support[^\n]{0,60}cluster"
        r"|Partitioned loads only supported for clusters of size 2",
        "TOOL008",
        "what a pair of CTAs does together needs a cluster of two along that axis",
        "launch a cluster of (2, 1, 1), and name its axis",
    ),
)

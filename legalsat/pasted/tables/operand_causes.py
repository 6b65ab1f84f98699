"""What lines say of the operands of a product or a copy by threads: types, least tiles, scales, depths, vectors.

Rows like those of `legalsat.pasted.tables.cause_table`, tried before them.
"""

from __future__ import annotations

from legalsat.pasted.grammar import Cause

OPERAND_CAUSES = (
    Cause(
        "TOOL010",
        r"shape|\bdim\w*|block|\bdot\b|\b[mnk]\b",
        r"(?:>=|at least|minimum(?: of)?|(?:less|smaller) than|lower than) ?(?:16|32)\b",
        "a tile of a product is smaller than the least that the compiler multiplies{asked}; an mma instruction "
        "itself has "
        "16 rows, steps of 8 columns and a depth of 16 or 32 bytes",
        "pad the tile to 16 x 16 x 16 with zeros, to a depth of 32 for 8 bits, or multiply elements and sum them "
        "where a side is 1",
        unless=r"bytes?\b|byte|align|head",
    ),
    Cause(
        "TOOL004",
        r"\bfp[468]\w*|float[48]\w*|e4m3\w*|e5m2\w*|e2m1\w*|bf16|bfloat16|tf32|nvfp4|mxfp\w*",
        r"(?:not|n't|un)[ -]?support\w* .{0,30}(?:arch|gpu|device|capab|hardware|cuda)|supported fp8 d?types|"
        r"(?:arch|gpu|device|capab|hardware)\w*.{0,40}(?:does not|doesn't|not) support|only supported on|"
        r"requires? .{0,40}(?:capability|sm_?\d\d)",
        "the GPU does not multiply this type, or a library does not on it",
        "take a type that the GPU multiplies, such as fp16, bf16 or int8, or convert the weights, or take a GPU "
        "that has "
        "the type",
    ),
    Cause(
        "TOOL010",
        r"scal(?:e|ing)\w*|\bsf_?[ab]\b",
        r"scaling config|(?:should|must|expected?)\b.{0,40}(?:singleton|\(\w+, ?\w+\)|shape|numel)",
        "the scales have another shape than the product asks for{asked}; the hardware has no such rule where "
        "threads apply them",
        "give one scale for each tensor, or one for each row of A and column of B, in the shape and order that the "
        "message names",
        unless=r"divisib|multiple|byte|stride|head|softmax|block_k >=",
    ),
    Cause(
        "TOOL010",
        r"shapes?\b|matmul|\bdot\b|\bmat[12ab]?\b|dimension|\bk\b|operand",
        r"cannot be multiplied|not compatible for mat|must be equal to first index|inner dim\w* .{0,40}(?:match|"
        r"equal|same)|"
        r"expected the last dimension|contraction dim\w* .{0,40}(?:match|equal|same)|"
        r"reduction dim\w* .{0,40}(?:match|equal|same)",
        "the operands of a product do not agree in their depth",
        "transpose or reshape one operand until the columns of A are the rows of B",
        unless=r"align|byte|divisib|multiple",
    ),
    Cause(
        "TOOL010",
        r"input size|output size|weight shape|in_features|out_features|partition",
        r"(?:not|n't) aligned with",
        "an extent of the layer, or of a GPU's part of it, is no multiple of what the quantized weights are packed in",
        "split the layer over fewer GPUs (tensor parallel size), or take weights that are quantized in smaller groups",
    ),
    Cause(
        "TOOL010",
        r"shape|range|block|element|arange|numel|tile|size|extent|\b[mnk]\b|dim|stages|warps|next_power",
        r"power of (?:2|two)",
        "an extent is no power of two{asked}, which blocks and ranges of the compiler are on every axis; the "
        "hardware has "
        "no such rule",
        "round the extent up to a power of two and mask what lies beyond",
        unless=r"tmem|tensor memory|column|scale|ue8m0|cluster|swizzl",
    ),
    Cause(
        "TOOL012",
        r"\bbanks?\b|bank[- _]?conflicts?",
        r"conflict|same bank|one bank",
        "threads of a warp meet in one bank of shared memory: the step between their words, such as a row of a "
        "tile, is a "
        "multiple of 128 bytes, or shares a large factor with it",
        "pad the rows, by 16 bytes where vectors are read and by one word otherwise, or swizzle the tile, so that a "
        "column "
        "lies in different banks",
        unless=r"no bank|free of bank|without bank|avoid|eliminat|reduc|resolv",
    ),
    Cause(
        "TOOL013",
        r"int32|i32|32-?bit|\bint\b|2\^3[12]|2147483647|4294967296|stride|pitch|leading dim|offset|\bind(?:ex|ices)|"
        r"numel|pointer|address|scalar|constant",
        r"overflow|wraps? around|(?:exceed\w*|beyond|past|out of range|larger than) .{0,20}"
        r"(?:2(?:\^|\*\*)3[12]|(?:int_?|i)32|2147483647)|int_?32 (?:limit|max|range)|"
        r"stride\w* (?:\w+ ){0,2}(?:>=?|of at least|above|over) ?2(?:\^|\*\*)31",
        "an offset or a stride overflows 32 bits, which count up to 2147483647 elements",
        "count the first factor of offsets in 64 bits (stride.to(tl.int64), int64_t), or split the tensor",
        unless=r"barrier|transaction|token|stack|buffer overflow|scale|softmax|fp16|\b16\b",
    ),
    Cause(
        "VEC004",
        r"copy_?(?:traits|atom|op)\b|tiled_?copy",
        r"vectoriz|incompatible|not match|n't match|too few|partition|divi[sd]",
        "the layouts of source, destination and threads give the copy's instruction no such row of neighbouring "
        "elements",
        "give each thread as many contiguous elements as the copy atom moves, in source and destination alike, or a "
        "narrower atom (UniversalCopy of fewer bits)",
    ),
    Cause(
        "PIPE022",
        r"mbarrier|barrier|transaction|expect_tx|tx[-_ ]?count",
        r"(?:transaction|tx|bytes).{0,60}(?:2\^20|1048575|1048576|exceed|limit|maximum|overflow)",
        "a barrier is told more bytes than its count of transactions holds, 1048575",
        "wait for fewer bytes at once, by smaller boxes or more barriers",
        # The most that it holds is given, and is in order; a limit that is told is no count.
        unless=r"(?<!limit )(?<!maximum )(?:\b(?:with|of|is|got|given|expects?)|count|tx|bytes|transaction)\W{1,3}"
        r"1048575\b",
    ),
    Cause(
        "VEC001",
        r"cp[._]async(?![._]bulk)|async_copy_global|ldgsts|vector",
        r"\b4, ?8,? ?(?:(?:or|and) ?)?16\b|(?:only|must be|requires?).{0,30}\b16 bytes",
        "a copy by threads has another size than the instruction takes: cp.async copies 4, 8 or 16 bytes at "
        "once{asked}",
        "give each thread 4, 8 or 16 contiguous bytes, so at least 2 elements of 16 bits, along the contiguous axis",
        unless=r"multiple|align|stride",
    ),
    Cause(
        "TMA043",
        r"(?:upper|lower|pixel ?box)\w*[ _]?(?:corner|offset)s?|corners?\b.{0,40}im2col|im2col.{0,40}corner",
        r"range|between|\[ ?-|must|exceed|outside|within|<=|limit",
        "a corner of the box of pixels is outside what an im2col map holds: 8 bits with a sign for two axes of "
        "pixels, 16 for "
        "one, 5 for three",
        "take a smaller padding or dilation of the convolution, or the tiled map, or split the tensor along the axis",
    ),
    Cause(
        "VEC002",
        r"ldmatrix|stmatrix|cp[._]async(?![._]bulk)|float[24]|half2|int4\b|vector(?:ized)? (?:load|store|access)",
        r"(?:not|n't|mis|un|must|requires?|needs?).{0,30}align|multiple of (?:4|8|16)\b|align\w*.{0,20}\b(?:4|8|16)\b",
        "an address or a row is no multiple of what one instruction moves, 16 bytes of ldmatrix, float4 and "
        "cp.async at most"
        "{asked}",
        "make rows of shared memory a multiple of 16 bytes (pad by 8 halves, or swizzle), and begin each vector at "
        "a multiple "
        "of its size",
        unless=r"tma\b|tensor ?map|descriptor",
    ),
    Cause(
        "VEC002",
        r"bias|mask|query|key|value|tensor|input|operand|\b[qkvabcd]\b|ptr|pointer|stride|memory|weight",
        r"(?:not|n't) (?:correctly |properly |sufficiently )?aligned|\bunaligned\b|\bmis-?aligned (?:tensor|input|"
        r"operand|"
        r"ptr|pointer|bias|mask)",
        "an address or a stride is no multiple of what the kernel loads at once, 16 bytes at most: 8 elements of 16 "
        "bits, "
        "4 of 32",
        "allocate the last axis as a multiple of 16 bytes and take a slice of it, so that every stride but the "
        "innermost "
        "is one, and begin slices at one",
        unless=r"tma|descriptor|tensor ?map|shared|smem|barrier|swizzl|\d|warn|wgmma|tcgen05",
    ),
)

"""The causes that lines of any program name: what a line is about, what it asks, and the rule that says so.

The rows are tried in their order, and the first that fits is a line's cause. A row's patterns are searched without
regard to case in a line with single blanks (`legalsat.pasted.causes`).
"""

from __future__ import annotations

from legalsat.pasted.grammar import Cause
from legalsat.pasted.tables.host_checks import (
    ADDRESS,
    CONTIGUOUS,
    EXTENT,
    OBJECT,
    PAD,
    RANK,
    SPAN,
    SPLIT_BOX,
    STEP,
    WIDER_BOX,
)

_ASKS = r"align|multiple|divisib|% ?\(?\w*\)?|& ?0[bx]?[1f]+|granular"
_SIXTEEN = r"\b(?:8|16|32|64|128|0[bx]?(?:1111|f))\b|16 ?_?b(?:yte)?s?\b|kgmma|tma|alignment"
_LIMIT = (
    r"<=|<|>|exceed|at most|more than|less than|greater|larg|maxim|\bmax\b|up to|between|limit|too |within|outside|only"
)
# Somewhere in the line: whoever tells of a tile of 256 columns that hangs says nothing against 256.
_DEMANDS = (
    r"^(?=.*(?:must|should|expect|only|support|requir|between|multiple|invalid|illegal|unsupported|allowed|valid|"
    r"cannot|can't|limit|at most|at least|exceed|%|<=|>=|==|!=|\bin \()).*?"
)
_ENCODING = r"\b(?:creat|encod|initiali[sz]|construct|build|mak(?=e\b|ing\b)|set(?:ting)? ?up)\w*"
_SCALED_TYPES = "pad the dimension that is contiguous to a multiple of 16 bytes: 16 elements of 8 bits, 8 of 16 bits"


CAUSES = (
    Cause(
        "COPY012",
        r"swizzl",
        r"swizzl\w* (?:mode |type )?mismatch|mismatch\w* swizzl|(?:in|input|load|"
        r"copy)\w* .{0,30}swizzl.{0,40}(?:out|store|"
        r"output)\w* .{0,30}swizzl",
        "one tile is written with one swizzle and read with another",
        "give the copies and the products of a buffer the same swizzle",
        unless=r"scale|rasteriz|threadblock",
    ),
    Cause(
        "TOOL005",
        r"gather4|scatter4|(?:gather|scatter)\w*.{0,20}\b(?:tma|descriptor)|\b(?:tma|descriptor)\w*.{0,20}(?:gather|"
        r"scatter)",
        r"must|expect|only|at least|can't|cannot|require|support|mismatch|rank|aligned",
        "rows are gathered as the copy engine does not",
        "give a block of 1 row, 4 row indices at a time, and columns that begin at a multiple of 16 bytes; a gather "
        "neither reduces nor takes more than a matrix",
        unless=r"stride.{0,40}(?:align|\b16\b)|unit innermost|all-?gather",
    ),
    Cause(
        "WGMMA004",
        r"tiling|tiled|\btile\b|transform|layout|atom",
        r"(?:not|n't|must).{0,30}(?:fit|match|compatible).{0,40}swizzl|swizzl.{0,60}(?:not|n't|must).{0,30}(?:fit|"
        r"match|compatible)",
        "the tile in shared memory lies in no atoms of the swizzle",
        "build its layout of a swizzle's atoms, 8 rows of the swizzle's bytes, for the copy and the product alike",
        unless=r"\b(?:16|256|1024)\b|exceed|inner|smaller|larger|<=|>=|threads|rasteriz",
    ),
    Cause(
        "WGMMA004",
        r"swizzl",
        r"(?:overlap|straddl|cross|across|boundar|(?:not|n't) align).{0,80}warp|warp[- ]?tile.{0,80}(?:overlap|"
        r"straddl|cross|swizzl|"
        r"boundar)|swizzl.{0,80}(?:overlap|straddl|boundar\w+ of)",
        "a swizzle's atoms lie across the boundary between the tiles of two warps or warpgroups",
        "take tiles for each warpgroup that are a multiple of the swizzle's span, 64 elements of 16 bits for 128B, "
        "or a "
        "narrower swizzle",
    ),
    Cause(
        "MDESC004",
        r"canonical|(?:matrix|smem|mma)[ _]desc|core[- ]matri(?:x|ces)|special layout",
        r"not a |required to be|never the correct|canonical.{0,40}(?:layout|expected)|cannot encode|invalid",
        "the tile in shared memory lies in none of the layouts that the matrix unit reads",
        "build the layout of a swizzle's atoms, such as 8 rows of 128 bytes with swizzle 128B, K-major or MN-major",
    ),
    Cause(
        "TOOL007",
        r"elements|bytes",
        r"(?:divisib|multiple of).{0,24}(?:\b128\b|warp-?_? ?group).{0,12}(?:\(got|size|$)",
        "fewer elements than the threads of a warpgroup, or no multiple of them",
        "take a block whose elements are a multiple of 128, one for each thread of a warpgroup",
        unless=r"align|strides? (?:must|should)|inner|contiguous|minor|16 bytes|swizzl|tmem",
    ),
    Cause(
        "TCGEN010",
        r"sf_?vec|scale[ _-]?vec|vec(?:tor)?[ _]?size|scale[ _](?:factor|block|granular)|"
        r"(?:mx|nv)_?fp\d\w*_(?:block|group)|\w*nvfp4|\bmxfp[48]|\bmx[ _-]scale|scale swizzl|"
        r"\bblock_size\W{1,3}(?:16|32)\b|"
        r"block[-_ ]?wise|block[-_ ]?scal\w*|\bscale_?[ab]\b|\bsf_?[ab]\b",
        r"divisib|multiple|block_k >= ?\d|must be (?:16|32)|%\s?\w*block\w*\s?[!=]=\s?0|"
        r"should have \d|invalid .{0,30}scal|"
        r"(?:expected|requires?|must have|should be) .{0,40}(?:elements|shape)|(?:shape|"
        r"size).{0,20}(?:mismatch|expected)|mismatch.{0,30}shape",
        "the tile is no multiple of the elements that share a scale",
        "take 16 or 32 elements per scale, as the kind has, and extents that whole scale blocks fill",
        unless=r"stride|byte|memory|pointer",
    ),
    Cause(
        "TMA033",
        r"fp6|fp4|narrow|\b[46]-?bit|e3m2|e2m3|e2m1|packed|sub-?byte|u[46]\b",
        r"(?:multiple of|divisib|must be).{0,20}\b128\b",
        "packed elements of 4 or 6 bits do not come in boxes of 128",
        "take 128 packed elements in the innermost dimension of the box, and extents that are a multiple of 128",
        unless=r"swizzl|threads|align",
    ),
    Cause(
        "COPY004",
        r"(?:shared|smem)[- _](?:memory|operand|tensor|layout|buffer|tile|addr|ptr)|smem align",
        r"(?:128-?bit|16[- ]?bytes?).{0,40}align|align.{0,40}(?:128-?bit|16[- ]?bytes?)",
        "boxes do not begin at multiples of 16 bytes in shared memory: its contiguous axis is not the map's, or its "
        "rows "
        "are too short",
        "lay the tile out with the map's contiguous axis innermost, in rows of at least 16 bytes, and the buffer at a "
        "multiple of 128",
    ),
    Cause(
        "TMA019",
        r"tensor ?_?map|cutensormap|tma[ _]?desc\w*|descriptors? (?:object|address|ptr|pointer|storage|array)",
        r"\b(?:64|128)[- ]?(?:b\b|byte)|alignas|mod ?64|"
        r"(?:tensor ?_?map|cutensormap)\W{0,3} (?:\w+ ){0,4}(?:must be aligned|(?:not|mis|un)-? ?aligned)",
        "the CUtensorMap object is not aligned as it must be",
        OBJECT,
        unless=r"stride|swizzl|global|shape|inner|box",
    ),
    Cause(
        "COPY007",
        r"\btma\b|tma_|descriptor|\bbox\b|bulk|smem|shared",
        r"same (?:number of elements|shape|size|extents?|rank)|(?:shape|size|elements?|extents?|dtype|type)s?\b.{0,24}"
        r"(?:mismatch|differ|not match|n't match|must match|not equal|to equal)|mismatch.{0,24}(?:shape|size|elements)|"
        r"out of bound|not large enough|too small for(?!.{0,40}descriptor)",
        "the buffer in shared memory has not the extents of the box that is copied",
        "give the buffer and the map's box the same extents and type, without the stages",
        unless=r"swizzl|stride|align|exceed|capacity|usage|__shared__|scale|layouts? (?:mismatch|must|to equal)|"
        r"mismatched (?:\w+ ){0,3}elements|elements (?:mismatch|differ)|difference|between (?:two|the) |checkpoint|"
        r"state_?dict|\.weight\b",
    ),
    Cause(
        "TMA006",
        r"stride|pitch|leading dim",
        r"2 ?\^ ?40|1 ?(?:ull?)?\)? ?<< ?40|1099511627776",
        "a stride is not less than 2^40 bytes",
        "check the stride for an overflow; split the tensor if it is real",
        unless=r"\b16\b",
    ),
    Cause(
        "TMA007",
        r"(?:element|elem|traversal)[ _]?stride",
        rf"{_LIMIT}|\b8\b|must be 1",
        "an element stride is outside 1 to 8, or not 1 in the innermost dimension",
        STEP,
        unless=r"\b16\b.{0,12}byte|byte.{0,20}\baligned",
    ),
    Cause(
        "COPY004",
        r"shared|smem|sptr|s_ptr|\bdst\b.{0,20}address",
        r"(?:align|multiple|divisib).{0,60}\b(?:128|16)\b|\b(?:128|16)[- ]?b(?:ytes?)?.{0,24}align",
        "the shared memory of a copy does not begin at a multiple of 128 bytes",
        "begin each buffer of a box at a multiple of 128 bytes of shared memory, 1024 with swizzle 128B",
        unless=r"stride|exceed|size of the tile|inner|global|last dim|previous declaration",
    ),
    Cause(
        "COPY005",
        r"shared|smem|swizzl",
        r"(?:align|multiple|divisib).{0,60}\b(?:256|512|1024)\b|\b(?:256|512|1024)[- ]?b(?:ytes?)?.{0,24}align",
        "a swizzled tile does not begin where its pattern does",
        "align the buffer to 256, 512 or 1024 bytes for a swizzle of 32, 64 or 128 bytes",
    ),
    Cause(
        "TMA009",
        r"swizzl",
        r"granular|multiple of the .{0,24}(?:minor|inner)|(?:inner|box|tile|block|dim|extent|width|minor|contiguous|"
        r"bytes)\w*.{0,80}(?:"
        + _LIMIT
        + r"|equal|match)|(?:"
        + _LIMIT
        + r"|equal|match).{0,60}(?:inner|box|tile|block|dim|width|minor|contiguous)",
        "the box's innermost extent does not fit the swizzle's span",
        SPAN,
        unless=r"unsupported swizzl|invalid swizzl|rasteriz|threadblock|scale",
    ),
    Cause(
        "TMA011",
        r"swizzl",
        r"invalid|unsupported|not supported|unknown|must be (?:one of|32|64|none)|expected one of",
        "the swizzle is none that the copy engine has",
        "take swizzle none, 32B, 64B or 128B",
        unless=r"rasteriz|threadblock|type_to_swizzle|scal(?:e|ing)|divisib|\bmxfp|nvfp|\bsf_?",
    ),
    Cause(
        "BULK002",
        r"cp\.async\.bulk|bulk|1d[ _-]?tma|tma[ _-]?1d|copy[ _]size|transfer[ _]?size|num(?:ber)?[ _](?:of[ _])?bytes",
        rf"(?:{_ASKS}).{{0,40}}\b16\b",
        "a bulk copy's bytes are no multiple of 16",
        "copy whole multiples of 16 bytes from addresses that are multiples of 16",
        unless=r"stride|box|inner",
    ),
    Cause(
        "COPY001",
        r"coord|offset(?! must be 1)|start(?:ing)? (?:index|offset)|slice start|crd",
        rf"(?:{_ASKS}).{{0,40}}(?:\b16\b|128)|\b16[- ]byte.{{0,8}}align",
        "a copy's innermost coordinate is no multiple of 16 bytes",
        "begin each box at a multiple of 16 bytes along the innermost axis",
        unless=r"storage_?offset|stride|base|pointer|shared|smem|data_ptr",
    ),
    Cause(
        "TMA008",
        r"inner|last dim|\blast_dim|box|block[ _]?(?:shape|size|dim)?|tile|minor|contiguous (?:dim|axis)|boxdim",
        rf"(?:{_ASKS}|at least|minimum|whole).{{0,40}}\b16[ -]?_?(?:b\b|bytes?)",
        "the box's innermost extent is less than 16 bytes or no multiple of them",
        WIDER_BOX,
        unless=r"stride|base|address|pointer|\bptr|global_?dim|shape\(|\.size\(",
    ),
    Cause(
        "TMA003",
        r"box|block|tile|smem",
        r"(?:" + _LIMIT + r").{0,40}\b256\b|\b256\b.{0,30}(?:" + _LIMIT + r")|\bbox\b.{0,30}too (?:large|big|wide)",
        "a box has more than 256 elements along an axis",
        SPLIT_BOX,
        unless=r"threads|bytes|mma|registers|columns|instruction|M-mode|N-mode|wgmma|head",
    ),
    Cause(
        "TMA001",
        r"\brank|\bndim|\bdims?\b|dimension|dimensional|\b\dd\b",
        r"(?:" + _LIMIT + r"|in|==|to|must be|support).{0,24}\b(?:5|five)\b|1 ?(?:-|to|<=).{0,10}\b5\b",
        "the map has 0 or more than 5 dimensions",
        RANK,
        unless=r"align|byte|stride|divisib|multiple|%",
    ),
    Cause(
        "TMA002",
        r"shape|size|dim|extent",
        r"positive|non-?zero|not be (?:zero|0)|greater than (?:0|zero)|> ?0\b|is (?:0|zero)\b|"
        r"must be >= ?1\b|got 0\b|empty",
        "an extent of the tensor is 0",
        EXTENT,
        unless=r"stride|registers|align|smem|shared|cluster|stage|grid|dynamic|head_dim|log2",
    ),
    Cause(
        "WGMMA010",
        r"[kmn]n?-?_?major|\bmajor(?:ness|_\w+)?\b|_major\b|major::k",
        r"==|must|should|expect|require|only|need|not support|unsupported",
        "an operand is not in the major order that the matrix unit reads it in",
        "lay the operand out K-major: A by rows, B by columns; only 16-bit types are read with M or N contiguous",
        unless=r"arch|version|capab|cuda|row-?major|col(?:umn)?-?major|stride|sm_major|device|scale|\bsf",
    ),
    Cause(
        "TMA024",
        r"contiguous|stride|major|(?:row|col(?:umn)?)[-_]?major|leading dim|transposed",
        r"(?:last|inner|fast|minor|lead|trailing|unit|final|contiguous|stride\(-1\)|stride\[-1\]).{0,60}(?:\b(?:1|"
        r"one|unit)\b"
        r"|contiguous|stride)|(?:must|should|expect|expects|needs?|requires?|only).{0,60}(?:contiguous|major)|"
        r"is_(?:\w+_)?contiguous|expected \w+ to (?:not )?be transposed|"
        r"stride (?:of )?(?:1|one)\b|"
        r"stride\([^)]{0,12}\) ?==? ?1\b|stride\[[^\]]{0,12}\] ?==? ?1\b|(?:not|non)[ -]?contiguous|(?:row|"
        r"col(?:umn)"
        r"?)[-_]?major|no (?:unique )?stride-?1",
        "the innermost axis is not the contiguous one",
        CONTIGUOUS,
        unless=(
            r"(?:align|multiple|divisib).{0,30}\b(?:4|8|16|32|64|128)\b|\b(?:16|32|64|128)[- ]?b(?:ytes?)?[- ]align|"
            r"contiguous memory|is_contiguous\(\) *else|warning:|"
            # What a reporter says of a tensor is no condition of it.
            r"^(?!.*(?:must|should|expect|requir|needs?\b|only|check|assert))"
            r".*\ba (?:\w+ )?contiguous (?:\[|tensor|array)"
        ),
    ),
    Cause(
        "VEC002",
        r"ptr alignment|pointer alignment",
        r"(?:not|n't) (?:meet|satisf)",
        "a copy moves more bytes at once than its pointer is known to be aligned to{asked}",
        "state the pointer's alignment (assumed_align), lay the tile out so that accesses begin at multiples of their "
        "bytes, or take a narrower copy",
    ),
    Cause(
        "TMA004",
        r"\bbase\b|address|\baddr|pointer|\bptr|ptr\b|storage_?offset|misaligned tensor|\bstart\b",
        rf"(?:{_ASKS})",
        "the global address is no multiple of 16 bytes",
        ADDRESS.format(granule=16),
        unless=r"stride|shared|smem|swizzl|leading dim|\bld[abcd]\b|shape\[|ptr_?array|array_?ptr|tmem|"
        r"base (?:ind|tile)|slice start|tile (?:row|col|size)|\bsubtile|atom-aligned",
    ),
    Cause(
        "TMA004",
        r"(?:data|base|tensor|global|gmem)[ _](?:\w+ ){0,2}(?:pointer|ptr|address)|data_ptr",
        r"\b(?:is|lies at an|has an|begins at an|plus an?) offset\b|offset by",
        "the global address begins at an offset, which may be no multiple of 16 bytes",
        ADDRESS.format(granule=16),
        unless=r"shared|smem|int32|overflow|bounds",
    ),
    Cause(
        "TMA005",
        r"stride|pitch|leading[ _]dim|(?<!\.)\bld[abcdm]?\b(?!\.)|row[ _]?(?:size|bytes|length)",
        rf"(?:{_ASKS}|must be).{{0,60}}(?:{_SIXTEEN})|(?:{_SIXTEEN}).{{0,40}}(?:{_ASKS})|\b16B\b",
        "a stride is no multiple of 16 bytes",
        PAD,
        unless=r"^(?!.*byte.{0,6}align).*element[ _]?stride",
    ),
    Cause(
        "WGMMA009",
        r"\bk\b|block_?k|tile_?k|\bk_dim",
        r"(?:divisib|multiple|%).{0,40}(?:mma|instruction|atom|micro_?size)|(?:mma|instruction|atom|micro_?size).{0,40}"
        r"(?:divisib|multiple|%)",
        "the tile's depth is no multiple of the elements that one instruction multiplies",
        "take a tile along K that is a multiple of the instruction's depth: 32 bytes of wgmma and tcgen05, 16 or 32 "
        "elements of mma",
    ),
    Cause(
        "WGMMA002",
        r"\bm\b|block_?m|tile_?m|warp_?m\b|\bm_?warp",
        r"(?:divisib|multiple|%).{0,40}(?:per_?warp|mma|instruction|atom|micro_?size)|(?:per_?warp|mma|instruction"
        r"|atom|"
        r"micro_?size|warp_m|m_warp).{0,40}(?:divisib|multiple|%)",
        "the tile's rows are no multiple of those that one instruction multiplies",
        "take a tile whose rows are a multiple of the instruction's for each of its warps: 16 of mma, 64 of wgmma",
        unless=r"tcgen|umma|sm_?100",
    ),
    Cause(
        "VEC003",
        r"vectori[sz]|\bvec_?(?:size|len|width|elem)|(?:float|double|half|int|uint|bf16x|bfloat16x)[248]\b|"
        r"per_?thread|elements per (?:thread|load|access|vector)|quant_|quantize_|(?:rms|layer)_?norm|conv1d|rotary|"
        r"\brope\b",
        r"(?:divisib|multiple).{0,60}\b(?:2|4|8|16)\b|%\s?(?:2|4|8|16|vec_?\w*)\s?[!=]=\s?0",
        "the elements are no multiple of those that a thread moves at once",
        "pad the dimension to that multiple, or take vectors of fewer elements, one for the last few",
        unless=r"\btma|tensor ?_?map|descriptor|stride|gemm|\bmma|wgmma|scaled_mm|mat_?[ab12]\b|align|address|pointer|"
        r"threads|warps|block_?size",
    ),
    Cause(
        "TMA005",
        r"trailing dim|inner(?:most)? dim|last dim|size\(-?[01]\)|shape\[-?[01]\]|\b(?:[mnk]|mn)\b|head_?(?:dim|"
        r"size)"
        r"|hidden|in_features|out_features|"
        r"tensor|operand|mat_?[ab12]|output|problem|dimension|num_?cols|columns|scale",
        r"(?:divisib|multiple|aligned|alignment).{0,60}(?:\b(?:4|8|16)\b|\b128-?bit|tma)|tma.{0,40}(?:align)|%\s?(?:4"
        r"|8|"
        r"16|\w*align\w*)\s?[!=]=\s?0",
        "an extent that becomes a stride is no multiple of 16 bytes",
        _SCALED_TYPES,
        unless=r"threads|warps|registers|\b64\b|mma_?k|block_?size|num_warps|stage|cluster|sequence|batch|parallel|heads|"
        r"experts|ranks?\b|world|(?:<=|at most|up to) ?256\b",
    ),
    Cause(
        "TMA005",
        r"tensor|operand|matri|\btma\b|problem|dimension|\b[abcd]\b|leading|output|input",
        r"(?:invalid|insufficient|incompatible|unsupported|wrong|meet|violat\w+) .{0,24}alignment|alignment "
        r"(?:requirement|constraint|mismatch|error|of \d+ (?:bytes|elements))|\b(?:mis|un)-?aligned (?:tensor|operand|"
        r"stride|matri|problem|dimension|shape)|(?:tensor|operand|stride|matri\w+|shape|dimension)s? (?:is|are) "
        r"(?:not|un|mis)[ -]?aligned",
        "a stride or an address is no multiple of 16 bytes",
        PAD,
        unless=r"shared|smem|barrier|stage|swizzl|scale|vector|ldmatrix|cp\.async\b(?!\.bulk)",
    ),
    Cause(
        "TMA010",
        r"dtype|data[ _]?type|element[ _]?type|elemtype|type",
        r"(?:unsupported|not supported|unknown|invalid|"
        r"unexpected|no tma|cannot).{0,80}(?:tma|tensor ?_?map|descriptor)|(?:tma|tensor ?_?map|descriptor).{0,80}"
        r"(?:unsupported|not supported|unknown|invalid|does not support|has no\b|lacks\b)",
        "no tensor map has the element type",
        "view the elements as an unsigned integer of the same size",
        unless=r"type 'nonetype'|attributeerror|keyerror",
    ),
    Cause(
        "COPY013",
        r"atomic|reduc(?!tion dim)",
        r"(?:tma|bulk|descriptor).{0,80}(?:unsupported|not support|only)|(?:unsupported|not support|only)"
        r".{0,80}(?:tma|bulk|descriptor)",
        "the copy engine does not reduce this type so",
        "reduce 32- or 64-bit integers, or add f16, bf16, f32; others by threads",
    ),
    Cause(
        "TMEM018",
        r"\bcta\b.{0,20}\bdealloc|tcgen05\.(?:de)?alloc|tmem_?(?:de)?alloc|(?:tmem|tensor[ _]memory)\w* .{0,40}dealloc",
        r"(?:dealloc|free)\w* .{0,40}\bbefore\b.{0,40}(?:peer|other cta|alloc|done|finish)",
        "tensor memory of a pair of CTAs is freed before the other one has allocated it or is done with it",
        "let both CTAs meet at a cluster barrier after the allocation and again before either frees",
    ),
    Cause(
        "TMEM001",
        r"tmem|tensor[ _]memory",
        r"power of (?:2|two)|multiple of|at least 32|between 32 and",
        "an allocation of tensor memory is no power of two of 32 to 512 columns",
        "round the columns up to a power of two of at least 32",
    ),
    Cause(
        "TMEM002",
        r"tmem|tensor[ _]memory",
        r"(?:exceed|exhaust|out of|not enough|too many|more than|overflow|capacity|insufficient"
        r"|available).{0,60}|\b512\b.{0,24}(?:column|limit|max|there are)|(?:column|limit|max|most|only"
        r"|the).{0,24}\b512\b",
        "more columns of tensor memory are asked for than the 512 there are",
        "take fewer or narrower accumulators, 512 columns in all",
    ),
    Cause(
        "SMEM001",
        r"shared[ _]?mem|(?<!d)smem|shared[ _]storage|dynamic shared|sharedstorage|shared data",
        r"exceed|exhaust|out of|not enough|lacks?\b|requires? more|more .{0,40}than|too (?:much|large|"
        r"big|high)|insufficient|capacity|(?:larger|more|greater|bigger) than|maximum|beyond|limit|failed to (?:set|"
        r"allow)|overflow|constraint|(?:not|n't|no longer) fit|requests? \d|requested|required: ?\d|opt-?in|"
        r"memory assertion|assertion.{0,120}<=?",
        "the kernel needs more shared memory than a block has",
        "take a smaller block or fewer stages",
        # What processes share is another memory.
        unless=r"dataloader|\bworkers?\b|/dev/shm|shm[-_]size|\bipc\b|raise your shared",
    ),
    Cause(
        "TOOL010",
        r"\btile\b.{0,40}\bcluster\b|\bcluster\b.{0,40}\btile\b",
        r"unsupported|not support|invalid|combination|no (?:such )?(?:kernel|config)",
        "the program has no kernel of this tile and this cluster together",
        "take a tile and a cluster that the program's kernels for this GPU are listed with",
    ),
    Cause(
        "TOOL008",
        r"cluster[ _]?(?:size|shape|dim|launch|of|count)|\bclusters?\b",
        r"(?:size|shape|dim|cluster of|launch|clusters?).{0,40}(?:invalid|misconfig|exceed|larger|greater|more than|"
        r"divisib"
        r"|power of|at most|even\b|only|not support|unsupported|must be|multiple)|non-?portable|"
        r"(?:only|requires?|invalid|unsupported|expected) .{0,30}cluster|cluster.{0,30}(?:only|supported|requires?)|"
        r"fail\w* to launch .{0,30}cluster",
        "the cluster's shape is none that the kernel or the GPU has",
        "take a cluster of at most 8 CTAs that divides the grid, 16 if the kernel allows sizes that are not portable",
        unless=r"response|cancel|mask|head|k-?means|kmeans|node|slurm|kubernetes|\bray\b|"
        r"cluster[ _](?:barrier|sync|arrive|wait)\w*(?!.{0,40}(?:size|shape|dim))",
    ),
    Cause(
        "TOOL007",
        r"num_?warps|warp ?_?groups?|\w*_warps|threads",
        r"warps.{0,40}(?:multiple of|divisib\w+ by|%) ?4\b|"
        r"(?:wgmma|warp ?group|mma|setmaxnreg|consumer|pingpong|cooperative|tma).{0,80}"
        r"(?:divisib|multiple|requires?|must|only)|(?:divisib|multiple|requires?|must|only|at least).{0,80}(?:wgmma|"
        r"warp-?_? ?group|setmaxnreg|128)",
        "the warps form no groups of 4",
        "take a multiple of 4 warps, 128 threads, for each group that multiplies",
        unless=r"address|vectori[sz]",
    ),
    Cause(
        "WGMMA002/TCGEN003",
        r"\bm\b|block_?m|tile_?m|rows|m dim",
        r"(?:multiple|divisib|%|at least|must be).{0,30}\b64\b",
        "the tile's rows are no multiple of 64 for each warpgroup",
        "take a tile whose rows are a multiple of 64 for each warpgroup, or mma of warps for fewer rows",
        unless=r"tcgen|umma|sm_?100|head_?dim",
    ),
    Cause(
        "WGMMA008/TCGEN004",
        r"\bwarp_?n\b|\bn_?warp\b",
        r"%|divisib|multiple",
        "the columns of each warp are no multiple of those that one instruction multiplies",
        "take fewer warps along N, or more columns: 8 or 16 at least for each warp",
    ),
    Cause(
        "WGMMA008/TCGEN004",
        r"\bn\b|block_?n|tile_?n|columns|n dim",
        r"(?:multiple|divisib|%|must be).{0,30}\b(?:8|256)\b",
        "the tile's columns are no multiple of 8 up to 256",
        "take a multiple of 8 columns, 256 at most",
        unless=r"tcgen|umma|sm_?100|byte",
    ),
    Cause(
        "TCGEN003",
        r"\bm\b|block_?m|tile_?m|m-mode|rows|blockm",
        rf"{_DEMANDS}(?:(?:tcgen|umma|mma|sm_?100).{{0,80}}\b(?:64|128|256)\b|"
        r"\b(?:64|128|256)\b.{0,80}(?:tcgen|umma|mma|sm_?100))",
        "the tile's rows are none that tcgen05 has",
        "take 64 or 128 rows for one CTA, 128 or 256 for a pair",
        unless=r"wgmma|gmma|%",
    ),
    Cause(
        "TCGEN004",
        r"\bn\b|block_?n|tile_?n|n-mode|columns",
        rf"{_DEMANDS}(?:(?:tcgen|umma|mma|sm_?100).{{0,80}}\b(?:8|16|32|256)\b|"
        r"\b(?:8|16|32|256)\b.{0,80}(?:tcgen|umma|mma|sm_?100))",
        "the tile's columns are none that tcgen05 has",
        "take a multiple of 8 or 16 columns up to 256, of 32 for a pair with 8-bit integers",
        unless=r"wgmma|gmma",
    ),
    Cause(
        "WGMMA001",
        r"accumulator|\bacc\b|accum_?dtype",
        r"(?:only|support|expected|must|unsupported|invalid).{0,60}(?:f32|f16|fp32|fp16|s32|int32|float|dtype|type|"
        r"integer)|"
        r"(?:dtype|type).{0,60}(?:only|support|expected|must|unsupported|invalid)",
        "the matrix unit does not add these types in this accumulator",
        "take f32 sums, f16 for f16 operands, s32 for 8-bit integers",
    ),
    Cause(
        "WGMMA009",
        r"wgmma|gmma",
        r"unsupported|not supported|no (?:matching|eligible|valid|supported)|invalid|cannot|does not fit|"
        r"illegal(?! instr)|must be \d",
        "wgmma has no instruction of these types, shape and majors",
        "take a pair of types and a shape of the instruction's table: both operands of one 16-bit type or 8-bit floats",
        unless=r"sm_\d|arch|target|capab",
    ),
    Cause(
        "TCGEN001",
        r"tcgen05|umma|mmav5|utcmma",
        r"unsupported|not supported|no (?:matching|eligible|valid|supported)|invalid|cannot|illegal(?! instr)|"
        r"suitable instruction",
        "tcgen05 has no instruction of these types, shape and majors",
        "take a kind, shape and majors of the instruction's tables",
        unless=r"sm_\d|arch|target|capab|applicable|tcgen05\W?(?:alloc|dealloc|relinq|ld|st|cp|commit|wait|fence|shift)",
    ),
    Cause(
        "TOOL004",
        r"arch_major|\bsm (?:major|version|\d)|compute[ _]capab|get_device_capability|__cuda_arch|\btma\b|wgmma|"
        r"tcgen05|tmem|gmma|hopper|blackwell|sm_?\d\da?|sm\d\d|compute capab|deep_?gemm|flash.?attention|fa3|"
        r"cluster|mxfp|nvfp|fp8|ampere|\bmma\b|\bptx\b|\b[abh][1-3]00\b",
        r"arch_major\(\) *==|expected is_sm\w+ to be|"
        r"(?:requires?|needs?|only|supports?|supported|not (?:implemented|available|compiled|"
        r"built|applicable)|unsupported|undefined).{0,80}(?:hopper|blackwell|ampere|turing|sm (?:major|version)|"
        r"sm_?\d\d|compute capab|>= ?(?:9|10)|h100|b200|arch|gpu|device)|(?:\bis for|restricted to|intended for) "
        r"(?:sm_?\d|hopper|blackwell|ampere)|but (?:the |this |your |current )?(?:device|gpu)\b|"
        r"(?:hopper|blackwell|sm_?\d\d|\bsm \d\.\d|compute capab|"
        r"arch|gpu|device)"
        r".{0,160}(?:requires?|required|only|not support|unsupported|lacks?\b|"
        r"(?:is|are) not (?:\w+ )?(?:avail|implement|enabl|compil|built|recogni|capab|compat|defin|allow|valid|a\b)|"
        r"does not (?:have|implement|provide|contain|exist|match|offer|include|recogni|know))",
        "the kernel is for another GPU than the one it was asked to run on or compiled for",
        "compile for the GPU that runs it, with the suffix that its matrix and copy instructions need (sm_90a, "
        "sm_100a, "
        "sm_120a), or choose a kernel for the GPU that is there",
        unless=r"warning: unused",
    ),
    Cause(
        "TOOL004",
        r"tensor_?descriptors?|\btma\b|tensor maps?|wgmma|tcgen05|set_allocator|\bgluon\b|warp_speciali[sz]\w*|tmem|"
        r"mbarrier",
        r"unavailable|(?:is|are) not available|has no attribute|cannot import|not found",
        "the GPU, the toolkit or this version of the library lacks tensor maps or the matrix unit's instructions",
        "take a GPU of compute capability 9.0 or more, and a compiler that knows them, or a kernel without them",
        unless=r"(?<!set_)allocat|column|memory",
    ),
    Cause(
        "CUDA001",
        r"cutensormap\w*|tensor ?_?map|tma[ _]?desc\w*",
        # That a kernel fails which has a map is no word about the call that encodes it.
        rf"(?:fail\w*|error\w*|could not|cannot|unable|refus\w*|reject\w*)\b.{{0,60}}{_ENCODING}|"
        rf"{_ENCODING}\b.{{0,80}}\b(?:fail\w*|error\w*|invalid|refused|rejected)|"
        r"cutensormapencode\w*.{0,80}(?:fail|error|invalid|refus|return|!= ?0)|"
        r"(?:fail|error)\w*\b.{0,60}cutensormapencode|"
        r"(?:invalid|refus\w*|reject\w*|bad) (?:\w+ ){0,2}(?:tensor ?_?map|tma[ _]?desc)|"
        r"(?:tensor ?_?map|tma[ _]?desc\w*)\b.{0,20}\b(?:is |was )?(?:refused|rejected|invalid)|too small for",
        "the encode call refused a tensor map, whose fields the text does not print",
        "print the map's type, extents, strides, box, swizzle and address, or the tensor's shape, strides and type, "
        "and "
        "paste them: a stride or an address that is no multiple of 16 bytes is the most frequent cause",
        unless=r"0x|entry ?point|dlsym|import|undefined|symbol|no attribute",
    ),
    Cause(
        "TOOL004",
        r"\b(?:cuda|toolkit|driver|nvcc|ptxas|ptx)(?: toolkit| driver| runtime)? version",
        r"invalid|requires?|newer|older|insufficient|at least|>=|mismatch|unsupported|must be",
        "the toolkit or the driver is older than the kernel's instructions",
        "build with a toolkit that knows them and run on a driver of at least its version",
    ),
)

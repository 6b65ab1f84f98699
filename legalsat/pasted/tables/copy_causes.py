"""What lines of kernel libraries ask of boxes, bulk copies, register budgets and tensor memory, in words of their own.

Rows like those of `legalsat.pasted.tables.cause_table`, tried before them: each asks for two things that only one rule
joins, so that a more general row behind it is not taken instead.
"""

from __future__ import annotations

from legalsat.pasted.grammar import Cause

COPY_CAUSES = (
    Cause(
        "VEC001",
        r"cp[._]async(?!\.bulk|_bulk)",
        r"\b(?:1|2|3|5|6|7|12)[- ]?b(?:ytes?)?\b",
        "cp.async copies 4, 8 or 16 bytes, and no fewer",
        "let each thread copy 4, 8 or 16 bytes, and load what is left over without cp.async",
        unless=r"0x|offset|align",
    ),
    Cause(
        "PIPE020",
        r"wgmma|\bgmma|\bmma\b|warp ?-?group",
        r"(?:compiler|ptxas|nvcc)\b.{0,80}(?:fences?|arrive)\b.{0,60}(?:insert|inject|added|needed|missing)|"
        r"(?:fences?|arrive)\b.{0,60}(?:insert|inject)\w*.{0,40}(?:compiler|ptxas|nvcc)",
        "no wgmma.fence orders the registers of a wgmma behind what wrote them, and the compiler inserts one",
        "execute wgmma.fence (warpgroup_arrive) before the first wgmma of each group that reads or adds to registers",
        unless=r"proxy|mbarrier",
    ),
    Cause(
        "TCGEN003",
        r"dot_?scaled|scaled_?(?:dot|mma|mm\b)|mma_?scaled|block[- _]?scaled",
        r"\b(?:block_?|tile_?)?m\b.{0,40}(?:multiple of|divisib\w+ by|% ?|at least|>=|must be) ?128\b",
        "a block scaled multiply of tcgen05 has 128 rows for each CTA",
        "take a tile of 128 rows, pad the last one, or take a kernel that masks its rows",
        unless=r"stride|byte",
    ),
    Cause(
        "TMEM018",
        r"tmem|tensor[ _]memory",
        r"(?:read|load|access|ld|use)\w*\b.{0,60}\bafter\b.{0,60}(?:dealloc|freed|free\b|releas|allocation)|"
        r"use[- ]after[- ]free|(?:dealloc|freed|free\b|releas)\w*\b.{0,40}\bbefore\b.{0,60}(?:read|load|\bld|done|"
        r"finish|use)",
        "tensor memory is read after it was freed: those that read and the warp that frees do not meet before",
        "let all warps that read it, of both CTAs of a pair, arrive at a barrier before tcgen05.dealloc",
        unless=r"permit|stage|slot|buffer",
    ),
    Cause(
        "TMA008",
        r"\b(?:inner(?:most)?|contiguous)\b[ _-]{0,2}(?:tma |smem )?(?:box|tile)",
        r"(?:not|must|should|has to|un)[^.;]{0,30}\b16[- ]?b(?:ytes?)?\b|\b16[- ]?b(?:ytes?)?[- ]aligned",
        "the box's innermost extent is no multiple of 16 bytes",
        "take a box whose innermost extent fills a multiple of 16 bytes: 8 elements of 16 bits, 16 of 8",
        unless=r"stride|swizzle",
    ),
    Cause(
        "WGMMA004",
        r"\btma\b|wgmma|gmma|umma|\btile|\bsmem|shared",
        r"must be (?:\W{0,2}\d+ ?b\W{0,2} )?swizzled|(?:is|are) (?:not|un)-?swizzled|(?:needs?|requires?|expects?) "
        r"(?:a |the )?(?:\d+ ?b )?swizzled",
        "the tile in shared memory lies in no atoms of the swizzle that the kernel is written for",
        "build its layout of a swizzle's atoms, 8 rows of the swizzle's bytes, for the copy and the product alike",
        unless=r"scale|\bsf\b|rasteriz|threadblock",
    ),
    Cause(
        "TMA011",
        r"swizzl",
        r"(?:un|mis)-?aligned (?:\w+ )?swizzl|swizzl\w* (?:is |are )?(?:un|mis)-?aligned",
        "the box's innermost extent is no multiple of the swizzle's span, or longer than it",
        "take a box whose innermost extent is the swizzle's span, 128 bytes at most, or a narrower swizzle",
        unless=r"scale|base|address",
    ),
    Cause(
        "BULK002",
        r"\bchunk|\btransfer|\bbulk|tma[ _](?:store|load|copy|reduce)",
        r"(?:divisib|multiple|align)\w*.{0,24}\b16[- ]?b(?:ytes?)?\b|\b16[- ]?b(?:ytes?)?[- ]align|"
        r"tma-?aligned.{0,6}\b16\b|^.{0,20}(?:un|mis)-?aligned tma (?:store|load|copy|reduce)\b",
        "the bytes of a bulk copy are no multiple of 16",
        "pad each chunk to a multiple of 16 bytes, or copy what is left over by threads",
        unless=r"stride|address|pointer|base|box|inner",
    ),
    Cause(
        "TOOL003",
        r"setmaxn?reg|num_?reg(?:ister)?s?\b|maxn?reg\b",
        r"(?:outside|out of|not in|beyond)\b.{0,40}\b(?:range|24|256)|must be .{0,20}(?:between|range|in)\b.{0,10}\b24|"
        r"multiple of 8|divisib\w+ by 8",
        "setmaxnreg takes 24 to 256 registers, a multiple of 8",
        "give each warpgroup a multiple of 8 registers of 24 to 256, 65536 in all for the threads of the block",
    ),
    Cause(
        "TOOL007",
        r"num_?warps|\bwarps\b",
        r"(?:must|should|has to|expected to) be (?:a )?(?:multiple of|divisib\w+ by) ?4\b|"
        r"(?:needs?|requires?|at least) (?:whole |a full |full |a )?warp ?-?groups?",
        "the warps form no groups of 4",
        "take a multiple of 4 warps, 128 threads, for each group that multiplies",
        unless=r"address|vectori[sz]",
    ),
    Cause(
        "TOOL007",
        r"\b128 threads\b|threads.{0,20}\b128\b",
        r"^\W{0,4}(?:\w+: )?(?:need|requires?|must have|expect\w*)s? (?:at least |exactly )?128 threads",
        "a group that multiplies has 128 threads",
        "take a multiple of 4 warps, 128 threads, for each group that multiplies",
    ),
    Cause(
        "TCGEN004",
        r"\b[12] ?-?sm\b|\bm(?:32|64|128|256)\b.{0,20}tmem|umma|tcgen05|tmem fragment",
        r"\bn\b[ _]?(?:atom|extent|dim\w*|mode|size)?.{0,24}(?:(?:divisib\w+ by|multiple of|% ?)\W{0,2}(?:4|8|16|32)\b"
        r"|must be (?:even\b|(?:64|32|16|8), ))",
        "the tile's columns are none that tcgen05 has",
        "take a multiple of 8 or 16 columns up to 256, of 32 for a pair with 8-bit integers",
        unless=r"wgmma|byte|stride",
    ),
    Cause(
        "TOOL010",
        r"warp ?-?groups?|warps",
        r"(?:exceed|more than|too many).{0,20}tmem (?:stages|buffers)",
        "more groups add up than the kernel keeps accumulators for; a rule of the kernel, not of the hardware",
        "take fewer groups or more stages of the accumulator",
    ),
    Cause(
        "TMEM002",
        r"tmem|tensor[ _]memory",
        r"(?:rows|columns|cols).{0,24}(?:required|needed|requested|asked) (?:for|by)|"
        r"(?:but|while) (?:a|the|each) (?:cta|sm|block) (?:only )?has|budget",
        "more of tensor memory is asked for than its 128 lanes and 512 columns",
        "take fewer or narrower accumulators, 512 columns in all",
        unless=r"power of",
    ),
    Cause(
        "WGMMA009",
        r"wgmma|\bgmma",
        r"(?:cannot|could not|can't|unable to|no) (?:find|select|match|suitable|matched|matching)\w*",
        "wgmma has no instruction of these types, shape and majors",
        "take a pair of types and a shape of the instruction's table: both operands of one 16-bit type or 8-bit floats",
        unless=r"sm_\d|arch|target|capab",
    ),
    Cause(
        "TCGEN010",
        r"(?:scale|\bsf\b|_descale\b|scaling factor)",
        r"swizzled.{0,30}layout.{0,40}(?:require|need|expect|\d|\(|$)|128x4.{0,30}(?:layout|require|expect)|"
        r"f8_128x4",
        "the scales are fewer than the blocks of 128 rows by 4 scales that the instruction reads",
        "pad the scales to whole blocks of 128 x 4 and lay them out as 32 x 4 x 4, in the swizzled order",
        unless=r"already|requantiz|unswizzled",
    ),
    Cause(
        "TOOL011",
        r"\bgrid\b|\bctas?\b.{0,24}(?:along|count)|blocks along",
        r"(?:along|in|\.) ?[yz]\b.{0,40}(?:exceed|out of range|too (?:large|big)|> ?65535|at most)|"
        r"(?:exceed\w*|limit|at most|max\w*).{0,24}(?:grid (?:limit|size)|65,?535)",
        "the grid is longer along y or z than 65535 blocks",
        "count the long axis along x, or fold it into another",
    ),
    Cause(
        "TOOL013",
        r"\bgrid\.?_?x?\b",
        r"(?:grid\.?_?x|x[- ]?(?:dim\w*|axis)?).{0,20}(?:out of range|overflow|exceed|too (?:large|big)|2\^31|int_max)",
        "the grid is longer along x than 2^31 - 1 blocks, or its count does not fit 32 bits",
        "let each block take more of the work, or loop over it",
    ),
    Cause(
        "SMEM001",
        r"shared[ -]?mem\w*|smem",
        r"(?:\d|over|within|the) ?(?:\w+[- ])?budget|(?:do|does|will) not fit|budget (?:of|is|exceeded)"
        r"|exceed\w* .{0,40}budget",
        "the kernel needs more shared memory than a block has",
        "take a smaller block or fewer stages",
        unless=r"tmem|tensor memory|register",
    ),
    Cause(
        "VEC001",
        r"\.cg\b|cache modifier|cp[._]async(?!\.bulk|_bulk)",
        r"only (?:supports? |takes? )?16[- ]?b|(?:16|4, 8)\b.{0,12}bytes? (?:copies|only)",
        "cp.async.cg copies 16 bytes, cp.async.ca 4, 8 or 16",
        "copy 16 bytes a thread from addresses that are multiples of 16, or use cp.async.ca",
    ),
)

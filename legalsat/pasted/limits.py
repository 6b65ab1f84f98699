"""Numbers that a text tells of a failure, beside what the hardware takes: threads, blocks, registers, strides.

Each row says how such a number reads, which numbers the target takes, and the rule that says so. Shared memory, tensor
maps and instructions have readers of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from math import prod
from typing import NamedTuple

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.sentences import RULE_OF
from legalsat.rule import require
from legalsat.targets import GRANULE_BYTES, Target

MOST_THREADS, MOST_BLOCKS, MOST_REGISTERS, MOST_CLUSTER, MOST_FOUND = 1024, 65535, 255, 16, 64
_GROUP = 128  # threads of a warpgroup
_ALLOCATED = 8  # registers of a thread are given out by so many
_BLOCK = re.compile(
    r"\b(?:block_?(?:dim|size)(?:\.x)?|threads[ _]per[ _]block)(?: (?:is|of))?\W{1,4}"
    r"(?P<threads>\d{1,4}(?:, ?\d{1,4}){0,2})\b",
    re.I,
)
_RESIDENT_THREADS, _RESIDENT_BLOCKS = 2048, 32  # that a processor of any GPU holds at once
_FAILS = re.compile(
    r"invalid|exceed|must be|more than|greater|larger|too (?:many|large)|fail|error|assert|refus|limit|maxim|cannot|"
    r"can't|reject|"
    r"illegal|segv|segfault|not (?:generat|produc)|no output|"
    r"unwritten|budget|stale|not support|unsupport|wrong|garbage|corrupt|hang|crash|dead-?lock|forever",
    re.I,
)
_OF_LAUNCHES = re.compile(
    r"invalid ?config|launch\w* (?:fail|error)|fail\w* to launch|(?:CUDA error|cudaError):? ?\(?9\b", re.I
)
_TRIPLE = r"[({\[]\s?(?:x:? ?)?(\d{1,9}),\s?(?:y:? ?)?(\d{1,9})(?:,\s?(?:z:? ?)?(\d{1,9}))?\s?[)}\]]"
_A_GRID = re.compile(rf"\bgrid(?:_?dim\w*|[ _]size|s)?\s?[=:]?\s?(?:dim3)?{_TRIPLE}", re.I)
_OF_CLUSTERS = re.compile(
    r"(?:invalid|misconfigured) ?cluster|cluster_?size|launch\w* (?:fail|error)|fail\w* to launch|invalid ?config", re.I
)


_NAMED = re.compile(r"\b([A-Za-z_]\w{0,40}) ?= ?(\d{1,6})\b")
_PRODUCT = re.compile(
    r"(?<![\w*])((?:[A-Za-z_]\w{0,40}|\d{1,6})(?: ?\* ?(?:[A-Za-z_]\w{0,40}|\d{1,6})){1,3})(?= threads\b)"
)


class _Limit(NamedTuple):
    """How a number reads in a line, what it is of the groups, whether the target refuses it, and what to say of it."""

    pattern: str
    number: Callable[[re.Match[str], Target], int]
    refuses: Callable[[int, Target], bool]
    code: str
    message: str
    help: str


def _only(match: re.Match[str], target: Target) -> int:
    return next(int(one) for one in match.groups() if one)


_THREADS = "{number} threads are more than the 1024 that a block has on any GPU"
_FEWER = "take fewer threads: fewer warps, warpgroups or threads of a tile for each block, and more blocks"
_GRID = "{number} blocks along y or z of the grid are more than the 65535 that a launch takes there"
_ALONG_X = "put the long axis first, along x, which takes 2147483647 blocks, or loop in the kernel"


def _kib(match: re.Match[str], target: Target) -> int:
    return int(match[1]) * 1024


def _shared_out(match: re.Match[str], target: Target) -> int:
    """Return the CTAs of a multicast if they are more than the elements of the box that each loads a part of."""
    box, ctas = prod(int(one) for one in re.findall(r"\d+", match["box"])), int(match["ctas"] or match["named"])
    return ctas if ctas > box else 0


def _not_resident(match: re.Match[str], target: Target) -> int:
    """Return the blocks of a cooperative grid if their threads alone are more than the GPU's processors hold."""
    blocks, threads = int(match["blocks"]), int(match["threads"])
    if target.device is None or not threads:
        return 0
    return blocks if blocks > target.device.processors * min(_RESIDENT_THREADS // threads, _RESIDENT_BLOCKS) else 0


def _least_of_launch(match: re.Match[str], target: Target) -> int:
    """Return the least extent of a grid or block, 1 where the text is about no launch: indices begin with 0 too."""
    return min(int(one) for one in match.groups() if one) if _OF_LAUNCHES.search(match.string) else 1


def _uneven(match: re.Match[str], target: Target) -> int:
    """Return the extent of a cluster that does not divide the only grid beside it where a launch fails, or 0."""
    grids = {one.groups() for one in islice(_A_GRID.finditer(match.string), MOST_FOUND)}
    if len(grids) != 1 or not _OF_CLUSTERS.search(match.string):
        return 0
    pairs = zip(match.groups(), grids.pop(), strict=True)
    return next((int(one) for one, blocks in pairs if one and blocks and int(one) and int(blocks) % int(one)), 0)


def _workgroup(match: re.Match[str], target: Target) -> int:
    """Return the threads of a workgroup if they are more than the limit that is printed beside them."""
    threads = prod(int(one) for one in re.findall(r"\d+", match["threads"]))
    return threads if threads > int(match["most"]) else 0


def _many_threads(number: int, target: Target) -> bool:
    return number > MOST_THREADS


def _many_blocks(number: int, target: Target) -> bool:
    return number > MOST_BLOCKS


def _unshared(match: re.Match[str], target: Target) -> int:
    """Return the warps of a product whose tiles of 16 rows and 8 columns no split into warps covers; 0 if one does."""
    rows, columns, warps = int(match["m"]), int(match["n"]), int(match["threads"]) // target.lanes
    splits = (one for one in range(1, warps + 1) if warps % one == 0)
    covered = any(rows % (16 * one) == 0 and columns % (8 * (warps // one)) == 0 for one in splits)
    return 0 if covered or not warps else warps


def _of_threads(match: re.Match[str], target: Target) -> int:
    """Return the registers of a block of as many threads as the text tells, with those of ptxas for each; 0 of none."""
    block = _BLOCK.search(match.string)
    each = -(-int(match["each"]) // _ALLOCATED) * _ALLOCATED
    return each * min(prod(int(one) for one in re.findall(r"\d+", block["threads"])), MOST_THREADS) if block else 0


def _of_warpgroups(match: re.Match[str], target: Target) -> int:
    """Return the registers of a block whose warpgroups have as many for each thread as a text lists."""
    return sum(int(one) for one in re.findall(r"\d+", match["each"])) * _GROUP


_REGISTERS_OF = re.compile(
    r"\b(?:\w{0,20}reg_(?=(?:de)?alloc))?(?P<way>(?:(?<=reg_)(?:de)?alloc)|(?:in|de)crease_registers|inc|dec)\b"
    r"[\w.]{0,20}\s?[<( ]\s?(?P<each>\d{2,3})\b"
)
_COUNTED = {"two": 2, "three": 3, "four": 4, "five": 5}


def _of_roles(match: re.Match[str], target: Target) -> int:
    """Return the registers of as many consumers' warpgroups as the text tells and of one producer's; 0 if not told."""
    told = [(one["way"], int(one["each"])) for one in islice(_REGISTERS_OF.finditer(match.string), MOST_FOUND)]
    more, fewer = ({each for way, each in told if way.startswith("de") == less} for less in (False, True))
    if len(more) != 1 or len(fewer) != 1:
        return 0
    count = match["count"] or match["macro"]
    return (_COUNTED.get(count, 0) or int(count)) * more.pop() * _GROUP + fewer.pop() * _GROUP


def _least_coordinate(match: re.Match[str], target: Target) -> int:
    return min(int(one) for one in re.findall(r"-?\d+", match["coordinates"]))


_LIMITS = (
    _Limit(
        r"\b(?P<count>\d|two|three|four|five) (?:math |mma )?consumer(?: warp ?group|s\b| WG)"
        r"|\b\w{0,12}CONSUMER_?(?:WARPGROUPS?|WGS?)\b\W{1,4}(?P<macro>\d)\b",
        _of_roles,
        lambda number, target: number > target.registers_per_processor,
        "TOOL003",
        "the consumers' warpgroups and the producer's ask {number} registers together, more than an SM has",
        "give each consumer fewer, so that all of them and the producer have no more than 65536 together",
    ),
    _Limit(
        r"\b(?P<rank>\d{1,2})[- ]?(?:d|dimension(?:s|al)?|dims?)\b[^\n.]{0,16}\b(?:tensor ?map|tma)\b"
        r"|\b(?:tensor ?map|tma desc\w*)\b[^\n.]{0,16}?\b(?:with|of|has|rank)\s(?:rank )?(?P<rank_too>\d{1,2})"
        r"(?:[- ]?(?:d|dims?|dimensions?)|(?<=rank \d))\b",
        _only,
        lambda number, target: target.tma is not None and target.tma.max_rank < number <= 2 * target.tma.max_rank,
        "TMA001",
        "a tensor map of {number} dimensions, and it has 5 at most",
        "merge dimensions that lie one after the other, or copy slices by maps of fewer dimensions",
    ),
    _Limit(
        r"\b(?:stores?|reduc\w{1,6})\b[^\n]{0,80}?\bcoord\w{0,8}[^\d\n(\[{-]{0,16}"
        r"[(\[{](?P<coordinates>\s?-?\d{1,9}(?:,\s?-?\d{1,9}){0,4})\s?[)\]}]",
        _least_coordinate,
        lambda number, target: target.tma is not None and number < 0,
        "COPY002",
        "a store begins at coordinate {number}, which is an illegal instruction in any dimension",
        "begin stores inside of the tensor, and leave out what lies in front of it",
    ),
    _Limit(
        r"(?:setmaxn?reg\w*|register)(?: budgets?)?s?[^\d\n]{0,40}?(?P<each>\d{2,3}(?:\s?[/,+]\s?\d{2,3}){1,6})\b"
        r"(?=[\s\S]{0,400}warp ?-?group)",
        _of_warpgroups,
        lambda number, target: number > target.registers_per_processor,
        "TOOL003",
        "warpgroups of 128 threads with so many registers each take {number}, more than an SM has",
        "give the warpgroups that only copy 24 to 40 registers, so that all of them together have no more than 65536",
    ),
    _Limit(
        r"\bgemm\b[^\n]{0,60}?\bm ?= ?(?P<m>\d{1,4})\b[^\n]{0,20}?\bn ?= ?(?P<n>\d{1,4})\b[^\n]{0,40}?"
        r"\bthreads ?= ?(?P<threads>\d{2,4})\b",
        _unshared,
        lambda number, target: number > 0,
        "TOOL007",
        "{number} warps cannot share the tile: no split of them gives each whole tiles of 16 rows and 8 columns",
        "take a number of warps that divides the tile's rows over 16 times its columns over 8",
    ),
    _Limit(
        r"\bthreads?(?: (?:per|in a|of a) (?:thread )?(?:block|cta))?\b(?! id)[^\d\n(]{0,24}?(\d{4,6})\b"
        r"|\bblock[ _]?(?:dim|size(?!s))\w*[^\d\n(]{0,12}?(\d{4,6})(?=[^\n]{0,60}(?:threads|\b1024\b))"
        r"|(?<![\w.])(\d{4,6}) (?:cuda )?threads\b|__launch_bounds__\((\d{4,6})",
        _only,
        _many_threads,
        "TOOL011",
        _THREADS,
        _FEWER,
    ),
    _Limit(
        r"\bnum_warps\s?[=:]\s?(\d{1,4})\b",
        lambda match, target: int(match[1]) * target.lanes,
        _many_threads,
        "TOOL011",
        _THREADS,
        _FEWER,
    ),
    _Limit(
        rf"\b(?:block_?dim\w*|threads)\s?[=:]?\s?(?:dim3)?{_TRIPLE}",
        lambda match, target: prod(int(one) for one in match.groups() if one),
        _many_threads,
        "TOOL011",
        _THREADS,
        _FEWER,
    ),
    _Limit(
        rf"\bgrid(?:_?dim\w*|[ _]size|s)?\s?[=:]?\s?(?:dim3)?{_TRIPLE}",
        lambda match, target: max(int(one) for one in match.groups()[1:] if one),
        _many_blocks,
        "TOOL011",
        _GRID,
        _ALONG_X,
    ),
    _Limit(
        rf"\b(?:grid(?:_?dim\w*|[ _]size|s)?|block_?dim\w*)\s?[=:]?\s?(?:dim3)?{_TRIPLE}",
        _least_of_launch,
        lambda number, target: number == 0,
        "TOOL011",
        "an axis of the launch has {number} blocks or threads, and each has one at least",
        "return before the launch where there is nothing to do",
    ),
    _Limit(
        rf"\bcluster(?:_?dims?|_?shape|_?size|[ ](?:dims?|shape|size))?\s?[=:]?\s?(?:dim3)?{_TRIPLE}",
        _uneven,
        lambda number, target: number > 0,
        "TOOL008",
        "a cluster of {number} CTAs along an axis does not divide the blocks of the grid there",
        "round the grid up to whole clusters and let CTAs past the end do nothing, or take a smaller cluster",
    ),
    _Limit(
        r"\bcooperative(?:ly)?\b[^\n]{0,300}?(?<![\w.])(?P<blocks>\d{1,6}) blocks (?:of|with|x) (?P<threads>\d{1,4}) "
        r"threads",
        _not_resident,
        lambda number, target: number > 0,
        "CUDA720",
        "{number} blocks of a cooperative grid have more threads than are resident at once, 2048 of each SM",
        "launch as many blocks as cudaOccupancyMaxActiveBlocksPerMultiprocessor gives, times the SMs, and let "
        "each loop over the work",
    ),
    _Limit(
        r"\bgrid(?:_?dim\w*|[ _](?:size|dim\w*))?[ .]{0,2}(?:in |along )?[yz]\b\D{0,12}?(\d{5,9})\b",
        _only,
        _many_blocks,
        "TOOL011",
        _GRID,
        _ALONG_X,
    ),
    _Limit(
        r"\bclusters? (?:of|size(?: of)?|dim\w*)\s?[=:]?\s?(\d{1,4})\b(?! ?[x,])|\bcluster_size\s?[=:]\s?(\d{1,4})\b",
        _only,
        lambda number, target: target.max_cluster > 1 and number > MOST_CLUSTER,
        "TOOL008",
        "a cluster of {number} CTAs is larger than any GPU takes, 8, or 16 where the kernel allows it",
        "take a cluster of at most 8 CTAs, 16 with cudaFuncAttributeNonPortableClusterSizeAllowed",
    ),
    _Limit(
        r"\bUsed (?P<each>\d{1,3}) registers",
        _of_threads,
        lambda number, target: number > target.registers_per_processor,
        "TOOL003",
        "the registers of a block of so many threads are {number}, more than an SM has",
        "say __launch_bounds__(threads) at the kernel, so that the compiler spares registers, or take fewer threads",
    ),
    _Limit(
        r"(?<![\w.])(\d{3,4}) registers(?: each| per thread| a thread|/thread)",
        _only,
        lambda number, target: number > MOST_REGISTERS,
        "TOOL003",
        "{number} registers are more than the 255 that a thread has",
        "take a smaller tile for each thread, or more threads",
    ),
    _Limit(
        r"(?:\btma\b|tensor ?map|encodetiled)[^\n]{0,120}?strides?\b\w*[^\d\n*(]{0,24}(\d{1,9}) ?(?:bytes|B)\b|"
        r"\bglobal_?strides?\b[^\d\n*(]{0,24}(\d{1,9}) ?(?:bytes|B)\b",
        _only,
        lambda number, target: target.tma is not None and number % GRANULE_BYTES != 0,
        "TMA005",
        "a stride of {number} bytes is no multiple of 16",
        "pad the tensor so that every stride but the innermost is a multiple of 16 bytes",
    ),
    _Limit(
        r"\buint64_t \w{0,40}(?:gs|strides?)\[\d?\] ?= ?\{ ?(\d{1,9}) ?[,}]",
        _only,
        lambda number, target: target.tma is not None and number % GRANULE_BYTES != 0,
        "TMA005",
        "the array of strides begins with {number}, and a tensor map's are counted in bytes, multiples of 16",
        "give the strides of all axes but the innermost, in bytes",
    ),
    _Limit(
        r"(?:smem|share?d?_?mem)(?!\w{0,20}(?:per|total))\w{0,40}\b\W{0,4}(?:(?:was|is|of|to)\b)?\W{0,4}"
        r"(\d{2,4}) ?ki?b\b",
        _kib,
        lambda number, target: number > target.shared_bytes_per_block,
        "SMEM001",
        "{number} bytes of shared memory are more than a block of this GPU has",
        "take a smaller tile or fewer stages on this GPU, and ask for its own limit "
        "(cudaDevAttrMaxSharedMemoryPerBlockOptin)",
    ),
    _Limit(
        r"make_tma_(?:atom|copy)\w{0,20}\([^\n]{0,120}multicast[^\n]{0,120}?\((?P<box>_?\d{1,4}(?:, ?_?\d{1,4}){0,4})\)"
        r"[^\n]{0,80}?Int<(?:(?P<ctas>\d{1,4})>|(?P<name>\w{1,40})>[\s\S]{0,400}?\b(?P=name) ?= ?(?P<named>\d{1,4})\b"
        r"\W{0,4}(?=segv|fail|crash|error|hang))",
        _shared_out,
        lambda number, target: target.tma is not None and number > 0,
        "TOOL008",
        "a multicast to {number} CTAs has more of them than the box has elements, of which each CTA loads a part",
        "multicast to no more CTAs than divide the box, or take a larger box",
    ),
    _Limit(
        r"\bthreadsPerThreadgroup\.\w{1,10}\((?P<threads>\d{1,5})\) must be <= (?P<most>\d{1,5})\b",
        _workgroup,
        lambda number, target: number > 0,
        "TOOL011",
        "{number} threads are more than the device takes in a threadgroup",
        "take fewer threads in a threadgroup, and more threadgroups",
    ),
    _Limit(
        r"\bwgmma\b[^\n]{0,40}?(?:\bn\s?=\s?|\bm64n)(\d{1,4})(?:\b|(?=k\d))",
        _only,
        lambda number, target: target.wgmma is not None and not (0 < number <= 256 and number % 8 == 0),
        "WGMMA008",
        "wgmma has no {number} columns",
        "take a multiple of 8 columns, 256 at most",
    ),
)
_COMPILED = tuple((re.compile(one.pattern, re.I), one) for one in _LIMITS)


def _with_products(text: str) -> str:
    """Return a text with the number of threads that it tells as a product of names that it gives a number."""
    names: dict[str, set[str]] = {}
    for match in islice(_NAMED.finditer(text), MOST_FOUND):
        names.setdefault(match[1], set()).add(match[2])

    def number(match: re.Match[str]) -> str:
        factors = [names.get(one.strip(), {one.strip()}) for one in match[1].split("*")]
        known = [next(iter(one)) for one in factors if len(one) == 1]
        whole = len(known) == len(factors) and all(one.isdigit() for one in known)
        return str(prod(map(int, known))) if whole else match[0]

    return _PRODUCT.sub(number, text)


def explain_limits(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield the numbers of an even text that the target refuses, each rule once, where the text tells of a failure."""
    if not _FAILS.search(text):
        return
    told, text = set(), _with_products(text)
    for pattern, limit in _COMPILED:
        for match in islice(pattern.finditer(text), MOST_FOUND):
            number = limit.number(match, target)
            if limit.code not in told and limit.refuses(number, target):
                told.add(limit.code)
                requirement = require(False, limit.message, help=limit.help, number=number)
                yield RULE_OF[limit.code].diagnostic(requirement, f'text "{match[0]}"')


def within_limits(text: str, target: Target) -> set[str]:
    """Return the rules of which an even text prints numbers that are all in order: none of them is its cause."""
    text = _with_products(text)
    judged = [
        (limit.code, limit.refuses(number, target))
        for pattern, limit in _COMPILED
        for match in islice(pattern.finditer(text), MOST_FOUND)
        if (number := limit.number(match, target)) > 0
    ]
    return {code for code, _ in judged} - {code for code, refused in judged if refused}

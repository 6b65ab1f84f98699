"""Causes named in words that no known program prints, recognised by what a line is about and what it asks.

Whoever checks a copy before it runs says the same few things in sentences of its own: a stride, an address, a box or a
tile, and a multiple, a limit or an order. A line that names both halves of a row is taken for its cause. The rows are
tried in their order, and a line has one cause at most. Lines of prose that merely mention TMA name none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from legalsat.pasted.conditions import MULTIPLE, SHORTENED, condition
from legalsat.pasted.grammar import Cause, without_layouts
from legalsat.pasted.results import RESULTS
from legalsat.pasted.tables.cause_table import CAUSES
from legalsat.pasted.tables.copy_causes import COPY_CAUSES
from legalsat.pasted.tables.fault_checks import FAULT_CAUSES
from legalsat.pasted.tables.operand_causes import OPERAND_CAUSES
from legalsat.pasted.tables.program_causes import (
    ASKED,
    EXTENTS,
    LAST_CAUSES,
    MACROS,
    NO_CHECK,
    OWN_CHECKS,
    PROGRAM_CAUSES,
)
from legalsat.pasted.tables.protocol_causes import PROTOCOL_CAUSES

LONGEST_LINE, MOST_LINES = 400, 400
ROWS = (*COPY_CAUSES, *PROGRAM_CAUSES, *OPERAND_CAUSES, *PROTOCOL_CAUSES, *FAULT_CAUSES, *CAUSES, *LAST_CAUSES)
# What names nothing by itself: results, which are told apart, and files.
A_RESULT = re.compile(
    "|".join(
        [
            *(one for result in RESULTS for one in (result.text, result.tools_say) if one),
            r"\bCUDA_ERROR_\w+",
            r"(?:misaligned|illegal)/(?:misaligned|illegal)(?: memory)? address",
            r"\bcudaError\w*",
        ]
    ),
    re.IGNORECASE,
)
_A_PATH = re.compile(
    r"https?://\S+|(?<![\w)])/[\w./+-]+(?:[:(]\d+\)?)?|[\w.+-]+/[\w.+-]*[/.][\w./+-]*(?:[:(]\d+\)?)?|"
    r"\b\w+\.(?:cuh?|hpp|py|cc|cpp|inl|h)\b(?:[:(]\d+)?"
)
# What is left of a path to a source file of a kernel is the word "dotcu", of a compiler "dotcompiler".
_OF_KERNELS = re.compile(r"\.(?:cuh?|hpp|inl)\b")
_OF_COMPILERS = re.compile(
    r"\blib/(?:Dialect|Conversion|Analysis|Tools|Transforms|IR|CodeGen)/|\b(?:mlir|llvm)/|LinearLayout\w*\.|"
    r"\w+ToLLVM\b|\b(?:SmallVector|ArrayRef|STLExtras|MMAHelpers)\.h\b"
)
# What a reporter says is so: "all addresses are 16-byte aligned", which asks nothing.
_CLAIMED = re.compile(
    r"^(?!.*(?:must|should|expect|assert|requir|check|ensure|need|\bif\b|unless))"
    r".*\b(?:is|are) (?:all |both |well |already |properly |correctly )*(?:\d+[- ]?b(?:ytes?)?[- ])?aligned\b",
    re.IGNORECASE,
)
_OF_ALIGNMENT = ("TMA004", ASKED.code)
_REFUSED = re.compile(r"\binvalid (?:value|argument)(?=[.,;)]|\s*$)", re.IGNORECASE)  # of what nobody says
_ALIGNED = re.compile(r"(?<=\.sync)\.aligned\b")  # an instruction's name, which asks no alignment
# What declares an array so, and asks it of nobody.
_DECLARES = re.compile(
    r"(?:alignas|__align__)\([^()\n]{1,20}\)(?= *(?:static )?__shared__\b)"
    r"|(?<=__shared__ )(?:alignas|__align__)\([^()\n]{1,20}\)"
)
_PERCENT = re.compile(r"\d ?%(?! ?\(?\w+\)? ?(?:[!=]=|is\b|must|should))")  # and not a remainder
_SENTENCE_END = re.compile(r"(?<=[a-z\d)\]`'\"][.;!?]) +(?=[A-Z`\[])")
# The words by which a text is known to speak of copies and matrix units at all.
CONTEXT = re.compile(
    r"\btma\b|_tma|tma_|tensor ?_?(?:map|desc|core|memory)|descriptor|\bbulk\b|[gu]mma|tcgen05|tmem|mbarrier|"
    r"expect_?tx|"
    r"cache modifier|swizzl|\bis_sm\d|hopper|blackwell|sm_?(?:90|100|103|120)|[hb][12]00|cutlass|cute\b|triton"
    r"|tilelang|mosaic|gluon|kittens|"
    r"scaled_mm|mat_?[ab12]\b|grouped_mm|gemm|flash|cluster|smem|shared[ _-]mem|cublas|cuda|nvfuser|torch|kernel|"
    r"\.cuh?\b|\.hpp\b|memref|proxy|"
    r"\bgpu\b|transformer_engine|deep_?ep|\btensors?\b|contiguous|\bstrides?\b|[kmn]-?_?major|"
    r"[abc]_major|(?:row|column)-major|"
    r"\d[ -]?b(?:ytes?)?[ -]aligned|box[ _]?(?:dim|size|shape)|tensor ?rank|global ?_?(?:dim|strides?|address)\b|"
    r"element ?_?strides|inner(?:most)? (?:box|dim|tile)|"
    r"leading dim|\bsm[ _]?(?:major|version|\d\d)|"
    r"(?:multiples? of|divisib\w+ by|% ?)\W{0,3}(?:8|16|32|64|128|256)\b|num_?warps|warp ?-?groups?|warp[ _]?size|"
    r"wave(?:front|32|64)|compute cap|"
    r"head[ _-]?(?:dim|size)|headdim|tile_?[mnk]\b|block_?[mnk]\b|alignment requirement|\bmx_?fp\d|\bnv_?fp\d|"
    r"block[-_ ]?scal|scale_[ab]|\btil(?:es?|ing)\b|\bmma\b|\bptx|"
    r"page[ _-]?size|attention|attn|recipe|capability|cudnn|marlin|gptq|\bawq\b|group_?size|quantiz|features|"
    r"tensor_parallel|tactic|occupancy|cooperative launch|workspace size|\bregisters?\b|setmaxn?reg|racecheck|"
    r"synccheck|\bctas?\b|"
    r"unsupported arch|architecture|im2col|constexpr|bank conflict|\bbanks?\b|static[ _]assert|copy_?(?:atom|traits)|"
    r"tiled_?copy|scalar type|"
    r"cp[._]async|\bfp8|_aligned|aligned\b|\btvm\b|"
    r"tile_?lang|warp[- ]?speciali|"
    r"helion|mlir|nvptx|linear ?layout|layout is expected|layout inference",
    re.IGNORECASE,
)

_ASKING = re.compile(
    r"align|multipl|divis|%|must|should|expect|support|invalid|exceed|exhaust|too |out of|enough|insufficien|at least|"
    r"at most|more than|less than|greater|larger|smaller|[<>=]=|"
    r"assert|fail|error|refuse|limit|\bno\b|mismatch|differ|not a|"
    r"conflict|capacity|dead-?lock|\bice\b|unreachable|noconfig|rejected|time|hang|stuck|contiguous|cannot|"
    r"only|unknown|unexpected|overflow|maxim|constraint|apply|unavailable|"
    r"not available|not defined|is offset|attribute|import|does not|lack|missing|without|\brac(?:e|es|ing)\b|violat|"
    r"sleep|printf|stale|garbage|"
    r"reject|refus|remote|in[- ]?flight|corrupt|wrong|incorrect|not present|exited|reissu|reus|compiled (?:with|for)|"
    r"outside|insert|after (?:the|it|its|a|being)\b|\bfreed\b|dealloc|"
    r"restrict|\bis 0\b|unable|n't\b|except|inval|hazard|subscri|zero|same|needs?\b|but got|request|fit|require|"
    r"synchroni[sz]|assum|hard-?cod|\bsig(?:segv|abrt|ill|bus)\b|\bexits?\b|never (?:end|return|finish)|forever|satisf",
    re.IGNORECASE,
)

# Quantities of kernels, and names of programs' variables.
_QUANTITY = re.compile(
    r"[a-z\d]_\w|[a-z][A-Z]|\b[A-Z]{1,3}\b|^[kmnd]$|\b(?i:dim\w*|strides?|shapes?|sizes?|extents?|pointers?"
    r"|address\w*|offsets?|"
    r"heads?|threads?|warps?|blocks?|tiles?|channels?|groups?|rows|columns|width|length|elements|bytes|bits|rank"
    r"|stages?|"
    r"features|tokens|alignment|numel|range)\b(?! (?:of|in) the (?:file|image|batch))"
)

_SEEN = re.compile(r"fault|error|crash|fail|hang|wrong|behav", re.IGNORECASE)  # of a failure, and no quantity
# What a line of a program says in passing: no check of it failed.
_CODE = re.compile(r"(?:(?:if|elif|for|while|def|return)\b|#|//|(?:[^\n]*[;{}] ?)?(?:for|while|if) ?\()")
_MEASURES = (MULTIPLE.partition("{")[0], "at least", "at most", "more than", "a power")


class Named(NamedTuple):
    """A line that names a cause, and the cause."""

    line: str
    cause: Cause


def named_causes(text: str) -> Iterator[Named]:
    """Yield the causes that lines of an even text name, in its order, each rule once; none if it is about other things.

    Long lines are read by clauses, and of very many lines the first and the last ones.
    """
    if _speaks_of_kernels(text):
        lines = text.split("\n")
        # A terminal or a mail wraps sentences; a line that is whole says what it says alone.
        yield from list(_named(lines)) or _named([" ".join(pair) for pair in pairwise(lines)])


def failed_check(text: str) -> Named | None:
    """Return the line of an even text that tells of a program's own check; None if it is about other things."""
    lines = text.split("\n")
    clauses = _clauses([*lines, *map(" ".join, pairwise(lines))])
    bare = [(line, A_RESULT.sub(" ", _A_PATH.sub(_bare_path, line))) for line in clauses]
    asking = next((Named(line, asks) for line, words in bare if (asks := _asks(words))), None)
    if asking is not None or not _speaks_of_kernels(text):
        return asking
    return next((Named(line, own) for own in OWN_CHECKS for line, words in bare if _names(own, words)), None)


def _asks(clause: str) -> Cause | None:
    """Return the cause of a line that asks a number of a quantity that it names; None if it does not."""
    asked = condition(clause)
    if not _QUANTITY.search(asked.quantity) or _SEEN.search(asked.quantity):
        return None
    if _compiled(NO_CHECK).search(clause) or _CODE.match(clause):
        return None
    if not asked.asks.startswith(_MEASURES):
        return None
    # Without a word of kernels around it no rule of the hardware is meant.
    of_programs = (cause for cause in ROWS if cause.code == EXTENTS.code and _names(cause, clause))
    return next(of_programs, EXTENTS if asked.asks.startswith(_MEASURES[0]) else ASKED)


@lru_cache(maxsize=1)
def _speaks_of_kernels(text: str) -> bool:
    return CONTEXT.search(text) is not None


def _named(lines: list[str]) -> Iterator[Named]:
    found: dict[str, Named] = {}
    for line in _clauses(lines):
        paths = _REFUSED.sub(" ", A_RESULT.sub(" ", _A_PATH.sub(_bare_path, without_layouts(line))))
        bare = _PERCENT.sub(" ", _DECLARES.sub("", _ALIGNED.sub("", SHORTENED.sub("", paths))))
        sentences = _SENTENCE_END.split(bare)
        # A line that names none by one of its sentences may do so by all of them.
        for clause in sentences if any(map(_cause, sentences)) else [bare]:
            # No rule of a quantity is one of what two of them give.
            cause = ASKED if " // " in condition(line).quantity else _cause(clause)
            # Of lines that name one rule a macro tells it, else the first one with a number that was given.
            told = None if cause is None else found.get(cause.code)
            if cause is not None and (told is None or _tells_more(clause, cause, told)):
                found[cause.code] = Named(line, cause)
    yield from found.values()


def _tells_more(clause: str, cause: Cause, told: Named) -> bool:
    return cause is MACROS or bool(condition(clause).given and not condition(told.line).given)


def _bare_path(match: re.Match[str]) -> str:
    if _OF_COMPILERS.search(match[0]):
        return " dotcompiler "
    return " dotcu " if _OF_KERNELS.search(match[0]) else " "


def _clauses(lines: list[str]) -> list[str]:
    pieces = (line[at : at + LONGEST_LINE] for line in lines for at in range(0, len(line), LONGEST_LINE))
    clauses = [piece for piece in dict.fromkeys(pieces) if _ASKING.search(piece)]
    half = MOST_LINES // 2
    return clauses if len(clauses) <= MOST_LINES else clauses[:half] + clauses[-half:]


def _cause(clause: str) -> Cause | None:
    cause = next((cause for cause in ROWS if _names(cause, clause)), None) or _asks(clause)
    return None if cause is not None and cause.code in _OF_ALIGNMENT and _CLAIMED.search(clause) else cause


def _names(cause: Cause, line: str) -> bool:
    return (
        _compiled(cause.about).search(line) is not None
        and _compiled(cause.asks).search(line) is not None
        and _compiled(cause.unless).search(line) is None
    )


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)

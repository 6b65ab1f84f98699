"""Causes that the words of a report make likely, where no sentence and no number in it names one.

Most reports say what is seen, a hang or wrong values, and what the kernel does, and quote no message of a program. Each
word speaks for some causes more than for others: by how many reports with a known cause have it, and by what is told of
each cause (`legalsat.pasted.ranking`). A line of prose that seems to name a cause speaks for it too. It proves nothing:
what is found so is a warning that says by which words, and never makes anything legal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.causes import A_RESULT
from legalsat.pasted.ranking import Evidence, concepts, evidence, features, scored, weight, words_of
from legalsat.pasted.sentences import RULE_OF
from legalsat.rule import require
from legalsat.targets import Target

WHERE = "the words of the text"
MOST = 2  # causes that are told, of those for which the words speak most
_MOST_READ = 8_000  # characters of each end of a long text
_SHOWN = 4  # words by which a cause is found
# Without what is seen nothing failed, and without parts of a GPU's kernel the text is about something else.
_SEEN = frozenset(
    {"hang", "wrong", "flaky", "race", "illegal", "illinst", "misaddr", "launchfail", "invalid", "fails", "compile"}
)
_PARTS = frozenset(
    {
        *("fence", "barrier", "phase", "arrive", "bytes", "tma", "map", "cluster", "multicast", "regs", "smem"),
        *("swizzle", "mdesc", "wgmma", "commit", "tcgen", "tmem", "cpasync", "sync", "vector", "sanitizer", "box"),
        *("int32", "stride", "warps", "stage", "view", "scale", "layout", "product", "grid"),
    }
)
_ALSO_PARTS = frozenset({"address", "store", "align", "large", "limit"})  # where a call returned that it failed
_DENIED = re.compile(
    r"\b(?:nothing|not|no|never|without|isn't|wasn't)\s+(?:\w+\s+){0,2}(?:wrong|fail\w*|errors?|hang\w*|rac(?:e|es|y)|"
    r"corrupt\w*)\b|\bracecheck\b(?! (?:\w+ )?(?:hazard|report|f[io]\w*nd|complain|error))",
    re.IGNORECASE,
)
_OF_MAPS = frozenset({"map", "tma", "stride", "box"})
_LEAST_PARTS, _MUCH_PARTS = 2, 4
_SAYS_WHERE = frozenset({"misaddr", "illegal"})  # what tells of an access, whatever else is said
_OF_KERNELS = re.compile(
    r"\btma|wgmma|gmma|tcgen05|umma|\btmem|mbarrier|\bsmem|shared memory|cp[._]async|__sync|syncthreads|\bptx|"
    r"\bwarps?\b|warpgroup|\bcta|cutlass|\bcute|triton|\btl\.|tilelang|gluon|cuda|cudnn|cublas|tensor ?_?map|\bgpu|"
    r"\bsm_?\d\d|gemm|attention|flash|[abh][12]00|rtx|hopper|blackwell|ampere|mosaic|pallas|nvfuser|alloc_shared"
    r"|shared buffer|\bLBO\b|\bSBO\b|matrix desc|core matri|helion|\bT\.(?:copy|gemm|Pipelined|Kernel)\b|\bfp[48]\b"
    r"|bf16|bfloat16|racecheck|__shared__|__global__|threadIdx|blockIdx|thread ?blocks?\b|async_dot|barrier_(?:wait|"
    r"arrive)|head_dim|torch\.float16|torch\.half|\ball threads\b|"
    r"\bsdata\b|\bevery thread|data_ptr|\bkernels?\b.{0,80}\b(?:index|thread|grid|block)|grid_?dim|\bLDS\b",
    re.IGNORECASE,
)
_OF_TILES = re.compile(
    r"swizzl|tensor memory|multicast|\bbulk\b|(?:16|32|64|128|256|512|1024)[- ]?b(?:ytes?)?[- ]align", re.IGNORECASE
)
# Parts that only the code of a kernel, or a launch of it, has.
_INSIDE = re.compile(
    r"__sync|syncthreads|__shared__|\bbar\.sync|\bbarrier[._](?:sync|cta|wait|arrive)|mbarrier|wgmma|tcgen05|\btmem|"
    r"cp[._]async|\btma\b|cutlass|\bcute\.|\btl\.|async_dot|ldmatrix|nvfp4|mxfp|warp ?groups?|setmaxnreg|blockIdx|"
    r"threadIdx|gridDim|<<<|\.contiguous\(\)|launch_bounds|\bptx\b|cuda kernel|"
    r"\bkernels?\b.{0,80}\b(?:index|thread|grid|smem|shared)|data_ptr|\ball threads\b|\bsdata\b|\bevery thread",
    re.IGNORECASE,
)
_OF_SYSTEMS = re.compile(
    r"nccl|dataloader|/dev/shm|\bhttp|\bserver\b|EngineCore|request \d+|model_loader|docker|kubernetes|\bssh\b"
    r"|ethernet|\bdriver hang|watchdog|epoch|"
    r"module ?not ?found|importerror|no module named|keyword argument|\bpip\b|ninja|nvcc' failed|wheel",
    re.IGNORECASE,
)
# What numbers decide is judged where they are; that a call refused its arguments says too little to guess which.
_DECIDED_BY_NUMBERS = re.compile(r"TMA(?!037|006)|BULK|VEC|WGMMA|TCGEN|MDESC|COPY0(?!1[02])|TOOL0(?!03|13)")
_HAS_NUMBERS = re.compile(
    r"torch\.Size\(|\b(?:torch|jnp|np|cp)\.(?:randn?|empty|zeros|ones|rand\w*)\(|"
    r"\b(?:make_tensor_descriptor|from_tensor|TensorDescriptor)\("
)
_OF_ARGUMENTS = frozenset({"invalid", "misaddr"})  # what numbers show themselves by
_OFTEN_BESIDE = frozenset({"flaky", "fails", "race"})
_ANY = re.compile("")
# What alone can show itself so, where nothing else is seen of a failure.
_SHOWN_AS = {
    "misaddr": re.compile(r"VEC|BULK|MDESC|COPY00[145]|TMA0(?:04|05|19|27|37)|SMEM002"),
    "illinst": re.compile(r"TMA|COPY|BULK|MDESC|TCGEN|TMEM|UNIT|PIPE0(?:0[1-3]|15|17|33)|TOOL004"),
    "launchfail": re.compile(r"TMEM|PIPE|COPY|TMA|BULK|MDESC|TOOL0(?:03|08)|SMEM|TCGEN"),
    "invalid": re.compile(r"TMA|SMEM|TOOL0(?:08|11)"),
    "wrong": (_AFTER_A_LAUNCH := re.compile(r"(?!TMA0(?:0|1|24|3)|BULK|TOOL0(?:04|08|11))")),
    "illegal": _AFTER_A_LAUNCH,
    "compile": re.compile(r"TOOL|WGMMA|TCGEN|TMEM00|SMEM|MDESC|TILE|VEC|COPY0(?:07|12)|TMA0(?:0|10|24)"),
    "hang": re.compile(r"PIPE|TMEM|COPY0(?:06|12)|TMA0(?:03|19)|TOOL0(?:03|08)"),
}
# Of those words that are known, in all and outside of code: fewer say too little.
_LEAST_WORDS, _MORE_WORDS, _MUCH_WORDS = (6, 3), (8, 4), (20, 4)
_OFTEN = 12  # how often a word is in reports and what is told, so that it says something
_CLAUSE = re.compile(r"[.;:,]\s|\n")
_CODE = re.compile(r"[{}]|\w ?=[^=]|^\s*(?:def|for|if|else|import|from|@\w+)\b|\w\([^ )]")
# What every failure is called says nothing of it.
_CALLED = re.compile(
    r"\b(?:\w*Error|\w*Exception|Traceback|CUDA|Triton|torch|error|failed)\b|^[ \t]*(?:#|//|raise\b|assert\b)[^\n]*",
    re.MULTILINE,
)
_MOST_REPEATS = 3  # of a line: what a log repeats says nothing
# Frames of a stack and what PyTorch says of every failure tell nothing of this one.
_FRAME = re.compile(
    r'^\s*(?:File "[^"\n]*", line \d+|frame #\d+|#\d+ 0x|at /|\^+\s*$|=+\s+(?:Host|Device) Frame|=+\s+in /'
    r"|\[rank\d+\]:\s+File)|"
    r"kernel errors might be asynchronously|For debugging consider passing|TORCH_USE_CUDA_DSA|"
    r"^\s*Search for [`'\"]?cuda|Traceback \(most recent call"
)


class Likely(NamedTuple):
    """What the words of a report make likely: a score for each cause, and what is said of each feature."""

    scores: Mapping[str, float]
    said: Mapping[str, str]
    much: bool  # whether the report says enough for what is likely to come before what only was returned

    def diagnostic(self, code: str) -> Diagnostic:
        """Return a cause as a warning that says by which words it is likely."""
        return _likely(code, [self.said[word] for word in _telling(evidence(), code, self.said)])


def speaks_of_gpus(text: str) -> bool:
    """Whether a text has a word of kernels or GPUs that no result of a call has."""
    bare = A_RESULT.sub(" ", text)
    return _OF_KERNELS.search(bare) is not None or _OF_TILES.search(bare) is not None


def tells_of_failure(text: str) -> bool:
    """Whether a text says that something failed, in whatever way."""
    return not _SEEN.isdisjoint(concepts(text))


def likely_causes(text: str, target: Target, *, failed: bool) -> Likely | None:
    """Return how likely the words of a plain text make each cause, the likeliest first.

    Args:
        text: the whole report.
        target: the GPU. Rules of units that it lacks are no causes.
        failed: whether it is known that something failed, as by what a call returned.

    Returns:
        None if the text tells of no failure of a GPU's kernel, or too little of it.
    """
    text = _ends(text)
    bare = A_RESULT.sub(" ", text)
    systems = _OF_SYSTEMS.search(bare) is not None
    if not failed and (_OF_KERNELS.search(bare) is None or systems):
        return None
    named, parts = concepts(_DENIED.sub(" ", text)), _PARTS if systems else _PARTS | _ALSO_PARTS
    seen, told = named.keys() & _SEEN, concepts(bare).keys() & parts
    if not failed and not told & _PARTS:
        return None
    of_kernels = {match[0].lower() for match in _OF_KERNELS.finditer(bare)}
    inside = _INSIDE.search(bare) is not None or (len(of_kernels) >= _LEAST_PARTS and seen - _OFTEN_BESIDE)
    inside = bool(inside) and not systems and _says_enough(bare, _MORE_WORDS)
    least = _LEAST_PARTS if systems or not (failed or inside) else 0 if seen & _SAYS_WHERE else 1
    # A refused call says little, unless it is said to be that of a map, and what the map is of.
    refused = failed and seen - _OFTEN_BESIDE <= {"invalid"} and len(told & _OF_MAPS) < _LEAST_PARTS
    if not (failed or seen) or len(told) < least or not _says_enough(bare, _MORE_WORDS if refused else _LEAST_WORDS):
        return None
    # Tensors whose numbers the text has are judged by these, and are in order where nothing was found.
    judged = failed and seen - _OFTEN_BESIDE <= _OF_ARGUMENTS and _HAS_NUMBERS.search(bare) is not None
    if judged and not (len(told) > _LEAST_PARTS and _says_enough(bare, _MUCH_WORDS)):
        return None
    said, seen = features(text), seen - _OFTEN_BESIDE
    shown = next(iter(seen)) if len(seen) == 1 else ""
    possible = _SHOWN_AS.get(shown, _ANY)
    scores = {
        code: score
        for code, score in scored(said, evidence(), target).items()
        if possible.match(code) and not ((refused or judged) and _DECIDED_BY_NUMBERS.match(code))
    }
    return Likely(scores, said, len(told) >= _MUCH_PARTS or _says_enough(bare, _MUCH_WORDS))


def _ends(text: str) -> str:
    """Return what a text says at its ends, without lines that it repeats."""
    if len(text) > 4 * _MOST_READ:
        text = f"{text[: 2 * _MOST_READ]}\n{text[-2 * _MOST_READ :]}"
    times = Counter(lines := text.splitlines())
    text = "\n".join(line for line in lines if times[line] <= _MOST_REPEATS and _FRAME.search(line) is None)
    return text if len(text) <= 2 * _MOST_READ else f"{text[:_MOST_READ]}\n{text[-_MOST_READ:]}"


def _says_enough(text: str, least: tuple[int, int]) -> bool:
    """Whether a text has at least so many words that are known, in all and outside of its code."""
    text = _CALLED.sub(" ", text)
    prose = "\n".join(clause for clause in _CLAUSE.split(text) if not _CODE.search(clause))
    overall = evidence().overall
    known = (sum(overall.get(word, 0) >= _OFTEN for word in words_of(part)) for part in (text, prose))
    return all(number >= one for number, one in zip(known, least, strict=True))


def _telling(known: Evidence, code: str, words: Iterable[str]) -> list[str]:
    """Return the words that speak most for a cause."""
    counted = (word for word in words if word in known.overall)
    by_weight = sorted(counted, key=lambda word: weight(known, code, word), reverse=True)
    return [word for word in by_weight[: 2 * _SHOWN] if weight(known, code, word) > 0]


def _likely(code: str, words: list[str]) -> Diagnostic:
    rule = RULE_OF[code]
    apart = [one for at, one in enumerate(words) if not any(one.lower() in two.lower() for two in words[:at])]
    shown = ", ".join(f'"{word}"' for word in apart[:_SHOWN]).replace("{", "(").replace("}", ")")
    found = rule.diagnostic(
        require(
            False,
            f"likely from words alone, and not proven: {rule.name.replace('_', ' ')}; the text says {shown}",
            help=f"read `legalsat rule {code}`, and paste the numbers, the code or the PTX that could prove it",
        ),
        WHERE,
    )
    return replace(found, level="warning")

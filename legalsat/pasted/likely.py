"""Causes that the words of a report make likely, where no sentence and no number in it names one.

Most reports say what is seen, a hang or wrong values, and what the kernel does, and quote no message of a program. Each
word speaks for some causes more than for others: by how many reports with a known cause have it, and by what is told of
each cause (`legalsat.pasted.tables.evidence`). The sum ranks the causes, as naive Bayes does. It proves nothing: what
is found so is a warning that says by which words, and never makes anything legal.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.causes import A_RESULT
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.tables.evidence import CONCEPTS, TOLD
from legalsat.rule import require
from legalsat.targets import Target

WHERE = "the words of the text"
MOST, _CONSIDERED = 2, 6  # causes that are told, of those for which the words speak most
COUNTS = Path(__file__).parent / "evidence.json"
_MOST_READ = 8_000  # characters of each end of a long text
_TOLD_AS, _SMOOTHING, _SPREAD = 4.0, 4.0, 2.0  # reports that what is told of a cause counts like; pseudo-counts
_SHOWN = 4  # words by which a cause is found
# Without what is seen nothing failed, and without parts of a GPU's kernel the text is about something else.
_SEEN = frozenset(
    {"hang", "wrong", "flaky", "race", "illegal", "illinst", "misaddr", "launchfail", "invalid", "fails", "compile"}
)
_PARTS = frozenset(
    {
        *("fence", "barrier", "phase", "arrive", "bytes", "tma", "map", "cluster", "multicast", "regs", "smem"),
        *("swizzle", "mdesc", "wgmma", "commit", "tcgen", "tmem", "cpasync", "sync", "vector", "sanitizer", "box"),
        *("int32", "stride", "warps", "stage", "view", "scale", "layout", "product"),
    }
)
_ALSO_PARTS = frozenset({"address", "store", "align", "large", "limit"})  # where a call returned that it failed
_LEAST_PARTS = 2
_SAYS_WHERE = frozenset({"misaddr", "illegal"})  # what tells of an access, whatever else is said
_OF_KERNELS = re.compile(
    r"\btma|wgmma|gmma|tcgen05|umma|\btmem|mbarrier|\bsmem|shared memory|cp[._]async|__sync|syncthreads|\bptx|"
    r"\bwarps?\b|warpgroup|\bcta|cutlass|\bcute|triton|\btl\.|tilelang|gluon|cuda|cudnn|cublas|tensor ?_?map|\bgpu|"
    r"\bsm_?\d\d|gemm|attention|flash|[abh][12]00|rtx|hopper|blackwell|ampere|mosaic|pallas|nvfuser|alloc_shared"
    r"|shared buffer|\bLBO\b|\bSBO\b|matrix desc|core matri|helion|\bT\.(?:copy|gemm|Pipelined|Kernel)\b|\bfp[48]\b"
    r"|bf16|bfloat16|racecheck",
    re.IGNORECASE,
)
_OF_SYSTEMS = re.compile(
    r"nccl|dataloader|/dev/shm|\bhttp|\bserver\b|EngineCore|request \d+|model_loader|docker|kubernetes|\bssh\b"
    r"|ethernet|\bdriver hang|watchdog|epoch|"
    r"module ?not ?found|importerror|no module named|keyword argument|\bpip\b|ninja|nvcc' failed|wheel",
    re.IGNORECASE,
)
# What a program returned, and what it has no kernel for, its own sentences tell.
_TOLD_ELSEWHERE = re.compile(r"CUDA\d|TOOL010|PROD|UNIT")
# What numbers decide is judged where they are; that a call refused its arguments says too little to guess which.
_DECIDED_BY_NUMBERS = re.compile(r"TMA(?!037|006)|BULK|VEC|WGMMA|TCGEN|MDESC|COPY0(?!1[02])|TOOL0(?!03|13)")
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
_LEAST_WORDS, _MORE_WORDS = (6, 3), (8, 4)
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
_ADDRESS = re.compile(r"https?://\S+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD = re.compile(r"[a-z]{2,}")
_ENDINGS = re.compile(
    r"(?<=[a-z]{4})(?:ization|isation|ations?|ments?|ings?|ers?|ed|ies|es|ly|al|s)$",
)
_COMMON = re.compile(
    r"(?:at|of|to|in|on|is|it|as|an|be|or|so|we|the|and|for|with|that|this|but|not|from|are|was|has|have|which|its"
    r"|than|only|when|what|into|all|any|can|may|"
    r"will|does|did|get|got|use|used|using|our|your|they|them|there|here|been|being|were|would|should|could|also|just|"
    r"same|some|more|most)"
)
_PATTERNS = {
    name: re.compile(rf"(?<![a-z\d])(?:{pattern})(?![a-z\d])", re.IGNORECASE) for name, pattern in CONCEPTS.items()
}


class Evidence(NamedTuple):
    """How often reports with a cause have each word, how many there are, how often a word is at all, and their sum."""

    by_cause: Mapping[str, Mapping[str, float]]
    reports: Mapping[str, float]
    overall: Mapping[str, float]
    total: float


def features(text: str) -> dict[str, str]:
    """Return the concepts, as "@name", and the stems of the words of a text, each with a place where it is said."""
    return {f"@{name}": said for name, said in _concepts(text).items()} | _words(text)


def likely_causes(text: str, target: Target, *, failed: bool) -> Iterator[Diagnostic]:
    """Yield what the words of a plain text make likely, at most `MOST` causes, the likeliest first.

    Args:
        text: the whole report.
        target: the GPU. Rules of units that it lacks are no causes.
        failed: whether it is known that something failed, as by what a call returned.
    """
    text = _ends(text)
    bare = A_RESULT.sub(" ", text)
    systems = _OF_SYSTEMS.search(bare) is not None
    if not failed and (_OF_KERNELS.search(bare) is None or systems):
        return
    concepts, parts = _concepts(text), _PARTS if systems else _PARTS | _ALSO_PARTS
    seen, told = concepts.keys() & _SEEN, _concepts(bare).keys() & parts
    if not failed and not told & _PARTS:
        return
    least = _LEAST_PARTS if systems or not failed else 0 if seen & _SAYS_WHERE else 1
    refused = failed and seen - _OFTEN_BESIDE <= {"invalid"}
    if not (failed or seen) or len(told) < least or not _says_enough(bare, _MORE_WORDS if refused else _LEAST_WORDS):
        return
    said, seen = features(text), seen - _OFTEN_BESIDE
    shown = next(iter(seen)) if len(seen) == 1 else ""
    possible = _SHOWN_AS.get(shown, _ANY)
    first = [code for code in ranked(said, _evidence(), target)[:_CONSIDERED] if possible.match(code)]
    for code in [one for one in first if not (refused and _DECIDED_BY_NUMBERS.match(one))][:MOST]:
        yield _likely(code, [said[word] for word in _telling(_evidence(), code, said)])


def ranked(words: Iterable[str], evidence: Evidence, target: Target) -> list[str]:
    """Return the causes that there may be on a target, the one first for which a text's features speak most."""
    known = [word for word in words if word in evidence.overall]
    scores = {code: _score(evidence, code, known) for code in evidence.reports if may_be(code, target)}
    return sorted(scores, key=scores.__getitem__, reverse=True)


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
    known = (sum(word in _evidence().overall for word in _words(part)) for part in (text, prose))
    return all(number >= one for number, one in zip(known, least, strict=True))


def _split(text: str) -> str:
    return _CAMEL.sub(" ", _ADDRESS.sub(" ", text))


def _concepts(text: str) -> dict[str, str]:
    found = ((name, pattern.search(split)) for split in (_split(text),) for name, pattern in _PATTERNS.items())
    return {name: " ".join(match[0].split()) for name, match in found if match is not None}


def _words(text: str) -> dict[str, str]:
    words = (match[0] for match in _WORD.finditer(_split(text).lower()) if not _COMMON.fullmatch(match[0]))
    return {_ENDINGS.sub("", word): word for word in words}


@lru_cache(maxsize=1)
def _evidence() -> Evidence:
    return evidence_of(json.loads(COUNTS.read_text(encoding="utf-8")))


def evidence_of(known: Mapping[str, Any]) -> Evidence:
    """Return the counts of known reports, as `bench/fit_evidence.py` makes them, with what is told of each cause."""
    reports: defaultdict[str, float] = defaultdict(lambda: _SMOOTHING)
    for code, number in known["reports"].items():
        reports[code] += number
    by_cause = {code: defaultdict(float, words) for code, words in known["words"].items()}
    overall: defaultdict[str, float] = defaultdict(float, known["overall"])
    for code, told in TOLD.items():
        reports[code] += _TOLD_AS
        words = by_cause.setdefault(code, defaultdict(float))
        for word in features(told):
            words[word] += _TOLD_AS
            overall[word] += _TOLD_AS
    return Evidence(by_cause, dict(reports), dict(overall), sum(reports.values()))


def may_be(code: str, target: Target) -> bool:
    """Whether a cause is told from words: no result of a call, and no rule of a unit that the target lacks."""
    return code in RULE_OF and _TOLD_ELSEWHERE.match(code) is None and RULE_OF[code].unit.limits(target) is not None


def _score(evidence: Evidence, code: str, words: list[str]) -> float:
    """Return the logarithm of how likely a cause is by words, up to what is common to all."""
    return math.log(evidence.reports[code]) + sum(_weight(evidence, code, word) for word in words)


def _weight(evidence: Evidence, code: str, word: str) -> float:
    """Return by how much a word speaks for a cause, as a logarithm; negative where it speaks against it."""
    common = evidence.overall[word] / evidence.total
    count = evidence.by_cause.get(code, {}).get(word, 0)
    return math.log((count + _SPREAD * common) / ((evidence.reports[code] + _SPREAD) * common))


def _telling(evidence: Evidence, code: str, words: Iterable[str]) -> list[str]:
    """Return the words that speak most for a cause."""
    known = (word for word in words if word in evidence.overall)
    by_weight = sorted(known, key=lambda word: _weight(evidence, code, word), reverse=True)
    return [word for word in by_weight[: 2 * _SHOWN] if _weight(evidence, code, word) > 0]


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

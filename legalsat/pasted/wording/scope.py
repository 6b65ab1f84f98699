"""How likely a text tells of a failure of a GPU's kernel, as a score: whether causes are told from words, and how.

Words that reports have and other texts have not speak for it, and so do a few signs: names of kernels' parts, what is
seen of a failure, what only systems around kernels print. `bench/fit_evidence.py` weighs all of them by a logistic
model of the reports and of texts about something else, and finds two scores: from the higher one on causes are called
likely, from the lower one on possible, since who pastes a text has mostly a kernel that fails.
"""

from __future__ import annotations

import math
import re
from collections import Counter

from legalsat.diagnostics import Basis
from legalsat.pasted.causes import A_RESULT
from legalsat.pasted.wording.ranking import concepts, evidence, pairs_of, terms

SURELY = 3.0  # what the surety of a cause counts like
SIGN = 0.3  # what a sign counts like; words together count 1, as the sum of their squares
# Without what is seen nothing failed, and without parts of a GPU's kernel the text is about something else.
SEEN = frozenset(
    {"hang", "wrong", "flaky", "race", "illegal", "illinst", "misaddr", "launchfail", "invalid", "fails", "compile"}
)
OFTEN_BESIDE = frozenset({"flaky", "fails", "race"})
PARTS = frozenset(
    {
        *("fence", "barrier", "phase", "arrive", "bytes", "tma", "map", "cluster", "multicast", "regs", "smem"),
        *("swizzle", "mdesc", "wgmma", "commit", "tcgen", "tmem", "cpasync", "sync", "vector", "sanitizer", "box"),
        *("int32", "stride", "warps", "stage", "view", "scale", "layout", "product", "grid"),
    }
)
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
_DENIED = re.compile(
    r"\b(?:nothing|not|no|never|without|isn't|wasn't)\s+(?:\w+\s+){0,2}(?:wrong|fail\w*|errors?|hang\w*|rac(?:e|es|y)|"
    r"corrupt\w*)\b|\bracecheck\b(?! (?:\w+ )?(?:hazard|report|f[io]\w*nd|complain|error))",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.])(?:\d{1,12}|[a-z]+\d+\w{0,12}|\d{1,12}[a-z]+)(?![\w.])", re.IGNORECASE)
_MOST_READ = 8_000  # characters of each end of a long text
_MOST_REPEATS = 3  # of a line: what a log repeats says nothing
# Frames of a stack and what PyTorch says of every failure tell nothing of this one.
_FRAME = re.compile(
    r'^\s*(?:File "[^"\n]*", line \d+|frame #\d+|#\d+ 0x|at /|\^+\s*$|=+\s+(?:Host|Device) Frame|=+\s+in /'
    r"|\[rank\d+\]:\s+File)|"
    r"kernel errors might be asynchronously|For debugging consider passing|TORCH_USE_CUDA_DSA|"
    r"^\s*Search for [`'\"]?cuda|Traceback \(most recent call"
)
_KNOWN_BY, _STRANGE = 14, -1.0  # words, and a score
_MOST_KINDS, _MOST_PARTS, _MOST_WORDS = 3, (1, 2, 3, 5), (5, 10, 20, 40, 80)  # of what more of it says more


def speaks_of_gpus(text: str) -> bool:
    """Whether a text has a word of kernels or GPUs that no result of a call has."""
    bare = A_RESULT.sub(" ", text)
    return _OF_KERNELS.search(bare) is not None or _OF_TILES.search(bare) is not None


def seen_in(text: str) -> frozenset[str]:
    """Return the concepts of what a text says is seen of a failure, without what it says is not."""
    return SEEN & concepts(_DENIED.sub(" ", text)).keys()


def score(text: str) -> float:
    """Return how likely a text tells of a failure of a GPU's kernel, as the logarithm of odds."""
    text, known = ends(text), evidence().scope
    # Words that nobody weighed say nothing, and take nothing from those that do.
    told = [known.weights[word] for word in words(text) if word in known.weights]
    said = sum(told) / math.sqrt(max(len(told), 1))
    return known.bias + said + SIGN * sum(known.weights.get(sign, 0.0) for sign in signs(text))


def told_as(text: str, sure: float) -> Basis | None:
    """Return what the causes that a text's words name are told as; None if it is plainly about something else.

    Args:
        text: the text.
        sure: how surely its words name the likeliest causes (`ranking.surety`): what speaks for many causes alike is
            seldom about any of them.
    """
    known, reached = evidence().scope, score(text) + SURELY * sure
    return "likely" if reached >= known.sure else "possible" if reached >= known.least else None


def ends(text: str) -> str:
    """Return what a text says at its ends, without lines that it repeats."""
    if len(text) > 4 * _MOST_READ:
        text = f"{text[: 2 * _MOST_READ]}\n{text[-2 * _MOST_READ :]}"
    times = Counter(lines := text.splitlines())
    text = "\n".join(line for line in lines if times[line] <= _MOST_REPEATS and _FRAME.search(line) is None)
    return text if len(text) <= 2 * _MOST_READ else f"{text[:_MOST_READ]}\n{text[-_MOST_READ:]}"


def is_strange(text: str) -> bool:
    """Whether a text says enough to be known as one about something else than a kernel."""
    return len(terms(ends(text))) >= _KNOWN_BY and score(text) < _STRANGE


def words(text: str) -> list[str]:
    """Return the words, pairs of words, concepts and numbers of a text, each once."""
    numbers = dict.fromkeys(f"#{match[0].lower()}" for match in _NUMBER.finditer(text))
    return [*terms(text), *pairs_of(text), *numbers]


def signs(text: str) -> list[str]:
    """Return what a text shows besides its words, by names: the more of a kind, the more names.

    Each says another thing where nothing is seen of a failure, or nothing clear: what a text about a kernel describes
    need not have failed.
    """
    bare = A_RESULT.sub(" ", text)
    seen, parts = seen_in(text), PARTS & concepts(bare).keys()
    found = [f"%kernels {at}" for at in range(1, min(_kinds(_OF_KERNELS, bare), _MOST_KINDS) + 1)]
    found += [f"%inside {at}" for at in range(1, min(_kinds(_INSIDE, bare), _MOST_KINDS) + 1)]
    found += [f"%parts {least}" for least in _MOST_PARTS if len(parts) >= least]
    said = len(terms(bare))
    found += [f"%words {least}" for least in _MOST_WORDS if said >= least]
    found += ["%tiles"] if _OF_TILES.search(bare) is not None else []
    how = "seen" if seen - OFTEN_BESIDE else "hinted" if seen else "unseen"
    found += [f"{name} {how}" for name in found if how != "seen"]
    found += ["%systems"] if _OF_SYSTEMS.search(bare) is not None else []
    return [*found, f"%{how}", *(["%result"] if bare != text else [])]


def _kinds(pattern: re.Pattern[str], text: str) -> int:
    return len({match[0].lower() for match in pattern.finditer(text)})

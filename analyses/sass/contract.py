"""What machine code of sm_90 does against the asynchronous contract, as far as the order of its instructions tells.

Order is what `cuobjdump -sass` shows: which registers a matrix operation still works on, whether fences, commits and
waits stand between. Addresses are not followed, so which stage a barrier guards is not judged. Neither are the counters
by which the compiler holds back instructions that need what is loaded: they stand in the encoding, not in the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from legalsat.analyses.ptx.findings import Finding
from legalsat.analyses.sass.dataflow import STORES, WRITERS, is_bulk_store, is_group_store, run
from legalsat.analyses.sass.flow import Block, Unknown, blocks_of, reached
from legalsat.analyses.sass.registers import MATRIX, matrix_of
from legalsat.analyses.sass.text import Instruction, Kernel
from legalsat.analyses.sass.ways import Ways

_SOURCE = "PTX ISA 9.0, 9.7.15.7: {}"
_COPIES = "PTX ISA 9.0, 9.7.9.25: {}"
_ACCESSED = _SOURCE.format("wgmma.wait_group must come before registers of a wgmma.mma_async are accessed")


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a break that the facts show is told: the rule's name, what is said of both instructions, note and help."""

    rule: str
    says: str
    note: str
    help: str


_KINDS = {
    "sum_reads": _Kind(
        "sums_not_ready", "{it} reads {register}, into which {other} may still accumulate", _ACCESSED,
        "wait for the group (WARPGROUP.DEPBAR) before its accumulators are read",
    ),
    "sum_writes": _Kind(
        "sums_not_ready", "{it} writes {register}, into which {other} may still accumulate", _ACCESSED,
        "wait for the group (WARPGROUP.DEPBAR) before its accumulators are written",
    ),
    "sum_as_source": _Kind(
        "sums_not_ready", "{it} takes {register} as A, into which {other} may still accumulate", _ACCESSED,
        "wait for the group (WARPGROUP.DEPBAR) before its accumulators are multiplied",
    ),
    "sum_again": _Kind(
        "sums_not_ready", "{it} accumulates into {register}, where {other}, of another shape, may still accumulate",
        _SOURCE.format("only accumulators of wgmma.mma_async of the same shape are in order by themselves"),
        "wait for the group (WARPGROUP.DEPBAR) before registers get another shape",
    ),
    "source_writes": _Kind(
        "operands_released_early", "{it} writes {register}, which {other} may still read as A", _ACCESSED,
        "wait for the group (WARPGROUP.DEPBAR) before the registers of A are written",
    ),
    "source_accumulated": _Kind(
        "operands_released_early", "{it} accumulates into {register}, which {other} may still read as A", _ACCESSED,
        "wait for the group (WARPGROUP.DEPBAR) before the registers of A are written",
    ),
    "not_arrived": _Kind(
        "sums_not_fenced", "{it} works on {register}, written by {other}, without WARPGROUP.ARRIVE between them",
        _SOURCE.format("wgmma.fence must stand between accesses of registers and a wgmma.mma_async that uses them"),
        "put WARPGROUP.ARRIVE (wgmma.fence) before the first matrix operation",
    ),
    "end": _Kind(
        "not_drained", "{it} is reached while {other} may be under way",
        "nothing that works on shared memory may outlive the block",
        "wait for all groups (WARPGROUP.DEPBAR gsb0, 0x0) before the end",
    ),
    "multiply_alone": _Kind(
        "read_before_full", "{it} reads what other threads copy, and after {other} no way to it has a barrier",
        _COPIES.format("cp.async.wait_group waits for the copies of its own thread alone"),
        "let the block meet (BAR.SYNC) behind the wait for the copies",
    ),
    "store_unfenced": _Kind(
        "write_not_fenced", "{it} reads shared memory after {other}, and no way between them has a proxy fence",
        "PTX ISA 9.0, 8.11: the async proxy sees ordinary writes only behind fence.proxy.async",
        "put FENCE.VIEW.ASYNC (fence.proxy.async) behind the writes, before the barrier",
    ),
    "store_uncommitted": _Kind(
        "group_not_committed", "{it} is reached while {other} belongs to no group",
        _COPIES.format("cp.async.bulk.wait_group waits for groups that are committed"),
        "commit (UTMACMDFLUSH) behind the store",
    ),
}  # fmt: skip
_BY_WAIT = frozenset(
    {"sum_reads", "sum_writes", "sum_as_source", "sum_again", "source_writes", "source_accumulated", "end"}
)
_MOST_TRIED = 8  # pairs of instructions between which a way is sought
_ASYNCHRONOUS = MATRIX | STORES | WRITERS - {"ATOMS"} | {"WARPGROUP", "UTMALDG", "UBLKCP", "SYNCS", "FENCE"}
# What the order of instructions leaves open: which memory they touch.
_OPEN = {
    "store_unfenced_somewhere": "whether {it} reads what {other} writes: some way between them has no proxy fence",
    "multiply_unfenced": "whether {it} reads what {other} writes: some way between them has no proxy fence",
}


@dataclass
class Judged:
    """What was found in one function.

    Attributes:
        findings: breaks, by line. unjudged: lines, and what is not judged there.
        covered: how many instructions of each kind were judged, by words.
    """

    findings: list[Finding] = field(default_factory=list)
    unjudged: list[tuple[int, str]] = field(default_factory=list)
    covered: dict[str, int] = field(default_factory=dict)


@dataclass
class _Gathered:
    """Reports of one kind between two blocks, told once: both places and the register of each."""

    pairs: list[tuple[int, int, int]]

    @property
    def places(self) -> list[int]:
        """The instructions that break something, each once."""
        return list(dict.fromkeys(place for place, _, _ in self.pairs))


def judge(kernel: Kernel) -> Judged:
    """Judge one function."""
    found = Judged()
    try:
        blocks = blocks_of(kernel)
        alive = reached(blocks)
        _judgeable(kernel, blocks, alive)
        reports = _reports(kernel, blocks)
    except Unknown as stop:
        found.unjudged.append((stop.instruction.line, stop.reason))
        return found
    except (LookupError, ValueError) as error:  # text that no assembler prints
        found.unjudged.append((kernel.line, f"this is not understood ({error})"))
        return found
    code = [one for n in sorted(alive) for one in kernel.instructions[blocks[n].start : blocks[n].end] if not one.never]
    found.covered = _covered(code)
    found.findings += _missing(code) + _never_waiting(kernel, blocks, alive)
    loads = any(_is_load(one) for one in code)
    ways = Ways(kernel, blocks)
    for kind, gathered in reports.items():
        for one in gathered:
            _tell(kernel, ways, kind, one, found, loads=loads)
    _commits(kernel, blocks, alive, ways, found)
    found.findings.sort(key=lambda f: (f.line, f.kind))
    found.unjudged.sort()
    return found


def _judgeable(kernel: Kernel, blocks: list[Block], alive: set[int]) -> None:
    """Refuse what the facts do not follow: asynchronous work in functions that are called, unknown operands."""
    for block in (blocks[n] for n in alive):
        last = kernel.instructions[block.end - 1]
        if block.calls >= 0:
            inside = [one for n in reached(blocks, block.calls) for one in _code(kernel, blocks[n])]
            work = next((one for one in inside if one.base in _ASYNCHRONOUS), None)
            if work is not None:
                raise Unknown(last, f"{last} calls what has asynchronous work: {work}")
        for one in _code(kernel, block):
            if one.base in MATRIX:
                try:
                    matrix_of(one)
                except ValueError as error:
                    raise Unknown(one, f"the operands of {one} are not understood") from error


def _code(kernel: Kernel, block: Block) -> list[Instruction]:
    return kernel.instructions[block.start : block.end]


def _reports(kernel: Kernel, blocks: list[Block]) -> dict[str, list[_Gathered]]:
    """Return what the facts show by kind, one for each pair of blocks."""
    home = [n for n, block in enumerate(blocks) for _ in range(block.start, block.end)]
    gathered: dict[tuple[str, int, int], _Gathered] = {}

    def report(kind: str, place: int, other: int, register: int) -> None:
        if kind == "sum_again" and _same_shape(kernel.instructions[place], kernel.instructions[other]):
            return
        key = kind, -1 if kind in _OPEN else home[place], home[other] if other >= 0 else -1
        gathered.setdefault(key, _Gathered([])).pairs.append((place, other, register))

    run(kernel, blocks, report)
    by_kind: dict[str, list[_Gathered]] = {}
    for (kind, _, _), one in gathered.items():
        by_kind.setdefault(kind, []).append(one)
    return by_kind


def _same_shape(one: Instruction, other: Instruction) -> bool:
    first, second = matrix_of(one), matrix_of(other)
    return (first.shape, first.accumulators) == (second.shape, second.accumulators)


def _taken(ways: Ways, kind: str, gathered: _Gathered) -> tuple[int, int, int] | None:
    """Return the first pair between which a way can be taken, None if there is none among those that are tried."""
    if kind not in _BY_WAIT and kind != "not_arrived":
        return gathered.pairs[0]
    distinct = {(place, other): register for place, other, register in reversed(gathered.pairs)}
    for (place, other), register in list(reversed(distinct.items()))[:_MOST_TRIED]:
        if ways.can_be_taken(other, place, arrival=kind == "not_arrived"):
            return place, other, register
    return None


def _tell(kernel: Kernel, ways: Ways, kind: str, gathered: _Gathered, found: Judged, *, loads: bool) -> None:
    place, other, register = gathered.pairs[0]
    taken = _taken(ways, kind, gathered)
    if taken is not None:
        place, other, register = taken
    it = kernel.instructions[place]
    words = {
        "it": _named(it),
        "other": _named(kernel.instructions[other]) if other >= 0 else "the caller",
        "register": f"R{register}",
    }
    if taken is None:
        said = _KINDS[kind].says.format(**words)
        found.unjudged.append((it.line, f"whether {said}: predicates rule out the ways that were tried"))
    elif kind in _OPEN:
        found.unjudged.append((it.line, _OPEN[kind].format(**words)))
    elif kind in _KINDS:
        more = len(gathered.places) - 1
        tail = f"; so {'do' if more > 1 else 'does'} {more} more up to {_at(kernel, max(gathered.places))}" * bool(more)
        found.findings.append(_finding(kind, it, words, tail))
    elif kind == "multiply_unwaited" and loads:
        says = f"{_named(it)} is reached without a wait for a barrier on any way, and the copy engine brings operands"
        note = _COPIES.format("writes of bulk copies are seen by those who have waited for their mbarrier")
        help_ = "wait for the barrier of the load (SYNCS.PHASECHK) before"
        found.findings.append(Finding("read_before_full", it.line, says, note, help_))


def _finding(kind: str, it: Instruction, words: dict[str, str], tail: str = "") -> Finding:
    told = _KINDS[kind]
    return Finding(told.rule, it.line, told.says.format(**words) + tail, told.note, told.help)


def _commits(kernel: Kernel, blocks: list[Block], alive: set[int], ways: Ways, found: Judged) -> None:
    """Judge whether each bulk store is committed before it is waited for, or the lane ends."""
    for store in (place for n in sorted(alive) for place in range(blocks[n].start, blocks[n].end)):
        other = kernel.instructions[store]
        if other.never or not is_group_store(other):
            continue
        surely = ways.uncommitted(store, surely=True)
        place = surely if surely is not None else ways.uncommitted(store, surely=False)
        if place is None:
            continue
        it = kernel.instructions[place]
        words = {"it": _named(it), "other": _named(other)}
        if surely not in {None, store}:
            found.findings.append(_finding("store_uncommitted", it, words))
        else:
            said = _KINDS["store_uncommitted"].says.format(**words)
            found.unjudged.append((it.line, f"whether {said}: predicates decide it that are not followed"))


def _named(one: Instruction) -> str:
    return f"`{one}` at {one.offset:#x}"


def _at(kernel: Kernel, place: int) -> str:
    return f"{kernel.instructions[place].offset:#x}"


# Loops.


def _never_waiting(kernel: Kernel, blocks: list[Block], alive: set[int]) -> list[Finding]:
    """Return loops that multiply and let operands be overwritten without a wait for multiplications in each round."""
    free = {n for n in alive if not any(_CLASSES["waits for multiplications"](one) for one in _code(kernel, blocks[n]))}
    ahead = {n: [one for one in blocks[n].follows if one in free] for n in free}
    behind: dict[int, list[int]] = {n: [] for n in free}
    for n, follows in ahead.items():
        for follower in follows:
            behind[follower].append(n)
    found: dict[int, Finding] = {}
    for n in sorted(free):
        product = next((one for one in _code(kernel, blocks[n]) if one.base in MATRIX), None)
        loop = _beyond(n, ahead) & _beyond(n, behind) if product is not None else set()
        inside = [one for m in sorted(loop) for one in _code(kernel, blocks[m])]
        freed = next((one for one in inside if _arrives(one) or _is_load(one) or one.base == "LDGSTS"), None)
        if product is None or freed is None or any(other in loop for other in found):
            continue
        found[n] = Finding(
            "operands_released_early",
            product.line,
            f"{_named(product)} runs in a loop that never waits for it, and {_named(freed)} releases operands",
            _SOURCE.format("wgmma.wait_group must come before what a wgmma.mma_async reads is overwritten"),
            "wait for older groups (WARPGROUP.DEPBAR) in each round, before the stage is released",
        )
    return list(found.values())


def _beyond(first: int, edges: dict[int, list[int]]) -> set[int]:
    """Return what is reached from a block by at least one edge."""
    seen: set[int] = set()
    open_ = [*edges[first]]
    while open_:
        n = open_.pop()
        if n not in seen:
            seen.add(n)
            open_ += edges[n]
    return seen


# What stands in the code at all.


def _is_load(one: Instruction) -> bool:
    return one.base == "UTMALDG" or (one.base == "UBLKCP" and one.parts[1:3] == ("S", "G"))


def _arrives(one: Instruction) -> bool:
    return (one.base == "SYNCS" and "ARRIVE" in one.parts) or one.base in {"ARRIVES", "STAS", "REDAS"}


def _expects(one: Instruction) -> bool:
    """Whether an arrival adds to the bytes of its phase: A1T0 and ART0 arrive alone."""
    return one.base == "SYNCS" and "ARRIVE" in one.parts and not {"A1T0", "ART0"} & set(one.parts)


_CLASSES: dict[str, Callable[[Instruction], bool]] = {
    "multiplications": lambda one: one.base in MATRIX,
    "waits for multiplications": lambda one: one.base == "WARPGROUP" and "DEPBAR" in one.parts,
    "fences of registers": lambda one: one.base == "WARPGROUP" and "ARRIVE" in one.parts,
    "bulk loads": _is_load,
    "bulk stores": is_bulk_store,
    "ordinary writes to shared memory": lambda one: one.base in WRITERS,
    "proxy fences": lambda one: one.base == "FENCE" and "ASYNC" in one.parts,
    "barrier inits": lambda one: one.base == "SYNCS" and "EXCH" in one.parts,
    "barrier arrivals": _arrives,
    "barrier waits": lambda one: "PHASECHK" in one.parts,
    "block barriers": lambda one: one.base == "BAR",
    "cluster barriers": lambda one: one.base.startswith("UCGABAR"),
}


def _covered(code: list[Instruction]) -> dict[str, int]:
    counts = Counter(name for one in code for name, is_one in _CLASSES.items() if is_one(one))
    return {name: counts[name] for name in _CLASSES if counts[name]}


def _missing(code: list[Instruction]) -> list[Finding]:
    """Return what is used though its counterpart stands nowhere."""

    def first(is_one: Callable[[Instruction], bool]) -> Instruction | None:
        return next((one for one in code if is_one(one)), None)

    wait, load = first(_CLASSES["barrier waits"]), first(_is_load)
    init, arrival = first(_CLASSES["barrier inits"]), first(_arrives)
    copies, left = first(lambda one: one.base == "UCGABAR_WAIT"), first(lambda one: one.base == "UCGABAR_ARV")
    cases = (
        (wait or arrival, init, "barrier_not_initialised", "uses a barrier, and none is initialised",
         "initialise barriers (SYNCS.EXCH.64) before they are used"),
        (wait, arrival or load, "arrivals_missing", "waits for a barrier, and nothing arrives at any",
         "arrive (SYNCS.ARRIVE) at the barrier that is waited for"),
        (load, first(_expects), "bytes_differ", "completes bytes on a barrier, and nobody expects any",
         "expect the bytes of the box (SYNCS.ARRIVE.TRANS64 with a register)"),
        (load, wait, "read_before_full", "loads, and nobody waits for a barrier",
         "wait for the barrier of the load (SYNCS.PHASECHK)"),
        (first(lambda one: one.base == "LDGSTS"), first(lambda one: one.base in {"DEPBAR", "ARRIVES"}),
         "read_before_full", "copies, and nobody waits for it", "wait for the group (LDGDEPBAR, DEPBAR)"),
        (copies, left, "roles_disagree", "waits for the cluster, and nobody arrives",
         "arrive (UCGABAR_ARV) before the wait"),
    )  # fmt: skip
    return [
        Finding(rule, used.line, f"{_named(used)} {says}", "", help_)
        for used, counterpart, rule, says, help_ in cases
        if used is not None and counterpart is None
    ]

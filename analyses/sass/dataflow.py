"""What is under way at each instruction of machine code: registers in use by matrix operations, writes not yet fenced.

A matrix operation runs on after its instruction: its accumulators and the registers that hold A belong to it until
WARPGROUP.DEPBAR.LE gsb0, N has seen its group end, that is, with at most N younger groups left. Along each edge of the
flow graph facts are joined so that what may be under way on some way stays under way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.sass.flow import Block, reached
from legalsat.analyses.sass.registers import MATRIX, matrix_of, touched
from legalsat.analyses.sass.text import Instruction, Kernel

REGISTERS = 256
NOTHING = 1 << 60
_AGE = 1 << 24  # a fact is a group's age times this, and the place of the instruction that began it
_OLDEST = 30  # groups; older ones are no longer told apart
_SUMS, _SOURCES, _TOUCHED = (slice(n * REGISTERS, (n + 1) * REGISTERS) for n in range(3))
# On some way: ordinary writes that are not fenced; the fence, or the start, after which none came; waits for a barrier;
# cp.async; waits of a thread for its own cp.async; the meeting of threads, or the start, after which no such wait came.
_SHARED, _FENCED, _WAITED, _COPIED, _OWN, _MET = (3 * REGISTERS + n for n in range(6))
_SIZE = 3 * REGISTERS + 6
WRITERS = frozenset({"STS", "STSM", "ATOMS", "LDGSTS"})  # to shared memory as threads do; LDGSTS is cp.async
STORES = frozenset({"UTMASTG", "UTMAREDG"})
_ACTIVE = MATRIX | WRITERS | STORES | {"WARPGROUP", "FENCE", "UBLKCP", "UBLKRED", "DEPBAR", "BAR"}

Report = Callable[[str, int, int, int], None]


@dataclass
class Facts:
    """What may be under way at one place; `at` holds, for each register and each other fact, who began it."""

    at: NDArray[np.int64] = field(default_factory=lambda: np.full(_SIZE, NOTHING, np.int64))

    @classmethod
    def at_entry(cls) -> Facts:
        """Return what holds where a kernel begins: all registers are touched, -1 for nobody in particular."""
        facts = cls()
        facts.at[_TOUCHED] = facts.at[_FENCED] = facts.at[_MET] = -1
        return facts

    def copy(self) -> Facts:
        """Return facts that change by themselves."""
        return Facts(self.at.copy())

    def join(self, other: Facts) -> bool:
        """Add what may be under way on another way; return whether that is more."""
        less = np.minimum(self.at, other.at)
        changed = bool((less != self.at).any())
        self.at = less
        return changed

    @property
    def busy(self) -> bool:
        """Whether any matrix operation may be under way."""
        return bool((self.at[: 2 * REGISTERS] < NOTHING).any())

    @property
    def sums(self) -> NDArray[np.int64]:
        """Accumulators."""
        return self.at[_SUMS]

    @property
    def sources(self) -> NDArray[np.int64]:
        """Registers that a matrix operation reads."""
        return self.at[_SOURCES]

    @property
    def touched(self) -> NDArray[np.int64]:
        """Registers that were written since WARPGROUP.ARRIVE."""
        return self.at[_TOUCHED]


def is_bulk_store(one: Instruction) -> bool:
    """Whether the copy engine reads shared memory for it."""
    return one.base in STORES or (one.base in {"UBLKCP", "UBLKRED"} and one.parts[1:3] in {("G", "S"), ("S", "S")})


def is_group_store(one: Instruction) -> bool:
    """Whether the thread waits for it by groups; copies to another block are counted by its barrier."""
    return is_bulk_store(one) and (one.base in STORES or one.parts[1] == "G")


def _check(facts: Facts, place: int, one: Instruction, report: Report) -> None:
    """Report what an instruction must not touch: kind, its place, that of the other one, the register (-1 for none)."""
    access = touched(one)
    for kind, spans in (("reads", access.reads), ("writes", access.writes)):
        for span in spans:
            for register in span:
                if facts.sums[register] < NOTHING:
                    report(f"sum_{kind}", place, _place(facts.sums[register]), register)
                if kind == "writes" and facts.sources[register] < NOTHING:
                    report("source_writes", place, _place(facts.sources[register]), register)
    if one.base == "EXIT":
        report("end", place, _place(int(facts.at[: 2 * REGISTERS].min())), -1)


def _wait_or_arrive(facts: Facts, one: Instruction) -> None:
    if "ARRIVE" in one.parts:
        facts.touched[:] = NOTHING
    elif "DEPBAR" in one.parts:
        left = int(one.operands[-1], 0)  # groups that may still be under way
        for half in (facts.sums, facts.sources):
            half[(half < NOTHING) & (half // _AGE > left)] = NOTHING


def _memory(facts: Facts, place: int, one: Instruction, report: Report) -> None:
    if one.base in WRITERS:
        facts.at[_SHARED] = min(facts.at[_SHARED], place)
        facts.at[_FENCED] = NOTHING
        if one.base == "LDGSTS":
            facts.at[_COPIED] = min(facts.at[_COPIED], place)
    elif one.base == "FENCE" and "ASYNC" in one.parts and "G" not in one.parts:
        facts.at[_FENCED] = place
        if not one.conditional:
            facts.at[_SHARED] = NOTHING
    elif is_bulk_store(one) and facts.at[_SHARED] < NOTHING:
        sure = facts.at[_FENCED] == NOTHING
        report("store_unfenced" if sure else "store_unfenced_somewhere", place, int(facts.at[_SHARED]), -1)
    elif one.base == "DEPBAR" and facts.at[_COPIED] < NOTHING:
        facts.at[_OWN], facts.at[_MET] = min(facts.at[_OWN], place), NOTHING
    if "PHASECHK" in one.parts or (one.base == "BAR" and "ARV" not in one.parts):
        facts.at[_OWN], facts.at[_MET] = NOTHING, place
        if one.base == "SYNCS":
            facts.at[_WAITED] = min(facts.at[_WAITED], place)


def _multiply(facts: Facts, place: int, one: Instruction, report: Report) -> None:
    matrix = matrix_of(one)
    cases = (
        ("sum_as_source", matrix.sources, facts.sums),
        ("source_accumulated", (matrix.accumulators,), facts.sources),
        ("sum_again", (matrix.accumulators,), facts.sums),
        ("not_arrived", (matrix.accumulators, *matrix.sources), facts.touched),
    )
    for kind, spans, held in cases:
        for register in (register for span in spans for register in span):
            if held[register] < NOTHING:
                report(kind, place, _place(held[register]), register)
    if matrix.accumulators:  # else it only ends a group
        _operands(facts, place, report)
    facts.sums[matrix.accumulators.start : matrix.accumulators.stop] = place
    for span in matrix.sources:
        facts.sources[span.start : span.stop] = place
    if matrix.commits:
        for half in (facts.sums, facts.sources):
            half[half < _OLDEST * _AGE] += _AGE


def _operands(facts: Facts, place: int, report: Report) -> None:
    """Judge whether what a multiplication reads from shared memory is there."""
    if facts.at[_SHARED] < NOTHING:
        report("multiply_unfenced", place, int(facts.at[_SHARED]), -1)
    elif facts.at[_WAITED] == NOTHING:
        report("multiply_unwaited", place, -1, -1)
    if facts.at[_OWN] < NOTHING and facts.at[_MET] == NOTHING:
        report("multiply_alone", place, int(facts.at[_OWN]), -1)


def _place(fact: int) -> int:
    """Return the place in a fact, -1 for nobody in particular."""
    return int(fact) % _AGE if fact >= 0 else -1


_Touch = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass
class _Body:
    """A block in short: registers that are written, with who did, and between them the instructions that do more."""

    parts: list[_Touch | int]

    @classmethod
    def of(cls, code: list[Instruction], start: int, end: int) -> _Body:
        parts: list[_Touch | int] = []
        written: dict[int, int] = {}

        def close() -> None:
            if written:
                parts.append((np.array(list(written), np.int64), np.array(list(written.values()), np.int64)))
                written.clear()

        for place in range(start, end):
            one = code[place]
            if one.never:
                continue
            if one.base not in MATRIX:
                written |= {register: place for span in touched(one).writes for register in span}
            if one.base in _ACTIVE or "PHASECHK" in one.parts:
                close()
                parts.append(place)
        close()
        return cls(parts)

    def run(self, facts: Facts, code: list[Instruction]) -> None:
        for part in self.parts:
            if isinstance(part, int):
                _act(facts, part, code[part], _silent)
            else:
                facts.touched[part[0]] = part[1]


def _act(facts: Facts, place: int, one: Instruction, report: Report) -> None:
    """Let an instruction change what is under way."""
    if one.base in MATRIX:
        _multiply(facts, place, one, report)
    elif one.base == "WARPGROUP":
        if not one.conditional:
            _wait_or_arrive(facts, one)
    else:
        _memory(facts, place, one, report)


def run(kernel: Kernel, blocks: list[Block], report: Report) -> None:
    """Find what holds at the start of each block, then report on every instruction that is reached."""
    code = kernel.instructions
    rank = {n: r for r, n in enumerate(_in_order(blocks))}
    bodies = {n: _Body.of(code, blocks[n].start, blocks[n].end) for n in rank}
    inner = {n: reached(blocks, blocks[n].calls) for n in rank if blocks[n].calls >= 0}
    entries: dict[int, Facts] = {0: Facts.at_entry()}
    open_ = [(0, 0)]
    while open_:
        _, n = heappop(open_)
        facts = entries[n].copy()
        bodies[n].run(facts, code)
        follows = [(follower, facts) for follower in blocks[n].follows]
        if n in inner:
            follows = [(blocks[n].calls, facts), *((one, _called(facts, inner[n], bodies)) for one, _ in follows)]
        for follower, given in follows:
            if follower not in entries:
                entries[follower] = given.copy()
            elif not entries[follower].join(given):
                continue
            if (rank[follower], follower) not in open_:
                heappush(open_, (rank[follower], follower))
    for n, facts in sorted(entries.items()):
        _report_block(facts.copy(), code, blocks[n], report)


def _report_block(facts: Facts, code: list[Instruction], block: Block, report: Report) -> None:
    busy = facts.busy
    for place in range(block.start, block.end):
        one = code[place]
        if one.never:
            continue
        if one.base not in MATRIX:
            if busy:
                _check(facts, place, one, report)
            for span in touched(one).writes:
                facts.touched[span.start : span.stop] = place
        _act(facts, place, one, report)
        if one.base in MATRIX or one.base == "WARPGROUP":
            busy = facts.busy


def _called(facts: Facts, inner: set[int], bodies: dict[int, _Body]) -> Facts:
    """Return the facts behind a call: the function that was called has written registers."""
    after = facts.copy()
    for part in (part for n in inner for part in bodies[n].parts if not isinstance(part, int)):
        after.touched[part[0]] = part[1]
    return after


def _in_order(blocks: list[Block]) -> list[int]:
    """Return the blocks that are reached, those that follow behind those that lead to them, loops aside."""
    found: list[int] = []
    seen = {0}
    stack = [(0, iter(_next(blocks[0])))]
    while stack:
        n, rest = stack[-1]
        follower = next((one for one in rest if one not in seen), None)
        if follower is None:
            found.append(n)
            stack.pop()
        else:
            seen.add(follower)
            stack.append((follower, iter(_next(blocks[follower]))))
    return found[::-1]


def _next(block: Block) -> list[int]:
    return block.follows + ([block.calls] if block.calls >= 0 else [])


def _silent(kind: str, place: int, other: int, register: int) -> None:
    """Report nothing: the facts are not complete yet."""

"""Registers that matrix units write: what may be done with them before the unit's work is waited for."""

from __future__ import annotations

from typing import Any, TypeAlias

from legalsat.analyses.ptx.instruction import Instruction, names_in, results_of
from legalsat.analyses.ptx_machine.machine import PASS, Operation, Part, Run, Warp

_Copy: TypeAlias = tuple[tuple[str, ...], list[str]]


class Copies:
    """Copies of registers, one behind the other.

    Args:
        origins: which registers all of them write, and from which ones of before.
        more: how many follow the first.
    """

    def __init__(self, origins: list[tuple[str, list[str]]], more: int = 0) -> None:
        self.origins, self.more = origins, more
        self._written = [to for to, _ in origins]
        self._read = sorted({one for _, several in origins for one in several or [""]})

    def pass_on(self, pending: dict[str, int]) -> None:
        """Let registers be written last by what wrote those that they are copies of."""
        get = pending.get
        numbers = set(map(get, self._read))
        if len(numbers) == 1 and None not in numbers:  # all of one fetch
            pending.update(dict.fromkeys(self._written, numbers.pop() or 0))
            return
        written = [(to, max([get(one, -1) for one in several], default=-1)) for to, several in self.origins]
        for to, number in written:
            if number >= 0:
                pending[to] = number
            else:
                pending.pop(to, None)


class Idle:
    """An operation that only looks at registers that a matrix unit may still write.

    Where no unit has anything under way, a sequence of these is passed in one step; and one of copies in any case.

    Attributes:
        copy: the registers that it writes, and those that it copies; none where it is no copy.
        copies: it and those that follow.
    """

    def __init__(self, operation: Operation, *, unfences: bool, copy: _Copy | None = None) -> None:
        self.operation, self.unfences, self.following, self.copy = operation, unfences, 0, copy
        self.copies = Copies([])

    def __call__(self, run: Run, warp: Warp, part: Part) -> int | None:
        """Look, or pass all that follow."""
        if self.following and not warp.sums and not warp.fetches:
            if self.unfences:
                warp.wgmma_fenced = False
            part.pc += self.following
            return PASS
        copies = self.copies
        if copies.more:
            for pending in (warp.sums, warp.fetches):
                if pending:
                    copies.pass_on(pending)
            part.pc += copies.more
            return PASS
        return self.operation(run, warp, part)


def join_idle(code: list[Operation]) -> None:
    """Let operations that only look at registers know how many of their kind follow."""
    for begin, operation in enumerate(code):
        before = code[begin - 1] if begin else None
        if isinstance(operation, Idle) and operation.copy and not (isinstance(before, Idle) and before.copy):
            operation.copies = _joined(code, begin)
    following, unfences = 0, False
    for operation in reversed(code):
        if isinstance(operation, Idle):
            unfences |= operation.unfences
            operation.following, operation.unfences = following, unfences
            following += 1
        else:
            following, unfences = 0, False


def _joined(code: list[Operation], begin: int) -> Copies:
    """Return the copies that follow one, and what all of them do together."""
    at, origins = begin, dict[str, list[str]]()
    while at < len(code) and isinstance(one := code[at], Idle) and one.copy:
        results, sources = one.copy
        found = sorted({origin for source in sources for origin in origins.get(source, [source])})
        origins |= dict.fromkeys(results, found)
        at += 1
    return Copies([*origins.items()], at - begin - 1)


# What compilers place between a matrix unit's write of registers and the wait for it: copies, and conversions that they
# move no further than the wait; and what packs what comes from tensor memory into wider registers.
COPIES = frozenset({"mov", "cvt"})
PACKS = frozenset({"mov", "cvt", "shl", "or"})


def sources_of(i: Instruction) -> list[str]:
    """Return the registers that an instruction reads, its first operand being what it writes."""
    return [*i.reads]


def make_copy(i: Instruction, inner: Operation | None) -> Operation:
    """Return a copy of registers that a matrix unit may still write: assemblers rename them, so no harm is done yet."""
    results, sources = results_of(i), sources_of(i)
    alone, to_one = (sources[0], results[0]) if len(sources) == len(results) == 1 else ("", "")

    def passed_on(pending: dict[str, int]) -> None:
        if alone:
            number = pending.get(alone)
            if number is not None:
                pending[to_one] = number
            elif to_one in pending:
                del pending[to_one]
            return
        found = [pending[source] for source in sources if source in pending]
        for to in results:
            if found:
                pending[to] = max(found)
            else:
                pending.pop(to, None)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if warp.sums:
            passed_on(warp.sums)
        if warp.fetches:
            passed_on(warp.fetches)
        return inner(run, warp, part) if inner is not None else None

    return operation if inner is not None else Idle(operation, unfences=False, copy=(results, sources))


def make_touch(program: Any, i: Instruction, inner: Operation | None) -> Operation:
    """Return the check that no unit may still write a register that is touched, around what the instruction does."""
    line = i.line
    found = [n for one in i.operands for n in names_in(one)]
    sums, fetched = ([n for n in found if n in names] for names in (program.sums, program.fetched))
    writes = [n for n in sums if n in names_in(i.operands[0])] if i.base not in {"st", "red"} else []

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if warp.sums or warp.fetches:
            retired = warp.retired["wgmma"]
            for name in sums:
                if warp.sums.get(name, -1) >= retired:
                    run.order.find("sums_not_ready", line, f"{name} is touched while a wgmma may still write it")
                    break
            done = max((warp.fetches[name] for name in fetched if name in warp.fetches), default=-1)
            if done >= warp.fetched:
                # The registers are tracked: who uses them has waited, for this fetch and for those before.
                run.order.find("fetched_not_waited", line, "registers of tcgen05.ld are used before tcgen05.wait::ld")
                warp.fetched = done + 1
                if warp.fetched == warp.counts.get("ld.tensor", 0):
                    warp.fetches.clear()  # else those before are known by their numbers
                clock, agent = warp.worker.known, run.agent("ld.tensor", warp.index)
                clock[agent] = max(clock[agent], done + 1)
        if writes:
            warp.wgmma_fenced = False
        return inner(run, warp, part) if inner is not None else None

    return operation if inner is not None else Idle(operation, unfences=bool(writes))

"""Sums of wgmma in registers: they begin, others are added, they are read, and only then others begin in their place.

Registers hold something once an instruction of threads has written them or a wgmma that does not add has. All sums of
an instruction go the same way, so that the first of its registers stands for the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from legalsat.analyses.ptx.instruction import Instruction, names_in, results_of, vector
from legalsat.analyses.ptx_machine.machine import Operation, Part, Run, Warp

# What a warp knows of a register: that threads wrote it, or the line of the wgmma, below 0 once it was read. What
# threads make of sums that nobody else has read, as where they scale them, still holds these: the line, and so much
# more.
_BY_THREADS, _PUT_BACK = 0, 1 << 32


class Sums:
    """The sums of one wgmma.

    Args:
        program: with the first registers of all sums.
        i: the instruction.
    """

    def __init__(self, program: Any, i: Instruction) -> None:
        self._first, self._line = vector(i.operands[0])[0], i.line
        self._added = program.source(i.operands[3], 1, i.line)
        self._taken = sorted(program.firsts.intersection(vector(i.operands[1])))

    def multiply(self, run: Run, warp: Warp, part: Part) -> bool | None:
        """Let it add to its registers, or begin there anew; return whether it adds, None where that is not known."""
        have_read(warp, self._taken)
        held, line, known = part.registers[self._added], self._line, warp.results.get(self._first)
        chosen = held & part.mask if type(held) is int else -1
        if chosen not in {0, part.mask}:
            warp.results[self._first] = _BY_THREADS
            return None
        warp.results[self._first] = line
        reason = ""
        if not chosen and known is not None and known > 0:
            lost = f"nobody has read the sums of line {known % _PUT_BACK} in whose place this writes"
            reason = f"{lost}, as if it added nothing to them"
        elif chosen and known is None:
            reason = "this adds to registers that nothing has written"
        elif chosen and known is not None and known < 0:
            reason = f"this adds to sums of line {-known} that have been read, as if it did not begin anew"
        if reason:
            run.order.doubts[line, reason] = None
        return bool(chosen)


def noted(program: Any, i: Instruction, inner: Operation) -> Operation:
    """Return what an instruction of threads does, with what it does to sums of wgmma."""
    written = sorted(program.firsts.intersection(results_of(i)))
    read = sorted(program.firsts.intersection(n for one in i.operands for n in names_in(one)) - {*written})
    read += [one for one in written if one in i.reads]
    if not written and not read:
        return inner

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        held = warp.results
        kept = max([held.get(name, 0) for name in read], default=0) if written else 0
        have_read(warp, read)
        for name in written:
            held[name] = kept % _PUT_BACK + _PUT_BACK if kept > 0 else _BY_THREADS
        return inner(run, warp, part)

    return operation


def have_read(warp: Warp, names: Iterable[str]) -> None:
    """Note that threads read registers."""
    for name in names:
        line = warp.results.get(name, 0)
        if line > 0:
            warp.results[name] = -line if line < _PUT_BACK else _BY_THREADS

"""Work that is taken over from clusters not launched yet: `clusterlaunchcontrol`, by which persistent kernels go on.

`try_cancel` asks for another cluster's work; the answer, of 16 bytes, comes into shared memory like a bulk copy, and
says whether there was any. How often there is, the launch decides: `%cancelled` of a run, which is swept. The work is
then that of the clusters that follow along x. Where it lies is asked under the condition that there was any, so that
the first registers that say so hold anything if there was none: several values are tried, `%undefined`.
"""

from __future__ import annotations

from typing import Any

from legalsat.analyses.ptx.findings import Undecided
from legalsat.analyses.ptx.instruction import Instruction, vector
from legalsat.analyses.ptx_machine import copies, units
from legalsat.analyses.ptx_machine.alu import FULL
from legalsat.analyses.ptx_machine.guards import active, assign, guard_of
from legalsat.analyses.ptx_machine.launches.data import CANCELLED
from legalsat.analyses.ptx_machine.machine import Operation, Part, Run, Warp
from legalsat.analyses.ptx_machine.memory import SHARED_BYTES

ANSWER = 16  # bytes
_WORD = 64  # bits: the first word of an answer says whether there is work, the second which


def make(program: Any, i: Instruction) -> Operation:
    """Return what asks for work, or reads an answer."""
    return _ask(program, i) if i.parts[1] == "try_cancel" else _query(program, i)


def _ask(program: Any, i: Instruction) -> Operation:
    line, guard = i.line, guard_of(program, i)
    to: tuple[int, int] = program.address(i.operands[0], line)
    barrier: tuple[int, int] = program.address(i.operands[1], line)
    everywhere = any(part.startswith("multicast") for part in i.parts)
    program.steering.add(CANCELLED)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        if lanes & lanes - 1:
            raise Undecided(line, "several lanes ask for work at once")
        target = units.shared_place(part, *to, lanes, line)
        signalled = units.shared_place(part, *barrier, lanes, line)
        run.cancelled += 1
        granted = run.cancelled <= run.parameters.get(CANCELLED, 0)
        ranks = range(len(run.living)) if everywhere else [target // SHARED_BYTES]
        for rank in ranks:
            there = rank * SHARED_BYTES + target % SHARED_BYTES
            at = rank * SHARED_BYTES + signalled % SHARED_BYTES
            copies.arrive_with(run, warp, lanes, there, at, ANSWER, line)
            run.store_values(there, ANSWER, int(granted) | run.cancelled << _WORD, lanes)
        return None

    return operation


def _query(program: Any, i: Instruction) -> Operation:
    line, guard = i.line, guard_of(program, i)
    answer = program.slot(i.operands[1], line)
    names = vector(i.operands[0])
    axes = "xyz" if len(names) > 1 else next((p[-1] for p in i.parts if "ctaid::" in p), "x")
    places = [
        (program.slot(name, line), axis) for name, axis in zip(names, axes, strict=False) if name in program.needed
    ]
    asks = "is_canceled" in i.parts
    if i.guard and not asks:
        program.undefined.update(place for place, _ in places)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        held = part.registers[answer]
        for place, axis in places:
            value = None
            if isinstance(held, int) and asks:
                value = FULL * (held & 1)
            elif isinstance(held, int):
                first = run.parameters.get(f"%ctaid.{axis}", 0)
                value = first + (held >> _WORD) * program.kernel.cluster[0] * (axis == "x")
            assign(part, place, value, guard, line, predicate=asks)
        return None

    return operation

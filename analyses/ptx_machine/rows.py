"""Matrices of 8 rows of 16 bytes that a warp reads or writes together: ldmatrix and stmatrix."""

from __future__ import annotations

import re
from typing import Any

from legalsat.analyses.ptx.instruction import Instruction, vector
from legalsat.analyses.ptx.loads import BY_THREADS
from legalsat.analyses.ptx_machine import units
from legalsat.analyses.ptx_machine.guards import active, guard_of
from legalsat.analyses.ptx_machine.machine import PARK, Operation, Part, Run, Warp
from legalsat.analyses.ptx_machine.places import Places


def make(program: Any, i: Instruction) -> Operation:
    """Ldmatrix and stmatrix: lanes 8m to 8m + 7 give the addresses of the rows, of 16 bytes, of matrix m."""
    writes = i.base == "stmatrix"
    line, guard = i.line, guard_of(program, i)
    place, offset = program.address(i.operands[0 if writes else 1], line)
    count = next((int(p[1]) for p in i.parts if re.fullmatch(r"x[124]", p)), 1)
    rows = (1 << 8 * count) - 1
    names = vector(i.operands[0]) if not writes else []
    places = [program.slot(n, line) for n in names if n in program.needed]
    reach = Places(program.granule, offset, line)
    stretch = program.stretches.get(id(i), 0)

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        lanes = active(part, guard, line)
        if not lanes:
            return None
        if part.mask != warp.live:
            return PARK
        order, worker = run.order, warp.worker
        reached = reach.at(part.registers[place], lanes & rows, 16)
        if units.check_inside(run, reached, line):
            cells = reached.cells
            if writes:
                order.written.matrices.add(line)
                order.write(order.shared, cells, worker, worker.index, worker.time, "st", line)
                run.forget(reached.bytes)
            else:
                writers = order.read(order.shared, cells, worker, worker.index, worker.time, "ldmatrix", line)
                accesses = [order.accesses[one] for one in writers]
                if all(one.kind in BY_THREADS for one in accesses):
                    run.program.matrices.note((one.line for one in accesses), line)
                fragments, spans = order.written.fragments, map(order.loads.spans.get, writers)
                warp.fragments[stretch] = fragments.note(stretch, warp.fragments.get(stretch, 0), line, cells)
                listed = ((one.line, span) for one, span in zip(accesses, spans, strict=True)
                          if span is not None or one.kind in BY_THREADS)  # fmt: skip
                fragments.note_sources(stretch, listed, cells)
            worker.meet()
        for to in places:
            part.registers[to] = None
        return None

    return operation

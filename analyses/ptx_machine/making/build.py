"""Makes the operations of a program: a function for each instruction that is kept, and what labels and ends do."""

from __future__ import annotations

from typing import Any

from legalsat.analyses.ptx.findings import Undecided
from legalsat.analyses.ptx.instruction import Instruction, results_of
from legalsat.analyses.ptx_machine import branches, registers, units
from legalsat.analyses.ptx_machine.compute import compute
from legalsat.analyses.ptx_machine.lanes import make_lanes
from legalsat.analyses.ptx_machine.launches.watch import watch_all
from legalsat.analyses.ptx_machine.machine import EXIT, JUMP, Operation, Part, Run, Warp
from legalsat.analyses.ptx_machine.making import series
from legalsat.analyses.ptx_machine.matrix import results
from legalsat.analyses.ptx_machine.order import BRANCHES, alive, ranks
from legalsat.analyses.ptx_machine.slice import LANE_OPERATIONS, touches

# Without a run that comes to these nothing is known of them.
COVERED = frozenset({"mbarrier", "cp", "wgmma", "tcgen05", "bar", "barrier"})


def build(program: Any, instructions: list[Instruction], labels: dict[str, int], kept: list[bool]) -> None:
    """Give a program its operations.

    Args:
        program: whose kernel the instructions are.
        instructions: all of them, in order.
        labels: before which of them each stands.
        kept: which of them matter.
    """
    kernel = program.kernel
    targets: dict[int, list[str]] = {}
    for label, at in labels.items():
        targets.setdefault(at, []).append(label)
    places: dict[str, int] = {}
    chosen: list[tuple[str, Instruction | None]] = []
    for n in range(len(instructions) + 1):
        if n in targets:
            for label in targets[n]:
                places[label] = len(chosen)
            chosen.append(("label", None))
        if n < len(instructions) and kept[n]:
            chosen.append(("", instructions[n]))
    chosen.append(("end", None))
    line = kernel.line
    for at, (what, instruction) in enumerate(chosen):
        if instruction is None:
            program.code.append(_end if what == "end" else _label)
            program.texts.append(what)
        else:
            line = instruction.line
            operation = _operation(program, instruction, places, at)
            if instruction.base != "wgmma" and program.firsts:
                operation = results.noted(program, instruction, operation)
            if instruction.base in COVERED:
                program.covered[at] = instruction.line
            program.code.append(operation)
            program.texts.append(instruction.name)
        program.lines.append(line)
    program.bare = list(program.code)
    program.places = [at for at, (_, i) in enumerate(chosen) if i is not None]
    program.chosen = [i for _, i in chosen if i is not None]
    watch_all(program, chosen)
    registers.join_idle(program.code)
    series.join_series(program, chosen)
    program.rank = ranks(program, chosen, places)
    program.live = alive(program, chosen, places)
    for at in program.headers:
        program.code[at] = _header(at)


def _end(run: Run, warp: Warp, part: Part) -> int:
    return EXIT


def _label(run: Run, warp: Warp, part: Part) -> int | None:
    if len(warp.parts) > 1 and not part.seen:
        # Others may be here, or before it in the kernel's order.
        part.seen = True
        return JUMP
    part.seen, part.gathers = False, None
    return None


def _header(at: int) -> Operation:
    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        signal = _label(run, warp, part)
        if signal is None:
            run.remember(warp, part, at)
        return signal

    return operation


def _operation(program: Any, i: Instruction, places: dict[str, int], at: int) -> Operation:
    """Return what an instruction does; where it is not understood, that is said when it is reached."""
    base = i.base
    flow = {"bra": branches.make_branch, "brx": branches.make_table}
    try:
        if base in flow:
            return flow[base](program, i, places)
        if base in BRANCHES:
            return branches.make_end(program, i) if base in {"ret", "exit"} else branches.make_stop(program, i)
        if base in LANE_OPERATIONS:
            return make_lanes(program, i)
        effect = base in units.EFFECTS or base in {"bar", "barrier"}
        if effect and (base == "wgmma" or not touches(i, program.sums | program.fetched) or "ld" in i.parts[:2]):
            return units.make(program, i, at)
        return _touching(program, i, at)
    except (LookupError, ValueError, TypeError, Undecided):
        return units.refused(program, i)


def _touching(program: Any, i: Instruction, at: int) -> Operation:
    """Return what an instruction does to its registers, with a check where matrix units write these."""
    if not touches(i, program.sums | program.fetched):
        return compute(program, i)
    inner = None
    if i.base == "ld":
        inner = compute(program, i)
    elif units.is_effect(i):
        inner = units.make(program, i, at)
    elif any(r in program.needed for r in results_of(i)):
        inner = compute(program, i)
    if i.base in registers.COPIES or (i.base in registers.PACKS and not touches(i, program.sums)):
        return registers.make_copy(i, inner)
    return registers.make_touch(program, i, inner)

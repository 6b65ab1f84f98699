"""Is what is launched what is planned, on every GPU and by every backend? A part of `python -m bench.one_plan`.

Of a product, a batch or groups: each backend that prints it, what it launches, in front and behind as well. Of a
program of several operators: every step's kernel and relayouts, and where each reads and writes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import legalsat as ls
from bench.gpu.member_cases import cases, operator_of
from bench.kernels import one_movement
from bench.kernels.one_movement import Compared
from legalsat.backends import PRODUCT_PROGRAMS, backend_of, program
from legalsat.backends.composed import BACKENDS, schedule
from legalsat.backends.relayouts import let_in
from legalsat.extract.kernels.product_maps import extents
from legalsat.options import RunProductBackend
from legalsat.plans.gemm_plan import InFront
from legalsat.program.early import begins_early
from legalsat.program.pipeline import Load, Multiply, Registers, walk
from legalsat.runtime.program import MapArgument, MapsArgument, NumberArgument, Program
from legalsat.runtime.schedule import Schedule

TARGETS = ("h200", "h100", "b200", "b300", "thor")


def members(r: random.Random) -> ls.Gemm:
    """Return a random batch, groups of rows or groups along k, of any type and alignment."""
    drawn = list(cases(r.choice(("random", "loose", "cut")), r.randrange(2**32)))
    found: ls.Gemm = operator_of(r.choice(drawn))
    return found


def planned(gemm: ls.Gemm, r: random.Random) -> ls.GemmPlan | None:
    """Return the plan of a product on a random GPU, sometimes for a backend; None where that has none."""
    backend: RunProductBackend | None = r.choice((None, None, "ptx", "triton"))
    try:
        return ls.synthesize(gemm, r.choice(TARGETS), backend=backend)
    except ls.LegalSatError:
        return None


def compared(plan: ls.GemmPlan) -> Iterator[Compared]:
    """Yield a field's name, what a product's plan says of it, and what a launch by a backend, or its program, says."""
    launches = list(one_movement.by_backends(PRODUCT_PROGRAMS, partial(program, plan), partial(_launch, plan)))
    yield from launches
    yield "printed", True, bool(launches)
    yield from _said(plan)


def _launch(plan: ls.GemmPlan, made: Program, backend: str) -> Iterator[Compared]:
    yield from _launched(plan, made, backend)
    yield from _relaid(plan.before, made)


def _launched(plan: ls.GemmPlan, made: Program, backend: str) -> Iterator[Compared]:
    kernel, launch, gemm = plan.kernel, made.recipes[0], plan.operator
    yield "operands, launch", {**gemm.tensors, "C": gemm.c}, _operands(plan, made)
    yield "grid, launch", plan.launch.programs or launch.grid[0], launch.grid[0]
    yield "dependent, launch", begins_early(plan.program.everybody), launch.dependent
    arguments = launch.arguments[0].maps if isinstance(launch.arguments[0], MapsArgument) else launch.arguments
    maps = [one.map for one in arguments if isinstance(one, MapArgument)]
    yield "tensor maps, launch", list(plan.tensor_maps), maps[: len(plan.tensor_maps)]
    numbers = [one.value for one in launch.arguments if isinstance(one, NumberArgument)]
    m, n = extents(gemm, kernel)
    counted = [m, n, gemm.k, *kernel.clusters(m, n), kernel.group]
    yield "numbers, launch", True, any(numbers[at : at + 6] == counted for at in range(len(numbers)))
    if backend != "triton":  # which says these once it has compiled
        yield "threads, launch", kernel.threads, launch.threads
        yield "warps, launch", plan.launch.warps, launch.threads // 32
        yield "cluster, launch", kernel.cluster_blocks, launch.cluster[0]
        yield "shared bytes, launch", plan.cost.shared_bytes, launch.shared
    if backend == "ptx":
        yield from _text(plan, made.text)
    behind = plan.behind
    yield "behind, launch", [] if behind is None else [behind.kernel.entry], [one.entry for one in made.recipes[1:]]
    if behind is not None:
        yield "blocks behind, launch", behind.blocks, made.recipes[1].grid[0]
        given = [one.value for one in made.recipes[1].arguments if isinstance(one, NumberArgument)]
        yield "numbers behind, launch", list(behind.numbers), given
        yield "workspace, launch", behind.bytes, made.workspaces[0].bytes


def _operands(plan: ls.GemmPlan, made: Program) -> dict[str, Any]:
    """Return an operand's tensors by name as a launch has them, of those that the plan names, at what it knows."""
    asked = {**plan.operator.tensors, "C": plan.operator.c}
    given = {one.name.upper() if len(one.name) == 1 else one.name: one.tensor for one in made.operands}
    return {name: replace(given[name], align=one.align, offset=one.offset) for name, one in asked.items()}


def _text(plan: ls.GemmPlan, text: str) -> Iterator[Compared]:
    """Yield what a text in PTX has literally."""
    kernel = plan.kernel
    yield "threads, text", str(kernel.threads), re.findall(r"\.reqntid (\d+)", text)[0]
    cluster = re.findall(r"\.reqnctapercluster (\d+)", text)
    yield "cluster, text", kernel.cluster_blocks, int(cluster[0]) if cluster else 1
    handed = {int(one) for one in re.findall(r"setmaxnreg\.\w+\.sync\.aligned\.u32 (\d+);", text)}
    asked = {op.count for role in plan.pipeline.roles for op in walk(role.body) if isinstance(op, Registers)}
    yield "registers, text", asked, handed
    yield "registers, plan", True, set(plan.registers) <= handed
    columns = re.findall(r"tcgen05\.alloc\..*\], (\d+);", text)
    mma = plan.mma
    yield "tensor memory, text", [mma.allocated] * (mma.unit == "tcgen05"), [int(one) for one in columns]
    if mma.unit == "tcgen05":
        yield "instruction, text", True, f" {mma.instruction}" in text or f" {hex(mma.instruction)}" in text


def _relaid(before: tuple[InFront, ...], made: Program) -> Iterator[Compared]:
    """Yield what runs in front: the very programs of the plans that say so."""
    yield "operands in front, launch", [one.operand for one in before], [one.operand for one in made.before]
    for one, front, launched in zip(before, (None, *before), made.before, strict=False):
        backend = backend_of(launched.program)
        yield "constant in front, launch", one.constant, launched.constant
        said = _printed(one, front, backend)
        yield "program in front, launch", said, launched.program
        if said == launched.program:
            yield from one_movement.compared_text(one.plan, launched.program, backend)


def _printed(one: InFront, front: InFront | None, backend: str) -> Program | str:
    """Return a relayout's program by a backend, let in as behind the one in front of it, or why there is none."""
    try:
        return let_in(program(one.plan, backend), one, front)
    except ls.LegalSatError as error:
        return str(error)


def _said(plan: ls.GemmPlan) -> Iterator[Compared]:
    """Yield what the proven program says."""
    kernel, ops = plan.kernel, [op for role in plan.pipeline.roles for op in walk(role.body)]
    yield "unit, program", {plan.mma.unit}, {op.unit for op in ops if isinstance(op, Multiply)}
    yield "stages, program", plan.stages, {one.name: one for one in plan.pipeline.barriers}["full"].stages
    yield "cluster, program", kernel.cluster_blocks, plan.pipeline.cluster
    yield "loads, program", True, any(isinstance(op, Load) for op in ops)
    yield "proof", True, ls.check_pipeline(plan).proven
    shown = str(plan)
    yield "tile, print", True, " x ".join(map(str, plan.tile)) in shown
    yield "in front, print", True, all(one.operand.upper() in shown for one in plan.before)


def compared_program(plan: ls.ProgramPlan) -> Iterator[Compared]:
    """Yield the same of a program: what each step launches, by every backend that prints all of them."""
    launches = list(one_movement.by_backends(BACKENDS, partial(schedule, plan), partial(_turns, plan)))
    yield from launches
    yield "printed", True, bool(launches)


def _turns(plan: ls.ProgramPlan, made: Schedule, _: str) -> Iterator[Compared]:
    turns = iter(made.turns)
    for number, step in enumerate(plan.steps, 1):
        laid: dict[str, str] = {}  # of an operand, the workspace that a relayout wrote
        before = step.plan.before if isinstance(step.plan, ls.GemmPlan) else _of_movement(step.plan)
        for one, front in zip(before, (None, *before), strict=False):
            turn = next(turns)
            yield f"once in front of step {number}", step.once or one.constant, turn.once
            yield f"program in front of step {number}", _printed(one, front, backend_of(turn.program)), turn.program
            laid[one.operand] = turn.places[turn.program.result.name].operand
        turn = next(turns)
        alone = replace(program(step.plan, backend_of(turn.program)), before=())
        yield f"program of step {number}", alone, turn.program
        yield f"once of step {number}", step.once, turn.once
        names = [one.name for one in turn.program.operands]
        places = zip(names, (*step.reads, step.writes), strict=True)
        wanted = [laid.get(name, place.buffer) for name, place in places]
        yield f"places of step {number}", wanted, [turn.places[name].operand for name in names]
    yield "turns", [], list(turns)


def _of_movement(plan: ls.MovementPlan) -> tuple[InFront, ...]:
    return tuple(InFront("source", one, plan.operator.constant) for one in plan.before)

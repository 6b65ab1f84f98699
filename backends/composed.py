"""Plans of programs: their steps' kernels in turn as one kernel, or as one file, with memory between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from legalsat.backends import backend_of, first_of, program
from legalsat.backends.host.guards import KEYWORDS
from legalsat.backends.host.launcher import TAKEN
from legalsat.checks import one_of
from legalsat.errors import LegalSatError
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.movement_plan import MovementPlan
from legalsat.plans.program_plan import Buffer, ProgramPlan
from legalsat.runtime.program import AddressArgument, Operand, Program, Workspace, needed, span_bytes
from legalsat.runtime.program_kernel import ProgramKernel
from legalsat.runtime.schedule import Schedule, Turn, turns_of

BACKENDS = ("cute", "triton")  # that print movements, best first
PRODUCTS = "ptx"  # which prints products that these do not
Printer = Callable[[MovementPlan | GemmPlan, str], Program]


def printed(plan: MovementPlan | GemmPlan, backend: str) -> Program:
    """Return the program of a step as a backend prints it, or as that does which prints products alone."""
    names = dict.fromkeys((backend, PRODUCTS) if isinstance(plan, GemmPlan) else (backend,))
    found: Program = first_of(names, lambda name: program(plan, name), "prints")[0]
    return found


def schedule(plan: ProgramPlan, backend: str, printer: Printer = printed) -> Schedule:
    """Return the programs of a plan's steps, and where each reads and writes.

    Args:
        plan: of a program.
        backend: that prints the steps; products that it has no row for are printed in PTX.
        printer: of a step.

    Raises:
        InvalidInput: no such backend.
        LegalSatError: neither prints a step; the message says which.
    """
    one_of(backend, "backend", BACKENDS)
    if not plan.target.architecture.startswith("sm_"):
        raise LegalSatError(f"kernels of programs are printed for NVIDIA GPUs, not for {plan.target}")
    behind = {one.name: one.tensor.offset if one.kind == "scratch" else 0 for one in plan.buffers}
    spaces, turns = list[Workspace](), list[Turn]()
    for number, step in enumerate(plan.steps, start=1):
        try:
            made = printer(step.plan, backend)
        except LegalSatError as error:
            raise LegalSatError(f"step {number}, {step.what}: {error}") from None
        ends = {
            operand.name: AddressArgument(place.buffer, place.start + behind[place.buffer])
            for operand, place in zip(made.operands, (*step.reads, step.writes), strict=True)
        }
        more, some = turns_of(
            made, ends, once=step.once, prefix=f"step{number}_", what=f"{step.writes.buffer}: {step.what}"
        )
        spaces, turns = spaces + more, turns + some
    kept = {turn.places[turn.program.result.name].operand for turn in turns if turn.once}
    for buffer in plan.buffers:
        if buffer.kind == "scratch":
            size = behind[buffer.name] + span_bytes(buffer.tensor)
            spaces.append(Workspace(buffer.name, size, kept=buffer.name in kept))
    operands = tuple(_operand(one, turns) for one in plan.buffers if one.kind != "scratch")
    results = len(plan.operator.results)
    return Schedule(str(plan.operator), plan.target.architecture, operands, results, tuple(spaces), tuple(turns))


def _operand(buffer: Buffer, turns: list[Turn]) -> Operand:
    """Return an input or a result, its address known to multiples of what its readers and its writer need."""
    asked = [
        one.tensor.align
        for turn in turns
        for one in turn.program.operands
        if turn.places[one.name].operand == buffer.name
    ]
    return Operand(buffer.name, needed(buffer.tensor, max(asked, default=1)))


def compiled_program(plan: ProgramPlan, backend: str | None = None) -> ProgramKernel:
    """Return what runs a plan's steps, built; by the first backend by which all of them are printed when none is named.

    Raises:
        LegalSatError: none prints it, or the tool that compiles the texts is missing, or refuses them.
    """

    def made(name: str) -> ProgramKernel:
        return ProgramKernel(schedule(plan, name)).build()

    return first_of(BACKENDS, made, "runs")[0] if backend is None else made(backend)


def emit_program(plan: ProgramPlan) -> str:
    """Return one file of CUDA C++ with all kernels of a plan and what launches them.

    Products that "cute" has no row for are in it as PTX.

    Raises:
        LegalSatError: as `schedule`.
    """
    from legalsat.backends.cute.cuda_file import cuda_file  # noqa: PLC0415 - backends are imported when they are used
    from legalsat.backends.host.product import in_file, in_strings  # noqa: PLC0415 - likewise

    def in_c(step: MovementPlan | GemmPlan, name: str) -> Program:
        made = printed(step, name)
        return in_file(made, step.before) if isinstance(step, GemmPlan) and backend_of(made) == PRODUCTS else made

    made = _in_c(schedule(plan, BACKENDS[0], in_c))
    title = f"{made.subject}, on {plan.target}: {len(plan.steps)} steps"
    some = [turn.program for turn in made.turns if backend_of(turn.program) == PRODUCTS]
    return cuda_file(made, title, "program", **in_strings(some))


def _in_c(made: Schedule) -> Schedule:
    """Return a schedule whose operands' and workspaces' names are identifiers of C++ too."""
    names = [*(one.name for one in made.operands), *(one.name for one in made.workspaces)]
    free = (f"{name}_{number}" for number in range(1, 10**6) for name in ("array",) if f"{name}_{number}" not in names)
    known = dict(_renamed(names, lambda: next(free)))

    def place(one: AddressArgument) -> AddressArgument:
        return replace(one, operand=known[one.operand])

    return replace(
        made,
        operands=tuple(replace(one, name=known[one.name]) for one in made.operands),
        workspaces=tuple(replace(one, name=known[one.name]) for one in made.workspaces),
        turns=tuple(replace(turn, places={n: place(p) for n, p in turn.places.items()}) for turn in made.turns),
    )


def _renamed(names: list[str], free: Callable[[], str]) -> Iterator[tuple[str, str]]:
    for name in names:
        yield name, name if re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) and name not in KEYWORDS | TAKEN else free()

"""One question for pipelines wherever they stand: in a plan, as a program, or in PTX text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from legalsat.analyses.protocol.typestate import check as check_program
from legalsat.analyses.sass.text import is_sass
from legalsat.diagnostics import Diagnostic
from legalsat.errors import InvalidInput
from legalsat.extract.check.check_ptx import PtxCheck, check_ptx
from legalsat.extract.check.check_sass import SassCheck, check_sass
from legalsat.extract.check.check_words import assumptions_of, diagnostic_of
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.movement_plan import MovementPlan
from legalsat.plans.plan import Plan
from legalsat.plans.program_plan import ProgramPlan
from legalsat.printable import printable
from legalsat.program.pipeline import Pipeline
from legalsat.targets import Target
from legalsat.targets import target as as_target


@dataclass(frozen=True, slots=True)
class PipelineCheck:
    """What was found about a pipeline.

    Attributes:
        subject: what was checked.
        diagnostics: breaks of the contract, errors first; warnings are what documents ask for and nobody enforces.
        proven: whether no error is found and nothing is left open, for all trip counts.
        unproven: what could not be decided, and where.
        assumptions: what a proof of PTX takes for granted, such as how many bytes a tensor map's box has where neither
            the text nor the caller says so.
    """

    subject: str
    diagnostics: tuple[Diagnostic, ...]
    proven: bool
    unproven: tuple[str, ...]
    assumptions: tuple[str, ...] = ()

    def __str__(self) -> str:
        wrong = any(one.level == "error" for one in self.diagnostics)
        state = "proven" if self.proven else "wrong" if wrong else "not proven"
        lines = [f"pipeline of {self.subject}: {state}", *map(str, self.diagnostics)]
        lines += [f"not proven: {reason}" for reason in self.unproven]
        return printable("\n".join([*lines, *(f"assumes that {one}" for one in self.assumptions)]))

    def _repr_html_(self) -> str:
        """Return the check for a notebook."""
        from legalsat.view.show_html import check_html  # noqa: PLC0415 - showing needs checks

        return check_html(self)


def check_pipeline(
    subject: Plan | Pipeline | str,
    target: str | Target | None = None,
    *,
    parameters: Mapping[str, int] | None = None,
    box_bytes: Mapping[str, int] | None = None,
    block: int | Sequence[int] | None = None,
    grid: int | Sequence[int] | None = None,
) -> PipelineCheck:
    """Return whether a pipeline keeps its contract: barriers, phases, bytes, fences, stages, tensor memory.

    A plan's pipeline is checked for all trip counts. PTX text is run on a model for many values of its parameters, and
    what cannot be decided is said with its line. Machine code of sm_90 in text, as cuobjdump and nvdisasm print it, is
    judged by the order of its instructions; it is never called proven.

    Args:
        subject: a plan, a `Pipeline`, PTX text as Triton, nvcc or this library print it, or machine code in text.
        target: a GPU; a plan's own, or the one that the text names, when left out. A `Pipeline` needs one.
        parameters: of PTX: values of whole-number parameters by name, which are then not swept.
        box_bytes: of PTX: bytes of a box by the name of the tensor map's parameter, recovered where it can be.
        block: of PTX: threads of a block along x, y and z, or x alone, where the text has no `.reqntid`; what
            `.maxntid` allows is assumed when left out.
        grid: of PTX: blocks along x, y and z, or x alone; swept when left out.

    Raises:
        InvalidInput: the subject is none of these, or the target is missing or another than the text's.
    """
    gpu = None if target is None else as_target(target)
    if isinstance(subject, str) and is_sass(subject):
        _only_ptx(parameters, box_bytes, block, grid)
        return _of_machine_code(check_sass(subject, gpu.architecture if gpu else None))
    if isinstance(subject, str):
        architecture = gpu.architecture if gpu else None
        return _of_text(
            check_ptx(subject, architecture, parameters=parameters, box_bytes=box_bytes, block=block, grid=grid)
        )
    _only_ptx(parameters, box_bytes, block, grid)
    if isinstance(subject, ProgramPlan):
        return _of_steps(subject, gpu)
    if isinstance(subject, MovementPlan | GemmPlan):
        return _of_program(str(subject.operator), subject.pipeline, gpu or subject.target)
    if not isinstance(subject, Pipeline):
        raise InvalidInput(f"pipelines stand in plans and in PTX text, not in {type(subject).__name__}")
    if gpu is None:
        raise InvalidInput("a pipeline by itself has no target; give one, such as h200")
    return _of_program("a program", subject, gpu)


def _only_ptx(*given: object) -> None:
    if any(one is not None for one in given):
        raise InvalidInput("parameters, box_bytes, block and grid belong to PTX text; leave them out")


def _of_machine_code(found: SassCheck) -> PipelineCheck:
    names = ", ".join(kernel.name for kernel in found.kernels)
    open_ = [f"line {one.line}: {one.reason}" for one in found.unjudged]
    limit = "addresses and counts of arrivals, which the order of instructions does not tell"
    diagnostics = tuple(map(diagnostic_of, found.findings))
    return PipelineCheck(f"{names} on {found.target or 'sm_90'}", diagnostics, False, (*open_, limit))


def _of_program(what: str, pipeline: Pipeline, target: Target) -> PipelineCheck:
    found = check_program(pipeline, target)
    return PipelineCheck(f"{what} on {target}", found.diagnostics, found.proven, found.unproven)


def _of_steps(plan: ProgramPlan, target: Target | None) -> PipelineCheck:
    """Return what was found about all steps of a program, each of which says which it is of."""
    found = [(step.what, check_pipeline(step.plan, target)) for step in plan.steps]
    return PipelineCheck(
        f"{plan.operator} on {target or plan.target}",
        tuple(replace(d, message=f"{what}: {d.message}") for what, one in found for d in one.diagnostics),
        all(one.proven for _, one in found),
        tuple(f"{what}: {reason}" for what, one in found for reason in one.unproven),
    )


def _of_text(found: PtxCheck) -> PipelineCheck:
    names = ", ".join(kernel.title for kernel in found.kernels)
    return PipelineCheck(
        f"{names} on {found.target}",
        tuple(map(diagnostic_of, (*found.findings, *found.warnings))),
        found.proven,
        tuple(f"line {one.line}: {one.reason}" if one.line else one.reason for one in found.unproven),
        tuple(one for kernel in found.kernels for one in assumptions_of(kernel)),
    )

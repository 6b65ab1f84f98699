"""Movements that run in CUDA C++: the program of a movement's plan, and its image by nvcc. The kernels need no CuTe."""

from __future__ import annotations

from legalsat.backends import program
from legalsat.backends.cute.compile import APART, at_hand, image_of, tools_of
from legalsat.backends.cute.cuda_file import cuda_file
from legalsat.backends.cute.granules import GranulesText
from legalsat.backends.cute.movement import MovementText
from legalsat.errors import LegalSatError
from legalsat.extract.moved.issued import issued_lines
from legalsat.plans.movement_plan import MovementPlan
from legalsat.program.early import begins_early
from legalsat.runtime.program import Operand, Program, Recipe, needed

__all__ = ["APART", "at_hand", "emit_cute", "image_of", "program_of", "tools_of"]


def program_of(plan: MovementPlan) -> Program:
    """Return the program of a plan.

    Raises:
        LegalSatError: the plan begins with a relayout, or an operation of its program has no row in this backend.
    """
    text = _text(plan)
    ends = {"source": plan.operator.source, "target": plan.operator.target}
    return Program(
        subject=str(plan.operator),
        architecture=plan.target.architecture,
        text=text.text(),
        operands=tuple(Operand(side, needed(end, text.aligned(side))) for side, end in ends.items()),
        recipes=(
            Recipe(
                text.entry,
                (text.blocks, 1, 1),
                text.threads,
                text.shared_bytes,
                tuple(text.arguments()),
                dependent=plan.target.dependent_launch and begins_early(plan.pipeline.roles[0].body),
            ),
        ),
        builder=__name__,
    )


def emit_cute(plan: MovementPlan) -> str:
    """Return the file of a plan's kernel: relayouts in front, what launches it, and how to compile and call it.

    Raises:
        LegalSatError: as `program_of`; a relayout in front has a kernel of its own there.
    """
    title = f"{plan.operator}, on {plan.target}: by {plan.access.by}"
    return cuda_file(program(plan, "cute"), title, "movement", notes=[] if plan.guard else issued_lines(plan))


def _text(plan: MovementPlan) -> MovementText | GranulesText:
    if plan.before:
        raise LegalSatError(
            "plan begins with a relayout of its source, and a kernel is one movement; emit plan.before[0], then what "
            "synthesize gives for its target"
        )
    if plan.target.vendor != "nvidia":
        raise LegalSatError(f"cute prints kernels for NVIDIA GPUs, not for {plan.target}")
    return MovementText(plan) if plan.granules is None else GranulesText(plan, plan.granules)

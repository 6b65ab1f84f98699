"""What `explain` takes, a row each: how a subject is recognised, and what explains it.

Tensors, arrays and operators are not among them: they are what is left, and take options.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any, NamedTuple

from legalsat.analyses.ptx.text import is_ptx
from legalsat.api import violations
from legalsat.diagnostics import Diagnostic
from legalsat.errors import InvalidInput
from legalsat.explanation import USES, Explanation, way_and_time
from legalsat.extract.explain.explain import explain_plan, explain_tensor_map
from legalsat.extract.region.obligations import explain_copy
from legalsat.operators import PRODUCT, PROGRAM, Move, Operator
from legalsat.operators.gemm import Gemm
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.movement_plan import MovementPlan
from legalsat.plans.program_plan import ProgramPlan
from legalsat.printable import shown
from legalsat.program.pipeline import Pipeline
from legalsat.targets import Target
from legalsat.tensor import Tensor
from legalsat.units import tensor_memory
from legalsat.units.matrix_descriptor import MatrixDescriptor
from legalsat.units.sites import WgmmaMultiply
from legalsat.units.tcgen05 import InstructionDescriptor
from legalsat.units.tensor_copy import BulkCopy, TensorCopy
from legalsat.units.tensor_map import TensorMap

MOST_RESULT = 99_999  # no CUresult is larger
_ARRAY = ("__dlpack__", "__cuda_array_interface__", "__array_interface__", "data_ptr")


class Subject(NamedTuple):
    """One row: what it is, in words; which subjects it is about; their explanation; whether that counts uses."""

    form: str
    takes: Callable[[Any], bool]
    explain: Callable[..., Explanation]
    counts: bool = False


def subject_of(subject: Any) -> Subject | None:
    """Return the row of a subject; None for tensors, arrays and operators.

    Raises:
        InvalidInput: it is nothing that can be explained; the message lists what can.
    """
    for row in SUBJECTS:
        if row.takes(subject):
            return row
    if isinstance(subject, Tensor | Move) or any(hasattr(subject, name) for name in _ARRAY):
        return None
    forms = "; or ".join(("a numpy array, torch tensor, Tensor or operator", *(row.form for row in SUBJECTS)))
    raise InvalidInput(f"{type(subject).__name__} is nothing that explain knows; give {forms}")


def explain_text(text: str, target: Target, uses: int = USES, beside: str = "") -> Explanation:
    """Explain PTX, or what programs print; `beside` is what else a report has: code, settings, more texts."""
    if is_ptx(text):
        from legalsat.extract.explain.explain_pipeline import explain_ptx  # noqa: PLC0415 - few explain PTX

        return explain_ptx(text, target)
    from legalsat.pasted import explain_pasted  # noqa: PLC0415 - few explain texts

    return explain_pasted(text, target, uses, beside)


def _error(subject: BaseException, target: Target, uses: int) -> Explanation:
    return explain_text(str(subject), target, uses)


def _is_a(*kinds: type) -> Callable[[Any], bool]:
    return lambda subject: isinstance(subject, kinds)


def _tensor_map(subject: TensorMap, target: Target) -> Explanation:
    return explain_tensor_map(subject, target, violations(subject, target))


def _copy(subject: TensorCopy | BulkCopy, target: Target) -> Explanation:
    return explain_copy(subject, target, violations(subject, target))


def _pipeline(subject: Pipeline, target: Target) -> Explanation:
    from legalsat.extract.explain.explain_pipeline import explain_pipeline  # noqa: PLC0415 - few explain pipelines

    return explain_pipeline(subject, target)


def _gemm(subject: Gemm, target: Target, uses: int) -> Explanation:
    from legalsat.extract.explain.explain_gemm import explain_gemm  # noqa: PLC0415 - few explain products

    return explain_gemm(subject, target, uses)


def _gemm_plan(subject: GemmPlan, target: Target) -> Explanation:
    found = replace(_pipeline(subject.pipeline, target), subject=f"pipeline of {subject.operator}")
    if target != subject.target:
        return found
    way = way_and_time(str(subject.kernel), subject.cost.nanoseconds)
    return replace(found, way=way, derivation=tuple(step.law for step in subject.derivation))


def _program(subject: Any, target: Target) -> Explanation:
    from legalsat.extract.composed.explain import explain_program  # noqa: PLC0415 - few explain programs

    return explain_program(subject, target)


def _program_plan(subject: ProgramPlan, target: Target) -> Explanation:
    from legalsat.extract.composed.explain import explain_program_plan  # noqa: PLC0415 - few explain programs

    return explain_program_plan(subject, target)


def _instruction(subject: InstructionDescriptor | WgmmaMultiply, target: Target) -> Explanation:
    from legalsat.extract.explain.explain_word import unit_lacking  # noqa: PLC0415 - few explain instructions

    unit = "wgmma" if isinstance(subject, WgmmaMultiply) else "tcgen05"
    found = [*unit_lacking(unit, target, str(subject)), *violations(subject, target)]
    return _explanation(str(subject), target, found, subject)


def _matrix_descriptor(subject: MatrixDescriptor, target: Target) -> Explanation:
    from legalsat.extract.explain.explain_word import explain_word  # noqa: PLC0415 - few explain descriptors

    return explain_word(subject, target)


def _tensor_memory(subject: tensor_memory.Program, target: Target) -> Explanation:
    from legalsat.extract.kernels.tensor_memory import tensor_memory_violations  # noqa: PLC0415 - few explain these

    found = tensor_memory_violations(subject, target)
    return _explanation(f"program of {len(subject.events)} events in tensor memory", target, found, subject)


def _bytes(subject: Any, target: Target) -> Explanation:
    from legalsat.units.tensor_map_bytes import decode_with_notes  # noqa: PLC0415 - few explain bytes

    found = decode_with_notes(subject)
    return replace(_tensor_map(found.tensor_map, target), values=found.notes)


def _number(subject: Any, target: Target) -> Explanation:
    from legalsat.pasted.words import LEAST_INSTRUCTION  # noqa: PLC0415 - few explain numbers

    number = int(subject)
    if 0 <= number <= MOST_RESULT:
        return replace(explain_text(str(number), target), subject=f"CUresult {number}")
    if not LEAST_INSTRUCTION <= number < 2**64:
        raise InvalidInput(
            f"{shown(number)} is neither a CUresult nor a descriptor's word; give one of these, "
            "a word with all its bits"
        )
    return explain_text(f"{number:#x}", target)


def _explanation(said: str, target: Target, found: list[Diagnostic], of: Any) -> Explanation:
    return Explanation(said, str(target), not any(d.level == "error" for d in found), tuple(found), of=of)


def _is_product(subject: Any) -> bool:
    return isinstance(subject, Operator) and subject.term == PRODUCT


def _is_program(subject: Any) -> bool:
    return isinstance(subject, Operator) and subject.term == PROGRAM


def _is_number(subject: Any) -> bool:
    return isinstance(subject, Integral) and not isinstance(subject, bool)


def _is_blob(subject: Any) -> bool:
    """Whether it holds bytes: no array of numpy or torch, which is a tensor, whatever its shape."""
    return isinstance(subject, bytes | bytearray | memoryview) or isinstance(getattr(subject, "opaque", None), list)


SUBJECTS: tuple[Subject, ...] = (
    Subject("a TensorMap", _is_a(TensorMap), _tensor_map),
    Subject("a TensorCopy or a BulkCopy", _is_a(TensorCopy, BulkCopy), _copy),
    Subject("a MovementPlan", _is_a(MovementPlan), explain_plan, counts=True),
    Subject("a Pipeline", _is_a(Pipeline), _pipeline),
    Subject("a Gemm", _is_product, _gemm, counts=True),
    Subject("a GemmPlan, whose pipeline is judged", _is_a(GemmPlan), _gemm_plan),
    Subject("a Program of several operators", _is_program, _program),
    Subject("a ProgramPlan", _is_a(ProgramPlan), _program_plan),
    Subject("an InstructionDescriptor or a WgmmaMultiply", _is_a(InstructionDescriptor, WgmmaMultiply), _instruction),
    Subject("a MatrixDescriptor", _is_a(MatrixDescriptor), _matrix_descriptor),
    Subject("a tensor_memory.Program", _is_a(tensor_memory.Program), _tensor_memory),
    Subject("PTX, or a text as programs print it", _is_a(str), explain_text, counts=True),
    Subject("the exception of a call that failed", _is_a(BaseException), _error, counts=True),
    Subject("a CUresult, or the word of a descriptor of wgmma or tcgen05, as an int", _is_number, _number),
    Subject("the 128 bytes of a CUtensorMap as bytes, or cuda-python's object", _is_blob, _bytes),
)

"""Why something is refused, and the repairs that were tried and found to work, cheapest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from legalsat.diagnostics import Diagnostic
from legalsat.errors import LegalSatError
from legalsat.explanation import Explanation, Repair
from legalsat.extract.planner import BOXES, NoLegalLayout, cached_plan
from legalsat.extract.recheck import recheck
from legalsat.extract.symbolic import symbolic_plan
from legalsat.operators import Im2col, Operator, Transpose
from legalsat.plan import Plan
from legalsat.rules.windows import COLUMNS
from legalsat.targets import GRANULE_BYTES, Target
from legalsat.tensor import Tensor, plain
from legalsat.tensor_map import TensorMap

GRANULE_BITS = 8 * GRANULE_BYTES


def explain_tensor_map(tm: TensorMap, target: Target, found: list[Diagnostic]) -> Explanation:
    """Return the explanation of a tensor map from its violations."""
    return Explanation(str(tm), str(target), not any(d.level == "error" for d in found), tuple(found), of=tm)


def explain_plan(plan: Plan, target: Target) -> Explanation:
    """Return whether a plan's operator is legal on `target`; the plan itself must hold where it was made for."""
    if not plan.guard:
        recheck(plan)
    return explain_tensor(plan.operator, target)


def explain_tensor(operator: Operator, target: Target) -> Explanation:
    """Return whether an operator has a plan, and if not why and which layouts of its source would."""
    symbolic = bool(operator.source.dims or operator.target.dims)
    try:
        plan = symbolic_plan(operator, target) if symbolic else cached_plan(operator, target, _boxes(operator))
    except NoLegalLayout as refusal:
        if symbolic:  # a repair is planned, which takes plain numbers
            return Explanation(str(operator), str(target), False, refusal.diagnostics, ())
        slow = _without_boxes(operator, target)
        return Explanation(str(operator), str(target), False, refusal.diagnostics, repairs(operator, target), slow)
    return Explanation(str(operator), str(target), True, (), (), plan)


def repairs(operator: Operator, target: Target) -> tuple[Repair, ...]:
    """Return the layouts of the source that make `operator` legal, fewest added bytes first."""
    if target.tma is None:
        return ()
    found: dict[Tensor, Repair] = {}
    for kind, message, tensor in _changes(operator.source):
        try:
            plan = cached_plan(_with_source(operator, tensor), target, _boxes(operator))
        except LegalSatError:
            continue
        added = max(tensor.span_bits - operator.source.span_bits, 0) // 8
        found.setdefault(tensor, Repair(kind, message.format(added=added), tensor, added, plan.cost.nanoseconds))
    return tuple(sorted(found.values(), key=lambda r: (r.bytes_added, r.nanoseconds)))


def _boxes(operator: Operator) -> tuple[str, ...]:
    """Return the means by which boxes of a map bring tiles: those of windows may be columns of pixels."""
    return (*BOXES, COLUMNS) if isinstance(operator, Im2col) else BOXES


def _without_boxes(operator: Operator, target: Target) -> Plan | None:
    """Return how the operator is done as it is, without a tensor map; None where no means will do."""
    try:
        return cached_plan(operator, target)
    except LegalSatError:
        return None


def _with_source(operator: Operator, tensor: Tensor) -> Operator:
    if isinstance(operator, Transpose):
        return Transpose(tensor, operator.order, operator.target, tile=operator.tile)
    return replace(operator, source=tensor)


def _alignment(tensor: Tensor) -> int:
    """Return the largest power of two that the base is surely a multiple of, in bytes."""
    return tensor.address & -tensor.address


def _changes(tensor: Tensor) -> Iterator[tuple[str, str, Tensor]]:
    """Yield changes of layout worth trying: (kind, message, tensor)."""
    shape, strides, bits = plain(tensor.shape), plain(tensor.strides), tensor.dtype.bits
    if tensor.address % GRANULE_BYTES:
        yield (
            "align",
            f"copy the tensor to an allocation aligned to {GRANULE_BYTES} bytes (now {_alignment(tensor)})",
            Tensor(shape, tensor.dtype, strides),
        )
    order = sorted((a for a in range(tensor.rank) if shape[a] > 1 and strides[a]), key=lambda a: strides[a])
    pitch, covered = list(strides), 1
    for position, axis in enumerate(order):
        # No axis moves closer than it was or than the axes inside it reach; all but the fastest start at a granule.
        wanted = max(strides[axis], covered) * bits
        pitch[axis] = (-(-wanted // GRANULE_BITS) * GRANULE_BITS if position else wanted) // bits
        covered = pitch[axis] * shape[axis]
    moved = [axis for axis in order if pitch[axis] != strides[axis]]
    if moved and strides[order[0]] == 1:
        was, now = strides[moved[0]] * bits // 8, pitch[moved[0]] * bits // 8
        yield (
            "pad",
            f"pad axis {moved[0]} to a pitch of {now} bytes (now {was}), adding {{added}} bytes",
            Tensor(shape, tensor.dtype, pitch),
        )
    yield "dense", "copy the tensor to dense row-major memory", Tensor(shape, tensor.dtype)

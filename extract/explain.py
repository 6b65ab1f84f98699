"""Why something is refused, and the repairs that were tried and found to work, cheapest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from legalsat.diagnostics import Diagnostic
from legalsat.errors import LegalSatError
from legalsat.extract.planner import NoLegalLayout, cached_plan
from legalsat.extract.symbolic import symbolic_plan
from legalsat.operators import Copy, Operator, Transpose
from legalsat.plan import Plan
from legalsat.targets import Target
from legalsat.tensor import Tensor, plain
from legalsat.tensor_map import TensorMap

GRANULE_BITS = 128  # rule TMA005: strides are multiples of 16 bytes


@dataclass(frozen=True, slots=True)
class Repair:
    """A change that makes the tensor legal; it was planned, so it works.

    Attributes:
        kind: "align" (copy to an aligned allocation), "pad" (longer row pitch), "dense" (a packed copy).
        message: what to do, with the numbers.
        tensor: the tensor's layout after it.
        bytes_added: bytes that the new layout takes more than the elements need.
        nanoseconds: predicted time of the movement after it, the repair itself not counted.
    """

    kind: str
    message: str
    tensor: Tensor
    bytes_added: int
    nanoseconds: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Diagnostics, worst first, and repairs, cheapest first; `legal` if there is a plan as things are."""

    subject: str
    target: str
    legal: bool
    diagnostics: tuple[Diagnostic, ...]
    repairs: tuple[Repair, ...]
    plan: Plan | None = None

    def __str__(self) -> str:
        head = f"{self.subject} on {self.target}: {'legal' if self.legal else 'refused'}"
        lines = [head, *map(str, self.diagnostics)]
        if self.plan is not None and self.plan.derivation:
            lines.append(f"  = derivation: {', '.join(step.law for step in self.plan.derivation)}")
        lines += [f"  = repair {i}: {repair.message}" for i, repair in enumerate(self.repairs, start=1)]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as plain values; a plan is left to `Plan.to_json`."""
        return {
            "subject": self.subject,
            "target": self.target,
            "legal": self.legal,
            "diagnostics": [d.to_json() for d in self.diagnostics],
            "repairs": [{**asdict(r), "tensor": str(r.tensor)} for r in self.repairs],
        }


def explain_tensor_map(tm: TensorMap, target: Target, found: list[Diagnostic]) -> Explanation:
    """Return the explanation of a tensor map from its violations."""
    return Explanation(str(tm), str(target), not any(d.level == "error" for d in found), tuple(found), ())


def explain_plan(plan: Plan, target: Target) -> Explanation:
    """Return whether a plan holds on `target`, which may be another than it was made for."""
    return explain_tensor(plan.operator, target)


def explain_tensor(operator: Operator, target: Target) -> Explanation:
    """Return whether an operator has a plan, and if not why and which layouts of its source would."""
    symbolic = bool(operator.source.dims or operator.target.dims)
    try:
        plan = symbolic_plan(operator, target) if symbolic else cached_plan(operator, target)
    except NoLegalLayout as refusal:
        tried = () if symbolic else repairs(operator, target)  # a repair is planned, which takes plain numbers
        return Explanation(str(operator), str(target), False, refusal.diagnostics, tried)
    return Explanation(str(operator), str(target), True, (), (), plan)


def repairs(operator: Operator, target: Target) -> tuple[Repair, ...]:
    """Return the layouts of the source that make `operator` legal, fewest added bytes first."""
    if target.tma is None:
        return ()
    found: dict[Tensor, Repair] = {}
    for kind, message, tensor in _changes(operator.source):
        try:
            plan = cached_plan(_with_source(operator, tensor), target)
        except LegalSatError:
            continue
        added = max(tensor.span_bits - tensor.size * tensor.dtype.bits, 0) // 8
        found.setdefault(tensor, Repair(kind, message.format(added=added), tensor, added, plan.cost.nanoseconds))
    return tuple(sorted(found.values(), key=lambda r: (r.bytes_added, r.nanoseconds)))


def _with_source(operator: Operator, tensor: Tensor) -> Operator:
    if isinstance(operator, Transpose):
        return Transpose(tensor, operator.order, operator.target, tile=operator.tile)
    return Copy(tensor, operator.target, tile=operator.tile, consumer=operator.consumer)


def _changes(tensor: Tensor) -> Iterator[tuple[str, str, Tensor]]:
    """Yield changes of layout worth trying: (kind, message, tensor)."""
    shape, strides, bits = plain(tensor.shape), plain(tensor.strides), tensor.dtype.bits
    if tensor.align < GRANULE_BITS // 8:
        yield (
            "align",
            f"copy the tensor to an allocation aligned to {GRANULE_BITS // 8} bytes (now {tensor.align})",
            Tensor(shape, tensor.dtype, strides),
        )
    order = sorted(range(tensor.rank), key=lambda a: (strides[a] == 0, strides[a], -a))
    pitch = list(strides)
    covered = 1
    for position, axis in enumerate(order):
        if position and covered * bits % GRANULE_BITS:
            covered = -(-covered * bits // GRANULE_BITS) * GRANULE_BITS // bits
        pitch[axis] = covered
        covered *= shape[axis]
    longest = max((a for a in order[1:]), key=lambda a: (shape[a] > 1, -pitch[a]), default=None)
    if longest is not None and tensor.rank and strides[order[0]] == 1:
        was, now = strides[longest] * bits // 8, pitch[longest] * bits // 8
        yield (
            "pad",
            f"pad rows to {now} bytes (now {was}), which adds {{added}} bytes",
            Tensor(shape, tensor.dtype, pitch),
        )
    yield "dense", "copy the tensor to dense row-major memory", Tensor(shape, tensor.dtype)

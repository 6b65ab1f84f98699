"""The plan of a program as text for a person: what runs, where everything lies, and by which laws."""

from __future__ import annotations

from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.program_plan import Buffer, ProgramPlan, ProgramStep, StepPlan
from legalsat.tensor import Tensor, plain
from legalsat.view.look import PLAIN, Look
from legalsat.view.show import byte_count, duration, table


def show_program_plan(plan: ProgramPlan, look: Look = PLAIN) -> str:
    """Return the plan: its laws, its memory, its steps and what they are predicted to cost."""
    cost = plan.cost
    total = f"{cost.steps} step{'s' * (cost.steps != 1)} a call"
    total += f", {cost.once} at the first alone" if cost.once else ""
    sections = [
        (
            "derivation",
            table([(f"{i}", one.value, one.law, one.term) for i, one in enumerate(plan.derivation, start=1)]),
        ),
        ("memory", table([_memory(one) for one in plan.buffers])),
        ("steps", table([_step(number, one) for number, one in enumerate(plan.steps, start=1)])),
        (
            "predicted cost",
            table([("time", duration(cost.nanoseconds), total), ("scratch", byte_count(cost.scratch_bytes), "")]),
        ),
    ]
    lines = [look.paint(f"{plan.operator} on {plan.target}", "title")]
    for title, body in sections:
        if body:
            lines += ["", look.paint(title, "title"), *body]
    if not plan.exact:
        lines += ["", look.wrap("the search ended at its limit, so that a cheaper plan may exist", "  - ")]
    return "\n".join(lines)


def _memory(one: Buffer) -> tuple[str, ...]:
    return one.name, one.kind, f"{one.tensor.dtype} {' x '.join(map(str, one.tensor.shape))}", lies(one.tensor)


def lies(tensor: Tensor) -> str:
    """Return how a matrix lies in words: its lines, their pitch, and where in a granule the first one begins."""
    (rows, columns), (across, along) = plain(tensor.shape), plain(tensor.strides)
    by_rows = along == 1 or columns == 1
    pitch, length = (across, columns) if by_rows else (across if across != 1 else along, rows)
    name = "row" if by_rows else "column"
    words = f"dense {name}s" if pitch == length else f"{name}s of {pitch} elements, {pitch * tensor.dtype.bytes} bytes"
    return words + (f", begun at byte {tensor.offset} of {tensor.align}" if tensor.offset else "")


def _step(number: int, one: ProgramStep) -> tuple[str, ...]:
    time = "at the first call alone" if one.once else duration(one.nanoseconds)
    return f"{number}", f"{one.writes.buffer} = {one.what}", _how(one.plan), time


def _how(plan: StepPlan) -> str:
    if not isinstance(plan, GemmPlan):
        return f"by {plan.access.by}"
    words = f"tiles of {' x '.join(map(str, plan.tile))}"
    pairs = zip(plan.kernel.relayouts, plan.kernel.operands, strict=True)
    laid = [f"{first} {name}" for first, name in pairs if first != "none"]
    return f"{words}, {' and '.join(laid)} first" if laid else words

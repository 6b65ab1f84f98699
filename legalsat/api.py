"""The public functions: what a user calls. Each is a thin line over the machinery."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from legalsat.diagnostics import Diagnostic, worst_first
from legalsat.errors import InvalidInput
from legalsat.extract.explain import Explanation, explain_plan, explain_tensor, explain_tensor_map
from legalsat.extract.planner import cached_plan
from legalsat.operators import Copy, Operator, Transpose, as_tensor
from legalsat.plan import Plan
from legalsat.rules import TENSOR_MAP_RULES
from legalsat.rules.movement import no_tensor_memory_accelerator
from legalsat.sites import Movement, TmaCopy
from legalsat.targets import Target
from legalsat.targets import target as as_target
from legalsat.tensor_map import TensorMap


def synthesize(
    problem: Any, target: str | Target, *, tile: Iterable[int] | None = None, consumer: str | None = None
) -> Plan:
    """Return the cheapest legal plan.

    Args:
        problem: a `Tensor` or array, whose tiles are to travel through shared memory; or an operator such as
            `Transpose(x)`.
        target: a GPU, such as "sm_90a" or "h200".
        tile: elements of a tile along each axis; for a tensor or array only, chosen when left out.
        consumer: who reads the tile in shared memory: None (the copy engine alone), "threads", "wgmma.a", "wgmma.b".

    Raises:
        NoLegalLayout: the rules forbid every candidate; its `diagnostics` say which and why.
        InvalidInput: an argument has no meaning.
        UnknownTarget: no such GPU.
        SolverGaveUp: the solver ran out of time.
        SearchGaveUp: the way from the tensor to the plan was not found again within its budget.
    """
    gpu, operator = as_target(target), _operator(problem, tile, consumer)
    if operator.source.dims or operator.target.dims:
        from legalsat.extract.symbolic import symbolic_plan  # noqa: PLC0415 - isl is not needed without dims

        return symbolic_plan(operator, gpu)
    return cached_plan(operator, gpu)


def violations(tm: TensorMap, target: str | Target) -> list[Diagnostic]:
    """Return every rule that a tensor map violates on a target, errors first; empty if it is legal and sound.

    `d.refused_by == "driver"` marks those for which the encode call fails; "hardware" those that fault or corrupt
    later; "document" those that nobody enforces.
    """
    if not isinstance(tm, TensorMap):
        raise InvalidInput(f"violations judges a TensorMap, not {type(tm).__name__}; use explain for tensors and plans")
    gpu, site = as_target(target), TmaCopy.of(tm)
    if gpu.tma is None:
        return list(no_tensor_memory_accelerator.check(Movement(8), gpu))
    return worst_first(d for rule in TENSOR_MAP_RULES for d in rule.check(site, gpu))


def explain(
    subject: Any, target: str | Target, *, tile: Iterable[int] | None = None, consumer: str | None = None
) -> Explanation:
    """Return what is wrong with a tensor, array, tensor map, operator or plan, who says so, and what to change.

    Args:
        subject: a `Tensor` or array, a `TensorMap`, an operator, or a `Plan`.
        target: a GPU; a plan is judged on it whatever it was made for.
        tile: elements of a tile along each axis; for tensors and arrays only.
        consumer: who reads the tile in shared memory; for tensors and arrays only.

    Raises:
        InvalidPlan: a plan does not hold even on the target that it was made for.
    """
    gpu = as_target(target)
    if isinstance(subject, TensorMap | Plan) and (tile is not None or consumer is not None):
        raise InvalidInput("tile and consumer belong to tensors and arrays; leave them out")
    if isinstance(subject, TensorMap):
        return explain_tensor_map(subject, gpu, violations(subject, gpu))
    if isinstance(subject, Plan):
        return explain_plan(subject, gpu)
    return explain_tensor(_operator(subject, tile, consumer), gpu)


def _operator(problem: Any, tile: Iterable[int] | None, consumer: str | None) -> Operator:
    if not isinstance(problem, Copy | Transpose):
        return Copy(as_tensor(problem), tile=tile, consumer=consumer)
    if tile is not None or consumer is not None:
        raise InvalidInput("tile and consumer belong to the operator; pass them to it")
    return problem

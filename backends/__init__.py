"""Plans in, source text out. To add a backend, add its folder and a line to `BACKENDS`."""

from __future__ import annotations

import importlib

from legalsat.checks import one_of
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.plan import Plan

# Name -> module and function, which takes a plan and returns text; imported on use, since backends may be heavy.
BACKENDS = {
    "triton": "legalsat.backends.triton.adapter:emit_triton",
    "host": "legalsat.backends.host:emit_cpp",
    "host-python": "legalsat.backends.host:emit_python",
}


def emit(plan: Plan, backend: str) -> str:
    """Return source text that carries the plan out and needs LegalSAT no more.

    Args:
        plan: a plan without open dims.
        backend: "triton" (a kernel), "host" (C++ that encodes the tensor maps) or "host-python" (the same in Python).

    Raises:
        InvalidInput: no such backend, or `plan` is no plan.
        LegalSatError: the plan's dims are not bound.
    """
    module, function = BACKENDS[one_of(backend, "backend", BACKENDS)].split(":")
    require_bound(plan)
    text: str = getattr(importlib.import_module(module), function)(plan)
    return text


def require_bound(plan: Plan) -> None:
    """Raise unless `plan` is a plan whose every number is known; a symbolic one holds representative numbers."""
    if not isinstance(plan, Plan):
        raise InvalidInput(f"plan is {type(plan).__name__}; give what legalsat.synthesize returns")
    if plan.guard:
        names = sorted({dim.name for end in (plan.operator.source, plan.operator.target) for dim in end.dims})
        values = ", ".join(f"{name}=..." for name in names)
        raise LegalSatError(f"plan is open in {', '.join(names)}; bind its dims first, with plan.bind({values})")

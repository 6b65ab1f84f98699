"""Plans in, source text out. To add a backend, add its folder and a line to `BACKENDS`."""

from __future__ import annotations

import importlib

from legalsat.checks import one_of
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.gemm_plan import GemmPlan
from legalsat.plan import Plan

# Name -> module and function, which takes a plan and returns text; imported on use, since backends may be heavy.
BACKENDS = {
    "triton": "legalsat.backends.triton.adapter:emit_triton",
    "host": "legalsat.backends.host:emit_cpp",
    "host-python": "legalsat.backends.host:emit_python",
}
# The same of those that print products.
PRODUCT_BACKENDS = {"ptx": "legalsat.backends.ptx:emit_ptx"}


def emit(plan: Plan | GemmPlan, backend: str) -> str:
    """Return source text that carries the plan out and needs LegalSAT no more.

    Args:
        plan: a plan without open dims.
        backend: of a movement "triton" (a kernel), "host" (C++ that encodes the tensor maps) or "host-python" (the
            same in Python); of a product "ptx" (a kernel).

    Raises:
        InvalidInput: no such backend for such a plan, or `plan` is no plan.
        LegalSatError: the plan's dims are not bound, or the backend prints no plan like this one.
    """
    backends = PRODUCT_BACKENDS if isinstance(plan, GemmPlan) else BACKENDS
    module, function = backends[one_of(backend, "backend", backends)].split(":")
    if not isinstance(plan, GemmPlan):
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

"""Plans in, source text or running kernels out. To add a backend, add its folder and a line to a table here."""

from __future__ import annotations

import importlib
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING

from legalsat.checks import one_of
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.gemm_plan import GemmPlan
from legalsat.plan import Plan

if TYPE_CHECKING:
    from legalsat.runtime import Kernel, Program

# Name -> module and function, which takes a plan and returns text; imported on use, since backends may be heavy.
BACKENDS = {
    "triton": "legalsat.backends.triton.adapter:emit_triton",
    "cute": "legalsat.backends.cute.movement_program:emit_cute",
    "host": "legalsat.backends.host:emit_cpp",
    "host-python": "legalsat.backends.host:emit_python",
}
# The same of those that print products.
PRODUCT_BACKENDS = {
    "cute": "legalsat.backends.cute.program:emit_product",
    "ptx": "legalsat.backends.ptx:emit_ptx",
    "triton": "legalsat.backends.triton.product_text:emit_product",
}

# Name -> the module of a backend whose texts run, best first. It has
#     program_of(plan) -> Program       text and how it is launched; calls no compiler
#     image_of(program) -> Image        what the driver loads, and the recipes if the compiler had a say in them
#     tools_of(program) -> str          what makes the image, with its version, for the cache
# and, if it can do without a GPU, interpreter_of(program), a function of the operands' addresses.
PROGRAMS = {"triton": "legalsat.backends.triton.program", "cute": "legalsat.backends.cute.movement_program"}
PRODUCT_PROGRAMS = {
    "cute": "legalsat.backends.cute.program",
    "ptx": "legalsat.backends.ptx.program",
    "triton": "legalsat.backends.triton.product_program",
}
PRINTED_MEANS = ("tma", "threads")  # of movements, by one of PROGRAMS at least


def emit(plan: Plan | GemmPlan, backend: str) -> str:
    """Return source text that carries the plan out and needs LegalSAT no more.

    Args:
        plan: a plan without open dims.
        backend: of a movement "triton" (a kernel), "cute" (a kernel in CUDA C++ that takes any layout, and what
            launches it), "host" (C++ that encodes the tensor maps) or "host-python" (the same in Python); of a
            product "cute" (persistent, for wgmma), "ptx" or "triton" (a kernel).

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


def program(plan: Plan | GemmPlan, backend: str | None = None) -> Program:
    """Return a plan's kernel as text with how it is launched, relayouts of operands included.

    Args:
        plan: a plan without open dims.
        backend: of a movement "triton" or "cute", of a product "cute", "ptx" or "triton"; the first that prints the
            plan when left out.

    Raises:
        InvalidInput: no such backend for such a plan, or `plan` is no plan.
        LegalSatError: the plan's dims are not bound, or no backend prints such a plan.
    """
    table = PRODUCT_PROGRAMS if isinstance(plan, GemmPlan) else PROGRAMS
    if not isinstance(plan, GemmPlan):
        require_bound(plan)
    if backend is not None:
        return _program(plan, table[one_of(backend, "backend", table)])
    refusals = []
    for name, module in table.items():
        try:
            return _program(plan, module)
        except LegalSatError as error:
            refusals.append(f"{name}: {error}")
    raise LegalSatError(f"no backend prints this plan; {'; '.join(refusals)}")


def _program(plan: Plan | GemmPlan, module: str) -> Program:
    from legalsat.runtime.program import Relayout, with_operand  # noqa: PLC0415 - the runtime needs plans

    backend = importlib.import_module(module)
    found: Program = backend.program_of(plan)
    before = []
    if isinstance(plan, GemmPlan) and not getattr(backend, "BRINGS_RELAYOUTS", False):
        for name, one in (("a", plan.a), ("b", plan.b)):
            for first in one.before:
                movement = _movement(first)
                constant = getattr(one.operator, "constant", False)
                before.append(Relayout(name, movement, constant))
                found = with_operand(found, name, movement.operands[0].tensor)
    return replace(found, builder=module, before=(*found.before, *before))


def _movement(plan: Plan) -> Program:
    """Return the program of a relayout, which may go by any means, so by those that are printed if need be.

    It is Triton's, which is installed with what compiles it.
    """
    try:
        return program(plan, "triton")
    except LegalSatError:
        from legalsat.extract.planner import cached_plan  # noqa: PLC0415 - needs the solvers

        return program(cached_plan(plan.operator, plan.target, PRINTED_MEANS), "triton")


def compiled(plan: Plan | GemmPlan, backend: str | None = None) -> Kernel:
    """Return a plan's kernel, to be called with arrays; what its text becomes is kept on disk.

    Args:
        plan: a plan without open dims.
        backend: as of `program`; the first that prints the plan and whose compiler is there when left out.

    Raises:
        LegalSatError: as `program`, or the tool that compiles the text is missing, or refuses it.
    """
    from legalsat.runtime import Kernel  # noqa: PLC0415 - the runtime needs plans

    if backend is not None:
        return Kernel(program(plan, backend)).build()
    refusals = []
    for name in PRODUCT_PROGRAMS if isinstance(plan, GemmPlan) else PROGRAMS:
        try:
            return Kernel(program(plan, name)).build()
        except LegalSatError as error:
            refusals.append(f"{name}: {error}")
    raise LegalSatError(f"no backend runs this plan; {'; '.join(refusals)}")


def builders() -> frozenset[str]:
    """Return the modules that make images."""
    return frozenset(PROGRAMS.values()) | frozenset(PRODUCT_PROGRAMS.values())


def builder_of(program: Program) -> ModuleType:
    """Return the module that makes images of a program's language.

    Raises:
        LegalSatError: there is none of that name, as in a file of a later version.
    """
    if program.builder not in builders():
        raise LegalSatError(f"program is built by {program.builder or 'nothing'}; make it again from its plan")
    return importlib.import_module(program.builder)

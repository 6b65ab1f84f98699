"""Plans in, source text or running kernels out. To add a backend, add its folder and a line to a table here."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from legalsat.checks import one_of
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.plans.gemm_plan import GemmPlan, InFront
from legalsat.plans.movement_plan import MovementPlan
from legalsat.plans.plan import Plan
from legalsat.plans.program_plan import ProgramPlan

if TYPE_CHECKING:
    from legalsat.operators.gemm import Gemm
    from legalsat.plans.product_kernel import ProductKernel
    from legalsat.runtime import Program
    from legalsat.runtime.open_program import OpenProgram

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
    "ptx": "legalsat.backends.ptx.program:emit_product",
    "triton": "legalsat.backends.triton.product_program:emit_product",
    "host": "legalsat.backends.host.product:emit_product",
}
HOLDS = {"host": "ptx"}  # whose kernels a backend's files hold

Made = TypeVar("Made")
Refusal: TypeAlias = "Callable[[Gemm, ProductKernel], str]"

PROGRAM_BACKENDS = {"cute": "legalsat.backends.composed:emit_program"}  # the same of those that print programs

# Name -> the module of a backend whose texts run, best first. It has
#     program_of(plan) -> Program       text and how it is launched, by a `builder` that is this module; relayouts of a
#                                       product's operands are in front; calls no compiler
#     image_of(program) -> Image        what the driver loads, and the recipes if the compiler had a say in them
#     tools_of(program) -> str          what makes the image, with its version, for the cache
# and, if it can do without a GPU, interpreter_of(program), a function of the operands' addresses; and, where it knows
# without its tools, at_hand(program, cache), whether making an image needs none of them; and APART, where image_of
# may run in several threads at once.
PROGRAMS = {"triton": "legalsat.backends.triton.program", "cute": "legalsat.backends.cute.movement_program"}
PRODUCT_PROGRAMS = {
    "cute": "legalsat.backends.cute.program",
    "ptx": "legalsat.backends.ptx.program",
    "triton": "legalsat.backends.triton.product_program",
}


_EMITTED = {MovementPlan: BACKENDS, GemmPlan: PRODUCT_BACKENDS, ProgramPlan: PROGRAM_BACKENDS}
OPEN_FILES = ("cute", "host")  # which hold what launches the kernel
OPEN_MOVEMENTS = ("cute", "host", "host-python")
# Of the modules of programs, those that print kernels whose launches may be formulas of dims.
OPEN_PROGRAMS = {PRODUCT_PROGRAMS["cute"], PRODUCT_PROGRAMS["ptx"], PROGRAMS["cute"]}


def emit(plan: Plan, backend: str) -> str:
    """Return source text that carries the plan out and needs LegalSAT no more.

    Args:
        plan: a plan; where its dims are open, the text takes them at run time.
        backend: of a movement "triton" (a kernel), "cute" (a kernel in CUDA C++ for any means, and what launches
            it), "host" (C++ that encodes the tensor maps) or "host-python" (the same in Python); of a
            product "cute" (for wgmma, and what launches it), "ptx" (a kernel, for tcgen05 as well), "triton" (a kernel
            for wgmma) or "host" (what loads and launches the kernel in PTX); of a program "cute".

    Raises:
        InvalidInput: no such backend for such a plan, or `plan` is no plan.
        LegalSatError: the backend prints no plan like this one, or none that is open, or the plan only loads, and
            the backend is no host.
    """
    require_plan(plan, Plan)
    backends = next(table for kind, table in _EMITTED.items() if isinstance(plan, kind))
    module, function = backends[one_of(backend, "backend", backends)].split(":")
    if isinstance(plan, MovementPlan):
        if backend not in OPEN_MOVEMENTS:
            require_bound(plan)
        if backend in PROGRAMS:
            _require_stores(plan)
    elif isinstance(plan, GemmPlan) and plan.guard and backend not in OPEN_FILES:
        names = ", ".join(dim.name for dim in plan.operator.dims)
        others = [one for one in OPEN_FILES if _prints(one, plan)]
        instead = " or ".join(["bind its dims", *(["ask for " + " or ".join(others)] if others else [])])
        raise LegalSatError(f"{backend} prints one launch, and plan is open in {names}; {instead}")
    text: str = getattr(importlib.import_module(module), function)(plan)
    return text


@lru_cache
def refusal_of(backend: str) -> Refusal:
    """Return what says why a backend does not print a product's kernel, "" where it does.

    Raises:
        InvalidInput: no such backend for products.
    """
    from legalsat.backends.lacking import require_rows  # noqa: PLC0415 - the tables need the planner

    table = HOLDS.get(one_of(backend, "backend", PRODUCT_BACKENDS), backend)

    def refusal(gemm: Gemm, kernel: ProductKernel) -> str:
        try:
            require_rows(table, gemm, kernel)
        except LegalSatError as error:
            return str(error)
        return ""

    return refusal


def _prints(backend: str, plan: GemmPlan) -> bool:
    """Return whether a backend prints each kernel of a plan."""
    return not any(refusal_of(backend)(plan.operator, one.kernel) for one in plan.choices)


def require_bound(plan: MovementPlan) -> None:
    """Raise unless `plan` is a plan whose every number is known; a symbolic one holds representative numbers."""
    require_plan(plan, MovementPlan)
    if plan.guard:
        names = sorted({dim.name for end in (plan.operator.source, plan.operator.target) for dim in end.dims})
        values = ", ".join(f"{name}=..." for name in names)
        raise LegalSatError(f"plan is open in {', '.join(names)}; bind its dims first, with plan.bind({values})")


def require_plan(plan: Any, *kinds: type) -> None:
    """Raise unless `plan` is one of these."""
    if not isinstance(plan, kinds):
        raise InvalidInput(f"plan is {type(plan).__name__}; give what legalsat.synthesize returns")


def _require_stores(plan: MovementPlan) -> None:
    """Raise unless a kernel of the plan would leave something behind."""
    if plan.operator.loads_only:
        raise LegalSatError(
            'plan ends in shared memory, where a kernel of yours reads the tiles; emit "host" or "host-python", which '
            'encode its map and say what to load, or plan into="global" for a kernel of ours'
        )


def program(plan: Plan, backend: str | None = None) -> Any:
    """Return a plan's kernel as text with how it is launched, relayouts of operands included.

    It is a `Program`, or an `OpenProgram` where the plan's dims are open.

    Args:
        plan: a plan; its dims may be open.
        backend: of a movement "triton" or "cute", of a product "cute", "ptx" or "triton"; the first that prints the
            plan when left out.

    Raises:
        InvalidInput: no such backend for such a plan, or `plan` is no plan.
        LegalSatError: the backend prints no open plan, or no backend prints such a plan.
    """
    table = _programs(plan)
    if backend is None:
        return first_of(table, lambda name: program(plan, name), "prints")[0]
    module = importlib.import_module(table[one_of(backend, "backend", table)])
    if isinstance(plan, MovementPlan):
        _require_stores(plan)
    if plan.guard:
        return _open_program(plan, module)
    if isinstance(plan, MovementPlan) and plan.before:
        return _relaid(plan, backend)
    return module.program_of(plan)


def _open_program(plan: Plan, module: ModuleType) -> OpenProgram:
    """Return the program of a plan whose dims are open: of a product a text for each of its kernels."""
    from legalsat.analyses.sentences import whole_guard  # noqa: PLC0415 - closed plans need no isl
    from legalsat.extract.search.structure import open_dims, require_counted  # noqa: PLC0415
    from legalsat.runtime.open_program import OpenChoice, OpenProgram  # noqa: PLC0415 - the runtime needs plans

    dims = plan.operator.dims if isinstance(plan, GemmPlan) else open_dims(plan.operator)
    if module.__name__ not in OPEN_PROGRAMS:
        names = " or ".join(name for name, one in _programs(plan).items() if one in OPEN_PROGRAMS)
        raise LegalSatError(f"plan is open in {', '.join(dim.name for dim in dims)}; bind its dims, or ask for {names}")
    if isinstance(plan, GemmPlan):
        ways = ((one.set, module.program_for(plan.operator, one.kernel, plan.target)) for one in plan.choices)
        choices = [OpenChoice(where, made) for where, made in ways]
    else:
        assert isinstance(plan, MovementPlan)
        require_counted(plan)
        choices = [OpenChoice(plan.guard, module.program_of(plan))]
    return OpenProgram(dims, whole_guard(plan.guard, dims), tuple(choices))


def _relaid(plan: MovementPlan, backend: str) -> Program:
    """Return the program of a movement that begins with a relayout, which runs in front and writes its source."""
    from legalsat.backends.relayouts import with_relayouts  # noqa: PLC0415 - it prints them by what is here

    then = program(plan.alone, backend)
    before = (InFront("source", first, plan.operator.constant) for first in plan.before)
    return with_relayouts(then, before, backend)


def compiled(plan: Plan, backend: str | None = None) -> Any:
    """Return a plan's kernel, to be called with arrays; what its text becomes is kept on disk.

    It is a `Kernel`, an `OpenKernel` where the plan's dims are open, or a `ProgramKernel` of several operators.

    Args:
        plan: a plan; its dims may be open.
        backend: as of `program`; the first that prints the plan and whose compiler is there when left out.

    Raises:
        LegalSatError: as `program`, or the tool that compiles the text is missing, or refuses it.
    """
    from legalsat.runtime import Kernel, OpenKernel  # noqa: PLC0415 - the runtime needs plans
    from legalsat.runtime.open_program import OpenProgram  # noqa: PLC0415

    if isinstance(plan, ProgramPlan):
        from legalsat.backends.composed import compiled_program  # noqa: PLC0415 - it asks this module for its steps

        return compiled_program(plan, backend)
    table = _programs(plan)
    if backend is None:
        return first_of(table, lambda name: compiled(plan, name), "runs")[0]
    made = program(plan, backend)
    return OpenKernel(made).build() if isinstance(made, OpenProgram) else Kernel(made).build()


def first_of(backends: Iterable[str], make: Callable[[str], Made], verb: str) -> tuple[Made, str]:
    """Return what the first backend that can makes of a plan, and why those in front of it cannot, "" if none is.

    Args:
        backends: names, best first.
        make: takes a name; raises `LegalSatError` where that backend cannot.
        verb: what backends do to the plan, for the error: "prints".

    Raises:
        LegalSatError: none can.
    """
    refusals: dict[str, list[str]] = {}  # the names of those that say the same
    for name in backends:
        try:
            made = make(name)
        except LegalSatError as error:
            refusals.setdefault(str(error), []).append(name)
        else:
            return made, _said(refusals)
    raise LegalSatError(f"no backend {verb} this plan; {_said(refusals)}")


def _said(refusals: dict[str, list[str]]) -> str:
    return "; ".join(f"{', '.join(names)}: {said}" for said, names in refusals.items())


def _programs(plan: Plan) -> dict[str, str]:
    """Return the table of a plan's backends; raises unless it is a plan."""
    if isinstance(plan, GemmPlan):
        return PRODUCT_PROGRAMS
    require_plan(plan, MovementPlan)
    return PROGRAMS


def builders() -> frozenset[str]:
    """Return the modules that make images."""
    return frozenset(PROGRAMS.values()) | frozenset(PRODUCT_PROGRAMS.values())


def backend_of(program: Program) -> str:
    """Return the name of the backend that printed a program, or its builder's where that is none of these."""
    names = {module: name for table in (PROGRAMS, PRODUCT_PROGRAMS) for name, module in table.items()}
    return names.get(program.builder, program.builder)


def builder_of(program: Program) -> ModuleType:
    """Return the module that makes images of a program's language.

    Raises:
        LegalSatError: there is none of that name, as in a file of a later version.
    """
    if program.builder not in builders():
        raise LegalSatError(f"program is built by {program.builder or 'nothing'}; make it again from its plan")
    return importlib.import_module(program.builder)

"""The public functions: what a user calls. Each is a thin line over the machinery."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from legalsat.checks import integer, number, one_of, sequence
from legalsat.diagnostics import Diagnostic, worst_first
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput
from legalsat.explanation import USES, Explanation
from legalsat.extract.explain.explain import explain_tensor
from legalsat.extract.search.planner import BOXES, EVERY_MEANS, USUAL_MEANS, Limits, NoLegalLayout, cached_plan, plan
from legalsat.extract.search.reader_tiles import with_tile
from legalsat.operators import PRODUCT, PROGRAM, Copy, Move, Operator, as_tensor
from legalsat.operators.gemm import Gemm
from legalsat.options import Consumer, Into, Means, ProductBackend
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.movement_plan import MovementPlan
from legalsat.plans.plan import Plan
from legalsat.rules import TENSOR_MAP_RULES, judge
from legalsat.rules.causes import FOLLOWS
from legalsat.rules.movement import no_tensor_memory_accelerator
from legalsat.targets import Target, target_of_text
from legalsat.targets import target as as_target
from legalsat.tensor import Tensor
from legalsat.units.driver_arguments import from_fields
from legalsat.units.matrix_descriptor import MatrixDescriptor, MatrixOperand
from legalsat.units.sites import Movement, TmaCopy, WgmmaMultiply, descriptor_site
from legalsat.units.tcgen05 import InstructionDescriptor
from legalsat.units.tcgen05_sites import Tcgen05Mma
from legalsat.units.tensor_copy import BulkCopy, TensorCopy
from legalsat.units.tensor_map import TensorMap

MOST_USES = 10**12
MOST_BESIDE = 64  # things that are explained together with a text

AnOperator = TypeVar("AnOperator", bound=Operator)

if TYPE_CHECKING:
    from legalsat.extract.region.groups import GroupRegion
    from legalsat.extract.region.region import LegalRegion
    from legalsat.operators.grouped import GroupedGemm
    from legalsat.operators.program import Program
    from legalsat.plans.program_plan import ProgramPlan


@overload
def synthesize(problem: Gemm, target: str | Target, *, backend: ProductBackend | None = None) -> GemmPlan: ...


@overload
def synthesize(problem: Program, target: str | Target) -> ProgramPlan: ...


@overload
def synthesize(
    problem: Any,
    target: str | Target,
    *,
    tile: Iterable[int] | None = None,
    consumer: Consumer | None = None,
    into: Into | None = None,
    means: Iterable[Means] | None = None,
    seconds: float | None = None,
) -> MovementPlan: ...


def synthesize(
    problem: Any,
    target: str | Target,
    *,
    tile: Iterable[int] | None = None,
    consumer: Consumer | None = None,
    into: Into | None = None,
    means: Iterable[Means] | None = None,
    seconds: float | None = None,
    backend: ProductBackend | None = None,
) -> Plan:
    """Return the cheapest legal plan.

    Args:
        problem: a `Tensor` or array, whose tiles are to travel through shared memory; or an operator such as
            `Transpose(x)`, `Gemm(m, n, k, "bf16")`, whose operands are planned together, or a `Program` of several.
        target: a GPU, such as "sm_90a" or "h200".
        tile: elements of a tile along each axis; for a tensor or array only, chosen when left out.
        consumer: who reads the tile in shared memory: None (nobody), "threads", "wgmma.a", "wgmma.b",
            "tcgen05.a", "tcgen05.b".
        into: "shared" for tiles that are loaded, for a kernel of your own to read, and stored by nobody: the plan has
            the load's map or vectors alone, and only the rules of these. Left out, or "global", they are stored again.
        means: how tiles may travel, some of `legalsat.units.means`, such as ("tma",) for boxes of a tensor
            map alone; every means but granules when left out.
        seconds: time after which the best plan found so far is returned. When left out, work is limited and time is
            not, so that the same question has the same answer everywhere.
        backend: "cute", "ptx" or "triton", for products only: the cheapest kernel whose program it prints is taken; the
            cheapest of all when left out.

    Raises:
        NoLegalLayout: the rules forbid every candidate; its `diagnostics` say which and why.
        InvalidInput: an argument has no meaning.
        UnknownTarget: no such GPU.
        SolverGaveUp: time ran out before any candidate was solved.
        SearchGaveUp: the way from the tensor to the plan was not found again within its budget.
        LegalSatError: the backend prints no kernel of the product.
    """
    gpu = as_target(target)
    if isinstance(problem, Operator) and problem.term in {PRODUCT, PROGRAM}:
        if (tile, consumer, into, means, seconds) != (None,) * 5:
            raise InvalidInput(
                f"a {problem.term} chooses its tiles itself; leave out tile, consumer, into, means and seconds"
            )
        if problem.term == PRODUCT:
            return _product(problem, gpu, backend)
    if backend is not None:
        raise InvalidInput("backend chooses among kernels of a product; leave it out, and give it to plan.emit")
    if isinstance(problem, Operator) and problem.term == PROGRAM:
        from legalsat.extract.composed.planner import cached_program_plan  # noqa: PLC0415 - few plan programs

        return cached_program_plan(problem, gpu)
    operator = with_tile(_operator(problem, tile, consumer, into), gpu)
    if operator.source.dims or operator.target.dims:
        from legalsat.extract.solve.symbolic import symbolic_plan  # noqa: PLC0415 - isl is not needed without dims

        if means is not None and BOXES[0] not in _means(means):
            raise InvalidInput("means of tensors with dims follow from the dims; bind the dims, or leave out means")
        try:
            return symbolic_plan(operator, gpu)
        except NoLegalLayout:
            from legalsat.extract.region.region import plan_in_vectors  # noqa: PLC0415

            vectors = plan_in_vectors(operator, gpu) if means is None else None
            if vectors is None:
                raise
            return vectors
    allowed = USUAL_MEANS if means is None else _means(means)
    if seconds is None:
        return cached_plan(operator, gpu, allowed)
    return plan(operator, gpu, Limits(means=allowed, deadline=time.monotonic() + number(seconds, "seconds")))


def _product(problem: Any, gpu: Target, backend: ProductBackend | None) -> GemmPlan:
    from legalsat.extract.kernels.joint import cached_gemm_plan  # noqa: PLC0415 - movements need no products

    if problem.dims:
        from legalsat.extract.region.open_products import open_gemm_plan  # noqa: PLC0415 - isl is not needed without dims

        if backend is None:
            return open_gemm_plan(problem, gpu)
        from legalsat.backends import refusal_of  # noqa: PLC0415 - many plan without them

        return open_gemm_plan(problem, gpu, refusal_of(backend))
    if backend is None:
        return cached_gemm_plan(problem, gpu)
    from legalsat.backends import refusal_of  # noqa: PLC0415 - many plan without them

    return cached_gemm_plan(problem, gpu, refusal_of(backend))


def _means(means: Any) -> tuple[str, ...]:
    given = means if isinstance(means, Set) else sequence(means, "means", "names such as ('tma',)")
    wanted = {one_of(name, "means", EVERY_MEANS) for name in given}
    if not wanted:
        raise InvalidInput(f"means is empty; give at least one of {', '.join(EVERY_MEANS)}")
    return tuple(name for name in EVERY_MEANS if name in wanted)


@overload
def legal_region(problem: GroupedGemm, target: str | Target) -> GroupRegion: ...


@overload
def legal_region(
    problem: Any,
    target: str | Target,
    *,
    tile: Iterable[int] | None = None,
    consumer: Consumer | None = None,
    into: Into | None = None,
) -> LegalRegion: ...


def legal_region(
    problem: Any,
    target: str | Target,
    *,
    tile: Iterable[int] | None = None,
    consumer: Consumer | None = None,
    into: Into | None = None,
) -> LegalRegion | GroupRegion:
    """Return for exactly which values of its dims a problem's plan is legal, as an isl set and in words.

    The plan is the one that `synthesize` gives. `LegalRegion.prove` checks the set against the rules. Of a product of
    groups it is which groups are legal, every one, and `GroupRegion.prove` checks that.

    Args:
        problem: a `Tensor` whose shape or strides hold `Dim`s, or an operator on one; or a `GroupedGemm`.
        target: a GPU, such as "sm_90a" or "h200".
        tile: elements of a tile along each axis; for a tensor only, chosen when left out.
        consumer: who reads the tile in shared memory, as for `synthesize`.
        into: whether it ends there, as for `synthesize`.

    Raises:
        InvalidInput: the problem has no dims, or no isl set says for which of their values its plan is legal.
        NotAffine: a rule multiplies dims in a way that no isl set expresses.
        UnknownTarget: no such GPU.
        SolverGaveUp: the solver ran out of time.
    """
    gpu = as_target(target)
    product = cast("Gemm", problem) if isinstance(problem, Operator) and problem.term == PRODUCT else None
    if product is not None and product.dims:
        from legalsat.extract.region.open_products import product_region  # noqa: PLC0415 - isl is not needed without dims

        return product_region(product, gpu)
    if product is not None and product.members.ragged:
        from legalsat.extract.region.groups import group_region  # noqa: PLC0415 - isl is not needed without groups

        return group_region(synthesize(product, gpu))
    operator = with_tile(_operator(problem, tile, consumer, into), gpu)
    if not (operator.source.dims or operator.target.dims):
        raise InvalidInput("problem has no dims, so no region; use synthesize or explain, or give extents as Dim")
    from legalsat.extract.region import region  # noqa: PLC0415 - isl is not needed without dims

    return region.legal_region(operator, gpu)


def violations(
    subject: TensorMap | TensorCopy | BulkCopy | MatrixDescriptor | InstructionDescriptor | WgmmaMultiply,
    target: str | Target,
    *,
    operand: MatrixOperand | None = None,
    dtype: Any = None,
) -> list[Diagnostic]:
    """Return every rule that a tensor map, copy or matrix instruction violates on a target, worst first; empty if none.

    What follows from another violation alone is left out: one cause, one error.

    `d.refused_by == "driver"` marks those for which the encode call fails; "hardware" those that fault or corrupt
    later; "document" those that nobody enforces.

    Args:
        subject: a `TensorMap`; a `TensorCopy` or a `BulkCopy`, which is one execution; a `MatrixDescriptor` beside the
            tile that it is to describe; a `WgmmaMultiply`; or the `InstructionDescriptor` of a tcgen05 multiply by one
            CTA.
        target: a GPU, such as "h200".
        operand: for a matrix descriptor, how its tile really lies: what `matrix_operand` returns.
        dtype: for a matrix descriptor, the tile's element type.

    Raises:
        InvalidInput: the subject is none of these, or a descriptor comes without its tile.
    """
    gpu = as_target(target)
    if isinstance(subject, MatrixDescriptor):
        if operand is None or dtype is None:
            raise InvalidInput("a matrix descriptor is judged beside its tile; give operand= and dtype= too")
        if not isinstance(operand, MatrixOperand):
            raise InvalidInput(f"operand is a {type(operand).__name__}; give what matrix_operand returns")
        return judge(descriptor_site(subject, operand, as_dtype(dtype).bits), gpu)
    if operand is not None or dtype is not None:
        raise InvalidInput(f"operand and dtype belong to a matrix descriptor, not to {type(subject).__name__}")
    if isinstance(subject, WgmmaMultiply):
        for name in ("m", "n", "k"):  # rules take numbers that are not known yet too; nobody gives such here
            integer(getattr(subject, name), name, low=0)
        return judge(subject, gpu)
    if isinstance(subject, InstructionDescriptor):
        return judge(Tcgen05Mma(subject), gpu)
    if not isinstance(subject, TensorMap | TensorCopy | BulkCopy):
        raise InvalidInput(
            f"violations judges tensor maps, copies and matrix instructions, not {type(subject).__name__}; use explain "
            "for tensors and plans"
        )
    return _copied(subject, gpu)


def _copied(subject: TensorMap | TensorCopy | BulkCopy, gpu: Target) -> list[Diagnostic]:
    """Return what a tensor map or an execution violates."""
    for tm in (subject, getattr(subject, "tensor_map", None)):
        if isinstance(tm, TensorMap) and tm.dims:
            raise InvalidInput(f"tensor map is open in {', '.join(dim.name for dim in tm.dims)}; bind its dims first")
    if gpu.tma is None:
        return list(no_tensor_memory_accelerator.check(Movement(8, by="tma"), gpu))
    if isinstance(subject, BulkCopy):
        return judge(subject, gpu)
    if isinstance(subject, TensorCopy):
        return worst_first([*_copied(subject.tensor_map, gpu), *judge(subject, gpu)], FOLLOWS)
    outer = sorted(range(1, subject.rank), key=lambda axis: subject.global_stride[axis - 1])
    return judge(replace(TmaCopy.of(subject), by_stride=(0, *outer)), gpu, TENSOR_MAP_RULES)


@overload
def explain(subject: TensorMap, target: str | Target, *, uses: int = USES) -> Explanation[TensorMap]: ...


@overload
def explain(subject: AnOperator, target: str | Target, *, uses: int = USES) -> Explanation[AnOperator]: ...


@overload
def explain(
    subject: Tensor,
    target: str | Target,
    *,
    tile: Iterable[int] | None = None,
    consumer: Consumer | None = None,
    into: Into | None = None,
    uses: int = USES,
) -> Explanation[Tensor | Copy]: ...


@overload
def explain(
    subject: Any,
    target: str | Target,
    *,
    tile: Iterable[int] | None = None,
    consumer: Consumer | None = None,
    into: Into | None = None,
    layout: Any = None,
    dtype: Any = None,
    beside: Any = None,
    uses: int = USES,
) -> Explanation: ...


def explain(
    subject: Any,
    target: str | Target,
    *,
    tile: Iterable[int] | None = None,
    consumer: Consumer | None = None,
    into: Into | None = None,
    layout: Any = None,
    dtype: Any = None,
    beside: Any = None,
    uses: int = USES,
) -> Explanation:
    """Return what is wrong with a tensor, tensor map, plan, pipeline or text, who says so, and what to change.

    Args:
        subject: a `Tensor` or array, an operator, a `TensorMap`, one execution of a copy as a `TensorCopy` or
            `BulkCopy`, or a mapping of the fields of one of these, under our names or those of the driver's call; a
            `Plan`, a `Gemm`, a `Pipeline` or the `GemmPlan` that has one, a matrix or instruction descriptor, a
            `WgmmaMultiply`, a `tensor_memory.Program`; PTX; a text as programs print it when something failed: the
            fields of a tensor map, an error of Triton, TileLang or CUTLASS, a tensor's shape, strides and dtype, a
            CUresult by number or name, a descriptor's word; an exception that has such a text; a CUresult or a word as
            an int; the 128 bytes of a CUtensorMap as `bytes`, `bytearray` or cuda-python's object. An array is always a
            tensor, one of 128 bytes too: give `array.tobytes()` for a map.
        target: a GPU; a plan is judged on it whatever it was made for. For a text also one that has no table, such as
            "v100".
        tile: elements of a tile along each axis; for tensors and arrays only.
        consumer: who reads the tile in shared memory; for tensors, arrays, and descriptors beside a layout only.
        into: "shared" for tiles that are loaded and stored by nobody; for tensors and arrays only.
        layout: for a matrix descriptor or its word: how the tile lies in shared memory that it is to describe, rows of
            A or columns of B first and K second. A `Layout` without a swizzle, CuTe's text with one, such as
            "Sw<3,4,3> o smem_ptr[16b] o (64,64):(64,1)", or words such as "128x64 bf16 K-major 128B" for a tile that
            the copy engine brings by boxes with that swizzle.
        dtype: the layout's element type; may be left out where the text says it.
        beside: what else there is of the failure that a text, an exception or a CUresult tells of: any other subject,
            such as a `Tensor`, a `Gemm`, a `TensorMap` or PTX, or a list of these; `tile` and `consumer` are the
            tensors' then. A cause is told once, in the words that have numbers.
        uses: how often what is repaired will be used: repairs of tensors, operators and products are in the order of
            the time of applying them and of so many uses.

    Raises:
        InvalidInput: nothing in a text is understood, or an argument has no meaning.
        InvalidPlan: a plan does not hold even on the target that it was made for.
    """
    from legalsat.subjects import subject_of  # noqa: PLC0415 - its rows call violations

    of_text = isinstance(subject, str | BaseException)
    gpu, uses = (target_of_text if of_text else as_target)(target), integer(uses, "uses", low=1, high=MOST_USES)
    if isinstance(subject, Mapping):
        subject = from_fields(subject)
    if beside is not None:
        if layout is not None or dtype is not None:
            raise InvalidInput("layout and dtype go with a descriptor's word; leave them out, or beside")
        if into is not None:
            raise InvalidInput("into belongs to tensors and arrays; leave it out beside a text, or give a Copy with it")
        return _beside(subject, beside, gpu, uses, (tile, consumer))
    if layout is not None or dtype is not None:
        if tile is not None or into is not None:
            raise InvalidInput("tile and into belong to tensors and arrays; leave them out beside a layout")
        from legalsat.pasted.layouts import explain_beside  # noqa: PLC0415 - few explain descriptors

        return explain_beside(subject, gpu, layout, dtype, consumer)
    row = subject_of(subject)
    if row is not None:
        if (tile, consumer, into) != (None,) * 3:
            raise InvalidInput("tile, consumer and into belong to tensors and arrays; leave them out")
        return row.explain(subject, gpu, uses) if row.counts else row.explain(subject, gpu)
    operator = with_tile(_operator(subject, tile, consumer, into), gpu)
    return explain_tensor(operator, gpu, alone=not isinstance(subject, Operator), uses=uses)


def _beside(subject: Any, beside: Any, gpu: Target, uses: int, options: tuple[Any, Any]) -> Explanation:
    """Return the explanation of a text, an exception or a CUresult together with what else there is of it."""
    from legalsat.analyses.ptx.text import is_ptx  # noqa: PLC0415 - few have more than one thing
    from legalsat.pasted.beside import joined  # noqa: PLC0415
    from legalsat.subjects import MOST_RESULT, explain_text, subject_of  # noqa: PLC0415 - its rows call violations

    others = list(beside) if isinstance(beside, list | tuple) else [beside]
    if not isinstance(subject, str | BaseException | int) or isinstance(subject, bool):
        raise InvalidInput(f"beside goes with a text, not with {type(subject).__name__}; give the text first")
    if not 0 < len(others) <= MOST_BESIDE:
        raise InvalidInput(f"beside has {len(others)} entries; give 1 to {MOST_BESIDE}, such as a Tensor")
    texts = [one for one in others if isinstance(one, str) and not is_ptx(one)]
    found = []
    for one in others:
        if one in texts and isinstance(one, str):
            continue
        other = from_fields(one) if isinstance(one, Mapping) else one
        is_tensor = subject_of(other) is None and not isinstance(other, Operator)
        given = dict(zip(("tile", "consumer"), options, strict=True)) if is_tensor else {}
        found.append(explain(other, gpu, uses=uses, **given))

    def explain_itself() -> Explanation:
        if not texts:
            return explain(subject, gpu, uses=uses)
        said = f"{subject:#x}" if isinstance(subject, int) and subject > MOST_RESULT else str(subject)
        return explain_text(said, gpu, uses, "\n\n".join(texts))

    return joined(str(subject), explain_itself, found) if found else explain_itself()


def _operator(problem: Any, tile: Iterable[int] | None, consumer: Consumer | None, into: Into | None) -> Move:
    if not isinstance(problem, Operator):
        return Copy(as_tensor(problem), tile=tile, consumer=consumer, into="global" if into is None else into)
    if not isinstance(problem, Move):
        raise InvalidInput(f"{problem} is no movement; give one of those that its travels(target) returns")
    if type(problem).__hash__ is None:
        raise InvalidInput(f"{type(problem).__name__} may change and so cannot be planned; make it a frozen dataclass")
    if (tile, consumer, into) != (None,) * 3:
        raise InvalidInput("tile, consumer and into belong to the operator; pass them to it")
    return problem

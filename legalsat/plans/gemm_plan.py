"""`GemmPlan`: the kernel that computes a product, what it is predicted to take, and what each of its roles does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from legalsat.dims import typical_of
from legalsat.operators import Operator
from legalsat.operators.gemm import Gemm, sums_of
from legalsat.operators.grouped import GroupedGemm
from legalsat.options import ProductBackend, RunProductBackend
from legalsat.plans.codec import PLAN_VERSION, InvalidPlan, operator_of, plain_value, reading, value_of
from legalsat.plans.lazily import Lazily
from legalsat.plans.movement_plan import MovementPlan
from legalsat.plans.plan import Launch, Plan, require_dims
from legalsat.plans.product_cost import ProductCost
from legalsat.plans.product_kernel import ProductKernel
from legalsat.printable import printable
from legalsat.program.kernel import KernelProgram
from legalsat.program.pipeline import Pipeline
from legalsat.targets import target
from legalsat.terms.products import words
from legalsat.units.mma import Columns, Mma, instruction_of
from legalsat.units.tcgen05 import operand_type
from legalsat.units.tensor_map import TensorMap

if TYPE_CHECKING:
    from legalsat.extract.kernels.slices import Added
    from legalsat.terms.trees import TermStep


@dataclass(frozen=True, slots=True)
class GemmCandidate:
    """A kernel of a product, and what it is predicted to take.

    Attributes:
        name: in words. tile: elements along m, n and k. stages: of the ring. blocks: that fit on a processor.
        kernel: itself. cost: what is predicted.
    """

    name: str
    tile: tuple[int, int, int]
    stages: int
    blocks: int
    kernel: ProductKernel
    cost: ProductCost


@dataclass(frozen=True, slots=True)
class InFront:
    """A movement that runs in front of a kernel, which then reads what it wrote.

    Attributes:
        operand: whose memory is laid out anew: "a" or "b" of a product, "source" of a movement.
        plan: the movement's.
        constant: whether the operand never changes, so that it runs once for all.
        exchanged: whether it exchanges the axes.
    """

    operand: str
    plan: MovementPlan
    constant: bool
    exchanged: bool = False


@dataclass(frozen=True, slots=True)
class OpenKernel:
    """A kernel of a product with dims, and the extents that it is for.

    Attributes:
        kernel: how it is computed.
        set: the values of the dims, in isl's notation; no value is in the sets of two.
        sentence: the same in words, without what the dims declare.
    """

    kernel: ProductKernel
    set: str
    sentence: str


@dataclass(frozen=True, slots=True)
class GemmPlan(Plan):
    """A product with every field solved: what is printed, costed, proven and launched.

    Attributes:
        operator: what was asked.
        target: the GPU.
        kernel: the persistent kernel that `compile` launches.
        guard: with dims, the exact set of their values that `choices` compute, in isl's notation; empty without dims.
        guard_sentence: the same in words.
        choices: with dims, kernels by ranges, at most four, `kernel` among them: the one for typical values.
    """

    operator: Gemm
    kernel: ProductKernel
    guard: str = ""
    guard_sentence: str = ""
    choices: tuple[OpenKernel, ...] = ()

    @property
    def typical(self) -> Gemm:
        """The product for typical values of its dims, which the kernel was chosen for and costs are of; else itself."""
        return self.operator.bind(typical_of(self.operator.dims)) if self.guard else self.operator

    def bind(self, **values: int) -> GemmPlan:
        """Return the plan for these values of the dims.

        The product is planned anew with its numbers, so a bound plan may be better than this one, and may exist outside
        the guard.

        Raises:
            InvalidInput: a dim has no value or one outside its range, or a value names no dim.
            NoLegalLayout: nothing is legal for these values.
        """
        from legalsat.extract.kernels.joint import cached_gemm_plan  # noqa: PLC0415 - the planner makes plans

        require_dims(values, [dim.name for dim in self.operator.dims])
        return cached_gemm_plan(self.operator.bind(values), self.target)

    @property
    def tile(self) -> tuple[int, int, int]:
        """Elements along m, n and k of what is computed, which is C^T where the kernel is swapped."""
        return self.kernel.tile

    @property
    def stages(self) -> int:
        """Stages of the ring that A and B share."""
        return self.kernel.stages

    @property
    def blocks(self) -> int:
        """Blocks that fit on a processor."""
        return self.kernel.blocks

    @property
    def registers(self) -> tuple[int, ...]:
        """Registers a thread of the consumer warps and of the producer's."""
        return self.kernel.registers

    @property
    def launch(self) -> Launch:
        """Warps of a block, and blocks of the grid where they are persistent; with dims for typical values."""
        from legalsat.extract.kernels.product_maps import grid_of  # noqa: PLC0415 - needs plans

        grid = grid_of(self.typical, self.kernel, self.target)
        assert isinstance(grid, int)
        return Launch(self.kernel.threads // 32, 0 if self.kernel.store == "sums" else grid)

    @property
    def mma(self) -> Mma:
        """How tiles are multiplied."""
        kernel, element = self.kernel, operand_type(self.operator.dtype.name)
        shape = (kernel.instruction_rows, kernel.summed, kernel.tile[2] // len(kernel.b.offsets[0]))
        types = (element, element, sums_of(self.operator.dtype).name)
        if not kernel.issues:
            return Mma("wgmma", shape, types, kernel.warpgroups, kernel.a, kernel.b)
        firsts = range(0, kernel.accumulators * kernel.summed_columns, kernel.summed_columns)
        columns = tuple(Columns(f"accumulator {i}", one, kernel.summed_columns) for i, one in enumerate(firsts))
        word = instruction_of(element, shape[:2], kernel.majors).word
        return Mma("tcgen05", shape, types, kernel.warpgroups, kernel.a, kernel.b, word, columns, kernel.tensor_columns)

    @property
    def tensor_maps(self) -> tuple[TensorMap, ...]:
        """The maps of A, of B and of C, in the order of the kernel's parameters."""
        from legalsat.extract.kernels.product_maps import maps_of  # noqa: PLC0415 - needs plans

        return tuple(one.map for maps in maps_of(self.operator, self.kernel).values() for one in maps)

    @property
    def before(self) -> tuple[InFront, ...]:
        """What lays operands out anew in front of the kernel; planned, and proven, when it is asked for.

        Each is launched as the first backend prints it that can, whichever prints the kernel.
        """
        from legalsat.extract.moved import relayouts  # noqa: PLC0415 - the planner makes plans

        return tuple(relayouts.relayouts_of(self.operator, self.kernel, self.target))

    @property
    def behind(self) -> Added | None:
        """What adds slices of k up behind the kernel, and writes C; None where the kernel writes it."""
        from legalsat.extract.kernels.slices import added_of  # noqa: PLC0415 - needs plans

        return added_of(self.operator, self.kernel)

    @property
    def derivation(self) -> tuple[TermStep, ...]:
        """The laws that lead from the product to the kernel, in order."""
        from legalsat.extract.kernels.product_kernels import derivation_of  # noqa: PLC0415 - the planner makes plans

        return derivation_of(self.typical, self.kernel, self.target)

    @property
    def cost(self) -> ProductCost:
        """What the kernel that `compile` launches is predicted to take; with dims for typical values."""
        from legalsat.extract.cost.kernel_cost import kernel_cost  # noqa: PLC0415 - needs plans

        return kernel_cost(self.typical, self.kernel, self.target)

    @property
    def candidates(self) -> Sequence[GemmCandidate]:
        """All kernels of the product, cheapest first; found when asked for."""
        from legalsat.extract.kernels.joint import candidates_of  # noqa: PLC0415 - the planner makes plans

        return Lazily(candidates_of(self))

    @property
    def program(self) -> KernelProgram:
        """The program of the kernel: what each role does, once for all tiles and CTAs. It is what backends print."""
        from legalsat.extract.kernels.kernel_program import printed_program  # noqa: PLC0415 - what builds programs needs plans
        from legalsat.extract.kernels.product_maps import stored_type  # noqa: PLC0415 - likewise

        return printed_program(self.kernel, stored_type(self.operator, self.kernel).bytes)

    @property
    def pipeline(self) -> Pipeline:
        """What each role of each CTA does by the program, operation by operation, which is what is proven."""
        from legalsat.extract.kernels.kernel_program import kernel_program  # noqa: PLC0415 - what builds pipelines needs plans
        from legalsat.extract.kernels.product_maps import stored_type  # noqa: PLC0415 - likewise

        return kernel_program(self.kernel, stored_type(self.operator, self.kernel).bytes)

    def emit(self, backend: ProductBackend) -> str:
        """Return source text that needs LegalSAT no more: "cute", "ptx", "triton" or "host"."""
        from legalsat.backends import emit  # noqa: PLC0415 - backends import plans

        return emit(self, backend)

    def compile(self, backend: RunProductBackend | None = None) -> Any:
        """Return a kernel: `c = kernel(a, b)`, `kernel(a, b, out=c)`, with torch tensors or any DLPack arrays.

        A has shape (m, k) and B (n, k), each with the strides that were planned for; what the plan lays out anew is
        laid out by the call, once for all if B is constant. With dims it is an `OpenKernel`, which takes every extent
        that the guard holds for, and compiles nothing at a call.

        Args:
            backend: "cute", "ptx" or "triton"; the first that prints this plan and is installed when left out.

        Raises:
            LegalSatError: no backend prints this plan, or what compiles its text is missing. No GPU is needed for
                this; a call without one raises `legalsat.runtime.NoDriver`.
        """
        from legalsat.backends import compiled  # noqa: PLC0415 - backends import plans

        return compiled(self, backend)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain values; what follows from the kernel is there for who reads the file."""
        follows = {name: plain_value(getattr(self, name)) for name in FOLLOWS}
        return {
            "version": PLAN_VERSION,
            "subject": str(self.operator),
            "target": self.target.name,
            "operator": plain_value(self.operator),
            "kernel": plain_value(self.kernel),
            "derivation": self._steps(),
            "guard": self.guard,
            "choices": [{"kernel": str(one.kernel), "set": one.set, "sentence": one.sentence} for one in self.choices],
            **follows,
        }

    def _steps(self) -> list[dict[str, str]]:
        return [{"law": step.law, "term": words(step.term)} for step in self.derivation]

    def __str__(self) -> str:
        from legalsat.view.show_gemm import show_gemm_plan  # noqa: PLC0415 - showing needs plans

        return printable(show_gemm_plan(self))


PRODUCTS: tuple[type[Gemm], ...] = (Gemm, GroupedGemm)
FOLLOWS = ("tile", "stages", "blocks", "launch", "registers", "cost", "before", "behind")


def read(data: Any, operators: tuple[type[Operator], ...] = ()) -> GemmPlan:
    """Return the plan that `to_json` wrote, of one of ours or of these operators, checked again."""
    from legalsat.extract.check.recheck_gemm import recheck_gemm  # noqa: PLC0415 - checking needs the rules

    with reading(data):
        if data["guard"] or data["choices"]:
            raise InvalidPlan("plan has symbolic extents; bind its dims before saving, then load that")
        plan = from_json(data, operators)
        recheck_gemm(plan)  # ahead of what follows of the kernel, which may be any numbers
        _require_what_follows(plan, data)
    return plan


def from_json(data: Any, operators: tuple[type[Operator], ...] = ()) -> GemmPlan:
    """Return the plan whose choice `to_json` wrote; nothing is checked here."""
    asked, on = operator_of(data["operator"], (*PRODUCTS, *operators)), target(data["target"])
    return GemmPlan(asked, on, value_of(ProductKernel, data["kernel"], "kernel"))


def _require_what_follows(plan: GemmPlan, data: Any) -> None:
    for name in FOLLOWS:
        if data[name] != json.loads(json.dumps(plain_value(getattr(plan, name)))):
            raise InvalidPlan(f"{name} is not what the kernel implies; synthesise the plan again")
    if data["derivation"] != plan._steps():
        raise InvalidPlan("derivation does not lead to the kernel; synthesise the plan again")

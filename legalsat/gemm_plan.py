"""`GemmPlan`: how a product is tiled, how its operands travel, how tiles are multiplied and sums become C."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from legalsat.gemm import Gemm
from legalsat.mma import Epilogue, Mma
from legalsat.operators import Copy, Operator
from legalsat.options import ProductBackend
from legalsat.pipeline import Pipeline
from legalsat.plan import PLAN_VERSION, Launch, Plan, plain_value, read_plan, reading, value_of, write_plan
from legalsat.plan import from_json as plan_from_json
from legalsat.printable import printable
from legalsat.product_kernel import ProductKernel
from legalsat.targets import Target, target
from legalsat.tensor import plain

if TYPE_CHECKING:
    from legalsat.runtime import Kernel

# Measured on an H200, one block alone (bench/gpu/results/latencies.json): 95 of 100 loads of a box are there by then.
LOAD_NANOSECONDS = 780


@dataclass(frozen=True, slots=True)
class GemmCost:
    """What a product is predicted to cost.

    Attributes:
        nanoseconds: of the whole: the next five, which run at once, the epilogues, the launch, and what runs before.
        compute: nanoseconds of the matrix unit, with tiles that overhang and waves that are not full.
        memory: of DRAM. load: of loads into shared memory. issue: of memory instructions.
        latency: of stages, none of which is full again sooner than a load takes.
        epilogue: of sums on their way to C, while nothing is multiplied.
        relayouts: nanoseconds of kernels that run before.
        padding_bytes: bytes of global memory for relayouts.
        shared_bytes: shared memory of a block.
    """

    nanoseconds: float
    compute: float
    memory: float
    load: float
    issue: float
    latency: float
    epilogue: float
    relayouts: float
    padding_bytes: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class GemmCandidate:
    """A tile along m, n and k, stages of the ring, blocks on a processor, and what they are predicted to cost."""

    tile: tuple[int, int, int]
    stages: int
    blocks: int
    cost: GemmCost


@dataclass(frozen=True, slots=True)
class GemmPlan:
    """A product with every field solved: one tile and one ring of stages for all operands.

    Attributes:
        operator: what was asked. target: the GPU.
        tile: elements along m, n and k. stages: stages of the ring that A and B share.
        blocks: blocks that fit on a processor. launch: warps of a block, those that keep sums first.
        registers: registers a thread of the warps that keep sums and of the others; empty to leave them as they are.
        a, b: the operands' movements to the matrix unit. c: the result's, from shared memory to global.
        mma: how tiles are multiplied; None where no matrix unit reads shared memory by itself.
        epilogue: how sums become C; None without `mma`.
        kernel: the persistent kernel that backend cute prints, chosen by itself; None where wgmma does not multiply.
        cost: what is predicted. candidates: the best tiles, this one first.
    """

    operator: Gemm
    target: Target
    tile: tuple[int, int, int]
    stages: int
    blocks: int
    launch: Launch
    registers: tuple[int, ...]
    a: Plan
    b: Plan
    c: Plan
    mma: Mma | None
    epilogue: Epilogue | None
    kernel: ProductKernel | None
    cost: GemmCost
    candidates: tuple[GemmCandidate, ...]

    @property
    def pipeline(self) -> Pipeline:
        """What a block does: roles, barriers, and the operations of each role in order.

        Raises:
            LegalSatError: operands that do not arrive by boxes, or no matrix unit that reads them.
        """
        from legalsat.extract.pipelines import product_pipeline  # noqa: PLC0415 - what builds pipelines needs plans

        return product_pipeline(self)

    def emit(self, backend: ProductBackend) -> str:
        """Return source text that needs LegalSAT no more: "cute", "ptx" or "triton"."""
        from legalsat.backends import emit  # noqa: PLC0415 - backends import plans

        return emit(self, backend)

    def compile(self, backend: ProductBackend | None = None) -> Kernel:
        """Return a kernel: `c = kernel(a, b)`, `kernel(a, b, out=c)`, with torch tensors or any DLPack arrays.

        A has shape (m, k) and B (n, k), each with the strides that were planned for; what the plan lays out anew is
        laid out by the call, once for all if B is constant.

        Args:
            backend: "cute", "ptx" or "triton"; the first that prints this plan and is installed when left out.

        Raises:
            LegalSatError: no backend prints this plan, or what compiles its text is missing. No GPU is needed for
                this; a call without one raises `legalsat.runtime.NoDriver`.
        """
        from legalsat.backends import compiled  # noqa: PLC0415 - backends import plans

        return compiled(self, backend)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        operands = {name: getattr(self, name).to_json() for name in "abc"}
        rest = ("tile", "stages", "blocks", "launch", "registers", "mma", "epilogue", "kernel", "cost", "candidates")
        return {
            "version": PLAN_VERSION,
            "subject": str(self.operator),
            "target": self.target.name,
            "scaled": self.operator.scaled,
            **{name: plain_value(getattr(self, name)) for name in rest},
            **operands,
        }

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON.

        Raises:
            LegalSatError: the target is no named one, so that another reader could not tell what was planned for.
        """
        write_plan(self.to_json(), self.target, path)

    @staticmethod
    def load(path: str | Path) -> GemmPlan:
        """Read a plan and check it again by the rules of this version.

        Raises:
            InvalidPlan: the file is no plan of a product, or the plan does not hold.
        """
        from legalsat.extract.recheck_gemm import recheck_gemm  # noqa: PLC0415 - checking needs the rules

        plan = from_json(read_plan(path, "GemmPlan.save"))
        recheck_gemm(plan)
        return plan

    def __str__(self) -> str:
        from legalsat.show_gemm import show_gemm_plan  # noqa: PLC0415 - showing needs plans

        return printable(show_gemm_plan(self))

    def _repr_html_(self) -> str:
        """Return the plan with pictures of its operands' maps for a notebook."""
        from legalsat.show_html import plan_html  # noqa: PLC0415 - showing needs plans

        return plan_html(self)


def from_json(data: Any) -> GemmPlan:
    """Return the plan that `GemmPlan.to_json` wrote; it is not checked against the rules here."""
    with reading(data):
        a, b, c = (plan_from_json(data[name]) for name in "abc")
        hints = get_type_hints(GemmPlan)
        solved = ("tile", "stages", "blocks", "launch", "registers", "mma", "epilogue", "kernel", "cost", "candidates")
        return GemmPlan(
            operator=_product(a.operator, b.operator, c.operator, scaled=value_of(bool, data["scaled"], "scaled")),
            target=target(data["target"]),
            a=a,
            b=b,
            c=c,
            **{name: value_of(hints[name], data[name], name) for name in solved},
        )


def _product(a: Operator, b: Operator, c: Operator, *, scaled: bool) -> Gemm:
    """Return the product whose operands these movements are."""
    (m, k), (n, _) = plain(a.source.shape), plain(b.source.shape)
    constant = isinstance(b, Copy) and b.constant
    sums = c.target.dtype
    tensors = {"a": a.source, "b": b.source, "c": c.target}
    return Gemm(m, n, k, a.source.dtype, out_dtype=sums, **tensors, constant_b=constant, scaled=scaled)

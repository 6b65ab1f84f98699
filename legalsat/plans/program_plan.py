"""`ProgramPlan`: what runs for a program, step after step, and where everything between inputs and results lies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from legalsat.dtypes import dtype
from legalsat.operators import MOVES, Operator
from legalsat.operators.program import Input, Made, Program, Result, program_of
from legalsat.plans.codec import PLAN_VERSION, InvalidPlan, plain_value, reading, tensor_of, value_of
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.gemm_plan import from_json as gemm_from_json
from legalsat.plans.movement_plan import MovementPlan
from legalsat.plans.movement_plan import from_json as movement_from_json
from legalsat.plans.plan import Cost, Plan
from legalsat.printable import printable
from legalsat.targets import target
from legalsat.tensor import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

StepPlan: TypeAlias = GemmPlan | MovementPlan


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of a program: an input, a result, or what lies between.

    Attributes:
        name: the input's, the result's, or one of its own.
        tensor: the matrix that fills it.
        kind: "input", "result" or "scratch".
    """

    name: str
    tensor: Tensor
    kind: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a step reads or writes: a buffer, bytes from its first element, and the matrix there."""

    buffer: str
    start: int
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """One kernel of a program, with a relayout of its own in front where its plan has one.

    Attributes:
        what: it makes, in words.
        reads, writes: where.
        plan: how.
        once: whether it runs at the first call alone, since all that it reads is constant.
        nanoseconds: that a call is predicted to take for it; 0 where it runs once.
    """

    what: str
    reads: tuple[Place, ...]
    writes: Place
    plan: StepPlan
    once: bool
    nanoseconds: float


@dataclass(frozen=True, slots=True)
class ProgramCost(Cost):
    """What a call of a program is predicted to cost.

    Attributes:
        nanoseconds: of all steps, one after another. steps: that run at every call. once: that run at the first.
        scratch_bytes: of memory between inputs and results, with what steps lay out anew.
    """

    steps: int
    once: int
    scratch_bytes: int


@dataclass(frozen=True, slots=True)
class Derived:
    """A law applied on the way to what runs: to which value of the program, which law, and what it gave, in words."""

    value: str
    law: str
    term: str


@dataclass(frozen=True)
class ProgramPlan(Plan):
    """A program with everything chosen: what runs, where all lies, and by which laws.

    Attributes:
        operator: what was asked.
        target: the GPU.
        buffers: all memory, inputs and results first.
        steps: what runs, in order.
        derivation: the laws that led from each value to what is computed for it.
        exact: whether every other way was ruled out; else the search ended at its limit.
    """

    operator: Program
    buffers: tuple[Buffer, ...]
    steps: tuple[ProgramStep, ...]
    derivation: tuple[Derived, ...]
    exact: bool

    @cached_property
    def cost(self) -> ProgramCost:
        """What a call is predicted to cost."""
        scratch = sum(-(-one.tensor.span_bits // 8) for one in self.buffers if one.kind == "scratch")
        once = sum(step.once for step in self.steps)
        return ProgramCost(
            round(sum(step.nanoseconds for step in self.steps), 1),
            len(self.steps) - once,
            once,
            scratch + sum(step.plan.cost.padding_bytes for step in self.steps),
        )

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of a name; raises `InvalidPlan` where there is none."""
        for one in self.buffers:
            if one.name == name:
                return one
        raise InvalidPlan(f"plan has no buffer {name}; synthesise it again")

    def run(self, *operands: NDArray[Any], seed: int = 0) -> tuple[NDArray[Any], ...]:
        """Return the results as the steps compute them, on numpy, without a GPU: float64 arrays.

        Products run as their kernels' programs do, in an order that the seed decides; passes move bytes as they mean.

        Args:
            operands: the inputs' elements, numbers that their types hold.
            seed: of the order.

        Raises:
            InvalidInput: the operands are others in number, in shape, or no numbers.
        """
        from legalsat.extract.composed.run import run  # noqa: PLC0415 - only tests and the curious run plans

        return run(self, operands, seed)

    def emit(self, backend: str = "cute") -> str:
        """Return one file of CUDA C++ that needs LegalSAT no more: all kernels, and `run`, which launches them in turn.

        Products on tcgen05 are in it in PTX, which the driver assembles at the first call.

        Raises:
            InvalidInput: another backend than "cute", which alone prints what launches several kernels.
            LegalSatError: it does not print a step, nor does "ptx"; the message says which.
        """
        from legalsat.backends import emit  # noqa: PLC0415 - backends import plans

        return emit(self, backend)

    def compile(self, backend: str | None = None) -> Any:
        """Return a `ProgramKernel`: `y = kernel(x, w)` with torch tensors or any DLPack arrays, inputs in order.

        Args:
            backend: "cute" or "triton", beside which "ptx" prints products that it does not; the first by which every
                step is printed when left out.

        Raises:
            LegalSatError: no backend prints every step, or what compiles the texts is missing. No GPU is needed for
                this; a call without one raises `legalsat.runtime.NoDriver`.
        """
        from legalsat.backends import compiled  # noqa: PLC0415 - backends import plans

        return compiled(self, backend)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        steps = [{**plain_value(_without_plan(one)), "plan": one.plan.to_json()} for one in self.steps]
        return {
            "version": PLAN_VERSION,
            "subject": str(self.operator),
            "target": self.target.name,
            "operator": plain_value(self.operator),
            "buffers": plain_value(self.buffers),
            "steps": steps,
            "derivation": plain_value(self.derivation),
            "exact": self.exact,
            "cost": plain_value(self.cost),
        }

    def __str__(self) -> str:
        from legalsat.view.show_program import show_program_plan  # noqa: PLC0415 - showing needs plans

        return printable(show_program_plan(self))


def _without_plan(step: ProgramStep) -> _Written:
    return _Written(step.what, step.reads, step.writes, step.once, step.nanoseconds)


@dataclass(frozen=True, slots=True)
class _Written:
    """A step but for its plan, as it is written to a file."""

    what: str
    reads: tuple[Place, ...]
    writes: Place
    once: bool
    nanoseconds: float


def read(data: Any, _operators: tuple[type[Operator], ...] = ()) -> ProgramPlan:
    """Return the plan that `to_json` wrote, checked again: every step, and that together they compute the program."""
    from legalsat.extract.composed.recheck import recheck_program  # noqa: PLC0415 - checking needs the rules

    plan = from_json(data)
    recheck_program(plan)
    return plan


def from_json(data: Any) -> ProgramPlan:
    """Return the plan that `to_json` wrote; it is not checked against the rules here."""
    with reading(data):
        asked = data["operator"]
        inputs = [
            Input(_text(one["name"]), tensor_of(one["tensor"]), value_of(bool, one["constant"], "constant"))
            for one in asked["inputs"]
        ]
        steps = [
            Made(
                _text(one["operator"]),
                value_of(tuple[int, ...], one["operands"], "operands"),
                value_of(tuple[int, ...], one["numbers"], "numbers"),
                value_of(tuple[int, int], one["shape"], "shape"),
                dtype(one["dtype"]),
            )
            for one in asked["steps"]
        ]
        results = [
            Result(_text(one["name"]), value_of(int, one["value"], "value"), tensor_of(one["tensor"]))
            for one in asked["results"]
        ]
        plan = ProgramPlan(
            program_of(inputs, steps, results),
            target(data["target"]),
            tuple(Buffer(_text(b["name"]), tensor_of(b["tensor"]), _text(b["kind"])) for b in data["buffers"]),
            tuple(map(_step, data["steps"])),
            tuple(value_of(Derived, one, "derivation") for one in data["derivation"]),
            value_of(bool, data["exact"], "exact"),
        )
        if data["cost"] != plain_value(plan.cost):
            raise InvalidPlan("cost is not what the steps imply; synthesise the plan again")
        return plan


def _step(data: Any) -> ProgramStep:
    of_product = "kernel" in data["plan"]
    plan = gemm_from_json(data["plan"]) if of_product else movement_from_json(data["plan"], MOVES)
    return ProgramStep(
        _text(data["what"]),
        tuple(map(_place, data["reads"])),
        _place(data["writes"]),
        plan,
        value_of(bool, data["once"], "once"),
        value_of(float, data["nanoseconds"], "nanoseconds"),
    )


def _place(data: Any) -> Place:
    return Place(_text(data["buffer"]), value_of(int, data["start"], "start"), tensor_of(data["tensor"]))


def _text(data: Any) -> str:
    found: str = value_of(str, data, "name")
    return found

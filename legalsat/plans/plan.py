"""`Plan`: what `synthesize` returns for any problem, and what plans of every kind share: a cost, a file, a notebook."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from legalsat import files
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.operators import MOVES, PRODUCT, PROGRAM, Operator
from legalsat.operators.gemm import Gemm
from legalsat.operators.grouped import GroupedGemm
from legalsat.operators.operator import MOVE
from legalsat.operators.program import Program
from legalsat.plans.codec import InvalidPlan, kind_of, read_plan, reading
from legalsat.targets import TARGETS, Target

OPERATORS: tuple[type[Operator], ...] = (*MOVES, Gemm, GroupedGemm, Program)  # whose plans are read back
# By the term of an operator, the module of its kind of plan, whose `read` makes one of plain values, checked again.
_KINDS = {
    MOVE: "legalsat.plans.movement_plan",
    PRODUCT: "legalsat.plans.gemm_plan",
    PROGRAM: "legalsat.plans.program_plan",
}


@dataclass(frozen=True, slots=True)
class Launch:
    """How the kernel is launched.

    Attributes:
        warps: warps of a block.
        programs: blocks of a grid that has not one a tile, as a persistent one; 0 for one a tile.
        grid: modes of which there are several tiles, and how many, in the order in which tiles are counted, fastest
            first. By im2col the first mode of pixels stands for all.

    In a plan with open dims, blocks and tiles are formulas of these.
    """

    warps: int
    programs: int
    grid: tuple[tuple[int, int], ...] = ()

    @property
    def tiles(self) -> Any:
        """Tiles that there are; a formula where extents are open."""
        return math.prod(count for _, count in self.grid)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a plan is predicted to cost; smaller is better.

    Attributes:
        nanoseconds: predicted time of the whole, of every kernel that it takes; kinds of plans say of what it consists.
    """

    nanoseconds: float


def require_dims(values: Iterable[str], known: Collection[str]) -> None:
    """Raise `InvalidInput` if a name to bind is none of a plan's dims."""
    for name in values:
        if name not in known:
            raise InvalidInput(f"plan has no dim {name}; bind {', '.join(known) or 'nothing'}")


@dataclass(frozen=True, slots=True)
class Plan:
    """A problem with every field solved: what is printed, costed, explained, proven and launched.

    A movement's is a `MovementPlan`, a product's a `GemmPlan`, that of several operators a `ProgramPlan`.

    Attributes:
        operator: what was asked.
        target: the GPU.
    """

    operator: Any
    target: Target

    @property
    def guard(self) -> str:
        """With dims, the exact set of their values that the plan is for, in isl's notation; empty without dims."""
        return ""

    if TYPE_CHECKING:  # what each kind has of its own, as a field or worked out

        @property
        def cost(self) -> Cost:
            """What is predicted."""

        @property
        def derivation(self) -> tuple[Any, ...]:
            """The laws that led from the problem to what runs, in order."""

        def emit(self, backend: Any) -> str:
            """Return source text that needs LegalSAT no more; each kind says which backends print it."""

        def compile(self, backend: Any = None) -> Any:
            """Return a kernel, to be called with torch tensors or any DLPack arrays."""

        def to_json(self) -> dict[str, Any]:
            """Return the plan as plain values."""

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON.

        Raises:
            LegalSatError: the plan's dims are open, or the target is no named one, so that another reader could not
                tell what was planned for.
        """
        if self.guard:
            raise LegalSatError("plan is open in its dims; bind them, then save that")
        if TARGETS.get(self.target.name) != self.target:
            raise LegalSatError(f"target {self.target} is not the one of that name in the tables; plan for a named one")
        files.write(path, json.dumps(self.to_json(), indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path, *, operators: tuple[type[Operator], ...] = ()) -> Self:
        """Read a plan of any kind, and check it again by the rules and laws of this version.

        Args:
            path: of the file.
            operators: classes of operators of your own that it may be a plan of; a file brings no code.

        Raises:
            InvalidPlan: the file is no plan, or of an operator that is neither ours nor among yours, or of another kind
                than this class; or the plan does not hold.
        """
        data = read_plan(path)
        with reading(data):
            kind = import_module(_KINDS[kind_of(data["operator"], (*OPERATORS, *operators)).term])
        plan = kind.read(data, operators)
        if not isinstance(plan, cls):
            raise InvalidPlan(f"{path} holds a {type(plan).__name__}; read it with {type(plan).__name__}.load")
        return plan

    def _repr_html_(self) -> str:
        """Return the plan with pictures for a notebook."""
        from legalsat.view.show_html import plan_html  # noqa: PLC0415 - showing needs plans

        return plan_html(self)

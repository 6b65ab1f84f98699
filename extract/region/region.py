"""Where a plan with symbolic extents is legal: the exact set of their values, in words, and what covers the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from legalsat.analyses.sentences import condition_of, sentence
from legalsat.analyses.sets.regions import IslSet, disjoint, domain, holds, most_aligned, pieces_of, read
from legalsat.checks import integer
from legalsat.diagnostics import Diagnostic
from legalsat.dims import Dim, typical_of
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.extract.search.planner import ONE_AT_A_TIME, Limits, NoLegalLayout
from legalsat.extract.search.planner import plan as plan_at
from legalsat.extract.search.structure import Structure, legal_values, open_dims, opened, structure_of
from legalsat.extract.solve.symbolic import structured_plan
from legalsat.operators import Move
from legalsat.operators.gemm import Gemm
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.movement_plan import MovementPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.targets import Target

if TYPE_CHECKING:
    from legalsat.extract.region.proof import Proof

MOST_OFFERS = 6
IN_VECTORS = ("cp.async", "threads")  # the means whose legality hangs on alignment alone, and so can be said of dims


@dataclass(frozen=True, slots=True)
class Specialisation:
    """Values of the dims that are served in one way.

    Attributes:
        set: the values, in isl's notation.
        sentence: the same in words.
        plan: the plan for them, open in its dims; None where there is none.
        kernel: of a product the one of the plan's kernels that is for them.
        note: where there is no plan, why and what to do, if that is known.
    """

    set: str
    sentence: str
    plan: Any
    kernel: ProductKernel | None = None
    note: str = ""

    def __str__(self) -> str:
        if self.plan is None:
            return f"no plan: {self.sentence}{f' ({self.note})' if self.note else ''}"
        return f"by {self.means}: {self.sentence}"

    @property
    def means(self) -> str:
        """By what the values are served."""
        if isinstance(self.plan, MovementPlan):
            return f"{self.plan.access.by}{''.join(f' in {copy.bytes} bytes' for copy in self.plan.copies[:1])}"
        return str(self.kernel or "no plan")


@dataclass(frozen=True, slots=True)
class LegalRegion:
    """Where a plan with symbolic extents is legal.

    The plan keeps its axes as they are and its boxes, swizzles and buffers whatever the dims; so a value outside the
    region may still have a plan of its own, which `Plan.bind` finds.

    Attributes:
        dims: the dims, by name.
        set: exactly those values that the dims declare for which the plan's tensor maps, load and store, break no
            rule, in isl's notation.
        sentence: the same in words, without what the dims declare: "K must be a multiple of 8".
        plan: the plan, a `Plan` or of a product a `GemmPlan`; None where no value is legal.
        family: this region and what is left of the values that the dims declare, each with its plan; no value is in
            two of them.
        diagnostics: where no value is legal, what the rules say of a sample.
        operator: what was asked.
        target: for which GPU.
        structure: what the plan's maps, load and store keep whatever the dims.
    """

    dims: tuple[Dim, ...]
    set: str
    sentence: str
    plan: Any
    family: tuple[Specialisation, ...]
    diagnostics: tuple[Diagnostic, ...]
    operator: Move | Gemm
    target: Target
    structure: Structure | None = field(repr=False)

    def holds(self, **values: int) -> bool:
        """Return whether these values of the dims are legal; those that the dims do not declare are not.

        Raises:
            InvalidInput: a dim has no value, a value names no dim, or one is no integer.
        """
        names = [dim.name for dim in self.dims]
        for name in {*names, *values}:
            if name not in names or name not in values:
                what = f"dim {name} has no value" if name in names else f"there is no dim {name}"
                raise InvalidInput(f"{what}; give a value for each of {', '.join(names)}")
        numbers = [integer(values[name], f"dim {name}", high=None) for name in names]
        with ONE_AT_A_TIME:
            region = pieces_of(self.set)
        return bool(holds(region, numbers))

    def prove(self, samples: int = 200, seed: int = 0) -> Proof:
        """Check the set: the plain rules at sampled values, and Z3 for all values.

        Args:
            samples: how many values to draw, near bounds and residues and anywhere, inside the set and outside.
            seed: of the draw.

        Raises:
            SolverGaveUp: Z3 ran out of time.
        """
        from legalsat.extract.region.proof import prove  # noqa: PLC0415 - a proof is of a region

        return prove(self, samples=samples, seed=seed)

    def __str__(self) -> str:
        lines = [f"{self.operator} on {self.target}: {self.sentence}", *map(str, self.diagnostics)]
        if self.plan is not None:
            lines += [f"  {one}" for one in self.family if one.plan is not self.plan or one.kernel is not None]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the region for a notebook."""
        from legalsat.view.show_html import region_html  # noqa: PLC0415 - showing needs regions

        return region_html(self)

    def to_json(self) -> dict[str, Any]:
        """Return the region as plain values; plans are left to `Plan.to_json`."""
        return {
            "dims": [asdict(dim) for dim in self.dims],
            "set": self.set,
            "sentence": self.sentence,
            "family": [
                {"set": one.set, "sentence": one.sentence, "planned": one.plan is not None} for one in self.family
            ],
            "diagnostics": [d.to_json() for d in self.diagnostics],
        }


@lru_cache(maxsize=256)  # islpy keeps some bytes of every operation: 10 KB in all
def legal_region(operator: Move, target: Target) -> LegalRegion:
    """Return where the plan of an operator with dims is legal; an empty region where no value is.

    Raises:
        InvalidInput: no isl set says for which values the plan is legal.
        NotAffine: a rule multiplies open numbers.
        SolverGaveUp: the solver ran out of time.
    """
    dims = open_dims(operator)
    with ONE_AT_A_TIME:
        try:
            plan, structure = structured_plan(operator, target)
        except NoLegalLayout as refusal:
            if isinstance(refusal.__cause__, LegalSatError):  # what the sample shows may not be so everywhere
                raise refusal.__cause__ from None
            codes = dict.fromkeys(d.code for d in refusal.diagnostics if d.level == "error")
            names = " and ".join(dim.name for dim in dims)
            words = f"no value of {names} is legal with the axes as they are ({', '.join(codes)})"
            whole = domain(dims)
            rest = family(dims, _offers(operator, target, whole))
            return LegalRegion(
                dims, str(whole.subtract(whole)), words, None, rest, refusal.diagnostics, operator, target, None
            )
        words = sentence(read(plan.guard), dims)
        left = domain(dims).subtract(read(plan.guard))
        covered = family(dims, [(plan.guard, plan), *_offers(operator, target, left)])
    return LegalRegion(dims, plan.guard, words, plan, covered, (), operator, target, structure)


def plan_in_vectors(operator: Move, target: Target) -> MovementPlan | None:
    """Return the plan by vectors of what no boxes move, for the values that dims usually have; None where none is."""
    try:
        region = legal_region(operator, target)
    except LegalSatError:
        return None
    usual = [typical_of(region.dims)[dim.name] for dim in region.dims]
    plans = [one for one in region.family if isinstance(one.plan, MovementPlan)]
    there = [one for one in plans if bool(holds(pieces_of(one.set), usual))]
    return next((one.plan for one in (*there, *plans)), None)


def _offers(operator: Move, target: Target, rest: IslSet) -> list[tuple[str, MovementPlan]]:
    """Return plans for what boxes leave: sets of values, and for each what moves its rows in the widest vectors.

    Values are tried from the most aligned ones on, so that every plan's vectors are as wide as its values allow.
    """
    dims = open_dims(operator)
    found: list[tuple[str, MovementPlan]] = []
    while len(found) < MOST_OFFERS and not rest.is_empty():
        values = dict(zip((dim.name for dim in dims), most_aligned(rest), strict=True))
        try:
            made = plan_at(operator.bind(values), target, Limits(means=IN_VECTORS, rewrite=False))
            structure = structure_of(
                operator, values, made.access, (), made.store, views=made.views, copies=made.copies
            )
            guard = legal_values(structure, target)
        except LegalSatError:
            break
        if rest.is_disjoint(guard):
            break
        found.append((str(guard), opened(made, structure, str(guard), target)))
        rest = rest.subtract(guard).coalesce()
    return found


def family(dims: Sequence[Dim], offers: Sequence[tuple[str, MovementPlan]]) -> tuple[Specialisation, ...]:
    """Return which offer serves which of the values that the dims declare, and last what none serves.

    Args:
        dims: the dims, by name.
        offers: sets of values in isl's notation with a plan for each, the cheapest first; a value goes to the first
            that has it, and an offer that is left without one is dropped.
    """
    parts, rest = disjoint(domain(dims), [read(text) for text, _ in offers])
    plans: list[MovementPlan | None] = [plan for _, plan in offers]
    return tuple(
        Specialisation(str(part.coalesce()), sentence(part, dims), plan)
        for part, plan in zip([*parts, rest], [*plans, None], strict=True)
        if not part.is_empty()
    )


def guard_in_words(plan: MovementPlan | GemmPlan) -> tuple[str, str]:
    """Return where a plan with dims is legal: in words, and as a condition in isl's notation."""
    with ONE_AT_A_TIME:
        region = read(plan.guard)
        dims = open_dims(plan.operator) if isinstance(plan, MovementPlan) else plan.operator.dims
        return sentence(region, dims), condition_of(region)

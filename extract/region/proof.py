"""Checks a legal region against the rules: the plain reading at sampled values, the Z3 reading at all values."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from legalsat.analyses.sets.regions import Span, corners, declared, domain, holds, pieces_of, read, spans
from legalsat.dims import Dim
from legalsat.errors import InvalidInput, SolverGaveUp
from legalsat.extract.region import open_products
from legalsat.extract.region.region import LegalRegion
from legalsat.extract.search.planner import AS_IT_IS, ONE_AT_A_TIME, NoLegalLayout, plan
from legalsat.extract.search.structure import Structure, name_of, products_of, requirements
from legalsat.logic import Condition, Value, all_of, any_of, implies, multiple_of, within
from legalsat.operators import Move
from legalsat.plans.gemm_plan import GemmPlan

TIMEOUT_MS = 10_000
MAX_REFUSALS = 16  # samples of an empty region: each takes a whole search for a plan
LARGEST_ALIGNMENT = 32  # bytes
TOO_LARGE = "too large"  # stands for a rule's code where a tensor has more bits than any can have


@dataclass(frozen=True, slots=True)
class Misjudged:
    """Values at which the set and the rules differ: whether the set has them, and the codes of the rules they break."""

    values: dict[str, int]
    inside: bool
    broken: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """What checking a region showed.

    Attributes:
        inside, outside: distinct samples in the region and in the rest of what the dims declare.
        misjudged: the samples at which the set and the plain rules differ.
        equivalent: whether Z3 found the set and the rules equivalent for all values; None where there is no plan
            whose rules could be compared.
        counterexample: values at which Z3 found them to differ.
    """

    inside: int
    outside: int
    misjudged: tuple[Misjudged, ...]
    equivalent: bool | None
    counterexample: dict[str, int] | None

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against the region."""
        return not self.misjudged and self.equivalent is not False

    def __str__(self) -> str:
        sampled = f"{self.inside} samples inside and {self.outside} outside"
        if self.misjudged:
            first = self.misjudged[0]
            broken = f"break {', '.join(first.broken)}" if first.broken else "break no rule"
            place = "inside" if first.inside else "outside"
            where = f"{_written(first.values)} is {place}, and its maps {broken}"
            return f"{len(self.misjudged)} of {sampled} are misjudged: {where}"
        if self.counterexample is not None:
            return f"{sampled} agree with the rules, but Z3 finds that {_written(self.counterexample)} does not"
        return f"{sampled} agree with the rules" + "; Z3 finds no value at which they differ" * bool(self.equivalent)


def prove(region: LegalRegion, *, samples: int = 200, seed: int = 0) -> Proof:
    """Return what checking a region shows; see `LegalRegion.prove`."""
    with ONE_AT_A_TIME:
        structure = region.structure
        drawn = _draw(region, samples if region.plan else min(samples, MAX_REFUSALS), random.Random(seed))
        pieces = pieces_of(region.set)
        inside = outside = 0
        wrong = []
        for values in drawn:
            there = bool(holds(pieces, list(values.values())))
            broken = _broken(region, values)
            inside, outside = inside + there, outside + (not there)
            if there == bool(broken):
                wrong.append(Misjudged(values, there, broken))
        found = _differs(region, structure) if structure else None
        return Proof(inside, outside, tuple(wrong), None if structure is None else found is None, found)


def _written(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _broken(region: LegalRegion, values: dict[str, int]) -> tuple[str, ...]:
    """Return the codes of the rules that the plan breaks at these values; without a plan, those that forbid one."""
    if region.structure is not None:
        found = requirements(region.structure, values, region.target)
        return tuple(dict.fromkeys(code for code, condition in found if not condition))
    if isinstance(region.plan, GemmPlan):
        return _broken_product(region.plan, values)
    assert isinstance(region.operator, Move)
    try:
        plan(region.operator.bind(values), region.target, AS_IT_IS)
    except NoLegalLayout as refusal:
        return tuple(dict.fromkeys(d.code for d in refusal.diagnostics))
    except InvalidInput:
        return (TOO_LARGE,)
    return ()


def _broken_product(plan: GemmPlan, values: dict[str, int]) -> tuple[str, ...]:
    """Return what the kernels of a product ask for that does not hold; nothing where one of them computes it."""
    first: tuple[str, ...] = ()
    for one in plan.choices:
        asked = open_products.requirements(plan.operator, one.kernel, values, plan.target)
        broken = tuple(dict.fromkeys(code for code, condition in asked if not condition))
        if not broken:
            return ()
        first = first or broken
    return first


def _draw(region: LegalRegion, samples: int, rng: random.Random) -> list[dict[str, int]]:
    """Return distinct values that the dims declare: corners, then values inside, beside them, and anywhere."""
    dims, whole = region.dims, domain(region.dims)
    legal = whole.intersect(read(region.set))
    rest = whole.subtract(legal)
    inner, outer = (() if part.is_empty() else spans(part) for part in (legal, rest))
    found = dict.fromkeys(point for part in (legal, rest) for point in corners(part))
    for box in (inner, outer):
        ends = itertools.product(*((span.low, span.high) for span in box))
        found |= dict.fromkeys(itertools.islice(ends, samples // 4) if box else ())
    for _ in range(4 * samples):  # some are drawn twice
        if len(found) >= samples:
            break
        within_one = rng.choice([s for s in (inner, inner, outer) if s] or [spans(whole)])
        point = [_one_of(s, rng) for s in within_one]
        if rng.random() < 0.5:  # beside it in one dim
            at = rng.randrange(len(dims))
            point[at] += rng.choice((-1, 1)) * rng.choice((1, 1, 2, 4, 8, within_one[at].step, dims[at].multiple_of))
        found[tuple(_nearest(dim, value) for dim, value in zip(dims, point, strict=True))] = None
    return [dict(zip((d.name for d in dims), point, strict=True)) for point in list(found)[:samples]]


def _one_of(span: Span, rng: random.Random) -> int:
    """Draw a value of a span: one of its ends or one near them, or one of any magnitude."""
    count = (span.high - span.low) // span.step
    far = int(2 ** rng.uniform(0, math.log2(count + 1))) - 1
    steps = rng.choice((0, count, min(1, count), max(count - 1, 0), far, far, far, count - far))
    return span.low + steps * span.step


def _nearest(dim: Dim, value: int) -> int:
    """Return a value that the dim declares, at most one step of it away where `value` is in its range."""
    return max(dim.smallest, min(value, dim.max) // dim.multiple_of * dim.multiple_of)


def _differs(region: LegalRegion, structure: Structure) -> dict[str, int] | None:
    """Return values at which the set and the rules' Z3 reading differ; None where Z3 shows that there are none.

    Raises:
        SolverGaveUp: Z3 ran out of time, or too little is known of products of dims.
    """
    from legalsat.extract.solve.z3_logic import counterexample, variable  # noqa: PLC0415 - samples need no Z3

    products = products_of(structure)
    numbers = {name: variable(name) for name in (*(d.name for d in region.dims), *map(name_of, products))}
    inside = holds(pieces_of(region.set), [numbers[dim.name] for dim in region.dims])
    rules = all_of(*(condition for _, condition in requirements(structure, numbers, region.target)))
    known = all_of(declared(region.dims, numbers), *_facts(structure, products, numbers))
    claim = all_of(implies(inside, declared(region.dims, numbers)), implies(known, _same(inside, rules)))
    try:
        found = counterexample(claim, numbers, timeout_ms=TIMEOUT_MS)
    except TimeoutError:
        raise SolverGaveUp(f"Z3 gave no proof within {TIMEOUT_MS} ms; bind some of the dims") from None
    if found is None:
        return None
    values = {dim.name: found[dim.name] for dim in region.dims}
    # What is known of products may be less than what they are, so that the values need not be wrong themselves.
    if products and bool(holds(pieces_of(region.set), list(values.values()))) != bool(_broken(region, values)):
        raise SolverGaveUp(
            f"Z3 knows too little of products of dims to judge {_written(values)}; bind some of the dims"
        )
    return values


def _same(one: Condition, other: Condition) -> Condition:
    return all_of(implies(one, other), implies(other, one))


def _facts(
    structure: Structure, products: Sequence[tuple[Dim, ...]], numbers: Mapping[str, Value]
) -> Iterator[Condition]:
    """State of each product of dims what is so whatever they are, since products are beyond what Z3 surely decides.

    Those are its bounds and, as far as alignments ask, how often two divides it: as often as its factors together.
    """
    bits = 8 * LARGEST_ALIGNMENT
    most = (bits // math.gcd(bits, structure.operator.source.dtype.bits)).bit_length() - 1
    for product in products:
        whole, one, other = (numbers[name_of(p)] for p in (product, product[:-1], product[-1:]))
        yield within(math.prod(d.smallest for d in product), whole, math.prod(d.max for d in product))
        for twos in range(1, most + 1):
            shares = (all_of(multiple_of(one, 2**i), multiple_of(other, 2 ** (twos - i))) for i in range(twos + 1))
            yield _same(multiple_of(whole, 2**twos), any_of(*shares))

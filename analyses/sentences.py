"""One English sentence for a set of values of dims, that says what the set is beyond what the dims declare.

The words are built from conditions, and the conditions are put together again and compared with the set, so that a
sentence is exact; a set that the words below do not reach is stated in isl's own notation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from legalsat.analyses.sets.isl_logic import parameters
from legalsat.analyses.sets.regions import (
    IslSet,
    Linear,
    domain,
    modulus,
    one_dim,
    parts_of,
    pieces,
    read,
    set_where,
    span,
)
from legalsat.dims import Dim
from legalsat.logic import Condition, any_of

MAX_PIECES = 12
USUAL_MOST = 2**32  # of dims that declare nothing
MAX_MODULUS = 512
MAX_LISTED = 4
NAMED_POWER = 13  # 2^13 and more are written as powers


@dataclass(frozen=True, slots=True, eq=False)
class _Clause:
    """One condition and its words: those after "K must", or for several dims all of them (`dim` is None).

    `isl` says that the words are in isl's notation.
    """

    holds: IslSet
    words: str
    dim: str | None = None
    isl: bool = False


def sentence(region: IslSet, dims: Sequence[Dim]) -> str:
    """Return what a set of the dims' values demands: "K must be a multiple of 8 and below 2^31".

    "any value" for all that the dims declare, "no value" for nothing.
    """
    whole = domain(dims)
    if region.is_empty():
        return "no value"
    if whole.is_subset(region):
        return "any value"
    for parts in ([region], parts_of(region), parts_of(region.coalesce()), parts_of(region.make_disjoint())):
        found = _union(parts, region, whole, dims)
        if found is not None:
            return _said(found)
    return _spoken(_needed(_clauses(region, whole, dims), region, whole), "; ")


def whole_guard(text: str, dims: Sequence[Dim]) -> str:
    """Return what values in a set, given in isl's notation, must be, with what the dims declare."""
    region = read(text)
    return sentence(region, [Dim(dim.name, max=max(dim.max, USUAL_MOST)) for dim in dims])


def condition_of(region: IslSet) -> str:
    """Return the condition in isl's notation, without the list of parameters."""
    text = str(region)
    _, found, condition = text.partition("{ [] : ")
    return condition.removesuffix(" }") if found else text


def _names(dims: Sequence[Dim]) -> str:
    return _list([dim.name for dim in dims])


def _list(words: Sequence[object], conjunction: str = "and") -> str:
    *first, last = map(str, words)
    return f"{', '.join(first)} {conjunction} {last}" if first else last


def _union(parts: Sequence[IslSet], region: IslSet, whole: IslSet, dims: Sequence[Dim]) -> list[list[_Clause]] | None:
    """Return clauses for each part, as few as say it; None where there are no English words for one."""
    if len(parts) > MAX_PIECES:
        return None
    found: list[list[_Clause]] = []
    for part in parts:
        clauses = _needed(_clauses(part, whole, dims), region, whole)
        if any(clause.isl for clause in clauses):
            return None
        found.append(clauses)
    for clauses in list(found):
        others = [c for c in found if c is not clauses]
        if others and region.is_subset(_joined(others, whole)):
            found = others
    return found if _joined(found, whole).is_equal(region) else None


def _joined(found: Sequence[Sequence[_Clause]], whole: IslSet) -> IslSet:
    first, *others = (_met(clauses, whole) for clauses in found)
    for other in others:
        first = first.union(other)
    return first


def _met(clauses: Sequence[_Clause], whole: IslSet) -> IslSet:
    for clause in clauses:
        whole = whole.intersect(clause.holds)
    return whole


def _needed(clauses: list[_Clause], region: IslSet, whole: IslSet) -> list[_Clause]:
    """Drop clauses while what is left stays in the region: the region is a union, so parts may grow into others."""
    for clause in reversed(clauses):
        others = [c for c in clauses if c is not clause]
        if others and _met(others, whole).is_subset(region):
            clauses = others
    return clauses


def _clauses(part: IslSet, whole: IslSet, dims: Sequence[Dim]) -> list[_Clause]:
    """Return conditions that give the part within the whole: of each dim, then of several."""
    names = [dim.name for dim in dims]
    found = [c for i in range(len(dims)) for c in _of_one(one_dim(part, i), names, i, one_dim(whole, i))]
    hull = _met(found, whole)
    if hull.is_subset(part):
        return found
    rest = part.gist(hull)
    coupled = pieces(rest)
    if len(coupled) != 1 or coupled[0].quotients:
        return [*found, _Clause(rest, f"{_names(dims)} must satisfy {condition_of(rest)}", isl=True)]
    numbers = list(parameters(names).values())
    return [
        *found,
        *(_Clause(set_where(f.at(numbers) == 0, names), _compared(f, names, "must be")) for f in coupled[0].zero),
        *(
            _Clause(set_where(f.at(numbers) >= 0, names), _compared(f, names, "must be at least"))
            for f in coupled[0].natural
        ),
    ]


def _of_one(values: IslSet, names: Sequence[str], position: int, declared: IslSet) -> list[_Clause]:
    """Return conditions on one dim, a congruence and bounds; they give its values where these words can."""
    name = names[position]
    number = parameters(names)[name]

    def clause(condition: Condition, words: str) -> _Clause:
        return _Clause(set_where(condition, names), words, name)

    def met(clauses: Sequence[_Clause]) -> IslSet:
        found = declared
        for c in clauses:
            found = found.intersect(one_dim(c.holds, position))
        return found

    def exact(clauses: Sequence[_Clause]) -> bool:
        return bool(met(clauses).is_equal(values))

    low, high, step, offset = span(values)
    if low == high:
        return [clause(number == low, f"be {low}")]
    bounds = [
        clause(number >= low, f"be {_least(low, step)}"),
        clause(number <= high, f"be {_most(high, step)}"),
    ]
    for divisor in (d for d in range(1, MAX_MODULUS + 1) if step % d == 0):
        congruent = clause((number - offset) % divisor == 0, _residue(offset % divisor, divisor))
        if exact([congruent, *bounds]):
            return [congruent, *bounds]
    congruent = clause((number - offset) % step == 0, _residue(offset, step))
    period = modulus(values)
    if period > MAX_MODULUS or exact([congruent, *bounds]):
        return [congruent, *bounds]
    left = [r for r in range(period) if not values.is_disjoint(met([clause(number % period == r, "")]))]
    for divisor in (d for d in range(2, period + 1) if period % d == 0):
        there = sorted({r % divisor for r in left})
        if len(there) < divisor:
            among = clause(any_of(*(number % divisor == r for r in there)), _residues(there, divisor))
            if exact([among, *bounds]):
                return [among, *bounds]
    return [congruent, *bounds]


def _residue(residue: int, divisor: int) -> str:
    if divisor == 2:
        return "be odd" if residue else "be even"
    return f"leave {residue} when divided by {divisor}" if residue else f"be a multiple of {divisor}"


def _residues(there: Sequence[int], divisor: int) -> str:
    """Say which remainders may be left."""
    if len(there) == 1:
        return _residue(there[0], divisor)
    absent = [r for r in range(divisor) if r not in there]
    if absent == [0]:
        return f"be no multiple of {divisor}"
    if len(there) > MAX_LISTED and there[-1] - there[0] == len(there) - 1:
        return f"leave {there[0]} to {there[-1]} when divided by {divisor}"
    if len(absent) < len(there):
        return f"leave {'anything but' if len(absent) == 1 else 'none of'} {_list(absent)} when divided by {divisor}"
    return f"leave {_list(there, 'or')} when divided by {divisor}"


def _power(low: int, high: int) -> int | None:
    """Return the exponent of a power of two from `low` to `high` that is worth writing as one."""
    exponent = max(NAMED_POWER, (low - 1).bit_length())
    return exponent if 2**exponent <= high else None


def _most(high: int, step: int) -> str:
    """Say a largest value; any bound up to the next value, which is a step away, says the same."""
    for words, low, top in (("at most", high, high + step - 1), ("below", high + step, high + step)):
        exponent = _power(low, top)
        if exponent is not None:
            return f"{words} 2^{exponent}"
    return f"at most {high}"


def _least(low: int, step: int) -> str:
    for words, bottom, top in (("at least", low - step + 1, low), ("above", low - step, low - step)):
        exponent = _power(max(bottom, 1), top)
        if exponent is not None:
            return f"{words} 2^{exponent}"
    return f"at least {low}"


def _compared(form: Linear, names: Sequence[str], words: str) -> str:
    """Say that a sum is 0, or 0 or more: what is subtracted stands on the right."""
    left, right = ([(abs(c), n) for c, n in zip(form.coefficients, names, strict=True) if c * s > 0] for s in (1, -1))
    if not left:  # nothing but subtractions: -M - K + 100 >= 0
        words = {"must be at least": "must be at most"}.get(words, words)
        return f"{_sum(right, 0)} {words} {_sum([], form.constant)}"
    plus, minus = max(form.constant, 0), max(-form.constant, 0)
    return f"{_sum(left, plus if right else 0)} {words} {_sum(right, minus if right else -form.constant)}"


def _sum(terms: Sequence[tuple[int, str]], constant: int) -> str:
    written = [name if factor == 1 else f"{factor}*{name}" for factor, name in terms]
    return " + ".join(written + [str(constant)] * (constant != 0 or not terms))


def _said(parts: Sequence[Sequence[_Clause]]) -> str:
    """Say what all parts have in common, then each part on its own."""
    words = [{(c.dim, c.words) for c in clauses} for clauses in parts]
    common = set.intersection(*words)
    if len(parts) == 1 or common in words:
        return ", or ".join(_spoken(clauses, "; ") for clauses in parts)
    own = sorted((_spoken([c for c in p if (c.dim, c.words) not in common], " and ") for p in parts), key=len)
    first = _spoken([c for c in parts[0] if (c.dim, c.words) in common], "; ")
    return f"{first}; either {', or '.join(own)}" if first else ", or ".join(own)


def _spoken(clauses: Sequence[_Clause], between: str) -> str:
    """Put the words together, what is said of one dim side by side."""
    by_dim: dict[str, list[str]] = {}
    said = []
    for clause in clauses:
        if clause.dim is None:
            said.append(clause.words)
        else:
            by_dim.setdefault(clause.dim, []).append(clause.words)
    said = [f"{name} must {_must(words)}" for name, words in by_dim.items()] + said
    return between.join(said)


def _must(words: Sequence[str]) -> str:
    """Join "be a multiple of 8" and "be at most 80" to "be a multiple of 8 and at most 80"."""
    first, *rest = words
    verb = first.split()[0]
    if verb == "be":
        rest = [w.removeprefix("be ") for w in rest]
        return f"{', '.join([first, *rest[:-1]])} and {rest[-1]}" if rest else first
    return f"{first} and {_must(rest)}" if rest else first

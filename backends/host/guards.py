"""Which extents an open plan takes, as host code asks it: sets of isl's as conditions of C++ and of Python."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from legalsat.dims import Dim
from legalsat.errors import LegalSatError
from legalsat.plans.movement_plan import MovementPlan

if TYPE_CHECKING:
    from legalsat.analyses.sets.regions import Linear

_KEYWORDS = """alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const
    constexpr continue decltype default delete do double else enum explicit export extern false float for friend goto
    if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
    register requires return short signed sizeof static std struct switch template this throw true try typedef typeid
    typename union unsigned using virtual void volatile wchar_t while xor xor_eq"""
KEYWORDS = frozenset(_KEYWORDS.split())
"""Of C++, which Python allows as names."""
DOWN = """\
// A quotient, rounded down.
@std::int64_t down(std::int64_t number, std::int64_t divisor) {
    return number / divisor - (number % divisor < 0);
}

"""


@dataclass(frozen=True, slots=True)
class Guard:
    """What a plan asks of its dims.

    Attributes:
        dims: that are open, in the order of parameters; none where the plan is closed, which takes what it is for.
        set: of their values, in isl's notation. sentence: the same in words.
    """

    dims: tuple[Dim, ...] = ()
    set: str = ""
    sentence: str = ""

    @property
    def names(self) -> str:
        """The dims as they are passed on."""
        return ", ".join(dim.name for dim in self.dims)


def guard_of(plan: MovementPlan, taken: Collection[str]) -> Guard:
    """Return what a movement's plan asks of its dims.

    Raises:
        LegalSatError: a dim's name is `taken`, or the plan holds for its sample alone.
    """
    if not plan.guard:
        return Guard()
    from legalsat.analyses.sentences import whole_guard  # noqa: PLC0415 - closed plans need no isl
    from legalsat.extract.search.structure import open_dims, require_counted  # noqa: PLC0415

    require_counted(plan)
    dims = open_dims(plan.operator)
    require_free(dims, taken)
    return Guard(dims, plan.guard, whole_guard(plan.guard, dims))


@dataclass(frozen=True, slots=True)
class _Words:
    """How a language says it."""

    number: str
    quotient: str
    both: str
    either: str
    returned: str
    no: str
    yes: str


_CPP = _Words(
    "{}ll", "std::int64_t const {} = down({}, {});", " && ", " || ", "if ({}) return {};", "return false;", "true"
)
_PYTHON = _Words("{}", "{} = ({}) // {}", " and ", " or ", "if {}:\n    return {}", "return False", "True")


def down(kind: str = "") -> list[str]:
    """Return the function that the conditions of C++ divide by, `kind` being what stands in front: "static inline"."""
    return DOWN.replace("@", f"{kind} " if kind else "").splitlines()


def set_lines(dims: Sequence[Dim], values: str) -> list[str]:
    """Return C++, the body of a function that says whether numbers, named as the dims, are in a set of isl's."""
    return list(_lines(dims, values, _CPP))


def python_set_lines(dims: Sequence[Dim], values: str) -> list[str]:
    """Return the same in Python."""
    return "\n".join(_lines(dims, values, _PYTHON)).splitlines()


def _lines(dims: Sequence[Dim], values: str, words: _Words) -> Iterator[str]:
    from legalsat.analyses.sets.regions import pieces_of  # noqa: PLC0415 - closed programs need no isl

    names = [dim.name for dim in dims]
    # What the dims declare comes first: within it no sum below leaves 64 bits.
    for dim in dims:
        outside = words.either.join((f"{dim.name} < {dim.min}", f"{dim.name} > {dim.max}"))
        yield words.returned.format(outside, words.no.removeprefix("return ").removesuffix(";"))
    for number, piece in enumerate(pieces_of(values)):
        known = list(names)
        for at, (numerator, divisor) in enumerate(piece.quotients):
            yield words.quotient.format(f"q{number}_{at}", _sum(numerator, known, words), divisor)
            known.append(f"q{number}_{at}")
        told = [f"{_sum(one, known, words)} == 0" for one in piece.zero]
        told += [f"{_sum(one, known, words)} >= 0" for one in piece.natural]
        yield words.returned.format(words.both.join(told) or words.yes, words.yes)
    yield words.no


def _sum(form: Linear, names: Sequence[str], words: _Words) -> str:
    terms = [
        {1: name, -1: f"-{name}"}.get(factor, f"{words.number.format(factor)} * {name}")
        for factor, name in zip(form.coefficients, names, strict=False)
        if factor
    ]
    constant = [words.number.format(form.constant)] if form.constant or not terms else []
    return " + ".join([*terms, *constant]).replace("+ -", "- ")


def require_free(dims: Sequence[Dim], taken: Collection[str]) -> None:
    """Raise `LegalSatError` where a dim bears one of a file's own names, the words of its language among them."""
    for dim in dims:
        name = dim.name
        if name in taken or not name.isascii() or re.fullmatch(r"q\d+_\d+", name):
            raise LegalSatError(f"dim {name} bears a name that the file gives to something else; call it M or the like")

"""Exact isl relations of strided modes: what they touch, and whether twice.

Modes are pairs (extent, stride), where the stride is an int, or a tuple with one for each side that moves. Extents are
ints or, where affine, parameters (a `Dim`, or a number times one); a parameter times a coordinate is not affine.
Units are the caller's own.

Truths are bools where all is known, else sets of parameters within the ranges of the dims. isl stops after
`MAX_OPERATIONS`, some seconds, and `TooHard` is raised. isl has one context for the process and is not safe for
threads, so whoever calls from several lets in one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import islpy as isl

from legalsat.analyses.sets.isl_logic import IslTruth, NotAffine
from legalsat.checks import integer
from legalsat.dims import Dim, Extent, Scaled, as_extent, dims_of
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.logic import Condition, negate

MAX_OPERATIONS = 500_000

Vector: TypeAlias = tuple[int, ...]
Modes: TypeAlias = Sequence[tuple[Extent, int | Vector]]
Steps: TypeAlias = list[tuple[Extent, Vector]]
"""Modes that `checked` has seen."""
Progression: TypeAlias = tuple[int, Vector]
"""A mode in plain numbers."""


class TooHard(LegalSatError):
    """A question about strided modes was given up within its limit; the message says which. Merge modes first."""


@contextmanager
def limited(question: str) -> Iterator[None]:
    """Stop isl after `MAX_OPERATIONS` in this block, and raise `TooHard` naming the question. Does not nest."""
    context = isl.DEFAULT_CONTEXT
    context.reset_operations()
    context.set_max_operations(MAX_OPERATIONS)
    try:
        yield
    except isl.Error:
        if not _spent():
            raise
        raise TooHard(f"{question} takes isl more than {MAX_OPERATIONS} operations; merge modes first") from None
    finally:
        context.set_max_operations(0)
        context.reset_operations()


def _spent() -> bool:
    """Whether isl has no operations left. Its message need not say so: an unfinished parse is called a syntax error."""
    try:
        isl.Set("{ [x] : 0 <= x <= 1 }")
    except isl.Error:
        return True
    return False


class _Texts:
    """Makes isl sets and maps from text; the dims are written p0, p1, ... since a dim may be called `mod` or `c0`."""

    def __init__(self, steps: Steps) -> None:
        self.dims = dims_of(*(extent for extent, _ in steps))
        names = [f"p{i}" for i in range(len(self.dims))]
        self._prefix = f"[{', '.join(names)}] -> "
        self._ranges = [
            f"{d.min} <= {p} <= {d.max} and {p} mod {d.multiple_of} = 0" for p, d in zip(names, self.dims, strict=True)
        ]

    def extent(self, extent: Extent) -> str:
        """Return an extent as isl reads it."""
        if isinstance(extent, int):
            return str(extent)
        factor, dims = (extent.coefficient, extent.dims) if isinstance(extent, Scaled) else (1, (extent,))
        if len(dims) > 1:
            raise NotAffine(f"extent {extent} multiplies open extents, which isl cannot express; bind all but one")
        return f"{factor} p{self.dims.index(dims[0])}"

    def make(self, kind: Any, body: str, *conditions: str) -> Any:
        """Return the isl.Set or isl.Map of `body` where the conditions hold, for every value of the dims."""
        made = kind(f"{self._prefix}{{ {body} : {' and '.join(['0 = 0', *self._ranges, *conditions])} }}")
        for i, dim in enumerate(self.dims):
            made = made.set_dim_name(isl.dim_type.param, i, dim.name)
        return made

    def truth(self, points: Any) -> Condition:
        """States that there are such points."""
        return IslTruth(points.params().from_params().coalesce()) if self.dims else not points.is_empty()


def checked(modes: Modes, sides: int | None = None) -> Steps:
    """Return the modes, of so many sides, with strides as tuples, or raise `InvalidInput` or `NotAffine`."""
    found: Steps = []
    for extent, given in modes:
        strides = given if isinstance(given, tuple) else (given,)
        for stride in strides:
            if isinstance(stride, Dim | Scaled):
                raise NotAffine(f"stride {stride} is open; isl cannot express it times a coordinate; bind it")
        vector = tuple(integer(stride, "stride of a mode") for stride in strides)
        found.append((as_extent(extent, "extent of a mode", low=1), vector))
        if not vector or len(vector) != (sides or len(found[0][1])):
            raise InvalidInput(
                f"a mode has {len(vector)} strides; give {sides or 'every mode the same number, 1 or more'}"
            )
    return found


def _sum(names: Sequence[str], steps: Steps, side: int) -> str:
    return " + ".join(["0", *(f"{stride[side]} * {name}" for name, (_, stride) in zip(names, steps, strict=True))])


def _sides(steps: Steps) -> range:
    return range(len(steps[0][1]) if steps else 1)


def _sums(names: Sequence[str], steps: Steps) -> str:
    return ", ".join(_sum(names, steps, side) for side in _sides(steps))


def offsets(modes: Modes) -> Any:
    """Return the isl map from coordinates, one for each mode, to offsets, one for each side."""
    steps = checked(modes)
    texts, names = _Texts(steps), [f"c{i}" for i in range(len(steps))]
    inside = (f"0 <= {name} < {texts.extent(extent)}" for name, (extent, _) in zip(names, steps, strict=True))
    return texts.make(isl.Map, f"[{', '.join(names)}] -> [{_sums(names, steps)}]", *inside)


def footprint(modes: Modes) -> Any:
    """Return the isl set of the offsets touched."""
    return offsets(modes).range()


def injective(modes: Modes) -> Condition:
    """States that no two coordinates have the same offsets on all sides."""
    steps = checked(modes)
    if _nested(steps):
        return True
    texts, names = _Texts(steps), [f"e{i}" for i in range(len(steps))]
    bounds = [(name, texts.extent(extent)) for name, (extent, _) in zip(names, steps, strict=True)]
    within = [f"0 - {end} < {name} < {end}" for name, end in bounds]
    equal = [f"{_sum(names, steps, side)} = 0" for side in _sides(steps)]
    # Two coordinates that meet differ by some e, in one order or the other, so that e begins with a positive number.
    begins = [" and ".join([*(f"{before} = 0" for before in names[:i]), f"{e} > 0"]) for i, e in enumerate(names)]
    with limited("the injectivity of modes"):
        twice = texts.make(isl.Set, f"[{', '.join(names)}]", *within, *equal, f"(({') or ('.join(begins)}))")
        meets = texts.truth(twice)
        return negate(meets) & texts.truth(texts.make(isl.Set, "[]")) if texts.dims else negate(meets)


def _nested(steps: Steps) -> bool:
    """Whether on some side each stride exceeds what all smaller ones span, which makes modes surely injective."""
    return any(
        _spaced([(extent, abs(strides[side])) for extent, strides in steps if extent != 1]) for side in _sides(steps)
    )


def _spaced(pairs: list[tuple[Extent, int]]) -> bool:
    span = 0
    for extent, stride in sorted(pairs, key=lambda pair: pair[1]):
        if stride <= span or not isinstance(extent, int):
            return False
        span += (extent - 1) * stride
    return True

"""Whether a relation of where groups begin (b) and end (e) gives each all that lies between, and nothing twice."""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl


def faults(theirs: str, coordinates: str, extent: int, most: int) -> Iterator[str]:
    """Yield in words what is not so of all groups within an extent; nothing where all of it is.

    Args:
        theirs: a relation in isl's notation, of b and e, from what a kernel does to the elements that it does it to.
        coordinates: another, from boxes to their coordinates.
        extent: of what groups lie in, in elements.
        most: the greatest coordinate.
    """
    groups = isl.Set(f"[b, e] -> {{ : 0 <= b <= e <= {extent} }}")
    relation = isl.Map(theirs).intersect_params(groups)
    between = isl.Set("[b, e] -> { [x] : b <= x < e }").intersect_params(groups)
    if not relation.range().is_equal(between):
        yield "a group gets what is its, and nothing else"
    if not relation.is_injective():
        yield "nothing is taken twice"
    fit = isl.Set(f"[b, e] -> {{ [c] : 0 <= c <= {most} }}")
    if not isl.Map(coordinates).intersect_params(groups).range().is_subset(fit):
        yield f"no coordinate is negative, or above {most}"


def reaches(theirs: str, begin: int, end: int, elements: set[int]) -> bool:
    """Return whether a relation gives a group these elements, and no other."""
    this = isl.Set(f"[b, e] -> {{ : b = {begin} and e = {end} }}")
    points = "; ".join(f"[{one}]" for one in sorted(elements)) or "[x] : 1 = 0"
    given = isl.Set(f"[b, e] -> {{ {points} }}").intersect_params(this)
    return bool(isl.Map(theirs).intersect_params(this).range().is_equal(given))

"""Repairs of movements: layouts, tiles and parts that are legal, each applied, planned again and timed.

Layouts come first, those that move the fewest bytes first of each kind. Where even memory that suits any copy engine
is refused, the layout is not at fault, and other tiles or parts of the tensor are tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from legalsat.diagnostics import Diagnostic
from legalsat.errors import LegalSatError
from legalsat.explanation import Repair, Snippet
from legalsat.extract.planner import BOXES, Limits, cached_plan
from legalsat.extract.planner import plan as plan_with
from legalsat.extract.tensor_changes import (
    Change,
    Tries,
    no_tile,
    other_readers,
    other_tiles,
    parts_of,
    wider_fronts,
)
from legalsat.extract.tensor_layouts import (
    aligned,
    bytes_added,
    longer_pitches,
    may_suit,
    packed,
    reordered,
    row_major_of,
)
from legalsat.operators import Copy, Im2col, Operator, Transpose, dense_like, padded
from legalsat.plan import Plan
from legalsat.rules.windows import COLUMNS
from legalsat.snippets import layout_snippets, plan_text, relayout_snippets
from legalsat.targets import Target
from legalsat.tensor import Tensor, plain

FALL_BACK = "fall back"
NO_SUCH_TYPE = {"WGMMA001", "TILE001"}  # what a matrix unit does not multiply, in any layout
TOO_LARGE = {"TMA001", "TMA002", "TMA006", "TMA028"}  # a rank, extent or stride, of which parts have less
MADE = {"align": "aligned", "pad": "padded", "dense": "packed", "order": "reordered"}
# What changes the least first; predictions of the fastest few are no further apart than they are off themselves.
_DISRUPTION = {
    "align": 0,
    "tile": 0,
    "padding": 0,
    "pad": 1,
    "dense": 1,
    "order": 2,
    "major": 2,
    "split": 2,
    "relayout": 3,
}
_ALIKE = 1.1


def boxes_of(operator: Operator) -> tuple[str, ...]:
    """Return the means by which boxes of a map bring tiles: those of windows may be columns of pixels."""
    return (*BOXES, COLUMNS) if isinstance(operator, Im2col) else BOXES


@lru_cache(maxsize=512)
def boxed(operator: Operator, target: Target) -> Plan | None:
    """Return the plan by boxes of a tensor map, None where there is none; remembered."""
    try:
        return cached_plan(operator, target, boxes_of(operator))
    except LegalSatError:
        return None


def with_source(operator: Operator, tensor: Tensor) -> Operator:
    """Return the operator on another layout of its source.

    What it writes stays where it is, but for a copy's target that is the one it gets when none is named.
    """
    if isinstance(operator, Transpose):
        return Transpose(tensor, operator.order, operator.target, tile=operator.tile)
    if isinstance(operator, Copy) and operator.target == dense_like(operator.source):
        return replace(operator, source=tensor, target=dense_like(tensor))
    return replace(operator, source=tensor)


@lru_cache(maxsize=1024)
def copy_nanoseconds(source: Tensor, after: Tensor, target: Target) -> float | None:
    """Return the predicted time of a copy from one layout to another by threads, None if no plan does it.

    Its axes stay as they are, so that it is found at once; `synthesize(Copy(source, after), target)` may be faster.
    """
    try:
        return plan_with(Copy(source, after), target, Limits(means=("threads",), rewrite=False)).cost.nanoseconds
    except LegalSatError:
        pass
    try:  # such as elements at a base that is no multiple of their size, which go in halves
        return cached_plan(Copy(source, after), target).cost.nanoseconds
    except LegalSatError:
        return None


def repairs(
    operator: Operator,
    target: Target,
    as_it_is: Plan | None,
    diagnostics: Iterable[Diagnostic] = (),
) -> tuple[Repair, ...]:
    """Return changes that make an illegal operator legal, the cheapest first; what changes nothing stands last.

    Those that are predicted to take a tenth longer than the fastest at most count as equal, and what changes the least
    comes first.

    Args:
        operator: what boxes of a tensor map cannot do; without dims.
        target: the GPU.
        as_it_is: the best plan by other means, None if there is none.
        diagnostics: why it is refused.
    """
    if target.tma is None:
        return ()
    codes = {d.code for d in diagnostics}
    readable = NO_SUCH_TYPE.isdisjoint(codes)
    found = list(_layout_repairs(operator, target)) if readable else []
    if not found:
        groups = ((other_tiles, wider_fronts, parts_of), (no_tile,)) if readable else ((other_readers,),)
        found = list(_other_repairs(operator, target, groups))
    elif not TOO_LARGE.isdisjoint(codes):
        found += _tried(parts_of(operator, target), operator, operator.source, target)
    found = ranked([*found, *_each_time(ranked(found), operator, target)])
    if as_it_is is not None:
        found.append(_fall_back(operator, as_it_is, found[0].nanoseconds if found else None))
    return tuple(found)


def ranked(found: Iterable[Repair]) -> list[Repair]:
    """Return repairs with a predicted time, cheapest first, those that are about as fast by what they change."""
    rows = list(found)
    alike = _ALIKE * min((r.nanoseconds or 0.0 for r in rows), default=0.0)
    return sorted(
        rows, key=lambda r: (max(r.nanoseconds or 0.0, alike), _DISRUPTION.get(r.kind, 1), r.bytes_added, r.once)
    )


def _layout_repairs(operator: Operator, target: Target) -> Iterator[Repair]:
    source, tile = operator.source, _tile_of(operator)
    suited = (with_source(operator, padded(one)) for one in (source, row_major_of(source)))
    if all(boxed(one, target) is None for one in suited):
        return
    seen = {source}
    for group in (aligned, longer_pitches, packed, reordered):
        for kind, message, tensor in group(source):
            after = with_source(operator, tensor)
            plan = boxed(after, target) if tensor not in seen and may_suit(tensor, tile) else None
            seen.add(tensor)
            once = None if plan is None else copy_nanoseconds(source, tensor, target)
            if plan is None or once is None:
                continue
            yield Repair(
                kind,
                message,
                after,
                bytes_added(source, tensor),
                plan.cost.nanoseconds,
                once,
                layout_snippets(tensor, MADE[kind], tile),
            )
            if kind == "align":
                return  # the strides are not at fault
            break


def _tile_of(operator: Operator) -> tuple[int, ...] | None:
    return operator.tile if isinstance(operator, Copy | Transpose) else None


def _each_time(found: list[Repair], operator: Operator, target: Target) -> Iterator[Repair]:
    """Yield the repair that leaves the tensor as it is and copies it to the best layout before each use."""
    best = next((r for r in found if r.kind in MADE), None)
    if best is None:
        return
    after: Tensor = best.after.source
    yield Repair(
        "relayout",
        f"leave the tensor as it is, and copy it to strides {plain(after.strides)} before each use",
        best.after,
        -(-after.span_bits // 8),
        round((best.nanoseconds or 0.0) + best.once, 1),
        0.0,
        relayout_snippets(operator.source, after, target.name),
    )


def _fall_back(operator: Operator, plan: Plan, best: float | None) -> Repair:
    """Return what changes nothing: other means move it as it is, so many times slower than the first repair."""
    how = "it is laid out anew each time" if plan.before else f"it goes by {plan.access.by}"
    time = plan.cost.nanoseconds
    slower = "" if best is None else f", {_times(time / best)}"
    snippets = (Snippet("legalsat", plan_text(operator, plan.target.name)),)
    return Repair(FALL_BACK, f"change nothing: {how}{slower}", operator, 0, time, 0.0, snippets)


def _times(ratio: float) -> str:
    return f"which takes {ratio:.2f} times as long as repair 1" if ratio >= 1.02 else "which is no slower"


def _other_repairs(operator: Operator, target: Target, tries: tuple[tuple[Tries, ...], ...]) -> Iterator[Repair]:
    """Yield what helps where the layout alone is not at fault, first alone, then with a layout that suits any box."""
    source = operator.source
    layouts = list(dict.fromkeys((source, padded(source), padded(row_major_of(source)))))
    for groups in tries:
        for layout in layouts:
            on_it = with_source(operator, layout)
            found = [one for group in groups for one in _tried(group(on_it, target), operator, layout, target)]
            yield from found
            if found:
                return


def _tried(changes: Iterable[Change], operator: Operator, layout: Tensor, target: Target) -> list[Repair]:
    """Return the first change that is legal, of an operator whose source was copied to a layout if that differs."""
    source, moved = operator.source, layout != operator.source
    also = f", and copy the tensor to strides {plain(layout.strides)}" if moved else ""
    snippets = layout_snippets(layout, "padded", None)[:1] if moved else ()
    for change in changes:
        plan = boxed(change.after, target) if may_suit(change.after.source, _tile_of(change.after)) else None
        once = copy_nanoseconds(source, layout, target) if moved else 0.0
        if plan is not None and once is not None:
            time = round(plan.cost.nanoseconds * change.parts, 1)
            text = (*snippets, *change.snippets)
            return [
                Repair(change.kind, change.message + also, change.after, bytes_added(source, layout), time, once, text)
            ]
    return []

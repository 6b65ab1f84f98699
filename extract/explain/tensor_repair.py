"""Repairs of movements: layouts, views, tiles and parts that are legal, each applied, judged again and timed.

Layouts come first, those that move the fewest bytes first of each kind. Where even memory that suits any copy engine
is refused, the layout is not at fault, and other tiles or parts of the tensor are tried. What is offered stands in the
order of one total: the time of applying it and of so many uses; what changes nothing has its place among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice

from legalsat.diagnostics import Diagnostic
from legalsat.errors import LegalSatError
from legalsat.explanation import BOXED, FALL_BACK, USES, Repair, Snippet, with_total
from legalsat.extract.explain.tensor_changes import (
    Change,
    Tries,
    no_tile,
    other_readers,
    other_tiles,
    parts_of,
    rounded_tile,
    wider_fronts,
)
from legalsat.extract.explain.tensor_layouts import (
    aligned,
    bytes_added,
    longer_pitches,
    may_suit,
    packed,
    reordered,
    row_major_of,
    row_pitches,
    said_of_pitches,
)
from legalsat.extract.explain.tensor_views import Viewed, views_of_tensor
from legalsat.extract.search.planner import BOXES, Limits, cached_plan
from legalsat.extract.search.planner import plan as plan_with
from legalsat.extract.search.rows import axes_of, of_rows, row_errors, settled
from legalsat.operators import Copy, Move, dense_like, padded
from legalsat.plans.movement_plan import MovementPlan
from legalsat.rules.windows import COLUMNS
from legalsat.targets import Target
from legalsat.tensor import Tensor, plain
from legalsat.view.snippets import layout_snippets, plan_text, relayout_snippets, view_snippets

NO_SUCH_TYPE = {"WGMMA001", "TILE001"}  # what a matrix unit does not multiply, in any layout
TOO_LARGE = {"TMA001", "TMA002", "TMA006", "TMA028"}  # a rank, extent or stride, of which parts have less
MADE = {"align": "aligned", "pad": "padded", "dense": "packed", "order": "reordered"}
# Of what takes the same time, what changes the least first.
_DISRUPTION = {
    FALL_BACK: 0,
    "stride": 1,
    "align": 1,
    "tile": 1,
    "padding": 1,
    "view": 2,
    "pad": 2,
    "dense": 2,
    "order": 3,
    "major": 3,
    "split": 3,
    "relayout": 4,
}


def boxes_of(operator: Move) -> tuple[str, ...]:
    """Return the means by which boxes of a map bring tiles: those of windows may be columns of pixels."""
    return (*BOXES, COLUMNS) if operator.sweeps else BOXES


@lru_cache(maxsize=512)
def boxed(operator: Move, target: Target) -> MovementPlan | None:
    """Return the plan by boxes of a tensor map, None where there is none; remembered."""
    try:
        return cached_plan(operator, target, boxes_of(operator))
    except LegalSatError:
        return None


def mended(operator: Move, target: Target) -> MovementPlan | None:
    """Return the plan of an operator that is legal, None of any other: a copy is judged by the rows of its source."""
    if not operator.by_rows:
        return boxed(operator, target)
    if row_errors(operator, target):
        return None
    plan = boxed(operator, target)
    return plan if plan is not None or not of_rows(operator) else as_it_is(operator, target)


def as_it_is(operator: Move, target: Target) -> MovementPlan | None:
    """Return how an operator is done by whatever means; None where none will do."""
    try:
        return cached_plan(operator, target)
    except LegalSatError:
        return None


def with_source(operator: Move, tensor: Tensor) -> Move:
    """Return the operator on another layout of its source.

    What it writes stays where it is, but for a copy's target that is the one it gets when none is named.
    """
    if operator.by_rows and operator.target == dense_like(operator.source):
        return operator.but(source=tensor, target=dense_like(tensor))
    return operator.but(source=tensor)


@lru_cache(maxsize=1024)
def copy_nanoseconds(source: Tensor, after: Tensor, target: Target) -> float | None:
    """Return the predicted time of a copy from one layout to another by threads, None if no plan does it.

    What a stride of 0 repeats in both is copied once. Its axes stay as they are, so that it is found at once;
    `synthesize(Copy(source, after), target)` may be faster.
    """
    rows = zip(plain(source.shape), plain(source.strides), plain(after.strides), strict=True)
    shape = [1 if old == new == 0 else n for n, old, new in rows]
    source, after = (Tensor(shape, one.dtype, one.strides, one.align, one.offset) for one in (source, after))
    try:
        return plan_with(Copy(source, after), target, Limits(means=("threads",), rewrite=False)).cost.nanoseconds
    except LegalSatError:
        pass
    try:  # such as elements at a base that is no multiple of their size, which go in halves
        return cached_plan(Copy(source, after), target).cost.nanoseconds
    except LegalSatError:
        return None


def repairs(
    operator: Move,
    target: Target,
    unchanged: MovementPlan | None,
    diagnostics: Iterable[Diagnostic] = (),
    uses: int = USES,
) -> tuple[Repair, ...]:
    """Return changes that make an illegal operator legal, and what changes nothing, those with the least total first.

    Args:
        operator: what is refused; without dims.
        target: the GPU.
        unchanged: the best plan of it as it is, None if there is none.
        diagnostics: why it is refused.
        uses: how often what was repaired is used.
    """
    if target.tma is None:
        return ()
    codes = {d.code for d in diagnostics}
    readable = NO_SUCH_TYPE.isdisjoint(codes)
    found = list(_layout_repairs(operator, target)) if readable else []
    kinds = {repair.kind for repair in found}
    if readable and "align" not in kinds:
        found += [repair for repair in _rounded(operator, target) if repair.kind not in kinds]
    if not found:
        groups = ((other_tiles, wider_fronts, parts_of), (no_tile,)) if readable else ((other_readers,),)
        found = list(_other_repairs(operator, target, groups))
    elif not TOO_LARGE.isdisjoint(codes):
        found += _tried(parts_of(operator, target), operator, operator.source, target)
    found = ranked(found, uses, unchanged)
    found += _each_time(found, operator, target)
    if unchanged is not None:
        found.append(_fall_back(operator, unchanged))
    return tuple(ranked(found, uses, unchanged))


def unit_repair(operator: Move, target: Target, plan: MovementPlan | None, uses: int = USES) -> tuple[Repair, ...]:
    """Return the repair of a legal copy of which a framework may hand on a stride that the driver refuses."""
    after = settled(operator.source, target)
    mended_one = with_source(operator, after)
    made = mended(mended_one, target) if after != operator.source and plan is not None else None
    if made is None:
        return ()
    old, new, size = plain(operator.source.strides), plain(after.strides), after.dtype.bits
    words = [
        f"axis {axis} a stride of {steps[1] * size // 8} bytes (now {steps[0] * size / 8:g})"
        for axis, steps in enumerate(zip(old, new, strict=True))
        if steps[0] != steps[1]
    ]
    message = f"give {' and '.join(words)}, which moves nothing"
    one = Repair(
        "stride",
        message,
        mended_one,
        0,
        made.cost.nanoseconds,
        0.0,
        view_snippets(operator.source, after, None),
    )
    return (with_total(one, uses),)


def ranked(found: Iterable[Repair], uses: int = USES, unchanged: MovementPlan | float | None = None) -> list[Repair]:
    """Return repairs with their totals, the least first; of equal ones what changes the least.

    Args:
        found: repairs with a predicted time.
        uses: how often what was repaired is used.
        unchanged: what is done if nothing changes, or its time in nanoseconds; None if nothing can be.
    """
    now = unchanged.cost.nanoseconds if isinstance(unchanged, MovementPlan) else unchanged
    rows = [with_total(repair, uses, now) for repair in found]
    return sorted(rows, key=lambda r: (r.total or 0.0, _DISRUPTION.get(r.kind, 2), r.bytes_added, r.once))


def _layout_repairs(operator: Move, target: Target) -> Iterator[Repair]:
    """Yield of each kind the legal layout that adds the fewest bytes; where a better base is enough, that alone."""
    source, tile, rows = operator.source, operator.axis_tile, operator.by_rows
    if rows:
        yield from _viewed(operator, target)
    else:
        suited = (with_source(operator, padded(one)) for one in (source, row_major_of(source)))
        if all(boxed(one, target) is None for one in suited):
            return
    seen, offered = {source}, set[Tensor]()
    inner = next(iter(axes_of(source, tile)), None)
    pitches = partial(row_pitches, inner=inner) if rows else longer_pitches
    for group in (aligned, pitches, packed, reordered):
        for kind, message, tensor in sorted(group(source), key=lambda one: bytes_added(source, one[2])):
            lies = settled(tensor, target) if rows else tensor
            if lies in offered:
                break  # what is offered already adds no more bytes
            after = with_source(operator, lies)
            plan = mended(after, target) if lies not in seen and (rows or may_suit(lies, tile)) else None
            seen.add(lies)
            once = None if plan is None else copy_nanoseconds(source, lies, target)
            if plan is None or once is None:
                continue
            offered.add(lies)
            yield Repair(
                kind,
                message.format(strides=plain(lies.strides)),
                after,
                bytes_added(source, lies),
                plan.cost.nanoseconds,
                once,
                layout_snippets(lies, MADE[kind], tile),
            )
            if kind == "align":
                return  # the strides are not at fault
            break


def _viewed(operator: Move, target: Target) -> Iterator[Repair]:
    """Yield the view with fewer axes that is legal as it lies, or else with pitches that add the fewest bytes."""
    source = operator.source
    if operator.target != dense_like(source):
        return  # what it is copied to would have to be viewed as well
    tried: list[tuple[int, bool, int, Viewed, Tensor]] = []
    for view in views_of_tensor(source, operator.tile):
        for one in (view.tensor, *(lies for group in (aligned, row_pitches) for _, _, lies in group(view.tensor))):
            viewed = settled(one, target)
            laid = _laid(source, view, viewed)
            tried.append((bytes_added(source, laid), viewed.strides != view.tensor.strides, len(tried), view, viewed))
    offered = (_view_repair(operator, view, viewed, target) for *_, view, viewed in sorted(tried, key=lambda t: t[:3]))
    yield from islice((one for one in offered if one is not None), 1)


def _laid(source: Tensor, view: Viewed, viewed: Tensor) -> Tensor:
    """Return a tensor, before the view, where the view of it lies as `viewed`."""
    strides = view.strides_of(viewed, source)
    return Tensor(source.shape, source.dtype, strides, viewed.align, viewed.offset)


def _view_repair(operator: Move, view: Viewed, viewed: Tensor, target: Target) -> Repair | None:
    """Return the repair that sees a copy's source with other axes, laid out with other pitches if these differ."""
    source = operator.source
    after = operator.but(source=viewed, target=dense_like(viewed), tile=view.tile)
    plan = mended(after, target)
    if plan is None:
        return None
    laid = _laid(source, view, viewed)
    moved = viewed.address != source.address or bool(said_of_pitches(source, laid))
    once = copy_nanoseconds(source, laid, target) if moved else 0.0
    if once is None:
        return None
    added = bytes_added(source, laid)
    tile = "" if view.tile is None else f", in tiles of {' x '.join(map(str, view.tile))}"
    pitches = said_of_pitches(source, laid)
    how = [f"pad {pitches}, adding {added} bytes"] if pitches else []
    if viewed.address != source.address:
        how.append(f"copy the tensor to an allocation aligned to {viewed.align} bytes")
    pad = f"{', '.join(how)}, and " if how else ""
    snippets = view_snippets(laid, viewed, "padded" if moved else None)
    return Repair("view", f"{pad}{view.words}{tile}", after, added, plan.cost.nanoseconds, once, snippets)


def _rounded(operator: Move, target: Target) -> Iterator[Repair]:
    """Yield the tile whose rows are rounded up to whole granules, alone or with the least layout that it needs."""
    for change in rounded_tile(operator, target):
        plan = mended(change.after, target)
        if plan is not None:
            yield Repair(change.kind, change.message, change.after, 0, plan.cost.nanoseconds, 0.0, change.snippets)
            return
        for one in _layout_repairs(change.after, target):
            if one.kind == "order":  # rows along another axis, which need no such box
                continue
            snippets = (*one.snippets, *change.snippets[-1:])
            yield replace(one, message=f"{one.message}, and {change.message}", snippets=snippets)


def _each_time(found: list[Repair], operator: Move, target: Target) -> Iterator[Repair]:
    """Yield the repair that leaves the tensor as it is and copies it to the best layout before each use."""
    best = next((r for r in found if r.kind in MADE), None)
    if best is None or isinstance(best.after, Tensor) or not hasattr(best.after, "source"):
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


def _fall_back(operator: Move, plan: MovementPlan) -> Repair:
    """Return what changes nothing: other means move it as it is, or boxes of another view of the same elements."""
    if plan.before:
        how = "it is laid out anew each time"
    elif plan.access.by in BOXED:
        how = "boxes of another view move it"
    else:
        how = f"it goes by {plan.access.by}"
    snippets = (Snippet("legalsat", plan_text(operator, plan.target.name)),)
    return Repair(FALL_BACK, f"change nothing: {how}", operator, 0, plan.cost.nanoseconds, 0.0, snippets)


def _other_repairs(operator: Move, target: Target, tries: tuple[tuple[Tries, ...], ...]) -> Iterator[Repair]:
    """Yield what helps where the layout alone is not at fault, first alone, then with a layout that suits any box."""
    source = operator.source
    layouts = list(dict.fromkeys((source, *_suiting(operator, target))))
    for groups in tries:
        for layout in layouts:
            on_it = with_source(operator, layout)
            found = [one for group in groups for one in _tried(group(on_it, target), operator, layout, target)]
            yield from found
            if found:
                return


def _suiting(operator: Move, target: Target) -> Iterator[Tensor]:
    """Yield layouts that suit any box: with the shortest pitches that do, then dense but for its rows."""
    source = operator.source
    if operator.by_rows:
        yield from (settled(tensor, target) for _, _, tensor in row_pitches(source))
    yield padded(source)
    yield padded(row_major_of(source))


def _tried(changes: Iterable[Change], operator: Move, layout: Tensor, target: Target) -> list[Repair]:
    """Return the first change that is legal, of an operator whose source was copied to a layout if that differs."""
    source, moved = operator.source, layout != operator.source
    also = f", and copy the tensor to strides {plain(layout.strides)}" if moved else ""
    snippets = layout_snippets(layout, "padded", None)[:1] if moved else ()
    for change in changes:
        tried = change.after.by_rows or may_suit(change.after.source, change.after.axis_tile)
        plan = mended(change.after, target) if tried else None
        once = copy_nanoseconds(source, layout, target) if moved else 0.0
        if plan is not None and once is not None:
            time = round(plan.cost.nanoseconds * change.parts, 1)
            text = (*snippets, *change.snippets)
            return [
                Repair(change.kind, change.message + also, change.after, bytes_added(source, layout), time, once, text)
            ]
    return []

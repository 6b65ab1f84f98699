"""Delivery in phases: rows a few apart share a tensor map, whose pitch is legal where that of the rows is not.

Rows n, n + r, n + 2r, ... of a matrix whose pitch is p bytes lie r p apart. With r = 16 / gcd(16, p) that is legal, and
r maps bring all rows. Where rows do not start at a multiple of 16 bytes their map starts at the granule before, so that
they arrive behind a shift of a few elements, which threads undo when they read them. A slice whose base lies inside a
granule is one phase, or several, that are all shifted so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from legalsat.extract.check.fields import check_map, judge_movement
from legalsat.extract.cost.cost import Work, cost_of
from legalsat.extract.explain.recorded import open_number
from legalsat.extract.search.by_vectors import SIZES, STORE, access_site, check_vector, judged_bytes
from legalsat.extract.search.delivery import Delivered, Question
from legalsat.extract.search.schedule import ALIGNMENT, block_bytes, box_tiles
from legalsat.extract.solve.fields import Conflict
from legalsat.extract.solve.fields import solve as solve_fields
from legalsat.extract.solve.requirements import Wanted
from legalsat.logic import round_up
from legalsat.operators.access import Access
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.movement_plan import MovementCost, MovementPlan, Phase, SharedTile, VectorCopy, View
from legalsat.rules import SHARED_RULES, VECTOR_RULES
from legalsat.targets import GRANULE_BYTES
from legalsat.tensor import Tensor
from legalsat.units.sites import SharedStages
from legalsat.units.tensor_map import TensorMap

_GRANULE = 8 * GRANULE_BYTES


@dataclass(frozen=True, slots=True)
class Split:
    """How rows are shared out: `phases` of them, along dimension `at` of the view, `shift` bits from granules."""

    at: int
    phases: int
    shift: int


def split_of(view: View, word: int, end: Tensor) -> Split | None:
    """Return how the rows of a tensor are shared out; None if they need not be, or cannot.

    Boxes begin at granules of the phases' rows, so tiles must too, if there are several along a row.
    """
    if view.tile[0] < view.extent[0] and view.tile[0] * word % _GRANULE:
        return None
    wild = [i for i in range(1, len(view.extent)) if view.extent[i] > 1 and view.stride[i] % _GRANULE]
    shift = 8 * end.address % _GRANULE
    if view.stride[0] != word or word % 8 or _GRANULE % word or shift % word or end.align % GRANULE_BYTES:
        return None
    if len(view.extent) < 2 or len(wild) > 1 or not (wild or shift):
        return None
    at = wild[0] if wild else len(view.extent) - 1
    phases = _GRANULE // math.gcd(_GRANULE, view.stride[at]) if wild else 1
    whole = view.stride[at] % word == 0 and view.tile[at] % phases == 0 and view.extent[at] >= phases
    return Split(at, phases, shift) if whole else None


def phase_view(view: View, split: Split, word: int) -> View:
    """Return what the maps of all phases see at most: every phases-th row, begun up to a granule early.

    A phase's rows take a multiple of what boxes must start at, so that the phases' rows can follow one another.
    """
    at, phases, margin = split.at, split.phases, _GRANULE // word
    extent, stride, tile = list(view.extent), list(view.stride), list(view.tile)
    extent[at] = -(-extent[at] // phases)
    stride[at] *= phases
    tile[at] //= phases
    extent[0] += margin
    step = ALIGNMENT // math.gcd(ALIGNMENT, GRANULE_BYTES * math.prod(tile[1:])) * margin
    tile[0] = round_up(round_up(tile[0], margin) + margin, step)
    return replace(view, extent=tuple(extent), stride=tuple(stride), tile=tuple(tile))


def phase_maps(
    view: View, split: Split, word: int, solved: TensorMap
) -> tuple[tuple[Phase, ...], tuple[TensorMap, ...]]:
    """Return every phase and its map, whose box and swizzle are those of `solved`."""
    found = []
    for number in range(split.phases):
        start = split.shift + number * view.stride[split.at]  # from the granule in which the tensor begins
        begin = start // _GRANULE * _GRANULE
        shift = (start - begin) // word
        extent = list(solved.global_dim)
        extent[0] = view.extent[0] + shift
        extent[split.at] = -(-(view.extent[split.at] - number) // split.phases)
        phase = Phase((begin - split.shift) // 8, shift * word // 8)
        found.append((phase, replace(solved, global_dim=tuple(extent))))
    return tuple(phase for phase, _ in found), tuple(tm for _, tm in found)


def phase_tile(access: Access, view: View, split: Split, solved: TensorMap) -> SharedTile:
    """Return the buffer: the phases' rows one after another."""
    (tile,) = box_tiles(access, (phase_view(view, split, access.word),), "threads", (solved,), 1)
    shape = (split.phases, *tile.shape)
    return replace(tile, shape=shape, boxes=split.phases * tile.boxes, bytes=split.phases * tile.bytes)


def bound(question: Question) -> MovementCost:
    """Return a cost that no solution is below: one box a phase, and vectors of a granule."""
    load, _ = question.views
    split = split_of(load, question.access.word, question.operator.source)
    phases = 1 if split is None else split.phases
    vectors = math.ceil(question.tile_bytes / (GRANULE_BYTES * question.target.lanes))
    work = Work(times=question.times, boxes=phases, instructions=2 * vectors, store_factor=question.store_factor)
    return cost_of(question.access, question.views, work, question.target)


def solve(question: Question) -> Delivered | Conflict:
    """Return the fields of the phases' maps, which differ in extent and base alone; or what forbids them."""
    access, operator, target = question.access, question.operator, question.target
    load, store = question.views
    broken = question.judged(row_bytes=GRANULE_BYTES, shifted=True) or judged_bytes(operator, target, load, store)
    if broken:
        return Conflict(broken)
    split = split_of(load, access.word, operator.source)
    seen = load if split is None else phase_view(load, split, access.word)
    outcome = solve_fields(
        access,
        (seen,),
        operator.source.dtype,
        (operator.source.address if split is None else operator.source.align,),
        target,
        threads_read=True,
        turned=False,
        max_stages=1,
        deadline=question.deadline,
    )
    if isinstance(outcome, Conflict) or split is None:
        return outcome if isinstance(outcome, Conflict) else Conflict(())
    wanted = Wanted(target)
    size = open_number("store")
    wanted.judge(VECTOR_RULES, access_site(store, access.word, STORE, size, operator.target.address))
    choices = {"store": SIZES}
    found = wanted.optimum(choices, 0 - size, question.deadline)
    if found is None:
        plainest = access_site(store, access.word, STORE, access.word // 8, operator.target.address)
        return Conflict(lambda: wanted.said_of(wanted.codes(choices, question.deadline), plainest))
    (solved,) = outcome.tensor_maps
    phases, maps = phase_maps(load, split, access.word, solved)
    shared = (phase_tile(access, load, split, solved),)
    buffer = SharedStages(1, shared[0].bytes, 0)
    if broken := tuple(diagnostic for rule in SHARED_RULES for diagnostic in rule.check(buffer, target)):
        return Conflict(broken)
    read = math.gcd(GRANULE_BYTES, *(phase.shift for phase in phases))  # bytes that threads can read at a time
    work = Work(
        times=question.times,
        boxes=shared[0].boxes,
        instructions=sum(math.ceil(question.tile_bytes / (b * target.lanes)) for b in (read, found["store"])),
        conflicts=outcome.conflicts,
        store_factor=question.store_factor,
        shared_bytes=block_bytes(shared),
    )
    return Delivered(
        access=access,
        views=question.views,
        tensor_maps=maps,
        copies=(VectorCopy("target", STORE, found["store"]),),
        phases=phases,
        store="threads",
        shared=shared,
        stages=1,
        cost=cost_of(access, question.views, work, target),
    )


def check(plan: MovementPlan, _question: Question) -> None:
    """Check a plan whose maps bring every few rows each."""
    load, store = plan.views
    judge_movement(plan, row_bytes=1, shifted=True)
    split = split_of(load, plan.access.word, plan.source)
    if split is None or not plan.tensor_maps:
        raise InvalidPlan("rows cannot be shared out to phases; synthesise the plan again")
    seen = phase_view(load, split, plan.access.word)
    first = replace(plan.tensor_maps[0], global_dim=seen.extent)
    if (plan.phases, plan.tensor_maps) != phase_maps(load, split, plan.access.word, first):
        raise InvalidPlan("phases are not those of the rows' pitch; synthesise the plan again")
    for tm in plan.tensor_maps:
        check_map(plan, replace(seen, extent=tm.global_dim), replace(plan.source, offset=0), tm)
    check_vector(plan, store, plan.copies, STORE)
    if plan.shared != (phase_tile(plan.access, load, split, first),):
        raise InvalidPlan("shared buffers are not those that the boxes fill; synthesise the plan again")

"""Delivery in vectors: by threads, asynchronous copies, bulk copies of runs, or as fragments of an operand."""

from __future__ import annotations

import math
from dataclasses import replace

from legalsat.diagnostics import Diagnostic
from legalsat.extract.check.fields import judge, judge_movement, refuse
from legalsat.extract.cost.cost import Work, cost_of
from legalsat.extract.explain.recorded import open_number
from legalsat.extract.search.columns import lead_bits, pixel_bits
from legalsat.extract.search.delivery import Delivered, Question
from legalsat.extract.search.schedule import block_bytes, row_tile
from legalsat.extract.search.views import turned
from legalsat.extract.solve.fields import Conflict
from legalsat.extract.solve.requirements import Wanted
from legalsat.logic import Value
from legalsat.operators import MATRIX_CONSUMERS, Move, atom_bytes
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.movement_plan import MovementCost, MovementPlan, SharedTile, VectorCopy, View
from legalsat.rules import REGISTER_RULES, SHARED_RULES, VECTOR_RULES
from legalsat.rules.movement import elements_share_bytes
from legalsat.rules.vectors import BULK
from legalsat.rules.wgmma import wgmma_rows_unswizzled
from legalsat.targets import GRANULE_BYTES, Target
from legalsat.tensor import plain
from legalsat.units.means import MEANS
from legalsat.units.sites import Movement, RegisterTile, SharedStages, TmaCopy, VectorAccess
from legalsat.units.tensor_map import TensorMap

LOADS = {"threads": "ld.global", "cp.async": "cp.async", "bulk": "cp.async.bulk", "fragments": "ld.global.fragment"}
STORE = "st.global"
# The means by which a tile is in registers as a whole.
IN_REGISTERS = tuple(one.name for one in MEANS.values() if one.arrives == "threads")
SIZES = (16, 8, 4, 2, 1)


def access_site(view: View, word: int, instruction: str, size: Value, align: Value) -> VectorAccess:
    """Return the site of one side's rows, moved `size` bytes at a time from or to a base aligned to `align` bytes.

    Elements that do not lie side by side are no rows: their dimension is one of those that step over others.
    """
    row = view.stride[0] == word
    outer = sorted((i for i in range(row, len(view.extent)) if view.extent[i] > 1), key=lambda i: view.stride[i])
    steps, spanned = [], (view.extent[0] if row else 1) * word
    for i in outer:
        steps.append(-(-spanned // 8))
        spanned += (view.extent[i] - 1) * view.stride[i]
    return VectorAccess(
        instruction=instruction,
        side=view.side,
        bytes=size,
        word=word,
        address=align,
        strides=tuple(view.stride[i] // 8 for i in outer),
        stepped_over=tuple(steps),
        inner_stride_bits=view.stride[0],
        row_bits=view.extent[0] * word,
        tile_bits=view.tile[0] * word,
    )


def load_site(view: View, word: int, means: str, size: Value, operator: Move) -> VectorAccess:
    """Return the site of the load; the pairs that a fragment holds are neighbours along the operand's last axis, K."""
    source = operator.source
    lead = lead_bits(operator) + view.lead  # what an access counts from may lie before the tensor
    align = math.gcd(source.address, lead // 8)
    site = replace(access_site(view, word, LOADS[means], size, align), pixel_bits=pixel_bits(operator))
    if means == "fragments" and source.strides[-1:] != (1,):
        return replace(site, inner_stride_bits=0)
    return site


def needs_staging(means: str, consumer: str | None, *, turns: bool) -> bool:
    """Whether the tile lies in shared memory on its way: what threads load goes there for a reader, or to be turned."""
    return means != "fragments" and (means != "threads" or consumer is not None or turns)


def staged_view(view: View, word: int, operator: Move) -> View | None:
    """Return the view whose tile has the rows of shared memory: for wgmma those of its operand, else the view's own.

    None where the operand's rows are no rows or parts of rows of the view.
    """
    if operator.consumer not in MATRIX_CONSUMERS or operator.tile is None:
        return view
    if operator.sweeps:
        return view if view.tile[0] * word == operator.tile[1] * operator.source.dtype.bits else None
    source = operator.source
    contiguous = [axis for axis, stride in enumerate(source.strides) if stride == 1]
    if not contiguous:
        return None
    extent, tile = plain(source.shape)[contiguous[-1]], operator.tile[contiguous[-1]]
    row, torn = divmod(tile * source.dtype.bits, word)
    if torn or view.tile[0] % row or view.extent[0] * word % (extent * source.dtype.bits):
        return None
    return view if view.tile[0] == row else replace(view, tile=(row, view.tile[0] // row, *view.tile[1:]))


def judged_rows(means: str, row_bytes: int, operator: Move, target: Target) -> tuple[Diagnostic, ...]:
    """Return what the rules say of rows for wgmma that bulk copies bring, which swizzle nothing."""
    if means != "bulk" or operator.consumer not in MATRIX_CONSUMERS:
        return ()
    rows = replace(TmaCopy.of(TensorMap("u8", (row_bytes,), box=(row_bytes,))), side="source", atom_bytes=GRANULE_BYTES)
    return tuple(wgmma_rows_unswizzled.check(rows, target))


def judged_bytes(operator: Move, target: Target, *views: View) -> tuple[Diagnostic, ...]:
    """Return what the rules say of packed elements of which some begin inside a byte, whatever words they move in."""
    torn = any(n > 1 and stride % 8 for view in views for n, stride in zip(view.extent, view.stride, strict=True))
    movement = Movement(operator.source.dtype.bits, element=operator.source.dtype.name)
    return tuple(elements_share_bytes.check(movement, target)) if torn else ()


def bound(question: Question) -> MovementCost:
    """Return a cost that no solution is below: the widest vectors that alignments and extents leave, nothing staged."""
    load, store = question.views
    operator, access = question.operator, question.access
    sizes = [] if access.by == "bulk" else [_widest(load, access.word, operator.source.address)]
    if not operator.loads_only:
        sizes.append(_widest(store, access.word, operator.target.address))
    work = Work(
        times=question.times,
        instructions=sum(math.ceil(question.tile_bytes / (size * question.target.lanes)) for size in sizes),
        passes=0,
        store_factor=_store_factor(question),
        stages=question.most_stages,
    )
    return cost_of(access, question.views, work, question.target)


def _store_factor(question: Question) -> float:
    """How much longer threads take to store than boxes do: what they load themselves they store at once."""
    staged = needs_staging(question.access.by, question.operator.consumer, turns=question.turned)
    return question.store_factor if staged else 1.0


def _widest(view: View, word: int, align: int) -> int:
    numbers = [view.extent[0] * word, view.tile[0] * word, 8 * align]
    numbers += [stride for stride, extent in zip(view.stride[1:], view.extent[1:], strict=True) if extent > 1]
    return max(1, math.gcd(8 * GRANULE_BYTES, *numbers) // 8)


def solve(question: Question) -> Delivered | Conflict:
    """Return the widest vectors that the rules allow on either side, and what they cost."""
    access, operator, target = question.access, question.operator, question.target
    load, store = question.views
    instruction = LOADS[access.by]
    atom = atom_bytes(operator)
    staged = needs_staging(access.by, operator.consumer, turns=question.turned)
    seen = staged_view(load, access.word, operator) if staged else load
    if seen is None:
        return Conflict(question.judged())
    row = seen.tile[0] * access.word // 8
    broken = question.judged(row_bytes=row if atom and staged else 0)
    ends = question.judged_ends
    broken = broken or judged_rows(access.by, row, operator, target) or judged_bytes(operator, target, *ends)
    if broken:
        return Conflict(broken)
    # A bulk copy takes a row whole; what the rules ask of it, they ask of its granules.
    sizes: dict[str, Value] = {"load": GRANULE_BYTES if access.by == "bulk" else open_number("load")}
    sites = [load_site(load, access.word, access.by, sizes["load"], operator)]
    if not operator.loads_only:
        sizes["store"] = open_number("store")
        sites.append(access_site(store, access.word, STORE, sizes["store"], operator.target.address))
    stages: Value = 1
    choices: dict[str, tuple[int, ...]] = {name: SIZES for name, n in sizes.items() if not isinstance(n, int)}
    if staged and question.most_stages > 1:
        stages, choices["stages"] = open_number("stages"), tuple(range(1, question.most_stages + 1))
    wanted = Wanted(target)
    wanted.judge(VECTOR_RULES, *sites)
    if staged:
        wanted.judge(SHARED_RULES, SharedStages(stages, question.tile_bytes, 0))
    if access.by in IN_REGISTERS:
        wanted.judge(REGISTER_RULES, RegisterTile(question.tile_bytes))
    found = wanted.optimum(choices, 0 - sum(sizes.values()) - stages, question.deadline)
    if found is None:

        def reasons() -> tuple[Diagnostic, ...]:
            one = max(1, access.word // 8)
            plainest = [replace(s, bytes=one if not isinstance(s.bytes, int) else s.bytes) for s in sites]
            codes = wanted.codes(choices, question.deadline)
            tile = question.tile_bytes
            return wanted.said_of(codes, *plainest, SharedStages(1, tile, 0), RegisterTile(tile))

        return Conflict(reasons)
    run = load.tile[0] * access.word // 8
    runs = math.prod(load.tile[1:]) if access.by == "bulk" else 0
    copies: tuple[VectorCopy, ...] = (VectorCopy("source", instruction, found.get("load", run)),)
    if not operator.loads_only:
        copies += (VectorCopy("target", STORE, found["store"]),)
    count = found.get("stages", 1)
    shared: tuple[SharedTile, ...] = ()
    if staged:
        shared = (row_tile(seen, access.word, atom_bytes=0 if runs else atom, runs=runs, stages=count),)
    issued = [copy.bytes for copy in copies if copy.instruction != "cp.async.bulk"]
    if staged:  # threads read the tile from shared memory to store it, and write it there unless it arrives by itself
        issued += [GRANULE_BYTES] * ((access.by == "threads") + (not operator.loads_only))
    work = Work(
        times=question.times,
        boxes=runs,
        instructions=sum(math.ceil(question.tile_bytes / (size * target.lanes)) for size in issued),
        conflicts=2 if question.turned and staged else 1,
        passes=2 if staged else 0,
        store_factor=_store_factor(question),
        stages=count,
        shared_bytes=block_bytes(shared),
    )
    views, stored = question.views, question.stores_by((load,))
    return Delivered(access, views, (), copies, (), stored, shared, count, cost_of(access, views, work, target))


def check(plan: MovementPlan, _question: Question) -> None:
    """Check a plan that loads and stores in vectors."""
    load, store = plan.views
    instruction = LOADS.get(plan.access.by)
    sides = 1 if plan.operator.loads_only else 2
    if instruction is None or plan.tensor_maps or plan.phases or len(plan.copies) != sides:
        raise InvalidPlan(f"plan by {plan.access.by} needs a copy on each side, and no tensor maps; plan it again")
    atom = atom_bytes(plan.operator)
    staged = needs_staging(plan.access.by, plan.operator.consumer, turns=turned(load, store))
    seen = staged_view(load, plan.access.word, plan.operator) if staged else load
    if seen is None:
        raise InvalidPlan("rows of the tile are not those that wgmma reads; synthesise the plan again")
    row, run = (view.tile[0] * plan.access.word // 8 for view in (seen, load))
    runs = 0
    if instruction == BULK:
        runs = math.prod(load.tile[1:])
        if plan.copies[0].bytes != run:
            raise InvalidPlan(f"runs have {run} bytes, not {plan.copies[0].bytes}; synthesise the plan again")
    judge_movement(plan, row_bytes=row if atom and staged else 0)
    refuse(judged_rows(plan.access.by, row, plan.operator, plan.target))
    check_vector(plan, load, plan.copies[:1], instruction)
    if sides > 1:
        check_vector(plan, store, plan.copies[1:], STORE)
    expected = (
        row_tile(seen, plan.access.word, atom_bytes=0 if runs else atom, runs=runs, stages=plan.pipeline.stages),
    )
    if plan.shared != (expected if staged else ()):
        raise InvalidPlan("shared buffers are not those of the tile's rows; synthesise the plan again")
    size = math.prod(mode.tile for mode in plan.access.modes) * plan.access.word // 8
    for rule in REGISTER_RULES if plan.access.by in IN_REGISTERS else ():
        judge(rule, RegisterTile(size), plan)


def check_vector(plan: MovementPlan, view: View, copies: tuple[VectorCopy, ...], instruction: str) -> None:
    """Judge the instructions that move one side of a tile."""
    if [(c.side, c.instruction) for c in copies] != [(view.side, instruction)]:
        raise InvalidPlan(f"{view.side} is not moved by {instruction}; synthesise the plan again")
    refuse(judged_bytes(plan.operator, plan.target, view))
    size, word = GRANULE_BYTES if instruction == BULK else copies[0].bytes, plan.access.word
    if view.side == "source":
        site = load_site(view, word, plan.access.by, size, plan.operator)
    else:
        site = access_site(view, word, STORE, size, plan.operator.target.address)
    for rule in VECTOR_RULES:
        judge(rule, site, plan)

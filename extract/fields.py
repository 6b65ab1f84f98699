"""Z3 chooses every field that a candidate leaves open, under all rules at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import z3

from legalsat.access import Access
from legalsat.diagnostics import Diagnostic
from legalsat.dtypes import DType
from legalsat.errors import LegalSatError
from legalsat.extract.views import map_type
from legalsat.extract.z3_logic import Z3Number, formula, variable
from legalsat.logic import Condition, Truth, Value, among, ceil_div, choose, implies, pick, within
from legalsat.operators import WGMMA_CONSUMERS
from legalsat.plan import View
from legalsat.rule import Requirement, Rule
from legalsat.rules import COPY_RULES, SHARED_RULES
from legalsat.sites import SWIZZLE_SPANS, SharedStages, TmaCopy
from legalsat.targets import GRANULE_BYTES, Target
from legalsat.tensor_map import INTERLEAVES, L2_PROMOTIONS, SWIZZLES, TensorMap, driver_value

MAX_STAGES = 4
PATTERN_ROWS = 8  # rows over which a swizzle's pattern runs (FACTS SW-02 to SW-04)
TIMEOUT_MS = 2000
# What the objective weighs, most important first: repeated shared accesses, boxes, stages, then taste.
_CONFLICT, _BOX, _STAGE, _TASTE = 10**9, 10**4, 10**3, 1
# By swizzle: eight rows of one span take all banks once with 16-byte atoms, half of them with 32, a quarter with 64.
_SWIZZLED_CONFLICTS = (8, 1, 1, 1, 2, 2, 4)
_L2_TASTE = (3, 2, 0, 1)  # 128B is what every framework asks for (FACTS TM-21)


class SolverGaveUp(LegalSatError):
    """The solver ran out of time, so neither a plan nor a refusal is known; give it longer or a smaller tile."""


@dataclass(frozen=True, slots=True)
class Solution:
    """Solved tensor maps in the order of the views, ring stages, and how often shared accesses repeat."""

    tensor_maps: tuple[TensorMap, ...]
    stages: int
    conflicts: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """No fields satisfy the rules; `diagnostics` name the rules involved, a minimal set."""

    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class _Open:
    """The variables of one tensor map."""

    site: TmaCopy
    domain: list[Condition]


@lru_cache(maxsize=4096)
def solve(
    access: Access,
    views: tuple[View, ...],
    element: DType,
    align: tuple[int, ...],
    target: Target,
    *,
    threads_read: bool,
    turned: bool,
    consumer: str | None = None,
    max_stages: int = MAX_STAGES,
    timeout_ms: int = TIMEOUT_MS,
) -> Solution | Conflict:
    """Return fields for the tensor maps of `views` (the load's first), or the rules that forbid any.

    Args:
        access: the movement; its tiles are what the boxes must cover exactly.
        views: one per tensor map.
        element: the tensor's dtype, which names the data type where words are elements.
        align: bytes that each side's base address is a multiple of.
        target: the GPU.
        threads_read: whether threads, and not the copy engine alone, read the tile; then swizzles matter.
        turned: whether the tile's dimensions run in another order in the target, which then has a layout of its own.
        consumer: who reads the tile in shared memory, if it asks for a layout of its own.
        max_stages: stages of the ring at most; as many are taken as fit.
        timeout_ms: milliseconds for the solver.

    Raises:
        SolverGaveUp: time ran out.
    """
    type_name = map_type(access.word, element)
    if type_name is None:
        raise LegalSatError(f"no tensor-map data type has {access.word} bits; recast the tensor to bytes")
    opened = [
        _open(view, driver_value("dtype", type_name), a, target, threads_read=threads_read, consumer=consumer)
        for view, a in zip(views, align, strict=True)
    ]
    tile_bytes = ceil_div(math.prod(views[0].tile) * access.word, 8)
    stages: Value = variable("stages") if max_stages > 1 else 1
    shared = SharedStages(stages=stages, ring=tile_bytes, single=tile_bytes if turned and max_stages > 1 else 0)
    wanted: list[tuple[Rule, Requirement]] = [
        *((rule, r) for o in opened for rule in COPY_RULES for r in _errors(rule, o.site, target)),
        *((rule, r) for rule in SHARED_RULES for r in _errors(rule, shared, target)),
    ]
    plainly = {rule.code for rule, r in wanted if not isinstance(r.condition, Truth) and not r.condition}
    if plainly:
        return _conflict(plainly, opened, views, shared, target)
    domain = [c for o in opened for c in o.domain] + [within(1, stages, max_stages)]
    if len(opened) > 1 and not turned:
        domain += _same_tile(opened, views)
    conflicts: Value = 1
    for one, view in zip(opened, views, strict=True) if threads_read else ():
        repeats = _conflicts(one.site, view)
        conflicts = choose(repeats > conflicts, repeats, conflicts)
    optimizer = z3.Optimize()
    for condition in domain:
        optimizer.add(formula(condition))
    for _, requirement in wanted:
        if isinstance(requirement.condition, Truth):
            optimizer.add(formula(requirement.condition))
    optimizer.minimize(formula_number(_objective(opened, views, stages, conflicts)))
    found = _optimum(optimizer.sexpr(), timeout_ms)
    if found is None:
        return _conflict(_core(domain, wanted, timeout_ms), opened, views, shared, target)
    chosen = dict(found)
    maps = tuple(_solved(o.site, type_name, chosen) for o in opened)
    return Solution(maps, _value(stages, chosen), _value(conflicts, chosen))


@lru_cache(maxsize=4096)
def _optimum(problem: str, timeout_ms: int) -> tuple[tuple[str, int], ...] | None:
    """Return the best values of the variables of an SMT-LIB optimisation problem, None if there are none.

    Tensors of one legality class leave the same problem, since what is known drops out of it; so they share the answer.
    """
    optimizer = z3.Optimize()
    optimizer.set(timeout=timeout_ms)
    optimizer.from_string(problem)
    answer = optimizer.check()
    if answer == z3.unknown:
        raise SolverGaveUp(f"no answer within {timeout_ms} ms; give a smaller tile or more time")
    if answer == z3.unsat:
        return None
    model = optimizer.model()
    return tuple((str(name), model[name].as_long()) for name in model.decls())


def formula_number(value: Value) -> Any:
    """Return a number as a Z3 expression."""
    return value.expression if isinstance(value, Z3Number) else z3.IntVal(value)


def _errors(rule: Rule, site: Any, target: Target) -> Iterator[Requirement]:
    return rule(site, target) if rule.level == "error" else iter(())


def _open(view: View, data_type: int, align: int, target: Target, *, threads_read: bool, consumer: str | None) -> _Open:
    """Return the site of a view with a variable for every field that the view does not fix, and their domains."""
    rank, name = len(view.extent), view.side
    domain: list[Condition] = []

    def field(what: str, choices: Sequence[int]) -> Value:
        """Return a variable over `choices`; where there is one choice only, that."""
        if len(choices) == 1:
            return choices[0]
        found = variable(f"{name}.{what}")
        domain.append(among(found, choices))
        return found

    # Every element of the tile is wanted, in dense rows, which leaves steps and interleave no choice.
    limit = target.tma.max_box_extent if target.tma else 1
    box = tuple(field(f"box{i}", _divisors(tile, limit)) for i, tile in enumerate(view.tile))
    steps = tuple(field(f"step{i}", (1,)) for i in range(rank))
    swizzle = field("swizzle", range(target.tma.swizzles if target.tma else 1))
    interleave = field("interleave", (INTERLEAVES.index("none"),))
    l2 = field("l2", range(len(L2_PROMOTIONS)))
    site = TmaCopy(
        tiled=True,
        rank=rank,
        dtype=data_type,
        interleave=interleave,
        swizzle=swizzle,
        l2_promotion=l2,
        oob_fill=0,
        map_offset=0,
        address=align,
        global_dim=view.extent,
        global_stride=tuple(s // 8 if s % 8 == 0 else s / 8 for s in view.stride[1:]),
        element_stride=steps,
        box=box,
        stores=view.side == "target",
        inner_stride_bits=view.stride[0] if rank else None,
        tile=view.tile,
        side=view.side,
        feeds_wgmma=consumer in WGMMA_CONSUMERS,
    )
    if rank:
        # A swizzled row fills its span, or the pitch would leave holes (FACTS M-08, WG-18); a plain one is not cut
        # without need, which is how every backend lays an unswizzled tile out.
        domain.append(implies(swizzle != 0, site.inner_bits == 8 * pick(SWIZZLE_SPANS, swizzle)))
        domain.append(implies(swizzle == 0, box[0] == min(view.tile[0], limit)))
        if math.prod(view.tile[1:]) % PATTERN_ROWS:
            domain.append(swizzle == 0)
        if threads_read:
            # Threads address the tile as one block of rows: boxes lie side by side only along swizzled rows.
            domain += [extent == tile for extent, tile in zip(box[1:], view.tile[1:], strict=True)]
            domain.append(implies(swizzle == 0, box[0] == view.tile[0]))
    return _Open(site, domain)


def _same_tile(opened: Sequence[_Open], views: Sequence[View]) -> Iterator[Condition]:
    """States that both maps lay the same tile out alike, for a tile that goes out as it came in."""
    load, store = (o.site for o in opened)
    yield load.swizzle == store.swizzle
    for extent, group in zip(load.box, views[0].groups, strict=True):
        yield extent == store.box[views[1].groups.index(group)]


def _conflicts(site: TmaCopy, view: View) -> Value:
    """Return how often eight threads that read 16 bytes of eight rows each hit the same banks; 1 is never.

    Plain rows are as long as the tile's, and rows of an odd number of granules take turns through the eight banks'
    groups. Swizzled rows fill their span.
    """
    plain = math.gcd(view.tile[0] * site.element_bits // (8 * GRANULE_BYTES), 8) if view.tile else 1
    return choose(site.swizzle == 0, plain, pick(_SWIZZLED_CONFLICTS, site.swizzle))


def _objective(opened: Sequence[_Open], views: Sequence[View], stages: Value, conflicts: Value) -> Value:
    cost: Value = _CONFLICT * conflicts + _STAGE * (MAX_STAGES - stages)
    for o, view in zip(opened, views, strict=True):
        for extent, tile in zip(o.site.box, view.tile, strict=True):
            cost = cost + _BOX * _log_boxes(extent, tile)
        cost = cost + _TASTE * (pick(_L2_TASTE, o.site.l2_promotion) + o.site.swizzle)
    return cost


def _log_boxes(extent: Value, tile: int) -> Value:
    """Return 100 log2 of the boxes along a dimension: a sum of these orders plans as the product of boxes does."""
    result: Value = 0
    for choice in _divisors(tile, tile)[:-1]:
        result = choose(extent == choice, round(100 * math.log2(tile // choice)), result)
    return result


def _divisors(number: int, limit: int) -> list[int]:
    # A tile of a million elements has its useful divisors among the first 256 numbers, and itself.
    small = [d for d in range(1, min(number, limit, 256) + 1) if number % d == 0]
    return small if number > limit or number <= 256 else [*small, number]


def _value(number: Value, chosen: dict[str, int]) -> int:
    """Return a number at the chosen values of the variables; a variable that no rule mentions may have any."""
    if not isinstance(number, Z3Number):
        return int(number)
    values = [(z3.Int(name), z3.IntVal(value)) for name, value in chosen.items()]
    return int(z3.simplify(z3.substitute(number.expression, *values)).as_long())


def _solved(site: TmaCopy, type_name: str, chosen: dict[str, int]) -> TensorMap:
    def value(number: Value) -> int:
        return _value(number, chosen)

    return TensorMap(
        dtype=type_name,
        global_dim=tuple(site.global_dim),
        global_stride=tuple(site.global_stride),
        box=tuple(map(value, site.box)),
        element_stride=tuple(map(value, site.element_stride)),
        address=site.address,
        interleave=INTERLEAVES[value(site.interleave)],
        swizzle=SWIZZLES[value(site.swizzle)],
        l2_promotion=L2_PROMOTIONS[value(site.l2_promotion)],
    )


def _core(domain: Sequence[Condition], wanted: Sequence[tuple[Rule, Requirement]], timeout_ms: int) -> set[str]:
    """Return the codes of a minimal set of requirements that no fields satisfy together."""
    solver = z3.Solver()
    solver.set(timeout=timeout_ms)
    for condition in domain:
        solver.add(formula(condition))
    tracked = {}
    for i, (rule, requirement) in enumerate(wanted):
        if isinstance(requirement.condition, Truth):
            marker = z3.Bool(f"{rule.code}.{i}")
            solver.add(z3.Implies(marker, formula(requirement.condition)))
            tracked[marker] = rule.code
    solver.check(*tracked)
    needed = list(solver.unsat_core()) or list(tracked)
    for marker in list(needed):
        rest = [m for m in needed if m is not marker]
        if solver.check(*rest) == z3.unsat:
            needed = rest
    return {tracked[m] for m in needed}


def _conflict(
    codes: set[str], opened: Sequence[_Open], views: Sequence[View], shared: SharedStages, target: Target
) -> Conflict:
    """Say what the rules say of the plainest fields: whole boxes where they fit, no swizzle, one stage.

    Without codes no boxes can be laid out as the tile's reader wants them, so the tile itself is judged as one box.
    """
    limit = target.tma.max_box_extent if target.tma else 1
    found: dict[tuple[str, str], Diagnostic] = {}
    for o, view in zip(opened, views, strict=True):
        site = replace(
            o.site,
            box=tuple(_divisors(tile, limit)[-1] if codes else tile for tile in view.tile),
            element_stride=(1,) * o.site.rank,
            swizzle=0,
            interleave=0,
            l2_promotion=0,
        )
        for rule in COPY_RULES:
            for diagnostic in rule.check(site, target) if rule.code in codes or not codes else ():
                if diagnostic.level == "error":
                    found.setdefault((diagnostic.code, diagnostic.message), diagnostic)
    for rule in SHARED_RULES:
        for diagnostic in rule.check(replace(shared, stages=1), target) if rule.code in codes else ():
            found.setdefault((diagnostic.code, diagnostic.message), diagnostic)
    return Conflict(tuple(found.values()))

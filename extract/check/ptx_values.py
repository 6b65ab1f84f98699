"""Which values of parameters a kernel is run with: each loop alone, all together, and two at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, product
from typing import Any

from legalsat.analyses.ptx_machine.alu import FULL
from legalsat.analyses.ptx_machine.launches.alike import Told
from legalsat.analyses.ptx_machine.launches.data import BY_TURNS, CANCELLED, UNDEFINED
from legalsat.analyses.ptx_machine.launches.records import PATTERNS, RECORDS
from legalsat.analyses.ptx_machine.program import Program
from legalsat.analyses.ptx_machine.tickets import GAPS, TICKETS
from legalsat.extract.check.ptx_ahead import run_ahead, run_long_ahead
from legalsat.extract.check.ptx_failure import Values
from legalsat.extract.check.ptx_steps import probes, step_of
from legalsat.extract.check.ptx_sweep import (
    GREATEST_POWER,
    LEAST_ROUNDS,
    LONG_WORK,
    MANY_WORK,
    ONE_RUN_WORK,
    SLACK,
    SPREAD,
    WIDE,
    Sweep,
    so_many_rounds,
)
from legalsat.extract.check.ptx_turns import ROOM, count, switch, tells_too_little, turn, with_room, without_pointers
from legalsat.logic import round_up

PAIRED = (0, 1, 3)
_BEFORE, _MOST_LIKELY = 3, 24  # rounds before a ring's state repeats, and the most that are begun before it is known
_TOGETHER = 48  # counts of rounds that are run together: each of the runs is held until it is asked for
_FEW = (0, 1, 3, SPREAD + 1)  # rounds that are tried where something is wrong
_FURTHER = 3  # rounds that are tried where a loop comes to a comparison in the last few alone
MOST_STAY = 24  # blocks that stay where there is room
LATER = 4  # tiles before a block that is a later one
_MORE = (2, 4, 8)  # times the least value
MANY = 8  # parameters for which it is quicker to run the launches together that look for their steps
DRAWN = 12  # rounds where other blocks draw tickets between
_PRODUCTS = ((2, 3), (3, 2), (5, 64), (64, 5), (7, 11), (1, 192), (255, 3), (100, 41), (33, 129), (1024, 4), (6, 1000))
_ONE = 0x3F80_0000  # 1.0
_UNDEFINED = (FULL, 1 << 20)  # beside 0: that registers may hold, which nothing has written
_NUMBERS = {"f32", "u8", "u16", "u32", "s8", "s16", "s32", "b8", "b16", "b32"}

_LONG_NUMBERS = {"u64", "s64", "b64"}


def find_steps(sweep: Sweep) -> Values:
    """Find by how much parameters must grow for loops to run once more; return the least values of all."""
    program = sweep.program
    ones = _launched(sweep, least_of(sweep))
    names = list(ones)
    alone, sweep.steps = sweep.shown(ones), dict.fromkeys(names, 0)
    sweep.looping = set()
    while tried := [n for n in names if n in program.looping - sweep.looping - program.roles.dividing.keys()]:
        sweep.looping.update(tried)
        if alone is not None and len(tried) >= MANY:  # most make no difference, so that these launches go the same way
            run_ahead(sweep, (values for name in tried for values in probes(sweep, name, ones)), alone.work + SLACK)
        sweep.steps |= {name: step_of(sweep, name, ones) if not sweep.late else 0 for name in tried}
    return ones


def least_of(sweep: Sweep) -> Values:
    """Return the least values of all that may be swept which make sense and are something."""
    names = steering(sweep.program, sweep.fixed)
    return {n: sweep.least.get(n, 0 if n.startswith("%") else one_of(sweep.program, n)) for n in names}


def sweep_all(sweep: Sweep) -> None:
    """Run a kernel for all values that tell, the telling ones first."""
    program = sweep.program
    ones = find_steps(sweep)
    names, steps, looping = list(ones), sweep.steps, sweep.looping
    rooms = _rooms(sweep, ones, names)
    idle = [name for name in names if name in looping and not steps[name] and not name.startswith("%")]
    grid = {name: LATER * step for name, step in steps.items() if step and name.startswith("%")}
    sweep.factors = _factors(sweep, ones)  # what another one does with these, that one does alone
    sweep.beside = _beside_tables(sweep, ones)
    steps |= dict.fromkeys([*sweep.factors, *sweep.beside], 0)
    # None steers a loop where there is no tile, as of rows or columns.
    if len(idle) > 1 or (idle and any(steps.values())):
        _find_tiles(sweep, ones, idle, grid)
    looped = {name: step for name, step in steps.items() if step}
    rest = {name: one for name, one in ones.items() if not steps[name]}
    sweep.alike = not looped
    sweep.first = _first_has_more(sweep, rest, looped)
    several = [so_many_rounds(sweep, rest, looped, rounds) for rounds in ((1, 2) if looped else (1,))]
    sweep.size_boxes(several + [{**several[0], name: sweep.more(name, step, 6)} for name, step in looped.items()])
    for values in _values(sweep, looped, rest, rooms):
        if sweep.late:
            break
        sweep.shown(values)
    bases = [so_many_rounds(sweep, rest, looped, rounds) for rounds in ((3, 1) if looped else (1,))]
    bases += [{**bases[0], name: sweep.least.get(name, 0)} for name in looped]
    _undefined(sweep, bases)
    if not sweep.findings:
        turn(sweep, bases, looped)
        for name, value in product(sorted(program.spread.intersection(names)), BY_TURNS):
            if not sweep.late:
                sweep.shown({**bases[0], name: value})
        count(sweep, bases[0])
        longer = [{name: sweep.more(name, step, DRAWN)} for name, step in looped.items()] or [{}]
        for gap, more in product(GAPS if TICKETS in program.decisive else (), longer):
            if not sweep.late:
                sweep.shown({**bases[0], TICKETS: gap, **more})
        _unlike_records(sweep, bases[0], longer)
    elif all(one.of_nothing for one in sweep.failing):  # a sweep without such follows, and has no null pointers either
        switch(sweep, bases[0], looped, 1)
    _fill_tiles(sweep, bases)
    sweep.say_what_was_left_out()
    for name in sorted(program.looping.intersection(names) - looping - program.roles.dividing.keys()):
        reason = f"{name} decides how often a loop runs, by what threads store in shared memory, and is not swept"
        sweep.unproven[program.kernel.line, reason] = None
    if program.bounds.reason:
        sweep.unproven[0, program.bounds.reason] = None
    if sweep.work > sweep.most:
        sweep.unproven[0, f"not all values of parameters are tried within {sweep.most} instructions"] = None


def _beside_tables(sweep: Sweep, ones: Values) -> set[str]:
    """Return parameters of which three rounds do what three of a table's field do: they are added to it, or round it.

    Together they would make many rounds, where the field alone makes all that there are.
    """
    program = sweep.program
    if not program.steering_tables:
        return set()
    seen: dict[str, Any] = {}
    for name, step in sweep.steps.items():
        if step and not sweep.late:
            shown = sweep.shown({**ones, name: sweep.more(name, step, 3)}, MANY_WORK)
            seen[name] = None if shown is None else shown.visits
    fields = [visits for name, visits in seen.items() if name.startswith("[") and visits is not None]
    return {n for n, visits in seen.items() if not n.startswith(("[", "%")) and visits in fields}


def _unlike_records(sweep: Sweep, base: Values, longer: list[Values]) -> None:
    """Run with tables in memory of which records differ, or hold nothing; what goes wrong is left open.

    Nobody says which tables a launch has, so that these may be none.
    """
    for name in sorted(sweep.beside):
        if not sweep.late:
            sweep.shown({**base, name: base[name] + sweep.program.multiple(name)})
    for pattern, more in product(PATTERNS if sweep.program.steering_tables else (), longer):
        if not sweep.late:
            sweep.shown({**base, RECORDS: pattern, **more})


def _undefined(sweep: Sweep, bases: list[Values]) -> None:
    """Run with other numbers in registers that nothing has written when they are looked at."""
    for base, held in product(bases if sweep.program.undefined else (), _UNDEFINED):
        if not sweep.late:
            sweep.shown({**base, CANCELLED: 0, UNDEFINED: held})


def _fill_tiles(sweep: Sweep, bases: list[Values]) -> None:
    """Run with whole tiles where nobody has read some of what threads write: beyond a tensor's end readers stop.

    What lies in the wrong place is read by nobody then, either.
    """
    program, base = sweep.program, bases[min(1, len(bases) - 1)]
    names = [n for n in base if n in program.decisive and not n.startswith(("%", "[")) and not program.is_pointer(n)]
    two = {name: sweep.more(name, step, 2) for name, step in sweep.steps.items() if step and name in names}
    several = [n for n in names if sweep.steps.get(n) != 1]  # else it counts rounds
    # Rows and columns at once, also of several tiles where these are counted apart, then each by itself.
    listed = [*product(WIDE, ({}, two), [several]), *product(WIDE, [{}], [[name] for name in names])]
    for size, more, chosen in listed:
        if sweep.findings or sweep.late or not program.left_unread():
            return
        wide = {name: round_up(size, program.multiple(name)) for name in chosen}
        sweep.shown({**base, **more, **wide}, LONG_WORK)


def _launched(sweep: Sweep, ones: Values) -> Values:
    """Return least values with which a launch is not dropped, where one that is greater alone makes that so.

    Halves of heads by which is divided are none of one head.
    """
    sweep.shown(ones)
    for name, times in product(ones if sweep.dropped(ones) else (), _MORE):
        more = {**ones, name: ones[name] * times}
        if sweep.late or name.startswith(("%", "[")) or sweep.program.is_pointer(name):
            continue
        sweep.shown(more, MANY_WORK)
        if sweep.has_shown(more) and not sweep.dropped(more):
            return more
    return ones


def one_of(program: Program, name: str) -> int:
    """Return the bits of the least value of a parameter that makes sense and is something: 1.0 of a factor."""
    roles = program.roles
    return roles.dividing[name] if name in roles.dividing else _ONE if name in roles.floats else program.multiple(name)


def _find_tiles(sweep: Sweep, ones: Values, idle: list[str], grid: Values) -> None:
    """Find by how much parameters must grow for loops that are there only where others are large too.

    Args:
        sweep: whose steps are added to.
        ones: the least values.
        idle: parameters that steer no loop while the others have these.
        grid: values of the block's number with which it is a later one.
    """
    steps, program = sweep.steps, sweep.program
    many = {name: round_up(1 << GREATEST_POWER, program.multiple(name)) for name in idle}
    few = {other: step for other, step in steps.items() if step and not other.startswith("%")}
    # Where many are too many, few; then rows of a later block, which sees more columns.
    roomy = [many, {**many, **few}] if len(idle) > 1 else [few] if few else []
    unseen: list[str] = []
    for others in roomy if len(idle) >= MANY else ():
        bases = {name: {**ones, **others, name: ones[name]} for name in idle if not steps[name]}
        run_ahead(sweep, (one for name, base in bases.items() for one in (base, *probes(sweep, name, base))), MANY_WORK)
    for name in idle:
        for others in roomy + [grid] * bool(grid):
            if not steps[name] and not sweep.late:
                base = {**ones, **others, name: ones[name]}
                steps[name] = step_of(sweep, name, base, MANY_WORK)
                if not steps[name] and sweep.shown(base, MANY_WORK) is None:
                    unseen.append(name)
    one_tile = {**ones, **{name: step for name, step in steps.items() if step and not name.startswith("%")}}
    for name in unseen:  # of too many tiles nothing is seen, and one is enough once it is known how large they are
        if not steps[name] and not sweep.late:
            steps[name] = step_of(sweep, name, one_tile, MANY_WORK)
            if not steps[name] and sweep.shown(one_tile, MANY_WORK) is None:
                sweep.unseen.add(name)


def _factors(sweep: Sweep, ones: Values) -> set[str]:
    """Return parameters of which the kernel sees but their product with another one, as of pages and rows.

    Together they would make as many rounds as the product, and one of them alone makes all that there are.
    """
    steps = sweep.steps
    names = [n for n, step in steps.items() if step and not n.startswith(("%", "[")) and ones[n] == 1]
    found = set[str]()
    for one, two in combinations(names, 2):
        if steps[one] == steps[two] and not found & {one, two} and _seen_as_product(sweep, ones, one, two):
            found.add(two)
    return found


def _seen_as_product(sweep: Sweep, ones: Values, one: str, two: str) -> bool:
    """Does a kernel see the same of two numbers as of their product and one?"""

    def seen(a: int, b: int) -> Told | None:
        held = sweep.launch({**ones, one: a, two: b, **sweep.fixed})
        return None if held is None else sweep.program.alike.of(held)

    several = [*_PRODUCTS, (sweep.steps[one], 2), (2 * sweep.steps[one], 5)]
    same = all((told := seen(a, b)) is not None and told == seen(a * b, 1) == seen(1, a * b) for a, b in several)
    return same and seen(1, 1) != seen(2 * sweep.steps[one], 1)


def _first_has_more(sweep: Sweep, rest: Values, looped: Values) -> bool:
    """Does the first block come to loops to which another one does not come where there are so few tiles?"""
    for rounds in (2, 1):
        base = so_many_rounds(sweep, rest, looped, rounds)
        first = {**base, **{name: sweep.least.get(name, 0) for name in looped if name.startswith("%")}}
        one, other = sweep.shown(first), sweep.shown(base) if first != base else None
        if one is not None and other is not None and one.visits.keys() - other.visits.keys():
            return True
    return False


def _rooms(sweep: Sweep, ones: Values, names: list[str]) -> dict[str, Values]:
    """Return the blocks' numbers with which later blocks leave, since there is little, and how much lets them stay.

    By how much these numbers must grow for one more round is found anew where there is room.
    """
    found = {}
    room = {n: value for n, value in with_room(sweep, ones, frozenset(), ROOM).items() if not n.startswith("%")}
    for name in names:
        if name.startswith("%") and name in sweep.program.decisive and room and not sweep.late:
            next_ = {name: ones[name] + sweep.program.multiple(name)}
            tried: tuple[dict[str, int], ...] = ({}, next_, room, {**room, **next_})
            runs = [sweep.shown({**ones, **more}, MANY_WORK) for more in tried]
            here, left, first, stayed = (run.visits.keys() if run is not None else set() for run in runs)
            if (here | (stayed - first)) & stayed - left:
                found[name] = room
                sweep.steps[name] = step_of(sweep, name, {**ones, **room}, MANY_WORK)
    return {name: room for name, room in found.items() if sweep.steps[name]}


def _values(sweep: Sweep, looped: Values, rest: Values, rooms: dict[str, Values]) -> Iterator[Values]:
    """Yield values to run with; `rooms`: other values with which a block's number is to be tried."""
    if not looped:
        yield rest
        sweep.probing = False
        sweep.runs |= 1
        sweep.run(rest)  # the last warp first
        return
    base = so_many_rounds(sweep, rest, looped, 1 if sweep.first else 2)
    yield base
    if not sweep.findings and without_pointers(sweep, so_many_rounds(sweep, rest, looped, 3)):
        return  # a sweep without null pointers follows
    twins = sweep.twins(looped, rest)
    main = {name: step for name, step in looped.items() if name not in twins}
    base |= {name: sweep.more(name, looped[name], 1) for name in twins}
    once = so_many_rounds(sweep, rest, looped, 1)
    sweep.probing = False
    for name, step in main.items():
        room = rooms.get(name, {})
        some, most = {**once, **room}, len(room) and MOST_STAY
        sweep.turned = True
        rounds = _rounds_to_try(sweep, name, step, some, base | room, [o for o in main if o != name], most)
        at_once = -(-len(rounds) // -(-len(rounds) // _TOGETHER))
        for place, number in enumerate([*rounds, *range(max(rounds) + 1, max(rounds) + _FURTHER + 1)]):
            if sweep.findings:
                yield from _few_rounds(sweep, name, step, base | room)
                break
            if not place % at_once:
                several = rounds[place : place + at_once]
                run_ahead(sweep, ({**base, name: sweep.more(name, step, one)} for one in several), ONE_RUN_WORK)
            if number > max(rounds) and not tells_too_little(sweep, name):
                break
            # A loop around this one need not run often for each of its counts; pairs come below.
            values = {**base, **room, name: sweep.more(name, step, number)}
            yield values
            shown = sweep.shown(values)
            sweep.rounds.setdefault(name, []).append(shown.closest if shown is not None else {})
        sweep.later.clear()
        if sweep.apart.get(name):  # the loops inside are run for two tiles of a block, or more
            base[name] = sweep.more(name, step, 4 * sweep.apart[name])
        # Who finds at its first look that a phase is over may go another way than who looks again: once, for a turn of
        # the ring and one stage more. In what order warps go on is else of no account, as clocks tell of all orders.
        sweep.turned = False
        if not sweep.late:
            one_turn = min(max(rounds), max(sweep.program.conditions.stages, LEAST_ROUNDS) + 1)
            sweep.run({**base, **room, name: sweep.more(name, step, one_turn)})
        sweep.turned = None
    if sweep.findings:
        return  # nothing is proven by it, and small examples are known
    whole = {name: step * sweep.apart.get(name, 1) for name, step in main.items()}
    others = list(_others(sweep, {**looped, **whole}, whole, base, rest))
    run_ahead(sweep, others)
    yield from others


def _few_rounds(sweep: Sweep, name: str, step: int, others: Values) -> Iterator[Values]:
    """Yield launches with few rounds of a parameter's loops, and those between two of which one alone goes wrong.

    Once something has been found nothing is proven by the sweep. What is right tells what the others lack, and the
    least that is right says it best.
    """

    def with_rounds(number: int) -> Values:
        return {**others, name: sweep.more(name, step, number)}

    def is_wrong(number: int) -> bool:
        return any(one.values == with_rounds(number) for one in sweep.failing)

    yield from map(with_rounds, _FEW)
    low, high = _FEW[-2:]
    while high - low > 1 and is_wrong(low) != is_wrong(high):
        middle = (low + high) // 2
        yield with_rounds(middle)
        low, high = (middle, high) if is_wrong(middle) == is_wrong(low) else (low, middle)


def _rounds_to_try(  # noqa: PLR0917
    sweep: Sweep, name: str, step: int, some: Values, base: Values, others: list[str], most: int
) -> list[int]:
    """Return which numbers of rounds of a parameter's loops are to be tried, after a long run and others beside it.

    Where something has been found by then, few others follow (`_few_rounds`).
    """
    if sweep.findings:
        return [0]
    likely = [{**some, name: sweep.more(name, step, number)} for number in (1, SPREAD + 1)]
    likely += [{**base, name: sweep.more(name, step, number)} for number in range(_likely_rounds(sweep) + 1)]
    run_long_ahead(sweep, {**some, name: sweep.many(name, step, most)}, likely)
    return sweep.rounds_of(name, step, some, others, most)


def _likely_rounds(sweep: Sweep) -> int:
    """Return up to which number of rounds launches are likely to be asked for: two turns of a ring, and some more."""
    return min(max(SPREAD + 1, 2 * sweep.program.conditions.stages + _BEFORE), _MOST_LIKELY)


def _others(sweep: Sweep, looped: Values, main: Values, base: Values, rest: Values) -> Iterator[Values]:
    """Yield values in which several parameters have few rounds, after those of each alone."""
    for name, step in looped.items():
        three = sweep.more(name, step, 3)
        for value in (sweep.least.get(name, 0), three, three + sweep.program.multiple(name)):
            yield {**base, name: value}
    for grid in (False, True):
        for number in range(2, sweep.rounds_together(main, base, grid=grid) + 1):
            blocks = {name: number if grid else sweep.least.get(name, 0) for name in main if name.startswith("%")}
            yield {**so_many_rounds(sweep, rest, looped, number), **blocks}
    for one, two in combinations(main, 2):
        for a in PAIRED:
            for b in PAIRED:
                yield {**base, one: sweep.more(one, looped[one], a), two: sweep.more(two, looped[two], b)}


def steering(program: Program, fixed: Mapping[str, int]) -> list[str]:
    """Return what may be swept: whole-number parameters and the block's number, if anything depends on them."""
    types = {p.name: p for p in program.kernel.parameters}
    found = []
    for name in sorted(program.steering):
        if name in fixed:
            continue
        parameter = types.get(name.partition("+")[0])
        number = name.startswith("[") or (parameter is not None and parameter.type in _NUMBERS | _LONG_NUMBERS)
        swept = number and not program.is_pointer(name)
        if swept or name == CANCELLED or (name.startswith("%ctaid.") and f"%nctaid.{name[-1]}" not in program.steering):
            found.append(name)
    return found

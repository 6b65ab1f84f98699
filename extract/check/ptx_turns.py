"""Which ways the conditions of a launch turn out, and launches that turn those round that have turned out in one way.

First the few parameters that only switch something on and off are set to nothing, alone and together; then values are
computed for each condition that is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import combinations, islice, product
from typing import TYPE_CHECKING

from legalsat.analyses.ptx_machine.alu import FULL
from legalsat.analyses.ptx_machine.launches.conditions import BLOCKS, FALSE, TRUE
from legalsat.analyses.ptx_machine.launches.watch import Watch
from legalsat.analyses.ptx_machine.tickets import are_in
from legalsat.extract.check.ptx_ahead import run_ahead
from legalsat.extract.check.ptx_failure import Values
from legalsat.extract.check.ptx_most_blocks import left_to_few_blocks
from legalsat.extract.check.ptx_sweep import RUN_WORK, Sweep
from legalsat.logic import round_up

if TYPE_CHECKING:
    from legalsat.extract.check.ptx_known import Shown

COUNTS = (1, 2, 3, 15, 16, 17, 32, 64, 128, 4096)  # that a parameter takes which says how many arrive, or where
MOST_TURNED = 6  # runs that try to turn one condition round
MOST_SWITCHES, MOST_TOGETHER = 8, 3  # parameters that are switched, and of these those that are at a time
_SAMPLES = 4  # rounds that show how near the registers of a comparison come to each other
MOST_PARTS = 3  # of a round that are tried with one condition
LEAST_PAST, MOST_PAST = 6, 60  # values that lead past a condition, so that it never turns
LATER = 2  # rounds before one that is not the first
ROOM = 512  # of rows, columns and the like
ROOM_ROUNDS = 4  # of a parameter's loop
_MOST_WORK = RUN_WORK // 8  # instructions of a run that tries to; of one that is too long nothing is said
_TRIED_WORK = RUN_WORK // 3  # of all that try to turn one condition round
MOST_SWITCHED = 48  # runs that do it


def _half_seen(watch: Watch) -> bool:
    """Has a condition turned out in one way only, where the other one matters?"""
    return bool(watch.seen) and watch.seen & watch.needed != watch.needed


def _settled(sweep: Sweep, hanging: Set[int]) -> set[str]:
    """Return predicates that never turn out the other way, however many rounds loops run: all that is half seen is so.

    Such are comparisons of which the registers keep off each other, and what follows from these alone; but not those
    that hang on what is left of a round.
    """
    half = [(n, w) for n, w in enumerate(sweep.program.watches) if not w.condition.used and w.seen in {TRUE, FALSE}]
    found = {w.condition.name for _, w in half} - {
        w.condition.name for n, w in half if n in hanging or not _keeps_off(sweep, n)
    }
    ways = {w.condition.name: w.seen for _, w in half}
    moved = True
    while moved:
        known = {name: FULL * (ways[name] == TRUE) for name in found}
        open_ = ways.keys() - found
        more = {name for name in open_ if sweep.program.conditions.follows(name, known) == FULL * (ways[name] == TRUE)}
        found |= more
        moved = bool(more)
    return found


def tells_too_little(sweep: Sweep, name: str) -> bool:
    """Do rounds of a parameter's loops come to a comparison too seldom to tell whether its registers keep off?

    What is left of a window, or of a tile, is there from the second or third round on.
    """
    runs = sweep.rounds.get(name, [])
    half = ((number, pair) for number, w in enumerate(sweep.program.watches) if _half_seen(w) for pair in w.compared)
    return any(1 < sum(place in one for one in runs) < _SAMPLES for place in half)


def _run_parts(sweep: Sweep, steps: Values) -> set[int]:
    """Run with parts of a last round where comparisons of loops have turned out in one way; return which hang on these.

    Rounds are tried whole, and a comparison with what is left of a round may keep off for these alone. What grows with
    a parameter turns with the least or the most of a round; else each bit of what is left is set alone.
    """
    hanging: set[int] = set()
    for number, watch in enumerate(sweep.program.watches):
        if not watch.compared or not _half_seen(watch):
            continue
        grows = sweep.program.conditions.grows_with_launches(watch.condition.name)
        values = _least_coming(sweep, number)
        whole = {near for runs in sweep.rounds.values() for one in runs for near in _nearest(one, number, watch)}
        for name in sorted(watch.condition.keys & values.keys()):
            by, step = sweep.program.multiple(name), steps.get(name, 0)
            if step <= by or name.startswith("%"):
                continue
            bits = () if grows else (by << bit for bit in range(1, (step // by - 1).bit_length()))
            begin = values[name] // step * step
            # Rounds may be counted up or down: one of the two has as many as the launch that comes to the comparison.
            begins = {begin, max(begin - step, 0)} if begin == values[name] else {begin}
            for part in (by, *bits, step - by):
                if sweep.late or not _half_seen(watch):
                    break
                runs = [sweep.shown({**values, name: one + part}, _MOST_WORK) for one in sorted(begins)]
                near = {n for run in runs if run is not None for n in _nearest(run.closest, number, watch)}
                if not near or not (grows or near <= whole):
                    hanging.add(number)
    return hanging


def _least_coming(sweep: Sweep, number: int) -> Values:
    """Return the least values of a launch that has come to a condition, and is right; none where there is no such."""
    return next(iter(_coming(sweep, number)), {})


def _coming(sweep: Sweep, number: int) -> list[Values]:
    """Return the values of launches that have come to a condition, and are right, the least ones first."""
    coming = [{**values} for values, outcomes in sweep.shown_so_far if outcomes and outcomes[number]]
    wrong = [one.values for one in sweep.failing]
    return sorted((one for one in coming if one not in wrong), key=lambda one: sum(map(abs, one.values())))


def _nearest(closest: Mapping[tuple[int, tuple[int, int, int]], int], number: int, watch: Watch) -> list[int]:
    """Return how near the registers that a condition compares have come to each other in a run."""
    return [closest[number, pair] for pair in watch.compared if (number, pair) in closest]


def _keeps_off(sweep: Sweep, number: int) -> bool:
    """Do the registers of a comparison come no nearer to each other with more rounds of any loop?

    It compares what loops carry, whose steps are the same in all rounds: so it never turns out the other way. Of what
    another number decides, of which none have been seen, they tell nothing.
    """
    program, found = sweep.program, False
    keys = program.conditions.keys_now(program.watches[number].condition)
    if keys & sweep.unseen or are_in(program, program.watches[number].condition.name):
        return False  # other blocks may draw any number of tickets between
    for pair in program.watches[number].compared:
        for runs in sweep.rounds.values():
            seen = [one[number, pair] for one in runs if (number, pair) in one]
            half = len(seen) // 2
            found |= len(seen) >= _SAMPLES
            if half and (min(seen) < 0 or min(seen[half:]) < min(seen[:half])):
                return False
    return found


def count(sweep: Sweep, base: Values) -> None:
    """Let parameters that say how many arrive or meet, and where, take other values that a launch may give them."""
    conditions = sweep.program.conditions
    for name, (line, keys) in conditions.counted().items():
        for key in sorted(keys - sweep.fixed.keys()):
            sweep.counted.add(key)
            seen: set[int] = set()
            for value in COUNTS:
                values = {**base, key: value * sweep.program.multiple(key)}
                (number,) = conditions.outcomes([name], values)
                if number is None:
                    sweep.unproven[line, f"{name}, which {key} decides, is not followed"] = None
                    break
                if sweep.late:
                    return
                if isinstance(number, int) and number not in seen:
                    seen.add(number)
                    before = len(sweep.unproven)
                    sweep.run(values, meant=False)
                    if len(sweep.unproven) > before:
                        break  # one example is enough


def switch(sweep: Sweep, base: Values, steps: Values, most_together: int = MOST_TOGETHER) -> None:
    """Run with each few of the parameters that steer no loop and decide what is half seen set to nothing.

    What has nothing to do alone, and breaks, is not tried with others: it will be left out, or is an error. Nor are
    several that turn nothing round by what can be computed.
    """
    wrong: list[Values] = []
    for several in _switched(sweep, base, steps, most_together):
        listed = [values for values in several if not any(one.items() <= values.items() for one in wrong)]
        listed = [values for values in listed if len(values) == 1 or _may_turn(sweep, {**base, **values})]
        run_ahead(sweep, ({**base, **values} for values in listed))
        for values in listed:
            if sweep.late or not any(map(_half_seen, sweep.program.watches)):
                return
            if sweep.launch({**base, **values}) is not None:
                before = len(sweep.failing)
                sweep.shown({**base, **values})
                failing = sweep.failing[before:]
                if failing and all(one.of_nothing for one in failing) and not sweep.dropped({**base, **values}):
                    wrong.append(values)


def without_pointers(sweep: Sweep, base: Values) -> bool:
    """Run with each of the pointers that decide what is half seen null; return whether that breaks."""
    for name in sorted(filter(sweep.program.is_pointer, _half_seen_by(sweep)))[:MOST_SWITCHES]:
        if not sweep.late and not sweep.findings:
            sweep.shown({**base, name: 0})
    return bool(sweep.findings)


def _may_turn(sweep: Sweep, values: Values) -> bool:
    """May a launch with these values turn round one of the conditions that have turned out in one way only?"""
    conditions, half = sweep.program.conditions, filter(_half_seen, sweep.program.watches)
    return any(conditions.may_turn(watch.condition, values, (TRUE | FALSE) ^ watch.seen) for watch in half)


def with_room(sweep: Sweep, base: Values, keys: Set[str], rounds: int = ROOM_ROUNDS) -> Values:
    """Return values with room for some tiles along all parameters on which a condition does not depend.

    `rounds`: of a parameter's loop, at most.
    """
    program = sweep.program
    room = {
        name: round_up(max(min(ROOM, rounds * (sweep.steps.get(name) or ROOM)), value), program.multiple(name))
        for name, value in base.items()
        if name in program.decisive
        and name not in keys | sweep.factors | program.roles.dividing.keys()
        and not name.startswith(("%", "["))
    }
    return {**base, **{name: value for name, value in room.items() if not program.is_pointer(name)}}


def _out_of_reach(sweep: Sweep, watch: Watch, free: Set[str], bases: list[Values], steps: Values) -> bool:
    """Do all values with which a condition would turn out the other way lead past it?"""
    conditions, wanted = sweep.program.conditions, (TRUE | FALSE) ^ watch.seen
    count = 0
    for values in conditions.flips(watch.condition, free, wanted, bases[:1], steps):
        if count == MOST_PAST or _leading_to(sweep, watch, values, bases) is not None:
            return count == MOST_PAST
        count += 1
    return count >= LEAST_PAST


def _all_switched(sweep: Sweep, names: Set[str], base: Values) -> bool:
    """Run with each way to switch some parameters; return whether that was possible, so that nothing else comes."""
    if len(names) > MOST_SWITCHES:
        return False
    listed = []
    for zeros in product((False, True), repeat=len(names)):
        values = dict(base)
        for name, zero in zip(sorted(names), zeros, strict=True):
            pointer = sweep.program.pointer(name) if sweep.program.is_pointer(name) else None
            values[name] = 0 if zero else values.get(name) or pointer or 1
        listed.append(values)
    run_ahead(sweep, listed)
    for values in listed:
        if sweep.late:
            return False
        if sweep.launch(values) is not None:
            sweep.shown(values)
    return True


def _half_seen_by(sweep: Sweep) -> Counter[str]:
    """Return what decides conditions that have turned out in one way only, with how many of them."""
    program, fixed = sweep.program, set(sweep.fixed)
    half = (watch.condition for watch in program.watches if _half_seen(watch))
    return Counter(key for condition in half for key in program.conditions.keys_now(condition) - fixed)


def _switched(sweep: Sweep, base: Values, steps: Values, most_together: int) -> Iterator[list[Values]]:
    program, counts = sweep.program, _half_seen_by(sweep)
    names = sorted((n for n in counts if n not in steps and not n.startswith("%")), key=lambda n: (-counts[n], n))
    if len(names) < 2:
        return
    names, left = names[:MOST_SWITCHES], MOST_SWITCHED
    for together in range(1, most_together + 1):
        listed = list(combinations(names, together))[:left]
        left -= len(listed)
        yield [{n: int(base.get(n) == 0 and not program.is_pointer(n)) for n in chosen} for chosen in listed]


def _turned(sweep: Sweep, number: int, watch: Watch, bases: list[Values], steps: Values) -> bool:
    """Has a condition turned out both ways, after runs with values that may turn it, or need it not?"""
    conditions = sweep.program.conditions
    free = conditions.keys_now(watch.condition) - set(sweep.fixed)
    if not free:
        return True
    wanted, tried, dropped, before = (TRUE | FALSE) ^ watch.seen, 0, 0, sweep.work
    left_out = bool(sweep.excused.outcomes.get(number, 0) & wanted)
    roomy = with_room(sweep, bases[0], frozenset())
    several = [bases[0], roomy, with_room(sweep, bases[0], frozenset(), ROOM)]
    alike: list[Shown] = []
    come = _least_coming(sweep, number)  # other values of what decides it may do there what they do nowhere else
    _try_parts_of_rounds(sweep, number, watch, free)
    _run_until_turned(sweep, watch, _rounds_among_few(sweep, bases, steps) if watch.compared else ())
    flips = conditions.flips(watch.condition, free, wanted, [*bases, *several[1:]], steps)
    for values, first in _in_reach_first(sweep, watch, flips, several):
        ended = sweep.late or sweep.work - before > _TRIED_WORK
        if tried == MOST_TURNED or dropped == MOST_PAST or ended or not _half_seen(watch):
            break
        if sweep.leaves_out({**first, **values}):
            left_out = True
            continue
        _run_until_turned(sweep, watch, [{**come, **values}] if come else [])
        turned = not _half_seen(watch)
        shown = sweep.shown({**first, **values}, _MOST_WORK)  # the least launch that comes there may do nothing else
        if turned:
            break
        tried += 1
        if _half_seen(watch) and _like_earlier(shown, alike):
            continue
        for base in bases[1:]:
            sweep.shown({**base, **values}, _MOST_WORK)
        if sweep.dropped({**first, **values}):
            dropped, left_out, tried = dropped + 1, True, tried - 1
            continue
        later = {key: value + LATER * steps[key] for key, value in values.items() if steps.get(key)}
        tiles = with_room(sweep, bases[0], watch.condition.keys)
        # A part of a round that is not the first, and tiles, may be what it takes.
        more = ([{**first, **values, **later}] if later else []) + [{**tiles, **values}, {**roomy, **values}]
        _run_until_turned(sweep, watch, more)
    if sweep.late or not _half_seen(watch) or watch.condition.keys & sweep.fixed.keys():
        return True  # where it is late, all is left open
    if not tried and (left_out or conditions.same_for_blocks(watch.condition, free, watch.seen, bases[0])):
        return True
    if free and _out_of_reach(sweep, watch, free, several, steps):
        return True
    if free <= conditions.switches and _all_switched(sweep, free, bases[0]):
        return True
    _run_until_turned(sweep, watch, neighbours(_coming(sweep, number), steps))
    return not _half_seen(watch)


def neighbours(coming: list[Values], steps: Values) -> Iterator[Values]:
    """Yield launches with one round of a loop more or less than the least and the greatest that come to a condition.

    An even number of rounds may be what it takes. Blocks stay as they are, and those of no usual launch are left out.
    """
    few = [one for one in coming if all(value < BLOCKS for name, value in one.items() if name.startswith("%"))]
    sizes = {name: step for name, step in steps.items() if not name.startswith("%")}
    for come in few[:1] + few[-1:]:
        for name, step in sizes.items():
            yield from ({**come, name: come[name] + more} for more in (step, -step) if come[name] + more >= 0)


def _run_until_turned(sweep: Sweep, watch: Watch, listed: Iterable[Values]) -> None:
    """Run launches one by one until a condition has turned out both ways."""
    for values in listed:
        if _half_seen(watch) and not sweep.late:
            sweep.shown(values, _MOST_WORK)


def _rounds_among_few(sweep: Sweep, bases: list[Values], steps: Values) -> Iterator[Values]:
    """Yield launches with each number of rounds of one loop up to a turn of the ring, while others run once.

    Where a loop around it runs twice, a ring is left at every other stage alone.
    """
    for name, step in steps.items():
        for number in range(2, sweep.program.conditions.stages + 2):
            yield {**bases[1], name: sweep.more(name, step, number)}


def _try_parts_of_rounds(sweep: Sweep, number: int, watch: Watch, free: Set[str]) -> None:
    """Run launches that come to a condition with other parts of a round, so that it may turn out the other way.

    What is left of a parameter may be looked at only after rounds that are unrolled, to which small values do not come.
    """
    conditions, wanted = sweep.program.conditions, (TRUE | FALSE) ^ watch.seen
    values = _least_coming(sweep, number)
    keys = sorted(key for key in free & values.keys() if sweep.steps.get(key, 0) > 1 and not key.startswith("%"))
    near = conditions.crossings(watch.condition) if keys else {}
    parts = ((key, part) for key in keys for part in sorted({value % sweep.steps[key] for value in near.get(key, ())}))
    others = ({**values, key: values[key] // sweep.steps[key] * sweep.steps[key] + part} for key, part in parts)
    turning = (one for one in others if (conditions.outcome(watch.condition, one) or 0) & wanted)
    for other in islice(turning, MOST_PARTS):
        sweep.shown(other, _MOST_WORK)
        if sweep.late or not _half_seen(watch):
            return


def _in_reach_first(
    sweep: Sweep, watch: Watch, flips: Iterable[Values], bases: list[Values]
) -> Iterator[tuple[Values, Values]]:
    """Yield values, each with the first base with which they lead to a condition.

    Those that lead past it with each come last, with the first base, since few are tried.
    """
    past: list[Values] = []
    for values in flips:
        base = bases[0]
        if len(past) < MOST_PAST:
            found = _leading_to(sweep, watch, values, bases)
            if found is None:
                past.append(values)
                continue
            base = found
        yield values, base
    yield from ((values, bases[0]) for values in past)


def _leading_to(sweep: Sweep, watch: Watch, values: Values, bases: list[Values]) -> Values | None:
    """Return the first base that, with some values, leads to a condition and may turn it; None where none does."""
    conditions, condition, wanted = sweep.program.conditions, watch.condition, (TRUE | FALSE) ^ watch.seen
    for number, base in enumerate(bases):
        tried = {**base, **values}
        outcome = conditions.outcome(condition, tried) if number else wanted
        if (outcome is None or outcome & wanted) and not conditions.out_of_reach(condition, tried):
            return base
    return None


def _like_earlier(shown: Shown | None, earlier: list[Shown]) -> bool:
    """Has a run gone like an earlier one, so that other values beside make no other difference either? Keep it else."""
    if shown is None:
        return False
    if any(map(shown.is_like, earlier)):
        return True
    earlier.append(shown)
    return False


def _tells_more(sweep: Sweep, outcomes: bytes | None) -> bool:
    """Did an earlier run take ways that are excused, but may be open to launches that are not left out?"""
    excused = sweep.excused.outcomes
    half = ((n, excused.get(n, 0) & ~w.seen) for n, w in enumerate(sweep.program.watches) if _half_seen(w))
    return any(missing and (outcomes is None or outcomes[n] & missing) for n, missing in half)


def turn(sweep: Sweep, bases: list[Values], steps: Values) -> None:
    """Try to let every condition that a launch decides turn out both ways; say where it does not.

    Launches that break since they have nothing to do, or that are dropped and leave operations unreached, end it: a
    sweep without such follows, or there is an error.
    """
    program = sweep.program
    for values, outcomes in sweep.earlier:  # what these took is excused only where the launches are left out
        if not sweep.late and _tells_more(sweep, outcomes):
            sweep.shown(values)
    switch(sweep, bases[0], steps)
    open_ = []
    settled = _settled(sweep, _run_parts(sweep, steps))
    for number, watch in enumerate(program.watches):
        if not _half_seen(watch) or watch.condition.name in settled:
            continue
        small = sweep.findings or (sweep.missed and sweep.failing)
        if sweep.late or (small and all(one.of_nothing for one in sweep.failing)):
            return
        if not _turned(sweep, number, watch, bases, steps):
            if not left_to_few_blocks(sweep, watch):
                open_.append(watch.condition)
        elif _half_seen(watch) and program.conditions.computed_once(watch.condition.name):
            settled.add(watch.condition.name)
    used = {c.name for c in open_ if c.used}
    for condition in open_:
        if condition.used or condition.name not in used:
            sweep.unproven[condition.line, f"the other way of this {condition.what} was never taken"] = None
    for at, (count, _) in program.tables.items():
        taken = {case for place, case in program.cases | sweep.excused.cases if place == at}
        if taken and len(taken) < count:
            missing = ", ".join(str(n) for n in range(count) if n not in taken)
            sweep.unproven[program.lines[at], f"ways {missing} of this branch were never taken"] = None

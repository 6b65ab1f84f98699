"""Preconditions of a launch: the least values of parameters from which a kernel that breaks for smaller ones is right.

Many kernels take for granted that there is something to do: one tile, or as many rounds as their ring has stages. Runs
that go wrong say for which values; here the least ones are found from which the same runs are right, and the kernel is
swept again from there. Only if nothing is wrong then is it proven, under that condition. What breaks for a size that
is no small one, or for one above a size that is right, is an error of the kernel, and so is a race for any size but
zero, unless it is that of a wait which few rounds may overtake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from legalsat.analyses.ptx.findings import Undecided
from legalsat.analyses.ptx_machine.launches.together import going_alike
from legalsat.analyses.ptx_machine.program import Seen
from legalsat.extract.check.ptx_ahead import run_ahead
from legalsat.extract.check.ptx_failure import Failure, Values
from legalsat.extract.check.ptx_known import key_of
from legalsat.extract.check.ptx_preconditions import Precondition
from legalsat.extract.check.ptx_relations import Relation, Tried, relation_of
from legalsat.extract.check.ptx_sweep import MANY_WORK, Sweep
from legalsat.extract.check.ptx_values import MANY, find_steps, least_of, sweep_all
from legalsat.logic import round_up

MOST = 4096  # that a least value may be, or
MOST_ROUNDS = 8  # rounds of the parameter's loop
_GROWTH = 4  # from one guess to the next
_ROUNDS = (1, 2)  # of several loops that are tried together
_SWEEPS = 5  # that begin at other least values
_PROBES = 3
_PARTS = 8  # of a least value that are tried, all but the whole
_MANY = 2  # tiles of each CTA of a cluster, with which all have some
_FEW = 3  # parameters that are looked for one by one
_PROBE_WORK = 50_000  # instructions of one run of one CTA that looks for a least value
_Key: TypeAlias = tuple[tuple[str, int], ...]  # of a launch


def sweep_from_least(first: Sweep) -> tuple[Sweep, tuple[Precondition, ...]]:
    """Sweep a kernel; where it goes wrong, again without launches that are too small for it.

    Args:
        first: a sweep that nothing has been run of.

    Returns:
        The sweep to go by, and what it takes for granted.
    """
    try:
        return _from_least(first)
    except Undecided:
        if first.late:
            _leave_open_what_is_small(first, known=False)
        raise


def _from_least(first: Sweep) -> tuple[Sweep, tuple[Precondition, ...]]:
    shared = _shared_out(first)
    if shared:
        first = Sweep(first.program, first.fixed, dict(first.boxes), first.most - first.work, known=first.known)
        first.least = {name: one.least for name, one in shared.items() if one.least}
        first.whole = {name: one.multiple for name, one in shared.items() if one.multiple > 1}
        first.program.roles.multiples.update(first.whole)
        sweep, conditions = _by_the_least(first)
        return sweep, (*(one for name, one in shared.items() if all(name != c.name for c in conditions)), *conditions)
    return _by_the_least(first)


def _shared_out(first: Sweep) -> dict[str, Precondition]:
    """Return what parameters must be for each CTA of a cluster to get as much of what tables say as the others.

    Where it hangs when all of them are the least there are, and is right when all are as many as the CTAs, those that
    cannot be less are multiples of that if they steer a loop, or at least so many.
    """
    program = first.program
    if program.ranks == 1 or not program.steering_tables:
        return {}
    sweep = Sweep(program, first.fixed, dict(first.boxes), first.most, known=first.known)
    ones = least_of(sweep)
    search = _Search(sweep, dict(sweep.boxes), sweep.most)
    sweep.shown(ones)
    wrong = _wrong(sweep, ones)
    others = program.roles.dividing.keys() | program.roles.floats
    names = [n for n in ones if not n.startswith(("%", "[")) and not program.is_pointer(n) and n not in others]
    raised = {n: round_up(max(ones[n], program.ranks), program.multiple(n)) for n in names}
    found: dict[str, Precondition] = {}
    if wrong is not None and wrong.hangs and search.is_right({**ones, **raised}):
        looping = program.looping
        for name in sorted(names, key=lambda n: n in looping):
            less = {**raised, name: ones[name]}
            if less != raised and search.is_right({**ones, **less}):
                raised = less
        kept = {name for name in names if raised[name] != ones[name]}
        for name in kept:
            least, multiple = (0, program.ranks) if name in looping else (program.ranks, 1)
            found[name] = Precondition(name, least, wrong.line, wrong.reason, multiple)
    first.work, first.runs = sweep.work + search.work, sweep.runs + search.runs
    program.forget()
    return found


def _by_the_least(first: Sweep) -> tuple[Sweep, tuple[Precondition, ...]]:
    ones = find_steps(first)
    failing = _wrong_at_once(first, ones)
    if not failing:
        return _from(first)
    # Most of a sweep would be spent on launches that a condition leaves out: it is made anew with that condition.
    program, earlier, taken = first.program, first.shown_so_far, first.program.forget()
    search = _Search(first, dict(first.boxes), first.most - first.work)
    first.failing = [one for one in failing if one.values == ones]  # of nothing along an axis others hang, too
    shared = search.shared_tiles() if first.failing else {}
    first.failing = failing
    least = {} if shared else search.from_the_least(ones)
    program.forget()  # what a search takes is no part of any sweep
    work, runs = first.work + search.work, first.runs + search.runs
    sweep = Sweep(program, first.fixed, dict(first.boxes), first.most - work, known=first.known)
    sweep.whole, sweep.least = first.whole, first.least
    if shared or least:
        sweep.whole = first.whole | {name: one.multiple for name, one in shared.items()}
        sweep.least = first.least | {name: one.least for name, one in least.items()}
        sweep.excused, sweep.earlier, sweep.number = taken, earlier, first.number + 1
        program.roles.multiples.update(sweep.whole)
    sweep, conditions = _from(sweep)
    sweep.work, sweep.runs = sweep.work + work, sweep.runs + runs
    if any(one.least > most_of(sweep, name) for name, one in least.items()):  # none that is small, as is seen by now
        program.forget()
        again = Sweep(program, first.fixed, dict(first.boxes), first.most - sweep.work, known=first.known)
        again.whole, again.least = first.whole, first.least
        return _from(again)
    raised = {one.name for one in conditions}
    return sweep, (*shared.values(), *(one for one in least.values() if one.name not in raised), *conditions)


def _wrong_at_once(sweep: Sweep, ones: Values) -> list[Failure]:
    """Return in what the least launch, and those of nothing along one parameter, end if they end badly.

    None where the least one neither hangs nor is dropped but breaks, or is right and greater ones are wrong: then it is
    not that there is too little.
    """
    program = sweep.program
    sizes = ones.keys() & program.decisive - program.roles.floats
    names = [n for n in sizes if not n.startswith(("%", "[")) and not program.is_pointer(n) and ones[n]]
    empty: list[Values] = [{**ones, name: 0} for name in sorted(names)]
    if len(empty) >= MANY:
        run_ahead(sweep, empty, MANY_WORK)
    for values in empty:
        if not sweep.late:
            sweep.shown(values, MANY_WORK)
    found = [one for values in sweep.ran if (one := _wrong(sweep, values)) is not None]
    least_is_right = all(one.values != ones for one in found)
    for one in found:
        too_little = one.values in empty or (not least_is_right and (one.hangs or sweep.dropped(one.values)))
        if not too_little:
            return []
    return found


def _wrong(sweep: Sweep, values: Values) -> Failure | None:
    """Return in what a launch ends if it ends badly, be the bytes of boxes known by then or not."""
    known = [one for one in sweep.failing if one.values == values]
    run = sweep.made.get(key_of(values))
    if run is not None:
        wrong = [one for one in run.order.findings.values() if one.level == "error"]
        known += [Failure(dict(values), f.line, f.message, f.of_nothing, f.of_any_size, f.hangs) for f in wrong]
    return min(known, key=lambda one: (one.hangs, one.line), default=None)


def _hanging(sweep: Sweep, values: Values) -> bool:
    """Does somebody wait in vain in a launch, and nothing else go wrong?"""
    wrong = _wrong(sweep, values)
    return wrong is not None and wrong.hangs


def _from(first: Sweep) -> tuple[Sweep, tuple[Precondition, ...]]:
    program, boxes, fixed, most = first.program, dict(first.boxes), dict(first.fixed), first.most
    multiples = program.roles.multiples
    before = dict(multiples)
    _sweep(first)
    sweep, work, runs, reached = first, first.work, first.runs, program.reached
    found: dict[str, Precondition] = {}
    shared: dict[str, Precondition] = {}
    tried = Tried()
    seen, earlier, cut = first.excused, first.earlier, False
    for number in range(_SWEEPS):
        if not sweep.failing or (not sweep.findings and not sweep.missed):
            break
        earlier += sweep.shown_so_far
        taken = program.forget()
        seen = Seen({n: w | seen.outcomes.get(n, 0) for n, w in taken.outcomes.items()}, seen.cases | taken.cases)
        search = _Search(sweep, boxes, most - work)
        tried.add(sweep)
        more = {} if shared else search.shared_tiles()
        shared |= more
        if not more:
            # Where least values are asked for in vain, or again and again, it is a relation of parameters.
            more = search.preconditions(found) if not number else {}
            related = {} if shared or sweep.relation is not None else search.related(tried, more)
            more = related or more or (search.preconditions(found) if number else {})
            found = related or found | more
        work, runs, cut = work + search.work, runs + search.runs, cut or bool(search.unended)
        program.forget()
        if not more or work > most:
            break
        whole = first.whole | {name: one.multiple for name, one in shared.items()}
        multiples |= whole
        least = first.least | {n: round_up(one.least, whole.get(n, 1)) for n, one in found.items() if one.least}
        sweep = Sweep(program, fixed, dict(boxes), most - work, least=least, whole=whole, known=first.known)
        sweep.excused, sweep.earlier, sweep.number = seen, earlier, first.number + number + 1
        sweep.relation = next((one.relation for one in found.values() if one.relation is not None), None)
        _sweep(sweep)
        work, runs = work + sweep.work, runs + sweep.runs
        if any(one.least > most_of(sweep, name) for name, one in found.items()):
            break
        if sweep.ran and not sweep.findings and not sweep.missed:
            sweep.work, sweep.runs = work, runs
            return sweep, (*shared.values(), *found.values())
    multiples.clear()
    multiples |= before
    program.reached = reached
    if sweep is not first and (first.findings or sweep.findings):  # what goes wrong beside what could be left out
        first.findings = sweep.findings | first.findings
        first.failing += sweep.failing
    first.work, first.runs = work, runs
    if first.late or work > most:
        _leave_open_what_is_small(first, known=bool(found or shared))
    elif cut and len(first.failing) < len(first.ran):  # some are right, so that others may be too small
        _leave_open_what_is_small(first, known=False)
    return first, ()


def _sweep(sweep: Sweep) -> None:
    """Run a kernel for all values that tell, and note what keeps it from that: what an earlier sweep says stays."""
    try:
        sweep_all(sweep)
    except Undecided as stop:
        late = stop.reason == sweep.program.bounds.reason
        sweep.unproven[0 if late else stop.line or sweep.program.kernel.line, stop.reason] = None


def _leave_open_what_is_small(sweep: Sweep, *, known: bool) -> None:
    """Call nothing wrong that breaks for the least sizes, or that a right run exceeds: no time was left.

    `known`: preconditions are known that leave out all that goes wrong; whether others do then, there was no time for.
    """
    program = sweep.program
    wrong = [one.values for one in sweep.failing]
    right = [values for values in sweep.ran if values not in wrong]

    def small(values: Values) -> bool:
        sizes = [n for n in values if n in program.decisive and not n.startswith("%") and not program.is_pointer(n)]
        least = any(values[n] <= program.multiple(n) for n in sizes)
        return least or any(more.get(name, n) > n for more in right for name, n in values.items())

    if all((one.of_nothing or _empty(sweep, one)) and (known or small(one.values)) for one in sweep.failing):
        for finding in sweep.findings.values():
            reason = f"{finding.message}; whether that is so for small launches alone is not decided in time"
            sweep.unproven[finding.line, reason] = None
        sweep.findings.clear()


def _empty(sweep: Sweep, failure: Failure) -> set[str]:
    """Return the sizes that are zero, so that it may break: nobody multiplies or copies what has no elements.

    Where only whole tiles count, less than one is as good as none.
    """
    if failure.of_any_size:
        return set()
    program, values = sweep.program, failure.values
    named = (n for n in values if n in program.decisive and not n.startswith(("%", "[")) and not program.is_pointer(n))
    return {n for n in named if values[n] < sweep.steps.get(n, 0) and (not values[n] or _as_none(sweep, values, n))}


def _as_none(sweep: Sweep, values: Values, name: str) -> bool:
    """Does a run go as if a parameter were nothing?"""
    one, none = sweep.shown(values), sweep.shown({**values, name: 0})
    return one is not None and none is not None and one.visits == none.visits and one.accesses == none.accesses


def most_of(sweep: Sweep, name: str) -> int:
    """Return the greatest value that a condition may ask for, by what a sweep has shown of the parameter's loops."""
    step = sweep.steps.get(name, 0)
    return MOST_ROUNDS * step if step else MOST


class _Search:
    """Looks for the least values from which runs that went wrong are right; `unended`: probes that took too long."""

    def __init__(self, sweep: Sweep, boxes: dict[str, int], most: int) -> None:
        self.sweep, self.boxes, self.most = sweep, boxes, most
        self.work = self.runs = 0
        self._known: dict[_Key, bool] = {}
        self._reached, self.unended = set[int](), set[_Key]()

    def shared_tiles(self) -> dict[str, Precondition]:
        """Return parameters of which each CTA of a cluster must get as many tiles as the others.

        A launch in which they do not is none that is meant if the least of them hangs, whatever greater ones end in,
        and right ones come to where it hangs: else it is what such launches alone do that is wrong. What is wrong for
        want of work and hangs nobody is another condition's affair.
        """
        ranks = self.sweep.program.ranks
        if ranks == 1:
            return {}
        meant = [one for one in self.sweep.failing if not self.sweep.dropped(one.values)]
        listed = sorted(meant, key=lambda one: sum(map(abs, one.values.values())))
        for name, step in self.sweep.steps.items():
            multiple = step * ranks
            uneven = [one for one in listed if step and one.values.get(name, 0) % multiple]
            uneven = [one for one in uneven if one.hangs or not one.of_nothing]
            if not uneven or not uneven[0].hangs or not all(one.of_nothing or one in uneven for one in listed):
                continue
            many = {**uneven[0].values, name: _MANY * multiple + step}
            if self.is_right(many) or key_of(many) in self.unended:
                continue  # it is that some have none, or that is not known
            whole = [{**one.values, name: round_up(one.values[name], multiple)} for one in uneven]
            line, reason = uneven[0].line, uneven[0].reason
            if all(map(self.is_right, whole[:_PROBES])) and self._comes_to(line, whole[_PROBES:][-_PROBES:]):
                return {name: Precondition(name, 0, line, reason, multiple)}
        return {}

    def related(self, tried: Tried, instead: dict[str, Precondition]) -> dict[str, Precondition]:
        """Return a relation of parameters that all launches break which hang for want of work, and no right one.

        `instead`: least values that tell them apart as well, of which a launch says that they are not enough.
        """
        first = tried.wrong[0] if tried.wrong and all(one.of_nothing and one.hangs for one in tried.wrong) else None
        wrong = [one.values for one in tried.wrong]
        found = relation_of(self.sweep.steps, wrong, tried.right) if first is not None else None
        if first is None or found is None:
            return {}
        if instead and not self._not_enough(wrong[0], instead, found):
            return {}
        # Where it is kept to, the same place is come to, and all is right: else it is what such launches alone do.
        kept = [{**one, found.most: found.needed(one)} for one in wrong]
        if not all(map(self.is_right, kept[:_PROBES])) or not self._comes_to(first.line, kept[_PROBES:][-_PROBES:]):
            return {}
        return {found.counted: Precondition(found.counted, 0, first.line, first.reason, relation=found)}

    def _not_enough(self, values: Values, least: dict[str, Precondition], relation: Relation) -> bool:
        """Does a launch hang that has the least values of parameters, in twice as many parts as a relation allows?"""
        raised = {**values, **{name: max(one.least, values.get(name, 0)) for name, one in least.items()}}
        more = relation.doubled(raised)
        return more is not None and not self.is_right(more) and key_of(more) not in self.unended

    def _comes_to(self, line: int, more: list[Values]) -> bool:
        """Does a launch that is right come to an operation, one of those that were tried or one of a few more?"""
        places = {at for at, one in self.sweep.program.covered.items() if one == line}
        return not places or any(
            places & self._reached for values in [{}, *more] if not values or self.is_right(values)
        )

    def preconditions(self, known: dict[str, Precondition]) -> dict[str, Precondition]:
        """Return preconditions that leave out every run that went wrong; none where there are no such."""
        found, told = dict[str, Precondition](), set[str]()
        listed = sorted(self.sweep.failing, key=lambda one: sum(map(abs, one.values.values())))
        if not all(one.of_nothing or _empty(self.sweep, one) for one in listed):
            return {}
        for failure in listed:
            values, line, reason = failure.values, failure.line, failure.reason
            excused = {n: one.least for n, one in found.items() if values.get(n, one.least) < one.least}
            if excused and not failure.hangs:
                continue
            if any(self._right_only_above(failure, {name: least}) for name, least in excused.items()):
                continue
            raised = self._raised(failure)
            if raised is None or not (failure.of_nothing or self._only_not_empty(failure, raised)):
                return {}
            if excused and not all(least <= excused.get(name, 0) for name, least in raised.items()):
                return {}  # else fewer are enough here, as where a row begins within a tile that is counted whole
            for name, least in raised.items():
                if name not in found or found[name].least < least:
                    found[name] = Precondition(name, least, line, reason, pointer=self.sweep.program.is_pointer(name))
        for failure in listed:  # a launch that lacks one thing tells what breaks for want of it
            short = [name for name, one in found.items() if failure.values.get(name, one.least) < one.least]
            if len(short) == 1 and not told & set(short):
                told |= set(short)
                found[short[0]] = replace(found[short[0]], line=failure.line, below=failure.reason)
        smallest = {name: min(other.values.get(name, one.least) for other in listed) for name, one in found.items()}
        return {name: one for name, one in found.items() if smallest[name] < one.least or name in known}

    def from_the_least(self, ones: Values) -> dict[str, Precondition]:
        """Return from which values of parameters on small launches are no longer wrong; none where that is not plain.

        With less than these, but some, launches must be wrong too, and those of several tiles: else it is no
        precondition that it is too little, and all launches that a sweep makes are to be looked at.
        """
        found, steps = self.preconditions({}), self.sweep.steps
        others = [name for name, step in steps.items() if step and not name.startswith("%") and name not in found]
        two = {name: self.sweep.more(name, steps[name], 2) for name in others[:1]}
        for name, one in found.items():
            step = steps.get(name, 0)
            if not step and one.least > 1:
                return {}
            # How large a round is may not be known, where somebody hangs before there is a second one.
            rounds = range(step or 1, one.least, step or 1)
            less = {one.least * part // _PARTS for part in range(1, _PARTS)} - {0}
            if any(self.is_right({**ones, name: n}) for n in sorted({*rounds, *less})):
                return {}
            if two and any(self.is_right({**ones, **two, name: n}) for n in rounds):
                return {}
        return found

    def _only_not_empty(self, failure: Failure, raised: Values) -> bool:
        """Is all that is asked for of a launch that sizes are not zero?"""
        empty, steps = _empty(self.sweep, failure), self.sweep.steps
        return all(n in empty and least <= max(steps[n], self.sweep.program.multiple(n)) for n, least in raised.items())

    def _raised(self, failure: Failure) -> Values | None:
        """Return the least values of some parameters from which a run is right; None where it never is."""
        values = failure.values
        names = [n for n in values if n in self.sweep.program.decisive and not n.startswith("%")]
        others = self.sweep.program.roles.dividing
        names = [n for n in names if n not in others and not self.sweep.program.is_pointer(n)]
        names.sort(key=lambda n: not self.sweep.steps.get(n))  # counts of rounds before all else
        for name in (n for n in values if values[n] == 0 and self.sweep.program.is_pointer(n)):
            pointer = self.sweep.program.pointer(name)
            if pointer is not None and self.is_right({**values, name: pointer}):
                return {name: 1}
        for chosen in self._chosen(values, names):
            for guessed in self._guesses(values, chosen):
                more = {**values, **guessed}
                right = self.is_right(more)
                if key_of(more) in self.unended:
                    break  # greater ones take longer still
                if right:
                    guess = self._needed(values, guessed)
                    for name in guess:
                        guess[name] = self._lowest(guess[name], values[name], self._at(values, guess, name))
                    raised = {name: least for name, least in guess.items() if least > values[name]}
                    if any(self._right_before(values, guess, name) for name in raised):
                        return None
                    return raised if self._right_only_above(failure, raised) else None
        return None

    def _chosen(self, values: Values, names: list[str]) -> Iterator[list[str]]:
        """Yield parameters that are raised: each that counts rounds, each other one that tells, and all of them."""
        counts = [n for n in names if self.sweep.steps.get(n)]
        yield from ([n] for n in counts)
        yield from ([n] for n in self._telling(values, [n for n in names if n not in counts]))
        if len(names) > 1:
            yield names

    def _telling(self, values: Values, names: list[str]) -> list[str]:
        """Return the parameters that make a difference to a launch that goes wrong, by the least or the greatest guess.

        Most launches that are guessed go the very way of the one that goes wrong, and end as it does. All of them are
        run with it for as long as they do, so that one run tells which parameters are worth a search. What it leaves
        out can only miss a condition, so that what goes wrong stays an error or is left open.
        """
        if len(names) <= _FEW:
            return names
        guesses = {name: list(self._guesses(values, [name])) for name in names}
        tried = {name: (found[:1] + found[1:][-1:]) for name, found in guesses.items()}
        listed = [{**values, **guess} for found in tried.values() for guess in found]
        probe = self._probe()
        held = [probe.launch({**one, **probe.fixed}) for one in (values, *listed)]
        launches = [one for one in held if one is not None]
        if held[0] is None or len(launches) < len(held):
            return names
        first = probe.begun(launches[0], self._limit, backwards=False)
        alike, work = going_alike(first, launches)
        self.work, self.runs = self.work + work, self.runs + 1
        owners = [name for name, found in tried.items() for _ in found]
        apart = {name for number, name in enumerate(owners, 1) if number not in alike}
        return [name for name in names if name in apart]

    def _needed(self, values: Values, guess: Values) -> Values:
        """Return a guess that is right without half of what it raises, again and again, as long as there is such."""
        names = list(guess)
        for half in (names[: len(names) // 2], names[len(names) // 2 :]) if len(names) > _FEW else ():
            fewer = {name: guess[name] for name in half}
            if self.is_right({**values, **fewer}):
                return self._needed(values, fewer)
        return guess

    def _right_before(self, values: Values, raised: Values, name: str) -> bool:
        """Is a run right with less than the least value that was found, half or three quarters of it?"""
        less = (raised[name] * quarters // 4 for quarters in (2, 3))
        return any(one > values[name] and self.is_right({**values, **raised, name: one}) for one in less)

    def _at(self, values: Values, raised: Values, name: str) -> Callable[[int], bool]:
        return lambda value: self.is_right({**values, **raised, name: value})

    def _guesses(self, values: Values, names: list[str]) -> Iterator[Values]:
        """Yield greater and greater values of some parameters, up to the most that a condition may ask for.

        Of several, rounds of their loops first: as many of each are fewer than what is enough of the longest round.
        """
        steps = {n: self.sweep.steps[n] for n in names if self.sweep.steps.get(n)}
        for rounds in _ROUNDS if len(steps) > 1 else ():
            yield {n: max(values[n], min(rounds * steps.get(n, self.sweep.program.multiple(n)), MOST)) for n in names}
        size = 1
        while size <= MOST:
            raised = {
                n: max(values[n], min(size * self.sweep.program.multiple(n), most_of(self.sweep, n))) for n in names
            }
            if raised != {n: values[n] for n in names}:
                yield raised
            size *= _GROWTH

    def _lowest(self, high: int, low: int, right: Callable[[int], bool]) -> int:
        """Return the least value that is right, of which one is right and one is the least that may be."""
        if right(low):
            return low
        while high - low > 1:
            middle = (low + high) // 2
            if right(middle):
                high = middle
            else:
                low = middle
        return high

    def _right_only_above(self, failure: Failure, raised: Values) -> bool:
        """Were all runs that differ in one parameter alone, and have a smaller one than is asked for, wrong too?

        That nothing breaks where there is nothing to do tells of parts of a round, and of whole ones where somebody
        waits in vain: who has thought of none, and hangs for one, has no precondition but a fault.
        """
        values, steps = failure.values, self.sweep.steps
        wrong = [one.values for one in self.sweep.failing]
        whole = {name for name in raised if failure.hangs and 0 < steps.get(name, 0) <= values[name]}
        smaller = (
            tried
            for tried in self.sweep.ran
            for name, least in raised.items()
            if -(name in whole) < tried.get(name, least) < least and {**tried, name: values[name]} == values
        )
        return all(tried in wrong for tried in smaller)

    def is_right(self, values: Values) -> bool:
        """Does a run with these values keep the contract to its end?"""
        key = key_of(values)
        if key not in self._known:
            self._known[key] = self._tried(values)
        return self._known[key]

    @property
    def _limit(self) -> int:
        """Instructions of a run that looks for a least value."""
        return _PROBE_WORK * (1 + self.sweep.program.ranks) // 2

    def _probe(self) -> Sweep:
        """Return a sweep for one launch beside the others."""
        sweep = self.sweep
        boxes = dict(sweep.boxes if sweep.counts_of else self.boxes)
        return Sweep(sweep.program, sweep.fixed, boxes, known=sweep.known, number=sweep.number)

    def _tried(self, values: Values) -> bool:
        program = self.sweep.program
        if self.work > self.most or program.bounds.reason:
            return False
        probe = self._probe()
        known = probe.run(values, limit=self._limit)
        ended = values in probe.ran and not probe.zeros
        hangs = ended and _hanging(probe, values)  # whatever boxes have
        if ended and probe.unsized and not hangs:
            probe.size_boxes([values])
        self.work += probe.work
        self.runs += probe.runs
        if not (ended or probe.findings or probe.zeros):
            self.unended.add(key_of(values))
        right = ended and not (hangs or probe.findings)
        if right and known is not None:
            self._reached |= program.covered_in(known.ways)
        return right

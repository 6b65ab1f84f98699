"""Runs of one kernel for chosen values of what a launch decides, and what they show together.

Runs are the dear part, so each answers several questions: which loops a parameter makes longer and by which step, after
how many rounds the state of each loop repeats, which ways branches go, and what breaks the contract.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from legalsat.analyses.ptx.boxes import boxes_of, idle_maps, mixed_operands
from legalsat.analyses.ptx.findings import UNWRITTEN, Finding, Undecided
from legalsat.analyses.ptx.loads import Written, mixed_stores, never_read, overlapping
from legalsat.analyses.ptx_machine.alu import NoLaunch
from legalsat.analyses.ptx_machine.launches.alike import Told
from legalsat.analyses.ptx_machine.launches.data import BY_TURNS
from legalsat.analyses.ptx_machine.machine import Run
from legalsat.analyses.ptx_machine.periods import Period, Periods
from legalsat.analyses.ptx_machine.program import Program, Seen
from legalsat.extract.check.ptx_failure import Failure, Values, not_understood
from legalsat.extract.check.ptx_known import Earlier, Known, KnownRuns, Shown, Taken, closed, growing, key_of
from legalsat.extract.check.ptx_relations import Relation
from legalsat.logic import round_up

LEAST_ROUNDS, MOST_ROUNDS = 4, 192  # of one loop that are tried one by one
LEAST_LONG = 9  # rounds of a loop that is long
SPREAD = 8  # rounds between two runs that show how often a head is come to in each
LONG_SPREAD = 32  # the same where a head is come to in few of them
FIRST_APART, LAST_APART = 5, 12  # powers of two: rounds for a loop to run once more
UNROLLED = 16  # rounds that a compiler may put into one
SLACK = 64  # instructions by which a run must be longer to be another
AGAIN = 8  # runs that are made anew when they have shown where stores begin
WIDE = (64, 512)  # of each parameter, for tensors of which threads read whole tiles
LONG = 1 << 20  # rounds that no run makes: it is cut when the states of its loops have repeated
GREATEST_POWER = 12  # of two: parameters that make no difference up to there steer no loop
WORK = 6_000_000  # instructions followed for one kernel, some seconds; what is not tried by then is not proven
RUN_WORK = 800_000  # the same for one run
ONE_RUN_WORK = WORK // 3  # the same where all runs are alike, there are three of them, or share what they follow
MANY_WORK = 50_000  # the same for one of many tiles
LONG_WORK = 100_000  # the same for one that is only to show how rounds grow
MOST_FINDINGS = 20
MAP_BYTES = 128  # of a tensor map among the parameters
# What garbled text may end in; the message shows that something was garbled, and how.
MISREAD = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)


@dataclass
class Sweep:
    """One kernel's runs so far.

    Attributes:
        fixed: values that are given. boxes: bytes of boxes, by map. most: instructions that are followed.
        findings: the one of the smallest example by kind and line. unproven: lines and reasons.
        zeros: lines at which launches were dropped, with what these do there.
        tried: values, by name. periods: of heads, all that were seen. loops: heads that came to rest in no run.
        least, whole: below which launches are left out, and of what parameters are multiples. failing: what went wrong.
        relation: of parameters, to which launches are made to keep.
        excused: ways that conditions and tables took in `earlier` runs, of which some are left out now.
        steps: by how much parameters grow for a loop to run once more.
        empty: by line, bytes of shared memory that nobody had written when they were read.
        first: the first block stands for all, as others have nothing to do where there is little.
        again: how many runs may still be made anew. known: runs of all sweeps of the kernel.
        ahead: runs that were made together with others before they are asked for, by values and what else decides.
        later: by the same, what makes a run that has parted from another one and waits.
        turned: whether runs are made backwards, None for by turns.
        number: of sweeps of the kernel before. idle: maps by which nothing has been copied, and what follows.
        alike: no parameter makes loops longer, so that few runs are made.
        apart: of parameters of which many rounds bring one more visit to a loop, how many these are at least.
        counts_of: parameters that say how many bytes come, with what they must be for the boxes that are assumed.
        made: runs that lack the bytes of boxes, by values.
        alone: by the run that launches shared, what each of them shows there, and by itself.
        most_blocks: the greatest numbers of blocks that are spoken of, by axis, with lines of what turns beyond.
        unseen: parameters of which it is not known whether they steer a loop, as all runs that tell are too long.
        looping: those of which it was looked for a step. beside: those that are added to what a table holds.
        factors: parameters of which the kernel sees but their product with another one, which are left as they are.
    """

    program: Program
    fixed: dict[str, int]
    boxes: dict[str, int]
    most: int = WORK
    runs: int = 0
    work: int = 0
    findings: dict[tuple[str, int], Finding] = field(default_factory=dict)
    warnings: dict[str, Finding] = field(default_factory=dict)
    assumed: dict[str, int] = field(default_factory=dict)
    unproven: dict[tuple[int, str], None] = field(default_factory=dict)
    tried: dict[str, set[int]] = field(default_factory=dict)
    counts: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    periods: dict[int, Period] = field(default_factory=dict)
    _ranks: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    made: dict[tuple[tuple[str, int], ...], Run] = field(default_factory=dict)
    _shown: dict[tuple[tuple[str, int], ...], Shown | None] = field(default_factory=dict)
    sizing: bool = True
    probing: bool = True
    unsized: list[tuple[Values, bool]] = field(default_factory=list)
    rounds: dict[str, list[dict[tuple[int, tuple[int, int, int]], int]]] = field(default_factory=dict)
    counted: set[str] = field(default_factory=set)
    zeros: dict[int, str] = field(default_factory=dict)
    least: Values = field(default_factory=dict)
    whole: Values = field(default_factory=dict)
    relation: Relation | None = None
    failing: list[Failure] = field(default_factory=list)
    excused: Seen = field(default_factory=Seen)
    earlier: list[Earlier] = field(default_factory=list)
    steps: Values = field(default_factory=dict)
    counts_of: Values = field(default_factory=dict)
    most_blocks: dict[str, tuple[int, int]] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)
    looping: set[str] = field(default_factory=set)
    beside: set[str] = field(default_factory=set)
    factors: set[str] = field(default_factory=set)
    empty: dict[int, set[int]] = field(default_factory=dict)
    first: bool = False
    again: int = AGAIN
    number: int = 0
    idle: dict[str, str] = field(default_factory=dict)
    known: KnownRuns = field(default_factory=KnownRuns)
    alike: bool = False
    ahead: dict[tuple[object, ...], Run] = field(default_factory=dict)
    later: dict[tuple[object, ...], Callable[[], None]] = field(default_factory=dict)
    turned: bool | None = None
    apart: Values = field(default_factory=dict)
    alone: dict[int, tuple[Shown, Shown]] = field(default_factory=dict)

    # One run.

    def run(
        self, values: Mapping[str, int], limit: int = RUN_WORK, *, long: bool = False, meant: bool = True,
        anew: bool = False,
    ) -> Known | None:  # fmt: skip
        """Run once, and take over what it shows; None where these values are none that a launch has.

        `long`: until the states of all loops have repeated.
        `meant`: nothing says that a launch never has these values. What breaks otherwise is not proven, no more.
        `anew`: even if it is known what it shows.
        """
        held = self.launch({**values, **self.fixed})
        if held is None:
            return None
        to_its_end = limit == RUN_WORK
        limit = ONE_RUN_WORK if to_its_end and self.alike else limit
        backwards = self.turned_round(self.runs)
        told = self.program.alike.of(held) if values else None
        way = self.way(long=long)
        known = self.known_run(told, backwards, way, limit) if told is not None and not anew else None
        if known is not None:
            return self._take_again(known, values, held, meant=meant)
        periods = Periods(self.program.conditions.stages) if long else None
        run = self._made_ahead((key_of(values), backwards, *way), limit)
        run = run or self.begun(held, limit, periods, backwards=backwards)
        before = run.work
        self.runs += 1
        open_: dict[tuple[int, str], None] = {}
        try:
            run.run()
        except Undecided as stop:
            if run.order.agents == run.order.capacity and self.program.agents:
                self.program.agents, self.runs = 0, self.runs - 1  # there are more than any run had before
                return self.run(values, limit, long=long, meant=meant, anew=anew)
            if not run.endless or to_its_end:
                open_[stop.line, stop.reason] = None
        except NoLaunch as stop:
            self._shown[key_of(values)] = None
            self.zeros[run.line] = str(stop)
            if not long:
                verb, rest = str(stop).split(" ", 1)
                self.failing.append(Failure(dict(values), run.line, f"the kernel {verb}s {rest}", of_nothing=True))
            return None
        except MISREAD as error:
            # Text that no compiler prints; whatever it means, it is not proven.
            open_[run.line, not_understood(error)] = None
        finally:
            self.work += run.work - before
        self.program.agents = max(self.program.agents, run.order.agents)
        if len(self.program.stores.places) > run.stores_known and self.again:
            # How far a store reaches follows from where others begin: those are known only now, so is what was read.
            self.again -= 1
            self.program.written_by_line = Written()
            return self.run(values, limit, long=long, meant=meant, anew=anew)
        shown = None
        if not run.cut and not run.endless:
            shown = Shown.of(run)
            self._shown[key_of(values)] = shown
        taken = self._taken(run, values, held, open_, meant=meant)
        kept, heads = run if taken is None else None, run.periods.found if run.periods is not None else None
        wrong = any(f.level == "error" for f in run.order.findings.values())
        known = Known(shown, taken, kept, run.sized, wrong, heads, run.work, limit, frozenset(run.ways), self.number)
        if taken is None:
            self.unsized.append((dict(values), wrong))
        self.known.keep(self.program.alike, told, (backwards, *way), known)
        return replace(known, run=run)

    def _made_ahead(self, name: tuple[object, ...], limit: int) -> Run | None:
        """Return a run that was made together with others, after it has gone on if it waits; None for none so short.

        One that is wanted to its end has come to it, however long it is: what it shares with others was followed once.
        """
        waiting = self.later.get(name)
        if waiting is not None:
            waiting()
        found = self.ahead.pop(name, None)
        return found if found is not None and (found.work <= limit or limit == RUN_WORK) else None

    def turned_round(self, number: int) -> bool:
        """Does a sweep make its n-th run backwards? Most counts of rounds are, of other runs every other one is."""
        return not self.probing and number % 2 == 1 if self.turned is None else self.turned

    def begun(self, held: Values, limit: int = RUN_WORK, periods: Periods | None = None, *, backwards: bool) -> Run:
        """Return a run of a launch that has not begun."""
        run = Run(self.program, held, self.boxes, limit, periods=periods, backwards=backwards, measures=self.sizing)
        if self.sizing:  # what loads of unknown size leave is read as it was before: that counts for nothing
            run.order.written = Written()
        return run

    def way(self, *, long: bool) -> tuple[object, ...]:
        """Return what else decides how a run goes."""
        return long, *(tuple(one.items()) for one in (self.boxes, self.assumed)), len(self.program.stores.places)

    def known_run(self, told: Told, backwards: bool, way: tuple[object, ...], limit: int = RUN_WORK) -> Known | None:
        """Return a run of a launch that the kernel cannot tell from one.

        A sweep runs launches forwards and backwards by turns; what an earlier one has run in one way, it has run, and
        what is too long in one way is so in the other.
        """
        for turned in (False, True):
            known = self.known.find(told, (backwards ^ turned, *way), limit)
            if known is None or (turned and known.sweep == self.number and known.shown is not None):
                continue
            if known.sweep != self.number and known.lacks(self.program.watches):
                continue
            if known.sized or self.sizing is (known.taken is None):
                return known
        return None

    def _take_again(self, known: Known, values: Mapping[str, int], held: Values, *, meant: bool) -> Known:
        """Take over what a run shows that has been made with values which the kernel cannot tell from these."""
        self.runs += 1
        if known.shown is not None:
            self._shown[key_of(values)] = known.shown
        if known.taken is not None:
            self._take(known.taken, values, held, known.periods, meant=meant)
            return known
        self.unsized.append((dict(values), known.wrong))
        if known.run is not None and known.shown is not None:
            run = self.made[key_of(values)] = copy(known.run)
            run.parameters = held
        return known

    def launch(self, values: Values) -> Values | None:
        """Return values with a grid that has the block; None where they are none that a launch is said to have."""
        if any(values.get(name, least) < least for name, least in self.least.items()):
            return None
        if any(values.get(name, 0) % multiple for name, multiple in self.whole.items()):
            return None
        if self.relation is not None and not self.relation.holds(values):
            if self.relation.most in self.fixed:
                return None
            values = {**values, self.relation.most: self.relation.needed(values)}
        for axis in "xyz":
            block, grid = f"%ctaid.{axis}", f"%nctaid.{axis}"
            if values.get(grid, 1) < 1:
                return None
            if block in values and (grid in self.program.steering or grid in self.fixed):
                more = self.program.multiple(block)
                if values.get(grid, values[block] + more) <= values[block]:
                    return None
                values = {grid: values[block] + more, **values}
        return values

    def leaves_out(self, values: Values) -> bool:
        """Is a launch with these values none that is meant, or changed to keep to the relation of parameters?"""
        kept = self.relation is None or self.relation.holds({**values, **self.fixed})
        return not kept or self.launch(values) is None

    def _taken(
        self, run: Run, values: Mapping[str, int], held: Values, open_: dict[tuple[int, str], None], *, meant: bool
    ) -> Taken | None:
        """Take over what a run shows; return it, None where it has to wait for the bytes of boxes."""
        open_.update(closed(run))
        if not run.sized and self.sizing:
            if not run.endless:
                self.made[key_of(values)] = run
            return None
        if run.order.written is not self.program.written_by_line:
            self.program.written_by_line.add(run.order.written)
        self.program.filled |= run.order.filled
        self.program.written.join(run.order.shared)
        ended = not run.cut and not run.endless  # else what follows on the way that a condition has taken was not run
        if run.sized:
            open_.update(run.order.judge_reads(ended=ended))
            self.program.written_by_line.note_run(run.order.loads, run.order.accesses, whole=ended)
            open_.update(mixed_operands(self.assumed, run))
        order = run.order
        loaded = {number: (name, order.accesses[number].line) for number, name in order.maps.items()}
        self.program.used.update(loaded[number] for number in order.loads.read & loaded.keys())
        self.program.loaded.update(loaded.values() if ended and run.sized else ())
        taken = Taken(
            bytes(run.outcomes) if ended else b"",
            frozenset(run.cases) if ended else frozenset(),
            run.reached,
            run.visits,
            {line: first for line, (_, first, _) in run.order.unwritten.items()},
            run.order.findings,
            open_,
        )
        self._take(taken, values, held, run.periods.found if run.periods is not None else None, meant=meant)
        return taken

    def _take(
        self, taken: Taken, values: Mapping[str, int], held: Values, periods: Mapping[int, Period] | None, *,
        meant: bool,
    ) -> None:  # fmt: skip
        self.periods.update(periods or {})
        self.program.take(taken.outcomes, taken.cases)
        self.program.reached |= taken.reached
        for line, first in taken.empty.items():
            self.empty.setdefault(line, set()).add(first)
        self._note(taken.findings, values, held, often=periods is not None, meant=meant)
        self.unproven.update(taken.open)
        for visited, times in taken.visits.items():
            self.counts.setdefault(visited, set()).add(times)

    def _note(
        self, findings: Mapping[tuple[str, int], Finding], values: Mapping[str, int], held: Values, *, often: bool,
        meant: bool,
    ) -> None:  # fmt: skip
        """Note which values were tried, and what a run found wrong; `often`: with ever so many rounds."""
        for name, value in held.items():
            self.tried.setdefault(name, set()).add(value)
        rank = (sum(v < 0 for v in held.values()), sum(map(abs, held.values())))
        said = self._said(held)
        for place, finding in findings.items():
            if finding.level != "error":
                self.warnings.setdefault(finding.kind, finding)
            elif rank[0] or not meant or (finding.kind == "bytes_differ" and self._launched(finding.line)):
                self.unproven[finding.line, finding.message + (f", when {said}" if said else "")] = None
            else:
                if not often:  # what breaks after ever so many rounds breaks after few ones too
                    kinds = finding.of_nothing, finding.of_any_size, finding.hangs
                    self.failing.append(Failure(dict(values), finding.line, finding.message, *kinds))
                if rank < self._ranks.get(place, (1 << 62, 0)):
                    self._ranks[place] = rank
                    self.findings[place] = replace(finding, launch=said)

    def _launched(self, line: int) -> frozenset[str]:
        """Return parameters that decide how many bytes are expected at a line, and that are not given."""
        return self.program.conditions.expected.get(line, frozenset()) - self.fixed.keys()

    def _said(self, held: Mapping[str, int]) -> str:
        """Return the values of a run in words."""
        told = [n for n in sorted(held) if n in self.program.decisive or n in self.counted]
        return ", ".join(f"{n} = {'0 and 1 by turns' if held[n] in BY_TURNS else held[n]}" for n in told)

    @property
    def late(self) -> bool:
        """Has enough been done for this kernel?"""
        return self.work > self.most or len(self.findings) > MOST_FINDINGS or bool(self.program.bounds.reason)

    def more(self, name: str, step: int, rounds: int) -> int:
        """Return the value with which the loops of a parameter run so many times more than with the least one."""
        least = self.least.get(name, 0)
        return (least // step + rounds) * step if rounds else least

    def shown(self, values: Mapping[str, int], limit: int = RUN_WORK) -> Shown | None:
        """Return what a run with these values shows of loops, None where it is none or too long."""
        key = key_of(values)
        if key not in self._shown:
            self.run(values, limit=limit)
        return self._shown.get(key)

    def put_right(self, values: Values, shown: Shown | None) -> None:
        """Take something else for what a run with these values shows."""
        self._shown[key_of(values)] = shown

    def has_shown(self, values: Mapping[str, int]) -> bool:
        """Has a run with these values ended, or been dropped?"""
        return key_of(values) in self._shown

    def dropped(self, values: Mapping[str, int]) -> bool:
        """Is a launch with these values dropped, since the kernel says itself that it is none?"""
        return self._shown.get(key_of(values), self) is None

    # What is not known before.

    def size_boxes(self, tried: Iterable[Values]) -> None:
        """Recover the bytes of boxes from a few runs, and run again what was run without them."""
        made = [run for one in tried if (run := self.made.get(key_of(one)) or self._whole(one)) is not None]
        self.made.clear()
        launched = {line: keys for line in self.program.conditions.expected if (keys := self._launched(line))}
        boxes = boxes_of(made, self.boxes, launched)
        self.boxes = self.boxes | boxes.known  # these runs know no more when the next sweep sizes by them
        self.assumed = boxes.assumed
        self.fixed = {**self.fixed, **boxes.counts}
        self.counts_of = boxes.counts
        launched = {line: keys for line, keys in launched.items() if not keys <= boxes.counts.keys()}
        if boxes.assumed and not boxes.findings:
            kernel = self.program.kernel
            maps = [p.name for p in kernel.parameters if p.bytes == MAP_BYTES]
            if not any(warp.live for run in made for warp in run.warps):  # else what follows is not known to be idle
                self.idle = idle_maps(boxes.assumed, maps, made)
        for finding in boxes.findings:
            self.findings[finding.kind, finding.line] = finding
        for line, keys in launched.items():
            reason = f"{', '.join(sorted(keys))} decides how many bytes are expected here, and is not given"
            self.unproven[line, reason] = None
        for line, reason in boxes.unproven:
            self.unproven[line, reason] = None
        self.sizing = False
        self.known.forget_runs(but=made)
        for values, found_wrong in self.unsized:
            self._shown.pop(key_of(values), None)
            if found_wrong:
                self.run(values)

    def _whole(self, values: Values) -> Run | None:
        """Run once, and return the run, where it lacks the bytes of boxes."""
        known = self.run(values)
        if known is not None and known.run is None and known.taken is None:
            known = self.run(values, anew=True)
        return None if known is None else known.run

    def twins(self, looped: Values, rest: Values) -> set[str]:
        """Return parameters that do what an earlier one does: rows and columns whose tiles are counted together."""
        ones, found = so_many_rounds(self, rest, looped, 1), set()
        seen: list[Any] = []
        for name, step in looped.items() if len(looped) > 1 else ():
            runs = [self.shown({**ones, name: self.more(name, step, rounds)}) for rounds in (0, 3)]
            profile = [run.visits if run is not None else None for run in runs]
            if profile in seen:
                found.add(name)
            seen.append(profile)
        return found

    # Loops.

    def many(self, name: str, step: int, most: int = 0) -> int:
        """Return the value with which a parameter's loops run more often than any run goes on, or `most` times."""
        return self.more(name, step, min(most or LONG, (1 << self.program.bits(name) - 2) // step))

    def rounds_of(self, name: str, step: int, ones: Values, others: Iterable[str], most: int = 0) -> list[int]:
        """Return which numbers of rounds of a parameter's loops are to be tried, after a run of many, or of `most`."""
        many = self.many(name, step, most)
        zeros = ({o: self.least.get(o, 0)} for o in others)
        runs = [self.run({**ones, name: many, **zero}, long=True) for zero in ({}, *zeros)]
        few, more = (self.shown({**ones, name: self.more(name, step, rounds)}) for rounds in (1, SPREAD + 1))
        for run in runs:
            self._say_what_does_not_repeat(run, few, more)
        if runs[0] is None or few is None or more is None:
            return list(range(LEAST_ROUNDS + 1))
        needed, far = LEAST_ROUNDS, set[int]()
        # Where a period is short, the long run may be cut before a short one ends, which grows with the rounds too.
        grown = [place for place, count in more.visits.items() if count > few.visits.get(place, 0)]
        for place in dict.fromkeys([*growing(runs[0], few, more), *grown]):
            period = (runs[0].periods or {}).get(place[1])
            if period is None:
                continue
            spread, growth = SPREAD, more.visits.get(place, 0) - few.visits.get(place, 0)
            count = period.before + period.rounds + 1
            if growth < SPREAD // 2 and growth < count:  # some rounds in one: so few of these tell little
                longer = self.shown({**ones, name: self.more(name, step, LONG_SPREAD + 1)}, LONG_WORK)
                if longer is not None:
                    spread, growth = LONG_SPREAD, longer.visits.get(place, 0) - few.visits.get(place, 0)
            far_apart = growth <= 0 and count * UNROLLED > MOST_ROUNDS
            apart = self._far_apart(name, step, ones, place, few) if far_apart else 0
            if apart:
                self.apart[name] = apart
                far.update(apart * number for number in range(1, 2 * count + 1))
            else:
                # Launches of fewer rounds than a condition asks for are left out, but a whole period is tried.
                left = max(count - few.visits.get(place, 0), period.rounds)
                needed = max(needed, 1 + math.ceil(left * spread / growth) if growth > 0 else count * UNROLLED)
        if needed > MOST_ROUNDS and not self.late:  # else runs were stopped, and tell nothing of rounds
            line = min((self.program.lines[head] for head in self.periods), default=0)
            self.unproven[line, f"only {MOST_ROUNDS} of the {needed} counts of rounds that differ are tried"] = None
        return sorted({*range(min(needed, MOST_ROUNDS) + 1), *far})

    def _far_apart(self, name: str, step: int, ones: Values, place: tuple[int, int], few: Shown) -> int:
        """Return many rounds, or 0, that bring one more visit to a head at most, of which two times so many bring one.

        Of tiles that blocks take in turn, it needs as many more as there are blocks for one of them to have one more.
        """
        for exponent in range(FIRST_APART, LAST_APART + 1):
            shown = self.shown({**ones, name: self.more(name, step, 1 << exponent)}, MANY_WORK)
            if shown is None:
                return 0
            if shown.visits.get(place, 0) > few.visits.get(place, 0):
                return 1 << exponent - 1
        return 0

    def rounds_together(self, looped: Values, base: Values, *, grid: bool) -> int:
        """Return up to how many rounds all parameters' loops are to be tried together, after a run of many.

        A loop whose rounds the least of several parameters bounds is long only where all of them are. `grid`: the
        block's number too, which bounds the rounds where later rows see more columns.
        """
        varied = {head for (_, head), seen in self.counts.items() if len(seen) > 1 and head not in self.periods}
        names = [name for name in looped if grid or not name.startswith("%")]
        if not varied or len(names) < 2 or (grid and not any(name.startswith("%") for name in names)):
            return 0
        many = {n: self.more(n, looped[n], min(LONG, (1 << self.program.bits(n) - 2) // looped[n])) for n in names}
        first = {name: self.least.get(name, 0) for name in looped if name.startswith("%")}
        run = self.run({**base, **first, **many}, RUN_WORK - 1, long=True)
        if run is None or run.periods is None:
            return 0
        self._say_what_does_not_repeat(run, None, None)
        found = [period for head, period in run.periods.items() if head in varied]
        return min(max((period.before + period.rounds + 1 for period in found), default=0), MOST_ROUNDS)

    def _say_what_does_not_repeat(self, run: Known | None, few: Shown | None, more: Shown | None) -> None:
        if run is None or run.periods is None or self.late:
            return
        for place in growing(run, few, more):
            count, head = run.visits[place], place[1]
            if count >= LEAST_LONG and head not in run.periods and head not in self.periods:
                reason = f"the state of this loop does not repeat within {count} round{'s' * (count != 1)}"
                self.unproven[self.program.lines[head], reason] = None

    # What was left out.

    def say_what_was_left_out(self) -> None:
        """Say what no run has come to, where launches were left out: of that nothing is proven.

        Where none was, all conditions that a launch decides have been seen both ways, so that no launch comes there:
        what is copied there by a map that is idle otherwise is for other clusters.
        """
        program = self.program
        self.unproven |= overlapping(program.load_places, self.boxes) | never_read(program.loaded, program.used)
        self.unproven |= mixed_stores(program.store_sources)
        self.unproven |= program.tensor_use.unread() | program.matrices.mixed() | program.partners.across
        self.unproven |= program.left_unread()
        self.unproven |= program.written_by_line.brought.unread(program.granule)
        for name, reason in self.idle.items():
            copies = self.program.copies_by(name)
            if self.zeros or not copies or copies & self.program.reached:
                self.unproven[self.program.kernel.line, reason] = None
        if not self.ran and self.program.covered:
            self.unproven[self.program.kernel.line, "no launch that keeps to its conditions is run"] = None
        if not self.zeros:
            return
        left = f"launches that {self.zeros[min(self.zeros)]} at line {min(self.zeros)} are left out"
        if self.missed:
            count = f"{len(self.missed)} of {len(self.program.covered)} barriers and asynchronous operations"
            self.unproven[min(self.missed), f"{count} are reached by no run; {left}"] = None
        elif not any(self._shown.values()):
            self.unproven[min(self.zeros), f"no launch is run to its end; {left}"] = None

    def leave_open_what_may_be_dropped(self) -> None:
        """Leave reads of what nobody has written open, where other launches, or other blocks, have written it.

        Threads whose rows a small tensor has not read like the others, and drop what they have read.
        """
        unwritten = [(place, f) for place, f in self.findings.items() if UNWRITTEN in f.message]
        if len(unwritten) < len(self.findings):
            return  # it goes wrong otherwise too
        if unwritten and self.ran:
            numbers = [name for name in self.ran[0] if not name.startswith("%") and not self.program.is_pointer(name)]
            for size in WIDE:
                if not all(self._written_elsewhere(f.line) for _, f in unwritten):
                    wide = {n: round_up(size, self.program.multiple(n)) for n in numbers}
                    self.run({**self.ran[0], **wide}, meant=False)
        for place, finding in unwritten:
            if self._written_elsewhere(finding.line):
                del self.findings[place]
                where = finding.launch or "it is little"
                reason = f"{finding.message} where {where}; whether it is dropped is not followed"
                self.unproven[finding.line, reason] = None

    def _written_elsewhere(self, line: int) -> bool:
        """Has some run written what this line reads, or all places of which another one had written nothing?"""
        written, empty, places = self.program.written, self.empty.get(line), self.program.granule
        return line in self.program.filled or (
            bool(empty) and not any(written.unwritten(slice(b // places, b // places + 1)).size for b in empty or ())
        )

    @property
    def missed(self) -> set[int]:
        """Lines of barriers and asynchronous operations to which no run has come, where launches were dropped."""
        covered = self.program.covered.items() if self.zeros else ()
        return {line for at, line in covered if at not in self.program.reached}

    @property
    def shown_so_far(self) -> list[Earlier]:
        """All runs that ended or were dropped, with which ways their conditions took."""
        return [(dict(key), None if one is None else one.outcomes) for key, one in self._shown.items()]

    @property
    def ran(self) -> list[Values]:
        """The values of all runs that ended, or were dropped."""
        return [dict(key) for key in self._shown]


def so_many_rounds(sweep: Sweep, rest: Values, looped: Values, rounds: int) -> Values:
    """Return values with which the loops of all parameters run so many times more than with the least ones."""
    times = {name: 0 if sweep.first and name.startswith("%") else rounds for name in looped}
    return {**rest, **{name: sweep.more(name, step, times[name]) for name, step in looped.items()}}

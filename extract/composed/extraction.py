"""The cheapest way to make all results, each class in as many places as it is read from, what is shared once.

It is exact: branch and bound over all options, where nothing is solved whose bound says that it cannot win.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from legalsat.errors import SolverGaveUp
from legalsat.extract.composed.options import TENTHS, Option, Options
from legalsat.extract.composed.places import State
from legalsat.extract.composed.works import planned

NEVER = 1 << 62
MOST_TRIED = 30_000  # options, which take some seconds; past that the best found so far stands


@dataclass(frozen=True, slots=True)
class Extracted:
    """What was chosen: an option for each state that is made; and whether all else was ruled out."""

    options: dict[State, Option]
    nanoseconds: float
    exact: bool
    tried: int
    solved: int


class _Search:
    def __init__(self, options: Options) -> None:
        self.options = options
        self.least = _bounds(options)
        self._own = {state: 1 << number for number, state in enumerate(self.least)}
        self._reach = _reached(options, self._own)
        self.best, self.chosen = NEVER, dict[State, Option]()
        self.tried = 0
        self._last = {state: _last_step(options, state) for state in self.least}
        self._weights: dict[tuple[State, Option], int] = {}

    def weight(self, state: State, option: Option) -> int:
        key = state, option
        if key not in self._weights:
            found = self.options.weight(state, option)
            self._weights[key] = NEVER if found is None else found
        return self._weights[key]

    def bound(self, states: Iterable[State], paid: int) -> int:
        """Return a weight that making all of some states is not below.

        It is that of one of them, and of the last step of each other one that it cannot be made of. What is paid for
        already may be of use to one, so that its own bound says nothing then.
        """
        some = list(states)
        found = 0
        for one in some:
            alone = self._last[one] if self._reach[one] & paid else self.least[one]
            last = sum(self._last[other] for other in some if not self._reach[one] & self._own[other])
            found = max(found, alone + last)
        return found

    def run(self, waiting: frozenset[State], chosen: dict[State, Option], spent: int, paid: int) -> None:
        """Make every state that waits, and all that its option needs, in every way that may be the best.

        Args:
            waiting: states that are not made yet.
            chosen: the options of those that are.
            spent: their weight.
            paid: the bits of those that something was paid for.
        """
        if not waiting:
            if spent < self.best:
                self.best, self.chosen = spent, dict(chosen)
            return
        state = max(waiting, key=lambda one: (self.least[one], one.value, str(one)))
        others = waiting - {state}
        ways = []
        for option in self.options.of(state):
            new = others | {one for one in option.operands if one not in chosen}
            if all(self.least[one] < NEVER for one in new):
                alone = option.least + max((self.least[one] for one in option.operands), default=0)
                ways.append((alone, self.bound(new, paid), option, new))
        for _, rest, option, new in sorted(ways, key=lambda way: way[:2]):
            if self.tried >= MOST_TRIED:
                return
            if spent + option.least + rest >= self.best or _circular(state, option, chosen):
                continue
            self.tried += 1
            weight = self.weight(state, option)
            if spent + weight + rest < self.best:
                chosen[state] = option
                self.run(new, chosen, spent + weight, paid | (self._own[state] if self.least[state] else 0))
                del chosen[state]


def _bounds(options: Options) -> dict[State, int]:
    """Return weights that no way to make a state, alone, is below; of all states that results may need."""
    found: dict[State, tuple[Option, ...]] = {}
    waiting = list(options.goals)
    while waiting:
        state = waiting.pop()
        if state not in found:
            found[state] = options.of(state)
            waiting += [operand for option in found[state] for operand in option.operands]
    least = dict.fromkeys(found, NEVER)
    changed = True
    while changed:
        changed = False
        for state, some in found.items():
            best = min((o.least + max((least[one] for one in o.operands), default=0) for o in some), default=NEVER)
            if best < least[state]:
                least[state], changed = best, True
    return least


def _last_step(options: Options, state: State, *, turned: bool = False) -> int:
    """Return a weight that the step which writes a state's own memory is not below; 0 where there may be none."""
    found = []
    for option in options.of(state):
        if state.home is None or option.node is None or option.node.operator != "transpose":
            found.append(option.least)
        elif not turned:
            found.append(_last_step(options, option.operands[0], turned=True))
    return min(found, default=0)


def _reached(options: Options, own: dict[State, int]) -> dict[State, int]:
    """Return for each state its own bit and those of all states that it may be made of, as one number."""
    reach = dict(own)
    changed = True
    while changed:
        changed = False
        for state in reversed(own):
            found = reach[state]
            for option in options.of(state):
                for operand in option.operands:
                    found |= reach[operand]
            if found != reach[state]:
                reach[state], changed = found, True
    return reach


def _circular(state: State, option: Option, chosen: dict[State, Option]) -> bool:
    """Whether an option needs what is made of its own state."""
    waiting, met = list(option.operands), set[State]()
    while waiting:
        one = waiting.pop()
        if one == state:
            return True
        if one in chosen and one not in met:
            met.add(one)
            waiting += chosen[one].operands
    return False


def extract(options: Options) -> Extracted:
    """Return the cheapest choice of options.

    Raises:
        NoLegalLayout: something of it has no legal plan wherever its operands lie.
        SolverGaveUp: nothing legal was found among 30,000 options.
    """
    search = _Search(options)
    search.run(frozenset(options.goals), {}, 0, 0)
    if search.best >= NEVER:
        if options.refused is not None and search.tried < MOST_TRIED:
            planned(options.refused, options.target)  # which says why
        raise SolverGaveUp(f"no plan of {options.program} was found among {search.tried} options")
    nanoseconds = search.best // TENTHS / 10
    return Extracted(search.chosen, nanoseconds, search.tried < MOST_TRIED, search.tried, options.solved)

"""The cheapest way to make all results, each class in as many places as it is read from, what is shared once.

It is exact: branch and bound over all options, where nothing is solved whose bound says that it cannot win.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from legalsat.errors import SolverGaveUp
from legalsat.extract.composed.options import TENTHS, Option, Options
from legalsat.extract.composed.places import State
from legalsat.extract.composed.works import planned

NEVER = 1 << 62
# Options that are tried before all begins again; after the last the best found so far stands.
ROUNDS = (100, 300, 1000, 3000)
GUIDED = 300


@dataclass(frozen=True, slots=True)
class Extracted:
    """What was chosen: an option for each state that is made; and whether all else was ruled out."""

    options: dict[State, Option]
    nanoseconds: float
    exact: bool
    tried: int
    solved: int


class _Search:
    """All states that results may need, with what is known of the weights of their options.

    Attributes:
        best, chosen: the least weight found so far, and its options.
        tried, most: options tried since the last round began, and how many are.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self._ways = _needed(options)
        self._own = {state: 1 << number for number, state in enumerate(self._ways)}
        self._reach = _reached(self._ways, self._own)
        self.best, self.chosen = NEVER, dict[State, Option]()
        self.tried = self.most = 0
        self._weights: dict[tuple[State, Option], int] = {}
        self.least = self._guide = self._last = dict[State, int]()

    def learn(self) -> None:
        """Work out bounds anew, of what options are known to weigh by now."""
        self.least = self._guide = self._bounds()
        self._last = {state: self._last_step(state) for state in self._ways}

    def again(self, most: int) -> bool:
        """Search once more, from the best that is known; return whether that came to its end."""
        self.tried, self.most = 0, most
        self.run(frozenset(self.options.goals), {}, 0, 0)
        return self.tried < most

    def guided(self, most: int) -> None:
        """Look for something better where a state is made that greed makes none of, since it pays for several only."""
        for state, some in self._ways.items():
            shared = state.home is None and any(option.runs for option in some)
            if shared and 0 < self.least[state] < self.best:
                self._guide = self._bounds(state)
                self.again(most)
        self._guide = self.least

    def weight(self, state: State, option: Option) -> int:
        """Return what an option weighs; `NEVER` where it is not legal."""
        key = state, option
        if key not in self._weights:
            found = self.options.weight(state, option)
            self._weights[key] = NEVER if found is None else found
        return self._weights[key]

    def known(self, state: State, option: Option) -> int:
        """Return what an option weighs where that is known, else a weight that it is not below; nothing is solved."""
        return self._weights.get((state, option), option.least)

    def _bounds(self, free: State | None = None) -> dict[State, int]:
        """Return weights that no way to make a state, alone, is below, where one of them may be free."""
        ways = {
            state: [(self.known(state, option), option.operands) for option in some]
            for state, some in self._ways.items()
        }
        least = dict.fromkeys(ways, NEVER)
        if free is not None:
            least[free] = 0
        changed = True
        while changed:
            changed = False
            for state, some in ways.items():
                best = min((own + max((least[one] for one in of), default=0) for own, of in some), default=NEVER)
                if best < least[state]:
                    least[state], changed = best, True
        return least

    def _last_step(self, state: State, *, turned: bool = False) -> int:
        """Return a weight that the step which writes a state's own memory is not below; 0 where there may be none."""
        found = []
        for option in self._ways[state]:
            if state.home is None or option.node is None or option.node.operator != "transpose":
                found.append(self.known(state, option))
            elif not turned:
                found.append(self._last_step(option.operands[0], turned=True))
        return min(found, default=0)

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
        state = max(waiting, key=lambda one: (self.least[one], self._own[one]))
        others, ways = waiting - {state}, []
        # What is decided now is paid for when the rest is bounded: the rest may be made of it.
        paid |= self._own[state] if self.least[state] else 0
        for option in self._ways[state]:
            guided = max((self._guide[one] for one in option.operands if one not in chosen), default=0)
            if guided < NEVER:
                ways.append((self.known(state, option) + guided, option))
        for _, option in sorted(ways, key=lambda way: way[0]):
            if self.tried >= self.most:
                return
            left = self.best - spent - self.known(state, option)
            new = others | {one for one in option.operands if one not in chosen}
            rest = self.bound(new, paid) if left > 0 else 0
            if rest >= left or _circular(state, option, chosen):
                continue
            self.tried += 1
            weight = self.weight(state, option)
            if spent + weight + rest < self.best:
                chosen[state] = option
                self.run(new, chosen, spent + weight, paid)
                del chosen[state]


def _needed(options: Options) -> dict[State, tuple[Option, ...]]:
    """Return all states that results may need, with their options."""
    found: dict[State, tuple[Option, ...]] = {}
    waiting = list(options.goals)
    while waiting:
        state = waiting.pop()
        if state not in found:
            found[state] = options.of(state)
            waiting += [operand for option in found[state] for operand in option.operands]
    return found


def _reached(ways: Mapping[State, Iterable[Option]], own: dict[State, int]) -> dict[State, int]:
    """Return for each state its own bit and those of all states that it may be made of, as one number."""
    reach = dict(own)
    changed = True
    while changed:
        changed = False
        for state in reversed(own):
            found = reach[state]
            for option in ways[state]:
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
        SolverGaveUp: nothing legal was found in the last round.
    """
    search, tried = _Search(options), 0
    for most in ROUNDS:
        search.learn()
        done = search.again(most)
        if not done and most == GUIDED:
            search.guided(GUIDED // 10)
        tried += search.tried
        if done:
            break
    if search.best >= NEVER:
        if options.refused is not None and done:
            planned(options.refused, options.target)  # which says why
        raise SolverGaveUp(f"no plan of {options.program} was found among {tried} options")
    return Extracted(search.chosen, search.best // TENTHS / 10, done, tried, options.solved)

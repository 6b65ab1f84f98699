"""Modulo schedules: how often a loop can start a turn when every resource serves one operation at a time.

Times are whole nanoseconds. A turn starts every `interval`; an operation of it holds its resource for `busy`, and those
that wait for it, of this turn or of a later one, start no sooner than `latency` after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from legalsat.checks import integer
from legalsat.errors import InvalidInput

MOST_OPERATIONS = 10  # more of them make the exact search too long


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of a turn.

    Attributes:
        name: what it is.
        resource: what it holds, of which there is one; "" for none.
        busy: nanoseconds that it holds it.
        latency: nanoseconds until its result is there.
    """

    name: str
    resource: str
    busy: int
    latency: int


@dataclass(frozen=True, slots=True)
class After:
    """`then` of turn t + `turns` starts no sooner than `first` of turn t has its result."""

    first: str
    then: str
    turns: int = 0


@dataclass(frozen=True, slots=True)
class ModuloSchedule:
    """The shortest interval between turns, and when each operation of a turn starts.

    Attributes:
        interval: nanoseconds between turns.
        starts: nanoseconds from the start of a turn, by name of the step.
        bound_by: what the interval cannot be shorter for: resources, or steps that wait for one another in a circle.
    """

    interval: int
    starts: dict[str, int]
    bound_by: tuple[str, ...]

    def span(self, first: str, last: Step) -> int:
        """Return the nanoseconds from the start of a step until another one has its result."""
        return self.starts[last.name] + last.latency - self.starts[first]

    def stages(self, first: str, last: Step) -> int:
        """Return how many turns hold what lives from the start of `first` until `last` has its result."""
        return max(1, -(-self.span(first, last) // max(1, self.interval)))


def modulo_schedule(steps: Sequence[Step], waits: Sequence[After]) -> ModuloSchedule:
    """Return the schedule of the shortest interval; of these, one whose steps start as soon as they can.

    Args:
        steps: of a turn; at most 10.
        waits: which step waits for which.

    Raises:
        InvalidInput: names that are not those of steps, negative times, or steps of one turn that wait for each other.
    """
    by_name = {step.name: step for step in steps}
    _check(steps, waits, by_name)
    bound, why = _bound(steps, waits, by_name)
    interval = bound
    while True:
        starts = _place(steps, waits, by_name, interval)
        if starts is not None:
            return ModuloSchedule(interval, starts, why)
        interval += 1


def _check(steps: Sequence[Step], waits: Sequence[After], by_name: dict[str, Step]) -> None:
    if len(by_name) != len(steps) or not 0 < len(steps) <= MOST_OPERATIONS:
        raise InvalidInput(
            f"{len(steps)} steps have {len(by_name)} names; give 1 to {MOST_OPERATIONS} steps, each its own"
        )
    for step in steps:
        integer(step.busy, f"busy of {step.name}", low=0)
        integer(step.latency, f"latency of {step.name}", low=0)
    for wait in waits:
        integer(wait.turns, "turns", low=0)
        for name in (wait.first, wait.then):
            if name not in by_name:
                raise InvalidInput(f"no step is called {name}; give one of {', '.join(by_name)}")
    if _longest(steps, [w for w in waits if w.turns == 0], by_name, 0) is None:
        raise InvalidInput("steps of one turn wait for each other; give one of the waits a later turn")


def _bound(steps: Sequence[Step], waits: Sequence[After], by_name: dict[str, Step]) -> tuple[int, tuple[str, ...]]:
    """Return the interval that neither resources nor circles of waits allow to go below, and which of them."""
    held: dict[str, int] = {}
    for step in steps:
        if step.resource:
            held[step.resource] = held.get(step.resource, 0) + step.busy
    least = max([1, *held.values()])
    circle = least
    while _longest(steps, waits, by_name, circle) is None:
        circle += 1
    if circle > least:
        return circle, ("waits",)
    return least, tuple(name for name, busy in held.items() if busy == least)


def _longest(
    steps: Sequence[Step], waits: Sequence[After], by_name: dict[str, Step], interval: int
) -> dict[str, int] | None:
    """Return the soonest starts that the waits allow, None where they never settle."""
    starts = dict.fromkeys(by_name, 0)
    for _ in range(len(steps) + 1):
        changed = False
        for wait in waits:
            soonest = starts[wait.first] + by_name[wait.first].latency - wait.turns * interval
            if soonest > starts[wait.then]:
                starts[wait.then], changed = soonest, True
        if not changed:
            return starts
    return None


def _place(
    steps: Sequence[Step], waits: Sequence[After], by_name: dict[str, Step], interval: int
) -> dict[str, int] | None:
    """Return starts for this interval, None where there are none.

    On each resource one order of its steps around the circle is tried after another: given the orders, soonest starts
    are a longest path, since a step waits until the one before it lets go, and the first until the last of the turn
    before does.
    """
    rings: dict[str, list[Step]] = {}
    for step in steps:
        if step.resource and step.busy:
            rings.setdefault(step.resource, []).append(step)
    names = [[step.name for step in ring] for ring in rings.values()]
    most = max((step.latency + step.busy for step in steps), default=0) // interval + len(steps)
    for orders in product(*(_orders(ring, most) for ring in names)):
        holds = [edge for order in orders for edge in order]
        starts = _settled(steps, waits, holds, by_name, interval)
        if starts is not None:
            return starts
    return None


Hold = tuple[str, str, int]  # the second step takes the resource after the first, so many turns later (or earlier)


def _orders(names: list[str], most: int) -> list[list[Hold]]:
    """Return every order of a resource's steps, with every number of turns that neighbours may be apart."""
    found: list[list[Hold]] = []

    def extend(order: list[str], edges: list[Hold], left: list[str], sum_of: int) -> None:
        if not left:
            if len(order) > 1:
                found.append([*edges, (order[-1], order[0], 1 - sum_of)])
            else:
                found.append([])
            return
        for name in left:
            rest = [other for other in left if other != name]
            for turns in sorted(range(-most, most + 1), key=abs):
                extend([*order, name], [*edges, (order[-1], name, turns)], rest, sum_of + turns)

    extend(names[:1], [], names[1:], 0)
    return found


def _settled(
    steps: Sequence[Step],
    waits: Sequence[After],
    holds: Sequence[Hold],
    by_name: dict[str, Step],
    interval: int,
) -> dict[str, int] | None:
    starts = dict.fromkeys(by_name, 0)
    for _ in range(len(steps) * (len(steps) + 1) + 1):
        changed = False
        edges = [(w.first, w.then, by_name[w.first].latency - w.turns * interval) for w in waits]
        edges += [(a, b, by_name[a].busy - turns * interval) for a, b, turns in holds]
        for first, then, gap in edges:
            if starts[first] + gap > starts[then]:
                starts[then], changed = starts[first] + gap, True
        if not changed:
            return starts
    return None

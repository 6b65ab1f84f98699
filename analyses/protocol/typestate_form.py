"""When two states of a run lead to the same: a *form*, and who knows what.

Items are counted from the newest cursor of their rings, and everything else from there, so that a ring of stages looks
the same after every turn. The form is all of a state but knowledge. Of two states of one form the one that knows less
is the harder one: whatever it does without a violation, so does the other. `Knowledge` is compared and met by event.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.protocol.typestate_program import Actor, Machine
from legalsat.analyses.protocol.typestate_state import Arrived, Events, Stage, State, Symbol, Value

# By event, named by its slot relative to the newest items: a bit for each knower. Who is not named is known by all.
Knowledge: TypeAlias = dict[tuple[Any, ...], int]
Slot: TypeAlias = tuple[tuple[Any, ...], dict[Any, int], Any]  # an event's name, and where its bit is kept
MANY_BITS = 512


class View:
    """A state seen from its newest items: the order of its barriers and stages, slots by name, and who can know."""

    def __init__(self, machine: Machine, state: State) -> None:
        self.machine, self.state = machine, state
        self.counts = _counts(machine, state)
        self.bases = bases = _bases(machine, self.counts)
        self.barriers: list[tuple[int, int]] = []  # index, and the item that its stage has next or had last
        self.stages: list[tuple[int, int]] = []
        self.sums: list[tuple[int, int]] = []
        classes = machine.classes
        for cta in range(machine.pipeline.cluster):
            for name, ring in machine.barriers.items():
                if (cta, name) not in machine.used_barriers:
                    continue
                base = bases.get(classes.get(("barrier", name), -1), 0)
                self.barriers += _turned(base, ring.stages, machine.barrier_at[cta, name])
            for name, buffer in machine.buffers.items():
                base = bases.get(classes.get(("buffer", name), -1), 0)
                self.stages += _turned(base, buffer.stages, machine.stage_at[cta, name])
            for name, stages in machine.sums.items():
                base = bases.get(classes.get(("sums", name), -1), 0)
                self.sums += _turned(base, stages, machine.tensor_at[cta, name])
        first = machine.first_part
        self.parts = {part: part for part in range(first)}
        self.parts |= {first + index: first + number for number, (index, _) in enumerate(self.barriers)}

    def slots(self) -> list[Slot]:
        """Return every event: its name, and where its bit is kept."""
        state, parts = self.state, self.parts
        found: list[Slot] = []
        for number, p in enumerate(state.processes):
            for kind, kept in (("last", p.last), ("sums", p.sums)):
                found += [((kind, number, name), kept, name) for name in kept]
        for number, (index, _) in enumerate(self.barriers):
            b = state.barriers[index]
            found += [(("mark", number, name), b.marks, name) for name in b.marks]
            found += [(("wait", number, part), b.waits, part) for part in b.waits]
            found += [(("armed", number, part), b.armed, part) for part in b.armed]
        for kind, order, stages in (("", self.stages, state.stages), ("sums ", self.sums, state.sums)):
            for number, (index, _) in enumerate(order):
                s = stages[index]
                for name, events in _kept(s).items():
                    found += [((kind + name, number, parts[part]), events, part) for part in events]
        for cta, events in enumerate(state.remote):
            found += [(("remote", cta, part), events, part) for part in events]
            for number, a in enumerate(state.allocations[cta]):
                found += [(("allocated", cta, number, part), a.events, part) for part in a.events]
        return found

    def slot(self, name: tuple[Any, ...]) -> tuple[dict[Any, int], Any]:
        """Return where the bit of an event is or would be kept."""
        kind, number, key = name[0], name[1], name[-1]
        state = self.state
        if kind in {"last", "sums"}:
            p = state.processes[number]
            return (p.last if kind == "last" else p.sums), key
        if kind in {"mark", "wait", "armed"}:
            b = state.barriers[self.barriers[number][0]]
            return {"mark": b.marks, "wait": b.waits, "armed": b.armed}[kind], key
        if kind == "remote":
            return state.remote[number], key
        if kind == "allocated":
            return state.allocations[number][name[2]].events, key
        s = state.sums[self.sums[number][0]] if kind.startswith("sums ") else state.stages[self.stages[number][0]]
        part = next(actual for actual, seen in self.parts.items() if seen == key)
        return _kept(s)[kind[-1]], part

    def knowers(self) -> list[int]:
        """Return all knowledge there is, in an order that the form fixes."""
        found = []
        for families, p in zip(self.machine.families, self.state.processes, strict=True):
            found += [p.known, p.seen or 0]
            for family in families:
                found += [p.loose.get(family, 0), p.all.get(family, 0), *p.groups.get(family, ())]
        for index, _ in self.barriers:
            b = self.state.barriers[index]
            found += [b.arrived, b.coming, b.done]
        return found + [came.known for _, _, came in self._early()]

    def _early(self) -> list[tuple[tuple[int, str], int, Arrived]]:
        """Return who has come to which meeting and gone on."""
        early = self.state.early
        return [(key, number, early[key][number]) for key in sorted(early) for number in sorted(early[key])]

    def teach(self, knowledge: list[int]) -> None:
        """Replace all knowledge; the order is that of `knowers`."""
        rest = iter(knowledge)
        for families, p in zip(self.machine.families, self.state.processes, strict=True):
            p.known, seen = next(rest), next(rest)
            p.seen = None if p.seen is None else seen
            for family in families:
                p.loose[family], p.all[family] = next(rest), next(rest)
                p.groups[family] = [next(rest) for _ in p.groups.get(family, ())]
        for index, _ in self.barriers:
            b = self.state.barriers[index]
            b.arrived, b.coming, b.done = next(rest), next(rest), next(rest)
        for key, number, came in self._early():
            self.state.early[key][number] = replace(came, known=next(rest))

    def knowledge(self) -> Knowledge:
        """Return who knows what, and drop events that nobody can doubt any more."""
        slots, knowers = self._drop(), self.knowers()
        if self.state.bits > max(MANY_BITS, 2 * len(slots)):
            knowers = self._renumber(slots, knowers)
        columns = _columns([kept[key] for _, kept, key in slots], knowers, self.state.bits)
        return {name: column for (name, _, _), column in zip(slots, columns, strict=True)}

    def _renumber(self, slots: list[Slot], knowers: list[int]) -> list[int]:
        """Give the events that still matter the lowest bits."""
        has = _bits(knowers, self.state.bits)[:, [kept[key].bit_length() - 1 for _, kept, key in slots]]
        unused = np.zeros((len(knowers), 1), np.uint8)  # the lowest bit
        new = _numbers(np.concatenate([unused, has], axis=1))
        for number, (_, kept, key) in enumerate(slots, start=1):
            kept[key] = 1 << number
        self.teach(new)
        self.state.bits = len(slots)
        return new

    def _outdate(self) -> None:
        """Take stages whose item nobody can ask for any more for empty."""
        machine, state = self.machine, self.state
        for kind, at, places in (("buffer", machine.stage_at, state.stages), ("sums", machine.tensor_at, state.sums)):
            for (cta, name), first in at.items():
                least = min(
                    (
                        count + offset
                        for number, cursor, offset in machine.users_of.get((cta, kind, name), ())
                        for count in self.counts.get((number, cursor), ())
                    ),
                    default=0,
                )
                count = machine.buffers[name].stages if kind == "buffer" else machine.sums[name]
                for stage in places[first : first + count]:
                    if stage.item is not None and stage.item < least:
                        stage.item = None

    def _drop(self) -> list[Slot]:
        """Drop events that all processes know of, and return the others.

        Then let what is handed on have what its receivers know anyway, which changes nothing but makes states alike.
        What a phase is checked for at its end is left out of that.
        """
        machine, state = self.machine, self.state
        self._outdate()
        least = seen = -1
        for number, p in enumerate(state.processes):
            if not p.ended:
                least &= p.known
                if number in machine.tensor_actors:
                    seen &= p.seen or 0
        for index, b in enumerate(state.barriers):
            ring, cta = machine.barrier_rings[index][0], machine.barrier_cta[index]
            waiters = [state.processes[n] for n in machine.waiters[ring.name] if machine.actors[n].cta == cta]
            anyway = -1
            for p in waiters:
                if not p.ended:
                    anyway &= p.known
            anyway &= (2 << state.bits) - 1
            own = 0
            for bit in (*b.waits.values(), *b.armed.values()):
                own |= bit
            b.done |= anyway
            b.coming |= anyway
            b.arrived |= anyway & ~own
        for families, p in zip(machine.families, state.processes, strict=True):
            for family in families:
                p.loose[family] = p.loose.get(family, 0) | p.known
                p.all[family] = p.all.get(family, 0) | p.known
                p.groups[family] = [group | p.known for group in p.groups.get(family, ())]
        left = []
        for slot in self.slots():
            name, kept, key = slot
            bit = kept[key]
            if bit & least and (bit & seen or not name[0].startswith("sums ")):
                del kept[key]
            else:
                left.append(slot)
        return left

    def meet(self, mine: Knowledge, others: Knowledge) -> None:
        """Let everybody forget what is not known by its like in `others` too."""
        knowers, changed = self.knowers(), dict[int, int]()  # columns by their bit
        for name, other in others.items():
            column = mine.get(name, -1)
            if column & other == column:
                continue
            kept, key = self.slot(name)
            if key not in kept:
                kept[key] = self.state.event()
            changed[kept[key].bit_length() - 1] = column & other
        if changed:
            everybody = (1 << len(knowers)) - 1
            bits = _bits(knowers, self.state.bits)
            columns = _bits([column & everybody for column in changed.values()], len(knowers))
            bits[:, list(changed)] = columns[:, : len(knowers)].T
            self.teach(_numbers(bits))
        self.state.widened = True

    def _relative(self, actor: Actor, cursor: str, count: int) -> int:
        """Return a cursor's count from the furthest one that counts the same items."""
        role = f"cursor {actor.program.role.name}"
        return count - self.bases.get(self.machine.classes.get((role, cursor), -1), 0) if cursor else 0

    def form(self) -> tuple[Any, ...]:
        """Return all that is not knowledge."""
        machine, state = self.machine, self.state
        values = _values(machine, state)
        processes: list[tuple[Any, ...]] = []
        for actor, p in zip(machine.actors, state.processes, strict=True):
            if p.ended:
                processes.append(())
                continue
            live = actor.program.live[p.at]
            cursors = tuple(
                self._relative(actor, name, p.cursors.get(name, 0)) if name in live else None
                for name in actor.program.cursors
            )
            watched = tuple(
                min(p.cursors.get(name, 0), top) if name in live else None
                for name, top in actor.program.watched.items()
            )
            groups = tuple(len(p.groups.get(family, ())) for family in machine.families[actor.number])
            turns = _turns(machine, state, actor.number)
            processes.append((p.at, p.meets, p.touched, p.seen is None, groups, cursors, watched, turns))
        barriers = []
        for index, item in self.barriers:
            b = state.barriers[index]
            barriers.append((b.phase - item // machine.barrier_rings[index][0].stages, b.pending, b.tx, b.by))
        stages = []
        for order, places in ((self.stages, state.stages), (self.sums, state.sums)):
            for index, item in order:
                held = places[index].item
                stages.append(None if held is None else held - item)
        allocations = tuple(tuple((a.columns, a.live) for a in found) for found in state.allocations)
        early = tuple(
            (key, number, self._relative(machine.actors[number], machine.handed.get((number, key), ""), came.cursor))
            for key, number, came in self._early()
        )
        return tuple(processes), tuple(barriers), tuple(stages), allocations, tuple(state.promised), early, values


def _kept(stage: Stage) -> dict[str, Events]:
    """Return the events of a stage by a letter."""
    return {
        "w": stage.writes,
        "f": stage.fenced,
        "r": stage.reads,
        "o": stage.before,
        "p": stage.read_fences,
        "q": stage.write_fences,
    }


def _columns(bits: list[int], knowers: list[int], most: int) -> list[int]:
    """Return for each bit which knowers have it, as a bit for each; bits are at most 1 << most."""
    if not bits:
        return []
    return _numbers(_bits(knowers, most)[:, [bit.bit_length() - 1 for bit in bits]].T)


def _bits(numbers: list[int], most: int) -> NDArray[np.uint8]:
    """Return the bits of numbers below 2 << most, a row for each, the lowest first."""
    width = most // 8 + 1
    rows = np.frombuffer(b"".join([one.to_bytes(width, "little") for one in numbers]), np.uint8)
    return np.unpackbits(rows.reshape(len(numbers), width), axis=1, bitorder="little")


def _numbers(bits: NDArray[np.uint8]) -> list[int]:
    """Return the numbers whose bits are rows."""
    packed = np.packbits(bits, axis=1, bitorder="little")
    size, raw = packed.shape[1], packed.tobytes()
    return [int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)]


def covers(harder: Knowledge, easier: Knowledge) -> bool:
    """Return whether everybody in `easier` knows what its like in `harder` knows."""
    return not any(harder.get(name, -1) & ~column for name, column in easier.items())


def met(one: Knowledge, other: Knowledge) -> Knowledge:
    """Return what is known in both."""
    return {name: one.get(name, -1) & other.get(name, -1) for name in one.keys() | other.keys()}


def _turned(base: int, stages: int, first: int) -> list[tuple[int, int]]:
    """Return a ring's places from the newest item's stage on, each with its item."""
    return [(first + item % stages, item) for item in range(base, base + stages)]


def _counts(machine: Machine, state: State) -> dict[tuple[int, str], list[int]]:
    """Return where processes are in their rings, by process and cursor, and where they will go on who take one over."""
    counts: dict[tuple[int, str], list[int]] = {}
    for actor, p in zip(machine.actors, state.processes, strict=True):
        if not p.ended:
            counts[actor.number, ""] = [0]
            for name in actor.program.live[p.at]:
                counts[actor.number, name] = [p.cursors.get(name, 0)]
    for key, early in state.early.items():
        for number, came in early.items():
            if name := machine.handed[number, key]:
                for taker in machine.meetings[key] - {number}:
                    counts.setdefault((taker, name), []).append(came.cursor)
    return counts


def _bases(machine: Machine, counts: dict[tuple[int, str], list[int]]) -> dict[int, int]:
    """Return for each class of cursors the furthest one; items are counted from there."""
    bases: dict[int, int] = {}
    fixed = machine.classes.get(("fixed", ""), -1)
    for (number, name), found in counts.items():
        one = machine.classes.get((f"cursor {machine.actors[number].program.role.name}", name), -1)
        if one != fixed and max(found) > bases.get(one, 0):
            bases[one] = max(found)
    bases.pop(-1, None)
    return bases


def symbol_of(machine: Machine, number: int, state: State, name: str, at: int) -> Symbol:
    """Return whose value a process asks for at a place."""
    program = machine.actors[number].program
    ordinal = program.ordinals.get(at, 0) if machine.in_turn[name] else 0
    nest = program.nests[at] if machine.shared_nests[name] else ()
    loops = state.processes[number].loops
    return name, tuple(loops[loop] for loop in nest), ordinal


def value_of(machine: Machine, state: State, symbol: Symbol) -> Value:
    """Return what is known of a symbol; a later loop of it begins with what the first had, as far as that counts."""
    value = state.values.get(symbol)
    if value is None:
        name, turns, ordinal = symbol
        first = state.values.get((name, turns, 0)) if ordinal else None
        least, top = machine.at_least.get(name, 0), machine.ceilings[name]
        if first is None:
            value = Value(least)
        elif first.low > top:
            value = Value(max(least, top + 1))
        else:
            value = Value(first.low, first.high)
        state.values[symbol] = value
    return value


def _turns(machine: Machine, state: State, number: int) -> tuple[tuple[int, int], ...]:
    """Return the turns of a process's loops, counted from what is known of their trips."""
    program, found = machine.actors[number].program, []
    for loop, turn in state.processes[number].loops.items():
        name, low = program.trips[loop].name, 0
        if name:
            value = state.values.get(symbol_of(machine, number, state, name, program.starts[loop] + 1))
            low = 0 if value is None else value.low
        found.append((loop, turn - low))
    return tuple(found)


def _place(machine: Machine, state: State, number: int, nest: tuple[int, ...]) -> tuple[float, ...]:
    """Return which turn of these loops a process is in; turns compare as they follow each other."""
    p, program = state.processes[number], machine.actors[number].program
    if p.ended:
        return (float("inf"),)
    turns: list[float] = []
    for loop in nest:
        if loop in p.loops:
            turns.append(p.loops[loop])
            continue
        if p.at >= program.ends[loop]:
            turns.append(float("inf"))
        break
    return tuple(turns)


def _values(machine: Machine, state: State) -> tuple[Any, ...]:
    """Return what is known of trip counts that somebody may still ask for; forget the others."""
    found = []
    for symbol in list(state.values):
        name, turns, ordinal = symbol
        value, top = state.values[symbol], machine.ceilings[name] + 1
        asked = enters = False
        for actor in machine.actors:
            program, p = actor.program, state.processes[actor.number]
            for at in program.decides.get(name, ()):
                here, loop = (
                    _place(machine, state, actor.number, program.nests[at] if turns else ()),
                    program.loop_at(at),
                )
                inside = here == turns and loop in p.loops
                if here > turns or (here == turns and p.at > at and not inside):
                    continue
                own = (program.ordinals.get(at, 0) if machine.in_turn[name] else 0) == ordinal
                asked = asked or own or not ordinal
                enters = enters or (own and loop >= 0 and not inside)
        if not asked:
            del state.values[symbol]
            continue
        # Who is to enter a loop counts from its begin; else nobody compares below the turns that are under way.
        low = value.low if enters else min(value.low, top)
        span = None if value.high is None else value.high - value.low
        found.append((name, _relative(machine, state, name, turns), ordinal, low, span))
    return tuple(sorted(found, key=str))


def _relative(machine: Machine, state: State, name: str, turns: tuple[int, ...]) -> tuple[int, ...]:
    """Return the turns of the loops around a symbol, counted from what is known of their trips."""
    if not turns:
        return ()
    program, at = next((a.program, a.program.decides[name][0]) for a in machine.actors if a.program.decides.get(name))
    found = []
    for depth, loop in enumerate(program.nests[at]):
        outer = program.trips[loop]
        low = 0
        if outer.name:
            around = turns[:depth] if machine.shared_nests[outer.name] else ()
            ordinal = program.ordinals[program.starts[loop] + 1] if machine.in_turn[outer.name] else 0
            value = state.values.get((outer.name, around, ordinal))
            low = 0 if value is None else value.low
        found.append(turns[depth] - low)
    return tuple(found)

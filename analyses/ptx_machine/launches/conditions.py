"""Conditions that a launch decides: predicates that depend on parameters or the grid, and values that turn them round.

A branch that all runs take one way proves nothing about the other. `Conditions` says which branches, guards and
comparisons these are; `flips` looks for values that turn one round, by computing the comparison alone for many values
near the constants that it is made of. Whether it really turns round, a run of the kernel tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from legalsat.analyses.ptx.instruction import Instruction, immediate, names_in, results_of, vector, width_of
from legalsat.analyses.ptx_machine import units
from legalsat.analyses.ptx_machine.alu import FULL, LANES, DividesByZero, Value, Work, arithmetic, blend, compare
from legalsat.analyses.ptx_machine.launches import data, tried
from legalsat.analyses.ptx_machine.launches.loads import keys_of_load, parameter_of
from legalsat.analyses.ptx_machine.tickets import TICKETS, draws

TRUE, FALSE = 1, 2  # outcomes of a condition, as bits
LANES_DECIDE = frozenset({"elect", "activemask", "mbarrier"})  # their results depend on no launch
_THREAD = ("%tid.", "%laneid", "%warpid")
_SUMS = {"add", "sub", "mov", "mad", "mul", "shl", "cvt", "neg"}
BUDGET = 20_000  # instructions computed in search of values for one condition
SEARCHES = 12  # such searches for a kernel
MEMORY = "[shared]"  # stands for all words of shared memory
_GROWING = {*_SUMS, "ld", "cvta", "setp", "selp", "shr", "div", "min", "max", "shfl"}
_CHOICES = {"selp", "and", "or", "xor", "shr", "min", "max"}
_PREDICATE_TYPES = {"pred", *(f"{letter}{bits}" for letter in "usb" for bits in (8, 16, 32, 64))}
_EQUAL = {"eq", "ne", "equ", "neu"}
_MOST_DEPTH = 200
_MOST_STAGES = 32
_SMALL = (0, 1, 2, 3, 5, 8)
ADDRESS = re.compile(r"\[\s*([%\w$@]+)\s*(?:\+\s*(-?\d+))?\s*\]")
_Ints = Mapping[str, int]
BLOCKS = 1024  # for which a condition on the block's number is computed


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that a launch decides: by which predicate, where, and on what it depends.

    Attributes:
        name: of the predicate.
        line: where it is computed or used.
        keys: parameters and special registers on which it depends.
        used: whether this is a use, so a branch or guard; else it is computed here.
    """

    name: str
    line: int
    keys: frozenset[str]
    used: bool

    @property
    def what(self) -> str:
        """What it is called in messages."""
        return "branch" if self.used else "comparison"


class Conditions:
    """What the instructions of a kernel that matter depend on.

    Args:
        program: whose `chosen` instructions are taken.
    """

    def __init__(self, program: Any) -> None:
        self.program = program
        self._followed = -1  # how many pairs of stores and loads `depends` knows of
        self._left = self._given = 0
        self._budget = SEARCHES * BUDGET  # of all searches; of one, what is given and left
        self._loops: set[str] | None = None
        self._firmly = False  # of registers that loops carry nothing is known, instead of what they begin with
        self._last = self._several = False  # of several places that write a register the last is taken; there were such
        self._worked: dict[int, tuple[Work | None, list[tuple[Value, str, bool]] | None]] = {}
        self._loaded: dict[tuple[int, str], tuple[int, str, int]] = {}
        self.definitions: dict[str, list[Instruction]] = {}
        for i in program.chosen:
            for name in results_of(i):
                self.definitions.setdefault(name, []).append(i)
        self.depends = self._depends()

    def keys_now(self, condition: Condition) -> frozenset[str]:
        """Return what a condition depends on, as far as runs have shown which stores reach which loads."""
        if self.program.words and self._followed != len(self.program.flows):
            self.depends, self._followed = self._depends(self.program.flows), len(self.program.flows)
        return self.depends.get(condition.name, frozenset()) & condition.keys

    def _depends(self, flows: Set[tuple[int, int]] | None = None) -> dict[str, frozenset[str]]:  # noqa: PLR0912
        """Return the launch's values that each register depends on, by data.

        Args:
            flows: lines of stores and of loads that have read what they stored; every load reads all when left out.
        """
        reached: dict[int, list[str]] = {}
        for store, load in flows or ():
            reached.setdefault(load, []).append(f"[{store}]")
        found: dict[str, frozenset[str]] = {}
        nothing: frozenset[str] = frozenset()
        moved = True
        while moved:
            self.program.bounds.check()
            moved = False
            for i in self.program.chosen:
                to, keys = results_of(i), nothing
                if i.base == "st" and self.program.words and units.space_of(i) == "shared":
                    to = (MEMORY if flows is None else f"[{i.line}]",)
                    names = [*i.reads]
                elif i.base in LANES_DECIDE:
                    continue
                elif i.base == "clusterlaunchcontrol":
                    keys, names = frozenset({data.CANCELLED}), []
                elif draws(i):
                    keys, names = frozenset({TICKETS}), []
                elif i.base == "ld":
                    space = units.space_of(i)
                    keys = frozenset(keys_of_load(i)) if space == "param" else self._word(i)
                    names = ([MEMORY] if flows is None else reached.get(i.line, [])) if space in {"shared", ""} else []
                else:
                    names = [*i.reads]
                if i.guard:
                    names = [*names, i.guard]
                if to and len(self.definitions.get(to[0], ())) > 1:
                    # Which of its values a register has, and after how many rounds, branches decide.
                    names = [*names, *self.program.deciding.get(id(i), ())]
                for name in names:
                    keys |= tried.of_grid(name) or found.get(name, nothing)
                for name in to:
                    if not keys <= found.get(name, nothing):
                        found[name] = found.get(name, nothing) | keys
                        moved = True
        return found

    def _word(self, i: Instruction) -> frozenset[str]:
        """Return the words in memory that a load takes, if they are as good as parameters."""
        return frozenset(self.program.roles.names.get(id(i), ()))

    def _of(self, name: str) -> frozenset[str]:
        return tried.of_grid(name) or self.depends.get(name, frozenset())

    def defined(self, i: Instruction) -> Condition | None:
        """Return the condition that an instruction computes, if a launch decides it."""
        if i.base != "setp" and i.parts[-1] != "pred":
            return None
        # By its own operands: another instruction may give the same predicate another value.
        sources = [*i.reads] + [i.guard] * bool(i.guard)
        keys = frozenset().union(*(self._of(name) for name in sources))
        return Condition(results_of(i)[0], i.line, keys, used=False) if keys else None

    def used(self, i: Instruction) -> Condition | None:
        """Return the condition under which an instruction goes on, if a launch decides it."""
        keys = self.depends.get(i.guard) if i.guard else None
        return Condition(i.guard, i.line, keys, used=True) if keys else None

    def counted(self) -> dict[str, tuple[int, frozenset[str]]]:
        """Return registers that say how many arrive, meet or come, and where, if a launch decides that.

        With each come a line, and the parameters from which it is computed, whatever the branches on the way.
        """
        found: dict[str, tuple[int, frozenset[str]]] = {}
        for i in self.program.chosen:
            for name in (n for one in units.counted_operands(i) for n in names_in(one)):
                if name not in found:
                    found[name] = i.line, self.computed_from(name)
        return {name: (line, keys) for name, (line, keys) in found.items() if keys}

    @cached_property
    def expected(self) -> dict[int, frozenset[str]]:
        """Parameters that decide how many bytes are expected, by line."""
        found = {}
        for i in self.program.chosen:
            if i.base == "mbarrier" and "expect_tx" in i.parts:
                names = [n for one in units.counted_operands(i) for n in names_in(one)]
                found[i.line] = frozenset().union(*map(self.computed_from, names))
        return found

    def computed_from(self, name: str) -> frozenset[str]:
        """Return the parameters and the numbers of blocks that a register is computed from, whatever the branches."""
        keys: set[str] = set()
        seen, work = {name}, [name]
        while work:
            for i in self.definitions.get(work.pop(), ()):
                if i.base == "ld":
                    keys |= set(keys_of_load(i)) if units.space_of(i) == "param" else self._word(i)
                    continue
                more = {*i.reads} - seen
                keys |= {key for n in more for key in tried.of_grid(n)}
                seen |= more
                work += more
        return frozenset(keys)

    def grows_with_launches(self, name: str) -> bool:
        """Does a register grow, or fall, with all that a launch gives it, and take no part of it, as a remainder is?"""
        seen, work = {name}, [name]
        while work:
            for i in self.definitions.get(work.pop(), ()):
                mask = immediate(i.operands[-1]) if i.base == "and" else None
                whole = i.base in _GROWING or (mask is not None and mask < 0 and not -mask & (-mask - 1))
                if not whole and any(self.computed_from(one) - self.switches for one in results_of(i)):
                    return False
                more = {*i.reads} - seen
                seen |= more
                work += more
        return True

    # Turning conditions round.

    def computed_once(self, name: str) -> bool:
        """Is a predicate computed in one place alone?"""
        return len(self.definitions.get(name, ())) == 1

    def crossings(self, condition: Condition) -> dict[str, set[int]]:
        """Return values of parameters and of the grid, by name, at which a condition may turn round."""
        return tried.crossings(self.program, condition.name, self.definitions)

    def begin_anew(self) -> None:
        """Let values be looked for again, as often as at first."""
        self._budget = SEARCHES * BUDGET

    def flips(
        self,
        condition: Condition,
        free: Set[str],
        wanted: int,
        bases: Sequence[Mapping[str, int]],
        steps: Mapping[str, int],
    ) -> Iterator[dict[str, int]]:
        """Yield values of parameters with which a condition has the wanted outcome, the simplest first.

        Args:
            condition: that is to be turned round.
            free: what may be chosen of that on which it depends.
            wanted: `TRUE` or `FALSE`.
            bases: values of the other parameters.
            steps: by how much each parameter grows, where that is not 1.
        """
        program, switches = self.program, self.switches
        constants = tried.constants_of(condition.name, self.definitions)
        near = self.crossings(condition)
        listed = {
            key: tried.of_switch(program, key)
            if key in switches
            else tried.candidates(program, key, constants, near.get(key, set()), steps.get(key, 1))
            for key in sorted(free)
        }
        self._budget -= self._given - max(self._left, 0)
        known = found = False
        self._given = self._left = min(BUDGET, self._budget)
        rooms = [{key: base[key] for key in listed if key in base} for base in bases[1:]]
        roomy = [self._fewest(condition, bases[0], room, wanted) for room in rooms]
        for base, values in ((b, values) for b in bases for values in self._simplest(listed, b, steps)):
            if self._left < 0:
                break
            outcome = self._gives(condition, {**base, **values}, wanted)
            known |= outcome is not None
            if outcome:
                found = True
                yield values
        if not found:
            yield from filter(None, roomy)
        if not known and self._left >= 0:
            # It depends on what only a run knows: the constants that it is compared with are all there is to go by.
            for key in listed:
                for c in constants:
                    yield from ({key: max(0, c + d) * steps.get(key, 1)} for d in (0, 1, -1))

    def _fewest(self, condition: Condition, base: _Ints, values: dict[str, int], wanted: int) -> dict[str, int]:
        """Return as few of some values as give a condition the wanted outcome; none where all together do not."""
        if not self._gives(condition, {**base, **values}, wanted):
            return {}
        for key in list(values):
            fewer = {other: value for other, value in values.items() if other != key}
            values = fewer if self._gives(condition, {**base, **fewer}, wanted) else values
        return values

    def _gives(self, condition: Condition, values: Mapping[str, int], wanted: int) -> bool | None:
        """Has a condition the wanted outcome, with what registers begin with, or else with what loops give them?"""
        self._several = False
        outcome, left = self.outcome(condition, values), self._left
        if self._several and not (outcome or 0) & wanted:
            self._last = True
            later = self.outcome(condition, values)
            outcome = later if outcome is None or (later or 0) & wanted else outcome
            self._last, self._left = False, left
        return None if outcome is None else bool(outcome & wanted)

    def _simplest(self, listed: Mapping[str, list[int]], base: _Ints, steps: _Ints) -> list[dict[str, int]]:
        """Return what is tried: each parameter alone, and small values of up to three, those of small numbers first."""
        held = {key: base.get(key, self.program.pointer(key)) for key in listed}
        found: list[dict[str, int]] = [{key: v} for key, vs in listed.items() for v in vs if v != held[key]]
        if len(listed) > 1:
            small = [listed[k] if k in self.switches else [v * steps.get(k, 1) for v in _SMALL] for k in [*listed][:3]]
            found += [dict(zip(listed, values, strict=False)) for values in product(*small)]
        return sorted(found, key=lambda v: (min(v.values()) < 0, sum(map(abs, v.values()))))

    @cached_property
    def switches(self) -> frozenset[str]:
        """Parameters of which only whether they are zero matters: each is compared with zero, or leads to words."""
        holds: dict[str, set[str]] = {}
        readers: dict[str, list[Instruction]] = {}
        for i in self.program.chosen:
            if i.base == "ld" and (units.space_of(i) == "param" or id(i) in self.program.roles.words):
                words = self.program.roles.names.get(id(i))
                for name, key in zip(vector(i.operands[0]), words or keys_of_load(i), strict=False):
                    holds.setdefault(key, set()).add(name)
            for name in {n for one in (*i.operands[1:], i.guard) for n in names_in(one)}:
                readers.setdefault(name, []).append(i)
        return frozenset(key for key, names in holds.items() if self._only_switches(names, readers))

    def _only_switches(self, names: Set[str], readers: Mapping[str, Sequence[Instruction]]) -> bool:
        work, seen = [(name, True) for name in names], set()
        while work:
            name, whole = one = work.pop()
            if one in seen:
                continue
            seen.add(one)
            for i in readers.get(name, ()):
                if i.base == "setp" and whole and len(i.operands) == 3 and i.parts[1] in _EQUAL:
                    if immediate(i.operands[2]) == 0 and i.operands[1] == name:
                        continue
                    return False
                if i.base == "ld" and id(i) in self.program.roles.words:
                    continue
                if i.base not in _SUMS | {"cvta", "selp"} or i.base == "setp" or i.parts[-1] == "pred":
                    return False
                work += [(to, whole and i.base in {"mov", "cvta", "selp"}) for to in results_of(i)]
        return True

    # Conditions on the state of loops.

    @cached_property
    def stages(self) -> int:
        """The greatest small number with which a loop compares what it carries, as where a ring begins anew."""
        found = 0
        for i in self.program.chosen:
            if i.base == "setp" and i.parts[1] in _EQUAL and self._carried(i.operands[1]):
                number = immediate(i.operands[2]) or 0
                found = max(found, number if number <= _MOST_STAGES else 0)
        return found

    def compared(self, i: Instruction) -> list[Instruction]:
        """Return the comparisons by which alone loops decide a predicate; none where they decide it otherwise."""
        found: list[Instruction] = []
        work, seen = [i], set[int]()
        while work:
            one = work.pop()
            if id(one) in seen:
                continue
            seen.add(id(one))
            if one.base == "setp":
                if not self._of_loops(one):
                    return []
                found.append(one)
                continue
            for name in filter(self._carried, (n for operand in one.operands[1:] for n in names_in(operand))):
                listed = self.definitions[name]
                if len(listed) > 1 or listed[0].guard or listed[0].parts[-1] not in _PREDICATE_TYPES:
                    return []
                work += listed
        return found

    def _of_loops(self, i: Instruction) -> bool:
        """Does an instruction compare sums of registers that loops carry, and of what the launch gives?"""
        carried, work, seen = False, [*i.reads], set()
        while work:
            one = work.pop()
            if one in seen or not self._carried(one):
                continue
            seen.add(one)
            listed = self.definitions[one]
            if len(listed) > 1:
                carried = True
            elif listed[0].base in _SUMS | _CHOICES | {
                "setp"
            }:  # stages begin anew where one is compared with their number
                work += [n for operand in listed[0].operands[1:] for n in names_in(operand)]
            else:
                return False
        return carried or (bool(seen) and self.computed_from(i.operands[1]) <= self.switches)

    def _carried(self, name: str) -> bool:
        """Does a register depend on one that is written in several places?"""
        if self._loops is None:
            readers: dict[str, set[str]] = {}
            for to, listed in self.definitions.items():
                for n in {n for i in listed for one in i.operands[1:] for n in names_in(one)}:
                    readers.setdefault(n, set()).add(to)
            work = [to for to, listed in self.definitions.items() if len(listed) > 1]
            self._loops = set(work)
            while work:
                more = readers.get(work.pop(), set()) - self._loops
                self._loops |= more
                work += more
        return name in self._loops

    def follows(self, name: str, known: Mapping[str, int]) -> int | None:
        """Return what a predicate is that one instruction makes of others of which some are known; None for either."""
        listed = self.definitions.get(name, ())
        if len(listed) != 1 or listed[0].guard or listed[0].parts[-1] != "pred":
            return None
        work = arithmetic(listed[0].parts, listed[0].operands)
        sources: list[Value] = [known.get(one) for one in listed[0].operands[1:]]
        return None if work is None or "!" in "".join(listed[0].operands) else work(*sources)

    def out_of_reach(self, condition: Condition, values: Mapping[str, int]) -> bool:
        """Does a branch on the only way to a condition go another way for these values?"""
        here = [i for i in self._lines.get(condition.line, ()) if condition.name in (*results_of(i), i.guard)]
        at: Instruction | None = here[0] if len(here) == 1 else None
        for _ in range(_MOST_DEPTH):
            found = self.program.only_after.get(id(at))
            if found is None:
                return False
            at, needed = found
            way = Condition(at.guard, at.line, frozenset(), used=True)
            self._firmly, left = True, self._left
            try:
                outcome = self.outcome(way, values)
            finally:
                self._firmly, self._left = False, left  # it takes nothing of what a search for values may
            if outcome == (TRUE | FALSE) ^ needed:
                return True
        return False

    def may_turn(self, condition: Condition, values: Mapping[str, int], wanted: int) -> bool:
        """May a launch with these values come to a condition, and find a wanted outcome there?"""
        left = self._left
        outcome, self._left = self.outcome(condition, values), left
        return (outcome is None or bool(outcome & wanted)) and not self.out_of_reach(condition, values)

    def same_for_blocks(self, condition: Condition, free: Set[str], seen: int, base: Mapping[str, int]) -> bool:
        """Does a condition that depends on the block's number alone turn out the same for all blocks?

        The first ones are asked, and those where what is computed of them may cross what it is compared with.
        """
        if not all(key.startswith("%ctaid.") for key in free) or not tried.crosses(condition.name, self.definitions):
            return False
        near = self.crossings(condition)
        for key in free:
            listed = [*range(BLOCKS), *sorted(near.get(key, ()))]
            listed += [0] * (-len(listed) % LANES)
            for numbers in np.array(listed, dtype=np.uint64).reshape(-1, LANES):
                if self.outcome(condition, {**base, key: numbers}, by_thread=True) not in {TRUE, FALSE} & {seen}:
                    return False
        return True

    def outcomes(self, names: Iterable[str], values: Mapping[str, int]) -> list[Value]:
        """Return what predicates are for these values in the first warp."""
        held: dict[str, Value] = {"": -1}
        return [self._value(name, values, 0, held, 0) for name in names]

    def outcome(self, condition: Condition, values: Mapping[str, Any], *, by_thread: bool = False) -> int | None:
        """Return which outcomes a condition has for these values, as bits; None where that cannot be computed.

        Args:
            condition: of those that are computed in several places, this one.
            values: of parameters and special registers.
            by_thread: lanes stand for launches, not for threads; some threads are taken one by one.
        """
        found, name = 0, condition.name
        here = [i for i in self.definitions.get(name, ()) if i.line == condition.line and not condition.used]
        used = (i for i in reversed(self._lines.get(condition.line, ())) if i.guard == name and condition.used)
        at = next(used, None)
        last = -(-self.program.threads // LANES) - 1
        threads = [(w, lane) for w in sorted({0, 1, last}) for lane in (0, LANES - 1)] if by_thread else []
        for warp, lane in threads or [(0, -1), (last, -1)]:
            held: dict[str, Value] = {"": lane}
            if len(here) == 1:
                value = self._computed(here[0], name, values, warp, held, 0)
            else:
                value = self._taken(at, name, values, warp, held, 0) if at else self._value(name, values, warp, held, 0)
            if not isinstance(value, int):
                return None
            found |= (TRUE if value else 0) | (FALSE if value != FULL else 0)
            if not by_thread and not any(one.startswith(_THREAD) for one in held):
                break
        return found

    def _value(self, name: str, values: Mapping[str, int], warp: int, held: dict[str, Value], depth: int) -> Value:
        if name in held:
            return held[name]
        held[name] = None  # while it is looked for: what depends on itself is not followed
        program = self.program
        self._left -= 1
        if name not in self.definitions:
            if name in values:
                held[name] = values[name]
            elif name.startswith("%"):
                held[name] = value = program.special(values, name, warp)
                if held.get("", -1) >= 0 and isinstance(value, np.ndarray) and name not in values:
                    held[name] = int(value[held[""]])
            else:
                held[name] = program.symbols.get(name)
        elif depth < _MOST_DEPTH and not (self._firmly and len(self.definitions[name]) > 1):
            listed = self.definitions[name]
            self._several |= len(listed) > 1
            for i in reversed(listed) if self._last else listed:
                value = self._computed(i, name, values, warp, held, depth + 1)
                if value is not None:
                    held[name] = value
                    break
        return held[name]

    def _taken(  # noqa: PLR0917
        self, i: Instruction, name: str, values: Mapping[str, int], warp: int, held: dict[str, Value], depth: int
    ) -> Value:
        """Return what an instruction takes from a register: of several writers, the one before it in its block."""
        before = self.program.before_in_block.get((id(i), name))
        if before is None or depth >= _MOST_DEPTH:
            return self._value(name, values, warp, held, depth)
        here = f"{name} of {id(before)}"
        if here not in held:
            held[here] = None
            self._left -= 1
            held[here] = self._computed(before, name, values, warp, held, depth + 1)
        return held[here]

    def _computed(  # noqa: PLR0911, PLR0917
        self, i: Instruction, name: str, values: Mapping[str, int], warp: int, held: dict[str, Value], depth: int
    ) -> Value:
        if i.base == "ld":
            taken = self._loaded.get((id(i), name))
            if taken is None:
                at, of_launch = results_of(i).index(name), units.space_of(i) == "param"
                word = id(i) in self.program.roles.words
                taken = self._loaded[id(i), name] = (at, "", 0) if word or not of_launch else (at, *parameter_of(i, at))
            at, key, bits = taken
            if bits:
                return self.program.parameter(values, key, bits)
            return self._word_at(i, at, values, warp, held, depth) if id(i) in self.program.roles.words else None
        work, operands = self._worked.get(id(i)) or self._worked.setdefault(id(i), _work(i))
        if operands is None:
            return None
        sources = []
        for number, operand, turned in operands:
            value = self._taken(i, operand, values, warp, held, depth) if number is None else number
            sources.append(value ^ FULL if turned and value is not None else value)
            if i.base == "shfl":
                first = sources[0]
                return int(first[0]) if isinstance(first, np.ndarray) else first
        try:
            if i.base == "selp":
                a, b, held_ = sources
                return None if held_ is None else a if held_ == FULL else b if not held_ else blend(a, b, held_)
            value = None if work is None else work(*sources)
        except (DividesByZero, TypeError, ValueError, OverflowError):
            return None
        if i.base == "setp" and value is not None and results_of(i).index(name):
            return value ^ FULL
        return value

    @cached_property
    def _lines(self) -> dict[int, list[Instruction]]:
        found: dict[int, list[Instruction]] = {}
        for i in self.program.chosen:
            found.setdefault(i.line, []).append(i)
        return found

    def _word_at(  # noqa: PLR0917
        self, i: Instruction, at: int, values: Mapping[str, int], warp: int, held: dict[str, Value], depth: int
    ) -> Value:
        found = ADDRESS.fullmatch(i.operands[1])
        begin = self._value(found[1], values, warp, held, depth) if found else None
        if found is None or begin is None:
            return None
        size = width_of(i) // len(vector(i.operands[0]))
        pointer = self.program.roles.words[id(i)]
        return data.word(self.program, values, pointer, begin + int(found[2] or 0), at, size)


def _work(i: Instruction) -> tuple[Work | None, list[tuple[Value, str, bool]] | None]:
    """Return what an instruction computes and from what: numbers, and registers that may be negated.

    Instead of the sources None, where its result is not known.
    """
    work = compare(i.parts) if i.base == "setp" else arithmetic(i.parts, i.operands)
    if (i.base not in {"setp", "selp", "shfl"} and work is None) or any("{" in one for one in i.operands):
        return None, None
    limit, predicate = (1 << _bits(i)) - 1, i.parts[-1] == "pred"
    found: list[tuple[Value, str, bool]] = []
    for operand in i.operands[1:]:
        number = immediate(operand)
        if number is not None:
            number = FULL * (number & 1) if predicate else number & limit
        found.append((number, operand.lstrip("!"), operand.startswith("!")))
    return work, found


def _bits(i: Instruction) -> int:
    found = re.search(r"(\d+)$", i.parts[-1])
    return int(found[1]) if found else 64

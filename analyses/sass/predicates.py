"""What predicates of machine code have to do with each other: copies, negations, combinations, votes of one another.

The assembler parts what stood under one predicate: a copy jumps over one instruction, a vote guards another. A value is
what was written at some place, or its negation; places that write the same value write equal predicates, and what a
jump decides of one is decided of all. All is said of one lane: that a vote has failed says of no lane which it was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple, TypeAlias

from legalsat.analyses.sass.registers import touched
from legalsat.analyses.sass.text import TRUE_PREDICATES, Instruction

_PREDICATE = re.compile(r"U?P(\d|T)$")
_UNIFORM = re.compile(r"UR\d+")
_WRITTEN_BEFORE = 3  # operands among which those stand that may be predicates written
_OPPOSITE = {"NE": "EQ", "GE": "LT", "GT": "LE"}
_COMPARISONS = frozenset({"ISETP", "UISETP"})


class Written(NamedTuple):
    """What an instruction wrote when it was run last: its place, and the predicate's name."""

    place: int
    name: str


class All(NamedTuple):
    """Whether a value held in all lanes that voted."""

    of: Value


class Value(NamedTuple):
    """Something that holds or not, or its negation; None holds always."""

    of: Written | All | None
    negated: bool = False

    def turned(self, negated: bool = True) -> Value:
        """Return the negation."""
        return Value(self.of, self.negated != negated)


HOLDS = Value(None)
Key: TypeAlias = tuple[frozenset[tuple[str, Value]], frozenset[tuple[Written | All, bool]]]


@dataclass
class Predicates:
    """What is known at one place.

    Attributes:
        values: of predicates, and of comparisons whose registers have not been written since. decided: on the way.
    """

    values: dict[str, Value] = field(default_factory=dict)
    decided: dict[Written | All, bool] = field(default_factory=dict)

    def copy(self) -> Predicates:
        """Return what changes by itself."""
        return Predicates(dict(self.values), dict(self.decided))

    def meet(self, other: Predicates) -> bool:
        """Keep what is known on another way too; return whether that is less."""
        known = len(self.values) + len(self.decided)
        self.values = {name: value for name, value in self.values.items() if other.values.get(name) == value}
        self.decided = {key: holds for key, holds in self.decided.items() if other.decided.get(key) is holds}
        return len(self.values) + len(self.decided) < known

    def key(self) -> Key:
        """Return what of it can decide anything: values that several have, or that are decided."""
        shared = Counter(_root(value.of) for value in self.values.values())
        values = frozenset(
            (name, value)
            for name, value in self.values.items()
            if value.of is None or shared[_root(value.of)] > 1 or self.truth(value) is not None
        )
        held = {_root(value.of) for _, value in values}
        return values, frozenset((key, holds) for key, holds in self.decided.items() if _root(key) in held)

    def guard(self, one: Instruction, place: int) -> Value:
        """Return the value of what stands before an instruction."""
        return self._of(one.guard, place).turned(one.negated) if one.guard else HOLDS

    def truth(self, value: Value) -> bool | None:
        """Return whether a value holds, None where that is not known."""
        if value.of is None:
            return not value.negated
        held = self.decided.get(value.of)
        if held is None and isinstance(value.of, All) and self.truth(value.of.of) is False:
            held = False
        return None if held is None else held != value.negated

    def decide(self, value: Value, holds: bool = True, *, witness: bool = False) -> None:
        """Take a value to hold or not; `witness`: this lane is one of those for which a vote has failed."""
        if value.of is None:
            return
        held = holds != value.negated
        self.decided[value.of] = held
        if isinstance(value.of, All) and (held or witness):
            self.decide(value.of.of, held, witness=witness)

    def after(self, one: Instruction, place: int) -> None:
        """Let an instruction write predicates."""
        runs = self.truth(self.guard(one, place))
        if one.never or runs is False or one.base in {"BRA", "EXIT"}:
            return
        for name in [name for name in self.values if " " in name and _overwrites(one, name)]:
            del self.values[name]
        for everything, prefix in (("PR", "P"), ("UPR", "UP")):
            if everything in one.operands:
                self.values = {name: value for name, value in self.values.items() if not name.startswith(prefix)}
        compared = _comparison(one) if runs else None
        if compared is not None:
            asked = self.values.get(compared[0]) or self._new(compared[0], place)
            self.values |= {name: asked.turned(turned) for name, turned in compared[1]}
            return
        results = dict(self._results(one, place))
        for name, value in results.items():
            kept = value is not None and (runs or value == self.values.get(name))
            stale = value is not None and _root(value.of) == Written(place, name)
            self.values[name] = value if value is not None and kept and not stale else self._new(name, place)

    def _new(self, name: str, place: int) -> Value:
        """Return a value that nothing else has: what has the one of the last time there, has one unknown from now."""
        written = Written(place, name)
        self.values = {other: value for other, value in self.values.items() if _root(value.of) != written}
        self.decided = {key: holds for key, holds in self.decided.items() if _root(key) != written}
        found = self.values[name] = Value(written)
        return found

    def _of(self, operand: str, place: int) -> Value:
        """Return the value of an operand; what nobody knows gets a name, so that it is the same the next time."""
        name = operand.lstrip("!")
        if name in TRUE_PREDICATES:
            return HOLDS.turned(operand.startswith("!"))
        return (self.values.get(name) or self._new(name, place)).turned(operand.startswith("!"))

    def _results(self, one: Instruction, place: int) -> Iterator[tuple[str, Value | None]]:
        """Yield predicates that an instruction writes, and their values, None where nothing is known of one."""
        told = one.operands
        if one.base in {"PLOP3", "UPLOP3"} and len(told) == 7:
            inputs = [self._of(operand, place) for operand in told[2:5]]
            for name, table in zip(told, told[5:], strict=False):
                if name not in TRUE_PREDICATES:
                    yield name, self._combined(inputs, int(table, 0))
        elif one.base in {"VOTE", "VOTEU"} and len(told) == 2 and {"ALL", "ANY"} & set(one.parts):
            given = self._of(told[1], place)
            anyone = "ANY" in one.parts
            yield told[0], Value(All(given.turned(anyone)), anyone)
        else:
            yield from (
                (operand, None)
                for operand in told[:_WRITTEN_BEFORE]
                if _PREDICATE.match(operand) and operand not in TRUE_PREDICATES
            )

    def _combined(self, inputs: list[Value], table: int) -> Value | None:
        """Return what a table gives for three inputs, None where that is no value or negation of one of them."""
        open_ = [*dict.fromkeys(value.of for value in inputs if self.truth(value) is None)]
        rows = [dict(zip(open_, held, strict=True)) for held in product((False, True), repeat=len(open_))]
        outcomes = []
        for row in rows:
            bits = [row[v.of] != v.negated if v.of in row else bool(self.truth(v)) for v in inputs]
            outcomes.append(bool(table >> (bits[0] * 4 + bits[1] * 2 + bits[2]) & 1))
        for of in (None, *open_):
            column = [of is None or row[of] for row in rows]
            if outcomes in (column, [not held for held in column]):
                return Value(of, outcomes != column)
        return None


def _root(key: Written | All | None) -> Written | None:
    """Return what a value rests on."""
    while isinstance(key, All):
        key = key.of.of
    return key


def _comparison(one: Instruction) -> tuple[str, list[tuple[str, bool]]] | None:
    """Return what integers are compared, in words, and the predicates written, with whether each says the opposite."""
    told = one.operands
    if one.base not in _COMPARISONS or len(told) != 5 or told[4] not in TRUE_PREDICATES or one.parts[-1] != "AND":
        return None
    asked, rest = one.parts[1], one.parts[2:-1]
    words = " ".join([one.base, *rest, _OPPOSITE.get(asked, asked), told[2], told[3]])
    turned = asked in _OPPOSITE
    return words, [(name, turned != bool(n)) for n, name in enumerate(told[:2]) if name not in TRUE_PREDICATES]


def _overwrites(one: Instruction, comparison: str) -> bool:
    """Return whether an instruction writes a register that is compared."""
    compared = comparison.split(" ")[-2:]
    if any(_UNIFORM.search(operand) for operand in compared):
        return any(_UNIFORM.match(operand) for operand in one.operands[:_WRITTEN_BEFORE])
    written = {f"R{register}" for span in touched(one).writes for register in span}
    return any(operand.strip("-|~") in written for operand in compared)

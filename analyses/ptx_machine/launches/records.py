"""Tables that a launch finds in memory: records of groups, such as sizes and pointers, that threads read by number.

Where a load adds multiples of a number to a pointer, that is the bytes of a record, and what is left says which field
it reads. Each field is as good as a parameter, called `[pointer]` or `[pointer]+8`, of which a table holds one value a
record. All records hold the same at first; `%records` of a run says otherwise: they grow, or some of them are zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from legalsat.analyses.ptx.bounds import Bounds
from legalsat.analyses.ptx.instruction import Instruction, immediate, results_of
from legalsat.analyses.ptx.parameters import address_of
from legalsat.analyses.ptx.text import Kernel
from legalsat.analyses.ptx_machine.launches.lanewise import LANES, differing

RECORDS = "%records"
PATTERNS = (1, 2, 3)  # with which runs are made besides
APART = 20  # bits of an address: pointers that a table holds are so far apart
FIELD = 1 << 30  # between those of two fields that lie a byte apart
_MOST_DEPTH = 32
COPIES = frozenset({"mov", "cvta", "cvt"})


Place = tuple[int, int]  # a register is a multiple of, and what is added
OPEN: Place = (1, 0)


def place_in(name: str, definitions: Mapping[str, Sequence[Instruction]]) -> Place:
    """Return of what a register is a multiple, behind a pointer, 1 where that is open, and how much is added."""
    return _Places(definitions).place(name, 0)


@dataclass
class _Places:
    """What registers that one is worked out of are multiples of, each found once: texts add registers to themselves."""

    definitions: Mapping[str, Sequence[Instruction]]
    found: dict[str, Place] = field(default_factory=dict)

    def place(self, name: str, depth: int) -> Place:
        listed = self.definitions.get(name, ())
        if not listed or depth > _MOST_DEPTH:
            return OPEN
        if name not in self.found:
            self.found[name] = OPEN  # what it is of itself
            places = [self.result(i, depth + 1) for i in listed]
            offset = places[0][1]
            strides = (stride for stride, _ in places)
            self.found[name] = math.gcd(*strides, *(other - offset for _, other in places)), offset
        return self.found[name]

    def result(self, i: Instruction, depth: int) -> Place:
        sources = i.operands[1:]
        numbers = [immediate(one) for one in sources]
        if i.base == "ld":
            return 0, 0
        if i.base in COPIES:
            return self.place(sources[0], depth)
        if i.base in {"mul", "mad"} and "hi" not in i.parts:
            by = next((abs(n) for n in numbers[:2] if n is not None), 1)
            rest = self.place(sources[2], depth) if i.base == "mad" and numbers[2] is None else (0, 0)
            return math.gcd(by, rest[0]), rest[1]
        if i.base == "shl" and numbers[1] is not None:
            return 1 << min(numbers[1], _MOST_DEPTH), 0
        if i.base in {"add", "sub"}:
            signs = (1, -1 if i.base == "sub" else 1)
            parts = [
                (0, n) if n is not None else self.place(one, depth) for one, n in zip(sources, numbers, strict=True)
            ]
            return math.gcd(*(stride for stride, _ in parts)), sum(
                s * o for s, (_, o) in zip(signs, parts, strict=True)
            )
        return OPEN


@dataclass
class Tables:
    """Pointers to tables, and what follows from these.

    Attributes:
        records: bytes of a record by pointer, 0 where only words of one size are told apart.
        counted: pointers of which the n-th word holds n times what the first one does, as where one load reads few.
        lanewise: comparisons, by identity, of what each lane has read for itself, by which instructions are guarded.
    """

    records: dict[str, int] = field(default_factory=dict)
    counted: set[str] = field(default_factory=set)
    lanewise: frozenset[int] = frozenset()

    def name(self, pointer: str, offset: int) -> str:
        """Return what the words are called that lie so many bytes from a multiple of a record's."""
        record = self.records.get(pointer, 0)
        at = offset % record if record else 0
        return f"[{pointer}]+{at}" if at else f"[{pointer}]"

    def steering(self, names: Iterable[str]) -> set[str]:
        """Return the pointers to tables that some words which are named lie in."""
        return self.records.keys() & {one.rpartition("]")[0][1:] for one in names if one.startswith("[")}


def tables_of(
    loads: Mapping[int, str],
    instructions: Sequence[Instruction],
    apart: Mapping[int, str],
    sizes: Mapping[int, int],
) -> tuple[Tables, dict[int, int]]:
    """Return the tables of a kernel, and at which byte of a record its loads begin, by identity.

    Args:
        loads: by identity, with the pointer from which each reads.
        instructions: of the kernel.
        apart: those of the loads, by identity, that threads may make from different places, with the address.
        sizes: bytes of each word that a load reads.
    """
    definitions: dict[str, list[Instruction]] = {}
    for i in instructions:
        for name in results_of(i):
            definitions.setdefault(name, []).append(i)
    of_tables = dict.fromkeys(pointer for n, pointer in loads.items() if n in apart)
    places, strides = dict[int, int](), dict[str, int]()
    for i in instructions:
        if loads.get(id(i)) in of_tables:
            pointer, place = loads[id(i)], address_of(i.operands[1])
            stride, at = place_in(place[0], definitions) if place is not None else (1, 0)
            places[id(i)] = at + (place[1] if place is not None else 0)
            strides[pointer] = math.gcd(strides.get(pointer, 0), stride)
    tables = Tables()
    for pointer in of_tables:
        widest = max(sizes[n] for n, one in loads.items() if one == pointer)
        tables.records[pointer] = strides[pointer] if strides[pointer] > widest else 0
        if not tables.records[pointer] and any(one == pointer and n not in apart for n, one in loads.items()):
            tables.counted.add(pointer)
    return tables, places


def lanewise_of(kernel: Kernel, apart: Mapping[int, str], bounds: Bounds) -> frozenset[int]:
    """Return comparisons, by identity, of what each lane of a warp has read for itself, if any of it guards something.

    Args:
        kernel: the kernel.
        apart: loads, by identity, that threads may make from different places, with the address.
        bounds: of what that may take.
    """
    where = differing(kernel, LANES, lambda _: False, bounds) if apart else {}
    read = {n for n, name in apart.items() if name in where.get(n, ())}
    if not read:
        return frozenset()
    compared = differing(kernel, (), lambda i: id(i) in read, bounds)
    guards = _guards(kernel.instructions)
    listed = (i for i in kernel.instructions if i.base == "setp" and not guards.isdisjoint(results_of(i)))
    return frozenset(id(i) for i in listed if not compared.get(id(i), frozenset()).isdisjoint(i.reads))


def _guards(instructions: Sequence[Instruction]) -> frozenset[str]:
    """Return predicates by which an instruction is guarded, or from which such a one is made."""
    found = {i.guard for i in instructions if i.guard}
    work = list(found)
    made: dict[str, list[Instruction]] = {}
    for i in instructions:
        if i.parts[-1] == "pred" and i.base != "setp":
            for name in results_of(i):
                made.setdefault(name, []).append(i)
    while work:
        for i in made.get(work.pop(), ()):
            more = {*i.reads} - found
            found |= more
            work += more
    return frozenset(found)


def of_record(held: int, record: Any, at: int, pattern: int, *, counted: bool, whole: bool) -> Any:
    """Return what a field of some records holds.

    Args:
        held: by the first one, if nothing else is said.
        record: the number of each.
        at: the field's first byte.
        pattern: 0 to 3, `%records` of a run.
        counted: they grow at first.
        whole: it is a whole number, not a float, of which no multiple is taken.
    """
    if pattern % 4 < 2:
        return held * (record + 1) if whole and counted != bool(pattern % 4) else held + 0 * record
    chosen = _chosen(record, at)
    return held * (chosen % 3) if whole and pattern % 4 == 3 else held * (chosen & 1)


def _chosen(record: Any, at: int) -> Any:
    """Return a number that looks like chance, small, of records and a field."""
    low = np.uint64(0xFFFFFFFF)
    wide = np.asarray(record & 0xFFFF, dtype=np.uint64) + np.uint64(1)
    mixed = wide * np.uint64(0x9E3779B1) & low ^ np.uint64((at + 1) * 0x85EBCA6B & 0xFFFFFFFF)
    mixed = (mixed ^ mixed >> np.uint64(15)) * np.uint64(0x2C1B3C6D) & low
    mixed = (mixed ^ mixed >> np.uint64(12)) & np.uint64(0xFF)
    return int(mixed) if mixed.ndim == 0 else mixed

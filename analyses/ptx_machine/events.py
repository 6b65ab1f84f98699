"""What each warp of a run does to barriers, shared memory and units, in order, as the machine follows it.

A program that records is one whose operations are wrapped, so that one that does not costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from legalsat.analyses.matrix_layout import read_addresses
from legalsat.analyses.ptx.findings import Undecided
from legalsat.analyses.ptx.instruction import Instruction, vector, width_of
from legalsat.analyses.ptx_machine import units
from legalsat.analyses.ptx_machine.alu import FULL, Value, lane_values, signed
from legalsat.analyses.ptx_machine.guards import active, guard_of
from legalsat.analyses.ptx_machine.machine import BLOCK, PARK, Operation, Part, Run, Warp
from legalsat.analyses.ptx_machine.making.series import Series
from legalsat.analyses.ptx_machine.matrix.tcgen05 import KIND_BITS, committed_to
from legalsat.analyses.ptx_machine.matrix.wgmma import BITS
from legalsat.analyses.ptx_machine.memory import SHARED_BYTES
from legalsat.analyses.ptx_machine.places import Places
from legalsat.analyses.ptx_machine.program import Program
from legalsat.options import MAJORS, Major
from legalsat.units.matrix_descriptor import MatrixDescriptor
from legalsat.units.tcgen05 import InstructionDescriptor

Spans: TypeAlias = tuple[tuple[int, int], ...]
_STEP_BYTES = 32  # of K that one multiplication takes
_COLUMN = 0xFFFF  # of an address of tensor memory, whose upper half is a lane


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that lanes of a warp have done.

    Attributes:
        what: "start", "wait", "arrive", "expect", "complete", "load", "store", "copy", "read", "write", "multiply",
            "commit", "commit to", "wait group", "fence", "meet", "registers", "allocate", "relinquish", "free",
            "fetch", or "lanes" where the lanes of the warp have met; of programs that are traced also "global read" and
            "global write".
        line: in the text. lanes: that did it, as bits.
        spans: bytes of the machine's shared memory, first and behind the last: the barriers of all lanes, or what is
            read or written.
        numbers: of "start" the arrivals; of "wait" the parity; of "arrive" the count at each span; of "expect" the
            bytes; of "complete" too; of "load" the bytes, the barrier and the CTAs as bits, 0 for its own; of "store"
            the bytes; of "wait group" how many may be pending; of "meet" the number and the threads; of "registers" how
            many; of "allocate" and "free" how many columns; of "fetch" and of a "multiply" by tcgen05 the first column.
        name: of "expect" "alone" where no arrival goes with it; of "commit" and "wait group" the family, with ".read";
            of "fence" the kind; of "meet" "cluster arrive", "cluster wait", "sync" or "arrive"; of "load" and "store"
            the map, "" of copies without one; of "registers" "inc" or "dec".
        at: where it is done in global memory, of programs that are traced: of "load" and "store" the coordinates, with
            what im2col adds to them behind, or without a map the address; of "copy" the address of each lane, -1 where
            zeros come.
    """

    what: str
    line: int
    lanes: int
    spans: Spans = ()
    numbers: tuple[int, ...] = ()
    name: str = ""
    at: tuple[int, ...] = ()


Seen: TypeAlias = Callable[[Run, Warp, Part, int], Event | None]
"""What an instruction is about to do with some active lanes."""


class Recorder:
    """Records the events of the runs of a program, from its making on.

    Attributes:
        streams: of each warp of the cluster, by its index, the events since the last `clear`.
    """

    def __init__(self, program: Program) -> None:
        self.streams: dict[int, list[Event]] = {}
        places = [at for at, text in enumerate(program.texts) if text not in {"label", "end"}]
        for at, i in zip(places, program.chosen, strict=True):
            seen = _seen(program, i)
            if seen is not None:
                inner = program.code[at]
                inner = inner.inner if isinstance(inner, Series) else inner  # each access is an event of its own
                program.code[at] = self._recording(inner, seen, program, i)

    def clear(self) -> None:
        """Forget what was recorded."""
        self.streams = {}

    def _recording(self, inner: Operation, seen: Seen, program: Program, i: Instruction) -> Operation:
        line, guard = i.line, guard_of(program, i)
        looks = i.base == "mbarrier" and i.parts[1] in _WAITS
        result = program.slot(i.operands[0].split("|")[0].strip(), line) if looks else -1

        def operation(run: Run, warp: Warp, part: Part) -> int | None:
            lanes, at = active(part, guard, line), part.pc
            event = seen(run, warp, part, lanes) if lanes else None
            signal = inner(run, warp, part)
            # What is not done yet is tried again at the same place, and who looked in vain has not waited.
            done = signal not in {PARK, BLOCK} or part.pc != at
            if event is not None and done and (not looks or _holds(part.registers[result], lanes)):
                self.streams.setdefault(warp.index, []).append(event)
            return signal

        return operation


def _holds(predicate: Value, lanes: int) -> bool:
    return isinstance(predicate, int) and predicate & lanes == lanes


def _seen(program: Program, i: Instruction) -> Seen | None:
    """Return what tells what an instruction does, None for one that does nothing of this."""
    made = _MAKERS.get(i.base)
    return made(program, i) if made is not None else None


def _always(what: str, line: int, name: str = "", numbers: tuple[int, ...] = ()) -> Seen:
    def seen(run: Run, warp: Warp, part: Part, lanes: int) -> Event:
        return Event(what, line, lanes, (), numbers, name)

    return seen


def _listed(addresses: Any, size: int) -> Spans:
    """Return the spans of all lanes, or the one where they agree."""
    listed = [addresses] if isinstance(addresses, int) else addresses.tolist()
    return tuple((one, one + size) for one in listed)


def _barrier(program: Program, i: Instruction) -> Seen | None:
    what, line = i.parts[1], i.line
    if what not in {"init", "arrive", "expect_tx", "complete_tx", *_WAITS}:
        return None
    own = int(what not in {"init", "expect_tx", "complete_tx"})  # a result stands first
    place, offset = program.address(i.operands[own], line)
    rest = i.operands[own + 1 :]
    number = program.source(rest[0], 32, line) if rest else -1
    expects, alone = "expect_tx" in i.parts, "alone" if what == "expect_tx" else ""

    def seen(run: Run, warp: Warp, part: Part, lanes: int) -> Event:
        spans = _listed(units.shared_places(part, place, offset, lanes, line), 8)
        count = units.one_address(part, number, 0, lanes, line) if number >= 0 else 1
        if what == "init":
            return Event("start", line, lanes, spans, (count,))
        if what in _WAITS:
            return Event("wait", line, lanes, spans, (count,))
        each = lanes.bit_count() if len(spans) == 1 else 1
        if what == "complete_tx":
            return Event("complete", line, lanes, spans, (count * each,))
        return Event("expect" if expects else "arrive", line, lanes, spans, (count * each,), alone)

    return seen


def _copy(program: Program, i: Instruction) -> Seen | None:
    parts, line = i.parts, i.line
    family = "bulk" if "bulk" in parts else "cp.async"
    if "commit_group" in parts:
        return _always("commit", line, family)
    if "wait_group" in parts or "wait_all" in parts:
        pending = program.source(i.operands[0], 32, line) if i.operands else -1
        name = family + ".read" * ("read" in parts)

        def waits(run: Run, warp: Warp, part: Part, lanes: int) -> Event:
            left = units.one_address(part, pending, 0, lanes, line) if pending >= 0 else 0
            return Event("wait group", line, lanes, (), (left,), name)

        return waits
    if family == "bulk":
        return _bulk(program, i)
    return _copied(program, i) if "shared" in i.name and "global" in i.name else None


def _copied(program: Program, i: Instruction) -> Seen:
    """Return what tells of a cp.async, of which each lane has its own addresses."""
    line, operands = i.line, units.traced_operands(i)
    shared, source = program.address(operands[0], line), program.address(operands[1], line)
    size = program.source(operands[2], 32, line)
    filled = program.source(operands[3], 32, line) if len(operands) > 3 and program.traced else size

    def seen(run: Run, warp: Warp, part: Part, lanes: int) -> Event:
        each = units.one_address(part, size, 0, lanes, line)
        spans = _listed(units.shared_places(part, *shared, lanes, line), each)
        if not program.traced:
            return Event("copy", line, lanes, spans, (each,))
        known = part.registers[source[0]], part.registers[filled]
        if any(one is None for one in known):
            raise Undecided(line, "where this copies from depends on data")
        begins, counts = (lane_values(one, lanes) for one in known)
        if set(counts) - {0, each}:
            raise Undecided(line, f"a cp.async of {each} bytes of which a part is zeros")
        at = tuple(begin + source[1] if count else -1 for begin, count in zip(begins, counts, strict=True))
        return Event("copy", line, lanes, spans, (each,), "", at)

    return seen


def _bulk(program: Program, i: Instruction) -> Seen | None:
    """Return what tells of a copy by the copy engine, with a map or without."""
    parts, line, tensor = i.parts, i.line, "tensor" in i.parts
    loads = any(one.startswith("mbarrier::complete_tx") for one in parts)
    if "prefetch" in parts or (loads and not tensor and "shared::cta" in parts[4:5]):
        return None
    shared, outside = (i.operands[0], i.operands[1]) if loads else (i.operands[1], i.operands[0])
    of_map, place = program.address(_map_of(outside), line), program.address(shared, line)
    size = -1 if tensor else program.source(i.operands[2], 32, line)
    rest = i.operands[(2 if tensor else 3) :]
    barrier = program.address(rest[0], line) if loads else (0, 0)
    sends = "multicast::cluster" in parts
    mask = program.source(next(one for one in rest[1:] if not one.startswith("{")), 16, line) if sends else -1
    named = vector(outside.strip("[ ]").partition(",")[2].strip()) if tensor and program.traced else []
    offsets = [name for one in rest[1:2] if one.startswith("{") for name in vector(one)] if program.traced else []
    places = [program.source(one, 32, line) for one in named] + [program.source(one, 16, line) for one in offsets]

    def copied(run: Run, warp: Warp, part: Part, lanes: int) -> Event:
        found = units.one_address(part, *of_map, lanes, line) if tensor or program.traced else 0
        name = program.map_name(found) if tensor else ""
        count = run.barriers.boxes.get(name, 0) if tensor else units.one_address(part, size, 0, lanes, line)
        at = [units.one_address(part, one, 0, lanes, line) for one in places]
        at = [signed(one, 32) for one in at[: len(named)]] + at[len(named) :] if tensor else [found]
        begin = units.shared_place(part, *place, lanes, line)
        numbers: tuple[int, ...] = (count,)
        if loads:
            ranks = units.one_address(part, mask, 0, lanes, line) & 0xFFFF if sends else 0
            numbers = (count, units.shared_place(part, *barrier, lanes, line), ranks)
        at = at if program.traced else []
        return Event("load" if loads else "store", line, lanes, ((begin, begin + count),), numbers, name, tuple(at))

    return copied


def _map_of(operand: str) -> str:
    """Return the tensor map of an operand, which has coordinates as well."""
    return operand.strip("[ ").split(",")[0].strip()


def _multiplies(program: Program, i: Instruction) -> Seen | None:
    what, line = i.parts[1], i.line
    if what == "fence":
        return _always("fence", line, "wgmma")
    if what == "commit_group":
        return _always("commit", line, "wgmma")
    if what == "wait_group":
        pending = program.source(i.operands[0], 32, line)

        def waits(run: Run, warp: Warp, part: Part, lanes: int) -> Event:
            return Event("wait group", line, lanes, (), (units.one_address(part, pending, 0, lanes, line),), "wgmma")

        return waits
    shape = re.search(r"\.m64n(\d+)k\d+\.", i.name + ".")
    if what != "mma_async" or shape is None:
        return None
    words = [program.source(one, 64, line) for one in i.operands[1:3] if not one.startswith("{")]
    flags = i.operands[4:]
    transposed = [one == "1" for one in flags[-2:]] if len(flags) >= 4 else [False, False]
    if len(words) == 1:
        transposed = [len(flags) >= 3 and flags[-1] == "1"]
    rows = [64, int(shape[1])][-len(words) :]
    bits = [BITS.get(one, 0) for one in i.parts[-2:]][-len(words) :]

    def seen(run: Run, warp: Warp, part: Part, lanes: int) -> Event:
        base = warp.rank * SHARED_BYTES
        spans = []
        for word, major, mn, size in zip(words, transposed, rows, bits, strict=True):
            first, last = _reach(units.one_address(part, word, 0, lanes, line), MAJORS[major], mn, size)
            spans.append((base + first, base + last))
        return Event("multiply", line, lanes, tuple(spans))

    return seen


@lru_cache(maxsize=1024)
def _reach(word: int, major: Major, mn: int, bits: int, unit: str = "wgmma") -> tuple[int, int]:
    """Return the first byte that one multiplication reads by a descriptor, and that behind the last."""
    found = read_addresses(MatrixDescriptor.from_word(unit, word), major, mn, 8 * _STEP_BYTES // bits, bits)
    return int(found.min()), int(found.max()) + bits // 8


def _tensor(program: Program, i: Instruction) -> Seen | None:
    """Return what tells of tcgen05, of one CTA, with both operands in shared memory."""
    what, line = i.parts[1], i.line
    if what.startswith("fence::"):
        return _always("fence", line, f"tcgen05.{what.removeprefix('fence::').partition('_')[0]}")
    if what == "relinquish_alloc_permit":
        return _always("relinquish", line)
    if what == "commit":
        place = program.address(i.operands[0], line)
        mask = program.source(i.operands[1], 16, line) if "multicast::cluster" in i.parts else -1

        def commits(run: Run, warp: Warp, part: Part, lanes: int) -> Event:
            places = committed_to(run, part, place, mask, lanes, line)
            return Event("commit to", line, lanes, tuple((one, one + 8) for one in places), (1,))

        return commits
    if what in {"alloc", "dealloc"}:
        columns = program.source(i.operands[1], 32, line)

        def owns(run: Run, warp: Warp, part: Part, lanes: int) -> Event:
            count = units.one_address(part, columns, 0, lanes, line)
            return Event("allocate" if what == "alloc" else "free", line, lanes, (), (count,))

        return owns
    if what == "ld":
        source = program.address(i.operands[1], line)

        def fetches(run: Run, warp: Warp, part: Part, lanes: int) -> Event:
            return Event("fetch", line, lanes, (), (units.one_address(part, *source, lanes, line) & _COLUMN,))

        return fetches
    return _issued(program, i) if what == "mma" and not i.operands[1].startswith("[") else None


def _issued(program: Program, i: Instruction) -> Seen | None:
    """Return what tells of a multiplication by tcgen05; of kinds with scales nothing does."""
    line, kind = i.line, next((one[6:] for one in i.parts if one.startswith("kind::")), "")
    if kind not in KIND_BITS or kind.startswith("mx"):
        return None
    to, (*words, instruction) = (
        program.address(i.operands[0], line),
        (program.source(one, size, line) for one, size in zip(i.operands[1:4], (64, 64, 32), strict=True)),
    )

    def seen(run: Run, warp: Warp, part: Part, lanes: int) -> Event:
        said = InstructionDescriptor.from_word(kind, units.one_address(part, instruction, 0, lanes, line))
        base, spans = warp.rank * SHARED_BYTES, []
        for word, major, mn in zip(words, (said.a_major, said.b_major), (said.m, said.n), strict=True):
            held = units.one_address(part, word, 0, lanes, line)
            first, last = _reach(held, major, mn, KIND_BITS[kind], "tcgen05")
            spans.append((base + first, base + last))
        column = units.one_address(part, *to, lanes, line) & _COLUMN
        return Event("multiply", line, lanes, tuple(spans), (column,))

    return seen


def _fence(program: Program, i: Instruction) -> Seen | None:
    kinds = {"mbarrier_init": "mbarrier_init", "proxy": ".".join(i.parts[1:3])}
    return _always("fence", i.line, kinds[i.parts[1]]) if i.parts[1] in kinds else None


def _memory(program: Program, i: Instruction) -> Seen | None:
    """Loads and stores of threads: matrices have rows of 16 bytes, whose addresses their first lanes give."""
    space = units.space_of(i)
    if space not in {"shared", ""} and not (program.traced and space == "global"):
        return None
    line, matrices = i.line, i.base in {"ldmatrix", "stmatrix"}
    writes = i.base in {"st", "stmatrix"}
    what = "write" if writes else "read"
    place, offset = program.address(i.operands[0 if writes else 1], line)
    count = next((int(one[1]) for one in i.parts if re.fullmatch(r"x[124]", one)), 1)
    size, chosen = (16, (1 << 8 * count) - 1) if matrices else (width_of(i), FULL)
    places = Places(program.granule, offset, line)

    def seen(run: Run, warp: Warp, part: Part, lanes: int) -> Event | None:
        if space != "global":
            reached = places.at(part.registers[place], lanes & chosen, size)
            if units.in_shared(run, reached):
                return Event(what, line, lanes, _listed(reached.addresses, size))
        if not program.traced:
            return None
        return Event(f"global {what}", line, lanes, _listed(units.known_lanes(part, place, offset, lanes, line), size))

    return seen


def _meets(program: Program, i: Instruction) -> Seen | None:
    parts, line = [one for one in i.parts if one not in {"cta", "aligned"}], i.line
    if parts[1] == "warp":
        return _always("lanes", line)
    if parts[1] == "cluster":
        return _always("meet", line, f"cluster {parts[2]}")
    number = program.source(i.operands[0], 32, line)
    count = program.source(i.operands[1], 32, line) if len(i.operands) > 1 else -1

    def seen(run: Run, warp: Warp, part: Part, lanes: int) -> Event:
        threads = units.one_address(part, count, 0, lanes, line) if count >= 0 else 0
        return Event("meet", line, lanes, (), (units.one_address(part, number, 0, lanes, line), threads), parts[1])

    return seen


def _registers(program: Program, i: Instruction) -> Seen | None:
    return _always("registers", i.line, i.parts[1], (int(i.operands[0]),))


_WAITS = frozenset({"try_wait", "test_wait"})
_MAKERS: dict[str, Callable[[Program, Instruction], Seen | None]] = {
    "mbarrier": _barrier,
    "cp": _copy,
    "wgmma": _multiplies,
    "tcgen05": _tensor,
    "fence": _fence,
    "ld": _memory,
    "st": _memory,
    "ldmatrix": _memory,
    "stmatrix": _memory,
    "bar": _meets,
    "barrier": _meets,
    "setmaxnreg": _registers,
}

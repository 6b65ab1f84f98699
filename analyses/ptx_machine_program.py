"""Turns a kernel into what the machine runs: a function for each instruction that matters, and an order of places.

What matters is what steers branches, guards, shared addresses and barriers; the rest, nearly all of the arithmetic, is
left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from legalsat.analyses import ptx_machine_units as units
from legalsat.analyses.ptx_contract import Undecided
from legalsat.analyses.ptx_machine import (
    EXIT,
    JUMP,
    MAP_BASE,
    POINTER,
    SHARED_BASE,
    Operation,
    Part,
    Run,
    Warp,
)
from legalsat.analyses.ptx_machine_alu import (
    FULL,
    LANES,
    Value,
    immediate,
)
from legalsat.analyses.ptx_machine_compute import compute
from legalsat.analyses.ptx_machine_guards import active, guard_of
from legalsat.analyses.ptx_machine_lanes import make_lanes
from legalsat.analyses.ptx_machine_order import BRANCHES, ranks
from legalsat.analyses.ptx_text import Instruction, Kernel, PtxText, names_in, results_of, vector

_LANE_OPERATIONS = {"shfl", "vote", "elect", "activemask", "redux", "match"}
_SPECIAL = ("%tid.", "%ntid.", "%ctaid.", "%nctaid.", "%laneid", "%warpid", "%nwarpid", "%cluster", "%nclusterid",
            "%smid", "%gridid", "%dynamic_smem_size", "%total_smem_size", "%is_explicit_cluster", "%lanemask_",
            "%envreg", "%clock", "%globaltimer")  # fmt: skip


@dataclass
class Program:
    """A kernel made ready.

    Attributes:
        code: a function for each kept instruction. lines, texts: where it stands and what it says.
        rank: of each place, so that lanes that come first in the kernel's order go first.
        slots: of registers, constants and special registers.
        steering: parameters and special registers that what is kept depends on.
        headers: places that a loop comes back to.
        sums, fetched: registers that wgmma and tcgen05.ld write.
        words: does what is stored in shared memory steer anything?
    """

    kernel: Kernel
    threads: int
    granule: int
    code: list[Operation] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)
    slots: dict[str, int] = field(default_factory=dict)
    constants: dict[int, int] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)
    steering: set[str] = field(default_factory=set)
    headers: set[int] = field(default_factory=set)
    wait_slots: dict[int, tuple[int, int]] = field(default_factory=dict)
    sums: frozenset[str] = frozenset()
    fetched: frozenset[str] = frozenset()
    needed: set[str] = field(default_factory=set)
    parameters: dict[int, str] = field(default_factory=dict)
    words: bool = False
    live_places: list[int] = field(default_factory=list)

    # Operands.

    def slot(self, operand: str, line: int) -> int:
        """Return where an operand's value lies: a register's, or a constant's own place."""
        found = self.slots.get(operand)
        if found is not None:
            return found
        number = immediate(operand)
        if number is not None:
            value = number & (2**64 - 1) if number >= 0 else number
            return self._constant(operand, value)
        if operand in self.symbols:
            return self._constant(operand, self.symbols[operand])
        if not operand.startswith("%") and not re.match(r"[A-Za-z_$]", operand):
            raise Undecided(line, f"operand {operand} is not understood")
        found = self.slots[operand] = len(self.slots)
        if operand.startswith(_SPECIAL):
            self.steering.add(operand)
        return found

    def _constant(self, name: str, value: int) -> int:
        found = self.slots[name] = len(self.slots)
        self.constants[found] = value
        return found

    def source(self, operand: str, bits: int, line: int) -> int:
        """Return the place of a source of so many bits; negative constants become bits."""
        number = immediate(operand)
        if number is not None:
            return self._constant_slot(number & ((1 << bits) - 1 if bits > 1 else FULL * (number & 1)))
        return self.slot(operand, line)

    def _constant_slot(self, value: int) -> int:
        name = f"#{value}"
        found = self.slots.get(name)
        return self._constant(name, value) if found is None else found

    def address(self, operand: str, line: int) -> tuple[int, int]:
        """Return the place of an address's base and the offset that is added."""
        inside = operand.strip().removeprefix("[").removesuffix("]").strip()
        found = re.fullmatch(r"([%\w$@.]+)\s*(?:([+-])\s*(-?\s*\w+))?", inside)
        if found is None:
            raise Undecided(line, f"address {operand} is not understood")
        offset = immediate(found[3].replace(" ", "")) if found[3] else 0
        if offset is None:
            raise Undecided(line, f"address {operand} is not understood")
        return self.source(found[1], 64, line), -offset if found[2] == "-" else offset

    def initial(self, run: Run, warp: int) -> list[Value]:
        """Return the registers that a warp begins with."""
        registers: list[Value] = [None] * len(self.slots)
        for place, value in self.constants.items():
            registers[place] = value
        for name, place in self.slots.items():
            if name.startswith(_SPECIAL):
                registers[place] = self._special(run, name, warp)
        return registers

    def _special(self, run: Run, name: str, warp: int) -> Value:
        x, y, z = self.kernel.threads
        if name.startswith("%tid."):
            thread = np.arange(LANES * warp, LANES * warp + LANES, dtype=np.uint64)
            axes = (thread % np.uint64(x), thread // np.uint64(x) % np.uint64(y), thread // np.uint64(x * y))
            value = axes["xyz".index(name[-1])]
            return int(value[0]) if (value == value[0]).all() else value
        fixed: dict[str, Value] = {
            "%ntid.x": x,
            "%ntid.y": y,
            "%ntid.z": z,
            "%laneid": np.arange(LANES, dtype=np.uint64),
            "%warpid": warp,
            "%nwarpid": -(-self.threads // LANES),
            "%nctaid.x": 1,
            "%nctaid.y": 1,
            "%nctaid.z": 1,
            "%cluster_nctarank": 1,
            "%cluster_nctaid.x": 1,
            "%cluster_nctaid.y": 1,
            "%cluster_nctaid.z": 1,
            "%is_explicit_cluster": 0,
        }
        if name in run.parameters:
            return run.parameters[name]
        if name in fixed:
            return fixed[name]
        return 0 if name.startswith(("%ctaid.", "%cluster_ctaid.", "%cluster_ctarank", "%clusterid.")) else None

    def parameter(self, run: Run, name: str, offset: int, bits: int) -> Value:
        """Return what a kernel finds in a parameter."""
        key = f"{name}+{offset}" if offset else name
        if key in run.parameters:
            return run.parameters[key] & ((1 << bits) - 1)
        kinds = {p.name: (i, p) for i, p in enumerate(self.kernel.parameters)}
        if name not in kinds:
            return None
        index, parameter = kinds[name]
        if bits == 64 and (parameter.type.endswith("64") or parameter.bytes):
            return (index + 1) * POINTER + offset
        return None

    def map_name(self, address: int) -> str:
        """Return the name of a tensor map: its parameter's, or its address in global memory."""
        return self.parameters.get(address, f"map at {address:#x}")

    # Questions of the machine.

    def waits_at(self, part: Part) -> int | None:
        """Return the address of the barrier that lanes wait for, if they do."""
        found = self.wait_slots.get(part.pc)
        if found is None:
            return None
        base = part.registers[found[0]]
        return int(base) + found[1] if isinstance(base, int) else None

    def last_of(self, base: str) -> int:
        """Return the line of the last instruction of a kind."""
        return max(
            (line for line, text in zip(self.lines, self.texts, strict=True) if text.startswith(base)), default=0
        )


def compile_kernel(text: PtxText, kernel: Kernel) -> Program:
    """Make a kernel ready to run.

    Raises:
        Undecided: it uses something that is not understood, such as calls or clusters.
    """
    x, y, z = kernel.threads
    program = Program(kernel, x * y * z, _granule(kernel))
    if kernel.cluster > 1:
        raise Undecided(kernel.line, f"clusters of {kernel.cluster} blocks are not followed")
    at = SHARED_BASE
    for symbol in sorted([*text.shared, *kernel.shared], key=lambda s: s.bytes == 0):
        at = -(-at // max(symbol.alignment, 16)) * max(symbol.alignment, 16)
        program.symbols[symbol.name] = at
        at += symbol.bytes
    for i, parameter in enumerate(kernel.parameters):
        program.symbols[parameter.name] = MAP_BASE + i * 4096
        program.parameters[MAP_BASE + i * 4096] = parameter.name
    kept = _slice(program, kernel.instructions)
    _build(program, kept)
    return program


def _granule(kernel: Kernel) -> int:
    """Return the bytes that all accesses to shared memory by threads are multiples of, at most 4."""
    sizes = {4}
    for i in kernel.instructions:
        if i.base in {"ld", "st"} and not {"global", "param", "const", "local"} & set(i.parts):
            found = re.fullmatch(r"[busf](\d+)", i.parts[-1])
            sizes.add(int(found[1]) // 8 if found else 4)
    return min(sizes)


# What matters.


def _sources(instruction: Instruction) -> list[str]:
    """Return the names that an instruction depends on, if it is kept."""
    base, operands = instruction.base, instruction.operands
    chosen: tuple[str, ...]
    if base in BRANCHES or base in {"bar", "barrier"}:
        chosen = operands
    elif base in units.EFFECTS:
        chosen = units.steering_operands(instruction)
    else:
        chosen = operands[1:]
    names = [name for one in chosen for name in names_in(one)]
    if instruction.guard:
        names.append(instruction.guard)
    return names


def _slice(program: Program, instructions: list[Instruction]) -> list[bool]:
    """Say of each instruction whether it matters."""
    definitions: dict[str, list[int]] = {}
    for n, i in enumerate(instructions):
        for name in results_of(i):
            definitions.setdefault(name, []).append(n)
    kept = [i.base in BRANCHES or i.base in {"bar", "barrier"} or units.is_effect(i) for i in instructions]
    work = [name for n, keep in enumerate(kept) if keep for name in _sources(instructions[n])]
    seen: set[str] = set()
    loads_words = False
    while work:
        name = work.pop()
        if name in seen:
            continue
        seen.add(name)
        for n in definitions.get(name, []):
            i = instructions[n]
            if not kept[n] or i.base in {"ld", "mbarrier", "ldmatrix"}:
                kept[n] = True
                work += _sources(i)
            if i.base == "ld" and not loads_words and units.space_of(i) == "shared":
                # What was stored in words of shared memory steers something: stored values matter too.
                loads_words = program.words = True
                for store in instructions:
                    if store.base == "st" and units.space_of(store) == "shared":
                        work += [v for one in store.operands[1:] for v in names_in(one)]
    program.needed = seen
    program.sums = frozenset(
        name for i in instructions if i.base == "wgmma" and i.operands[3:] for name in vector(i.operands[0])
    )
    program.fetched = frozenset(
        name for i in instructions if i.base == "tcgen05" and i.parts[1] == "ld" for name in vector(i.operands[0])
    )
    program.sums = _copied(instructions, program.sums, units.COPIES)
    program.fetched = _copied(instructions, program.fetched, units.PACKS)
    written = program.sums | program.fetched
    touching = [i.base in _LANE_OPERATIONS or _touches(i, written) for i in instructions]
    return [keep or touch for keep, touch in zip(kept, touching, strict=True)]


def _copied(instructions: list[Instruction], names: frozenset[str], bases: frozenset[str]) -> frozenset[str]:
    """Return registers with those that they are copied to, by instructions of these names."""
    moves = [(i.operands[0], units.sources_of(i)) for i in instructions if i.base in bases and units.is_copy(i)]
    found = set(names)
    while True:
        more = {to for to, sources in moves if found.intersection(sources)} - found
        if not more:
            return frozenset(found)
        found |= more


def _touches(instruction: Instruction, names: frozenset[str]) -> bool:
    return any(name in names for one in instruction.operands for name in names_in(one))


# Making functions.


def _build(program: Program, kept: list[bool]) -> None:
    kernel = program.kernel
    targets: dict[int, list[str]] = {}
    for label, at in kernel.labels.items():
        targets.setdefault(at, []).append(label)
    places: dict[str, int] = {}
    chosen: list[tuple[str, Instruction | None]] = []
    for n in range(len(kernel.instructions) + 1):
        if n in targets:
            for label in targets[n]:
                places[label] = len(chosen)
            chosen.append(("label", None))
        if n < len(kernel.instructions) and kept[n]:
            chosen.append(("", kernel.instructions[n]))
    chosen.append(("end", None))
    line = kernel.line
    for at, (what, instruction) in enumerate(chosen):
        if instruction is None:
            program.code.append(_end if what == "end" else _label)
            program.texts.append(what)
        else:
            line = instruction.line
            program.code.append(_operation(program, instruction, places, at))
            program.texts.append(instruction.name)
        program.lines.append(line)
    program.live_places = [
        p for n, p in program.slots.items() if p not in program.constants and not n.startswith(_SPECIAL)
    ]
    program.rank = ranks(program, chosen, places)
    for at in program.headers:
        program.code[at] = _header(at)


def _end(run: Run, warp: Warp, part: Part) -> int:
    return EXIT


def _label(run: Run, warp: Warp, part: Part) -> int | None:
    if len(warp.parts) > 1 and not part.seen:
        # Others may be here, or before it in the kernel's order.
        part.seen = True
        return JUMP
    part.seen = False
    return None


def _header(at: int) -> Operation:
    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        signal = _label(run, warp, part)
        if signal is None:
            run.remember(warp, part, at)
        return signal

    return operation


def _operation(program: Program, i: Instruction, places: dict[str, int], at: int) -> Operation:
    """Return what an instruction does; where it is not understood, that is said when it is reached."""
    base = i.base
    flow = {"bra": _branch, "brx": _branch_table}
    try:
        if base in flow:
            return flow[base](program, i, places)
        if base in BRANCHES:
            return _leave(program, i) if base in {"ret", "exit"} else _stop(program, i)
        if base in _LANE_OPERATIONS:
            return make_lanes(program, i)
        effect = base in units.EFFECTS or base in {"bar", "barrier"}
        if effect and (base == "wgmma" or not _touches(i, program.sums | program.fetched) or "ld" in i.parts[:2]):
            return units.make(program, i, at)
        return _touching(program, i, at)
    except (LookupError, ValueError, TypeError, Undecided):
        return units.refused(program, i)


def _touching(program: Program, i: Instruction, at: int) -> Operation:
    """Return what an instruction does to its registers, with a check where matrix units write these."""
    if not _touches(i, program.sums | program.fetched):
        return compute(program, i)
    inner = None
    if units.is_effect(i):
        inner = units.make(program, i, at)
    elif any(r in program.needed for r in results_of(i)):
        inner = compute(program, i)
    packs = i.base in units.PACKS and not _touches(i, program.sums)
    if units.is_copy(i) and (packs or (i.base in units.COPIES and not i.operands[1].startswith("{"))):
        return units.make_copy(i, inner)
    return units.make_touch(program, i, inner)


def _branch(program: Program, i: Instruction, places: dict[str, int]) -> Operation:
    if i.operands[0] not in places:
        raise Undecided(i.line, f"no label is called {i.operands[0]}")
    target, guard, line = places[i.operands[0]], guard_of(program, i), i.line

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        taken = part.mask if guard[0] < 0 else active(part, guard, line)
        if not taken:
            return None
        if taken == part.mask:
            part.pc = target
            return JUMP
        rest = part.mask & ~taken
        warp.parts.append(Part(target, taken, _narrowed(part.registers, taken)))
        part.mask = rest
        part.registers = _narrowed(part.registers, rest)
        part.pc += 1
        return JUMP

    return operation


def _narrowed(registers: list[Value], mask: int) -> list[Value]:
    """Return the registers of some lanes: where it is one lane, plain numbers."""
    if mask & mask - 1:
        return list(registers)
    lane = mask.bit_length() - 1
    return [int(v[lane]) if isinstance(v, np.ndarray) else v for v in registers]


def _branch_table(program: Program, i: Instruction, places: dict[str, int]) -> Operation:
    index, line = program.slot(i.operands[0], i.line), i.line
    table = [places[name] for name in program.kernel.tables[i.operands[1]]]

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        value = part.registers[index]
        if not isinstance(value, int):
            raise Undecided(line, "a branch depends on data or parts the lanes of a warp")
        if value >= len(table):
            raise Undecided(line, f"branch {value} of a table of {len(table)}")
        part.pc = table[value]
        return JUMP

    return operation


def _leave(program: Program, i: Instruction) -> Operation:
    guard, line = guard_of(program, i), i.line

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        leaving = active(part, guard, line)
        if not leaving:
            return None
        if leaving != part.mask:
            warp.parts.append(Part(part.pc, leaving, _narrowed(part.registers, leaving)))
            part.mask &= ~leaving
            return JUMP
        return EXIT

    return operation


def _stop(program: Program, i: Instruction) -> Operation:
    guard, line, base = guard_of(program, i), i.line, i.base

    def operation(run: Run, warp: Warp, part: Part) -> int | None:
        if not active(part, guard, line):
            return None
        raise Undecided(line, "the kernel stops itself here (trap)" if base == "trap" else "a call is not followed")

    return operation

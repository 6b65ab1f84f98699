"""Turns a kernel into what the machine runs: a function for each instruction that matters, and an order of places.

What matters is what steers branches, guards, shared addresses and barriers; the rest, nearly all of the arithmetic, is
left out.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from legalsat.analyses.ptx.bounds import Bounds
from legalsat.analyses.ptx.brought import Open
from legalsat.analyses.ptx.compound import with_plain_comparisons
from legalsat.analyses.ptx.findings import Undecided
from legalsat.analyses.ptx.fragments import copied_together, stretches_of, written_together
from legalsat.analyses.ptx.halves import with_direct_halves
from legalsat.analyses.ptx.instruction import Instruction, immediate, names_in, results_of
from legalsat.analyses.ptx.loads import Stores, Written
from legalsat.analyses.ptx.local import with_local_registers
from legalsat.analyses.ptx.matrices import Matrices
from legalsat.analyses.ptx.offsets import with_direct_offsets
from legalsat.analyses.ptx.parameters import with_direct_parameters
from legalsat.analyses.ptx.spaces import with_global_loads
from legalsat.analyses.ptx.text import Kernel, PtxText
from legalsat.analyses.ptx.webs import with_own_registers
from legalsat.analyses.ptx_machine.alu import FULL, LANES, LEAST_HELD, Value
from legalsat.analyses.ptx_machine.flow import control_of, is_choice, without
from legalsat.analyses.ptx_machine.launches.alike import Alike
from legalsat.analyses.ptx_machine.launches.conditions import Conditions
from legalsat.analyses.ptx_machine.launches.data import UNDEFINED
from legalsat.analyses.ptx_machine.launches.records import FIELD
from legalsat.analyses.ptx_machine.launches.roles import Roles, maps_of, roles_of
from legalsat.analyses.ptx_machine.launches.watch import Watch, watching
from legalsat.analyses.ptx_machine.machine import (
    MAP_BASE,
    PARAMETER,
    POINTED,
    POINTER,
    TENSOR_COLUMNS,
    TENSOR_STRIPS,
    Operation,
    Part,
    Run,
)
from legalsat.analyses.ptx_machine.making.build import build
from legalsat.analyses.ptx_machine.matrix.pairs import Partners
from legalsat.analyses.ptx_machine.matrix.sums import TensorUse
from legalsat.analyses.ptx_machine.memory import MOST_RANKS, RANK_BIT, SHARED_BASE, SHARED_BYTES, place_of
from legalsat.analyses.ptx_machine.shadow import Regions, Shadow
from legalsat.analyses.ptx_machine.slice import slice_of

MORE_AGENTS = 64  # lines of work for which there is room are a multiple of it
_OF_LAUNCH = ("%ctaid.", "%clusterid.", "%nclusterid.")  # of which a launch says another one, or the first CTA's
_SIZES = ("%dynamic_smem", "%total_smem", "%aggr_smem")  # of shared memory, which a launch decides then
_SPECIAL = ("%tid.", "%ntid.", "%ctaid.", "%nctaid.", "%laneid", "%warpid", "%nwarpid", "%cluster", "%nclusterid",
            "%smid", "%gridid", "%dynamic_smem_size", "%total_smem_size", "%is_explicit_cluster", "%lanemask_",
            "%envreg", "%clock", "%globaltimer")  # fmt: skip


@dataclass
class Seen:
    """Which ways runs have taken: outcomes of conditions, by their number, and cases of tables of branches."""

    outcomes: dict[int, int] = field(default_factory=dict)
    cases: set[tuple[int, int]] = field(default_factory=set)


@dataclass
class Program:
    """A kernel made ready.

    Attributes:
        code: a function for each kept instruction. lines, texts: where it stands and what it says.
        rank: of each place, so that lanes that come first in the kernel's order go first.
        slots: of registers, constants and special registers. shared: symbols that lie in shared memory.
        shared_end: where the last of these ends; where shared memory does if a launch decides how much there is.
        steering: parameters and special registers that what is kept depends on.
        headers: places that a loop comes back to.
        sums, fetched: registers that wgmma and tcgen05.ld write. firsts: the first one of the sums of each wgmma.
        computed: those that hold what is computed from fetched ones, where tcgen05.st may put it back.
        traced: are coordinates, and addresses in global memory, followed too? told: and numbers that lie there?
        words: does what is stored in shared memory steer anything?
        flows: lines of stores, and of loads of what they stored.
        live: of each place, the registers that something may still read, as bits.
        chosen: the instructions that are kept, `places` where.
        watches: conditions whose outcomes are noted, `watches_at` by place.
        bounds: of what the check may take.
        covered: places and lines of operations that a proof must have come to. reached: those to which runs have come.
        deciding: of instructions, by identity, the registers that decide the branches on which they depend.
        only_after: of instructions, by identity, the branch that alone leads to them, and by which outcome.
        before_in_block: of instructions, by identity, and registers that several write: the one before in its block.
        ways: of instructions, by identity, the outcomes of their predicates that must be seen, where not both.
        asserted: of branches, by identity, the outcome with which no assertion of the kernel fails.
        effective: instructions, by identity, on which what has an effect depends, or that have one.
        firm: registers that more than reads depend on.
        tensor_use: which tensor memory runs have written and read. written_by_line: which shared memory.
            matrices: what ldmatrix has read. partners: what was multiplied with what.
        store_sources: by map of stores of the copy engine, and whether loads have written what they read, a line.
        spread: parameters that stand for words of which more than the first has been read.
        filled: lines at which a run has read what was written. written: shared memory that any run has written.
        agents: lines of work that a run has had, the most so far.
        stores: where stores of the copy engine have begun in any run.
        load_places: of loads by map and byte, how many boxes each has, and its line.
        loaded, used: maps and lines of loads that runs have made, and of those which somebody has read.
        operands: cells that matrix units read, by descriptor, CTA and what else decides. meeting: of two sets of
            these, by identity, whether they have some in common.
        undefined: places of registers that hold anything until work is taken over, of which they say where it lies.
        tables: of tables of branches, by place, how many there are and what decides. cases: those that were taken.
    """

    kernel: Kernel
    threads: int
    granule: int
    code: list[Operation] = field(default_factory=list)
    bare: list[Operation] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)
    slots: dict[str, int] = field(default_factory=dict)
    constants: dict[int, int] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)
    shared_end: int = SHARED_BYTES
    shared: list[str] = field(default_factory=list)
    steering: set[str] = field(default_factory=set)
    headers: set[int] = field(default_factory=set)
    wait_slots: dict[int, tuple[int, int]] = field(default_factory=dict)
    sums: frozenset[str] = frozenset()
    firsts: frozenset[str] = frozenset()
    fetched: frozenset[str] = frozenset()
    computed: frozenset[str] = frozenset()
    needed: set[str] = field(default_factory=set)
    traced: bool = False
    told: bool = False
    words: bool = False
    flows: set[tuple[int, int]] = field(default_factory=set)
    live: list[int] = field(default_factory=list)
    _alive: dict[int, list[int]] = field(default_factory=dict)
    chosen: list[Instruction] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    watches: list[Watch] = field(default_factory=list)
    watches_at: dict[int, list[tuple[int, Watch]]] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=Bounds)
    deciding: dict[int, tuple[str, ...]] = field(default_factory=dict)
    only_after: dict[int, tuple[Instruction, int]] = field(default_factory=dict)
    before_in_block: dict[tuple[int, str], Instruction] = field(default_factory=dict)
    ways: dict[int, int] = field(default_factory=dict)
    asserted: dict[int, int] = field(default_factory=dict)
    effective: set[int] = field(default_factory=set)
    firm: set[str] = field(default_factory=set)
    tensor_use: TensorUse = field(default_factory=TensorUse)
    written_by_line: Written = field(default_factory=Written)
    matrices: Matrices = field(default_factory=Matrices)
    partners: Partners = field(default_factory=Partners)
    store_sources: dict[tuple[str, bool], int] = field(default_factory=dict)
    spread: set[str] = field(default_factory=set)
    undefined: set[int] = field(default_factory=set)
    tables: dict[int, tuple[int, frozenset[str]]] = field(default_factory=dict)
    _pointers: dict[str, int | None] = field(default_factory=dict)
    _decided: dict[bool, tuple[int, frozenset[str]]] = field(default_factory=dict)
    _beginnings: dict[tuple[int, int], list[Value]] = field(default_factory=dict)
    cases: set[tuple[int, int]] = field(default_factory=set)
    covered: dict[int, int] = field(default_factory=dict)
    reached: set[int] = field(default_factory=set)
    stores: Stores = field(default_factory=Stores)
    load_places: dict[str, dict[int, tuple[int, int]]] = field(default_factory=dict)
    loaded: set[tuple[str, int]] = field(default_factory=set)
    used: set[tuple[str, int]] = field(default_factory=set)
    operands: dict[tuple[object, ...], Any] = field(default_factory=dict)
    meeting: dict[tuple[int, int], bool] = field(default_factory=dict)
    filled: set[int] = field(default_factory=set)
    agents: int = 0

    @cached_property
    def ranks(self) -> int:
        """CTAs of a cluster."""
        return math.prod(self.kernel.cluster)

    @property
    def most_agents(self) -> int:
        """Lines of work for which a run needs room, with some more; 0 for as many as there may be."""
        return -(-self.agents * 5 // 4 // MORE_AGENTS) * MORE_AGENTS

    @cached_property
    def kept(self) -> int:
        """Of how many sources an instruction keeps what it has made of them: some for each warp of a cluster."""
        return max(LEAST_HELD, 4 * self.ranks * -(-self.threads // LANES))

    @cached_property
    def shared_regions(self) -> Regions:
        """Shared memory in regions, which the runs of a kernel share."""
        return Regions(self.ranks * SHARED_BYTES // self.granule + 1)

    @cached_property
    def written(self) -> Shadow:
        """Shared memory that any run has written."""
        return Shadow(self.shared_regions)

    @cached_property
    def tensor_regions(self) -> Regions:
        """Tensor memory in regions."""
        return Regions(self.ranks * TENSOR_STRIPS * TENSOR_COLUMNS)

    @cached_property
    def predicates(self) -> frozenset[int]:
        """Places of predicates, which hold a bit a lane."""
        names = {i.guard for i in self.kernel.instructions}
        for i in self.kernel.instructions:
            if i.base == "setp" or i.parts[-1] == "pred":
                names.update(results_of(i))
        return frozenset(self.slots[name] for name in names if name in self.slots)

    @cached_property
    def written_once(self) -> frozenset[str]:
        """Registers that one instruction alone writes."""
        counts = Counter(name for i in self.kernel.instructions for name in results_of(i))
        return frozenset(name for name, count in counts.items() if count == 1)

    @cached_property
    def stretches(self) -> dict[int, int]:
        """The stretch of each ldmatrix, by identity."""
        return stretches_of(self.kernel)

    def left_unread(self) -> Open:
        """Return what speaks against lines of which some is written to shared memory, or read twice, in vain."""
        return self.written_by_line.unread(self.shared_regions.cells, self.granule, self.together, self.copied)

    @cached_property
    def together(self) -> dict[int, int]:
        """The lines that may write shared memory, and the stretch of code that each is in."""
        return written_together(self.kernel)

    @cached_property
    def copied(self) -> dict[int, tuple[int, int]]:
        """The lines of cp.async, and the group of copies that each is in."""
        return copied_together(self.kernel)

    @cached_property
    def edits_maps(self) -> bool:
        """Does the kernel edit tensor maps, or acquire those that others edit?"""
        return bool(self.roles.map_stores) or any("tensormap" in i.name for i in self.kernel.instructions)

    def covered_in(self, ways: Iterable[tuple[int, int]]) -> frozenset[int]:
        """Return the places of barriers and asynchronous operations in what was followed, by first and last places."""
        places = sorted(self.covered)
        spans = {(bisect_left(places, first), bisect_right(places, last)) for first, last in ways}
        return frozenset().union(*(places[begin:end] for begin, end in spans))

    def copies_by(self, map_: str) -> set[int]:
        """Return the places of copies whose map is a parameter for sure."""
        copied = {i.operands[0]: i.operands[1] for i in self.kernel.instructions if i.base in {"mov", "cvta"}}
        found = set()
        for at, i in zip(self.places, self.chosen, strict=True):
            names = maps_of(i) if i.base == "cp" else []
            while names and names[0] in copied and names[0] in self.written_once:
                names = [copied[names[0]]]
            found |= {at} if names == [map_] else set()
        return found

    def alive(self, at: int) -> list[int]:
        """Return the places of the registers that something may still read from a place in the code on."""
        if at not in self._alive:
            bits = self.live[at]
            self._alive[at] = [place for place in range(bits.bit_length()) if bits >> place & 1]
        return self._alive[at]

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
            return self._constant_slot(number & (1 << bits) - 1 if bits > 1 else FULL * (number & 1))
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

    def initial(self, run: Run, rank: int, warp: int) -> list[Value]:
        """Return the registers that a warp of a CTA begins with."""
        registers = self._beginnings.get((rank, warp))
        if registers is None:
            registers = [self.constants.get(place) for place in range(len(self.slots))]
            self._beginnings[rank, warp] = registers
            for name in self.shared:
                if name in self.slots:
                    registers[self.slots[name]] = self.symbols[name] + (rank << RANK_BIT)
            for name, place in self._specials:
                registers[place] = self.special({}, name, warp, rank)
        found = list(registers)
        for name, place in self.of_launch(run.parameters):
            found[place] = self.special(run.parameters, name, warp, rank)
        for place in self.undefined:
            found[place] = run.parameters.get(UNDEFINED, 0)
        return found

    def of_launch(self, given: Container[str]) -> list[tuple[str, int]]:
        """Return special registers that a launch decides, which gives some of them, and their places."""
        return [one for one in self._specials if one[0] in given or one[0].startswith(_OF_LAUNCH)]

    @cached_property
    def _specials(self) -> list[tuple[str, int]]:
        return [(name, place) for name, place in self.slots.items() if name.startswith(_SPECIAL)]

    def special(self, values: Mapping[str, int], name: str, warp: int, rank: int = 0) -> Value:
        """Return what a warp of a CTA finds in a special register in a launch with these values.

        The number of the CTA in the grid that is given is that of the cluster's first one.
        """
        x, y, z = self.kernel.threads
        cluster = self.kernel.cluster
        axis = "xyz".find(name[-1])
        inside = (rank % cluster[0], rank // cluster[0] % cluster[1], rank // (cluster[0] * cluster[1]))
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
            "%cluster_nctarank": self.ranks,
            "%cluster_ctarank": rank,
            "%is_explicit_cluster": int(self.ranks > 1),
        }
        if name.startswith("%ctaid."):
            return values.get(name, 0) + inside[axis]
        if name in values:
            return values[name]
        if name in fixed:
            return fixed[name]
        of_axis: dict[str, Callable[[], Value]] = {
            "%nctaid.": lambda: cluster[axis],
            "%cluster_nctaid.": lambda: cluster[axis],
            "%cluster_ctaid.": lambda: inside[axis],
            "%clusterid.": lambda: values.get(f"%ctaid.{name[-1]}", 0) // cluster[axis],
            "%nclusterid.": lambda: values.get(f"%nctaid.{name[-1]}", cluster[axis]) // cluster[axis],
        }
        found = of_axis.get(name[:-1])
        return None if found is None else found()

    def parameter(self, values: Mapping[str, int], key: str, bits: int) -> Value:
        """Return what a kernel finds in a parameter, or a part of one, in a launch with these values."""
        if key in values:
            return values[key] & ((1 << bits) - 1)
        return self.pointer(key) if bits == 64 else None

    # Parameters.

    @cached_property
    def roles(self) -> Roles:
        """What the parameters are by their use."""
        return roles_of(self.kernel, self.bounds)

    @cached_property
    def conditions(self) -> Conditions:
        """What a launch decides."""
        return Conditions(self)

    @cached_property
    def alike(self) -> Alike:
        """What tells launches apart."""
        return Alike(self)

    @property
    def decisive(self) -> frozenset[str]:
        """Parameters and special registers on which a condition or a table of branches depends, as runs have shown."""
        return self._deciding(effective=False)

    @property
    def looping(self) -> frozenset[str]:
        """Those of `decisive` that may steer a loop in which something happens, and not only what becomes of sums."""
        return self._deciding(effective=True)

    @property
    def steering_tables(self) -> set[str]:
        """Pointers to tables in memory on words of which what is kept depends."""
        return self.roles.tables.steering(self.steering)

    def _deciding(self, *, effective: bool) -> frozenset[str]:
        """Return them: what is stored in shared memory decides what has read it, and more runs may show more."""
        held = self._decided.get(effective)
        if held is None or held[0] != len(self.flows):
            keys = self.conditions.keys_now
            listed = [keys(w.condition) for w in self.watches if w.needed and (w.effective or not effective)]
            found = frozenset().union(*listed, *(keys for _, keys in self.tables.values()))
            held = self._decided[effective] = len(self.flows), found
        return held[1]

    def bits(self, key: str) -> int:
        """Return the bits of a parameter's type, 32 of a special register."""
        if key.startswith("["):
            return self.roles.widths[key]
        found = [p.type for p in self.kernel.parameters if p.name == key.partition("+")[0] and not p.bytes]
        return int(re.sub(r"\D", "", found[0])) if found else 32

    def is_pointer(self, key: str) -> bool:
        """Is a parameter, or a part of one, an address by its use?"""
        return key in self.roles.pointers

    def multiple(self, key: str) -> int:
        """Return what all values of a parameter that make sense are multiples of."""
        if key.startswith(("%ctaid.", "%nctaid.")):
            return self.kernel.cluster["xyz".index(key[-1])]
        return self.roles.multiples.get(key, 1)

    def pointer(self, key: str) -> int | None:
        """Return what a pointer is taken for, None where there is no parameter of the name."""
        return self._pointers[key] if key in self._pointers else self._pointers.setdefault(key, self._pointer(key))

    def _pointer(self, key: str) -> int | None:
        if key.startswith("["):  # one that lies where another one points to
            outer, _, at = key.rpartition("]")
            begin = self.pointer(outer[1:])
            return None if begin is None else begin + (POINTER // 2 >> key.count("[") - 1) + int(at or 0) * FIELD
        name, _, offset = key.partition("+")
        for index, parameter in enumerate(self.kernel.parameters):
            if parameter.name == name and (parameter.type.endswith("64") or parameter.bytes):
                return (index + 1) * POINTER + int(offset or 0) * POINTED
        return None

    def take(self, outcomes: Iterable[int], cases: Set[tuple[int, int]]) -> None:
        """Take over which ways a run has seen conditions turn out; of what has been seen both ways no more is noted."""
        self.cases |= cases
        ended = set()
        for watch, outcome in zip(self.watches, outcomes, strict=False):
            if outcome & ~watch.seen:
                watch.seen |= outcome
                if watch.ended:
                    ended.add(watch.at)
        for at in ended:
            self.watch(at)

    def forget(self) -> Seen:
        """Let runs begin anew; return what those until now have taken."""
        taken = Seen({n: w.seen for n, w in enumerate(self.watches)}, self.cases)
        self.cases, self.reached = set(), set()
        self.conditions.begin_anew()
        for watch in self.watches:
            watch.seen = 0
        for at in self.watches_at:
            self.watch(at)
        return taken

    def watch(self, at: int) -> None:
        """Let an operation note how conditions turn out."""
        listed = self.watches_at.get(at)
        self.code[at] = watching(self.bare[at], listed) if listed else self.bare[at]

    def map_name(self, address: int) -> str:
        """Return the name of a tensor map: that of the parameter in which, or to which, it lies, with the offset."""
        held = address >= MAP_BASE
        index, rest = divmod(address - MAP_BASE, PARAMETER) if held else divmod(address - POINTER, POINTER)
        if not 0 <= index < len(self.kernel.parameters):
            return f"map at {address:#x}"
        name = self.kernel.parameters[index].name
        first, offset = (rest, 0) if held else divmod(rest, POINTED)
        return name + (f"+{first}" if first else "") + (f" at {offset}" if offset else "")

    def give_up(self) -> None:
        """Let go of all that it holds, which is in cycles with it: else the collector of garbage has to find them."""
        vars(self).clear()

    # Questions of the machine.

    def waits_at(self, part: Part) -> int | None:
        """Return the address of the barrier that lanes wait for, if they do."""
        found = self.wait_slots.get(part.pc)
        if found is None:
            return None
        base = part.registers[found[0]]
        return int(place_of(base + found[1])) if isinstance(base, int) else None

    def last_of(self, base: str) -> int:
        """Return the line of the last instruction of a kind."""
        return max(
            (line for line, text in zip(self.lines, self.texts, strict=True) if text.startswith(base)), default=0
        )


def compile_kernel(
    text: PtxText, kernel: Kernel, bounds: Bounds | None = None, *, traced: bool = False, told: bool = False
) -> Program:
    """Make a kernel ready to run.

    Args:
        text: in which it stands.
        kernel: one of these.
        bounds: of what that may take.
        traced: whether coordinates, and addresses in global memory, are followed too, which break no contract.
        told: whether runs are told of numbers in global memory, on which what a kernel does may hang.

    Raises:
        Undecided: it uses something that is not understood, such as calls or clusters, or meets a bound.
    """
    x, y, z = kernel.threads
    shared = {symbol.name for symbol in (*text.shared, *kernel.shared)}
    bounds, kernel = bounds or Bounds(), with_direct_parameters(with_direct_halves(with_local_registers(kernel)))
    kernel = with_plain_comparisons(kernel)
    kernel = with_global_loads(kernel, shared)
    kernel = with_direct_offsets(with_own_registers(kernel, bounds))
    program = Program(kernel, x * y * z, _granule(kernel), bounds=bounds, traced=traced, told=told)
    if not program.ranks:
        raise Undecided(kernel.line, "the launch decides how many CTAs a cluster has")
    if program.ranks > MOST_RANKS:
        raise Undecided(kernel.line, f"clusters of {program.ranks} CTAs, more than the {MOST_RANKS} that a GPU takes")
    at = SHARED_BASE
    used = {name for i in kernel.instructions for one in i.operands for name in names_in(one)}
    held = [symbol for symbol in (*text.shared, *kernel.shared) if symbol.name in used]  # the others are other kernels'
    for symbol in sorted(held, key=lambda s: s.bytes == 0):
        at = -(-at // max(symbol.alignment, 16)) * max(symbol.alignment, 16)
        program.symbols[symbol.name] = at
        program.shared.append(symbol.name)
        at += symbol.bytes
    if held and all(symbol.bytes for symbol in held) and not any(name.startswith(_SIZES) for name in used):
        program.shared_end = at
    for i, parameter in enumerate(kernel.parameters):
        program.symbols[parameter.name] = MAP_BASE + i * PARAMETER
    control = control_of(kernel, bounds)
    kept = slice_of(program, kernel.instructions, control)
    dropped = [n for n, i in enumerate(kernel.instructions) if is_choice(i) and not kept[n]]
    instructions, labels = without(kernel, dropped, control.joins)
    for n in dropped:
        kept[n] = control.joins[n] != n + 1
    build(program, instructions, labels, kept)
    return program


def _granule(kernel: Kernel) -> int:
    """Return the bytes that all accesses to shared memory by threads are multiples of, at most 4."""
    sizes = {4}
    for i in kernel.instructions:
        if i.base in {"ld", "st"} and not {"global", "param", "const", "local"} & set(i.parts):
            found = re.fullmatch(r"[busf](\d+)", i.parts[-1])
            sizes.add(int(found[1]) // 8 if found else 4)
    return min(sizes)

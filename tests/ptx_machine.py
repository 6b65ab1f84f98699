"""Runs the PTX that our kernels are made of, thread by thread, so that kernels are tested without a GPU.

What is asynchronous happens as late as the text allows, or at a random time: loads poison their target at once and
arrive later, wgmma reads shared memory when its group is waited for, tcgen05.mma some time before its commit arrives,
stores read when they are waited for. So a missing wait gives wrong results, and a wrong count a deadlock. The engines
themselves are the models of `legalsat.analyses`, which are checked against measurements and other implementations.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.copy_engine import FILLED, smem_image, tx_bytes
from legalsat.layout.swizzle import Swizzle
from legalsat.units.matrix_descriptor import SPANS
from legalsat.units.tensor_map import TensorMap

LANES = 32
RANK_BITS = 24  # above which an address says which CTA of the cluster it is in, and 0 its own
PARAMETER_BASE, MAP_BYTES = 1 << 32, 128
SHARED_BASE = 1024  # as on hardware, where the system keeps the first 1024 bytes
POISON = 0x7F
WORD, LONG = 2**32 - 1, 2**64 - 1

Thread = dict[str, Any]


class Stuck(Exception):
    """The kernel does what hardware would hang or fault on; the message says what."""


@dataclass
class MemoryBarrier:
    """An mbarrier: arrivals and bytes that its phase still waits for."""

    expected: int
    pending: int
    bytes: int = 0
    phase: int = 0

    def settle(self) -> None:
        if self.pending < 0:
            raise Stuck("more arrivals than the barrier expects")
        if not self.pending and not self.bytes:
            self.phase, self.pending = self.phase + 1, self.expected


@dataclass
class Instruction:
    """One line of the text."""

    operation: str
    operands: list[str]
    guard: str
    negated: bool
    text: str


@dataclass
class Global:
    """Global memory of one tensor, and the map through which boxes go."""

    memory: NDArray[np.uint8]
    tensor_map: TensorMap | None = None


@dataclass
class Given:
    """What a kernel is launched with.

    Attributes:
        parameters: by name: numbers, addresses, and where tensor maps lie from `PARAMETER_BASE` on.
        maps: the tensor maps, in the order in which they lie there.
        memories: global memory, by the address at which it begins.
    """

    parameters: dict[str, int]
    maps: list[Global]
    memories: dict[int, NDArray[np.uint8]]

    def memory(self, at: int, size: int) -> tuple[NDArray[np.uint8], int]:
        """Return the memory in which bytes lie, and where."""
        for begin, memory in self.memories.items():
            if begin <= at and at + size <= begin + memory.size:
                return memory, at - begin
        raise Stuck(f"{size} bytes at {at:#x}, where no tensor is")


@dataclass
class Program:
    """A parsed kernel."""

    instructions: list[Instruction]
    labels: dict[str, int]
    threads: int
    parameters: list[str]


def parse(text: str) -> Program:
    """Return the instructions of the one kernel in a text."""
    body = re.search(r"^\{$(.*)^\}$", text, re.M | re.S)
    assert body is not None
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for raw in body.group(1).splitlines():
        line = raw.split("//")[0].strip()
        if line.endswith(":"):
            labels[line[:-1]] = len(instructions)
        elif line and not line.startswith((".reg", ".shared")):
            found = re.fullmatch(r"(?:@(!?)(%p\d+) )?([\w.:]+)(?: (.*))?;", line)
            assert found is not None, line
            negated, guard, operation, rest = found.groups()
            operands = [o.strip() for o in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", rest or "") if o.strip()]
            instructions.append(Instruction(operation, operands, guard or "", bool(negated), line))
    threads = re.search(r"\.reqntid (\d+)", text)
    assert threads is not None
    return Program(
        instructions, labels, int(threads.group(1)), re.findall(r"\.param .*?(\w+)(?:\[\d+\])?,?$", text, re.M)
    )


class Block:
    """One block at work."""

    def __init__(self, program: Program, special: dict[str, int], shared: int, given: Given, seed: int) -> None:
        from ptx_units import HANDLERS  # noqa: PLC0415 - the units need the block

        self.program, self.given, self.handlers = program, given, HANDLERS
        self.rank, self.cluster = special["%cluster_ctarank"], [self]
        self.random = random.Random(seed)
        self.shared = np.full(SHARED_BASE + shared, POISON, dtype=np.uint8)
        self.unfenced = np.zeros(SHARED_BASE + shared, dtype=np.int32)  # 1 + the thread that wrote through registers
        self.barriers: dict[int, MemoryBarrier] = {}
        self.pending: list[Callable[[], None]] = []  # any order
        self.queue: list[Callable[[], None]] = []  # in order
        self.tensor_memory = np.zeros((128, 512), dtype=np.uint32)
        self.allocated: tuple[int, int] | None = None
        self.arrived: dict[str, list[int]] = {}
        self.at = [0] * program.threads
        self.registers: list[Thread] = [
            {"%tid.x": t, **special, "memory": SHARED_BASE, "square": SHARED_BASE} for t in range(program.threads)
        ]
        self.waiting: list[Callable[[], bool] | None] = [None] * program.threads
        self.done = [False] * program.threads
        self.groups: list[list[list[Callable[[], None]]]] = [[[]] for _ in range(program.threads)]
        self.warp_work: dict[int, list[list[Callable[[], None]]]] = {}
        self.collected: dict[tuple[int, int], dict[int, None]] = {}

    def advance(self) -> bool:
        """Run all threads, in any order, until they have to wait; return whether one moved."""
        moved = False
        order = list(range(self.program.threads))
        self.random.shuffle(order)
        for thread in order:
            moved |= self._advance(thread)
            if self.random.random() < 0.05:
                moved |= self.something_happens()
        return moved

    def something_happens(self) -> bool:
        """Let something end that is under way; return whether anything was."""
        choices = [q for q in (self.pending, self.queue) if q]
        if not choices:
            return False
        chosen = self.random.choice(choices)
        chosen.pop(self.random.randrange(len(chosen)) if chosen is self.pending else 0)()
        return True

    def _advance(self, thread: int) -> bool:
        """Run a thread until it has to wait; return whether it moved."""
        registers, moved = self.registers[thread], False
        instructions, handlers = self.program.instructions, self.handlers
        while not self.done[thread]:
            blocked = self.waiting[thread]
            if blocked is not None:
                if not blocked():
                    return moved
                self.waiting[thread] = None
                self.at[thread] += 1
                moved = True
                continue
            instruction = instructions[self.at[thread]]
            if instruction.guard and bool(registers[instruction.guard]) == instruction.negated:
                self.at[thread] += 1
                continue
            moved = True
            name = instruction.operation
            if name == "bra":
                self.at[thread] = self.program.labels[instruction.operands[0]]
            elif name == "ret":
                for store in chain.from_iterable(self.groups[thread]):
                    store()  # a block's memory stays until the copy engine is done, as an H200 showed
                self.done[thread] = True
            else:
                handler = handlers[name] if name in handlers else handlers[_stem(name, handlers)]
                handler(self, thread, instruction)
                if self.waiting[thread] is None:
                    self.at[thread] += 1
        return moved

    def together(self, thread: int, instruction: Instruction, work: Callable[[list[int]], None]) -> None:
        """Let a warp's threads meet at an instruction; the last one does the work of all."""
        warp, at = thread // LANES, self.at[thread]
        here = self.collected.setdefault((warp, at), {})
        here[thread] = None
        if len(here) == LANES:
            work(sorted(here))
            del self.collected[warp, at]
            return
        generation = here
        self.waiting[thread] = lambda: self.collected.get((warp, at)) is not generation

    def meet(self, name: str, thread: int, count: int, *, waits: bool = True) -> None:
        """Let `count` threads meet at a barrier of the block, some of which may not wait for it."""
        here = self.arrived.setdefault(name, [])
        here.append(thread)
        if len(here) == count:
            del self.arrived[name]
        elif waits:
            self.waiting[thread] = lambda: self.arrived.get(name) is not here

    def value(self, thread: int, operand: str) -> int:
        """Return a register's or an immediate's value."""
        if operand.startswith("0f"):
            return int(operand[2:], 16)
        return self.registers[thread][operand] if operand[0] in "%ms" else int(operand, 0)

    def owner(self, address: int) -> tuple[Block, int]:
        """Return the block in whose shared memory an address is, and where."""
        rank, at = divmod(address, 1 << RANK_BITS)
        owner = self.cluster[rank - 1] if rank else self
        if all(owner.done):
            raise Stuck(f"CTA {owner.rank} has ended, and another one reaches into its memory")
        return owner, at

    def address(self, thread: int, operand: str) -> int:
        """Return what stands in brackets, a register and bytes."""
        name, _, offset = operand.strip("[]").partition("+")
        return int(self.value(thread, name)) + int(offset or 0)

    def barrier(self, thread: int, operand: str) -> MemoryBarrier:
        """Return the started barrier at an address."""
        owner, at = self.owner(self.address(thread, operand))
        return owner.barrier_at(at)

    def barrier_at(self, at: int) -> MemoryBarrier:
        """Return the started barrier at an address of the block."""
        if at not in self.barriers:
            raise Stuck(f"no barrier at {at}")
        return self.barriers[at]

    def load_box(self, tensor: Global, coordinate: tuple[int, ...], to: int, barrier: MemoryBarrier) -> None:
        """Let a box arrive some time later; until then its place holds nothing of use."""
        if all(self.done):
            raise Stuck(f"CTA {self.rank} has ended, and a box is sent to it")
        tm = tensor.tensor_map
        assert tm is not None
        if to % 128:
            raise Stuck(f"a box goes to {to}, no multiple of 128")
        image = image_of(tm, coordinate, to)
        touched = np.flatnonzero(image >= FILLED)
        if touched[-1] >= self.shared.size:
            raise Stuck("a box leaves shared memory")
        self.shared[touched] = POISON

        def arrive() -> None:
            self.shared[touched] = np.where(image[touched] >= 0, tensor.memory[np.maximum(image[touched], 0)], 0)
            barrier.bytes -= tx_bytes(_plain(tm))
            barrier.settle()

        self.pending.append(arrive)

    def store_box(self, tensor: Global, coordinate: tuple[int, ...], begin: int) -> Callable[[], None]:
        """Return the store of a box, to be done when it is waited for."""
        tm = tensor.tensor_map
        assert tm is not None
        image = image_of(tm, coordinate, begin)
        taken = np.flatnonzero(image >= 0)
        if begin % 128:
            raise Stuck(f"a box comes from {begin}, no multiple of 128")
        if self.unfenced[np.flatnonzero(image >= FILLED)].any():
            raise Stuck("the copy engine reads what was written without a fence")

        def store() -> None:
            tensor.memory[image[taken]] = self.shared[taken]

        return store

    def write_shared(self, thread: int, at: int, data: bytes) -> None:
        """Write through registers."""
        if at < SHARED_BASE or at + len(data) > self.shared.size:
            raise Stuck(f"a write to {at} leaves shared memory")
        if any(at - 8 < b < at + len(data) for b in self.barriers):
            raise Stuck("a write hits a barrier")
        self.shared[at : at + len(data)] = np.frombuffer(data, dtype=np.uint8)
        self.unfenced[at : at + len(data)] = thread + 1


def _stem(name: str, handlers: dict[str, Any]) -> str:
    """Return the longest known beginning of an operation's name."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        stem = ".".join(parts[:count])
        if stem in handlers:
            return stem
    raise KeyError(name)


def run(text: str, blocks: Iterable[int], shared: int, tensors: dict[str, Global], seed: int = 0) -> None:
    """Run some blocks of a kernel, one after the other; `tensors` by the names of its parameters."""
    program = parse(text)
    assert set(program.parameters) == set(tensors), program.parameters
    maps = [name for name in program.parameters if tensors[name].tensor_map is not None]
    parameters = {name: PARAMETER_BASE + MAP_BYTES * i for i, name in enumerate(maps)}
    others = {name: 1 << 33 + i for i, name in enumerate(name for name in program.parameters if name not in maps)}
    memories = {at: tensors[name].memory for name, at in others.items()}
    given = Given(parameters | others, [tensors[name] for name in maps], memories)
    for number in blocks:
        run_cluster(program, (number, 1, number + 1), shared, given, seed + number)


def run_cluster(program: Program, grid: tuple[int, int, int], shared: int, given: Given, seed: int) -> None:
    """Run one cluster: `grid` has its first block, its blocks, and those of the grid.

    Raises:
        Stuck: nothing moves any more, or something is left behind.
    """
    first, count, all_blocks = grid
    blocks = []
    for rank in range(count):
        special = {"%ctaid.x": first + rank, "%nctaid.x": all_blocks, "%cluster_ctarank": rank}
        blocks.append(Block(program, special, shared, given, seed + rank))
    for block in blocks:
        block.cluster = blocks
    while not all(all(block.done) for block in blocks):
        moved = [block.advance() for block in blocks]
        if not any(moved) and not sum(block.something_happens() for block in blocks):
            at = {
                program.instructions[block.at[t]].text
                for block in blocks
                for t, done in enumerate(block.done)
                if not done
            }
            raise Stuck(f"deadlock at {sorted(at)}")
    while sum(block.something_happens() for block in blocks):
        pass
    if any(block.allocated is not None for block in blocks):
        raise Stuck("tensor memory is not freed")


def _plain(tm: TensorMap) -> TensorMap:
    return replace(tm, swizzle="none") if "atom" in str(tm.swizzle) else tm


def image_of(tm: TensorMap, coordinate: tuple[int, ...], base: int) -> NDArray[np.int64]:
    """Return `smem_image`, also for swizzles of other atoms, if boxes are as wide as their span: M-09 with theirs."""
    if "atom" not in str(tm.swizzle):
        return smem_image(tm, coordinate, base)
    assert tm.box[0] * tm.map_type.bits == 8 * SPANS[str(tm.swizzle)]
    image = smem_image(_plain(tm), coordinate, base)
    moved = np.full(-(-image.size // 1024) * 1024, -2, dtype=np.int64)
    at = np.arange(image.size)
    moved[Swizzle.tma(str(tm.swizzle))(at)] = image
    return moved


def registers_of(operand: str) -> list[str]:
    """Return the names in a vector operand."""
    return [name.strip() for name in operand.strip("{}").split(",")]


def words(raw: NDArray[np.uint8], size: int) -> NDArray[Any]:
    """Return bytes of shape (..., size) as unsigned integers."""
    kinds: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32}
    found: NDArray[Any] = np.ascontiguousarray(raw).view(kinds[size])[..., 0]
    return found

"""Prints the functions of an emitted module that run on the GPU: where a tile lies, and the operations of its program.

A row of `ROWS` is what becomes of an operation; none chooses anything. Gluon itself adds what `ADDED` lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from textwrap import indent
from typing import Any

from legalsat.backends.triton.kernel import INT32_MAX, CopyKernel
from legalsat.backends.triton.registers import exchanges_bytes
from legalsat.errors import LegalSatError
from legalsat.program.pipeline import (
    FIRST,
    Advance,
    At,
    Commit,
    Corner,
    Expect,
    Fence,
    Load,
    Loop,
    Operation,
    Read,
    Start,
    Store,
    Sync,
    Trips,
    Vectors,
    Wait,
    WaitGroup,
    Write,
    walk,
)

# What a compiled text does that the program does not say, and the reason.
ADDED = {
    "barriers": "Gluon has the block meet wherever threads use shared memory that others have used; where barriers "
    "have just been started it always does, so that meeting is not printed a second time",
    "one thread": "one thread of the block starts barriers, expects bytes, loads and stores; boxes of a tile are dealt "
    "out among the warps",
    "groups": "every store by a tensor map is committed as a group of its own",
}


STARTED = Fence("mbarrier_init")


def corner_function(kernel: CopyKernel) -> str:
    """The function from a tile's number to its numbers along every mode that has more than one tile."""
    lines = []
    for mode, count in kernel.grid[:-1]:
        lines += [f"index{mode} = tile % {count}", f"tile = tile // {count}"]
    if not kernel.grid:
        return ""
    lines.append(f"index{kernel.grid[-1][0]} = tile")
    return (
        '@gluon.jit\ndef corner(tile):\n    """Number of a tile along the modes '
        f'{", ".join(str(mode) for mode, _ in kernel.grid)}."""\n'
        f"{indent(chr(10).join(lines), '    ')}\n    return {_indices(kernel)}\n"
    )


def _indices(kernel: CopyKernel) -> str:
    return ", ".join(f"index{mode}" for mode, _ in kernel.grid)


def kernel_name(kernel: CopyKernel) -> str:
    """Name of the kernel function: it says which of the three ways the tiles go."""
    if kernel.direct:
        return "copy_tiles"
    return "permute_tiles" if kernel.target_groups else "scatter_tiles"


def kernel_function(kernel: CopyKernel) -> str:
    """The text of the kernel function.

    Raises:
        LegalSatError: an operation of the kernel's program has no row here.
    """
    text = _Text(kernel)
    ops = kernel.body
    printed = [op for i, op in enumerate(ops) if not (i and ops[i - 1] == STARTED and isinstance(op, Sync))]
    body = "".join((*text.head(), *map(text.row, printed)))
    return f"@gluon.jit\ndef {kernel_name(kernel)}(source, target):\n{indent(body, '    ')}"


class _Text:
    """The names of a kernel function, whose variables follow cursors.

    Of each there is the slot in rings of so many stages, the phase where it is waited for, and the tile that it is at.
    """

    def __init__(self, kernel: CopyKernel) -> None:
        self.kernel = kernel
        program = kernel.program
        self.barriers = {ring.name for ring in program.barriers}
        self.stages = {ring.name: ring.stages for ring in program.barriers}
        self.stages |= {ring.name: ring.stages for ring in program.buffers}
        self.slots: dict[str, set[int]] = {}  # by cursor: stages of its rings
        self.phased: dict[str, int] = {}  # by cursor: stages of the ring that it is waited for in
        for op in walk(kernel.body):
            at = getattr(op, "at", FIRST)
            if at.cursor:
                stages = {self.stages[ring] for ring in (getattr(op, "barrier", ""), getattr(op, "buffer", "")) if ring}
                self.slots.setdefault(at.cursor, set()).update(stages)
                if isinstance(op, Wait):
                    self.phased[at.cursor] = self.stages[op.barrier]

    def row(self, op: Operation) -> str:
        """The lines of an operation."""
        if type(op) not in ROWS:
            raise LegalSatError(f"triton prints no {type(op).__name__} of a movement's program")
        return ROWS[type(op)](self, op)

    def head(self) -> Iterator[str]:
        """Yield lines that declare the rings and the cursors."""
        kernel, program = self.kernel, self.kernel.program
        yield f"{'program' if kernel.programs else 'tile'} = gl.program_id(0)\n"
        for barrier in program.barriers:
            shape = f"[{barrier.stages}, 1]" if barrier.stages > 1 else "[1]"
            yield f"{barrier.name} = gl.allocate_shared_memory(gl.int64, {shape}, mbarrier.MBarrierLayout())\n"
        for ring, side in zip(program.buffers, ("source", "target"), strict=False):
            if ring.overlays:
                seen = f"{side}.dtype, {side}.block_shape, {side}.layout"
                yield f"{ring.name}s = reinterpret({ring.overlays[0]}s, {seen})\n"
                continue
            shape = f"[{ring.stages}] + {side}.block_shape" if ring.stages > 1 else f"{side}.block_shape"
            yield f"{ring.name}s = gl.allocate_shared_memory({side}.dtype, {shape}, {side}.layout)\n"
        for cursor, rings in self.slots.items():
            yield f"{cursor}_tile = program\n"
            yield from (f"{cursor}_of_{stages} = 0\n" for stages in sorted(rings - {1}))
            yield f"{cursor}_phase = 0\n" if cursor in self.phased else ""
        if any(isinstance(op, Vectors) for op in walk(kernel.body)):
            yield _plain_offsets(kernel)

    def item(self, ring: str, at: At) -> str:
        """An item of a ring."""
        name = ring if ring in self.barriers else f"{ring}s"
        return f"{name}.index({at.cursor}_of_{self.stages[ring]})" if self.stages[ring] > 1 else name

    def place(self, at: At) -> str:
        """The line that says which tile an item holds."""
        tile = f"{at.cursor}_tile" if at.cursor else "tile"
        return f"{_indices(self.kernel)} = corner({tile})\n" if self.kernel.grid else ""

    def corner(self, corner: Corner) -> str:
        """Where a tile begins in a tensor map, slowest dimension first."""
        parts = []
        for along in reversed(corner):
            found = " + ".join(f"index{mode} * {factor}" for mode, factor in along.terms)
            sign = "-" if along.plus < 0 else "+"
            parts.append(f"{found} {sign} {abs(along.plus)}" if found and along.plus else found or str(along.plus))
        return f"[{', '.join(parts)}]"

    def trips(self, trips: Trips) -> str:
        """Tiles of the block, as a range of all tiles."""
        count = self.kernel.programs
        last = f"TILES - {-trips.plus * count}" if trips.plus else "TILES"
        return f"range(program, {f'min({last}, program + {trips.most * count})' if trips.most else last}, {count})"


def _start(text: _Text, op: Start) -> str:
    stages = text.stages[op.barrier]
    if stages == 1:
        return f"mbarrier.init({op.barrier}, count=1)\n"
    return f"for slot in gl.static_range({stages}):\n    mbarrier.init({op.barrier}.index(slot), count=1)\n"


def _wait(text: _Text, op: Wait) -> str:
    phase = f"{op.at.cursor}_phase" if op.at.cursor else "0"
    return f"mbarrier.wait({text.item(op.barrier, op.at)}, {phase})\n"


def _expect(text: _Text, op: Expect) -> str:
    return f"mbarrier.expect({text.item(op.barrier, op.at)}, {op.bytes})\n"


def _load(text: _Text, op: Load) -> str:
    barrier, buffer = text.item(op.barrier, op.at), text.item(op.buffer, op.at)
    return f"{text.place(op.at)}tma_load(source, {text.corner(op.corner)}, {barrier}, {buffer})\n"


def _store(text: _Text, op: Store) -> str:
    return f"{text.place(op.at)}tma_store(target, {text.corner(op.corner)}, {text.item(op.buffer, op.at)})\n"


def _read(text: _Text, op: Read) -> str:
    kernel, view = text.kernel, text.item(op.buffer, op.at)
    if kernel.target_groups is None:
        return f"words = {view}.load(LOAD_REGISTERS)\n" + _scattered(kernel)
    if exchanges_bytes(kernel):
        view = f"reinterpret({view}, gl.int16, LOAD_PAIRS, LOAD_PAIR_LAYOUT)"
    return f"words = {view}.load(REGISTERS)\n" + _reordered(kernel)


def _write(text: _Text, op: Write) -> str:
    view = text.item(op.buffer, op.at)
    if exchanges_bytes(text.kernel):
        view = f"reinterpret({view}, gl.int16, STORE_PAIRS, STORE_PAIR_LAYOUT)"
    return f"{view}.store(words)\n"


def _advance(text: _Text, op: Advance) -> str:
    lines = [f"{op.cursor}_tile += {text.kernel.programs}"]
    for stages in sorted(text.slots[op.cursor]):
        slot = f"{op.cursor}_of_{stages}"
        flip = [f"{op.cursor}_phase = {op.cursor}_phase ^ 1"] if text.phased.get(op.cursor) == stages else []
        if stages > 1:
            lines += [f"{slot} += 1", f"if {slot} == {stages}:", f"    {slot} = 0", *(f"    {line}" for line in flip)]
        else:
            lines += flip
    return "".join(line + "\n" for line in lines)


def _loop(text: _Text, op: Loop) -> str:
    return f"for turn in {text.trips(op.trips)}:\n" + indent("".join(map(text.row, op.body)), "    ")


ROWS: dict[type, Callable[[_Text, Any], str]] = {
    Start: _start,
    Wait: _wait,
    Expect: _expect,
    Load: _load,
    Store: _store,
    Commit: lambda text, op: "",  # ADDED, groups
    WaitGroup: lambda text, op: f"tma.store_wait({op.pending})\n",
    Read: _read,
    Write: _write,
    Vectors: lambda text, op: text.place(op.at) + _plain_store(text.kernel),
    Fence: lambda text, op: "fence_async_shared()\n",
    Sync: lambda text, op: "cta_barrier()\n",
    Advance: _advance,
    Loop: _loop,
}


def _reordered(kernel: CopyKernel) -> str:
    """Lines that bring the words of one tile from the source's order into the target's, in registers."""
    assert kernel.store_map is not None
    source, target = kernel.source_order, kernel.target_order
    if exchanges_bytes(kernel):
        return _exchanged(kernel)
    lines = []
    joint = [kernel.tile[m] for m in source]
    if joint != list(kernel.load_map.block):
        lines.append(f"words = words.reshape({joint})")
    if source != target:
        lines.append(f"words = words.permute({[source.index(m) for m in target]})")
    if [kernel.tile[m] for m in target] != list(kernel.store_map.block):
        lines.append(f"words = words.reshape({list(kernel.store_map.block)})")
    return "".join(line + "\n" for line in lines)


def _exchanged(kernel: CopyKernel) -> str:
    """The same for pairs of bytes: neighbours along the source's innermost mode become such along the target's."""
    source, target = kernel.source_order, kernel.target_order
    inner, outer = source[-1], target[-1]
    axis = source.index(outer)
    joint = [kernel.tile[m] for m in source[:-1]] + [kernel.tile[inner] // 2]
    split = [*joint[:axis], joint[axis] // 2, 2, *joint[axis + 1 :]]
    to_end = [i for i in range(len(split)) if i != axis + 1] + [axis + 1]
    order: list[int] = []
    for mode in target:
        order += [source.index(mode)] + ([len(source)] if mode == inner else [])
    assert kernel.store_map is not None
    block = [*kernel.store_map.block[:-1], kernel.store_map.block[-1] // 2]
    return (
        f"# Pairs along mode {inner}, two of them neighbours along mode {outer}, become two pairs along mode {outer}.\n"
        f"even, odd = words.reshape({split}).permute({to_end}).split()\n"
        "low = (even & 0x00FF) | (odd << 8)\n"
        "high = ((even >> 8) & 0x00FF) | (odd & -0x0100)\n"
        f"words = gl.join(low, high).permute({order}).reshape({block})\n"
    )


def plain_modes(kernel: CopyKernel) -> list[int]:
    """The modes along which a tile has more than one word, slowest in the target first."""
    return [m for m in kernel.target_order if kernel.tile[m] > 1]


def _scattered(kernel: CopyKernel) -> str:
    """Lines that bring the words of one tile into the registers from which threads store them."""
    modes, source = plain_modes(kernel), kernel.source_order
    joint = [kernel.tile[m] for m in source]
    text = ""
    if joint != list(kernel.load_map.block):
        text += f"words = words.reshape({joint})\n"
    if source != kernel.target_order:
        text += f"words = words.permute({[source.index(m) for m in kernel.target_order]})\n"
    if len(modes) != len(source):
        text += f"words = words.reshape({[kernel.tile[m] for m in modes]})\n"
    return text + "words = gl.convert_layout(words, STORE_REGISTERS)\n"


def _plain_offsets(kernel: CopyKernel) -> str:
    """Lines that number a tile's words along each mode and give their offsets from the tile's first word."""
    text, modes = "", plain_modes(kernel)
    for axis, mode in enumerate(modes):
        layout = "STORE_REGISTERS"
        for other in reversed(range(len(modes))):
            if other != axis:
                layout = f"gl.SliceLayout({other}, {layout})"
        index = ", ".join(":" if other == axis else "None" for other in range(len(modes)))
        spread = f"[{index}]" if len(modes) > 1 else ""
        text += f"word{mode} = gl.arange(0, {kernel.tile[mode]}, layout={layout}){spread}\n"
    wide = ".to(gl.int64)" if sum((kernel.tile[m] - 1) * kernel.target_stride[m] for m in modes) > INT32_MAX else ""
    return text + f"offset = {_times([f'word{m}{wide}' for m in modes], [kernel.target_stride[m] for m in modes])}\n"


def _plain_store(kernel: CopyKernel) -> str:
    """Lines that store one tile's words, those outside the tensor masked off."""
    far = sum((n - 1) * d for n, d in zip(kernel.extent, kernel.target_stride, strict=True)) > INT32_MAX
    wide, moving = ".to(gl.int64)" if far else "", [mode for mode, _ in kernel.grid]
    steps = [kernel.tile[m] * kernel.target_stride[m] for m in moving]
    base = f"target + ({_times([f'index{m}{wide}' for m in moving], steps)})" if moving else "target"
    masks = []
    for m in plain_modes(kernel):
        if kernel.extent[m] % kernel.tile[m]:
            first = f" - index{m} * {kernel.tile[m]}" if m in moving else ""
            masks.append(f"(word{m} < {kernel.extent[m]}{first})")
    inside = f"inside = {' & '.join(masks)}\n" if masks else ""
    return inside + f"gl.store({base} + offset, words{', mask=inside' if masks else ''})\n"


def _times(names: Sequence[str], factors: Sequence[int]) -> str:
    terms = (name if n == 1 else f"{name} * {n}" for name, n in zip(names, factors, strict=True))
    return " + ".join(terms)

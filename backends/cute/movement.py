"""Prints the program of a movement's plan in CUDA C++, whatever its means: a row of `ROWS` for each operation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib.resources import files
from typing import Any

from legalsat.backends.cute.movement_words import C_TYPES, MovedWords, indented, type_of
from legalsat.dims import Extent
from legalsat.errors import LegalSatError
from legalsat.logic import round_up
from legalsat.plans.movement_plan import MovementPlan
from legalsat.program.pipeline import (
    Advance,
    At,
    Commit,
    CopyIn,
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
    Vectors,
    Wait,
    WaitGroup,
    Write,
    walk,
)
from legalsat.runtime.program import AddressArgument, Argument, MapArgument, NumberArgument
from legalsat.targets import GRANULE_BYTES

ENTRY = "move_tiles"
FIRST = "if (movement::thread() == 0) "
INDEX_LIMIT = 2**31  # of numbers of tiles, and of what one has


class MovementText:
    """A plan's kernel as text."""

    def __init__(self, plan: MovementPlan) -> None:
        self.plan, self.program, self.launch = plan, plan.pipeline, plan.launch
        self.words = MovedWords(plan)
        self.stages = {ring.name: ring.stages for ring in self.program.barriers}
        self.stages |= {ring.name: ring.stages for ring in self.program.buffers}
        if isinstance(self.launch.tiles, int) and self.launch.tiles >= INDEX_LIMIT:
            raise LegalSatError(f"{self.launch.tiles} tiles are more than cute counts; widen the tile")

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.launch.warps

    @property
    def blocks(self) -> Extent:
        """Blocks of the grid; a formula of open dims."""
        blocks: Extent = self.launch.programs or self.launch.tiles
        return blocks

    @cached_property
    def places(self) -> dict[str, tuple[int, int]]:
        """Where each ring begins in shared memory, and the bytes from stage to stage."""
        found: dict[str, tuple[int, int]] = {}
        end = 0
        for ring, tile in zip(self.program.buffers, self.plan.shared, strict=True):
            pitch = round_up(ring.bytes, tile.alignment)
            begin = found[ring.overlays[0]][0] if ring.overlays else round_up(end, tile.alignment)
            found[ring.name] = begin, pitch
            end = max(end, begin + pitch * ring.stages)
        for barrier in self.program.barriers:
            found[barrier.name] = end, 8
            end += 8 * barrier.stages
        return found

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory of a block."""
        return max((first + pitch * self.stages[name] for name, (first, pitch) in self.places.items()), default=0)

    entry = ENTRY

    def arguments(self) -> Iterator[Argument]:
        """Yield what the kernel is launched with: tensor maps, the addresses, and numbers that hang on dims."""
        offsets = [phase.offset for phase in self.plan.phases] or [0] * len(self.plan.tensor_maps)
        loads = len(self.plan.phases) or 1
        for number, (tm, offset) in enumerate(zip(self.plan.tensor_maps, offsets, strict=True)):
            yield MapArgument("source" if number < loads else "target", tm, offset)
        yield from (AddressArgument("source"), AddressArgument("target"))
        yield from (NumberArgument(number, type_of(name)) for name, number in self.words.parameters.items())

    def aligned(self, side: str) -> int:
        """Return the bytes that a side's address must be a multiple of."""
        return next((min(copy.bytes, GRANULE_BYTES) for copy in self.plan.copies if copy.side == side), GRANULE_BYTES)

    @property
    def operations(self) -> list[Operation]:
        """The operations of a block, loops before their bodies."""
        return list(walk(self.program.roles[0].body))

    @cached_property
    def held(self) -> dict[str, int]:
        """Words of the chunks in which threads hold a tile, as the source and as the target counts them."""
        moved = {op.side: op.bytes // self.words.word for op in self.operations if isinstance(op, Vectors)}
        if not self.program.buffers:
            # Both sides' vectors are of neighbours that a thread holds; the source counts them.
            most, fast = max(moved.values()), self.words.order("source")[:1]
            alike = fast == self.words.order("target")[:1] and (not fast or self.words.tile[fast[0]] % most == 0)
            if moved["target"] > 1 and self.words.order("source") != self.words.order("target") and not alike:
                raise LegalSatError("cute has no row for Vectors that registers turn; ask for means with a buffer")
            return dict.fromkeys(("source", "target"), most)
        widest = self.words.together(GRANULE_BYTES // self.words.word, "target", "target")
        return {"source": moved.get("source", 1), "target": moved.get("target", widest)}

    def text(self) -> str:
        """Return the kernel with what it needs.

        Raises:
            LegalSatError: as `kernel`.
        """
        device = (files("legalsat.backends.cute") / "movement_device.cuh").read_text(encoding="utf-8")
        return f"{device}{self.instructions()}\n{self.kernel()}"

    def kernel(self) -> str:
        """Return the kernel without the functions that hold instructions.

        Raises:
            LegalSatError: an operation of the program has no row here.
        """
        threads = any(
            isinstance(op, Vectors | CopyIn | Read | Write) or getattr(op, "each", 0) for op in self.operations
        )
        parameters = [f"const __grid_constant__ CUtensorMap map{n}" for n, _ in enumerate(self.plan.tensor_maps)]
        parameters += ["unsigned long long source", "unsigned long long target"]
        parameters += [f"{C_TYPES[type_of(name)]} {name}" for name in self.words.parameters]
        body = "".join((*self.head(), *map(self.row, self.program.roles[0].body))).replace("GIVEN", self.words.given)
        tile = f"constexpr int threads = {self.threads}, tile_words = {math.prod(self.words.tile)};\n"
        sizes = "".join(f"{line}\n" for line in self.words.sizes())
        return (
            f"namespace plan {{\n{tile}{self.words.functions() if threads else sizes}}}\n\n"
            f'extern "C" __global__ void __launch_bounds__({self.threads}) {ENTRY}(\n'
            f"{indented(f',{chr(10)}'.join(parameters))}) {{\n{indented(body)}}}\n"
        )

    def instructions(self) -> str:
        """Return the instructions of the copy engine that the program needs, by name and number of coordinates."""
        found = {}
        for op in self.operations:
            if isinstance(op, Load | Store) and not getattr(op, "each", 0):
                number = min(op.number, len(self.plan.tensor_maps) - 1)
                rank = self.plan.tensor_maps[number].rank
                found[type(op), rank] = _instruction(op, rank, columns=self.words.columns)
        return "\n".join(found.values())

    def head(self) -> Iterator[str]:
        """Yield lines that declare rings, cursors, and what threads hold."""
        if self.plan.guard:
            yield f"plan::Sizes const at{{{', '.join(self.words.parameters)}}};\n"
        if self.places:
            yield "char *const memory = movement::shared_memory();\n"
        for barrier in self.program.barriers:
            at = self.places[barrier.name][0]
            yield f"uint64_t *const {barrier.name} = reinterpret_cast<uint64_t *>(memory + {at});\n"
        for cursor in dict.fromkeys(op.cursor for op in self.operations if isinstance(op, Advance)):
            yield f"int {cursor} = 0;\n"
        if any(isinstance(op, Vectors | Write) for op in self.operations):
            most = max(chunk * self.chunks(chunk) for chunk in self.held.values())
            yield f"alignas(16) plan::Word words[{most}];\n"

    def chunks(self, words: int) -> int:
        """How many chunks of so many words a thread holds."""
        return -(-math.prod(self.words.tile) // (words * self.threads))

    def row(self, op: Operation) -> str:
        """The lines of an operation."""
        if type(op) not in ROWS:
            raise LegalSatError(f"cute has no row for {type(op).__name__} of a movement's program")
        return ROWS[type(op)](self, op)

    def barrier(self, ring: str, at: At) -> str:
        """An item of a ring of barriers."""
        return f"{ring} + {at.cursor} % {self.stages[ring]}" if at.cursor else ring

    def buffer(self, ring: str, at: At) -> str:
        """An item of a ring of buffers."""
        first, pitch = self.places[ring]
        return f"memory + {first}" + (f" + {at.cursor} % {self.stages[ring]} * {pitch}" if at.cursor else "")

    def numbers(self, at: At) -> str:
        """The line that says which tile an item holds, along the modes."""
        step = f" + {at.cursor} * {self.words.number('programs', self.launch.programs)}" if at.cursor else ""
        return f"int tile = movement::block(){step};\n"

    def corner(self, at: At, corner: Corner) -> str:
        """Lines that say where a tile begins in a tensor map, along each dimension."""
        grid = dict(self.launch.grid)
        found, known, before = self.numbers(at), 1, list[str]()
        for mode, count in grid.items():
            said = self.words.count(mode, count)
            behind = " * ".join([*before, *([str(known)] if known > 1 or not before else [])])
            found += f"int const n{mode} = tile / {f'({behind})' if before else behind} % {said};\n"
            if isinstance(count, int):
                known *= count
            else:
                before.append(said)
        for dimension, along in enumerate(corner):
            terms = [f"n{mode} * {factor}" for mode, factor in along.terms]
            found += f"int const c{dimension} = {' + '.join((*terms, str(along.plus)))};\n"
        return found

    def each(self, words: int, side: str, body: str, at: At) -> str:
        """Lines that do something with each chunk of a tile that a thread holds."""
        return _block(
            f"{self.numbers(at)}plan::Modes const n = plan::numbers(GIVENtile);\n#pragma unroll\n"
            f"for (int i = 0; i < {self.chunks(words)}; ++i) {{\n"
            f"    int const first = (movement::thread() + i * plan::threads) * {words};\n"
            "    if (first >= plan::tile_words) break;\n" + indented(body.replace("WORD", f"plan::in_{side}")) + "}\n"
        )


def _block(text: str) -> str:
    return f"{{\n{indented(text)}}}\n"


def _instruction(op: Load | Store, rank: int, *, columns: bool) -> str:
    """Return the function of an instruction by tensor map."""
    load = isinstance(op, Load)
    taps = rank - 2 if load and columns else 0
    names = [f"c{d}" for d in range(rank)] + [f"t{d}" for d in range(taps)]
    first = 3 if load else 2
    slots = [f"%{first + i}" for i in range(rank + taps)]
    held = [f'"r"({name})' for name in names[:rank]] + [f'"h"(static_cast<uint16_t>({name}))' for name in names[rank:]]
    coordinates, offsets = ", ".join(slots[:rank]), f", {{{', '.join(slots[rank:])}}}" if taps else ""
    given = ", ".join(f"int {name}" for name in names)
    if load:
        head = f"load_{'column' if taps else 'box'}(void *to, CUtensorMap const *map, uint64_t *barrier, {given})"
        text = (
            f"cp.async.bulk.tensor.{rank}d.shared::cluster.global{'.im2col' * bool(taps)}.mbarrier::complete_tx::bytes"
        )
        text += f" [%0], [%1, {{{coordinates}}}], [%2]{offsets};"
        operands = '"r"(place(to)), "l"(map), "r"(place(barrier))'
    else:
        head = f"store_box(void const *from, CUtensorMap const *map, {given})"
        text = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%0, {{{coordinates}}}], [%1];"
        operands = '"l"(map), "r"(place(from))'
    return (
        f"namespace movement {{\nMOVEMENT_DEVICE void {head} {{\n"
        f'    asm volatile("{text}"\n                 ::{operands}, {", ".join(held)} : "memory");\n}}\n}}\n'
    )


def _start(text: MovementText, op: Start) -> str:
    arrivals = next(ring.arrivals for ring in text.program.barriers if ring.name == op.barrier)
    return (
        f"{FIRST}{{\n    for (int stage = 0; stage < {text.stages[op.barrier]}; ++stage) "
        f"movement::start({op.barrier} + stage, {arrivals});\n}}\n"
    )


def _wait(text: MovementText, op: Wait) -> str:
    parity = f"{op.at.cursor} / {text.stages[op.barrier]} & 1" if op.at.cursor else "0"
    return f"movement::wait({text.barrier(op.barrier, op.at)}, {parity});\n"


def _load(text: MovementText, op: Load) -> str:
    words, barrier, buffer = text.words, text.barrier(op.barrier, op.at), text.buffer(op.buffer, op.at)
    if op.each:
        return FIRST + _block(_runs(text, op, barrier, buffer))
    boxes = words.boxes("source")
    count = math.prod(boxes.counts)
    to = f"{buffer} + {op.number * op.bytes} + box * {boxes.bytes}"
    at = [f"c{d} + {begin}" for d, begin in enumerate(boxes.begins("box"))]
    if words.columns:
        window = text.plan.window
        assert window is not None
        lines, place = [f"int pixel = {at[-1]};"], [at[0]]
        for i, sweep in enumerate(window.sweeps):
            lines += [f"int const x{i} = pixel % {sweep.windows} * {sweep.step} - {sweep.before};"]
            lines += [f"pixel /= {sweep.windows};"]
            place.append(f"x{i}")
        taps = [f"{sweep.dilation} * ({tap})" for sweep, tap in zip(window.sweeps, at[1:-1], strict=True)]
        lines.append(f"movement::load_column({to}, &map0, {barrier}, {', '.join((*place, 'pixel', *taps))});")
    else:
        lines = [f"movement::load_box({to}, &map{op.number}, {barrier}, {', '.join(at)});"]
    each = f"for (int box = 0; box < {count}; ++box) {{\n{indented(chr(10).join(lines))}\n}}\n"
    return FIRST + _block(text.corner(op.at, op.corner) + each)


def _runs(text: MovementText, op: Load, barrier: str, buffer: str) -> str:
    """Lines that load a tile's rows; what of them lies outside the tensor counts as brought."""
    load, word = text.words.load, text.words.word
    to = f"{buffer} + plan::source_place(w), source + plan::source_byte(GIVENg)"
    lines = [f"plan::Modes const w = plan::in_source(row * {load.tile[0]}), g = plan::whole(n, w);"]
    if not text.words.overhangs:
        lines.append(f"movement::load_run({to}, {op.each}, {barrier});")
    else:
        lines += [f"int const left = plan::lies(GIVENg) ? ({load.extent[0]} - c0) * {word} : 0;"]
        lines += [f"int const bytes = left < {op.each} ? left : {op.each};"]
        lines += [f"if (bytes) movement::load_run({to}, bytes, {barrier});"]
        lines += [f"if (bytes < {op.each}) movement::complete({barrier}, {op.each} - bytes);"]
    each = indented("\n".join(lines))
    numbers = f"{text.corner(op.at, op.corner)}plan::Modes const n = plan::numbers(GIVENtile);\n"
    return f"{numbers}for (int row = 0; row < {op.bytes // op.each}; ++row) {{\n{each}\n}}\n"


def _store(text: MovementText, op: Store) -> str:
    side = "source" if op.buffer == text.program.buffers[0].name else "target"
    boxes = text.words.boxes(side)
    at = ", ".join(f"c{d} + {begin}" for d, begin in enumerate(boxes.begins("box")))
    store = f"movement::store_box({text.buffer(op.buffer, op.at)} + box * {boxes.bytes}, &map{op.number}, {at});"
    each = f"for (int box = 0; box < {math.prod(boxes.counts)}; ++box) {store}\n"
    return FIRST + _block(text.corner(op.at, op.corner) + each)


def _copy_in(text: MovementText, op: CopyIn) -> str:
    words = op.each // text.words.word
    body = (
        "plan::Modes const w = WORD(first), g = plan::whole(n, w);\n"
        "bool const there = plan::lies(GIVENg) && plan::seen(GIVENg);\n"
        f"movement::copy_in<{op.each}>({text.buffer(op.buffer, op.at)} + plan::source_place(w), "
        "there ? source + plan::source_byte(GIVENg) : source, there);\n"
    )
    return text.each(words, "source", body, op.at)


def _vectors(text: MovementText, op: Vectors) -> str:
    words, wide = text.held[op.side], op.bytes // text.words.word
    counts = op.side if text.program.buffers else "source"
    do = f"movement::store<{op.bytes}>(words + i * {words} + v, target + plan::target_byte(GIVENg));"
    if op.side == "source":
        operator = text.plan.operator
        fill = operator.pattern
        do = (
            f"{{\n    if (plan::seen(GIVENg)) {{\n        movement::load<{op.bytes}>(words + i * {words} + v, source + "
            f"plan::source_byte(GIVENg));\n    }} else {{\n        for (int k = 0; k < {wide}; ++k) "
            f"words[i * {words} + v + k] = static_cast<plan::Word>({fill}ull);\n    }}\n}}"
        )
    body = (
        f"#pragma unroll\nfor (int v = 0; v < {words}; v += {wide}) {{\n"
        f"    plan::Modes const g = plan::whole(n, WORD(first + v));\n    if (plan::lies(GIVENg)) {do}\n}}\n"
    )
    return text.each(words, counts, body, op.at)


def _between(text: MovementText, op: Read | Write) -> str:
    side = "target" if isinstance(op, Read) or op.buffer != text.program.buffers[0].name else "source"
    place = "source" if op.buffer == text.program.buffers[0].name else "target"
    words = text.held[side]
    together = text.words.together(words, side, place)
    shared = f"{text.buffer(op.buffer, op.at)} + plan::{place}_place(WORD(first + v))"
    move = f"{'get' if isinstance(op, Read) else 'put'}<{together * text.words.word}>"
    body = f"for (int v = 0; v < {words}; v += {together}) movement::{move}(words + i * {words} + v, {shared});\n"
    return text.each(words, side, f"#pragma unroll\n{body}", op.at)


def _fence(text: MovementText, op: Fence) -> str:
    return f"movement::{ {'mbarrier_init': 'fence_start', 'proxy.async': 'fence_async'}[op.kind] }();\n".replace(
        " ", ""
    )


def _commit(text: MovementText, op: Commit) -> str:
    return f"{FIRST}movement::commit_stores();\n" if op.family == "bulk" else "movement::commit_copies();\n"


def _wait_group(text: MovementText, op: WaitGroup) -> str:
    if op.family == "bulk":
        return f"{FIRST}movement::wait_stores<{op.pending}>();\n"
    return f"movement::wait_copies<{op.pending}>();\n"


def _loop(text: MovementText, op: Loop) -> str:
    block, launch = "movement::block()", text.launch
    count, tiles = text.words.number("programs", launch.programs), text.words.number("tiles", launch.tiles)
    known = isinstance(launch.tiles, int) and isinstance(launch.programs, int)
    last = str(launch.tiles + op.trips.plus * launch.programs) if known else f"{tiles} + {op.trips.plus} * {count}"
    trips = f"tile < {last}"
    if op.trips.most:
        most = str(op.trips.most * launch.programs) if known else f"{op.trips.most} * {count}"
        trips += f" && tile < {block} + {most}"
    return f"for (int tile = {block}; {trips}; tile += {count}) {_block(''.join(map(text.row, op.body)))}"


ROWS: dict[type, Callable[[MovementText, Any], str]] = {
    Start: _start,
    Wait: _wait,
    Expect: lambda text, op: f"{FIRST}movement::expect({text.barrier(op.barrier, op.at)}, {op.bytes});\n",
    Load: _load,
    Store: _store,
    CopyIn: _copy_in,
    Commit: _commit,
    WaitGroup: _wait_group,
    Read: _between,
    Write: _between,
    Vectors: _vectors,
    Fence: _fence,
    Sync: lambda text, op: "movement::meet();\n",
    Advance: lambda text, op: f"++{op.cursor};\n",
    Loop: _loop,
}

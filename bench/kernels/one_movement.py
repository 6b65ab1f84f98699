"""Is what is planned of a movement what runs? The half of `python -m bench.one_plan` that is about movements.

Of each movement the plan, the text of every backend that prints it, the launch and the program are read separately.
What a text does is read back from it by patterns of its language, loops included, and compared with the program in
order; coordinates of copies are evaluated for some tiles, and compared with where the plan's views have these.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import legalsat as ls
from bench.gpu.copies import random_operator, random_pad
from bench.search.random_problems import problem
from legalsat.backends import program
from legalsat.extract.check.recheck import recheck
from legalsat.operators import Move
from legalsat.plans.movement_plan import Granules, View
from legalsat.program.leaves import GRANULE, Leaf, ShiftRows
from legalsat.program.pipeline import (
    Advance,
    AwaitGrid,
    Commit,
    CopyIn,
    Expect,
    Fence,
    LaunchDependents,
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
)
from legalsat.runtime.program import MapArgument, NumberArgument, Program
from legalsat.units.means import MEANS
from legalsat.units.windows import Window
from legalsat.view.show import duration

TARGET = "h200"
BACKENDS = ("triton", "cute")
TILES = 5  # of which coordinates are compared
Compared = tuple[str, Any, Any]
Done = tuple[Any, ...]


def drawn(r: random.Random) -> ls.MovementPlan | None:
    """Return the plan of a random movement, by any means or the cheapest; None where it has none."""
    operator: Move
    if (kind := r.random()) < 0.5:
        operator = problem(r).operator
    elif kind < 0.7:
        operator, values = random_operator(r)
        operator = operator.bind(values) if values else operator
    elif kind < 0.85:
        operator = random_pad(r)
    else:
        images = (r.choice((1, 2)), r.choice((5, 8, 14)), r.choice((6, 9)), r.choice((8, 16, 64)))
        tensor = ls.Tensor(images, r.choice(("bf16", "u8", "fp32")))
        operator = ls.Im2col(tensor, r.choice((1, 2, 3)), padding=r.choice((0, 1)), stride=r.choice((1, 2)))
    means = r.choice(("", *MEANS))
    try:
        return ls.synthesize(operator, TARGET, means=(means,) if means else None)  # type: ignore[arg-type]
    except (ls.NoLegalLayout, ls.InvalidInput):
        return None


def compared(plan: ls.MovementPlan) -> Iterator[Compared]:
    """Yield a field's name, what the plan says of it, and what a text, the launch or the program says."""
    (role,) = plan.pipeline.roles
    yield "warps, program", plan.launch.warps, role.warps
    yield "stages, program", [tile.stages for tile in plan.shared], [ring.stages for ring in plan.pipeline.buffers]
    yield "bytes, program", [tile.bytes for tile in plan.shared], [ring.bytes for ring in plan.pipeline.buffers]
    copied = {copy.side: copy.bytes for copy in plan.copies}
    ops = list(_flat(role.body))
    vectors = {op.side: op.bytes for op in ops if isinstance(op, Vectors)}
    if plan.granules is not None:  # whose leaf moves them on both sides, or from where copies have brought them
        vectors = dict.fromkeys(copied, GRANULE)
    each = {op.each for op in ops if isinstance(op, Load | CopyIn)} - {0}
    yield "vectors, program", copied, {**vectors, **({"source": each.pop()} if each else {})} if copied else {}
    yield "proof", True, ls.check_pipeline(plan).proven
    yield "recheck", None, recheck(plan)  # type: ignore[func-returns-value]
    yield "time, print", True, f"time {duration(plan.cost.nanoseconds)}" in re.sub(r" +", " ", str(plan))
    yield "time, candidates", plan.cost, plan.candidates[0].cost
    by_text = list(by_backends(BACKENDS, partial(program, plan), partial(compared_text, plan)))
    yield from by_text
    words = plan.access.word in {8, 16, 32, 64} or not vectors
    yield "printed", True, bool(by_text) or not words


def by_backends(
    backends: Iterable[str], made_by: Callable[[str], Any], compared_with: Callable[[Any, str], Iterable[Compared]]
) -> Iterator[Compared]:
    """Yield what is compared of what each backend makes of a plan, with its name; nothing of those that refuse it."""
    for backend in backends:
        try:
            made = made_by(backend)
        except ls.LegalSatError:
            continue
        for name, ours, theirs in compared_with(made, backend):
            yield f"{name}, {backend}", ours, theirs


def _flat(body: Iterable[Operation]) -> Iterator[Operation]:
    for op in body:
        yield op
        if isinstance(op, Loop):
            yield from _flat(op.body)


def compared_text(plan: ls.MovementPlan, made: Program, backend: str) -> Iterator[Compared]:
    """Yield the same of what a backend prints: its text and its launch."""
    if plan.granules is not None:
        yield from compared_granules(plan, plan.granules, made)
        return
    launch, text = made.recipes[0], made.text
    yield "grid, launch", plan.launch.programs or _tiles(plan), launch.grid[0]
    yield "warps, launch", plan.launch.warps, launch.threads // 32
    yield "relayouts, launch", len(plan.before), len(made.before)
    yield "entry, text", True, f" {launch.entry}(" in text
    maps = [one.map for one in launch.arguments if isinstance(one, MapArgument)]
    yield "tensor maps, launch", list(plan.tensor_maps), maps
    offsets = [one.offset for one in launch.arguments if isinstance(one, MapArgument)]
    yield "offsets, launch", [phase.offset for phase in plan.phases] or [0] * len(maps), offsets
    if backend == "cute":
        room = 8 * sum(ring.stages for ring in plan.pipeline.barriers)
        aligned = sum(tile.alignment for tile in plan.shared)
        yield "shared bytes, launch", True, 0 <= launch.shared - plan.cost.shared_bytes - room <= aligned
        kernel = text.partition('extern "C"')[2]
        yield "threads, text", f"__launch_bounds__({32 * plan.launch.warps})", kernel.partition("void ")[2].split()[0]
        yield "operations, text", list(_said(plan.pipeline.roles[0].body, backend)), list(_cuda(kernel, plan))
        yield "coordinates, text", list(_places(plan)), list(_cuda_places(kernel, plan))
    elif plan.access.by == "tma":
        yield "warps, text", plan.launch.warps, int(re.search(r"^WARPS = (\d+)$", text, re.M)[1])  # type: ignore[index]
        kernel = text.partition("_tiles(source, target):\n")[2].partition("\n\n\n")[0]
        yield "operations, text", list(_said(plan.pipeline.roles[0].body, backend)), list(_gluon(kernel, plan))
        yield "coordinates, text", list(_places(plan)), list(_gluon_places(text, kernel, plan))
    else:
        hints = {side: int(n) for side, n in re.findall(r"multiple_of\((source|target) \+ offset, \[.*?(\d+)\]", text)}
        yield "vectors, text", {copy.side: copy.bytes for copy in plan.copies}, hints


def compared_granules(plan: ls.MovementPlan, granules: Granules, made: Program) -> Iterator[Compared]:
    """Yield the same of a kernel that moves granules: its class is literal in a text, the rest is given."""
    launch, kernel = made.recipes[0], granules.kernel
    text = made.text.partition('extern "C"')[2]
    yield "grid, launch", plan.launch.programs, launch.grid[0]
    yield "blocks, launch", granules.blocks, launch.grid[0]
    yield "warps, launch", plan.launch.warps, launch.threads // 32
    yield "threads, text", str(32 * plan.launch.warps), re.findall(r"constexpr int threads = (\d+);", made.text)[0]
    yield "relayouts, launch", 0, len(made.before)
    yield "entry, text", granules.entry, re.findall(r"(\w+)\(", text)[1]
    yield "entry, launch", granules.entry, launch.entry
    yield "shared bytes, launch", plan.cost.shared_bytes, launch.shared
    yield "shared bytes, program", launch.shared, sum(ring.bytes for ring in plan.pipeline.buffers)
    given = [(one.type, one.value) for one in launch.arguments if isinstance(one, NumberArgument)]
    asked = [(kind, number) for (kind, _), number in zip(kernel.parameters[2:], granules.numbers, strict=True)]
    yield "numbers, launch", asked, given
    signature = text[text.index(f"{granules.entry}(") :].partition("{")[0]
    yield "parameters, text", [name for _, name in kernel.parameters], re.findall(r"(\w+)(?=[,)])", signature)
    found = re.findall(r"relayout::(move_rows|move_joined|turn_tile)<(.*?)>\(", text)
    yield "class, text", [_class_of(kernel)], [(name, *literals.split(", ")) for name, literals in found]
    said = re.findall(r"relayout::(await_grid|launch_dependents|commit_copies|wait_copies|barrier)(?:<(\d+)>)?\(", text)
    yield "operations, text", list(_beside(plan)), [tuple(filter(None, one)) for one in said]
    aligned = [(one.name, one.tensor.align) for one in made.operands]
    yield "alignment, launch", [("source", granules.source_align), ("target", granules.target_align)], aligned


def _class_of(kernel: Leaf) -> tuple[str, ...]:
    """Return the function of a leaf and its literals, as a text must have them."""
    if isinstance(kernel, ShiftRows):
        name = "move_joined" if kernel.joins else "move_rows"
        flags: tuple[bool, ...] = (kernel.alone,) if kernel.joins else (kernel.alone, kernel.fills)
        numbers: tuple[int, ...] = (kernel.element, kernel.axes)
    else:
        name, flags = "turn_tile", (kernel.straddles, kernel.skewed, kernel.joins, kernel.turns)
        numbers = (kernel.element, kernel.granules, kernel.tile_j, kernel.axes_i, kernel.axes_j, kernel.axes)
    return name, *map(str, numbers), *(str(flag).lower() for flag in flags)


def _beside(plan: ls.MovementPlan) -> Iterator[Done]:
    """Yield what a text does beside its leaf."""
    for op in plan.pipeline.roles[0].body:
        match op:
            case AwaitGrid():
                yield ("await_grid",)
            case LaunchDependents():
                yield ("launch_dependents",)
            case Commit():
                yield ("commit_copies",)
            case WaitGroup():
                yield "wait_copies", str(op.pending)
            case Sync():
                yield ("barrier",)


def _tiles(plan: ls.MovementPlan) -> int:
    """Return how many tiles there are."""
    found = 1
    if plan.access.by == "im2col":
        for extent, tile in zip(plan.views[0].extent, plan.views[0].tile, strict=True):
            found *= -(-extent // tile)
        return found
    for mode in plan.access.modes:
        found *= -(-mode.extent // mode.tile)
    return found


def _said(body: Iterable[Operation], backend: str) -> Iterator[Done]:
    """Yield what a text must do, in order, with the numbers that it must have; loops have a begin and an end."""
    before: Operation | None = None
    for op in body:
        match op:
            case Loop():
                yield "loop", op.trips.plus, op.trips.most
                yield from _said(op.body, backend)
                yield ("end",)
            case Expect():
                yield "expect", op.bytes
            case Load() if backend == "cute":
                yield "load", op.number
            case Store() if backend == "cute":
                yield "store", op.number
            case WaitGroup():
                yield f"wait for {op.family}", op.pending
            case CopyIn() | Vectors():
                yield type(op).__name__, op.each if isinstance(op, CopyIn) else (op.side, op.bytes)
            case Commit() | Advance() if backend == "triton":
                pass  # a store of Gluon's is a group, and its cursors are compared by what they address
            case Sync() if backend == "triton" and isinstance(before, Fence) and before.kind == "mbarrier_init":
                pass  # Gluon's own
            case Commit():
                yield "commit", op.family
            case Read() | Write():
                yield type(op).__name__, op.buffer
            case Start() | Wait() | Load() | Store() | Sync() | Fence() | Advance():
                yield (type(op).__name__.lower(),)
        before = op


_GLUON = (
    (r"for turn in range\(program, (?:min\()?TILES(?: - (\d+))?(?:, program \+ (\d+)\))?, (\d+)\):", "loop"),
    (r"mbarrier\.init\(", "start"),
    (r"mbarrier\.expect\([^,]*, (\d+)\)", "expect"),
    (r"mbarrier\.wait\(", "wait"),
    (r"tma_load\(", "load"),
    (r"tma_store\(", "store"),
    (r"tma\.store_wait\((\d+)\)", "wait for bulk"),
    (r"fence_async_shared\(", "fence"),
    (r"cta_barrier\(", "sync"),
    (r"words = .*\b(source|target)s.*\.load\(", "Read"),
    (r"\b(source|target)s.*\.store\(words\)", "Write"),
    (r"gl\.store\(", "Vectors"),
)
_CUDA = (
    (r"for \(int tile = movement::block\(\); tile < (-?\d+)(?: && tile < \S+ \+ (\d+))?; tile \+= (\d+)\) \{", "loop"),
    (r"movement::start\(", "start"),
    (r"movement::expect\(.*, (\d+)\)", "expect"),
    (r"movement::wait\(", "wait"),
    (r"movement::load_(?:box|column)\(.*&map(\d+)", "load"),
    (r"movement::load_run\(()", "load"),
    (r"movement::store_box\(.*&map(\d+)", "store"),
    (r"movement::wait_stores<(\d+)>", "wait for bulk"),
    (r"movement::wait_copies<(\d+)>", "wait for cp.async"),
    (r"movement::commit_(stores|copies)\(", "commit"),
    (r"movement::copy_in<(\d+)>", "CopyIn"),
    (r"movement::load<(\d+)>", "source"),
    (r"movement::store<(\d+)>", "target"),
    (r"movement::get<\d+>\(words .*, memory \+ (\d+)", "Read"),
    (r"movement::put<\d+>\(words .*, memory \+ (\d+)", "Write"),
    (r"movement::fence_", "fence"),
    (r"movement::meet\(", "sync"),
    (r"\+\+(?:loaded|done);", "advance"),
)


def _gluon(kernel: str, plan: ls.MovementPlan) -> Iterator[Done]:
    """Yield what a kernel in Gluon does; loops end where indentation does."""
    depth: list[int] = []
    count = plan.launch.programs
    layout = re.search(r"REGISTERS", kernel)
    for line in kernel.splitlines():
        indent = len(line) - len(line.lstrip())
        while line.strip() and depth and indent <= depth[-1]:
            depth.pop()
            yield ("end",)
        for pattern, what in _GLUON:
            if found := re.search(pattern, line):
                numbers = found.groups()
                if what == "loop":
                    depth.append(indent)
                    yield "loop", -int(numbers[0] or 0) // count, int(numbers[1] or 0) // count
                elif what == "Vectors":
                    assert layout is not None
                    yield what, ("target", _stored(plan))
                else:
                    yield what, *(int(n) if n.isdigit() else n for n in numbers)
                break
    yield from (("end",) for _ in depth)


def _stored(plan: ls.MovementPlan) -> int:
    """Return the bytes that threads store at a time, by the registers that the text deals out."""
    text = program(plan, "triton").text
    deals = re.search(r"STORE_REGISTERS = .*?reg_bases=(\[.*?\]),\n", text, re.S)
    assert deals is not None
    order = sorted((m for m in plan.access.modes if m.tile > 1), key=lambda m: (m.extent == 1, m.target))
    words, inner = 1, order[0] if order else None
    for base in eval(deals[1]):
        if inner is None or base[-1] != words:
            break
        words *= 2
    word: int = plan.access.word
    return words * word // 8


def _cuda(kernel: str, plan: ls.MovementPlan) -> Iterator[Done]:
    """Yield what a kernel in CUDA C++ does; loops over tiles end with their brace."""
    count = plan.launch.programs
    depth: list[int] = []
    rings = dict(_rings(kernel, plan))
    for line in kernel.splitlines():
        indent = len(line) - len(line.lstrip())
        if depth and indent == depth[-1] and line.strip() == "}":
            depth.pop()
            yield ("end",)
        for pattern, what in _CUDA:
            if found := re.search(pattern, line):
                numbers = found.groups()
                if what == "loop":
                    depth.append(indent)
                    yield "loop", (int(numbers[0]) - _tiles(plan)) // count, int(numbers[1] or 0) // count
                elif what in {"source", "target"}:
                    yield "Vectors", (what, int(numbers[0]))
                elif what in {"Read", "Write"}:
                    yield what, rings[int(numbers[0]), what]
                elif what == "commit":
                    yield what, {"stores": "bulk", "copies": "cp.async"}[numbers[0]]
                else:
                    yield what, *(int(n or 0) for n in numbers)
                break


def _rings(kernel: str, plan: ls.MovementPlan) -> Iterator[tuple[tuple[int, str], str]]:
    """Yield which buffer lies at an offset; one that lies on another is what is written there."""
    offsets = sorted({int(at) for at in re.findall(r"[gp][eu]t<\d+>\(words .*, memory \+ (\d+)", kernel)})
    names = [tile.name for tile in plan.shared]
    for what in ("Read", "Write"):
        overlaid = what == "Write" and any(tile.overlays for tile in plan.shared)
        for at, name in zip(offsets, names[1:] if overlaid else names, strict=False):
            yield (at, what), name


def _some(plan: ls.MovementPlan) -> list[int]:
    """Return tiles whose coordinates are compared."""
    tiles = _tiles(plan)
    return sorted({tiles * i // TILES for i in range(TILES)} | {tiles - 1})


def _places(plan: ls.MovementPlan) -> Iterator[tuple[int, ...]]:
    """Yield where tiles begin in the tensor map of each load and store, by the plan's views."""
    for tile in _some(plan):
        numbers, rest = {}, tile
        for mode, count in plan.launch.grid:
            numbers[mode], rest = rest % count, rest // count
        for op in _flat(plan.pipeline.roles[0].body):
            if isinstance(op, Load | Store):
                view = plan.views[0] if isinstance(op, Load) else plan.views[1]
                yield _place(plan, view, numbers, phases=len(plan.phases) if isinstance(op, Load) else 0)


def _place(plan: ls.MovementPlan, view: View, numbers: dict[int, int], *, phases: int) -> tuple[int, ...]:
    """Return a tile's first coordinates in a map; rows whose pitch is no multiple of 16 bytes are shared out."""
    found = []
    window: Window | None = plan.window if plan.access.by == "im2col" else None
    for d, group in enumerate(view.groups):
        if window is not None:
            at = numbers.get(group[0], 0) * view.tile[d]
        else:
            at, step = 0, 1
            for mode in group:
                at += numbers.get(mode, 0) * plan.access.modes[mode].tile * step
                step *= plan.access.modes[mode].extent
        if phases > 1 and d and view.extent[d] > 1 and view.stride[d] % 128:
            at //= phases
        found.append(at - (view.before[d] if view.before else 0))
    return tuple(found)


def _gluon_places(text: str, kernel: str, plan: ls.MovementPlan) -> Iterator[tuple[int, ...]]:
    lines = re.search(r"def corner\(tile\):\n.*?\n(.*?)    return (.*?)\n", text, re.S)
    for tile in _some(plan):
        scope: dict[str, int] = {"tile": tile}
        if lines is not None:
            for line in lines[1].splitlines():
                exec(line.strip(), scope)
        for corner in re.findall(r"tma_(?:load|store)\(\w+, (\[.*?\]),", kernel):
            yield tuple(reversed(eval(corner, dict(scope))))


def _cuda_places(kernel: str, plan: ls.MovementPlan) -> Iterator[tuple[int, ...]]:
    copies = [b for b in re.split(r"if \(movement::thread\(\) == 0\) \{\n", kernel) if re.search(r"int const c0 = ", b)]
    for tile in _some(plan):
        for block in copies:
            scope: dict[str, int] = {"tile": tile}
            found = []
            for name, value in re.findall(r"int const ([nc]\d+) = (.*?);", block):
                scope[name] = eval(value.replace("/", "//"), dict(scope))
                found += [scope[name]] if name[0] == "c" else []
            yield tuple(found)

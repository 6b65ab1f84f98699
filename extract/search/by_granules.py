"""Delivery by granules: kernels that move any permutation of axes with any strides, and paddings, wherever rows begin.

Axes that are contiguous on both sides become one; what is left says which kernel it takes: rows where the same axis
runs fastest on both sides, tiles where not. Nothing but this is solved: tiles are those that measured best.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from legalsat.diagnostics import Diagnostic
from legalsat.extract.check.fields import refuse
from legalsat.extract.cost.cost import granules_cost, scattered
from legalsat.extract.kernels.contract import require_contract
from legalsat.extract.kernels.movement_pipeline import granules_pipeline
from legalsat.extract.search.by_vectors import STORE, access_site, load_site
from legalsat.extract.search.delivery import Delivered, Question
from legalsat.extract.search.schedule import granules_launch
from legalsat.extract.solve.fields import Conflict
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.movement_plan import Granules, MovementCost, MovementPlan, SharedTile, VectorCopy
from legalsat.program.leaves import ENTRY_BYTES, GRANULE, LINE, SECTOR, THREADS, ShiftRows, TurnTile
from legalsat.rule import Rule
from legalsat.rules import GRANULE_RULES, SHARED_RULES, VECTOR_RULES
from legalsat.rules.granules import SPAN_LIMIT
from legalsat.targets import Target
from legalsat.units.sites import GranuleMove, SharedStages

# Tiles by bytes of an element, best first: granules of a row, elements along j. Rows that begin inside granules want
# long ones, as each costs a little at its ends; the last ones are for relayouts of few blocks.
ODD_TILES = {
    1: ((16, 128), (8, 128)),
    2: ((32, 64), (16, 64)),
    4: ((32, 64), (16, 64), (16, 32)),
    8: ((32, 32), (16, 32)),
    16: ((32, 32),),
}
EVEN_TILES = {1: ((16, 128),), 2: ((16, 64),), 4: ((16, 64),), 8: ((32, 32),), 16: ((32, 32),)}
IDLE = 1.3  # what of tiles may lie outside, next to the tile of which least does
JOINED_LENGTH, JOINED_ELEMENT = 4096, 4  # bytes: ends of longer rows, or of smaller elements, cost less than joining
JOINED_BYTES = 64 << 10  # of a tile of whole lines
MANY = 2048  # blocks: enough of them for large tiles
RUN_I, RUN_J = 512, 2048  # bytes that a side's run should have, if a few axes together do
ALONE = 1.03  # what a row may cost that has blocks of its own, by how much of them lies outside
MAX_RUN_AXES = 3


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a movement.

    Attributes:
        extent: elements of the target along it.
        source, target: bytes between neighbours on both sides.
        first: the target's element where the source's first one goes. count: elements of the source; all when 0.
    """

    extent: int
    source: int
    target: int
    first: int = 0
    count: int = 0

    @property
    def pads(self) -> bool:
        """Whether the target has elements that the source has not."""
        return bool(self.count) and self.count < self.extent


@dataclass(frozen=True, slots=True)
class Moved:
    """A movement in bytes.

    Attributes:
        element: bytes of an element: 1, 2, 4, 8 or 16.
        axes: in any order.
        source_align, target_align: bytes that the addresses are multiples of.
        pattern: an element's bytes as a number, where the target has elements that the source has not.
    """

    element: int
    axes: tuple[Axis, ...]
    source_align: int
    target_align: int
    pattern: int = 0


@dataclass(frozen=True, slots=True)
class Tuning:
    """What measurements choose (`python -m bench.gpu.relayout`).

    Attributes:
        tile: granules of a row and elements along j; chosen by the extents when left out.
        joins: whether rows, or short lines, that follow each other in the target make one; what measured best when
            left out.
    """

    tile: tuple[int, int] | None = None
    joins: bool | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """How a movement is carried out, legal or not.

    Attributes:
        granules: the kernel and what it is bound to.
        units: the largest number that it counts to. turns_padding: whether it turns what is padded, which none can.
    """

    granules: Granules
    units: int
    turns_padding: bool = False


def bound(question: Question) -> MovementCost:
    """Return the cost of a solution, which hangs on the bytes alone but for what breaks ties."""
    return granules_cost(question.access, question.views[0], (), question.target)


def solve(question: Question) -> Delivered | Conflict:
    """Return the kernel and its numbers, and what they cost."""
    access, target, operator = question.access, question.target, question.operator
    if broken := question.judged():
        return Conflict(broken)
    load, store = question.views
    size = access.word // 8
    sites = (
        load_site(load, access.word, "threads", size, operator),
        access_site(store, access.word, STORE, size, operator.target.address),
    )
    if broken := tuple(_judged(VECTOR_RULES, sites, target)):
        return Conflict(broken)
    way = way_of(_moved(question))
    granules, kernel = way.granules, way.granules.kernel
    shared = tuple(_shared(kernel))
    site = GranuleMove(kernel.axes, way.units, turned_padding=way.turns_padding)
    room = SharedStages(1, sum(tile.bytes for tile in shared), 0)
    if broken := (*_judged(GRANULE_RULES, (site,), target), *_judged(SHARED_RULES, (room,), target)):
        return Conflict(broken)
    copies = (
        VectorCopy("source", "cp.async" if shared else "ld.global", GRANULE),
        VectorCopy("target", STORE, GRANULE),
    )
    cost = granules_cost(access, load, kernel.buffers, target, (1.0, 1.0) if kernel.buffers else scattered(access))
    return Delivered(access, question.views, (), copies, (), "threads", shared, 1, cost, granules)


def _judged(rules: Iterable[Rule], sites: Iterable[Any], target: Target) -> Iterator[Diagnostic]:
    return (found for site in sites for rule in rules for found in rule.check(site, target) if found.level == "error")


def _shared(kernel: ShiftRows | TurnTile) -> Iterator[SharedTile]:
    """Yield the buffers of a block: a tile, and a table of where its rows begin."""
    if isinstance(kernel, TurnTile):
        words = (8 * kernel.element, 8 * ENTRY_BYTES)
        shapes = ((kernel.rows, kernel.granules * GRANULE // kernel.element), (kernel.buffers[-1] // ENTRY_BYTES,))
        for name, word, shape, size in zip(("source", "places"), words, shapes, kernel.buffers, strict=False):
            yield SharedTile(name, word, shape, "none", 0, size, LINE if name == "source" else GRANULE, 1, False)


def _moved(question: Question) -> Moved:
    """Return what a question asks for, in bytes."""
    operator, access = question.operator, question.access
    held = question.margins or ((0, mode.extent) for mode in access.modes)
    axes = tuple(
        Axis(mode.extent, mode.source // 8, mode.target // 8, *held_)
        for mode, held_ in zip(access.modes, held, strict=True)
    )
    source, target = (math.gcd(end.align, end.offset) for end in (operator.source, operator.target))
    return Moved(access.word // 8, axes, source, target, operator.pattern if operator.fills else 0)


def way_of(moved: Moved, tuning: Tuning | None = None) -> Way:
    """Return the kernel of a movement and its numbers."""
    tuning = tuning or Tuning()
    moved = _widened(_merged(moved))
    fast = [_fastest(moved, side) for side in ("source", "target")]
    if fast[0] is None or fast[1] is None or fast[0] == fast[1]:
        return _rows(moved, fast[1] if fast[0] == fast[1] else None, tuning)
    return _tiles(moved, fast[0], fast[1], tuning)


def _merged(moved: Moved) -> Moved:
    """Return a movement without axes of one element and with those merged that are contiguous on both sides."""
    axes: list[Axis] = []
    for axis in sorted((one for one in moved.axes if one.extent > 1), key=lambda one: (one.target, one.source)):
        last = axes[-1] if axes else None
        if (
            last is not None
            and not last.pads
            and axis.source == last.extent * last.source
            and axis.target == last.extent * last.target
        ):
            inner = last.extent
            axes[-1] = replace(last, extent=inner * axis.extent, first=inner * axis.first, count=inner * axis.count)
        else:
            axes.append(axis)
    return replace(moved, axes=tuple(axes))


def _widened(moved: Moved) -> Moved:
    """Return a movement of larger elements if a few contiguous ones on both sides make one."""
    axes = list(moved.axes)
    if not axes or axes[0].source != moved.element or axes[0].target != moved.element or axes[0].pads:
        return moved
    size = axes[0].extent * moved.element
    numbers = [moved.source_align, moved.target_align, *(n for axis in axes[1:] for n in (axis.source, axis.target))]
    if len(axes) < 3 or size not in EVEN_TILES or any(number % size for number in numbers):
        return moved
    pattern = int.from_bytes(moved.pattern.to_bytes(moved.element, "little") * axes[0].extent, "little")
    return replace(moved, element=size, axes=tuple(axes[1:]), pattern=pattern)


def _fastest(moved: Moved, side: str) -> Axis | None:
    return next((axis for axis in moved.axes if getattr(axis, side) == moved.element), None)


def _rows(moved: Moved, fast: Axis | None, tuning: Tuning) -> Way:
    inner = fast or Axis(1, moved.element, moved.element)
    outer = [axis for axis in moved.axes if axis != fast]
    length = inner.extent * moved.element
    source_length = (inner.count or inner.extent) * moved.element
    head = inner.first * moved.element
    fills = inner.pads or any(axis.pads for axis in outer)
    # Everything is a multiple of wider elements, too, where pitches and addresses allow it.
    numbers = [length, source_length, head, *(n for axis in outer for n in (axis.source, axis.target))]
    element = math.gcd(GRANULE, moved.source_align, moved.target_align, *numbers)
    joined: Axis | None = None
    if element < GRANULE <= length and not fills and outer and outer[0].target == length:
        span = max(length, outer[0].source) * outer[0].extent
        wanted = length <= JOINED_LENGTH or element >= JOINED_ELEMENT if tuning.joins is None else tuning.joins
        if wanted and span < SPAN_LIMIT - 2 * GRANULE:
            joined, outer = outer[0], outer[1:]
    bytes_ = length * (joined.extent if joined else 1)
    targets = math.gcd(moved.target_align, *(axis.target for axis in outer))
    beside = 0 if targets % GRANULE == 0 else GRANULE - math.gcd(GRANULE, targets)
    granules = -(-(bytes_ + beside) // GRANULE)
    units = granules * math.prod(axis.extent for axis in outer)
    kernel = ShiftRows(element, len(outer), fills, joined is not None)
    blocks, parts = -(-units // THREADS), granules
    of_row = -(-granules // THREADS)
    if of_row * THREADS <= ALONE * granules:
        kernel, blocks = replace(kernel, alone=True), of_row * (units // granules)
        units, parts = granules, of_row
    counted = max(units, blocks) + THREADS
    numbers = [bytes_, units, *divisor(parts), *_axis_numbers(outer)]
    if fills:
        # As the kernel has it, 8 bytes long; elements of 16 are 8 bytes twice, since no type is wider.
        repeated = moved.pattern.to_bytes(moved.element, "little") * (8 // min(8, moved.element))
        numbers += [head, source_length, int.from_bytes(repeated[:8], "little")]
        numbers += [axis.first if axis.pads else 0 for axis in outer]
        numbers += [axis.count if axis.pads else axis.extent for axis in outer]
    if joined:
        numbers += [*divisor(length), (joined.source - length) % 2**32]
    aligned = math.gcd(GRANULE, targets)  # granules are counted for rows that start so
    return Way(Granules(kernel, blocks, tuple(numbers), element, max(element, aligned)), counted)


def _runs(moved: Moved, i: Axis, j: Axis) -> tuple[list[Axis], list[Axis]]:
    """Return the axes that a tile's rows and lines run along, fastest first.

    A short run takes the axis that goes on where it ends.
    """
    runs = {"source": [i], "target": [j]}
    wanted = {"source": RUN_I, "target": RUN_J}
    free = [axis for axis in moved.axes if axis not in {i, j}]
    while True:
        ways = []
        for side, run in runs.items():
            length = moved.element * math.prod(axis.extent for axis in run)
            following = next((axis for axis in free if getattr(axis, side) == length), None)
            if following and length < wanted[side] and len(run) < MAX_RUN_AXES:
                ways.append((length / wanted[side], side, following))
        if not ways:
            return runs["source"], runs["target"]
        _, side, following = min(ways, key=lambda way: way[:2])
        runs[side].append(following)
        free.remove(following)


def _joinable(element: int, run_i: Sequence[Axis], run_j: Sequence[Axis]) -> bool:
    """Return whether lines follow each other in the target, none shorter than a granule."""
    if len(run_i) > 1 or len(run_j) > 1:
        return False
    length = run_j[0].extent * element
    return length >= GRANULE and run_i[0].target == length


def _tiles_of_lines(element: int, along_j: int) -> list[tuple[int, int]]:
    """Return tiles that whole lines fit into, with long rows if a few blocks have room beside each other."""
    tile_j = -(-along_j * element // LINE) * LINE // element
    return [(granules, tile_j) for granules in (32, 16) if granules * GRANULE * tile_j <= JOINED_BYTES][:1]


def _tiles(moved: Moved, i: Axis, j: Axis, tuning: Tuning) -> Way:
    run_i, run_j = _runs(moved, i, j)
    outer = [axis for axis in moved.axes if axis not in {*run_i, *run_j}]
    along_i, along_j = (math.prod(axis.extent for axis in run) for run in (run_i, run_j))
    sources = math.gcd(moved.source_align, *(axis.source for axis in (*run_j, *outer)))
    targets = math.gcd(moved.target_align, *(axis.target for axis in (*run_i, *outer)))
    straddles = sources % GRANULE != 0
    skewed = targets % SECTOR != 0
    joins = skewed and tuning.joins is not False and _joinable(moved.element, run_i, run_j)
    turns = straddles and skewed and turned_apart(moved.element, j.source, i.target)
    usual = (ODD_TILES if straddles or skewed else EVEN_TILES)[moved.element]
    if joins:
        usual = tuple(_tiles_of_lines(moved.element, along_j)) or usual

    def kernel_of(tile: tuple[int, int]) -> TurnTile:
        if joins and tile[1] >= along_j:
            return TurnTile(moved.element, len(outer), *tile, straddles, skewed=False, joins=True)
        return TurnTile(moved.element, len(outer), *tile, straddles, skewed, len(run_i), len(run_j), turns)

    def tiles_of(kernel: TurnTile) -> tuple[int, int]:
        return -(-along_i // kernel.tile_i), -(-along_j // kernel.tile_j)

    def idle(kernel: TurnTile) -> int:
        return math.prod(tiles_of(kernel)) * kernel.tile_i * kernel.tile_j

    batches = math.prod(axis.extent for axis in outer)
    kernels = [kernel_of(tile) for tile in ((tuning.tile,) if tuning.tile else usual)]
    fewest = min(map(idle, kernels))
    fitting = [one for one in kernels if idle(one) <= IDLE * fewest]
    kernel = next((one for one in fitting if math.prod(tiles_of(one)) * batches >= MANY), fitting[-1])
    tiles_i, tiles_j = tiles_of(kernel)
    blocks = tiles_i * tiles_j * batches
    counted = max(blocks, along_i + kernel.tile_i, along_j + 2 * kernel.tile_j)
    numbers = [along_i, along_j, *divisor(tiles_j), *divisor(tiles_i)]
    numbers += _axis_numbers((*run_i, *run_j, *outer))
    source_align = moved.element if straddles else GRANULE
    target_align = moved.element if skewed else SECTOR
    granules = Granules(kernel, blocks, tuple(numbers), source_align, target_align)
    return Way(granules, counted, turns_padding=any(axis.pads for axis in moved.axes))


def _axis_numbers(axes: Sequence[Axis]) -> list[int]:
    return [number for axis in axes for number in (*divisor(axis.extent), axis.source, axis.target)]


def divisor(number: int) -> tuple[int, int, int]:
    """Return what the kernels divide by `number` with: the number, a multiplier and a shift.

    For 0 <= x < 2^31, x // number is the high half of x * multiplier, shifted right; a multiplier of 0 stands for 1.
    The product's error is below x / 2^(31 + s), less than what would carry it over a whole number.
    """
    if number == 1:
        return 1, 0, 0
    bits = (number - 1).bit_length()
    return number, -(-(1 << 31 + bits) // number), bits - 1


def turned_apart(element: int, source_pitch: int, target_pitch: int) -> bool:
    """Return whether lines of a tile hit fewer banks at once if each begins at another element of a granule.

    The four lines that a warp reads one element of each lie `1 - source_pitch * target_pitch` elements further from
    line to line, modulo a granule, where windows reach back by what a line begins behind a sector.

    Args:
        element: bytes.
        source_pitch: bytes from row to row.
        target_pitch: bytes from line to line.
    """
    per_granule, rows = GRANULE // element, source_pitch // element
    if per_granule == 1:
        return False
    step = 1 - rows * (target_pitch // element)
    lines, turn = (2, 1) if element == 8 else (4, max(1, 4 // element))

    def hits(step: int) -> int:
        words = [line * step % per_granule * element // 4 for line in range(lines)]
        return max(map(words.count, words))

    return hits(step + turn * rows) < hits(step)


def check(plan: MovementPlan, question: Question) -> None:
    """Choose the kernel of a movement by granules again, and bind it: nothing about it is solved."""
    found = solve(question)
    if isinstance(found, Conflict):
        refuse(found.diagnostics)
    elif found.granules is None or (
        replace(found.granules, beside=plan.beside),
        found.copies,
        found.shared,
        found.tensor_maps,
        found.phases,
    ) != (plan.granules, plan.copies, plan.shared, plan.tensor_maps, plan.phases):
        raise InvalidPlan("kernel or its numbers are not those of the movement; synthesise the plan again")
    elif plan.launch != granules_launch(found.granules) or plan.pipeline != granules_pipeline(
        found.granules.kernel, beside=plan.beside
    ):
        raise InvalidPlan("launch or steps are not those of the kernel; synthesise the plan again")
    require_contract(plan.pipeline, plan.target)

"""Which kernel carries a relayout out, and with what arguments: any permutation of axes with any strides, and padding.

Axes that are contiguous on both sides become one; what is left says which kernel it takes: rows where the same axis
runs fastest on both sides, tiles where not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from legalsat.backends.cute.relayout_kernels import (
    GRANULE,
    LINE,
    SECTOR,
    SPAN_LIMIT,
    THREADS,
    RelayoutKernel,
    RowsKernel,
    TransposeKernel,
    divisor,
    emit,
    turned_apart,
)
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.runtime.program import AddressArgument, Argument, NumberArgument, Recipe
from legalsat.tensor import Tensor, plain

MAX_AXES = 5  # besides those that run fastest
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
    """An axis of a relayout.

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
class Movement:
    """A relayout in bytes.

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
class Launch:
    """A kernel and what it is launched with.

    Attributes:
        kernel: which.
        blocks: of the grid. shared: bytes of shared memory of each.
        numbers: the arguments behind the two addresses.
        source_align, target_align: bytes that the addresses must be multiples of.
    """

    kernel: RelayoutKernel
    blocks: int
    shared: int
    numbers: tuple[int, ...]
    source_align: int
    target_align: int

    def recipe(self, source: str = "source", target: str = "target") -> Recipe:
        """Return how it is launched on operands of these names."""
        named = zip(self.kernel.parameters[2:], self.numbers, strict=True)
        arguments: list[Argument] = [AddressArgument(source), AddressArgument(target)]
        arguments += [NumberArgument(value, kind) for (kind, _), value in named]
        return Recipe(self.kernel.entry, (self.blocks, 1, 1), 256, self.shared, tuple(arguments))


def movement(
    element: int,
    extents: Sequence[int],
    source_strides: Sequence[int],
    target_strides: Sequence[int],
    *,
    source_align: int = 0,
    target_align: int = 0,
) -> Movement:
    """Return a relayout whose two sides have the same axes.

    Args:
        element: bytes of an element.
        extents: elements along each axis.
        source_strides: elements between neighbours in the source.
        target_strides: the same in the target.
        source_align: bytes that the source's address is a multiple of; an element's when left out.
        target_align: the same of the target's.

    Raises:
        InvalidInput: elements are of a size that no kernel moves.
    """
    if element not in EVEN_TILES:
        raise InvalidInput(f"element has {element} bytes; give one of 1, 2, 4, 8 or 16")
    axes = [Axis(n, s * element, t * element) for n, s, t in zip(extents, source_strides, target_strides, strict=True)]
    return Movement(element, tuple(axes), source_align or element, target_align or element)


def launch_of(moved: Movement, tuning: Tuning | None = None) -> Launch:
    """Return the kernel of a relayout and its arguments.

    Raises:
        LegalSatError: it has more axes, or longer ones, than the kernels count.
    """
    tuning = tuning or Tuning()
    moved = _widened(_merged(moved))
    fast = [_fastest(moved, side) for side in ("source", "target")]
    if fast[0] is None or fast[1] is None or fast[0] == fast[1]:
        return _rows(moved, fast[1] if fast[0] == fast[1] else None, tuning)
    if any(axis.pads for axis in moved.axes):
        raise LegalSatError("cute pads where the same axis runs fastest on both sides; transpose first, then pad")
    return _tiles(moved, fast[0], fast[1], tuning)


def _merged(moved: Movement) -> Movement:
    """Return a relayout without axes of one element and with those merged that are contiguous on both sides."""
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


def _widened(moved: Movement) -> Movement:
    """Return a relayout of larger elements if a few contiguous ones on both sides make one."""
    axes = list(moved.axes)
    if not axes or axes[0].source != moved.element or axes[0].target != moved.element or axes[0].pads:
        return moved
    size = axes[0].extent * moved.element
    numbers = [moved.source_align, moved.target_align, *(n for axis in axes[1:] for n in (axis.source, axis.target))]
    if len(axes) < 3 or size not in EVEN_TILES or any(number % size for number in numbers):
        return moved
    pattern = int.from_bytes(moved.pattern.to_bytes(moved.element, "little") * axes[0].extent, "little")
    return replace(moved, element=size, axes=tuple(axes[1:]), pattern=pattern)


def _fastest(moved: Movement, side: str) -> Axis | None:
    return next((axis for axis in moved.axes if getattr(axis, side) == moved.element), None)


def _outer(moved: Movement, inner: Sequence[Axis | None]) -> list[Axis]:
    axes = [axis for axis in moved.axes if axis not in inner]
    if len(axes) > MAX_AXES:
        raise LegalSatError(f"relayout has {len(axes)} axes besides the fastest; give at most {MAX_AXES}")
    return axes


def _rows(moved: Movement, fast: Axis | None, tuning: Tuning) -> Launch:
    inner = fast or Axis(1, moved.element, moved.element)
    outer = _outer(moved, (fast,))
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
    kernel = RowsKernel(element, len(outer), fills, joined is not None)
    blocks, parts = -(-units // THREADS), granules
    of_row = -(-granules // THREADS)
    if of_row * THREADS <= ALONE * granules:
        kernel, blocks = replace(kernel, alone=True), of_row * (units // granules)
        units, parts = granules, of_row
    _require_countable(max(units, blocks) + THREADS)
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
    return Launch(kernel, blocks, 0, tuple(numbers), element, max(element, aligned))


def _runs(moved: Movement, i: Axis, j: Axis) -> tuple[list[Axis], list[Axis]]:
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


def _tiles(moved: Movement, i: Axis, j: Axis, tuning: Tuning) -> Launch:
    run_i, run_j = _runs(moved, i, j)
    outer = _outer(moved, (*run_i, *run_j))
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

    def kernel_of(tile: tuple[int, int]) -> TransposeKernel:
        if joins and tile[1] >= along_j:
            return TransposeKernel(moved.element, len(outer), *tile, straddles, skewed=False, joins=True)
        return TransposeKernel(moved.element, len(outer), *tile, straddles, skewed, len(run_i), len(run_j), turns)

    def tiles_of(kernel: TransposeKernel) -> tuple[int, int]:
        return -(-along_i // kernel.tile_i), -(-along_j // kernel.tile_j)

    def idle(kernel: TransposeKernel) -> int:
        return math.prod(tiles_of(kernel)) * kernel.tile_i * kernel.tile_j

    batches = math.prod(axis.extent for axis in outer)
    kernels = [kernel_of(tile) for tile in ((tuning.tile,) if tuning.tile else usual)]
    fewest = min(map(idle, kernels))
    fitting = [one for one in kernels if idle(one) <= IDLE * fewest]
    kernel = next((one for one in fitting if math.prod(tiles_of(one)) * batches >= MANY), fitting[-1])
    tiles_i, tiles_j = tiles_of(kernel)
    blocks = tiles_i * tiles_j * batches
    _require_countable(max(blocks, along_i + kernel.tile_i, along_j + 2 * kernel.tile_j))
    numbers = [along_i, along_j, *divisor(tiles_j), *divisor(tiles_i)]
    numbers += _axis_numbers((*run_i, *run_j, *outer))
    source_align = moved.element if straddles else GRANULE
    target_align = moved.element if skewed else SECTOR
    return Launch(kernel, blocks, kernel.shared_bytes, tuple(numbers), source_align, target_align)


def _axis_numbers(axes: Sequence[Axis]) -> list[int]:
    return [number for axis in axes for number in (*divisor(axis.extent), axis.source, axis.target)]


def _require_countable(count: int) -> None:
    if count >= SPAN_LIMIT:
        raise LegalSatError(f"relayout has {count} units of work, and the kernel counts to 2^31; split it in two")


def matrix_relayout(tensor: Tensor, first: str, source: str, target: str, pitch: int) -> tuple[str, Recipe]:
    """Return the text of a kernel that lays a matrix out anew, and how it is launched.

    Args:
        tensor: of two axes, one of which is contiguous.
        first: "pad", which keeps the axis that runs fastest, or "transpose", which makes it the other.
        source: the operand's name.
        target: the name of what is written.
        pitch: bytes from line to line of what is written, whose address is a multiple of 256; what lies between a
            line's end and the next one's start is not written.

    Raises:
        LegalSatError: as `launch_of`.
    """
    size = tensor.dtype.bits // 8
    (rows, columns), strides = plain(tensor.shape), plain(tensor.strides)
    by_rows = strides[1] == 1 or columns == 1
    steps = (pitch // size, 1) if by_rows == (first == "pad") else (1, pitch // size)
    align = math.gcd(tensor.align, tensor.offset or tensor.align)
    moved = movement(size, (rows, columns), strides, steps, source_align=align, target_align=min(256, pitch & -pitch))
    launch = launch_of(moved)
    return emit(launch.kernel), launch.recipe(source, target)

"""Prints a plan by threads as a standalone Triton module: masked loads and stores in vectors, no copy engine.

The kernel is plain Triton, which runs on every GPU that Triton knows; it gives each thread neighbours along a side's
fastest dimension, and turns tiles in shared memory where the sides differ. What the plan says of vectors is told it by
hints of divisibility: exactly so wide are the instructions, where a tile has a vector for each thread at least.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import indent

from legalsat.backends.triton.kernel import INT32_MAX, Operand
from legalsat.backends.triton.text import RUN_CHECKS, around, copied, mode_table
from legalsat.backends.triton.tiled import Tiled
from legalsat.checks import integer, integers
from legalsat.errors import InvalidInput
from legalsat.program.pipeline import Read, Sync, Vectors, Write
from legalsat.view.margins import Margin

KERNEL = "move_tiles"
# Operations of programs that the text carries out: vectors by instructions of its own; what lies between them, where
# words are turned, Triton adds to a change of layout, with a buffer of its own.
VECTOR_ROWS = frozenset({Vectors, Write, Sync, Read})
WORD_BITS = (8, 16, 32, 64)


@dataclass(frozen=True)
class Side:
    """How one side sees the modes.

    Attributes:
        groups: dimensions, slowest first, each a tuple of modes, slowest first, as in `CopyKernel`.
        stride: words between neighbours of every mode.
        bytes: what an instruction moves.
    """

    groups: tuple[tuple[int, ...], ...]
    stride: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class VectorKernel(Tiled):
    """One kernel that threads carry out, as `CopyKernel` is one of the copy engine's.

    Attributes:
        source, target: the tensors that the emitted `run` reads and writes.
        word_bits: 8, 16, 32 or 64.
        extent: words of every joint mode.
        tile: words of every joint mode that one tile spans; powers of two, may overhang the extent.
        load, store: how either side sees the modes.
        warps: warps of one program.
        margins: which words of every joint mode the source has, where it has not all of them.
        fill: the bits of a word that is written where the source has none.

    Raises:
        InvalidInput: Triton has no kernel of these numbers; the message names the one at fault.
    """

    source: Operand
    target: Operand
    word_bits: int
    extent: tuple[int, ...]
    tile: tuple[int, ...]
    load: Side
    store: Side
    warps: int
    margins: tuple[Margin, ...] = ()
    fill: int = 0

    def __post_init__(self) -> None:
        if integer(self.word_bits, "word_bits") not in WORD_BITS:
            raise InvalidInput(f"word_bits is {self.word_bits}; give 8, 16, 32 or 64")
        for mode, tile in enumerate(integers(self.tile, "tile", low=1, length=len(self.extent))):
            if tile & (tile - 1):
                raise InvalidInput(f"tile[{mode}] is {tile}; give a power of two, which may overhang the extent")
        if math.prod(self.tiles) > INT32_MAX:
            raise InvalidInput(f"{math.prod(self.tiles)} tiles overflow 32 bits; widen the tile")

    def vector(self, side: Side) -> int:
        """Words that one instruction moves."""
        return 8 * side.bytes // self.word_bits

    def dimensions(self, side: Side) -> list[tuple[int, ...]]:
        """The dimensions of a side along which a tile has several words, slowest first; the fastest if none has."""
        spread = [group for group in side.groups if self.words(group) > 1]
        return spread or [side.groups[-1]]

    def words(self, group: Sequence[int]) -> int:
        """Words of a tile along one dimension."""
        return math.prod(self.tile[mode] for mode in group)

    def words_of(self, group: Sequence[int]) -> int:
        """Words of the tensor along one dimension."""
        return math.prod(self.extent[mode] for mode in group)

    def spread(self, side: Side) -> list[int]:
        """Modes along which a tile has several words, as the side lists them, slowest first."""
        return [mode for group in side.groups for mode in group if self.tile[mode] > 1]

    def far(self, side: Side) -> bool:
        """Whether 32 bits do not number a side's words; tiles may overhang it."""
        reach = sum((n * t - 1) * d for n, t, d in zip(self.tiles, self.tile, side.stride, strict=True))
        ends = [n * t for n, t in zip(self.tiles, self.tile, strict=True)] + [self.words_of(g) for g in side.groups]
        return max(reach, *ends) > INT32_MAX


def emit_threads(kernel: VectorKernel) -> str:
    """The source text of a module that needs only triton, and torch inside `run`.

    The text depends on nothing but `kernel`. The module's `run(source, target=None)` returns the target.
    """
    return "\n\n".join((f"{_docstring(kernel)}\n{_constants(kernel)}", _function(kernel), RUN_CHECKS, _run(kernel)))


def _docstring(kernel: VectorKernel) -> str:
    tile_bytes = math.prod(kernel.tile) * kernel.word_bits // 8
    order = [mode for group in kernel.load.groups for mode in group]
    columns = (kernel.extent, kernel.tile, kernel.load.stride, kernel.store.stride)
    table = mode_table(order, *columns, *((kernel.before, kernel.source_extent) if kernel.pads else ()))
    return "\n".join(
        (
            f'"""{copied(kernel.source, kernel.target)} by threads.',
            "",
            f"Loads move {kernel.load.bytes} bytes at a time and stores {kernel.store.bytes}, or what a small tile has",
            "for each thread. Any GPU has the instructions.",
            f"{math.prod(kernel.tiles)} tiles of {tile_bytes} bytes, one program per tile of {kernel.warps} warps.",
            "",
            f"Modes in words of {kernel.word_bits} bits, slowest in the source first:",
            "",
            *table,
            '"""',
            "",
            "from __future__ import annotations",
            "",
            "import triton",
            "import triton.language as tl",
            "",
        )
    )


def _constants(kernel: VectorKernel) -> str:
    return (
        f"SOURCE_SHAPE, SOURCE_STRIDE = {kernel.source.shape}, {kernel.source.stride}\n"
        f"TARGET_SHAPE, TARGET_STRIDE = {kernel.target.shape}, {kernel.target.stride}\n"
        f"ELEMENT_BYTES = {kernel.source.element_bytes}\n"
        f"SOURCE_ALIGN, TARGET_ALIGN = {kernel.load.bytes}, {kernel.store.bytes}\n\n"
        f"WARPS = {kernel.warps}\nTILES = {math.prod(kernel.tiles)}\n"
    )


def _function(kernel: VectorKernel) -> str:
    load, store = kernel.load, kernel.store
    apart = kernel.dimensions(load) != kernel.dimensions(store)
    there, inside = _conditions(kernel, load, padded=kernel.pads), _conditions(kernel, store, padded=False)
    lead = sum(n * d for n, d in zip(kernel.before, load.stride, strict=True))
    lines = [*_corner(kernel), *_places(kernel, load), *_inside(there), _offset(kernel, load, lead)]
    other = f", other={_signed(kernel.fill, kernel.word_bits)}" if there and kernel.pads else ""
    lines.append(f"words = tl.load({_pointers(kernel, load, 'source')}{_mask(there)}{other})")
    lines += _reordered(kernel)
    lines += _places(kernel, store) if apart else []
    lines += _inside(inside) if apart or kernel.pads else []
    lines.append(_offset(kernel, store))
    lines.append(f"tl.store({_pointers(kernel, store, 'target')}, words{_mask(inside)})")
    return f"@triton.jit\ndef {KERNEL}(source, target):\n{indent(chr(10).join(lines), '    ')}\n"


def _corner(kernel: VectorKernel) -> list[str]:
    """Lines that turn a program's number into the first index of its tile in every mode that has several."""
    order = [m for group in reversed(kernel.load.groups) for m in reversed(group) if kernel.tiles[m] > 1]
    if not order:
        return []
    wide = ".to(tl.int64)" if kernel.far(kernel.load) or kernel.far(kernel.store) else ""
    lines = [f"tile = tl.program_id(0){wide}"]
    for mode in order[:-1]:
        lines += [f"first{mode} = {_times(f'tile % {kernel.tiles[mode]}', kernel.tile[mode])}"]
        lines += [f"tile = tile // {kernel.tiles[mode]}"]
    return [*lines, f"first{order[-1]} = {_times('tile', kernel.tile[order[-1]])}"]


def _places(kernel: VectorKernel, side: Side) -> list[str]:
    """Lines that number a tile's words along each dimension of a side."""
    dimensions = kernel.dimensions(side)
    lines = []
    for axis, group in enumerate(dimensions):
        spread = ", ".join(":" if other == axis else "None" for other in range(len(dimensions)))
        lines.append(f"at{axis} = tl.arange(0, {kernel.words(group)})" + (f"[{spread}]" if len(dimensions) > 1 else ""))
    return lines


def _conditions(kernel: VectorKernel, side: Side, *, padded: bool) -> list[str]:
    """What says of a tile's words which lie in the tensor; of a `padded` source, which it has."""
    dimensions = kernel.dimensions(side)
    found = []
    for group in side.groups:
        at = f"at{dimensions.index(group)}" if group in dimensions else ""
        # Modes behind the first of a group are whole, so the first alone moves.
        scale = kernel.words_of(group[1:])
        first = _times(f"first{group[0]}", scale) if kernel.tiles[group[0]] > 1 else ""
        # Those of a padded mode are no group.
        low = kernel.before[group[0]] if padded else 0
        high = low + kernel.source_extent[group[0]] * scale if padded else kernel.words_of(group)
        less = f" - {first}" if at and first else ""
        if low > 0:
            found.append(f"({at or first} >= {low}{less})")
        if high < kernel.tiles[group[0]] * kernel.words(group):
            found.append(f"({at or first} < {high}{less})")
    return found


def _inside(conditions: Sequence[str]) -> list[str]:
    return [f"inside = {' & '.join(conditions)}"] if conditions else []


def _mask(conditions: Sequence[str]) -> str:
    return ", mask=inside" if conditions else ""


def _signed(word: int, bits: int) -> int:
    """The number that a word's bits are, as Triton's words are signed."""
    return word - (1 << bits) if word >> (bits - 1) else word


def _offset(kernel: VectorKernel, side: Side, lead: int = 0) -> str:
    """The line that says where on a side a tile's words lie, each vector's first at a multiple of the vector.

    Of a padding, the corner lies `lead` words in front of the source.
    """
    reach = sum((t - 1) * d for t, d in zip(kernel.tile, side.stride, strict=True))
    wide = ".to(tl.int64)" if reach > INT32_MAX else ""
    dimensions = kernel.dimensions(side)
    terms = [_times(f"at{axis}{wide}", side.stride[group[-1]]) for axis, group in enumerate(dimensions)]
    moving = [m for m in range(len(kernel.tiles)) if kernel.tiles[m] > 1 and side.stride[m]]
    first = " + ".join(_times(f"first{m}", side.stride[m]) for m in moving)
    total = f"({first}) + ({' + '.join(terms)})" if first else " + ".join(terms)
    total += f" - {lead}" if lead else ""
    return f"offset = tl.multiple_of({total}, {[1] * (len(dimensions) - 1) + [kernel.vector(side)]})"


def _pointers(kernel: VectorKernel, side: Side, base: str) -> str:
    """The addresses of a tile's words, and of how many bytes those of each vector's first are multiples."""
    hint = [kernel.word_bits // 8] * (len(kernel.dimensions(side)) - 1) + [side.bytes]
    return f"tl.multiple_of({base} + offset, {hint})"


def _times(name: str, factor: int) -> str:
    return name if factor == 1 else f"{name} * {factor}"


def _reordered(kernel: VectorKernel) -> list[str]:
    """Lines that bring a tile's words from the order of the load's dimensions into that of the store's."""
    source, target = kernel.spread(kernel.load), kernel.spread(kernel.store)
    shape = [kernel.words(group) for group in kernel.dimensions(kernel.load)]
    wanted = [kernel.words(group) for group in kernel.dimensions(kernel.store)]
    lines = []
    if source != target:
        if (modes := [kernel.tile[m] for m in source]) != shape:
            lines.append(f"words = words.reshape({modes})")
        lines.append(f"words = words.permute({[source.index(m) for m in target]})")
        shape = [kernel.tile[m] for m in target]
    if shape != wanted:
        lines.append(f"words = words.reshape({wanted})")
    return lines


def _run(kernel: VectorKernel) -> str:
    word = f"torch.int{kernel.word_bits}"
    said = around(kernel.fill if kernel.pads else None)
    return f'''\
def run(source, target=None):
    """Copy `source` into `target`, a new tensor if none is given, on the current stream; return the target.

    The tensors must not overlap. A ValueError says what does not fit this kernel.{said}
    """
    import torch

    _check("source", source, SOURCE_SHAPE, SOURCE_STRIDE, SOURCE_ALIGN)
    if target is None:
        target = torch.empty_strided(TARGET_SHAPE, TARGET_STRIDE, dtype=source.dtype, device=source.device)
    _check("target", target, TARGET_SHAPE, TARGET_STRIDE, TARGET_ALIGN)
    if target.device != source.device:
        raise ValueError(f"source is on {{source.device}}, target on {{target.device}}; use one device")
    # The kernel sees the first word's address and type; shapes and strides are in its text.
    source_words = source.as_strided((1,), (1,)).view({word})
    target_words = target.as_strided((1,), (1,)).view({word})
    with torch.cuda.device(source.device):
        {KERNEL}[(TILES,)](source_words, target_words, num_warps=WARPS)
    return target
'''

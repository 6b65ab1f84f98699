"""What a generated Triton kernel is told: the tensors as raw words, the tile, the two tensor maps, the ring.

A `CopyKernel` moves a tensor tile by tile from one order of its modes to another. It decides nothing: every number
comes from the caller, and one that no legal kernel can use is refused here, before any text is written. Units are
words of `word_bits` bits; an element wider than a word is an extra innermost mode of several words.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from legalsat.backends.triton.tiled import Tiled
from legalsat.checks import integer, integers
from legalsat.errors import InvalidInput
from legalsat.plans.plan import Launch
from legalsat.printable import shown
from legalsat.program.pipeline import Operation, Pipeline
from legalsat.targets import GRANULE_BYTES, MAX_BOX_EXTENT, MAX_RANK
from legalsat.view.margins import Margin

SHARED_LIMIT = 227 * 1024
"""Bytes of shared memory that one CTA of sm_90 can have (CUDA programming guide, compute capabilities)."""

SWIZZLES = (0, 32, 64, 128)
INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class Operand:
    """A tensor as the caller of the emitted `run` holds it: shape and strides in elements, bytes of one element."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    element_bytes: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", integers(self.shape, "operand shape", low=1))
        object.__setattr__(self, "stride", integers(self.stride, "operand stride", low=0, length=len(self.shape)))
        object.__setattr__(self, "element_bytes", integer(self.element_bytes, "element_bytes", low=1, high=16))

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.element_bytes

    @property
    def span(self) -> int:
        """Bytes from the first byte of the first element to the last byte of the last."""
        steps = sum((n - 1) * d for n, d in zip(self.shape, self.stride, strict=True))
        return (steps + 1) * self.element_bytes


@dataclass(frozen=True)
class TensorMapShape:
    """One side's tensor map, slowest dimension first: extents, strides in words, block, and the box of one copy."""

    extent: tuple[int, ...]
    stride: tuple[int, ...]
    block: tuple[int, ...]
    box: tuple[int, ...]


@dataclass(frozen=True)
class CopyKernel(Tiled):
    """One kernel that copies `source` into `target`, word by word, through the tensor copy engine.

    Attributes:
        source: the tensor that the emitted `run` reads.
        target: the tensor that it writes.
        word_bits: 8, 16 or 32.
        extent: words of every joint mode.
        tile: words of every joint mode that one tile spans; powers of two, may overhang the extent.
        source_stride: words between neighbours of every joint mode in the source.
        target_stride: likewise in the target.
        source_groups: the dimensions of the load's tensor map, slowest first, each a tuple of joint modes, slowest
            first. The modes of one group lie one after another in memory, and all but the slowest are one tile wide.
        target_groups: likewise for the store; None stores from registers with plain instructions, for a target
            that no tensor map can describe. Equal to `source_groups`, no register is touched.
        swizzle_source: span in bytes of the load's shared swizzle: 0, 32, 64 or 128.
        swizzle_target: likewise for the store's staging buffer; not used without `target_groups`.
        program: what a CTA does, which `emit` prints.
        launch: warps of one CTA; CTAs of a persistent grid, or 0 for one CTA per tile; in what order tiles are counted.
        margins: which words of every joint mode the source has, where it has not all of them; around these the copy
            engine fills in zeros.
        notes: lines of the text's docstring, which say what is issued.

    Raises:
        InvalidInput: no legal kernel has these numbers; the message names the one at fault.
    """

    source: Operand
    target: Operand
    word_bits: int
    extent: tuple[int, ...]
    tile: tuple[int, ...]
    source_stride: tuple[int, ...]
    target_stride: tuple[int, ...]
    source_groups: tuple[tuple[int, ...], ...]
    target_groups: tuple[tuple[int, ...], ...] | None
    swizzle_source: int
    program: Pipeline
    launch: Launch
    swizzle_target: int = 0
    margins: tuple[Margin, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_numbers(self)
        _check_operands(self)
        _check_groups(self, self.source_groups, self.source_stride, self.swizzle_source, "source")
        _check_margins(self)
        if self.target_groups is not None:
            _check_groups(self, self.target_groups, self.target_stride, self.swizzle_target, "target")
            _check_store(self)
        _check_resources(self)

    @property
    def word_bytes(self) -> int:
        """Bytes of one word."""
        return self.word_bits // 8

    @property
    def body(self) -> tuple[Operation, ...]:
        """The operations of a CTA."""
        return self.program.roles[0].body

    @property
    def warps(self) -> int:
        """Warps of one CTA."""
        return self.launch.warps

    @property
    def programs(self) -> int:
        """CTAs of a persistent grid; 0 for one CTA per tile."""
        programs: int = self.launch.programs
        return programs

    @property
    def grid(self) -> tuple[tuple[int, int], ...]:
        """Modes of several tiles, and how many, fastest first."""
        return self.launch.grid

    @property
    def direct(self) -> bool:
        """Whether the store reads the very buffer that the load wrote."""
        return self.target_groups == self.source_groups

    @property
    def tile_words(self) -> int:
        """Words of one tile."""
        return math.prod(self.tile)

    @property
    def tile_bytes(self) -> int:
        """Bytes of one tile, which are the bytes that the load's barrier counts."""
        return self.tile_words * self.word_bytes

    @property
    def source_order(self) -> tuple[int, ...]:
        """Joint modes as the source's map lists them, slowest first."""
        return tuple(itertools.chain(*self.source_groups))

    @property
    def target_order(self) -> tuple[int, ...]:
        """Joint modes as the target's map lists them, or by falling target stride where it has none."""
        if self.target_groups is not None:
            return tuple(itertools.chain(*self.target_groups))
        return tuple(sorted(self.source_order, key=lambda m: (-self.target_stride[m], -self.extent[m])))

    @property
    def load_map(self) -> TensorMapShape:
        """The load's tensor map."""
        return self._map(self.source_groups, self.source_extent, self.source_stride, self.swizzle_source)

    @property
    def store_map(self) -> TensorMapShape | None:
        """The store's tensor map, or None for a plain store."""
        if self.target_groups is None:
            return None
        return self._map(self.target_groups, self.extent, self.target_stride, self.swizzle_target)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of one CTA in bytes at most: its buffers and barriers, and what a plain store reorders in."""
        buffers = sum(ring.stages * ring.bytes for ring in self.program.buffers if not ring.overlays)
        reordered = self.tile_bytes if self.target_groups is None and self.programs else 0
        return buffers + reordered + 8 * self.program.stages

    def _map(
        self, groups: Sequence[Sequence[int]], extent: Sequence[int], stride: Sequence[int], swizzle: int
    ) -> TensorMapShape:
        block = tuple(math.prod(self.tile[m] for m in group) for group in groups)
        inner = swizzle // self.word_bytes if swizzle else MAX_BOX_EXTENT
        return TensorMapShape(
            extent=tuple(math.prod(extent[m] for m in group) for group in groups),
            stride=tuple(stride[group[-1]] for group in groups),
            block=block,
            box=(*(min(n, MAX_BOX_EXTENT) for n in block[:-1]), min(block[-1], inner)),
        )


def _check_numbers(kernel: CopyKernel) -> None:
    if integer(kernel.word_bits, "word_bits") not in {8, 16, 32}:
        raise InvalidInput(f"word_bits is {kernel.word_bits}; give 8, 16 or 32, and wider elements as several words")
    rank = len(integers(kernel.extent, "extent", low=1))
    if rank == 0:
        raise InvalidInput("extent is empty; give at least one mode")
    for mode, tile in enumerate(integers(kernel.tile, "tile", low=1, length=rank)):
        if tile & (tile - 1):
            raise InvalidInput(f"tile[{mode}] is {tile}; give a power of two, which may overhang the extent")
    for mode, (before, held) in enumerate(kernel.margins):
        if len(kernel.margins) != rank or before < 0 or not 0 < held <= kernel.extent[mode] - before:
            raise InvalidInput(f"margins are {kernel.margins}; give one for each of the extents {kernel.extent}")
    integers(kernel.source_stride, "source_stride", low=0, length=rank)
    integers(kernel.target_stride, "target_stride", low=0, length=rank)
    for mode in range(rank):
        if kernel.target_stride[mode] == 0 and kernel.extent[mode] > 1:
            raise InvalidInput(
                f"target_stride[{mode}] is 0 over {kernel.extent[mode]} words; give every word its place"
            )
    for name in ("swizzle_source", "swizzle_target"):
        if integer(getattr(kernel, name), name) not in SWIZZLES:
            raise InvalidInput(f"{name} is {getattr(kernel, name)} bytes; give 0, 32, 64 or 128")
    if integer(kernel.warps, "warps", low=1) not in {1, 2, 4, 8, 16}:
        raise InvalidInput(f"warps is {kernel.warps}; give 1, 2, 4, 8 or 16")
    integer(kernel.programs, "programs", low=0, high=INT32_MAX)


def _check_operands(kernel: CopyKernel) -> None:
    for name, operand, extents, strides in (
        ("source", kernel.source, kernel.source_extent, kernel.source_stride),
        ("target", kernel.target, kernel.extent, kernel.target_stride),
    ):
        if not isinstance(operand, Operand):
            raise InvalidInput(f"{name} is {shown(operand)}; give an Operand")
        if operand.element_bytes % kernel.word_bytes:
            raise InvalidInput(
                f"{name} has elements of {operand.element_bytes} bytes, no multiple of the word's {kernel.word_bytes}"
            )
        words = math.prod(extents)
        span = sum((n - 1) * d for n, d in zip(extents, strides, strict=True)) + 1
        held, reach = words * kernel.word_bytes, span * kernel.word_bytes
        # What is not padded may leave some of its source out; all of the target is written.
        whole = name == "target" or bool(kernel.margins)
        if reach > operand.span or (whole and (operand.bytes, operand.span) != (held, reach)):
            raise InvalidInput(
                f"the modes hold {held} bytes over {reach}, the {name} tensor {operand.bytes} over {operand.span}; "
                "describe the same memory with both"
            )
    if kernel.source.element_bytes != kernel.target.element_bytes:
        raise InvalidInput(
            f"source elements have {kernel.source.element_bytes} bytes, target elements {kernel.target.element_bytes}; "
            "give one element size"
        )


def _check_groups(
    kernel: CopyKernel, groups: tuple[tuple[int, ...], ...], stride: Sequence[int], swizzle: int, side: str
) -> None:
    what = f"{side}_groups"
    if not isinstance(groups, tuple) or not all(isinstance(group, tuple) and group for group in groups):
        raise InvalidInput(f"{what} is {shown(groups)}; give a tuple of non-empty tuples of modes")
    rank = len(kernel.extent)
    modes = integers(tuple(itertools.chain(*groups)), what, low=0)
    if sorted(modes) != list(range(rank)):
        raise InvalidInput(f"{what} lists the modes {modes}; list each of 0 to {rank - 1} once")
    if len(groups) > MAX_RANK:
        raise InvalidInput(f"{what} has {len(groups)} dimensions, a tensor map at most {MAX_RANK}; merge some")
    for slow, fast in itertools.chain.from_iterable(itertools.pairwise(group) for group in groups):
        if stride[slow] != stride[fast] * kernel.extent[fast]:
            raise InvalidInput(
                f"{what} merges modes {slow} and {fast}, but {side}_stride[{slow}] is {stride[slow]} words, not "
                f"{stride[fast]} x {kernel.extent[fast]}; keep them apart"
            )
        if kernel.tile[fast] != kernel.extent[fast]:
            raise InvalidInput(
                f"{what} merges mode {fast} behind mode {slow}, but its tile is {kernel.tile[fast]} of "
                f"{kernel.extent[fast]} words; give it the whole extent as tile"
            )
    inner = groups[-1][-1]
    if stride[inner] != 1:
        raise InvalidInput(f"{side}_stride[{inner}] is {stride[inner]} words; the innermost mode of a map has 1")
    extent = kernel.source_extent if side == "source" else kernel.extent
    _check_map(kernel, kernel._map(groups, extent, stride, swizzle), swizzle, side)


def _check_margins(kernel: CopyKernel) -> None:
    for group in kernel.source_groups:
        if len(group) > 1 and any(kernel.source_extent[m] != kernel.extent[m] for m in group):
            raise InvalidInput(f"source_groups merges modes {group}, of which one is padded; keep that apart")
    first = kernel.before[kernel.source_groups[-1][0]] * kernel.word_bytes
    if first % GRANULE_BYTES:
        raise InvalidInput(
            f"source rows begin behind {first} bytes of padding; give a multiple of {GRANULE_BYTES}, as boxes need"
        )


def _check_map(kernel: CopyKernel, shape: TensorMapShape, swizzle: int, side: str) -> None:
    word = kernel.word_bytes
    for stride in shape.stride[:-1]:
        if stride * word % 16 or stride * word >= 2**40:
            raise InvalidInput(f"{side} map has a stride of {stride * word} bytes; give a multiple of 16 below 2^40")
    if max(shape.extent) > INT32_MAX:
        raise InvalidInput(f"{side} map has an extent of {max(shape.extent)} words; Triton passes at most {INT32_MAX}")
    row, rows = shape.block[-1] * word, math.prod(shape.block[:-1])
    if row < max(16, swizzle):
        raise InvalidInput(f"{side} tile has inner rows of {row} bytes; give at least {max(16, swizzle)}")
    if swizzle and rows < 8:
        raise InvalidInput(f"{side} tile has {rows} inner rows; a swizzle of {swizzle} bytes needs 8, or use swizzle 0")
    if not kernel.direct and max(shape.block[:-1] if swizzle else shape.block, default=1) > MAX_BOX_EXTENT:
        raise InvalidInput(
            f"{side} tile spans {shape.block} words; give at most {MAX_BOX_EXTENT} a dimension, more only to the "
            "innermost one of a swizzled tile"
        )


def _check_store(kernel: CopyKernel) -> None:
    assert kernel.target_groups is not None
    inner = math.prod(kernel.extent[m] for m in kernel.target_groups[-1]) * kernel.word_bytes
    if inner % 16:
        # Measured on an H200: the copy engine's store rounds the inner extent up to 16 bytes and writes the padding.
        raise InvalidInput(
            f"target has inner rows of {inner} bytes, and a tensor store would write up to the next multiple of 16; "
            "give target_groups None"
        )
    if kernel.direct and kernel.swizzle_source != kernel.swizzle_target:
        raise InvalidInput(
            f"both maps share one buffer, but swizzle {kernel.swizzle_source} and {kernel.swizzle_target} bytes; "
            "give both the same swizzle"
        )


def _check_resources(kernel: CopyKernel) -> None:
    if kernel.launch.tiles > INT32_MAX:
        raise InvalidInput(f"{kernel.launch.tiles} tiles overflow 32 bits; widen the tile")
    if not kernel.direct and kernel.tile_words < 32 * kernel.warps:
        raise InvalidInput(
            f"tile has {kernel.tile_words} words for {32 * kernel.warps} threads; widen it or give fewer warps"
        )
    if kernel.shared_bytes > SHARED_LIMIT:
        raise InvalidInput(
            f"{kernel.program.stages} stages of {kernel.tile_bytes} bytes need {kernel.shared_bytes} bytes of shared "
            f"memory with their staging, more than {SHARED_LIMIT}; shrink the tile or give fewer stages"
        )

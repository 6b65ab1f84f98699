"""The kernels of relayouts as classes: each is compiled once, for all extents, pitches and addresses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

THREADS = 256
GRANULE = 16
SECTOR, LINE = 32, 128  # bytes of the L2 cache
SPAN_LIMIT = 2**31  # of what the kernels divide

Parameter = tuple[str, str]  # C++ type and name
TYPES = {"u64": "unsigned long long", "i64": "long long", "u32": "unsigned"}


@dataclass(frozen=True, slots=True)
class RowsKernel:
    """Rows along the same axis on both sides.

    Attributes:
        element: bytes that every address and length is a multiple of: 1, 2, 4, 8 or 16.
        axes: of rows.
        fills: whether something is written where the source has nothing.
        joins: whether rows that follow each other without gaps in the target, 16 bytes long or longer, make one.
        alone: whether a block's granules are all of one row.
    """

    element: int
    axes: int
    fills: bool = False
    joins: bool = False
    alone: bool = False

    parts = ("relayout_device", "relayout", "relayout_rows")

    @property
    def entry(self) -> str:
        """The kernel's name."""
        flags = "_filled" * self.fills + "_joined" * self.joins + "_alone" * self.alone
        return f"relayout_rows_{self.element}_{self.axes}{flags}"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The kernel's parameters."""
        names: list[Parameter] = [("u64", "source"), ("u64", "target"), ("i64", "bytes"), ("u32", "units")]
        names += [*_divisor("parts"), *_axes("axis", self.axes)]
        if self.fills:
            names += [("i64", "head"), ("i64", "filled_bytes"), ("u64", "pattern")]
            names += [("u32", f"{what}{i}") for what in ("first", "lines") for i in range(self.axes)]
        if self.joins:
            names += [*_divisor("joined"), ("u32", "gap")]
        return tuple(names)

    @property
    def body(self) -> str:
        """What the kernel does with them."""
        first, lines = (", ".join(f"{what}{i}" for i in range(self.axes)) or "0" for what in ("first", "lines"))
        rows = (
            f"relayout::Rows<{self.axes}>{{source, target, bytes, units, {_divided('parts')}, "
            f"{{{_axis_values('axis', self.axes)}}}}}"
        )
        if self.joins:
            name, flags = "move_joined", _flags(self.alone)
            also = f"Joining{{{_divided('joined')}, gap}}"
        else:
            name, flags = "move_rows", _flags(self.alone, self.fills)
            filling = f"head, filled_bytes, {{{first}}}, {{{lines}}}, pattern" if self.fills else ""
            also = f"Filling<{self.axes}>{{{filling}}}"
        return (
            f"    relayout::{name}<{self.element}, {self.axes}, {flags}>(\n        {rows},\n        relayout::{also});"
        )


@dataclass(frozen=True, slots=True)
class TransposeKernel:
    """Tiles of what runs fastest in the source (i) and in the target (j).

    Attributes:
        element: bytes: 1, 2, 4, 8 or 16.
        axes: further ones.
        granules: of a tile's rows, along i: a power of two.
        tile_j: elements of a tile along j, a multiple of a line of the L2 cache.
        straddles: whether rows begin inside granules, so that one of these holds what is left of two.
        skewed: whether lines begin inside sectors; what a block stores of them begins where sectors do, all the same.
        axes_i, axes_j: that are contiguous in the source and in the target.
        turns: whether neighbouring lines read the elements of a granule from different ones on; see `turned_apart`.
        joins: whether lines are no longer than a tile's and follow each other without gaps in the target.
    """

    element: int
    axes: int
    granules: int
    tile_j: int
    straddles: bool = True
    skewed: bool = True
    axes_i: int = 1
    axes_j: int = 1
    turns: bool = False
    joins: bool = False

    parts = ("relayout_device", "relayout", "relayout_transpose")

    @property
    def entry(self) -> str:
        """The kernel's name."""
        flags = "_straddling" * self.straddles + "_skewed" * self.skewed
        flags += "_turning" * self.turns + "_joined" * self.joins
        axes = f"{self.axes_i}_{self.axes_j}_{self.axes}"
        return f"relayout_transpose_{self.element}_{self.granules}x{self.tile_j}_{axes}{flags}"

    @property
    def tile_i(self) -> int:
        """Elements of a tile along i."""
        return (self.granules - self.straddles) * GRANULE // self.element

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: the tile and, where that is no simple matter, where its rows begin."""
        per_granule = GRANULE // self.element
        rows = self.tile_j + self.skewed * SECTOR // self.element
        tile = rows // per_granule * (per_granule * self.granules + 1) * GRANULE
        if not self.joins and max(self.axes_i, self.axes_j) == 1:
            return tile
        entries = rows + 2 * per_granule * self.joins
        return tile + 4 * (entries + entries // per_granule)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The kernel's parameters."""
        names: list[Parameter] = [("u64", "source"), ("u64", "target"), ("u32", "along_i"), ("u32", "along_j")]
        names += [*_divisor("tiles_j"), *_divisor("tiles_i")]
        return (*names, *_axes("i", self.axes_i), *_axes("j", self.axes_j), *_axes("axis", self.axes))

    @property
    def body(self) -> str:
        """What the kernel does with them."""
        axes = f"{self.axes_i}, {self.axes_j}, {self.axes}"
        flags = _flags(self.straddles, self.skewed, self.joins, self.turns)
        counts = (("i", self.axes_i), ("j", self.axes_j), ("axis", self.axes))
        values = ", ".join(f"{{{_axis_values(name, count)}}}" for name, count in counts)
        return (
            f"    relayout::move_transposed<{self.element}, {self.granules}, {self.tile_j}, {axes}, {flags}>(\n"
            f"        relayout::Transpose<{axes}>{{source, target, along_i, along_j,\n"
            f"        {_divided('tiles_j')}, {_divided('tiles_i')},\n        {values}}});"
        )


RelayoutKernel = RowsKernel | TransposeKernel


def emit(kernel: RelayoutKernel) -> str:
    """Return the text of a kernel: CUDA C++ that includes nothing. Texts of several may stand in one file."""
    parameters = ", ".join(f"{TYPES[kind]} {name}" for kind, name in kernel.parameters)
    return "\n".join(
        [
            *(part(name) for name in kernel.parts),
            f'extern "C" __global__ void __launch_bounds__({THREADS}) {kernel.entry}(',
            *_folded(parameters),
            f"{kernel.body}\n}}\n",
        ]
    )


@lru_cache
def part(name: str) -> str:
    """Return the text of a part, a file beside this one."""
    return (files("legalsat.backends.cute") / f"{name}.cuh").read_text(encoding="utf-8")


def _folded(parameters: str) -> list[str]:
    lines = [line.strip() for line in re.findall(r".{1,108}(?:, |$)", parameters)]
    return [f"    {line}" for line in lines[:-1]] + [f"    {lines[-1]}) {{"]


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


def _divisor(name: str) -> list[Parameter]:
    return [("u32", f"{name}_{what}") for what in ("number", "multiplier", "shift")]


def _divided(name: str) -> str:
    return f"{{{name}_number, {name}_multiplier, {name}_shift}}"


def _axes(name: str, count: int) -> list[Parameter]:
    each = ([*_divisor(f"{name}{n}"), ("i64", f"{name}{n}_source"), ("i64", f"{name}{n}_target")] for n in range(count))
    return [one for parameters in each for one in parameters]


def _axis_values(name: str, count: int) -> str:
    values = [f"{{{_divided(f'{name}{n}')}, {name}{n}_source, {name}{n}_target}}" for n in range(count)]
    return ", ".join(values) or "{{1, 0, 0}, 0, 0}"


def _flags(*flags: bool) -> str:
    return ", ".join(str(flag).lower() for flag in flags)

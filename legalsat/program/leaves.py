"""Leaves: operations whose row is hand-written device code. Most move granules of 16 bytes, wherever rows begin.

A leaf's fields are literal in a text, so they make the class of a kernel. Its parameters are the kernel's: addresses of
source and target, then numbers that a plan binds. A leaf neither waits nor meets others: programs say that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

THREADS = 256  # of a block
GRANULE = 16  # bytes that are moved at once
SECTOR, LINE = 32, 128  # bytes of the L2 cache
ENTRY_BYTES = 4  # of a table

Parameter: TypeAlias = tuple[str, str]
"""Type, "u32", "i64" or "u64", and name."""


@dataclass(frozen=True, slots=True)
class ShiftRows:
    """Store a granule of the target by each thread, made of the two of the source that hold its bytes.

    The same axis runs fastest on both sides, in rows that begin anywhere in a granule.

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
    def buffers(self) -> tuple[int, ...]:
        """Bytes of the buffers in shared memory: there are none."""
        return ()


@dataclass(frozen=True, slots=True)
class TurnTile:
    """Store granules of the target, each made of elements that are picked out of a tile in shared memory.

    The tile holds granules as they lie in the source: rows along what runs fastest there (i), one for each element
    along what runs fastest in the target (j). A second buffer says where rows begin, where that is no simple matter.
    Copies into the tile, and what is written into the second buffer, are the leaf's too; waits between are not.

    Attributes:
        element: bytes: 1, 2, 4, 8 or 16.
        axes: further ones.
        granules: of a tile's rows, along i: a power of two.
        tile_j: elements of a tile along j, a multiple of a line of the L2 cache.
        straddles: whether rows begin inside granules, so that one of these holds what is left of two.
        skewed: whether lines begin inside sectors; what a block stores of them begins where sectors do, all the same.
        axes_i, axes_j: that are contiguous in the source and in the target.
        turns: whether neighbouring lines read the elements of a granule from different ones on, so that they hit other
            banks.
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
    def reach(self) -> int:
        """Elements by which a line that a block stores may begin before the block's first."""
        return SECTOR // self.element if self.skewed else 0

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return self.reach + self.tile_j

    @property
    def tabled(self) -> bool:
        """Whether a table says where rows begin."""
        return self.joins or max(self.axes_i, self.axes_j) > 1

    @property
    def buffers(self) -> tuple[int, ...]:
        """Bytes of the tile, and of the table of places where there is one."""
        per_granule = GRANULE // self.element
        tile = self.rows // per_granule * (per_granule * self.granules + 1) * GRANULE
        entries = self.rows + 2 * per_granule * self.joins
        return (tile, ENTRY_BYTES * (entries + entries // per_granule)) if self.tabled else (tile,)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The kernel's parameters."""
        names: list[Parameter] = [("u64", "source"), ("u64", "target"), ("u32", "along_i"), ("u32", "along_j")]
        names += [*_divisor("tiles_j"), *_divisor("tiles_i")]
        return (*names, *_axes("i", self.axes_i), *_axes("j", self.axes_j), *_axes("axis", self.axes))


@dataclass(frozen=True, slots=True)
class AddSlices:
    """Store elements of C by each warp, each the sum of what slices of k gave of it, added in their order.

    Slices lie one behind the other, in rows along the target's, or along its columns.

    Attributes:
        result: the target's type.
        turned: whether rows of the slices run along columns of the target.
        sums: the slices' type, in which they are added: "fp32" or "i32".
    """

    result: str
    turned: bool
    sums: str = "fp32"

    @property
    def entry(self) -> str:
        """The kernel's name."""
        return f"add_slices_{self.result}{'_turned' * self.turned}"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The kernel's parameters; rows and columns are the slices', pitches in elements."""
        names: list[Parameter] = [("u64", "source"), ("u64", "target"), ("u32", "slices"), ("i64", "slice_pitch")]
        names += [("i64", "source_pitch"), ("i64", "target_pitch"), ("u32", "rows"), ("u32", "columns")]
        return tuple(names)

    @property
    def buffers(self) -> tuple[int, ...]:
        """Bytes of the buffers in shared memory: there are none."""
        return ()


Leaf: TypeAlias = ShiftRows | TurnTile
"""What a movement's kernel is made around."""


def named(kernel: Leaf, numbers: Sequence[int]) -> dict[str, int]:
    """Return what a kernel's parameters behind the addresses are bound to, by name."""
    return {name: number for (_, name), number in zip(kernel.parameters[2:], numbers, strict=True)}


def _divisor(name: str) -> list[Parameter]:
    return [("u32", f"{name}_{what}") for what in ("number", "multiplier", "shift")]


def _axes(name: str, count: int) -> list[Parameter]:
    each = ([*_divisor(f"{name}{n}"), ("i64", f"{name}{n}_source"), ("i64", f"{name}{n}_target")] for n in range(count))
    return [one for parameters in each for one in parameters]

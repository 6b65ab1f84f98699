"""Which copies by tensor map a movement's kernel issues: coordinates and places in shared memory, from its program.

Coordinates are those of the program's loads and stores, as numbers of tiles along the user's axes, by their names or
`n0`, `n1`, ...; boxes of one tile are counted `i`, `j`, ..., fastest first. Tiles that do not follow each other along
axes are counted along the access's modes. Columns of windows count pixels `p`, channels `c` and taps `r`, `s`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from legalsat.extract.moved.tile_operand import operand_of, row_axes
from legalsat.extract.search.axes import axis_tiles
from legalsat.extract.search.views import box_of
from legalsat.plans.movement_plan import MovementPlan
from legalsat.program.pipeline import Affine, Load, Store, walk
from legalsat.units.matrix_descriptor import CHUNK_BYTES

_BOXES = "ijklmtuvxyz"
_TAPS, _PIXELS = ("t", "r", "s"), ("d", "h", "w")


@dataclass(frozen=True, slots=True)
class Sum:
    """A coordinate or an offset: a factor for each name, and what is added."""

    terms: tuple[tuple[str, int], ...]
    plus: int = 0

    def __str__(self) -> str:
        words = [name if factor == 1 else f"{factor} {name}" for name, factor in self.terms if factor]
        if not words:
            return str(self.plus)
        behind = f" {'+-'[self.plus < 0]} {abs(self.plus)}" if self.plus else ""
        return " + ".join(words) + behind

    def value(self, numbers: Mapping[str, int]) -> int:
        """Return it for these values of the names."""
        return self.plus + sum(factor * numbers[name] for name, factor in self.terms)


@dataclass(frozen=True, slots=True)
class Digit:
    """A number that follows from others: a sum divided by `by`, rounded down, modulo `modulus` unless that is 0."""

    of: Sum
    by: int
    modulus: int

    def __str__(self) -> str:
        text = f"({self.of})" if len(self.of.terms) > 1 or self.of.plus else str(self.of)
        return text + (f" / {self.by}" if self.by > 1 else "") + (f" % {self.modulus}" if self.modulus else "")

    def value(self, numbers: Mapping[str, int]) -> int:
        """Return it for these values of the names."""
        found = self.of.value(numbers) // self.by
        return found % self.modulus if self.modulus else found


@dataclass(frozen=True, slots=True)
class Issued:
    """One load or store of a tile: a copy for each box.

    Attributes:
        kind: "load" or "store". map: the number of the tensor map.
        buffer: in shared memory. bytes: of a box.
        coordinates: where a box begins in the map, fastest dimension first.
        place: bytes from the item's start in the buffer to the box.
        tiles: names of numbers of tiles, and how many there are, formulas of dims in an open plan.
        boxes: the same of boxes.
        offsets: by im2col, what the instruction adds to spatial coordinates, fastest first.
        where: names that coordinates have besides, and what they are.
    """

    kind: str
    map: int
    buffer: str
    bytes: int
    coordinates: tuple[Sum, ...]
    place: Sum
    tiles: tuple[tuple[str, Any], ...]
    boxes: tuple[tuple[str, int], ...]
    offsets: tuple[Sum, ...] = ()
    where: tuple[tuple[str, Digit], ...] = ()

    def __str__(self) -> str:
        over = f" for ({', '.join(f'{name} < {count}' for name, count in self.tiles)})" if self.tiles else ""
        box = "".join(f" {name} < {count}," for name, count in self.boxes).rstrip(",")
        at = ", ".join(map(str, self.coordinates))
        at = f"{{{at}}}" + (f" + {{{', '.join(map(str, self.offsets))}}}" if self.offsets else "")
        said = ", ".join(f"{name} = {digit}" for name, digit in self.where)
        where = f" where {said}" if said else ""
        of = f"{self.kind} {self.bytes} bytes by map {self.map}"
        return f"{of}{over}: box{box} at {at}, {self.buffer} + {self.place}{where}"

    def numbers(self, numbers: Mapping[str, int]) -> dict[str, int]:
        """Return values of all names, given those of `tiles` and `boxes`."""
        return {**numbers, **{name: digit.value(numbers) for name, digit in self.where}}

    def to_json(self) -> dict[str, Any]:
        """Return the copies as plain values."""
        return {
            "kind": self.kind,
            "map": self.map,
            "buffer": self.buffer,
            "bytes": self.bytes,
            "coordinates": [_plain(one) for one in self.coordinates],
            "offsets": [_plain(one) for one in self.offsets],
            "where": {name: {"of": _plain(d.of), "by": d.by, "modulus": d.modulus} for name, d in self.where},
            "place": _plain(self.place),
            "tiles": {name: count if isinstance(count, int) else str(count) for name, count in self.tiles},
            "boxes": dict(self.boxes),
        }


@dataclass(frozen=True, slots=True)
class Counted:
    """How tiles are counted.

    Attributes:
        names: numbers of tiles, slowest first, and how many there are. said: along what.
        modes: the number of a tile along each mode, as a sum of these.
    """

    names: tuple[tuple[str, Any], ...]
    said: str
    modes: Mapping[int, Sum]


def counted(plan: MovementPlan) -> Counted:
    """Return how a plan's tiles are counted: along the user's axes where they follow each other along these."""
    operator, grid = plan.operator, dict(plan.launch.grid)
    if plan.window is not None and plan.access.by == "im2col":
        names = _column_names(plan)
        found = tuple((names[mode], count) for mode, count in reversed(plan.launch.grid))
        taps = ", ".join(names[tap] for tap in reversed(plan.window.taps) if tap in grid)
        along = {window: f"{names[window]}: pixels" for window in plan.window.pixels[:1]}
        along[plan.window.channel] = f"{names[plan.window.channel]}: channels"
        words = [word for mode, word in along.items() if mode in grid] + [f"{taps}: taps"] * bool(taps)
        said = f"the tile's number along {'; '.join(words)}"
        return Counted(found, said, {mode: Sum(((names[mode], 1),)) for mode in grid})
    tiles = axis_tiles(operator, plan.access)
    if tiles is None:
        names = {mode: f"n{mode}" for mode in grid}
        found = tuple((names[mode], count) for mode, count in reversed(plan.launch.grid))
        modes = ", ".join(f"mode {mode}" for mode in reversed(names))
        said = f"the tile's number along {modes}: {', '.join(name for name, _ in found)}"
        return Counted(found, said, {mode: Sum(((names[mode], 1),)) for mode in grid})
    called = operator.axes or tuple(f"n{axis}" for axis in range(len(tiles.count)))
    several = [axis for axis, count in enumerate(tiles.count) if count > 1]
    sums = {
        mode: Sum(tuple((called[axis], tiles.steps[axis][mode]) for axis in several if tiles.steps[axis][mode]))
        for mode in grid
    }
    axes = ", ".join(f"axis {axis}" for axis in several)
    said = f"the tile's number along {axes}: {', '.join(called[axis] for axis in several)}"
    return Counted(tuple((called[axis], tiles.count[axis]) for axis in several), said, sums)


def _column_names(plan: MovementPlan) -> dict[int, str]:
    """Return what numbers of tiles along the modes of columns are called; names of the images' axes are others'."""
    window = plan.window
    assert window is not None
    axes, rank = plan.operator.axes, len(window.sweeps)
    taken = set(axes)
    names = {window.pixels[0]: _free("p", taken), window.channel: axes[-1] if axes else _free("c", taken)}
    for tap, name in zip(window.taps, reversed(_TAPS[-rank:]), strict=True):
        names[tap] = _free(name, taken)
    return names


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


@lru_cache(maxsize=64)
def issued(plan: MovementPlan) -> tuple[Issued, ...]:
    """Return the copies that a plan's kernel issues, a load before the stores; none where no box travels."""
    given, plan, found = plan, plan.alone, dict[Issued, None]()
    tiles = _opened(counted(plan), given) if plan.tensor_maps else None
    for role in plan.pipeline.roles:
        for op in walk(role.body):
            if tiles is not None and isinstance(op, Load | Store) and op.corner and not getattr(op, "each", 0):
                found[_issued(plan, op, tiles)] = None
    return tuple(found)


def _opened(tiles: Counted, plan: MovementPlan) -> Counted:
    """Return how tiles of an open plan are counted: as many as the grid says, a formula of dims; of no other a number.

    Numbers of a closed plan stay.
    """
    if not plan.opened:
        return tiles
    grid, opened = dict(plan.launch.grid), dict[str, Any]()
    for name, _ in tiles.names:
        modes = [mode for mode, found in tiles.modes.items() if name in dict(found.terms)]
        opened[name] = grid[modes[0]] if len(modes) == 1 and tiles.modes[modes[0]].terms == ((name, 1),) else "?"
    return replace(tiles, names=tuple(opened.items()))


def _issued(plan: MovementPlan, op: Load | Store, tiles: Counted) -> Issued:
    tm, load = plan.tensor_maps[op.number], isinstance(op, Load)
    view = plan.views[0 if load or op.number == 0 else -1]
    tile = tuple(reversed(plan.shared[0].shape[1:])) if plan.phases and load else view.tile
    box = box_of(view, tm)
    size = math.prod(box) * plan.access.word // 8
    taken = {name for name, _ in tiles.names} | set(plan.operator.axes)
    names = (name for name in _BOXES if name not in taken)
    boxes: list[tuple[str, int]] = []
    along, place, before = [], [], 1
    for extent, wide in zip(tile, box, strict=True):
        inner: tuple[tuple[str, int], ...] = ()
        if (count := -(-extent // wide)) > 1:
            name = next(names)
            boxes.append((name, count))
            inner = ((name, wide),)
            place.append((name, before * size))
        along.append(inner)
        before *= count
    corners = [_along(inner, corner, tiles) for inner, corner in zip(along, op.corner, strict=True)]
    counts = {name for name, _ in (*tiles.names, *boxes)}
    coordinates, offsets, where = _column(plan, corners, counts) if tm.mode == "im2col" else (corners, [], {})
    used = {name for one in corners for name, _ in one.terms}
    return Issued(
        "load" if load else "store",
        op.number,
        op.buffer,
        size,
        tuple(coordinates),
        Sum(tuple(place), op.number * op.bytes if plan.phases and load else 0),
        tuple((name, count) for name, count in tiles.names if name in used),
        tuple(boxes),
        tuple(offsets),
        tuple(where.items()),
    )


def _along(inner: Iterable[tuple[str, int]], corner: Affine, tiles: Counted) -> Sum:
    """Return where a box begins along a dimension, given where it lies in the tile, and where the tile begins."""
    factors: dict[str, int] = dict(inner)
    plus = corner.plus
    for mode, factor in corner.terms:
        number = tiles.modes[mode]
        plus += factor * number.plus
        for name, times in number.terms:
            factors[name] = factors.get(name, 0) + factor * times
    return Sum(tuple(factors.items()), plus)


def _column(plan: MovementPlan, corners: list[Sum], taken: set[str]) -> tuple[list[Sum], list[Sum], dict[str, Digit]]:
    """Return coordinates and offsets of a column by im2col: its first pixel's window, and the tap in it."""
    window = plan.window
    assert window is not None
    channel, *taps, pixel = corners
    rank = len(window.sweeps)
    axes = plan.operator.axes or ("n", *_PIXELS[-rank:], "c")
    where: dict[str, Digit] = {}
    coordinates, by = [channel], 1
    for axis, sweep in enumerate(window.sweeps):
        terms: tuple[tuple[str, int], ...] = ()
        if sweep.windows > 1:
            name = _free(axes[rank - axis], taken)
            where[name] = Digit(pixel, by, sweep.windows)
            terms = ((name, sweep.step),)
        coordinates.append(Sum(terms, -sweep.before))
        by *= sweep.windows
    images = _free(axes[0], taken)
    where[images] = Digit(pixel, by, 0)
    offsets = [
        Sum(tuple((name, sweep.dilation * factor) for name, factor in tap.terms), sweep.dilation * tap.plus)
        for sweep, tap in zip(window.sweeps, taps, strict=True)
    ]
    return [*coordinates, Sum(((images, 1),))], offsets, where


def issued_lines(plan: MovementPlan) -> list[str]:
    """Return the copies in words, a line each, behind how tiles are counted; then how a matrix unit reads the tile."""
    return list(_lines(plan))


def _lines(plan: MovementPlan) -> Iterator[str]:
    found = issued(plan)
    if any(one.tiles for one in found):
        yield counted(plan.alone).said
    yield from map(str, found)
    yield from descriptor_lines(plan)


def descriptor_lines(plan: MovementPlan) -> list[str]:
    """Return the matrix descriptor of a tile that a matrix unit reads, and what steps and blocks add to its word."""
    operand = operand_of(plan)
    if operand is None:
        return []
    words = [[offset // CHUNK_BYTES for offset in row] for row in operand.offsets]
    steps = ", ".join(str(one - words[0][0]) for one in words[0])
    rows = row_axes(plan.alone.operator)
    counted = f"rows count along {', then '.join(f'axis {axis}' for axis in rows)}"
    lines = [counted] if len(rows) > 1 else []
    lines += [f"descriptor: {operand.descriptor.word:#018x} + (address >> 4), and along K, step by step, + {steps}"]
    if len(words) > 1:
        blocks = ", ".join(str(row[0] - words[0][0]) for row in words)
        lines.append(f"    and for each block of {operand.block} rows + {blocks}")
    return lines


def _plain(one: Sum) -> dict[str, Any]:
    return {"terms": dict(one.terms), "plus": one.plus}

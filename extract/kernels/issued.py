"""Which copies by tensor map a movement's kernel issues: coordinates and places in shared memory, from its program.

Coordinates are those of the program's loads and stores, as numbers of tiles along modes of the access, `n0`, `n1`, ...;
boxes of one tile are counted `i`, `j`, ..., fastest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from legalsat.analyses.copy_engine import smem_bytes
from legalsat.analyses.matrix_layout import matrix_operand, tile_layout
from legalsat.errors import LegalSatError
from legalsat.extract.search.views import box_of
from legalsat.operators import k_major
from legalsat.options import Major
from legalsat.plans.plan import Plan
from legalsat.program.pipeline import Load, Store, walk
from legalsat.units.matrix_descriptor import CHUNK_BYTES, MatrixOperand

_NUMBERS = "ijklm"


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

    def value(self, numbers: dict[str, int]) -> int:
        """Return it for these values of the names."""
        return self.plus + sum(factor * numbers[name] for name, factor in self.terms)


@dataclass(frozen=True, slots=True)
class Issued:
    """One load or store of a tile: a copy for each box.

    Attributes:
        kind: "load" or "store". map: the number of the tensor map.
        buffer: in shared memory. bytes: of a box.
        coordinates: where a box begins in the map, fastest dimension first.
        place: bytes from the item's start in the buffer to the box.
        tiles: names of numbers of tiles, and how many there are. boxes: the same of boxes.
    """

    kind: str
    map: int
    buffer: str
    bytes: int
    coordinates: tuple[Sum, ...]
    place: Sum
    tiles: tuple[tuple[str, int], ...]
    boxes: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        names = [f"{name} < {count}" for name, count in (*self.tiles, *self.boxes)]
        over = f" for {', '.join(names)}" if names else ""
        at = ", ".join(map(str, self.coordinates))
        return f"{self.kind} by map {self.map}{over}: {self.bytes} bytes at {{{at}}}, {self.buffer} + {self.place}"

    def to_json(self) -> dict[str, Any]:
        """Return the copies as plain values."""
        return {
            "kind": self.kind,
            "map": self.map,
            "buffer": self.buffer,
            "bytes": self.bytes,
            "coordinates": [_plain(one) for one in self.coordinates],
            "place": _plain(self.place),
            "tiles": dict(self.tiles),
            "boxes": dict(self.boxes),
        }


def issued(plan: Plan) -> list[Issued]:
    """Return the copies that a plan's kernel issues, a load before the stores; none where no box travels.

    Of im2col only stores are boxes of a tiled map: a column's coordinates are those of its first pixel's window.
    """
    found: dict[Issued, None] = {}
    for role in plan.pipeline.roles:
        for op in walk(role.body):
            if isinstance(op, Load | Store) and op.corner and not getattr(op, "each", 0):
                tm = plan.tensor_maps[op.number]
                if tm.mode == "tiled":
                    found[_issued(plan, op)] = None
    return list(found)


def _issued(plan: Plan, op: Load | Store) -> Issued:
    tm, load = plan.tensor_maps[op.number], isinstance(op, Load)
    view = plan.views[0 if load or op.number == 0 else -1]
    tile = tuple(reversed(plan.shared[0].shape[1:])) if plan.phases and load else view.tile
    box = box_of(view, tm)
    counts = [-(-n // b) for n, b in zip(tile, box, strict=True)]
    size = smem_bytes(tm)
    names = iter(_NUMBERS)
    boxes: list[tuple[str, int]] = []
    along, place, before = [], [], 1
    for count, extent in zip(counts, box, strict=True):
        inner: tuple[tuple[str, int], ...] = ()
        if count > 1:
            name = next(names)
            boxes.append((name, count))
            inner = ((name, extent),)
            place.append((name, before * size))
        along.append(inner)
        before *= count
    coordinates = [
        Sum((*inner, *((f"n{mode}", factor) for mode, factor in corner.terms)), corner.plus)
        for inner, corner in zip(along, op.corner, strict=True)
    ]
    used = {mode for corner in op.corner for mode, _ in corner.terms}
    start = op.number * op.bytes if plan.phases and load else 0
    return Issued(
        "load" if load else "store",
        op.number,
        op.buffer,
        size,
        tuple(coordinates),
        Sum(tuple(place), start),
        tuple((f"n{mode}", count) for mode, count in plan.launch.grid if mode in used),
        tuple(boxes),
    )


def issued_lines(plan: Plan) -> list[str]:
    """Return the copies in words, a line each, behind how tiles are counted; then how a matrix unit reads the tile."""
    found = issued(plan)
    modes = ", ".join(f"mode {mode}" for mode, _ in plan.launch.grid)
    names = ", ".join(f"n{mode}" for mode, _ in plan.launch.grid)
    counted = [f"{names}: the tile's number along {modes}"] if any(one.tiles for one in found) else []
    return [*counted, *map(str, found), *descriptor_lines(plan)]


def descriptor_lines(plan: Plan) -> list[str]:
    """Return the matrix descriptor of a tile that a matrix unit reads, and what steps and blocks add to its word."""
    operand = operand_of(plan)
    if operand is None:
        return []
    words = [[offset // CHUNK_BYTES for offset in row] for row in operand.offsets]
    steps = ", ".join(str(one - words[0][0]) for one in words[0])
    lines = [f"descriptor: {operand.descriptor.word:#018x} + (address >> 4), and along K, step by step, + {steps}"]
    if len(words) > 1:
        blocks = ", ".join(str(row[0] - words[0][0]) for row in words)
        lines.append(f"    and for each block of {operand.block} rows + {blocks}")
    return lines


def operand_of(plan: Plan) -> MatrixOperand | None:
    """Return how the matrix unit that a copy is for reads its tile; None where none does, or the tile is no matrix."""
    consumer, tile = getattr(plan.operator, "consumer", None) or "", plan.operator.tile
    unit, _, side = consumer.partition(".")
    if unit not in ("wgmma", "tcgen05") or not plan.shared or tile is None or len(tile) != 2:
        return None
    rows, depth = tile
    block = min(rows, 64 if (unit, side) == ("wgmma", "a") else 128 if side == "a" else 256)
    major: Major = "K" if k_major(plan.source) else "MN"
    bits, swizzle = plan.operator.source.dtype.bits, plan.shared[0].swizzle
    try:
        layout = tile_layout(rows, depth, bits, swizzle, major)
        return matrix_operand(layout, swizzle, bits, unit=unit, major=major, block=block)
    except LegalSatError:
        return None


def _plain(one: Sum) -> dict[str, Any]:
    return {"terms": dict(one.terms), "plus": one.plus}

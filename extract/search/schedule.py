"""Builds what happens to one tile: its buffers in shared memory, its barrier, the order of steps, the launch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from legalsat.extract.cost.cost import NOMINAL
from legalsat.extract.search.views import box_of, turned
from legalsat.operators.access import Access
from legalsat.plans.movement_plan import Granules, SharedTile, View
from legalsat.plans.plan import Launch
from legalsat.program.leaves import THREADS
from legalsat.rules.windows import COLUMNS
from legalsat.targets import Target
from legalsat.units.sites import SWIZZLE_SPANS
from legalsat.units.tensor_map import SWIZZLES, TensorMap, driver_value

WORDS_PER_WARP = 2048
MAX_WARPS = 8
MAX_STAGES = 4
ALIGNMENT = 128  # bytes; what the copy engine wants of any box
PATTERN_ROWS = 8  # rows over which a swizzle's pattern runs (FACTS SW-02 to SW-04)


def span_of(swizzle: str) -> int:
    """Return the bytes of a row that fills the swizzle's span, 0 without one."""
    return SWIZZLE_SPANS[driver_value("swizzle", swizzle)] if swizzle != "none" else 0


def through_registers(views: tuple[View, ...], store: str) -> bool:
    """Whether threads take the tile in hand: to turn it, or to store it where no tensor map can."""
    return store == "threads" or turned(*views)


def box_tiles(
    access: Access, views: tuple[View, ...], store: str, maps: tuple[TensorMap, ...], stages: int
) -> tuple[SharedTile, ...]:
    """Return the buffers of a block: the source's ring, and the target's where a turned tile is stored by box."""
    sides = zip(views, maps, strict=False)
    kept = list(sides) if through_registers(views, store) else [next(sides)]  # else it goes out from where it came in
    return tuple(_box_tile(access, view, tm, stages) for view, tm in kept)


def _box_tile(access: Access, view: View, tm: TensorMap, stages: int) -> SharedTile:
    return SharedTile(
        name=view.side,
        word=access.word,
        shape=tuple(reversed(view.tile)),
        swizzle=str(tm.swizzle),
        boxes=math.prod(tile // box for tile, box in zip(view.tile, box_of(view, tm), strict=True)),
        bytes=-(-math.prod(view.tile) * access.word // 8),
        alignment=max(ALIGNMENT, PATTERN_ROWS * span_of(str(tm.swizzle))),
        stages=stages if view.side == "source" else 1,
        # One tile a block: once every thread has read the tile, its buffer is free for the turned one.
        overlays=view.side == "target" and stages == 1,
    )


def row_tile(view: View, word: int, *, atom_bytes: int, runs: int, stages: int) -> SharedTile:
    """Return the buffer of a tile that arrives in vectors or, if there are any, in `runs`: swizzled for wgmma."""
    row = view.tile[0] * word // 8
    atoms = {0: (), 16: SWIZZLES[1:4], 32: ("128B_atom_32B",)}[atom_bytes]
    swizzles = [name for name in atoms if row % span_of(name) == 0]
    swizzle = max(swizzles, key=span_of, default="none")
    return SharedTile(
        name=view.side,
        word=word,
        shape=tuple(reversed(view.tile)),
        swizzle=swizzle,
        boxes=runs,
        bytes=-(-math.prod(view.tile) * word // 8),
        alignment=max(ALIGNMENT, PATTERN_ROWS * span_of(swizzle)),
        stages=stages,
        overlays=False,
    )


def block_bytes(shared: Iterable[SharedTile]) -> int:
    """Return the bytes of shared memory that a block's buffers take together."""
    return sum(tile.bytes * tile.stages for tile in shared if not tile.overlays)


def launch(access: Access, views: tuple[View, View], store: str, stages: int, target: Target) -> Launch:
    """Return one block a tile, or with a ring a persistent grid of one block a processor.

    A tile that only passes through needs a single warp; one that threads take in hand, a warp for each 2048 words.
    Tiles are counted as they follow each other in the source.
    """
    grid = tuple(_grid(access, views[0]))
    tiles = math.prod(count for _, count in grid)
    processors = (target.device or NOMINAL).processors
    words = math.prod(views[0].tile)
    warps = max(1, min(MAX_WARPS, words // WORDS_PER_WARP)) if through_registers(views, store) else 1
    return Launch(1 << (warps.bit_length() - 1), min(processors, tiles) if stages > 1 else 0, grid)


def granules_launch(granules: Granules) -> Launch:
    """Return the launch of a kernel that moves granules, whose blocks take what they number."""
    return Launch(THREADS // 32, granules.blocks)


def _grid(access: Access, view: View) -> Iterator[tuple[int, int]]:
    """Yield what there are several tiles of, and how many: modes, or by columns the dimensions of the view."""
    for group, extent, tile in zip(view.groups, view.extent, view.tile, strict=True):
        if access.by == COLUMNS:
            counts = [(group[0], -(-extent // tile))]
        else:
            counts = [(m, -(-access.modes[m].extent // access.modes[m].tile)) for m in group]
        yield from ((mode, count) for mode, count in counts if count > 1)

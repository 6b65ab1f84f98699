"""Where lines that begin anywhere in a granule lie in a stage: aligned there, or woven in registers."""

from __future__ import annotations

from typing import Any

import numpy as np

from legalsat.extract.kernels.kernel_tiles import Tile, TileScheduler
from legalsat.extract.kernels.product_maps import ROW_BYTES
from legalsat.plans.product_kernel import BLOCK_ROWS, LINES_ALIKE
from legalsat.targets import GRANULE_BYTES

Places = Any  # bytes, an array


def aligned_places(scheduler: TileScheduler, number: int, tile: Tile) -> tuple[Places, Places]:
    """Return where each byte of a tile's lines lies in their granules, and where a swizzled box would lay it.

    Args:
        scheduler: of a launch.
        number: 0 of A's lines, and 1 of B's.
        tile: whose lines.
    """
    kernel, pitch = scheduler.kernel, (scheduler.pitch, scheduler.b_pitch)[number]
    lines = kernel.lines[number]
    assert lines is not None
    line = np.arange(kernel.loaded[number])[:, None]
    phase = line % LINES_ALIKE
    span, inside = np.divmod(line // LINES_ALIKE, lines.count)
    box = span // lines.spans * LINES_ALIKE + phase
    source = (box * lines.count + inside) * lines.pitch + span % lines.spans * ROW_BYTES
    # Lines of groups of rows begin with any; others with one of the first phase.
    first = (tile.a_m, tile.n)[number] if kernel.majors[number] == "K" else 0
    late = (scheduler.begin(number, tile.member) + (first + phase) * pitch) % GRANULE_BYTES
    byte = np.arange(ROW_BYTES)
    chunk = byte // GRANULE_BYTES ^ line % 8
    return source + late + byte, line * ROW_BYTES + chunk * GRANULE_BYTES + byte % GRANULE_BYTES


def woven_places(scheduler: TileScheduler, rows: Places, k: Places, member: tuple[int, ...]) -> Places:
    """Return where elements of A lie in a stage, in bytes, of lines that are woven.

    Args:
        scheduler: of a launch.
        rows: of the tile, an array.
        k: of the k-tile, an array that broadcasts with them.
        member: of a batch, whose lines they are.
    """
    lines = scheduler.kernel.lines[0]
    assert lines is not None
    (block, row), (line, phase) = np.divmod(rows, BLOCK_ROWS), np.divmod(k, LINES_ALIKE)
    late = (scheduler.begin(0, member) + phase * scheduler.pitch) % GRANULE_BYTES + np.vectorize(lines.early)(phase)
    box = block // lines.spans * LINES_ALIKE + phase
    inside = block % lines.spans * ROW_BYTES + row * scheduler.size + late
    return (box * lines.count + line) * lines.pitch + inside

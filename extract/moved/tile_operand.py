"""How a matrix unit reads the tile that a movement brings: where elements lie, and the descriptor that finds them."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.matrix_layout import operand_at
from legalsat.errors import LegalSatError
from legalsat.extract.search.axes import tile_words
from legalsat.extract.search.by_vectors import staged_view
from legalsat.extract.search.schedule import span_of
from legalsat.extract.search.views import box_of
from legalsat.operators import MATRIX_CONSUMERS, Move, k_major
from legalsat.operators.access import Access
from legalsat.operators.gemm import sums_of
from legalsat.options import Major
from legalsat.plans.movement_plan import MovementPlan, SharedTile, View
from legalsat.tensor import plain
from legalsat.units.matrix_descriptor import MatrixOperand
from legalsat.units.mma import Mma
from legalsat.units.tcgen05 import operand_type
from legalsat.units.tensor_map import TensorMap

K_BYTES = 32  # of one instruction along K
ROWS_OF_A = {"wgmma": (64,), "tcgen05": (128, 64)}  # of one instruction, most first
ROWS_OF_B = tuple(range(256, 0, -8))

Places = NDArray[np.int64]


def row_axes(operator: Move) -> tuple[int, ...]:
    """Return the axes that the rows of a matrix unit's tile run along, fastest in memory first; several have several.

    Rows are counted as they lie in memory, whatever the order of the axes.
    """
    tile, strides = operator.tile or (), plain(operator.source.strides)
    if operator.sweeps:
        return ()
    rows = [axis for axis in range(len(tile) - 1) if tile[axis] > 1]
    return tuple(sorted(rows, key=lambda axis: (strides[axis], -axis)))


def element_places(
    operator: Move, access: Access, view: View, tm: TensorMap | None, shared: SharedTile
) -> Places | None:
    """Return where each element of a tile lies in its buffer before the swizzle, in elements: shape (rows, K).

    None where the tile is no matrix, or its elements do not lie along the modes of the access one by one.

    Args:
        operator: names the tile, whose last axis is K.
        access: what is moved.
        view: how the load sees it.
        tm: the load's tensor map; None where the tile arrives in vectors.
        shared: the buffer.
    """
    if operator.tile is None or len(operator.tile) < 2:
        return None
    if operator.sweeps:
        pixels, channels = operator.tile
        at = [np.zeros((pixels, channels), np.int64) for _ in view.tile]
        at[0], at[-1] = at[0] + np.arange(channels), at[-1] + np.arange(pixels)[:, None]
        if access.by != "im2col" or view.tile[0] != channels:
            return None
    else:
        words = tile_words(operator, access)
        if words is None:
            return None
        wide = [axis for axis, extent in enumerate(operator.tile) if extent > 1]  # the others would be too many
        words = words.reshape(*(operator.tile[axis] for axis in wide), len(access.modes))
        order = (axis for axis in (*reversed(row_axes(operator)), operator.source.rank - 1) if axis in wide)
        words = words.transpose(*(wide.index(axis) for axis in order), len(wide))
        words = words.reshape(-1, operator.tile[-1], len(access.modes))
        at = []
        for group in view.groups:
            along, scale = np.zeros(words.shape[:2], np.int64), 1
            for mode in group:
                along += words[:, :, mode] * scale
                scale *= access.modes[mode].extent
            at.append(along)
    tile = view.tile
    if tm is not None:
        box = box_of(view, tm)
    else:
        staged = staged_view(view, access.word, operator)
        if staged is None:
            return None
        if len(staged.tile) > len(tile):  # rows lie in one piece in the tensor, and apart here
            at[:1] = [at[0] % staged.tile[0], at[0] // staged.tile[0]]
        tile = staged.tile
        box = (8 * span_of(shared.swizzle) // access.word or tile[0], *tile[1:])
    counts = [-(-n // b) for n, b in zip(tile, box, strict=True)]
    place: Places = np.zeros(at[0].shape, np.int64)
    inside, beside = 1, math.prod(box)
    for along, length, count in zip(at, box, counts, strict=True):
        place += along % length * inside + along // length * beside
        inside, beside = inside * length, beside * count
    found = place * access.word
    return None if (found % operator.source.dtype.bits).any() else found // operator.source.dtype.bits


def operand_of(plan: MovementPlan) -> MatrixOperand | None:
    """Return how the matrix unit that a movement is for reads its tile; None where no descriptor does."""
    if not plan.shared:
        return None
    plan = plan.alone
    tm = plan.tensor_maps[0] if plan.tensor_maps else None
    return tile_operand(plan.operator, plan.access, plan.views[0], tm, plan.shared[0])


@lru_cache(maxsize=256)
def tile_operand(
    operator: Move, access: Access, view: View, tm: TensorMap | None, shared: SharedTile
) -> MatrixOperand | None:
    """Return how the matrix unit that an operator names reads its tile; None where no descriptor does.

    The arguments are those of `element_places`.
    """
    if operator.consumer not in MATRIX_CONSUMERS:
        return None
    unit, _, side = operator.consumer.partition(".")
    bits, major = operator.source.dtype.bits, _major(operator)
    if bits not in (8, 16, 32):
        return None
    places = element_places(operator, access, view, tm, shared)
    if places is None:
        return None
    blocks = ROWS_OF_A[unit] if side == "a" else ROWS_OF_B
    block = next((rows for rows in blocks if len(places) % rows == 0), None)
    if block is None:
        return None
    try:
        return operand_at(places, shared.swizzle, bits, unit=unit, major=major, block=block, k_bytes=K_BYTES)
    except LegalSatError:
        return None


def _major(operator: Move) -> Major:
    return "K" if k_major(operator.source) else "MN"


def mma_of(plan: MovementPlan) -> Mma | None:
    """Return how a matrix unit multiplies the tile that a movement brings; None where none reads it.

    What the other operand decides is 0 in the shape, and the other operand is None.
    """
    operator = plan.operator
    if operator.consumer not in MATRIX_CONSUMERS:
        return None
    operand = operand_of(plan)
    if operand is None and plan.shared:
        return None
    unit, _, side = operator.consumer.partition(".")
    element = operand_type(operator.source.dtype.name)
    rows = ROWS_OF_A[unit][0] if operand is None else operand.block
    m = rows if side == "a" else ROWS_OF_A[unit][0] if len(ROWS_OF_A[unit]) == 1 else 0
    return Mma(
        unit,
        (m, 0 if side == "a" else rows, 8 * K_BYTES // operator.source.dtype.bits),
        (element, element, sums_of(operator.source.dtype).name),
        1,
        operand if side == "a" else None,
        operand if side == "b" else None,
    )

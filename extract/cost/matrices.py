"""How matrices of a product lie, as far as that costs: lines of L2 that boxes cross, and what is fetched in vain."""

from __future__ import annotations

import math

from legalsat.extract.cost.cost import moved_beside
from legalsat.extract.kernels.product_maps import is_scattered
from legalsat.operators.members import Members
from legalsat.targets import GRANULE_BYTES
from legalsat.tensor import Tensor, plain

LINE = 128  # bytes, of L2 and of a box's row


def moved_for_each(tensor: Tensor, members: Members, operand: str, axes: int) -> float:
    """Return bytes that DRAM moves for each one of an operand that is laid out anew, or of C.

    Where no elements lie side by side they are read along the nearer ones, if lines may lie so: the matrix unit
    may read K alone, the first of `axes`, and groups along k are cleared of others' k in lines along it. Of members
    that lie side by side element by element, all that is fetched is wanted. L2 holds C until neighbours have been
    written.
    """
    beside = any(extent > 1 and step == 1 for extent, step in zip(members.extents, members.of(operand), strict=True))
    if beside or not is_scattered(tensor):
        return 1.0
    size, steps = tensor.dtype.bytes, plain(tensor.strides)
    along_k = operand != "C" and (axes < 2 or members.ragged == "k")
    return moved_beside((steps[1] if along_k else min(steps)) * size, size)


def steps_apart(c: Tensor) -> tuple[int, int]:
    """Return the bytes from row to row of C, and from column to column; 0 where elements lie side by side."""
    down, across = (step * c.dtype.bytes for step in plain(c.strides))
    return (0, 0) if c.dtype.bytes in {down, across} else (down, across)


def count_of(members: Members, operand: str) -> int:
    """Return how many matrices of an operand there are."""
    return math.prod(extent for extent, step in zip(members.extents, members.of(operand), strict=True) if step)


def crossed(tensor: Tensor) -> tuple[float, float]:
    """Return how many of the rows of a matrix's boxes lie in two lines, and whether they begin at any granule.

    Where no elements lie side by side no box has any.
    """
    if is_scattered(tensor):
        return 0.0, 0.0
    strides, shape = plain(tensor.strides), plain(tensor.shape)
    lines = 1 - min((0, 1), key=lambda axis: (strides[axis] != 1, shape[axis] != 1))
    common = math.gcd(strides[lines] * tensor.dtype.bytes, LINE) if shape[lines] > 1 else LINE
    common = max(common, GRANULE_BYTES)
    return 1 - common / LINE, float(common == GRANULE_BYTES)


def is_granular(tensor: Tensor) -> bool:
    """Return whether rows of a matrix begin at whole granules."""
    steps = [step for step, extent in zip(plain(tensor.strides), plain(tensor.shape), strict=True) if extent > 1]
    starts = (tensor.address, *(step * tensor.dtype.bytes for step in steps if step != 1))
    return all(start % GRANULE_BYTES == 0 for start in starts)

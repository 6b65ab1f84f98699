"""A tensor map whose axes are in the wrong order: its elements lie side by side along another dimension than the first.

The driver takes no stride for dimension 0, so whoever lists strides in another order hands the dense one on. A longer
one would not mend that: it would read other memory.
"""

from __future__ import annotations

from dataclasses import replace

from legalsat.explanation import Repair
from legalsat.rules import TENSOR_MAP_RULES, judge
from legalsat.targets import Target
from legalsat.units.sites import TYPE_BITS, TmaCopy
from legalsat.units.tensor_map import TensorMap, driver_value
from legalsat.view.snippets_map import map_snippets


def dense_dimension(tm: TensorMap) -> int | None:
    """Return the dimension, not the first, along which elements lie side by side; None if there is no such one."""
    code = driver_value("dtype", tm.dtype)
    if tm.mode != "tiled" or code >= len(TYPE_BITS) or tm.rank < 2 or tm.interleave != "none":
        return None
    size = TYPE_BITS[code]
    found = [d for d, s in enumerate(tm.global_stride, start=1) if 8 * s == size and tm.global_dim[d] > 1]
    return found[0] if len(found) == 1 and tm.global_dim[0] > 1 else None


def exchanged(tm: TensorMap, target: Target) -> Repair | None:
    """Return the repair that has the dense dimension first, None where there is none or its map is no legal one.

    The stride of the dimension that was first is in no field of the map: it is taken to step over whole rows.
    """
    d = dense_dimension(tm)
    if d is None:
        return None
    pitch = tm.global_dim[d] * tm.global_stride[d - 1]

    def swapped(values: tuple[int, ...]) -> tuple[int, ...]:
        first, other = values[0], values[d]
        return (other, *values[1:d], first, *values[d + 1 :])

    after = replace(
        tm,
        global_dim=swapped(tm.global_dim),
        global_stride=(*tm.global_stride[: d - 1], pitch, *tm.global_stride[d:]),
        box=swapped(tm.box),
        element_stride=swapped(tm.element_stride),
    )
    if any(said.level == "error" for said in judge(TmaCopy.of(after), target, TENSOR_MAP_RULES)):
        return None
    message = (
        f"exchange dimensions 0 and {d}: elements lie side by side along dimension {d}, whose stride is "
        f"{tm.global_stride[d - 1]} bytes; what was dimension 0 is taken to have rows {pitch} bytes apart"
    )
    parts = frozenset({"global_dim", "global_stride", "box"})
    return Repair("order", message, after, 0, snippets=map_snippets(tm, after, parts))

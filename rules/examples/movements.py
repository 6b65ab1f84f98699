"""Examples of movements as a whole, of vectors, and of what shared memory and registers hold."""

from __future__ import annotations

from typing import Any

from legalsat.rules.examples.example import Example
from legalsat.units.sites import GranuleMove, Movement, RegisterTile, SharedStages, UnitAxes, VectorAccess


def vector(**fields: Any) -> VectorAccess:
    """Return the site of a legal asynchronous copy of bf16 rows of 128 bytes, but for the fields given."""
    legal: dict[str, Any] = {
        "instruction": "cp.async",
        "side": "source",
        "bytes": 16,
        "word": 16,
        "address": 256,
        "strides": (8192,),
        "stepped_over": (128,),
        "inner_stride_bits": 16,
        "row_bits": 1024,
        "tile_bits": 1024,
    }
    return VectorAccess(**{**legal, **fields})


EXAMPLES = (
    Example("GRAN001", Movement(16, by="granules", tile=(128, 64)), Movement(16, by="granules")),
    Example("GRAN002", GranuleMove(axes=6, units=4096), GranuleMove(axes=5, units=4096)),
    Example("PAD001", Movement(16, by="bulk", padding=True), Movement(16, by="tma", padding=True)),
    Example(
        "PAD002",
        Movement(16, by="tma", padding=True, zeros=False),
        Movement(16, by="threads", padding=True, zeros=False),
    ),
    Example("REG001", RegisterTile(128 * 1024 + 1), RegisterTile(128 * 1024)),
    Example("SMEM001", SharedStages(stages=4, ring=65536, single=0), SharedStages(stages=3, ring=65536, single=0)),
    Example("SMEM002", SharedStages(stages=2, ring=6192, single=0), SharedStages(stages=1, ring=6192, single=0)),
    # Torch, of x[:, :, :1] of a bf16 tensor: an axis of one element whose stride is one element.
    Example("TMA037", UnitAxes((2,), (16,)), UnitAxes((2,), (2048,))),
    Example("UNIT001", Movement(16, by="tma"), Movement(16, by="threads"), "a100"),
    Example("UNIT002", Movement(16, "wgmma.a"), Movement(16, "threads"), "b200"),
    Example("UNIT003", Movement(16, by="cp.async"), Movement(16, by="threads"), "mi300x"),
    Example("UNIT004", Movement(16, "tcgen05.a"), Movement(16, "threads")),
    Example("VEC001", vector(bytes=2), vector(bytes=4)),
    Example("VEC002", vector(strides=(8190,)), vector(strides=(8192,))),
    Example("VEC003", vector(row_bits=8 * 8190), vector(row_bits=8 * 8192)),
    Example("VEC004", vector(inner_stride_bits=32), vector(inner_stride_bits=32, bytes=4, word=32)),
    Example("VEC005", vector(side="target", strides=(112,)), vector(side="target", strides=(128,))),
    Example(
        "WIN001",
        Movement(16, by="tma", windows=True, leaves=True),
        Movement(16, by="im2col", windows=True, leaves=True),
    ),
    Example("WIN002", vector(pixel_bits=96), vector(pixel_bits=96, bytes=4)),
    Example("WIN003", Movement(16, by="im2col"), Movement(16, by="im2col", windows=True)),
    Example("WORD001", Movement(4), Movement(8)),
)

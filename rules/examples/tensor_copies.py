"""Examples of executions of copies: what a legal tensor map does not save from."""

from __future__ import annotations

from typing import Any

from legalsat.rules.examples.example import Example
from legalsat.tensor import Tensor
from legalsat.units.tensor_copy import BulkCopy, TensorCopy
from legalsat.units.tensor_map import TensorMap


def copy(**fields: Any) -> TensorCopy:
    """Return a copy of a legal bf16 map of 128 x 64, but for the fields given; those of the map are the map's."""
    legal: dict[str, Any] = {"dtype": "bf16", "global_dim": (64, 128), "global_stride": (128,), "box": (64, 8)}
    legal |= {name: fields.pop(name) for name in list(fields) if name in TensorMap.__slots__}
    return TensorCopy(TensorMap(**legal), **fields)


def columns(**fields: Any) -> TensorCopy:
    """Return a copy of columns of pixels, legal but for the fields given."""
    tm = TensorMap(
        dtype="bf16",
        mode="im2col",
        global_dim=(64, 16, 16, 2),
        global_stride=(128, 2048, 32768),
        lower_corner=(-1, -1),
        upper_corner=(-1, -1),
        channels=64,
        pixels=32,
    )
    return TensorCopy(tm, **fields)


# The view of heads and rows exchanged: a row's heads lie side by side, and rows 8 heads apart.
_VIEW = Tensor((8, 128, 64), "bf16", strides=(64, 512, 1))

EXAMPLES = (
    Example("COPY001", copy(coordinate=(4, 0)), copy(coordinate=(8, 0))),
    Example("COPY002", copy(stores=True, coordinate=(0, -8)), copy(coordinate=(0, -8))),
    Example("COPY003", columns(coordinate=(0, -2, 0, 0)), columns(coordinate=(0, -1, 0, 0))),
    Example("COPY004", copy(shared_address=0x40), copy(shared_address=0x80)),
    Example("COPY005", copy(swizzle="128B", shared_address=0x80), copy(swizzle="128B", shared_address=0x400)),
    Example("COPY006", copy(transaction_bytes=2048), copy(transaction_bytes=1024)),
    # Rows of 96 bytes lie 128 bytes apart.
    Example(
        "COPY007",
        copy(box=(48, 8), swizzle="128B", shared_bytes=768),
        copy(box=(48, 8), swizzle="128B", shared_bytes=1024),
    ),
    Example(
        "COPY008",
        copy(global_dim=(60, 128), stores=True, coordinate=(0, 0)),
        copy(global_dim=(56, 128), stores=True, coordinate=(0, 0)),
    ),
    Example("COPY009", copy(global_stride=(112,), stores=True), copy(stores=True)),
    Example(
        "COPY010",
        copy(global_dim=(64, 128, 8), global_stride=(128, 16384), box=(64, 8, 1), tensor=_VIEW),
        copy(global_dim=(64, 128, 8), global_stride=(1024, 128), box=(64, 8, 1), tensor=_VIEW),
    ),
    Example("COPY011", copy(map_pitch=64), copy(map_pitch=128)),
    Example("COPY012", copy(read_as="128B"), copy(read_as="128B", swizzle="128B")),
    Example("COPY013", copy(dtype="u16", reduces="add"), copy(reduces="add")),
    Example("BULK001", BulkCopy(bytes=4096, global_address=4), BulkCopy(bytes=4096, global_address=16)),
    Example("BULK002", BulkCopy(bytes=1000), BulkCopy(bytes=1008)),
    Example("BULK003", BulkCopy(bytes=4096, reduces="add", swizzle="128B"), BulkCopy(bytes=4096, reduces="add")),
)

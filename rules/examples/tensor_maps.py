"""Examples of tensor maps: tiled, im2col, packed types, and what the encode call does not see."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from legalsat.rules.examples.example import Example
from legalsat.units.sites import TmaCopy
from legalsat.units.tensor_map import TensorMap


def tiled(*, stores: bool = False, **fields: Any) -> TmaCopy:
    """Return the site of a legal bf16 matrix of 128 x 64, but for the fields given."""
    legal: dict[str, Any] = {"dtype": "bf16", "global_dim": (64, 128), "global_stride": (128,), "box": (64, 8)}
    return TmaCopy.of(TensorMap(**{**legal, **fields}), stores=stores)


def cube(**fields: Any) -> TmaCopy:
    """Return the site of a legal map of three dimensions, which interleaved layouts need."""
    legal = {"global_dim": (64, 8, 8), "global_stride": (128, 1024), "box": (64, 1, 8)}
    return tiled(**{**legal, **fields})


def image(**fields: Any) -> TmaCopy:
    """Return the site of a legal im2col map of NHWC images, but for the fields given."""
    legal: dict[str, Any] = {
        "dtype": "bf16",
        "mode": "im2col",
        "global_dim": (64, 16, 16, 2),
        "global_stride": (128, 2048, 32768),
        "lower_corner": (-1, -1),
        "upper_corner": (1, 1),
        "channels": 64,
        "pixels": 32,
    }
    return TmaCopy.of(TensorMap(**{**legal, **fields}))


def packed(dtype: str = "16u4_align16b", **fields: Any) -> TmaCopy:
    """Return the site of a legal map of a packed type, which needs compute capability 10.0."""
    legal = {"global_dim": (256, 8, 8), "global_stride": (128, 1024), "box": (128, 8, 1)}
    return tiled(**{"dtype": dtype, **legal, **fields})


EXAMPLES = (
    Example(
        "TMA001",
        tiled(global_dim=(64, 2, 2, 2, 2, 2), global_stride=(128, 256, 512, 1024, 2048), box=(64, 1, 1, 1, 1, 1)),
        tiled(global_dim=(64, 2, 2, 2, 4), global_stride=(128, 256, 512, 1024), box=(64, 1, 1, 1, 1)),
    ),
    Example("TMA002", tiled(global_dim=(64, 2**32 + 1)), tiled(global_dim=(64, 2**31))),
    Example("TMA003", tiled(box=(64, 512)), tiled(box=(64, 256))),
    Example("TMA004", tiled(address=8), tiled(address=16)),
    Example("TMA005", tiled(global_stride=(8190,)), tiled(global_stride=(8192,))),
    Example("TMA006", tiled(global_stride=(2**40,)), tiled(global_stride=(2**40 - 16,))),
    Example("TMA007", tiled(element_stride=(1, 9)), tiled(element_stride=(1, 8))),
    Example("TMA008", tiled(box=(63, 8)), tiled(box=(64, 8))),
    Example("TMA009", tiled(box=(64, 8), swizzle="64B"), tiled(box=(32, 8), swizzle="64B")),
    Example("TMA010", tiled(dtype="16u4_align8b"), tiled(dtype="u8")),
    Example("TMA011", tiled(swizzle="128B_atom_32B"), tiled(swizzle="128B")),
    Example("TMA012", tiled(interleave=3), tiled(interleave="none")),
    Example("TMA013", tiled(l2_promotion=4), tiled(l2_promotion="256B")),
    Example("TMA014", tiled(oob_fill=2), tiled(oob_fill="nan")),
    Example("TMA015", tiled(dtype="u16", oob_fill="nan"), tiled(oob_fill="nan")),
    Example("TMA016", tiled(interleave="16B"), cube(interleave="16B")),
    Example(
        "TMA017",
        tiled(dtype="fp32", global_stride=(256,), box=(256, 256)),
        tiled(dtype="fp32", global_stride=(256,), box=(256, 128)),
    ),
    Example("TMA018", tiled(global_dim=(64, 2**31 + 1)), tiled(global_dim=(64, 2**31))),
    Example("TMA019", tiled(map_offset=32), tiled(map_offset=64)),
    Example("TMA020", cube(interleave="32B"), cube(interleave="32B", swizzle="32B", box=(64, 1, 8))),
    # By the driver's count a box of 8 x 256 words is small; with a swizzle every row takes a whole span.
    Example("TMA021", cube(box=(8, 256, 8), swizzle="128B"), cube(box=(8, 128, 8), swizzle="128B")),
    Example("TMA022", tiled(element_stride=(2, 1)), tiled(element_stride=(1, 1))),
    Example("TMA023", tiled(global_stride=(112,)), tiled(global_stride=(128,))),
    Example("TMA024", replace(tiled(), inner_stride_bits=32), replace(tiled(), inner_stride_bits=16)),
    Example("TMA025", tiled(global_dim=(60, 128), stores=True), tiled(global_dim=(56, 128), stores=True)),
    Example("TMA026", tiled(global_stride=(112,), stores=True), tiled(global_stride=(144,), stores=True)),
    Example("TMA027", replace(tiled(box=(24, 129)), tile=(24, 258)), replace(tiled(box=(24, 128)), tile=(24, 256))),
    Example(
        "TMA028",
        replace(tiled(global_dim=(64, 2**31)), tile=(64, 8)),
        replace(tiled(global_dim=(64, 2**31 - 1)), tile=(64, 8)),
    ),
    Example("TMA029", replace(tiled(), before=(1, 0)), replace(tiled(), before=(8, 1))),
    Example("TMA030", packed(global_dim=(192, 8, 8)), packed(), "b200"),
    Example("TMA031", packed(address=16), packed(address=32), "b200"),
    Example("TMA032", packed(global_stride=(144, 2048)), packed(global_stride=(160, 2048)), "b200"),
    Example("TMA033", packed(box=(64, 8, 1)), packed(box=(128, 8, 1)), "b200"),
    Example("TMA034", packed(swizzle="128B_atom_64B"), packed(swizzle="128B"), "b200"),
    Example(
        "TMA035",
        packed("16u6_align16b", interleave="16B"),
        packed("16u6_align16b", global_stride=(192, 1536)),
        "b200",
    ),
    Example("TMA036", cube(interleave="32B"), cube(interleave="32B", swizzle="32B"), "b200"),
    Example("TMA040", image(channels=264), image(channels=256)),
    Example("TMA041", image(pixels=1025), image(pixels=1024)),
    Example("TMA042", image(channels=256, pixels=512), image(channels=256, pixels=256)),
    Example("TMA043", image(lower_corner=(-129, -1)), image(lower_corner=(-128, -1))),
    Example("TMA044", image(lower_corner=(0, 17)), image(lower_corner=(0, 16)), "b200"),
    Example("TMA045", image(upper_corner=(1, -17)), image(upper_corner=(1, -16))),
    Example("TMA046", replace(image(), offsets=(256, 2)), replace(image(), offsets=(255, 2))),
)

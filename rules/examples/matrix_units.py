"""Examples of what matrix units read and multiply: tiles, descriptors, types, wgmma."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from legalsat.rules.examples.example import Example
from legalsat.rules.examples.tensor_maps import tiled
from legalsat.units.matrix_descriptor import MatrixWord
from legalsat.units.shared_tile import UnreadTile
from legalsat.units.sites import MatrixRead, Movement, ProductTypes, WgmmaMultiply


def multiply(**fields: Any) -> WgmmaMultiply:
    """Return the site of a legal instruction on bf16, but for the fields given."""
    legal: dict[str, Any] = {"m": 64, "n": 128, "k": 16, "a": "bf16", "b": "bf16", "sums": "fp32"}
    return WgmmaMultiply(**{**legal, **fields})


def matrix_read(**fields: Any) -> MatrixRead:
    """Return the site of a legal descriptor of 64 K-major rows of bf16 in swizzle 128B, but for the fields given."""
    legal: dict[str, Any] = {
        "start": 2048,
        "leading": 16,
        "stride": 1024,
        "swizzle": 3,
        "tile_leading": 16,
        "tile_stride": 1024,
        "tile_swizzle": 3,
        "block": 64,
        "element_bits": 16,
    }
    return MatrixRead(**{**legal, **fields})


EXAMPLES = (
    Example("MDESC001", matrix_read(start=2056), matrix_read(start=2064)),
    Example("MDESC002", matrix_read(stride=2**18, tile_stride=2**18), matrix_read()),
    Example("MDESC003", matrix_read(swizzle=2), matrix_read()),
    # LBO and SBO exchanged; K-major without a swizzle, both count.
    Example(
        "MDESC004",
        matrix_read(swizzle=0, tile_swizzle=0, leading=128, stride=1024, tile_leading=1024, tile_stride=128),
        matrix_read(swizzle=0, tile_swizzle=0, leading=1024, stride=128, tile_leading=1024, tile_stride=128),
    ),
    Example("MDESC005", matrix_read(pattern=1280), matrix_read(pattern=1280, base_offset=2)),
    Example("MDESC006", matrix_read(major="MN"), matrix_read()),
    # The same fields: of wgmma, and with the version of tcgen05.
    Example(
        "MDESC007",
        MatrixWord("tcgen05", 0x4000004000010000),
        MatrixWord("tcgen05", 0x4000404000010000),
        "b200",
    ),
    # An address that was not masked: its bits 18 and 19 reach bits 14 and 15 of the word.
    Example("MDESC008", MatrixWord("wgmma", 0x400000400001C080), MatrixWord("wgmma", 0x4000004000010080)),
    Example(
        "MDESC009",
        MatrixWord("tcgen05", 0x6000404000010000),
        MatrixWord("tcgen05", 0x4000404000010000),
        "b200",
    ),
    Example(
        "MDESC010",
        MatrixWord("tcgen05", 0x4010404000010000),
        MatrixWord("tcgen05", 0x4000404000010000),
        "b200",
    ),
    Example(
        "MDESC011",
        UnreadTile("wgmma", "(64,64):(72,1)", "rows are 144 bytes apart, inside the pattern of swizzle 128B"),
        UnreadTile("wgmma", "(64,64):(64,1)"),
    ),
    Example("PROD001", ProductTypes("fp64", "fp64", "fp64"), ProductTypes("bf16", "fp32", "bf16")),
    Example("PROD002", ProductTypes("bf16", "fp32", "fp64"), ProductTypes("bf16", "fp32", "fp32")),
    Example("PROD004", ProductTypes("bf16", "fp32", "bf16"), ProductTypes("bf16", "fp32", "bf16"), "a100", "h200"),
    Example(
        "TILE001", Movement(4, "tcgen05.a", "e2m1", (64, 256)), Movement(8, "tcgen05.a", "e4m3", (64, 128)), "b200"
    ),
    Example(
        "TILE002", Movement(16, "tcgen05.a", "bf16", (72, 64)), Movement(16, "tcgen05.b", "bf16", (72, 64)), "b200"
    ),
    Example(
        "TILE003",
        replace(tiled(swizzle="128B_atom_32B"), atom_bytes=16),
        replace(tiled(swizzle="128B_atom_32B"), atom_bytes=32),
        "b200",
    ),
    Example(
        "TILE004",
        Movement(32, "tcgen05.b", "tf32", (48, 32), False, by="cp.async", row_bytes=192),
        Movement(32, "tcgen05.b", "tf32", (64, 32), False, by="cp.async", row_bytes=256),
        "b200",
    ),
    Example("WGMMA001", Movement(32, "wgmma.a", "i32", (64, 32)), Movement(32, "wgmma.a", "tf32", (64, 32))),
    Example("WGMMA002", Movement(16, "wgmma.a", "bf16", (96, 64)), Movement(16, "wgmma.b", "bf16", (96, 64))),
    Example(
        "WGMMA003", Movement(8, "wgmma.b", "e4m3", (8, 64), False), Movement(16, "wgmma.b", "bf16", (8, 64), False)
    ),
    Example(
        "WGMMA004",
        replace(tiled(box=(24, 8)), atom_bytes=16),
        replace(tiled(box=(8, 8)), atom_bytes=16),
    ),
    Example(
        "WGMMA005",
        Movement(16, "wgmma.b", "bf16", (64, 24), by="cp.async", row_bytes=48),
        Movement(16, "wgmma.b", "bf16", (64, 32), by="cp.async", row_bytes=64),
    ),
    Example(
        "WGMMA006",
        Movement(16, "wgmma.b", "bf16", (64, 64), by="fragments"),
        Movement(16, "wgmma.a", "bf16", (64, 64), by="fragments"),
    ),
    Example(
        "WGMMA012",
        Movement(16, "wgmma.a", "bf16", (8, 8, 64), k_major=False, scattered=2),
        Movement(16, "wgmma.a", "bf16", (8, 8, 64)),
    ),
    Example("WGMMA007", multiply(b="fp16"), multiply()),
    Example(
        "WGMMA008", multiply(n=40, k=32, a="i8", b="i8", sums="i32"), multiply(n=48, k=32, a="i8", b="i8", sums="i32")
    ),
    Example("WGMMA009", multiply(k=32), multiply(k=16)),
    Example("WGMMA010", multiply(k=32, a="e4m3", b="e5m2", b_major="MN"), multiply(k=32, a="e4m3", b="e5m2")),
    Example("WGMMA011", multiply(a_major="MN", a_in_registers=True), multiply(a_major="MN")),
)

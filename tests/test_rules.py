"""Every rule has a site that violates it and the same site repaired; what it says keeps the house style."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from pipeline_rule_examples import EXAMPLES as PIPELINE_EXAMPLES
from tcgen05_examples import EXAMPLES as TCGEN05_EXAMPLES

from legalsat.diagnostics import worst_first
from legalsat.errors import LegalSatError
from legalsat.rule import Source, Unit, require, rules_in
from legalsat.rules import (
    RULES,
    TENSOR_MAP_RULES,
    matrix,
    movement,
    padding,
    pipeline,
    products,
    tcgen05,
    tcgen05_tiles,
    tensor_memory,
    tma,
    tma_tiled,
    vectors,
    wgmma,
    wgmma_shapes,
    windows,
)
from legalsat.sites import (
    MatrixRead,
    Movement,
    ProductTypes,
    RegisterTile,
    SharedStages,
    TmaCopy,
    VectorAccess,
    WgmmaMultiply,
)
from legalsat.targets import TARGETS, Target, target
from legalsat.tensor_map import TensorMap

BY_CODE = {rule.code: rule for rule in RULES}
# Messages start in lower case, but for names that are written in capitals.
NAMES = ("TMA", "L2", "NaN", "CUtensorMap")
# Words that begin a help; a new one is added here once somebody has read that it is a verb.
VERBS = (
    *(
        "bring",
        "convert",
        "copy",
        "declare",
        "deliver",
        "fill",
        "give",
        "keep",
        "let",
        "load",
        "merge",
        "move",
        "name",
        "pad",
        "plan",
        "raise",
        "round",
    ),
    *("set", "split", "start", "store", "take", "use"),
)


def tiled(*, stores: bool = False, inner_stride_bits: int | None = None, **fields: Any) -> TmaCopy:
    """Return the site of a legal bf16 matrix of 128 x 64, but for the fields given."""
    legal: dict[str, Any] = {"dtype": "bf16", "global_dim": (64, 128), "global_stride": (128,), "box": (64, 8)}
    site = TmaCopy.of(TensorMap(**{**legal, **fields}), stores=stores)
    return site if inner_stride_bits is None else replaced(site, inner_stride_bits=inner_stride_bits)


def replaced(site: TmaCopy, **fields: Any) -> TmaCopy:
    """Return the site with other fields."""
    return TmaCopy(**{**{name: getattr(site, name) for name in site.__slots__}, **fields})


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


class Row(NamedTuple):
    """A site that `code` refuses, the same site repaired, the target that refuses it, and one that repairs it."""

    code: str
    refused: Any
    repaired: Any
    target: str = "h200"
    repaired_by: str | None = None


TABLE = (
    Row("SMEM002", SharedStages(stages=2, ring=6192, single=0), SharedStages(stages=1, ring=6192, single=0)),
    Row("SMEM001", SharedStages(stages=4, ring=65536, single=0), SharedStages(stages=3, ring=65536, single=0)),
    Row(
        "TMA001",
        tiled(global_dim=(64,) * 6, global_stride=(128,) * 5, box=(64, 1, 1, 1, 1, 1)),
        tiled(global_dim=(64,) * 5, global_stride=(128,) * 4, box=(64, 1, 1, 1, 1)),
    ),
    Row("TMA002", tiled(global_dim=(64, 2**32 + 1)), tiled(global_dim=(64, 2**32))),
    Row("TMA003", tiled(box=(64, 512)), tiled(box=(64, 256))),
    Row("TMA004", tiled(address=8), tiled(address=16)),
    Row("TMA005", tiled(global_stride=(8190,)), tiled(global_stride=(8192,))),
    Row("TMA006", tiled(global_stride=(2**40,)), tiled(global_stride=(2**40 - 16,))),
    Row("TMA007", tiled(element_stride=(1, 9)), tiled(element_stride=(1, 8))),
    Row("TMA008", tiled(box=(63, 8)), tiled(box=(64, 8))),
    Row("TMA009", tiled(box=(64, 8), swizzle="64B"), tiled(box=(32, 8), swizzle="64B")),
    Row("TMA010", tiled(dtype="16u4_align8b"), tiled(dtype="u8")),
    Row("TMA011", tiled(swizzle="128B_atom_32B"), tiled(swizzle="128B")),
    Row("TMA012", tiled(interleave=3), tiled(interleave="none")),
    Row("TMA013", tiled(l2_promotion=4), tiled(l2_promotion="256B")),
    Row("TMA014", tiled(oob_fill=2), tiled(oob_fill="nan")),
    Row("TMA015", tiled(dtype="u16", oob_fill="nan"), tiled(oob_fill="nan")),
    Row("TMA016", tiled(interleave="16B"), cube(interleave="16B")),
    Row("TMA017", tiled(dtype="fp32", box=(256, 256)), tiled(dtype="fp32", box=(256, 128))),
    Row("TMA018", tiled(global_dim=(64, 2**31 + 1)), tiled(global_dim=(64, 2**31))),
    Row("TMA019", tiled(map_offset=32), tiled(map_offset=64)),
    Row("TMA020", cube(interleave="32B"), cube(interleave="32B", swizzle="32B", box=(64, 1, 8))),
    # By the driver's count a box of 8 x 256 words is small; with a swizzle every row takes a whole span.
    Row("TMA021", cube(box=(8, 256, 8), swizzle="128B"), cube(box=(8, 128, 8), swizzle="128B")),
    Row("TMA022", tiled(element_stride=(2, 1)), tiled(element_stride=(1, 1))),
    Row("TMA023", tiled(global_stride=(112,)), tiled(global_stride=(128,))),
    Row("TMA024", tiled(inner_stride_bits=32), tiled(inner_stride_bits=16)),
    Row("TMA025", tiled(global_dim=(60, 128), stores=True), tiled(global_dim=(56, 128), stores=True)),
    Row("TMA026", tiled(global_stride=(112,), stores=True), tiled(global_stride=(144,), stores=True)),
    Row(
        "TMA028",
        replaced(tiled(global_dim=(64, 2**31)), tile=(64, 8)),
        replaced(tiled(global_dim=(64, 2**31 - 1)), tile=(64, 8)),
    ),
    Row("WGMMA001", Movement(32, "wgmma.a", "i32", (64, 32)), Movement(32, "wgmma.a", "tf32", (64, 32))),
    Row("WGMMA002", Movement(16, "wgmma.a", "bf16", (96, 64)), Movement(16, "wgmma.b", "bf16", (96, 64))),
    Row("WGMMA003", Movement(8, "wgmma.b", "e4m3", (8, 64), False), Movement(16, "wgmma.b", "bf16", (8, 64), False)),
    Row(
        "WGMMA004",
        replaced(tiled(box=(24, 8)), atom_bytes=16),
        replaced(tiled(box=(8, 8)), atom_bytes=16),
    ),
    Row("TMA027", replaced(tiled(box=(24, 129)), tile=(24, 258)), replaced(tiled(box=(24, 128)), tile=(24, 256))),
    Row("TMA030", packed(global_dim=(192, 8, 8)), packed(), "b200"),
    Row("TMA031", packed(address=16), packed(address=32), "b200"),
    Row("TMA032", packed(global_stride=(144, 2048)), packed(global_stride=(160, 2048)), "b200"),
    Row("TMA033", packed(box=(64, 8, 1)), packed(box=(128, 8, 1)), "b200"),
    Row("TMA034", packed(swizzle="128B_atom_64B"), packed(swizzle="128B"), "b200"),
    Row(
        "TMA035",
        packed("16u6_align16b", interleave="16B"),
        packed("16u6_align16b", global_stride=(192, 1536)),
        "b200",
    ),
    Row("TMA036", cube(interleave="32B"), cube(interleave="32B", swizzle="32B"), "b200"),
    Row("TMA040", image(channels=264), image(channels=256)),
    Row("TMA041", image(pixels=1025), image(pixels=1024)),
    Row("TMA042", image(channels=256, pixels=512), image(channels=256, pixels=256)),
    Row("TMA043", image(lower_corner=(-129, -1)), image(lower_corner=(-128, -1))),
    Row("TMA044", image(lower_corner=(0, 17)), image(lower_corner=(0, 16)), "b200"),
    Row("WORD001", Movement(4), Movement(8)),
    Row("UNIT001", Movement(16, by="tma"), Movement(16, by="threads"), "a100"),
    Row("UNIT003", Movement(16, by="cp.async"), Movement(16, by="threads"), "mi300x"),
    Row("UNIT002", Movement(16, "wgmma.a"), Movement(16, "threads"), "b200"),
    Row(
        "WGMMA005",
        Movement(16, "wgmma.b", "bf16", (64, 24), by="cp.async", row_bytes=48),
        Movement(16, "wgmma.b", "bf16", (64, 32), by="cp.async", row_bytes=64),
    ),
    Row(
        "WGMMA006",
        Movement(16, "wgmma.b", "bf16", (64, 64), by="fragments"),
        Movement(16, "wgmma.a", "bf16", (64, 64), by="fragments"),
    ),
    Row("UNIT004", Movement(16, "tcgen05.a"), Movement(16, "threads")),
    Row("TILE001", Movement(4, "tcgen05.a", "e2m1", (64, 256)), Movement(8, "tcgen05.a", "e4m3", (64, 128)), "b200"),
    Row("TILE002", Movement(16, "tcgen05.a", "bf16", (72, 64)), Movement(16, "tcgen05.b", "bf16", (72, 64)), "b200"),
    Row(
        "TILE003",
        replaced(tiled(swizzle="128B_atom_32B"), atom_bytes=16),
        replaced(tiled(swizzle="128B_atom_32B"), atom_bytes=32),
        "b200",
    ),
    Row(
        "TILE004",
        Movement(32, "tcgen05.b", "tf32", (48, 32), False, by="cp.async", row_bytes=192),
        Movement(32, "tcgen05.b", "tf32", (64, 32), False, by="cp.async", row_bytes=256),
        "b200",
    ),
    Row("PROD001", ProductTypes("e4m3", "fp32", "bf16"), ProductTypes("bf16", "fp32", "bf16"), "a100"),
    Row("PROD002", ProductTypes("bf16", "fp32", "fp64"), ProductTypes("bf16", "fp32", "fp32")),
    Row("VEC001", vector(bytes=2), vector(bytes=4)),
    Row("VEC002", vector(strides=(8190,)), vector(strides=(8192,))),
    Row("VEC003", vector(row_bits=8 * 8190), vector(row_bits=8 * 8192)),
    Row("VEC004", vector(inner_stride_bits=32), vector(inner_stride_bits=32, bytes=4, word=32)),
    Row("VEC005", vector(side="target", strides=(112,)), vector(side="target", strides=(128,))),
    Row("REG001", RegisterTile(128 * 1024 + 1), RegisterTile(128 * 1024)),
    Row("TMA045", image(upper_corner=(1, -17)), image(upper_corner=(1, -16))),
    Row("TMA046", replaced(image(), offsets=(256, 2)), replaced(image(), offsets=(255, 2))),
    Row(
        "WIN001",
        Movement(16, by="tma", windows=True, leaves=True),
        Movement(16, by="im2col", windows=True, leaves=True),
    ),
    Row("WIN002", vector(pixel_bits=96), vector(pixel_bits=96, bytes=4)),
    Row("WGMMA007", multiply(b="fp16"), multiply()),
    Row("WGMMA008", multiply(n=40, k=32, a="i8", b="i8", sums="i32"), multiply(n=48, k=32, a="i8", b="i8", sums="i32")),
    Row("WGMMA009", multiply(k=32), multiply(k=16)),
    Row("WGMMA010", multiply(k=32, a="e4m3", b="e5m2", b_major="MN"), multiply(k=32, a="e4m3", b="e5m2")),
    Row("WGMMA011", multiply(a_major="MN", a_in_registers=True), multiply(a_major="MN")),
    Row("MDESC001", matrix_read(start=2056), matrix_read(start=2064)),
    Row("MDESC002", matrix_read(stride=2**18, tile_stride=2**18), matrix_read()),
    Row("MDESC003", matrix_read(swizzle=2), matrix_read(swizzle=2, tile_swizzle=2)),
    # LBO and SBO exchanged; K-major without a swizzle, both count.
    Row(
        "MDESC004",
        matrix_read(swizzle=0, tile_swizzle=0, leading=128, stride=1024, tile_leading=1024, tile_stride=128),
        matrix_read(swizzle=0, tile_swizzle=0, leading=1024, stride=128, tile_leading=1024, tile_stride=128),
    ),
    Row("MDESC005", matrix_read(pattern=1280), matrix_read(pattern=1280, base_offset=2)),
    Row("MDESC006", matrix_read(major="MN"), matrix_read()),
    Row("WIN003", Movement(16, by="im2col"), Movement(16, by="im2col", windows=True)),
    Row("PAD001", Movement(16, by="bulk", padding=True), Movement(16, by="tma", padding=True)),
    Row(
        "PAD002",
        Movement(16, by="tma", padding=True, zeros=False),
        Movement(16, by="threads", padding=True, zeros=False),
    ),
    Row("TMA029", replaced(tiled(), before=(1, 0)), replaced(tiled(), before=(8, 1))),
    *(Row(code, refused, repaired, "b200") for code, refused, repaired in TCGEN05_EXAMPLES),
    *(Row(code, refused, repaired) for code, refused, repaired in PIPELINE_EXAMPLES),
)
ROWS = {row.code: row for row in TABLE}


def found_at(site: Any, on: Target) -> set[str]:
    """Return the codes of the rules that the site violates."""
    name = type(site).__name__
    return {rule.code for rule in RULES if rule.site == name for _ in rule.check(site, on)}


def test_the_table_has_exactly_one_row_for_each_rule() -> None:
    assert sorted(ROWS) == sorted(BY_CODE)
    assert len(TABLE) == len(RULES)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.code)
def test_refused_example_is_refused_and_repaired_example_is_not(row: Row) -> None:
    assert row.code in found_at(row.refused, target(row.target))
    left = found_at(row.repaired, target(row.repaired_by or row.target))
    assert row.code not in left
    assert not {code for code in left if BY_CODE[code].level == "error"}, "the repaired example must be legal"


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.code)
def test_what_a_rule_says_keeps_the_house_style(row: Row) -> None:
    rule = BY_CODE[row.code]
    for said in rule.check(row.refused, target(row.target)):
        assert said.message[0].islower() or said.message[0].isdigit() or said.message.startswith(NAMES)
        assert said.help.split()[0] in VERBS, "help begins with a verb"
        for text in (said.message, said.help):
            assert not text.endswith((".", "!"))
            assert not set("{}\n") & set(text)
        lines = str(said).splitlines()
        assert lines[0] == f"{rule.level}[{rule.code}]: {said.message}"
        assert len(lines) == 4 and all(line.strip() for line in lines)
        assert said.measured == rule.source.document.startswith("measured")
        assert said.to_json()["code"] == rule.code


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_is_documented(rule: Any) -> None:
    summary = rule.docs.splitlines()[0]
    assert summary.endswith(".") and summary[0].isupper()
    assert rule.source.quote and rule.source.document and rule.source.field
    assert rule.name.islower() and rule.refused_by in ("driver", "hardware", "document")
    # A warning is for what nobody enforces; who enforces something refuses with an error.
    assert rule.level == "error" or rule.refused_by == "document"


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_no_rule_speaks_where_the_target_lacks_the_unit(name: str) -> None:
    on = target(name)
    for row in TABLE:
        if on.tma is None and isinstance(row.refused, TmaCopy):
            assert not found_at(row.refused, on)


def test_a_driver_rule_that_no_document_states_says_that_it_was_measured() -> None:
    measured = {rule.code for rule in RULES if rule.source.measured}
    assert {"TMA017", "TMA042", "TMA045"} <= measured


def test_two_rules_with_one_code_are_refused() -> None:
    with pytest.raises(LegalSatError, match="share the code"):
        rules_in(tma, tma_tiled, tma)


def test_a_rule_without_docstring_or_quote_is_refused() -> None:
    def undocumented(site: Any, limits: Any) -> Any:
        yield require(site, "fails", help="give something else")

    def documented(site: Any, limits: Any) -> Any:
        """Has a help page."""
        yield require(site, "fails", help="give something else")

    unit, source = Unit("nothing", lambda on: on), Source("nowhere", "field")
    with pytest.raises(LegalSatError, match="docstring"):
        unit.rule("X001", source.saying("words"), refused_by="document")(undocumented)
    with pytest.raises(LegalSatError, match="docstring"):
        unit.rule("X001", source, refused_by="document")(documented)


def test_errors_come_before_warnings() -> None:
    site = tiled(map_offset=32, address=8, element_stride=(2, 1))
    said = worst_first(d for rule in TENSOR_MAP_RULES for d in rule.check(site, target("h200")))
    assert [d.level for d in said] == ["error", "warning", "warning"]


def test_rules_of_movements_are_no_tensor_map_rules() -> None:
    codes = {rule.code for rule in TENSOR_MAP_RULES}
    extra = {
        rule.code
        for rule in rules_in(
            movement,
            vectors,
            wgmma,
            windows,
            padding,
            tcgen05_tiles,
            matrix,
            wgmma_shapes,
            tcgen05,
            tensor_memory,
            products,
            pipeline,
        )
    }
    assert not codes & extra
    assert codes | extra == set(BY_CODE)

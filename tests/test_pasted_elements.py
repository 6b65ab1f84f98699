"""Pasted code beside its maps and stages: sizes of elements, tiles that are read a round early, tiles of results."""

from __future__ import annotations

import pytest

import legalsat as ls
from legalsat.pasted.code.elements import explain_elements
from legalsat.pasted.code.waits import explain_waits
from legalsat.targets import target

FAILS = "The columns that arrive are wrong.\n"
MAP = """using index_t = {alias};
cuuint64_t extents[2] = {{{extents}}};
cuuint64_t pitch[1] = {{columns * sizeof(index_t)}};
cuuint32_t tile[2] = {{32, 8}};
cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_{type}, 2, base, extents, pitch, tile, ones,
    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
"""
LOOP = """for (int r = 0; r < rounds; ++r) {{
  barrier_wait(full[{waited} % 3], ({waited} / 3) & 1);
  ldmatrix_x4(fragment, tile({read}));
  multiply(sums, fragment);
}}
"""


@pytest.mark.parametrize(
    ("alias", "type_", "extents", "codes"),
    [
        ("int64_t", "INT32", "columns, rows", ["COPY010"]),
        ("double", "FLOAT32", "columns, rows", ["COPY010"]),
        ("unsigned long long", "UINT32", "columns, rows", ["COPY010"]),
        ("int32_t", "INT32", "columns, rows", []),
        ("float", "UINT32", "columns, rows", []),  # any type of that size
        ("double", "UINT8", "columns, rows", []),  # bytes
        ("__nv_bfloat16", "UINT32", "columns / 2, rows", []),  # two elements as one
        ("some_t", "INT32", "columns, rows", []),
    ],
)
def test_strides_count_the_elements_of_the_map(alias: str, type_: str, extents: str, codes: list[str]) -> None:
    code = MAP.format(alias=alias, type=type_, extents=extents)
    assert [one.code for one in explain_elements(FAILS + code, target("h200"))] == codes
    assert not list(explain_elements(f"It is fast.\n{code}", target("h200")))
    assert not list(explain_elements(FAILS + code, target("a100")))


def test_elements_of_another_size_are_told_first() -> None:
    code = MAP.format(alias="int64_t", type="INT32", extents="columns, rows")
    found = ls.explain(FAILS + code, "h200").diagnostics
    assert (found[0].code, found[0].level) == ("COPY010", "warning")
    assert "4 bytes" in found[0].message
    assert "elements of 8" in found[0].message


@pytest.mark.parametrize(
    ("waited", "read", "codes"),
    [("r", "r + 1", ["PIPE009"]), ("r", "r", []), ("(r + 1)", "r + 1", []), ("r", "step + 1", [])],
)
def test_a_tile_is_read_after_the_wait_of_its_own_round(waited: str, read: str, codes: list[str]) -> None:
    text = FAILS + LOOP.format(waited=waited, read=read)
    assert [one.code for one in explain_waits(text) if one.code == "PIPE009"] == codes


@pytest.mark.parametrize(
    ("beside", "codes"),
    [
        ("and a staging tile of 128 x 256 bf16", ["SMEM001"]),  # 196608 of stages and 65536 are more than 232448
        ("and a staging tile of 64 x 256 bf16", []),
        ("and nothing else", []),
    ],
)
def test_a_tile_of_results_lies_beside_the_stages(beside: str, codes: list[str]) -> None:
    text = f"It needs too much: tile 128 x 256 x 64 bf16, 4 stages, {beside}. The launch is out of resources."
    told = [one for one in ls.explain(text, "h200").diagnostics if one.where == "the tile that is printed"]
    assert [(one.code, one.level) for one in told] == [(code, "warning") for code in codes]

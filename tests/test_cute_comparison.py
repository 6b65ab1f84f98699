"""Our tensor maps cost no more than CuTe's for the problems of its own tests, and the cost tells maps apart."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import legalsat as ls
from bench.maps.cute_comparison import CUTES, GOLDEN, OURS, compared, cutes_map, measure, merged, modes_of, tiles


def test_no_map_of_cute_is_cheaper_and_every_difference_has_a_class() -> None:
    found = measure()
    assert len(found) == 103
    assert not [one for one in found if one.verdict == CUTES]
    assert all(one.why for one in found if one.ours != one.cutes)


def test_a_worse_box_of_cute_would_be_dearer_and_a_better_one_cheaper() -> None:
    entry = next(
        e for e in json.loads(GOLDEN.read_text(encoding="utf-8"))["entries"] if e["encode"]["boxDim"] == [64, 128]
    )
    halved = {**entry, "encode": {**entry["encode"], "boxDim": [64, 64]}}
    assert compared(halved).verdict == OURS
    wide = {**entry, "encode": {**entry["encode"], "boxDim": [64, 256], "globalDim": [128, 256]}}
    with pytest.raises(AssertionError, match="leaves its tile"):
        compared(wide)


def test_problems_are_read_as_cute_states_them() -> None:
    assert tiles([[8, 2], [8, 2]], [8, 8]) == [8, 1, 8, 1]
    assert tiles([[80, 40], [32, 12]], [[16, 8], [32, 2]]) == [16, 8, 32, 2]
    assert tiles([[32, 3], [32, 4, 2]], [[32], [32, 2]]) == [32, 1, 32, 2, 1]
    gmem = {"shape": [[4, 128], 128], "stride": [[1, 512], 4]}
    entry = {"gmem": gmem, "smem": {"shape": [128, 32], "stride": [1, 128]}, "cta_tile": [128, 32], "dtype": "int8"}
    assert modes_of(entry) == [(4, 1, 4), (128, 4, 32), (128, 512, 32)]


def test_dimensions_merge_only_where_memory_and_box_go_on() -> None:
    tm = ls.TensorMap("u8", (16, 4, 8), (16, 64), (16, 4, 2))
    assert merged(tm) == [(512, 1, 128)]
    assert merged(replace(tm, box=(16, 2, 2))) == [(64, 1, 32), (8, 64, 2)]
    assert merged(replace(tm, global_stride=(32, 128))) == [(16, 1, 16), (32, 32, 8)]
    assert cutes_map({**_ENCODE, "boxDim": [8]}).box == (8,)


_ENCODE = {
    "dataType": 0, "globalDim": [16], "globalStrides": [], "elementStrides": [1], "interleave": 0, "swizzle": 0,
    "l2Promotion": 2, "oobFill": 0,
}  # fmt: skip

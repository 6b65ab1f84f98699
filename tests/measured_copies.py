"""Reads the requests of measured loads and stores, as tests/data/README.md lists their columns."""

from __future__ import annotations

from typing import Any

from legalsat.units.tensor_map import TensorMap


def tensor_map(dtype: int, rank: int, codes: dict[str, int], numbers: dict[str, list[int]]) -> TensorMap:
    """Build the map of one measured request, whose lists are padded to the longest rank."""
    mode = codes.pop("mode")
    common: dict[str, Any] = {
        "dtype": dtype,
        "mode": mode,
        "global_dim": numbers["global_dim"][:rank],
        "global_stride": numbers["global_stride"][: rank - 1],
        "element_stride": numbers["element_stride"][:rank],
        **codes,
    }
    if not mode:
        return TensorMap(**common, box=tuple(numbers["box"][:rank]))
    return TensorMap(
        **common,
        channels=numbers["box"][0],
        pixels=numbers["box"][1],
        lower_corner=tuple(numbers["lower"][: rank - 2]),
        upper_corner=tuple(numbers["upper"][: rank - 2]),
    )


def request_numbers(columns: list[int]) -> dict[str, list[int]]:
    """Split the columns from global_dim on, as tests/data/README.md lists them."""
    names = {"global_dim": 5, "global_stride": 4, "box": 5, "element_stride": 5, "coordinate": 5}
    names |= {"lower": 3, "upper": 3, "offsets": 3}
    parts, at = {}, 0
    for name, length in names.items():
        parts[name] = columns[at : at + length]
        at += length
    return parts

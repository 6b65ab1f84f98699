"""What a dump may say that leaves fields out or does not say how its lists run: every map that it may be of.

A finding is certain if all of these maps have it. What is missing is filled in with what breaks no rule, so a finding
never rests on it; that none is found says nothing then.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any

from legalsat.errors import InvalidInput
from legalsat.pasted.fields import element_bytes
from legalsat.units.tensor_map import TensorMap

_WORDS = {
    "dtype": "the type",
    "global_dim": "the extents",
    "global_stride": "the strides",
    "box": "the box",
    "address": "the address",
    "swizzle": "the swizzle",
}
_BY_BYTES = {1: "u8", 2: "bf16", 4: "f32", 8: "u64"}
_LISTS = ("global_dim", "any_strides", "global_stride", "box", "element_stride")


def missing_fields(values: Mapping[str, Any], rank: int) -> tuple[str, ...]:
    """Return which fields a dump leaves out without which nobody can call a map legal, in words."""
    given = set(values) | ({"global_stride"} if "any_strides" in values or rank == 1 else set())
    given |= {"dtype"} if "element_bytes" in values else set()
    given |= {"box"} if values.get("mode") == "im2col" else set()
    return tuple(words for field, words in _WORDS.items() if field not in given)


def readings(values: Mapping[str, Any], rank: int, *, ordered: bool = True) -> tuple[TensorMap, ...]:
    """Return every map that a dump's fields may be of, each once; the likeliest first.

    Args:
        values: the fields by their `TensorMap` names, or "element_bytes", or "any_strides" of unknown order and unit.
        rank: the number of dimensions.
        ordered: whether the lists are known to run fastest dimension first.

    Raises:
        InvalidInput: they are of none.
    """
    types = [values["dtype"]] if "dtype" in values else [_BY_BYTES.get(values.get("element_bytes", 0), "")]
    types = types if types != [""] else list(_BY_BYTES.values())
    found: dict[TensorMap, None] = {}
    refusal: InvalidInput | None = None
    for turned, dtype, unit in product(_orders(values, ordered), types, ("bytes", "elements")):
        try:
            found[_reading(values, rank, dtype, turned=turned, unit=unit)] = None
        except InvalidInput as error:
            refusal = refusal or error
    if not found and refusal is not None:
        raise refusal
    return tuple(found)


def _orders(values: Mapping[str, Any], ordered: bool) -> tuple[bool, ...]:
    """Return in which orders the lists may run: as they stand, or turned round, where nothing says."""
    if "any_strides" not in values:
        return (False,) if ordered else (False, True)
    strides = values["any_strides"]
    if len(strides) > 1 and strides[0] != strides[-1]:
        return (strides[0] > strides[-1],)
    return (False, True)


def _reading(values: Mapping[str, Any], rank: int, dtype: str | int, *, turned: bool, unit: str) -> TensorMap:
    size = element_bytes(dtype)
    fields = {name: value for name, value in values.items() if name not in ("element_bytes", "any_strides")}
    for name in _LISTS:
        if turned and name in fields:
            fields[name] = fields[name][::-1]
    if "any_strides" in values:
        strides = values["any_strides"][::-1] if turned else values["any_strides"]
        fields["global_stride"] = _in_bytes(strides, rank, size, unit)
    extents = fields.setdefault("global_dim", fields.get("box", (64,) * rank))
    if len(extents) != rank:
        raise InvalidInput(f"the printed map has {len(extents)} extents; its rank is {rank}")
    if "global_stride" not in fields:
        row = -(-max(extents[:1], default=1) * size // 16) * 16 or 16
        fields["global_stride"] = tuple(row * prod(max(one, 1) for one in extents[1:at]) for at in range(1, rank))
    if "box" not in fields and fields.get("mode") != "im2col":
        fields["box"] = (max(16 // size, 1), *(1,) * (rank - 1))
    return TensorMap(dtype=dtype, **{name: value for name, value in fields.items() if name != "dtype"})


def _in_bytes(strides: tuple[int, ...], rank: int, size: int, unit: str) -> tuple[int, ...]:
    """Return the strides past the innermost in bytes: a list with the innermost one says its own unit by it."""
    if len(strides) == rank and rank > 0:
        factor = {1: size, size: 1}.get(strides[0], 1 if unit == "bytes" else size)
        return tuple(stride * factor for stride in strides[1:])
    return tuple(stride * (1 if unit == "bytes" else size) for stride in strides)

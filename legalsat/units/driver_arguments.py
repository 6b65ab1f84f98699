"""Tensors, tensor maps and copies from a mapping of their fields, under our names or those of the driver's call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from legalsat.checks import integer
from legalsat.errors import InvalidInput
from legalsat.tensor import Tensor
from legalsat.units.tensor_copy import BulkCopy, TensorCopy
from legalsat.units.tensor_map import TensorMap

# The driver's enumerators in the order of their values (FACTS VER-07), by the field of `TensorMap`.
ENUMERATORS: Mapping[str, tuple[str, ...]] = {
    field: tuple(prefix + name for name in names.split())
    for field, prefix, names in (
        (
            "dtype",
            "CU_TENSOR_MAP_DATA_TYPE_",
            "UINT8 UINT16 UINT32 INT32 UINT64 INT64 FLOAT16 FLOAT32 FLOAT64 BFLOAT16 FLOAT32_FTZ TFLOAT32 TFLOAT32_FTZ "
            "16U4_ALIGN8B 16U4_ALIGN16B 16U6_ALIGN16B",
        ),
        ("interleave", "CU_TENSOR_MAP_INTERLEAVE_", "NONE 16B 32B"),
        ("swizzle", "CU_TENSOR_MAP_SWIZZLE_", "NONE 32B 64B 128B 128B_ATOM_32B 128B_ATOM_32B_FLIP_8B 128B_ATOM_64B"),
        ("l2_promotion", "CU_TENSOR_MAP_L2_PROMOTION_", "NONE L2_64B L2_128B L2_256B"),
        ("oob_fill", "CU_TENSOR_MAP_FLOAT_OOB_FILL_", "NONE NAN_REQUEST_ZERO_FMA"),
    )
}
# The parameters of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col (cuda.h 13.0), by our names.
ARGUMENTS = {
    "tensorDataType": "dtype",
    "tensorRank": "rank",
    "globalAddress": "address",
    "globalDim": "global_dim",
    "globalStrides": "global_stride",
    "boxDim": "box",
    "elementStrides": "element_stride",
    "interleave": "interleave",
    "swizzle": "swizzle",
    "l2Promotion": "l2_promotion",
    "oobFill": "oob_fill",
    "pixelBoxLowerCorner": "lower_corner",
    "pixelBoxUpperCorner": "upper_corner",
    "channelsPerPixel": "channels",
    "pixelsPerColumn": "pixels",
}
_IM2COL = frozenset({"lower_corner", "upper_corner", "channels", "pixels"})


def _names(kind: type) -> frozenset[str]:
    return frozenset(field.name for field in fields(kind))


_TENSOR, _MAP, _BULK = _names(Tensor), _names(TensorMap) | {"rank"}, _names(BulkCopy)
_COPY = _names(TensorCopy)


def from_fields(given: Mapping[Any, Any]) -> Tensor | TensorMap | TensorCopy | BulkCopy:
    """Return what a mapping of fields describes: whichever of the four has all of them.

    Fields of a tensor map may bear the names of the driver's parameters, such as "globalDim", and its enumerators,
    such as "CU_TENSOR_MAP_SWIZZLE_128B". A copy's fields stand beside its map's; its `tensor` may be a mapping too.
    Entries of arrays past "tensorRank" are left out, as the driver ignores them.

    Raises:
        InvalidInput: a name belongs to none of them, fields of several are mixed, or one is missing or has no meaning.
    """
    named: dict[str, Any] = {}
    for name, value in given.items():
        field = ARGUMENTS.get(name, name) if isinstance(name, str) else name
        if field in named:
            raise InvalidInput(f"{field} is given twice, as {name} too; give it once")
        named[field] = value
    names = named.keys()
    if names <= _TENSOR:
        return Tensor(**_complete(named, "shape", "dtype"))
    if names <= _MAP:
        return _tensor_map(named)
    if names <= _BULK:
        return BulkCopy(**named)
    if names <= _MAP | _COPY:
        return _tensor_copy(named)
    strange = [str(name) for name in named if name not in _TENSOR | _MAP | _BULK | _COPY]
    if strange:
        known = ", ".join(sorted((_TENSOR | _MAP | _BULK | _COPY) | set(ARGUMENTS)))
        raise InvalidInput(f"fields name {', '.join(strange)}; give some of {known}")
    raise InvalidInput(f"fields {', '.join(named)} belong to no one thing; give those of a tensor, a map or a copy")


def _tensor_copy(named: Mapping[str, Any]) -> TensorCopy:
    given = dict(named)
    own = {name: given.pop(name) for name in list(given) if name in _COPY}
    if given:
        if "tensor_map" in own:
            raise InvalidInput(f"tensor_map is given, and its field {next(iter(given))} too; give one of them")
        own["tensor_map"] = _tensor_map(given)
    for name in ("tensor_map", "tensor"):
        if isinstance(own.get(name), Mapping):
            own[name] = from_fields(own[name])
    return TensorCopy(**_complete(own, "tensor_map"))


def _tensor_map(named: Mapping[str, Any]) -> TensorMap:
    values = _complete(named, "dtype", "global_dim")
    for field, names in ENUMERATORS.items():
        if values.get(field) in names:
            values[field] = names.index(values[field])
    if "mode" not in values and _IM2COL & values.keys():
        values["mode"] = "im2col"
    if "rank" in values:
        rank = integer(values.pop("rank"), "tensorRank", low=0, high=len(values["global_dim"]))
        for field, length in (
            ("global_dim", rank),
            ("global_stride", rank - 1),
            ("box", rank),
            ("element_stride", rank),
        ):
            if isinstance(values.get(field), list | tuple):
                values[field] = values[field][: max(length, 0)]
    return TensorMap(**values)


def _complete(named: Mapping[str, Any], *needed: str) -> dict[str, Any]:
    for name in needed:
        if name not in named:
            raise InvalidInput(f"{name} is missing; give it beside {', '.join(named) or 'the other fields'}")
    return dict(named)

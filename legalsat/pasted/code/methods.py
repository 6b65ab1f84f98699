"""What methods and attributes of arrays give: views, casts, copies, numbers. Anything else is not known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from legalsat.dtypes import DTYPES, DType
from legalsat.pasted.code.arguments import extents_of, given, named_type, number_of, strided, type_of
from legalsat.pasted.code.views import (
    MOST_PARTS,
    Array,
    chunk_lengths,
    dense,
    exchanged,
    expanded,
    fresh,
    indexed,
    permuted,
    pieces,
    reshaped,
    retyped,
    split_lengths,
    squeezed,
    unsqueezed,
)

_SAME = frozenset(
    {"requires_grad_", "detach", "normal_", "uniform_", "fill_", "zero_", "fill", "clamp_", "data_ptr", "data",
     "pin_memory", "random_", "copy_", "mul_", "add_", "div_", "view_as_real", "block_until_ready", "wait", "value",
     "mark_layout_dynamic", "mark_compact_shape_dynamic"}
)  # fmt: skip
_FRESH = frozenset(
    {"clone", "relu", "exp", "abs", "neg", "add", "mul", "sub", "div", "copy", "normal", "sigmoid", "round", "clamp",
     "silu", "gelu", "tanh", "sqrt", "rsqrt"}
)  # fmt: skip
_CASTS = {
    "half": "fp16",
    "bfloat16": "bf16",
    "float": "fp32",
    "double": "fp64",
    "int": "i32",
    "long": "i64",
    "bool": "bool",
}


def method_of(array: Array, name: str, arguments: Sequence[Any] | None, keywords: Mapping[str, Any]) -> Any:
    """Return what an attribute (where `arguments` is None) or a method of an array gives; None if it is not known."""
    if arguments is None:
        return _attribute(array, name)
    if name in _SAME:
        return array
    if name in _FRESH:
        return fresh(array)
    if name in _CASTS:
        return _cast(array, DTYPES[_CASTS[name]])
    return _METHODS[name](array, list(arguments), keywords) if name in _METHODS else None


def _attribute(array: Array, name: str) -> Any:
    if name in ("T", "H"):
        return permuted(array, range(array.rank)[::-1])
    if name in ("mT", "mH"):
        return exchanged(array, -1, -2)
    known = {
        "shape": array.shape,
        "dtype": None if array.dtype is None else DTYPES[array.dtype],
        "ndim": array.rank,
        "data": array,
        "itemsize": None if array.dtype is None else DTYPES[array.dtype].bits // 8,
    }
    return known.get(name)


def _cast(array: Array, kind: DType | None) -> Array | None:
    """Return the array as another type: itself if it has the type, else a copy; which, if its own is not known."""
    if kind is None:
        return None
    if array.dtype == kind.name:
        return array
    copied = replace(fresh(array), dtype=kind.name)
    if array.dtype is not None or copied == replace(array, dtype=kind.name):
        return copied
    return replace(array, dtype=kind.name, strides=(None,) * array.rank, offset=None)


def _to(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> Array | None:
    kind = type_of([one for one in values if not (isinstance(one, str) and named_type(one) is None)], keywords)
    if kind is not None:
        return _cast(array, kind)
    if "dtype" in keywords:  # a type that is not known
        moved = fresh(array)
        return replace(moved, dtype=None)
    if values and isinstance(values[0], Array):
        return _cast(array, None if values[0].dtype is None else DTYPES[values[0].dtype])
    if values and values[0] is None:  # a device or a type
        return replace(_moved(array, values, keywords), dtype=None)
    return _moved(array, values, keywords)


def _moved(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> Array:
    """Return the array on a device: itself or a copy, which is not known, unless both lie alike."""
    copied = fresh(array)
    if copied == array:
        return array
    strides = tuple(one if one == two else None for one, two in zip(array.strides, copied.strides, strict=True))
    return replace(array, strides=strides, offset=array.offset if array.offset == copied.offset else None)


def _view(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> Array | None:
    kind = type_of(values, keywords)
    if kind is not None:
        return retyped(array, kind.name)
    sizes = extents_of(values)
    return None if sizes is None else reshaped(array, sizes, may_copy=False)


def _reshape(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> Array | None:
    sizes = extents_of(values or [keywords.get("shape")])
    return None if sizes is None else reshaped(array, sizes, may_copy=True)


def _contiguous(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> Array | None:
    if "memory_format" in keywords:
        return None
    return array if array.contiguous else dense(array.shape, array.dtype, array.library)


def _permute(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> Array | None:
    order = extents_of(values or [keywords.get("dims", keywords.get("axes"))])
    return None if order is None else permuted(array, order)


def _transpose(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> Array | None:
    if not values and not keywords:  # numpy's
        return permuted(array, range(array.rank)[::-1])
    if array.library != "torch" or len(values) == 1 or len(values) > 2:
        return _permute(array, values, keywords)
    return exchanged(
        array, number_of(values, keywords, 0, "dim0", "axis1"), number_of(values, keywords, 1, "dim1", "axis2")
    )


def _stride(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> Any:
    at = number_of(values, keywords, 0, "dim")
    if not values and not keywords:
        return array.strides
    return array.strides[at] if at is not None and -array.rank <= at < array.rank else None


def _size(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> Any:
    at = number_of(values, keywords, 0, "dim")
    if not values and not keywords:
        return array.shape
    return array.shape[at] if at is not None and -array.rank <= at < array.rank else None


def _numel(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> int | None:
    return None if None in array.shape else prod(extent or 0 for extent in array.shape)


def _expand(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> Array | None:
    sizes = extents_of(values)
    return None if sizes is None else expanded(array, sizes)


def _narrow(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> Array | None:
    axis, begin = number_of(values, keywords, 0, "dim"), number_of(values, keywords, 1, "start")
    length = number_of(values, keywords, 2, "length")
    if axis is None or begin is None or length is None or begin < 0:
        return None
    found = list(pieces(array, axis, [begin, length]))
    return found[1] if len(found) == 2 else None


def _select(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> Array | None:
    axis, index = number_of(values, keywords, 0, "dim"), number_of(values, keywords, 1, "index")
    if axis is None or not -array.rank <= axis < array.rank:
        return None
    moved = permuted(array, [axis % array.rank, *(at for at in range(array.rank) if at != axis % array.rank)])
    return None if moved is None else indexed(moved, [index])


def _unbind(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> list[Array | None] | None:
    axis = number_of(values, keywords, 0, "dim") or 0
    count = array.shape[axis] if -array.rank <= axis < array.rank else None
    if count is None or count > MOST_PARTS:
        return None
    return [_select(array, [axis, at], {}) for at in range(count)]


def _chunk(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> list[Array | None] | None:
    axis = number_of(values, keywords, 1, "dim") or 0
    if not -array.rank <= axis < array.rank:
        return None
    return list(pieces(array, axis, chunk_lengths(array.shape[axis], number_of(values, keywords, 0, "chunks")))) or None


def _split(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> list[Array | None] | None:
    axis, asked = (
        number_of(values, keywords, 1, "dim") or 0,
        given(values, keywords, 0, "split_size", "split_size_or_sections"),
    )
    if not -array.rank <= axis < array.rank:
        return None
    if isinstance(asked, list | tuple):
        if not all(isinstance(one, int) for one in asked):
            return None
        return list(pieces(array, axis, list(asked))) or None
    return (
        list(pieces(array, axis, split_lengths(array.shape[axis], asked if isinstance(asked, int) else None))) or None
    )


def _flatten(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> Array | None:
    first, last = given(values, keywords, 0, "start_dim"), given(values, keywords, 1, "end_dim")
    begin, end = (first if isinstance(first, int) else 0), (last if isinstance(last, int) else -1)
    if not array.rank or not -array.rank <= begin < array.rank or not -array.rank <= end < array.rank:
        return None
    begin, end = begin % array.rank, end % array.rank
    merged = array.shape[begin : end + 1]
    size = None if None in merged else prod(extent or 0 for extent in merged)
    return reshaped(array, [*array.shape[:begin], size, *array.shape[end + 1 :]], may_copy=True)


def _unflatten(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> Array | None:
    axis, sizes = number_of(values, keywords, 0, "dim"), extents_of([given(values, keywords, 1, "sizes")])
    if axis is None or sizes is None or not -array.rank <= axis < array.rank:
        return None
    at = axis % array.rank
    return reshaped(array, [*array.shape[:at], *sizes, *array.shape[at + 1 :]], may_copy=False)


def _squeeze(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> Array | None:
    return squeezed(array, number_of(values, keywords, 0, "dim", "axis"), every=not values and not keywords)


def _type(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> Array | None:
    return _cast(array, type_of(values, keywords))


def _itemsize(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> int | None:
    return None if array.dtype is None else DTYPES[array.dtype].bits // 8


def _swapped(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> Array | None:
    return exchanged(array, number_of(values, keywords, 0), number_of(values, keywords, 1))


def _scalar(array: Array, values: list[Any], keywords: Mapping[str, Any]) -> float | None:
    """Return a number that is not known, as reductions of a whole array give."""
    return None if values or keywords else math.nan


_METHODS: Mapping[str, Callable[[Array, list[Any], Mapping[str, Any]], Any]] = {
    "t": lambda array, values, keywords: permuted(array, range(array.rank)[::-1]),
    "transpose": _transpose, "swapaxes": _swapped, "swapdims": _swapped, "permute": _permute, "view": _view,
    "reshape": _reshape, "contiguous": _contiguous, "to": _to, "type": _type, "astype": _type, "cuda": _moved,
    "cpu": _moved, "stride": _stride, "size": _size, "numel": _numel, "dim": lambda array, values, keywords: array.rank,
    "expand": _expand, "broadcast_to": _expand, "narrow": _narrow, "select": _select, "unbind": _unbind,
    "chunk": _chunk, "split": _split, "flatten": _flatten, "ravel": _flatten, "unflatten": _unflatten,
    "squeeze": _squeeze, "element_size": _itemsize, "ascontiguousarray": _contiguous,
    "unsqueeze": lambda array, values, keywords: unsqueezed(array, number_of(values, keywords, 0, "dim")),
    "expand_dims": lambda array, values, keywords: unsqueezed(array, number_of(values, keywords, 0, "axis")),
    "as_strided": lambda array, values, keywords: strided("as_strided", [array, *values], keywords, None),
    "storage_offset": lambda array, values, keywords: array.offset,
    **dict.fromkeys(("max", "min", "amax", "amin", "sum", "mean", "item"), _scalar),
    "from_dlpack": lambda array, values, keywords: array,
    "asarray": _to, "device_put": lambda array, values, keywords: array,
}  # fmt: skip

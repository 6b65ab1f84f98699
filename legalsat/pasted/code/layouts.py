"""Layouts of CuTe in pasted code, Python and C++: the tensors in global memory that tensor maps are made of.

`make_layout((M, K), stride=(K, 1))` and `make_layout(make_shape(M, K), make_stride(K, _1{}))` give extents and strides
in any order of axes; without strides, the first axis is the fastest. What is not a plain number is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from legalsat.pasted.code.arguments import given, named_type
from legalsat.pasted.code.expressions import Called
from legalsat.pasted.code.host_code import arguments_of, constants, whole_number
from legalsat.pasted.code.views import Array, Extent, dense_strides

MOST_TENSORS = 16
_MAKES_MAPS = re.compile(r"\bmake_tma_(?:copy|atom)\w*\s?[<(]|\bSM90_TMA_\w+")
_TENSOR = re.compile(r"\bmake_tensor\s?\((?P<given>[^;]{1,600})\)\s?;")
_NAMED = re.compile(
    r"\bauto\s+(?P<name>\w+)\s?=\s?(?P<value>(?:\w+::)*make_(?:layout|shape|stride)\s?\([^;]{1,400}\))\s?;"
)
_MADE = re.compile(r"\s?(?:\w+::)*make_(?P<what>layout|shape|stride)\s?\((?P<given>.{1,400})\)\s?", re.DOTALL)
_STATIC = re.compile(r"(?:\w+::)*(?:_(\d{1,9})|Int<(\w{1,60})>)\s?(?:\{\}|\(\))")
_ELEMENT = re.compile(r"make_gmem_ptr<(?P<of>[\w:]{1,60})>|_cast<(?P<cast>[\w:]{1,60})")
_ROWS, _COLUMNS = ("LayoutRight", "GenRowMajor"), ("LayoutLeft", "GenColMajor")


def tensor_of(argument: Any) -> Array | None:
    """Return the tensor in global memory that an argument of Python is, its slowest axis first; None if not known."""
    if isinstance(argument, Array):
        return _sorted(argument.shape, argument.strides, argument.dtype, argument.offset)
    if not isinstance(argument, Called) or not argument.name.endswith("make_tensor"):
        return None
    pointer, layout = (given(argument.arguments, argument.keywords, at, name) for at, name in enumerate(_OF_TENSOR))
    kind = None
    if isinstance(pointer, Called) and pointer.name.endswith("make_ptr"):
        found = named_type(given(pointer.arguments, pointer.keywords, 0, "dtype"))
        kind = None if found is None else found.name
    if not isinstance(layout, Called) or not layout.name.endswith(("make_layout", "make_ordered_layout")):
        return None
    shape = _numbers(given(layout.arguments, layout.keywords, 0, "shape"))
    written = given(layout.arguments, layout.keywords, 1, "stride", "order")
    if shape is None:
        return None
    if layout.name.endswith("make_ordered_layout"):
        order = _numbers(written)
        return None if order is None or len(order) != len(shape) else _ordered(shape, order, kind)
    strides = dense_strides(shape[::-1])[::-1] if written is None else _numbers(written)
    return None if strides is None or len(strides) != len(shape) else _sorted(shape, strides, kind, None)


_OF_TENSOR = ("iterator", "layout")


def tensors_of_maps(text: str) -> Iterator[Array]:
    """Yield the tensors that a text's C++ makes, where it makes tensor maps too."""
    if not _MAKES_MAPS.search(text):
        return
    names = constants(text)
    named = {match["name"]: match["value"] for match in islice(_NAMED.finditer(text), MOST_TENSORS)}
    for match in islice(_TENSOR.finditer(text), MOST_TENSORS):
        pointer, *layout = arguments_of(match["given"])
        # In shared memory and registers no stride is a tensor map's.
        if "make_smem_ptr" in pointer or not layout:
            continue
        kind = _element(pointer, text)
        found = _of_cpp([named.get(one, one) for one in layout], names, named, kind)
        if found is not None:
            yield found


def _of_cpp(
    layout: Sequence[str], names: Mapping[str, int], named: Mapping[str, str], kind: str | None
) -> Array | None:
    whole = _MADE.fullmatch(layout[0])
    if whole is not None and whole["what"] == "layout":
        layout = [named.get(one, one) for one in arguments_of(whole["given"])]
        whole = _MADE.fullmatch(layout[0])
    if whole is None or whole["what"] != "shape":
        return None
    shape = _read(whole["given"], names)
    if len(layout) == 1 or layout[1].startswith(_COLUMNS):
        strides: Sequence[Extent] = dense_strides(shape[::-1])[::-1]
    elif layout[1].startswith(_ROWS):
        strides = dense_strides(shape)
    else:
        steps = _MADE.fullmatch(layout[1])
        strides = () if steps is None or steps["what"] != "stride" else _read(steps["given"], names)
    return None if len(strides) != len(shape) else _sorted(shape, strides, kind, None)


def _read(words: str, names: Mapping[str, int]) -> tuple[Extent, ...]:
    plain = _STATIC.sub(lambda match: match[1] or match[2], words)
    return tuple(whole_number(one, names) for one in arguments_of(plain))


def _element(pointer: str, text: str) -> str | None:
    """Return the element type of a pointer by its cast, or as the text declares it."""
    written = _ELEMENT.search(pointer)
    last = re.search(r"(\w+)(?:\.\w+\(\))?\)*$", pointer)
    name = None if written is None else written["of"] or written["cast"]
    if name is None and last is not None:
        declared = re.search(rf"\b([\w:]{{1,60}})\s?(?:const\s?)?\*\s?(?:const\s)?\b{re.escape(last[1])}\b", text)
        name = None if declared is None else declared[1]
    kind = None if name is None else named_type(name.rpartition(":")[2])
    return None if kind is None else kind.name


def _numbers(value: Any) -> tuple[Extent, ...] | None:
    """Return extents or strides; None of nested ones."""
    if not isinstance(value, list | tuple) or any(isinstance(one, list | tuple | str) for one in value):
        return None
    return tuple(one if isinstance(one, int) and not isinstance(one, bool) else None for one in value)


def _ordered(shape: Sequence[Extent], order: Sequence[Extent], kind: str | None) -> Array | None:
    if None in order:
        return None
    slowest = sorted(range(len(shape)), key=lambda at: order[at] or 0, reverse=True)
    extents = tuple(shape[at] for at in slowest)
    return Array(extents, dense_strides(extents), kind, None)


def _sorted(shape: Sequence[Extent], strides: Sequence[Extent], kind: str | None, offset: Extent) -> Array | None:
    """Return a tensor with its slowest axis first, as a tensor map is made of it; None if the order is not known."""
    if None in strides or not shape or 0 in strides:
        return None
    axes = sorted(range(len(shape)), key=lambda at: strides[at] or 0, reverse=True)
    return Array(tuple(shape[at] for at in axes), tuple(strides[at] for at in axes), kind, offset)

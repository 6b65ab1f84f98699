"""Operators of PyTorch as rows of a sweep: one function for each, from its arguments and its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from legalsat.dtypes import dtype as as_dtype
from legalsat.operators import Copy
from legalsat.operators.gemm import Gemm
from legalsat.tensor import Tensor, row_major

GRANULE = 16  # bytes; to multiples of more, no rule cares where a tensor lies
LAYOUTS = {"bshd": (0, 2, 1, 3), "bhsd": (0, 1, 2, 3)}  # how attention's axes may be stored: the order of its four
Row = dict[str, Any]
Reader = Callable[[dict[str, Any], Any], Row]


class _Seen(NamedTuple):
    """A tensor as it is: strides in elements, bytes past a granule, and which storage holds it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    offset: int
    storage: int

    def of(self, axes: Sequence[int]) -> _Seen:
        """Return the view with its axes in another order."""
        return self._replace(shape=tuple(self.shape[a] for a in axes), strides=tuple(self.strides[a] for a in axes))

    def first(self) -> _Seen:
        """Return the first of several matrices."""
        return self._replace(shape=self.shape[1:], strides=self.strides[1:])

    def column(self) -> _Seen:
        """Return a vector as a matrix of one column."""
        return self._replace(shape=(*self.shape, 1), strides=(*self.strides, 1))

    def spread(self, shape: tuple[int, ...]) -> _Seen:
        """Return the view that repeats elements to a larger shape."""
        more = len(shape) - len(self.shape)
        old = zip(shape[more:], self.shape, self.strides, strict=True)
        return self._replace(shape=shape, strides=(*(0 for _ in range(more)), *(s if n == m else 0 for n, m, s in old)))

    @property
    def dense(self) -> tuple[int, ...]:
        """The strides that a dense row-major tensor of this shape has."""
        return tuple(int(stride) for stride in row_major(self.shape) if isinstance(stride, int))


class CannotSay(Exception):
    """Rows have no words for an operator; why."""


def _seen(tensor: Any) -> _Seen:
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized:
        raise CannotSay(f"a tensor is {'nested' if tensor.is_nested else tensor.layout}")
    if not all(isinstance(extent, int) for extent in tensor.shape):
        raise CannotSay("an extent is symbolic")
    if not tensor.numel():
        raise CannotSay("a tensor is empty")
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    return _Seen(shape, strides, as_dtype(tensor.dtype).name, _offset(tensor), storage_of(tensor))


def _offset(tensor: Any) -> int:
    if tensor.device.type != "meta":
        with suppress(RuntimeError, NotImplementedError):  # of tensors that only look as if they had memory
            return int(tensor.data_ptr()) % GRANULE
    return int(tensor.storage_offset()) * int(tensor.element_size()) % GRANULE


def storage_of(tensor: Any) -> int:
    """Return what tells a tensor's storage from others that exist; 0 where it has none."""
    with suppress(RuntimeError, NotImplementedError):
        return int(tensor.untyped_storage()._cdata)
    return 0


def _product(a: _Seen, b: _Seen, c: _Seen) -> Row:
    """Return the row of c = a b, of matrices or of as many of them."""
    if len(a.shape) == 3 and a.shape[0] == 1:
        a, b, c = a.first(), b.first(), c.first()
    batch = a.shape[:-2]
    (m, k), n = a.shape[-2:], b.shape[-1]
    row: Row = {"operator": "gemm", "m": m, "n": n, "k": k, "dtype": a.dtype}
    row |= {"batch": batch[0]} if batch else {}
    row |= {"b_dtype": b.dtype} if b.dtype != a.dtype else {}
    row |= {"out_dtype": c.dtype} if c.dtype != _summed(a.dtype) else {}
    turned = b.of((*range(len(batch)), len(batch) + 1, len(batch)))
    for name, one, across in (("a", a, "M"), ("b", turned, "N"), ("c", c, "M")):
        row |= _matrix(name, one, across)
    return {**row, "storage": b.storage}


@lru_cache(maxsize=64)
def _summed(dtype: str) -> str:
    return Gemm(1, 1, 1, dtype).out_dtype.name


def _matrix(name: str, one: _Seen, across: str) -> Row:
    """Return how an operand is stored; `across` is the letter of its first axis, along which it may run fastest."""
    row: Row = {f"{name}_offset": one.offset} if one.offset else {}
    if one.strides == one.dense:
        return row
    if len(one.shape) == 2:
        (lines, width), (down, right) = one.shape, one.strides
        if right == 1 and down >= width:
            return {f"{name}_pitch": down, **row}
        if down == 1 and right >= lines:
            return {f"{name}_major": across, **({f"{name}_pitch": right} if right > lines else {}), **row}
    return {f"{name}_strides": one.strides, **row}


def _multiplied(first: str, second: str) -> Reader:
    """Return what reads a product whose operands have these names."""

    def read(given: dict[str, Any], result: Any) -> Row:
        a, b, c = _seen(given[first]), _seen(given[second]), _seen(result)
        if len(a.shape) == 1:  # of two vectors
            a, c = a.column().of((1, 0)), c.column()
        if len(b.shape) == 1:
            b, c = b.column(), c.column()
        return _product(a, b, c)

    return read


def attention(given: dict[str, Any], result: Any) -> Row:
    """Return the row of attention, from its query, key, value and is_causal, and from the result, alone or first."""
    tensors = [given["query"], given["key"], given["value"], result if hasattr(result, "shape") else result[0]]
    q, k, v, out = (_four_axes(_seen(one)) for one in tensors)
    (batch, heads, queries, head), (_, kv_heads, keys, _), v_head = q.shape, k.shape, v.shape[-1]
    row: Row = {"operator": "attention", "batch": batch, "heads": heads, "queries": queries, "keys": keys, "head": head}
    row |= {"dtype": q.dtype} | ({"kv_heads": kv_heads} if kv_heads != heads else {})
    row |= {"v_head": v_head} if v_head != head else {}
    row |= {"causal": True} if given.get("is_causal") else {}
    wide = {"q": q, "k": k.spread((batch, *k.shape[1:])), "v": v.spread((batch, kv_heads, keys, v_head)), "out": out}
    if {one.dtype for one in wide.values()} != {q.dtype}:
        raise CannotSay("its tensors differ in type")
    said = {layout: [name for name, one in wide.items() if one.strides != _dense(one, layout)] for layout in LAYOUTS}
    layout = min(said, key=lambda one: len(said[one]))
    row |= {"layout": layout} | {f"{name}_strides": wide[name].strides for name in said[layout]}
    return row | {f"{name}_offset": one.offset for name, one in wide.items() if one.offset}


def _four_axes(one: _Seen) -> _Seen:
    if len(one.shape) > 4:
        raise CannotSay(f"a tensor has {len(one.shape)} axes")
    while len(one.shape) < 4:
        one = one._replace(shape=(1, *one.shape), strides=(one.shape[0] * one.strides[0], *one.strides))
    return one


def _dense(one: _Seen, layout: str) -> tuple[int, ...]:
    order = LAYOUTS[layout]
    return one.of(order)._replace(strides=one.of(order).dense).of(order).strides  # each order is its own inverse


def _convolution(given: dict[str, Any], _result: Any) -> Row:
    images, weight, rank = _seen(given["input"]), _seen(given["weight"]), len(given["stride"])
    if given["transposed"]:
        raise CannotSay("it is transposed")
    if rank > 2 or len(images.shape) != rank + 2:
        raise CannotSay(f"it has {rank} spatial axes")
    if rank == 1:  # a line of one image
        (n, c, w), (sn, sc, sw) = images.shape, images.strides
        images = images._replace(shape=(n, c, 1, w), strides=(sn, sc, w * sw, sw))
    by_channel = images.dense
    images = images.of((0, 2, 3, 1))
    batch, height, width, channels = images.shape
    row: Row = {"operator": "conv", "batch": batch, "height": height, "width": width, "channels": channels}
    row |= {"kernel_h": weight.shape[2] if rank == 2 else 1, "kernel_w": weight.shape[-1]}
    row |= {"dtype": images.dtype, "filters": weight.shape[0]}
    row |= {"groups": given["groups"]} if given["groups"] != 1 else {}
    for name, usual in (("stride", 1), ("padding", 0), ("dilation", 1)):
        numbers = tuple(given[name]) if rank == 2 else (usual, *given[name])
        row |= {name: numbers} if set(numbers) != {usual} else {}
    if images.of((0, 3, 1, 2)).strides == by_channel:
        row["layout"] = "nchw"
    elif images.strides != images.dense:
        row["strides"] = images.strides
    return row | ({"offset": images.offset} if images.offset else {})


def _padding(given: dict[str, Any], result: Any) -> Row:
    source, padded, beside = _seen(given["self"]), _seen(result), list(given["pad"])
    pairs = [*zip(beside[::2], beside[1::2], strict=True)]  # of the last axis first
    pairs += [(0, 0)] * (len(source.shape) - len(pairs))
    row: Row = {"operator": "pad", "padding": tuple(number for pair in reversed(pairs) for number in pair)}
    row |= _tensor(source) | ({"value": float(given["value"])} if given["value"] else {})
    return row | ({"target_strides": padded.strides} if padded.strides != padded.dense else {})


def _copied(given: dict[str, Any], result: Any) -> Row:
    into = given.get("src") is not None
    old, new = (given["src"], given["self"]) if into else (given["self"], result)
    if old.device != new.device:
        raise CannotSay(f"from {old.device.type} to {new.device.type}")
    if old.dtype != new.dtype:
        raise CannotSay(f"from {old.dtype} to {new.dtype}")
    source, target = _seen(old), _seen(new)
    if not source.shape or not target.shape:
        raise CannotSay("of one element")
    source = source.spread(target.shape)
    turned = _transposed(source, target)
    if turned:
        return turned
    row = {"operator": "copy", **_tensor(source)}
    like = Copy(Tensor(source.shape, source.dtype, source.strides)).target.strides
    row |= {"target_strides": target.strides} if target.strides != like else {}
    return row | ({"target_offset": target.offset} if target.offset else {})


def _transposed(source: _Seen, target: _Seen) -> Row | None:
    """Return the row of a copy that changes the order of axes and is dense then; None for other copies."""
    rank = range(len(source.shape))
    order = sorted(rank, key=lambda axis: (-source.strides[axis], axis))
    long = [axis for axis in order if source.shape[axis] > 1]
    if target.offset or target.strides != target.dense or 0 in source.strides or long == sorted(long):
        return None
    return {"operator": "transpose", **_tensor(source.of(order)), "order": tuple(order.index(axis) for axis in rank)}


def _tensor(one: _Seen) -> Row:
    row: Row = {"shape": one.shape, "dtype": one.dtype}
    row |= {"strides": one.strides} if one.strides != one.dense else {}
    return row | ({"offset": one.offset} if one.offset else {})


_READERS: dict[str, Reader] = {
    "aten::mm": _multiplied("self", "mat2"),
    "aten::addmm": _multiplied("mat1", "mat2"),
    "aten::bmm": _multiplied("self", "mat2"),
    "aten::baddbmm": _multiplied("batch1", "batch2"),
    "aten::mv": _multiplied("self", "vec"),
    "aten::addmv": _multiplied("mat", "vec"),
    "aten::_int_mm": _multiplied("self", "mat2"),
    "aten::_scaled_mm": _multiplied("self", "mat2"),
    "aten::_addmm_activation": _multiplied("mat1", "mat2"),
    "aten::scaled_dot_product_attention": attention,
    "aten::convolution": _convolution,
    "aten::constant_pad_nd": _padding,
    "aten::clone": _copied,
    "aten::copy_": _copied,
    "aten::_to_copy": _copied,
}


@lru_cache(maxsize=4096)
def reader(func: Any) -> Reader | None:
    """Return what makes a row of an operator; None where no row is made of it."""
    name = func._schema.name
    if name.startswith("aten::_scaled_dot_product_") and not name.endswith("_backward"):
        return attention
    return _READERS.get(name) or _READERS.get(name.removesuffix("_"))  # in place is the same

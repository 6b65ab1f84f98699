"""What calls of torch, numpy, jax and their kin make of arrays, as far as shape and strides go.

Factories, and functions that give a fresh array. Anything else is not known. Frameworks share the names, so a call is
known by its last name, and by its first one only where two mean different things.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from legalsat.dtypes import DType
from legalsat.pasted.code.arguments import DEVICE, extents_of, given, strided, type_of
from legalsat.pasted.code.methods import method_of
from legalsat.pasted.code.views import LARGEST, MOST_PARTS, Array, Extent, dense, fresh

_LIBRARIES = {"np": "numpy", "numpy": "numpy", "cp": "numpy", "cupy": "numpy", "jnp": "jax", "jax": "jax"}
_FILLED = frozenset({"randn", "rand", "empty", "zeros", "ones", "standard_normal"})
_ALIKE = frozenset({"empty_like", "zeros_like", "ones_like", "randn_like", "rand_like", "full_like"})
_STRIDED = frozenset({"empty_strided", "empty_strided_cuda", "rand_strided"})


def call_of(dotted: str, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Return what a call of a framework's function gives: an array, a number, several of them; None if unknown."""
    last = dotted.rpartition(".")[2]
    if last in _SIMPLE:
        return _SIMPLE[last](*arguments) if _plain(arguments) else None
    if last in _COMBINING:
        return _COMBINING[last](arguments, keywords)
    made = _made(dotted, list(arguments), keywords)
    first = arguments[0] if arguments else None
    if made is None and isinstance(first, Array):  # torch.transpose(x, 0, 1) is x.transpose(0, 1)
        return method_of(first, last, list(arguments[1:]), keywords)
    return made


def _plain(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | list | tuple) and not _has_unknown(value) for value in values) and bool(values)


def _has_unknown(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(one is None for one in value)


def _cdiv(*of: Any) -> int | None:
    return -(-of[0] // of[1]) if len(of) == 2 and all(isinstance(one, int) for one in of) and of[1] > 0 else None


def _power(*of: Any) -> int | None:
    return 1 << max(of[0] - 1, 0).bit_length() if len(of) == 1 and isinstance(of[0], int) and of[0] < LARGEST else None


def _range(*of: Any) -> list[int] | None:
    if not all(isinstance(one, int) for one in of) or len(of) > 3 or (len(of) == 3 and not of[2]):
        return None
    found = range(*of)
    return list(found) if len(found) <= MOST_PARTS else None


def _least(*of: Any) -> int | None:
    values = of[0] if len(of) == 1 and isinstance(of[0], list | tuple) else of
    return min(values) if values and all(isinstance(one, int) for one in values) else None


def _most(*of: Any) -> int | None:
    values = of[0] if len(of) == 1 and isinstance(of[0], list | tuple) else of
    return max(values) if values and all(isinstance(one, int) for one in values) else None


def _product(*of: Any) -> Any:
    """Return `math.prod` of one list, or the combinations that `itertools.product` gives of several."""
    if len(of) == 1 and isinstance(of[0], list | tuple) and all(isinstance(one, int) for one in of[0]):
        return prod(of[0])
    return None


def _whole(*of: Any) -> int | None:
    return of[0] if len(of) == 1 and isinstance(of[0], int) else None


def _zipped(*of: Any) -> list[Any] | None:
    return list(zip(*of, strict=False)) if all(isinstance(one, list | tuple) for one in of) else None


def _numbered(*of: Any) -> list[Any] | None:
    return list(enumerate(of[0])) if len(of) == 1 and isinstance(of[0], list | tuple) else None


_SIMPLE: Mapping[str, Callable[..., Any]] = {
    "cdiv": _cdiv, "ceildiv": _cdiv, "ceil_div": _cdiv, "next_power_of_2": _power, "range": _range, "min": _least,
    "max": _most, "prod": _product, "int": _whole, "constexpr": _whole, "zip": _zipped, "enumerate": _numbered,
    "Size": lambda *of: of[0] if len(of) == 1 else None,
    "len": lambda *of: len(of[0]) if len(of) == 1 and isinstance(of[0], list | tuple) else None,
    "tuple": lambda *of: tuple(of[0]) if len(of) == 1 and isinstance(of[0], list | tuple) else None,
    "list": lambda *of: list(of[0]) if len(of) == 1 and isinstance(of[0], list | tuple) else None,
}  # fmt: skip


def _made(dotted: str, arguments: list[Any], keywords: Mapping[str, Any]) -> Array | None:
    """Return the array that a factory makes; None if the call is none, or its shape is not known at all."""
    root, last = dotted.partition(".")[0], dotted.rpartition(".")[2]
    library = _LIBRARIES.get(root, "torch")
    default = "fp64" if library == "numpy" else "fp32"
    named = type_of(arguments, keywords)
    sizes: tuple[Extent, ...] | None = None
    if last in _ALIKE and arguments and isinstance(arguments[0], Array):
        return _as_type(fresh(arguments[0]), named)
    if last in _STRIDED or last == "as_strided":
        return strided(last, arguments, keywords, named)
    if last in _FILLED:
        shape = keywords.get("size", keywords.get("shape"))
        numbers = [one for one in arguments if not isinstance(one, DType | str)]
        sizes = extents_of([shape]) if shape is not None else extents_of(numbers)
    elif last == "full":
        sizes = extents_of(arguments[:1])
        default = {bool: "bool", int: "i64"}.get(type(given(arguments, keywords, 1, "fill_value")), "fp32")
    elif last == "randint":
        lists = [one for one in [*arguments, keywords.get("size")] if isinstance(one, list | tuple)]
        sizes, default = extents_of(lists[-1:]), "i64"
    elif last == "arange" and arguments:
        ends = [one for one in arguments if not isinstance(one, DType)]
        whole = all(_is_whole(one) for one in ends) and 0 not in ends[2:3]
        span = range(*ends[:3]) if whole else None
        sizes, default = (None if span is None else len(span),), "i64"
    elif last == "tensor" and arguments and isinstance(arguments[0], list | tuple):
        sizes, default = (len(arguments[0]),), "i64"
    elif (last == "normal" and "random" in dotted) or last == "uniform":
        sizes = extents_of([given(arguments, keywords, 1, "shape", "size")])
    elif last in (
        "ShapeDtypeStruct",
        "Tensor",
        "Buffer",
        "StridedTensor",
        "SMEM",
        "GMEM",
        "alloc_shared",
        "make_fake_tensor",
    ):
        lists = [one for one in [*arguments, keywords.get("shape")] if isinstance(one, list | tuple)]
        sizes, default = extents_of(lists[:1]), ""
        if last in ("StridedTensor", "make_fake_tensor") and sizes is not None and len(lists) > 1:
            return strided("empty_strided", lists, {}, named)
    if sizes is None:
        return None
    unknown_type = named is None and ("dtype" in keywords or not default)
    kind = None if unknown_type else named.name if named is not None else default
    if any(extent is not None and extent < 0 for extent in sizes):
        return None
    return dense(sizes, kind, library)


def _is_whole(value: Any) -> bool:
    """Whether a value is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def _as_type(array: Array, kind: DType | None) -> Array:
    return array if kind is None else replace(array, dtype=kind.name)


def _elementwise(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Array | None:
    """Return what an operator gives: a fresh array in the order of the only array, or of two alike."""
    arrays = [one for one in arguments if isinstance(one, Array)]
    if keywords.get("op") == "MatMult":
        if len(arrays) != 2 or arrays[0].rank < 2 or arrays[1].rank < 2:
            return None
        outer = arrays[0].shape[:-1]
        kind = arrays[0].dtype if arrays[0].dtype == arrays[1].dtype else None
        return dense((*outer, arrays[1].shape[-1]), kind, arrays[0].library)
    if arguments and isinstance(arguments[0], Array) and not arguments[0].rank and keywords.get("op") in ("Add", "Sub"):
        return _stepped(arguments[0], arguments[1], -1 if keywords["op"] == "Sub" else 1)
    if not arrays or any(one.shape != arrays[0].shape or one.strides != arrays[0].strides for one in arrays):
        return None
    if not all(isinstance(one, Array | int | float) for one in arguments):
        return None
    kinds = {one.dtype for one in arrays}
    return replace(fresh(arrays[0]), dtype=kinds.pop() if len(kinds) == 1 else None)


def pointer_to(array: Array) -> Array:
    """Return an array as a kernel is given it: where it begins, without its extents."""
    return Array((), (), array.dtype, array.offset)


def _stepped(pointer: Array, by: Any, sign: int) -> Array:
    known = isinstance(by, int) and pointer.offset is not None
    return replace(pointer, offset=(pointer.offset or 0) + sign * by if known else None)


def _concatenated(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Array | None:
    return _joined(arguments, keywords, new=False)


def _stacked(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Array | None:
    return _joined(arguments, keywords, new=True)


def _joined(arguments: Sequence[Any], keywords: Mapping[str, Any], *, new: bool) -> Array | None:
    """Return arrays one after the other along an axis, or along a new one."""
    parts = given(arguments, keywords, 0, "tensors", "arrays")
    axis = given(arguments, keywords, 1, "dim", "axis")
    if not isinstance(parts, list | tuple):
        return None
    arrays = [one for one in parts if isinstance(one, Array)]
    at = axis if isinstance(axis, int) else 0
    if not arrays or len(arrays) != len(parts) or not -arrays[0].rank <= at <= arrays[0].rank:
        return None
    kinds = {one.dtype for one in arrays}
    shape = list(arrays[0].shape)
    if new:
        shape.insert(at % (len(shape) + 1), len(parts))
    elif any(one.rank != arrays[0].rank for one in arrays) or not shape:
        return None
    else:
        lengths = [one.shape[at] for one in arrays]
        shape[at] = None if None in lengths else sum(length or 0 for length in lengths)
    return dense(shape, kinds.pop() if len(kinds) == 1 else None, arrays[0].library)


def _padded(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Array | None:
    array, widths = given(arguments, keywords, 0, "input"), given(arguments, keywords, 1, "pad", "pad_width")
    if not isinstance(array, Array) or not isinstance(widths, list | tuple):
        return None
    shape = list(array.shape)
    if widths and isinstance(widths[0], list | tuple):  # numpy's, an entry for each axis
        ends = list(widths)
    else:  # torch's, from the last axis on
        ends = [widths[at : at + 2] for at in range(0, len(widths), 2)]
        ends = [(0, 0)] * (len(shape) - len(ends)) + ends[::-1]
    if len(ends) != len(shape):
        return None
    for at, pair in enumerate(ends):
        known = len(pair) == 2 and all(isinstance(one, int) for one in pair)
        old = shape[at]
        shape[at] = old + sum(pair) if known and old is not None else None
    return dense(shape, array.dtype, array.library)


def _multiplied(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Array | None:
    return _elementwise(arguments, {"op": "MatMult"})


_Combining = Callable[[Sequence[Any], Mapping[str, Any]], Any]
_COMBINING: Mapping[str, _Combining] = {
    "operator": _elementwise, "mm": _multiplied, "matmul": _multiplied, "bmm": _multiplied, "pad": _padded,
    "cat": _concatenated, "concat": _concatenated, "concatenate": _concatenated, "stack": _stacked,
    "dict": lambda arguments, keywords: None if arguments else dict(keywords),
    "from_dlpack": lambda arguments, keywords: arguments[0] if arguments and isinstance(arguments[0], Array) else None,
    "device": lambda arguments, keywords: DEVICE,
}  # fmt: skip


def made_arrays(arrays: Mapping[Array, None]) -> Iterator[Array]:
    """Yield the arrays of known extents and strides, with at least one axis, in their order."""
    for array in arrays:
        if array.rank and None not in array.shape and None not in array.strides:
            yield array

"""Arguments of calls of torch, numpy, jax and their kin: extents, strides, types, numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from legalsat.dtypes import DTYPES, DType
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput
from legalsat.pasted.code.views import Array, Extent

DEVICE = "cuda"  # stands for any device
_MODULES = frozenset(
    {"torch", "numpy", "np", "jnp", "jax", "cupy", "cp", "tl", "ttgl", "gl", "triton", "cutlass", "cute", "T",
     "tilelang", "ml_dtypes"}
)  # fmt: skip
_NAMES = {  # of element types that only one program has
    "fp8e4nv": "e4m3", "fp8e5": "e5m2", "float8e4nv": "e4m3", "float8e5": "e5m2", "float8e4m3fn": "e4m3",
    "float8e4m3": "e4m3", "float8e5m2": "e5m2", "float8e8m0fnu": "e8m0", "long": "i64", "short": "i16", "int": "i32",
    "half_t": "fp16", "bfloat16_t": "bf16", "float8_e4m3": "e4m3", "float4_e2m1fn_x2": "u8",
}  # fmt: skip


def element_type(dotted: str) -> DType | None:
    """Return the element type that a dotted name of a framework is, such as torch.bfloat16; None if it is none."""
    first, _, last = dotted.rpartition(".")
    return named_type(last) if first.partition(".")[0] in _MODULES else None


def named_type(name: Any) -> DType | None:
    """Return the element type of a name or a type; None if it is none."""
    if isinstance(name, DType):
        return name
    if not isinstance(name, str):
        return None
    bare = name.rpartition(".")[2].lower()
    try:
        return DTYPES[_NAMES[bare]] if bare in _NAMES else as_dtype(bare)
    except InvalidInput:
        return None


def given(arguments: Sequence[Any], keywords: Mapping[str, Any], at: int, *names: str) -> Any:
    """Return the argument that has one of these names, or this place; None if there is none."""
    for name in names:
        if name in keywords:
            return keywords[name]
    return arguments[at] if len(arguments) > at else None


def extents_of(values: Sequence[Any]) -> tuple[Extent, ...] | None:
    """Return extents given one by one or as one list; an entry that is not known is None, and None if it is no list."""
    if len(values) == 1 and isinstance(values[0], list | tuple):
        values = values[0]
    elif not values or isinstance(values[0], list | tuple) or (len(values) == 1 and values[0] is None):
        return None
    wrong = any(one is not None and (isinstance(one, bool) or not isinstance(one, int)) for one in values)
    return None if wrong else tuple(values)


def type_of(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> DType | None:
    """Return the element type that is asked for; None if none is, or nobody knows which."""
    if "dtype" in keywords:
        return named_type(keywords["dtype"])
    return next(
        (kind for one in arguments if isinstance(one, DType | str) and (kind := named_type(one)) is not None), None
    )


def strided(last: str, arguments: Sequence[Any], keywords: Mapping[str, Any], named: DType | None) -> Array | None:
    """Return the array of given extents and strides, in elements; None if they are not known."""
    base = arguments[0] if arguments and isinstance(arguments[0], Array) else None
    lists = [one for one in arguments if isinstance(one, list | tuple)]
    sizes = extents_of([keywords.get("size", lists[0] if lists else None)])
    steps = extents_of([keywords.get("stride", lists[1] if len(lists) > 1 else None)])
    if sizes is None or steps is None or len(sizes) != len(steps):
        return None
    kind = base.dtype if base is not None else None if last == "as_strided" else "fp32"
    kind = named.name if named is not None else None if "dtype" in keywords else kind
    begin = given([one for one in arguments if isinstance(one, int)], keywords, 0, "storage_offset")
    offset = begin if isinstance(begin, int) else 0 if base is None or base.offset == 0 else None
    return Array(sizes, steps, kind, offset)


def number_of(values: Sequence[Any], keywords: Mapping[str, Any], at: int, *names: str) -> int | None:
    """Return an argument that is a whole number; None if there is none."""
    value = given(values, keywords, at, *names)
    return value if isinstance(value, int) and not isinstance(value, bool) else None

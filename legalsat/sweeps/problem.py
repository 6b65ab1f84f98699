"""One row of a sweep: an operator by name and numbers, as files, catalogues and recorded models give it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from legalsat.checks import counted
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.operators import Copy, Im2col, Operator, Pad, Transpose
from legalsat.operators.attention import Attention
from legalsat.operators.gemm import Gemm, result_of
from legalsat.sweeps.products import Products
from legalsat.sweeps.rows import LARGEST, BadRow, invalid, printable, row_of
from legalsat.tensor import Tensor

DEFAULT_DTYPE = "bf16"


@dataclass(frozen=True, slots=True)
class Problem:
    """An operator of a model.

    Attributes:
        operator: what is to be planned.
        name: whose it is, as "layers.0.mlp.up"; any text.
        count: how often it runs.
        line: where it stands in its file, from 1; its place among problems that come from no file.
        measured: nanoseconds that somebody measured, 0.0 for none.
        fields: the row that says the same again: what `problem_of` takes.
    """

    operator: Operator
    name: str
    count: int
    line: int
    measured: float
    fields: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class _Kind:
    """An operator's fields: those that it must have, those that it may have, and what makes it of them."""

    required: tuple[str, ...]
    optional: tuple[str, ...]
    make: Callable[[Mapping[str, Any]], Operator]


def _gemm(row: Mapping[str, Any]) -> Gemm | Products:
    m, n, k, dtype = row["m"], row["n"], row["k"], row.get("dtype", DEFAULT_DTYPE)
    out, other, batch = row.get("out_dtype"), row.get("b_dtype", dtype), row.get("batch", 1)
    constant = row.get("constant_b", False)
    if batch < 1:
        raise InvalidInput(f"batch is {batch}; give 1 or more")
    many = (batch,) if batch > 1 or other != dtype else ()
    tensors: dict[str, Any] = {
        "a": _matrix(row, "a", (*many, m, k), "KM", dtype),
        "b": _matrix(row, "b", (*many, n, k), "KN", other),
        "c": _matrix(row, "c", (*many, m, n), "NM", out or result_of(as_dtype(dtype))),
    }
    if many:
        return Products(batch, m, n, k, dtype, b_dtype=other, out_dtype=out, constant_b=constant, **tensors)
    return Gemm(m, n, k, dtype, out_dtype=out, constant_b=constant, **tensors)


def _matrix(row: Mapping[str, Any], name: str, shape: tuple[int, ...], majors: str, dtype: Any) -> Tensor | None:
    """Return an operand with what the row says of its storage; None where it says nothing."""
    major, pitch, strides, offset = (row.get(f"{name}_{field}") for field in ("major", "pitch", "strides", "offset"))
    if major is None and pitch is None and strides is None and offset is None:
        return None
    if strides is not None:
        if major is not None or pitch is not None:
            raise InvalidInput(f"{name}_strides says all of {name}'s storage; leave out {name}_major and {name}_pitch")
        return _stored(shape, dtype, strides, offset, f"{name}_strides")
    if major not in (None, *majors, "MN"):
        raise InvalidInput(f"{name}_major is {major!r}; give {majors[0]} or {majors[1]}")
    *many, lines, across = shape
    by_rows = major in (None, majors[0])
    dense, count = (across, lines) if by_rows else (lines, across)
    pitch = dense if pitch is None else pitch
    if pitch < dense:
        raise InvalidInput(f"{name}_pitch is {pitch} elements, less than the {dense} of a line; give at least {dense}")
    steps = (*(pitch * count for _ in many), *((pitch, 1) if by_rows else (1, pitch)))
    return _stored(shape, dtype, steps, offset)


def _stored(shape: Any, dtype: Any, strides: Any, offset: int | None, named: str = "strides") -> Tensor:
    """Return a tensor; `offset` are bytes past a multiple of what an allocator aligns to."""
    if strides is not None and len(strides) != len(shape):
        raise InvalidInput(f"{named} has {counted(len(strides))}; give {len(shape)}, one for each axis")
    tensor = Tensor(shape, dtype, strides)
    return tensor if not offset else Tensor(shape, dtype, strides, offset=offset % tensor.align)


def _attention(row: Mapping[str, Any]) -> Attention:
    said: dict[str, Any] = {name: row[name] for name in ("batch", "heads", "queries", "keys", "head")}
    said |= {"dtype": row.get("dtype", DEFAULT_DTYPE), "causal": row.get("causal", False)}
    said |= {"kv_heads": row.get("kv_heads"), "v_head": row.get("v_head")}
    dense = Attention(**said, layout=row.get("layout", "bshd"))
    for name in ("q", "k", "v", "out"):
        tensor, strides = getattr(dense, name), row.get(f"{name}_strides")
        steps = tensor.strides if strides is None else strides
        said[name] = _stored(tensor.shape, tensor.dtype, steps, row.get(f"{name}_offset"), f"{name}_strides")
    return Attention(**said)


def _conv(row: Mapping[str, Any]) -> Im2col:
    shape = (row["batch"], row["height"], row["width"], row["channels"])
    dtype, layout, strides = row.get("dtype", DEFAULT_DTYPE), row.get("layout", "nhwc"), row.get("strides")
    if layout not in ("nhwc", "nchw"):
        raise InvalidInput(f"layout is {layout!r}; give nhwc or nchw")
    if layout == "nchw" and strides is None:
        batch, height, width, channels = shape
        strides = Tensor((batch, channels, height, width), dtype).transposed((0, 2, 3, 1)).strides
    images = _stored(shape, dtype, strides, row.get("offset"))
    taps = (row["kernel_h"], row["kernel_w"])
    return Im2col(
        images, taps, stride=row.get("stride", 1), padding=row.get("padding", 0), dilation=row.get("dilation", 1)
    )


def _tensor(row: Mapping[str, Any]) -> Tensor:
    return _stored(row["shape"], row.get("dtype", DEFAULT_DTYPE), row.get("strides"), row.get("offset"))


def _copy(row: Mapping[str, Any]) -> Copy:
    source, steps, offset = _tensor(row), row.get("target_strides"), row.get("target_offset")
    target = None
    if steps is not None or offset:
        steps = Copy(source).target.strides if steps is None else steps
        target = _stored(source.shape, source.dtype, steps, offset, "target_strides")
    return Copy(source, target, tile=row.get("tile"))


def _transpose(row: Mapping[str, Any]) -> Transpose:
    return Transpose(_tensor(row), row.get("order"))


def _pad(row: Mapping[str, Any]) -> Pad:
    source, beside = _tensor(row), row["padding"]
    if not isinstance(beside, int):
        if len(beside) != 2 * source.rank:
            raise InvalidInput(
                f"padding has {len(beside)} numbers; give {2 * source.rank}, those before and after each axis"
            )
        beside = tuple(zip(beside[::2], beside[1::2], strict=True))
    padded, steps = Pad(source, beside, row.get("value", 0)), row.get("target_strides")
    if steps is None:
        return padded
    return Pad(source, beside, padded.value, _stored(padded.target.shape, source.dtype, steps, 0, "target_strides"))


_STORED = tuple(f"{name}_{field}" for name in "abc" for field in ("major", "pitch", "strides", "offset"))
_ATTENDED = tuple(f"{name}_{field}" for name in ("q", "k", "v", "out") for field in ("strides", "offset"))
_TENSOR = ("dtype", "strides", "offset")
KINDS = {
    "gemm": _Kind(("m", "n", "k"), ("dtype", "b_dtype", "out_dtype", "batch", "constant_b", *_STORED), _gemm),
    "attention": _Kind(
        ("batch", "heads", "queries", "keys", "head"),
        ("dtype", "kv_heads", "v_head", "layout", "causal", *_ATTENDED),
        _attention,
    ),
    "conv": _Kind(
        ("batch", "height", "width", "channels", "kernel_h", "kernel_w"),
        (*_TENSOR, "filters", "groups", "stride", "padding", "dilation", "layout"),
        _conv,
    ),
    "pad": _Kind(("shape", "padding"), (*_TENSOR, "target_strides", "value"), _pad),
    "copy": _Kind(("shape",), (*_TENSOR, "target_strides", "target_offset", "tile"), _copy),
    "transpose": _Kind(("shape",), (*_TENSOR, "order"), _transpose),
}
_COMMON = ("operator", "name", "count", "measured_ns")
FIELDS = tuple(
    dict.fromkeys([*_COMMON, *(field for kind in KINDS.values() for field in (*kind.required, *kind.optional))])
)
_WORDS = {"operator", "name", "dtype", "b_dtype", "out_dtype", "layout", "a_major", "b_major", "c_major"}
_LISTS = {"shape", "tile", "order", *(field for field in FIELDS if field.endswith("strides"))}
_FLAGS = {"constant_b", "causal"}


def problem_of(row: Mapping[str, Any], line: int) -> Problem:
    """Return the problem that a row of a file names.

    Args:
        row: values by field, as a file gives them: numbers, or their digits. Empty ones count as left out, and fields
            whose name begins with "x_" are passed over.
        line: where it stands.

    Raises:
        InvalidInput: a field is unknown, missing, or its value has no meaning.
    """
    values: dict[str, Any] = {}
    for name, value in row.items():
        if name is None or _left_out(value) or str(name).startswith("x_"):
            continue
        values[name] = _value(name, value)
    if not values:
        raise InvalidInput("row is empty; give an operator's numbers")
    kind = values.pop("operator", None) or next(
        (name for name, one in KINDS.items() if all(field in values for field in one.required)), "gemm"
    )
    if kind not in KINDS:
        raise InvalidInput(f"operator is {kind!r}; give one of {', '.join(KINDS)}")
    known = KINDS[kind]
    missing = [field for field in known.required if field not in values]
    if missing:
        raise InvalidInput(f"{', '.join(missing)} of the {kind} is missing; give a number")
    strange = set(values) - {*known.required, *known.optional, *_COMMON}
    if strange:
        raise InvalidInput(f"{', '.join(sorted(strange))} is no field of a {kind}; give {', '.join(known.optional)}")
    name, count, measured = values.pop("name", ""), values.pop("count", 1), values.pop("measured_ns", 0.0)
    if count < 1:
        raise InvalidInput(f"count is {count}; give 1 or more")
    operator = known.make(values)
    return Problem(operator, name, count, line, measured, (("operator", kind), *sorted(values.items())))


def _left_out(value: Any) -> bool:
    """Return whether a cell is empty; tables write NaN there."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def row_or_error(row: Mapping[Any, Any], line: int) -> Problem | BadRow:
    """Return the problem of a row, or what is wrong with it."""
    plain = row_of(line, row)
    if isinstance(plain, BadRow):
        return plain
    try:
        return problem_of(plain.values, line)
    except LegalSatError as error:
        return invalid(line, plain.values, str(error))


def _value(name: str, value: Any) -> Any:
    if name not in FIELDS:
        raise InvalidInput(f"field {printable(str(name))[:60]!r} is unknown; give some of {', '.join(FIELDS)}")
    if name in _WORDS:
        text = str(value).strip()
        if printable(text) != text:
            raise InvalidInput(f"{name} is no UTF-8 text; write the file in UTF-8")
        return text
    if name in _FLAGS:
        return _flag(name, value)
    if name in _LISTS:
        return _list(name, value)
    if name in ("measured_ns", "value"):
        return _float(name, value)
    if name in ("stride", "padding", "dilation") and not isinstance(value, int | float):
        found = _list(name, value)
        return found[0] if len(found) == 1 else found
    return _integer(name, value)


def _integer(name: str, value: Any) -> int:
    text = str(value).strip()
    try:
        number = int(text) if text.lstrip("+-").isdigit() else float(text)
        whole = int(number)
    except (ValueError, OverflowError):
        number, whole = 0.5, 0
    if number != whole or abs(whole) > LARGEST:
        raise InvalidInput(f"{name} is {printable(text)[:40]!r}; give a whole number, at most 2^63 - 1")
    return whole


def _float(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    least, wanted = (0.0, "nanoseconds") if name == "measured_ns" else (-math.inf, "a number")
    if not least <= number < math.inf:
        raise InvalidInput(f"{name} is {printable(str(value))[:40]!r}; give {wanted}")
    return number


def _flag(name: str, value: Any) -> bool:
    text = str(value).strip().lower()
    if text in ("true", "1", "yes", "1.0"):
        return True
    if text in ("false", "0", "no", "0.0"):
        return False
    raise InvalidInput(f"{name} is {printable(text)[:40]!r}; give true or false")


def _list(name: str, value: Any) -> tuple[int, ...]:
    if isinstance(value, str):
        inside = value.strip(" ()[]")
        parts: list[Any] = inside.removesuffix(",").replace("x", ",").split(",") if inside else []
        if not all(part.strip() for part in parts):
            raise InvalidInput(f"{name} is {printable(value)[:40]!r}; a number is missing, give all as in 4096x4095")
    else:
        parts = list(value) if hasattr(value, "__iter__") else [value]
    if not parts:
        raise InvalidInput(f"{name} is empty; give numbers such as 4096x4095")
    return tuple(_integer(name, part) for part in parts)


def as_problem(one: Any, line: int) -> Problem:
    """Return a problem of an operator, or of the copy that a tensor stands for; or the problem itself.

    Raises:
        InvalidInput: it is none of these.
    """
    if isinstance(one, Problem):
        return one
    one = Copy(one) if isinstance(one, Tensor) else one
    if not isinstance(one, Operator):
        raise InvalidInput(f"problem {line} is {type(one).__name__}; give an operator, a tensor, or fields by name")
    return Problem(one, "", 1, line, 0.0, (("operator", one.name),))

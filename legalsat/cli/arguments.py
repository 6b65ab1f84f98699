"""What is written on the command line as the nouns that it means: extents, tensors, operators, tensor maps."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from legalsat.checks import meant
from legalsat.dims import Dim, Extent, times
from legalsat.errors import InvalidInput
from legalsat.explanation import USES
from legalsat.operators import Copy, Move, Pad, Transpose
from legalsat.tensor import ALLOCATOR_ALIGNMENT, Tensor
from legalsat.units.driver_arguments import ARGUMENTS, from_fields
from legalsat.units.tensor_copy import BulkCopy, TensorCopy
from legalsat.units.tensor_map import TensorMap

_NUMBER = re.compile(r"[0-9]{1,30}")
_PLAIN_SIZES = re.compile(r"\s*\d+(?:\s*(?:x|,)\s*\d+)*\s*")
_SIGNED = re.compile(r"-?[0-9]{1,30}|0[xX][0-9a-fA-F]{1,30}")
_DIM = re.compile(
    r"(?P<name>[A-Za-z_]\w*)(%(?P<multiple>\d{1,30}))?(:(?P<low>\d{0,30})\.\.(?P<high>\d{0,30}))?"
    r"(~(?P<typical>\d{1,30}))?",
    re.A,
)
_TUPLES = ("global_dim", "global_stride", "box", "element_stride", "lower_corner", "upper_corner", "coordinate")
_NUMBERS = (
    *("address", "channels", "pixels", "map_offset"),
    *("shared_address", "shared_bytes", "transaction_bytes", "copies", "map_pitch", "global_address", "bytes"),
)
_FLAGS = ("stores", "by_address")


def whole(text: str, option: str) -> int:
    """Return the plain integer that `option` was given."""
    if not _NUMBER.fullmatch(text):
        raise InvalidInput(f"{option} is {text!r}; give a whole number such as 4096")
    return int(text)


def wholes(text: str, option: str) -> tuple[int, ...]:
    """Return integers separated by x or commas, such as 128x64."""
    parts = _parts(text, option)
    if not all(map(_NUMBER.fullmatch, parts)):
        raise InvalidInput(
            f"{option} is {text!r}; give whole numbers with x between them, such as 128x64{_sizes(text)}"
        )
    return tuple(map(int, parts))


def uses_of(args: Namespace) -> int:
    """Return how often what is repaired is used."""
    return USES if args.uses is None else whole(args.uses, "--uses")


def shape(text: str, option: str = "--shape") -> tuple[Extent, ...]:
    """Return extents such as 4096x4095, or with dims MxK%8 (a multiple of 8) and M,K%8:64..8192 (in a range)."""
    near = _sizes(text)
    if near:
        raise InvalidInput(f"{option} is {text!r}; write x or commas between the extents{near}")
    return tuple(extent(part, option) for part in _parts(text, option))


def strides(text: str, extents: tuple[Extent, ...]) -> tuple[Extent, ...]:
    """Return strides in elements: integers, names of the shape's dims, and products of these such as 2*K."""
    dims = {extent.name: extent for extent in extents if isinstance(extent, Dim)}
    found = []
    for part in _parts(text, "--strides"):
        stride: Extent = 1
        for factor in part.split("*"):
            if not _NUMBER.fullmatch(factor) and factor not in dims:
                known = f", or a dim of the shape ({', '.join(dims)})" if dims else ""
                raise InvalidInput(f"--strides has {part!r}; give whole numbers of elements{known}")
            stride = times(stride, dims[factor] if factor in dims else int(factor))
        found.append(stride)
    return tuple(found)


def tensor_of(args: Namespace) -> Tensor:
    """Return the tensor that --shape, --dtype, --strides and --align describe."""
    extents = shape(args.shape)
    steps = None if args.strides is None else strides(args.strides, extents)
    align = ALLOCATOR_ALIGNMENT if args.align is None else whole(args.align, "--align")
    return Tensor(extents, args.dtype, steps, align)


def operator_of(args: Namespace, kind: str) -> Move:
    """Return the copy, transpose or padding that the options describe."""
    tensor = tensor_of(args)
    if kind == "pad":
        return Pad(tensor, padding(args.padding), number(args.value))
    tile = None if args.tile is None else wholes(args.tile, "--tile")
    if kind == "copy":
        into: Any = getattr(args, "into", None) or "global"
        axes = getattr(args, "axes", None)
        names = () if axes is None else tuple(part.strip() for part in axes.split(","))
        return Copy(tensor, tile=tile, consumer=args.consumer, into=into, axes=names)
    return Transpose(tensor, None if args.order is None else wholes(args.order, "--order"), tile=tile)


def padding(text: str) -> int | tuple[tuple[int, int], ...]:
    """Return the padding of each axis such as 0x1:2, an axis' own as BEFORE:AFTER or one number; alone, of all axes."""
    pairs = []
    for part in _parts(text, "--padding"):
        before, _, after = part.partition(":")
        pairs.append((whole(before, "--padding"), whole(after or before, "--padding")))
    return pairs[0][0] if _NUMBER.fullmatch(text) else tuple(pairs)


def number(text: str) -> float:
    """Return what a padding is filled with: a whole number, else a float."""
    try:
        return int(text) if re.fullmatch(r"-?[0-9]{1,30}", text) else float(text)
    except ValueError:
        raise InvalidInput(f"--value is {text!r}; give a number such as 0 or -1.5") from None


def tensor_map_of(assignments: list[str]) -> TensorMap:
    """Return the tensor map that FIELD=VALUE words describe; tuples are written with commas, 64,64 or 64x64.

    Fields may bear the names of the driver's parameters too, and its enumerators.
    """
    values = _assigned(assignments, "--tensor-map", [f.name for f in fields(TensorMap)], ARGUMENTS)
    for field in ("dtype", "global_dim"):
        if field not in values:
            raise InvalidInput(f"--tensor-map lacks {field}; add {field}={'bf16' if field == 'dtype' else '64,64'}")
    tensor_map = from_fields(values)
    assert isinstance(tensor_map, TensorMap), "these are fields of a map alone"
    return tensor_map


def copy_of(assignments: list[str], tensor_map: TensorMap | None, tensor: Tensor | None) -> TensorCopy | BulkCopy:
    """Return the execution that FIELD=VALUE words describe: of a copy with the tensor map, or of a bulk copy."""
    kind = BulkCopy if tensor_map is None else TensorCopy
    known = [f.name for f in fields(kind) if f.name not in ("tensor_map", "tensor")]
    values = _assigned(assignments, "--copy", known, {})
    if tensor_map is None:
        return BulkCopy(**values)
    return TensorCopy(tensor_map, tensor=tensor, **values)


def _assigned(assignments: list[str], option: str, known: list[str], other: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of FIELD=VALUE words by field; fields may bear `other` names."""
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        field = other.get(name, name)
        if not equals or field not in known:
            near = meant(name, known) or meant(name, other)
            raise InvalidInput(f"{option} has {assignment!r}; write FIELD=VALUE with FIELD one of {_list(known)}{near}")
        if field in values:
            raise InvalidInput(f"{option} gives {field} twice; give it once")
        values[field] = _value(field, text)
    return values


def _value(field: str, text: str) -> Any:
    if field in _FLAGS:
        if text not in ("true", "false"):
            raise InvalidInput(f"{field} is {text!r}; give true or false")
        return text == "true"
    if field in _TUPLES:
        return tuple(_signed(part, field) for part in _parts(text, field)) if text else ()
    # Enums go by name or by the driver's value, so digits mean the value.
    return _signed(text, field) if field in _NUMBERS or (text.isascii() and text.isdigit()) else text


def _signed(text: str, field: str) -> int:
    if not _SIGNED.fullmatch(text):
        raise InvalidInput(f"{field} has {text!r}; give an integer, decimal or 0x")
    return int(text, 0 if text[1:2] in ("x", "X") else 10)


def _parts(text: str, option: str) -> list[str]:
    """Split at commas where there are any, else at each x, so that a name may contain an x among commas."""
    parts = [part.strip() for part in text.split("," if "," in text else "x")]
    if not all(parts):
        raise InvalidInput(
            f"{option} is {text!r}; write a number on both sides of each x or comma, such as 4096x64 (commas alone "
            "where a name contains an x)"
        )
    return parts


def extent(text: str, option: str) -> int | Dim:
    """Return an extent: a number, or a dim such as M, M%8 (a multiple of 8), M:64..8192 (a range), M~16 (typical)."""
    if _NUMBER.fullmatch(text):
        return int(text)
    found = _DIM.fullmatch(text)
    if found is None:
        raise InvalidInput(
            f"{option} has {text!r}; give a whole number, or a name with what is known of it: K, K%8, K%8:64..8192"
        )
    facts = {"multiple_of": found["multiple"], "min": found["low"], "max": found["high"], "typical": found["typical"]}
    return Dim(found["name"], **{fact: int(value) for fact, value in facts.items() if value})


def _sizes(text: str) -> str:
    """Return "; did you mean 4096x64?" of numbers that other signs part, as in 4096by64 or (4096, 64); else ""."""
    other = re.fullmatch(r"[\[(]?\s*\d+(?:\s*(?:by|[Xx×*,;:/ ])\s*\d+)*\s*,?\s*[\])]?", text)
    numbers = "x".join(re.findall(r"\d+", text))
    return f"; did you mean {numbers}?" if other and not _PLAIN_SIZES.fullmatch(text) else ""


def _list(names: list[str]) -> str:
    return ", ".join(names)

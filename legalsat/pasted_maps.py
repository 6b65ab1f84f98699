"""Tensor maps that programs print when the encode call fails, read back from the pasted text.

Four programs print all of a map's fields, each with labels of its own: CUTLASS (so FlashAttention and others built on
it) and TileLang the driver's names in columns, TensorRT-LLM (so FlashInfer) after colons, Triton after equal signs.
Old versions of TileLang print the addresses of the arrays instead of their numbers, and a text of several processes
at once runs together; neither can be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from legalsat.blobs import MAP_BYTES
from legalsat.checks import integer
from legalsat.errors import InvalidInput
from legalsat.tensor_map import TensorMap

_VALUE = r"\(nil\)|nullptr|[(\[{][^()\[\]{}]*[)\]}]|0[xX][0-9a-fA-F]+|-?\d+(?:[ \t]+\d+)*"
_NULL = ("(nil)", "nullptr")


class Dialect(NamedTuple):
    """How one family of programs prints a map: who, what stands between label and value, the field of each label."""

    printed_by: str
    separator: str
    labels: Mapping[str, str]


# Fields are those of `TensorMap`; besides "rank", "object" (the CUtensorMap's address) and "strides_from_0", which list
# the innermost stride too.
_COMMON = {
    "TMA Desc Addr": "object",
    "dim": "rank",
    "elementStrides": "element_stride",
    "interleave": "interleave",
    "swizzle": "swizzle",
}
DIALECTS = (
    Dialect(
        "CUTLASS or TileLang",
        r"(?:[ \t]*[:=][ \t]*|[ \t]+)",
        {
            **_COMMON,
            "format": "dtype",
            "tensorDataType": "dtype",
            "tensorRank": "rank",
            "gmem_address": "address",
            "globalAddress": "address",
            "globalDim": "global_dim",
            "globalStrides": "strides_from_0",
            "globalStridesRaw": "strides_from_0",
            "cudaGlobalStrides": "global_stride",
            "boxDim": "box",
            "l2Promotion": "l2_promotion",
            "oobFill": "oob_fill",
            "smem_box_pixel": "pixels",
            "smem_box_channel": "channels",
            "pixelBoxLowerCorner": "lower_corner",
            "pixelBoxUpperCorner": "upper_corner",
        },
    ),
    Dialect(
        "TensorRT-LLM",
        r":[ \t]*",
        {
            "tmaFormat": "dtype",
            "dim": "rank",
            "gmem": "address",
            "Shape": "global_dim",
            "Stride": "global_stride",
            "tileShapes": "box",
            "tileStrides": "element_stride",
            "swizzleType": "swizzle",
        },
    ),
    Dialect(
        "Triton",
        r"=[ \t]*",
        {
            "elemType": "dtype",
            "rank": "rank",
            "global_address": "address",
            "shape": "global_dim",
            "strides": "global_stride",
            "blockSize": "box",
            "elementStrides": "element_stride",
            "swizzle": "swizzle",
            "padding": "oob_fill",
        },
    ),
)
# The label that a program prints for no other purpose, by which its dumps are known.
_SIGNS = ("globalDim", "tileShapes", "blockSize")
_LISTS = {"global_dim", "global_stride", "strides_from_0", "box", "element_stride", "lower_corner", "upper_corner"}


class PrintedMap(NamedTuple):
    """A tensor map that a program printed, and where in the text."""

    tensor_map: TensorMap
    begin: int
    end: int


def printed_maps(text: str) -> list[PrintedMap]:
    """Return the tensor maps that `text` prints, in its order; none if it prints no field of one.

    Entries past the rank are what lay in memory behind the arrays, and are dropped. So are dumps that cannot be read,
    such as the last one of a log that was cut off, beside others that can.

    Raises:
        InvalidInput: fields are printed, but of each map one is missing, garbled or an address instead of numbers.
    """
    for dialect, sign in zip(DIALECTS, _SIGNS, strict=True):
        if _label(dialect, sign).search(text):
            return _read_all((block for block in _blocks(text, dialect) if _signed(block)), dialect)
    return []


def _read_all(blocks: Iterable[list[tuple[str, re.Match[str]]]], dialect: Dialect) -> list[PrintedMap]:
    read: list[PrintedMap] = []
    refusal = None
    for block in blocks:
        try:
            read.append(_read(block, dialect))
        except InvalidInput as error:
            refusal = refusal or error
    if refusal is not None and not read:
        raise refusal
    return read


def _signed(block: list[tuple[str, re.Match[str]]]) -> bool:
    return any(match["label"] in _SIGNS for _, match in block)


def _label(dialect: Dialect, *labels: str) -> re.Pattern[str]:
    names = "|".join(sorted(labels or dialect.labels, key=len, reverse=True))
    return re.compile(rf"(?<![\w.])(?P<label>{names})(?!\w){dialect.separator}(?P<value>{_VALUE})")


def _blocks(text: str, dialect: Dialect) -> Iterator[list[tuple[str, re.Match[str]]]]:
    """Yield the fields of one map after the other: a field that comes again begins the next map."""
    block: list[tuple[str, re.Match[str]]] = []
    for match in _label(dialect).finditer(text):
        field = dialect.labels[match["label"]]
        if any(field == known for known, _ in block):
            yield block
            block = []
        block.append((field, match))
    yield block


def _read(block: list[tuple[str, re.Match[str]]], dialect: Dialect) -> PrintedMap:
    words = {field: match["value"] for field, match in block}
    values: dict[str, Any] = {
        field: _list(word, field) if field in _LISTS else _number(word, field) for field, word in words.items()
    }
    columns = "pixels" in values
    for field in ("dtype", "global_dim", "channels" if columns else "box"):
        if field not in values:
            raise InvalidInput(
                f"the map that {dialect.printed_by} printed lacks {field}, or it is garbled; paste the whole dump, of "
                "one process alone"
            )
    rank = integer(values.pop("rank", len(values["global_dim"])), "dim of the printed map", low=0, high=32)
    inner = values.pop("strides_from_0", ())
    # The array may begin with the innermost stride, the element's size, which the call does not take.
    values.setdefault("global_stride", inner[1:] if len(inner) >= rank else inner)
    object_address = values.pop("object", 0)
    lengths = {"global_stride": rank - 1, "lower_corner": rank - 2, "upper_corner": rank - 2}
    for field in _LISTS & set(values):
        values[field] = values[field][: max(lengths.get(field, rank), 0)]
    printed = TensorMap(**values, mode="im2col" if columns else "tiled", map_offset=object_address % MAP_BYTES)
    return PrintedMap(printed, block[0][1].start(), block[-1][1].end())


def _number(word: str, field: str) -> int:
    if word in _NULL:
        return 0
    if not re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}|\d{1,20}", word):
        raise InvalidInput(f"{field} of the printed map is {word!r}, no number; paste the dump of one process alone")
    return int(word, 0 if word[1:2] in ("x", "X") else 10)


def _list(word: str, field: str) -> tuple[int, ...]:
    if re.fullmatch(r"0[xX][0-9a-fA-F]+", word):
        raise InvalidInput(
            f"{field} is printed as {word}, the address of an array; print its numbers, as newer versions of the "
            "program do"
        )
    inside = word.strip("()[]{} \t\n").rstrip(",")
    entries = re.split(r"\s*,\s*|\s+", inside) if inside else []
    if not all(re.fullmatch(r"-?\d{1,20}", entry) for entry in entries):
        raise InvalidInput(f"{field} of the printed map is {word!r}, no list; paste the dump of one process alone")
    return tuple(map(int, entries))

"""Tensor maps that programs print when the encode call fails, read back from the pasted text.

Four programs print all of a map's fields, each with labels of its own: CUTLASS (so FlashAttention, ThunderKittens and
others built on it) and TileLang the driver's names in columns, TensorRT-LLM (so FlashInfer) after colons, Triton after
equal signs; DeepGEMM prints one line. Others are read by what their labels say, whatever their spelling. What is not
printed is left open (`legalsat.pasted.readings`). Old versions of TileLang print the addresses of the arrays instead of
their numbers, and a text of several processes at once runs together; neither can be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

from legalsat.checks import integer
from legalsat.errors import InvalidInput
from legalsat.pasted.fields import LISTS, enum, number, numbers
from legalsat.pasted.readings import missing_fields, readings
from legalsat.units.blobs import MAP_BYTES
from legalsat.units.tensor_map import TensorMap

MOST_MAPS = 200  # of one text: a log repeats itself
_VALUE = (
    r"\(nil\)|nullptr|NULL|(?:torch\.Size\(|std::array)?[(\[{][^()\[\]{}]*[)\]}]|0[xX][0-9a-fA-F]+|CU_TENSOR_MAP_\w+|"
    r"\d+(?: ?x ?\d+)+(?!\w)|-?\d+(?:[ \t]+\d+)*"
)
_NAME = r"|[\"']?[A-Za-z_][\w.]*[\"']?(?![\w.]*[ \t]*[:=])|\d+[xB]\w*(?: ?x ?\d+)*"  # enums by name, lists as 64x64


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
# Whatever others call a field, in lower case without underscores and blanks. Lists may begin or end with the innermost
# entry, and strides may count elements or bytes: `readings` says which.
LOOSE = {
    "object": (
        "tensor map", "tma desc", "tma descriptor", "desc addr",
    ),
    "dtype": (
        "tensor data type", "data type", "dtype", "format", "elem type", "element type",
        "tma format",
    ),
    "element_bytes": (
        "elem size", "element size", "elem bytes", "itemsize", "element bytes",
    ),
    "rank": (
        "tensor rank", "rank", "ndim", "num dims", "tma dim",
    ),
    "address": (
        "global address", "gmem address", "gmem addr", "base address", "base addr", "data ptr",
        "base ptr", "address", "gmem ptr", "global ptr", "base", "ptr", "gaddr", "gptr",
    ),
    "global_dim": (
        "global dim", "global shape", "global size", "gmem prob shape", "gmem shape", "gmem dim",
        "tensor shape", "tensor size", "tensor dim", "size", "shape", "dim", "extent", "gdim",
        "gshape", "gsize",
    ),
    "any_strides": (
        "global stride", "gmem prob stride", "gmem stride", "tensor stride", "stride",
        "stride bytes", "global stride bytes", "byte stride", "gstride", "gstr",
    ),
    "box": (
        "box dim", "box size", "box shape", "box", "smem box shape", "smem box", "smem dim",
        "smem shape", "block size", "block shape", "block dim", "tile shape", "tile size",
        "smem box size", "tile dim", "window shape", "window size", "window dim",
    ),
    "element_stride": (
        "element stride", "elem stride", "tile stride", "smem box stride", "traversal stride",
        "box stride",
    ),
    "interleave": (
        "interleave", "interleave layout", "interleave mode",
    ),
    "swizzle": (
        "swizzle", "swizzle type", "swizzle mode", "smem swizzle", "swizzle size", "swz",
    ),
    "l2_promotion": (
        "l2 promotion", "l2promo",
    ),
    "oob_fill": (
        "oob fill", "oob fill mode", "fill mode", "fill",
    ),
}  # fmt: skip
_FIELDS = {phrase.replace(" ", ""): field for field, phrases in LOOSE.items() for phrase in phrases}
# What a label may say first: whose field it is.
_OWNER = r"(?:(?:tma|tmap|tensor_?map|desc(?:riptor)?)_)?"
_LOOSE_SIGN = re.compile(
    rf"\b{_OWNER}(?:(?:smem_?)?box_?(?:dims?|sizes?|shape)|window_?(?:dims?|sizes?|shape))\b|"
    r"\btma_(?:sizes?|dims?|shape|strides?)\b|\b(?:smem_?)?box_?(?:dims?|sizes?|shape)\b|\bsmem_?(?:box_?)?(?:dims?|shape)\b|global_?(?:dims?|shape|strides?)\b|"
    r"\bgmem_?(?:prob_)?(?:shape|strides?|dims?)\b|\bbox\b|\bg_?(?:dims?|strides?|str)\b",
    re.IGNORECASE,
)
# The labels that a program prints for no other purpose, by which its dumps are known.
_SIGNS = (("globalDim", "boxDim"), ("tileShapes",), ("blockSize",))
_LINE = re.compile(
    r"global memory: (?P<inner>\d+) (?P<outer>\d+), shared memory: (?P<box_inner>\d+) (?P<box_outer>\d+), "
    r"outer stride: (?P<stride>\d+), swizzle: (?P<swizzle>\d+)(?: \(base: \d+\))?,? elem size: (?P<bytes>\d+)"
)
# What people write of a map without a label: its type, and its swizzle after that word alone.
_BARE = re.compile(
    r"(?<![\w.%<\[-])(?P<dtype>CU_TENSOR_MAP_DATA_TYPE_\w+|bf16|bfloat16|[fF][pP]?(?:16|32|64)|float(?:16|32|64)|[us]8|u?int8|"
    r"fp8_e[45]m[23]|float8_e[45]m[23](?:fn)?)(?![\w.(\[])"
    r"|(?<![\w.])(?:CU_TENSOR_MAP_)?(?:swizzle|SWIZZLE)[ _](?:mode )?(?P<swizzle>(?:32|64|128)B?|[Nn]one|NONE)(?!\w)"
    r"|(?<![\w.])(?P<swizzle_too>(?:32|64|128)B?)(?:yte)?[ -]swizzle"
)
_INNER_BOX = re.compile(
    r"\binner(?:most)?[ _]box(?:[ _](?:dim\w{0,7}|size|extent|width))?(?: of| is|:| =|=)? ?"
    r"(?P<value>\d{1,4})\b(?! ?x ?\d)",
    re.IGNORECASE,
)
_ENUMS = frozenset({"dtype", "interleave", "swizzle", "l2_promotion", "oob_fill"})


class PrintedMap(NamedTuple):
    """A tensor map that a program printed, and where in the text.

    Attributes:
        tensor_map: the map; what is missing is filled with what breaks no rule.
        begin, end: where its dump stands.
        readings: every map that the dump may be of, `tensor_map` first: one where all is printed without doubt.
        missing: the fields that are not printed.
    """

    tensor_map: TensorMap
    begin: int
    end: int
    readings: tuple[TensorMap, ...]
    missing: tuple[str, ...]


def printed_maps(text: str) -> list[PrintedMap]:
    """Return the tensor maps that `text` prints, in its order; none if it prints no field of one.

    Entries past the rank are what lay in memory behind the arrays, and are dropped. So are dumps that cannot be read
    or lack fields, such as the last one of a log that was cut off, beside others that are whole.

    Raises:
        InvalidInput: fields are printed, but of each map one is garbled or an address instead of numbers.
    """
    for dialect, signs in zip(DIALECTS, _SIGNS, strict=True):
        if _label(dialect, *signs).search(text):
            return _whole(_read_all(block for block in _blocks(text, dialect) if _signed(block)))
    lines = [_of_line(match) for match in _LINE.finditer(text)]
    if lines or not _LOOSE_SIGN.search(text):
        return lines
    blocks = [block for block in _loose_blocks(text) if _is_map(block)]
    return _whole(_read_all(blocks, _bare_words(text, blocks[0]) if len(blocks) == 1 else {}))


def lone_boxes(text: str) -> list[PrintedMap]:
    """Return a map for each box that `text` gives with no other field of its map: what every such map breaks."""
    blocks = (block for block in _loose_blocks(text) if [field for field, _ in block] == ["box"])
    named = [block for block in blocks if _LOOSE_SIGN.match(block[0][1]["label"])]
    try:
        told = [] if named else [_inner_box(text, match) for match in islice(_INNER_BOX.finditer(text), MOST_MAPS)]
        return told or _read_all(named, _bare_words(text, named[0]) if len(named) == 1 else {})
    except InvalidInput:  # a word where a list was to be
        return []


def _inner_box(text: str, match: re.Match[str]) -> PrintedMap:
    """Return the map of which prose says how wide the box is, and perhaps its type and swizzle in the same line."""
    words = _bare_words(text, [("box", match)])
    values = {field: enum(word, field) for field, word in words.items()} | {"box": (int(match["value"]),)}
    maps = readings(values, 1)
    return PrintedMap(maps[0], match.start(), match.end(), maps, missing_fields(values, 1))


def _whole(maps: list[PrintedMap]) -> list[PrintedMap]:
    return [printed for printed in maps if not printed.missing] or maps


def _bare_words(text: str, block: list[tuple[str, re.Match[str]]]) -> dict[str, str]:
    """Return the type and the swizzle that stand without a label in the lines of the only map of a text."""
    lines = text[text.rfind("\n", 0, block[0][1].start()) + 1 : block[-1][1].end()]
    lines += text[block[-1][1].end() :].partition("\n")[0]
    words: dict[str, set[str]] = {}
    for match in _BARE.finditer(lines):
        for field, word in match.groupdict().items():
            if word is not None:
                words.setdefault(field.removesuffix("_too"), set()).add(word)
    return {field: one.pop() for field, one in words.items() if len(one) == 1}


def _read_all(
    blocks: Iterable[list[tuple[str, re.Match[str]]]], bare: Mapping[str, str] = MappingProxyType({})
) -> list[PrintedMap]:
    read: list[PrintedMap] = []
    refusal = None
    for block in islice(blocks, MOST_MAPS):
        try:
            read.append(_read(block, bare))
        except InvalidInput as error:
            refusal = refusal or error
    if refusal is not None and all(printed.missing for printed in read):
        raise refusal
    return read


def _signed(block: list[tuple[str, re.Match[str]]]) -> bool:
    return any(match["label"] in labels for labels in _SIGNS for _, match in block)


def _is_map(block: list[tuple[str, re.Match[str]]]) -> bool:
    """Whether fields are those of a map: a box or the driver's own words, beside another field."""
    fields = {field for field, _ in block}
    return len(fields) > 1 and any(_LOOSE_SIGN.match(match["label"]) for _, match in block)


def _label(dialect: Dialect, *labels: str) -> re.Pattern[str]:
    names = "|".join(sorted(labels or dialect.labels, key=len, reverse=True))
    return re.compile(rf"(?<![\w.])(?P<label>{names})(?!\w){dialect.separator}(?P<value>{_VALUE})")


def _blocks(text: str, dialect: Dialect) -> Iterator[list[tuple[str, re.Match[str]]]]:
    return _split((dialect.labels[match["label"]], match) for match in _label(dialect).finditer(text))


def _loose_blocks(text: str) -> Iterator[list[tuple[str, re.Match[str]]]]:
    return _split(_loose_fields(text))


def _loose_fields(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    at = 0
    while (match := _LOOSE_LABEL.search(text, at)) is not None:
        field, at = _FIELDS[_bare(match["label"])], match.end()
        if field == "object" and match["value"][:1].isalpha():
            # A name where an address belongs is prose, which the next label may begin: "tensor map: dims 64x64".
            at = match.end("label")
        elif not (field in LISTS and _OF_CODE.match(match["value"])):
            yield field, match


def _split(fields: Iterable[tuple[str, re.Match[str]]]) -> Iterator[list[tuple[str, re.Match[str]]]]:
    """Yield the fields of one map after the other: a field that comes again begins the next map."""
    block: list[tuple[str, re.Match[str]]] = []
    seen: dict[str, str | None] = {}
    for field, match in fields:
        index = match.groupdict().get("index")
        if field in seen and (index is None or seen[field] is None or index <= str(seen[field])):
            yield block
            block, seen = [], {}
        block.append((field, match))
        seen[field] = index
    yield block


_OF_CODE = re.compile(r"\{[^{}]*[A-Za-z_(]")  # a list that code makes of names, whose numbers nobody printed
_OF_MAP = re.compile(rf"\A{_OWNER}", re.IGNORECASE)
_OWN_NAMES = frozenset(phrase.replace(" ", "_") for phrases in LOOSE.values() for phrase in phrases)


def _bare(label: str) -> str:
    bare = re.sub(r"[_ ()]", "", label if label.lower() in _OWN_NAMES else _OF_MAP.sub("", label)).lower()
    for end in ("", "s", "bytes", "inbytes", "sbytes", "sinbytes"):
        if bare.endswith(end) and bare.removesuffix(end) in _FIELDS:
            return bare.removesuffix(end)
    return bare


_SPELLED = "|".join(
    phrase.replace(" ", "[_ ]?") for phrase in sorted({p for ps in LOOSE.values() for p in ps}, key=len, reverse=True)
)
_LOOSE_LABEL = re.compile(
    rf"(?<![\w.])(?P<label>{_OWNER}(?:{_SPELLED})s?(?:_?(?:in_?)?bytes)?)(?:\(\))?(?:\[(?P<index>\d)\])?"
    # A list may follow its name, in brackets or as 64x64, and the one stride of a matrix.
    rf"(?:[ \t]*[:=][ \t]*|[ \t]+(?:of[ \t]+)?(?=[(\[{{]\d|\d+ ?x ?\d)|(?<=strides)[ \t]+(?=\d\d+\b))"
    # Commas without a blank list, and those of thousands do not: 64,128 but not 1,048,576.
    rf"(?P<value>[1-9]\d*(?:,[1-9]\d*)+(?![\w,.])|{_VALUE}{_NAME})",
    re.IGNORECASE,
)


def _read(block: list[tuple[str, re.Match[str]]], bare: Mapping[str, str]) -> PrintedMap:
    labelled = {field for field, _ in block} | ({"dtype"} if any(f == "element_bytes" for f, _ in block) else set())
    values: dict[str, Any] = {field: enum(word, field) for field, word in bare.items() if field not in labelled}
    for field, match in block:
        word = match["value"]
        # What stands behind the name of a whole list is its length, as where C declares it.
        if match.groupdict().get("index") is not None and word[0] not in "([{":
            values[field] = (*values.get(field, ()), number(word, field))
        elif field in LISTS or field == "any_strides":
            values[field] = numbers(_bracketed(word, field, match), field)
        elif field in _ENUMS:
            values[field] = enum(str(number(word, field)) if re.fullmatch(r"[\d \t]+", word) else word, field)
        else:
            values[field] = number(word, field)
    columns = "pixels" in values
    lists = [len(values[field]) for field in ("global_dim", "box", "any_strides") if field in values]
    if not lists:
        raise InvalidInput("no list of a map's fields is printed; paste the whole dump, of one process alone")
    rank = integer(values.pop("rank", lists[0]), "dim of the printed map", low=0, high=32)
    inner = values.pop("strides_from_0", None)
    if inner is not None:
        # The array may begin with the innermost stride, the element's size, which the call does not take.
        values.setdefault("global_stride", inner[1:] if len(inner) >= rank else inner)
    object_address = values.pop("object", 0)
    lengths = {"global_stride": rank - 1, "lower_corner": rank - 2, "upper_corner": rank - 2}
    for field in LISTS & set(values):
        values[field] = values[field][: max(lengths.get(field, rank), 0)]
    values |= {"mode": "im2col" if columns else "tiled", "map_offset": object_address % MAP_BYTES}
    loose = "index" in block[0][1].groupdict()
    missing, maps = missing_fields(values, rank), readings(values, rank, ordered=not loose)
    return PrintedMap(maps[0], block[0][1].start(), block[-1][1].end(), maps, missing)


def _bracketed(word: str, field: str, match: re.Match[str]) -> str:
    """Return a list's text; columns of numbers alone are a list after a colon only.

    Raises:
        InvalidInput: it is one number where a list was to be, as where lines of several processes run together.
    """
    one = re.fullmatch(r"\d+(?:[ \t]+\d+)*", word) is not None and match["label"].lower() != "strides"
    if one and ":" not in match[0] and "=" not in match[0]:
        raise InvalidInput(f"{field} of the printed map is {word[:60]!r}, no list; paste the dump of one process alone")
    return word.removeprefix("torch.Size").removeprefix("std::array")


def _of_line(match: re.Match[str]) -> PrintedMap:
    """Return the map of a line of DeepGEMM: two extents, a box, a stride in elements and a swizzle in bytes."""
    given = {name: int(word) for name, word in match.groupdict().items()}
    values = {
        "element_bytes": given["bytes"],
        "global_dim": (given["inner"], given["outer"]),
        "global_stride": (given["stride"] * given["bytes"],),
        "box": (given["box_inner"], given["box_outer"]),
        "swizzle": enum(str(given["swizzle"]), "swizzle"),
    }
    maps = readings(values, 2)
    return PrintedMap(maps[0], match.start(), match.end(), maps, missing_fields(values, 2))

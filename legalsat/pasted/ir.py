"""Types of compilers' text, read as what they describe: tensors of MLIR, descriptors and buffers of Triton.

`memref<64x100xf16, strided<[100, 1]>>` is a tensor, `!tt.tensordesc<tensor<64x4xf16>>` the type and the box of a
tensor map, whose extents and strides the operation that makes it may name, and `!ttg.memdesc<...>` a buffer in shared
or in tensor memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice
from math import prod
from typing import Any, NamedTuple

from legalsat.diagnostics import Diagnostic
from legalsat.dtypes import dtype as element_type
from legalsat.errors import InvalidInput
from legalsat.pasted.maps import PrintedMap
from legalsat.pasted.readings import missing_fields, readings
from legalsat.rule import require
from legalsat.rules.movement import shared_memory_exceeded
from legalsat.rules.tensor_memory import tensor_memory_exceeded
from legalsat.targets import Target
from legalsat.units.tensor_map import TensorMap

MOST_TYPES = 64  # of one text: IR repeats the types of its values
_ELEMENT = r"(?P<element>bf16|f16|f32|f64|tf32|f8E\w{3,12}|[us]?i(?:8|16|32|64))"
_SHAPE = r"(?P<shape>\d{1,12}(?:x\d{1,12}){0,7})x"
_MEMREF = re.compile(
    rf"\bmemref<{_SHAPE}{_ELEMENT}, ?strided<\[(?P<strides>\d{{1,15}}(?:, ?\d{{1,15}}){{0,7}})\]"
    r"(?:, ?offset: ?(?P<offset>\d{1,15}|\?))?>(?P<space>, ?[^<>\n]{1,60}(?:<[^<>\n]{0,40}>)?)?>"
)
_OF_MAPS = re.compile(r"\btma\b|_tma|tma_|tma\.|tensor_?map|tensor_?desc|nvgpu\.|nvvm\.", re.IGNORECASE)
_GLOBAL_SPACE = re.compile(r", ?(?:[01]|1 : \w+|#\w+\.address_space<global>)(?: : \w+)?$")
_DESCRIPTOR = re.compile(
    rf"(?:(?P<made>tt\.make_tensor_descriptor (?P<base>%\w+)(?:#\d+)?, ?\[(?P<extents>[^\]\n]{{0,200}})\], ?"
    rf"\[(?P<strides>[^\]\n]{{0,200}})\][^\n]{{0,200}}?: ?(?:!tt\.ptr)?<[^<>\n]{{0,60}}>,? ?(?:-> ?)?"
    rf"(?:!tt\.tensordesc)?<)"
    rf"|!tt\.tensordesc<)(?:tensor<)?{_SHAPE}{_ELEMENT}\b"
)
_MLIR_DESCRIPTOR = re.compile(
    rf"!nvgpu\.tensormap\.descriptor<tensor = memref<{_SHAPE}{_ELEMENT}(?:, ?[^<>\n]{{1,60}}(?:<[^<>\n]{{0,40}}>)?)?>"
    r", ?swizzle ?= ?(?:swizzle_)?(?P<swizzle>none|32b|64b|128b)\b"
)
_CONSTANT = re.compile(r"(%\w+) = arith\.constant (-?\d{1,18}) : (?:i\d{1,2}|index)\b")
_NAMED_CONSTANT = re.compile(r"%c(\d{1,18})(?:_i\d{1,2})?")
_BUFFER = re.compile(rf"!(?:ttg|tt|triton_gpu)\.memdesc<{_SHAPE}{_ELEMENT}\b(?P<rest>[^>\n]{{0,200}})>")
_CTAS = re.compile(r"\"(?:ttg|triton_gpu)\.num-ctas\" = (\d{1,2})\b")
_MOST_BOX = 256  # what Triton cuts a descriptor's block into, along each axis
_COLUMN_BYTES = 4 * 128  # of tensor memory


class View(NamedTuple):
    """A tensor that a type describes, its strides and where it begins in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    offset: int


def views(text: str) -> Iterator[View]:
    """Yield the tensors in global memory whose types in `text` name their strides."""
    if not (_OF_MAPS.search(text) or _MEMREF.fullmatch(text.strip())):  # programs of the CPU have such types too
        return
    for match in islice(_MEMREF.finditer(text), MOST_TYPES):
        strides = tuple(map(int, match["strides"].split(",")))
        shape = _shape(match)
        if len(strides) == len(shape) and (match["space"] is None or _GLOBAL_SPACE.match(match["space"])):
            offset = match["offset"] or "0"
            yield View(shape, strides, _element(match["element"]), 0 if offset == "?" else int(offset))


def described_maps(text: str) -> list[PrintedMap]:
    """Return the tensor maps of the descriptors in `text`, each different one once, as far as it tells of them."""
    constants = dict(_CONSTANT.findall(text))
    found: dict[tuple[TensorMap, ...], PrintedMap] = {}
    made = ((match, _of_triton(match, constants)) for match in _DESCRIPTOR.finditer(text))
    typed = ((match, _of_mlir(match)) for match in _MLIR_DESCRIPTOR.finditer(text))
    for match, values in islice(chain(made, typed), MOST_TYPES):
        rank = len(values["box"])
        try:
            maps = readings(values, rank)
        except InvalidInput:  # of no map's type
            continue
        found.setdefault(maps, PrintedMap(maps[0], match.start(), match.end(), maps, missing_fields(values, rank)))
    return list(found.values())


def _of_triton(match: re.Match[str], constants: dict[str, str]) -> dict[str, Any]:
    """Return the fields of a descriptor whose block may be larger than a box, into which Triton cuts it."""
    block, element = _shape(match), _element(match["element"])
    values: dict[str, Any] = {"dtype": element, "box": tuple(min(one, _MOST_BOX) for one in reversed(block))}
    if match["made"]:
        size = element_type(element).bits // 8
        extents, strides = (_constants(match[name], constants) for name in ("extents", "strides"))
        if len(extents) == len(block) and None not in extents:
            values["global_dim"] = tuple(reversed(extents))
        if len(strides) == len(block) and None not in strides[:-1]:
            values["global_stride"] = tuple(stride * size for stride in reversed(strides[:-1]) if stride is not None)
    return values


def _of_mlir(match: re.Match[str]) -> dict[str, Any]:
    swizzle = match["swizzle"]
    box = tuple(reversed(_shape(match)))
    return {"dtype": _element(match["element"]), "box": box, "swizzle": 0 if swizzle == "none" else swizzle.upper()}


def explain_buffers(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield what the largest buffers in shared and in tensor memory exceed by themselves, by their types in `text`."""
    ctas = max((int(match[1]) for match in _CTAS.finditer(text)), default=1) or 1
    largest: dict[bool, tuple[int, str]] = {}
    for match in islice(_BUFFER.finditer(text), MOST_TYPES):
        size = prod(_shape(match)) * element_type(_element(match["element"])).bits // 8 // ctas
        of_tensors = "tensor_memory" in match["rest"]
        if size > largest.get(of_tensors, (0, ""))[0]:
            largest[of_tensors] = (size, match[0])
    if False in largest and largest[False][0] > target.shared_bytes_per_block:
        yield shared_memory_exceeded.diagnostic(
            require(
                False,
                "the buffer takes {need} bytes of shared memory; a block has {limit}",
                help="take a smaller tile or fewer stages (num_stages)",
                need=largest[False][0],
                limit=target.shared_bytes_per_block,
            ),
            f"type {largest[False][1]}",
        )
    if True in largest and target.tcgen05 is not None:
        columns = -(-largest[True][0] // _COLUMN_BYTES)
        if columns > target.tcgen05.columns:
            yield tensor_memory_exceeded.diagnostic(
                require(
                    False,
                    "the buffer takes {columns} columns of tensor memory; an SM has {limit}",
                    help="take fewer stages of accumulators, or a smaller tile",
                    columns=columns,
                    limit=target.tcgen05.columns,
                ),
                f"type {largest[True][1]}",
            )


def _shape(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(map(int, match["shape"].split("x")))


def _element(name: str) -> str:
    """Return an element type of MLIR by this library's name."""
    if name.startswith("f8"):
        return "e5m2" if "5M2" in name else "e4m3"
    return {"si": "i", "ui": "u"}.get(name[:2], name[:2]) + name[2:]


def _constants(words: str, known: dict[str, str]) -> list[int | None]:
    """Return the numbers that the operands of a list are, None of each that the text does not tell."""
    return [_constant(word.strip(), known) for word in words.split(",")]


def _constant(word: str, known: dict[str, str]) -> int | None:
    named = _NAMED_CONSTANT.fullmatch(word)
    if word in known:
        return int(known[word])
    return None if named is None else int(named[1])

"""Pieces that sizes of a report do not fill: the 16 bytes of a bulk copy, the blocks of elements that share a scale.

`tma_store_cluster(dst, src, 508)` and "a bulk copy of 33 float32 elements" name bytes that are no multiple of 16;
`ScaleGranularityN = 128` beside `b: [2688, 10304]` an extent whose last block is not whole. That this is why the report
was written is likely and not certain, so that each is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from legalsat.diagnostics import Diagnostic
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.sizes import named_numbers
from legalsat.rule import require
from legalsat.targets import GRANULE_BYTES, Target

MOST_MATCHES, MOST_BYTES = 64, 1 << 24
_FAILS = re.compile(
    r"error|fail|hang|hung|wrong|incorrect|garbage|corrupt|invalid|illegal|crash|assert|mismatch|\bnan\b|misalign", re.I
)
# Copies of a row of bytes: by name of the instruction, or of what calls it.
_BULK = re.compile(
    r"cp\.async\.bulk(?!\.tensor|\.(?:commit|wait))|cp_?async_?bulk(?!_tensor|_commit|_wait)|\b1-?d (?:tma|bulk)\b|"
    r"tma_(?:store|load)_cluster|copy_cluster|bulk (?:copy|copies|load|store)|\btma 1d\b|memcpy_async_tx|bulk_copy",
    re.IGNORECASE,
)
_CALL = re.compile(
    r"\b(?:cp_?async_?bulk\w{0,60}|tma_(?:store|load)_cluster|memcpy_async_tx"
    r"|bulk_copy\w{0,40})\s?\((?P<inside>[^;\n]{0,300})"
)
_LITERAL = re.compile(r"(?:^|[,(<>\s])(?P<bytes>\d{1,8})(?=[uUlL]{0,3}\s?[,)])")
_ELEMENTS = re.compile(
    r"(?<![\w.])(?P<count>\d{1,7}) (?P<type>(?:b?float|fp|bf|int|uint|f|half|e\dm\d)\w{0,12}) (?:elements|values"
    r"|numbers)"
)
_BYTES = re.compile(r"(?<![\w.])(?P<bytes>\d{1,7})[ -]?bytes?\b", re.IGNORECASE)
# What says how many elements have one scale.
_BLOCK = re.compile(
    r"\b(?P<name>scale_?granularity_?[mnk]?|group_?size|block_?scale_?size|scale_?block(?:_?size)?|weight_?block_?size|"
    r"quant_?block(?:_?size)?|block_?shape|sf_?vec_?size)\b[\"']?\s?[:=]{1,2}\s?[\[(]?\s?(?P<size>16|32|64|128)\b|"
    r"\b(?P<wise>block[- ]?(?:wise|fp8|scaled?|quant\w*)?|blockwise fp8|fp8 block\w*|(?:block )?fp8)[^\n.;]{0,16}?"
    r"(?<!\d)(?P<side>128) ?[x×] ?128\b",
    re.IGNORECASE,
)
_OF_SCALES = re.compile(r"scal(?:e|ed|ing)|granular|quant|fp8|fp4|mxfp|nvfp", re.IGNORECASE)
_EXTENT = re.compile(
    r"(?<![\w.])(?P<name>[nNkK])\s?={1,2}\s?(?P<extent>\d{2,7})(?P<or>\s?(?:or|and|,)\s?\d{2,7})?\b(?!\.\d)"
)
_OPERAND = re.compile(
    r"\b(?P<name>b|w|weights?|mat_?b|mat_?2|rhs)\b\W{1,12}(?:torch\.Size"
    r"|shape)?\W{0,3}[\[(](?P<shape>\d{1,8}(?:, ?\d{1,8}){1,3})[\])]",
    re.IGNORECASE,
)
_WORKS = re.compile(r"\b(?:ok(?:ay)?|works?|fine|pass(?:es|ed)?|correct(?:ly)?|succeeds?)\b", re.IGNORECASE)
_BREAKS = re.compile(r"[\n;]")


def unfilled_pieces(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield what sizes of a report leave unfilled, of a bulk copy and of blocks of scales, once each.

    Args:
        text: the whole report.
        target: the GPU.
    """
    if not _FAILS.search(text):
        return
    if target.tma is not None and _BULK.search(text):
        for size, where in islice(_copied(text), MOST_MATCHES):
            if 0 < size < MOST_BYTES and size % GRANULE_BYTES:
                message = "a bulk copy of {bytes} bytes, no multiple of 16"
                help_ = "pad the row to a multiple of 16 bytes, or copy what is left over by threads"
                yield _warning("BULK002", message, help_, where, bytes=size)
                break
    if _OF_SCALES.search(text):
        yield from islice(_scaled(text, target), 1)


def _copied(text: str) -> Iterator[tuple[int, str]]:
    """Yield the bytes that calls of bulk copies are given, and those of elements that a report counts."""
    for match in islice(_CALL.finditer(text), MOST_MATCHES):
        last = [one["bytes"] for one in _LITERAL.finditer(match["inside"]) if int(one["bytes"]) >= 8]
        if last:
            yield int(last[-1]), f'text "{match[0][:97]}"'
    for match in islice(_ELEMENTS.finditer(text), MOST_MATCHES):
        try:
            bits = as_dtype(match["type"]).bits
        except InvalidInput:
            continue
        yield int(match["count"]) * bits // 8, f'text "{match[0]}"'
    for line in _BREAKS.split(text)[:MOST_MATCHES]:
        if _BULK.search(line[:400]):
            yield from ((int(one["bytes"]), f'text "{one[0]}"') for one in _BYTES.finditer(line[:400]))


def _scaled(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield an extent that is no multiple of the elements that share a scale."""
    sizes = {int(match["size"] or match["side"]): match[0] for match in islice(_BLOCK.finditer(text), MOST_MATCHES)}
    if not sizes:
        return
    extents = dict[str, int]()
    for clause in islice(_BREAKS.split(text), MOST_MATCHES):
        if _WORKS.search(clause[:400]) and not _FAILS.search(clause[:400]):
            continue
        for match in _EXTENT.finditer(clause[:400]):
            extents.setdefault(f"{match['name']} = {match['extent']}", int(match["extent"]))
        for match in _OPERAND.finditer(clause[:400]):
            last = int(match["shape"].split(",")[-1])
            extents.setdefault(f"{match['name']} of shape ({match['shape']})", last)
    names = named_numbers(text)
    extents |= {f"{name} = {size}": size for name, size in names.items() if name in ("size_n", "size_k", "in_features")}
    for size, written in sizes.items():
        for named, extent in extents.items():
            if extent > size and extent % size:
                message = "{named}: no multiple of the {size} elements that share a scale ({written})"
                help_ = "pad the extent to whole blocks of scales, or take a kernel that masks the last block"
                code = "TCGEN010" if target.tcgen05 is not None else "TOOL010"
                numbers = {"named": named, "size": size, "written": " ".join(written.split())}
                yield _warning(code, message, help_, "the sizes that the report names", **numbers)


def _warning(code: str, message: str, help: str, where: str, **numbers: object) -> Diagnostic:
    found = RULE_OF[code].diagnostic(require(False, message, help=help, **numbers), where)
    return replace(found, level="warning")

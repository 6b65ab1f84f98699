"""Tensors that programs print: shape, strides, type and where they begin, and the block that was to be moved."""

from __future__ import annotations

import re

from legalsat.dtypes import DType
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput
from legalsat.operators import Copy
from legalsat.tensor import ALLOCATOR_ALIGNMENT, Tensor, plain

ROWS, ROW_BITS = 128, 8 * 128
_NUMBERS = r"(?:torch\.Size\()?[(\[](?P<numbers>\d+(?:,\s*\d+)*),?[)\]]"
_SHAPE = re.compile(rf"\b(?:shape|size)\s*[:=]?\s*\(?{_NUMBERS}")
_STRIDES = re.compile(rf"\bstrides?\s*[:=]?\s*{_NUMBERS}")
_BLOCK = re.compile(rf"\bblock_?shape\s*[:=]?\s*{_NUMBERS}", re.IGNORECASE)
_BEGIN = re.compile(
    r"\b(?:(?P<elements>storage_offset)|data_ptr)(?:\(\))?\s*[:=]?\s*(?P<number>0x[0-9a-fA-F]{1,16}|\d{1,20})"
)
_DTYPE = re.compile(r"\b(?:torch\.(?=b?float|b?u?int|half|double)|dtype\s*[:=]\s*(?:torch\.)?[\"']?)(?P<name>\w+)")


def printed_copy(text: str) -> Copy | None:
    """Return the copy of the tensor whose shape, strides and type a text names; None unless it names all three.

    Raises:
        InvalidInput: the numbers make no tensor.
    """
    shape, strides, dtype, block = (pattern.search(text) for pattern in (_SHAPE, _STRIDES, _DTYPE, _BLOCK))
    if shape is None or strides is None or dtype is None:
        return None
    try:
        element = as_dtype(dtype["name"])
        offset = _offset(_BEGIN.search(text), element)
        tensor = Tensor(_list(shape), element, _list(strides), offset=offset)
        return Copy(tensor, tile=_tile(tensor) if block is None else _list(block))
    except InvalidInput as error:
        raise InvalidInput(f"the printed tensor makes no sense: {error}") from None


def _tile(tensor: Tensor) -> tuple[int, ...] | None:
    """Return a tile along the tensor's own last two axes, 128 rows of 128 bytes; none if it has but one.

    Without a tile a dense tensor may travel as one long row, which says nothing about a map of its axes.
    """
    *outer, rows, columns = (1, *plain(tensor.shape))
    return (*outer[1:], min(rows, ROWS), min(columns, ROW_BITS // tensor.dtype.bits)) if tensor.rank > 1 else None


def _offset(match: re.Match[str] | None, element: DType) -> int:
    """Return the bytes past a multiple of an allocator's alignment at which the tensor begins; 0 if nothing says so."""
    if match is None:
        return 0
    number = int(match["number"], 16 if match["number"].startswith("0x") else 10)
    return (number * element.bits // 8 if match["elements"] else number) % ALLOCATOR_ALIGNMENT


def _list(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(number) for number in match["numbers"].split(","))

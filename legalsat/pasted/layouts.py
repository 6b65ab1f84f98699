"""Layouts of tiles in shared memory as people write them.

Two notations are read: CuTe's, `Sw<3,4,3> o smem_ptr[16b](unset) o (_64,_64):(_64,_1)`, and words, `128x64 bf16 K-major
128B`, which mean what the copy engine's boxes of that swizzle make, one after the other.
"""

from __future__ import annotations

import re
from numbers import Integral
from typing import Any

from legalsat.analyses.matrix_layout import tile_layout
from legalsat.checks import one_of
from legalsat.dtypes import DType
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput
from legalsat.explanation import Explanation
from legalsat.extract.explain.explain_word import explain_word, word_of
from legalsat.layout import Layout
from legalsat.operators import MATRIX_CONSUMERS
from legalsat.options import Major
from legalsat.pasted.words import pasted_word
from legalsat.subjects import MOST_RESULT
from legalsat.targets import Target
from legalsat.units.matrix_descriptor import SPANS, MatrixDescriptor
from legalsat.units.shared_tile import SharedTile

_SWIZZLES = {(1, 4, 3): "32B", (2, 4, 3): "64B", (3, 4, 3): "128B", (2, 5, 2): "128B_atom_32B"}  # of byte addresses
_CUTE = re.compile(
    r"(?:Sw?<(?P<b>\d{1,2}),(?P<m>\d{1,2}),(?P<s>\d{1,2})>o)?"
    r"(?:(?P<pointer>smem_ptr(?:\[(?P<bits>\d{1,3})b\])?(?:\(\w*\))?|_?0)o)?"
    r"(?P<layout>[()_\d,]+:[()_\d,]+)"
)
_EXTENTS = re.compile(r"(\d{1,9})x(\d{1,9})")
_MAJOR = re.compile(r"(K|MN|M|N)[-_ ]?major", re.IGNORECASE)
_FORMS = "'Sw<3,4,3> o smem_ptr[16b] o (64,64):(64,1)' or '64x64 bf16 K-major 128B'"


def explain_beside(subject: Any, target: Target, layout: Any, dtype: Any, consumer: str | None) -> Explanation:
    """Explain a matrix descriptor, or its word as an int or text, beside the tile that it is to describe.

    Raises:
        InvalidInput: the subject is none, the layout is missing or not understood, or nothing reads it by descriptors.
    """
    if layout is None:
        raise InvalidInput("dtype belongs to a layout; give layout too, or leave it out")
    tile = shared_tile(layout, dtype)
    if consumer is not None:
        one_of(consumer, "consumer", MATRIX_CONSUMERS)
    if isinstance(subject, MatrixDescriptor):
        return explain_word(subject, target, tile, consumer)
    word = pasted_word(subject) if isinstance(subject, str) else subject
    if isinstance(word, bool) or not isinstance(word, Integral) or int(word) <= MOST_RESULT:
        raise InvalidInput("a layout goes with a matrix descriptor; give its 64-bit word beside it")
    return explain_word(word_of(int(word), target), target, tile, consumer)


def shared_tile(layout: Any, dtype: Any = None) -> SharedTile:
    """Return the tile that a layout is.

    Args:
        layout: a `SharedTile`; a `Layout` without a swizzle; or a text in one of the two notations.
        dtype: element type; may be left out where the text says it or its bits.

    Raises:
        InvalidInput: it is none of these, or the element type is missing or another one.
    """
    known = None if dtype is None else as_dtype(dtype)
    if isinstance(layout, SharedTile):
        found = layout
    elif isinstance(layout, Layout):
        found = SharedTile(layout, "none", _bits(known), "" if known is None else known.name)
    elif isinstance(layout, str):
        found = _read(layout, known)
    else:
        raise InvalidInput(f"layout is a {type(layout).__name__}; give a Layout, or a text such as {_FORMS}")
    if known is not None and known.bits != found.bits:
        raise InvalidInput(
            f"dtype {known.name} has {known.bits} bits, and the layout's elements {found.bits}; give one of the two"
        )
    return found


def _bits(known: DType | None) -> int:
    if known is None:
        raise InvalidInput("the layout's element type is missing; give dtype, such as bf16")
    return known.bits


def _read(text: str, known: DType | None) -> SharedTile:
    match = _CUTE.fullmatch(re.sub(r"\s", "", text.replace("\u2218", "o")))
    if match is None:
        return _of_words(text, known)
    layout = Layout(match["layout"].replace("_", ""))
    if layout.rank == 3:  # the last mode counts stages, which lie alike
        layout = Layout((layout[0].shape, layout[1].shape), (layout[0].stride, layout[1].stride))
    bits = int(match["bits"]) if match["bits"] else _bits(known)
    swizzle = "none"
    if match["b"] and int(match["b"]):
        b, m, s = (int(match[name]) for name in "bms")
        # Of addresses as CuTe has it on a pointer to shared memory, or of elements.
        in_bytes = m + max(0, (bits // 8).bit_length() - 1)
        swizzle = _SWIZZLES.get((b, m, s)) or _SWIZZLES.get((b, in_bytes, s), "")
        if not swizzle:
            raise InvalidInput(f"Sw<{b},{m},{s}> is no swizzle of matrix units; give Sw<1,4,3>, Sw<2,4,3> or Sw<3,4,3>")
    return SharedTile(layout, swizzle, bits, "" if known is None else known.name)


def _of_words(text: str, known: DType | None) -> SharedTile:
    """Return the tile of a text such as "128x64 bf16 K-major 128B"."""
    extents, swizzle = None, "none"
    major: Major = "K"
    for word in _MAJOR.sub(r"\1-major", re.sub(r"(?i)\bswizzle\b[ =:]*|,", " ", text)).split():
        if found := _EXTENTS.fullmatch(word):
            extents = int(found[1]), int(found[2])
        elif found := _MAJOR.fullmatch(word):
            major = "K" if found[1].upper() == "K" else "MN"
        elif word in SPANS:
            swizzle = word
        elif known is None:
            known = _named(word, text)
        elif _named(word, text) != known:
            raise InvalidInput(f"layout {text!r} names {word}, and dtype is {known.name}; give one")
    if extents is None:
        raise InvalidInput(f"layout is {text!r}; write it as {_FORMS}")
    bits, name = _bits(known), "" if known is None else known.name
    return SharedTile(tile_layout(*extents, bits, swizzle, major), swizzle, bits, name)


def _named(word: str, text: str) -> DType:
    try:
        return as_dtype(word)
    except InvalidInput:
        raise InvalidInput(f"layout {text!r} has {word!r}; write it as {_FORMS}") from None

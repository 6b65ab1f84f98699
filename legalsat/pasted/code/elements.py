"""Sizes of elements in pasted encode calls: the type that a tensor map names, beside the type that its strides count.

Strides are bytes, so code multiplies elements by `sizeof` of the array's own type. Where that type has another size
than the map's, boxes bring other elements than the array has (cuTensorMapEncodeTiled, `tensorDataType`). Bytes (UINT8)
may stand for elements of any type, and extents that are divided or multiplied for elements that were put together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.code.host_code import ELEMENT_BYTES, lists_of_calls
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.wording.likely import hints_at_failure
from legalsat.rule import require
from legalsat.targets import Target

MOST_NAMES = 64
_SIZEOF = re.compile(r"\bsizeof ?\( ?(?:\w{1,20}::)?(?P<type>\w{1,40}) ?\)")
_ALIAS = re.compile(
    r"\busing (?P<name>\w{1,40}) ?= ?(?:std::)?(?P<type>\w{1,40}(?: \w{1,10}){0,2}) ?;"
    r"|\btypedef (?:std::)?(?P<of>\w{1,40}(?: \w{1,10}){0,2}) (?P<named>\w{1,40}) ?;"
)
_LONG = re.compile(r"(?:unsigned )?long(?: long)?(?: int)?")
_COUNTED = re.compile(r"[*/]|>>|<<|sizeof")  # extents of elements that were put together or torn apart
_WIDE_TYPE = re.compile(r"CU_TENSOR_MAP_DATA_TYPE_(?:U?INT|[BT]?FLOAT)(?P<bits>16|32|64)(?:_FTZ)?")


def explain_elements(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield the first encode call whose strides count elements of another size than the map's, where something fails.

    Args:
        text: the report, code among it.
        target: the GPU. Nothing is said of one without tensor maps.
    """
    if RULE_OF["COPY010"].unit.limits(target) is None or "sizeof" not in text or not hints_at_failure(text):
        return
    aliases = {
        match["name"] or match["named"]: match["type"] or match["of"]
        for match in islice(_ALIAS.finditer(text), MOST_NAMES)
    }
    for word, extents, strides in lists_of_calls(text):
        mapped = _mapped(word)
        sizes = {_size(match["type"], aliases) for match in _SIZEOF.finditer(strides)}
        counted = sizes.pop() if len(sizes) == 1 else None
        if mapped is None or counted in (None, mapped) or _COUNTED.search(extents):
            continue
        message = "the elements of the map have {mapped} bytes, and its strides count elements of {counted}"
        help_ = "name the type of the tensor map by the array's elements, and keep one size for both"
        refused = require(False, message, help=help_, mapped=mapped, counted=counted)
        where = f'text "{" ".join(strides.split())[:97]}"'.replace("{", "(").replace("}", ")")
        yield replace(RULE_OF["COPY010"].diagnostic(refused, where), level="warning")
        return


def _mapped(word: str) -> int | None:
    """Return the bytes of an element of a map of a driver's type; None of bytes, packed types and names of others."""
    named = _WIDE_TYPE.fullmatch(word.rpartition("::")[2])
    return int(named["bits"]) // 8 if named is not None else None


def _size(name: str, aliases: dict[str, str]) -> int | None:
    name = aliases.get(name, name)
    return ELEMENT_BYTES.get("long" if _LONG.fullmatch(name) else name)

"""Where the rows and views of a report begin, in bytes, where a result says that an access was not aligned.

Threads that move 16 bytes at once, and the copy engine, need rows that begin at multiples of 16 bytes. A row of
`head_size=46` elements of bf16 has 92 bytes, and `x[1:]` of float32 begins 4 bytes into its storage. That this is why
the access failed is likely and not certain, so that it is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from legalsat.diagnostics import Diagnostic
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput
from legalsat.pasted.code.accesses import element_bytes
from legalsat.pasted.code.operators import is_number
from legalsat.pasted.code.views import Array
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.sizes import named_numbers
from legalsat.rule import require
from legalsat.targets import GRANULE_BYTES, Target

MOST_ROW = 1 << 20  # elements
_OF_MAPS = re.compile(r"tensor ?_?map|cutensormap|tensor ?_?desc|make_tensor_desc|\btma\b|tma_", re.IGNORECASE)
# Names of the extent of a tensor's last axis.
_ROW = re.compile(
    r"(?:\w*head_?(?:size|dim)|headdim|hidden_?(?:size|dim)|vocab_?size|row_?(?:len\w*|size)|n?_?cols|columns|ncols|"
    r"embed\w*_?dim|sample_(?:len\w*|size)|inner_?dim|in_features|out_features|feature_?(?:dim|size)|"
    r"(?:moe_)?intermediate_?(?:size|dim)|ffn_?(?:size|dim|hidden\w*)|d_model|d_ff|n_embd|num_features|row_?stride)",
    re.IGNORECASE,
)
# A size of which a report says itself that accesses by 4, 8 or 16 do not fill it.
_RAGGED = re.compile(
    r"(?:[\w.]{1,40} ){1,3}(?:is|are|was) (?:not|no) (?:an? )?(?:multiple of|divisible by)\W{0,3}(?:2|4|8|16)\b"
    r"|\b[\w.]{1,40} ?% ?\(?(?:2|4|8|16)\b[^\n;]{0,12}(?:!= ?0|> ?0)",
    re.IGNORECASE,
)
_HELP = "pad rows to a multiple of 16 bytes, copy the view, or take narrower accesses where they are not aligned"


def misaligned_rows(text: str, arrays: Iterable[Array], results: set[str], target: Target) -> Iterator[Diagnostic]:
    """Yield where a view of the code or a row that the text names begins, if that is no multiple of 16 bytes.

    Args:
        text: the whole report.
        arrays: those of its code.
        results: codes of what calls returned.
        target: the GPU.
    """
    of_maps = target.tma is not None and _OF_MAPS.search(text) is not None
    if "CUDA716" not in results and not (of_maps and "CUDA715" in results):
        return
    for array in arrays:
        size = _bytes_of(array.dtype)
        if size and is_number(array.offset) and array.offset * size % GRANULE_BYTES:
            message = "a view begins {offset} elements of {dtype} into its storage, {bytes} bytes, no multiple of 16"
            numbers = {"offset": array.offset, "dtype": array.dtype, "bytes": array.offset * size}
            yield _warning("TMA004" if of_maps else "VEC002", message, f"a view of shape {array.shape}", **numbers)
            return
    size = element_bytes(text).get("", 0)
    for name, extent in row_lengths(named_numbers(text)).items() if size else ():
        if extent * size % GRANULE_BYTES:
            message = "rows of {name} = {extent} elements of {size} bytes have {bytes} bytes, no multiple of 16"
            numbers = {"name": name, "extent": extent, "size": size, "bytes": extent * size}
            yield _warning("TMA005" if of_maps else "VEC002", message, f'text "{name} = {extent}"', **numbers)
            return
    if (said := _RAGGED.search(text)) is not None:
        message = "accesses of 16 bytes then begin at no multiple of 16: {said}"
        yield _warning("VEC002", message, f'text "{said[0][:97]}"', said=" ".join(said[0].split()))


def row_lengths(named: Mapping[str, int]) -> dict[str, int]:
    """Return those of a text's numbers that are extents of a tensor's last axis, by name."""
    return {name: size for name, size in named.items() if _ROW.fullmatch(name) and 1 < size < MOST_ROW}


def _bytes_of(name: str | None) -> int:
    try:
        bits = as_dtype(name).bits if name else 0
    except InvalidInput:
        return 0
    return bits // 8


def _warning(code: str, message: str, where: str, **numbers: object) -> Diagnostic:
    found = RULE_OF[code].diagnostic(require(False, message, help=_HELP, **numbers), where)
    return replace(found, level="warning")

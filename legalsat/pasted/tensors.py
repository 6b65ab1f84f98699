"""Tensors that programs print: shape, strides, type and where they begin, and the block that was to be moved.

A text that names a shape, strides and a type is judged as that tensor. One that leaves out the type, or the strides of
a tensor that it complains of, is judged by what every type, and rows one after the other, break.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import gcd

from legalsat.diagnostics import Diagnostic
from legalsat.dtypes import DType
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput
from legalsat.explanation import USES, Explanation
from legalsat.extract.explain.explain import explain_tensor, refused
from legalsat.operators import Copy
from legalsat.pasted.beside import OF_ILLEGAL_MAPS, curing
from legalsat.pasted.code.calls import made_arrays
from legalsat.pasted.code.expressions import Followed
from legalsat.pasted.code.views import Array
from legalsat.pasted.ir import views
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.wording.likely import tells_of_failure
from legalsat.pasted.wording.scope import ends, seen_in
from legalsat.rule import require
from legalsat.targets import Target
from legalsat.tensor import ALLOCATOR_ALIGNMENT, Tensor, plain

ROWS, ROW_BITS, GRANULE_BITS = 128, 8 * 128, 8 * 16
MOST_TENSORS = 8  # of one text, the others repeat them or are not what it is about
_SPEAKS_OF_MAPS = re.compile(
    r"\btma\b|_tma|tma_|tensor_?map|tensor_?desc|TensorDescriptor|cp\.async\.bulk", re.IGNORECASE
)
_OF_VALUES = frozenset({"wrong", "flaky", "race", "fails"})
_UNIT_AXIS = "TMA037"
_AS_IT_IS = "the tensor is legal with another stride of its axis of one element, and the text says that something fails"
_WIDTHS = ("u8", "bf16", "fp32", "fp64")
_LIST = r"(?:torch\.Size\()?[(\[](?P<{0}>\d+(?:,\s*\d+)*),?[)\]]\)?"
_PRINTED = re.compile(
    rf"\b(?:shape|sizes?)(?![(\[]-?\d+[)\]])\(?\)?\s*[:=]?\s*\(?{_LIST.format('shape')}|torch\.Size\(\[(?P<torch>\d+(?:,\s*\d+)*)\]\)"
    rf"|\bstrides?\(?\)?\s*[:=]?\s*\(?{_LIST.format('strides')}"
    rf"|\b[Bb]lock_?[Ss]hape\s*[:=]?\s*{_LIST.format('block')}"
    r"|\b(?P<unit>storage_offset|data_ptr)(?:\(\))?\s*[:=]?\s*(?P<begin>0x[0-9a-fA-F]{1,16}|\d{1,20})"
    r"|\b(?:torch\.(?=b?float|b?u?int|half|double)|[dD]?_?[tT]ype\s*[:=]\s*(?:torch\.)?[\"']?)(?P<dtype>[A-Za-z]\w*)"
    r"|(?:(?<=[)\]])[,;:]? |\b[dD]type (?:torch\.)?)(?P<bare>bfloat16|float(?:16|32|64)|bf16|fp(?:16|32|64)"
    r"|e4m3\w{0,6}|e5m2\w{0,6}|u?int(?:8|16|32|64))\b"
    r"|\b(?P<xla>bf16|f16|f32|f64|s8|u8|s32|f8e4m3fn|f8e5m2)\[(?P<dims>\d+(?:,\s*\d+)+)\]"
)


@dataclass(slots=True)
class Printed:
    """The fields of one tensor as far as they are printed."""

    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    dtype: str | None = None
    block: tuple[int, ...] | None = None
    begin: int = 0
    begin_in_elements: bool = False


def explain_printed_tensors(
    text: str, followed: Followed, target: Target, said: Sequence[Diagnostic], uses: int = USES
) -> Explanation | None:
    """Return the explanation of the tensors that a text prints; None if there are none, or nothing is certain of them.

    The first that is refused is told, or else the first. `said` is what the text says besides; it outweighs a verdict
    of legal.

    Raises:
        InvalidInput: the numbers make no tensor.
    """
    if not _may_be_of_copies(text, target):
        return None
    every = list(printed_tensors(text))
    found = [one for one in (_explain(printed, target, uses) for printed in every) if one is not None]
    complains = bool(said) or (_SPEAKS_OF_MAPS.search(text) is not None and tells_of_failure(text))
    parts = (_explain_partly(printed, target, said, complains=complains) for printed in every)
    found = found or [one for one in parts if one is not None]
    if not any(not one.legal for one in found):
        found = [*_explain_made(text, followed, target, said, uses), *found]
    if not found:
        return None
    told = curing(next((one for one in found if not one.legal), found[0]), said, text)
    codes = {diagnostic.code for diagnostic in told.diagnostics}
    more = [diagnostic for diagnostic in said if diagnostic.code not in codes]
    legal = told.legal and not any(diagnostic.level == "error" for diagnostic in more)
    told = replace(told, legal=legal, diagnostics=(*told.diagnostics, *more))
    if legal and complains and any(one.code == _UNIT_AXIS for one in told.diagnostics):
        return replace(told, legal=False, undecided=_AS_IT_IS, obligations=())
    return told


def _may_be_of_copies(text: str, target: Target) -> bool:
    """Whether what fails may be a copy: how a tensor lies spoils no values of other kernels."""
    if _SPEAKS_OF_MAPS.search(text):
        return True
    return target.tma is not None and not {"wrong"} <= seen_in(ends(text)) <= _OF_VALUES


def _explain_made(
    text: str, followed: Followed, target: Target, said: Sequence[Diagnostic], uses: int
) -> list[Explanation]:
    """Return the explanation of the first tensor that code makes and no map describes, of a text of a failed copy."""
    of_maps = any(one.code.startswith(("TMA", "COPY")) for one in said)
    if not said or not (of_maps or _SPEAKS_OF_MAPS.search(text)):
        return []
    for made in islice(made_arrays(followed.arrays), MOST_TENSORS):
        printed = _of_array(made)
        try:
            found = _explain(printed, target, uses) or _explain_partly(printed, target, said, complains=True)
        except InvalidInput:  # of no tensor, such as one of overlapping rows
            continue
        codes = set() if found is None or found.legal else {one.code for one in found.diagnostics}
        # What the text says of another cause outweighs a tensor that its code happens to make.
        if (
            found is not None
            and codes
            and (all(one.code.startswith("CUDA") for one in said) or not codes.isdisjoint(one.code for one in said))
        ):
            return [replace(found, values=(*found.values, "the text's code makes this tensor; it was not run"))]
    return []


def explain_array(array: Array, block: tuple[int, ...] | None, target: Target, uses: int = USES) -> Explanation | None:
    """Return the explanation of an array of which all is known, as code makes it; None if it makes no tensor."""
    try:
        return _explain(replace(_of_array(array), block=block), target, uses)
    except InvalidInput:
        return None


def _of_array(array: Array) -> Printed:
    sizes = tuple(extent or 0 for extent in array.shape)
    steps = tuple(stride or 0 for stride in array.strides)
    return Printed(sizes, steps, array.dtype, begin=array.offset or 0, begin_in_elements=True)


def printed_tensors(text: str) -> Iterator[Printed]:
    """Yield the tensors that a text prints, in its order, each with what follows its shape up to the next one."""
    tensors: list[Printed] = []
    early: dict[str, str] = {}  # what stands before the first shape, as in `dtype=..., shape=...`
    for match in _PRINTED.finditer(text):
        shape = match["shape"] or match["torch"] or match["dims"]
        if shape is not None:
            if len(tensors) == MOST_TENSORS:
                break
            tensors.append(Printed(_numbers(shape), dtype=match["xla"] or early.pop("dtype", None)))
        elif not tensors:
            words = {name: word for name, word in match.groupdict().items() if word is not None}
            early |= {name: word for name, word in words.items() if name != "dtype" or _is_type(word)}
        else:
            _add(tensors[-1], match)
    last = tensors[-1] if tensors else None
    if last is not None and len(tensors) == 1 and last.strides is None and "strides" in early:
        last.strides = _numbers(early["strides"])
    types = {one.dtype for one in tensors if one.dtype is not None}
    tensors += [
        Printed(view.shape, view.strides, view.dtype, begin=view.offset, begin_in_elements=True)
        for view in islice(views(text), MOST_TENSORS)
    ]
    for one in tensors:  # one type that is printed once, before or after several shapes, is that of all
        one.dtype = one.dtype or (next(iter(types)) if len(types) == 1 else None)
    yield from tensors


def _add(tensor: Printed, match: re.Match[str]) -> None:
    if match["strides"] and tensor.strides is None:
        tensor.strides = _numbers(match["strides"])
    elif match["block"] and tensor.block is None:
        tensor.block = _numbers(match["block"])
    elif match["begin"]:
        tensor.begin = int(match["begin"], 16 if match["begin"].startswith("0x") else 10)
        tensor.begin_in_elements = match["unit"] == "storage_offset"
    elif tensor.dtype is None and (name := match["dtype"] or match["bare"]) and _is_type(name):
        tensor.dtype = name


def _is_type(name: str) -> bool:
    try:
        as_dtype(name)
    except InvalidInput:
        return False
    return True


def _explain(printed: Printed, target: Target, uses: int) -> Explanation | None:
    """Return the explanation of a tensor of which all is printed; None of others."""
    if printed.strides is None or printed.dtype is None:
        return None
    if 0 in printed.shape:
        return _empty(printed, target)
    try:
        return explain_tensor(_copy(printed, as_dtype(printed.dtype), printed.strides), target, alone=True, uses=uses)
    except InvalidInput as error:
        raise InvalidInput(f"the printed tensor makes no sense: {error}") from None


def _explain_partly(
    printed: Printed, target: Target, said: Sequence[Diagnostic], *, complains: bool
) -> Explanation | None:
    """Return what a tensor breaks whatever its type, or as rows without gaps if the text complains of it or a map."""
    if 0 in printed.shape and complains:
        return _empty(printed, target)
    if (printed.strides is None and not complains) or 0 in printed.shape:
        return None
    types = [printed.dtype] if printed.dtype is not None else list(_WIDTHS)
    try:
        copies = [_copy(printed, as_dtype(name), printed.strides) for name in types]
        whys = [refused(one, target)[0] or () for one in copies]
        first = explain_tensor(copies[0], target, alone=True) if all(whys) else None
    except InvalidInput:
        return None
    if first is None:
        return None
    certain = tuple(d for d in whys[0] if all(any(d.code == other.code for other in why) for why in whys))
    if printed.dtype is None:
        certain = tuple(replace(d, message=f"whatever its type, as here of {_WIDTHS[0]}: {d.message}") for d in certain)
    wanted = {d.code for d in said}
    complained = not wanted.isdisjoint(d.code for d in certain) or wanted <= OF_ILLEGAL_MAPS
    if not certain or (printed.strides is None and not complained):
        return None
    strides = "" if printed.strides is None else f" strides {printed.strides}"
    subject = f"tensor of shape {printed.shape}{strides}" if printed.dtype is None else first.subject
    open_ = "its type is not printed, and every type breaks this" if printed.dtype is None else ""
    dense = "its strides are not printed: rows without gaps are taken" if printed.strides is None else ""
    repairs = first.repairs if printed.dtype is not None else ()  # they are those of one type
    values = tuple(filter(None, (open_, dense)))
    return replace(first, subject=subject, diagnostics=certain, repairs=repairs, values=values, plan=None)


def _empty(printed: Printed, target: Target) -> Explanation:
    axis = printed.shape.index(0)
    diagnostic = RULE_OF["TMA002"].diagnostic(
        require(False, "axis {axis} of the tensor has extent 0", help="skip the copy of an empty tensor", axis=axis),
        f"printed tensor of shape {printed.shape}",
    )
    return Explanation(f"tensor of shape {printed.shape}", str(target), False, (diagnostic,))


def _copy(printed: Printed, element: DType, strides: tuple[int, ...] | None) -> Copy:
    begin = printed.begin * element.bits // 8 if printed.begin_in_elements else printed.begin
    tensor = Tensor(printed.shape, element, strides, offset=begin % ALLOCATOR_ALIGNMENT)
    return Copy(tensor, tile=_tile(tensor) if printed.block is None else printed.block)


def _tile(tensor: Tensor) -> tuple[int, ...] | None:
    """Return a tile of the tensor's own last two axes, 128 rows of 128 bytes; none if it has but one.

    Who reports a failure tiles the tensor by its axes: that all of it could travel as one long row is no help then. A
    narrow row's box is whole granules of 16 bytes, as every box is.
    """
    *outer, rows, columns = (1, *plain(tensor.shape))
    granule = GRANULE_BITS // gcd(GRANULE_BITS, tensor.dtype.bits)
    width = min(-(-columns // granule) * granule, ROW_BITS // tensor.dtype.bits)
    return (*(1 for _ in outer[1:]), min(rows, ROWS), width) if tensor.rank > 1 else None


def _numbers(words: str) -> tuple[int, ...]:
    return tuple(int(word) for word in words.split(","))

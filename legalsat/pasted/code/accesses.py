"""What a text names that accesses memory, where a result says no more than that an access was not aligned.

An address in code, `&A[5]`, `(uint4*)(p + 3 * threadIdx.x + 1)` or `B[0:32, 1:33]`, is followed as a sum of
constants and unknown whole numbers: it is misaligned for certain if it is so where all of these are 0, or the index of
a thread or a block is 1.
Without such an address what the text speaks of is named: bulk copies, vectors, rows of ldmatrix.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from math import prod

from legalsat.diagnostics import Diagnostic
from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput
from legalsat.pasted.code.host_code import ELEMENT_BYTES, affine
from legalsat.pasted.sentences import RULE_OF
from legalsat.rule import require
from legalsat.targets import GRANULE_BYTES, Target

MOST_ACCESSES = 64
MISALIGNED, ILLEGAL = 716, 715
_TYPES = "|".join(sorted(ELEMENT_BYTES, key=len, reverse=True))
_POINTER = re.compile(rf"\b(?:const )?(?P<type>{_TYPES})(?: const)? ?\*+ ?(?:__restrict__ |const )*(?P<name>\w+)\b")
_ARRAY = re.compile(rf"\b(?P<type>{_TYPES}) (?P<name>\w+)(?P<extents>(?:\[[^\]\n;]{{0,80}}\]){{1,6}})")
_TENSOR = re.compile(
    r"\b(?P<name>\w+) ?[:=] ?T\.(?:Tensor|Buffer|alloc_shared|"
    r"alloc_fragment)\(\([^()\n]{0,80}\), ?[\"']?(?:T\.)?(?P<type>\w+)"
)
_NAMED_TYPE = re.compile(
    r"\b(?:fp32|float32|fp16|float16|bf16|bfloat16|fp64|float64|u?int(?:8|16|32|64)|fp8|int4)\b", re.I
)
_BULK = re.compile(
    r"\b(?:tl::)?tma_(?:load|store)\w*\((?P<arguments>[^;\n]{1,300})|\bcp_?async_?bulk\w*\((?P<others>[^;\n]{1,300})"
)
_ELEMENT = re.compile(r"&(?P<name>[A-Za-z_]\w*)\[(?P<index>[^\[\]\n]{1,80})\]")
_INDEX = r"[+\[][^;\n]{0,120}"
_VECTOR = re.compile(
    rf"\(\(?(?P<type>(?:{_TYPES})[1248]?) ?(?:const ?)?\* ?\)+ ?\(? ?&?(?P<name>\w+) ?(?=(?P<index>{_INDEX}))"
    rf"|reinterpret_cast<(?:const )?(?P<type1>(?:{_TYPES})[1248]?) ?(?:const ?)?\*>\( ?&?(?P<name1>\w+) ?"
    rf"(?=(?P<index1>{_INDEX}))"
)
_REQUESTED = re.compile(r"misaligned address \((?P<bytes>\d{1,4}) bytes requested\)", re.I)
_VIEW = re.compile(r"smem, ?align<(?P<align>\d{1,4})>")
_SLICES = re.compile(r"\b(?P<name>[A-Za-z_]\w*)\[(?P<index>[^\[\]\n]{0,80}:[^\[\]\n]{0,80})\]")
_COPIED = re.compile(r"\bT\.copy\(\s?(?P<name>\w+)\[(?P<index>[^\[\]\n:]{1,120})\]")
_GROUPS = re.compile(r"(?:\[[^\[\]\n]{1,80}\]){1,6}")
# Names that take every number from 0 on.
_COUNTS = re.compile(r"(?:threadIdx|blockIdx)\.[xyz]|tid|[bt][xyz]|lane(?:_?id)?|ko", re.I)
_COORDINATE = re.compile(r"\btma_(?:load|store)\b|\bcp\.async\.bulk\.tensor\b|\bT\.copy\b|\bTMA\b", re.I)
_BYTES_OFF = re.compile(r"(?:misaligned|unaligned|off\w*)[^\n]{0,60}\((?P<bytes>\d{1,3}) ?B(?:ytes)?\)", re.I)
# What a text speaks of, and the rule that such an access breaks when it is not aligned.
_SPOKEN = (
    (
        re.compile(r"ldmatrix|LDSM|stmatrix", re.I),
        "VEC002",
        "a row that ldmatrix or stmatrix moves does not lie in 16 bytes at a multiple of 16 of shared memory",
        "lay the tile out so that each row of 8 x 8 elements of 16 bits has 16 contiguous bytes: K-major for 8-bit "
        "types, "
        "with a swizzle that keeps 16 bytes together",
    ),
    (
        re.compile(r"cp\.async\.bulk(?!\.tensor)|copy_cluster|tma_store_cluster|\b1-?d (?:bulk|tma)|bulk copy", re.I),
        "BULK001",
        "a bulk copy begins at no multiple of 16 bytes, in global or in shared memory{off}",
        "begin both ends at a multiple of 16 bytes, or copy what is left over by threads",
    ),
    (
        re.compile(
            r"\b(?:float|u?int|double|u?short|half|u?char|bfloat16|bf16)[248](?:_t)?\b|vectori[sz]|reinterpret_cast|\bLD[GS]\.|"
            r"\b(?:ld|st)\.(?:global|shared)\.v[24]|Copy_Atom|VecSize|AutoVectoriz|128-?bit|memcpy_\d|AlignmentA|"
            r"uint1\b", re.I
        ),
        "VEC002",
        "threads load or store a vector at an address that is no multiple of its size, such as 16 bytes of float4 "
        "or int4 "
        "or 8 of float2{off}",
        "align the array to the vector's size (alignas(16)) and make its leading dimension a multiple of it, or take "
        "narrower vectors",
    ),
)  # fmt: skip


def explain_accesses(text: str, results: set[int], target: Target, code: str) -> Iterator[Diagnostic]:
    """Yield the access that is not aligned, if one of a text's `results` says so; one diagnostic at most.

    Addresses are those of `code`, the text and what is beside it; what else is spoken of is the text's own.
    """
    if MISALIGNED in results or (ILLEGAL in results and target.tma is not None):
        computed = islice(_computed(code, target), 1)
        yield from computed if (first := next(computed, None)) is None else (first,)
        if first is None and MISALIGNED in results:
            yield from islice(_spoken(text, target), 1)


def _computed(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield the accesses whose address code says."""
    types, inner = element_bytes(text), _inner_extents(text)
    asked, view = _REQUESTED.search(text), _VIEW.search(text)
    if asked is not None and view is not None and int(view["align"]) < int(asked["bytes"]):
        message = "{bytes} bytes are requested at once of a view of shared memory that is aligned to {align}"
        help_ = _SPOKEN[0][3]
        yield _found("VEC002", message, help_, view[0], bytes=asked["bytes"], align=view["align"])
    for match in islice(_BULK.finditer(text), MOST_ACCESSES if target.tma is not None else 0):
        for one in islice(_ELEMENT.finditer(match["arguments"] or match["others"]), 4):
            size = types.get(one["name"], types.get(""))
            off = None if size is None else _misaligned(one["index"], size, GRANULE_BYTES)
            if off is not None:
                message = "the bulk copy at {shown} begins {off} bytes past a multiple of 16"
                help_ = "begin both ends of a bulk copy at multiples of 16 bytes, or copy what is left over by threads"
                yield _found("BULK001", message, help_, one[0], shown=one[0], off=off)
    for match in islice(_VECTOR.finditer(text), MOST_ACCESSES):
        name, kind = match["name"] or match["name1"], match["type"] or match["type1"]
        index, size, whole = match["index"] or match["index1"], types.get(name), _vector_bytes(kind)
        off = None if size is None or size >= whole else _misaligned(_flat(index, inner.get(name, ())), size, whole)
        if off is not None:
            message = "{kind} has {whole} bytes, and {name} is accessed {off} bytes past a multiple of that"
            help_ = "take an offset and strides that are multiples of the vector's elements, or narrower vectors"
            yield _found("VEC002", message, help_, match[0][:90], kind=kind, whole=whole, name=name, off=off)
    for match in islice(
        _SLICES.finditer(text) if target.tma is not None and _COORDINATE.search(text) else (), MOST_ACCESSES
    ):
        begin, end = match["index"].rpartition(",")[2].partition(":")[::2]
        size = types.get(match["name"], types.get(""))
        off = _misaligned(begin, size, GRANULE_BYTES) if size is not None and end and begin.strip() else None
        if off is not None:
            message = "the innermost coordinate of {shown} is {off} bytes past a multiple of 16"
            help_ = "begin each box at a multiple of 16 bytes along the innermost axis, or copy without the copy engine"
            yield _found("COPY001", message, help_, match[0], shown=match[0], off=off)
    for match in islice(_COPIED.finditer(text), MOST_ACCESSES if target.tma is not None else 0):
        size = types.get(match["name"], types.get(""))
        off = None if size is None else _misaligned(match["index"].rpartition(",")[2], size, GRANULE_BYTES)
        if off is not None:
            message = "the box begins at {index} of {name}, whose innermost coordinate is {off} bytes past a "
            "multiple of 16"
            help_ = "begin each box at a multiple of 16 bytes along the innermost axis, or copy without the copy engine"
            yield _found("COPY001", message, help_, match[0], index=match["index"], name=match["name"], off=off)


def _spoken(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield what the text speaks of, with the bytes that it prints."""
    told = _BYTES_OFF.search(text)
    off = f"; {told['bytes']} bytes past one by the text" if told else ""
    for pattern, code, message, help_ in _SPOKEN:
        match = pattern.search(text)
        if match is not None and RULE_OF[code].unit.limits(target) is not None:
            yield _found(code, f"{message}: the text speaks of {{word}}", help_, match[0], word=match[0], off=off)


def _found(code: str, message: str, help_: str, where: str, **numbers: object) -> Diagnostic:
    return RULE_OF[code].diagnostic(require(False, message, help=help_, **numbers), f'text "{where}"')


def element_bytes(text: str) -> dict[str, int]:
    """Return the bytes of an element by array; under "" those of the one type that a text names."""
    found: dict[str, int] = {}
    for pattern in (_POINTER, _ARRAY):
        found |= {
            match["name"]: ELEMENT_BYTES[match["type"]] for match in islice(pattern.finditer(text), MOST_ACCESSES)
        }
    for match in islice(_TENSOR.finditer(text), MOST_ACCESSES):
        for size in _sized(match["type"]):
            found[match["name"]] = size
    sizes = {size for match in islice(_NAMED_TYPE.finditer(text), MOST_ACCESSES) for size in _sized(match[0].lower())}
    return found | ({"": next(iter(sizes))} if len(sizes) == 1 else {})


def _sized(name: str) -> list[int]:
    try:
        bits = as_dtype(name).bits
    except InvalidInput:
        return []
    return [bits // 8] if bits % 8 == 0 else []


def _vector_bytes(kind: str) -> int:
    if kind in ELEMENT_BYTES:
        return ELEMENT_BYTES[kind]
    return ELEMENT_BYTES[kind[:-1]] * int(kind[-1])


def _inner_extents(text: str) -> dict[str, tuple[int, ...] | None]:
    """Return the extents of each array's axes but the first; None where one of them is no number."""
    found: dict[str, tuple[int, ...] | None] = {}
    for match in islice(_ARRAY.finditer(text), MOST_ACCESSES):
        words = match["extents"][1:-1].split("][")[1:]
        found[match["name"]] = tuple(map(int, words)) if all(word.isdigit() for word in words) else None
    return found


def _flat(index: str, inner: tuple[int, ...] | None) -> str:
    """Return the offset of an element, `+ i` or `[i][j]`, in elements, as an expression; "?" if it is not known."""
    groups = _GROUPS.match(index)
    if groups is None:
        return _closed(index)
    parts = groups[0][1:-1].split("][")
    if inner is None or len(parts) != len(inner) + 1:
        return "?"
    return " + ".join(f"({part}) * {prod(inner[axis:])}" for axis, part in enumerate(parts))


def _closed(index: str) -> str:
    """Return an index up to where its bracket, or the one around it, is closed."""
    depth = 0
    for at, char in enumerate(index):
        depth += (char in "([") - (char in ")]")
        if depth < 0 or (depth == 0 and char == "]"):
            return index[1:at]
    return index[1:]


def _misaligned(index: str, size: int, granule: int) -> int | None:
    """Return how many bytes an index is past a multiple of `granule` for certain; None if that is not known."""
    terms = affine(index)
    if terms is None:
        return None
    constant = terms.pop("", 0)
    if any(count * size % granule and not _COUNTS.fullmatch(name) for name, count in terms.items()):
        return None  # such as an offset, which may be a multiple of the granule itself
    for count in (constant, *(constant + one for one in terms.values())):
        if count * size % granule:
            return count * size % granule
    return None

"""Sizes that a report names beside a failure: of library calls, command lines, layers, configurations and code.

What kind of failure it is says which limit a size may pass. cuBLAS and CUTLASS read operands in pieces of 16 bytes, so
an extent that becomes a stride is a multiple of 16 bytes; a launch takes 65535 blocks along y and z of its grid; 32
bits count offsets up to 2^31. Sizes that work beside sizes that fail show which limit lies between them. That a size is
why the call failed is likely and not certain: what rests on it is a warning unless the text says that a product failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, combinations, islice, pairwise
from math import gcd, prod
from operator import mul
from typing import NamedTuple

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.code.expressions import Called, Followed
from legalsat.pasted.code.operators import is_number
from legalsat.pasted.code.views import Array
from legalsat.pasted.grammar import FAILED
from legalsat.pasted.pieces import unfilled_pieces
from legalsat.pasted.rows import misaligned_rows, row_lengths
from legalsat.pasted.sentences import OWN_LIMIT, RULE_OF
from legalsat.pasted.sizes import Product, named_numbers, plain_lists, products, rounded_products, stated_products
from legalsat.rule import require
from legalsat.targets import Target

MOST_EXTENTS, MOST_CLAUSES, MOST_FACTORS, LARGEST = 64, 400, 6, 1 << 48
MOST_BLOCKS, MOST_OFFSETS = 65535, 2**31 - 1
_FOUR_BITS = re.compile(r"\bu?int4(?:b?_t)?\b|\b[su]4\b|\be2m1\b|nvfp4|float4_e2m1", re.IGNORECASE)
_EIGHT_BITS = re.compile(r"fp8|float8|e[45]m[23]|scaled_mm|\bmxfp|w8a8|transformer_engine", re.IGNORECASE)
_LIBRARY = re.compile(
    r"CUBLAS_STATUS_(?:NOT_SUPPORTED|INVALID_VALUE)|cublas\w* (?:\w+ )*(?:status|error)\W{0,3}\w", re.I
)
CALL = re.compile(r"\bm (?P<m>\d{1,9}) n (?P<n>\d{1,9}) k (?P<k>\d{1,9})\b")
_KERNELS = re.compile(
    r"cutlass[^\n]{0,200}(?:Invalid status|Misaligned|not supported|failed|exception)|misaligned|can_implement",
    re.IGNORECASE,
)
_SHAPE = re.compile(r"(?<![\w.])(?P<rows>\d{1,6}) ?x ?(?P<columns>\d{1,6})\b(?![.x])")
_OPTION = re.compile(
    r"(?<![\w-])(?:--(?P<name>[mnk])[= ]|(?:length_|gemm_|size_|dim_)?(?P<symbol>[mnkMNK])\s?=\s?)"
    r"(?P<extent>\d{1,9})\b(?!\.)"
    r"|(?:GemmCoord|problem_size)\w*(?: \w+)?\s?[({]\s?(?P<m>\d{1,9})\s?,\s?(?P<n>\d{1,9})\s?,\s?(?P<k>\d{1,9})\b"
)
_WIDE = re.compile(r"fp32|float32|tf32|sgemm|\bfloat\b")
_NARROW = re.compile(r"half|fp16|float16|bf16|bfloat16|hgemm|h?16816|s8|int8")
_INTEGERS, _HALVES = re.compile(r"\bu?int8(?:_t)?\b|\bs8\b"), re.compile(r"half|fp16|float16|bf16|bfloat16|hgemm|16816")
_CONFIGURED = re.compile(
    r"\b(?P<name>n_inner|n_embd|d_model|ffn_dim|(?:moe_)?intermediate_size|hidden_size|in_features|out_features|"
    r"vocab_size)[\"']?\s{0,4}[:=]\s{0,4}(?P<extent>\d{1,9})\b"
)
_LAYER = re.compile(r"(?:^|\.)Linear$")
_PRODUCT = re.compile(r"(?:^|[._])i?(?:gemm\w*|mm|matmul\w*)$")
_HELP = "pad the extent to a multiple of 16 bytes: 16 elements of 8 bits, 8 of 16 bits"
# Clauses that say that something works, or that it fails, and the numbers in them.
_CLAUSE = re.compile(r"\n|;|\. |, (?:but|while|whereas)|\b(?:but|However|whereas)\b")
_BAD = re.compile(
    r"\b(?:fail\w*|error\w*|crash\w*|hang\w*|wrong|rais\w+|throw\w*|nan|broken|invalid|incorrect\w*|illegal|exceed\w*|"
    r"misalign\w*|garbage|can ?not|can't|(?:doesn|don|not|won|didn)(?:'?t)? (?:\w+ )?(?:work|run|launch)\w*)\b|"
    r"\d ?> ?\d",
    re.IGNORECASE,
)
_OK = re.compile(
    r"\b(?:ok(?:ay)?|work(?:s|ed|ing)?|fine|pass(?:es|ed)?|succe\w+|correct(?:ly)?|runs?|perfectly|exact)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.])(\d{1,3}(?:[_,]\d{3})+|\d{1,12})([kKmMgG]?)\b(?!\.\d)")
_LAUNCHED = re.compile(
    r"(\d{2,5}) threads\b[^\n]{0,60}\bgrid\w* ?[(=]{1,2} ?(\d{1,10}) ?, ?(\d{1,9})(?: ?, ?(\d{1,9}))?"
)
_OF_WORD = 10  # characters before a list that say what it is
_LIST = re.compile(r"(?<![\w\]])(?:new|shape|size)?\s?[(\[](\d{1,12}(?: ?, ?\d{1,12}){1,5})[)\]]")
_OF_VERSIONS = re.compile(r"\b(?:cuda|torch|python|triton|cutlass|version|driver|sm|gcc|v)[ _:=]{0,2}$", re.IGNORECASE)
_OF_LAUNCHES, _OF_ADDRESSES = frozenset({"CUDA001", "TOOL008", "TOOL011"}), frozenset({"CUDA700", "TOOL013"})
# The arguments of cuBLAS's products by the numbers that it prints: sizes, leading dimensions.
_ARGUMENT = re.compile(
    r"On entry to\s+(?P<call>\w{1,40})\s+parameter number\s+(?P<number>\d{1,2})\s+had an illegal value"
)
_SIZES = {3: "m", 4: "n", 5: "k"}
_LEADING = (
    (re.compile("EX$", re.I), {9: "A", 12: "B", 16: "C"}),
    (re.compile("STRIDED", re.I), {8: "A", 11: "B", 15: "C"}),
    (re.compile("", re.I), {8: "A", 10: "B", 13: "C"}),
)
# Numbers of what launches count their blocks by.
_COUNTED = re.compile(
    r"\b\w{0,40}(?:batch|token|row|head|expert|block|group)\w{0,40}\b(?:[^\d\n]{0,40}?|[^\n]{0,80}?\belse )"
    r"(?<![\w.])(\d{5,7})\b",
    re.IGNORECASE,
)
# What helps although it changes no value.
_COPY_HELPS = re.compile(
    r"(?:workaround|fix\w*|works?|solv\w+|avoid\w*|help\w*|goes away)\b[^.\n]{0,80}"
    r"\.?(?:contiguous\(?\)?|\bcop(?:y|ies|ying)\b|clone)|(?:contiguous\(\)|clone\(\)|\bcop(?:y|ying)\b)[^.\n]{0,60}"
    r"(?:fix|works|solve|avoid|help|goes away)",
    re.IGNORECASE,
)


_TOO_LARGE = re.compile(
    r"too large (?:a )?launch|launch parameters? (?:is|are) too large|grid \w{0,12} ?(?:is )?too large", re.I
)
# A stride that is worked out where a tensor map is refused: it is handed on in 32 bits or 64.
_OF_STRIDES = re.compile(
    r"\bstrides?\b[^\n\d]{0,24}\d[\w.]{0,12} ?\*|\* ?\w{1,24}[^\n]{0,40}\bstrides?\b", re.IGNORECASE
)
_OF_MAPS = re.compile(r"tensor ?_?map|cutensormap|descriptor|\btma\b", re.IGNORECASE)
_TRIED = "a size"  # of what a report says fails, beside sizes that work
# Matrix units that stay idle, and extents that a sentence gives.
_IDLE = re.compile(
    r"tensor ?cores? (?:\w+ ){0,3}?(?:not|n't|never) (?:\w+ )?(?:used|activated|engaged|utili\w+)", re.IGNORECASE
)
_SAID = re.compile(
    r"\b(?:vocab\w*|hidden|channels?|features|embed\w*|dim\w*)\b[^.\n\d]{0,30}?(?P<extent>\d{2,7})\b", re.IGNORECASE
)
# Results that are wrong where a tensor is large, and indices that a sentence multiplies by a stride.
_WRONG = re.compile(r"\b(?:wrong|incorrect|garbage|corrupt\w*|out[- ]of[- ]bounds?|overflow\w*)\b", re.IGNORECASE)
_FROM = re.compile(r">|≥|at least|beyond|exceed|more than|larger than|starting|fails?\b|crash", re.IGNORECASE)
_STEPPED = re.compile(r"strides?\b[^\n]{0,120}\b(?:index|up to|range)", re.IGNORECASE)
_COUNT = re.compile(
    r"(?:\w*_)?(?:tokens?|rows|seq_?len|seqlen|batch(?:_?size)?|num_?tokens|total_?tokens)", re.IGNORECASE
)
_OF_GRID = re.compile(r"\bgrid[^\n()\[\]]{0,20}[(\[][^\n()\[\]]{0,60},[^\n()\[\]]{0,40}$", re.IGNORECASE)  # y or z
_ZERO = re.compile(
    r"\b(?:n|\w*(?:size|numel|batch|length|count|num|tokens|boxes|points|elements|rows|blocks|samples|shape|width|"
    r"height))`? ?(?:is|are|={1,2}|was|of|:)? ?`?0\b(?![.\d])|\bempty (?:tensor|batch|input|image)",
    re.IGNORECASE,
)
_NARROWER_HELPS = re.compile(
    r"(?:uint64_t|u?int4|float[24]|u?int2|128-?bit|64-?bit|vector\w*)[^.\n]{0,80}(?:uint32_t|32-?bit|scalar|int2|float2|"
    r"narrower|smaller)[^.\n]{0,60}(?:fix|works|solve|avoid|help)",
    re.IGNORECASE,
)


class _Extent(NamedTuple):
    name: str
    size: int


class _Tried(NamedTuple):
    """Numbers of what works and of what fails, as a report tells them apart."""

    works: tuple[int, ...]
    fails: tuple[int, ...]


def explain_extents(text: str, followed: Followed, said: Sequence[Diagnostic], target: Target) -> Iterator[Diagnostic]:
    """Yield what the sizes that a report names may break of what its failure is about.

    Args:
        text: the whole report.
        followed: its code.
        said: what its text names.
        target: the GPU.
    """
    codes = {one.code for one in said}
    unexplained = bool(codes & _OF_LAUNCHES and codes <= _OF_LAUNCHES) or _TOO_LARGE.search(text) is not None
    tried = _tried(text)
    yield from _arguments(text)
    ragged = list(_ragged(text, followed, tried, target))
    yield from ragged
    if unexplained and not _OF_MAPS.search(text):
        yield from islice(_blocks(text, followed, tried, sure="TOOL011" in codes), 1)
    if codes & _OF_ADDRESSES or _WRONG.search(text) or ("CUDA001" in codes and _OF_STRIDES.search(text)):
        yield from islice(_offsets(text, followed, sure="TOOL013" in codes), 1)
    if not ragged:
        yield from misaligned_rows(text, followed.arrays, codes, target)
        yield from unfilled_pieces(text, target)
    if not ragged and _IDLE.search(text):
        message = (
            "matrix units multiply 16-bit operands whose extents and leading dimensions are multiples of 8 elements"
        )
        yield _finding(_aligned(target), message, _HELP, "the matrix units that are not used")
    if "CUDA716" in codes and (helps := _NARROWER_HELPS.search(text)):
        message = "narrower accesses help, so the wide ones begin at no multiple of their own size"
        help_ = "align the array to the size of the widest access (alignas(16)), or keep to the narrower ones"
        yield _finding("VEC002", message, help_, f'text "{helps[0][:97]}"')
    if not ragged and codes & {"CUDA716", OWN_LIMIT} and (helps := _COPY_HELPS.search(text)):
        message = (
            "a copy of an operand helps, so the view is at fault and not what it holds: its last axis has not stride "
            "1, or it begins or steps by no multiple of 16 bytes"
        )
        help_ = "pass the view's own strides and leading dimension, transposed if need be, or make it contiguous first"
        yield _finding("TMA024" if target.tma is not None else "VEC002", message, help_, f'text "{helps[0][:97]}"')


def _finding(code: str, message: str, help: str, where: str, *, sure: bool = False, **numbers: object) -> Diagnostic:
    found = RULE_OF[code].diagnostic(require(False, message, help=help, **numbers), where)
    return replace(found, level="error" if sure else "warning")


def _aligned(target: Target) -> str:
    return "TMA005" if target.tma is not None else "VEC002"


def _tried(text: str) -> _Tried:
    """Return the numbers of clauses that say that something works, and of those that say that it fails."""
    works: dict[int, None] = {}
    fails: dict[int, None] = {}
    for clause in islice(_CLAUSE.split(text), MOST_CLAUSES):
        mood = fails if _BAD.search(clause) else works if _OK.search(clause) else None
        if mood is not None:
            mood.update(dict.fromkeys(_numbers(clause[:400])))
    return _Tried(tuple(one for one in works if one not in fails), tuple(one for one in fails if one not in works))


# Multiples of 16 bytes


def _ragged(text: str, followed: Followed, tried: _Tried, target: Target) -> Iterator[Diagnostic]:
    """Yield one finding of the extents of a failed product that are no multiples of 16 bytes, if any are."""
    wide = _WIDE.search(text) and not _NARROW.search(text)
    eight = _EIGHT_BITS.search(text) or (_INTEGERS.search(text) and not _HALVES.search(text))
    granule = 32 if _FOUR_BITS.search(text) else 16 if eight else 4 if wide else 8
    ragged = [one for one in _extents(text, followed.calls, tried) if one.size % granule]
    ragged = [one for one in ragged if one.name.lower() != "m"] or ragged  # rows begin no stride, if others do
    if ragged:
        shown = ", ".join(f"{one.name} of {one.size}" for one in dict.fromkeys(ragged[:4]))
        message = "{shown}: no multiple of {granule} elements, 16 bytes"
        where = "the extents of a product that the text names"
        sure = not _IDLE.search(text) and any(one.name != _TRIED for one in ragged)
        yield _finding(_aligned(target), message, _HELP, where, sure=sure, shown=shown, granule=granule)


def _extents(text: str, calls: Sequence[Called], tried: _Tried) -> list[_Extent]:
    """Return the extents of products that a text says failed, or run without matrix units."""
    found: list[_Extent] = []
    if _LIBRARY.search(text):
        found += _of_libraries(text, calls)
    if _KERNELS.search(text):
        found += _of_kernels(text, tried)
    if _IDLE.search(text):
        found += [_Extent("an extent", int(match["extent"])) for match in _SAID.finditer(text)]
    if _EIGHT_BITS.search(text) and FAILED.search(text):
        found += [_Extent(match["name"], int(match["extent"])) for match in _CONFIGURED.finditer(text)]
        for called in calls:
            if _LAYER.search(called.name) and all(is_number(one) for one in called.arguments[:2]):
                names = ("in_features", "out_features")
                found += [_Extent(name, one) for name, one in zip(names, called.arguments, strict=False)]
    return found[:MOST_EXTENTS]


def _of_libraries(text: str, calls: Sequence[Called]) -> Iterator[_Extent]:
    for match in CALL.finditer(text):
        yield from (_Extent(name, int(match[name])) for name in "mnk")
    for called in calls:
        operands = [one for one in called.arguments if isinstance(one, Array) and one.rank >= 2]
        if _PRODUCT.search(called.name) and all(one.dtype in ("i8", "u8") for one in operands):
            yield from (_Extent("a row", one.shape[-1] or 0) for one in operands)
    if _EIGHT_BITS.search(text):
        for match in _SHAPE.finditer(text):
            shape = f"{match['rows']}x{match['columns']}"
            yield from (_Extent(shape, int(match[name])) for name in ("rows", "columns"))


def _of_kernels(text: str, tried: _Tried) -> list[_Extent]:
    found: list[_Extent] = []
    for match in _OPTION.finditer(text):
        if match["extent"]:
            found.append(_Extent(match["name"] or match["symbol"], int(match["extent"])))
        else:
            found += [_Extent(name, int(match[name])) for name in "mnk"]
    works = [one for one in tried.works if one > 1]
    if works and not found:  # what works is aligned, and what fails is not
        others = {int(one) for match in _LIST.finditer(text) for one in match[1].split(",")} - {*works}
        sizes = sorted({*tried.fails, *others})
        found += [_Extent(_TRIED, one) for one in sizes if 1 < one < LARGEST and one % gcd(*works)]
    return found


# Limits of launches and of offsets


def _shapes(text: str, followed: Followed) -> Iterator[tuple[int, ...]]:
    """Yield the shapes of a report: of arrays that its code makes, and lists of numbers that are no strides."""
    for array in followed.arrays:
        known = tuple(one for one in array.shape if one is not None)
        if known and len(known) == array.rank:
            yield known
    lists = plain_lists(text)
    for match in islice(_LIST.finditer(lists), MOST_EXTENTS):
        said = lists[max(match.start() - _OF_WORD, 0) : match.end()]
        sizes = tuple(int(one) for one in match[1].split(","))
        strides = sizes[-1] == 1 and all(not one % (other or 1) for one, other in pairwise(sizes))
        if not strides and MOST_BLOCKS not in sizes and MOST_OFFSETS not in sizes and "stride" not in said:
            yield sizes


def _blocks(text: str, followed: Followed, tried: _Tried, *, sure: bool) -> Iterator[Diagnostic]:
    """Yield that what fails is more than a launch takes along an axis, or of threads, and what works is not."""
    help_ = "put the long axis first, along x, which takes 2147483647 blocks, or loop in the kernel"
    if (zero := _ZERO.search(text)) is not None:
        message = "a launch of no blocks, or of as many as a count that wraps below 0 gives, is refused"
        yield _finding(
            "TOOL011", message, "skip the launch where there is nothing to do", f'text "{zero[0]}"', sure=sure
        )
    for most, what in ((MOST_BLOCKS, "blocks along y and z of a grid"), (1024, "threads of a block")):
        works = max((one for one in tried.works if most // 2 < one <= most), default=0)
        fails = min((one for one in tried.fails if most < one <= 2 * most), default=0)
        if works and fails:
            message = "{works} works and {fails} fails: between them lies {most}, the most {what} that a launch takes"
            where = "the sizes that work and that fail"
            help_ = help_ if most == MOST_BLOCKS else "take fewer threads for each block, and more blocks"
            numbers = {"works": works, "fails": fails, "most": most, "what": what}
            yield _finding("TOOL011", message, help_, where, sure=sure, **numbers)
    works = max((one for one in tried.works if one > 1), default=0)
    rows: list[tuple[int, str]] = []
    for shape in _shapes(text, followed):
        of_axis = [one for one in shape if one > MOST_BLOCKS]
        counts = list(accumulate(shape[:-1], mul)) if shape[0] in tried.fails and 0 < works < shape[0] else []
        counted = [one for one in counts if one // shape[0] * works <= MOST_BLOCKS < one]
        rows += [(one, f"a tensor of shape {shape}") for one in [*of_axis, *counted, prod(shape[:-1])]]
    rows += [
        (one.value, f"the product {one.written} = {one.numbers}")
        for one in products(text, named_numbers(text))
        if _OF_GRID.search(text[max(one.begin - 80, 0) : one.begin])
    ]
    rows += [(int(match[1]), f'text "{match[0][:97]}"') for match in islice(_COUNTED.finditer(text), MOST_EXTENTS)]
    for match in _TOO_LARGE.finditer(text):
        line = text[match.start() : match.start() + 120].partition("\n")[0]
        rows += [(one, f'text "{line[:97]}"') for one in _numbers(line)]
    for count, where in sorted(rows):
        if MOST_BLOCKS < count < LARGEST:
            message = "{count} blocks are more than the {most} along y and z of a grid, if they are counted there"
            yield _finding("TOOL011", message, help_, where, sure=sure, count=count, most=MOST_BLOCKS)


def _offsets(text: str, followed: Followed, *, sure: bool) -> Iterator[Diagnostic]:
    """Yield that a tensor or a launch has offsets that 32 bits do not count."""
    help_ = "count the first factor of offsets in 64 bits (tl.int64, int64_t), or split the tensor"
    for shape in _shapes(text, followed):
        if MOST_OFFSETS + 1 < prod(shape) < LARGEST:  # the last offset is one less
            message = (
                "a tensor of shape {shape} has {count} elements, and offsets counted in 32 bits wrap beyond {most}"
            )
            numbers = {"shape": shape, "count": prod(shape), "most": MOST_OFFSETS}
            yield _finding("TOOL013", message, help_, f"a tensor of shape {shape}", sure=sure, **numbers)
    named = named_numbers(text)
    for one in (*products(text, named), *rounded_products(text, named), *stated_products(text), *_of_rows(named)):
        if one.value > MOST_OFFSETS:
            message = "{written} is {numbers} = {count}, and offsets counted in 32 bits wrap beyond {most}"
            numbers = {"written": one.written, "numbers": one.numbers, "count": one.value, "most": MOST_OFFSETS}
            yield _finding("TOOL013", message, help_, f"the product {one.written}", sure=sure, **numbers)
    for pair in pairwise([*text.split("\n")[:MOST_CLAUSES], ""]):
        line = " ".join(pair)[:600]
        if _OK.search(line) and not _BAD.search(line):
            continue
        stepped, found = _STEPPED.search(pair[0]), sorted({one for one in _numbers(line) if one > 1})
        if len(found) > MOST_FACTORS or not (stepped or _FROM.search(line)):
            continue
        for count in (2, 3, 4):
            for some in combinations(found, count):
                # What just passes 2^31 is where a report found the limit; an index says its stride.
                if MOST_OFFSETS < prod(some) < (LARGEST if stepped and count == 2 else MOST_OFFSETS * 1.001):
                    message = "{factors} is {count}, and offsets counted in 32 bits wrap beyond {most}"
                    numbers = {"factors": " x ".join(map(str, some)), "count": prod(some), "most": MOST_OFFSETS}
                    yield _finding("TOOL013", message, help_, f'line "{line.strip()[:97]}"', sure=sure, **numbers)
    for match in islice(_LAUNCHED.finditer(text), MOST_EXTENTS):
        threads = prod(int(one) for one in match.groups() if one)
        if threads > MOST_OFFSETS:
            message = "{threads} threads are launched, and their number in 32 bits wraps beyond {most}"
            yield _finding("TOOL013", message, help_, match[0], sure=sure, threads=threads, most=MOST_OFFSETS)


def _of_rows(named: Mapping[str, int]) -> Iterator[Product]:
    """Yield the elements of the most rows that a text counts, of the longest row that it names."""
    rows = max(((size, name) for name, size in named.items() if _COUNT.fullmatch(name)), default=None)
    length = max(((size, name) for name, size in row_lengths(named).items()), default=None)
    if rows is not None and length is not None:
        value = rows[0] * length[0]
        if value < LARGEST:
            yield Product(value, f"{rows[1]} * {length[1]}", f"{rows[0]} x {length[0]}", 0)


def _numbers(line: str) -> list[int]:
    """Return the numbers of a line; 2M is 2^21, as lengths of sequences are."""
    matches = (
        one for one in _NUMBER.finditer(line) if not _OF_VERSIONS.search(line[max(one.start() - 12, 0) : one.start()])
    )
    found = [(re.sub(r"[_,]", "", match[1]), match[2] or "") for match in matches]
    return [int(digits) << {"": 0, "k": 10, "m": 20, "g": 30}[unit.lower()] for digits, unit in found]


def _arguments(text: str) -> Iterator[Diagnostic]:
    """Yield which argument of its product cuBLAS refuses, by the number that it prints."""
    for match in islice(_ARGUMENT.finditer(text), MOST_EXTENTS):
        number, call = int(match["number"]), match["call"]
        operand = next(table for pattern, table in _LEADING if pattern.search(call)).get(number)
        if operand is None and number not in _SIZES:
            continue
        what = f"the leading dimension of {operand}" if operand else f"the extent {_SIZES[number]}"
        message = "argument {number} of {call} is {what}, and less than its operand spans"
        help_ = "give the rows of the operand as it lies in memory, column by column: k or n where it is transposed"
        yield _finding(OWN_LIMIT, message, help_, f'text "{match[0]}"', sure=True, number=number, call=call, what=what)

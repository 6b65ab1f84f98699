"""Encode calls in pasted C++: the arrays and constants that the call names, as far as they are plain numbers.

`cuTensorMapEncodeTiled(&map, type, rank, address, dim, strides, box, steps, ...)`, also by a pointer to it under
another name. What is no number stays open, as the address always does, so such a map is never called legal.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from legalsat.errors import InvalidInput
from legalsat.pasted.code.operators import is_number, of_two
from legalsat.pasted.maps import PrintedMap
from legalsat.pasted.readings import missing_fields, readings
from legalsat.units.driver_arguments import ENUMERATORS

MOST_CALLS, LONGEST_CALL, LONGEST_VALUE, MOST_NAMES = 16, 2_000, 160, 400
_ENCODE = re.compile(r"\b\w*(?:[Ee]ncode_?[Tt]iled|TensorMapEncode)\w*\s*\(")
_DUMP = re.compile(r"TMA Desc Addr|gmem_address|blockSize=")
_LINE_COMMENT = re.compile(r"//[^\n]*")
_TYPE = r"\b(?:int|unsigned|size_t|auto|u?int\d+_t|cuuint\d+_t|long|uint)"
_NUMBER = re.compile(
    rf"#define[ \t]{{1,8}}(?P<macro>\w+)[ \t]{{1,8}}(?P<defined>[^;{{}}\n]{{1,{LONGEST_VALUE}}})"
    rf"|{_TYPE}[ \t]{{1,8}}(?P<names>\w+[ \t]{{0,8}}[={{][^;\n]{{1,{LONGEST_VALUE}}})"
    r"|\benum\b[ \t]{0,8}\w{0,40}[ \t]{0,8}(?::[ \t]{0,8}\w{1,40}[ \t]{0,8})?\{(?P<enumerators>[^{}]{1,400})\}"
)
_DECLARED = re.compile(r"\s{0,8}(?P<name>\w+)\s{0,8}(?:=\s{0,8}(?P<value>.+)|\{(?P<braced>[^{}]{1,80})\}.*)", re.DOTALL)
_TEMPLATE = re.compile(
    r"\btemplate[ \t]{0,8}<(?P<parameters>[^<>]{1,400})>(?P<between>[^;{}()]{0,400}?)\b(?P<name>\w+)[ \t]{0,8}\("
)
_PARAMETER = re.compile(rf"{_TYPE}[ \t]{{1,8}}(?P<name>\w+)[ \t]{{0,8}}(?:=[ \t]{{0,8}}(?P<value>[^,]{{1,80}}))?$")
_PARAMETERS = re.compile(r"\btemplate[ \t]{0,8}<[^<>]{1,400}>")
_CHANGED = re.compile(  # names that are no constants: counted, or assigned once more
    r"(?:\+\+|--)[ \t]?(?P<before>\w+)|\b(?P<after>\w+)[ \t]?(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)=)"
    r"|(?:^|[;}])[ \t]{0,40}(?P<assigned>\w+)[ \t]{0,8}=(?!=)[^;,\n{}]{1,200};",
    re.MULTILINE,
)
_LIST = r"[ \t]{0,8}=?[ \t]{0,8}\{\{?(?P<values>[^{};]{1,400})\}"
_ARRAY = re.compile(r"\b(?P<name>\w+)[ \t]{0,8}(?:\[[ \t]{0,8}\w*[ \t]{0,8}\])?" + _LIST)
_NAMED_ARRAY = re.compile(r"array<[^<>;]{1,40}>[ \t]{0,8}(?P<name>\w+)" + _LIST)
ELEMENT_BYTES = {
    "half": 2, "__half": 2, "nv_half": 2, "uint": 4, "short": 2, "ushort": 2, "uchar": 1, "float16": 2, "long": 8,
    "ulong": 8,
    "half_t": 2, "bf16": 2, "__nv_bfloat16": 2, "nv_bfloat16": 2, "bfloat16_t": 2, "float": 4,
    "double": 8, "char": 1, "uint8_t": 1, "int8_t": 1, "uint16_t": 2, "int16_t": 2, "int": 4, "int32_t": 4,
    "uint32_t": 4, "unsigned": 4, "int64_t": 8, "uint64_t": 8, "__nv_fp8_e4m3": 1, "__nv_fp8_e5m2": 1,
}  # fmt: skip
_SIZEOF = re.compile(r"\bsizeof\s*\(\s*(?:cutlass::|cute::)?(\w+)\s*\)")
_CAST = re.compile(
    r"\(\s*(?:unsigned|size_t|int|long|cuuint\d+_t|u?int\d+_t)(?:\s+long)*\s*\)|static_cast<[\w: ]{1,40}>"
)
_SUFFIX = re.compile(r"\b(\d+)[uUlL]+\b")
_LISTS = {4: "global_dim", 5: "global_stride", 6: "box", 7: "element_stride"}
_ENUMS = {1: "dtype", 8: "interleave", 9: "swizzle", 10: "l2_promotion", 11: "oob_fill"}


def encoded_maps(text: str) -> list[PrintedMap]:
    """Return the tensor maps that calls in C++ encode, of which at least the extents, strides or box are known.

    None where a program prints a map as well, whose numbers are those of the run.
    """
    if not _ENCODE.search(text) or _DUMP.search(text):
        return []
    code = without_comments(text)
    names, arrays = constants(code), _arrays(code)
    found = (_map(arguments, names, arrays, match) for match, arguments in _calls(code))
    return [printed for printed in found if printed is not None]


def lists_of_calls(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the type, the extents ("" where no array of them is) and the strides of C++'s encode calls, as written."""
    if not _ENCODE.search(text):
        return
    code = without_comments(text)
    arrays = _arrays(code)
    for _, arguments in _calls(code):
        extents, strides = (_inside(arguments[at], arrays) for at in (4, 5))
        if strides is not None:
            yield arguments[1], extents or "", strides


def _arrays(code: str) -> dict[str, str]:
    return {match["name"]: match["values"] for pattern in (_ARRAY, _NAMED_ARRAY) for match in pattern.finditer(code)}


def _calls(code: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    for match in islice(_ENCODE.finditer(code), MOST_CALLS):
        arguments = list(_arguments(code, match.end()))
        if len(arguments) == 12:
            yield match, arguments


def without_comments(text: str) -> str:
    """Return C++ without its comments; one between /* and */ that is never closed stays."""
    kept, at = [], 0
    while (begin := text.find("/*", at)) >= 0 and (end := text.find("*/", begin + 2)) >= 0:
        kept.append(text[at:begin])
        at = end + 2
    return _LINE_COMMENT.sub(" ", " ".join([*kept, text[at:]]))


def _arguments(code: str, begin: int) -> Iterator[str]:
    """Yield the arguments of the call whose bracket opens before `begin`; of an endless one the first ones."""
    depth, last = 1, begin
    for at in range(begin, min(begin + LONGEST_CALL, len(code))):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if depth == 0 or (depth == 1 and code[at] == ","):
            yield code[last:at].strip()
            last = at + 1
        if depth == 0:
            return


def _map(
    arguments: list[str], names: Mapping[str, int], arrays: Mapping[str, str], match: re.Match[str]
) -> PrintedMap | None:
    values: dict[str, Any] = {}
    for at, field in _ENUMS.items():
        word = arguments[at].rpartition("::")[2]
        if word in ENUMERATORS[field]:
            values[field] = ENUMERATORS[field].index(word)
    rank = whole_number(arguments[2], names)
    for at, field in _LISTS.items():
        numbers = _list(arguments[at], names, arrays)
        if numbers is not None:
            values[field] = numbers
    known = [len(values[field]) for field in ("global_dim", "box") if field in values]
    rank = rank if rank is not None else known[0] if known else None
    if rank is None or not 0 < rank <= 32 or not {"global_dim", "global_stride", "box"} & set(values):
        return None
    for field in _LISTS.values():
        if field in values:
            values[field] = values[field][: rank - (field == "global_stride")]
    values |= {"mode": "tiled", "map_offset": 0}
    try:
        maps = readings(values, rank)
    except InvalidInput:
        return None
    return PrintedMap(maps[0], match.start(), match.end(), maps, missing_fields(values, rank))


def _list(argument: str, names: Mapping[str, int], arrays: Mapping[str, str]) -> tuple[int, ...] | None:
    """Return the numbers of an array that an argument names or writes; None if one of them is not known."""
    inside = _inside(argument, arrays)
    if inside is None:
        return None
    numbers = [whole_number(one, names) for one in inside.split(",") if one.strip()]
    return None if None in numbers else tuple(number or 0 for number in numbers)


def _inside(argument: str, arrays: Mapping[str, str]) -> str | None:
    """Return what stands between the braces of an array that an argument names or writes."""
    bare = re.sub(r"\.data\(\)$|^&|\[0\]$", "", argument).strip()
    written = re.fullmatch(r"[\w \[\]()]*\{([^{}]*)\}", bare)
    return arrays.get(bare, None if written is None else written[1])


def constants(code: str) -> dict[str, int]:
    """Return the names that stand for one number each."""
    found: dict[str, int] = {}
    several = {match[match.lastgroup or 0] for match in islice(_CHANGED.finditer(code), MOST_NAMES)}
    for name, words in islice((*_declared(code), *_template_arguments(code)), MOST_NAMES):
        value = whole_number(words, found)
        if value is None or found.get(name, value) != value:
            several.add(name)
        if name not in several and value is not None:
            found[name] = value
    return {name: value for name, value in found.items() if name not in several}


def _declared(code: str) -> Iterator[tuple[str, str]]:
    """Yield the names that declarations, macros and enumerations define, with the words of their values."""
    for match in islice(_NUMBER.finditer(_PARAMETERS.sub(" ", code)), MOST_NAMES):
        if match["macro"]:
            yield match["macro"], match["defined"]
            continue
        for one in arguments_of(match["names"] or match["enumerators"]):
            declared = _DECLARED.fullmatch(one)
            if declared is not None:
                yield declared["name"], declared["value"] or declared["braced"]


def _template_arguments(code: str) -> Iterator[tuple[str, str]]:
    """Yield the numbers that templates of functions are given, by the names of their parameters; else the defaults."""
    for template in islice(_TEMPLATE.finditer(code), MOST_CALLS):
        parameters = [_PARAMETER.search(one) for one in arguments_of(template["parameters"])]
        uses = re.compile(
            rf"\b{re.escape(template['name'])}[ \t]{{0,8}}<(?P<given>[^<>;{{}}]{{1,400}})>[ \t]{{0,8}}[(<]"
        )
        for given in [arguments_of(use["given"]) for use in islice(uses.finditer(code), MOST_CALLS)] or [[]]:
            for at, parameter in enumerate(parameters):
                words = given[at] if at < len(given) else None if parameter is None else parameter["value"]
                if parameter is not None and words:
                    yield parameter["name"], words


def arguments_of(words: str) -> list[str]:
    """Return what commas part outside of brackets, of an endless list the first ones."""
    return list(_arguments(f"{words})", 0))


def whole_number(words: str, names: Mapping[str, int]) -> int | None:
    """Return the number that an expression of C++ is; None if it is not known."""
    terms = affine(words, names)
    return terms.get("", 0) if terms is not None and set(terms) <= {""} else None


def affine(words: str, names: Mapping[str, int] | None = None) -> dict[str, int] | None:
    """Return an expression of C++ as coefficients of the names that are not known, "" for 1; None of any other."""
    sized = _SIZEOF.sub(lambda size: str(ELEMENT_BYTES.get(size[1], "?")), words)
    plain = _SUFFIX.sub(r"\1", _CAST.sub("", sized)).replace("/", "//").strip()
    if len(plain) > LONGEST_VALUE:
        return None
    try:
        return _terms(ast.parse(plain, mode="eval").body, names or {})
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _terms(node: ast.expr, names: Mapping[str, int]) -> dict[str, int] | None:
    match node:
        case ast.Constant(value=value) if is_number(value):
            return {"": int(value)}
        case ast.Name(id=name) if name in names:
            return {"": names[name]}
        case ast.Name() | ast.Attribute():
            return {ast.unparse(node): 1}
        case ast.BinOp(left=left, op=op, right=right):
            return _combined(_terms(left, names), op, _terms(right, names))
    return None


def _combined(
    one: Mapping[str, int] | None, op: ast.operator, other: Mapping[str, int] | None
) -> dict[str, int] | None:
    if one is None or other is None:
        return None
    if set(one) <= {""} and set(other) <= {""}:
        found = of_two(one.get("", 0), op, other.get("", 0))
        return {"": found} if is_number(found) else None
    if isinstance(op, ast.Add | ast.Sub):
        return {name: of_two(one.get(name, 0), op, other.get(name, 0)) or 0 for name in {**one, **other}}
    if isinstance(op, ast.Mult) and (set(one) <= {""} or set(other) <= {""}):
        factor, terms = (one[""], other) if set(one) <= {""} else (other[""], one)
        return {name: count * factor for name, count in terms.items()}
    return None

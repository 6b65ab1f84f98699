"""Tensors that pasted Python code makes: what torch's factories and views with known numbers hold.

Reports give the few lines that fail instead of what they print: `a = torch.randn(M, K, dtype=torch.bfloat16)` with
`M, K = 512, 511` above. Only what is certain is read: a name that is assigned two numbers, or a call with an extent
that is no number, makes no tensor here. Code is never run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from math import prod
from typing import NamedTuple

from legalsat.dtypes import dtype as as_dtype
from legalsat.errors import InvalidInput

MOST_CALLS, LONGEST_CALL = 64, 300
_LARGEST = 1 << 48
_NUMBERS = re.compile(
    r"^[ \t>.]*(?P<names>[A-Za-z_]\w*(?:[ \t]*,[ \t]*[A-Za-z_]\w*)*)(?:[ \t]*:[ \t]*[\w.]+)?[ \t]*=[ \t]*"
    r"(?P<values>\(?[\d*+ \t,]{1,80}\)?)[ \t]*(?:#.*)?$",
    re.MULTILINE,
)
_CALL = re.compile(
    r"\b(?P<call>randn|rand|empty|zeros|ones|full|randint|empty_strided|empty_strided_cuda|rand_strided|as_strided)\("
)
_FACTORIES = frozenset({"randn", "rand", "empty", "zeros", "ones"})
_STRIDED = frozenset({"empty_strided", "empty_strided_cuda", "rand_strided", "as_strided"})
_CAST = re.compile(r"\s*\.(?:to|type)\((?:dtype=)?torch\.(?P<to>\w+)\)|\s*\.(?P<short>half|bfloat16|float|double)\(\)")
_SHORT = {"half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64"}


class Made(NamedTuple):
    """A tensor that code makes: its shape, its strides in elements, and its type's name; None if that is not known."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str | None


def made_tensors(text: str) -> Iterator[Made]:
    """Yield the tensors of at least one axis that calls in `text` make, in its order."""
    known = _known_numbers(text)
    for match in islice(_CALL.finditer(text), MOST_CALLS):
        arguments, after = _arguments(text, match.end())
        if arguments is not None:
            made = _made(match["call"], arguments, text[after : after + 80], known)
            if made is not None:
                yield made


def _known_numbers(text: str) -> dict[str, int]:
    """Return the names that are assigned one number each."""
    found: dict[str, set[int]] = {}
    for match in _NUMBERS.finditer(text):
        names = [name.strip() for name in match["names"].split(",")]
        value = _value(match["values"], {})
        numbers = _whole(value if isinstance(value, tuple) else (value,))
        if numbers is not None and len(names) == len(numbers):
            for name, number in zip(names, numbers, strict=True):
                found.setdefault(name, set()).add(number)
    return {name: numbers.pop() for name, numbers in found.items() if len(numbers) == 1}


def _arguments(text: str, begin: int) -> tuple[ast.Call | None, int]:
    """Return the call's arguments, parsed, and where it ends; None where it is no Python or very long."""
    depth = 1
    for at in range(begin, min(begin + LONGEST_CALL, len(text))):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            try:
                parsed = ast.parse(f"f({text[begin:at]})", mode="eval").body
            except (SyntaxError, ValueError, MemoryError, RecursionError):
                return None, at + 1
            return (parsed if isinstance(parsed, ast.Call) else None), at + 1
    return None, begin


def _made(call: str, of: ast.Call, after: str, known: Mapping[str, int]) -> Made | None:
    names = {word.arg: word.value for word in of.keywords if word.arg is not None}
    given = [_node(argument, known) for argument in of.args]
    if call in _STRIDED:
        first = given[1:] if call == "as_strided" else given
        shape, strides = [*first, None, None][:2]
        shape = _node(names["size"], known) if "size" in names else shape
        strides = _node(names["stride"], known) if "stride" in names else strides
        rows = _whole(strides)
    else:
        at = {"full": 0, "randint": max(len(given) - 1, 0)}.get(call)
        shape = given[at] if at is not None and given else given[0] if len(given) == 1 else _of_many(given)
        shape = (shape,) if isinstance(shape, int) else shape
        shape = _node(names["size"], known) if "size" in names else shape
        sizes = _whole(shape)
        rows = None if sizes is None else tuple(prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
    sizes = _whole(shape)
    if not sizes or rows is None or len(rows) != len(sizes):
        return None
    return Made(sizes, rows, _dtype(call, of, names, after))


def _of_many(given: list[int | tuple[int | None, ...] | None]) -> tuple[int | None, ...]:
    return tuple(one if isinstance(one, int) else None for one in given)


def _whole(numbers: int | tuple[int | None, ...] | None) -> tuple[int, ...] | None:
    """Return a tuple whose entries are all known; None for others."""
    if not isinstance(numbers, tuple):
        return None
    known = tuple(one for one in numbers if one is not None)
    return known if len(known) == len(numbers) else None


def _dtype(call: str, of: ast.Call, names: Mapping[str, ast.expr], after: str) -> str | None:
    name = _type_of(names.get("dtype"), [argument for argument in of.args if isinstance(argument, ast.Attribute)])
    cast = _CAST.match(after)
    if cast is not None:
        name = cast["to"] or _SHORT[cast["short"]]
    elif name is None and call in _FACTORIES and "dtype" not in names:
        name = "float32"  # torch's default
    try:
        return None if name is None else as_dtype(name).name
    except InvalidInput:
        return None


def _type_of(named: ast.expr | None, others: list[ast.Attribute]) -> str | None:
    for node in (named, *others):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
            return node.attr
    return None


def _value(words: str, known: Mapping[str, int]) -> int | tuple[int | None, ...] | None:
    try:
        return _node(ast.parse(words.strip(), mode="eval").body, known)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _node(node: ast.expr, known: Mapping[str, int]) -> int | tuple[int | None, ...] | None:
    """Return the number that an expression is, or a tuple of such; None where it is neither."""
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool) and 0 <= value < _LARGEST:
            return value
        case ast.Name(id=name):
            return known.get(name)
        case ast.Tuple(elts=entries) | ast.List(elts=entries):
            inside = [_node(entry, known) for entry in entries]
            return tuple(one if isinstance(one, int) else None for one in inside)
        case ast.BinOp(left=left, op=op, right=right):
            one, other = _node(left, known), _node(right, known)
            if not isinstance(one, int) or not isinstance(other, int):
                return None
            return _of_two(one, op, other)
    return None


def _of_two(one: int, op: ast.operator, other: int) -> int | None:
    match op:
        case ast.Add():
            found = one + other
        case ast.Sub():
            found = one - other
        case ast.Mult():
            found = one * other
        case ast.FloorDiv() if other:
            found = one // other
        case ast.Pow() if other <= 40 and one <= 16:
            found = one**other
        case ast.LShift() if other <= 40:
            found = one << other
        case _:
            return None
    return found if 0 <= found < _LARGEST else None

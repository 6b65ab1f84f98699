"""Sizes that a text gives by name, and what its products of names come to.

"grid (1, batch * step) with batch 128 and step 512" says 65536 blocks, `blk * stride_kb` with both numbers an offset,
and head_size=46 of bf16 rows of 92 bytes. A name that is given two numbers stands for none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from math import prod
from typing import NamedTuple

MOST_NAMES, MOST_PRODUCTS = 256, 128
LARGEST = 1 << 48
_NUMBER = r"(?P<number>\d{1,3}(?:[_,]\d{3}){1,3}|\d{1,12})(?P<unit>[kKmM]?)\b(?![.,]\d)"
_GIVEN = re.compile(
    rf"(?<![\w.])(?P<name>[A-Za-z_]\w{{0,40}}) ?(?:={{1,2}}|:|\bof\b|\bis\b)? ?{_NUMBER}(?! ?[*x×] ?[\dA-Za-z(])"
)
# What stands before a number and is no name of a size.
_NO_NAME = re.compile(
    r"(?i:cuda|torch|pytorch|python|triton|cutlass|version|v|driver|sm|gcc|line|error|status|code|code|rank|gpu|"
    r"in|at|to|is|of|by|and|or|with|from|the|than|for|only|about|on|a|as|be|are|step|int|float|uint|fp|bf|over|"
    r"most|least|first|last|next|every|each|all|between|after|before|when|if|return|returns?|returned)"
)
_FACTOR = r"(?:[A-Za-z_]\w{0,40}(?:\.[A-Za-z_]\w{0,20})?|\d{1,12})"
_PRODUCT = re.compile(rf"(?<![\w.*]){_FACTOR}(?: ?\* ?{_FACTOR}){{1,5}}(?![\w(\[.]| ?\*)")
_OPERAND = r"[A-Za-z_]\w{0,40}|\d{1,12}"
# A quotient that is rounded up, and the next multiple, as programs call them.
_ROUNDED = re.compile(
    rf"\b(?P<call>(?:math\.)?(?:ceil|floor)|(?:\w{{1,20}}(?:\.|::))?(?:ceil_?div|c?div_?up|cdiv)|"
    rf"(?:align|round|pad)_?(?:up|to)|next_multiple(?:_of)?)\( ?(?P<of>{_OPERAND}) ?[,/] ?(?P<by>{_OPERAND}) ?\)",
    re.IGNORECASE,
)
_MULTIPLE = re.compile(r"align|round|pad|next", re.IGNORECASE)
MOST_ROUNDED = 1 << 20  # characters of a text in which calls are worked out
_STATED = re.compile(
    r"(?P<factors>[\w.)\]]{1,60} ?[*×] ?[\w.(,]{1,60}(?: ?[*×] ?[\w.(,]{1,60}){0,5}?) ?(?:==?|≈|->|is) ?"
    r"(?P<value>\d{1,3}(?:[_,]\d{3}){3,5}|\d{10,15})(?![\d,]|\.\d)"
)
_THOUSANDS = re.compile(r"(?<![\d,.])\d{1,3}(?:,\d{3}){1,4}(?=, \d)")


class Product(NamedTuple):
    """A product of a text's names, what it comes to, and how it is written there."""

    value: int
    written: str
    numbers: str
    begin: int


def named_numbers(text: str) -> dict[str, int]:
    """Return the numbers that a text gives names, in any case of letters; none to a name with two of them."""
    found: dict[str, set[int]] = {}
    for match in islice(_GIVEN.finditer(text), 4 * MOST_NAMES):
        name = match["name"]
        if _NO_NAME.fullmatch(name) is None or "=" in match[0]:
            number = int(re.sub(r"[_,]", "", match["number"]))
            found.setdefault(name, set()).add(number << {"": 0, "k": 10, "m": 20}[match["unit"].lower()])
    return {name: next(iter(numbers)) for name, numbers in islice(found.items(), MOST_NAMES) if len(numbers) == 1}


def products(text: str, names: Mapping[str, int]) -> Iterator[Product]:
    """Yield the products in a text all of whose factors are numbers or names with one, at least one a name."""
    for match in islice(_PRODUCT.finditer(text), MOST_PRODUCTS):
        words = [one.strip() for one in match[0].split("*")]
        factors = [int(one) if one.isdigit() else names.get(one) for one in words]
        known = [one for one in factors if one is not None]
        if len(known) == len(words) and not all(one.isdigit() for one in words) and prod(known) < LARGEST:
            yield Product(prod(known), match[0], " x ".join(map(str, known)), match.start())


def rounded_products(text: str, names: Mapping[str, int]) -> Iterator[Product]:
    """Yield the products of a text that round a factor up: `heads * ceil(n / 128) * align_up(n, 128)`.

    All factors are numbers or names with one, and each of two or more.
    """
    worked: dict[str, tuple[str, int]] = {}

    def value(match: re.Match[str]) -> str:
        operands = [int(one) if one.isdigit() else names.get(one) for one in (match["of"], match["by"])]
        of, by = operands
        if of is None or not by:
            return match[0]
        parts = -(-of // by)
        result = parts * by if _MULTIPLE.match(match["call"]) else of // by if match["call"] == "floor" else parts
        name = f"rounded_{len(worked)}"
        worked[name] = (match[0], result)
        return name

    replaced = _ROUNDED.sub(value, text) if len(text) <= MOST_ROUNDED else text
    given = {**names, **{name: result for name, (_, result) in worked.items()}}
    for one in products(replaced, given) if worked else ():
        written = re.sub(r"rounded_\d+", lambda match: worked[match[0]][0] if match[0] in worked else "", one.written)
        if written != one.written:
            yield one._replace(written=written)


def stated_products(text: str) -> Iterator[Product]:
    """Yield the products that a text works out itself: `token * heads * 128 = 4,294,967,296`."""
    for match in islice(_STATED.finditer(text), MOST_PRODUCTS):
        value = int(re.sub(r"[_,]", "", match["value"]))
        if value < LARGEST:
            written = " ".join(match["factors"].split())[-80:]
            yield Product(value, written, written, match.start())


def plain_lists(text: str) -> str:
    """Return a text whose lists, "[1,048,580, 32]", have no separators of thousands; "(128,256)" has none."""
    return _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text)

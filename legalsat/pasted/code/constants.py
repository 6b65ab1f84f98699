"""Numbers that stand in the code of a kernel, judged against one another: addresses, swizzles, groups and bytes.

Fragments seldom show a whole kernel, and yet some of what they write down cannot go together: a barrier at an offset
that is no multiple of 8, a tile that begins inside of the pattern its tensor map swizzles by, a matrix descriptor that
names another swizzle than the map, multiplies of a pair of CTAs that are committed for one, bytes that no number of the
boxes adds up to. Each is a fact of the text's own numbers; that it is the cause is likely where the text says that
something fails, so it is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from math import gcd

from legalsat.analyses.copy_engine import tx_bytes
from legalsat.diagnostics import Diagnostic
from legalsat.pasted.code.host_code import arguments_of, constants, encoded_maps, whole_number
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.wording.likely import hints_at_failure
from legalsat.rule import require
from legalsat.rules import judge
from legalsat.targets import Target
from legalsat.units.matrix_descriptor import PERIODS, SWIZZLE_BIT, MatrixWord
from legalsat.units.tcgen05_sites import KernelGroups

MOST_FOUND = 64
GRANULE = 128  # bytes of shared memory, at a multiple of which a box lies (COPY004)
LARGEST, MOST_BYTES = 1 << 18, 1 << 20  # bytes of shared memory that an offset can name, and that a barrier counts
_OF_MAPS = re.compile(r"cp\.async\.bulk\.tensor|\btma|_tma|TensorMap|TENSOR_MAP", re.IGNORECASE)
_PYTHON_NUMBER = re.compile(
    r"^[ \t]{0,40}(?P<name>[A-Za-z_]\w{0,60}) ?= ?(?P<value>[^\n#=]{1,80})(?:#|$)", re.MULTILINE
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_PLACES = frozenset({"off", "ofs", "offset", "offs", "addr", "address"})
_BARRIERS = frozenset({"mbar", "mbars", "bar", "bars", "barrier", "barriers", "mbarrier", "full", "empty"})
_TILES = frozenset({"a", "b", "c", "d", "q", "k", "v", "o", "p", "tile", "stage", "stages", "staging", "buf", "buffer"})
_NO_TILES = frozenset(
    {"tmem", "bias", "sf", "sfa", "sfb", "scale", "scales", "bytes", "size", "stride", "sum", "global"}
)
_MAP_SWIZZLE = re.compile(r"\bCU_TENSOR_MAP_SWIZZLE_(?P<mode>NONE|32B|64B|128B)\b")
# A swizzle of CuTe, whose first number says how many rows of 16 bytes it exchanges: 2, 4 or 8 of 128 bytes.
_CUTE_SWIZZLE = re.compile(r"\b(?:Swizzle|Sw|make_swizzle)\s?[<(]\s?(?P<bits>[0-3])\s?,\s?[0-7]\s?,\s?3\s?[>)]")
_CUTE_MODES = ("none", "32B", "64B", "128B")
_CODE = r"(?P<{0}>0x[0-9a-fA-F]{{1,16}}|\d{{1,4}})(?:[uUlL]{{0,3}})"
_DESCRIPTOR_SWIZZLE = re.compile(
    rf"(?:\|=?|=)[ ]?\(?(?:\([\w ]{{1,30}}\)[ ]?|static_cast<\w{{1,20}}>\()?{_CODE.format('code')}\)?[ ]?<<[ ]?"
    r"(?P<shift>6[12])\b"
    rf"|\blayout_type_?\s?=\s?(?:\w{{1,20}}\()?{_CODE.format('layout')}\b"
)
_INSTRUCTION = re.compile(
    r"\btcgen05\.(?P<what>mma|commit|cp|shift|alloc|dealloc|relinquish_alloc_permit)\b[\w.]{0,60}?\.cta_group::(?P<group>[12])"
)
_EXPECTS = re.compile(
    r"\b\w{0,40}expect_?(?:tx|transaction|bytes)\w{0,20}\(|"
    r"\bmbarrier\.arrive\.expect_tx[\w.:]{0,40} [^;\n]{1,60}, (?P<bytes>[^;\n\"]{1,60})"
)

# Arrays of shared memory by their declarations, and what hands one to the copy engine by a tensor map.
_ARRAY = re.compile(
    r"(?:\b(?:static|alignas\([^()\n]{1,20}\)|__align__\([^()\n]{1,20}\))[ \t]{1,4}){0,2}"
    r"\b__shared__[ \t][^;={}\n]{1,100}?\b(?P<name>\w{1,40})[ \t]?\[\s?\w"
)
_ALIGNED = re.compile(r"\b(?:alignas|__align__|aligned)[ \t]?\([ \t]?(?P<bytes>[^()\n]{1,20})\)")
_TENSOR_COPY = re.compile(
    r"\b\w{0,40}(?:tma_?(?:load|store)|bulk_tensor|tensor_tile)\w{0,40}(?:<[^<>;\n]{0,60}>)?\(", re.IGNORECASE
)


def explain_constants(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield what numbers in a text's code break together, where the text says that something fails.

    Args:
        text: the report, code among it.
        target: the GPU. Rules of units that it lacks say nothing.
    """
    if not hints_at_failure(text):
        return
    for found in (
        *_misplaced(text),
        *_loose(text),
        *_swizzles_apart(text, target),
        *_groups(text, target),
        *_bytes(text, target),
    ):
        if RULE_OF[found.code].unit.limits(target) is not None:
            yield replace(found, level="warning")


def _misplaced(text: str) -> Iterator[Diagnostic]:
    """Yield a barrier, and a tile of a tensor map, whose offset in shared memory is no multiple of what it needs."""
    spans = {match["mode"] for match in _MAP_SWIZZLE.finditer(text)} - {"NONE"}
    period = PERIODS[spans.pop()] if len(spans) == 1 else GRANULE
    told = set()
    for name, value in _numbers(text).items():
        words = {word.lower() for word in _WORD.findall(name)}
        if not words & _PLACES or not 0 < value < LARGEST:
            continue
        if words & _BARRIERS:
            code, needs, what = "PIPE025", 8, "a barrier"
        elif words & _TILES and not words & _NO_TILES and _OF_MAPS.search(text):
            code, needs, what = ("COPY005" if value % GRANULE == 0 else "COPY004"), period, "a box of the tensor map"
        else:
            continue
        if value % needs and code not in told:
            told.add(code)
            message = "{what} lies at offset {value} of shared memory ({name}), no multiple of {needs}"
            help_ = "round the offset up to a multiple of {needs} bytes, from a base that is aligned so as well"
            numbers = {"what": what, "value": value, "name": name, "needs": needs}
            refused = require(False, message, help=help_.replace("{needs}", str(needs)), **numbers)
            yield RULE_OF[code].diagnostic(refused, f'text "{name} = {value}"')


def _loose(text: str) -> Iterator[Diagnostic]:
    """Yield the first array of shared memory whose declaration aligns it less than a tensor copy's end has to be."""
    handed = {
        word
        for match in islice(_TENSOR_COPY.finditer(text), MOST_FOUND)
        for word in re.findall(r"\w+", text[match.end() : match.end() + 200].partition(";")[0])
    }
    names = constants(text) if handed else {}
    for match in islice(_ARRAY.finditer(text), MOST_FOUND):
        aligned = _ALIGNED.search(match[0])
        given = 0 if aligned is None else whole_number(aligned["bytes"], names)
        loose = given is not None and given < GRANULE
        if loose and match["name"] in handed and "bar" not in match[0].lower():
            message = "{name} is declared {how}, and a tensor copy takes multiples of 128 bytes of shared memory"
            how = f"with an alignment of {given} bytes" if given else "without an alignment"
            help_ = "declare it with alignas(128), with a swizzle of 128 bytes with alignas(1024)"
            refused = require(False, message, help=help_, name=match["name"], how=how)
            yield RULE_OF["COPY004"].diagnostic(refused, f'text "{" ".join(match[0].split())[:97]}"')
            return


def _numbers(text: str) -> Mapping[str, int]:
    """Return the names that stand for one number, of C++ and of Python."""
    named = constants(text)
    several: set[str] = set()
    python: dict[str, int] = {}
    for match in islice(_PYTHON_NUMBER.finditer(text), MOST_FOUND):
        value = whole_number(match["value"].strip(), {**named, **python})
        if value is None or python.setdefault(match["name"], value) != value:
            several.add(match["name"])
    return {**{name: value for name, value in python.items() if name not in several}, **named}


def _swizzles_apart(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield a matrix descriptor's swizzle where code writes it as a number, and it is not the tensor map's."""
    unit = "tcgen05" if target.tcgen05 is not None else "wgmma"
    layouts = {_CUTE_MODES[int(match["bits"])] for match in islice(_CUTE_SWIZZLE.finditer(text), MOST_FOUND)}
    written = {_word_of(match) for match in islice(_DESCRIPTOR_SWIZZLE.finditer(text), MOST_FOUND)}
    modes = {match["mode"].lower().replace("b", "B") for match in _MAP_SWIZZLE.finditer(text)}
    if len(layouts) == len(modes) == 1 and layouts != modes:
        message = "the layout of shared memory swizzles by {layout}, and the tensor map by {mode}"
        help_ = (
            "give the map the swizzle of the layout that reads or writes the tile: Swizzle<3, 4, 3> of bytes is 128B"
        )
        refused = require(False, message, help=help_, layout=next(iter(layouts)), mode=next(iter(modes)))
        yield RULE_OF["COPY012"].diagnostic(refused, "the code's layout and the code's map")
    if len(written) != 1 or len(modes) != 1:
        return
    shift, code = next(iter(written))
    if shift is None:  # CUTLASS's own field, whose enumerators are the unit's codes
        shift = SWIZZLE_BIT[unit]
    if code << shift >= 1 << 64:
        return
    word = MatrixWord(unit, code << shift)
    if not word.swizzle:
        yield from (one for one in judge(word, target) if one.code == "MDESC009")
    elif word.swizzle != (mode := modes.pop()):
        yield from (one for one in judge(word, target) if one.code == "MDESC008")
        message = "the matrix descriptor names {told} as code writes it, and the tensor map swizzles by {mode}"
        help_ = f"write code {word.swizzle_codes[mode]} from bit {SWIZZLE_BIT[unit]} of the word on"
        told = "no swizzle" if word.swizzle == "none" else f"swizzle {word.swizzle}"
        refused = require(False, message, help=help_, told=told, mode=mode)
        yield RULE_OF["MDESC003"].diagnostic(refused, "the code's descriptor and the code's map")


def _word_of(match: re.Match[str]) -> tuple[int | None, int]:
    code = int(match["code"] or match["layout"], 0)
    return (int(match["shift"]) if match["shift"] else None), code


def _groups(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield instructions of tcgen05 of which some are of one CTA and others of a pair, each always of the same."""
    groups: dict[str, set[int]] = {}
    for match in islice(_INSTRUCTION.finditer(text), MOST_FOUND):
        groups.setdefault(match["what"], set()).add(int(match["group"]))
    every = sorted({group for one in groups.values() for group in one})
    if len(every) == 2 and all(len(one) == 1 for one in groups.values()):
        yield from judge(KernelGroups(tuple(every)), target)


def _bytes(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield bytes that a barrier is told to expect, and that no number of the maps' boxes adds up to."""
    maps = [one.tensor_map for one in encoded_maps(text) if not {"the box", "the type"} & set(one.missing)]
    if not maps or target.tma is None:
        return
    names = _numbers(text)
    asked = {value for words in _expected(text) if (value := whole_number(words, names)) is not None}
    boxes = sorted({tx_bytes(one) for one in maps})
    for value in sorted(asked) if len(asked) == 1 else ():
        if value and not adds_up(value, boxes):
            message = "a barrier is told to expect {value} bytes, and the boxes of the maps bring {boxes} each"
            help_ = "expect the bytes of all boxes that complete on the barrier in one phase, no more and no less"
            refused = require(False, message, help=help_, value=value, boxes=" and ".join(map(str, boxes)))
            yield RULE_OF["PIPE006"].diagnostic(refused, f'text "{value} bytes expected"')


def _expected(text: str) -> Iterator[str]:
    for match in islice(_EXPECTS.finditer(text), MOST_FOUND):
        if match["bytes"]:
            yield match["bytes"]
        elif given := arguments_of(text[match.end() : match.end() + 200]):
            yield given[-1]


def adds_up(value: int, boxes: Sequence[int]) -> bool:
    """Whether a number of bytes is a sum of boxes, each any number of times."""
    step = gcd(*boxes)
    if value % step or value > MOST_BYTES:
        return not value % step
    sums = [True] + [False] * (value // step)
    for at in range(1, len(sums)):
        sums[at] = any(at >= box // step and sums[at - box // step] for box in boxes)
    return sums[-1]

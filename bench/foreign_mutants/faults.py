"""One-instruction faults of asynchronous kernels: `faults(text)` yields every one that can be planted, `drawn` some.

An instruction is taken out, or one operand of it is another. Whether that does harm depends on the kernel: kinds say
what was edited, not what follows. Lines stay where they are, so that they name the same instruction in both texts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

STAGES = range(1, 17)  # that a ring may have
NEAR = 14  # lines from a comparison to what it chooses

_STATEMENT = re.compile(
    r"^(?P<head>\s*(?:\{\s*)?(?:\.reg[^;]*;\s*)?(?:@!?[%\w$]+\s+)?)(?P<op>[a-z][\w.:]*)\s*(?P<args>[^;]*);(?P<tail>.*)$"
)
_OPERANDS = re.compile(r"\{[^}]*\}|\[(?:[^\]{]|\{[^}]*\})*\]|[^\s,\[\]{}]+")


@dataclass(frozen=True, slots=True)
class Statement:
    """An instruction on a line of its own: what stands before it, its name, its operands, what comes after."""

    head: str
    op: str
    operands: tuple[str, ...]
    tail: str

    def __str__(self) -> str:
        return f"{self.head}{self.op} {', '.join(self.operands)};{self.tail}"

    def given(self, which: int, operand: str) -> Statement:
        """Return it with another operand."""
        operands = [*self.operands]
        operands[which] = operand
        return Statement(self.head, self.op, tuple(operands), self.tail)


@dataclass(frozen=True, slots=True)
class Fault:
    """What was edited: the kind, the line from 1, and the text."""

    kind: str
    line: int
    text: str


Edit = Callable[[Statement], str | None]


def _gone(one: Statement) -> str:
    blank = re.sub(r"@!?[%\w$]+\s+$", "", one.head)
    return f"{blank}// {one.op} {', '.join(one.operands)};{one.tail}"


def _passed(one: Statement) -> str | None:
    """A wait that is over at once."""
    return f"{one.head}setp.eq.u32 {one.operands[0].partition('|')[0]}, 0, 0;{one.tail}"


def _number(by: int, which: int, type_: str = "b32") -> Edit:
    """Another number: an immediate, or what a register holds."""

    def edit(one: Statement) -> str | None:
        if len(one.operands) <= (which if which >= 0 else -which - 1):
            return None
        held = one.operands[which]
        if re.fullmatch(r"\d+", held):
            return str(one.given(which, str(int(held) + by))) if int(held) + by >= 0 else None
        return _computed(one, which, f"add.{type_.replace('b', 's')}", by, type_)

    return edit


def _flipped(which: int, bit: int, type_: str) -> Edit:
    def edit(one: Statement) -> str | None:
        if len(one.operands) <= (which if which >= 0 else -which - 1):
            return None
        held = one.operands[which]
        if re.fullmatch(r"\d+", held):
            return str(one.given(which, str(int(held) ^ bit)))
        return _computed(one, which, f"xor.{type_}", bit, type_)

    return edit


def _computed(one: Statement, which: int, op: str, by: int, type_: str) -> str | None:
    held = one.operands[which]
    if not re.fullmatch(r"%[\w$]+", held):
        return None
    changed = one.given(which, "%planted")
    guard = re.search(r"@!?[%\w$]+\s+$", one.head)
    opened = one.head[: guard.start()] if guard else one.head
    changed = Statement(guard[0] if guard else "", changed.op, changed.operands, "")
    return f"{opened}{{ .reg .{type_} %planted; {op} %planted, {held}, {by}; {changed} }}{one.tail}"


def _mask(one: Statement) -> str | None:
    """Other CTAs are sent to: the mask is the last 16-bit operand, before a cache's hint where there is one."""
    which = -2 if "L2::cache_hint" in one.op else -1
    return _flipped(which, 3, "b16")(one)


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    pattern: str
    edit: Edit


_EXPECT = r"mbarrier\.(arrive\.)?expect_tx"
_WAIT = r"mbarrier\.(try|test)_wait"
_KINDS = (
    _Kind("init dropped", r"mbarrier\.init", _gone),
    _Kind("one arrival more awaited", r"mbarrier\.init", _number(1, -1)),
    _Kind("wait dropped", _WAIT, _passed),
    _Kind("parity flipped", rf"{_WAIT}\.parity", _flipped(2, 1, "b32")),
    _Kind("arrive dropped", r"(cp\.async\.)?mbarrier\.arrive\.(?!expect_tx)", _gone),
    _Kind("expect dropped", _EXPECT, _gone),
    _Kind("16 bytes more expected", _EXPECT, _number(16, -1)),
    _Kind("16 bytes fewer expected", _EXPECT, _number(-16, -1)),
    _Kind("commit dropped: cp.async", r"cp\.async\.commit_group", _gone),
    _Kind("commit dropped: bulk", r"cp\.async\.bulk\.commit_group", _gone),
    _Kind("commit dropped: wgmma", r"wgmma\.commit_group", _gone),
    _Kind("commit dropped: tcgen05", r"tcgen05\.commit", _gone),
    _Kind("wait_group dropped: cp.async", r"cp\.async\.wait_(group|all)", _gone),
    _Kind("wait_group dropped: bulk", r"cp\.async\.bulk\.wait_group", _gone),
    _Kind("wait_group dropped: wgmma", r"wgmma\.wait_group", _gone),
    _Kind("wait_group for one fewer: cp.async", r"cp\.async\.wait_group", _number(1, -1)),
    _Kind("wait_group for one fewer: bulk", r"cp\.async\.bulk\.wait_group", _number(1, -1)),
    _Kind("wait_group for one fewer: wgmma", r"wgmma\.wait_group", _number(1, -1)),
    _Kind("wait dropped: tcgen05.ld", r"tcgen05\.wait::ld", _gone),
    _Kind("wait dropped: tcgen05.st", r"tcgen05\.wait::st", _gone),
    _Kind("fence dropped: proxy", r"fence\.proxy\.async", _gone),
    _Kind("fence dropped: tensormap", r"fence\.proxy\.tensormap", _gone),
    _Kind("fence dropped: init", r"fence\.mbarrier_init", _gone),
    _Kind("fence dropped: wgmma", r"wgmma\.fence", _gone),
    _Kind("fence dropped: tcgen05 before", r"tcgen05\.fence::before", _gone),
    _Kind("fence dropped: tcgen05 after", r"tcgen05\.fence::after", _gone),
    _Kind("barrier dropped: block", r"(bar|barrier)(\.cta)?\.(sync|arrive)", _gone),
    _Kind("barrier dropped: cluster", r"barrier\.cluster\.(arrive|wait)", _gone),
    _Kind("mask changed", r"(cp\.async\.bulk|tcgen05\.commit).*multicast::cluster", _mask),
    _Kind("remote target changed", r"mapa\.", _flipped(-1, 1, "b32")),
)  # fmt: skip
RING = ("one stage more", "one stage fewer")
KINDS = (*(kind.name for kind in _KINDS), *RING)


def statement(line: str) -> Statement | None:
    """Return the instruction on a line, None where there is none."""
    code, bar, comment = line.partition("//")
    found = _STATEMENT.match(code)
    if found is None:
        return None
    return Statement(found["head"], found["op"], tuple(_OPERANDS.findall(found["args"])), found["tail"] + bar + comment)


def faults(text: str) -> Iterator[Fault]:
    """Yield every fault of every kind."""
    lines = text.split("\n")
    found = [(n, one) for n, line in enumerate(lines) if (one := statement(line)) is not None]
    for kind in _KINDS:
        pattern = re.compile(kind.pattern)
        for n, one in found:
            edited = kind.edit(one) if pattern.match(one.op) else None
            if edited is not None and edited != lines[n]:
                yield Fault(kind.name, n + 1, _with(lines, n, edited))
    for n, one in found:
        if _is_wrap(one, found, n):
            which = 2
            for name, by in zip(RING, (1, -1), strict=True):
                edited = _number(by, which)(one)
                if edited is not None:
                    yield Fault(name, n + 1, _with(lines, n, edited))


def drawn(text: str, rng: random.Random, most: int) -> list[Fault]:
    """Return so many faults, of as many kinds as there are."""
    of_kind: dict[str, list[Fault]] = {}
    for fault in faults(text):
        of_kind.setdefault(fault.kind, []).append(fault)
    for several in of_kind.values():
        rng.shuffle(several)
    order = [*of_kind]
    rng.shuffle(order)
    found: list[Fault] = []
    while order and len(found) < most:
        for kind in [*order]:
            if of_kind[kind] and len(found) < most:
                found.append(of_kind[kind].pop())
            if not of_kind[kind]:
                order.remove(kind)
    return sorted(found, key=lambda fault: (fault.line, fault.kind))


def _with(lines: list[str], n: int, edited: str) -> str:
    return "\n".join([*lines[:n], edited, *lines[n + 1 :]])


def _is_wrap(one: Statement, found: list[tuple[int, Statement]], n: int) -> bool:
    """Is this where an index that was increased goes back to the first stage?"""
    if not one.op.startswith("setp.") or len(one.operands) != 3 or not re.fullmatch(r"\d+", one.operands[2]):
        return False
    if int(one.operands[2]) not in STAGES:
        return False
    predicate, index = one.operands[0].partition("|")[0], one.operands[1]
    counted = any(
        other.op.startswith("add.") and other.operands[0] == index and other.operands[-1] == "1"
        for m, other in found
        if m < n
    )
    return counted and any(
        other.op.startswith("selp.") and other.operands[-1] == predicate and "0" in other.operands[1:3]
        for m, other in found
        if n < m <= n + NEAR
    )

"""Registers that are used for several things, each under a name of its own.

A register that begins with zero and is counted up later holds zero until then, whatever follows. Where no use is
reached by two writes, these are of two registers for all that can be known; assemblers number them anew too (webs of
definitions and uses). What conditions depend on, and what they begin with, is then told of each alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from legalsat.analyses.ptx.bounds import Bounds
from legalsat.analyses.ptx.instruction import Instruction, names_in, results_of
from legalsat.analyses.ptx.text import Kernel

# What writes its first operand alone, and reads it nowhere.
_PLAIN = frozenset(
    {"mov", "add", "sub", "mul", "mad", "div", "rem", "min", "max", "and", "or", "xor", "not", "neg", "shl", "shr"}
    | {"shf", "bfe", "lop3", "selp", "setp", "cvt", "cvta"}
)
_ENDS = frozenset({"bra", "brx", "ret", "exit", "trap"})
_NAME = re.compile(r"[%A-Za-z_$][\w$@]*(?:\.[xyzw]\b)?", re.A)


def with_own_registers(kernel: Kernel, bounds: Bounds) -> Kernel:
    """Return a kernel in which writes that reach no common use are of registers of their own."""
    code = kernel.instructions
    writes: dict[str, list[int]] = {}
    for n, i in enumerate(code):
        for name in results_of(i):
            writes.setdefault(name, []).append(n)
    several = {name for name, at in writes.items() if len(at) > 1 and all(code[n].base in _PLAIN for n in at)}
    if not several:
        return kernel
    listed = [(n, name) for name in sorted(several) for n in writes[name]]
    bit = {one: 1 << number for number, one in enumerate(listed)}
    masks = {name: sum(bit[n, name] for n in writes[name]) for name in several}
    webs = _Webs(len(listed))
    used: dict[tuple[int, str], int] = {}  # writes that reach a use, as bits
    for begin, end, reaching in _reaching(kernel, several, bit, masks, bounds):
        now = reaching
        for n in range(begin, end):
            for name in _read(code[n]) & several:
                used[n, name] = webs.join(now & masks[name])
            for name in several.intersection(results_of(code[n])):
                if code[n].guard:  # where it does not hold, the old value stays
                    now |= webs.join(now & masks[name] | bit[n, name])
                else:
                    now &= ~masks[name]
                now |= bit[n, name]
    names: dict[tuple[int, str], str] = {}
    for name in several:
        roots = [webs.root(bit[n, name].bit_length() - 1) for n in writes[name]]
        own = {root: f"{name}@w{k}" if k else name for k, root in enumerate(dict.fromkeys(roots))}
        names |= {(n, name): own[root] for n, root in zip(writes[name], roots, strict=True)}
    of_use = {key: names[listed[webs.root(bits.bit_length() - 1)]] for key, bits in used.items() if bits}
    changed = {key[0] for known in (names, of_use) for key, name in known.items() if name != key[1]}
    instructions = [_renamed(n, i, names, of_use) if n in changed else i for n, i in enumerate(code)]
    return replace(kernel, instructions=instructions)


class _Webs:
    """Numbers that are joined."""

    def __init__(self, count: int) -> None:
        self._parents = list(range(count))

    def root(self, number: int) -> int:
        """Return the number that stands for all that are joined with one."""
        while self._parents[number] != number:
            self._parents[number] = self._parents[self._parents[number]]
            number = self._parents[number]
        return number

    def join(self, bits: int) -> int:
        """Join all numbers of a set; return the set."""
        left, first = bits, self.root(bits.bit_length() - 1) if bits else 0
        while left:
            self._parents[self.root((left & -left).bit_length() - 1)] = first
            left &= left - 1
        return bits


def _read(i: Instruction) -> set[str]:
    """Return the names that an instruction reads."""
    operands = i.operands[1:] if i.base in _PLAIN else i.operands
    return {name for one in operands for name in names_in(one)} | {i.guard}


def _reaching(
    kernel: Kernel, several: set[str], bit: dict[tuple[int, str], int], masks: dict[str, int], bounds: Bounds
) -> Iterable[tuple[int, int, int]]:
    """Return stretches of code, and the writes that reach their beginnings, as bits."""
    code, size = kernel.instructions, len(kernel.instructions)
    begins = sorted({0, *kernel.labels.values(), *(n + 1 for n, i in enumerate(code) if i.base in _ENDS)} - {size})
    ends = [*begins[1:], size]
    number = {begin: n for n, begin in enumerate(begins)}
    made, kept, follow = [], [], []
    for begin, end in zip(begins, ends, strict=True):
        makes, keeps = 0, -1
        for n in range(begin, end):
            for name in several.intersection(results_of(code[n])):
                if not code[n].guard:
                    makes, keeps = makes & ~masks[name], keeps & ~masks[name]
                makes |= bit[n, name]
        made.append(makes)
        kept.append(keeps)
        last = code[end - 1]
        to = [last.operands[0]] if last.base == "bra" else []
        to += kernel.tables.get(last.operands[1], ()) if last.base == "brx" else ()
        through = [end] if last.base not in _ENDS or last.guard else []
        targets = [kernel.labels[name] for name in to if name in kernel.labels] + through
        follow.append([number[at] for at in targets if at in number])
    found = [0] * len(begins)
    open_ = list(range(len(begins)))[::-1]
    while open_:
        bounds.check()
        n = open_.pop()
        leaving = found[n] & kept[n] | made[n]
        for to_ in follow[n]:
            if leaving & ~found[to_]:
                found[to_] |= leaving
                open_.append(to_)
    return zip(begins, ends, found, strict=True)


def _renamed(
    n: int, i: Instruction, names: dict[tuple[int, str], str], of_use: dict[tuple[int, str], str]
) -> Instruction:
    def put(operand: str, known: dict[tuple[int, str], str]) -> str:
        return _NAME.sub(lambda found: known.get((n, found[0]), found[0]), operand)

    first = 1 if i.base in _PLAIN else 0
    operands = tuple(put(one, names if at < first else of_use) for at, one in enumerate(i.operands))
    guard = of_use.get((n, i.guard), i.guard)
    return i if (operands, guard) == (i.operands, i.guard) else replace(i, operands=operands, guard=guard)

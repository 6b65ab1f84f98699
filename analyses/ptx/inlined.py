"""Calls of functions that stand in the text, with the functions' bodies in their places.

Compilers leave calls of what is `__noinline__`, is large, or is not optimised. Arguments and results pass through
parameters of the call, which become registers. What a pointer calls, or recurs, stays a call, which is not followed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from legalsat.analyses.ptx.instruction import Instruction, immediate, results_of, vector
from legalsat.analyses.ptx.parameters import ADDRESS
from legalsat.analyses.ptx.text import Function, Kernel, PtxText

MOST_CALLS = 16  # in each other
MOST_MORE = 50_000  # instructions that take the place of calls
_UNUSED = "_"
_NOTHING: Mapping[str, str] = MappingProxyType({})
_TOKEN = re.compile(r"[%A-Za-z_$][\w$@]*", re.A)


def with_functions(module: PtxText) -> PtxText:
    """Return a module whose kernels call no function that stands in it, as far as these can be told."""
    if not module.functions:
        return module
    return replace(module, kernels=[_Inliner(module, kernel).kernel() for kernel in module.kernels])


@dataclass
class _Inliner:
    """One kernel, to which bodies are added."""

    module: PtxText
    source: Kernel
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    sites: int = 0

    def kernel(self) -> Kernel:
        """Return it with bodies in the places of calls."""
        if not any(i.base == "call" for i in self.source.instructions):
            return self.source
        self.shared, self.local = list(self.source.shared), list(self.source.local)
        self.tables = dict(self.source.tables)
        self._add(self.source, {}, frozenset())
        return replace(
            self.source,
            instructions=self.code,
            labels=self.labels,
            tables=self.tables,
            shared=self.shared,
            local=self.local,
        )

    def _add(
        self, body: Kernel, names: dict[str, str], within: frozenset[str], passed: Mapping[str, str] = _NOTHING
    ) -> None:
        """Add a body whose names are others; `passed`: what its parameters and results are called by the caller."""
        at: dict[int, list[str]] = {}
        for label, n in body.labels.items():
            at.setdefault(n, []).append(names.get(label, label))
        kept = {parameter.name for parameter in self.source.parameters}
        for n in range(len(body.instructions) + 1):
            self.labels |= dict.fromkeys(at.get(n, ()), len(self.code))
            if n < len(body.instructions):
                i = _renamed(body.instructions[n], names)
                function = self._called(i, within)
                if function is not None:
                    self._call(i, function, within)
                else:
                    self.code += _moved(i, kept, passed)

    def _called(self, i: Instruction, within: Collection[str]) -> Function | None:
        if i.base != "call" or len(within) >= MOST_CALLS or len(self.code) > len(self.source.instructions) + MOST_MORE:
            return None
        named = [one for one in i.operands[:2] if not one.startswith("(")][:1]
        return self.module.functions.get(named[0]) if named and named[0] not in within else None

    def _call(self, i: Instruction, function: Function, within: frozenset[str]) -> None:
        self.sites += 1
        body, mark = function.body, f"@c{self.sites}"
        groups = [_listed(one) for one in i.operands if one.startswith("(")]
        results = groups.pop(0) if i.operands[0].startswith("(") and groups else []
        given = groups[0] if groups else []
        own = {name for one in body.instructions for name in results_of(one) if one.base not in {"call", "st"}}
        own |= {*body.labels, *body.tables, *(symbol.name for symbol in body.local)}
        names = {name: name + mark for name in own - {_UNUSED}}
        passed = dict(zip(function.results, results, strict=False))
        # What the function takes is read when it begins: calls in it may use the same names again.
        for taken, name in zip(function.parameters, given, strict=False):
            passed[taken] = f"{taken}{mark}"
            for offset in sorted(_offsets(body, taken)):
                self.code.append(_move(i, _slot(passed[taken], offset), _slot(name, offset)))
        end = f"$end{mark}"
        names[_RETURN] = end
        if i.guard:
            self.code.append(Instruction("bra", (end,), i.guard, not i.negated, i.line, ("bra",)))
        self._add(body, names, within | {body.name}, passed)
        self.labels[end] = len(self.code)
        self.shared += [symbol for symbol in body.shared if symbol not in self.shared]
        self.local += [replace(symbol, name=names[symbol.name]) for symbol in body.local]
        self.tables |= {names[name]: tuple(names[one] for one in to) for name, to in body.tables.items()}


_RETURN = "return"  # where a body ends


def _renamed(i: Instruction, names: dict[str, str]) -> Instruction:
    """Return an instruction with other names; one that ends a function goes on behind it."""
    if not names:
        return i
    if i.base == "ret":
        return Instruction("bra", (names[_RETURN],), names.get(i.guard, i.guard), i.negated, i.line, ("bra",))
    operands = tuple(_TOKEN.sub(lambda found: names.get(found[0], found[0]), one) for one in i.operands)
    return replace(i, operands=operands, guard=names.get(i.guard, i.guard))


def _moved(i: Instruction, kept: Collection[str], passed: Mapping[str, str]) -> list[Instruction]:
    """Return what an instruction is that moves parameters of calls, which are registers."""
    if i.base not in {"ld", "st"} or "param" not in i.parts:
        return [i]
    address, held = (i.operands[0], i.operands[1]) if i.base == "st" else (i.operands[1], i.operands[0])
    place = _place(address)
    if place is None or place[0] in kept:
        return [i]
    name, size, found = passed.get(place[0], place[0]), _bytes(i), []
    for n, register in enumerate(vector(held)):
        slot = _slot(name, place[1] + n * size)
        found.append(_move(i, slot, register) if i.base == "st" else _move(i, register, slot))
    return [replace(one, guard=i.guard, negated=i.negated) for one in found]


def _offsets(body: Kernel, name: str) -> set[int]:
    """Return the bytes of a parameter from which a body loads."""
    found = set()
    for i in body.instructions:
        place = _place(i.operands[1]) if i.base == "ld" and "param" in i.parts else None
        if place is not None and place[0] == name:
            found |= {place[1] + n * _bytes(i) for n in range(len(vector(i.operands[0])))}
    return found


def _place(address: str) -> tuple[str, int] | None:
    found = ADDRESS.fullmatch(address)
    offset = immediate(found[3].replace(" ", "")) if found is not None and found[3] else 0
    return (found[1], offset) if found is not None and offset is not None else None


def _bytes(i: Instruction) -> int:
    return int("".join(c for c in i.parts[-1] if c.isdigit()) or 8) // 8


def _slot(name: str, offset: int) -> str:
    """Return the register that stands for a word of a call's parameter."""
    return f"%call@{name}@{offset}"


def _move(i: Instruction, to: str, source: str) -> Instruction:
    bits = f"b{8 * _bytes(i)}" if i.base in {"ld", "st"} else "b64"
    return Instruction(f"mov.{bits}", (to, source), "", False, i.line, ("mov", bits))


def _listed(group: str) -> list[str]:
    return [one.strip() for one in group.strip("() \n\t").split(",") if one.strip()]

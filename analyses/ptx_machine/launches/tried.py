"""Values of a launch that are tried with a condition: near the numbers it is made of, and where it may turn round.

What is computed of a block's number or a parameter is followed backwards from the number that it is compared with:
`shr %r2, %r1, 12` meets 9 where %r1 is 9 * 4096. That way is exact as long as nothing wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import combinations_with_replacement
from typing import Any, TypeAlias

from legalsat.analyses.ptx.instruction import Instruction, immediate, names_in, results_of, width_of
from legalsat.analyses.ptx_machine import units
from legalsat.analyses.ptx_machine.launches.loads import parameter_of

Definitions: TypeAlias = Mapping[str, Sequence[Instruction]]
MOST_ALONG_X, MOST_ALONG_YZ = (1 << 31) - 1, (1 << 16) - 1  # blocks of a grid (CUDA C++ Programming Guide)
_MOST_CONSTANTS, _MOST_SUMS, _MOST_MET, _MOST_DEPTH = 24, 8, 64, 64
_MOST_BITS = 41  # of values that are tried
_MOST_FACTOR = 1 << 16  # what is multiplied by more wraps before blocks run out
_POWERS = tuple(sorted({max(0, (1 << k) + d) for k in range(31) for d in (-1, 0, 1)}))
_OF_GRID = {"%ctaid.": "%ctaid.", "%nctaid.": "%nctaid.", "%clusterid.": "%ctaid.", "%nclusterid.": "%nctaid."}


def of_grid(name: str) -> frozenset[str]:
    """Return the number of the grid that a special register says, or is computed from; nothing of others."""
    found = _OF_GRID.get(name[:-1])
    return frozenset({found + name[-1]} if found else ())


def most(key: str) -> int:
    """Return the greatest value that a special register has."""
    if not key.startswith(("%ctaid.", "%nctaid.")):
        return (1 << 16) - 1
    return (MOST_ALONG_X if key.endswith("x") else MOST_ALONG_YZ) - key.startswith("%ctaid.")


def of_switch(program: Any, key: str) -> list[int]:
    """Return what is tried of a parameter of which only whether it is zero matters."""
    begin = program.pointer(key) if program.is_pointer(key) else None
    return [0, begin or program.multiple(key)]


def candidates(program: Any, key: str, constants: Sequence[int], met: set[int], step: int) -> list[int]:
    """Return what is tried of a parameter or special register.

    Args:
        program: the kernel.
        key: the parameter.
        constants: numbers that a condition is computed from, the nearest first.
        met: values where it may turn round, of `crossings`.
        step: by how much the parameter grows.
    """
    begin = program.pointer(key) if program.is_pointer(key) else None
    if begin is not None:
        return [begin + d for d in (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)] + [0]
    near = {c + d for c in constants for d in (-1, 0, 1)}
    near |= {a + b for a, b in combinations_with_replacement(constants[:_MOST_SUMS], 2)}
    if key.startswith("["):  # the second word holds twice the first
        near |= {c // n for c in constants for n in (2, 3, 4)}
    near |= {c * step + d for c in constants for d in (-1, 0, 1)} | {*_POWERS, -1}
    if key.startswith("%"):
        # Of greater numbers of blocks only those that tell: what is computed of others may wrap.
        return sorted({v for v in near if 0 <= v < 1 << 16 and v <= most(key)} | met)
    bits = min(program.bits(key) - 1, _MOST_BITS)
    near |= {1 << power for power in range(32, bits)} | met
    return sorted(v for v in near if -(1 << bits) <= v < 1 << bits and v % program.multiple(key) == 0)


def constants_of(name: str, definitions: Definitions) -> list[int]:
    """Return the numbers that a register is computed from, the nearest first."""
    found: dict[int, None] = {}
    seen, work = {name}, [name]
    while work and len(found) < _MOST_CONSTANTS:
        following = []
        for one in work:
            for i in definitions.get(one, ()):
                for operand in i.operands[1:]:
                    number = immediate(operand)
                    if number is not None and abs(number) < 1 << 31 and not operand.startswith(("0f", "0d")):
                        found.setdefault(number)
                    for source in names_in(operand):
                        if source not in seen:
                            seen.add(source)
                            following.append(source)
        work = following
    return list(found)


def crossings(program: Any, name: str, definitions: Definitions) -> dict[str, set[int]]:
    """Return values of parameters and of the grid, by name, at which a predicate may turn round, the others being 0.

    Args:
        program: the kernel.
        name: of the predicate.
        definitions: instructions by the register that they write.
    """
    found: dict[str, set[int]] = {}
    met: dict[str, set[int]] = {}
    work = [(name, frozenset[int](), 0)]
    while work:
        one, numbers, depth = work.pop()
        held = met.get(one)
        new = numbers - (held or set())
        if (held is not None and not new) or depth > _MOST_DEPTH or len(held or ()) > _MOST_MET:
            continue
        met[one] = {*(held or ()), *new}
        for key in of_grid(one):
            whole = program.multiple(key) if one.startswith(("%clusterid.", "%nclusterid.")) else 1
            step = program.multiple(key)
            near = {n * whole // step * step + d * step for n in new for d in (0, 1)}
            found.setdefault(key, set()).update(n for n in near if 0 <= n <= most(key))
        for i in definitions.get(one, ()):
            if i.base == "ld" and units.space_of(i) == "param":
                key, _ = parameter_of(i, results_of(i).index(one))
                found.setdefault(key, set()).update(new)
            work += ((source, frozenset(more), depth + 1) for source, more in _before(i, new, definitions))
    return found


def crosses(name: str, definitions: Definitions) -> bool:
    """Does a predicate hang on comparisons with numbers alone, and on arithmetic that `crossings` turns round?"""
    seen, work = {name}, [name]
    while work:
        for i in definitions.get(work.pop(), ()):
            if i.base not in _BACK and i.base not in {"setp", "selp"} and i.parts[-1] != "pred":
                return False
            if i.base in {"mul", "mad"} and "hi" not in i.parts:
                factors = [_number(one, definitions) for one in i.operands[1:3]]
                if all(f is None or abs(f) > _MOST_FACTOR for f in factors):
                    return False
            more = {n for one in i.operands[1:] for n in names_in(one)} - seen
            seen |= more
            work += more
    return True


def _number(operand: str, definitions: Definitions, depth: int = 8) -> int | None:
    """Return an operand that is a number, or a register that holds but one."""
    found = immediate(operand)
    listed = definitions.get(operand, ())
    if found is None and len(listed) == 1 and listed[0].base == "mov" and not listed[0].guard and depth:
        return _number(listed[0].operands[1], definitions, depth - 1)
    return found


def _before(i: Instruction, met: Set[int], definitions: Definitions) -> Iterator[tuple[str, Set[int]]]:
    """Yield what each source of an instruction may be where its result is one of some numbers."""
    sources = [(one.lstrip("!"), _number(one, definitions)) for one in i.operands[1:]]
    for at, (source, number) in enumerate(sources):
        if number is not None or (source not in definitions and not source.startswith("%")):
            continue
        if i.base == "setp":
            other = sources[1 - at][1] if at < 2 else None
            yield source, set() if other is None else {other - 1, other, other + 1}
            continue
        others = [value for place, (_, value) in enumerate(sources) if place != at]
        back = _BACK.get(i.base)
        if back is None:
            yield source, met
            continue
        yield source, {value for one in met for value in back(one, at, others, i)}


_Back: TypeAlias = Callable[[int, int, list["int | None"], Instruction], tuple[int, ...]]


def _difference(t: int, at: int, others: list[int | None], _: Instruction) -> tuple[int, ...]:
    other = others[0] or 0
    return (t + other,) if at == 0 else (other - t,)


def _factor(t: int, at: int, others: list[int | None], i: Instruction) -> tuple[int, ...]:
    if i.base == "mad" and at == 2:
        a, b = others
        return (t - a * b,) if a is not None and b is not None else (t,)
    t -= (others[1] or 0) if i.base == "mad" else 0
    t <<= 8 * width_of(i) if "hi" in i.parts else 0
    return (t // others[0], t // others[0] + 1) if others[0] else (t,)


def _shifted_left(t: int, at: int, others: list[int | None], _: Instruction) -> tuple[int, ...]:
    by = others[0] or 0
    return (t >> by, (t >> by) + 1) if at == 0 and by < 64 else (t,)


def _shifted_right(t: int, at: int, others: list[int | None], _: Instruction) -> tuple[int, ...]:
    by = others[0] or 0
    return (t << by, (t + 1 << by) - 1) if at == 0 and by < 64 else (t,)


def _divided(t: int, at: int, others: list[int | None], _: Instruction) -> tuple[int, ...]:
    by = others[0]
    return (t * by, t * by + by - 1) if at == 0 and by else (t,)


_BACK: Mapping[str, _Back] = {
    "mov": lambda t, *_: (t,),
    "cvt": lambda t, *_: (t,),
    "cvta": lambda t, *_: (t,),
    "ld": lambda _t, *_: (),
    "neg": lambda t, *_: (-t,),
    "abs": lambda t, *_: (t, -t),
    "min": lambda t, *_: (t,),
    "max": lambda t, *_: (t,),
    "add": lambda t, _at, others, _i: (t - (others[0] or 0),),
    "sub": _difference,
    "mul": _factor,
    "mad": _factor,
    "shl": _shifted_left,
    "shr": _shifted_right,
    "div": _divided,
    "rem": lambda t, *_: (t,),
    "and": lambda t, _at, others, _i: (t, others[0] or t),
    "or": lambda t, _at, others, _i: (t, t & ~(others[0] or 0)),
    "xor": lambda t, _at, others, _i: (t ^ (others[0] or 0),),
    "bfe": lambda t, at, others, _i: (t << (others[0] or 0),) if at == 0 and (others[0] or 0) < 64 else (t,),
}

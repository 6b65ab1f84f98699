"""What a kernel's parameters are by their use: pointers, counts, sizes, or addresses.

A 64-bit parameter may be a pointer or a count. A pointer reaches the address of an access by additions alone; a count
is compared, or scaled first. Bytes of bulk copies and places in shared memory are multiples of 8, 16 or 128.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from legalsat.analyses.ptx.bounds import Bounds
from legalsat.analyses.ptx.instruction import Instruction, immediate, names_in, results_of, vector, width_of
from legalsat.analyses.ptx.text import Kernel
from legalsat.analyses.ptx_machine import units
from legalsat.analyses.ptx_machine.launches.data import names_of, widths_of, word_loads, words_of
from legalsat.analyses.ptx_machine.launches.loads import keys_of_load
from legalsat.analyses.ptx_machine.launches.records import COPIES, Tables, lanewise_of, tables_of

_DIRECT = {"mov", "cvta", "add", "sub", "selp", "or", "cvt", "shfl"}
WARP = 32  # threads, of which barriers of the block take multiples
_GREATEST = 4096
_POINTERS = 2  # that lead one to the next to a word


@dataclass
class Roles:
    """Parameters by their use.

    Attributes:
        pointers: those that are addresses. multiples: what others must be multiples of, where that is not 1.
        map_stores: numbers of the stores to global memory at pointers by which copies find tensor maps.
        words: loads of words in memory that are as good as parameters, by identity, with the pointer to them.
        names: what these words are called, by identity, one for each result. tables: which of them are in tables.
        widths: of parameters and such words, in bits.
        anywhere: such words by which is written to generic addresses, so that they may be any.
        floats: those that are loaded as numbers of 32 bits with a fraction, such as factors.
        dividing: those that only say how something is divided, with values that divide by two at most: by how much
            it is shifted, and with what it is multiplied of which the upper half is taken.
    """

    pointers: set[str] = field(default_factory=set)
    multiples: dict[str, int] = field(default_factory=dict)
    map_stores: frozenset[int] = frozenset()
    words: dict[int, str] = field(default_factory=dict)
    names: dict[int, tuple[str, ...]] = field(default_factory=dict)
    tables: Tables = field(default_factory=Tables)
    widths: dict[str, int] = field(default_factory=dict)
    anywhere: set[str] = field(default_factory=set)
    floats: frozenset[str] = frozenset()
    dividing: dict[str, int] = field(default_factory=dict)


def roles_of(kernel: Kernel, bounds: Bounds) -> Roles:
    """Return what the parameters of a kernel are by their use.

    Raises:
        Undecided: it takes longer than the bounds allow.
    """
    found = Roles({p.name for p in kernel.parameters if p.pointer})
    scales = _sums(kernel, found, bounds)
    of_tables = {one for n, listed in found.names.items() if found.words[n] in found.tables.records for one in listed}
    found.widths = widths = _widths(kernel.instructions) | widths_of(kernel.instructions, found.names, width_of)
    for i in kernel.instructions:
        if i.base == "cvta":
            direct = {key for key, scale in scales.get(i.operands[1], {}).items() if scale == 1}
            found.pointers |= {key for key in direct if len(direct) == 1 and widths.get(key) == 64}
    found.floats = frozenset(_floats(kernel.instructions, found.names))
    if found.tables.records:  # sizes in memory are divided to count tiles, of which there are none else
        found.dividing = _dividing(kernel.instructions, scales)
    maps: set[str] = set()
    for i in kernel.instructions:
        for name in maps_of(i):
            maps |= {key for key, scale in scales.get(name, {}).items() if scale == 1 and widths[key] == 64}
    found.pointers |= maps
    found.map_stores = frozenset(
        n
        for n, i in enumerate(kernel.instructions)
        if i.base == "st"
        and units.space_of(i) == "global"
        and any(not maps.isdisjoint(scales.get(name, {})) for name in _addresses(i))
    )
    for i in kernel.instructions:
        for name in _addresses(i):
            held = scales.get(name, {})
            sums = {key for key, scale in held.items() if scale == 1 and widths.get(key) == 64}
            if i.base != "ld" and units.space_of(i) == "":
                found.anywhere |= {key for key in sums if key.startswith("[")}
            sums = sums - of_tables or sums  # what a table holds is an offset beside any other pointer
            if not sums & found.pointers and units.space_of(i) not in {"shared", "param", "local"}:
                found.pointers |= sums
        for name, multiple in _multiples(i):
            for key, scale in scales.get(name, {}).items():
                if key not in found.pointers and scale < multiple:
                    found.multiples[key] = max(found.multiples.get(key, 1), multiple // scale)
    found.multiples = {k: m for k, m in found.multiples.items() if k not in found.pointers}
    return found


def _floats(instructions: Iterable[Instruction], names: Mapping[int, Sequence[str]]) -> Iterator[str]:
    for i in instructions:
        if i.base == "ld" and i.parts[-1] == "f32":
            yield from keys_of_load(i) if units.space_of(i) == "param" else names.get(id(i), ())


def _dividing(instructions: Iterable[Instruction], scales: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Return parameters that only say how something is divided, with values that divide by two at most."""
    found: dict[str, int] = {}
    others: set[str] = set()
    for i in instructions:
        for n, name in enumerate(i.operands[1:]):
            keys = scales.get(name, {})
            if i.base in {"shl", "shr"} and n == 1:
                found |= dict.fromkeys(keys, 0)
            elif i.base == "mul" and "hi" in i.parts and _unsigned_bits(i):
                found |= {key: max(found.get(key, 0), 1 << _unsigned_bits(i) - 1) for key in keys}
            elif not (i.base in COPIES or (i.base == "setp" and immediate(i.operands[2]) == 0)):
                others |= keys.keys()
        for operand in i.operands[1:]:
            if operand.startswith(("{", "[")):
                others.update(key for name in names_in(operand) for key in scales.get(name, ()))
    return {key: value for key, value in found.items() if key not in others and not key.startswith("[")}


def _unsigned_bits(i: Instruction) -> int:
    """Return the bits of what an instruction works on, if that is a whole number without a sign; else 0."""
    return int(i.parts[-1][1:]) if re.fullmatch(r"u(32|64)", i.parts[-1]) else 0


def _widths(instructions: Iterable[Instruction]) -> dict[str, int]:
    found: dict[str, int] = {}
    for i in instructions:
        if i.base == "ld" and units.space_of(i) == "param":
            keys = keys_of_load(i)
            found.update(dict.fromkeys(keys, 8 * width_of(i) // len(keys)))
    return found


def _sums(kernel: Kernel, found: Roles, bounds: Bounds) -> dict[str, dict[str, int]]:
    """Return what registers are sums of, as `_scales` does; note the loads of words that are such parameters too."""
    instructions = kernel.instructions
    flows, (loads, apart) = _flows(instructions), word_loads(instructions)
    sizes = {id(i): width_of(i) // len(vector(i.operands[0])) for i, _ in loads}
    scales = _scales(instructions, flows, {}, bounds)
    for _ in range(1 + _POINTERS):  # words may be pointers, or make others larger
        before, found.words = found.words, words_of(loads, instructions, scales)
        if found.words == before:
            break
        found.tables, places = tables_of(found.words, instructions, apart, sizes)
        found.names = names_of(instructions, found.words, found.tables, places, width_of)
        scales = _scales(instructions, flows, found.names, bounds)
    of_tables = {n: name for n, name in apart.items() if n in found.words}
    found.tables.lanewise = lanewise_of(kernel, of_tables, bounds)
    return scales


def _flows(instructions: list[Instruction]) -> dict[str, list[tuple[str, int]]]:
    """Return of each register those that are sums with it, and the power of two by which it is multiplied there."""
    found: dict[str, list[tuple[str, int]]] = {}
    for i in instructions:
        loads = i.base == "ld" and units.space_of(i) == "param"
        if not loads and i.operands and not i.operands[0].startswith(("{", "[")):
            for source, by in _factors(i):
                found.setdefault(source, []).append((i.operands[0], by))
    return found


def _scales(
    instructions: list[Instruction],
    flows: dict[str, list[tuple[str, int]]],
    names: Mapping[int, Sequence[str]],
    bounds: Bounds,
) -> dict[str, dict[str, int]]:
    """Return of each register the parameters of which it is a sum, with the power of two that each is multiplied by."""
    found: dict[str, dict[str, int]] = {}
    for i in instructions:
        if i.base == "ld" and units.space_of(i) == "param":
            for to, key in zip(results_of(i), keys_of_load(i), strict=True):
                found.setdefault(to, {})[key] = 1
        elif id(i) in names:
            for to, key in zip(vector(i.operands[0]), names[id(i)], strict=True):
                found.setdefault(to, {})[key] = 1
    work = list(found)
    while work:
        bounds.check()
        source = work.pop()
        for to, by in flows.get(source, ()):
            held = found.setdefault(to, {})
            for key, scale in [*found[source].items()]:
                new = min(scale * by, _GREATEST)
                if new < held.get(key, 2 * _GREATEST):
                    held[key] = new
                    work.append(to)
    return found


def _factors(i: Instruction) -> list[tuple[str, int]]:
    """Return what an instruction adds up, and the power of two by which it multiplies each."""
    sources = i.operands[1:]
    if i.base in _DIRECT:
        return [(one, 1) for one in (sources[:2] if i.base == "selp" else sources)]
    if i.base == "shl" and len(sources) == 2:
        by = immediate(sources[1])
        return [(sources[0], 1 << by)] if by is not None and 0 <= by < 32 else []
    if i.base in {"mul", "mad"} and "hi" not in i.parts:
        numbers = [immediate(one) for one in sources[:2]]
        found = [
            (one, number & -number if number else _GREATEST)
            for one, number in zip(sources[:2], numbers[::-1], strict=True)
            if number is not None
        ]
        if numbers == [None, None]:
            found = [(one, _GREATEST) for one in sources[:2]]  # by an unknown number: no sum any more
        return found + [(one, 1) for one in sources[2:]]
    return []


def _addresses(i: Instruction) -> list[str]:
    if i.base not in {
        "ld",
        "st",
        "atom",
        "red",
        "cp",
        "prefetch",
        "prefetchu",
        "tensormap",
        "applypriority",
        "discard",
    }:
        return []
    return [names_in(one)[0] for one in i.operands if one.startswith("[") and names_in(one)]


def maps_of(i: Instruction) -> list[str]:
    """Return registers that hold the address of a tensor map."""
    if i.base == "cp" and "tensor" in i.parts:
        return [names_in(one)[0] for one in i.operands if one.startswith("[") and "{" in one and names_in(one)]
    return [names_in(i.operands[0])[0]] if "tensormap" in i.parts and i.base == "prefetch" else []


def _multiples(i: Instruction) -> list[tuple[str, int]]:
    """Return registers that must hold multiples of something: shared addresses, and bytes of bulk copies."""
    found = []
    places = [(n, names_in(one)[0]) for n, one in enumerate(i.operands) if one.startswith("[") and names_in(one)]
    if i.base in {"bar", "barrier"} and i.parts[1:2] not in {("warp",), ("cluster",)}:
        found += [(name, WARP) for one in i.operands[1:2] for name in names_in(one)]
    elif i.base == "mbarrier":
        found += [(name, 8) for _, name in places]
        if "expect_tx" in i.parts and not i.operands[-1].startswith("["):
            found.append((i.operands[-1], 16))
    elif i.base == "cp" and "bulk" in i.parts and len(i.operands) > 1:
        tensor = "tensor" in i.parts
        loads = any(p.startswith("mbarrier") for p in i.parts)
        at = 0 if loads else 1
        found += [(name, 128 if tensor else 16) for n, name in places if n == at]
        found += [(name, 8) for n, name in places if loads and n == (2 if tensor else 3)]
        if not tensor:
            found.append((i.operands[2], 16))
    elif i.base in {"st", "ld"} and units.space_of(i) == "shared":
        found += [(name, min(16, width_of(i))) for _, name in places]
    elif i.base == "cp" and len(i.operands) > 2:
        found += [(name, immediate(i.operands[2]) or 16) for n, name in places if n == 0]
    elif i.base in {"ldmatrix", "stmatrix"}:
        found += [(name, 16) for _, name in places]
    return found

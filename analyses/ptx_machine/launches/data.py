"""Numbers that a launch finds in memory: loads by which all threads of a block read the same word.

A word that lies at a fixed distance from a pointer parameter is the same for all who read it, and so is as good as a
parameter of its own, called `[pointer]`: a scale, a length, the size of a group. Of the value n of such a parameter the
first word holds n, the second 2 n and so on, so that sizes and offsets that are kept in one table differ; `BY_TURNS`
stand for words that are 0 and 1 by turns, as where some of many tiles have what others have not. That nobody
changes these words while the kernel runs is taken for granted; what is read again and again until it changes, or in
the order of acquire, is left unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from legalsat.analyses.ptx.instruction import Instruction, names_in, results_of, vector
from legalsat.analyses.ptx_machine.alu import Value, even
from legalsat.analyses.ptx_machine.launches.records import APART, RECORDS, Tables, of_record

BY_TURNS = (-(1 << 60), 1 - (1 << 60))
_POINTER = 8  # bytes
CANCELLED = "%cancelled"  # how many clusters' work is taken over, see `ptx_machine.cancel`
UNDEFINED = "%undefined"  # what registers hold that are to take the place of such work, before there was any
_ORDERED = frozenset({"acquire", "volatile", "relaxed", "mmio"})
_OTHER = ("shared", "param", "const", "local")
_ONE_LANE = frozenset({"%tid.x", "%tid.y", "%tid.z", "%laneid", "%warpid"})
_BY_LANES = frozenset({"elect", "vote", "activemask", "match", "redux", "atom", "ldmatrix", "mbarrier"})


def word_loads(instructions: Sequence[Instruction]) -> tuple[list[tuple[Instruction, str]], dict[int, str]]:
    """Return loads of words in global memory, with the register that holds the address.

    Those, by identity, that not all threads of a block take from one address come again, with that register: words one
    by one, since what a vector brings to each thread is data.
    """
    found = [(i, (names_in(i.operands[1]) or ("",))[0]) for i in instructions if _loads(i)]
    differ = _differs(instructions) if found else set()
    listed = [(i, name) for i, name in found if name not in differ or not i.operands[0].startswith("{")]
    return listed, {id(i): name for i, name in listed if name in differ}


def words_of(
    loads: Sequence[tuple[Instruction, str]],
    instructions: Sequence[Instruction],
    scales: Mapping[str, Mapping[str, int]],
) -> dict[int, str]:
    """Return the loads of such words, by identity, with the parameter that points to them.

    Args:
        loads: that may be such, with the registers that hold the addresses.
        instructions: of the kernel.
        scales: of each register the parameters of which it is a sum, and by what they are multiplied.
    """
    found = {}
    written = {
        key
        for i in (instructions if loads else ())
        if i.base in {"st", "atom", "red"}
        for one in i.operands
        if one.startswith("[")
        for name in names_in(one)
        for key in scales.get(name, ())
    }
    for i, name in loads:
        pointers = [key for key, scale in scales.get(name, {}).items() if scale == 1]
        if len(pointers) == 1 and pointers[0] not in written:
            found[id(i)] = pointers[0]
    return found


def _loads(i: Instruction) -> bool:
    if i.base != "ld" or _ORDERED.intersection(i.parts) or len(names_in(i.operands[1])) != 1:
        return False
    return not any(part.startswith(_OTHER) for part in i.parts) and re.fullmatch(r"[usbf]\d+", i.parts[-1]) is not None


def _differs(instructions: Sequence[Instruction]) -> set[str]:
    """Return registers that may differ between the threads of a block."""
    readers: dict[str, list[str]] = {}
    found = set(_ONE_LANE)
    for i in instructions:
        results = results_of(i)
        if i.base in _BY_LANES:
            found.update(results[1:] if i.base == "elect" else results)  # all lanes see which is elected
        for name in {name for one in (*i.operands[1:], i.guard) for name in names_in(one)}:
            readers.setdefault(name, []).extend(results)
    work = list(found)
    while work:
        for to in readers.get(work.pop(), ()):
            if to not in found:
                found.add(to)
                work.append(to)
    return found


def word(program: Any, values: Mapping[str, int], pointer: str, address: Value, at: int, size: int) -> Value:  # noqa: PLR0917
    """Return the n-th word of `size` bytes from an address on; None where it is not known.

    Args:
        program: the kernel.
        values: of its parameters.
        pointer: the parameter from which the address is reached.
        address: of the first word; of each lane, where it is a table's.
        at: which one.
        size: in bytes.
    """
    tables, begin = program.roles.tables, program.pointer(pointer)
    if pointer in tables.records:
        return None if address is None or begin is None else _field(program, values, pointer, address + at * size, size)
    name = name_of(pointer)
    if not isinstance(address, int) or begin is None or name in program.roles.anywhere:
        return None
    index = (address - values.get(pointer, begin)) // size + at
    if program.is_pointer(name):
        held = values.get(name, program.pointer(name))
        return held + (index << 20) if held and size == _POINTER else held
    held = values.get(name, 1)
    if index:
        program.spread.add(name)
    return (held + index) & 1 if held in BY_TURNS else held * (index + 1) & ((1 << 8 * size) - 1)


def _field(program: Any, values: Mapping[str, int], pointer: str, address: Value, size: int) -> Value:
    """Return the words of a table at an address, or at one for each lane; None where that are several fields."""
    tables, roles = program.roles.tables, program.roles
    behind = address - values.get(pointer, program.pointer(pointer))
    if not isinstance(behind, int):
        behind = behind.astype(np.int64)
    record = tables.records[pointer] or size
    number = behind // record
    if pointer.startswith("["):  # each of a table's pointers points to records of its own
        number = (behind >> APART) + (behind & (1 << APART) - 1) // record
    offset = behind % record
    if not isinstance(offset, int):
        if (offset != offset[0]).any():
            return None
        offset = int(offset[0])
    name = tables.name(pointer, offset)
    if name in roles.anywhere:
        return None
    if program.is_pointer(name):
        held = values.get(name, program.pointer(name))
        return _wrapped(held + (number << APART), size) if held and size == _POINTER else held
    held = values.get(name, 1)
    program.spread.add(name)
    if held in BY_TURNS:
        return _wrapped((held & 1) + number & 1, size)
    pattern, whole = values.get(RECORDS, 0), name not in roles.floats
    return _wrapped(of_record(held, number, offset, pattern, counted=pointer in tables.counted, whole=whole), size)


def _wrapped(value: Any, size: int) -> Value:
    """Return numbers as words of so many bytes; one that all lanes agree on as one."""
    if isinstance(value, int):
        return value & ((1 << 8 * size) - 1)
    return even(value.astype(np.int64).view(np.uint64) & np.uint64((1 << 8 * size) - 1))


def name_of(pointer: str) -> str:
    """Return what the words at a pointer are called as a parameter."""
    return f"[{pointer}]"


def names_of(
    instructions: Sequence[Instruction], words: Mapping[int, str], tables: Tables, places: Mapping[int, int], width: Any
) -> dict[int, tuple[str, ...]]:
    """Return what the words are called that loads take, by identity, one a result; `width` says the bytes of a load."""
    found = {}
    for i in instructions:
        pointer = words.get(id(i))
        if pointer is not None:
            count = len(vector(i.operands[0]))
            each = width(i) // count
            listed = (tables.name(pointer, places.get(id(i), 0) + n * each) for n in range(count))
            found[id(i)] = tuple(listed) if pointer in tables.records else (name_of(pointer),) * count
    return found


def widths_of(instructions: Sequence[Instruction], names: Mapping[int, Sequence[str]], width: Any) -> dict[str, int]:
    """Return the bits of such words, by their names; `width` says the bytes of a load."""
    return {
        one: 8 * width(i) // len(listed) for i in instructions for listed in [names.get(id(i), ())] for one in listed
    }

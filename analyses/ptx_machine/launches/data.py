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

from legalsat.analyses.ptx.instruction import Instruction, names_in, results_of, vector
from legalsat.analyses.ptx_machine.alu import Value

BY_TURNS = (-(1 << 60), 1 - (1 << 60))
_POINTER = 8  # bytes
CANCELLED = "%cancelled"  # how many clusters' work is taken over, see `ptx_machine_cancel`
_ORDERED = frozenset({"acquire", "volatile", "relaxed", "mmio"})
_OTHER = ("shared", "param", "const", "local")
_ONE_LANE = frozenset({"%tid.x", "%tid.y", "%tid.z", "%laneid", "%warpid"})
_BY_LANES = frozenset({"elect", "vote", "activemask", "match", "redux", "atom", "ldmatrix", "mbarrier"})


def shared_loads(instructions: Sequence[Instruction]) -> list[tuple[Instruction, str]]:
    """Return loads of a word that all threads of a block take from one address, with the register that holds it."""
    listed = [(i, (names_in(i.operands[1]) or ("",))[0]) for i in instructions if _loads(i)]
    apart = _differs(instructions) if listed else set()
    return [(i, name) for i, name in listed if name not in apart]


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
        address: of the first word.
        at: which one.
        size: in bytes.
    """
    begin, name = program.pointer(pointer), name_of(pointer)
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


def name_of(pointer: str) -> str:
    """Return what the words at a pointer are called as a parameter."""
    return f"[{pointer}]"


def widths_of(instructions: Sequence[Instruction], words: Mapping[int, str], width: Any) -> dict[str, int]:
    """Return the bits of such words, by their names; `width` says the bytes of a load."""
    return {name_of(words[id(i)]): 8 * width(i) // len(vector(i.operands[0])) for i in instructions if id(i) in words}

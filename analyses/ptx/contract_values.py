"""Values that threads store: which of them follow from the thread and the parameters, and whether stores agree.

A store by several warps to one place is right where all store the same. Of values that come from memory or from
floating point that is taken for granted; whole numbers made from thread numbers are computed and compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.ptx.instruction import Instruction, names_in
from legalsat.analyses.ptx_machine.alu import Value, lanes_of, whole_type

_WHOLE = {"mov", "add", "sub", "mul", "mad", "and", "or", "xor", "not", "shl", "shr", "bfe", "bfi", "cvt", "selp"}
_COMPARED = {"setp"}
_MOST = 40  # instructions behind a value; what takes more is not looked at


def plain_numbers(
    stored: Sequence[str], instructions: Sequence[Instruction], definitions: Mapping[str, Sequence[int]]
) -> list[str]:
    """Return those registers whose values follow from thread numbers and parameters by a few whole-number steps.

    Args:
        stored: names of registers or constants.
        instructions: of the kernel.
        definitions: of each register, the instructions that write it.
    """
    return [name for name in stored if name.startswith("%") and _plain(name, instructions, definitions)]


def _plain(name: str, instructions: Sequence[Instruction], definitions: Mapping[str, Sequence[int]]) -> bool:
    seen: set[str] = set()
    work = [name]
    while work:
        one = work.pop()
        if one in seen:
            continue
        seen.add(one)
        if len(seen) > _MOST:
            return False
        for number in definitions.get(one, ()):
            i = instructions[number]
            parameter = i.base == "ld" and "param" in i.parts
            if not parameter and (i.base not in _WHOLE | _COMPARED or whole_type(i.parts) is None):
                return False
            if not parameter:
                work += [n for operand in (*i.operands[1:], i.guard) for n in names_in(operand)]
    return True


def agrees(known: NDArray[np.bool_], memory: NDArray[np.uint8], end: tuple[Any, int], value: Value, lanes: int) -> bool:
    """Does nothing that is known to lie in memory differ from what lanes store there?

    Args:
        known: of each byte of shared memory, whether its value is known.
        memory: the values.
        end: an address, or those of the lanes, and how many bytes each stores.
        value: what is stored.
        lanes: the mask of those that store.
    """
    chosen, stored = _stored(end, value, lanes)
    places = chosen[:, None] + np.arange(end[1])
    return not (known[places] & (memory[places] != stored)).any()


def lanes_agree(end: tuple[Any, int], value: Value, lanes: int) -> bool:
    """Do lanes that store to one place store the same?"""
    if isinstance(value, int):
        return True
    chosen, stored = _stored(end, value, lanes)
    _, first, group = np.unique(chosen, return_index=True, return_inverse=True)
    return bool((stored[first][group] == stored).all())


def _stored(end: tuple[Any, int], value: Value, lanes: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return each lane's address, and the bytes that it stores."""
    words = np.full(lanes.bit_count(), value, dtype=np.uint64) if isinstance(value, int) else value[lanes_of(lanes)]
    chosen = np.broadcast_to(np.asarray(end[0], dtype=np.int64), words.shape)
    return chosen, np.ascontiguousarray(words).view(np.uint8).reshape(-1, 8)[:, : end[1]]

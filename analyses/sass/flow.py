"""Which instruction of machine code may follow which: blocks and the edges between them.

Jumps name an offset or a label. A function that is called is entered and left again; what it does is judged by those
who use this module. BSSY and BSYNC bring the lanes of a warp together again and go on behind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from legalsat.analyses.sass.text import Instruction, Kernel

_LABEL = re.compile(r"`?\(?([\w.$]+)\)?$")
_HEX = re.compile(r"^-?0x[0-9a-fA-F]+$")
_RETURN_SOUGHT = 16  # instructions before a call in which the address to return to is put into a register


class Unknown(Exception):
    """Where an instruction leads is not known; the words say why."""

    def __init__(self, one: Instruction, reason: str) -> None:
        super().__init__(reason)
        self.instruction, self.reason = one, reason


@dataclass(slots=True)
class Block:
    """Instructions `start` to `end` - 1, and the blocks that may follow.

    Attributes:
        ends: whether the thread may end with its last instruction.
        calls: the first block of the function that its last instruction calls, -1 for none.
        returns: whether its last instruction returns.
    """

    start: int
    end: int
    follows: list[int] = field(default_factory=list)
    ends: bool = False
    calls: int = -1
    returns: bool = False


def blocks_of(kernel: Kernel) -> list[Block]:
    """Return the blocks of a function, the first of which begins it.

    Raises:
        Unknown: a jump leads to where the text does not say.
    """
    code = kernel.instructions
    edges = [_edges(kernel, place) for place in range(len(code))]
    leaders = {0}
    for place, (follows, called) in enumerate(edges):
        if follows != [place + 1] or called >= 0 or code[place].base in {"EXIT", "RET"}:
            leaders.update(follows, {place + 1})
            leaders.update({called} if called >= 0 else ())
    starts = sorted(one for one in leaders if one < len(code))
    number = {start: n for n, start in enumerate(starts)}
    found = []
    for n, start in enumerate(starts):
        end = starts[n + 1] if n + 1 < len(starts) else len(code)
        follows, called = edges[end - 1]
        last = code[end - 1]
        block = Block(start, end, [number[one] for one in follows if one < len(code)])
        block.ends = last.base in {"EXIT", "KILL"} and not last.never
        block.returns = last.base == "RET"
        block.calls = number[called] if called >= 0 else -1
        found.append(block)
    return found


def reached(blocks: list[Block], first: int = 0) -> set[int]:
    """Return the blocks that may run once the first one does; functions that are called are entered too."""
    seen: set[int] = set()
    open_ = [first]
    while open_:
        n = open_.pop()
        if n in seen:
            continue
        seen.add(n)
        open_ += blocks[n].follows + ([blocks[n].calls] if blocks[n].calls >= 0 else [])
    return seen


def _edges(kernel: Kernel, place: int) -> tuple[list[int], int]:
    """Return the places that may follow a place, and that of the function it calls, -1 for none."""
    one = kernel.instructions[place]
    beyond = [place + 1]
    if one.never:
        return beyond, -1
    stays = beyond if one.conditional else []
    if one.base == "CALL":
        if _returns_to(kernel, place) != _after(kernel, place):
            raise Unknown(one, f"{one} calls, and where it returns to is not seen")
        return beyond, _target(kernel, one, one.operands[-1])
    if one.base in {"EXIT", "KILL", "RET"}:
        follows = stays
    elif one.base in {"BRA", "JMP"}:
        # Besides the guard there may be a second predicate, or lanes that differ.
        sure = not one.conditional and len(one.operands) == 1
        follows = [*([] if sure else beyond), _target(kernel, one, one.operands[-1])]
    elif one.base in {"BRX", "BRXU", "JMX", "JMXU"}:
        if "BRANCH_TARGETS" not in one.comment:
            raise Unknown(one, f"{one} jumps to where only nvdisasm says, not this text")
        listed = one.comment.partition("BRANCH_TARGETS")[2].split(",")
        follows = [*stays, *(_target(kernel, one, name.strip()) for name in listed)]
    elif one.base == "WARPSYNC" and "COLLECTIVE" in one.parts:
        follows = [*beyond, _target(kernel, one, one.operands[-1])]
    else:
        follows = _after_meeting(kernel, one, place) if one.base == "BSYNC" else beyond
    return list(dict.fromkeys(follows)), -1


def _after(kernel: Kernel, place: int) -> int:
    """Return the offset of the instruction behind one, -1 at the end."""
    return kernel.instructions[place + 1].offset if place + 1 < len(kernel.instructions) else -1


def _returns_to(kernel: Kernel, place: int) -> int:
    """Return the offset behind a call if it is put into a register shortly before, -1 otherwise."""
    sought = _after(kernel, place)
    for one in kernel.instructions[max(place - _RETURN_SOUGHT, 0) : place]:
        if "MOV" in one.parts and one.operands and _HEX.match(one.operands[-1]) and int(one.operands[-1], 16) == sought:
            return sought
    return -1


def _after_meeting(kernel: Kernel, one: Instruction, place: int) -> list[int]:
    """Return where lanes go on that have met: behind, or where the BSSY of the same barrier says."""
    opened = kernel.meetings.get(one.operands[0], []) if one.operands else []
    named = [_target(kernel, other, other.operands[-1]) for other in opened]
    return [place + 1] if {place, place + 1} & set(named) else [place + 1, *named]


def _target(kernel: Kernel, one: Instruction, operand: str) -> int:
    if _HEX.match(operand):
        place = kernel.places.get(int(operand, 16))
    else:
        named = _LABEL.search(operand)
        place = kernel.labels.get(named[1]) if named else None
    if place is None or place >= len(kernel.instructions):
        raise Unknown(one, f"{one} leads out of the function")
    return place

"""Whether a way between two instructions of machine code can be taken, as far as the predicates of its jumps tell.

Facts are joined over all ways of the flow graph; some of them nobody takes, since two jumps ask the same predicate and
want it to differ. A way is followed from where asynchronous work begins, with the predicates that jumps have decided.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from legalsat.analyses.sass.flow import Block
from legalsat.analyses.sass.registers import MATRIX, matrix_of
from legalsat.analyses.sass.text import Instruction, Kernel

MOST_STATES = 4000  # beyond, a way is taken to exist
_OLDEST = 8
_PREDICATE = re.compile(r"!?(U?P\d)\b")
_WRITTEN_BEFORE = 3  # operands among which those stand that may be predicates written
Known = frozenset[tuple[str, bool]]


def can_be_taken(kernel: Kernel, blocks: list[Block], first: int, last: int, *, arrival: bool) -> bool:
    """Return whether some way leads from one place to another on which nothing ends what began at the first.

    Args:
        kernel: the function.
        blocks: its flow graph.
        first: the place of a matrix instruction, or of a write of a register; -1 for the start.
        last: the place to reach.
        arrival: whether WARPGROUP.ARRIVE ends it, rather than a wait for the group of the matrix instruction.
    """
    code = kernel.instructions
    home = next((n for n, block in enumerate(blocks) if block.start <= first < block.end), 0)
    begun = first >= 0 and not arrival and matrix_of(code[first]).commits
    states = [(home, first + 1, int(begun), _decided_before(kernel, blocks, home, first))]
    seen: set[tuple[int, int, Known]] = set()
    while states:
        n, place, age, known = states.pop()
        ended = False
        while place < blocks[n].end:
            one = code[place]
            if place == last:
                return True
            ended, age = _after(one, age, arrival=arrival)
            if ended:
                break
            known = _forgotten(one, known)
            place += 1
        if ended:
            continue
        for follower, then in _onwards(code, blocks, n, known):
            state = follower, age, then
            if state not in seen:
                seen.add(state)
                states.append((follower, blocks[follower].start, age, then))
        if len(seen) > MOST_STATES:
            return True
    return False


def _after(one: Instruction, age: int, *, arrival: bool) -> tuple[bool, int]:
    """Return whether an instruction ends what is followed, and how many groups were committed since it began."""
    if one.base == "WARPGROUP" and not one.conditional:
        if arrival:
            return "ARRIVE" in one.parts, age
        return "DEPBAR" in one.parts and age > int(one.operands[-1], 0), age
    if one.base in MATRIX and not arrival and matrix_of(one).commits:
        return False, min(age + 1, _OLDEST)
    return False, age


def _forgotten(one: Instruction, known: Known) -> Known:
    """Return what is still known of predicates behind an instruction, which may write some."""
    if not known or one.base in {"BRA", "EXIT"}:
        return known
    if "PR" in one.operands or "UPR" in one.operands:
        return frozenset()
    written = {found[1] for operand in one.operands[:_WRITTEN_BEFORE] if (found := _PREDICATE.match(operand))}
    return frozenset(pair for pair in known if pair[0] not in written)


def _onwards(code: list[Instruction], blocks: list[Block], n: int, known: Known) -> Iterator[tuple[int, Known]]:
    """Yield the blocks that may follow, with what is known there."""
    last = code[blocks[n].end - 1]
    if blocks[n].returns:
        yield from ((follower, known) for block in blocks if block.calls >= 0 for follower in block.follows)
    decides = last.conditional and (last.base == "EXIT" or (last.base == "BRA" and len(last.operands) == 1))
    for follower in blocks[n].follows + ([blocks[n].calls] if blocks[n].calls >= 0 else []):
        if not decides or len(blocks[n].follows) + (last.base == "EXIT") < 2:
            yield follower, known
            continue
        taken = last.base == "BRA" and blocks[follower].start != blocks[n].end
        value = taken != last.negated
        if (last.guard, not value) not in known:
            yield follower, known | {(last.guard, value)}


def _decided_before(kernel: Kernel, blocks: list[Block], home: int, first: int) -> Known:
    """Return what the jumps have decided without which nobody comes to a place: back as long as one way leads there."""
    code = kernel.instructions
    before: dict[int, list[int]] = {}
    for n, block in enumerate(blocks):
        for follower in block.follows:
            before.setdefault(follower, []).append(n)
    chain = [home]
    while len(before.get(chain[-1], [])) == 1 and before[chain[-1]][0] not in chain and chain[-1] != 0:
        chain.append(before[chain[-1]][0])
    known: Known = frozenset()
    for n, follower in zip(chain[:0:-1], chain[-2::-1], strict=True):
        for place in range(blocks[n].start, blocks[n].end):
            known = _forgotten(code[place], known)
        known = next((then for one, then in _onwards(code, blocks, n, known) if one == follower), known)
    for place in range(blocks[home].start, max(first + 1, blocks[home].start)):
        known = _forgotten(code[place], known)
    return known

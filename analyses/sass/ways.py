"""Whether a way between two instructions of machine code can be taken, as far as the predicates of its jumps tell.

Facts are joined over all ways of the flow graph; some of them nobody takes, since two jumps ask the same predicate and
want it to differ. A way is followed from where asynchronous work begins, by one lane, with what is known of predicates
there: what all ways to that place have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

from legalsat.analyses.sass.flow import Block
from legalsat.analyses.sass.predicates import Key, Predicates
from legalsat.analyses.sass.registers import MATRIX, matrix_of
from legalsat.analyses.sass.text import Instruction, Kernel

MOST_STATES = 4000  # beyond, a way is taken to exist
_OLDEST = 8
FOUND = -1
_Sees = Callable[[int, Instruction, int, Predicates], int | None]


class Ways:
    """Ways through a function, of which `blocks` are the flow graph."""

    def __init__(self, kernel: Kernel, blocks: list[Block]) -> None:
        self._code, self._blocks = kernel.instructions, blocks

    def can_be_taken(self, first: int, last: int, *, arrival: bool) -> bool:
        """Return whether some way leads from one place to another on which nothing ends what began at the first.

        Args:
            first: the place of a matrix instruction, or of a write of a register; -1 for the start.
            last: the place to reach.
            arrival: whether WARPGROUP.ARRIVE ends it, rather than a wait for the group of the matrix instruction.
        """

        def sees(place: int, one: Instruction, age: int, known: Predicates) -> int | None:
            if place == last:
                return age if known.truth(known.guard(one, place)) is False else FOUND
            if one.base == "WARPGROUP" and known.truth(known.guard(one, place)):
                over = "ARRIVE" in one.parts if arrival else "DEPBAR" in one.parts and age > int(one.operands[-1], 0)
                return None if over else age
            if one.base in MATRIX and not arrival and matrix_of(one).commits:
                return min(age + 1, _OLDEST)
            return age

        begun = first >= 0 and not arrival and matrix_of(self._code[first]).commits
        return self._follow(first, int(begun), sees) is not None

    def uncommitted(self, store: int, *, surely: bool) -> int | None:
        """Return where a bulk store is waited for, or the lane ends, before it belongs to a group; None for nowhere.

        `surely`: a commit of which nobody knows whether this lane runs it is one.
        """

        def sees(place: int, one: Instruction, age: int, known: Predicates) -> int | None:
            if one.base not in {"UTMACMDFLUSH", "EXIT", "DEPBAR"}:
                return age
            runs = known.truth(known.guard(one, place))
            if one.base != "UTMACMDFLUSH":
                return age if runs is False else FOUND
            return None if runs or (surely and runs is None) else age

        return self._follow(store, 0, sees)

    def _follow(self, first: int, age: int, sees: _Sees) -> int | None:
        """Return the first place that is found on a way from a place that its instruction's predicate lets run.

        `sees`: says how old what is followed is by then, None where the way ends, FOUND where the place is sought.
        """
        code, blocks = self._code, self._blocks
        home = next((n for n, block in enumerate(blocks) if block.start <= first < block.end), 0)
        if home not in self._entries:  # predicates never let a lane come here
            return None
        known = self._entries[home].copy()
        for place in range(blocks[home].start, first):
            known.after(code[place], place)
        if first >= 0:
            known.decide(known.guard(code[first], first), witness=True)
            known.after(code[first], first)
        states = [(home, max(first + 1, 0), age, known)]
        seen: set[tuple[int, int, Key]] = set()
        while states:
            n, begin, age, known = states.pop()
            for place in range(begin, blocks[n].end):
                one = code[place]
                then = age if one.never else sees(place, one, age, known)
                if then == FOUND:
                    return place
                if then is None:
                    break
                age = then
                known.after(one, place)
            else:
                for follower, onwards in self._onwards(n, known):
                    state = follower, age, onwards.key()
                    if state not in seen:
                        seen.add(state)
                        states.append((follower, blocks[follower].start, age, onwards))
            if len(seen) > MOST_STATES:
                return first
        return None

    @cached_property
    def _entries(self) -> dict[int, Predicates]:
        """What is known where each block begins, whatever way leads there."""
        found = {0: Predicates()}
        open_ = [0]
        while open_:
            n = open_.pop()
            known = found[n].copy()
            for place in range(self._blocks[n].start, self._blocks[n].end):
                known.after(self._code[place], place)
            for follower, then in self._onwards(n, known):
                if follower not in found:
                    found[follower] = then
                elif not found[follower].meet(then):
                    continue
                if follower not in open_:
                    open_.append(follower)
        return found

    def _onwards(self, n: int, known: Predicates) -> Iterator[tuple[int, Predicates]]:
        """Yield the blocks that may follow, with what is known there."""
        block = self._blocks[n]
        last = self._code[block.end - 1]
        if block.returns:
            yield from ((follower, known.copy()) for one in self._blocks if one.calls >= 0 for follower in one.follows)
        decides = last.conditional and (last.base == "EXIT" or (last.base == "BRA" and len(last.operands) == 1))
        decides &= len(block.follows) + (last.base == "EXIT") > 1
        for follower in block.follows + ([block.calls] if block.calls >= 0 else []):
            then = known.copy()
            if decides:
                taken = last.base == "BRA" and self._blocks[follower].start != block.end
                guard = then.guard(last, block.end - 1)
                if not (taken and "ANY" in last.parts):  # else another lane may have wished to jump
                    if then.truth(guard) is not taken and then.truth(guard) is not None:
                        continue
                    then.decide(guard, taken)
            yield follower, then

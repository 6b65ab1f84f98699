"""Local memory as registers: arrays of a thread that compilers keep there since they are indexed, or not optimised.

nvcc prints `ld.local.u32 %r1, [%rd2]` for the phase of a stage that `%rd2` chooses. Each word becomes a register; where
the address is no constant, one copy for each word that it may be, under a predicate that compares. What is not a word,
or whose address is kept in memory, stays as it is, and so unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from legalsat.analyses.ptx.instruction import Instruction, made, names_in, results_of, vector
from legalsat.analyses.ptx.parameters import address_of, places_of
from legalsat.analyses.ptx.text import Kernel

WORD = 4  # bytes
MOST_COPIES = 20_000  # that may take the place of a kernel's loads and stores
_BEGIN = 1 << 60  # of local memory, so that no other address is taken for one in it
CHOSEN = "%local@p"  # predicates that choose a word, as an address does: which one it is steers nothing by itself
_NEGATED = f"{CHOSEN}n"
_STORED = frozenset({"st", "atom", "red"})
_NUMBERS = frozenset({"setp", "ld", "st", "call"})  # that make no address of an address


def with_local_registers(kernel: Kernel) -> Kernel:
    """Return a kernel whose words in local memory are registers, if all of its local memory can be."""
    if not kernel.local:
        return kernel
    begins, at = dict[str, int](), _BEGIN
    for symbol in kernel.local:
        begins[symbol.name] = at = -(-at // max(symbol.alignment, WORD)) * max(symbol.alignment, WORD)
        at += -(-symbol.bytes // WORD) * WORD
    memory = _Memory(kernel, begins, at)
    if not memory.of_words():
        return kernel
    found = kernel.expanded(memory.copies, len(kernel.instructions) + MOST_COPIES)
    return found if found is kernel else replace(found, local=[])


@dataclass(frozen=True, slots=True)
class _Access:
    """A load or store: of which registers, how many bytes each, from which register's address on."""

    held: list[str]
    size: int
    base: str
    offset: int


class _Memory:
    """The local memory of a kernel: symbols from their addresses to an end."""

    def __init__(self, kernel: Kernel, begins: dict[str, int], end: int) -> None:
        self.code, self.begins, self.end = kernel.instructions, begins, end
        self.known = {name: begins[symbol] + n for name, (symbol, n) in places_of(self.code, begins.keys()).items()}
        self.pointers = _followed(self.code, set(begins))

    def of_words(self) -> bool:
        """Whether all that is kept there are words, and no address in it is kept anywhere."""
        for i in self.code:
            stored = (
                i.operands[1:] if i.base in _STORED and "param" not in i.parts else ()
            )  # calls are followed, or said
            if not self.pointers.isdisjoint(name for one in stored for name in names_in(one)):
                return False
            if self._local(i):
                access = self._access(i)
                if access is None or access.size not in {WORD, 2 * WORD} or access.base not in self.pointers:
                    return False
        return True

    def _local(self, i: Instruction) -> bool:
        """Does an instruction read or write local memory? Generic addresses may be in it too."""
        if i.base not in {"ld", "ldu", "st"}:
            return False
        spaces = {part.split("::")[0] for part in i.parts}
        if "local" in spaces:
            return True
        address = i.operands[0 if i.base == "st" else 1]
        return spaces.isdisjoint({"shared", "global", "param", "const"}) and not self.pointers.isdisjoint(
            names_in(address)
        )

    def _access(self, i: Instruction) -> _Access | None:
        address, held = i.operands[:2] if i.base == "st" else i.operands[1::-1]
        place = address_of(address)
        if place is None:
            return None
        bits = int("".join(c for c in i.parts[-1] if c.isdigit()) or 0)
        return _Access(vector(held), bits // 8, *place)

    def copies(self, i: Instruction) -> list[Instruction]:
        """Return what takes the place of an instruction."""
        if i.base == "mov" and i.operands[1] in self.begins:
            return [replace(i, operands=(i.operands[0], str(self.begins[i.operands[1]])))]
        access = self._access(i) if self._local(i) else None
        if access is None:
            return [i]
        begin = self.begins.get(access.base, self.known.get(access.base))
        found: list[Instruction] = []
        for n, register in enumerate(access.held):
            step = access.offset + n * access.size
            if begin is not None:
                found += self._copy(i, register, begin + step, access.size)
                continue
            for word in range(_BEGIN, self.end, access.size):
                found.append(made(i, ("setp", "eq", "u64"), (CHOSEN, access.base, str(word - step))))
                if i.negated:
                    found.append(made(i, ("not", "pred"), (_NEGATED, i.guard)))
                if i.guard:
                    guard = _NEGATED if i.negated else i.guard
                    found.append(made(i, ("and", "pred"), (CHOSEN, CHOSEN, guard)))
                copies = self._copy(i, register, word, access.size)
                found += [replace(one, guard=CHOSEN, negated=False) for one in copies]
        return found

    def _copy(self, i: Instruction, register: str, at: int, size: int) -> list[Instruction]:
        """Return what copies a register to the words at an address, or from them; nothing beyond all variables."""
        if not _BEGIN <= at <= self.end - size or at % WORD:
            return []
        words = [f"%local@{(at - _BEGIN) // WORD + n}" for n in range(size // WORD)]
        kept = words[0] if len(words) == 1 else "{" + ", ".join(words) + "}"
        name = ("mov", f"b{8 * size}")
        return [made(i, name, (kept, register) if i.base == "st" else (register, kept), guarded=True)]


def _followed(code: Sequence[Instruction], found: set[str]) -> set[str]:
    """Return registers that are computed from addresses, with the symbols that these begin with."""
    readers: dict[str, list[str]] = {}
    for i in code:
        for name in () if i.base in _NUMBERS else {*i.reads}:
            readers.setdefault(name, []).extend(results_of(i))
    work, seen = list(found), set(found)
    while work:
        for to in readers.get(work.pop(), ()):
            if to not in seen:
                seen.add(to)
                work.append(to)
    return seen

"""What terms of products mean, on whole numbers: matrices as they lie in memory, and C as it is stored.

Kernels read as the hardware does: boxes begin at whole granules, rows that do not are read from the granule before,
and what a matrix unit cannot read is an `Unreadable`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from legalsat.terms.trees import Part, Term

GRANULE = 16


class Unreadable(Exception):
    """A kernel asks for what the hardware does not do."""


@dataclass(frozen=True)
class Matrix:
    """Values (rows, k) in memory: lines along `major`, the first at `base`, `pitch` elements apart, others around.

    Elements of a line are `step` apart.
    """

    memory: np.ndarray
    base: int
    pitch: int
    major: str
    shape: tuple[int, int]
    size: int
    step: int = 1

    @property
    def granule(self) -> int:
        return GRANULE // self.size

    @property
    def whole(self) -> bool:
        lines = self.shape[0] if self.major == "K" else self.shape[1]
        begun = self.base % self.granule == 0 and (lines == 1 or self.pitch % self.granule == 0)
        return begun and self.step == 1

    @property
    def values(self) -> np.ndarray:
        rows, depth = (np.arange(extent) for extent in self.shape)
        along_k = self.major == "K"
        lines, inside = (rows[:, None], depth[None, :]) if along_k else (depth[None, :], rows[:, None])
        found: np.ndarray = self.memory[self.base + lines * self.pitch + inside * self.step]
        return found

    @property
    def aligned(self) -> np.ndarray:
        """Values, read by whole granules that hold the lines, each moved by where it starts in its first one."""
        if self.step != 1:
            raise Unreadable("granules hold other elements between those of a line")
        along_k = self.major == "K"
        count, length = self.shape if along_k else self.shape[::-1]
        found = np.zeros((count, length), self.memory.dtype)
        for line in range(count):
            start = self.base + line * self.pitch
            late = start % self.granule
            first, last = start - late, start + length
            read = np.zeros(-(-(last - first) // self.granule) * self.granule, self.memory.dtype)
            read[: last - first] = self.memory[first:last]  # maps end with the line: what is behind it is zero
            found[line] = read[late : late + length]
        return found if along_k else found.T

    def by_boxes(self, axes: int) -> np.ndarray:
        if not self.whole:
            raise Unreadable("no tensor map describes lines that begin within a granule")
        if self.major == "MN" and axes < 2:
            raise Unreadable("the matrix unit reads such tiles along k alone")
        return self.values


def laid(values: np.ndarray, major: str, size: int, *, whole: bool, step: int = 1, seed: int = 0) -> Matrix:
    """Return values in memory among other numbers, in whole granules or not, elements of a line `step` apart."""
    granule, r = GRANULE // size, np.random.default_rng(seed)
    lines, length = values.shape if major == "K" else values.T.shape
    pitch = -(-length * step // granule) * granule + (0 if whole else int(r.integers(1, granule)))
    base = granule * int(r.integers(1, 4)) + (0 if whole or (pitch % granule and lines > 1) else 1)
    memory = r.integers(-9, 10, base + lines * pitch + granule)
    found = Matrix(memory, base, pitch, major, (values.shape[0], values.shape[1]), size, step)
    at = base + np.arange(lines)[:, None] * pitch + np.arange(length)[None, :] * step
    memory[at] = values if major == "K" else values.T
    return found


@dataclass(frozen=True)
class Stored:
    """C in memory: its lines one after another, and whether they begin at whole granules; None where that is open.

    Where none of its elements lie side by side they are C's rows and its columns, the lesser ones first, since nothing
    says which of them are further apart.
    """

    lines: list[int]
    whole: bool | None

    def agrees(self, other: Stored) -> bool:
        return self.lines == other.lines and (None in (self.whole, other.whole) or self.whole == other.whole)


@dataclass(frozen=True)
class Meaning:
    """The operands' matrices, by name, along how many axes the unit reads tiles, and numbers that were left open."""

    operands: dict[str, Matrix]
    axes: int
    open_numbers: dict[str, int] = field(default_factory=lambda: {"ways": 1})

    def matrix(self, term: Part) -> Matrix:
        assert isinstance(term, Term)
        if term.name == "operand":
            return self.operands[str(term.parts[0])]
        if term.name == "wrap":  # of lines across k, whatever groups there are
            inner = self.matrix(term.parts[0])
            if inner.major == "K":
                raise Unreadable("lines of elements are no whole granules apart")
            return inner
        inner = self.matrix(term.parts[-1])
        if term.name == "granules":  # which say where members begin, and nothing of one
            return inner
        if term.name == "align":
            return laid(inner.aligned, inner.major, inner.size, whole=True)
        other = {"K": "MN", "MN": "K"}[inner.major]
        major = {"at": str(term.parts[0]), "pad": inner.major, "transpose": other, "uncut": "K"}[term.name]
        return laid(inner.values, major, inner.size, whole=True)

    def product(self, term: Part, part: int = 0, parts: int = 1) -> np.ndarray:
        """Return C, or what one of several parts of k adds to it."""
        assert isinstance(term, Term)
        if term.name == "flip":
            return self.product(term.parts[0], part, parts).T
        a, b = (self.matrix(one) for one in term.parts[-2:])
        if term.name == "product":
            return _summed(a.values, b.values, part, parts)
        if term.name == "clip" and "MN" in {a.major, b.major}:
            raise Unreadable("what others have of a row lies beside it along k alone")
        if term.name in {"multiply", "clip"}:  # of clipped tiles a group's own k, whatever others there are
            return _summed(a.by_boxes(self.axes), b.by_boxes(self.axes), part, parts)
        if term.name == "slide":
            return _slid(a.by_boxes(self.axes), b, a.major, part, parts)
        if term.name == "weave":  # element by element, wherever a line has it
            assert a.major == "MN"
            return _summed(a.aligned, b.by_boxes(self.axes), part, parts)
        assert term.name in ("shift", "realign")
        found = []
        for row in range(a.shape[0]):
            assert a.major == "K"
            start = a.base + row * a.pitch
            early = start % a.granule
            read, columns = a.memory[start - early : start + a.shape[1]], b.by_boxes(self.axes)
            if term.name == "realign":
                read = read[early:]
            elif b.major == "K" and early % b.granule:
                raise Unreadable("boxes of lines along k begin at whole granules")
            else:
                columns = np.hstack([np.zeros((b.shape[0], early), int), columns])
            found.append(_summed(read[None, :], columns, part, parts))
        return np.vstack(found)

    def stored(self, term: Part) -> Stored:
        assert isinstance(term, Term)
        *numbers, inner = term.parts
        if term.name in ("boxes", "windows", "rows", "lapped"):
            return Stored(self.product(inner).ravel().tolist(), None if term.name in ("rows", "lapped") else True)
        if term.name == "elements":
            return _apart(self.product(inner))
        if term.name in ("turned", "panes", "columns"):
            return Stored(self.product(inner).T.ravel().tolist(), None if term.name == "columns" else True)
        down, across = numbers[:2]
        assert isinstance(down, int) and isinstance(across, int)
        ways = self.open_numbers[str(numbers[2])] if term.name in ("joined", "sliced") else 1
        found = sum((self.product(inner, part, ways) for part in range(ways)), np.zeros((), int))
        if not (down or across):
            return _apart(found)
        if down and across:  # a single row or column, which lies either way
            return Stored(found.ravel().tolist(), None)
        return Stored((found if across else found.T).ravel().tolist(), max(down, across) >= 2)


def _apart(c: np.ndarray) -> Stored:
    rows, columns = sorted((c.ravel().tolist(), c.T.ravel().tolist()))
    return Stored([*rows, *columns], None)


def _slid(a: np.ndarray, b: Matrix, major: str, part: int, parts: int) -> np.ndarray:
    """Return C by lines of B from the granules in which they begin: those that begin alike are summed up together."""
    if major == "K" or b.major == "K":
        raise Unreadable("lines that are apart along k do not lie apart")
    n, depth = b.shape
    each = -(-depth // parts)
    found = np.zeros((a.shape[0], n), int)
    for early in range(b.granule):
        some = [
            k for k in range(part * each, min(depth, (part + 1) * each)) if (b.base + k * b.pitch) % b.granule == early
        ]
        starts = [b.base + k * b.pitch for k in some]
        read = np.array([b.memory[start - early : start + n] for start in starts], int).reshape(len(some), early + n)
        found += (a[:, some] @ read)[:, early:]
    return found


def _summed(a: np.ndarray, b: np.ndarray, part: int, parts: int) -> np.ndarray:
    assert a.shape[1] == b.shape[1]
    each = -(-a.shape[1] // parts)
    inside = slice(part * each, (part + 1) * each)
    found: np.ndarray = a[:, inside] @ b[:, inside].T
    return found

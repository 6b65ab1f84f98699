"""Operators of somebody else: no file but this one knows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from legalsat.law import Equations, Int, Law, law, mode, rewrite
from legalsat.operators import Move
from legalsat.operators.access import Access, Mode
from legalsat.options import Consumer
from legalsat.tensor import Tensor, plain
from legalsat.view.margins import Margin


@dataclass(frozen=True)
class EveryOther(Move):
    """Copy every `step`-th line along the first axis; a tile has as many of them as it says."""

    source: Tensor
    target: Tensor
    step: int = 2
    tile: tuple[int, ...] | None = None
    consumer: Consumer | None = None

    def _meaning(self, *operands: NDArray[Any]) -> NDArray[Any]:
        """Return numpy's slice."""
        return operands[0][:: self.step]

    def access(self, tile: tuple[int, ...] | None = None) -> Access:
        """Return a mode for each axis, the first with a longer stride in the source."""
        bits, shape = self.source.dtype.bits, plain(self.target.shape)
        columns = (shape, plain(self.source.strides), plain(self.target.strides), tile or shape)
        (n, s, d, t), *rest = zip(*columns, strict=True)
        rows = [(n, s * self.step, d, t), *rest]
        return Access(bits, tuple(Mode(n, s * bits, d * bits, t) for n, s, d, t in reversed(rows)))


def every_other(source: Tensor, step: int = 2, **more: Any) -> EveryOther:
    """Return the operator into dense memory."""
    lines, *rest = plain(source.shape)
    return EveryOther(source, Tensor((-(-lines // step), *rest), source.dtype), step, **more)


@dataclass(frozen=True)
class Blocked(Move):
    """Cut a matrix into blocks of so many columns, which follow each other: the shape stays, the axes do not."""

    source: Tensor
    target: Tensor
    columns: int

    def _meaning(self, *operands: NDArray[Any]) -> NDArray[Any]:
        """Return the blocks in the shape of the matrix."""
        m, n = operands[0].shape
        return operands[0].reshape(m, n // self.columns, self.columns).swapaxes(0, 1).reshape(m, n)

    def access(self, tile: tuple[int, ...] | None = None) -> Access:
        """Return columns of a block, rows and blocks, in dense memory."""
        (m, n), c, b = plain(self.source.shape), self.columns, self.source.dtype.bits
        modes = [(c, 1, 1), (n // c, c, m * c), (m, n, c)]
        return Access(b, tuple(Mode(extent, s * b, d * b, extent) for extent, s, d in modes))


@dataclass(frozen=True)
class Shifted(Move):
    """Move the lines of the first axis on by so many, zeros taking their place; the last ones are lost."""

    source: Tensor
    target: Tensor
    by: int

    def _meaning(self, *operands: NDArray[Any]) -> NDArray[Any]:
        """Return all but the last lines, behind zeros."""
        result = operands[0].copy()
        result[: self.by], result[self.by :] = 0, operands[0][: -self.by]
        return result

    @property
    def fills(self) -> bool:
        """With zeros."""
        return True

    def access(self, tile: tuple[int, ...] | None = None) -> Access:
        """Return a mode for each axis; the source counts from where its first line would be, so many in front."""
        bits, shape = self.source.dtype.bits, plain(self.source.shape)
        rows = zip(shape, plain(self.source.strides), plain(self.target.strides), strict=True)
        return Access(bits, tuple(Mode(n, s * bits, d * bits, n) for n, s, d in reversed(list(rows))))

    def margins(self, access: Access) -> tuple[Margin, ...] | None:
        """Return that lines but the first are the source's."""
        if [mode[:3] for mode in access.modes] != [mode[:3] for mode in self.access().modes]:
            return None
        lines, *rest = plain(self.source.shape)
        return (*(Margin(0, extent) for extent in reversed(rest)), Margin(self.by, lines - self.by))


@law
def halve_words(n: Int, s: Int, d: Int, t: Int) -> Equations:
    """[16] n:s->d/t  =  [8] 2:8->8/2, n:s->d/t"""
    yield rewrite(mode(n, s, d, t), words=(16, 8)).to(mode(2, 8, 8, 2), mode(n, s, d, t))


@dataclass(frozen=True)
class ByBytes(EveryOther):
    """One whose elements lie anywhere, which a law of its own lets travel as bytes."""

    def laws(self) -> tuple[Law, ...]:
        """Return those of movements, and one more."""
        return (*super().laws(), halve_words)


@dataclass
class Changing(Move):
    """One that may change after it was planned."""

    source: Tensor
    target: Tensor


@dataclass(frozen=True)
class Speechless(Move):
    """One that says nothing of itself."""

    source: Tensor
    target: Tensor

"""Runs texts of kernels that compute one tile a block: what this library printed until 2026-11-28 (`tests/data`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from ptx_formats import encode
from ptx_machine import Global, run

import legalsat as ls
from legalsat.tensor import plain

WORDS: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32}
UNTOUCHED = 0xA5


class Matrix:
    """A tensor in memory of its own."""

    def __init__(self, tensor: ls.Tensor, kind: str) -> None:
        (rows, columns), (down, across) = plain(tensor.shape), plain(tensor.strides)
        self.kind, bits = kind, tensor.dtype.bits
        self._at = np.arange(rows)[:, None] * down + np.arange(columns)[None, :] * across
        self.memory = np.full((int(self._at.max()) + 1) * bits // 8, UNTOUCHED, dtype=np.uint8)
        self._words = self.memory.view(WORDS[bits])

    def put(self, values: Any) -> None:
        self._words[self._at] = encode(values, self.kind)

    def raw(self) -> Any:
        return self._words[self._at]

    def gaps(self) -> Any:
        """Return the words that are no elements."""
        return np.delete(self._words, self._at.reshape(-1))


@dataclass(frozen=True)
class Printed:
    """What a text of one tile a block computes: C = A B^T of these tensors, of elements encoded so, and its launch."""

    matrices: tuple[ls.Tensor, ls.Tensor, ls.Tensor]
    kinds: tuple[str, str, str]
    tile: tuple[int, int, int]
    down: int  # tiles along m
    depth: int  # elements along k that it multiplies
    shared: int
    parameters: tuple[str, ...]
    maps: tuple[ls.TensorMap, ...]


def multiply(one: Printed, text: str, blocks: list[int], seed: int = 0) -> tuple[Any, Any, Any]:
    """Run some blocks; return C as it is, as it should be there, and which elements these blocks own."""
    rng = np.random.default_rng(seed)
    *sides, c = (Matrix(tensor, kind) for tensor, kind in zip(one.matrices, one.kinds, strict=True))
    values = [rng.integers(-2, 3, side.raw().shape).astype(float) for side in sides]
    for side, drawn in zip(sides, values, strict=True):
        side.put(drawn)
    memories = [*(side.memory for side in sides), c.memory]
    tensors = {
        name: Global(memory, tm) for name, memory, tm in zip(one.parameters, memories, (*one.maps, None), strict=False)
    }
    run(text, blocks, one.shared, tensors, seed)
    m, n, _ = one.tile
    expected = encode(values[0][:, : one.depth] @ values[1][:, : one.depth].T, one.kinds[2])
    owned = np.zeros(expected.shape, dtype=bool)
    for block in blocks:
        owned[block % one.down * m :, block // one.down * n :][:m, :n] = True
    assert np.all(c.gaps() == c.gaps().dtype.type(UNTOUCHED * (2 ** (8 * c.gaps().itemsize) - 1) // 255))
    bits = one.matrices[2].dtype.bits
    return c.raw(), np.where(owned, expected, UNTOUCHED * 0x01010101 & (2**bits - 1)), owned

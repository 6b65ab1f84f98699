"""Small random movements from a seed, the same on every machine: most have a plan, some are refused."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from legalsat.dtypes import dtype
from legalsat.operators import WGMMA_CONSUMERS, Copy, Move, Transpose
from legalsat.tensor import Tensor

DTYPES = ("u8", "u8", "bf16", "bf16", "bf16", "fp32", "fp32", "fp64", "i64", "e2m1", "e2m3")
WGMMA_DTYPES = ("bf16", "bf16", "u8", "fp32")
TARGETS = ("h200", "b200", "a100", "rtx5090", "mi300x")
EXTENTS = (1, 2, 3, 5, 7, 8, 16, 17, 32, 33, 64, 72, 128, 264, 272, 300, 320, 512)
SMALL_EXTENTS = (1, 2, 3, 4)
TILES = (1, 3, 4, 8, 16, 16, 32, 32, 64, 64, 128, 256, 300, 320, 512)
ALIGNMENTS = (256, 256, 256, 256, 16, 16, 4, 1)  # bytes of a result that is given
SMALL_TILES = (1, 1, 2, 2, 3, 4, 4, 8, 16)
MOST_ELEMENTS = 100_000
GRANULE_BITS = 128


@dataclass(frozen=True, slots=True)
class Problem:
    """What is asked: an operator on a target, by name."""

    operator: Move
    target: str

    @property
    def rank(self) -> int:
        """Axes of the tensor."""
        return self.operator.source.rank

    def __str__(self) -> str:
        consumer = f" for {self.operator.consumer}" if self.operator.consumer else ""
        ends = self.operator.source, self.operator.target
        memory = " to ".join(f"strides {end.strides} align {end.align}" for end in ends)
        return f"{self.operator}{consumer}, {memory}, tile {self.operator.tile}, on {self.target}"


def problem(random: Random) -> Problem:
    """Return a random copy or transpose on a random target."""
    rank = random.choice((1, 2, 2, 2, 3, 3, 4, 5, 6))
    consumer = random.choice((None, None, None, "threads", "threads", "threads", *WGMMA_CONSUMERS))
    if consumer in WGMMA_CONSUMERS and random.random() < 0.8:
        return _operand(random, rank, consumer)
    source = _source(random, rank, random.choice(DTYPES))
    tile = None if random.random() < 0.35 else _tile(random, source)
    if rank > 1 and consumer == "threads":
        axes = tuple(random.sample(range(rank), rank))
        turned = Transpose(source, axes, _result(random, source.transposed(axes)), tile=tile)
        return Problem(turned, random.choice(TARGETS))
    return Problem(Copy(source, _result(random, source), tile=tile, consumer=consumer), random.choice(TARGETS))


def _operand(random: Random, rank: int, consumer: str) -> Problem:
    """Return a problem that wgmma can mostly read: types, tiles and a chip that it takes."""
    source = _source(random, rank, random.choice(WGMMA_DTYPES))
    tile = (*(1,) * (rank - 2), random.choice((64, 64, 128)), random.choice((8, 16, 32, 64, 128)))[-rank:]
    target = "h200" if random.random() < 0.9 else random.choice(TARGETS)
    return Problem(Copy(source, _result(random, source), tile=tile, consumer=consumer), target)  # type: ignore[arg-type]


def _source(random: Random, rank: int, name: str) -> Tensor:
    shape = [random.choice(EXTENTS if rank < 4 else SMALL_EXTENTS) for _ in range(rank)]
    if rank >= 4 and random.random() < 0.5:
        shape[random.randrange(rank)] = random.choice(EXTENTS)
    while math.prod(shape) > MOST_ELEMENTS:
        shape = [-(-n // 2) for n in shape]
    element = dtype(name)
    strides = _strides(random, tuple(shape), element.bits)
    if random.random() < 0.1:
        strides[random.randrange(rank)] = 0
    align = random.choice((16, 16, 128, 256, 256, 256, 8))
    offset = random.randrange(8) * element.bits // 8 if random.random() < 0.1 else 0  # bytes, as of a slice
    return Tensor(shape, element, strides, align, offset % align)


def _strides(random: Random, shape: tuple[int, ...], bits: int) -> list[int]:
    """Return strides of axes in any order, dense or padded to granules, or by an element."""
    granule = math.lcm(GRANULE_BITS, bits) // bits
    axes = list(range(len(shape)))
    if random.random() < 0.4:
        random.shuffle(axes)
    dense = random.random() < 0.4
    found, step = [0] * len(shape), random.choice((1,) * 19 + (2,))
    for axis in reversed(axes):
        found[axis] = step
        step *= shape[axis]
        padding = "none" if dense else random.choice(("granule", "granule", "granule", "none", "odd"))
        if padding == "granule":
            step = -(-step // granule) * granule
        elif padding == "odd":
            step += 1
    return found


def _tile(random: Random, source: Tensor) -> tuple[int, ...]:
    """Return a tile, axis by axis: whole, or of a usual extent."""
    small = source.rank >= 4
    return tuple(
        int(n) if isinstance(n, int) and random.random() < 0.3 else random.choice(SMALL_TILES if small else TILES)
        for n in source.shape
    )


def _result(random: Random, like: Tensor) -> Tensor | None:
    """Return a layout of the result: the default, or one in which every element has memory of its own."""
    if random.random() < 0.5:
        return None
    shape = tuple(int(n) for n in like.shape if isinstance(n, int))
    return Tensor(shape, like.dtype, _strides(random, shape, like.dtype.bits), random.choice(ALIGNMENTS))

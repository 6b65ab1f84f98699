"""Random small movements for Hypothesis: most have a plan, some are refused."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from legalsat.operators import Copy, Move, Pad, Transpose
from legalsat.tensor import Tensor, plain

DTYPES = ("u8", "bf16", "fp32", "fp64", "i64", "e2m1", "e2m3")
EXTENTS = st.sampled_from((1, 2, 3, 5, 7, 8, 16, 17, 32, 33, 64))
TILES = st.sampled_from((1, 3, 4, 8, 16, 16, 32, 32, 64, 64))
# Elements at most, so that a plan can be executed byte by byte.
MOST_ELEMENTS = 40_000
GRANULE_BITS = 128


@st.composite
def strides(draw: st.DrawFn, shape: tuple[int, ...], bits: int, *, overlap: bool) -> tuple[int, ...]:
    """Draw strides: axes in any order, dense or padded; with `overlap` an axis may repeat (stride 0)."""
    granule = math.lcm(GRANULE_BITS, bits) // bits
    order = draw(st.just(range(len(shape))) | st.permutations(range(len(shape))))
    found, step = [0] * len(shape), 1
    for axis in reversed(order):
        found[axis] = step
        step *= shape[axis]
        padding = draw(st.sampled_from(("granule", "granule", "granule", "none", "odd")))
        if padding == "granule":
            step = -(-step // granule) * granule
        elif padding == "odd":
            step += 1
    if overlap and shape and draw(st.integers(0, 9)) == 0:
        found[draw(st.integers(0, len(shape) - 1))] = 0
    return tuple(found)


@st.composite
def tensors(draw: st.DrawFn, *, overlap: bool = True) -> Tensor:
    """Draw a small tensor of any element type, rank up to 7, dense or padded or permuted."""
    name = draw(st.sampled_from(DTYPES))
    rank = draw(st.sampled_from((1, 2, 2, 2, 3, 3, 4, 6, 7)))
    extents = EXTENTS if rank < 5 else st.integers(1, 4)
    shape = tuple(draw(st.lists(extents, min_size=rank, max_size=rank)))
    while math.prod(shape) > MOST_ELEMENTS:
        shape = tuple(-(-n // 2) for n in shape)
    dtype = Tensor((1,), name).dtype
    steps = draw(strides(shape, dtype.bits, overlap=overlap))
    return Tensor(shape, dtype, steps, draw(st.sampled_from((16, 16, 128, 256, 256, 256, 8))))


@st.composite
def operators(draw: st.DrawFn) -> Move:
    """Draw a copy or a transpose, with or without a tile and a target layout of its own."""
    source = draw(tensors())
    tile = draw(st.none() | st.tuples(*[TILES] * source.rank))
    if source.rank > 1 and draw(st.booleans()):
        order = tuple(draw(st.permutations(range(source.rank))))
        return Transpose(source, order, draw(targets(source.transposed(order))), tile=tile)
    consumer = draw(st.sampled_from((None, None, "threads", "wgmma.a")))
    return Copy(source, draw(targets(source)), tile=tile, consumer=consumer)  # type: ignore[arg-type]


@st.composite
def pads(draw: st.DrawFn) -> Pad:
    """Draw a padding of a small tensor, often into rows of whole granules, with a target layout of its own or not."""
    source = draw(tensors())
    granule = math.lcm(GRANULE_BITS, source.dtype.bits) // source.dtype.bits
    counts = st.sampled_from((0, 0, 0, 1, 2, 3, 5, granule))
    padding = [(draw(counts), draw(counts)) for _ in range(source.rank)]
    if draw(st.booleans()):
        front = draw(st.sampled_from((0, granule, 2 * granule)))
        padding[-1] = (front, -plain(source.shape)[-1] % granule + draw(st.sampled_from((0, granule))))
    known = source.dtype.kind != "float" or source.dtype.bits > 8
    value = draw(st.sampled_from((0, 0, 0, 1))) if known else 0
    result = Pad(source, padding, value)
    if math.prod(plain(result.target.shape)) > 2 * MOST_ELEMENTS:
        result = Pad(source, 0, value)
    return Pad(source, result.padding, value, draw(targets(result.target)))


@st.composite
def targets(draw: st.DrawFn, like: Tensor) -> Tensor | None:
    """Draw the layout of a result: the default, or one in which every element has memory of its own."""
    if draw(st.booleans()):
        return None
    steps = draw(strides(tuple(int(n) for n in like.shape if isinstance(n, int)), like.dtype.bits, overlap=False))
    return Tensor(like.shape, like.dtype, steps, draw(st.sampled_from((256, 256, 16, 4, 1))))

"""Products that the same kernels compute: how operands and C lie, and extents as far as they limit tiles and stages."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from legalsat.diagnostics import Diagnostic
from legalsat.dtypes import DType
from legalsat.extract.kernels.product_maps import ROW_BYTES, WRAPS, by_rows, is_scattered
from legalsat.extract.kernels.reads import axes_read
from legalsat.extract.moved.relayouts import uncounted
from legalsat.operators.gemm import Gemm, sums_of
from legalsat.operators.members import MOST_AXES, Members, Ragged
from legalsat.options import Major
from legalsat.rules import PRODUCT_RULES
from legalsat.targets import GRANULE_BYTES, Target
from legalsat.tensor import Tensor, plain
from legalsat.terms.trees import TermLaw
from legalsat.units.sites import ProductTypes

MOST_STAGES = 16
MOST_TURNS = 33  # where a phase of k may have each eighth: those of a tile that is stored meanwhile, and one more
NARROW = (8, 16, 24, 32, 48, 64, 96, 128)
MOST_SLICED_TILES, LEAST_SLICED_TURNS = 264, 16  # likewise; shorter slices lose more than they win
LEAST_SHARED_TURNS = 32  # k-tiles of tiles that stream-K cuts: what shorter ones spare, giving sums away takes
LEAST_GROUPS = 64  # that a text has room for; more come in powers of two
MOST_GRANULES = 2**31  # coordinates are signed (FACTS TM-27)
MOST_STEP = 2**40  # bytes: strides of maps are smaller
MOST_NARROW_TILES = 512  # of 128 x 128: what is larger has work for all without


@dataclass(frozen=True, slots=True)
class Side:
    """An operand's fast axis, "K" or "MN"; what divides bytes from line to line; whether a tensor map describes it.

    `whole` says whether members of a batch begin as many bytes behind whole granules as the first one does, and `even`
    whether these are multiples of `pitch` for all of them, so that some line begins with a granule. `scattered` says
    that no elements lie side by side: the axis is the one along which they are nearest, and there are no lines. What a
    kernel in front cannot do to it is `uncounted`.
    """

    major: Major
    pitch: int
    legal: bool
    whole: bool = True
    even: bool = True
    scattered: bool = False
    uncounted: tuple[str, ...] = ()

    @property
    def alike(self) -> int:
        """Rows after which starts lie alike."""
        return GRANULE_BYTES // self.pitch


@dataclass(frozen=True, slots=True)
class ProductClass:
    """Products that the same kernels compute: what decides which there are, without the extents themselves.

    Attributes:
        dtype, result: element types of the operands and of C. axes: along which the matrix unit reads tiles, K first.
        a, b: the operands, their pitches as the greatest divisor of a granule.
        down, across: how columns and rows of C lie: 0 apart, 1 side by side, 2 so that boxes may store them, 3 likewise
            in groups of rows, of which a box may hold two.
        m, n: the narrowest tile that spans an extent, or one more than the widest of them.
        turns: k-tiles, as far as they limit stages.
        much: whether there are so many tiles that accumulators, which no other tile overlaps, are not worth a thought.
        few: whether there are so few tiles, and so many k-tiles, that slices of k may be products of their own.
        laws: that say what else such a product equals.
        batch, groups, ragged: as of `ProductKernel`.
        by_rows: whether sums are multiplied by scales of their rows and columns.
        far: whether some granule of A or B has no number below 2^31, so that no coordinate names it; or a group along k
            may have more lines than a map that wraps.
        long: whether there are so many k-tiles that clusters may share those of a tile out.
    """

    dtype: DType
    result: DType
    axes: int
    a: Side
    b: Side
    down: int
    across: int
    m: int
    n: int
    turns: int
    much: bool
    few: bool
    laws: tuple[TermLaw, ...]
    batch: int = 0
    groups: int = 0
    ragged: Ragged = ""
    by_rows: bool = False
    far: bool = False
    long: bool = False


def types_of(gemm: Gemm) -> ProductTypes:
    """Return what rules of products as a whole look at."""
    return ProductTypes(gemm.dtype.name, sums_of(gemm.dtype).name, gemm.out_dtype.name, gemm.scaled)


def refusals_of(gemm: Gemm, target: Target) -> tuple[Diagnostic, ...]:
    """Return the rules by which no kernel on a target computes such a product, whatever its extents."""
    return _refusals_of(types_of(gemm), target)


@lru_cache
def _refusals_of(types: ProductTypes, target: Target) -> tuple[Diagnostic, ...]:
    return tuple(d for rule in PRODUCT_RULES for d in rule.check(types, target))


def class_of(gemm: Gemm, target: Target) -> ProductClass | None:
    """Return the class of a product.

    None where a matrix has elements at no multiple of their size, or where C's lie apart along both axes and along the
    three of a batch: kernels have room for three steps.
    """
    matrices, members = gemm.matrices, gemm.members
    if any(end.address % end.dtype.bytes for end in matrices.values()):
        return None
    a, b = (
        replace(side_of(matrices[name], members.of(name)), uncounted=tuple(uncounted(gemm.tensors[name], target)))
        for name in "AB"
    )
    down, across = _lines(gemm, swapped=True), _lines(gemm, swapped=False)
    if not (down or across) and len(members.batch) == MOST_AXES:
        return None
    k = -(-gemm.k // members.groups) if members.ragged == "k" else gemm.k  # of one of them, on the average
    turns, tiles = -(-k // (ROW_BYTES // gemm.dtype.bytes)), -(-gemm.m // 128) * -(-gemm.n // 128) * members.count
    groups = max(LEAST_GROUPS, 1 << (members.groups - 1).bit_length()) if members.ragged else 0
    return ProductClass(
        gemm.dtype,
        gemm.out_dtype,
        axes_read(gemm.dtype.name, target),
        a,
        b,
        down,
        across,
        _narrow(gemm.m),
        _narrow(gemm.n),
        min(turns, MOST_STAGES if a.legal and b.legal else MOST_TURNS),
        tiles > MOST_NARROW_TILES and min(gemm.m, gemm.n) > 256,
        tiles <= MOST_SLICED_TILES and turns >= LEAST_SLICED_TURNS and not members.extents,
        gemm.laws(),
        len(members.batch),
        groups,
        members.ragged,
        gemm.scaled == "rows",
        any(_granules(matrices[name], members, name) >= MOST_GRANULES for name in "AB")
        or (members.ragged == "k" and gemm.k > WRAPS),
        turns >= LEAST_SHARED_TURNS and not members.extents,
    )


def _granules(tensor: Tensor, members: Members, operand: str) -> int:
    """Return how many granules there are from where an operand's first member begins to where its last one ends."""
    shape, strides = plain(tensor.shape), plain(tensor.strides)
    apart = ((*members.extents, *shape), (*members.of(operand), *strides))
    last = sum((extent - 1) * step for extent, step in zip(*apart, strict=True))
    return (last + 1) * tensor.dtype.bytes // GRANULE_BYTES + 1


def _narrow(extent: int) -> int:
    return next((one for one in NARROW if one >= extent), NARROW[-1] + 1)


def _lines(gemm: Gemm, *, swapped: bool) -> int:
    """Return how rows of C lie, or of C^T: a store by boxes goes on to the end of its granule (M-13)."""
    c, members = gemm.matrices["C"], gemm.members
    size, strides = gemm.out_dtype.bytes, plain(c.strides)
    columns, (pitch, step) = (gemm.m, strides[::-1]) if swapped else (gemm.n, strides)
    if step != 1:
        return 0
    steps = (one * size for one in members.of("C"))
    numbers = columns * size, pitch * size, c.address, *steps
    whole = all(number % GRANULE_BYTES == 0 and number < MOST_STEP for number in numbers)
    return 1 + whole * (1 + (members.ragged == "m"))


def side_of(tensor: Tensor, steps: tuple[int, ...] = ()) -> Side:
    """Return what an operand (rows, k) is like.

    Args:
        tensor: the operand, of the first member of a batch.
        steps: elements from member to member.
    """
    (rows, depth), (across, along) = plain(tensor.shape), plain(tensor.strides)
    major: Major = "K" if by_rows(tensor) else "MN"
    if is_scattered(tensor):
        return Side(major, GRANULE_BYTES, legal=False, scattered=True)
    lines, pitch = (rows, across if rows > 1 else depth) if major == "K" else (depth, along)
    near = all(step * tensor.dtype.bytes < MOST_STEP for step in (pitch if lines > 1 else 0, *steps))
    pitch = math.gcd(pitch * tensor.dtype.bytes, GRANULE_BYTES)
    aligned = pitch == GRANULE_BYTES or lines == 1  # a single line may lie at any pitch
    whole = all(step * tensor.dtype.bytes % GRANULE_BYTES == 0 for step in steps)
    even = all(begin % pitch == 0 for begin in (tensor.address, *(step * tensor.dtype.bytes for step in steps)))
    return Side(major, pitch, aligned and near and whole and tensor.address % GRANULE_BYTES == 0, whole, even)

"""How C may be cut: the tiles, clusters and slices of k that are open to a form, and who computes a tile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from legalsat.extract.kernels.product_class import NARROW, ProductClass, Side
from legalsat.extract.kernels.product_forms import Form
from legalsat.plans.product_kernel import ISSUED_ROWS, LINES_ALIKE, THROUGH_REGISTERS, TURNED

SPLITS = (1, 2, 3, 4, 5, 6, 8)
SLICES = (2, 3, 4, 5, 6, 8, 10, 12, 16)


@dataclass(frozen=True, slots=True)
class Cut:
    """How C is cut, and who computes a tile; the fields are `ProductKernel`'s."""

    rows: int
    columns: int
    warpgroups: int = 2
    ping_pong: bool = False
    cluster: tuple[int, int] = (1, 1)
    split: int = 1
    slices: int = 1
    blocks: int = 1
    stream_k: bool = False

    @property
    def alone(self) -> bool:
        """Whether a CTA shares nothing."""
        return self.cluster == (1, 1)

    @property
    def numbers(self) -> tuple[int, ...]:
        """All of them, in the order of `Asked`."""
        return (
            self.rows,
            self.columns,
            self.warpgroups,
            int(self.ping_pong),
            *self.cluster,
            self.split,
            self.slices,
            self.blocks,
            int(self.stream_k),
        )


TEAMS = ((64, 1), (128, 2), (192, 3), (256, 2))  # rows of a tile, and the warpgroups that multiply them
CLUSTERS = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4))
PAIRS = CLUSTERS[:3]
WIDTHS = range(16, 257, 16)
BETWEEN = range(72, 257, 16)  # columns: of narrower tiles eight more are much, and of larger clusters
# Of any number of columns, since tiles that fill the last round of processors win, and shared by any cluster.
PLAIN_CUTS = (
    *(
        Cut(rows, columns, warpgroups, cluster=cluster)
        for (rows, warpgroups), columns, cluster in product(TEAMS, WIDTHS, CLUSTERS)
    ),
    *(
        Cut(rows, columns, warpgroups, cluster=cluster)
        for (rows, warpgroups), columns, cluster in product(TEAMS, BETWEEN, PAIRS)
    ),
    *(
        Cut(128, columns, ping_pong=True, cluster=cluster)
        for columns, cluster in product((*range(64, 193, 16), *range(72, 193, 16)), PAIRS)
    ),
)
WIDE_CUTS = (*(Cut(128, columns) for columns in WIDTHS[2:]), *(Cut(256, columns) for columns in (64, 96, 112, 128)))
# Of C^T through accumulators in shared memory; narrower ones lost to other kernels where they were predicted to win.
TURNED_CUTS = tuple(one for one in WIDE_CUTS if one.columns >= 96)
# Of groups of rows: clusters gained 1% at most, and lost up to 40% (`bench.gpu.members`).
GROUPED_CUTS = (
    *(Cut(rows, columns, warpgroups) for (rows, warpgroups), columns in product(TEAMS, range(32, 257, 32))),
    *(
        Cut(rows, columns, ping_pong=True)
        for rows, columns in (*product((64,), range(64, 257, 32)), *product((128,), range(64, 193, 32)))
    ),
)
# Of C^T, whose columns are rows of groups. Narrower tiles, and consumers that take turns, were first of no product, and
# took up to 1.7 times as long where few groups have most rows (43 kernels of 4 products, an H200).
TURNED_GROUPED_CUTS = tuple(
    Cut(rows, columns, warpgroups) for (rows, warpgroups), columns in product(TEAMS, range(160, 257, 32))
)


def _sliced(widths: Iterable[int]) -> tuple[Cut, ...]:
    """Return cuts into slices of k, of tiles of some columns."""
    return tuple(
        Cut(rows, columns, warpgroups, cluster=cluster, slices=slices)
        for (rows, warpgroups), columns, cluster, slices in product(
            TEAMS, widths, ((1, 1), (2, 1), (1, 2), (4, 1), (1, 4)), SLICES
        )
    )


SLICED_CUTS = _sliced(range(32, 257, 32))
# Of lines that are aligned in shared memory, which is what limits them: clusters of eight were no better.
ALIGNED_CUTS = tuple(one for one in PLAIN_CUTS if one.columns % 16 == 0 and one.cluster not in {(4, 2), (2, 4)})
# Of tiles that lap, whose lap narrower ones have too much of. It is computed twice: with more k-tiles that loses more
# than whole sectors gain.
LAPPED_CUTS = tuple(one for one in ALIGNED_CUTS if one.columns >= 128 and one.cluster in PAIRS)
# Narrower ones took longer, and so did those of one phase of rows.
HALF_CUTS = tuple(Cut(64, 256, ping_pong=True, cluster=cluster) for cluster in PAIRS[:2])
LAPPED_TURNS = 8
# Of sums that slide: accumulators have eight columns more.
SLID_CUTS = (
    *(
        Cut(rows, columns, warpgroups, cluster=cluster)
        for (rows, warpgroups), columns, cluster in product(TEAMS, (24, 40, 56, *BETWEEN), PAIRS)
    ),
    *(
        Cut(rows, columns, warpgroups, cluster=cluster)
        for (rows, warpgroups), columns, cluster in product(TEAMS, (56, 120, 184, 248), CLUSTERS[3:])
    ),
    *(Cut(128, columns, ping_pong=True, cluster=cluster) for columns, cluster in product(range(72, 185, 16), PAIRS)),
)
# Likewise in slices. Four blocks of 64 rows that share B took 1.18 times as long as predicted (10 kernels, an H200).
SLID_SLICED_CUTS = tuple(one for one in _sliced((56, 120, 184, 248)) if (one.rows, one.cluster) != (64, (4, 1)))
# Of C^T, whose rows no box stores, through accumulators.
SLID_TURNED_CUTS = tuple(
    Cut(rows, columns, cluster=(down, 1)) for rows, columns, down in product((128, 256), BETWEEN, (1, 2, 4))
)
# What shared memory pays for, the less the wider the tile; where C leaves as sums, alone.
REALIGNED_SUMS_CUTS = tuple(one for one in WIDE_CUTS if one.columns >= 192)
# Clusters of more gained no more than of two along each axis (117 kernels of 22 products, an H200).
REALIGNED_CUTS = tuple(
    Cut(rows, columns, warpgroups, cluster=cluster)
    for (rows, warpgroups), columns, cluster in product(TEAMS[1:3], (*WIDTHS[5:], *BETWEEN[2:]), CLUSTERS[:4])
    if cluster != (1, 1) or columns >= 192
)
# Likewise of lines that are woven, whose rows lie in C as in A. Consumers that take turns were never the fastest.
WOVEN_CUTS = tuple(
    Cut(rows, columns, warpgroups, cluster=cluster)
    for (rows, warpgroups), columns, cluster in product(TEAMS[1:], (*WIDTHS[3:], *BETWEEN[1:]), CLUSTERS[:4])
)
REALIGNED_SLICED_CUTS = tuple(
    one for one in SLICED_CUTS if one.rows in {128, 192} and one.columns >= 64 and one.cluster in PAIRS
)
# Of accumulators in tensor memory, whose instructions have 128 rows each. Clusters of eight are left out: only Hopper's
# costs speak for them, and the check of PTX does not decide their texts in its time.
TENSOR_CUTS = tuple(
    Cut(warpgroups * ISSUED_ROWS, columns, warpgroups, cluster=cluster)
    for warpgroups, columns, cluster in product((1, 2), WIDTHS, CLUSTERS[:6])
)
TENSOR_SLICED_CUTS = tuple(
    replace(one, slices=slices)
    for one, slices in product(TENSOR_CUTS, SLICES)
    if one.columns % 32 == 0 and one.cluster != (2, 2)
)
TENSOR_STORES = frozenset({"tma", "rows", "elements"})  # ways out of C of which each warp has parts of its own


@lru_cache
def _with_stream_k(cuts: tuple[Cut, ...]) -> tuple[Cut, ...]:
    """Return cuts, and behind them what stream-K makes of those whose tiles are large, as it has no need of others.

    Of small ones what is given away takes longer than it spares; consumers do not take turns, and clusters of more than
    two took longer (162 kernels of 27 products, an H200).
    """
    large = (
        one
        for one in cuts
        if one.rows > 64 and one.columns >= 128 and one.columns % 16 == 0 and one.cluster in PAIRS and not one.ping_pong
    )
    return (*cuts, *(replace(one, stream_k=True) for one in large))


def cuts_of(form: Form, one: ProductClass, unit: str = "wgmma") -> tuple[Cut, ...]:
    """Return the cuts that are open to a form on a matrix unit."""
    if unit == "tcgen05":
        return _tensor_cuts(form, one)
    wraps = one.ragged == "k" and not form.clipped
    if (any(form.aligned) and not _alignable(form, one)) or ((any(form.loose) or wraps) and one.far):
        return ()
    moved = realigned(form, one)
    if one.batch and form.splits:
        return ()
    if form.realign == "sums" and (not moved.even or moved.alike == 1):
        return ()  # sums slide by whole phases until the first column is a granule's
    if one.ragged == "m":
        return _cuts_of_groups(form)
    return _single_cuts(form, one)


def _tensor_cuts(form: Form, one: ProductClass) -> tuple[Cut, ...]:
    """Return the cuts of a form whose accumulators are in tensor memory."""
    mended = form.clipped or form.splits or form.realign != "none"
    if mended or form.store not in TENSOR_STORES or ((any(form.loose) or one.ragged == "k") and one.far):
        return ()
    if any(form.aligned) and not (_alignable(form, one) and _laid_as_wgmma_reads(form, one)):
        return ()
    if form.slices:
        return TENSOR_SLICED_CUTS if one.few else ()
    if one.ragged != "m":
        return TENSOR_CUTS
    return () if form.swapped or not _cuts_of_groups(form) else tuple(one for one in TENSOR_CUTS if one.alone)


def _laid_as_wgmma_reads(form: Form, one: ProductClass) -> bool:
    """Whether lines are aligned to where a swizzle of 16-byte atoms has them, as none has bytes across k."""
    across = [aligned and major == "MN" for aligned, major in zip(form.aligned, form.majors, strict=True)]
    return one.dtype.bytes == 2 or not any(across)


def _cuts_of_groups(form: Form) -> tuple[Cut, ...]:
    """Return the cuts of a form of groups of rows, which are columns of C^T.

    They begin anywhere, and a box along them begins at whole granules alone (TI-06): so they lie along k. Rows that are
    realigned in registers would each begin a tile in another phase.
    """
    if form.store in {"sums", "lapped"} or form.slices or form.majors[int(form.swapped)] != "K":
        return ()
    if form.swapped:
        return TURNED_GROUPED_CUTS if form.realign == "registers" and form.store in TURNED else ()
    return GROUPED_CUTS if form.realign == "none" else ()


def realigned(form: Form, one: ProductClass) -> Side:
    """Return the operand that a form realigns, if it realigns one."""
    return one.b if form.swapped == (form.realign != "sums") else one.a


def _alignable(form: Form, one: ProductClass) -> bool:
    """Whether lines of what a form aligns start alike often enough."""
    sides = (one.b, one.a) if form.swapped else (one.a, one.b)
    moved = [side for side, aligned in zip(sides, form.aligned, strict=True) if aligned]
    return one.ragged != "k" and all(side.alike <= LINES_ALIKE for side in moved)


def _single_cuts(form: Form, one: ProductClass) -> tuple[Cut, ...]:
    """Return the cuts of a form of a product whose rows are not grouped."""
    if form.slices:
        realigned_cuts = dict.fromkeys(THROUGH_REGISTERS, REALIGNED_SLICED_CUTS)
        cuts = {"sums": SLID_SLICED_CUTS, **realigned_cuts}.get(form.realign, SLICED_CUTS)
        return cuts if one.few else ()
    if form.store == "lapped":
        extent = one.m if form.swapped else one.n
        suits = one.result.bytes > 1 and one.turns <= LAPPED_TURNS and extent > NARROW[-1] and not one.ragged
        return (*LAPPED_CUTS, *(HALF_CUTS if form.realign == "none" else ())) if suits else ()
    if form.store != "sums":
        usual = ALIGNED_CUTS if any(form.aligned) else SLID_CUTS if form.realign == "sums" else PLAIN_CUTS
        found = {"registers": REALIGNED_CUTS, "woven": WOVEN_CUTS}.get(form.realign, usual)
        return _with_stream_k(found) if one.long and form.realign != "sums" and not any(form.aligned) else found
    return _cuts_by_sums(form, one)


def _cuts_by_sums(form: Form, one: ProductClass) -> tuple[Cut, ...]:
    """Return the cuts of a form whose C leaves through all accumulators of a tile."""
    if one.much:
        return ()
    if form.realign == "sums":
        return SLID_TURNED_CUTS
    narrow = _narrow_cuts(one.m if form.swapped else one.n, splits=form.splits)
    if form.splits or (one.down if form.swapped else one.across):
        return narrow
    # Where no box stores rows or columns of C, accumulators are the one way out for tiles of every shape.
    if form.realign == "none" and (one.across if form.swapped else one.down) == 2:
        return narrow
    wide = REALIGNED_SUMS_CUTS if form.realign in THROUGH_REGISTERS else TURNED_CUTS
    return (*narrow, *(cut for cut in wide if cut not in narrow))


@lru_cache
def _narrow_cuts(extent: int, *, splits: bool) -> tuple[Cut, ...]:
    fitting = min(extent, NARROW[-1])
    widths = {fitting, min(fitting, 64), *((96, 160, 192) if extent > NARROW[-1] else ())}
    ways = SPLITS[1:] if splits else SPLITS[:1]
    return tuple(
        Cut(rows, columns, warpgroups, split=split, blocks=blocks)
        for columns, (rows, warpgroups), split, blocks in product(sorted(widths), ((128, 2), (64, 1)), ways, (1, 2))
    )

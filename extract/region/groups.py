"""Groups whose ends the device alone knows: that every size is legal, and the proof of it.

A group is what lies from `begin` to `end`, of rows or along k. What a kernel does with it is a relation of them: which
row of C each box stores, or which k each k-tile multiplies. It is legal where that is all of the group's, each once,
and nothing of another group's; and where no coordinate is beyond what the copy engine takes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from legalsat.analyses.sets.groups import faults
from legalsat.checks import integer
from legalsat.errors import LegalSatError
from legalsat.extract.kernels.kernel_program import parts_across
from legalsat.extract.kernels.kernel_tiles import TileScheduler, window_of
from legalsat.extract.kernels.product_maps import STORE_ROWS, WRAPS, first_column, turned_box, turned_columns
from legalsat.extract.search.planner import ONE_AT_A_TIME
from legalsat.operators.gemm import Gemm
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel

MOST_COORDINATE = 2**31 - 1
FEW = 700  # rows, or k, of groups that are tried one by one


@dataclass(frozen=True, slots=True)
class GroupProof:
    """What checking the sizes of groups showed.

    Attributes:
        samples: groups that were tried, element by element.
        misjudged: those, by begin and end, that do not get what is theirs.
        unproven: what isl does not find so of all, in words.
    """

    samples: int
    misjudged: tuple[tuple[int, int], ...]
    unproven: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.misjudged and not self.unproven

    def __str__(self) -> str:
        if self.misjudged:
            begin, end = self.misjudged[0]
            return (
                f"{len(self.misjudged)} of {self.samples} groups do not get what is theirs: {begin} to {end} does not"
            )
        if self.unproven:
            return f"{self.samples} groups agree, but isl does not find of all that {self.unproven[0]}"
        return f"{self.samples} groups get what is theirs, each element once; isl finds the same of all"


@dataclass(frozen=True, slots=True)
class GroupRegion:
    """Which groups a plan is legal for: a `LegalRegion` whose dims are the begin and the end of any group.

    Attributes:
        set: of begin and end, in isl's notation. An end in front of a begin makes an empty group, one beyond the extent
            counts as that.
        sentence: the same in words.
        plan: what computes them.
    """

    set: str
    sentence: str
    plan: GemmPlan

    def holds(self, *, begin: int, end: int) -> bool:
        """Return whether a group from begin to end, in rows or k, is computed, and no other is touched.

        Raises:
            InvalidInput: begin or end is no whole number.
        """
        integer(begin, "begin", low=None, high=None)
        integer(end, "end", low=None, high=None)
        return True  # as the kernel reads them, they lie in the extent, in order

    def prove(self, samples: int = 200, seed: int = 0) -> GroupProof:
        """Check it: some groups element by element as the tile scheduler gives tiles out, and isl for all.

        Args:
            samples: how many groups to draw.
            seed: of the draw.
        """
        gemm, kernel = parts_of(self.plan)
        drawn, wrong = random.Random(seed), []
        for _ in range(samples):
            begin, end = _drawn(_extent(gemm), drawn)
            if Counter(theirs_of(gemm, kernel, begin, end)) != Counter(range(begin, end)):
                wrong.append((begin, end))
        return GroupProof(samples, tuple(wrong), tuple(unproven(gemm, kernel)))

    def __str__(self) -> str:
        return f"{self.plan.operator} on {self.plan.target}: {self.sentence}"

    def to_json(self) -> dict[str, Any]:
        """Return the region as plain values; the plan is left to `GemmPlan.to_json`."""
        return {"dims": ["begin", "end"], "set": self.set, "sentence": self.sentence}


def group_region(plan: GemmPlan) -> GroupRegion:
    """Return which groups a plan is legal for, every one.

    Raises:
        LegalSatError: isl does not find so, which no plan has shown yet.
    """
    gemm, kernel = parts_of(plan)
    if lacking := list(unproven(gemm, kernel)):
        raise LegalSatError(f"of {kernel} on {plan.target} it is not proven that {lacking[0]}; please report this")
    what = "rows" if gemm.members.ragged == "m" else "k"
    values = f"[begin, end] -> {{ : 0 <= begin <= end <= {_extent(gemm)} }}"
    return GroupRegion(
        values, f"every size of every group is legal, wherever in {_extent(gemm)} {what} it begins", plan
    )


def unproven(gemm: Gemm, kernel: ProductKernel) -> Iterator[str]:
    """Yield what isl does not find of a kernel for all groups, in words; nothing where every group is legal."""
    theirs, coordinates = rows_of(gemm, kernel) if gemm.members.ragged == "m" else depths_of(gemm, kernel)
    with ONE_AT_A_TIME:
        yield from list(faults(theirs, coordinates, _extent(gemm), MOST_COORDINATE))


def boxes_of(gemm: Gemm, kernel: ProductKernel) -> tuple[int, list[int]]:
    """Return the rows of C that a box has, and where in a tile boxes begin; the last may have some of the one before.

    Rows of C are columns of what is computed as C^T. Threads store rows one by one.
    """
    if kernel.cuts == "m":
        count = STORE_ROWS if kernel.by_boxes else 1
        return count, list(range(0, kernel.tile[0] // count * count, count))
    if not kernel.by_boxes:
        return 1, list(range(kernel.tile[1]))
    size = gemm.out_dtype.bytes
    (_, count), part = turned_box(kernel, size), turned_columns(kernel.tile[1], size)
    begins = (first_column(kernel, i, part) for i in range(parts_across(kernel, size)))
    return count, [begin + at for begin in begins for at in range(0, part, count)]


def rows_of(gemm: Gemm, kernel: ProductKernel) -> tuple[str, str]:
    """Return which rows of C tiles of a group of rows store, and the coordinates that boxes have, as relations."""
    axis = int(kernel.cuts == "n")
    rows, ctas = kernel.tile[axis], kernel.cluster[axis]
    # CTAs' tiles are as many as whole clusters cover the group with.
    tiles = (
        f"0 <= t and exists (n : t < {ctas} n and {rows * ctas} n >= e - b and {rows * ctas} n < e - b + {rows * ctas})"
    )
    if not kernel.by_boxes:  # threads store rows up to the end
        return (
            f"[b, e] -> {{ [t, i] -> [b + {rows} t + i] : 0 <= i < {rows} and b + {rows} t + i < e and {tiles} }}",
            f"[b, e] -> {{ [t] -> [b + {rows} t] : {tiles} }}",
        )
    count, begins = boxes_of(gemm, kernel)
    stored, coordinates = list[str](), list[str]()
    for at in begins:
        first = f"(b + {rows} t + {at})"
        whole, cut = f"e - {first} >= {count} and {tiles}", f"0 < e - {first} < {count} and {tiles}"
        stored += [
            f"[t, i] -> [{first} + i - {at}] : {at} <= i < {at + count} and {whole}",
            # The box lies in its window as much further as the group has fewer rows, so that others are behind that.
            f"[t, i] -> [e - {count} + ({count} - e + {first} + i - {at})] : {at} <= i < {at} + e - {first} and {cut}",
        ]
        coordinates += [
            f"[t, {at}] -> [{first}] : {tiles}; [t, {at}] -> [{first} + {count}] : {whole}",
            f"[t, {at}] -> [e] : {cut}; [t, {at}] -> [{count} - (e - {first})] : {cut}",
        ]
    return f"[b, e] -> {{ {'; '.join(stored)} }}", f"[b, e] -> {{ {'; '.join(coordinates)} }}"


def depths_of(gemm: Gemm, kernel: ProductKernel) -> tuple[str, str]:
    """Return which k the k-tiles of a group along k multiply, and the coordinates that boxes have, as relations."""
    depth, least = kernel.tile[2], kernel.fewest_k_tiles
    if not kernel.clipped:  # lines of a map that has WRAPS of them, the last of which is the group's
        count = f"0 <= j < {depth} and 0 <= t and ({depth} t < e - b or t < {least})"
        line = f"({WRAPS} - (e - b) + {depth} t + j)"
        return (
            f"[b, e] -> {{ [t, j] -> [b + {depth} t + j] : 0 <= {line} < {WRAPS} and {count} }}",
            f"[b, e] -> {{ [t] -> [{WRAPS} - (e - b) + {depth} t] : 0 <= t and {depth} t < e - b; [t] -> [e] }}",
        )
    first = f"({depth} * floor(b / {depth}))"
    k, own = f"({first} + {depth} t + j)", f"0 <= t and {depth} t < e - {first} and 0 <= j < {depth}"
    middle, last = f"0 < t and {depth} * (t + 1) < e - {first}", f"{depth} * (t + 1) >= e - {first}"
    kept = f"b <= {k} < e and {own}"  # of the first k-tile and of the last, which are cleared
    return (
        (
            f"[b, e] -> {{ [t, j] -> [{k}] : {kept} and t = 0; [t, j] -> [{k}] : {kept} and {last}; "
            f"[t, j] -> [{k}] : {middle} and {own} }}"
        ),
        (
            f"[b, e] -> {{ [t] -> [{first} + {depth} t] : 0 <= t and {depth} t < e - {first}; "
            f"[t] -> [{-(-_extent(gemm) // depth) * depth}] }}"
        ),
    )


def parts_of(plan: GemmPlan) -> tuple[Gemm, ProductKernel]:
    """Return a plan's product of groups and its kernel."""
    assert plan.operator.members.ragged and plan.kernel is not None
    return plan.operator, plan.kernel


def _extent(gemm: Gemm) -> int:
    return int(gemm.m if gemm.members.ragged == "m" else gemm.k)


def _drawn(extent: int, drawn: random.Random) -> tuple[int, int]:
    """Draw a group of few elements, anywhere."""
    size = min(extent, drawn.choice((0, 1, drawn.randrange(70), drawn.randrange(FEW))))
    begin = drawn.choice((0, extent - size, drawn.randint(0, extent - size)))
    return begin, begin + size


def theirs_of(gemm: Gemm, kernel: ProductKernel, begin: int, end: int) -> Iterator[int]:
    """Yield the rows that a group's tiles store, or the k that they multiply, by the tile scheduler itself."""
    along_m = gemm.members.ragged == "m"
    tiles_m, _ = kernel.clusters(gemm.m, gemm.n)
    extent, members = _extent(gemm), (2,)
    tiles_m = 1 if kernel.cuts == "n" else tiles_m
    scheduler = TileScheduler(
        kernel, gemm.k, gemm.dtype.bytes, tiles_m, 1, 1, 0, 16, 1, members, (False, False), extent, (begin, end)
    )
    if not along_m:
        yield from _multiplied(scheduler, begin, end)
        return
    first, along_n = scheduler.groups[1][1], kernel.cuts == "n"
    count, begins = boxes_of(gemm, kernel)
    for number in range(first, scheduler.groups[2][1]):
        for rank in range(kernel.cluster_blocks):
            tile, theirs = scheduler.tile(number, rank), set[int]()
            if scheduler.place(rank)[1 - along_n]:
                continue  # which has the same rows
            for row in (begin + (tile.n if along_n else tile.m) for begin in begins):
                if (window := window_of(tile, row, count)) is not None:
                    inside, place = window
                    theirs.update(range(place - count + inside, place))
            yield from theirs


def _multiplied(scheduler: TileScheduler, begin: int, end: int) -> Iterator[int]:
    kernel, depth = scheduler.kernel, scheduler.kernel.tile[2]
    tile = scheduler.tile(scheduler.tiles_m, 0)  # the first of the second group
    assert (tile.begin, tile.end) == (begin, end)
    for k_tile in range(tile.k_tiles):
        if kernel.clipped:
            k = scheduler.clipped_k(tile, k_tile)
            cleared = k_tile in {0, tile.k_tiles - 1}
            inside = range(max(k, begin), min(k + depth, end)) if cleared else range(k, min(k + depth, scheduler.rows))
            yield from inside
            continue
        _, line, *_ = next(scheduler.shares("A", tile, k_tile, 0)).coordinate
        yield from (end + at - WRAPS for at in range(line, line + depth) if 0 <= at < WRAPS)

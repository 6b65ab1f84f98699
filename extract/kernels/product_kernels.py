"""Kernels that compute a product on a matrix unit, cheapest first: forms by laws, times every number open in them.

An operand that no tensor map describes is mended in one of several ways, which cost a pass over it, bandwidth of
shared memory, or tiles that are not full. Every map of a kernel returned is legal by the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from heapq import heappop, heappush
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from legalsat.extract.cost.kernel_columns import KernelColumns, Numbers
from legalsat.extract.cost.kernel_cost import Products, kernel_times, least_times
from legalsat.extract.cost.matrices import LINE
from legalsat.extract.kernels.for_extents import for_any_extents, for_extents, is_for_some_extents, ordered
from legalsat.extract.kernels.product_class import ProductClass, class_of, refusals_of
from legalsat.extract.kernels.product_forms import Facts, Form, forms_of, steps_to
from legalsat.extract.kernels.product_maps import result_map, source_maps
from legalsat.extract.kernels.product_numbers import SLICE_TURNS, SLID_TURNS, Table, table_of
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_kernel import LINES_ALIKE, SUM_BYTES, ProductKernel
from legalsat.recent import Recent
from legalsat.rules import COPY_RULES
from legalsat.targets import MIB, Target
from legalsat.terms.trees import TermStep
from legalsat.units.sites import TmaCopy
from legalsat.units.tensor_map import TensorMap

MOST_SPLIT_TILES = 320  # blocks, with k split; more fill any GPU without
MOST_WORKSPACE = 64 * MIB  # of what slices of k give: memory that a call needs besides its arrays

Row: TypeAlias = tuple[float, int, Table, int]
"""Nanoseconds, the place among equals, and a row of a table."""

_LEGAL: Recent[bool] = Recent(8192)


def product_kernels(gemm: Gemm, target: Target, most: int | None = None) -> list[tuple[float, ProductKernel]]:
    """Return predicted nanoseconds and the kernel, cheapest first; none where no unit multiplies such operands.

    Args:
        gemm: the product.
        target: the GPU.
        most: how many to return; all when left out.
    """
    return list(islice(each_kernel(gemm, target), most))


def each_kernel(
    gemm: Gemm, target: Target, wanted: Callable[[ProductKernel], bool] = lambda kernel: True
) -> Iterator[tuple[float, ProductKernel]]:
    """Yield what `product_kernels` returns, if it is `wanted`, which is asked ahead of the maps' rules.

    Forms whose bound says that they come later are solved later.
    """
    one, products = multiplied(gemm, target), Products.of([gemm], target)
    if one is None:
        return
    waiting = sorted((float(least_times(products, passes, target)[0]), passes) for passes in passes_of(one))
    found: list[tuple[float, int, Table, int, Iterator[Row]]] = []  # a heap: of each table its next row, and the rest
    while waiting or found:
        if waiting and (not found or waiting[0][0] <= found[0][0]):
            rows = _rows(one, waiting.pop(0)[1], gemm, products, target)
        else:
            time, _, table, row, rows = heappop(found)
            kernel = table.kernel(row)
            if wanted(kernel) and _legal(gemm, kernel, target):
                yield time, for_extents(kernel, gemm)
        if (following := next(rows, None)) is not None:
            heappush(found, (*following, rows))


def _rows(
    one: ProductClass, passes: tuple[bool, bool], gemm: Gemm, products: Products, target: Target
) -> Iterator[Row]:
    """Yield the rows of a table that a product is open to, cheapest first: most of them nobody asks for."""
    table = table_with(one, passes, target)
    if table is None:
        return
    times = times_of(ordered(table.columns, [gemm]), products, target)[0]
    for row in _sorted(times, table.order):
        if times[row] == np.inf:
            return
        yield float(times[row]), int(table.order[row]), table, int(row)


def _sorted(times: NDArray[np.float64], order: Numbers) -> Iterator[int]:
    """Yield rows by times, then by order; the first one does not wait until all are sorted."""
    best = np.flatnonzero(times == times.min())
    yield int(best[np.argmin(order[best])])
    yield from map(int, np.lexsort((order, times))[1:])


def multiplied(gemm: Gemm, target: Target) -> ProductClass | None:
    """Return the class of a product; None where these kernels do not multiply such operands on a target."""
    return None if refusals_of(gemm, target) else class_of(gemm, target)


def best_kernel(gemm: Gemm, target: Target) -> ProductKernel | None:
    """Return the kernel that is predicted to be fastest, if there is one."""
    found = product_kernels(gemm, target, 1)
    return found[0][1] if found else None


def best_kernels(gemms: Sequence[Gemm], target: Target) -> list[tuple[float, ProductKernel] | None]:
    """Return what `product_kernels` lists first, with its time, for each of many products; None where it lists none.

    Products of one class are timed together, which takes about 20 us each.
    """
    found: list[tuple[float, ProductKernel] | None] = [None] * len(gemms)
    members: dict[tuple[ProductClass, bool], list[int]] = {}
    for place, gemm in enumerate(gemms):
        one = multiplied(gemm, target)
        if one is not None:
            members.setdefault((one, gemm.constant_b), []).append(place)
    for (one, _), places in members.items():
        for place, best in zip(places, _best_of(one, [gemms[place] for place in places], target), strict=True):
            found[place] = best
    return found


def _best_of(one: ProductClass, gemms: list[Gemm], target: Target) -> list[tuple[float, ProductKernel] | None]:
    """Return the first kernel of each product of a class."""
    found: list[tuple[float, int, ProductKernel] | None] = [None] * len(gemms)
    products = Products.of(gemms, target)
    bounds = {passes: least_times(products, passes, target) for passes in passes_of(one)}
    for passes in sorted(bounds, key=lambda passes: float(bounds[passes].sum())):
        table = table_with(one, passes, target)
        open_ = [i for i, best in enumerate(found) if best is None or bounds[passes][i] <= best[0]]
        if table is None or not open_:
            continue
        some = [gemms[i] for i in open_]
        for i, first in zip(open_, _first_rows(one, table, some, products.taken(open_), target), strict=True):
            best = found[i]
            if first is not None and (best is None or first[:2] < best[:2]):
                found[i] = first[0], first[1], for_extents(table.kernel(first[2]), gemms[i])
    return [None if best is None else (best[0], best[2]) for best in found]


def _first_rows(
    one: ProductClass, table: Table, gemms: list[Gemm], products: Products, target: Target
) -> list[tuple[float, int, int] | None]:
    """Return for each product of a class the time, the place among equals and the row of its first legal kernel."""
    order = np.argsort(table.order)  # so that the first of equals is the one that comes first
    times = times_of(ordered(table.columns, gemms), products, target)[:, order]
    while True:
        best = np.argmin(times, axis=1)
        # Maps of a class are legal or not together, so one product stands for all that take the kernel.
        illegal = {
            row
            for row, first in zip(*np.unique(best, return_index=True), strict=True)
            if times[first, row] < np.inf
            and not _legal_in(one, gemms[int(first)], table.kernel(int(order[row])), target)
        }
        if not illegal:
            break
        times[:, list(illegal)] = np.inf
    return [
        (float(row[kernel]), int(table.order[order[kernel]]), int(order[kernel])) if row[kernel] < np.inf else None
        for row, kernel in zip(times, best, strict=True)
    ]


def is_kernel(gemm: Gemm, kernel: ProductKernel, target: Target) -> bool:
    """Return whether a kernel is one of those that compute a product, all of its maps legal."""
    one = multiplied(gemm, target)
    form = None if one is None else form_of(one, kernel)
    if one is None or form is None or not is_for_some_extents(kernel):
        return False
    table, products, listed = table_with(one, form.passes, target), Products.of([gemm], target), for_any_extents(kernel)
    if table is None or not any(listed == table.kernel(row) for row in table.rows_like(kernel)):
        return False
    timed = times_of(KernelColumns.of((kernel,)), products, target)[0, 0] < np.inf
    return bool(timed) and _legal(gemm, kernel, target)


def form_of(one: ProductClass, kernel: ProductKernel) -> Form | None:
    """Return the form of one of a class's kernels; None if no law leads there."""
    names = ("swapped", "majors", "relayouts", "aligned", "loose", "realign", "store", "clipped")
    found = (
        form
        for form in forms_of(Facts.of(one), one.laws)
        if (form.splits, form.slices) == (kernel.split > 1, kernel.slices > 1)
        and all(getattr(form, name) == getattr(kernel, name) for name in names)
    )
    return next(found, None)


def derivation_of(gemm: Gemm, kernel: ProductKernel, target: Target) -> tuple[TermStep, ...]:
    """Return the laws that lead from a product to one of its kernels; none where it is no kernel of the product."""
    one = multiplied(gemm, target)
    form = None if one is None else form_of(one, kernel)
    return () if one is None or form is None else steps_to(form, Facts.of(one), one.laws)


def times_of(kernels: KernelColumns, products: Products, target: Target) -> NDArray[np.float64]:
    """Return predicted nanoseconds, a row for each product.

    Infinite where its tiles need no split of k, slices are short or take more memory than they may, or rows lack.

    Args:
        kernels: of one class.
        products: of that class.
        target: the GPU.
    """
    times = kernel_times(products, kernels, target)
    m, n = products.m[:, None], products.n[:, None]
    m, n = np.where(kernels.swapped, n, m), np.where(kernels.swapped, m, n)
    blocks = np.ceil(m / kernels.rows) * np.ceil(n / kernels.columns) * kernels.split
    crowded = (kernels.split > 1) & (blocks > MOST_SPLIT_TILES)
    turns = np.ceil(np.ceil(products.k[:, None] / np.maximum(1, kernels.slides)) / kernels.depth)
    short = turns < np.where(kernels.slides > 0, SLID_TURNS, SLICE_TURNS) * kernels.slices
    large = _workspace_bytes(kernels, m, n) > MOST_WORKSPACE
    # Each phase's map needs a row, and where lines are aligned, which may be those across k, a line.
    few = (kernels.aligned_a | kernels.aligned_b | kernels.woven) & (
        np.minimum(np.minimum(m, n), products.k[:, None]) < LINES_ALIKE
    )
    few |= products.k[:, None] < kernels.slides
    times[few | crowded | (kernels.slices > 1) & (short | large) | (m < kernels.phases)] = np.inf
    return times


def _workspace_bytes(kernels: KernelColumns, m: Numbers, n: Numbers) -> Numbers:
    """Return the bytes of what slices give, in whole lines of the cache: each has rows for whole clusters' tiles."""
    covered = kernels.tiles_down(m) * kernels.rows * kernels.down
    return np.asarray(kernels.slices * covered * np.ceil(n * SUM_BYTES / LINE) * LINE)


def passes_of(one: ProductClass) -> tuple[tuple[bool, bool], ...]:
    """Return which operands some form lays out anew first: neither, A, B, or both."""
    return tuple(sorted({form.passes for form in forms_of(Facts.of(one), one.laws)}))


@lru_cache(maxsize=64)  # some 280 KB each, made in 2 to 17 ms
def table_with(one: ProductClass, passes: tuple[bool, bool], target: Target) -> Table | None:
    """Return the kernels of a class whose forms lay these operands out anew, if products are large enough for them."""
    forms = enumerate(forms_of(Facts.of(one), one.laws))
    return table_of([(place, form) for place, form in forms if form.passes == passes], one, target)


def _legal_in(one: ProductClass, member: Gemm, kernel: ProductKernel, target: Target) -> bool:
    """Return whether a kernel's maps are legal for products of a class, of which `member` is one; not by extents."""
    key = (replace(one, m=0, n=0, turns=0, much=False, few=False, long=False), kernel, target)
    return _LEGAL.answer(key, lambda: _legal(member, kernel, target))


def _legal(gemm: Gemm, kernel: ProductKernel, target: Target) -> bool:
    maps = [one for found in source_maps(gemm, kernel) for one in found]
    maps += result_map(gemm, kernel) if kernel.by_boxes else []
    return all(_legal_map(one.map, target) for one in maps)


@lru_cache(maxsize=8192)
def _legal_map(one: TensorMap, target: Target) -> bool:
    """Return whether a map is legal; kernels of a product share most of theirs."""
    site = TmaCopy.of(one)
    return not any(d.level == "error" for rule in COPY_RULES for d in rule.check(site, target))

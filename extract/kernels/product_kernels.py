"""Kernels that compute a product on wgmma, cheapest first: what can be done about each operand, times every tile.

An operand that no tensor map describes is mended in one of several ways, which cost a pass over it, bandwidth of
shared memory, or tiles that are not full. Every map of a kernel returned is legal by the rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, product

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.matrix_layout import matrix_operand, tile_layout
from legalsat.dtypes import DType
from legalsat.extract.cost.kernel_cost import Products, kernel_times
from legalsat.extract.kernels.product_maps import ROW_BYTES, STORE_ROWS, by_rows, result_map, source_maps
from legalsat.gemm import Gemm
from legalsat.logic import round_up
from legalsat.options import Major
from legalsat.product_kernel import WIDE_BOX, ProductKernel
from legalsat.recent import Recent
from legalsat.rules import COPY_RULES
from legalsat.targets import GRANULE_BYTES, KIB, Target
from legalsat.tensor import Tensor, plain
from legalsat.units.matrix_descriptor import MatrixOperand
from legalsat.units.sites import TmaCopy

BLOCK_ROWS = 64  # of one instruction
WARPGROUP, WARPS = 128, 4
SYSTEM_BYTES = KIB  # of shared memory that the system keeps for each block (FACTS HW-01)
MOST_STAGES = 14
MOST_REGISTERS = 232  # a thread, beside a warpgroup that loads with 40
OTHER_REGISTERS = {"none": 60, "tiles": 60, "registers": 90}  # a thread besides sums
KEPT_REGISTERS = 36  # a thread besides sums and what is kept of the tile before
DEFERRED_STAGES = 4
TYPES = ("bf16", "fp16", "e4m3", "e5m2", "fp32")
RESULTS = ("bf16", "fp16", "fp32")
GROUP = 8
NARROW = (8, 16, 24, 32, 48, 64, 96, 128)
SPLITS = (1, 2, 3, 4, 5, 6, 8)
MOST_SPLIT_TILES = 320  # blocks, with k split; more fill any GPU without
MOST_NARROW_TILES = 512  # of 128 x 128: what is larger has work for all without


_LEGAL: Recent[bool] = Recent(8192)


@dataclass(frozen=True, slots=True)
class Side:
    """An operand's fast axis, "K" or "MN"; what divides bytes from line to line; whether a tensor map describes it."""

    major: Major
    pitch: int
    legal: bool


@dataclass(frozen=True, slots=True)
class Way:
    """What is done so that both operands can be loaded and multiplied; the fields are `ProductKernel`'s."""

    majors: tuple[Major, Major]
    relayouts: tuple[str, str]
    realign: str = "none"
    phases: int = 1


@dataclass(frozen=True, slots=True)
class Cut:
    """How C is cut, and who computes a tile; the fields are `ProductKernel`'s."""

    rows: int
    columns: int
    warpgroups: int = 2
    alternate: bool = False
    cluster: tuple[int, int] = (1, 1)
    split: int = 1
    blocks: int = 1
    narrow: bool = False

    @property
    def sums(self) -> int:
        """Registers a thread that hold sums."""
        return self.rows * self.columns // (WARPGROUP * (1 if self.alternate else self.warpgroups))


# Any number of columns, since tiles that fill the last round of processors win.
PLAIN_CUTS = (
    *(Cut(128, columns) for columns in range(48, 257, 16)),
    *(Cut(128, columns, alternate=True) for columns in (64, 96, 112, 128)),
    *(Cut(64, columns, alternate=True) for columns in (64, 96, 128, 160, 192, 224, 256)),
    *(Cut(256, columns) for columns in (64, 96, 112, 128)),
)
SHARED_CUTS = tuple(  # tiles that are worth a cluster, as measured
    Cut(128, columns, alternate=columns == 128, cluster=cluster)
    for columns, cluster in product((256, 128), ((2, 1), (1, 2)))
)


@dataclass(frozen=True, slots=True)
class ProductClass:
    """Products that the same kernels compute: what decides which there are, without the extents themselves.

    Attributes:
        dtype, result: element types of the operands and of C.
        a, b: the operands, their pitches as the greatest divisor of a granule.
        lines: whether C's neighbours in memory lie in a row of a tile, of C and of C^T.
        by_map: whether boxes may store C, and C^T.
        m, n: extents up to the widest narrow tile.
        turns: along k, as far as they limit stages.
        much: whether narrow tiles are not worth a thought.
    """

    dtype: DType
    result: DType
    a: Side | None
    b: Side | None
    lines: tuple[bool, bool]
    by_map: tuple[bool, bool]
    m: int
    n: int
    turns: int
    much: bool


def class_of(gemm: Gemm) -> ProductClass:
    """Return the class of a product."""
    strides = plain(gemm.c.strides)
    return ProductClass(
        gemm.dtype,
        gemm.out_dtype,
        side_of(gemm.a),
        side_of(gemm.b),
        (strides[1] == 1, strides[0] == 1),
        (_by_map(gemm, swapped=False), _by_map(gemm, swapped=True)),
        _narrow(gemm.m),
        _narrow(gemm.n),
        min(-(-gemm.k // (ROW_BYTES // gemm.dtype.bytes)), MOST_STAGES),
        -(-gemm.m // 128) * -(-gemm.n // 128) > MOST_NARROW_TILES and min(gemm.m, gemm.n) > 256,
    )


def _narrow(extent: int) -> int:
    """Return the narrowest tile that spans an extent, or one more than the widest of them."""
    return next((one for one in NARROW if one >= extent), NARROW[-1] + 1)


def product_kernels(gemm: Gemm, target: Target, most: int | None = None) -> list[tuple[float, ProductKernel]]:
    """Return predicted nanoseconds and the kernel, cheapest first; none where wgmma cannot multiply such operands.

    Args:
        gemm: the product.
        target: a GPU with wgmma.
        most: how many to return; all when left out.
    """
    return list(islice(each_kernel(gemm, target), most))


def each_kernel(gemm: Gemm, target: Target) -> Iterator[tuple[float, ProductKernel]]:
    """Yield what `product_kernels` returns."""
    kernels = kernels_of(class_of(gemm), target) if _multiplied(gemm, target) else ()
    if kernels:
        times = times_of(kernels, Products.like(gemm, gemm.m, gemm.n, gemm.k), target)[0]
        for one in np.argsort(times, kind="stable").tolist():
            if times[one] < np.inf and _legal(gemm, kernels[one], target):
                yield float(times[one]), kernels[one]


def _multiplied(gemm: Gemm, target: Target) -> bool:
    """Return whether these kernels multiply a product's types on a target."""
    return target.wgmma is not None and gemm.dtype.name in TYPES and gemm.out_dtype.name in RESULTS


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
        if _multiplied(gemm, target):
            members.setdefault((class_of(gemm), gemm.constant_b), []).append(place)
    for (one, _), places in members.items():
        kernels = kernels_of(one, target)
        extents = ([getattr(gemms[place], axis) for place in places] for axis in "mnk")
        times = times_of(kernels, Products.like(gemms[places[0]], *extents), target) if kernels else np.empty((0, 0))
        while times.size:
            best = np.argmin(times, axis=1)
            # Maps of a class are legal or not together, so one product stands for all that take the kernel.
            illegal = {
                kernel
                for kernel, first in zip(*np.unique(best, return_index=True), strict=True)
                if times[first, kernel] < np.inf and not _legal_in(one, gemms[places[first]], kernels[kernel], target)
            }
            if not illegal:
                break
            times[:, list(illegal)] = np.inf
        for place, row in zip(places, times, strict=False):
            kernel = int(np.argmin(row))
            if row[kernel] < np.inf:
                found[place] = (float(row[kernel]), kernels[kernel])
    return found


def is_kernel(gemm: Gemm, kernel: ProductKernel, target: Target) -> bool:
    """Return whether a kernel is one of those that compute a product, all of its maps legal."""
    listed = _multiplied(gemm, target) and kernel in kernels_of(class_of(gemm), target)
    extents = Products.like(gemm, gemm.m, gemm.n, gemm.k)
    return listed and bool(times_of((kernel,), extents, target)[0, 0] < np.inf) and _legal(gemm, kernel, target)


def times_of(kernels: tuple[ProductKernel, ...], products: Products, target: Target) -> NDArray[np.float64]:
    """Return predicted nanoseconds, a row for each product; infinite where its tiles need no split of k, or rows lack.

    Args:
        kernels: some that `kernels_of` lists.
        products: of their class.
        target: the GPU.
    """
    times = kernel_times(products, kernels, target)
    rows, columns = (np.array([one.tile[axis] for one in kernels]) for axis in range(2))
    split, swapped = (np.array([getattr(one, name) for one in kernels]) for name in ("split", "swapped"))
    phases = np.array([one.phases if one.realign == "tiles" else 1 for one in kernels])
    m, n = products.m[:, None], products.n[:, None]
    m, n = np.where(swapped, n, m), np.where(swapped, m, n)
    crowded = (split > 1) & (np.ceil(m / rows) * np.ceil(n / columns) * split > MOST_SPLIT_TILES)
    times[crowded | (m < phases)] = np.inf  # each phase's map needs a row
    return times


def side_of(tensor: Tensor) -> Side | None:
    """Return what an operand (rows, k) is like; None where neither axis is contiguous."""
    (rows, depth), (across, along) = plain(tensor.shape), plain(tensor.strides)
    major: Major
    if by_rows(tensor):
        major, lines, pitch = "K", rows, across if rows > 1 else depth
    elif across == 1 or rows == 1:
        major, lines, pitch = "MN", depth, along
    else:
        return None
    pitch = math.gcd(pitch * tensor.dtype.bytes, GRANULE_BYTES)
    aligned = pitch == GRANULE_BYTES or lines == 1  # a single line may lie at any pitch
    return Side(major, pitch, aligned and tensor.address % GRANULE_BYTES == 0)


@lru_cache(maxsize=256)
def kernels_of(products: ProductClass, target: Target) -> tuple[ProductKernel, ...]:
    """Return the kernels that compute products of a class, if they are large enough for them."""
    if not any(products.lines) or products.a is None or products.b is None:
        return ()
    return (
        *_either_way(replace(products, m=0), target, swapped=False),
        *_either_way(replace(products, n=0), target, swapped=True),
    )


@lru_cache(maxsize=256)
def _either_way(products: ProductClass, target: Target, *, swapped: bool) -> tuple[ProductKernel, ...]:
    """Return the kernels that compute C, or C^T if swapped; what is 0 of the class does not matter to them."""
    a, b = (products.b, products.a) if swapped else (products.a, products.b)
    assert a is not None and b is not None
    found = (
        _filled(products, way, cut, target, swapped=swapped)
        for way in _ways(a, b, products.dtype.bytes)
        for cut in _cuts(products, way, swapped=swapped)
    )
    return tuple(kernel for kernel in found if kernel is not None)


def _ways(a: Side, b: Side, size: int) -> Iterator[Way]:
    """Yield what can be done about two operands, of which the first may be realigned in the kernel."""
    for first, second in product(_layouts(a, size), _layouts(b, size)):
        majors, relayouts = (first[1], second[1]), (first[0], second[0])
        if (second[0] == "none" and not b.legal) or (a.legal and first[0] != "none" and size == 2):
            continue
        realigned = first[0] == "none" and not a.legal
        if b.legal and second[0] == "transpose" and size == 2 and not realigned:
            continue
        if not realigned:
            yield Way(majors, relayouts)
        elif a.major == "K":
            alike = GRANULE_BYTES // a.pitch  # rows after which starts lie alike
            yield Way(majors, relayouts, "registers", max(8, alike))
            if majors[1] == "MN":
                yield Way(majors, relayouts, "tiles", alike)


def _layouts(side: Side, size: int) -> list[tuple[str, Major]]:
    """Return what may be done in front of the kernel, and the major axis then; 16-bit types alone may have MN."""
    other: Major = "MN" if side.major == "K" else "K"
    found = [("none", side.major), ("transpose", other)]
    if not side.legal:
        found.append(("pad", side.major))
    return [one for one in found if size == 2 or one[1] == "K"]


def _cuts(products: ProductClass, way: Way, *, swapped: bool) -> Iterator[Cut]:
    lines, n = products.lines[swapped], products.m if swapped else products.n
    if lines and way.realign == "registers":  # which shared memory pays for, the less the wider the tile
        yield from (one for one in PLAIN_CUTS if one.columns >= 192 and not one.alternate)
    elif lines:
        yield from (*PLAIN_CUTS, *SHARED_CUTS)
    if way.realign == "tiles" or products.much:
        return
    fitting = min(n, NARROW[-1])
    widths = {fitting, min(fitting, 64), *((96, 160, 192) if n > NARROW[-1] else ())}
    for columns, (rows, warpgroups), split, blocks in product(sorted(widths), ((128, 2), (64, 1)), SPLITS, (1, 2)):
        yield Cut(rows, columns, warpgroups, split=split, blocks=blocks, narrow=True)


def _filled(products: ProductClass, way: Way, cut: Cut, target: Target, *, swapped: bool) -> ProductKernel | None:
    """Return the kernel with as many stages as fit; None where tiles do not suit, or fewer than two fit."""
    rows, columns, size, result_size = cut.rows, cut.columns, products.dtype.bytes, products.result.bytes
    depth, turns = ROW_BYTES // size, products.turns
    uneven = [
        extent % unit or extent // unit % shared  # whole boxes, as many for each block that shares them
        for extent, shared, unit in zip(
            (rows, columns), reversed(cut.cluster), (WIDE_BOX if one == "MN" else 8 for one in way.majors), strict=True
        )
    ]
    handed = registers(cut.warpgroups, cut.blocks, target)
    if any(uneven) or cut.split > turns or cut.sums + OTHER_REGISTERS[way.realign] > handed[0]:
        return None
    if way.realign == "registers" and rows % (8 * way.phases):
        return None
    by_map = way.realign != "registers" and products.by_map[swapped]
    if by_map and not cut.narrow and columns * result_size % 32:
        return None  # boxes of C have a swizzle
    store = "sums" if cut.narrow else "tma" if by_map else "rows"
    stage, output = (rows + columns) * ROW_BYTES, round_up(_output_bytes(store, cut, result_size), 8)
    room = min(target.shared_bytes_per_block, target.shared_bytes_per_processor // cut.blocks - SYSTEM_BYTES)
    stages = min(MOST_STAGES, (room - output) // (stage + 16))
    if cut.narrow:
        stages = min(stages, max(3, turns + 1))
    if stages < (3 if way.realign == "registers" else 2):
        return None
    return ProductKernel(
        swapped=swapped,
        tile=(rows, columns, depth),
        stages=stages,
        cluster=cut.cluster,
        split=cut.split,
        warpgroups=cut.warpgroups,
        alternate=cut.alternate,
        blocks=cut.blocks,
        group=GROUP,
        majors=way.majors,
        relayouts=way.relayouts,
        realign=way.realign,
        phases=way.phases,
        store=store,
        deferred=_deferred(cut, way, store, turns, result_size, handed[0]),
        registers=handed,
        a=None if way.realign == "registers" else _operand(rows, depth, 8 * size, way.majors[0], BLOCK_ROWS),
        b=_operand(columns, depth, 8 * size, way.majors[1], columns),
        shared_bytes=stages * (stage + 16) + output,
    )


def _deferred(cut: Cut, way: Way, store: str, turns: int, result_size: int, handed: int) -> int:  # noqa: PLR0917
    """Return during how many of a tile's stages the tile before is stored, as far as registers hold it until then."""
    kept = cut.sums * result_size // 4
    fits = cut.sums + kept + KEPT_REGISTERS <= handed
    apart = cut.alternate or store == "sums" or way.realign == "registers"
    return DEFERRED_STAGES if fits and not apart and turns > DEFERRED_STAGES else 0


def _output_bytes(store: str, cut: Cut, result_size: int) -> int:
    """Return the bytes of shared memory through which C leaves."""
    warps = cut.warpgroups * WARPS
    if store == "tma":
        return warps * 2 * STORE_ROWS * ROW_BYTES
    if store == "rows":
        return warps * 8 * (cut.columns * result_size + GRANULE_BYTES)
    # Sums lie along either axis, in a pitch that spreads them over the banks.
    return 4 * max(cut.rows * (cut.columns + 4), cut.columns * (cut.rows + 4))


def registers(warpgroups: int, blocks: int, target: Target) -> tuple[int, int]:
    """Return registers a thread of the warpgroups that multiply, and of the one that loads."""
    each = target.registers_per_processor // blocks // (WARPGROUP * (warpgroups + 1)) // 8 * 8
    loading = 24 if blocks > 1 else 40
    return min((each * (warpgroups + 1) - loading) // warpgroups // 8 * 8, MOST_REGISTERS), loading


@lru_cache
def _operand(rows: int, depth: int, bits: int, major: Major, block: int) -> MatrixOperand:
    """Return how wgmma reads a tile that boxes with the 128-byte swizzle brought."""
    layout = tile_layout(rows, depth, bits, "128B", major)
    return matrix_operand(layout, "128B", bits, unit="wgmma", major=major, block=block)


def _by_map(gemm: Gemm, *, swapped: bool) -> bool:
    """Return whether boxes may store C: a store goes on to the end of its granule (M-13)."""
    size, strides = gemm.out_dtype.bytes, plain(gemm.c.strides)
    columns, pitch = (gemm.m, strides[1]) if swapped else (gemm.n, strides[0])
    return all(number * size % GRANULE_BYTES == 0 for number in (columns, pitch)) and (
        gemm.c.address % GRANULE_BYTES == 0
    )


def _legal_in(one: ProductClass, member: Gemm, kernel: ProductKernel, target: Target) -> bool:
    """Return whether a kernel's maps are legal for products of a class, of which `member` is one; not by extents."""
    key = (replace(one, m=0, n=0, turns=0, much=False), kernel, target)
    return _LEGAL.answer(key, lambda: _legal(member, kernel, target))


def _legal(gemm: Gemm, kernel: ProductKernel, target: Target) -> bool:
    maps = [one for found in source_maps(gemm, kernel) for one in found]
    maps += result_map(gemm, kernel) if kernel.store == "tma" else []
    sites = [TmaCopy.of(one.map) for one in maps]
    return not any(d.level == "error" for site in sites for rule in COPY_RULES for d in rule.check(site, target))

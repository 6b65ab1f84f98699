"""Every kernel of a product, by trying each combination of what a kernel may be and asking what forbids it.

This is the oracle of the search: no law, no table, no bound. What it takes from the library is what a kernel costs, how
many registers it uses, and whether its maps are legal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any

import legalsat as ls
from legalsat.extract.cost.kernel_columns import KernelColumns
from legalsat.extract.cost.kernel_cost import Products, kernel_times
from legalsat.extract.kernels.product_maps import result_map, source_maps
from legalsat.extract.kernels.registers import Work, of_consumers, of_producer
from legalsat.plans.product_kernel import ProductKernel
from legalsat.targets import Target
from legalsat.tensor import Tensor, plain

Shape = tuple[int, int, int, bool, tuple[int, int]]  # rows, columns, warpgroups, ping-pong, cluster
COOPERATIVE: list[Shape] = [(128, columns, 2, False, (1, 1)) for columns in range(48, 257, 16)]
COOPERATIVE += [(256, columns, 2, False, (1, 1)) for columns in (64, 96, 112, 128)]
PAIRS = [(1, 1), (2, 1), (1, 2)]
REALIGNED: list[Shape] = [
    (rows, columns, rows // 64, False, cluster)
    for rows in (128, 192)
    for columns in range(96, 257, 8)
    for cluster in (*PAIRS, (2, 2))
    if columns >= 192 or cluster != (1, 1)
]
PERSISTENT: list[Shape] = [
    (rows, columns, {64: 1, 192: 3}.get(rows, 2), False, cluster)
    for rows in (64, 128, 192, 256)
    for columns in range(16, 257, 16)
    for cluster in (*PAIRS, (2, 2), (4, 1), (1, 4), (4, 2), (2, 4))
]
PERSISTENT += [
    (rows, columns, {64: 1, 192: 3}.get(rows, 2), False, cluster)
    for rows in (64, 128, 192, 256)
    for columns in range(72, 249, 16)
    for cluster in PAIRS
]
PERSISTENT += [(128, columns, 2, True, cluster) for columns in range(64, 193, 8) for cluster in PAIRS]
LAPPED = [one for one in PERSISTENT if one[1] >= 128 and one[1] % 16 == 0 and one[4] in PAIRS]
HALF: list[Shape] = [(64, 256, 2, True, cluster) for cluster in PAIRS[:2]]
SLID: list[Shape] = [  # whose accumulators have eight columns more, in sixteens
    (rows, columns, {64: 1, 192: 3}.get(rows, 2), False, cluster)
    for rows in (64, 128, 192, 256)
    for columns in (24, 40, *range(56, 249, 16))
    for cluster in (*PAIRS, *([(2, 2), (4, 1), (1, 4), (4, 2), (2, 4)] if columns in {56, 120, 184, 248} else []))
]
SLID += [(128, columns, 2, True, cluster) for columns in range(72, 185, 16) for cluster in PAIRS]
WOVEN: list[Shape] = [
    (rows, columns, {192: 3}.get(rows, 2), False, cluster)
    for rows in (128, 192, 256)
    for columns in range(64, 257, 8)
    for cluster in (*PAIRS, (2, 2))
    if columns % 16 == 0 or columns >= 88
]
WIDTHS = (8, 16, 24, 32, 48, 64, 96, 128)


def fastest(gemm: ls.Gemm, target: Target) -> float | None:
    """Return the least predicted time of a legal kernel; None where there is none."""
    kernels = list(every(gemm, target))
    if not kernels:
        return None
    products = Products.of([gemm], target)
    times = kernel_times(products, KernelColumns.of(kernels), target)[0]
    for time, kernel in sorted(zip(times.tolist(), kernels, strict=True), key=lambda pair: pair[0]):
        placed = [*source_maps(gemm, kernel)[0], *source_maps(gemm, kernel)[1]]
        placed += result_map(gemm, kernel) if kernel.by_boxes else []
        if not any(d.level == "error" for one in placed for d in ls.violations(one.map, target.name)):
            return float(time)
    return None


def lies(tensor: Tensor) -> tuple[str, int, bool] | None:
    """Return an operand's fast axis, rows after which starts lie alike, and whether all begin at whole granules."""
    (rows, depth), (across, along), size = plain(tensor.shape), plain(tensor.strides), tensor.dtype.bytes
    if along == 1 or depth == 1:
        major, lines, pitch = "K", rows, across if rows > 1 else depth
    elif across == 1 or rows == 1:
        major, lines, pitch = "MN", depth, along
    else:
        return None
    alike = next(count for count in (1, 2, 4, 8, 16) if count * pitch * size % 16 == 0)
    return major, alike, tensor.address % 16 == 0 and (alike == 1 or lines == 1)


def every(gemm: ls.Gemm, target: Target) -> Iterator[ProductKernel]:
    """Yield each kernel that nothing forbids but the rules about maps."""
    for swapped in (False, True):
        sides = [lies(one) for one in ((gemm.b, gemm.a) if swapped else (gemm.a, gemm.b))]
        if None in sides:
            continue
        strides = plain(gemm.c.strides)
        m, n, down, across = (gemm.m, gemm.n, *strides) if not swapped else (gemm.n, gemm.m, *reversed(strides))
        in_rows = across == 1
        if not in_rows and down != 1:
            continue
        size, begins = gemm.out_dtype.bytes, gemm.c.address % 16 == 0
        whole = begins and all(one * size % 16 == 0 for one in (n, down))
        in_columns = not in_rows and begins and all(one * size % 16 == 0 for one in (m, across))
        for first, second, realign, store in product(
            WAYS, WAYS, ("none", "registers", "woven", "tiles", "sums"), STORES
        ):
            majors = [
                {"K": "MN", "MN": "K"}[side[0]] if one == "transpose" else side[0]  # type: ignore[index]
                for one, side in zip((first, second), sides, strict=True)
            ]
            form = (swapped, first, second, realign, store, majors, sides, in_rows, whole, in_columns)
            raw = (gemm.a if swapped else gemm.b) if realign == "sums" else None
            if raw is not None and raw.address % min(16, 16 // sides[1][1]):  # type: ignore[index]
                continue  # no line of B begins with a granule
            if possible(gemm, form):
                for shape, split, blocks in numbers(gemm, (m, n), form):
                    for buffers in (2, 1):
                        found = solved(gemm, (m, n), form, (shape, split, blocks), target, buffers)
                        if found is not None:
                            yield found


STORES = ("tma", "turned", "columns", "rows", "lapped", "sums", "slices")
WAYS = ("none", "pad", "transpose", "align")


def possible(gemm: ls.Gemm, form: Any) -> bool:
    """Whether operands can be read so, and C stored so."""
    _, first, second, realign, store, majors, sides, in_rows, whole, in_columns = form
    forbidden = [gemm.dtype.bytes != 2 and "MN" in majors]  # the matrix unit transposes 16-bit types alone
    slid = realign == "sums"
    for before, side, needed in ((first, sides[0], realign == "none" or slid), (second, sides[1], not slid)):
        forbidden += [needed and before == "none" and not side[2]]  # no map describes it
        forbidden += [before == "pad" and side[2]]  # which would change nothing
        readable = side[2] and (gemm.dtype.bytes == 2 or side[0] == "K")
        other = sides[0] if slid else sides[1]  # that has to lie as the realigned one asks
        forbidden += [before == "transpose" and readable and not (side is other and realign != "none")]
        forbidden += [before == "transpose" and side[0] == "K" and not (side is other and realign != "none")]
    for before, side in ((first, sides[0]), (second, sides[1])):  # a phase's eight maps need lines that repeat by then
        forbidden += [before == "align" and (side[2] or side[1] > 8 or realign != "none")]
    if slid:  # lines across k, in phases of it
        forbidden += [second != "none" or sides[1][2] or majors != ["MN", "MN"]]
        forbidden += [store == "sums" and in_rows]
        forbidden += [sides[1][1] == 1]
    forbidden += [realign in {"tiles", "registers"} and (first != "none" or sides[0][2] or majors[0] != "K")]
    forbidden += [realign == "woven" and (first != "none" or sides[0][2] or majors[0] != "MN")]
    forbidden += [realign == "tiles" and (majors[1] != "MN" or store == "sums")]
    # Of operands of a byte 16 rows are of different phases, and none of 64 are neighbours in C.
    apart = realign == "registers" and gemm.dtype.bytes == 1
    if store == "slices":  # by boxes of memory of their own, added up behind, wherever C lies
        return not any([*forbidden, apart])
    if store == "turned":  # boxes of columns that lie in whole granules
        return not any([*forbidden, realign == "tiles", apart, not in_columns])
    if store == "columns":  # where nothing else stores C^T as well
        return not any([*forbidden, apart, in_rows, realign != "tiles" and in_columns])
    if store == "lapped":  # where no box stores rows
        return not any([*forbidden, realign in {"registers", "sums"}, not in_rows, whole])
    forbidden += [store != "sums" and not in_rows]
    forbidden += [store != "sums" and (whole and realign != "registers") != (store == "tma")]
    return not any(forbidden)


def sliced(gemm: ls.Gemm, realign: str, phases: int) -> Iterator[tuple[Shape, int]]:
    """Yield shapes of tiles and numbers of slices of k for products of few tiles.

    Slices have 8 k-tiles and more, or 5 of each phase of k where sums slide.
    """
    turns, least = -(-gemm.k * gemm.dtype.bytes // 128), 8
    widths, clusters = range(32, 257, 32), [(1, 1), (2, 1), (1, 2), (4, 1), (1, 4)]
    if realign == "sums":
        of_phase = (gemm.k + phases - 1) // phases
        turns, least, widths = -(-of_phase * gemm.dtype.bytes // 128), 5, range(56, 249, 64)
    if realign in {"registers", "woven"}:
        widths, clusters = range(64, 257, 32), PAIRS
    if -(-gemm.m // 128) * -(-gemm.n // 128) > 264:
        return
    for rows, columns, cluster, slices in product(
        (128, 192) if realign in {"registers", "woven"} else (64, 128, 192, 256), widths, clusters, SLICES
    ):
        if turns >= least * slices and not (realign == "sums" and (rows, cluster) == (64, (4, 1))):
            yield (rows, columns, min(3, rows // 64) if rows < 256 else 2, False, cluster), slices


def is_short(gemm: ls.Gemm) -> bool:
    """Whether tiles have so few k-tiles that they may lap by as many columns as a sector of 32 bytes has."""
    return -(-gemm.k * gemm.dtype.bytes // 128) <= 8 and gemm.out_dtype.bytes > 1


def is_long(gemm: ls.Gemm) -> bool:
    """Whether tiles have so many k-tiles that clusters may share them out."""
    return bool(-(-gemm.k * gemm.dtype.bytes // 128) >= 32)


def is_large(shape: Shape) -> bool:
    """Whether a tile is so large that clusters may share its k-tiles out."""
    rows, columns, _, ping_pong, cluster = shape
    return rows >= 128 and columns >= 128 and columns % 16 == 0 and cluster in PAIRS and not ping_pong


SHARED_OUT = 0  # in place of slices of k: stream-K
SLICES = (2, 3, 4, 5, 6, 8, 10, 12, 16)


def numbers(gemm: ls.Gemm, extent: tuple[int, int], form: Any) -> Iterator[tuple[Shape, int, int]]:
    """Yield shapes of tiles, slices of k or `SHARED_OUT`, and CTAs of an SM that are worth listing."""
    _, first, second, realign, store, _, sides, in_rows, _, in_columns = form
    cooperative = [one for one in COOPERATIVE if realign not in {"registers", "woven"} or one[1] >= 192]
    if store == "slices":
        yield from ((shape, -slices, 1) for shape, slices in sliced(gemm, realign, sides[1][1]))
        return
    if store == "lapped":
        shapes = [one for one in LAPPED if realign != "woven" or not one[3]] + HALF * (realign == "none")
        shapes = shapes if is_short(gemm) and extent[1] > 128 else []
        yield from ((shape, 1, 1) for shape in shapes)
        return
    if store != "sums":
        for shape in {"registers": REALIGNED, "woven": WOVEN, "sums": SLID}.get(realign, PERSISTENT):
            aligned = "align" in (first, second)
            if not aligned or (shape[1] % 16 == 0 and shape[4] not in {(4, 2), (2, 4)}):
                yield shape, 1, 1
            if is_long(gemm) and is_large(shape) and not aligned and realign != "sums":
                yield shape, SHARED_OUT, 1
        return
    if -(-gemm.m // 128) * -(-gemm.n // 128) > 512 and min(gemm.m, gemm.n) > 256:
        return  # each of the tiles would begin and end by itself
    if realign == "sums":
        for tall, wide, down in product((128, 256), range(72, 249, 16), (1, 2, 4)):
            yield (tall, wide, 2, False, (down, 1)), 1, 1
        return
    m, n = extent
    spanning = next((width for width in WIDTHS if width >= n), 128)
    columns = {spanning, min(spanning, 64)} | ({96, 160, 192} if n > 128 else set())
    for width, (rows, warpgroups), split, blocks in product(
        columns, ((128, 2), (64, 1)), (1, 2, 3, 4, 5, 6, 8), (1, 2)
    ):
        if split == 1 or -(-m // rows) * -(-n // width) * split <= 320:
            yield (rows, width, warpgroups, False, (1, 1)), split, blocks
    if not in_rows and not (in_columns and realign == "none"):
        yield from ((shape, 1, 1) for shape in cooperative if shape[1] >= 96)


def solved(  # noqa: PLR0911, PLR0917 - what is chosen, one by one, and what forbids it
    gemm: ls.Gemm, extent: tuple[int, int], form: Any, chosen: Any, target: Target, buffers: int = 2
) -> ProductKernel | None:
    """Return the kernel with as many stages as fit, None where too few do or a number does not suit."""
    swapped, first, second, realign, store, majors, sides, *_ = form
    (rows, columns, warpgroups, ping_pong, cluster), split, blocks = chosen
    shared_out, split = split == SHARED_OUT, split or 1
    store, split, slices = ("tma", 1, -split) if store == "slices" else (store, split, 1)
    slid = realign == "sums"
    size, result, alike = gemm.dtype.bytes, 4 if slices > 1 else gemm.out_dtype.bytes, sides[slid][1]
    turns = -(-gemm.k // (128 // size))
    phases = {"none": 1, "woven": 1, "registers": max(8, alike), "tiles": alike, "sums": alike}[realign]
    turns = -(-min(turns, 33) // phases) if slid else turns
    summed = columns + 8 * slid
    aligned, before = (
        (first == "align", second == "align"),
        [first.replace("align", "none"), second.replace("align", "none")],
    )
    boxes = [
        64 if one or major == "MN" else 8 * sharing
        for sharing, major, one in zip(cluster[::-1], majors, aligned, strict=True)
    ]
    loaded = next(all_ for all_ in range(boxes[1], summed + boxes[1], boxes[1]) if all_ >= summed)
    uneven = [rows % boxes[0], max(0, loaded - 256), loaded > summed * 4 / 3, slid and gemm.k < phases]
    uneven += [rows % (8 * phases)] if realign == "registers" else []
    uneven += [majors[1] == "MN" and summed % 16]  # which the matrix unit turns more slowly
    uneven += [columns * result % 32] if store == "tma" and columns * result <= 128 else []
    uneven += [(any(aligned) or realign == "woven") and min(*extent, gemm.k) < 8]  # a map for each phase has a line
    if any(uneven) or split > turns or (realign == "tiles" and extent[0] < phases):
        return None
    of_cluster, apart_rows = rows * cluster[0], phases if realign == "tiles" else 1
    covered = apart_rows * -(-extent[0] // (apart_rows * of_cluster)) * of_cluster
    if slices > 1 and slices * covered * -(-extent[1] * 4 // 128) * 128 > 64 << 20:
        return None  # more memory than a call may need besides its arrays
    output = {
        "tma": 4 * warpgroups * 2 * 16 * 128,
        "turned": warpgroups * 2 * 64 * result * 8 * evenly(columns // 8, 16 // result),
        "columns": warpgroups * 2 * 64 * result * 8 * evenly(columns // 8, 16 // result),
        "rows": 4 * warpgroups * 8 * next(16 * n for n in (1, 3, *range(5, 200, 2)) if 16 * n >= columns * result + 16),
        "sums": 4 * max(rows * (columns + 4), columns * (rows + 4)),
    }[store.replace("lapped", "rows")]
    stage = (rows + loaded) * 128
    for length, major, one in zip((rows, loaded), majors, aligned, strict=True):
        if one:  # a granule more for each line, of which those across k lie side by side as far as a box is wide
            wide = max(count for count in (1, 2, 3) if length // 64 % count == 0) if major == "MN" else 1
            stage += length // wide * (128 * wide + 16)
    if realign == "woven":  # half a line of banks more for each
        stage += 64 * rows // max(count for count in (1, 2, 3) if rows // 64 % count == 0)
    barriers = 32 if any(aligned) else 16
    room = min(target.shared_bytes_per_block, target.shared_bytes_per_processor // blocks - 1024)
    most = min(16, max(3, turns + 1)) if store == "sums" else 16
    if realign == "registers" and store != "sums":  # as far as it can be proven
        most = 8 if cluster == (1, 1) else 5
    if realign == "woven" and store != "sums":
        most = 5 if cluster == (1, 1) else 4
    stages = min(most, (room - (output + 7) // 8 * 8) // (stage + barriers))
    if buffers == 1:  # half as much of C at a time, where four stages or fewer become one more
        usual, stages = stages, (room - output // 2) // (stage + barriers)
        if store not in ("tma", "turned") or usual > 4 or stages <= usual or usual < 2:
            return None
    if stages < (2 if realign != "registers" else 3 if store == "sums" else 4):
        return None
    apart = (
        ping_pong or shared_out or store == "sums" or realign in {"registers", "woven"} or turns <= (1 if slid else 4)
    )
    alone = ProductKernel(
        swapped, (rows, columns, 128 // size), stages, cluster, split, slices, warpgroups, ping_pong, blocks,
        2 if slices == 1 and written_in_parts(gemm, swapped=swapped) else 8,
        (majors[0], majors[1]), (before[0], before[1]), realign, phases, store, 0, (0, 0),
        None, None, 0, aligned=aligned, buffers=buffers, lap=32 // result * (store == "lapped"),  # type: ignore[arg-type]
        stream_k=shared_out,
    )  # fmt: skip
    more = int(any(aligned))  # warpgroups
    of_a = 4 * (realign in {"registers", "woven"})
    if summed // 2 + 26 + of_a > 65536 // blocks // (128 * (warpgroups + 1 + more)) // 8 * 8:
        return None  # no instruction has its registers (ptxas C7602)
    handed = split_of(registers(Work.of(alone), result, overlapped=False), warpgroups, blocks, more)
    if handed is None:
        return None
    # To spare, since no kernel need be overlapped.
    kept = not apart and registers(Work.of(alone), result, overlapped=True)[0] + 8 <= handed[0]
    return replace(alone, overlapped=min(4, turns - 1) * kept, registers=handed)


def written_in_parts(gemm: ls.Gemm, *, swapped: bool) -> bool:
    """Whether tiles side by side share lines of C, of operands that L2 holds."""
    down, across = plain(gemm.c.strides)[:: -1 if swapped else 1]
    operands = gemm.k * gemm.dtype.bits // 8 * (gemm.m + gemm.n)
    return across == 1 and down * gemm.out_dtype.bits // 8 % 128 > 0 and operands <= 16 << 20


@lru_cache(None)
def registers(work: Work, result: int, *, overlapped: bool) -> tuple[int, int]:
    """Return the registers a thread that consumers and the producer are predicted to use: few kernels' differ."""
    return int(of_consumers(work, result, overlapped)), int(of_producer(work))


def evenly(count: int, most: int) -> int:
    """Return the least number of which as few parts as hold so many, each no more than `most`, hold `count`."""
    return next(each for each in range(1, most + 1) if each * -(-count // most) >= count)


@lru_cache(None)
def split_of(predicted: tuple[int, int], warpgroups: int, blocks: int, aligners: int) -> tuple[int, int] | None:
    """Return the registers of a consumer's and the producer's threads (setmaxnreg): what leaves consumers most."""
    roles = warpgroups + 1 + aligners
    each = 65536 // blocks // 128 // roles // 8 * 8
    if aligners and each < 88:
        return None
    pool = each * roles - 88 * aligners
    enough = [range(24, 233, 8)[max(0, -(-(role + 2 - 24) // 8)) :] for role in predicted]
    allowed = [(c, p) for c, p in product(*enough) if warpgroups * c + p <= pool]
    if not allowed:
        return None
    consumers = max(c for c, _ in allowed)
    producers = [p for c, p in allowed if c == consumers]
    return consumers, max(p for p in producers if p <= max(producers[0], 40 if blocks == 1 else 24))

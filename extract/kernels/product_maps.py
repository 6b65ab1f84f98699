"""The tensor maps of a product's kernel: A's, one or one for each phase of rows, B's, and C's.

Where an operand is laid out anew first, its map describes the copy, whose pitch is whole lines of the cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

from legalsat.dims import dims_of, least_of
from legalsat.dtypes import DTYPES, DType, dtype
from legalsat.extract.cost.cost import NOMINAL
from legalsat.logic import ceil_div, round_up
from legalsat.operators.gemm import Gemm, matrix_of, sums_of
from legalsat.options import L2Promotion, SwizzleName
from legalsat.plans.product_kernel import BLOCK_ROWS, LEAST_SHARE, LINES_ALIKE, WARPS, Lines, ProductKernel
from legalsat.targets import GRANULE_BYTES, Target
from legalsat.tensor import Tensor, plain, row_major
from legalsat.units.matrix_descriptor import MatrixOperand
from legalsat.units.tcgen05 import operand_type
from legalsat.units.tensor_map import TensorMap

ROW_BYTES = 128  # of a box, as the widest swizzle has it
SPANS = (128, 64, 32)  # bytes of a box's rows, by swizzle
STORE_ROWS = 16  # of C that one warp stores
# What L2 fetches at a time of operands. 256 bytes, whose second half is the next k-tile's, took 1.045 times as long (69
# kernels of 23 products on an H100, at most 1.21): L2 reads 1.4 times as many sectors. None took 1.008 times as long.
FETCHED: L2Promotion = "128B"
# Of what few read from DRAM once. An operand that one row of clusters reads alone: 0.968 of the time (10 products held
# out, an H100; 1.014 at worst). B where rows are grouped: 128 bytes took 1.05 times as long (16 products).
STREAMED: L2Promotion = "256B"
WRAPS, WRAPPED = 2**30, 0x7FFF0000  # lines of a map that wraps, and extents of the axes by which it does
# Of operands that are multiplied as tf32: a map rounds what it loads.
MAP_TYPES = {name: "tf32" if operand_type(name) == "tf32" else one.map_type for name, one in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor map, and the bytes from its tensor's address to its own."""

    map: TensorMap
    offset: Any = 0


@dataclass(frozen=True, slots=True)
class Laid:
    """A matrix as a kernel reads it: lines side by side along the fast axis.

    Attributes:
        address: that it may have, in bytes. lines: of it, `pitch` bytes apart. length: elements of a line.
    """

    address: int
    lines: Any
    length: Any
    pitch: Any


def by_rows(tensor: Tensor) -> bool:
    """Return whether an operand (rows, k) has lines along k, or its elements lie nearest to each other along it."""
    (rows, depth), (across, along) = tensor.shape, tensor.strides
    if along == 1 or depth == 1 or across == 1 or rows == 1:
        return bool(along == 1 or depth == 1)
    return not dims_of(across, along) and bool(along <= across)


def is_scattered(tensor: Tensor) -> bool:
    """Return whether no elements of an operand (rows, k) lie side by side along an axis."""
    return all(
        extent > 1 and step != 1 for extent, step in zip(plain(tensor.shape), plain(tensor.strides), strict=True)
    )


def laid(tensor: Tensor, first: str) -> Laid:
    """Return how a matrix lies after `first`, which is "none", "pad" or "transpose"."""
    size = tensor.dtype.bits // 8
    (rows, depth), (across, along) = tensor.shape, tensor.strides
    rows_run = by_rows(tensor)
    if first == "none":
        lines, length, step = (rows, depth, across) if rows_run else (depth, rows, along)
        pitch = step * size if lines != 1 else round_up(length * size, GRANULE_BYTES)
        return Laid(tensor.address, lines, length, pitch)
    lines, length = (rows, depth) if rows_run == (first == "pad") else (depth, rows)
    return Laid(256, lines, length, _pitch(length * size))


def _pitch(span: int) -> int:
    """Return how far apart lines of so many bytes lie that no box's row lies in two of the cache's lines.

    Such a row would be requested twice (`bench.gpu.dense`), and nobody reads or writes what is between lines.
    """
    return int(round_up(span, min(ROW_BYTES, max(GRANULE_BYTES, 1 << (span - 1).bit_length()))))


def laid_out(tensor: Tensor, first: str) -> Tensor:
    """Return a matrix, or all of a batch, as a kernel that asks for `first`, "pad" or "transpose", reads it."""
    one = matrix_of(tensor)
    copy, keeps_rows = laid(one, first), by_rows(one) == (first == "pad")
    pitch = copy.pitch // tensor.dtype.bytes
    steps = (step * copy.lines * pitch for step in row_major(tensor.shape[:-2]))
    return Tensor(plain(tensor.shape), tensor.dtype, (*steps, *((pitch, 1) if keeps_rows else (1, pitch))))


def sides(gemm: Gemm, kernel: ProductKernel) -> tuple[Tensor, Tensor]:
    """Return what the kernel takes for A and for B, of the first member of a batch."""
    first, second = (gemm.matrices[name] for name in kernel.operands)
    return first, second


def steps_of(gemm: Gemm, kernel: ProductKernel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the bytes from member to member along each axis of a batch, of what the kernel reads for A and for B."""
    members, found = gemm.members, list[tuple[int, ...]]()
    for name, tensor, first in zip(kernel.operands, sides(gemm, kernel), kernel.relayouts, strict=True):
        steps = tuple(step * tensor.dtype.bytes for step in members.of(name))
        if first != "none" and members.batch and not members.ragged:  # copies lie one behind the other
            copy = laid(tensor, first)
            steps = tuple(step * copy.lines * copy.pitch for step in plain(row_major(members.batch)))
        elif first != "none" and any(steps):
            copy = laid(tensor, first)
            steps = (copy.lines * copy.pitch,)
        found.append(steps)
    return found[0], found[1]


def extents(gemm: Gemm, kernel: ProductKernel) -> tuple[Any, Any]:
    """Return the rows and columns of what the kernel computes."""
    return (gemm.n, gemm.m) if kernel.swapped else (gemm.m, gemm.n)


def source_maps(gemm: Gemm, kernel: ProductKernel) -> tuple[list[Placed], list[Placed]]:
    """Return the maps of A and of B."""
    a, b = (laid(one, first) for one, first in zip(sides(gemm, kernel), kernel.relayouts, strict=True))
    depth, name = kernel.tile[2], gemm.dtype.name
    a_box, b_box = (
        (depth, extent // boxes) if major == "K" else (extent * parts // boxes, depth // parts)
        for extent, boxes, parts, major in zip(kernel.loaded, kernel.boxes, kernel.k_parts, kernel.majors, strict=True)
    )
    if kernel.ragged == "k" and not kernel.clipped:
        return [_cut(name, a, a_box)], [_cut(name, b, b_box)]
    fetched = _fetched(kernel)
    of_a, of_b = (
        [_map(name, one, box, then, operand)] if lines is None else _of_lines(name, one, lines)
        for one, box, lines, then, operand in zip(
            (a, b), (a_box, b_box), kernel.lines, fetched, (kernel.a, kernel.b), strict=True
        )
    )
    if kernel.slides:
        of_a, of_b = (
            [_phase(name, one, box, kernel.slides, number) for number in range(kernel.slides)]
            for one, box in ((a, a_box), (b, b_box))
        )
    elif kernel.realign not in {"none", "woven"}:
        of_a = [_phase(name, a, a_box, kernel.phases, number, "128B", fetched[0]) for number in range(kernel.phases)]
    found, extents = list[list[Placed]](), gemm.members.extents
    for own, matrix, steps, loose, alike in zip(
        (of_a, of_b), (a, b), steps_of(gemm, kernel), kernel.loose, kernel.alike, strict=True
    ):
        beyond = sum((extent - 1) * step for extent, step in zip(extents, steps, strict=True))  # to the last member
        whole = [of_members(one, extents, steps) for one in own] if not loose else []
        found.append(whole or _loose(own[0].map, matrix, gemm.dtype.bytes, alike, beyond))
    return found[0], found[1]


def _fetched(kernel: ProductKernel) -> list[L2Promotion]:
    """Return what L2 fetches at a time of A and of B: more of what is streamed by boxes of whole rows."""
    whole = [lines is None and not kernel.slides for lines in kernel.lines]
    whole[0] &= kernel.realign == "none" or bool(kernel.cuts)
    return [STREAMED if once and rows else FETCHED for once, rows in zip(kernel.streamed, whole, strict=True)]


def _loose(one: TensorMap, matrix: Laid, size: int, alike: int, beyond: int) -> list[Placed]:
    """Return the maps of lines of members that begin anywhere; `TileScheduler.placed` says which has a line, and where.

    Their last axis has all granules, and a coordinate along it says in which one lies the first line of a phase of some
    member. A map's lines begin as many elements behind that, and end with their own. Some phases have a line more.

    Args:
        one: a map of lines of one phase.
        matrix: of which.
        size: bytes of an element.
        alike: how many phases there are.
        beyond: bytes from the first member to the last.
    """
    late = matrix.address % GRANULE_BYTES
    granules = (late + (alike - 1) * matrix.pitch + beyond) // GRANULE_BYTES + 1
    return [
        Placed(
            replace(
                one,
                address=matrix.address - late,
                global_dim=(matrix.length + early, ceil_div(matrix.lines - last, alike), granules),
                global_stride=(alike * matrix.pitch, GRANULE_BYTES),
                box=(*one.box, 1),
                element_stride=(1, 1, 1),
            ),
            -late,
        )
        for last in (0, alike - 1)
        for early in range(GRANULE_BYTES // size)
    ]


def _of_lines(name: str, matrix: Laid, lines: Lines) -> list[Placed]:
    """Return the maps of lines of each phase, by boxes of the granules that hold them."""
    box = lines.pitch // dtype(name).bytes, lines.count
    return [_phase(name, matrix, box, LINES_ALIKE, number, "none") for number in range(LINES_ALIKE)]


def of_members(placed: Placed, extents: tuple[int, ...], steps: tuple[int, ...]) -> Placed:
    """Return the map of all members of a batch, or of all groups, each axis of which is one more of the map.

    Args:
        placed: the map of the first member.
        extents: of the axes, outermost first.
        steps: bytes from member to member along each; where all are 0 every member reads the same, by the same map.
    """
    if not any(steps):
        return placed
    one = placed.map
    whole = replace(
        one,
        global_dim=(*one.global_dim, *extents[::-1]),
        global_stride=(*one.global_stride, *steps[::-1]),
        box=(*one.box, *(1 for _ in extents)),
        element_stride=(*one.element_stride, *(1 for _ in extents)),
    )
    return replace(placed, map=whole)


def stored(gemm: Gemm, kernel: ProductKernel) -> Tensor:
    """Return the matrix that the kernel stores: C or C^T, or what slices of k give, one below the other."""
    m, n = extents(gemm, kernel)
    if kernel.slices > 1:
        sums = stored_type(gemm, kernel)
        return Tensor((kernel.slices * kernel.slice_rows(m), n), sums, (_pitch(4 * n) // 4, 1), align=256)
    c = gemm.matrices["C"]
    return c.transposed((1, 0)) if kernel.swapped else c


def stored_type(gemm: Gemm, kernel: ProductKernel) -> DType:
    """Return the type of what the kernel stores."""
    return sums_of(gemm.dtype) if kernel.slices > 1 else gemm.out_dtype


def result_lies(gemm: Gemm, kernel: ProductKernel) -> tuple[bool, Any]:
    """Return whether C's neighbours in memory lie along the tile's rows, and how far lines of them are apart."""
    if kernel.slices > 1:  # whose pitch is no kernel's class's
        return False, _pitch(4 * extents(gemm, kernel)[1]) // 4
    strides = gemm.matrices["C"].strides
    down, across = reversed(strides) if kernel.swapped else strides
    return (False, down) if across == 1 or kernel.store == "elements" else (True, across)


def result_step(gemm: Gemm, kernel: ProductKernel) -> Any:
    """Return how far apart elements of a line of C are, in elements, of the axis that `result_lies` says."""
    if kernel.store != "elements":
        return 1
    return gemm.matrices["C"].strides[0 if kernel.swapped else 1]


def box_columns(kernel: ProductKernel, size: int) -> int:
    """Return the columns of the widest box of C, whose rows fill a swizzle, that boxes of a tile can be.

    Where narrow ones alone would divide the tile, the last wide one ends with it, and stores some columns again.
    """
    row = kernel.tile[1] * size
    if row > SPANS[0] and row % SPANS[1]:
        return SPANS[0] // size
    return next((span // size for span in SPANS if kernel.tile[1] * size % span == 0), SPANS[-1] // size)


@lru_cache
def turned_columns(columns: int, size: int) -> int:
    """Return the columns, in whole matrices of 8, that a consumer lays down at a time of a tile that it turns.

    The last part ends where the tile does; what it has of the part before is stored twice, alike.
    """
    eights = columns // 8
    parts = -(-eights // (ROW_BYTES // size // 8))
    return 8 * -(-eights // parts)


def first_column(kernel: ProductKernel, part: int, columns: int) -> int:
    """Return where in a tile a part of so many columns begins, the last of which ends with the tile."""
    return min(part * columns, kernel.tile[1] - columns)


def turned_box(kernel: ProductKernel, size: int) -> tuple[int, int]:
    """Return the rows of a tile, which fill a swizzle, and the columns of a warp's box where tiles are turned."""
    rows = ROW_BYTES // size
    return rows, turned_columns(kernel.tile[1], size) * (BLOCK_ROWS // rows) // WARPS


def result_map(gemm: Gemm, kernel: ProductKernel) -> list[Placed]:
    """Return the maps of C, or of C^T where its tiles are turned: one, or one for each phase of rows."""
    c, phases = stored(gemm, kernel), kernel.tile_phases
    size, (m, n) = c.dtype.bytes, c.shape
    box, down = (box_columns(kernel, size), STORE_ROWS), c.strides[0]
    if kernel.store == "turned":
        box, down, m, n = turned_box(kernel, size), c.strides[1], n, m
    pitch = down * size if m != 1 else round_up(n * size, GRANULE_BYTES)
    members = gemm.members
    if members.ragged == "m":
        return [_windows(c, box, (m, n, pitch))]
    if kernel.realign == "registers" and kernel.store == "tma":
        return [_of_phases(c, box, pitch, kernel.phases)]
    steps = tuple(step * size for step in members.of("C"))
    found = [
        Placed(
            TensorMap(
                dtype=c.dtype.map_type,
                address=c.address + number * pitch,
                global_dim=(n, ceil_div(m - number, phases)),
                global_stride=(phases * pitch,),
                box=box,
                element_stride=(1, 1),
                swizzle=cast("SwizzleName", f"{box[0] * size}B"),
                l2_promotion="none",
            ),
            number * pitch,
        )
        for number in range(phases)
    ]
    return [of_members(one, members.extents, steps) for one in found]


def _of_phases(c: Tensor, box: tuple[int, int], pitch: int, phases: int) -> Placed:
    """Return the map of slices of k whose rows are realigned in registers: a warp has eight of each of two phases.

    Args:
        c: the slices, whose rows are whole tiles'.
        box: columns of a box, and its rows.
        pitch: bytes from row to row.
        phases: rows that lie between those of one phase.
    """
    (m, n), size = c.shape, c.dtype.bytes
    return Placed(
        TensorMap(
            dtype=c.dtype.map_type,
            address=c.address,
            global_dim=(n, m // phases, phases),
            global_stride=(phases * pitch, pitch),
            box=(box[0], LINES_ALIKE, box[1] // LINES_ALIKE),
            element_stride=(1, 1, 1),
            swizzle=cast("SwizzleName", f"{box[0] * size}B"),
            l2_promotion="none",
        )
    )


def _windows(c: Tensor, box: tuple[int, int], lie: tuple[Any, Any, Any]) -> Placed:
    """Return the map of windows of as many lines of a matrix as a box has: number y ends before line y (FACTS M-22).

    Its address lies a window in front of the matrix, so that there are windows for lines near the beginning. A box of
    `left` lines that begins in line `y` lies `box - left` lines into window `y + left`; what follows is behind it.

    Args:
        c: the matrix.
        box: elements of a line, and lines.
        lie: lines of the matrix, elements of one, and the bytes from one to the next.
    """
    (m, n, pitch), size = lie, c.dtype.bytes
    map_ = TensorMap(
        dtype=c.dtype.map_type,
        address=c.address + ((box[1] * pitch) // c.align + 1) * c.align - box[1] * pitch,
        global_dim=(n, box[1], m + 1),
        global_stride=(pitch, pitch),
        box=(*box, 1),
        element_stride=(1, 1, 1),
        swizzle=cast("SwizzleName", f"{box[0] * size}B"),
        l2_promotion="none",
    )
    return Placed(map_, -box[1] * pitch)


def maps_of(gemm: Gemm, kernel: ProductKernel) -> dict[str, list[Placed]]:
    """Return the maps of the kernel's A and B, and of its C where boxes store that."""
    of_a, of_b = source_maps(gemm, kernel)
    return {"A": of_a, "B": of_b, "C": result_map(gemm, kernel) if kernel.by_boxes else []}


def grid_of(gemm: Gemm, kernel: ProductKernel, target: Target) -> Any:
    """Return how many blocks are launched: as many clusters as fit at once, or one for each of its tiles."""
    clusters = most_clusters(gemm, kernel)
    if kernel.stream_k:  # whose clusters share a tile, the more of them the more k-tiles it has
        clusters *= kernel.k_tiles(gemm.k) // LEAST_SHARE
    if kernel.store != "sums":  # whose blocks compute one tile each
        # One more than fit at once would begin its share when the others are done with theirs.
        at_once = (target.device or NOMINAL).clusters_at_once(kernel.cluster_blocks)
        clusters = least_of(clusters, at_once * kernel.blocks)
    return clusters * kernel.cluster_blocks


def most_clusters(gemm: Gemm, kernel: ProductKernel) -> Any:
    """Return the clusters' tiles of a product, of all of a batch, or of groups that need as many as they may."""
    members, (along_m, along_n) = gemm.members, kernel.clusters(*extents(gemm, kernel))
    if kernel.cuts == "m":  # each group may have a tile that is not full
        return (along_m + members.groups) * along_n
    if kernel.cuts == "n":
        return along_m * (along_n + members.groups)
    return along_m * along_n * members.count


def _map(name: str, matrix: Laid, box: tuple[int, int], fetched: L2Promotion, operand: MatrixOperand | None) -> Placed:
    swizzle = "128B" if operand is None else operand.descriptor.swizzle
    return Placed(
        TensorMap(
            dtype=MAP_TYPES[name],
            address=matrix.address,
            global_dim=(matrix.length, matrix.lines),
            global_stride=(matrix.pitch,),
            box=box,
            element_stride=(1, 1),
            swizzle=cast("SwizzleName", swizzle),
            l2_promotion=fetched,
        )
    )


def _cut(name: str, matrix: Laid, box: tuple[int, int]) -> Placed:
    """Return the map of a matrix's lines that ends where a group does, wherever that is (FACTS M-21).

    Line k of a group of `length` lines that ends in front of line `end` has coordinates (WRAPS - length + k, end,
    WRAPS): the last axis leads on by 2^64 bytes less WRAPS lines, so that addresses wrap, and a line behind the group
    is outside of the axis of lines, which has WRAPS of them.
    """
    size = ROW_BYTES // box[0]
    return Placed(
        TensorMap(
            dtype=MAP_TYPES[name],
            address=matrix.address,
            global_dim=(matrix.length, WRAPS, WRAPPED, WRAPPED),
            global_stride=(matrix.pitch, matrix.pitch, 2**64 // WRAPS * size - matrix.pitch),
            box=(*box, 1, 1),
            element_stride=(1, 1, 1, 1),
            swizzle="128B",
            l2_promotion=FETCHED,
        )
    )


def _phase(  # noqa: PLR0917 - a map, and which
    name: str,
    matrix: Laid,
    box: tuple[int, int],
    phases: int,
    number: int,
    swizzle: SwizzleName = "128B",
    fetched: L2Promotion = FETCHED,
) -> Placed:
    """Return the map of every `phases`-th row, begun at the granule in which the first of them starts."""
    if isinstance(matrix.lines, int) and number >= matrix.lines:
        number = 0  # of rows that do not exist, whose sums nobody stores
    size = dtype(name).bytes
    start = matrix.address + number * matrix.pitch
    early = start % GRANULE_BYTES
    return Placed(
        TensorMap(
            dtype=MAP_TYPES[name],
            address=start - early,
            global_dim=(matrix.length + early // size, ceil_div(matrix.lines - number, phases)),
            global_stride=(phases * matrix.pitch,),
            box=box,
            element_stride=(1, 1),
            swizzle=swizzle,
            l2_promotion=fetched,
        ),
        number * matrix.pitch - early,
    )

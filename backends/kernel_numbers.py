"""What of a product's kernel is literal in its text: numbers that its parts need, the same in every language."""

from __future__ import annotations

from dataclasses import dataclass

from legalsat.extract.kernels.kernel_memory import BARRIER_BYTES, KernelMemory
from legalsat.extract.kernels.kernel_program import kernel_program, parts_across, printed_program
from legalsat.extract.kernels.product_maps import (
    ROW_BYTES,
    STORE_ROWS,
    box_columns,
    result_lies,
    steps_of,
    stored_type,
    turned_box,
    turned_columns,
)
from legalsat.extract.kernels.registers import rows_together
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_kernel import BLOCK_ROWS, GROUP_ENTRY_BYTES, WOVEN_BESIDE, ProductKernel
from legalsat.program.kernel import ReadRows, every

Offsets = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KernelNumbers:
    """Of one class of kernels; bytes unless said otherwise.

    Attributes:
        tile_m, tile_n, tile_k: elements of a tile. lap: columns of it that the next one has too. stages: of the ring.
        cluster_m, cluster_n, split: CTAs of a cluster.
        warpgroups: of consumers. ctas_per_sm: that fit on an SM. atoms: of 64 rows, of a consumer's tile.
        phases: of A's rows where it is realigned, else 0. slides: of k, between which sums slide, else 0. summed:
            columns of an accumulator. element_bytes, result_bytes: of an element.
        a_boxes, a_box_rows, a_box_bytes, b_boxes, b_box_rows, b_box_bytes: that bring a tile.
        a_parts, b_parts: in which boxes lie along k.
        a_bytes, b_bytes, b_offset, stage_bytes: of a stage. steps: instructions along a k-tile.
        a_atom_bytes: from one atom's rows to the next one's.
        store_rows, store_columns: elements of a box of C; columns of a part where tiles are turned, of which each warp
            has a box. parts: in which 64 rows leave.
        buffers, buffer_bytes, result_at: through which they do. barriers_at: where the barriers begin.
        fragment_steps: whose fragments are read at a time.
        batch: axes of it. a_axes, b_axes, c_axes: of the maps, beyond a matrix's.
        groups: that there is room for. groups_at: where it is said where they begin.
        least_k_tiles: of a tile. whole_k_tiles: those of a tile that are multiplied whole though they are its last.
        woven_beside: of a line that is woven, beside its spans.
        a_lines, b_lines: where lines of A, and of B, lie in a stage that are aligned. a_spans, b_spans: of a k-tile's
            bytes that lie side by side in one. aligned_a, aligned_b: whether some are aligned.
        loose_a, loose_b: whether members begin anywhere in a granule.
        rows_cut, columns_cut, k_cut: whether groups cut rows of A, rows of B, or k.
        clipped: whether k-tiles are those of no groups, and
            others' k are cleared; else maps end with a group. ping_pong: whether consumers take turns with tiles.
        sliced: whether a tile is of one slice of k. phase_tiles: whether a tile has rows of one phase.
        realign: whether rows of A are shifted in registers, and woven: whether lines of it are woven there.
        stream_k: whether clusters have as many k-tiles each, and give sums of tiles that end in others' shares.
        scaled: whether C is, and scaled_by: 0 as a whole, 1 by rows
            and columns, 2 by groups. a_k_major, b_k_major: whether operands are.
        c_along_rows: whether neighbours in C are neighbours in a column of the tile.
        a_word, b_word: matrix descriptors of tiles at address 0.
        a_offsets: bytes to each atom's each step. b_offsets: to each step.
    """

    tile_m: int
    tile_n: int
    lap: int
    tile_k: int
    stages: int
    cluster_m: int
    cluster_n: int
    split: int
    warpgroups: int
    ctas_per_sm: int
    atoms: int
    phases: int
    slides: int
    summed: int
    element_bytes: int
    result_bytes: int
    a_boxes: int
    a_parts: int
    a_box_rows: int
    a_box_bytes: int
    b_boxes: int
    b_parts: int
    b_box_rows: int
    b_box_bytes: int
    a_bytes: int
    b_bytes: int
    b_offset: int
    stage_bytes: int
    steps: int
    a_atom_bytes: int
    store_rows: int
    store_columns: int
    parts: int
    buffers: int
    buffer_bytes: int
    result_at: int
    barriers_at: int
    fragment_steps: int
    batch: int
    a_axes: int
    b_axes: int
    c_axes: int
    groups: int
    groups_at: int
    least_k_tiles: int
    whole_k_tiles: int
    a_lines: int
    b_lines: int
    a_spans: int
    woven_beside: int
    b_spans: int
    loose_a: bool
    loose_b: bool
    aligned_a: bool
    aligned_b: bool
    rows_cut: bool
    columns_cut: bool
    k_cut: bool
    clipped: bool
    ping_pong: bool
    rows_together: bool
    sliced: bool
    phase_tiles: bool
    realign: bool
    woven: bool
    stream_k: bool
    scaled: bool
    scaled_by: int
    a_k_major: bool
    b_k_major: bool
    c_along_rows: bool
    a_word: int
    b_word: int
    a_offsets: tuple[Offsets, ...]
    b_offsets: Offsets

    @property
    def columns_at(self) -> int:
        """Where it is said where tensor memory is, behind where groups begin."""
        return self.groups_at + (GROUP_ENTRY_BYTES * (self.groups + 1) if self.groups else 0)


def kernel_numbers(gemm: Gemm, kernel: ProductKernel) -> KernelNumbers:
    """Return what is literal in a kernel's text.

    Args:
        gemm: the product, of which the types alone matter, and which way C lies.
        kernel: how it is computed.
    """
    result_bytes = stored_type(gemm, kernel).bytes
    program, size, turned = printed_program(kernel, result_bytes), gemm.dtype.bits // 8, kernel.turns
    (rows, columns, depth), (_, loaded) = kernel.tile, kernel.loaded
    (a_boxes, b_boxes), (a_parts, b_parts) = kernel.boxes, kernel.k_parts
    lines_a, lines_b = kernel.lines
    atoms = rows // BLOCK_ROWS // (1 if kernel.ping_pong else kernel.warpgroups)
    a, b = kernel.a, kernel.b
    along_rows, _ = result_lies(gemm, kernel)
    memory = KernelMemory(kernel_program(kernel, result_bytes), kernel, along_rows)
    result = program.buffers[-1]
    starts = {piece.name: piece.start for piece in memory.loaded(0)}
    axes = len(gemm.members.extents)
    a_axes, b_axes = (
        1 if loose else axes if any(steps) else 0
        for loose, steps in zip(kernel.loose, steps_of(gemm, kernel), strict=True)
    )
    if kernel.ragged == "k" and not kernel.clipped:  # by which maps wrap
        a_axes = b_axes = 2
    return KernelNumbers(
        tile_m=rows,
        tile_n=columns,
        lap=kernel.lap,
        tile_k=depth,
        stages=kernel.stages,
        cluster_m=kernel.cluster[0],
        cluster_n=kernel.cluster[1],
        split=kernel.split,
        warpgroups=kernel.warpgroups,
        ctas_per_sm=kernel.blocks,
        atoms=atoms,
        phases=kernel.phases if kernel.realign in {"tiles", "registers"} else 0,
        slides=kernel.slides,
        summed=kernel.summed,
        element_bytes=size,
        result_bytes=result_bytes,
        a_boxes=a_boxes,
        a_parts=a_parts,
        a_box_rows=rows * a_parts // a_boxes,
        a_box_bytes=kernel.tile_bytes[0] // a_boxes,
        b_boxes=b_boxes,
        b_parts=b_parts,
        b_box_rows=loaded * b_parts // b_boxes,
        b_box_bytes=loaded * ROW_BYTES // b_boxes,
        a_bytes=kernel.tile_bytes[0],
        b_bytes=loaded * ROW_BYTES,
        b_offset=kernel.tile_bytes[0],
        stage_bytes=memory.stage_bytes,
        steps=len(b.offsets[0]),
        a_atom_bytes=a.offsets[1][0] - a.offsets[0][0] if a is not None and len(a.offsets) > 1 else 0,
        store_rows=turned_box(kernel, result_bytes)[0] if turned else STORE_ROWS,
        store_columns=turned_columns(columns, result_bytes) if turned else box_columns(kernel, result_bytes),
        parts=parts_across(kernel, result_bytes),
        buffers=result.stages,
        buffer_bytes=memory.sums_bytes
        if kernel.store == "sums"
        else result.bytes
        if turned
        else memory.part_bytes(result),
        result_at=kernel.stages * memory.stage_bytes,
        barriers_at=memory.barriers_at,
        fragment_steps=next((len(op.steps) for op in every(program.roles[0].body) if isinstance(op, ReadRows)), 0),
        batch=kernel.batch,
        a_axes=a_axes,
        b_axes=b_axes,
        c_axes=len(gemm.members.batch) if any(gemm.members.of("C")) else 0,
        groups=kernel.groups,
        groups_at=memory.barriers_at + BARRIER_BYTES * sum(ring.stages for ring in program.barriers),
        least_k_tiles=program.least_k_tiles,
        whole_k_tiles=1 + kernel.overlapped,
        a_lines=starts.get("lines of A", 0),
        b_lines=starts.get("lines of B", 0),
        woven_beside=WOVEN_BESIDE,
        a_spans=1 if lines_a is None else lines_a.spans,
        b_spans=1 if lines_b is None else lines_b.spans,
        loose_a=kernel.loose[0],
        loose_b=kernel.loose[1],
        aligned_a=kernel.aligned[0],
        aligned_b=kernel.aligned[1],
        rows_cut=kernel.cuts == "m",
        columns_cut=kernel.cuts == "n",
        k_cut=kernel.ragged == "k",
        clipped=kernel.clipped,
        ping_pong=kernel.ping_pong,
        rows_together=rows_together(kernel, result_bytes),
        sliced=kernel.slices > 1,
        phase_tiles=kernel.realign == "tiles",
        realign=kernel.realign == "registers",
        woven=kernel.woven,
        stream_k=kernel.stream_k,
        scaled=bool(gemm.scaled),
        scaled_by={"rows": 1, "groups": 2}.get(gemm.scaled, 0),
        a_k_major=kernel.majors[0] == "K",
        b_k_major=kernel.majors[1] == "K",
        c_along_rows=along_rows,
        a_word=0 if a is None else a.descriptor.word,
        b_word=b.descriptor.word,
        a_offsets=((0,) * len(b.offsets[0]),) * atoms if a is None else a.offsets[:atoms],
        b_offsets=b.offsets[0],
    )

"""Gluon kernels for the corpus of `bench.triton_corpus`: barriers, copies and matrix units driven by hand."""

# Gluon passes constants in capitals, and its kernels take many parameters.
# ruff: noqa: N803, PLR0917, RUF005
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import blackwell, hopper
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.blackwell import tma as tma_of_blackwell
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma

# The left names are those of Triton 3.8 (barrier: 3.7), the right ones older.
load_box = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
store_box = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global
load_by_threads = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared
barrier_of_block = getattr(gl, "barrier", None) or gl.thread_barrier
# Loads from tensor memory choose their layout since Triton 3.8.
LAYOUT_IS_GIVEN = gl.constexpr(hasattr(blackwell, "get_tmem_reg_layout"))


@gluon.jit
def copy_by_boxes(source, target):
    """One box in, one box out."""
    held = gl.allocate_shared_memory(source.dtype, source.block_type.shape, source.layout)
    arrived = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(arrived, count=1)
    mbarrier.expect(arrived, source.block_type.nbytes)
    row = gl.program_id(0) * source.block_type.shape[0]
    load_box(source, [row, 0], arrived, held)
    mbarrier.wait(arrived, 0)
    mbarrier.invalidate(arrived)
    store_box(target, [row, 0], held)
    tma.store_wait(0)


@gluon.jit  # type: ignore[untyped-decorator]
def add_in_a_ring(a, b, c, columns, STAGES: gl.constexpr, LAYOUT: gl.constexpr):
    """Two rings of boxes in, sums by threads, boxes out of one more buffer."""
    dtype: gl.constexpr = a.dtype
    width: gl.constexpr = a.block_type.shape[1]
    left = gl.allocate_shared_memory(dtype, [STAGES] + a.block_type.shape, a.layout)
    right = gl.allocate_shared_memory(dtype, [STAGES] + b.block_type.shape, b.layout)
    sums = gl.allocate_shared_memory(dtype, c.block_type.shape, c.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
    row = gl.program_id(0) * a.block_type.shape[0]
    rounds = gl.cdiv(columns, width)
    for i in gl.static_range(STAGES - 1):
        mbarrier.expect(full.index(i), a.block_type.nbytes + b.block_type.nbytes, pred=i < rounds)
        load_box(a, [row, i * width], full.index(i), left.index(i), pred=i < rounds)
        load_box(b, [row, i * width], full.index(i), right.index(i), pred=i < rounds)
    for i in range(rounds):
        coming = i + STAGES - 1
        slot = coming % STAGES
        mbarrier.expect(full.index(slot), a.block_type.nbytes + b.block_type.nbytes, pred=coming < rounds)
        load_box(a, [row, coming * width], full.index(slot), left.index(slot), coming < rounds)
        load_box(b, [row, coming * width], full.index(slot), right.index(slot), coming < rounds)
        here = i % STAGES
        mbarrier.wait(full.index(here), i // STAGES & 1)
        total = left.index(here).load(LAYOUT) + right.index(here).load(LAYOUT)
        tma.store_wait(0)
        sums.store(total)
        fence_async_shared()
        store_box(c, [row, i * width], sums)
    tma.store_wait(0)
    for i in gl.static_range(STAGES):
        mbarrier.invalidate(full.index(i))


@gluon.jit  # type: ignore[untyped-decorator]
def product_by_wgmma(a, b, c, k, STAGES: gl.constexpr, WARPS: gl.constexpr):
    """A ring of boxes, one multiplication in flight."""
    tile_m: gl.constexpr = a.block_type.shape[0]
    tile_k: gl.constexpr = a.block_type.shape[1]
    tile_n: gl.constexpr = b.block_type.shape[0]
    left = gl.allocate_shared_memory(a.dtype, [STAGES] + a.block_type.shape, a.layout)
    right = gl.allocate_shared_memory(b.dtype, [STAGES] + b.block_type.shape, b.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
    row, column = gl.program_id(0) * tile_m, gl.program_id(1) * tile_n
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, tile_n, 256 // a.dtype.primitive_bitwidth]
    )
    total = hopper.warpgroup_mma_init(gl.zeros((tile_m, tile_n), gl.float32, layout))
    rounds = gl.cdiv(k, tile_k)
    for i in gl.static_range(STAGES - 2):
        mbarrier.expect(full.index(i), a.block_type.nbytes + b.block_type.nbytes, pred=i < rounds)
        load_box(a, [row, i * tile_k], full.index(i), left.index(i), pred=i < rounds)
        load_box(b, [column, i * tile_k], full.index(i), right.index(i), pred=i < rounds)
    for i in range(rounds):
        coming = i + STAGES - 2
        slot = coming % STAGES
        mbarrier.expect(full.index(slot), a.block_type.nbytes + b.block_type.nbytes, pred=coming < rounds)
        at = coming * tile_k
        load_box(a, [row, at], full.index(slot), left.index(slot), pred=coming < rounds)
        load_box(b, [column, at], full.index(slot), right.index(slot), pred=coming < rounds)
        here = i % STAGES
        mbarrier.wait(full.index(here), i // STAGES & 1)
        total = hopper.warpgroup_mma_wait(num_outstanding=0, deps=(total,))
        total = hopper.warpgroup_mma(left.index(here), right.index(here).permute((1, 0)), total, is_async=True)
    total = hopper.warpgroup_mma_wait(num_outstanding=0, deps=(total,))
    for i in gl.static_range(STAGES):
        mbarrier.invalidate(full.index(i))
    out = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    out.store(total.to(c.dtype))
    fence_async_shared()
    store_box(c, [row, column], out)
    tma.store_wait(0)


@gluon.jit  # type: ignore[untyped-decorator]
def _bring(a, b, left, right, empty, full, k, row, column, STAGES: gl.constexpr):
    for i in range(gl.cdiv(k, a.block_type.shape[1])):
        slot, at = i % STAGES, i * a.block_type.shape[1]
        mbarrier.wait(empty.index(slot), (i // STAGES & 1) ^ 1)
        mbarrier.expect(full.index(slot), a.block_type.nbytes + b.block_type.nbytes)
        load_box(a, [row, at], full.index(slot), left.index(slot))
        load_box(b, [column, at], full.index(slot), right.index(slot))


@gluon.jit  # type: ignore[untyped-decorator]
def _multiply_by_wgmma(c, left, right, empty, full, rounds, row, column, STAGES: gl.constexpr, WARPS: gl.constexpr):
    tile_m: gl.constexpr = c.block_type.shape[0]
    tile_n: gl.constexpr = c.block_type.shape[1]
    layout: gl.constexpr = gl.NVMMADistributedLayout(
        version=[3, 0], warps_per_cta=[WARPS, 1], instr_shape=[16, tile_n, 256 // left.dtype.primitive_bitwidth]
    )
    total = hopper.warpgroup_mma_init(gl.zeros((tile_m, tile_n), gl.float32, layout))
    for i in range(rounds):
        slot = i % STAGES
        mbarrier.wait(full.index(slot), i // STAGES & 1)
        total = hopper.warpgroup_mma_wait(num_outstanding=0, deps=(total,))
        mbarrier.arrive(empty.index((i + STAGES - 1) % STAGES), count=1, pred=i > 0)
        total = hopper.warpgroup_mma(left.index(slot), right.index(slot).permute((1, 0)), total, is_async=True)
    total = hopper.warpgroup_mma_wait(num_outstanding=0, deps=(total,))
    out = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    out.store(total.to(c.dtype))
    fence_async_shared()
    store_box(c, [row, column], out)
    tma.store_wait(0)


@gluon.jit  # type: ignore[untyped-decorator]
def product_by_two_roles(a, b, c, k, STAGES: gl.constexpr, WARPS: gl.constexpr):
    """One warp loads, a warpgroup or two multiply."""
    left = gl.allocate_shared_memory(a.dtype, [STAGES] + a.block_type.shape, a.layout)
    right = gl.allocate_shared_memory(b.dtype, [STAGES] + b.block_type.shape, b.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    row, column = gl.program_id(0) * a.block_type.shape[0], gl.program_id(1) * b.block_type.shape[0]
    rounds = gl.cdiv(k, a.block_type.shape[1])
    gl.warp_specialize(
        [
            (_multiply_by_wgmma, (c, left, right, empty, full, rounds, row, column, STAGES, WARPS)),
            (_bring, (a, b, left, right, empty, full, k, row, column, STAGES)),
        ],
        [1],
        [24],
    )


@gluon.jit  # type: ignore[untyped-decorator]
def product_by_tcgen05(a, b, c, k, STAGES: gl.constexpr, WARPS: gl.constexpr):
    """A ring of boxes, sums in tensor memory, each stage freed by a commit."""
    tile_m: gl.constexpr = a.block_type.shape[0]
    tile_k: gl.constexpr = a.block_type.shape[1]
    tile_n: gl.constexpr = b.block_type.shape[0]
    left = gl.allocate_shared_memory(a.dtype, [STAGES] + a.block_type.shape, a.layout)
    right = gl.allocate_shared_memory(b.dtype, [STAGES] + b.block_type.shape, b.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(done.index(i), count=1)
    row, column = gl.program_id(0) * tile_m, gl.program_id(1) * tile_n
    layout: gl.constexpr = blackwell.TensorMemoryLayout([tile_m, tile_n], col_stride=1)
    total = blackwell.allocate_tensor_memory(gl.float32, [tile_m, tile_n], layout)
    rounds = gl.cdiv(k, tile_k)
    for i in gl.static_range(STAGES):
        mbarrier.expect(full.index(i), a.block_type.nbytes + b.block_type.nbytes, pred=i < rounds)
        load_box(a, [row, i * tile_k], full.index(i), left.index(i), pred=i < rounds)
        load_box(b, [column, i * tile_k], full.index(i), right.index(i), pred=i < rounds)
    use = False
    for i in range(rounds):
        slot, turn = i % STAGES, i // STAGES & 1
        mbarrier.wait(full.index(slot), turn)
        blackwell.tcgen05_mma(left.index(slot), right.index(slot).permute((1, 0)), total, use_acc=use)
        blackwell.tcgen05_commit(done.index(slot))
        mbarrier.wait(done.index(slot), turn)
        coming = i + STAGES
        at = coming * tile_k
        mbarrier.expect(full.index(slot), a.block_type.nbytes + b.block_type.nbytes, pred=coming < rounds)
        load_box(a, [row, at], full.index(slot), left.index(slot), pred=coming < rounds)
        load_box(b, [column, at], full.index(slot), right.index(slot), pred=coming < rounds)
        use = True
    if LAYOUT_IS_GIVEN:
        registers: gl.constexpr = blackwell.get_tmem_reg_layout(gl.float32, (tile_m, tile_n), layout, WARPS)
        held = total.load(registers)
    else:
        held = total.load()
    out = gl.allocate_shared_memory(c.dtype, c.block_type.shape, c.layout)
    out.store(held.to(c.dtype))
    fence_async_shared()
    store_box(c, [row, column], out)
    tma.store_wait(0)
    for i in gl.static_range(STAGES):
        mbarrier.invalidate(full.index(i))
        mbarrier.invalidate(done.index(i))


@gluon.jit  # type: ignore[untyped-decorator]
def copy_by_threads_in_a_ring(source, target, columns, WIDTH: gl.constexpr, STAGES: gl.constexpr):
    """cp.async into a ring of rows."""
    layout: gl.constexpr = gl.BlockedLayout([8], [32], [gl.num_warps()], [0])
    shared: gl.constexpr = gl.SwizzledSharedLayout(vec=1, per_phase=1, max_phase=1, order=[0])
    at = gl.arange(0, WIDTH, layout)
    ring = gl.allocate_shared_memory(source.dtype.element_ty, [STAGES, WIDTH], shared)
    rounds = gl.cdiv(columns, WIDTH)
    for i in gl.static_range(STAGES - 1):
        load_by_threads(ring.index(i), source + i * WIDTH + at, mask=i * WIDTH + at < columns)
        async_copy.commit_group()
    for i in range(rounds):
        barrier_of_block()
        coming = i + STAGES - 1
        inside = coming * WIDTH + at < columns
        load_by_threads(ring.index(coming % STAGES), source + coming * WIDTH + at, mask=inside)
        async_copy.commit_group()
        async_copy.wait_group(STAGES - 1)
        barrier_of_block()
        gl.store(target + i * WIDTH + at, ring.index(i % STAGES).load(layout), mask=i * WIDTH + at < columns)
    async_copy.wait_group(0)


@gluon.jit  # type: ignore[untyped-decorator]
def gather_rows(source, target, rows, LAYOUT: gl.constexpr, COUNT: gl.constexpr):
    """Rows by their numbers, through boxes of one row (sm_100)."""
    numbers = gl.load(rows + gl.arange(0, COUNT, LAYOUT))
    held = gl.allocate_shared_memory(source.dtype, [COUNT, source.block_type.shape[1]], source.layout)
    arrived = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(arrived, count=1)
    mbarrier.expect(arrived, COUNT * source.block_type.nbytes)
    tma_of_blackwell.async_gather(source, numbers, 0, arrived, held)
    mbarrier.wait(arrived, 0)
    mbarrier.invalidate(arrived)
    tma_of_blackwell.async_scatter(target, numbers, 0, held)
    tma.store_wait(0)

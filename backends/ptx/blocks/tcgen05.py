"""Multiplication on sm_100a: one thread issues tcgen05.mma, sums live in tensor memory, warpgroups fetch them."""

from __future__ import annotations

from collections.abc import Iterator

from legalsat.backends.ptx.blocks.epilogue import LANES, Staging, stage_row
from legalsat.backends.ptx.blocks.ring import Block, Place
from legalsat.backends.ptx.descriptors import descriptor, moved
from legalsat.backends.ptx.text import address, braced, wait
from legalsat.units.tcgen05 import kind_of

# The kind of instruction that multiplies elements of a type, of those that are printed.
KINDS = {name: kind_of(name, name).name for name in ("bf16", "fp16", "tf32", "e4m3", "e5m2", "i8", "u8")}
FETCHED = 32  # columns at a time at most
LANE_BITS = 16  # tensor memory's lane stands in the upper half of an address
PARTS = 4  # a warp reaches a quarter of the lanes (TC-25)


def allocate(block: Block) -> None:
    """Have the whole issuing warp allocate tensor memory and write its address to shared memory."""
    at = block.text.put("add.u32", block.base, block.shared.columns)
    block.text.do(f"tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [{at}], {block.product.allocated}")
    block.text.do("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned")


def free(block: Block, columns: str) -> None:
    """Have the issuing warp free the tensor memory."""
    block.text.do(f"tcgen05.dealloc.cta_group::1.sync.aligned.b32 {columns}, {block.product.allocated}")


def issue(block: Block, columns: str) -> None:
    """Multiply all tiles along K; for one thread. The barrier of sums says when they are complete."""
    text, product, shared = block.text, block.product, block.shared
    across = product.blocks_of_sums[1]
    sums = [text.put("add.u32", columns, first) for first in product.accumulators]
    instruction = text.put("mov.b32", product.instruction)
    always = text.put("setp.eq.u32", 0, 0, kind="p") if product.steps > 1 else ""
    place, loop = Place(block), text.label("ISSUE")
    text.place(loop)
    barrier = place.barrier()
    place.wait_full(barrier)
    text.do("tcgen05.fence::after_thread_sync")
    stage = place.tile()
    a = descriptor(text, product.a.word, stage)
    b = descriptor(text, product.b.word, text.put("add.u32", stage, shared.b))
    later = place.later()
    for step in range(product.steps):
        for number, to in enumerate(sums):
            i, j = divmod(number, across)
            ends = moved(text, a, product.a.offsets[i][step]), moved(text, b, product.b.offsets[j][step])
            text.do(
                f"tcgen05.mma.cta_group::1.kind::{KINDS[product.types[0]]} [{to}], {', '.join(ends)}, {instruction}, "
                f"{always if step else later}"
            )
    _commit(block, text.put("add.u32", barrier, shared.empty))
    place.advance(loop)
    _commit(block, text.put("add.u32", block.base, shared.sums))


def _commit(block: Block, barrier: str) -> None:
    block.text.do(f"tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [{barrier}]")


def fetch(block: Block, staging: Staging, columns: str) -> None:
    """Write the sums into shared memory; each warpgroup takes its share of the columns."""
    text, product = block.text, block.product
    wait(text, address(block.base, block.shared.sums), 0)
    text.do("tcgen05.fence::after_thread_sync")
    part = text.put("and.b32", block.warp, PARTS - 1)
    lanes = text.put("add.u32", columns, text.put("shl.b32", part, LANE_BITS + LANES.bit_length() - 1))
    # A block of 64 rows fills half of each warp's lanes (TC-27, F).
    height = product.shape[0] // PARTS
    only = text.when("lt.u32", block.lane, height) if height < LANES else ""
    row = text.put("mad.lo.u32", part, height, block.lane)
    group = text.put("shr.u32", block.warp, 2)
    for number in range(product.warpgroups):
        other = text.label("OTHERS")
        if product.warpgroups > 1:
            text.do(f"@{text.when('ne.u32', group, number)} bra {other}")
        for i in range(product.blocks_of_sums[0]):
            start = staging.row(text.put("add.u32", row, i * product.shape[0]) if i else row)
            for first, column, count in _pieces(block, i, number):
                registers = [text.new() for _ in range(count)]
                text.do(f"tcgen05.ld.sync.aligned.32x32b.x{count}.b32 {braced(registers)}, {address(lanes, first)}")
                text.do("tcgen05.wait::ld.sync.aligned")
                stage_row(block, staging, (start, column), registers, only)
        text.place(other)


def _pieces(block: Block, i: int, group: int) -> Iterator[tuple[int, int, int]]:
    """Yield what a warpgroup fetches of a row of blocks: first column in tensor memory, first of C, and how many."""
    product = block.product
    width, across = product.shape[1], product.blocks_of_sums[1]
    share = width // product.warpgroups
    for j in range(across):
        column = group * share
        while column < (group + 1) * share:
            count = FETCHED
            while column + count > (group + 1) * share or product.c.box[1] % count:
                count //= 2
            yield product.accumulators[i * across + j] + column, j * width + column, count
            column += count

"""The warpgroups that multiply on sm_90a: wgmma reads the stages in shared memory and keeps sums in registers."""

from __future__ import annotations

from legalsat.backends.ptx.product import Operand
from legalsat.backends.ptx.ring import Block, Place
from legalsat.backends.ptx.text import Text, Value, address, braced
from legalsat.errors import LegalSatError
from legalsat.units.wgmma import Wgmma

UNIT_BYTES = 16  # in which descriptors count
ADDRESS_BITS = 18


def multiply(block: Block) -> list[list[list[str]]]:
    """Multiply all tiles along K; return the registers of the sums, by block along m, along n and then as WG-15 has it.

    A warpgroup has as many blocks along m as the others, one set after the other.
    """
    text, product = block.text, block.product
    along_m, along_n = product.blocks_of_sums
    instruction = Wgmma(product.shape[1], *product.types)
    constants = [str(one) for one in instruction.immediates(product.a.major, product.b.major)]
    own = along_m // product.warpgroups
    sums = [[[text.new() for _ in range(product.shape[1] // 2)] for _ in range(along_n)] for _ in range(own)]
    group = text.put("shr.u32", block.warp, 2)
    rows = text.put("mul.lo.u32", group, _group_bytes(product.a, own, product.warpgroups))
    first = text.when("eq.u32", block.lane, 0)
    held = text.put("mov.b32", block.base)  # the barrier of the stage that is still being read
    for register in (register for blocks in sums for registers in blocks for register in registers):
        text.do(f"mov.b32 {register}, 0")  # the assembler serialises what may be undefined
    place, loop = Place(block), text.label("MULTIPLY")
    text.place(loop)
    barrier = place.barrier()
    place.wait_full(barrier)
    stage = place.tile()
    a = descriptor(text, product.a.word, text.put("add.u32", stage, rows))
    b = descriptor(text, product.b.word, text.put("add.u32", stage, block.shared.b))
    later = place.later()
    always = text.put("setp.eq.u32", 0, 0, kind="p") if product.steps > 1 else ""
    text.do("wgmma.fence.sync.aligned")
    for step in range(product.steps):
        for i in range(own):
            for j in range(along_n):
                ends = (
                    moved(text, a, product.a.offsets[i][step]),
                    moved(text, b, product.b.offsets[j][step]),
                )
                text.do(
                    f"{instruction} {braced(sums[i][j])}, {', '.join(ends)}, "
                    f"{', '.join((always if step else later, *constants))}"
                )
    text.do("wgmma.commit_group.sync.aligned")
    text.say("all but the newest group are done, so the stage before is free")
    text.do("wgmma.wait_group.sync.aligned 1")
    releases = text.put("and.pred", first, later, kind="p")
    text.do(f"@{releases} mbarrier.arrive.shared::cta.b64 _, {address(held, block.shared.empty)}")
    text.do(f"mov.b32 {held}, {barrier}")
    place.advance(loop)
    text.do("wgmma.wait_group.sync.aligned 0")
    return sums


def descriptor(text: Text, word: int, tile: Value) -> str:
    """Return a register with a matrix descriptor for a tile at an address, given that of one at address 0.

    In a cluster, bits above the 18 that a descriptor holds say which CTA an address is in.
    """
    start = text.put("bfe.u32", tile, 4, ADDRESS_BITS - 4)
    return text.put("add.u64", text.put("cvt.u64.u32", start, kind="d"), word, kind="d")


def moved(text: Text, word: str, offset: int) -> str:
    """Return a register with a descriptor whose tile begins `offset` bytes further on; the low half alone changes."""
    return text.put("add.u64", word, offset // UNIT_BYTES, kind="d") if offset else word


def _group_bytes(a: Operand, own: int, warpgroups: int) -> int:
    """Return the bytes from one warpgroup's rows of A to the next one's."""
    steps = {
        (later - first) - group * (a.offsets[own % len(a.offsets)][0] - a.offsets[0][0])
        for group in range(warpgroups)
        for i in range(own)
        for first, later in zip(a.offsets[i], a.offsets[group * own + i], strict=True)
    }
    if steps != {0}:
        raise LegalSatError("blocks of A lie at uneven distances, which ptx cannot print; plan another tile")
    return a.offsets[own % len(a.offsets)][0] - a.offsets[0][0]

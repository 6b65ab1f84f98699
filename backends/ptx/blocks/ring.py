"""The ring of stages: its barriers, the warp that fills it, and the place in it that the others have reached."""

from __future__ import annotations

from dataclasses import dataclass

from legalsat.backends.ptx.blocks.product import BARRIER_BYTES, Operand, Product, SharedMap
from legalsat.backends.ptx.text import Text, address, wait


@dataclass(frozen=True, slots=True)
class Block:
    """What every part of a kernel needs.

    Attributes:
        text: where instructions go. product, shared: the numbers.
        base: register with the shared address of the block's memory.
        warp, lane: registers with the warp's number in the block and the thread's in the warp.
        corner: registers with the tile's number along m and along n.
    """

    text: Text
    product: Product
    shared: SharedMap
    base: str
    warp: str
    lane: str
    corner: tuple[str, str]


class Place:
    """A place in the ring that moves on by one stage a turn: the k-th turn has stage k % stages."""

    def __init__(self, block: Block) -> None:
        self._block = block
        text = block.text
        self._stage = text.put("mov.b32", 0)
        self._parity = text.put("mov.b32", 0)
        self._turn = text.put("mov.b32", 0)

    def tile(self) -> str:
        """Return a register with the shared address of the stage."""
        return self._block.text.put("mad.lo.u32", self._stage, self._block.shared.stage, self._block.base)

    def barrier(self) -> str:
        """Return a register with the address of the stage's full barrier, less `shared.full`."""
        return self._block.text.put("mad.lo.u32", self._stage, BARRIER_BYTES, self._block.base)

    def wait_full(self, barrier: str) -> None:
        """Wait until the stage has been filled in this turn."""
        wait(self._block.text, address(barrier, self._block.shared.full), self._parity)

    def wait_empty(self, barrier: str) -> None:
        """Wait until the stage has been used in the turn before; a fresh barrier lets the first turns pass (MB-11)."""
        text = self._block.text
        wait(text, address(barrier, self._block.shared.empty), text.put("xor.b32", self._parity, 1))

    def later(self) -> str:
        """Return a predicate: this is not the first turn."""
        return self._block.text.when("ne.u32", self._turn, 0)

    def advance(self, loop: str) -> None:
        """Move on to the next stage; go to the label `loop` while there are tiles along K."""
        text, product = self._block.text, self._block.product
        text.do(f"add.u32 {self._stage}, {self._stage}, 1")
        wraps = text.when("eq.u32", self._stage, product.stages)
        text.do(f"@{wraps} mov.b32 {self._stage}, 0")
        text.do(f"@{wraps} xor.b32 {self._parity}, {self._parity}, 1")
        text.do(f"add.u32 {self._turn}, {self._turn}, 1")
        text.do(f"@{text.when('lt.u32', self._turn, product.tiles[2])} bra {loop}")


def start_barriers(block: Block) -> None:
    """Have one thread start all barriers: one arrival makes a stage empty."""
    text, shared, product = block.text, block.shared, block.product
    skip = text.label("STARTED")
    first = text.when("ne.u32", text.put("or.b32", block.warp, block.lane), 0)
    text.do(f"@{first} bra {skip}")
    for stage in range(product.stages):
        for at in (shared.full, shared.empty):
            start(text, address(block.base, at + BARRIER_BYTES * stage))
    start(text, address(block.base, shared.sums))
    text.do("fence.mbarrier_init.release.cluster")
    text.place(skip)


def start(text: Text, barrier: str) -> None:
    """Start a barrier that one arrival completes."""
    text.do(f"mbarrier.init.shared::cta.b64 {barrier}, 1")


def fill(block: Block) -> None:
    """Load A's and B's tiles, stage by stage; for one thread."""
    text, product, shared = block.text, block.product, block.shared
    sides = (
        ("a_map", product.a, 0, block.corner[0]),
        ("b_map", product.b, shared.b, block.corner[1]),
    )
    maps = [map_address(text, name) for name, *_ in sides]
    starts = [[text.put("mul.lo.u32", tile, step) for step in operand.tile_step] for _, operand, _, tile in sides]
    place, loop = Place(block), text.label("FILL")
    text.place(loop)
    barrier = place.barrier()
    place.wait_empty(barrier)
    full = text.put("add.u32", barrier, shared.full)
    expected = product.a.transaction_bytes + product.b.transaction_bytes
    text.do(f"mbarrier.arrive.expect_tx.shared::cta.b64 _, {address(full)}, {expected}")
    stage = place.tile()
    for (_, operand, at, _), tensor_map, start_at in zip(sides, maps, starts, strict=True):
        _load(text, operand, (tensor_map, start_at), (stage, at), full)
        for register, step in zip(start_at, operand.k_step, strict=True):
            if step:
                text.do(f"add.u32 {register}, {register}, {step}")
    place.advance(loop)


def _load(text: Text, operand: Operand, source: tuple[str, list[str]], to: tuple[str, int], barrier: str) -> None:
    (tensor_map, start_at), (register, at) = source, to
    for box in operand.boxes:
        begin = [text.put("add.u32", s, b) if b else s for s, b in zip(start_at, box.begin, strict=True)]
        target = text.put("add.u32", register, at + box.offset)
        text.do(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
            f"[{target}], [{tensor_map}, {{{', '.join(begin)}}}], [{barrier}]"
        )


def map_address(text: Text, name: str) -> str:
    """Return a register with the address of a parameter that is a tensor map."""
    return text.put("cvta.param.u64", text.put("mov.b64", name, kind="d"), kind="d")

"""A through registers: rows that start anywhere in a granule are read as if they started at its beginning."""

from __future__ import annotations

from dataclasses import dataclass

from legalsat.backends.ptx.consumer import GRANULE, SWIZZLE_ROW, Consumer
from legalsat.backends.ptx.cta import Ring, Tile
from legalsat.backends.ptx.descriptors import moved
from legalsat.backends.ptx.text import Value, braced
from legalsat.plans.product_kernel import BLOCK_ROWS

WORD = 4  # bytes of a register, of which a step has eight: a thread has words t and t + 4 of rows g and g + 8
ALIKE = 8  # rows of a phase that are neighbours where they are multiplied
PLACES = (0, 1, 4, 5)  # of words: from t on, those that are read for both, and the ones behind them


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that start alike.

    Attributes:
        offsets: bytes from the stage's start to each word, by step. beyond: whether the last step finds it in the next
            stage. shift: bits to drop of the first word. late: whether there are such, else the second is not read.
    """

    offsets: list[list[Value]]
    beyond: list[str]
    shift: Value
    late: str


class Realigner:
    """Finds the words of A, and shifts them into fragments as wgmma takes A from registers.

    Sets of fragments take turns, and no copy joins them: the assembler would merge what it copies, though a
    multiplication under way still reads the old values.
    """

    def __init__(self, consumer: Consumer, tile: Tile) -> None:
        self.text, self.plan, self.consumer, self.cta = consumer.text, consumer.plan, consumer, consumer.cta
        self._tile = tile
        self._rows = [
            [self._found(self.text.div(self.text.add(consumer.row, atom * BLOCK_ROWS + half * ALIKE), ALIKE))
             for half in range(2)]
            for atom in range(self.plan.atoms)
        ]  # fmt: skip
        self.fragments = [
            [[[self.text.new() for _ in range(4)] for _ in range(self.plan.atoms)]
             for _ in range(self.plan.fragment_steps)]
            for _ in range(2)
        ]  # fmt: skip

    def _found(self, some: Value) -> _Rows:
        """Return how a thread reads its row of eight of a phase, the ones of such a number in the tile."""
        text, steps, maps = self.text, self.plan.steps, self.cta.maps
        g, t, phase = text.div(self.consumer.lane, 4), text.rem(self.consumer.lane, 4), text.rem(some, maps)
        late = self.cta.late("A", phase, self._tile)
        row = text.add(text.mad(phase, self.plan.tile_m // maps, text.mul(text.div(some, maps), ALIKE)), g)
        shift = text.mul(text.rem(late, WORD), 8)
        offsets: list[list[Value]] = [[] for _ in range(steps)]
        beyond, granules = [], SWIZZLE_ROW // GRANULE
        for place in PLACES:
            word = text.add(text.add(text.div(late, WORD), t), place)
            granule, within = text.div(word, 4), text.mul(text.rem(word, 4), WORD)
            beyond.append(text.when("ge.s32", granule, granules - 2 * (steps - 1)))
            for step in range(steps):
                at = text.xor(text.rem(text.add(granule, 2 * step), granules), g)
                offsets[step].append(text.mad(row, SWIZZLE_ROW, text.mad(at, GRANULE, within)))
        return _Rows(offsets, beyond, shift, text.when("ne.s32", shift, 0))

    def read(self, ring: Ring, steps: tuple[int, ...], kept: int) -> None:
        """Read fragments of some steps of a stage; the last step's ends of rows lie in the next stage."""
        stage, after = self.cta.stage(ring), self.cta.stage(ring.next())
        for fragments, step in zip(self.fragments[kept], steps, strict=True):
            for fragment, halves in zip(fragments, self._rows, strict=True):
                self._read(fragment, halves, (stage, after), step)

    def _read(self, fragment: list[str], halves: list[_Rows], stages: tuple[Value, Value], step: int) -> None:
        text = self.text
        for half, rows in enumerate(halves):
            raw = []
            for i, (offset, beyond) in enumerate(zip(rows.offsets[step], rows.beyond, strict=True)):
                stage, after = stages
                if step == self.plan.steps - 1:
                    stage = text.put("selp.b32", after, stage, beyond)
                raw.append(text.held(0))
                only = f"@{rows.late} " if i % 2 else ""
                text.do(f"{only}ld.shared.b32 {raw[-1]}, [{text.add(stage, offset)}]")
            for i in range(2):
                words = ", ".join(raw[2 * i : 2 * i + 2])
                text.do(f"shf.r.wrap.b32 {fragment[half + 2 * i]}, {words}, {rows.shift}")

    def multiply(self, ring: Ring, steps: tuple[int, ...], kept: int) -> None:
        """Multiply fragments by steps of a stage of B."""
        b = self.consumer.descriptor_of_b(self.cta.stage(ring))
        for fragments, step in zip(self.fragments[kept], steps, strict=True):
            for atom, words in enumerate(fragments):
                self.consumer.multiply_add(atom, braced(words), moved(self.text, b, self.plan.b_offsets[step]))

"""Which thread holds which word of a tile: register layouts that read and write swizzled shared memory at full rate.

A tile whose modes are powers of two is indexed by bits, and shared addresses are linear in them over GF(2), swizzle
included. A register layout deals the bits out to registers, lanes and warps. A warp-wide access then costs as many
wavefronts as distinct words meet in one bank, which is a difference of two ranks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from legalsat.backends.triton.kernel import CopyKernel, TensorMapShape
from legalsat.program.pipeline import Vectors, walk

LANE_BITS = 5
BANK_BITS = range(2, 7)
VECTOR_BYTES = (16, 8, 4, 2, 1)


@dataclass(frozen=True, order=True)
class Bit:
    """Bit `power` of the index of one joint mode inside the tile: worth 2^power words."""

    mode: int
    power: int


@dataclass(frozen=True)
class RegisterLayout:
    """The bits of a tile that select the register, the lane and the warp, lowest first.

    Attributes:
        registers: bits that one thread holds.
        lanes: five bits.
        warps: the rest.
    """

    registers: tuple[Bit, ...]
    lanes: tuple[Bit, ...]
    warps: tuple[Bit, ...]

    def bases(self, place: Callable[[Bit], list[int]]) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
        """The layout as Triton writes it: for every bit the coordinate that `place` gives it."""
        return [place(b) for b in self.registers], [place(b) for b in self.lanes], [place(b) for b in self.warps]


def bits_by_address(kernel: CopyKernel, order: Iterable[int]) -> tuple[Bit, ...]:
    """The bits of the tile, lowest address first, where `order` lists the modes slowest first."""
    modes = tuple(order)[::-1]
    return tuple(Bit(m, power) for m in modes for power in range(kernel.tile[m].bit_length() - 1))


def shared_addresses(kernel: CopyKernel, order: Iterable[int], shape: TensorMapShape, swizzle: int) -> dict[Bit, int]:
    """Byte address, relative to the buffer, of the word that each bit alone selects.

    The buffer is what Triton's NVMMASharedLayout describes: columns of one swizzle span, each holding all rows, or
    plain row-major order without a swizzle. The exclusive or of two bits' addresses is that of both bits.
    """
    row = shape.block[-1] * kernel.word_bytes
    column = swizzle or row
    rows = math.prod(shape.block[:-1])
    addresses = {}
    flat = kernel.word_bytes
    for bit in bits_by_address(kernel, order):
        inner, outer = flat % row, flat // row
        address = inner % column + outer * column + inner // column * column * rows
        if swizzle:
            address ^= (address >> 7 & (swizzle // 16 - 1)) << 4
        addresses[bit] = address
        flat *= 2
    return addresses


def rank(vectors: Iterable[int]) -> int:
    """Rank over GF(2) of integers read as bit vectors."""
    basis: list[int] = []
    for vector in vectors:
        reduced = vector
        for pivot in basis:
            reduced = min(reduced, reduced ^ pivot)
        if reduced:
            basis.append(reduced)
    return len(basis)


def wavefronts(lanes: Sequence[Bit], addresses: dict[Bit, int], vector_bytes: int) -> int:
    """Wavefronts of one warp-wide access in which each lane moves `vector_bytes` adjacent bytes.

    64-bit accesses go by half-warps, 128-bit ones by quarter-warps (measured on an H200); lanes that share a 4-byte
    word share its transfer.
    """
    phases = max(1, vector_bytes // 4)
    phase_bits = LANE_BITS - (phases.bit_length() - 1)
    words = [addresses[b] >> 2 for b in lanes[:phase_bits]]
    banks = (1 << len(BANK_BITS)) - 1
    return int(phases * 2 ** (rank(words) - rank(w & banks for w in words)))


def matrix_layout(source: Sequence[Bit], target: Sequence[Bit], warps: int) -> RegisterLayout | None:
    """The layout that ldmatrix reads and a transposing stmatrix writes, for 16-bit words; None where it cannot be.

    An 8 x 8 matrix has rows of 16 bytes in the source and columns of 16 bytes in the target: lanes hold pairs of
    neighbours along the source's three lowest bits, and differ along the target's three lowest.
    """
    along, across = tuple(source[:3]), tuple(target[:3])
    if set(along) & set(across) or len(source) < LANE_BITS + 1 + (warps.bit_length() - 1):
        return None
    return _deal(source, along[:1], along[1:] + across, warps)


def vector_layout(
    kernel: CopyKernel, sides: Sequence[tuple[Sequence[Bit], dict[Bit, int]]], warps: int
) -> RegisterLayout:
    """The layout with the fewest wavefronts on all `sides`, each a list of bits by address and their addresses.

    A thread holds the words that make one vector on each side; the lanes of one phase are searched for the choice
    whose addresses fall into different banks.
    """
    source = sides[0][0]
    free = len(source) - LANE_BITS - (warps.bit_length() - 1)
    best: tuple[int, int, RegisterLayout] | None = None
    for vector_bytes in VECTOR_BYTES:
        width = (vector_bytes // kernel.word_bytes).bit_length() - 1
        held = tuple(dict.fromkeys(itertools.chain(*(bits[:width] for bits, _ in sides))))
        if vector_bytes < kernel.word_bytes or len(held) > free:
            continue
        phase_bits = LANE_BITS - (max(1, vector_bytes // 4).bit_length() - 1)
        near = tuple(
            dict.fromkeys(b for pair in itertools.zip_longest(*(bits for bits, _ in sides)) for b in pair if b)
        )
        candidates = [b for b in near if b not in held][:12]
        for phase in itertools.combinations(candidates, phase_bits):
            layout = _deal(source, held, phase, warps)
            cost = sum(wavefronts(layout.lanes, addresses, vector_bytes) for _, addresses in sides) * 16 // vector_bytes
            if best is None or (cost, -vector_bytes) < best[:2]:
                best = cost, -vector_bytes, layout
    assert best is not None, "a vector of one word always fits"
    return best[2]


def coalesced_layout(target: Sequence[Bit], warps: int, vector_words: int) -> RegisterLayout:
    """The layout in which a warp's plain stores cover adjacent words of the target, `vector_words` a lane."""
    width = min(vector_words.bit_length() - 1, max(0, len(target) - LANE_BITS - (warps.bit_length() - 1)))
    return _deal(target, tuple(target[:width]), tuple(target[width : width + LANE_BITS]), warps)


def _deal(order: Sequence[Bit], held: tuple[Bit, ...], lanes: tuple[Bit, ...], warps: int) -> RegisterLayout:
    """Fill up the lanes from the low bits of `order`, the warps from its high bits; registers get the rest."""
    rest = [b for b in order if b not in held and b not in lanes]
    missing = LANE_BITS - len(lanes)
    lanes, rest = lanes + tuple(rest[:missing]), rest[missing:]
    cut = len(rest) - (warps.bit_length() - 1)
    return RegisterLayout(held + tuple(rest[:cut]), lanes, tuple(rest[cut:]))


def exchanges_bytes(kernel: CopyKernel) -> bool:
    """Whether 8-bit words travel as pairs that are re-formed in registers, so that the 16-bit matrix moves apply."""
    if kernel.word_bits != 8 or kernel.target_groups is None or kernel.direct:
        return False
    source, target = _orders(kernel)
    innermost = source[0].mode == kernel.source_order[-1] and target[0].mode == kernel.target_order[-1]
    return innermost and not set(source[:4]) & set(target[:4]) and _pair_layout(kernel) is not None


def staged_layout(kernel: CopyKernel) -> RegisterLayout:
    """The layout in which a tile is read from the load buffer and written to the staging buffer.

    Where `exchanges_bytes` it deals out pairs of words, and the lowest bit of the source's innermost mode, which is
    inside a pair, does not occur.
    """
    assert kernel.store_map is not None
    source, target = _orders(kernel)
    layout = None
    if kernel.word_bits == 16:
        layout = matrix_layout(source, target, kernel.warps)
    elif exchanges_bytes(kernel):
        layout = _pair_layout(kernel)
    if layout is not None:
        return layout
    sides = (
        (source, shared_addresses(kernel, kernel.source_order, kernel.load_map, kernel.swizzle_source)),
        (target, shared_addresses(kernel, kernel.target_order, kernel.store_map, kernel.swizzle_target)),
    )
    return vector_layout(kernel, sides, kernel.warps)


def plain_layouts(kernel: CopyKernel) -> tuple[RegisterLayout, RegisterLayout]:
    """How a tile for a plain store is read from the load buffer, and how it is written to the target."""
    source, target = _orders(kernel)
    store = coalesced_layout(target, kernel.warps, _vector_words(kernel))
    if source == target:
        return store, store
    addresses = shared_addresses(kernel, kernel.source_order, kernel.load_map, kernel.swizzle_source)
    return vector_layout(kernel, ((source, addresses),), kernel.warps), store


def _orders(kernel: CopyKernel) -> tuple[tuple[Bit, ...], tuple[Bit, ...]]:
    return bits_by_address(kernel, kernel.source_order), bits_by_address(kernel, kernel.target_order)


def _pair_layout(kernel: CopyKernel) -> RegisterLayout | None:
    """A matrix layout of pairs; the target's lowest bit sits in a register, where two pairs become two others."""
    source, target = _orders(kernel)
    layout = matrix_layout([b for b in source[1:] if b != target[0]], target[1:], kernel.warps)
    if layout is None:
        return None
    return RegisterLayout((layout.registers[0], target[0], *layout.registers[1:]), layout.lanes, layout.warps)


def _vector_words(kernel: CopyKernel) -> int:
    """Words that the program's stores move at a time."""
    return next(op.bytes for op in walk(kernel.body) if isinstance(op, Vectors)) // kernel.word_bytes

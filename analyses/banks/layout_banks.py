"""How many wavefronts a register layout over a shared layout takes, counted without listing every address.

Shared layouts repeat: past the product of all extents but the last, every offset moves by the last stride, and moving
by a multiple of the swizzles' periods moves every address alike, which turns the banks and changes no count. So the
count of an instruction depends on where it starts up to that period. How many instructions start at each place is a
cyclic convolution of the modes of warps and values, and one instruction of each is looked at. Where nothing is
swizzled and strided lanes are served all together, even that is not needed: their modes say how many words a bank has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.banks.bank_sets import residues, worst_bank
from legalsat.analyses.banks.bank_wavefronts import least_wavefronts, shared_access, wavefronts
from legalsat.checks import integer
from legalsat.errors import InvalidInput, NoSuchLayout
from legalsat.layout import Layout, Offsets, flat_modes, from_modes
from legalsat.layout.algebra import composition
from legalsat.layout.int_tuple import Basis
from legalsat.layout.linear_layout import LinearLayout
from legalsat.layout.swizzle import AnyLayout, ComposedLayout, Swizzle
from legalsat.printable import shown
from legalsat.targets import BankModel, Target
from legalsat.targets import target as target_called
from legalsat.units.shared_access import SharedAccess

BATCH = 4096  # instructions looked at together
MOST_LISTED = 2**22  # addresses: of a tile that fills shared memory, each byte some twenty times
MOST_ELEMENTS = 2**40  # of a tile, those that share bytes counted each
FLIPPED = "128B_atom_32B_flip_8B"
REGISTER_BITS = 32

SharedLayout: TypeAlias = AnyLayout | LinearLayout
RegisterLayout: TypeAlias = Layout | LinearLayout
Modes: TypeAlias = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class LayoutWavefronts:
    """What all warps' instructions take together to move a tile between registers and shared memory.

    Attributes:
        op: the instruction.
        instructions: warp-wide instructions.
        total: wavefronts.
        least: wavefronts that no shared layout goes below: one for each phase of each instruction.
        examined: instructions that were looked at; the others are those, moved.
    """

    op: str
    instructions: int
    total: int
    least: int
    examined: int

    @property
    def conflicts(self) -> int:
        """Wavefronts beyond the least."""
        return self.total - self.least


def layout_wavefronts(
    op: str,
    registers: RegisterLayout,
    shared: SharedLayout,
    target: str | Target,
    *,
    element_bits: int,
    swizzle: Swizzle | str = "none",
    base: int = 0,
) -> LayoutWavefronts:
    """Return the wavefronts of all instructions that move a tile between registers and shared memory.

    Values of a thread are moved in their order, as many with one instruction as it takes: those must lie side by side
    in shared memory. For ldmatrix and stmatrix a thread holds, matrix after matrix, 32 bits of row `lane / 4`, or with
    ".trans" two elements of column `lane / 4`, as their documents say. The counts are exact, and take no longer for
    more warps or values. Only where the lanes of a warp are no strided layout is every address listed, 2^22 of them at
    most.

    Args:
        op: an instruction of `bank_wavefronts`.
        registers: who holds what: a layout of the modes (thread, value) to the index, or (with `Basis` strides) the
            coordinate, of an element in the tile; or a linear layout from "register", "lane" and "warp", as Triton's.
        shared: the tile's coordinate or index, first mode fastest, to an offset in elements: any extents and strides,
            or a swizzle of offsets on top; or a linear layout from an offset to the tile's dimensions, as Triton's.
        target: a target or its name.
        element_bits: bits of an element.
        swizzle: of byte addresses in shared memory, or the name of the copy engine's (`Swizzle.tma`), which are all
            but "128B_atom_32B_flip_8B": it exchanges bits at two distances (FACTS SW-06), and a `Swizzle` at one.
        base: byte address of the tile, which ends before `Target.shared_bytes_per_processor`.

    Raises:
        InvalidInput: values that do not lie as the instruction moves them, addresses that are misaligned, negative or
            beyond shared memory, registers that leave the tile, threads that fill no warp, or more than 2^22 addresses
            to list.
        UnknownPhases: nobody has published how the chip serves the instruction.
    """
    access = shared_access(op, target)
    chip = target_called(target)
    lanes, room = chip.lanes, chip.shared_bytes_per_processor
    tile = _Tile.of(shared, element_bits, swizzle, base, room)
    per_lane = _elements(access, tile.element_bits)
    counted = _by_modes(access, registers, tile, lanes, per_lane)
    if counted is not None:
        return counted
    total = least = instructions = examined = 0
    for bits, weights in _patterns(registers, tile, lanes, per_lane):
        for first in range(0, len(bits), BATCH):
            part = slice(first, first + BATCH)
            addresses = _addresses(access, bits[part], tile.element_bits)
            if addresses.max() + access.bytes > room:
                raise InvalidInput(
                    f"swizzle {tile.swizzle} of the tile leads to byte {addresses.max() + access.bytes - 1} of {room}; "
                    "choose one that stays in shared memory"
                )
            counts = zip(
                weights[part],
                wavefronts(access, addresses).tolist(),
                least_wavefronts(access, addresses).tolist(),
                strict=True,
            )
            for weight, found, fewest in counts:
                total += weight * found
                least += weight * fewest
                instructions += weight
        examined += len(bits)
    return LayoutWavefronts(access.name, instructions, total, least, examined)


@dataclass(frozen=True, slots=True)
class _Tile:
    """A tile in shared memory: from an index to the bit where the element starts.

    Either `plain` plus `offset` gives offsets, which `outer` permutes, or `table` lists the offsets.
    """

    extents: tuple[int, ...]
    plain: Layout | None
    offset: int
    outer: Swizzle
    table: Offsets | None
    element_bits: int
    swizzle: Swizzle
    base: int

    @staticmethod
    def of(shared: SharedLayout, element_bits: int, swizzle: Swizzle | str, base: int, room: int) -> _Tile:
        bits = integer(element_bits, "element_bits", low=1, high=128)
        if bits.bit_count() != 1:
            raise InvalidInput(f"element_bits is {bits}; give a power of two")
        bytes_swizzle = _swizzle(swizzle, room)
        at = integer(base, "base", low=0, high=room - 1)
        plain, offset, outer, table = None, 0, Swizzle(0, 0, 0), None
        if isinstance(shared, LinearLayout):
            sizes = tuple(shared.out_sizes.values())
            _require_few(math.prod(shared.in_sizes.values()), "the shared layout")
            table = shared.right_inverse().table()
        elif isinstance(shared, Layout):
            sizes, plain = tuple(mode.size for mode in shared), shared
        elif isinstance(shared, ComposedLayout):
            sizes = tuple(mode.size for mode in shared)
            _require_short(shared, 8 * room)
            if isinstance(shared.outer, Swizzle) and isinstance(shared.inner, Layout):
                plain, offset, outer = shared.inner, shared.offset, shared.outer
            else:
                _require_few(shared.size, "the shared layout")
                table = shared.offsets()
        else:
            raise InvalidInput(f"shared is {shown(shared)}; give a Layout, a ComposedLayout or a LinearLayout")
        if plain is not None and any(isinstance(d, Basis) for _, d in flat_modes(plain)):
            raise InvalidInput(f"shared layout {shared} yields coordinates; give one that yields offsets")
        if math.prod(sizes) > MOST_ELEMENTS:
            raise InvalidInput(f"the tile has {math.prod(sizes)} elements; give at most {MOST_ELEMENTS}")
        # A swizzle moves elements inside its own period, so what is reached without it says enough.
        if table is not None:
            low, high = int(table.min()), int(table.max())
        else:
            assert plain is not None
            modes = flat_modes(plain)
            low, high = (offset + sum((n - 1) * bound(d, 0) for n, d in modes) for bound in (min, max))
        if 8 * at + (high + 1) * bits > 8 * room or -low * bits > 8 * room:
            raise InvalidInput(
                f"the tile reaches from element {low} to {high} of {bits} bits, its base being byte {at}; "
                f"keep it within the {room} bytes of shared memory"
            )
        return _Tile(sizes, plain, offset, outer, table, bits, bytes_swizzle, at)

    @property
    def size(self) -> int:
        return math.prod(self.extents)

    def period(self, alignment: int) -> int:
        """Return elements by which all offsets may move, so that all addresses move alike and stay aligned."""
        whole = 8 * math.lcm(self.swizzle.period, alignment, 4)
        return math.lcm(self.outer.period, whole // math.gcd(whole, self.element_bits))

    def bits(self, index: Offsets) -> Offsets:
        """Return where elements of the tile, given by index, start."""
        if self.table is not None:
            return self.placed(self.table[index])
        assert self.plain is not None
        return self.placed(self.plain(index))

    def placed(self, offsets: Offsets) -> Offsets:
        """Return where elements start, given what `plain` or `table` yields."""
        start = 8 * self.base + self.outer(np.asarray(offsets + self.offset)) * self.element_bits
        swizzled: Offsets = (self.swizzle(start >> 3) << 3) | (start & 7)
        return swizzled


def _swizzle(swizzle: Swizzle | str, room: int) -> Swizzle:
    if not isinstance(swizzle, Swizzle | str):
        raise InvalidInput(f"swizzle is {shown(swizzle)}; give a Swizzle or its name")
    if swizzle == FLIPPED:
        raise InvalidInput(
            f"swizzle {FLIPPED} exchanges halves of 16 bytes besides chunks of 32, at two distances, and a Swizzle has "
            "one (FACTS SW-06); list the addresses and ask bank_wavefronts"
        )
    found = swizzle if isinstance(swizzle, Swizzle) else Swizzle.tma(swizzle)
    if found.period > 1 << room.bit_length():
        raise InvalidInput(
            f"swizzle {found} repeats after {found.period} bytes; keep it within {room} of shared memory"
        )
    return found


def _require_few(addresses: int, what: str) -> None:
    if addresses > MOST_LISTED:
        raise InvalidInput(
            f"{what} has {addresses} places that would be listed one by one; give at most {MOST_LISTED}, "
            "or strided layouts of lanes and values"
        )


def _require_short(layout: AnyLayout | Swizzle, most: int) -> None:
    """Raise for strides and offsets beyond `most` in a composed layout, whose sums would leave 64 bits."""
    if isinstance(layout, ComposedLayout):
        for part in (layout.outer, layout.inner):
            _require_short(part, most)
        numbers = [abs(layout.offset)]
    elif isinstance(layout, Swizzle):
        numbers = [layout.period]
    else:
        numbers = [abs(d) for _, d in flat_modes(layout) if not isinstance(d, Basis)]
    if max(numbers) > 2 * most:
        raise InvalidInput(f"shared layout steps over {max(numbers)} elements; keep it within shared memory")


def _patterns(registers: RegisterLayout, tile: _Tile, lanes: int, per_lane: int) -> Iterator[tuple[Offsets, list[int]]]:
    """Yield where the elements of instructions start, shape (n, lanes, per_lane), and how many each stands for."""
    if isinstance(registers, Layout):
        index = _flat_registers(registers, tile)
        threads, values = _checked(index[0].size, index[1].size, lanes, per_lane)
        found = _by_period(index, tile, lanes, per_lane)
        if found is not None:
            yield found
            return
        _require_few(threads * values, "the register layout")
        held = index.offsets().reshape(values, threads).T
    elif isinstance(registers, LinearLayout):
        _require_few(math.prod(registers.in_sizes.values()), "the register layout")
        held = _linear_registers(registers, tile)
        threads, values = _checked(held.shape[0], held.shape[1], lanes, per_lane)
    else:
        raise InvalidInput(f"registers are {shown(registers)}; give a Layout of (thread, value) or a LinearLayout")
    bits = tile.bits(held)
    each = bits.reshape(threads // lanes, lanes, values // per_lane, per_lane).swapaxes(1, 2)
    yield each.reshape(-1, lanes, per_lane), [1] * (threads * values // lanes // per_lane)


def _by_period(index: Layout, tile: _Tile, lanes: int, per_lane: int) -> tuple[Offsets, list[int]] | None:
    """Return one instruction of each start up to the period, or None where lanes or values are not strided."""
    if tile.plain is None:
        return None
    # 16 bytes are the widest alignment of an instruction.
    period, moves = tile.period(16), index
    place: Callable[[Offsets], Offsets] = tile.bits
    try:
        moves, place = composition(tile.plain, index), tile.placed
    except NoSuchLayout:
        # Offsets are no strided function of thread and value, but repeat along the index.
        modes = flat_modes(tile.plain)
        stride = modes[-1][1]
        period = math.prod(n for n, _ in modes[:-1]) * (period // math.gcd(period, stride))
        if any(d < 0 for _, d in flat_modes(index)):
            return None
    split = _split(moves, lanes, per_lane)
    if split is None:
        return None
    lane, inside, steps = split
    lowest = sum((n - 1) * min(d, 0) for n, d in flat_modes(moves))
    if place == tile.placed and lowest + tile.offset < 0:
        raise InvalidInput(f"the tile reaches {-lowest - tile.offset} elements below its base; raise the offset")
    _require_few(_sums(steps, period), "the register layout")
    starts = residues(steps, period)
    first = lane.offsets()[:, None] + inside.offsets()[None, :]
    _require_few(len(starts) * first.size, "the register layout")
    # Starts are moved up by whole periods, so that no sum is negative.
    up = -(lowest // period) * period if lowest < 0 else 0
    at = np.array([*starts], dtype=np.int64)[:, None, None] + up
    return place(at + first), [*starts.values()]


def _split(moves: Layout, lanes: int, per_lane: int) -> tuple[Layout, Layout, Modes] | None:
    """Return lanes, what one instruction moves for each, and steps of warps and later values; None if not strided."""
    thread, value = moves
    try:
        lane, inside = composition(thread, Layout(lanes)), composition(value, Layout(per_lane))
        warps = composition(thread, Layout(thread.size // lanes, lanes))
        later = composition(value, Layout(value.size // per_lane, per_lane))
    except NoSuchLayout:
        return None
    return lane, inside, [*flat_modes(warps), *flat_modes(later)]


def _by_modes(
    access: SharedAccess, registers: RegisterLayout, tile: _Tile, lanes: int, per_lane: int
) -> LayoutWavefronts | None:
    """Return the counts without an address: a phase of strided lanes takes what `worst_bank` says of their modes.

    None where addresses are needed: several phases, a swizzle, lanes that are not strided, or a layout to refuse.
    """
    if len(access.phases) > 1 or tile.plain is None or tile.swizzle.bits or tile.outer.bits:
        return None
    if not isinstance(registers, Layout):
        return None
    index = _flat_registers(registers, tile)
    threads, values = _checked(index[0].size, index[1].size, lanes, per_lane)
    try:
        moves = composition(tile.plain, index)
    except NoSuchLayout:
        return None
    split = _split(moves, lanes, per_lane)
    if split is None:
        return None
    lane, inside, steps = split
    bits, modes = tile.element_bits, flat_modes(lane)
    distances = [8 * tile.base + tile.offset * bits, *(d * bits for _, d in (*modes, *steps))]
    beside = inside.offsets().tolist() == [*range(per_lane)]
    below = tile.offset + sum((n - 1) * min(d, 0) for n, d in flat_modes(moves)) < 0
    if not beside or below or any(d % (8 * access.alignment) for d in distances):
        return None
    banks = BankModel(access.banks)
    # Steps of whole words turn the banks and change no count.
    starts = residues(steps, max(1, 8 * banks.bytes // bits))
    in_bytes = [(n, (d * bits // 8,)) for n, d in modes]
    total = 0
    for start, number in starts.items():
        first = tile.base + (tile.offset + start) * bits // 8
        total += number * worst_bank(in_bytes, access.bytes, banks, first)
    count = threads * values // lanes // per_lane
    return LayoutWavefronts(access.name, count, total, count, len(starts))


def _sums(modes: Modes, modulus: int) -> int:
    """Return a number that `residues` adds up no more sums than."""
    found, sums = 1, 0
    for n, d in modes:
        steps = min(n, modulus // math.gcd(modulus, d))
        sums += found * steps
        found = min(found * steps, modulus)
    return sums


def _flat_registers(registers: Layout, tile: _Tile) -> Layout:
    """Return registers as a layout of (thread, value) to the index in the tile, checked to stay inside."""
    if registers.rank != 2:
        raise InvalidInput(f"register layout {registers} has {registers.rank} modes; give two, (thread, value)")
    modes = flat_modes(registers)
    if not any(isinstance(d, Basis) for _, d in modes):
        low, high = (sum((n - 1) * bound(d, 0) for n, d in modes) for bound in (min, max))
        if low < 0 or high >= tile.size:
            raise InvalidInput(
                f"register layout {registers} names elements {low} to {high} of a tile of {tile.size}; stay inside"
            )
        return registers
    reach = [0] * len(tile.extents)
    scales = [math.prod(tile.extents[:axis]) for axis in range(len(tile.extents))]
    flat = []
    for n, d in modes:
        if not isinstance(d, Basis):
            if d and n > 1:
                raise InvalidInput(f"register layout {registers} mixes coordinates and indices; give all as Basis")
            flat.append((n, 0))
            continue
        if len(d.path) != 1 or d.path[0] >= len(tile.extents) or d.scale < 0:
            raise InvalidInput(
                f"stride {d} names no axis of a tile of {len(tile.extents)} axes; step along one of them"
            )
        reach[d.path[0]] += (n - 1) * d.scale
        flat.append((n, d.scale * scales[d.path[0]]))
    for axis, (far, extent) in enumerate(zip(reach, tile.extents, strict=True)):
        if far >= extent:
            raise InvalidInput(f"register layout {registers} reaches {far} in axis {axis} of {extent}; stay inside")
    split = len(flat_modes(registers[0]))
    sides = [from_modes(flat[:split]), from_modes(flat[split:])]
    return Layout(tuple(side.shape for side in sides), tuple(side.stride for side in sides))


def _linear_registers(registers: LinearLayout, tile: _Tile) -> Offsets:
    """Return the index of every value of every thread, shape (threads, values)."""
    sizes, outs = registers.in_sizes, tuple(registers.out_sizes.values())
    unknown = [name for name, size in sizes.items() if name not in {"register", "lane", "warp"} and size > 1]
    if unknown or "lane" not in sizes or "register" not in sizes:
        raise InvalidInput(f"register layout has inputs {', '.join(sizes)}; give register, lane and warp")
    if outs != tile.extents:
        raise InvalidInput(f"register layout covers a tile of {outs}, the shared layout one of {tile.extents}")
    names = [*sizes]
    table = registers.table().reshape([sizes[name] for name in reversed(names)])
    axes = {name: len(names) - 1 - place for place, name in enumerate(names)}
    order = [axes[name] for name in ("warp", "lane", "register") if name in axes]
    others = [axis for axis in range(len(names)) if axis not in order]
    return np.transpose(table, [*others, *order]).reshape(-1, sizes["register"])


def _checked(threads: int, values: int, lanes: int, per_lane: int) -> tuple[int, int]:
    """Return threads and values, which must fill warps and instructions."""
    if threads % lanes:
        raise InvalidInput(f"{threads} threads fill no whole number of warps of {lanes}; give a multiple")
    if values % per_lane:
        raise InvalidInput(
            f"{values} values a thread fill no whole number of instructions of {per_lane}; use a narrower instruction"
        )
    return threads, values


def _elements(access: SharedAccess, element_bits: int) -> int:
    """Return how many elements one instruction moves for a lane."""
    bits = REGISTER_BITS * access.matrices or 8 * access.bytes
    if access.transposed and element_bits != 16:
        raise InvalidInput(f"{access.name} transposes elements of 16 bits, not {element_bits}; use another instruction")
    if bits % element_bits or (access.matrices and element_bits > REGISTER_BITS):
        raise InvalidInput(f"{access.name} moves {bits} bits a lane, no multiple of elements of {element_bits} bits")
    return bits // element_bits


def _addresses(access: SharedAccess, bits: Offsets, element_bits: int) -> NDArray[np.int64]:
    """Return the addresses that instructions are given, shape (n, addresses), from where their elements start."""
    if not access.matrices:
        first, expected = bits[:, :, 0], np.arange(bits.shape[2]) * element_bits
        _check_beside(access, bits, first[..., None] + expected)
    else:
        # Matrix, lane / 4, lane % 4, element.
        parts = bits.reshape(len(bits), 8, 4, access.matrices, -1).transpose(0, 3, 1, 2, 4)
        if access.transposed:
            rows = parts[:, :, 0].reshape(len(bits), access.matrices, 8)
            along = rows.reshape(len(bits), access.matrices, 1, 4, 2) + 16 * np.arange(8)[:, None, None]
        else:
            rows = parts[:, :, :, 0, 0]
            within = np.arange(128 // element_bits).reshape(4, -1) * element_bits
            along = rows[..., None, None] + within
        _check_beside(access, bits, along.transpose(0, 2, 3, 1, 4).reshape(bits.shape))
        first = rows.reshape(len(bits), -1)
    if (first % 8).any():
        raise InvalidInput(f"{access.name} starts inside a byte; let vectors start at whole bytes")
    return first // 8


def _check_beside(access: SharedAccess, bits: Offsets, expected: Offsets) -> None:
    """Raise `InvalidInput` unless elements start where the instruction takes them from."""
    wrong = np.argwhere(bits != expected)
    if len(wrong):
        number, lane, value = wrong[0]
        unit = f"rows of {access.matrices} matrices" if access.matrices else f"{access.bytes} bytes"
        raise InvalidInput(
            f"value {value} of lane {lane} lies {(bits - expected)[number, lane, value]} bits beside the {unit} that "
            f"{access.name} moves; use a narrower instruction, or lay values out side by side"
        )

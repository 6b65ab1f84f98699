"""Tiles worth trying where the user names none: powers of two that give both sides long rows."""

from __future__ import annotations

import math
from dataclasses import replace

from legalsat.logic import round_up
from legalsat.operators import Move, access_of, window_modes
from legalsat.operators.access import Access, Mode
from legalsat.targets import GRANULE_BYTES, MAX_BOX_EXTENT, MAX_COLUMN_PIXELS

# Rows of 128 bytes fill the widest swizzle's span; a tile below 4 KiB does not pay for its barrier, and above 32 KiB
# too few are in flight.
TURNED_ROWS = ((128, 128), (256, 128), (128, 256), (256, 256))  # bytes on the source's and on the target's side
ROW_BYTES = (128, 64, 32)  # of a swizzle's span
STRAIGHT_BYTES = (8192, 16384, 32768)
LEAST_BYTES = 4096
LANES = 32
UNLIMITED = 2**62


def proposals(access: Access) -> list[Access]:
    """Return the access with different tiles, without duplicates; every tile extent is a power of two."""
    modes = access.modes
    word = _power_of_two_above(access.word)
    by_source, by_target = (_fastest_first(modes, side) for side in ("source", "target"))
    # Threads address a tile as one box, and a 64-bit word is two to the copy engine.
    box = [MAX_BOX_EXTENT * min(word, 32) // word] * len(modes)
    found: dict[Access, None] = {}
    if by_source[:1] == by_target[:1]:
        for volume, limits in ((STRAIGHT_BYTES[0], box), *((v, [UNLIMITED] * len(modes)) for v in STRAIGHT_BYTES)):
            tile = [1] * len(modes)
            _grow(tile, modes, by_source, volume * 8 // word, limits)
            found[_tiled(access, tile, (by_source,))] = None
    else:
        for source_row, target_row in TURNED_ROWS:
            tile = [1] * len(modes)
            _span(tile, modes, by_source, source_row * 8 // word)
            _span(tile, modes, by_target, target_row * 8 // word)
            _grow(tile, modes, by_source, LEAST_BYTES * 8 // word, box)
            found[_tiled(access, tile, (by_source, by_target))] = None
    return list(found)


def window_proposals(operator: Move) -> list[Access]:
    """Return the windows of a convolution with different tiles, without duplicates: of a tap, or a row of narrow ones.

    Runs of pixels, as columns bring them, and blocks of windows, which suit threads.
    """
    whole = access_of(operator)
    channels, *taps = window_modes(operator)[: 1 + len(operator.sweeps)]
    granule = max(1, 8 * GRANULE_BYTES // whole.word)
    filled = round_up(channels.extent, granule)
    rows = [min(filled, 8 * span // whole.word) for span in ROW_BYTES]
    rows += [filled] * (filled <= MAX_BOX_EXTENT) + [channels.extent * taps[0].extent] * (filled * whole.word < 512)
    found: dict[Access, None] = {}
    for columns in dict.fromkeys(row for row in rows if row > 0):
        for volume in STRAIGHT_BYTES:
            pixels = min(MAX_COLUMN_PIXELS, _power_of_two_above(8 * volume // (whole.word * columns)))
            found[access_of(operator, (pixels, columns))] = None
    still = [mode for mode in whole.modes if mode[:3] not in {tap[:3] for tap in taps}]
    for block in proposals(Access(whole.word, tuple(still))):
        tiles = {mode[:3]: mode.tile for mode in block.modes}
        found[replace(whole, modes=tuple(m._replace(tile=tiles.get(m[:3], 1)) for m in whole.modes))] = None
    return list(found)


def _tiled(access: Access, tile: list[int], orders: tuple[list[int], ...]) -> Access:
    """Return the access with this tile, no side's fastest mode shorter than a granule even where the tensor is.

    A tile has a word for each lane of a warp at least.
    """
    for order in orders:
        for fastest in order[:1]:
            tile[fastest] = max(tile[fastest], GRANULE_BYTES * 8 // _power_of_two_above(access.word))
    for fastest in orders[0][:1]:
        tile[fastest] *= max(1, LANES // math.prod(tile))
    return Access(access.word, tuple(m._replace(tile=t) for m, t in zip(access.modes, tile, strict=True)))


def _fastest_first(modes: tuple[Mode, ...], side: str) -> list[int]:
    return sorted(range(len(modes)), key=lambda i: (getattr(modes[i], side) == 0, getattr(modes[i], side)))


def _span(tile: list[int], modes: tuple[Mode, ...], order: list[int], words: int) -> None:
    """Make the fastest modes of `order` span `words` together."""
    for i in order:
        if words <= 1:
            return
        tile[i] = max(tile[i], min(_power_of_two_above(modes[i].extent), words))
        words //= tile[i]


def _grow(tile: list[int], modes: tuple[Mode, ...], order: list[int], words: int, limits: list[int]) -> None:
    """Grow the tile along `order`, fastest mode first, until it holds `words` or ends or meets its limits."""
    held = math.prod(tile)
    for i in order:
        grown = min(_power_of_two_above(modes[i].extent), limits[i], tile[i] * words // held)
        if grown > tile[i]:
            held = held // tile[i] * grown
            tile[i] = grown


def _power_of_two_above(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()

"""Rows of C that begin anywhere, stored by the same C++ on a host, lane by lane, with guards around C."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
from stored_on_host import KINDS, Room, compiled

from legalsat.backends.cute.product import part

ROWS = 16  # of a warp's part
SECTOR = 32

# Bytes of an element, columns of a tile, and those that it computes of the next one's.
KERNELS = [
    *((size, columns, 0) for size in (2, 4) for columns in (8, 16, 24, 48, 64, 72, 128, 176, 192, 256)),
    *((1, columns, 0) for columns in (16, 48, 64, 80, 128, 192, 256)),
    *((size, columns, SECTOR // size) for size in (2, 4) for columns in (128, 176, 192, 256)),
]


def text(size: int, columns: int, lap: int) -> str:
    """Return one kernel's parts in a namespace, and a function that stores a warp's rows of one tile."""
    together = columns % 32 != 0  # whether all its rows' granules are on their way at once
    name, pitch = f"of_{size}_{columns}_{lap}", ((columns * size // 16 + 1) | 1) * 16
    plan = f"""
        using Result = {KINDS[size][0]};
        constexpr int tile_n = {columns}, lap = {lap}, parts = 2, buffer_bytes = {8 * pitch};
        constexpr bool phase_tiles = false, realign = false, rows_cut = false;
        constexpr bool rows_together = {str(together).lower()};"""
    return f"""
namespace {name} {{
namespace plan {{ {plan} }}
using Kept = uint32_t[{columns * size // 8}];
struct Held {{ Kept kept[1]; Tile tile; }};
inline void lay_pair(uint32_t to, uint32_t first, uint32_t second) {{
    uint32_t const both[2] = {{first, second}};
    write_shared(to, 2 * {size}, both);
}}
inline uint32_t element_at(uint32_t from) {{ uint32_t found = 0; read_shared(from, {size}, &found); return found; }}
inline void store_element(unsigned long long to, uint32_t one) {{ write_c_bytes(to, {size}, &one); }}
{part("lay_rows")}
{part("store_by_rows")}
template <int half> void stored(Cta const &cta, Held const *held) {{
    Accumulator const none[1] = {{}};
    std::fill(shared.written, shared.written + sizeof(shared.written), false);
    for (int lane = 0; lane < 32; ++lane) write_c<half, 0>(cta, held[lane], none, 0, 0, lane);
    for (int lane = 0; lane < 32; ++lane) read_c<half, 0>(cta, held[lane], 0, 0, lane);
}}
}}
extern "C" void run_{name}(unsigned long long c, long long pitch, int m, int n, int at_m, int at_n,
                           {KINDS[size][0]} const *values) {{
    {name}::Held held[32] = {{}};
    Cta const cta{{{{c, pitch, m, n}}}};
    for (int lane = 0; lane < 32; ++lane) {{
        held[lane].tile = {{at_m, at_n, 0, 0}};
        for (int row = lane / 4; row < 16; row += 8)
            for (int i = 0; i < {columns} / 4; ++i) {{  // two of each eight
                int const column = i / 2 * 8 + lane % 4 * 2 + i % 2, half = row / 8;
                int const number = i / 2 * 4 + half * 2 + i % 2;  // as an accumulator holds them
                auto *kept = reinterpret_cast<{KINDS[size][0]} *>(held[lane].kept[0]);
                kept[number] = values[row * {columns} + column];
            }}
    }}
    {name}::stored<0>(cta, held);
    {name}::stored<1>(cta, held);
}}"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled(tmp_path_factory.mktemp("stored"), (text(*one) for one in KERNELS))


def cases(size: int, columns: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield extents of C, its pitch in elements, and in which element of its first sector it begins."""
    rng = np.random.default_rng(1000 * size + columns)
    for n in (1, columns - 1, columns, columns + 1, 2 * columns - 3, *rng.integers(2, 3 * columns, 12)):
        m = int(rng.integers(1, 2 * ROWS + 2))
        yield m, int(n), int(n + max(0, rng.integers(-30, 40))), int(rng.integers(0, SECTOR // size))


@pytest.mark.parametrize(("size", "columns", "lap"), KERNELS)
def test_rows_that_begin_anywhere_are_stored_once_and_nothing_else_is(
    library: ctypes.CDLL, size: int, columns: int, lap: int
) -> None:
    """What a tile lacks is poison; each byte of C is written once, from aligned places that were written before."""
    kind = KINDS[size][1]
    for m, n, pitch, late in cases(size, columns):
        rng = np.random.default_rng(m * n)
        expected = rng.integers(0, 200, (m, n)).astype(kind)
        room = Room(library, m, pitch * size, late * size, SECTOR)
        store = getattr(library, f"run_of_{size}_{columns}_{lap}")
        for at_m in range(0, m, ROWS):
            for at_n in range(0, n, columns - lap):
                tile = np.full((ROWS, columns), 255, kind)
                inside = expected[at_m : at_m + ROWS, at_n : at_n + columns]
                tile[: inside.shape[0], : inside.shape[1]] = inside
                store(
                    room.address, ctypes.c_longlong(pitch),
                    *(ctypes.c_int(one) for one in (m, n, at_m, at_n)), ctypes.c_void_p(tile.ctypes.data),
                )  # fmt: skip
        room.check(expected, [1] * m, (m, n, pitch, late))

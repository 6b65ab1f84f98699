"""Columns of turned tiles, which begin anywhere in C, stored by the same C++ on a host, with guards around C."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from stored_on_host import KINDS, Room, compiled

from legalsat.backends.cute.product import part
from legalsat.extract.kernels.product_maps import turned_columns

BLOCK, LINE = 64, 128  # rows of an instruction, and bytes of rows side by side
# Bytes of an element, columns of a tile, and phases of rows, of which a tile has one.
KERNELS = [
    *((size, columns, 1) for size in (2, 4) for columns in (8, 24, 56, 64, 72, 128, 160, 192, 256)),
    *((2, columns, phases) for columns in (24, 64, 160) for phases in (2, 8)),
]


def text(size: int, columns: int, phases: int) -> str:
    """Return one kernel's parts in a namespace, and a function that stores a consumer's 64 rows of one tile."""
    name, wide = f"of_{size}_{columns}_{phases}", turned_columns(columns, size)
    parts = -(-columns // wide)
    calls = "\n".join(f"    {name}::stored<{i}>(cta, tile, values);" for i in range(parts))
    return f"""
namespace {name} {{
constexpr int a_maps = {phases}, turned_rows = {LINE // size};
namespace plan {{
using Result = {KINDS[size][0]};
constexpr int tile_n = {columns}, store_columns = {wide}, parts = {parts};
constexpr bool phase_tiles = {str(phases > 1).lower()}, columns_cut = false, ping_pong = false;
}}
struct Held {{ Tile tile; }};
constexpr int first_column(int part) {{ return std::min(part * {wide}, {columns - wide}); }}
inline char *buffer_of(Cta const &, int, int) {{ return reinterpret_cast<char *>(shared.bytes); }}
inline uint32_t element_at(uint32_t from) {{ uint32_t found = 0; read_shared(from, {size}, &found); return found; }}
inline void store_element(unsigned long long to, uint32_t one) {{ write_c_bytes(to, {size}, &one); }}
{part("store_by_columns")}
template <int part> void stored(Cta const &cta, Tile const &tile, {KINDS[size][0]} const *values) {{
    std::fill(shared.written, shared.written + sizeof(shared.written), false);
    for (int row = 0; row < {BLOCK}; ++row)
        for (int column = 0; column < {wide}; ++column) {{
            int const bytes = row % turned_rows * {size}, turn = bytes / 16 ^ column % 8;
            int const at = (row / turned_rows * {wide} + column) * {LINE} + turn * 16 + bytes % 16;
            write_shared(at, {size}, values + row * {columns} + first_column(part) + column);
        }}
    Held const held{{tile}};
    for (int thread = 0; thread < 128; ++thread) read_c<part, 0>(cta, held, 0, thread / 32, thread % 32);
}}
}}
extern "C" void run_{name}(unsigned long long c, long long pitch, int m, int n, int at_m, int at_n, int phase,
                           {KINDS[size][0]} const *values) {{
    Cta const cta{{{{c, pitch, m, n}}}};
    Tile const tile{{at_m, at_n, phase, 0}};
{calls}
}}"""


# What the columns need of the host besides.
SHIFTED = """
constexpr int swizzle_row = 128;
inline Granule shifted(Granule const &first, Granule const &next, int late) {
    Granule found;
    uint8_t bytes[32];
    std::memcpy(bytes, &first, 16);
    std::memcpy(bytes + 16, &next, 16);
    std::memcpy(&found, bytes + late, 16);
    return found;
}"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return compiled(tmp_path_factory.mktemp("stored"), [SHIFTED, *(text(*one) for one in KERNELS)])


@pytest.mark.parametrize(("size", "columns", "phases"), KERNELS)
def test_columns_that_begin_anywhere_are_stored_and_nothing_else_is(
    library: ctypes.CDLL, size: int, columns: int, phases: int
) -> None:
    """What a tile lacks is poison. Each byte of C is written, from aligned places that were written before, by each
    part that has it: once but where the last one laps.
    """
    kind, store = KINDS[size][1], getattr(library, f"run_of_{size}_{columns}_{phases}")
    wide = turned_columns(columns, size)
    parts = [min(i * wide, columns - wide) for i in range(-(-columns // wide))]
    written = np.array([sum(first <= column < first + wide for first in parts) for column in range(columns)])
    rng = np.random.default_rng(1000 * size + columns)
    for n in (1, columns - 1, columns, columns + 1, *map(int, rng.integers(2, 2 * columns, 6))):
        m = int(rng.integers(1, 2 * BLOCK * phases + 2))
        pitch, late = m + max(0, int(rng.integers(-30, 40))), int(rng.integers(0, 16 // size))
        expected = rng.integers(0, 200, (m, n)).astype(kind)
        room = Room(library, n, pitch * size, late * size, 16)
        for at_m in range(0, -(-m // phases), BLOCK):
            for at_n in range(0, n, columns):
                for phase in range(phases):
                    inside = expected[phase::phases][at_m : at_m + BLOCK, at_n : at_n + columns]
                    tile = np.full((BLOCK, columns), 255, kind)
                    tile[: inside.shape[0], : inside.shape[1]] = inside
                    store(
                        room.address, ctypes.c_longlong(pitch),
                        *map(ctypes.c_int, (m, n, at_m, at_n, phase)), ctypes.c_void_p(tile.ctypes.data),
                    )  # fmt: skip
        times = [written[column % columns] for column in range(n)]
        room.check(np.ascontiguousarray(expected.T), times, (m, n, pitch, late))

// Columns of turned tiles leave by threads, wherever they begin in C.

constexpr int result_bytes = sizeof(plan::Result);
constexpr int whole = granule / result_bytes;  // elements of a granule
constexpr int row_step = plan::phase_tiles ? a_maps : 1;  // of C, from row to row of a tile
constexpr int lines = plan::store_columns * (atom_rows / turned_rows);  // of a part: of each 128 bytes of rows its columns

// Where in its buffer an element of a line lies.
CUTLASS_DEVICE uint32_t turned_place(int line, int element) {
    int const bytes = element * result_bytes, column = line % plan::store_columns;
    return line * swizzle_row + (bytes / granule ^ column % 8) * granule + bytes % granule;
}

CUTLASS_DEVICE void store_element(unsigned long long to, uint32_t from) {
    if constexpr (result_bytes == 2) {
        asm volatile("{ .reg .b16 h; ld.shared.b16 h, [%1]; st.global.b16 [%0], h; }" ::"l"(to), "r"(from) : "memory");
    } else {
        asm volatile("{ .reg .b32 h; ld.shared.b32 h, [%1]; st.global.b32 [%0], h; }" ::"l"(to), "r"(from) : "memory");
    }
}

// The elements of a line that C has, and where the first one lies.
struct Line {
    unsigned long long start;
    int count;
};

template <int part>
CUTLASS_DEVICE Line line_of(Cta const &cta, Tile const &tile, int group, int line) {
    int const block = (plan::ping_pong ? 0 : group * atoms) + part / plan::parts;
    int const row = tile.m + block * atom_rows + line / plan::store_columns * turned_rows;
    int const column = tile.n + first_column(part) + line % plan::store_columns;
    int const first = plan::phase_tiles ? row * a_maps + tile.phase : row;
    int const left = column < cta.sizes.n ? (cta.sizes.m - first + row_step - 1) / row_step : 0;
    return {cta.sizes.c + cta.c_offset(tile) + (cta.sizes.c_pitch * column + first) * result_bytes,
            max(0, min(turned_rows, left))};
}

// The granules of a line that are C's alone; each is the end of one that lies in shared memory and the beginning of the
// next. Eight lanes have a line.
template <int part>
CUTLASS_DEVICE void store_granules(Cta const &cta, Tile const &tile, uint32_t staged, int group, int warp, int lane) {
    constexpr int lanes = swizzle_row / granule, at_once = warp_lanes / lanes;
#pragma unroll 1
    for (int line = warp * at_once + lane / lanes; line < lines; line += 4 * at_once) {
        Line const own = line_of<part>(cta, tile, group, line);
        int const head = int(own.start) & (granule - 1), end = head + own.count * result_bytes;
        int const at = (lane % lanes + (head > 0)) * granule;  // from where the line's first granule begins
        if (at + granule > end) continue;
        uint32_t low[4], high[4];
        int const element = (at - head) / granule * whole;  // of the granule in shared memory that it begins in
        uint32_t const first = staged + turned_place(line, element);
        uint32_t const second = staged + turned_place(line, (element + whole) % turned_rows);
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(low[0]), "=r"(low[1]), "=r"(low[2]), "=r"(low[3])
                     : "r"(first));
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(high[0]), "=r"(high[1]), "=r"(high[2]), "=r"(high[3])
                     : "r"(second));
        uint32_t words[8], once[7], found[4];
        int const late = (granule - head) % granule;  // bytes of that which are no part of it
#pragma unroll
        for (int i = 0; i < 8; ++i) words[i] = i < 4 ? low[i] : high[i - 4];
#pragma unroll
        for (int i = 0; i < 7; ++i) once[i] = late & 4 ? words[i + 1] : words[i];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            uint32_t const from = late & 8 ? once[i + 2] : once[i], next = late & 8 ? once[i + 3] : once[i + 1];
            found[i] = __funnelshift_r(from, next, late % 4 * 8);
        }
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(own.start - head + at), "r"(found[0]),
                     "r"(found[1]), "r"(found[2]), "r"(found[3])
                     : "memory");
    }
}

// Both ends of each line, whose granules belong to neighbours as well. Eight lanes have a line.
template <int part>
CUTLASS_DEVICE void store_ends(Cta const &cta, Tile const &tile, uint32_t staged, int group, int warp, int lane) {
    constexpr int lanes = 8, at_once = warp_lanes / lanes;
#pragma unroll 1
    for (int line = warp * at_once + lane / lanes; line < lines; line += 4 * at_once) {
        Line const own = line_of<part>(cta, tile, group, line);
        int const head = (int(own.start) & (granule - 1)) / result_bytes, end = head + own.count;
        int const front = head ? min(whole, end) : 0, back = max(end / whole * whole, front);
#pragma unroll 1
        for (int i = lane % lanes; i < front - min(head, front) + end - back; i += lanes) {
            int const ahead = front - min(head, front), element = i < ahead ? i : back - head + i - ahead;
            store_element(own.start + element * result_bytes, staged + turned_place(line, element));
        }
    }
}

// Elements of a tile whose rows are of one phase: between neighbours lie those of other tiles.
template <int part>
CUTLASS_DEVICE void store_apart(Cta const &cta, Tile const &tile, uint32_t staged, int group, int warp, int lane) {
#pragma unroll 1
    for (int line = warp; line < lines; line += 4) {
        Line const own = line_of<part>(cta, tile, group, line);
#pragma unroll
        for (int i = 0; i < (turned_rows + warp_lanes - 1) / warp_lanes; ++i) {
            int const element = i * warp_lanes + lane;
            if (element < own.count) {
                store_element(own.start + element * (row_step * result_bytes), staged + turned_place(line, element));
            }
        }
    }
}

template <int part, int buffer>
CUTLASS_DEVICE void read_c(Cta const &cta, Held const &held, int group, int warp, int lane) {
    uint32_t const staged = shared_address(buffer_of(cta, group, buffer));
    if constexpr (row_step > 1) {
        store_apart<part>(cta, held.tile, staged, group, warp, lane);
    } else {
        store_granules<part>(cta, held.tile, staged, group, warp, lane);
        store_ends<part>(cta, held.tile, staged, group, warp, lane);
    }
}

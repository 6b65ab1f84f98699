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
    int const columns = plan::columns_cut ? tile.end : cta.sizes.n;
    int const left = column < columns ? (cta.sizes.m - first + row_step - 1) / row_step : 0;
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
        int const element = (at - head) / granule * whole;  // of the granule in shared memory that it begins in
        Granule const first = granule_at(staged + turned_place(line, element));
        Granule const next = granule_at(staged + turned_place(line, (element + whole) % turned_rows));
        store_granule(own.start - head + at, shifted(first, next, -head & (granule - 1)));
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
            store_element(own.start + element * result_bytes, element_at(staged + turned_place(line, element)));
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
                uint32_t const one = element_at(staged + turned_place(line, element));
                store_element(own.start + element * (row_step * result_bytes), one);
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

// Columns of turned tiles leave by threads, wherever they begin in C.

constexpr int result_bytes = sizeof(plan::Result);
constexpr int whole = granule / result_bytes;  // elements of a granule
constexpr int row_step = plan::phase_tiles ? a_maps : 1;  // of C, from row to row of a tile
constexpr int line_lanes = row_step > 1 ? warp_lanes : swizzle_row / granule;  // that share a line
constexpr int lines_apart = 4 * warp_lanes / line_lanes;  // columns from one of a lane's lines to its next

// The lines that a lane shares of 128 bytes of rows of a part, of which each column has one.
struct Columns {
    unsigned long long start;  // of the first one in C
    long long step;            // bytes to the next one
    uint32_t staged;           // where the first column has its line in shared memory
    int first;                 // column
    int count, elements;       // of lines, and of a line, that C has
    // Where an element of a line lies, whose granules the swizzle moves by the number of the column.
    CUTLASS_DEVICE uint32_t at(unsigned line, unsigned element) const {
        unsigned const bytes = element * result_bytes, column = first + line * lines_apart;
        return staged + column * swizzle_row + (bytes / granule ^ column % 8) * granule + bytes % granule;
    }
};

template <int part>
CUTLASS_DEVICE Columns columns_of(Cta const &cta, Tile const &tile, uint32_t staged, int group, int rows, int first) {
    int const block = (plan::ping_pong ? 0 : group * atoms) + part / plan::parts, column = tile.n + first_column(part);
    int const row = tile.m + block * atom_rows + rows * turned_rows;
    int const target = plan::phase_tiles ? row * a_maps + tile.phase : row;
    int const columns = min(plan::store_columns, (plan::columns_cut ? tile.end : cta.sizes.n) - column);
    return {cta.sizes.c + cta.c_offset(tile) + (cta.sizes.c_pitch * (column + first) + target) * result_bytes,
            cta.sizes.c_pitch * (lines_apart * result_bytes),
            staged + rows * plan::store_columns * swizzle_row,
            first,
            (columns - first + lines_apart - 1) / lines_apart,
            min(turned_rows, (cta.sizes.m - target + row_step - 1) / row_step)};
}

// The granules of lines that are C's alone, each the end of one that lies in shared memory and the beginning of the next,
// and the elements at both ends, whose granules belong to neighbours as well.
CUTLASS_DEVICE void store_lines(Columns const &lines, unsigned number) {
    unsigned const bytes = max(lines.elements, 0) * result_bytes;
    unsigned long long start = lines.start;
#pragma unroll 1
    for (int line = 0; line < lines.count; ++line, start += lines.step) {
        unsigned const late = -unsigned(start) & (granule - 1), at = number * granule + late;
        if (at + granule <= bytes) {
            Granule const first = granule_at(lines.at(line, number * whole));
            Granule const next = granule_at(lines.at(line, (number + 1) * whole % turned_rows));
            store_granule(start + at, shifted(first, next, late));
        }
        unsigned const ahead = min(late, bytes) / result_bytes, behind = (bytes - late) % granule / result_bytes;
        unsigned const ends = bytes < late ? ahead : ahead + behind;
#pragma unroll 1
        for (unsigned i = number; i < ends; i += line_lanes) {
            unsigned const element = i < ahead ? i : bytes / result_bytes - ends + i;
            store_element(start + element * result_bytes, element_at(lines.at(line, element)));
        }
    }
}

// Likewise of lines of which C has all: at both ends together there are as many elements as a granule has, one for each
// lane, or none. 0.957 of the time (32 kernels, an H200). All is read before anything is stored: with a branch on whether
// C has all between the stores ptxas 13.0 made code whose ends were wrong in lanes that had stored a granule.
CUTLASS_DEVICE void store_whole_lines(Columns const &lines, unsigned number) {
    unsigned long long start = lines.start;
#pragma unroll 1
    for (int line = 0; line < lines.count; ++line, start += lines.step) {
        unsigned const late = -unsigned(start) & (granule - 1), own = number % whole;
        unsigned const element = own + (own * result_bytes < late ? 0 : turned_rows - whole);
        Granule const first = granule_at(lines.at(line, number * whole));
        Granule const next = granule_at(lines.at(line, (number + 1) * whole % turned_rows));
        uint32_t const end = element_at(lines.at(line, element));
        if (number < line_lanes - 1 || !late) store_granule(start + number * granule + late, shifted(first, next, late));
        if (late && number < whole) store_element(start + element * result_bytes, end);
    }
}

// Elements of a tile whose rows are of one phase: between neighbours lie those of other tiles.
CUTLASS_DEVICE void store_apart(Columns const &lines, int number) {
#pragma unroll 1
    for (int line = 0; line < lines.count; ++line) {
        unsigned long long const start = lines.start + line * lines.step;
#pragma unroll
        for (int element = number; element < turned_rows; element += line_lanes) {
            if (element < lines.elements) {
                store_element(start + element * (row_step * result_bytes), element_at(lines.at(line, element)));
            }
        }
    }
}

template <int part, int buffer>
CUTLASS_DEVICE void read_c(Cta const &cta, Held const &held, int group, int warp, int lane) {
    uint32_t const staged = shared_address(buffer_of(cta, group, buffer));
    int const first = warp * (warp_lanes / line_lanes) + lane / line_lanes;
#pragma unroll
    for (int rows = 0; rows < atom_rows / turned_rows; ++rows) {
        Columns const lines = columns_of<part>(cta, held.tile, staged, group, rows, first);
        if constexpr (row_step > 1) {
            store_apart(lines, lane);
        } else {
            lines.elements == turned_rows ? store_whole_lines(lines, lane % line_lanes)
                                          : store_lines(lines, lane % line_lanes);
        }
    }
}

constexpr int result_bytes = sizeof(plan::Result);
constexpr int row_granules = plan::tile_n * result_bytes / granule;
// A row begins where it does in its granule of C; eight of them lie in different banks, an odd number of granules apart.
constexpr int store_pitch = ((row_granules + 1) | 1) * granule;
static_assert(8 * store_pitch <= plan::buffer_bytes, "a warp's eight rows have room");
// As many rows leave at once as lanes have granules for, so that where a granule lies takes no division.
constexpr int rows_at_once = row_granules <= 4 ? 8 : row_granules <= 8 ? 4 : row_granules <= 16 ? 2 : 1;
constexpr int row_lanes = warp_lanes / rows_at_once;
constexpr int row_spans = (row_granules + row_lanes - 1) / row_lanes;  // granules of a row that a lane has
constexpr int at_once = 2;  // such granules of all rows that are on their way
static_assert(8 / rows_at_once * row_spans % at_once == 0 || 8 / rows_at_once * row_spans == 1, "turns are whole");

// Eight rows of the tile in C: the first one's address and the bytes to the next, how many there are, and a row's bytes.
struct Rows {
    unsigned long long start;
    long long step;
    int count, bytes;
    // Bytes of a row's first granule that are not its own.
    CUTLASS_DEVICE int head(int row) const { return static_cast<int>(start + row * step) & (granule - 1); }
};

CUTLASS_DEVICE Rows rows_of(Cta const &cta, Tile const &tile, int row) {
    constexpr int apart = plan::phase_tiles || plan::realign ? a_maps : 1;  // eight rows have one phase
    int const target = plan::phase_tiles ? (tile.m + row) * a_maps + tile.phase : tile.m + row_in_tile(row);
    int const end = plan::rows_cut ? tile.end : cta.sizes.m;
    return {cta.sizes.c + cta.c_offset(tile) + (cta.sizes.c_pitch * target + tile.n) * result_bytes,
            cta.sizes.c_pitch * apart * result_bytes, (end - target + apart - 1) / apart,
            min(plan::tile_n, cta.sizes.n - tile.n) * result_bytes};
}

CUTLASS_DEVICE void write_element(uint32_t address, uint32_t value) {
    if constexpr (result_bytes == 2) {
        asm volatile("{ .reg .b16 low, high; mov.b32 {low, high}, %1; st.shared.b16 [%0], low; }" ::"r"(address),
                     "r"(value)
                     : "memory");
    } else if constexpr (result_bytes == 1) {
        asm volatile("st.shared.b8 [%0], %1;" ::"r"(address), "r"(value) : "memory");
    } else {
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
    }
}

// Lays 8 rows side by side in shared memory, element by element, each from where it begins in its granule of C: so
// nothing need be shifted on the way out.
template <int part, int buffer>
CUTLASS_DEVICE void write_c(Cta const &cta, Held const &held, Accumulator const (&)[atoms], int group, int warp,
                            int lane) {
    constexpr int half = part % plan::parts;
    Rows const rows = rows_of(cta, held.tile, first_row<part>(group, warp) + 8 * half);
    Kept const &kept = held.kept[part / plan::parts];
    int const row = lane / 4;
    uint32_t const at = shared_address(buffer_of(cta, group, warp, buffer)) + row * store_pitch + rows.head(row) +
                        lane % 4 * 2 * result_bytes;
    __syncwarp();
    if constexpr (result_bytes == 2) {
        if ((int(rows.start) | int(rows.step)) % 4 == 0) {  // no word lies in two
#pragma unroll
            for (int eight = 0; eight < plan::tile_n / 8; ++eight) {
                uint32_t const pair = kept[2 * eight + half];
                asm volatile("st.shared.b32 [%0], %1;" ::"r"(at + eight * granule), "r"(pair) : "memory");
            }
            return;
        }
    }
#pragma unroll
    for (int eight = 0; eight < plan::tile_n / 8; ++eight) {
        uint32_t const to = at + eight * 8 * result_bytes;
        if constexpr (result_bytes == 2) {
            write_element(to, kept[2 * eight + half]);
            write_element(to + 2, kept[2 * eight + half] >> 16);
        } else if constexpr (result_bytes == 1) {
            write_element(to, kept[eight] >> 16 * half);
            write_element(to + 1, kept[eight] >> (16 * half + 8));
        } else {
            write_element(to, kept[4 * eight + 2 * half]);
            write_element(to + 4, kept[4 * eight + 2 * half + 1]);
        }
    }
}

constexpr int result_bytes = sizeof(plan::Result);
constexpr int row_granules = plan::tile_n * result_bytes / granule;
// A row begins where it does in its granule of C, or as much later as its pairs of elements are whole words; eight of
// them lie in different banks, an odd number of granules apart.
constexpr int store_pitch = ((row_granules + 1) | 1) * granule;
static_assert(8 * store_pitch <= plan::buffer_bytes, "a warp's eight rows have room");

// Eight rows of the tile in C: the first one's address and the bytes to the next, how many there are, and a row's bytes.
struct Rows {
    unsigned long long start;
    long long step;
    int count, bytes;
    CUTLASS_DEVICE unsigned long long at(int row) const { return start + row * step; }
};

// Where a row that is stored from this address on begins among those in shared memory, and by how much that is late.
CUTLASS_DEVICE int late_by(int at) { return at & result_bytes; }
CUTLASS_DEVICE int laid_at(int row, int at) { return row * store_pitch + (at & (granule - 1)) + late_by(at); }

CUTLASS_DEVICE Rows rows_of(Cta const &cta, Tile const &tile, int row) {
    constexpr int apart = plan::phase_tiles || plan::realign ? a_maps : 1;  // eight rows have one phase
    int const target = plan::phase_tiles ? (tile.m + row) * a_maps + tile.phase : tile.m + row_in_tile(row);
    int const end = plan::rows_cut ? tile.end : cta.sizes.m;
    return {cta.sizes.c + cta.c_offset(tile) + (cta.sizes.c_pitch * target + tile.n) * result_bytes,
            cta.sizes.c_pitch * apart * result_bytes, (end - target + apart - 1) / apart,
            min(plan::tile_n, cta.sizes.n - tile.n) * result_bytes};
}

// An element of the pair of an eighth of columns that a lane holds, of the first 8 rows of 16 or of the others.
CUTLASS_DEVICE uint32_t kept_element(Kept const &kept, int eight, int half, int i) {
    if constexpr (result_bytes == 1) return kept[eight] >> (16 * half + 8 * i);
    if constexpr (result_bytes == 2) return kept[2 * eight + half] >> 16 * i;
    return kept[4 * eight + 2 * half + i];
}

// Lays 8 rows side by side in shared memory, pair by pair. Rows begin at any word of a granule: of pairs that are a word,
// each lane lays those of the same granule of its row at once, of this eight of columns or of the one before, since
// eight rows' granules lie in different banks, and eight rows' words behind one another do not.
template <int part, int buffer>
CUTLASS_DEVICE void write_c(Cta const &cta, Held const &held, Accumulator const (&)[atoms], int group, int warp,
                            int lane) {
    constexpr int half = part % plan::parts, pair = 2 * result_bytes, eights = plan::tile_n / 8;
    Rows const rows = rows_of(cta, held.tile, first_row<part>(group, warp) + 8 * half);
    Kept const &kept = held.kept[part / plan::parts];
    int const row = lane / 4;
    uint32_t const staged = shared_address(buffer_of(cta, group, warp, buffer));
    int const begin = laid_at(row, int(rows.at(row))) + lane % 4 * pair;
    __syncwarp();
    if constexpr (pair == 4) {
        int const first = row * store_pitch;
        bool const next = begin - first >= granule;  // this eight's pair is in the row's next granule
        uint32_t const at = staged + first + (begin - first) % granule;
#pragma unroll
        for (int number = 0; number <= eights; ++number) {
            uint32_t const before = number ? kept_element(kept, number - 1, half, 0) : 0;
            uint32_t const own = number < eights ? kept_element(kept, number, half, 0) : 0;
            if (number ? number < eights || next : !next) lay_pair(at + number * granule, next ? before : own, 0);
        }
    } else {
#pragma unroll
        for (int eight = 0; eight < eights; ++eight) {
            uint32_t const first = kept_element(kept, eight, half, 0), second = kept_element(kept, eight, half, 1);
            lay_pair(staged + begin + eight * 4 * pair, first, second);
        }
    }
}

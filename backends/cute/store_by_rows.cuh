constexpr int result_bytes = sizeof(plan::Result);
constexpr int row_granules = plan::tile_n * result_bytes / granule;
constexpr int store_pitch = (row_granules | 1) * granule;  // so that eight rows lie in different banks
static_assert(8 * store_pitch <= plan::buffer_bytes, "a warp's eight rows have room");
constexpr int at_once = 2;  // granules that a thread has on their way

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

// Lays so many matrices of 8 rows and 8 columns side by side, whose words are `by` registers apart.
template <int count, int by>
CUTLASS_DEVICE void lay_matrices(uint32_t to, uint32_t const *from) {
    if constexpr (count == 4) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(from[0]),
                     "r"(from[by]), "r"(from[2 * by]), "r"(from[3 * by])
                     : "memory");
    } else if constexpr (count == 2) {
        asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(from[0]), "r"(from[by])
                     : "memory");
    } else {
        asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(to), "r"(from[0]) : "memory");
    }
}

// Lays 8 rows side by side in shared memory.
template <int part, int buffer>
CUTLASS_DEVICE void write_c(Cta const &cta, Held const &held, Accumulator const (&)[atoms], int group, int warp,
                            int lane) {
    constexpr int half = part % plan::parts, eights = plan::tile_n / 8;
    Kept const &kept = held.kept[part / plan::parts];
    uint32_t const start = shared_address(buffer_of(cta, group, warp, buffer));
    __syncwarp();
    if constexpr (result_bytes == 2) {
        uint32_t const at = start + lane % 8 * store_pitch + lane / 8 * granule;
#pragma unroll
        for (int four = 0; four < eights / 4; ++four) {
            lay_matrices<4, 2>(at + four * 4 * granule, &kept[8 * four + half]);
        }
        constexpr int done = eights / 4 * 4;
        if constexpr (eights % 4 >= 2) lay_matrices<2, 2>(at + done * granule, &kept[2 * done + half]);
        if constexpr (eights % 2) lay_matrices<1, 2>(at + (eights - 1) * granule, &kept[2 * (eights - 1) + half]);
    } else {
        uint32_t const at = start + lane / 4 * store_pitch + lane % 4 * 2 * result_bytes;
#pragma unroll
        for (int eight = 0; eight < eights; ++eight) {
            asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(at + eight * 8 * result_bytes),
                         "r"(kept[4 * eight + 2 * half]), "r"(kept[4 * eight + 2 * half + 1])
                         : "memory");
        }
    }
}

// Rows of C at any address: whole granules first, each of which ends one that lies in shared memory and begins the next,
// then both ends of each row, whose granules belong to neighbours as well, element by element.
template <int part, int buffer>
CUTLASS_DEVICE void read_c(Cta const &cta, Held const &held, int group, int warp, int lane) {
    uint32_t const staged = shared_address(buffer_of(cta, group, warp, buffer));
    Rows const rows = rows_of(cta, held.tile, first_row<part>(group, warp) + 8 * (part % plan::parts));
    __syncwarp();
#pragma unroll 1
    for (int begin = 0; begin < 8 * row_granules; begin += at_once * warp_lanes) {
        Granule found[at_once];
        unsigned long long to[at_once];
#pragma unroll
        for (int n = 0; n < at_once; ++n) {
            int const i = begin + n * warp_lanes + lane, row = i / row_granules, head = rows.head(row);
            int const late = -head & (granule - 1), at = i % row_granules * granule;  // of the row in shared memory
            bool const whole = row < min(rows.count, 8) && at + late + granule <= rows.bytes;
            to[n] = whole ? rows.start + row * rows.step + at + late : 0;
            if (whole) {
                uint32_t const from = staged + row * store_pitch + at;
                found[n] = shifted(granule_at(from), granule_at(from + (late ? granule : 0)), late);
            }
        }
#pragma unroll
        for (int n = 0; n < at_once; ++n) {
            if (to[n]) store_granule(to[n], found[n]);
        }
    }
    constexpr int elements = granule / result_bytes;
#pragma unroll 1
    for (int i = lane; i < 8 * 2 * elements; i += warp_lanes) {
        int const row = i / (2 * elements), late = i / elements % 2, head = rows.head(row), end = head + rows.bytes;
        int const front = head ? min(granule, end) : 0, back = max(end / granule * granule, front);
        int const at = (late ? back : 0) + i % elements * result_bytes;
        if (row < rows.count && at >= head && at < (late ? end : front)) {
            store_element(rows.start + row * rows.step - head + at, staged + row * store_pitch + at - head);
        }
    }
}

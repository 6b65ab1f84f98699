constexpr int result_bytes = sizeof(plan::Result);
constexpr int row_granules = plan::tile_n * result_bytes / granule;
constexpr int store_pitch = (row_granules | 1) * granule;  // bytes from row to row: an odd number of granules spreads banks

struct Granule {
    uint32_t word[4];
};

// A row of the tile in C: its address, and its bytes, 0 where C has no such row.
struct Run {
    unsigned long long start;
    int bytes;
};

CUTLASS_DEVICE Run run_of(Cta const &cta, Tile const &tile, int row) {
    int const target = plan::phase_tiles ? (tile.m + row) * a_maps + tile.phase : tile.m + row_in_tile(row);
    int const count = min(plan::tile_n, cta.sizes.n - tile.n);
    int const end = plan::rows_cut ? tile.end : cta.sizes.m;
    return {cta.sizes.c + cta.c_offset(tile) + (cta.sizes.c_pitch * target + tile.n) * result_bytes,
            target < end && count > 0 ? count * result_bytes : 0};
}

// Lays 8 rows side by side in shared memory, each from the beginning of a granule.
template <int half>
CUTLASS_DEVICE void stage(Kept const &kept, uint32_t staged, int lane) {
    if constexpr (result_bytes == 2) {  // matrices of 8 rows and 16 bytes
        uint32_t const at = staged + lane % 8 * store_pitch + lane / 8 * granule;
#pragma unroll
        for (int i = 0; i + 4 <= row_granules; i += 4) {
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at + i * granule),
                         "r"(kept[2 * i + half]), "r"(kept[2 * i + 2 + half]), "r"(kept[2 * i + 4 + half]),
                         "r"(kept[2 * i + 6 + half])
                         : "memory");
        }
        constexpr int rest = row_granules / 4 * 4;
#pragma unroll
        for (int i = rest; i < row_granules; ++i) {
            asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(at + i * granule),
                         "r"(kept[2 * i + half])
                         : "memory");
        }
    } else {  // pairs
        uint32_t const at = staged + lane / 4 * store_pitch + lane % 4 * 8;
#pragma unroll
        for (int eight = 0; eight < plan::tile_n / 8; ++eight) {
            uint32_t const *from = &kept[eight * 4 + 2 * half];
            asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(at + eight * 32), "r"(from[0]), "r"(from[1])
                         : "memory");
        }
    }
}

template <int part, int buffer>
CUTLASS_DEVICE void write_c(Cta const &cta, Held const &held, Accumulator const (&)[atoms], int group, int warp,
                            int lane) {
    __syncwarp();
    stage<part % plan::parts>(held.kept[part / plan::parts], shared_address(buffer_of(cta, group, warp, buffer)), lane);
}

CUTLASS_DEVICE Granule read_granule(uint32_t address) {
    Granule found;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(found.word[0]), "=r"(found.word[1]), "=r"(found.word[2]), "=r"(found.word[3])
                 : "r"(address));
    return found;
}

// 16 bytes of a staged row from byte `at` on, in which as many bytes follow.
CUTLASS_DEVICE Granule read_bytes(uint32_t row, int at) {
    uint32_t const late = at % granule;
    Granule const low = read_granule(row + at - late);
    Granule const high = late ? read_granule(row + at - late + granule) : low;
    uint32_t words[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        words[i] = low.word[i];
        words[i + 4] = high.word[i];
    }
#pragma unroll
    for (int i = 0; i < 6; ++i) words[i] = late & 8 ? words[i + 2] : words[i];
#pragma unroll
    for (int i = 0; i < 5; ++i) words[i] = late & 4 ? words[i + 1] : words[i];
    Granule found;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        found.word[i] = result_bytes == 2 ? __funnelshift_r(words[i], words[i + 1], late % 4 * 8) : words[i];
    }
    return found;
}

// Rows of C at any address: whole granules first, then both ends of each row, whose granules belong to neighbours as
// well, element by element.
template <int part, int buffer>
CUTLASS_DEVICE void read_c(Cta const &cta, Held const &held, int group, int warp, int lane) {
    constexpr int half = part % plan::parts;
    Tile const &tile = held.tile;
    uint32_t const staged = shared_address(buffer_of(cta, group, warp, buffer));
    int const row = first_row<part>(group, warp);
    __syncwarp();
    constexpr int lanes = row_granules > 16 ? warp_lanes : row_granules > 8 ? 16 : 8;  // that share a row
#pragma unroll 2
    for (int g = lane / lanes; g < 8; g += warp_lanes / lanes) {
        Run const run = run_of(cta, tile, row + 8 * half + g);
        int const head = run.start % granule;  // bytes of its first granule that are not its own
#pragma unroll
        for (int i = 0; i < row_granules; i += lanes) {
            int const at = (i + lane % lanes) * granule - head;
            if (at >= 0 && at + granule <= run.bytes) {
                Granule const found = read_bytes(staged + g * store_pitch, at);
                asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(run.start + at), "r"(found.word[0]),
                             "r"(found.word[1]), "r"(found.word[2]), "r"(found.word[3])
                             : "memory");
            }
        }
    }
    constexpr int elements = granule / result_bytes;
#pragma unroll
    for (int i = lane; i < 8 * 2 * elements; i += warp_lanes) {
        int const g = i / (2 * elements), late = i / elements % 2;
        Run const run = run_of(cta, tile, row + 8 * half + g);
        int const head = run.start % granule;
        int const front = head ? min(granule - head, run.bytes) : 0;
        int const back = max((head + run.bytes) / granule * granule - head, front);
        int const at = (late ? back : 0) + i % elements * result_bytes;
        if (at < (late ? run.bytes : front)) {
            uint32_t const from = staged + g * store_pitch + at;
            if constexpr (result_bytes == 2) {
                asm volatile("{ .reg .b16 h; ld.shared.b16 h, [%1]; st.global.b16 [%0], h; }" ::"l"(run.start + at),
                             "r"(from)
                             : "memory");
            } else {
                asm volatile("{ .reg .b32 h; ld.shared.b32 h, [%1]; st.global.b32 [%0], h; }" ::"l"(run.start + at),
                             "r"(from)
                             : "memory");
            }
        }
    }
}

constexpr int store_pitch = plan::tile_n * int(sizeof(plan::Result)) + granule;  // bytes of a row at any place
constexpr int buffer_bytes = 8 * store_pitch, buffers = 1;  // of a warp
constexpr int output_bytes = plan::warpgroups * 4 * buffers * buffer_bytes;

CUTLASS_DEVICE int row_of(Tile const &tile, int row) {
    return plan::phase_tiles ? (tile.m + row) * a_maps + tile.phase : tile.m + row_in_tile(row);
}

// A row of the tile in global memory: the granule that it starts in, and its first byte and its end from there; empty
// where C has no such row.
struct Run {
    char *granules;
    int head, end;
};

CUTLASS_DEVICE Run run_of(Block const &block, Tile const &tile, int row) {
    constexpr int size = sizeof(plan::Result);
    int const target = row_of(tile, row), count = min(plan::tile_n, block.sizes.n - tile.n);
    unsigned long long const start = block.sizes.c + (block.sizes.c_pitch * target + tile.n) * size;
    int const head = start % granule;
    bool const exists = target < block.sizes.m && count > 0;
    return {reinterpret_cast<char *>(start - head), head, exists ? head + count * size : 0};
}

// Two neighbours, of which the first may lie at an odd place.
CUTLASS_DEVICE void put(uint32_t address, float low, float high) {
    if constexpr (sizeof(plan::Result) == 2) {
        uint32_t const pair = packed(low, high);
        asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(static_cast<unsigned short>(pair)));
        asm volatile("st.shared.b16 [%0+2], %1;" ::"r"(address), "h"(static_cast<unsigned short>(pair >> 16)));
    } else {
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(low));
        asm volatile("st.shared.f32 [%0+4], %1;" ::"r"(address), "f"(high));
    }
}

// Rows of C at any address: staged as they will lie, so that all but the ends of rows go out in whole granules.
CUTLASS_DEVICE void store(Block const &block, Tile const &tile, Sums const &sums, char *buffer, int row, int lane) {
    constexpr int size = sizeof(plan::Result);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        __syncwarp();
        int const mine = row_of(tile, row + 8 * half + lane / 4);
        unsigned long long const start = block.sizes.c + (block.sizes.c_pitch * mine + tile.n) * size;
        uint32_t const at = shared_address(buffer) + lane / 4 * store_pitch + start % granule + lane % 4 * 2 * size;
#pragma unroll
        for (int eight = 0; eight < plan::tile_n / 8; ++eight) {
            put(at + eight * 8 * size, sums[eight * 4 + 2 * half], sums[eight * 4 + 2 * half + 1]);
        }
        __syncwarp();
        // Whole granules first; then both ends of each row, which belong to neighbours as well, element by element.
        constexpr int granules = plan::tile_n * size / granule + 1;  // of a row, wherever it starts
#pragma unroll 3
        for (int i = lane; i < 8 * granules; i += warp_lanes) {
            int const g = i / granules, at = i % granules * granule;
            Run const run = run_of(block, tile, row + 8 * half + g);
            if (at >= run.head && at + granule <= run.end) {
                *reinterpret_cast<uint4 *>(run.granules + at) =
                    *reinterpret_cast<uint4 const *>(buffer + g * store_pitch + at);
            }
        }
        constexpr int elements = granule / size;
#pragma unroll
        for (int i = lane; i < 8 * 2 * elements; i += warp_lanes) {
            int const g = i / (2 * elements), late = i / elements % 2;
            Run const run = run_of(block, tile, row + 8 * half + g);
            int const first = late ? run.end / granule * granule : 0;  // of the granule
            int const at = first + i % elements * size;
            bool const whole = first >= run.head && first + granule <= run.end;
            bool const twice = late && first == 0;
            if (at >= run.head && at < run.end && !whole && !twice) {
                *reinterpret_cast<plan::Result *>(run.granules + at) =
                    *reinterpret_cast<plan::Result const *>(buffer + g * store_pitch + at);
            }
        }
    }
}

CUTLASS_DEVICE void finish(int) {}

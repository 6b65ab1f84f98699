constexpr int store_columns = plan::store_columns, store_rows = 16;  // of a box
constexpr int store_span = store_columns * int(sizeof(plan::Result));  // bytes of its rows, and of its swizzle
constexpr int buffer_bytes = store_rows * store_span, buffers = 2;     // of a warp
constexpr int output_bytes = plan::warpgroups * 4 * buffers * buffer_bytes;

// Where a granule of a row lies in a box: swizzles move it by the number of its line of 128 bytes.
CUTLASS_DEVICE uint32_t box_offset(int row, int number) {
    int const lines = swizzle_row / store_span;  // rows of a line
    return row * store_span + (number ^ (row / lines % (store_span / granule))) * granule;
}

constexpr int parts = plan::tile_n / store_columns;  // of a block of 64 rows: boxes side by side

// C by boxes, a warp's rows at a time.
template <int chunk>
CUTLASS_DEVICE void store(Block const &block, Tile const &tile, Kept const &kept, char *buffer, int row, int lane) {
    char *to = buffer + chunk % buffers * buffer_bytes;
    uint32_t const start = shared_address(to);
    if (lane == 0) {
        if constexpr (parts % buffers && chunk == 0) {
            cute::tma_store_wait<0>();  // the last chunk of the block before has this buffer, too
        } else {
            cute::tma_store_wait<buffers - 1>();
        }
    }
    __syncwarp();
    if constexpr (sizeof(plan::Result) == 2) {  // matrices of 8 rows and 16 bytes
#pragma unroll
        for (int pair = 0; pair < store_columns / 16; ++pair) {
            uint32_t const *from = &kept[(chunk * store_columns + pair * 16) / 4];
            uint32_t const address = start + box_offset(lane % 16, 2 * pair + lane / 16);
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                         "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]));
        }
    } else {  // pairs
#pragma unroll
        for (int eight = 0; eight < store_columns / 8; ++eight) {
            uint32_t const *from = &kept[(chunk * store_columns + eight * 8) / 2];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                int const row = lane / 4 + 8 * half;
                uint32_t const address = start + box_offset(row, 2 * eight + lane % 4 / 2) + lane % 2 * 8;
                asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(from[2 * half]),
                             "r"(from[2 * half + 1]));
            }
        }
    }
    cute::tma_store_fence();
    __syncwarp();
    if (lane == 0) {
        cute::SM90_TMA_STORE_2D::copy(&block.maps.c[tile.phase], to, tile.n + chunk * store_columns, tile.m + row);
        cute::tma_store_arrive();
    }
}

// Nothing may end before what is on its way has been read.
CUTLASS_DEVICE void finish(int lane) {
    if (lane == 0) cute::tma_store_wait<0>();
}

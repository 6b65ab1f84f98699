constexpr int store_columns = plan::store_columns;  // of a box
constexpr int store_span = store_columns * int(sizeof(plan::Result));  // bytes of its rows, and of its swizzle

// Where a granule of a row lies in a box: swizzles move it by the number of its line of 128 bytes.
CUTLASS_DEVICE uint32_t box_offset(int row, int number) {
    int const lines = swizzle_row / store_span;  // rows of a line
    return row * store_span + (number ^ (row / lines % (store_span / granule))) * granule;
}

// Lays a part of a warp's rows down as a box.
template <int part, int buffer>
CUTLASS_DEVICE void write_c(Cta const &cta, Held const &held, Accumulator const (&)[atoms], int group, int warp,
                            int lane) {
    constexpr int first = first_column(part);
    uint32_t const start = shared_address(buffer_of(cta, group, warp, buffer));
    if constexpr (sizeof(plan::Result) == 2) {  // matrices of 8 rows and 16 bytes
#pragma unroll
        for (int pair = 0; pair < store_columns / 16; ++pair) {
            uint32_t const *from = &held.kept[part / plan::parts][(first + pair * 16) / 4];
            uint32_t const address = start + box_offset(lane % 16, 2 * pair + lane / 16);
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                         "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]));
        }
    } else if constexpr (sizeof(plan::Result) == 1) {  // pairs of two rows in a word
#pragma unroll
        for (int eight = 0; eight < store_columns / 8; ++eight) {
            uint32_t const from = held.kept[part / plan::parts][first / 8 + eight];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                uint32_t const address = start + box_offset(lane / 4 + 8 * half, eight / 2) + eight % 2 * 8 + lane % 4 * 2;
                asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "r"(from >> 16 * half));
            }
        }
    } else {  // pairs
#pragma unroll
        for (int eight = 0; eight < store_columns / 8; ++eight) {
            uint32_t const *from = &held.kept[part / plan::parts][(first + eight * 8) / 2];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                int const row = lane / 4 + 8 * half;
                uint32_t const address = start + box_offset(row, 2 * eight + lane % 4 / 2) + lane % 2 * 8;
                asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(from[2 * half]),
                             "r"(from[2 * half + 1]));
            }
        }
    }
}

template <int part, int buffer>
CUTLASS_DEVICE void store_c(Cta const &cta, Held const &held, int group, int warp) {
    void const *map = &cta.maps.c[held.tile.phase], *from = buffer_of(cta, group, warp, buffer);
    int const first = held.tile.n + first_column(part), second = held.tile.m + first_row<part>(group, warp);
    if constexpr (plan::rows_cut) {  // of the window that ends where the box does, or its group
        int const left = min(plan::store_rows, held.tile.end - second);
        if (left > 0) cute::SM90_TMA_STORE_3D::copy(map, from, first, plan::store_rows - left, second + left);
    } else if constexpr (plan::realign) {  // of a slice: eight rows of each of the warp's two phases
        cute::SM90_TMA_STORE_3D::copy(map, from, first, second / atom_rows * 8, second % atom_rows / 8);
    } else {
        store_box(map, from, first, second, held.tile);
    }
}

// The warps of a consumer turn blocks of 64 rows, so that columns leave side by side, in parts.

constexpr int turned_rows = plan::store_rows;  // of a block, side by side in a line of 128 bytes

// A tile of C on its way out, as C's type; at first none, outside of C.
struct Held {
    Kept kept[atoms] = {};
    Tile tile;
    CUTLASS_DEVICE Held(Sizes const &sizes) : tile{sizes.m, 0, 0, 0, 0, 0, 0, 0} {}
};

CUTLASS_DEVICE void take(Held &held, Accumulator const (&accumulators)[atoms], Tile const &tile) {
#pragma unroll
    for (int i = 0; i < atoms; ++i) keep(accumulators[i], held.kept[i]);
    held.tile = tile;
}

CUTLASS_DEVICE char *buffer_of(Cta const &cta, int group, int buffer) {
    return cta.memory + plan::result_at + (group * plan::buffers + buffer) * plan::buffer_bytes;
}

// Likewise of rows that are realigned: a lane's are neighbours in C, with those of other warps between it and the next.
CUTLASS_DEVICE void lay_apart(uint32_t const *kept, uint32_t start, int warp, int lane) {
    constexpr int size = sizeof(plan::Result);
    int const bytes = (lane / 4 * 8 + warp * 2) * size, late = bytes % swizzle_row;
    uint32_t const block = start + bytes / swizzle_row * plan::store_columns * swizzle_row + late % granule;
#pragma unroll
    for (int i = 0; i < plan::store_columns / 4; ++i) {
        int const column = i / 2 * 8 + lane % 4 * 2 + i % 2;
        uint32_t const at = block + column * swizzle_row + (late / granule ^ column % 8) * granule;
        uint32_t const *from = kept + i / 2 * size;
        if constexpr (size == 2) {
            uint32_t const both = __byte_perm(from[0], from[1], i % 2 ? 0x7632 : 0x5410);
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(both));
        } else {
            asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(at), "r"(from[i % 2]), "r"(from[2 + i % 2]));
        }
    }
}

// Lays a warp's 16 rows of a part down as columns, whose granules the swizzle moves by the number of the column.
template <int part, int buffer>
CUTLASS_DEVICE void write_c(Cta const &cta, Held const &held, Accumulator const (&)[atoms], int group, int warp,
                            int lane) {
    constexpr int first = first_column(part);
    uint32_t const start = shared_address(buffer_of(cta, group, buffer));
    Kept const &kept = held.kept[part / plan::parts];
    if constexpr (plan::realign) {
        lay_apart(&kept[first * int(sizeof(plan::Result)) / 8], start, warp, lane);
    } else if constexpr (sizeof(plan::Result) == 2) {  // matrices of 8 rows and 8 columns, turned
        int const column = lane % 8 + lane / 16 * 8, number = 2 * warp + lane / 8 % 2;
        uint32_t const to = start + column * swizzle_row + (number ^ lane % 8) * granule;
#pragma unroll
        for (int pair = 0; pair < plan::store_columns / 16; ++pair) {
            uint32_t const *from = &kept[(first + pair * 16) / 4];
            asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                             to + pair * 16 * swizzle_row),
                         "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]));
        }
        if constexpr (plan::store_columns % 16) {
            uint32_t const *from = &kept[(first + plan::store_columns - 8) / 4];
            asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(
                             to + (plan::store_columns - 8) * swizzle_row),
                         "r"(from[0]), "r"(from[1]));
        }
    } else {  // element by element, of two columns and two rows
#pragma unroll
        for (int i = 0; i < plan::store_columns / 2; ++i) {
            int const column = i / 4 * 8 + lane % 4 * 2 + i % 2, row = warp % 2 * 16 + i / 2 % 2 * 8 + lane / 4;
            uint32_t const at = start + (warp / 2 * plan::store_columns + column) * swizzle_row;
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(at + (row / 4 ^ column % 8) * granule + row % 4 * 4),
                         "r"(kept[first / 2 + i]));
        }
    }
}

// Each warp stores its own rows, in parts.
constexpr int own_parts = own_blocks * parts;

CUTLASS_DEVICE void keep(Sums const (&sums)[own_blocks], Kept (&kept)[own_blocks]) {
#pragma unroll
    for (int i = 0; i < own_blocks; ++i) keep(sums[i], kept[i]);
}

template <int part>
CUTLASS_DEVICE void store_part(Block const &block, Tile const &tile, Kept const (&kept)[own_blocks], int group, int warp,
                               int lane) {
    constexpr int i = part / parts;
    char *buffer = block.memory + plan::stages * plan::stage_bytes + (group * 4 + warp) * buffers * buffer_bytes;
    int const row = ((plan::alternate ? 0 : group * own_blocks) + i) * block_rows + warp * 16;
    store<part % parts>(block, tile, kept[i], buffer, row, lane);
}

template <int first, int... part>
CUTLASS_DEVICE void store_parts(Block const &block, Tile const &tile, Kept const (&kept)[own_blocks], int group, int warp,
                                int lane, std::integer_sequence<int, part...>) {
    (store_part<first + part>(block, tile, kept, group, warp, lane), ...);
}

CUTLASS_DEVICE void store_kept(Block const &block, Tile const &tile, Kept const (&kept)[own_blocks], int group, int warp,
                               int lane) {
    store_parts<0>(block, tile, kept, group, warp, lane, std::make_integer_sequence<int, own_parts>());
}

CUTLASS_DEVICE void store_tile(Block const &block, Tile const &tile, Sums const (&sums)[own_blocks], int group, int warp,
                               int lane) {
    Kept kept[own_blocks];
    keep(sums, kept);
    store_kept(block, tile, kept, group, warp, lane);
}

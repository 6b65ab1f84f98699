// Each warp stores its own rows, in parts.

// A tile of C on its way out, as C's type; at first none, outside of C.
struct Held {
    Kept kept[own_blocks] = {};
    Tile tile;
    CUTLASS_DEVICE Held(Sizes const &sizes) : tile{sizes.m, 0, 0, 0, 0, 0, 0} {}
};

CUTLASS_DEVICE void take(Held &held, Sums const (&sums)[own_blocks], Tile const &tile) {
#pragma unroll
    for (int i = 0; i < own_blocks; ++i) keep(sums[i], held.kept[i]);
    held.tile = tile;
}

// A warp's buffer, and the first of its 16 rows of a part within the tile.
CUTLASS_DEVICE char *buffer_of(Block const &block, int group, int warp, int buffer) {
    return block.memory + plan::result_at + ((group * 4 + warp) * plan::buffers + buffer) * plan::buffer_bytes;
}
template <int part>
CUTLASS_DEVICE int first_row(int group, int warp) {
    return ((plan::alternate ? 0 : group * own_blocks) + part / plan::parts) * block_rows + warp * 16;
}

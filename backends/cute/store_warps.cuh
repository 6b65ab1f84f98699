// Each warp stores its own rows, in parts.

// A tile of C on its way out, as C's type; at first none, outside of C.
struct Held {
    Kept kept[atoms] = {};
    Tile tile;
    CUTLASS_DEVICE Held(Sizes const &sizes) : tile{plan::sliced ? 1 << 30 : sizes.m, 0, 0, 0, 0, 0, 0, 0} {}
};

CUTLASS_DEVICE void take(Held &held, Accumulator const (&accumulators)[atoms], Tile const &tile) {
#pragma unroll
    for (int i = 0; i < atoms; ++i) keep(accumulators[i], held.kept[i]);
    held.tile = tile;
}

// A warp's buffer, and the first of its 16 rows of a part within the tile.
CUTLASS_DEVICE char *buffer_of(Cta const &cta, int group, int warp, int buffer) {
    return cta.memory + plan::result_at + ((group * 4 + warp) * plan::buffers + buffer) * plan::buffer_bytes;
}
template <int part>
CUTLASS_DEVICE int first_row(int group, int warp) {
    return ((plan::ping_pong ? 0 : group * atoms) + part / plan::parts) * atom_rows + warp * 16;
}

// Each warp stores its own rows.
CUTLASS_DEVICE void store_tile(Block const &block, Tile const &tile, Sums const (&sums)[own_blocks], int group, int warp,
                               int lane) {
    char *buffer = block.memory + plan::stages * plan::stage_bytes + (group * 4 + warp) * buffers * buffer_bytes;
#pragma unroll
    for (int i = 0; i < own_blocks; ++i) {
        int const row = ((plan::alternate ? 0 : group * own_blocks) + i) * block_rows + warp * 16;
        store(block, tile, sums[i], buffer, row, lane);
    }
}

// A row's first granule also holds the end of the row before, which must not count, even if it is no number.
CUTLASS_DEVICE void drop_heads(Block const &block, Ring const &ring, int shift, int group, int thread) {
    int const first = plan::alternate ? 0 : group * own_blocks * block_rows;
    for (int i = thread; i < own_blocks * block_rows; i += warpgroup_threads) {
        int const row = first + i;
        char *at = block.stage(ring.stage) + row * swizzle_row + row % swizzle_rows * granule;
        uint64_t *words = reinterpret_cast<uint64_t *>(at);
        int const bits = shift * plan::element_bytes * 8;
        words[0] = bits < 64 ? words[0] >> bits << bits : 0;
        if (bits > 64) words[1] = words[1] >> (bits - 64) << (bits - 64);
    }
}

// Multiplies so many steps of a stage, with A and B from shared memory.
CUTLASS_DEVICE void multiply(Block const &block, Ring const &ring, Sums (&sums)[own_blocks], int group, int steps) {
    uint32_t const stage = shared_address(block.stage(ring.stage));
    uint64_t const a = descriptor(plan::a_word, stage + (plan::alternate ? 0 : group * own_blocks * plan::a_block_bytes));
    uint64_t const b = descriptor(plan::b_word, stage + plan::b_offset);
#pragma unroll
    for (int step = 0; step < plan::steps; ++step) {
        if (step && step >= steps) break;
#pragma unroll
        for (int i = 0; i < own_blocks; ++i) {
            multiply_add(sums[i], every_sum, a + (plan::a_offsets[i][step] >> 4), b + (plan::b_offsets[step] >> 4));
        }
    }
}

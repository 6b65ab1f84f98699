// A row's first granule also holds the end of the row before, which must not count, even if it is no number.
CUTLASS_DEVICE void drop_heads(Cta const &cta, Ring const &ring, int shift, int group, int thread) {
    int const first = plan::ping_pong ? 0 : group * atoms * atom_rows;
    for (int i = thread; i < atoms * atom_rows; i += warpgroup_threads) {
        int const row = first + i;
        char *at = cta.stage(ring.stage) + row * swizzle_row + row % swizzle_rows * granule;
        uint64_t *words = reinterpret_cast<uint64_t *>(at);
        int const bits = shift * plan::element_bytes * 8;
        words[0] = bits < 64 ? words[0] >> bits << bits : 0;
        if (bits > 64) words[1] = words[1] >> (bits - 64) << (bits - 64);
    }
}

// Multiplies so many steps of a stage, with A and B from shared memory.
CUTLASS_DEVICE void multiply(Cta const &cta, Ring const &ring, Accumulator (&accumulators)[atoms], int group, int steps) {
    uint32_t const stage = shared_address(cta.stage(ring.stage));
    uint64_t const a = descriptor(plan::a_word, stage + (plan::ping_pong ? 0 : group * atoms * plan::a_atom_bytes));
    uint64_t const b = descriptor(plan::b_word, stage + plan::b_offset);
#pragma unroll
    for (int step = 0; step < plan::steps; ++step) {
        if (step && step >= steps) break;
#pragma unroll
        for (int i = 0; i < atoms; ++i) {
            multiply_add(accumulators[i], every_register, a + (plan::a_offsets[i][step] >> 4), b + (plan::b_offsets[step] >> 4));
        }
    }
}

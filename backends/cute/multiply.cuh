// A row's first granule also holds the end of the row before, which must not count, even if it is no number.
CUTLASS_DEVICE void drop_heads(Block const &block, Ring const &ring, int shift, int group, int thread) {
    ClusterBarrier::wait(block.full + ring.stage, ring.parity);
    int const first = plan::alternate ? 0 : group * own_blocks * block_rows;
    for (int i = thread; i < own_blocks * block_rows; i += warpgroup_threads) {
        int const row = first + i;
        char *at = block.stage(ring.stage) + row * swizzle_row + row % swizzle_rows * granule;
        uint64_t *words = reinterpret_cast<uint64_t *>(at);
        int const bits = shift * plan::element_bytes * 8;
        words[0] = bits < 64 ? words[0] >> bits << bits : 0;
        if (bits > 64) words[1] = words[1] >> (bits - 64) << (bits - 64);
    }
    cute::tma_store_fence();
    cutlass::arch::NamedBarrier::sync(warpgroup_threads, first_mend + group);
}

// Multiplies one stage, so many steps of it, with A and B from shared memory, as a group of its own.
CUTLASS_DEVICE void multiply_stage(Block const &block, Ring const &ring, Sums (&sums)[own_blocks], int group,
                                   int steps = plan::steps) {
    ClusterBarrier::wait(block.full + ring.stage, ring.parity);
    uint32_t const stage = shared_address(block.stage(ring.stage));
    uint64_t const a = descriptor(plan::a_word, stage + (plan::alternate ? 0 : group * own_blocks * plan::a_block_bytes));
    uint64_t const b = descriptor(plan::b_word, stage + plan::b_offset);
    fence(sums);
    cute::warpgroup_arrive();
#pragma unroll
    for (int step = 0; step < plan::steps; ++step) {
        if (step && step >= steps) break;
#pragma unroll
        for (int i = 0; i < own_blocks; ++i) {
            multiply_add(sums[i], every_sum, a + (plan::a_offsets[i][step] >> 4), b + (plan::b_offsets[step] >> 4));
        }
    }
    cute::warpgroup_commit_batch();
    fence(sums);
}

// Multiplies a stage, and releases the one before, which `held` names.
CUTLASS_DEVICE void multiply_next(Block const &block, Ring &ring, Sums (&sums)[own_blocks], int group, int lane,
                                  int &held, int steps = plan::steps) {
    multiply_stage(block, ring, sums, group, steps);
    cute::warpgroup_wait<1>();
    release(block, held, lane);
    held = ring.stage;
    ring.advance();
}

// Multiplies a tile: a stage is released once the next one's group is under way. What is aside, by number, is done
// while a stage each is multiplied, of which a tile must have one more.
template <class Aside, int... number>
CUTLASS_DEVICE void multiply(Block const &block, Tile const &tile, Ring &ring, Sums (&sums)[own_blocks], int group,
                             int warp, int lane, Aside const &aside, std::integer_sequence<int, number...>) {
    clear(sums);
    if (plan::phase_tiles && tile.shift) drop_heads(block, ring, tile.shift, group, warp * warp_lanes + lane);
    multiply_stage(block, ring, sums, group);
    int held = ring.stage;
    ring.advance();
    (..., (aside(std::integral_constant<int, number>()), multiply_next(block, ring, sums, group, lane, held)));
    int k = 1 + int(sizeof...(number));
    for (; k + 1 < tile.k_tiles; ++k) multiply_next(block, ring, sums, group, lane, held);
    if (k < tile.k_tiles) multiply_next(block, ring, sums, group, lane, held, tile.last_steps);
    cute::warpgroup_wait<0>();
    fence(sums);
    release(block, held, lane);
}

CUTLASS_DEVICE void multiply(Block const &block, Tile const &tile, Ring &ring, Sums (&sums)[own_blocks], int group,
                             int warp, int lane) {
    multiply(block, tile, ring, sums, group, warp, lane, [](auto) {}, std::integer_sequence<int>());
}

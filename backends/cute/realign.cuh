// A fragment's words as wgmma takes A from registers: rows g and g + 8, words t and t + 4 of a step's eight.
struct Fragment {
    uint32_t word[4];
};

// Reads rows that start anywhere in a granule as if they started at its beginning.
struct Realigner {
    static constexpr int rows = plan::tile_m / a_maps;          // of a phase
    static constexpr int halves = rows % 16 ? 2 : 1;            // rows g and g + 8 start alike where phases allow
    static constexpr int granules = swizzle_row / granule;
    uint32_t offset[halves][plan::steps][4];  // bytes from the stage's start to words t, t + 1, t + 4, t + 5
    bool beyond[halves][4];                   // whether the last step finds them in the next stage
    uint32_t shift[halves];                   // bits to drop of the first word; with 0 the second is not read

    CUTLASS_DEVICE void start(Sizes const &sizes, int first_row, int lane) {
        int const g = lane / 4, t = lane % 4;
#pragma unroll
        for (int half = 0; half < halves; ++half) {
            int const mine = first_row + g + 8 * half;
            uint32_t const bytes = (sizes.a + mine / rows * sizes.a_pitch) % granule;
            shift[half] = bytes % 4 * 8;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                uint32_t const word = bytes / 4 + t + i % 2 + i / 2 * 4;
                beyond[half][i] = 2 * (plan::steps - 1) + word / 4 >= granules;
#pragma unroll
                for (int step = 0; step < plan::steps; ++step) {
                    uint32_t const at = (2 * step + word / 4) % granules;
                    offset[half][step][i] = mine * swizzle_row + (at ^ g) * granule + word % 4 * 4;
                }
            }
        }
    }

    CUTLASS_DEVICE Fragment read(uint32_t stage, uint32_t next, int step) const {
        Fragment found;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int const alike = half % halves, further = (half - alike) * 8 * swizzle_row;
            uint32_t raw[4] = {};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                uint32_t const base = step == plan::steps - 1 && beyond[alike][i] ? next : stage;
                uint32_t const address = base + offset[alike][step][i] + further;
                if (i % 2 == 0) {
                    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(raw[i]) : "r"(address));
                } else {
                    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.shared.b32 %0, [%1]; }"
                                 : "+r"(raw[i])
                                 : "r"(address), "r"(shift[alike]));
                }
            }
            found.word[half] = __funnelshift_r(raw[0], raw[1], shift[alike]);
            found.word[half + 2] = __funnelshift_r(raw[2], raw[3], shift[alike]);
        }
        return found;
    }
};

constexpr int most_narrow = 64;  // columns, whose sums leave registers for the fragments of two stages

CUTLASS_DEVICE void read_all(Fragment (&fragments)[plan::steps][own_blocks], Realigner const (&rows)[own_blocks],
                             uint32_t stage, uint32_t after) {
#pragma unroll
    for (int step = 0; step < plan::steps; ++step) {
#pragma unroll
        for (int i = 0; i < own_blocks; ++i) fragments[step][i] = rows[i].read(stage, after, step);
    }
}

CUTLASS_DEVICE void multiply_step(Sums (&sums)[own_blocks], Fragment const (&fragments)[own_blocks], uint64_t b,
                                  int step) {
#pragma unroll
    for (int i = 0; i < own_blocks; ++i) {
        uint32_t const *words = fragments[i].word;
        multiply_add(sums[i], every_sum, words[0], words[1], words[2], words[3], b + (plan::b_offsets[step] >> 4));
    }
}

// A stage's fragments are read while the one before is multiplied. Two sets of registers take turns, and no copy joins
// them: the assembler would merge what it copies, though a multiplication under way still reads the old values.
CUTLASS_DEVICE void multiply_narrow(Block const &block, Tile const &tile, Ring &ring, Sums (&sums)[own_blocks],
                                    Realigner const (&rows)[own_blocks], int lane) {
    Fragment even[plan::steps][own_blocks], odd[plan::steps][own_blocks];
    int held = -1;
    auto turn = [&](Fragment(&mine)[plan::steps][own_blocks]) {
        Ring next = ring;
        next.advance();
        ClusterBarrier::wait(block.full + next.stage, next.parity);
        uint32_t const stage = shared_address(block.stage(ring.stage));
        read_all(mine, rows, stage, shared_address(block.stage(next.stage)));
        uint64_t const b = descriptor(plan::b_word, stage + plan::b_offset);
        fence(sums);
        cute::warpgroup_arrive();
#pragma unroll
        for (int step = 0; step < plan::steps; ++step) multiply_step(sums, mine[step], b, step);
        cute::warpgroup_commit_batch();
        cute::warpgroup_wait<1>();
        if (held >= 0) release(block, held, lane);
        held = ring.stage;
        ring = next;
    };
    int k = 0;
    for (; k + 1 < tile.k_tiles; k += 2) {
        turn(even);
        turn(odd);
    }
    if (k < tile.k_tiles) turn(even);
    cute::warpgroup_wait<0>();
    fence(sums);
    release(block, held, lane);
}

// A step's fragments are read while the one before is multiplied.
CUTLASS_DEVICE void multiply_wide(Block const &block, Tile const &tile, Ring &ring, Sums (&sums)[own_blocks],
                                  Realigner const (&rows)[own_blocks], int lane) {
    Fragment fragments[2][own_blocks];
    int held = -1;
    for (int k = 0; k < tile.k_tiles; ++k) {
        Ring next = ring;
        next.advance();
        ClusterBarrier::wait(block.full + next.stage, next.parity);
        uint32_t const stage = shared_address(block.stage(ring.stage));
        uint32_t const after = shared_address(block.stage(next.stage));
        uint64_t const b = descriptor(plan::b_word, stage + plan::b_offset);
#pragma unroll
        for (int step = 0; step < plan::steps; ++step) {
#pragma unroll
            for (int i = 0; i < own_blocks; ++i) fragments[step % 2][i] = rows[i].read(stage, after, step);
            fence(sums);
            cute::warpgroup_arrive();
            multiply_step(sums, fragments[step % 2], b, step);
            cute::warpgroup_commit_batch();
            cute::warpgroup_wait<1>();
            if (step == 0 && held >= 0) release(block, held, lane);
        }
        held = ring.stage;
        ring = next;
    }
    cute::warpgroup_wait<0>();
    fence(sums);
    release(block, held, lane);
}

// Multiplies a tile with A from registers. A stage's last step reads into the next one.
CUTLASS_DEVICE void multiply(Block const &block, Tile const &tile, Ring &ring, Sums (&sums)[own_blocks], int group,
                             int warp, int lane) {
    int const first_row = (plan::alternate ? 0 : group * own_blocks * block_rows) + warp * 16;
    Realigner rows[own_blocks];
#pragma unroll
    for (int i = 0; i < own_blocks; ++i) rows[i].start(block.sizes, first_row + i * block_rows, lane);
    clear(sums);
    ClusterBarrier::wait(block.full + ring.stage, ring.parity);
    if constexpr (plan::tile_n <= most_narrow) {
        multiply_narrow(block, tile, ring, sums, rows, lane);
    } else {
        multiply_wide(block, tile, ring, sums, rows, lane);
    }
    cute::warpgroup_wait<0>();
    fence(sums);
    release(block, ring.stage, lane);  // which brought the ends of rows alone
    ring.advance();
}

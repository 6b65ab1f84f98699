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

// Fragments of so many steps of a stage. Sets of them take turns, and no copy joins them: the assembler would merge what
// it copies, though a multiplication under way still reads the old values.
struct Fragments {
    Fragment of[plan::fragment_steps][atoms];
};

CUTLASS_DEVICE void find_rows(Realigner (&rows)[atoms], Sizes const &sizes, int group, int warp, int lane) {
    int const first_row = (plan::ping_pong ? 0 : group * atoms * atom_rows) + warp * 16;
#pragma unroll
    for (int i = 0; i < atoms; ++i) rows[i].start(sizes, first_row + i * atom_rows, lane);
}

template <int first>
CUTLASS_DEVICE void read_rows(Fragments &fragments, Realigner const (&rows)[atoms], Cta const &cta,
                              Ring const &ring) {
    uint32_t const stage = shared_address(cta.stage(ring.stage)), after = shared_address(cta.stage(ring.next().stage));
#pragma unroll
    for (int step = 0; step < plan::fragment_steps; ++step) {
#pragma unroll
        for (int i = 0; i < atoms; ++i) fragments.of[step][i] = rows[i].read(stage, after, first + step);
    }
}

template <int first>
CUTLASS_DEVICE void multiply_rows(Accumulator (&accumulators)[atoms], Fragments const &fragments, Cta const &cta,
                                  Ring const &ring) {
    uint64_t const b = descriptor(plan::b_word, shared_address(cta.stage(ring.stage)) + plan::b_offset);
#pragma unroll
    for (int step = 0; step < plan::fragment_steps; ++step) {
#pragma unroll
        for (int i = 0; i < atoms; ++i) {
            uint32_t const *words = fragments.of[step][i].word;
            multiply_add(accumulators[i], every_register, words[0], words[1], words[2], words[3],
                         b + (plan::b_offsets[first + step] >> 4));
        }
    }
}

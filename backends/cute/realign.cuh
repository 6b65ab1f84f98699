// Reads rows that start anywhere in a granule as if they started at its beginning.
//
// Boxes lay the rows of a phase one behind the other. Lanes of which each four have a row read eight of one phase: of as
// many rows as eight of each phase are, which lie side by side in C. So what is found for an atom holds for every atom
// that is `sets` behind it as well, whose rows lie eight further on.
struct Realigner {
    static constexpr int phase_rows = plan::tile_m / a_maps, sets = a_maps / 8;
    uint32_t base[2][6];  // from the stage's start to words t and t + 1, and t + 4 and t + 5 in even steps and in odd ones
    bool crosses[2][2];   // whether words t + 4, and t + 5, lie a granule further: in the last step in the next stage
    uint32_t shift[2];    // bits to drop of the first word; with 0 the second is not read

    CUTLASS_DEVICE void start(unsigned long long first, long long pitch, int atom, int warp, int lane) {
        int const g = lane / 4, t = lane % 4;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int const phase = atom % sets * 8 + warp * 2 + half;
            int const row = phase * phase_rows + atom / sets * 8 + g;
            uint32_t const bytes = (first + phase * pitch) % granule;
            shift[half] = bytes % 4 * 8;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                uint32_t const word = bytes / 4 + t + i, further = word / 4;  // granules: of words t + 4 and t + 5 one more
                uint32_t const at = row * swizzle_row + (further ^ g) * granule + word % 4 * 4;
                crosses[half][i] = further;
                base[half][i] = at;
                base[half][2 + i] = at ^ granule ^ (further ? 2 * granule : 0);
                base[half][4 + i] = at ^ granule ^ (further ? 6 * granule : 0);
            }
        }
    }

    CUTLASS_DEVICE Fragment read(uint32_t stage, uint32_t next, int step, int rows) const {
        Fragment found;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint32_t raw[4] = {};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                uint32_t const from = i > 1 && step == plan::steps - 1 && crosses[half][i % 2] ? next : stage;
                uint32_t const own = base[half][i < 2 ? i : 2 + step % 2 * 2 + i % 2];
                uint32_t const address = ((from + own) ^ (step * 2 * granule)) + rows * swizzle_row;
                if (i % 2 == 0) {
                    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(raw[i]) : "r"(address));
                } else {
                    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p ld.shared.b32 %0, [%1]; }"
                                 : "+r"(raw[i])
                                 : "r"(address), "r"(shift[half]));
                }
            }
            found.word[half] = __funnelshift_r(raw[0], raw[1], shift[half]);
            found.word[half + 2] = __funnelshift_r(raw[2], raw[3], shift[half]);
        }
        return found;
    }
};

constexpr int found_atoms = atoms < Realigner::sets ? atoms : Realigner::sets;

CUTLASS_DEVICE void find_rows(Realigner (&rows)[found_atoms], Cta const &cta, Tile const &tile, int group, int warp,
                              int lane) {
    unsigned long long const first = cta.sizes.a + in_front<true>(cta.sizes, tile);
    int const atom = plan::ping_pong ? 0 : group * atoms;
#pragma unroll
    for (int i = 0; i < found_atoms; ++i) rows[i].start(first, cta.sizes.a_pitch, atom + i, warp, lane);
}

template <int first>
CUTLASS_DEVICE void read_rows(Fragments &fragments, Realigner const (&rows)[found_atoms], Cta const &cta,
                              Ring const &ring, int) {
    uint32_t const stage = shared_address(cta.stage(ring.stage)), after = shared_address(cta.stage(ring.next().stage));
#pragma unroll
    for (int step = 0; step < plan::fragment_steps; ++step) {
#pragma unroll
        for (int i = 0; i < atoms; ++i) {
            fragments.of[step][i] = rows[i % found_atoms].read(stage, after, first + step, i / Realigner::sets * 8);
        }
    }
}

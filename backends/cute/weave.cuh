// Reads lines that lie across k and start anywhere in a granule: a lane takes what its rows have of four of a step's.
//
// Boxes lay the lines of a phase one behind the other, an odd number of half banks apart, and those of every second two
// phases two granules further on. The lanes of a row that read at once, of four phases, two lines of each two, so find
// theirs in other banks.
struct Realigner {
    static constexpr int pitch = LinesA::pitch, count = LinesA::count;
    uint32_t base[2][2];  // from the stage's start to lines 2 t and 2 t + 1, and 8 further; of the last lanes these first
    bool last;

    CUTLASS_DEVICE void start(unsigned long long first, long long line_pitch, int warp, int lane) {
        int const g = lane / 4, t = lane % 4;
        last = t >= 2;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            int const phase = 2 * t + i;
            uint32_t const late = (first + phase * line_pitch) % granule + LinesA::early(phase);
            uint32_t const at = phase * count * pitch + late + (warp * 16 + g) * plan::element_bytes;
            base[i][0] = at + last * pitch;
            base[i][1] = at + !last * pitch;
        }
    }

    // Rows of an atom: `rows` bytes from where the tile's first lie.
    CUTLASS_DEVICE Fragment read(uint32_t stage, int step, int rows) const {
        Fragment found;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            uint32_t word[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                uint16_t of[2];
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    asm volatile("ld.shared.u16 %0, [%1];"
                                 : "=h"(of[j])
                                 : "r"(stage + base[j][i] + rows + half * 8 * plan::element_bytes + step * 2 * pitch));
                }
                word[i] = of[0] | uint32_t(of[1]) << 16;
            }
            found.word[half] = last ? word[1] : word[0];
            found.word[half + 2] = last ? word[0] : word[1];
        }
        return found;
    }
};

constexpr int found_atoms = 1;  // lines are the same of every atom

CUTLASS_DEVICE void find_rows(Realigner (&rows)[found_atoms], Cta const &cta, Tile const &tile, int group, int warp,
                              int lane) {
    rows[0].start(cta.sizes.a + in_front<true>(cta.sizes, tile), cta.sizes.a_pitch, warp, lane);
}

// Where an atom's rows lie: spans side by side in a box, of which each group has eight, one for each phase.
CUTLASS_DEVICE int rows_at(int atom) {
    constexpr int group = lines_alike * Realigner::count * Realigner::pitch;
    return atom / plan::a_spans * group + atom % plan::a_spans * swizzle_row;
}

template <int first>
CUTLASS_DEVICE void read_rows(Fragments &fragments, Realigner const (&rows)[found_atoms], Cta const &cta,
                              Ring const &ring, int group) {
    uint32_t const stage = shared_address(cta.stage(ring.stage));
    int const atom = plan::ping_pong ? 0 : group * atoms;
#pragma unroll
    for (int step = 0; step < plan::fragment_steps; ++step) {
#pragma unroll
        for (int i = 0; i < atoms; ++i) {
            fragments.of[step][i] = rows[0].read(stage, first + step, rows_at(atom + i));
        }
    }
}

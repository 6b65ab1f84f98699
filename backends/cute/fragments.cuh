// A fragment's words as wgmma takes A from registers: rows g and g + 8, words t and t + 4 of a step's eight.
struct Fragment {
    uint32_t word[4];
};

// Fragments of so many steps of a stage. Sets of them take turns, and no copy joins them: the assembler would merge what
// it copies, though a multiplication under way still reads the old values.
struct Fragments {
    Fragment of[plan::fragment_steps][atoms];
};

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

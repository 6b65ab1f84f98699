// Sums of lines of B that begin anywhere in a granule: those of one phase of k begin alike, as many columns earlier than
// those of the phase before.
constexpr int slid_columns = granule / plan::element_bytes / plan::slides;

// Moves columns towards the first. A lane has columns 2 t and 2 t + 1 of each eight, t its place among four, of rows
// that are 8 apart; what comes from beyond the last eight is what these had, and nobody's. What a lane moves by itself
// is no copy: the assembler would merge registers that are copied, and has no others for the next multiplication.
CUTLASS_DEVICE void slide(Cta const &cta, Accumulator (&accumulators)[atoms], int lane) {
    uint32_t const none = static_cast<uint32_t>(cta.sizes.m) >> 31;  // no bit, which the assembler cannot know
    constexpr int eights = plan::summed / 8;
    int const place = lane % 4, from = lane / 4 * 4 + (place + (slid_columns + 1) / 2) % 4;
    bool const first = place < (slid_columns + 1) / 2;  // whom others ask for what the next eight has
#pragma unroll
    for (int i = 0; i < atoms; ++i) {
#pragma unroll
        for (int eight = 0; eight < eights; ++eight) {
            float *own = accumulators[i] + 4 * eight, *next = eight + 1 < eights ? own + 4 : own;
#pragma unroll
            for (int row = 0; row < 4; row += 2) {
                float const low = __shfl_sync(~0u, first ? next[row] : own[row], from);
                if constexpr (slid_columns == 1) {
                    own[row] = __uint_as_float(__float_as_uint(own[row + 1]) ^ none);
                    own[row + 1] = low;
                } else {
                    own[row + 1] = __shfl_sync(~0u, first ? next[row + 1] : own[row + 1], from);
                    own[row] = low;
                }
            }
        }
    }
}

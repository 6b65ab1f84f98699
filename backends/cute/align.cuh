// Operands whose lines begin anywhere in a granule: boxes bring the granules that hold the lines, and a warpgroup moves
// each line to where a box with the 128-byte swizzle would have laid a whole one.

CUTLASS_DEVICE void load_lines_a(Cta const &cta, Ring const &ring, uint64_t *full, Tile const &tile, int k_tile) {
    uint16_t mask = 0;
    for (int i = 0; i < plan::cluster_n; ++i) mask |= 1 << (cta.rank_m + i * plan::cluster_m);
    LinesA::bring<plan::cluster_n>(cta.sizes, cta.maps.a, full + ring.stage, mask, cta.sizes.a_hint,
                                   cta.stage(ring.stage) + plan::a_lines, tile.a_m,
                                   (tile.first_k + k_tile) * plan::tile_k, cta.rank_n, tile);
}

CUTLASS_DEVICE void load_lines_b(Cta const &cta, Ring const &ring, uint64_t *full, Tile const &tile, int k_tile) {
    uint16_t mask = 0;
    for (int i = 0; i < plan::cluster_m; ++i) mask |= 1 << (i + cta.rank_n * plan::cluster_m);
    LinesB::bring<plan::cluster_m>(cta.sizes, cta.maps.b, full + ring.stage, mask, cta.sizes.b_hint,
                                   cta.stage(ring.stage) + plan::b_lines, tile.n,
                                   (tile.first_k + k_tile) * plan::tile_k, cta.rank_m, tile);
}

// Eight lanes have a line of each phase, and lie on a diagonal: of boxes, whose lines are an odd number of granules
// apart, they read other banks then, and the swizzle has them write others.
template <class Lines>
CUTLASS_DEVICE void align_lines(uint32_t from, uint32_t to, unsigned long long address, long long pitch, int thread) {
    constexpr int granules = swizzle_row / granule, octets = warpgroup_threads / lines_alike;
    int const phase = thread % lines_alike;
    int const late = (address + phase * pitch) % granule;
#pragma unroll 1
    for (int unit = thread / lines_alike; unit < Lines::rows / lines_alike; unit += octets) {
        int const line = unit / lines_alike * lines_alike + (phase + unit) % lines_alike;  // of its phase
        int const span = line / Lines::count, box = span / Lines::side_by_side * lines_alike + phase;
        uint32_t const source = from + (box * Lines::count + line % Lines::count) * Lines::pitch +
                                span % Lines::side_by_side * swizzle_row;
        uint32_t const target = to + (line * lines_alike + phase) * swizzle_row;
        Granule raw[granules + 1];
#pragma unroll
        for (int i = 0; i <= granules; ++i) raw[i] = granule_at(source + i * granule);
#pragma unroll
        for (int i = 0; i < granules; ++i) lay_down(target + (i ^ phase) * granule, shifted(raw[i], raw[i + 1], late));
    }
}

// A tile's first line is one of the first phase, but for groups of rows, which begin with any.
CUTLASS_DEVICE void align_a(Cta const &cta, Ring const &ring, Tile const &tile, int thread) {
    uint32_t const stage = shared_address(cta.stage(ring.stage));
    unsigned long long const first = plan::rows_cut ? tile.a_m * cta.sizes.a_pitch : in_front<true>(cta.sizes, tile);
    align_lines<LinesA>(stage + plan::a_lines, stage, cta.sizes.a + first, cta.sizes.a_pitch, thread);
}

CUTLASS_DEVICE void align_b(Cta const &cta, Ring const &ring, Tile const &tile, int thread) {
    uint32_t const stage = shared_address(cta.stage(ring.stage));
    unsigned long long const first = cta.sizes.b + in_front<false>(cta.sizes, tile);
    align_lines<LinesB>(stage + plan::b_lines, stage + plan::b_offset, first, cta.sizes.b_pitch, thread);
}

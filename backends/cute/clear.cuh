// Groups along k whose tiles begin in front of them: what of a stage is the k of others is cleared, since it might be no
// number, where a group begins, and where it ends.

// What is kept of a granule that begins at byte `from` of a row, whose bytes from `begin` to `end` are the group's.
CUTLASS_DEVICE Granule kept_of(int from, int begin, int end) {
    Granule found;
#pragma unroll
    for (int i = 0; i < granule / 4; ++i) {
        int const first = from + 4 * i, before = begin - first, after = first + 4 - end;  // bytes, of four
        uint32_t mask = ~0u;
        if (before > 0) mask = before < 4 ? mask << 8 * before : 0;
        if (after > 0) mask = after < 4 ? mask & (~0u >> 8 * after) : 0;
        found.word[i] = mask;
    }
    return found;
}

// Lanes beside each other have rows that do, whose granules lie in other banks by the swizzle.
CUTLASS_DEVICE void clear_others(Cta const &cta, Ring const &ring, Tile const &tile, int k_tile, int thread) {
    int const first = clipped_k(tile, k_tile, cta.sizes.k);
    // Cut to the k-tile before they are bytes, which of a long group have more than 31 bits.
    int const begin = max(0, tile.begin - first) * plan::element_bytes;
    int const end = max(0, min(tile.end - first, plan::tile_k)) * plan::element_bytes;
    // Behind that nothing is multiplied; and a first k-tile with others' k behind its own has none that is not zero.
    int const stop = k_tile + 1 == tile.k_tiles ? tile.last_steps * (swizzle_row / plan::steps) : 0;
    constexpr int rows = (plan::a_bytes + plan::b_bytes) / swizzle_row;  // those of B lie behind those of A
    uint32_t const stage = shared_address(cta.stage(ring.stage));
    auto clear = [&](int i) {
        uint32_t const inside = (i ^ thread % swizzle_rows) * granule;  // of all rows of a thread
        bool const mixed = i * granule < end && (i + 1) * granule > begin;  // others have all of it, if not
        Granule const kept = kept_of(i * granule, begin, end);
#pragma unroll
        for (int row = thread; row < rows; row += warpgroup_threads) {
            uint32_t const at = stage + row * swizzle_row + inside;
            Granule one = {};
            if (mixed) one = granule_at(at);
#pragma unroll
            for (int word = 0; word < granule / 4; ++word) one.word[word] &= kept.word[word];
            lay_down(at, one);
        }
    };
    int i = 0;
    do clear(i); while (++i * granule < begin);
    for (i = max(i, end / granule); i * granule < stop; ++i) clear(i);
    __syncwarp();  // some lanes may have a row more
}

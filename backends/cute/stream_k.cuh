// Stream-K: sums of a tile that another cluster stores, by a workspace, as registers hold them.

// Where a thread of a consumer finds sums that are given by a place: four by four, those of all threads side by side.
CUTLASS_DEVICE uint4 *given_sums(Cta const &cta, int place, int group, int warp, int lane) {
    constexpr int fours = atoms * plan::summed / 8;
    long long const consumer = (long long)(place * cluster_ctas + cta.rank) * plan::warpgroups + group;
    return reinterpret_cast<uint4 *>(cta.sizes.sums) + consumer * fours * warpgroup_threads + warp * warp_lanes + lane;
}

// What says that a warp's sums are there.
CUTLASS_DEVICE unsigned *given_flag(Cta const &cta, int place, int group, int warp) {
    int const consumer = (place * cluster_ctas + cta.rank) * plan::warpgroups + group;
    return cta.sizes.given + consumer * (warpgroup_threads / warp_lanes) + warp;
}

CUTLASS_DEVICE void give_sums(Cta const &cta, Accumulator const (&accumulators)[atoms], Tile const &tile, int group,
                              int warp, int lane) {
    uint4 *to = given_sums(cta, tile.place, group, warp, lane);
#pragma unroll
    for (int i = 0; i < atoms; ++i) {
#pragma unroll
        for (int j = 0; j < plan::summed / 2; j += 4, to += warpgroup_threads) {
            *to = {bits(accumulators[i][j]), bits(accumulators[i][j + 1]), bits(accumulators[i][j + 2]),
                   bits(accumulators[i][j + 3])};
        }
    }
    __syncwarp();
    if (lane == 0) {
        unsigned *flag = given_flag(cta, tile.place, group, warp);
        asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
    }
}

CUTLASS_DEVICE plan::Sum sum_of(uint32_t bits) {
    plan::Sum found;
    set_bits(found, bits);
    return found;
}

// Adds what others have given of a tile, whose clusters' numbers are lower: the nearest one's first.
CUTLASS_DEVICE void add_given(Cta const &cta, Accumulator (&accumulators)[atoms], Tile const &tile, int group, int warp,
                              int lane) {
    for (int other = tile.first_k ? cta.cluster : 0; other && cta.shares.begin(other) > tile.ahead;) {
        int const end = cta.shares.begin(other--);
        if (cta.shares.begin(other) == end) continue;
        unsigned const *flag = given_flag(cta, other, group, warp);
        unsigned there;
        do {  // all lanes ask, and go on together: or the compiler has instructions of the matrix unit wait for each other
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(there) : "l"(flag) : "memory");
        } while (!__all_sync(~0u, there));
        uint4 const *from = given_sums(cta, other, group, warp, lane);
#pragma unroll
        for (int i = 0; i < atoms; ++i) {
#pragma unroll
            for (int j = 0; j < plan::summed / 2; j += 4, from += warpgroup_threads) {
                uint4 const more = *from;
                accumulators[i][j] += sum_of(more.x);
                accumulators[i][j + 1] += sum_of(more.y);
                accumulators[i][j + 2] += sum_of(more.z);
                accumulators[i][j + 3] += sum_of(more.w);
            }
        }
    }
}

// Groups, whose ends are known here alone. A warp finds where each begins, and which tiles are those of groups of rows.
CUTLASS_DEVICE int find_groups(Cta const &cta) {
    // Of a cluster's tile, along the axis that groups cut, and all that there are.
    constexpr int rows = plan::columns_cut ? plan::tile_n * plan::cluster_n : plan::tile_m * plan::cluster_m;
    int const extent = plan::k_cut ? cta.sizes.k : plan::columns_cut ? cta.sizes.n : cta.sizes.m;
    Group *all = cta.groups();
    if (threadIdx.x < warp_lanes) {
        int const lane = threadIdx.x;
        int row = 0, tile = 0;  // where the next group begins
        if (lane == 0) all[0] = {0, 0};
        for (int first = 0; first < cta.sizes.groups; first += warp_lanes) {
            int const number = first + lane;
            int end = number < cta.sizes.groups ? min(cta.sizes.ends[number], extent) : row;
            end = max(end, row);
#pragma unroll
            for (int distance = 1; distance < warp_lanes; distance *= 2) {  // no group ends before the one in front of it
                int const other = __shfl_up_sync(~0u, end, distance);
                if (lane >= distance) end = max(end, other);
            }
            int begin = __shfl_up_sync(~0u, end, 1);
            if (lane == 0) begin = row;
            int tiles = (end - begin + rows - 1) / rows;
#pragma unroll
            for (int distance = 1; distance < warp_lanes; distance *= 2) {
                int const other = __shfl_up_sync(~0u, tiles, distance);
                if (lane >= distance) tiles += other;
            }
            tiles += tile;
            if (number < cta.sizes.groups) all[number + 1] = {end, tiles};
            row = __shfl_sync(~0u, end, warp_lanes - 1);
            tile = __shfl_sync(~0u, tiles, warp_lanes - 1);
        }
    }
    __syncthreads();
    return plan::k_cut ? cta.tiles
                       : all[cta.sizes.groups].tile * (plan::columns_cut ? cta.sizes.tiles_m : cta.sizes.tiles_n);
}

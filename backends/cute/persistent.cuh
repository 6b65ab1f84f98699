constexpr int barriers_at = plan::stages * plan::stage_bytes + (output_bytes + 7) / 8 * 8;

extern "C" __global__ void __launch_bounds__(threads, plan::blocks)
    product(__grid_constant__ Maps const maps, int m, int n, int k, int tiles_m, int tiles_n, int group,
            unsigned long long a, long long a_pitch, unsigned long long c, long long c_pitch, float const *scale_a,
            float const *scale_b) {
    extern __shared__ __align__(1024) char memory[];
    Sizes const sizes{m, n, k, tiles_m, tiles_n, group, a, a_pitch, c, c_pitch, scale_a, scale_b};
    int const warpgroup = cutlass::canonical_warp_group_idx();
    int const thread = threadIdx.x % warpgroup_threads;
    int const rank = cluster_blocks > 1 ? cute::block_rank_in_cluster() : 0;
    uint64_t *full = reinterpret_cast<uint64_t *>(memory + barriers_at);
    Block const block{maps,
                      sizes,
                      memory,
                      full,
                      full + plan::stages,
                      rank,
                      rank % plan::cluster_m,
                      rank / plan::cluster_m % plan::cluster_n,
                      int(blockIdx.x) / cluster_blocks,
                      int(gridDim.x) / cluster_blocks,
                      sizes.tiles_m * sizes.tiles_n};
    if (threadIdx.x == 0) {
        for (int i = 0; i < plan::stages; ++i) {
            ClusterBarrier::init(block.full + i, 1);
            ClusterBarrier::init(block.empty + i, sharing * keepers * 4);
        }
        cutlass::arch::fence_barrier_init();
    }
    if constexpr (cluster_blocks > 1) {
        cute::cluster_arrive_relaxed();
        cute::cluster_wait();
    } else {
        __syncthreads();
    }
    asm volatile("griddepcontrol.wait;" ::: "memory");  // for what lays operands out anew
    if (warpgroup == loader) {
        cutlass::arch::warpgroup_reg_dealloc<plan::loader_registers>();
        if (thread == 0) load_all(block);
        if constexpr (plan::split > 1) {  // as the others do, around the sums of all
            __syncwarp();
            for (int i = 0; i < 2; ++i) {
                cute::cluster_arrive();
                cute::cluster_wait();
            }
        }
        return;
    }
    cutlass::arch::warpgroup_reg_alloc<plan::keeper_registers>();
    int const warp = thread / warp_lanes, lane = thread % warp_lanes;
    float const scale = plan::scaled ? *scale_a * *scale_b : 1;  // of C
    compute_tiles(block, warpgroup, warp, lane, scale);
    finish(lane);
}

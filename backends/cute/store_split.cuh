// C of a tile whose k is split among the blocks of a cluster: each block adds up its share of all blocks' sums. Sums
// lie in shared memory along C's rows or columns, whichever are together in global memory.

constexpr int inner = plan::c_along_rows ? plan::tile_m : plan::tile_n;
constexpr int outer = plan::c_along_rows ? plan::tile_n : plan::tile_m;
constexpr int sums_pitch = inner + 4;  // so that the lanes of a warp write to different banks
constexpr int vector = granule / int(sizeof(plan::Result));

CUTLASS_DEVICE float4 sums_at(uint32_t address, int rank) {
    float4 found;
    if constexpr (plan::split > 1) {
        uint32_t const there = cute::set_block_rank(address, rank);
        asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(found.x), "=f"(found.y), "=f"(found.z), "=f"(found.w)
                     : "r"(there));
    } else {
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(found.x), "=f"(found.y), "=f"(found.z), "=f"(found.w)
                     : "r"(address));
    }
    return found;
}

CUTLASS_DEVICE void keep(Sums const &sums, uint32_t memory, int row, int lane) {
#pragma unroll
    for (int i = 0; i < plan::tile_n / 2; ++i) {
        int const column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        int const mine = row_in_tile(row + lane / 4 + i % 4 / 2 * 8);
        int const at = plan::c_along_rows ? column * sums_pitch + mine : mine * sums_pitch + column;
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(memory + at * 4), "f"(sums[i]));
    }
}

CUTLASS_DEVICE void store_tile(Block const &block, Tile const &tile, Sums const (&sums)[own_blocks], int group, int warp,
                               int lane) {
    uint32_t const memory = shared_address(block.memory + plan::stages * plan::stage_bytes);
#pragma unroll
    for (int i = 0; i < own_blocks; ++i) {
        keep(sums[i], memory, (group * own_blocks + i) * block_rows + warp * 16, lane);
    }
    __syncwarp();
    if constexpr (plan::split > 1) {
        cute::cluster_arrive();
        cute::cluster_wait();
    } else {
        cutlass::arch::NamedBarrier::sync(plan::warpgroups * warpgroup_threads, first_turn);
    }
    int const outers = plan::c_along_rows ? block.sizes.n - tile.n : block.sizes.m - tile.m;
    int const inners = plan::c_along_rows ? block.sizes.m - tile.m : block.sizes.n - tile.n;
    plan::Result *c = reinterpret_cast<plan::Result *>(block.sizes.c);
    c += plan::c_along_rows ? tile.m + tile.n * block.sizes.c_pitch : tile.n + tile.m * block.sizes.c_pitch;
    bool const whole = reinterpret_cast<unsigned long long>(c) % granule == 0 &&
                       block.sizes.c_pitch * sizeof(plan::Result) % granule == 0;
    constexpr int items = outer * (inner / vector), share = (items + plan::split - 1) / plan::split;
    int const thread = group * warpgroup_threads + warp * warp_lanes + lane;
    int const last = min(items, (block.rank + 1) * share);
    for (int item = block.rank * share + thread; item < last; item += plan::warpgroups * warpgroup_threads) {
        int const along = item % (inner / vector) * vector, across = item / (inner / vector);
        if (across >= outers || along >= inners) continue;
        float total[vector] = {};
        for (int rank = 0; rank < plan::split; ++rank) {
#pragma unroll
            for (int j = 0; j < vector; j += 4) {
                float4 const part = sums_at(memory + (across * sums_pitch + along + j) * 4, rank);
                total[j] += part.x;
                total[j + 1] += part.y;
                total[j + 2] += part.z;
                total[j + 3] += part.w;
            }
        }
        plan::Result *to = c + across * block.sizes.c_pitch + along;
        uint32_t words[granule / 4];
#pragma unroll
        for (int j = 0; j < granule / 4; ++j) {
            if constexpr (sizeof(plan::Result) == 2) {
                words[j] = packed(total[2 * j], total[2 * j + 1]);
            } else {
                words[j] = __float_as_uint(total[j]);
            }
        }
        if (whole && along + vector <= inners) {
            *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<uint4 const *>(words);
        } else {
#pragma unroll
            for (int j = 0; j < vector; ++j) {
                if (along + j < inners) to[j] = reinterpret_cast<plan::Result const *>(words)[j];
            }
        }
    }
    __syncwarp();
    if constexpr (plan::split > 1) {  // others may still read what is here
        cute::cluster_arrive();
        cute::cluster_wait();
    }
}

constexpr int output_bytes = outer * sums_pitch * 4;
CUTLASS_DEVICE void finish(int) {}

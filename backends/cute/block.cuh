// A block computes tile after tile; while warpgroups multiply or store one, a warp already loads the next.

constexpr int first_turn = 1, first_mend = 3;  // of the barriers by number
constexpr int loader = plan::warpgroups;  // the warpgroup behind those that multiply
constexpr int threads = (plan::warpgroups + 1) * warpgroup_threads;
constexpr int cluster_blocks = plan::cluster_m * plan::cluster_n * plan::split;
constexpr int sharing = plan::cluster_m + plan::cluster_n - 1;  // blocks that a stage's loads go to or come from
constexpr int own_blocks = plan::tile_m / block_rows / (plan::alternate ? 1 : plan::warpgroups);
constexpr int keepers = plan::alternate ? 1 : plan::warpgroups;  // warpgroups that read a stage

struct Block {
    Maps const &maps;
    Sizes const &sizes;
    char *memory;
    uint64_t *full, *empty;
    int rank, rank_m, rank_n;  // in the cluster
    int first_tile, tile_step, tiles;

    CUTLASS_DEVICE char *stage(int number) const { return memory + number * plan::stage_bytes; }

    CUTLASS_DEVICE Tile tile(int number) const {
        Tile found{0, 0, 0, 0, 0, 0, plan::steps};
        int along_m, along_n;
        place_of(number, sizes, along_m, along_n);
        if constexpr (plan::phase_tiles) {
            found.phase = along_m % a_maps;
            along_m /= a_maps;
            found.shift = (sizes.a + found.phase * sizes.a_pitch) % granule / plan::element_bytes;
        }
        found.m = (along_m * plan::cluster_m + rank_m) * plan::tile_m;
        found.n = (along_n * plan::cluster_n + rank_n) * plan::tile_n;
        int const elements = sizes.k + found.shift, all = (elements + plan::tile_k - 1) / plan::tile_k;
        found.k_tiles = all;
        if constexpr (plan::split > 1) {
            int const left_over = all % plan::split;  // of which the first blocks have one each
            found.first_k = all / plan::split * rank + min(rank, left_over);
            found.k_tiles = all / plan::split + (rank < left_over);
        }
        if (found.first_k + found.k_tiles == all) {
            constexpr int step = plan::tile_k / plan::steps;
            found.last_steps = (elements - (all - 1) * plan::tile_k + step - 1) / step;
        }
        return found;
    }

    // Stages that a tile takes: rows that are realigned end one stage later.
    CUTLASS_DEVICE int stages(Tile const &tile) const { return tile.k_tiles + (plan::realign ? 1 : 0); }
};

// For one thread.
CUTLASS_DEVICE void load_all(Block const &block) {
    Ring ring;
    uint16_t a_mask = 0, b_mask = 0;
    for (int i = 0; i < plan::cluster_n; ++i) a_mask |= 1 << (block.rank_m + i * plan::cluster_m);
    for (int i = 0; i < plan::cluster_m; ++i) b_mask |= 1 << (i + block.rank_n * plan::cluster_m);
    for (int number = block.first_tile; number < block.tiles; number += block.tile_step) {
        Tile const tile = block.tile(number);
        for (int i = 0; i < block.stages(tile); ++i, ring.advance()) {
            bool const both = i < tile.k_tiles;
            ClusterBarrier::wait(block.empty + ring.stage, ring.parity ^ 1);
            uint64_t *full = block.full + ring.stage;
            ClusterTransactionBarrier::arrive_and_expect_tx(full, plan::a_bytes + (both ? plan::b_bytes : 0));
            int const k = (tile.first_k + i) * plan::tile_k;
            load_a(block.maps, block.stage(ring.stage), full, k, tile, block.rank_n, a_mask);
            if (both) load_b(block.maps, block.stage(ring.stage), full, k - tile.shift, tile.n, block.rank_m, b_mask);
        }
    }
    // Blocks of the cluster may still have to say that they are done with what was sent to them.
    if constexpr (sharing > 1) {
        for (int i = 0; i < plan::stages; ++i, ring.advance()) {
            ClusterBarrier::wait(block.empty + ring.stage, ring.parity ^ 1);
        }
    }
}

// A warp is done with a stage: says so to all blocks whose loads come here.
CUTLASS_DEVICE void release(Block const &block, int stage, int lane) {
    if constexpr (sharing == 1) {
        if (lane == 0) ClusterBarrier::arrive(block.empty + stage);
    } else if (lane < sharing) {
        int const m = lane < plan::cluster_m ? lane : block.rank_m;
        int const n = lane < plan::cluster_m ? block.rank_n
                                             : (block.rank_n + lane - plan::cluster_m + 1) % plan::cluster_n;
        ClusterBarrier::arrive(block.empty + stage, m + n * plan::cluster_m, 1);
    }
}

// Keeps the compiler from moving sums about while they are multiplied into.
CUTLASS_DEVICE void fence(Sums (&sums)[own_blocks]) {
#pragma unroll
    for (int i = 0; i < own_blocks; ++i) {
#pragma unroll
        for (int j = 0; j < plan::tile_n / 2; ++j) cute::warpgroup_fence_operand(sums[i][j]);
    }
}

CUTLASS_DEVICE void clear(Sums (&sums)[own_blocks]) {
#pragma unroll
    for (int i = 0; i < own_blocks; ++i) {
#pragma unroll
        for (int j = 0; j < plan::tile_n / 2; ++j) sums[i][j] = 0;
    }
}

// Rounds sums once more; where k is split, each block's share of them.
CUTLASS_DEVICE void multiply_by(Sums (&sums)[own_blocks], float scale) {
#pragma unroll
    for (int i = 0; i < own_blocks; ++i) {
#pragma unroll
        for (int j = 0; j < plan::tile_n / 2; ++j) sums[i][j] *= scale;
    }
}

// Warpgroups that take turns wait for each other, since a wait for a phase two on would not wait at all.
CUTLASS_DEVICE void take_turn(int warpgroup) {
    cutlass::arch::NamedBarrier::sync(2 * warpgroup_threads, first_turn + warpgroup);
}
CUTLASS_DEVICE void give_turn(int warpgroup) {
    cutlass::arch::NamedBarrier::arrive(2 * warpgroup_threads, first_turn + 1 - warpgroup);
}

// Which row of its tile of C a row of the tile of A is: phases lie one behind the other.
CUTLASS_DEVICE int row_in_tile(int row) {
    constexpr int rows = plan::tile_m / a_maps;
    return plan::realign ? row % rows * a_maps + row / rows : row;
}

// The tile scheduler, and what a CTA shares with its cluster.

constexpr bool mends = plan::aligned_a || plan::aligned_b || plan::clipped;  // by a warpgroup of its own
constexpr int threads = (plan::warpgroups + 1 + mends) * warpgroup_threads;
constexpr int cluster_ctas = plan::cluster_m * plan::cluster_n * plan::split;
constexpr int atoms = plan::atoms;

// How many bytes of A, or of B, are in front of a tile's member, where that begins anywhere.
template <bool of_a>
CUTLASS_DEVICE long long in_front(Sizes const &sizes, Tile const &tile) {
    long long found = 0;
    if constexpr (of_a ? plan::loose_a : plan::loose_b) {
#pragma unroll
        for (int i = 0; i < (plan::batch ? plan::batch : 1); ++i) {
            found += tile.member[i] * (of_a ? sizes.a_steps : sizes.b_steps)[i];
        }
    }
    return found;
}

// Lines after which starts lie alike, of what is aligned in shared memory or woven in registers.
constexpr int lines_alike = 8;

// By which map lines of a phase come of a member that begins anywhere, of which every so many are alike, and in which
// granule they begin, counted from where A, or B, does. Some phases have a line more than the others.
struct Begin {
    int map, granule;
};

template <bool of_a, int alike>
CUTLASS_DEVICE Begin begin_of(Sizes const &sizes, Tile const &tile, int phase) {
    constexpr bool along_k = of_a ? plan::a_k_major : plan::b_k_major;
    int const lines = !along_k ? sizes.k : of_a ? sizes.m : sizes.n;
    unsigned long long const first = (of_a ? sizes.a : sizes.b) % granule;
    unsigned long long const bytes = first + in_front<of_a>(sizes, tile) + phase * (of_a ? sizes.a_pitch : sizes.b_pitch);
    int const fewer = phase >= lines % alike ? granule : 0;
    return {(int(bytes % granule) + fewer) / plan::element_bytes, int(bytes / granule)};
}

// Which phase of k is the one of a number, where sums slide: the first one's lines begin latest. An odd number is its own
// inverse.
CUTLASS_DEVICE int lines_of(Sizes const &sizes, Tile const &tile, int turn) {
    constexpr int step = granule / (plan::slides ? plan::slides : 1);  // bytes
    unsigned long long const first = sizes.b + in_front<false>(sizes, tile);
    return (plan::slides - 1 - turn - int(first / step % granule)) * int(sizes.b_pitch / step % granule) &
           (plan::slides - 1);
}

// How stream-K shares out the k-tiles of the tiles that are cut: each cluster has as many, but that parts of a tile
// shorter than `least` go to a neighbour. All have as many `whole` tiles besides.
struct Shares {
    int clusters, k_tiles, whole, cut;

    static constexpr int least = 4;

    CUTLASS_DEVICE static Shares of(int clusters, int tiles, int k_tiles) {
        int const whole = max(0, tiles / clusters - 1);
        return {clusters, k_tiles, whole, tiles - whole * clusters};
    }

    // With which of those k-tiles a cluster's share begins, and that of the one before ends.
    CUTLASS_DEVICE int begin(int cluster) const {
        int const all = cut * k_tiles, each = all / clusters;
        int const at = each * cluster + min(cluster, all - each * clusters), inside = at % k_tiles;
        if (inside < least) return at - inside;
        return k_tiles - inside < least ? at + k_tiles - inside : at;
    }

    // Tiles that some of those k-tiles are of.
    CUTLASS_DEVICE int tiles_between(int begin, int end) const {
        return end > begin ? (end - 1) / k_tiles - begin / k_tiles + 1 : 0;
    }
};

struct Cta {
    Maps const &maps;
    Sizes const &sizes;
    char *memory;
    uint64_t *full, *empty;
    uint64_t *lines, *read;  // where operands are aligned in shared memory
    uint64_t *brought;       // where others' k are cleared there, in place of these
    int rank, rank_m, rank_n;  // in the cluster
    int first_tile, tile_step, tiles;
    int slice_tiles;  // along m, of a slice of k and a phase
    unsigned inverse;  // of what the lane is to divide by
    Shares shares = {};   // by stream-K
    int cluster = 0;

    CUTLASS_DEVICE char *stage(int number) const { return memory + number * plan::stage_bytes; }
    CUTLASS_DEVICE Group *groups() const { return reinterpret_cast<Group *>(memory + plan::groups_at); }

    // The bytes from C to its tile's member.
    CUTLASS_DEVICE long long c_offset(Tile const &tile) const {
        long long found = 0;
#pragma unroll
        for (int i = 0; i < plan::batch; ++i) found += tile.member[i] * sizes.c_steps[i];
        return found * int(sizeof(plan::Result));
    }

    // A quotient of lanes that are together, or of one alone.
    template <bool together>
    CUTLASS_DEVICE int divide(int number, int by, int which, int &rest) const {
        if constexpr (together) return divided(number, by, __shfl_sync(~0u, inverse, which), rest);
        int const found = number / by;
        rest = number - found * by;
        return found;
    }

    // The tile of a number: the lanes of a warp that find it together have divided once, as the kernel began.
    template <bool together = false>
    CUTLASS_DEVICE Tile tile(int number) const {
        Tile found{0, 0, 0, 0, 0, 0, 0, plan::steps};
        int first_k = 0, end_k = shares.k_tiles;
        if constexpr (plan::stream_k) {  // of tiles that are cut the last one first, which another CTA may wait for
            int const begin = shares.begin(cluster), end = shares.begin(cluster + 1), cut = shares.tiles_between(begin, end);
            if (number < cut) {
                number = (end - 1) / shares.k_tiles - number;
                found.ahead = number * shares.k_tiles;
                first_k = max(0, begin - found.ahead);
                end_k = min(shares.k_tiles, end - found.ahead);
                found.place = end_k < shares.k_tiles ? cluster : -1;
            } else {
                number = shares.cut + cluster + (number - cut) * shares.clusters;
            }
        }
        int along_m, along_n, tiles_m = sizes.tiles_m, tiles_n = sizes.tiles_n, first_row = 0;
        if constexpr (plan::batch > 0) {
            int member = divide<together>(number, sizes.tiles_m * sizes.tiles_n, by_member, number);
#pragma unroll
            for (int i = plan::batch - 1; i >= 0; --i) {
                member = divide<together>(member, sizes.batch[i], by_batch + i, found.member[i]);
            }
        }
        if constexpr (plan::rows_cut || plan::columns_cut) {  // the last one that begins at the tile or before it has it
            Group const *all = groups();
            int const beside = plan::rows_cut ? sizes.tiles_n : sizes.tiles_m;
            int low = 0, high = sizes.groups;
            while (high - low > 1) {
                int const middle = (low + high) / 2;
                (all[middle].tile * beside <= number ? low : high) = middle;
            }
            number -= all[low].tile * beside;
            (plan::rows_cut ? tiles_m : tiles_n) = all[low + 1].tile - all[low].tile;
            first_row = all[low].row;
            found.end = all[low + 1].row;
            found.member[0] = low;
        }
        // `group` tiles along m, then along n, so that neighbours in time share operands. Groups of rows have tiles of
        // their own along m or n, of which nobody has the inverse.
        constexpr bool known = together && !plan::rows_cut && !plan::columns_cut;
        int within;
        int const first = divide<known>(number, sizes.group * tiles_n, by_strip, within) * sizes.group;
        int const rows = min(tiles_m - first, sizes.group);
        along_n = divide<known>(within, rows, rows == sizes.group ? by_rows : by_last_rows, along_m);
        along_m += first;
        if constexpr (plan::phase_tiles) {
            found.phase = along_m % a_maps;
            along_m /= a_maps;
            unsigned long long const first = sizes.a + in_front<true>(sizes, found);
            found.shift = (first + found.phase * sizes.a_pitch) % granule / plan::element_bytes;
        }
        found.m = found.a_m = (along_m * plan::cluster_m + rank_m) * plan::tile_m + (plan::rows_cut ? first_row : 0);
        found.n = (along_n * plan::cluster_n + rank_n) * (plan::tile_n - plan::lap) + (plan::columns_cut ? first_row : 0);
        if constexpr (plan::k_cut) {
            Group const *own = groups() + found.member[0];
            found.begin = own[0].row;
            found.end = own[1].row;
            int const early = plan::clipped ? found.begin % plan::tile_k : 0;
            int const elements = found.end - found.begin + early;
            int const needed = max(1, (elements + plan::tile_k - 1) / plan::tile_k);
            found.k_tiles = max(plan::least_k_tiles, needed);
            if (plan::clipped && found.k_tiles > plan::whole_k_tiles) {
                constexpr int step = plan::tile_k / plan::steps;
                found.last_steps = max(1, (elements - (needed - 1) * plan::tile_k + step - 1) / step);
            }
            return found;
        }
        if constexpr (plan::slides > 0) found.lines = lines_of(sizes, found, 0);
        constexpr int in_phases = plan::slides ? plan::slides : 1;
        int const elements = (sizes.k + in_phases - 1) / in_phases + found.shift;
        int const all = (elements + plan::tile_k - 1) / plan::tile_k;
        found.k_tiles = all;
        if constexpr (plan::split > 1) {
            int const left_over = all % plan::split;  // of which the first CTAs have one each
            found.first_k = all / plan::split * rank + min(rank, left_over);
            found.k_tiles = all / plan::split + (rank < left_over);
        }
        if constexpr (plan::sliced) {  // slices lie one below the other in C, and side by side in A and B
            int const slices = sizes.tiles_m / (slice_tiles * (plan::phase_tiles ? a_maps : 1));
            int const slice = along_m / slice_tiles, left_over = all % slices;
            found.a_m = ((along_m - slice * slice_tiles) * plan::cluster_m + rank_m) * plan::tile_m;
            found.first_k = all / slices * slice + min(slice, left_over);
            found.k_tiles = all / slices + (slice < left_over);
        }
        if constexpr (plan::stream_k) {  // a tile that has fewer k-tiles than another lacks them at its end
            found.first_k = first_k;
            found.k_tiles = min(end_k, all) - first_k;
        }
        if (found.first_k + found.k_tiles == all) {
            constexpr int step = plan::tile_k / plan::steps;
            found.last_steps = (elements - (all - 1) * plan::tile_k + step - 1) / step;
        }
        return found;
    }

    // Stages that a tile takes, 0 where there is no such tile: rows that are realigned end one stage later.
    CUTLASS_DEVICE int stages(int number) const {
        return number < tiles ? tile(number).k_tiles * (plan::slides ? plan::slides : 1) + (plan::realign ? 1 : 0) : 0;
    }
};

// The inverse of what a lane is to divide by.
CUTLASS_DEVICE unsigned inverse_of(Sizes const &sizes) {
    int const lane = threadIdx.x % warp_lanes;
    int by = lane == by_member ? sizes.tiles_m * sizes.tiles_n : lane == by_strip ? sizes.group * sizes.tiles_n : sizes.group;
    if (lane == by_last_rows) by = sizes.tiles_m % sizes.group;
#pragma unroll
    for (int i = 0; i < plan::batch; ++i) by = lane == by_batch + i ? sizes.batch[i] : by;
    return ~0u / max(by, 1);
}

CUTLASS_DEVICE Cta cta_of(Maps const &maps, Sizes const &sizes, char *memory) {
    int const rank = cluster_ctas > 1 ? cute::block_rank_in_cluster() : 0;
    constexpr int of_slice = plan::tile_m * plan::cluster_m * (plan::phase_tiles ? a_maps : 1);  // rows
    uint64_t *full = reinterpret_cast<uint64_t *>(memory + plan::barriers_at);
    int tiles = sizes.tiles_m * sizes.tiles_n;
#pragma unroll
    for (int i = 0; i < plan::batch; ++i) tiles *= sizes.batch[i];
    Cta found{maps,
            sizes,
            memory,
            full,
            full + plan::stages,
            full + 2 * plan::stages,
            full + 3 * plan::stages,
            full + 2 * plan::stages,
            rank,
            rank % plan::cluster_m,
            rank / plan::cluster_m % plan::cluster_n,
            int(blockIdx.x) / cluster_ctas,
            int(gridDim.x) / cluster_ctas,
            tiles,
            (sizes.m + of_slice - 1) / of_slice,
            inverse_of(sizes)};
    if constexpr (plan::stream_k) {
        constexpr int late = plan::phase_tiles ? granule / plan::element_bytes - 1 : 0;  // which rows may start
        found.cluster = found.first_tile;
        found.shares = Shares::of(found.tile_step, tiles, (sizes.k + late + plan::tile_k - 1) / plan::tile_k);
        int const begin = found.shares.begin(found.cluster), end = found.shares.begin(found.cluster + 1);
        found.first_tile = 0, found.tile_step = 1, found.tiles = found.shares.tiles_between(begin, end) + found.shares.whole;
    }
    return found;
}

// Brings a box by a map with so many axes of members, to all CTAs of a mask where they share it.
template <int axes, bool shared>
CUTLASS_DEVICE void load(void const *map, uint64_t *full, uint16_t mask, uint64_t hint, void *to, int first, int second,
                         int const *member) {
    if constexpr (axes == 0 && shared) {
        cute::SM90_TMA_LOAD_MULTICAST_2D::copy(map, full, mask, hint, to, first, second);
    } else if constexpr (axes == 0) {
        cute::SM90_TMA_LOAD_2D::copy(map, full, hint, to, first, second);
    } else if constexpr (axes == 1 && shared) {
        cute::SM90_TMA_LOAD_MULTICAST_3D::copy(map, full, mask, hint, to, first, second, member[0]);
    } else if constexpr (axes == 1) {
        cute::SM90_TMA_LOAD_3D::copy(map, full, hint, to, first, second, member[0]);
    } else if constexpr (axes == 2 && shared) {
        cute::SM90_TMA_LOAD_MULTICAST_4D::copy(map, full, mask, hint, to, first, second, member[1], member[0]);
    } else if constexpr (axes == 2) {
        cute::SM90_TMA_LOAD_4D::copy(map, full, hint, to, first, second, member[1], member[0]);
    } else if constexpr (shared) {
        cute::SM90_TMA_LOAD_MULTICAST_5D::copy(map, full, mask, hint, to, first, second, member[2], member[1], member[0]);
    } else {
        cute::SM90_TMA_LOAD_5D::copy(map, full, hint, to, first, second, member[2], member[1], member[0]);
    }
}

// The boxes of lines of a tile: along k they are its rows, across k those of 64 rows, `spans` of them side by side, and
// `beside` bytes that hold a line's end. Of lines that are woven those of every second two phases begin two granules early,
// so that lanes find lines that they read at once in different banks.
template <bool of_a, bool along_k, int extent, int number, int spans, int beside, int axes>
struct Lines {
    static constexpr bool loose = of_a ? plan::loose_a : plan::loose_b;
    static constexpr int boxes = number, side_by_side = spans, rows = extent;
    static constexpr int count = along_k ? extent / lines_alike : atom_rows / lines_alike;  // of a box
    static constexpr int pitch = spans * swizzle_row + beside;                           // bytes, from line to line

    static constexpr int early(int phase) { return beside > granule ? phase % 4 / 2 * 2 * granule : 0; }  // bytes

    // Brings a CTA's share of them, to all CTAs that share the tile.
    template <int sharing>
    CUTLASS_DEVICE static void bring(Sizes const &sizes, CUtensorMap const *maps, uint64_t *full, uint16_t mask,
                                     uint64_t hint, char *to, int first, int k, int share, Tile const &tile) {
#pragma unroll
        for (int i = 0; i < boxes / sharing; ++i) {
            int const box = share * (boxes / sharing) + i, some = box / lines_alike;
            int const along = along_k ? k : first + some * spans * atom_rows - early(box % lines_alike) / plan::element_bytes;
            int const line = (along_k ? first : k) + box % lines_alike, phase = line % lines_alike;
            int map = phase;
            int const *member = tile.member;
            Begin begin;
            if constexpr (loose) {
                begin = begin_of<of_a, lines_alike>(sizes, tile, phase);
                map = begin.map;
                member = &begin.granule;
            }
            load<axes, (sharing > 1)>(maps + map, full, mask, hint, to + box * count * pitch, along, line / lines_alike,
                                      member);
        }
    }
};
using LinesA = Lines<true, plan::a_k_major, plan::tile_m, plan::a_boxes, plan::a_spans,
                     (plan::woven ? plan::woven_beside : granule), plan::a_axes>;
using LinesB = Lines<false, plan::b_k_major, plan::b_bytes / swizzle_row, plan::b_boxes, plan::b_spans,
                     granule, plan::b_axes>;

constexpr int wraps = 1 << 30;

// Where a k-tile of a group along k begins, which is where those of no groups do, since boxes that begin elsewhere cross
// lines of L2. The group's own last one is the last of all, and what it has too few lie behind everything, in front of
// that.
CUTLASS_DEVICE int clipped_k(Tile const &tile, int k_tile, int extent) {
    int const first = tile.begin / plan::tile_k * plan::tile_k;
    int const own = max(1, (tile.end - first + plan::tile_k - 1) / plan::tile_k);
    bool const last = k_tile + 1 == tile.k_tiles;
    if (k_tile >= own - 1 && !last) return (extent + plan::tile_k - 1) / plan::tile_k * plan::tile_k;
    return first + (last ? own - 1 : k_tile) * plan::tile_k;
}

// Where a group along k has a line: as many lines in front of where the map ends as the group has, and the coordinates
// that lead to the group's end, and 2^64 bytes further.
struct Wrapped {
    int k, at[2];
    CUTLASS_DEVICE Wrapped(Cta const &cta, Tile const &tile, int k_tile, int shift)
        : k((tile.first_k + k_tile) * plan::tile_k - shift), at{wraps, tile.end} {
        if constexpr (plan::clipped) {
            k = clipped_k(tile, k_tile, cta.sizes.k);
        } else if constexpr (plan::k_cut) {
            k += wraps - (tile.end - tile.begin);
        }
    }
};

// A CTA's share of what its cluster shares, sent to all of them.
CUTLASS_DEVICE void load_a(Cta const &cta, Ring const &ring, uint64_t *full, Tile const &tile, int k_tile) {
    constexpr int share = plan::a_boxes / plan::cluster_n, blocks = plan::a_boxes / plan::a_parts;
    Wrapped const cut(cta, tile, k_tile, 0);
    int const k = cut.k, *member = plan::k_cut ? cut.at : tile.member;
    uint16_t mask = 0;
    for (int i = 0; i < plan::cluster_n; ++i) mask |= 1 << (cta.rank_m + i * plan::cluster_m);
    if constexpr (plan::woven) {
        LinesA::bring<plan::cluster_n>(cta.sizes, cta.maps.a, full + ring.stage, mask, cta.sizes.a_hint,
                                       cta.stage(ring.stage), tile.a_m, k, cta.rank_n, tile);
        return;
    }
#pragma unroll
    for (int i = 0; i < share; ++i) {
        int const box = cta.rank_n * share + i;
        int const part = plan::a_parts > 1 ? box / blocks : 0, block = box - part * blocks;
        char *to = cta.stage(ring.stage) + block * plan::a_box_rows * swizzle_row + part * plan::a_box_bytes;
        int first = k, second = tile.a_m + block * plan::a_box_rows;
        void const *map = &cta.maps.a[plan::slides ? tile.lines : tile.phase];
        if constexpr (plan::realign) {
            map = &cta.maps.a[box];
            second = tile.a_m / a_maps;
        } else if constexpr (!plan::a_k_major) {
            first = second;
            second = k + part * (plan::tile_k / plan::a_parts);
        }
        if constexpr (plan::loose_a) {
            Begin const begin = begin_of<true, a_maps>(cta.sizes, tile, plan::realign ? box : tile.phase);
            map = &cta.maps.a[begin.map];
            load<1, (plan::cluster_n > 1)>(map, full + ring.stage, mask, cta.sizes.a_hint, to, first, second, &begin.granule);
            continue;
        }
        load<plan::a_axes, (plan::cluster_n > 1)>(map, full + ring.stage, mask, cta.sizes.a_hint, to, first, second, member);
    }
}

CUTLASS_DEVICE void load_b(Cta const &cta, Ring const &ring, uint64_t *full, Tile const &tile, int k_tile) {
    constexpr int share = plan::b_boxes / plan::cluster_m, blocks = plan::b_boxes / plan::b_parts;
    Wrapped const cut(cta, tile, k_tile, tile.shift);
    int const k = cut.k, *member = plan::k_cut ? cut.at : tile.member;
    uint16_t mask = 0;
    for (int i = 0; i < plan::cluster_m; ++i) mask |= 1 << (i + cta.rank_n * plan::cluster_m);
#pragma unroll
    for (int i = 0; i < share; ++i) {
        int const box = cta.rank_m * share + i;
        int const part = plan::b_parts > 1 ? box / blocks : 0, block = box - part * blocks;
        int const at = tile.n + block * plan::b_box_rows, late = k + part * (plan::tile_k / plan::b_parts);
        int const first = plan::b_k_major ? k : at, second = plan::b_k_major ? at : late;
        char *to = cta.stage(ring.stage) + plan::b_offset + block * plan::b_box_rows * swizzle_row +
                   part * plan::b_box_bytes;
        if constexpr (plan::loose_b) {
            Begin const begin = begin_of<false, plan::slides>(cta.sizes, tile, tile.lines);
            load<1, (plan::cluster_m > 1)>(&cta.maps.b[begin.map], full + ring.stage, mask, cta.sizes.b_hint, to, first,
                                           second, &begin.granule);
            continue;
        }
        load<plan::b_axes, (plan::cluster_m > 1)>(&cta.maps.b[tile.lines], full + ring.stage, mask, cta.sizes.b_hint, to,
                                                  first, second, member);
    }
}

// A warp says to all CTAs whose loads of A, of B, or of both come here that it is done with a stage.
template <bool of_a = true, bool of_b = true>
CUTLASS_DEVICE void release(Cta const &cta, uint64_t *empty, int stage, int lane) {
    constexpr int along_m = of_b ? plan::cluster_m : 1, sharing = along_m + (of_a ? plan::cluster_n : 1) - 1;
    if constexpr (sharing == 1) {
        if (lane == 0) ClusterBarrier::arrive(empty + stage);
    } else if (lane < sharing) {
        int const m = of_b && lane < along_m ? lane : cta.rank_m;
        int const n = lane < along_m ? cta.rank_n : (cta.rank_n + lane - along_m + 1) % plan::cluster_n;
        ClusterBarrier::arrive(empty + stage, m + n * plan::cluster_m, 1);
    }
}

// Keeps the compiler from moving accumulators about while they are multiplied into.
CUTLASS_DEVICE void fence(Accumulator (&accumulators)[atoms]) {
#pragma unroll
    for (int i = 0; i < atoms; ++i) {
#pragma unroll
        for (int j = 0; j < plan::summed / 2; ++j) cute::warpgroup_fence_operand(accumulators[i][j]);
    }
}

CUTLASS_DEVICE void clear(Accumulator (&accumulators)[atoms]) {
#pragma unroll
    for (int i = 0; i < atoms; ++i) {
#pragma unroll
        for (int j = 0; j < plan::summed / 2; ++j) accumulators[i][j] = 0;
    }
}

// Which row of its tile of C a row of the tile of A is: of rows that are realigned eight of a phase are neighbours.
CUTLASS_DEVICE int row_in_tile(int row) {
    constexpr int alike = 8, some = alike * a_maps;
    return plan::realign ? row / some * some + row % alike * a_maps + row % some / alike : row;
}

// The number of a tile's member, or of its group.
CUTLASS_DEVICE int member_of(Cta const &cta, Tile const &tile) {
    int found = tile.member[0];
#pragma unroll
    for (int i = 1; i < plan::batch; ++i) found = found * cta.sizes.batch[i] + tile.member[i];
    return found;
}

// Multiplies sums by the scales of their rows and columns, as wgmma holds them: four registers are two rows' parts of 8
// columns. A lane holds the scales of every 32nd column for its warp, since all that it needs would not fit beside the
// sums. What lies beyond C is multiplied by what its last row or column is.
CUTLASS_DEVICE void scale_by_rows(Accumulator (&accumulators)[atoms], Cta const &cta, Tile const &tile, int group,
                                  int warp, int lane) {
    int const member = member_of(cta, tile), rows = plan::rows_cut ? tile.end : cta.sizes.m;
    float const *of_a = cta.sizes.scale_a + (plan::rows_cut ? 0 : (long long)(member) * cta.sizes.m);
    float const *of_b = cta.sizes.scale_b + (long long)(member) * cta.sizes.n;
    float of_row[atoms][2];
#pragma unroll
    for (int i = 0; i < 2 * atoms; ++i) {
        int const within = ((plan::ping_pong ? 0 : group * atoms) + i / 2) * atom_rows + warp * 16 + lane / 4 + i % 2 * 8;
        int const row = plan::phase_tiles ? (tile.a_m + within) * a_maps + tile.phase : tile.a_m + row_in_tile(within);
        of_row[i / 2][i % 2] = of_a[min(row, rows - 1)];
    }
    constexpr int held = (plan::tile_n + warp_lanes - 1) / warp_lanes;
    float of_columns[held];
#pragma unroll
    for (int i = 0; i < held; ++i) of_columns[i] = of_b[min(tile.n + i * warp_lanes + lane, cta.sizes.n - 1)];
#pragma unroll
    for (int j = 0; j < plan::tile_n / 8; ++j) {
        int const from = 8 * j % warp_lanes + lane % 4 * 2;
        float const of_column[2] = {__shfl_sync(~0u, of_columns[8 * j / warp_lanes], from),
                                    __shfl_sync(~0u, of_columns[8 * j / warp_lanes], from + 1)};
#pragma unroll
        for (int i = 0; i < atoms; ++i) {
#pragma unroll
            for (int each = 0; each < 4; ++each) {
                accumulators[i][4 * j + each] *= of_row[i][each / 2] * of_column[each % 2];
            }
        }
    }
}

// Rounds accumulators once more, where operands have scales; where k is split, each CTA's share of them.
CUTLASS_DEVICE void scale_by(Accumulator (&accumulators)[atoms], float scale, Cta const &cta, Tile const &tile,
                             int group, int warp, int lane) {
    if constexpr (plan::scaled_by == 1) return scale_by_rows(accumulators, cta, tile, group, warp, lane);
    if constexpr (plan::scaled_by == 2) {
        int const member = member_of(cta, tile);
        scale = cta.sizes.scale_a[member] * cta.sizes.scale_b[member];
    }
    if constexpr (plan::scaled) {
#pragma unroll
        for (int i = 0; i < atoms; ++i) {
#pragma unroll
            for (int j = 0; j < plan::tile_n / 2; ++j) accumulators[i][j] *= scale;
        }
    }
}

// The column in which a part of C begins, where each is of all rows: the last one ends where the tile does.
CUTLASS_DEVICE constexpr int first_column(int part) {
    int const first = part % plan::parts * plan::store_columns, last = plan::tile_n - plan::store_columns;
    return first < last ? first : last;
}

// Stores a box of C, or of a member's, at these coordinates.
CUTLASS_DEVICE void store_box(void const *map, void const *from, int first, int second, Tile const &tile) {
    int const *member = tile.member;
    if constexpr (plan::c_axes == 0) {
        cute::SM90_TMA_STORE_2D::copy(map, from, first, second);
    } else if constexpr (plan::c_axes == 1) {
        cute::SM90_TMA_STORE_3D::copy(map, from, first, second, member[0]);
    } else if constexpr (plan::c_axes == 2) {
        cute::SM90_TMA_STORE_4D::copy(map, from, first, second, member[1], member[0]);
    } else {
        cute::SM90_TMA_STORE_5D::copy(map, from, first, second, member[2], member[1], member[0]);
    }
}

// Parts of a tile by number, each of which knows it when it is compiled.
template <int first, class Body, int... i>
CUTLASS_DEVICE void each_part(Body const &body, std::integer_sequence<int, i...>) {
    (body(std::integral_constant<int, first + i>()), ...);
}

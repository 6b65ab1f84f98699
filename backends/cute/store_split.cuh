// C of a tile whose k is split among the CTAs of a cluster: each CTA adds up its share of all accumulators. They
// lie in shared memory along C's rows or columns, whichever are together in global memory.

constexpr int inner = plan::c_along_rows ? plan::tile_m : plan::tile_n;
constexpr int outer = plan::c_along_rows ? plan::tile_n : plan::tile_m;
constexpr int accumulator_pitch = inner + 4;  // so that the lanes of a warp write to different banks
constexpr int vector = granule / int(sizeof(plan::Result));
constexpr bool scattered = plan::realign && plan::c_along_rows;  // rows that are neighbours in C are not here

// Reads one or four accumulators of a CTA of the cluster.
template <int count>
CUTLASS_DEVICE void read_accumulators(plan::Sum *accumulators, uint32_t address, int rank) {
    uint32_t found[count];
    uint32_t const from = plan::split > 1 ? cute::set_block_rank(address, rank) : address;
    if constexpr (count == 4 && plan::split > 1) {
        asm volatile("ld.shared::cluster.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(found[0]), "=r"(found[1]), "=r"(found[2]), "=r"(found[3])
                     : "r"(from));
    } else if constexpr (count == 4) {
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(found[0]), "=r"(found[1]), "=r"(found[2]), "=r"(found[3])
                     : "r"(from));
    } else if constexpr (plan::split > 1) {
        asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(found[0]) : "r"(from));
    } else {
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(found[0]) : "r"(from));
    }
#pragma unroll
    for (int i = 0; i < count; ++i) set_bits(accumulators[i], found[i]);
}

// Eight rows of a phase lie side by side, as they were multiplied: where a row of C lies.
CUTLASS_DEVICE int kept_row(int row) {
    constexpr int alike = 8, some = alike * a_maps;
    return plan::realign ? row / some * some + row % a_maps * alike + row % some / a_maps : row;
}

CUTLASS_DEVICE void keep(Accumulator const &accumulators, uint32_t memory, int row, int lane) {
#pragma unroll
    for (int i = 0; i < plan::tile_n / 2; i += 2) {
        int const column = i / 4 * 8 + lane % 4 * 2, mine = row + lane / 4 + i % 4 / 2 * 8;
        if constexpr (plan::c_along_rows) {
            uint32_t const at = memory + (column * accumulator_pitch + mine) * 4;
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(bits(accumulators[i])));
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(at + accumulator_pitch * 4), "r"(bits(accumulators[i + 1])));
        } else {
            uint32_t const at = memory + (mine * accumulator_pitch + column) * 4;
            asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(at), "r"(bits(accumulators[i])),
                         "r"(bits(accumulators[i + 1])));
        }
    }
}

// Neighbours in C, of each CTA of the cluster, all of which are asked for before the first has come.
struct Parts {
    plan::Sum of[plan::split][vector];

    CUTLASS_DEVICE void read(uint32_t memory, int across, int along) {
#pragma unroll
        for (int rank = 0; rank < plan::split; ++rank) {
            if constexpr (scattered) {
#pragma unroll
                for (int j = 0; j < vector; ++j) {
                    read_accumulators<1>(&of[rank][j], memory + (across * accumulator_pitch + kept_row(along + j)) * 4, rank);
                }
            } else {
                int const line = plan::c_along_rows ? across : kept_row(across);
#pragma unroll
                for (int j = 0; j < vector; j += 4) {
                    read_accumulators<4>(&of[rank][j], memory + (line * accumulator_pitch + along + j) * 4, rank);
                }
            }
        }
    }

    CUTLASS_DEVICE plan::Sum total(int j) const {
        plan::Sum found = 0;
#pragma unroll
        for (int rank = 0; rank < plan::split; ++rank) found += of[rank][j];
        return found;
    }

    // Writes so many elements: all at once, or one by one.
    CUTLASS_DEVICE void write(plan::Result *to, int count, bool whole) const {
        uint32_t words[granule / 4];
#pragma unroll
        for (int j = 0; j < vector; j += 4 / int(sizeof(plan::Result))) {
            if constexpr (sizeof(plan::Result) == 2) {
                words[j / 2] = packed(total(j), total(j + 1));
            } else if constexpr (sizeof(plan::Result) == 1) {
                words[j / 4] = packed(total(j), total(j + 1), total(j + 2), total(j + 3));
            } else {
                words[j] = bits(total(j));
            }
        }
        if (whole && count == vector) {
            *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<uint4 const *>(words);
        } else {
#pragma unroll
            for (int j = 0; j < vector; ++j) {
                if (j < count) to[j] = reinterpret_cast<plan::Result const *>(words)[j];
            }
        }
    }
};

struct Held {
    Tile tile;
    CUTLASS_DEVICE Held(Sizes const &) : tile{} {}
};

CUTLASS_DEVICE void take(Held &held, Accumulator const (&)[atoms], Tile const &tile) { held.tile = tile; }

template <int, int>
CUTLASS_DEVICE void write_c(Cta const &cta, Held const &, Accumulator const (&accumulators)[atoms], int group, int warp,
                            int lane) {
    uint32_t const memory = shared_address(cta.memory + plan::result_at);
#pragma unroll
    for (int i = 0; i < atoms; ++i) {
        keep(accumulators[i], memory, (group * atoms + i) * atom_rows + warp * 16, lane);
    }
}

template <int, int>
CUTLASS_DEVICE void read_c(Cta const &cta, Held const &held, int group, int warp, int lane) {
    Tile const &tile = held.tile;
    uint32_t const memory = shared_address(cta.memory + plan::result_at);
    int const outers = plan::c_along_rows ? cta.sizes.n - tile.n : cta.sizes.m - tile.m;
    int const inners = plan::c_along_rows ? cta.sizes.m - tile.m : cta.sizes.n - tile.n;
    plan::Result *c = reinterpret_cast<plan::Result *>(cta.sizes.c + cta.c_offset(tile));
    c += plan::c_along_rows ? tile.m + tile.n * cta.sizes.c_pitch : tile.n + tile.m * cta.sizes.c_pitch;
    bool const whole = reinterpret_cast<unsigned long long>(c) % granule == 0 &&
                       cta.sizes.c_pitch * sizeof(plan::Result) % granule == 0;
    constexpr int items = outer * (inner / vector), share = (items + plan::split - 1) / plan::split;
    int const thread = group * warpgroup_threads + warp * warp_lanes + lane;
    int const own = plan::split > 1 ? cta.rank : 0, last = min(items, (own + 1) * share);
    for (int item = own * share + thread; item < last; item += plan::warpgroups * warpgroup_threads) {
        int const along = item % (inner / vector) * vector, across = item / (inner / vector);
        if (across >= outers || along >= inners) continue;
        Parts parts;
        parts.read(memory, across, along);
        parts.write(c + across * cta.sizes.c_pitch + along, min(vector, inners - along), whole);
    }
}

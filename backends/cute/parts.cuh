// What the kernel is made of. The constants of namespace plan precede this text.

#include <cstdint>
#include <utility>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/copy_sm90.hpp>
#include <cute/arch/copy_sm90_desc.hpp>
#include <cute/arch/copy_sm90_tma.hpp>
#include <cute/arch/mma_sm90_gmma.hpp>
#include <cutlass/arch/barrier.h>
#include <cutlass/arch/reg_reconfig.h>

using cutlass::arch::ClusterBarrier;
using cutlass::arch::ClusterTransactionBarrier;

constexpr int warp_lanes = 32, warpgroup_threads = 128;
constexpr int granule = 16;    // bytes: what the copy engine, matrix descriptors and the widest loads count in
constexpr int swizzle_row = 128, swizzle_rows = 8;  // bytes and rows of the 128-byte swizzle's pattern
constexpr int atom_rows = 64;  // of one instruction
constexpr int a_maps = plan::phases ? plan::phases : 1;

// Tensor maps of A: one, or one for each phase of rows whose starts lie alike in a granule. Of C the same, where a
// tile has rows of one phase. Operands that are aligned in shared memory have eight, and both as many as phases of k are
// that sums slide between; those whose members begin anywhere have one for each start in a granule, and as many again.
constexpr int loose_maps = 2 * granule / plan::element_bytes;
struct Maps {
    CUtensorMap a[plan::loose_a ? loose_maps : plan::aligned_a || plan::woven ? 8 : plan::slides ? plan::slides : a_maps];
    CUtensorMap b[plan::loose_b ? loose_maps : plan::aligned_b ? 8 : plan::slides ? plan::slides : 1];
    CUtensorMap c[plan::phase_tiles ? a_maps : 1];
};

struct Sizes {
    int m, n, k;         // elements
    int tiles_m, tiles_n;  // of clusters, of one product
    int group;           // tiles along m that neighbours in time share
    unsigned long long a;  // address, and bytes from row to row, of A, for its phases
    long long a_pitch;
    unsigned long long c;  // address, and elements from row to row (or column to column) of C
    long long c_pitch;
    float const *scale_a, *scale_b;  // that C is multiplied by, where plan::scaled
    unsigned long long a_hint, b_hint;  // which lines L2 drops first, for loads of A and of B
    int batch[3];                    // extents of its axes, outermost first, where plan::batch says how many there are
    long long c_steps[3];            // elements of C from member to member along each
    int const *ends;                 // of groups, where plan::groups, and how many there are
    int groups;
    unsigned long long b;  // as of A, where operands are aligned in shared memory, or sums slide
    long long b_pitch;
    long long a_steps[3], b_steps[3];  // bytes from member to member along each axis, where members begin anywhere
    unsigned long long sums;  // by stream-K, where clusters give sums away, and what says that they are there
    unsigned *given;
};

// Which row a group begins with, or which k, and the first of its clusters' tiles along m.
struct Group {
    int row, tile;
};

// An item of the ring: its stage, the parity of its barriers' phase, and the stage of the item before.
struct Ring {
    int stage = 0, before = 0;
    uint32_t parity = 0;
    CUTLASS_DEVICE void advance() {
        before = stage;
        if (++stage == plan::stages) {
            stage = 0;
            parity ^= 1;
        }
    }
    CUTLASS_DEVICE Ring next() const {
        Ring found = *this;
        found.advance();
        return found;
    }
    CUTLASS_DEVICE void skip(int steps) {
        int reached = stage + steps;
        parity ^= (reached / plan::stages) & 1;
        stage = reached % plan::stages;
    }
};

CUTLASS_DEVICE uint32_t shared_address(void const *pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// A tile of C: its first row (of its phase), in C and in A, and its first column, what lies before A's row in its granule, in elements, its stages
// along k: how many, and the first, and the last one's steps that hold elements.
struct Tile {
    int m, a_m, n, phase, shift, k_tiles, first_k, last_steps;
    int end = 0, begin = 0;  // of its group's rows the end; of its group's k both
    int member[3] = {};  // of the batch, along each of its axes; or the group
    int lines = 0;  // the phase of k that is loaded
    int place = -1;  // by stream-K, by which its sums are given to the CTA that stores the tile
    int ahead = 0;   // likewise, k-tiles of all tiles that are cut in front of this one
    // Whether something lies before the rows in what is loaded first, which a slice of k behind the first does not have.
    CUTLASS_DEVICE bool starts_late() const { return shift && first_k == 0; }
};

// Which of the numbers that places of tiles are divided by each lane of a warp has the inverse of.
enum Divided { by_member, by_strip, by_rows, by_last_rows, by_batch };

// A quotient, and what is left over: by the inverse 2^32 / by, rounded down, one too few at most for numbers below 2^31.
CUTLASS_DEVICE int divided(int number, int by, unsigned inverse, int &rest) {
    int const found = __umulhi(unsigned(number), inverse), left = number - found * by;
    rest = left < by ? left : left - by;
    return found + (left >= by);
}

// The accumulator of one atom of 64 rows, as wgmma has it: four registers hold two rows' parts of 8 columns.
using Accumulator = plan::Sum[plan::summed / 2];
constexpr auto every_register = std::make_index_sequence<plan::summed / 2>();

// In a cluster, bits above the 18 that a descriptor holds say which CTA an address is in.
CUTLASS_DEVICE uint64_t descriptor(uint64_t word, uint32_t address) { return word + ((address & 0x3FFFF) >> 4); }

template <size_t... i, class... Operand>
CUTLASS_DEVICE void multiply_add(Accumulator &accumulators, std::index_sequence<i...>, Operand... operands) {
    plan::Multiply::fma(operands..., accumulators[i]..., cute::SM90::GMMA::ScaleOut::One);
}

// Two accumulators as C's type, the first one low. One instruction: the assembler moves single conversions ahead of waits.
CUTLASS_DEVICE uint32_t packed(float low, float high) {
    uint32_t pair;
    if constexpr (cute::is_same_v<plan::Result, __nv_bfloat16>) {
        asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    } else {
        asm volatile("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    }
    return pair;
}

// Four as C's type of a byte each, the first one low; what is beyond its numbers saturates.
CUTLASS_DEVICE uint32_t packed(float first, float second, float third, float fourth) {
    uint32_t four;
    if constexpr (cute::is_same_v<plan::Result, plan::e4m3>) {
        asm volatile("{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %2, %1; "
                     "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3; mov.b32 %0, {low, high}; }"
                     : "=r"(four)
                     : "f"(first), "f"(second), "f"(third), "f"(fourth));
    } else {
        asm volatile("{ .reg .b16 low, high; cvt.rn.satfinite.e5m2x2.f32 low, %2, %1; "
                     "cvt.rn.satfinite.e5m2x2.f32 high, %4, %3; mov.b32 %0, {low, high}; }"
                     : "=r"(four)
                     : "f"(first), "f"(second), "f"(third), "f"(fourth));
    }
    return four;
}
CUTLASS_DEVICE uint32_t packed(uint32_t first, uint32_t second, uint32_t third, uint32_t fourth) {
    uint32_t four;
    asm volatile("{ .reg .b32 high; cvt.pack.sat.s8.s32.b32 high, %4, %3, 0; cvt.pack.sat.s8.s32.b32 %0, %2, %1, high; }"
                 : "=r"(four)
                 : "r"(first), "r"(second), "r"(third), "r"(fourth));
    return four;
}

// The bits of an accumulator.
CUTLASS_DEVICE uint32_t bits(float sum) { return __float_as_uint(sum); }
CUTLASS_DEVICE uint32_t bits(uint32_t sum) { return sum; }
CUTLASS_DEVICE void set_bits(float &sum, uint32_t bits) { sum = __uint_as_float(bits); }
CUTLASS_DEVICE void set_bits(uint32_t &sum, uint32_t bits) { sum = bits; }

// An accumulator as C's type: pairs of two bytes each, fours of one, or one of four, in its order.
constexpr int kept_words = plan::tile_n * int(sizeof(plan::Result)) / 8;
using Kept = uint32_t[kept_words];

CUTLASS_DEVICE void keep(Accumulator const &accumulators, Kept &kept) {
#pragma unroll
    for (int i = 0; i < kept_words; ++i) {
        if constexpr (sizeof(plan::Result) == 2) {
            kept[i] = packed(accumulators[2 * i], accumulators[2 * i + 1]);
        } else if constexpr (sizeof(plan::Result) == 1) {
            kept[i] = packed(accumulators[4 * i], accumulators[4 * i + 1], accumulators[4 * i + 2], accumulators[4 * i + 3]);
        } else {
            kept[i] = bits(accumulators[i]);
        }
    }
}

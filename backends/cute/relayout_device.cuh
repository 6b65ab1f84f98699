// What relayouts ask of the hardware. A host that runs them thread by thread has its own text in this one's place.
#ifndef LEGALSAT_RELAYOUT_DEVICE
#define LEGALSAT_RELAYOUT_DEVICE
// Reads tell the L2 cache to bring in whole lines: what lies beside a granule is soon wanted, too.
#define LEGALSAT_RELAYOUT_LINE ".L2::128B"
namespace relayout {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

constexpr int threads = 256;  // of a block
constexpr int warp = 32;
constexpr int granule = 16;   // bytes of the widest access
constexpr int sector = 32;    // bytes that are written to memory at once

struct alignas(granule) Granule {
    u32 word[4];
};

__device__ inline u32 thread() { return threadIdx.x; }
__device__ inline u32 block() { return blockIdx.x; }
__device__ inline u32 high_product(u32 a, u32 b) { return __umulhi(a, b); }
__device__ inline u32 shifted(u32 low, u32 high, u32 bits) { return __funnelshift_r(low, high, bits); }
// A word shifted left; by 32 bits or more, nothing of it is left.
__device__ inline u32 shifted_out(u32 value, u32 bits) {
    u32 found;
    asm("shl.b32 %0, %1, %2;" : "=r"(found) : "r"(value), "r"(bits));
    return found;
}

__device__ inline void barrier() { __syncthreads(); }

// The address of the block's shared memory, worked out once.
__device__ inline u32 shared_memory() {
    extern __shared__ __align__(128) char relayout_memory[];
    u32 found;
    asm volatile("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(found) : "l"(relayout_memory));
    return found;
}

// Keeps a number in a register, where the compiler would work it out again and again.
__device__ inline void keep(u32 &number) { asm volatile("" : "+r"(number)); }

// Reads an element into the low bits of two words.
template <int element>
__device__ inline void read_shared(u32 address, u32 &low, u32 &high) {
    if (element == 1) asm volatile("ld.shared.u8 %0, [%1];" : "=r"(low) : "r"(address));
    if (element == 2) {
        asm volatile("{ .reg .b16 h; ld.shared.u16 h, [%1]; cvt.u32.u16 %0, h; }" : "=r"(low) : "r"(address));
    }
    if (element == 4) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(low) : "r"(address));
    if (element == 8) asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(low), "=r"(high) : "r"(address));
}

__device__ inline void write_shared(u32 address, u32 value) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

__device__ inline Granule read_shared_granule(u32 address) {
    Granule found;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(found.word[0]), "=r"(found.word[1]), "=r"(found.word[2]), "=r"(found.word[3])
                 : "r"(address));
    return found;
}

// Kernels in front have ended behind this, and what they wrote is there.
__device__ inline void await_grid() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// A kernel behind this one that waits by itself may be brought in from here on; without one it does nothing.
__device__ inline void launch_dependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// The policy of L2 for what is read: it is dropped first, so that what is written stays for a product behind it. The value
// is CuTe's (`TMA::CacheHintSm90`).
constexpr u64 evict_first = 0x12F0000000000000;

// Reads a granule if that is wanted; what it holds otherwise nobody may rely on. L1 keeps it, since rows that are shifted
// want each granule twice, of threads beside each other.
__device__ inline Granule load_if(bool wanted, u64 address) {
    Granule found;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0; @p ld.global.L2::cache_hint" LEGALSAT_RELAYOUT_LINE
                 ".v4.u32 {%0, %1, %2, %3}, [%4], %6; }"
                 : "=r"(found.word[0]), "=r"(found.word[1]), "=r"(found.word[2]), "=r"(found.word[3])
                 : "l"(address), "r"(static_cast<u32>(wanted)), "l"(evict_first));
    return found;
}

// Stores a granule. Its line stays in L2, where a product behind the relayout finds it.
__device__ inline void store(u64 address, Granule const &value) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(value.word[0]), "r"(value.word[1]),
                 "r"(value.word[2]), "r"(value.word[3]));
}

// Stores the element in the low bits of these words.
template <int element>
__device__ inline void store_element(u64 address, u32 low, u32 high) {
    if (element == 1) asm volatile("st.global.u8 [%0], %1;" ::"l"(address), "r"(low));
    if (element == 2) {
        asm volatile("{ .reg .b16 h; cvt.u16.u32 h, %1; st.global.u16 [%0], h; }" ::"l"(address), "r"(low));
    }
    if (element == 4) asm volatile("st.global.u32 [%0], %1;" ::"l"(address), "r"(low));
    if (element == 8) asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(address), "r"(low), "r"(high));
}

__device__ inline void copy_async(u32 to, u64 from) {
    asm volatile("cp.async.cg.shared.global.L2::cache_hint" LEGALSAT_RELAYOUT_LINE " [%0], [%1], 16, %2;" ::"r"(to),
                 "l"(from), "l"(evict_first)
                 : "memory");
}

// Closes a group of what this thread copies.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most so many groups of this thread are under way.
template <int pending>
__device__ inline void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace relayout
#undef LEGALSAT_RELAYOUT_LINE
#endif

// What movements ask of the hardware. A host that runs them thread by thread has its own text in this one's place.
#include <cstdint>
#include <cstring>
#include <cuda.h>

#define MOVEMENT_DEVICE __device__ __forceinline__

namespace movement {

using Address = unsigned long long;

struct alignas(16) Granule {
    uint32_t word[4];
};
template <int bytes> struct Vector { using Type = uint8_t; };
template <> struct Vector<2> { using Type = uint16_t; };
template <> struct Vector<4> { using Type = uint32_t; };
template <> struct Vector<8> { using Type = unsigned long long; };
template <> struct Vector<16> { using Type = Granule; };

MOVEMENT_DEVICE int thread() { return threadIdx.x; }
MOVEMENT_DEVICE int block() { return blockIdx.x; }
MOVEMENT_DEVICE void meet() { __syncthreads(); }

MOVEMENT_DEVICE char *shared_memory() {
    extern __shared__ __align__(1024) char movement_memory[];
    return movement_memory;
}

MOVEMENT_DEVICE uint32_t place(void const *shared) { return static_cast<uint32_t>(__cvta_generic_to_shared(shared)); }

MOVEMENT_DEVICE void start(uint64_t *barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(place(barrier)), "r"(arrivals) : "memory");
}
MOVEMENT_DEVICE void fence_start() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
MOVEMENT_DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
MOVEMENT_DEVICE void expect(uint64_t *barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place(barrier)), "r"(bytes) : "memory");
}
// Counts bytes down that nothing brings.
MOVEMENT_DEVICE void complete(uint64_t *barrier, int bytes) {
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(place(barrier)), "r"(bytes)
                 : "memory");
}
MOVEMENT_DEVICE void wait(uint64_t *barrier, int parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}"
        ::"r"(place(barrier)), "r"(parity) : "memory");
}

MOVEMENT_DEVICE void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int pending> MOVEMENT_DEVICE void wait_stores() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

MOVEMENT_DEVICE void load_run(void *to, Address from, int bytes, uint64_t *barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     place(to)), "l"(from), "r"(bytes), "r"(place(barrier)) : "memory");
}

// Zeros come where nothing is there.
template <int bytes> MOVEMENT_DEVICE void copy_in(void *to, Address from, bool there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(place(to)), "l"(from), "n"(bytes),
                 "r"(there ? bytes : 0) : "memory");
}
MOVEMENT_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending> MOVEMENT_DEVICE void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

template <int bytes> MOVEMENT_DEVICE void get(void *words, void const *shared) {
    auto const found = *reinterpret_cast<typename Vector<bytes>::Type const *>(shared);
    memcpy(words, &found, bytes);
}
template <int bytes> MOVEMENT_DEVICE void put(void const *words, void *shared) {
    typename Vector<bytes>::Type found;
    memcpy(&found, words, bytes);
    *reinterpret_cast<typename Vector<bytes>::Type *>(shared) = found;
}

template <int bytes> MOVEMENT_DEVICE void load(void *words, Address from) {
    auto const found = *reinterpret_cast<typename Vector<bytes>::Type const *>(from);
    memcpy(words, &found, bytes);
}
template <int bytes> MOVEMENT_DEVICE void store(void const *words, Address to) {
    typename Vector<bytes>::Type found;
    memcpy(&found, words, bytes);
    *reinterpret_cast<typename Vector<bytes>::Type *>(to) = found;
}

}  // namespace movement

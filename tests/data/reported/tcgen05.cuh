// Tensor memory and multiplications of the kernels beside this file: 128 x 16 x 16 of bf16, operands swizzled by 128 B.
#pragma once
#include "protocol.cuh"

constexpr uint32_t kInstruction = 0x8040490;         // kind::f16, bf16 by bf16 to fp32, 128 x 16, both K-major
constexpr uint64_t kOperand = 0x4000404000010000;    // K-major, rows of 128 bytes, groups of 8 rows 1024 bytes apart
constexpr uint32_t kColumns = 32;

DEVICE void allocate(uint32_t* where) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared_address(where)),
               "r"(kColumns)
               : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}
DEVICE void deallocate(uint32_t columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(columns), "r"(kColumns) : "memory");
}
DEVICE void multiply(uint32_t sums, const void* a, const void* b, uint32_t step, bool adds) {
  uint64_t a_word = kOperand | (shared_address(a) + 32 * step) >> 4, b_word = kOperand | (shared_address(b) + 32 * step) >> 4;
  asm volatile(
      "{\n"
      ".reg .pred adds;\n"
      "setp.ne.b32 adds, %4, 0;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, adds;\n"
      "}" ::"r"(sums), "l"(a_word), "l"(b_word), "r"(kInstruction), "r"(static_cast<uint32_t>(adds))
      : "memory");
}
DEVICE void commit(uint64_t* barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                   shared_address(barrier))
               : "memory");
}
DEVICE void fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
DEVICE void fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
DEVICE void take(uint32_t (&sums)[16], uint32_t from) {
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];"
               : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3]),
                 "=r"(sums[4]), "=r"(sums[5]), "=r"(sums[6]), "=r"(sums[7]),
                 "=r"(sums[8]), "=r"(sums[9]), "=r"(sums[10]), "=r"(sums[11]),
                 "=r"(sums[12]), "=r"(sums[13]), "=r"(sums[14]), "=r"(sums[15])
               : "r"(from)
               : "memory");
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

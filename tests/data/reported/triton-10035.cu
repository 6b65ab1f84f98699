// Two partitions hand buffers to one another; the leader of the consumer's warps arrives for all of them.
#include "protocol.cuh"

constexpr int kBuffers = 2, kConsumers = 128;

extern "C" __global__ void __block_size__((kConsumers + 32, 1, 1)) partitions(int k) {
  __shared__ uint64_t ready[kBuffers], empty[kBuffers];
  if (threadIdx.x == 0) {
    for (int b = 0; b < kBuffers; ++b) init(&ready[b], 1), init(&empty[b], 1);
    fence_init();
  }
  __syncthreads();
  if (threadIdx.x >= kConsumers) {
#pragma unroll 1
    for (int i = 0; i < k; ++i) {
      wait(&empty[i % kBuffers], i / kBuffers % 2 ^ 1);
      if (threadIdx.x == kConsumers) arrive(&ready[i % kBuffers]);
      __syncwarp();
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < k; ++i) {
      meet<kConsumers>(1);
      wait(&ready[i % kBuffers], i / kBuffers % 2);
#ifdef RIGHT
      meet<kConsumers>(1);
#endif
      if (threadIdx.x == 0) arrive(&empty[i % kBuffers]);
    }
  }
}

// A load whose barrier gets its bytes by arrive.expect_tx, taken for an initialisation, and no init before.
#include "protocol.cuh"

constexpr int kThreads = 128, kBytes = 1024;

extern "C" __global__ void __block_size__((kThreads, 1, 1)) copy(const char* x, int2* out) {
  __shared__ alignas(128) int2 buffer[kThreads];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
#ifdef RIGHT
    init(&full, 1);
    fence_init();
    arrive_and_expect(&full, kBytes);
#else
    arrive_and_expect(&full, 1);
#endif
    load(buffer, x, kBytes, &full);
  }
  __syncthreads();
  wait(&full, 0);
  out[threadIdx.x] = buffer[threadIdx.x];
}

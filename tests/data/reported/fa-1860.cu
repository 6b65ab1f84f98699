// A ring whose barriers expect as many arrivals as there are warpgroups of consumers: of 32 threads that is none.
#include "protocol.cuh"

constexpr int kStages = 2, kThreadsPerWarpGroup = 128, kNumConsumers = 32, kBytes = 16 * kNumConsumers;
#ifdef RIGHT
constexpr int kArrivals = (kNumConsumers + kThreadsPerWarpGroup - 1) / kThreadsPerWarpGroup;
#else
constexpr int kArrivals = kNumConsumers / kThreadsPerWarpGroup;
#endif

extern "C" __global__ void __block_size__((kNumConsumers + 32, 1, 1)) attention(const char* x, int4* out, int n) {
  __shared__ alignas(128) int4 buffer[kStages][kNumConsumers];
  __shared__ uint64_t full[kStages], empty[kStages];
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) init(&full[s], 1), init(&empty[s], kArrivals);
    fence_init();
  }
  __syncthreads();
  if (threadIdx.x >= kNumConsumers) {
#pragma unroll 1
    for (int i = 0; i < n; ++i) {
      wait(&empty[i % kStages], i / kStages % 2 ^ 1);
      fence_proxy();
      if (threadIdx.x == kNumConsumers) {
        arrive_and_expect(&full[i % kStages], kBytes);
        load(buffer[i % kStages], x + static_cast<int64_t>(i) * kBytes, kBytes, &full[i % kStages]);
      }
      __syncwarp();
    }
    return;
  }
  int4 sum = {};
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    wait(&full[i % kStages], i / kStages % 2);
    int4 value = buffer[i % kStages][threadIdx.x];
    sum.x += value.x, sum.y += value.y, sum.z += value.z, sum.w += value.w;
    __syncwarp();
    if (threadIdx.x == 0) arrive(&empty[i % kStages]);
  }
  out[threadIdx.x] = sum;
}

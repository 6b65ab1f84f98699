// Low-latency combine: one warp loads rows by bulk copies, the others read them with ordinary loads and release them.
#include "protocol.cuh"

constexpr int kStages = 2, kReaders = 4, kBytes = 32 * kReaders * 16;

extern "C" __global__ void __block_size__((32 * (kReaders + 1), 1, 1)) combine(const char* x, int4* out, int rows) {
  __shared__ alignas(128) int4 buffer[kStages][32 * kReaders];
  __shared__ uint64_t full[kStages], empty[kStages];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) init(&full[s], 1), init(&empty[s], kReaders);
    fence_init();
  }
  __syncthreads();
  if (warp == kReaders) {
#pragma unroll 1
    for (int i = 0; i < rows; ++i) {
      int stage = i % kStages;
      wait(&empty[stage], i / kStages % 2 ^ 1);
#ifdef RIGHT
      fence_proxy();
#endif
      if (lane == 0) {
        arrive_and_expect(&full[stage], kBytes);
        load(buffer[stage], x + static_cast<int64_t>(i) * kBytes, kBytes, &full[stage]);
      }
      __syncwarp();
    }
    return;
  }
  int4 sum = {};
#pragma unroll 1
  for (int i = 0; i < rows; ++i) {
    int stage = i % kStages;
    wait(&full[stage], i / kStages % 2);
    int4 value = buffer[stage][threadIdx.x];
    sum.x += value.x, sum.y += value.y, sum.z += value.z, sum.w += value.w;
    __syncwarp();
    if (lane == 0) arrive(&empty[stage]);
  }
  out[threadIdx.x] = sum;
}

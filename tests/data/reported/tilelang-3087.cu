// A pipelined product of three stages whose multiplications arrive on one barrier, which flips once an iteration.
#include "tcgen05.cuh"

constexpr int kStages = 3, kA = 128 * 64 * 2, kB = 16 * 64 * 2;

extern "C" __global__ void __block_size__((128, 1, 1))
    gemm(const char* a, const char* b, uint4* out, int k_tiles) {
  extern __shared__ __align__(1024) char shared[];
  __shared__ uint64_t full[kStages], mbar;
  __shared__ uint32_t where;
  int warp = threadIdx.x / 32;
  auto a_stage = [&](int k) { return shared + k % kStages * kA; };
  auto b_stage = [&](int k) { return shared + kStages * kA + k % kStages * kB; };
  auto fill = [&](int k) {
    if (threadIdx.x == 0) {
      arrive_and_expect(&full[k % kStages], kA + kB);
      load(a_stage(k), a + static_cast<int64_t>(k) * kA, kA, &full[k % kStages]);
      load(b_stage(k), b + static_cast<int64_t>(k) * kB, kB, &full[k % kStages]);
    }
  };
  if (warp == 0) allocate(&where);
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) init(&full[s], 1);
    init(&mbar, 1);
    fence_init();
  }
  fence_before();
  __syncthreads();
  fence_after();
  uint32_t sums = where;
  for (int k = 0; k < kStages - 1 && k < k_tiles; ++k) fill(k);
#pragma unroll 1
  for (int k = 0; k < k_tiles; ++k) {
    if (k + kStages - 1 < k_tiles) fill(k + kStages - 1);
    wait(&full[k % kStages], k / kStages % 2);
    if (threadIdx.x == 0) {
      for (int step = 0; step < 4; ++step) multiply(sums, a_stage(k), b_stage(k), step, k + step > 0);
      commit(&mbar);
    }
#ifdef RIGHT
    wait(&mbar, k % 2);
#else
    wait(&mbar, k / kStages % 2);
#endif
    __syncthreads();
  }
  fence_after();
  uint32_t value[16];
  if (k_tiles > 0) {
    take(value, sums + (warp << 21));
    for (int n = 0; n < 16; n += 4)
      out[threadIdx.x * 4 + n / 4] = make_uint4(value[n], value[n + 1], value[n + 2], value[n + 3]);
  }
  fence_before();
  __syncthreads();
  if (warp == 0) deallocate(sums);
}

// Forward kernel: a state in shared memory is set to zero, updated once a tile, and stored by a bulk copy at the end.
// The only proxy fence stands in the loop, which an empty sequence (t_tiles == 0) skips; none follows the init.
#include "protocol.cuh"

constexpr int kThreads = 128, kBytes = 4 * kThreads;

extern "C" __global__ void __block_size__((kThreads, 1, 1)) forward(const float* x, float* final_state, int t_tiles) {
  __shared__ alignas(128) float tile[kThreads];
  __shared__ alignas(128) float state[kThreads];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    init(&full, 1);
#ifdef RIGHT
    fence_init();
#endif
  }
  state[threadIdx.x] = 0;
#ifdef RIGHT
  fence_proxy();
#endif
  __syncthreads();
#pragma unroll 1
  for (int t = 0; t < t_tiles; ++t) {
    if (threadIdx.x == 0) {
      arrive_and_expect(&full, kBytes);
      load(tile, x + t * kThreads, kBytes, &full);
    }
    wait(&full, t % 2);
    state[threadIdx.x] += tile[threadIdx.x];
    fence_proxy();
    __syncthreads();
  }
  if (threadIdx.x == 0) store(final_state, state, kBytes);
}

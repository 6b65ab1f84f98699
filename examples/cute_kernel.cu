// C = A B^T in CuTe, one tile of 128 x 128 a block: loads by the maps of a plan, multiplies by its descriptors.
// cute_kernel.py writes a.h, b.h and plan.h, which come from plans, and a.bin, b.bin and c.bin, which come from numpy.
#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include <cute/arch/copy_sm90_desc.hpp>
#include <cute/arch/copy_sm90_tma.hpp>
#include <cute/arch/mma_sm90_gmma.hpp>
#include <cute/arch/util.hpp>
#include <cutlass/arch/barrier.h>

namespace a {
#include "a.h"
}
namespace b {
#include "b.h"
}
#include "plan.h"

using Multiply = cute::SM90::GMMA::MMA_64x128x16_F32BF16BF16_SS<cute::SM90::GMMA::Major::K, cute::SM90::GMMA::Major::K>;
constexpr int tile = 128, blocks = tile / 64, sums = 64;  // of a thread, for each block of 64 rows

__global__ void __launch_bounds__(128) product(__grid_constant__ CUtensorMap const map_a,
                                               __grid_constant__ CUtensorMap const map_b, float *c) {
    __shared__ alignas(1024) unsigned char of_a[plan::a_bytes], of_b[plan::b_bytes];
    __shared__ std::uint64_t full;
    float kept[blocks][sums] = {};
    int const row = blockIdx.x, column = blockIdx.y, thread = threadIdx.x;
    if (thread == 0) {
        cute::initialize_barrier(full, 1);
        cutlass::arch::fence_barrier_init();
    }
    __syncthreads();
    std::uint64_t const at_a = cute::cast_smem_ptr_to_uint(of_a) >> 4, at_b = cute::cast_smem_ptr_to_uint(of_b) >> 4;
    for (int k = 0; k < plan::k_tiles; ++k) {
        if (thread == 0) {  // as the plans say: box at {64 k, 128 row}
            auto const hint = static_cast<std::uint64_t>(cute::TMA::CacheHintSm90::EVICT_NORMAL);
            cute::set_barrier_transaction_bytes(full, plan::a_bytes + plan::b_bytes);
            cute::SM90_TMA_LOAD_2D::copy(&map_a, &full, hint, of_a, 64 * k, 128 * row);
            cute::SM90_TMA_LOAD_2D::copy(&map_b, &full, hint, of_b, 64 * k, 128 * column);
        }
        cute::wait_barrier(full, k & 1);
        cute::warpgroup_arrive();
#pragma unroll
        for (int block = 0; block < blocks; ++block) {
#pragma unroll
            for (int step = 0; step < plan::steps; ++step) {
                std::uint64_t const word_a = plan::a_words[block][step] + at_a, word_b = plan::b_words[0][step] + at_b;
                auto const add = cute::SM90::GMMA::ScaleOut::One;
                cute::detail::explode(Multiply::fma, &word_a, cute::seq<0>{}, &word_b, cute::seq<0>{}, kept[block],
                                      cute::make_int_sequence<sums>{}, &add, cute::seq<0>{});
            }
        }
        cute::warpgroup_commit_batch();
        cute::warpgroup_wait<0>();
        __syncthreads();  // all have read both tiles
    }
    int const warp = thread / 32, lane = thread % 32, pitch = tile * gridDim.y;
#pragma unroll
    for (int block = 0; block < blocks; ++block) {
#pragma unroll
        for (int i = 0; i < sums; ++i) {
            int const m = tile * row + 64 * block + 16 * warp + lane / 4 + i / 2 % 2 * 8;
            c[m * pitch + tile * column + i / 4 * 8 + lane % 4 * 2 + i % 2] = kept[block][i];
        }
    }
}

template <class T>
std::vector<T> read(char const *name, std::size_t count) {
    std::vector<T> found(count);
    std::FILE *file = std::fopen(name, "rb");
    if (file == nullptr || std::fread(found.data(), sizeof(T), count, file) != count) std::printf("%s is too short\n", name);
    if (file != nullptr) std::fclose(file);
    return found;
}

template <class T>
T *on_gpu(std::vector<T> const &values) {
    T *found = nullptr;
    cudaMalloc(&found, values.size() * sizeof(T));
    cudaMemcpy(found, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
    return found;
}

int main() {
    auto const want = read<float>("c.bin", plan::m * plan::n);
    auto *a = on_gpu(read<std::uint16_t>("a.bin", plan::m * plan::k)), *b = on_gpu(read<std::uint16_t>("b.bin", plan::n * plan::k));
    auto *c = on_gpu(std::vector<float>(want.size(), -1.0f));
    CUtensorMap map_a, map_b;
    if (a::encode_source_map(&map_a, a) != CUDA_SUCCESS || b::encode_source_map(&map_b, b) != CUDA_SUCCESS) return 2;
    product<<<dim3(plan::m / tile, plan::n / tile), 128>>>(map_a, map_b, c);
    std::vector<float> found(want.size());
    cudaError_t const error = cudaMemcpy(found.data(), c, found.size() * sizeof(float), cudaMemcpyDeviceToHost);
    std::size_t right = 0;
    for (std::size_t i = 0; i < want.size(); ++i) right += found[i] == want[i];
    std::printf("%s; %zu of %zu elements are right\n", cudaGetErrorString(error), right, want.size());
    return right == want.size() && error == cudaSuccess ? 0 : 1;
}

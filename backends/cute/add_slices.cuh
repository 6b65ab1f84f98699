// Adds up what slices of k gave, and stores C. Rows and columns are the slices'.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace add_slices {

constexpr unsigned lanes = 32, warps = 8;
constexpr unsigned row_part = 128;  // elements of a row that a warp stores

// Bytes of C, to which sums saturate.
enum class e4m3 : unsigned char {};
enum class e5m2 : unsigned char {};
enum class i8 : signed char {};

template <class Result> __device__ inline Result rounded(int value);
template <> __device__ inline int rounded<int>(int value) { return value; }
template <> __device__ inline i8 rounded<i8>(int value) { return i8(min(max(value, -128), 127)); }
template <class Result> __device__ inline Result rounded(float value);
template <> __device__ inline float rounded<float>(float value) { return value; }
template <> __device__ inline e4m3 rounded<e4m3>(float value) {
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
    return e4m3(pair);
}
template <> __device__ inline e5m2 rounded<e5m2>(float value) {
    unsigned short pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(value));
    return e5m2(pair);
}
template <> __device__ inline __half rounded<__half>(float value) { return __float2half_rn(value); }
template <> __device__ inline __nv_bfloat16 rounded<__nv_bfloat16>(float value) { return __float2bfloat16_rn(value); }

template <class Sum> struct FourOf { using Type = float4; };
template <> struct FourOf<int> { using Type = int4; };
template <class Sum> using Four = typename FourOf<Sum>::Type;

// Returns four sums of elements that lie `step` apart in each slice, as many as there are.
template <class Sum>
__device__ inline Four<Sum> added(Sum const *from, unsigned slices, long long slice_pitch, long long step,
                                  unsigned elements) {
    Four<Sum> sums{0, 0, 0, 0};
#pragma unroll 4
    for (unsigned slice = 0; slice < slices; ++slice, from += slice_pitch) {
        Four<Sum> more{0, 0, 0, 0};
        if (elements > 0) more.x = __ldcs(from);
        if (elements > 1) more.y = __ldcs(from + step);
        if (elements > 2) more.z = __ldcs(from + 2 * step);
        if (elements > 3) more.w = __ldcs(from + 3 * step);
        sums.x += more.x;
        sums.y += more.y;
        sums.z += more.z;
        sums.w += more.w;
    }
    return sums;
}

// Returns how many of four elements there are, `step` apart, of so many that are left.
__device__ inline unsigned elements(unsigned first, unsigned step, unsigned all) {
    return first < all ? min((all - first + step - 1) / step, 4u) : 0;
}

// Rows of the slices are rows of C: a warp adds up 128 elements of one.
template <class Result, class Sum>
__device__ inline void store_rows(Sum const *source, Result *target, unsigned slices, long long slice_pitch,
                                  long long source_pitch, long long target_pitch, unsigned rows, unsigned columns) {
    unsigned const lane = threadIdx.x % lanes, unit = blockIdx.x * warps + threadIdx.x / lanes;
    unsigned const across = (columns + row_part - 1) / row_part;
    unsigned const row = unit / across, column = unit % across * row_part + lane;
    if (row >= rows) return;
    unsigned const count = elements(column, lanes, columns);
    Four<Sum> const sums = added(source + row * source_pitch + column, slices, slice_pitch, lanes, count);
    Sum const each[4] = {sums.x, sums.y, sums.z, sums.w};
    Result *to = target + row * target_pitch + column;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
        if (i < count) to[i * lanes] = rounded<Result>(each[i]);
}

// Rows of the slices are columns of C: a block turns a square of sums, so that lines are read and written whole.
template <class Result, class Sum>
__device__ inline void store_turned(Sum const *source, Result *target, unsigned slices, long long slice_pitch,
                                    long long source_pitch, long long target_pitch, unsigned rows, unsigned columns) {
    __shared__ Sum square[lanes][lanes + 1];
    unsigned const lane = threadIdx.x % lanes, warp = threadIdx.x / lanes;
    unsigned const across = (columns + lanes - 1) / lanes;
    unsigned const first_row = blockIdx.x / across * lanes, first_column = blockIdx.x % across * lanes;
    unsigned const row = first_row + warp, column = first_column + lane;
    unsigned const read = column < columns ? elements(row, warps, rows) : 0;
    Four<Sum> const sums =
        added(source + row * source_pitch + column, slices, slice_pitch, warps * source_pitch, read);
    Sum const each[4] = {sums.x, sums.y, sums.z, sums.w};
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) square[warp + i * warps][lane] = each[i];
    __syncthreads();
    unsigned const along = first_row + lane, down = first_column + warp;
    unsigned const written = along < rows ? elements(down, warps, columns) : 0;
    Result *to = target + down * target_pitch + along;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
        if (i < written) to[i * warps * target_pitch] = rounded<Result>(square[lane][warp + i * warps]);
}

template <class Result, class Sum, bool turned>
__device__ inline void store(unsigned long long source, unsigned long long target, unsigned slices,
                             long long slice_pitch, long long source_pitch, long long target_pitch, unsigned rows,
                             unsigned columns) {
    Sum const *from = reinterpret_cast<Sum const *>(source);
    Result *to = reinterpret_cast<Result *>(target);
    if constexpr (turned)
        store_turned(from, to, slices, slice_pitch, source_pitch, target_pitch, rows, columns);
    else
        store_rows(from, to, slices, slice_pitch, source_pitch, target_pitch, rows, columns);
}

}  // namespace add_slices

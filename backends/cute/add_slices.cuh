// Adds up what slices of k gave, and stores C. Rows and columns are the slices'.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace add_slices {

constexpr unsigned lanes = 32, warps = 8;
constexpr unsigned row_part = 128;                      // elements of a row that a warp stores
constexpr unsigned turned_rows = 16, turned_columns = 8;  // whose elements a warp stores where C is turned

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

// Reads four columns of each slice, `step` apart, and returns their sums; columns behind the last are not read.
template <bool together, class Sum>
__device__ inline Four<Sum> added(Sum const *from, unsigned slices, long long slice_pitch, unsigned column,
                                  unsigned columns) {
    Four<Sum> sums{0, 0, 0, 0};
#pragma unroll 4
    for (unsigned slice = 0; slice < slices; ++slice, from += slice_pitch) {
        Four<Sum> more{0, 0, 0, 0};
        if constexpr (together) {  // a granule, whole in the row's pitch
            more = __ldcs(reinterpret_cast<Four<Sum> const *>(from));
        } else {
            if (column < columns) more.x = __ldcs(from);
            if (column + lanes < columns) more.y = __ldcs(from + lanes);
            if (column + 2 * lanes < columns) more.z = __ldcs(from + 2 * lanes);
            if (column + 3 * lanes < columns) more.w = __ldcs(from + 3 * lanes);
        }
        sums.x += more.x;
        sums.y += more.y;
        sums.z += more.z;
        sums.w += more.w;
    }
    return sums;
}

template <class Result, class Sum, bool turned>
__device__ inline void store(unsigned long long source, unsigned long long target, unsigned slices,
                             long long slice_pitch, long long source_pitch, long long target_pitch, unsigned rows,
                             unsigned columns) {
    unsigned const lane = threadIdx.x % lanes, unit = blockIdx.x * warps + threadIdx.x / lanes;
    constexpr unsigned width = turned ? turned_columns : row_part;
    unsigned const across = (columns + width - 1) / width;
    unsigned const row = turned ? unit / across * turned_rows + lane % turned_rows : unit / across;
    unsigned const column = unit % across * width + (turned ? lane / turned_rows * 4 : lane);
    if (row >= rows || column >= columns) return;
    Sum const *from = reinterpret_cast<Sum const *>(source) + row * source_pitch + column;
    Four<Sum> const sums = added<turned>(from, slices, slice_pitch, column, columns);
    Sum const each[4] = {sums.x, sums.y, sums.z, sums.w};
    Result *to = reinterpret_cast<Result *>(target) + (turned ? row : row * target_pitch);
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
        unsigned const at = column + (turned ? i : i * lanes);
        if (at < columns) to[turned ? at * target_pitch : at] = rounded<Result>(each[i]);
    }
}

}  // namespace add_slices

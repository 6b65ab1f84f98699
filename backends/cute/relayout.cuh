// What both kinds of relayout share.
#ifndef LEGALSAT_RELAYOUT
#define LEGALSAT_RELAYOUT
namespace relayout {

// Divides numbers below 2^31 by `number`: a product's high half, shifted; a multiplier of 0 stands for division by 1.
struct Divisor {
    u32 number, multiplier, shift;
    __device__ u32 quotient(u32 value) const {
        return multiplier ? high_product(value, multiplier) >> shift : value;
    }
};

// An axis that is walked element by element: its extent and bytes between neighbours on both sides.
struct Axis {
    Divisor extent;
    i64 source, target;
};

struct Offsets {
    i64 source, target;
};

// Takes an index apart along the axes, fastest first, and returns the bytes to its place on both sides.
template <int axes>
__device__ inline Offsets offsets_of(u32 index, Axis const (&axis)[axes ? axes : 1]) {
    Offsets found = {0, 0};
#pragma unroll
    for (int i = 0; i < axes; ++i) {
        u32 const rest = i + 1 < axes ? axis[i].extent.quotient(index) : 0;
        i64 const at = index - rest * axis[i].extent.number;
        found.source += at * axis[i].source;
        found.target += at * axis[i].target;
        index = rest;
    }
    return found;
}

template <typename Number>
__device__ inline Number smaller(Number a, Number b) {
    return a < b ? a : b;
}

template <typename Number>
__device__ inline Number larger(Number a, Number b) {
    return a < b ? b : a;
}

// Stores `size` bytes of a granule, `at` a multiple of them.
template <int size>
__device__ inline void store_piece(u64 address, Granule const &value, int at) {
    u32 const even = at & 8 ? value.word[2] : value.word[0], odd = at & 8 ? value.word[3] : value.word[1];
    store_element<size>(address + at, size == 8 ? even : (at & 4 ? odd : even) >> at % 4 * 8, odd);
}

// Stores the bytes [cut, 16) of a granule, or [0, cut), in pieces of growing size from where it is cut.
template <int size>
__device__ inline void store_pieces(u64 address, Granule const &value, int cut, bool behind) {
    if constexpr (size < granule) {
        if (cut & size) {
            store_piece<size>(address, value, behind ? cut : cut - size);
            cut += behind ? size : -size;
        }
        store_pieces<2 * size>(address, value, cut, behind);
    }
}

// Stores those elements of a granule whose first byte lies in [begin, end); the granule itself if that is all.
template <int element>
__device__ inline void store_part(u64 address, Granule const &value, int begin, int end) {
    if (begin <= 0 && end >= granule) {
        store(address, value);
    } else if constexpr (element < granule) {
        if (begin <= 0 || end >= granule) {
            store_pieces<element>(address, value, begin <= 0 ? end : begin, begin > 0);
        } else {
#pragma unroll 1
            for (int at = begin; at < end; at += element) store_piece<element>(address, value, at);
        }
    }
}

}  // namespace relayout
#endif

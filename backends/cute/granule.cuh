// A granule that begins anywhere in one of shared memory and ends in the next.

struct Granule {
    uint32_t word[4];
};

CUTLASS_DEVICE Granule granule_at(uint32_t from) {
    Granule found;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(found.word[0]), "=r"(found.word[1]), "=r"(found.word[2]), "=r"(found.word[3])
                 : "r"(from));
    return found;
}

CUTLASS_DEVICE void lay_down(uint32_t at, Granule const &one) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(one.word[0]), "r"(one.word[1]),
                 "r"(one.word[2]), "r"(one.word[3])
                 : "memory");
}

// The last 16 - late bytes of one, and the first late bytes of the next.
CUTLASS_DEVICE Granule shifted(Granule const &first, Granule const &next, int late) {
    uint32_t words[8], once[7];
    Granule found;
#pragma unroll
    for (int i = 0; i < 8; ++i) words[i] = i < 4 ? first.word[i] : next.word[i - 4];
#pragma unroll
    for (int i = 0; i < 7; ++i) once[i] = late & 4 ? words[i + 1] : words[i];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        uint32_t const low = late & 8 ? once[i + 2] : once[i], high = late & 8 ? once[i + 3] : once[i + 1];
        found.word[i] = __funnelshift_r(low, high, late % 4 * 8);
    }
    return found;
}

CUTLASS_DEVICE void store_granule(unsigned long long to, Granule const &one) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(one.word[0]), "r"(one.word[1]),
                 "r"(one.word[2]), "r"(one.word[3])
                 : "memory");
}

// Stores one element of C, of those in shared memory.
CUTLASS_DEVICE void store_element(unsigned long long to, uint32_t from) {
    if constexpr (sizeof(plan::Result) == 2) {
        asm volatile("{ .reg .b16 h; ld.shared.b16 h, [%1]; st.global.b16 [%0], h; }" ::"l"(to), "r"(from) : "memory");
    } else if constexpr (sizeof(plan::Result) == 1) {
        asm volatile("{ .reg .b16 h; ld.shared.b8 h, [%1]; st.global.b8 [%0], h; }" ::"l"(to), "r"(from) : "memory");
    } else {
        asm volatile("{ .reg .b32 h; ld.shared.b32 h, [%1]; st.global.b32 [%0], h; }" ::"l"(to), "r"(from) : "memory");
    }
}

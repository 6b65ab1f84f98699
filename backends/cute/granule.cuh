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

// Lays a pair of elements of C down, which are words of their own, halves of the first one, or bytes of it.
CUTLASS_DEVICE void lay_pair(uint32_t to, uint32_t first, uint32_t second) {
    if constexpr (sizeof(plan::Result) == 1) {
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "r"(first) : "memory");
    } else if constexpr (sizeof(plan::Result) == 2) {
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(first) : "memory");
    } else {
        asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(first), "r"(second) : "memory");
    }
}

// An element of C, from shared memory.
CUTLASS_DEVICE uint32_t element_at(uint32_t from) {
    uint32_t found;
    if constexpr (sizeof(plan::Result) == 1) {
        asm volatile("ld.shared.u8 %0, [%1];" : "=r"(found) : "r"(from));
    } else if constexpr (sizeof(plan::Result) == 2) {
        asm volatile("ld.shared.u16 %0, [%1];" : "=r"(found) : "r"(from));
    } else {
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(found) : "r"(from));
    }
    return found;
}

CUTLASS_DEVICE void store_element(unsigned long long to, uint32_t one) {
    if constexpr (sizeof(plan::Result) == 1) {
        asm volatile("st.global.u8 [%0], %1;" ::"l"(to), "r"(one) : "memory");
    } else if constexpr (sizeof(plan::Result) == 2) {
        asm volatile("st.global.u16 [%0], %1;" ::"l"(to), "r"(one) : "memory");
    } else {
        asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(one) : "memory");
    }
}

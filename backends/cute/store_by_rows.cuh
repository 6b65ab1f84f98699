// Rows of C at any address: whole granules first, then both ends of each row, whose granules belong to neighbours as
// well, element by element: those of an end at once, since L2 counts writes by sectors.
template <int part, int buffer>
CUTLASS_DEVICE void read_c(Cta const &cta, Held const &held, int group, int warp, int lane) {
    uint32_t const staged = shared_address(buffer_of(cta, group, warp, buffer));
    Rows const rows = rows_of(cta, held.tile, first_row<part>(group, warp) + 8 * (part % plan::parts));
    int const count = min(rows.count, 8);
    __syncwarp();
    constexpr int turns = 8 / rows_at_once * row_spans, together = turns < at_once ? turns : at_once;
#pragma unroll 1
    for (int begin = 0; begin < turns; begin += together) {
        Granule found[together];
        unsigned long long to[together];
#pragma unroll
        for (int n = 0; n < together; ++n) {
            int const row = (begin + n) / row_spans * rows_at_once + lane / row_lanes;
            int const span = (begin + n) % row_spans, head = rows.head(row);
            int const at = (span * row_lanes + lane % row_lanes + (head > 0)) * granule;  // from the row's first granule
            bool const whole = row < count && at + granule <= head + rows.bytes;
            to[n] = whole ? rows.start + row * rows.step - head + at : 0;
            if (whole) found[n] = granule_at(staged + row * store_pitch + at);
        }
#pragma unroll
        for (int n = 0; n < together; ++n) {
            if (to[n]) store_granule(to[n], found[n]);
        }
    }
    constexpr int elements = granule / result_bytes;
    int const late = lane / elements % 2, element = lane % elements * result_bytes;
#pragma unroll 2
    for (int row = lane / (2 * elements); row < 8; row += warp_lanes / (2 * elements)) {
        int const head = rows.head(row), end = head + rows.bytes;
        int const front = head ? min(granule, end) : 0, back = max(end / granule * granule, front);
        int const at = (late ? back : 0) + element;
        if (row < count && at >= head && at < (late ? end : front)) {
            store_element(rows.start + row * rows.step - head + at, staged + row * store_pitch + at);
        }
    }
}

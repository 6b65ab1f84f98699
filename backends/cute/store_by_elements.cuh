// Elements of C of which none lie side by side: lanes store those of a row, each where it belongs.
template <int part, int buffer>
CUTLASS_DEVICE void read_c(Cta const &cta, Held const &held, int group, int warp, int lane) {
    uint32_t const staged = shared_address(buffer_of(cta, group, warp, buffer));
    Rows const rows = rows_of(cta, held.tile, first_row<part>(group, warp) + 8 * (part % plan::parts));
    long long const apart = cta.sizes.c_steps[plan::batch] * result_bytes;
    unsigned long long const start = rows.start + held.tile.n * (apart - result_bytes);
    int const count = min(rows.count, 8);
    __syncwarp();
#pragma unroll 1
    for (int row = 0; row < count; ++row) {
        uint32_t const from = staged + laid_at(row, int(rows.at(row)));
#pragma unroll 1
        for (int column = lane; column * result_bytes < rows.bytes; column += warp_lanes) {
            store_element(start + row * rows.step + column * apart, element_at(from + column * result_bytes));
        }
    }
}

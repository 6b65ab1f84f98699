// Whole sectors of rows of C, of tiles that lap over the next one: granule by granule, and where C's rows begin and end
// element by element.

constexpr int sector = plan::lap * result_bytes, own_bytes = (plan::tile_n - plan::lap) * result_bytes;

// Where in rows, from each one's first granule on, what a tile stores begins and ends.
struct Own {
    Rows rows;
    bool late, early;  // whether rows begin before the tile, and end behind what is its own
    CUTLASS_DEVICE int at(int row) const { return static_cast<int>(rows.start + row * rows.step); }
    CUTLASS_DEVICE int first(int row) const { return rows.head(row) + (late ? -at(row) & (sector - 1) : 0); }
    CUTLASS_DEVICE int last(int row) const {
        return rows.head(row) + (early ? own_bytes + (-(at(row) + own_bytes) & (sector - 1)) : rows.bytes);
    }
};

template <int part, int buffer>
CUTLASS_DEVICE void read_c(Cta const &cta, Held const &held, int group, int warp, int lane) {
    uint32_t const staged = shared_address(buffer_of(cta, group, warp, buffer));
    Tile const &tile = held.tile;
    Own const own{rows_of(cta, tile, first_row<part>(group, warp) + 8 * (part % plan::parts)), tile.n > 0,
                  tile.n + plan::tile_n < cta.sizes.n};
    bool const idle = tile.n > 0 && tile.n + plan::lap >= cta.sizes.n;  // the tile before has all columns
    int const count = idle ? 0 : min(own.rows.count, 8);
    __syncwarp();
    constexpr int turns = 8 / rows_at_once * row_spans, together = turns < at_once ? turns : at_once;
#pragma unroll 1
    for (int begin = 0; begin < turns; begin += together) {
        Granule found[together];
        unsigned long long to[together];
#pragma unroll
        for (int n = 0; n < together; ++n) {
            int const row = (begin + n) / row_spans * rows_at_once + lane / row_lanes, span = (begin + n) % row_spans;
            int const skipped = (own.first(row) + granule - 1) / granule;
            int const at = (span * row_lanes + lane % row_lanes + skipped) * granule;  // from the row's first granule
            bool const whole = row < count && at + granule <= own.last(row);
            to[n] = whole ? own.rows.start + row * own.rows.step - own.rows.head(row) + at : 0;
            if (whole) found[n] = granule_at(staged + row * store_pitch + at);
        }
#pragma unroll
        for (int n = 0; n < together; ++n) {
            if (to[n]) store_granule(to[n], found[n]);
        }
    }
    if (own.late && own.early) return;
    constexpr int elements = granule / result_bytes;
    int const behind = lane / elements % 2, element = lane % elements * result_bytes;
#pragma unroll 2
    for (int row = lane / (2 * elements); row < 8; row += warp_lanes / (2 * elements)) {
        int const begin = own.first(row), end = own.last(row), base = begin / granule * granule;
        int const front = begin % granule ? min(base + granule, end) : base, back = max(end / granule * granule, front);
        int const at = (behind ? back : base) + element;
        if (row < count && at >= begin && at < (behind ? end : front)) {
            unsigned long long const to = own.rows.start + row * own.rows.step - own.rows.head(row) + at;
            store_element(to, staged + row * store_pitch + at);
        }
    }
}

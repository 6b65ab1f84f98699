// Rows of C at any address. Their granules leave whole, eight lanes to a row; both ends of each row, whose granules
// belong to neighbours as well, leave from registers, but the end of C's columns, which is anywhere in them. Tiles that
// lap over the next one store whole sectors alone, and ends where C's rows begin and end.

constexpr int row_lanes = 8, rows_at_once = warp_lanes / row_lanes, row_bytes = row_lanes * granule;
// From the beginning of a sector on, since L2 counts writes by sectors; that may be one granule more.
constexpr int sector = 32, whole_granules = row_granules + (plan::lap ? 0 : 1);
constexpr int row_spans = (whole_granules + row_lanes - 1) / row_lanes;  // granules of a row that a lane has
constexpr int at_once = row_spans < 4 ? row_spans : 4;                     // such granules that are on their way
constexpr int turns = plan::rows_together ? 8 / rows_at_once : 1;          // of lanes, through the rows of a part
constexpr int tile_bytes = plan::tile_n * result_bytes, own_bytes = tile_bytes - plan::lap * result_bytes;
constexpr int granule_eights = result_bytes == 1 ? 2 : 1;  // of columns, that hold a granule
static_assert(tile_bytes >= granule, "ends of rows lie in their first and last granule");

// Of rows what a tile stores, in bytes from where each begins in it, by its address.
struct Own {
    int count, bytes;  // of rows, of the eight of a part, and of a row in this tile
    bool late, early;  // whether rows begin before the tile, and end behind what is its own
    CUTLASS_DEVICE int first(int at) const {
        return late ? -at & (sector - 1) : plan::lap ? -at & (granule - 1) : -(at & (sector - 1));
    }
    CUTLASS_DEVICE int last(int at) const { return early ? own_bytes + (-(at + own_bytes) & (sector - 1)) : bytes; }
};

// A granule that lies so many bytes late in shared memory, where the next element follows.
CUTLASS_DEVICE void advance(Granule &one, uint32_t next, int late) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        uint32_t const low = one.word[i], high = i < 3 ? one.word[i + 1] : next;
        one.word[i] = result_bytes < 4 ? __funnelshift_r(low, high, 8 * late) : late ? high : low;
    }
}

// Granules of a row that a lane brings, which begin in shared memory and in C where they do in the row.
struct Span {
    int first, most, late;
    uint32_t from;
    unsigned long long to;
    Span() = default;
    CUTLASS_DEVICE Span(Rows const &rows, Own const &own, uint32_t staged, int row, int lane) {
        unsigned long long const start = rows.at(row);
        int const at = int(start), last = row < own.count ? own.last(at) : 0;
        late = late_by(at);
        most = max(last - granule, 0);
        first = (last < granule ? -row_spans * row_bytes : own.first(at)) + lane % row_lanes * granule;
        from = staged + laid_at(row, at) - late + first;
        to = start + first;
    }
    CUTLASS_DEVICE bool whole(int span) const {
        return span < row_spans && unsigned(first + span * row_bytes) <= unsigned(most);
    }
};

// The granules of rows that are C's and the tile's alone: with registers to spare, of all eight rows at once.
CUTLASS_DEVICE void store_granules(Rows const &rows, Own const &own, uint32_t staged, int lane) {
#pragma unroll 1
    for (int row = 0; row < (turns > 1 ? 8 : own.count); row += turns * rows_at_once) {
        Span spans[turns];
#pragma unroll
        for (int turn = 0; turn < turns; ++turn) {
            spans[turn] = Span(rows, own, staged, row + turn * rows_at_once + lane / row_lanes, lane);
        }
#pragma unroll
        for (int first = 0; first < row_spans; first += at_once) {
            Granule found[turns * at_once];
            uint32_t next[turns * at_once];
#pragma unroll
            for (int i = 0; i < turns * at_once; ++i) {
                Span const &of = spans[i / at_once];
                int const span = first + i % at_once;
                if (of.whole(span)) found[i] = granule_at(of.from + span * row_bytes);
                if (of.whole(span) & of.late > 0) next[i] = element_at(of.from + span * row_bytes + granule);
            }
#pragma unroll
            for (int i = 0; i < turns * at_once; ++i) {
                Span const &of = spans[i / at_once];
                int const span = first + i % at_once;
                advance(found[i], next[i], of.late);
                if (of.whole(span)) store_granule(of.to + span * row_bytes, found[i]);
            }
        }
    }
}

// Of the elements of a granule, the last ones before a column, those between two, of the row that a lane has a part of.
template <int half, int before>
CUTLASS_DEVICE void store_end(Kept const &kept, unsigned long long start, int begin, int end, int lane) {
    constexpr int first = before / 8 - granule_eights;
#pragma unroll
    for (int i = 0; i < 2 * granule_eights; ++i) {
        int const element = (first + i / 2) * 8 + lane % 4 * 2 + i % 2;
        if (element >= begin & element < end) {
            store_element(start + element * result_bytes, kept_element(kept, first + i / 2, half, i % 2));
        }
    }
}

// Both ends of rows, whose granules belong to neighbours as well.
template <int half>
CUTLASS_DEVICE void store_ends(Rows const &rows, Own const &own, Kept const &kept, uint32_t staged, int lane) {
    constexpr int whole = granule / result_bytes;  // elements of a granule
    int const mine = lane / 4, elements = mine < own.count ? own.bytes / result_bytes : 0;
    unsigned long long const start = rows.at(mine);
    int const at = int(start) / result_bytes, ahead = -at & (whole - 1), behind = at + elements & (whole - 1);
    if (!own.late) store_end<half, 8 * granule_eights>(kept, start, 0, min(ahead, elements), lane);
    if (own.early) return;
    if (own.bytes == tile_bytes) return store_end<half, plan::tile_n>(kept, start, elements - behind, elements, lane);
#pragma unroll 1
    for (int row = lane / whole; row < own.count; row += warp_lanes / whole) {
        unsigned long long const begin = rows.at(row);
        int const ends = own.bytes - (int(begin) + own.bytes & (granule - 1));  // where its last granule begins
        int const from = max(ends, -int(begin) & (granule - 1)) + lane % whole * result_bytes;
        if (from < own.bytes) store_element(begin + from, element_at(staged + laid_at(row, int(begin)) + from));
    }
}

template <int part, int buffer>
CUTLASS_DEVICE void read_c(Cta const &cta, Held const &held, int group, int warp, int lane) {
    constexpr int half = part % plan::parts;
    uint32_t const staged = shared_address(buffer_of(cta, group, warp, buffer));
    Tile const &tile = held.tile;
    Rows const rows = rows_of(cta, tile, first_row<part>(group, warp) + 8 * half);
    bool const late = plan::lap && tile.n > 0, early = plan::lap && tile.n + plan::tile_n < cta.sizes.n;
    bool const idle = late && tile.n + plan::lap >= cta.sizes.n;  // the tile before has all columns
    Own const own{idle ? 0 : min(rows.count, 8), rows.bytes, late, early};
    __syncwarp();
    store_granules(rows, own, staged, lane);
    if (!late || !early) store_ends<half>(rows, own, held.kept[part / plan::parts], staged, lane);
}

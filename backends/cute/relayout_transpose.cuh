// Relayouts whose fastest axes differ: tiles through shared memory.
//
// A tile's rows run along i, in which the source is contiguous, and its lines along j, in which the target is. Either
// may be several axes. Whole granules of the source's rows are copied as they lie, whatever a row's alignment; what a
// granule of the target is made of is then picked out of them element by element. What a block stores of a line begins
// where a sector does, so that lines begin at different j, up to `reach` before the block's first: no sector is written
// in parts but those at a line's ends.
//
// Where whole lines fit into a tile and follow each other in the target, what a block stores is one run, which has no
// ends within.
#ifndef LEGALSAT_RELAYOUT_TRANSPOSE
#define LEGALSAT_RELAYOUT_TRANSPOSE
namespace relayout {

constexpr int columns = 8;  // lanes of a warp that store granules next to each other: a line of the cache

template <int axes_i, int axes_j, int axes>
struct Transpose {
    u64 source, target;
    u32 along_i, along_j;  // extents
    Divisor tiles_j, tiles_i;
    Axis i[axes_i], j[axes_j];
    Axis axis[axes ? axes : 1];
};

// Reads element k of a granule.
template <int element>
__device__ inline void read_element(u32 at, Granule &into, int k) {
    u32 low = 0, high = 0;
    if constexpr (element == granule) {
        into = read_shared_granule(at);
    } else {
        read_shared<element>(at, low, high);
        int const word = k * element / 4, bits = k * element % 4 * 8;
        into.word[word] = bits ? into.word[word] | low << bits : low;
        if (element == 8) into.word[word + (element == 8)] = high;
    }
}

// A granule whose word 0 becomes word `by`, and so on around.
__device__ inline Granule turned(Granule const &value, int by) {
    u32 const *const in = value.word;
    bool const one = by & 1, two = by & 2;
    u32 const a = one ? in[3] : in[0], b = one ? in[0] : in[1], c = one ? in[1] : in[2], d = one ? in[2] : in[3];
    return {two ? c : a, two ? d : b, two ? a : c, two ? b : d};
}

template <int element, int row_granules, int tile_j, bool straddles, bool skewed>
struct Tile {
    static constexpr int per_granule = granule / element;
    static constexpr int tile_i = (row_granules - straddles) * per_granule;
    static constexpr int reach = skewed ? sector / element : 0;
    static constexpr int rows = reach + tile_j;
    static constexpr int spread = per_granule > 1 ? 1 : 0;       // a granule between groups of rows keeps banks apart
    static constexpr int pitch = (row_granules + 1 - spread) * granule;
    static constexpr int group_bytes = per_granule * pitch + spread * granule;
    static constexpr int bytes = rows / per_granule * group_bytes;
    static constexpr int column_step = columns * per_granule;    // elements along j that are stored at once
    static constexpr int column_steps = tile_j / column_step;
    static constexpr int more_steps = (reach + column_step - 1) / column_step;  // of the last tile, which reaches ahead
    static constexpr int lines = threads / columns;              // of i that are stored at once
    static constexpr int line_steps = (tile_i + lines - 1) / lines;
    static constexpr int rows_at_once = threads / row_granules;  // that are loaded
    static_assert(tile_j % column_step == 0 && threads % row_granules == 0);

    // Where a row's entry in a table is: one word in `per_granule` is left out, which keeps banks apart.
    __device__ static u32 entry(u32 r) { return (r + r / per_granule) * 4; }

    // Of a multiple of a group's rows, or of the rows loaded at once, and the rest, the sum is the row's.
    __device__ static int row(int r) { return r * pitch + r / per_granule * (spread * granule); }
};

// Once the copies are issued, `arrive` waits for those of all threads: the program's operations, not the leaf's.
template <int element, int row_granules, int tile_j, int axes_i, int axes_j, int axes, bool straddles, bool skewed,
          bool joins, bool turns, typename Arrive>
__device__ inline void turn_tile(Transpose<axes_i, axes_j, axes> const &problem, Arrive const &arrive) {
    using Shape = Tile<element, row_granules, tile_j, straddles, skewed>;
    constexpr int per_granule = Shape::per_granule;
    constexpr bool tabled = axes_j > 1 || axes_i > 1 || joins;  // where rows begin in a granule is no pattern then
    u32 const by_j = problem.tiles_j.quotient(block()), j_tile = block() - by_j * problem.tiles_j.number;
    u32 const batch = problem.tiles_i.quotient(by_j), i_tile = by_j - batch * problem.tiles_i.number;
    Offsets const at = offsets_of<axes>(batch, problem.axis);
    u32 const first_i = i_tile * Shape::tile_i;
    int const lines = smaller<u32>(Shape::tile_i, problem.along_i - first_i);
    int const along_j = problem.along_j, first_j = j_tile * tile_j, before_j = first_j - Shape::reach;
    u64 const source = problem.source + at.source + static_cast<u64>(first_i) * element;
    u32 const memory = shared_memory(), places = memory + Shape::bytes;

    // Where lines follow each other the table goes on with the next one, and begins with places that nobody asks for.
    constexpr int ahead = joins ? per_granule : 0;
    auto const read_place = [&](int row) {
        u32 found, none;
        read_shared<4>(places + Shape::entry(row + ahead), found, none);
        return found;
    };

    {
        int const of_row = thread() % row_granules, line = thread() / row_granules;
        int const end = lines * element - of_row * granule;  // a row's, seen from this granule
        u32 const to = memory + Shape::row(line) + of_row * granule;
        u64 next = source + static_cast<i64>(before_j + line) * problem.j[0].source;
        u64 const step = Shape::rows_at_once * problem.j[0].source;
#pragma unroll
        for (int r = 0; r < Shape::rows; r += Shape::rows_at_once) {
            int const j = before_j + line + r;
            bool const wanted = Shape::rows % Shape::rows_at_once == 0 || line + r < Shape::rows;
            bool const exists = wanted && static_cast<u32>(j) < problem.along_j;
            u64 const start = axes_j == 1 ? next : source + offsets_of<axes_j>(exists ? j : 0, problem.j).source;
            int const shift = straddles ? static_cast<u32>(start) % granule : 0;
            if (exists && end + shift > 0) copy_async(to + Shape::row(r), start - shift + of_row * granule);
            next += step;
        }
    }
    for (int r = thread(); tabled && r < Shape::rows; r += threads) {
        int const j = before_j + r;
        if (static_cast<u32>(j) >= problem.along_j) continue;
        u32 const start = static_cast<u32>(source + offsets_of<axes_j>(j, problem.j).source);
        u32 const place = memory + Shape::row(r) + (straddles ? start % granule : 0);
        write_shared(places + Shape::entry(r + ahead), place);
        if (joins && r < per_granule) {
            write_shared(places + Shape::entry(r), memory);
            write_shared(places + Shape::entry(along_j + r + ahead), place + element);
        }
    }

    if constexpr (joins) {
        // The lanes that store a line of the cache lie next to each other; others of a warp far apart, where they hit
        // other banks.
        constexpr int at_once = threads / warp, of_warp = warp / columns;
        u64 const run = problem.target + at.target + static_cast<u64>(first_i) * problem.i[0].target;
        int const length = lines * along_j, back = static_cast<u32>(run) % (columns * granule) / element;
        int const windows = (length + back) / Shape::column_step + 1;  // lines of the cache
        int const apart = (windows + of_warp - 1) / of_warp;
        arrive();
        for (int w = thread() / warp; w < apart; w += at_once) {
            int const window = w + thread() % warp / columns * apart;
            int const from = (window * columns + static_cast<int>(thread()) % columns) * per_granule - back;
            if (from <= -per_granule || from >= length) continue;
            int const of_line = problem.j[0].extent.quotient(larger(from, 0)), j = from - of_line * along_j;
            Granule found;
#pragma unroll
            for (int k = 0; k < per_granule; ++k) {
                read_element<element>(read_place(j + k) + of_line * element, found, k);
            }
            store_part<element>(run + static_cast<i64>(from) * element, found, -from * element,
                                (length - from) * element);
        }
        return;
    }

    int const column = thread() % columns, line = thread() / columns;
    u64 to = 0;
    int first = 0;  // j of this thread's first element
    u32 place[per_granule];
    // Lines that read the same word of a granule, each of another row, begin at different elements instead.
    int const turn = turns ? line % (element == 8 ? 2 : 4) * (element < 4 ? 4 / element : 1) : 0;
    auto const begin_line = [&](int of_tile) {
        u32 const i = first_i + of_tile;
        to = problem.target + at.target + static_cast<u64>(first_j) * element +
             (axes_i == 1 ? static_cast<i64>(i) * problem.i[0].target : offsets_of<axes_i>(i, problem.i).target);
        int const back = skewed ? static_cast<u32>(to) % sector / element : 0;
        first = first_j - back + column * per_granule;
        to += (column * per_granule - back) * element;
    };
    begin_line(line);
    if (!tabled) {
        u32 const pitch = problem.j[0].source;
#pragma unroll
        for (int k = 0; k < per_granule; ++k) {
            int const j = first + (k + turn) % per_granule;
            place[k] = memory + Shape::row(j - before_j) + line * element;
            if (straddles) place[k] += (static_cast<u32>(source) + j * pitch) % granule;
            keep(place[k]);
        }
    }
    auto const find_places = [&](int j) {  // from the table
#pragma unroll
        for (int k = 0; k < per_granule; ++k) {
            int const wanted = j + (k + turn) % per_granule;
            bool const exists = static_cast<u32>(wanted) < problem.along_j;  // others have no entry
            place[k] = exists ? read_place(wanted - before_j) : memory;
        }
    };
    auto const next_places = [&] {  // those behind the tile's end hold nothing that is stored
        u32 const end = memory + Shape::bytes;
#pragma unroll
        for (int k = 0; k < per_granule; ++k) {
            place[k] += columns * Shape::group_bytes;
            if (place[k] >= end) place[k] -= Shape::bytes;
        }
    };
    auto const gather = [&](int n) {
        Granule found;
#pragma unroll
        for (int k = 0; k < per_granule; ++k) {
            u32 const further = (n * Shape::lines + (tabled ? line : 0)) * element;
            read_element<element>(place[k] + further, found, k);
        }
        return turns ? turned(found, turn * element / 4) : found;
    };

    u64 const line_step = Shape::lines * problem.i[0].target;
    int const steps = Shape::column_steps + (first_j + tile_j >= along_j ? Shape::more_steps : 0);
    arrive();
    // Lines of one axis begin alike modulo a sector, and are taken together; others one by one.
#pragma unroll 1
    for (int m = 0; m < (axes_i == 1 ? 1 : Shape::line_steps) && line + m * Shape::lines < lines; ++m) {
        if (axes_i > 1) begin_line(line + m * Shape::lines);
#pragma unroll 1
        for (int step = 0; step < steps; ++step) {
            int const j = first + step * Shape::column_step;
            u64 address = to + static_cast<i64>(step) * (columns * granule);
            if (tabled) find_places(j);
            if (j >= 0 && j <= along_j - per_granule) {
#pragma unroll
                for (int n = 0; n < (axes_i == 1 ? Shape::line_steps : 1); ++n) {
                    if (axes_i > 1 || line + n * Shape::lines < lines) store(address, gather(n + m));
                    address += line_step;
                }
            } else if (j > -per_granule && j < along_j) {
#pragma unroll 1
                for (int n = 0; n < (axes_i == 1 ? Shape::line_steps : 1); ++n) {
                    if (axes_i == 1 && line + n * Shape::lines >= lines) break;
                    store_part<element>(address, gather(n + m), -j * element, (along_j - j) * element);
                    address += line_step;
                }
            }
            if (!tabled) next_places();
        }
    }
}

}  // namespace relayout
#endif

// Relayouts whose fastest axes differ: tiles through shared memory.
//
// A tile's rows run along i, in which the source is contiguous, and its lines along j, in which the target is. Either
// may be several axes. Whole granules of the source's rows are copied as they lie, whatever a row's alignment; what a
// granule of the target is made of is then picked out of them element by element. What a block stores of a line begins
// where the target's address is a multiple of `window_bytes`, so that lines begin at different j, up to `reach` before
// the block's first: no sector is written in parts but those at a line's ends.
#ifndef LEGALSAT_RELAYOUT_TRANSPOSE
#define LEGALSAT_RELAYOUT_TRANSPOSE
namespace relayout {

template <int axes_i, int axes_j, int axes>
struct Transpose {
    u64 source, target;
    u32 along_i, along_j;  // extents
    u32 tiles_i;           // tiles along i; a group may have more
    Divisor group;         // tiles along i that neighbours in time share
    Divisor tiles_j;       // tiles along j
    Divisor groups;        // groups along i
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

// A tile: `row_granules` of each row, which may begin inside its first if rows straddle granules.
template <int element, int row_granules, int tile_j, bool straddles, bool reaches>
struct Tile {
    static constexpr int per_granule = granule / element;
    static constexpr int tile_i = (row_granules - straddles) * per_granule;
    static constexpr int window_bytes = 32;                      // a sector
    static constexpr int reach = reaches ? window_bytes / element : 0;
    static constexpr int rows = tile_j + reach;
    static constexpr int spread = per_granule > 1 ? 1 : 0;       // a granule between groups of rows keeps banks apart
    static constexpr int pitch = (row_granules + 1 - spread) * granule;
    static constexpr int group_bytes = per_granule * pitch + spread * granule;
    static constexpr int bytes = rows / per_granule * group_bytes;
    static constexpr int columns = 8;                            // lanes along j: 128 bytes of the target
    static constexpr int lines = threads / columns;              // of i that are stored at once
    static constexpr int column_steps = tile_j / (columns * per_granule);
    static constexpr int line_steps = (tile_i + lines - 1) / lines;
    static constexpr int rows_at_once = threads / row_granules;  // that are loaded
    static constexpr int row_steps = (rows + rows_at_once - 1) / rows_at_once;
    static_assert(tile_j % (columns * per_granule) == 0 && threads % row_granules == 0);
    static_assert(rows_at_once % per_granule == 0, "a thread's rows lie equally far apart");

    __device__ static int row(int r) { return r * pitch + r / per_granule * (spread * granule); }
};

template <int element, int row_granules, int tile_j, int axes_i, int axes_j, int axes, bool straddles, bool reaches,
          bool turns, bool streaming>
__device__ inline void move_transposed(Transpose<axes_i, axes_j, axes> const &problem) {
    using Shape = Tile<element, row_granules, tile_j, straddles, reaches>;
    constexpr int per_granule = Shape::per_granule;
    constexpr bool tabled = axes_j > 1 || axes_i > 1;  // where rows begin in a granule is no pattern that repeats
    launch_dependents();
    u32 const index = block();
    u32 const by_group = problem.group.quotient(index), in_group = index - by_group * problem.group.number;
    u32 const by_tile = problem.tiles_j.quotient(by_group), tile = by_group - by_tile * problem.tiles_j.number;
    u32 const batch = problem.groups.quotient(by_tile), group = by_tile - batch * problem.groups.number;
    u32 const i_tile = group * problem.group.number + in_group;
    if (i_tile >= problem.tiles_i) return;

    Offsets const at = offsets_of<axes>(batch, problem.axis);
    u32 const first_i = i_tile * Shape::tile_i;
    int const lines = smaller<u32>(Shape::tile_i, problem.along_i - first_i);
    int const along_j = problem.along_j, first_j = tile * tile_j, first_row = first_j - Shape::reach;
    u64 const source = problem.source + at.source + static_cast<u64>(first_i) * element;
    u32 const memory = shared_memory(), places = memory + Shape::bytes;

    {
        int const column = thread() % row_granules, line = thread() / row_granules;
        int const end = lines * element - column * granule;  // a row's, seen from this column
        u32 const to = memory + Shape::row(line) + column * granule;
        u64 next = source + static_cast<i64>(first_row + line) * problem.j[0].source;
        u64 const step = Shape::rows_at_once * problem.j[0].source;
#pragma unroll
        for (int n = 0; n < Shape::row_steps; ++n) {
            int const r = line + n * Shape::rows_at_once, j = first_row + r;
            bool const in_tile = Shape::rows % Shape::rows_at_once == 0 || r < Shape::rows;
            bool const exists = in_tile && static_cast<u32>(j) < problem.along_j;
            u64 const start = axes_j == 1 ? next : source + offsets_of<axes_j>(exists ? j : 0, problem.j).source;
            int const shift = straddles ? static_cast<u32>(start) % granule : 0;
            if (exists && end + shift > 0) {
                copy_async(to + n * (Shape::rows_at_once / per_granule * Shape::group_bytes),
                           start - shift + column * granule);
            }
            if (tabled && column == 0 && in_tile) write_shared(places + r * 4, memory + Shape::row(r) + shift);
            next += step;
        }
        commit_copies();
    }

    int const column = thread() % Shape::columns, line = thread() / Shape::columns;
    u64 to = 0;
    int first = 0;  // j of this thread's first element
    u32 place[per_granule];
    // Lines that read the same word of a granule, each of another row, begin at different elements instead.
    int const turn = turns ? line % (element == 8 ? 2 : 4) * (element < 4 ? 4 / element : 1) : 0;
    auto const begin_line = [&](int of_tile) {
        u32 const i = first_i + of_tile;
        to = problem.target + at.target + static_cast<u64>(tile) * (tile_j * element) +
             (axes_i == 1 ? static_cast<i64>(i) * problem.i[0].target : offsets_of<axes_i>(i, problem.i).target);
        int const back = reaches ? static_cast<u32>(to) % Shape::window_bytes / element : 0;
        first = first_j - back + column * per_granule;
        to += (column * per_granule - back) * element;
    };
    auto const find_places = [&](int step) {  // from the table
        int const r = first - first_row + step * (Shape::columns * per_granule);
#pragma unroll
        for (int k = 0; k < per_granule; ++k) {
            u32 none;
            read_shared<4>(places + (r + (k + turn) % per_granule) * 4, place[k], none);
        }
    };
    begin_line(line);
    if (!tabled) {
        u32 const pitch = problem.j[0].source;
#pragma unroll
        for (int k = 0; k < per_granule; ++k) {
            int const j = first + (k + turn) % per_granule;
            place[k] = memory + Shape::row(j - first_row) + line * element;
            if (straddles) place[k] += (static_cast<u32>(source) + j * pitch) % granule;
            keep(place[k]);
        }
    }
    wait_copies<0>();
    barrier();

    bool const whole = first_j >= Shape::reach && first_j + tile_j <= along_j;  // no line begins or ends here
    u64 const line_step = Shape::lines * problem.i[0].target;
    auto const gather = [&](int q, int n) {
        Granule found;
        u32 const further = tabled ? (line + n * Shape::lines) * element
                                   : q * Shape::columns * Shape::group_bytes + n * Shape::lines * element;
#pragma unroll
        for (int k = 0; k < per_granule; ++k) read_element<element>(place[k] + further, found, k);
        return turns ? turned(found, turn * element / 4) : found;
    };
    if (whole && axes_i == 1) {
#pragma unroll
        for (int q = 0; q < Shape::column_steps; ++q) {
            if (tabled) find_places(q);
            u64 address = to + q * (Shape::columns * granule);
#pragma unroll
            for (int n = 0; n < Shape::line_steps; ++n) {
                if (line + n * Shape::lines < lines) store<streaming>(address, gather(q, n));
                address += line_step;
            }
        }
        return;
    }
#pragma unroll 1
    for (int n = 0; n < Shape::line_steps && line + n * Shape::lines < lines; ++n) {
        if (axes_i > 1 && n) begin_line(line + n * Shape::lines);
        u64 const address = axes_i > 1 ? to : to + n * line_step;
#pragma unroll 1
        for (int q = 0; q < Shape::column_steps; ++q) {
            int const j = first + q * (Shape::columns * per_granule);
            if (j + per_granule <= 0 || j >= along_j) continue;
            if (tabled) find_places(q);
            store_part<element, streaming>(address + q * (Shape::columns * granule), gather(q, n), -j * element,
                                           (along_j - j) * element);
        }
    }
}

}  // namespace relayout
#endif

// Rows that run along the same axis on both sides, which start anywhere in a granule on either.
//
// Each thread takes a granule of the target, and reads the two of the source that hold what belongs there.
#ifndef LEGALSAT_RELAYOUT_ROWS
#define LEGALSAT_RELAYOUT_ROWS
namespace relayout {

// What is written where the source has nothing: `bytes` of a row, from `head` on, have a source, and its lines begin at
// `first` of each axis and are `lines`.
template <int axes>
struct Filling {
    i64 head, bytes;
    u32 first[axes ? axes : 1], lines[axes ? axes : 1];
    u64 pattern;  // the element, repeated
};

template <int axes>
struct Rows {
    u64 source, target;  // addresses of the first rows
    i64 bytes;           // of a row of the target
    u32 units;           // granules of all rows; of one where blocks take those of one row
    Divisor parts;       // granules of a row, or its blocks
    Axis axis[axes ? axes : 1];
};

// Rows that the target has without gaps make one, its runs. Of the source's rows these are the bytes, and what lies
// between them, modulo 2^32.
struct Joining {
    Divisor bytes;
    u32 gap;
};

// Where a row begins on both sides, and whether the source has it.
struct Line {
    u64 source, target;
    bool inside;
};

template <int axes, bool fills>
__device__ inline Line line_of(u32 row, Rows<axes> const &rows, Filling<axes> const &filling) {
    Line found = {rows.source, rows.target, true};
#pragma unroll
    for (int i = 0; i < axes; ++i) {
        u32 const rest = i + 1 < axes ? rows.axis[i].extent.quotient(row) : 0;
        u32 const of_axis = row - rest * rows.axis[i].extent.number;
        u32 const line = fills ? of_axis - filling.first[i] : of_axis;
        if (fills) found.inside &= line < filling.lines[i];
        found.source += static_cast<u64>(line) * static_cast<u64>(rows.axis[i].source);
        found.target += static_cast<u64>(of_axis) * static_cast<u64>(rows.axis[i].target);
        row = rest;
    }
    return found;
}

// A granule of a row.
struct Part {
    Line line;
    u32 number;
    bool exists;
};

// Returns a thread's granule; if `alone`, all of a block are of one row.
template <bool alone, bool fills, int axes>
__device__ inline Part part_of(Rows<axes> const &rows, Filling<axes> const &filling) {
    u32 const by_row = alone ? rows.parts.quotient(block()) : 0;
    u32 const unit = (block() - by_row * rows.parts.number) * threads + thread();
    u32 const row = alone ? by_row : rows.parts.quotient(unit);
    u32 const number = alone ? unit : unit - row * rows.parts.number;
    return {line_of<axes, fills>(row, rows, filling), number, unit < rows.units};
}

// Two neighbouring granules of the source, and where in them what is wanted begins.
struct Piece {
    Granule low, high;
    u32 shift;
};

// Bytes [shift, shift + 16) of a piece.
template <int element>
__device__ inline Granule realigned(Piece const &piece) {
    u32 words[8];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        words[i] = piece.low.word[i];
        words[i + 4] = piece.high.word[i];
    }
    if (element <= 8) {
#pragma unroll
        for (int i = 0; i < 6; ++i) words[i] = piece.shift & 8 ? words[i + 2] : words[i];
    }
    if (element <= 4) {
#pragma unroll
        for (int i = 0; i < 5; ++i) words[i] = piece.shift & 4 ? words[i + 1] : words[i];
    }
    Granule found;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        found.word[i] = element <= 2 ? shifted(words[i], words[i + 1], piece.shift * 8) : words[i];
    }
    return found;
}

// The first `cut` bytes of one granule, and the bytes behind them of another.
__device__ inline Granule spliced(Granule const &first, int cut, Granule const &second) {
    Granule found;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        u32 const behind = shifted_out(~0u, larger(0, 8 * cut - 32 * i));
        found.word[i] = (first.word[i] & ~behind) | (second.word[i] & behind);
    }
    return found;
}

// A number of bytes, as much of it as a granule can tell apart.
__device__ inline int clipped(i64 bytes) {
    return static_cast<int>(larger<i64>(-granule, smaller<i64>(granule, bytes)));
}

// Stores what of a granule lies in a row of `bytes`, `at` bytes from where that begins.
template <int element, typename Span>
__device__ inline void store_of_row(u64 to, Granule const &value, Span at, Span bytes) {
    if (at >= 0 && at <= bytes - granule) {
        store(to, value);
    } else if (element < granule && at < bytes) {
        store_part<element>(to, value, clipped(-at), clipped(bytes - at));
    }
}

template <int element, int axes, bool alone, bool fills>
__device__ inline void move_rows(Rows<axes> const &rows, Filling<axes> const &filling) {
    Part const part = part_of<alone, fills>(rows, filling);
    if (!part.exists) return;
    u64 const target = part.line.target;
    u32 const before = element < granule ? static_cast<u32>(target) % granule : 0;
    i64 const at = static_cast<i64>(part.number) * granule - before;  // the granule, in bytes from where the row begins
    i64 const bytes = fills ? filling.bytes : rows.bytes, from = fills ? at - filling.head : at;
    bool const reads = part.line.inside;
    Piece piece;
    piece.shift = element < granule ? static_cast<u32>(part.line.source + from) % granule : 0;
    u64 const address = part.line.source + from - piece.shift;
    i64 const begin = from - piece.shift, last = bytes - granule;  // what holds no byte of the row is not read
    piece.low = load_if(reads && begin > -granule && begin < bytes, address);
    piece.high = load_if(piece.shift && reads && begin > -2 * granule && begin < last, address + granule);
    Granule found = realigned<element>(piece);
    if (fills) {
        i64 const start = filling.head - at;
        if (!reads || start > 0 || start + filling.bytes < granule) {
            u32 const low = static_cast<u32>(filling.pattern), high = static_cast<u32>(filling.pattern >> 32);
            Granule const around = {low, high, low, high};
            found = spliced(found, reads ? clipped(start + filling.bytes) : 0, around);
            found = spliced(around, clipped(start), found);
        }
    }
    store_of_row<element>(target + at, found, at, rows.bytes);
}

// A granule of a run holds bytes of one row, or the end of one and the beginning of the next, which lies further off by
// the gap. Runs are shorter than 2^31 bytes, and span less of the source.
template <int element, int axes, bool alone>
__device__ inline void move_joined(Rows<axes> const &rows, Joining const &joining) {
    int const bytes = static_cast<int>(rows.bytes), length = static_cast<int>(joining.bytes.number);
    Part const part = part_of<alone, false>(rows, Filling<axes>{});
    if (!part.exists) return;
    u32 const before = static_cast<u32>(part.line.target) % granule;
    u32 const skew = static_cast<u32>(part.line.source) % granule;
    int const at = static_cast<int>(part.number * granule - before);  // the granule, in bytes from where the run begins
    int const inside = at < bytes ? at : 0;
    u32 const row = joining.bytes.quotient(larger(inside, 0));
    int const cut = smaller<int>(granule, static_cast<int>(row + 1) * length - inside);  // bytes of it of one row
    bool const straddles = cut < granule && inside + cut < bytes;
    // Places in the source are counted from the granule in front of the run, so that none is negative.
    u64 const base = part.line.source - skew - granule;
    u32 const place = granule + skew + inside + row * joining.gap, next = place + joining.gap;
    Piece piece, behind;
    piece.shift = place % granule;
    u64 const from = base + (place - piece.shift);
    piece.low = load_if(place >= granule, from);
    piece.high = load_if(piece.shift + cut > granule, from + granule);
    if (straddles) {
        behind.shift = next % granule;
        u64 const from_next = base + (next - behind.shift);
        behind.low = load_if(behind.shift + cut < granule, from_next);
        behind.high = load_if(behind.shift > 0, from_next + granule);
    }
    Granule found = realigned<element>(piece);
    if (straddles) found = spliced(found, cut, realigned<element>(behind));
    store_of_row<element>(part.line.target + at, found, at, bytes);
}

}  // namespace relayout
#endif

// Rows that run along the same axis on both sides, which start anywhere in a granule on either.
//
// Each thread takes granules of the target, and reads the two of the source that hold what belongs there.
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

// Rows that the target has without gaps make one: the bytes of each, and from one to the next in the source.
struct Joining {
    Divisor bytes;
    i64 step;
};

template <int axes>
struct Rows {
    u64 source, target;  // addresses of the first rows
    i64 bytes;           // of a row of the target
    u32 units;           // granules of all rows
    Divisor granules;    // of a row
    Axis axis[axes ? axes : 1];
};

// Two neighbouring granules of the source, and where in them what is wanted begins.
struct Piece {
    Granule low, high;
    u32 shift;
};

// Reads what of a row's `bytes` lies in the granule from its byte `from` on.
template <int element>
__device__ inline void fetch(Piece &piece, u64 source, i64 from, i64 bytes) {
    piece.shift = element < granule ? static_cast<u32>(source + from) % granule : 0;
    i64 const at = from - piece.shift;
    u64 const limit = bytes + granule - 1;  // a granule is read only if it holds a byte of the row
    piece.low = piece.high = {};
    if (static_cast<u64>(at + granule - 1) < limit) piece.low = load(source + at);
    if (element < granule && piece.shift && static_cast<u64>(at + 2 * granule - 1) < limit) {
        piece.high = load(source + at + granule);
    }
}

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
        found.word[i] = element <= 2 ? shifted(words[i], words[i + 1], piece.shift % 4 * 8) : words[i];
    }
    return found;
}

// The bytes of `value` in [begin, end), and `around` elsewhere.
__device__ inline Granule merged(Granule const &value, int begin, int end, Granule const &around) {
    Granule found;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        int const first = larger(0, smaller(4, begin - 4 * i)), last = larger(0, smaller(4, end - 4 * i));
        u32 const below = first < 4 ? (1u << 8 * first) - 1 : ~0u, under = last < 4 ? (1u << 8 * last) - 1 : ~0u;
        u32 const mask = under & ~below;
        found.word[i] = (value.word[i] & mask) | (around.word[i] & ~mask);
    }
    return found;
}

// A number of bytes, as much of it as a granule can tell apart.
__device__ inline int clipped(i64 bytes) {
    return static_cast<int>(larger<i64>(-granule, smaller<i64>(granule, bytes)));
}

template <int element, int vectors, int axes, bool fills, bool joins, bool streaming>
__device__ inline void move_rows(Rows<axes> const &rows, Filling<axes> const &filling, Joining const &joining) {
    launch_dependents();
    constexpr i64 nothing = 1 - granule;  // bytes of a row that no granule holds any of
    u32 const first = block() * (threads * vectors) + thread();
    Piece piece[vectors], behind[joins ? vectors : 1];
    u64 target[vectors];           // the row's
    i64 at[vectors];               // the granule, in bytes from there
    bool has_source[fills ? vectors : 1];
    int cut[joins ? vectors : 1];  // bytes of the granule that are of one row; what is behind is the next one's
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
        u32 const unit = first + v * threads;
        bool const live = unit < rows.units;
        u32 const row = rows.granules.quotient(live ? unit : 0);
        u32 const part = live ? unit - row * rows.granules.number : 0;
        u64 source = rows.source;
        target[v] = rows.target;
        bool inside = true;
        u32 index = row;
#pragma unroll
        for (int i = 0; i < axes; ++i) {
            u32 const rest = i + 1 < axes ? rows.axis[i].extent.quotient(index) : 0;
            u32 const of_axis = index - rest * rows.axis[i].extent.number;
            u32 const line = fills ? of_axis - filling.first[i] : of_axis;
            if (fills) inside &= line < filling.lines[i];
            source += static_cast<u64>(line) * static_cast<u64>(rows.axis[i].source);
            target[v] += static_cast<u64>(of_axis) * static_cast<u64>(rows.axis[i].target);
            index = rest;
        }
        u32 const before = element < granule ? static_cast<u32>(target[v]) % granule : 0;
        at[v] = static_cast<i64>(part) * granule - before;
        if (fills) {
            has_source[v] = live && inside;
            fetch<element>(piece[v], source, at[v] - filling.head, has_source[v] ? filling.bytes : nothing);
        } else if (joins) {
            u32 const joined = joining.bytes.quotient(at[v] > 0 ? static_cast<u32>(at[v]) : 0);
            i64 const length = joining.bytes.number, from = at[v] - static_cast<i64>(joined) * length;
            source += static_cast<u64>(joined) * static_cast<u64>(joining.step);
            fetch<element>(piece[v], source, from, live ? length : nothing);
            cut[v] = clipped(length - from);
            if (cut[v] < granule && at[v] + cut[v] < rows.bytes) {
                fetch<element>(behind[v], source + joining.step, -cut[v], live ? length : nothing);
            } else {
                cut[v] = granule;
            }
        } else {
            fetch<element>(piece[v], source, at[v], live ? rows.bytes : nothing);
        }
        if (!live) at[v] = rows.bytes;
    }
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
        Granule found = realigned<element>(piece[v]);
        if (joins && cut[v] < granule) found = merged(found, 0, cut[v], realigned<element>(behind[v]));
        if (fills) {
            i64 const start = filling.head - at[v];
            if (!has_source[v] || start > 0 || start + filling.bytes < granule) {
                u32 const low = static_cast<u32>(filling.pattern), high = static_cast<u32>(filling.pattern >> 32);
                int const end = has_source[v] ? clipped(start + filling.bytes) : 0;
                found = merged(found, clipped(start), end, Granule{low, high, low, high});
            }
        }
        u64 const to = target[v] + at[v];
        if (at[v] >= 0 && at[v] + granule <= rows.bytes) {
            store<streaming>(to, found);
        } else if (element < granule && at[v] < rows.bytes) {
            store_part<element, streaming>(to, found, clipped(-at[v]), clipped(rows.bytes - at[v]));
        }
    }
}

}  // namespace relayout
#endif

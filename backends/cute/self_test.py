"""A `main` for a product's file: operands of small whole numbers, and every element of C checked, exactly.

Rows of A that lie a prime number apart hold the same numbers, and so do rows of B, so that few sums on the host say
what every element must be; a tile, a box or a row in another's place shows all the same. Members of a batch, and of
groups of rows, hold the same rows, but begin with others; groups along k have sums of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from legalsat.backends.host.launcher import Launcher
from legalsat.dims import Extent, in_cpp, least_of
from legalsat.operators.gemm import Gemm
from legalsat.runtime.open_program import OpenProgram
from legalsat.runtime.program import Program
from legalsat.tensor import Tensor

TYPES = {
    "bf16": "__nv_bfloat16",
    "fp16": "__half",
    "fp32": "float",
    "tf32": "float",
    "e4m3": "__nv_fp8_e4m3",
    "e5m2": "__nv_fp8_e5m2",
    "i8": "std::int8_t",
    "u8": "std::uint8_t",
    "i32": "std::int32_t",
}
PERIODS = 251, 241
GIVEN = "given_"  # in front of dims, so that one may be called m or rows


def self_test(gemm: Gemm, program: Program | OpenProgram) -> str:
    """Return the text of a main that runs the file's product; of dims, for the extents that it is given."""
    offsets = {one.name: one.tensor.offset for one in program.operands}
    numbers: dict[str, Extent] = {"m": gemm.m, "n": gemm.n, "k": gemm.k}
    for name, tensor in (("a", gemm.a), ("b", gemm.b), ("c", gemm.c)):
        numbers |= {f"{name}_{axis}": step for axis, step in zip("yx", tensor.strides[-2:], strict=True)}
        numbers |= {f"{name}_elements": _elements(tensor), f"{name}_behind": offsets[name]}
    numbers |= {"rows": least_of(gemm.m, PERIODS[0]), "columns": least_of(gemm.n, PERIODS[1]), "guard": 4096}
    scales = list(gemm.others)
    sizes = [f"{GIVEN}{dim.name}" for dim in gemm.dims]
    given = ", ".join(["b", "workspace", *sizes, "nullptr"])
    prepares = Launcher(program).prepares
    prepared = f"    if (int code = prepare({given})) return check::failed(code);\n" * prepares
    texts = {
        "GIVEN": ", ".join(["a", "b", *scales, *gemm.indices, "c", "workspace", *sizes, "nullptr"]),
        "PREPARED": prepared,
        "ENDS": _ENDS if gemm.members.ragged else "",
        "BY_ROWS": str(gemm.scaled == "rows").lower(),
    }
    texts |= {"SIZES": ", ".join(sizes)}
    parts = _PARTLY_SCALED if gemm.scaled in {"rows", "groups"} else _SCALED if gemm.scaled else _UNSCALED
    main = "".join((_BODY, parts, _MAIN))
    texts |= {"PARAMETERS": "int count, char **given" if sizes else "", "EXTENTS": _extents(sizes, numbers)}
    for name, text in texts.items():
        main = main.replace(name, text)
    constants = [f"constexpr long long {name} = {value};" for name, value in numbers.items()]
    if sizes:
        constants = [f"long long {', '.join([*sizes, *numbers])};"]
    head = [f"using Element = {TYPES[gemm.dtype.name]};", f"using Result = {TYPES[gemm.out_dtype.name]};", *constants]
    head += _members(gemm)
    return "\n".join([_INCLUDES, "namespace check {", *head, main])


def _members(gemm: Gemm) -> list[str]:
    """Return what a main must know of a batch, or of groups."""
    members = gemm.members
    axes = max(1, len(members.extents))
    listed = {"extents": members.extents or (1,)}
    listed |= {f"{name.lower()}_steps": members.of(name) or (0,) for name in "ABC"}
    cut = str(members.ragged == "k").lower()
    found = [f"constexpr int axes = {axes}, groups = {members.groups};", f"constexpr bool k_cut = {cut};"]
    return [
        *found,
        *(f"constexpr long long {name}[] = {{{', '.join(map(str, one))}}};" for name, one in listed.items()),
    ]


def _extents(sizes: list[str], numbers: Mapping[str, Extent]) -> str:
    """Return the lines in which a main works its numbers out of the extents that it is given."""
    if not sizes:
        return ""
    lines = [f"if (count != {len(sizes) + 1}) {{"]
    lines += [
        f'    std::printf("usage: %s {" ".join(one.removeprefix(GIVEN) for one in sizes)}\\n", given[0]);',
        "    return 2;",
        "}",
    ]
    lines += [f"{name} = std::atoll(given[{place}]);" for place, name in enumerate(sizes, start=1)]
    lines += [f"{name} = {in_cpp(value, GIVEN)};" for name, value in numbers.items()]
    return "".join(f"    {line}\n" for line in lines)


def _elements(tensor: Tensor) -> Extent:
    return sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True)) + 1


_INCLUDES = "".join(
    f"#include <{name}>\n"
    for name in (
        "cuda_bf16.h",
        "cuda_fp16.h",
        "cuda_fp8.h",
        "cmath",
        "cstdint",
        "cstdio",
        "cstdlib",
        "cstring",
        "type_traits",
        "vector",
    )
)
_BODY = """\

int failed(int code) {
    std::printf("%s\\n", message(code));
    return 1;
}

// What C holds of a sum.
Result stored(float sum) {
    if (std::is_integral<Result>::value && sizeof(Result) == 1) sum = std::fmin(std::fmax(sum, -128.0f), 127.0f);
    return Result(sum);
}

// A whole number from -2 to 2, or to 4 where there are none below 0.
int value(long long row, long long k, unsigned seed) {
    unsigned mixed = static_cast<unsigned>(row) * 0x9e3779b1u ^ static_cast<unsigned>(k) * 0x85ebca6bu ^ seed;
    mixed = (mixed ^ mixed >> 15) * 0xc2b2ae35u;
    mixed = (mixed ^ mixed >> 13) * 0x27d4eb2fu;
    return static_cast<int>((mixed ^ mixed >> 16) % 5) - (std::is_unsigned<Element>::value ? 0 : 2);
}

std::vector<signed char> drawn(long long lines, unsigned seed) {
    std::vector<signed char> found(lines * k);
    for (long long i = 0; i < lines * k; ++i) found[i] = static_cast<signed char>(value(i / k, i % k, seed));
    return found;
}

// How many members a batch has, or groups; elements from the first one to another; and which row that one begins
// with, the same where members share what they read.
long long count() {
    long long found = 1;
    for (long long extent : extents) found *= extent;
    return found;
}
long long reached(long long member, long long const (&steps)[axes]) {
    long long found = 0;
    for (int i = axes - 1; i >= 0; member /= extents[i--]) found += member % extents[i] * steps[i];
    return found;
}
long long first_row(long long member, long long const (&steps)[axes], int prime) {
    long long found = 0;
    for (int i = axes - 1; i >= 0; member /= extents[i--]) {
        if (steps[i]) found += member % extents[i] * (prime + 2 * i);
    }
    return found;
}
// Where a group ends, and whose a row is.
int end_of(int group) { return static_cast<int>((k_cut ? k : m) * (group + 1) / (groups ? groups : 1)); }
int group_of(long long row) {
    int found = 0;
    while (row >= end_of(found)) ++found;
    return found;
}

// An operand's memory, in which the rows of `drawn` repeat.
std::vector<unsigned char> operand(std::vector<signed char> const &drawn, long long period, long long lines,
                                   long long elements, long long pitch, long long step, long long const (&steps)[axes],
                                   int prime) {
    std::vector<unsigned char> bytes(elements * sizeof(Element));
    bool const shared = !reached(count() - 1, steps);  // by all members
    for (long long member = 0; member < (shared ? 1 : count()); ++member) {
        long long const begin = reached(member, steps), first = first_row(member, steps, prime);
        for (long long row = 0; row < lines; ++row) {
            for (long long i = 0; i < k; ++i) {
                Element const one(static_cast<float>(drawn[(row + first) % period * k + i]));
                std::memcpy(bytes.data() + (begin + row * pitch + i * step) * sizeof one, &one, sizeof one);
            }
        }
    }
    return bytes;
}

cudaError_t placed(void **address, void const *bytes, std::size_t size, std::size_t behind) {
    if (cudaError_t const error = cudaMalloc(address, size + behind)) return error;
    *address = static_cast<char *>(*address) + behind;
    return size ? cudaMemcpy(*address, bytes, size, cudaMemcpyHostToDevice) : cudaSuccess;
}
}  // namespace check

int main(PARAMETERS) {
    using namespace check;
EXTENTS    std::vector<signed char> const drawn_a = drawn(rows, 1), drawn_b = drawn(columns, 2);
    std::vector<unsigned char> const of_a = operand(drawn_a, rows, m, a_elements, a_y, a_x, a_steps, 7);
    std::vector<unsigned char> const of_b = operand(drawn_b, columns, n, b_elements, b_y, b_x, b_steps, 11);
    int const cuts = k_cut ? groups : 1;  // of k, each with sums of its own
    std::vector<float> sums(cuts * rows * columns);
"""
_ENDS = """\
    std::vector<int> of_ends;
    for (int group = 0; group < groups; ++group) of_ends.push_back(end_of(group));
    void *ends;
    if (int code = placed(&ends, of_ends.data(), of_ends.size() * sizeof(int), 0)) return failed(code);
"""
_UNSCALED = "    auto const scale = [](long long, long long, long long) { return 1.0f; };\n"
_SCALED = """\
    float const of_scale_a = 0.5f, of_scale_b = 4;
    auto const scale = [&](long long, long long, long long) { return of_scale_a * of_scale_b; };
    void *scale_a, *scale_b;
    if (int code = placed(&scale_a, &of_scale_a, sizeof of_scale_a, 0)) return failed(code);
    if (int code = placed(&scale_b, &of_scale_b, sizeof of_scale_b, 0)) return failed(code);
"""
_PARTLY_SCALED = """\
    // Powers of two, of each row and column, or of each group.
    constexpr bool by_rows_scaled = BY_ROWS;
    auto const power = [](long long i, int prime) { return std::ldexp(1.0f, static_cast<int>(i * prime % 5) - 2); };
    std::vector<float> of_scale_a, of_scale_b;
    long long const whole = by_rows_scaled ? (groups ? m : m * count()) : groups;
    for (long long i = 0; i < whole; ++i) of_scale_a.push_back(power(i, 3));
    for (long long i = 0; i < (by_rows_scaled ? n * count() : groups); ++i) of_scale_b.push_back(power(i, 7));
    auto const scale = [&](long long member, long long row, long long column) {
        if (!by_rows_scaled) return of_scale_a[member] * of_scale_b[member];
        return of_scale_a[groups ? row : member * m + row] * of_scale_b[member * n + column];
    };
    void *scale_a, *scale_b;
    if (int code = placed(&scale_a, of_scale_a.data(), of_scale_a.size() * sizeof(float), 0)) return failed(code);
    if (int code = placed(&scale_b, of_scale_b.data(), of_scale_b.size() * sizeof(float), 0)) return failed(code);
"""
_MAIN = """\
    for (long long cut = 0; cut < cuts; ++cut) {
        long long const first = k_cut && cut ? end_of(cut - 1) : 0, last = k_cut ? end_of(cut) : k;
        for (long long row = 0; row < rows; ++row) {
            for (long long column = 0; column < columns; ++column) {
                long long sum = 0;
                for (long long i = first; i < last; ++i) sum += drawn_a[row * k + i] * drawn_b[column * k + i];
                sums[(cut * rows + row) * columns + column] = static_cast<float>(sum);
            }
        }
    }
    // What C's memory must hold then: the sums, and around and between its rows what was there before.
    std::vector<unsigned char> const before(c_elements * sizeof(Result) + 2 * guard, 0xa5);
    std::vector<unsigned char> expected = before, found = before;
    bool const by_rows = groups && !k_cut;
    for (long long member = 0; member < (by_rows ? 1 : count()); ++member) {
        long long const begin = reached(member, c_steps), first = first_row(member, a_steps, 7);
        for (long long row = 0; row < m; ++row) {
            long long const whose = by_rows ? group_of(row) : member, other = first_row(whose, b_steps, 11);
            float const *own = sums.data() + (k_cut ? member : 0) * rows * columns;
            for (long long column = 0; column < n; ++column) {
                float const sum = own[(row + first) % rows * columns + (column + other) % columns];
                Result const one = stored(sum * scale(whose, row, column));
                long long const at = guard + (begin + row * c_y + column * c_x) * sizeof one;
                std::memcpy(expected.data() + at, &one, sizeof one);
            }
        }
    }
    void *a, *b, *all_of_c, *workspace;
ENDS    if (int code = placed(&a, of_a.data(), of_a.size(), a_behind)) return failed(code);
    if (int code = placed(&b, of_b.data(), of_b.size(), b_behind)) return failed(code);
    if (int code = placed(&all_of_c, nullptr, 0, before.size() + c_behind)) return failed(code);
    all_of_c = static_cast<char *>(all_of_c) - before.size();
    void *const c = static_cast<char *>(all_of_c) + guard;
    if (int code = cudaMalloc(&workspace, workspace_bytes(SIZES) + 256)) return failed(code);
PREPARED    for (int turn = 0; turn < 3; ++turn) {
        if (int code = cudaMemcpy(all_of_c, before.data(), before.size(), cudaMemcpyHostToDevice)) return failed(code);
        if (int code = run(GIVEN)) return failed(code);
        if (int code = cudaDeviceSynchronize()) return failed(code);
        if (int code = cudaMemcpy(found.data(), all_of_c, found.size(), cudaMemcpyDeviceToHost)) return failed(code);
        for (std::size_t i = 0; i < found.size(); ++i) {
            if (found[i] != expected[i]) {
                long long const at = static_cast<long long>(i) - guard;
                std::printf("call %d: byte %lld of C is %d, not %d\\n", turn, at, found[i], expected[i]);
                return 1;
            }
        }
    }
    std::printf("%lld x %lld elements are exact\\n", by_rows ? m : m * count(), n);
    return 0;
}
"""

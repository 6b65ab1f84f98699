"""Do predicted bank wavefronts equal what the GPU counts, on 200 layouts and 400 shared addresses? Two steps.

python -m bench.gpu.chip.banks prepare FOLDER  draw layouts, predict them, compile the program (needs LegalSAT)
python bench/gpu/chip/banks.py run FOLDER      count each launch with ncu, write $OUT/banks.json, else FOLDER/banks.json

Every launch is one warp that does just the accesses of one layout; their addresses come from global memory. The
counters are l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld and _op_st (without a suffix it also counts a wavefront
or two of every launch that are neither, "misc"), and of single wgmma instructions _op_gmma, for which the lines of 128
bytes that they read are predicted.
"""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))  # so that it also runs as a script, without installing
from bench.gpu.machine import machine

SEED, LAYOUTS, SHARED_ADDRESSES = 20250923, 200, 400
SHARED_BYTES = 48 * 1024
WIDTHS = {"u8": 1, "u16": 2, "b32": 4, "b64": 8, "b128": 16}
VECTORS = [f"{way}.{name}" for way in ("ld", "st") for name in WIDTHS]
MATRICES = [f"{way}matrix.x{n}{trans}" for way in ("ld", "st") for n in (1, 2, 4) for trans in ("", ".trans")]
OPS = [*VECTORS, *MATRICES]
SPANS = ("none", "32B", "64B", "128B")
WGMMA_N = (8, 64, 256)
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
COUNTERS = [f"{name}{part}" for name in (WAVEFRONTS, CONFLICTS) for part in ("", "_op_ld", "_op_st")]
MULTIPLY_COUNTERS = [WAVEFRONTS, f"{WAVEFRONTS}_op_gmma", f"{CONFLICTS}_op_gmma"]
# Which loads merge their phases, of which lanes with which share addresses: what the data does not tell apart.
RULES: dict[str, tuple[tuple[int, ...], bool]] = {
    "lanes 1 or 2 apart, all of the warp": ((1, 2), False),
    "lanes 1 apart, all of the warp": ((1,), False),
    "lanes 1 or 2 apart, half by half": ((1, 2), True),
    "lanes 1 apart, half by half": ((1,), True),
    "lanes 1, 2 or 4 apart, all of the warp": ((1, 2, 4), False),
}


# Prepared where LegalSAT is.


def vector_layout(draw: random.Random) -> dict[str, Any]:
    """Draw threads and values over the rows of a tile, by coordinates or along an index that runs over the rows."""
    op = draw.choice([name for name in VECTORS if WIDTHS[name[3:]] >= 4 or draw.random() < 0.4])
    size = WIDTHS[op[3:]]
    element = draw.choice([n for n in (1, 2, 4) if n <= size])
    vector = size // element
    high, wide = draw.choice(((32, 1), (16, 2), (8, 4), (4, 8), (2, 16), (1, 32)))
    warps, values = draw.randint(1, 3), draw.randint(1, 5)
    padding = vector * draw.choice((0, 0, 1, 2, 3, 4, 5))
    if draw.random() < 0.6:
        rows, columns = high * warps, wide * vector * values
        lanes = (high, 1, rows * vector, wide) if draw.random() < 0.5 else (wide, rows * vector, 1, high)
        registers = (
            f"(({lanes[0]},{lanes[3]},{warps}),({vector},{values})):"
            f"(({lanes[1]},{lanes[2]},{high}),({rows},{rows * wide * vector}))"
        )
        shared = f"({rows},{columns}):({columns + padding},1)"
    else:
        step, apart = draw.randint(1, 5) * vector, draw.randint(1, 40) * vector
        end = (32 * warps - 1) * step + (values - 1) * apart + vector
        columns = vector * draw.randint(2, 40)
        rows = -(-end // columns)
        registers = f"({32 * warps},({vector},{values})):({step},(1,{apart}))"
        shared = f"({columns},{rows}):(1,{columns + padding})"
    span = draw.choice(SPANS)
    return {"op": op, "registers": registers, "shared": shared, "element_bits": 8 * element, "swizzle": span}


def matrix_layout(draw: random.Random) -> dict[str, Any]:
    """Draw 8 x 8 matrices of 16-bit elements in a tile, side by side or one below the other."""
    op = draw.choice(MATRICES)
    count = int(op.split(".x")[1][0])
    times, warps = draw.randint(1, 5), draw.randint(1, 3)
    down, along = {1: (1, 1), 2: draw.choice(((1, 2), (2, 1))), 4: draw.choice(((2, 2), (4, 1), (1, 4)))}[count]
    rows, columns = 8 * down * warps, 8 * along * times
    pair, four, eight = (1, 2, rows) if op.endswith("trans") else (rows, 2 * rows, 1)
    registers = (
        f"((4,8,{warps}),(2,{down},{along},{times})):"
        f"(({four},{eight},{8 * down}),({pair},8,{8 * rows},{8 * along * rows}))"
    )
    pitch = columns + 8 * draw.randint(0, 6)
    shared = f"({rows},{columns}):({pitch},1)"
    return {"op": op, "registers": registers, "shared": shared, "element_bits": 16, "swizzle": draw.choice(SPANS)}


def addresses(case: dict[str, Any]) -> list[list[int]]:
    """Return the addresses of every instruction, evaluated one by one; 32 each, those of idle lanes repeated."""
    import legalsat as ls  # noqa: PLC0415 - the GPU's machine has none

    registers, shared = ls.Layout(case["registers"]), ls.Layout(case["shared"])
    bits, swizzle, op = case["element_bits"], ls.Swizzle.tma(case["swizzle"]), case["op"]

    def at(thread: int, value: int) -> int:
        place: int = swizzle(shared(registers(thread, value)) * bits // 8)
        return place

    threads, values = registers[0].size, registers[1].size
    found = []
    for warp in range(0, threads, 32):
        if op in VECTORS:
            per_lane = 8 * WIDTHS[op[3:]] // bits
            found += [[at(warp + lane, v) for lane in range(32)] for v in range(0, values, per_lane)]
            continue
        count = int(op.split(".x")[1][0])
        for value in range(0, values, 2 * count):
            rows = []
            for matrix in range(value, value + 2 * count, 2):
                if op.endswith("trans"):
                    rows += [at(warp + row // 2, matrix + row % 2) for row in range(8)]
                else:
                    rows += [at(warp + 4 * row, matrix) for row in range(8)]
            found.append((rows * 4)[:32])
    return found


def layouts() -> Iterator[dict[str, Any]]:
    """Yield layouts that fit, with their addresses and the prediction."""
    import legalsat as ls  # noqa: PLC0415

    draw, kept = random.Random(SEED), 0
    while kept < LAYOUTS:
        case = matrix_layout(draw) if kept % 5 < 2 else vector_layout(draw)
        table = addresses(case)
        if max(map(max, table)) + 16 > SHARED_BYTES:
            continue
        options = {"element_bits": case["element_bits"], "swizzle": case["swizzle"]}
        found = ls.layout_wavefronts(
            case["op"], ls.Layout(case["registers"]), ls.Layout(case["shared"]), "sm_90a", **options
        )
        assert found.instructions == len(table)
        assert found.total == sum(ls.bank_wavefronts(case["op"], row, "sm_90a") for row in table), case
        kept += 1
        yield {**case, "instructions": len(table), "least": found.least, "predicted": found.total, "table": table}


def sharing(draw: random.Random, units: int) -> tuple[str, list[int]]:
    """Draw addresses, in units of the access, that lanes share; return how, too."""
    pool = [draw.randrange(units) for _ in range(32)]
    dense = [*range(32)]
    source = draw.choice((pool, dense))
    apart, other = draw.choice((1, 2, 2, 4, 8, 16, 3)), draw.choice((1, 2, 4))
    half, by, every = draw.randrange(2), draw.choice((2, 4, 8, 16, 32)), draw.choice((2, 4, 8, 16))
    few = draw.sample(range(units), draw.randint(2, 8))
    paired = [source[min(lane, lane ^ apart)] for lane in range(32)]
    other_paired = [source[min(lane, lane ^ other)] for lane in range(32)]
    off = [*paired]
    off[draw.randrange(32)] = draw.randrange(units)
    ways = {
        f"pairs {apart} apart": paired,
        f"pairs {apart} apart but one lane": off,
        f"pairs {apart} apart in half {half}": [(paired if i // 16 == half else source)[i] for i in range(32)],
        f"pairs {apart} apart, then {other} apart": [(paired if i < 16 else other_paired)[i] for i in range(32)],
        f"{len(few)} addresses": [draw.choice(few) for _ in range(32)],
        f"groups of {by} lanes": [source[lane // by * by] for lane in range(32)],
        f"repeated every {every} lanes": [source[lane % every] for lane in range(32)],
    }
    return draw.choice([*ways.items()])


def by_rule(op: str, lanes: Sequence[int], apart: Sequence[int], by_half: bool) -> int:
    """Return the wavefronts of a load if its phases merged by this rule; lane addresses in units of the access."""
    size = WIDTHS[op[3:]]
    together, banks = 128 // size, 128 // size

    def served(part: Sequence[int]) -> int:
        return max(Counter(unit % banks for unit in set(part)).values())

    def merges(first: int, last: int) -> bool:
        return any(all(lanes[i] == lanes[i ^ d] for i in range(first, last)) for d in apart)

    total = 0
    for first in range(0, 32, 2 * together):
        scope = (first, first + 2 * together) if by_half else (0, 32)
        parts = [lanes[first : first + together], lanes[first + together : first + 2 * together]]
        total += served(lanes[first : first + 2 * together]) if merges(*scope) else sum(map(served, parts))
    return total


def shared_addresses() -> Iterator[dict[str, Any]]:
    """Yield single loads and stores of 64 and 128 bits whose lanes share addresses, with predictions."""
    import legalsat as ls  # noqa: PLC0415

    draw = random.Random(SEED + 1)
    for number in range(SHARED_ADDRESSES):
        op = f"{'st' if number % 10 == 9 else 'ld'}.{draw.choice(('b64', 'b128'))}"
        size = WIDTHS[op[3:]]
        kind, lanes = sharing(draw, 4096 // size)
        table = [size * lane for lane in lanes]
        case = {"op": op, "kind": kind, "predicted": ls.bank_wavefronts(op, table, "sm_90a"), "table": [table]}
        if op.startswith("ld"):
            case["rules"] = {name: by_rule(op, lanes, *rule) for name, rule in RULES.items()}
        yield case


def multiplies() -> list[dict[str, Any]]:
    """Return single wgmma instructions on K-major bf16 tiles, and the lines of 128 bytes that they read."""
    return [
        {"swizzle": span, "n": n, "a": a, "lines_read": (64 * 32 * (a == "shared") + n * 32) // 128}
        for a in ("shared", "registers")
        for span in SPANS
        for n in (WGMMA_N if a == "shared" else (64,))
    ]


def access_text(op: str) -> str:
    """Return the body of one access: address in `at`, value in v0 to v3."""
    kind, name, *trans = op.split(".")
    if kind in {"ld", "st"}:
        count = max(1, WIDTHS[name] // 4)
        form = {1: name if WIDTHS[name] < 4 else "b32", 2: "v2.b32", 4: "v4.b32"}[count]
    else:
        count = int(name[1])
        form = f"sync.aligned.m8n8.{name}{'.trans' if trans else ''}.shared.b16"
    loads = kind in {"ld", "ldmatrix"}
    wide = kind in {"ld", "st"} and WIDTHS[name] >= 4
    narrow = kind in {"ld", "st"} and not wide
    operand = ", ".join(f"%{i + (0 if loads else 1)}" for i in range(count))
    vector = operand if narrow or (count == 1 and wide) else "{" + operand + "}"
    instruction = f"{kind}.shared.{form}" if kind in {"ld", "st"} else f"{kind}.{form}"
    if loads:
        outs = ", ".join(f'"=r"(v{i})' for i in range(count))
        return f'asm volatile("{instruction} {vector}, [%{count}];" : {outs} : "r"(at) : "memory");'
    ins = ", ".join(f'"r"(v{i})' for i in range(count))
    return f'asm volatile("{instruction} [%0], {vector};" :: "r"(at), {ins} : "memory");'


def multiply_text(case: dict[str, Any], number: int) -> str:
    """Return a kernel of one wgmma; tiles lie from the first shared byte and from 16 KiB on, and hold anything."""
    n, span = case["n"], case["swizzle"]
    count = n // 2
    kind = {"none": 0, "128B": 1, "64B": 2, "32B": 3}[span]
    # FACTS WG-12: rows of a span, groups of 8 rows one after the other; without a swizzle two core matrices along K.
    leading, stride = (128, 256) if span == "none" else (16, 8 * int(span[:-1]))
    sums = ", ".join(f"%{i}" for i in range(count))
    outs = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    if case["a"] == "shared":
        a, b, ins, flags = f"%{count}", f"%{count + 1}", '"l"(a), "l"(b)', "p, 1, 1, 0, 0"
    else:
        a = "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}"
        b, ins, flags = f"%{count + 4}", '"r"(r), "r"(r), "r"(r), "r"(r), "l"(b)', "p, 1, 1, 0"
    return f"""
__global__ void __launch_bounds__(128) multiply_{number}(unsigned* sink) {{
    unsigned base = start();
    unsigned long long fields = {leading // 16}ull << 16 | {stride // 16}ull << 32 | {kind}ull << 62;
    unsigned long long a = fields | (base >> 4), b = fields | ((base + 16384) >> 4);
    unsigned r = threadIdx.x;
    float d[{count}];
    for (int i = 0; i < {count}; ++i) d[i] = 0;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{{ .reg .pred p; setp.ne.b32 p, 0, 0; "
                 "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{sums}}}, {a}, {b}, {flags}; }}"
                 : {outs} : {ins} : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    float sum = a == b ? r : 0;
    for (int i = 0; i < {count}; ++i) sum += d[i];
    sink[threadIdx.x] = __float_as_uint(sum);
}}
"""


HEAD = """// Written by bench/gpu/chip/banks.py: accesses of shared memory, one launch each, for a profiler to count.
#include <cstdio>
#include <cstdlib>
#include <vector>
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { \\
    std::fprintf(stderr, "%s: %s\\n", #call, cudaGetErrorString(e)); return 1; } } while (0)
extern __shared__ __align__(1024) unsigned char shared_bytes[];
__device__ unsigned start() { return static_cast<unsigned>(__cvta_generic_to_shared(shared_bytes)); }
"""
ACCESS = """
__global__ void access_%(number)d(const unsigned* table, int count, unsigned* sink) {
    unsigned v0 = threadIdx.x, v1 = 1, v2 = 2, v3 = 3, sum = 0;
    for (int i = 0; i < count; ++i) {
        unsigned at = start() + table[i * 32 + threadIdx.x];
        %(text)s
        sum += v0 ^ v1 ^ v2 ^ v3;
    }
    sink[threadIdx.x] = sum;
}
"""
MAIN = """
int main(int argc, char** argv) {
    // A file of ints: launches, then op, count and 32 addresses an instruction of each; then the wgmma kernels.
    std::FILE* file = argc > 1 ? std::fopen(argv[1], "rb") : nullptr;
    if (!file) { std::fprintf(stderr, "give the file of tables\\n"); return 1; }
    std::vector<unsigned> words(1 << 24);
    size_t size = std::fread(words.data(), 4, words.size(), file);
    unsigned *tables, *sink;
    CHECK(cudaMalloc(&tables, size * 4));
    CHECK(cudaMalloc(&sink, 4096));
    CHECK(cudaMemcpy(tables, words.data(), size * 4, cudaMemcpyHostToDevice));
    typedef void (*Access)(const unsigned*, int, unsigned*);
    typedef void (*Multiply)(unsigned*);
    Access accesses[] = {%(accesses)s};
    Multiply multiplies[] = {%(multiplies)s};
    size_t at = 1;
    for (unsigned job = 0; job < words[0]; ++job) {
        unsigned op = words[at], count = words[at + 1];
        accesses[op]<<<1, 32, %(bytes)d>>>(tables + at + 2, count, sink);
        CHECK(cudaGetLastError());
        at += 2 + 32 * count;
    }
    for (Multiply multiply : multiplies) {
        CHECK(cudaFuncSetAttribute(multiply, cudaFuncAttributeMaxDynamicSharedMemorySize, %(bytes)d));
        multiply<<<1, 128, %(bytes)d>>>(sink);
        CHECK(cudaGetLastError());
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
"""


def prepare(folder: Path) -> None:
    """Write the manifest, the tables and the program, and compile it if nvcc is here."""
    folder.mkdir(parents=True, exist_ok=True)
    cases = {"layouts": [*layouts()], "shared_addresses": [*shared_addresses()]}
    words = [sum(map(len, cases.values()))]
    for case in (*cases["layouts"], *cases["shared_addresses"]):
        table = case.pop("table")
        words += [OPS.index(case["op"]), len(table), *(at for row in table for at in row)]
        if len(table) == 1:
            case["addresses"] = table[0]
    np.array(words, dtype=np.uint32).tofile(folder / "tables.bin")
    found = multiplies()
    (folder / "manifest.json").write_text(json.dumps({**cases, "multiplies": found}, indent=1))
    bodies = [ACCESS % {"number": number, "text": access_text(op)} for number, op in enumerate(OPS)]
    bodies += [multiply_text(case, number) for number, case in enumerate(found)]
    end = MAIN % {
        "accesses": ", ".join(f"access_{n}" for n in range(len(OPS))),
        "multiplies": ", ".join(f"multiply_{n}" for n in range(len(found))),
        "bytes": SHARED_BYTES,
    }
    (folder / "banks.cu").write_text(HEAD + "".join(bodies) + end)
    if shutil.which("nvcc"):
        build(folder, folder / "banks")
    print({name: len(part) for name, part in cases.items()}, len(found), "multiplies")


# What follows runs on the GPU's machine.


def build(folder: Path, program: Path) -> None:
    """Compile the program."""
    gencode = "-gencode=arch=compute_90a,code=sm_90a"
    subprocess.run(["nvcc", "-O2", gencode, "-o", str(program), str(folder / "banks.cu")], check=True)


def counters_known() -> list[str]:
    """Return the counters of shared memory and of wgmma that ncu knows on this chip; ratios are left out."""
    text = subprocess.run(["ncu", "--query-metrics"], capture_output=True, text=True, check=False).stdout
    rows = [line.split() for line in text.splitlines()]
    names = {row[0] for row in rows if len(row) > 1 and row[1] == "Counter"}
    return sorted(name for name in names if "mem_shared" in name or "gmma" in name)


def counted(program: Path, tables: Path, kernels: str, counters: Sequence[str]) -> list[dict[str, float]]:
    """Return the counters of each launch of these kernels, in order."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.csv"
        command = ["ncu", "--clock-control", "none", "--cache-control", "none", "--csv", "--page", "raw"]
        command += ["--print-units", "base", "--kernel-name", f"regex:{kernels}", "--log-file", str(log)]
        command += ["--metrics", ",".join(f"{name}.sum" for name in counters), str(program), str(tables)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        text = log.read_text() if log.exists() else ""
    if done.returncode:
        raise RuntimeError(f"ncu: {done.stdout[-2000:]} {done.stderr[-2000:]} {text[-2000:]}")
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = [row for row in csv.DictReader(lines) if row.get("ID", "").strip()]
    found = []
    for row in sorted(rows, key=lambda row: int(row["ID"])):
        values = {name: row.get(f"{name}.sum") or "" for name in counters}
        numbers = {name: text.replace(",", "") for name, text in values.items()}
        found.append({name: float(text) for name, text in numbers.items() if _is_number(text)})
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def run(folder: Path) -> int:
    """Count every launch, compare, and write all rows."""
    begin = time.monotonic()
    manifest = json.loads((folder / "manifest.json").read_text())
    out = Path(os.environ.get("OUT") or folder)
    program = Path(tempfile.mkdtemp()) / "banks"
    if (folder / "banks").exists():
        shutil.copy(folder / "banks", program)
        program.chmod(0o755)
    else:
        build(folder, program)
    known = counters_known()
    print(f"{len(known)} counters known:", *known, sep="\n", flush=True)
    tables = (folder / "tables.bin").resolve()
    launches = counted(program, tables, "access_", COUNTERS)
    cases = [*manifest["layouts"], *manifest["shared_addresses"]]
    if len(launches) != len(cases):
        raise RuntimeError(f"ncu counted {len(launches)} launches of {len(cases)}")
    for case, launch in zip(cases, launches, strict=True):
        case["counters"] = launch
        case["measured"] = int(launch[f"{WAVEFRONTS}_op_ld"] + launch[f"{WAVEFRONTS}_op_st"])
    report: dict[str, Any] = {
        "question": "do predicted bank wavefronts equal what the GPU counts",
        "machine": machine(),
        "ncu": subprocess.run(["ncu", "--version"], capture_output=True, text=True, check=False).stdout.strip(),
        "counters": [f"{WAVEFRONTS}_op_{of}.sum" for of in ("ld", "st", "gmma")],
        "counters_known": known,
        "seconds": round(time.monotonic() - begin, 1),
        "summary": {part: summary(manifest[part]) for part in ("layouts", "shared_addresses")},
        "rules": rules(manifest["shared_addresses"]),
    }
    for case, launch in zip(
        manifest["multiplies"], counted(program, tables, "multiply_", MULTIPLY_COUNTERS), strict=True
    ):
        case["counters"] = launch
        case["predicted"] = case["lines_read"]
        case["measured"] = int(launch[f"{WAVEFRONTS}_op_gmma"])
    report["summary"]["multiplies"] = summary(manifest["multiplies"], by="swizzle")
    write(out, report, manifest)
    print(json.dumps({name: report[name] for name in ("machine", "summary", "rules", "seconds")}, indent=1))
    wrong = [case for case in (*cases, *manifest["multiplies"]) if case["measured"] != case["predicted"]]
    for case in wrong:
        print("WRONG", json.dumps(case))
    return 1 if wrong else 0


def summary(cases: list[dict[str, Any]], by: str = "op") -> dict[str, Any]:
    """Return how many predictions are right, altogether and by instruction, or by what else is named."""

    def right(part: list[dict[str, Any]]) -> str:
        return f"{sum(case['predicted'] == case['measured'] for case in part)} of {len(part)}"

    kinds = sorted({case[by] for case in cases})
    return {"all": right(cases)} | {kind: right([case for case in cases if case[by] == kind]) for kind in kinds}


def rules(cases: list[dict[str, Any]]) -> dict[str, str]:
    """Return how many loads each candidate for the merging rule gets right."""
    loads = [case for case in cases if "rules" in case]
    return {name: f"{sum(case['rules'][name] == case['measured'] for case in loads)} of {len(loads)}" for name in RULES}


def write(out: Path, report: dict[str, Any], manifest: dict[str, Any]) -> None:
    """Write the report with all rows."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "banks.json").write_text(json.dumps({**report, **manifest}) + "\n")


def main(arguments: list[str]) -> int:
    """Run the step that the arguments name; see the module's docstring."""
    match arguments:
        case ["prepare", folder]:
            prepare(Path(folder))
            return 0
        case ["run", folder]:
            return run(Path(folder))
        case _:
            print(__doc__, file=sys.stderr)
            return os.EX_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Do relayouts move every byte right, and how near to a copy's bandwidth do they come?

    python -m bench.gpu.relayout prepare FOLDER    # where LegalSAT and nvcc are: cubins, launches as plain numbers
    python -m bench.gpu.relayout run FOLDER        # where the GPU is: torch and a driver are enough
    python -m bench.gpu.relayout                   # both

First random relayouts of random bytes, with guards around them, in processes that may die alone. Then large ones, each
by several variants of its kernel, against the driver's copy of as many bytes and torch's way, in one process. Bandwidth
counts bytes read and bytes written; the tensors are larger than the L2 cache by far, so it is cold.

Writes relayout.json into $OUT, else into FOLDER. Exit status 1 if a relayout is wrong.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ARCHITECTURE = "sm_90a"
SEED = 20261121
COUNT, ELEMENTS = 240, 1 << 21
GUARD_BYTES = 4096
UNTOUCHED = 0xA5
CHUNK, CHUNK_SECONDS, WORKERS = 60, 120, 4
TIMED_SECONDS = 400
WARM, ROUNDS, CALLS = 1, 5, 4
LAST_ROUNDS = 25  # of the best variants, the copy and torch
BEST = 4
C_TYPES = {"u64": ctypes.c_uint64, "i64": ctypes.c_int64, "u32": ctypes.c_uint32}
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 32, 33, 50, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 511, 1000)

# Name, bytes of an element, the source's shape, the axes' order in the target, and options: elements from row to row
# of a source or a target whose last axis is padded, elements by which the source begins late, zeros written as padding.
CASES: tuple[tuple[str, int, tuple[int, ...], tuple[int, ...], dict[str, int]], ...] = (
    ("transpose 16384x16384", 2, (16384, 16384), (1, 0), {}),
    ("transpose 16381x16383", 2, (16381, 16383), (1, 0), {}),
    ("transpose 11586x11585", 2, (11586, 11585), (1, 0), {}),
    ("transpose 23171x23171, 1 GB", 2, (23171, 23171), (1, 0), {}),
    ("transpose 8192x8192", 4, (8192, 8192), (1, 0), {}),
    ("transpose 8191x8193", 4, (8191, 8193), (1, 0), {}),
    ("transpose 16384x16384", 1, (16384, 16384), (1, 0), {}),
    ("transpose 16381x16387", 1, (16381, 16387), (1, 0), {}),
    ("transpose 5793x5795", 8, (5793, 5795), (1, 0), {}),
    ("transpose of each, 64x2049x1023", 2, (64, 2049, 1023), (0, 2, 1), {}),
    ("NCHW to NHWC, 32x255x127x129", 2, (32, 255, 127, 129), (0, 2, 3, 1), {}),
    ("NHWC to NCHW, 16x129x127x255", 4, (16, 129, 127, 255), (0, 3, 1, 2), {}),
    ("axes reversed, 64x63x65x511", 2, (64, 63, 65, 511), (3, 2, 1, 0), {}),
    ("5-D, 17x31x65x9x513 to 2 4 0 3 1", 2, (17, 31, 65, 9, 513), (2, 4, 0, 3, 1), {}),
    ("heads, 8x4096x32x128 to 0 2 1 3", 2, (8, 4096, 32, 128), (0, 2, 1, 3), {}),
    ("heads, 4x8191x33x127 to 0 2 1 3", 2, (4, 8191, 33, 127), (0, 2, 1, 3), {}),
    ("heads, 4x4096x3x32x80 to 2 0 3 1 4", 2, (4, 4096, 3, 32, 80), (2, 0, 3, 1, 4), {}),
    ("rows of 4095 to a pitch of 4096", 2, (32768, 4095), (0, 1), {"target_pitch": 4096}),
    ("rows of 4095 to 4096 with zeros", 2, (32768, 4095), (0, 1), {"target_pitch": 4096, "zeros": 1}),
    ("rows of 16381 to 16384 with zeros", 1, (16384, 16381), (0, 1), {"target_pitch": 16384, "zeros": 1}),
    ("rows of 4095 from a pitch of 4096", 2, (32768, 4095), (0, 1), {"source_pitch": 4096}),
    ("rows of 4093 of 4104, from the third", 2, (32768, 4093), (0, 1), {"source_pitch": 4104, "late": 3}),
    ("rows of 2047 of 2051, from the second", 4, (32768, 2047), (0, 1), {"source_pitch": 2051, "late": 1}),
)
# Tiles that are tried, by bytes of an element: granules of a row, elements along j.
TILES = {
    1: ((16, 128), (16, 256), (32, 128), (16, 384), (8, 128)),
    2: ((32, 64), (16, 64), (64, 64), (32, 128), (32, 192), (16, 128), (16, 256)),
    4: ((32, 64), (16, 64), (64, 64), (32, 128), (16, 128)),
    8: ((32, 32), (32, 64), (64, 32), (16, 64), (16, 32)),
}


def dense(shape: Any, pitch: int = 0) -> tuple[int, ...]:
    """Return the strides of a dense row-major tensor, its rows `pitch` elements apart if that is given."""
    strides, step = [], 1
    for position, extent in enumerate(reversed(shape)):
        strides.append(step)
        step *= extent if position or not pitch else pitch
    return tuple(reversed(strides))


def case_of(element: int, shape: Any, order: Any, options: dict[str, int]) -> dict[str, Any]:
    """Return the two sides of a case, axes as in the source, strides in elements."""
    result = [shape[axis] for axis in order]
    targets = dense(result, options.get("target_pitch", 0))
    return {
        "element": element,
        "shape": list(shape),
        "source_strides": list(dense(shape, options.get("source_pitch", 0))),
        "target_strides": [targets[list(order).index(axis)] for axis in range(len(shape))],
        "source_offset": options.get("late", 0) * element,
        "target_offset": 0,
        "zeros_to": options.get("target_pitch", 0) if options.get("zeros") else 0,
    }


def random_case(rng: Any) -> dict[str, Any]:
    """Return a random case: any axes, pitches and offsets."""
    element, rank = rng.choice((1, 2, 4, 8)), rng.randint(1, 5)
    shape = [rng.choice(EXTENTS) for _ in range(rank)]
    while math.prod(shape) > ELEMENTS:
        at = max(range(rank), key=lambda i: shape[i])
        shape[at] = max(1, shape[at] // 2 + rng.randint(0, 1))
    sides = []
    for _ in range(2):
        stored, step, strides = rng.sample(range(rank), rank), 1, [0] * rank
        gap = rng.choice((0, 0, 1, 9))
        for axis in stored:
            strides[axis] = step
            step = step * shape[axis] + rng.randint(0, gap)
        sides.append(strides)
    offsets = [rng.choice((0, rng.randrange(0, 256, element))) for _ in range(2)]
    case = {"element": element, "shape": shape, "source_strides": sides[0], "target_strides": sides[1]}
    return {**case, "source_offset": offsets[0], "target_offset": offsets[1], "zeros_to": 0}


def launched(case: dict[str, Any], **choices: Any) -> tuple[Any, dict[str, Any]]:
    """Return the kernel of a case, and its launch as plain values."""
    from legalsat.extract.search.by_granules import Axis, Moved, Tuning, way_of  # noqa: PLC0415

    size = case["element"]
    rows = zip(case["shape"], case["source_strides"], case["target_strides"], strict=True)
    axes = [Axis(n, s * size, t * size) for n, s, t in rows]
    if case["zeros_to"]:
        axes[-1] = Axis(case["zeros_to"], size, size, 0, axes[-1].extent)
    aligns = (math.gcd(256, case[side] or 256) for side in ("source_offset", "target_offset"))
    launch = way_of(Moved(size, tuple(axes), *aligns), Tuning(**choices)).granules
    kinds = [kind for kind, _ in launch.kernel.parameters[2:]]
    return launch.kernel, {
        "entry": launch.kernel.entry,
        "blocks": launch.blocks,
        "shared": sum(launch.kernel.buffers),
        "numbers": list(zip(kinds, launch.numbers, strict=True)),
        "choices": choices,
    }


def variants(case: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the choices that are tried for a case; the first, none, is what is used otherwise."""
    kernel, _ = launched(case)
    found: list[dict[str, Any]] = [{}]
    if not hasattr(kernel, "tile_j"):
        return [*found, *({"joins": joins} for joins in (False, True) if kernel.element < 16 and not kernel.fills)]
    return [*found, *({"tile": tile} for tile in TILES[kernel.element]), {"joins": False}]


def prepare(folder: Path) -> None:
    """Write everything that a run needs."""
    import random  # noqa: PLC0415

    from legalsat.backends.cute.compile import cubin_of  # noqa: PLC0415
    from legalsat.backends.cute.granules import emit  # noqa: PLC0415
    from legalsat.extract.kernels.movement_pipeline import granules_pipeline  # noqa: PLC0415

    rng = random.Random(SEED)
    folder.mkdir(parents=True, exist_ok=True)
    checked, timed = [], []
    kernels: dict[str, set[Any]] = {"checked": set(), "timed": set()}
    for _ in range(COUNT):
        case = random_case(rng)
        kernel, launch = launched(case, joins=rng.choice((None, False, True)))
        kernels["checked"].add(kernel)
        checked.append({**case, "launch": launch})
    for name, element, shape, order, options in CASES:
        case = case_of(element, shape, order, options)
        launches = []
        for choices in variants(case):
            kernel, launch = launched(case, **choices)
            kernels["timed"].add(kernel)
            launches.append(launch)
        timed.append({**case, "name": name, "launches": launches})
    for which, needed in kernels.items():
        text = "\n".join(emit(granules_pipeline(one), one) for one in sorted(needed, key=lambda one: one.entry))
        (folder / f"{which}.cubin").write_bytes(cubin_of(text, ARCHITECTURE))
    (folder / "launches.json").write_text(json.dumps({"checked": checked, "timed": timed}))
    counts = ", ".join(f"{len(needed)} kernels {which}" for which, needed in kernels.items())
    print(f"{len(checked)} checked, {len(timed)} timed by {sum(len(t['launches']) for t in timed)} launches; {counts}")


class Device:
    """The GPU, a cubin's kernels, and tensors in its memory."""

    def __init__(self, folder: Path, cubin: str) -> None:
        """Load a cubin."""
        import torch  # noqa: PLC0415

        from bench.gpu.driver import Device as Driver  # noqa: PLC0415

        torch.cuda.init()
        torch.empty(1, device="cuda")
        self.device = Driver()
        self.module = self.device.load((folder / f"{cubin}.cubin").read_bytes())
        self.kernels: dict[str, Any] = {}

    def launch(self, launch: dict[str, Any], source: int, target: int) -> Any:
        """Return a function that launches on these addresses."""
        import torch  # noqa: PLC0415

        if launch["entry"] not in self.kernels:
            self.kernels[launch["entry"]] = self.module.kernel(launch["entry"])
        kernel = self.kernels[launch["entry"]]
        numbers = [C_TYPES[kind](value) for kind, value in launch["numbers"]]
        stream = torch.cuda.current_stream().cuda_stream
        grid, shared = (launch["blocks"],), launch["shared"]
        return lambda: kernel(source, target, *numbers, grid=grid, block=(256,), shared=shared, stream=stream)


def placed(case: dict[str, Any], side: str, guard: int) -> tuple[Any, Any]:
    """Return memory and one of a case's tensors in it, behind `guard` bytes and the tensor's offset."""
    import torch  # noqa: PLC0415

    size, strides = case["element"], case[f"{side}_strides"]
    span = sum((n - 1) * s for n, s in zip(case["shape"], strides, strict=True)) + 1
    if side == "target" and case["zeros_to"]:
        span += case["zeros_to"] - case["shape"][-1]
    start = guard + case[f"{side}_offset"]
    words = -(-(start + span * size + guard) // 16) * 16
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    memory = torch.full((words,), UNTOUCHED, dtype=torch.uint8, device="cuda")
    return memory, torch.as_strided(memory.view(kind), case["shape"], strides, start // size)


def padding_of(case: dict[str, Any], tensor: Any) -> Any:
    """Return what of a target is padded with zeros."""
    rows, columns = case["shape"]
    rest = case["zeros_to"] - columns
    return tensor.as_strided((rows, rest), tensor.stride(), tensor.storage_offset() + columns)


def check_one(device: Device, case: dict[str, Any]) -> str:
    """Return what is wrong with a case, "" if nothing is."""
    import torch  # noqa: PLC0415

    (memory, source), (written, target) = (placed(case, side, GUARD_BYTES) for side in ("source", "target"))
    memory.random_(0, 256)
    expected = written.clone()
    expected.view(target.dtype).as_strided(target.shape, target.stride(), target.storage_offset()).copy_(source)
    before = memory.clone()
    for _ in range(2):
        written.fill_(UNTOUCHED)
        device.launch(case["launch"], source.data_ptr(), target.data_ptr())()
        torch.cuda.synchronize()
        if not torch.equal(written, expected):
            wrong = (written != expected).nonzero()
            return f"{len(wrong)} bytes wrong, first at {int(wrong[0]) - GUARD_BYTES - case['target_offset']}"
    return "" if torch.equal(memory, before) else "the source changed"


def child(folder: Path, start: int, stop: int) -> None:
    """Check some cases, one line of JSON each, flushed, so that a fault loses one only."""
    cases = json.loads((folder / "launches.json").read_text())["checked"]
    device = Device(folder, "checked")
    for index in range(start, min(stop, len(cases))):
        try:
            found = check_one(device, cases[index])
        except Exception as error:  # whatever it is, it is this case's result
            found = f"{type(error).__name__}: {str(error)[:300]}"
        print(json.dumps({"done": index, "found": found}), flush=True)
        if found and "bytes wrong" not in found:
            return  # the context may be lost


def checks(folder: Path, start: int, stop: int) -> dict[int, str]:
    """Check cases from `start` up to `stop`, in as many processes as it takes."""
    results: dict[int, str] = {}
    while start < stop:
        command = [sys.executable, "-m", "bench.gpu.relayout", "child", str(folder), str(start), str(stop)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                out, err = process.communicate(timeout=CHUNK_SECONDS)
                why = f"process died: {err[-300:]}"
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                why = f"no answer within {CHUNK_SECONDS} s"
        lines = [json.loads(line) for line in out.splitlines() if line.startswith('{"done"')]
        results.update({line["done"]: line["found"] for line in lines})
        start += len(lines)
        if start < stop and not (lines and lines[-1]["found"]):
            results[start] = why
            start += 1
    return results


def microseconds(way: Any, rounds: int) -> float:
    """Return the median time of a call, launched back to back."""
    import torch  # noqa: PLC0415

    samples = []
    for number in range(WARM + rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(CALLS):
            way()
        end.record()
        torch.cuda.synchronize()
        if number >= WARM:
            samples.append(begin.elapsed_time(end) * 1000 / CALLS)
    return float(sorted(samples)[len(samples) // 2])


def time_case(device: Device, case: dict[str, Any]) -> dict[str, Any]:
    """Return the bandwidth of a case's variants, of torch and of a copy, in GB/s."""
    import torch  # noqa: PLC0415

    (memory, source), (_, target) = (placed(case, side, 0) for side in ("source", "target"))
    memory.random_(0, 256)
    read = source.numel() * case["element"]
    zeros = padding_of(case, target) if case["zeros_to"] else None
    moved = 2 * read + (zeros.numel() * case["element"] if zeros is not None else 0)
    wrong: list[str] = []
    times: list[float] = []
    known: dict[str, float] = {}
    for launch in case["launches"]:
        key = json.dumps([launch["entry"], launch["numbers"]])  # on few tiles several choices are the same
        if key in known:
            times.append(known[key])
            continue
        way = device.launch(launch, source.data_ptr(), target.data_ptr())
        target.fill_(-1 if case["element"] > 1 else 255)
        if zeros is not None:
            zeros.fill_(1)
        way()
        torch.cuda.synchronize()
        if not torch.equal(target, source) or (zeros is not None and bool(zeros.any())):
            wrong.append(f"{launch['entry']} {launch['choices']}")
        times.append(known.setdefault(key, microseconds(way, ROUNDS)))
    best = sorted(range(len(times)), key=lambda i: times[i])[:BEST]
    a, b = (torch.empty(moved // 2, dtype=torch.uint8, device="cuda") for _ in range(2))
    ways = {"copy": lambda: b.copy_(a), "torch": torch_way(case, source, target, zeros)}
    last = {name: microseconds(way, LAST_ROUNDS) for name, way in ways.items()}
    copy = last["copy"]
    chosen = sorted({0, *best})
    again = {
        i: microseconds(device.launch(case["launches"][i], source.data_ptr(), target.data_ptr()), LAST_ROUNDS)
        for i in chosen
    }
    described = [
        {
            "entry": case["launches"][i]["entry"],
            "choices": case["launches"][i]["choices"],
            "us": round(us, 2),
            "gb_per_s": round(moved / us / 1000, 1),
            "of_copy": round(copy / us, 4),
        }
        for i, us in sorted(again.items(), key=lambda one: one[1])
    ]
    return {
        "element_bytes": case["element"],
        "moved_bytes": moved,
        "copy_gb_per_s": round(moved / copy / 1000, 1),
        "torch_of_copy": round(copy / last["torch"], 4),
        "usual_of_copy": round(copy / again[0], 4),
        "best_of_copy": described[0]["of_copy"],
        "best": described,
        "all": [[one["choices"], round(copy / us, 4)] for one, us in zip(case["launches"], times, strict=True)],
        "wrong": wrong,
    }


def torch_way(case: dict[str, Any], source: Any, target: Any, zeros: Any) -> Any:
    """Return what a user of torch would call."""
    import torch  # noqa: PLC0415

    if zeros is not None:
        return lambda: torch.nn.functional.pad(source, (0, case["zeros_to"] - case["shape"][-1]))
    return lambda: target.copy_(source)


def shared_choices(timed: dict[str, Any]) -> dict[str, Any]:
    """Return, by kind of kernel and bytes of an element, the choices that do best in the worst case and on average."""
    kinds: dict[str, list[dict[str, float]]] = {}
    for result in timed.values():
        entry = result["best"][0]["entry"].split("_")
        table = {json.dumps(choices): share for choices, share in result["all"] if choices}
        kinds.setdefault(f"{entry[1]} {result['element_bytes'] if entry[1] == 'transpose' else ''}", []).append(table)
    chosen = {}
    for kind, tables in sorted(kinds.items()):
        common = set.intersection(*(set(table) for table in tables))
        rows = [(min(t[c] for t in tables), math.prod(t[c] for t in tables) ** (1 / len(tables)), c) for c in common]
        chosen[kind.strip()] = [
            {"worst": worst, "mean": round(mean, 4), "choices": json.loads(choices)}
            for worst, mean, choices in sorted(rows, reverse=True)[:5]
        ]
    return chosen


def run(folder: Path) -> int:
    """Check all cases, then time the large ones; return 0 if all are right."""
    from bench.gpu.machine import machine  # noqa: PLC0415

    prepared = json.loads((folder / "launches.json").read_text())
    cases, begin = prepared["checked"], time.time()
    with ThreadPoolExecutor(WORKERS) as pool:
        parts = pool.map(lambda i: checks(folder, i, min(i + CHUNK, len(cases))), range(0, len(cases), CHUNK))
        results = {index: found for part in parts for index, found in part.items()}
    wrong = {i: [results.get(i, "not run"), cases[i]] for i in range(len(cases)) if results.get(i, "not run")}
    print(f"{len(cases) - len(wrong)} of {len(cases)} right, {time.time() - begin:.0f} s", flush=True)
    for what, case in list(wrong.values())[:5]:
        print(what, json.dumps(case), flush=True)
    report: dict[str, Any] = {
        "question": "do relayouts move every byte right, and how near to a copy's bandwidth do they come",
        "machine": machine(),
        "checked": len(cases),
        "right": len(cases) - len(wrong),
        "wrong": wrong,
        "calls_a_round": CALLS,
        "rounds": {"of each variant": ROUNDS, "of the best, the copy and torch": LAST_ROUNDS},
        "timed": {},
    }
    out = Path(os.environ.get("OUT", folder)) / "relayout.json"
    command = [sys.executable, "-m", "bench.gpu.relayout", "time", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:  # one process, which may hang: what it has said is kept
            if line.startswith('{"case"'):
                found = json.loads(line)
                report["timed"][found.pop("case")] = found
                out.write_text(json.dumps(report, indent=1) + "\n")
            else:
                print(line, end="", flush=True)
    failed = [name for name, one in report["timed"].items() if one["wrong"]]
    report["shared_choices"] = shared_choices(report["timed"])
    out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report["shared_choices"], indent=1))
    done = f"{len(report['timed'])} of {len(prepared['timed'])} timed, {time.time() - begin:.0f} s"
    print(f"wrong when timed: {failed}; {done}")
    return 1 if wrong or failed or len(report["timed"]) < len(prepared["timed"]) else 0


def time_all(folder: Path) -> None:
    """Time every case, one line of JSON each."""
    import torch  # noqa: PLC0415

    prepared = json.loads((folder / "launches.json").read_text())["timed"]
    device, begin = Device(folder, "timed"), time.time()
    for case in prepared:
        if time.time() - begin > TIMED_SECONDS:
            break
        found = time_case(device, case)
        name = f"{case['name']}, {case['element']} B"
        first = found["best"][0]
        print(
            f"{name:44} copy {found['copy_gb_per_s']:7.1f} GB/s, torch {found['torch_of_copy']:.3f}, "
            f"usual {found['usual_of_copy']:.3f}, best {found['best_of_copy']:.3f} by {first['choices']}",
            flush=True,
        )
        print(json.dumps({"case": name, **found}), flush=True)
        torch.cuda.empty_cache()


def main(arguments: list[str]) -> int:
    """Run the steps that the arguments name; see the module's docstring."""
    match arguments:
        case ["prepare", folder]:
            prepare(Path(folder))
            return 0
        case ["run", folder]:
            return run(Path(folder))
        case ["child", folder, start, stop]:
            child(Path(folder), int(start), int(stop))
            return 0
        case ["time", folder]:
            time_all(Path(folder))
            return 0
        case []:
            with tempfile.TemporaryDirectory() as folder:
                prepare(Path(folder))
                return run(Path(folder))
        case _:
            print(__doc__, file=sys.stderr)
            return os.EX_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

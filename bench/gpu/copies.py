"""Do random plans move every byte right, and how fast is a large transpose? `python -m bench.gpu.copies`.

Two steps, so that the GPU's machine needs torch and Triton alone (the first needs LegalSAT):
    python -m bench.gpu.copies prepare FOLDER    plan 300 random movements and 60 paddings, write their kernels
    python bench/gpu/copies.py run FOLDER        run them on a GPU, write FOLDER/copies.json (needs torch, triton)
Without arguments both are done, in a temporary folder.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # so that it also runs as a script, without installing
from bench.gpu.machine import machine

COUNT = 300
PADS = 60
SEED = 20261121
MAX_ELEMENTS = 1 << 21
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 32, 33, 50, 63, 64, 65, 96, 100, 127, 128, 129, 200, 255, 256, 257)
LONG_EXTENTS = (300, 511, 512, 768, 1000, 1023, 1024, 2047, 4096, 4100)
GUARD_BYTES = 4096
PRINTED = ("tma", "threads")  # the means whose plans the Triton backend prints
CHUNK = 20
CHUNK_SECONDS = 200
WORKERS = 8
TIMED = 16384
ROUNDS, CALLS = 30, 12
# The same tile in a persistent grid with a ring of buffers, to show why the plan has one block a tile instead.
RINGS: dict[str, dict[str, Any]] = {
    "ring_of_2": {"programs": 132, "stages": 2},
    "ring_of_4": {"programs": 132, "stages": 4},
    "ring_of_4_stored_from_2": {"programs": 132, "stages": 4, "staging": 2},
}


def random_operator(rng: random.Random) -> Any:
    """Return a random Copy or Transpose, or one with symbolic extents and the values to bind."""
    import legalsat as ls  # noqa: PLC0415 - the GPU's machine has no LegalSAT

    element, shape, granule = _drawn(rng)
    rank = len(shape)
    layout = rng.choice(("dense", "pitched", "permuted", "symbolic"))
    if layout in {"permuted", "symbolic"} or rng.random() < 0.5:
        shape[-1] = max(1, shape[-1] // granule) * granule  # else most tensors of odd pitch would have no map
    strides = _strides(shape, granule if layout == "pitched" else 1)
    if layout == "permuted":
        stored = list(range(rank))
        rng.shuffle(stored)
        dense = _strides([shape[a] for a in stored], 1)
        strides = [dense[stored.index(a)] for a in range(rank)]
    order = list(range(rank))
    rng.shuffle(order)
    turned = rank > 1 and rng.random() < 0.6
    if layout == "symbolic" and rank == 2:
        dims = (ls.Dim("M"), ls.Dim("K", multiple_of=granule))
        tensor = ls.Tensor(dims, element)
        operator = ls.Transpose(tensor, order) if turned else ls.Copy(tensor)
        return operator, {"M": shape[0], "K": shape[1]}
    tensor = ls.Tensor(shape, element, strides)
    return (ls.Transpose(tensor, order) if turned else ls.Copy(tensor)), {}


def random_pad(rng: random.Random) -> Any:
    """Return a random Pad, in front often by whole granules, so that boxes and threads both come to it."""
    import legalsat as ls  # noqa: PLC0415

    element, shape, granule = _drawn(rng)
    aligned = rng.random() < 0.6
    if aligned:
        shape[-1] = max(1, shape[-1] // granule) * granule
    around = [(rng.choice((0, 0, 1, 2, 3, 7)), rng.choice((0, 0, 1, 2, 5))) for _ in shape[1:]]
    row = (0, granule, 2 * granule) if aligned else (0, 1, 2, 3, granule)
    around.append((rng.choice(row), rng.choice((*row, 1))))
    known = element.kind != "float" or element.bits > 8
    value = rng.choice((1, 3)) if known and element.bits >= 8 and element.kind != "bool" and rng.random() < 0.3 else 0
    strides = _strides(shape, rng.choice((1, granule)))
    return ls.Pad(ls.Tensor(shape, element, strides), around, value)


def _drawn(rng: random.Random) -> tuple[Any, list[int], int]:
    """Return a random element type, a shape, and how many elements fill 16 bytes or a multiple of them."""
    from legalsat.dtypes import DTYPES  # noqa: PLC0415

    element = DTYPES[rng.choice(list(DTYPES))]
    rank = rng.randint(1, 5)
    shape = [rng.choice(EXTENTS + LONG_EXTENTS if rank < 3 else EXTENTS) for _ in range(rank)]
    while math.prod(shape) > MAX_ELEMENTS:
        at = max(range(rank), key=lambda i: shape[i])
        shape[at] = max(1, shape[at] // 2 + rng.randint(0, 1))
    return element, shape, 128 // math.gcd(element.bits, 128)


def _strides(shape: list[int], granule: int) -> list[int]:
    strides, step = [], 1
    for position, extent in enumerate(reversed(shape)):
        strides.append(step)
        step = -(-step * extent // granule) * granule if position == 0 else step * extent
    return strides[::-1]


def prepare(folder: Path, count: int = COUNT, pads: int = PADS) -> None:
    """Plan random movements and paddings for an H200, so many of each; write their kernels, and transposes to time."""
    import legalsat as ls  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []
    refused: dict[str, int] = {}
    drawn = 0
    for draw, end, seed in ((random_operator, count, SEED), (_padding, count + pads, SEED + 1)):
        rng = random.Random(seed)
        while len(entries) < end:
            drawn += 1
            operator, values = draw(rng)
            try:
                plan = ls.synthesize(operator.bind(values) if values else operator, "h200", means=PRINTED)  # type: ignore[arg-type]
                text = plan.emit("triton")
            except ls.LegalSatError as error:
                codes = ",".join(d.code for d in getattr(error, "diagnostics", ())) or type(error).__name__
                refused[codes] = refused.get(codes, 0) + 1
                continue
            entries.append({"name": f"plan{len(entries):03}", "symbolic": bool(values), **_describe(plan)})
            (folder / f"{entries[-1]['name']}.py").write_text(text)
    timed = ls.synthesize(ls.Transpose(ls.Tensor((TIMED, TIMED), "bf16")), "h200")
    (folder / "transpose.py").write_text(timed.emit("triton"))
    for name, changes in RINGS.items():
        (folder / f"{name}.py").write_text(in_a_ring(timed, **changes).emit("triton"))
    manifest = {"seed": SEED, "drawn": drawn, "refused": refused, "plans": entries, "transpose": _describe(timed)}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))
    print(f"{len(entries)} plans of {drawn} drawn; refused: {refused}")


def in_a_ring(plan: Any, programs: int, stages: int, staging: int = 1) -> Any:
    """Return a plan of a turned tile with a persistent grid, that many buffers loaded ahead, and these stored from."""
    from legalsat.extract.kernels.movement_pipeline import movement_pipeline  # noqa: PLC0415

    source, target = plan.shared
    shared = (replace(source, stages=stages), replace(target, stages=staging, overlays=False))
    launch = replace(plan.launch, programs=programs)
    parts = plan.access, plan.views, shared, plan.copies, plan.phases
    program = movement_pipeline(*parts, store=plan.store, launch=launch)
    return replace(plan, shared=shared, launch=launch, pipeline=program)


def _padding(rng: random.Random) -> tuple[Any, dict[str, int]]:
    return random_pad(rng), {}


def _describe(plan: Any) -> dict[str, Any]:
    from legalsat.backends.triton.adapter import kernel_of, vector_kernel_of  # noqa: PLC0415

    kernel: Any = kernel_of(plan) if plan.access.by == "tma" else vector_kernel_of(plan)
    operator, shape = plan.operator, kernel.source.shape
    # Packed elements are bytes to torch, and so is their padding.
    around = [
        [side * held // n for side in sides]
        for sides, held, n in zip(getattr(operator, "padding", ()), shape, operator.source.shape, strict=False)
    ]
    return {
        "operator": str(operator),
        "kind": type(operator).__name__,
        "dtype": operator.source.dtype.name,
        "rank": operator.source.rank,
        "order": list(getattr(operator, "order", range(operator.source.rank))),
        "padding": around,
        "pattern": getattr(operator, "pattern", 0),
        "means": plan.access.by,
        "store": plan.store,
        "laws": [step.law for step in plan.derivation],
        "bytes": kernel.source.element_bytes,
        "source": [shape, kernel.source.stride],
        "target": [kernel.target.shape, kernel.target.stride],
        "predicted_us": plan.cost.nanoseconds / 1000,
    }


def _load(folder: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_one(folder: Path, entry: dict[str, Any], seed: int) -> str:
    """Run one plan on random bytes; return "" if every byte of the target, and none around it, is right."""
    import numpy as np  # noqa: PLC0415
    import torch  # noqa: PLC0415

    size = entry["bytes"]
    word = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    whole = {1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64}[size]
    generator = np.random.default_rng(seed)

    def placed(shape: list[int], stride: list[int], fill: Any) -> tuple[Any, Any]:
        span = sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) + 1
        guard = GUARD_BYTES // size
        memory = torch.from_numpy(fill(span + 2 * guard).view(whole)).cuda()
        return memory, torch.as_strided(memory, shape, stride, guard)

    def noise(n: int) -> Any:
        return generator.integers(0, 256, n * size, dtype=np.uint8)

    (shape, stride), (result_shape, result_stride) = entry["source"], entry["target"]
    memory, source = placed(shape, stride, noise)
    written, target = placed(result_shape, result_stride, lambda n: np.full(n * size, 0xA5, dtype=np.uint8))
    expected = written.cpu().numpy().copy()
    place = np.lib.stride_tricks.as_strided(
        expected[GUARD_BYTES // size :], target.shape, [s * size for s in target.stride()]
    )
    place[...] = np.array([entry["pattern"]], np.uint64).astype(f"u{size}").view(whole)  # of a padding
    inside = tuple(slice(low, low + n) for (low, _), n in zip(entry["padding"], shape, strict=False))
    place[inside] = source.cpu().numpy().transpose(entry["order"])
    result = _load(folder, entry["name"]).run(source, target)
    torch.cuda.synchronize()
    if result.data_ptr() != target.data_ptr():
        return "run did not return the target that it was given"
    found = written.cpu().numpy()
    if memory.dtype != word or not np.array_equal(found, expected):
        wrong = np.flatnonzero(found.view(np.uint8) != expected.view(np.uint8))
        return f"{wrong.size} bytes wrong, first at byte {wrong[0] - GUARD_BYTES if wrong.size else '-'}"
    return ""


def child(folder: Path, start: int, stop: int) -> None:
    """Check some plans, one line of JSON each, flushed, so that a hang loses one plan only."""
    plans = json.loads((folder / "manifest.json").read_text())["plans"]
    for index in range(start, min(stop, len(plans))):
        print(json.dumps({"start": index}), flush=True)
        try:
            problem = check_one(folder, plans[index], index)
        except Exception as error:  # whatever it is, it is this plan's result
            problem = f"{type(error).__name__}: {str(error)[:300]}"
        print(json.dumps({"done": index, "problem": problem}), flush=True)


def check_all(folder: Path, count: int) -> dict[int, str]:
    """Return, by plan index, what went wrong; "" for nothing."""
    results: dict[int, str] = {}

    def work(start: int) -> None:
        at, stop = start, min(start + CHUNK, count)
        while at < stop:
            command = [sys.executable, __file__, "child", str(folder), str(at), str(stop)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                try:
                    out, err = process.communicate(timeout=CHUNK_SECONDS)
                    why = f"process died: {err[-300:]}"
                except subprocess.TimeoutExpired:
                    process.kill()
                    out, err = process.communicate()
                    why = f"no answer within {CHUNK_SECONDS} s"
            lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
            results.update({line["done"]: line["problem"] for line in lines if "done" in line})
            left = [i for i in range(at, stop) if i not in results]
            if not left:
                return
            results[left[0]] = why
            at = left[0] + 1

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(work, range(0, count, CHUNK)))
    return results


def timings(folder: Path) -> dict[str, Any]:
    """Return microseconds and GB/s (bytes read plus written) of copy and transposes, one process, medians of rounds."""
    import torch  # noqa: PLC0415

    module = _load(folder, "transpose")
    sources = [torch.randn(TIMED, TIMED, device="cuda").to(torch.bfloat16) for _ in range(3)]
    targets = [torch.empty_like(s) for s in sources]
    ways = {
        "copy": lambda s, t: t.copy_(s),
        "legalsat_transpose": module.run,
        "torch_transpose": lambda s, t: t.copy_(s.t()),
        **{name: _load(folder, name).run for name in RINGS},
    }
    for name, way in ways.items():
        for s, t in zip(sources, targets, strict=True):
            way(s, t)
            assert torch.equal(t, s if name == "copy" else s.t()), f"{name} is wrong"
            t.zero_()
    moved = 2 * sources[0].numel() * sources[0].element_size()
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for round_ in range(ROUNDS + 3):
        for name, way in ways.items():  # interleaved, so that clocks and heat hit all alike
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for call in range(CALLS):  # back to back, so that the GPU never waits for Python
                way(sources[call % 3], targets[(call + 1) % 3])
            end.record()
            torch.cuda.synchronize()
            if round_ >= 3:
                samples[name].append(begin.elapsed_time(end) * 1000 / CALLS)
    table = {
        name: {"median_us": (median := sorted(us)[ROUNDS // 2]), "min_us": min(us), "gb_per_s": moved / median / 1000}
        for name, us in samples.items()
    }
    return {"shape": [TIMED, TIMED], "dtype": "bf16", "rounds": ROUNDS, "calls_a_round": CALLS, **table}


def run(folder: Path) -> int:
    """Check every plan, then time; write copies.json beside the kernels and return 0 if all is right."""
    manifest = json.loads((folder / "manifest.json").read_text())
    plans = manifest["plans"]
    begin = time.time()
    results = check_all(folder, len(plans))
    wrong = {plans[i]["name"]: problem for i, problem in sorted(results.items()) if problem}
    seconds = time.time() - begin
    report = {
        "question": "do random plans move every byte right, and how fast is a large transpose",
        "machine": machine(),
        "plans": len(plans),
        "bit_exact": sum(not problem for problem in results.values()),
        "wrong": wrong,
        "by_rank": _count(plans, "rank"),
        "by_dtype": _count(plans, "dtype"),
        "by_means": _count(plans, "means"),
        "by_store": _count(plans, "store"),
        "by_kind": _count(plans, "kind"),
        "symbolic": sum(p["symbolic"] for p in plans),
        "drawn": manifest["drawn"],
        "refused": manifest["refused"],
        "check_seconds": round(seconds, 1),
        "timing": timings(folder),
    }
    timing = report["timing"]
    report["transpose_share_of_copy"] = timing["legalsat_transpose"]["gb_per_s"] / timing["copy"]["gb_per_s"]
    report["torch_transpose_share_of_copy"] = timing["torch_transpose"]["gb_per_s"] / timing["copy"]["gb_per_s"]
    (folder / "copies.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({k: v for k, v in report.items() if k != "wrong"}, indent=1))
    for name, problem in wrong.items():
        print(name, problem)
    return 1 if wrong else 0


def _count(plans: list[dict[str, Any]], key: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for plan in plans:
        counts[str(plan[key])] = counts.get(str(plan[key]), 0) + 1
    return dict(sorted(counts.items()))


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
        case []:
            with tempfile.TemporaryDirectory() as folder:
                prepare(Path(folder))
                code = run(Path(folder))
                Path("copies.json").write_text((Path(folder) / "copies.json").read_text())
                return code
        case _:
            print(__doc__, file=sys.stderr)
            return os.EX_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

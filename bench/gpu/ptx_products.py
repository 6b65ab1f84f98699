"""Are products' kernels in PTX right on a GPU, and as fast as the same programs in CUDA C++?

    python -m bench.gpu.ptx_products [--plans N] [--kernels N] [--only check|time] [FOLDER]

Where the GPU is: needs LegalSAT, torch and Triton, whose ptxas assembles; with nvcc and CuTe's headers texts are timed.

First small random products, of all types and layouts: for each what `compile("ptx")` makes of its plan, and random
kernels of further classes. Operands are whole numbers, whose sums are exact, and rows that are not finite stand among
them: every element must be equal to float64's, rounded once, and around C, and between its rows, nothing may change.
Then the kernels of `bench.gpu.beside`, each in both texts, in turns. All in processes that may die or hang alone.

Writes ptx_products.json and ptx_times.json into $OUT, else into FOLDER. Exit status 1 if a product is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.gpu import beside
from bench.gpu.gemm import build, loader
from bench.gpu.machine import machine
from bench.gpu.products import GUARD_BYTES, UNTOUCHED, Runner, in_processes

TARGET, SEED = "h200", 20261123
# Types of operands, with their bytes, and of C.
DTYPES = {
    "bf16": (2, ("bf16", "fp32")),
    "fp16": (2, ("fp16", "fp32")),
    "fp32": (4, ("fp32", "bf16")),
    "e4m3": (1, ("bf16", "fp16", "fp32")),
    "e5m2": (1, ("bf16", "fp32")),
}
MOST = 700  # elements along m and n
LAUNCHES, WORKERS = 3, 4
CHUNK, CHUNK_SECONDS = 12, 120  # of a process that checks
TIMED, TIMED_SECONDS = 20, 240  # of one that times


def random_gemm(rng: random.Random, most: int = MOST) -> Any:
    """Return a product of small extents, up to `most` but for k, odd ones among them."""
    import legalsat as ls  # noqa: PLC0415 - children need torch alone

    name = rng.choice(list(DTYPES))
    size, outs = DTYPES[name]
    unit = rng.choice((1, 1, 16 // size, 64))
    m, n, k = (rng.randint(1, most // unit + 1) * unit for _ in range(3))
    k *= rng.choice((1, 1, 8))
    tensors = {}
    for side, rows in (("a", m), ("b", n)):
        turned = rng.random() < 0.3
        length, late = (rows if turned else k), rng.choice((0, 0, 0, 1, 3))
        pitch = length + (8 if late else rng.choice((0, 0, 5)))
        strides = (1, pitch) if turned else (pitch, 1)
        tensors[side] = ls.Tensor((rows, k), name, strides, offset=late * size)
    out = rng.choice(outs)
    c = ls.Tensor((m, n), out, (n + rng.choice((0, 0, 3, 8)), 1))
    scaled = size == 1 and rng.random() < 0.3
    return ls.Gemm(m, n, k, name, out_dtype=out, c=c, scaled=scaled, a=tensors["a"], b=tensors["b"])


def chosen(plans: int, kernels: int) -> Iterator[tuple[Any, Any, Any]]:
    """Yield products with a kernel and its program: that of the plan, and `kernels` of other classes."""
    import legalsat as ls  # noqa: PLC0415
    from bench.kernels.conformance import name_of  # noqa: PLC0415
    from legalsat.backends.ptx.program import program_for  # noqa: PLC0415
    from legalsat.extract.kernels.product_kernels import product_kernels  # noqa: PLC0415
    from legalsat.targets import target  # noqa: PLC0415

    rng, gpu, times = random.Random(SEED), target(TARGET), dict[str, int]()
    for _ in range(plans):
        gemm = random_gemm(rng)
        try:
            first = ls.synthesize(gemm, TARGET).kernel
        except ls.LegalSatError:
            continue  # what no tensor map, nor any relayout, describes
        others = [one for _, one in product_kernels(gemm, gpu) if -(-gemm.k // one.tile[2]) >= one.least_k_tiles]
        rng.shuffle(others)
        others.sort(key=lambda one: times.get(name_of(one), 0))
        for kernel in [*([first] if first else []), *others[:kernels]]:
            times[name_of(kernel)] = times.get(name_of(kernel), 0) + 1
            yield gemm, kernel, program_for(gemm, kernel, gpu)


def prepare(folder: Path, plans: int, kernels: int) -> list[dict[str, Any]]:
    """Write programs, and compile them into a cache beside them; return what is checked."""
    from bench.kernels.conformance import name_of  # noqa: PLC0415
    from legalsat.runtime import Kernel  # noqa: PLC0415

    os.environ["LEGALSAT_CACHE"] = str(folder / "cache")
    entries, programs = list[dict[str, Any]](), list[Any]()
    for gemm, kernel, made in chosen(plans, kernels):
        name = f"program{len(entries):04}"
        made.save(folder / f"{name}.json")
        programs.append(made)
        entries.append({"name": name, "operator": str(gemm), "kernel": str(kernel), "class": name_of(kernel),
                        "before": len(made.before), "scaled": gemm.scaled})  # fmt: skip
    for made in programs:  # Triton compiles these, one at a time
        for one in made.before:
            Kernel(one.program).build()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda made: Kernel(made).build(), programs))
    return entries


def check(folder: Path, entry: dict[str, Any]) -> str:
    """Return what is wrong with a product after some launches, "" if nothing is."""
    import torch  # noqa: PLC0415

    from legalsat.runtime import Kernel, Program  # noqa: PLC0415
    from legalsat.tensor import plain  # noqa: PLC0415

    torch.manual_seed(len(entry["operator"]))
    made = Program.load(folder / f"{entry['name']}.json")
    kernel, memory = Kernel(made), dict[str, tuple[Any, Any]]()
    for operand in made.operands:
        t = operand.tensor
        # Where rows may begin anywhere, they begin as late as the tensor does.
        memory[operand.name] = placed(t.dtype.name, plain(t.shape), plain(t.strides), t.offset)
    a, b, c = (memory[name][1] for name in "abc")
    for side in (a, b):
        side.copy_(torch.randint(-2, 3, side.shape, device="cuda").float().to(side.dtype))
    a[::5, -1] = float("nan") if a.element_size() == 1 else float("inf")
    exact = a.double() @ b.double().T
    scales = []
    for exponent, name in enumerate(("scale_a", "scale_b"), start=-2):
        if name in memory:
            memory[name][1].fill_(2.0**exponent)
            scales.append(memory[name][1])
            exact *= 2.0**exponent
    want = exact.to(c.dtype)
    untouched = _around(memory["c"][0].clone(), c)
    for number in range(LAUNCHES):
        memory["c"][0].fill_(UNTOUCHED)
        kernel(a, b, *scales, out=c)
        torch.cuda.synchronize()
        bad = ((c != want) & ~(c.isnan() & want.isnan())).nonzero()
        around = int((_around(memory["c"][0].clone(), c) != untouched).sum())
        if len(bad) or around:
            first = bad[0].tolist() if len(bad) else "-"
            return f"launch {number}: {len(bad)} of {c.numel()} elements, first {first}, {around} bytes around C"
    return ""


def _around(whole: Any, c: Any) -> Any:
    """Return the bytes around C and between its rows, with 0 for its elements."""
    import torch  # noqa: PLC0415

    torch.as_strided(whole.view(c.dtype), c.shape, c.stride(), c.storage_offset()).zero_()
    return whole


def placed(dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> tuple[Any, Any]:
    """Return the bytes of an allocation, and the tensor that lies in them behind a guard, so many bytes late."""
    import torch  # noqa: PLC0415

    if not shape:
        memory = torch.zeros(1, dtype=torch.float32, device="cuda")
        return memory, memory[0]
    memory, whole = Runner._placed(dtype, list(shape), list(strides))
    if not offset:
        return memory, whole
    size = whole.element_size()
    longer = torch.full((memory.numel() + offset // size * size,), UNTOUCHED, dtype=torch.uint8, device="cuda")
    padded = longer[: longer.numel() // size * size].view(whole.dtype)
    return longer, torch.as_strided(padded, shape, strides, (GUARD_BYTES + offset) // size)


def child(folder: Path, what: str, start: int, stop: int) -> None:
    """Go through some entries, one line of JSON each, flushed, so that a fault loses one only."""
    prepared = json.loads((folder / f"{what}.json").read_text())
    load = loader(folder) if what == "time" else None
    for index in range(start, min(stop, len(prepared))):
        try:
            found: Any = (
                check(folder, prepared[index])
                if load is None
                else beside.timed(prepared[index][0], prepared[index][1], load)
            )
        except Exception as error:  # whatever it is, it is this entry's result
            found = f"{type(error).__name__}: {str(error)[:300]}"
        print(json.dumps({"done": index, "found": found}), flush=True)
        if isinstance(found, str) and found:
            return  # the context may be lost


def all_of(folder: Path, what: str, count: int, each: int, seconds: int, workers: int) -> dict[int, Any]:  # noqa: PLR0917
    """Run all entries, `each` a process."""
    command = ["bench.gpu.ptx_products", "child", str(folder), what]
    with ThreadPoolExecutor(workers) as pool:
        starts = range(0, count, each)
        parts = pool.map(lambda at: in_processes(command, at, min(at + each, count), seconds), starts)
        return {index: found for part in parts for index, found in part.items()}


def checked(folder: Path, plans: int, kernels: int) -> dict[str, Any]:
    """Check small random products."""
    entries = prepare(folder, plans, kernels)
    (folder / "check.json").write_text(json.dumps(entries))
    print(f"{len(entries)} small products are prepared", flush=True)
    results = all_of(folder, "check", len(entries), CHUNK, CHUNK_SECONDS, WORKERS)
    wrong = [
        entry | {"found": results.get(i, "not run")} for i, entry in enumerate(entries) if results.get(i, "not run")
    ]
    by_class: dict[str, list[int]] = {}
    for i, entry in enumerate(entries):
        counts = by_class.setdefault(entry["class"], [0, 0])
        counts[0] += results.get(i) == ""
        counts[1] += 1
    print(f"{len(entries) - len(wrong)} of {len(entries)} small products right, {len(by_class)} classes", flush=True)
    for one in wrong[:20]:
        print("WRONG", one, flush=True)
    return {"small products": len(entries), "wrong": wrong, "right of each class": by_class}


def times(folder: Path) -> dict[str, Any]:
    """Time the kernels of `bench.gpu.beside` in both texts."""
    found = {}
    for backend in ("cute", "ptx"):
        beside.prepare(folder / f"{backend}.json", backend)
        found[backend] = json.loads((folder / f"{backend}.json").read_text())
    pairs = beside.pairs(found["cute"], found["ptx"])
    names = {step["cubin"] for both in pairs for one in both for step in one["steps"]}
    texts = found["cute"]["texts"] | found["ptx"]["texts"]
    build(folder, {name: texts[name] for name in names})
    (folder / "time.json").write_text(json.dumps(pairs))
    results = all_of(folder, "time", len(pairs), TIMED, TIMED_SECONDS, 1)
    rows = [one for one in results.values() if isinstance(one, dict)]
    failed = {pairs[i][1]["kernel"]: one for i, one in results.items() if not isinstance(one, dict)}
    return {"old is cute, new is ptx": beside.summed(rows), "failed": failed, "rows": rows}


def main(arguments: list[str]) -> int:
    """Check, then time; see the module's docstring."""
    if arguments[:1] == ["child"]:
        where, what, start, stop = arguments[1:]
        child(Path(where), what, int(start), int(stop))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--plans", type=int, default=80, help="small random products")
    parser.add_argument("--kernels", type=int, default=3, help="further kernels of each")
    parser.add_argument("--only", choices=("check", "time"))
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as made:
        folder = given.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        out = Path(os.environ.get("OUT", folder))
        wrong = False
        if given.only != "time":
            found = checked(folder, given.plans, given.kernels)
            wrong = bool(found["wrong"])
            (out / "ptx_products.json").write_text(json.dumps({**machine(), **found}, indent=1) + "\n")
        if given.only != "check":
            found = times(folder)
            (out / "ptx_times.json").write_text(json.dumps({**machine(), **found}, indent=1) + "\n")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

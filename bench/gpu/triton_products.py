"""Are products that Triton compiles right on a GPU, and how fast beside the same programs in CUDA C++?

    python -m bench.gpu.triton_products prepare FOLDER    # where LegalSAT is, nvcc and CuTe's headers: programs, cubins
    python -m bench.gpu.triton_products run FOLDER        # where the GPU is: torch, triton and a driver

First random products of every type, major and way to store, by a few of all kernels that Triton prints: operands are
small whole numbers, whose sums are exact in every format, so that C must be equal to float64's, rounded once, in every
element; and around C, between its rows too, nothing may change. Triton compiles the programs there, and LegalSAT's
runtime launches them with the relayouts in front, some by the `run` of their text too. A kernel that hangs takes its
process with it, and no more. Then large products, in turns: the text of Triton, the text of CuTe of the same program,
that of the cheapest program of all, and torch.

Writes triton_products.json into $OUT, else into FOLDER. Exit status 1 if a product is wrong.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from bench.gpu.products import Runner, rounds

TARGET = "h200"
WORKERS, CASE_SECONDS = 4, 30
SEED, DRAWN, LISTED = 7, 60, 400  # random products; kernels of each that are looked at
MAJORS = ("KK", "KM", "MK", "MM")
# K in 16 bytes; the last ones have more tiles than a GPU SMs, so that CTAs take several.
SMALL = ((1, 8, 2), (17, 40, 9), (129, 257, 33), (300, 136, 125), (3960, 2056, 25), (5003, 2057, 33))
BITS = {"bf16": 16, "fp16": 16, "fp32": 32, "e4m3": 8, "e5m2": 8, "i8": 8}
LARGE: tuple[tuple[int, int, int, str], ...] = (
    (4096, 4096, 4096, "bf16"),
    (8192, 8192, 8192, "bf16"),
    (4096, 4096, 4096, "fp16"),
    (4096, 4096, 4096, "fp32"),
    (4096, 4096, 4096, "e4m3"),
    (8192, 8192, 8192, "e4m3"),
    (4096, 4096, 4096, "i8"),
    (4096, 4095, 4096, "bf16"),
    (4096, 4098, 4096, "bf16"),
    (2048, 50257, 768, "bf16"),
    (512, 4096, 7168, "bf16"),
    (16, 7168, 16384, "bf16"),
    (512, 512, 8192, "bf16"),
    (64, 4096, 4096, "bf16"),
)


def drawn(rng: random.Random) -> Any:
    """Return a random product, of which anything may be odd: extents, majors, how C lies."""
    import legalsat as ls  # noqa: PLC0415 - the GPU's machine needs no solvers

    name = rng.choice(("bf16", "bf16", "fp16", "fp32", "e4m3", "e5m2"))
    m, n, k = (rng.choice((rng.randint(1, 700), 8 * rng.randint(1, 90))) for _ in "mnk")
    majors = rng.choice(MAJORS) if BITS[name] == 16 else "KK"
    a, b = (
        ls.Tensor((rows, k), name, (k, 1) if major == "K" else (1, rows))
        for rows, major in zip((m, n), majors, strict=True)
    )
    out = rng.choice(("bf16", "fp16", "fp32")) if BITS[name] == 8 else rng.choice((name, "fp32"))
    lies = rng.choice(((n, 1), (n, 1), (n + rng.randint(1, 9), 1), (1, m)))
    return ls.Gemm(m, n, k, name, out_dtype=out, a=a, b=b, c=ls.Tensor((m, n), out, lies))


def products() -> list[tuple[Any, bool, bool]]:
    """Return products, which of them are timed, and which of them run by their text too."""
    import legalsat as ls  # noqa: PLC0415

    found = [
        (ls.Gemm(m, n, 128 // bits * k, name), False, name == "bf16" and m > 2000)
        for name, bits in BITS.items()
        for m, n, k in SMALL
    ]
    for majors in MAJORS[1:]:
        for m, n, k, name in ((136, 72, 200, "bf16"), (3960, 2056, 136, "fp16"), (4096, 4096, 4096, "bf16")):
            a, b = (
                ls.Tensor((rows, k), name, (k, 1) if major == "K" else (1, rows))
                for rows, major in zip((m, n), majors, strict=True)
            )
            found.append((ls.Gemm(m, n, k, name, a=a, b=b), m == 4096, majors == "MM" and m < 4096))
    outs = (
        ("fp16", "fp16", 37, 40), ("bf16", "fp32", 61, 64), ("bf16", "fp32", 1800, 1800), ("e4m3", "e4m3", 250, 250),
        ("e4m3", "e4m3", 1808, 1808), ("i8", "i8", 1808, 1808), ("bf16", "bf16", 250, 254),
    )  # fmt: skip
    for name, out, n, pitch in outs:
        c = ls.Tensor((2000, n), out, (pitch, 1))
        found.append((ls.Gemm(2000, n, 144, name, out_dtype=out, c=c), False, False))
    return found + [(ls.Gemm(*extents), True, False) for extents in LARGE]


def kernels(gemm: Any, rng: random.Random) -> list[Any]:
    """Return the plan of the cheapest kernel that Triton prints, and those of one more of each other class."""
    from dataclasses import replace  # noqa: PLC0415

    import legalsat as ls  # noqa: PLC0415
    from bench.kernels.conformance import name_of  # noqa: PLC0415
    from legalsat.backends import refusal_of  # noqa: PLC0415
    from legalsat.extract.kernels.product_kernels import each_kernel  # noqa: PLC0415
    from legalsat.extract.moved.relayouts import ways_of  # noqa: PLC0415

    plan: Any = ls.synthesize(gemm, TARGET, backend="triton")
    refusal, found = refusal_of("triton"), {name_of(plan.kernel): plan.kernel}
    ways = [one for _, kernel in islice(each_kernel(gemm, plan.target), LISTED) for one in ways_of(kernel)]
    listed = [kernel for kernel in ways if not refusal(gemm, kernel)]
    rng.shuffle(listed)
    for kernel in listed:
        found.setdefault(name_of(kernel), kernel)
    return [replace(plan, kernel=kernel) for kernel in found.values()]


def prepare(folder: Path) -> None:
    """Write everything that a run needs."""
    import legalsat as ls  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    rng, entries, refused = random.Random(SEED), list[dict[str, Any]](), list[str]()

    def add(plan: Any, *, timed: bool = False, by_text: bool = False) -> None:
        name = f"product{len(entries):03}"
        row = written(plan, folder / name, timed=timed)
        entries.append({"name": name, "timed": timed, "by_text": by_text or row["before"] > 0} | row)

    for gemm, timed, by_text in products():
        try:
            add(ls.synthesize(gemm, TARGET, backend="triton"), timed=timed, by_text=by_text)
        except ls.LegalSatError as error:
            refused.append(f"{gemm}: {error}")
    for _ in range(DRAWN):
        gemm = drawn(rng)
        try:
            for plan in kernels(gemm, rng):
                add(plan)
        except ls.LegalSatError as error:
            refused.append(f"{gemm}: {error}")
    (folder / "products.json").write_text(json.dumps({"products": entries, "refused": refused}))
    print(f"{len(entries)} products, {sum(e['timed'] for e in entries)} of them timed; refused: {refused}")


def written(plan: Any, path: Path, *, timed: bool) -> dict[str, Any]:
    """Write a plan's program, and of what is timed cute's images; return what is said of it."""
    import legalsat as ls  # noqa: PLC0415
    from bench.kernels.conformance import name_of  # noqa: PLC0415
    from legalsat.backends import program  # noqa: PLC0415
    from legalsat.backends.cute.program import image_of, program_for  # noqa: PLC0415

    made, gemm = program(plan, "triton"), plan.operator
    made.save(path.with_suffix(".json"))
    path.with_suffix(".py").write_text(plan.emit("triton"))
    first, beside = ls.synthesize(gemm, TARGET), {}
    if timed and plan.kernel is not None and not made.before:
        for name, kernel in (("cute", plan.kernel), ("first", first.kernel)):
            assert kernel is not None
            other = program_for(gemm, kernel, plan.target)
            if other.before:
                continue
            try:
                path.with_suffix(f".{name}").write_bytes(image_of(other).to_bytes())
            except ls.LegalSatError as error:  # nvcc or CuTe's headers are missing
                print(f"{gemm}: {error}")
            else:
                beside[name] = str(kernel)
    store = plan.kernel.store
    return {
        "operator": str(gemm),
        "class": name_of(plan.kernel),
        "kernel": str(plan.kernel),
        "first": str(first.kernel),
        "majors": " ".join(plan.kernel.majors),
        "extent": [gemm.m, gemm.n, gemm.k],
        "tile": list(plan.tile),
        "stages": plan.stages,
        "store": store,
        "before": len(made.before),
        "beside": beside,
        "predicted_us": plan.cost.nanoseconds / 1000,
        "tensors": {
            side: {"dtype": t.dtype.name, "shape": list(t.shape), "strides": list(t.strides)}
            for side, t in zip("abc", (gemm.a, gemm.b, gemm.c), strict=True)
        },
    }


class Product(Runner):
    """One product on the GPU, compiled by Triton and launched by LegalSAT's runtime, or by its emitted text."""

    def __init__(self, folder: Path, entry: dict[str, Any], *, normal: bool = False) -> None:
        """Make its tensors: small whole numbers, or `normal` ones where speed is measured."""
        import torch  # noqa: PLC0415

        from legalsat.runtime.kernel import Kernel  # noqa: PLC0415
        from legalsat.runtime.program import Program  # noqa: PLC0415

        torch.cuda.init()
        torch.manual_seed(len(entry["operator"]))
        self.entry, self._text = entry, folder / f"{entry['name']}.py"
        self.program = Program.load(folder / f"{entry['name']}.json")
        self._kernel = Kernel(self.program).build()
        self.memory = {side: self._placed(**entry["tensors"][side]) for side in "abc"}
        for side in "ab":
            element = self.memory[side][1]
            values = torch.randn(element.shape, device="cuda") if normal else self._whole(element.shape)
            element.copy_(values.to(element.dtype))
        self.poison()

    def launch(self) -> None:
        """Compute C."""
        a, b, c = (self.memory[side][1] for side in "abc")
        self._kernel(a, b, out=c)

    def loaded(self, image: Any) -> Callable[[], None]:
        """Return what launches an image of a kernel with no other in front, with the least that a host can do."""
        import torch  # noqa: PLC0415

        from legalsat.runtime.driver import the_driver  # noqa: PLC0415
        from legalsat.runtime.loaded import Loaded  # noqa: PLC0415

        key = (*(self.memory[side][1].data_ptr() for side in "abc"), torch.cuda.current_stream().cuda_stream)
        ready = Loaded(the_driver().device(0), image, self.program.architecture)
        return lambda: ready.launch(("a", "b", "c"), key)

    def check_text(self) -> str:
        """Return what is wrong with what the emitted text computes by itself, "" if nothing is."""
        from importlib.util import module_from_spec, spec_from_file_location  # noqa: PLC0415

        spec = spec_from_file_location("emitted", self._text)
        assert spec is not None and spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        a, b, c = (self.memory[side][1] for side in "abc")
        self.launch = lambda: module.run(a, b, c)  # type: ignore[method-assign]
        wrong = self.check(2)
        return f"by its text: {wrong}" if wrong else ""

    def times(self, folder: Path) -> dict[str, Any]:
        """Return microseconds of each text, all in turns, and what Triton's is of the others' speed."""
        from legalsat.backends.triton.product_program import image_of  # noqa: PLC0415
        from legalsat.runtime.program import Image  # noqa: PLC0415

        ways = {"triton": self.launch if self.program.before else self.loaded(image_of(self.program))}
        for name in self.entry["beside"]:
            ways[name] = self.loaded(Image.from_bytes((folder / f"{self.entry['name']}.{name}").read_bytes()))
        us = rounds({**ways, "torch": self.rival()})
        (m, n, k), ours = self.entry["extent"], us["triton"]
        return {
            "us": {name: round(one, 2) for name, one in us.items()},
            "tflops": {name: round(2 * m * n * k / one / 1e6, 1) for name, one in us.items()},
            "triton_of": {name: round(one / ours, 3) for name, one in us.items() if name != "triton"},
        }


def child(folder: Path, what: str, numbers: list[int]) -> None:
    """Go through some products, one line of JSON each, flushed; the alarm ends a process that hangs."""
    entries = json.loads((folder / "products.json").read_text())["products"]
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # even within the driver
    for index in numbers:
        signal.alarm(CASE_SECONDS if numbers[0] != index else 3 * CASE_SECONDS)  # torch begins with the first
        try:
            if what == "time":
                found: Any = Product(folder, entries[index], normal=True).times(folder)
            else:
                product = Product(folder, entries[index])
                found = product.check(3) or (product.check_text() if entries[index]["by_text"] else "")
        except Exception as error:  # whatever it is, it is this product's result
            found = f"{type(error).__name__}: {str(error)[:300]}"
        print(json.dumps({"done": index, "found": found}), flush=True)
        if isinstance(found, str) and found:
            return  # the context may be lost


def _children(folder: Path, what: str, numbers: list[int]) -> dict[int, Any]:
    """Run products one after the other, in as many processes as it takes."""
    results: dict[int, Any] = {}
    while left := [number for number in numbers if number not in results]:
        command = [sys.executable, "-m", "bench.gpu.triton_products", "child", str(folder), what, *map(str, left)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"done"')]
        results.update({line["done"]: line["found"] for line in lines})
        if done.returncode or not lines:
            dead = next(number for number in left if number not in results)
            why = "hung" if done.returncode == -signal.SIGALRM else "died"
            results[dead] = f"process {why}: {done.stderr[-300:]}"
    return results


def run(folder: Path) -> int:
    """Check all products, then time the large ones; return 0 if all are right."""
    from bench.gpu.machine import machine  # noqa: PLC0415

    prepared = json.loads((folder / "products.json").read_text())
    entries, begin = prepared["products"], time.time()
    numbers = list(range(len(entries)))
    with ThreadPoolExecutor(WORKERS) as pool:
        parts = pool.map(lambda first: _children(folder, "check", numbers[first::WORKERS]), range(WORKERS))
        results = {index: found for part in parts for index, found in part.items()}
    wrong = {
        f"{e['name']}, {e['operator']}, {e['majors']}, {e['kernel']}": results[i]
        for i, e in enumerate(entries)
        if results[i]
    }
    seconds, classes = time.time() - begin, sorted({e["class"] for e in entries})
    for name, why in wrong.items():
        print(f"WRONG {name}: {why}", flush=True)
    print(f"{len(entries) - len(wrong)} of {len(entries)} right, {seconds:.0f} s", flush=True)
    report: dict[str, Any] = {
        "question": "are products that Triton compiles right in every element, and how fast are the large ones",
        "machine": machine(),
        "products": len(entries),
        "right": len(entries) - len(wrong),
        "by_their_text_too": sum(e["by_text"] for e in entries),
        "wrong": wrong,
        "refused": prepared["refused"],
        "classes": {one: sum(e["class"] == one for e in entries) for one in classes},
        "with_relayouts": sum(e["before"] > 0 for e in entries),
        "check_seconds": round(seconds, 1),
        "timed": {},
    }
    chosen = [i for i, e in enumerate(entries) if e["timed"] and not results[i]]
    for i in chosen:
        found, entry = _children(folder, "time", [i])[i], entries[i]
        plan = {name: entry[name] for name in ("kernel", "first", "store", "predicted_us")}
        told = found if isinstance(found, dict) else {"failed": found}
        report["timed"][f"{entry['operator']}, {entry['majors']}"] = {**plan, **told}
        print(f"{entry['operator']:45} {entry['majors']:6} {entry['store']:8} {told}", flush=True)
        _write(folder, report | {"seconds": round(time.time() - begin, 1)})
    _write(folder, report | {"seconds": round(time.time() - begin, 1)})
    return 1 if wrong else 0


def _write(folder: Path, report: dict[str, Any]) -> None:
    path = Path(os.environ.get("OUT", folder)) / "triton_products.json"
    path.write_text(json.dumps(report, indent=1) + "\n")


def main(arguments: list[str]) -> int:
    """Run the step that the arguments name; see the module's docstring."""
    match arguments:
        case ["prepare", folder]:
            prepare(Path(folder))
            return 0
        case ["run", folder]:
            return run(Path(folder))
        case ["child", folder, what, *numbers]:
            child(Path(folder), what, [int(number) for number in numbers])
            return 0
        case _:
            print(__doc__, file=sys.stderr)
            return os.EX_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Are products that Triton compiles right on a GPU, and how fast are the large ones beside torch.matmul?

    python -m bench.gpu.triton_products prepare FOLDER    # where LegalSAT is: programs, cubins, emitted texts
    python -m bench.gpu.triton_products run FOLDER        # where the GPU is: torch, triton and a driver

Operands are small whole numbers, whose sums are exact in every format, so that C must be equal to float64's, rounded
once, in every element; and around C, between its rows too, nothing may change. Kernels are launched by LegalSAT's
runtime, some by the `run` of their emitted text too. A kernel that hangs takes its process with it, and no more.

Writes triton_products.json into $OUT, else into FOLDER. Exit status 1 if a product is wrong.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.gpu.products import Runner, timing

TARGET = "h200"
WORKERS, CASE_SECONDS = 4, 12
BITS = {"bf16": 16, "fp16": 16, "fp32": 32, "e4m3": 8, "e5m2": 8, "i8": 8}
# K in 16 bytes; the last ones have more tiles than a GPU processors, so that blocks take several.
SMALL = ((1, 8, 2), (17, 40, 9), (129, 257, 33), (300, 136, 125), (3960, 2056, 25), (5003, 2057, 33))
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
)


def products() -> list[tuple[Any, bool, bool]]:
    """Return products, which of them are timed, and which of them run by their text too."""
    import legalsat as ls  # noqa: PLC0415 - the GPU's machine has no solvers

    found = [
        (ls.Gemm(m, n, 128 // bits * k, name), False, name == "bf16" and m > 2000)
        for name, bits in BITS.items()
        for m, n, k in SMALL
    ]
    for majors in ("KM", "MK", "MM"):
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


def prepare(folder: Path) -> None:
    """Write everything that a run needs."""
    import legalsat as ls  # noqa: PLC0415
    from legalsat.backends.triton.block import product_kernel_of  # noqa: PLC0415
    from legalsat.backends.triton.product_program import image_of, program_of  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []
    refused: list[str] = []
    for gemm, timed, by_text in products():
        try:
            plan: Any = ls.synthesize(gemm, TARGET).block
            made, kernel = program_of(plan), product_kernel_of(plan)
            image = image_of(made)
        except ls.LegalSatError as error:
            refused.append(f"{gemm}: {error}")
            continue
        assert not made.before, "an operand is laid out anew, which no one kernel can be timed with"
        name = f"product{len(entries):03}"
        made.save(folder / f"{name}.json")
        (folder / f"{name}.image").write_bytes(image.to_bytes())
        (folder / f"{name}.py").write_text(made.text)
        ends = dict(zip("abc", (plan.a.source, plan.b.source, gemm.c), strict=True))
        entries.append(
            {
                "name": name,
                "operator": str(gemm),
                "majors": kernel.a.major + " " + kernel.b.major,
                "extent": [gemm.m, gemm.n, gemm.k],
                "tile": list(plan.tile),
                "stages": kernel.stages,
                "slice": kernel.c.slice,
                "store": plan.epilogue.store,
                "predicted_us": plan.cost.nanoseconds / 1000,
                "timed": timed,
                "by_text": by_text,
                "tensors": {
                    side: {"dtype": t.dtype.name, "shape": list(t.shape), "strides": list(t.strides)}
                    for side, t in ends.items()
                },
            }
        )
    (folder / "products.json").write_text(json.dumps({"products": entries, "refused": refused}))
    print(f"{len(entries)} products, {sum(e['timed'] for e in entries)} of them timed; refused: {refused}")


class Product(Runner):
    """One product on the GPU, launched by LegalSAT's runtime, or by its emitted text."""

    def __init__(self, folder: Path, entry: dict[str, Any], *, normal: bool = False) -> None:
        """Make its tensors: small whole numbers, or `normal` ones where speed is measured."""
        import torch  # noqa: PLC0415

        from legalsat.runtime.driver import the_driver  # noqa: PLC0415
        from legalsat.runtime.loaded import Loaded  # noqa: PLC0415
        from legalsat.runtime.program import Image, Program  # noqa: PLC0415

        torch.cuda.init()
        torch.manual_seed(len(entry["operator"]))
        self.entry, self._text = entry, folder / f"{entry['name']}.py"
        program = Program.load(folder / f"{entry['name']}.json")
        image = Image.from_bytes((folder / f"{entry['name']}.image").read_bytes())
        self._loaded = Loaded(the_driver().device(0), image, program.architecture)
        self.memory = {side: self._placed(**entry["tensors"][side]) for side in "abc"}
        for side in "ab":
            element = self.memory[side][1]
            drawn = torch.randn(element.shape, device="cuda") if normal else self._whole(element.shape)
            element.copy_(drawn.to(element.dtype))
        self.poison()
        self._key = (*(self.memory[side][1].data_ptr() for side in "abc"), torch.cuda.current_stream().cuda_stream)

    def launch(self) -> None:
        """Compute C."""
        self._loaded.launch(("a", "b", "c"), self._key)

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


def child(folder: Path, what: str, numbers: list[int]) -> None:
    """Go through some products, one line of JSON each, flushed; the alarm ends a process that hangs."""
    entries = json.loads((folder / "products.json").read_text())["products"]
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # even within the driver
    for index in numbers:
        signal.alarm(CASE_SECONDS if numbers[0] != index else 3 * CASE_SECONDS)  # torch begins with the first
        try:
            if what == "time":
                found: Any = timing(Product(folder, entries[index], normal=True), "triton")
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
    wrong = {f"{e['operator']}, {e['majors']}, {e['name']}": results[i] for i, e in enumerate(entries) if results[i]}
    seconds = time.time() - begin
    for name, why in wrong.items():
        print(f"WRONG {name}: {why}", flush=True)
    print(f"{len(entries) - len(wrong)} of {len(entries)} right, {seconds:.0f} s", flush=True)
    chosen = [i for i, e in enumerate(entries) if e["timed"] and not results[i]]
    times = {}
    for i, found in _children(folder, "time", chosen).items():
        entry = entries[i]
        plan = {name: entry[name] for name in ("majors", "tile", "stages", "slice", "store", "predicted_us")}
        times[f"{entry['operator']}, {entry['majors']}"] = {
            **plan,
            **(found if isinstance(found, dict) else {"failed": found}),
        }
        said = f"{found['triton_tflops']:7} torch {found['torch_tflops']:7}" if isinstance(found, dict) else found
        print(f"{entry['operator']:45} {entry['majors']:6} {entry['store']:8} {said}", flush=True)
    report = {
        "question": "are products that Triton compiles right in every element, and how fast are the large ones",
        "machine": machine(),
        "products": len(entries),
        "right": len(entries) - len(wrong),
        "by_their_text_too": sum(e["by_text"] for e in entries),
        "wrong": wrong,
        "refused": prepared["refused"],
        "stored_by": {way: sum(e["store"] == way for e in entries) for way in ("tma", "threads")},
        "check_seconds": round(seconds, 1),
        "seconds": round(time.time() - begin, 1),
        "timed_beside_torch": times,
    }
    (Path(os.environ.get("OUT", folder)) / "triton_products.json").write_text(json.dumps(report, indent=1) + "\n")
    return 1 if wrong else 0


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

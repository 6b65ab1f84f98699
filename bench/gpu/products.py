"""Are products that are planned operand by operand right on a GPU, and how fast are the large ones?

    python -m bench.gpu.products prepare FOLDER    # where LegalSAT is: plans, cubins, arguments as plain numbers
    python -m bench.gpu.products run FOLDER        # where the GPU is: torch and a driver are enough
    python -m bench.gpu.products                   # both

Every product is computed from small whole numbers, whose sums are exact in every format, so that C must be equal to
float64's, rounded once, in every element; and around C, between its rows too, nothing may change. Each kernel runs
several times, in processes that may die alone. Then the large ones are timed beside torch.matmul.

Writes products.json into $OUT, else into FOLDER. Exit status 1 if a product is wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

TARGET = "h200"
GUARD_BYTES = 4096
UNTOUCHED = 0xA5
LAUNCHES = 5
CHUNK, CHUNK_SECONDS, WORKERS = 6, 150, 4
TIMED_SECONDS = 300
WARM, ROUNDS, CALLS = 3, 15, 10
DTYPES = {"bf16": 16, "fp16": 16, "fp32": 32, "e4m3": 8, "e5m2": 8, "i8": 8}
SMALL = ((1, 8, 2), (17, 40, 9), (100, 37, 25), (129, 257, 33), (300, 136, 125), (640, 512, 12))  # k in 16 bytes
LARGE = (
    (4096, 4096, 4096, "bf16"),
    (4096, 4096, 4096, "fp16"),
    (8192, 8192, 8192, "bf16"),
    (4096, 4096, 4096, "fp32"),
    (4096, 4096, 4096, "e4m3"),
    (4096, 4096, 4096, "i8"),
    (4096, 4095, 4096, "bf16"),
    (4096, 4096, 4095, "bf16"),
    (4096, 50257, 768, "bf16"),
    (16, 7168, 16384, "bf16"),
    (512, 4096, 7168, "bf16"),
)


def products() -> list[tuple[Any, bool]]:
    """Return the products, and which of them are timed."""
    import legalsat as ls  # noqa: PLC0415 - the GPU's machine has no LegalSAT

    found = [(ls.Gemm(m, n, 128 // bits * k, name), False) for name, bits in DTYPES.items() for m, n, k in SMALL]
    for majors in ("KM", "MK", "MM"):
        for m, n, k, name in ((136, 72, 200, "bf16"), (520, 264, 136, "fp16")):
            a, b = (
                ls.Tensor((rows, k), name, (k, 1) if major == "K" else (1, rows))
                for rows, major in zip((m, n), majors, strict=True)
            )
            found.append((ls.Gemm(m, n, k, name, a=a, b=b), False))
    for name, out, n, pitch in (("fp16", "fp16", 37, 40), ("bf16", "fp32", 61, 64), ("e4m3", "e4m3", 250, 250)):
        c = ls.Tensor((200, n), out, (pitch, 1))
        found.append((ls.Gemm(200, n, 144, name, out_dtype=out, c=c), False))
    return found + [(ls.Gemm(*extents), True) for extents in LARGE]


def prepare(folder: Path) -> None:
    """Write everything that a run needs."""
    import legalsat as ls  # noqa: PLC0415
    from legalsat.backends.ptx import emit_ptx  # noqa: PLC0415
    from legalsat.backends.ptx.assemble import assemble  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []
    refused: list[str] = []
    for gemm, timed in products():
        try:
            plan: Any = ls.synthesize(gemm, TARGET).block
            cubin = assemble(emit_ptx(plan), plan.target.architecture)
        except ls.LegalSatError as error:
            refused.append(f"{gemm}: {error}")
            continue
        name = f"product{len(entries):03}"
        (folder / f"{name}.cubin").write_bytes(cubin)
        entry = entry_of(plan, name)
        # A relayout would run first, which no one kernel can be timed with.
        entries.append({**entry, "timed": timed and not entry["relaid"]})
    (folder / "products.json").write_text(json.dumps({"products": entries, "refused": refused}))
    print(f"{len(entries)} products, {sum(e['timed'] for e in entries)} of them timed; refused: {refused}")


def entry_of(plan: Any, name: str) -> dict[str, Any]:
    """Return what `Runner` needs of a plan, as plain values; `name` is that of its cubin."""
    from bench.gpu.driver import map_arguments  # noqa: PLC0415
    from legalsat.backends.ptx import launch_of  # noqa: PLC0415

    gemm, launch = plan.operator, launch_of(plan)
    ends = {"a": plan.a.source, "b": plan.b.source, "c": gemm.c}
    return {
        "name": name,
        "operator": str(gemm),
        "extent": [gemm.m, gemm.n, gemm.k],
        "tile": list(plan.tile),
        "stages": plan.stages,
        "blocks": plan.blocks,
        "store": plan.epilogue.store,
        "relaid": [side for side in "ab" if getattr(plan, side).before],
        "predicted_us": plan.cost.nanoseconds / 1000,
        "tensors": {
            side: {"dtype": t.dtype.name, "shape": list(t.shape), "strides": list(t.strides)}
            for side, t in ends.items()
        },
        "entry": launch.entry,
        "grid": launch.grid,
        "threads": launch.threads,
        "shared": launch.shared,
        "parameters": list(launch.parameters),
        "maps": [map_arguments(tm) for tm in launch.maps],
    }


class Runner:
    """One product on the GPU."""

    def __init__(self, folder: Path, entry: dict[str, Any], *, normal: bool = False) -> None:
        """Make its tensors: small whole numbers, or `normal` ones where speed is measured."""
        import torch  # noqa: PLC0415

        from bench.gpu.driver import Device  # noqa: PLC0415

        torch.cuda.init()
        torch.manual_seed(len(entry["operator"]))
        self.entry, self.device = entry, Device()
        self.kernel = self.device.load((folder / f"{entry['name']}.cubin").read_bytes()).kernel(entry["entry"])
        self.memory = {side: self._placed(**entry["tensors"][side]) for side in "abc"}
        for side in "ab":
            element = self.memory[side][1]
            drawn = torch.randn(element.shape, device="cuda") if normal else self._whole(element.shape)
            element.copy_(drawn.to(element.dtype))
        self.poison()
        addresses = {name: self.memory[name[0]][1].data_ptr() for name in entry["parameters"]}
        maps = iter(entry["maps"])
        self.arguments = [
            self.device.encode(next(maps), address) if name.endswith("_map") else address
            for name, address in addresses.items()
        ]

    @staticmethod
    def _whole(shape: Any) -> Any:
        import torch  # noqa: PLC0415

        return torch.randint(-2, 3, tuple(shape), device="cuda").float()

    @staticmethod
    def _placed(dtype: str, shape: list[int], strides: list[int]) -> tuple[Any, Any]:
        """Return the bytes of an allocation, and the tensor that lies in them behind a guard."""
        import torch  # noqa: PLC0415

        kind = {
            "bf16": torch.bfloat16,
            "fp16": torch.float16,
            "fp32": torch.float32,
            "e4m3": torch.float8_e4m3fn,
            "e5m2": torch.float8_e5m2,
            "i8": torch.int8,
            "i32": torch.int32,
        }[dtype]
        span = sum((n - 1) * d for n, d in zip(shape, strides, strict=True)) + 1
        size = torch.empty((), dtype=kind).element_size()
        span_bytes = -(-span * size // 16) * 16
        memory = torch.full((span_bytes + 2 * GUARD_BYTES,), UNTOUCHED, dtype=torch.uint8, device="cuda")
        return memory, torch.as_strided(memory.view(kind), shape, strides, GUARD_BYTES // size)

    def poison(self) -> None:
        """Make every byte of C one that no result has everywhere."""
        self.memory["c"][0].fill_(UNTOUCHED)

    def launch(self) -> None:
        """Compute C."""
        import torch  # noqa: PLC0415

        entry = self.entry
        self.kernel(
            *self.arguments,
            grid=(entry["grid"],),
            block=(entry["threads"],),
            shared=entry["shared"],
            stream=torch.cuda.current_stream().cuda_stream,
        )

    def check(self, launches: int = LAUNCHES) -> str:
        """Return what is wrong after so many launches, "" if nothing is."""
        import torch  # noqa: PLC0415

        a, b, c = (self.memory[side][1] for side in "abc")
        exact = a.double() @ b.double().T + 0.0  # an accumulator begins at 0: a sum of -0 alone is 0
        if c.dtype == torch.int8:  # C saturates, torch's conversion wraps around
            exact.clamp_(-128, 127)
        expected = self.memory["c"][0].clone()
        place = torch.as_strided(expected.view(c.dtype), c.shape, c.stride(), c.storage_offset())
        place.copy_(exact.to(c.dtype))
        for number in range(launches):
            self.poison()
            self.launch()
            torch.cuda.synchronize()
            wrong = (self.memory["c"][0] != expected).nonzero()
            if len(wrong):
                inside = (c.float() != exact.to(c.dtype).float()).nonzero()
                return (
                    f"launch {number}: {len(wrong)} bytes wrong, first {int(wrong[0]) - GUARD_BYTES} from C's start; "
                    f"{len(inside)} elements, first {inside[0].tolist() if len(inside) else '-'}"
                )
        return ""

    def rival(self) -> Any:
        """Return torch's way to compute the same, None where it has none."""
        import torch  # noqa: PLC0415

        a, b = (self.memory[side][1] for side in "ab")
        torch.backends.cuda.matmul.allow_tf32 = True
        if a.dtype == torch.int8:
            return lambda: torch._int_mm(a, b.T)
        if a.element_size() == 1:
            one = torch.ones((), device="cuda")
            return lambda: torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16)
        # What LegalSAT relays first, torch gets as a user has it.
        a, b = (x.clone(memory_format=torch.contiguous_format) for x in (a, b))
        return lambda: a @ b.T


def rounds(ways: dict[str, Any]) -> dict[str, float]:
    """Return microseconds of a call of each way, medians of rounds in which they take turns."""
    import torch  # noqa: PLC0415

    samples: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(WARM + ROUNDS):
        for name, way in ways.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(CALLS):
                way()
            end.record()
            torch.cuda.synchronize()
            if number >= WARM:
                samples[name].append(begin.elapsed_time(end) * 1000 / CALLS)
    return {name: sorted(us)[ROUNDS // 2] for name, us in samples.items()}


def timing(runner: Runner) -> dict[str, Any]:
    """Return microseconds and TFLOP/s of our kernel and of torch's, which take turns."""
    m, n, k = runner.entry["extent"]
    medians = rounds({"legalsat": runner.launch, "torch": runner.rival()})
    return {
        **{f"{name}_us": round(us, 2) for name, us in medians.items()},
        **{f"{name}_tflops": round(2 * m * n * k / us / 1e6, 1) for name, us in medians.items()},
        "of_torch": round(medians["torch"] / medians["legalsat"], 3),
    }


def child(folder: Path, what: str, start: int, stop: int) -> None:
    """Go through some products, one line of JSON each, flushed, so that a fault loses one only."""
    entries = json.loads((folder / "products.json").read_text())["products"]
    for index in range(start, min(stop, len(entries))):
        try:
            runner = Runner(folder, entries[index], normal=what != "check")
            found: Any = runner.check() if what == "check" else timing(runner)
        except Exception as error:  # whatever it is, it is this product's result
            found = f"{type(error).__name__}: {str(error)[:300]}"
        print(json.dumps({"done": index, "found": found}), flush=True)
        if isinstance(found, str) and found:
            return  # the context may be lost


def in_processes(command: list[str], start: int, stop: int, seconds: int) -> dict[int, Any]:
    """Return what was found of entries from `start` up to `stop`, in as many processes as it takes.

    Args:
        command: what runs a process, without `start` and `stop`: it prints a line for each entry, as `child` does.
        start: the first entry's number.
        stop: the number behind the last one's.
        seconds: that a process may take.
    """
    results: dict[int, Any] = {}
    while start < stop:
        words = [sys.executable, "-m", *command, str(start), str(stop)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                out, err = process.communicate(timeout=seconds)
                why = f"process died: {err[-300:]}"
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                why = f"no answer within {seconds} s"
        lines = [json.loads(line) for line in out.splitlines() if line.startswith('{"done"')]
        results.update({line["done"]: line["found"] for line in lines})
        if not lines or (lines[-1]["done"] < stop - 1 and not _failed(lines[-1]["found"])):
            results[start + len(lines)] = why
            start += 1
        start += len(lines)
    return results


def _failed(found: Any) -> bool:
    return isinstance(found, str) and bool(found)


def run(folder: Path) -> int:
    """Check all products, then time the large ones; return 0 if all are right."""
    from bench.gpu.machine import machine  # noqa: PLC0415

    prepared = json.loads((folder / "products.json").read_text())
    entries, begin = prepared["products"], time.time()
    command = ["bench.gpu.products", "child", str(folder)]
    with ThreadPoolExecutor(WORKERS) as pool:
        parts = pool.map(
            lambda start: in_processes([*command, "check"], start, min(start + CHUNK, len(entries)), CHUNK_SECONDS),
            range(0, len(entries), CHUNK),
        )
        results = {index: found for part in parts for index, found in part.items()}
    wrong = {e["operator"]: results.get(i, "not run") for i, e in enumerate(entries) if results.get(i, "not run")}
    seconds = time.time() - begin
    times = {}
    for i, entry in enumerate(entries):
        if entry["timed"]:
            found = in_processes([*command, "time"], i, i + 1, TIMED_SECONDS)[i]
            plan = {name: entry[name] for name in ("tile", "stages", "blocks", "store", "relaid", "predicted_us")}
            times[entry["operator"]] = {**plan, **(found if isinstance(found, dict) else {"failed": found})}
            print(entry["operator"], found, flush=True)
    report = {
        "question": "are planned products right in every element, and how fast are the large ones",
        "machine": machine(),
        "products": len(entries),
        "right": len(entries) - len(wrong),
        "launches_each": LAUNCHES,
        "wrong": wrong,
        "refused": prepared["refused"],
        "stored_by": {way: sum(e["store"] == way for e in entries) for way in ("tma", "threads")},
        "check_seconds": round(seconds, 1),
        "timed_beside_torch": times,
    }
    (Path(os.environ.get("OUT", folder)) / "products.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({k: v for k, v in report.items() if k != "timed_beside_torch"}, indent=1))
    return 1 if wrong else 0


def main(arguments: list[str]) -> int:
    """Run the steps that the arguments name; see the module's docstring."""
    match arguments:
        case ["prepare", folder]:
            prepare(Path(folder))
            return 0
        case ["run", folder]:
            return run(Path(folder))
        case ["child", folder, what, start, stop]:
            child(Path(folder), what, int(start), int(stop))
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

"""Which faults do harm on a GPU? Each in a process of its own, beside bytes that the right kernel has written.

    python -m bench.foreign_mutants.device prepare FOLDER WORK      # where the kernels are
    python -m bench.foreign_mutants.device run WORK [SECONDS [PART]]  # where an H200 is; PART: of names

`run` launches every kernel as its recipe says, REPEATS times, with shared memory poisoned before and other work beside:
what it writes must be the same each time and something. Then every drawn fault: wrong bytes, a hang, a fault of the
GPU, or equal bytes in all repeats. Writes device.jsonl into $OUT, else into WORK, a line as soon as it is known.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, product, zip_longest
from pathlib import Path
from typing import Any

from bench.foreign_mutants.draws import MOST, drawn_for
from bench.foreign_mutants.launches import GUARD, MIB, Recipe, kept, value
from bench.foreign_mutants.recipes import RECIPES
from bench.foreign_mutants.texts import assembled, sources

REPEATS = 20
SHARED_OF_AN_SM = 227 * 1024
WORKERS = 12
HANG_SECONDS, PROCESS_SECONDS = 10, 100  # of a launch; of a process, its start and assembly included
NOISE = 64 * MIB
PATTERNS = (0xFFFFFFFF, 0, 0x7FC07FC0, 0x00010001, 0x3F803F80)  # that are left in shared memory
_BLOCK = re.compile(r"^\s*\.(?:reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", re.MULTILINE)


def prepare(folder: Path, work: Path) -> None:
    """Write the texts of kernels that there are recipes for, and which faults are drawn."""
    work.mkdir(parents=True, exist_ok=True)
    wanted = {recipe.source for recipe in RECIPES}
    found = [source for source in sources(folder) if source.name in wanted]
    for source in found:
        text = assembled(source.text)
        (work / f"{file_of(source.name)}.ptx").write_text(text)
    missing = wanted - {source.name for source in found}
    print(f"{len(found)} kernels of {len(RECIPES)} recipes" + (f"; not there: {sorted(missing)}" if missing else ""))


def file_of(name: str) -> str:
    """Return the name of a kernel as that of a file, without its ending."""
    return re.sub(r"[^\w]", "_", name)


class Bench:
    """A kernel's buffers on the GPU, and its launches."""

    def __init__(self, recipe: Recipe, text: str) -> None:
        """Allocate and fill; the text gives the block."""
        from bench.gpu.driver import Device  # noqa: PLC0415 - where a driver is

        self.device, self.recipe = Device(), recipe
        found = _BLOCK.search(text)
        self.block = [recipe.block] if recipe.block or found is None else [int(n or 1) for n in found.groups()]
        helpers = self.device.load((Path(__file__).parent / "helpers.ptx").read_bytes() + b"\0")
        self.compare, self.poison, self.noise = (helpers.kernel(name) for name in ("compare", "poison", "noise"))
        self.streams = [self._stream() for _ in range(2)]
        self.noisy, self.counts = self.device.allocate(NOISE), self.device.allocate(256)
        self.sizes = {name: size + 2 * GUARD for name, size in recipe.buffers.items()}
        self.first = {name: self._filled(name, size) for name, size in self.sizes.items()}
        self.used = {name: self.device.allocate(size) for name, size in self.sizes.items()}
        addresses = {name: at + GUARD for name, at in self.used.items()}
        self.values = [value(argument, addresses, self.device) for argument in recipe.arguments]

    def _stream(self) -> int:
        handle = ctypes.c_void_p()
        self.device.call("cuStreamCreate", ctypes.byref(handle), ctypes.c_uint(1))
        return handle.value or 0

    def _filled(self, name: str, size: int) -> int:
        place, tile = self.device.allocate(size), self.recipe.fill(name)
        for at in range(0, size, len(tile)):
            self.device.write(place + at, tile[: size - at])
        return place

    def load(self, text: str) -> None:
        """Assemble a text, and make its kernel the one that is launched."""
        entry = re.findall(r"\.entry\s+([\w$]+)", text)[0]
        self.module = self.device.load(text.encode() + b"\0")
        self.kernel = self.device._device.function(self.module._handle, entry, shared=self.recipe.shared)

    def launch(self, grid: tuple[int, ...], draw: random.Random, expected: dict[str, int]) -> dict[str, int]:
        """Launch once on fresh buffers, beside other work.

        Returns:
            In how many words each buffer, guards included, differs from what is expected of it, where it does.
        """
        from legalsat.runtime.driver import launch_config  # noqa: PLC0415

        self.begun = time.monotonic()
        call, (main, beside) = self.device.call, self.streams
        # One stream and one wait: processes that take turns on a GPU wait long for each answer.
        for name, size in self.sizes.items():
            self.copy(self.used[name], self.first[name], size)
        pattern = ctypes.c_uint32(draw.choice(PATTERNS))
        shared = ctypes.c_uint32(SHARED_OF_AN_SM)
        self.poison(shared, pattern, grid=(264,), block=(256,), shared=SHARED_OF_AN_SM, stream=main)
        blocks, rounds = draw.choice((0, 0, 1, 33, 132, 500)), ctypes.c_uint32(draw.choice((50, 400, 3000)))
        if blocks:
            self.noise(self.noisy, NOISE // 4, rounds, grid=(blocks,), block=(256,), stream=beside)
        held = [kept(data) for data in self.values]
        pointers = (ctypes.c_void_p * max(len(held), 1))(*(place for place, _ in held))
        config = launch_config(grid, self.block, self.recipe.shared, main, {})
        listed = ctypes.cast(pointers, ctypes.POINTER(ctypes.c_void_p))
        call("cuLaunchKernelEx", ctypes.byref(config), self.kernel, listed, ctypes.c_void_p(None))
        many = ctypes.c_size_t(len(self.sizes))
        call("cuMemsetD32Async", ctypes.c_uint64(self.counts), ctypes.c_uint(0), many, ctypes.c_void_p(main))
        for n, (name, size) in enumerate(self.sizes.items()):
            operands = self.used[name], expected.get(name, self.first[name]), size // 4, self.counts + 4 * n
            self.compare(*operands, grid=(1024,), block=(256,), stream=main)
        self.device.synchronize()
        found = self.device.read(self.counts, 4 * len(self.sizes))
        numbers = (int.from_bytes(found[4 * n : 4 * n + 4], "little") for n in range(len(self.sizes)))
        return {name: count for name, count in zip(self.sizes, numbers, strict=True) if count}

    def copy(self, to: int, what: int, size: int) -> None:
        """Copy bytes on the GPU."""
        stream = ctypes.c_void_p(self.streams[0])
        operands = ctypes.c_uint64(to), ctypes.c_uint64(what), ctypes.c_size_t(size), stream
        self.device.call("cuMemcpyDtoDAsync_v2", *operands)

    def watch(self) -> None:
        """End this process when a launch goes on for long: a kernel hangs."""
        self.device.synchronize()  # what was written before may still be on its way
        self.begun = time.monotonic()

        def give_up() -> None:
            while time.monotonic() < self.begun + HANG_SECONDS:
                time.sleep(0.2)
            print(json.dumps({"outcome": "hang"}), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=give_up, daemon=True).start()


def judge_right(work: Path, recipe: Recipe) -> dict[str, Any]:
    """Run a right kernel; keep what it has written if that is the same each time."""
    text = (work / f"{file_of(recipe.source)}.ptx").read_text()
    bench, draw = Bench(recipe, text), random.Random(1)
    bench.load(text)
    bench.watch()
    wrote: list[dict[str, int]] = []
    differing: dict[str, int] = {}
    for number, grid in enumerate(recipe.grids):
        wrote.append(bench.launch(grid, draw, {}))
        expected = {}
        for name in wrote[-1]:
            _expected(recipe, number, name).write_bytes(bench.device.read(bench.used[name], bench.sizes[name]))
            expected[name] = bench.device.allocate(bench.sizes[name])
            bench.copy(expected[name], bench.used[name], bench.sizes[name])
        for _ in range(REPEATS):
            for name, count in bench.launch(grid, draw, expected).items():
                differing[f"{grid} {name}"] = max(count, differing.get(f"{grid} {name}", 0))
    outcome = "differs" if differing else "right" if all(wrote) else "writes nothing"
    return {"outcome": outcome, "wrote": wrote, "differing": differing}


def judge_fault(work: Path, recipe: Recipe, index: int) -> dict[str, Any]:
    """Run a kernel with a fault; say what it did."""
    right = (work / f"{file_of(recipe.source)}.ptx").read_text()
    fault = drawn_for(recipe.source, right)[index]
    bench, draw = Bench(recipe, right), random.Random(index)
    bench.load(fault.text)
    expected: list[dict[str, int]] = [{} for _ in recipe.grids]
    for number, name in product(range(len(recipe.grids)), bench.sizes):
        path = _expected(recipe, number, name)
        if path.exists():
            expected[number][name] = bench.device.allocate(bench.sizes[name])
            bench.device.write(expected[number][name], path.read_bytes())
    bench.watch()
    for run in range(REPEATS):
        for number, grid in enumerate(recipe.grids):
            found = bench.launch(grid, draw, expected[number])
            if found:
                return {"outcome": "wrong", "run": run, "grid": grid, "words": found}
    return {"outcome": "equal"}


def _expected(recipe: Recipe, number: int, name: str) -> Path:
    """Return where the bytes lie that a right kernel leaves in a buffer, for its n-th grid."""
    return Path(tempfile.gettempdir()) / f"expected_{file_of(recipe.source)}_{number}_{name}"


def _process(work: Path, words: list[str]) -> dict[str, Any]:
    """Return what a process says of a kernel."""
    command = [sys.executable, "-m", "bench.foreign_mutants.device", *words]
    begin = time.monotonic()
    environment = {**os.environ, "CUDA_CACHE_DISABLE": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            out, errors = process.communicate(timeout=PROCESS_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            out, errors = process.communicate()
            errors += f"no answer in {PROCESS_SECONDS} s"
    seconds = round(time.monotonic() - begin, 1)
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if lines:
        return {**json.loads(lines[-1]), "seconds": seconds}
    error = re.search(r"(\w+): (CUDA_ERROR_\w+)", errors)
    if error is not None and error[1] in {"cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute"}:
        return {"outcome": "refused", "why": error[0], "seconds": seconds}
    if error is not None:
        return {"outcome": "fault", "why": error[0], "seconds": seconds}
    return {"outcome": "died", "why": errors.strip()[-400:], "seconds": seconds}


def run(work: Path, seconds: float, part: str = "") -> int:
    """Judge all that there is time for; return 0 if every right kernel is right."""
    out = Path(os.environ.get("OUT", work)) / "device.jsonl"
    end, lock = time.monotonic() + seconds - PROCESS_SECONDS / 4, threading.Lock()
    named = (recipe for recipe in RECIPES if part in recipe.source)
    recipes = [recipe for recipe in named if (work / f"{file_of(recipe.source)}.ptx").exists()]

    def noted(entry: dict[str, Any]) -> dict[str, Any]:
        with lock, out.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        print(json.dumps(entry), flush=True)
        return entry

    def right(recipe: Recipe) -> bool:
        if time.monotonic() > end:
            return False
        found = _process(work, ["right", str(work), str(RECIPES.index(recipe))])
        return bool(noted({"kernel": recipe.source, "fault": None, **found})["outcome"] == "right")

    def faulty(recipe: Recipe, index: int, kind: str, line: int) -> None:
        if time.monotonic() < end:
            found = _process(work, ["fault", str(work), str(RECIPES.index(recipe)), str(index)])
            noted({"kernel": recipe.source, "fault": index, "kind": kind, "line": line, **found})

    with ThreadPoolExecutor(WORKERS) as pool:
        good = [recipe for recipe, fine in zip(recipes, pool.map(right, recipes), strict=True) if fine]
        listed = []
        for recipe in good:
            found = drawn_for(recipe.source, (work / f"{file_of(recipe.source)}.ptx").read_text())
            # Those of all kernels before the next of each: where time ends, every kernel has some.
            order = random.Random(recipe.source).sample(range(len(found)), len(found))
            listed.append([(recipe, index, found[index].kind, found[index].line) for index in order])
        tasks = [one for one in chain.from_iterable(zip_longest(*listed)) if one is not None]
        for task in [pool.submit(faulty, *one) for one in tasks]:
            task.result()
    print(f"{len(good)} of {len(recipes)} kernels are right, {len(tasks)} faults were drawn, {MOST} a kernel at most")
    return int(len(good) < len(recipes))


def main(arguments: list[str]) -> int:
    """Do the step that the arguments name; see the module's docstring."""
    match arguments:
        case ["prepare", folder, work]:
            prepare(Path(folder), Path(work))
        case ["run", work]:
            return run(Path(work), 540.0)
        case ["run", work, seconds, *part]:
            return run(Path(work), float(seconds), *part)
        case ["right", work, number]:
            print(json.dumps(judge_right(Path(work), RECIPES[int(number)])), flush=True)
            os._exit(0)
        case ["fault", work, number, index]:
            print(json.dumps(judge_fault(Path(work), RECIPES[int(number)], int(index))), flush=True)
            os._exit(0)
        case _:
            print(__doc__, file=sys.stderr)
            return os.EX_USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

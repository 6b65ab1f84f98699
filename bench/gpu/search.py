"""How near do the kernels that LegalSAT times come to the best of all kernels that it lists?

    python -m bench.gpu.search prepare FOLDER [N]          # where LegalSAT, nvcc and CuTe are: N products, else 20
    python -m bench.gpu.search compile FOLDER              # where an nvcc is; run does it where it was not done
    python -m bench.gpu.search run FOLDER [--seconds 400]  # where the GPU is, with nvcc, torch and a driver
    python -m bench.gpu.search judge [FILE]

Products are drawn from those of `bench.gpu.gemm`, in a random order. Every kernel that `product_kernels` lists for
one is compiled as the library does, checked against float64, and timed as there, with operands rotating through more
memory than L2 holds; none is left out for its predicted time. Timing begins when all are compiled. It is done by a
process that is replaced when a kernel hangs or ends it. A product for which no time was left is reported as left out.
Writes search.json into $OUT, else into FOLDER.

The judgement repeats what `legalsat.runtime.choice` does: of the first 16 by predicted time, the best three of a quick
round are timed once more, and the best of those is taken. Its share is the time of the best of all over its own, both
of the same rounds, which hold more launches than the library's.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from bench.gpu.gemm import KINDS, TARGET, TOLERANCE, Product, loader, microseconds, shape_of, steps_of
from bench.gpu.gemm_shapes import Shape, product_of

DRAWN = {"legal": 10, "narrow": 2, "illegal": 8}  # products of each kind
SEED = 20261122
ARCHITECTURE = "sm_90a"
MEASURED = (1, 4, 8, 16)  # kernels that a search may time; the last is what the library does
RETIMED = 3  # of those, as in the library
QUICK, FINAL = 3, 9  # rounds, before which every kernel has one
SLOW = 3.0  # times the best of that first round: not timed again
FINALISTS = 6
COMPILING_SHARE = 0.7  # of the seconds of a run
START_SECONDS, SILENT_SECONDS = 180.0, 30.0  # until a process that times is ready; between two of its messages
TRIES = 4  # processes that a product may take along


def drawn() -> list[tuple[str, Shape]]:
    """Return the products, each with its kind."""
    rng = random.Random(SEED)
    found = [(kind, shape) for kind, count in DRAWN.items() for shape in rng.sample(KINDS[kind](), count)]
    rng.shuffle(found)  # so that those for which no time is left are of all kinds
    return found


def prepare(folder: Path, count: int | None) -> None:
    """Write every kernel of the first `count` products, all if None, and the headers of CuTe that they include."""
    from legalsat.backends.cute.program import program_for  # noqa: PLC0415 - the GPU's machine has no LegalSAT
    from legalsat.extract.kernels.product_kernels import product_kernels  # noqa: PLC0415
    from legalsat.targets import target  # noqa: PLC0415

    gpu, products, texts = target(TARGET), list[dict[str, Any]](), dict[str, str]()
    for kind, shape in drawn()[:count]:
        gemm, before = product_of(shape), len(texts)
        candidates = [
            {
                "kernel": str(kernel),
                "steps": steps_of(program_for(gemm, kernel, gpu), texts),
                "predicted_us": nanoseconds / 1000,
            }
            for nanoseconds, kernel in product_kernels(gemm, gpu)
        ]
        products.append({"kind": kind, "shape": shape.plain(), "candidates": candidates})
        print(
            f"{shape!s:38} {kind:8} {len(candidates):4} kernels, {len(texts) - before:4} texts not among those before"
        )
    write(folder, {"products": products, "texts": texts})


def write(folder: Path, prepared: Mapping[str, Any]) -> None:
    """Write what `read` returns, and the headers that its texts include."""
    from legalsat.backends.cute.compile import headers  # noqa: PLC0415

    products, texts = prepared["products"], prepared["texts"]
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.cubin"):
        if path.stem not in texts:
            path.unlink()
    shutil.rmtree(folder / "include", ignore_errors=True)
    included = headers_of(texts.values())
    for header in included:
        (folder / "include" / header).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(headers() / header, folder / "include" / header)
    with gzip.open(folder / "search.json.gz", "wt", encoding="utf-8") as file:
        json.dump(prepared, file)
    kernels = sum(len(one["candidates"]) for one in products)
    print(f"{len(products)} products, {kernels} kernels, {len(texts)} texts, {len(included)} headers")


def headers_of(texts: Iterable[str]) -> list[Path]:
    """Return the headers of CuTe that texts include, relative to their folder, as nvcc finds them."""
    from legalsat.backends.cute.compile import OPTIONS, headers, nvcc  # noqa: PLC0415

    alike = {tuple(line for line in text.splitlines() if line.startswith("#")): text for text in texts}
    root, found = headers(), set[Path]()
    number = ARCHITECTURE.removeprefix("sm_")
    for text in alike.values():
        with tempfile.TemporaryDirectory() as place:
            source = Path(place, "kernel.cu")
            source.write_text(text, encoding="utf-8")
            command = [nvcc(), *OPTIONS, "-M", f"-gencode=arch=compute_{number},code={ARCHITECTURE}", "-I", str(root)]
            said = subprocess.run([*command, str(source)], capture_output=True, text=True, check=True).stdout
        paths = (Path(os.path.normpath(word)) for word in said.split())
        found |= {path.relative_to(root) for path in paths if path.is_relative_to(root)}
    return sorted(found)


def read(folder: Path) -> dict[str, Any]:
    """Return what was prepared in a folder."""
    with gzip.open(folder / "search.json.gz", "rt", encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
    return found


def compile_all(folder: Path, prepared: Mapping[str, Any], until: float = float("inf")) -> dict[str, str]:
    """Compile what is not yet, in the order of the products, one text for each processor at once.

    Args:
        folder: where cubins go.
        prepared: as `read` returns it.
        until: seconds of time.monotonic() after which no text is begun.

    Returns:
        what nvcc said of texts that it refuses, by name.
    """
    os.environ["CUTLASS_PATH"] = str(folder.resolve())  # the headers that were prepared
    from legalsat.backends.cute.compile import CompilationFailed, cubin_of, nvcc  # noqa: PLC0415

    nvcc()  # which says so where there is none

    def build(name: str) -> str:
        path = folder / f"{name}.cubin"
        if path.exists() or time.monotonic() > until:
            return ""
        try:
            code = cubin_of(prepared["texts"][name], ARCHITECTURE)
        except CompilationFailed as error:
            return str(error)
        path.with_suffix(".part").write_bytes(code)  # a run may be ended at any time
        path.with_suffix(".part").replace(path)
        return ""

    names = list(dict.fromkeys(name for one in prepared["products"] for name in _names(one)))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return {name: why for name, why in zip(names, pool.map(build, names), strict=True) if why}


def first_of_each(kernels: Iterable[tuple[float, Any]], key: Callable[[Any], object]) -> Iterator[tuple[float, Any]]:
    """Yield kernels with their predicted times that are the first ones of a key."""
    seen = set[object]()
    for time_, kernel in kernels:
        if key(kernel) not in seen:
            seen.add(key(kernel))
            yield time_, kernel


def _names(product: Mapping[str, Any]) -> Iterable[str]:
    """Return the names of a product's texts."""
    return (step["cubin"] for candidate in product["candidates"] for step in candidate["steps"])


def refused_of(product: Mapping[str, Any], refused: Mapping[str, str]) -> dict[str, str]:
    """Return those of a product's kernels of which nvcc refuses a text, with what it said."""
    return {
        str(i): refused[step["cubin"]]
        for i, candidate in enumerate(product["candidates"])
        for step in candidate["steps"]
        if step["cubin"] in refused
    }


def measure(
    entry: Mapping[str, Any], load: Callable[[Any], Any], failed: Mapping[str, str], say: Any
) -> dict[str, Any]:
    """Check and time all kernels of a product.

    Args:
        entry: the product.
        load: loads a step.
        failed: kernels that are not launched.
        say: is told of each kernel before it is launched for the first time, and of "" before kernels are timed.

    Returns:
        reasons of kernels that are refused or wrong; the others' times, a round's and those of the best few.
    """
    from legalsat.errors import LegalSatError  # noqa: PLC0415

    product = Product(shape_of(entry["shape"]))
    exact, ways, wrong = product.exact(), dict[str, list[Callable[[], None]]](), dict[str, str]()
    for number, candidate in enumerate(entry["candidates"]):
        name = str(number)
        if name in failed:
            continue
        say(name)
        try:
            calls = product.ours(candidate["steps"], load)
            error = product.error(calls[0], exact)
        except LegalSatError as refusal:
            wrong[name] = str(refusal)
            continue
        if error < TOLERANCE:
            ways[name] = calls
        else:
            wrong[name] = f"off by {error:.3g} of the norm"
    say("")
    quick = microseconds(ways, 1)
    least = min(quick.values(), default=0.0)
    quick |= microseconds({name: calls for name, calls in ways.items() if quick[name] <= SLOW * least}, QUICK)
    final = microseconds({name: ways[name] for name in finalists(quick)}, FINAL)
    return {
        "failed": wrong,
        "quick_us": {name: round(us, 3) for name, us in quick.items()},
        "final_us": {name: round(us, 3) for name, us in final.items()},
    }


def first(quick: Mapping[str, float], most: int) -> list[str]:
    """Return those that the library would time once more if it timed `most` kernels."""
    return sorted((name for name in quick if int(name) < most), key=quick.__getitem__)[:RETIMED]


def finalists(quick: Mapping[str, float]) -> list[str]:
    """Return the best of all, and what searches would time once more."""
    best = sorted(quick, key=quick.__getitem__)[:FINALISTS]
    return list(dict.fromkeys([*best, *(name for most in MEASURED for name in first(quick, most))]))


def work(folder: Path, measured: Callable[..., dict[str, Any]], pipe: Any) -> None:
    """Time the products that are asked for through a pipe, whose other end is a `Watched`.

    Args:
        folder: where they were prepared.
        measured: times one, as `measure` does.
        pipe: the pipe.
    """
    import torch  # noqa: PLC0415

    from bench.gpu.machine import machine  # noqa: PLC0415

    load, prepared = loader(folder), read(folder)
    pipe.send(("ready", machine()))
    while True:
        try:
            number, failed = pipe.recv()
        except EOFError:
            return
        try:
            row = measured(prepared["products"][number], load, failed, lambda name: pipe.send(("trying", name)))
        except Exception as error:  # after which the GPU's context may be of no use
            traceback.print_exc()
            pipe.send(("failed", f"{type(error).__name__}: {error}".splitlines()[0]))
            return
        torch.cuda.empty_cache()
        pipe.send(("row", row))


class Watched:
    """A process that times products, replaced by another when it is silent for too long, or ends.

    Attributes:
        machine: what the process said that it runs on.
    """

    def __init__(self, target: Callable[[Any], None], silent: float = SILENT_SECONDS) -> None:
        """Take what the process calls with its end of a pipe, and the seconds that it may be silent."""
        self.machine: dict[str, Any] = {}
        self._target, self._silent = target, silent
        self._process: Any = None

    def row(self, number: int, failed: dict[str, str], deadline: float) -> dict[str, Any] | str:
        """Return the row of a product, or why there is none.

        Args:
            number: of the product.
            failed: kernels that are not to be launched, with reasons. Those that hang or end the process are added.
            deadline: seconds of time.monotonic() after which none is begun.
        """
        said = "no time was left"
        for _ in range(TRIES):
            if time.monotonic() > deadline:
                return said
            if self._process is None or not self._process.is_alive():
                self._begin()
            self._pipe.send((number, failed))
            trying, (kind, said) = "", self._told(self._silent)
            while kind == "trying":
                trying, (kind, said) = said, self._told(self._silent)
            if kind == "row":
                found: dict[str, Any] = said
                return found
            self.end()
            if not trying:
                return f"while no kernel was launched for the first time: {said}"
            failed[trying] = said
        return f"{TRIES} kernels ended the process; the last one: {said}"

    def end(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._pipe.close()
            self._process.kill()
            self._process.join(self._silent)
            self._process = None

    def _begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=self._target, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()  # so that the pipe ends with the process
        kind, self.machine = self._told(START_SECONDS)
        if kind != "ready":
            raise RuntimeError(f"the process that times kernels did not start: {self.machine}; see what it printed")

    def _told(self, seconds: float) -> tuple[str, Any]:
        """Return the next message."""
        try:
            if self._pipe.poll(seconds):
                kind, said = self._pipe.recv()
                return kind, said
        except (EOFError, ConnectionError):
            self._process.join(self._silent)
            return "failed", f"the process ended with status {self._process.exitcode}"
        return "failed", f"silent for {seconds:.0f} s"


def run(folder: Path, seconds: float) -> int:
    """Compile what is not yet, then check and time every kernel of every product."""
    from legalsat.backends.cute.compile import nvcc_version  # noqa: PLC0415

    started, prepared = time.monotonic(), read(folder)
    refused = compile_all(folder, prepared, started + COMPILING_SHARE * seconds)
    compiled = time.monotonic() - started
    print(f"compiled in {compiled:.0f} s; nvcc refuses {len(refused)} texts", flush=True)
    out, watched = Path(os.environ.get("OUT", folder), "search.json"), Watched(partial(work, folder, measure))
    rows, left_out = list[dict[str, Any]](), list[dict[str, Any]]()
    for number, entry in enumerate(prepared["products"]):
        shape, kernels = str(shape_of(entry["shape"])), entry["candidates"]
        failed = refused_of(entry, refused)
        found: dict[str, Any] | str = "not all of its kernels were compiled in time"
        if all(name in refused or (folder / f"{name}.cubin").exists() for name in _names(entry)):
            found = watched.row(number, failed, started + seconds)
        head = {"shape": shape, **entry["shape"], "kind": entry["kind"]}
        if isinstance(found, str):
            left_out.append({**head, "kernels": len(kernels), "why": found})
            print(f"{shape:38} LEFT OUT: {found}", flush=True)
        else:
            row = {
                **head,
                "kernels": {str(i): one["kernel"] for i, one in enumerate(kernels)},
                "predicted_us": {str(i): round(one["predicted_us"], 3) for i, one in enumerate(kernels)},
                **found,
                "failed": failed | found["failed"],
            }
            rows.append(row)
            print(line(row), flush=True)
        report = {
            "question": "how near do the kernels that LegalSAT times come to the best of all that it lists",
            "machine": {**watched.machine, "nvcc": nvcc_version()},
            "space": "every kernel of product_kernels for each product; none was left out",
            "drawn": {**DRAWN, "seed": SEED},
            "compiling_seconds": round(compiled, 1),
            "seconds": round(time.monotonic() - started, 1),
            "left_out": left_out,
            "rows": rows,
        }
        out.write_text(json.dumps(report, indent=1) + "\n")
    watched.end()
    return bool(left_out) or any(row["failed"] for row in rows)


def best(row: Mapping[str, Any]) -> str:
    """Return the best kernel of all, "" where none is right; its number is its place in the model's order, from 0."""
    return min(row["final_us"], key=row["final_us"].__getitem__, default="")


def share(row: Mapping[str, Any], most: int) -> float:
    """Return the best kernel's time over that of what a search takes which times `most`; 0 where it has none."""
    found = first(row["quick_us"], most)
    return row["final_us"][best(row)] / min(row["final_us"][name] for name in found) if found else 0.0


def line(row: Mapping[str, Any]) -> str:
    """Return a row in words."""
    name = best(row)
    counts = f"{row['shape']:38} {len(row['kernels']):4} kernels, {len(row['quick_us']):4} timed"
    wrong = f", {len(row['failed'])} FAILED" if row["failed"] else ""
    if not name:
        return counts + wrong
    us, place = row["final_us"][name], f"number {int(name) + 1}: {row['kernels'][name]}"
    shares = " ".join(f"{share(row, most):.3f}" for most in MEASURED)
    return f"{counts}{wrong}, best {us:9.2f} us, shares {shares}; {place}"


def judge(file: Path) -> None:
    """Print each product, and the mean and least shares of searches."""
    report = json.loads(file.read_text())
    rows = report["rows"]
    for row in rows:
        print(line(row))
        for name, why in row["failed"].items():
            print(f"    {row['kernels'][name]}: {why}")
    for one in report["left_out"]:
        print(f"{one['shape']:38} {one['kernels']:4} kernels, LEFT OUT: {one['why']}")
    listed, timed = (sum(len(row[name]) for row in rows) for name in ("kernels", "quick_us"))
    print(f"{len(rows)} products, {len(report['left_out'])} left out; {timed} of {listed} kernels timed")
    for most in MEASURED if rows else ():
        shares = [share(row, most) for row in rows]
        mean = statistics.geometric_mean(shares) if all(shares) else 0.0
        print(f"first {most:2}: {mean:.4f} of the best's speed, {min(shares):.4f} at least")


def main() -> int:
    """Run the command that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.search")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("prepare", "compile", "run"):
        commands.add_parser(name).add_argument("folder", type=Path)
    commands.choices["prepare"].add_argument("count", type=int, nargs="?", help="products, all if left out")
    commands.choices["run"].add_argument("--seconds", type=float, default=400.0, help="after which none is begun")
    results = Path(__file__).parent / "results" / "search.json"
    commands.add_parser("judge").add_argument("file", type=Path, nargs="?", default=results)
    asked = parser.parse_args()
    if asked.command == "prepare":
        prepare(asked.folder, asked.count)
    elif asked.command == "compile":
        for name, why in compile_all(asked.folder, read(asked.folder)).items():
            print(f"{name}: {why}")
    elif asked.command == "run":
        return run(asked.folder, asked.seconds)
    else:
        judge(asked.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())

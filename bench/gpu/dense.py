"""How fast are first choices for shapes that nobody chose, beside cuBLAS?

    python -m bench.gpu.dense prepare FOLDER SEED N [--dtype e4m3] [--illegal] [--target h100] [--kernels 1]
                                      [--shapes FILE] [--checked] [--usual]
                                      [--spread 20 [--shared-texts 500]] [--ways]
    python -m bench.gpu.dense run FOLDER [--seconds 400] [--compiled 0] [--parts]    # where the GPU, nvcc and torch are
    python -m bench.gpu.dense judge [FILE]

Shapes are drawn by the seed: m, n and k log-uniform, n and k whole granules, every form that torch calls; illegal ones
have some rows that are no whole granules. Those that cuBLAS takes less than 12 us for are left out, an illegal one's
time being that of the nearest legal shape. Of each, as many kernels as asked of those predicted to be fastest are
compiled, and others at random among those predicted within a few times the best, for fitting. A kernel takes longer to
compile than to time, and its text serves all products of a class: with --shared-texts, others come from kernels whose
texts are there once there are so many. Cubins that a folder holds already (`python -m bench.gpu.search compile FOLDER`)
are taken as they are. Each kernel is checked against float64, then timed in turns with cuBLAS: CUDA graphs whose
launches rotate through more operands than L2 holds; beside the illegal ones also operands padded first, and for
as many as asked what torch.compile makes of them. --checked are two small products of each text besides, of whole
numbers, which must be right in every element, with guards around C. --usual times beside each kernel the same one in
the order of tiles, and by the maps, that suit any extents, where its own are others. --ways takes of each way in which
C leaves, beside the first choice, the kernel that is predicted to be fastest too. --parts times passes over operands
and the product behind them apart as well.
Writes dense.json into $OUT, else into FOLDER.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from bench.gpu.gemm import (
    KINDS,
    LEAST_MICROSECONDS,
    TARGET,
    TOLERANCE,
    TOLERANCES,
    Product,
    check,
    checks,
    shape_of,
    steps_of,
)
from bench.gpu.gemm_shapes import BYTES, Shape, product_of, storage
from bench.gpu.search import Watched, compile_all, first_of_each, read, refused_of, work, write

LEAST, MOST = 64, 24576  # of an extent
MOST_FLOPS = 3e12  # of a product, a few milliseconds
LEAST_FLOPS = 2e9  # less never takes cuBLAS as long as is asked
LEAST_US = 12.0  # in cuBLAS
FORMS = ("NT", "NT", "NN", "TN")
WAYS, MOST_WAYS = 1.25, 4  # of the best prediction, and so many ways of each product
WITHIN = (1.4, 3.0)  # of the best prediction: kernels for fitting, half of them each
GROUPS = (1, 2, 4, 8, 16, 32)
MOST_LISTED = 3000  # kernels of a product that are drawn from
ROUNDS = 7
SMALL = "small"  # kind of products that are checked alone
SILENT_SECONDS = 25.0
SILENT_COMPILING = 120.0
IN_FRONT, BEHIND = "passes_us", "product_us"  # what a row says of parts of a product
WRITTEN_SECONDS = 3.0  # between two times that a run's rows are written, which it may be ended after


def drawn(seed: int, count: int, dtype: str, *, illegal: bool = False) -> list[Shape]:
    """Return random products, such as some rows are no whole granules of if asked."""
    rng, found = random.Random(seed), list[Shape]()
    unit = 16 // BYTES[dtype]
    while len(found) < count:
        m, n, k = (round(math.exp(rng.uniform(math.log(LEAST), math.log(MOST)))) for _ in range(3))
        form = "NT" if BYTES[dtype] == 1 else rng.choice(FORMS)
        if not illegal:
            n, k = (max(unit, one // unit * unit) for one in (n, k))
            m = m // unit * unit or unit if form == "TN" else m
        shape = Shape(m, n, k, form, dtype)
        rows = [n, *(columns for (_, columns), _, _ in storage(shape).values())]
        if LEAST_FLOPS <= 2 * m * n * k <= MOST_FLOPS and any(one % unit for one in rows) == illegal:
            found.append(shape)
    return found


class Others:
    """Draws kernels for fitting, in the order of products; later ones share texts once there are many."""

    def __init__(
        self,
        seed: int,
        most: int | None,
        texts: dict[str, str],
        written: Callable[[Any, Any, dict[str, str]], Any],
    ) -> None:
        """Take the seed, how many texts there may be before they are shared, and those that there are.

        Args:
            seed: of what is drawn.
            most: texts; None where none are shared.
            texts: by name, to which those of new kernels are added.
            written: adds the texts of a product's kernel to some.
        """
        self._rng, self._most, self._texts, self._written = random.Random(seed), most, texts, written
        self._groups: dict[Any, list[int]] = {}

    def remember(self, kernel: Any) -> None:
        """Take note of a kernel whose texts are there."""
        known = self._groups.setdefault(_ungrouped(kernel), [])
        if kernel.group not in known:
            known.append(kernel.group)

    def drawn(self, gemm: Any, listed: list[tuple[float, Any]], taken: int, count: int) -> list[Any]:
        """Return so many of a product's kernels, fewer where there are not: a half each within two shares of the best.

        Args:
            gemm: the product.
            listed: its kernels, with predicted nanoseconds, the best first.
            taken: so many of them are not drawn.
            count: how many.
        """
        found: list[Any] = []
        for share, most in zip(WITHIN, (count // 2, count), strict=True):
            within = [kernel for ns, kernel in listed[taken:] if ns <= share * listed[0][0]]
            fitting = (one for one in self._open(gemm, within) if one not in found)
            found += islice(fitting, most - len(found))
        for one in found:
            self._written(gemm, one, self._texts)
            self.remember(one)
        return found

    def _open(self, gemm: Any, kernels: list[Any]) -> Iterator[Any]:
        """Yield kernels in a random order, none whose texts are not there if they are to be shared."""
        if self._most is None or len(self._texts) < self._most:
            for kernel in self._rng.sample(kernels, len(kernels)):
                yield replace(kernel, group=self._rng.choice(GROUPS))
            return
        known = [replace(one, group=group) for one in kernels for group in self._groups.get(_ungrouped(one), ())]
        for kernel in self._rng.sample(known, len(known)):
            needed: dict[str, str] = {}
            self._written(gemm, kernel, needed)
            if needed.keys() <= self._texts.keys():  # a kernel of another class may have another
                yield kernel


def _ungrouped(kernel: Any) -> Any:
    return replace(kernel, group=1)


def prepare(asked: argparse.Namespace) -> None:
    """Write the texts of every shape's kernels."""
    from legalsat.backends.cute.program import program_for  # noqa: PLC0415 - the GPU's machine has no LegalSAT
    from legalsat.extract.cost.kernel_cost import kernel_cost  # noqa: PLC0415
    from legalsat.extract.kernels.product_kernels import each_kernel  # noqa: PLC0415
    from legalsat.targets import target  # noqa: PLC0415

    gpu, texts = target(asked.target), dict[str, str]()
    if asked.shapes:
        shapes = [shape_of(one) for one in json.loads(asked.shapes.read_text(encoding="utf-8"))][: asked.count]
    elif asked.of:
        shapes = KINDS[asked.of]()[: asked.count]
    else:
        shapes = drawn(asked.seed, asked.count, asked.dtype, illegal=asked.illegal)
    kind = "illegal" if asked.illegal or asked.of == "illegal" else "legal"

    def written(gemm: Any, kernel: Any, texts: dict[str, str]) -> list[dict[str, Any]]:
        return steps_of(program_for(gemm, kernel, gpu), texts)

    listings = [
        (gemm, list(islice(each_kernel(gemm, gpu), MOST_LISTED))) for gemm in (product_of(shape) for shape in shapes)
    ]
    chosen = [[kernel for _, kernel in listed[: asked.kernels]] for _, listed in listings]
    if asked.ways:
        chosen = [
            list(dict.fromkeys((*own, *of_ways(listed)))) for own, (_, listed) in zip(chosen, listings, strict=True)
        ]
    for (gemm, _), kernels in zip(listings, chosen, strict=True):
        for kernel in kernels:
            written(gemm, kernel, texts)
    others = Others(asked.seed, asked.shared_texts, texts, written)
    for kernel in (one for kernels in chosen for one in kernels):
        others.remember(kernel)
    for (gemm, listed), kernels in zip(listings, chosen, strict=True):
        kernels.extend(others.drawn(gemm, listed, asked.kernels, asked.spread))

    if asked.usual:
        chosen = [[other for one in kernels for other in (one, *usual(one))] for kernels in chosen]
    products: list[dict[str, Any]] = [
        {
            "kind": kind,
            "shape": shape.plain(),
            "candidates": [
                {
                    "kernel": str(kernel),
                    "numbers": numbers_of(kernel),
                    "steps": written(gemm, kernel, texts),
                    "predicted_us": kernel_cost(gemm, kernel, gpu).nanoseconds / 1000,
                }
                for kernel in kernels
            ],
        }
        for shape, (gemm, _), kernels in zip(shapes, listings, chosen, strict=True)
    ]
    if asked.checked:
        several = (zip(kernels, one["candidates"], strict=True) for kernels, one in zip(chosen, products, strict=True))
        by_text = {
            candidate["steps"][-1]["cubin"]: (shape, kernel)
            for shape, pairs in zip(shapes, several, strict=True)
            for kernel, candidate in pairs
        }
        products = [*small(checks(by_text, gpu, texts)), *products]
    write(asked.folder, {"products": products, "texts": texts, "seed": asked.seed, "target": asked.target})


def of_ways(listed: list[tuple[float, Any]]) -> list[Any]:
    """Return of each way in which C leaves, behind a tile, behind the next one's turns or in turns, the first kernel.

    Args:
        listed: kernels with predicted nanoseconds, the best first; those predicted much longer than it are left out.
    """
    near = (one for one in listed if one[0] <= WAYS * listed[0][0] and one[1].slices == one[1].split == 1)
    firsts = first_of_each(near, lambda kernel: (kernel.store, kernel.ping_pong, kernel.overlapped > 0))
    return [kernel for _, kernel in islice(firsts, MOST_WAYS)]


def usual(kernel: Any) -> list[Any]:
    """Return a kernel with the order of tiles, and with the maps, that suit any extents, where its own are others."""
    from legalsat.extract.kernels.for_extents import for_any_extents  # noqa: PLC0415

    plain = for_any_extents(kernel)
    others = replace(kernel, group=plain.group), replace(kernel, streamed=plain.streamed)
    return [one for one in others if one != kernel]


def small(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield small products, each with one kernel, which is checked and not timed."""
    for one in entries:
        candidate = {"kernel": one["kernel"], "numbers": {}, "steps": one["steps"], "predicted_us": 0.0}
        yield {"kind": SMALL, "shape": one["shape"], "candidates": [candidate]}


def numbers_of(kernel: Any) -> dict[str, int]:
    """Return what decides how long a kernel takes, as plain numbers."""
    from legalsat.extract.cost.kernel_columns import KernelColumns  # noqa: PLC0415

    columns = KernelColumns.of((kernel,))
    found = {one.name: int(getattr(columns, one.name)[0]) for one in fields(columns)}
    return {**found, "warpgroups": kernel.warpgroups, "streamed": sum(kernel.streamed)}


def graphed(ways: dict[str, list[Callable[[], None]]], stream: Any) -> dict[str, float]:
    """Return the median time of a call of each way, the ways in turns, each a CUDA graph of its calls."""
    import torch  # noqa: PLC0415

    graphs: dict[str, tuple[Any, int]] = {}
    samples: dict[str, list[float]] = {name: [] for name in ways}

    def captured(calls: list[Callable[[], None]], repeats: int) -> tuple[Any, int]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(repeats):
                for call in calls:
                    call()
        return graph, repeats * len(calls)

    def timed(name: str) -> float:
        graph, count = graphs[name]
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record(stream)
        graph.replay()
        end.record(stream)
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) * 1000 / count

    with torch.cuda.stream(stream):
        for name, calls in ways.items():
            for call in calls[:2]:  # libraries choose a kernel at a first call
                call()
            torch.cuda.synchronize()
            graphs[name] = captured(calls, 1)
            timed(name)
            graphs[name] = captured(calls, max(1, min(16, int(LEAST_MICROSECONDS / (timed(name) * len(calls))))))
        for _ in range(ROUNDS):
            for name in ways:
                samples[name].append(timed(name))
    return {name: statistics.median(found) for name, found in samples.items()}


def measure(
    compiled: bool,
    entry: dict[str, Any],
    load: Callable[[Any], Any],
    failed: dict[str, str],
    say: Callable[[str], None],
    *,
    parts: bool = False,
) -> dict[str, Any]:
    """Check and time a product's kernels, beside torch.compile's if asked; else as `bench.gpu.search.measure`.

    With `parts` what runs in front of a kernel and the kernel are timed apart too.
    """
    import torch  # noqa: PLC0415

    stream = torch.cuda.Stream()
    if entry["kind"] == SMALL:
        with torch.cuda.stream(stream):
            off = "" if failed else check({**entry["candidates"][0], "shape": entry["shape"]}, load)
        return {"us": {}, "wrong": {"0": off} if off else {}}
    with torch.cuda.stream(stream):
        product = Product(shape_of(entry["shape"]))
        exact, wrong = product.exact(), dict[str, str]()
        rivals = {"cublas": product.cublas(fast=True)}
        if entry["kind"] == "illegal":
            rivals |= {"nearest": product.nearest(fast=True), "padded": product.padded()}
            if compiled:
                say("compiled")
                rivals["compiled"] = product.compiled()
        rivals = {name: calls for name, calls in rivals.items() if calls}
        ways = dict(rivals)
        for number, candidate in enumerate(entry["candidates"]):
            name = str(number)
            if name in failed:
                continue
            say(name)
            calls = product.ours(candidate["steps"], load)
            error = product.error(calls[0], exact)
            if error < TOLERANCES.get(product.shape.dtype, TOLERANCE):
                ways[name] = calls
                apart = {IN_FRONT: slice(-1), BEHIND: slice(-1, None)} if parts and candidate["steps"][1:] else {}
                for which, some in apart.items():
                    ways[f"{which} {name}"] = product.ours(candidate["steps"], load, some=some)
            else:
                wrong[name] = f"off by {error:.3g} of the norm"
        say("")
        torch.cuda.synchronize()
    us = graphed(ways, stream)
    rounded = {name: round(one, 3) for name, one in us.items()}
    return {
        **{f"{name}_us": rounded.pop(name) for name in rivals},
        **{
            which: {name.split()[-1]: rounded.pop(name) for name in ways if name.startswith(which)}
            for which in (IN_FRONT, BEHIND)
            if parts
        },
        "us": rounded,
        "wrong": wrong,
    }


def run(folder: Path, seconds: float, compiled: int, *, parts: bool = False) -> int:
    """Compile, check and time all kernels; return 1 where one is wrong."""
    started, prepared = time.monotonic(), read(folder)
    refused = compile_all(folder, prepared)
    print(f"compiled in {time.monotonic() - started:.0f} s; nvcc refuses {len(refused)} texts", flush=True)
    rows, left_out = list[dict[str, Any]](), list[str]()
    # those that torch.compile takes part in come first, in a process of their own: it may be silent for long
    watched = Watched(partial(work, folder, partial(measure, True, parts=parts)), SILENT_COMPILING)
    out = Path(os.environ.get("OUT", folder), "dense.json")

    def written() -> float:
        report = {
            "machine": watched.machine,
            "seed": prepared["seed"],
            "target": prepared["target"],
            "left_out": left_out,
            "rows": rows,
        }
        part = out.with_suffix(".part")  # a run may be ended at any time
        part.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        part.replace(out)
        return time.monotonic()

    last = time.monotonic()
    for number, entry in enumerate(prepared["products"]):
        if number == compiled:
            watched.end()
            watched = Watched(partial(work, folder, partial(measure, False, parts=parts)), SILENT_SECONDS)
        failed = refused_of(entry, refused)
        found = watched.row(number, failed, started + seconds)
        if isinstance(found, str):
            left_out.append(f"{shape_of(entry['shape'])}: {found}")
            continue
        candidates = {str(i): one for i, one in enumerate(entry["candidates"])}
        row = {
            **entry["shape"],
            "predicted_us": {i: round(one["predicted_us"], 3) for i, one in candidates.items()},
            "kernels": {i: one["kernel"] for i, one in candidates.items()},
            "numbers": {i: one["numbers"] for i, one in candidates.items()},
        }
        rows.append({**row, **found, "failed": failed})
        if time.monotonic() > last + WRITTEN_SECONDS:
            last = written()
    written()
    watched.end()
    judge(out)
    return int(any(row["wrong"] or row["failed"] for row in rows))


def judge(file: Path) -> None:
    """Print how fast first choices are beside what a user would take instead, and how far predictions are off."""
    report = json.loads(file.read_text(encoding="utf-8"))
    beside = {"cublas": "cuBLAS", "nearest": "cuBLAS with the nearest legal shape", "padded": "torch with padding"}
    beside["compiled"] = "torch.compile"
    rows = [
        row for row in report["rows"] if row.get("nearest_us", row.get("cublas_us", 0)) >= LEAST_US and "0" in row["us"]
    ]
    off = [max(row["predicted_us"][n] / us, us / row["predicted_us"][n]) for row in rows for n, us in row["us"].items()]
    wrong = sum(len(row["wrong"]) + len(row["failed"]) for row in report["rows"])
    checked = sum(not row["us"] for row in report["rows"])
    print(
        f"{len(report['rows'])} products, {checked} of them not timed, {len(report['left_out'])} left out, "
        f"{wrong} kernels wrong or not launched"
    )
    print(f"{len(rows)} products of {LEAST_US:.0f} us and more")
    for rival, words in beside.items():
        with_it = [row for row in rows if f"{rival}_us" in row]
        for name in ("first choice", "best timed"):
            ours = (row["us"]["0"] if name == "first choice" else min(row["us"].values()) for row in with_it)
            found = sorted(row[f"{rival}_us"] / us for row, us in zip(with_it, ours, strict=True))
            if found and (name == "first choice" or any(len(row["us"]) > 1 for row in rows)):
                print(
                    f"{name}: {statistics.geometric_mean(found):.3f} of the speed of {words}, tenth percentile "
                    f"{found[len(found) // 10]:.3f}, worst {found[0]:.3f}, {len(found)} products"
                )
    if off:
        print(f"predictions off by {statistics.geometric_mean(off):.3f}, {len(off)} kernels")


def main() -> int:
    """Run the command that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.dense")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("prepare")
    one.add_argument("folder", type=Path)
    one.add_argument("seed", type=int)
    one.add_argument("count", type=int)
    one.add_argument("--dtype", choices=BYTES, default="bf16")
    one.add_argument(
        "--of", choices=KINDS, help="the first so many of these products of bench.gpu.gemm, not random ones"
    )
    one.add_argument("--shapes", type=Path, help="a JSON list of products, with what `Shape` has, and not random ones")
    one.add_argument("--illegal", action="store_true", help="some rows are no whole granules")
    one.add_argument("--target", default=TARGET, help="the GPU that kernels are chosen for")
    one.add_argument("--kernels", type=int, default=1, help="of those predicted to be fastest")
    one.add_argument("--checked", action="store_true", help="two small products of each text too, in every element")
    one.add_argument("--usual", action="store_true", help="each also as any extents would have it")
    one.add_argument("--ways", action="store_true", help="also the best predicted of each way in which C leaves")
    one.add_argument("--spread", type=int, default=0, help="further ones at random, for fitting")
    one.add_argument(
        "--shared-texts", type=int, metavar="N", help="take further ones whose texts are there, once there are N"
    )
    two = commands.add_parser("run")
    two.add_argument("folder", type=Path)
    two.add_argument("--seconds", type=float, default=400.0, help="after which none is begun")
    two.add_argument("--parts", action="store_true", help="time passes and the product behind them apart as well")
    two.add_argument("--compiled", type=int, default=0, help="so many beside torch.compile, if illegal")
    results = Path(__file__).parent / "results" / "dense" / "random.json"
    commands.add_parser("judge").add_argument("file", type=Path, nargs="?", default=results)
    asked = parser.parse_args()
    if asked.command == "prepare":
        prepare(asked)
    elif asked.command == "run":
        return run(asked.folder, asked.seconds, asked.compiled, parts=asked.parts)
    else:
        judge(asked.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())

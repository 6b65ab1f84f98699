"""How fast are products of batches, and of groups of rows or along k, beside torch's own?

    python -m bench.gpu.members prepare FOLDER [--of bmm|drawn|grouped|odd|gradients|scaled|random|loose] [--kernels 1]
        [--seed 1] [--target h200] [--spread]
    python -m bench.gpu.members run FOLDER    # where the GPU, nvcc, CuTe's headers and torch are
    python -m bench.gpu.members judge [FILE]

Of each product as many kernels as asked of those predicted to be fastest are compiled. Small whole numbers, whose sums
are exact, must come out right in every element, with guards around C; groups with routings of several kinds in turn, by
the same kernel, and in one CUDA graph that is replayed with each. Then kernels and torch's ways are timed in turns, in
CUDA graphs that go through more memory than L2 holds. `gradients` are groups along k, as those of experts' weights;
`scaled` groups of rows in e4m3, each row and each column with a scale. `drawn` are batches by the seed, and `odd`
groups of rows beside those whose extents are whole. `random` are many small products and routings, and `loose` small
batches and groups whose members or rows begin anywhere, which are checked alone. `--spread` takes kernels of different
tiles. Groups of whole tiles are timed beside as many that are not. Writes members.json into $OUT, else into FOLDER.
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
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

GUARD = 512  # elements around C
UNTOUCHED = -77.0
ROTATING = 100 << 20  # bytes that a graph's calls go through at least
WORKERS = 16
ROUTINGS = ("uniform", "zipf", "sparse")
OF = ("bmm", "drawn", "grouped", "odd", "gradients", "scaled", "random", "loose")
CHECKED = OF[-2:]  # alone, not timed
BMM = (  # batch, m, n, k
    (64, 1024, 1024, 128), (64, 1024, 1024, 127), (64, 1024, 1023, 128), (128, 577, 577, 64), (128, 577, 64, 577),
    (256, 197, 197, 64), (256, 197, 64, 197), (16, 2048, 2047, 2048), (16, 2048, 2048, 2047), (16, 2047, 2048, 2048),
    (16, 2048, 2048, 2048), (32, 512, 512, 512), (32, 511, 513, 515), (96, 384, 64, 384), (96, 384, 65, 384),
    (8, 4096, 4096, 128), (8, 4095, 4097, 128), (12, 1500, 1500, 64), (12, 1500, 64, 1500), (48, 1024, 128, 1000),
    (48, 1024, 128, 1001), (256, 128, 128, 128), (256, 129, 127, 128), (64, 257, 257, 88), (64, 257, 88, 257),
    (4, 3000, 3000, 3000), (4, 3001, 2999, 3001), (200, 196, 320, 320), (200, 196, 321, 320), (32, 1370, 1370, 64),
)  # fmt: skip
GROUPED = (  # rows, groups, n, k, routing
    (8192, 8, 4096, 4096, "uniform"), (8192, 64, 2048, 2048, "uniform"), (8192, 128, 1536, 2048, "uniform"),
    (4096, 256, 2048, 7168, "uniform"), (16384, 32, 1408, 2048, "uniform"), (1024, 64, 2048, 2048, "uniform"),
    (8192, 64, 2048, 2048, "zipf"), (8192, 128, 1536, 2048, "sparse"), (4096, 256, 7168, 2048, "zipf"),
    (16384, 8, 14336, 4096, "zipf"), (16384, 8, 4096, 14336, "uniform"), (4096, 8, 14336, 4096, "uniform"),
    (8192, 128, 2048, 768, "zipf"), (8192, 64, 2816, 2048, "sparse"), (8192, 64, 2047, 2048, "uniform"),
    (8192, 64, 2048, 2047, "uniform"),
)  # fmt: skip

GRADIENTS = (  # rows of the weights, groups, their columns, tokens, routing
    (2048, 64, 2048, 8192, "uniform"), (2048, 128, 1536, 8192, "uniform"), (2048, 32, 1408, 16384, "uniform"),
    (2048, 64, 2048, 8192, "zipf"), (4096, 8, 14336, 16384, "uniform"), (768, 128, 2048, 8192, "sparse"),
    (2048, 64, 2047, 8192, "uniform"),
)  # fmt: skip

ODD = (  # each three behind one whose extents are whole
    *((8192, 64, n, k, "uniform") for n, k in ((2048, 2048), (2048, 2047), (2047, 2048), (2047, 2047))),
    *((16384, 32, n, k, "zipf") for n, k in ((1408, 2048), (1408, 2041), (1403, 2048), (1403, 2041))),
    *((8192, 8, n, k, "uniform") for n, k in ((4096, 4096), (4096, 4095), (4093, 4096), (4093, 4095))),
    *((8192, 128, n, k, "sparse") for n, k in ((1536, 2048), (1536, 2043), (1535, 2048), (1535, 2043))),
)
SCALED = (
    (8192, 64, 2048, 2048, "uniform"), (8192, 128, 1536, 2048, "uniform"), (4096, 256, 2048, 7168, "uniform"),
    (16384, 32, 1408, 2048, "zipf"), (1024, 64, 2048, 2048, "sparse"), (16384, 8, 4096, 14336, "uniform"),
    (16384, 8, 14336, 4096, "zipf"),
)  # fmt: skip

LISTED = {"grouped": GROUPED, "odd": ODD, "gradients": GRADIENTS, "scaled": SCALED}


def ends_of(rows: int, groups: int, routing: str, seed: int) -> list[int]:
    """Return where groups end, rows given to them at random: alike, by Zipf's law, or to three in ten groups alone."""
    rng = random.Random(f"{rows} {groups} {routing} {seed}")
    weights = [1.0] * groups
    if routing == "zipf":
        weights = [1 / (1 + i) for i in range(groups)]
        rng.shuffle(weights)
    elif routing == "sparse":
        weights = [float(rng.random() < 0.3) for _ in range(groups)]
        weights[rng.randrange(groups)] = 1.0
    sizes = [0] * groups
    for group in rng.choices(range(groups), weights, k=rows):
        sizes[group] += 1
    found, end = list[int](), 0
    for size in sizes:
        end += size
        found.append(end)
    return found


def drawn(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Yield batches with work and memory enough to be timed."""
    for _ in range(30):
        n, k = (round(math.exp(rng.uniform(math.log(low), math.log(2048)))) for low in (64, 64))
        m = round(math.exp(rng.uniform(math.log(128), math.log(2048))))
        m, n, k = (one if rng.random() < 0.6 else -(-one // 8) * 8 for one in (m, n, k))
        moved, work = 2 * (m * k + n * k + m * n), m * n * k
        batch = max(4, min(256, round(rng.uniform(5e7, 4e8) / moved), round(1.5e11 / work)))
        yield {"kind": "bmm", "batch": [batch], "m": m, "n": n, "k": k}


def loose(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Yield small batches, and groups of rows, of which most begin anywhere."""
    for _ in range(24):
        m, n, k = (rng.randrange(9, 400) for _ in range(3))
        batch = [rng.randrange(2, 9) for _ in range(rng.choice((1, 2)))]
        yield {"kind": "bmm", "batch": batch, "m": m, "n": n, "k": k}
    for _ in range(16):
        m, n, k = rng.randrange(9, 2000), rng.randrange(9, 400), 2 * rng.randrange(9, 200) - 1
        yield {"kind": "grouped", "groups": rng.randrange(1, 40), "m": m, "n": n, "k": k, "routing": "zipf"}


def cases(of: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what is to be computed, as plain numbers."""
    if of in {"drawn", "loose"}:
        yield from (drawn if of == "drawn" else loose)(random.Random(seed))
        return
    rng = random.Random(seed)
    if of == "bmm":
        for batch, m, n, k in BMM:
            yield {"kind": "bmm", "batch": [batch], "m": m, "n": n, "k": k}
    elif of in LISTED:
        kind = "grouped" if of == "odd" else of
        for m, groups, n, k, routing in LISTED[of]:
            yield {"kind": kind, "groups": groups, "m": m, "n": n, "k": k, "routing": routing}
    else:
        for _ in range(16):
            m, n, k = (rng.randrange(1, 400) for _ in range(3))
            yield {
                "kind": "bmm",
                "batch": [rng.randrange(1, 9) for _ in range(rng.choice((1, 2)))],
                "m": m,
                "n": n,
                "k": k,
            }
            n, k = (one if rng.random() < 0.4 else 8 * -(-one // 8) for one in (n, k))
            yield {"kind": "grouped", "groups": rng.randrange(1, 40), "m": 5 * m, "n": n, "k": k, "routing": "zipf"}
            yield {"kind": "scaled", "groups": rng.randrange(1, 40), "m": 5 * m, "n": n, "k": k, "routing": "zipf"}
            m, n = (one if rng.random() < 0.3 else 8 * -(-one // 8) for one in (m, n))
            yield {"kind": "gradients", "groups": rng.randrange(1, 40), "m": m, "n": n, "k": 5 * k, "routing": "zipf"}


def operator_of(case: dict[str, Any]) -> Any:
    """Return the operator of a case, B as torch's bmm has it, or as weights of experts lie: K-major."""
    from legalsat import Gemm, GroupedGemm, Tensor  # noqa: PLC0415 - the GPU's machine has no solver

    m, n, k = (case[name] for name in "mnk")
    if case["kind"] == "grouped":
        return GroupedGemm(m, n, k, "bf16", groups=case["groups"])
    if case["kind"] == "scaled":
        return GroupedGemm(m, n, k, "e4m3", groups=case["groups"], scaled="rows")
    if case["kind"] == "gradients":  # operands have a row for each token
        a, b = (Tensor((extent, k), "bf16", (1, extent)) for extent in (m, n))
        return GroupedGemm(m, n, k, "bf16", groups=case["groups"], along="k", a=a, b=b)
    batch = tuple(case["batch"])
    steps = [n * k * math.prod(batch[i + 1 :]) for i in range(len(batch))]
    return Gemm(m, n, k, "bf16", batch=batch, b=Tensor((*batch, n, k), "bf16", (*steps, 1, n)))


def prepare(asked: argparse.Namespace) -> None:
    """Write every case's programs."""
    from legalsat.backends.cute.program import program_for  # noqa: PLC0415
    from legalsat.extract.kernels.product_kernels import each_kernel  # noqa: PLC0415
    from legalsat.targets import target  # noqa: PLC0415

    gpu, found = target(asked.target), list[dict[str, Any]]()
    asked.folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(asked.seed)
    for number, case in enumerate(cases(asked.of, asked.seed)):
        operator = operator_of(case)
        every, checked = each_kernel(operator, gpu), asked.of in CHECKED
        if asked.of == "loose":
            every = (one for one in every if any(one[1].loose) or (one[1].ragged and any(one[1].aligned)))
        if asked.spread:
            every = first_of_each_tile(every)
        listed = list(islice(every, asked.kernels if not checked else 300))
        if checked:
            listed = rng.sample(listed, min(asked.kernels, len(listed)))
        candidates = []
        for i, (ns, kernel) in enumerate(listed):
            name = f"{number:03}_{i}.json"
            program_for(operator, kernel, gpu).save(asked.folder / name)
            candidates.append({"program": name, "kernel": str(kernel), "predicted_us": round(ns / 1000, 2)})
        found.append({**case, "candidates": candidates})
    (asked.folder / "cases.json").write_text(json.dumps({"of": asked.of, "cases": found}))
    print(f"{len(found)} products, {sum(len(one['candidates']) for one in found)} kernels")


def first_of_each_tile(kernels: Iterator[tuple[float, Any]]) -> Iterator[tuple[float, Any]]:
    """Yield the first kernel of each tile, and of those whose warpgroups take turns."""
    seen = set[object]()
    for time_, kernel in kernels:
        key = kernel.tile, kernel.ping_pong
        if key not in seen:
            seen.add(key)
            yield time_, kernel


class Arrays:
    """Operands of a case, as many sets of them as go beyond L2, and C with guards."""

    def __init__(self, case: dict[str, Any]) -> None:
        """Draw small whole numbers."""
        import torch  # noqa: PLC0415

        self.case, self.torch = case, torch
        m, n, k = (case[name] for name in "mnk")
        grouped, groups = case["kind"] != "bmm", case.get("groups", 0)
        if case["kind"] == "gradients":
            self.shapes: tuple[tuple[int, ...], ...] = ((k, m), (k, n), (groups, m, n))
        elif grouped:
            self.shapes = ((m, k), (groups, n, k), (m, n))
        else:
            batch = tuple(case["batch"])
            self.shapes = ((*batch, m, k), (*batch, k, n), (*batch, m, n))
        self.kind = torch.float8_e4m3fn if case["kind"] == "scaled" else torch.bfloat16
        self.scales = [
            torch.exp2(torch.randint(-2, 3, shape, device="cuda").float())
            for shape in ([(m,), (groups, n)] if case["kind"] == "scaled" else [])
        ]
        size = 2 * sum(math.prod(shape) for shape in self.shapes)
        self.sets = [self._drawn() for _ in range(max(1, min(8, -(-ROTATING // size))))]
        self.ends = [self.ends_by(case["routing"], 0)] if grouped else []

    def _drawn(self) -> tuple[Any, Any, Any]:
        a, b = (
            self.torch.randint(-3, 4, shape, device="cuda", dtype=self.torch.int8).to(self.kind)
            for shape in self.shapes[:2]
        )
        count = math.prod(self.shapes[2]) + 2 * GUARD
        return a, b, self.torch.full((count,), UNTOUCHED, device="cuda", dtype=self.torch.bfloat16)

    def ends_by(self, routing: str, seed: int) -> Any:
        """Return where groups end by a routing."""
        rows = self.case["k" if self.case["kind"] == "gradients" else "m"]
        ends = ends_of(rows, self.case["groups"], routing, seed)
        return self.torch.tensor(ends, device="cuda", dtype=self.torch.int32)

    def place(self, memory: Any) -> Any:
        """Return C within its guards."""
        return memory[GUARD:-GUARD].view(self.shapes[2])

    def operands(self, one: tuple[Any, Any, Any], ends: Any = None) -> tuple[Any, ...]:
        """Return what our kernels are called with."""
        a, b, _ = one
        if self.case["kind"] == "gradients":
            return a.t(), b.t(), ends
        return (a, b.transpose(-1, -2)) if self.case["kind"] == "bmm" else (a, b, *self.scales, ends)

    def call(self, kernel: Any, one: tuple[Any, Any, Any]) -> None:
        """Compute a set's product."""
        kernel(*self.operands(one, *self.ends), out=self.place(one[2]))

    def meaning(self, ends: Any = None) -> Any:
        """Return C of the first set, sums in fp32, which holds them, rounded once."""
        torch, (a, b, _) = self.torch, self.sets[0]
        if ends is None:
            return torch.matmul(a.float(), b.float()).to(a.dtype)
        found, row = torch.full(self.shapes[2], UNTOUCHED, device="cuda", dtype=torch.bfloat16), 0
        if self.case["kind"] == "gradients":
            for group, end in enumerate(ends.tolist()):
                last = max(row, min(end, len(a)))
                found[group] = torch.matmul(a[row:last].float().T, b[row:last].float()).to(a.dtype)
                row = last
            return found
        for group, end in enumerate(ends.tolist()):
            last = max(row, min(end, len(a)))
            sums = torch.matmul(a[row:last].float(), b[group].float().T)
            if self.scales:
                sums *= self.scales[0][row:last, None] * self.scales[1][group]
            found[row:last] = sums.to(found.dtype)
            row = last
        return found

    def wrong(self, kernel: Any) -> str:
        """Return what is wrong with what a kernel computes; "" if nothing is."""
        torch, one = self.torch, self.sets[0]
        tried = [None]
        if self.ends:
            tried = [self.ends[0], *(self.ends_by(routing, 7) for routing in ROUTINGS)]
            short = self.ends[0].clone()
            short[-1] = -5  # whose rows belong to nobody
            tried += [short, torch.full_like(short, 2**31 - 1), torch.zeros_like(short)]
        for number, ends in enumerate(tried):
            off = self._off(partial(kernel, *self.operands(one, ends), out=self.place(one[2])), ends)
            if off:
                return f"{off}, try {number}"
        return self._off_in_a_graph(kernel) if self.ends else ""

    def _off(self, launch: Callable[[], Any], ends: Any) -> str:
        """Return what is wrong in the memory of the first set's C after a launch; "" if nothing is."""
        torch, memory = self.torch, self.sets[0][2]
        memory.fill_(UNTOUCHED)
        launch()
        place, wanted = self.place(memory), self.meaning(ends)
        torch.cuda.synchronize()
        if not torch.equal(place, wanted):
            return f"{int((place != wanted).sum())} of {place.numel()} elements are wrong"
        if not bool((memory[:GUARD] == UNTOUCHED).all() and (memory[-GUARD:] == UNTOUCHED).all()):
            return "bytes beside C are written"
        return ""

    def _off_in_a_graph(self, kernel: Any) -> str:
        """Return what is wrong where a captured launch is replayed with other sizes; "" if nothing is."""
        torch, one = self.torch, self.sets[0]
        ends, graph = self.ends[0].clone(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            kernel(*self.operands(one, ends), out=self.place(one[2]))
        for routing in ROUTINGS:
            ends.copy_(self.ends_by(routing, 8))
            off = self._off(graph.replay, ends)
            if off:
                return f"{off}, in a graph replayed with sizes {routing}"
        return ""

    def by_tiles(self, kernel: Any, rows: int) -> dict[str, list[Callable[[], None]]]:
        """Return a kernel's calls with groups of whole tiles of so many rows, and of as many that are not."""
        whole = (
            self.case["m"] // self.case["groups"] // rows * rows if self.case["kind"] in {"grouped", "scaled"} else 0
        )
        if not whole:
            return {}
        rng, ragged = random.Random(whole), [0]
        for _ in range(self.case["groups"]):
            ragged.append(ragged[-1] + whole - rng.randrange(1, min(rows, 32)))
        found = {"aligned": [whole * (i + 1) for i in range(self.case["groups"])], "ragged": ragged[1:]}
        ends = {name: self.torch.tensor(one, device="cuda", dtype=self.torch.int32) for name, one in found.items()}
        return {
            name: [partial(kernel, *self.operands(one, own), out=self.place(one[2])) for one in self.sets]
            for name, own in ends.items()
        }

    def rivals(self) -> dict[str, list[Callable[[], None]]]:
        """Return torch's ways."""
        torch, case = self.torch, self.case
        if case["kind"] != "bmm":
            given = [(a.t(), b) if case["kind"] == "gradients" else (a, b.mT, *self.scales) for a, b, _ in self.sets]
            more = {"out_dtype": torch.bfloat16, "use_fast_accum": True} if self.scales else {}
            theirs = partial(torch._scaled_grouped_mm if self.scales else torch._grouped_mm, offs=self.ends[0], **more)
            try:
                theirs(*given[0])
            except RuntimeError:
                return {}
            return {"torch": [partial(theirs, *some) for some in given]}
        whole = [-(-case[name] // 8) * 8 for name in "mnk"]
        batch = tuple(case["batch"])
        near = [
            (torch.randn(*batch, whole[0], whole[2], device="cuda").bfloat16(),
             torch.randn(*batch, whole[2], whole[1], device="cuda").bfloat16())
            for _ in self.sets
        ]  # fmt: skip
        return {
            "torch": [lambda a=a, b=b: torch.matmul(a, b) for a, b, _ in self.sets],  # type: ignore[misc]
            "nearest": [lambda a=a, b=b: torch.matmul(a, b) for a, b in near],  # type: ignore[misc]
        }

    def bound_us(self) -> float:
        """Return the time in which everything moves once at 4.5 TB/s."""
        m, n, k = (self.case[name] for name in "mnk")
        if self.case["kind"] == "bmm":
            return float(2 * sum(math.prod(shape) for shape in self.shapes) / 4.5e6)
        if self.case["kind"] == "gradients":
            return float(2 * (k * (m + n) + self.case["groups"] * m * n) / 4.5e6)
        ends = self.ends[0].tolist()
        used = sum(last > first for first, last in zip([0, *ends], ends, strict=False))
        return float((self.kind.itemsize * (m * k + used * n * k) + 2 * m * n) / 4.5e6)

    def dense(self) -> list[Callable[[], None]]:
        """Return the product of as many rows by one matrix, or of all tokens together."""
        torch = self.torch
        if self.case["kind"] == "gradients":
            return [lambda a=a, b=b: torch.matmul(a.t(), b) for a, b, _ in self.sets]  # type: ignore[misc]
        if self.scales:
            one, kind = torch.ones((), device="cuda"), torch.bfloat16
            options = {"scale_a": one, "scale_b": one, "out_dtype": kind, "use_fast_accum": True}
            return [partial(torch._scaled_mm, a, b[0].T, **options) for a, b, _ in self.sets]
        return [lambda a=a, b=b: torch.matmul(a, b[0].T) for a, b, _ in self.sets]  # type: ignore[misc]


def measured(
    case: dict[str, Any], kernels: dict[str, Any], refused: dict[str, str], stream: Any, *, timed: bool
) -> dict[str, Any]:
    """Return what is wrong with a case's kernels, and how long they and torch's ways take."""
    import torch  # noqa: PLC0415

    from bench.gpu.dense import graphed  # noqa: PLC0415

    with torch.cuda.stream(stream):
        arrays = Arrays(case)
        ways, wrong = dict[str, list[Callable[[], None]]](), dict[str, str]()
        for number, one in enumerate(case["candidates"]):
            kernel = kernels[one["program"]]
            wrong[str(number)] = refused[one["program"]] or arrays.wrong(kernel)
            if not wrong[str(number)]:
                ways[str(number)] = [partial(arrays.call, kernel, place) for place in arrays.sets]
        rivals = arrays.rivals() if timed else {}
        if rivals and case["kind"] != "bmm":
            rivals["dense"] = arrays.dense()
        if timed and "0" in ways:
            first = case["candidates"][0]
            rivals |= arrays.by_tiles(kernels[first["program"]], int(first["kernel"].partition("x")[0]))
    us = graphed({**rivals, **ways}, stream) if timed else {}
    return {
        **case,
        **{f"{name}_us": round(us.pop(name), 2) for name in rivals},
        "us": {name: round(one, 2) for name, one in us.items()},
        "bound_us": round(arrays.bound_us(), 2),
        "wrong": {name: one for name, one in wrong.items() if one},
    }


def run(folder: Path, seconds: float) -> int:
    """Compile, check and time; return 1 where something is wrong."""
    import torch  # noqa: PLC0415

    from bench.gpu.machine import machine  # noqa: PLC0415
    from legalsat.runtime.kernel import Kernel  # noqa: PLC0415
    from legalsat.runtime.program import Program  # noqa: PLC0415

    started, prepared = time.monotonic(), json.loads((folder / "cases.json").read_text())
    listed = [one["program"] for case in prepared["cases"] for one in case["candidates"]]
    kernels = {name: Kernel(Program.load(folder / name)) for name in listed}

    def built(name: str) -> str:
        try:
            kernels[name].build()
        except Exception as error:  # it goes into the report
            return str(error)[:300]
        return ""

    with ThreadPoolExecutor(WORKERS) as pool:
        refused = dict(zip(listed, pool.map(built, listed), strict=True))
    print(f"compiled in {time.monotonic() - started:.0f} s", flush=True)
    out, rows = Path(os.environ.get("OUT", folder), "members.json"), list[dict[str, Any]]()
    stream = torch.cuda.Stream()
    for case in prepared["cases"]:
        if time.monotonic() - started > seconds:
            break
        rows.append(measured(case, kernels, refused, stream, timed=prepared["of"] not in CHECKED))
        out.write_text(json.dumps({"machine": machine(), "of": prepared["of"], "rows": rows}, indent=1) + "\n")
        torch.cuda.empty_cache()
    judge(out)
    return int(any(row["wrong"] for row in rows))


def judge(file: Path) -> None:
    """Print how fast first choices are beside torch's ways."""
    report = json.loads(file.read_text(encoding="utf-8"))
    wrong = [f"{row}: {row['wrong']}" for row in report["rows"] if row["wrong"]]
    print(f"{len(report['rows'])} products, {sum(len(row['candidates']) for row in report['rows'])} kernels")
    print(*(f"WRONG {one}" for one in wrong[:10]), sep="\n")
    for rival in ("torch", "nearest", "dense", "bound", "aligned"):
        rows = [row for row in report["rows"] if f"{rival}_us" in row and "0" in row["us"]]
        if rows:
            own = [row["ragged_us"] if rival == "aligned" else row["us"]["0"] for row in rows]
            found = sorted(row[f"{rival}_us"] / one for row, one in zip(rows, own, strict=True))
            print(
                f"first choices: {statistics.geometric_mean(found):.3f} of {rival}, worst {found[0]:.3f}, {len(found)}"
            )
    for row in report["rows"]:
        if row["us"]:
            words = " ".join(
                f"{name} {row[f'{name}_us']}" for name in ("torch", "nearest", "dense", "bound") if f"{name}_us" in row
            )
            best = min(row["us"], key=lambda i: row["us"][i])
            many = row.get("batch", row.get("groups"))
            size = f"{row['m']}x{row['n']}x{row['k']}"
            ours = f"ours {row['us'].get('0')} best {row['us'][best]}"
            kernel = row["candidates"][int(best)]["kernel"]
            print(f"{row['kind']} {many} {size} {row.get('routing', '')}: {words}, {ours} | {kernel}")


def main() -> int:
    """Run the command that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.members")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("prepare")
    one.add_argument("folder", type=Path)
    one.add_argument("--of", choices=OF, default="bmm")
    one.add_argument("--kernels", type=int, default=1)
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--target", default="h200")
    one.add_argument("--spread", action="store_true")
    two = commands.add_parser("run")
    two.add_argument("folder", type=Path)
    two.add_argument("--seconds", type=float, default=400.0)
    results = Path(__file__).parent / "results" / "members" / "grouped.json"
    commands.add_parser("judge").add_argument("file", type=Path, nargs="?", default=results)
    asked = parser.parse_args()
    if asked.command == "prepare":
        prepare(asked)
    elif asked.command == "run":
        return run(asked.folder, asked.seconds)
    else:
        judge(asked.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())

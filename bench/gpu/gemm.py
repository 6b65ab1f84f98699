"""How fast are the persistent kernels of backend cute, beside what a user would take instead?

    python -m bench.gpu.gemm prepare FOLDER    # where LegalSAT, nvcc and CuTe are: programs and cubins
    python -m bench.gpu.gemm run FOLDER        # where the GPU is: torch and a driver are enough
    python -m bench.gpu.gemm check FOLDER [N]  # N of the small random products alone, as for a sanitizer
    python -m bench.gpu.gemm judge [FILE]      # the cost model beside measured times

First small random products by random kernels, on whole numbers, whose sums are exact: every element of C must be right,
though other rows hold infinities, and no byte around C may change. Then each large product's most promising kernels are
checked against float64, then timed beside cuBLAS (as torch calls it, and with
operands padded first), all in one process, in turns, on random numbers. Operands rotate through more memory than L2
holds ("cold"); "warm" has one set. Repairs are inside what is timed. Writes gemm.json into $OUT, else into FOLDER.
"""

from __future__ import annotations

import json
import math
import os
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from bench.gpu.gemm_shapes import BYTES, RESULTS, Shape, illegal, legal, narrow, product_of, storage

TARGET = "h200"
MOST = 16  # kernels of a product that are timed, as `legalsat.torch.tune` does
ROTATED_BYTES = 200 << 20
TOLERANCE = 2e-2  # of the error's norm: results are rounded to 8 bits
TOLERANCES = {"tf32": 1e-4, "i8": 1e-12, "u8": 1e-12}  # likewise, of results that are not
QUICK, FINAL = 2, 7  # rounds
SEED, UNIT, MORE = 20261121, 128, 3  # of small random products: extents in tiles
GUARD = 4096  # elements around C
LEAST_MICROSECONDS = 200  # of a round
HOST_MICROSECONDS, HOST_CYCLES = 60, 120_000  # that a call may take the host; as cycles of the GPU
LEAST_SLEEP = 250_000
COMPILING_SECONDS = float(os.environ.get("COMPILING_SECONDS", "0"))  # while torch.compile takes part, 0 for never
KINDS = {"legal": legal, "narrow": narrow, "illegal": illegal}


def prepare(folder: Path, kinds: list[str]) -> None:
    """Write the kernels of every product."""
    from legalsat.backends.cute.program import program_for  # noqa: PLC0415 - the GPU's machine has no LegalSAT
    from legalsat.errors import LegalSatError  # noqa: PLC0415
    from legalsat.extract.kernels.product_kernels import product_kernels  # noqa: PLC0415
    from legalsat.targets import target  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    gpu, entries, texts = target(TARGET), list[dict[str, Any]](), dict[str, str]()
    kernels: dict[str, tuple[Shape, Any]] = {}  # by text
    for kind in kinds:
        for shape in KINDS[kind]():
            gemm, candidates = product_of(shape), []
            for nanoseconds, kernel in product_kernels(gemm, gpu, MOST):
                try:
                    program = program_for(gemm, kernel, gpu)
                except LegalSatError as error:
                    print(f"{shape}: {kernel}: {error}")
                    continue
                steps = steps_of(program, texts)
                kernels.setdefault(steps[-1]["cubin"], (shape, kernel))
                candidates.append({"kernel": str(kernel), "steps": steps, "predicted_us": nanoseconds / 1000})
            entries.append({"kind": kind, "shape": shape.plain(), "candidates": candidates})

    small_products = checks(kernels, gpu, texts)

    build(folder, texts)
    for path in folder.glob("*.cubin"):
        if path.stem not in texts:
            path.unlink()
    (folder / "gemm.json").write_text(json.dumps({"products": entries, "checks": small_products}))
    print(f"{len(entries)} products, {sum(len(e['candidates']) for e in entries)} kernels, {len(texts)} texts")


def build(folder: Path, texts: dict[str, str]) -> None:
    """Compile the texts that the folder has no cubin of, as many at a time as there are processors."""
    from legalsat.backends.cute.compile import cubin_of  # noqa: PLC0415
    from legalsat.backends.ptx.assemble import assemble  # noqa: PLC0415
    from legalsat.targets import target  # noqa: PLC0415

    def one(name: str) -> None:
        path = folder / f"{name}.cubin"
        if not path.exists():
            make = assemble if ".visible .entry" in texts[name] else cubin_of
            path.write_bytes(make(texts[name], target(TARGET).architecture))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, texts))


def steps_of(program: Any, texts: dict[str, str]) -> list[dict[str, Any]]:
    """Return the launches of a program as plain values, and remember their texts."""
    from legalsat.runtime.cache import key_of  # noqa: PLC0415
    from legalsat.runtime.program import Image, span_bytes  # noqa: PLC0415

    steps = []
    for one, result in [*((b.program, b.operand) for b in program.before), (program, "c")]:
        name = key_of("bench", one.text)[:16]
        texts[name] = one.text
        recipes = Image(b"", one.recipes).to_bytes().decode().rstrip("\n")
        step = {"cubin": name, "recipes": recipes, "result": result, "bytes": span_bytes(one.result.tensor)}
        spaces = {space.name: space.bytes for space in one.workspaces}
        zeroed = [space.name for space in one.workspaces if space.zeroed]
        steps.append({**step, "workspaces": spaces, "zeroed": zeroed})
    return steps


def small(shape: Shape, kernel: Any, rng: random.Random) -> Shape:
    """Return a small product of the same class: what is left of its extents in tiles of 128 is the same."""
    least = (1, 1, -(-kernel.tile[2] * kernel.least_k_tiles * max(1, kernel.slides) // UNIT))  # of each phase of k
    m, n, k = (
        extent % UNIT + UNIT * rng.randint(low, low + MORE)
        for extent, low in zip((shape.m, shape.n, shape.k), least, strict=True)
    )
    return Shape(m, n, k, shape.form, shape.dtype, shape.slices)


def checks(kernels: dict[str, tuple[Shape, Any]], gpu: Any, texts: dict[str, str]) -> list[dict[str, Any]]:
    """Return two small random products for each text, given a shape and a kernel that it serves."""
    from legalsat.backends.cute.program import program_for  # noqa: PLC0415

    rng, found = random.Random(SEED), list[dict[str, Any]]()
    for shape, kernel in kernels.values():
        for _ in range(2):
            one = small(shape, kernel, rng)
            steps = steps_of(program_for(product_of(one), kernel, gpu), texts)
            found.append({"shape": one.plain(), "kernel": str(kernel), "steps": steps})
    return found


class Product:
    """One product on the GPU: its operands, and ways to compute it."""

    def __init__(self, shape: Shape, sets: int | None = None) -> None:
        """Make random operands, as many sets as L2 cannot hold where not told."""
        import torch  # noqa: PLC0415

        self.shape = shape
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16, "e4m3": torch.float8_e4m3fn}
        kinds |= {"tf32": torch.float32, "i8": torch.int8, "u8": torch.uint8, "i32": torch.int32}
        self.kind, self.out = kinds[shape.dtype], kinds[RESULTS.get(shape.dtype, shape.dtype)]
        torch.backends.cuda.matmul.allow_tf32 = shape.dtype == "tf32"
        names = ("scale_a", "scale_b") if shape.dtype == "e4m3" else ()
        self.scales = {name: torch.rand((), device="cuda") + 0.5 for name in names}
        once = sum(r * c for (r, c), _, _ in storage(shape).values()) * BYTES[shape.dtype]
        sets = sets or max(1, min(12, -(-ROTATED_BYTES // once)))
        self.sets = [self._drawn() for _ in range(sets)]

    def _drawn(self) -> tuple[Any, Any, Any]:
        import torch  # noqa: PLC0415

        made = []
        for (rows, columns), late, turned in storage(self.shape).values():
            extents = rows, columns + (8 if late else 0)
            # Of fp32 what tf32 holds, so that nothing is rounded.
            whole = torch.randn(*extents, device="cuda").to(torch.bfloat16 if self.kind.itemsize == 4 else self.kind)
            whole = whole.to(self.kind)
            if not self.kind.is_floating_point:
                held = torch.iinfo(self.kind)
                whole = torch.randint(held.min, held.max + 1, extents, device="cuda", dtype=self.kind)
            view = whole[:, late : late + columns] if late else whole
            made.append(view.t() if turned else view)
        return made[0], made[1], torch.empty(self.shape.m, self.shape.n, dtype=self.out, device="cuda")

    def whole(self) -> None:
        """Make all sets of small whole numbers, infinite at a few rows' ends, and C part of larger memory.

        Scales become powers of two, so that sums stay exact.
        """
        import torch  # noqa: PLC0415

        for exponent, scale in enumerate(self.scales.values(), start=-2):
            scale.fill_(2.0**exponent)
        for i, (a, b, _) in enumerate(self.sets):
            for one in (a, b):
                least = 0 if self.shape.dtype == "u8" else -2
                one.copy_(torch.randint(least, 3, one.shape, device="cuda").float().to(self.kind))
            for row in range(3, self.shape.m, 37) if self.kind.is_floating_point else ():
                a[row, -1] = float("nan") if self.shape.dtype == "e4m3" else float("inf")
            self.memory = torch.full((self.shape.m * self.shape.n + 2 * GUARD,), 7.0, dtype=self.out, device="cuda")
            c = self.memory[GUARD:-GUARD].view(self.shape.m, self.shape.n)
            self.sets[i] = (a, b, c)

    def exact(self) -> Any:
        """Return the first set's product in float64."""
        a, b, _ = self.sets[0]
        return math.prod((one.double() for one in self.scales.values()), start=a.double() @ b.double().t())

    def error(self, call: Callable[[], None], exact: Any) -> float:
        """Return the norm of a call's error on the first set, relative to that of the exact product."""
        import torch  # noqa: PLC0415

        c = self.sets[0][2].fill_(float("nan") if self.out.is_floating_point else -1)
        call()
        torch.cuda.synchronize()
        return float(((c.double() - exact).norm() / exact.norm()).item())

    def ours(
        self,
        steps: list[dict[str, Any]],
        load: Callable[[dict[str, Any]], Any],
        *,
        repacked: bool = False,
        some: slice = slice(None),
    ) -> list[Callable[[], None]]:
        """Return launches of a kernel and what runs before it, one for each set; B's relayout once for all if asked.

        Args:
            steps: of a product.
            load: makes one ready to be launched.
            repacked: whether B is laid out anew once for all.
            some: of the steps, which are launched alone.
        """
        import torch  # noqa: PLC0415

        sizes = {one["result"]: one["bytes"] for one in steps[:-1]} | steps[-1]["workspaces"]
        spaces = {name: torch.empty(size, dtype=torch.uint8, device="cuda") for name, size in sizes.items()}
        zeroed = [spaces[name] for name in steps[-1].get("zeroed", ())]
        loaded = [load(one) for one in steps]
        stream = torch.cuda.current_stream().cuda_stream
        found: list[Callable[[], None]] = []
        for one in self.sets:
            places = dict(zip("abc", (tensor.data_ptr() for tensor in one), strict=True))
            now = {**places, **{name: space.data_ptr() for name, space in spaces.items()}}
            launches: list[tuple[tuple[str, ...], tuple[int, ...]]] = [
                (("source", "target"), (places[step["result"]], now[step["result"]], stream)) for step in steps[:-1]
            ]
            addresses = {**now, **{name: scale.data_ptr() for name, scale in self.scales.items()}}
            launches.append((tuple(addresses), (*addresses.values(), stream)))

            parts = [
                (image, *launch)
                for image, launch, step in zip(loaded, launches, steps, strict=True)
                if not (repacked and step["result"] == "b")
            ]
            if some != slice(None):  # of what all leave behind, since a GPU draws less power for zeros
                for image, names, key in parts:
                    image.launch(names, key)
                parts = parts[some]

            def call(parts: Any = parts, keep: Any = (one, spaces)) -> None:
                for space in zeroed:
                    space.zero_()
                for image, names, key in parts:
                    image.launch(names, key)

            found.append(call)
        return found

    def nearest(self, *, fast: bool = False) -> list[Callable[[], None]]:
        """Return calls of torch for the nearest shape whose rows all are whole granules; `fast` as of `cublas`."""
        unit = self.shape.unit
        m, n, k = (-(-e // unit) * unit for e in (self.shape.m, self.shape.n, self.shape.k))
        if self.shape.form != "TN":
            m = self.shape.m
        legal = Product(Shape(m, n, k, self.shape.form, self.shape.dtype), len(self.sets))
        return legal.cublas(fast=fast)

    def compiled(self) -> list[Callable[[], None]]:
        """Return calls of what torch.compile makes of the product after it has tried its kernels."""
        import torch  # noqa: PLC0415

        torch._dynamo.reset()
        product = torch.compile(lambda a, b: a @ b, mode="max-autotune-no-cudagraphs", dynamic=False)
        ends = [(a, b.t()) for a, b, _ in self.sets]
        product(*ends[0])
        return [partial(product, *one) for one in ends]

    def cublas(self, *, fast: bool = False) -> list[Callable[[], None]]:
        """Return calls of torch, which takes cuBLAS; none where it refuses.

        Args:
            fast: whether sums of operands in 8 bits stay in the tensor cores, as ours do, and are not added up outside.
        """
        import torch  # noqa: PLC0415

        if self.shape.dtype == "e4m3":
            if self.shape.k % 16 or self.shape.n % 16:
                return []

            def scaled(a: Any, b: Any, c: Any) -> None:
                torch._scaled_mm(a, b.t(), **self.scales, out_dtype=self.out, use_fast_accum=fast, out=c)

            return [partial(scaled, *one) for one in self.sets]
        if self.shape.dtype == "i8":
            if self.shape.k % 8 or self.shape.n % 8 or self.shape.m <= 16:
                return []
            return [partial(torch._int_mm, a, b.t(), out=c) for a, b, c in self.sets]
        if self.shape.dtype == "u8":
            return []

        def plain(a: Any, b: Any, c: Any) -> None:
            torch.mm(a, b.t(), out=c)

        return [partial(plain, *one) for one in self.sets]

    def padded(self) -> list[Callable[[], None]]:
        """Return calls that pad every extent to whole granules, multiply, and cut the result."""
        import torch  # noqa: PLC0415
        from torch.nn.functional import pad  # noqa: PLC0415

        unit = self.shape.unit
        m, n, k = (-(-e // unit) * unit for e in (self.shape.m, self.shape.n, self.shape.k))
        if self.shape.dtype == "i8":
            m = max(m, 32)  # torch multiplies no fewer rows

        def call(a: Any, b: Any, c: Any) -> None:
            if self.shape.dtype == "e4m3":
                bytes_a, bytes_b = (pad(t.view(torch.uint8), (0, k - self.shape.k)) for t in (a, b))
                bytes_b = pad(bytes_b, (0, 0, 0, n - self.shape.n))
                a, b = bytes_a.view(self.kind), bytes_b.view(self.kind)
                whole = torch._scaled_mm(a, b.t(), **self.scales, out_dtype=self.out)
            else:
                first = _filled(a, m if self.shape.form == "TN" or self.shape.dtype == "i8" else self.shape.m, k)
                second = _filled(b, n, k)
                whole = torch._int_mm(first, second.t()) if self.shape.dtype == "i8" else first @ second.t()
            c.copy_(whole[: self.shape.m, : self.shape.n])

        def _filled(t: Any, rows: int, depth: int) -> Any:
            return pad(t, (0, depth - t.shape[1], 0, rows - t.shape[0])) if t.shape != (rows, depth) else t.contiguous()

        return [partial(call, *one) for one in self.sets]


def microseconds(ways: dict[str, list[Callable[[], None]]], rounds: int) -> dict[str, float]:
    """Return the median time of a call of each way, the ways in turns."""
    import torch  # noqa: PLC0415

    for calls in ways.values():  # libraries choose a kernel at a first call, which would look like a slow one
        for call in calls[:2]:
            call()
    torch.cuda.synchronize()
    samples: dict[str, list[float]] = {name: [] for name in ways}
    repeats: dict[str, int] = {}
    quick: dict[str, bool] = {}
    for number in range(rounds + 1):
        for name, calls in ways.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            count = len(calls) * repeats.get(name, 1)
            # All launches queue up meanwhile, or the host would be timed where it is slower than the GPU.
            torch.cuda._sleep(LEAST_SLEEP + (count * HOST_CYCLES if quick.get(name, True) else 0))
            begin.record()
            for _ in range(repeats.get(name, 1)):
                for call in calls:
                    call()
            end.record()
            torch.cuda.synchronize()
            each = begin.elapsed_time(end) * 1000 / len(calls) / repeats.get(name, 1)
            if number:
                samples[name].append(each)
            else:
                repeats[name] = max(1, min(8, int(LEAST_MICROSECONDS / (each * len(calls)))))
                quick[name] = each < 2 * HOST_MICROSECONDS
    return {name: sorted(found)[len(found) // 2] for name, found in samples.items()}


def check(entry: dict[str, Any], load: Callable[[dict[str, Any]], Any]) -> str:
    """Return what is wrong with a small product, "" if nothing is."""
    import torch  # noqa: PLC0415

    product = Product(shape_of(entry["shape"]), 1)
    product.whole()
    call = product.ours(entry["steps"], load)[0]
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    want, got = product.exact().to(product.out), product.sets[0][2]
    wrong = int(((want != got) & ~(want.isnan() & got.isnan())).sum())
    around = int((product.memory[:GUARD] != 7).sum() + (product.memory[-GUARD:] != 7).sum())
    return f"{wrong} of {got.numel()} elements, {around} around C" if wrong or around else ""


def measure(entry: dict[str, Any], load: Callable[[dict[str, Any]], Any], deadline: float) -> dict[str, Any]:
    """Check and time one product; torch.compile takes part until the deadline, since it takes long."""
    shape = shape_of(entry["shape"])
    product = Product(shape)
    exact = product.exact()
    ways: dict[str, list[Callable[[], None]]] = {}
    wrong = []
    for number, candidate in enumerate(entry["candidates"]):
        calls = product.ours(candidate["steps"], load)
        error = product.error(calls[0], exact)
        if not error < TOLERANCE:
            wrong.append({"kernel": candidate["kernel"], "error": error})
        else:
            ways[str(number)] = calls
    rivals = {"cublas": product.cublas()}
    if shape.dtype == "e4m3":
        rivals["cublas fast"] = product.cublas(fast=True)
    if entry["kind"] == "illegal":
        rivals |= {"padded": product.padded(), "nearest": product.nearest()}
        if shape.dtype != "e4m3" and time.monotonic() < deadline:
            rivals["compiled"] = product.compiled()
    rivals = {name: calls for name, calls in rivals.items() if calls}
    quick = microseconds(ways, QUICK)
    best = sorted(quick, key=quick.__getitem__)[:3]
    once = {  # in any case of all kernels, since others may win then
        f"repacked {name}": product.ours(entry["candidates"][int(name)]["steps"], load, repacked=True)
        for name in best
        if any(step["result"] == "b" for step in entry["candidates"][int(name)]["steps"])
    }
    final = microseconds({**{name: ways[name] for name in best}, **once, **rivals}, FINAL)
    winner = min(best, key=final.__getitem__) if best else ""
    warm = (
        microseconds({name: calls[:1] for name, calls in {winner: ways[winner], **rivals}.items()}, FINAL)
        if winner
        else {}
    )
    return {
        "shape": str(shape),
        **entry["shape"],
        "kind": entry["kind"],
        "wrong": wrong,
        "quick_us": {name: round(us, 2) for name, us in quick.items()},
        "predicted_us": {str(i): round(one["predicted_us"], 2) for i, one in enumerate(entry["candidates"])},
        "kernels": {str(i): one["kernel"] for i, one in enumerate(entry["candidates"])},
        "winner": entry["candidates"][int(winner)]["kernel"] if winner else "",
        "us": round(final[winner], 2) if winner else None,
        "warm_us": round(warm[winner], 2) if winner else None,
        "repacked_us": round(min([final[winner], *(final[name] for name in once)]), 2) if winner else None,
        "rivals_us": {name: round(final[name], 2) for name in rivals},
        "rivals_warm_us": {name: round(warm[name], 2) for name in rivals if name in warm},
    }


def loader(folder: Path) -> Callable[[dict[str, Any]], Any]:
    """Return what loads a step, whose cubin lies in the folder, onto the first GPU; makes torch's context there."""
    import torch  # noqa: PLC0415

    from legalsat.runtime.driver import the_driver  # noqa: PLC0415
    from legalsat.runtime.loaded import Loaded  # noqa: PLC0415
    from legalsat.runtime.program import Image  # noqa: PLC0415

    torch.cuda.init()
    torch.manual_seed(0)
    torch.zeros(1, device="cuda")
    device = the_driver().device(0)

    def load(step: dict[str, Any]) -> Any:
        code = (folder / f"{step['cubin']}.cubin").read_bytes()
        return Loaded(device, Image.from_bytes(step["recipes"].encode() + b"\n" + code), "sm_90a")

    return load


def run(folder: Path, only: int | None = None) -> int:
    """Check small products, `only` so many if given, and else measure all large ones too."""
    import torch  # noqa: PLC0415

    from bench.gpu.machine import machine  # noqa: PLC0415

    load = loader(folder)
    started = time.monotonic()
    prepared, rows = json.loads((folder / "gemm.json").read_text()), list[dict[str, Any]]()
    out = Path(os.environ.get("OUT", folder), "gemm.json")
    step = -(-len(prepared["checks"]) // only) if only else 1
    chosen = prepared["checks"][::step]
    wrong = []
    for entry in chosen:
        if found := check(entry, load):
            wrong.append({"shape": entry["shape"], "kernel": entry["kernel"], "wrong": found})
            print("WRONG", wrong[-1], flush=True)
    checked: dict[str, Any] = {"small products": len(chosen), "wrong": wrong}
    print(f"{checked['small products'] - len(wrong)} of {checked['small products']} small products right", flush=True)
    if only is not None:
        return bool(wrong)
    for entry in prepared["products"]:
        row = measure(entry, load, started + COMPILING_SECONDS)
        rows.append(row)
        best = min((us for name, us in row["rivals_us"].items() if name != "nearest"), default=float("nan"))
        said = f"{row['us']:9.2f} us, {best / row['us']:.3f} of {row['rivals_us']}" if row["us"] else "nothing is right"
        print(
            f"{row['shape']:34} {said}  {row['winner']}{'  WRONG ' + str(len(row['wrong'])) if row['wrong'] else ''}",
            flush=True,
        )
        report = {
            "question": "how fast are products beside cuBLAS",
            "machine": machine(),
            "checked": checked,
            "rows": rows,
        }
        out.write_text(json.dumps(report, indent=1) + "\n")
        torch.cuda.empty_cache()
    print(f"{len(rows)} products in {time.monotonic() - started:.0f} s")
    return bool(wrong) or any(row["wrong"] for row in rows)


def judge(file: Path) -> None:
    """Print how products compare, how far today's predictions are off, and what the model's first choice loses."""
    from legalsat.extract.kernels.product_kernels import product_kernels  # noqa: PLC0415
    from legalsat.targets import target  # noqa: PLC0415

    gpu, rows = target(TARGET), [row for row in json.loads(file.read_text())["rows"] if row["us"]]
    for kind in KINDS:
        mine = [row for row in rows if row["kind"] == kind]
        for rival in sorted({name for row in mine for name in row["rivals_us"]}):
            ratios = [row["rivals_us"][rival] / row["us"] for row in mine if rival in row["rivals_us"]]
            said = f"{_mean(ratios):.3f} times as fast as {rival}, {min(ratios):.3f} at least"
            print(f"{kind}: {said}, {len(ratios)} products")
        lost, off = [], []
        for row in mine:
            predicted = {str(one): ns / 1000 for ns, one in product_kernels(product_of(shape_of(row)), gpu)}
            timed = {row["kernels"][name]: us for name, us in row["quick_us"].items()}
            both = {name: (predicted[name], us) for name, us in timed.items() if name in predicted}
            off += [math.exp(abs(math.log(one / us))) for one, us in both.values()]
            lost.append(min(timed.values()) / min(both.values())[1])
        print(f"{kind}: predictions off by {_mean(off):.3f}; first choices have {_mean(lost):.3f} of the best's speed")


def shape_of(row: dict[str, Any]) -> Shape:
    """Return the shape that plain values name."""
    return Shape(row["m"], row["n"], row["k"], row["form"], row["dtype"], tuple(row["slices"]))


def _mean(ratios: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


if __name__ == "__main__":
    command = sys.argv[1]
    place = Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).parent / "results" / "gemm.json")
    if command == "prepare":
        prepare(place, sys.argv[3:] or list(KINDS))
    elif command == "judge":
        judge(place)
    else:
        sys.exit(run(place, int((sys.argv[3:] or ["40"])[0]) if command == "check" else None))

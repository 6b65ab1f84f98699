"""Do compiled plans run right however they are called, and how long does a call keep the host?

    python -m bench.gpu.runtime prepare FOLDER    # where LegalSAT is: plans, images, programs for legalsat.torch
    python -m bench.gpu.runtime run FOLDER        # where the GPU is: torch, triton and a driver are enough
    python -m bench.gpu.runtime                   # both

Operands are small whole numbers, whose sums are exact, so that every element must be equal to float64's, rounded once.
Writes runtime.json into $OUT, else into FOLDER. Exit status 1 if a check fails.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

TARGETS = ("h200", "h100")
# The last two are the first one's gradients.
TUNED_SHAPES = ((4096, 4096, 4095), (128, 4096, 4096))
TORCH_SHAPES = ((256, 512, 128), (100, 136, 64), (64, 4096, 4095), (512, 4095, 4096), (256, 128, 512), (128, 512, 256))
BACKENDS = {"relaid": "ptx", "relaid once": "ptx"}  # which has Triton lay operands out anew
PRODUCTS: dict[str, dict[str, Any]] = {
    "legal": {"extent": (300, 136, 200)},
    "fp8": {"extent": (300, 136, 208), "dtype": "e4m3"},
    "odd n": {"extent": (512, 4095, 4096)},
    "relaid": {"extent": (4096, 4096, 4095)},
    "relaid once": {"extent": (64, 4096, 4095), "constant_b": True},
    "columns": {"extent": (136, 72, 200), "b": "M"},
    "tiny": {"extent": (64, 64, 64)},
}
MOVEMENTS = {"transpose by maps": ("tma",), "transpose by threads": ("threads",)}
CALLS, ROUNDS = 200, 15
SIDE_CYCLES = 100_000_000  # about 50 ms


def prepare(folder: Path) -> None:
    """Write everything that a run needs."""
    import legalsat as ls  # noqa: PLC0415 - the GPU's machine has no solvers
    from legalsat.backends import PRODUCT_PROGRAMS  # noqa: PLC0415
    from legalsat.runtime import Cache  # noqa: PLC0415
    from legalsat.runtime.kernel import image_of  # noqa: PLC0415
    from legalsat.runtime.planned import program_for, sources  # noqa: PLC0415
    from legalsat.targets import target  # noqa: PLC0415

    (folder / "cache").mkdir(parents=True, exist_ok=True)
    os.environ["LEGALSAT_CACHE"] = str(folder / "cache")
    for name, case in PRODUCTS.items():
        m, n, k = case["extent"]
        kind = case.get("dtype", "bf16")
        b = ls.Tensor((n, k), kind, (1, n)) if case.get("b") else None
        plan: Any = ls.synthesize(ls.Gemm(m, n, k, kind, b=b, constant_b=case.get("constant_b", False)), "h200")
        plan.save(folder / f"{name}.json")
        plan.compile(BACKENDS.get(name))
    for name, means in MOVEMENTS.items():
        moved: Any = ls.synthesize(ls.Transpose(ls.Tensor((1024, 512), "bf16")), "h200", means=means)  # type: ignore[arg-type]
        moved.save(folder / f"{name}.json")
        moved.compile()
    cache, made = Cache.default(), []
    for name in TARGETS:
        for product in _torch_products():
            for backend in PRODUCT_PROGRAMS:  # the GPU's machine may lack a compiler
                try:
                    program = program_for(product, target(name), cache, backend)
                except ls.LegalSatError as error:
                    made.append(f"{product} on {name} by {backend}: {error}")
                    continue
                image_of(program, cache)
                for one in program.before:
                    image_of(one.program, cache)
    (folder / "prepared.json").write_text(json.dumps({"sources": sources(), "refused": made}))
    print(f"prepared {len(PRODUCTS) + len(MOVEMENTS)} plans; refused: {made}")


def _torch_products() -> list[Any]:
    """Return products as `legalsat.torch` asks for them: x @ w.t(), its two gradients, and x @ b."""
    import legalsat as ls  # noqa: PLC0415

    found = []
    for m, n, k in TORCH_SHAPES:
        for b in ((k, 1), (1, n)):
            for constant in (False, True):
                second = ls.Tensor((n, k), "bf16", b, align=16)
                first = ls.Tensor((m, k), "bf16", align=16)
                found.append(ls.Gemm(m, n, k, "bf16", a=first, b=second, constant_b=constant))
        first = ls.Tensor((m, k), "bf16", (1, m), align=16)  # a gradient's: a transposed view
        found.append(ls.Gemm(m, n, k, "bf16", a=first, b=ls.Tensor((n, k), "bf16", (1, n), align=16)))
    return found


class Checks:
    """The checks, each a method that raises if something is wrong; what it returns is reported."""

    def __init__(self, folder: Path) -> None:
        """Read the plans and compile them, from the cache."""
        import torch  # noqa: PLC0415

        from legalsat.plans.codec import read_plan  # noqa: PLC0415
        from legalsat.plans.gemm_plan import from_json as gemm_from_json  # noqa: PLC0415
        from legalsat.plans.movement_plan import from_json  # noqa: PLC0415

        self.torch, self.folder = torch, folder
        torch.manual_seed(5)
        self.plans: dict[str, Any] = {}
        for name in (*PRODUCTS, *MOVEMENTS):  # unchecked: rechecking needs the rules' solvers
            data = read_plan(folder / f"{name}.json")
            self.plans[name] = gemm_from_json(data) if name in PRODUCTS else from_json(data)
        self.kernels = {name: plan.compile(BACKENDS.get(name)) for name, plan in self.plans.items()}

    def tensor(self, layout: Any) -> Any:
        """Return a tensor of small whole numbers with this layout."""
        torch = self.torch
        kind = {"bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}[layout.dtype.name]
        found = torch.empty_strided(layout.shape, layout.strides, dtype=kind, device="cuda")
        return found.copy_(torch.randint(-2, 3, layout.shape, device="cuda").float().to(kind))

    def operands(self, name: str) -> tuple[Any, Any]:
        """Return A and B of a plan."""
        gemm = self.plans[name].operator
        return self.tensor(gemm.a), self.tensor(gemm.b)

    def same(self, found: Any, a: Any, b: Any, what: str) -> None:
        """Raise unless `found` is a b^T."""
        want = (a.double() @ b.double().t()).to(found.dtype)
        if not self.torch.equal(found, want):
            wrong = (found.float() != want.float()).nonzero()
            raise AssertionError(f"{what}: {len(wrong)} of {want.numel()} elements wrong, first {wrong[0].tolist()}")

    def products(self) -> None:
        """Results, and those written into an array that was given, twice."""
        for name in PRODUCTS:
            a, b = self.operands(name)
            for _ in range(2):
                self.same(self.kernels[name](a, b), a, b, name)
                out = self.torch.full((a.shape[0], b.shape[0]), 7.0, dtype=self.torch.bfloat16, device="cuda")
                assert self.kernels[name](a, b, out=out) is out
                self.same(out, a, b, f"{name}, out=")

    def movements(self) -> None:
        """Transposes."""
        for name in MOVEMENTS:
            x = self.tensor(self.plans[name].operator.source)
            assert self.torch.equal(self.kernels[name](x), x.t().contiguous()), name
            y = self.torch.zeros(x.shape[1], x.shape[0], dtype=x.dtype, device="cuda")
            self.kernels[name](x, out=y)
            assert self.torch.equal(y, x.t()), f"{name}, out="

    def other_arrays(self) -> None:
        """DLPack and `__cuda_array_interface__`, with a stream and without."""

        class Dlpack:
            def __init__(self, tensor: Any) -> None:
                self._tensor = tensor

            def __dlpack__(self, **how: Any) -> Any:
                return self._tensor.__dlpack__(**how)

            def __dlpack_device__(self) -> Any:
                return self._tensor.__dlpack_device__()

        a, b = self.operands("relaid")
        stream = self.torch.cuda.Stream()
        for how in ({}, {"stream": stream}, {"stream": stream.cuda_stream}):
            found = self.kernels["relaid"](Dlpack(a), Dlpack(b), **how)
            stream.synchronize()
            self.same(found, a, b, f"DLPack {how}")
        out = self.torch.zeros(a.shape[0], b.shape[0], dtype=a.dtype, device="cuda")
        self.kernels["relaid"](Dlpack(a), b, out=Dlpack(out))
        self.same(out, a, b, "DLPack out")

        class Words:
            def __init__(self, tensor: Any) -> None:
                self.__cuda_array_interface__ = tensor.__cuda_array_interface__

        x = self.torch.randint(-100, 100, (1024, 512), device="cuda").half()
        try:
            self.kernels["transpose by maps"](Words(x))
        except Exception as error:
            assert "holds fp16" in str(error)
        else:
            raise AssertionError("fp16 went where bf16 was planned")

    def streams(self) -> None:
        """A kernel waits for what is in front of it in its stream, and its memory is not taken by another one."""
        torch = self.torch
        for name in ("legal", "relaid", "relaid once"):
            a, b = self.operands(name)
            late, stream = a.clone(), torch.cuda.Stream()
            a.zero_()
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                torch.cuda._sleep(SIDE_CYCLES)
                a.copy_(late)
                found = self.kernels[name](a, b)
                a.zero_()  # behind the kernel
            stream.synchronize()
            self.same(found, late, b, name)
            a.copy_(late)
            torch.cuda.synchronize()
            found = self.kernels[name](a, b, stream=stream)
            stream.synchronize()
            self.same(found, late, b, f"{name}, stream=")

    def constants(self) -> None:
        """A weight is laid out anew once, and again once it changes, or when another one has its memory."""
        torch, kernel = self.torch, self.kernels["relaid once"]
        a, b = self.operands("relaid once")
        kernel.forget()  # what other checks' weights left
        before = torch.cuda.memory_allocated()
        self.same(kernel(a, b), a, b, "first")
        kept = torch.cuda.memory_allocated() - before
        self.same(kernel(a, b), a, b, "second")
        assert 0 < torch.cuda.memory_allocated() - before <= kept + 1024, "one copy is kept"
        b.mul_(-1)
        self.same(kernel(a, b), a, b, "changed in place")
        for _ in range(3):
            place = b.data_ptr()
            del b
            b = self.tensor(self.plans["relaid once"].operator.b)
            self.same(kernel(a, b), a, b, f"another tensor, same address: {b.data_ptr() == place}")

    def graphs(self) -> None:
        """Captured once, replayed with other numbers."""
        torch = self.torch
        for name in ("legal", "odd n", "relaid", "relaid once"):
            a, b = self.operands(name)
            kernel = self.kernels[name]
            kernel(a, b)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                found = kernel(a, b)
            for _ in range(3):
                a.copy_(torch.randint(-2, 3, a.shape, device="cuda"))
                graph.replay()
                torch.cuda.synchronize()
                self.same(found, a, b, name)

    def two_threads(self) -> None:
        """Two threads with streams of their own call one kernel."""
        torch, failures = self.torch, []
        pairs = [self.operands("relaid") for _ in range(2)]
        torch.cuda.synchronize()

        def call(a: Any, b: Any) -> None:
            try:
                stream = torch.cuda.Stream()
                with torch.cuda.stream(stream):
                    found = [self.kernels["relaid"](a, b) for _ in range(10)]
                stream.synchronize()
                for one in found:
                    self.same(one, a, b, "thread")
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=call, args=pair) for pair in pairs]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        if failures:
            raise failures[0]

    def refusals(self) -> None:
        """What was not planned for is refused, and the GPU still works."""
        a, b = self.operands("legal")
        torch, kernel = self.torch, self.kernels["legal"]
        shifted = torch.zeros(a.numel() + 1, dtype=a.dtype, device="cuda")[1:].view(a.shape)
        for wrong, said in ((a.cpu(), "host"), (a.half(), "holds"), (a[:-1], "shape"), (shifted, "past a multiple")):
            try:
                kernel(wrong, b)
            except ValueError as error:
                assert said in str(error), error
            else:
                raise AssertionError(f"{said} was not refused")
        self.same(kernel(a, b), a, b, "afterwards")

    def torch_matmul(self) -> dict[str, str]:
        """`legalsat.torch.matmul`, weights both ways, with gradients, and batched."""
        import legalsat.torch as ours  # noqa: PLC0415

        torch, ways = self.torch, {}
        for m, n, k in TORCH_SHAPES:
            x = torch.randint(-2, 3, (m, k), device="cuda").bfloat16()
            w = torch.randint(-2, 3, (n, k), device="cuda").bfloat16()
            for b in (w.t(), w.t().contiguous()):
                for constant in (False, True):
                    for _ in range(2):
                        self.same(ours.matmul(x, b, constant_b=constant), x, w, f"{m} {n} {k}")
                ways[f"{m} x {n} x {k}, B {tuple(b.stride())}"] = str(ours.way(x, b))
            self.same(ours.matmul(x.view(2, m // 2, k), w.t()).view(m, n), x, w, "batched")
        ends = []
        for product in (ours.matmul, torch.matmul):
            x = torch.ones(256, 128, dtype=torch.bfloat16, device="cuda", requires_grad=True)
            w = torch.ones(512, 128, dtype=torch.bfloat16, device="cuda", requires_grad=True)
            product(x, w.t()).sum().backward()
            ends.append((x.grad, w.grad))
        for one, other in zip(*ends, strict=True):
            assert torch.equal(one, other)
        return ways

    def torch_compile(self) -> dict[str, Any]:
        """One call in the graph, no break; with CUDA graphs too."""
        import legalsat.torch as ours  # noqa: PLC0415

        torch, said = self.torch, {}
        m, n, k = TORCH_SHAPES[0]
        x = torch.randint(-2, 3, (m, k), device="cuda").bfloat16()
        w = torch.randint(-2, 3, (n, k), device="cuda").bfloat16()
        for mode in ("default", "reduce-overhead"):
            compiled = torch.compile(lambda x, w: ours.matmul(x, w.t()) + 1, fullgraph=True, mode=mode)
            try:
                for _ in range(4):
                    found = compiled(x, w).clone()
                assert torch.equal(found, (x @ w.t()) + 1), mode
                said[mode] = "right"
            except AssertionError:
                raise
            except Exception as error:  # no compiler on the machine, say
                said[mode] = f"{type(error).__name__}: {str(error)[:200]}"
        return said

    def tuning(self) -> Any:
        """`legalsat.torch.tune`, whose winner is taken from then on; needs nvcc and CuTe's headers here."""
        import legalsat.torch as ours  # noqa: PLC0415
        from legalsat.errors import LegalSatError  # noqa: PLC0415

        torch, said = self.torch, {}
        for m, n, k in TUNED_SHAPES:
            x = torch.randint(-2, 3, (m, k), device="cuda").bfloat16()
            w = torch.randint(-2, 3, (n, k), device="cuda").bfloat16()
            begin = time.perf_counter()
            try:
                timed = ours.tune(x, w.t())
            except LegalSatError as error:
                return f"not run: {error}"
            seconds = time.perf_counter() - begin
            winner = ours.way(x, w.t()).kernel
            assert winner is not None and winner.program.text == timed[0].program.text, "another kernel is taken"
            self.same(ours.matmul(x, w.t()), x, w, f"tuned {m} {n} {k}")
            said[f"{m} x {n} x {k}"] = {
                "seconds": round(seconds, 1),
                "timed": [[one.kernel, round(one.microseconds, 2), round(one.predicted, 2)] for one in timed],
            }
        return said

    def two_gpus(self) -> str:
        """Each GPU loads the image for itself, whichever is torch's current one."""
        torch = self.torch
        if torch.cuda.device_count() < 2:
            return "one GPU only"
        for index in (1, 0, 1):
            a, b = (x.to(f"cuda:{index}") for x in self.operands("legal"))
            self.same(self.kernels["legal"](a, b), a, b, f"GPU {index}")
        return "right"

    def from_disk(self) -> str:
        """A new process compiles nothing."""
        code = f"import bench.gpu.runtime as r; r.fresh({str(self.folder)!r})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr[-600:]
        return done.stdout.strip()

    def host_microseconds(self) -> dict[str, float]:
        """Time of a repeated call on the host, the least and the median round of calls that wait for nothing."""
        import legalsat.torch as ours  # noqa: PLC0415

        torch, found = self.torch, {}
        a, b = self.operands("tiny")
        out = torch.empty(64, 64, dtype=a.dtype, device="cuda")
        one, other = self.operands("relaid once")
        x = torch.randint(-2, 3, (256, 128), device="cuda").bfloat16()
        w = torch.randint(-2, 3, (512, 128), device="cuda").bfloat16()
        with torch.no_grad():
            ways: dict[str, Callable[[], Any]] = {
                "kernel(a, b)": lambda: self.kernels["tiny"](a, b),
                "kernel(a, b, out=c)": lambda: self.kernels["tiny"](a, b, out=out),
                "kernel(a, b), A laid out anew, B kept": lambda: self.kernels["relaid once"](one, other),
                "legalsat.torch.matmul(x, w.t())": lambda: ours.matmul(x, w.t()),
                "torch.ops.legalsat.matmul": lambda: torch.ops.legalsat.matmul(x, w.t(), False),
                "torch.matmul(x, w.t())": lambda: torch.matmul(x, w.t()),
                "torch.empty": lambda: torch.empty(64, 64, dtype=a.dtype, device="cuda"),
            }
            for name, call in ways.items():
                rounds = []
                for _ in range(ROUNDS):
                    torch.cuda.synchronize()
                    begin = time.perf_counter()
                    for _ in range(CALLS):
                        call()
                    rounds.append((time.perf_counter() - begin) / CALLS * 1e6)
                found[name] = round(statistics.median(rounds[3:]), 2)
                found[f"{name}, least"] = round(min(rounds), 2)
        return found


def fresh(folder: str) -> None:
    """Compile and call a plan where compilers may not be called; for a process of its own."""
    from legalsat.backends.ptx import program as ptx  # noqa: PLC0415
    from legalsat.backends.triton import program as triton  # noqa: PLC0415

    def refuse(_: Any) -> Any:
        raise AssertionError("something was compiled")

    for module in (ptx, triton):
        setattr(module, "image_of", refuse)  # noqa: B010 - for the type checker
    os.environ["LEGALSAT_CACHE"] = str(Path(folder, "cache"))
    begin = time.perf_counter()
    checks = Checks(Path(folder))
    built = time.perf_counter() - begin
    a, b = checks.operands("relaid")
    begin = time.perf_counter()
    found = checks.kernels["relaid"](a, b)
    checks.torch.cuda.synchronize()
    first = time.perf_counter() - begin
    checks.same(found, a, b, "from disk")
    print(
        f"{len(checks.kernels)} kernels from disk in {built:.2f} s, torch's import included; first call {first:.3f} s"
    )


def run(folder: Path) -> int:
    """Make all checks; return 0 if all are right."""
    from bench.gpu.machine import machine  # noqa: PLC0415
    from legalsat.runtime import planned  # noqa: PLC0415

    prepared = json.loads((folder / "prepared.json").read_text())
    os.environ["LEGALSAT_CACHE"] = str(folder / "cache")
    # What was prepared is asked for, whatever was edited since.
    setattr(planned, "sources", lambda: prepared["sources"])  # noqa: B010 - for the type checker
    checks = Checks(folder)
    results: dict[str, Any] = {}
    failed = []
    for name in [name for name, one in vars(Checks).items() if callable(one) and one.__doc__ and name[0] != "_"]:
        if name in {"tensor", "operands", "same"}:
            continue
        try:
            results[name] = getattr(checks, name)() or "right"
        except Exception:  # whatever it is, it is this check's result
            results[name] = traceback.format_exc()[-1500:]
            failed.append(name)
        print(name, results[name], flush=True)
    report = {
        "question": "do compiled plans run right however they are called, and how long does a call keep the host",
        "machine": machine(),
        "python": sys.version.split()[0],
        "failed": failed,
        "calls_a_round": CALLS,
        "rounds": ROUNDS,
        "refused": prepared["refused"],
        "checks": results,
    }
    (Path(os.environ.get("OUT", folder)) / "runtime.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"failed: {failed}")
    return 1 if failed else 0


def main(arguments: list[str]) -> int:
    """Run the steps that the arguments name; see the module's docstring."""
    match arguments:
        case ["prepare", folder]:
            prepare(Path(folder).resolve())
            return 0
        case ["run", folder]:
            return run(Path(folder).resolve())
        case []:
            with tempfile.TemporaryDirectory() as folder:
                prepare(Path(folder))
                return run(Path(folder))
        case _:
            print(__doc__, file=sys.stderr)
            return os.EX_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""How long do first calls wait for kernels: for the compiler, behind torch, or for a pack? And does tuning choose well?

    python -m bench.gpu.ahead    # where the GPU, nvcc, CuTe's headers, the solvers and torch are

Operands are small whole numbers, whose sums are exact, and every result must be equal to float64's, rounded once:
also those of calls that torch, or a kernel of another product, serves meanwhile. Tuned kernels are timed beside first
choices once more, as `bench.gpu.dense` times them: in turns, in CUDA graphs on operands that L2 does not hold.
Writes ahead.json into $OUT, else here. Exit status 1 if a result is wrong.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.gpu.dense import graphed
from bench.gpu.machine import machine

NEW, BESIDE, ODD = (1184, 4096, 2048), (1200, 4096, 2048), (800, 1536, 2047)  # m, n, k
TUNED = ((4096, 4096, 4095), (128, 4096, 4096), (1823, 2448, 1512), (3258, 712, 22216), (777, 4096, 4096))
PATIENCE = 120.0  # seconds


class Products:
    """Products with operands of whole numbers, each checked as it comes."""

    def __init__(self) -> None:
        """Take torch, with its matmul and ours."""
        import torch  # noqa: PLC0415

        import legalsat.torch as ours  # noqa: PLC0415

        self.torch, self.ours, self.wrong = torch, ours, list[str]()

    def operands(self, extents: tuple[int, int, int]) -> tuple[Any, Any]:
        """Return a (m, k) and b (k, n), which is K-major."""
        m, n, k = extents
        a, b = (self.torch.randint(-2, 3, shape, device="cuda").bfloat16() for shape in ((m, k), (n, k)))
        return a, b.t()

    def call(self, a: Any, b: Any, what: str) -> float:
        """Multiply, check, and return the seconds until the result was there."""
        self.torch.cuda.synchronize()
        begin = time.perf_counter()
        found = self.ours.matmul(a, b)
        self.torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        if not self.torch.equal(found, (a.double() @ b.double()).bfloat16()):
            self.wrong.append(what)
        return seconds

    def waited(self, extents: tuple[int, int, int]) -> dict[str, Any]:
        """Return how long a first call waits for its kernel, and the second one."""
        self.ours.forget()
        a, b = self.operands(extents)
        first, second = (self.call(a, b, f"{extents} waited for") for _ in range(2))
        return {"first_s": round(first, 4), "second_s": round(second, 6), "way": str(self.ours.way(a, b))}

    def behind(self, extents: tuple[int, int, int]) -> dict[str, Any]:
        """Return the same of calls that do not wait: by what they are served, and from when on."""
        self.ours.forget()
        self.ours.compile_behind()
        a, b = self.operands(extents)
        begin, served, calls = time.perf_counter(), dict[str, float](), 0
        first = self.call(a, b, f"{extents} behind")
        while time.perf_counter() - begin < PATIENCE:
            calls += 1
            way = self.ours.way(a, b)
            by = "torch" if way.kernel is None else "a kernel at hand" if way.reason else "its kernel"
            served.setdefault(by, round(time.perf_counter() - begin, 3))
            self.call(a, b, f"{extents} served by {by}")
            if by == "its kernel":
                break
            time.sleep(0.01)
        there = self.ours.wait(PATIENCE)
        self.ours.compile_behind(False)
        return {"first_s": round(first, 4), "served_from_s": served, "calls": calls, "there": there}

    def tuned(self, extents: tuple[int, int, int]) -> dict[str, Any]:
        """Return what tuning says, and first choice and winner timed in turns, in microseconds."""
        a, b = self.operands(extents)
        begin = time.perf_counter()
        timed = self.ours.tune(a, b)
        seconds = time.perf_counter() - begin
        self.call(a, b, f"{extents} tuned")
        from legalsat.runtime import Kernel  # noqa: PLC0415
        from legalsat.runtime.choice import candidates  # noqa: PLC0415

        first = candidates(self.ours.product_of(a, b), self.ours._target(a), 1)[0][2]
        sets = self.ours._sets_of(a, b)
        ways: dict[str, list[Any]] = {}
        for name, program in (("first", first), ("winner", timed[0].program)):
            kernel = Kernel(program).load()
            ways[name] = [lambda one=one, kernel=kernel: kernel(*one[:2], out=one[2]) for one in sets]
        ways["torch"] = [lambda one=one: self.torch.mm(one[0], one[1].mT, out=one[2]) for one in sets]
        us = {name: round(value, 2) for name, value in graphed(ways, self.torch.cuda.Stream()).items()}
        listed = [[one.kernel, round(one.microseconds, 2), round(one.predicted, 2)] for one in timed[:4]]
        return {"seconds": round(seconds, 1), "us": us, "best": listed, "timed": len(timed)}


def main() -> int:
    """Measure all, each in a cache of its own where that matters."""
    products, found = Products(), dict[str, Any]()
    from legalsat.runtime.build import build  # noqa: PLC0415
    from legalsat.runtime.packs import VARIABLE  # noqa: PLC0415

    def say(name: str, value: Any) -> None:
        found[name] = value
        print(name, json.dumps(value), flush=True)

    products.call(*products.operands((256, 256, 256)), "warm")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LEGALSAT_CACHE"] = str(Path(folder, "one"))
        say("waited for", products.waited(NEW))
        say("kept on disk", products.waited(NEW))
        os.environ["LEGALSAT_CACHE"] = str(Path(folder, "two"))
        say("behind", products.behind(NEW))
        say("behind, another product's kernel at hand", products.behind(BESIDE))
        say("behind, k odd", products.behind(ODD))
        pack = Path(folder, "some.pack")
        asked = [products.ours.product_of(*products.operands(extents)) for extents in (NEW, ODD)]
        target = products.ours._target(products.operands(NEW)[0])
        built = build(asked, target, pack=pack)
        os.environ["LEGALSAT_CACHE"], os.environ[VARIABLE] = str(Path(folder, "three")), str(pack)
        say("of a pack", {**products.waited(ODD), "pack_bytes": built.bytes, "kernels": built.texts})
        say("behind, of a pack", products.behind(NEW))
        del os.environ[VARIABLE]
        os.environ["LEGALSAT_CACHE"] = str(Path(folder, "four"))
        for extents in TUNED:
            say(f"tuned {'x'.join(map(str, extents))}", products.tuned(extents))
    report = {"machine": machine(), "wrong": products.wrong, **found}
    (Path(os.environ.get("OUT", ".")) / "ahead.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"wrong: {products.wrong}")
    return 1 if products.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

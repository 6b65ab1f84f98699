"""Are kernels right that are brought in before those in front of them end, whatever stands in front or behind?

    python -m bench.gpu.chains [--rounds 40]        # on a GPU, with torch

Chains of products read what the one before wrote, beside copies, memsets and elementwise kernels of torch, into the
same memory again and again. Each chain runs with the host waiting after every step, queued, and as a captured graph
that is replayed with other operands; bits must be the same. Some steps have relayouts in front, some a kernel behind.
Writes chains.json into $OUT, else into bench/gpu/results.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.gpu.machine import machine

TARGET = "h200"
WORKERS = 8
# Rows, then the extents from product to product: legal ones, odd ones, a k that is long, which has slices, and products
# of which both operands are laid out first, side by side.
CHAINS = {
    "small": (128, (256, 512, 384, 256, 640, 256)),
    "large": (4096, (2048, 4096, 2048, 4096, 2048)),
    "odd": (333, (517, 1023, 255, 769, 1031)),
    "long": (256, (256, 16384, 320, 12288, 256)),
    "mixed": (777, (512, 513, 4096, 1001, 1000, 64)),
    "both": (999, (2063, 5001, 2063, 6001)),
}


class Chain:
    """Products one behind the other, each of what the one before wrote, scaled to stay small."""

    def __init__(self, rows: int, extents: tuple[int, ...]) -> None:
        """Plan, compile and load the products, and make their operands."""
        import torch  # noqa: PLC0415

        import legalsat as ls  # noqa: PLC0415

        self.torch = torch
        steps = list(pairwise(extents))
        plans = [ls.synthesize(ls.Gemm(rows, n, k, "bf16"), TARGET) for k, n in steps]
        with ThreadPoolExecutor(WORKERS) as pool:  # nvcc does the work
            self.kernels = list(pool.map(lambda plan: plan.compile("cute"), plans))
        for kernel in self.kernels:
            kernel.load()
        self.words = [str(plan.kernel) for plan in plans]
        self.first = torch.empty(rows, extents[0], dtype=torch.bfloat16, device="cuda")
        self.weights = [(torch.randn(n, k, device="cuda") / k**0.5).to(torch.bfloat16) for k, n in steps]
        self.results = [torch.empty(rows, n, dtype=torch.bfloat16, device="cuda") for _, n in steps]
        self.kept = [torch.empty_like(one) for one in self.results]

    def draw(self) -> None:
        """Put other numbers into the first operand."""
        self.first.normal_()

    def run(self, after: Callable[[], None]) -> None:
        """Queue the chain, twice into the same memory; what the first pass gave is changed on the way."""
        for again in range(2):
            given = self.first
            for number, (kernel, weight, result) in enumerate(
                zip(self.kernels, self.weights, self.results, strict=True)
            ):
                if number % 3 == 1:
                    result.fill_(float("nan"))
                    after()
                kernel(given, weight, out=result)
                after()
                if again:
                    self.kept[number].copy_(result)
                    after()
                if number % 3 == 2:
                    result.mul_(0.5)
                    after()
                given = result

    def held(self) -> list[Any]:
        """Return the bits that all results and copies hold."""
        self.torch.cuda.synchronize()
        return [one.view(self.torch.int16).clone() for one in (*self.results, *self.kept)]


def different(rows: int, extents: tuple[int, ...], rounds: int) -> dict[str, Any]:
    """Return how many runs of a chain gave other bits than the one whose every step the host waited for."""
    import torch  # noqa: PLC0415

    chain, found = Chain(rows, extents), {"queued": 0, "graph": 0}
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        chain.draw()
        chain.run(torch.cuda.synchronize)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            chain.run(lambda: None)
        for _ in range(rounds):
            chain.draw()
            chain.run(torch.cuda.synchronize)
            wanted = chain.held()
            for name, does in (("queued", lambda: chain.run(lambda: None)), ("graph", graph.replay)):
                does()
                does()
                held = chain.held()
                found[name] += any(not torch.equal(a, b) for a, b in zip(wanted, held, strict=True))
    nans = sum(int(torch.isnan(one.view(torch.bfloat16)).sum()) for one in chain.held())
    return {"kernels": chain.words, "rounds": rounds, "different": found, "nans": nans}


def main() -> int:
    """Run all chains; return 1 where bits differ."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.chains")
    parser.add_argument("--rounds", type=int, default=40)
    asked = parser.parse_args()
    chains = {name: different(*chain, asked.rounds) for name, chain in CHAINS.items()}
    report = {"machine": machine(), "chains": chains}
    out = Path(os.environ.get("OUT", Path(__file__).parent / "results"), "chains.json")
    out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    for name, one in chains.items():
        print(
            name, one["different"], f"{one['nans']} NaNs in", one["rounds"], "rounds of", len(one["kernels"]), "kernels"
        )
    return int(any(sum(one["different"].values()) or one["nans"] for one in chains.values()))


if __name__ == "__main__":
    sys.exit(main())

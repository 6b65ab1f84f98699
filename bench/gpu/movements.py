"""Do random plans of movements, by every means, move every byte right on a GPU, and touch no other?

    python -m bench.gpu.movements [PLANS] [SEED]     # 500 when left out; needs a GPU, torch, Triton, nvcc

Plans are those of `bench.kernels.one_movement`, of phases, bulk copies, cp.async and im2col at least 60 each. Each is
compiled by every backend that prints it, and run on random bytes with a guard around the target; what comes out is
compared with what the operator means, in numpy. Writes movements.json into $OUT, else bench/gpu/results.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import legalsat as ls
from bench.kernels.moved import memory_of, moved
from bench.kernels.one_movement import BACKENDS, drawn
from legalsat.runtime.views import TORCH_NAMES

PLANS, SEED, LEAST = 500, 3, 60
FEW = ("tma.phases", "bulk", "cp.async", "im2col")
GUARD = 4096  # bytes
MOST_BYTES = 1 << 22  # of a source, so that numpy's answer takes no minutes


def chosen(count: int, seed: int) -> list[int]:
    """Return seeds of so many plans, the rarer means as often as asked."""
    found: list[int] = []
    least, means = min(LEAST, count // 8), Counter[str]()
    number = seed * 1_000_000
    while len(found) < count:
        number += 1
        plan = drawn(random.Random(number))
        if plan is None or plan.operator.source.span_bits > 8 * MOST_BYTES:
            continue
        if plan.operator.source.dtype.name not in TORCH_NAMES:  # nobody can hand such an array over
            continue
        lacking = {one: least - means[one] for one in FEW if means[one] < least}
        if len(found) + sum(lacking.values()) >= count and _kind(plan) not in lacking:
            continue
        means[_kind(plan)] += 1
        found.append(number)
    return found


def _kind(plan: ls.MovementPlan) -> str:
    return "im2col" if plan.window is not None or plan.access.by == "tma.im2col" else plan.access.by


def built(number: int) -> list[str]:
    """Compile a plan by every backend that prints it, into the cache; return which do."""
    plan = drawn(random.Random(number))
    assert plan is not None
    done = []
    for backend in BACKENDS:
        try:
            plan.compile(backend).build()  # type: ignore[arg-type]
            done.append(backend)
        except ls.LegalSatError:
            continue
    return done


def _torch_type(tensor: ls.Tensor) -> Any:
    import torch  # noqa: PLC0415

    return getattr(torch, TORCH_NAMES[tensor.dtype.name])


def wrong(number: int, backend: str) -> str:
    """Run a plan on the GPU; return what is wrong, "" if nothing is."""
    import torch  # noqa: PLC0415

    plan = drawn(random.Random(number))
    assert plan is not None
    operator = plan.operator
    source, before = memory_of(operator.source, number), memory_of(operator.target)
    place, into = (
        torch.full((-(-len(one) // 16) * 16 + 2 * GUARD,), 0xA5, dtype=torch.uint8, device="cuda")
        for one in (source, before)
    )
    first, last = (GUARD + one.offset for one in (operator.source, operator.target))  # where slices begin
    place[first : first + len(source)] = torch.from_numpy(source)
    into[last : last + len(before)] = torch.from_numpy(before)
    x, y = (
        torch.as_strided(memory.view(_torch_type(one)), one.shape, one.strides, at * 8 // one.dtype.bits)
        for memory, one, at in ((place, operator.source, first), (into, operator.target, last))
    )
    plan.compile(backend)(x, out=y)  # type: ignore[arg-type]
    torch.cuda.synchronize()
    found = into.cpu().numpy()
    inside, around = found[last : last + len(before)], np.concatenate([found[:last], found[last + len(before) :]])
    bad = int((inside != moved(operator, source, before)).sum())
    touched = int((around != 0xA5).sum())
    return f"{bad} bytes wrong, {touched} around it touched" if bad or touched else ""


def main(count: int = PLANS, seed: int = SEED) -> int:
    """Compile, run and write; return 1 where a byte is wrong."""
    started = time.monotonic()
    numbers = chosen(count, seed)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        backends = dict(zip(numbers, pool.map(built, numbers, chunksize=4), strict=True))
    print(f"{len(numbers)} plans compiled in {time.monotonic() - started:.0f} s", flush=True)
    from bench.gpu.machine import machine  # noqa: PLC0415 - needs torch

    runs, bad, none = Counter[str](), list[dict[str, Any]](), 0
    for number in numbers:
        plan = drawn(random.Random(number))
        assert plan is not None
        none += not backends[number]
        for backend in backends[number]:
            runs[f"{backend}, {_kind(plan)}"] += 1
            try:
                told = wrong(number, backend)
            except (RuntimeError, ls.LegalSatError, ValueError) as error:
                told = f"{type(error).__name__}: {error}"
            if told:
                bad.append({"seed": number, "plan": str(plan.operator), "backend": backend, "wrong": told[:300]})
                print(bad[-1], flush=True)
                if "CUDA" in told or "driver" in told:
                    break
    right = f"{runs.total() - len(bad)} of {runs.total()} runs right, {none} plans without a printer"
    print(f"{right}; {dict(sorted(runs.items()))}")
    found = {**machine(), "seed": seed, "plans": len(numbers), "runs": dict(sorted(runs.items())), "unprinted": none}
    found |= {"wrong": bad}
    folder = Path(os.environ.get("OUT", Path(__file__).parent / "results"))
    (folder / "movements.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))

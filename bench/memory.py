"""How much memory mixed calls take in a process that lives long.

Run `python -m bench.memory [--calls N] [--json FILE]`: 50,000 calls of all kinds, each with numbers of its own, from a
seed: plans of copies, transposes, paddings and products, explanations, regions, layouts, tensor maps, pipelines, pasted
texts, sweeps. It prints the memory of the process after every twentieth of them, and what every function remembers, at
most and now. Exit code 1 if the last half of the calls adds more than `MOST_GROWTH`.
"""

from __future__ import annotations

import argparse
import functools
import gc
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import legalsat as ls
from bench.kernels.example_pipelines import EXAMPLES
from bench.machine import write
from bench.search.random_problems import problem
from legalsat.extract.kernels import product_kernels
from legalsat.extract.solve import solver

RESULT = Path(__file__).parent / "results" / "memory.json"
SEED, CALLS, POINTS = 1, 50_000, 20
MOST_GROWTH = 0.05  # of the memory after half of the calls
MEGABYTE = 1 << 20

Call = Callable[[Random], Any]


def _extent(random: Random) -> int:
    return random.choice((1, 7, 8, 64, 128, 4095, 4096)) if random.random() < 0.3 else random.randint(1, 5000)


def _tensor(random: Random) -> ls.Tensor:
    shape = [_extent(random) for _ in range(random.choice((1, 2, 2, 3)))]
    return ls.Tensor(shape, random.choice(("bf16", "u8", "fp32", "e4m3")))


def _open_tensor(random: Random) -> ls.Tensor:
    return ls.Tensor((ls.Dim("M", max=random.randint(5, 1000)), 8 * random.randint(1, 500)), "bf16")


def _planned(random: Random) -> Any:
    asked = problem(random)
    return ls.synthesize(asked.operator, asked.target)


def _product(random: Random) -> Any:
    return ls.synthesize(ls.Gemm(_extent(random), _extent(random), _extent(random), "bf16"), "h200")


def _layouts(random: Random) -> Any:
    one = ls.Layout((random.randint(1, 99), random.randint(1, 9)))
    return ls.complement(ls.coalesce(ls.composition(one, ls.Layout(random.randint(1, 9)))), 10_000)


def _map(random: Random) -> ls.TensorMap:
    box = 64, random.randint(1, 64)
    return ls.TensorMap(
        "bf16", (random.randint(64, 4096), random.randint(1, 4096)), (16 * random.randint(512, 900),), box
    )


def _maps(random: Random) -> Any:
    tm = _map(random)
    return ls.violations(tm, "h200"), ls.decode(ls.encode_blob(tm)), ls.smem_image(tm, (0, 0))


def _text(random: Random) -> Any:
    tm = _map(random)
    dims, strides, box = (",".join(map(str, one)) for one in (tm.global_dim, tm.global_stride, tm.box))
    return str(ls.explain(f"globalDim ({dims})\nglobalStrides ({strides})\nboxDim ({box})\nswizzle 3", "h200"))


def _pipeline(random: Random) -> Any:
    return ls.check_pipeline(random.choice(list(EXAMPLES.values())), "h200")


def _sweep(random: Random) -> Any:
    rows = [{"m": _extent(random), "n": 64, "k": 8 * random.randint(1, 512)} for _ in range(2)]
    return ls.sweep(rows, "h200", workers=1)


# Each with how many of a thousand calls it makes: all that is quick often, so that a run takes minutes.
CALLS_OF: dict[str, tuple[int, Call]] = {
    "plan": (100, _planned),
    "product": (2, _product),
    "explain": (60, lambda random: str(ls.explain(_tensor(random), random.choice(("h200", "b200"))))),
    "explain a map": (80, lambda random: ls.explain(_map(random), "h200")),
    "explain a text": (50, _text),
    "region": (8, lambda random: ls.legal_region(_open_tensor(random), "h200")),
    "pipeline": (4, _pipeline),
    "sweep": (6, _sweep),
    "layouts": (410, _layouts),
    "maps": (280, _maps),
}


def resident() -> float:
    """Return the megabytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / MEGABYTE


def remembered() -> dict[str, dict[str, int | None]]:
    """Return what each function of the package remembers: entries now and at most."""
    found: dict[str, dict[str, int | None]] = {
        f"legalsat.extract.{name}": {"now": len(recent), "most": recent.most}
        for name, recent in (("solver._ANSWERS", solver._ANSWERS), ("product_kernels._LEGAL", product_kernels._LEGAL))
    }
    for one in gc.get_objects():
        if (
            isinstance(one, functools._lru_cache_wrapper)
            and one.__module__.startswith("legalsat")
            and "<" not in one.__qualname__
        ):
            info = one.cache_info()
            if info.currsize:
                found[f"{one.__module__}.{one.__qualname__}"] = {"now": info.currsize, "most": info.maxsize}
    return dict(sorted(found.items()))


def curve(calls: int, seed: int = SEED, *, show: bool = False) -> dict[str, Any]:
    """Make the calls; return the memory as they went on, by number of calls.

    Args:
        calls: how many.
        seed: of their kinds and numbers.
        show: print each point as it is reached.
    """
    random = Random(seed)
    kinds = list(CALLS_OF)
    weights = [share for share, _ in CALLS_OF.values()]
    made: Counter[str] = Counter()
    points = []
    begun = time.process_time()
    for number in range(1, calls + 1):
        (kind,) = random.choices(kinds, weights)
        made[kind] += 1
        with suppress(ls.LegalSatError):  # some problems have no plan
            CALLS_OF[kind][1](random)
        if number % max(1, calls // POINTS) == 0:
            points.append({"calls": number, "megabytes": round(resident(), 1)})
            if show:
                print(f"{number:>8} calls {points[-1]['megabytes']:>8} MB", flush=True)
    return {
        "calls": dict(sorted(made.items())),
        "points": points,
        "growth": round(growth(points), 4),
        "remembered": remembered(),
        "seconds": round(time.process_time() - begun),
    }


def growth(points: list[dict[str, Any]]) -> float:
    """Return what the last half of the calls added, as a part of what there was after the first."""
    half = points[len(points) // 2 - 1]["megabytes"]
    return float(points[-1]["megabytes"] / half - 1)


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--json", type=Path, default=RESULT)
    asked = parser.parse_args()
    found = curve(asked.calls, show=True)
    for name, entries in found["remembered"].items():
        print(f"{name}: {entries['now']} of {entries['most']}")
    print(f"the last half of {asked.calls} calls added {found['growth']:.1%}; {found['seconds']} s")
    write(asked.json, {"command": "python -m bench.memory", **found})
    return int(found["growth"] > MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())

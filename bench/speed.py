"""How long plans take: cold, in a legality class seen before, from memory; and how that grows with rank and K.

Run `python -m bench.speed [--json FILE] [--plots FOLDER] [--repeat N]`. "Cold" forgets every plan, field, answer of the
solver and record of a condition before each plan; the process itself is warm, so the e-graph's rules are compiled.
"Class seen" first plans the same problem with a slowest axis twice as long, and then asks for a plan never asked for.
Each figure is of the medians of N runs of every problem: wall time, and processor time, which others on the machine do
not stretch as much.
"""

from __future__ import annotations

import argparse
import gc
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import legalsat as ls
from bench.machine import write
from bench.speed_problems import depths, products, tile_of_depth, tiles
from legalsat.errors import LegalSatError
from legalsat.extract.explain import recorded
from legalsat.extract.kernels import joint
from legalsat.extract.search import planner
from legalsat.extract.solve import fields, solver
from legalsat.operators import Move
from legalsat.operators.gemm import Gemm
from legalsat.targets import Target, target
from legalsat.terms.accesses import Classes, Graph

TARGET = "h200"
REPEAT = 3
HITS = 20_000
OTHER_SCALE = 2
TOKENS = 4096
# What is asked for, in milliseconds: of a tile p50 and p95, of a product p50; of a hit, in microseconds; nodes.
ASKED = {"tile_p50": 20, "tile_p95": 80, "product_p50": 100, "hit_us": 50, "nodes": 5000}

Problem = Move | Gemm
Times = tuple[float, float]
"""Wall and processor time, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Milliseconds over a set of problems."""

    p50: float
    p95: float
    worst: float


@dataclass(frozen=True, slots=True)
class Series:
    """A set of problems: how many, how many of them are refused, and wall and processor time."""

    problems: int
    refused: int
    wall: Spread
    processor: Spread


@dataclass(frozen=True, slots=True)
class Point:
    """One place of a growth: rank or K, the medians in milliseconds, and the most nodes of an e-graph."""

    at: int
    wall: float
    processor: float
    nodes: int


def forget() -> None:
    """Forget every plan, field, answer and record."""
    planner.cached_plan.cache_clear()
    joint.cached_gemm_plan.cache_clear()
    fields.solve.cache_clear()
    solver.forget()
    recorded.names.cache_clear()


def timed(ask: Callable[[], object], prepare: Callable[[], object], repeat: int) -> Times:
    """Return the medians of some runs, each after `prepare`."""
    found: list[Times] = []
    for _ in range(repeat):
        prepare()
        gc.collect()
        wall, processor = time.perf_counter(), time.process_time()
        ask()
        found.append((1e3 * (time.perf_counter() - wall), 1e3 * (time.process_time() - processor)))
    return statistics.median(wall for wall, _ in found), statistics.median(cpu for _, cpu in found)


def asked(problem: Problem, on: Target) -> bool:
    """Plan a problem; return whether it has a plan."""
    try:
        if isinstance(problem, Gemm):
            joint.gemm_plan(problem, on)
        else:
            planner.plan(problem, on)
    except LegalSatError:
        return False
    return True


def series(problems: Sequence[Problem], others: Sequence[Problem] | None, repeat: int) -> tuple[Series, list[Times]]:
    """Time every problem, cold or, given others of the same classes, after the other one."""
    on, found, refused = target(TARGET), [], 0
    for at, problem in enumerate(problems):

        def prepare(at: int = at) -> None:
            forget()
            if others is not None:
                asked(others[at], on)

        found.append(timed(lambda problem=problem: asked(problem, on), prepare, repeat))  # type: ignore[misc]
        refused += not asked(problem, on)
    walls, processors = (spread(column) for column in zip(*found, strict=True))
    return Series(len(problems), refused, walls, processors), found


def spread(numbers: Iterable[float]) -> Spread:
    """Return the median, the 95th percentile and the largest."""
    ranked = sorted(numbers)
    return Spread(statistics.median(ranked), ranked[min(len(ranked) - 1, round(0.95 * len(ranked)))], ranked[-1])


@contextmanager
def counting(found: list[int]) -> Iterator[None]:
    """Note the nodes of every e-graph that the search reads."""
    read = Graph.read

    def counted(graph: Graph) -> Classes:
        found.append(graph.size)
        return read(graph)

    Graph.read = counted  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        Graph.read = read  # type: ignore[method-assign]


def nodes(problem: Problem) -> int:
    """Return the most nodes of any e-graph that a problem's plan takes."""
    forget()
    found: list[int] = [0]
    with counting(found):
        asked(problem, target(TARGET))
    return max(found)


def hit() -> dict[str, float]:
    """Return microseconds of asking again: the public function, with its tensor at hand, and the memo alone."""
    x = ls.Tensor((4096, 4096), "bf16")
    operator, on = ls.Copy(x, tile=(128, 64), consumer="wgmma.a"), target(TARGET)
    ask: dict[str, Callable[[], object]] = {
        "synthesize_tensor": lambda: ls.synthesize(x, TARGET, tile=(128, 64), consumer="wgmma.a"),
        "synthesize_operator": lambda: ls.synthesize(operator, TARGET),
        "synthesize_product": lambda: ls.synthesize(Gemm(4096, 4096, 4096, "bf16"), TARGET),
        "memo": lambda: planner.cached_plan(operator, on),
    }
    found = {}
    for name, call in ask.items():
        call()
        runs = []
        for _ in range(HITS // 100):
            start = time.perf_counter()
            for _ in range(100):
                call()
            runs.append((time.perf_counter() - start) / 100 * 1e6)
        found[name] = round(statistics.median(runs), 2)
    return found


def growth(problems: dict[int, list[Problem]], times: dict[int, list[Times]]) -> list[Point]:
    """Return a point for each place: medians over its problems, and the most nodes of any."""
    return [
        Point(
            at,
            statistics.median(wall for wall, _ in times[at]),
            statistics.median(cpu for _, cpu in times[at]),
            max(nodes(problem) for problem in problems[at]),
        )
        for at in sorted(problems)
    ]


def measure(repeat: int = REPEAT) -> dict[str, Any]:
    """Measure everything; minutes."""
    movements = tiles()
    asks: list[Problem] = [one.operator for one in movements]
    others: list[Problem] = [one.operator for one in tiles(OTHER_SCALE)]
    gemms, other_gemms = [*products()], [*products(OTHER_SCALE)]
    warm = target(TARGET)
    for problem in (*asks[:40], gemms[0]):
        asked(problem, warm)
    cold, times = series(asks, None, repeat)
    cold_products, _ = series(gemms, None, repeat)
    ranks: dict[int, list[Problem]] = {}
    by_rank: dict[int, list[Times]] = {}
    for one, spent in zip(movements, times, strict=True):
        ranks.setdefault(one.rank, []).append(one.operator)
        by_rank.setdefault(one.rank, []).append(spent)
    deep: dict[int, list[Problem]] = {k: [tile_of_depth(k)] for k in depths()}
    deep_products: dict[int, list[Problem]] = {k: [Gemm(TOKENS, TOKENS, k, "bf16")] for k in depths()}
    slowest = sorted(zip(times, movements, strict=True), key=lambda pair: -pair[0][1])[:10]
    found: dict[str, Any] = {
        "target": TARGET,
        "repeat": repeat,
        "asked": ASKED,
        "tiles_cold": asdict(cold),
        "tiles_class_seen": asdict(series(asks, others, repeat)[0]),
        "products_cold": asdict(cold_products),
        "products_class_seen": asdict(series(gemms, other_gemms, repeat)[0]),
        "hit_us": hit(),
        "growth_with_rank": [asdict(point) for point in growth(ranks, by_rank)],
        "growth_with_k_tile": [asdict(point) for point in growth(deep, _each(deep, repeat))],
        "growth_with_k_product": [asdict(point) for point in growth(deep_products, _each(deep_products, repeat))],
        "slowest_tiles": [{"problem": str(one), "processor": cpu, "wall": wall} for (wall, cpu), one in slowest],
    }
    found["nodes"] = max(point["nodes"] for name in found if name.startswith("growth") for point in found[name])
    found["nodes"] = max(found["nodes"], *(nodes(problem) for problem in gemms))
    found["peak_resident_mib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return found


def _each(problems: dict[int, list[Problem]], repeat: int) -> dict[int, list[Times]]:
    return {at: series(ones, None, repeat)[1] for at, ones in problems.items()}


def report(found: dict[str, Any]) -> str:
    """Return the measurement in words."""
    lines = []
    for name in ("tiles_cold", "tiles_class_seen", "products_cold", "products_class_seen"):
        one = found[name]
        for clock in ("wall", "processor"):
            times = "  ".join(f"{what} {one[clock][what]:7.1f} ms" for what in ("p50", "p95", "worst"))
            lines.append(f"{name:20} {one['problems']:4} problems, {one['refused']:3} refused  {clock:9}  {times}")
    lines.append("asked again: " + ", ".join(f"{name} {us} us" for name, us in found["hit_us"].items()))
    for name in ("growth_with_rank", "growth_with_k_tile", "growth_with_k_product"):
        points = ", ".join(f"{p['at']}: {p['processor']:.1f} ms {p['nodes']} nodes" for p in found[name])
        lines.append(f"{name} (processor): {points}")
    lines.append(f"e-graph: {found['nodes']} nodes at most; peak resident {found['peak_resident_mib']} MiB")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.speed", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--plots", type=Path, metavar="FOLDER", help="draw the growth there; needs the extra bench")
    parser.add_argument("--repeat", type=int, default=REPEAT, metavar="N", help="time every problem so often")
    given = parser.parse_args(arguments)
    found = measure(given.repeat)
    print(report(found))
    if given.json:
        write(given.json, found)
    if given.plots:
        from bench.speed_plots import draw  # noqa: PLC0415 - only plots need matplotlib

        print(draw(found, given.plots))
    return 0


if __name__ == "__main__":
    sys.exit(main())

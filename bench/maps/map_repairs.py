"""Whether repairs of tensor maps work, and whether any is larger than what exhaustive search finds.

Run `python -m bench.maps.map_repairs [N] [--json FILE]`. Each of N random refused requests (`bench.maps.random_maps`)
is explained, and every combination of values in small domains is tried (`bench.maps.map_exhaustive`). Each repair is
applied and judged; its size is compared with the smallest that was found for the same parts, the first one's with the
smallest of all. "Smaller" repairs have values outside the domains, which hold but a part of all boxes of many
dimensions.

Exit code 1 if a repair does not work or warns anew, if any is larger than what was found, or if one side alone repairs.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import legalsat as ls
from bench.machine import RESULTS, write
from bench.maps.map_exhaustive import MOST_BOXES, Search, Smallest
from bench.maps.map_ways import Parts
from bench.maps.random_maps import Request, requests
from legalsat.extract.explain.map_repair import MapRepair, map_repairs
from legalsat.targets import target

SEED = 1
REQUESTS = 5000
RESULT = RESULTS / "map_repairs.json"
MOST_DESCRIBED = 20
WARM_UP = 20  # requests that are explained before any is timed
EQUAL, LARGER, SMALLER, UNKNOWN, MISSED = "equal", "larger", "smaller", "unknown to the search", "missed"
NOT_LEGAL, WARNS_ANEW, FIRST_LARGER = "not legal", "warns anew", "first larger"
FAULTS = (LARGER, UNKNOWN, MISSED, NOT_LEGAL, WARNS_ANEW, FIRST_LARGER)


@dataclass
class Report:
    """What was found.

    Attributes:
        seed: of the requests.
        requests, repairs: how many were judged, and how many repairs they got.
        verdicts: repairs by how their size compares with the search's; sets of parts that one side alone changes.
        same_map: repairs that are the very map that the search found.
        unrepaired: requests that neither side repairs.
        unrepaired_alone: requests that one side repairs and the other does not.
        by_parts, by_origin, by_target, by_repairs: of repairs, requests, requests, and requests by how many they got.
        explain_ms: time of `legalsat.explain`: median, 95th percentile, longest.
        tried: combinations that the search judged.
        search_seconds: all of them.
        faults: the first few, in words.
    """

    seed: int
    requests: int = 0
    repairs: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    same_map: int = 0
    unrepaired: int = 0
    unrepaired_alone: int = 0
    by_parts: Counter[str] = field(default_factory=Counter)
    by_origin: Counter[str] = field(default_factory=Counter)
    by_target: Counter[str] = field(default_factory=Counter)
    by_repairs: Counter[int] = field(default_factory=Counter)
    explain_ms: dict[str, float] = field(default_factory=dict)
    tried: int = 0
    search_seconds: float = 0.0
    faults: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether every repair works and none is larger than what was found."""
        return not self.unrepaired_alone and not any(self.verdicts[fault] for fault in FAULTS)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        plain = {name: dict(sorted(value.items())) for name, value in vars(self).items() if isinstance(value, Counter)}
        return {**vars(self), **plain, "search_seconds": round(self.search_seconds, 1)}

    def add(self, asked: Request, found: Sequence[MapRepair], best: dict[Parts, Smallest]) -> None:
        """Compare the repairs of one request with the smallest ones."""
        self.requests += 1
        self.repairs += len(found)
        self.by_origin[asked.origin] += 1
        self.by_target[asked.target] += 1
        self.by_repairs[len(found)] += 1
        self.unrepaired += not found and not best
        self.unrepaired_alone += bool(found) != bool(best)
        for repair in found:
            self.by_parts[" + ".join(sorted(repair.parts))] += 1
            self._count(asked, repair.parts, *_verdicts(asked, repair, best.get(repair.parts)))
            smallest = best.get(repair.parts)
            self.same_map += smallest is not None and smallest.after == repair.after
        for parts in best.keys() - {repair.parts for repair in found}:
            self._count(asked, parts, MISSED)
        if found and best and flat(found[0]) > min(smallest.size for smallest in best.values()):
            self._count(asked, found[0].parts, FIRST_LARGER)

    def _count(self, asked: Request, parts: Parts, *verdicts: str) -> None:
        self.verdicts.update(verdicts)
        for verdict in verdicts:
            if verdict in FAULTS and len(self.faults) < MOST_DESCRIBED:
                self.faults.append(f"{verdict}: {' + '.join(sorted(parts))} of {asked}")


def flat(repair: MapRepair) -> tuple[int, ...]:
    """Return a repair's size as the search counts it."""
    return (*repair.size[:-1], *repair.size.distance)


def _verdicts(asked: Request, repair: MapRepair, smallest: Smallest | None) -> Iterable[str]:
    after = ls.violations(repair.after, asked.target)
    if any(d.level == "error" for d in after):
        yield NOT_LEGAL
    if {d.code for d in after} - {d.code for d in ls.violations(asked.map, asked.target)}:
        yield WARNS_ANEW
    if smallest is None:
        yield UNKNOWN
    elif flat(repair) == smallest.size:
        yield EQUAL
    else:
        yield LARGER if flat(repair) > smallest.size else SMALLER


def measure(count: int, seed: int = SEED, *, boxes: int = MOST_BOXES, progress: bool = False) -> Report:
    """Judge the repairs of `count` random requests; the search tries about so many `boxes`."""
    report, times = Report(seed), []
    for asked in itertools.islice(requests(Random(seed + 1)), WARM_UP):
        ls.explain(asked.map, asked.target)
    for asked in itertools.islice(requests(Random(seed)), count):
        found = map_repairs(asked.map, target(asked.target))
        start = time.perf_counter()
        ls.explain(asked.map, asked.target)
        times.append(1e3 * (time.perf_counter() - start))
        start = time.perf_counter()
        search = Search(asked.map, target(asked.target), boxes)
        report.add(asked, found, search.run())
        report.search_seconds += time.perf_counter() - start
        report.tried += search.tried
        if progress and report.requests % 20 == 0:
            print(f"\r{report.requests} of {count}", end="", file=sys.stderr, flush=True)
    quantiles = statistics.quantiles(times, n=20)
    report.explain_ms = {
        "p50": round(statistics.median(times), 2),
        "p95": round(quantiles[-1], 2),
        "longest": round(max(times), 2),
        "load_average": round(os.getloadavg()[0], 1),
    }
    return report


def text(report: Report) -> str:
    """Return the report in words."""
    counts = ", ".join(f"{report.verdicts[v]:,} {v}" for v in (EQUAL, SMALLER, *FAULTS))
    explain = report.explain_ms
    parts = ", ".join(f"{name} {number:,}" for name, number in report.by_parts.most_common(12))
    lines = [
        f"{report.requests:,} refused requests, {report.repairs:,} repairs: {counts}",
        f"the very map that was found: {report.same_map:,}",
        f"not repaired: {report.unrepaired:,} by both sides, {report.unrepaired_alone:,} by one",
        f"explain: {explain['p50']} ms in the median, {explain['p95']} ms at 95 %, {explain['longest']} ms at most",
        f"search: {report.tried:,} combinations in {report.search_seconds:.0f} s",
        f"parts: {parts}",
    ]
    return "\n".join((*lines, *report.faults))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.maps.map_repairs", description=__doc__.splitlines()[0])
    parser.add_argument("count", nargs="?", type=int, default=REQUESTS, help="requests to judge")
    parser.add_argument("--seed", type=int, default=SEED, help="of the requests")
    parser.add_argument("--json", type=Path, default=RESULT, help="write the result here")
    given = parser.parse_args(arguments)
    report = measure(given.count, given.seed, progress=sys.stderr.isatty())
    print(text(report))
    write(given.json, report.to_json())
    return int(not report.sound)


if __name__ == "__main__":
    sys.exit(main())

"""Whether a plan costs what exhaustive enumeration finds, on random small problems.

Run `python -m bench.search.optimality [N] [--seed SEED] [--json FILE]`. Each of N problems is planned, and every way
there is to move its tensor is tried (`bench.search.exhaustive`); where the user names no tile, for the tiles that the
planner proposes. Compared is what `legalsat.extract.cost.cost.order` compares. Then it is planned without pruning,
which must change nothing.

A problem with more ways than are tried is drawn again. It still counts where only the laws' own lists of modes are
tried, without cuts that no law makes. The relayout before a movement is left out on both sides: it is two movements.

Exit code 1 if any plan is dearer or cheaper than what was found, if one side alone refuses, or if pruning mattered.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from bench.machine import write
from bench.search.equal_accesses import MOST_LISTS, TooManyWays
from bench.search.exhaustive import MEANS, MOST_BOXES, Way, cheapest
from bench.search.random_problems import Problem, problem
from legalsat.errors import LegalSatError
from legalsat.extract.cost.cost import order
from legalsat.extract.search.planner import Limits, NoLegalLayout, plan
from legalsat.extract.search.search import coalesced
from legalsat.extract.search.tiles import proposals
from legalsat.operators import Move, access_of
from legalsat.plans.movement_plan import MovementCost, MovementPlan
from legalsat.rules.rewrites.words import recast_to_wider_words
from legalsat.targets import target

SEED = 1
PROBLEMS = 5000
BYTE = 8
MOST_DESCRIBED = 20  # gaps that a report spells out
EQUAL, REFUSED, DEARER, CHEAPER, ALONE = "equal", "refused by both", "dearer", "cheaper", "refused by one"
GAPS = (DEARER, CHEAPER, ALONE)


@dataclass
class Tally:
    """How plans compare with what was found, and the widest gap in predicted time, as a part of it."""

    verdicts: Counter[str] = field(default_factory=Counter)
    widest_time_gap: float = 0.0

    def add(self, found: Way | None, planned: MovementCost | None) -> str:
        """Compare; return the verdict on the plan."""
        answer = verdict(found.cost if found else None, planned)
        self.verdicts[answer] += 1
        if found is not None and planned is not None:
            gap = planned.nanoseconds / found.cost.nanoseconds - 1
            self.widest_time_gap = max(self.widest_time_gap, gap, key=abs)
        return answer


@dataclass
class Report:
    """What was found.

    Attributes:
        seed: of the problems.
        every_way, laws_alone: plans against every way, and against the lists of modes that the laws themselves make.
        drawn_again: problems with too many ways.
        pruning_differences: problems whose plan costs something else without pruning.
        by_means, by_target, by_rank, by_dtype: of the problems judged against every way; means of the plans.
        oracle_seconds, planner_seconds: over those problems, of trying every way, and of planning.
        median_ratio: of the two, problem by problem.
        gaps: the first few, in words.
        limits: beyond which a problem is drawn again.
    """

    seed: int
    every_way: Tally = field(default_factory=Tally)
    laws_alone: Tally = field(default_factory=Tally)
    drawn_again: int = 0
    pruning_differences: int = 0
    by_means: Counter[str] = field(default_factory=Counter)
    by_target: Counter[str] = field(default_factory=Counter)
    by_rank: Counter[int] = field(default_factory=Counter)
    by_dtype: Counter[str] = field(default_factory=Counter)
    oracle_seconds: float = 0.0
    planner_seconds: float = 0.0
    median_ratio: float = 0.0
    gaps: list[str] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=lambda: {"lists of modes": MOST_LISTS, "boxes": MOST_BOXES})

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        plain = {name: dict(sorted(value.items())) for name, value in vars(self).items() if isinstance(value, Counter)}
        tallies = {
            name: {"verdicts": dict(tally.verdicts), "widest_time_gap": tally.widest_time_gap}
            for name, tally in vars(self).items()
            if isinstance(tally, Tally)
        }
        return {**vars(self), **plain, **tallies}

    @property
    def sound(self) -> bool:
        """Whether every plan costs what was found, and pruning changed nothing."""
        gaps = sum(tally.verdicts[verdict] for tally in (self.every_way, self.laws_alone) for verdict in GAPS)
        return not gaps and not self.pruning_differences


def verdict(found: MovementCost | None, planned: MovementCost | None) -> str:
    """Return how a plan's cost compares with what was found; None stands for a refusal."""
    if found is None or planned is None:
        return REFUSED if found is planned else ALONE
    if order(found) == order(planned):
        return EQUAL
    return DEARER if order(planned) > order(found) else CHEAPER


def best_way(operator: Move, gpu: str, *, cuts: bool) -> Way | None:
    """Return the cheapest way with any of the tiles that the planner may choose from.

    Raises:
        TooManyWays: there are too many to try.
    """
    on = target(gpu)
    if operator.tile is not None:
        return cheapest([access_of(operator, operator.tile)], operator, on, cuts=cuts)
    whole, _ = coalesced(access_of(operator))
    for recast in recast_to_wider_words.steps(whole) if whole.word < BYTE else ():
        whole = recast
        break
    found = cheapest(proposals(whole), operator, on, cuts=cuts)
    # Tiles of the axes as they are come into play only where those of merged axes give nothing.
    return found or cheapest(proposals(access_of(operator)), operator, on, cuts=cuts)


def planned(asked: Problem, *, prune: bool = True) -> MovementPlan | None:
    """Return the plan that brings tiles straight from the source, None where it is refused."""
    try:
        return plan(asked.operator, target(asked.target), Limits(means=MEANS, prune=prune))
    except NoLegalLayout:
        return None


def measure(count: int, seed: int = SEED, *, progress: bool = False) -> Report:
    """Judge `count` random problems."""
    random, report = Random(seed), Report(seed)
    ratios: list[float] = []
    while len(ratios) < count:
        asked = problem(random)
        start = time.perf_counter()
        try:
            found = planned(asked)
        except LegalSatError as error:  # neither a plan nor a refusal
            report.gaps.append(f"{asked}: {type(error).__name__}: {error}")
            report.every_way.verdicts[ALONE] += 1
            continue
        planner = time.perf_counter() - start
        cost = found.cost if found else None
        unpruned = planned(asked, prune=False)
        report.pruning_differences += verdict(unpruned.cost if unpruned else None, cost) not in (EQUAL, REFUSED)
        try:
            best = best_way(asked.operator, asked.target, cuts=False)
            _describe(report, asked, report.laws_alone.add(best, cost), best, found)
            start = time.perf_counter()
            best = best_way(asked.operator, asked.target, cuts=True)
        except TooManyWays:
            report.drawn_again += 1
            continue
        oracle = time.perf_counter() - start
        _describe(report, asked, report.every_way.add(best, cost), best, found)
        ratios.append(oracle / planner)
        report.oracle_seconds += oracle
        report.planner_seconds += planner
        report.by_means[found.access.by if found else "refused"] += 1
        report.by_target[asked.target] += 1
        report.by_rank[asked.rank] += 1
        report.by_dtype[asked.operator.source.dtype.name] += 1
        if progress and len(ratios) % 100 == 0:
            print(f"\r{len(ratios)} of {count}", end="", file=sys.stderr, flush=True)
    report.median_ratio = statistics.median(ratios)
    return report


def _describe(report: Report, asked: Problem, answer: str, best: Way | None, found: MovementPlan | None) -> None:
    if answer in GAPS and len(report.gaps) < MOST_DESCRIBED:
        ways = (found.access if found else None, best.access if best else None)
        report.gaps.append(f"{answer}: {asked}; planned {ways[0]}, found {ways[1]}")


def text(report: Report) -> str:
    """Return the report in words."""
    lines = []
    for name, tally in (("every way", report.every_way), ("laws alone", report.laws_alone)):
        counts = ", ".join(f"{tally.verdicts[answer]:,} {answer}" for answer in (EQUAL, REFUSED, *GAPS))
        lines.append(f"{name + ':':12}{tally.verdicts.total():,} plans: {counts}; gap {tally.widest_time_gap:.2%}")
    lines += [
        f"pruning:    {report.pruning_differences} differences without it",
        f"drawn again: {report.drawn_again:,} problems with too many ways",
        f"time:       {report.oracle_seconds:.0f} s to try every way, {report.planner_seconds:.0f} s to plan; "
        f"{report.median_ratio:.2f} times as long in the median",
    ]
    for name in ("by_means", "by_target", "by_rank", "by_dtype"):
        counted = ", ".join(f"{key} {number:,}" for key, number in sorted(getattr(report, name).items()))
        lines.append(f"{name.replace('_', ' ') + ':':12}{counted}")
    return "\n".join((*lines, *report.gaps))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.search.optimality", description=__doc__.splitlines()[0])
    parser.add_argument("count", nargs="?", type=int, default=PROBLEMS, help="problems to judge")
    parser.add_argument("--seed", type=int, default=SEED, help="of the problems")
    parser.add_argument("--json", type=Path, help="write the result here")
    given = parser.parse_args(arguments)
    report = measure(given.count, given.seed, progress=sys.stderr.isatty())
    print(text(report))
    if given.json:
        write(given.json, report.to_json())
    return int(not report.sound)


if __name__ == "__main__":
    sys.exit(main())

"""What the typestate check finds of planted faults, against the model checker.

Run `python -m bench.kernels.typestate_agreement [--json FILE]`. Every mutant of every pipeline of the tests is checked
for all trip counts at once, and model-checked, all orders of all steps, for each of the trip counts below until one
fails.

Exit code 1 if a right pipeline is refused or not proven, or if a harmful mutant passes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from bench.kernels.example_pipelines import EXAMPLES
from bench.kernels.pipeline_mutants import mutants
from bench.machine import write
from legalsat.analyses.protocol.model_check import explore
from legalsat.analyses.protocol.typestate import TypestateResult, check
from legalsat.program.pipeline import Pipeline, walk
from legalsat.targets import target

# Trip counts that are tried: below these, by how many symbols a pipeline has.
ALONE, AMONG = {"": 10}, {"": 6, "tiles": 4}
STATES = 4000


def checked(pipeline: Pipeline) -> TypestateResult:
    """Check for a chip that has the pipeline's matrix unit."""
    ops = (op for role in pipeline.roles for op in walk(role.body))
    return check(pipeline, target("b200" if any("tcgen05" in str(op) for op in ops) else "h200"), max_forks=600)


def trip_counts(symbols: Sequence[str]) -> Iterator[dict[str, int]]:
    """Yield trip counts, small ones first."""
    tops = ALONE if len(symbols) < 2 else AMONG
    ranges = [range(tops.get(symbol, tops[""])) for symbol in symbols]
    for values in sorted(product(*ranges), key=sum):
        yield dict(zip(symbols, values, strict=True))


def harm(pipeline: Pipeline) -> str:
    """Return what the model checker finds: a kind of error, "none", or "unknown" where there are too many states."""
    for values in trip_counts(pipeline.symbols):
        verdict = explore(pipeline, values, limit_states=STATES)
        if verdict.error:
            return verdict.error.kind
        if not verdict.complete:
            return "unknown"
    return "none"


def agreement() -> dict[str, Any]:
    """Return the counts, by kind of mutant too, and every mutant on which the two disagree."""
    right: dict[str, dict[str, Any]] = {}
    kinds: dict[str, Counter[str]] = {}
    times: list[float] = []
    missed: list[str] = []
    strict: list[str] = []
    unproven = 0
    totals: Counter[str] = Counter()
    for name, pipeline in EXAMPLES.items():
        before = time.perf_counter()
        result = checked(pipeline)
        right[name] = {"proven": result.proven, "milliseconds": round(1e3 * (time.perf_counter() - before), 2)}
        for mutant in mutants(pipeline):
            before = time.perf_counter()
            result = checked(mutant.pipeline)
            times.append(1e3 * (time.perf_counter() - before))
            found = harm(mutant.pipeline)
            flagged = bool(result.diagnostics)
            verdict = {"none": "harmless", "unknown": "unknown"}.get(found, "harmful")
            totals[f"{verdict}, {'flagged' if flagged else 'passed'}"] += 1
            unproven += not flagged and not result.proven
            kinds.setdefault(mutant.kind, Counter())[verdict] += 1
            where = f"{name}: {mutant.kind}, {mutant.where}"
            if verdict == "harmful" and not flagged:
                missed.append(f"{where}: {found}")
            if verdict == "harmless" and flagged:
                strict.append(f"{where}: {', '.join(sorted({d.code for d in result.diagnostics}))}")
    return {
        "right": right,
        "mutants": sum(totals.values()),
        "kinds": len(kinds),
        **dict(totals),
        "not proven, not flagged": unproven,
        "missed": missed,
        "flagged though harmless": strict,
        "milliseconds": {"median": round(statistics.median(times), 2), "most": round(max(times), 1)},
        "by kind": {kind: dict(counts) for kind, counts in sorted(kinds.items())},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print the summary, and write it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    found = agreement()
    for key, value in found.items():
        if key not in {"by kind", "right"}:
            print(f"{key}: {value}")
    if options.json:
        write(options.json, found)
    return int(bool(found["missed"]) or not all(one["proven"] for one in found["right"].values()))


if __name__ == "__main__":
    sys.exit(main())

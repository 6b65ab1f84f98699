"""Are faults in the protocol of clusters told? Those of kernels of products, before they are printed.

    python -m bench.cluster_mutants [--processes N] [--json FILE]

Programs of kernels whose CTAs multicast, split k or take turns get one fault each: a remote arrival that is missing or
goes elsewhere, a mask with a wrong bit, a CTA that ends before its peers are done, bytes of peers that nobody expects.
The contract judges them as it judges every plan. What it passes is run in all orders by the model checker, for each
small number of tiles and k-tiles; exit code 1 if that finds harm in one of them, or knows no answer.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from bench.conformance import classes
from bench.machine import write
from bench.pipeline_mutants import Mutant, mutants
from bench.typestate_agreement import checked, harm
from legalsat.extract.kernels.kernel_program import kernel_program
from legalsat.program.pipeline import Pipeline

# Kinds of faults in how CTAs of a cluster work together.
KINDS = frozenset(
    {
        "arrival dropped",
        "arrival doubled",
        "arrival a stage late",
        "arrival a stage early",
        "arrival at the wrong block",
        "arrival at another barrier",
        "arrival after the advance",
        "one arrival more",
        "one arrival fewer",
        "release before the group's wait",
        "release before the read",
        "release before the sums are used",
        "load dropped",
        "load doubled",
        "load a stage late",
        "load counted on another barrier",
        "half of the bytes loaded",
        "mask with a wrong bit",
        "mask outside of the cluster",
        "write before the wait",
        "expectation dropped",
        "a box too few expected",
        "a box too many expected",
        "arrival without expectation",
        "expectation without arrival",
        "meeting dropped",
        "store before the meeting",
        "write before the meeting",
        "fence after the meeting",
        "fence mbarrier_init dropped",
        "wait dropped",
        "parity flipped",
        "read of the wrong CTA",
        "fewer arrivals initialised",
        "more arrivals initialised",
        "role left out",
    }
)


def of_clusters(pipeline: Pipeline) -> Iterator[Mutant]:
    """Yield the mutants of a program that concern what CTAs of a cluster share."""
    yield from (mutant for mutant in mutants(pipeline) if mutant.kind in KINDS)


def chosen() -> list[str]:
    """Return the classes whose kernels run in clusters; of splits those by 2 and by 3."""
    return [name for name in classes() if any(word in name for word in ("cluster", "split 2", "split 3"))]


def judged(name: str) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Return how many mutants of a class came out how, by kind, and those that pass though they do harm."""
    gemm, kernel = classes()[name]
    counts: Counter[tuple[str, str]] = Counter()
    missed: list[str] = []
    for mutant in of_clusters(kernel_program(kernel, gemm.out_dtype.bytes)):
        if checked(mutant.pipeline).diagnostics:
            counts[mutant.kind, "flagged"] += 1
            continue
        found = harm(mutant.pipeline)
        counts[mutant.kind, {"none": "harmless"}.get(found, found)] += 1
        if found != "none":
            missed.append(f"{name}: {mutant.kind}, {mutant.where}: {found}")
    return counts, missed


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge all, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    names, counts, missed = chosen(), Counter[tuple[str, str]](), list[str]()
    with ProcessPoolExecutor(options.processes) as pool:
        for name, (some, harmful) in zip(names, pool.map(judged, names), strict=True):
            counts += some
            missed += harmful
            print(f"{name}: {sum(some.values())} mutants, {len(harmful)} missed", flush=True)
    found: dict[str, Any] = {
        "classes": len(names),
        "kinds": len({kind for kind, _ in counts}),
        "mutants": counts.total(),
        "flagged": sum(count for (_, what), count in counts.items() if what == "flagged"),
        "passed and harmless": sum(count for (_, what), count in counts.items() if what == "harmless"),
        "missed": missed,
        "by kind": {
            kind: {what: count for (of, what), count in counts.items() if of == kind} for kind in sorted(KINDS)
        },
    }
    print(", ".join(f"{key} {value}" for key, value in found.items() if key not in {"missed", "by kind"}))
    print("\n".join(missed))
    if options.json:
        write(options.json, found)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())

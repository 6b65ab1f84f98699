"""Are faults in the protocol of clusters told? Those of kernels of products, before they are printed.

    python -m bench.kernels.cluster_mutants [--every N] [--sample N [--seed N]] [--processes N] [--seconds S]
                                            [--whole S] [--out FOLDER] [--json FILE]

Programs of kernels whose CTAs multicast, split k or take turns get one fault each: a remote arrival that is missing or
goes elsewhere, a mask with a wrong bit, a CTA that ends before its peers are done, bytes of peers that nobody expects.
The contract judges them as it judges every plan. What it passes is run in all orders by the model checker, for each
small number of tiles and k-tiles; exit code 1 if that finds harm in one of them, or knows no answer. Each mutant has a
process of its own, and so many seconds. Written as each is done: a line of JSON in the folder.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import pool
from bench.kernels.conformance import classes
from bench.kernels.pipeline_mutants import Mutant, mutants
from bench.kernels.typestate_agreement import checked, harm
from bench.machine import write
from legalsat.extract.kernels.kernel_program import kernel_program
from legalsat.extract.kernels.product_maps import stored_type
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


def programs() -> dict[str, Pipeline]:
    """Return the programs of the classes, by name."""
    listed = classes()
    return {name: kernel_program(listed[name][1], stored_type(*listed[name]).bytes) for name in chosen()}


def drawn(listed: Mapping[str, Pipeline], count: int, seed: int) -> list[tuple[str, Mutant]]:
    """Return so many mutants in random order, each of a class that is drawn first: all have a million together.

    A class is drawn as often as another, whatever the number of its mutants, and has none twice.
    """
    rng, found = random.Random(seed), list[tuple[str, Mutant]]()
    for name, times in Counter(rng.choices(list(listed), k=count)).items():
        planted = [*of_clusters(listed[name])]
        found += ((name, mutant) for mutant in rng.sample(planted, min(times, len(planted))))
    rng.shuffle(found)
    return found


def answer(mutant: Mutant) -> str:
    """Return "flagged", "harmless", or what harm it does though it passes."""
    if checked(mutant.pipeline).diagnostics:
        return "flagged"
    found = harm(mutant.pipeline)
    return {"none": "harmless"}.get(found, found)


def judged(
    listed: Sequence[tuple[str, Mutant]], limits: pool.Limits = pool.ALONE, file: Path | None = None
) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Return how many mutants came out how, by kind, and those that pass though they do harm, or get no answer."""
    counts: Counter[tuple[str, str]] = Counter()
    missed: list[str] = []
    for (name, mutant), found in pool.noted(pool.done(_answer, listed, limits), file, _row):
        if isinstance(found, pool.NotBegun):
            continue
        said = found if isinstance(found, str) else "no answer"
        counts[mutant.kind, said] += 1
        if said not in {"flagged", "harmless"}:
            missed.append(f"{name}: {mutant.kind}, {mutant.where}: {found}")
            print(missed[-1], flush=True)
    return counts, missed


def _answer(one: tuple[str, Mutant]) -> str:
    return answer(one[1])


def _row(one: tuple[str, Mutant], found: Any) -> dict[str, Any]:
    return {"class": one[0], "kind": one[1].kind, "where": one[1].where, "answer": str(found)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge all, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--every", type=int, default=1, help="of so many mutants of a class one is judged")
    pool.sample_options_of(parser)
    pool.options_of(parser)
    options = parser.parse_args(arguments)
    if options.sample is None:
        planted = ((name, [*of_clusters(program)][:: options.every]) for name, program in programs().items())
        listed = [(name, mutant) for name, mutants_ in planted for mutant in mutants_]
        # Those whose CTAs take turns have by far the most states, and what passes is run in all orders.
        listed.sort(key=lambda one: ("ping-pong" not in one[0], "overlapped" not in one[0], one[0]))
    else:
        listed = drawn(programs(), options.sample, options.seed)
    file = options.out and options.out / "cluster_mutants.jsonl"
    counts, missed = judged(listed, pool.limits_of(options), file)
    names = {name for name, _ in listed}
    found: dict[str, Any] = {
        "classes": len(names),
        "kinds": len({kind for kind, _ in counts}),
        "listed": len(listed),
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
    for file in filter(None, (options.json, options.out and options.out / "cluster_mutants.json")):
        write(file, found)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())

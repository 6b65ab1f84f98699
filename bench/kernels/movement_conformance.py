"""Whether kernels of movements do what their programs say: their PTX is run beside them, and events are compared.

    python -m bench.kernels.movement_conformance [COUNT] [SEED] [--json FILE]    # 300 plans when left out

Needs nvcc and Triton, and no GPU. Plans are random, by every means; each is printed by every backend that prints it,
and run for blocks with no tile, one, and as many as take its ring round once or twice. Who waits, arrives, expects,
copies, commits, fences and meets is compared, with stages, parities, bytes, coordinates and addresses.

Exit code 1 if a text does something else than its program, or breaks the asynchronous contract.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import legalsat as ls
from bench.conformance.movement_conformance import trips
from bench.conformance.printed_movement import PrintedMovement, blocks_of
from bench.kernels.conformance import ptx_of
from bench.kernels.one_movement import BACKENDS, TARGET, drawn
from bench.machine import write
from legalsat.backends import program
from legalsat.backends.triton import program as triton
from legalsat.runtime import Cache
from legalsat.runtime.program import Program
from legalsat.units.means import MEANS

PLANS, SEED = 300, 11


def in_turns(r: Random) -> ls.MovementPlan | None:
    """Return the plan of a copy in small tiles, which a persistent grid brings in a ring; None if it has none."""
    shape = r.choice((140, 1000, 3000)), r.choice((200, 640, 1000))
    dtype = r.choice(("u8", "bf16", "fp32"))
    x = ls.Tensor(shape, dtype, (shape[1] + r.choice((0, 1, 16)), 1))
    tile, consumer = (r.choice((8, 16, 64)), r.choice((16, 32, 64))), r.choice(("wgmma.a", "wgmma.b"))
    try:
        return ls.synthesize(ls.Copy(x, tile=tile, consumer=consumer), TARGET, means=(r.choice(tuple(MEANS)),))  # type: ignore[arg-type]
    except ls.LegalSatError:
        return None


def chosen(r: Random) -> ls.MovementPlan | None:
    """Return a random plan, one in four of a ring."""
    return in_turns(r) if r.random() < 0.25 else drawn(r)


def kind_of(plan: ls.MovementPlan, backend: str) -> str:
    """Return what a plan is in words."""
    turns = ", in turns" if plan.launch.programs and plan.granules is None else ""
    return f"{backend} by {plan.access.by}, stored by {plan.store}{turns}"


def printed(plan: ls.MovementPlan, backend: str, made: Program) -> PrintedMovement:
    """Return the PTX of a text, made ready to run.

    Raises:
        LegalSatError: its compiler is missing.
    """
    ptx = ptx_of(made.text, Cache.default()) if backend == "cute" else triton.ptx_of(made)
    return PrintedMovement(ptx, plan, made.recipes[0], backend)


def judged(one: PrintedMovement, *, few: bool = False) -> tuple[int, list[str]]:
    """Return how many events there were, and in words what differs or breaks the contract."""
    events, found = 0, dict[str, None]()
    for block in blocks_of(one.plan, few=few):
        if one.printer == "triton" and not trips(one.plan, block):
            continue  # no launch has such a block, and Gluon meets where the first tile begins
        moved = one.run(block)
        events += moved.events
        told = [*one.differences(moved), *moved.findings]
        found.update(dict.fromkeys(f"block {block}: {words}" for words in told))
    return events, list(found)


def texts(plan: ls.MovementPlan) -> Iterator[tuple[str, Program]]:
    """Yield the backends that print a plan, with what they print."""
    for backend in BACKENDS:
        try:
            yield backend, program(plan, backend)
        except ls.LegalSatError:
            continue


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=PLANS)
    parser.add_argument("seed", nargs="?", type=int, default=SEED)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    r, started = Random(given.seed), time.process_time()
    counts, equal, differ = Counter[str](), Counter[str](), list[dict[str, Any]]()
    plans = events = 0
    while plans < given.count:
        plan = chosen(r)
        if plan is None:
            continue
        plans += 1
        for backend, made in texts(plan):
            kind = kind_of(plan, backend)
            more, found = judged(printed(plan, backend, made))
            counts[kind], equal[kind], events = counts[kind] + 1, equal[kind] + (not found), events + more
            if found:
                differ.append({"plan": str(plan.operator), "kind": kind, "differences": found[:20]})
                print(f"{kind}: {plan.operator}: {found[0][:300]}", flush=True)
    for kind, count in sorted(counts.items()):
        print(f"{kind:60} {equal[kind]:5} of {count}")
    seconds = time.process_time() - started
    print(f"{equal.total()} of {counts.total()} texts of {plans} plans equal, {events:,} events, {seconds:.0f} s")
    if given.json is not None:
        kinds = {kind: {"texts": n, "equal": equal[kind]} for kind, n in sorted(counts.items())}
        write(given.json, {"plans": plans, "events": events, "kinds": kinds, "differ": differ})
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())

"""Which faults of a kernel are judged: the same ones by the check and by a GPU."""

from __future__ import annotations

import random

from bench.foreign_mutants.faults import Fault, drawn

SEED = 20261122
MOST, MOST_READ = 16, 10  # of one kernel: that a GPU judges; that a reader does


def drawn_for(source: str, text: str, most: int = MOST) -> list[Fault]:
    """Return the faults of a kernel by its name."""
    return drawn(text, random.Random(f"{SEED} {source}"), most)

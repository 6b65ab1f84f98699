"""Whether the worst problems end in time, with a plan or with a refusal that says why.

Run `python -m bench.pathological [--json FILE]`. Each problem is planned without a limit of time, where only work is
limited, and with several limits. Measured is how long that takes, and how many nodes the e-graph comes to. Exit code 1
if a problem overruns a limit by more than `SLACK` seconds, ends in anything but a plan or a `LegalSatError`, or begins
an iteration of the e-graph beyond its budget of nodes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import legalsat as ls
from bench.machine import write
from legalsat.extract.search import search
from legalsat.terms.accesses import Classes, Graph

H200 = "h200"
LIMITS: tuple[float | None, ...] = (None, 10.0, 1.0, 0.1, 0.001, 0.0)  # seconds
SLACK = 1.0  # seconds; the e-graph and a plan's recheck are limited by work, not by time
# Primes below 2^31 and others, so that nothing divides anything.
PRIME, SECOND, SMALL = 2**31 - 1, 2**26 - 5, 65521
RANK_8 = (3, 5, 7, 2, 4, 6, 8, 9)
# Strides that no neighbour continues: a little more than all faster axes span, of two elements each.
APART = tuple(2**i + 1 for i in reversed(range(56)))


def _turned(shape: tuple[int, ...], dtype: str) -> ls.Transpose:
    return ls.Transpose(ls.Tensor(shape, dtype), tuple(reversed(range(len(shape)))))


def _dim(name: str, **limits: int) -> ls.Dim:
    return ls.Dim(name, **limits)


# What is asked, made when it is asked, since making it may be refused; and the arguments besides the GPU.
PROBLEMS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "rank 8, dense": (lambda: ls.Tensor(RANK_8, "bf16"), {}),
    "rank 8, turned": (lambda: _turned(RANK_8, "bf16"), {}),
    "rank 8, a tile": (lambda: ls.Tensor(RANK_8, "bf16"), {"tile": (2,) * 8, "consumer": "threads"}),
    "rank 8, no axis mergeable": (lambda: ls.Tensor((2,) * 8, "bf16", APART[-8:]), {"tile": (2,) * 8}),
    "rank 7, turned, long tiles": (
        lambda: ls.Transpose(
            ls.Tensor((4, 6, 8, 10, 12, 512, 512), "u8"), (6, 5, 4, 3, 2, 1, 0), tile=(1, 1, 1, 1, 1, 512, 512)
        ),
        {},
    ),
    "rank 7, no axis mergeable, long tiles": (
        lambda: ls.Tensor((2, 4, 6, 8, 10, 512, 512), "u8", (1, 3, 14, 100, 1000, 11000, 6000000)),
        {"tile": (2, 4, 6, 8, 10, 512, 512)},
    ),
    "64 axes, all mergeable": (lambda: ls.Tensor((2,) * 32 + (1,) * 32, "u8"), {}),
    "64 axes, all mergeable, a tile": (lambda: ls.Tensor((2,) * 32 + (1,) * 32, "u8"), {"tile": (1,) * 54 + (2,) * 10}),
    "64 axes, none mergeable": (lambda: ls.Tensor((2,) * 56 + (1,) * 8, "u8", (*APART, *range(3, 11))), {}),
    "64 axes, none mergeable, a tile": (
        lambda: ls.Tensor((2,) * 56 + (1,) * 8, "u8", (*APART, *range(3, 11))),
        {"tile": (1,) * 48 + (2,) * 8 + (3,) * 8},
    ),
    "64 axes, turned": (lambda: _turned((2,) * 32 + (1,) * 32, "u8"), {}),
    "64 axes of one element, a tile": (lambda: ls.Tensor((1,) * 64, "u8", range(64)), {"tile": (2,) * 12 + (1,) * 52}),
    "coprime extents": (lambda: ls.Tensor((PRIME, SECOND), "u8"), {}),
    "coprime extents, turned": (lambda: _turned((PRIME, SECOND), "u8"), {}),
    "coprime extents, three": (lambda: _turned((PRIME, SMALL, 509), "u8"), {}),
    "coprime extents, a tile": (lambda: ls.Tensor((PRIME, SECOND), "u8"), {"tile": (257, 263)}),
    "coprime extents, a tile of one": (lambda: ls.Tensor((PRIME, 3), "bf16"), {"tile": (PRIME, 3)}),
    "coprime extents beyond 2^61 bits": (lambda: ls.Tensor((PRIME, PRIME - 18), "u8"), {}),
    "tile larger than shared memory": (lambda: ls.Tensor((4096, 4096), "bf16"), {"tile": (4096, 4096)}),
    "tile of a prime": (lambda: ls.Tensor((PRIME,), "u8"), {"tile": (65537,), "consumer": "threads"}),
    "wgmma of fp64": (lambda: ls.Tensor((4096, 4096), "fp64"), {"tile": (64, 64), "consumer": "wgmma.a"}),
    "wgmma of ragged rows": (lambda: ls.Tensor((4096, 4096), "bf16"), {"tile": (63, 64), "consumer": "wgmma.a"}),
    "cp.async of single bytes": (lambda: ls.Tensor((64, 65), "u8", align=1), {"means": ("cp.async",)}),
    "boxes of an odd pitch": (lambda: ls.Tensor((4096, 4095), "bf16"), {"means": ("tma",), "tile": (64, 64)}),
    "fragments for nobody": (lambda: ls.Tensor((64, 64), "bf16"), {"means": ("fragments",)}),
    "stores that overlap": (
        lambda: ls.Copy(ls.Tensor((64, 64), "bf16"), ls.Tensor((64, 64), "bf16", (0, 1))),
        {},
    ),
    "torn packed elements": (lambda: _turned((4095, 4097), "e2m1"), {}),
    "pitch that is never legal": (
        lambda: ls.Tensor((64, 64), "bf16", (_dim("S", min=65, max=71), 1)),
        {"means": ("tma",)},
    ),
    "rows shorter than a granule": (lambda: ls.Tensor((_dim("M"), _dim("K", min=1, max=7)), "bf16"), {}),
    "dims without a value": (lambda: ls.Tensor((_dim("M", multiple_of=8, min=9, max=15), 8), "bf16"), {}),
    "dims whose tile never fits": (lambda: ls.Tensor((_dim("M"), _dim("K")), "fp32"), {"tile": (512, 512)}),
    "five dims": (lambda: ls.Tensor(tuple(_dim(name) for name in "ABCDE"), "u8"), {}),
}


@dataclass(frozen=True, slots=True)
class Ending:
    """How one question ended: within which limit and after how many seconds, in a plan or which error, and its text.

    `nodes` are those of the largest e-graph; `nodes_before` those that one had when an iteration began.
    """

    problem: str
    limit: float | None
    seconds: float
    nodes: int
    nodes_before: int
    ended_in: str
    said: str

    @property
    def sound(self) -> bool:
        """Whether it ended as it should."""
        in_time = self.limit is None or self.seconds <= self.limit + SLACK
        return in_time and self.ended_in != "fault" and self.nodes_before <= search.MAX_NODES


@dataclass
class Nodes:
    """The most nodes of any e-graph, and the most that one had when an iteration began."""

    most: int = 0
    before: int = 0


@contextmanager
def counted() -> Iterator[Nodes]:
    """Count the nodes of every e-graph that the search makes meanwhile."""
    nodes = Nodes()

    class Counted(Graph):
        def step(self) -> bool:
            nodes.before = max(nodes.before, self.size)
            return super().step()

        def read(self) -> Classes:
            nodes.most = max(nodes.most, self.size)
            return super().read()

    with patch.object(search, "Graph", Counted):
        yield nodes


def ending(name: str, limit: float | None) -> Ending:
    """Ask for a plan of a problem on an H200, with a limit of seconds."""
    make, arguments = PROBLEMS[name]
    start = time.perf_counter()
    with counted() as nodes:
        try:
            found = ls.synthesize(make(), H200, **arguments, seconds=limit)
            ended, said = "plan", str(found.access)
        except ls.LegalSatError as error:
            ended, said = type(error).__name__, str(error)
        except Exception as error:  # whatever else comes is what is looked for
            ended, said = "fault", repr(error)
    seconds = round(time.perf_counter() - start, 4)
    return Ending(name, limit, seconds, nodes.most, nodes.before, ended, said)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.pathological", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the result here")
    given = parser.parse_args(arguments)
    endings = []
    for name in PROBLEMS:
        # The tightest limit first, before anything about the problem is remembered.
        for limit in reversed(LIMITS):
            found = ending(name, limit)
            endings.append(found)
            limited = "no limit" if limit is None else f"{limit:g} s"
            mark = "" if found.sound else "UNSOUND "
            said = f"{mark}{found.ended_in}: {found.said.partition(chr(10))[0]}"
            print(f"{name:34} {limited:>9} {found.seconds:8.3f} s {found.nodes:6} nodes  {said}")
    if given.json:
        write(
            given.json,
            {"slack_seconds": SLACK, "budget_of_nodes": search.MAX_NODES, "endings": [asdict(e) for e in endings]},
        )
    return int(not all(found.sound for found in endings))


if __name__ == "__main__":
    sys.exit(main())

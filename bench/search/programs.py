"""Programs of several operators: does the planner find what trying every way finds, and do the plans compute it?

    python -m bench.search.programs [--json FILE] [--quick]     # needs no GPU; --quick leaves out what takes a minute

Each program is planned and compared with `bench.search.program_exhaustive`; with its operators planned one by one,
every intermediate dense and row-major, as frameworks have it; and its small sibling runs on numpy, where every element
must be what the program means. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import legalsat as ls
from bench.machine import write
from bench.search.program_exhaustive import cheapest
from legalsat.extract.composed.works import cost_of
from legalsat.operators.program import PAD, PRODUCT
from legalsat.targets import target
from legalsat.tensor import Tensor, plain

TARGET = "h200"
Sized = Callable[[int], int]


def given(name: str, rows: int, columns: int, *, constant: bool = False, strides: Any = None) -> ls.Value:
    """Return an input of bf16."""
    return ls.Value(name, Tensor((rows, columns), "bf16", strides), constant=constant)


def programs(of: Sized = lambda extent: extent) -> dict[str, ls.Program]:
    """Return the programs by what they show; `of` makes extents smaller."""
    m, k, odd = of(500), of(1024), of(4096) - 1
    x, w = given("x", m, k), given("w", odd, k, constant=True)
    q, p, v = (given(name, of(512), k, constant=True) for name in "qpv")
    a, b = (given(name, of(512), k) for name in "ab")
    d, o = given("d", of(256), odd, constant=True), given("o", k, m - 1)
    h = x @ w.T
    return {
        "an odd k between two products": ls.Program(y=h @ d.T),
        "an odd k that is a result too": ls.Program(h=h, y=h @ d.T),
        "a transposed tensor": ls.Program(y=given("t", k, m, strides=(m + 12, 1)).T @ q.T),
        "columns that begin at a granule": ls.Program(y=x[:, 64:] @ a[:, 64:].T),
        "columns that begin within a granule": ls.Program(y=x[:, 1:] @ a[:, 1:].T),
        "two weights, one after another": ls.Program(y=x @ q.concat(p).T),
        "two tensors, one after another": ls.Program(y=x @ a.concat(b).T),
        "two products of one tensor": ls.Program(s=(x @ q.T) @ (x @ p.T).T),
        "an odd tensor of two products": ls.Program(y=o.T @ a.T, z=o.T @ b.T),
        "zeros along k": ls.Program(y=given("z", m, of(1000)).pad(((0, 0), (0, k - of(1000)))) @ q.T),
        "columns of a product": ls.Program(y=h[:, 1:] @ d[:, 1:].T),
        "rows of two tensors": ls.Program(y=x.concat(a)[: m - 4] @ q.T),
        "rows within zeros": ls.Program(y=x.pad(((1, 1), (0, 0)))[1 : m - 3] @ q.T),
        "zeros below": ls.Program(y=x.pad(((0, 12), (0, 0))) @ a.T),
        "three products of one tensor": ls.Program(s=(x @ q.T) @ (x @ p.T).T, r=x @ v.T),
    }


SLOW = ("an odd tensor of two products", "three products of one tensor")  # to try in every way


def small(extent: int) -> int:
    """Return an extent of a program that runs on numpy in a moment; what it leaves by a granule stays."""
    return max(64 + extent % 8, extent // 8)


def numbers(program: ls.Program, seed: int = 0) -> list[Any]:
    """Return small whole numbers for the inputs, whose sums are exact."""
    drawn = np.random.default_rng(seed)
    return [drawn.integers(-2, 3, plain(one.tensor.shape)).astype(np.float64) for one in program.inputs]


def one_by_one(program: ls.Program, gpu: str = TARGET) -> float:
    """Return the nanoseconds of all operators planned alone: what is made is dense and row-major, views are copied."""
    tensors = [one.tensor for one in program.inputs]
    total = 0.0
    for number, one in enumerate(program.steps, start=len(program.inputs)):
        reads, made = [tensors[operand] for operand in one.operands], Tensor(one.shape, one.dtype)
        works: list[Any] = []
        if one.operator == PRODUCT:
            (m, n), k = one.shape, int(str(reads[0].shape[1]))
            constant = program.constant(one.operands[1])
            works = [ls.Gemm(m, n, k, reads[0].dtype, out_dtype=one.dtype, a=reads[0], b=reads[1], constant_b=constant)]
        elif one.operator == "transpose":
            made = reads[0].transposed((1, 0))  # a view in any framework
        elif one.operator == "slice":
            axis, first, _ = one.numbers
            start = reads[0].offset + first * int(str(reads[0].strides[axis])) * made.dtype.bytes
            made = Tensor(one.shape, one.dtype, reads[0].strides, offset=start % 256)
        elif one.operator == PAD:
            axis, *sides = one.numbers
            works = [ls.Pad(reads[0], [sides if i == axis else (0, 0) for i in (0, 1)])]
        else:
            works = [ls.Copy(read, Tensor(read.shape, read.dtype, made.strides)) for read in reads]
        tensors.append(made)
        if not program.constant(number):
            total += sum(cost_of(work, target(gpu)) or 0.0 for work in works)
    return round(total, 1)


@dataclass(frozen=True, slots=True)
class Row:
    """A program: what its plan costs, what trying every way finds, and whether its small sibling's numbers are exact.

    Attributes:
        name, program: what it shows, and what it is.
        planned, found, alone: nanoseconds; of the plan, of the cheapest of all ways, of the operators one by one.
        seconds: of planning, of processor time. laws: of its derivation. exact: whether numbers are.
    """

    name: str
    program: str
    planned: float
    found: float | None
    alone: float
    seconds: float
    laws: tuple[str, ...]
    exact: bool

    @property
    def holds(self) -> bool:
        """Whether the plan costs what was found, and computes what it is to."""
        return self.exact and self.found in {None, self.planned}


def measure(name: str, *, quick: bool = False) -> Row:
    """Plan a program, try every way, and run its sibling."""
    program, sibling = programs()[name], programs(small)[name]
    begun = time.process_time()
    plan = ls.synthesize(program, TARGET)
    seconds = time.process_time() - begun
    found = None if quick and name in SLOW else cheapest(program, TARGET)
    laws = tuple(dict.fromkeys(one.law for one in plan.derivation))
    exact = computes(ls.synthesize(sibling, TARGET))
    return Row(name, str(program), plan.cost.nanoseconds, found, one_by_one(program), round(seconds, 3), laws, exact)


def computes(plan: ls.ProgramPlan, seed: int = 0) -> bool:
    """Whether a plan's steps, run on numpy, give every element of every result."""
    given_numbers = numbers(plan.operator, seed)
    meant = plan.operator.meaning(*given_numbers)
    wanted = meant if isinstance(meant, tuple) else (meant,)
    return all(map(np.array_equal, plan.run(*given_numbers, seed=seed), wanted))


def drawn(r: random.Random) -> ls.Program:
    """Return a random program of two to five steps on small matrices of odd and even extents, in any layout."""
    extents = [r.choice((8, 16, 17, 24, 31, 33, 40, 64)) for _ in range(3)]
    known: list[ls.Value] = []
    for name in "xyzw"[: r.randint(2, 4)]:
        rows, columns = r.choice(extents), r.choice(extents)
        pitch = columns + r.choice((0, 0, 1, 8))
        strides = r.choice(((pitch, 1), (pitch, 1), (1, rows + r.choice((0, 0, 1)))))
        known.append(given(name, rows, columns, constant=r.random() < 0.4, strides=strides))
    made: list[ls.Value] = []
    while len(made) < r.randint(2, 5):
        one, other = r.choice(known + made), r.choice(known + made)
        kind = r.choice(("product", "product", "product", "slice", "transpose", "pad", "concat"))
        fitting = [(i, j) for i in (0, 1) for j in (0, 1) if one.shape[i] == other.shape[j]]
        if kind in {"product", "concat"} and not fitting:
            kind = r.choice(("slice", "pad"))
        if kind == "product":
            i, j = r.choice(fitting)
            made.append((one if i else one.T).product(other if j else other.T))
        elif kind == "concat":
            i, j = r.choice(fitting)
            made.append(one.concat(other if i == j else other.T, 1 - i))
        elif kind == "slice":
            first = r.choice((0, 1, 7, one.shape[1] // 2))
            made.append(one[:, first:] if r.random() < 0.5 else one[one.shape[0] // 3 :])
        elif kind == "pad":
            made.append(
                one.pad(((0, 0), (r.choice((0, 1)), r.choice((1, 7)))) if r.random() < 0.5 else ((0, 1), (0, 0)))
            )
        else:
            made.append(one.T)
    made = [one for one in made if one.operator != "input"] or [known[0].product(known[0])]
    results = {"r": made[-1]} | ({"s": r.choice(made)} if r.random() < 0.4 else {})
    return ls.Program(**results)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.search.programs", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there")
    parser.add_argument("--quick", action="store_true", help="leave out what takes a minute to try")
    asked = parser.parse_args(arguments)
    rows = []
    print(f"{'program':36} {'planned':>10} {'every way':>10} {'one by one':>11}  numbers  laws")
    for name in programs():
        row = measure(name, quick=asked.quick)
        rows.append(row)
        found = "-" if row.found is None else f"{row.found / 1000:.2f} us"
        times = f"{row.planned / 1000:7.2f} us {found:>10} {row.alone / 1000:8.2f} us"
        print(f"{name:36} {times}  {'exact' if row.exact else 'WRONG':7}  {', '.join(row.laws)}", flush=True)
    if asked.json:
        write(asked.json, {"target": TARGET, "rows": [asdict(row) for row in rows]})
    return int(not all(row.holds for row in rows))


if __name__ == "__main__":
    sys.exit(main())

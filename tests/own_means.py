"""Run by `test_means.py`: a means that no other file knows, a row and a solver, planned, printed, saved and checked."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from legalsat.units import means

NAME, SOLVER = "threads.again", "by_loads_again"
means.MEANS[NAME] = means.Means(NAME, "deliver_by_loads_again", "threads load, as ever", SOLVER, pads="anything")

import legalsat as ls  # noqa: E402 - the row comes first, as one of the table does
from legalsat.extract.search import by_vectors  # noqa: E402
from legalsat.extract.search.delivery import Delivered, Question  # noqa: E402


def _by_loads(question: Question) -> Question:
    return replace(question, access=replace(question.access, by="threads"))


def solve(question: Question) -> object:
    found = by_vectors.solve(_by_loads(question))
    return replace(found, access=question.access) if isinstance(found, Delivered) else found


def check(plan: ls.MovementPlan, question: Question) -> None:
    by_vectors.check(replace(plan, access=replace(plan.access, by="threads")), _by_loads(question))


def main() -> None:
    solver = ModuleType(f"legalsat.extract.search.{SOLVER}")
    vars(solver).update(solve=solve, check=check, bound=lambda question: by_vectors.bound(_by_loads(question)))
    sys.modules[solver.__name__] = solver
    for operator in (ls.Transpose(ls.Tensor((96, 200), "bf16")), ls.Pad(ls.Tensor((6, 8), "u8"), ((1, 1), (0, 3)), 7)):
        plan = ls.synthesize(operator, "h200", means=(NAME,))  # type: ignore[arg-type]
        with tempfile.TemporaryDirectory() as folder:
            plan.save(Path(folder) / "p.json")
            assert ls.Plan.load(Path(folder) / "p.json") == plan
        assert ls.check_pipeline(plan).proven and "__global__" in plan.emit("cute") and NAME in str(plan)
        print(plan.access.by, plan.derivation[-1].law)


if __name__ == "__main__":
    main()

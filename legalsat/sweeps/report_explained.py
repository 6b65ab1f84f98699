"""Explanations for a sweep's report: one for all problems of an operator and type with the same reasons."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legalsat.api import explain
from legalsat.errors import LegalSatError
from legalsat.operators import Move
from legalsat.sweeps.problem import problem_of
from legalsat.sweeps.report_numbers import Answers
from legalsat.targets import Target
from legalsat.targets import target as as_target

GROUPED_BY = ("operator", "dtype", "codes", "operands")
NONE = -1


class Example(NamedTuple):
    """The explanation of a group: the row that it takes as its example, and its operands with their pages."""

    row: int
    operands: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Explained:
    """Explanations as fragments of HTML.

    Attributes:
        pages: the fragments, each once.
        examples: one for each group, that of most problems first.
        group: for each row its group's example, `NONE` where it has none.
        left_out: problems whose group has no example, because there were too many groups.
    """

    pages: tuple[str, ...]
    examples: tuple[Example, ...]
    group: NDArray[np.int64]
    left_out: int


def explained(answers: Answers, most: int) -> Explained:
    """Return explanations of the `most` groups that have the most problems, each on its first problem."""
    good = np.flatnonzero(~answers.bad)
    keys = np.stack([answers.words[name].at[good] for name in GROUPED_BY], axis=1)
    _, first, of_row, counts = np.unique(keys, axis=0, return_index=True, return_inverse=True, return_counts=True)
    order = sorted(range(len(first)), key=lambda group: (-counts[group], first[group]))
    target = as_target(answers.target)
    pages: dict[str, int] = {}
    examples: list[Example] = []
    place = np.full(len(first), NONE, dtype=np.int64)
    known: dict[Move, str] = {}
    for group in order[:most]:
        row = int(good[first[group]])
        shown = _shown(answers, row, target, known)
        if shown:
            place[group] = len(examples)
            examples.append(Example(row, tuple((name, pages.setdefault(page, len(pages))) for name, page in shown)))
    group_of = np.full(answers.rows, NONE, dtype=np.int64)
    group_of[good] = place[of_row.reshape(-1)]
    left_out = sum(int(counts[group]) for group in order[most:])
    return Explained(tuple(pages), tuple(examples), group_of, left_out)


def _shown(answers: Answers, row: int, target: Target, known: dict[Move, str]) -> list[tuple[str, str]]:
    """Return the operands of a row that are refused, or all of them, each with its explanation."""
    fields, names = (answers.words[name].values[answers.words[name].at[row]] for name in ("fields", "operands"))
    try:
        operator = problem_of(
            {name: value for name, _, value in (field.partition("=") for field in fields.split(" "))}, 0
        ).operator
        operands = operator.travels(target)
        chosen = [name for name in names.split(", ") if name] or list(operands)
        for name in chosen:
            if operands[name] not in known:
                known[operands[name]] = _page(explain(operands[name], target))
    except LegalSatError:
        return []  # operators that came without the numbers that make them
    return [(name, known[operands[name]]) for name in chosen]


def _page(found: Any) -> str:
    """Return an explanation as a fragment of HTML."""
    as_html = getattr(found, "_repr_html_", None)
    wrapped = "white-space:pre-wrap;overflow-wrap:anywhere;margin:0"
    return f'<pre style="{wrapped}">{escape(str(found))}</pre>' if as_html is None else str(as_html())

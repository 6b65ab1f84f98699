"""The report of a sweep: one HTML file that needs nothing else, for a reader without legalsat or a network."""

from __future__ import annotations

import base64
import gzip
import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legalsat import files
from legalsat.checks import integer
from legalsat.errors import InvalidInput
from legalsat.sweeps.columns import COLUMNS, LEGAL
from legalsat.sweeps.report_explained import Explained, explained
from legalsat.sweeps.report_numbers import Answers, Ints, read_answers
from legalsat.sweeps.report_page import page

MOST_ROWS = 200_000
MOST_EXPLAINED = 200  # groups: each takes about a tenth of a second and 20 kB before it is packed
_EXACT = 2.0**53


def report(
    answers: str | Path, out: str | Path, *, most_rows: int = MOST_ROWS, most_explained: int = MOST_EXPLAINED
) -> None:
    """Write the report of a sweep: shares on the fast path, what repairs cost and win, a roofline, and all problems.

    The same answers make the same bytes. Shares and plots count every row, however many the table holds.

    Args:
        answers: the Parquet file that a sweep wrote.
        out: the HTML file to write, replaced if it exists.
        most_rows: problems in the table; those off the fast path stay first, in their order.
        most_explained: groups of problems (same operator, type, operands and reasons) that are explained, those of
            most problems first.

    Raises:
        InvalidInput: no sweep wrote the file, or `out` cannot be written.
        MissingExtra: pyarrow is not installed.
    """
    rows = integer(most_rows, "most_rows", low=1, high=10**7)
    groups = integer(most_explained, "most_explained", low=0, high=10**5)
    path = files.writable(out)
    if files.same(answers, path):
        raise InvalidInput(f"{path} holds the answers; name another file for the report")
    found = read_answers(answers)
    why = explained(found, groups)
    kept = _kept(found, rows)
    text = page(
        found,
        why,
        source=Path(answers).name,
        shown=len(kept),
        rows=_packed(_table(found, why, kept)),
        explanations=_packed(_explanations(found, why)),
        style=_asset("report.css"),
        script=_asset("report.js"),
    )
    files.write(path, text)


def _asset(name: str) -> str:
    return (resources.files("legalsat.sweeps") / name).read_text(encoding="utf-8")


def _kept(answers: Answers, most: int) -> Ints:
    """Return the rows of the table, in order; where they are too many, what is legal is left out first."""
    if answers.rows <= most:
        return np.arange(answers.rows)
    legal = answers.words["verdict"].among([LEGAL])
    chosen: Ints = np.sort(np.concatenate([np.flatnonzero(~legal), np.flatnonzero(legal)])[:most])
    return chosen


def _table(answers: Answers, why: Explained, kept: Ints) -> dict[str, Any]:
    """Return the columns of the table: texts as those that occur and which one each row has, numbers as they are."""
    words, numbers = {}, {}
    for name, kind in COLUMNS:
        if kind == "string":
            used, at = np.unique(answers.words[name].at[kept], return_inverse=True)
            words[name] = {"values": [answers.words[name].values[place] for place in used], "at": at.tolist()}
        else:
            numbers[name] = _short(answers.numbers[name][kept])
    before, after = (answers.numbers[name][kept] for name in ("predicted_ns", "repaired_ns"))
    gain = np.divide(before, after, out=np.zeros_like(before), where=(before > 0) & (after > 0))
    numbers["gain"] = _short(np.round(gain, 3))
    return {"words": words, "numbers": numbers, "group": why.group[kept].tolist()}


def _short(values: NDArray[Any]) -> list[float]:
    """Return numbers, whole ones without a point."""
    return [int(v) if abs(v) < _EXACT and v == int(v) else v for v in values.tolist()]


def _explanations(answers: Answers, why: Explained) -> dict[str, Any]:
    problem, line = answers.words["problem"], answers.numbers["line"]
    examples = [
        {"problem": problem.values[problem.at[one.row]], "line": int(line[one.row]), "operands": one.operands}
        for one in why.examples
    ]
    return {"pages": why.pages, "examples": examples}


def _packed(data: Any) -> str:
    """Return JSON, compressed, in letters that HTML leaves alone."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode("utf-8"), mtime=0)).decode("ascii")

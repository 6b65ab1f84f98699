"""The numbers of a sweep's report: columns as arrays, and shares of problems, of runs and of their time by verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legalsat.sweeps.arrow import answers_in, reading_arrow
from legalsat.sweeps.columns import COLUMNS, LEGAL, REFUSED, REPAIRED

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
VERDICTS = (LEGAL, REPAIRED, REFUSED)
WEIGHTS = {"problems": "problems", "runs": "runs", "time": "predicted time"}


@dataclass(frozen=True, slots=True)
class Words:
    """A column of texts: each that occurs, once, and for every row which one it is."""

    values: tuple[str, ...]
    at: Ints

    def among(self, chosen: Sequence[str]) -> Mask:
        """Return the rows whose text is one of those."""
        return np.isin(self.at, [place for place, value in enumerate(self.values) if value in chosen])


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of a sweep by column.

    Attributes:
        target, version: the GPU by name, and the legalsat that wrote the file.
        words: columns of texts. numbers: columns of whole numbers and of nanoseconds, operations and bytes; 0 is none.
    """

    target: str
    version: str
    words: dict[str, Words]
    numbers: dict[str, NDArray[Any]]

    @property
    def rows(self) -> int:
        """How many there are, invalid ones among them."""
        return len(self.numbers["line"])

    @property
    def bad(self) -> Mask:
        """Which rows are invalid."""
        return ~self.words["verdict"].among(VERDICTS)

    @property
    def has_prediction(self) -> Mask:
        """Which rows have a predicted time."""
        found: Mask = self.numbers["predicted_ns"] > 0
        return found

    @property
    def times(self) -> Floats:
        """Nanoseconds of one run: predicted, or where nothing is, the least that the datasheet allows."""
        found: Floats = np.where(self.has_prediction, self.numbers["predicted_ns"], self.numbers["bound_ns"])
        return found

    def weights(self) -> dict[str, Floats]:
        """Return what every row counts, by name of `WEIGHTS`; nothing where a row is invalid."""
        good = ~self.bad
        runs = np.where(good, self.numbers["count"], 0).astype(np.float64)
        return {"problems": good.astype(np.float64), "runs": runs, "time": runs * self.times}


def read_answers(path: str | Path) -> Answers:
    """Return the answers in a file that a sweep wrote.

    Raises:
        InvalidInput: the file is missing, or no sweep wrote it.
        MissingExtra: pyarrow is not installed.
    """
    file, about = answers_in(path)
    with reading_arrow(path):
        table = file.read(columns=[name for name, _ in COLUMNS])
    words, numbers = {}, {}
    for name, kind in COLUMNS:
        column = table.column(name).combine_chunks()
        if kind == "string":
            coded = column.fill_null("").dictionary_encode()
            words[name] = Words(tuple(coded.dictionary.to_pylist()), coded.indices.to_numpy().astype(np.int64))
        else:
            numbers[name] = column.fill_null(0).to_numpy(zero_copy_only=False)
    return Answers(about["target"], about["legalsat"], words, numbers)


class Share(NamedTuple):
    """What a group of problems counts, legal, repaired and refused, by name of `WEIGHTS`."""

    name: str
    of: dict[str, tuple[float, float, float]]

    def total(self, weight: str) -> float:
        """Return what all of them count."""
        return sum(self.of[weight])


def whole(answers: Answers) -> Share:
    """Return what all problems count."""
    one = Words(("all",), np.zeros(answers.rows, dtype=np.int64))
    return _shares(answers, one)[0]


def by_column(answers: Answers, column: str) -> list[Share]:
    """Return what the problems with each text of a column count, most problems first."""
    return _sorted(_shares(answers, answers.words[column]))


def by_reason(answers: Answers) -> list[Share]:
    """Return what the problems that break each rule count, by its code; one that breaks two counts with both."""
    found: dict[str, dict[str, list[float]]] = {}
    for several in _shares(answers, answers.words["codes"]):
        for code in filter(None, several.name.split(", ")):
            sums = found.setdefault(code, {weight: [0.0, 0.0, 0.0] for weight in WEIGHTS})
            for weight, counted in several.of.items():
                sums[weight] = [a + b for a, b in zip(sums[weight], counted, strict=True)]
    return _sorted(
        Share(code, {weight: (three[0], three[1], three[2]) for weight, three in sums.items()})
        for code, sums in found.items()
    )


def _shares(answers: Answers, groups: Words) -> list[Share]:
    verdict = answers.words["verdict"]
    place = np.array([VERDICTS.index(v) if v in VERDICTS else 0 for v in verdict.values], dtype=np.int64)[verdict.at]
    cells = groups.at * len(VERDICTS) + place
    most = len(groups.values) * len(VERDICTS)
    sums = {name: np.bincount(cells, weight, most) for name, weight in answers.weights().items()}
    shares = []
    for group, name in enumerate(groups.values):
        first = group * len(VERDICTS)
        of = {weight: (float(s[first]), float(s[first + 1]), float(s[first + 2])) for weight, s in sums.items()}
        shares.append(Share(name, of))
    return shares


def _sorted(shares: Any) -> list[Share]:
    some = [share for share in shares if share.total("problems")]
    return sorted(some, key=lambda share: (-share.total("problems"), share.name))


@dataclass(frozen=True, slots=True)
class Gains:
    """What repairs cost and win.

    Attributes:
        problems: repaired ones.
        bytes_added: that all of them add together, each once. bytes_held: that their tensors hold without.
        timed: how many have predicted times before and after.
        before, after: nanoseconds of all runs of those.
        ratios: time before by time after, at a tenth, half and nine tenths of the runs; all 1 without any.
    """

    problems: int
    bytes_added: int
    bytes_held: float
    timed: int
    before: float
    after: float
    ratios: tuple[float, float, float]


def gains(answers: Answers) -> Gains:
    """Return what the repairs of a sweep cost and win."""
    repaired = answers.words["verdict"].among([REPAIRED])
    before, after = answers.numbers["predicted_ns"], answers.numbers["repaired_ns"]
    timed = repaired & (before > 0) & (after > 0)
    runs = answers.numbers["count"][timed].astype(np.float64)
    ratios = before[timed] / after[timed]
    return Gains(
        int(repaired.sum()),
        int(answers.numbers["bytes_added"][repaired].sum()),
        float(answers.numbers["bytes"][repaired].sum()),
        int(timed.sum()),
        float((runs * before[timed]).sum()),
        float((runs * after[timed]).sum()),
        spread(ratios, runs),
    )


def measured_ratios(answers: Answers) -> tuple[int, tuple[float, float, float]]:
    """Return how many problems have both times, and the measured by the predicted one at 1, 5 and 9 tenths of them."""
    predicted, measured = answers.numbers["predicted_ns"], answers.numbers["measured_ns"]
    both = (predicted > 0) & (measured > 0)
    return int(both.sum()), spread(measured[both] / predicted[both], np.ones(int(both.sum())))


def spread(values: Floats, weights: Floats) -> tuple[float, float, float]:
    """Return the values below which a tenth, a half and nine tenths of the weight lie; ones without any."""
    if not weights.sum() > 0:
        return (1.0, 1.0, 1.0)
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    low, middle, high = (float(values[order][np.searchsorted(reached, part - 1e-12)]) for part in (0.1, 0.5, 0.9))
    return (low, middle, high)

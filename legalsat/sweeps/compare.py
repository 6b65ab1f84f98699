"""Two sweeps side by side: two targets, two versions, two toolkits. What became legal, illegal, faster or slower."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legalsat.sweeps.arrow import answers_in, reading_arrow

_READ = ("problem", "fields", "name", "verdict", "codes", "predicted_ns", "count", "error")
FASTER, SLOWER = 0.98, 1.02  # of the old time: less change than that is none


@dataclass(frozen=True, slots=True)
class Change:
    """A problem whose answer differs: what it is, and verdict, rules and predicted nanoseconds before and after.

    Nanoseconds are None where nothing is predicted.
    """

    problem: str
    name: str
    verdicts: tuple[str, str]
    codes: tuple[str, str]
    nanoseconds: tuple[float | None, float | None]

    @property
    def ratio(self) -> float:
        """New time by old time; 1.0 where one is not known."""
        old, new = self.nanoseconds
        return new / old if old and new else 1.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between two sweeps.

    Attributes:
        targets: of the old and the new sweep, as their files say.
        versions: of legalsat that wrote them.
        both: problems that both answer. only_old, only_new: problems that one of them answers alone.
        verdicts: how many problems went from which verdict to which.
        changes: problems whose verdict, rules or time differ, the largest change of verdict or time first.
    """

    targets: tuple[str, str]
    versions: tuple[str, str]
    both: int
    only_old: int
    only_new: int
    verdicts: dict[tuple[str, str], int]
    changes: tuple[Change, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "targets": list(self.targets),
            "versions": list(self.versions),
            "both": self.both,
            "only_old": self.only_old,
            "only_new": self.only_new,
            "verdicts": {f"{old} -> {new}": count for (old, new), count in sorted(self.verdicts.items())},
            "changes": [
                {
                    "problem": one.problem,
                    "name": one.name,
                    "verdicts": list(one.verdicts),
                    "codes": list(one.codes),
                    "predicted_ns": list(one.nanoseconds),
                }
                for one in self.changes
            ],
        }


def compare(old: str | Path, new: str | Path) -> Comparison:
    """Return what differs between two files that sweeps wrote; problems are matched by what they ask.

    Raises:
        InvalidInput: a file is missing, or no sweep wrote it.
        MissingExtra: pyarrow is not installed.
    """
    (before, about_old), (after, about_new) = _read(old), _read(new)
    shared = [key for key in before if key in after]
    verdicts = Counter((before[key]["verdict"], after[key]["verdict"]) for key in shared)
    changes = [change for change in (_change(before[key], after[key]) for key in shared) if change is not None]
    changes.sort(key=lambda one: (one.verdicts[0] == one.verdicts[1], -abs(one.ratio - 1), one.problem))
    return Comparison(
        targets=(about_old["target"], about_new["target"]),
        versions=(about_old["legalsat"], about_new["legalsat"]),
        both=len(shared),
        only_old=len(before) - len(shared),
        only_new=len(after) - len(shared),
        verdicts=dict(verdicts),
        changes=tuple(changes),
    )


def _change(old: dict[str, Any], new: dict[str, Any]) -> Change | None:
    one = Change(
        old["problem"],
        old["name"],
        (old["verdict"], new["verdict"]),
        (old["codes"], new["codes"]),
        (old["predicted_ns"] or None, new["predicted_ns"] or None),  # older versions wrote 0.0
    )
    same = one.verdicts[0] == one.verdicts[1] and one.codes[0] == one.codes[1]
    return None if same and FASTER < one.ratio < SLOWER else one


def _read(path: str | Path) -> tuple[dict[tuple[str, str], dict[str, Any]], dict[str, str]]:
    """Return the answers of a file by what they answer, and what it says about itself."""
    file, metadata = answers_in(path)
    return {(row["problem"], row["fields"]): row for row in _rows(file, path)}, metadata


def _rows(file: Any, path: str | Path) -> Iterator[dict[str, Any]]:
    with reading_arrow(path):
        for batch in file.iter_batches(columns=list(_READ)):
            yield from (row for row in batch.to_pylist() if not row["error"])

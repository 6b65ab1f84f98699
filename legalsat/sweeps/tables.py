"""The table of a set of operators: how many a tensor map takes as they are, after a repair, and never, with reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from legalsat.sweeps.answers import answer
from legalsat.sweeps.catalogues import CATALOGUES, entries, require_known
from legalsat.sweeps.columns import BAD, LEGAL, REFUSED, REPAIRED
from legalsat.sweeps.problem import Problem, row_or_error
from legalsat.sweeps.reading import read
from legalsat.sweeps.rows import BadRow, Row, placed
from legalsat.targets import Target
from legalsat.targets import target as as_target

AT_ONCE = 1024
INVALID = "(invalid rows)"
HEADER = ("operator", "shapes", "legal", "after repair", "refused", "reasons, and a repair")


@dataclass(frozen=True, slots=True)
class Line:
    """An operator of a benchmark, a layer of a model, or what a file calls by one name.

    Attributes:
        name: what it is called.
        shapes: problems that it stands for.
        legal: of them those whose operands all have tensor maps as they are.
        repaired: those whose operands have them when some are stored otherwise.
        refused: those of which an operand has none.
        errors: rows that are invalid.
        reasons: the rules that are broken, in words, with their codes and operands; or why there are no shapes.
        repair: what makes the first of the repaired ones legal, "" where none needs it.
    """

    name: str
    shapes: int
    legal: int
    repaired: int
    refused: int
    errors: int
    reasons: tuple[str, ...]
    repair: str

    @property
    def cells(self) -> tuple[str, ...]:
        """What `HEADER` names, as text; "-" where there are no shapes."""
        numbers = (self.shapes, self.legal, self.repaired, self.refused)
        said = "; ".join(self.reasons) + (f": {self.repair}" if self.repair else "")
        wrong = f"{self.errors} invalid {'row' if self.errors == 1 else 'rows'}" if self.errors else ""
        return (self.name, *(str(n) if self.shapes else "-" for n in numbers), "; ".join(filter(None, (wrong, said))))


@dataclass(frozen=True, slots=True)
class OperatorTable:
    """What a GPU's tensor maps take of a set of operators, one line for each name, in the set's order."""

    source: str
    target: str
    lines: tuple[Line, ...]

    @property
    def total(self) -> Line:
        """All lines together."""
        fields = ("shapes", "legal", "repaired", "refused", "errors")
        counts = [sum(getattr(line, field) for line in self.lines) for field in fields]
        shapes, legal, repaired, refused, errors = counts
        return Line("all", shapes, legal, repaired, refused, errors, (), "")

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield the header, the lines, those with failures first, and the sums as cells of text."""
        yield HEADER
        worst = sorted(self.lines, key=lambda line: (not line.errors, not line.refused, not line.repaired))
        yield from (line.cells for line in worst)
        yield self.total.cells

    def markdown(self) -> str:
        """Return the table in Markdown."""
        header, *rest = self.rows()
        ruler = ("---", "---:", "---:", "---:", "---:", "---")
        return "\n".join(f"| {' | '.join(_escaped(cell) for cell in row)} |" for row in (header, ruler, *rest)) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        lines = [{**asdict(line), "reasons": list(line.reasons)} for line in self.lines]
        total = {name: value for name, value in asdict(self.total).items() if isinstance(value, int)}
        return {"source": self.source, "target": self.target, "lines": lines, "total": total}


def operator_table(
    source: str | Path, target: str | Target, answers: Iterable[dict[str, Any]] | None = None
) -> OperatorTable:
    """Return the table of a shipped set, or of a file of problems.

    Args:
        source: a name of `CATALOGUES`, whose entries are the lines, those without shapes too; or a file, with a line
            for all rows whose names are the same up to the last "/", or whose operators are where they have no names.
        target: a GPU, such as "h200".
        answers: those of a sweep of the same source and target, in order; given here when left out.

    Raises:
        InvalidInput: there is no such file, or it holds no problems.
        UnknownTarget: there is no such GPU.
    """
    gpu = as_target(target)
    found: dict[str, list[dict[str, Any]]] = {}
    missing: dict[str, str] = {}
    asked: list[tuple[str, Problem | BadRow]] = []
    for name, row, reason in listed(source):
        found[name] = []
        if row is None:
            missing[name] = reason
        else:
            asked.append((name, row))
    given = _answered([row for _, row in asked], gpu) if answers is None else answers
    for (name, _), answered in zip(asked, given, strict=True):
        found[name].append(answered)
    lines = (_line(name, answers, missing.get(name, "")) for name, answers in found.items())
    return OperatorTable(str(source), str(gpu), tuple(lines))


def _answered(rows: Sequence[Problem | BadRow], target: Target) -> Iterator[dict[str, Any]]:
    for place in range(0, len(rows), AT_ONCE):
        yield from answer(rows[place : place + AT_ONCE], target)


def listed(source: str | Path) -> Iterator[tuple[str, Problem | BadRow | None, str]]:
    """Yield each problem with the line that it belongs to; lines without any with the reason."""
    if str(source) in CATALOGUES:
        for entry in entries(str(source)):
            if not entry.rows:
                yield entry.name, None, entry.reason
            for place, values in enumerate(entry.rows, start=1):
                yield entry.name, row_or_error({**values, "name": f"{entry.name}/{values['name']}"}, place), ""
        return
    require_known(str(source))
    for row in read(source):
        one = row_or_error(row.values, row.line) if isinstance(row, Row) else row
        name = one.name if isinstance(one, Problem) else INVALID
        operator = dict(one.fields)["operator"] if isinstance(one, Problem) else name
        yield (name.rpartition("/")[0] or name or operator), one, ""


def _line(name: str, answers: Sequence[dict[str, Any]], missing: str) -> Line:
    def of(verdict: str) -> list[dict[str, Any]]:
        return [one for one in answers if one["verdict"] == verdict]

    broken: dict[tuple[str, str], set[str]] = {}
    for one in of(REPAIRED) + of(REFUSED):
        broken.setdefault((one["codes"], one["reason"]), set()).update(one["operands"].split(", "))
    reasons = tuple(f"{codes} {why} of {_and(sorted(whose))}" for (codes, why), whose in broken.items())
    reasons += tuple(dict.fromkeys(f"{placed(one['line'], one['name'])}: {one['error']}" for one in of(BAD)))
    repair = next((one["repair"] for one in of(REPAIRED)), "")
    legal, repaired, refused, errors = (len(of(verdict)) for verdict in (LEGAL, REPAIRED, REFUSED, BAD))
    said = reasons or ((missing,) if missing else ())
    return Line(name, len(answers), legal, repaired, refused, errors, said, repair)


def _and(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")

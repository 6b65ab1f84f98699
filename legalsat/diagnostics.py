"""What a violated rule says: the four parts of a message (what, where, note with its source, help)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Literal

from legalsat.printable import printable

Level = Literal["error", "warning"]
Basis = Literal["known", "likely", "possible"]
Authority = Literal["compiler", "driver", "hardware", "document", "nobody"]
# What becomes of a violation, by who enforces the rule.
CONSEQUENCES: dict[Authority, str] = {
    "compiler": "it does not compile, or not into what was written",
    "driver": "the encode or launch call fails",
    "hardware": "it faults or corrupts memory at run time",
    "document": "nobody enforces it, results are undefined",
    "nobody": "results are right, and take longer",
}
_SPEAKERS = tuple(CONSEQUENCES)  # in the order in which they get to see a request


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One violated rule.

    Attributes:
        code: the rule's code, such as "TMA003".
        level: "error" if the plan cannot work, "warning" if it works but breaks a documented rule.
        refused_by: who enforces the rule: a compiler, the driver's encode call, the hardware at run time, only a
            document, or nobody, where all is right but slow.
        field: the `TensorMap` field at fault.
        message: what is wrong, with numbers and units.
        note: the source and what it says.
        help: what to change; begins with a verb.
        where: the site, such as "TMA copy, box 64 x 512".
        measured: true if the source is a measurement rather than a document.
        basis: "known" from numbers, code or what a program printed; "likely" from the words of a text that is about a
            kernel on a GPU, or from a line of prose; "possible" from words of a text that may be about something else.
            What is not known is never proven.
        odds: of 10 reports about kernels that read so, how many have this cause; None of what is known or was named by
            a line.
    """

    code: str
    level: Level
    refused_by: Authority
    field: str
    message: str
    note: str
    help: str
    where: str = ""
    measured: bool = False
    basis: Basis = "known"
    odds: int | None = None

    def __str__(self) -> str:
        lines = [f"{self.level}[{self.code}]: {self.message}"]
        if self.where:
            lines.append(f"  --> {self.where}")
        lines.append(f"  = note: {self.note}")
        lines.append(f"  = help: {self.help}")
        return printable("\n".join(lines))

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a dictionary of plain values."""
        return asdict(self)


def worst_first(
    diagnostics: Iterable[Diagnostic], follows: Mapping[str, Collection[str]] = MappingProxyType({})
) -> list[Diagnostic]:
    """Return the diagnostics with errors before warnings, and in the order in which who enforces them speaks.

    The driver refuses a request before the hardware sees it, and what documents alone forbid comes last. Otherwise the
    order is the given one.

    Args:
        diagnostics: what was found.
        follows: codes of consequences, each with those of its causes. A consequence is left out where one of its
            causes is among the errors.
    """
    found = list(diagnostics)
    errors = {d.code for d in found if d.level == "error"}
    kept = [d for d in found if errors.isdisjoint(follows.get(d.code, ()))]
    return sorted(kept, key=lambda d: (d.level != "error", _SPEAKERS.index(d.refused_by)))

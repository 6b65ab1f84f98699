"""Rows before anything is made of them: plain values by field, which can be sent, hashed and said; or invalid ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

LARGEST = 2**63 - 1
MOST_ENTRIES = 256  # of a list in a cell; no operator has as many axes
LONGEST_TEXT = 200  # of a row or a value that is said again
_PLAIN = (str, float, bool, type(None))


class Row(NamedTuple):
    """A row as its file gives it: where it stands, and its values by field."""

    line: int
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BadRow:
    """An invalid row, which is no problem: where it stands, what it holds, why, and the name that it has."""

    line: int
    text: str
    error: str
    name: str = ""


def row_of(line: int, values: Mapping[Any, Any]) -> Row | BadRow:
    """Return a row of any values as one of plain ones; what only its writer needs, fields in x_, is left out."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name is None:  # cells without a column
            continue
        if not isinstance(name, str):
            return invalid(line, found, f"field {said(name, 60)!r} is no text; name fields as text")
        if not name.startswith("x_"):
            found[name] = value if type(value) in _PLAIN else _plain(value)
    return Row(line, found)


def invalid(line: int, values: Mapping[str, Any], error: str) -> BadRow:
    """Return what is said of a row of plain values that is no problem."""
    text = ",".join(f"{name}={value}" for name, value in values.items() if value not in (None, ""))
    return BadRow(line, said(text), printable(error), said(values.get("name") or ""))


def placed(line: int, name: str) -> str:
    """Return where a row stands: "line 4 (mlp.up)"."""
    return f"line {line} ({name})" if name else f"line {line}"


def said(value: Any, most: int = LONGEST_TEXT) -> str:
    """Return how a value reads, cut where it is long."""
    try:
        return printable(str(value))[:most]
    except Exception:
        return f"a {type(value).__name__} that cannot be written"


def printable(text: str) -> str:
    """Return a text without what no encoding can write."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _plain(value: Any, *, nested: bool = False) -> Any:
    """Return a value as text, a number, a truth value, or several of them."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, int):
        return int(value) if abs(value) <= LARGEST else f"a number of {value.bit_length()} bits"
    if not isinstance(value, str | bytes | Mapping) and isinstance(value, Iterable) and not nested:
        try:
            entries = []
            for entry in value:
                entries.append(_plain(entry, nested=True))
                if len(entries) > MOST_ENTRIES:
                    return f"more than {MOST_ENTRIES} entries"
        except Exception:
            return _scalar(value)
        return tuple(entries)
    return _scalar(value)


def _scalar(value: Any) -> Any:
    """Return the number that an array's element is, else how a value reads."""
    try:
        number = value.item()
    except Exception:
        number = None
    if type(number) in {float, bool} or (type(number) is int and abs(number) <= LARGEST):
        return number
    return said(value)

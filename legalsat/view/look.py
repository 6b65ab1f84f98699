"""How text for a person looks: how wide it is, and whether it has colours."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

from legalsat.printable import printable

_STYLES = {"error": "1;31", "warning": "1;33", "good": "1;32", "title": "1", "faint": "2", "help": "36"}
_PAINTED = re.compile(rf"(\x1b\[(?:0|{'|'.join(_STYLES.values())})m)")


@dataclass(frozen=True, slots=True)
class Look:
    """How text is to look: the columns that lines wrap at, and whether colours are used."""

    width: int = 100
    colour: bool = False

    def paint(self, text: str, style: str) -> str:
        """Return `text` in a style of `_STYLES`, or as it is without colours."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.colour and text else text

    def clean(self, text: str) -> str:
        """Return text that may hold foreign parts as it may go to a terminal: printable but for these colours."""
        if not self.colour:
            return printable(text)
        return "".join(part if i % 2 else printable(part) for i, part in enumerate(_PAINTED.split(text)))

    def wrap(self, text: str, first: str = "", rest: str | None = None) -> str:
        """Return `text` wrapped, its first line after `first` and the others after `rest` (as many blanks)."""
        hang = " " * len(_PAINTED.sub("", first)) if rest is None else rest
        lines = textwrap.wrap(
            text,
            max(self.width, len(hang) + 20),
            initial_indent=first,
            subsequent_indent=hang,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return "\n".join(lines) or first.rstrip()


PLAIN = Look()

"""Other people's kernels: PTX below a folder, cut into texts of one entry each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ASSEMBLED = (8, 8)  # the newest version of PTX that assemblers of CUDA 12.9 read
_ENTRY = re.compile(r"^[ \t]*(?:\.visible\s+|\.weak\s+)*\.entry\s+([\w$]+)", re.MULTILINE)
_VERSION = re.compile(r"^\.version (\d+)\.(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Source:
    """One kernel.

    Attributes:
        file: below the folder. entry: as the text has it. number: among the entries of the file, from 0.
        text: the file's, without its other entries.
    """

    file: str
    entry: str
    number: int
    text: str

    @property
    def name(self) -> str:
        """Of the file, and which of its entries."""
        return f"{self.file}#{self.number}"

    @property
    def target(self) -> str:
        """Such as "sm_90a"."""
        found = re.search(r"^\.target\s+(\w+)", self.text, re.MULTILINE)
        return found[1] if found else ""


def sources(folder: Path) -> Iterator[Source]:
    """Yield every kernel of the PTX below a folder."""
    for path in sorted(folder.rglob("*.ptx")):
        file, text = str(path.relative_to(folder)), path.read_text()
        spans = entries(text)
        for number, (entry, _, _) in enumerate(spans):
            alone, at = [], 0
            for name, begin, end in spans:
                alone.append(text[at:begin])
                alone.append(text[begin:end] if name == entry else "\n" * text.count("\n", begin, end))
                at = end
            yield Source(file, entry, number, "".join([*alone, text[at:]]))


def entries(text: str) -> list[tuple[str, int, int]]:
    """Return names of entries, where each begins and where it ends."""
    found = []
    for match in _ENTRY.finditer(text):
        depth, end = 0, text.index("{", match.end())
        for brace in re.finditer(r"//[^\n]*|[{}]", text[end:]):
            depth += {"{": 1, "}": -1}.get(brace[0], 0)
            if not depth and brace[0] == "}":
                end += brace.end()
                break
        found.append((match[1], match.start(), end))
    return found


def assembled(text: str) -> str:
    """Return a text that says it is of a version that assemblers at hand read: most of it is."""
    found = _VERSION.search(text)
    if found is None or (int(found[1]), int(found[2])) <= ASSEMBLED:
        return text
    return text[: found.start()] + f".version {ASSEMBLED[0]}.{ASSEMBLED[1]}" + text[found.end() :]

"""Plants faults in PTX by editing its text: `mutants(ptx)` yields each with its kind and line.

    python -m bench.ptx.ptx_mutants [FOLDER...] [--processes N] [--seconds S] [--whole S] [--out FOLDER]

Checks every fault of the PTX below folders, those of the tests when left out, told nothing but the text, and counts by
kind what is flagged, not proven and proven. Exit status 1 if one has no answer.

Whether a mutant is harmful depends on the kernel: a fence between barriers that also wait for it is redundant. So the
kinds say what was edited, not what follows.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import pool
from bench.machine import DATA, write
from legalsat.extract.check.check_ptx import check_ptx

KERNELS = DATA / "ptx"
STAGE_BYTES = 8  # from a barrier to that of the next stage

Edit = Callable[[str], str | None]


@dataclass(frozen=True)
class _Kind:
    """An edit of lines that a pattern finds."""

    name: str
    pattern: str
    edit: Edit


def _gone(line: str) -> str:
    return f"// {line.strip()}"


def _twice(line: str) -> str:
    return f"{line}\n{line}"


def _number(step: int, pattern: str = r"(\d+)(\s*;\s*)$") -> Edit:
    """Change the number at the pattern's first group."""

    def edit(line: str) -> str | None:
        found = re.search(pattern, line)
        if found is None or int(found[1]) + step < 0:
            return None
        return line[: found.start(1)] + str(int(found[1]) + step) + line[found.end(1) :]

    return edit


def _address(step: int, which: int = 0) -> Edit:
    """Move the address in the n-th brackets."""

    def edit(line: str) -> str | None:
        found = [*re.finditer(r"\[\s*([%\w$]+)(?:\s*\+\s*(\d+))?\s*\]", line)]
        if len(found) <= (which if which >= 0 else -which - 1):
            return None
        one = found[which]
        return f"{line[: one.start()]}[{one[1]}+{int(one[2] or 0) + step}]{line[one.end() :]}"

    return edit


def _parity(value: str) -> Edit:
    """Give a wait another parity: "flip" for the other one, or a constant."""

    def edit(line: str) -> str | None:
        found = re.search(r"\],\s*(%\w+|\d+)(\s*;)", line)
        if found is None:
            return None
        if value != "flip":
            return None if found[1] == value else line[: found.start(1)] + value + line[found.end(1) :]
        if found[1].isdigit():
            return line[: found.start(1)] + str(1 - int(found[1])) + line[found.end(1) :]
        flipped = line[: found.start(1)] + "%flipped" + line[found.end(1) :]
        return f"{{ .reg .b32 %flipped;\nxor.b32 %flipped, {found[1]}, 1;\n{flipped}\n}}"

    return edit


def _passed(line: str) -> str | None:
    found = re.search(r"parity\S*\s+([%\w]+),", line)
    return f"setp.eq.u32 {found[1]}, 0, 0;" if found else None


def _no_bytes(line: str) -> str | None:
    found = re.search(r"(?:@!?%\w+ )?mbarrier\.arrive\.expect_tx\.(\S+)\s+(_, \[[^\]]*\]),", line)
    if found is None:
        return None
    guard = re.match(r"\s*(@!?%\w+ )?", line)
    return f"{guard[1] or '' if guard else ''}mbarrier.arrive.{found[1]} {found[2]};"


_EXPECT = r"mbarrier\.arrive\.expect_tx"
_ARRIVE = r"mbarrier\.arrive\.shared"
_WAIT = r"mbarrier\.try_wait"
_LOAD = r"cp\.async\.bulk\.tensor.*mbarrier::complete_tx"
_KINDS = (
    _Kind("arrive dropped", _ARRIVE, _gone),
    _Kind("arrive doubled", _ARRIVE, _twice),
    _Kind("arrive on the next stage", _ARRIVE, _address(STAGE_BYTES)),
    _Kind("expect dropped", _EXPECT, _gone),
    _Kind("expect without bytes", _EXPECT, _no_bytes),
    _Kind("16 bytes more expected", _EXPECT, _number(16)),
    _Kind("16 bytes fewer expected", _EXPECT, _number(-16)),
    _Kind("expect on the next stage", _EXPECT, _address(STAGE_BYTES)),
    _Kind("expect doubled", _EXPECT, _twice),
    _Kind("one arrival more expected", r"mbarrier\.init", _number(1)),
    _Kind("one arrival fewer expected", r"mbarrier\.init", _number(-1)),
    _Kind("barrier not started", r"mbarrier\.init", _gone),
    _Kind("parity flipped", _WAIT, _parity("flip")),
    _Kind("parity always 0", _WAIT, _parity("0")),
    _Kind("parity always 1", _WAIT, _parity("1")),
    _Kind("wait removed", _WAIT, _passed),
    _Kind("wait on the next stage", _WAIT, _address(STAGE_BYTES)),
    _Kind("proxy fence removed", r"fence\.proxy\.async", _gone),
    _Kind("block barrier removed", r"\bbar(?:rier)?\.sync\b", _gone),
    _Kind("load dropped", _LOAD, _gone),
    _Kind("load doubled", _LOAD, _twice),
    _Kind("load to a place 128 bytes on", _LOAD, _address(128)),
    _Kind("load counted on the next stage", _LOAD, _address(STAGE_BYTES, -1)),
    _Kind("wgmma commit removed", r"wgmma\.commit_group", _gone),
    _Kind("wgmma wait removed", r"wgmma\.wait_group", _gone),
    _Kind("wgmma wait for one group fewer", r"wgmma\.wait_group", _number(1)),
    _Kind("wgmma fence removed", r"wgmma\.fence", _gone),
    _Kind("bulk commit removed", r"cp\.async\.bulk\.commit_group", _gone),
    _Kind("bulk wait removed", r"cp\.async\.bulk\.wait_group", _gone),
    _Kind("bulk wait for one group fewer", r"cp\.async\.bulk\.wait_group", _number(1)),
    _Kind("cp.async commit removed", r"cp\.async\.commit_group", _gone),
    _Kind("cp.async wait removed", r"cp\.async\.wait_group", _gone),
    _Kind("cp.async wait for one group fewer", r"cp\.async\.wait_group", _number(1)),
    _Kind("tcgen05 commit removed", r"tcgen05\.commit", _gone),
    _Kind("tcgen05 commit doubled", r"tcgen05\.commit", _twice),
    _Kind("tcgen05 commit on the next stage", r"tcgen05\.commit", _address(STAGE_BYTES)),
    _Kind("tensor memory not freed", r"tcgen05\.dealloc", _gone),
    _Kind("wait for tcgen05.ld removed", r"tcgen05\.wait::ld", _gone),
    _Kind("wait for tcgen05.st removed", r"tcgen05\.wait::st", _gone),
)  # fmt: skip

_RELEASED = "stage released before the wgmma wait"
KINDS = (*(k.name for k in _KINDS), _RELEASED)


def mutants(ptx: str) -> Iterator[tuple[str, int, str]]:
    """Yield every mutant of a PTX text: the kind of fault, the line edited, from 1, and the text."""
    lines = ptx.splitlines()
    body = [n for n, line in enumerate(lines) if not line.lstrip().startswith("//")]
    for kind in _KINDS:
        pattern = re.compile(kind.pattern)
        for n in body:
            if pattern.search(lines[n].partition("//")[0]):
                edited = kind.edit(lines[n])
                if edited is not None and edited != lines[n]:
                    yield kind.name, n + 1, "\n".join([*lines[:n], edited, *lines[n + 1 :], ""])
    yield from _released_early(lines, body)


def _released_early(lines: list[str], body: list[int]) -> Iterator[tuple[str, int, str]]:
    """Move the wait for multiplications behind the arrive that follows it."""
    for n in body:
        if re.search(r"wgmma\.wait_group", lines[n]):
            arrive = next((m for m in body if m > n and re.search(_ARRIVE, lines[m])), None)
            if arrive is not None:
                yield (
                    _RELEASED,
                    n + 1,
                    "\n".join([*lines[:n], *lines[n + 1 : arrive + 1], lines[n], *lines[arrive + 1 :], ""]),
                )
                return


@dataclass(frozen=True, slots=True)
class Planted:
    """A fault of a kernel: its kind and line, "" and 0 for the kernel itself, and the text."""

    kernel: str
    kind: str
    line: int
    text: str


def planted(folders: Sequence[Path]) -> Iterator[Planted]:
    """Yield the kernels below folders, and each fault of theirs."""
    for folder in folders:
        for file in sorted(folder.rglob("*.ptx")):
            name, text = str(file.relative_to(folder)), file.read_text()
            yield Planted(name, "", 0, text)
            yield from (Planted(name, kind, line, edited) for kind, line, edited in mutants(text))


def judged(one: Planted) -> dict[str, Any]:
    """Return what the check says of a text."""
    found = check_ptx(one.text)
    answer = "flagged" if found.findings else "proven" if found.proven else "not proven"
    return {"answer": answer, "says": [f.message for f in found.findings] + [u.reason for u in found.unproven]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Check all, print counts, and write if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    pool.options_of(parser)
    options = parser.parse_args(arguments)
    listed = sorted(planted(options.folders or [KERNELS]), key=lambda one: -len(one.text))
    rows = []
    for one, row in pool.done(judged, listed, pool.limits_of(options)):
        said = row if isinstance(row, dict) else {"answer": "no answer", "says": [str(row)]}
        rows.append({"kernel": one.kernel, "kind": one.kind, "line": one.line, **said})
    rows.sort(key=lambda row: (row["kernel"], row["line"], row["kind"]))
    kinds: dict[str, Counter[str]] = {}
    for row in rows:
        kinds.setdefault(row["kind"] or "none", Counter())[row["answer"]] += 1
    found: dict[str, Any] = {
        "question": "what does the check of PTX say of planted faults, told nothing but the text",
        "kernels": sum(not row["kind"] for row in rows),
        "faults": dict(Counter(row["answer"] for row in rows if row["kind"])),
        "by kind": {kind: dict(count) for kind, count in sorted(kinds.items())},
    }
    print(json.dumps(found, indent=1))
    if options.out:
        write(options.out / "ptx_mutants.json", {**found, "rows": rows})
    return int(any(row["answer"] == "no answer" for row in rows))


if __name__ == "__main__":
    sys.exit(main())

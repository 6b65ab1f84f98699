"""Plants faults in PTX by editing its text: `mutants(ptx)` yields each with its kind and line.

Whether a mutant is harmful depends on the kernel: a fence between barriers that also wait for it is redundant. So the
kinds say what was edited, not what follows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

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

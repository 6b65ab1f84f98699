"""Is a proof about what it seems to be? Kernels without their barriers, waits or fences must not be proven.

    python -m bench.ptx.coverage_guard FOLDER...      # PTX below folders; without one, what this library prints itself

Of each kernel that is proven all instructions of one kind are taken out: every `mbarrier.init`, every wait of one kind,
every fence of one kind. Such a text may be proven only by one of `RULES`, which know no names. Writes
results/coverage_guard.json, rows of other folders kept. Exit status 1 if any is proven else.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.foreign_mutants.faults import Statement, statement
from bench.foreign_mutants.texts import Source, sources
from bench.machine import RESULTS, write
from legalsat.extract.check.check_ptx import KernelCheck, check_ptx

RESULT = RESULTS / "coverage_guard.json"
FLAGGED, OPEN, PROVEN = "flagged", "not proven", "proven"


@dataclass(frozen=True, slots=True)
class Removal:
    """Instructions of one kind: a name, and what theirs begin with."""

    name: str
    pattern: str


REMOVALS = (
    Removal("barrier inits", r"mbarrier\.init"),
    Removal("waits: mbarrier", r"mbarrier\.(try|test)_wait"),
    Removal("waits: wgmma", r"wgmma\.wait_group"),
    Removal("waits: cp.async", r"cp\.async\.wait_(group|all)"),
    Removal("waits: bulk", r"cp\.async\.bulk\.wait_group"),
    Removal("waits: tcgen05.ld", r"tcgen05\.wait::ld"),
    Removal("waits: tcgen05.st", r"tcgen05\.wait::st"),
    Removal("fences: proxy", r"fence\.proxy\.async"),
    Removal("fences: tensormap", r"fence\.proxy\.tensormap"),
    Removal("fences: init", r"fence\.mbarrier_init"),
    Removal("fences: wgmma", r"wgmma\.fence"),
    Removal("fences: tcgen05 before", r"tcgen05\.fence::before"),
    Removal("fences: tcgen05 after", r"tcgen05\.fence::after"),
)


def without(text: str, removal: Removal) -> str | None:
    """Return a text without a kind of instructions, None where it has none. A wait is over at once."""
    lines, changed = text.split("\n"), False
    for n, line in enumerate(lines):
        one = statement(line)
        if one is None or not re.match(removal.pattern, one.op):
            continue
        changed = True
        if "try_wait" in one.op or "test_wait" in one.op:
            over = Statement(one.head, "setp.eq.u32", (one.operands[0].partition("|")[0], "0", "0"), one.tail)
            lines[n] = str(over)
        else:
            lines[n] = re.sub(r"@!?[%\w$]+\s+$", "", one.head) + one.tail
    return "\n".join(lines) if changed else None


# What documents ask for and released compilers leave out (`rules/lenient.py`, where each says who does): a warning.
LENIENT = {
    "waits: tcgen05.ld": {"fetched_not_waited"},
    "waits: bulk": {"store_not_awaited"},
    "fences: init": {"initialisation_not_fenced"},
    "fences: tcgen05 before": {"tensor_memory_not_fenced"},
    "fences: tcgen05 after": {"tensor_memory_not_fenced"},
    "fences: proxy": {"initialisation_not_fenced", "overwrite_not_fenced", "reads_not_fenced", "copies_not_fenced"},
}
WARNED = "a rule of rules/lenient.py: the check warns that it is missing"
BESIDE = "proxy fences behind it order the same: without both it is not proven"
RULES = (WARNED, BESIDE)


def excuse(removal: Removal, found: KernelCheck) -> str:
    """Return the rule by which a removal, after which `found` is said, does no harm; "" if there is none."""
    return WARNED if LENIENT.get(removal.name, set()) & {warning.kind for warning in found.warnings} else ""


def _ordered_beside(removal: Removal, text: str, check: Callable[[str], KernelCheck]) -> bool:
    """Whether other fences order what those of initialisations did: without both the text is not proven."""
    if removal.name != "fences: init":
        return False
    (proxy,) = (one for one in REMOVALS if one.name == "fences: proxy")
    neither = without(text, proxy)
    return neither is not None and verdict(check(neither)) != PROVEN


def checked(text: str) -> KernelCheck:
    """Check a text of one kernel."""
    return check_ptx(text).kernels[0]


def verdict(found: KernelCheck) -> str:
    """Return "flagged", "not proven" or "proven"."""
    return FLAGGED if found.findings else PROVEN if found.proven else OPEN


def rows_of(source: Source, check: Callable[[str], KernelCheck]) -> Iterator[dict[str, Any]]:
    """Check a kernel and, where it is proven, what is left without each kind of instructions."""
    if verdict(check(source.text)) != PROVEN:
        return
    for removal in REMOVALS:
        text = without(source.text, removal)
        if text is None:
            continue
        begin = time.process_time()
        found = check(text)
        row = {"kernel": source.name, "removed": removal.name, "check": verdict(found)}
        if row["check"] == PROVEN:
            row["rule"] = excuse(removal, found) or (BESIDE if _ordered_beside(removal, text, check) else "")
        yield {**row, "seconds": round(time.process_time() - begin, 2)}


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Count by kind of instructions."""
    counted: dict[str, Counter[str]] = {}
    kernels = set()
    for row in rows:
        kernels.add(row["kernel"])
        said = "proven by a rule" if row.get("rule") else row["check"]
        counted.setdefault(row["removed"], Counter())[said] += 1
    return {
        "question": "is a kernel proven without its barriers, waits or fences",
        "kernels that are proven": len(kernels),
        "texts": sum(count.total() for count in counted.values()),
        "removed": {name: dict(count) for name, count in sorted(counted.items())},
        "rules": {rule: dict(Counter(row["removed"] for row in rows if row.get("rule") == rule)) for rule in RULES},
        "proven without a rule": [row for row in rows if row["check"] == PROVEN and not row["rule"]],
    }


def _own() -> Iterator[Source]:
    from bench.triton_corpus import copies, products  # noqa: PLC0415 - imports Triton

    for name, make in (*products(), *copies()):
        text = make()
        entry = re.findall(r"\.entry\s+([\w$]+)", text)[0]
        yield Source(f"own/{name}", entry, 0, text)


def _listed(arguments: list[str]) -> Iterator[Source]:
    if not arguments:
        yield from _own()
    for folder in map(Path, arguments):
        for source in sources(folder):
            yield Source(f"{folder.name}/{source.file}", source.entry, source.number, source.text)


def main(arguments: list[str]) -> int:
    """Check all; return 1 if a text is proven that no rule excuses."""
    rows = {(r["kernel"], r["removed"]): r for r in json.loads(RESULT.read_text())["rows"]} if RESULT.exists() else {}
    for source in _listed(arguments):
        rows = {key: row for key, row in rows.items() if key[0] != source.name}
        for row in rows_of(source, checked):
            rows[row["kernel"], row["removed"]] = row
            if row["check"] == PROVEN and not row["rule"]:
                print("PROVEN", row["kernel"], row["removed"], flush=True)
        found = summary([*rows.values()])
        write(RESULT, {**found, "rows": [*rows.values()]})
    found = summary([*rows.values()])
    print(json.dumps(found, indent=1))
    return int(bool(found["proven without a rule"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

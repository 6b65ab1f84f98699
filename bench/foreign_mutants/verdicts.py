"""What the PTX check says of each fault in other people's kernels, beside what a GPU or a reader says of it.

    python -m bench.foreign_mutants.verdicts FOLDER [PART] [--processes N] [--seconds S] [--whole S] [--out FOLDER]

PART: of names of kernels; others keep their rows.
A fault of a kernel for sm_90a harms if it did on the H200 (`device.json`), and if its class does by reading; one of a
kernel for sm_100a if whoever read it says so (`readings.json`). "flagged" is an error that the right kernel has not.
Writes foreign_mutants.json into a folder, results/ when left out. Exit status 1 if a harmful fault is called proven, or
fewer than 90 % are flagged.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import pool
from bench.foreign_mutants.draws import MOST, MOST_READ, drawn_for
from bench.foreign_mutants.readings import READ, harm
from bench.foreign_mutants.recipes import RECIPES
from bench.foreign_mutants.texts import Source, assembled, sources
from bench.machine import write
from legalsat.extract.check.check_ptx import KernelCheck, check_ptx

HERE = Path(__file__).parent
DEVICE = HERE / "device.json"
RESULT = HERE.parent / "results" / "foreign_mutants.json"
ANSWERLESS = "no answer"
FLAGGED, PROVEN, OPEN = "flagged", "proven", "not proven"
LEAST_FLAGGED = 0.9
_BLOCKS = {recipe.source: recipe.block for recipe in RECIPES if recipe.block}


def checked(text: str, source: str) -> KernelCheck:
    """Check a text of one kernel, with the block of its launches where the text has none."""
    return check_ptx(text, block=_BLOCKS.get(source)).kernels[0]


def errors(found: KernelCheck) -> set[tuple[str, int]]:
    """Return kinds and lines of what is wrong."""
    return {(one.kind, one.line) for one in found.findings}


def listed(folder: Path) -> Iterator[Source]:
    """Yield the kernels of which faults are judged."""
    wanted = set(json.loads(DEVICE.read_text())["kernels"]) | set(READ)
    yield from (source for source in sources(folder) if source.name in wanted)


Piece = tuple[str, int, str]  # a kernel's name, the fault's number, -1 for none, and the text


def judged(piece: Piece) -> dict[str, Any]:
    """Return what the check says of a text."""
    begin = time.process_time()
    found = checked(piece[2], piece[0])
    seconds = round(time.process_time() - begin, 2)
    return {"errors": errors(found), "proven": found.proven, "seconds": seconds, "says": _says(found)}


def verdict_of(found: Any, right: Any) -> str:
    """Return what the check says of a fault, by what `judged` gave for it and for the kernel without it."""
    if not isinstance(found, dict):
        return ANSWERLESS
    if found["errors"] - (right["errors"] if isinstance(right, dict) else set()):
        return FLAGGED
    return PROVEN if found["proven"] else OPEN


def _says(found: KernelCheck) -> str:
    if found.findings:
        return f"line {found.findings[0].line}: {found.findings[0].kind}"
    if found.unproven:
        return f"line {found.unproven[0].line}: {found.unproven[0].reason}"
    return "; ".join(str(one) for one in found.conditions)


def summary(kernels: dict[str, Any]) -> dict[str, Any]:
    """Count, with whether each fault harms and why written beside it."""
    harmful: Counter[str] = Counter()
    harmless: Counter[str] = Counter()
    kinds: dict[str, Counter[str]] = {}
    origins: dict[str, Counter[str]] = {}
    for name, kernel in kernels.items():
        for fault in kernel["faults"]:
            fault["harms"], fault["why"] = harm(name, fault)
            if fault["harms"] is None:
                continue
            (harmful if fault["harms"] else harmless)[fault["check"]] += 1
            if fault["harms"]:
                kinds.setdefault(fault["kind"], Counter())[fault["check"]] += 1
                origins.setdefault(name.partition("/")[0], Counter())[fault["check"]] += 1
    total = harmful.total() or 1
    return {
        "question": "which faults planted in other people's kernels does the check of PTX flag",
        "kernels": len(kernels),
        "faults": sum(len(kernel["faults"]) for kernel in kernels.values()),
        "harmful": dict(harmful),
        "harmful and flagged, %": round(100 * harmful[FLAGGED] / total, 1),
        "harmless": dict(harmless),
        "harmful, by kind": {kind: dict(count) for kind, count in sorted(kinds.items())},
        "harmful, by origin": {origin: dict(count) for origin, count in sorted(origins.items())},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Check all, or kernels by a part of their names; return 1 if the check misses too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("part", nargs="?", default="")
    pool.options_of(parser)
    options = parser.parse_args(arguments)
    kernels = json.loads(RESULT.read_text())["rows"] if RESULT.exists() else {}
    device = json.loads(DEVICE.read_text())["kernels"]
    pieces: list[Piece] = []
    for source in listed(options.folder):
        judged_ = device.get(source.name, {"right": "right", "faults": []})
        if options.part not in source.name or judged_["right"] != "right":
            continue
        outcomes = {number: outcome for number, _, _, outcome in judged_["faults"]}
        text, faults = assembled(source.text), []
        pieces.append((source.name, -1, text))
        for number, fault in enumerate(drawn_for(source.name, text, MOST if outcomes else MOST_READ)):
            if not outcomes or number in outcomes:
                pieces.append((source.name, number, fault.text))
                outcome = outcomes.get(number, "read")
                faults.append({"number": number, "kind": fault.kind, "line": fault.line, "outcome": outcome})
        kernels[source.name] = {"right": "", "target": source.target, "faults": faults}
    pieces.sort(key=lambda piece: -len(piece[2]))
    found_of = {piece[:2]: found for piece, found in pool.done(judged, pieces, pool.limits_of(options))}
    for name in {name for name, _ in found_of}:
        right = found_of[name, -1]
        kernels[name]["right"] = verdict_of(right, None)
        for fault in kernels[name]["faults"]:
            found = found_of[name, fault["number"]]
            told = found if isinstance(found, dict) else {"seconds": options.seconds, "says": str(found)}
            fault |= {"check": verdict_of(found, right), "seconds": told["seconds"], "says": told["says"]}
    found = summary(kernels)
    write(options.out / RESULT.name if options.out else RESULT, {**found, "rows": kernels})
    print(json.dumps(found, indent=1))
    missed = found["harmful"].get(PROVEN, 0) or found["harmful and flagged, %"] < 100 * LEAST_FLAGGED
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())

"""What the PTX check says of faults that a GPU has judged; no GPU is needed.

    python -m bench.ptx.ptx_judged [--processes N] [--seconds S] [--whole S] [--out FOLDER]

`bench.gpu.pipelines` planted faults in three kernels and ran each of them on an H200, in a process of its own. The
kernels lie in `gpu/results/judged` as they ran; here the same faults are planted again, and each text is checked twice:
told how many bytes a box of each tensor map has, and told nothing but the text. Writes ptx_judged.json into a folder,
results/ when left out.

Exit status 1 if a fault that did harm there is called proven, or is not flagged although the boxes are told.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import pool
from bench.machine import RESULTS, write
from bench.ptx.ptx_mutants import mutants
from legalsat.dtypes import dtype
from legalsat.extract.check.check_ptx import PtxCheck, check_ptx
from legalsat.extract.check.check_words import code_of

JUDGED = RESULTS.parent / "gpu" / "results"
VERDICTS, KERNELS = JUDGED / "pipelines.json", JUDGED / "judged"
FILE = "ptx_judged.json"
_MAP = re.compile(r"^// (\w+): tiled (\w+) map of [^\n]*, box ([\dx ]+),", re.M)
_BITS = {"u8": 8, "f16": 16, "bf16": 16}
TOLD, ALONE = "told the boxes", "told nothing"
LATE = "no answer"


def box_bytes(text: str) -> dict[str, int]:
    """Return the bytes of each map's box, as the comment at the head of a printed kernel has them."""
    found = {}
    for name, kind, extents in _MAP.findall(text):
        size = _BITS.get(kind) or dtype(kind).bits
        for extent in extents.split("x"):
            size *= int(extent)
        found[name] = size // 8
    return found


def faults() -> Iterator[tuple[dict[str, Any], str, dict[str, int]]]:
    """Yield each judged fault: what the GPU said of it, its text, and the boxes of its maps."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(VERDICTS.read_text())["rows"]:
        rows.setdefault(row["kernel"], []).append(row)
    texts = {
        text.partition(", on ")[0].removeprefix("// "): text for text in map(Path.read_text, KERNELS.glob("*.ptx"))
    }
    for kernel, judged in rows.items():
        text = texts[kernel]
        planted = {(kind, line): edited for kind, line, edited in mutants(text)}
        for row in judged:
            yield row, planted[row["kind"], row["line"]], box_bytes(text)


def answer(found: PtxCheck) -> str:
    """Return "flagged", "not proven" or "proven"."""
    return "flagged" if found.findings else "proven" if found.proven else "not proven"


def judged(fault: tuple[dict[str, Any], str, dict[str, int]]) -> dict[str, Any]:
    """Check one fault, told the boxes and told nothing."""
    row, text, boxes = fault
    told, alone = check_ptx(text, box_bytes=boxes), check_ptx(text)
    return {
        "kernel": row["kernel"],
        "kind": row["kind"],
        "line": row["line"],
        "outcome": row["outcome"],
        TOLD: answer(told),
        ALONE: answer(alone),
        "codes": sorted({code_of(f) for f in told.findings}),
    }


def compared(limits: pool.Limits = pool.ALONE) -> dict[str, Any]:
    """Check all, and count the answers."""
    begin = time.perf_counter()
    entries = []
    for (row, *_), entry in pool.done(judged, list(faults()), limits):
        late = {name: row[name] for name in ("kernel", "kind", "line", "outcome")} | dict.fromkeys((TOLD, ALONE), LATE)
        entries.append(entry if isinstance(entry, dict) else {**late, "codes": [], "says": str(entry)})
    entries.sort(key=lambda e: (e["kernel"], e["line"], e["kind"]))
    harmful = [e for e in entries if e["outcome"] != "right"]
    harmless = [e for e in entries if e["outcome"] == "right"]
    return {
        "question": "which faults that an H200 has judged does the check of PTX flag, with and without sizes of boxes",
        "harmful": len(harmful),
        "harmless": len(harmless),
        **{f"harmful, {how}": dict(Counter(e[how] for e in harmful)) for how in (TOLD, ALONE)},
        **{f"harmless, {how}": dict(Counter(e[how] for e in harmless)) for how in (TOLD, ALONE)},
        "harmful and not flagged": [e for e in harmful if {e[TOLD], e[ALONE]} != {"flagged"}],
        "seconds": round(time.perf_counter() - begin, 1),
        "entries": entries,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print the counts, and write all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    pool.options_of(parser)
    options = parser.parse_args(arguments)
    found = compared(pool.limits_of(options))
    write((options.out or RESULTS) / FILE, found)
    print(json.dumps({name: value for name, value in found.items() if name != "entries"}, indent=1))
    missed = found[f"harmful, {TOLD}"] != {"flagged": found["harmful"]} or "proven" in found[f"harmful, {ALONE}"]
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())

"""Does the check of machine code raise a false alarm, and see faults? `python -m bench.ptx.machine_code [FOLDER]`.

Assembles the kernels of `bench.triton_corpus` for sm_90, and the PTX below FOLDER if one is given, with ptxas, and
checks what nvdisasm prints. Then plants faults into each text, one at a time: waits, fences, commits, inits and
expectations taken out, accumulators and operands in registers touched while a multiplication is under way. Writes
bench/results/machine_code.json. Exit status 1 if a kernel of the corpus has a finding, or a planted fault has none.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.machine import RESULTS, write
from bench.triton_corpus import copies, gluon_kernels, products, triton_kernels
from legalsat.analyses.sass.registers import MATRIX, matrix_of
from legalsat.analyses.sass.text import Instruction, parse
from legalsat.backends.ptx.assemble import AssemblyFailed, assemble
from legalsat.backends.ptx.disassemble import disassemble
from legalsat.extract.check.check_sass import SassCheck, check_sass

RESULT = RESULTS / "machine_code.json"
OTHERS = ("sm_100", "b200", "tcgen05", "gather of rows")  # of names: kernels of other chips
SEED = 20261122
PLACES = 4  # of one kind in one kernel
LONGEST = 6000  # instructions of a kernel that faults are planted in
_PART = re.compile(r"^(\s*/\*[0-9a-f]+\*/\s+)([^;]*)(;.*)?$")

Takes = Callable[[Instruction], bool]
# What is taken out everywhere, one kind at a time.
TAKEN: dict[str, Takes] = {
    "waits for multiplications": lambda one: one.name.startswith("WARPGROUP.DEPBAR"),
    "fences of registers": lambda one: one.name == "WARPGROUP.ARRIVE",
    "commits of stores": lambda one: one.base == "UTMACMDFLUSH",
    "barrier inits": lambda one: one.name.startswith("SYNCS.EXCH"),
    "barrier waits": lambda one: "PHASECHK" in one.parts,
    "expectations": lambda one: "ARRIVE" in one.parts and one.base == "SYNCS" and not {"A1T0", "ART0"} & set(one.parts),
}


def corpus(folder: str | None) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield names of kernels, and what makes their PTX."""
    for listed in (triton_kernels(), gluon_kernels(), products(), copies()):
        for name, make in listed:
            if not any(other in name for other in OTHERS):
                yield name, make
    for file in sorted(Path(folder).rglob("*.ptx")) if folder else ():
        if ".target sm_90" in file.read_text():
            yield f"file {file.relative_to(str(folder))}", file.read_text


def machine_code(ptx: str) -> str:
    """Return the machine code of a text; newer PTX than the assembler knows is called older, which most of it is."""
    try:
        return disassemble(assemble(ptx, "sm_90a"))
    except AssemblyFailed:
        return disassemble(assemble(re.sub(r"^\.version 9\.\d", ".version 8.8", ptx, flags=re.MULTILINE), "sm_90a"))


def faults(text: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Yield kinds of faults, and the text with one planted."""
    lines = text.splitlines()
    code = [one for kernel in parse(text).kernels for one in kernel.instructions]
    has_loads = any(one.base in {"UTMALDG", "UBLKCP"} for one in code)
    for kind, takes in TAKEN.items():
        taken = [one for one in code if takes(one)]
        if taken and (kind != "barrier waits" or has_loads):
            yield kind, _with(lines, {one.line: "NOP" for one in taken})
    planted: dict[str, list[dict[int, str]]] = {}
    for one, after in pairwise(code):
        if one.base not in MATRIX or after.base in {*MATRIX, "BRA", "WARPGROUP"}:
            continue
        matrix = matrix_of(one)
        if matrix.accumulators:
            planted.setdefault("accumulator read", []).append({after.line: f"MOV R0, R{matrix.accumulators[-1]}"})
            planted.setdefault("accumulator written", []).append({after.line: f"MOV R{matrix.accumulators[0]}, RZ"})
        if matrix.sources:
            planted.setdefault("operand overwritten", []).append({after.line: f"MOV R{matrix.sources[0][-1]}, RZ"})
    for kind, places in planted.items():
        for changes in rng.sample(places, min(PLACES, len(places))):
            yield kind, _with(lines, changes)


def _with(lines: list[str], changes: dict[int, str]) -> str:
    changed = list(lines)
    for line, instruction in changes.items():
        found = _PART.match(changed[line - 1])
        assert found is not None
        changed[line - 1] = f"{found[1]}{instruction} ;"
    return "\n".join(changed)


def main(arguments: list[str]) -> int:
    """Check all; return 1 if a kernel of the corpus has a finding, or a fault has none."""
    entries, missed, refused = [], [], {}
    seen: Counter[str] = Counter()
    rng = random.Random(SEED)
    for name, make in corpus(arguments[0] if arguments else None):
        try:
            text = machine_code(make())
        except Exception as error:  # whatever a compiler raises
            refused[name] = str(error)[-200:]
            continue
        right = check_sass(text)
        entries.append({"name": name, **_entry(right)})
        print(f"{len(right.findings):2} findings, {entries[-1]['check_s']:5.2f} s  {name}", flush=True)
        if sum(len(kernel.instructions) for kernel in parse(text).kernels) > LONGEST:
            continue
        for kind, wrong in faults(text, rng):
            flagged = len(check_sass(wrong).findings) > len(right.findings)
            seen[f"{kind}: {'flagged' if flagged else 'missed'}"] += 1
            if not flagged:
                missed.append(f"{name}: {kind}")
    own = [one for one in entries if not one["name"].startswith("file ")]
    seconds = sorted(one["check_s"] for one in entries)
    found = {
        "question": "does the check of machine code raise a false alarm, and see planted faults",
        "corpus": {"kernels": len(own), "with findings": sum(bool(one["findings"]) for one in own)},
        "others": {
            "files": len(entries) - len(own),
            "with findings": [one["name"] for one in entries if one["findings"] and one not in own],
        },
        "instructions judged": dict(sum((Counter(one["covered"]) for one in entries), Counter())),
        "faults": dict(sorted(seen.items())),
        "missed": missed,
        "refused": refused,
        "seconds": {"median": seconds[len(seconds) // 2], "largest": seconds[-1]},
    }
    write(RESULT, {**found, "kernels": entries})
    print(json.dumps(found, indent=1))
    return 1 if missed or any(one["findings"] for one in own) else 0


def _entry(check: SassCheck) -> dict[str, Any]:
    return {
        "findings": [f"{f.kind}, line {f.line}: {f.message}" for f in check.findings],
        "not_judged": len(check.unjudged),
        "covered": dict(sum((Counter(kernel.covered) for kernel in check.kernels), Counter())),
        "check_s": round(sum(kernel.seconds for kernel in check.kernels), 3),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

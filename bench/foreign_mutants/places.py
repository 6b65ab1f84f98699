"""Faults of places: what is in order, and lies elsewhere. Does the check of PTX prove any?

    python -m bench.foreign_mutants.places FOLDER... [--most N] [--seed S] [--processes N] [--out FOLDER]

Of each kernel below folders that is proven, faults of one instruction to which its runs come: a multiplication sums up
in other columns, begins where it should add, or reads another operand; columns are fetched, rows stored, matrices
read or boxes loaded some bytes on. Each does harm by reading, but for those of `HARMLESS`: somebody gets what was meant
for somebody else, or what nobody has written. One that shows in certain launches alone may be proven under a condition
that leaves these out, which the right kernel does not need: it is told then. What is left proven is listed with it.
Writes place_mutants.json into a folder, results/ when left out. Exit status 1 if any is proven.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import pool
from bench.foreign_mutants.faults import Fault, Statement, statement
from bench.foreign_mutants.texts import sources
from bench.foreign_mutants.verdicts import PROVEN, checked, verdict_of
from bench.machine import RESULTS, write

MOST, SEED = 24, 20261129
TOLD, NO_HARM = "told by a condition", "harmless"
# By kernel, kind and line: read, with the reason.
HARMLESS = {
    ("triton_misc/matmul_kernel_sm100_b13de5.ptx#0", "begins where it should add", 440): "it adds to zeros (line 181)",
    ("triton_misc/matmul_kernel_tma_persistent_sm100_a32cce.ptx#0", "other columns stored", 642): (
        "the first multiplication of a tile adds nothing to these zeros, and there is always one (line 265)"
    ),
}
_MULTIPLIES, _WGMMA = r"tcgen05\.mma\.(?!.*ws)", r"wgmma\.mma_async"
_STORES, _LOADS = r"cp\.async\.bulk\.tensor.*\.global\.shared", r"cp\.async\.bulk\.tensor.*complete_tx"


def _further(one: Statement, which: int, by: int) -> str | None:
    """Return an instruction with the address of an operand so much on."""
    if which >= len(one.operands) or not one.operands[which].startswith("["):
        return None
    inside = one.operands[which][1:-1].strip()
    found = re.fullmatch(r"([%\w$]+)\s*(?:\+\s*(\d+))?", inside)
    return str(one.given(which, f"[{found[1]}+{int(found[2] or 0) + by}]")) if found else None


def _described(one: Statement, which: int, by: int) -> str | None:
    """Return it with another matrix descriptor; the next granule of 16 bytes is one more."""
    held = one.operands[which]
    if not re.fullmatch(r"%[\w$]+", held):
        return None
    return _beside(one, f".reg .b64 %planted; add.s64 %planted, {held}, {by};", which)


def _turned(one: Statement) -> str:
    """Return a multiplication by tcgen05 that adds where it should begin, and begins where it should add."""
    which = next(n for n, held in enumerate(one.operands) if n > 3 and not held.startswith(("[", "{")))
    return _beside(one, f".reg .pred %planted; not.pred %planted, {one.operands[which]};", which)


def _beside(one: Statement, computed: str, which: int) -> str:
    guard = re.search(r"@!?[%\w$]+\s+$", one.head)
    opened = one.head[: guard.start()] if guard else one.head
    changed = Statement(guard[0] if guard else "", one.op, one.given(which, "%planted").operands, "")
    return f"{opened}{{ {computed} {changed} }}{one.tail}"


def places(text: str, lines: Sequence[int]) -> Iterator[Fault]:
    """Yield every fault of a place, at some lines."""
    listed = text.split("\n")
    for number in lines:
        one = statement(listed[number - 1])
        for kind, edited in _edits(one) if one is not None else ():
            if edited is not None:
                yield Fault(kind, number, "\n".join([*listed[: number - 1], edited, *listed[number:]]))


def _edits(one: Statement) -> Iterator[tuple[str, str | None]]:
    if re.match(_MULTIPLIES, one.op):
        yield from (("sums in other columns", _further(one, 0, by)) for by in (8, 64))
        yield "begins where it should add", _turned(one)
        yield "A in other columns", _further(one, 1, 8)
    if re.match(_MULTIPLIES, one.op) or re.match(_WGMMA, one.op):
        for which, by in ((1, 2), (1, 64), (2, 2), (2, 64)):
            if not one.operands[which].startswith(("[", "{")):
                yield f"{' AB'[which]} at another place", _described(one, which, by)
    if re.match(r"tcgen05\.(ld|st)\.", one.op):
        fetches = one.op.startswith("tcgen05.ld")
        what = "fetched" if fetches else "stored"
        yield from ((f"other columns {what}", _further(one, int(fetches), by)) for by in (4, 16))
    if re.match(_STORES, one.op):
        yield from (("other rows stored", _further(one, 1, by)) for by in (128, 1024))
    if re.match(_LOADS, one.op):
        yield from (("loaded to another place", _further(one, 0, by)) for by in (128, 1024))
    if re.match(r"(ld|st)matrix", one.op):
        yield f"{one.op[:2]}matrix at another place", _further(one, int(one.op.startswith("ld")), 16)


def drawn(text: str, lines: Sequence[int], rng: random.Random, most: int) -> list[Fault]:
    """Return so many faults, of as many kinds as there are."""
    kinds: dict[str, list[Fault]] = {}
    for fault in places(text, lines):
        kinds.setdefault(fault.kind, []).append(fault)
    for held in kinds.values():
        rng.shuffle(held)
    turns = (held[n] for n in range(most) for held in kinds.values() if n < len(held))
    return [fault for fault, _ in zip(turns, range(most), strict=False)]


Piece = tuple[str, str, int, int]  # a kernel's name, its text, how many faults, and the seed


def judged(piece: Piece) -> list[dict[str, Any]]:
    """Return what the check says of faults of a kernel, nothing where it is not proven without them."""
    name, text, most, seed = piece
    right = checked(text, name)
    if not right.proven:
        return []
    lines = [n for n in range(1, text.count("\n") + 2) if n not in right.unreached]
    rows = []
    for fault in drawn(text, lines, random.Random(f"{seed} {name}"), most):
        found = checked(fault.text, name)
        row = {"errors": {(one.kind, one.line) for one in found.findings}, "proven": found.proven}
        says = [one.message for one in found.findings] + [one.reason for one in found.unproven]
        check = verdict_of(row, None)
        conditions = [str(one) for one in found.conditions if one not in right.conditions]
        if check == PROVEN and (name, fault.kind, fault.line) in HARMLESS:
            check, says = NO_HARM, [HARMLESS[name, fault.kind, fault.line]]
        elif check == PROVEN and conditions:
            check, says = TOLD, conditions
        rows.append({"kernel": name, "kind": fault.kind, "line": fault.line, "check": check, "says": says[:1]})
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Check all; return 1 if a fault is proven."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--part", default="", help="of names of kernels")
    parser.add_argument("--most", type=int, default=MOST, help="faults of a kernel")
    parser.add_argument("--seed", type=int, default=SEED)
    pool.options_of(parser)
    options = parser.parse_args(arguments)
    listed = [one for folder in options.folders for one in sources(folder) if options.part in one.name]
    # The smaller first, so that a run that is cut off has seen most kernels.
    pieces = [(one.name, one.text, options.most, options.seed) for one in sorted(listed, key=lambda one: len(one.text))]
    rows: list[dict[str, Any]] = []
    unjudged: dict[str, str] = {}
    for (name, *_), done in pool.done(judged, pieces, pool.limits_of(options)):
        if not isinstance(done, list):
            unjudged[name] = str(done)
            continue
        rows += done
        proven = [(row["line"], row["kind"]) for row in done if row["check"] == PROVEN]
        print(f"{name}: {len(done)}, proven {proven}", flush=True)
    kinds: dict[str, Counter[str]] = {}
    for row in rows:
        kinds.setdefault(row["kind"], Counter())[row["check"]] += 1
    summary = {
        "question": "which faults of places does the check of PTX leave proven",
        "kernels": len({row["kernel"] for row in rows}),
        "faults": len(rows),
        **Counter(row["check"] for row in rows),
        "kernels not judged in time": unjudged,
        "by kind": {kind: dict(count) for kind, count in sorted(kinds.items())},
    }
    print(json.dumps(summary, indent=1))
    write((options.out or RESULTS) / "place_mutants.json", {**summary, "rows": rows})
    return int(any(row["check"] == PROVEN for row in rows))


if __name__ == "__main__":
    sys.exit(main())

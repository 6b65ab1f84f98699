"""Faults of places: what is in order, and lies elsewhere. Does the check of PTX prove any?

    python -m bench.foreign_mutants.places FOLDER... [--most N] [--seed S] [--processes N] [--out FOLDER]

Of each kernel below folders that is proven, faults of one instruction to which its runs come: a multiplication sums up
in other columns, begins where it should add, or reads another operand, or the operand in another way; columns are
fetched, rows stored, matrices read or boxes loaded some bytes on, or a stage; threads write, wait, arrive or meet
elsewhere; others do what some are chosen for. Each does harm by reading, but for those of `HARMLESS`: somebody gets
what was meant for somebody else, or what nobody has written. One that shows in certain launches alone may be proven
under a condition that leaves these out, which the right kernel does not need: it is told then. What is left proven is
listed with it. Writes place_mutants.json into a folder, results/ when left out. Exit status 1 if any is proven.
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
_LATER = "it waits for the stage behind its own, which the same threads release later"
_UNUSED = "no stage has been used yet, and the wait is over at once"
_TAIL = "the producer ends behind it, and nobody outside its CTA arrives there"
_SAME = "each thread stores the same bytes to the same place, which all have met before"
# By kernel, kind and line: read, with the reason.
HARMLESS = {
    ("triton_misc/matmul_kernel_sm100_b13de5.ptx#0", "begins where it should add", 440): "it adds to zeros (line 181)",
    ("triton_misc/matmul_kernel_tma_persistent_sm100_a32cce.ptx#0", "other columns stored", 642): (
        "the first multiplication of a tile adds nothing to these zeros, and there is always one (line 265)"
    ),
    ("cutlass/g90_tma.ptx#0", "begins where it should add", 985): "it adds to zeros (line 930 and before)",
    ("cutlass/g90_tma.ptx#0", "waits at another barrier", 317): _UNUSED,
    ("tilelang/ws_gemm_copy_1_gemm_0_0.ptx#0", "waits at another barrier", 125): _UNUSED,
    ("cutedsl/h_fmha_0.ptx#0", "waits at another barrier", 158): _UNUSED,
    ("cutedsl/b_blockscaled_0.ptx#0", "waits at another barrier", 307): _TAIL,
    ("cutlass/g90_wstma.ptx#0", "waits at another barrier", 4633): _TAIL,
    ("cutlass/g90_coop.ptx#0", "begins where it should add", 1453): "it adds to zeros (lines before 1391)",
    ("triton_misc/matmul_kernel_tma_sm100_df6203.ptx#0", "done by all", 608): _SAME,
    ("triton_misc/matmul_kernel_tma_persistent_sm100_a32cce.ptx#0", "done by all", 205): _SAME,
    ("cutlass/g90_fp8.ptx#0", "waits at another barrier", 2738): _LATER,
    ("cutlass/g90_wstma.ptx#0", "waits at another barrier", 4467): _LATER,
}
_MULTIPLIES, _WGMMA = r"tcgen05\.mma\.(?!.*ws)", r"wgmma\.mma_async"
_BY_MANY = re.compile(r"cp\.async\.bulk|mbarrier\.|tcgen05\.(mma|commit|cp)\b")
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
    return _changed(one, which, "add.s64", by)


def _changed(one: Statement, which: int, operation: str, by: int) -> str | None:
    """Return it with another value of a register, or another number."""
    held, bits = one.operands[which], operation[-2:]
    if not re.fullmatch(r"%[\w$]+", held):
        return None
    return _beside(one, f".reg .b{bits} %planted; {operation} %planted, {held}, {by};", which)


def _exchanged(one: Statement) -> str | None:
    """Return a multiplication of B with A, where both have descriptors."""
    a, b = one.operands[1:3]
    return str(one.given(1, b).given(2, a)) if a != b and not {a[0], b[0]} & {"[", "{"} else None


def _adds_otherwise(one: Statement) -> str | None:
    """Return a wgmma that adds where it should begin, and begins where it should add."""
    held = one.operands[3]
    if held in {"0", "1"}:
        return _beside(one, f".reg .pred %planted; setp.eq.u32 %planted, {held}, 0;", 3)
    return _beside(one, f".reg .pred %planted; not.pred %planted, {held};", 3)


def _unguarded(one: Statement) -> Iterator[tuple[str, str | None]]:
    """Yield an instruction that all execute in place of those that are chosen, and one that the others do."""
    guard = re.search(r"@(!?)(%[\w$]+\s+)$", one.head)
    if guard:
        before = one.head[: guard.start()]
        yield "done by all", str(Statement(before, one.op, one.operands, one.tail))
        other = f"{before}@{'' if guard[1] else '!'}{guard[2]}"
        yield "done by the others", str(Statement(other, one.op, one.operands, one.tail))


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
    yield from _multiplied(one)
    yield from _moved(one)
    yield from _met(one)


def _multiplied(one: Statement) -> Iterator[tuple[str, str | None]]:
    by_wgmma, by_tcgen05 = re.match(_WGMMA, one.op), re.match(_MULTIPLIES, one.op)
    if by_tcgen05:
        yield from (("sums in other columns", _further(one, 0, by)) for by in (8, 64))
        yield "begins where it should add", _turned(one)
        yield "A in other columns", _further(one, 1, 8)
        yield "more columns", _changed(one, 3, "add.s32", 1 << 17)
        yield from ((f"{'AB'[bit - 15]} across k", _changed(one, 3, "xor.b32", 1 << bit)) for bit in (15, 16))
    if by_wgmma:
        yield "begins where it should add", _adds_otherwise(one)
    if not (by_wgmma or by_tcgen05):
        return
    for which in (1, 2):
        if not one.operands[which].startswith(("[", "{")):
            name = " AB"[which]
            yield from ((f"{name} at another place", _described(one, which, by)) for by in (2, 64))
            yield from ((f"{name} of another stage", _described(one, which, by)) for by in (512, 1024))
            yield f"rows of {name} further apart", _described(one, which, 64 << 32)
            yield f"{name} swizzled otherwise", _changed(one, which, "xor.b64", 1 << 62)
    yield "A and B exchanged", _exchanged(one)


def _moved(one: Statement) -> Iterator[tuple[str, str | None]]:
    if re.match(r"tcgen05\.(ld|st)\.", one.op):
        fetches = one.op.startswith("tcgen05.ld")
        what = "fetched" if fetches else "stored"
        yield from ((f"other columns {what}", _further(one, int(fetches), by)) for by in (4, 16))
    if re.match(_STORES, one.op):
        yield from (("other rows stored", _further(one, 1, by)) for by in (128, 1024))
        yield from (("another buffer stored", _further(one, 1, by)) for by in (8192, 16384))
    if re.match(_LOADS, one.op):
        yield from (("loaded to another place", _further(one, 0, by)) for by in (128, 1024))
        yield from (("loaded to another stage", _further(one, 0, by)) for by in (8192, 16384))
        yield "counted at another barrier", _further(one, 2, 8)
    if re.match(r"(ld|st)matrix", one.op):
        at = int(one.op.startswith("ld"))
        yield from ((f"{one.op[:2]}matrix at another place", _further(one, at, by)) for by in (16, 512))
    if re.match(r"st\.(volatile\.)?shared\.", one.op):
        yield from (("written to another place", _further(one, 0, by)) for by in (16, 256))
    if re.match(r"cp\.async\.c[ag]\.", one.op):
        yield from (("copied to another place", _further(one, 0, by)) for by in (16, 1024))


def _met(one: Statement) -> Iterator[tuple[str, str | None]]:
    if re.match(r"mbarrier\.(try|test)_wait", one.op):
        yield "waits at another barrier", _further(one, 1, 8)
    if re.match(r"mbarrier\.arrive", one.op):
        yield "arrives at another barrier", _further(one, 1, 8)
    if re.match(r"tcgen05\.commit", one.op):
        yield "commits to another barrier", _further(one, 0, 8)
    if re.match(r"(bar|barrier)(\.cta)?\.arrive", one.op) and one.operands[0].isdigit():
        yield "meets at another barrier", str(one.given(0, str((int(one.operands[0]) + 1) % 16)))
    if _BY_MANY.match(one.op):
        yield from _unguarded(one)


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

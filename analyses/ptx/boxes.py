"""How many bytes a tensor map's box has: PTX does not say, but what barriers expect and where boxes lie does.

Each phase says that the boxes which came in it have as many bytes together as were expected. A box ends before the next
one under way at the same time and before the next barrier, and holds all that matrix units and threads read from its
place on. What is found so is an assumption: another kernel, with other boxes, would read the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from legalsat.analyses.ptx.contract_barriers import Bytes
from legalsat.analyses.ptx.findings import Finding
from legalsat.analyses.ptx_machine.machine import Run
from legalsat.analyses.ptx_machine.memory import SHARED_BYTES

LEAST = 16
_ALIKE = 2  # boxes of other maps that say how large one is


@dataclass
class Boxes:
    """Bytes of boxes by map, those of them that are assumed, what contradicts itself, and what stays open.

    `counts`: parameters that say how many bytes come, with what they must be.
    """

    known: dict[str, int] = field(default_factory=dict)
    assumed: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    unproven: list[tuple[int, str]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


def boxes_of(
    runs: Sequence[Run], given: Mapping[str, int], launched: Mapping[int, frozenset[str]] | None = None
) -> Boxes:
    """Return what runs tell of boxes that are not given.

    Args:
        runs: of a kernel.
        given: bytes of boxes by map.
        launched: lines at which a launch decides how many bytes are expected, so that nothing follows from them, with
            the parameters that do. Where that is one, boxes are taken for what is read of them, and it for their sum.
    """
    launched = launched or {}
    found = Boxes(dict(given))
    upper: dict[str, int] = {}
    lower: dict[str, int] = {}
    equations: Counter[Bytes] = Counter()
    for run in runs:
        found.known.update(run.barriers.boxes)
        for name, size in run.bounds.items():
            upper[name] = min(size, upper.get(name, SHARED_BYTES))
        equations.update(run.barriers.equations)
    for run in runs:
        for name, size in _read(run, upper).items():
            lower[name] = max(size, lower.get(name, LEAST))
    # The same for all phases that expect at one line and load the same: the most frequent are taken for right.
    listed = [one for one, _ in equations.most_common()]
    ordered = [one for one in listed if one.line not in launched]
    work = [one for one in ordered if any(n not in given for n, _ in one.loads)]
    before = set(found.known)
    _solve(found, work, upper, lower)
    _count(found, runs, launched, lower)
    found.assumed = {name: size for name, size in sorted(found.known.items()) if name not in before}
    for one in ordered:
        if all(n in found.known for n, _ in one.loads):
            total = sum(found.known[n] * times for n, times in one.loads) + one.known
            if total != one.expected and not any(f.line == one.line for f in found.findings):
                found.findings.append(_wrong(one, f"its boxes bring {total}"))
    left = [one for one in listed if any(n not in found.known for n, _ in one.loads)]
    open_ = sorted({n for one in left for n, _ in one.loads if n not in found.known})
    unlike = {reason for run in runs for reason in moved(found.assumed, run.places)}
    found.unproven += [(min(one.line for one in listed), reason) for reason in sorted(unlike)]
    if open_ and not found.findings:
        line = min(one.line for one in left)
        found.unproven.append((line, f"bytes of the boxes of {', '.join(open_)} do not follow from the text"))
    return found


def idle_maps(assumed: Iterable[str], maps: Iterable[str], runs: Iterable[Run]) -> dict[str, str]:
    """Return by map what speaks against boxes that are assumed: that nothing uses it, as if a load had been left out.

    Args:
        assumed: maps whose boxes are.
        maps: parameters that are tensor maps.
        runs: of the kernel.
    """
    boxes = ", ".join(sorted(assumed))
    idle = sorted(set(maps) - {name for run in runs for name in run.used})
    return {name: f"nothing is copied by the map {name}, so the boxes of {boxes} may be others" for name in idle}


def mixed_operands(assumed: Iterable[str], run: Run) -> dict[tuple[int, str], None]:
    """Return what else does: operands that boxes of several maps fill together, as if one lay at a wrong place."""
    return {
        (line, f"boxes of {' and '.join(sorted(names))} fill one operand, so they may be others"): None
        for line, names in run.order.mixed.items()
        if names & set(assumed)
    }


def moved(assumed: Mapping[str, int], places: Mapping[str, Iterable[int]]) -> set[str]:
    """Return what speaks against boxes that are assumed: two side by side differ, and have as much as two others.

    So it looks where one that is as large as its neighbours lies some bytes on, as boxes end where the next ones begin.

    Args:
        assumed: bytes of boxes by map.
        places: of them in shared memory.
    """
    sizes = Counter(assumed.values())
    listed = sorted((place, name) for name in assumed for place in places.get(name, ()))
    found = set()
    for (place, one), (after, two) in pairwise(listed):
        a, b = assumed[one], assumed[two]
        if place + a == after and a != b and not (a + b) % 2 and sizes[(a + b) // 2] >= _ALIKE:
            found.add(f"boxes of {one} and {two} are unlike the others beside them, as if one lay at a wrong place")
    return found


def _solve(found: Boxes, work: list[Bytes], upper: dict[str, int], lower: dict[str, int]) -> None:
    moved = True
    while moved:
        moved = False
        for one in work:
            open_ = {n: times for n, times in one.loads if n not in found.known}
            if not open_:
                continue
            left = one.expected - one.known - sum(found.known[n] * t for n, t in one.loads if n in found.known)
            most = sum(upper.get(n, SHARED_BYTES) * t for n, t in open_.items())
            least = sum(lower.get(n, LEAST) * t for n, t in open_.items())
            if not least <= left <= most:
                found.findings.append(_wrong(one, _range(least + one.expected - left, most + one.expected - left)))
                work.remove(one)
                moved = True
                break
            if len(open_) == 1:
                ((name, times),) = open_.items()
                if left % times == 0:
                    found.known[name] = left // times
                    moved = True
            elif left == most:
                found.known.update({n: upper[n] for n in open_})
                moved = True
            elif left == least:
                found.known.update({n: lower[n] for n in open_})
                moved = True


def _count(found: Boxes, runs: Sequence[Run], launched: Mapping[int, frozenset[str]], lower: Mapping[str, int]) -> None:
    """Find what parameters are that say how many bytes come."""
    sums: dict[str, set[int]] = {}
    for run in runs:
        for one in run.barriers.equations:
            if one.line in launched:
                key = min(launched[one.line])
                read = all(n in found.known or lower.get(n, LEAST) > LEAST for n, _ in one.loads)
                alone = len(launched[one.line]) == 1 and run.parameters.get(key) == one.expected
                total = one.known + sum(found.known.get(n, lower.get(n, 0)) * times for n, times in one.loads)
                sums.setdefault(key, set()).add(total if read and alone else 0)
    found.counts = {key: min(totals) for key, totals in sums.items() if len(totals) == 1 and min(totals)}
    for run in runs:
        for one in run.barriers.equations:
            if one.line in launched and min(launched[one.line]) in found.counts:
                found.known.update({n: lower[n] for n, _ in one.loads if n not in found.known})


def _range(least: int, most: int) -> str:
    return f"its boxes bring {least}" if least == most else f"its boxes bring {least} to {most}"


def _wrong(one: Bytes, what: str) -> Finding:
    return Finding(
        "bytes_differ",
        one.line,
        f"a phase expects {one.expected} bytes and {what}",
        "boxes end before the next one under way, and hold what is read of them",
        "expect the bytes of the boxes that complete on the barrier in this phase",
    )


def _read(run: Run, upper: Mapping[str, int]) -> dict[str, int]:
    """Return the bytes from the place of each map's boxes up to which they have been read.

    Those that a matrix unit reads are of one operand. Threads may read what lies behind a box as well, so of theirs
    only those count that follow upon each other from the box's beginning on.
    """
    granule = run.order.granule
    places = sorted({p for ps in run.places.values() for p in ps})
    found: dict[str, int] = {}
    for name, targets in run.places.items():
        for target in targets:
            after = [p for p in places if p > target]
            end = min([target + upper.get(name, SHARED_BYTES), *after[:1], (target // SHARED_BYTES + 1) * SHARED_BYTES])
            cells = slice(target // granule, end // granule)
            seen = np.flatnonzero(run.touched[cells])
            if seen.size:
                found[name] = max(found.get(name, LEAST), (int(seen[-1]) + 1) * granule)
            known = LEAST // granule  # written by the load, whatever its size
            gaps = np.flatnonzero(~run.order.seen[cells][known:])
            count = known + (int(gaps[0]) if gaps.size else max(0, cells.stop - cells.start - known))
            found[name] = max(found.get(name, LEAST), count * granule)
    return found

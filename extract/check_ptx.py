"""Checks the asynchronous contract on real PTX: runs its kernels for chosen parameters, and says what that proves.

A kernel's whole-number parameters steer how often its loops run. Each is swept from 0 over every count up to twice the
stages, and once to a count so large that the state at the head of each loop must have repeated: registers and clocks
are then periodic, or grow by the same step each period, so more rounds bring nothing new. One run tells of all
interleavings (`analyses.ptx_contract`). What depends on data is not decided, and said so with its line.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from legalsat.analyses.ptx_boxes import Boxes, boxes_of
from legalsat.analyses.ptx_contract import Finding, Undecided
from legalsat.analyses.ptx_machine import Run
from legalsat.analyses.ptx_machine_alu import DividesByZero
from legalsat.analyses.ptx_machine_program import Program, compile_kernel
from legalsat.analyses.ptx_text import Kernel, PtxText, parse
from legalsat.errors import InvalidInput
from legalsat.targets import target as as_target

FEW = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11)  # rounds of a loop that are all tried
MARGIN = 6  # rounds at either end that a pipeline may take to fill and to drain
MANY = (
    2 * MARGIN + 32
)  # rounds in which what has a period of up to 10, such as five stages' parities, has it three times
PAIRED = (0, 1, 3)
GREATEST_POWER = 12  # of two: parameters that make no difference up to there steer no loop
WORK = 300_000  # branches and accesses for one kernel, some seconds; what is not tried by then is not proven
_WHOLE = {"u8", "u16", "u32", "s8", "s16", "s32", "b8", "b16", "b32"}


@dataclass(frozen=True, slots=True)
class Unproven:
    """What the check could not decide: the line of the text, 0 for the whole kernel, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class KernelCheck:
    """What was found about one kernel.

    Attributes:
        name: of the entry point. line: where it stands.
        findings: breaks of the contract. unproven: what is not decided.
        runs: how many executions. parameters: values tried, by name. boxes: bytes of each map's box, where known.
        seconds: taken.
    """

    name: str
    line: int
    findings: tuple[Finding, ...]
    unproven: tuple[Unproven, ...]
    runs: int
    parameters: dict[str, tuple[int, ...]]
    boxes: dict[str, int]
    seconds: float

    @property
    def proven(self) -> bool:
        """Nothing is wrong, and nothing is left open."""
        return not self.findings and not self.unproven


@dataclass(frozen=True, slots=True)
class PtxCheck:
    """What was found about a PTX text.

    Attributes:
        target: such as "sm_90a".
        kernels: one for each entry point.
    """

    target: str
    kernels: tuple[KernelCheck, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Breaks of the contract in all kernels."""
        return tuple(f for k in self.kernels for f in k.findings)

    @property
    def unproven(self) -> tuple[Unproven, ...]:
        """What is not decided in all kernels."""
        return tuple(u for k in self.kernels for u in k.unproven)

    @property
    def proven(self) -> bool:
        """Every kernel keeps the contract for all values of its parameters."""
        return all(k.proven for k in self.kernels)


def check_ptx(
    text: str,
    target: str | None = None,
    *,
    parameters: Mapping[str, int] | None = None,
    box_bytes: Mapping[str, int] | None = None,
) -> PtxCheck:
    """Check the barriers, copies and matrix units of each kernel in a PTX text.

    Args:
        text: PTX, as a compiler or this library prints it.
        target: a GPU or architecture that the text must be for, such as "h200" or "sm_90a"; its own when left out.
        parameters: values of whole-number parameters by name, which are then not swept; `%ctaid.x` and the like too.
        box_bytes: bytes of a box by the name of the tensor map's parameter; recovered from the text where it can be.

    Raises:
        NotPtx: the text is no PTX.
        InvalidInput: the target is another one, or a name is no parameter.
        UnknownTarget: the target is none that is known.
    """
    module = parse(text)
    if target is not None and target != module.target and as_target(target).architecture != module.target:
        raise InvalidInput(f"the text is for {module.target}, not {target}; leave the target out or give that one")
    fixed, boxes = dict(parameters or {}), dict(box_bytes or {})
    names = {p.name for k in module.kernels for p in k.parameters}
    for name in [*fixed, *boxes]:
        if name not in names and not name.startswith("%ctaid.") and name.partition("+")[0] not in names:
            raise InvalidInput(f"no kernel has a parameter {name}; give one of {', '.join(sorted(names))}")
    return PtxCheck(module.target, tuple(_check(module, kernel, fixed, boxes) for kernel in module.kernels))


@dataclass
class _Sweep:
    """One kernel's runs so far."""

    program: Program
    fixed: dict[str, int]
    boxes: dict[str, int]
    runs: int = 0
    work: int = 0
    findings: dict[tuple[str, int], Finding] = field(default_factory=dict)
    unproven: dict[tuple[int, str], None] = field(default_factory=dict)
    tried: dict[str, set[int]] = field(default_factory=dict)
    done: set[tuple[tuple[str, int], ...]] = field(default_factory=set)
    counts: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    periodic: set[int] = field(default_factory=set)

    def run(self, values: Mapping[str, int], *, remember: bool = False, quiet: bool = False) -> Run | None:
        """Run once; None where these parameters are none that a launch has."""
        held = {**values, **self.fixed}
        run = Run(self.program, held, self.boxes, backwards=not quiet and self.runs % 2 == 1)
        run.trail = {} if remember else None
        self.runs += 1
        try:
            run.run()
        except Undecided as stop:
            if not quiet:
                self.unproven[stop.line, stop.reason] = None
        except DividesByZero:
            return None
        except (LookupError, ValueError, TypeError, OverflowError) as error:
            # Text that no compiler prints; whatever it means, it is not proven.
            self.unproven[run.line, f"this is not understood ({error})"] = None
        finally:
            self.work += run.work
        if not quiet:
            self._take(run, held)
        return run

    def _take(self, run: Run, held: Mapping[str, int]) -> None:
        for name, value in held.items():
            self.tried.setdefault(name, set()).add(value)
        for place, finding in run.order.findings.items():
            self.findings.setdefault(place, finding)
        self.unproven.update(run.notes)
        for line, started in run.barriers.late.items():
            self.unproven[line, f"arrivals may still come when the barrier of line {started} is invalidated"] = None
        for visited, count in run.visits.items():
            self.counts.setdefault(visited, set()).add(count)
        for (_, head), trail in (run.trail or {}).items():
            if head not in self.periodic and repeats(trail):
                self.periodic.add(head)

    @property
    def late(self) -> bool:
        """Has enough been done for this kernel?"""
        return self.work > WORK


def _check(module: PtxText, kernel: Kernel, fixed: dict[str, int], boxes: dict[str, int]) -> KernelCheck:
    started = time.monotonic()
    try:
        program = compile_kernel(module, kernel)
    except Undecided as stop:
        open_ = (Unproven(stop.line or kernel.line, stop.reason),)
        return KernelCheck(kernel.name, kernel.line, (), open_, 0, {}, {}, time.monotonic() - started)
    sweep = _Sweep(program, fixed, dict(boxes))
    steering = _steering(program, fixed)
    tiles = {name: _tile(sweep, name, steering) for name in steering}
    looped = {name: tile for name, tile in tiles.items() if tile}
    rest = {name: 1 for name in steering if not tiles[name]}
    _find_boxes(sweep, looped, rest)
    if not kernel.threads_known:
        sweep.unproven[
            kernel.line, f"no .reqntid, so nobody knows the threads of a block; {program.threads} are taken"
        ] = None
    for values, remember in _values(looped, _twins(sweep, looped, rest)):
        if sweep.late:
            sweep.unproven[0, f"not all parameters are tried within {WORK} branches and accesses"] = None
            break
        if sweep.findings and len(sweep.findings) > 20:
            break
        key = tuple(sorted(values.items()))
        if key not in sweep.done or remember:
            sweep.done.add(key)
            sweep.run({**rest, **values}, remember=remember)
    if not sweep.findings:
        _close(sweep, looped, rest)
    findings = sorted(sweep.findings.values(), key=lambda f: (f.line, f.kind))
    if not kernel.threads_known:  # with other blocks it may be right
        sweep.unproven |= {(f.line, f"with blocks of {program.threads} threads: {f.message}"): None for f in findings}
        findings = []
    return KernelCheck(
        kernel.name,
        kernel.line,
        tuple(findings),
        tuple(Unproven(line, reason) for line, reason in sorted(sweep.unproven)),
        sweep.runs,
        {name: tuple(sorted(values)) for name, values in sorted(sweep.tried.items())},
        dict(sorted(sweep.boxes.items())),
        time.monotonic() - started,
    )


def _steering(program: Program, fixed: Mapping[str, int]) -> list[str]:
    """Return what may be swept: whole-number parameters and the block's number, if anything depends on them."""
    types = {p.name: p for p in program.kernel.parameters}
    found = []
    for name in sorted(program.steering):
        if name in fixed:
            continue
        parameter = types.get(name.partition("+")[0])
        swept = parameter is not None and parameter.type in _WHOLE and (not parameter.bytes or "+" in name)
        if swept or (name.startswith("%ctaid.") and f"%nctaid.{name[-1]}" not in program.steering):
            found.append(name)
    return found


def _profile(run: Run | None) -> Any:
    return None if run is None else (tuple(sorted(run.visits.items())), len(run.order.accesses))


def _tile(sweep: _Sweep, name: str, steering: Iterable[str]) -> int:
    """Return by how much a parameter must grow for a loop to run once more; 0 if it steers none."""
    others = dict.fromkeys(steering, 1)
    first = _profile(sweep.run(others | {name: 1}, quiet=True))
    low, high, probe = 0, GREATEST_POWER, 6  # of two; tiles of 64 are the most usual
    while low <= high and not sweep.late:
        if _profile(sweep.run(others | {name: (1 << probe) + 1}, quiet=True)) != first:
            high = probe - 1
        else:
            low = probe + 1
        probe = (low + high) // 2
    return 1 << low if low <= GREATEST_POWER else 0


def _find_boxes(sweep: _Sweep, looped: Mapping[str, int], rest: Mapping[str, int]) -> None:
    """Recover the bytes of boxes from a few runs."""
    tried = (1, 3, 6) if looped else (1,)
    runs = [sweep.run({**rest, **{n: rounds * t for n, t in looped.items()}}, quiet=True) for rounds in tried]
    found: Boxes = boxes_of([r for r in runs if r is not None], sweep.boxes)
    sweep.boxes.update(found.known)
    for finding in found.findings:
        sweep.findings[finding.kind, finding.line] = finding
    for line, reason in found.unproven:
        sweep.unproven[line, reason] = None


def _twins(sweep: _Sweep, looped: Mapping[str, int], rest: Mapping[str, int]) -> set[str]:
    """Return parameters that do what an earlier one does, such as rows and columns whose tiles are counted together."""
    ones = {**rest, **looped}
    seen: list[Any] = []
    found = set()
    for name, tile in looped.items():
        profile = [_profile(sweep.run({**ones, name: rounds * tile}, quiet=True)) for rounds in (0, 3)]
        if profile in seen:
            found.add(name)
        seen.append(profile)
    return found


def _values(looped: Mapping[str, int], twins: set[str]) -> Iterator[tuple[dict[str, int], bool]]:
    """Yield values to run with, and whether states are to be compared: the telling ones first."""
    if not looped:
        yield {}, True
        yield {}, True
        return
    base = {name: 2 * tile for name, tile in looped.items()}
    yield base, False
    main = {name: tile for name, tile in looped.items() if name not in twins}
    for name, tile in main.items():
        # Of the others one round, so that a loop inside theirs runs through; or none, where they may be left out.
        yield {**looped, name: MANY * tile}, True
        for other in main:
            if other != name:
                yield {**looped, name: MANY * tile, other: 0}, True
    for rounds in FEW:
        for name, tile in main.items():
            # A loop around this one need not run often for each of its counts; pairs come below.
            yield {**base, name: rounds * tile}, False
    for name, tile in looped.items():
        for value in (0, 3 * tile, 3 * tile + 1):
            yield {**base, name: value}, False
    for one, two in combinations(main, 2):
        for a in PAIRED:
            for b in PAIRED:
                yield {**base, one: a * looped[one], two: b * looped[two]}, False


def _close(sweep: _Sweep, looped: Mapping[str, int], rest: Mapping[str, int]) -> None:
    """Say of loops whose state has not been seen to repeat that more rounds are not proven."""
    open_ = {key for key, counts in sweep.counts.items() if len(counts) > 1 and key[1] not in sweep.periodic}
    growing: set[int] = set()
    for name, tile in looped.items():
        if open_:
            runs = [sweep.run({**rest, **looped, name: rounds * tile}, quiet=True) for rounds in (FEW[-1], MANY)]
            few, many = ({} if run is None else run.visits for run in runs)
            growing |= {key[1] for key in open_ if few.get(key, 0) != many.get(key, 0)}
    for place in sorted(growing):
        most = max(max(counts) for key, counts in sweep.counts.items() if key[1] == place)
        line = sweep.program.lines[place]
        sweep.unproven[line, f"the state of this loop does not repeat within {most} rounds"] = None


def repeats(trail: list[tuple[tuple[Any, ...], Any]]) -> bool:
    """Has the state at a loop's head repeated, between its first and its last rounds?

    Each register and each clock must have a period after which it is the same, or has grown by the same step, in all of
    the middle rounds, of which there are at least three periods.
    """
    middle = range(MARGIN, len(trail) - MARGIN)
    if len(middle) < 3:
        return False
    clocks = np.array([clock for _, clock in trail])
    moving = np.flatnonzero((clocks != clocks[0]).any(axis=0))
    columns: list[tuple[Any, ...]] = list(zip(*(registers for registers, _ in trail), strict=True))
    columns += [tuple(int(v) for v in clocks[:, i]) for i in moving]
    return all(_has_period(c[middle.start : middle.stop]) for c in set(columns))


def _has_period(column: tuple[Any, ...]) -> bool:
    count = len(column)
    return all(v == column[0] for v in column) or any(
        all(_steady(column[i - p], column[i], column[i + p]) for i in range(p, count - p))
        for p in range(1, count // 3 + 1)
    )


def _steady(a: Any, b: Any, c: Any) -> bool:
    if isinstance(a, int) and isinstance(b, int) and isinstance(c, int):
        return (a - 2 * b + c) % 2**32 == 0
    if isinstance(a, tuple) and isinstance(b, tuple) and isinstance(c, tuple):
        return all((x - 2 * y + z) % 2**32 == 0 for x, y, z in zip(a, b, c, strict=True))
    return a is b is c

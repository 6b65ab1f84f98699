"""Checks the asynchronous contract on real PTX: runs its kernels for chosen parameters, and says what that proves.

What a launch decides, whole-number parameters and the grid, is swept (`extract.ptx_sweep`): counts of rounds until the
state of each loop has repeated, and values that turn each condition round. One run tells of all interleavings
(`analyses.ptx_contract`). What depends on data is not decided, and said so with its line.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from legalsat.analyses.ptx.bounds import SECONDS, Bounds, seldom_collected
from legalsat.analyses.ptx.contract_units import lacking
from legalsat.analyses.ptx.findings import Finding, Undecided
from legalsat.analyses.ptx.inlined import with_functions
from legalsat.analyses.ptx.instruction import operation_of
from legalsat.analyses.ptx.text import Kernel, PtxText, parse
from legalsat.analyses.ptx_machine.program import Program, compile_kernel
from legalsat.errors import InvalidInput
from legalsat.extract.check.check_arguments import arguments
from legalsat.extract.check.check_block import extents_of, take_block, words
from legalsat.extract.check.ptx_cluster_probe import shown_by_one
from legalsat.extract.check.ptx_clusters import (
    Shape,
    asked_for,
    asks_for_its_cluster,
    clusters_of,
    likelier,
    take_cluster,
)
from legalsat.extract.check.ptx_clusters import words as shape_of
from legalsat.extract.check.ptx_failure import not_understood
from legalsat.extract.check.ptx_least import sweep_from_least
from legalsat.extract.check.ptx_names import one_a_cause, title_of, told
from legalsat.extract.check.ptx_preconditions import Precondition, counts_of, most_blocks_of
from legalsat.extract.check.ptx_shapes import flags_of, shapes_of
from legalsat.extract.check.ptx_sweep import MISREAD, WORK, Sweep
from legalsat.targets import target as as_target

ADDS = "the first multiplication adds to what nothing has written"
LARGE = 500  # instructions of a kernel that may take its time
MOST_LARGE = 4  # such kernels of a text for which there is more of it
UNREACHED = 4  # one of so many barriers and asynchronous operations may be reached by no run of what is proven
MORE_TIME = 1.5  # times what a kernel has had, for which it is begun anew


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
        warnings: what documents ask for, but no hardware is known to need.
        runs: how many executions. parameters: values tried, by name. boxes: bytes of each map's box, where known.
        assumed: those of them that follow from the bytes expected and read, not from the text itself.
        seconds: taken. work: instructions that were followed.
        block: threads of a block that are assumed since the text names them as the most; "" where it fixes them.
        cluster: CTAs of a cluster along x, y and z, where the text does not say it and it is assumed.
        conditions: what a launch must keep to, since the kernel breaks for less.
        covered: by name of barriers and asynchronous operations: how many runs have come to, and how many there are.
        unreached: lines of the others.
    """

    name: str
    line: int
    findings: tuple[Finding, ...]
    unproven: tuple[Unproven, ...]
    runs: int
    parameters: dict[str, tuple[int, ...]]
    boxes: dict[str, int]
    seconds: float
    warnings: tuple[Finding, ...] = ()
    assumed: dict[str, int] = field(default_factory=dict)
    block: str = ""
    cluster: tuple[int, int, int] | None = None
    work: int = 0
    covered: dict[str, tuple[int, int]] = field(default_factory=dict)
    unreached: tuple[int, ...] = ()
    conditions: tuple[Precondition, ...] = ()

    @property
    def title(self) -> str:
        """The name in short, as the source has it."""
        return title_of(self.name)

    @property
    def reached(self) -> tuple[int, int]:
        """How many of the barriers and asynchronous operations runs have come to, and how many there are."""
        return sum(one for one, _ in self.covered.values()), sum(all_ for _, all_ in self.covered.values())

    @property
    def proven(self) -> bool:
        """Nothing is wrong, and nothing is left open, in all launches that keep to `conditions`."""
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
    def warnings(self) -> tuple[Finding, ...]:
        """What documents ask for, but no hardware is known to need."""
        return tuple(f for k in self.kernels for f in k.warnings)

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
    block: int | Sequence[int] | None = None,
    grid: int | Sequence[int] | None = None,
    seconds: float | None = SECONDS,
) -> PtxCheck:
    """Check the barriers, copies and matrix units of each kernel in a PTX text.

    Args:
        text: PTX, as a compiler or this library prints it.
        target: a GPU or architecture that the text must be for, such as "h200" or "sm_90a"; its own when left out.
        parameters: values of whole-number parameters by name, which are then not swept; `%ctaid.x` and the like too.
        box_bytes: bytes of a box by the name of the tensor map's parameter; recovered from the text where it can be.
        block: threads of a block along x, y and z, or x alone, of the kernels whose text does not fix them by
            `.reqntid`; what `.maxntid` allows is assumed when left out.
        grid: blocks along x, y and z, or x alone; swept when left out.
        seconds: of processor time for the whole text; None for so many for each of its large kernels, four at most.

    Raises:
        NotPtx: the text is no PTX, or is larger than any that is read.
        InvalidInput: the target is another one, a name is no parameter, a value no whole number, or no kernel can be
            launched with such blocks.
        UnknownTarget: the target is none that is known.
    """
    with seldom_collected():
        module = with_functions(parse(text))
        if target is not None and target != module.target and as_target(target).architecture != module.target:
            raise InvalidInput(f"the text is for {module.target}, not {target}; leave the target out or give that one")
        fixed, boxes = arguments(module, parameters, box_bytes)
        fixed = take_block(module, block, take_cluster(module, fixed)) | _grid(grid, fixed)
        found = _in_time(module, fixed, boxes, seconds)
    units = [lacking(module.target, kernel) for kernel in module.kernels]
    return PtxCheck(
        module.target, tuple(replace(one, findings=w + one.findings) for w, one in zip(units, found, strict=True))
    )


def _in_time(module: PtxText, fixed: dict[str, int], boxes: dict[str, int], seconds: float | None) -> list[KernelCheck]:
    """Check all kernels in the seconds that a text may take: each in its share, then those that need more."""
    kernels = module.kernels
    large = sum(len(kernel.instructions) >= LARGE for kernel in kernels)
    bounds = Bounds(SECONDS * min(max(large, 1), MOST_LARGE) if seconds is None else seconds)
    most = SECONDS if seconds is None else seconds
    found: list[KernelCheck] = []
    late: dict[int, float] = {}
    for n, kernel in enumerate(kernels):
        part = bounds.part(len(kernels) - n, most)
        found.append(_checked(module, kernel, fixed, boxes, part))
        if not part.left:
            late[n] = part.seconds
    for count, n in enumerate(late):
        part = bounds.part(len(late) - count, most)
        if part.seconds > MORE_TIME * late[n]:
            found[n] = _checked(module, kernels[n], fixed, boxes, part)
    return found


def _grid(grid: int | Sequence[int] | None, parameters: Mapping[str, int]) -> dict[str, int]:
    """Return the blocks of a grid as values of `%nctaid`."""
    if grid is None:
        return {}
    if any(name.startswith("%nctaid.") for name in parameters):
        raise InvalidInput("the grid is given twice; leave out either grid or %nctaid")
    return {f"%nctaid.{axis}": count for axis, count in zip("xyz", extents_of(grid, "the grid"), strict=True)}


def _checked(
    module: PtxText, kernel: Kernel, fixed: dict[str, int], boxes: dict[str, int], bounds: Bounds
) -> KernelCheck:
    """Check a kernel in the cluster that its text says, or in the first that nothing speaks against."""
    shapes = clusters_of(kernel)
    if len(shapes) == 1:
        alone = _saying_much(_check(module, replace(kernel, cluster=shapes[0]), fixed, boxes, bounds))
        return replace(alone, cluster=shapes[0]) if asks_for_its_cluster(kernel) else alone
    best: KernelCheck | None = None
    wrong: list[KernelCheck] = []
    refuted: dict[Shape, Finding] = {}
    left = WORK
    likely = _likely(module, kernel, shapes, fixed, boxes, bounds, refuted)
    for rest in (False, True):  # what one launch spoke against is known when all likely ones were tried
        for shape, program in [(shape, None) for shape in refuted] if rest else likely:
            found = _check(module, replace(kernel, cluster=shape), fixed, boxes, bounds, left, program)
            found, left = replace(found, cluster=shape), left - found.work
            late = not bounds.left  # so that it may leave little open because little was run
            if not found.findings and (best is None or (not late and len(found.unproven) < len(best.unproven))):
                best = found
            if found.findings:
                wrong.append(found)
            if found.proven or left < 0 or late:
                break
        if best is not None or wrong or not bounds.left:
            break
    if best is not None:
        return _saying_much(_without_other_cluster(best, asked_for(kernel)))
    if wrong:
        least = min(wrong, key=lambda one: len(one.findings))
        one, likeliest = least.findings[0], shape_of(least.cluster or ())
    else:
        shape, one = next(iter(refuted.items()))
        likeliest = shape_of(shape)
    count = len({*refuted, *(found.cluster for found in wrong)})
    reason = f"the launch decides the cluster, and in none of {count} that were tried it is right"
    open_ = Unproven(kernel.line, f"{reason}; in one of {likeliest} CTAs {one.message}, at line {one.line}")
    return KernelCheck(kernel.name, kernel.line, (), (open_,), 0, {}, {}, 0.0)


def _likely(  # noqa: PLR0917
    module: PtxText, kernel: Kernel, shapes: tuple[Shape, ...], fixed: dict[str, int], boxes: dict[str, int],
    bounds: Bounds, refuted: dict[Shape, Finding],
) -> Iterator[tuple[Shape, Program | None]]:  # fmt: skip
    """Yield the clusters in which a launch with some work goes right, one by one; `refuted`: what the others end in."""
    open_ = [*shapes]
    while open_:
        shape, program, shown = open_.pop(0), None, None
        try:
            program = compile_kernel(module, replace(kernel, cluster=shape), bounds)
            shown = shown_by_one(program, fixed, boxes)
        except (Undecided, *MISREAD):
            program = None  # the check of this cluster says why
        against = shown.against if shown is not None else None
        if against is None:
            yield shape, program
        else:
            refuted[shape] = against
            if program is not None:
                program.give_up()
            if len(refuted) == 1 and shown is not None:  # what a first launch shows is not asked of each again
                open_ = [one for one in likelier(tuple(open_), shown.masks, shown.counts) if one != shape]


def _saying_much(found: KernelCheck) -> KernelCheck:
    """Leave a proof open of which runs have come to little, whatever it was that kept them off."""
    reached, there = found.reached
    if not found.proven or UNREACHED * (there - reached) < max(there, 1):
        return found
    reason = f"{there - reached} of {there} barriers and asynchronous operations are reached by no run"
    return replace(found, unproven=(Unproven(min(found.unreached, default=found.line), reason),))


def _without_other_cluster(found: KernelCheck, asked: Shape | None) -> KernelCheck:
    """Leave open what a kernel does in clusters that it asks about, of which no run in the assumed one tells."""
    if asked is None or asked == found.cluster or not found.unreached or found.cluster is None:
        return found
    reached, there = found.reached
    reason = f"{there - reached} of {there} barriers and asynchronous operations are reached by no run in clusters of"
    reason += f" {shape_of(found.cluster)} CTAs, which are assumed; the text asks for {shape_of(asked)}"
    open_ = Unproven(found.unreached[0], f"{reason} (--param %cluster_nctaid.x={asked[0]} and so on)")
    return replace(found, unproven=(*found.unproven, open_))


def _check(  # noqa: PLR0917
    module: PtxText, kernel: Kernel, fixed: dict[str, int], boxes: dict[str, int], bounds: Bounds, work: int = WORK,
    compiled: Program | None = None,
) -> KernelCheck:  # fmt: skip
    started = time.monotonic()
    try:
        program = compiled or compile_kernel(module, kernel, bounds)
    except (Undecided, *MISREAD) as stop:
        return _open(kernel, stop, started)
    try:
        flags = flags_of(program, fixed)
        fixed = fixed | dict.fromkeys(flags, 0)
        found = _of_shapes(module, kernel, program, fixed, boxes, bounds, work)
        found = found or _swept(module, kernel, Sweep(program, fixed, dict(boxes), most=work), started)
        said = [Precondition(told(kernel.name, key), 0, line, ADDS, exactly=0) for key, line in flags.items()]
        return replace(found, conditions=(*found.conditions, *said)) if not found.findings else found
    except (Undecided, *MISREAD) as stop:
        return _open(kernel, stop, started)
    finally:
        program.give_up()


def _open(kernel: Kernel, stop: Exception, started: float) -> KernelCheck:
    """Return the answer about a kernel of which nothing has been run."""
    line, reason = _why(stop)
    return KernelCheck(
        kernel.name, kernel.line, (), (Unproven(line or kernel.line, reason),), 0, {}, {}, time.monotonic() - started
    )


def _why(stop: Exception) -> tuple[int, str]:
    """Return where a check ends, 0 where that is not known, and why: text that no compiler prints proves nothing."""
    return (stop.line, stop.reason) if isinstance(stop, Undecided) else (0, not_understood(stop))


def _swept(module: PtxText, kernel: Kernel, sweep: Sweep, started: float) -> KernelCheck:
    program, fixed, bounds = sweep.program, sweep.fixed, sweep.program.bounds
    conditions: tuple[Precondition, ...] = ()
    try:
        sweep, conditions = sweep_from_least(sweep)
        conditions += counts_of(sweep) + most_blocks_of(sweep)
    except (Undecided, *MISREAD) as stop:
        line, reason = _why(stop)
        sweep.unproven[0 if reason == bounds.reason else line or kernel.line, reason] = None

    sweep.leave_open_what_may_be_dropped()

    def shown(finding: Finding) -> Finding:
        message, launch = told(kernel.name, finding.message), told(kernel.name, finding.launch)
        return replace(finding, message=message, launch=launch)

    known = kernel.threads_known or kernel.threads_at_most or not _shares(module, kernel, program)
    if not known:
        with_these = "it breaks" if sweep.findings else "not all is decided" if sweep.unproven else "it is right"
        reason = "neither .reqntid, .maxntid nor a given block (--block, block=) says how many threads"
        sweep.unproven[kernel.line, f"{reason}: {program.threads} are tried, and with these {with_these}"] = None
    findings = sorted(map(shown, sweep.findings.values()), key=lambda f: (f.line, f.kind))
    if not known:  # with other blocks it may be right
        sweep.unproven |= {(f.line, f"with blocks of {program.threads} threads: {f.message}"): None for f in findings}
        findings = []
    if _bytes_by_block(program, fixed):  # and how many the blocks of a launch have together, is not followed
        sweep.unproven |= {
            (f.line, f"{f.message}, where it is not known how many bytes a block expects"): None for f in findings
        }
        findings = []
    tables = sorted(program.steering_tables)
    if tables:  # with what a launch has in memory it may be right
        held = ", ".join(tables)
        sweep.unproven |= {
            (f.line, f"with what was tried in the tables at {held}: {f.message}"): None for f in findings
        }
        findings = []
    findings = one_a_cause(findings)
    return KernelCheck(
        kernel.name,
        kernel.line,
        tuple(findings),
        tuple(Unproven(line, told(kernel.name, reason)) for line, reason in sorted(sweep.unproven)),
        sweep.runs,
        {name: tuple(sorted(values)) for name, values in sorted(sweep.tried.items())},
        dict(sorted(sweep.boxes.items())),
        time.monotonic() - started,
        tuple(sorted(map(shown, sweep.warnings.values()), key=lambda f: (f.line, f.kind))),
        sweep.assumed,
        words(kernel.threads) if kernel.threads_at_most else "",
        work=sweep.work,
        covered=_covered(program),
        unreached=tuple(sorted({line for at, line in program.covered.items() if at not in program.reached})),
        conditions=tuple(replace(one, name=told(kernel.name, one.name)) for one in conditions) if not findings else (),
    )


def _of_shapes(  # noqa: PLR0917
    module: PtxText,
    kernel: Kernel,
    program: Program,
    fixed: dict[str, int],
    boxes: dict[str, int],
    bounds: Bounds,
    work: int,
) -> KernelCheck | None:
    """Prove a kernel with the first shape of multiplications that it is right for, where a parameter says which.

    What is wrong with the likeliest of those that are tried is left open: it may be another one.
    """
    key, line, shapes = shapes_of(program, fixed)
    tried: list[tuple[str, KernelCheck]] = []
    for value, shape in shapes.items() if kernel.threads_known or kernel.threads_at_most else ():
        found = _check(module, kernel, {**fixed, key: value}, boxes, bounds, work)
        if found.proven:
            below = f"multiplications are not of {shape}"
            said = Precondition(told(kernel.name, key), 0, line, below, exactly=value)
            return replace(found, conditions=(*found.conditions, said))
        if not bounds.left:
            break
        tried.append((shape, found))
    if not tried:
        return None
    shape, likeliest = min(tried, key=lambda one: len(one[1].findings) + len(one[1].unproven))
    begin = f"{told(kernel.name, key)} decides the instruction descriptor, not given; with {shape}"
    listed = [(f.line, f.message) for f in likeliest.findings] + [(u.line, u.reason) for u in likeliest.unproven]
    open_ = tuple(Unproven(at, f"{begin}, {reason}") for at, reason in listed)
    return replace(likeliest, findings=(), unproven=open_)


def _bytes_by_block(program: Program, fixed: Mapping[str, int]) -> bool:
    """Does the number of a block decide how many bytes it expects, as where the last one has a part of a tile?"""
    return any(n.startswith("%") and n not in fixed for keys in program.conditions.expected.values() for n in keys)


def _shares(module: PtxText, kernel: Kernel, program: Program) -> bool:
    """Do the threads of a block meet, or share memory? If not, their number does not matter."""
    symbols = {one.name for one in (*module.shared, *kernel.shared)}
    words = {word for i in kernel.instructions for operand in i.operands for word in re.split(r"[^\w$.%@]+", operand)}
    named = not symbols.isdisjoint(words) or any("shared" in i.name for i in kernel.instructions)
    return named or bool(program.covered)


def _covered(program: Program) -> dict[str, tuple[int, int]]:
    """Return by name how many barriers and asynchronous operations runs have come to, and how many there are."""
    found: dict[str, tuple[int, int]] = {}
    for at in sorted(program.covered):
        name = operation_of(program.texts[at])
        reached, count = found.get(name, (0, 0))
        found[name] = reached + (at in program.reached), count + 1
    return found

"""Why pipelines break, in PTX texts and as programs: what is found, causes before what follows from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from legalsat.analyses.protocol.model_check import explore
from legalsat.analyses.protocol.pipeline_machine import PipelineError
from legalsat.analyses.protocol.typestate import check as check_program
from legalsat.analyses.ptx.findings import Finding
from legalsat.analyses.ptx.text import chip_of
from legalsat.diagnostics import Diagnostic, worst_first
from legalsat.errors import InvalidInput
from legalsat.explanation import Explanation
from legalsat.extract.check.check_ptx import KernelCheck, check_ptx
from legalsat.extract.check.check_words import assumptions_of, diagnostic_of, place_of
from legalsat.extract.explain.pipeline_repair import pipeline_repairs
from legalsat.program.pipeline import Pipeline
from legalsat.rules import PIPELINE_RULES
from legalsat.targets import Target

MORE_TURNS = 2  # than a ring has stages, up to which every interleaving of a pipeline is visited
MOST_STATES = 3000
_MOST_OPEN = 4  # of what is not proven, told one by one
_CHIP = re.compile(r"sm_(?P<number>\d{2,4})(?P<kind>[af]?)")
_RULES = {rule.name: rule for rule in PIPELINE_RULES}

# Where a barrier is none, what it counts and orders is in disorder; where it counts wrongly, so may be what it orders,
# and the other way round. So the first of what is counted and of what is ordered is told, and the others as following.
_NO_BARRIER = ("arrival_count_out_of_range", "barrier_not_initialised")
_COUNTED = ("bytes_differ", "arrivals_missing", "phase_missed", "arrivals_in_excess")
_ORDERED = (
    "operands_released_early",
    "store_source_reused",
    "stage_overwritten",
    "read_before_full",
    "sums_not_ready",
    "tensor_memory_misused",
    "not_drained",
    "roles_disagree",
)
# What the search of all interleavings calls an error, by the name of the rule.
_CALLED = {
    "deadlock": "roles_disagree",
    "bytes differ": "bytes_differ",
    "two phases back": "phase_missed",
    "too many arrivals": "arrivals_in_excess",
    "use before init": "barrier_not_initialised",
    "overwrite": "stage_overwritten",
    "early read": "read_before_full",
    "unfenced": "write_not_fenced",
    "groups not balanced": "group_not_committed",
    "not drained": "not_drained",
    "remote not alive": "remote_block_gone",
    "mask outside cluster": "multicast_outside_cluster",
    "tensor memory not allocated": "tensor_memory_misused",
    "tensor memory not freed": "tensor_memory_misused",
}


def explain_ptx(text: str, target: Target) -> Explanation:
    """Return what breaks the contract of barriers, copies and matrix units in the kernels of a PTX text.

    What is not proven, and what a proof takes for granted, stands in `values`.

    Raises:
        NotPtx: the text is none.
        InvalidInput: the text is for a chip whose code the target does not run.
    """
    _require_runs(text, target)
    found = check_ptx(text)
    one = len(found.kernels) == 1
    diagnostics = [d for kernel in found.kernels for d in _of_kernel(kernel, "" if one else f" of {kernel.title}")]
    names = ", ".join(kernel.title for kernel in found.kernels)
    return Explanation(
        f"kernel{'s' * (not one)} {names} in PTX for {found.target}",
        str(target),
        not found.findings,
        tuple(worst_first(diagnostics)),
        values=tuple(
            said for kernel in found.kernels for said in _sentences(kernel, "" if one else f"{kernel.title}: ")
        ),
    )


def explain_pipeline(pipeline: Pipeline, target: Target, what: str = "pipeline") -> Explanation:
    """Return what breaks a pipeline's contract: for all trip counts, and if it is small in all interleavings of a few.

    Raises:
        InvalidPipeline: it names what it does not declare.
    """
    found = check_program(pipeline, target)
    diagnostics, sentences = list(found.diagnostics), [f"not proven: {reason}" for reason in found.unproven]
    error, sentence = _interleaved(pipeline)
    if sentence:
        sentences.append(sentence)
    if error is not None and not any(d.level == "error" for d in diagnostics):
        diagnostics.append(_of_error(error))
    broken = any(d.level == "error" for d in diagnostics)
    if found.proven and not broken:
        sentences.insert(0, "proven for all trip counts and all speeds of its roles")
    return Explanation(
        what,
        str(target),
        not broken,
        tuple(worst_first(diagnostics)),
        pipeline_repairs(pipeline, target) if broken else (),
        values=tuple(sentences),
        of=pipeline,
    )


def _require_runs(text: str, target: Target) -> None:
    wanted = chip_of(text)
    chip, own = _CHIP.fullmatch(wanted), _CHIP.fullmatch(target.architecture)
    if chip is None or own is None or wanted == target.architecture:
        return
    number, has = int(chip["number"]), int(own["number"])
    if chip["kind"] == "a" or number > has or (chip["kind"] == "f" and number // 10 != has // 10):
        raise InvalidInput(f"the PTX is for {wanted}, which {target} does not run; explain it for {wanted}")


def _of_kernel(kernel: KernelCheck, place: str) -> Iterator[Diagnostic]:
    """Yield one diagnostic a rule: the first line, how many more there are, and the source of the rule."""
    causes, _ = _parted(kernel.findings)
    for found in (*causes, *_by_kind(kernel.warnings).values()):
        first, more = replace(found[0], also=()), sum(1 + len(one.also) for one in found) - 1
        said = diagnostic_of(first)
        source = str(_RULES[first.kind].source)
        where = place_of(first, place + (f", and {more} more" if more else ""))
        yield replace(said, where=where, note=source if said.note == source else f"{said.note}; {source}")


def _parted(findings: Sequence[Finding]) -> tuple[list[list[Finding]], list[list[Finding]]]:
    """Return findings rule by rule, causes first, apart from those that may follow from them."""
    groups = _by_kind(findings)
    counted = [groups.pop(kind) for kind in _COUNTED if kind in groups]
    ordered = sorted((groups.pop(kind) for kind in _ORDERED if kind in groups), key=lambda group: group[0].line)
    begins = [groups.pop(kind) for kind in _NO_BARRIER if kind in groups]
    others = list(groups.values())
    if begins:
        return [*begins, *others], [*counted, *ordered]
    told = 2 - len(counted[:1]) - ("group_not_committed" in groups)
    return [*others, *counted[:1], *ordered[:told]], [*counted[1:], *ordered[told:]]


def _by_kind(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.kind, []).append(finding)
    return groups


def _sentences(kernel: KernelCheck, begin: str) -> Iterator[str]:
    _, follow = _parted(kernel.findings)
    if follow:
        listed = ", ".join(f"{_RULES[g[0].kind].code} at line {g[0].line}" for g in follow)
        yield f"{begin}what may follow from that: {listed}"
    if kernel.proven:
        tried = "all values of its parameters" if kernel.parameters else "every launch"
        if kernel.conditions:
            tried = "launches that keep to what is assumed of its parameters"
        warned = ", but for the warnings" * bool(kernel.warnings)
        yield f"{begin}proven for {tried} and all interleavings of its threads{warned}"
        reached, covered = kernel.reached
        if covered:
            least = f", none of those at lines {_listed(kernel.unreached)}" if kernel.unreached else ""
            yield f"{begin}runs reached {reached} of {covered} barriers and asynchronous operations{least}"
    elif kernel.unproven and not kernel.findings:
        yield f"{begin}no error was found, but not all of it is proven"
    for one in kernel.unproven[:_MOST_OPEN]:
        yield f"{begin}not proven: " + (f"line {one.line}: " if one.line else "") + one.reason
    if len(kernel.unproven) > _MOST_OPEN:
        yield f"{begin}not proven: {len(kernel.unproven) - _MOST_OPEN} more places"
    for assumption in assumptions_of(kernel):
        yield f"{begin}assumes that {assumption}"


def _listed(lines: tuple[int, ...]) -> str:
    more = f" and {len(lines) - _MOST_OPEN} more" if len(lines) > _MOST_OPEN else ""
    return ", ".join(map(str, lines[:_MOST_OPEN])) + more


def _interleaved(pipeline: Pipeline) -> tuple[PipelineError | None, str]:
    """Return what goes wrong in some interleaving of a few turns, and a sentence on that; "" if there are too many."""
    most = max([pipeline.stages, *(ring.stages for ring in pipeline.barriers)]) + MORE_TURNS
    left = MOST_STATES
    for turns in sorted(product(range(most + 1), repeat=len(pipeline.symbols)), key=sum):
        values = dict(zip(pipeline.symbols, turns, strict=True))
        verdict = explore(pipeline, values, limit_states=left)
        if verdict.error is not None:
            known = ", ".join(f"{name} = {value}" for name, value in values.items())
            place = f" with {known}" if known else ""
            return verdict.error, f"goes wrong in some interleaving{place}: {verdict.error.message}"
        left -= verdict.states
        if not verdict.complete or left <= 0:
            return None, ""
    some = f" of up to {most} turns" if pipeline.symbols else ""
    return None, f"no interleaving{some} goes wrong ({MOST_STATES - left} states)"


def _of_error(error: PipelineError) -> Diagnostic:
    rule = _RULES[_CALLED[error.kind]]
    role, operation = error.where
    return Diagnostic(
        code=rule.code,
        level="error",
        refused_by=rule.refused_by,
        field="",
        message=error.message,
        note=str(rule.source),
        help=f"mend what {role} does" + (f" at its {type(operation).__name__}" if operation is not None else ""),
        where=f"role {role}",
    )

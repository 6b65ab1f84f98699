"""What checks found, in words: the rule that a finding breaks, where it is, and what a proof takes for granted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from legalsat.analyses.ptx.findings import Finding
from legalsat.analyses.ptx_machine.launches.records import RECORDS
from legalsat.analyses.ptx_machine.tickets import TICKETS
from legalsat.diagnostics import Diagnostic
from legalsat.extract.check.check_ptx import KernelCheck
from legalsat.extract.check.ptx_names import lines_told, told

if TYPE_CHECKING:
    from legalsat.rule import Rule


@cache
def _rules() -> Mapping[str, Rule]:
    from legalsat.rules import PIPELINE_RULES  # noqa: PLC0415 - all rules take long to load, and few checks find much

    return {rule.name: rule for rule in PIPELINE_RULES}


def assumptions_of(kernel: KernelCheck) -> tuple[str, ...]:
    """Return what the check of a kernel takes for granted, in words."""
    block = [f"blocks have {kernel.block} threads, the most that .maxntid allows"] if kernel.block else []
    shape = " x ".join(map(str, kernel.cluster)) if kernel.cluster is not None else ""
    cluster = [f"clusters have {shape} CTAs, which the text does not say"] if shape else []
    boxes = [f"a box of map {_map(kernel, name)} has {size} bytes" for name, size in kernel.assumed.items()]
    words = sorted({name.rpartition("]")[0][1:] for name in kernel.parameters if name.startswith("[")})
    codes = ", ".join(sorted({code_of(one) for one in kernel.warnings}))
    forgiven = [f"hardware does without what {codes} ask{'s' * (',' not in codes)} for"] if codes else []
    steady = [f"the words at {told(kernel.name, one)} stay as they are while the kernel runs" for one in words]
    alike = "records of the tables are alike, grow with their numbers, or hold one or two times the same or nothing"
    tables = [f"{alike}, which stands for all that a launch has there"] * (RECORDS in kernel.parameters)
    drawn = ["counters from which blocks draw begin at 0, and nobody sets them back meanwhile"]
    drawn *= TICKETS in kernel.parameters
    return (*map(str, kernel.conditions), *block, *cluster, *boxes, *steady, *tables, *drawn, *forgiven)


def _map(kernel: KernelCheck, name: str) -> str:
    return told(kernel.name, name.removeprefix("map "))


def code_of(finding: Finding) -> str:
    """Return the code of the rule that a finding in PTX breaks."""
    return _rules()[finding.kind].code


def diagnostic_of(finding: Finding) -> Diagnostic:
    """Return a finding in PTX as what the rule of its name says."""
    rule = _rules()[finding.kind]
    return Diagnostic(
        code=rule.code,
        level=rule.level,
        refused_by=rule.refused_by,
        field="",
        message=finding.message,
        note=finding.note or str(rule.source),
        help=finding.help,
        where=place_of(finding),
    )


def place_of(finding: Finding, besides: str = "") -> str:
    """Return where a finding is, and of which launch, in words; `besides` stands behind the line."""
    lines = f"line {finding.line}{besides}" + (f", also {lines_told(finding.also)}" if finding.also else "")
    return f"{lines}, when {finding.launch}" if finding.launch else lines

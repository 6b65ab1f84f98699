"""The command `check`: PTX and machine code in, breaks of the asynchronous contract out, as text, JSON or SARIF."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from typing import Any

import legalsat
from legalsat.analyses.ptx_contract import KINDS, Finding
from legalsat.cli import DONE, REFUSED, USAGE, Answer
from legalsat.cli_check_files import Checked, check_files
from legalsat.extract.check_pipeline import assumptions_of, code_of
from legalsat.extract.check_ptx import KernelCheck, PtxCheck
from legalsat.extract.check_sass import SassCheck, SassKernelCheck
from legalsat.extract.ptx_names import told
from legalsat.sarif import Result, sarif
from legalsat.show import Look

_NOT_PROVEN, _NOT_JUDGED, _ASSUMED, _NOT_CHECKED = "not_proven", "not_judged", "assumed", "not_checked"


def check(args: Namespace) -> Answer:
    """Check files."""
    checked = check_files(args)
    data = _sarif(checked) if args.sarif else _answer(checked)
    return Answer(data, lambda look: _page(checked, look), _code(checked))


def _code(checked: Sequence[Checked]) -> int:
    if any(one.found is not None and one.found.findings for one in checked):
        return REFUSED
    return USAGE if any(one.found is None for one in checked) else DONE


def _answer(checked: Sequence[Checked]) -> dict[str, Any]:
    if len(checked) == 1 and checked[0].found is not None:
        return to_json(checked[0].found, checked[0].name)
    files = [
        to_json(one.found, one.name) if one.found is not None else {"file": one.name, "error": one.error}
        for one in checked
    ]
    return {"files": files, "kernels": _counts(checked)}


def _counts(checked: Sequence[Checked]) -> dict[str, int]:
    """Return how many kernels have breaks, are proven, are not, or are judged as machine code without a break."""
    counted = Counter(
        "breaks" if kernel.findings else "judged" if isinstance(kernel, SassKernelCheck) else _proven(kernel)
        for one in checked
        if one.found is not None
        for kernel in one.found.kernels
    )
    return {name: counted[name] for name in ("breaks", "proven", _NOT_PROVEN, "judged")}


def _proven(kernel: KernelCheck) -> str:
    return "proven" if kernel.proven else _NOT_PROVEN


def to_json(found: PtxCheck | SassCheck, path: str) -> dict[str, Any]:
    """Return a check as plain values."""
    if isinstance(found, SassCheck):
        return {
            "file": path,
            "target": found.target,
            "machine_code": True,
            "kernels": list(map(_sass_json, found.kernels)),
        }
    return {
        "file": path,
        "target": found.target,
        "proven": found.proven,
        "kernels": [_kernel_json(kernel) for kernel in found.kernels],
    }


def _sass_json(kernel: SassKernelCheck) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "line": kernel.line,
        "findings": list(map(_finding_json, kernel.findings)),
        "not_judged": [{"line": u.line, "reason": u.reason} for u in kernel.unjudged],
        "covered": kernel.covered,
        "seconds": round(kernel.seconds, 3),
    }


def _kernel_json(kernel: KernelCheck) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "line": kernel.line,
        "proven": kernel.proven,
        "findings": list(map(_finding_json, kernel.findings)),
        "warnings": list(map(_finding_json, kernel.warnings)),
        "conditions": [
            {
                "parameter": c.name,
                "least": c.least,
                "multiple": c.multiple,
                "exactly": c.exactly or None,
                "line": c.line,
                "below": c.below,
            }
            for c in kernel.conditions
        ],
        "assumptions": list(assumptions_of(kernel)),
        "not_proven": [{"line": u.line, "reason": u.reason} for u in kernel.unproven],
        "runs": kernel.runs,
        "parameters": {name: list(values) for name, values in kernel.parameters.items()},
        "box_bytes": kernel.boxes,
        "assumed_box_bytes": kernel.assumed,
        "seconds": round(kernel.seconds, 3),
    }


def _finding_json(f: Finding) -> dict[str, Any]:
    return {"code": code_of(f), "kind": f.kind, "line": f.line, "message": f.message, "note": f.note, "help": f.help}


def _sarif(checked: Sequence[Checked]) -> dict[str, Any]:
    results: list[Result] = []
    for one in checked:
        if one.found is None:
            results.append(Result(_NOT_CHECKED, "this could not be checked", "warning", one.error, path=one.name))
        else:
            results += _results(one.found, one.name)
    return sarif(results, None, "legalsat", legalsat.__version__)


def _results(found: PtxCheck | SassCheck, path: str) -> list[Result]:
    if isinstance(found, SassCheck):
        told = [_result(f, path) for f in found.findings]
        return told + [
            Result(_NOT_JUDGED, "this is not judged", "note", u.reason, u.line, path=path) for u in found.unjudged
        ]
    results = [_result(f, path) for f in (*found.findings, *found.warnings)]
    results += [Result(_NOT_PROVEN, "this is not proven", "note", u.reason, u.line, path=path) for u in found.unproven]
    summary = "the check takes this for granted"
    return results + [
        Result(_ASSUMED, summary, "note", f"assumes that {said}", kernel.line, path=path)
        for kernel in found.kernels
        for said in assumptions_of(kernel)
    ]


def _result(f: Finding, path: str) -> Result:
    message = f"{f.message}; {f.note}" if f.note else f.message
    return Result(code_of(f), KINDS[f.kind], f.level, message, f.line, path=path)


def _page(checked: Sequence[Checked], look: Look) -> str:
    blocks = []
    for one in checked:
        if one.found is None:
            blocks.append(look.wrap(one.error, f"{look.paint('not checked', 'warning')}: ") + f"\n  --> {one.name}")
        elif isinstance(one.found, SassCheck):
            blocks += [_function(kernel, one.name, look) for kernel in one.found.kernels]
        else:
            blocks += [_kernel(kernel, one.name, look) for kernel in one.found.kernels]
    if len(checked) > 1:
        failed = sum(one.found is None for one in checked)
        counts = {name.replace("_", " "): count for name, count in _counts(checked).items() if count}
        counts |= {"not checked": failed} if failed else {}
        said = "; ".join(f"{name}: {count}" for name, count in counts.items())
        blocks.append(look.wrap(f"{len(checked)} files: {said}"))
    return "\n\n".join(blocks)


def _function(kernel: SassKernelCheck, path: str, look: Look) -> str:
    blocks = [_finding(f, path, look) for f in kernel.findings]
    blocks += [_open("not judged", u.reason, f"{path}:{u.line}", look) for u in kernel.unjudged]
    covered = ", ".join(f"{what} {count}" for what, count in kernel.covered.items()) or "no asynchronous instructions"
    count = len(kernel.findings)
    said = look.paint(f"{count} break{'s' * (count > 1)} of the contract", "error")
    verdict = said if count else look.paint("no break found in machine code", "good")
    return "\n\n".join([*blocks, look.wrap(f"{kernel.name}: {verdict} ({covered}; {kernel.seconds:.2f} s)")])


def _open(title: str, reason: str, place: str, look: Look) -> str:
    return "\n".join([look.wrap(reason, f"{look.paint(title, 'warning')}: "), f"  --> {place}"])


def _kernel(kernel: KernelCheck, path: str, look: Look) -> str:
    blocks = [_finding(f, path, look) for f in (*kernel.findings, *kernel.warnings)]
    blocks += [_open("not proven", u.reason, f"{path}:{u.line or kernel.line}", look) for u in kernel.unproven]
    assumed = [look.wrap(f"assumes that {one}", f"{kernel.title}: ") for one in assumptions_of(kernel)]
    return "\n\n".join([*blocks, "\n".join([*assumed, _verdict(kernel, look)])])


def _finding(finding: Finding, path: str, look: Look) -> str:
    head = f"{look.paint(f'{finding.level}[{code_of(finding)}]', finding.level)}: "
    lines = [look.wrap(finding.message, head), f"  --> {path}:{finding.line}"]
    if finding.note:
        lines.append(look.wrap(finding.note, "  = note: "))
    lines.append(look.wrap(finding.help, f"  = {look.paint('help', 'help')}: "))
    return "\n".join(lines)


def _verdict(kernel: KernelCheck, look: Look) -> str:
    if kernel.findings:
        count = len(kernel.findings)
        said = look.paint(f"{count} break{'s' * (count > 1)} of the contract", "error")
    elif kernel.unproven:
        said = look.paint("no break found, not all proven", "warning")
    else:
        said = look.paint("proven" + " under conditions" * bool(kernel.conditions), "good")
    swept = "; ".join(
        f"{told(kernel.name, name)} {_range(values)}" for name, values in kernel.parameters.items() if len(values) > 1
    )
    known = {name: size for name, size in kernel.boxes.items() if name not in kernel.assumed}
    boxes = "; ".join(f"{told(kernel.name, name)} {size}" for name, size in known.items() if " at " not in name)
    tail = (f"; {swept}" if swept else "") + (f"; boxes, in bytes: {boxes}" if boxes else "")
    return look.wrap(f"{kernel.title}: {said} ({kernel.runs} runs, {kernel.seconds:.2f} s{tail})")


def _range(values: Sequence[int]) -> str:
    return f"{values[0]} to {values[-1]}"

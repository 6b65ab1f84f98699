"""The command `check`: PTX and machine code in, breaks of the asynchronous contract out, as text, JSON or SARIF."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import Any

from legalsat.analyses.ptx.findings import KINDS, Finding
from legalsat.cli import DONE, REFUSED, USAGE, Answer
from legalsat.cli.check_files import Checked, check_files
from legalsat.extract.check.check_ptx import KernelCheck, PtxCheck
from legalsat.extract.check.check_sass import SassCheck, SassKernelCheck
from legalsat.extract.check.check_words import assumptions_of, code_of
from legalsat.extract.check.ptx_names import by_reason
from legalsat.view.sarif import Result
from legalsat.view.show_check import counts_of, page

_NOT_PROVEN, _NOT_JUDGED, _ASSUMED, _NOT_CHECKED = "not_proven", "not_judged", "assumed", "not_checked"


def check(args: Namespace) -> Answer:
    """Check files."""
    checked = check_files(args)
    data = _sarif(checked) if args.sarif else _answer(checked)
    return Answer(data, lambda look: page(checked, look, detailed=args.explain), _code(checked))


def _code(checked: Sequence[Checked]) -> int:
    if any(one.found is not None and one.found.findings for one in checked):
        return REFUSED
    return USAGE if any(one.found is None for one in checked) else DONE


def _answer(checked: Sequence[Checked]) -> dict[str, Any]:
    files = [
        to_json(one.found, one.name) if one.found is not None else {"file": one.name, "error": one.error}
        for one in checked
    ]
    return files[0] if len(files) == 1 else {"files": files, "kernels": counts_of(checked)}


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
        "title": kernel.title,
        "line": kernel.line,
        "findings": list(map(_finding_json, kernel.findings)),
        "not_judged": [{"line": u.line, "reason": u.reason} for u in kernel.unjudged],
        "covered": kernel.covered,
        "seconds": round(kernel.seconds, 3),
    }


def _kernel_json(kernel: KernelCheck) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "title": kernel.title,
        "line": kernel.line,
        "proven": kernel.proven,
        "findings": list(map(_finding_json, kernel.findings)),
        "warnings": list(map(_finding_json, kernel.warnings)),
        "conditions": [
            {
                "parameter": c.name,
                "least": c.least,
                "multiple": c.multiple,
                "exactly": c.exactly,
                "most": c.most or (str(c.relation) if c.relation is not None else None),
                "line": c.line,
                "below": c.below,
            }
            for c in kernel.conditions
        ],
        "assumptions": list(assumptions_of(kernel)),
        "not_proven": [{"line": u.line, "reason": u.reason} for u in kernel.unproven],
        "runs": kernel.runs,
        "covered": {name: {"reached": one, "of": count} for name, (one, count) in kernel.covered.items()},
        "parameters": {name: list(values) for name, values in kernel.parameters.items()},
        "box_bytes": kernel.boxes,
        "assumed_box_bytes": kernel.assumed,
        "seconds": round(kernel.seconds, 3),
    }


def _finding_json(f: Finding) -> dict[str, Any]:
    return {
        "code": code_of(f),
        "kind": f.kind,
        "line": f.line,
        "also": list(f.also),
        "message": f.message,
        "note": f.note,
        "launch": f.launch,
        "help": f.help,
    }


def _sarif(checked: Sequence[Checked]) -> dict[str, Any]:
    from legalsat.view.show_sarif import with_rules  # noqa: PLC0415 - it loads all rules and their examples

    results: list[Result] = []
    for one in checked:
        if one.found is None:
            results.append(Result(_NOT_CHECKED, "this could not be checked", "warning", one.error, path=one.name))
        else:
            for kernel in one.found.kernels:
                results += _results(kernel, one.name)
    return with_rules(results)


def _results(kernel: KernelCheck | SassKernelCheck, path: str) -> Iterator[Result]:
    for f in kernel.findings if isinstance(kernel, SassKernelCheck) else (*kernel.findings, *kernel.warnings):
        said = "; ".join(filter(None, (f.message, f.note, f.launch and f"when {f.launch}", f"help: {f.help}")))
        yield Result(
            code_of(f), KINDS[f.kind], f.level, said, f.line, "", kernel.name, _finding_json(f), path, also=f.also
        )
    if isinstance(kernel, SassKernelCheck):
        rule, summary = _NOT_JUDGED, "this is not judged"
        open_ = by_reason((one.line, one.reason) for one in kernel.unjudged)
    else:
        rule, summary = _NOT_PROVEN, "this is not proven"
        open_ = by_reason((one.line or kernel.line, one.reason) for one in kernel.unproven)
        for said in assumptions_of(kernel):
            granted = "the check takes this for granted"
            yield Result(_ASSUMED, granted, "note", f"assumes that {said}", kernel.line, about=kernel.name, path=path)
    for reason, (line, *also) in open_.items():
        yield Result(rule, summary, "note", reason, line, about=kernel.name, path=path, also=tuple(also))

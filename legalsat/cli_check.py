"""The command `check`: real PTX in, breaks of the asynchronous contract out, as text, JSON or SARIF."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import legalsat
from legalsat.analyses.ptx_contract import KINDS, Finding
from legalsat.cli import DONE, REFUSED, Answer
from legalsat.errors import InvalidInput
from legalsat.extract.check_pipeline import assumptions_of, code_of
from legalsat.extract.check_ptx import KernelCheck, PtxCheck, check_ptx
from legalsat.sarif import Result, sarif
from legalsat.show import Look

_NOT_PROVEN, _ASSUMED = "not_proven", "assumed"


def check(args: Namespace) -> Answer:
    """Check a file."""
    name = "<stdin>" if args.file == "-" else args.file
    parameters, boxes = _numbers(args.param, "--param"), _numbers(args.box_bytes, "--box-bytes")
    found = check_ptx(_text(args.file), args.target, parameters=parameters, box_bytes=boxes)
    data = _sarif(found, name) if args.sarif else to_json(found, name)
    return Answer(data, lambda look: _page(found, name, look), REFUSED if found.findings else DONE)


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"cannot read {file}: {error}; give a PTX file") from error


def _numbers(words: Sequence[str], option: str) -> dict[str, int]:
    found = {}
    for word in words:
        name, equals, value = word.rpartition("=")
        try:
            found[name] = int(value, 0)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise InvalidInput(f"{option} {word!r} is no NAME=NUMBER; write it like n=4096")
    return found


def to_json(found: PtxCheck, path: str) -> dict[str, Any]:
    """Return a check as plain values."""
    return {
        "file": path,
        "target": found.target,
        "proven": found.proven,
        "kernels": [_kernel_json(kernel) for kernel in found.kernels],
    }


def _kernel_json(kernel: KernelCheck) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "line": kernel.line,
        "proven": kernel.proven,
        "findings": list(map(_finding_json, kernel.findings)),
        "warnings": list(map(_finding_json, kernel.warnings)),
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


def _sarif(found: PtxCheck, path: str) -> dict[str, Any]:
    results = [
        Result(code_of(f), KINDS[f.kind], f.level, f"{f.message}; {f.note}" if f.note else f.message, f.line)
        for f in (*found.findings, *found.warnings)
    ]
    results += [Result(_NOT_PROVEN, "this is not proven", "note", u.reason, u.line) for u in found.unproven]
    results += [
        Result(_ASSUMED, "the check takes this for granted", "note", f"assumes that {one}", kernel.line)
        for kernel in found.kernels
        for one in assumptions_of(kernel)
    ]
    return sarif(results, path, "legalsat", legalsat.__version__)


def _page(found: PtxCheck, path: str, look: Look) -> str:
    return "\n\n".join(_kernel(kernel, path, look) for kernel in found.kernels)


def _kernel(kernel: KernelCheck, path: str, look: Look) -> str:
    blocks = [_finding(f, path, look) for f in (*kernel.findings, *kernel.warnings)]
    blocks += [
        "\n".join(
            [look.wrap(u.reason, f"{look.paint('not proven', 'warning')}: "), f"  --> {path}:{u.line or kernel.line}"]
        )
        for u in kernel.unproven
    ]
    assumed = [look.wrap(f"assumes that {one}", f"{kernel.name}: ") for one in assumptions_of(kernel)]
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
        said = look.paint("proven", "good")
    swept = "; ".join(f"{name} {_range(values)}" for name, values in kernel.parameters.items() if len(values) > 1)
    known = {name: size for name, size in kernel.boxes.items() if name not in kernel.assumed}
    boxes = "; ".join(f"{name} {size}" for name, size in known.items() if not name.startswith("map at"))
    tail = (f"; {swept}" if swept else "") + (f"; boxes, in bytes: {boxes}" if boxes else "")
    return look.wrap(f"{kernel.name}: {said} ({kernel.runs} runs, {kernel.seconds:.2f} s{tail})")


def _range(values: Sequence[int]) -> str:
    return f"{values[0]} to {values[-1]}"

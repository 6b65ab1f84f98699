"""What a sweep says about each problem: verdict, reasons, repair, predicted times; the same on every machine.

A few thousand problems are answered at once, so that products of one class are timed together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from legalsat.errors import LegalSatError
from legalsat.extract.cost.cost import NOMINAL
from legalsat.extract.kernels.product_kernels import best_kernels
from legalsat.operators import PRODUCT, Operator
from legalsat.sweeps.classes import judged
from legalsat.sweeps.columns import BAD, COLUMNS, LEGAL, REFUSED, REPAIRED
from legalsat.sweeps.mending import Mended, Sides, class_of, mended
from legalsat.sweeps.problem import Problem
from legalsat.sweeps.rows import BadRow
from legalsat.targets import Target


def answer(rows: Sequence[Problem | BadRow], target: Target) -> list[dict[str, Any]]:
    """Return a dictionary of `COLUMNS` for each row, in order."""
    answers = [_answer(row, target) for row in rows]
    asked: list[tuple[dict[str, Any], str, Any]] = []
    for row, found in zip(rows, answers, strict=True):
        product = found.pop("mended", None)
        if isinstance(row, Problem) and row.operator.term == PRODUCT and found["verdict"] != BAD:
            asked.append((found, "predicted_ns", row.operator))
            asked += [(found, "repaired_ns", product)] if product is not None else []
    timed = best_kernels([gemm for _, _, gemm in asked], target)
    for (found, column, _), best in zip(asked, timed, strict=True):
        if best is not None:
            found[column] = best[0]
            found["kernel"] = found["kernel"] or _words(best[1])
    return answers


def _answer(row: Problem | BadRow, target: Target) -> dict[str, Any]:
    if isinstance(row, BadRow):
        return _bad(row)
    try:
        return _verdict(row, target)
    except LegalSatError as error:
        return _bad(BadRow(row.line, str(row.operator), str(error), row.name))


def _bad(row: BadRow) -> dict[str, Any]:
    empty = {name: "" if kind == "string" else None for name, kind in COLUMNS}
    said = {"line": row.line, "name": row.name, "problem": row.text, "verdict": BAD, "error": row.error}
    return {**empty, **said}


def _verdict(row: Problem, target: Target) -> dict[str, Any]:
    """Return a problem's answer but for the times of kernels; with "mended", the product after its repair."""
    operator = row.operator
    sides = Sides(operator.travels(target), operator.tensors)
    found = {name: judged(class_of(one), target) for name, one in sides.operands.items()}
    illegal = {name: one for name, one in found.items() if not one.legal}
    repairable = all(one.repairs for one in illegal.values())
    verdict = LEGAL if not illegal else REPAIRED if repairable else REFUSED
    repair, added, product = "", 0, None
    if verdict == REPAIRED:
        steps = {name: mended(row, name, sides, one, target) for name, one in illegal.items()}
        several = dict.fromkeys(one.words for one in steps.values())
        repair = "; ".join(f"{words} ({_whose(steps, words)})" for words in several)
        stored = {name: one.tensor for name, one in steps.items() if one.tensor is not None}
        added = sum(max(one.span_bits - sides.stored[name].span_bits, 0) // 8 for name, one in stored.items())
        if operator.term == PRODUCT and len(stored) == len(steps):
            product = operator.but(**{name.lower(): tensor for name, tensor in stored.items()})
    flops, size, bound = roofline(operator, target)
    return {
        "line": row.line,
        "name": row.name,
        "operator": dict(row.fields)["operator"],
        "problem": str(operator),
        "dtype": operator.dtype.name,
        "count": row.count,
        "verdict": verdict,
        "codes": ", ".join(dict.fromkeys(code for one in illegal.values() for code in one.codes)),
        "operands": ", ".join(illegal),
        "reason": "; ".join(dict.fromkeys(reason for one in illegal.values() for reason in one.reasons)),
        "repair": repair,
        "bytes_added": added,
        "kernel": "",
        "predicted_ns": None,
        "repaired_ns": None,
        "bound_ns": bound,
        "measured_ns": row.measured or None,
        "flops": flops,
        "bytes": size,
        "fields": " ".join(f"{name}={_cell(value)}" for name, value in row.fields),
        "error": "",
        "mended": product,
    }


def _cell(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _whose(steps: Mapping[str, Mended], words: str) -> str:
    return ", ".join(name for name, one in steps.items() if one.words == words)


@lru_cache(maxsize=1024)
def _words(kernel: Any) -> str:
    return str(kernel)


def roofline(operator: Operator, target: Target) -> tuple[float, float, float]:
    """Return operations, bytes that must move at least, and nanoseconds that nothing is below."""
    device = target.device or NOMINAL
    flops = operator.flops
    size = sum(tensor.size * tensor.dtype.bits / 8 for tensor in operator.tensors.values())
    rate = device.bf16_flops * dict(target.multiplies).get(operator.dtype.name, 0)
    computing = flops / rate if rate else 0.0
    return flops, size, round(max(computing, size / device.memory_bandwidth) * 1e9, 1)

"""The commands about products: `synthesize gemm`, and `explain --gemm`, which judges operands one by one."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legalsat import api
from legalsat.cli import DONE, REFUSED, Answer
from legalsat.cli_arguments import whole, wholes
from legalsat.diagnostics import Diagnostic
from legalsat.errors import InvalidInput
from legalsat.explanation import Explanation
from legalsat.extract.planner import NoLegalLayout
from legalsat.gemm import Gemm, gemm_operands
from legalsat.gemm_plan import GemmPlan
from legalsat.pipeline_chart import gantt
from legalsat.show import Look, show_diagnostic, table
from legalsat.show_gemm import show_gemm_plan
from legalsat.targets import target as as_target
from legalsat.tensor import Tensor

MOST_TURNS = 12  # of the loop along K that a chart shows


def synthesize(args: Namespace) -> Answer:
    """Plan a product; print the plan, or the source text of a backend."""
    m, n, k = (whole(getattr(args, extent), f"--{extent}") for extent in "mnk")
    target = as_target(args.target)
    # What is not K-major is stored as its transpose would be.
    a = None if args.a_major == "K" else Tensor((m, k), args.dtype, (1, m))
    b = None if args.b_major == "K" else Tensor((n, k), args.dtype, (1, n))
    product = Gemm(m, n, k, args.dtype, out_dtype=args.out_dtype, a=a, b=b)
    try:
        plan = api.synthesize(product, target)
    except NoLegalLayout as refusal:
        error = refusal
        reasons = [d.to_json() for d in error.diagnostics]
        data = {"error": str(error).partition("\n")[0], "kind": NoLegalLayout.__name__, "diagnostics": reasons}
        return Answer(data, lambda look: _refused(error, look), REFUSED, failed=True)
    if args.chart is not None:
        _draw(plan, args.chart)
    if args.emit is None:
        return Answer(plan.to_json(), lambda look: show_gemm_plan(plan, look))
    text = plan.emit(args.emit)
    return Answer({**plan.to_json(), "emitted": {args.emit: text}}, lambda _: text.rstrip("\n"))


def _draw(plan: GemmPlan, file: str) -> None:
    """Write the chart of a block's pipeline, of a dozen turns at most."""
    pipeline, turns = plan.pipeline, -(-plan.operator.k // plan.tile[2])
    chart = gantt(pipeline, dict.fromkeys(pipeline.symbols, min(turns, MOST_TURNS) - 1))
    try:
        Path(file).write_text(chart, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot write {file}: {error}; name a file in a folder that exists") from None


def _refused(error: NoLegalLayout, look: Look) -> str:
    lines = [look.paint(str(error).partition("\n")[0], "title")]
    for diagnostic in error.diagnostics:
        lines += ["", show_diagnostic(diagnostic, look)]
    return "\n".join(lines)


def explain(args: Namespace) -> Answer:
    """Judge the operands of a product one by one, each as tiles of its own by boxes."""
    if args.dtype is None:
        raise InvalidInput("--dtype is missing; a product needs --gemm and --dtype")
    extents = wholes(args.gemm, "--gemm")
    if len(extents) != 3:
        raise InvalidInput(f"--gemm is {args.gemm}; give M x N x K, such as 4096x4096x4095")
    m, n, k = extents
    target = as_target(args.target)
    operands = [
        _Operand(name, operator.target, api.explain(operator, target))
        for name, operator in gemm_operands(m, n, k, args.dtype, target).items()
    ]
    legal = all(operand.found.legal for operand in operands)
    subject = f"gemm of {operands[0].tensor.dtype}, {m} x {n} x {k}"
    data = {
        "subject": subject,
        "target": str(target),
        "legal": legal,
        "operands": [operand.to_json() for operand in operands],
    }
    head = f"{subject} on {target}, operands by boxes of a tensor map"
    return Answer(data, lambda look: _operands_text(head, operands, look), DONE if legal else REFUSED)


@dataclass(frozen=True, slots=True)
class _Operand:
    """One operand of a product, and what was found about it."""

    name: str
    tensor: Tensor
    found: Explanation

    @property
    def way(self) -> str:
        """How it travels where it is legal: by which engine, in which swizzle."""
        plan = self.found.plan
        if plan is None:
            return ""
        if self.name == "C":
            return "stored by the copy engine" if plan.store == "tma" else "stored from registers, no legal map"
        return f"swizzle {plan.tensor_maps[0].swizzle}, {plan.pipeline.stages} stages"

    @property
    def codes(self) -> str:
        return ", ".join(dict.fromkeys(d.code for d in self.found.diagnostics))

    def to_json(self) -> dict[str, Any]:
        plan = self.found.plan
        return {
            "operand": self.name,
            "tensor": str(self.tensor),
            **self.found.to_json(),
            "plan": None if plan is None else plan.to_json(),
        }


def _operands_text(head: str, operands: list[_Operand], look: Look) -> str:
    legal = all(operand.found.legal for operand in operands)
    verdict = look.paint("legal", "good") if legal else look.paint("refused", "error")
    rows = [("operand", "tensor", "verdict", "")]
    rows += [
        (o.name, str(o.tensor), "legal" if o.found.legal else "refused", o.way if o.found.legal else o.codes)
        for o in operands
    ]
    lines = [f"{look.paint(head, 'title')}: {verdict}", "", *table(rows)]
    shown: dict[Diagnostic, list[str]] = {}
    for operand in operands:
        for diagnostic in operand.found.diagnostics:
            shown.setdefault(diagnostic, []).append(operand.name)
    for diagnostic, names in shown.items():
        lines += ["", f"{', '.join(names)}:", show_diagnostic(diagnostic, look)]
    repairs = [(o.name, o.found.repairs[0]) for o in operands if o.found.repairs]
    if repairs:
        lines += ["", look.paint("cheapest repairs", "title")]
        lines += [look.wrap(repair.message, f"  {name}: ") for name, repair in repairs]
    return "\n".join(lines)

"""The commands that plan: `synthesize` and `explain`."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from legalsat import api
from legalsat.cli import DONE, REFUSED, Answer
from legalsat.cli_arguments import operator_of, tensor_map_of, whole
from legalsat.diagnostics import Diagnostic
from legalsat.errors import InvalidInput
from legalsat.extract.explain import Explanation
from legalsat.extract.planner import NoLegalLayout
from legalsat.gemm import gemm_operands
from legalsat.plan import InvalidPlan, Plan
from legalsat.show import Look, show_diagnostic, show_explanation, show_plan, table
from legalsat.targets import Target
from legalsat.targets import target as as_target
from legalsat.tensor import Tensor

_TENSOR_OPTIONS = ("shape", "dtype", "strides", "align", "tile", "consumer", "order")
# A tile of 128 rows, each as long as the widest swizzle, is what a warpgroup's matrix instructions are fed with.


def synthesize(args: Namespace) -> Answer:
    """Plan a copy or a transpose; print the plan, or the source text of a backend."""
    operator, target = operator_of(args, args.operator), as_target(args.target)
    if args.emit is not None and operator.source.dims:
        names = ", ".join(dim.name for dim in operator.source.dims)
        raise InvalidInput(f"--emit needs every extent as a number; give --shape numbers for {names}")
    try:
        plan = api.synthesize(operator, target, means=None if args.means is None else args.means.split(","))
    except NoLegalLayout:
        found = api.explain(operator, target)
        data = {"error": _headline(found), "kind": NoLegalLayout.__name__, **found.to_json()}
        return Answer(data, lambda look: show_explanation(found, look), REFUSED, failed=True)
    if args.emit is None:
        return Answer(plan.to_json(), lambda look: show_plan(plan, look))
    text = plan.emit(args.emit)
    return Answer({**plan.to_json(), "emitted": {args.emit: text}}, lambda _: text.rstrip("\n"))


def explain(args: Namespace) -> Answer:
    """Say what is wrong with one subject: a plan file, a tensor map, or a tensor with its operator."""
    tensor = [f"--{option}" for option in _TENSOR_OPTIONS if getattr(args, option) is not None]
    given = [
        *([f"the plan {args.plan}"] if args.plan is not None else []),
        *(["--tensor-map"] if args.tensor_map else []),
        *tensor[:1],
    ]
    if len(given) != 1:
        what = f"{' and '.join(given)} are given" if given else "nothing to explain is given"
        raise InvalidInput(f"{what}; give one of PLAN, --tensor-map, or --shape and --dtype")
    if args.target is None and args.plan is None:
        raise InvalidInput("--target is missing; give a GPU such as h200")
    found = api.explain(*_subject(args))
    return Answer(found.to_json(), lambda look: show_explanation(found, look), DONE if found.legal else REFUSED)


def _subject(args: Namespace) -> tuple[Any, Target]:
    """Return what to explain, and for which target."""
    if args.plan is not None:
        if not Path(args.plan).is_file():
            raise InvalidInput(f"{args.plan} is no file; give a plan that `synthesize --json --output` wrote")
        try:
            plan = Plan.load(args.plan)
        except InvalidInput as error:
            raise InvalidPlan(f"{args.plan} garbles a field: {error}; synthesise it again") from None
        return plan, plan.target if args.target is None else as_target(args.target)
    target = as_target(args.target)
    if args.tensor_map:
        return tensor_map_of(args.tensor_map), target
    for option in ("shape", "dtype"):
        if getattr(args, option) is None:
            raise InvalidInput(f"--{option} is missing; a tensor needs --shape and --dtype")
    if args.order is not None and args.consumer is not None:
        raise InvalidInput("--order makes it a transpose, whose consumer are threads; leave out --consumer or --order")
    return operator_of(args, "copy" if args.order is None else "transpose"), target


def _headline(found: Explanation) -> str:
    reason = f": {found.diagnostics[0].message}" if found.diagnostics else ""
    return f"no legal {found.subject} on {found.target}{reason}"


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


def gemm(args: Namespace) -> Answer:
    """Judge the operands of a product one by one."""
    m, n, k = (whole(getattr(args, extent), f"--{extent}") for extent in "mnk")
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
    head = f"{subject} on {target}"
    return Answer(data, lambda look: _gemm_text(head, operands, look), DONE if legal else REFUSED)


def _gemm_text(head: str, operands: list[_Operand], look: Look) -> str:
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

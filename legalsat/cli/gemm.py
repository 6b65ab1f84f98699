"""The commands about products: `synthesize gemm`, and `explain --gemm`."""

from __future__ import annotations

from argparse import Namespace

from legalsat import api, files
from legalsat.cli import REFUSED, Answer
from legalsat.cli.arguments import extent, shape, uses_of
from legalsat.cli.explanation import explained
from legalsat.errors import InvalidInput
from legalsat.extract.search.planner import NoLegalLayout
from legalsat.operators.gemm import Gemm
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.targets import target as as_target
from legalsat.tensor import Tensor
from legalsat.view.look import Look
from legalsat.view.pipeline_chart import gantt
from legalsat.view.show import duration, show_diagnostic
from legalsat.view.show_explanation import show_explanation
from legalsat.view.show_gemm import show_gemm_plan

MOST_TURNS = 12  # of the loop along K that a chart shows


def synthesize(args: Namespace) -> Answer:
    """Plan a product; print the plan, or the source text of a backend."""
    m, n, k = (extent(getattr(args, name), f"--{name}") for name in "mnk")
    target = as_target(args.target)
    # What is not K-major is stored as its transpose would be.
    a = None if args.a_major == "K" else Tensor((m, k), args.dtype, (1, m))
    b = None if args.b_major == "K" else Tensor((n, k), args.dtype, (1, n))
    product = Gemm(m, n, k, args.dtype, out_dtype=args.out_dtype, a=a, b=b)
    try:
        plan = api.synthesize(product, target, backend=args.emit)
    except NoLegalLayout as refusal:
        error = refusal
        reasons = [d.to_json() for d in error.diagnostics]
        data = {"error": str(error).partition("\n")[0], "kind": NoLegalLayout.__name__, "diagnostics": reasons}
        return Answer(data, lambda look: _refused(error, look), REFUSED, failed=True)
    if args.chart is not None:
        _draw(plan, args.chart)
    if args.emit is None:
        return Answer(plan.to_json(), lambda look: show_gemm_plan(plan, look))
    text, note = plan.emit(args.emit), _note(plan, args.emit)
    found = {**plan.to_json(), "emitted": {args.emit: text}}
    if note:
        found["note"] = note
    return Answer(found, lambda _: text.rstrip("\n"), note=note)


def _note(plan: GemmPlan, backend: str) -> str:
    """Return which kernel was taken where that is not the cheapest of all, which the backend does not print."""
    first = plan.candidates[0]
    if plan.kernel == first.kernel:
        return ""
    ours, best = (duration(cost.nanoseconds) for cost in (plan.cost, first.cost))
    return f"{backend} prints {plan.kernel}, {ours} predicted; the cheapest kernel is {first.name}, {best}"


def _draw(plan: GemmPlan, file: str) -> None:
    """Write the chart of a CTA's program for one tile, or two of consumers in turn, of a dozen k-tiles at most."""
    pipeline, turns = plan.pipeline, min(-(-plan.typical.k // plan.tile[2]), MOST_TURNS)
    chart = gantt(pipeline, {name: 1 if "tile" in name.split()[0] else turns - 1 for name in pipeline.symbols})
    files.write(file, chart)


def _refused(error: NoLegalLayout, look: Look) -> str:
    lines = [look.paint(str(error).partition("\n")[0], "title")]
    for diagnostic in error.diagnostics:
        lines += ["", show_diagnostic(diagnostic, look)]
    return "\n".join(lines)


def gemm_of(args: Namespace) -> Gemm:
    """Return the product of row-major, dense operands that --gemm and --dtype describe."""
    if args.dtype is None:
        raise InvalidInput("--dtype is missing; a product needs --gemm and --dtype")
    extents = shape(args.gemm, "--gemm")
    if len(extents) != 3:
        raise InvalidInput(f"--gemm is {args.gemm}; give M x N x K, such as 4096x4096x4095 or Mx4096xK%8")
    return Gemm(*extents, args.dtype)


def explain(args: Namespace) -> Answer:
    """Explain a product: which of its operands have tensor maps, and what that is worth."""
    found = api.explain(gemm_of(args), args.target, uses=uses_of(args))
    data = found.to_json()
    parts = data.pop("parts", [])
    data["operands"] = [
        {"operand": name, "tensor": str(part.of), **one, "plan": None if part.plan is None else part.plan.to_json()}
        for name, part, one in zip("ABC", found.parts, parts, strict=False)
    ]
    return explained(found, args, data=data, text=lambda look: show_explanation(found, look))

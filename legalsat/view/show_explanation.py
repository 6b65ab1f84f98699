"""Explanations as text for a person: verdict, reasons, what else must hold, repairs with source text to paste."""

from __future__ import annotations

from collections.abc import Sequence

from legalsat.explanation import BOXED, Explanation, Repair
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.movement_plan import MovementPlan
from legalsat.view.look import PLAIN, Look
from legalsat.view.show import duration, map_sides, phases_line, region_lines, show_diagnostic, table

CONSEQUENCE_HEADS = {
    "fault": "faults",
    "wrong": "silently wrong",
    "clobber": "overwrites neighbours",
    "conflict": "bank conflicts",
    "overflow": "overflows shared memory",
    "hang": "hangs",
    "slow": "slow",
}


def show_explanation(found: Explanation, look: Look = PLAIN) -> str:
    """Return the verdict, the reasons for it and the repairs, or how the plan does it where there is one."""
    verdict = look.paint(found.verdict, found.tone)
    lines = [f"{look.paint(f'{found.subject} on {found.target}', 'title')}: {verdict}"]
    rows = part_rows(found)
    lines += ["", *table([("operand", "tensor", "verdict", ""), *rows])] if rows else []
    for diagnostic in found.diagnostics:
        lines += ["", show_diagnostic(diagnostic, look)]
    if found.undecided:
        lines += ["", look.wrap(found.undecided)]
    elif not found.legal and not found.diagnostics:
        advice = "no extents in the given range satisfy the rules; widen the range, or explain one value to see why"
        lines += ["", look.wrap(advice)]
    if found.obligations:
        lines += ["", look.paint("what the encode call cannot see", "title")]
        lines += [
            look.wrap(f"{CONSEQUENCE_HEADS[o.consequence]}: {o.message} ({o.note})", "  ", "    ")
            for o in found.obligations
        ]
    lines += ["", *(look.wrap(sentence) for sentence in found.values)] if found.values else []
    if found.repairs:
        lines += ["", look.paint(look.wrap(repairs_title(found)), "title")]
        shown = next((repair for repair in found.repairs if repair.mends), found.repairs[0])
        for number, repair in enumerate(found.repairs, start=1):
            lines += _repair(repair, found.repairs, f"  {number}. ", look, with_text=repair is shown)
    if found.plan is not None:
        lines += ["", *in_short(found.plan, look)]
    lines += ["", look.wrap(found.way, "as it is: ")] if found.way and not found.repairs else []
    lines += ["", look.wrap(", ".join(found.derivation), "derivation: ")] if found.derivation else []
    return "\n".join(lines)


def repairs_title(found: Explanation) -> str:
    """Return what repairs are and what they are ordered by."""
    if any(repair.total is not None for repair in found.repairs):
        uses = "1 use" if found.uses == 1 else f"{found.uses} uses"
        return f"repairs that work, by the time of applying one and of {uses}"
    return "repairs that work, cheapest first"


def costs(repair: Repair, among: Sequence[Repair] = ()) -> list[str]:
    """Return what a repair costs, in words, if anything says how it is used; `among` others, when it pays."""
    if repair.nanoseconds is None:
        return [f"applying it takes {duration(repair.once)}"] if repair.once else []
    then = "then predicted at" if repair.mends else "predicted at"
    said = [f"{then} {duration(repair.nanoseconds)} a use"]
    said += [f"applying it takes {duration(repair.once)}"] if repair.once else []
    said += [] if repair.total is None else [f"in all {duration(repair.total)}"]
    if repair.mends and not all(one.mends for one in among):
        from_on = f"from {repair.pays_from} use{'s' * (repair.pays_from != 1)} on"
        said.append("never faster than changing nothing" if repair.pays_from is None else f"pays {from_on}")
    return said


def part_rows(found: Explanation) -> list[tuple[str, str, str, str]]:
    """Return what a subject is made of: each part's name, tensor, verdict, and how it travels or what it breaks."""
    rows = []
    for part in found.parts:
        name, _, what = part.subject.partition(": ")
        codes = ", ".join(dict.fromkeys(d.code for d in part.diagnostics))
        rows.append((name, what, "legal" if part.legal else "refused", _travels(part.plan) if part.plan else codes))
    return rows


def _travels(plan: MovementPlan) -> str:
    """Return how an operand's tiles come by boxes, or how a result's leave."""
    if plan.operator.consumer == "threads" and plan.store != "tma":
        return "stored from registers, no legal map"
    swizzle = f"swizzle {plan.tensor_maps[0].swizzle}"
    return f"stored by the copy engine, {swizzle}" if plan.operator.consumer == "threads" else f"by boxes, {swizzle}"


def _repair(repair: Repair, among: Sequence[Repair], first: str, look: Look, *, with_text: bool) -> list[str]:
    """Return what a repair does and costs, and how to apply it if wanted."""
    lines = [look.wrap("; ".join([repair.message, *costs(repair, among)]), first)]
    for snippet in repair.snippets[:1] if with_text else ():  # the others are in `snippets`, and in --json
        lines += ["", look.paint(f"     # {snippet.terms}", "faint")]
        lines += [*(f"     {line}".rstrip() for line in snippet.text.splitlines()), ""]
    return lines


def in_short(plan: MovementPlan | GemmPlan, look: Look = PLAIN) -> list[str]:
    """Return how a plan does it, line by line: its maps or what moves without them, and its predicted time."""
    if isinstance(plan, GemmPlan):
        lines = [
            look.wrap(line, first) for line, first in zip(region_lines(plan), ("legal region: ", "  "), strict=True)
        ]
        return [*lines, *(look.wrap(f"{one.kernel}: {one.sentence}", "  ", "    ") for one in plan.choices)]
    lines = [] if plan.access.by in BOXED else [f"as it is, without a tensor map for its rows: by {plan.access.by}"]
    lines += [look.wrap(line, first) for line, first in zip(region_lines(plan), ("legal region: ", "  "), strict=False)]
    laws = ", ".join(step.law for step in plan.derivation)
    lines += [look.wrap(laws, "derivation: ")] if laws else []
    lines += [look.wrap(str(tm), f"{side}: ") for side, tm in map_sides(plan)]
    if plan.phases:
        lines.append(phases_line(plan))
    lines += [f"{copy.side}: {copy.instruction}, {copy.bytes} bytes each" for copy in plan.copies]
    if plan.store == "threads" and not plan.copies:
        lines.append("target: stored from registers")
    return [*lines, f"predicted: {duration(plan.cost.nanoseconds)}"]

"""A product that is planned operand by operand, as text for a person."""

from __future__ import annotations

from collections.abc import Iterator

from legalsat.errors import LegalSatError
from legalsat.extract.blocks.async_plan import async_plan
from legalsat.plans.block_plan import BlockPlan, TileCandidate
from legalsat.plans.plan import Plan
from legalsat.plans.product_cost import ProductCost
from legalsat.program.pipeline_text import role_lines
from legalsat.units.matrix_descriptor import MatrixOperand
from legalsat.units.mma import Mma
from legalsat.view.look import PLAIN, Look
from legalsat.view.show import byte_count, duration, table

OFFSETS_WIDE = 46  # columns
_PARTS = ("compute", "memory", "load", "issue", "latency")


def show_block_plan(plan: BlockPlan, look: Look = PLAIN) -> str:
    """Return the plan with every solved field, a section for each unit."""
    sections = [
        ("block", _block(plan)),
        ("operands", _operands(plan)),
        ("matrix unit", mma_lines(plan.mma)),
        ("epilogue", _epilogue(plan)),
        ("pipeline", _pipeline(plan, look)),
        ("predicted cost", cost_lines(plan.cost)),
        ("tiles considered", _considered(plan.candidates)),
    ]
    lines = [look.paint(f"{plan.operator} on {plan.target}", "title")]
    for title, body in sections:
        if body:
            lines += ["", look.paint(title, "title"), *body]
    return "\n".join(lines)


def by(numbers: tuple[int, ...]) -> str:
    """Return extents as text."""
    return " x ".join(map(str, numbers))


def _block(plan: BlockPlan) -> list[str]:
    rows = [
        ("tiles of", by(plan.tile), "elements along m, n and k"),
        ("ring", f"{plan.stages} stages", f"{byte_count(plan.cost.shared_bytes)} of shared memory a block"),
        ("threads", f"{plan.launch.warps} warps", f"{plan.blocks} block{'s' * (plan.blocks > 1)} on a processor"),
    ]
    return table(rows)


def _operands(plan: BlockPlan) -> list[str]:
    rows = [("", "comes or goes", "boxes", "swizzle", "derivation")]
    for name, operand in (("A", plan.a), ("B", plan.b), ("C", plan.c)):
        rows.append((name, _way(name, operand), *_map(name, operand), _laws(operand)))
    return table(rows)


def _way(name: str, plan: Plan) -> str:
    if name == "C":
        return f"stored by {plan.store}"
    return f"loaded by {plan.access.by}" + " of a padded copy" * bool(plan.before)


def _map(name: str, plan: Plan) -> tuple[str, str]:
    maps = plan.tensor_maps[-1:] if name == "C" and plan.store == "tma" else plan.tensor_maps[:1]
    if not maps or (name == "C" and plan.store != "tma"):
        return "", plan.shared[0].swizzle if plan.shared and name != "C" else ""
    return by(maps[0].box), str(maps[0].swizzle)


def _laws(plan: Plan) -> str:
    return ", ".join(step.law for step in plan.derivation)


def mma_lines(mma: Mma | None, names: tuple[str, str] = ("A", "B")) -> list[str]:
    """Return how tiles are multiplied, and how the unit reads them; `names`: of what it takes for A and for B."""
    if mma is None:
        return []
    sums = f"{mma.types[0]} x {mma.types[1]} to {mma.types[2]}"
    lines = table([("instruction", f"{mma.unit} m{mma.shape[0]}n{mma.shape[1]}k{mma.shape[2]}", sums)])
    if mma.instruction:
        lines += table([("its descriptor", f"{mma.instruction:#010x}", "")])
    if mma.tensor_memory:
        rows = [(c.name, f"columns {c.first} to {c.first + c.count - 1}") for c in mma.tensor_memory]
        lines += table([*rows, ("allocated", f"{mma.allocated} columns")])
    words: list[tuple[str, ...]] = [("", "major", "descriptor", "leading", "stride", "bytes to each step along K")]
    for name, one in zip(names, (mma.a, mma.b), strict=True):
        words += [] if one is None else _descriptor(name, one)
    return lines + table(words)


def _descriptor(name: str, operand: MatrixOperand) -> Iterator[tuple[str, ...]]:
    """Yield a row of a table, and more where offsets are too wide for it."""
    word, blocks = operand.descriptor, [", ".join(map(str, block)) for block in operand.offsets]
    said: tuple[str, ...] = (name, operand.major, f"{word.word:#018x}", str(word.leading), str(word.stride))
    line = blocks.pop(0)
    for block in blocks:
        if len(line) + len(block) > OFFSETS_WIDE:
            yield (*said, line)
            said, line = ("",) * len(said), block
        else:
            line += f"; {block}"
    yield (*said, line)


def _epilogue(plan: BlockPlan) -> list[str]:
    found = plan.epilogue
    if found is None:
        return []
    where = "on the ring" if found.overlays else "beside the ring"
    least = "as few as any layout takes" if found.wavefronts == found.least else f"{found.least} at best"
    return table(
        [
            ("sums written by", found.copy, f"{found.wavefronts} wavefronts each, {least}"),
            ("rows", f"{found.pitch} bytes apart", f"swizzle {found.swizzle}, {where}"),
            ("stored by", found.store, f"{plan.operator.out_dtype} of C"),
        ]
    )


def _pipeline(plan: BlockPlan, look: Look) -> list[str]:
    if plan.mma is None:
        return []
    lines = [look.wrap(reason, "  - ") for reason in async_plan(plan).reasons]
    try:
        roles = list(role_lines(plan.pipeline))
    except LegalSatError as error:
        return [*lines, look.wrap(str(error), "  - ")]
    for who, steps in roles:
        lines += [f"  {who}", *(f"    {step}" for step in steps)]
    return lines


def cost_lines(cost: ProductCost) -> list[str]:
    """Return what is predicted, and of what it consists."""
    longest = max(_PARTS, key=lambda part: getattr(cost, part))
    rows = [("time", duration(cost.nanoseconds), f"mostly {longest}")]
    rows += [(part, duration(getattr(cost, part)), "") for part in (*_PARTS, "epilogue")]
    if cost.relayouts:
        rows.append(("relayouts", duration(cost.relayouts), f"{byte_count(cost.padding_bytes)} of padded copies"))
    return table(rows)


def _considered(candidates: tuple[TileCandidate, ...]) -> list[str]:
    rows = [
        (by(c.tile), f"{c.stages} stages", f"{c.blocks} a processor", duration(c.cost.nanoseconds)) for c in candidates
    ]
    return table(rows) if len(rows) > 1 else []

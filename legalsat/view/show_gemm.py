"""A product's plan as text for a person: the kernel that runs."""

from __future__ import annotations

from collections.abc import Iterator

from legalsat.dims import typical_of
from legalsat.extract.kernels.product_maps import maps_of
from legalsat.extract.moved.relayouts import nanoseconds_of
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_cost import ProductCost
from legalsat.plans.product_kernel import REALIGNED, ProductKernel
from legalsat.program.kernel_text import program_lines
from legalsat.program.pipeline_text import role_lines
from legalsat.terms.products import words
from legalsat.units.matrix_descriptor import MatrixOperand
from legalsat.units.mma import Mma
from legalsat.view.look import PLAIN, Look
from legalsat.view.show import byte_count, duration, granules_lines, table

SHOWN = 4  # kernels of those considered
OFFSETS_WIDE = 46  # columns
_PARTS = ("compute", "memory", "load", "issue", "latency")
STORES = {
    "tma": "boxes",
    "turned": "boxes of turned tiles",
    "rows": "granules of rows",
    "lapped": "whole sectors of rows, of tiles that lap over the next",
    "columns": "granules of turned tiles",
    "elements": "elements, each by itself",
    "sums": "way of the whole tile in shared memory",
}


def show_gemm_plan(plan: GemmPlan, look: Look = PLAIN) -> str:
    """Return the plan with every solved field, a section for each unit."""
    sections = [
        ("derivation", _derivation(plan)),
        ("kernel", _kernel(plan, plan.kernel)),
        *([("extents", _extents(plan, look))] if plan.guard else []),
        ("in front", _in_front(plan)),
        ("behind", _behind(plan)),
        ("operands", _operands(plan, plan.kernel)),
        ("matrix unit", mma_lines(plan.mma, plan.kernel.operands)),
        (
            "program",
            [line for who, steps in program_lines(plan.program) for line in (f"  {who}", *map("    {}".format, steps))],
        ),
        ("predicted cost", cost_lines(plan.cost)),
        ("kernels considered", _considered(plan)),
    ]
    lines = [look.paint(f"{plan.operator} on {plan.target}", "title")]
    for title, body in sections:
        lines += ["", look.paint(title, "title"), *body] if body else []
    return "\n".join(lines)


def _derivation(plan: GemmPlan) -> list[str]:
    return table([(str(number), step.law, words(step.term)) for number, step in enumerate(plan.derivation, start=1)])


def _kernel(plan: GemmPlan, kernel: ProductKernel) -> list[str]:
    turns = "ping-pong" if kernel.ping_pong else "cooperative"
    several = kernel.warpgroups > 1
    consumers = f"{kernel.warpgroups} warpgroups of consumers, {turns}" if several else "one warpgroup of consumers"
    many = f"{kernel.blocks} CTA{'s' * (kernel.blocks > 1)} on an SM"
    others = ", one that aligns lines" * any(kernel.aligned) + ", one that issues multiplications" * kernel.issues
    rows = [
        ("tiles of", by(kernel.tile), f"elements along m, n and k{' of C^T = B A^T' if kernel.swapped else ''}"),
        ("ring", f"{kernel.stages} stages", f"{byte_count(kernel.shared_bytes)} of shared memory a CTA, {many}"),
        ("threads", f"{kernel.threads // 32} warps", f"{consumers}, one of the producer{others}"),
        ("registers", f"{kernel.registers[0]} a thread", f"of consumer warps, {kernel.registers[1]} of the producer's"),
        *([("tensor memory", f"{kernel.tensor_columns} columns", _in_turns(kernel))] if kernel.issues else []),
        ("grid", f"{plan.launch.programs or 'one a tile'}", "CTAs, persistent" if plan.launch.programs else ""),
    ]
    if plan.launch.programs:
        rows.append(("order", f"{kernel.group} along m", "tiles one after the other, then as many beside them"))
    if kernel.cluster != (1, 1):
        rows.append(("clusters", by(kernel.cluster), "CTAs along m and n, which multicast what they share"))
    if kernel.split > 1:
        rows.append(("split-K", f"{kernel.split} ways", "among the CTAs of a cluster, which add up in shared memory"))
    if kernel.slices > 1:
        rows.append(("split-K", f"{kernel.slices} slices", "products of their own, which a kernel behind adds up"))
    if kernel.stream_k:
        given = byte_count(plan.launch.programs * kernel.given_bytes)
        rows.append(("stream-K", given, "of a workspace, by which clusters give sums of tiles that others store"))
    return table(rows)


def _in_turns(kernel: ProductKernel) -> str:
    """Return how accumulators in tensor memory are used."""
    count = kernel.accumulators
    return f"{count} accumulators, in turns" if count > 1 else "one accumulator, fetched before the next tile begins"


def _in_front(plan: GemmPlan) -> list[str]:
    """What lays operands out anew: the movement, by which means, what it takes among others, and its program."""
    lines = []
    for one in plan.before:
        when = "once for all" if one.constant else f"{duration(nanoseconds_of(one))}, at each call"
        lines.append(f"  {one.operand.upper()}: {one.plan.operator} by {one.plan.access.by}, {when}")
        lines += granules_lines(one.plan, "    ")
        lines += [f"    {step}" for _, steps in role_lines(one.plan.pipeline) for step in steps]
    return lines


def _behind(plan: GemmPlan) -> list[str]:
    """What adds slices of k up: its memory and its program."""
    if (added := plan.behind) is None:
        return []
    numbers = added.named
    many = f"{numbers['slices']} slices of {numbers['slice_pitch'] // numbers['source_pitch']} rows"
    steps = [step for _, lines in role_lines(added.pipeline) for step in lines]
    return [
        f"  {many}, {byte_count(added.bytes)} of fp32 in a workspace, {added.blocks} blocks",
        *map("    {}".format, steps),
    ]


def _extents(plan: GemmPlan, look: Look) -> list[str]:
    typical = ", ".join(f"{name} = {value}" for name, value in typical_of(plan.operator.dims).items())
    lines = [look.wrap(f"{plan.guard_sentence}; costs are for {typical}", "  ", "    ")]
    if len(plan.choices) > 1:
        lines += [look.wrap(f"{one.kernel}: {one.sentence}", "  ", "    ") for one in plan.choices]
    return lines


def _operands(plan: GemmPlan, kernel: ProductKernel) -> list[str]:
    maps = maps_of(plan.operator, kernel)
    rows = [("", "comes or goes", "maps", "boxes", "swizzle", "L2 fetches")]
    for side, name, first, aligned in zip("AB", kernel.operands, kernel.relayouts, kernel.aligned, strict=True):
        realigned = side == ("B" if kernel.slides else "A")
        shifted = ", aligned in shared memory" if aligned else ""
        shifted = shifted or (f", {REALIGNED[kernel.realign]}" if realigned and kernel.realign != "none" else "")
        shifted += ", others' k cleared in shared memory" * kernel.clipped
        before = {"none": "", "pad": " of a padded copy", "transpose": " of a transposed copy"}[first]
        one = maps[side][0].map
        how = by(one.box), str(one.swizzle), str(one.l2_promotion)
        rows.append((name, f"loaded by boxes{before}{shifted}", str(len(maps[side])), *how))
    stored = f"stored by {STORES[kernel.store]}{', overlapped' if kernel.overlapped else ''}"
    out = maps["C"]
    stored += " into a workspace" * (kernel.slices > 1)
    box, swizzle = (by(out[0].map.box), str(out[0].map.swizzle)) if out else ("", "")
    rows.append(("C", stored, str(len(out)), box, swizzle, ""))
    return table(rows)


def _considered(plan: GemmPlan) -> list[str]:
    return table([(duration(one.cost.nanoseconds), one.name) for one in plan.candidates[:SHOWN]])


def by(numbers: tuple[int, ...]) -> str:
    """Return extents as text."""
    return " x ".join(map(str, numbers))


def mma_lines(mma: Mma, names: tuple[str, str]) -> list[str]:
    """Return how tiles are multiplied, and how the unit reads them; `names`: of what it takes for A and for B."""
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


def cost_lines(cost: ProductCost) -> list[str]:
    """Return what is predicted, and of what it consists."""
    longest = max(_PARTS, key=lambda part: getattr(cost, part))
    rows = [("time", duration(cost.nanoseconds), f"mostly {longest}")]
    rows += [(part, duration(getattr(cost, part)), "") for part in (*_PARTS, "epilogue")]
    if cost.relayouts:
        rows.append(("relayouts", duration(cost.relayouts), f"{byte_count(cost.padding_bytes)} of padded copies"))
    return table(rows)

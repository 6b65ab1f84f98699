"""Plans, explanations and diagnostics as text for a person: aligned, wrapped, and in colour where that is wanted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from legalsat.diagnostics import Diagnostic
from legalsat.extract.moved.issued import issued_lines
from legalsat.extract.search.columns import walked
from legalsat.operators.access import Access, Mode
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.movement_plan import Candidate, MovementPlan
from legalsat.program.pipeline_text import role_lines
from legalsat.units.means import ANY, MEANS
from legalsat.units.tensor_map import TensorMap
from legalsat.view.look import PLAIN, Look

# What a tiled map is made of, in the driver's order: field, and the unit of its numbers.
_MAP_FIELDS = (
    ("dtype", ""),
    ("global_dim", "elements, fastest first"),
    ("global_stride", "bytes"),
    ("box", "elements"),
    ("element_stride", "elements"),
    ("interleave", ""),
    ("swizzle", ""),
    ("l2_promotion", ""),
    ("oob_fill", ""),
)
# And an im2col map, besides.
_COLUMN_FIELDS = (
    ("mode", ""),
    ("lower_corner", "pixels"),
    ("upper_corner", "pixels"),
    ("channels", "elements a pixel"),
    ("pixels", "a column"),
)
_ROLES = {"source": "source, load", "target": "target, store"}


def byte_count(number: int) -> str:
    """Return a number of bytes as a person reads it: "96 bytes", "160 KiB", "31.98 MiB"."""
    size = float(number)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{number} {unit}" if unit == "bytes" else f"{size:.2f}".rstrip("0").rstrip(".") + f" {unit}"


def duration(nanoseconds: float) -> str:
    """Return a time with the unit that suits it: "3000 ns", "17.0 us", "1.25 ms"."""
    if nanoseconds < 1e4:
        return f"{nanoseconds:.0f} ns"
    return f"{nanoseconds / 1e3:.1f} us" if nanoseconds < 1e6 else f"{nanoseconds / 1e6:.2f} ms"


def table(rows: Iterable[Sequence[str]], *, indent: str = "  ", gap: str = "   ") -> list[str]:
    """Return the rows as lines with their columns aligned to the left."""
    cells = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        (indent + gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()
        for row in cells
    ]


_HELP_INDENT = " " * len("  = help: ")


def show_diagnostic(found: Diagnostic, look: Look = PLAIN) -> str:
    """Return what is wrong, where, who says so and what to change; the words are those of `str(found)`."""
    severity = f"{found.level}[{found.code}]"
    message = look.wrap(f"{severity}: {found.message}", rest="    ")
    lines = [look.paint(severity, found.level) + look.paint(message.removeprefix(severity), "title")]
    if found.where:
        lines.append(look.wrap(found.where, "  --> "))
    lines.append(look.wrap(found.note, "  = note: "))
    first, *listed = re.split(r" (?=\(\d\) )", found.help)
    lines.append(look.wrap(first, "  = help: ").replace("help", look.paint("help", "help"), 1))
    lines += [look.wrap(one, _HELP_INDENT, f"{_HELP_INDENT}    ") for one in listed]
    return "\n".join(lines)


def map_sides(plan: MovementPlan) -> list[tuple[str, TensorMap]]:
    """Return the maps with the side that each describes; of the phases', which differ little, the first."""
    maps = plan.tensor_maps[:1] if plan.phases else plan.tensor_maps
    return [(view.side, tm) for view, tm in zip(plan.views, maps, strict=False)]


def phases_line(plan: MovementPlan) -> str:
    """Return how many maps of rows a plan has, and how far in their rows begin."""
    count = len(plan.phases)
    shifts = ", ".join(str(phase.shift) for phase in plan.phases)
    return f"source: {count} such maps, each for every {count}th row; rows begin {shifts} bytes in"


def show_plan(plan: MovementPlan, look: Look = PLAIN) -> str:
    """Return the whole plan: movement, derivation, maps, shared memory, pipeline, cost, and what else there was."""
    target = plan.target
    product = "" if target.name == target.architecture else f" ({target.architecture})"
    sections = [
        ("movement", _movement(plan)),
        ("window", _window(plan)),
        ("padding", _padding(plan)),
        ("derivation", _derivation(plan, look)),
        ("tensor maps", _maps(plan)),
        ("copies", _copies(plan)),
        ("kernel", granules_lines(plan, "  ")),
        ("coordinates", [look.wrap(line, "  ", "    ") for line in issued_lines(plan)]),
        ("shared memory", _shared(plan)),
        ("pipeline", _pipeline(plan, look)),
        ("launch", _launch(plan)),
        ("predicted cost", _cost(plan)),
        ("also considered", _considered(plan.candidates[0], plan.candidates[1:])),
    ]
    if plan.guard:
        names = ", ".join(dim.name for dim in plan.operator.source.dims)
        sample = f"numbers below that depend on {names} are those of one sample"
        sections.insert(0, ("legal region", [look.wrap(line, "  ") for line in (*region_lines(plan), sample)]))
    lines = [look.paint(look.wrap(f"{plan.operator} on {target}{product}"), "title")]
    for title, body in sections:
        if body:
            lines += ["", look.paint(title, "title"), *body]
    return "\n".join(lines)


def _movement(plan: MovementPlan) -> list[str]:
    """A table of the access's modes: what the kernel walks."""
    access = plan.access
    whole = all(m.source % 8 == 0 and m.target % 8 == 0 for m in access.modes)
    unit, bits = ("bytes", 8) if whole else ("bits", 1)
    sides = ("source",) if plan.operator.loads_only else ("source", "target")
    rows = [("mode", "extent", "tile", *(f"{side} stride" for side in sides))]
    sizes = plan.opened or tuple(mode[:3] for mode in access.modes)
    rows += [
        (str(i), str(extent), str(mode.tile), *(str(one // bits) for one in strides[: len(sides)]))
        for i, (mode, (extent, *strides)) in enumerate(zip(access.modes, sizes, strict=True))
    ]
    tiles = 1
    for mode in walked(access, plan.window).modes:
        tiles *= -(-mode.extent // mode.tile)
    tiles = plan.launch.tiles if plan.opened else tiles
    head = f"  {tiles} tile{'s' * (tiles != 1)} of {access.word}-bit words; strides in {unit}"
    return [head, *table(rows)]


def _window(plan: MovementPlan) -> list[str]:
    """How the window moves along each axis of the image, and who fills in zeros."""
    window = plan.window
    if window is None:
        return []
    rows: list[tuple[str, ...]] = [("windows", "taps", "image", "step", "dilation", "zeros before, after")]
    for sweep, pixel, tap in zip(window.sweeps, window.pixels, window.taps, strict=False):
        counts = (sweep.extent, sweep.step, sweep.dilation)
        rows.append((f"mode {pixel}", f"mode {tap}", *map(str, counts), f"{sweep.before}, {sweep.after}"))
    if plan.access.by == "im2col":
        modes = ", ".join(map(str, window.pixels))
        return [*table(rows), f"  tiles count pixels of modes {modes} as they follow, from row to row"]
    return [*table(rows), "  loads are masked by the window: zeros where a tap lies outside the image"]


def _padding(plan: MovementPlan) -> list[str]:
    """Which words of each mode the source has, and what is written around them."""
    margins = plan.operator.margins(plan.access)
    if not margins:
        return []
    rows = [("mode", "before", "source", "after")]
    for number, (mode, margin) in enumerate(zip(plan.access.modes, margins, strict=True)):
        after = mode.extent - margin.before - margin.held
        rows.append((str(number), str(margin.before), str(margin.held), str(after)))
    by_boxes = "loads begin outside the source's map, and the copy engine fills in zeros"
    filled = by_boxes if plan.tensor_maps else f"loads are masked: {plan.operator.value} where the source has nothing"
    return [*table(rows), f"  {filled}"]


def _derivation(plan: MovementPlan, look: Look) -> list[str]:
    if not plan.derivation:
        return []
    longest = max(len(step.law) for step in plan.derivation)
    lines = ["  modes as extent:source->target/tile, strides in bits"]
    for number, step in enumerate(plan.derivation, start=1):
        lines.append(look.wrap(_modes(step.access), f"  {number}. {step.law.ljust(longest)}   "))
    return lines


def _modes(access: Access) -> str:
    means = "" if access.by == ANY else f", by {access.by}"
    return f"{access.word}-bit words, " + " ".join(map(str, access.modes)) + means


def _maps(plan: MovementPlan) -> list[str]:
    sides = map_sides(plan)
    if not sides:
        return []
    rows = [("", *(_ROLES[side] for side, _ in sides), "")]
    shown = (*_MAP_FIELDS, *_COLUMN_FIELDS) if any(tm.mode == "im2col" for _, tm in sides) else _MAP_FIELDS
    rows += [(field, *(_field(tm, field) for _, tm in sides), unit) for field, unit in shown]
    aligned = {
        side: end.align if plan.phases else end.address & -end.address
        for side, end in (("source", plan.source), ("target", plan.operator.target))
    }
    rows.append(("address", *(f"multiple of {aligned[side]}" for side, _ in sides), "bytes"))
    lines = table(rows)
    if plan.phases:
        lines.append("  " + phases_line(plan))
    if plan.store == "threads":
        lines.append("  no map for the target: threads store it from registers")
    return lines


def _copies(plan: MovementPlan) -> list[str]:
    return [f"  {copy.side}: {copy.instruction}, {copy.bytes} bytes each" for copy in plan.copies]


def granules_lines(plan: MovementPlan, indent: str) -> list[str]:
    """Return the kernel of a plan by granules, and what it is bound to; nothing of other plans."""
    found = plan.granules
    if found is None:
        return []
    aligned = f"addresses at multiples of {found.source_align} and {found.target_align} bytes"
    return [f"{indent}{found.entry}: {found.blocks} blocks, {len(found.numbers)} numbers, {aligned}"]


def _field(tm: TensorMap, field: str) -> str:
    value = getattr(tm, field)
    if field in {"channels", "pixels"} and tm.mode == "tiled":
        return "-"
    return (", ".join(map(str, value)) or "-") if isinstance(value, tuple) else str(value)


def _shared(plan: MovementPlan) -> list[str]:
    rows = []
    for tile in plan.shared:
        shape = " x ".join(map(str, tile.shape))
        stages = f"{tile.stages} stage{'s' * (tile.stages != 1)} of {byte_count(tile.bytes)}"
        if tile.overlays:
            stages = "in the same bytes"
        piece, many = MEANS[plan.access.by].pieces
        boxes = f"{tile.boxes} {many} each" if tile.boxes != 1 else f"1 {piece} each"
        boxes = boxes if tile.boxes else "filled by threads"
        swizzle = "no swizzle" if tile.swizzle == "none" else f"swizzle {tile.swizzle}"
        aligned = f"aligned to {tile.alignment} bytes"
        rows.append((tile.name, f"{shape} words", stages, boxes, swizzle, aligned))
    if not rows:
        return []
    limit = byte_count(plan.target.shared_bytes_per_block)
    return [*table(rows), f"  {byte_count(plan.cost.shared_bytes)} a block, of {limit}"]


def _pipeline(plan: MovementPlan, look: Look) -> list[str]:
    stages = plan.pipeline.stages
    lines = [f"  {stages} stages, each with its own barriers" if stages > 1 else "  1 stage"]
    for barrier in plan.pipeline.barriers:
        arrivals = f"{barrier.arrivals} arrival{'s' * (barrier.arrivals != 1)}"
        lines.append(f"  barrier {barrier.name}: {arrivals} and {barrier.transaction_bytes} bytes a phase")
    for who, steps in role_lines(plan.pipeline):
        if not steps:
            lines.append(look.wrap("from global memory to registers and back", "  "))
            continue
        lines.append(f"  {who}")
        lines += [look.wrap(step.strip(), "    " + " " * (len(step) - len(step.lstrip()))) for step in steps]
    return lines


def _launch(plan: MovementPlan) -> list[str]:
    launch = plan.launch
    blocks = (
        f"{launch.programs} block{'s' * (launch.programs != 1)} for {'all tiles' if plan.granules is None else 'all'}"
    )
    warps = f"{launch.warps} warp{'s' * (launch.warps != 1)} a block"
    return [f"  {blocks if launch.programs else 'one block a tile'}; {warps}"]


def _cost(plan: MovementPlan) -> list[str]:
    cost, device = plan.cost, plan.target.device
    speed = "" if device else f", on a nominal product: {plan.target} is an architecture"
    repeats = "none" if cost.conflicts == 1 else f"each shared access takes {cost.conflicts} rounds"
    return table(
        (
            ("time", f"{duration(cost.nanoseconds)}{speed}"),
            (
                "global memory",
                f"{byte_count(cost.global_bytes)} read{'' if plan.operator.loads_only else ' and written'}",
            ),
            ("transactions", f"{cost.transactions} sectors of 32 bytes"),
            ("boxes", f"{cost.boxes} copies by the engine"),
            ("instructions", f"{cost.instructions} by warps on memory"),
            ("shared memory", f"{cost.wavefronts} wavefronts; {cost.blocks} block{'s' * (cost.blocks != 1)} fit"),
            ("overhang", f"{byte_count(cost.overhang_bytes)} of boxes outside the tensor"),
            ("bank conflicts", repeats),
        )
    )


def _considered(chosen: Candidate, others: Sequence[Candidate]) -> list[str]:
    if not others:
        return []
    rows = [("time", "boxes", "overhang", "shared", "by", "store", "word", "tile, fastest first", "laws")]
    for one in others:
        rows.append(
            (
                duration(one.cost.nanoseconds),
                str(one.cost.boxes),
                byte_count(one.cost.overhang_bytes),
                byte_count(one.cost.shared_bytes),
                one.access.by,
                one.store,
                f"{one.access.word} bits",
                _tile(one.access.modes),
                "the same" if _laws(one) == _laws(chosen) else ", ".join(_laws(one)) or "none",
            )
        )
    return table(rows)


def _laws(candidate: Candidate) -> list[str]:
    return [step.law for step in candidate.derivation]


def _tile(modes: Sequence[Mode]) -> str:
    return " x ".join(str(mode.tile) for mode in modes)


def region_lines(plan: MovementPlan | GemmPlan) -> list[str]:
    """Return for which values of its dims a plan is legal, in words and in isl's notation."""
    if not plan.guard:
        return []
    from legalsat.extract.region.region import guard_in_words  # noqa: PLC0415 - isl is not needed without dims

    sentence, condition = guard_in_words(plan)
    return [sentence, f"in isl's notation: {condition}"]

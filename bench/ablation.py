"""Problems that fail or cost more when one family of laws is switched off, and what saturation is worth.

Run `python -m bench.ablation [--json FILE]`. Each of twelve movements is planned with everything and without its
family: laws of rewriting by name, or the relayout before the movement. A row that loses nothing is an error of the
table: exit code 1. So is a law that none of 200 random products needs. Programs (`bench.search.programs`) are planned
without each law that they are derived by, and operator by operator. At last saturation is compared with search breadth
first over the same laws (`bench.search.saturation`), and with an analysis of functions on classes
(`bench.search.functions`).

Merging modes is a law, and modes that are equal as functions of their coordinates are merged without one
(`legalsat.extract.search.search.function_form`), as long as no tile is longer than its extent. Where the first row's
head of 96 is padded to 128, only the law is left.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.machine import write
from bench.search.functions import compared, compared_values
from bench.search.programs import one_by_one, programs
from bench.search.saturation import (
    compared_movements,
    compared_products,
    compared_programs,
    needed,
    needed_by_programs,
    products,
)
from legalsat.api import synthesize
from legalsat.errors import LegalSatError
from legalsat.extract.cost.cost import order
from legalsat.extract.search.planner import BOXES, RELAYOUT, USUAL_MEANS, Limits, NoLegalLayout, plan
from legalsat.operators import Copy, Im2col, Move, Transpose
from legalsat.plans.movement_plan import MovementCost, MovementPlan
from legalsat.rules.rewrites import LAWS
from legalsat.targets import target
from legalsat.tensor import Tensor

TARGET = "h200"
MERGING = ("merge_adjacent_modes", "merge_row_tiles")
SPLITTING = ("split_long_tile",)
UNITS = ("drop_unit_mode", "restride_unit_mode")

_MATRIX = Tensor((8192, 4096), "bf16")
# Videos of attention: (batch, time, height, width, heads, 96).
_VIDEO = Tensor((2, 16, 32, 64, 12, 96), "bf16")
# One token of a decoder, cut out of rows of 4097.
_TOKEN = Tensor((1, 4096), "bf16", (4097, 1))
# Keys of an image encoder, (B, S, H, D) seen as (B, H, S, D): a head's row of 72 bytes is no multiple of 16.
_HEADS = Tensor((32, 16, 729, 72), "e4m3", (729 * 1152, 72, 1152, 1))
# The keys of a video's (batch, time, tokens, 3, heads, 96).
_TOKENS = 3 * 12 * 96
_KEYS = Tensor((2, 16, 2048, 12, 96), "bf16", (16 * 2048 * _TOKENS, 2048 * _TOKENS, _TOKENS, 96, 1))
# One scale for 32 columns, repeated for each.
_SCALES = Tensor((4096, 128, 32), "u8", (128, 1, 0))


@dataclass(frozen=True, slots=True)
class Problem:
    """A row of the table before it is measured.

    Attributes:
        name: what it shows.
        operator: what is asked.
        off: the family that is switched off.
        means: how tiles may travel at all; by boxes alone where no threads are to spare for copying.
    """

    name: str
    operator: Move
    off: tuple[str, ...]
    means: tuple[str, ...] = USUAL_MEANS


PROBLEMS = (
    Problem("rank above 5", Copy(_VIDEO, tile=(1, 1, 8, 16, 1, 128), consumer="threads"), MERGING, BOXES),
    Problem("unit modes with bad strides", Copy(_TOKEN, tile=(64, 64), consumer="wgmma.a", passes=64), UNITS),
    Problem("odd row pitch", Transpose(Tensor((4096, 4095), "u8"), tile=(128, 128)), ("deliver_in_phases",)),
    Problem(
        "transposed views",
        Copy(Tensor((4096, 4096), "e4m3", (1, 4096)), tile=(128, 128), consumer="wgmma.a", passes=32),
        (RELAYOUT,),
    ),
    Problem("inner extent beyond the swizzle span", Copy(_MATRIX, tile=(4, 512), consumer="threads"), SPLITTING, BOXES),
    Problem("box above 256", Copy(_MATRIX, tile=(512, 64), consumer="wgmma.a"), SPLITTING, BOXES),
    Problem(
        "convolution",
        Im2col(Tensor((2, 14, 14, 64), "bf16"), 3, padding=1, tile=(64, 64), consumer="wgmma.a"),
        ("deliver_by_windows",),
    ),
    Problem("packed 4-bit", Copy(Tensor((4096, 4096), "int4"), tile=(128, 128)), ("recast_to_wider_words",)),
    Problem(
        "sliced base off by 2 bytes",
        Copy(Tensor((4096, 4096), "bf16", align=2), tile=(128, 64), consumer="threads"),
        ("deliver_by_loads",),
    ),
    Problem("broadcast stride 0", Copy(_SCALES, tile=(64, 4, 32), consumer="threads"), (RELAYOUT,)),
    Problem("permuted attention heads", Copy(_HEADS, tile=(1, 1, 64, 128), consumer="wgmma.b", passes=32), (RELAYOUT,)),
    Problem("interleaved QKV", Copy(_KEYS, tile=(1, 1, 512, 1, 128), consumer="threads"), MERGING, BOXES),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A plan's means and what it costs, or why there is none.

    Attributes:
        by: the means of delivery, behind a relayout if there is one; "refused" where there is no plan.
        nanoseconds, boxes, instructions: predicted; 0 where there is no plan.
        codes: the rules that refuse it, none where there is a plan.
    """

    by: str
    nanoseconds: float = 0
    boxes: int = 0
    instructions: int = 0
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A problem with everything and without one family.

    Attributes:
        name, problem, means: what is asked.
        off: the family that is switched off.
        before, after: the outcome with and without it.
        loses: whether there is no plan without it, or a dearer one.
    """

    name: str
    problem: str
    means: tuple[str, ...]
    off: tuple[str, ...]
    before: Outcome
    after: Outcome
    loses: bool


def without(off: Sequence[str], means: Sequence[str] = USUAL_MEANS) -> Limits:
    """Return limits that leave a family out of all laws and of the given means.

    Raises:
        LegalSatError: a name is neither a law nor the relayout.
    """
    names = {law.name for law in LAWS} | {RELAYOUT}
    if unknown := set(off) - names:
        raise LegalSatError(f"no law is called {', '.join(sorted(unknown))}; give some of {', '.join(sorted(names))}")
    laws = tuple(law for law in LAWS if law.name not in off)
    return Limits(means=tuple(m for m in means if m not in off), laws=laws)


def measure(problem: Problem) -> Row:
    """Plan a problem with everything and without its family."""
    before, cost = outcome(problem.operator, Limits(means=problem.means))
    after, dearer = outcome(problem.operator, without(problem.off, problem.means))
    loses = cost is not None and (dearer is None or order(dearer) > order(cost))
    return Row(problem.name, str(problem.operator), problem.means, problem.off, before, after, loses)


def outcome(operator: Move, limits: Limits) -> tuple[Outcome, MovementCost | None]:
    """Return the outcome within limits, and its cost if there is a plan."""
    try:
        found = plan(operator, target(TARGET), limits)
    except NoLegalLayout as refusal:
        return Outcome("refused", codes=tuple(dict.fromkeys(d.code for d in refusal.diagnostics))), None
    cost = found.cost
    return Outcome(_means(found), cost.nanoseconds, cost.boxes, cost.instructions), cost


def _means(found: MovementPlan) -> str:
    return f"{RELAYOUT}, {found.access.by}" if found.before else found.access.by


def report(rows: Sequence[Row]) -> str:
    """Return the table in words."""
    lines = [f"{'problem':37} {'switched off':39} {'with everything':28} without"]
    for row in rows:
        words = [_words(one) for one in (row.before, row.after)]
        lost = "" if row.loses else "  NOTHING LOST"
        lines.append(f"{row.name:37} {' '.join(row.off):39} {words[0]:28} {words[1]}{lost}")
    return "\n".join(lines)


def _words(one: Outcome) -> str:
    if one.codes:
        return f"refused: {', '.join(one.codes)}"
    return f"{one.nanoseconds / 1000:.2f} us by {one.by}" if one.nanoseconds else one.by


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.ablation", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there")
    given = parser.parse_args(arguments)
    rows = [measure(problem) for problem in PROBLEMS]
    print(report(rows))
    gemms = products()
    off = needed(gemms)
    print(f"\nof {len(gemms)} random products, without a law", *map(str, off), sep="\n")
    by_programs = needed_by_programs(programs())
    print("\nprograms of several operators, without a law", *map(str, by_programs), sep="\n")
    alone = {
        name: one_by_one(program) / synthesize(program, TARGET).cost.nanoseconds for name, program in programs().items()
    }
    print(
        "\noperators one by one, against the program",
        *(f"{name:36} {times:.2f} times" for name, times in alone.items()),
        sep="\n",
    )
    both = [compared_products(gemms), compared_movements(), compared_programs()]
    print("", *map(str, both), sep="\n")
    movements, values = compared(), compared_values()
    print("\nclasses that are equal as functions", *map(str, movements), values, sep="\n")
    if given.json:
        tables = {
            "rows": [asdict(row) for row in rows],
            "products_without_a_law": [asdict(law) for law in off],
            "programs_without_a_law": [asdict(law) for law in by_programs],
            "one_by_one": alone,
            "saturation_and_search": [one.to_json() for one in both],
            "functions_of_movements": [asdict(one) for one in movements],
            "functions_of_programs": asdict(values),
        }
        write(given.json, {"target": TARGET, **tables})
    return int(not all(row.loses for row in rows) or not all(law.refused or law.dearer for law in off))


if __name__ == "__main__":
    sys.exit(main())

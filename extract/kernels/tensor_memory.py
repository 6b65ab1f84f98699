"""Tensor memory: which rules a program breaks, which columns things get, and which instruction a tile is multiplied by.

Things that exist at once stand in one row of columns. Whatever their order, each begins at its first aligned column
behind the one before, and to end sooner never hurts those that follow; so the best order of all things is found from
the best orders of fewer, one state for each number of things of each sort. That is exact, and small, since stages are
alike. The rules then say whether the columns are few enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product
from typing import Any

from legalsat.checks import choice, integer, integers
from legalsat.diagnostics import Diagnostic, worst_first
from legalsat.errors import InvalidInput
from legalsat.extract.search.planner import NoLegalLayout
from legalsat.extract.solve.fields import Conflict
from legalsat.options import Major
from legalsat.printable import shown
from legalsat.rule import Rule
from legalsat.rules import TENSOR_MEMORY_RULES
from legalsat.rules.tensor_memory import allocation_sizes
from legalsat.targets import Target
from legalsat.targets import target as target_called
from legalsat.units.mma import Columns
from legalsat.units.tcgen05 import GROUPS, InstructionDescriptor, Kind, Scales, kind_of, legal_m, legal_n
from legalsat.units.tcgen05_sites import (
    Tcgen05Mma,
    Tcgen05Tile,
    TensorMemoryAllocation,
    TensorMemoryPair,
    TensorMemoryUse,
)
from legalsat.units.tensor_memory import Program
from legalsat.units.tensor_memory_layouts import (
    ATOM_COLUMNS,
    columns_of_sums,
    operand_columns,
    scale_columns,
)
from legalsat.units.tensor_memory_walk import sites

MOST_STATES = 2**16


@dataclass(frozen=True, slots=True)
class Want:
    """Columns that something needs in tensor memory.

    Attributes:
        name: what it is, such as "accumulator".
        count: columns.
        alignment: that its first column must be a multiple of.
        copies: how many there are of it, one a stage; the columns are then called "accumulator 0" and so on.
    """

    name: str
    count: int
    alignment: int = 1
    copies: int = 1


@dataclass(frozen=True, slots=True)
class Placement:
    """Columns of everything wanted, as the wants are listed, and how many to allocate, a power of two."""

    columns: tuple[Columns, ...]
    allocated: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """A multiply that a tile is made of: rows, columns and K elements, its kind's name, and its descriptor."""

    shape: tuple[int, int, int]
    kind: str
    descriptor: InstructionDescriptor


def tensor_memory_violations(program: Program, target: str | Target) -> list[Diagnostic]:
    """Return what is wrong with a program of tensor memory, errors first, otherwise in its order; empty if nothing is.

    Args:
        program: a `legalsat.units.tensor_memory.Program` of its events.
        target: a GPU with tensor memory, such as "sm_100a" or "b200".

    Raises:
        InvalidInput: `program` is none, the target has no tensor memory, or a name is allocated twice at once.
        UnknownTarget: no such GPU.

    Source: PTX ISA 9.1, 9.7.16; FACTS TC-22 to TC-31.
    """
    gpu = target_called(target)
    _check(gpu)
    if not isinstance(program, Program):
        raise InvalidInput(f"program is {shown(program)}; give a tensor_memory.Program of events")
    return worst_first(_said(sites(program), gpu))


def _said(judged: Iterable[Any], target: Target) -> Iterator[Diagnostic]:
    for site in judged:
        for rule in _rules_of(type(site).__name__):
            yield from rule.check(site, target)


@lru_cache(maxsize=64)
def _rules_of(site: str) -> tuple[Rule, ...]:
    return tuple(rule for rule in TENSOR_MEMORY_RULES if rule.site == site)


def _check(target: Target) -> None:
    if target.tcgen05 is None:
        raise InvalidInput(f"{target} has no tensor memory; give a target with tcgen05, such as sm_100a")


def place(wants: Sequence[Want], target: Target) -> Placement | Conflict:
    """Return columns for everything wanted, in the smallest allocation; or the rules that forbid any.

    Raises:
        InvalidInput: the target has no tensor memory, a number has no meaning, a name is wanted twice, or there are too
            many sorts of things to try all orders.
    """
    _check(target)
    assert target.tcgen05 is not None
    copies = {want.name: integer(want.copies, f"copies of {want.name}", low=1, high=4096) for want in wants}
    if len(copies) < len(wants):
        raise InvalidInput(f"wants {[want.name for want in wants]} share a name; give each its own")
    sorts = Counter[tuple[int, int]]()
    for want in wants:
        count = integer(want.count, f"columns of {want.name}", low=1, high=2**20)
        sorts[count, integer(want.alignment, f"alignment of {want.name}", low=1, high=2**20)] += want.copies
    total = sum(count * number for (count, _), number in sorts.items())
    if total > target.tcgen05.columns:  # no order helps
        return _conflict([], [TensorMemoryAllocation(total)], target)
    firsts = _first_columns(sorts)
    columns = tuple(
        Columns(
            want.name if want.copies == 1 else f"{want.name} {i}", firsts[want.count, want.alignment].pop(), want.count
        )
        for want in wants
        for i in range(want.copies)
    )
    end = max((c.first + c.count for c in columns), default=0)
    sizes = allocation_sizes(target.tcgen05)
    allocated = next((size for size in sizes if size >= end), end)
    judged = [TensorMemoryAllocation(allocated), *_sites_of(columns, allocated)]
    broken = list(_said(judged, target))
    return Placement(columns, allocated) if not broken else _conflict(broken, (), target)


def _names(want: Want) -> list[str]:
    return [want.name] if want.copies == 1 else [f"{want.name} {i}" for i in range(want.copies)]


def _conflict(broken: Sequence[Diagnostic], judged: Iterable[Any], target: Target) -> Conflict:
    """Return the refusal; that a number beyond all columns is no power of two either says nothing more."""
    said = [*broken, *_said(judged, target)]
    exceeded = [d for d in said if d.code == "TMEM002"]
    return Conflict(tuple(exceeded or said))


def _sites_of(columns: Sequence[Columns], allocated: int) -> Iterator[Any]:
    for one in columns:
        yield TensorMemoryUse(one.name, one.first, one.count, allocated)
    for one, other in combinations(columns, 2):
        yield TensorMemoryPair(one.name, other.name, one.first, one.count, other.first, other.count)


def _first_columns(sorts: Counter[tuple[int, int]]) -> dict[tuple[int, int], list[int]]:
    """Return where things of each sort (columns, alignment) begin so that all end soonest, last first."""
    kinds = tuple(sorts)
    numbers = tuple(sorts[sort] for sort in kinds)
    states = 1
    for number in numbers:
        states *= number + 1
    if states > MOST_STATES:
        raise InvalidInput(f"{sum(numbers)} things of {len(kinds)} sorts go beyond {MOST_STATES} orders; place fewer")
    # By things placed of each sort: the soonest end, and the sort of the last thing.
    best: dict[tuple[int, ...], tuple[int, int]] = {(0,) * len(kinds): (0, -1)}
    for placed in product(*(range(number + 1) for number in numbers)):
        ends = [(_aligned(best[_less(placed, i)][0], kinds[i][1]) + kinds[i][0], i) for i, n in enumerate(placed) if n]
        if ends:  # of equals, what was asked for first comes first
            best[placed] = min(ends, key=lambda end: (end[0], -end[1]))
    firsts: dict[tuple[int, int], list[int]] = {sort: [] for sort in kinds}
    at = numbers
    while any(at):
        end, last = best[at]
        firsts[kinds[last]].append(end - kinds[last][0])
        at = _less(at, last)
    return firsts


def _less(numbers: tuple[int, ...], i: int) -> tuple[int, ...]:
    return (*numbers[:i], numbers[i] - 1, *numbers[i + 1 :])


def _aligned(column: int, alignment: int) -> int:
    return -(-column // alignment) * alignment


def _rows(kind: Kind, cta_group: int) -> tuple[int, ...]:
    return legal_m(kind, choice(cta_group, "cta_group", GROUPS))[::-1]


def wants_of(
    instruction: Instruction,
    tile: tuple[int, int, int],
    *,
    cta_group: int = 1,
    accumulators: int = 1,
    scales: Scales | None = None,
    scale_stages: int = 1,
    a_stages: int = 0,
) -> tuple[Want, ...]:
    """Return what a tile needs in tensor memory: sums, scale factors of A and B, and A itself if it lies there.

    Args:
        instruction: what multiplies the tile.
        tile: elements of a tile along m, n and k, of both CTAs where two multiply together.
        cta_group: CTAs that multiply together, 1 or 2.
        accumulators: tiles of sums that exist at once.
        scales: of block-scaled kinds, what a scale stands for.
        scale_stages: stages of scale factors that exist at once.
        a_stages: stages of A in tensor memory, 0 where it lies in shared memory.
    """
    (m, n, k), word = tile, instruction.descriptor
    blocks = -(-m // word.m)
    sums = blocks * columns_of_sums(word.m, n, cta_group, sparse=word.sparse)
    wants = [Want("accumulator", sums, copies=accumulators)]
    if scales is not None:
        # Scale factors arrive in atoms of 4 columns; those of B are whole in both CTAs.
        for name, rows in (("A", m // cta_group), ("B", n)):
            columns = scale_columns(rows, -(-k // scales.block))
            wants.append(Want(f"scales of {name}", columns, ATOM_COLUMNS, scale_stages))
    if a_stages:
        columns = blocks * operand_columns(k, word.table.element_bits, sparse=word.sparse)
        wants.append(Want("operand A", columns, copies=a_stages))
    return tuple(wants)


def tensor_memory_placement(
    types: tuple[str, str, str],
    tile: tuple[int, int, int],
    target: str | Target,
    *,
    majors: tuple[Major, Major] = ("K", "K"),
    scales: Scales | None = None,
    cta_group: int = 1,
    accumulators: int = 1,
    scale_stages: int = 1,
    a_stages: int = 0,
) -> tuple[Instruction, Placement]:
    """Return the instruction that multiplies a tile, and the columns of its sums, its scale factors and of A.

    Args:
        types: element types of A, of B and of the sums.
        tile: elements along m, n and k, of both CTAs where two multiply together.
        target: a GPU with tensor memory, such as "sm_100a" or "b200".
        majors: "K" or "MN" for A and for B.
        scales: of block-scaled kinds, what a scale stands for.
        cta_group: CTAs that multiply together, 1 or 2.
        accumulators: tiles of sums that exist at once.
        scale_stages: stages of scale factors that exist at once.
        a_stages: stages of A in tensor memory, 0 where it lies in shared memory.

    Raises:
        NoLegalLayout: no instruction multiplies the tile, or its sums, scales and A do not fit; `diagnostics` say why.
        InvalidInput: an argument has no meaning, or the target has no tensor memory.
        UnknownTarget: no such GPU.

    Source: FACTS TC-04, TC-23, TC-27, TC-28, TC-30.
    """
    gpu = target_called(target)
    m, n, k = integers(tile, "tile", low=1, length=3)
    tile = m, n, k
    counts = [
        integer(n, what, low=low, high=4096)
        for n, what, low in (
            (accumulators, "accumulators", 1),
            (scale_stages, "scale_stages", 1),
            (a_stages, "a_stages", 0),
        )
    ]
    chosen = choose_instruction(
        types, tile, gpu, majors=majors, scales=scales, cta_group=cta_group, a_in_tensor_memory=counts[2] > 0
    )
    if isinstance(chosen, Conflict):
        raise NoLegalLayout(f"no instruction of {gpu} multiplies tiles of {tile}", chosen.diagnostics)
    wants = wants_of(
        chosen,
        tile,
        cta_group=cta_group,
        accumulators=counts[0],
        scales=scales,
        scale_stages=counts[1],
        a_stages=counts[2],
    )
    found = place(wants, gpu)
    if isinstance(found, Conflict):
        raise NoLegalLayout(f"a tile of {tile} does not fit into the tensor memory of {gpu}", found.diagnostics)
    return chosen, found


def choose_instruction(
    types: tuple[str, str, str],
    tile: tuple[int, int, int],
    target: Target,
    *,
    majors: tuple[Major, Major] = ("K", "K"),
    scales: Scales | None = None,
    cta_group: int = 1,
    a_in_tensor_memory: bool = False,
) -> Instruction | Conflict:
    """Return the largest multiply that tiles a tile of m, n and k elements evenly; or the rules that forbid any.

    Of instructions that every rule allows, those that no warning speaks of come first, then those of most rows, then of
    most columns. K is the kind's.

    Args:
        types: element types of A, of B and of the sums.
        tile: elements along m, n and k, of both CTAs where two multiply together.
        target: the GPU.
        majors: "K" or "MN" for A and for B.
        scales: of block-scaled kinds, what a scale stands for.
        cta_group: CTAs that multiply together, 1 or 2.
        a_in_tensor_memory: whether A lies there rather than in shared memory.

    Raises:
        InvalidInput: the target has no tcgen05, no kind multiplies these types, or the kind has no such sums or majors.
    """
    _check(target)
    m, n, k = integers(tile, "tile", low=1, high=2**31, length=3)
    for what, given, wanted in (
        ("types", types, "those of A, of B and of the sums"),
        ("majors", majors, "A's and B's"),
    ):
        if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2 + (what == "types"):
            raise InvalidInput(f"{what} are {shown(given)}; give {wanted}")
    if not isinstance(scales, Scales | None):
        raise InvalidInput(f"scales are {shown(scales)}; give Scales, or None for none")
    kind = kind_of(types[0], types[1], scales)
    found: list[tuple[tuple[int, int, int], Instruction]] = []
    refused: tuple[Diagnostic, ...] = ()
    for rows, columns in product(_rows(kind, cta_group), legal_n(kind, cta_group)[::-1]):
        if m % rows or n % columns or k % kind.k:
            continue
        word = InstructionDescriptor(
            kind.name,
            types[0],
            types[1],
            rows,
            columns,
            d=types[2],
            a_major=majors[0],
            b_major=majors[1],
            scale=scales.dtype if scales else "",
        )
        said = tuple(_said([Tcgen05Mma(word, cta_group, a_in_tensor_memory, scales=scales)], target))
        if any(d.level == "error" for d in said):
            refused = refused or said
        else:
            found.append(((len(said), -rows, -columns), Instruction((rows, columns, word.k), kind.name, word)))
    if found:
        return min(found, key=lambda one: one[0])[1]
    return Conflict(refused or tuple(_said([Tcgen05Tile(kind, (m, n, k), cta_group)], target)))

"""Products with dims: kernels that are chosen at typical extents, and the exact set of extents for which each is right.

One kernel serves as many extents as it can. Up to three more stand in front of it, each for a range of one dim where
it is predicted to take 5% less, or for extents that the others do not compute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from legalsat.analyses.sentences import sentence
from legalsat.analyses.sets.isl_logic import NotAffine, parameters
from legalsat.analyses.sets.regions import (
    IslSet,
    check_names,
    declared,
    disjoint,
    domain,
    holds,
    most_aligned,
    pieces,
    pieces_of,
    read,
    set_where,
)
from legalsat.dims import Dim, at, near, typical_of
from legalsat.errors import LegalSatError
from legalsat.extract.cost.kernel_columns import KernelColumns
from legalsat.extract.cost.kernel_cost import Products
from legalsat.extract.kernels.contract import require_contract
from legalsat.extract.kernels.for_extents import for_any_extents
from legalsat.extract.kernels.joint import Refusal
from legalsat.extract.kernels.kernel_program import kernel_program
from legalsat.extract.kernels.product_class import refusals_of
from legalsat.extract.kernels.product_kernels import each_kernel, times_of
from legalsat.extract.kernels.product_maps import extents, maps_of, stored_type
from legalsat.extract.region.laid_out import open_relayouts, what_to_do
from legalsat.extract.region.region import LegalRegion, Specialisation
from legalsat.extract.search.planner import ONE_AT_A_TIME, NoLegalLayout
from legalsat.logic import Condition, Value, all_of, within
from legalsat.operators.gemm import MOST_EXTENT, Gemm
from legalsat.plans.gemm_plan import GemmPlan, OpenKernel
from legalsat.plans.product_kernel import LINES_ALIKE, ProductKernel
from legalsat.rules import COPY_RULES
from legalsat.targets import Target
from legalsat.units.sites import TmaCopy
from legalsat.units.tensor_map import TensorMap

MOST_KERNELS = 4
WINS = 1.05  # what a range must win for a kernel of its own
CROWDED = 8  # times as slow as the best: what is said of kernels that split k among more blocks than fit
SAMPLES = (16, 64, 256, 1024, 4096, 16384)
OF_EACH_SAMPLE = 6  # kernels, the fastest of the sample
Values = dict[str, int]


@dataclass(frozen=True, slots=True)
class _Choice:
    """A kernel and the extents that it computes, as a set and at the samples."""

    kernel: ProductKernel
    legal: IslSet
    there: tuple[bool, ...]


@lru_cache(maxsize=64)  # islpy keeps some bytes of every operation
def open_gemm_plan(gemm: Gemm, target: Target, refusal: Refusal | None = None) -> GemmPlan:
    """Return the plan of a product with dims.

    Args:
        gemm: the product.
        target: the GPU.
        refusal: says why a kernel may not be taken, "" where it may; every kernel may be when left out.

    Raises:
        NoLegalLayout: the target multiplies no such types.
        NotAffine: a stride multiplies dims in a way that no isl set expresses.
        LegalSatError: no kernel's extents can be said; the message says why.
    """
    broken = refusals_of(gemm, target)
    if broken:
        raise NoLegalLayout(f"no legal {gemm} on {target}", broken)
    check_names(dim.name for dim in gemm.dims)
    with ONE_AT_A_TIME:
        samples = _samples(gemm.dims)
        choices = _choices(gemm, samples, target, refusal)
        chosen = _chosen(gemm, samples, choices, target)
        parts, _ = disjoint(domain(gemm.dims), [one.legal for one in chosen])
        found = tuple(
            OpenKernel(one.kernel, str(part.coalesce()), sentence(part.coalesce(), gemm.dims))
            for one, part in zip(chosen, parts, strict=True)
            if not part.is_empty()
        )
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.union(part)
        guard = whole.coalesce()
        said = sentence(guard, gemm.dims)
    for one in found:
        require_contract(kernel_program(one.kernel, stored_type(gemm, one.kernel).bytes), target)
    first = next((one for one in found if bool(holds(pieces_of(one.set), list(samples[0].values())))), found[-1])
    return GemmPlan(gemm, target, first.kernel, guard=str(guard), guard_sentence=said, choices=found)


def legal_extents(gemm: Gemm, kernel: ProductKernel, target: Target) -> IslSet:
    """Return the values, of those that the dims declare, at which a kernel computes a product.

    Raises:
        NotAffine: a rule multiplies open numbers.
    """
    names = [dim.name for dim in gemm.dims]
    numbers = parameters(names)
    asked = (condition for _, condition in requirements(gemm, kernel, numbers, target) if condition is not True)
    return set_where(all_of(declared(gemm.dims, numbers), *asked), names)


def requirements(
    gemm: Gemm, kernel: ProductKernel, numbers: Mapping[str, Value], target: Target
) -> Iterator[tuple[str, Condition]]:
    """Yield what must hold where the dims are `numbers`, ints or open: a rule's code, or what the kernel asks."""
    rows, _ = extents(gemm, kernel)
    for extent in (gemm.m, gemm.n, gemm.k):
        yield "extents of 32 bits", within(1, at(extent, numbers), MOST_EXTENT)
    yield "a row of every phase", at(gemm.k if kernel.slides else rows, numbers) >= kernel.phases
    for extent in (gemm.m, gemm.n, gemm.k) if kernel.woven else ():
        yield "a line of every phase", at(extent, numbers) >= LINES_ALIKE
    yield "k-tiles", at(gemm.k, numbers) > (kernel.least_k_tiles - 1) * kernel.tile[2] * max(1, kernel.slides)
    for side, placed in maps_of(gemm, kernel).items():
        for one in placed:
            site = _site(one.map, numbers, stores=side == "C")
            for rule in COPY_RULES:
                if rule.level == "error":
                    yield from ((rule.code, requirement.condition) for requirement in rule(site, target))


def product_region(gemm: Gemm, target: Target) -> LegalRegion:
    """Return where the plan of a product with dims is legal; what `legal_region` of a movement is.

    Raises:
        LegalSatError: as `open_gemm_plan`.
    """
    plan = open_gemm_plan(gemm, target)
    with ONE_AT_A_TIME:
        rest = domain(gemm.dims).subtract(read(plan.guard)).coalesce()
        family = [Specialisation(one.set, one.sentence, plan, one.kernel) for one in plan.choices]
        if not rest.is_empty():
            family.append(
                Specialisation(str(rest), sentence(rest, gemm.dims), None, note=_left_out(gemm, target, rest))
            )
    return LegalRegion(gemm.dims, plan.guard, plan.guard_sentence, plan, tuple(family), (), gemm, target, None)


def _left_out(gemm: Gemm, target: Target, rest: IslSet) -> str:
    """Return what keeps a plan from the values in a set, and what to do, at one of them near to typical ones."""
    names, known = [dim.name for dim in gemm.dims], pieces(rest)
    for values in (*_samples(gemm.dims), dict(zip(names, most_aligned(rest), strict=True))):
        if bool(holds(known, [values[name] for name in names])) and (said := what_to_do(gemm, target, values)):
            return said
    return ""


def _site(tm: TensorMap, numbers: Mapping[str, Value], *, stores: bool) -> TmaCopy:
    return replace(
        TmaCopy.of(tm, stores=stores),
        global_dim=tuple(at(one, numbers) for one in tm.global_dim),
        global_stride=tuple(at(one, numbers) for one in tm.global_stride),
        address=at(tm.address, numbers),
    )


def _samples(dims: Sequence[Dim]) -> list[Values]:
    """Return typical values, then values of one dim each beside typical ones of the others."""
    typical = typical_of(dims)
    found = [typical]
    for dim in dims:
        values = [near(dim, one) for one in SAMPLES]
        found += [{**typical, dim.name: value} for value in (*values, _beside(dim, typical)) if value <= dim.max]
    unlike = {tuple(sorted(one.items())): one for one in found}.values()
    return [one for one in unlike if all(value <= MOST_EXTENT for value in one.values())] or [typical]


def _beside(dim: Dim, typical: Values) -> int:
    """Return a value that alignment does not favour, which shows what a kernel computes, not where it wins."""
    return typical[dim.name] + dim.multiple_of


def _choices(gemm: Gemm, samples: list[Values], target: Target, refusal: Refusal | None) -> list[_Choice]:
    """Return the fastest kernels of every sample whose extents can be said."""
    kernels: dict[ProductKernel, None] = {}
    said, error = "", None
    for values in samples:
        bound = gemm.bind(values)
        for _, kernel in islice(_taken(gemm, bound, target), OF_EACH_SAMPLE):
            why = refusal(bound, kernel) if refusal is not None else ""
            said = said or why
            if not why:
                kernels[kernel] = None
    found, sets = [], dict[ProductKernel, IslSet]()
    for kernel in kernels:
        listed = for_any_extents(kernel)
        try:
            legal = sets[listed] if listed in sets else sets.setdefault(listed, legal_extents(gemm, listed, target))
        except NotAffine as refused:
            error = error or refused
            continue
        known = pieces(legal)
        there = tuple(bool(holds(known, [one[dim.name] for dim in gemm.dims])) for one in samples)
        if any(there):
            found.append(_Choice(kernel, legal, there))
    if not found:
        does = what_to_do(gemm, target, samples[0]) or "bind them, or state what they are multiples of"
        since = f", the cheapest since {said}" if said else ""
        raise error or LegalSatError(f"no kernel on {target} takes {gemm} with its dims open{since}; {does}")
    return found


def _taken(gemm: Gemm, bound: Gemm, target: Target) -> Iterator[tuple[float, ProductKernel]]:
    """Yield kernels that lay no operand out anew whose extents are open, align none, and cut no k."""
    for time, kernel in each_kernel(bound, target):
        if kernel.slices == 1 and not kernel.stream_k and not any(kernel.aligned) and not open_relayouts(gemm, kernel):
            yield time, kernel


def _times(gemm: Gemm, samples: list[Values], choices: list[_Choice], target: Target) -> NDArray[np.float64]:
    """Return predicted nanoseconds, a row for each sample; infinite where a kernel is not legal."""
    products = Products.of([gemm.bind(values) for values in samples], target)
    times = times_of(KernelColumns.of(tuple(one.kernel for one in choices)), products, target)
    return np.where(np.array([one.there for one in choices]).T, times, np.inf)


def _chosen(gemm: Gemm, samples: list[Values], choices: list[_Choice], target: Target) -> list[_Choice]:
    """Return at most four kernels with the extents that each is for: those of ranges, the main one, those of the rest.

    A value is computed by the first of them that has it.
    """
    times = _times(gemm, samples, choices, target)
    covered = [sum(one.there) for one in choices]
    slowness = np.where(times < np.inf, times, CROWDED * np.min(times, axis=1, keepdims=True)).sum(axis=0)
    order = sorted(range(len(choices)), key=lambda i: (-covered[i], times[0, i], slowness[i]))
    best, main = times[:, order[0]].copy(), choices[order[0]]
    left = np.array([not there for there in main.there])
    front: list[_Choice] = []
    ranges: list[tuple[list[int], IslSet]] = []
    rest: list[_Choice] = []
    while len(front) + len(rest) + 1 < MOST_KERNELS:
        unserved = [(sum(left & np.array(one.there)), -number) for number, one in enumerate(choices)]
        if left.any() and max(unserved)[0]:
            one = choices[-max(unserved)[1]]
            rest.append(one)
            best = np.where(left, times[:, choices.index(one)], best)
            left &= ~np.array(one.there)
            continue
        offers = [
            (score, -number, where, run)
            for number, one in enumerate(choices)
            for score, where, run in _runs(gemm, samples, best, times[:, number], one.there)
        ]
        if not offers:
            break
        _, number, where, run = max(offers, key=lambda offer: offer[:2])
        where = _beside_others(where, run, samples, ranges)
        ranges.append((run, where))
        front.insert(0, replace(choices[-number], legal=choices[-number].legal.intersect(where)))
        best[run] = np.minimum(best[run], times[run, -number])
    return [*front, main, *rest]


def _beside_others(
    where: IslSet, run: list[int], samples: list[Values], ranges: list[tuple[list[int], IslSet]]
) -> IslSet:
    """Return a range less those found before of other dims: what wins there at typical values may not win in them."""
    dims = _varied(run, samples)
    for other, found in ranges:
        if not dims & _varied(other, samples):
            where = where.subtract(found)
    return where


def _varied(run: list[int], samples: list[Values]) -> set[str]:
    """Return the dims along which samples of a range differ from typical ones; all for those that are typical."""
    found = {name for i in run for name, value in samples[i].items() if value != samples[0][name]}
    return found or set(samples[0])


def _runs(
    gemm: Gemm, samples: list[Values], best: NDArray[np.float64], times: NDArray[np.float64], there: Sequence[bool]
) -> Iterator[tuple[float, IslSet, list[int]]]:
    """Yield where a kernel wins: how much, the range of one dim as a set, and the samples in it.

    A range goes on over samples that the kernel does not compute, since its set leaves those out.
    """
    wins = (times < np.inf) & (best > WINS * times)
    names = [dim.name for dim in gemm.dims]
    numbers = parameters(names)
    for dim in gemm.dims:
        others = {name: value for name, value in samples[0].items() if name != dim.name}
        beside = _beside(dim, samples[0])
        line = [
            i for i, one in enumerate(samples) if others.items() <= one.items() and there[i] and one[dim.name] != beside
        ]
        line.sort(key=lambda i: samples[i][dim.name])
        run: list[int] = []
        low, below = dim.min, dim.min - 1
        for i in line:
            if wins[i]:
                low = low if run else below + 1
                run.append(i)
            elif run:
                yield _run(run, within(low, numbers[dim.name], below), names, best, times)
                run = []
            below = samples[i][dim.name]
        if run:
            yield _run(run, numbers[dim.name] >= low, names, best, times)


def _run(
    run: list[int], where: Condition, names: list[str], best: NDArray[np.float64], times: NDArray[np.float64]
) -> tuple[float, IslSet, list[int]]:
    won = np.minimum(np.log(best[run] / times[run]), np.log(CROWDED))
    return float(won.sum()), set_where(where, names), run

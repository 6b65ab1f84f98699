"""What saturating laws finds that searching breadth first with the same laws does not, and what each takes.

`python -m bench.ablation` prints these tables too. Products are those of `bench.one_plan`, each law of theirs switched
off in turn; movements are the tiles of `bench.speed`, of which each is saturated and searched by itself.

Times are of one processor, the first saturation not counted, which declares the laws. Search over products has no end,
since C = ((C)^T)^T: it is timed until the last form was met, as if it knew that, and until it gives up.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.gpu.gemm_shapes import Shape, product_of
from bench.one_plan import drawn
from bench.search.program_exhaustive import forms
from bench.search.programs import programs
from bench.speed_problems import tiles
from legalsat.errors import LegalSatError
from legalsat.extract.composed.classes import matrices_of
from legalsat.extract.composed.extraction import extract
from legalsat.extract.composed.options import Options
from legalsat.extract.composed.planner import program_plan
from legalsat.extract.cost.kernel_cost import Products
from legalsat.extract.kernels.product_class import ProductClass, class_of
from legalsat.extract.kernels.product_forms import Facts, forms_of
from legalsat.extract.kernels.product_kernels import times_of
from legalsat.extract.kernels.product_numbers import table_of
from legalsat.extract.search import search
from legalsat.operators import access_of
from legalsat.operators.access import Access
from legalsat.operators.gemm import Gemm
from legalsat.operators.grouped import GroupedGemm
from legalsat.operators.program import Program
from legalsat.rules.rewrites import LAWS, PRODUCT_LAWS, VALUE_LAWS
from legalsat.rules.rewrites.values import asked_for
from legalsat.targets import target
from legalsat.tensor import Tensor
from legalsat.terms.products import CONSTRUCTORS
from legalsat.terms.tree_graph import TermGraph
from legalsat.terms.trees import Term, TermLaw, reached, subterms
from legalsat.units.means import ANY

TARGET, COUNT, SEED = "h200", 200, 7


@dataclass(slots=True)
class Compared:
    """What two ways of applying laws found, and the seconds that each took, one for each start.

    Attributes:
        of: what was rewritten. found: by both. saturated, searched: by one alone.
        saturation, search: seconds. given_up: seconds until search gives up; none where it ends.
    """

    of: str
    found: int = 0
    saturated: int = 0
    searched: int = 0
    saturation: list[float] = field(default_factory=list)
    search: list[float] = field(default_factory=list)
    given_up: list[float] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """Return what was found, and mean milliseconds."""
        return {
            "of": self.of,
            "starts": len(self.saturation),
            "found": self.found,
            "by_saturation_alone": self.saturated,
            "by_search_alone": self.searched,
            "saturation_ms": round(1e3 * _mean(self.saturation), 2),
            "search_ms": round(1e3 * _mean(self.search), 2),
            "search_gives_up_after_ms": round(1e3 * _mean(self.given_up), 2) if self.given_up else None,
        }

    def __str__(self) -> str:
        ended = f", {1e3 * _mean(self.given_up):.0f} ms until it gives up" if self.given_up else ""
        return (
            f"{self.of}: {len(self.saturation)} starts, {self.found} found by both, {self.saturated} by saturation "
            f"alone, {self.searched} by search alone; saturation takes {1e3 * _mean(self.saturation):.1f} ms, "
            f"search {1e3 * _mean(self.search):.1f} ms{ended}"
        )


GROUPED = (
    (8192, 2048, 2048, 8),
    (4096, 1024, 512, 64),
    (16384, 4096, 4096, 8),
    (8192, 2048, 2047, 64),
)  # rows, n, k and groups
ALONG_K = ((2048, 1024, 8192, 64), (512, 4096, 16384, 8))  # rows, n, k of all groups, and groups


@dataclass(frozen=True, slots=True)
class Needed:
    """What products lose without a law.

    Attributes:
        law: its name. refused: products without a kernel then. dearer: with a dearer one.
        mean, worst: how many times as long those are predicted to take.
    """

    law: str
    refused: int
    dearer: int
    mean: float
    worst: float

    def __str__(self) -> str:
        longer = f", which take {self.mean:.2f} times as long, {self.worst:.2f} at worst" if self.dearer else ""
        return f"{self.law:24} {self.refused:4} have no kernel, {self.dearer:4} a dearer one{longer}"


def rare() -> list[Gemm]:
    """Return products of what few random ones have.

    A long k, which slices of k gain by; sums that slide, with C by columns; lines across k that are woven; members that
    begin anywhere; groups along k that lie along it; elements of which none lie side by side.
    """
    return [
        product_of(Shape(512, 512, 16384)),
        product_of(Shape(498, 3318, 13031, "NN")),
        product_of(Shape(10358, 252, 7894, "TN")),
        product_of(Shape(1290, 5407, 5026, "NN")),
        Gemm(577, 64, 577, "bf16", batch=16),
        GroupedGemm(512, 512, 4096, "e4m3", groups=8, along="k"),
        Gemm(1000, 512, 640, "bf16", a=Tensor((1000, 640), "bf16", (2000, 3))),
        Gemm(1000, 512, 640, "bf16", c=Tensor((1000, 512), "bf16", (2000, 3))),
    ]


def products(count: int = COUNT, seed: int = SEED) -> list[Gemm]:
    """Return random products that laws can do something about, some of groups of rows and along k, and rare ones."""
    r = random.Random(seed)
    found = [one for one in (drawn(r) for _ in range(count)) if class_of(one, target(TARGET)) is not None]
    found += [GroupedGemm(m, n, k, "bf16", groups=groups) for m, n, k, groups in GROUPED]
    for m, n, k, groups in ALONG_K:
        a, b = (Tensor((rows, k), "bf16", (1, rows)) for rows in (m, n))
        found.append(GroupedGemm(m, n, k, "bf16", groups=groups, along="k", a=a, b=b))
    return found + rare()


def compared_products(gemms: Sequence[Gemm]) -> Compared:
    """Compare the terms of kernels, for each class of facts once."""
    found, nowhere = Compared("forms of products"), Term("nowhere")
    with TermGraph(CONSTRUCTORS, PRODUCT_LAWS):
        pass
    for facts in dict.fromkeys(Facts.of(_class(one)) for one in gemms):
        begun = time.process_time()
        with TermGraph(CONSTRUCTORS, PRODUCT_LAWS) as graph:
            saturated = graph.equal_to(facts.term)
        then = time.process_time()
        reached(facts.term, saturated, PRODUCT_LAWS)
        met = time.process_time()
        try:
            searched = set(reached(facts.term, [nowhere], PRODUCT_LAWS))
        except LegalSatError:
            searched = set(saturated)
        found.given_up.append(time.process_time() - met)
        found.saturation.append(then - begun)
        found.search.append(met - then)
        found.found += len(searched & set(saturated))
        found.saturated += len(set(saturated) - searched)
    return found


def compared_movements() -> Compared:
    """Compare the modes of tiles, by whatever means."""
    found = Compared("modes of tiles")
    starts = dict.fromkeys(
        access_of(one.operator, one.operator.tile) for one in tiles() if one.operator.tile is not None
    )
    for number, start in enumerate(starts):
        if len(start.modes) > search.MOST_REORDERED:
            continue
        begun = time.process_time()
        saturated = {one.access.modes for one in search.candidates([start])[0] if one.access.by == ANY}
        then = time.process_time()
        searched = _searched(start)
        if number:
            found.saturation.append(then - begun)
            found.search.append(time.process_time() - then)
        found.found += len(searched & saturated)
        found.saturated += len(saturated - searched)
        found.searched += len(searched - saturated)
    return found


def _searched(start: Access) -> set[search.Modes]:
    laws = tuple(law for law in LAWS if all(equation.means is None for equation in law.equations))
    reach = search._Reach(start, laws)
    while reach.size < search.MAX_STATES and reach.grow():
        pass
    states = {search.canonical(Access(one.word, search._without_units(one.modes), ANY)) for one in reach.paths}
    return {one.modes for one in states}


def compared_programs() -> Compared:
    """Compare the forms of all results of programs: classes of the e-graph, and whole terms, breadth first."""
    found = Compared("forms of programs")
    matrices_of(next(iter(programs().values())))
    for program in programs().values():
        begun = time.process_time()
        held = matrices_of.__wrapped__(program)
        then = time.process_time()
        searched = forms(program)
        found.search.append(time.process_time() - then)
        found.saturation.append(then - begun)
        made = {node.operator for nodes in held.nodes for node in nodes}
        assert all(one.name in made for form in searched for term in form for one in subterms(term))
        found.found += len(searched)
    return found


@dataclass(frozen=True, slots=True)
class NeededBy:
    """What programs lose without a law: the dearer ones, and how many times as long they are predicted to take."""

    law: str
    programs: dict[str, float]

    def __str__(self) -> str:
        dearer = ", ".join(f"{name} {times:.3f} times" for name, times in self.programs.items())
        return f"{self.law:24} {dearer or 'none of them dearer'}"


def needed_by_programs(some: Mapping[str, Program]) -> list[NeededBy]:
    """Switch off each law that some program's plan was derived by, and return what that costs these programs."""
    plans = {name: program_plan(program, target(TARGET)) for name, program in some.items()}
    used = {name: {one.law for one in plan.derivation} for name, plan in plans.items()}
    rows = []
    for law in (one for one in VALUE_LAWS if one != asked_for):  # which marks products alone
        laws = tuple(one for one in VALUE_LAWS if one != law)
        times = {
            name: _planned(some[name], laws) / plan.cost.nanoseconds
            for name, plan in plans.items()
            if law.name in used[name]
        }
        rows.append(NeededBy(law.name, {name: round(ratio, 3) for name, ratio in times.items() if ratio > 1}))
    return rows


def _planned(program: Program, laws: tuple[TermLaw, ...]) -> float:
    return extract(Options(program, target(TARGET), laws)).nanoseconds


def needed(gemms: Sequence[Gemm]) -> list[Needed]:
    """Switch each law of products off and return what that costs."""
    best = [_fastest(one, PRODUCT_LAWS) for one in gemms]
    rows = []
    for law in PRODUCT_LAWS:
        laws = tuple(one for one in PRODUCT_LAWS if one != law)
        times = [_fastest(one, laws) for one in gemms]
        pairs = [(before, after) for before, after in zip(best, times, strict=True) if before < math.inf]
        longer = [after / before for before, after in pairs if before < after < math.inf]
        mean = math.exp(_mean([math.log(one) for one in longer])) if longer else 1.0
        refused = sum(after == math.inf for _, after in pairs)
        rows.append(Needed(law.name, refused, len(longer), mean, max(longer, default=1.0)))
    return rows


def _fastest(gemm: Gemm, laws: tuple[TermLaw, ...]) -> float:
    one, products = _class(gemm), Products.of([gemm], target(TARGET))
    table = table_of(list(enumerate(forms_of(Facts.of(one), laws))), one, target(TARGET))
    return math.inf if table is None else float(np.min(times_of(table.columns, products, target(TARGET))))


def _class(gemm: Gemm) -> ProductClass:
    found = class_of(gemm, target(TARGET))
    assert found is not None
    return found


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0

"""Legal regions: the set is what brute force over the rules says, the sentence says the set, and proofs can fail."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import islpy as isl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import legalsat as ls
from legalsat.analyses.sentences import sentence
from legalsat.analyses.sets.regions import domain, holds, pieces, pieces_of, read
from legalsat.cli import main
from legalsat.dims import Dim, Extent
from legalsat.extract.region.region import family
from legalsat.extract.search.views import storable
from legalsat.operators import Copy, Move, Transpose
from legalsat.plans.movement_plan import MovementPlan, View
from legalsat.rules import COPY_RULES
from legalsat.targets import target
from legalsat.units.sites import TmaCopy

H200 = target("h200")
D, T = ls.Dim, ls.Tensor
M, K, N = D("M", max=2**34), D("K"), D("N", max=1000)


# What sentences mean, read by other means than they are written.


def number(text: str, values: Mapping[str, int]) -> int:
    """Return the value of a sum such as 2^31, K + 1 or 2*K + N."""
    return int(sum(np.prod([factor(f, values) for f in term.split("*")], dtype=object) for term in text.split(" + ")))


def factor(text: str, values: Mapping[str, int]) -> int:
    base, _, exponent = text.partition("^")
    return values[text] if text in values else int(base) ** int(exponent or 1)


COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "a multiple of": lambda value, n: value % n == 0,
    "no multiple of": lambda value, n: value % n != 0,
    "at least": lambda value, n: value >= n,
    "at most": lambda value, n: value <= n,
    "below": lambda value, n: value < n,
    "above": lambda value, n: value > n,
}
REMAINDER = re.compile(r"leave (anything but |none of )?([0-9a-z, ]+) when divided by (\d+)")


def said(words: str, value: int, values: Mapping[str, int]) -> bool:
    """Whether a value is as the words after "must" say."""
    for match in REMAINDER.finditer(words):
        listed = {int(n) for n in re.findall(r"\d+", match[2])}
        if " to " in match[0]:
            listed = set(range(min(listed), max(listed) + 1))
        if (value % int(match[3]) in listed) == bool(match[1]):
            return False
    for phrase in re.split(r", | and ", REMAINDER.sub("", words)):
        what = phrase.removeprefix("and ").strip().removeprefix("be ")
        name = next((name for name in COMPARISONS if what.startswith(f"{name} ")), None)
        if what in {"odd", "even"}:
            fine = value % 2 == (what == "odd")
        elif name is not None:
            fine = COMPARISONS[name](value, number(what.removeprefix(name).strip(), values))
        else:
            fine = not what or value == number(what, values)
        if not fine:
            return False
    return True


def part_said(part: str, values: Mapping[str, int]) -> bool:
    clauses = re.split(r"(?:; | and )(?=[A-Z0-9+* ]+ must )", part)
    pairs = [clause.split(" must ") for clause in clauses]
    return all(said(words, number(who, values), values) for who, words in pairs)


def sentence_holds(text: str, values: Mapping[str, int]) -> bool:
    """Whether the values are as a sentence says; only where it has words for all it says."""
    if text in {"any value", "no value"}:
        return text == "any value"
    common, _, parts = text.rpartition("; either ")
    return (not common or part_said(common, values)) and any(part_said(p, values) for p in parts.split(", or "))


def isl_holds(region: Any, values: Mapping[str, int]) -> bool:
    for i, value in enumerate(values.values()):
        region = region.fix_val(isl.dim_type.param, i, isl.Val.read_from_str(isl.DEFAULT_CONTEXT, str(value)))
    return not region.is_empty()


SENTENCES = {
    "K mod 8 = 0 and M < 2147483648": "K must be a multiple of 8; M must be below 2^31",
    "K mod 8 = 0 and K <= 100": "K must be a multiple of 8 and at most 96",
    "K mod 2 = 1 and 99 <= K": "K must be odd and at least 99",
    "K mod 2 = 0": "K must be even",
    "K mod 8 = 4 and K < 2147483648": "K must leave 4 when divided by 8 and be at most 2^31",
    "K mod 8 > 0": "K must be no multiple of 8",
    "K mod 8 = 0 or K mod 8 = 3": "K must leave 0 or 3 when divided by 8",
    "K mod 8 = 0 or K mod 8 = 4": "K must be a multiple of 4",
    "K mod 3 = 0 or K mod 3 = 2": "K must leave anything but 1 when divided by 3",
    "K mod 8 >= 3": "K must leave 3 to 7 when divided by 8",
    "K mod 4 = 0 or K = 5": "K must be 5, or K must be a multiple of 4",
    "K = 7": "K must be 7",
    "K mod 16 = 0 and K <= 4294967295": "K must be a multiple of 16 and below 2^32",
    "K >= 16384": "K must be at least 2^14",
    "K mod 8 = 0 and (M = 1 or N >= 7)": "K must be a multiple of 8; either M must be 1, or N must be at least 7",
    "N >= K": "N must be at least K",
    "K mod 8 = 0 and 2N + K <= 100": "K must be a multiple of 8; K + 2*N must be at most 100",
    "K + N = 100": "K + N must be 100",
    "K >= N + 3": "K must be at least N + 3",
    "N >= 1": "any value",
    "N <= 0": "no value",
}


@pytest.mark.parametrize("condition", SENTENCES)
def test_sentences(condition: str) -> None:
    dims = (D("K", max=2**33), M, N)
    region = domain(dims).intersect(read(f"[K, M, N] -> {{ [] : {condition} }}"))
    assert sentence(region, dims) == SENTENCES[condition]


def test_what_dims_declare_is_not_said_again() -> None:
    dims = (D("K", multiple_of=12, min=24, max=4096),)
    for condition, words in (
        ("K mod 4 = 0", "any value"),
        ("K mod 24 = 0", "K must be a multiple of 8"),
        ("K >= 10 and K <= 4095", "any value"),
        ("K >= 30", "K must be at least 36"),
    ):
        assert sentence(domain(dims).intersect(read(f"[K] -> {{ [] : {condition} }}")), dims) == words


def test_what_has_no_words_is_said_in_isls() -> None:
    dims = (K, N)
    region = domain(dims).intersect(read("[K, N] -> { [] : (K + N) mod 8 = 3 and K mod 2 = 0 }"))
    assert sentence(region, dims) == "K must be even; K and N must satisfy (-3 + K + N) mod 8 = 0"


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """Draw what sets are made of: residues, bounds and couplings of K and N, met and joined."""
    name, divisor = draw(st.sampled_from("KN")), draw(st.sampled_from((2, 3, 4, 8, 12)))
    bound = draw(st.integers(1, 30))
    atoms = st.sampled_from(
        (
            f"{name} mod {divisor} = {bound % divisor}",
            f"{name} mod {divisor} >= {bound % divisor}",
            f"{name} <= {bound}",
            f"{name} >= {bound}",
            "N >= K",
            f"K + N <= {bound}",
        )
    )
    parts = draw(st.lists(st.lists(atoms, min_size=1, max_size=3), min_size=1, max_size=3))
    return " or ".join(f"({' and '.join(part)})" for part in parts)


@settings(deadline=None, max_examples=80)
@given(conditions(), st.sampled_from((1, 2, 4)))
def test_sentences_say_their_sets(condition: str, multiple: int) -> None:
    dims = (D("K", multiple_of=multiple, max=28), D("N", max=28))
    region = domain(dims).intersect(read(f"[K, N] -> {{ [] : {condition} }}"))
    for part in (region, domain(dims).subtract(region)):
        words = sentence(part, dims)
        if "satisfy" in words:
            continue
        for k, n in itertools.product(range(multiple, 29, multiple), range(1, 29)):
            values = {"K": k, "N": n}
            assert sentence_holds(words, values) == isl_holds(part, values), (values, words, str(part))


BIG = st.integers(-(2**70), 2**70) | st.sampled_from((0, 8, 2**31, 2**32, 2**63 - 8, 2**63, 2**64 + 8))


@settings(deadline=None, max_examples=150)
@given(conditions(), BIG, BIG)
def test_membership_is_isls_for_integers_of_any_size(condition: str, k: int, n: int) -> None:
    region = read(f"[K, N] -> {{ [] : {condition} }}")
    assert bool(holds(pieces(region), (k, n))) == isl_holds(region, {"K": k, "N": n})


# Regions against the rules.


@cache
def region_of(operator: Move) -> ls.LegalRegion:
    return ls.legal_region(operator, H200)


def at(extent: Extent, grid: Mapping[str, NDArray[np.int64]]) -> Any:
    """Return an extent on a grid of values of its dims."""
    if isinstance(extent, int):
        return extent
    if isinstance(extent, Dim):
        return grid[extent.name]
    return extent.coefficient * np.prod([grid[d.name] for d in extent.dims], axis=0)


def brute_force(found: MovementPlan, grid: Mapping[str, NDArray[np.int64]]) -> NDArray[np.bool_]:
    """Return where on a grid the plan's maps break no rule; its tensors' axes run from slow to fast in memory."""
    legal = np.ones_like(next(iter(grid.values())), dtype=bool)
    for side in ("source", "target"):
        end = getattr(found.operator, side)
        extents = [at(n, grid) for n in reversed(end.shape)]
        strides = [at(s, grid) * end.dtype.bits for s in reversed(end.strides)]
        drawn = [(v, tm) for v, tm in zip(found.views, found.tensor_maps, strict=False) if v.side == side]
        for view, tm in drawn:
            site = replace(
                TmaCopy.of(tm, stores=side == "target"),
                global_dim=tuple(extents),
                global_stride=tuple(s // 8 for s in strides[1:]),
                inner_stride_bits=strides[0],
                tile=view.tile,
            )
            for rule in COPY_RULES:
                for requirement in rule(site, H200) if rule.level == "error" else ():
                    legal &= requirement.condition
        if not drawn:
            shape = np.broadcast_arrays(legal, *extents, *strides)[1:]
            for place in np.ndindex(legal.shape):
                numbers = [int(column[place]) for column in shape]
                half = len(extents)
                view = View(side, (), tuple(numbers[:half]), tuple(numbers[half:]), ())
                legal[place] &= storable(view, end.dtype.bits, end.align)
    return legal


def check_against_brute_force(region: ls.LegalRegion, ranges: Mapping[str, Iterable[int]]) -> None:
    """Compare a region with the rules on a grid of values, in it all that the dims declare in these ranges."""
    assert region.plan is not None
    dims = {dim.name: dim for dim in region.dims}
    axes = [[v for v in ranges[n] if d.min <= v <= d.max and v % d.multiple_of == 0] for n, d in dims.items()]
    grid = dict(zip(dims, np.meshgrid(*map(np.array, axes), indexing="ij"), strict=True))
    legal = brute_force(region.plan, grid)
    words = region.sentence
    for place in np.ndindex(legal.shape):
        values = {name: int(column[place]) for name, column in grid.items()}
        assert region.holds(**values) == legal[place], (values, words)
        assert "satisfy" in words or sentence_holds(words, values) == legal[place], (values, words)
        assert sum(bool(holds(pieces_of(one.set), list(values.values()))) for one in region.family) == 1


def one_of(*extents: Extent) -> st.SearchStrategy[Extent]:
    return st.sampled_from(extents)


@st.composite
def problems(draw: st.DrawFn) -> Move:
    """Draw copies and transposes of matrices and stacks, with dims here and there."""
    rows = draw(one_of(D("M", max=50), D("M", min=3, max=9), 24))
    columns = draw(st.sampled_from((D("K", max=300), D("K", max=300, multiple_of=4), D("K", min=17, max=200))))
    element = draw(st.sampled_from(("u8", "bf16", "fp32")))
    row = 16 * 8 // {"u8": 8, "bf16": 16, "fp32": 32}[element]
    tile = (draw(st.sampled_from((8, 16, 32))), row * draw(st.sampled_from((1, 2, 4))))
    align = draw(st.sampled_from((256, 16)))
    shape: tuple[Extent, ...] = (rows, columns)
    kind = draw(st.sampled_from(("dense", "pitch", "open pitch", "stack", "transpose")))
    if kind == "pitch":
        strides: tuple[Extent, ...] = (draw(st.sampled_from((512, 320, 304))), 1)
        return Copy(T(shape, element, strides, align), T(shape, element, strides, align), tile=tile)
    if kind == "open pitch":
        pitch = draw(st.sampled_from((D("N", max=300), D("N", min=100, max=300, multiple_of=2))))
        return Copy(T(shape, element, align=align), T(shape, element, (pitch, 1), align), tile=tile)
    if kind == "stack":
        many = draw(one_of(D("B", max=4), 3))
        return Copy(T((many, *shape), element, align=align), tile=(1, *tile))
    if kind == "transpose":
        return Transpose(T(shape, element), tile=(tile[1], tile[1]))
    return Copy(T(shape, element, align=align), tile=tile)


@settings(deadline=None, max_examples=40)
@given(problems())
def test_regions_are_what_brute_force_finds(operator: Move) -> None:
    region = region_of(operator)
    some = (*range(1, 34), 96, 112, 152, 160, 180, 196, 200, 300)
    two = len(region.dims) < 3
    columns, pitches = (range(1, 301), some) if two else (some, (1, 7, 8, 24, 31, 100, 104, 160, 200, 299, 300))
    check_against_brute_force(region, {"B": range(1, 5), "M": (1, 3, 8, 9), "K": columns, "N": pitches})
    proof = region.prove(samples=60)
    assert proof.holds and proof.equivalent, proof


def test_what_threads_store_must_not_overlap() -> None:
    """Rows of 14 bytes end inside a granule, so threads store them: rows no closer than 7 elements, or one row."""
    rows = D("M", max=50)
    operator = Copy(T((rows, 7), "bf16", (8, 1)), T((rows, 7), "bf16", (N, 1)), tile=(64, 8))
    region = region_of(operator)
    assert region.plan is not None and region.plan.store == "threads"
    assert region.sentence == "M must be 1, or N must be at least 7"
    check_against_brute_force(region, {"M": range(1, 51), "N": range(1, 60)})
    assert region.prove().equivalent


PITCH = Copy(T((64, 64), "u8", (D("P", max=64) * D("Q", max=64), 1)), tile=(64, 64))
COUPLED = Copy(T((M, K), "bf16"), T((M, K), "bf16", (D("N", max=2**20), 1)), tile=(64, 64))
MATRIX = Copy(T((M, K), "bf16"), tile=(64, 64))


def test_a_product_of_dims_is_aligned_where_its_factors_are_together() -> None:
    """Rows P*Q bytes apart: 16 divides the product in five ways."""
    region = region_of(PITCH)
    for p, q in itertools.product(range(1, 65), repeat=2):
        assert region.holds(P=p, Q=q) == (p * q % 16 == 0), (p, q)
        assert sentence_holds(region.sentence, {"P": p, "Q": q}) == (p * q % 16 == 0)
    assert region.prove().equivalent


def test_a_product_that_passes_a_limit_is_refused() -> None:
    with pytest.raises(ls.InvalidInput, match="state smaller largest values of P, Q"):
        ls.legal_region(Copy(T((64, 64), "u8", (D("P") * D("Q"), 1)), tile=(64, 64)), H200)


def test_a_region_in_words() -> None:
    """16-byte rows of bf16 are 8 elements; coordinates are signed 32-bit numbers."""
    region = ls.legal_region(T((M, K), "bf16"), "h200", tile=(64, 64))
    assert region.sentence == "K must be a multiple of 8 and below 2^31; M must be below 2^31"
    assert region.holds(M=2**31 - 1, K=2**31 - 8) and region.holds(M=1, K=8)
    assert not region.holds(M=2**31, K=8)
    assert not region.holds(M=1, K=2**31) and not region.holds(M=0, K=8) and not region.holds(M=-3, K=2**70)
    assert region.family[-1].sentence == "K must be odd"
    assert str(region).splitlines()[-1] == "  by threads in 2 bytes: K must be odd"
    assert str(region).splitlines()[0].endswith(region.sentence)
    assert region.plan is not None and region.plan.guard == region.set


def test_coupled_dims_in_words() -> None:
    region = region_of(COUPLED)
    assert "N must be at least K" in region.sentence and "M must be 1" in region.sentence
    assert region.holds(M=5, K=64, N=64) and not region.holds(M=5, K=64, N=56) and region.holds(M=1, K=64, N=56)


MUTATIONS = {
    "a residue too many": (MATRIX, "K mod 4 = 0 and 0 < K < 2147483648 and 0 < M < 2147483648"),
    "a residue too few": (MATRIX, "K mod 16 = 0 and 0 < K < 2147483648 and 0 < M < 2147483648"),
    "a bound too low by one": (MATRIX, "K mod 8 = 0 and 0 < K < 2147483648 and 0 < M < 2147483647"),
    "a bound too high by one": (MATRIX, "K mod 8 = 0 and 0 < K < 2147483648 and 0 < M <= 2147483648"),
    "a hole": (MATRIX, "K mod 8 = 0 and K < 2147483648 and 0 < M < 2147483648 and (K >= 16 or (M > 1 and K > 0))"),
    "nothing": (MATRIX, "K < 0"),
    "all": (MATRIX, "0 < K <= 4294967296 and 0 < M <= 17179869184"),
    "no coupling": (
        COUPLED,
        "K mod 8 = 0 and N mod 8 = 0 and 0 < K < 2147483648 and 0 < M < 2147483648 and 0 < N <= 1048576",
    ),
    "a coupling too strict": (
        COUPLED,
        "K mod 8 = 0 and N mod 8 = 0 and 0 < K < N <= 1048576 and 0 < M < 2147483648",
    ),
    "a product's share": (PITCH, "P mod 4 = 0 and Q mod 4 = 0 and 0 < P <= 64 and 0 < Q <= 64"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_wrong_sets_are_refuted_twice(name: str) -> None:
    operator, condition = MUTATIONS[name]
    region = region_of(operator)
    names = [dim.name for dim in region.dims]
    wrong = replace(region, set=f"[{', '.join(names)}] -> {{ [] : {condition} }}")
    proof = wrong.prove()
    assert proof.misjudged and proof.equivalent is False and not proof.holds
    for values in (*(m.values for m in proof.misjudged), proof.counterexample or {}):
        assert wrong.holds(**values) != region.holds(**values)
    assert all(m.inside == bool(m.broken) for m in proof.misjudged)
    assert "misjudged" in str(proof)


@pytest.mark.parametrize("operator", [MATRIX, COUPLED, PITCH], ids=str)
def test_right_sets_are_proven(operator: Move) -> None:
    for seed in range(3):
        proof = region_of(operator).prove(samples=150, seed=seed)
        assert proof.holds and proof.equivalent and proof.counterexample is None
        assert proof.inside > 20 and proof.outside > 20
        assert "no value at which they differ" in str(proof)


def test_nothing_legal_is_an_empty_region() -> None:
    region = ls.legal_region(T((M, K), "bf16", (K, 2)), "h200", tile=(64, 64))
    assert region.plan is None and isl.Set(region.set).is_empty()
    assert region.sentence == "no value of K and M is legal with the axes as they are (TMA024)"
    assert {d.code for d in region.diagnostics} == {"TMA024"}
    assert not region.holds(M=1, K=8)
    assert all(one.plan is not None and one.plan.access.by != "tma" for one in region.family)
    proof = region.prove()
    assert proof.holds and proof.inside == 0 < proof.outside and proof.equivalent is None
    assert ls.legal_region(T((M, K), "bf16"), "mi300x").diagnostics[0].code == "UNIT001"


def test_families_give_each_value_to_the_cheapest_offer() -> None:
    dims = (D("K", max=4096),)
    plans = [ls.synthesize(T((64, k), "bf16"), "h200", tile=(8, 8)) for k in (64, 128, 256, 512)]
    texts = [f"[K] -> {{ [] : {c} }}" for c in ("K mod 8 = 0", "K mod 4 = 0", "K mod 8 = 0 and K > 5", "K mod 2 = 1")]
    found = family(dims, list(zip(texts, plans, strict=True)))
    assert [(one.sentence, one.plan) for one in found] == [
        ("K must be a multiple of 8", plans[0]),
        ("K must leave 4 when divided by 8", plans[1]),
        ("K must be odd", plans[3]),
        ("K must leave 2 when divided by 4", None),
    ]
    for k in range(1, 300):
        there = [one for one in found if isl_holds(read(one.set), {"K": k})]
        assert len(there) == 1 and sentence_holds(there[0].sentence, {"K": k})
    assert [one.plan for one in family(dims, [("[K] -> { [] : }", plans[0])])] == [plans[0]]


def test_regions_go_to_json() -> None:
    data = json.loads(json.dumps(region_of(MATRIX).to_json()))
    assert data["sentence"] == region_of(MATRIX).sentence and [d["name"] for d in data["dims"]] == ["K", "M"]
    assert [one["planned"] for one in data["family"]] == [True] * 5
    assert "K must leave 4 when divided by 8" in [one["sentence"] for one in data["family"]]


@pytest.mark.parametrize("name", ["bf16", "u8", "fp32", "fp64"])
@pytest.mark.parametrize("target_pitch", [0, 400])
def test_every_value_is_served_by_a_plan_whose_vectors_it_can_have(name: str, target_pitch: int) -> None:
    """Brute force: at each K, every offer's own set is where its vectors divide rows, pitches and the tile's rows."""
    rows, dim = 16, ls.Dim("K", max=300)
    into = T((rows, dim), name, (target_pitch, 1)) if target_pitch else None
    region = ls.legal_region(Copy(T((rows, dim), name), into, tile=(8, 16)), H200)
    element = T((1,), name).dtype.bits // 8
    for k in range(1, 301):
        serving = [one for one in region.family if isl_holds(read(one.set), {"K": k})]
        assert len(serving) == 1
        plan = serving[0].plan
        for one in region.family:
            if one.plan is None or one.plan.access.by == "tma":
                continue
            row, pitches = k * element, (k * element, (target_pitch or k) * element)
            fits = all(
                n % copy.bytes == 0 and copy.bytes % element == 0
                for copy, pitch in zip(one.plan.copies, pitches, strict=True)
                for n in (row, pitch, 16 * element)
            )
            apart = not target_pitch or k <= target_pitch
            assert isl_holds(read(one.plan.guard), {"K": k}) == (fits and apart)
        assert plan is not None and isl_holds(read(plan.guard), {"K": k})


def test_what_has_no_region_is_refused() -> None:
    with pytest.raises(ls.InvalidInput, match="no dims"):
        ls.legal_region(T((64, 64), "bf16"), "h200")
    with pytest.raises(ls.InvalidInput, match="isl's notation"):
        ls.legal_region(T((D("mod"), 64), "bf16"), "h200")
    with pytest.raises(ls.InvalidInput, match="isl's notation"):
        ls.synthesize(T((D("é"), 64), "bf16"), "h200")
    with pytest.raises(ls.InvalidInput, match="belong to the operator"):
        ls.legal_region(MATRIX, "h200", tile=(8, 8))
    region = region_of(MATRIX)
    for values, reason in (({"M": 4}, "dim K has no value"), ({"M": 4, "K": 8, "Z": 1}, "no dim Z")):
        with pytest.raises(ls.InvalidInput, match=reason):
            region.holds(**values)
    with pytest.raises(ls.InvalidInput, match="give an integer"):
        region.holds(M=4, K=8.0)  # type: ignore[arg-type]


def test_the_command_line_says_the_region(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explain", "--shape", "MxK%2:..4096", "--dtype", "bf16", "--target", "h200"]
    assert main(words) == 0
    assert "legal region: K must be a multiple of 8; M must be below 2^31" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["legal_region"]
    assert found["sentence"] == "K must be a multiple of 8; M must be below 2^31"
    assert read(found["set"]).is_equal(read("[K, M] -> { [] : K mod 8 = 0 and 0 < K <= 4096 and 0 < M < 2147483648 }"))

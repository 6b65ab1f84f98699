"""The solver's fields are legal and the best there are, by trying every box and swizzle of small problems."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import z3
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.analyses.copy_engine import smem_image
from legalsat.dtypes import dtype
from legalsat.errors import SolverGaveUp
from legalsat.extract.search.schedule import MAX_STAGES, PATTERN_ROWS
from legalsat.extract.search.views import map_type, storable, view_of
from legalsat.extract.solve import solver
from legalsat.extract.solve.fields import Conflict, Solution, solve
from legalsat.operators.access import Access, Mode
from legalsat.plans.movement_plan import View
from legalsat.rules import COPY_RULES, SHARED_RULES
from legalsat.targets import MAX_RANK, target
from legalsat.units.sites import SWIZZLE_SPANS, SharedStages, TmaCopy
from legalsat.units.tensor_map import SWIZZLES, TensorMap

H200 = target("h200")
ALIGN = (256, 256)
TYPES = {8: "u8", 16: "bf16", 32: "fp32"}
WORDS = st.sampled_from(tuple(TYPES))


@st.composite
def accesses(draw: st.DrawFn) -> Access:
    """Draw a movement that is likely legal: rows of whole granules on both sides, in the same or another order."""
    word = draw(WORDS)
    rank = draw(st.integers(1, 3))
    granule = 128 // word
    inner = draw(st.sampled_from((granule, 2 * granule, 4 * granule, 8 * granule, 16 * granule, 3 * granule)))
    extents = [
        inner,
        *draw(st.lists(st.sampled_from((1, 2, 3, 4, 6, 8, 16, 48)), min_size=rank - 1, max_size=rank - 1)),
    ]
    tiles = [draw(st.sampled_from((n, n, 2 * n, max(n // 2, 1)))) for n in extents]
    source = strides_in(list(range(rank)), extents, word)
    order = draw(st.just(list(range(rank))) | st.permutations(range(rank)))
    result = strides_in(list(order), [-(-n // granule) * granule for n in extents], word)
    modes = [Mode(n, s, d, t) for n, s, d, t in zip(extents, source, result, tiles, strict=True)]
    return Access(word, tuple(modes))


def strides_in(order: list[int], extents: list[int], word: int) -> list[int]:
    """Return strides in bits of dense memory whose modes are stored in `order`, fastest first."""
    found, step = [0] * len(extents), word
    for i in order:
        found[i] = step
        step *= extents[i]
    return found


def maps(view: View, word: int, *, threads: bool) -> Iterator[TensorMap]:
    """Yield every legal map of a view under the solver's conditions on how a tile is laid out."""
    divisors = [[d for d in range(1, min(tile, 256) + 1) if tile % d == 0] for tile in view.tile]
    for swizzle, box in itertools.product(SWIZZLES[:4], itertools.product(*divisors)):
        tm = TensorMap(
            dtype=map_type(word, dtype(TYPES[word])) or "",
            global_dim=view.extent,
            global_stride=tuple(s // 8 for s in view.stride[1:]),
            box=box,
            address=ALIGN[0],
            swizzle=swizzle,
            l2_promotion="128B",
        )
        span = SWIZZLE_SPANS[SWIZZLES.index(swizzle)]
        if swizzle == "none" and box[0] != (view.tile[0] if threads else min(view.tile[0], 256)):
            continue
        if swizzle != "none" and (box[0] * word != 8 * span or math.prod(view.tile[1:]) % PATTERN_ROWS):
            continue
        if threads and box[1:] != view.tile[1:]:
            continue
        site = replace(TmaCopy.of(tm, stores=view.side == "target"), inner_stride_bits=view.stride[0], tile=view.tile)
        if not any(d.level == "error" for rule in COPY_RULES for d in rule.check(site, H200)):
            yield tm


def boxes(view: View, tm: TensorMap) -> int:
    return math.prod(-(-tile // box) for tile, box in zip(view.tile, tm.box, strict=True))


def fits(access: Access, buffers: int) -> bool:
    """Whether one stage fits into shared memory."""
    size = math.prod(m.tile for m in access.modes) * access.word // 8
    site = SharedStages(1, size, size * (buffers - 1))
    return not any(any(rule.check(site, H200)) for rule in SHARED_RULES)


def solved(access: Access, views: tuple[View, ...], *, threads: bool, stages: int = MAX_STAGES) -> Solution | Conflict:
    element = dtype(TYPES[access.word])
    return solve(
        access, views, element, ALIGN[: len(views)], H200, threads_read=threads, turned=threads, max_stages=stages
    )


@settings(deadline=None, max_examples=50)
@given(accesses())
def test_a_tile_that_passes_through_has_the_fewest_boxes(access: Access) -> None:
    load, store = view_of(access, "source"), view_of(access, "target")
    assume(set(load.groups) == set(store.groups))
    found = solved(access, (load, store), threads=False)
    back = [store.groups.index(group) for group in load.groups]
    stores = {
        (str(tm.swizzle), tuple(tm.box[i] for i in back)): boxes(store, tm)
        for tm in maps(store, access.word, threads=False)
    }
    counts = [
        boxes(load, tm) + stores[key]
        for tm in maps(load, access.word, threads=False)
        if (key := (str(tm.swizzle), tm.box)) in stores
    ]
    if not counts or not fits(access, 1):
        assert isinstance(found, Conflict)
        return
    assert isinstance(found, Solution)
    chosen = [boxes(view, tm) for view, tm in zip((load, store), found.tensor_maps, strict=True)]
    assert sum(chosen) == min(counts)
    assert len({tm.swizzle for tm in found.tensor_maps}) == 1


@settings(deadline=None, max_examples=50)
@given(accesses())
def test_a_tile_that_threads_read_has_the_fewest_conflicts_and_then_boxes(access: Access) -> None:
    load = view_of(access, "source")
    found = solved(access, (load,), threads=True)
    legal = list(maps(load, access.word, threads=True))
    if not legal or not fits(access, 1):
        assert isinstance(found, Conflict)
        return
    assert isinstance(found, Solution)
    (chosen,) = found.tensor_maps
    rated = [(conflicts(tm), boxes(load, tm)) for tm in legal]
    assert (found.conflicts, boxes(load, chosen)) == min(rated)
    assert conflicts(chosen) == found.conflicts
    assert chosen in legal


def conflicts(tm: TensorMap) -> int:
    """Return how often eight 16-byte reads down a column of the box use the same banks, from the engine's image."""
    inner = tm.box[0] * tm.map_type.bits // 8
    dense = replace(tm, global_dim=(tm.box[0], 8), global_stride=(inner,), box=(tm.box[0], 8), element_stride=(1, 1))
    image = smem_image(dense, (0, 0))
    starts = [int(np.flatnonzero(image == row * inner)[0]) for row in range(8)]
    groups = [start // 16 % 8 for start in starts]
    return max(groups.count(group) for group in groups)


@pytest.mark.parametrize("swizzle", range(4, 7))
def test_conflicts_of_wide_atoms_follow_their_pattern(swizzle: int) -> None:
    """FACTS SW-05 and SW-07: chunk x of line y moves to x ^ 2 (y mod 4), and x ^ 4 (y mod 2)."""
    from legalsat.extract.solve import fields  # noqa: PLC0415 - a private table

    columns = [(2 * (line % 4)) if swizzle < 6 else 4 * (line % 2) for line in range(8)]
    assert fields._SWIZZLED_CONFLICTS[swizzle] == max(columns.count(column) for column in columns)


@settings(deadline=None, max_examples=25)
@given(accesses(), st.integers(1, MAX_STAGES))
def test_as_many_stages_are_taken_as_fit(access: Access, most: int) -> None:
    load = view_of(access, "source")
    found = solved(access, (load,), threads=True, stages=most)
    if isinstance(found, Solution):
        size = math.prod(load.tile) * access.word // 8
        fitting = [
            n
            for n in range(1, most + 1)
            if not any(any(rule.check(SharedStages(n, size, size if n > 1 else 0), H200)) for rule in SHARED_RULES)
        ]
        assert found.stages == max(fitting)


def refusal(access: Access, *, align: tuple[int, int] = ALIGN, word: str = "bf16") -> set[str]:
    """Return the codes of the rules that forbid the load of an access."""
    found = solve(access, (view_of(access, "source"),), dtype(word), align[:1], H200, threads_read=True, turned=False)
    assert isinstance(found, Conflict)
    assert all(d.level == "error" and d.message and d.help for d in found.diagnostics)
    return {d.code for d in found.diagnostics}


def test_a_conflict_names_the_rules_that_make_it() -> None:
    row = Mode(64, 16, 16, 64)
    assert refusal(Access(16, (row, Mode(8, 1032, 1024, 8)))) == {"TMA005"}
    assert refusal(Access(16, (row, Mode(8, 1028, 1024, 8)))) == {"TMA005"}
    assert refusal(Access(16, (row, Mode(8, 1024, 1024, 8))), align=(8, 8)) == {"TMA004"}
    assert refusal(Access(16, (Mode(64, 32, 16, 64), Mode(8, 4096, 1024, 8)))) == {"TMA024"}
    assert refusal(Access(16, (Mode(64, 16, 16, 4), Mode(8, 1024, 1024, 8)))) == {"TMA008"}
    assert refusal(Access(16, (row, Mode(8, 2**44, 2**44, 8)))) == {"TMA006"}
    assert refusal(Access(16, (Mode(2**33, 16, 16, 64),))) == {"TMA002", "TMA028"}
    assert refusal(Access(16, (Mode(256, 16, 16, 256), Mode(256, 4096, 4096, 256), Mode(4, 2**20, 2**20, 4)))) == {
        "SMEM001"
    }
    assert refusal(Access(16, (Mode(304, 16, 16, 304), Mode(2, 4864, 4864, 1)))) == {"TMA003"}
    six = tuple(Mode(2, 3**i * 2**8, 3**i * 2**8, 1) for i in range(5))
    assert refusal(Access(16, (Mode(8, 16, 16, 8), *six))) == {"TMA001"}
    assert refusal(Access(4, (Mode(128, 4, 4, 128),)), word="e2m1") == {"TMA010"}


def test_words_without_a_data_type_are_refused() -> None:
    access = Access(6, (Mode(128, 6, 6, 128),))
    with pytest.raises(ls.LegalSatError, match="no tensor-map data type has 6 bits"):
        solve(access, (view_of(access, "source"),), dtype("e2m3"), (256,), H200, threads_read=True, turned=False)
    assert map_type(6, dtype("e2m3")) is None
    assert map_type(8, dtype("e2m3")) == "u8"
    assert map_type(32, dtype("fp32")) == "f32"


def test_a_solver_without_an_answer_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access(16, (Mode(72, 16, 16, 64), Mode(88, 1152, 1152, 88)))
    monkeypatch.setattr(z3.Solver, "check", lambda self, *assumptions: z3.unknown)
    monkeypatch.setattr(solver, "MOST_TABLED", 0)  # so that Z3 is asked
    with pytest.raises(SolverGaveUp, match="give a smaller tile"):
        solved(access, (view_of(access, "source"),), threads=True)


@settings(deadline=None, max_examples=60)
@given(accesses(), st.sampled_from(("source", "target")))
def test_a_view_merges_only_what_continues(access: Access, side: str) -> None:
    view = view_of(access, side)
    seen = [i for group in view.groups for i in group]
    assert sorted(seen) == list(range(len(access.modes)))
    assert len(view.groups) <= MAX_RANK
    assert list(view.stride) == sorted(view.stride)
    for group, extent, stride, tile in zip(view.groups, view.extent, view.stride, view.tile, strict=True):
        modes = [access.modes[i] for i in group]
        assert extent == math.prod(m.extent for m in modes)
        assert stride == getattr(modes[0], side)
        assert tile == math.prod(m.extent for m in modes[:-1]) * modes[-1].tile
        assert all(m.tile == m.extent for m in modes[:-1])
        step = stride
        for one, other in itertools.pairwise(modes):
            step *= one.extent
            assert getattr(other, side) == step


def test_more_than_five_modes_merge_where_they_can() -> None:
    dense = [Mode(2, 8 * 2**i, 8 * 2**i, 2) for i in range(9)]
    view = view_of(Access(8, tuple(dense)), "source")
    assert len(view.extent) == MAX_RANK and math.prod(view.extent) == 2**9
    apart = [Mode(2, 8 * 3**i, 8 * 3**i, 1) for i in range(9)]
    assert len(view_of(Access(8, tuple(apart)), "source").extent) == 9


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_threads_store_only_words_that_lie_apart_and_aligned(data: Any) -> None:
    word = data.draw(st.sampled_from((8, 16, 32)))
    rank = data.draw(st.integers(1, 3))
    strides = sorted(data.draw(st.lists(st.integers(0, 20), min_size=rank, max_size=rank)))
    extents = data.draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    align = data.draw(st.sampled_from((1, 2, 8, 16, 16, 256)))
    view = View("target", tuple((i,) for i in range(rank)), tuple(extents), tuple(8 * s for s in strides), (1,) * rank)
    bytes_ = [
        sum(c * s for c, s in zip(at, strides, strict=True)) + byte
        for at in itertools.product(*(range(n) for n in extents))
        for byte in range(word // 8)
    ]
    apart = len(set(bytes_)) == len(bytes_)
    aligned = align % 16 == 0 and all(start % (word // 8) == 0 for start in bytes_[:: word // 8])
    if storable(view, word, align):
        assert apart and aligned and align % 16 == 0
    elif apart and aligned and align % 16 == 0:
        # Strides that mesh without nesting, such as 3 and 2, are refused although they might work.
        spans = itertools.accumulate((n - 1) * s for n, s in zip(extents, strides, strict=True))
        assert any(n > 1 and s < word // 8 + span for n, s, span in zip(extents[1:], strides[1:], spans, strict=False))

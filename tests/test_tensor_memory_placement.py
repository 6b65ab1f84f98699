"""Columns of tensor memory: placement against all orders, and against the rules on open numbers."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legalsat.errors import InvalidInput
from legalsat.extract.explain.recorded import open_number
from legalsat.extract.kernels.tensor_memory import (
    Instruction,
    Placement,
    Want,
    choose_instruction,
    place,
    tensor_memory_placement,
    wants_of,
)
from legalsat.extract.search.planner import NoLegalLayout
from legalsat.extract.solve.fields import Conflict
from legalsat.extract.solve.requirements import Wanted
from legalsat.rules import TENSOR_MEMORY_RULES
from legalsat.targets import target
from legalsat.units.tcgen05 import Scales
from legalsat.units.tcgen05_sites import TensorMemoryAllocation, TensorMemoryPair, TensorMemoryUse

B200 = target("b200")
SIZES = (32, 64, 128, 256, 512)


def least_end(things: list[tuple[int, int]]) -> int:
    """Return the least column behind all things (columns, alignment) of all orders, each at its first aligned one."""
    best = 10**9
    for order in set(permutations(things)):
        at = 0
        for count, alignment in order:
            at = -(-at // alignment) * alignment + count
        best = min(best, at)
    return best


def check(wants: list[Want], found: Placement) -> None:
    """Check that columns are there for every want, aligned, apart and inside."""
    columns = iter(found.columns)
    taken: set[int] = set()
    for want in wants:
        for _ in range(want.copies):
            one = next(columns)
            assert one.name.startswith(want.name) and one.count == want.count
            assert one.first % want.alignment == 0
            mine = set(range(one.first, one.first + one.count))
            assert not taken & mine
            taken |= mine
    assert next(columns, None) is None
    assert max(taken) < found.allocated and found.allocated in SIZES


COUNTS = st.tuples(
    st.sampled_from((1, 3, 4, 8, 20, 32, 60, 64, 100, 128, 160)), st.sampled_from((1, 4, 8, 32, 48, 128))
)


@given(st.lists(COUNTS, min_size=1, max_size=5))
@settings(max_examples=100)
def test_everything_is_placed_in_the_smallest_allocation(things: list[tuple[int, int]]) -> None:
    wants = [Want(f"thing {chr(97 + i)}", count, alignment) for i, (count, alignment) in enumerate(things)]
    found, end = place(wants, B200), least_end(things)
    if end > 512:
        assert isinstance(found, Conflict)
        assert {d.code for d in found.diagnostics} == {"TMEM002"}
    else:
        assert isinstance(found, Placement)
        check(wants, found)
        assert found.allocated == min(size for size in SIZES if size >= end)


@pytest.mark.parametrize(
    "things",
    [[(60, 1), (4, 128)], [(100, 128), (28, 4), (4, 4)], [(200, 128), (200, 128), (60, 4)], [(400, 1), (120, 1)]],
)
def test_the_solver_places_as_much_under_the_same_rules(things: list[tuple[int, int]]) -> None:
    """The rules themselves, on open numbers, decide what fits; of three things in steps of 4 columns."""
    allocated = open_number("allocated")
    firsts = [open_number(f"first {i}") for i in range(len(things))]
    uses = [TensorMemoryUse(f"{i}", firsts[i], things[i][0], allocated) for i in range(len(things))]
    pairs = [
        TensorMemoryPair(f"{i}", f"{j}", firsts[i], things[i][0], firsts[j], things[j][0])
        for j in range(len(things))
        for i in range(j)
    ]
    wanted = Wanted(B200)
    for site in (TensorMemoryAllocation(allocated), *uses, *pairs):
        wanted.judge([rule for rule in TENSOR_MEMORY_RULES if rule.site == type(site).__name__], site)
    choices = {"allocated": (*SIZES, 1024)} | {
        f"first {i}": tuple(range(0, 1024, max(alignment, 4))) for i, (_, alignment) in enumerate(things)
    }
    found = wanted.optimum(choices, allocated, None)
    ours = place([Want(f"{i}", *thing) for i, thing in enumerate(things)], B200)
    if isinstance(ours, Placement):
        assert found is not None and found["allocated"] == ours.allocated
    else:
        assert found is None
        assert wanted.codes(choices, None) >= {"TMEM009"}


def test_a_pipeline_of_block_scaled_tiles_is_placed() -> None:
    tile = (128, 192, 256)
    chosen = choose_instruction(("e2m1", "e2m1", "fp32"), tile, B200, scales=Scales("e4m3", 16))
    assert isinstance(chosen, Instruction) and chosen.kind == "mxf4nvf4"
    wants = wants_of(chosen, tile, accumulators=2, scales=Scales("e4m3", 16), scale_stages=2)
    types = ("e2m1", "e2m1", "fp32")
    # 128 rows of 16 factors are 4 atoms of 4 columns; 192 columns of B are padded to 256.
    assert [(w.count, w.copies) for w in wants] == [(192, 2), (16, 2), (32, 2)]
    found = place(list(wants), B200)
    assert isinstance(found, Placement) and found.allocated == 512
    check(list(wants), found)
    assert found.columns[0].first == 0
    options: dict[str, Any] = {"scales": Scales("e4m3", 16), "accumulators": 2}
    assert tensor_memory_placement(types, tile, "b200", scale_stages=2, **options) == (chosen, found)
    refused = place(wants_of(chosen, tile, accumulators=2, scales=Scales("e4m3", 16), scale_stages=3), B200)
    assert isinstance(refused, Conflict)
    assert [d.code for d in refused.diagnostics] == ["TMEM002"]
    assert "528 columns" in refused.diagnostics[0].message


def test_a_in_tensor_memory_takes_columns_too() -> None:
    tile = (128, 128, 64)
    chosen = choose_instruction(("bf16", "bf16", "fp32"), tile, B200, a_in_tensor_memory=True)
    assert isinstance(chosen, Instruction)
    assert [w.count for w in wants_of(chosen, tile, a_stages=2)] == [128, 32]


@pytest.mark.parametrize(
    ("wants", "said"),
    [
        ([Want("a", 0)], "at least 1"),
        ([Want("a", 1, 0)], "at least 1"),
        ([Want("a", 1, copies=0)], "at least 1"),
        ([Want("a", 1), Want("a", 2)], "share a name"),
        ([Want(f"{i}", i + 1) for i in range(20)], "place fewer"),
    ],
)
def test_wants_without_meaning_are_refused(wants: list[Want], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        place(wants, B200)


def test_nothing_takes_the_least_allocation() -> None:
    assert place([], B200) == Placement((), 32)


@pytest.mark.parametrize(
    ("m", "n", "cta_group", "columns"),
    [
        (128, 256, 1, 256),
        (64, 256, 1, 256),
        (256, 128, 1, 256),
        (192, 64, 1, 192),
        (256, 256, 2, 256),
        (128, 256, 2, 128),
    ],
)
def test_columns_of_accumulators(m: int, n: int, cta_group: int, columns: int) -> None:
    for types in (("bf16", "bf16", "fp32"), ("fp16", "fp16", "fp16")):
        for accumulators in (1, 2):
            _, found = tensor_memory_placement(
                types, (m, n, 64), "b200", cta_group=cta_group, accumulators=accumulators
            )
            assert [c.count for c in found.columns] == [columns] * accumulators


def test_a_tile_that_no_instruction_or_no_column_takes_is_refused() -> None:
    bf16 = ("bf16", "bf16", "fp32")
    for tile, accumulators, code in (
        ((96, 64, 64), 1, "TCGEN018"),
        ((128, 100, 64), 1, "TCGEN018"),
        ((256, 256, 64), 2, "TMEM002"),
    ):
        with pytest.raises(NoLegalLayout) as refusal:
            tensor_memory_placement(bf16, tile, "sm_100a", accumulators=accumulators)
        assert {d.code for d in refusal.value.diagnostics} == {code}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"target": "h200"}, "no tensor memory"),
        ({"target": "b2000"}, "unknown"),
        ({"types": "bf16"}, "those of A, of B"),
        ({"types": None}, "those of A, of B"),
        ({"types": ("bf16", "e4m3", "fp32")}, "multiplies no bf16 by e4m3"),
        ({"tile": (128, 128)}, "give 3"),
        ({"tile": (128, 128.0, 64)}, "give an integer"),
        ({"tile": None}, "give a sequence"),
        ({"majors": "K"}, "give A's and B's"),
        ({"majors": ("K", "M")}, "b_major"),
        ({"scales": "e8m0"}, "give Scales"),
        ({"cta_group": 4}, "give 1 or 2"),
        ({"accumulators": 0}, "at least 1"),
        ({"scale_stages": True}, "give an integer"),
        ({"a_stages": -1}, "at least 0"),
    ],
)
def test_placements_without_meaning_are_refused(changed: dict[str, Any], said: str) -> None:
    legal: dict[str, Any] = {"types": ("bf16", "bf16", "fp32"), "tile": (128, 128, 64), "target": "b200"}
    with pytest.raises(InvalidInput, match=said):
        tensor_memory_placement(**{**legal, **changed})

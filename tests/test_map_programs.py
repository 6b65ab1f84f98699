"""Programs that edit their tensor maps: both checkers name an edit under a copy, and a copy without an acquire."""

from __future__ import annotations

from itertools import permutations

import pytest

import legalsat as ls
from legalsat.analyses.protocol.model_check import explore
from legalsat.analyses.protocol.typestate import check
from legalsat.program.pipeline import (
    Advance,
    Arrive,
    At,
    BarrierRing,
    BufferRing,
    Commit,
    Expect,
    Fence,
    Load,
    Loop,
    Operation,
    Pipeline,
    Role,
    Start,
    Store,
    Sync,
    Trips,
    Wait,
    WaitGroup,
    Write,
)
from legalsat.program.pipeline_text import words
from legalsat.targets import target

C, K, SIZE = At("c"), Trips("K"), 1024
EDIT, ACQUIRE = Write("maps", C), Fence("tensormap")
FREE = Wait("empty", C, before=True)
LOAD = (Expect("full", C, SIZE), Load("A", C, "full", SIZE, map="maps", map_at=C))
LOADED = Wait("full", C)


def loads(*turn: Operation, stages: int = 2, maps: int = 1) -> Pipeline:
    """Return a ring whose loader does this in each turn, and a role that takes what it loads."""
    begin = (Start("full"), Start("empty"), Fence("mbarrier_init"), Sync("block"))
    loader = Role("loader", 1, (*begin, Loop(K, (*turn, Advance("c")))))
    taker = Role("taker", 1, (Sync("block"), Loop(K, (LOADED, Arrive("empty", C), Advance("c")))))
    rings = BufferRing("A", stages, SIZE), BufferRing("maps", maps, 128)
    return Pipeline((BarrierRing("full", stages, 1), BarrierRing("empty", stages, 1)), rings, (loader, taker))


def stores(*turn: Operation) -> Pipeline:
    """Return a role that stores a tile in each turn, and waits for the last one."""
    role = Role("storer", 1, (Loop(K, (*turn, Advance("c"))), WaitGroup("bulk", 0, read=True)))
    return Pipeline((), (BufferRing("A", 1, SIZE), BufferRing("maps", 1, 128)), (role,))


TILE: tuple[Operation, ...] = (Write("A", C), Fence("proxy.async"))
STORE: tuple[Operation, ...] = (Store("A", C, SIZE, map="maps", map_at=C), Commit("bulk"))
STORED = WaitGroup("bulk", 0, read=True)
RIGHT = {
    "each load is waited for": loads(EDIT, ACQUIRE, FREE, *LOAD, LOADED),
    "one stage, edited when it is free": loads(FREE, EDIT, ACQUIRE, *LOAD, stages=1),
    "a map for each stage, edited when that is free": loads(FREE, EDIT, ACQUIRE, *LOAD, maps=2),
    "others made the map": loads(FREE, *LOAD),
    "each store is waited for": stores(EDIT, ACQUIRE, *TILE, *STORE, STORED),
}
WRONG = {
    "one map, edited when a stage is free": (loads(FREE, EDIT, ACQUIRE, *LOAD), "may be under way"),
    "one stage, edited before it is free": (loads(EDIT, ACQUIRE, FREE, *LOAD, stages=1), "may be under way"),
    "two maps for three stages": (loads(FREE, EDIT, ACQUIRE, *LOAD, stages=3, maps=2), "may be under way"),
    "no acquire": (loads(FREE, EDIT, *LOAD, stages=1), "released and acquired"),
    "the acquire before the edit": (loads(FREE, ACQUIRE, EDIT, *LOAD, stages=1), "released and acquired"),
    "another fence": (loads(FREE, EDIT, Fence("proxy.async"), *LOAD, stages=1), "released and acquired"),
    "a store by a map that is not acquired": (stores(EDIT, *TILE, *STORE, STORED), "released and acquired"),
}
TWO_TILES = BufferRing("A", 2, SIZE), BufferRing("maps", 1, 128)
TURN = (WaitGroup("bulk", 1, read=True), *TILE, EDIT, ACQUIRE, *STORE, Advance("c"))
LATE = Role("storer", 1, (Loop(K, TURN), STORED))
WRONG["a store that is waited for a turn later"] = Pipeline((), TWO_TILES, (LATE,)), "may be under way"


@pytest.mark.parametrize("name", RIGHT)
def test_edits_in_order_are_proven(name: str) -> None:
    found = ls.explain(RIGHT[name], "h200")
    assert found.legal and not found.diagnostics, found.diagnostics
    assert found.values[0].startswith("proven for all trip counts") and found.values[1].startswith("no interleaving")


@pytest.mark.parametrize("name", WRONG)
def test_edits_out_of_order_are_named_by_both_checkers(name: str) -> None:
    pipeline, said = WRONG[name]
    found = ls.explain(pipeline, "h200")
    errors = [one for one in found.diagnostics if one.level == "error"]
    assert [one.code for one in errors] == ["PIPE033"] and said in errors[0].message, errors
    assert any(one.startswith("goes wrong in some interleaving") for one in found.values), found.values


STEPS: dict[str, tuple[Operation, ...]] = {"F": (FREE,), "E": (EDIT,), "A": (ACQUIRE,), "L": LOAD, "W": (LOADED,)}


@pytest.mark.parametrize(("stages", "maps"), [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_both_checkers_agree_on_steps_in_any_order(stages: int, maps: int) -> None:
    """The one reasons about all trip counts; the other visits every interleaving of a few turns."""
    legal = 0
    for steps in (*permutations("FEALW"), *permutations("FEAL"), *permutations("FEL")):
        if "W" in steps and steps.index("W") < steps.index("L"):
            continue
        pipeline = loads(*(one for step in steps for one in STEPS[step]), stages=stages, maps=maps)
        proven = check(pipeline, target("h200")).proven
        turns = range(stages + 3)
        assert proven == all(explore(pipeline, {"K": count}).error is None for count in turns), steps
        every, reduced = (explore(pipeline, {"K": 2}, reduced=one).error is None for one in (False, True))
        assert every == reduced, steps
        legal += proven
    assert legal


def test_the_words_of_a_program_name_its_maps() -> None:
    assert words(LOAD[1]) == "load 1024 bytes into A[c] by maps[c], counted on full"
    assert words(STORE[0]) == "store 1024 bytes of A[c] by maps[c]"
    with pytest.raises(ls.InvalidInput, match="maps"):
        ls.explain(Pipeline((), (BufferRing("A", 1, SIZE),), (Role("r", 1, (*STORE, STORED)),)), "h200")

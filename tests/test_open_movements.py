"""Movements with dims: one kernel for all extents of its guard, run on a host and asked of the driver."""

from __future__ import annotations

import ctypes
import random
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recording_driver
import recording_runtime
from movement_on_host import compiled, run
from test_launcher import ASKED, addresses, by_hand

import legalsat as ls
from bench.kernels.moved import memory_of, moved
from legalsat.backends import program
from legalsat.extract.moved.issued import issued
from legalsat.runtime.views import Mismatch

needs_gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
T, Dim = ls.Tensor, ls.Dim
M, N, K = Dim("M"), Dim("N"), Dim("K", multiple_of=8)
OPEN: dict[str, Any] = {
    "a ring": ls.Copy(T((M, K), "bf16"), tile=(64, 64), consumer="wgmma.a"),
    "turned": ls.Transpose(T((M, N), "bf16")),
    "three axes": ls.Copy(T((Dim("B"), M, 64), "fp16"), tile=(1, 32, 64)),
    "a pitch": ls.Copy(T((M, 96), "fp32", (Dim("P"), 1)), tile=(16, 32)),
    "columns": ls.Copy(T((40, N), "bf16"), tile=(8, 64)),
}
EXTENTS = (1, 2, 3, 5, 8, 9, 16, 24, 40, 63, 64, 65, 72, 100, 128, 136, 200)


@cache
def planned() -> list[ls.MovementPlan]:
    """The plan by boxes of each, and those of its family that threads carry out."""
    found: list[ls.MovementPlan] = []
    for operator in OPEN.values():
        region = ls.legal_region(operator, "h200")
        found += dict.fromkeys(one.plan for one in region.family if isinstance(one.plan, ls.MovementPlan))
    assert len({one.access.by for one in found}) > 1
    return found


def drawn(plan: ls.MovementPlan, made: Any, rng: random.Random, count: int) -> list[tuple[dict[str, int], bool]]:
    """Values of the dims, and whether the guard takes them."""
    found = []
    for _ in range(count):
        values = {dim.name: rng.choice(EXTENTS) for dim in made.dims}
        if "P" in values:
            values["P"] = 96 + rng.choice((0, 4, 8, 1))
        try:
            made.choice(values)
        except Mismatch:
            found.append((values, False))
        else:
            found.append((values, True))
    return found


@needs_gcc
def test_open_kernels_move_every_byte(tmp_path: Path) -> None:
    plans = planned()
    library = compiled(plans, tmp_path)
    for number, plan in enumerate(plans):
        rng, inside = random.Random(number), 0
        for values, taken in drawn(plan, program(plan, "cute"), rng, 20):
            if not taken:
                continue
            inside += 1
            operator = plan.operator.bind(values)
            source, target = memory_of(operator.source, 1), memory_of(operator.target)
            after = run(library, number, plan, source, target, values)
            assert np.array_equal(after, moved(operator, source, target)), (plan.operator, plan.access.by, values)
        assert inside, plan.operator


@pytest.mark.parametrize("number", range(len(OPEN)))
def test_the_host_works_out_what_python_does(number: int, tmp_path: Path) -> None:
    plan = ls.synthesize(list(OPEN.values())[number], "h200")
    made = program(plan, "cute")
    driver = recording_driver.build(tmp_path)
    recording_runtime.learn(driver, made.some(0))
    library = recording_runtime.build(made, tmp_path)
    for values, taken in drawn(plan, made, random.Random(4), 20):
        sizes = [ctypes.c_int64(values[dim.name]) for dim in made.dims]
        if not taken:
            assert library.message(library.run(None, None, None, *sizes, None)).decode() == made.guard
            continue
        closed = made.bind(values)
        given, workspace = addresses(closed, library.workspace_bytes(*sizes))
        driver.calls()
        code = library.run(*map(ctypes.c_void_p, (*given, workspace)), *sizes, ctypes.c_void_p(77))
        assert code == 0, library.message(code)
        ours = [{k: v for k, v in one.items() if k != "context"} for one in driver.calls(*ASKED)]
        names = [one.name for one in closed.operands]
        assert ours == by_hand(closed, driver, dict(zip(names, given, strict=True)), workspace)


def test_maps_of_open_movements_show_symbols() -> None:
    plan = ls.synthesize(OPEN["a ring"], "h200")
    assert plan.tensor_maps[0].global_dim == (K, M)
    assert plan.tensor_maps[0].global_stride == (K * 2,)
    assert "K, M" in str(plan)
    with pytest.raises(ls.LegalSatError, match="open in K, M; bind"):
        plan.emit("triton")


def test_a_sample_of_one_tile_stands_for_no_more() -> None:
    """Where a dim's most aligned value is one tile, and a larger value two."""
    plan = ls.synthesize(ls.Copy(T((Dim("M", max=130), 512), "bf16"), tile=(128, 64)), "h200")
    with pytest.raises(ls.LegalSatError, match="is one tile of 128"):
        plan.emit("cute")


def test_coordinates_of_an_open_plan_count_tiles_by_its_dims() -> None:
    """No number of the sample's, and for any values as many as the plan for them counts."""
    dims = {"M": ls.Dim("M"), "K": ls.Dim("K", multiple_of=8)}
    for tensor, tile in (((dims["M"], dims["K"]), (128, 64)), ((dims["M"], 128, dims["K"]), (1, 128, 64))):
        plan = ls.synthesize(ls.Tensor(tensor, "bf16"), "h200", tile=tile)
        load, *_ = issued(plan)
        assert all(f"{name} < {count}" in " ".join(str(plan).split()) for name, count in load.tiles)
        for values in ({"M": 300, "K": 200}, {"M": 129, "K": 72}):
            extents = [values[one.name] if isinstance(one, ls.Dim) else one for one in tensor]
            counts = [-(-extent // length) for extent, length in zip(extents, tile, strict=True)]
            (bound, *_) = issued(plan.bind(**values))
            assert [eval(str(count), dict(values)) for _, count in load.tiles] == [one for one in counts if one > 1]
            assert [count for _, count in bound.tiles] == [one for one in counts if one > 1]

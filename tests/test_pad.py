"""Paddings: plans write numpy's, byte by byte, and their kernels do; what no plan may do is refused by its rule."""

from __future__ import annotations

import json
import math
import os
import random
import re
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from execute import execute
from gluon_on_numpy import run_on_numpy, run_threads_on_numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from problems import pads
from test_triton_threads import vector_bytes

import legalsat as ls
from bench.gpu.copies import random_pad
from bench.kernels.moved import memory_of, moved
from legalsat.backends import program
from legalsat.backends.triton import compile_kernel, compile_vectors, kernel_name, load_module
from legalsat.backends.triton.adapter import kernel_of, vector_kernel_of
from legalsat.backends.triton.program import image_of
from legalsat.dtypes import dtype, pattern_of
from legalsat.extract.check.recheck import recheck
from legalsat.extract.search.planner import cached_plan
from legalsat.operators import Pad, access_of
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.movement_plan import MovementPlan, from_json
from legalsat.targets import target
from legalsat.tensor import plain

H200 = target("h200")
T = ls.Tensor
EVERY = ("tma", "threads")
DRAWN, MADE = 120, 15  # paddings, and plans of them at least

# Operator, and by what it loads and stores: by boxes where that is legal.
NAMED: dict[str, tuple[Pad, tuple[str, str]]] = {
    "rows behind": (Pad(T((100, 256), "bf16"), ((0, 0), (0, 8))), ("tma", "tma")),
    "all around, by granules": (Pad(T((60, 64), "bf16"), ((2, 3), (8, 16))), ("tma", "tma")),
    "images": (Pad(T((4, 14, 14, 64), "bf16"), ((0, 0), (1, 1), (1, 2), (0, 0))), ("tma", "tma")),
    "into odd rows": (Pad(T((100, 64), "fp32"), ((0, 0), (0, 1))), ("tma", "threads")),
    "five axes": (Pad(T((3, 4, 5, 6, 16), "u8"), ((1, 0), (0, 1), (1, 1), (2, 0), (16, 16))), ("tma", "tma")),
    "six axes, of which three merge": (Pad(T((2, 3, 2, 3, 2, 16), "u8"), (0, (1, 1), 0, 1, (0, 1), 0)), ("tma", "tma")),
    "six axes, of which two merge in the source": (
        Pad(
            T((2, 2, 2, 2, 2, 16), "u8"),
            (0, 0, 0, 0, 1, 0),
            0,
            T((2, 2, 2, 2, 4, 16), "u8", (1100, 545, 270, 133, 32, 1)),
        ),
        ("tma", "threads"),
    ),
    "words of 64 bits": (Pad(T((33, 34), "fp64"), 2), ("tma", "tma")),
    "packed by granules": (Pad(T((20, 64), "e2m1"), ((1, 1), (32, 64))), ("tma", "tma")),
    "packed by bytes": (Pad(T((20, 16), "i4"), ((1, 1), (2, 4))), ("threads", "threads")),
    "turned": (Pad(T((96, 64), "bf16"), ((8, 0), (8, 8)), 0, T((104, 80), "bf16", (1, 104))), ("tma", "tma")),
    "turned into odd rows": (Pad(T((96, 64), "bf16"), 8, 0, T((112, 80), "bf16", (1, 113))), ("tma", "threads")),
    "nothing": (Pad(T((40, 64), "bf16"), 0), ("tma", "tma")),
    "one row": (Pad(T((1, 64), "bf16"), ((3, 4), (8, 0))), ("tma", "tma")),
    "one column": (Pad(T((64, 1), "bf16"), ((0, 0), (2, 5))), ("tma", "tma")),
    "odd rows": (Pad(T((100, 255), "bf16"), ((0, 0), (0, 1))), ("threads", "threads")),
    "odd rows turned": (Pad(T((33, 50), "u16"), (1, 1), 7, T((35, 52), "u16", (1, 35))), ("threads", "threads")),
    "in front by an element": (Pad(T((20, 64), "bf16"), ((0, 0), (1, 7))), ("threads", "threads")),
    "ones": (Pad(T((20, 64), "bf16"), ((2, 0), (8, 8)), 1), ("threads", "threads")),
    "negative": (Pad(T((20, 64), "fp32"), 1, -1.5), ("threads", "threads")),
    "64 bits of pi": (Pad(T((9, 10), "fp64"), 1, 3.14159), ("threads", "threads")),
    "tiles of one row": (Pad(T((40, 700), "i8"), ((3, 4), (0, 0)), -2), ("threads", "threads")),
    "broadcast": (Pad(T((16, 64), "bf16", (0, 1)), ((1, 1), (0, 0))), ("tma", "tma")),
    "scalar": (Pad(T((), "fp32"), ()), ("tma", "threads")),
    "one element": (Pad(T((1,), "fp64"), 3), ("threads", "threads")),
}


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


def planned(operator: Pad, means: tuple[str, ...] = EVERY) -> MovementPlan | None:
    """Return the plan, or None for a refusal, which must give reasons."""
    try:
        return cached_plan(operator, H200, means)
    except ls.NoLegalLayout as refusal:
        assert refusal.diagnostics, "a refusal names its rules"
        assert all(d.level == "error" and d.help for d in refusal.diagnostics)
        return None


def run(found: MovementPlan) -> None:
    """Execute the plan on random bytes, and compare with the padding's definition; gaps of the target keep theirs."""
    source, result = memory_of(found.operator.source, 1), memory_of(found.operator.target)
    assert np.array_equal(execute(found, source, result), moved(found.operator, source, result))


@pytest.mark.parametrize("means", [("tma",), ("threads",), EVERY], ids="-".join)
def test_a_plan_writes_exactly_what_numpy_pads(means: tuple[str, ...]) -> None:
    made = Counter[str]()

    @settings(deadline=None, max_examples=DRAWN, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(pads())
    def holds(operator: Pad) -> None:
        found = planned(operator, means)
        made["plan" if found else "none"] += 1
        if found is not None:
            run(found)
            assert from_json(json.loads(json.dumps(found.to_json()))) == found
            assert str(found)

    holds()
    assert made["plan"] >= MADE, made


@pytest.mark.parametrize("name", NAMED)
def test_named_paddings_travel_as_expected(name: str) -> None:
    operator, expected = NAMED[name]
    found = planned(operator, ("tma",)) or cached_plan(operator, H200)
    assert (found.access.by, found.store) == expected
    run(found)
    for tm in found.tensor_maps:
        assert not [d for d in ls.violations(tm, H200) if d.level == "error"]
    read, written = (end.dtype.bits * math.prod(plain(end.shape)) // 8 for end in (operator.source, operator.target))
    assert found.cost.global_bytes == read + written
    recheck(found)


@pytest.mark.parametrize("name", NAMED)
def test_kernels_write_what_numpy_pads_and_compile(name: str, tmp_path: Path) -> None:
    """Copies happen late or early; boxes and vectors are those that were planned."""
    found = cached_plan(NAMED[name][0], H200, NAMED[name][1][:1])
    module = load_module(found.emit("triton"), tmp_path)
    source, result = memory_of(found.operator.source, 1), memory_of(found.operator.target)
    want = moved(found.operator, source, result)
    word = f"i{found.access.word // 8}"
    if found.access.by == "threads":
        run_threads_on_numpy(module, source.view(word), result.view(word))
        kernel = vector_kernel_of(found)
        compiled = compile_vectors(kernel, H200)
        tile = math.prod(kernel.tile) * kernel.word_bits // 8
        for direction, copy in zip(("load", "store"), found.copies, strict=True):
            least = max(kernel.word_bits // 8, tile // (32 * kernel.warps))
            assert vector_bytes(compiled.assembly, direction) == {min(copy.bytes, least)}
    else:
        boxes = kernel_of(found)
        late = len(name) % 2 == 0
        ends = (source.view(word), result.view(word))
        run_on_numpy(module, kernel_name(boxes), *ends, late_loads=late, late_stores=not late)
        assert compile_kernel(boxes).boxes == tuple(tuple(reversed(tm.box)) for tm in found.tensor_maps)
    assert np.array_equal(result, want)


@pytest.mark.parametrize("means", [(one,) for one in EVERY], ids="-".join)
def test_any_padding_becomes_a_kernel_that_writes_what_numpy_pads(means: tuple[str, ...], tmp_path: Path) -> None:
    made = Counter[str]()

    @settings(deadline=None, max_examples=DRAWN, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(pads(), st.booleans())
    def holds(operator: Pad, late: bool) -> None:
        found = planned(operator, means)
        if found is None:
            return
        try:
            module = load_module(found.emit("triton"), tmp_path)
        except ls.LegalSatError as refusal:
            made[type(refusal).__name__] += 1
            return
        source, result = memory_of(operator.source, 1), memory_of(operator.target)
        want = moved(operator, source, result)
        word = f"i{found.access.word // 8}"
        if means == ("threads",):
            run_threads_on_numpy(module, source.view(word), result.view(word))
        else:
            name = kernel_name(kernel_of(found))
            ends = (source.view(word), result.view(word))
            run_on_numpy(module, name, *ends, late_loads=late, late_stores=not late)
        made["kernel"] += 1
        assert np.array_equal(result, want)

    holds()
    assert made["kernel"] >= MADE, made


def test_random_paddings_of_the_bench_compile() -> None:
    rng = random.Random(5)
    stores = Counter[str]()
    while sum(stores.values()) < 12:
        operator = random_pad(rng)
        found = planned(operator)
        if found is not None:
            image = image_of(program(found, "triton"))
            assert image.code[:4] == b"\x7fELF"
            stores[found.access.by] += 1
    assert set(stores) == set(EVERY)


INTERPRETED = """
import numpy as np
import legalsat as ls

x = np.arange(37 * 51, dtype=np.float32).reshape(37, 51)
operator = ls.Pad(ls.Tensor((37, 51), "fp32"), ((1, 2), (3, 0)), -1.5, ls.Tensor((40, 54), "fp32", (60, 1)))
kernel = ls.synthesize(operator, "h200", means=("threads",)).compile()
memory = np.full((50, 60), 7, np.float32)
kernel(x, out=memory[5:45, :54])
expected = np.full((50, 60), 7, np.float32)
expected[5:45, :54] = np.pad(x, ((1, 2), (3, 0)), constant_values=-1.5)
assert np.array_equal(memory, expected)
print(kernel(x).shape)
"""


def test_a_padding_by_threads_runs_in_tritons_interpreter(tmp_path: Path) -> None:
    """Rows before and behind the target, and what is beside its rows, keep what they held."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "LEGALSAT_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED], env=environment, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.stdout == "(40, 54)\n", done.stderr


def test_a_program_takes_both_tensors() -> None:
    for name in ("rows behind", "odd rows"):
        operator = NAMED[name][0]
        made = program(cached_plan(operator, H200))
        assert made.builder.endswith("triton.program")
        assert [(one.name, one.tensor.shape) for one in made.operands] == [
            ("source", operator.source.shape),
            ("target", operator.target.shape),
        ]


REFUSED: dict[str, tuple[Pad, str, str]] = {
    "in front by an element": (NAMED["in front by an element"][0], "tma", "TMA029"),
    "odd rows": (NAMED["odd rows"][0], "tma", "TMA005"),
    "ones": (NAMED["ones"][0], "tma", "PAD002"),
    "runs": (NAMED["rows behind"][0], "bulk", "PAD001"),
    "asynchronous copies": (NAMED["rows behind"][0], "cp.async", "PAD001"),
    "phases": (NAMED["odd rows"][0], "tma.phases", "PAD001"),
    "columns": (NAMED["images"][0], "im2col", "WIN003"),
    "half a byte": (Pad(T((20, 16), "i4"), 1), "threads", "WORD001"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_by_rule(name: str) -> None:
    operator, means, code = REFUSED[name]
    with pytest.raises(ls.NoLegalLayout) as refusal:
        ls.synthesize(operator, "h200", means=(means,))  # type: ignore[arg-type]
    assert code in {d.code for d in refusal.value.diagnostics}


def test_explain_names_the_rule_and_the_way_that_is_left() -> None:
    found = ls.explain(NAMED["in front by an element"][0], "h200")
    assert not found.legal and [d.code for d in found.diagnostics] == ["TMA029"]
    assert found.plan is not None and found.plan.access.by == "threads"
    legal = next(one for one in ls.explain(NAMED["odd rows"][0], "h200").repairs if one.kind == "pad")
    assert legal.after.source.strides == (256, 1), "rows at whole granules have a map"


def test_other_gpus_pad_by_threads() -> None:
    for gpu in ("a100", "mi300x"):
        assert cached_plan(NAMED["rows behind"][0], target(gpu)).access.by == "threads"


def test_no_changed_plan_passes() -> None:
    found = cached_plan(NAMED["all around, by granules"][0], H200)
    load, store = found.views
    modes, (loads, stores) = found.access.modes, found.tensor_maps
    source = found.operator.source
    ones = Pad(source, ((2, 3), (8, 16)), 1)
    larger = Pad(source, ((3, 2), (8, 16)), 0, found.operator.target)
    for what, changed in {
        "start": replace(found, views=(replace(load, before=(0, *load.before[1:])), store)),
        "no start": replace(found, views=(replace(load, before=()), store)),
        "extent": replace(found, views=(replace(load, extent=store.extent), store)),
        "map": replace(found, tensor_maps=(replace(loads, global_dim=store.extent), stores)),
        "fill": replace(found, tensor_maps=(replace(loads, oob_fill="nan"), stores)),
        "padding": replace(found, operator=larger),
        "value": replace(found, operator=ones),
        "modes": replace(found, access=replace(found.access, modes=modes[::-1])),
        "means": replace(found, access=replace(found.access, by="bulk")),
    }.items():
        with pytest.raises(InvalidPlan):
            recheck(changed)
            pytest.fail(f"a changed {what} passes")
    masked = cached_plan(NAMED["in front by an element"][0], H200)
    wide = replace(masked, copies=(replace(masked.copies[0], bytes=16), masked.copies[1]))
    moved_up = Pad(masked.operator.source, ((0, 0), (2, 6)))
    for changed in (wide, replace(masked, operator=moved_up)):
        with pytest.raises(InvalidPlan):
            recheck(changed)


def test_margins_go_with_the_modes_that_an_access_has() -> None:
    """Where margins say that the source has a word, the definition puts it there, and the value everywhere else."""
    for operator, _ in NAMED.values():
        access = access_of(operator)
        margins = operator.margins(access)
        assert margins is not None
        at = np.indices([mode.extent for mode in access.modes]).reshape(len(access.modes), -1)
        there = np.ones(at.shape[1], np.bool_)
        source, result = (np.zeros(at.shape[1], np.int64) for _ in range(2))
        for along, mode, margin in zip(at, access.modes, margins, strict=True):
            there &= (along >= margin.before) & (along < margin.before + margin.held)
            source += (along - margin.before) * mode.source
            result += along * mode.target
        known = memory_of(operator.source, 3)
        after = np.unpackbits(memory_of(operator.target), bitorder="little")
        pattern = operator.pattern.to_bytes(8, "little") if operator.pattern else bytes(8)
        after[result[:, None] + np.arange(access.word)] = np.unpackbits(
            np.frombuffer(pattern, np.uint8), bitorder="little"
        )[: access.word]
        bits = np.unpackbits(known, bitorder="little")
        for bit in range(access.word):
            after[result[there] + bit] = bits[source[there] + bit]
        want = moved(operator, known, memory_of(operator.target))
        assert np.array_equal(np.packbits(after, bitorder="little"), want)


@pytest.mark.parametrize("value", [0, 1, -1.5, 3.14159, 65504, 1e-6, float("inf"), -0.0, 1 / 3])
def test_patterns_are_those_of_numpy(value: float) -> None:
    for name, kind in (("fp16", np.float16), ("fp32", np.float32), ("fp64", np.float64)):
        assert pattern_of(value, dtype(name)) == int.from_bytes(np.array(value, kind).tobytes(), "little")
    found = pattern_of(value, dtype("bf16"))
    words = np.arange(2**16, dtype=np.uint32)
    with np.errstate(invalid="ignore"):
        every = (words << 16).view(np.float32).astype(np.float64)
        away = np.where(np.isnan(every), np.inf, np.abs(every - value))
    assert every[found] == value or away[found] == away.min()
    assert struct.unpack("<f", (found << 16).to_bytes(4, "little"))[0] == every[found]
    assert (found >> 15 == 1) == (np.signbit(value))


@pytest.mark.parametrize(
    ("value", "name", "says"),
    [
        (256, "u8", "whole number from 0 to 255"),
        (-129, "i8", "whole number from -128 to 127"),
        (0.5, "i32", "whole number"),
        (float("nan"), "i32", "whole number"),
        (2, "bool", "from 0 to 1"),
        (1e30, "fp16", "beyond its largest"),
        (1.0, "e4m3", "pad with 0"),
        (-0.0, "e4m3", "pad with 0"),
    ],
)
def test_values_that_a_type_has_not_are_refused(value: float, name: str, says: str) -> None:
    with pytest.raises(ls.InvalidInput, match=says):
        ls.synthesize(Pad(T((8, 8), name), 1, value), "h200")


def test_padded_modes_stay_apart() -> None:
    """Rows of the source follow one another, but coordinates of rows in front of them are not those of one long row."""
    operator = Pad(T((60, 64), "bf16"), ((2, 3), (0, 0)), 0, T((65, 64), "bf16", (72, 1)))
    good = kernel_of(cached_plan(operator, H200, ("tma",)))
    assert good.source_groups == ((1,), (0,)) and good.tile[0] == 64
    with pytest.raises(ls.InvalidInput, match=r"merges modes \(1, 0\), of which one is padded"):
        replace(good, source_groups=((1, 0),), tile=(64, 4), swizzle_source=0)
    with pytest.raises(ls.InvalidInput, match="axis 1 has 2147483656 elements with its padding"):
        Pad(T((4, 8), "u8"), ((0, 0), (2**31 - 8, 8)))


def test_bad_numbers_are_no_kernel() -> None:
    good = kernel_of(cached_plan(NAMED["all around, by granules"][0], H200))
    row, *others = reversed(good.margins)
    assert (row.before, row.held) == (2, 60), "rows are the slowest mode"
    columns = others[0]
    for margins, says in (
        ((columns,), "give one for each"),
        ((columns, row._replace(before=good.extent[1] - 59)), "give one for each"),
        ((columns, row._replace(held=59)), "describe the same memory"),
        ((columns._replace(before=4), row), "give a multiple of 16"),
    ):
        with pytest.raises(ls.InvalidInput, match=says):
            replace(good, margins=margins)


def test_the_text_says_what_is_written_around() -> None:
    for name, says in (("rows behind", "it writes zeros"), ("negative", "it writes words of 0xbfc00000")):
        text = cached_plan(NAMED[name][0], H200).emit("triton")
        assert says in text and "in front  in source" in text
        assert max(map(len, text.splitlines())) <= 140
    plain: Any = cached_plan(ls.Copy(T((64, 64), "bf16")), H200).emit("triton")
    assert not re.search("around|in front|other=", plain)

"""Movements by every means in CUDA C++: the text on a host, byte by byte against the definition; its PTX is proven."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from in_windows import windows_by_definition
from movement_on_host import compiled, run

import legalsat as ls
from bench.gpu.copies import random_pad
from bench.kernels.moved import memory_of, moved
from bench.kernels.one_movement import BACKENDS, compared, compared_text
from bench.search.random_problems import problem
from legalsat.backends import emit, program
from legalsat.backends.cute.compile import OPTIONS, _compiled
from legalsat.extract.check.check_ptx import check_ptx
from legalsat.operators import Move
from legalsat.units.means import MEANS

needs_gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ on this machine")
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on this machine")
EACH = 3  # of every means, store and kind of operator
T = ls.Tensor
# Means that random problems seldom have, or that turn on something else than these.
NAMED: dict[str, tuple[Move, str]] = {
    "phases that shift": (ls.Copy(T((70, 131), "bf16"), tile=(16, 64)), "tma.phases"),
    "one phase of a slice": (ls.Copy(T((64, 128), "bf16", offset=2)), "tma.phases"),
    "runs": (ls.Copy(T((64, 72), "bf16"), tile=(32, 72)), "bulk"),
    "runs of 192 bytes": (ls.Copy(T((320,), "e2m3"), tile=(256,)), "bulk"),
    "runs that overhang": (ls.Copy(T((70, 72), "bf16"), tile=(32, 32)), "bulk"),
    "columns": (ls.Im2col(T((2, 9, 7, 16), "bf16"), 3, padding=1), "im2col"),
    "columns of an axis": (ls.Im2col(T((2, 30, 16), "bf16"), 3, stride=2), "im2col"),
    "columns of three axes": (ls.Im2col(T((1, 5, 6, 4, 16), "bf16"), 2, padding=1), "im2col"),
    "windows that leave": (ls.Im2col(T((2, 9, 7, 16), "bf16"), 3, padding=1, dilation=2), "cp.async"),
    "windows by threads": (ls.Im2col(T((1, 9, 7, 8), "fp32"), 3, padding=1), "threads"),
    "a ring of boxes": (ls.Copy(T((300, 256), "bf16"), tile=(64, 64), consumer="wgmma.a"), "tma"),
    "a ring of copies": (ls.Copy(T((1100, 1040), "bf16"), tile=(64, 64), consumer="wgmma.a"), "cp.async"),
    "a ring by threads": (ls.Copy(T((1100, 1038), "bf16"), tile=(64, 64), consumer="wgmma.b"), "threads"),
    "a tile that is no power of two": (ls.Transpose(T((120, 96), "bf16"), tile=(24, 48)), "tma"),
    "ones around": (ls.Pad(T((9, 33), "bf16"), ((1, 2), (3, 0)), 1.0), "threads"),
    "packed elements": (ls.Copy(T((64, 256), "e2m1")), "tma"),
    "a tile longer than an axis of one element": (ls.Copy(T((264, 1), "bf16", (8, 1)), tile=(64, 128)), "tma"),
    "fragments turned by words": (
        ls.Copy(T((64, 64), "bf16"), T((64, 64), "bf16", (1, 67)), tile=(64, 64), consumer="wgmma.a"),
        "fragments",
    ),
    "fragments": (ls.Copy(T((64, 64), "bf16", (66, 1)), tile=(64, 64), consumer="wgmma.a"), "fragments"),
}


@cache
def plans() -> list[ls.MovementPlan]:
    """Named plans, and random ones: a few of every means, store and kind of operator."""
    found = [ls.synthesize(operator, "h200", means=(means,)) for operator, means in NAMED.values()]  # type: ignore[arg-type]
    rng, kinds = random.Random(11), Counter[tuple[str, ...]]()
    for _ in range(400):
        operator = random_pad(rng) if rng.random() < 0.3 else problem(rng).operator
        try:
            plan = ls.synthesize(operator, "h200", means=(rng.choice(tuple(MEANS)),))  # type: ignore[arg-type]
        except ls.LegalSatError:
            continue
        kind = plan.access.by, plan.store, type(operator).__name__
        kinds[kind] += 1
        if kinds[kind] <= EACH and plan.operator.source.span_bits < 2**20:
            found.append(plan)
    return found


@needs_gcc
def test_what_is_printed_moves_every_byte_to_its_place(tmp_path: Path) -> None:
    """Copies land as late as the program's waits allow; nothing is read or written outside, nothing twice."""
    tiled = [plan for plan in plans() if plan.granules is None]  # others have a host of their own (test_granules.py)
    library = compiled(tiled, tmp_path)
    for number, plan in enumerate(tiled):
        operator = plan.operator
        source, target = memory_of(operator.source, 1), memory_of(operator.target)
        by_definition = windows_by_definition if isinstance(operator, ls.Im2col) else moved
        want = by_definition(operator, source, target.copy())  # type: ignore[arg-type]
        assert np.array_equal(run(library, number, plan, source, target), want), (operator, plan.access)


def test_random_plans_have_every_means() -> None:
    assert {plan.access.by for plan in plans()} == set(MEANS)


@needs_nvcc
@pytest.mark.parametrize("name", NAMED)
def test_what_nvcc_makes_of_it_is_proven(name: str, tmp_path: Path) -> None:
    """All but runs that a tensor's end cuts, whose missing bytes the machine of PTX does not count down."""
    operator, means = NAMED[name]
    plan = ls.synthesize(operator, "h200", means=(means,))  # type: ignore[arg-type]
    text = program(plan, "cute").text
    source, ptx = tmp_path / "kernel.cu", tmp_path / "kernel.ptx"
    source.write_text(text)
    architecture = "-gencode=arch=compute_90a,code=compute_90a"
    subprocess.run(["nvcc", *OPTIONS, "-ptx", architecture, "-o", str(ptx), str(source)], check=True)
    found = check_ptx(ptx.read_text())
    assert not found.findings
    if "movement::complete(" in text.partition('extern "C"')[2]:
        assert _compiled(text, "sm_90a")[:4] == b"\x7fELF"
    else:  # runs may come to little of a ring: what is left open then is that, and nothing that was run
        assert all("reached by no run" in one.reason for one in found.unproven)


def test_plan_texts_launches_and_programs_agree() -> None:
    for plan in plans():
        assert [one for one in compared(plan) if one[1] != one[2]] == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_text_that_does_something_else_is_told(backend: str) -> None:
    """One store more is pending than the program allows; tiles begin elsewhere; nobody meets."""
    plan = ls.synthesize(NAMED["a ring of boxes"][0], "h200", means=("tma",))
    made = program(plan, backend)
    words = {
        "triton": (("store_wait(2)", "store_wait(3)"), ("* 64, ", "* 32, "), ("mbarrier.wait(", "(")),
        "cute": (("wait_stores<2>", "wait_stores<3>"), ("* 64 + 0", "* 32 + 0"), ("movement::wait(", "(")),
    }[backend]
    assert all(ours == theirs for _, ours, theirs in compared_text(plan, made, backend))
    for old, new in words:
        assert old in made.text
        other = replace(made, text=made.text.replace(old, new))
        assert any(ours != theirs for _, ours, theirs in compared_text(plan, other, backend))


def test_a_plan_becomes_a_program() -> None:
    plan = ls.synthesize(NAMED["phases that shift"][0], "h200", means=("tma.phases",))
    found = program(plan)  # by the first backend that prints it
    assert found.builder.endswith("cute.movement_program")
    assert [one.name for one in found.operands] == ["source", "target"]
    assert len(found.recipes[0].arguments) == len(plan.tensor_maps) + 2
    assert "int run(void const *source, void *target, void *workspace, cudaStream_t stream)" in emit(plan, "cute")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("phases that shift", "triton has no row for Load by several tensor maps .*cute has one"),
        ("runs that overhang", "Load of runs"),
        ("columns", "Load of columns by im2col"),
        ("a ring of copies", "CopyIn"),
        ("a ring by threads", "Loop in"),
        ("windows by threads", "Vectors of windows that leave images"),
    ],
)
def test_triton_names_the_operation_that_it_has_no_row_for(name: str, words: str) -> None:
    operator, means = NAMED[name]
    with pytest.raises(ls.LegalSatError, match=words):
        ls.synthesize(operator, "h200", means=(means,)).emit("triton")  # type: ignore[arg-type]


def test_what_no_row_prints_is_said() -> None:
    operand = ls.Copy(T((4096, 4095), "bf16"), tile=(128, 64), consumer="wgmma.a", constant=True)
    relaid = ls.synthesize(operand, "h200")
    for backend in BACKENDS:  # but both kernels run, one behind the other
        made = program(relaid, backend)
        (before,) = made.before
        assert (before.operand, before.constant) == ("source", True)
        assert before.program == program(relaid.before[0], backend)
        assert made.operands[0] == before.program.operands[0]
        then = replace(relaid, operator=replace(operand, source=relaid.source, constant=False), before=())
        assert replace(made, before=()).recipes == program(then, backend).recipes
    turned = ls.Copy(T((64, 64), "bf16"), T((64, 64), "bf16", (1, 64)), tile=(64, 64), consumer="wgmma.a")
    with pytest.raises(ls.LegalSatError, match="no row for Vectors that registers turn"):
        ls.synthesize(turned, "h200", means=("fragments",)).emit("cute")
    with pytest.raises(ls.LegalSatError, match="not for mi300x"):
        ls.synthesize(T((64, 64), "bf16"), "mi300x").emit("cute")

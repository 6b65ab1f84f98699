"""Products with dims: one file for all extents of its guard, which asks the driver what files for those extents ask."""

from __future__ import annotations

import ctypes
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recording_driver
import recording_runtime
from test_launcher import ASKED, addresses, by_hand

import legalsat as ls
from bench.kernels.interpreted import drawn_numbers, exact
from legalsat.backends import program
from legalsat.backends.cute.cuda_file import cuda_file
from legalsat.backends.host.launcher import Launcher
from legalsat.dims import at, in_cpp
from legalsat.extract.cost.kernel_cost import kernel_cost
from legalsat.extract.kernels.interpreter import interpret
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.runtime.open_kernel import OpenKernel
from legalsat.runtime.views import Mismatch

Dim, Gemm, T = ls.Dim, ls.Gemm, ls.Tensor
M, N, K = Dim("M"), Dim("N"), Dim("K")
OPEN: dict[str, ls.Gemm] = {
    "m": Gemm(M, 512, 512, "bf16"),
    "all": Gemm(Dim("M", typical=1024), N, K, "bf16"),
    "odd k": Gemm(M, 256, 4095, "fp16"),
    "n of c^t": Gemm(512, N, Dim("K", multiple_of=16, typical=512), "e4m3", out_dtype="fp32", scaled=True),
    "a along m": Gemm(M, 256, K, "bf16", a=T((M, K), "bf16", (1, M))),
    "a wider pitch": Gemm(M, 256, 512, "bf16", a=T((M, 512), "bf16", (Dim("P"), 1)), constant_b=True),
    "a constant odd b": Gemm(M, 384, 1023, "bf16", constant_b=True),
    "few": Gemm(Dim("M", max=64), 4096, 4096, "bf16"),
}
EXTENTS = (1, 2, 7, 8, 16, 24, 33, 64, 65, 100, 128, 200, 256, 257, 513, 1000, 1024, 1111, 4096, 5000, 2**31, 2**33)


def planned(name: str) -> GemmPlan:
    return ls.synthesize(OPEN[name], "h200")


def drawn(gemm: ls.Gemm, rng: random.Random, count: int = 20) -> list[dict[str, int]]:
    """Extents in the dims' ranges and beyond, aligned and not."""
    found = []
    for _ in range(count):
        values = {dim.name: rng.choice(EXTENTS) for dim in gemm.dims}
        found.append({name: n * rng.choice((1, 1, 8)) if n < 600 else n for name, n in values.items()})
    return found


def legal(plan: GemmPlan, values: dict[str, int]) -> bool:
    """Whether a plan takes extents, by dims' ranges, the rules on each map at these numbers, and what kernels need."""
    try:
        bound = plan.operator.bind(values)
    except ls.LegalSatError:
        return False
    return any(_computes(bound, one.kernel, plan, values) for one in plan.choices)


def _computes(gemm: ls.Gemm, kernel: Any, plan: GemmPlan, values: dict[str, int]) -> bool:
    rows = gemm.n if kernel.swapped else gemm.m
    if rows < kernel.phases or -(-gemm.k // kernel.tile[2]) < kernel.least_k_tiles:
        return False
    if kernel.realign == "woven" and min(gemm.m, gemm.n, gemm.k) < 8:
        return False  # a map for each phase has a line
    maps = [one.bind(values) for one in GemmPlan(plan.operator, plan.target, kernel).tensor_maps]
    stored = not kernel.by_boxes or maps[-1].global_dim[0] * gemm.out_dtype.bytes % 16 == 0
    return stored and not any(d.level == "error" for one in maps for d in ls.violations(one, plan.target))


@pytest.mark.parametrize("name", OPEN)
def test_one_file_asks_for_every_extent_what_a_file_for_it_asks(name: str, tmp_path: Path) -> None:
    """Formulas in the host's C++, worked out there, against the same program made with the numbers."""
    plan = planned(name)
    made = program(plan, "cute")
    driver = recording_driver.build(tmp_path)
    recording_runtime.learn(driver, made)
    library = recording_runtime.build(made, tmp_path)
    launched = refused = 0
    for values in drawn(plan.operator, random.Random(name)):
        sizes = [ctypes.c_int64(values[dim.name]) for dim in made.dims]
        if not legal(plan, values):
            code = library.run(*[None] * (len(made.operands) + 1), *sizes, None)
            assert library.message(code).decode() == made.guard
            with pytest.raises(Mismatch, match=re.escape(made.guard)):
                made.bind(values)
            refused += 1
            continue
        chosen = plan.choices[made.choice(values)]
        closed = made.bind(values)
        if 1 not in values.values():  # where a single line lies at any pitch, which an open plan does not know
            alone = program(GemmPlan(plan.operator.bind(values), plan.target, chosen.kernel), "cute")
            assert replace(closed, subject="") == replace(alone, subject="")
        given, workspace = addresses(closed, library.workspace_bytes(*sizes))
        pointers = [ctypes.c_void_p(one) for one in (*given, workspace)]
        recording_runtime.learn(driver, closed)
        driver.calls()
        names = [one.name for one in closed.operands]
        constant = [given[names.index(one.operand)] for one in closed.before if one.constant]
        if constant and hasattr(library, "prepare"):
            code = library.prepare(*map(ctypes.c_void_p, (*constant, workspace)), *sizes, ctypes.c_void_p(77))
            assert code == 0, library.message(code)
        code = library.run(*pointers, *sizes, ctypes.c_void_p(77))
        assert code == 0, (values, library.message(code))
        ours = [{k: v for k, v in one.items() if k != "context"} for one in driver.calls(*ASKED)]
        assert ours == by_hand(closed, driver, dict(zip(names, given, strict=True)), workspace), values
        launched += 1
    assert launched >= 2
    assert refused >= 1


@pytest.mark.parametrize("name", ["all", "a along m"])
def test_kernels_compute_every_extent_of_their_guard(name: str) -> None:
    """Extents that are no tile's, by the program on numpy."""
    plan, rng, done = planned(name), random.Random(name), 0
    made = program(plan, "cute")
    while done < 6:
        values = {dim.name: rng.choice((1, 8, 40, 64, 72, 136, 200)) for dim in plan.operator.dims}
        if legal(plan, values):
            gemm = plan.operator.bind(values)
            closed = GemmPlan(gemm, plan.target, plan.choices[made.choice(values)].kernel)
            a, b = drawn_numbers(gemm, done)
            assert np.array_equal(interpret(closed, a, b, clusters=2, seed=done), exact(gemm, a, b)), values
            done += 1


def test_maps_show_symbols() -> None:
    plan = planned("all")
    boxed = next(one.kernel for one in plan.choices if one.kernel.store == "tma")
    a, b, c = GemmPlan(plan.operator, plan.target, boxed).tensor_maps
    assert (a.global_dim, b.global_dim, c.global_dim) == ((K, OPEN["all"].m), (K, N), (N, OPEN["all"].m))
    assert a.global_stride == (K * 2,)
    assert str(a).startswith("tiled bf16 map of K x M,")
    with pytest.raises(ls.LegalSatError, match="open in K, M; bind"):
        ls.violations(a, "h200")


def test_kernels_are_chosen_for_the_stated_extent() -> None:
    few, many = (ls.synthesize(Gemm(Dim("M", typical=n), 4096, 4096, "bf16"), "h200") for n in (16, 8192))
    for plan, typical in ((few, 16), (many, 8192)):
        assert plan.kernel == ls.synthesize(Gemm(typical, 4096, 4096, "bf16"), "h200").kernel
        assert 1 < len(plan.choices) <= 4
        assert plan.cost == plan.bind(M=typical).cost
    assert few.kernel != many.kernel


@pytest.mark.parametrize("name", ["m", "all", "n of c^t"])
def test_a_kernel_of_its_own_is_worth_it(name: str) -> None:
    """Where a range has a kernel, some other one of the plan takes 5% more there, or does not compute it."""
    plan, rng = planned(name), random.Random(name)
    made = program(plan, "cute")
    seen = set()
    for _ in range(60):
        values = {dim.name: 8 * rng.choice((2, 8, 32, 128, 512, 2048)) + rng.choice((0, 0, 1)) for dim in made.dims}
        if legal(plan, values):
            seen.add(made.choice(values))
    for number in seen:
        others = [one for i, one in enumerate(plan.choices) if i != number]
        gains = []
        for _ in range(40):
            values = {dim.name: 8 * rng.choice((2, 8, 32, 128, 512, 2048)) for dim in made.dims}
            if legal(plan, values) and made.choice(values) == number:
                gemm = plan.operator.bind(values)
                ours = kernel_cost(gemm, plan.choices[number].kernel, plan.target).nanoseconds
                gains += [
                    kernel_cost(gemm, one.kernel, plan.target).nanoseconds / ours
                    if _computes(gemm, one.kernel, plan, values)
                    else 9
                    for one in others
                ]
        assert not others or not gains or max(gains) > 1.05


def test_dims_are_read_off_arrays() -> None:
    made = program(planned("a wider pitch"), "cute")
    assert made.values_of([((100, 512), (640, 1)), ((256, 512), (512, 1))]) == {"M": 100, "P": 640}
    with pytest.raises(Mismatch, match="no operand says what P is"):
        made.values_of([((1, 512), (512, 1)), ((256, 512), (512, 1))])
    both = program(planned("all"), "cute")
    with pytest.raises(Mismatch, match=r"b has shape \(48, 72\), but K is 64"):
        both.values_of([((32, 64), None), ((48, 72), None)])
    with pytest.raises(Mismatch, match="a has 1 axes"):
        both.values_of([((32,), None)])


def test_nothing_is_compiled_twice(tmp_path: Path) -> None:
    made = program(planned("m"), "ptx")
    kernel = OpenKernel(made, cache=ls.runtime.Cache(tmp_path)).build()
    images = sorted(tmp_path.rglob("*"))
    one, other = kernel.bind(M=100).build(), kernel.bind(M=77).build()
    assert one._image is not None
    assert other._image is not None
    assert one._image.recipes != other._image.recipes
    assert sorted(tmp_path.rglob("*")) == images
    with pytest.raises(ls.LegalSatError, match="bind M"):
        kernel.bind(N=1)


def test_what_is_open_says_so() -> None:
    plan = planned("m")
    backends: tuple[ls.options.ProductBackend, ...] = ("triton", "ptx")
    for backend in backends:
        with pytest.raises(ls.LegalSatError, match="open in M; bind its dims"):
            plan.emit(backend)
    with pytest.raises(ls.LegalSatError, match="open in its dims"):
        plan.save("never.json")
    with pytest.raises(ls.LegalSatError, match="no dim N; bind M"):
        plan.bind(N=3)
    with pytest.raises(ls.LegalSatError, match="dim c bears a name"):
        ls.synthesize(Gemm(Dim("c"), 64, 64, "bf16"), "h200").emit("cute")
    with pytest.raises(ls.LegalSatError, match="typical value"):
        Dim("M", multiple_of=8, typical=12)
    assert "M must be at most 2147475456" in str(plan)


def test_formulas_are_the_same_in_both_languages() -> None:
    """Random formulas, evaluated and printed; the printed one read with C++'s meaning of what is never below 0."""
    rng = random.Random(5)
    for _ in range(300):
        formula: Any = rng.choice((M, N, M * N))
        for _ in range(rng.randrange(1, 6)):
            step, other = rng.randrange(5), rng.choice((1, 2, 7, 128, N, M + 3))
            formula = (
                formula + other if step == 0 else formula * other if step == 1 else formula // (other + 1)
                if step == 2 else formula % (other + 1) if step == 3 else other + formula
            )  # fmt: skip
        values = {"M": rng.randrange(1, 5000), "N": rng.randrange(1, 5000)}
        printed = in_cpp(formula).replace("/", "//").replace("ll", "")
        assert eval(printed, dict(values)) == at(formula, values) == eval(str(formula), dict(values))


def test_what_kernels_lay_out_otherwise_is_no_preparation() -> None:
    """One memory serves all extents: what is made once is what every kernel of the file reads."""
    made = program(planned("a constant odd b"), "cute")
    *first, last = made.choices
    (laid,) = last.program.before
    assert first and Launcher(made).prepares
    other = replace(laid, program=replace(laid.program, text=f"{laid.program.text}// another\n"))
    apart = replace(made, choices=(*first, replace(last, program=replace(last.program, before=(other,)))))
    launcher = Launcher(apart)
    assert not launcher.prepares
    assert len(launcher.launches) == 2 * len(made.choices)


def test_headers_are_told_first_what_any_text_tells_them() -> None:
    """Where kernels share a file, what one defines for CuTe's headers stands in front of all includes."""
    told = "#define CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED\n#include <cute/arch/mma_sm90_gmma.hpp>\n"
    made = program(planned("m"), "cute")
    assert len(made.choices) > 1
    *first, last = made.choices
    wide = replace(last, program=replace(last.program, text=told + last.program.text))
    text = cuda_file(replace(made, choices=(*first, wide)), "title", "product")
    assert text.index("#define CUTE_SM90") < text.index("#include <cu")


def test_what_would_be_copied_first_is_told_and_what_to_do_helps() -> None:
    """The words name the operand, and a product whose operand lies as they say takes every extent."""
    region = ls.legal_region(Gemm(M, N, K, "bf16"), "h200")
    (rest,) = (one for one in region.family if one.plan is None)
    assert "would be copied first" in str(rest) and 'strides=(Dim("P", multiple_of=8), 1)' in str(rest)
    assert str(rest) in ls.explain(Gemm(M, N, K, "bf16"), "h200").values
    pitch = Dim("P", multiple_of=8)
    padded = Gemm(M, N, K, "bf16", a=T((M, K), "bf16", (pitch, 1)), b=T((N, K), "bf16", (pitch, 1)))
    assert planned_sentence(padded) == "; ".join(f"{dim} must be at most 2147475456" for dim in "KMN")
    along_m = T((M, 512), "e4m3", (1, M))
    with pytest.raises(ls.LegalSatError, match=r"A would be copied first.*state a pitch of whole 16 bytes along k"):
        ls.synthesize(Gemm(M, 512, 512, "e4m3", a=along_m), "h200")
    padded = Gemm(M, 512, 512, "e4m3", a=T((M, 512), "e4m3", (Dim("P", multiple_of=16), 1)))
    assert planned_sentence(padded) == "M must be at most 2147475456"


def planned_sentence(gemm: ls.Gemm) -> str:
    return ls.synthesize(gemm, "h200").guard_sentence


@pytest.mark.parametrize("dtype", ["i8", "bf16"])
def test_products_on_tcgen05_are_open_too(dtype: str) -> None:
    plan = ls.synthesize(Gemm(M, 512, 512, dtype), "b200")
    assert plan.kernel.issues and plan.guard and plan.bind(M=256).operator.m == 256
    with pytest.raises(ls.LegalSatError, match=r"bind its dims or ask for host$"):
        plan.emit("ptx")
    with pytest.raises(ls.NoLegalLayout, match="PROD004"):
        ls.synthesize(Gemm(M, 512, 512, "bf16"), "mi300x")

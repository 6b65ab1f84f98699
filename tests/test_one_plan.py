"""What is launched is what is planned: on every GPU, by every backend, in front of the kernel too."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import legalsat as ls
from bench import one_plan
from bench.kernels import one_launch
from legalsat.backends import PRODUCT_PROGRAMS, backend_of, program
from legalsat.extract.cost.kernel_cost import kernel_cost
from legalsat.extract.kernels.product_kernels import each_kernel
from legalsat.extract.moved.relayouts import BY_WORDS, MEANS, nanoseconds_of

ODD = ls.Gemm(512, 776, 1023, "bf16", b=ls.Tensor((776, 1023), "bf16", (1023, 1)))
FAULTS: dict[str, Callable[[Any], Any]] = {
    "by other means": lambda made: replace(made, before=program(by_words(made), "ptx").before),
    "one too few": lambda made: replace(made, before=made.before[1:]),
    "once for all": lambda made: replace(made, before=tuple(replace(one, constant=True) for one in made.before)),
    "fewer blocks": lambda made: replace(made, recipes=(replace(made.recipes[0], grid=(1, 1, 1)),)),
    "more threads": lambda made: replace(made, recipes=(replace(made.recipes[0], threads=1024),)),
}


def by_words(_: Any) -> ls.GemmPlan:
    plan = ls.synthesize(ODD, "b200")
    return replace(plan, kernel=replace(plan.kernel, means=BY_WORDS))


@pytest.mark.parametrize("seed", range(24))
def test_launches_are_the_plans(seed: int) -> None:
    found = one_plan.of_launch(random.Random(f"launches {seed}"))
    for name, planned, launched in () if found is None else found[1]:
        assert planned == launched, name


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("gpu", ["h200", "b200"])
def test_relayouts_that_run_are_those_that_a_plan_says(gpu: str, seed: int) -> None:
    """Of random products by "ptx": each is the program of its plan, whoever prints it."""
    r = random.Random(f"{gpu} {seed}")
    m, n, k = (r.randint(1, 900) for _ in range(3))
    a, b = (ls.Tensor((rows, k), "bf16", r.choice(((k, 1), (1, rows), (2 * k, 2), (k + 8, 1)))) for rows in (m, n))
    plan = ls.synthesize(ls.Gemm(m, n, k, "bf16", a=a, b=b, constant_b=r.random() < 0.5), gpu, backend="ptx")
    made = program(plan, "ptx")
    alone = [program(one.plan) for one in plan.before]
    early = [replace(one, recipes=tuple(replace(each, dependent=True) for each in one.recipes)) for one in alone]
    said = [(one.operand, printed, one.constant) for one, printed in zip(plan.before, early, strict=True)]
    assert [(one.operand, one.program, one.constant) for one in made.before] == said


@pytest.mark.parametrize("fault", FAULTS)
def test_launches_that_differ_are_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ls.synthesize(ODD, "b200")
    assert len(plan.before) == 2 and not [name for name, ours, theirs in one_launch.compared(plan) if ours != theirs]
    wrong = FAULTS[fault](program(plan, "ptx"))
    monkeypatch.setattr(one_launch, "program", lambda one, name: wrong if one is plan else program(one, name))
    assert [name for name, ours, theirs in one_launch.compared(plan) if ours != theirs]


@pytest.mark.parametrize("gemm", [ODD, ls.Gemm(300, 1000, 4090, "e4m3")], ids=str)
def test_what_triton_prints_is_laid_out_and_costed_by_means_that_it_prints(gemm: ls.Gemm) -> None:
    """No kernel whose relayouts travel so takes less, and what a plan says of them is said of what is launched."""
    plan = ls.synthesize(gemm, "h200", backend="triton")
    before, made = plan.before, program(plan, "triton")
    assert before and plan.kernel.means == BY_WORDS and {one.plan.access.by for one in before} <= set(BY_WORDS)
    assert {backend_of(one.program) for one in made.before} == {"triton"}
    times = [nanoseconds_of(one) for one in before]
    assert plan.cost.relayouts == pytest.approx(sum(times), abs=0.1)
    granules = kernel_cost(gemm, replace(plan.kernel, means=MEANS), plan.target)
    assert granules.relayouts < plan.cost.relayouts
    assert plan.cost.nanoseconds - granules.nanoseconds == pytest.approx(
        plan.cost.relayouts - granules.relayouts, abs=0.2
    )
    with pytest.raises(
        ls.LegalSatError, match=r'no row for relayouts by granules.* ask synthesize for backend="triton"'
    ):
        replace(plan, kernel=replace(plan.kernel, means=MEANS)).emit("triton")


def test_relayouts_travel_by_no_other_means(tmp_path: Any) -> None:
    plan = ls.synthesize(ODD, "b200")
    for means in (("bulk",), ("threads",), ()):
        wrong = replace(plan, kernel=replace(plan.kernel, means=means))
        with pytest.raises(ls.LegalSatError):
            wrong.save(tmp_path / "plan.json")
            ls.GemmPlan.load(tmp_path / "plan.json")
    alone = ls.synthesize(ls.Gemm(512, 512, 512, "bf16"), "b200")
    replace(alone, kernel=replace(alone.kernel, means=BY_WORDS)).save(tmp_path / "plan.json")
    with pytest.raises(ls.LegalSatError, match=r"kernel .* is none that computes"):
        ls.GemmPlan.load(tmp_path / "plan.json")


def test_kernels_of_a_plan_lay_out_by_granules() -> None:
    assert set(PRODUCT_PROGRAMS) == {"cute", "ptx", "triton"}
    plan = ls.synthesize(ODD, "h200")
    assert {kernel.means for _, kernel in each_kernel(ODD, plan.target)} == {MEANS}

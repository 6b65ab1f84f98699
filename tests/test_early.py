"""Kernels that are brought in before those in front of them end wait for these before they touch global memory."""

from __future__ import annotations

import pytest

import legalsat as ls
from legalsat.backends import program
from legalsat.backends.cute.program import program_for
from legalsat.extract.moved.relayouts import relayouts_of
from legalsat.program.early import begins_early, runs_beside
from legalsat.program.kernel import FindGroups, KernelProgram, MeetSetup, every
from legalsat.program.pipeline import AwaitGrid, Fence, LaunchDependents, Pipeline, Start, Sync, Vectors

ODD = ls.Gemm(4097, 4099, 4093, "bf16")  # laid out first
SLICED = ls.Gemm(512, 512, 16384, "bf16")  # with a kernel behind


def test_whoever_reads_before_it_waits_is_not_brought_in_early() -> None:
    own = (Start("full"), Fence("mbarrier_init"), Sync("block"))
    assert begins_early((*own, AwaitGrid(), Vectors("source", 16)))
    assert begins_early((MeetSetup(), AwaitGrid(), FindGroups()))
    assert not begins_early((*own, Vectors("source", 16), AwaitGrid()))
    assert not begins_early((MeetSetup(), FindGroups(), AwaitGrid()))
    assert not begins_early(own), "it never waits"
    assert not begins_early((LaunchDependents(), AwaitGrid())), "two kernels behind each other would both be let in"


@pytest.mark.parametrize("backend", ["cute", "ptx"])
def test_every_kernel_of_a_product_waits_first_and_lets_others_in(backend: str) -> None:
    made = program(ls.synthesize(ls.Gemm(1024, 1024, 1024, "bf16"), "h200"), backend)
    assert [recipe.dependent for recipe in made.recipes] == [True]
    wait, let_in = (made.text.index(f"griddepcontrol.{what}") for what in ("wait", "launch_dependents"))
    assert wait < let_in or backend == "cute"  # where roles are functions in front of the kernel


@pytest.mark.parametrize("gemm", [ODD, SLICED], ids=["laid out first", "added up behind"])
def test_kernels_in_front_and_behind_wait_too(gemm: ls.Gemm) -> None:
    plan = ls.synthesize(gemm, "h200")
    made = program(plan, "cute")
    recipes = [recipe for one in made.before for recipe in one.program.recipes] + list(made.recipes)
    assert len(recipes) > 1
    # What adds slices up does so where that crowds no processor (tests/test_slices.py).
    assert all(recipe.dependent or recipe.entry.startswith("add_slices") for recipe in recipes)
    before: list[Pipeline] = [one.plan.pipeline for one in plan.before]
    behind = [] if plan.behind is None else [plan.behind.pipeline]
    for one in before[:1] + behind:
        assert begins_early(one.roles[0].body)
    for one, front in zip(before[1:], before, strict=False):
        assert runs_beside(one.roles[0].body, front.roles[0].body)
    whole = plan.program
    assert isinstance(whole, KernelProgram) and begins_early(whole.everybody)
    let_in = [role.name for role in whole.roles if any(isinstance(op, LaunchDependents) for op in every(role.body))]
    assert let_in == ["producer"]


def test_gpus_without_dependent_launches_are_asked_for_none() -> None:
    x = ls.Tensor((1000, 1001), "bf16")
    for target, early in (("a100", False), ("h200", True)):
        made = program(ls.synthesize(ls.Transpose(x), target, means=("granules",)), "cute")
        assert [recipe.dependent for recipe in made.recipes] == [early]


FRONT = (AwaitGrid(), LaunchDependents(), Vectors("source", 16))


def test_whoever_runs_beside_the_kernel_in_front_waits_for_it_last() -> None:
    body = (LaunchDependents(), Vectors("source", 16), AwaitGrid())
    assert runs_beside(body, FRONT)
    assert not begins_early(body), "by itself it is no dependent one"
    assert not runs_beside(body[:-1], FRONT), "who waits for it would not have waited for the one in front"
    assert not runs_beside((AwaitGrid(), *body[:-1]), FRONT)
    assert not runs_beside((), FRONT)
    early = (LaunchDependents(), AwaitGrid(), Vectors("source", 16))
    assert not runs_beside(body, early), "it would be let in before what is further in front is done"
    assert not runs_beside(body, FRONT[:1]), "which lets nobody in"
    assert not runs_beside(body, body), "the third of three would wait for the second alone"


def test_the_second_relayout_of_a_call_runs_beside_the_first() -> None:
    odd = ls.Gemm(3177, 1324, 487, "bf16")
    plan = ls.synthesize(odd, "h200")
    kernels = [one.kernel for one in plan.candidates if one.kernel]
    both = next(one for one in kernels if "none" not in one.relayouts)

    def launches(gemm: ls.Gemm) -> list[tuple[str, bool, bool]]:
        made, before = program_for(gemm, both, plan.target), relayouts_of(gemm, both, plan.target)
        return [
            (launch.entry, launch.dependent, isinstance(one.plan.pipeline.roles[0].body[-1], AwaitGrid))
            for one, relayout in zip(before, made.before, strict=True)
            for launch in relayout.program.recipes
        ]

    (first, *of_first), (second, *of_second) = launches(odd)
    assert (of_first, of_second) == ([True, False], [True, True]) and second == f"{first}_beside"
    weight = ls.Gemm(3177, 1324, 487, "bf16", constant_b=True)
    assert [last for _, _, last in launches(weight)] == [False, False], "what runs once is not there at other calls"

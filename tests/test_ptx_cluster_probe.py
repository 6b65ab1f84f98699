"""Clusters that only the launch decides: one launch tells most that are wrong from those that are worth a sweep."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from test_check_ptx_clusters import BOX, check, ring

from legalsat.analyses.ptx.text import parse
from legalsat.analyses.ptx_machine.machine import Run
from legalsat.analyses.ptx_machine.program import compile_kernel
from legalsat.extract.check import ptx_least, ptx_values
from legalsat.extract.check.ptx_cluster_probe import shown_by_one
from legalsat.extract.check.ptx_clusters import TRIED, Shape, likelier
from legalsat.extract.check.ptx_failure import Values
from legalsat.extract.check.ptx_sweep import Sweep

BEGIN = "\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"


def against(text: str, shape: Shape) -> str | None:
    module = parse(text)
    found = shown_by_one(compile_kernel(module, replace(module.kernels[0], cluster=shape)), {}, {}).against
    return None if found is None else found.kind


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((1, 1, 1), "multicast_outside_cluster"), ((2, 1, 1), "multicast_outside_cluster"), ((4, 1, 1), None),
     ((4, 2, 1), "arrivals_missing")],
)  # fmt: skip
def test_one_launch_tells_for_which_cluster_a_ring_is(shape: Shape, kind: str | None) -> None:
    assert against(ring(4, cluster=""), shape) == kind


def test_a_cluster_is_looked_at_by_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Values] = []
    begin = Sweep.begun

    def counted(self: Sweep, held: Values, *a: object, **k: object) -> Run:
        begun.append(held)
        return begin(self, held, *a, **k)  # type: ignore[arg-type]

    monkeypatch.setattr(Sweep, "begun", counted)
    store = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [map, {%r20, %r20}], [%r11]"
    done = "cp.async.bulk.commit_group", "cp.async.bulk.wait_group.read 0"
    text = ring(4, cluster="", begin="\n".join(f"@%p0 {one};" for one in (store, *done)) + BEGIN)
    module = parse(text)
    program = compile_kernel(module, replace(module.kernels[0], cluster=(4, 1, 1)))
    shown_by_one(program, {}, {})
    assert program.stores.places and len(begun) == 1  # how far a store reaches is of no account


def test_a_cluster_that_is_right_leaves_nothing_behind() -> None:
    text = ring(4, cluster="")
    (found,) = check(text).kernels
    (alone,) = check(ring(4)).kernels
    assert found.proven and found.cluster == (4, 1, 1)
    assert found.reached == alone.reached and found.parameters == alone.parameters


def shared_tiles(rounds: str = "", **changes: str) -> str:
    """A ring of which each CTA of a pair takes every other tile, so that both must have as many."""
    count = "add.u32 %r2, %r2, 1;\nsub.u32 %r2, %r2, %r1;\nshr.u32 %r2, %r2, 1;"
    text = ring(2, **{"cluster": "", **changes})
    return text.replace("ld.param.u32 %r2, [n];", f"ld.param.u32 %r2, [n];\n{count}\n{rounds}")


def test_that_all_ctas_must_get_as_many_tiles_is_a_condition() -> None:
    (found,) = check(shared_tiles()).kernels
    assert found.proven, (found.findings, found.unproven)
    assert [(one.name, one.multiple) for one in found.conditions] == [("n", 2)]


@pytest.mark.parametrize(("changes", "right"), [({}, True), ({"wait_full": "setp.eq.u32 %p5, 0, 0;"}, False)])
def test_where_the_least_launch_hangs_no_sweep_is_spent_on_such(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], right: bool
) -> None:
    """One CTA of a pair has a tile with the least launch, the other none; what breaks others too is still found."""
    swept: list[dict[str, int]] = []
    sweep_all = ptx_values.sweep_all

    def noted(sweep: Sweep) -> None:
        swept.append(dict(sweep.whole))
        sweep_all(sweep)

    monkeypatch.setattr(ptx_least, "sweep_all", noted)
    (found,) = check(shared_tiles(cluster=".reqnctapercluster 2", **changes)).kernels
    assert found.proven == right and bool(found.findings) != right, (found.findings, found.unproven)
    if right:
        assert swept == [{"n": 2}] and {one % 2 for one in found.parameters["n"]} == {0}
        assert [(one.name, one.multiple) for one in found.conditions] == [("n", 2)]


def test_launches_that_fail_an_assertion_say_nothing_of_shared_tiles() -> None:
    """CUTLASS asserts that there is some k, and an odd number of tiles without is smaller than one that hangs."""
    some = """ld.param.u32 %r30, [k];
setp.ne.u32 %p7, %r30, 0;
@%p7 bra SOME;
call.uni __assertfail, (param0, param0);
SOME:
mul.lo.u32 %r2, %r2, %r30;"""
    text = shared_tiles(some).replace(".param .u32 n)", ".param .u32 n, .param .u32 k)")
    (found,) = check(text).kernels
    assert found.proven, (found.findings, found.unproven)
    assert [(one.name, one.multiple) for one in found.conditions] == [("n", 2)]


def test_that_others_hang_for_want_of_work_hides_no_shared_tiles() -> None:
    """Where there is no k nobody loads, so that all who read wait in vain, whatever the number of tiles."""
    begin = "setp.ne.u32 %p2, %r0, 0;"
    text = shared_tiles("ld.param.u32 %r30, [k];").replace(".param .u32 n)", ".param .u32 n, .param .u32 k)")
    (found,) = check(text.replace(begin, f"{begin}\nsetp.eq.or.u32 %p2, %r30, 0, %p2;")).kernels
    assert found.proven, (found.findings, found.unproven)
    assert sorted((one.name, one.least, one.multiple) for one in found.conditions) == [("k", 1, 1), ("n", 0, 2)]


def test_where_one_launch_speaks_against_every_cluster_the_answer_says_so() -> None:
    (found,) = check(ring(4, cluster="", expect="mbarrier.arrive.shared::cta.b64 _, [%r15];")).kernels
    assert not found.proven
    assert "and in none" in found.unproven[0].reason


@pytest.mark.parametrize(
    ("masks", "counts", "shape"),
    [
        # CUTLASS 4, sm90_pipeline.hpp: CTAs of a row share A's or B's tiles, those of a column the others; a consumer
        # warpgroup arrives at each of them, x + y - 1 in all.
        ({0b1111, 0b10001}, {1, 10}, (4, 2, 1)),
        ({0b11, 0b101}, {1, 3, 32}, (2, 2, 1)),
        ({0b101, 0b1000100010001}, {1, 5}, (4, 4, 1)),  # pairs: every other CTA of a row
        ({0b11111111}, {1, 8}, (8, 1, 1)),
        ({0b11111111}, {1, 16}, (8, 1, 1)),
    ],
)
def test_masks_and_arrivals_tell_the_cluster_first(masks: set[int], counts: set[int], shape: Shape) -> None:
    assert shape == next(one for one in likelier(TRIED[1:], masks, counts) if math.prod(one) > 1)


def test_no_cluster_is_left_out_by_what_one_launch_shows() -> None:
    assert set(TRIED) <= set(likelier(TRIED, {0b101}, {7}))
    assert likelier(TRIED, set(), {7}) == TRIED


def test_sixteen_ctas_are_found_though_no_such_cluster_is_tried_unasked() -> None:
    assert 16 not in map(math.prod, TRIED)
    (found,) = check(ring(16, cluster="")).kernels
    assert found.proven, (found.findings, found.unproven)
    assert found.cluster is not None and math.prod(found.cluster) == 16


def odd_rounds(expected: int) -> str:
    """A ring of two CTAs that expects its bytes at a place of its own in the last of an odd number of rounds."""
    right = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r15], {2 * BOX};"
    expect = f"""add.u32 %r30, %r12, 1;
setp.eq.u32 %p7, %r30, %r2;
and.b32 %r31, %r2, 1;
setp.ne.and.u32 %p7, %r31, 0, %p7;
@!%p7 bra EVEN;
{right.replace(str(2 * BOX), str(expected))}
bra.uni GO;
EVEN:
{right}
GO:"""
    return ring(2, expect=expect)


def test_what_hangs_where_no_right_launch_comes_is_no_matter_of_shared_tiles() -> None:
    (found,) = check(odd_rounds(2 * BOX)).kernels
    assert found.proven and not found.conditions, (found.findings, found.unproven)
    (found,) = check(odd_rounds(2 * BOX + 16)).kernels
    assert "bytes_differ" in {one.kind for one in found.findings}, found.conditions

"""Clusters that only the launch decides: one launch tells most that are wrong from those that are worth a sweep."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_check_ptx_clusters import check, ring

from legalsat.analyses.ptx.text import parse
from legalsat.analyses.ptx_machine.program import compile_kernel
from legalsat.extract.check.ptx_cluster_probe import speaks_against
from legalsat.extract.check.ptx_clusters import Shape


def against(text: str, shape: Shape) -> str | None:
    module = parse(text)
    found = speaks_against(compile_kernel(module, replace(module.kernels[0], cluster=shape)), {}, {})
    return None if found is None else found.kind


@pytest.mark.parametrize(
    ("shape", "kind"),
    [((1, 1, 1), "multicast_outside_cluster"), ((2, 1, 1), "multicast_outside_cluster"), ((4, 1, 1), None),
     ((4, 2, 1), "arrivals_missing")],
)  # fmt: skip
def test_one_launch_tells_for_which_cluster_a_ring_is(shape: Shape, kind: str | None) -> None:
    assert against(ring(4, cluster=""), shape) == kind


def test_a_cluster_that_is_right_leaves_nothing_behind() -> None:
    text = ring(4, cluster="")
    (found,) = check(text).kernels
    (alone,) = check(ring(4)).kernels
    assert found.proven and found.cluster == (4, 1, 1)
    assert found.reached == alone.reached and found.parameters == alone.parameters


def shared_tiles() -> str:
    """A ring of which each CTA of a pair takes every other tile, so that both must have as many."""
    count = "add.u32 %r2, %r2, 1;\nsub.u32 %r2, %r2, %r1;\nshr.u32 %r2, %r2, 1;"
    return ring(2, cluster="").replace("ld.param.u32 %r2, [n];", f"ld.param.u32 %r2, [n];\n{count}")


def test_that_all_ctas_must_get_as_many_tiles_is_a_condition() -> None:
    (found,) = check(shared_tiles()).kernels
    assert found.proven, (found.findings, found.unproven)
    assert [(one.name, one.multiple) for one in found.conditions] == [("n", 2)]


def test_where_one_launch_speaks_against_every_cluster_the_answer_says_so() -> None:
    (found,) = check(ring(4, cluster="", expect="mbarrier.arrive.shared::cta.b64 _, [%r15];")).kernels
    assert not found.proven
    assert "and in none" in found.unproven[0].reason

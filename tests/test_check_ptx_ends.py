"""Where barriers, shared memory and clusters end: barriers begun again, boxes past variables, ranks of no cluster."""

from __future__ import annotations

import pytest
from test_ptx_branches import BARRIERS, BYTES, READ, START, kernel, only, wait

from legalsat.extract.check.check_ptx import KernelCheck
from legalsat.extract.check.check_words import assumptions_of

LIFE = f"{START}{wait(f'%r1+{BARRIERS}', '0', 'FIRST')}{READ}bar.sync 0;\n"
AGAIN = LIFE.replace("FIRST", "SECOND").replace("LOADED", "RELOADED")
INVAL = f"@%p0 mbarrier.inval.shared::cta.b64 [%r1+{BARRIERS}];\nbar.sync 0;\n"


@pytest.mark.parametrize("between", [INVAL, ""])
def test_a_barrier_that_is_initialised_again_without_inval_is_a_warning(between: str) -> None:
    found = only(kernel(LIFE + between + AGAIN))
    assert found.proven, (found.findings, found.unproven)
    assert ("barrier_not_invalidated" in {one.kind for one in found.warnings}) != bool(between)
    assert any("PIPE037" in one for one in assumptions_of(found)) != bool(between)


def test_a_barrier_that_is_initialised_again_while_a_load_is_under_way_is_an_error() -> None:
    hasty = LIFE.replace(wait(f"%r1+{BARRIERS}", "0", "FIRST"), "").replace(READ, "")
    assert "barrier_destroyed" in {one.kind for one in only(kernel(hasty + AGAIN)).findings}


def declared(size: int, more: str = "") -> KernelCheck:
    """One load of a kernel whose variables in shared memory have sizes; `more`: text that it ends with."""
    text = kernel(LIFE + more).replace(".extern .shared .align 1024 .b8 memory[];\n", "")
    variables = f".shared .align 8 .b64 bar;\n.shared .align 1024 .b8 memory[{size}];\n"
    text = text.replace(".reg .pred", f"{variables}.reg .pred", 1).replace(f"%r1+{BARRIERS}", "bar")
    return only(text)


@pytest.mark.parametrize(("size", "right"), [(BYTES, True), (BYTES - 16, False), (BYTES - 4, False), (4 * BYTES, True)])
def test_a_load_past_all_variables_in_shared_memory_is_left_open(size: int, right: bool) -> None:
    found = declared(size)
    assert found.proven == right and not found.findings, (found.findings, found.unproven)
    assert any("past the" in one.reason for one in found.unproven) != right


@pytest.mark.parametrize(("offset", "right"), [(0, True), (BYTES - 4, True), (BYTES, False)])
def test_so_is_a_store_by_threads(offset: int, right: bool) -> None:
    found = declared(BYTES, f"@%p0 st.shared.u32 [%r1+{offset}], %r0;\n")
    assert found.proven == right and not found.findings, (found.findings, found.unproven)


def test_where_a_launch_says_how_much_there_is_nothing_is_past_it() -> None:
    assert declared(BYTES - 16, "mov.u32 %r30, %dynamic_smem_size;\n@%p0 st.shared.u32 [%r1], %r30;\n").proven


@pytest.mark.parametrize("name", ["%cluster_ctarank", "%cluster_nctarank", "%is_explicit_cluster"])
def test_a_kernel_that_asks_for_its_cluster_is_proven_for_none(name: str) -> None:
    """Its text names no cluster; with two CTAs the second one would never wait."""
    rank = f"mov.b32 %r30, {name};\nsetp.gt.u32 %p1, %r30, 1;\n@%p1 bra END;\n"
    found = only(kernel(f"{START}{rank}{wait(f'%r1+{BARRIERS}', '0', 'FIRST')}END:\n"))
    assert found.proven and found.cluster == (1, 1, 1), (found.findings, found.unproven)
    assert "clusters have 1 x 1 x 1 CTAs, which the text does not say" in assumptions_of(found)
    assert only(kernel(LIFE)).cluster is None

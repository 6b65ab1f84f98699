"""cp.async and who reads what it wrote: through the generic proxy as stores do, so that a fence follows its wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from legalsat.extract.check.check_ptx import PtxCheck, check_ptx

DATA = Path(__file__).parent / "data" / "ptx"
FENCE = "fence.proxy.async.shared::cta;"
STORE = """
@%p0 cp.async.bulk.global.shared::cta.bulk_group [%d0], [stage], 2048;
@%p0 cp.async.bulk.commit_group;
@%p0 cp.async.bulk.wait_group.read 0;
"""
GROUP = "cp.async.commit_group;"
WAIT = "cp.async.wait_group 0;"
BARRIER = """
@%p0 mbarrier.init.shared::cta.b64 [barrier], 128;
bar.sync 0;
cp.async.mbarrier.arrive.noinc.shared::cta.b64 [barrier];
W:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [barrier], 0;
@!%p1 bra W;
"""


def check(*steps: str) -> PtxCheck:
    """Check a kernel in which each thread copies its 16 bytes, and then this happens."""
    between = "\n".join(steps)
    return check_ptx(f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
.reqntid 128
{{
.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %d<9>;
.shared .align 1024 .b8 stage[2048];
.shared .align 8 .b64 barrier;
ld.param.u64 %d0, [p];
mov.u32 %r0, %tid.x;
setp.eq.u32 %p0, %r0, 0;
shl.b32 %r1, %r0, 4;
mov.u32 %r2, stage;
add.u32 %r2, %r2, %r1;
cp.async.cg.shared.global [%r2], [%d0], 16;
{between}
ret;
}}
""")


@pytest.mark.parametrize(
    ("steps", "warned"),
    [
        ((GROUP, WAIT, FENCE, "bar.sync 0;", STORE), False),
        ((GROUP, WAIT, "bar.sync 0;", FENCE, STORE), False),
        (("cp.async.wait_all;", FENCE, "bar.sync 0;", STORE), False),
        ((BARRIER, FENCE, STORE), False),
        ((GROUP, WAIT, "bar.sync 0;", STORE), True),
        ((GROUP, FENCE, WAIT, "bar.sync 0;", STORE), True),
        ((FENCE, "cp.async.wait_all;", "bar.sync 0;", STORE), True),
        ((BARRIER, STORE), True),
        ((GROUP, WAIT, "bar.sync 0;", "ld.shared.b32 %r3, [stage];"), False),
    ],
)
def test_a_fence_follows_the_wait_for_copies_that_the_async_proxy_reads(steps: tuple[str, ...], warned: bool) -> None:
    found = check(*steps)
    assert found.proven, (found.findings, found.unproven)
    assert any(one.kind == "copies_not_fenced" for one in found.warnings) == warned


def test_a_fence_is_no_wait() -> None:
    found = check(GROUP, FENCE, "bar.sync 0;", STORE)
    assert {one.kind for one in found.findings} == {"read_before_full"}


def test_wgmma_behind_copies_is_warned_of_where_the_compiler_gives_no_fence() -> None:
    text = (DATA / "triton_product_by_pointers_sm_90.ptx").read_text(encoding="utf-8")
    assert any(one.kind == "copies_not_fenced" for one in check_ptx(text).warnings)
    fenced = text.replace("wgmma.fence.sync.aligned;", f"{FENCE}\nwgmma.fence.sync.aligned;")
    assert fenced != text
    assert not any(one.kind == "copies_not_fenced" for one in check_ptx(fenced).warnings)

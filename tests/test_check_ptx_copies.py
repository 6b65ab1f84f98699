"""cp.async and who reads what it wrote: through the generic proxy as stores do, so that a fence follows its wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from legalsat.analyses.ptx.text import parse
from legalsat.analyses.ptx_machine.events import Recorder
from legalsat.analyses.ptx_machine.machine import Run
from legalsat.analyses.ptx_machine.program import compile_kernel
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
    return check_ptx(check_text("\n".join(("cp.async.cg.shared.global [%r2], [%d0], 16;", *steps))))


def check_text(body: str) -> str:
    """Return a kernel in which each thread knows its 16 bytes, and then does this."""
    return f"""
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
{body}
ret;
}}
"""


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


RUN = "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [stage], [%d0], 1536, [barrier];"
SHORT = """
@%p0 mbarrier.init.shared::cta.b64 [barrier], 1;
bar.sync 0;
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [barrier], 2048;
{}
W:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [barrier], 0;
@!%p1 bra W;
ld.shared.b32 %r3, [stage];
"""


@pytest.mark.parametrize(("bytes_", "told"), [(512, False), (496, True), (0, True), (528, True)])
def test_bytes_that_nothing_brings_are_counted_down(bytes_: int, told: bool) -> None:
    """A run that ends with its tensor is short of its row; its thread counts the rest down."""
    rest = f"@%p0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [barrier], {bytes_};" if bytes_ else ""
    for steps in ((RUN, rest), (rest, RUN)):
        found = check_ptx(check_text(SHORT.format("\n".join(steps))))
        assert {one.kind for one in found.findings} == ({"bytes_differ"} if told else set())
        assert found.proven == (not told), found.unproven


FAR = 1 << 40  # an address that is none of shared memory
TRACED = """
mov.u32 %r4, %ctaid.x;
mad.lo.s32 %r4, %r4, 64, -8;
cvta.shared.u64 %d1, stage;
mad.wide.u32 %d2, %r0, 16, %d0;
setp.lt.u32 %p2, %r0, 3;
selp.b32 %r5, 16, 0, %p2;
cp.async.ca.shared.global [%r2], [%d2], 16, %r5;
ld.global.b32 %r6, [%d2+4];
@%p0 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [m, {%r4, 3}], [stage];
@%p0 cp.async.bulk.global.shared::cta.bulk_group [%d0], [stage], 2048;
@%p0 mbarrier.init.shared::cta.b64 [barrier], 1;
st.b32 [%d2+8], %r6;
"""


def test_where_copies_come_from_is_recorded_where_that_is_asked() -> None:
    module = parse(check_text(TRACED).replace("(.param .u64 p)", "(.param .u64 p, .param .align 64 .b8 m[128])"))
    (entry,) = module.kernels
    for traced in (True, False):
        machine = compile_kernel(module, entry, traced=traced)
        recorder = Recorder(machine)
        Run(machine, {"%ctaid.x": 2, "p": FAR}, {"m": 512}).run()
        events = recorder.streams[0]
        found = {one.what: one for one in events}
        copied, stage = found["copy"], found["copy"].spans[0][0]
        assert copied.spans == tuple((stage + 16 * n, stage + 16 * n + 16) for n in range(32))
        tensor, run = (one for one in events if one.what == "store")
        assert (tensor.spans, run.spans) == (((stage, stage + 512),), ((stage, stage + 2048),))
        if not traced:
            assert not any(one.at for one in events)
            assert not any(one.what.startswith("global") for one in events)
            continue
        assert copied.at == (FAR, FAR + 16, FAR + 32, *[-1] * 29)
        assert (tensor.at, run.at) == ((2 * 64 - 8, 3), (FAR,))
        assert found["global read"].spans == tuple((FAR + 16 * n + 4, FAR + 16 * n + 8) for n in range(32))
        assert found["global write"].spans == tuple((FAR + 16 * n + 8, FAR + 16 * n + 12) for n in range(32))

"""Tensor maps that a kernel edits: right ways to do it, and each step of them left out or in the wrong place."""

from __future__ import annotations

import pytest

from legalsat.extract.check.check_ptx import PtxCheck, check_ptx

LOAD = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
RELEASE = "fence.proxy.tensormap::generic.release.gpu;"
ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%d0], 128;"
PUBLISH = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d0], [draft], 128;"
REPLACE = "tensormap.replace.tile.global_address.{space}.b1024.b64 [{map}], %d1;"
# How the first thread changes the map in global memory, up to and with the release.
EDITS = {
    "a draft in shared memory": f"@%p0 {REPLACE.format(space='shared::cta', map='draft')}\nbar.warp.sync -1;\n"
    + PUBLISH,
    "the map itself": f"@%p0 {REPLACE.format(space='global', map='%d0')}\n@%p0 {RELEASE}",
    "plain stores": f"@%p0 st.global.v2.b64 [%d0], {{%d1, %d1}};\n@%p0 st.global.b64 [%d0+120], %d1;\n@%p0 {RELEASE}",
    "generic stores": f"cvta.global.u64 %d2, %d0;\n@%p0 st.v2.b64 [%d2+64], {{%d1, %d1}};\n@%p0 {RELEASE}",
}
WAIT = """
and.b32 %r4, {count}, 1;
W{label}:
mbarrier.try_wait.parity.shared::cta.b64 %p3, [barrier], %r4;
@!%p3 bra W{label};
"""


def kernel(**changes: str) -> str:
    """Return a kernel of two warps that both use the map of each round, which the first warp edits.

    Its first thread loads, and the second warp's stores a stage of its own; then they meet. `changes` replaces pieces.
    """
    pieces = {
        "edit": EDITS["a draft in shared memory"],
        "acquire": ACQUIRE,
        "publish": "bar.sync 0;",
        "loaded": WAIT.format(count="%r1", label="1"),
        "commit": "@%p2 cp.async.bulk.commit_group;",
        "stored": "@%p2 cp.async.bulk.wait_group.read 0;",
        "meet": "bar.sync 0;",
        "drain": "",
        "warps": "64",
        **changes,
    }
    return f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 maps, .param .u64 data, .param .u32 n)
.reqntid {pieces["warps"]}
{{
.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %d<4>;
.shared .align 1024 .b8 stage[2048];
.shared .align 128 .b8 draft[128];
.shared .align 8 .b64 barrier;
ld.param.u64 %d0, [maps];
ld.param.u64 %d1, [data];
ld.param.u32 %r0, [n];
mov.u32 %r2, %tid.x;
setp.eq.u32 %p0, %r2, 0;
setp.ge.u32 %p1, %r2, 32;
setp.eq.u32 %p2, %r2, 32;
shl.b32 %r5, %r2, 4;
mov.u32 %r6, stage;
add.u32 %r6, %r6, %r5;
st.shared.v4.b32 [%r6+1024], {{%r2, %r2, %r2, %r2}};
fence.proxy.async.shared::cta;
@%p0 mbarrier.init.shared::cta.b64 [barrier], 1;
@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
mov.u32 %r1, 0;
L:
setp.ge.s32 %p4, %r1, %r0;
@%p4 bra END;
@%p1 bra USE;
{pieces["edit"]}
{pieces["acquire"]}
USE:
{pieces["publish"]}
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [barrier], 1024;
@%p0 {LOAD} [stage], [%d0, {{%r1, %r1}}], [barrier];
@%p2 {STORE} [%d0, {{%r1, %r1}}], [stage+1024];
{pieces["commit"]}
{pieces["loaded"]}
{pieces["stored"]}
{pieces["meet"]}
add.u32 %r1, %r1, 1;
bra L;
END:
{pieces["drain"]}
ret;
}}
"""


def check(**changes: str) -> PtxCheck:
    found = check_ptx(kernel(**changes), box_bytes={"maps": 1024})
    assert found.kernels[0].boxes == {"maps": 1024}
    return found


@pytest.mark.parametrize("how", EDITS)
def test_maps_that_are_edited_in_order_are_proven(how: str) -> None:
    found = check(edit=EDITS[how])
    assert found.proven, (found.findings, found.unproven)


LATE = f"{WAIT.format(count='%r7', label='2')}\n"
FAULTS = {
    "the load is waited for after the edit": {
        "loaded": "",
        "edit": f"{EDITS['a draft in shared memory']}\nsetp.eq.u32 %p5, %r1, 0;\n@%p5 bra GO;\nsub.u32 %r7, %r1, 1;\n"
        f"{LATE}GO:",
        "drain": f"setp.le.s32 %p5, %r0, 0;\n@%p5 bra OUT;\nsub.u32 %r7, %r0, 1;\n{LATE.replace('W2', 'W3')}OUT:",
    },
    "the store is not waited for": {"stored": "", "drain": "@%p2 cp.async.bulk.wait_group.read 0;"},
    "the block does not meet after the store": {"meet": ""},
    "nobody acquires": {"acquire": ""},
    "the acquire comes before the edit": {"edit": f"{ACQUIRE}\n{EDITS['the map itself']}", "acquire": ""},
    "another map is acquired": {"acquire": ACQUIRE.replace("%d0", "%d0+128")},
    "the second warp does not wait for the acquire": {"publish": ""},
    "the map is not released": {"edit": EDITS["the map itself"].replace(RELEASE, "membar.gl;")},
    "plain stores are not released": {"edit": EDITS["plain stores"].replace(RELEASE, "membar.gl;")},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("rounds", [None, 2])
def test_each_fault_of_an_edit_is_named(fault: str, rounds: int | None) -> None:
    wishes = {} if rounds is None else {"n": rounds}
    found = check_ptx(kernel(**FAULTS[fault]), parameters=wishes, box_bytes={"maps": 1024})
    assert {f.kind for f in found.findings} == {"map_edit_not_ordered"}, (found.findings, found.unproven)


@pytest.mark.parametrize("fault", ["the store is not waited for", "the block does not meet after the store"])
def test_one_edit_needs_no_wait(fault: str) -> None:
    # Only the second edit finds a copy by the first one under way.
    found = check_ptx(kernel(**FAULTS[fault]), parameters={"n": 1}, box_bytes={"maps": 1024})
    assert not found.findings


def test_a_map_that_others_made_may_be_acquired() -> None:
    found = check(edit="")
    assert found.proven, (found.findings, found.unproven)
    assert check(edit="", acquire="").proven


def test_a_box_that_the_kernel_makes_is_known() -> None:
    fields = ("rank.{s}.b1024.b32 [draft], 1", "elemtype.{s}.b1024.b32 [draft], 10",
              "box_dim.{s}.b1024.b32 [draft], 0, 32", "box_dim.{s}.b1024.b32 [draft], 1, 16")  # fmt: skip
    made = "\n".join(f"@%p0 tensormap.replace.tile.{one.format(s='shared::cta')};" for one in fields)
    found = check_ptx(kernel(edit=f"{made}\n{EDITS['a draft in shared memory']}"))
    assert found.kernels[0].boxes == {"maps": 32 * 16 * 2}  # of 2 bytes each
    assert found.proven, (found.findings, found.unproven)


def test_what_a_block_expects_by_its_number_leaves_all_open() -> None:
    """The last block has a part of a tile, and expects as much: what goes wrong then may be due to that."""
    text = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u32 n)
.reqntid 32
{
.reg .pred %p<4>; .reg .b32 %r<12>;
.shared .align 128 .b8 memory[4096];
.shared .align 8 .b64 full;
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
ld.param.u32 %r2, [n];
sub.u32 %r3, %r2, %r1;
min.u32 %r3, %r3, 4;
shl.b32 %r4, %r3, 10;
mov.u32 %r5, full;
mov.u32 %r6, memory;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra READ;
mbarrier.init.shared::cta.b64 [%r5], 2;
fence.proxy.async;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], %r4;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r6], [map, {%r1, %r1}], [%r5];
READ:
bar.sync 0;
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r5], 0;
@!%p1 bra WAIT;
ld.shared.b32 %r7, [%r6];
ret;
}
"""
    (found,) = check_ptx(text).kernels
    assert not found.findings and not found.proven
    assert any("where it is not known how many bytes a block expects" in one.reason for one in found.unproven)

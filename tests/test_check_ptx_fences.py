"""Fences between threads: of tcgen05 around barriers, and before barriers of a cluster that release nothing."""

from __future__ import annotations

import pytest

from legalsat.extract.check.check_ptx import PtxCheck, check_ptx
from legalsat.extract.check.check_words import assumptions_of

BEFORE, AFTER = "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"
BLOCK = "bar.sync 0;"
MULTIPLY = "@%p0 tcgen05.mma.cta_group::1.kind::f16 [%r9], %d0, %d0, %r8, %p1;"
ADD = MULTIPLY.replace("%p1", "%p4")
COMMIT = "@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r3];"
FETCHED = ", ".join(f"%f{n}" for n in range(8))
FETCH = f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {{{FETCHED}}}, [%r9];\ntcgen05.wait::ld.sync.aligned;"
PUT = f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%r9], {{{FETCHED}}};\ntcgen05.wait::st.sync.aligned;"
IDESC = 8 << 24 | 1 << 17  # 128 rows, 8 columns


def wait(parity: int) -> str:
    """Wait for a phase of the barrier that the commits arrive at."""
    label = f"W{parity}"
    return f"{label}:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], {parity};\n@!%p2 bra {label};"


def multiplied(*steps: str, end: str = BEFORE) -> PtxCheck:
    """Check a kernel of four warps with some columns of tensor memory in which this happens."""
    return check_ptx(multiplying(*steps, end=end))


def multiplying(*steps: str, end: str = BEFORE) -> str:
    """Return the text of such a kernel."""
    between = "\n".join(steps)
    return f"""
.version 8.7
.target sm_100a
.address_size 64
.visible .entry k()
.reqntid 128
{{
.reg .pred %p<9>; .reg .b32 %r<20>; .reg .b32 %f<8>; .reg .b32 %g<8>; .reg .b64 %d<9>;
.shared .align 1024 .b8 stage[32768];
.shared .align 8 .b64 barrier;
.shared .align 8 .b32 columns;
mov.u32 %r0, %tid.x; mov.u32 %r3, barrier; mov.u32 %r8, {IDESC}; mov.u32 %r4, columns; mov.u32 %r5, stage;
shl.b32 %r6, %r0, 4; add.u32 %r6, %r6, %r5;
st.shared.v4.b32 [%r6], {{%r0, %r0, %r0, %r0}};
setp.lt.u32 %p5, %r0, 16;
@%p5 st.shared.v4.b32 [%r6+2048], {{%r0, %r0, %r0, %r0}};
fence.proxy.async.shared::cta;
shr.u32 %r7, %r5, 4; cvt.u64.u32 %d0, %r7; or.b64 %d0, %d0, {1 << 46 | 8 << 32 | 16 << 16};
setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, 0, 1; setp.eq.u32 %p4, 0, 0; setp.lt.u32 %p3, %r0, 32;
@%p0 mbarrier.init.shared::cta.b64 [%r3], 1;
@%p0 fence.mbarrier_init.release.cluster;
@!%p3 bra START;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], 32;
START:
bar.sync 0;
ld.shared.b32 %r9, [%r4];
{between}
{end}
bar.sync 0;
@!%p3 bra END;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32;
END:
ret;
}}
"""


@pytest.mark.parametrize(
    ("steps", "missing"),
    [
        ((MULTIPLY, COMMIT, wait(0), AFTER, FETCH), ""),
        ((MULTIPLY, COMMIT, wait(0), FETCH), AFTER),
        ((MULTIPLY, COMMIT, AFTER, wait(0), FETCH), AFTER),
        ((MULTIPLY, ADD, COMMIT, wait(0)), ""),  # one thread's multiplications follow each other
        ((PUT, BEFORE, BLOCK, AFTER, MULTIPLY, COMMIT, wait(0)), ""),
        ((PUT, BEFORE, BLOCK, MULTIPLY, COMMIT, wait(0)), AFTER),
        ((PUT, BLOCK, AFTER, MULTIPLY, COMMIT, wait(0)), BEFORE),
        ((BEFORE, PUT, BLOCK, AFTER, MULTIPLY, COMMIT, wait(0)), BEFORE),
        ((PUT, FETCH, PUT), ""),  # each warp's own
        ((MULTIPLY, COMMIT, wait(0), AFTER, FETCH, BEFORE, BLOCK, AFTER, MULTIPLY, COMMIT, wait(1)), ""),
        ((MULTIPLY, COMMIT, wait(0), AFTER, FETCH, BEFORE, BLOCK, MULTIPLY, COMMIT, wait(1)), AFTER),
        ((MULTIPLY, COMMIT, wait(0), AFTER, FETCH, BLOCK, AFTER, MULTIPLY, COMMIT, wait(1)), BEFORE),
    ],
)
def test_tensor_memory_passes_through_barriers_between_fences(steps: tuple[str, ...], missing: str) -> None:
    """PTX ISA, 9.7.16.6.4: the patterns of one thread and of several, pipelined and not."""
    (found,) = multiplied(*steps).kernels
    assert found.proven, (found.findings, found.unproven)
    said = [one.message for one in found.warnings if one.kind == "tensor_memory_not_fenced"]
    assert bool(said) == bool(missing) and all(one.endswith(missing.rstrip(";")) for one in said), said
    rests = [one for one in assumptions_of(found) if "PIPE035" in one]
    assert bool(rests) == bool(missing)  # a proof says what it rests on


HALF = f"add.u32 %r11, %r9, {16 << 16};"
READING = "tcgen05.ld.sync.aligned.16x64b.x1.b32 {%r10}, [%r9];"
READING_ALL = READING.replace("16x64b", "32x32b")


@pytest.mark.parametrize(
    ("rows", "read", "to", "wrong"),
    [
        (64, READING, "%r11", False),
        (64, READING, "%r9", True),
        (64, READING_ALL, "%r11", True),
        (128, READING, "%r11", True),
    ],
)
def test_sums_of_64_rows_lie_in_every_other_strip_of_16_lanes(rows: int, read: str, to: str, wrong: bool) -> None:
    """Two stages of sums share columns: one is multiplied into while the other is read (FACTS TC-27, layout F)."""
    second = MULTIPLY.replace("[%r9]", f"[{to}]")
    begin = HALF, MULTIPLY, COMMIT, wait(0), AFTER, read, BEFORE, BLOCK, AFTER
    text = multiplying(*begin, second, "tcgen05.wait::ld.sync.aligned;", COMMIT, wait(1))
    text = text.replace(f"mov.u32 %r8, {IDESC};", f"mov.u32 %r8, {rows // 16 << 24 | 1 << 17};")
    (found,) = check_ptx(text).kernels
    assert {one.kind for one in found.findings} == ({"stage_overwritten"} if wrong else set())


def test_a_descriptor_that_the_launch_decides_is_asked_for() -> None:
    text = multiplying(MULTIPLY, COMMIT, wait(0), AFTER, FETCH)
    text = text.replace("k()", "k(.param .u32 word)").replace(f"mov.u32 %r8, {IDESC};", "ld.param.u32 %r8, [word];")
    (found,) = check_ptx(text).kernels
    assert not found.proven and "word decides the instruction descriptor" in found.unproven[0].reason
    assert check_ptx(text, parameters={"word": IDESC}).proven


def test_a_shape_that_the_launch_decides_is_found_and_is_a_condition() -> None:
    """Of the usual shapes only one fits the columns that are allocated; all of these are read."""
    fetched = ", ".join(f"%s{n}" for n in range(64))
    fetch = f"tcgen05.ld.sync.aligned.32x32b.x64.b32 {{{fetched}}}, [%r9];\ntcgen05.wait::ld.sync.aligned;"
    text = multiplying(MULTIPLY, COMMIT, wait(0), AFTER, fetch).replace(".reg .pred", ".reg .b32 %s<64>; .reg .pred", 1)
    text = text.replace("k()", "k(.param .u32 word)").replace(f"mov.u32 %r8, {IDESC};", "ld.param.u32 %r8, [word];")
    text = text.replace("[%r4], 32;", "[%r4], 64;").replace("%r9, 32;", "%r9, 64;")
    (found,) = check_ptx(text).kernels
    (said,) = found.conditions
    assert found.proven and said.name == "word" and said.exactly == 8 << 24 | 64 // 8 << 17 | 1 << 4
    assert "not of 128 x 64" in str(said)
    assert not check_ptx(text.replace(wait(0), "")).proven


def test_loads_are_fenced_before_another_warp_frees_what_they_read() -> None:
    steps = MULTIPLY, COMMIT, wait(0), AFTER, FETCH
    assert not {one.kind for one in multiplied(*steps).warnings} & {"tensor_memory_not_fenced"}
    (message,) = [one.message for one in multiplied(*steps, end="").warnings if one.kind == "tensor_memory_not_fenced"]
    assert message.startswith("tcgen05.dealloc") and BEFORE.rstrip(";") in message


def handed(*steps: str) -> PtxCheck:
    """Check a kernel in which each of two CTAs writes a word of the other, this happens, and each reads its own."""
    between = "\n".join(steps)
    return check_ptx(f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k()
.explicitcluster
.reqnctapercluster 2
.reqntid 64
{{
.reg .pred %p<9>; .reg .b32 %r<20>;
.shared .align 16 .b8 words[256];
mov.u32 %r0, %tid.x; mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1;
shl.b32 %r3, %r0, 2; mov.u32 %r4, words; add.u32 %r4, %r4, %r3;
mapa.shared::cluster.u32 %r5, %r4, %r2;
st.shared::cluster.b32 [%r5], %r0;
{between}
ld.shared.b32 %r6, [%r4];
barrier.cluster.arrive; barrier.cluster.wait;
ret;
}}
""")


RELAXED = "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;"


@pytest.mark.parametrize(
    ("steps", "right"),
    [
        (("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;",), True),
        ((RELAXED,), False),
        (("fence.acq_rel.cluster;", RELAXED), True),
        (("fence.sc.gpu;", RELAXED), True),
        (("membar.gl;", RELAXED), True),
        (("fence.acq_rel.cta;", RELAXED), False),  # says nothing to another CTA
        (("fence.mbarrier_init.release.cluster;", RELAXED), False),  # releases inits of barriers alone
        ((RELAXED, "fence.acq_rel.cluster;"), False),
    ],
)
def test_a_relaxed_arrival_at_the_clusters_barrier_releases_nothing(steps: tuple[str, ...], right: bool) -> None:
    """PTX ISA, 9.7.13.5: memory accesses before a relaxed arrival are not ordered, unless a fence has released them."""
    (found,) = handed(*steps).kernels
    assert found.proven == right, (found.findings, found.unproven)
    assert right or {one.kind for one in found.findings} == {"read_before_full"}


@pytest.mark.parametrize(
    ("meeting", "warned"), [("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;", False), (RELAXED, True)]
)
def test_warps_of_one_block_may_rely_on_a_relaxed_arrival_as_released_kernels_do(meeting: str, warned: bool) -> None:
    read = "ld.shared.b32 %r7, [%r4];\n"
    other = "xor.b32 %r3, %r3, 128;\nmov.u32 %r4, words;\nadd.u32 %r4, %r4, %r3;"
    own = f"{read}st.shared.b32 [%r4], %r0;\n{meeting}\n{other}"
    (found,) = handed("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;", own).kernels
    assert found.proven, (found.findings, found.unproven)
    assert [one.kind for one in found.warnings] == ["arrival_without_release"] * warned


INIT_FENCE = "fence.mbarrier_init.release.cluster;"


@pytest.mark.parametrize(
    ("fences", "said"),
    [
        (("", INIT_FENCE), "nothing"),
        ((INIT_FENCE, ""), "warning"),  # as CUTLASS does: its last barrier comes behind its last fence
        (("", ""), "error"),
    ],
)
def test_an_init_that_a_relaxed_arrival_passes_on_is_allowed_behind_a_fence(fences: tuple[str, str], said: str) -> None:
    """The other CTA arrives at the barrier that was initialised last; FACTS FN-05."""
    first, last = fences
    meeting = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"
    (found,) = check_ptx(
        f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k()
.explicitcluster
.reqnctapercluster 2
.reqntid 32
{{{{
.reg .pred %p<9>; .reg .b32 %r<20>;
.shared .align 8 .b8 bars[16];
mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1; mov.u32 %r4, bars;
mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0;
@%p0 bra SKIP;
mbarrier.init.shared::cta.b64 [%r4+8], 1;
{first}
mbarrier.init.shared::cta.b64 [%r4], 32;
{last}
SKIP:
{RELAXED}
mapa.shared::cluster.u32 %r5, %r4, %r2;
mbarrier.arrive.shared::cluster.b64 _, [%r5];
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r4], 0;
@!%p1 bra WAIT;
{meeting}
ret;
}}}}
""".replace("{{", "{").replace("}}", "}")
    ).kernels
    assert found.proven == (said != "error"), (found.findings, found.unproven)
    assert [one.kind for one in found.warnings] == ["arrival_without_release"] * (said == "warning")
    assert {one.kind for one in found.findings} == ({"barrier_not_initialised"} if said == "error" else set())

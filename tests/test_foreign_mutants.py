"""Faults in other people's kernels: one instruction each, of every kind; launches whose maps lie in their buffers."""

import json
import random
import re

import pytest

from bench.foreign_mutants.faults import KINDS, drawn, faults, statement
from bench.foreign_mutants.launches import Recipe, one_byte, two_bytes
from bench.foreign_mutants.readings import CLASSES, READ, harm
from bench.foreign_mutants.recipes import RECIPES
from bench.foreign_mutants.rehearsal import parameters, problems
from bench.foreign_mutants.texts import assembled, entries
from bench.foreign_mutants.verdicts import DEVICE, RESULT, summary
from bench.ptx.ptx_foreign import block_of

# One of everything, as compilers print it: guarded, in braces of inline assembly, with immediates and registers.
TEXT = """
.version 9.4
.target sm_100a
.entry k(.param .u64 .ptr .global .align 1 k_param_0, .param .align 64 .b8 k_param_1[128], .param .u32 k_param_2)
{
@%p1 mbarrier.init.shared::cta.b64 [%r1], 1;
{ mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4096; }
mbarrier.expect_tx.shared::cta.b64 [%r1], %r2;
mbarrier.arrive.release.cta.shared::cta.b64 _, [%r1+8];
mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], %r3;
mbarrier.try_wait.shared::cta.b64 P1, [%r1], %rd3;
cp.async.commit_group;
cp.async.wait_group 0;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
wgmma.fence.sync.aligned;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
@%p3 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r1], %rs1;
tcgen05.wait::ld.sync.aligned;
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync;
tcgen05.fence::after_thread_sync;
fence.proxy.async.shared::cta;
fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
fence.mbarrier_init.release.cluster;
bar.sync 0;
barrier.cluster.arrive.aligned;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint """ + (
    """[%r1], [%rd1, {%r4, %r5}], [%r6], %rs2, %rd2;
@!%p4 mapa.shared::cluster.u32 %r7, %r1, 0;
add.s32 %r8, %r9, 1;
setp.eq.s32 %p5, %r8, 4;
selp.b32 %r9, 0, %r8, %p5;
}
"""
)


def test_every_kind_is_planted_in_one_line() -> None:
    """Each fault differs from the text in the line that it names, and in no other."""
    lines, found = TEXT.split("\n"), list(faults(TEXT))
    assert {fault.kind for fault in found} == set(KINDS)
    for fault in found:
        edited = fault.text.split("\n")
        assert len(edited) == len(lines)
        assert [n for n, (a, b) in enumerate(zip(lines, edited, strict=True), 1) if a != b] == [fault.line]


@pytest.mark.parametrize(
    ("kind", "edited"),
    [
        ("init dropped", "// mbarrier.init.shared::cta.b64 [%r1], 1;"),
        ("one arrival more awaited", "@%p1 mbarrier.init.shared::cta.b64 [%r1], 2;"),
        ("wait dropped", "setp.eq.u32 %p2, 0, 0;"),
        ("parity flipped", "{ .reg .b32 %planted; xor.b32 %planted, %r3, 1; mbarrier.try_wait.parity.shared::cta.b64 "),
        ("16 bytes fewer expected", "{ mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 4080; }"),
        ("wait_group for one fewer: bulk", "cp.async.bulk.wait_group.read 1;"),
        ("mask changed", "{ .reg .b16 %planted; xor.b16 %planted, %rs1, 3; @%p3 tcgen05.commit."),
        ("remote target changed", "@!%p4 mapa.shared::cluster.u32 %r7, %r1, 1;"),
        ("one stage more", "setp.eq.s32 %p5, %r8, 5;"),
    ],
)
def test_what_a_fault_writes(kind: str, edited: str) -> None:
    """The first of its kind stands in its line as a person would write it."""
    fault = next(fault for fault in faults(TEXT) if fault.kind == kind)
    assert fault.text.split("\n")[fault.line - 1].startswith(edited)


def test_a_mask_before_a_hint() -> None:
    """The mask of a copy with a cache hint is the operand before the last."""
    fault = [fault for fault in faults(TEXT) if fault.kind == "mask changed"][-1]
    assert "xor.b16 %planted, %rs2, 3;" in fault.text
    assert fault.text.split("\n")[fault.line - 1].endswith("[%r6], %planted, %rd2; }")


def test_drawn_faults_are_of_as_many_kinds_as_fit() -> None:
    """No kind comes twice before every kind has come once, and the seed decides all."""
    found = drawn(TEXT, random.Random(1), len(KINDS))
    assert len({fault.kind for fault in found}) == len(found) == len(KINDS)
    assert found == drawn(TEXT, random.Random(1), len(KINDS))
    assert len({(f.kind, f.line) for f in drawn(TEXT, random.Random(2), 99)}) == len(list(faults(TEXT)))


def test_texts_are_cut_and_read() -> None:
    """Entries end at their brace; versions that no assembler at hand reads are lowered; parameters have bytes."""
    assert [TEXT[begin:end].startswith(".entry") and TEXT[begin:end].endswith("}") for _, begin, end in entries(TEXT)]
    assert len(entries(TEXT + TEXT.replace("entry k", "entry l"))) == 2
    assert ".version 8.8" in assembled(TEXT)
    assert assembled(TEXT.replace("9.4", "8.7")) == TEXT.replace("9.4", "8.7")
    assert parameters(TEXT) == [8, 128, 4]
    assert str(statement("\t@%p1 bar.sync 0, 128;")).split() == ["@%p1", "bar.sync", "0,", "128;"]


@pytest.mark.parametrize("recipe", RECIPES, ids=[recipe.source for recipe in RECIPES])
def test_maps_lie_in_their_buffers(recipe: Recipe) -> None:
    """No launch reads or writes outside the buffers by a map."""
    assert list(problems(recipe, None)) == []


def test_data_are_finite() -> None:
    """Random bytes are finite numbers of every type that kernels read them as."""
    pairs = two_bytes(random.Random(1))
    assert all(0x3C <= byte & 0x7F <= 0x3E for byte in pairs[1::2])
    assert all(byte & 0x7F < 0x40 for byte in one_byte(random.Random(1)))
    assert not re.search(rb"\x00{8}", pairs)


def test_every_fault_is_judged_with_a_reason() -> None:
    """The faults that a GPU has judged are those that are drawn, and each has an outcome and a reason."""
    kernels = json.loads(DEVICE.read_text())["kernels"]
    assert set(kernels) <= {recipe.source for recipe in RECIPES} and not set(kernels) & set(READ)
    assert set(CLASSES) >= set(KINDS) - {"fence dropped: tensormap"}
    for name, kernel in kernels.items():
        for number, kind, line, outcome in kernel["faults"]:
            fault = {"number": number, "kind": kind, "line": line, "outcome": outcome}
            harms, why = harm(name, fault)
            assert why and (
                harms is True if outcome in {"wrong", "hang", "fault"} else harms is not True or "race" in why
            )


def test_no_harmful_fault_is_proven() -> None:
    """At least 10 faults in each of at least 40 kernels: none that harms is proven, nine of ten are flagged."""
    rows = json.loads(RESULT.read_text())["rows"]
    found = summary(rows)
    assert len(rows) >= 40 and min(len(kernel["faults"]) for kernel in rows.values()) >= 10
    assert set(rows) == {n for n, k in json.loads(DEVICE.read_text())["kernels"].items() if k["right"] == "right"} | {
        *READ
    }
    assert "proven" not in found["harmful"] and found["harmful and flagged, %"] >= 90


@pytest.mark.parametrize(
    ("name", "threads"),
    [
        ("cutlass/tut_02_mma_tma.ptx#0", 128),
        ("cute_tutorial_blackwell_04_mma_tma_2sm_sm100.cu.sm_100a.0.ptx#0", 128),
        ("cute_tutorial_hopper_wgmma_tma_sm90.cu.sm_90a.0.ptx#0", None),
    ],
)
def test_threads_of_a_block_are_those_of_known_launches(name: str, threads: int | None) -> None:
    assert block_of(name) == threads

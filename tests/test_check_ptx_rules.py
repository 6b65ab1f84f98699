"""What the check of PTX asks beyond phases: reads of unwritten memory, boxes, fences, alignment, chips, arguments."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_check_ptx import DATA, HEAD, LOAD, SET_UP, kernel, ping_pong, two_loads, wait

import legalsat as ls
from bench.ptx.ptx_judged import answer, faults
from legalsat.analyses.ptx.contract_units import lacking
from legalsat.analyses.ptx.instruction import Instruction
from legalsat.analyses.ptx.text import Kernel, parse
from legalsat.cli import main
from legalsat.errors import InvalidInput
from legalsat.extract.check.check_ptx import check_ptx
from legalsat.program.pipeline import Pipeline

BEGIN = SET_UP[:3]  # thread, warp, memory


def codes(text: str, **more: Any) -> set[str]:
    return {d.code for d in ls.check_pipeline(text, **more).diagnostics}


def line_of(text: str, part: str) -> int:
    return next(n for n, one in enumerate(text.splitlines(), 1) if part in one)


# Reads of what nobody has written.


@pytest.mark.parametrize(
    "reads",
    [
        "ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [%r2+64];",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r7, %r8, %r9, %r10}, [%r2+64];",
        "cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r2+64], 64;\n"
        "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;",
    ],
)
def test_a_read_of_memory_that_nobody_has_written_is_found(reads: str) -> None:
    text = kernel(*BEGIN, "ld.param.u64 %d0, [c];", reads, parameters=".param .u64 c", threads=32)
    (found,) = ls.check_pipeline(text).diagnostics
    assert (found.code, found.where) == ("PIPE009", f"line {line_of(text, reads[:9])}")
    assert "shared byte 64, which nothing has written" in found.message
    count = 4 if "bulk" in reads else 1  # all lanes read one row
    written = [f"st.shared.v4.b32 [%r2+{64 + 16 * i}], {{0, 0, 0, 0}};" for i in range(count)]
    right = kernel(
        *BEGIN, "ld.param.u64 %d0, [c];", *written, "fence.proxy.async;", "bar.sync 0;", reads,
        parameters=".param .u64 c", threads=32,
    )  # fmt: skip
    assert ls.check_pipeline(right).proven


def test_lanes_that_read_too_far_may_drop_what_they_read() -> None:
    own = ("shl.b32 %r8, %r0, 2;", "add.u32 %r9, %r2, %r8;", "setp.lt.u32 %p1, %r0, 16;")
    text = kernel(*BEGIN, *own, "@%p1 st.shared.u32 [%r9], %r0;", "ld.shared.u32 %r7, [%r9];", threads=32)
    found = ls.check_pipeline(text)
    assert not found.diagnostics and not found.proven
    assert "shared byte 64, which nothing is known to have written" in found.unproven[0]


@pytest.mark.parametrize(("limit", "wrong"), [(64, False), (32, True)])
def test_edges_of_tiles_may_be_read_where_other_tiles_are_whole(limit: int, wrong: bool) -> None:
    """Warps beyond a tensor's end read what whole tiles hold, by a line of their own, and store nothing of it.

    Of 64 words n are written, in right kernels all of them for a large n; else nobody ever writes what is read.
    """
    own = (
        "shl.b32 %r8, %r0, 2;",
        "add.u32 %r9, %r2, %r8;",
        "ld.param.u32 %r5, [n];",
        "mov.u32 %r6, %ctaid.x;",
        "shl.b32 %r6, %r6, 6;",
        "sub.u32 %r5, %r5, %r6;",
        "setp.lt.s32 %p1, %r0, %r5;",
    )
    written = (f"setp.lt.u32 %p2, %r0, {limit};", "and.pred %p2, %p1, %p2;", "@%p2 st.shared.u32 [%r9], %r0;")
    beyond = ("setp.lt.s32 %p3, %r1, %r5;", "@%p3 bra IN;", "ld.shared.u32 %r7, [%r9];", "IN:")
    first = ("and.b32 %r1, %r0, 32;",)
    text = kernel(*BEGIN, *own, *written, "bar.sync 0;", *first, *beyond, parameters=".param .u32 n", threads=64)
    found = ls.check_pipeline(text)
    assert not found.proven
    assert [one.code for one in found.diagnostics] == ["PIPE009"] * wrong
    assert wrong or all("whether it is dropped is not followed" in one for one in found.unproven)


def test_what_somebody_may_have_written_through_an_unknown_pointer_is_left_open() -> None:
    pointer = ("ld.param.u64 %d0, [c];", "ld.global.u64 %d1, [%d0];", "st.u32 [%d1], %r0;")
    text = kernel(*BEGIN, *pointer, "ld.shared.u32 %r7, [%r2+64];", parameters=".param .u64 c", threads=32)
    found = ls.check_pipeline(text)
    assert not found.diagnostics and not found.proven


# Boxes.


def copied(expected: int, read: int) -> str:
    """One load, of whose box 32 threads read 4 bytes each, `read` bytes in all."""
    rounds = [f"ld.shared.u32 %r7, [%r9+{at}];" for at in range(0, read, 128)]
    return kernel(
        *BEGIN, "mov.b64 %d0, a;", "shl.b32 %r8, %r0, 2;", "add.u32 %r9, %r2, %r8;",
        "@%p0 mbarrier.init.shared::cta.b64 [%r2+16384], 1;", "bar.sync 0;", "setp.ne.u32 %p1, %r0, 0;",
        "@%p1 bra FULL;", f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2+16384], {expected};",
        f"{LOAD} [%r2], [%d0, {{0, 0}}], [%r2+16384];", *wait("%r2+16384", "0", "FULL"), *rounds,
        parameters=".param .align 64 .b8 a[128]", threads=32,
    )  # fmt: skip


def started(text: str) -> str:
    """Give the predicate by which thread 0 initialises."""
    return text.replace("mov.b64 %d0, a;", "setp.eq.u32 %p0, %r0, 0;\nmov.b64 %d0, a;")


def test_what_threads_read_of_a_box_bounds_it_from_below() -> None:
    assert ls.check_pipeline(started(copied(1024, 1024))).proven
    assert codes(started(copied(512, 1024))) == {"PIPE002", "PIPE006"}
    assert codes(started(copied(512, 1024)), box_bytes={"a": 1024}) >= {"PIPE006"}
    assert codes(started(copied(512, 1024)), box_bytes={"a": 512}) >= {"PIPE009"}


def test_boxes_that_are_taken_for_granted_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = started(copied(1024, 1024))
    found = ls.check_pipeline(text)
    assert found.assumptions[0] == "a box of map a has 1024 bytes"
    assert "assumes that a box of map a has 1024 bytes" in str(found)
    given = ls.check_pipeline(text, box_bytes={"a": 1024})
    assert given.proven and not any("box" in one for one in given.assumptions)
    file = tmp_path / "k.ptx"
    file.write_text(text)
    assert main(["check", str(file)]) == 0
    assert "assumes that a box of map a has 1024 bytes" in capsys.readouterr().out
    assert main(["check", str(file), "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["kernels"]
    assert one["assumed_box_bytes"] == {"a": 1024} and one["assumptions"] == list(found.assumptions)
    assert main(["check", str(file), "--sarif"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    said = {(r["ruleId"], r["level"], r["message"]["text"]) for r in run["results"]}
    assert ("assumed", "note", "assumes that a box of map a has 1024 bytes") in said
    assert {level for code, level, _ in said if code == "PIPE002"} == {"warning"}
    assert main(["check", "--box-bytes", "a=1024", str(file)]) == 0
    assert "a box of map" not in capsys.readouterr().out


def test_a_map_that_nothing_is_copied_by_puts_assumed_boxes_in_doubt() -> None:
    text = two_loads(4096, 4096)
    dropped = "\n".join(line for line in text.splitlines() if f"{LOAD} [%r2+4096]" not in line)
    found = ls.check_pipeline(dropped)
    assert not found.proven and "nothing is copied by the map b" in found.unproven[0]
    assert codes(dropped, box_bytes={"a": 4096, "b": 12288}) <= {"PIPE002"}


@pytest.mark.parametrize(("condition", "copied_by"), [("%cluster_nctaid.x", ""), ("%cluster_nctaid.x", "b"), ("", "")])
def test_a_map_that_only_the_code_for_other_clusters_copies_by_puts_none_in_doubt(
    condition: str, copied_by: str
) -> None:
    """The text of a kernel for a preferred and for another cluster, of which maps are not the same."""
    other = f"{LOAD} [%r2], [%d{2 if not copied_by else 1}, {{0, 0}}], [%r2+16384];"
    text = two_loads(16384, 4096).replace("b[128]", "b[128], .param .align 64 .b8 c[128]")
    text = text.replace("mov.b64 %d0, a;", "mov.b64 %d0, a;\nmov.b64 %d2, c;\nprefetch.tensormap [%d2];")
    if condition:
        text = text.replace(
            "\nret;", f"\nmov.u32 %r8, {condition};\nsetp.ne.u32 %p2, %r8, 4;\n@%p2 ret;\n{other}\nret;"
        )
    found = ls.check_pipeline(text)
    assert found.proven == (bool(condition) and not copied_by), found.unproven
    assert found.proven or "nothing is copied by the map c" in found.unproven[0]


@pytest.mark.parametrize("name", ["triton_product_by_maps_sm_90", "gluon_add_in_a_ring_sm_90"])
@pytest.mark.parametrize("change", [lambda n: n // 2, lambda n: n + 1024, lambda n: n - 1024])
def test_other_bytes_expected_are_no_other_boxes(name: str, change: Callable[[int], int]) -> None:
    """Each load's box is read, and nothing but boxes: so neither smaller nor larger ones would do."""
    text = (DATA / f"{name}.ptx").read_text()
    edited = re.sub(r"(expect_tx\S* .*, )(\d+);", lambda m: f"{m[1]}{change(int(m[2]))};", text)
    assert edited != text and codes(edited) & {"PIPE006", "PIPE009"}


def test_faults_that_the_gpu_has_judged_can_be_planted_again() -> None:
    """All of them, with and without their boxes, are checked by the bench; here some of each outcome."""
    listed = list(faults())
    assert len(listed) == 146 and sum(row["outcome"] != "right" for row, _, _ in listed) == 105
    assert all(set(boxes) >= {"a_map", "b_map"} for _, _, boxes in listed)
    draw = random.Random(3)
    harmful = [one for one in listed if one[0]["outcome"] != "right"]
    for row, text, boxes in draw.sample(harmful, 5):
        assert check_ptx(text, box_bytes=boxes).findings, row
    misplaced = [one for one in harmful if one[0]["kind"] in {"load dropped", "load to a place 128 bytes on"}]
    for row, text, _ in draw.sample(misplaced, 4):
        assert answer(check_ptx(text)) != "proven", row


# Rules of their own.


def loads(*, size: str = "256", at: int = 0, fence: str = "") -> str:
    return kernel(
        *BEGIN, "setp.eq.u32 %p0, %r0, 0;", "ld.param.u64 %d0, [c];",
        "@%p0 mbarrier.init.shared::cta.b64 [%r2+4096], 1;", fence, "bar.sync 0;", "setp.ne.u32 %p1, %r0, 0;",
        "@%p1 bra FULL;", f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2+4096], {size};",
        f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+{at}], [%d0], {size}, [%r2+4096];",
        *wait("%r2+4096", "0", "FULL"), parameters=".param .u64 c",
    )  # fmt: skip


def test_a_barrier_of_the_copy_engine_is_fenced_after_its_init_by_the_letter() -> None:
    found = ls.check_pipeline(loads())
    assert found.proven and [(d.code, d.level) for d in found.diagnostics] == [("PIPE002", "warning")]
    assert codes(loads(fence="fence.mbarrier_init.release.cluster;")) == set()
    assert codes(loads(fence="fence.acq_rel.cta;")) == {"PIPE002"}


@pytest.mark.parametrize(("size", "at"), [("24", 0), ("256", 8)])
def test_bulk_copies_that_are_no_multiple_are_refused(size: str, at: int) -> None:
    assert codes(loads(size=size, at=at)) == {"PIPE002", "PIPE025"}


def test_a_tensor_copy_lies_at_a_multiple_of_128() -> None:
    assert "PIPE025" in codes(two_loads(8192, 4112), box_bytes={"a": 4096, "b": 4096})


def test_cp_async_and_barriers_are_aligned() -> None:
    copy = ("cp.async.cg.shared.global [%r2+8], [%d0], 16;", "cp.async.wait_all;")
    assert codes(kernel(*BEGIN, *copy, threads=32)) == {"PIPE025"}
    barrier = ("setp.eq.u32 %p0, %r0, 0;", "@%p0 mbarrier.init.shared::cta.b64 [%r2+4], 1;", "bar.sync 0;")
    assert codes(kernel(*BEGIN, *barrier)) == {"PIPE025"}


def over_stores(fence: str) -> str:
    """Threads fill a place before the copy engine does."""
    text = loads(fence="fence.mbarrier_init.release.cluster;")
    return text.replace("ld.param.u64 %d0, [c];", f"ld.param.u64 %d0, [c];\nst.shared.u32 [%r2+64], 0;\n{fence}")


def test_what_threads_wrote_is_fenced_before_the_copy_engine_writes_there() -> None:
    found = ls.check_pipeline(over_stores(""))
    assert found.proven and [(d.code, d.level) for d in found.diagnostics] == [("PIPE026", "warning")]
    assert codes(over_stores("fence.proxy.async.shared::cta;")) == set()
    assert codes(over_stores("fence.proxy.async.global;")) == {"PIPE026"}


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("mov.u32 %r7, 5;", False),
        ("mov.u32 %r7, %tid.x;\nand.b32 %r7, %r7, 31;\nshr.u32 %r7, %r7, 5;", False),
        ("mov.u32 %r7, %tid.x;\nshr.u32 %r7, %r7, 5;", True),  # the warp's number
        ("mov.u32 %r7, %tid.x;", True),
        ("ld.global.u32 %r7, [%d0];", False),  # of data the same is taken for granted
    ],
)
def test_warps_that_store_to_one_place_store_the_same(value: str, wrong: bool) -> None:
    text = kernel(*BEGIN, "ld.param.u64 %d0, [c];", value, "st.shared.u32 [%r2+64], %r7;", parameters=".param .u64 c")
    assert codes(text) == ({"PIPE008"} if wrong else set())


def test_a_barrier_that_is_overwritten_is_destroyed() -> None:
    text = ping_pong().replace("[%r2+64]", "[%r2+8]")
    assert "PIPE024" in codes(text)
    ended = ("@%p0 mbarrier.inval.shared::cta.b64 [%r2];", "bar.sync 0;", "st.shared.u32 [%r2], %r4;")
    assert "PIPE024" not in codes(kernel(*SET_UP[:6], "bar.sync 0;", *ended))


def test_warps_that_meet_unequally_often_disagree() -> None:
    text = kernel(*BEGIN, "setp.ne.u32 %p1, %r1, 0;", "@%p1 bra END;", "bar.sync 1, 64;", "END:")
    (found,) = ls.check_pipeline(text).diagnostics
    assert (found.code, found.where) == ("PIPE018", f"line {line_of(text, 'bar.sync 1')}")


# Chips and clusters.


def test_a_text_for_a_chip_that_lacks_a_unit_is_refused() -> None:
    text = (DATA / "triton_attention_sm_90.ptx").read_text()
    (only,) = parse(text).kernels
    assert lacking("sm_90a", only) == ()
    found = {f.line: f.message for f in lacking("sm_90", only)}
    assert list(found) == [line_of(text, "wgmma.")] and "sm_90 has no wgmma" in next(iter(found.values()))
    assert "PIPE023" in codes(loads().replace("sm_90a", "sm_80"))


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("wgmma.fence.sync.aligned", ("sm_90a",), ("sm_90", "sm_80", "sm_100a", "sm_120a")),
        ("tcgen05.wait::ld.sync.aligned", ("sm_100a", "sm_100f", "sm_103a"), ("sm_100", "sm_90a", "sm_120a")),
        ("cp.async.bulk.commit_group", ("sm_90", "sm_90a", "sm_100", "sm_120a"), ("sm_89", "sm_80")),
        ("cp.async.commit_group", ("sm_80", "sm_90"), ("sm_75",)),
        ("mbarrier.try_wait.parity.shared::cta.b64", ("sm_90",), ("sm_80",)),
        ("mbarrier.test_wait.parity.shared::cta.b64", ("sm_80",), ("sm_75",)),
        ("setmaxnreg.inc.sync.aligned.u32", ("sm_90a", "sm_100a"), ("sm_90", "sm_80")),
        ("barrier.cluster.arrive", ("sm_90",), ("sm_80",)),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", ("sm_75", "sm_90"), ("sm_70",)),
        ("add.u32", ("sm_50", "sm_90", "gfx942"), ()),
    ],
)
def test_each_unit_is_on_the_chips_that_the_manual_names(
    name: str, good: tuple[str, ...], bad: tuple[str, ...]
) -> None:
    one = Instruction(name, (), "", False, 7, tuple(name.split(".")))
    only = Kernel("k", 1, (), (32, 1, 1), True, (1, 1, 1), [one])
    assert [lacking(target, only) for target in good] == [()] * len(good)
    assert all([f.line for f in lacking(target, only)] == [7] for target in bad)


def test_a_cluster_whose_size_the_launch_decides_is_assumed_and_said() -> None:
    text = ping_pong().replace(".reqntid 64", ".reqntid 64\n.explicitcluster")
    found = ls.check_pipeline(text)
    assert found.proven and "clusters have 1 x 1 x 1 CTAs, which the text does not say" in found.assumptions
    assert ls.check_pipeline(text.replace(".explicitcluster", ".explicitcluster\n.reqnctapercluster 1")).proven


# Arguments.


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"parameters": [1]}, "parameters is of type list"),
        ({"parameters": {1: 1}}, "as a string"),
        ({"parameters": {"n": "4"}}, "'4' for n"),
        ({"parameters": {"n": 1.5}}, "whole number"),
        (
            {"parameters": {"%ntid.x": 128}},
            "no kernel can be launched with blocks of 128 threads; the text says .reqntid 64",
        ),
        ({"parameters": {"%ntid.y": 2}}, "give %ntid.x too"),
        ({"parameters": {"%ntid.x": 64}, "block": 64}, "given twice"),
        ({"block": 0}, "positive"),
        ({"block": (64, 1, 1, 1)}, "one to three"),
        ({"block": "64"}, "one to three"),
        ({"block": 1056}, "at most 1024"),
        ({"grid": -1}, "positive"),
        ({"grid": 4, "parameters": {"%nctaid.x": 4}}, "grid is given twice"),
        ({"parameters": {"%laneid": 0}}, "cannot be given"),
        ({"box_bytes": "a"}, "box_bytes is of type str"),
        ({"box_bytes": -5}, "box_bytes is of type int"),
        ({"box_bytes": 0}, "box_bytes is of type int"),
        ({"box_bytes": {"n": 0}}, "positive multiple of 16"),
        ({"box_bytes": {"n": 24}}, "positive multiple of 16"),
        ({"box_bytes": {"m": 16}}, "no kernel has a parameter m"),
        ({"box_bytes": {"%ctaid.x": 16}}, "no tensor map"),
    ],
)
def test_arguments_that_are_none_are_refused(wishes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        ls.check_pipeline(ping_pong(), **wishes)


def test_numbers_of_blocks_are_parameters_too() -> None:
    assert check_ptx(ping_pong(), parameters={"%ctaid.x": 3, "n": 2}).proven


@pytest.mark.parametrize("wishes", [{"block": 64}, {"block": (64, 1)}, {"parameters": {"%ntid.x": 64}}])
def test_a_block_that_is_given_is_as_good_as_one_that_is_required(wishes: dict[str, Any]) -> None:
    for directive in ("", ".maxntid 1024", ".maxntid 64, 1, 1", ".reqntid 64"):
        right, wrong = (ping_pong(released=one).replace(".reqntid 64", directive) for one in (True, False))
        found = ls.check_pipeline(right, **wishes)
        assert found.proven and not found.assumptions
        assert [d.code for d in ls.check_pipeline(wrong, **wishes).diagnostics]


def test_the_most_threads_of_a_block_are_assumed_and_said() -> None:
    for directive, said in (
        (".maxntid 64, 1, 1", "64"),
        (".maxntid 64, 1, 1\n.minnctapersm 1", "64"),
        (".maxntid 32, 2", "32x2"),
    ):
        found = ls.check_pipeline(ping_pong().replace(".reqntid 64", directive))
        assert f"blocks have {said} threads, the most that .maxntid allows" in found.assumptions
    assert ls.check_pipeline(ping_pong().replace(".reqntid 64", ".maxntid 64")).proven
    assert ls.check_pipeline(ping_pong(released=False).replace(".reqntid 64", ".maxntid 64")).diagnostics
    both = ping_pong().replace(".reqntid 64", ".maxntid 1024\n.reqntid 64")
    assert ls.check_pipeline(both).proven and not ls.check_pipeline(both).assumptions


def test_without_any_word_on_the_block_nothing_is_proven() -> None:
    for released in (True, False):
        found = ls.check_pipeline(ping_pong(released=released).replace(".reqntid 64", ""))
        assert not found.proven and not found.diagnostics
        assert any("says how many threads: 128 are tried" in one for one in found.unproven)
    alone = HEAD + ".visible .entry k()\n{ .reg .b32 %r<2>; mov.u32 %r0, %tid.x; ret; }"
    assert check_ptx(alone).proven  # threads that share nothing may be as many as they like
    for meeting in ("bar.sync 0", "mov.u32 %r0, memory", "ld.shared.u32 %r0, [16]"):
        assert not check_ptx(alone.replace("ret;", f"{meeting}; ret;")).proven


def test_a_block_is_taken_by_the_kernels_that_leave_it_open() -> None:
    two = ping_pong() + ping_pong().partition(".visible")[2].join((".visible", "")).replace(" k(", " other(").replace(
        ".reqntid 64", ".maxntid 96"
    )
    first, other = check_ptx(two, block=96).kernels
    assert not first.block and not other.block
    with pytest.raises(InvalidInput, match=r"128 threads; the text says \.reqntid 64, 1, 1 and \.maxntid 96, 1, 1"):
        check_ptx(two, block=128)


def test_blocks_outside_a_grid_that_is_given_are_not_tried() -> None:
    (kernel,) = check_ptx(ping_pong(), grid=(3, 2), parameters={"n": 2}).kernels
    assert kernel.proven and max(kernel.parameters.get("%ctaid.x", (0,))) < 3
    assert kernel.parameters["%nctaid.x"] == (3,) and kernel.parameters["%nctaid.y"] == (2,)


def test_charts_refuse_what_is_no_pipeline() -> None:
    pipeline = ls.synthesize(ls.Gemm(64, 64, 64, "bf16"), "h200").pipeline
    assert isinstance(pipeline, Pipeline) and pipeline.symbols
    turns = dict.fromkeys(pipeline.symbols, 1)
    wrong: list[tuple[Any, ...]] = [
        (None, turns),
        (pipeline, None),
        (pipeline, dict.fromkeys(pipeline.symbols, "1")),
        (pipeline, dict.fromkeys(pipeline.symbols, -1)),
        (pipeline, turns, 3),
        (pipeline, turns, {"Load": "fast"}),
        (pipeline, turns, {1: 1.0}),
    ]
    for arguments in wrong:
        with pytest.raises(InvalidInput, match=r"give|use"):
            ls.gantt(*arguments)


def test_options_that_are_given_twice_add_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(ping_pong())
    assert main(["check", "--param", "n=4", "--param", "%ctaid.x=1", str(file), "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["kernels"]
    assert one["proven"] and one["parameters"]["n"] == [4]


ARRIVES = (
    "mov.u32 %r5, %tid.x; setp.eq.u32 %p2, %r5, 0;"
    "@%p2 mbarrier.init.shared.b64 [b], 64; bar.sync 0; mbarrier.arrive.shared.b64 _, [b]; mov.u32 %r1, 0;"
    "W: mbarrier.try_wait.parity.shared.b64 %p1, [b], %r1; @!%p1 bra W;"
)
COUNT = "ld.param.u32 %r0, [n];"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("bar.sync 15;", "proven"),
        ("bar.sync 16;", "PIPE028"),
        ("bar.sync 1, 33;", "PIPE028"),
        (f"{COUNT} bar.sync %r0;", "barrier 16 of the block, outside 0 to 15, when n = 16"),
        (f"{COUNT} and.b32 %r1, %r0, 7; barrier.sync %r1;", "proven"),
        (f"{COUNT} and.b32 %r1, %r0, 31; barrier.sync.aligned %r1;", "when n = 16"),
        ("mov.u32 %r0, %ctaid.x; bar.sync %r0;", "when %ctaid.x = 16"),
        ("mov.u32 %r0, %tid.x; shr.u32 %r0, %r0, 5; bar.sync %r0, 32;", "proven"),
        ("mov.u32 %r0, %tid.x; shr.u32 %r0, %r0, 5; add.s32 %r0, %r0, 15; bar.sync %r0, 32;", "PIPE028"),
        (f"{COUNT} shl.b32 %r0, %r0, 6; {ARRIVES.replace('[b], 64', '[b], %r0')}", "64 of 128 arrivals, when n = 2"),
        (f"{COUNT} {ARRIVES.replace('_, [b]', '_, [b], %r0')}", "when n = 2"),
        (ARRIVES, "proven"),
    ],
)
def test_what_a_launch_may_give_as_a_number_is_tried(text: str, found: str) -> None:
    """Numbers of barriers and of arrivals that no comparison looks at: one value proves nothing about the others."""
    answer = ls.check_pipeline(f"""
        .version 8.7
        .target sm_90a
        .visible .entry k(.param .u32 n) .reqntid 64
        {{ .shared .b64 b; {text} ret; }}
    """)
    said = {"proven"} if answer.proven else {d.code for d in answer.diagnostics if d.level == "error"}
    assert found in said or any(found in one for one in answer.unproven), answer


def test_a_number_that_is_given_is_not_tried_otherwise() -> None:
    text = f".version 8.7\n.target sm_90a\n.entry k(.param .u32 n) .reqntid 64 {{ {COUNT} bar.sync %r0; ret; }}"
    assert ls.check_pipeline(text, parameters={"n": 3}).proven
    assert not ls.check_pipeline(text, parameters={"n": 16}).proven


# Every launch that comes to the wait divides by zero before.
DIVIDES = """
    .version 8.7
    .target sm_90a
    .visible .entry k(.param .u32 n) .reqntid 32
    {{ .shared .b64 b;
    ld.param.u32 %r0, [n]; sub.s32 %r1, %r0, %r0; mov.u32 %r2, 0;
    setp.eq.u32 %p0, %r0, 0; @%p0 bra END;
    {divides}
    W: mbarrier.try_wait.parity.shared.b64 %p1, [b], %r2; @!%p1 bra W;
    END: ret; }}
"""


@pytest.mark.parametrize("divides", ["div.u32 %r2, %r0, %r1;", "rem.s32 %r2, %r0, %r1;", ""])
def test_nothing_is_proven_by_launches_that_are_left_out(divides: str) -> None:
    """A wait for a barrier that nobody initialised, behind a division by zero: no run comes to it."""
    found = ls.check_pipeline(DIVIDES.format(divides=divides))
    assert not found.proven
    if divides:
        (reason,) = found.unproven
        assert reason.startswith("line 9: 1 of 1 barriers") and "divide by zero at line 8 are left out" in reason
    else:
        assert {d.code for d in found.diagnostics} == {"PIPE001"}


def test_explanations_say_what_a_proof_has_covered() -> None:
    text = (DATA / "gluon_wgmma_by_two_roles_sm_90.ptx").read_text()
    (check,) = check_ptx(text).kernels
    reached, covered = check.reached
    # The case of a switch to which no warp goes: two barriers of the block, as the text's last lines show.
    assert check.proven and (reached, covered) == (covered - 2, covered)
    said = f"runs reached {reached} of {covered} barriers and asynchronous operations"
    unreached = [n for n, line in enumerate(text.splitlines(), 1) if line.split() == ["barrier.sync", "1;"]][-2:]
    assert check.unreached == tuple(unreached)
    assert f"{said}, none of those at lines {unreached[0]}, {unreached[1]}" in str(ls.explain(text, "h200"))


ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 32;"
PRODUCT = "tcgen05.mma.cta_group::1.kind::f16 [%r0], %d0, %d1, %r1, %p0;"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (f"mov.u32 %r2, memory; add.s32 %r2, %r2, 300000; {ALLOC}", "shared byte 300000 is none of the"),
        (f"ld.param.u32 %r1, [n]; setp.eq.u32 %p0, %r1, 5; {PRODUCT}", "n decides the instruction descriptor"),
    ],
)
def test_what_the_launch_or_a_block_of_another_size_would_decide_is_told(body: str, said: str) -> None:
    begin = "mov.u32 %r0, 0; mov.u64 %d0, 0; mov.u64 %d1, 0;"
    found = check_ptx(kernel(begin, body, threads=32).replace("sm_90a", "sm_100a"))
    assert any(one.reason.startswith(said) for one in found.unproven), found


BY_STATE = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k() .reqntid 32 {{
    .reg .b32 %r<4>; .reg .b64 %d<3>; .reg .pred %p<3>; .shared .align 8 .b64 b;
    mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0; @%p0 bra READY;
    mbarrier.init.shared.b64 [b], {count};
    READY: bar.sync 0;
    @%p0 bra REST;
    {first}
    bra W;
    REST: {rest}
    W: mbarrier.try_wait.shared.b64 %p1, [b], %d1; @!%p1 bra W;
    ret; }}
"""
ARRIVES = "mbarrier.arrive.shared.b64 %d1, [b];"


def test_a_wait_takes_the_state_of_an_arrival() -> None:
    """Lanes that have not arrived have no state to wait with, whether or not others have."""
    assert ls.check_pipeline(BY_STATE.format(count=32, first=ARRIVES, rest=ARRIVES)).proven
    for first, rest, count in (("", ARRIVES, 31), (ARRIVES, "", 1), ("", "", 1)):
        text = BY_STATE.format(count=count, first=first, rest=rest)
        found = check_ptx(text).findings
        assert [(f.kind, f.line) for f in found] == [("arrivals_missing", line_of(text, "try_wait"))]
        assert "the state of an arrival that is not made" in found[0].message

"""The check of PTX takes both ways of what a launch decides, and enough rounds of loops, or says that it does not."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from legalsat.extract.check.check_ptx import KernelCheck, check_ptx
from legalsat.extract.check.check_words import assumptions_of

HEAD = """.version 8.7
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 memory[];
.visible .entry k({parameters})
.reqntid 64
{{
.reg .pred %p<20>;
.reg .b32 %r<40>;
.reg .b64 %d<20>;
mov.u32 %r0, %tid.x;
mov.u32 %r1, memory;
setp.eq.u32 %p0, %r0, 0;
"""
BYTES = 1024  # of a stage
BARRIERS = 65536  # from the beginning of shared memory


def kernel(body: str, parameters: str = ".param .u32 n, .param .u64 x") -> str:
    return HEAD.format(parameters=parameters) + body + "ret;\n}\n"


def only(text: str, **more: Any) -> KernelCheck:
    (found,) = check_ptx(text, **more).kernels
    return found


def line_of(text: str, part: str) -> int:
    return next(n for n, one in enumerate(text.splitlines(), 1) if part in one)


def wait(barrier: str, parity: str, name: str) -> str:
    return f"{name}: mbarrier.try_wait.parity.shared::cta.b64 %p9, [{barrier}], {parity};\n@!%p9 bra {name};\n"


START = f"""@%p0 mbarrier.init.shared::cta.b64 [%r1+{BARRIERS}], 1;
@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
@!%p0 bra LOADED;
ld.param.u64 %d0, [x];
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+{BARRIERS}], {BYTES};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d0], {BYTES}, [%r1+{BARRIERS}];
LOADED:
"""
# By one thread, counted by a barrier of several: the number of it is in %r7, and where it lies in %r20 behind.
LOAD = f"""shl.b32 %r20, %r7, 3;
add.u32 %r20, %r20, %r1;
add.u32 %r20, %r20, {BARRIERS};
@!%p0 bra MADE;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], {BYTES};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d0], {BYTES}, [%r20];
MADE:
"""
READ = "ld.shared.u32 %r20, [%r1];\nst.global.u32 [%d0], %r20;\n"


def one_load(condition: str, parameters: str = ".param .u32 n, .param .u64 x, .param .u64 y") -> str:
    """One load, and a wait for it that is before the read unless the condition, in %p1, holds: then it is after."""
    before, after = (wait(f"%r1+{BARRIERS}", "0", name) for name in ("BEFORE", "AFTER"))
    return kernel(f"{START}{condition}\n@%p1 bra LATE;\n{before}{READ}bra END;\nLATE:\n{READ}{after}END:\n", parameters)


# What makes %p1 hold: the text, what decides, and the same in Python.
CONDITIONS: dict[str, tuple[str, str, Callable[[int], bool]]] = {
    "one value": ("ld.param.u32 %r2, [n];\nsetp.eq.u32 %p1, %r2, 10;", "n", lambda n: n == 10),
    "large values": ("ld.param.u32 %r2, [n];\nsetp.ge.s32 %p1, %r2, 5000;", "n", lambda n: n >= 5000),
    "a half": ("ld.param.u32 %r2, [n];\nshr.u32 %r3, %r2, 1;\nsetp.eq.u32 %p1, %r3, 70;", "n", lambda n: n // 2 == 70),
    "a bit": (
        "ld.param.u32 %r2, [n];\nand.b32 %r3, %r2, 8192;\nsetp.ne.u32 %p1, %r3, 0;",
        "n",
        lambda n: n & 8192 != 0,
    ),
    "a conjunction": (
        "ld.param.u32 %r2, [n];\nsetp.ge.u32 %p2, %r2, 8;\nand.b32 %r3, %r2, 7;\nsetp.eq.and.u32 %p1, %r3, 2, %p2;",
        "n",
        lambda n: n >= 8 and n % 8 == 2,
    ),
    "a block": ("mov.u32 %r2, %ctaid.x;\nsetp.eq.u32 %p1, %r2, 37;", "%ctaid.x", lambda n: n == 37),
    "a block of many": (
        "mov.u32 %r2, %ctaid.x;\nsetp.ge.u32 %p1, %r2, 2000000000;",
        "%ctaid.x",
        lambda n: n >= 2 * 10**9,
    ),
    "blocks of a row": (
        "mov.u32 %r2, %ctaid.x;\nshr.u32 %r3, %r2, 12;\nsetp.eq.u32 %p1, %r3, 9;",
        "%ctaid.x",
        lambda n: n // 4096 == 9,
    ),
    "a third of a block": (
        "mov.u32 %r2, %ctaid.x;\nmul.lo.u32 %r3, %r2, 3;\nsetp.eq.u32 %p1, %r3, 30000;",
        "%ctaid.x",
        lambda n: 3 * n == 30000,
    ),
    "a hundred blocks": (
        "mov.u32 %r2, %ctaid.y;\ndiv.u32 %r3, %r2, 100;\nadd.u32 %r3, %r3, 5;\nsetp.eq.u32 %p1, %r3, 82;",
        "%ctaid.y",
        lambda n: n // 100 == 77,
    ),
    "a number along two axes": (
        "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ctaid.y;\nmad.lo.u32 %r3, %r3, 1000, %r2;\nmov.b32 %r4, 123456;"
        "\nsetp.ge.u32 %p2, %r3, %r4;\nsetp.eq.and.u32 %p1, %r3, 123456, %p2;",
        "%ctaid.x",
        lambda n: n == 123456,
    ),
    "a magic number": (
        "mov.u32 %r2, %ctaid.x;\nmul.hi.u32 %r3, %r2, 1431655766;\nsetp.eq.u32 %p1, %r3, 5000;",
        "%ctaid.x",
        lambda n: n // 3 == 5000,
    ),
    "a cluster": ("mov.u32 %r2, %clusterid.y;\nsetp.eq.u32 %p1, %r2, 7;", "%ctaid.y", lambda n: n == 7),
    "how many clusters": ("mov.u32 %r2, %nclusterid.x;\nsetp.ge.u32 %p1, %r2, 7;", "%nctaid.x", lambda n: n >= 7),
    "a grid": ("mov.u32 %r2, %nctaid.x;\nsetp.ge.u32 %p1, %r2, 5;", "%nctaid.x", lambda n: n >= 5),
    "no pointer": ("ld.param.u64 %d1, [x];\nsetp.eq.u64 %p1, %d1, 0;", "x", lambda x: x == 0),
    "a pointer to bytes": (
        "ld.param.u64 %d1, [x];\nand.b64 %d2, %d1, 15;\nsetp.ne.u64 %p1, %d2, 0;",
        "x",
        lambda x: x % 16 != 0,
    ),
    "a word": (
        "ld.param.u64 %d1, [y];\nld.global.u32 %r2, [%d1+4];\nsetp.eq.u32 %p1, %r2, 20;",
        "[y]",
        lambda n: n == 10,
    ),
    "a scale": (
        "ld.param.u64 %d1, [y];\nld.global.f32 %r2, [%d1];\nsetp.neu.f32 %p1, %r2, 0f00000000;\nnot.pred %p1, %p1;",
        "[y]",
        lambda n: n == 0,
    ),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_fault_on_the_way_that_few_launches_take_is_found(name: str) -> None:
    condition, key, holds = CONDITIONS[name]
    found = only(one_load(condition))
    assert {f.kind for f in found.findings} == {"read_before_full", "stage_overwritten"}  # a race, from either side
    for finding in found.findings:
        values = dict(re.findall(r"([%\w.\[\]]+) = (\d+)", finding.launch))
        assert holds(int(values[key])), finding


@pytest.mark.parametrize("name", CONDITIONS)
def test_the_same_kernels_are_proven_where_both_ways_wait(name: str) -> None:
    condition, _, _ = CONDITIONS[name]
    text = one_load(condition).replace("LATE:\n", "LATE:\n" + wait(f"%r1+{BARRIERS}", "0", "MORE"))
    found = only(text)
    assert found.proven, (found.findings, found.unproven)


@pytest.mark.parametrize("axis, number", [("x", 2**31 - 1), ("y", 65535), ("z", 65535)])
def test_blocks_beyond_the_largest_grid_are_no_matter(axis: str, number: int) -> None:
    condition = f"mov.u32 %r2, %ctaid.{axis};\nsetp.eq.u32 %p1, %r2, "
    assert only(one_load(f"{condition}{number};")).proven
    assert only(one_load(f"{condition}{number - 1};")).findings


def test_a_condition_that_mixes_the_bits_of_a_block_is_left_open() -> None:
    # Of the first thousand blocks none meets it; of all some do.
    hashed = "mov.u32 %r2, %ctaid.x;\nmul.lo.u32 %r3, %r2, 2654435761;\nsetp.eq.u32 %p1, %r3, 77;"
    found = only(one_load(hashed))
    assert not found.proven and not found.findings


def test_64_bits_count_where_they_are_no_address() -> None:
    condition = "ld.param.u64 %d1, [n];\nsetp.ge.s64 %p1, %d1, 5000;"
    found = only(one_load(condition, ".param .u64 n, .param .u64 x"))
    assert found.findings and 5000 in found.parameters["n"] and "x" not in found.parameters


def test_a_way_that_no_tried_value_takes_is_said_with_its_line() -> None:
    # The third digit of n is 7, and n a multiple of 1001: no value near the constants.
    condition = """ld.param.u32 %r2, [n];
div.u32 %r3, %r2, 100;
rem.u32 %r4, %r3, 10;
setp.eq.u32 %p2, %r4, 7;
rem.u32 %r5, %r2, 1001;
setp.eq.and.u32 %p1, %r5, 500, %p2;"""
    text = one_load(condition)
    found = only(text)
    assert not found.findings
    expected = line_of(text, "@%p1 bra LATE")
    assert (expected, "the other way of this branch was never taken") in [(u.line, u.reason) for u in found.unproven]
    assert not any(700 <= n % 1000 < 800 and n % 1001 == 500 for n in found.parameters["n"])


def test_what_is_the_same_for_every_launch_is_no_matter() -> None:
    constant = "mov.u32 %r2, 5;\nsetp.eq.u32 %p1, %r2, 6;"
    threads = "setp.gt.u32 %p1, %r0, 100;"  # a block has 64
    for condition in (constant, threads):
        assert only(one_load(condition)).proven


def test_a_branch_before_stores_to_global_memory_alone_is_no_matter() -> None:
    body = """ld.param.u32 %r2, [n];
ld.param.u64 %d0, [x];
mul.wide.u32 %d1, %r0, 4;
add.u64 %d0, %d0, %d1;
ld.global.u32 %r3, [%d0];
setp.eq.u32 %p1, %r3, 0;
@%p1 bra END;
setp.eq.u32 %p2, %r2, 123456;
@%p2 bra END;
st.global.u32 [%d0], %r0;
END:
bar.sync 0;
"""
    assert only(kernel(body)).proven
    with_barrier = kernel(body.replace("st.global.u32 [%d0], %r0;", "bar.sync 1;"))
    (open_,) = only(with_barrier).unproven
    said = "lanes of a warp go different ways by what each has read in memory"
    assert (open_.line, open_.reason) == (line_of(with_barrier, "setp.eq.u32 %p1"), said)


def test_a_word_that_the_kernel_writes_is_no_parameter() -> None:
    load = "ld.param.u64 %d1, [y];\n{}ld.global.u32 %r2, [%d1];\nsetp.eq.u32 %p1, %r2, 20;"
    (one,) = check_ptx(one_load(load.format(""))).kernels
    assert one.findings and assumptions_of(one) == ("the words at y stay as they are while the kernel runs",)
    found = only(one_load(load.format("st.global.u32 [%d1+8], %r0;\n")))
    assert not found.findings and "a predicate depends on data" in {u.reason for u in found.unproven}


def test_what_is_given_is_not_varied() -> None:
    condition, _, _ = CONDITIONS["one value"]
    assert only(one_load(condition), parameters={"n": 3}).proven
    assert only(one_load(condition), parameters={"n": 10}).findings


def test_a_finding_names_the_smallest_values_of_its_kind() -> None:
    condition = "ld.param.u32 %r2, [n];\nsetp.gt.u32 %p1, %r2, 2;"
    (finding, *_) = only(one_load(condition)).findings
    assert finding.launch == "n = 3"


def test_what_only_a_negative_count_does_is_left_open() -> None:
    text = one_load("ld.param.s32 %r2, [n];\nsetp.lt.s32 %p1, %r2, 0;", ".param .s32 n, .param .u64 x")
    found = only(text)
    assert not found.findings and not found.proven
    assert any(u.reason.endswith("when n = -1") for u in found.unproven)


# Loops.


def ring(stages: int, *, n: str = "u32", released: bool = True, fault: str = "") -> str:
    """Warp 0 loads into a ring of stages what warp 1 reads, n times; `fault` stands before warp 1's wait."""
    full, empty = BARRIERS, BARRIERS + 8 * stages
    setup = "".join(
        f"@%p0 mbarrier.init.shared::cta.b64 [%r1+{full + 8 * s}], 1;\n"
        f"@%p0 mbarrier.init.shared::cta.b64 [%r1+{empty + 8 * s}], 32;\n"
        for s in range(stages)
    )
    count = "ld.param.u64 %d1, [n];\nsetp.lt.s64 %p1, %d1, 1;" if n == "u64" else (
        "ld.param.u32 %r2, [n];\nsetp.lt.s32 %p1, %r2, 1;"
    )  # fmt: skip
    again = "add.u64 %d2, %d2, 1;\nsetp.lt.s64 %p4, %d2, %d1;" if n == "u64" else (
        "add.u32 %r11, %r11, 1;\nsetp.lt.s32 %p4, %r11, %r2;"
    )  # fmt: skip
    advance = f"""add.u32 %r4, %r4, 1;
setp.eq.u32 %p3, %r4, {stages};
selp.u32 %r4, 0, %r4, %p3;
selp.u32 %r6, 1, 0, %p3;
xor.b32 %r5, %r5, %r6;
{again}
"""
    place = f"shl.b32 %r7, %r4, 3;\nadd.u32 %r8, %r7, %r1;\nmul.lo.u32 %r9, %r4, {BYTES};\nadd.u32 %r10, %r9, %r1;\n"
    release = f"mbarrier.arrive.shared::cta.b64 _, [%r8+{empty}];\n" if released else ""
    return kernel(
        f"""{setup}@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
ld.param.u64 %d0, [x];
{count}
@%p1 bra END;
mov.u32 %r4, 0;
mov.u32 %r5, 0;
mov.u32 %r11, 0;
mov.u64 %d2, 0;
setp.ge.u32 %p2, %r0, 32;
@%p2 bra READ;
@!%p0 bra END;
LOAD:
{place}xor.b32 %r12, %r5, 1;
{wait(f"%r8+{empty}", "%r12", "EMPTY")}mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8+{full}], {BYTES};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%d0], {BYTES}, [%r8+{full}];
{advance}@%p4 bra LOAD;
bra END;
READ:
{place}{fault}{wait(f"%r8+{full}", "%r5", "FULL")}PASSED:
ld.shared.u32 %r20, [%r10];
{release}{advance}@%p4 bra READ;
END:
bar.sync 0;
""",
        f".param .{n} n, .param .u64 x",
    )


@pytest.mark.parametrize("stages", [1, 2, 5, 6, 8, 9, 11])
def test_rings_of_any_stages_are_proven(stages: int) -> None:
    found = only(ring(stages))
    assert found.proven, (found.findings, found.unproven)
    assert set(range(2 * stages + 1)) <= set(found.parameters["n"])


def test_a_ring_that_releases_nothing_is_found_once_it_is_full() -> None:
    for stages in (2, 6):
        (finding, *_) = [f for f in only(ring(stages, released=False)).findings if f.kind == "arrivals_missing"]
        assert finding.launch == f"n = {stages + 1}"


def test_64_bit_counts_of_rounds_take_no_longer() -> None:
    begin = time.monotonic()
    found = only(ring(3, n="u64"))
    assert found.proven and max(found.parameters["n"]) > 1000
    assert time.monotonic() - begin < 60  # it once took minutes


@pytest.mark.parametrize("turn", [7, 300, 5000])
def test_a_turn_that_no_run_reaches_is_found_or_left_open(turn: int) -> None:
    fault = f"setp.eq.u32 %p5, %r11, {turn};\n@%p5 bra PASSED;\n"
    text = ring(2, fault=fault)
    found = only(text)
    if turn < 20:
        assert any(f.launch == f"n = {turn + 1}" for f in found.findings)
    assert not found.proven
    line = line_of(text, "@%p5 bra PASSED")
    assert found.findings or line in {u.line for u in found.unproven}


UNROLLED = """ld.param.u32 %r2, [n];
ld.param.u64 %d0, [x];
mov.u32 %r4, 0;
setp.lt.s32 %p1, %r2, 1;
@%p1 bra END;
and.b32 %r3, %r2, 3;
sub.u32 %r5, %r2, %r3;
setp.lt.u32 %p2, %r2, 4;
@%p2 bra REST;
FOUR:
{four}
add.u32 %r4, %r4, 4;
setp.ne.u32 %p3, %r4, %r5;
@%p3 bra FOUR;
REST:
setp.eq.u32 %p4, %r3, 0;
@%p4 bra END;
ONE:
{one}
add.u32 %r4, %r4, 1;
sub.u32 %r3, %r3, 1;
setp.ne.u32 %p5, %r3, 0;
@%p5 bra ONE;
END:
cp.async.wait_all;
"""


def unrolled(*, left_out: int = -1) -> str:
    """Two stages filled by cp.async, four rounds in one turn; in one of these the block does not meet."""

    def one(place: int) -> str:
        at = (
            f"add.u32 %r9, %r4, {max(place, 0)};\nand.b32 %r6, %r9, 1;\nshl.b32 %r6, %r6, 10;\nadd.u32 %r6, %r6, %r1;\n"
        )
        copy = "shl.b32 %r7, %r0, 4;\nadd.u32 %r8, %r7, %r6;\ncp.async.cg.shared.global [%r8], [%d0], 16;\n"
        meet = "" if place == left_out else "bar.sync 0;\n"
        read = "sub.u32 %r10, 1008, %r7;\nadd.u32 %r10, %r10, %r6;\nld.shared.u32 %r20, [%r10];\n"
        return f"{at}{copy}cp.async.commit_group;\ncp.async.wait_group 0;\n{meet}{read}bar.sync 0;"

    return kernel(UNROLLED.format(four="\n".join(map(one, range(4))), one=one(-2)))


def test_loops_that_are_unrolled_by_four_are_proven() -> None:
    found = only(unrolled())
    assert found.proven, (found.findings, found.unproven)
    assert set(range(9)) <= set(found.parameters["n"])


@pytest.mark.parametrize("place", range(4))
def test_a_fault_in_one_of_four_rounds_is_found(place: int) -> None:
    found = only(unrolled(left_out=place))
    assert {f.kind for f in found.findings} >= {"read_before_full"}
    assert all(f.launch == "n = 4" for f in found.findings)


def tiles(stages: int, *, fault: str = "") -> str:
    """For each of n tiles two loads in a row into a ring, as an epilogue makes; `fault` stands before each second wait.

    With an even number of stages the ring begins anew at the same place of each tile, so that comparisons of the stage
    with the number of stages turn out the same in all rounds.
    """
    full, empty = BARRIERS, BARRIERS + 8 * stages
    setup = "".join(
        f"@%p0 mbarrier.init.shared::cta.b64 [%r1+{full + 8 * s}], 1;\n"
        f"@%p0 mbarrier.init.shared::cta.b64 [%r1+{empty + 8 * s}], 32;\n"
        for s in range(stages)
    )
    place = f"shl.b32 %r7, %r4, 3;\nadd.u32 %r8, %r7, %r1;\nmul.lo.u32 %r9, %r4, {BYTES};\nadd.u32 %r10, %r9, %r1;\n"

    def advance(at: int) -> str:
        over, either, stage = f"%p{11 + at}", f"%p{15 + at}", f"%r{13 + at}"  # each written once, as compilers do
        return f"""add.u32 {stage}, %r4, 1;
setp.eq.u32 {over}, {stage}, {stages};
selp.u32 %r4, 0, {stage}, {over};
or.pred {either}, {over}, %p10;
selp.u32 %r6, 1, 0, {either};
xor.b32 %r5, %r5, %r6;
"""

    def load(at: int) -> str:
        return f"""{place}xor.b32 %r12, %r5, 1;
{wait(f"%r8+{empty}", "%r12", f"EMPTY{at}")}mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8+{full}], {BYTES};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%d0], {BYTES}, [%r8+{full}];
{advance(at)}"""

    def read(at: int) -> str:
        return f"""{place}{fault * at}{wait(f"%r8+{full}", "%r5", f"FULL{at}")}PASSED{at}:
ld.shared.u32 %r20, [%r10];
mbarrier.arrive.shared::cta.b64 _, [%r8+{empty}];
{advance(at + 2)}"""

    again = "add.u32 %r11, %r11, 1;\nsetp.lt.s32 %p4, %r11, %r2;\n"
    return kernel(f"""{setup}@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
ld.param.u64 %d0, [x];
ld.param.u32 %r2, [n];
setp.lt.s32 %p1, %r2, 1;
@%p1 bra END;
setp.ne.u32 %p10, %r1, %r1;
mov.u32 %r4, 0;
mov.u32 %r5, 0;
mov.u32 %r11, 0;
setp.ge.u32 %p2, %r0, 32;
@%p2 bra READ;
@!%p0 bra END;
LOAD:
{load(0)}{load(1)}{again}@%p4 bra LOAD;
bra END;
READ:
{read(0)}{read(1)}{again}@%p4 bra READ;
END:
bar.sync 0;
""")


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_stages_that_begin_anew_at_the_same_place_of_each_tile_are_proven(stages: int) -> None:
    found = only(tiles(stages))
    assert found.proven, (found.findings, found.unproven)


@pytest.mark.parametrize("turn", [1, 4])
def test_a_stage_that_is_not_waited_for_in_a_later_tile_is_found(turn: int) -> None:
    text = tiles(4, fault=f"setp.eq.u32 %p5, %r11, {turn};\n@%p5 bra PASSED1;\n")
    assert {f.kind for f in only(text).findings} >= {"read_before_full"}


# Sizes and addresses.


def test_a_size_of_a_copy_is_given_multiples_only() -> None:
    body = START.replace(f", {BYTES}", ", %r2").replace("@!%p0 bra", "ld.param.u32 %r2, [n];\n@!%p0 bra")
    text = kernel(body + wait(f"%r1+{BARRIERS}", "0", "FULL") + READ)
    found = only(text)
    assert not found.findings, found.findings
    assert all(value % 16 == 0 for value in found.parameters["n"])


def test_a_place_in_shared_memory_is_aligned_as_its_barrier() -> None:
    body = """ld.param.u32 %r2, [n];
add.u32 %r3, %r1, %r2;
@%p0 mbarrier.init.shared::cta.b64 [%r3], 64;
bar.sync 0;
mbarrier.arrive.shared::cta.b64 _, [%r3];
""" + wait("%r3", "0", "ALL")
    found = only(kernel(body))
    assert found.proven, (found.findings, found.unproven)
    assert all(value % 8 == 0 for value in found.parameters["n"])


TRY = "mbarrier.try_wait.parity.shared::cta.b64 %p9, [%r1+65536], 0;\n"


@pytest.mark.parametrize(
    ("tries", "waits"),
    [
        (TRY, False),
        (f"{TRY}@%p9 bra READY;\n{TRY}READY:\n", False),
        (f"{TRY}@%p9 bra READY;\n{TRY}@%p9 bra READY;\n{wait('%r1+65536', '0', 'AGAIN')}READY:\n", True),
        (f"{TRY}@!%p9 bra LAST;\n", True),  # what depends on the wait is left out where it has failed
    ],
)
def test_a_try_to_wait_may_fail(tries: str, waits: bool) -> None:
    last = wait("%r1+65536", "0", "LAST")
    found = only(kernel(START + tries + READ + last))
    assert found.proven == waits and bool(found.findings) != waits, (found.findings, found.unproven)


def persistent(answer: str = "@%p2 bra AGAIN;") -> str:
    """Return a kernel that asks for another cluster's work until there is none, and what it does with the answer."""
    return kernel(
        f"""@%p0 mbarrier.init.shared::cta.b64 [%r1+{BARRIERS}], 1;
@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
mov.u32 %r9, 0;
AGAIN:
bar.sync 0;
@!%p0 bra ASKED;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+{BARRIERS}], 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1], [%r1+{BARRIERS}];
ASKED:
{wait(f"%r1+{BARRIERS}", "%r9", "GRANTED")}xor.b32 %r9, %r9, 1;
ld.shared.v2.b64 {{%d1, %d2}}, [%r1];
.reg .b128 %q;
mov.b128 %q, {{%d1, %d2}};
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p2, %q;
{answer}
"""
    ).replace("sm_90a", "sm_100a")


def test_work_that_is_taken_over_is_granted_as_often_as_the_launch_decides() -> None:
    found = only(persistent())
    assert found.proven, (found.findings, found.unproven)
    assert {0, 1, 2} <= set(found.parameters["%cancelled"])


@pytest.mark.parametrize(("then", "right"), [("", True), (wait(f"%r1+{BARRIERS}", "%r9", "VAIN"), False)])
def test_where_work_lies_may_be_looked_at_though_there_is_none(then: str, right: bool) -> None:
    """The registers hold anything then; who waits in vain for what they hold is wrong."""
    where = "@%p2 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r10, %r11, %r12, _}, %q;\n"
    look = f"setp.lt.u32 %p3, %r10, 4096;\n@%p3 bra NEAR;\n{then}NEAR:\n@%p2 bra AGAIN;"
    found = only(persistent(where + look))
    assert found.proven is right and bool(found.findings) is not right, (found.findings, found.unproven)


def test_an_answer_that_is_read_before_it_has_come_is_found() -> None:
    text = persistent()
    found = only(text.replace(wait(f"%r1+{BARRIERS}", "%r9", "GRANTED"), ""))
    assert not found.proven and found.findings

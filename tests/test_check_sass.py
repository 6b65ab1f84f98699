"""Machine code in text: what is read of it, and what the order of its instructions shows."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from functools import cache, partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.analyses.sass.contract import judge
from legalsat.analyses.sass.flow import Unknown, blocks_of
from legalsat.analyses.sass.registers import matrix_of, touched
from legalsat.analyses.sass.text import Instruction, Kernel, NotSass, is_sass, parse
from legalsat.backends.ptx.assemble import assemble
from legalsat.backends.ptx.disassemble import DisassemblyFailed, disassemble, disassembler
from legalsat.cli import main
from legalsat.errors import InvalidInput
from legalsat.extract.check.check_sass import check_sass
from legalsat.rules import PIPELINE_RULES

PTX = Path(__file__).parent / "data" / "ptx"
HOPPER = sorted(file.stem for file in PTX.glob("*sm_90.ptx"))
needs_tools = pytest.mark.skipif(disassembler() is None, reason="no nvdisasm on this machine")


def listing(*lines: str, head: str = ".section\t.text.k,") -> str:
    """Return instructions and labels as nvdisasm prints them."""
    told, offset = [head], 0
    for line in lines:
        if line.endswith(":"):
            told.append(line)
            continue
        told.append(f"        /*{offset:04x}*/                   {line} ;")
        offset += 16
    return "\n".join(told) + "\n"


def kernel_of(*lines: str) -> Kernel:
    (kernel,) = parse(listing(*lines)).kernels
    return kernel


def kinds_of(*lines: str) -> list[str]:
    return [finding.kind for finding in judge(kernel_of(*lines)).findings]


def one(text: str) -> Instruction:
    return kernel_of(text).instructions[0]


# Text.


def test_both_tools_texts_are_read() -> None:
    told = """
\tcode for sm_90a
\t\tFunction : k
\t.headerflags\t@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                      /* 0x00000a00ff017b82 */
                                                                               /* 0x000e620000000800 */
        /*0010*/              @!P0 BRA 0x0 ;                                   /* 0x0000000000007919 */
                                                                               /* 0x000eae0000002100 */
        /*0020*/                   EXIT ;                                      /* 0x000000000000794d */
"""
    (by_offset,) = parse(told).kernels
    (by_label,) = parse(listing(".L_x_0:", "LDC R1, c[0x0][0x28]", "@!P0 BRA `(.L_x_0)", "EXIT")).kernels
    assert parse(told).target == "sm_90a"
    assert [str(i) for i in by_offset.instructions] == ["LDC R1, c[0x0][0x28]", "@!P0 BRA 0x0", "EXIT"]
    assert [(b.start, b.end, b.follows) for b in blocks_of(by_offset)] == [(0, 2, [1, 0]), (2, 3, [])]
    assert blocks_of(by_label) == blocks_of(by_offset)


def test_several_functions_stand_in_a_text() -> None:
    text = listing("EXIT", head=".section\t.text.one,") + listing("NOP", "EXIT", head="\t\tFunction : two")
    assert [(k.name, len(k.instructions)) for k in parse(text).kernels] == [("one", 1), ("two", 2)]


@pytest.mark.parametrize("text", ["", "hello", ".version 8.7\n.target sm_90a\n", "/*0000*/"])
def test_what_is_no_machine_code_is_refused(text: str) -> None:
    assert not is_sass(text)
    with pytest.raises(NotSass, match="give what cuobjdump"):
        check_sass(text)


def test_offsets_that_go_back_are_refused() -> None:
    with pytest.raises(NotSass, match="follows"):
        parse(listing("NOP", "EXIT") + "        /*0000*/ NOP ;\n")


def test_another_architecture_is_refused_or_left_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "code for sm_90a\n" + listing("EXIT")
    assert not check_sass(text, "h200").unjudged
    with pytest.raises(InvalidInput, match="for sm_90a, not b200"):
        check_sass(text, "b200")
    for name, said in (("sm_90", 0), ("sm_90a", 0), ("h100", 0)):
        assert len(check_sass(text, name).unjudged) == said
    with pytest.raises(ls.LegalSatError, match="h2000"):
        check_sass(text, "h2000")
    (open_,) = check_sass(text.replace("sm_90a", "sm_100a")).unjudged
    assert "sm_100a are not known" in open_.reason
    file = tmp_path / "k.sass"
    file.write_text(text.replace("sm_90a", "sm_100a"))
    assert main(["check", str(file)]) == 0
    assert "k: not judged\n" in capsys.readouterr().out


def test_one_function_for_several_architectures(capsys: pytest.CaptureFixture[str]) -> None:
    function = "\t\tFunction : k\n"
    wrong = listing(ARRIVE, PRODUCT, READ, WAIT, "EXIT", head=function)
    text = f"\tcode for sm_80\n{listing('NOP', 'EXIT', head=function)}\tcode for sm_90a\n{wrong}"
    old, new = check_sass(text).kernels
    assert (len(old.unjudged), len(old.findings), len(new.unjudged), len(new.findings)) == (1, 0, 0, 1)
    assert [kernel.line for kernel in check_sass(text, "h200").kernels] == [new.line]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_texts_that_no_assembler_prints_end_in_an_answer(seed: int) -> None:
    rng = random.Random(seed)
    jumps = ["BRA 0x20", "BSYNC B0", "CALL.REL.NOINC 0x40", "BRX R2 -0x10", "RET R4", "EXIT"]
    lines = [ARRIVE, PRODUCT, BY_REGISTERS, READ, WAIT, WRITE, FENCE, STORE, FLUSH, STORED, MEET, *jumps]
    text = list(listing(*rng.choices(lines, k=12)))
    for _ in range(rng.randrange(12)):
        place = rng.randrange(len(text))
        text[place : place + rng.randrange(4)] = rng.choice(
            ["", " ", ",", "R", "[", "0x", ";", "255", "gsb0", ".", "\n"]
        )
    try:
        check_sass("".join(text))
    except ls.LegalSatError as error:
        assert "give" in str(error) or "follows" in str(error)


# Registers.


def numbers(spans: tuple[range, ...]) -> set[int]:
    return {register for span in spans for register in span}


@pytest.mark.parametrize(
    ("text", "reads", "writes"),
    [
        ("FADD R4, -R5, |R6|", {5, 6}, {4}),
        ("LOP3.LUT P4, R6, R0, 0x7f, RZ, 0xc0, !PT", {0}, {6}),
        ("IADD3 R4, P5, R2, 0x30, RZ", {2}, {4}),
        ("ISETP.GT.AND P0, PT, R5.reuse, 0x3f, P0", {5}, set()),
        ("IMAD.WIDE R4, R2, 0x4, R6", {2, 6, 7}, {4, 5}),
        ("IMAD.WIDE.U32 R4, P0, R2, R3, R6", {2, 3, 6, 7}, {4, 5}),
        ("LDG.E.128 R8, desc[UR4][R2.64+0x10]", {2, 3}, {8, 9, 10, 11}),
        ("LDG.E.LTC128B.U16 R8, desc[UR4][R2.64]", {2, 3}, {8}),
        ("STS.64 [R2+UR4], R8", {2, 8, 9}, set()),
        ("STSM.16.M88.4 [R2], R88", {2, 88, 89, 90, 91}, set()),
        ("LDSM.16.MT88.2 R24, [R25]", {25}, {24, 25}),
        ("CS2R R88, SRZ", set(), {88, 89}),
        ("CS2R.32 R88, SR_CLOCKLO", set(), {88}),
        ("DFMA R4, R6, R8, R10", {6, 7, 8, 9, 10, 11}, {4, 5}),
        ("F2F.F64.F32 R4, R6", {6}, {4, 5}),
        ("I2F.S64 R4, R6", {6, 7}, {4}),
        ("HMMA.16816.F32.BF16 R4, R8, R12, R4", {8, 9, 10, 11, 12, 13, 4, 5, 6, 7}, {4, 5, 6, 7}),
        ("SHFL.BFLY PT, R2, R3, 0x1, 0x1f", {3}, {2}),
        ("BAR.SYNC.DEFER_BLOCKING R10, 0x80", {10}, set()),
        ("R2UR UR4, R7", {7}, set()),
        ("ATOMG.E.ADD.STRONG.GPU PT, R5, desc[UR4][R2.64], R7", {2, 3, 7}, {5}),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8+0x18000], R7", {7}, set()),
        ("SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R3+URZ], RZ", {3}, set()),
        ("LDGSTS.E.BYPASS.128 [R5], desc[UR18][R38.64], P4", {5, 38, 39}, set()),
        ("@!PT LDS RZ, [RZ]", set(), set()),
        ("RET.REL.NODEC R14 `(k)", {14}, set()),
    ],
)
def test_what_instructions_read_and_write(text: str, reads: set[int], writes: set[int]) -> None:
    found = touched(one(text))
    assert numbers(found.reads) == reads and numbers(found.writes) == writes


@pytest.mark.parametrize(
    ("text", "sums", "sources", "commits"),
    [
        ("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24, gsb0", range(24, 88), set(), True),
        ("HGMMA.64x128x16.F16 R24, gdesc[UR8].tnspB, RZ, !UPT", range(24, 56), set(), False),
        ("HGMMA.64x16x8.F32.TF32 R24, R32, gdesc[UR4], R24, gsb0", range(24, 32), {32, 33, 34, 35}, True),
        ("HGMMA.SP.64x16x32.F32.BF16 R24, R32, gdesc[UR4], R24, R36, 0x0", range(24, 32), {*range(32, 37)}, False),
        ("HGMMA.SP.64x16x32.F32.BF16 R24, gdesc[UR8], R24, R32, 0x0, gsb0", range(24, 32), {32}, True),
        ("QGMMA.64x128x32.F32.E4M3.E4M3 R24, gdesc[UR8], R24", range(24, 88), set(), False),
        ("IGMMA.64x64x32.S8.S8.SAT R24, gdesc[UR8], R24", range(24, 56), set(), False),
        ("HGMMA.64x8x16.F16 RZ, gdesc[URZ], RZ, !UPT, gsb0", range(0), set(), True),
    ],
)
def test_what_multiplications_work_on(text: str, sums: range, sources: set[int], commits: bool) -> None:
    found = matrix_of(one(text))
    assert (set(found.accumulators), numbers(found.sources), found.commits) == (set(sums), sources, commits)


# Judgement, on a few lines: what is right, and what is wrong once a line is gone or put elsewhere.

ARRIVE, WAIT = "WARPGROUP.ARRIVE", "WARPGROUP.DEPBAR.LE gsb0, 0x0"
PRODUCT = "HGMMA.64x16x16.F32.BF16 R24, gdesc[UR8], RZ, !UPT, gsb0"
BY_REGISTERS = "HGMMA.64x16x16.F32.BF16 R24, R40, gdesc[UR8], R24, gsb0"
ACCUMULATORS_AS_A = "HGMMA.64x16x16.F32.BF16 R48, R24, gdesc[UR8], R48, gsb0"
READ = "FADD R2, R24, R31"
STORE, FENCE, FLUSH = "UTMASTG.2D [UR12], [UR6]", "FENCE.VIEW.ASYNC.S", "UTMACMDFLUSH"
WRITE, MEET, STORED = "STSM.16.M88.4 [R2], R24", "BAR.SYNC.DEFER_BLOCKING 0x0", "DEPBAR.LE SB0, 0x0"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((ARRIVE, PRODUCT, WAIT, READ, "EXIT"), []),
        ((ARRIVE, PRODUCT, READ, WAIT, "EXIT"), ["sums_not_ready"]),
        ((ARRIVE, PRODUCT, "MOV R31, RZ", WAIT, "EXIT"), ["sums_not_ready"]),
        ((ARRIVE, PRODUCT, "MOV R32, RZ", WAIT, "EXIT"), []),  # one behind the last accumulator
        ((ARRIVE, PRODUCT, "STS.128 [R2], R20", WAIT, "EXIT"), []),
        ((ARRIVE, PRODUCT, "STS.128 [R2], R21", WAIT, "EXIT"), ["sums_not_ready"]),
        ((ARRIVE, PRODUCT, "@P0 FADD R2, R24, R2", WAIT, "EXIT"), ["sums_not_ready"]),
        ((ARRIVE, PRODUCT, f"@P0 {WAIT}", READ, WAIT, "EXIT"), ["sums_not_ready"]),
        ((ARRIVE, PRODUCT, f"@!PT {WAIT}", WAIT, "@!PT " + READ, "EXIT"), []),
        ((ARRIVE, PRODUCT, READ, "EXIT"), ["sums_not_ready", "not_drained"]),
        ((ARRIVE, PRODUCT, "EXIT"), ["not_drained"]),
        ((PRODUCT, WAIT, READ, "EXIT"), ["sums_not_fenced"]),
        (("@P0 " + ARRIVE, PRODUCT, WAIT, READ, "EXIT"), ["sums_not_fenced"]),
        ((ARRIVE, "MOV R24, RZ", PRODUCT, WAIT, "EXIT"), ["sums_not_fenced"]),
        ((ARRIVE, "MOV R40, RZ", BY_REGISTERS, WAIT, "EXIT"), ["sums_not_fenced"]),
        ((ARRIVE, BY_REGISTERS, "MOV R43, RZ", WAIT, "EXIT"), ["operands_released_early"]),
        ((ARRIVE, BY_REGISTERS, "MOV R44, RZ", "FADD R2, R40, R2", WAIT, "EXIT"), []),  # A may be read meanwhile
        # Groups: one may be under way, and it is the younger one.
        ((ARRIVE, PRODUCT, PRODUCT.replace("R24", "R48"), WAIT.replace("0x0", "0x1"), READ, WAIT, "EXIT"), []),
        (
            (ARRIVE, PRODUCT, PRODUCT.replace("R24", "R48"), WAIT.replace("0x0", "0x1"), "MOV R2, R48", WAIT, "EXIT"),
            ["sums_not_ready"],
        ),
        ((ARRIVE, PRODUCT.replace(", gsb0", ""), WAIT, READ, PRODUCT, WAIT, "EXIT"), ["sums_not_ready"]),
        ((ARRIVE, PRODUCT, ACCUMULATORS_AS_A, WAIT, "EXIT"), ["sums_not_ready"]),
        ((ARRIVE, PRODUCT, PRODUCT.replace("64x16x16", "64x32x16"), WAIT, "EXIT"), ["sums_not_ready"]),
        ((ARRIVE, PRODUCT, PRODUCT, WAIT, "EXIT"), []),
        # Bulk stores.
        ((WRITE, FENCE, MEET, STORE, FLUSH, STORED, "EXIT"), []),
        ((WRITE, MEET, STORE, FLUSH, STORED, "EXIT"), ["write_not_fenced"]),
        ((FENCE, WRITE, MEET, STORE, FLUSH, STORED, "EXIT"), ["write_not_fenced"]),
        ((WRITE, "FENCE.VIEW.ASYNC.G", MEET, STORE, FLUSH, STORED, "EXIT"), ["write_not_fenced"]),
        ((WRITE, MEET, "UBLKCP.G.S [UR4], [UR6], UR8", FLUSH, STORED, "EXIT"), ["write_not_fenced"]),
        ((WRITE, FENCE, MEET, STORE, STORED, FLUSH, "EXIT"), ["group_not_committed"]),
        ((WRITE, FENCE, MEET, STORE, "EXIT"), ["group_not_committed"]),
        # What others copy.
        (("LDGSTS.E.128 [R2], desc[UR4][R4.64]", "LDGDEPBAR", STORED, FENCE, MEET, ARRIVE, PRODUCT, WAIT, "EXIT"), []),
        (
            ("LDGSTS.E.128 [R2], desc[UR4][R4.64]", "LDGDEPBAR", STORED, FENCE, ARRIVE, PRODUCT, WAIT, "EXIT"),
            ["read_before_full"],
        ),
        # Counterparts.
        (("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R7", "EXIT"), ["arrivals_missing", "barrier_not_initialised"]),
        (("SYNCS.EXCH.64 URZ, [UR8], UR4", "SYNCS.PHASECHK.TRANS64 P0, [UR8], R7", "EXIT"), ["arrivals_missing"]),
        (("UCGABAR_WAIT", "EXIT"), ["roles_disagree"]),
        (("UCGABAR_ARV", "UCGABAR_WAIT", "EXIT"), []),
    ],
)  # fmt: skip
def test_breaks_are_found_and_only_those(lines: tuple[str, ...], expected: list[str]) -> None:
    assert sorted(kinds_of(*lines)) == sorted(expected)


def test_loads_are_expected_and_waited_for() -> None:
    init, load = "SYNCS.EXCH.64 URZ, [UR8], UR4", "UTMALDG.2D [UR8], [UR4]"
    expect, wait = "SYNCS.ARRIVE.TRANS64 RZ, [UR8], R7", "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R7"
    rest = (ARRIVE, PRODUCT, WAIT, "EXIT")
    assert kinds_of(init, MEET, expect, load, wait, *rest) == []
    assert kinds_of(init, MEET, expect.replace("TRANS64", "TRANS64.A1T0"), load, wait, *rest) == ["bytes_differ"]
    assert kinds_of(init, MEET, expect, load, *rest, wait) == ["read_before_full"] * 2  # the wait is never reached
    assert kinds_of(init, MEET, expect, load, ARRIVE, PRODUCT, wait, WAIT, "EXIT") == ["read_before_full"]
    assert kinds_of(MEET, expect, load, wait, *rest) == ["barrier_not_initialised"]


def test_one_cause_is_one_finding_and_says_where() -> None:
    (found,) = judge(kernel_of(ARRIVE, PRODUCT, READ, "FADD R3, R25, R3", WAIT, "EXIT")).findings
    assert found.line == 4
    assert "`FADD R2, R24, R31` at 0x20 reads R24" in found.message and f"`{PRODUCT}` at 0x10" in found.message
    assert "; so does 1 more up to 0x30" in found.message
    (told,) = ls.check_pipeline(listing(ARRIVE, PRODUCT, READ, WAIT, "EXIT")).diagnostics
    assert told.code == next(rule.code for rule in PIPELINE_RULES if rule.name == "sums_not_ready")


# Ways through the code.


def test_a_wait_on_one_way_only_does_not_do() -> None:
    right = (ARRIVE, PRODUCT, "@P0 BRA `(.L_1)", WAIT, "BRA `(.L_2)", ".L_1:", WAIT, ".L_2:", READ, "EXIT")
    assert kinds_of(*right) == []
    assert kinds_of(*right[:6], "NOP", *right[7:]) == ["sums_not_ready", "not_drained"]


def test_ways_that_predicates_rule_out_are_no_breaks() -> None:
    ask, skip = "ISETP.NE.AND P0, PT, R5, 0x1, PT", "@!P0 BRA `(.L_{})"
    lines = (ask, ARRIVE, skip.format(1), PRODUCT, ".L_1:", skip.format(2), WAIT, ".L_2:", "MOV R3, R24", "EXIT")
    found = judge(kernel_of(*lines))
    assert not found.findings and "predicates rule out" in found.unjudged[0][1]
    for wrong in ("@P0 BRA `(.L_2)", "@!P1 BRA `(.L_2)", "BRA `(.L_2)"):
        assert kinds_of(*lines[:5], wrong, *lines[6:]) == ["sums_not_ready", "not_drained"]
    again = (*lines[:5], "MOV R5, R6", ask, *lines[5:])  # the predicate is another one by then
    assert kinds_of(*again) == ["sums_not_ready", "not_drained"]
    assert kinds_of(*lines[:5], "MOV R6, R5", ask, *lines[5:]) == []  # the same comparison of the same register
    leaves = (ask, ARRIVE, "@!P0 BRA `(.L_1)", PRODUCT, ".L_1:", "@P0 EXIT", "MOV R3, R24", "EXIT")
    assert kinds_of(*leaves) == ["not_drained"]


ELECTED = "ISETP.NE.AND P0, PT, R5, RZ, PT"  # all lanes but one


@pytest.mark.parametrize(
    ("copied", "guard", "jump", "right"),
    [
        ((), "@!P0", "@P0", True),
        ((), "@!P0", "@!P0", False),
        ((), "@!P0", "@P1", False),
        (("PLOP3.LUT P1, PT, P0, PT, PT, 0x80, 0x0",), "@!P0", "@P1", True),
        (("PLOP3.LUT P1, PT, P0, PT, PT, 0x8, 0x0",), "@!P0", "@P1", False),  # its negation
        (("PLOP3.LUT P1, PT, P0, PT, PT, 0x8, 0x0",), "@!P0", "@!P1", True),
        (("PLOP3.LUT P2, P1, P0, P0, PT, 0x80, 0x3f",), "@!P2", "@!P1", True),  # both at once
        (("PLOP3.LUT P1, PT, P0, P3, PT, 0xfc, 0x0",), "@!P0", "@P1", False),  # P0 or P3
        (("@P3 PLOP3.LUT P1, PT, P0, PT, PT, 0x80, 0x0",), "@!P0", "@P1", False),
        (("PLOP3.LUT P1, PT, P0, PT, PT, 0x80, 0x0", "R2P PR, R8, 0x7f"), "@!P0", "@P1", False),
        (("ISETP.EQ.AND P1, PT, R5, RZ, PT",), "@P1", "@P0", True),
        (("ISETP.NE.AND P2, P1, R5, RZ, PT",), "@P1", "@P2", True),
        (("ISETP.NE.AND P1, PT, R5, RZ, P3",), "@!P0", "@P1", False),
        (("ISETP.NE.AND P1, PT, R6, RZ, PT",), "@!P0", "@P1", False),
        (("MOV R5, R6", "ISETP.NE.AND P1, PT, R5, RZ, PT"), "@!P0", "@P1", False),
        (("VOTEU.ALL UP0, P0",), "@!UP0", "@P0", True),  # of the lanes, one for which the vote has failed
        (("VOTEU.ALL UP0, P0",), "@UP0", "@!P0", True),
        (("VOTEU.ALL UP0, P0",), "@UP0", "@P0", False),
        (("VOTEU.ANY UP0, P0",), "@UP0", "@!P0", True),
        (("VOTEU.ANY UP0, P0",), "@UP0", "@P0", False),
        (("VOTEU.ALL UP0, P0", "ISETP.NE.AND P0, PT, R6, RZ, PT"), "@!UP0", "@P0", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("looped", [(), ("@P4 BRA.U.ANY `(.L_0)",)])
def test_a_store_and_its_commit_stand_under_predicates_that_are_one(
    copied: tuple[str, ...], guard: str, jump: str, right: bool, looped: tuple[str, ...]
) -> None:
    store = (".L_0:", f"{guard} {STORE}", *looped, f"{jump} BRA `(.L_1)", FLUSH, ".L_1:")
    found = kinds_of(WRITE, FENCE, MEET, ELECTED, *copied, *store, STORED, "EXIT")
    assert found == ([] if right else ["group_not_committed"])


def test_a_commit_under_a_predicate_is_one_where_it_is_that_of_the_store() -> None:
    lines = (WRITE, FENCE, MEET, ELECTED, f"@!P0 {STORE}")
    for guard, kinds, left in (("@!P0", [], 0), ("@P0", ["group_not_committed"], 0), ("@P1", [], 1)):
        found = judge(kernel_of(*lines, f"{guard} {FLUSH}", STORED, "EXIT"))
        assert ([one.kind for one in found.findings], len(found.unjudged)) == (kinds, left)


def test_accumulators_are_followed_round_a_loop() -> None:
    loop = (ARRIVE, ".L_1:", PRODUCT, READ, "@P0 BRA `(.L_1)", WAIT, "EXIT")
    assert kinds_of(*loop) == ["sums_not_ready"]
    carried = (ARRIVE, ".L_1:", "MOV R3, R24", ARRIVE, PRODUCT, "@P0 BRA `(.L_1)", WAIT, "EXIT")
    assert kinds_of(*carried) == ["sums_not_ready"]  # of the round before
    assert kinds_of(*carried[:5], WAIT, *carried[5:]) == []


def test_a_loop_that_never_waits_releases_what_is_read() -> None:
    release = "SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR8], RZ"
    start = ("SYNCS.EXCH.64 URZ, [UR8], UR4", ARRIVE, ".L_1:")
    assert kinds_of(*start, PRODUCT, WAIT.replace("0x0", "0x1"), release, "@P0 BRA `(.L_1)", WAIT, "EXIT") == []
    assert kinds_of(*start, PRODUCT, release, "@P0 BRA `(.L_1)", WAIT, "EXIT") == ["operands_released_early"]


def test_a_write_that_is_fenced_on_one_way_is_left_open() -> None:
    found = judge(kernel_of(WRITE, "@P0 BRA `(.L_1)", FENCE, ".L_1:", MEET, STORE, FLUSH, STORED, "EXIT"))
    assert not found.findings and "some way between them has no proxy fence" in found.unjudged[0][1]


def test_calls_are_entered_and_left() -> None:
    call = ("MOV R14, 0x40", "CALL.REL.NOINC `(.L_f)")
    function = (".L_f:", "FADD R3, R24, R3", "RET.REL.NODEC R14 `(k)")
    assert kinds_of(ARRIVE, PRODUCT, *call, WAIT, "EXIT", *function) == ["sums_not_ready"]
    assert kinds_of(ARRIVE, PRODUCT, WAIT, call[0].replace("40", "50"), call[1], "EXIT", *function) == []
    # What the function writes is written behind the call.
    again = (ARRIVE, "MOV R14, 0x30", call[1], PRODUCT, WAIT, "EXIT", ".L_f:", "MOV R24, R3", "RET.REL.NODEC R14 `(k)")
    assert kinds_of(*again) == ["sums_not_fenced"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("BRX R2 -0x1b0", "EXIT"), "only nvdisasm says"),
        (("CALL.REL.NOINC `(.L_f)", "EXIT", ".L_f:", "RET.REL.NODEC R14 `(k)"), "where it returns to is not seen"),
        (("BRA `(.L_nowhere)", "EXIT"), "leads out of the function"),
        (("BRA 0x8", "EXIT"), "leads out of the function"),
        (("MOV R14, 0x20", "CALL.REL.NOINC `(.L_f)", "EXIT", ".L_f:", PRODUCT, "RET R14 `(k)"), "asynchronous work"),
        (("HGMMA.64x16x16.F32 R24, R40", "EXIT"), "not understood"),
    ],
)  # fmt: skip
def test_what_is_not_followed_is_not_judged(lines: tuple[str, ...], said: str) -> None:
    found = judge(kernel_of(*lines))
    assert not found.findings and not found.covered
    assert said in found.unjudged[0][1]


def test_computed_jumps_lead_where_nvdisasm_says() -> None:
    jump = 'BRX R2 -0x1b0 (*"BRANCH_TARGETS .L_1,.L_2"*)'
    lines = (ARRIVE, PRODUCT, jump, ".L_1:", WAIT, ".L_2:", READ, WAIT, "EXIT")
    assert kinds_of(*lines) == ["sums_not_ready"]
    assert kinds_of(*lines[:5], "EXIT", *lines[5:6], WAIT, *lines[6:]) == []
    with pytest.raises(Unknown):
        blocks_of(kernel_of(jump, ".L_1:", "EXIT"))


# What the assembler makes of real kernels.


def texts() -> list[tuple[str, partial[str]]]:
    given = [(name, partial(Path.read_text, PTX / f"{name}.ptx")) for name in HOPPER]
    return given + [(str(gemm), partial(printed, gemm)) for gemm in PRODUCTS]


PRODUCTS = (
    ls.Gemm(512, 512, 256, "i8"),
    ls.Gemm(512, 512, 512, "e4m3", out_dtype="e4m3"),
    ls.Gemm(8192, 8192, 8192, "bf16"),
    ls.Gemm(512, 512, 8192, "bf16"),
    ls.Gemm(4096, 4096, 4095, "bf16"),
    ls.Gemm(777, 4096, 4096, "bf16"),
)


@cache
def printed(gemm: ls.Gemm) -> str:
    return ls.synthesize(gemm, "h200", backend="ptx").emit("ptx")


@needs_tools
@pytest.mark.parametrize("text", [text for _, text in texts()], ids=[name for name, _ in texts()])
def test_real_kernels_are_right(text: partial[str]) -> None:
    for kernel in check_sass(disassemble(assemble(text(), "sm_90a")), "h200").kernels:
        # What adds slices up has nothing asynchronous.
        assert not kernel.findings and (kernel.covered or kernel.name.startswith("add_slices"))


@needs_tools
def test_each_commit_of_a_kernels_stores_is_needed() -> None:
    """ptxas parts a store from its commit: a vote guards the one, a jump leads round the other."""
    right = disassemble(assemble(printed(PRODUCTS[2]), "sm_90a"))
    commits = [*re.finditer(r"\*/ +(UTMACMDFLUSH) ;", right)]
    assert len(commits) > 1
    for commit in commits:
        wrong = right[: commit.start(1)] + "NOP" + right[commit.end(1) :]
        assert "group_not_committed" in [finding.kind for finding in check_sass(wrong).findings]


@needs_tools
def test_faults_planted_in_real_code_are_found() -> None:
    right = disassemble(assemble((PTX / "triton_product_by_maps_sm_90.ptx").read_text(), "sm_90a"))

    def without(pattern: str) -> list[str]:
        wrong, count = re.subn(rf"(\*/ +)[^/;]*{pattern}[^;]*;", r"\1NOP ;", right)
        assert count
        return [finding.kind for finding in check_sass(wrong).findings]

    assert "sums_not_ready" in without(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x0")
    assert "operands_released_early" in without(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x1")
    assert without(r"WARPGROUP\.ARRIVE") == ["sums_not_fenced"]
    assert without(r"FENCE\.VIEW") == ["write_not_fenced"]
    assert "group_not_committed" in without("UTMACMDFLUSH")
    assert without(r"SYNCS\.EXCH") == ["barrier_not_initialised"]
    assert "read_before_full" in without("PHASECHK")
    # The first conversion of accumulators, put before their wait.
    wait = re.search(r"\*/ +(WARPGROUP\.DEPBAR\.LE gsb0, 0x0) ;", right)
    first = re.search(r"\*/ +(F2FP\.BF16\.F32\.PACK_AB R\d+, R\d+, R\d+) ;", right)
    assert wait is not None and first is not None
    moved = right[: wait.start(1)] + first[1] + right[wait.end(1) : first.start(1)] + wait[1] + right[first.end(1) :]
    assert "sums_not_ready" in [finding.kind for finding in check_sass(moved).findings]


@needs_tools
def test_both_disassemblers_are_judged_alike(tmp_path: Path) -> None:
    tool = Path(str(disassembler())).with_name("cuobjdump")
    if not tool.exists():
        pytest.skip("no cuobjdump beside nvdisasm")
    cubin = assemble((PTX / "triton_attention_sm_90.ptx").read_text(), "sm_90a")
    file = tmp_path / "k.cubin"
    file.write_bytes(cubin)
    other = subprocess.run([tool, "-sass", file], capture_output=True, text=True, check=True).stdout
    (one_,), (two,) = check_sass(disassemble(cubin)).kernels, check_sass(other).kernels
    assert (one_.name, one_.covered, one_.findings) == (two.name, two.covered, two.findings)


def test_what_is_no_cubin_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DisassemblyFailed, match="no cubin"):
        disassemble(b"hello")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr("legalsat.backends.ptx.disassemble.find_spec", lambda _: None)
    with pytest.raises(DisassemblyFailed, match="no nvdisasm"):
        disassemble(b"\x7fELF")


# The command line, and the public function.


def test_machine_code_is_never_called_proven() -> None:
    found = ls.check_pipeline(listing(ARRIVE, PRODUCT, WAIT, READ, "EXIT"), "h200")
    assert not found.proven and not found.diagnostics
    assert "addresses" in found.unproven[-1]
    with pytest.raises(InvalidInput, match="belong to PTX"):
        ls.check_pipeline(listing("EXIT"), block=128)


def test_the_command_checks_machine_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.sass", tmp_path / "bad.sass"
    good.write_text(listing(ARRIVE, PRODUCT, WAIT, READ, "EXIT"))
    bad.write_text(listing(ARRIVE, PRODUCT, READ, WAIT, "EXIT"))
    assert main(["check", str(good)]) == 0
    assert "no break found in machine code (multiplications 1" in capsys.readouterr().out
    assert main(["check", str(bad), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["machine_code"] and told["kernels"][0]["findings"][0]["line"] == 4
    assert main(["check", str(tmp_path), "--sarif"]) == 1
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("bad.sass") and place["region"]["startLine"] == 4


@needs_tools
def test_cubins_are_disassembled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cubin = tmp_path / "k.cubin"
    cubin.write_bytes(assemble((PTX / "gluon_add_in_a_ring_sm_90.ptx").read_text(), "sm_90a"))
    assert main(["check", str(cubin)]) == 0
    assert "bulk loads" in capsys.readouterr().out
    assert main(["check", str(tmp_path)]) == 2  # folders only on request
    assert "no *.ptx or *.sass below" in capsys.readouterr().err
    assert main(["check", str(tmp_path), "--cubins"]) == 0

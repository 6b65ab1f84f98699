"""Foreign, broken and hostile PTX: every reader answers or refuses it, in time and memory that are bounded."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import fuzz_ptx
import pytest

import legalsat as ls
from legalsat.analyses.ptx import bounds
from legalsat.analyses.ptx.bounds import Bounds, seldom_collected
from legalsat.analyses.ptx.instruction import NotPtx
from legalsat.analyses.ptx.text import parse
from legalsat.errors import LegalSatError
from legalsat.extract.check.check_ptx import check_ptx

pytestmark = pytest.mark.seconds
HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n"
MOST_SECONDS, MOST_MEMORY = 10.0, 2 << 30
MANY = 10_000
FEW = 1_000  # objects: what a run alone holds is more


def kernel(body: str, threads: str = "32", before: str = "", parameters: str = ".param .u32 n, .param .u64 p") -> str:
    return f"{HEAD}{before}.visible .entry k({parameters})\n.reqntid {threads}\n{{\n{body}\nret;\n}}\n"


def _each(template: str, count: int = MANY, *, backwards: bool = False) -> str:
    """Return a line for each number: # stands for it, and #' for the next one."""
    numbers = range(count)[::-1] if backwards else range(count)
    return "\n".join(template.replace("#'", str(n + 1)).replace("#", str(n)) for n in numbers)


SKIP = "setp.lt.s32 %p#,%r0,#; @%p# bra"
CHAINED = "add.s32 %r#',%r#,1;"
CHAIN = "ld.param.u32 %r0,[n];" + _each(CHAINED)
LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [2048], [%rd1], 16, [1024];"
TURNS = f"setp.eq.s32 %p1,%r{MANY},5; @%p1 bra"
MULTIPLY = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0,%f1,%f2,%f3}, %rd1,%rd2,1,1,1,0,0;"
LANE = "mov.u32 %r1,%tid.x; shl.b32 %r1,%r1,4;"
STORE = "st.shared.v4.b32 [%r1+#],{%r2,%r2,%r2,%r2};"
ONE_BARRIER = "mbarrier.init.shared.b64 [1024], 1; bar.sync 0;"
# What each is about. None of these may take long, whatever the answer.
QUICK = {
    "registers": kernel("{ .reg .b32 %q<300000000>; mov.b32 %q1, 0; }"),
    "braces": kernel("{" * 8000 + "}" * 8000),
    "open braces": kernel("{" * 80_000),
    "newlines": "\n" * 80_000,
    "newlines in a kernel": kernel("\n" * 400_000),
    "spaces": " " * 400_000,
    "comments that do not end": HEAD + "/*" * 100_000,
    "comments": kernel("/* a */" * 50_000),
    "beginnings": HEAD + ".entry " * 50_000,
    "beginnings with names": HEAD + ".entry k" * 50_000,
    "parameters that do not end": HEAD + ".entry k(" * 50_000,
    "kernels": HEAD + ".entry k(){ret;}" * 50_000,
    "targets": "\n\n .target" * 50_000,
    "tabs": "\t\n" * 200_000,
    "labels": kernel(_each("L#:", 50_000)),
    "shared variables": kernel("", before=_each(".shared .b8 s#[16];")),
    "digits": kernel(f"mov.u32 %r1, {'9' * 5000};"),
    "operands": kernel("mov.u32 " + ",".join(["%r1"] * 100_000) + ";"),
    "a table": kernel("T: .branchtargets " + ",".join(["L"] * 100_000) + "; L: brx.idx %r1, T;"),
    "a pointer": kernel("", parameters=".param .u64 .ptr" + " a" * 100_000),
    "a parameter": kernel("", parameters=".param .b .ptr x " * 30_000),
    "barriers": kernel(_each("mbarrier.init.shared.b64 [#], 1;", 2000)),
}
SLOW = {
    "loops for ever": kernel(_each("L#: bra L#;")),
    "loops": kernel(_each("L#: add.s32 %r1,%r1,1; setp.lt.s32 %p1,%r1,%r2; @%p1 bra L#;")),
    "a long sum": kernel(f"{CHAIN} {TURNS} E; bar.sync 0; E:"),
    "nested loops": kernel(
        _each("L#:") + "bar.sync 0;\n" + _each("setp.lt.s32 %p#,%r#,%r0; @%p# bra L#;", backwards=True)
    ),
    "exits": kernel("ld.param.u32 %r0,[n];" + _each(f"{SKIP} E;") + "bar.sync 0; E:"),
    "branches": kernel("ld.param.u32 %r0,[n];" + _each(f"{SKIP} E#; bar.sync 0; E#:", 5000)),
    "a sum from its end": kernel(f"L: {_each(CHAINED, backwards=True)} {TURNS} L; bar.sync 0;"),
    "a sum in memory": kernel(
        f"{CHAIN} st.shared.b32 [0], %r{MANY}; ld.shared.b32 %r{MANY},[0]; {TURNS} E; bar.sync 0; E:"
    ),
    "copies of sums": kernel(MULTIPLY + _each("mov.b32 %f#',%f#;", backwards=True)),
    "stores everywhere": kernel(
        f"{LANE} L: {STORE} add.s32 %r1,%r1,16; and.b32 %r1,%r1,65535; bra L;".replace("#", "0")
    ),
    "stores": kernel(LANE + _each(STORE, 20_000)),
    "parameters": kernel(
        _each("ld.param.u32 %r#,[p#]; setp.eq.s32 %q#,%r#,7; @%q# bra E;", 4000) + "bar.sync 0; E:",
        parameters=", ".join(f".param .u32 p{n}" for n in range(4000)),
    ),
    "arrivals for ever": kernel(f"{ONE_BARRIER} L: mbarrier.arrive.shared.b64 _, [1024]; bra L;"),
    "loads for ever": kernel(f"{ONE_BARRIER} L: mbarrier.arrive.expect_tx.shared.b64 _, [1024], 16; {LOAD} bra L;"),
    "lanes apart": kernel(
        "mov.u32 %r1,%tid.x;"
        + _each("setp.eq.s32 %p#,%r1,#; @%p# bra E#; add.s32 %r2,%r2,1; E#:", 3000)
        + "bar.sync 0;"
    ),
    "barriers of the block": kernel("L: bar.sync 0; bra L;", "1024"),
}


def asked(names: list[str]) -> None:
    """Ask the readers of these texts in a process of little memory, with a clock of processor time at each."""
    code = (
        "import resource, sys, time; import fuzz_ptx, test_ptx_bounds as t\n"
        "resource.setrlimit(resource.RLIMIT_AS, (t.MOST_MEMORY + (1 << 29),) * 2)\n"
        "for name in sys.argv[1:]:\n"
        "    begun = time.process_time(); fuzz_ptx.ask({**t.QUICK, **t.SLOW}[name])\n"
        "    assert time.process_time() - begun < 2 * t.MOST_SECONDS, name  # two readers\n"
    )
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": f"{here}:{here.parent}"}
    command = [sys.executable, "-c", code, *names]
    made = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert made.returncode == 0, made.stderr[-2000:]


def test_hostile_texts_take_little_time_and_memory() -> None:
    asked(list(QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_hostile_control_flow_takes_little_time_and_memory(name: str) -> None:
    asked([name])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (kernel("{ ld.shared.b3 %r1, [0]; }"), "line 7: ld.shared.b3 moves elements of type b3"),
        (kernel("st.shared.v4.b2147483648 [0], {%r1,%r2,%r3,%r4};"), "type b2147483648"),
        (kernel("st.shared.v4.b32 [0], {%r1,%r2};"), "2 registers as a vector of 4"),
        (kernel("st.shared.v2.b32 [0], {%r1,%r2;"), "does not close"),
        (kernel("ld.param.u32 %r1;"), "line 7: ld.param.u32 has 1 operands; ld takes 2 or more"),
        (kernel("add.s32 %r1, %r2, %r3, %r4;"), "add takes 3"),
        (kernel("add.u32 %r1,, 3;"), "lacks an operand"),
        (kernel("bra L;"), "line 7: no label is called L"),
        (kernel("brx.idx %r1, T;"), "no .branchtargets are called T"),
        (kernel("T: .branchtargets L; brx.idx %r1, T;"), "no label is called L"),
        (kernel("{ L: } bra L;"), "no label is called L"),
        (kernel(f"mov.u32 %r1, {'9' * 5000};"), "a number of 5000 digits"),
        (kernel("mov.u64 %rd1, 18446744073709551616;"), "64 bits"),
        (kernel("%p1 bra L;"), "is no instruction"),
        (kernel("{" * 70 + "}" * 70), "nested deeper than 64"),
        (kernel("", "4000000000"), "line 4: a block of 4000000000 threads; it has 1 to 1024"),
        (kernel("", "0"), "a block of 0 threads"),
        (kernel("", f"32\n.reqnctapercluster {'9' * 5000}"), "a number of 5000 digits"),
        (kernel("", "32\n.reqnctapercluster 0"), "a cluster of 0 blocks"),
        (kernel("", before=f".shared .b8 s[{'9' * 19}];\n"), "the variable s has 9999999999999999999 bytes"),
        (kernel("", before=".shared .align 3 .b8 s[4];\n"), "aligned to 3"),
        (kernel("", parameters=".param .u32 n m"), "is not understood"),
        (HEAD + ".entry k(.param .u32 n {", "do not end"),
        (kernel("").rstrip()[:-1], "does not end"),
        (HEAD + ".entry k(.param .u32 n) .entry j() { ret; }", "a kernel inside a kernel"),
        (" " * (17 << 20), "a text of 17825792 characters"),
        (HEAD + "/* .entry k() { ret; }", "no .entry"),
    ],
)
def test_what_is_garbled_is_said_with_its_line(text: str, said: str) -> None:
    with pytest.raises(NotPtx) as refused:
        ls.check_pipeline(text)
    assert said in str(refused.value)
    assert str(refused.value).isascii()
    assert len(str(refused.value)) < 200


def test_scopes_name_their_own_registers_and_labels() -> None:
    """Of two scopes of one name, of registers that are numbered, and of labels used before they stand."""
    text = kernel(
        "{ .reg .b32 %q<3>; bra L; mov.u32 %q2, %q3; { .reg .b32 %q<4>; mov.u32 %q3, %q03; } L: }\n"
        "{ .reg .b32 %q2; mov.u32 %q2, %q1; L: bra L; }"
    )
    (one,) = parse(text).kernels
    assert [i.operands for i in one.instructions[:-1]] == [
        ("L@1",),
        ("%q2@1", "%q3"),
        ("%q3@2", "%q03"),
        ("%q2@3", "%q1"),
        ("L@3",),
    ]
    assert one.labels == {"L@1": 3, "L@3": 4}


def test_an_operation_may_stand_before_its_operands_without_a_blank() -> None:
    (one,) = parse(kernel("tcgen05.ld.sync.aligned.32x32b.x2.b32{%r1,%r2},[%r3];")).kernels
    assert one.instructions[0].operands == ("{%r1,%r2}", "[%r3]")


def test_time_in_which_others_work_is_not_counted() -> None:
    bounds = Bounds(0.05)
    time.sleep(0.1)
    assert not bounds.reason and bounds.left
    until = time.thread_time() + 0.06
    while time.thread_time() < until:
        pass
    assert bounds.reason.startswith("not decided within") and not bounds.left


def texts_of(seed: int, count: int) -> list[str]:
    return list(islice(fuzz_ptx.texts(random.Random(seed)), count))


def _all_answered(seed: int, count: int) -> None:
    for number, text in enumerate(texts_of(seed, count)):
        begun = time.process_time()
        try:
            ls.check_pipeline(text)
        except LegalSatError:
            pass
        except Exception as error:
            raise AssertionError(f"text {number} of seed {seed}") from error
        assert time.process_time() - begun < MOST_SECONDS, f"text {number} of seed {seed}"


def test_garbled_kernels_end_in_an_answer() -> None:
    assert texts_of(1, 20) == texts_of(1, 20)
    _all_answered(1, 40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_garbled_kernels_end_in_an_answer(seed: int) -> None:
    _all_answered(seed, 500)


def test_the_collector_is_told_afterwards_what_it_was_told_before() -> None:
    before = gc.get_threshold()
    try:
        for told in ((700, 10, 10), (0, 5, 5), (90_000, 3, 3)):
            gc.set_threshold(*told)
            with pytest.raises(ValueError), seldom_collected():
                assert gc.get_threshold()[0] == (max(told[0], bounds.SELDOM) if told[0] else 0)
                raise ValueError
            assert gc.get_threshold() == told
        assert check_ptx(kernel("")).kernels and gc.get_threshold() == (90_000, 3, 3)
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("wrong", [False, True])
def test_what_checks_leave_behind_is_given_up(wrong: bool) -> None:
    """A folder of kernels is checked by one process: programs and runs, in which all is linked, go without a search."""
    text = (Path(__file__).parent / "data" / "ptx" / "triton_product_by_maps_sm_90.ptx").read_text()
    text = text.replace("wgmma.wait_group.sync.aligned 1", "wgmma.wait_group.sync.aligned 3") if wrong else text
    check_ptx(text)
    gc.collect()
    assert bool(check_ptx(text).findings) is wrong
    assert gc.collect() < FEW


def test_that_memory_is_short_is_a_reason_and_nothing_is_printed_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bounds, "MOST_BYTES", -(1 << 40))  # so that whatever the process holds is too much
    asked = Bounds()
    assert any("of memory" in asked.reason for _ in range(1000))
    assert capsys.readouterr() == ("", "")


def test_what_a_check_leaves_behind_is_cleared_within_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that grew by a GiB takes a second or two to find what nobody needs, and stops trying sooner."""
    clock, size = [0.0], [1 << 28]
    monkeypatch.setattr(bounds, "_resident", lambda: size[0])
    monkeypatch.setattr(bounds, "_spent", lambda: clock[0])
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])

    def stopped(growing: int) -> float:
        clock[0], size[0] = 0.0, 1 << 28
        one = Bounds(9.0)
        while not one.reason:
            clock[0] += 0.01
            size[0] += growing
        assert one.reason == "not decided within 9 s"
        return clock[0]

    assert 8.95 < stopped(0) < 9.1
    assert 7.0 < stopped((1 << 30) // 1000) < 8.5  # nearly a GiB by then

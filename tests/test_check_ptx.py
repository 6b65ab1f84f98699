"""The check of real PTX: nothing is wrong with what compilers print, and planted faults are found."""

from __future__ import annotations

import json
import math
import random
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from block_texts import Printed, multiply
from ptx_machine import Stuck

import legalsat as ls
from bench.ptx.ptx_mutants import KINDS, mutants
from legalsat.analyses.ptx.findings import KINDS as FOUND
from legalsat.analyses.ptx.findings import Finding
from legalsat.analyses.ptx.instruction import NotPtx
from legalsat.analyses.ptx.text import parse
from legalsat.analyses.ptx_machine.alu import FULL, LANES, arithmetic, compare, mask_of
from legalsat.analyses.ptx_machine.lanes import _shuffled
from legalsat.analyses.ptx_machine.periods import period_of
from legalsat.cli import main
from legalsat.errors import InvalidInput
from legalsat.extract.check.check_ptx import check_ptx
from legalsat.extract.check.check_words import code_of
from legalsat.rules import PIPELINE_RULES
from legalsat.view.show_rules import rules_by_code

DATA = Path(__file__).parent / "data" / "ptx"
# Kernels of ours, of one tile a block, with more tiles along K than stages, so that stages are used again.
WGMMA, TCGEN05 = "block_sm_90a", "block_sm_100a"
T, Map = ls.Tensor, partial(ls.TensorMap, dtype="bf16", l2_promotion="128B")


def block(rows: int, tile: tuple[int, int, int], shared: int) -> Printed:
    """Return what the first lines of a text say, of a product of so many rows."""
    return Printed(
        (T((rows, 800), "bf16"), T((24, 800), "bf16"), T((rows, 24), "bf16")),
        ("bf16", "bf16", "bf16"),
        tile,
        2,
        13 * 64,
        shared,
        ("a_map", "b_map", "c_map"),
        (
            Map(global_dim=(800, rows), global_stride=(1600,), box=(64, tile[0]), swizzle="128B"),
            Map(global_dim=(800, 24), global_stride=(1600,), box=(64, 32), swizzle="128B"),
            Map(global_dim=(24, rows), global_stride=(48,), box=(32, tile[0]), swizzle="64B"),
        ),
    )


LAUNCHED = {WGMMA: block(72, (64, 32, 64), 98432), TCGEN05: block(200, (128, 32, 64), 163984)}
# Loops around loops take seconds; here for one size, by the number of the parameter.
FIXED = {
    "triton_product_persistent_specialized_sm_100": {15: 384, 16: 128, 17: 320},
    "triton_product_specialized_sm_100": {15: 448},
    "triton_product_by_pointers_sm_90": {5: 448},
    "gluon_wgmma_by_two_roles_sm_90": {15: 448},
}
LEFT_OPEN = {"triton_product_specialized_sm_100"}  # invalidates barriers on which tcgen05 may still arrive


@lru_cache
def own(case: str) -> str:
    """Return a kernel of ours."""
    return (DATA.parent / f"{case}.ptx").read_text()


def boxes(case: str) -> dict[str, int]:
    names = [name for name in LAUNCHED[case].parameters if name.endswith("_map")]
    sizes = [math.prod(tm.box) * tm.map_type.bits // 8 for tm in LAUNCHED[case].maps]
    return dict(zip(names, sizes, strict=True))


@pytest.mark.parametrize("path", sorted(DATA.glob("*.ptx")), ids=lambda p: p.stem)
def test_nothing_is_wrong_with_what_triton_prints(path: Path) -> None:
    text = path.read_text()
    name = parse(text).kernels[0].name
    found = check_ptx(text, parameters={f"{name}_param_{n}": v for n, v in FIXED.get(path.stem, {}).items()})
    assert found.findings == ()
    assert found.proven == (path.stem not in LEFT_OPEN), found.unproven


@pytest.mark.parametrize("case", LAUNCHED)
def test_our_kernels_are_proven_and_their_boxes_recovered(case: str) -> None:
    (kernel,) = check_ptx(own(case)).kernels
    assert kernel.proven, (kernel.findings, kernel.unproven)
    loads = {name: size for name, size in boxes(case).items() if name != "c_map"}
    assert kernel.boxes == loads


# What each planted fault must be flagged for, in the order of the lines where it is planted: in the wgmma kernel and in
# that of tcgen05. One set stands for all places. What else follows from a fault is not asked.
MISSING, EXCESS, BYTES, MISSED = {"PIPE004"}, {"PIPE005"}, {"PIPE006"}, {"PIPE007"}
OVERWRITTEN, EARLY, UNFENCED, RELEASED = {"PIPE008"}, {"PIPE009"}, {"PIPE010"}, {"PIPE011"}
UNSTARTED, UNCOMMITTED, REUSED, UNDRAINED, TENSOR, SUMS = (
    {"PIPE001"}, {"PIPE012"}, {"PIPE013"}, {"PIPE014"}, {"PIPE016"}, {"PIPE019"},
)  # fmt: skip
NOWHERE: tuple[set[str], ...] = ()
CAUSES: dict[str, tuple[tuple[set[str], ...], tuple[set[str], ...]]] = {
    "arrive dropped": ((MISSING,), NOWHERE),
    "arrive doubled": ((EXCESS | MISSED,), NOWHERE),
    "arrive on the next stage": ((MISSING,), NOWHERE),
    "expect dropped": ((MISSING,), (MISSING,)),
    # The phase ends at once: its reader is early, and the bytes count in the next one.
    "expect without bytes": ((BYTES | EARLY,), (BYTES | EARLY,)),
    "16 bytes more expected": ((BYTES,), (BYTES,)),
    "16 bytes fewer expected": ((BYTES,), (BYTES,)),
    "expect on the next stage": ((MISSING,), (MISSING,)),
    "expect doubled": ((BYTES | EXCESS,), (BYTES | EXCESS,)),
    "one arrival more expected": ((MISSING,), (MISSING,)),
    "one arrival fewer expected": ((EXCESS,), (EXCESS,)),
    "barrier not started": ((UNSTARTED,), (UNSTARTED,)),
    # A wait for a full stage that passes too soon reads early, one for an empty stage overwrites; the other way round
    # they never end. The kernel of tcgen05 waits for sums first.
    "parity flipped": ((EARLY | MISSED, MISSING), (EARLY | MISSED, MISSING, EARLY | MISSED)),
    "parity always 0": ((EARLY | MISSED, MISSING), (MISSING, EARLY | MISSED)),
    "parity always 1": ((EARLY | MISSED, OVERWRITTEN), (EARLY | MISSED, OVERWRITTEN, EARLY | MISSED)),
    "wait removed": ((EARLY, OVERWRITTEN), (EARLY, OVERWRITTEN, EARLY)),
    # Behind the last barrier there is none.
    "wait on the next stage": ((EARLY, UNSTARTED), (UNSTARTED, EXCESS, EARLY)),
    "proxy fence removed": ((UNFENCED,), (UNFENCED,)),
    "load dropped": ((BYTES,), (BYTES,)),
    "load doubled": ((BYTES | OVERWRITTEN,), (BYTES | OVERWRITTEN,)),
    # The second operand's last stage ends where the barriers begin.
    "load to a place 128 bytes on": (
        (EARLY | OVERWRITTEN, EARLY | {"PIPE024"}),
        (EARLY | OVERWRITTEN, EARLY | {"PIPE024"}),
    ),
    "load counted on the next stage": ((BYTES,), (BYTES,)),
    "wgmma commit removed": ((UNCOMMITTED | RELEASED | SUMS,), NOWHERE),
    "wgmma wait removed": ((RELEASED, SUMS), NOWHERE),
    "wgmma wait for one group fewer": ((RELEASED, SUMS), NOWHERE),
    "wgmma fence removed": (({"PIPE020"},), NOWHERE),
    "bulk commit removed": ((UNCOMMITTED,), (UNCOMMITTED,)),
    # Blocks end when the copy engine is done (an H200 wrote the right bytes): a warning.
    "bulk wait removed": ((set(),), (set(),)),
    "bulk wait for one group fewer": ((set(),), (set(),)),
    "stage released before the wgmma wait": ((RELEASED,), NOWHERE),
    "tcgen05 commit removed": (NOWHERE, (MISSING,)),
    "tcgen05 commit doubled": (NOWHERE, (EXCESS | MISSED, MISSED)),
    "tcgen05 commit on the next stage": (NOWHERE, (MISSING, MISSING | UNSTARTED)),
    "tensor memory not freed": (NOWHERE, (TENSOR,)),
    "wait for tcgen05.ld removed": (NOWHERE, (set(),)),  # registers are tracked: a warning
    # Between what is written and what reads or stores it; the first of the kernel of tcgen05 has another one behind it,
    # and the second of wgmma follows the wait of its only warpgroup, which multiplies together.
    "block barrier removed": ((UNSTARTED, set(), EARLY | REUSED), (set(), EARLY, EARLY | REUSED, EARLY | TENSOR)),
}


# With fewer tiles than stages no stage is used again: less goes wrong, and the next stage's barrier may never end.
IN_A_SHORT_LOOP = {
    "expect without bytes": EARLY | UNDRAINED,
    "wait on the next stage": MISSING,
    "load to a place 128 bytes on": EARLY,
}


def flagged(text: str, case: str) -> set[str]:
    return {code_of(finding) for finding in check_ptx(text, box_bytes=boxes(case)).findings}


@pytest.mark.parametrize(("column", "case"), [(0, WGMMA), (1, TCGEN05)])
def test_planted_faults_are_found_for_their_cause(column: int, case: str) -> None:
    planted: dict[str, list[str]] = {}
    for kind, _, text in mutants(own(case)):
        planted.setdefault(kind, []).append(text)
    assert set(planted) == {kind for kind, columns in CAUSES.items() if columns[column]}
    for kind, texts in planted.items():
        causes = CAUSES[kind][column]
        assert len(causes) in {1, len(texts)}, kind
        for place, text in enumerate(texts[: max(1, len(causes))]):
            found = flagged(text, case)
            assert causes[place] <= found and (causes[place] or not found), (kind, place, found)


def test_every_kind_of_fault_is_planted_somewhere() -> None:
    texts = [own(WGMMA), own(TCGEN05), *(p.read_text() for p in DATA.glob("triton_product*.ptx"))]
    assert {kind for text in texts for kind, _, _ in mutants(text)} == set(KINDS)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:(overflow|invalid value) encountered"
)  # memory that has not been loaded holds anything
@pytest.mark.parametrize("case", LAUNCHED)
def test_what_the_executable_model_breaks_on_is_found(case: str) -> None:
    """Each mutant runs on the model of `ptx_machine` in three random orders; any that goes wrong must be flagged."""
    harmful = 0
    for kind, line, text in mutants(own(case)):
        if _goes_wrong(LAUNCHED[case], text):
            harmful += 1
            # At which place of its kind is not known here, so what fits any of them will do.
            causes = [*(cause for column in CAUSES[kind] for cause in column), IN_A_SHORT_LOOP.get(kind, set())]
            found = flagged(text, case)
            assert any(cause <= found for cause in causes if cause), (kind, line, found)
    assert harmful > 25


def _goes_wrong(one: Printed, text: str) -> bool:
    for seed in range(3):
        try:
            got, expected, owned = multiply(one, text, [0], seed)
        except Stuck:
            return True
        except (AssertionError, KeyError, ValueError):
            return False  # the model cannot read what this edit made
        if not np.array_equal(got[owned], expected[owned]):
            return True
    return False


# By hand.

HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 memory[];\n"
DECLARED = ".reg .pred %p<9>;\n.reg .b32 %r<30>;\n.reg .b64 %d<9>;"


def kernel(*body: str, parameters: str = ".param .u32 n", threads: int = 64) -> str:
    return (
        HEAD
        + f".visible .entry k({parameters})\n.reqntid {threads}\n{{\n{DECLARED}\n"
        + "\n".join(body)
        + "\nret;\n}\n"
    )


SET_UP = (
    "mov.u32 %r0, %tid.x;",
    "shr.u32 %r1, %r0, 5;",
    "mov.u32 %r2, memory;",
    "setp.eq.u32 %p0, %r0, 0;",
    "@%p0 mbarrier.init.shared::cta.b64 [%r2], 32;",
    "@%p0 mbarrier.init.shared::cta.b64 [%r2+8], 32;",
    "bar.sync 0;",
    "ld.param.u32 %r3, [n];",
    "mov.b32 %r4, 0;",
    "setp.eq.u32 %p3, %r3, 0;",
    "@%p3 bra END;",
    "setp.ne.u32 %p1, %r1, 0;",
    "@%p1 bra OTHER;",
)


def wait(barrier: str, parity: str, name: str) -> tuple[str, ...]:
    return f"{name}:", f"mbarrier.try_wait.parity.shared::cta.b64 %p2, [{barrier}], {parity};", f"@!%p2 bra {name};"


def again(label: str) -> tuple[str, ...]:
    return "add.u32 %r4, %r4, 1;", "setp.lt.u32 %p4, %r4, %r3;", f"@%p4 bra {label};"


def ping_pong(*, empty: bool = True, released: bool = True) -> str:
    """Warp 0 writes what warp 1 reads, back and forth over two barriers."""
    return kernel(
        *SET_UP,
        "WRITE:",
        "and.b32 %r5, %r4, 1;",
        "xor.b32 %r6, %r5, 1;",
        *(wait("%r2+8", "%r6", "EMPTY") if empty else ()),
        "st.shared.u32 [%r2+64], %r4;",
        "mbarrier.arrive.shared::cta.b64 _, [%r2];",
        *again("WRITE"),
        "bra END;",
        "OTHER:",
        "and.b32 %r5, %r4, 1;",
        *wait("%r2", "%r5", "FULL"),
        *(() if released else ("mbarrier.arrive.shared::cta.b64 _, [%r2+8];",)),
        "ld.shared.u32 %r7, [%r2+64];",
        *(("mbarrier.arrive.shared::cta.b64 _, [%r2+8];",) if released else ()),
        *again("OTHER"),
        "END:",
    )


def test_a_right_handshake_is_proven_for_every_number_of_rounds() -> None:
    (found,) = check_ptx(ping_pong()).kernels
    assert found.proven, (found.findings, found.unproven)
    assert {0, 1, 2, 3} <= set(found.parameters["n"]) and max(found.parameters["n"]) > 30


def test_a_writer_that_does_not_wait_overwrites_and_laps() -> None:
    kinds = {f.kind for f in check_ptx(ping_pong(empty=False)).findings}
    # A race of a write and a read is told from the side that happens to come later.
    assert kinds & {"stage_overwritten", "read_before_full"} and "phase_missed" in kinds


def test_a_release_before_the_read_is_found() -> None:
    assert {f.kind for f in check_ptx(ping_pong(released=False)).findings} == {"stage_overwritten"}


def test_a_wait_that_nothing_holds_back_may_be_lapped() -> None:
    # Warp 1 waits for phase 0 only, and nobody waits for it.
    text = kernel(
        *SET_UP[:6], "bar.sync 0;", "setp.ne.u32 %p1, %r1, 0;", "@%p1 bra OTHER;",
        "mbarrier.arrive.shared::cta.b64 _, [%r2];", *wait("%r2", "0", "MINE"),
        "mbarrier.arrive.shared::cta.b64 _, [%r2];", "bra END;",
        "OTHER:", *wait("%r2", "0", "THEIRS"), "END:",
    )  # fmt: skip
    found = check_ptx(text)
    (finding,) = found.warnings
    assert found.proven and finding.kind == "bystander_overtaken"
    assert text.splitlines()[finding.line - 1].endswith("[%r2], 0;") and finding.line > 24
    # Where it goes on to arrive, others need it.
    (finding,) = check_ptx(text.replace("END:", "mbarrier.arrive.shared::cta.b64 _, [%r2+8];\nEND:")).findings
    assert finding.kind == "phase_missed"


def test_two_roles_that_wait_for_each_other_are_a_deadlock() -> None:
    text = kernel(
        *SET_UP[:6], "bar.sync 0;", "setp.ne.u32 %p1, %r1, 0;", "@%p1 bra OTHER;",
        *wait("%r2", "0", "ONE"), "mbarrier.arrive.shared::cta.b64 _, [%r2+8];", "bra END;",
        "OTHER:", *wait("%r2+8", "0", "TWO"), "mbarrier.arrive.shared::cta.b64 _, [%r2];", "END:",
    )  # fmt: skip
    assert {f.kind for f in check_ptx(text).findings} == {"arrivals_missing"}


def test_what_depends_on_data_is_left_open_with_its_line() -> None:
    text = kernel(
        "ld.param.u64 %d0, [c];", "ld.global.acquire.gpu.u32 %r0, [%d0];", "setp.eq.u32 %p0, %r0, 0;",
        "@%p0 bra END;", "bar.sync 0;", "END:", parameters=".param .u64 c",
    )  # fmt: skip
    found = check_ptx(text)
    assert not found.findings and not found.proven
    line = next(n for n, one in enumerate(text.splitlines(), 1) if "bra END" in one)
    assert [(u.line, u.reason) for u in found.unproven] == [(line, "a predicate depends on data")]


def test_an_instruction_that_is_not_followed_is_left_open_only_where_it_is_reached() -> None:
    odd = "multimem.red.relaxed.sys.global.add.u32 [%d1], %r1;"
    (open_,) = check_ptx(kernel(odd, "bar.sync 0;")).unproven
    assert open_.reason == "multimem.red is not followed"
    assert check_ptx(kernel("bra END;", odd, "END:")).proven


LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
MAPS = ".param .align 64 .b8 a[128], .param .align 64 .b8 b[128]"


def two_loads(expected: int, second: int) -> str:
    return kernel(
        "mov.u32 %r0, %tid.x;", "setp.ne.u32 %p0, %r0, 0;", "mov.u32 %r2, memory;",
        "mov.b64 %d0, a;", "mov.b64 %d1, b;",
        "@%p0 bra MET;", "mbarrier.init.shared::cta.b64 [%r2+16384], 1;", "MET:", "bar.sync 0;", "@%p0 bra FULL;",
        f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2+16384], {expected};",
        f"{LOAD} [%r2], [%d0, {{0, 0}}], [%r2+16384];", f"{LOAD} [%r2+{second}], [%d1, {{0, 0}}], [%r2+16384];",
        *wait("%r2+16384", "0", "FULL"), parameters=MAPS,
    )  # fmt: skip


def test_boxes_follow_from_what_is_expected_and_where_they_lie() -> None:
    (found,) = check_ptx(two_loads(16384, 4096)).kernels
    assert found.boxes == {"a": 4096, "b": 12288} and found.proven
    assert {f.kind for f in check_ptx(two_loads(16400, 4096)).findings} == {"bytes_differ"}


def test_boxes_that_do_not_follow_are_left_open_unless_given() -> None:
    text = two_loads(8192, 8192)
    (open_,) = check_ptx(text).unproven
    assert "boxes of a, b" in open_.reason
    assert check_ptx(text, box_bytes={"a": 4096, "b": 4096}).proven
    assert {f.kind for f in check_ptx(text, box_bytes={"a": 4096, "b": 8192}).findings} == {"bytes_differ"}


def test_a_state_repeats_or_does_not() -> None:
    zero = np.zeros(4, dtype=np.int32)
    rounds = range(44)
    assert period_of([((i % 3, i // 5 % 2, 7 * i, None), zero + i, {}) for i in rounds])
    assert not period_of([((i * i,), zero, {}) for i in rounds])
    assert not period_of([((i % 3,), zero, {}) for i in range(10)])


# Arithmetic, lane by lane.


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


SCALAR: dict[str, Any] = {
    "add.s32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "mul.lo.s32": lambda a, b: a * b,
    "mul.hi.u32": lambda a, b: a * b >> 32,
    "mul.hi.s32": lambda a, b: _signed(a, 32) * _signed(b, 32) >> 32,
    "mul.wide.s32": lambda a, b: _signed(a, 32) * _signed(b, 32),
    "mul.wide.u32": lambda a, b: a * b,
    "div.u32": lambda a, b: a // b,
    "rem.u32": lambda a, b: a % b,
    "div.s32": lambda a, b: int(_signed(a, 32) / _signed(b, 32)),
    "min.s32": lambda a, b: min(_signed(a, 32), _signed(b, 32)),
    "max.u32": max,
    "and.b32": lambda a, b: a & b,
    "xor.b32": lambda a, b: a ^ b,
    "shl.b32": lambda a, b: a << b % 32 if b < 32 else 0,
    "shr.u32": lambda a, b: a >> b if b < 32 else 0,
    "shr.s32": lambda a, b: _signed(a, 32) >> min(b, 31),
}


@pytest.mark.parametrize("name", SCALAR)
def test_lanes_compute_what_numbers_do(name: str) -> None:
    rng = random.Random(name)
    work = arithmetic(tuple(name.split(".")), ())
    assert work is not None
    mask = (1 << (64 if "wide" in name else 32)) - 1
    for _ in range(20):
        a = [rng.choice((rng.getrandbits(32), rng.randrange(64), 2**32 - 1 - rng.randrange(4))) for _ in range(LANES)]
        b = [rng.choice((rng.randrange(1, 40), rng.getrandbits(31) + 1)) for _ in range(LANES)]
        if name.startswith("sh"):
            b = [one % 40 for one in b]
        expected = [SCALAR[name](x, y) & mask for x, y in zip(a, b, strict=True)]
        as_arrays = work(np.array(a, dtype=np.uint64), np.array(b, dtype=np.uint64))
        assert as_arrays.tolist() == expected
        assert [work(x, y) for x, y in zip(a, b, strict=True)] == expected
        mixed = work(np.array(a, dtype=np.uint64), b[0])
        assert mixed.tolist() == [SCALAR[name](x, b[0]) & mask for x in a]


def test_comparisons_give_a_bit_for_each_lane() -> None:
    a = np.array([*range(16), *range(2**32 - 16, 2**32)], dtype=np.uint64)
    signed, unsigned = compare(("setp", "lt", "s32")), compare(("setp", "lt", "u32"))
    assert signed is not None and unsigned is not None
    assert signed(a, 8) == mask_of(np.array([_signed(int(v), 32) < 8 for v in a]))
    assert unsigned(a, 8) == 0xFF and unsigned(3, 8) == FULL and signed(None, 8) is None


@pytest.mark.parametrize("mode", ["idx", "up", "down", "bfly"])
@pytest.mark.parametrize("width", [32, 16, 8])
def test_shuffles_move_lanes(mode: str, width: int) -> None:
    value = np.arange(100, 100 + LANES, dtype=np.uint64)
    clamp = (32 - width) << 8 | (0 if mode == "up" else 31)
    for by in (0, 1, 2, 5):
        found, _ = _shuffled(mode, value, by, clamp)
        for lane in range(LANES):
            base, at = lane // width * width, lane % width
            to = {"idx": by % width, "up": at - by, "down": at + by, "bfly": at ^ by}[mode]
            expected = 100 + base + to if 0 <= to < width else 100 + lane
            assert (found if isinstance(found, int) else found[lane]) == expected


# Text.


def test_a_text_is_read_with_scopes_tables_and_comments() -> None:
    text = (
        HEAD
        + """.visible .entry k(
 .param .u32 n, // not , this
 .param .align 64 .b8 map[128],
 .param .u64 .ptr .global .align 1 c
)
.reqntid 128, 2, 1
{
 .reg .b32 %r<3>; /* two
 lines */ .shared .align 16 .b8 own[64];
 { .reg .pred complete;
 loop: @!complete bra.uni loop; }
 T: .branchtargets END,
  OTHER;
 brx.idx %r0, T; OTHER: st.shared.v2.b32 [%r1 + 4], {%r0, %r2};
END: ret;
}
"""
    )
    (found,) = parse(text).kernels
    assert found.threads == (128, 2, 1)
    assert [(p.name, p.type, p.bytes) for p in found.parameters] == [
        ("n", "u32", 0),
        ("map", "b8", 128),
        ("c", "u64", 0),
    ]
    assert found.tables == {"T": ("END", "OTHER")} and found.shared[0].bytes == 64
    inner, jump, store, _ = found.instructions
    assert inner.guard.startswith("complete@") and inner.negated and inner.operands[0] in found.labels
    assert store.operands == ("[%r1 + 4]", "{%r0, %r2}") and jump.name == "brx.idx"
    assert [text.splitlines()[i.line - 1].split()[0] for i in found.instructions] == [
        "loop:",
        "brx.idx",
        "brx.idx",
        "END:",
    ]


@pytest.mark.parametrize("text", ["", "int main() {}", HEAD, HEAD + ".visible .entry k()\n{ ret;"])
def test_what_is_no_ptx_is_refused(text: str) -> None:
    with pytest.raises(NotPtx):
        check_ptx(text)


def test_wrong_names_and_targets_are_refused() -> None:
    assert check_ptx(ping_pong(), "h200", parameters={"n": 2}).proven
    with pytest.raises(InvalidInput, match="for sm_90a, not sm_100a"):
        check_ptx(ping_pong(), "sm_100a")
    with pytest.raises(InvalidInput, match="no kernel has a parameter m"):
        check_ptx(ping_pong(), parameters={"m": 1})


# The command line.


def test_the_command_answers_in_text_json_and_sarif(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.ptx", tmp_path / "bad.ptx"
    good.write_text(ping_pong())
    bad.write_text(ping_pong(released=False))
    assert main(["check", str(good), "--param", "n=3"]) == 0
    assert "k: proven" in capsys.readouterr().out
    assert main(["check", str(bad)]) == 1
    page = capsys.readouterr().out
    line = next(n for n, one in enumerate(bad.read_text().splitlines(), 1) if one.startswith("st.shared"))
    assert f"--> {bad}:{line}" in page and "1 break of the contract" in page
    assert main(["check", str(bad), "--json"]) == 1
    (one,) = json.loads(capsys.readouterr().out)["kernels"]
    assert one["findings"][0]["line"] == line and not one["proven"]
    assert main(["check", str(bad), "--sarif"]) == 1
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    (result,) = run["results"]
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == line
    assert result["locations"][0]["logicalLocations"] == [{"fullyQualifiedName": "k"}]
    rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
    known = rules_by_code()[rule["id"]]
    assert result["ruleId"] == rule["id"] and known.source.quote in rule["help"]["text"]
    assert main(["check", str(good), "--param", "n"]) == 2


def test_the_command_checks_several_files_and_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "cache" / "ab12"
    folder.mkdir(parents=True)
    good, open_, bad = folder / "good.ptx", tmp_path / "cache" / "open.ptx", tmp_path / "bad.ptx"
    good.write_text(ping_pong())
    (folder / "good.json").write_text("{}")
    open_.write_text(ping_pong().replace(".reqntid 64", ""))
    bad.write_text(ping_pong(released=False))
    assert main(["check", str(folder), "--json"]) == 0  # a folder with one file
    assert json.loads(capsys.readouterr().out)["file"] == str(good)
    assert main(["check", str(tmp_path / "cache"), str(good)]) == 0
    page = capsys.readouterr().out
    assert page.rstrip().endswith("2 files: proven: 1; not proven: 1")
    assert main(["check", str(tmp_path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [Path(one["file"]).name for one in told["files"]] == ["bad.ptx", "good.ptx", "open.ptx"]
    assert told["kernels"] == {"breaks": 1, "proven": 1, "not_proven": 1, "judged": 0, "not_judged": 0}
    assert main(["check", str(good), str(open_), "--block", "64", "--param", "n=3"]) == 0
    assert "2 files: proven: 2" in capsys.readouterr().out
    # One that is no PTX stops nobody else, and is not passed over.
    (folder / "empty.ptx").write_text("")
    assert main(["check", str(folder), "--sarif"]) == 2
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert [one["ruleId"] for one in run["results"]] == ["not_checked"]
    assert main(["check", str(folder), str(bad)]) == 1
    assert "not checked: 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--param", "m=3"], "no kernel of these files has a parameter m"),
        (["--box-bytes", "m=16"], "no kernel of these files has a parameter m"),
        (["--block", "128"], "no kernel of these files can be launched with --block"),
        (["--block", "64x"], "write it like 384"),
        (["--block", "64,0"], "positive"),
        (["--grid", "two"], "write it like 384"),
    ],
)
def test_what_fits_none_of_several_files_is_refused(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.ptx", "b.ptx"):
        (tmp_path / name).write_text(ping_pong())
    assert main(["check", str(tmp_path), *words]) == 2
    assert said in capsys.readouterr().err
    (tmp_path / "none").mkdir()
    assert main(["check", str(tmp_path / "none")]) == 2


def test_every_kind_of_finding_is_a_rule_of_its_level() -> None:
    rules = {rule.name: rule for rule in PIPELINE_RULES}
    assert set(FOUND) <= set(rules)
    for kind in FOUND:
        finding = Finding(kind, 1, "", "", "")
        assert finding.level == rules[kind].level and code_of(finding) == rules[kind].code

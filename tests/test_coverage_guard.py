"""Proven kernels without their barriers, waits or fences, one kind at a time: never proven but by a rule."""

import json
from pathlib import Path

import pytest

from bench.foreign_mutants.texts import Source
from bench.ptx.coverage_guard import OPEN, PROVEN, REMOVALS, RESULT, RULES, checked, rows_of, verdict, without

DATA = Path(__file__).parent / "data" / "ptx"
KERNELS = (
    "gluon_add_in_a_ring_sm_90",
    "gluon_cp_async_ring_sm_90",
    "triton_product_by_maps_sm_90",
    "triton_bias_sm_100",
)

VACUOUS = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k() .reqntid 32 {
    .reg .b32 %r<2>; .reg .pred %p<2>; .shared .align 8 .b64 b;
    mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0;
    @!%p0 mbarrier.init.shared.b64 [b], 1;
    { bar.sync 0; }
    @!%p0 mbarrier.arrive.shared.b64 _, [b];
    W:
    mbarrier.try_wait.parity.shared.b64 %p1, [b], 0;
    @!%p1 bra W;
    ret;
}
"""


def test_a_kind_is_taken_out_wholly() -> None:
    """Of a kind no instruction is left, and of other kinds all; waits set their predicate."""
    inits, waits = REMOVALS[:2]
    assert verdict(checked(VACUOUS)) == PROVEN
    gone = without(VACUOUS, inits)
    assert gone is not None and "init" not in gone and gone.count("\n") == VACUOUS.count("\n")
    assert verdict(checked(gone)) not in {PROVEN, OPEN}
    passed = without(VACUOUS, waits)
    assert passed is not None and "setp.eq.u32 %p1, 0, 0;" in passed and "try_wait" not in passed
    assert [without(VACUOUS, one) for one in REMOVALS[2:]] == [None] * (len(REMOVALS) - 2)


@pytest.mark.parametrize("name", KERNELS)
def test_nothing_is_proven_without_its_waits(name: str) -> None:
    """All removals of each kernel, of which some must have been possible."""
    rows = list(rows_of(Source(name, "", 0, (DATA / f"{name}.ptx").read_text()), checked))
    assert rows and all(row["check"] != PROVEN or row["rule"] in RULES for row in rows), rows


def test_the_result_holds_no_unexcused_proof() -> None:
    """What was measured last: of hundreds of kernels none is proven without a kind but by a rule."""
    found = json.loads(RESULT.read_text())
    assert found["proven without a rule"] == [] and found["kernels that are proven"] > 100
    assert {row["rule"] for row in found["rows"] if row["check"] == PROVEN} <= set(RULES)
    assert "proven" not in found["removed"]["barrier inits"] and "proven" not in found["removed"]["waits: mbarrier"]

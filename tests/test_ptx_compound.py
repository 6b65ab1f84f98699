"""Comparisons that are joined with a predicate at once: what they give, and that each is turned round by itself."""

from __future__ import annotations

import operator
from itertools import product

import pytest

from legalsat.extract.check.check_ptx import KernelCheck, check_ptx

JOINS = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def checked(body: str, parameters: str = "") -> KernelCheck:
    """Return the check of a kernel that waits for nobody where `%p1` holds."""
    (found,) = check_ptx(f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k({parameters})
.reqntid 32
{{
.reg .pred %p<9>; .reg .b32 %r<9>;
.shared .align 8 .b64 barrier;
mov.u32 %r0, %tid.x; mov.u32 %r1, barrier; setp.eq.u32 %p8, %r0, 0;
@%p8 mbarrier.init.shared::cta.b64 [%r1], 1;
bar.sync 0;
{body}
@!%p1 bra END;
WAIT:
mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r1], 0;
@!%p7 bra WAIT;
END:
ret;
}}
""").kernels
    return found


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize(("to", "opposite"), [("%p1", False), ("%p1|%p2", False), ("%p2|%p1", True), ("_|%p1", True)])
def test_what_a_joined_comparison_gives(join: str, to: str, opposite: bool) -> None:
    """PTX ISA, 9.7.8.2 setp: p = (a CmpOp b) BoolOp c, q = !(a CmpOp b) BoolOp c."""
    for equal, other, negated in product((False, True), repeat=3):
        given = "!%p3" if negated else "%p3"
        found = checked(f"""
setp.ne.u32 %p3, {int(other)}, 0;
mov.u32 %r2, {int(not equal)};
setp.eq.{join}.u32 {to}, %r2, 0, {given};
""")
        holds = JOINS[join](equal != opposite, other != negated)
        assert bool(found.findings) == holds, (equal, other, negated, found.findings, found.unproven)


@pytest.mark.parametrize("join", ["and", "or"])
def test_a_comparison_is_turned_round_though_what_it_is_joined_with_differs_from_thread_to_thread(join: str) -> None:
    """With no k one thread waits for nobody, or the others do."""
    found = checked(
        f"ld.param.u32 %r2, [k_0];\nsetp.eq.{join}.u32 %p2, %r2, 0, %p8;\n"
        + ("xor.pred %p1, %p2, %p8;" if join == "or" else "mov.pred %p1, %p2;"),
        ".param .u32 k_0",
    )
    assert found.findings or [(one.name, one.least) for one in found.conditions] == [("k_0", 1)]

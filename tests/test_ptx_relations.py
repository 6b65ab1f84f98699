"""Parameters that do not fit: that they do is a condition of the check of PTX, if that tells right launches apart."""

from __future__ import annotations

import random

import pytest
from test_ptx_branches import BARRIERS, kernel, only

from legalsat.analyses.ptx.text import parse
from legalsat.analyses.ptx_machine.program import compile_kernel
from legalsat.extract.check.ptx_relations import Relation, relation_of
from legalsat.extract.check.ptx_sweep import Sweep
from legalsat.extract.check.ptx_values import sweep_all

FULL, EMPTY = f"%r1+{BARRIERS}", f"%r1+{BARRIERS + 8}"


def each_part(do: str, name: str) -> str:
    """Go through the parts of k that a launch has, %r2, each with its share of the k-tiles, %r3."""
    return f"""mov.u32 %r4, 0; mov.u32 %r5, {int(name == "P")};
{name}T: setp.ge.u32 %p1, %r4, %r2;
@%p1 bra END;
div.u32 %r6, %r3, %r2; rem.u32 %r7, %r3, %r2; setp.lt.u32 %p2, %r4, %r7; selp.u32 %r8, 1, 0, %p2;
add.u32 %r6, %r6, %r8;
{do}add.u32 %r4, %r4, 1;
bra {name}T;
"""


def met(waited: str, arrived: str, name: str) -> str:
    return f"""{name}W: mbarrier.try_wait.parity.shared::cta.b64 %p9, [{waited}], %r5;
@!%p9 bra {name}W;
mbarrier.arrive.shared::cta.b64 _, [{arrived}];
xor.b32 %r5, %r5, 1; sub.u32 %r6, %r6, 1;
"""


def parts(fault: str = "", first: int = 0) -> str:
    """A thread that waits for a k-tile of each part at least, after the first ones, and one that brings all of them."""
    peeled = "".join(met(FULL, EMPTY, f"C{n}") for n in range(first))
    takes = f"{peeled}CL:\n{met(FULL, EMPTY, 'C')}setp.gt.s32 %p3, %r6, 0;\n@%p3 bra CL;\n"
    brings = f"{fault}PL: setp.le.s32 %p4, %r6, 0;\n@%p4 bra PN;\n{met(EMPTY, FULL, 'P')}bra PL;\nPN:\n"
    return kernel(
        f"""@%p0 mbarrier.init.shared::cta.b64 [{FULL}], 1;
@%p0 mbarrier.init.shared::cta.b64 [{EMPTY}], 1;
@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
ld.param.u32 %r2, [parts]; ld.param.u32 %r3, [k]; add.u32 %r3, %r3, 63; shr.u32 %r3, %r3, 6;
setp.eq.u32 %p5, %r0, 32;
@%p0 bra TAKES;
@!%p5 bra END;
{each_part(brings, "P")}TAKES:
{each_part(takes, "C")}END:
""",
        ".param .u32 parts, .param .u32 k",
    )


def test_no_more_parts_of_k_than_tiles_is_a_condition() -> None:
    found = only(parts())
    (said,) = found.conditions
    assert found.proven and str(said).startswith("parts is at most ceil(k / 64) (above: phase 1 gets 0 of 1 arrivals")


def test_each_part_may_need_several_tiles() -> None:
    found = only(parts(first=2))
    assert found.proven
    assert any(str(one).startswith("parts is at most ceil(k / 64) / 3 (above: phase") for one in found.conditions)


def test_where_something_is_wrong_the_last_launch_that_is_and_the_first_that_is_right_are_looked_for() -> None:
    """Two parts need four k-tiles each: seven are too few, eight are enough, and not all counts are tried."""
    module = parse(parts(first=3))
    (entry,) = module.kernels
    sweep = Sweep(compile_kernel(module, entry), {}, {})
    sweep_all(sweep)
    tried = {one["k"] // 64 for one in sweep.ran if one["parts"] == 2 and one["k"] % 64 == 0}
    wrong = {one.values["k"] // 64 for one in sweep.failing if one.values["parts"] == 2}
    assert {7, 8} <= tried and 5 not in tried
    assert 7 in wrong and 8 not in wrong


@pytest.mark.parametrize("fault", [
    "setp.eq.u32 %p6, %r4, 1;\n@%p6 sub.u32 %r6, %r6, 1;\n",  # of the second part one k-tile fewer
    "setp.eq.u32 %p6, %r6, 3;\n@%p6 sub.u32 %r6, %r6, 1;\n",  # of three k-tiles two
])  # fmt: skip
def test_what_hangs_in_other_launches_too_is_an_error(fault: str) -> None:
    found = only(parts(fault))
    assert not found.proven and not found.conditions and {one.kind for one in found.findings} == {"arrivals_missing"}


STEPS = {"tiles": 1, "m": 128, "k": 64}


def test_what_is_needed_is_the_least_that_holds() -> None:
    r = random.Random(1)
    for _ in range(300):
        tiled = r.choice(["", "m"])
        relation = Relation("tiles", tiled, r.randint(1, 5) if tiled else 1, "k", r.randint(1, 5), r.randint(1, 3))
        values = {"tiles": r.randrange(6), "m": r.randrange(9), "k": 0}
        least = next(k for k in range(199) if relation.holds({**values, "k": k}))
        rows = -(-values["m"] // relation.tile) if tiled else 1
        among = values["tiles"] // rows if rows else 0
        brute = next(k for k in range(199) if among * relation.share <= -(-k // relation.each))
        assert least == relation.needed(values) == brute


@pytest.mark.parametrize("hidden", [
    Relation("tiles", "", 1, "m", 128), Relation("tiles", "", 1, "k", 64), Relation("tiles", "m", 128, "k", 64),
    Relation("tiles", "m", 128, "k", 64, 3),
])  # fmt: skip
def test_a_relation_is_found_that_tells_right_launches_from_others(hidden: Relation) -> None:
    listed = [{"tiles": t, "m": m, "k": k} for t in range(6) for m in (0, 1, 128, 300) for k in (0, 1, 64, 65, 400)]
    wrong, right = ([one for one in listed if hidden.holds(one) is kept] for kept in (False, True))
    assert relation_of(STEPS, wrong, right) == hidden
    assert relation_of(STEPS, [*wrong, right[-1]], right[:-1]) is None  # one that keeps to it is wrong too
    assert relation_of(STEPS, wrong[:-1], [*right, wrong[-1]]) is None  # one that does not is right


def test_a_launch_of_nothing_may_break_a_relation() -> None:
    hidden = Relation("tiles", "m", 128, "k", 64, 2)
    listed = [{"tiles": t, "m": m, "k": k, "n": 1} for t in range(6) for m in (1, 300) for k in (1, 64, 200, 700)]
    wrong, right = ([one for one in listed if hidden.holds(one) is kept] for kept in (False, True))
    steps, broken = {**STEPS, "n": 1}, wrong[-1]
    assert relation_of(steps, wrong, [*right, {**broken, "n": 0}]) == hidden
    assert relation_of(steps, wrong[:-1], [*right, broken]) is None

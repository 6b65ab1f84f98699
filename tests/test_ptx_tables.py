"""The check of PTX on kernels that read tables of groups: sizes by lane, pointers by group, what it must not prove."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable

import pytest
from test_ptx_branches import BARRIERS, BYTES, kernel, only, wait

from legalsat.analyses.ptx.bounds import Bounds
from legalsat.analyses.ptx.instruction import Instruction
from legalsat.analyses.ptx.text import parse
from legalsat.analyses.ptx_machine.alu import FULL, arithmetic
from legalsat.analyses.ptx_machine.launches.records import RECORDS, of_record, place_in
from legalsat.analyses.ptx_machine.launches.roles import roles_of
from legalsat.extract.check.check_words import assumptions_of

TWO = ".param .u64 x, .param .u64 sizes, .param .u32 groups"
SHUFFLED = "shfl.sync.idx.b32 %r21|%p3, {}, %r4, 31, -1;\n"
FULL_WAIT = wait(f"%r1+{BARRIERS}", "%r9", "FULL")


def grouped(made: str = "%r20", waited: str = "%r20", wait_: str = FULL_WAIT, shuffled: str = SHUFFLED) -> str:
    """For each group, as many loads as its record says, each waited for; lanes read the records of 32 groups at once.

    `made`, `waited`: of which field's count a load is made, and waited for: the first (%r20) or the third (%r22).
    """
    unmade, unseen = ("@%p2 bra MADE;", "@%p5 bra SEEN;") if made != waited else ("", "")
    return kernel(
        f"""@%p0 mbarrier.init.shared::cta.b64 [%r1+{BARRIERS}], 1;
@%p0 fence.mbarrier_init.release.cluster;
bar.sync 0;
ld.param.u64 %d0, [x];
ld.param.u64 %d1, [sizes];
ld.param.u32 %r2, [groups];
and.b32 %r3, %r0, 31;
mov.u32 %r20, 0;
mov.u32 %r22, 0;
setp.ge.u32 %p1, %r3, %r2;
@%p1 bra READ;
mul.wide.u32 %d2, %r3, 12;
add.u64 %d3, %d1, %d2;
ld.global.u32 %r20, [%d3];
ld.global.u32 %r22, [%d3+8];
READ:
mov.u32 %r4, 0;
mov.u32 %r8, 0;
GROUP:
setp.ge.u32 %p1, %r4, %r2;
@%p1 bra END;
{shuffled.format(made)}mov.u32 %r24, %r21;
{shuffled.format(waited)}mov.u32 %r25, %r21;
mov.u32 %r5, 0;
TILE:
setp.ge.u32 %p2, %r5, %r24;
setp.ge.u32 %p5, %r5, %r25;
and.pred %p6, %p2, %p5;
@%p6 bra NEXT;
{unmade}
@!%p0 bra MADE;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+{BARRIERS}], {BYTES};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%d0], {BYTES}, [%r1+{BARRIERS}];
MADE:
{unseen}
and.b32 %r9, %r8, 1;
{wait_}ld.shared.u32 %r26, [%r1];
add.u32 %r8, %r8, 1;
SEEN:
bar.sync 0;
add.u32 %r5, %r5, 1;
bra TILE;
NEXT:
add.u32 %r4, %r4, 1;
bra GROUP;
END:
""",
        TWO,
    )


def test_counts_that_lanes_read_by_group_are_as_good_as_parameters() -> None:
    found = only(grouped())
    assert found.proven, (found.findings, found.unproven)
    assert {1, 2, 3} <= set(found.parameters[RECORDS]) and "[sizes]" in found.parameters
    told = assumptions_of(found)
    assert any("records of the tables are alike" in one for one in told)
    assert "the words at sizes stay as they are while the kernel runs" in told


@pytest.mark.parametrize("text", [
    grouped(wait_=""), grouped("%r20", "%r22"), grouped("%r22", "%r20"),
    grouped(shuffled="mov.u32 %r21, {};\n"),
    grouped().replace("mbarrier.init.shared", "prefetch.global.L2 [%d0]; //"),
])  # fmt: skip
def test_nothing_is_proven_where_data_part_who_loads_and_who_waits(text: str) -> None:
    """Waits left out; loads by one field and waits by another; lanes that go by what each has read; no barrier."""
    assert not only(text).proven


def test_what_each_lane_has_read_leads_no_lanes_apart() -> None:
    found = only(grouped(shuffled="mov.u32 %r21, {};\n"))
    assert any("lanes of a warp go different ways" in one.reason for one in found.unproven), found.unproven


def test_what_goes_wrong_by_a_table_is_left_open() -> None:
    """A launch may have no such table: records of which a field is said to be as large as another one."""
    found = only(grouped("%r20", "%r22"))
    assert not found.findings and any("in the tables at sizes" in one.reason for one in found.unproven)


def test_fields_of_records_are_told_apart_by_the_bytes_between_them() -> None:
    (one,) = parse(grouped()).kernels
    found = roles_of(one, Bounds())
    assert found.tables.records == {"sizes": 12}
    assert {name for names in found.names.values() for name in names} == {"[sizes]", "[sizes]+8"}
    assert len(found.tables.lanewise) == 0
    (apart,) = parse(grouped(shuffled="mov.u32 %r21, {};\n")).kernels
    assert len(roles_of(apart, Bounds()).tables.lanewise) == 2


def test_records_differ_as_a_run_says() -> None:
    def held(pattern: int, whole: bool = True) -> list[int]:
        return [of_record(5, n, 0, pattern, counted=False, whole=whole) for n in range(40)]

    assert set(held(0)) == {5} and held(1) == [5 * (n + 1) for n in range(40)]
    assert set(held(2)) == {0, 5} and set(held(3)) == {0, 5, 10}
    assert set(held(1, whole=False)) == {5} and set(held(3, whole=False)) == {0, 5}


@pytest.mark.parametrize(("name", "value", "found"), [
    ("brev.b32", 0b110, 0x60000000), ("bfind.u32", 0x00F0, 7), ("bfind.shiftamt.u32", 0x00F0, 24),
    ("bfind.u32", 0, FULL), ("mov.f32", 0x3F800000, 0x3F800000), ("bfind.s32", 1, None),
])  # fmt: skip
def test_bits_are_found_and_turned_round(name: str, value: int, found: int | None) -> None:
    work = arithmetic(tuple(name.split(".")), ("%r0", "%r1"))
    assert (None if work is None else work(value)) == found


OPERATIONS: dict[str, Callable[..., int]] = {
    "add.s64": operator.add,
    "sub.s64": operator.sub,
    "mul.lo.s64": operator.mul,
    "mad.lo.s64": lambda a, b, c: a * b + c,
    "shl.b64": operator.lshift,
    "mov.b64": operator.pos,
}


def definitions(*lines: tuple[str, ...]) -> dict[str, list[Instruction]]:
    """Return what writes each register, of an operation, the register and what it is worked out of."""
    found: dict[str, list[Instruction]] = {}
    for number, (name, result, *sources) in enumerate(lines):
        one = Instruction(name, (result, *sources), "", False, number + 1, tuple(name.split(".")))
        found.setdefault(result, []).append(one)
    return found


def test_a_register_that_is_added_to_itself_again_and_again_has_an_answer() -> None:
    """Each sum asks twice for the one before it, and a register of itself: each is worked out once."""
    sums = [("add.s64", f"%rd{i + 1}", f"%rd{i}", f"%rd{i}") for i in range(30)]
    assert place_in("%rd30", definitions(("ld.param.u64", "%rd0", "[k]"), *sums)) == (0, 0)
    itself = [("sub.s64", "%rd1", "%rd1", "%rd1")] * 3
    assert place_in("%rd1", definitions(("ld.param.u64", "%rd1", "[k]"), *itself))[0] == 1


@pytest.mark.parametrize("seed", range(40))
def test_registers_are_what_is_said_whatever_the_numbers_are(seed: int) -> None:
    """Random sums and products of thread numbers and pointers: a value less what is added is a multiple."""
    rng = random.Random(seed)
    lines = [("ld.param.u64", "%r0", "[k]"), ("other", "%r1")]
    for i in range(2, 14):
        one, two = (f"%r{rng.randrange(i)}" for _ in range(2))
        number = str(rng.choice((1, 2, 3, 8, 12, 16)))
        lines.append(
            rng.choice(
                [
                    ("add.s64", f"%r{i}", one, two),
                    ("sub.s64", f"%r{i}", one, number),
                    ("add.s64", f"%r{i}", number, one),
                    ("mul.lo.s64", f"%r{i}", one, number),
                    ("mad.lo.s64", f"%r{i}", one, number, two),
                    ("shl.b64", f"%r{i}", one, str(rng.randrange(6))),
                    ("mov.b64", f"%r{i}", one),
                ]
            )
        )
    known = definitions(*lines)
    for _ in range(20):
        values = {"%r0": 0, "%r1": rng.randrange(1, 1000)}  # a pointer counts from where it points to

        def value(source: str, of: dict[str, int] = values) -> int:
            return of[source] if source in of else int(source)

        for name, result, *sources in lines[2:]:
            first, *rest = map(value, sources)
            values[result] = OPERATIONS[name](first, *rest)
        for _, result, *_ in lines[2:]:
            stride, offset = place_in(result, known)
            off = values[result] - offset
            assert off % stride == 0 if stride else off == 0, (result, stride, offset)

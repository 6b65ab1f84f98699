"""Parts of the PTX machine against brute force: regions of memory, control dependence, periods, roles of parameters."""

from __future__ import annotations

import random
import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from legalsat.analyses.ptx.bounds import Bounds
from legalsat.analyses.ptx.contract import Order
from legalsat.analyses.ptx.instruction import Instruction
from legalsat.analyses.ptx.text import Kernel, parse
from legalsat.analyses.ptx_machine.alu import arithmetic
from legalsat.analyses.ptx_machine.flow import control_of, is_choice
from legalsat.analyses.ptx_machine.launches.roles import roles_of
from legalsat.analyses.ptx_machine.machine import PASS
from legalsat.analyses.ptx_machine.making.quick import quick
from legalsat.analyses.ptx_machine.periods import Period, Periods, period_of
from legalsat.analyses.ptx_machine.places import Places
from legalsat.analyses.ptx_machine.registers import join_idle, make_copy
from legalsat.analyses.ptx_machine.shadow import Regions, Shadow

CELLS = 40


@pytest.mark.parametrize("seed", range(4))
def test_copies_in_one_step_leave_what_they_leave_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"%r{n}" for n in range(8)]
    for _ in range(200):
        code: list[Any] = []
        for _ in range(rng.randrange(1, 9)):
            sources = [rng.choice([*names, "7"]) for _ in range(rng.randrange(1, 3))]
            to, source = rng.choice(names), sources[0] if len(sources) == 1 else f"{{{', '.join(sources)}}}"
            code.append(make_copy(Instruction("mov.b64", (to, source), "", False, 1, ("mov", "b64")), None))
        join_idle(code)
        pending = {name: rng.randrange(3) for name in names if rng.random() < 0.6}
        if not pending:
            continue
        apart, together = (SimpleNamespace(sums={}, fetches=dict(pending)) for _ in range(2))
        part = SimpleNamespace(pc=0)
        for one in code:
            one.operation(None, apart, part)
        signal = code[0](None, together, part)
        assert together.fetches == apart.fetches
        assert (signal, part.pc) == ((PASS, len(code) - 1) if len(code) > 1 else (None, 0))


@pytest.mark.parametrize("seed", range(4))
def test_regions_remember_what_single_cells_would(seed: int) -> None:
    rng = random.Random(seed)
    regions = Regions(CELLS)
    fixed = [np.array(sorted(rng.sample(range(CELLS), 5))) for _ in range(3)]
    for one in fixed:
        one.flags.writeable = False
    for _ in range(2):  # two runs share the regions
        shadow = Shadow(regions)
        writer = [0] * CELLS
        readers: list[dict[int, int]] = [{} for _ in range(CELLS)]
        for access in range(1, 120):
            begin = rng.randrange(CELLS)
            cells: Any = rng.choice([
                slice(begin, min(CELLS, begin + rng.randrange(1, 9))),
                np.array([rng.randrange(CELLS) for _ in range(rng.randrange(1, 7))]),
                rng.choice(fixed),
            ])  # fmt: skip
            chosen = list(range(CELLS))[cells] if isinstance(cells, slice) else cells.tolist()
            assert set(shadow.writers_of(shadow.of(cells))) == {writer[c] for c in chosen}
            latest: dict[int, int] = {}
            for c in chosen:
                for agent, number in readers[c].items():
                    latest[agent] = max(number, latest.get(agent, 0))
            assert sorted(shadow.readers_of(shadow.of(cells))) == sorted(latest.values())
            assert set(shadow.unwritten(cells).tolist()) == {c for c in chosen if not writer[c]}
            if rng.random() < 0.5:
                shadow.wrote(shadow.of(cells), access)
                for c in chosen:
                    writer[c], readers[c] = access, {}
            else:
                agent = rng.randrange(12)
                shadow.has_read(shadow.of(cells), agent, access)
                for c in chosen:
                    readers[c][agent] = access
        even = next((c for c in range(3, CELLS) if not writer[c] or writer[c] % 2), CELLS)
        assert shadow.length(3, CELLS, lambda number: number % 2 == 0) == even - 3


def _random_kernel(rng: random.Random) -> Kernel:
    size = rng.randrange(4, 10)
    lines = []
    for n in range(size):
        guard = rng.choice(["", "@%p0 ", "@!%p0 "])
        target = rng.randrange(size)
        what = rng.choice(["add.u32 %r1, %r1, 1;", f"{guard}bra L{target};", "add.u32 %r1, %r1, 2;", f"{guard}exit;"])
        lines.append(f"L{n}: {what}")
    text = ".version 8.7\n.target sm_90a\n.visible .entry k()\n.reqntid 32\n{\n" + "\n".join(lines) + "\nret;\n}\n"
    (kernel,) = parse(text).kernels
    return kernel


def _follow(kernel: Kernel, at: int) -> list[int]:
    i, size = kernel.instructions[at], len(kernel.instructions)
    targets = [kernel.labels[i.operands[0]]] if i.base == "bra" else [size] if i.base in {"ret", "exit"} else [at + 1]
    return targets + ([at + 1] if i.guard else [])


def _avoids(kernel: Kernel, start: int, what: int) -> bool:
    """Is there a way from one instruction to the end that does not come to another?"""
    size, seen, work = len(kernel.instructions), set(), [start]
    while work:
        at = work.pop()
        if at == what or at in seen:
            continue
        if at == size:
            return True
        seen.add(at)
        work += _follow(kernel, at)
    return False


def _ends(kernel: Kernel) -> bool:
    return all(_avoids(kernel, at, -1) for at in range(len(kernel.instructions)))


def test_control_dependence_is_what_ways_through_the_kernel_say() -> None:
    rng, done = random.Random(7), 0
    while done < 150:
        kernel = _random_kernel(rng)
        if not _ends(kernel):
            continue  # a loop without an end has no postdominators
        done += 1
        control, size = control_of(kernel, Bounds()), len(kernel.instructions)
        for at, i in enumerate(kernel.instructions):
            if not is_choice(i):
                continue
            taken, other = _follow(kernel, at)
            for what in range(size):
                # One way always comes to it, the other need not.
                surely = [not _avoids(kernel, way, what) for way in (taken, other)]
                assert (at in control.branches[what]) == (surely[0] != surely[1]), (at, what)
                if surely[0] != surely[1]:
                    assert (at in control.taken[what]) == surely[0]
            join = control.joins[at]
            if join < size:
                assert not _avoids(kernel, taken, join) and not _avoids(kernel, other, join)


@pytest.mark.parametrize(("period", "before"), [(1, 0), (2, 3), (5, 1), (6, 4), (12, 2), (16, 0)])
def test_periods_and_what_is_before_them_are_found(period: int, before: int) -> None:
    rng = random.Random(period)
    shape = [rng.randrange(1000) for _ in range(period)]
    start = [rng.randrange(5000, 9000) for _ in range(before)]
    for count in range(9, 100):
        rows = [
            [
                start[i] if i < before else shape[(i - before) % period] + 7 * ((i - before) // period),
                np.full(32, i, dtype=np.uint64),
                None,
            ]
            for i in range(count)
        ]
        found = period_of([(row, np.array([i, 3], dtype=np.int32), {}) for i, row in enumerate(rows)])
        enough = any(before <= first and 3 * period <= count - first for first in (count // 3, count // 5))
        assert (found is not None) >= enough
        if found is not None and enough:
            assert (found.rounds, found.before <= before) == (period, True) or period % found.rounds == 0


@pytest.mark.parametrize(("stages", "others"), [(13, 4), (12, 5), (7, 9)])
def test_rings_of_several_sizes_repeat_each_by_itself(stages: int, others: int) -> None:
    """One sum over both rings repeats too late to be seen three times; what each line touches does not."""
    rng = random.Random(stages)
    first, second = ([rng.randrange(2**32) for _ in range(count)] for count in (stages, others))
    both, apart, clock = list[Any](), list[Any](), np.zeros(2, dtype=np.int32)
    one = two = 0
    for i in range(3 * stages * others // 2):
        one, two = one + first[i % stages], two + second[i % others]
        both.append(((0,), clock, {7: one + two}))
        apart.append(((0,), clock, {7: one, -7: two}))
    assert period_of(both) is None
    assert period_of(apart) == Period(0, stages * others)


def test_accesses_of_a_line_to_shared_and_tensor_memory_are_traced_apart() -> None:
    order = Order(1, 1024, 16)
    order.traced, worker, tensor = True, order.workers[0], Shadow(Regions(64))
    order.read(order.shared, slice(0, 4), worker, worker.index, 1, "tcgen05", 7)
    order.write(tensor, slice(0, 4), worker, worker.index, 1, "tcgen05", 7)
    assert sorted(worker.trail) == [-7, 7]
    before = dict(worker.trail)
    order.read(order.shared, slice(4, 8), worker, worker.index, 1, "tcgen05", 7)
    assert worker.trail[7] != before[7] and worker.trail[-7] == before[-7]


def test_who_goes_through_many_rounds_in_a_turn_is_no_sign_that_all_repeat() -> None:
    """A warp that waits for nobody comes to its loop often before another one has come to its own."""
    clock = np.zeros(3, dtype=np.int32)
    periods = Periods()
    periods.next_turn()
    assert not any(periods.visit(4, 1, 3, ([0], clock, {})) for _ in range(60))
    repeats = False
    for turn in range(60):  # the other CTA's loop has a period of 4 rounds, one in each turn
        periods.next_turn()
        repeats = periods.visit(4, 0, 0, ([turn % 4], clock, {}))
        if repeats:
            break
        periods.visit(4, 1, 3, ([0], clock, {}))
    assert repeats and turn >= 11 and periods.found == {4: Period(0, 4)}


def test_places_are_what_lanes_reach() -> None:
    rng = random.Random(3)
    for size, granule in ((4, 4), (16, 4), (2, 1), (8, 8)):
        places = Places(granule, 64, 5)
        for _ in range(20):
            lanes = rng.getrandbits(32) | 1
            value = np.array([1024 + 16 * rng.randrange(50) for _ in range(32)], dtype=np.uint64)
            chosen = [int(value[n]) + 64 for n in range(32) if lanes >> n & 1]
            for _ in range(2):
                found = places.at(value, lanes, size)
                cells = {(a + b) // granule for a in chosen for b in range(size)}
                listed = range(found.cells.start, found.cells.stop) if isinstance(found.cells, slice) else found.cells
                assert {int(c) for c in listed} == cells
                assert (found.low, found.high) == (min(chosen), max(chosen) + size)
                assert found.aligned == all(a % size == 0 for a in chosen)
                reached = np.zeros(4096, dtype=bool)
                reached[found.bytes] = True
                assert set(np.flatnonzero(reached).tolist()) == {a + b for a in chosen for b in range(size)}


ROLES = """.version 8.7
.target sm_90a
.extern .shared .align 1024 .b8 memory[];
.visible .entry k(.param .u64 x, .param .u64 count, .param .u64 .ptr .global .align 1 y, .param .u64 rest,
 .param .u32 place, .param .u32 words, .param .u32 rows)
.reqntid 32
{
ld.param.u64 %d0, [x];
cvta.to.global.u64 %d1, %d0;
ld.param.u64 %d2, [count];
shl.b64 %d3, %d2, 2;
add.u64 %d4, %d1, %d3;
ld.global.u32 %r0, [%d4];
ld.param.u64 %d5, [y];
ld.param.u64 %d6, [rest];
add.u64 %d7, %d5, %d6;
st.global.u32 [%d7], %r0;
ld.param.u32 %r1, [place];
mov.u32 %r2, memory;
add.u32 %r3, %r2, %r1;
mbarrier.init.shared::cta.b64 [%r3], 1;
ld.param.u32 %r4, [words];
shl.b32 %r5, %r4, 2;
ld.param.u32 %r6, [rows];
mul.lo.u32 %r7, %r6, 128;
add.u32 %r8, %r7, %r2;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%d1], %r5, [%r3];
ret;
}
"""


def test_parameters_are_pointers_counts_or_multiples_by_their_use() -> None:
    (kernel,) = parse(ROLES).kernels
    found = roles_of(kernel, Bounds())
    # What is added to a known pointer is an offset, what is scaled first a count.
    assert found.pointers == {"x", "y"}
    # A barrier lies at a multiple of 8; four words are the 16 bytes of which bulk copies are multiples.
    assert found.multiples == {"place": 8, "words": 4}


def test_bytes_are_chosen_by_number() -> None:
    """Against the eight bytes of both words as they lie in memory; bit 3 of a choice repeats the byte's sign."""
    work = arithmetic(("prmt", "b32"), ("%r1", "%r2", "%r3", "8452"))
    a, b = 0x80F17263, 0x94A5B6C7
    lie = a.to_bytes(4, "little") + b.to_bytes(4, "little")
    assert work is not None and arithmetic(("prmt", "b32", "f4e"), ("%r1", "%r2", "%r3", "1")) is None
    for chosen in (8452, 0x3210, 0x7654, 0x0123, 0x8888, 0xBF3C, 0x5140):
        picks = [lie[chosen >> 4 * i & 7] for i in range(4)]
        signs = [0xFF * (pick >> 7) if chosen >> 4 * i & 8 else pick for i, pick in enumerate(picks)]
        expected = int.from_bytes(bytes(signs), "little")
        assert work(a, b, chosen) == expected
        lanes = work(np.array([a, b], np.uint64), b, chosen)  # one number where all are of the second word
        assert int(lanes[0] if isinstance(lanes, np.ndarray) else lanes or 0) == expected


@pytest.mark.parametrize("by", [0, 1, 8, 31, 32, 40])
@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_two_words_are_shifted_as_one(mode: str, by: int) -> None:
    low, high = 0x89ABCDEF, 0x01234567
    count, both = by % 32 if mode == "wrap" else min(by, 32), high << 32 | low
    operands = ("%r1", "%r2", "%r3", "%r4")
    left, right = (arithmetic(("shf", way, mode, "b32"), operands) for way in ("l", "r"))
    assert left is not None and right is not None
    assert left(low, high, by) == both << count >> 32 & 0xFFFFFFFF
    assert right(low, high, by) == both >> count & 0xFFFFFFFF


def test_bits_are_inserted_in_each_lane() -> None:
    drawn = random.Random(3)
    lanes = np.array([drawn.getrandbits(32) for _ in range(32)], dtype=np.uint64)
    work = arithmetic(("bfi", "b32"), ("%r1", "%r2", "%r3", "4", "28"))
    assert work is not None
    for at, count in [(0, 0), (0, 32), (4, 28), (31, 1), (31, 9), (16, 3), (40, 4), (5, 0)]:
        taken = [at + bit for bit in range(count) if at + bit < 32]
        listed: list[tuple[Any, Any]] = [(lanes, lanes[::-1].copy()), (int(lanes[0]), lanes), (lanes, 7), (5, 77)]
        for a, b in listed:
            found = work(a, b, at, count)
            for lane in range(32):
                x, y = (int(v[lane]) if isinstance(v, np.ndarray) else v for v in (a, b))
                expected = sum((x >> (bit - at) & 1) << bit if bit in taken else y & 1 << bit for bit in range(32))
                assert (int(found[lane]) if isinstance(found, np.ndarray) else found) == expected


@pytest.mark.parametrize(
    ("type_", "bits", "value"), [("f16", 0x3C00, 1.0), ("f16", 1, 2.0**-24), ("bf16", 0x3F80, 1.0)]
)
def test_halves_are_widened_as_their_formats_say(type_: str, bits: int, value: float) -> None:
    """IEEE 754 binary16, whose least number is 2**-24, and the upper half of binary32."""
    widen = arithmetic(("cvt", "f32", type_), ("%f1", "%rs1"))
    assert widen is not None and widen(None) is None
    (expected,) = struct.unpack("<I", struct.pack("<f", value))
    assert widen(bits) == expected
    lanes = widen(np.full(32, bits, dtype=np.uint64))
    assert isinstance(lanes, np.ndarray) and (lanes == expected).all()


def test_products_of_factors_are_those_of_floats() -> None:
    product = arithmetic(("mul", "f32"), ("%f1", "%f2", "%f3"))
    two, half, huge, minus = (struct.unpack("<I", struct.pack("<f", value))[0] for value in (2.0, 0.5, 3e38, -0.0))
    assert product is not None and product(two, None) is None
    assert product(two, half) == 0x3F800000 and product(two, minus) == minus and product(two, huge) == 0x7F800000
    lanes = product(np.full(32, two, dtype=np.uint64), half)
    assert isinstance(lanes, np.ndarray) and (lanes == 0x3F800000).all()
    assert arithmetic(("mul", "ftz", "f32"), ("%f1", "%f2", "%f3")) is None


@pytest.mark.parametrize("name", [
    *(f"{base}.{kind}{bits}" for base in ("add", "sub", "min", "max", "mul.lo", "mad.lo", "shl", "shr")
      for kind in "su" for bits in (16, 32, 64)),
    *(f"{base}.wide.{kind}{bits}" for base in ("mul", "mad") for kind in "su" for bits in (16, 32)),
    *(f"{base}.b{bits}" for base in ("and", "or", "xor") for bits in (16, 32, 64)),
    *(f"cvt.{to}.{kind}{bits}" for to in ("u16", "s32", "u32", "s64") for kind in "su" for bits in (8, 16, 32, 64)),
])  # fmt: skip
def test_what_all_lanes_agree_on_is_computed_as_in_each_lane(name: str) -> None:
    """The quick way of numbers gives what the other one does, for numbers and for lanes."""
    parts = tuple(name.split("."))
    short, work = quick(parts), arithmetic(parts, ())
    count = 1 if parts[0] == "cvt" else 3 if parts[0] == "mad" else 2
    bits = int(parts[-1][1:])
    assert work is not None and short is not None
    r = random.Random(name)
    for _ in range(60):
        edges = [0, 1, (1 << bits - 1) - 1, 1 << bits - 1, (1 << bits) - 1, r.getrandbits(bits)]
        values = [r.choice(edges) for _ in range(count)]
        if parts[0] in {"shl", "shr"}:
            values[1] = r.randrange(2 * bits)
        lanes = np.asarray(work(*(np.full(32, one, dtype=np.uint64) for one in values)))
        assert short(*values) == work(*values) == int(lanes.astype(np.uint64)[0]), values

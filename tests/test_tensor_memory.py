"""Tensor memory: layouts against their definition, programs against the rules, placement against all orders."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legalsat.errors import InvalidInput
from legalsat.extract.fields import Conflict
from legalsat.extract.recorded import open_number
from legalsat.extract.requirements import Wanted
from legalsat.extract.tensor_memory import (
    Instruction,
    Placement,
    Want,
    accumulator_columns,
    choose_instruction,
    place,
    tensor_memory_violations,
    wants_of,
)
from legalsat.rules import TENSOR_MEMORY_RULES
from legalsat.targets import target
from legalsat.tcgen05 import InstructionDescriptor, Scales
from legalsat.tcgen05_sites import TensorMemoryAllocation, TensorMemoryPair, TensorMemoryUse
from legalsat.tensor_memory import (
    Allocate,
    Commit,
    CopyIn,
    Event,
    Exit,
    Free,
    Meet,
    Multiply,
    Program,
    Region,
    Relinquish,
    Transfer,
)
from legalsat.tensor_memory_layouts import (
    LANE,
    PEER,
    TRANSFERS,
    columns_of_sums,
    operand_columns,
    repetitions,
    scale_columns,
    scale_layout,
    scale_memory_layout,
    sums_layout,
    transfer_layout,
)

B200 = target("b200")
SCALES = Scales("e8m0", 32)
SIZES = (32, 64, 128, 256, 512)

# Where D[m][n] is, in words: by rows, CTAs, .ws, sparse -> (CTA, lane, column). FACTS TC-27.
WHERE: dict[tuple[int, int, bool, bool], Callable[[int, int, int], tuple[int, int, int]]] = {
    (256, 2, False, False): lambda m, n, w: (m // 128, m % 128, n),
    (128, 2, False, False): lambda m, n, w: (m // 64, m % 64 + 64 * (n >= w // 2), n % (w // 2)),
    (128, 2, False, True): lambda m, n, w: (m // 64, m % 16 + 32 * (m % 64 // 16), n),
    (128, 1, False, False): lambda m, n, w: (0, m, n),
    (64, 1, False, False): lambda m, n, w: (0, m % 16 + 32 * (m // 16), n),
    (128, 1, True, False): lambda m, n, w: (0, m, n),
    (64, 1, True, False): lambda m, n, w: (0, m + 64 * (n >= w // 2), n % (w // 2)),
    (32, 1, True, False): lambda m, n, w: (0, m + 32 * (n // (w // 4)), n % (w // 4)),
}


@pytest.mark.parametrize("path", WHERE, ids=str)
@pytest.mark.parametrize("n", [64, 24])
def test_sums_lie_where_the_datapath_puts_them(path: tuple[int, int, bool, bool], n: int) -> None:
    m, cta_group, ws, sparse = path
    layout = sums_layout(m, n, cta_group, ws=ws, sparse=sparse)
    for row, column in product(range(m), range(n)):
        cta, lane, at = WHERE[path](row, column, n)
        assert layout(row, column) == cta * PEER + lane * LANE + at
    assert len(set(layout.offsets().tolist())) == m * n
    assert columns_of_sums(m, n, cta_group, ws=ws, sparse=sparse) == 1 + int((layout.offsets() % LANE).max())


def test_there_is_no_datapath_for_other_rows() -> None:
    for m, cta_group, ws in ((32, 1, False), (64, 2, False), (256, 1, False), (128, 2, True)):
        with pytest.raises(InvalidInput, match="give 32, 64, 128 or 256"):
            sums_layout(m, 64, cta_group, ws=ws)
    with pytest.raises(InvalidInput, match="multiple of 4"):
        sums_layout(32, 66, 1, ws=True)


# (lane, column) of thread t's register r: FACTS TC-26.
MOVED: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "32x32b": lambda t, r: (t, r),
    "16x64b": lambda t, r: (8 * (t % 2) + t // 4, (t // 2) % 2 + 2 * r),
    "16x128b": lambda t, r: (t // 4 + 8 * (r % 2), t % 4 + 4 * (r // 2)),
    "16x256b": lambda t, r: (t // 4 + 8 * ((r // 2) % 2), 2 * (t % 4) + r % 2 + 8 * (r // 4)),
    "16x32bx2": lambda t, r: (t % 16, r + 200 * (t // 16)),
}


@pytest.mark.parametrize("shape", TRANSFERS)
def test_registers_move_the_words_of_their_shape(shape: str) -> None:
    known = TRANSFERS[shape]
    for num in repetitions(shape)[:: 1 if shape == "32x32b" else 2]:
        layout = transfer_layout(shape, num, 200 if shape == "16x32bx2" else 0)
        registers = known.registers * num
        assert layout.size == 32 * registers
        for t, r in product(range(32), range(registers)):
            lane, column = MOVED[shape](t, r)
            assert layout(t, r) == lane * LANE + column
        offsets = layout.offsets()
        assert len(np.unique(offsets)) == 32 * registers
        # Together they are all lanes of the shape by all its columns; of 16x32bx2 twice.
        if shape != "16x32bx2":
            assert np.all(np.unique(offsets // LANE) == np.arange(known.lanes))
            assert np.all(np.unique(offsets % LANE) == np.arange(known.columns * num))


def test_shapes_and_repetitions_that_do_not_exist_are_refused() -> None:
    for shape, num in (("16x256b", 64), ("16x128b", 128), ("32x32b", 3), ("32x32b", 256), ("64x32b", 1)):
        with pytest.raises(InvalidInput):
            transfer_layout(shape, num)
    assert repetitions("64x32b") == ()


@pytest.mark.parametrize(("rows", "factors"), [(128, 4), (256, 8), (100, 3), (384, 5)])
def test_scale_factors_lie_in_atoms_of_512_bytes(rows: int, factors: int) -> None:
    """FACTS TC-30."""
    blocks, groups = -(-rows // 128), -(-factors // 4)
    for along_k in (False, True):
        layout = scale_layout(rows, factors, along_k=along_k)
        assert layout.size == len(set(layout.offsets().tolist())) == layout.cosize == 512 * blocks * groups
        for m, s in product(range(rows), range(factors)):
            block, group = m // 128, s // 4
            atom = block * groups + group if along_k else group * blocks + block
            assert layout(m, s) == 512 * atom + (m % 32) * 16 + (m // 32 % 4) * 4 + s % 4


@pytest.mark.parametrize(("rows", "factors"), [(128, 4), (256, 8), (192, 5), (64, 16)])
def test_copies_bring_scale_factors_where_the_multiply_reads_them(rows: int, factors: int) -> None:
    """Run a tcgen05.cp.32x128b.warpx4 for each atom: 32 lanes of 16 bytes, the same in all four partitions."""
    shared, there = scale_layout(rows, factors), scale_memory_layout(rows, factors)
    columns = scale_columns(rows, factors)
    data = np.arange(shared.size)
    memory = np.full((128, 4 * columns), -1)
    for atom in range(shared.size // 512):
        brought = data[512 * atom : 512 * atom + 512].reshape(32, 16)
        for partition in range(4):
            memory[32 * partition : 32 * partition + 32, 16 * atom : 16 * atom + 16] = brought
    assert (memory >= 0).all()
    for m, s, copy in product(range(rows), range(factors), range(4)):
        lane, byte = divmod(there(m, s, copy), 4 * LANE)
        assert memory[lane, byte] == data[shared(m, s)]
        assert lane // 32 == copy
    # An instruction of 256 rows finds all of them 32 rows a column from one address on.
    assert [there(m, 0, 0) // 4 for m in range(0, rows, 32)] == list(range(-(-rows // 32)))


def test_operand_a_is_packed() -> None:
    assert [operand_columns(64, bits) for bits in (4, 8, 16, 32)] == [8, 16, 32, 64]
    assert operand_columns(32, 16, sparse=True) == 8


# Programs.

BF16 = InstructionDescriptor("f16", "bf16", "bf16", 128, 128)
SMALL = InstructionDescriptor("f16", "bf16", "bf16", 64, 128)
PAIRED = InstructionDescriptor("f16", "bf16", "bf16", 256, 128)
SCALED = InstructionDescriptor("mxf8f6f4", "e4m3", "e4m3", 128, 256)
SUMS = Region("t", 0, 128)
A_SCALES, B_SCALES = Region("t", 256, 4), Region("t", 260, 8)


def loads(**fields: Any) -> list[Event]:
    """Return the four warps' loads of 128 lanes by 128 columns."""
    legal = {"instruction": "ld", "allocation": "t", "shape": "32x32b", "num": 128, "column": 0}
    return [Transfer(warp=w, lane=32 * w, **{**legal, **fields}) for w in range(4)]


PLAIN: list[Event] = [
    Allocate("t", 256),
    Relinquish(),
    Multiply(BF16, SUMS),
    Multiply(BF16, SUMS),
    Commit(),
    *loads(),
    Free("t"),
    Exit(),
]
WITH_SCALES: list[Event] = [
    Allocate("t", 512),
    CopyIn("32x128b", "warpx4", "t", 256),
    CopyIn("32x128b", "warpx4", "t", 260),
    CopyIn("32x128b", "warpx4", "t", 264),
    Multiply(SCALED, Region("t", 0, 256), None, A_SCALES, B_SCALES, SCALES),
    *loads(),
    Free("t"),
    Exit(),
]
TOGETHER: list[Event] = [
    Allocate("t", 128, 2, 0),
    Allocate("t", 128, 2, 1),
    Relinquish(2, 0),
    Relinquish(2, 1),
    Multiply(PAIRED, SUMS, cta_group=2),
    Commit(2),
    *(replace(event, cta=cta) for cta in (0, 1) for event in loads()),
    Meet(),
    Free("t", None, 2, 0),
    Free("t", None, 2, 1),
    Exit(0),
    Exit(1),
]


def violated(events: Iterable[Event], cluster: int = 1) -> set[str]:
    """Return the codes of the rules that a program breaks."""
    return {d.code for d in tensor_memory_violations(Program(tuple(events), cluster), B200)}


def without(events: list[Event], *kinds: type) -> list[Event]:
    """Return a program without the events of these kinds."""
    return [event for event in events if not isinstance(event, kinds)]


def swapped(events: list[Event], kind: type, **fields: Any) -> list[Event]:
    """Return a program with fields of the events of one kind changed."""
    return [replace(event, **fields) if isinstance(event, kind) else event for event in events]


def test_legal_programs_break_no_rule() -> None:
    assert violated(PLAIN) == violated(WITH_SCALES) == violated(TOGETHER, 2) == set()


@pytest.mark.parametrize(
    ("code", "events"),
    [
        ("TMEM001", swapped(PLAIN, Allocate, columns=200)),
        ("TMEM002", [Allocate("s", 512), *PLAIN[:-1], Free("s"), Exit()]),
        ("TMEM003", [Allocate("s", 32), *PLAIN[:-1], Free("s"), Exit()]),
        ("TMEM004", [*PLAIN[:2], Allocate("s", 32), *PLAIN[2:-1], Free("s"), Exit()]),
        ("TMEM005", [*PLAIN[:-1], Free("t"), Exit()]),
        ("TMEM005", [*PLAIN[:-1], Free("s"), Exit()]),
        ("TMEM005", swapped(PLAIN, Free, columns=128)),
        ("TMEM006", without(PLAIN, Free)),
        ("TMEM006", without(PLAIN, Free, Exit)),
        ("TMEM007", without(PLAIN, Allocate, Free)),
        ("TMEM007", [*PLAIN[:-1], *loads(), Exit()]),
        ("TMEM008", [*PLAIN[:-2], *loads(column=192), *PLAIN[-2:]]),
        ("TMEM009", [PLAIN[0], Multiply(BF16, SUMS), Multiply(BF16, Region("t", 64, 128)), *PLAIN[5:]]),
        ("TMEM009", [PLAIN[0], Multiply(BF16, SUMS, Region("t", 96, 8)), *PLAIN[5:]]),
        ("TMEM009", [*WITH_SCALES[:5], CopyIn("32x128b", "warpx4", "t", 252), *WITH_SCALES[5:]]),
        ("TMEM009", [*PLAIN[:4], *loads(instruction="st", num=32, column=32), *PLAIN[4:]]),
        ("TMEM010", swapped(PLAIN, Transfer, lane=0)),
        ("TMEM011", swapped(PLAIN, Transfer, same_address=False)),
        ("TMEM012", [*PLAIN[:-2], Transfer("ld", "t", "16x256b", 64, 0, 0, 0), *PLAIN[-2:]]),
        ("TMEM013", swapped(PLAIN, Transfer, registers=64)),
        ("TMEM014", swapped(PLAIN, Allocate, converged=False)),
        ("TMEM014", swapped(PLAIN, Transfer, converged=False)),
        ("TMEM014", swapped(PLAIN, Relinquish, converged=False)),
        ("TCGEN017", swapped(PLAIN, Multiply, threads=32)),
        ("TCGEN003", swapped(PLAIN, Multiply, instruction=PAIRED)),
        ("TCGEN009", swapped(PLAIN, Multiply, instruction=replace(BF16, a_major="MN"), a=Region("t", 128, 8))),
        ("TMEM020", swapped(PLAIN, Multiply, instruction=SMALL, d=Region("t", 0, 128, 32))),
        ("TMEM020", swapped(PLAIN, Multiply, instruction=SMALL, a=Region("t", 128, 8, 16))),
        ("TMEM021", swapped(PLAIN, Multiply, d=Region("t", 0, 64))),
        ("TMEM021", swapped(PLAIN, Multiply, a=Region("t", 128, 4))),
        ("TMEM022", without(WITH_SCALES, CopyIn)),
        ("TMEM022", [*WITH_SCALES[:3], *WITH_SCALES[4:]]),
        ("TMEM023", swapped(WITH_SCALES, Multiply, b_scales=Region("t", 260, 4))),
        ("TMEM024", swapped(WITH_SCALES, CopyIn, multicast="")),
        ("TCGEN010", swapped(WITH_SCALES, Multiply, scales=None)),
    ],
)
def test_misuse_in_a_program_is_found(code: str, events: list[Event]) -> None:
    assert code in violated(events)


@pytest.mark.parametrize(
    ("code", "events", "cluster"),
    [
        ("TMEM015", [*TOGETHER[:5], Commit(1), *TOGETHER[6:]], 2),
        ("TMEM016", TOGETHER, 1),
        ("TMEM017", [*TOGETHER[:9], Free("t", None, 2, 1), Exit(1), Free("t", None, 2, 0), Exit(0)], 2),
        ("TMEM018", without(TOGETHER, Meet), 2),
        ("TMEM019", [event for event in TOGETHER if not (isinstance(event, Allocate) and event.cta == 1)], 2),
        ("TMEM007", [event for event in TOGETHER if not (isinstance(event, Allocate) and event.cta == 1)], 2),
    ],
)
def test_misuse_of_a_pair_is_found(code: str, events: list[Event], cluster: int) -> None:
    assert code in violated(events, cluster)


def test_misuses_are_told_apart() -> None:
    """A program that breaks one rule breaks no other."""
    assert violated(without(PLAIN, Free)) == {"TMEM006"}
    assert violated(swapped(PLAIN, Transfer, lane=0)) == {"TMEM010"}
    assert violated(without(WITH_SCALES, CopyIn)) == {"TMEM022"}
    assert violated(without(TOGETHER, Meet), 2) == {"TMEM018"}
    assert violated([*PLAIN[:4], Free("t"), *loads(), Exit()]) == {"TMEM007"}


def test_sums_of_half_the_lanes_lie_between_each_other() -> None:
    two = [Multiply(SMALL, Region("t", 0, 128, lane)) for lane in (0, 16)]
    assert violated([Allocate("t", 128), *two, Free("t"), Exit()]) == set()


def test_columns_are_used_again_once_they_are_loaded() -> None:
    other = Multiply(BF16, Region("t", 64, 128))
    assert violated([*PLAIN[:-2], other, *loads(column=64), *PLAIN[-2:]]) == set()


def test_scale_factors_that_four_warps_store_are_everywhere() -> None:
    stores = loads(instruction="st", num=4, column=256)
    b_stores = loads(instruction="st", num=8, column=260)
    program = [WITH_SCALES[0], *stores, *b_stores, *WITH_SCALES[4:]]
    assert violated(program) == set()
    assert violated([event for event in program if event not in (stores[3], b_stores[2])]) == {"TMEM022"}


def test_programs_without_meaning_are_refused() -> None:
    with pytest.raises(InvalidInput, match="its own name"):
        violated([Allocate("t", 64), Allocate("t", 64)])
    with pytest.raises(InvalidInput, match="give 0 or 1"):
        violated([Allocate("t", 64, cta=2)])
    with pytest.raises(InvalidInput, match="no tensor memory"):
        tensor_memory_violations(Program(()), target("h200"))


# Placement.


def least_end(things: list[tuple[int, int]]) -> int:
    """Return the least column behind all things (columns, alignment) of all orders, each at its first aligned one."""
    best = 10**9
    for order in set(permutations(things)):
        at = 0
        for count, alignment in order:
            at = -(-at // alignment) * alignment + count
        best = min(best, at)
    return best


def check(wants: list[Want], found: Placement) -> None:
    """Check that columns are there for every want, aligned, apart and inside."""
    columns = iter(found.columns)
    taken: set[int] = set()
    for want in wants:
        for _ in range(want.copies):
            one = next(columns)
            assert one.name.startswith(want.name) and one.count == want.count
            assert one.first % want.alignment == 0
            mine = set(range(one.first, one.first + one.count))
            assert not taken & mine
            taken |= mine
    assert next(columns, None) is None
    assert max(taken) < found.allocated and found.allocated in SIZES


COUNTS = st.tuples(
    st.sampled_from((1, 3, 4, 8, 20, 32, 60, 64, 100, 128, 160)), st.sampled_from((1, 4, 8, 32, 48, 128))
)


@given(st.lists(COUNTS, min_size=1, max_size=5))
@settings(max_examples=100)
def test_everything_is_placed_in_the_smallest_allocation(things: list[tuple[int, int]]) -> None:
    wants = [Want(f"thing {chr(97 + i)}", count, alignment) for i, (count, alignment) in enumerate(things)]
    found, end = place(wants, B200), least_end(things)
    if end > 512:
        assert isinstance(found, Conflict)
        assert {d.code for d in found.diagnostics} == {"TMEM002"}
    else:
        assert isinstance(found, Placement)
        check(wants, found)
        assert found.allocated == min(size for size in SIZES if size >= end)


@pytest.mark.parametrize(
    "things",
    [[(60, 1), (4, 128)], [(100, 128), (28, 4), (4, 4)], [(200, 128), (200, 128), (60, 4)], [(400, 1), (120, 1)]],
)
def test_the_solver_places_as_much_under_the_same_rules(things: list[tuple[int, int]]) -> None:
    """The rules themselves, on open numbers, decide what fits; of three things in steps of 4 columns."""
    allocated = open_number("allocated")
    firsts = [open_number(f"first {i}") for i in range(len(things))]
    uses = [TensorMemoryUse(f"{i}", firsts[i], things[i][0], allocated) for i in range(len(things))]
    pairs = [
        TensorMemoryPair(f"{i}", f"{j}", firsts[i], things[i][0], firsts[j], things[j][0])
        for j in range(len(things))
        for i in range(j)
    ]
    wanted = Wanted(B200)
    for site in (TensorMemoryAllocation(allocated), *uses, *pairs):
        wanted.judge([rule for rule in TENSOR_MEMORY_RULES if rule.site == type(site).__name__], site)
    choices = {"allocated": (*SIZES, 1024)} | {
        f"first {i}": tuple(range(0, 1024, max(alignment, 4))) for i, (_, alignment) in enumerate(things)
    }
    found = wanted.optimum(choices, allocated, None)
    ours = place([Want(f"{i}", *thing) for i, thing in enumerate(things)], B200)
    if isinstance(ours, Placement):
        assert found is not None and found["allocated"] == ours.allocated
    else:
        assert found is None
        assert wanted.codes(choices, None) >= {"TMEM009"}


def test_a_pipeline_of_block_scaled_tiles_is_placed() -> None:
    tile = (128, 192, 256)
    chosen = choose_instruction(("e2m1", "e2m1", "fp32"), tile, B200, scales=Scales("e4m3", 16))
    assert isinstance(chosen, Instruction) and chosen.kind == "mxf4nvf4"
    wants = wants_of(chosen, tile, accumulators=2, scales=Scales("e4m3", 16), scale_stages=2)
    # 128 rows of 16 factors are 4 atoms of 4 columns; 192 columns of B are padded to 256.
    assert [(w.count, w.copies) for w in wants] == [(192, 2), (16, 2), (32, 2)]
    found = place(list(wants), B200)
    assert isinstance(found, Placement) and found.allocated == 512
    check(list(wants), found)
    assert found.columns[0].first == 0
    refused = place(wants_of(chosen, tile, accumulators=2, scales=Scales("e4m3", 16), scale_stages=3), B200)
    assert isinstance(refused, Conflict)
    assert [d.code for d in refused.diagnostics] == ["TMEM002"]
    assert "528 columns" in refused.diagnostics[0].message


def test_a_in_tensor_memory_takes_columns_too() -> None:
    tile = (128, 128, 64)
    chosen = choose_instruction(("bf16", "bf16", "fp32"), tile, B200, a_in_tensor_memory=True)
    assert isinstance(chosen, Instruction)
    assert [w.count for w in wants_of(chosen, tile, a_stages=2)] == [128, 32]


@pytest.mark.parametrize(
    ("wants", "said"),
    [
        ([Want("a", 0)], "at least 1"),
        ([Want("a", 1, 0)], "at least 1"),
        ([Want("a", 1, copies=0)], "at least 1"),
        ([Want("a", 1), Want("a", 2)], "share a name"),
        ([Want(f"{i}", i + 1) for i in range(20)], "place fewer"),
    ],
)
def test_wants_without_meaning_are_refused(wants: list[Want], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        place(wants, B200)


def test_nothing_takes_the_least_allocation() -> None:
    assert place([], B200) == Placement((), 32)


@pytest.mark.parametrize(
    ("m", "n", "cta_group", "columns"),
    [
        (128, 256, 1, 256),
        (64, 256, 1, 256),
        (256, 128, 1, 256),
        (192, 64, 1, 192),
        (256, 256, 2, 256),
        (128, 256, 2, 128),
    ],
)
def test_columns_of_accumulators(m: int, n: int, cta_group: int, columns: int) -> None:
    for types in (("bf16", "bf16", "fp32"), ("fp16", "fp16", "fp16")):
        assert accumulator_columns(m, n, types, 1, cta_group) == columns
        assert accumulator_columns(m, n, types, 2, cta_group) == 2 * columns
        chosen = choose_instruction(types, (m, n, 64), B200, cta_group=cta_group)
        assert isinstance(chosen, Instruction)
        assert wants_of(chosen, (m, n, 64), cta_group=cta_group)[0].count == columns


def test_rows_that_no_instruction_divides_have_no_columns() -> None:
    with pytest.raises(InvalidInput, match="multiple of 64"):
        accumulator_columns(96, 64, ("bf16", "bf16", "fp32"))
    with pytest.raises(InvalidInput, match="multiple of 128"):
        accumulator_columns(64, 64, ("e4m3", "e4m3", "fp32"), scales=SCALES)
    with pytest.raises(InvalidInput, match="give 1 or 2"):
        accumulator_columns(64, 64, ("bf16", "bf16", "fp32"), cta_group=4)

"""Tensor memory: layouts against their definition, programs against the rules, placement against all orders."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from legalsat.errors import InvalidInput
from legalsat.extract.kernels.tensor_memory import (
    tensor_memory_violations,
)
from legalsat.targets import target
from legalsat.units.tcgen05 import InstructionDescriptor, Scales
from legalsat.units.tensor_memory import (
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
from legalsat.units.tensor_memory_layouts import (
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


def test_layouts_without_meaning_are_refused() -> None:
    for call in (
        lambda: sums_layout(128.0, 64, 1),  # type: ignore[arg-type]
        lambda: sums_layout([128], 64, 1),  # type: ignore[arg-type]
        lambda: sums_layout(128, 0, 1),
        lambda: sums_layout(128, 64, 3),
        lambda: sums_layout(128, 64, True),
        lambda: sums_layout(128, 64, 1, ws=1),  # type: ignore[arg-type]
        lambda: sums_layout(128, 64, 2, sparse="yes"),  # type: ignore[arg-type]
        lambda: columns_of_sums(128, -1, 1),
        lambda: operand_columns(0, 16),
        lambda: operand_columns(64, True),
        lambda: transfer_layout("32x32b", True),
        lambda: transfer_layout("32x32b", 1, 4),
        lambda: transfer_layout("16x32bx2", 1, -4),
        lambda: scale_layout(2**60, 2**60),
        lambda: scale_layout(128, 4, along_k=1),  # type: ignore[arg-type]
        lambda: scale_memory_layout(0, 4),
        lambda: scale_columns(128, None),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInput):
            call()


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
    Meet(),
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
        ("TMEM015", [*TOGETHER[:6], Commit(1), *TOGETHER[7:]], 2),
        ("TMEM016", TOGETHER, 1),
        ("TMEM017", [*TOGETHER[:10], Free("t", None, 2, 1), Exit(1), Free("t", None, 2, 0), Exit(0)], 2),
        ("TMEM018", [Meet(), *without(TOGETHER, Meet)], 2),
        ("TMEM026", TOGETHER[1:], 2),
        ("TMEM026", [TOGETHER[1], Meet(), *TOGETHER[2:]], 2),
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
    assert violated([Meet(), *without(TOGETHER, Meet)], 2) == {"TMEM018"}
    assert violated(TOGETHER[1:], 2) == {"TMEM026"}
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


def test_a_load_forgets_nothing_but_what_it_loads() -> None:
    """Sums count as loaded by column and by the warps' lanes; what others wrote is still to come."""
    first = Transfer("ld", "t", "32x32b", 32, 0, 0, 0)
    begin: list[Event] = [Allocate("t", 128), Multiply(BF16, SUMS), first]
    end: list[Event] = [Free("t"), Exit()]
    for warp, column, lost in ((0, 0, False), (1, 0, True), (0, 32, True), (3, 96, True)):
        store = Transfer("st", "t", "32x32b", 32, warp, 32 * warp, column)
        assert violated([*begin, store, *end]) == ({"TMEM009"} if lost else set())
    # 16 lanes of a warp's 32, and the two halves of 16x32bx2, whose columns in between stay.
    half = Transfer("ld", "t", "16x64b", 16, 1, 32, 0)
    for lane, lost in ((32, False), (48, True)):
        store = replace(half, instruction="st", lane=lane)
        assert violated([*begin, half, store, *end]) == ({"TMEM009"} if lost else set())
    split = Transfer("ld", "t", "16x32bx2", 8, 1, 32, 0, split=64)
    for column, lost in ((0, False), (64, False), (8, True), (56, True)):
        store = Transfer("st", "t", "16x64b", 4, 1, 32, column)
        assert violated([*begin, split, store, *end]) == ({"TMEM009"} if lost else set())
    # A store over the whole of them is no multiply that adds to them.
    stores = loads(instruction="st")
    assert violated([*begin[:2], *stores, *end]) == {"TMEM009"}
    assert violated([*begin[:2], *loads(), *stores, *end]) == set()


def test_sums_that_are_lost_are_told_once_and_where() -> None:
    stores: list[Event] = [Transfer("st", "t", "32x32b", 32, 1, 32, 64)] * 2
    program = Program((Allocate("t", 128), Multiply(BF16, SUMS), *loads(num=64)[:3], *stores, Free("t"), Exit()))
    (found,) = tensor_memory_violations(program, "b200")
    assert found.message == "sums from column 64 on and what tcgen05.st writes from column 64 on overlap"


def test_scale_factors_under_sums_are_gone() -> None:
    over = Multiply(BF16, Region("t", 256, 128))
    again = WITH_SCALES[4]
    program = [*WITH_SCALES[:5], *loads(), *loads(column=128), over, *loads(column=256), again, *WITH_SCALES[5:]]
    assert violated(program) == {"TMEM022"}


@pytest.mark.parametrize(
    "late",
    [
        [Allocate("s", 32), Free("s")],
        [Multiply(BF16, SUMS)],
        [Free("t")],
        [Commit()],
        [Relinquish()],
        [Meet()],
        loads()[:1],
        [CopyIn("32x128b", "warpx4", "t", 0)],
    ],
    ids=lambda events: type(events[0]).__name__,
)
def test_nothing_follows_the_exit(late: list[Event]) -> None:
    assert "TMEM025" in violated([*PLAIN, *late])
    assert "TMEM025" not in violated([*PLAIN[:-1], *late, PLAIN[-1]])
    # The other CTA of a pair may go on.
    both = [*PLAIN[:-1], *(replace(event, cta=1) for event in PLAIN[:-1])]
    assert violated([*both, Exit(0), Exit(1)], 2) == set()
    assert "TMEM025" not in violated([*PLAIN, *(replace(event, cta=1) for event in (*PLAIN[:-1], *late)), Exit(1)], 2)


def test_programs_without_meaning_are_refused() -> None:
    with pytest.raises(InvalidInput, match="its own name"):
        violated([Allocate("t", 64), Allocate("t", 64)])
    with pytest.raises(InvalidInput, match="no tensor memory"):
        tensor_memory_violations(Program(()), "h200")
    with pytest.raises(InvalidInput, match="unknown"):
        tensor_memory_violations(Program(()), "b2000")
    for program in (None, PLAIN, tuple(PLAIN), "program"):
        with pytest.raises(InvalidInput, match="give a tensor_memory\\.Program"):
            tensor_memory_violations(program, "b200")  # type: ignore[arg-type]
    assert tensor_memory_violations(Program(iter(PLAIN)), "b200") == []  # type: ignore[arg-type]


EVENTS: dict[type, dict[str, Any]] = {
    Region: {"allocation": "t", "column": 0, "columns": 128},
    Allocate: {"name": "t", "columns": 64},
    Free: {"name": "t"},
    Relinquish: {},
    Multiply: {"instruction": BF16, "d": SUMS},
    Transfer: {
        **{"instruction": "ld", "allocation": "t", "shape": "32x32b", "num": 32, "warp": 0, "lane": 0, "column": 0}
    },
    CopyIn: {"shape": "32x128b", "multicast": "warpx4", "allocation": "t", "column": 0},
    Commit: {},
    Program: {"events": ()},
}


@pytest.mark.parametrize(
    ("kind", "changed", "said"),
    [
        (Region, {"allocation": None}, "allocation of a region is None"),
        (Region, {"column": -1}, "column of a region is -1"),
        (Region, {"column": 1.5}, "give an integer"),
        (Region, {"columns": 10**9}, "at most 65536"),
        (Region, {"lane": -16}, "at least 0"),
        (Allocate, {"columns": None}, "columns of an allocation is None"),
        (Allocate, {"columns": "x"}, "give an integer"),
        (Allocate, {"columns": True}, "give an integer"),
        (Allocate, {"columns": 64.0}, "give an integer"),
        (Allocate, {"columns": -32}, "at least 0"),
        (Allocate, {"name": ""}, "give a name"),
        (Allocate, {"cta_group": 0}, "cta_group is 0; give 1 or 2"),
        (Allocate, {"cta_group": 9}, "give 1 or 2"),
        (Allocate, {"cta_group": "x"}, "give an integer"),
        (Allocate, {"cta": 2}, "give 0 or 1"),
        (Allocate, {"cta": True}, "give an integer"),
        (Allocate, {"converged": 1}, "give True or False"),
        (Free, {"columns": -1}, "at least 0"),
        (Free, {"name": 3}, "give a name"),
        (Relinquish, {"cta_group": 9}, "give 1 or 2"),
        (Multiply, {"instruction": None}, "give an InstructionDescriptor"),
        (Multiply, {"d": None}, "give a Region"),
        (Multiply, {"a": "t"}, "a of a multiply is 't'"),
        (Multiply, {"scales": "e8m0"}, "give Scales"),
        (Multiply, {"ws": None}, "give True or False"),
        (Multiply, {"threads": -1}, "at least 0"),
        (Transfer, {"instruction": "x"}, "give one of ld, st"),
        (Transfer, {"shape": None}, "give a name"),
        (Transfer, {"num": 1.5}, "give an integer"),
        (Transfer, {"num": 2**40}, "at most 1024"),
        (Transfer, {"warp": 40}, "warp of a transfer is 40; give at most 31"),
        (Transfer, {"warp": -1}, "at least 0"),
        (Transfer, {"registers": -1}, "at least 0"),
        (Transfer, {"split": 3}, "32x32b has none"),
        (Transfer, {"shape": "16x32bx2", "split": -50}, "at least 0"),
        (Transfer, {"same_address": "yes"}, "give True or False"),
        (CopyIn, {"multicast": None}, "give a name, or ''"),
        (CopyIn, {"cta_group": 7}, "give 1 or 2"),
        (CopyIn, {"column": -1}, "at least 0"),
        (Commit, {"threads": 2**20}, "at most 1024"),
        (Program, {"events": None}, "give a sequence"),
        (Program, {"events": "abc"}, "give a sequence"),
        (Program, {"events": [None]}, "event 0 is None; give one of Allocate"),
        (Program, {"events": [Exit(), Exit()]}, "CTA 0 exits twice"),
        (Program, {"cluster": 0}, "at least 1"),
        (Program, {"cluster": "x"}, "give an integer"),
        (Program, {"cluster": 17}, "at most 16"),
    ],
)
def test_events_without_meaning_are_refused(kind: type, changed: dict[str, Any], said: str) -> None:
    kind(**EVENTS[kind])
    with pytest.raises(InvalidInput, match=said):
        kind(**{**EVENTS[kind], **changed})

"""Wavefronts of single accesses: what an H200 took, the phases that documents state, and what is refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat.analyses.banks.bank_wavefronts import least_wavefronts, shared_access, wavefronts
from legalsat.units.shared_access import ACCESSES, UnknownPhases

MEASURED = np.load(Path(__file__).parent / "data" / "bank_cycles.npz")
NAMES = [str(name) for name in MEASURED["op_names"]]
BYTES = {"u8": 1, "u16": 2, "b32": 4, "b64": 8, "b128": 16}
TOGETHER = {8: 16, 16: 8}


def busiest(addresses: Sequence[int], size: int, banks: int = 32) -> int:
    """The most different words that one bank holds."""
    held = defaultdict(set)
    for address in addresses:
        for byte in range(address, address + size):
            held[byte // 4 % banks].add(byte // 4)
    return max(map(len, held.values()))


@pytest.mark.parametrize("name", NAMES)
def test_every_measured_access(name: str) -> None:
    rows = MEASURED["op"] == NAMES.index(name)
    access = shared_access(name, "h200")
    addresses = MEASURED["address"][rows].astype(np.int64)[:, : access.addresses]
    cycles = np.round(MEASURED["cycles"][rows]).astype(int)
    assert len(cycles) > 300
    assert wavefronts(access, addresses).tolist() == cycles.tolist()
    assert (least_wavefronts(access, addresses) <= cycles).all()
    for row in range(0, len(cycles), 40):
        assert ls.bank_wavefronts(name, MEASURED["address"][rows][row], "sm_90a") == cycles[row]


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_phases_by_brute_force(data: st.DataObject) -> None:
    """Loads whose lanes do not all share in pairs, and all stores: phase after phase, bank by bank."""
    way, name = data.draw(st.sampled_from(("ld", "st"))), data.draw(st.sampled_from(sorted(BYTES)))
    size = BYTES[name]
    units = data.draw(st.lists(st.integers(0, 4 * 128 // size), min_size=32, max_size=32))
    addresses = [size * unit for unit in units]
    together = TOGETHER.get(size, 32)
    shares = any(all(units[i] == units[i ^ d] for i in range(32)) for d in (1, 2))
    expected = sum(busiest(addresses[i : i + together], size) for i in range(0, 32, together))
    if way == "st" or not shares:
        assert ls.bank_wavefronts(f"{way}.{name}", addresses, "sm_90a") == expected


@pytest.mark.parametrize("apart", [1, 2])
def test_loads_of_lanes_that_share_in_pairs_merge(apart: int) -> None:
    lanes = [lane & ~apart for lane in range(32)]
    dense = {lane: place for place, lane in enumerate(sorted(set(lanes)))}
    for op, size, merged, alone in (("b64", 8, 1, 2), ("b128", 16, 2, 4)):
        addresses = [size * dense[lane] for lane in lanes]
        assert ls.bank_wavefronts(f"ld.{op}", addresses, "h200") == merged
        assert ls.bank_wavefronts(f"st.{op}", addresses, "h200") == alone
        one_off = [*addresses[:-1], addresses[-1] + size]
        assert ls.bank_wavefronts(f"ld.{op}", one_off, "h200") == alone


def test_known_patterns() -> None:
    assert ls.bank_wavefronts("ld.b32", range(0, 128, 4), "sm_80") == 1
    assert ls.bank_wavefronts("ld.shared.b32", range(0, 32 * 128, 128), "sm_100a") == 32
    assert ls.bank_wavefronts("st.b32", range(0, 32 * 132, 132), "rtx5090") == 1
    assert ls.bank_wavefronts("ldmatrix.x4", range(0, 32 * 144, 144), "sm_90a") == 4
    assert ls.bank_wavefronts("ldmatrix.x1", range(0, 8 * 128, 128), "sm_90a") == 8
    assert ls.bank_wavefronts("ldmatrix.x1", [*range(0, 8 * 144, 144), *[0] * 24], "sm_90a") == 1


@pytest.mark.parametrize(
    ("target", "op", "groups", "size", "banks"),
    [
        ("gfx942", "ds_write_b128", [range(i, i + 8) for i in range(0, 64, 8)], 16, 32),
        (
            "gfx942",
            "ds_read_b128",
            [
                [first + half + i for first in firsts for i in range(4)]
                for half in (0, 32)
                for firsts in ((0, 20), (4, 16), (8, 28), (12, 24))
            ],
            16,
            32,
        ),
        (
            "gfx950",
            "ds_read_b128",
            [
                [first + half + i for first in firsts for i in range(4)]
                for half in (0, 32)
                for firsts in ((0, 12, 20, 24), (4, 8, 16, 28))
            ],
            16,
            64,
        ),
        (
            "gfx950",
            "ds_read_b96",
            [
                [first + half + i for first in firsts for i in range(4)]
                for half in (0, 32)
                for firsts in ((0, 20), (4, 16), (8, 28), (12, 24))
            ],
            12,
            32,
        ),
        ("gfx950", "ds_read_b64", [range(32), range(32, 64)], 8, 64),
        ("gfx950", "ds_write_b64", [range(i, i + 16) for i in range(0, 64, 16)], 8, 32),
    ],
)
def test_phases_of_amd(target: str, op: str, groups: list[Sequence[int]], size: int, banks: int) -> None:
    draw = np.random.default_rng(3)
    in_order = range(0, 64 * size, size)
    assert ls.bank_wavefronts(op, in_order, target) == sum(
        busiest([in_order[i] for i in g], size, banks) for g in groups
    )
    for _ in range(40):
        step = 4 if size == 12 else size
        addresses = [step * int(unit) for unit in draw.integers(0, 200, 64)]
        expected = sum(busiest([addresses[i] for i in group], size, banks) for group in groups)
        assert ls.bank_wavefronts(op, addresses, target) == expected


def test_amd_reads_in_order_are_free_of_conflicts() -> None:
    assert ls.bank_wavefronts("ds_read_b128", range(0, 1024, 16), "mi300x") == 8
    assert ls.bank_wavefronts("ds_read_b128", range(0, 1024, 16), "mi355x") == 4


@pytest.mark.parametrize("target", sorted(ACCESSES))
def test_phases_name_every_address_once(target: str) -> None:
    for access in ACCESSES[target].values():
        for phases in filter(None, (access.phases, access.merged)):
            assert sorted(place for phase in phases for place in phase) == [*range(access.addresses)]
            assert len({*map(len, phases)}) == 1
            # Lanes that share addresses in pairs need half the bytes.
            assert len(phases[0]) * access.bytes <= 4 * access.banks * (2 if phases is access.merged else 1)


@pytest.mark.parametrize(
    ("op", "addresses", "target", "says"),
    [
        ("ld.b32", range(31), "sm_90a", "give 32"),
        ("ldmatrix.x1", range(0, 160, 16), "sm_90a", "give 8"),
        ("ld.b64", [4] * 32, "sm_90a", "give a multiple of 8"),
        ("ld.b32", [-4] * 32, "sm_90a", "give at least 0"),
        ("ld.b32", [0.5] * 32, "sm_90a", "give an integer"),
        ("ld.b32", [228 * 1024] * 32, "sm_90a", "at most 233468"),
        ("ld.b128", [2**62] * 32, "sm_90a", "at most 233456"),
        ("ds_read_b128", [64 * 1024] * 64, "gfx942", "at most 65520"),
        ("ld.b32", [None] * 32, "sm_90a", "give an integer"),
        ("ld.b32", 7, "sm_90a", "give a sequence"),
        ("ld.b256", [0] * 32, "sm_90a", "give one of"),
        (3, [0] * 32, "sm_90a", "give one of"),
        ("stmatrix.x4", [0] * 32, "sm_80", "give one of"),
        ("ds_read_b128", [0] * 64, "sm_90a", "give one of"),
        ("ds_read_b128", [0] * 32, "gfx942", "give 64"),
        ("ld.b32", [0] * 32, "sm_70", "unknown"),
    ],
)
def test_bad_input(op: str, addresses: Sequence[int], target: str, says: str) -> None:
    with pytest.raises(ls.InvalidInput, match=says):
        ls.bank_wavefronts(op, addresses, target)


@pytest.mark.parametrize(("op", "target"), [("ds_read_b64", "gfx942"), ("ds_write_b128", "gfx950")])
def test_what_nobody_measured_is_refused(op: str, target: str) -> None:
    with pytest.raises(UnknownPhases, match=r"not known .*; use ds_read"):
        ls.bank_wavefronts(op, [0] * 64, target)

"""What kernels of products do to tensor memory, read off their text and the plan, breaks no rule; planted faults do."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest

import legalsat as ls
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.units.tcgen05 import kind_of
from legalsat.units.tensor_memory import (
    Allocate,
    Commit,
    CopyIn,
    Event,
    Exit,
    Free,
    Multiply,
    Program,
    Region,
    Relinquish,
    Transfer,
)

PRODUCTS = (
    (4096, 4096, 4096, "bf16"),
    (192, 320, 160, "fp16"),
    (64, 72, 96, "bf16"),
    (512, 1000, 640, "e4m3"),
    (256, 128, 256, "i8"),
    (128, 256, 64, "fp32"),
    (1000, 24, 4096, "e5m2"),
)


@lru_cache
def planned(product: tuple[int, int, int, str]) -> tuple[GemmPlan, str]:
    plan = ls.synthesize(ls.Gemm(*product), "b200")
    return plan, plan.emit("ptx")


def program(plan: GemmPlan, text: str, k_tiles: int = 2) -> list[Event]:
    """Return what one CTA does for tiles, `k_tiles` tiles along K: numbers from the plan, loads as the text has them.

    A warp of its own allocates, issues and frees. There are as many tiles as accumulators, and each warpgroup fetches
    of one what one instruction sums up.
    """
    mma, kernel = plan.mma, plan.kernel
    descriptor = ls.InstructionDescriptor.from_word(kind_of(mma.types[0], mma.types[1]).name, mma.instruction)
    assert (descriptor.m, descriptor.n, descriptor.k) == mma.shape
    sums = [Region("sums", i * descriptor.n, descriptor.n) for i in range(kernel.accumulators * kernel.warpgroups)]
    step = [Multiply(descriptor, region) for region in sums]
    tile: list[Event] = [*step * (plan.tile[2] // mma.shape[2]), Commit()]
    loads: list[Event] = []
    for number, region in enumerate(sums):
        first = number % kernel.warpgroups * 4
        for warp in range(first, first + 4):
            loads += [
                Transfer("ld", "sums", "16x256b", n, warp, 32 * (warp % 4) + half, region.column + at)
                for n, half, at in fetched(text)
            ]
    freed = int(re.findall(r"tcgen05\.dealloc\.[^;]*, (\d+);", text)[0])
    return [
        Allocate("sums", mma.allocated),
        Relinquish(),
        *tile * k_tiles,
        Commit(),
        *loads,
        Free("sums", freed),
        Exit(),
    ]


def fetched(text: str) -> list[tuple[int, int, int]]:
    """Return of each load of a text how often its shape is repeated, and the lane and the column that are added."""
    adds = {to: int(by) for to, by in re.findall(r"add\.s32 (%r\d+), %r\d+, (\d+);", text)}
    found = re.findall(r"tcgen05\.ld\.sync\.aligned\.16x256b\.x(\d+)\.b32 .*\[(%r\d+)\]", text)
    return [(int(n), adds.get(at, 0) >> 16, adds.get(at, 0) & 0xFFFF) for n, at in found]


def violated(events: list[Event]) -> set[str]:
    return {d.code for d in ls.tensor_memory_violations(Program(tuple(events)), "b200")}


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_printed_kernels_break_no_rule(product: tuple[int, int, int, str]) -> None:
    plan, text = planned(product)
    events = program(plan, text)
    assert violated(events) == set()
    # The text has what the program has: an instruction for each block of sums and step, and all columns loaded once.
    kernel, mma = plan.kernel, plan.mma
    steps = plan.tile[2] // mma.shape[2]
    assert len(re.findall(r"tcgen05\.mma\.", text)) == steps * kernel.warpgroups
    assert re.findall(r"tcgen05\.alloc\.[^;]*, (\d+);", text) == [str(mma.allocated)]
    times = 2 if kernel.in_rows else 1  # 8 rows leave at a time, of 16 that are fetched
    loaded = Counter((half, at + i) for n, half, at in fetched(text) for i in range(8 * n))
    assert set(loaded) == {(half, column) for half in (0, 16) for column in range(mma.shape[1])}
    assert all(count == times for count in loaded.values()) or kernel.by_boxes, "the last box may begin sooner"


def changed(kind: type, **fields: Any) -> Callable[[list[Event]], list[Event]]:
    """Return a fault: fields of the first event of a kind."""

    def plant(events: list[Event]) -> list[Event]:
        at = next(i for i, event in enumerate(events) if isinstance(event, kind))
        return [*events[:at], replace(events[at], **fields), *events[at + 1 :]]

    return plant


def without(*kinds: type) -> Callable[[list[Event]], list[Event]]:
    return lambda events: [event for event in events if not isinstance(event, kinds)]


def moved(kind: type, to: int) -> Callable[[list[Event]], list[Event]]:
    """Return a fault: the first event of a kind elsewhere, and no other."""

    def plant(events: list[Event]) -> list[Event]:
        rest = without(kind)(events)
        one = next(event for event in events if isinstance(event, kind))
        at = to % (len(rest) + 1)
        return [*rest[:at], one, *rest[at:]]

    return plant


def before_warp_3_loads(event: Event) -> Callable[[list[Event]], list[Event]]:
    """Return a fault: an event while three warps have loaded their lanes, and the fourth none of its own."""

    def plant(events: list[Event]) -> list[Event]:
        at = next(i for i, e in enumerate(events) if isinstance(e, Transfer) and e.warp == 3)
        return [*events[:at], event, *events[at:]]

    return plant


def half_allocated(events: list[Event]) -> list[Event]:
    fewer = events[0].columns // 2  # type: ignore[union-attr, operator]
    return changed(Free, columns=fewer)(changed(Allocate, columns=fewer)(events))


FAULTS: dict[str, tuple[str, Callable[[list[Event]], list[Event]]]] = {
    "nothing freed": ("TMEM006", without(Free)),
    "freed before the loads": ("TMEM007", moved(Free, 3)),
    "freed after the exit": ("TMEM025", moved(Free, -1)),
    "freed in part": ("TMEM005", changed(Free, columns=32)),
    "half of the columns": ("TMEM008", half_allocated),
    "no power of two": ("TMEM001", changed(Allocate, columns=300)),
    "allocated without a permit": ("TMEM004", moved(Relinquish, 0)),
    "allocated by one thread": ("TMEM014", changed(Allocate, converged=False)),
    "lanes of the next warp": ("TMEM010", changed(Transfer, lane=32)),
    "columns of nobody": ("TMEM008", changed(Transfer, column=500)),
    "a length that no load has": ("TMEM012", changed(Transfer, num=24)),
    "an address a thread": ("TMEM011", changed(Transfer, same_address=False)),
    "too few registers": ("TMEM013", changed(Transfer, registers=1)),
    "issued by a warp": ("TCGEN017", changed(Multiply, threads=32)),
    "issued for two CTAs": ("TMEM015", changed(Multiply, cta_group=2)),
    "stored over sums of a warp to come": (
        "TMEM009",
        before_warp_3_loads(Transfer("st", "sums", "32x32b", 8, 3, 96, 0)),
    ),
    "copied over sums of a warp to come": ("TMEM009", before_warp_3_loads(CopyIn("128x256b", "", "sums", 0))),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("product", [PRODUCTS[0], PRODUCTS[3]], ids=str)
def test_planted_faults_are_found(product: tuple[int, int, int, str], fault: str) -> None:
    code, plant = FAULTS[fault]
    events = program(*planned(product))
    assert code in violated(plant(events))


def test_sums_of_the_next_tile_wait_for_the_loads() -> None:
    """A tile's sums shifted by a few columns lie on those that nobody loaded; once all did, they may."""
    events = program(*planned(PRODUCTS[2]))
    first = next(event for event in events if isinstance(event, Multiply))
    other = replace(first, d=replace(first.d, column=first.d.column + 8))
    wider = [replace(e, columns=512) if isinstance(e, Allocate | Free) else e for e in events]
    assert violated([*wider[:-3], other, *wider[-3:]]) == {"TMEM009"}
    assert violated([*wider[:-2], other, *wider[-2:]]) == set()

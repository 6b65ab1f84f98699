"""Which copies a plan says that its kernel issues: together they bring every byte once, as the copy engine does."""

from __future__ import annotations

import itertools
import json
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import legalsat as ls
from bench.gpu.copies import random_pad
from bench.kernels.moved import places
from bench.search.random_problems import problem
from legalsat.analyses.matrix_layout import read_addresses
from legalsat.extract.moved.issued import Issued, issued
from legalsat.extract.moved.tile_operand import operand_of
from legalsat.layout.swizzle import Swizzle
from legalsat.plans.movement_plan import MovementPlan

T = ls.Tensor
MOST = 2**15  # bytes of a tensor whose copies are all made here


def plans() -> list[MovementPlan]:
    rng, found = random.Random(5), list[MovementPlan]()
    named = [
        ls.synthesize(T((128, 200), "bf16"), "h200", tile=(64, 128), consumer="wgmma.a"),
        ls.synthesize(ls.Copy(T((24, 131), "bf16"), tile=(16, 64)), "h200", means=("tma.phases",)),
        ls.synthesize(T((2, 3, 40, 64), "bf16"), "h200", tile=(1, 1, 16, 64)),
    ]
    for _ in range(250):
        operator = random_pad(rng) if rng.random() < 0.3 else problem(rng).operator
        if operator.source.span_bits > 8 * MOST:
            continue
        try:
            plan = ls.synthesize(operator, "h200", means=(rng.choice(("tma", "tma.phases")),))
        except ls.LegalSatError:
            continue
        found.append(plan)
    assert len(found) > 20
    return named + found


def every(one: Issued) -> list[dict[str, int]]:
    """All values of the names of a copy."""
    names = [*one.tiles, *one.boxes]
    return [
        dict(zip((name for name, _ in names), values, strict=True))
        for values in itertools.product(*(range(count) for _, count in names))
    ]


def named_places(
    plan: MovementPlan, one: Issued, numbers: dict[str, int]
) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """The coordinates of a copy, its offsets, and its place in the buffer."""
    numbers = one.numbers(numbers)
    coordinates, offsets = (tuple(c.value(numbers) for c in sums) for sums in (one.coordinates, one.offsets))
    return coordinates, offsets, one.place.value(numbers)


def loaded(plan: MovementPlan, tile: dict[str, int]) -> np.ndarray:
    """For each byte of a tile's buffer the byte of the source that the copy engine's model puts there."""
    found = np.full(plan.shared[0].bytes, -2, np.int64)
    for one in issued(plan):
        if one.kind != "load":
            continue
        for box in itertools.product(*(range(count) for _, count in one.boxes)):
            numbers = tile | dict(zip((name for name, _ in one.boxes), box, strict=True))
            at, offsets, place = named_places(plan, one, numbers)
            image = ls.smem_image(plan.tensor_maps[one.map], at, place, offsets)[place : place + one.bytes]
            assert (found[place : place + one.bytes] == -2).all()
            found[place : place + one.bytes] = image
    return found


def tiles_of(plan: MovementPlan) -> list[dict[str, int]]:
    """Every tile's numbers by name."""
    names = issued(plan)[0].tiles
    return [
        dict(zip((name for name, _ in names), numbers, strict=True))
        for numbers in itertools.product(*(range(count) for _, count in names))
    ]


def brought(plan: MovementPlan, one: Issued) -> tuple[np.ndarray, int]:
    """How often each byte of global memory is copied, by the model of the copy engine, and the shared bytes used."""
    side = plan.operator.source if one.kind == "load" else plan.operator.target
    tm = plan.tensor_maps[one.map]
    offset = plan.phases[one.map].offset if plan.phases and one.kind == "load" else 0
    found = np.zeros(-(-side.span_bits // 8) + 2**12, np.int64)
    end = 0
    for numbers in every(one):
        image = ls.smem_image(tm, tuple(c.value(numbers) for c in one.coordinates))
        seen = np.unique(image[image >= 0]) + offset
        seen = seen[(seen >= 0) & (seen < len(found))]
        found[seen] += 1
        end = max(end, one.place.value(numbers) + one.bytes)
    return found, end


def test_all_copies_together_bring_every_byte_once() -> None:
    for plan in plans():
        copies = issued(plan)
        assert copies, plan.operator
        for kind, side in (("load", plan.operator.source), ("store", plan.operator.target)):
            ours = [one for one in copies if one.kind == kind]
            if not ours:
                continue
            counts = [brought(plan, one) for one in ours]
            total = np.sum([found for found, _ in counts], axis=0)
            if side.dtype.bits % 8:
                continue
            at = np.unique(places(side)) * (side.dtype.bits // 8)
            if not plan.phases:
                assert (total[at] == 1).all(), (plan.operator, kind)
            else:  # maps of phases see the ends of their neighbours' rows too
                assert (total[at] >= 1).all(), (plan.operator, kind)
            rings = {ring.name: ring.bytes for ring in plan.pipeline.buffers}
            assert all(end <= rings[one.buffer] for one, (_, end) in zip(ours, counts, strict=True))


def test_boxes_of_a_tile_lie_side_by_side() -> None:
    plan = ls.synthesize(T((2, 8, 4096, 128), "bf16"), "h200", tile=(1, 1, 128, 128), consumer="wgmma.a")
    load = issued(plan)[0]
    assert [str(one) for one in load.coordinates] == ["64 i", "32768 n0 + 4096 n1 + 128 n2"]
    assert str(load.place) == "16384 i"
    assert load.tiles == (("n0", 2), ("n1", 8), ("n2", 32))
    at = "{64 i, 32768 n0 + 4096 n1 + 128 n2}, source + 16384 i"
    line = f"load 16384 bytes by map 0 for (n0 < 2, n1 < 8, n2 < 32): box i < 2 at {at}"
    assert line in " ".join(str(plan).split())
    for backend in ("host", "host-python", "cute", "triton"):
        assert line in plan.emit(backend)
    assert plan.to_json()["issued"][0] == load.to_json()


@pytest.mark.parametrize(
    ("tile", "consumer"), [((128, 64), "wgmma.a"), ((256, 64), "wgmma.b"), ((128, 128), "wgmma.a")]
)
def test_steps_of_a_descriptor_are_those_of_the_instruction(tile: tuple[int, int], consumer: str) -> None:
    """32 bytes along K a step, in the next box after each 128 bytes; 64 rows of A a block, of 128 bytes each."""
    plan = ls.synthesize(T((4096, 4096), "bf16"), "h200", tile=tile, consumer=consumer)  # type: ignore[call-overload]
    operand = operand_of(plan)
    assert operand is not None
    boxes = tile[0] * 128
    steps = [step % 4 * 32 + step // 4 * boxes for step in range(tile[1] // 16)]
    rows = 64 if consumer == "wgmma.a" else tile[0]
    assert operand.offsets == tuple(tuple(block * rows * 128 + s for s in steps) for block in range(tile[0] // rows))
    assert f"descriptor: {operand.descriptor.word:#018x} + (address >> 4)" in str(plan)


def test_plans_without_boxes_say_nothing(tmp_path: Path) -> None:
    plan = ls.synthesize(T((4096, 4095), "bf16"), "h200", tile=(128, 64))
    assert plan.access.by == "threads"
    assert not issued(plan)
    assert "coordinates" not in str(plan)
    plan.save(tmp_path / "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text())["issued"] == []
    assert ls.Plan.load(tmp_path / "plan.json") == plan


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((2, 4, 256, 128), (1, 1, 128, 128)),
        ((3, 16, 24, 64), (1, 8, 8, 64)),
        ((2, 12, 20, 32), (1, 4, 16, 32)),
        ((2, 10, 12, 64), (2, 4, 8, 64)),
    ],
)
@pytest.mark.parametrize("consumer", ["wgmma.a", "wgmma.b"])
def test_tiles_count_along_the_users_axes(shape: tuple[int, ...], tile: tuple[int, ...], consumer: str) -> None:
    """Every tile by its numbers: the descriptor reads its rows, in the order of memory, and zeros past the end."""
    axes = ("b", "i", "s", "depth")  # one of which is a box's name otherwise
    copy = ls.Copy(T(shape, "bf16"), tile=tile, consumer=consumer, into="shared", axes=axes)  # type: ignore[arg-type]
    plan = ls.synthesize(copy, "h200", means=("tma",))
    (load,) = issued(plan)
    assert {name for name, _ in load.tiles} <= set(axes)
    assert not {name for name, _ in load.boxes} & set(axes)
    operand = operand_of(plan)
    assert operand is not None
    assert plan.mma is not None
    assert operand in (plan.mma.a, plan.mma.b)
    (rows, depth), index = (math.prod(tile[:-1]), tile[-1]), np.arange(math.prod(shape)).reshape(shape)
    padded = np.pad(index + 1, [(0, -n % t) for n, t in zip(shape, tile, strict=True)])  # 0 is filled
    for numbers in tiles_of(plan):
        corner = [numbers.get(name, 0) * t for name, t in zip(axes, tile, strict=True)]
        want = padded[tuple(slice(at, at + t) for at, t in zip(corner, tile, strict=True))].reshape(rows, depth)
        image = loaded(plan, numbers)
        for block, starts in enumerate(operand.offsets):
            for step, start in enumerate(starts):
                descriptor = replace(operand.descriptor, start=start)
                at = read_addresses(descriptor, operand.major, operand.block, 16, 16)
                read = np.where(image[at] < 0, 0, image[at] // 2 + 1)
                assert (read == want[block * operand.block :][: operand.block, 16 * step :][:, :16]).all()


@pytest.mark.parametrize(
    ("images", "taps", "options"),
    [
        ((2, 6, 7, 64), 3, {"padding": 1, "tile": (64, 64)}),
        ((2, 9, 11, 32), (2, 3), {"stride": (2, 1), "padding": ((0, 1), (1, 1)), "tile": (32, 16)}),
        ((3, 20, 16), 3, {"padding": 1, "dilation": 2, "tile": (16, 16)}),
        ((1, 4, 5, 6, 16), 2, {"padding": 1, "stride": (1, 2, 1), "tile": (64, 16)}),
    ],
)
@pytest.mark.parametrize("named", [False, True])
def test_columns_of_windows_come_from_where_they_say(images, taps, options, named) -> None:  # type: ignore[no-untyped-def]
    axes = ("p", "r", "w", "i", "c")[: len(images)] if named else ()  # names that others would have
    columns = ls.Im2col(T(images, "bf16"), taps, into="shared", consumer="threads", axes=axes, **options)
    plan = ls.synthesize(columns, "h200", means=("im2col",))
    (load,) = issued(plan)
    assert load.offsets
    index = np.arange(1, math.prod(images) + 1).reshape(images)
    want = columns.meaning(index)
    rank = len(images) - 2
    want = want.reshape(math.prod(want.shape[: rank + 1]), -1, images[-1])  # pixels, taps, channels
    pixels, channels = options["tile"]

    def called(name: str) -> str:
        return f"{name}_" if name in axes else name

    channel, taps_of = axes[-1] if axes else "c", [called(name) for name in ("t", "r", "s")[-rank:]]
    assert {name for name, _ in load.tiles} <= {called("p"), channel, *taps_of}
    inside = np.arange(plan.shared[0].bytes)
    swizzle = str(plan.shared[0].swizzle)
    inside = (Swizzle.tma(swizzle)(inside) if swizzle != "none" else inside)[::2]
    seen = np.zeros(want.shape, int)
    for numbers in tiles_of(plan):
        image = loaded(plan, numbers)[inside]
        elements = np.where(image < 0, 0, image // 2 + 1).reshape(pixels, channels)
        tap = np.ravel_multi_index([numbers.get(name, 0) for name in taps_of], columns.filter)
        first, begin = numbers.get(called("p"), 0) * pixels, numbers.get(channel, 0) * channels
        part = slice(first, first + pixels), int(tap), slice(begin, begin + channels)
        assert (elements[: len(want[part])] == want[part]).all()
        seen[part] += 1
    assert (seen == 1).all()

"""Random tensor maps that are refused, from a seed: realistic ones with one to three faults, and real refusals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

import legalsat as ls
from bench.driver_agreement import tensor_map
from bench.machine import DATA
from legalsat.units.tensor_map import MAP_TYPES, SWIZZLES

VERDICTS = DATA / "tensor_map_verdicts.npz"
TARGETS = ("h200", "h200", "b200", "rtx5090")
COMMON_TYPES = ("bf16", "bf16", "f16", "u8", "u8", "f32", "u32", "u16", "f64", "s32", "tf32")
PACKED_TYPES = ("16u4_align8b", "16u4_align16b", "16u6_align16b")
INNER = (8, 16, 32, 60, 64, 100, 127, 128, 192, 256, 384, 1000, 4095, 4096)
OUTER = (1, 1, 2, 3, 7, 8, 17, 64, 100, 128, 500, 4096)
REAL_PART, LACKING_PART = 0.2, 0.01
MOST_FAULTS = 3

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """A tensor map, the target that refuses it, and where it comes from."""

    map: ls.TensorMap
    target: str
    origin: str


def requests(random: Random) -> Iterator[Request]:
    """Yield refused requests without end."""
    real = _real()
    while True:
        if random.random() < REAL_PART:
            yield Request(real[random.randrange(len(real))], "h200", "measured")
            continue
        target = "a100" if random.random() < LACKING_PART else random.choice(TARGETS)
        fields = _im2col(random) if random.random() < 0.15 else _tiled(random, target)
        for fault in random.sample(FAULTS, random.randint(0, MOST_FAULTS)):
            fault(fields, random)
        made = ls.TensorMap(**fields)
        if any(d.level == "error" for d in ls.violations(made, target)):
            yield Request(made, target, made.mode)


def _real() -> list[ls.TensorMap]:
    """Return requests that the measured driver refused."""
    records = np.load(VERDICTS)["requests"]
    return [tensor_map(record) for record in records[records["result"] != 0]]


def _tiled(random: Random, target: str) -> Fields:
    packed = target != "h200" and random.random() < 0.15
    name = random.choice(PACKED_TYPES if packed else COMMON_TYPES)
    bits = next(t.bits for t in MAP_TYPES if t.name == name)
    rank = random.choice((1, 2, 2, 2, 3, 3, 4, 5))
    dims = [random.choice(INNER), *(random.choice(OUTER) for _ in range(rank - 1))]
    if packed:
        dims[0] = random.choice((128, 256, 1024, 100, 129))
    swizzle = random.choice((0, 0, 1, 2, 3, 3, 3)) if target == "h200" else random.choice((0, 1, 2, 3, 3, 4, 5, 6))
    span = 8 * (256, 32, 64, 128, 128, 128, 128)[swizzle] // bits
    inner = min(256, span, dims[0]) if random.random() < 0.7 else random.choice((8, 16, 32, 64, 128, 256))
    box = [128 if packed else inner, *(min(n, random.choice((1, 1, 8, 64, 128))) for n in dims[1:])]
    interleave = random.choice((1, 2)) if rank >= 3 and random.random() < 0.1 else 0
    unit = (bits / 8, 16, 32)[interleave]
    granule = random.choice((1, 1, 16, 16, 32))
    return {
        "dtype": name,
        "address": random.choice((0, 256, 4096, 2**40)),
        "global_dim": dims,
        "global_stride": _strides(random, dims, unit, granule),
        "box": box,
        "element_stride": [1, *(random.choice((1, 1, 1, 2)) for _ in dims[1:])],
        "swizzle": swizzle,
        "interleave": interleave,
        "l2_promotion": random.randrange(4),
        "oob_fill": int(next(t.is_float for t in MAP_TYPES if t.name == name) and random.random() < 0.3),
    }


def _im2col(random: Random) -> Fields:
    rank = random.choice((3, 4, 4, 5))
    dims = [random.choice((8, 16, 64, 128, 256)), *(random.choice((7, 14, 28, 56)) for _ in range(rank - 2)), 8]
    corners = [random.choice((0, -1, -2)) for _ in range(rank - 2)]
    return {
        "dtype": random.choice(("bf16", "f16", "u8", "f32")),
        "mode": "im2col",
        "global_dim": dims,
        "global_stride": _strides(random, dims, 2, random.choice((1, 16))),
        "lower_corner": corners,
        "upper_corner": [random.choice((0, -1, -2)) for _ in corners],
        "element_stride": [1] * rank,
        "channels": random.choice((8, 16, 32, 64, 128, 256)),
        "pixels": random.choice((1, 32, 128, 256, 1024)),
        "swizzle": random.randrange(4),
    }


def _strides(random: Random, dims: list[int], unit: float, granule: int) -> list[int]:
    """Return strides that are dense, begin rows at multiples of `granule`, or leave a gap."""
    strides, step = [], math.ceil(dims[0] * unit)
    gap = random.choice((0, 0, 0, 16, 6))
    for extent in dims[1:]:
        step = -(-step // granule) * granule + gap
        strides.append(0 if random.random() < 0.03 else step)
        step *= extent
    if len(strides) > 1 and random.random() < 0.1:
        random.shuffle(strides)
    return strides


def _some(random: Random, values: Any, *, at: int = 0) -> int:
    return random.randrange(at, max(at + 1, len(values)))


def _box(fields: Fields, random: Random) -> None:
    if "box" not in fields:
        fields[random.choice(("channels", "pixels"))] = random.choice((0, 4, 60, 257, 512, 1025, 2048, 3000))
        return
    at = _some(random, fields["box"])
    fields["box"][at] = random.choice((0, 3, 12, 60, 100, 257, 300, 512, 1024, 2**20 + 1))


def _volume(fields: Fields, random: Random) -> None:
    if "box" in fields:
        fields["box"][1:] = [random.choice((16, 100, 256, 256)) for _ in fields["box"][1:]]


def _address(fields: Fields, random: Random) -> None:
    fields["address"] = random.choice((2, 4, 8, 16, 24, 100, 2**64 - 8, 4096 + 16))


def _stride(fields: Fields, random: Random) -> None:
    if fields["global_stride"]:
        at = _some(random, fields["global_stride"])
        fields["global_stride"][at] += random.choice((2, 4, 8, 16, 2**40))


def _long_stride(fields: Fields, random: Random) -> None:
    if fields["global_stride"] and random.random() < 0.3:
        fields["global_stride"][-1] = random.choice((2**40, 2**40 + 6, 2**63))


def _swizzle(fields: Fields, random: Random) -> None:
    fields["swizzle"] = random.choice((*range(len(SWIZZLES)), 7, 99))


def _interleave(fields: Fields, random: Random) -> None:
    fields["interleave"] = random.choice((1, 2, 2, 3))


def _dtype(fields: Fields, random: Random) -> None:
    fields["dtype"] = random.choice((*PACKED_TYPES, "u8", "bf16", "f64", 16))


def _fill(fields: Fields, random: Random) -> None:
    fields["oob_fill"] = random.choice((1, 1, 2))


def _promotion(fields: Fields, random: Random) -> None:
    fields["l2_promotion"] = random.choice((4, 77))


def _step(fields: Fields, random: Random) -> None:
    fields["element_stride"][_some(random, fields["element_stride"])] = random.choice((0, 3, 8, 9, 16))


def _extent(fields: Fields, random: Random) -> None:
    at = _some(random, fields["global_dim"])
    fields["global_dim"][at] = random.choice((0, 1, 65, 2**31 + 1, 2**32 + 1, 2**34))


def _rank(fields: Fields, random: Random) -> None:
    """Add dimensions outside: of one element, or more of the same tensor."""
    if "box" not in fields:
        return
    for _ in range(random.choice((1, 2, 6 - len(fields["global_dim"])))):
        outermost = (fields["global_stride"] or [64])[-1] * fields["global_dim"][-1]
        fields["global_stride"].append(outermost % 2**63)
        fields["global_dim"].append(random.choice((1, 1, 2, 5)))
        fields["box"].append(1)
        fields["element_stride"].append(1)


def _whole_rows(fields: Fields, random: Random) -> None:
    """Make the tensor dense, and the box as wide as it."""
    if "box" in fields and len(fields["global_dim"]) > 1 and not fields["interleave"]:
        fields["global_dim"][0] = random.choice((3, 10, 20, 60, 100))
        fields["box"][0] = fields["global_dim"][0]
        bits = ls.TensorMap(dtype=fields["dtype"], global_dim=(1,), box=(1,)).dtype
        step = fields["global_dim"][0] * next((t.bits for t in MAP_TYPES if t.name == bits), 8) // 8
        for at, extent in enumerate(fields["global_dim"][1:]):
            fields["global_stride"][at] = step
            step *= extent


def _corner(fields: Fields, random: Random) -> None:
    if "box" not in fields:
        fields["upper_corner"][0] = random.choice((-100, 40, 200, -40000))


FAULTS: tuple[Callable[[Fields, Random], None], ...] = (
    _box,
    _volume,
    _address,
    _stride,
    _long_stride,
    _swizzle,
    _interleave,
    _dtype,
    _fill,
    _promotion,
    _step,
    _extent,
    _rank,
    _whole_rows,
    _corner,
)

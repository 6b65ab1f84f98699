"""Our tensor maps against those that CuTe computes for the same problems in its own unit tests.

Run `python -m bench.maps.cute_comparison [--json FILE]`. A problem is a tensor, the tile of a block, and whether the
tile is loaded or stored. Where CuTe's test swizzles shared memory, threads read the tile, so that bank conflicts count;
else nobody does. CuTe's tests also fix how the tile lies in shared memory, which a user of LegalSAT leaves open.

Both maps are charged by `legalsat.extract.cost.cost` for one end of the same movement; boxes a tile and conflicts are
all that can differ. A multicast box lands in every block of the cluster, and each block asks for its share; that L2 is
then read once for all of them is in no cost here, and no plan of ours does it. Exit code 1 if CuTe's map is cheaper
anywhere, or if a map's box brings other bytes than the tile's.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import legalsat as ls
from bench.machine import DATA, write
from legalsat.extract.cost.cost import Work, cost_of, order
from legalsat.operators import Copy
from legalsat.plans.movement_plan import MovementPlan
from legalsat.targets import GRANULE_BYTES, target
from legalsat.units.tensor_map import MAP_TYPES, driver_value

GOLDEN = DATA / "cutlass_tma_encode.json"
TARGET = "h200"
BANK_GROUPS = 8  # of 16 bytes: what eight threads that read 16 bytes each can take at once

BY_THREADS = "no map: ours stores by threads"
IDENTICAL = "identical"
EQUAL = "same cost, other fields"
OURS, CUTES = "ours cheaper", "CuTe's cheaper"

Mode = tuple[int, int, int]
"""Extent, stride and tile in elements."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One problem.

    Attributes:
        test, side, dtype: the test of CuTe, "source" for a load or "target" for a store, the element type.
        modes: extent:stride/tile in elements, fastest first.
        verdict: who is cheaper.
        why: what the maps differ by, empty where they are identical.
        ours, cutes: dims, strides in bytes, box, swizzle, data type; boxes a tile, conflicts, predicted nanoseconds.
    """

    test: str
    side: str
    dtype: str
    modes: tuple[str, ...]
    verdict: str
    why: tuple[str, ...]
    ours: dict[str, Any]
    cutes: dict[str, Any]


def leaves(value: Any) -> list[int]:
    """Return the numbers of a nested list, from left to right."""
    return [n for one in value for n in leaves(one)] if isinstance(value, list) else [value]


def tiles(shape: Any, tile: Any) -> list[int]:
    """Return how many elements of each leaf of a shape a tile spans, filling the fastest leaf first.

    A tile's list goes with as many leaves from the left, and spans one element of the others.
    """
    if isinstance(tile, list) and isinstance(shape, list):
        wanted = [*tile, *[1] * (len(shape) - len(tile))]
        return [n for one, t in zip(shape, wanted, strict=True) for n in tiles(one, t)]
    extents, found = leaves(shape), []
    (left,) = leaves(tile)
    for extent in extents[:-1]:
        found.append(min(left, extent))
        left = -(-left // extent)
    return [*found, left]


def modes_of(entry: dict[str, Any]) -> list[Mode]:
    """Return the tensor's modes with their tiles, fastest first, without those that repeat one place in both memories.

    A complex number is two real ones.
    """
    gmem, smem = entry["gmem"], entry["smem"].get("layout", entry["smem"])
    shape, stride = ([value] if not isinstance(value, list) else value for value in (gmem["shape"], gmem["stride"]))
    found: list[Mode] = []
    repeated = [n for n in smem["stride"] if n == 0] if isinstance(smem["stride"], list) else []
    for extents, strides, tile in zip(shape, stride, entry["cta_tile"], strict=True):
        for n, s, t in zip(leaves(extents), leaves(strides), tiles(extents, tile), strict=True):
            if s or not repeated:
                found.append((n, s, t))
    if entry["dtype"] == "complex128":
        found = [(2, 1, 2), *((n, 2 * s, t) for n, s, t in found)]
    return sorted(found, key=lambda mode: (mode[1] == 0, mode[1]))


def planned(entry: dict[str, Any]) -> MovementPlan:
    """Return our plan of the problem as a user would state it."""
    modes = modes_of(entry)[::-1]
    dtype = {"complex128": "fp64", "float16": "fp16", "float64": "fp64", "int8": "i8"}[entry["dtype"]]
    shape, strides, tile = zip(*modes, strict=True)
    tensor = ls.Tensor(shape, dtype, strides)
    consumer = "threads" if "swizzle" in entry["smem"] else None
    ends = (ls.Tensor(shape, dtype), tensor) if entry["op"] == "store" else (tensor, None)
    return ls.synthesize(Copy(*ends, tile=tile, consumer=consumer), TARGET, means=("tma",))  # type: ignore[arg-type]


def cutes_map(encode: dict[str, Any]) -> ls.TensorMap:
    """Return the arguments that CuTe computes as a tensor map."""
    return ls.TensorMap(
        dtype=encode["dataType"],
        global_dim=tuple(encode["globalDim"]),
        global_stride=tuple(encode["globalStrides"]),
        box=tuple(encode["boxDim"]),
        element_stride=tuple(encode["elementStrides"]),
        interleave=encode["interleave"],
        swizzle=encode["swizzle"],
        l2_promotion=encode["l2Promotion"],
        oob_fill=encode["oobFill"],
    )


def conflicts(tm: ls.TensorMap, *, read: bool) -> int:
    """Return how often eight threads that read 16 bytes of eight rows each hit the same banks, 1 where nobody reads.

    Plain rows of an odd number of granules take turns through the banks, and so do rows that fill a swizzle's span.
    """
    plain = math.gcd(tm.box[0] * item_bytes(tm) // GRANULE_BYTES, BANK_GROUPS)
    return plain if read and tm.swizzle == "none" else 1


def item_bytes(tm: ls.TensorMap) -> int:
    """Return the bytes of an element of a tensor map."""
    return MAP_TYPES[driver_value("dtype", tm.dtype)].bits // 8


def merged(tm: ls.TensorMap) -> list[tuple[int, int, int]]:
    """Return extent, stride and box of each dimension in bytes, fastest first, neighbours in one where memory goes on.

    A box goes on where it is whole along the inner neighbour, or one along the outer. Along an extent of one it only
    overhangs, wherever that is.
    """
    item = item_bytes(tm)
    first = (tm.global_dim[0] * item, 1, tm.box[0] * item)
    outer = sorted(zip(tm.global_dim[1:], tm.global_stride, tm.box[1:], strict=True), key=lambda dim: dim[1])
    dims = [first]
    for extent, stride, box in outer:
        n, step, span = dims[-1]
        if stride == n * step and (span == n or (box == 1 and n % span == 0)):
            dims[-1] = (n * extent, step, span * box)
        elif extent == 1:
            dims[-1] = (n, step, span * box)
        else:
            dims.append((extent, stride, box))
    return dims


def tile_bytes(modes: Sequence[Mode], item: int) -> set[int]:
    """Return where the first tile lies, in bytes from the tensor's base."""
    at = np.zeros(1, dtype=np.int64)
    for extent, stride, tile in modes:
        at = (at[:, None] + np.arange(min(extent, tile)) * stride).ravel()
    return set((at[:, None] * item + np.arange(item)).ravel().tolist())


def box_bytes(tm: ls.TensorMap) -> set[int]:
    """Return which bytes of the tensor its first box brings."""
    image = ls.smem_image(tm, (0,) * len(tm.box))
    return set(image[image >= 0].tolist())


def differences(entry: dict[str, Any], ours: ls.TensorMap, cutes: ls.TensorMap) -> tuple[str, ...]:
    """Return the classes of what two maps of a problem differ by."""
    found = []
    if ours.dtype != cutes.dtype:
        found.append("data type: words of another size or type move the same bits")
    if entry["cluster"] > 1:
        found.append("multicast: each block of the cluster asks for its share of the tile, for all of them")
    elif merged(ours) != merged(cutes):
        if math.prod(cutes.global_dim) * item_bytes(cutes) != math.prod(ours.global_dim) * item_bytes(ours):
            found.append("folded: modes beyond the fifth share a dimension, which spans more than the tensor")
        elif ours.box == cutes.box:
            found.append("dimensions: cut elsewhere, with the same box")
        else:
            found.append("shared layout: CuTe's is given by its test, ours is chosen with the box")
    elif (ours.global_dim, ours.box) != (cutes.global_dim, cutes.box) and ours.dtype == cutes.dtype:
        found.append("dimensions: the same once neighbours are merged")
    if ours.swizzle != cutes.swizzle:
        found.append("swizzle: ours takes the banks in turn, or is not needed")
    return tuple(found)


def compared(entry: dict[str, Any]) -> Comparison:
    """Return what both maps of one problem come to.

    Raises:
        AssertionError: a map's first box brings bytes outside the first tile, so the problem was misread.
    """
    modes, plan, cutes = modes_of(entry), planned(entry), cutes_map(entry["encode"])
    at = int(entry["op"] == "store")
    ours = plan.tensor_maps[at] if at < len(plan.tensor_maps) else None
    item = plan.operator.source.dtype.bits // 8
    tile, whole = tile_bytes(modes, item), math.prod(tile for _, _, tile in modes) * item
    for tm in (ours, cutes):
        assert tm is None or box_bytes(tm) <= tile, f"a box of {entry['test']} leaves its tile"
    read = plan.operator.consumer is not None
    # A multicast box lands in every block of the cluster, so that each block asks for its share of the boxes.
    theirs, cute_rank = _side(plan, at, cutes, read=read, boxes=whole // ls.tx_bytes(cutes) // entry["cluster"])
    if ours is None:
        mine, our_rank = {"stored_by": plan.store, "nanoseconds": plan.cost.nanoseconds}, order(plan.cost)
        why: tuple[str, ...] = (BY_THREADS,)
    else:
        mine, our_rank = _side(plan, at, ours, read=read, boxes=whole // ls.tx_bytes(ours))
        why = differences(entry, ours, cutes)
    verdict = OURS if our_rank < cute_rank else CUTES if our_rank > cute_rank else EQUAL if why else IDENTICAL
    return Comparison(
        test=entry["test"],
        side="target" if at else "source",
        dtype=entry["dtype"],
        modes=tuple(f"{n}:{s}/{t}" for n, s, t in modes),
        verdict=verdict,
        why=why,
        ours=mine,
        cutes=theirs,
    )


def _side(
    plan: MovementPlan, at: int, tm: ls.TensorMap, *, read: bool, boxes: int
) -> tuple[dict[str, Any], tuple[float, ...]]:
    """Return a map in words, and what its end of the movement costs: of a store, with the plan's load before it."""
    load, store = plan.views
    tile = math.prod(mode.tile for mode in plan.access.modes) * plan.access.word // 8
    before = tile // ls.tx_bytes(plan.tensor_maps[0]) if at else 0
    repeats = conflicts(tm, read=read)
    work = Work(boxes=before + boxes, conflicts=repeats, shared_bytes=tile)
    cost = cost_of(plan.access, (load, store), work, target(TARGET))
    fields = {
        "dtype": tm.dtype,
        "dims": tm.global_dim,
        "strides": tm.global_stride,
        "box": tm.box,
        "swizzle": tm.swizzle,
        "boxes_per_tile": boxes,
        "conflicts": repeats,
        "nanoseconds": cost.nanoseconds,
    }
    return fields, order(cost)


def measure(path: Path = GOLDEN) -> list[Comparison]:
    """Compare every problem of the file."""
    return [compared(entry) for entry in json.loads(path.read_text(encoding="utf-8"))["entries"]]


def report(found: Sequence[Comparison]) -> str:
    """Return the comparison in words."""
    verdicts = Counter(one.verdict for one in found)
    reasons = Counter((one.verdict, reason) for one in found for reason in one.why)
    lines = [f"{len(found)} problems"]
    for verdict in (IDENTICAL, EQUAL, OURS, CUTES):
        lines.append(f"{verdict}: {verdicts[verdict]}")
        lines += [f"  {count:3} {reason}" for (of, reason), count in reasons.most_common() if of == verdict]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.maps.cute_comparison", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the comparison there")
    given = parser.parse_args(arguments)
    found = measure()
    print(report(found))
    if given.json:
        verdicts = Counter(one.verdict for one in found)
        write(given.json, {"problems": len(found), **verdicts, "comparisons": [asdict(one) for one in found]})
    return int(any(one.verdict == CUTES for one in found))


if __name__ == "__main__":
    sys.exit(main())

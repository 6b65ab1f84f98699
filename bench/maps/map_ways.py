"""Every way to see the tensor of a map: with its dimensions merged, its steps folded, its bytes as other words.

What a tensor map describes is the same in all of them. See `bench.maps.map_exhaustive`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from legalsat.units.tensor_map import MAP_TYPES, TensorMap, driver_value

Parts = frozenset[str]
NOTHING: Parts = frozenset()
SLICES = (0, 16, 32)  # bytes that dimension 0 counts, by interleave
MOST_STATES = 64


@dataclass(frozen=True)
class Dimensions:
    """A way to see the tensor: its dimensions with another rank, steps or words; what changed for that."""

    code: int
    interleave: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    steps: tuple[int, ...]
    box: tuple[int, ...]
    parts: Parts = NOTHING
    merges: int = 0

    @property
    def bits(self) -> int:
        """Of a step along dimension 0."""
        return 8 * SLICES[self.interleave] if self.interleave in (1, 2) else MAP_TYPES[self.code].bits


def ways(tm: TensorMap) -> Iterator[Dimensions]:
    """Yield every way to see the tensor."""
    code, own = driver_value("dtype", tm.dtype), driver_value("interleave", tm.interleave)
    interleaves = [own] if own <= 2 else [0]
    if own in (1, 2) and (tm.rank < 3 or MAP_TYPES[code].bits == 6):
        interleaves.append(0)
    box = tm.box if tm.mode == "tiled" else (tm.channels, tm.pixels)
    for interleave in interleaves:
        parts = NOTHING if interleave == own else frozenset({"interleave"})
        start = Dimensions(code, interleave, tm.global_dim, tm.global_stride, tm.element_stride, box, parts)
        stepped = _with_steps(start, tm)
        for seen in _ranks(stepped, tm) if stepped else ():
            yield from _types(seen, tm)


def _with_steps(seen: Dimensions, tm: TensorMap) -> Dimensions | None:
    dims, strides, steps, box = (list(v) for v in (seen.dims, seen.strides, seen.steps, seen.box))
    for d, step in enumerate(seen.steps):
        if step in range(1, 9):
            continue
        if step == 0 or (d == 0 and seen.interleave == 0):
            steps[d] = 1
        elif d > 0 and tm.mode == "tiled":
            steps[d] = 1
            strides[d - 1] *= step
            dims[d], box[d] = -(-dims[d] // step), -(-box[d] // step)
        else:
            return None
    if tuple(steps) == seen.steps:
        return seen
    return replace(
        seen,
        dims=tuple(dims),
        strides=tuple(strides),
        steps=tuple(steps),
        box=tuple(box),
        parts=seen.parts | {"element_stride"},
    )


def _ranks(seen: Dimensions, tm: TensorMap) -> Iterator[Dimensions]:
    """Yield the dimensions as they are and after every series of merges, drops where there are too many."""
    if tm.mode != "tiled":
        yield seen
        return
    rank = len(seen.dims)
    if seen.interleave and rank < 3:
        unit = SLICES[seen.interleave]
        end = seen.strides[-1] * seen.dims[-1] if seen.strides else seen.dims[0] * unit
        more, stride = (1,) * (3 - rank), -(-max(end, 1) // unit) * unit
        yield replace(
            seen,
            dims=seen.dims + more,
            strides=seen.strides + (stride,) * (3 - rank),
            steps=seen.steps + more,
            box=seen.box + more,
            parts=seen.parts | {"rank"},
        )
        return
    excess = max(0, rank - 5)
    idle = [d for d in range(1, rank) if seen.dims[d] == 1 and seen.box[d] == 1]
    seen_before: set[Any] = set()
    for count in range(min(excess, len(idle)) + 1):
        for dropped in itertools.islice(itertools.combinations(idle, count), MOST_STATES):
            kept = [d for d in range(rank) if d not in dropped]
            fewer = replace(
                seen,
                dims=tuple(seen.dims[d] for d in kept),
                strides=tuple(seen.strides[d - 1] for d in kept[1:]),
                steps=tuple(seen.steps[d] for d in kept),
                box=tuple(seen.box[d] for d in kept),
                parts=seen.parts | {"rank"} if dropped else seen.parts,
            )
            yield from _merges(fewer, seen_before)


def _merges(seen: Dimensions, seen_before: set[Any]) -> Iterator[Dimensions]:
    state = (seen.dims, seen.strides, seen.box, seen.merges)
    if state in seen_before:
        return
    seen_before.add(state)
    if len(seen.dims) <= 5:
        yield seen
    for d in range(len(seen.dims) - 1):
        step = seen.bits if d == 0 else 8 * seen.strides[d - 1]
        if 8 * seen.strides[d] != step * seen.dims[d] or seen.steps[d] != 1 or seen.steps[d + 1] != 1:
            continue
        inner, one = seen.box[d], seen.box[d + 1]
        if inner == seen.dims[d] or (one == 1 and inner and seen.dims[d] % inner == 0):
            yield from _merges(
                replace(
                    seen,
                    dims=(*seen.dims[:d], seen.dims[d] * seen.dims[d + 1], *seen.dims[d + 2 :]),
                    strides=(*seen.strides[:d], *seen.strides[d + 1 :]),
                    steps=(*seen.steps[:d], *seen.steps[d + 1 :]),
                    box=(*seen.box[:d], inner * one, *seen.box[d + 2 :]),
                    parts=seen.parts | {"rank"},
                    merges=seen.merges + 1,
                ),
                seen_before,
            )


def _types(seen: Dimensions, tm: TensorMap) -> Iterator[Dimensions]:
    """Yield the same bytes in words of other types."""
    yield seen
    own = MAP_TYPES[seen.code]
    nan_of_integers = driver_value("oob_fill", tm.oob_fill) == 1 and not own.is_float
    for code, other in enumerate(MAP_TYPES):
        parts = seen.parts | {"dtype"}
        if nan_of_integers and other.is_float and other.bits == own.bits:
            yield replace(seen, code=code, parts=parts)
        if seen.interleave or own.name in ("f32_ftz", "tf32", "tf32_ftz"):
            continue
        if own.name == "16u4_align16b" and other.name == "16u4_align8b":
            yield replace(seen, code=code, parts=parts)
        if other.name not in ("u8", "u16", "u32", "u64") or other.bits == own.bits:
            continue
        extent, inner = seen.dims[0] * own.bits / other.bits, seen.box[0] * own.bits / other.bits
        if extent == int(extent) and inner == int(inner):
            dims, box = (int(extent), *seen.dims[1:]), (int(inner), *seen.box[1:])
            yield replace(seen, code=code, parts=parts, dims=dims, box=box)

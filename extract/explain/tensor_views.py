"""Other axes on the same elements: axes of one element left out, and neighbours merged whose memory continues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from legalsat.extract.search.rows import axes_of
from legalsat.tensor import Tensor, plain

MOST_SPLIT = 8  # axes of which every way to merge some is tried; of more the one that leaves the fewest


@dataclass(frozen=True, slots=True)
class Viewed:
    """A tensor seen with fewer axes.

    Attributes:
        tensor: what is seen.
        tile: its tile, of the same elements; None where none is asked for.
        groups: for each axis of it those of the viewed tensor, slowest first.
        dropped: axes of one element that it lacks.
    """

    tensor: Tensor
    tile: tuple[int, ...] | None
    groups: tuple[tuple[int, ...], ...]
    dropped: tuple[int, ...]

    @property
    def words(self) -> str:
        """What to do, in words."""
        said = [f"view axes {_list(group)} as one of {n}" for group, n in self._merged]
        some = "axis" if len(self.dropped) == 1 else "axes"
        said += [f"leave {some} {_list(self.dropped)} of 1 element out"] if self.dropped else []
        return " and ".join(said)

    @property
    def _merged(self) -> list[tuple[tuple[int, ...], int]]:
        shape = plain(self.tensor.shape)
        return [(group, shape[axis]) for axis, group in enumerate(self.groups) if len(group) > 1]

    def strides_of(self, viewed: Tensor, like: Tensor) -> tuple[int, ...]:
        """Return the strides that `like`, the tensor before the view, has where the view lies as `viewed`."""
        strides, shape = list(plain(like.strides)), plain(like.shape)
        for group, stride in zip(self.groups, plain(viewed.strides), strict=True):
            step = stride
            for axis in sorted(group, key=lambda a: (strides[a], -a)):
                strides[axis] = step
                step *= shape[axis]
        return tuple(strides)


def views_of_tensor(tensor: Tensor, tile: tuple[int, ...] | None) -> Iterator[Viewed]:
    """Yield views with fewer axes, those that merge the fewest first; axes of one element stay, or are left out."""
    shape = plain(tensor.shape)
    units = tuple(a for a in range(tensor.rank) if shape[a] == 1 and (tile is None or tile[a] == 1))
    long = [a for a in axes_of(tensor, tile) if a not in units]
    runs = _runs(tensor, tile, long) if len(long) <= MOST_SPLIT else iter((_longest(tensor, tile, long),))
    for groups in sorted(runs, key=lambda one: (-len(one), one)):
        if len(groups) < len(long):
            yield _made(tensor, tile, [*groups, *([a] for a in units)], ())
        if units and groups:
            yield _made(tensor, tile, groups, units)


def _runs(tensor: Tensor, tile: tuple[int, ...] | None, order: list[int]) -> Iterator[list[list[int]]]:
    """Yield all ways to cut axes, fastest first, into runs that are one axis each."""
    if not order:
        yield []
        return
    for end in range(1, len(order) + 1):
        if end > 1 and not _merge(tensor, tile, order[: end - 1], order[end - 1]):
            return
        for rest in _runs(tensor, tile, order[end:]):
            yield [order[:end], *rest]


def _longest(tensor: Tensor, tile: tuple[int, ...] | None, order: list[int]) -> list[list[int]]:
    """Return the runs that leave the fewest axes."""
    fewest: list[list[int]] = []
    for axis in order:
        if fewest and _merge(tensor, tile, fewest[-1], axis):
            fewest[-1].append(axis)
        else:
            fewest.append([axis])
    return fewest


def _merge(tensor: Tensor, tile: tuple[int, ...] | None, inner: list[int], outer: int) -> bool:
    """Whether memory and the tile go on from merged axes to the next one: rows of a tile lie whole, one by one."""
    shape, strides = plain(tensor.shape), plain(tensor.strides)
    if strides[outer] != shape[inner[-1]] * strides[inner[-1]] or not strides[outer]:
        return False
    return tile is None or all(tile[a] == shape[a] for a in inner)


def _made(tensor: Tensor, tile: tuple[int, ...] | None, groups: list[list[int]], dropped: tuple[int, ...]) -> Viewed:
    shape, strides = plain(tensor.shape), plain(tensor.strides)
    ordered = sorted(groups, key=min)
    extents, steps, spans = [], [], []
    for group in ordered:
        extent, span = 1, 1
        for axis in group:
            extent *= shape[axis]
            span *= tile[axis] if tile is not None else 1
        extents.append(extent)
        steps.append(strides[group[0]])
        spans.append(span)
    return Viewed(
        Tensor(extents, tensor.dtype, steps, tensor.align, tensor.offset),
        None if tile is None else tuple(spans),
        tuple(tuple(sorted(group)) for group in ordered),
        dropped,
    )


def _list(axes: tuple[int, ...]) -> str:
    *first, last = map(str, axes)
    return f"{', '.join(first)} and {last}" if first else last

"""Many tensor maps at once: the driver's arguments as numpy arrays, judged by the same rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legalsat.rule import Rule
from legalsat.targets import Target
from legalsat.units.sites import TmaCopy

# Extents beyond these are refused by their own rules; saturating keeps products of five of them inside 63 bits.
_BOX_CEILING = 2**11
_DIM_CEILING = 2**58


def batches(requests: NDArray[Any]) -> Iterator[tuple[NDArray[np.intp], TmaCopy]]:
    """Split records of encode-call arguments by kind and rank.

    Args:
        requests: structured array with the fields `kind` (0 tiled, 1 im2col), `rank`, `dtype`, `interleave`,
            `swizzle`, `l2_promotion`, `oob_fill`, `map_offset`, `address`, `global_dim`, `global_stride`, `box`
            (im2col: channels and pixels in the first two), `lower`, `upper`, `element_stride`; entries past the rank
            are ignored.

    Yields:
        Indices into `requests`, and the site whose numbers are arrays over them.
    """
    for kind in (0, 1):
        for rank in range(int(requests["rank"].max(initial=0)) + 1):
            index = np.flatnonzero((requests["kind"] == kind) & (requests["rank"] == rank))
            if index.size:
                yield index, _site(requests[index], tiled=kind == 0, rank=rank)


def _saturated(values: NDArray[Any], ceiling: int) -> NDArray[np.int64]:
    wide = values if values.dtype == np.uint64 else values.astype(np.int64)
    small: NDArray[np.int64] = np.minimum(wide, np.asarray(ceiling, dtype=wide.dtype)).astype(np.int64)
    return small


def _site(records: NDArray[Any], *, tiled: bool, rank: int) -> TmaCopy:
    def column(name: str) -> NDArray[np.int64]:
        return records[name].astype(np.int64)

    def columns(name: str, count: int, ceiling: int = _DIM_CEILING) -> tuple[NDArray[np.int64], ...]:
        held = min(count, records[name].shape[1])
        return tuple(_saturated(records[name][:, i], ceiling) for i in range(held))

    return TmaCopy(
        tiled=tiled,
        rank=rank,
        dtype=column("dtype"),
        interleave=column("interleave"),
        swizzle=column("swizzle"),
        l2_promotion=column("l2_promotion"),
        oob_fill=column("oob_fill"),
        map_offset=column("map_offset"),
        address=column("address"),  # two's complement keeps the remainders
        global_dim=columns("global_dim", rank),
        global_stride=columns("global_stride", max(rank - 1, 0)),
        element_stride=columns("element_stride", rank),
        box=columns("box", rank, _BOX_CEILING) if tiled else (),
        lower_corner=() if tiled else columns("lower", max(rank - 2, 0)),
        upper_corner=() if tiled else columns("upper", max(rank - 2, 0)),
        channels=0 if tiled else columns("box", 1)[0],
        pixels=0 if tiled else _saturated(records["box"][:, 1], 2**20),
    )


def failing(requests: NDArray[Any], target: Target, rules: Sequence[Rule]) -> dict[str, NDArray[np.bool_]]:
    """Return, by rule code, which requests violate the rule; arrays of one bool a request."""
    result = {rule.code: np.zeros(len(requests), dtype=np.bool_) for rule in rules}
    for index, site in batches(requests):
        for rule in rules:
            for requirement in rule(site, target):
                result[rule.code][index] |= ~np.broadcast_to(requirement.condition, index.shape)
    return result

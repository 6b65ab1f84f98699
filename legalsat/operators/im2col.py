"""Windows of a convolution over images, as the matrix that its product reads."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from legalsat.checks import integers, one_of
from legalsat.errors import InvalidInput
from legalsat.operators.access import Access, Mode
from legalsat.operators.moves import INTO, MATRIX_CONSUMERS, alike, as_tensor, axis_names, reader_of
from legalsat.operators.operator import Move, distance, fastest_first
from legalsat.options import Consumer, Into
from legalsat.tensor import Tensor, plain
from legalsat.units.windows import MAX_PIXELS, Sweep, paddings, per_axis, sides, spread_over

if TYPE_CHECKING:
    from numpy.typing import NDArray

SPATIAL_RANKS = (3, 4, 5)  # of batches of images with 1, 2 or 3 spatial axes


@dataclass(frozen=True, slots=True, init=False)
class Im2col(Move):
    """Copy what the windows of a convolution see of a batch of images: the matrix that its product reads.

    Images of shape (N, H, W, C) and a filter of R x S taps give (N, P, Q, R, S, C), N*P*Q pixels by R*S*C columns.
    P = floor((H + before + after - dilation * (R - 1) - 1) / stride) + 1, and Q likewise. Outside an image lie zeros.

    Attributes:
        source: images of shape (N, W, C), (N, H, W, C) or (N, D, H, W, C), in any strides.
        filter: taps along each spatial axis. An argument may be one number for all axes, here and below.
        stride: pixels from one window to the next along each spatial axis.
        padding: pixels of zeros before and after the image along each spatial axis; one number stands for both sides.
        dilation: pixels from one tap to the next along each spatial axis.
        target: the tensor to write; dense and row-major when left out.
        tile: pixels and columns of a tile: pixels in the order of the result, and columns of one tap or of whole ones.
            Chosen when left out.
        consumer: who reads the tile in shared memory: None for nobody, "threads", "wgmma.a", "wgmma.b",
            "tcgen05.a", "tcgen05.b".
        into: "global", or "shared" for tiles that are loaded and stored by nobody, as `Copy` has it.
        axes: a name for each axis of the images, such as ("n", "h", "w", "c"), in which coordinates are printed.

    Raises:
        InvalidInput: the images have symbolic extents or another rank, the filter fits into no image, or a number has
            no meaning.
    """

    source: Tensor
    filter: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    target: Tensor
    tile: tuple[int, ...] | None
    consumer: Consumer | None
    into: Into
    axes: tuple[str, ...]

    def __init__(
        self,
        source: Any,
        filter: Any,
        *,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        target: Tensor | None = None,
        tile: Iterable[int] | None = None,
        consumer: Consumer | None = None,
        into: Into = "global",
        axes: Iterable[str] = (),
    ) -> None:
        source = as_tensor(source)
        if source.dims:
            raise InvalidInput(f"images are {source}; bind their dims first")
        if source.rank not in SPATIAL_RANKS:
            raise InvalidInput(f"images have {source.rank} axes; give N, W, C or N, H, W, C or N, D, H, W, C")
        rank = source.rank - 2
        put = object.__setattr__
        put(self, "source", source)
        put(self, "filter", per_axis(filter, "filter", rank))
        put(self, "stride", per_axis(stride, "stride", rank))
        put(self, "padding", paddings(padding, rank))
        put(self, "dilation", per_axis(dilation, "dilation", rank))
        for axis, sweep in enumerate(self.sweeps):
            if sweep.windows < 1:
                room = sweep.extent + sweep.before + sweep.after
                raise InvalidInput(
                    f"filter spans {sweep.reach + 1} pixels of spatial axis {axis}, which has {room} with its padding; "
                    "give a smaller filter, or more padding"
                )
            if sweep.windows > MAX_PIXELS:
                raise InvalidInput(f"spatial axis {axis} has {sweep.windows} windows; give at most {MAX_PIXELS}")
        shape = (source.shape[0], *(s.windows for s in self.sweeps), *self.filter, source.shape[-1])
        result = Tensor(shape, source.dtype)
        put(self, "into", one_of(into, "into", INTO))
        put(self, "axes", axis_names(axes, source.rank))
        put(self, "target", alike(result, result if target is None or self.loads_only else target))
        if self.loads_only and target is not None and as_tensor(target) != result:
            raise InvalidInput("columns into shared memory are stored nowhere; leave out the target, or into")
        put(self, "consumer", reader_of(consumer, self.into))
        put(self, "tile", None if tile is None else self._tile(tile))

    def _tile(self, tile: Any) -> tuple[int, ...]:
        pixels, columns = integers(tile, "tile", low=1, high=2**31, length=2)
        channels, *filter_ = plain((self.source.shape[-1], *reversed(self.filter)))
        _, *taps = spread_over(columns, (channels, *filter_))
        if any(n % tap for n, tap in zip(filter_, taps, strict=True)):
            raise InvalidInput(
                f"tile has {columns} columns, which end inside a row of the filter; give at most {channels}, those of "
                "a tap, or those of a number of taps that divides a row"
            )
        if math.prod(taps) > 1 and self.consumer in MATRIX_CONSUMERS:
            raise InvalidInput(
                f"tile has {columns} columns, but {self.consumer} reads one tap at once; give at most {channels}"
            )
        return pixels, columns

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        """How the window moves along each spatial axis, slowest first."""
        extents = plain(self.source.shape[1:-1])
        columns = zip(extents, self.filter, self.stride, self.dilation, self.padding, strict=True)
        return tuple(Sweep(n, taps, step, apart, *pads) for n, taps, step, apart, pads in columns)

    @property
    def fills(self) -> bool:
        """Whether some window leaves its image, so that zeros are filled in."""
        return any(sweep.leaves for sweep in self.sweeps)

    @property
    def name(self) -> str:
        """A convolution's."""
        return "conv"

    def _meaning(self, *operands: NDArray[Any]) -> NDArray[Any]:
        """Return what each tap of each window meets in the images with zeros around them."""
        import numpy as np  # noqa: PLC0415 - only what a user computes needs it

        images = np.pad(operands[0], [(0, 0), *self.padding, (0, 0)])
        axes, result = len(self.filter), np.empty(plain(self.target.shape), images.dtype)
        for taps in np.ndindex(*self.filter):
            met = [slice(d * t, None, step) for d, t, step in zip(self.dilation, taps, self.stride, strict=True)]
            seen = images[(slice(None), *met)][(slice(None), *(slice(sweep.windows) for sweep in self.sweeps))]
            result[(slice(None), *(slice(None) for _ in range(axes)), *taps)] = seen
        return result

    def access(self, tile: tuple[int, ...] | None = None) -> Access:
        """Return a mode for channels, and for the taps and the windows of each axis; `tile` of pixels and columns."""
        modes = window_modes(self, tile)
        return Access(self.source.dtype.bits, tuple(sorted(modes, key=fastest_first)))

    def __str__(self) -> str:
        taps = " x ".join(map(str, self.filter))
        parts = [f"im2col of {self.source}, filter {taps}"]
        for what, numbers, usual in (
            ("stride", self.stride, 1),
            ("padding", self.padding, (0, 0)),
            ("dilation", self.dilation, 1),
        ):
            said = [sides(number) for number in numbers]
            if any(number != usual for number in numbers):
                parts.append(f"{what} {' x '.join(said) if len(set(said)) > 1 else said[0]}")
        tile = "" if self.tile is None else f", tile {self.tile[0]} x {self.tile[1]}"
        return f"{', '.join(parts)}{tile}{', into shared memory' * self.loads_only}"


def window_modes(operator: Move, tile: tuple[int, ...] | None = None) -> tuple[Mode, ...]:
    """Return the modes of the windows, fastest first: channels, taps of each axis, windows of each axis, images."""
    source, target, bits = operator.source, operator.target, operator.source.dtype.bits
    axes = range(source.rank - 3, -1, -1)
    strides, steps = plain(source.strides), plain(target.strides)
    sweeps, rank = operator.sweeps, len(operator.sweeps)
    rows = [
        (plain(source.shape)[-1], strides[-1] if source.shape[-1] != 1 else 1, steps[-1]),
        *((sweeps[a].taps, sweeps[a].dilation * strides[1 + a], steps[1 + rank + a]) for a in axes),
        *((sweeps[a].windows, sweeps[a].step * strides[1 + a], steps[1 + a]) for a in axes),
        (plain(source.shape)[0], strides[0], steps[0]),
    ]
    extents = [row[0] for row in rows]
    if tile is None:
        spans: tuple[int, ...] = tuple(extents)
    else:
        spans = (*spread_over(tile[1], extents[: rank + 1]), *spread_over(tile[0], extents[rank + 1 :]))
    return tuple(
        Mode(n, distance(n, s * bits), distance(n, d * bits), t) for (n, s, d), t in zip(rows, spans, strict=True)
    )

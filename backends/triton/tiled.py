"""What both kinds of kernels know of the words that they move: modes cut into tiles, some with margins."""

from __future__ import annotations

from legalsat.view.margins import Margin


class Tiled:
    """Joint modes of words: their extents, the tile, and which of the words the source has, where it lacks some."""

    __slots__ = ()
    extent: tuple[int, ...]
    tile: tuple[int, ...]
    margins: tuple[Margin, ...]

    @property
    def source_extent(self) -> tuple[int, ...]:
        """Words of every joint mode that the source has."""
        return tuple(margin.held for margin in self.margins) or self.extent

    @property
    def before(self) -> tuple[int, ...]:
        """Words of every joint mode in front of the source's."""
        return tuple(margin.before for margin in self.margins) or (0,) * len(self.extent)

    @property
    def pads(self) -> bool:
        """Whether something is written around the source's words."""
        return self.source_extent != self.extent

    @property
    def tiles(self) -> tuple[int, ...]:
        """Tiles along every joint mode."""
        return tuple(-(-n // t) for n, t in zip(self.extent, self.tile, strict=True))

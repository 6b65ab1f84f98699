"""Which k-tiles of which tiles each cluster has by stream-K: some tiles are cut where shares end, others are whole."""

from __future__ import annotations

from dataclasses import dataclass

from legalsat.plans.product_kernel import LEAST_SHARE


@dataclass(frozen=True, slots=True)
class Part:
    """Some k-tiles of a tile: those from `first` on, up to `end`.

    What is summed up of it is given away by a `place` of the workspace, -1 where the cluster stores the tile, with what
    others give by the places that it `adds`.
    """

    tile: int
    first: int
    end: int
    place: int = -1
    adds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Shares:
    """How tiles are shared out.

    The first tiles, fewer than two for each cluster, are cut, so that each has as many k-tiles of them; parts shorter
    than `LEAST_SHARE` go to a neighbour. A tile's end is its owner's, and what is in front of that, of lower numbers,
    gives its sums away before anything else. Behind its share a cluster has as many whole tiles as all others.

    Attributes:
        clusters: that are launched. tiles: of clusters. k_tiles: of each; one that has fewer lacks them at its end.
    """

    clusters: int
    tiles: int
    k_tiles: int

    @property
    def whole(self) -> int:
        """Tiles that each cluster has whole, behind its share of the others."""
        return max(0, self.tiles // self.clusters - 1)

    @property
    def cut(self) -> int:
        """Tiles that are cut."""
        return self.tiles - self.whole * self.clusters

    def begin(self, cluster: int) -> int:
        """Return with which k-tile of all that are cut a cluster's share begins, and that of the one before ends."""
        each, left = divmod(self.cut * self.k_tiles, self.clusters)
        at = each * cluster + min(cluster, left)
        inside = at % self.k_tiles
        if inside < LEAST_SHARE:
            return at - inside
        return at + self.k_tiles - inside if self.k_tiles - inside < LEAST_SHARE else at

    def parts(self, cluster: int) -> list[Part]:
        """Return what a cluster does, in order: of tiles that are cut the last one first, then those it has whole."""
        first, end = self.begin(cluster), self.begin(cluster + 1)
        found = []
        for tile in range((end - 1) // self.k_tiles, first // self.k_tiles - 1, -1) if end > first else ():
            ahead = tile * self.k_tiles
            begin, behind = max(first, ahead) - ahead, min(end, ahead + self.k_tiles) - ahead
            gives = behind < self.k_tiles
            adds = () if gives or not begin else tuple(self._given(cluster, ahead))
            found.append(Part(tile, begin, behind, cluster if gives else -1, adds))
        own = range(self.cut + cluster, self.tiles, self.clusters)
        return [*found, *(Part(tile, 0, self.k_tiles) for tile in own)]

    def _given(self, owner: int, ahead: int) -> list[int]:
        """Return who has parts of a tile in front of its owner's, the nearest one first."""
        found = []
        for cluster in range(owner - 1, -1, -1):
            begin, end = self.begin(cluster), self.begin(cluster + 1)
            if end <= ahead:
                break
            if begin < end:
                found.append(cluster)
        return found

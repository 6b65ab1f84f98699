"""How a consumer's tile of C leaves."""

from __future__ import annotations

from legalsat.backends.ptx.consumer import OfTile
from legalsat.backends.ptx.cta import Tile
from legalsat.backends.ptx.text import Value


class Store:
    """What a consumer's threads keep of a tile of C on its way out.

    Args:
        consumer: whose accumulators they are. result: C's element type.
    """

    def __init__(self, consumer: OfTile, result: str) -> None:
        self.consumer, self.result = consumer, result
        self.text, self.plan, self.cta = consumer.text, consumer.plan, consumer.cta

    def take(self, tile: Tile) -> None:
        """Take the accumulators of a tile."""
        raise NotImplementedError

    def fetch(self, tile: Tile, accumulator: Value, part: int) -> None:
        """Fetch a part of a tile's accumulator from tensor memory."""
        raise NotImplementedError

    def write(self, part: int, buffer: int) -> None:
        """Lay a part down in a buffer in shared memory."""
        raise NotImplementedError

    def read(self, part: int, buffer: int) -> None:
        """Read a part from there, and write it to C."""
        raise NotImplementedError

    def send(self, part: int, buffer: int) -> None:
        """Have the copy engine write a part to C."""
        raise NotImplementedError

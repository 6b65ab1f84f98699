"""What an example of a rule is."""

from __future__ import annotations

from typing import Any, NamedTuple


class Example(NamedTuple):
    """A site that the rule `code` refuses on a target, and the same site repaired, which no rule refuses there.

    `elsewhere` is another target for the repaired one, where the rule asks something of the chip alone.
    """

    code: str
    refused: Any
    repaired: Any
    target: str = "h200"
    elsewhere: str = ""

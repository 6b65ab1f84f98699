"""Tensor maps that a kernel edits: when they may be edited, and used anew (FACTS TR-07, TR-08, FN-09).

The copy engine reads a map while a copy is under way, through a proxy of its own. So an edit follows the completion of
all copies by the old map; a copy by the new one follows the edit, its release, and an acquire in the block that copies.
The release is tensormap.cp_fenceproxy, which also writes the map, or fence.proxy.tensormap::generic.release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from legalsat.analyses.ptx.clocks import Worker
from legalsat.analyses.ptx.contract import Access, Order

MAP_BYTES, MAP_ALIGNMENT = 128, 64
KEPT = frozenset({"box_dim", "elemtype", "rank"})  # fields from which the bytes of a box follow
# Bits of an element by what tensormap.replace calls its type (FACTS TR-04).
_BITS = (8, 16, 32, 32, 64, 64, 16, 32, 32, 64, 16, 32, 32, 4, 8, 8)


@dataclass(slots=True)
class _Use:
    """A copy by a map: lines of work and times at any of which it is known to be done with the map."""

    ends: tuple[tuple[int, int], ...]
    line: int


@dataclass(slots=True)
class _Edit:
    """The newest edit of a map, its release, and the first acquire of each warp of each CTA after that."""

    made: Access
    released: Access | None = None
    acquired: dict[tuple[int, int], Access] = field(default_factory=dict)


class Maps:
    """The tensor maps of one execution, by address.

    Attributes:
        fields: what is known of a map that is edited, by name.
    """

    def __init__(self, order: Order) -> None:
        self.order = order
        self.fields: dict[int, dict[str, int]] = {}
        self._uses: dict[int, dict[tuple[int, ...], _Use]] = {}
        self._edits: dict[int, _Edit] = {}

    def copy(self, order: Order) -> Maps:
        """Return a copy for another execution, which goes on by itself."""
        found = Maps(order)
        found.fields = {address: dict(held) for address, held in self.fields.items()}
        found._uses = {address: dict(uses) for address, uses in self._uses.items()}
        found._edits = {at: _Edit(one.made, one.released, dict(one.acquired)) for at, one in self._edits.items()}
        return found

    def box(self, address: int) -> int | None:
        """Return the bytes of the box of a map that the kernel has made; None where it has not."""
        held = self.fields.get(address, {})
        rank = held.get("rank", -1) + 1
        extents = [held[f"box_dim {d}"] for d in range(rank) if f"box_dim {d}" in held]
        if not rank or len(extents) < rank:
            return None
        bits = held.get("elemtype", 0)
        return math.prod(extents) * _BITS[bits] // 8 if bits < len(_BITS) else None

    def use(self, worker: Worker, rank: int, address: int, ends: tuple[tuple[int, int], ...], line: int) -> None:
        """Note a copy by a map from a CTA, and check that the map's newest edit comes before and is acquired there."""
        order, edit = self.order, self._edits.get(address)
        if edit is not None:
            fault = ""
            if not order.ordered(edit.made, worker):
                fault = "may begin before the edit is made"
            elif edit.released is None or not order.ordered(edit.released, worker):
                fault = "is not known to follow a release of the edit"
            elif not any(r == rank and order.ordered(one, worker) for (r, _), one in edit.acquired.items()):
                fault = "follows no acquire of the edit in its block"
            if fault:
                message = f"a copy by a tensor map that the kernel edits {fault}"
                order.find("map_edit_not_ordered", line, message, f"edited at line {edit.made.line}")
        key = (line, *(agent for agent, _ in ends))
        self._uses.setdefault(address, {})[key] = _Use(ends, line)

    def edit(self, worker: Worker, lanes: int, address: int, line: int, *, released: bool) -> None:
        """Note an edit of a map, which may be its release too, and check that no copy by the old one is under way."""
        order = self.order
        for use in self._uses.pop(address, {}).values():
            if not any(worker.known[agent] > epoch for agent, epoch in use.ends):
                message = "a tensor map is edited while a copy by it may still be under way"
                order.find("map_edit_not_ordered", line, message, f"copied at line {use.line}")
                break
        made = Access(order.actor(worker, lanes), worker.time, line, "map")
        self._edits[address] = _Edit(made, made if released else None)

    def stored(self, worker: Worker, lanes: int, addresses: Any, line: int) -> None:
        """Note a store by threads to global memory, which may be an edit of a map that copies use."""
        for begin in [addresses] if isinstance(addresses, int) else addresses.tolist():
            for address in {one for one in (*self._uses, *self._edits) if one <= begin < one + MAP_BYTES}:
                self.edit(worker, lanes, address, line, released=False)
            if begin % MAP_ALIGNMENT == 0 and begin not in self._edits:
                self.edit(worker, lanes, int(begin), line, released=False)

    def release(self, worker: Worker, lanes: int, line: int) -> None:
        """Release all edits that a warp knows to be made."""
        for edit in self._edits.values():
            if edit.released is None and self.order.ordered(edit.made, worker):
                edit.released = Access(self.order.actor(worker, lanes), worker.time, line, "map")

    def acquire(self, worker: Worker, rank: int, lanes: int, address: int | None, line: int) -> None:
        """Acquire the edit of a map, or of any where it is not known of which."""
        for one in list(self._edits) if address is None else [address] if address in self._edits else []:
            edit = self._edits[one]
            if edit.released is not None and self.order.ordered(edit.released, worker):
                made = Access(self.order.actor(worker, lanes), worker.time, line, "map")
                edit.acquired.setdefault((rank, worker.index), made)

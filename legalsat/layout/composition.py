"""Composition of two strided layouts: where it is a strided layout again, and which.

The left operand is read as a mixed-radix number system: an index has one digit per mode, the last without bound. A
mode n:r of the right operand composes if its steps of r touch those digits without ever carrying, and modes compose
together if their digits add up without carrying.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legalsat.errors import InvalidInput, NoSuchLayout
from legalsat.layout import Layout, from_modes, make_layout
from legalsat.layout.int_tuple import Basis, IntTuple, StrideTuple, leaves

Modes = list[tuple[int, Any]]


class _Radix:
    """The digits of one left operand, and how far the right operand's modes have filled them."""

    def __init__(self, layout: Layout, modes: Modes) -> None:
        self.layout = layout
        self.modes = modes
        self.reach = [0] * len(modes)
        self.signs: set[bool] = set()

    def compose(self, n: int, r: int, where: str) -> Layout:
        """Return the layout of `self(i * r)` for i below n."""
        if r == 0:
            return Layout(n, 0)
        if len(self.modes) == 1:
            return Layout(n, r * self.modes[0][1])
        sign, step, rest = (-1 if r < 0 else 1), abs(r), n
        found: Modes = []
        for digit, (extent, stride) in enumerate(self.modes[:-1]):
            room = -(-extent // step)  # steps before the digit carries
            if rest > 1 and (why := _carry(rest, step, extent)):
                raise NoSuchLayout(
                    f"mode {where} of the right operand, {n}:{r}, does not compose with {self.layout}: {why}; "
                    "choose an extent and stride that divide it, or pad the layout"
                )
            if room > 1 and rest > 1:
                taken = min(room, rest)
                found.append((taken, sign * step * stride))
                self.reach[digit] += (taken - 1) * step
                rest //= taken
            step = -(-step // extent)
        if n > 1:
            self.signs.add(sign < 0)
        if not found or rest > 1:
            found.append((rest, sign * step * self.modes[-1][1]))
        return from_modes(found)

    def check_carries(self, rhs: Layout) -> None:
        """Raise unless the modes composed so far add up digit by digit."""
        if len(self.modes) == 1:
            return
        if len(self.signs) > 1:
            raise NoSuchLayout(
                f"{rhs} steps both forward and back, which {self.layout} does not take apart mode by mode; "
                "use strides of one sign"
            )
        for (extent, stride), reach in zip(self.modes[:-1], self.reach, strict=False):
            if reach >= extent:
                raise NoSuchLayout(
                    f"modes of {rhs} together reach {reach} in mode {extent}:{stride} of {self.layout} and carry into "
                    "the next; use strides whose sums stay inside one extent"
                )


def _carry(count: int, step: int, extent: int) -> str:
    """Return why `count` steps in a digit of `extent` carry before it ends evenly; nothing if they do not."""
    if step >= extent:
        return f"step {step} is no multiple of extent {extent}" if step % extent else ""
    if (count - 1) * step < extent:
        return ""
    if extent % step:
        return f"step {step} does not divide extent {extent}"
    room = extent // step
    return f"{count} steps of {step} are no whole number of extents {extent}" if count % room else ""


def compose(lhs: Layout, rhs: Layout, simplify: Callable[[Layout], Modes]) -> Layout:
    """Return the layout of `lhs(rhs(c))`, nested as `rhs` or deeper.

    Args:
        lhs: left operand.
        rhs: right operand; its `Basis` strides address modes of `lhs`, integers all of it.
        simplify: returns a layout's coalesced modes, the same function also past its size.
    """
    paths = {d.path if isinstance(d, Basis) else () for d in leaves(rhs.stride)}
    for path in paths:
        if any(path[:k] in paths for k in range(len(path))):
            raise InvalidInput(f"strides of {rhs} address a mode and a part of it; address each mode once")
    parts = {path: lhs[path] if path else lhs for path in paths}
    radices = {path: _Radix(part, simplify(part)) for path, part in parts.items()}

    def composed(shape: IntTuple, stride: StrideTuple, where: str) -> Layout:
        if isinstance(shape, tuple) and isinstance(stride, tuple):
            modes = enumerate(zip(shape, stride, strict=True))
            return make_layout(*(composed(n, d, f"{where}[{i}]" if where else str(i)) for i, (n, d) in modes))
        assert isinstance(shape, int) and not isinstance(stride, tuple)
        path, step = (stride.path, stride.scale) if isinstance(stride, Basis) else ((), stride)
        return radices[path].compose(shape, step, where or "0")

    found = composed(rhs.shape, rhs.stride, "")
    for radix in radices.values():
        radix.check_carries(rhs)
    return found

"""Whether a tensor map describes the memory of a tensor, in whatever order, merged or split its dimensions are.

Both are lists of modes, an extent and a stride in bits. The bits of an element belong to the mode that runs fastest,
so that a map may move the same bytes as another element type. Modes of extent 1 step nowhere. Then every mode of the
map is one of the tensor's, or several of the tensor's in a row (merged), or several of the map's make up one of the
tensor's (split). A mode that is made of parts of two of the tensor's steps through the right bytes in a wrong order,
as where strides were synthesised from the shape of a transposed view, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from legalsat.tensor import Tensor, plain
from legalsat.units.tensor_map import TensorMap


class Mode(NamedTuple):
    """Steps of equal length in memory: how many, how many bits apart, and what they are called."""

    extent: int
    stride: int
    name: str


Modes = tuple[Mode, ...]


def unlike(tm: TensorMap, tensor: Tensor) -> str:
    """Return how the memory that a map describes differs from a tensor's, in words; "" where it does not.

    Addresses are compared where the map has one other than null, as far as the tensor's alignment tells.
    """
    if tm.address and (tm.address - tensor.offset) % tensor.align:
        past = f" and {tensor.offset}" if tensor.offset else ""
        return f"map begins at address {tm.address}, and the tensor at a multiple of {tensor.align} bytes{past}"
    ours, theirs = _of_map(tm), _of_tensor(tensor)
    if _same(ours, theirs):
        return ""
    known, wanted = {m[:2] for m in theirs}, {m[:2] for m in ours}
    wrong = [m.name for m in ours if m[:2] not in known] or [m.name for m in ours]
    right = [m.name for m in theirs if m[:2] not in wanted] or [m.name for m in theirs]
    return f"map has {' and '.join(wrong)}, where the tensor has {' and '.join(right)}"


def _of_map(tm: TensorMap) -> Modes:
    bits = tm.map_type.bits
    inner, *outer = tm.global_dim or (1,)
    modes = [Mode(inner * bits, 1, f"dimension 0 of {inner} elements of {_size(bits)}")]
    for dimension, (extent, stride) in enumerate(zip(outer, tm.global_stride, strict=True), start=1):
        modes.append(Mode(extent, 8 * stride, f"dimension {dimension} of {extent} steps of {stride} bytes"))
    return _in_order(modes)


def _of_tensor(tensor: Tensor) -> Modes:
    bits = tensor.dtype.bits
    modes, inner = [], Mode(bits, 1, f"elements of {_size(bits)}")
    for axis, (extent, stride) in enumerate(zip(plain(tensor.shape), plain(tensor.strides), strict=True)):
        if stride == 1 and extent > 1 and inner.extent == bits:
            inner = Mode(extent * bits, 1, f"axis {axis} of {extent} elements of {_size(bits)}")
        else:
            modes.append(Mode(extent, stride * bits, f"axis {axis} of {extent} steps of {_size(stride * bits)}"))
    return _in_order([inner, *modes])


def _in_order(modes: list[Mode]) -> Modes:
    return tuple(sorted((m for m in modes if m.extent != 1), key=lambda m: m[1::-1]))


def _same(ours: Modes, theirs: Modes) -> bool:
    """Whether modes pair off: one with one, one with several in a row, or several in a row with one."""
    if not ours or not theirs:
        return not ours and not theirs
    first, rest = ours[0], ours[1:]
    for other in (m for m in theirs if m.stride == first.stride):
        left = _without(theirs, other)
        if first.extent >= other.extent:
            pairs = ((rest, one) for one in _made(first, other, left))
        else:
            pairs = ((one, left) for one in _made(other, first, rest))
        if any(_same(*pair) for pair in pairs):
            return True
    return False


def _made(whole: Mode, part: Mode, rest: Modes) -> Iterator[Modes]:
    """Yield what is left of `rest` after `part` and modes of it in a row made up `whole`."""
    if part.extent == whole.extent:
        yield rest
        return
    for following in (m for m in rest if m.stride == part.stride * part.extent):
        extent = part.extent * following.extent
        if whole.extent % extent == 0:
            yield from _made(whole, part._replace(extent=extent), _without(rest, following))


def _without(modes: Modes, one: Mode) -> Modes:
    at = modes.index(one)
    return modes[:at] + modes[at + 1 :]


def _size(bits: int) -> str:
    return f"{bits // 8} byte{'s' * (bits != 8)}" if bits % 8 == 0 else f"{bits} bits"

"""Where a matrix of a program may lie: a tensor, and the buffer that it is a part of if it has none of its own.

A place is free: the e-graph knows values alone, and the extraction chooses among the places here. Lines lie along
either axis, dense or in a pitch of whole granules of 16 bytes, and begin a few bytes into a granule where that puts a
slice at the beginning of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from legalsat.extract.composed.classes import VIEWS, Matrices, Node
from legalsat.logic import round_up
from legalsat.operators.program import Program
from legalsat.targets import GRANULE_BYTES
from legalsat.tensor import Tensor, plain

MOST_PLACES = 64  # of a class


@dataclass(frozen=True, slots=True)
class Home:
    """The buffer that a matrix is written into.

    Attributes:
        value, tensor: the class that fills it, and how that lies.
        start: bytes from its first element to the matrix's.
        result: the number of the result that it is; -1 for none.
    """

    value: int
    tensor: Tensor
    start: int = 0
    result: int = -1


@dataclass(frozen=True, slots=True)
class State:
    """A class that lies in a place: in a buffer of its own, or a view of another's; or written into its home."""

    value: int
    tensor: Tensor
    home: Home | None = None


def own_places(matrices: Matrices, value: int) -> Iterator[Tensor]:
    """Yield the places that a class may have a buffer of its own for."""
    (rows, columns), element = matrices.shapes[value], matrices.types[value]
    granule = max(1, GRANULE_BYTES // element.bytes)
    for along, length in ((1, columns), (0, rows)):
        whole = round_up(length, granule)
        for pitch, phase in [(length, 0), (whole, 0), *((whole, p) for p in _phases(matrices, value, along))]:
            yield Tensor((rows, columns), element, (pitch, 1) if along else (1, pitch), offset=phase)


def _phases(matrices: Matrices, value: int, along: int) -> list[int]:
    """Return the bytes into a granule at which lines must begin so that slices of them begin at one."""
    size = matrices.types[value].bytes
    firsts = {
        node.numbers[1]
        for some in matrices.nodes
        for node in some
        if node.operator == "slice" and node.operands == (value,) and node.numbers[0] == along
    }
    return sorted({-first * size % GRANULE_BYTES for first in firsts} - {0})


def plainness(tensor: Tensor) -> tuple[object, ...]:
    """Return a sort key of places that are as good: rows along the last axis first, dense, at the beginning."""
    strides = plain(tensor.strides)
    return strides[-1] != 1, strides, tensor.offset, tensor.align


def seen(node: Node, tensor: Tensor) -> Tensor:
    """Return how a view of a tensor lies."""
    if node.operator == "transpose":
        return tensor.transposed((1, 0))
    axis, first, count, _ = node.numbers
    return part(tensor, axis, first, count)[0]


def part(tensor: Tensor, axis: int, first: int, count: int) -> tuple[Tensor, int]:
    """Return some lines of a tensor along an axis, and the bytes from its first element to theirs."""
    start = first * plain(tensor.strides)[axis] * tensor.dtype.bytes
    shape = tuple(count if i == axis else n for i, n in enumerate(plain(tensor.shape)))
    return Tensor(shape, tensor.dtype, tensor.strides, tensor.align, (tensor.offset + start) % tensor.align), start


def places_of(program: Program, matrices: Matrices) -> tuple[list[set[Tensor]], list[set[Tensor]]]:
    """Return for each class the places that it may be written to, and all that it may be read from, views included."""
    inputs = {one.name: one.tensor for one in program.inputs}
    written = [set(own_places(matrices, value)) for value in range(len(matrices.nodes))]
    for result in program.results:
        written[matrices.values[result.value]].add(result.tensor)
    read = [set(places) for places in written]
    for value, nodes in enumerate(matrices.nodes):
        read[value] |= {inputs[node.name] for node in nodes if node.operator == "source"}
    changed = True
    while changed:
        changed = False
        for value, nodes in enumerate(matrices.nodes):
            for node in nodes:
                if node.operator in VIEWS:
                    found = {seen(node, tensor) for tensor in read[node.operands[0]]} - read[value]
                    if found and len(read[value]) + len(found) <= MOST_PLACES:
                        read[value] |= found
                        changed = True
    return written, read

"""Which clusters a kernel may be launched in, where its text leaves that to the launch.

C++ sets the size of a cluster at the launch, so that PTX does not show it. What it does show are instructions that only
make sense in a cluster, masks of CTAs, and pairs; the rest is tried, and said to be assumed. Some kernels are compiled
for two sizes, a preferred one and one for where that does not fit, and ask which they have got.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from itertools import product

from legalsat.analyses.ptx.instruction import Instruction, immediate, names_in
from legalsat.analyses.ptx.text import MOST_BLOCKS, Kernel, PtxText
from legalsat.errors import InvalidInput

Shape = tuple[int, int, int]
TRIED: tuple[Shape, ...] = ((1, 1, 1), (2, 1, 1), (1, 2, 1), (4, 1, 1), (2, 2, 1), (1, 4, 1), (4, 2, 1), (2, 4, 1))
MOST_SENT = 16  # CTAs of a cluster, which a mask has a bit for
MOST_ARRIVING = 16  # times that each CTA arrives at a barrier for all that read what others sent

_EXTENT = "%cluster_nctaid."
_OF_CLUSTER = ("%cluster", "%is_explicit_cluster")


def take_cluster(module: PtxText, parameters: Mapping[str, int]) -> dict[str, int]:
    """Give each kernel whose text leaves it open the CTAs of a cluster; return the other parameters.

    Args:
        module: the text, whose kernels are changed.
        parameters: values by name, of which `%cluster_nctaid.x` and the like say how many CTAs there are.

    Raises:
        InvalidInput: they are none that a cluster has, or no kernel of the text can be launched with them.
    """
    shape = tuple(parameters.get(f"{_EXTENT}{axis}", 1) for axis in "xyz")
    if any(name.startswith(_EXTENT) for name in parameters):
        if min(shape) < 1 or math.prod(shape) > MOST_BLOCKS:
            raise InvalidInput(f"a cluster of {words(shape)} CTAs; give 1 to {MOST_BLOCKS} in all")
        taking = [one for one in module.kernels if not one.cluster_known or one.cluster == shape]
        if not taking:
            raise InvalidInput(f"the text fixes its clusters, and not to {words(shape)} CTAs; leave them out")
        for kernel in taking:
            kernel.cluster, kernel.cluster_known = (shape[0], shape[1], shape[2]), True
    return {name: value for name, value in parameters.items() if not name.startswith(_EXTENT)}


def asked_for(kernel: Kernel) -> Shape | None:
    """Return the cluster with whose extents a text compares those that it has got; None where it does not ask."""
    extents, found = dict[str, int](), dict[int, int]()
    for i in kernel.instructions:
        if i.base == "mov" and i.operands[1].startswith(_EXTENT):
            extents[i.operands[0]] = "xyz".index(i.operands[1][-1])
        elif i.base == "setp" and not {"eq", "ne"}.isdisjoint(i.parts) and i.operands[1] in extents:
            count = immediate(i.operands[2])
            if count is not None:
                found[extents[i.operands[1]]] = count
    return (found.get(0, 1), found.get(1, 1), found.get(2, 1)) if found else None


def words(shape: tuple[int, ...]) -> str:
    """Return the CTAs of a cluster in words: 2 x 4 x 1."""
    return " x ".join(map(str, shape))


def clusters_of(kernel: Kernel) -> tuple[Shape, ...]:
    """Return the clusters, along x, y and z, that a kernel may be launched in; the only one where the text says it."""
    if kernel.cluster_known or (all(kernel.cluster) and not any(map(_of_clusters, kernel.instructions))):
        return (kernel.cluster,)
    least = max(_least(kernel.instructions), default=1)
    return tuple(shape for shape in TRIED if math.prod(shape) >= least) or TRIED


def asks_for_its_cluster(kernel: Kernel) -> bool:
    """Does a text that names no cluster read where in one it runs? A launch may give it one all the same."""
    names = (n for i in kernel.instructions for one in i.operands for n in names_in(one))
    return not kernel.cluster_known and any(name.startswith(_OF_CLUSTER) for name in names)


def likelier(shapes: tuple[Shape, ...], masks: Collection[int], counts: Collection[int]) -> tuple[Shape, ...]:
    """Return clusters, the likely ones first, by what one launch has shown; larger ones too if masks ask for these.

    Args:
        shapes: that may be tried.
        masks: of CTAs to which the first one sends copies: those of its row, of its column, or all.
        counts: of arrivals that barriers expect: of all CTAs in the row and the column, some times each.

    The order is all that is taken from it: what depends on the cluster itself may be another in another one.
    """
    if not masks:
        return shapes
    every = [(x, y, 1) for y, x in product((1, 2, 4, 8, 16), repeat=2) if x * y <= MOST_SENT]
    fits = [shape for shape in dict.fromkeys([*shapes, *every]) if all(_sends(shape, mask) for mask in masks)]
    arriving = [one for width in (1, 2) for one in fits if any(_all_arrive(one, count, width) for count in counts)]
    return tuple(dict.fromkeys([*arriving, *(one for one in fits if one in shapes), *shapes]))


def _sends(shape: Shape, mask: int) -> bool:
    """Is a mask that of the first CTA's row or column of a cluster, of every other CTA of that row, or of all?"""
    x, y, _ = shape
    row, column = range(x), range(0, x * y, x)
    return mask in {sum(1 << rank for rank in ranks) for ranks in (row, column, row[::2], row[:1], range(x * y))}


def _all_arrive(shape: Shape, count: int, width: int) -> bool:
    """May so many arrivals be those of all in the first CTA's row and column, with as many of each?

    `width`: CTAs along the row that arrive as one, 2 where pairs do.
    """
    times, rest = divmod(count, max(shape[0] // width, 1) + shape[1] - 1)
    return not rest and 0 < times <= MOST_ARRIVING and not times & times - 1


def _of_clusters(i: Instruction) -> bool:
    return i.base == "mapa" or "multicast::cluster" in i.parts or "cta_group::2" in i.parts


def _least(instructions: list[Instruction]) -> Iterator[int]:
    """Yield how many CTAs a cluster has at least: both of a pair, and those in masks that are written out."""
    values = {i.operands[0]: immediate(i.operands[1]) for i in instructions if i.base == "mov" and len(i.operands) == 2}
    for i in instructions:
        if "cta_group::2" in i.parts:
            yield 2
        if "multicast::cluster" in i.parts:
            for operand in i.operands[1:]:
                mask = immediate(operand) if not operand.startswith(("[", "{")) else None
                mask = values.get(operand) if mask is None else mask
                if mask is not None and 0 < mask < 1 << 16:
                    yield mask.bit_length()

"""Which clusters a kernel may be launched in, where its text leaves that to the launch.

C++ sets the size of a cluster at the launch, so that PTX does not show it. What it does show are instructions that only
make sense in a cluster, masks of CTAs, and pairs; the rest is tried, and said to be assumed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from legalsat.analyses.ptx.instruction import Instruction, immediate
from legalsat.analyses.ptx.text import Kernel

Shape = tuple[int, int, int]
TRIED: tuple[Shape, ...] = ((1, 1, 1), (2, 1, 1), (1, 2, 1), (4, 1, 1), (2, 2, 1), (1, 4, 1), (4, 2, 1), (2, 4, 1))


def clusters_of(kernel: Kernel) -> tuple[Shape, ...]:
    """Return the clusters, along x, y and z, that a kernel may be launched in; the only one where the text says it."""
    if kernel.cluster_known or (all(kernel.cluster) and not any(map(_of_clusters, kernel.instructions))):
        return (kernel.cluster,)
    least = max(_least(kernel.instructions), default=1)
    return tuple(shape for shape in TRIED if math.prod(shape) >= least) or TRIED


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

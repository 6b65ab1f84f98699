"""What keeps a product with dims from more of their values: operands that would be laid out anew, and what to do.

A relayout in front of a kernel counts the elements that it moves, in numbers that are worked out for one set of
extents. So an operand with open extents is read as it lies, and a kernel that would lay it out anew is not taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice

from legalsat.errors import LegalSatError
from legalsat.extract.kernels.product_kernels import each_kernel
from legalsat.extract.kernels.product_maps import sides
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_kernel import ProductKernel
from legalsat.targets import Target

GRANULE = 16  # bytes that pitches of maps are multiples of


def open_relayouts(gemm: Gemm, kernel: ProductKernel) -> tuple[str, ...]:
    """Return the operands with open extents that a kernel reads as copies, by name."""
    named = zip(kernel.operands, sides(gemm, kernel), kernel.relayouts, strict=True)
    return tuple(sorted(name.upper() for name, one, first in named if first != "none" and one.dims))


def what_to_do(gemm: Gemm, target: Target, values: Mapping[str, int]) -> str:
    """Return why a product is not computed at these values with its dims open, and what to do; "" if that is not known.

    Args:
        gemm: with dims.
        target: the GPU.
        values: of the dims, which no kernel of an open plan takes.
    """
    try:
        bound = gemm.bind(values)
    except LegalSatError:
        return ""
    kernel = next((one for _, one in islice(each_kernel(bound, target), 1)), None)
    if kernel is None:
        return f"such products have kernels of known extents alone; bind {', '.join(values)}, and plan for each value"
    copied = open_relayouts(gemm, kernel)
    return _as_copies(gemm, copied) if copied else ""


def _as_copies(gemm: Gemm, names: Iterable[str]) -> str:
    """Return that operands would be read as copies, and how they must lie instead."""
    said = " and ".join(names)
    whole = GRANULE // gemm.dtype.bytes
    pitch = f'strides=(Dim("P", multiple_of={whole}), 1)' if whole > 1 else 'strides=(Dim("P"), 1)'
    return (
        f"{said} would be copied first, which takes extents that are numbers; state a pitch of whole {GRANULE} bytes "
        f"along k, such as {pitch}, or bind the dims"
    )

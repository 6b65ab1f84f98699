"""Rules of a product as a whole: which units and types kernels multiply by, and what sums can become."""

from __future__ import annotations

from legalsat.rule import Requirements, Source, require
from legalsat.rules.movement import CHIP
from legalsat.targets import Target
from legalsat.units.sites import ProductTypes

# What kernels convert sums to; what is out of range saturates to the narrow types (FACTS WG-04: sums are fp32 or i32).
RESULTS = {"fp32": ("fp32", "tf32", "fp16", "bf16", "e4m3", "e5m2"), "i32": ("i32", "i8"), "fp64": ("fp64",)}
_DATASHEETS = Source("vendors' datasheets, throughput of matrix units", "dtype")
_WGMMA = Source("PTX ISA 9.1, 9.7.15.5, wgmma.mma_async", "target").saying("requires sm_90a")


def _multiplies(target: Target) -> bool:
    """Return whether kernels of products multiply by anything, which PROD004 tells of alone where they do not."""
    return target.wgmma is not None or target.tcgen05 is not None


@CHIP.rule("PROD001", _DATASHEETS.saying("peak rates by data type"), refused_by="hardware")
def type_not_multiplied(types: ProductTypes, target: Target) -> Requirements:
    """The matrix unit that products are planned for multiplies elements of this type.

    fp32 is multiplied as tf32 on NVIDIA: ten bits of mantissa count, and sums are fp32.
    """
    known = [name for name, _ in target.multiplies]
    yield require(
        types.element in known or not _multiplies(target),
        "the matrix unit that products are planned for on {target} multiplies no {element}",
        help="convert A and B to one of {known}",
        target=target,
        element=types.element,
        known=", ".join(known),
    )


@CHIP.rule(
    "PROD002",
    Source("PTX ISA 9.1, 9.7.15.3, wgmma", "dtype").saying("accumulator types .f32 and .s32"),
    refused_by="document",
)
def sums_never_become_c(types: ProductTypes, target: Target) -> Requirements:
    """Sums are fp32, or i32 of integers; C is of a type that kernels convert these to.

    What does not fit e4m3, e5m2 or i8 saturates.
    """
    known = RESULTS.get(types.sums, ())
    yield require(
        types.result in known,
        "sums of {sums} do not become {result}",
        help="name one of {known} as the type of C",
        sums=types.sums,
        result=types.result,
        known=", ".join(known),
    )


@CHIP.rule("PROD004", _WGMMA, refused_by="hardware")
def nothing_multiplies_shared_tiles(types: ProductTypes, target: Target) -> Requirements:
    """Kernels of products multiply tiles in shared memory, which wgmma reads (Hopper) and tcgen05 (sm_100a and kin).

    Movements are planned for every GPU, operands of products among them.
    """
    yield require(
        _multiplies(target),
        "{target} has neither wgmma nor tcgen05, and no kernel of a product multiplies by anything else",
        help="plan it for h200 or b200, or leave it to a library; movements are planned for {target} too",
        target=target,
    )

"""Rules of a product as a whole: which types matrix units multiply, and what sums can become."""

from __future__ import annotations

from legalsat.rule import Requirements, Source, require
from legalsat.rules.movement import CHIP
from legalsat.targets import Target
from legalsat.units.sites import ProductTypes

# What kernels convert sums to; what is out of range saturates to the narrow types (FACTS WG-04: sums are fp32 or i32).
RESULTS = {"fp32": ("fp32", "tf32", "fp16", "bf16", "e4m3", "e5m2"), "i32": ("i32", "i8"), "fp64": ("fp64",)}
_DATASHEETS = Source("vendors' datasheets, throughput of matrix units", "dtype")


@CHIP.rule("PROD001", _DATASHEETS.saying("peak rates by data type"), refused_by="hardware")
def type_not_multiplied(types: ProductTypes, target: Target) -> Requirements:
    """The matrix unit that products are planned for multiplies elements of this type.

    fp32 is multiplied as tf32 on NVIDIA: ten bits of mantissa count, and sums are fp32.
    """
    known = [name for name, _ in target.multiplies]
    yield require(
        types.element in known,
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


@CHIP.rule(
    "PROD003",
    Source("PTX ISA 9.1, 9.7.15.5, wgmma.mma_async", "target").saying("requires sm_90a"),
    refused_by="hardware",
)
def many_without_wgmma(types: ProductTypes, target: Target) -> Requirements:
    """Batches and groups of products are computed on wgmma."""
    yield require(
        not types.many or target.wgmma is not None,
        "no kernel computes {many} of products of {element} to {result} on {target}",
        help="plan one product at a time, or on a GPU with wgmma",
        many="a batch" if types.many == "batch" else types.many,
        element=types.element,
        result=types.result,
        target=target,
    )

"""What must hold (legality rules, in `RULES`) and what may be rewritten (`legalsat.rules.rewrites`)."""

from collections.abc import Iterable
from typing import Any

from legalsat.diagnostics import Diagnostic, worst_first
from legalsat.rule import Rule, rules_in
from legalsat.rules import (
    granules,
    lenient,
    map_edits,
    matrix,
    movement,
    padding,
    pipeline,
    products,
    tcgen05,
    tcgen05_tiles,
    tensor_copy,
    tensor_memory,
    tensor_rows,
    tma,
    tma_im2col,
    tma_packed,
    tma_tiled,
    tma_unenforced,
    vectors,
    wgmma,
    wgmma_shapes,
    windows,
)
from legalsat.rules.causes import FOLLOWS
from legalsat.targets import Target
from legalsat.targets import target as as_target

TENSOR_MAP_RULES = rules_in(tma, tma_tiled, tma_im2col, tma_packed, tma_unenforced)
RULES = rules_in(
    tma,
    tma_tiled,
    tma_im2col,
    tma_packed,
    tma_unenforced,
    tensor_rows,
    movement,
    vectors,
    wgmma,
    tcgen05_tiles,
    tcgen05,
    tensor_memory,
    windows,
    padding,
    granules,
    matrix,
    wgmma_shapes,
    products,
    pipeline,
    map_edits,
    lenient,
    tensor_copy,
)
PIPELINE_RULES = rules_in(pipeline, map_edits, lenient)
TENSOR_MEMORY_RULES = rules_in(tcgen05, tensor_memory)
# By what they judge; a rule's first parameter says it.
COPY_RULES = tuple(rule for rule in RULES if rule.site == "TmaCopy")
SHARED_RULES = tuple(rule for rule in RULES if rule.site == "SharedStages")
MOVEMENT_RULES = tuple(rule for rule in RULES if rule.site == "Movement")
VECTOR_RULES = tuple(rule for rule in RULES if rule.site == "VectorAccess")
GRANULE_RULES = tuple(rule for rule in RULES if rule.site == "GranuleMove")
REGISTER_RULES = tuple(rule for rule in RULES if rule.site == "RegisterTile")
MATRIX_RULES = tuple(rule for rule in RULES if rule.site == "MatrixRead")
PRODUCT_RULES = tuple(rule for rule in RULES if rule.site == "ProductTypes")
MULTIPLY_RULES = tuple(rule for rule in TENSOR_MEMORY_RULES if rule.site == "Tcgen05Mma")
UNIT_AXIS_RULES = tuple(rule for rule in RULES if rule.site == "UnitAxes")
WGMMA_RULES = tuple(rule for rule in RULES if rule.site == "WgmmaMultiply")


def judge(site: Any, target: str | Target, rules: Iterable[Rule] = RULES) -> list[Diagnostic]:
    """Return what the rules of its kind say of a site (`legalsat.units.sites`) on a target, worst first.

    What follows from another violation is left out: one cause, one error.
    """
    gpu, kind = as_target(target), type(site).__name__
    return worst_first((said for rule in rules if rule.site == kind for said in rule.check(site, gpu)), FOLLOWS)

"""LegalSAT: the fastest legal way for a tensor through a GPU's copy engine and tensor cores, or the rule against it.

Names load on first use, so that `import legalsat` and `legalsat --help` stay quick.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from legalsat.analyses.banks.bank_wavefronts import bank_wavefronts as bank_wavefronts
    from legalsat.analyses.banks.layout_banks import LayoutWavefronts as LayoutWavefronts
    from legalsat.analyses.banks.layout_banks import layout_wavefronts as layout_wavefronts
    from legalsat.analyses.copy_engine import smem_bytes as smem_bytes
    from legalsat.analyses.copy_engine import smem_image as smem_image
    from legalsat.analyses.copy_engine import store_footprint as store_footprint
    from legalsat.analyses.copy_engine import tx_bytes as tx_bytes
    from legalsat.analyses.matrix_layout import NoSuchDescriptor as NoSuchDescriptor
    from legalsat.analyses.matrix_layout import matrix_operand as matrix_operand
    from legalsat.analyses.matrix_layout import read_addresses as read_addresses
    from legalsat.analyses.matrix_layout import tile_layout as tile_layout
    from legalsat.analyses.sets.isl_logic import NotAffine as NotAffine
    from legalsat.api import explain as explain
    from legalsat.api import legal_region as legal_region
    from legalsat.api import synthesize as synthesize
    from legalsat.api import violations as violations
    from legalsat.diagnostics import Diagnostic as Diagnostic
    from legalsat.dims import Dim as Dim
    from legalsat.dtypes import DType as DType
    from legalsat.errors import InvalidInput as InvalidInput
    from legalsat.errors import LegalSatError as LegalSatError
    from legalsat.errors import MissingExtra as MissingExtra
    from legalsat.errors import NoSuchLayout as NoSuchLayout
    from legalsat.errors import SolverGaveUp as SolverGaveUp
    from legalsat.explanation import Explanation as Explanation
    from legalsat.explanation import Obligation as Obligation
    from legalsat.explanation import Repair as Repair
    from legalsat.explanation import Snippet as Snippet
    from legalsat.extract.check.check_pipeline import PipelineCheck as PipelineCheck
    from legalsat.extract.check.check_pipeline import check_pipeline as check_pipeline
    from legalsat.extract.explain.bank_repair import BankRepair as BankRepair
    from legalsat.extract.explain.bank_repair import repair_banks as repair_banks
    from legalsat.extract.kernels.tensor_memory import tensor_memory_placement as tensor_memory_placement
    from legalsat.extract.kernels.tensor_memory import tensor_memory_violations as tensor_memory_violations
    from legalsat.extract.region.groups import GroupProof as GroupProof
    from legalsat.extract.region.groups import GroupRegion as GroupRegion
    from legalsat.extract.region.proof import Proof as Proof
    from legalsat.extract.region.region import LegalRegion as LegalRegion
    from legalsat.extract.region.region import Specialisation as Specialisation
    from legalsat.extract.search.planner import NoLegalLayout as NoLegalLayout
    from legalsat.extract.search.search import SearchGaveUp as SearchGaveUp
    from legalsat.layout import Layout as Layout
    from legalsat.layout import make_layout as make_layout
    from legalsat.layout.algebra import append as append
    from legalsat.layout.algebra import coalesce as coalesce
    from legalsat.layout.algebra import complement as complement
    from legalsat.layout.algebra import composition as composition
    from legalsat.layout.algebra import cosize as cosize
    from legalsat.layout.algebra import depth as depth
    from legalsat.layout.algebra import filter as filter
    from legalsat.layout.algebra import filter_zeros as filter_zeros
    from legalsat.layout.algebra import flatten as flatten
    from legalsat.layout.algebra import group as group
    from legalsat.layout.algebra import rank as rank
    from legalsat.layout.algebra import size as size
    from legalsat.layout.inverse import left_inverse as left_inverse
    from legalsat.layout.inverse import max_common_layout as max_common_layout
    from legalsat.layout.inverse import max_common_vector as max_common_vector
    from legalsat.layout.inverse import nullspace as nullspace
    from legalsat.layout.inverse import right_inverse as right_inverse
    from legalsat.layout.linear_layout import LinearLayout as LinearLayout
    from legalsat.layout.swizzle import ComposedLayout as ComposedLayout
    from legalsat.layout.swizzle import Swizzle as Swizzle
    from legalsat.layout.tiling import blocked_product as blocked_product
    from legalsat.layout.tiling import flat_divide as flat_divide
    from legalsat.layout.tiling import flat_product as flat_product
    from legalsat.layout.tiling import logical_divide as logical_divide
    from legalsat.layout.tiling import logical_product as logical_product
    from legalsat.layout.tiling import raked_product as raked_product
    from legalsat.layout.tiling import tile_to_shape as tile_to_shape
    from legalsat.layout.tiling import tiled_divide as tiled_divide
    from legalsat.layout.tiling import tiled_product as tiled_product
    from legalsat.layout.tiling import zipped_divide as zipped_divide
    from legalsat.layout.tiling import zipped_product as zipped_product
    from legalsat.operators import Copy as Copy
    from legalsat.operators import Im2col as Im2col
    from legalsat.operators import Pad as Pad
    from legalsat.operators import Transpose as Transpose
    from legalsat.operators.attention import Attention as Attention
    from legalsat.operators.gemm import Gemm as Gemm
    from legalsat.operators.grouped import GroupedGemm as GroupedGemm
    from legalsat.operators.program import Program as Program
    from legalsat.operators.program import Value as Value
    from legalsat.plans.codec import InvalidPlan as InvalidPlan
    from legalsat.plans.gemm_plan import GemmPlan as GemmPlan
    from legalsat.plans.movement_plan import MovementPlan as MovementPlan
    from legalsat.plans.plan import Plan as Plan
    from legalsat.plans.program_plan import ProgramPlan as ProgramPlan
    from legalsat.program.pipeline import Pipeline as Pipeline
    from legalsat.sweeps.engine import Sweep as Sweep
    from legalsat.sweeps.engine import sweep as sweep
    from legalsat.targets import Target as Target
    from legalsat.targets import UnknownTarget as UnknownTarget
    from legalsat.tensor import Tensor as Tensor
    from legalsat.units import tcgen05 as tcgen05
    from legalsat.units import tensor_memory as tensor_memory
    from legalsat.units import tensor_memory_layouts as tensor_memory_layouts
    from legalsat.units.matrix_descriptor import MatrixDescriptor as MatrixDescriptor
    from legalsat.units.matrix_descriptor import MatrixOperand as MatrixOperand
    from legalsat.units.shared_access import UnknownPhases as UnknownPhases
    from legalsat.units.sites import WgmmaMultiply as WgmmaMultiply
    from legalsat.units.tcgen05 import InstructionDescriptor as InstructionDescriptor
    from legalsat.units.tensor_copy import BulkCopy as BulkCopy
    from legalsat.units.tensor_copy import TensorCopy as TensorCopy
    from legalsat.units.tensor_map import TensorMap as TensorMap
    from legalsat.units.tensor_map_bytes import decode as decode
    from legalsat.units.tensor_map_bytes import encode_blob as encode_blob
    from legalsat.units.wgmma import Wgmma as Wgmma
    from legalsat.view.pictures_box import draw_box as draw_box
    from legalsat.view.pictures_box import draw_pixels as draw_pixels
    from legalsat.view.pictures_box import draw_rows as draw_rows
    from legalsat.view.pictures_grid import draw_layout as draw_layout
    from legalsat.view.pictures_grid import draw_owners as draw_owners
    from legalsat.view.pictures_shared import ColumnRead as ColumnRead
    from legalsat.view.pictures_shared import column_read as column_read
    from legalsat.view.pictures_shared import draw_shared as draw_shared
    from legalsat.view.pipeline_chart import gantt as gantt
    from legalsat.view.svg import Drawing as Drawing

__version__ = "0.1.0"

# The same names for the interpreter; a test compares the two lists.
_MODULES = {
    "legalsat.units": "tcgen05 tensor_memory tensor_memory_layouts",  # whole modules, whose names say too little alone
    "legalsat.analyses.banks.bank_wavefronts": "bank_wavefronts",
    "legalsat.analyses.copy_engine": "smem_bytes smem_image store_footprint tx_bytes",
    "legalsat.analyses.banks.layout_banks": "LayoutWavefronts layout_wavefronts",
    "legalsat.analyses.matrix_layout": "NoSuchDescriptor matrix_operand read_addresses tile_layout",
    "legalsat.analyses.sets.isl_logic": "NotAffine",
    "legalsat.api": "explain legal_region synthesize violations",
    "legalsat.operators.program": "Program Value",
    "legalsat.plans.program_plan": "ProgramPlan",
    "legalsat.diagnostics": "Diagnostic",
    "legalsat.dims": "Dim",
    "legalsat.dtypes": "DType",
    "legalsat.errors": "InvalidInput LegalSatError MissingExtra NoSuchLayout SolverGaveUp",
    "legalsat.explanation": "Explanation Obligation Repair Snippet",
    "legalsat.extract.explain.bank_repair": "BankRepair repair_banks",
    "legalsat.extract.check.check_pipeline": "PipelineCheck check_pipeline",
    "legalsat.extract.search.planner": "NoLegalLayout",
    "legalsat.extract.region.groups": "GroupProof GroupRegion",
    "legalsat.extract.region.proof": "Proof",
    "legalsat.extract.region.region": "LegalRegion Specialisation",
    "legalsat.extract.search.search": "SearchGaveUp",
    "legalsat.extract.kernels.tensor_memory": "tensor_memory_placement tensor_memory_violations",
    "legalsat.operators.gemm": "Gemm",
    "legalsat.operators.grouped": "GroupedGemm",
    "legalsat.plans.gemm_plan": "GemmPlan",
    "legalsat.layout": "Layout make_layout",
    "legalsat.layout.algebra": "append coalesce complement composition cosize depth filter filter_zeros "
    "flatten group rank size",
    "legalsat.layout.inverse": "left_inverse max_common_layout max_common_vector nullspace right_inverse",
    "legalsat.layout.tiling": "blocked_product flat_divide flat_product logical_divide logical_product "
    "raked_product tile_to_shape tiled_divide tiled_product zipped_divide zipped_product",
    "legalsat.layout.linear_layout": "LinearLayout",
    "legalsat.units.matrix_descriptor": "MatrixDescriptor MatrixOperand",
    "legalsat.operators": "Copy Im2col Pad Transpose",
    "legalsat.view.pictures_box": "draw_box draw_pixels draw_rows",
    "legalsat.view.pictures_grid": "draw_layout draw_owners",
    "legalsat.view.pictures_shared": "ColumnRead column_read draw_shared",
    "legalsat.program.pipeline": "Pipeline",
    "legalsat.view.pipeline_chart": "gantt",
    "legalsat.plans.codec": "InvalidPlan",
    "legalsat.plans.movement_plan": "MovementPlan",
    "legalsat.plans.plan": "Plan",
    "legalsat.units.shared_access": "UnknownPhases",
    "legalsat.units.sites": "WgmmaMultiply",
    "legalsat.sweeps.engine": "Sweep sweep",
    "legalsat.view.svg": "Drawing",
    "legalsat.layout.swizzle": "ComposedLayout Swizzle",
    "legalsat.targets": "Target UnknownTarget",
    "legalsat.operators.attention": "Attention",
    "legalsat.units.tcgen05": "InstructionDescriptor",
    "legalsat.tensor": "Tensor",
    "legalsat.units.tensor_copy": "BulkCopy TensorCopy",
    "legalsat.units.tensor_map": "TensorMap",
    "legalsat.units.tensor_map_bytes": "decode encode_blob",
    "legalsat.units.wgmma": "Wgmma",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = tuple(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        # With these two, Python says which name may be meant.
        raise AttributeError(f"module 'legalsat' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    home = _HOME[name]
    value = (
        importlib.import_module(f"{home}.{name}")
        if home == "legalsat.units"
        else getattr(importlib.import_module(home), name)
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])

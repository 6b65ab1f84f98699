"""LegalSAT: the fastest legal way for a tensor through a GPU's copy engine and tensor cores, or the rule against it.

Names load on first use, so that `import legalsat` and `legalsat --help` stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from legalsat.analyses.copy_engine import (
        smem_bytes as smem_bytes,
    )
    from legalsat.analyses.copy_engine import (
        smem_image as smem_image,
    )
    from legalsat.analyses.copy_engine import (
        store_footprint as store_footprint,
    )
    from legalsat.analyses.copy_engine import (
        tx_bytes as tx_bytes,
    )
    from legalsat.api import explain as explain
    from legalsat.api import synthesize as synthesize
    from legalsat.api import violations as violations
    from legalsat.diagnostics import Diagnostic as Diagnostic
    from legalsat.dims import Dim as Dim
    from legalsat.dtypes import DType as DType
    from legalsat.errors import InvalidInput as InvalidInput
    from legalsat.errors import LegalSatError as LegalSatError
    from legalsat.extract.explain import Explanation as Explanation
    from legalsat.extract.explain import Repair as Repair
    from legalsat.extract.fields import SolverGaveUp as SolverGaveUp
    from legalsat.extract.planner import NoLegalLayout as NoLegalLayout
    from legalsat.operators import Copy as Copy
    from legalsat.operators import Transpose as Transpose
    from legalsat.plan import InvalidPlan as InvalidPlan
    from legalsat.plan import Plan as Plan
    from legalsat.targets import Target as Target
    from legalsat.targets import UnknownTarget as UnknownTarget
    from legalsat.tensor import Tensor as Tensor
    from legalsat.tensor_map import TensorMap as TensorMap

__version__ = "0.1.0"

_HOME = {
    "Copy": "legalsat.operators",
    "DType": "legalsat.dtypes",
    "Diagnostic": "legalsat.diagnostics",
    "Dim": "legalsat.dims",
    "Explanation": "legalsat.extract.explain",
    "InvalidInput": "legalsat.errors",
    "InvalidPlan": "legalsat.plan",
    "LegalSatError": "legalsat.errors",
    "NoLegalLayout": "legalsat.extract.planner",
    "Plan": "legalsat.plan",
    "Repair": "legalsat.extract.explain",
    "SolverGaveUp": "legalsat.extract.fields",
    "Target": "legalsat.targets",
    "Tensor": "legalsat.tensor",
    "TensorMap": "legalsat.tensor_map",
    "Transpose": "legalsat.operators",
    "UnknownTarget": "legalsat.targets",
    "explain": "legalsat.api",
    "smem_bytes": "legalsat.analyses.copy_engine",
    "smem_image": "legalsat.analyses.copy_engine",
    "store_footprint": "legalsat.analyses.copy_engine",
    "synthesize": "legalsat.api",
    "tx_bytes": "legalsat.analyses.copy_engine",
    "violations": "legalsat.api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'legalsat' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])

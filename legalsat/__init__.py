"""LegalSAT: the fastest legal way for a tensor through a GPU's copy engine and tensor cores, or the rule against it.

Names load on first use, so that `import legalsat` and `legalsat --help` stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from legalsat.analyses.copy_engine import smem_bytes, smem_image, store_footprint, tx_bytes
    from legalsat.api import explain, synthesize, violations
    from legalsat.diagnostics import Diagnostic
    from legalsat.dims import Dim
    from legalsat.dtypes import DType
    from legalsat.errors import InvalidInput, LegalSatError
    from legalsat.extract.explain import Explanation, Repair
    from legalsat.extract.fields import SolverGaveUp
    from legalsat.extract.planner import NoLegalLayout
    from legalsat.operators import Copy, Transpose
    from legalsat.plan import InvalidPlan, Plan
    from legalsat.targets import Target, UnknownTarget
    from legalsat.tensor import Tensor
    from legalsat.tensor_map import TensorMap

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

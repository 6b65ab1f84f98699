"""Tiles of TileLang's pipelined loops: the shared memory that the operands of one product take at least.

`T.Pipelined(n, num_stages=s)` keeps s buffers of each tile that a copy in it fills. The operands of one `T.gemm` live
at once; other tiles may share memory with them, so that the sum of both is the least that the kernel takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from legalsat.diagnostics import Diagnostic
from legalsat.dtypes import DType
from legalsat.pasted.code.arguments import given, named_type
from legalsat.pasted.code.expressions import Called
from legalsat.pasted.sentences import RULE_OF
from legalsat.rule import require
from legalsat.targets import Target


def explain_stages(calls: Sequence[Called], target: Target) -> Iterator[Diagnostic]:
    """Yield the first product of a pipelined loop whose operands take more shared memory than a block has."""
    stages, filled = 1, list[Called]()
    most = target.shared_bytes_per_block
    for called in calls:
        last = called.name.rpartition(".")[2]
        asked_at_once = called.arguments[0] if last == "allocate" and called.arguments else None
        if isinstance(asked_at_once, int) and asked_at_once > most:
            message = "one allocation of shared memory takes {needed} bytes, more than the {most} of {target}"
            numbers = {"needed": asked_at_once, "most": most, "target": target}
            refused = require(False, message, help="take a smaller tile or fewer stages", **numbers)
            yield RULE_OF["SMEM001"].diagnostic(refused, f"{called.name}({asked_at_once})")
            return
        if last in ("Pipelined", "Kernel"):
            asked = given(called.arguments, called.keywords, 2, "num_stages") if last == "Pipelined" else None
            stages, filled = max(asked, 1) if isinstance(asked, int) else 1, []
        elif last == "copy" and len(called.arguments) > 1 and _bytes(called.arguments[1]):
            filled.append(called.arguments[1])
        elif last == "gemm":
            tiles = [one for one in called.arguments[:2] if _bytes(one)]
            needed = sum(_bytes(one) * (stages if one in filled else 1) for one in tiles)
            if needed > most:
                message = (
                    "the operands of a product take {needed} bytes of shared memory with {stages} stages, {more} more "
                    "than the {most} of {target}"
                )
                help_ = "take a smaller tile or fewer stages (num_stages), or a GPU whose blocks have more"
                numbers = {"needed": needed, "stages": stages, "more": needed - most, "most": most, "target": target}
                tiled = " and ".join(str(list(one.arguments[0])) for one in tiles)
                yield RULE_OF["SMEM001"].diagnostic(
                    require(False, message, help=help_, **numbers), f"{called.name} of tiles {tiled}"
                )
                return


def _bytes(tile: Any) -> int:
    """Return the bytes of a tile in shared memory; 0 of anything else."""
    if not isinstance(tile, Called) or not tile.name.endswith("alloc_shared"):
        return 0
    shape, kind = given(tile.arguments, tile.keywords, 0, "shape"), given(tile.arguments, tile.keywords, 1, "dtype")
    known = named_type(kind) if isinstance(kind, str | DType) else None
    if not isinstance(shape, list | tuple) or known is None or not all(isinstance(one, int) for one in shape):
        return 0
    return prod(shape) * known.bits // 8

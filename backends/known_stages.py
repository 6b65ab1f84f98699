"""Cursors whose items lie in stages that a printer knows: parts of C, whose buffers texts name one by one."""

from __future__ import annotations

from collections.abc import Mapping

from legalsat.errors import LegalSatError
from legalsat.program.kernel import Body, KernelProgram, every
from legalsat.program.pipeline import Read, Store, Write


def require_whole_turns(
    body: Body, program: KernelProgram, before: Mapping[str, int], after: Mapping[str, int], backend: str
) -> None:
    """Raise unless behind operations that are done any number of times cursors are in the stages where they were.

    Args:
        body: the operations.
        program: that they are of.
        before: how many items each cursor has counted ahead of them.
        after: the same behind them.
        backend: that prints them.

    Raises:
        LegalSatError: a turn takes another number of items than a multiple of the stages.
    """
    for op in every(body):
        if not isinstance(op, Write | Store | Read) or op.at.cursor not in before:
            continue
        moved, stages = after[op.at.cursor] - before[op.at.cursor], program.stages(op.buffer)
        if moved % stages:
            raise LegalSatError(f"{backend} cannot tell the stage of {op.buffer}: a turn takes {moved} of {stages}")

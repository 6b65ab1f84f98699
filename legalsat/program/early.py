"""Whether a kernel may be brought in before the kernel in front of it ends (programmatic dependent launch)."""

from __future__ import annotations

from collections.abc import Iterable

from legalsat.program.kernel import MeetSetup
from legalsat.program.pipeline import AwaitGrid, Fence, Registers, Start, Sync

OWN = (Start, Fence, MeetSetup, Sync, Registers)  # what touches nothing that another kernel may have written


def begins_early(body: Iterable[object]) -> bool:
    """Return whether all that a kernel reads or writes of global memory comes behind its wait for what is in front.

    Only then may it be launched as a dependent one. That it waits first also keeps whoever is two in front of it
    apart: the kernel in front lets it in no sooner than it has waited itself.

    Args:
        body: what all threads of the kernel do, in order.
    """
    for op in body:
        if isinstance(op, AwaitGrid):
            return True
        if not isinstance(op, OWN):
            return False
    return False

"""Relayouts in front of a kernel: the programs of the plans that say them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from legalsat.backends import program
from legalsat.plans.gemm_plan import InFront
from legalsat.runtime.program import Program, Relayout, with_operand


def with_relayouts(made: Program, before: Iterable[InFront], backend: str | None = None) -> Program:
    """Return a program with the movements in front that lay its operands out anew.

    Args:
        made: reads operands where the relayouts put them; what is returned reads them as they were given.
        before: what runs first.
        backend: that prints the relayouts; the first that prints each when left out.

    Raises:
        LegalSatError: the backend prints no such movement, or none does.
    """
    found = []
    for one in before:
        movement = program(one.plan, backend)
        made = with_operand(made, one.operand, movement.operands[0].tensor)
        found.append(Relayout(one.operand, movement, one.constant))
    return replace(made, before=(*made.before, *found))

"""Relayouts in front of a kernel: the programs of the plans that say them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from legalsat.backends import PROGRAMS, first_of, program
from legalsat.plans.gemm_plan import InFront
from legalsat.runtime.program import Program, Relayout, with_operand


def with_relayouts(made: Program, before: Iterable[InFront], backend: str | None = None) -> Program:
    """Return a program with the movements in front that lay its operands out anew.

    Args:
        made: reads operands where the relayouts put them; what is returned reads them as they were given.
        before: what runs first.
        backend: that prints those which it can; the first that prints each does the others.

    Raises:
        LegalSatError: none prints such a movement.
    """
    found = []
    for one in before:
        names = sorted(PROGRAMS, key=lambda name: name != backend)
        movement: Program = first_of(names, partial(program, one.plan), "prints")[0]
        made = with_operand(made, one.operand, movement.operands[0].tensor)
        found.append(Relayout(one.operand, movement, one.constant))
    return replace(made, before=(*made.before, *found))

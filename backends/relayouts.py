"""Relayouts in front of a kernel: the programs of the plans that say them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from legalsat.backends import PROGRAMS, first_of, program
from legalsat.plans.gemm_plan import InFront
from legalsat.program.early import runs_beside
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
    found: list[Relayout] = []
    front: InFront | None = None
    for one in before:
        names = sorted(PROGRAMS, key=lambda name: name != backend)
        movement: Program = first_of(names, partial(program, one.plan), "prints")[0]
        made = with_operand(made, one.operand, movement.operands[0].tensor)
        found.append(Relayout(one.operand, let_in(movement, one, front), one.constant))
        front = one
    return replace(made, before=(*made.before, *found))


def let_in(movement: Program, one: InFront, front: InFront | None) -> Program:
    """Return the program of a relayout, brought in early where it runs beside the one in front of it."""
    if front is None or front.constant or one.constant or not one.plan.target.dependent_launch:
        return movement
    if not runs_beside(*(each.plan.pipeline.roles[0].body for each in (one, front))):
        return movement
    return replace(movement, recipes=tuple(replace(recipe, dependent=True) for recipe in movement.recipes))

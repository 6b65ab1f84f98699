"""A course of a pipeline as text: a column for each role and engine, a row for each step."""

from __future__ import annotations

from textwrap import wrap

from legalsat.analyses.protocol.model_check import Verdict
from legalsat.view.look import PLAIN, Look

WIDTH = 120
_RIGHT = "nothing goes wrong, whatever the order of steps"


def timeline(verdict: Verdict, look: Look = PLAIN, width: int = WIDTH) -> str:
    """Return the course that leads to a verdict's error, and what is wrong in words; a line of words without one.

    Rows that begin with "!" are steps that would come next, and cannot or must not.
    """
    error = verdict.error
    if error is None:
        return _RIGHT if verdict.complete else f"nothing goes wrong in the {verdict.states} states that were visited"
    rows = [(event.lane, ("! " if event.wrong else "") + event.text) for event in verdict.trace]
    lanes = [lane for lane in verdict.lanes if any(lane == row[0] for row in rows)]
    numbers = len(str(len(rows)))
    widths = {lane: max(len(lane), *(len(text) for name, text in rows if name == lane)) for lane in lanes}
    lines = []
    if numbers + sum(2 + widths[lane] for lane in lanes) <= width:
        head = "  ".join(lane.ljust(widths[lane]) for lane in lanes).rstrip()
        lines.append(look.paint(" " * numbers + "  " + head, "title"))
        for number, (lane, text) in enumerate(rows, 1):
            before = sum(2 + widths[other] for other in lanes[: lanes.index(lane)])
            lines.append(f"{number:>{numbers}}  {' ' * before}{text}")
    else:
        # Too wide for columns: the name in each row.
        wide = max(widths, key=len)
        lines += [f"{number:>{numbers}}  {lane:<{len(wide)}}  {text}" for number, (lane, text) in enumerate(rows, 1)]
    return "\n".join([*lines, "", *wrap(f"{error.kind}: {error.message}", width)])

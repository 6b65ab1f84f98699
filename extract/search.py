"""Candidates: what the laws make of an access, found in an e-graph, with the derivation of each."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Any

from egglog import EGraph

from legalsat.access import Access
from legalsat.errors import LegalSatError
from legalsat.law import Law
from legalsat.plan import Step
from legalsat.rules.rewrites import LAWS
from legalsat.rules.rewrites.modes import drop_unit_mode, merge_adjacent_modes
from legalsat.targets import GRANULE_BYTES, MAX_BOX_EXTENT
from legalsat.terms import Movement, arguments, compiled, from_term, link, to_term

MAX_NODES = 5000
MAX_SECONDS = 1.0
MAX_ITERATIONS = 12
MAX_STATES = 5000


class SearchGaveUp(LegalSatError):
    """A derivation was not found within its budget; the message says for which access. Simplify the tensor."""


def candidates(start: Access, laws: tuple[Law, ...] = LAWS) -> list[Access]:
    """Return accesses equal to `start` that are worth solving, `start` among them.

    Saturation stops at 5,000 nodes or one second; then each word size gives its cheapest lists of modes: legal
    ones first, then fewest boxes, or fewest modes.
    """
    graph = EGraph()
    root = graph.let("root", to_term(start))
    deadline = time.monotonic() + MAX_SECONDS
    for _ in range(MAX_ITERATIONS):
        grown = graph.run(1, ruleset=compiled(laws)).updated
        size = sum(count for _, count in graph.all_function_sizes())
        if not grown or size > MAX_NODES or time.monotonic() > deadline:
            break
    found = {start: None}
    for variant in graph.extract_multiple(root, 16):
        found[from_term(variant)] = None
        word, modes = arguments(variant, Movement)
        for cost in _COSTS:
            found[from_term(Movement(word, graph.extract(modes, cost_model=cost)))] = None
    return list(found)


def _cost(box_weight: int) -> Any:
    """Return a cost model for lists of modes: what no tensor map can say, then boxes, weighed against modes.

    The model's type is open because egglog's own names its three arguments.
    """

    def cost(_graph: EGraph, term: Any, children: list[int]) -> int:
        found = arguments(term, link)
        if not found:
            return sum(children)
        _, source, target, tile = (int(number.value) for number in found[:4])
        boxes = math.ceil(100 * math.log2(-(-tile // MAX_BOX_EXTENT)))  # logarithms, since boxes multiply
        illegal = _UNLOADABLE * _misaligned(source) + _UNSTORABLE * _misaligned(target)
        return int(children[-1]) + 1 + box_weight * boxes + illegal

    return cost


def _misaligned(stride: int) -> bool:
    """Whether a stride in bits can be no other dimension's; one below a granule may be the fastest dimension's."""
    granule = 8 * GRANULE_BYTES
    return stride >= granule and stride % granule != 0


_UNLOADABLE, _UNSTORABLE = 10**9, 10**8
_COSTS = (_cost(box_weight=1000), _cost(box_weight=0))


def coalesced(start: Access) -> tuple[Access, tuple[Step, ...]]:
    """Return the access with unit modes dropped and whole neighbours merged, and the steps to it."""
    steps: list[Step] = []
    access = start
    while len(access.modes) > 1:
        found = next(
            ((law.name, after) for law in (drop_unit_mode, merge_adjacent_modes) for after in law.steps(access)), None
        )
        if found is None:
            break
        access = found[1]
        steps.append(Step(*found))
    return access, tuple(steps)


def derivation(start: Access, goal: Access, laws: tuple[Law, ...] = LAWS) -> tuple[Step, ...]:
    """Return the fewest law applications that lead from `start` to `goal`.

    egglog gives no proofs, so the path is found again on plain values, with the same laws.

    Raises:
        SearchGaveUp: no path within 5,000 states.
    """
    paths: dict[Access, tuple[Access, str] | None] = {start: None}
    queue = deque([start])
    while queue and goal not in paths and len(paths) < MAX_STATES:
        access = queue.popleft()
        for law in laws:
            for after in law.steps(access):
                if after not in paths:
                    paths[after] = (access, law.name)
                    queue.append(after)
    if goal not in paths:
        raise SearchGaveUp(f"no derivation of {goal} within {MAX_STATES} states; merge axes before asking")
    steps = []
    at = goal
    while (came := paths[at]) is not None:
        steps.append(Step(came[1], at))
        at = came[0]
    return tuple(reversed(steps))

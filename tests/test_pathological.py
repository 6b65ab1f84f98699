"""The worst problems end in a plan or in a refusal that names a rule or what to do; the e-graph keeps its budget."""

from __future__ import annotations

import re

import pytest

import legalsat as ls
from bench.pathological import H200, PROBLEMS, counted, ending
from legalsat.extract.search.search import MAX_NODES

RULE = re.compile(r"error\[[A-Z]+\d+\]")
LIMITS = (None, 0.0, 0.001)
# Whatever the limit, these are refused; so no limit may turn them into plans.
REFUSED = {
    "coprime extents beyond 2^61 bits": "InvalidInput",
    "tile larger than shared memory": "SMEM001",
    "wgmma of fp64": "WGMMA001",
    "wgmma of ragged rows": "WGMMA002",
    "cp.async of single bytes": "VEC00",
    "boxes of an odd pitch": "TMA005",
    "fragments for nobody": "WGMMA006",
    "stores that overlap": "TMA026",
    "torn packed elements": "WORD001",
    "pitch that is never legal": "TMA005",
    "rows shorter than a granule": "TMA0",
    "dims without a value": "InvalidInput",
    "dims whose tile never fits": "",
}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_worst_ends_in_a_plan_or_a_reason(name: str, limit: float | None) -> None:
    found = ending(name, limit)
    assert found.nodes_before <= MAX_NODES
    assert found.ended_in != "fault", found.said
    if found.ended_in != "plan":
        assert RULE.search(found.said) or "; " in found.said.partition("\n")[0], found.said
    if limit is None and name in REFUSED:
        assert found.ended_in != "plan"
        assert REFUSED[name] in f"{found.ended_in}: {found.said}"


def test_no_time_is_no_refusal() -> None:
    """Whoever ran out of time does not know that nothing is legal, and does not say so."""
    for limit in (0.0, 1e-9, 1e-6):
        with pytest.raises(ls.SolverGaveUp, match="give it more seconds"):
            ls.synthesize(ls.Tensor((64, 64), "bf16"), H200, seconds=limit)


def test_nodes_are_counted() -> None:
    with counted() as nodes:
        ls.synthesize(ls.Tensor((60, 61, 62), "bf16"), H200, seconds=60)
    assert 0 < nodes.before <= nodes.most

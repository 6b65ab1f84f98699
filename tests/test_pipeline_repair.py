"""Repairs of pipelines: applied, judged, and never at the price of what is computed."""

from __future__ import annotations

from dataclasses import replace

import pytest

import legalsat as ls
from bench.kernels.example_pipelines import EXAMPLES
from bench.kernels.pipeline_mutants import mutants
from legalsat.analyses.protocol.typestate import check
from legalsat.extract.explain.pipeline_repair import pipeline_repairs
from legalsat.program.pipeline import Expect, Load, Operation, Pipeline, walk
from legalsat.targets import target

GPU = target("h200")
NAMES = ("one buffer", "simple wgmma", "simple wgmma, 2 consumers")
# A wrong number of a barrier, after which everything else is as it was; and data that do not come.
NUMBERS = {"a box too many expected", "a box too few expected", "bytes off by 16"}
NUMBERS |= {"more arrivals initialised", "fewer arrivals initialised"}
MISSING = {"load dropped", "half of the bytes loaded", "load a stage late", "load a stage early"}


def data(pipeline: Pipeline) -> list[list[Operation]]:
    """Return what each role does, without the numbers of barriers."""
    return [
        [replace(op, bytes=0) if isinstance(op, Expect) else op for op in walk(role.body) if not hasattr(op, "body")]
        for role in pipeline.roles
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_number_is_set_right_and_missing_data_are_not_waited_for_less(name: str) -> None:
    right = EXAMPLES[name]
    seen = set()
    for mutant in mutants(right):
        if mutant.kind not in NUMBERS | MISSING or check(mutant.pipeline, GPU).proven:
            continue
        seen.add(mutant.kind)
        repairs = pipeline_repairs(mutant.pipeline, GPU)
        if mutant.kind in MISSING:
            assert repairs == (), mutant
        else:
            assert [repair.after for repair in repairs] == [right], mutant
    assert seen >= NUMBERS | {"load dropped", "half of the bytes loaded"}


@pytest.mark.parametrize("name", NAMES)
def test_every_repair_is_proven_and_moves_and_computes_the_same(name: str) -> None:
    for mutant in mutants(EXAMPLES[name]):
        for repair in pipeline_repairs(mutant.pipeline, GPU) if not check(mutant.pipeline, GPU).proven else ():
            assert check(repair.after, GPU).proven
            assert data(repair.after) == data(mutant.pipeline)


def test_bytes_that_never_come_are_not_expected_less() -> None:
    """The wait would end, and a stage be read that holds half of its item."""
    right = EXAMPLES["one buffer"]
    (wrong,) = (m.pipeline for m in mutants(right) if m.kind == "half of the bytes loaded")
    half = next(op.bytes for role in wrong.roles for op in walk(role.body) if isinstance(op, Load))
    found = ls.explain(wrong, "h200")
    (bytes_,) = (d for d in found.diagnostics if d.code == "PIPE006")
    assert f"the other {half} bytes" in bytes_.help and "set" not in bytes_.help
    assert found.repairs == ()


def test_repairs_stand_in_explanations() -> None:
    right = EXAMPLES["one buffer"]
    wrong = next(m.pipeline for m in mutants(right) if m.kind == "bytes off by 16")
    found = ls.explain(wrong, "h200")
    assert [repair.after for repair in found.repairs] == [right]
    assert found.repairs[0].message in str(found)
    assert found.repairs[0].to_json()["kind"] == "bytes"
    assert ls.explain(found.repairs[0].after, "h200").legal and ls.explain(right, "h200").repairs == ()

"""Faults in how CTAs of a cluster work together: what the contract passes does no harm."""

from __future__ import annotations

import pytest

from bench.kernels.cluster_mutants import KINDS, chosen, judged, of_clusters, programs
from bench.kernels.conformance import classes
from bench.kernels.typestate_agreement import checked, harm
from legalsat.extract.kernels.kernel_program import kernel_program

MULTICAST, SPLIT = "C by tma, 2 consumers, cluster 2x1", "C by sums, 1 consumer, split 2"


@pytest.mark.parametrize("name", [MULTICAST, SPLIT])
def test_faults_in_the_protocol_of_a_cluster_are_told(name: str) -> None:
    gemm, kernel = classes()[name]
    program = kernel_program(kernel, gemm.out_dtype.bytes)
    planted = list(of_clusters(program))
    assert harm(program) == "none" and len({mutant.kind for mutant in planted}) >= 30
    few = {mutant.kind: mutant for mutant in planted}.values()
    passed = [mutant for mutant in few if not checked(mutant.pipeline).diagnostics]
    assert len(passed) <= 5 and all(harm(mutant.pipeline) == "none" for mutant in passed)


@pytest.mark.slow
@pytest.mark.parametrize("name", chosen())
def test_all_faults_of_all_classes_are_told(name: str) -> None:
    counts, missed = judged([(name, mutant) for mutant in of_clusters(programs()[name])])
    assert not missed and {kind for kind, _ in counts} <= KINDS

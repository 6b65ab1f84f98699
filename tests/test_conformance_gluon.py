"""Printed kernels in Gluon against their programs: what Triton makes of them is equal, and told apart when changed.

The allocation, the hand-over of roles and meetings are Triton's; what may differ so stands in `ALLOWED` there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest
from small_products import Case
from test_conformance import unseen

import legalsat as ls
from bench.conformance.kernel_launches import launches
from bench.conformance.printed_gluon import PrintedGluon
from bench.conformance.printed_kernel import Recorded
from bench.kernels.conformance import judged
from bench.kernels.pipeline_mutants import mutants
from legalsat.backends.triton.product_program import compiled, program_for
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_kernel import WARPS, ProductKernel
from legalsat.targets import target

pytest.importorskip("triton")

CASES = {
    "overlapped": Case("h200", (4096, 4096, 4096), "bf16"),
    "rows": Case("h200", (50, 37, 72), "fp16", pitch=39),
    "sums": Case("h200", (512, 512, 8192), "bf16"),
    "both along rows": Case("h200", (4096, 4096, 4096), "bf16", majors="MM"),
    "overlapped rows": Case("h200", (4096, 4097, 4096), "bf16"),
    "tf32": Case("h200", (2048, 2048, 2048), "fp32"),
    "wide result": Case("h200", (4096, 4096, 4096), "bf16", out="fp32"),
    "8 bits": Case("h200", (4096, 4096, 4096), "e4m3"),
}
QUICK = ("overlapped", "rows", "sums", "both along rows")


@cache
def chosen(name: str) -> tuple[Gemm, ProductKernel]:
    plan = ls.synthesize(CASES[name].gemm(), "h200", backend="triton")
    assert plan.kernel is not None
    return plan.operator, plan.kernel


@cache
def printed(name: str, old: str = "", new: str = "") -> PrintedGluon:
    """Return a kernel's text made ready, with something in it replaced."""
    gemm, kernel = chosen(name)
    made = program_for(gemm, kernel, target("h200"))
    assert old in made.text
    text = made.text.replace(old, new) if old else made.text
    return PrintedGluon(compiled(text, made.signature, made.architecture, WARPS).ptx, gemm, kernel)


@cache
def recorded(name: str) -> tuple[Recorded, ...]:
    gemm, kernel = chosen(name)
    return tuple(printed(name).run(launch) for launch in launches(kernel, gemm.dtype.bytes, few=True))


@pytest.mark.parametrize("name", QUICK)
def test_the_text_does_what_the_program_says(name: str) -> None:
    for one in recorded(name):
        assert not printed(name).differences(one), one.launch
        assert not one.findings
        assert one.events > 100


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_texts_do_what_programs_say_in_all_launches(name: str) -> None:
    found = judged(*chosen(name), few=False, backend="triton")
    assert not found["differences"]
    assert found["launches"] > 1


@pytest.mark.parametrize("name", QUICK[:1])
def test_faults_in_a_program_are_told(name: str) -> None:
    listed = list(mutants(printed(name).program))[::12]
    assert len(listed) > 20
    assert not [found for mutant in listed if (found := unseen(printed(name), recorded(name), mutant))]


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_all_faults_in_programs_are_told(name: str) -> None:
    kernel, runs = printed(name), recorded(name)
    assert not [found for mutant in mutants(kernel.program) if (found := unseen(kernel, runs, mutant))]


# Texts with a fault.


@dataclass(frozen=True)
class Fault:
    """What is replaced in the text of one of the kernels above, and words of the difference that is told."""

    name: str
    old: str
    new: str
    words: str


ARRIVE = "mbarrier.arrive(empty.index(multiplied_before), count=4)\n"
LATE = "accumulators = warpgroup_mma_init(warpgroup_mma_wait(1, deps=(accumulators,)))\n"
STORED = "        fence_async_shared()\n        cta_barrier()\n"
BOXES = "for warp in gl.static_range(4):\n        tma_store"
TEXTS = {
    "no arrival": Fault("overlapped", ARRIVE, "pass\n", "says arrive"),
    "too many arrivals": Fault("overlapped", ARRIVE, ARRIVE.replace("4", "8"), "says arrive empty[0] (1)"),
    "no fence of a store": Fault("overlapped", STORED, "        cta_barrier()\n", "store is not directly behind"),
    "a group more under way": Fault("overlapped", LATE, LATE.replace("wait(1", "wait(2"), "wait group wgmma (1)"),
    "bytes that nobody brings": Fault("overlapped", "loaded), 49152", "loaded), 49168", "expect full[0] (49152)"),
    "the wrong parity": Fault("overlapped", "loaded_parity ^ 1)", "loaded_parity)", "empty[0] parity 1"),
    "a stage twice": Fault("overlapped", "A.index(loaded)", "A.index(0)", "load A[1]"),
    "B of another stage": Fault("overlapped", "B.index(multiplied)", "B.index(0)", "multiply A[1]"),
    "C through one buffer": Fault("overlapped", "C.index(1)", "C.index(0)", "C0[1]"),
    "buffers not waited for": Fault("overlapped", "tma.store_wait(4)", "tma.store_wait(8)", "bulk.read (1)"),
    "half a group": Fault("overlapped", "tma.store_wait(4)", "tma.store_wait(6)", "6 groups are not"),
    "too few registers": Fault("overlapped", "[232, 40]", "[200, 40]", "registers inc (232)"),
    "a buffer for both": Fault("overlapped", "A, B, C1,", "A, B, C0,", "C"),
    "no store of a box": Fault("overlapped", BOXES, BOXES.replace("4", "3"), "3 boxes are stored in [3, 3, 3, 3]"),
    "released before it is read": Fault(
        "sums", f"            {LATE}            {ARRIVE}", f"            {ARRIVE}            {LATE}", "text does arrive"
    ),
    "not waited for": Fault("sums", "mbarrier.wait(full.index(multiplied), multiplied_parity)", "pass", "wait full[0]"),
    "rows left out": Fault("rows", "C.index(0).store(elements(held_1))", "pass", "says write C0[0]"),
}


QUICK_FAULTS = ("no arrival", "buffers not waited for", "rows left out")


def told(fault: str) -> None:
    one, found = TEXTS[fault], list[str]()
    gemm, kernel = chosen(one.name)
    ready = printed(one.name, one.old, one.new)
    for launch in launches(kernel, gemm.dtype.bytes, few=True):
        found += ready.differences(ready.run(launch))
    assert any(one.words in said for said in found), found[:5]


@pytest.mark.parametrize("fault", QUICK_FAULTS)
def test_faults_in_a_text_are_told(fault: str) -> None:
    told(fault)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [fault for fault in TEXTS if fault not in QUICK_FAULTS])
def test_further_faults_in_texts_are_told(fault: str) -> None:
    told(fault)

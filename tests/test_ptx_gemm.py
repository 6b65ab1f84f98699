"""Products on tcgen05: interpreted, run as PTX on a model of the machine, compared, proven, assembled, refused."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ptx_formats import decode, encode
from ptx_launched import multiplied
from ptx_machine import Stuck
from small_products import MORE, PRODUCTS, Case

import legalsat as ls
from bench.kernels.conformance import judged
from bench.kernels.interpreted import drawn_numbers, exact
from legalsat.analyses.protocol.typestate import check
from legalsat.backends import program
from legalsat.backends.ptx.assemble import assemble, tool_for
from legalsat.backends.ptx.persistent import emit
from legalsat.extract.check.check_ptx import check_ptx
from legalsat.extract.kernels.contract import require_contract
from legalsat.extract.kernels.interpreter import interpret
from legalsat.extract.kernels.kernel_program import kernel_program, printed_program
from legalsat.extract.kernels.product_kernels import product_kernels
from legalsat.extract.kernels.unfolded import unfolded
from legalsat.plans.gemm_plan import GemmPlan
from legalsat.plans.product_kernel import ProductKernel
from legalsat.program.kernel import NESTS, ReleaseDone
from legalsat.program.pipeline import Arrive, CommitTo, Fence, Guard, Load, Loop, Sync, Wait, walk
from legalsat.rules import MULTIPLY_RULES
from legalsat.targets import target
from legalsat.units.tcgen05 import kind_of
from legalsat.units.tcgen05_sites import Tcgen05Mma

B200 = target("b200")
T = ls.Tensor
# Of elements that wgmma reads along k alone.
ACROSS = {
    "bytes across": ls.Gemm(150, 112, 300, "i8", a=T((150, 300), "i8", (1, 160)), b=T((112, 300), "i8", (1, 112))),
    "A across": ls.Gemm(150, 50, 304, "e4m3", out_dtype="bf16", a=T((150, 304), "e4m3", (1, 160))),
    "fp32 across": ls.Gemm(140, 72, 75, "fp32", a=T((140, 75), "fp32", (1, 140)), b=T((72, 75), "fp32", (1, 76))),
    "B across": ls.Gemm(70, 200, 76, "tf32", b=T((200, 76), "tf32", (1, 200))),
}
FURTHER = {
    "C by columns": ls.Gemm(72, 50, 136, "bf16", c=T((72, 50), "bf16", (1, 80))),
    "C by elements": ls.Gemm(72, 50, 136, "bf16", c=T((72, 50), "bf16", (151, 3))),
    "odd rows": ls.Gemm(130, 73, 137, "fp16"),
    "scaled": ls.Gemm(100, 72, 400, "e4m3", out_dtype="bf16", scaled=True),
    "C of bytes": ls.Gemm(70, 48, 144, "i8", out_dtype="i8"),
    "many tiles": ls.Gemm(300, 520, 400, "bf16"),
    **ACROSS,
}


def on_blackwell(cases: list[Case]) -> dict[str, ls.Gemm]:
    return {str(case): case.gemm() for case in cases if case.target == "sm_100a"}


GEMMS = on_blackwell(PRODUCTS) | FURTHER
EVERY = [*GEMMS, *(pytest.param(name, marks=pytest.mark.slow) for name in on_blackwell(MORE))]


def gemm_of(name: str) -> ls.Gemm:
    return (GEMMS | on_blackwell(MORE))[name]


@lru_cache
def kernels(gemm: ls.Gemm) -> list[ProductKernel]:
    return [kernel for _, kernel in product_kernels(gemm, B200)]


def some(gemm: ls.Gemm, count: int) -> list[ProductKernel]:
    """Return the chosen kernel, and others at random."""
    first, *others = kernels(gemm)
    assert first.issues and first.unit == "tcgen05" and ls.synthesize(gemm, B200.name).kernel == first
    return [first, *random.Random(str(gemm)).sample(others, min(count, len(others)))]


@pytest.mark.parametrize("name", EVERY)
def test_kernels_multiply_right(name: str) -> None:
    """As PTX: one CTA computes all tiles, some of which overhang; nothing but C is written."""
    gemm = gemm_of(name)
    few = [kernel for kernel in kernels(gemm) if kernel.cluster_blocks <= 2]  # CTAs, of which a machine takes long
    for number, kernel in enumerate((few[0], random.Random(name).choice(few))):
        multiplied(gemm, kernel, clusters=1 + number, seed=len(name), gpu=B200)


@pytest.mark.parametrize("name", EVERY)
def test_programs_multiply_right(name: str) -> None:
    """As programs on numpy, in random orders; each keeps the contract."""
    gemm = gemm_of(name)
    a, b = drawn_numbers(gemm, 3)
    scales = (0.5, 4.0) if gemm.scaled else ()
    for number, kernel in enumerate(some(gemm, 3)):
        found = interpret(GemmPlan(gemm, B200, kernel), a, b, clusters=number % 3, seed=number, scales=scales)
        np.testing.assert_array_equal(found, exact(gemm, a * (2 if scales else 1), b))
        require_contract(kernel_program(kernel, gemm.out_dtype.bytes), B200)


@pytest.mark.parametrize("name", ACROSS)
def test_tiles_are_read_as_they_lie(name: str) -> None:
    """By a swizzle that the rules allow, in front of no relayout; the instruction says which axis is fast."""
    gemm, (kernel, *_) = gemm_of(name), kernels(gemm_of(name))
    plan = ls.synthesize(gemm, "b200")
    lie = tuple("K" if one.strides[1] == 1 else "MN" for one in (gemm.a, gemm.b))
    assert kernel.majors == lie and kernel.relayouts == ("none", "none") and not plan.before
    word = ls.InstructionDescriptor.from_word(kind_of(gemm.dtype.name, gemm.dtype.name).name, plan.mma.instruction)
    assert (word.a_major, word.b_major) == lie
    swizzles = [str(one.swizzle) for one in plan.tensor_maps]
    site = Tcgen05Mma(word, a_swizzle=swizzles[0], b_swizzle=swizzles[1])
    assert not any(d.level == "error" for rule in MULTIPLY_RULES for d in rule.check(site, B200))
    assert len(ls.explain(gemm, "b200").diagnostics) == 0


CLUSTERS = [(1, 1), (2, 1), (1, 2), (2, 2), (4, 1)]
LACKS = {
    "fetched before it is summed up": lambda op: isinstance(op, Wait) and op.barrier == "summed",
    "summed into while it is fetched": lambda op: isinstance(op, Wait) and op.barrier == "fetched",
    "multiplied before it is loaded": lambda op: isinstance(op, Wait) and op.barrier == "full",
    "loaded while it is multiplied": lambda op: isinstance(op, Wait) and op.barrier == "empty",
    "nobody says that it is summed up": lambda op: isinstance(op, CommitTo) and op.barrier == "summed",
    "nobody says that it was fetched": lambda op: isinstance(op, Arrive) and op.barrier == "fetched",
    "nobody says that a stage is free": lambda op: isinstance(op, ReleaseDone),
    "no fence before": lambda op: isinstance(op, Fence) and op.kind == "tcgen05.before",
    "no fence after": lambda op: isinstance(op, Fence) and op.kind == "tcgen05.after",
}


def without(body: Any, lacks: Callable[[Any], bool]) -> Any:
    """Return operations without some, and without those in what they hold."""
    left = (op for op in body if not lacks(op))
    return tuple(replace(op, body=without(op.body, lacks)) if isinstance(op, NESTS) else op for op in left)


def of_cluster(cluster: tuple[int, int]) -> ProductKernel:
    """Return a small kernel whose CTAs share what they load."""
    found = kernels(FURTHER["many tiles"])
    return next(one for one in found if one.cluster == cluster and one.tile[:2] == (128, 64))


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_what_a_cluster_shares_comes_once_and_is_multiplied_right(cluster: tuple[int, int]) -> None:
    """By the program, by the text on the machine, event for event, and for all numbers of tiles and k-tiles."""
    gemm, kernel = FURTHER["many tiles"], of_cluster(cluster)
    a, b = drawn_numbers(gemm, 5)
    found = interpret(GemmPlan(gemm, B200, kernel), a, b, clusters=1, seed=sum(cluster))
    np.testing.assert_array_equal(found, exact(gemm, a, b))
    multiplied(gemm, kernel, clusters=1, seed=sum(cluster), gpu=B200)
    compared = judged(gemm, kernel, few=True, backend="ptx")
    assert not compared["differences"] and compared["events"] > 1000
    (checked,) = check_ptx(emit(gemm, kernel)).kernels
    assert checked.proven, (checked.findings, checked.unproven)
    assert assemble(emit(gemm, kernel), "sm_100a")[:4] == b"\x7fELF"
    sent = {
        op.mask.bit_count() for role in kernel_program(kernel, 2).roles for op in walk(role.body) if type(op) is Load
    }
    assert max(sent) == max(cluster)


CLUSTER_FAULTS: dict[str, tuple[Callable[[Any], bool], Callable[[Any], Any]]] = {
    "a stage is free for its own CTA alone": (
        lambda op: isinstance(op, CommitTo) and op.mask != 1, lambda op: replace(op, mask=1)
    ),
    "a stage is free for another one too": (
        lambda op: isinstance(op, CommitTo) and op.mask != 1, lambda op: replace(op, mask=0b1111)
    ),
    "a stage is free for none of the cluster": (
        lambda op: isinstance(op, CommitTo) and op.mask != 1, lambda op: replace(op, mask=0b10000)
    ),
    "it is summed up elsewhere": (
        lambda op: isinstance(op, CommitTo) and op.barrier == "summed", lambda op: replace(op, mask=0b10)
    ),
    "what is loaded goes to fewer": (
        lambda op: isinstance(op, Load) and op.mask != 1, lambda op: replace(op, mask=1)
    ),
    "a CTA ends before the others are done": (lambda op: isinstance(op, Loop) and op.trips.plus > 1, lambda op: None),
    "the set-up meets the CTA alone": (
        lambda op: isinstance(op, Sync) and op.name == "cluster", lambda op: replace(op, name="block")
    ),
}  # fmt: skip


def changed(body: Any, which: Callable[[Any], bool], change: Callable[[Any], Any]) -> Any:
    """Return operations with some changed, or taken out where that gives None."""
    found = (change(op) if which(op) else op for op in body)
    return tuple(
        replace(op, body=changed(op.body, which, change)) if isinstance(op, Loop | Guard) else op
        for op in found
        if op is not None
    )


@pytest.mark.parametrize("fault", CLUSTER_FAULTS)
def test_faults_of_a_cluster_are_not_proven(fault: str) -> None:
    pipeline = kernel_program(of_cluster((2, 2)), 2)
    assert check(pipeline, B200).proven
    roles = tuple(replace(role, body=changed(role.body, *CLUSTER_FAULTS[fault])) for role in pipeline.roles)
    assert roles != pipeline.roles and not check(replace(pipeline, roles=roles), B200).proven


@pytest.mark.parametrize("what", LACKS)
def test_what_lacks_an_operation_is_not_proven(what: str) -> None:
    """The contract needs each of what orders loads, multiplications and fetches."""
    kernel = kernels(FURTHER["many tiles"])[0]
    program = printed_program(kernel, 2)
    assert check(unfolded(program), B200).proven
    roles = tuple(replace(role, body=without(role.body, LACKS[what])) for role in program.roles)
    assert not check(unfolded(replace(program, roles=roles)), B200).proven


SPOILT = {
    "no proxy fence": (r"fence\.proxy\.async\.shared::cta;", "bar.warp.sync 0xffffffff;"),
    "too many bytes expected": (r"(expect_tx\S* _, \S+ )(\d+);", r"\g<1>1\g<2>;"),
    "step along k too long": (r"add\.u64 (%d\d+), (%d\d+), 2;", r"add.u64 \1, \2, 4;"),
    "tensor memory kept": (r"tcgen05\.dealloc.*;", "bar.warp.sync 0xffffffff;"),
    "sums of the tile before kept": (
        r"setp\.ne\.s32 (%p\d+), (%r\d+), 0;\n(.*tcgen05\.mma)",
        r"setp.eq.s32 \1, \2, \2;\n\3",
    ),
    "other lanes fetched": (r"(16x256b\S+ \{.*\}, \[%r\d+)\]", r"\1+1048576]"),
    "nobody says that it was fetched": (r"@%p\d+ mbarrier\.arrive\.shared::cta\.b64 .*;", ""),
}


@pytest.mark.parametrize("what", SPOILT)
def test_the_machine_notices(what: str) -> None:
    """A kernel that is spoilt hangs, faults or is wrong; so the tests above can fail."""
    found, instead = SPOILT[what]
    gemm, kernel = FURTHER["many tiles"], of_cluster((1, 1))
    text, count = re.subn(found, instead, emit(gemm, kernel))
    assert count
    with pytest.raises((Stuck, AssertionError)):
        multiplied(gemm, kernel, clusters=1, seed=len(what), text=text, gpu=B200)


@pytest.mark.parametrize(
    "name", ["sm_100a fp16 50x37x72 KK 39", "many tiles", "C of bytes", "bytes across", "fp32 across"]
)
def test_the_text_does_what_the_program_says(name: str) -> None:
    gemm = gemm_of(name)
    found = judged(gemm, kernels(gemm)[0], few=True, backend="ptx")
    assert not found["differences"]
    assert found["events"] > 100


def test_texts_are_proven() -> None:
    """With boxes' sizes recovered: their barrier counts what the maps bring."""
    gemm, kernel = FURTHER["many tiles"], of_cluster((1, 1))
    (checked,) = check_ptx(emit(gemm, kernel)).kernels
    assert checked.proven, (checked.findings, checked.unproven)
    assert sum(checked.boxes.values()) == sum(kernel.loaded) * 128


def test_numbers_are_those_of_the_plan() -> None:
    """The descriptors, the instruction and the columns of tensor memory are those that the plan shows."""
    plan = ls.synthesize(ls.Gemm(4096, 4096, 4096, "bf16"), "b200")
    mma, text = plan.mma, plan.emit("ptx")
    assert mma.unit == "tcgen05" and mma.a is not None and mma.b is not None
    assert "mov.b32 %r" in text and f", {mma.instruction};" in text
    words = {int(word) for word in re.findall(r"add\.u64 %d\d+, %d\d+, (\d{6,});", text)}
    assert words == {mma.a.word(0, 0), mma.b.word(0, 0)}
    descriptor = ls.InstructionDescriptor.from_word("f16", mma.instruction)
    assert (descriptor.m, descriptor.n, descriptor.k) == mma.shape
    assert not ls.violations(descriptor, "b200")
    assert re.findall(r"tcgen05\.alloc[^;]*, (\d+);", text) == [str(mma.allocated)]
    ends = [one.first + one.count for one in mma.tensor_memory]
    assert max(ends) <= mma.allocated <= 512 and [one.first for one in mma.tensor_memory] == [0, *ends[:-1]]
    assert str(mma.instruction) and "tcgen05 m128" in str(plan)


LARGE = {
    "bf16": ls.Gemm(4096, 4096, 4096, "bf16"),
    "odd, across": ls.Gemm(
        4096, 4095, 4096, "fp16", a=T((4096, 4096), "fp16", (1, 4096)), b=T((4095, 4096), "fp16", (1, 4096))
    ),
    "e5m2": ls.Gemm(8192, 8192, 136, "e5m2"),
    "fp32": ls.Gemm(2048, 2047, 2048, "fp32"),
    **ACROSS,
}


@pytest.mark.parametrize("name", LARGE)
def test_kernels_assemble_and_spill_nothing(name: str, tmp_path: Path) -> None:
    gemm = LARGE[name]
    widest = max(kernels(gemm), key=lambda one: (one.tile[1], one.tile[0]))
    for kernel in (kernels(gemm)[0], widest):
        source = tmp_path / "kernel.ptx"
        source.write_text(emit(gemm, kernel), encoding="utf-8")
        command = [tool_for("sm_100a"), "-v", "-arch=sm_100a", "-o", str(tmp_path / "kernel.cubin"), str(source)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
        assert "0 bytes spill stores, 0 bytes spill loads" in said


@pytest.mark.parametrize("gpu", ["b300", "thor"])
def test_kernels_assemble_for_kin(gpu: str) -> None:
    plan = ls.synthesize(ls.Gemm(300, 200, 128, "bf16"), gpu)
    assert assemble(plan.emit("ptx"), plan.target.architecture)[:4] == b"\x7fELF"


def test_other_backends_name_the_operation_that_they_have_no_row_for() -> None:
    gemm = FURTHER["many tiles"]
    for backend in ("cute", "triton"):
        with pytest.raises(ls.LegalSatError, match=f"{backend} has no row for .* and ptx has one"):
            ls.synthesize(gemm, "b200").emit(backend)
        with pytest.raises(ls.LegalSatError, match=f"kernels of .* may be taken.*{backend} has no row for"):
            ls.synthesize(gemm, "b200", backend=backend)
    assert ls.synthesize(gemm, "b200", backend="ptx").kernel.issues
    assert program(ls.synthesize(gemm, "b200")).builder.endswith("ptx.program")


@pytest.mark.parametrize("gpu", ["a100", "rtx5090", "mi300x"])
def test_where_no_unit_reads_shared_memory_no_kernel_multiplies_and_rules_say_so(gpu: str) -> None:
    with pytest.raises(ls.NoLegalLayout) as refused:
        ls.synthesize(ls.Gemm(64, 64, 64, "bf16"), gpu)
    assert [d.code for d in refused.value.diagnostics] == ["PROD004"]
    assert not ls.explain(ls.Gemm(64, 64, 64, "bf16"), gpu).legal
    with pytest.raises(ls.NoLegalLayout) as refused:
        ls.synthesize(ls.GroupedGemm(64, 64, 64, "bf16", groups=4), gpu)
    assert [d.code for d in refused.value.diagnostics] == ["PROD004"], "one at a time is refused there too"


def test_backends_print_their_own_kind() -> None:
    with pytest.raises(ls.LegalSatError, match="give one of cute, ptx, triton, host"):
        ls.synthesize(ls.Gemm(24, 16, 7 * 64, "bf16"), "h200").emit("host-python")  # type: ignore[arg-type]
    with pytest.raises(ls.LegalSatError, match="backend is 'ptx'"):
        ls.synthesize(ls.Copy(ls.Tensor((64, 64), "bf16")), "h200").emit("ptx")  # type: ignore[arg-type]


def test_formats_agree_with_numpy() -> None:
    """Where numpy has the format; the others by what their every code means."""
    values = np.random.default_rng(0).normal(size=100).astype(np.float32)
    assert np.array_equal(encode(values, "fp16"), values.astype(np.float16).view(np.uint16))
    for name in ("e4m3", "e5m2", "bf16", "i8"):
        codes = np.arange(256, dtype=np.uint32) << (8 if name == "bf16" else 0)
        known = codes[np.isfinite(decode(codes, name))]
        assert np.array_equal(encode(decode(known, name), name), known)

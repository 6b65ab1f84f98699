"""Sentences of programs read by one grammar: a quantity, what is asked of it, the number, and what it was given."""

from __future__ import annotations

import itertools
import random
from contextlib import suppress

import pytest

import legalsat as ls
from legalsat.pasted.conditions import condition
from legalsat.targets import TARGETS, target_of_text


def first(text: str, target: str = "h200") -> ls.Diagnostic:
    return ls.explain(text, target).diagnostics[0]


# One condition in many words; {q} is the quantity, {g} what it was given and {b} what it is asked to be a multiple of.
MULTIPLES = [
    "{q} = {g} is not divisible by {b}",
    "ValueError: {q} ({g}) must be a multiple of {b}",
    "RuntimeError: Expected {q} to be divisible by {b} but got {g}",
    "AssertionError: {q} should be a multiple of {b}, got {g}",
    "Check failed: ({q} % {b} == 0) is false: {q}={g}",
    "error: {q} {g} isn't a multiple of {b}",
    "{q}: {g} has to be divisible by {b}",
    "Weight {q} = {g} is not divisible by the_tile = {b}. Consider another",
]


@pytest.mark.parametrize("form", MULTIPLES)
def test_a_multiple_is_read_in_any_words(form: str) -> None:
    draw = random.Random(form)
    for _ in range(20):
        quantity = draw.choice(["size_k", "prob_m", "input_size_per_partition", "hidden_size", "OC", "num_cols"])
        bound = draw.choice([24, 32, 48, 64, 96, 128, 512])
        given = bound * draw.randint(1, 200) + draw.randint(1, bound - 1)
        told = condition(form.format(q=quantity, g=given, b=bound))
        assert (told.quantity, told.given, told.multiple) == (quantity, str(given), bound)
        more = -(-given // bound) * bound
        assert more % bound == 0 and f"{more} for one" in told.nearest
        message = first(form.format(q=quantity, g=given, b=bound)).message
        assert all(str(one) in message for one in (quantity, bound, given)), message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("size_k must divisible by BLOCK_SIZE_K", "a multiple of BLOCK_SIZE_K for size_k"),
        ("size_n=... not divisible by tile_n_size=64", "a multiple of tile_n_size = 64 for size_n"),
        ("all dimensions of x and y must be >= 16", "at least 16 for dimensions of x and y"),
        (
            "Group size (32) does not divide the number of features (4304)",
            "Group size = 32, given 4304 for number of f",
        ),
        ("block_m=16 is less than 64", "at least 64, given 16 for block_m"),
        ("numel (2097152) exceeds maximum numel (1048576)", "at most maximum numel = 1048576, given 2097152 for numel"),
        ("Shape element 1 must be a power of 2", "a power of two for Shape element"),
        ("x.stride( 2) = 77, and should be a multiple of 8", "a multiple of 8, given 77 for x.stride( 2)"),
        ("N must be a multiple of 8 and <= 256, got 320", "a multiple of 8 and at most 256, given 320 for N"),
        ("Upper corner must be in range [-128, 127]", "[-128, 127] for Upper corner"),
        ("dot of [2, 4] by [4, 32]: all must be >= 16", "at least 16, given 2, 4, 4"),
    ],
)
def test_other_relations_are_read(line: str, said: str) -> None:
    assert said in str(condition(line))


@pytest.mark.parametrize(
    "line",
    [
        "Expected trailing dimension of mat1 to be divisible by 16 but got mat1 shape",
        "M and K are divisible by 8, but N is not divisible by 8 in this GEMM",
    ],
)
def test_a_digit_of_a_name_and_what_is_asked_are_no_given_numbers(line: str) -> None:
    assert condition(line).multiple in (8, 16) and not condition(line).given


def test_of_a_shape_the_extents_that_miss_the_multiple_are_told() -> None:
    told = condition("Expected both dimensions of mat2 to be divisible by 16 but got torch.Size([768, 2])")
    assert told.nearest == "make 2 a multiple of 16, 16 for one; "
    assert condition("N must be a multiple of 8, got 64").nearest == ""


@pytest.mark.parametrize(
    "line",
    [
        "mask = torch.cat([mask, mask.new_zeros(8 - mask.size(-2) % 8)])",
        "128 passed, 16 warnings in 5.03s",
        "the train left at 16:30",
        "index = i % 32 + j",
    ],
)
def test_a_number_in_passing_asks_nothing(line: str) -> None:
    assert condition(line).asks == ""
    with pytest.raises(ls.InvalidInput):
        ls.explain(line, "h200")


def test_no_rule_of_a_unit_that_the_gpu_lacks_is_the_cause() -> None:
    texts = (
        "Check failed: (stride == 4 || stride % 8 == 0) is false: stride=20",
        "RuntimeError: Expected trailing dimension of mat1 to be divisible by 16 but got mat1 shape: (32x8).",
        "tensor must be contiguous in its last dimension (gemm)",
        "strides should be multiple of 16 bytes",
        "box dimension 1 exceeds 256 elements",
        "the tile's N must be a multiple of 8 up to 256 (mma)",
    )
    units = {"TMA": "tma", "COPY": "tma", "BULK": "tma", "WGMMA": "wgmma", "TCGEN": "tcgen05", "TMEM": "tcgen05"}
    for text, name in itertools.product(texts, TARGETS):
        for code in (diagnostic.code for diagnostic in ls.explain(text, name).diagnostics):
            unit = next((unit for prefix, unit in units.items() if code.startswith(prefix)), None)
            assert unit is None or getattr(TARGETS[name], unit) is not None, (text, name, code)


@pytest.mark.parametrize(
    ("name", "architecture", "shared"),
    [
        ("v100", "sm_70", 96), ("Tesla T4", "sm_75", 64), ("p100", "sm_60", 48), ("GTX 1080 Ti", "sm_61", 48),
        ("RTX 2080", "sm_75", 64), ("rtx3080", "sm_86", 99), ("A10G", "sm_86", 99), ("sm_61", "sm_61", 48),
        ("h200", "sm_90a", 227),
    ],
)  # fmt: skip
def test_texts_of_chips_without_a_table_are_answered(name: str, architecture: str, shared: int) -> None:
    found = target_of_text(name)
    assert (found.architecture, found.shared_bytes_per_block) == (architecture, shared * 1024)
    told = first("OutOfResources: out of resource: shared memory, Required: 264192, Hardware limit: 49152", name)
    assert told.code == "SMEM001"
    assert first("head_dim must be 64 or 128 (attention)", name).code == "TOOL010"
    with pytest.raises(ls.InvalidInput):
        ls.explain("nothing", name)


def test_no_plan_is_made_for_a_chip_without_a_table() -> None:
    with pytest.raises(ls.UnknownTarget, match="has no table"):
        ls.explain(ls.Tensor((64, 64), "bf16"), "v100")
    with pytest.raises(ls.UnknownTarget):
        ls.explain("CUDA error: invalid argument", "nonsense")


@pytest.mark.parametrize(
    ("text", "target", "says"),
    [
        ("type fp8e4nv not supported in this architecture", "a100", "from sm_89 on; a100 is sm_80"),
        ("Bfloat16 is only supported on GPUs with compute capability of at least 8.0", "t4", "sm_80"),
        ("FlashAttention only supports Ampere GPUs or newer", "t4", "sm_80 (Ampere); t4 is sm_75"),
        ("this kernel requires H100 GPUs", "rtx3090", "h100 (sm_90); rtx3090 is sm_86"),
        ("Feature 'mma' requires .target sm_70 or higher", "gtx1080", "from sm_70 on"),
    ],
)
def test_what_a_gpu_lacks_is_told_beside_its_architecture(text: str, target: str, says: str) -> None:
    told = first(text, target)
    assert told.code == "TOOL004" and says in told.message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Selected invalid number of threads for cuda: 4224", "4224 threads"),
        ("the launch failed with num_warps=64", "2048 threads"),
        ("invalid configuration: blockDim (64, 32, 1) threads", "2048 threads"),
        ("CUDA driver error: invalid argument\ngrid=(1, 131072, 1)", "131072 blocks"),
    ],
)
def test_a_launch_beyond_every_gpus_limits_is_named(text: str, says: str) -> None:
    told = first(text)
    assert told.code == "TOOL011" and says in told.message
    within = text.replace("4224", "1024").replace("=64", "=32").replace("64, 32", "32, 32").replace("131072", "65535")
    with suppress(ls.InvalidInput):
        assert all(diagnostic.code != "TOOL011" for diagnostic in ls.explain(within, "h200").diagnostics)


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("cluster of 32 CTAs fails to launch", "TOOL008", "32 CTAs"),
        ("the kernel of 300 registers per thread fails to launch", "TOOL003", "300 registers"),
        ("cuTensorMapEncodeTiled fails when the globalStrides are 24 bytes", "TMA005", "24 bytes"),
        ("wgmma with N=20 fails to compile", "WGMMA008", "20 columns"),
        ("grid dim z = 70000 fails with invalid argument", "TOOL011", "70000 blocks"),
        ("__launch_bounds__(2048) is too large", "TOOL011", "2048 threads"),
        ("invalid cluster size: cluster dims (4,1,1) grid (130,1,1)", "TOOL008", "cluster of 4 CTAs along an axis"),
        ("gridDim=(8, 3), clusterDim=(1, 2): launch failed", "TOOL008", "cluster of 2 CTAs along an axis"),
    ],
)
def test_a_number_that_the_hardware_refuses_is_named_with_its_rule(text: str, code: str, says: str) -> None:
    told = first(text)
    assert told.code == code and says in told.message


def test_numbers_that_the_hardware_takes_are_not() -> None:
    texts = (
        "cluster of 8 CTAs fails",
        "globalStrides of 48 bytes fail",
        "wgmma with N=24 fails",
        "255 registers each fail",
    )
    for text in texts:
        with suppress(ls.InvalidInput):
            found = {diagnostic.code for diagnostic in ls.explain(text, "h200").diagnostics}
            assert not found & {"TOOL008", "TMA005", "WGMMA008", "TOOL003"}, text


@pytest.mark.parametrize("grid", ["grid (132, 1, 1)", "grid (130, 4, 1) or grid (128, 4, 1)", "grid of 130"])
def test_a_cluster_that_may_divide_the_grid_is_not_refused_by_its_size(grid: str) -> None:
    found = ls.explain(f"launch failed: invalid cluster size, cluster dims (4, 1, 1), {grid}", "h200").diagnostics
    assert not any("along an axis" in diagnostic.message for diagnostic in found)


# Causes in words of no known program; the code by what the documents of the rule say.
IN_WORDS = [
    ("arange's range must be a power of 2", "TOOL010", "power of two"),
    ("mat1 and mat2 shapes cannot be multiplied (32x100 and 128x64)", "TOOL010", "depth"),
    ("dot: every dim must be at least 16, got [16, 8]", "TOOL010", "at least 16, given [16, 8]"),
    ("cp.async size must be 4, 8 or 16 bytes, got 2", "VEC001", "given 2"),
    ("self.size(0) needs to be greater than 16, but got 1", "TOOL010", "more than 16, given 1"),
    ("int32 offsets overflow past 2^31 elements in the kernel", "TOOL013", "32 bits"),
    ("static assertion failed: CopyAtom partitioning does not match", "VEC004", "neighbouring"),
    ("mbarrier transaction bytes 2097152 exceed 2^20 - 1", "PIPE022", "1048575"),
    ("im2col corner must be in range [-16, 15]", "TMA043", "[-16, 15]"),
    ("query is not correctly aligned (attention)", "VEC002", "16 bytes at most"),
    ("the swizzle's subtile overlaps two warp tiles", "WGMMA004", "boundary"),
    ("prefill attention: failed to dispatch group_size 5", "TOOL010", "heads of queries"),
    ("The input size is not aligned with the quantized weight shape", "TOOL010", "quantized weights"),
    ("As[0][0] and As[4][0] are on the same bank, causing a bank conflict", "TOOL012", "multiple of 128 bytes"),
    ("CUBLAS_STATUS_ARCH_MISMATCH when calling cublasGemmEx", "TOOL004", "no code for this GPU"),
    ("CUBLAS_STATUS_EXECUTION_FAILED when calling cublasGemmEx", "TOOL010", "could not run"),
    ("scale_a should be (1024, 1), got (1, 1)", "TOOL010", "another shape"),
]


@pytest.mark.parametrize(("text", "code", "says"), IN_WORDS)
def test_causes_of_operands_are_named(text: str, code: str, says: str) -> None:
    told = first(f"RuntimeError: {text}", "h200")
    assert told.code == code and says in told.message

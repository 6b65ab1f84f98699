"""What a text's numbers need: shared memory of tiles and stages, registers of threads, shapes of tcgen05.

And what libraries of kernels refuse though the hardware would not.
"""

from __future__ import annotations

import itertools
import re
from contextlib import suppress

import pytest

import legalsat as ls
from legalsat.pasted.causes import named_causes
from legalsat.pasted.conditions import condition
from legalsat.pasted.grammar import even
from legalsat.targets import TARGETS
from legalsat.units.tcgen05 import KINDS, legal_m, legal_n

# By hand: bytes = stages x (M x K + K x N) x size, beside 232448 of an H100 and 101376 of sm_120.
TILES = {
    "triton": "{{'BLOCK_SIZE_M': {m}, 'BLOCK_SIZE_N': {n}, 'BLOCK_SIZE_K': {k}, 'num_stages': {s}}} dtype=torch.{t}",
    "inductor": "ACC_TYPE='tl.float32', BLOCK_K={k}, BLOCK_M={m}, BLOCK_N={n}, num_stages={s}, num_warps=8 # {t}",
    "autotuner": "BLOCK_M: {m}, BLOCK_N: {n}, BLOCK_K: {k}, num_warps: 8, num_ctas: 1, num_stages: {s} for {t}",
    "constexpr": "BLOCK_M: tl.constexpr = {m}\nBLOCK_N: tl.constexpr = {n}\nBLOCK_K: tl.constexpr = {k}\n"
    "NUM_STAGES: tl.constexpr = {s}\na: torch.{t}",
    "cutlass": "TileShape=cute::tuple<cute::_{m}, cute::C<{n}>, cute::_{k}>, StageCount<{s}>, {t}",
    "in words": "tile {m}x{n}x{k}, stages={s}, {t}",
    "in prose": "the {s}-stage kernel of tile {m}x{n}x{k} {t} fails",
}


def first(text: str, target: str) -> ls.Diagnostic:
    return ls.explain(text, target).diagnostics[0]


@pytest.mark.parametrize("form", TILES)
def test_a_tile_that_exceeds_shared_memory_is_refused_with_what_fits(form: str) -> None:
    text = TILES[form].format(m=128, n=256, k=64, s=5, t="bfloat16")
    told = first(text, "h100")
    assert told.code == "SMEM001"
    assert "245760" in told.message and "13312 more than the 232448" in told.message
    assert "4 stages (196608 bytes)" in told.help and "BLOCK_K 32 with 5 stages (122880 bytes)" in told.help
    fits = ls.explain(TILES[form].format(m=128, n=256, k=64, s=4, t="bfloat16"), "h100")
    assert (fits.verdict, fits.diagnostics) == ("undecided", ())
    assert "196608 of 232448 bytes" in fits.values[0]


def test_every_change_that_is_offered_fits_and_one_stage_more_does_not() -> None:
    sizes = {"float8_e4m3fn": 1, "float16": 2, "float32": 4}
    refused = 0
    for m, n, k, stages, (name, size) in itertools.product(
        (64, 128, 256), (64, 256), (32, 64, 128), (3, 6), sizes.items()
    ):
        text = TILES["triton"].format(m=m, n=n, k=k, s=stages, t=name)
        need = stages * (m * k + k * n) * size
        found = ls.explain(text, "h100")
        assert bool(found.diagnostics) == (need > 232448), text
        if not found.diagnostics:
            continue
        refused += 1
        help_ = found.diagnostics[0].help
        for count, bytes_ in re.findall(r"(?:take|or) (\d+) stages \((\d+) bytes\)", help_):
            assert int(bytes_) == int(count) * (m * k + k * n) * size <= 232448
            assert (int(count) + 1) * (m * k + k * n) * size > 232448
        for axis, extent, bytes_ in re.findall(r"BLOCK_(\w) (\d+) with \d+ stages \((\d+) bytes\)", help_):
            new = {"M": m, "N": n, "K": k} | {axis: int(extent)}
            assert int(bytes_) == stages * (new["M"] * new["K"] + new["K"] * new["N"]) * size <= 232448
    assert refused > 10


def test_a_need_is_explained_by_the_tile_and_the_rest_is_told() -> None:
    required = "out of resource: shared memory, Required: {}, Hardware limit: 232448. Reducing"
    tile = TILES["triton"].format(m=128, n=256, k=64, s=5, t="float16")
    told = first(f"{tile}\n{required.format(245760 + 1024)}", "h100")
    assert "5 stages of 128 x 64 and 64 x 256 elements of 2 bytes" in told.message
    assert "1024 lie beside them" in told.message and "14336 more than the 232448" in told.message
    assert "4 stages (197632 bytes)" in told.help
    other = first(f"{tile}\n{required.format(240000)}", "h100")
    assert "stages of" not in other.message, "240000 bytes are of another kernel"


@pytest.mark.parametrize(
    ("text", "target", "says"),
    [
        ("OutOfResources: out of resource: shared memory, Required: 264192, Hardware limit: 232448.", "h200", "31744"),
        ("Failed to set the allowed dynamic shared memory size to 163840", "sm_120", "62464 more than the 101376"),
        ("Failed to set the allowed dynamic shared memory size to 163840", "h200", "a block of h200 has 232448"),
        ("Entry function 'f' uses too much shared data (0x12000 bytes, 0xc000 max)", "h200", "that is declared"),
        ("kernel requests 115712 bytes of shared memory, exceeding the 101376-byte limit", "sm_120", "14336 more"),
        ("kernel needs 160 KB of shared memory but only 99 KB are available", "sm_89", "62464 more than the 101376"),
        ("Required: 131072, Hardware limit: 101376 (shared memory)", "h200", "such as sm_86"),
        ("smem requirement 131,072 B > 101,376 B", "sm_120", "29696 more than the 101376"),
        ("kernel((5,), (5,), (x,), shared_mem=98304)\nCUDA_ERROR_INVALID_VALUE: invalid argument", "h100", "49152"),
    ],
)
def test_bytes_beside_a_limit_are_compared(text: str, target: str, says: str) -> None:
    told = first(text, target)
    assert told.code == "SMEM001" and says in told.message


@pytest.mark.parametrize(
    ("text", "target", "code", "says"),
    [
        ("the kernel fails, MAX_SMEM_SIZE = 160 KB", "rtx4090", "SMEM001", "163840 bytes"),
        ("cuTensorMapEncodeTiled: invalid value; uint64_t strides[2] = {24, 480};", "h200", "TMA005", "with 24"),
        ("make_tma_copy(SM90_TMA_LOAD_MULTICAST{}, g, (_4,_2), Int<16>{}) fails", "h200", "TOOL008", "16 CTAs"),
    ],
)
def test_constants_of_programs_are_compared_with_the_hardware(text: str, target: str, code: str, says: str) -> None:
    told = first(text, target)
    assert told.code == code and says in told.message
    legal = text.replace("160", "64").replace("{24,", "{32,").replace("_4,_2", "_4,_4")
    with suppress(ls.InvalidInput):
        compared = told.message.partition(says)[2]
        assert all(compared not in one.message for one in ls.explain(legal, target).diagnostics)


@pytest.mark.parametrize(
    "text",
    [
        "kernel uses 98304 bytes of shared memory, 232448 available",
        "ptxas info : Used 168 registers, 49152 bytes smem, 400 bytes cmem[0]",
        "Setting smem size to 82944",
    ],
)
def test_shared_memory_that_suffices_is_no_error(text: str) -> None:
    with pytest.raises(ls.InvalidInput):
        ls.explain(text, "h100")


def test_an_unknown_type_is_taken_as_its_least_and_pairs_of_ctas_share() -> None:
    tile = "BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_stages={}"
    assert "elements of at least 1 byte" in ls.explain(tile.format(5), "h100").values[0]
    assert first(tile.format(10), "h100").code == "SMEM001"  # 245760 bytes of 8 bits
    assert ls.explain(tile.format(10) + ", num_ctas=2", "h100").verdict == "undecided"
    # Pipelines of mma hold one stage less: 9 x 24576 bytes are 221184.
    assert "9 stages" in first(tile.format(10), "sm_120").message


def test_registers_are_told_with_the_threads_that_leave_them() -> None:
    failed = first("ptxas fatal : (C7600) Register allocation failed with register count of '128'.", "h200")
    assert failed.code == "TOOL003" and "512 threads" in failed.message  # 65536 / 128
    text = "Insufficient registers (128) to compile instruction. Try to compile with register target of 154 or higher."
    told = first(text, "h200")
    assert "512 threads" in told.message and told.help.startswith("take 384 threads")  # 65536 / 160 = 409


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_multiplies_of_tcgen05_are_judged_by_the_tables(kind: str, group: int) -> None:
    rows, columns = legal_m(KINDS[kind], group), legal_n(KINDS[kind], group)
    for m, n in itertools.product((32, 64, 128, 192, 256), (8, 24, 48, 100, 256, 264)):
        text = f"tcgen05.mma.cta_group::{group}.kind::{kind} with M={m}, N={n}"
        codes = {d.code for d in ls.explain(text, "b200").diagnostics}
        assert ("TCGEN003" in codes) == (m not in rows), text
        if m in rows:
            assert ("TCGEN004" in codes) == (n not in columns), text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("MmaMXF4NVF4Op(shape_mnk=(64, 128, 64), CtaGroup.ONE)", "TCGEN003"),
        ("SM100_MMA_F16BF16_2x1SM_SS, M = 64, N = 128", "TCGEN003"),
        ("kind = #nvvm.tcgen05_mma_kind<f16>, cta_group::1, m=128, n=260", "TCGEN004"),
    ],
)
def test_multiplies_are_read_as_cutlass_and_mlir_spell_them(text: str, code: str) -> None:
    assert first(text, "b200").code == code


def test_a_kind_that_the_chip_lacks_is_refused_and_a_problem_is_no_instruction() -> None:
    assert first("tcgen05.mma.cta_group::1.kind::i8 M=128 N=64", "b300").code == "TCGEN001"
    with pytest.raises(ls.InvalidInput):
        ls.explain("tcgen05.mma.cta_group::2.kind::f16 on a problem of M=4096, N=4100", "b200")
    with pytest.raises(ls.InvalidInput):  # legal in two CTAs, and nobody says how many
        ls.explain("tcgen05.mma of kind::f16 M=256 N=64", "b200")


def test_what_a_compiler_lacks_is_told_beside_what_the_gpu_has() -> None:
    text = "LLVM ERROR: Cannot select: intrinsic %llvm.nvvm.tcgen05.wait.st"
    assert "b300 has it" in first(text, "b300").message
    assert "sm_120a does not have it either" in first(text, "sm_120").message


@pytest.mark.parametrize(
    ("line", "asks", "given"),
    [
        ("head_dim must be one of 64, 128 or 256 but got 96", "64, 128 or 256", "96"),
        ("Only support head size 64, 128, and 256 for now", "64, 128, and 256", ""),
        ("only supports head dimension at most 256 (got 320)", "at most 256", "320"),
        ("Paged KV cache block size must be divisible by 128", "a multiple of 128", ""),
        ("N must be a multiple of 128, got N=200", "a multiple of 128", "200"),
        ("Expect (32 <= headDim <= 2048), got 16", "32 to 2048", "16"),
        ("Unsupported block size: 64", "", "64"),
        ("group_size must be 128, got 32", "128", "32"),
        ("we only support seq_len > 128", "more than 128", ""),
        ("dim == 2 or dim == 3", "2 or 3", ""),
        ("nothing with numbers is said", "", ""),
    ],
)
def test_what_a_line_asks_and_was_given_is_read(line: str, asks: str, given: str) -> None:
    assert condition(line)[:2] == (asks, given)


@pytest.mark.parametrize(
    ("text", "says", "rule"),
    [
        ("flash attention: head_dim must be one of 64, 128, but got 96", "it asks for 64, 128, given 96", "WGMMA008"),
        ("page size must be a multiple of 64, got 16", "a multiple of 64, given 16", "TMA003"),
        ("cutlass gemm: group_size must be 128, got 32", "it asks for 128, given 32", "threads apply"),
        ("N must be divisible by 128 for this kernel", "a multiple of 128", "TMA005"),
        ("RuntimeError: No available kernel. Aborting execution. flash attention", "no kernel", ""),
        ("failed to dispatch head_dim 96", "head dimension", "WGMMA008"),
    ],
)
def test_a_programs_own_limit_is_told_apart_from_the_hardwares(text: str, says: str, rule: str) -> None:
    told = first(text, "h100")
    assert told.code == "TOOL010"
    assert says in told.message and rule in told.message


@pytest.mark.parametrize(
    "text", ["head_dim must be divisible by 8 (flash attention)", "K must be a multiple of 16 (fp8)"]
)
def test_a_multiple_of_16_bytes_is_the_hardwares_own_rule(text: str) -> None:
    assert first(text, "h100").code == "TMA005"


@pytest.mark.parametrize(
    "text",
    [
        "INFO 04-17 20:54:09 [cuda.py:292] Using Flash Attention backend.",
        "INFO Using FlashInfer backend on V1 engine, head_size 128, block size 16",
        "AUTOTUNE bmm(8x50x256, 8x256x1018)\n  triton_bmm_68 0.0072 ms 100.0% BLOCK_K=32, BLOCK_M=64, num_warps=8",
        "Capturing CUDA graph shapes: 100%|##########| 35/35 [00:12<00:00]",
        "gemm finished, 612.3 TFLOPS, max error 0.0 of 4096 x 4096",
        "[Autotuner]: Autotuning process ends",
        "torch 2.8.0+cu129, triton 3.4.0, NVIDIA H100 80GB HBM3",
        "test_gemm.py::test_fp8[128-256-64] PASSED",
        "nvcc -gencode arch=compute_90a,code=sm_90a -O3 --use_fast_math kernel.cu",
        "the kernel is bound by memory, so larger tiles do not help",
    ],
)
def test_lines_of_programs_that_work_name_no_cause(text: str) -> None:
    assert list(named_causes(even(text))) == []


@pytest.mark.parametrize(
    ("text", "code", "asks"),
    [
        ("tvm.error.InternalError: Check failed: (n_stages <= 4) is false: gemm fragment", "TOOL010", "at most 4"),
        ("RuntimeError: Assertion error (csrc/apis/layout.hpp:59): t.scalar_type() == kFloat", "TOOL010", ""),
        ("ValueError: warp_specialize must be used with at least 2 consumers of the gemm", "TOOL010", "at least 2"),
        (
            "RuntimeError: Pipeline failed while executing [`NVGPUWarpSpecialization` on 'builtin.module' op]",
            "TOOL014",
            "",
        ),
        ("UNREACHABLE executed at lib/Dialect/TritonGPU/HoistTMEMAlloc.cpp:418!", "TOOL014", ""),
    ],
)
def test_a_check_of_a_programs_own_is_told_as_such_where_nothing_else_is_said(text: str, code: str, asks: str) -> None:
    told = first(text, "h100")
    assert told.code == code and asks in told.message and text[:40] in told.where
    both = ls.explain(f"{text}\nCUDA error: misaligned address", "h100")
    assert "CUDA716" in {diagnostic.code for diagnostic in both.diagnostics}


@pytest.mark.parametrize(
    "text",
    [
        "ImportError: cannot import name 'flash_attn_func' from 'flash_attn'",
        "AssertionError: Torch not compiled with CUDA enabled",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        "TypeError: gemm() got an unexpected keyword argument 'stages'",
        "ValueError: not enough values to unpack (expected 3, got 2) in attention",
        "RuntimeError: NCCL error: unhandled system error, H100",
        "training hangs at epoch 3 on 8 H100",
        "the server hangs while loading the model on H100",
        "error: command '/usr/local/cuda/bin/nvcc' failed with exit code 1",
        "ERROR: Failed building wheel for flash-attn",
    ],
)
def test_errors_that_are_about_no_kernel_are_not_understood(text: str) -> None:
    with pytest.raises(ls.InvalidInput, match="nothing in the text is understood"):
        ls.explain(text, "h100")


def test_prefixes_of_loggers_do_not_part_a_sentence() -> None:
    said = ["RuntimeError: Failed to set the allowed dynamic shared", "memory size to 163840"]
    for prefix in (
        "[rank0]: ",
        "(Worker_TP0 pid=104) ERROR 04-27 08:24:57 [core.py:971] ",
        "E0912 11:54:57.366000 1121181 torch/_inductor/select_algorithm.py:2100] [7/0] ",
        "[16:10:33] ",
        "2026-01-10 22:23:50,123 ",
    ):
        assert first("\n".join(prefix + line for line in said), "sm_120").code == "SMEM001", prefix


def test_every_target_answers_every_limit() -> None:
    texts = ("head_dim must be 64 or 128 (attention)", "page size must be 64", "group_size must be 128 (gemm)")
    for text, target in itertools.product(texts, TARGETS):
        assert first(text, target).code == "TOOL010"


@pytest.mark.parametrize(
    ("said", "threads", "enough"),  # 72 registers of 65536, handed out by eights: 910 threads
    [("blockDim 1024", 1024, False), ("threads per block is 896", 896, True), ("block_dim = (32, 32)", 1024, False)],
)
def test_registers_of_ptxas_are_those_of_each_thread_of_the_block(said: str, threads: int, enough: bool) -> None:
    text = f"ptxas info    : Used 70 registers, 400 bytes cmem[0]\nthe launch fails; {said}"
    told = [one.message for one in ls.explain(text, "h100").diagnostics if one.where.startswith('text "Used')]
    assert len(told) == (not enough)
    assert all(str(72 * threads) in message for message in told)


@pytest.mark.parametrize(
    "line",
    [
        "AssertionError: head_dim must be divisible by 8 for vectorized loads",
        "rms_norm: hidden size must be a multiple of 8, but got 1021",
        "per_token_quant_fp8: Hidden dimension must be divisible by 16, but got 1076",
    ],
)
def test_a_granule_of_vectors_is_no_stride_of_a_map(line: str) -> None:
    assert first(line, "h100").code == "VEC003"
    assert first("Expected trailing dimension of mat1 to be divisible by 16 but got (32x8)", "h100").code == "TMA005"


def _said(text: str) -> tuple[ls.Diagnostic, ...]:
    try:
        return ls.explain(text, "h100").diagnostics
    except ls.InvalidInput:
        return ()


@pytest.mark.parametrize(
    ("text", "code", "right"),
    [
        ("a tensor map of 6 dimensions fails", "TMA001", ("6", "5")),
        ("7D TMA descriptor: invalid argument", "TMA001", ("7", "4")),
        ("TMA store at coordinates (64, -1) crashes", "COPY002", ("-1", "1")),
        (
            "reg_alloc<208> for three consumer warpgroups, reg_dealloc<40> of the producer: deadlock",
            "TOOL003",
            ("208", "144"),
        ),
        (
            "hangs: NUM_CONSUMER_WARPGROUPS = 3, increase_registers<184>, decrease_registers<24>",
            "TOOL003",
            ("184", "152"),
        ),
    ],
)
def test_numbers_of_maps_stores_and_roles_are_compared(text: str, code: str, right: tuple[str, str]) -> None:
    found = first(text, "h100")
    assert found.code == code and found.level == "error"
    assert code not in [one.code for one in _said(text.replace(*right))]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("64B swizzle with inner box of 64 bf16: invalid value", "TMA009"),
        ("inner box dim 6 bf16, encode returns 1", "TMA008"),
        ("innermost box size = 300, encode returns 1", "TMA003"),
        ("64B swizzle with inner box of 32 bf16: invalid value", None),
        ("inner box dim 8 bf16, encode returns 1", None),
        ("innermost box 12 x 4, encode returns 1", None),
    ],
)
def test_an_inner_box_that_prose_tells_is_judged(line: str, code: str | None) -> None:
    told = [one for one in _said(line) if one.level == "error" and one.code.startswith("TMA")]
    assert [one.code for one in told] == ([code] if code else [])

"""What code does with arrays, judged: descriptors, products, tiles; encode calls in C++; never taken for legal."""

from __future__ import annotations

import itertools
import random

import pytest

import legalsat as ls
from legalsat.pasted.code.python import follow
from legalsat.pasted.code.uses import judged_uses
from legalsat.targets import TARGETS
from legalsat.units.driver_arguments import from_fields

FAILED = "RuntimeError: CUDA error: misaligned address\n"
HEAD = "import torch\nfrom triton.tools.tensor_descriptor import TensorDescriptor\n"
SIZES = {"float16": 2, "bfloat16": 2, "float32": 4, "float8_e4m3fn": 1, "float64": 8}
ENCODE = (
    "cuTensorMapEncodeTiled(&map, {type}, {rank}, ptr, globalDim, globalStrides, boxDim, elementStrides,\n"
    "    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_{swizzle}, CU_TENSOR_MAP_L2_PROMOTION_NONE,\n"
    "    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);\n"
)


def codes(text: str, target: str = "h200") -> list[str]:
    return [d.code for d in ls.explain(text, target).diagnostics]


def test_descriptors_of_random_tensors_break_what_the_documents_say() -> None:
    """CUDA's and Triton's documents: strides and base of 16 bytes, last axis dense, at least 16 bytes of it a block."""
    draw = random.Random(20260202)
    for _ in range(400):
        name = draw.choice(list(SIZES))
        size, rank = SIZES[name], draw.randrange(1, 5)
        shape = [draw.choice([8, 24, 33, 64, 65]) for _ in range(rank)]
        strides = [draw.choice([1, 2]) if at == rank - 1 else draw.choice([64, 65, 4096, 4100]) for at in range(rank)]
        block = [draw.choice([1, 2, 4, 8, 16, 64]) for _ in range(rank)]
        offset = draw.choice([0, 0, 1, 16])
        wanted = set()
        if any(stride * size % 16 for stride in strides[:-1]):
            wanted.add("TMA005")
        if offset * size % 16:
            wanted.add("TMA004")
        if strides[-1] != 1:
            wanted.add("TMA024")
        if block[-1] * size % 16:
            wanted.add("TMA008")
        base = f"torch.as_strided(torch.zeros(2**30, dtype=torch.{name}), {shape}, {strides}, {offset})"
        text = f"{HEAD}x = {base}\nd = TensorDescriptor.from_tensor(x, {block})\n"
        judged = judged_uses(follow(text).calls, TARGETS["h200"], failed=False)
        assert {d.code for one in judged for d in one.found} == wanted, text


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("TensorDescriptor(torch.zeros(480).half(), shape=[8, 64], strides=[60, 1], block_shape=[8, 64])", ["TMA005"]),
        ("TensorDescriptor(torch.randn(8, 64).half(), [8, 64], [64, 1], [8, 4])", ["TMA008"]),
        ("TensorDescriptor.from_tensor(torch.randn(64, 64).half().t(), [16, 16])", ["TMA024"]),
        ("TensorDescriptor.from_tensor(torch.randn(64, 72).half()[:, 4:68], [16, 16])", ["TMA004"]),
        ("create_2d_tma_descriptor(x.data_ptr(), 128, 500, 64, 64, 2)", ["TMA005"]),
        ("create_2d_tma_descriptor(x.data_ptr(), 128, 504, 64, 64, 2)", []),
        # An extent that nobody knows stays unknown; the rest is judged.
        ("TensorDescriptor(x, shape=[M, N], strides=[511, 1], block_shape=[64, 64])", ["TMA005"]),
        ("TensorDescriptor(x, shape=[M, N], strides=[N, 1], block_shape=[64, 64])", []),
        ("torch._scaled_mm(torch.zeros(16, 32).to(fp8), torch.zeros(32, 16).to(fp8))",
         ["WGMMA010"]),
        ("torch._scaled_mm(torch.zeros(16, 32).to(fp8), torch.zeros(16, 32).to(fp8).t())",
         []),
        ("torch._scaled_mm(torch.zeros(16, 40).to(fp8), torch.zeros(16, 40).to(fp8).t())",
         ["TMA005"]),
        ("torch._scaled_mm(torch.zeros(16, 32).to(fp8), torch.zeros(15, 32).to(fp8).t())",
         ["TMA005"]),
        # Operands are known by their places, also where the first one is not known.
        ("torch._scaled_mm(x, torch.zeros(16, 32).to(fp8).t(), torch.ones(32, 16), torch.ones(16, 16))", []),
        ("torch._scaled_mm(x, torch.zeros(32, 16).to(fp8), scale_a=s, scale_b=s)", ["WGMMA010"]),
        ("torch._grouped_mm(torch.zeros(8, 64).bfloat16(), torch.zeros(4, 30, 64).bfloat16().mT, offs)", []),
        ("torch._grouped_mm(torch.zeros(8, 60).bfloat16(), torch.zeros(4, 30, 60).bfloat16().mT, offs)", ["TMA005"]),
        ("plgpu.SMEM((64, 64), jnp.float16, transforms=(plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)))",
         []),
        ("plgpu.SMEM((64, 64), jnp.float32, transforms=(plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)))",
         ["WGMMA004"]),
        ("plgpu.SMEM((60, 64), jnp.float16, transforms=(plgpu.TilingTransform((8, 64)), plgpu.SwizzleTransform(128)))",
         ["WGMMA004"]),
    ],
)  # fmt: skip
def test_what_code_builds_is_judged(code: str, found: list[str]) -> None:
    explained = ls.explain(f"{HEAD}fp8 = torch.float8_e4m3fn\ny = {code}\n", "h200")
    assert [d.code for d in explained.diagnostics] == found
    assert not explained.legal and bool(explained.undecided) == (not found)


def test_descriptors_are_followed_into_kernels_and_loops() -> None:
    kernel = (
        "@triton.jit\ndef kernel(a_ptr, M, N, BM: tl.constexpr):\n"
        "    d = tl.make_tensor_descriptor(a_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, 64])\n"
        "    d.load([0, {at}])\n"
        "for n in ({sizes}):\n    a = torch.randn(64, n, dtype=torch.bfloat16)\n    kernel[(1,)](a, 64, n, BM=64)\n"
    )
    assert codes(FAILED + kernel.format(sizes="512, 511", at=0)) == ["TMA005", "CUDA716"]
    assert codes(FAILED + kernel.format(sizes="512, 520", at=0)) == ["CUDA716"]
    assert codes(FAILED + kernel.format(sizes="512, 520", at=4)) == ["COPY001", "CUDA716"]
    moved = kernel.format(sizes="512,", at=0).replace("r(a_ptr,", "r(a_ptr + 3,")
    assert codes(FAILED + moved) == ["TMA004", "CUDA716"]


def test_what_code_only_may_say_names_no_cause() -> None:
    code = (
        "def run(x):\n    # the TMA wants strides that are a multiple of 16 bytes\n    assert x.stride(0) % 16 == 0\n"
        "    if x.stride(-1) != 1:\n        raise ValueError('TMA: the last dimension must be contiguous')\n"
        "    return TensorDescriptor.from_tensor(x, [8, 64])\nrun(torch.zeros(64, 64))\n"
    )
    assert codes(FAILED + code) == ["CUDA716"]
    assert codes(f"AssertionError\n{code}") == ["TMA005"]  # there it is what failed
    assert codes(f"ValueError: TMA: the last dimension must be contiguous\n{code}") == ["TMA024"]


def test_a_descriptor_that_takes_a_view_for_a_dense_tensor_is_told() -> None:
    view = "q = torch.empty(64, 2048).half().split(512, 1)[{}]\n"
    used = "TensorDescriptor(q, shape=[64, 512], strides=[{}, 1], block_shape=[64, 64])"
    assert codes(HEAD + view.format(1) + used.format(512)) == ["COPY010"]
    assert not codes(HEAD + view.format(1) + used.format(2048))
    assert not codes(f"{HEAD}q = torch.empty(64, 512).half()\n" + used.format(512))


def test_an_unmistakable_result_alone_on_its_line_is_one() -> None:
    said = "unspecified launch failure\nGot some error: Internal at: 460"
    assert "CUDA719" in codes(said)
    assert "CUDA001" not in codes(f"{said}\ninvalid argument\n")  # which any program says


def test_a_cause_that_the_text_names_comes_first_and_is_told_once() -> None:
    code = f"{HEAD}TensorDescriptor.from_tensor(torch.randn(64, 511), [16, 64])\n"
    memory = "OutOfResources: out of resource: shared memory, Required: 300000, Hardware limit: 232448\n"
    assert codes(memory + code) == ["SMEM001", "TMA005"]
    same = ls.explain("AssertionError: strides must be 16-byte aligned\n" + code, "h200")
    assert [d.message for d in same.diagnostics] == ["stride of axis 0 is 2044 bytes, no multiple of 16"]
    assert same.repairs


def test_operands_of_a_product_that_failed_are_judged() -> None:
    code = "a = torch.rand(64, 128).half()[:, {}:]\nb = torch.rand(64, 128).half().t()[{}:]\ntorch.mm(a, b)\n"
    said = "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling cublasLtMatmul\n"
    assert codes(said + code.format(4, 4)) == ["TMA004"]
    assert codes(said + code.format(8, 8)) == ["TOOL010"], "the operands are in order"
    with pytest.raises(ls.LegalSatError, match="nothing in the text is understood"):
        ls.explain(code.format(4, 4), "h200")  # cuBLAS multiplies them, if slowly


def test_extents_of_products_that_failed_are_judged() -> None:
    numbers = "m {} n {} k 64 mat1_ld 64 mat2_ld 64 result_ld 32"
    said = "_scaled_mm: CUBLAS_STATUS_INVALID_VALUE when calling cublasLtMatmul with transpose_mat1 t transpose_mat2 n "
    for m, n in itertools.product((16, 24, 32), (16, 15)):
        text = said + numbers.format(m, n)
        if m % 16 or n % 16:
            assert codes(text) == ["TMA005"]
        else:
            assert codes(text) == ["TOOL010"], "the extents are in order"
    assert codes("AssertionError: fp8 linear\nself.up = nn.Linear(4096, 13653)") == ["TMA005"]
    assert (
        "13653"
        in ls.explain('cutlass_scaled_mm failed: AssertionError\n"n_inner": 13653,', "h200").diagnostics[0].message
    )


@pytest.mark.parametrize("seed", range(4))
def test_encode_calls_in_code_are_judged_as_their_maps(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(60):
        rank = draw.randrange(1, 4)
        dims = [draw.choice([64, 1000, 1001, 4096]) for _ in range(rank)]
        strides = [2 * dims[0], 2 * dims[0] * dims[min(1, rank - 1)]][: rank - 1]
        box = [draw.choice([8, 32, 64, 128, 300]) for _ in range(rank)]
        swizzle = draw.choice(["NONE", "64B", "128B"])
        fields = {"global_dim": dims, "global_stride": strides, "box": box, "swizzle": swizzle.replace("NONE", "none")}
        tensor_map = from_fields({"dtype": "f16", "address": 4096, **fields})
        assert isinstance(tensor_map, ls.TensorMap)
        wanted = {d.code for d in ls.violations(tensor_map, "h200") if d.level == "error"}
        text = (
            f"constexpr int N = {dims[0]}; // columns\n"
            f"uint64_t globalDim[{rank}] = {{{', '.join(['N', *map(str, dims[1:])])}}};\n"
            f"cuuint64_t globalStrides[] = {{{', '.join(['N * sizeof(half)', *map(str, strides[1:])][: rank - 1])}}};\n"
            f"std::array<uint32_t, {rank}> boxDim = {{{', '.join(f'{n}u' for n in box)}}};\n"
            f"const uint32_t elementStrides[{rank}] = {{{', '.join('1' * rank)}}};\n"
            + ENCODE.format(type="CU_TENSOR_MAP_DATA_TYPE_FLOAT16", rank=rank, swizzle=swizzle)
        )
        found = ls.explain(text, "h200")
        assert {d.code for d in found.diagnostics if d.level == "error"} == wanted, text
        assert not found.legal and bool(found.undecided) == (not wanted)


def test_an_encode_call_of_unknown_numbers_is_never_legal() -> None:
    text = "uint64_t globalDim[2] = {K, M};\nuint32_t boxDim[2] = {64, 300};\n" + ENCODE.format(
        type="type", rank=2, swizzle="128B"
    )
    assert codes(text) == ["TMA003"]
    found = ls.explain(text.replace("300", "64"), "h200")
    assert found.verdict == "undecided" and "the extents" in found.undecided


# What a text says failed, and whether longer rows of the tensor beside it cure it.
TENSOR = "shape torch.Size([512, 511]) stride (511, 1) dtype torch.bfloat16\n"


@pytest.mark.parametrize(
    ("said", "cured"),
    [
        ("", True),
        ("AssertionError: strides must be 16-byte aligned\n", True),
        ("RuntimeError: CUDA error: misaligned address\n", True),
        ('error: static assertion failed with "K % 8 == 0, stride alignment of TMA"\n', False),
        ('/include/cute/x.hpp(3): error: static assertion failed with "Static shape_div failure"\n', False),
        ("InternalError: Get different layout for B_s\n", False),
        ("out of resource: shared memory, Required: 300000, Hardware limit: 232448\n", False),
        ("AssertionError: the moon is full\n", False),
    ],
)
def test_no_repair_is_offered_that_does_not_cure_what_failed(said: str, cured: bool) -> None:
    found = ls.explain(said + TENSOR, "h200")
    assert "TMA005" in {d.code for d in found.diagnostics}
    assert any(repair.mends for repair in found.repairs) == cured
    assert cured or any("no repair is offered" in value for value in found.values)


def test_a_text_is_joined_with_what_is_beside_it() -> None:
    said, odd, even = "CUDA error: invalid argument", ls.Tensor((512, 511), "bf16"), ls.Tensor((512, 512), "bf16")
    found = ls.explain(said, "h200", beside=odd, tile=(64, 64))
    assert [d.code for d in found.diagnostics] == ["TMA005", "CUDA001"] and found.repairs and not found.legal
    fine = ls.explain(said, "h200", beside=even)
    assert [d.code for d in fine.diagnostics] == ["CUDA001"] and fine.verdict == "refused"
    unknown = ls.explain("something broke", "h200", beside=[even])
    assert not unknown.legal and unknown.undecided and not unknown.diagnostics
    several = ls.explain(
        "AssertionError: strides must be 16-byte aligned", "h200",
        beside=[odd, ls.Gemm(128, 128, 511, "bf16"), {"shape": (64, 65), "dtype": "bf16"}],
    )  # fmt: skip
    assert [d.code for d in several.diagnostics] == ["TMA005"] and "bytes" in several.diagnostics[0].message
    memory = ls.explain("shared memory, Required: 300000, Hardware limit: 232448", "h200", beside=odd)
    assert [d.code for d in memory.diagnostics] == ["TMA005", "SMEM001"] or memory.diagnostics[0].code == "SMEM001"
    assert not any(repair.mends for repair in memory.repairs)
    text = ls.synthesize(ls.Gemm(512, 512, 1024, "bf16"), "h200").emit("ptx")
    unfenced = "\n".join(line for line in text.splitlines() if "fence.proxy.async" not in line)
    both = ls.explain("CUDA error: unspecified launch failure", "h200", beside=unfenced)
    codes = [d.code for d in both.diagnostics]
    assert "PIPE010" in codes and codes[-1] == "CUDA719"
    with pytest.raises(ls.InvalidInput, match="beside has 0 entries"):
        ls.explain(said, "h200", beside=[])
    with pytest.raises(ls.InvalidInput, match="layout and dtype go with"):
        ls.explain(said, "h200", beside=odd, dtype="bf16")
    with pytest.raises(ls.InvalidInput, match="beside goes with a text"):
        ls.explain(odd, "h200", beside=even)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["--text", "invalid argument, CUDA error", "--shape", "512x511", "--dtype", "bf16"], ["TMA005", "CUDA001"]),
        (["--text", "CUDA error 715", "--gemm", "128x128x511", "--dtype", "bf16"], ["TMA005", "CUDA715"]),
        (
            ["--text", "715", "--tensor-map", "dtype=bf16", "global_dim=64,64", "global_stride=130", "box=64,8"],
            ["TMA005", "CUDA715"],
        ),
    ],
)
def test_the_command_takes_a_text_and_what_is_beside_it(
    capsys: pytest.CaptureFixture[str], words: list[str], wanted: list[str]
) -> None:
    from legalsat.cli import main  # noqa: PLC0415 - the only test of the command here

    assert main(["explain", "--target", "h200", *words]) == 1
    shown = capsys.readouterr().out
    assert [code for code in wanted if f"[{code}]" in shown] == wanted
    assert shown.index(wanted[0]) < shown.index(wanted[1])

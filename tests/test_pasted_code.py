"""Tensors that pasted code makes and instructions that a text names: read, judged, and never taken for legal."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

import legalsat as ls
from legalsat.pasted.code.calls import made_arrays
from legalsat.pasted.code.python import follow
from legalsat.pasted.products import explain_products
from legalsat.targets import TARGETS

FAILED = "RuntimeError: CUDA error: invalid argument while encoding a TMA descriptor\n"


@pytest.mark.parametrize(
    ("code", "made"),
    [
        ("torch.randn(8, 1025)", [((8, 1025), (1025, 1), "fp32")]),
        ("torch.empty((8, 1025), dtype=torch.bfloat16)", [((8, 1025), (1025, 1), "bf16")]),
        ("torch.zeros([2, 3, 4]).to(torch.float8_e4m3fn)", [((2, 3, 4), (12, 4, 1), "e4m3")]),
        ("M, N = 512, 511\nK = 2**4 + 1\ntorch.ones(M, N * 2, K).half()", [((512, 1022, 17), (17374, 17, 1), "fp16")]),
        ("torch.full((4, 7), 0)", [((4, 7), (7, 1), "i64")]),
        ("torch.randint(0, 3, (64, 24))", [((64, 24), (24, 1), "i64")]),
        ("torch.randint(3, (64, 24), dtype=torch.int8)", [((64, 24), (24, 1), "i8")]),
        ("torch.as_strided(base, size=(64, 64), stride=(65, 1))", [((64, 64), (65, 1), None)]),
        ("empty_strided_cuda((656, 6560), (6656, 1), torch.float8_e4m3fn)", [((656, 6560), (6656, 1), "e4m3")]),
        ("N = 4\nN = 8\ntorch.randn(64, N)", [((64, 8), (8, 1), "fp32")]),
        # What is not certain makes no tensor: names without a number or with two, calls, unbalanced and endless ones.
        ("torch.randn(M, N)", []),
        ("if debug:\n    N = 4\nelse:\n    N = 8\ntorch.randn(64, N)", []),
        ("torch.randn(len(x), 8)", []),
        ("torch.randn(-1, 8)", []),
        ("torch.randn(8, 8", []),
        ("torch.randn(" + "(" * 5000, []),
        ("torch.randn(9 ** 9 ** 9, 8)", []),
        ("torch.empty_strided((4, 4), (4,))", []),
    ],
)
def test_calls_with_known_numbers_make_tensors(code: str, made: list[object]) -> None:
    assert [(one.shape, one.strides, one.dtype) for one in made_arrays(follow(code).arrays)] == made


def test_a_tensor_that_code_makes_is_judged_where_a_copy_failed() -> None:
    odd, even = "torch.randn(512, 511, dtype=torch.bfloat16)", "torch.randn(512, 512, dtype=torch.bfloat16)"
    found = ls.explain(FAILED + odd, "h200")
    assert [d.code for d in found.diagnostics] == ["TMA005", "CUDA001"] and not found.legal
    assert found.diagnostics[0].message == "stride of axis 0 is 1022 bytes, no multiple of 16"
    assert [d.code for d in ls.explain(FAILED + even, "h200").diagnostics] == ["CUDA001"]
    for code in (odd, even):  # nothing failed, so nothing is said of a tensor that may never be copied
        with pytest.raises(ls.LegalSatError, match="nothing in the text is understood"):
            ls.explain(code, "h200")


def test_what_a_text_says_outweighs_a_tensor_that_its_code_makes() -> None:
    said = "the TMA box has 300 elements, more than 256\nscales = torch.randn(512, 3)"
    assert [d.code for d in ls.explain(said, "h200").diagnostics] == ["TMA003"]


def test_a_type_that_is_not_known_is_not_taken_from_another_tensor_before() -> None:
    text = "dtype=dtype\nshape (64, 64) stride (65, 1) TMA error: stride must be a multiple of 16 bytes"
    assert [d.code for d in ls.explain(text, "h200").diagnostics] == ["TMA005"]


def test_a_narrow_dense_tensor_is_judged_by_its_rows() -> None:
    text = "{}scales: torch.Size([98048, {}])\ndtype = torch.float8_e8m0fnu"
    assert [d.code for d in ls.explain(text.format(FAILED, 44), "b200").diagnostics] == ["TMA005", "CUDA001"]
    assert [d.code for d in ls.explain(text.format(FAILED, 48), "b200").diagnostics] == ["CUDA001"]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16", {"WGMMA008"}),
        ("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", set()),
        ("SM90_64x96x16_F32BF16BF16_SS", set()),
        ("SM90_64x96x32_F32BF16BF16_SS", {"WGMMA009"}),
        ("unsupported wgmma instruction m64n32k16 with A=f16, B=bf16, C=f32", {"WGMMA007"}),
        (
            "#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, instrShape = [16, 64, 32]}>\n"
            "ttng.warp_group_dot %a, %b, %c : !ttg.memdesc<64x64xf16, #s, #smem> * !ttg.memdesc<64x64xf16, #s, #smem>",
            {"WGMMA009"},
        ),
        ("#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, instrShape = [16, 64, 32]}>", set()),
    ],
)
def test_instructions_that_a_text_names_are_judged(text: str, codes: set[str]) -> None:
    assert {d.code for d in explain_products(text, TARGETS["h200"])} == codes
    assert not list(explain_products(text, TARGETS["sm_100a"]))


def test_texts_of_other_things_name_nothing() -> None:
    for text in (
        "ValueError: the batch must not be empty",
        "requests.exceptions.ConnectionError: HTTPSConnectionPool: Max retries exceeded",
        "KeyError: 'model.layers.0.mlp.gate'",
        "AssertionError: expected 3 rows, but got 4",
        "npm ERR! code ELIFECYCLE\nnpm ERR! errno 1",
    ):
        with pytest.raises(ls.LegalSatError, match="nothing in the text is understood"):
            ls.explain(text, "h200")


@pytest.mark.parametrize(
    "line",
    [
        "torch.randn((((((((((((((((\n",
        "x, y = 1, 2\n",
        "Descriptor 4 * 4 ",
        "warp_group_dot <1x1x",
        "#m = #t.n<{versionMajor = 3, instrShape = [1, ",
        "hopperMma Assertion ",
        "CUDA error\ninvalid argument\n",
        "cuTensorMapEncodeTiled(/*",
        "cuTensorMapEncodeTiled(a, ",
        "cuTensorMapEncodeTiled uint64_t x     =     {",
        "def f(x=torch.zeros(1, 1)):\n    # assert\n    raise f(\n",
        "--m=1 cutlass nn.Linear(1, 2) ",
    ],
)
def test_reading_code_takes_time_in_proportion_to_the_text(line: str) -> None:
    text = line * (300_000 // len(line))
    begin = time.process_time()
    with suppress(ls.LegalSatError):
        ls.explain(text, "h200")
    assert time.process_time() - begin < 5

"""Addresses in pasted code beside a result that says no more than that one was not aligned."""

from __future__ import annotations

import random

import pytest

import legalsat as ls
from legalsat.pasted.code.host_code import affine

MISALIGNED = "CUDA error: misaligned address\n"
ILLEGAL = "CUDA error: an illegal instruction was encountered\n"
BYTES = {"half": 2, "float": 4, "double": 8, "int8_t": 1}


def told(text: str, target: str = "h200") -> list[tuple[str, str]]:
    return [(diagnostic.code, diagnostic.message) for diagnostic in ls.explain(text, target).diagnostics]


def test_offsets_of_vectors_are_computed() -> None:
    draw = random.Random(7)
    for _ in range(200):
        kind, lanes = draw.choice([("float4", 16), ("float2", 8), ("uint4", 16), ("int2", 8)])
        element, constant, factor = draw.choice(["half", "float"]), draw.randint(0, 12), draw.randint(1, 12)
        size = BYTES[element]
        index = f"{factor} * threadIdx.x + {constant}"
        code = f"__global__ void f({element}* x) {{ y = *reinterpret_cast<{kind}*>(&x[{index}]); }}"
        # By hand: thread 0 is at the constant, thread 1 one factor on.
        off = next((at * size % lanes for at in (constant, constant + factor) if at * size % lanes), 0)
        code_, message = told(MISALIGNED + code)[0]
        assert code_ == "VEC002"
        assert (f"accessed {off} bytes past" in message) == bool(off), (code, message)


def test_starts_of_bulk_copies_are_computed() -> None:
    for offset, (name, size) in ((offset, kind) for offset in range(9) for kind in BYTES.items()):
        code = f"void f({name}* A) {{ tl::tma_load(&As[0], &A[{offset}], bar, 2048); }}"
        found = told(MISALIGNED + code)
        off = offset * size % 16
        assert (
            found[0] == ("BULK001", f"the bulk copy at &A[{offset}] begins {off} bytes past a multiple of 16")
        ) == bool(off)
        assert "CUDA716" in dict(found)
        assert all(code != "BULK001" for code, _ in told(MISALIGNED + code, "a100"))


@pytest.mark.parametrize(("begin", "off"), [(0, 0), (1, 4), (4, 0), (6, 8)])
def test_slices_that_the_copy_engine_moves_are_computed(begin: int, off: int) -> None:
    code = f"B: T.Tensor((64, 64), 'int32')\nT.copy(B[0:32, {begin}:{begin + 32}], tile)\n"
    found = told(ILLEGAL + code)
    assert (found[0][0] == "COPY001" and f"{off} bytes past" in found[0][1]) == bool(off)


def test_a_view_is_compared_with_what_is_requested() -> None:
    text = "misaligned address ({} bytes requested)\ntensor<ptr<i8, smem, align<{}>> o ((8,2),2):((1,128),32)>"
    assert told(text.format(16, 8))[0] == (
        "VEC002",
        "16 bytes are requested at once of a view of shared memory that is aligned to 8",
    )
    assert all("align" not in message or "aligned to" not in message for _, message in told(text.format(16, 1024)))


def test_layouts_of_cute_are_no_amounts() -> None:
    view = "tensor<ptr<i8, smem, align<1024>> o ((64,1),(8,8),(1,4)):((1,0),(64,512),(0,4096))> fails"
    codes = [one.code for one in ls.explain(f"{MISALIGNED}{view}", "h200").diagnostics if one.basis == "known"]
    assert "SMEM001" not in codes and "COPY004" not in codes  # words may say that shared memory is misaligned


@pytest.mark.parametrize(
    ("word", "code"),
    [("T.copy_cluster(a, b)", "BULK001"), ("ldmatrix.sync.aligned", "VEC002"), ("a float4 store", "VEC002")],
)
def test_what_a_text_speaks_of_is_named_where_no_address_is_known(word: str, code: str) -> None:
    assert told(f"{MISALIGNED}{word}")[0][0] == code
    assert [code for code, _ in told(MISALIGNED)] == ["CUDA716"]
    assert [code for code, _ in told(f"CUDA error: an illegal memory access was encountered\n{word}")] == ["CUDA700"]


def test_an_expression_is_a_sum_or_not_known() -> None:
    assert affine("((int)threadIdx.x) * 3 + 1") == {"threadIdx.x": 3, "": 1}
    assert affine("i * 2 - (j << 0)") is None or affine("i * 2 - j") == {"i": 2, "j": -1}
    assert affine("8 * (i + 2) - 16") == {"i": 8, "": 0}
    for unknown in ("i * j", "f(i)", "i / 2", "1 +", "(" * 500):
        assert affine(unknown) is None


def test_elements_of_arrays_of_several_axes_are_counted_by_rows() -> None:
    for row, column in ((64, 0), (66, 0), (72, 0), (64, 3), (64, 8), (33, 0)):
        code = f"__shared__ half tile[16][{row}];\nv = *(float4*)(&tile[threadIdx.x][{column}]);"
        off = next((at * 2 % 16 for at in (column, column + row) if at * 2 % 16), 0)
        code_, message = told(MISALIGNED + code)[0]
        assert code_ == "VEC002" and (f"accessed {off} bytes past" in message) == bool(off), (row, column, message)
    unknown = MISALIGNED + "__shared__ half tile[16][LDS];\nv = *(float4*)(&tile[threadIdx.x][0]);"
    assert "bytes past" not in told(unknown)[0][1]


@pytest.mark.parametrize(("step", "off"), [(20, 8), (16, 0), (8, 0), (1, 2)])
def test_where_a_copy_of_tilelang_begins_is_computed(step: int, off: int) -> None:
    code = f'A: T.Tensor((M, K), "float16")\nT.copy(A[bx * 128, ko * {step}], A_shared)\n'
    found = told(ILLEGAL + code)
    assert (found[0][0] == "COPY001" and f"{off} bytes past" in found[0][1]) == bool(off)


def test_an_offset_that_is_not_known_may_be_aligned() -> None:
    code = "void f(float* x, int offset) {{ v = *(float4*)(x + {}); }}"
    for index in ("offset", "offset + 4 * threadIdx.x", "i * lda"):
        assert "bytes past" not in told(MISALIGNED + code.format(index))[0][1]
    assert "accessed 4 bytes past" in told(MISALIGNED + code.format("4 * offset + 1"))[0][1]

"""What names no cause: loops, assertions of a script, tensors of kernels that copy nothing, lists of strides."""

from __future__ import annotations

import pytest

import legalsat as ls
from legalsat.pasted.wording import likely


def codes(text: str, name: str = "h100") -> list[str]:
    try:
        return [one.code for one in ls.explain(text, name).diagnostics]
    except ls.InvalidInput:
        return []


def test_the_condition_of_a_loop_is_no_check_that_failed() -> None:
    loop = "Setup();\nfor (var nAlive = Group.DimX >> 1; nAlive > 0; nAlive >>= 1)\n{\n  Step(nAlive);\n}"
    assert "TOOL010" not in codes(f"a group's sum hangs\n{loop}")
    assert codes("check failed: tile_n must be > 0 but got tile_n=0") == ["TOOL010"]


def test_an_assertion_of_a_script_is_told_where_one_failed_alone() -> None:
    script = "\n".join(
        (
            "w = torch.randn(8, 64, 32, device='cuda', dtype=torch.float16)",
            "x = w.view(64, 256)",
            "assert x.stride(-1) == 1",
            "y = layer(x)",
        )
    )
    guessed = ls.explain(f"the second call returns other values than the first\n{script}", "h200").diagnostics
    assert all(one.level == "warning" and one.where == likely.WHERE for one in guessed)
    assert "TMA024" in codes(f"{script}\nAssertionError: assert x.stride(-1) == 1, last dimension must be contiguous")


@pytest.mark.parametrize(("said", "told"), [("its sums are NaN", False), ("TMA descriptor: invalid argument", True)])
def test_how_a_tensor_lies_is_the_cause_of_failed_copies_alone(said: str, told: bool) -> None:
    assert ("TMA024" in codes(f"the gradient has shape (64, 2), strides (0, 0), {said}")) == told


def test_a_unit_that_a_gpu_lacks_is_not_missed_where_no_copy_is_spoken_of() -> None:
    assert "UNIT001" not in codes("wrong values for shape [2, 32, 4, 128], stride=(16384, 128, 4096, 1)", "a100")


def test_a_list_of_strides_is_no_shape() -> None:
    said = "illegal memory access with stride=(16384, 128, 4096, 1)"
    assert "TOOL013" not in codes(said)
    assert "TOOL013" in codes(said.replace("stride", "shape"))


def test_a_gpu_that_is_named_is_not_missed_by_what_is_not_of_it() -> None:
    assert "TOOL004" not in codes("the sums that gemm_sm100 examples read are wrong: the tile is not complete", "b200")
    assert codes("RuntimeError: the sm_100 attention kernel is not available on this GPU")[0] == "TOOL004"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("gives illegal instruction in warp 1: tcgen05.ld.sync.aligned.32x32b.x32.b32", "TCGEN001"),
        ("the epilogue gets an illegal instruction at wgmma.wait_group", "WGMMA009"),
        ("wrong rows: base + (warp % 4) * 32, then tcgen05.ld.sync.aligned.32x32b.x32.b32", "TMA005"),
        ("wrong rows: lane 16, then ldmatrix.sync.aligned.m8n8.x4 and ld.shared.v4", "TMA005"),
        ("hangs: __shared__ alignas(128) half tile[4096];", "COPY004"),
        ("hangs: alignas(1024) __shared__ half tile[4096];", "COPY005"),
    ],
)
def test_names_of_instructions_and_declarations_ask_nothing(line: str, code: str) -> None:
    assert code not in codes(line, "b200")


def test_lists_of_names_are_code_and_no_dump() -> None:
    declared = "cuuint64_t globalDim[2] = {N, M}; cuuint32_t boxDim[2] = {64, 512};  // encode returns 1"
    found = ls.explain(declared, "h200")
    assert [one.code for one in found.diagnostics] == ["TMA003"] and not found.legal
    assert "TMA003" not in codes(declared.replace("512", "128"), "h200")


def test_a_tensor_whose_axis_of_one_element_the_driver_refuses_is_not_legal_where_its_call_failed() -> None:
    lies = "x.shape = torch.Size([1, 4096, 64]), x.stride() = (1, 64, 1), dtype bf16"
    found = ls.explain(f"{lies}; cuTensorMapEncodeTiled fails", "h100")
    assert found.diagnostics[0].code == "TMA037" and not found.legal
    assert ls.explain(lies, "h100").legal
    whole = lies.replace("(1, 64, 1)", "(262144, 64, 1)")
    assert "TMA010" not in codes(f"{whole}; cuTensorMapEncodeTiled returns invalid value")


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
def test_a_value_that_a_call_refused_is_no_swizzle_that_there_is_not(swizzle: str) -> None:
    assert "TMA011" not in codes(f"swizzle {swizzle} with inner box of 16 bf16: invalid value")

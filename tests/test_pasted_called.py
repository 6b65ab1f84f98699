"""Words within reports that these call descriptors, and columns of tensor memory as people write them."""

from __future__ import annotations

import pytest

import legalsat as ls


def codes(text: str, name: str) -> list[str]:
    try:
        return [one.code for one in ls.explain(text, name).diagnostics if one.basis == "known"]
    except ls.InvalidInput:
        return []


@pytest.mark.parametrize(
    ("text", "name", "code"),
    [
        ("wgmma gives wrong results on tile 2, smem desc_a: 0x4000404000010000, no error", "h200", "MDESC007"),
        ("the sums of umma are wrong. desc = 0x4000004000010000", "b200", "MDESC007"),
        ("illegal instruction in tcgen05.mma of kind::mxf4nvf4, idesc 0x08040490", "b200", "TCGEN010"),
    ],
)
def test_a_word_that_a_report_calls_a_descriptor_is_judged(text: str, name: str, code: str) -> None:
    assert codes(text, name) == [code]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("wgmma gives wrong results on tile 2, smem desc_a: 0x4000004000010000, no error", "h200"),
        ("TMA desc 0x00007ffda652dd80 of the gemm kernel, wrong results", "h200"),
        ("the product of kind::f16 has wrong sums, idesc 0x08040490", "b200"),
        ("kind::f16 is right and kind::mxf4nvf4 has wrong sums, idesc 0x08040490", "b200"),  # of which nobody knows
        ("smem desc_a: 0x4000404000010000 is what the gemm kernel has on sm_100", "h200"),  # and nothing fails
    ],
)
def test_a_word_that_is_in_order_or_no_descriptor_of_what_fails_is_told_nothing_of(text: str, name: str) -> None:
    assert not codes(text, name)


@pytest.mark.parametrize(
    ("columns", "told"), [(48, True), (64, False), (16, True), (512, False), (513, True), (0, False)]
)
def test_columns_that_are_allocated_are_read_as_people_write_them(columns: int, told: bool) -> None:
    for said in (f"tcgen05.alloc of {columns} columns", f"we allocate {columns} tmem columns"):
        assert ("TMEM001" in codes(f"the kernel hangs on B200 after {said}", "b200")) == told
        assert "TMEM001" not in codes(f"the kernel hangs on H200 after {said}", "h200")

"""Ten real cases as a person reads them. Where a text is to change, look at it: `pytest --update-golden` writes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reported_failures import FAILURES, text_of
from test_reported_failures import REPLAYED
from test_reported_protocols import text_of as ptx_of

import legalsat as ls

GOLDEN = Path(__file__).parent / "data" / "explained"


def replayed(name: str) -> Any:
    return REPLAYED[name][0](FAILURES[name]["params"])


# By name: who asked what, and for which GPU.
CASES: dict[str, tuple[Callable[[], Any], str]] = {
    # The cliff: K = 4095 (FACTS M-17).
    "odd_k_gemm": (lambda: ls.Gemm(4096, 4096, 4095, "bf16"), "h200"),
    # A slice that begins one element late (pytorch-184563), as torch prints it.
    "late_slice": (lambda: "shape=(1024, 64) stride=(72, 1) torch.float32 storage_offset=1", "h200"),
    # TileLang's tensor of 1733 columns.
    "tilelang_1931": (lambda: "shape=(128, 1733) stride=(1733, 1) torch.float32", "h200"),
    # FlashInfer's dump with a stride of 2 bytes.
    "flashinfer_2232": (lambda: text_of(FAILURES["flashinfer-2232"]), "b200"),
    # A log that ends in 715 although every field is right.
    "vllm_13961": (lambda: text_of(FAILURES["vllm-13961a"]), "h200"),
    # A dump of a map whose box is wider than its swizzle.
    "box_and_swizzle": (
        lambda: ls.TensorMap("bf16", (4096, 4096), (8192,), (96, 512), swizzle="64B"),
        "h200",
    ),
    # A store that overwrites 14 columns past the end.
    "triton_11583": (lambda: replayed("triton-11583-int8"), "h200"),
    # Strides made up from the shape of a transposed view.
    "flash_attention_2667": (lambda: replayed("fa-2667"), "b200"),
    # PTX that waits for a phase which has passed twice.
    "triton_10035": (lambda: ptx_of("triton-10035", right=False), "h200"),
    # The word of a matrix descriptor that no layout has.
    "descriptor": (lambda: "0xc000004000400fff", "b200"),
    # A legal map, and what nobody checks of it.
    "legal_map": (lambda: ls.TensorMap("bf16", (104, 4096), (208,), (64, 128), swizzle="128B"), "h200"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_case_reads_as_it_did(name: str, request: pytest.FixtureRequest) -> None:
    asked, gpu = CASES[name]
    said = f"{ls.explain(asked(), gpu)}\n"
    file = GOLDEN / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        file.write_text(said, encoding="utf-8")
    assert said == file.read_text(encoding="utf-8")


def test_there_is_no_text_without_its_case() -> None:
    assert {file.stem for file in GOLDEN.glob("*.txt")} == set(CASES)

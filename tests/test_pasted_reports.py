"""Public reports, replayed from what their users saw: the root cause that the thread names comes first or second."""

from __future__ import annotations

import pytest
from reported_failures import FAILURES, TEXTS, text_of

import legalsat as ls

LEGAL, REFUSED = True, False
# By hand from each entry's root cause: whether the map is legal, and the code that names the cause.
NAMED = {
    "cutlass-947": (REFUSED, "CUDA001"),  # null address of an absent operand
    "flashinfer-2232": (REFUSED, "TMA005"),  # stride of 2 bytes
    "vllm-13961a": (LEGAL, "CUDA715"),  # sticky
    "vllm-17442a": (LEGAL, "CUDA715"),
    "soulx-9b": (LEGAL, "CUDA999"),
    "file-vllm-dsv4-a": (REFUSED, "TMA002"),  # empty tensor
    "file-align16b-box": (REFUSED, "TMA033"),  # box of 32, not 128
    "tilelang-1931-test": (REFUSED, "TMA005"),
    "tilelang-1931": (REFUSED, "TMA005"),
    "tilelang-2630": (REFUSED, "TMA009"),
    "tilelang-2555-48": (REFUSED, "TMA009"),
    "cutlass-1523": (REFUSED, "TMA005"),  # leading dimension of 2 bytes
    "cutlass-3078": (REFUSED, "WGMMA004"),  # no canonical layout
    "cutlass-3658": (REFUSED, "PIPE017"),  # multicast mask past the cluster
    "deepgemm-25": (REFUSED, "PIPE025"),
    "triton-11358": (REFUSED, "TMEM002"),
    "triton-9268": (REFUSED, "TMEM002"),
    "cutlass-1911": (REFUSED, "TMA005"),
    "file-te-major": (REFUSED, "TMA024"),
    "file-tl-stack8": (REFUSED, "TMA019"),
}
# Where the text is a result alone, the help lists what to look at; these are the words for the cause of each. Those
# that are replayed from their numbers too (test_reported_*.py) name it alone.
LISTED = {
    "triton-7385": ("CUDA715", "innermost times the element size is a multiple of 16 bytes"),
    "tilelang-2583": ("CUDA715", "reductions"),
    "cutlass-2364": ("CUDA719", "every barrier is initialised"),
    "cutlass-3435": ("CUDA719", "allocated and freed by both blocks of a pair"),
    "pytorch-133334": ("CUDA700", "scales and biases of a row"),
}
# Reports without a program's text, whose tensor is known.
TENSORS = {
    "tilelang-1931": ("shape=(128, 1733) stride=(1733, 1) torch.float32", "TMA005"),
    "pytorch-184563": ("shape=(1024,) stride=(1,) torch.float32 storage_offset=1", "TMA004"),
    "tilelang-2567-252": ("shape=(252, 252) stride=(252, 1) torch.float32", None),
    "cutlass-2715": ("shape=(2, 65536, 65536) stride=(4294967296, 65536, 1) torch.bfloat16", None),
}
TARGETS = {"flashinfer-2232": "b200", "file-align16b-box": "sm_120a", "triton-11358": "b200", "triton-9268": "b200"}


@pytest.mark.parametrize("name", NAMED)
def test_a_reports_root_cause_comes_first_or_second(name: str) -> None:
    legal, code = NAMED[name]
    found = ls.explain(text_of(FAILURES[name]), TARGETS.get(name, "h200"))
    assert code in [d.code for d in found.diagnostics[:2]]
    assert found.legal == legal == (FAILURES[name]["verdict_expected"] == "legal")


@pytest.mark.parametrize("name", LISTED)
def test_a_result_alone_lists_the_reports_root_cause(name: str) -> None:
    (found,) = ls.explain(text_of(FAILURES[name]), "h200").diagnostics
    code, words_for_it = LISTED[name]
    assert found.code == code
    assert words_for_it in found.help


# What public threads name as the cause of each result, and which only its text was printed for.
CAUSES = {
    700: (
        "tensors outlive their maps",  # sglang-16327, vllm-13961: freed or moved
        "no copy of one",  # NVIDIA/cutlass#2081: the map was copied into a local variable
        "the device made",  # maps that kernels make: no driver sees their fields
        "stale",
        "stop where their array ends",  # pytorch#133334
        "axes of one element too",
        "no extent is 0",  # tilelang#1697, recsys-examples#86
    ),
    715: (
        "innermost times the element size is a multiple of 16 bytes",  # triton#7385
        "reductions",  # tilelang#2583
        "base pointer",  # pytorch#184563
        "axes of one element too",  # flashinfer#2232
        "no extent is 0",
        "fence.proxy.tensormap",  # fast.cu#8, llvm-project#133218
        "multiple of 64 bytes",
        "majors",
    ),
    716: (
        "multiple of 128 bytes of shared memory",  # Fuser#3023
        "CUtensorMap itself lies at a multiple of 64 bytes",  # triton#9499
        "base pointer",
        "operands of wgmma and tcgen05",  # cutlass#2968, triton#10309
    ),
    719: (
        "every barrier is initialised",  # cutlass#2364
        "as many arrivals as it counts",  # tilelang#972
        "parity of its phase",
        "allocated and freed by both blocks of a pair",  # cutlass#3435
        "majors",
        "stale",
    ),
}


@pytest.mark.parametrize("number", CAUSES)
def test_the_help_of_a_result_lists_its_causes(number: int) -> None:
    found = ls.explain(number, "h200")
    for cause in CAUSES[number]:
        assert cause in found.diagnostics[0].help
    lines = str(found).splitlines()
    starts = [line.strip()[:3] for line in lines if line.strip().startswith("(")]
    assert starts == [f"({n})" for n in range(1, len(starts) + 1)] and len(starts) >= 3, "a cause a line"


@pytest.mark.parametrize("name", TENSORS)
def test_a_reports_tensor_is_judged(name: str) -> None:
    text, code = TENSORS[name]
    found = ls.explain(text, "h200")
    assert [d.code for d in found.diagnostics][:1] == ([] if code is None else [code])
    assert found.legal == (FAILURES[name]["verdict_expected"] == "legal")


def test_an_absent_operand_is_named() -> None:
    (found,) = ls.explain(TEXTS["cutlass-947"], "h200").diagnostics
    assert (found.code, found.level) == ("CUDA001", "error")
    assert "null address" in found.message


@pytest.mark.parametrize(
    ("name", "legal", "first"),
    [
        ("soulx-9", True, "CUDA999"),
        ("flashinfer-2274", True, "CUDA700"),
        ("sglang-13775", False, "TMA006"),
        ("pytorch-167892", False, "TMA008"),
        ("llama-stack-apps-30", False, "CUDA801"),
        ("sglang-9172", False, "CUDA715"),
    ],
)
def test_texts_of_public_threads(name: str, legal: bool, first: str) -> None:
    found = ls.explain(TEXTS[name], "h200")
    assert (found.legal, found.diagnostics[0].code) == (legal, first)

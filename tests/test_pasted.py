"""What people paste: every form is read back to the noun that was printed, and explained."""

from __future__ import annotations

import io
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from printed_maps import PRINTERS, by_cutlass, by_tensorrt_llm, by_tilelang, by_triton
from reported_failures import TEXTS

import legalsat as ls
from legalsat.cli import main
from legalsat.pasted.maps import printed_maps
from legalsat.pasted.results import RESULT_RULES
from legalsat.units.matrix_descriptor import MatrixDescriptor
from legalsat.units.tensor_map import MAP_TYPES, SWIZZLES
from legalsat.units.tensor_map_bytes import encode_blob

DATA = Path(__file__).parent / "data"
MAP = ls.TensorMap("bf16", (64, 64), (128,), (64, 8), swizzle="128B", address=0x7000)
TORN = replace(MAP, global_stride=(130,))


def codes(text: str, target: str = "h200") -> list[str]:
    return [diagnostic.code for diagnostic in ls.explain(text, target).diagnostics]


# Dumps of tensor maps


@st.composite
def tensor_maps(draw: st.DrawFn) -> ls.TensorMap:
    """Draw maps with the fields that every program prints, legal or not."""
    rank = draw(st.integers(1, 5))

    def numbers(length: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(0, high), min_size=length, max_size=length)))

    return ls.TensorMap(
        draw(st.sampled_from([t.name for t in MAP_TYPES[:13]])),
        numbers(rank, 2**33),
        numbers(rank - 1, 2**41),
        numbers(rank, 300),
        numbers(rank, 9),
        swizzle=draw(st.sampled_from(SWIZZLES)),
        address=draw(st.integers(0, 2**48)),
    )


@settings(deadline=None, max_examples=60)
@given(tensor_maps(), tensor_maps(), st.sampled_from([1, 700]))
def test_what_a_program_prints_is_read_back(one: ls.TensorMap, other: ls.TensorMap, result: int) -> None:
    for printer in PRINTERS:
        text = printer(one, result) + "loading 3%, step 4\n" + printer(other, result)
        assert [printed.tensor_map for printed in printed_maps(text)] == [one, other]
        # Logs put the rank before each line, and print exceptions with escaped line ends.
        logged = "".join(f"[rank0]: (Worker pid=104) {line}\n" for line in printer(one, result).splitlines())
        assert [printed.tensor_map for printed in printed_maps(logged)] == [one]
        assert list(map(str, ls.explain(repr(printer(one, result)), "h200").diagnostics)) == list(
            map(str, ls.explain(printer(one, result), "h200").diagnostics)
        )


@settings(deadline=None, max_examples=60)
@given(tensor_maps())
def test_a_refused_map_is_explained_by_its_own_violations(tm: ls.TensorMap) -> None:
    own = ls.violations(tm, "h200")
    found = ls.explain(by_triton(tm, 1), "h200")
    if any(d.refused_by == "driver" and d.level == "error" for d in own):
        assert list(found.diagnostics) == own
    else:
        assert found.diagnostics[0].code == "CUDA001"
        assert len(found.diagnostics) == len(own) + 1
    assert not found.legal


@settings(deadline=None, max_examples=60)
@given(tensor_maps())
def test_an_error_of_an_earlier_kernel_leaves_a_maps_verdict_alone(tm: ls.TensorMap) -> None:
    own = ls.violations(tm, "h200")
    found = ls.explain(by_tensorrt_llm(tm, 700), "h200")
    assert [d for d in found.diagnostics if d.code != "CUDA700"] == own
    assert [d.level for d in found.diagnostics if d.code == "CUDA700"] == ["warning"]
    assert found.legal == (not any(d.level == "error" for d in own))


def test_a_maps_own_object_and_other_fields_are_read() -> None:
    tm = replace(MAP, map_offset=16, interleave="16B", l2_promotion="256B", oob_fill="nan")
    for printer in (by_cutlass, by_tilelang):
        assert [printed.tensor_map for printed in printed_maps(printer(tm, 1))] == [tm]
    assert printed_maps(by_triton(replace(MAP, oob_fill="nan"), 1))[0].tensor_map.oob_fill == "nan"


@pytest.mark.parametrize(
    "swizzle", ["swizzle 128B", "swizzle: 128", "swizzle 3", "swizzle = CU_TENSOR_MAP_SWIZZLE_128B"]
)
def test_a_size_in_bytes_is_an_enum_s_name(swizzle: str) -> None:
    """The driver numbers a swizzle of 128 bytes 3; no enum has a value as large as a size in bytes."""
    text = f"globalDim (512,64) globalStrides (2,1024) boxDim (64,64) {swizzle} interleave 16B l2Promotion: 256"
    found = printed_maps(text)[0].tensor_map
    assert (found.swizzle, found.interleave, found.l2_promotion) == ("128B", "16B", "256B")
    assert codes(text.replace("interleave 16B", "interleave 0")) == []


def test_an_im2col_map_of_tilelang_is_read() -> None:
    text = (
        "TMA Desc Addr:   0x5580 (mod64=0)\nformat         6 (CU_TENSOR_MAP_DATA_TYPE_FLOAT16)\ndim            4\n"
        "gmem_address   0x7000 (mod16=0, mod32=0)\nglobalDim      [64, 14, 14, 2]\n"
        "globalStridesRaw [2, 128, 1792, 25088]\ncudaGlobalStrides [128, 1792, 25088]\nsmem_box_pixel 1025\n"
        "smem_box_channel 8\npixelBoxLowerCorner  [-1, -1]\npixelBoxUpperCorner  [-1, -1]\n"
        "elementStrides [1, 1, 1, 1]\ninterleave     0 (CU_TENSOR_MAP_INTERLEAVE_NONE)\n"
        "swizzle        3 (CU_TENSOR_MAP_SWIZZLE_128B)\nl2Promotion    2\noobFill        0\n"
    )
    assert printed_maps(text)[0].tensor_map == ls.TensorMap(
        "f16",
        (64, 14, 14, 2),
        (128, 1792, 25088),
        swizzle="128B",
        l2_promotion="128B",
        address=0x7000,
        mode="im2col",
        lower_corner=(-1, -1),
        upper_corner=(-1, -1),
        channels=8,
        pixels=1025,
    )
    assert codes(text) == ["TMA041"], "a column has at most 1024 pixels"


def test_what_many_dumps_repeat_is_said_once() -> None:
    other = replace(TORN, box=(64, 16))
    assert codes(by_cutlass(TORN, 1) * 3) == ["TMA005"]
    found = ls.explain(by_cutlass(TORN, 1) + by_cutlass(other, 1), "h200")
    assert [d.code for d in found.diagnostics] == ["TMA005"]
    assert found.subject == "2 tensor maps"
    assert found.diagnostics[0].where.endswith("and 1 more")


def test_a_log_that_is_cut_off_is_read_as_far_as_it_goes() -> None:
    text = by_cutlass(TORN, 1)
    for end in range(len(text)):
        cut = text + text[:end].replace("130", "138")
        assert set(codes(cut)) == {"TMA005"}, cut


def test_each_map_goes_with_the_result_of_its_own_call() -> None:
    one, other = replace(MAP, address=0), replace(MAP, box=(64, 16))
    for printer in PRINTERS:
        found = ls.explain(printer(one, 1) + printer(other, 700), "h200")
        assert [(d.code, d.level) for d in found.diagnostics] == [("CUDA001", "error"), ("CUDA700", "warning")]
        assert "box 64 x 8" in found.diagnostics[0].where and "box 64 x 16" in found.diagnostics[1].where


def test_a_map_on_a_gpu_without_a_copy_engine_has_one_cause() -> None:
    text = by_cutlass(MAP, 1).replace("descriptor 1\n", "descriptor 801\n")
    assert codes(text, "a100") == codes(by_cutlass(MAP, 1), "a100") == ["UNIT001"]
    assert codes(text, "h200") == ["CUDA801"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (by_cutlass(MAP, 1).replace("(64,64,1,1,1)", "0x7ffd0010"), "address of an array"),
        (by_cutlass(MAP, 1).replace("(64,8,1,1,1)", "(64,,8)"), "one process alone"),
        (by_cutlass(MAP, 1).replace("swizzle        3", "swizzle        3 4"), "no number"),
        (TEXTS["file-ptr-dump"], "address of an array"),
        (TEXTS["recsys-86"], "one process alone"),
    ],
)
def test_a_garbled_dump_is_refused_with_what_to_do(text: str, says: str) -> None:
    with pytest.raises(ls.InvalidInput, match=says):
        ls.explain(text, "h200")


# CUresults

RESULTS = [
    (1, "CUDA_ERROR_INVALID_VALUE", "cudaErrorInvalidValue", "invalid argument"),
    (2, "CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation", "out of memory"),
    (
        222,
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        "cudaErrorUnsupportedPtxVersion",
        "the provided PTX was compiled with an unsupported toolchain",
    ),
    (700, "CUDA_ERROR_ILLEGAL_ADDRESS", "cudaErrorIllegalAddress", "an illegal memory access was encountered"),
    (702, "CUDA_ERROR_LAUNCH_TIMEOUT", "cudaErrorLaunchTimeout", "the launch timed out and was terminated"),
    (715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "cudaErrorIllegalInstruction", "an illegal instruction was encountered"),
    (716, "CUDA_ERROR_MISALIGNED_ADDRESS", "cudaErrorMisalignedAddress", "misaligned address"),
    (719, "CUDA_ERROR_LAUNCH_FAILED", "cudaErrorLaunchFailure", "unspecified launch failure"),
    (
        720,
        "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
        "cudaErrorCooperativeLaunchTooLarge",
        "too many blocks in cooperative launch",
    ),
    (801, "CUDA_ERROR_NOT_SUPPORTED", "cudaErrorNotSupported", "operation not supported"),
    (999, "CUDA_ERROR_UNKNOWN", "cudaErrorUnknown", "unknown error"),
]


@pytest.mark.parametrize(("number", "name", "runtime_name", "words"), RESULTS, ids=str)
def test_a_result_alone_is_explained(number: int, name: str, runtime_name: str, words: str) -> None:
    expected = [f"CUDA{number:03}"]
    of_a_kernel = (
        str(number),
        name,
        f"failed: {runtime_name}",
        words,
        f"RuntimeError: CUDA error: {words}",
        f"CUresult {number}",
        f"error code: {number}",
        f"Triton Error [CUDA]: {words}\n",
    )
    of_the_encode_call = (
        f"Error: Failed to initialize the TMA descriptor {number}",
        f"Error: Failed to initialize the TMA descriptor, error code: {number}",
        f"Failed to initialize the TMA descriptor {number} ({name}: {words})",
        f"Error: Failed to initialize the TMA descriptor due to {words}",
    )
    for text in of_a_kernel:
        assert codes(text) == expected, text
    for text in of_the_encode_call:
        found = ls.explain(text, "h200")
        assert [d.code for d in found.diagnostics] == expected, text
        assert "encode call" in found.diagnostics[0].where
        innocent = "not the encode call" in found.diagnostics[0].message or "encoding a map" in str(found.diagnostics)
        assert innocent == (number not in (1, 801))


def test_words_about_something_else_are_no_results() -> None:
    for text in ("the disk reports an unknown error", "usage: invalid argument --foo", "717 tests passed"):
        with pytest.raises(ls.InvalidInput, match="nothing in the text is understood"):
            ls.explain(text, "h200")


@pytest.mark.parametrize(("text", "says"), [("0", "is success"), ("CUresult 4711", "is none of those")])
def test_unknown_results_are_refused(text: str, says: str) -> None:
    with pytest.raises(ls.InvalidInput, match=says):
        ls.explain(text, "h200")


@pytest.mark.parametrize("rule", RESULT_RULES, ids=lambda rule: rule.code)
def test_each_results_page_is_shown(capsys: pytest.CaptureFixture[str], rule: ls.Rule) -> None:
    assert main(["rule", rule.code]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{rule.code} {rule.name}")
    assert str(int(rule.code.removeprefix("CUDA"))) in out


# Error texts of programs


class Base:
    """A tensor as Triton's descriptor looks at it."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.dtype = type("dtype", (), {"itemsize": 2, "is_floating_point": False})()

    def data_ptr(self) -> int:
        return self.address


TRITON_REFUSALS = [
    ((Base(16), [64, 63], [63, 1], [64, 64]), "TMA005"),
    ((Base(8), [64, 64], [64, 1], [64, 64]), "TMA004"),
    ((Base(0), [64, 0], [64, 1], [64, 64]), "TMA002"),
    ((Base(0), [64, 64], [8, 8], [64, 64]), "TMA024"),
    ((Base(0), [], [], []), "TMA001"),
    ((Base(0), [1] * 6, [1] * 6, [1] * 6), "TMA001"),
    ((Base(0), [64, 64], [64, 1], [64, 64], "nan"), "TMA015"),
]


@pytest.mark.parametrize(("arguments", "code"), TRITON_REFUSALS)
def test_what_tritons_descriptor_raises_is_explained(arguments: tuple[Any, ...], code: str) -> None:
    descriptor = pytest.importorskip("triton.tools.tensor_descriptor")
    with pytest.raises(AssertionError) as refusal:
        descriptor.TensorDescriptor(*arguments)
    assert codes(f"AssertionError: {refusal.value}") == [code]


@pytest.mark.parametrize(("resource", "code"), [("shared memory", "SMEM001"), ("tensor memory", "TMEM002")])
def test_what_triton_lacks_is_explained(resource: str, code: str) -> None:
    errors = pytest.importorskip("triton.runtime.errors")
    raised = errors.OutOfResources(640, 512, resource)
    for text in (str(raised), repr(raised.__reduce__()[1]).join(["OutOfResources", ""])):
        (found,) = ls.explain(text, "b200").diagnostics
        assert found.code == code
        assert "640" in found.message and "512" in found.message


SAID = [
    ("ValueError: Expected 1 <= ndim <= 5 but got 6 dimensions", "TMA001", "6"),
    (
        "Descriptor block shape must have at least 16 bytes in the last dimension, but got 4 * 2 = 8 bytes",
        "TMA008",
        "8",
    ),
    ("Tensor descriptor last dim must be 1 but got 64", "TMA024", "64"),
    ("CUtensorMap must be aligned to 128B, but got (&map) mod 128 = 64", "TMA019", "64"),
    ("  [1] boxDim[1] must be <= 256, but got 512", "TMA003", "dimension 1"),
    ("  [1] boxDim[0] must be non-zero", "TMA003", "dimension 0"),
    (
        "boxDim[0] * elementSize must be a multiple of 16 bytes when interleave is NONE, but got 12 * 8 bits",
        "TMA008",
        "12 elements of 8 bits",
    ),
    ("globalAddress must be 16-byte aligned, but mod16=4", "TMA004", "4 bytes past"),
    ("globalAddress must be non-null", "CUDA001", "null"),
    ("effective cuda globalStrides[1] (raw globalStride[2]) must be non-zero", "TMA023", "dimension 2"),
    ("effective cuda globalStrides[0] (raw globalStride[1] = 2199023255552) must be < 2^40", "TMA006", "2199023255552"),
    ("elementStrides[1] must be in [1, 8], but got 9", "TMA007", "9"),
    ("globalDim[2] must be non-zero", "TMA002", "dimension 2"),
    ("TMA global stride 6932 must be a 16-byte multiple below 2^40", "TMA005", "6932"),
    ("Assertion `(gmem_prob_stride[1] & 0b1111) == 0' failed.", "TMA005", "dimension 1"),
    ("Assertion `(gmem_prob_stride[2]) < (uint64_t(1) << 40)' failed.", "TMA006", "dimension 2"),
    ("Assertion `(reinterpret_cast<uint64_t>(gmem_address) & 0b1111) == 0' failed.", "TMA004", "16 bytes"),
    ("Assertion `gmem_prob_shape[2] >= (uint64_t(1))' failed.", "TMA002", "dimension 2"),
    ("Assertion `smem_box_shape[0] <= (uint32_t(1) << 8)' failed.", "TMA003", "dimension 0"),
    ("Assertion `smem_box_stride[1] <= (uint32_t(8))' failed.", "TMA007", "dimension 1"),
    ("AssertionError: strides must be 16-byte aligned", "TMA005", "16 bytes"),
    ("AssertionError: base must be 16-byte aligned", "TMA004", "16 bytes"),
    ("AssertionError: shape must be positive", "TMA002", "extent"),
    ("AssertionError: rank must be 1-5", "TMA001", "dimensions"),
    ("AssertionError: Last dimension must be contiguous", "TMA024", "not 1"),
    ("ValueError: Padding option `nan` is not supported for integer blocks", "TMA015", "NaN"),
    ("Descriptor block shape must have at least 16 bytes in the last dimension", "TMA008", "less than 16"),
    ("out of resource: shared memory, Required: 245760, Hardware limit: 232448. Reducing", "SMEM001", "245760"),
    ("out of resource: shared memory, Required: 0245760, Hardware limit: 0232448. Reducing", "SMEM001", "245760"),
    ("globalDim[0] must be <= 2^32, but got 4294967297", "TMA002", "4294967297"),
    ("tensorRank must be in [3, 5] for im2col, but got 2", "TMA001", "2 dimensions"),
    ("tensorRank must be >= 3 when interleave is not NONE", "TMA016", "fewer than 3"),
    (
        "CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA can only be used with floating-point tensorDataType",
        "TMA015",
        "NaN",
    ),
    (
        "swizzle must be CU_TENSOR_MAP_SWIZZLE_32B when interleave is CU_TENSOR_MAP_INTERLEAVE_32B",
        "TMA020",
        "interleave 32B",
    ),
    ("RuntimeError: strides should be multiple of 16 bytes", "TMA005", "16 bytes"),
    ("CAN IMPLEMENT: Problem Size doesn't meet the minimum alignment requirements for TMA.", "TMA005", "16 bytes"),
]


@pytest.mark.parametrize(("text", "code", "says"), SAID)
def test_an_error_text_is_explained_by_its_rule(text: str, code: str, says: str) -> None:
    (found,) = ls.explain(f"Traceback (most recent call last):\n{text}\n", "h200").diagnostics
    assert found.code == code
    assert says in found.message
    assert found.level == "error"


@pytest.mark.parametrize("word", ["cutlass ", "globalDim (", "CUDA error ", "x", "shape=(1,", "0x"])
def test_long_texts_take_no_time(word: str) -> None:
    started = time.process_time()
    with pytest.raises(ls.InvalidInput):
        ls.explain(word * 20_000, "h200")
    assert time.process_time() - started < 3


@pytest.mark.parametrize("digits", ["(" + "9" * 5_000 + ", 4)", "0x" + "f" * 5_000])
def test_a_field_that_is_no_number_is_named_in_a_line(digits: str) -> None:
    with pytest.raises(ls.InvalidInput, match=r"paste the dump|the address of an array") as refused:
        ls.explain(f"globalDim: {digits}\nboxDim: (64, 4)", "h200")
    assert len(str(refused.value)) < 240


def test_a_validators_words_do_not_repeat_what_its_numbers_say() -> None:
    """TileLang lists the broken conditions above the fields; two it adds itself, and the driver does not ask for."""
    text = (
        "Invalid TMA descriptor arguments for __tvm_tensormap_create_tiled:\n  [1] globalAddress must be non-null\n"
        "  [2] effective cuda globalStrides[0] (raw globalStride[1] = 130) must be a multiple of 16 bytes\n"
    )
    dump = by_tilelang(replace(TORN, address=0), 1).split("\n", 2)[2]
    assert codes(text + dump) == ["TMA005", "CUDA001"]


# Tensors


def test_a_printed_tensor_is_explained_with_repairs() -> None:
    printed = "x: torch.Size([4096, 4095]) torch.bfloat16"
    text = f"AssertionError: strides must be 16-byte aligned\n{printed} shape=(4096, 4095), stride=(4095, 1)"
    found = ls.explain(text, "h200")
    assert [d.code for d in found.diagnostics] == ["TMA005"], "the numbers and the sentence have one cause"
    assert found == ls.explain(ls.Tensor((4096, 4095), "bf16"), "h200", tile=(128, 64))
    assert any("8192 bytes (now 8190)" in repair.message for repair in found.repairs)


@pytest.mark.parametrize("begin", ["storage_offset=1", "x.data_ptr() = 0x7f0000000104", "storage_offset(): 1"])
def test_a_printed_tensor_that_begins_off_the_granule(begin: str) -> None:
    assert codes(f"size=[64, 64] strides=[64, 1] dtype=float32 {begin} block_shape=[32, 32]") == ["TMA004"]


def test_a_printed_tensor_of_no_sense_is_refused() -> None:
    with pytest.raises(ls.InvalidInput, match="printed tensor makes no sense"):
        ls.explain("shape=(4, 4) stride=(4, 1, 1) torch.float16", "h200")


def test_an_extent_of_zero_is_a_finding() -> None:
    for text in ("shape=(4, 0) stride=(4, 1) torch.float16", "torch.Size([4, 0]) stride=(4, 1) dtype=torch.float16"):
        found = ls.explain(text, "h200")
        assert [d.code for d in found.diagnostics] == ["TMA002"] and not found.legal
        assert "axis 1" in found.diagnostics[0].message


# Matrix descriptors and the bytes of a map


def words(file: str) -> list[str]:
    entries = json.loads((DATA / file).read_text(encoding="utf-8"))["entries"]
    return [
        word
        for entry in entries
        for word in (
            [entry["desc_addr0"]] if "desc_addr0" in entry else [one["raw"] for one in entry["a"] + entry["b"]]
        )
    ]


@pytest.mark.parametrize(
    ("file", "target"),
    [
        ("cutlass_wgmma_smem_desc.json", "h200"),
        ("triton_wgmma_desc_from_ptx.json", "h200"),
        ("cutlass_tcgen05_smem_desc.json", "b200"),
    ],
)
def test_words_of_other_compilers_raise_no_doubt(file: str, target: str) -> None:
    for word in sorted(set(words(file))):
        found = ls.explain(word, target)
        assert found.legal and not found.diagnostics, found
        assert ls.explain(str(int(word, 16)), target) == found or len(str(int(word, 16))) < 10


@pytest.mark.parametrize("unit", ["wgmma", "tcgen05"])
def test_a_word_says_its_fields(unit: str) -> None:
    target, other = {"wgmma": ("h200", "b200"), "tcgen05": ("b200", "h200")}[unit]
    told = MatrixDescriptor(unit, 16, 1024, "128B", start=2048)
    for text in (f"{told.word:#018x}", f"{told.word:016x}", f"desc_a = {told.word:#x};", f"{told.word}"):
        found = ls.explain(text, target)
        assert found.legal and not found.diagnostics
        for field in (unit, "start 2048", "leading offset 16", "stride offset 1024", "swizzle 128B"):
            assert field in found.subject
        assert codes(text, other) == ["MDESC007"], "the target's unit reads the word, and misses its version"
        assert codes(text, "a100") == [{"wgmma": "UNIT002", "tcgen05": "UNIT004"}[unit]]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (MatrixDescriptor("wgmma", 16, 64, "128B"), ("MDESC004", "warning")),  # 1024 forgotten to be over 16 twice
        (MatrixDescriptor("wgmma", 16, 256, "none"), ("MDESC004", "warning")),  # a core matrix takes 128 bytes
        (MatrixDescriptor("wgmma", 16, 1024, "128B", start=512), ("MDESC005", "warning")),  # inside the pattern
        (MatrixDescriptor("wgmma", 16, 1024, "128B", start=2**18 - 1024), ("MDESC001", "error")),  # past 227 KiB
    ],
)
def test_doubtful_words_are_told(told: MatrixDescriptor, expected: tuple[str, str]) -> None:
    found = ls.explain(f"{told.word:#018x}", "h200")
    assert [(d.code, d.level) for d in found.diagnostics] == [expected]


@pytest.mark.parametrize("word", ["0xffffffffffffffff", "0x0123456789abcdef"])
def test_bits_beyond_the_fields_of_a_word_are_told(word: str) -> None:
    found = ls.explain(word, "h200")
    assert not found.legal and "MDESC008" in {d.code for d in found.diagnostics}


def test_the_bytes_of_a_map_are_decoded() -> None:
    blob = encode_blob(replace(MAP, address=0x7008))
    for text in (blob.hex(), " ".join(blob.hex()[at : at + 8] for at in range(0, 256, 8)) + "\n"):
        assert codes(text) == ["TMA004"]


# The command line and the whole


def test_the_command_line_takes_texts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = by_cutlass(TORN, 1)
    file = tmp_path / "log.txt"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    expected = str(ls.explain(text, "h200")) + "\n"
    for words_ in (["--text", text], [str(file)], ["-"]):
        assert main(["explain", *words_, "--target", "h200"]) == 1
        assert capsys.readouterr().out == expected
    assert main(["explain", "--text", TEXTS["soulx-9"], "--target", "h200"]) == 0


@pytest.mark.parametrize(
    ("words_", "says"),
    [
        (["--text", "hello", "--target", "h200"], "nothing in the text is understood"),
        (["--text", "700"], "--target is missing"),
        (["-"], "--target is missing"),
        (["-", "--text", "700", "--target", "h200"], "give one of FILE, --text"),
        (["--text", "", "--target", "h200"], "nothing in the text is understood"),
    ],
)
def test_wrong_usage_of_texts(capsys: pytest.CaptureFixture[str], words_: list[str], says: str) -> None:
    assert main(["explain", *words_]) == 2
    assert says in capsys.readouterr().err


def test_text_without_a_target_is_told_apart_from_a_broken_plan(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "log.txt"
    file.write_text("Error 700", encoding="utf-8")
    assert main(["explain", str(file)]) == 1
    assert "give --target" in capsys.readouterr().err


def test_tiles_belong_to_tensors() -> None:
    with pytest.raises(ls.InvalidInput, match="tile, consumer and into"):
        ls.explain("700", "h200", tile=(64, 64))


@settings(deadline=None, max_examples=200)
@given(st.text(st.sampled_from("0123456789abcdefx()[],.:=\n \\torchshapestridebxDim"), max_size=200))
def test_any_text_is_explained_or_refused(text: str) -> None:
    try:
        found = ls.explain(text, "h200")
    except ls.LegalSatError as refusal:
        assert str(refusal)
    else:
        assert found.subject


def test_a_tensor_without_its_type_is_judged_by_its_rows_alone() -> None:
    # 16800 and the like are multiples of 16 bytes in types of two; no box of all outer axes is asked for.
    with pytest.raises(ls.LegalSatError, match="nothing in the text is understood"):
        ls.explain("torch.Size([100, 3, 7, 100, 8]) strides=(16800, 5600, 800, 8, 1)", "h200")
    found = ls.explain("torch.Size([512, 511]) strides=(511, 1)", "h200")
    assert [d.code for d in found.diagnostics] == ["TMA005"]
    assert found.subject == "tensor of shape (512, 511) strides (511, 1)"

"""Types of compilers' IR: tensors with strides, descriptors, buffers; and what of IR is no sentence."""

from __future__ import annotations

import random

import pytest

import legalsat as ls
from legalsat.pasted.wording.likely import WHERE as WORDS

PTX = ".mma_async.sync.aligned."
BYTES = {"i8": 1, "bf16": 2, "f16": 2, "f32": 4}
DESCRIPTOR = (
    "%4 = tt.make_tensor_descriptor %arg0, [%c4096_i32, %c{columns}_i32], [%c{pitch}_i64, %c1_i64] : !tt.ptr<{type}>, "
    "!tt.tensordesc<tensor<{rows}x{width}x{type}>>"
)


def codes(text: str, target: str = "h200") -> list[str]:
    try:
        return [d.code for d in ls.explain(text, target).diagnostics if d.where != WORDS]
    except ls.InvalidInput:
        return []


def test_a_memref_with_strides_is_judged_as_that_tensor() -> None:
    draw = random.Random(5)
    for _ in range(60):
        kind = draw.choice(list(BYTES))
        columns = draw.randrange(8, 200)
        pitch = columns + draw.randrange(0, 40)
        found = ls.explain(f"memref<512x{columns}x{kind}, strided<[{pitch}, 1], offset: 0>>", "h200")
        assert ("TMA005" in [d.code for d in found.diagnostics]) == (pitch * BYTES[kind] % 16 != 0), found


@pytest.mark.parametrize(
    "text",
    [
        "memref<64x64xbf16, strided<[100, 1]>, 3>",
        "memref<64x64xbf16, strided<[100, 1], offset: ?>, #gpu.address_space<workgroup>>",
        "memref<64x64xbf16, strided<[?, 1]>>",
        "error: 'linalg.copy' op failed to verify: memref<64x64xbf16, strided<[100, 1]>> on a CPU",
    ],
)
def test_memrefs_elsewhere_than_in_global_memory_are_not_judged_as_maps(text: str) -> None:
    assert "TMA005" not in codes(text)


def test_a_descriptors_constants_are_its_strides_whoever_names_them() -> None:
    draw = random.Random(7)
    for _ in range(60):
        kind = draw.choice(list(BYTES))
        columns = draw.randrange(16, 200)
        text = DESCRIPTOR.format(columns=columns, pitch=columns, type=kind, rows=64, width=64)
        bad = columns * BYTES[kind] % 16 != 0
        assert ("TMA005" in codes(text)) == bad, text
        named = f"%s = arith.constant {columns} : i64\n{text.replace(f'%c{columns}_i64', '%s')}"
        assert codes(named) == codes(text)
        assert codes(text.replace(f"%c{columns}_i64", "%s")) == []  # of a stride that nobody tells nothing is said


@pytest.mark.parametrize("kind", BYTES)
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 512])
@pytest.mark.parametrize("form", ["!tt.tensordesc<tensor<128x{}x{}>>", "!tt.tensordesc<128x{}x{}, #shared>"])
def test_a_descriptors_rows_take_16_bytes(kind: str, width: int, form: str) -> None:
    text = form.format(width, kind)
    assert ("TMA008" in codes(text)) == (width * BYTES[kind] < 16)
    assert ls.explain(text, "h200").verdict in ("refused", "undecided")


@pytest.mark.parametrize(("swizzle", "span"), [("swizzle_128b", 128), ("swizzle_64b", 64), ("swizzle_32b", 32)])
@pytest.mark.parametrize("columns", [16, 32, 64, 128])
def test_a_descriptor_of_mlir_is_judged_with_its_swizzle(swizzle: str, span: int, columns: int) -> None:
    text = (
        "%0 = nvgpu.tma.create.descriptor %m box[%c64,%c64] : memref<*xf16> -> !nvgpu.tensormap.descriptor<tensor = "
        f"memref<64x{columns}xf16, 3>, swizzle = {swizzle}, l2promo = none, oob = zero, interleave = none>"
    )
    assert ("TMA009" in codes(text)) == (columns * 2 > span)


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5, 8])
def test_a_buffer_is_compared_with_what_a_block_has(stages: int) -> None:
    shared = f"%8 = ttg.local_alloc : () -> !ttg.memdesc<{stages}x256x128xf16, #shared, #smem, mutable>"
    assert ("SMEM001" in codes(shared)) == (stages * 256 * 128 * 2 > 227 * 1024)
    assert ("SMEM001" in codes(f'module attributes {{"ttg.num-ctas" = 2 : i32}}\n{shared}')) == (
        stages * 256 * 128 > 227 * 1024
    )
    sums = f"%8 = ttng.tmem_alloc : () -> !ttg.memdesc<{stages}x128x128xf32, #tmem, #ttng.tensor_memory, mutable>"
    assert ("TMEM002" in codes(sums, "b200")) == (stages * 128 > 512)
    assert "SMEM001" not in codes(sums, "b200")


def test_layouts_and_attributes_of_ir_are_no_sentences() -> None:
    legal = (
        "#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 32}>\n"
        "tt.func @f(%arg0: !tt.ptr<bf16> {tt.divisibility = 16 : i32}) {\n"
        "%a = ttg.local_alloc %x : (tensor<8x128xf32, #blocked>) -> !ttg.memdesc<8x128xf32, #shared, #smem>"
    )
    assert codes(legal) == []


@pytest.mark.parametrize(
    "text",
    [
        "python: /build/lib/Dialect/TritonGPU/IR/Some.cpp:12: Assertion `a.size() == b.size()' failed, num_warps = 8",
        "lib/Conversion/SomethingToLLVM.cpp:77: void mlir::f(int): Assertion `isLegal(x)' failed",
        'opt: include/llvm/ADT/ArrayRef.h:257: Assertion `Index < Length && "Invalid index!"\' failed. (a kernel)',
        "LLVM ERROR: cannot make a layout of it, Triton kernel",
    ],
)
def test_an_assertion_in_a_compilers_source_is_the_compilers(text: str) -> None:
    assert codes(text)[:1] == ["TOOL014"]
    assert codes("kernel.cu:12: Assertion `a.size() == b.size()' failed, num_warps = 8")[:1] != ["TOOL014"]


def test_a_tile_and_a_cluster_that_are_refused_together_are_a_kernel_that_is_missing() -> None:
    assert codes("Unsupported tile (128, 32, 64) and cluster (2, 1, 1) shape for arch 90.") == ["TOOL010"]
    assert codes("Invalid cluster shape: must be at most 8 CTAs, given 16") == ["TOOL008"]


def test_what_is_said_to_be_contiguous_is_no_condition() -> None:
    said = "compiling the kernel of a contiguous [1, 8, 4096, 128] tensor fails: a stride >= 2**31 elements"
    assert codes(said)[:1] == ["TOOL013"] and "TMA024" not in codes(said)
    assert "TMA024" in codes("ValueError: TMA kernel expects a contiguous tensor, last dimension with stride 1")


def test_a_copy_left_out_leaves_the_barrier_waiting_for_its_bytes() -> None:
    text = "With the load of B commented out the TMA kernel hangs at the mbarrier"
    assert "PIPE006" in codes(text)
    assert "PIPE006" not in codes("With the loading of the checkpoint commented out the kernel hangs")


@pytest.mark.parametrize(
    "text",
    [
        "gdim={96,4096} gstr={96} box={64,64} swz=128B dtype=u8 gaddr=0x7000",
        "TMA map u8 gdim=(96,4096) gstride=(96,) box=(64,64) swizzle 128B gptr=0x7000",
    ],
)
def test_a_map_in_short_names_is_read_with_the_type_beside_it(text: str) -> None:
    assert ls.explain(text, "h200").verdict == "legal"
    broken = ls.explain(text.replace("96", "100"), "h200")
    assert [d.code for d in broken.diagnostics] == ["TMA005"] and broken.verdict == "refused"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("cuTensorMapEncodeTiled returned 1", "CUDA001"),
        ("r = cuTensorMapEncodeTiled(&map, 9, 3) is 700", "CUDA700"),
        ("cuLaunchKernelEx returned 719", "CUDA719"),
    ],
)
def test_a_number_that_a_call_of_the_driver_returned_is_its_result(text: str, code: str) -> None:
    assert codes(text) == [code]
    assert codes(text.rpartition(" ")[0] + " 0") == []


def test_lists_and_labels_stand_apart_by_blanks() -> None:
    text = "TMA desc: dims 4096x104 strides 208 box 64x64 128B swizzle, u8, address 0x7000"
    assert codes(text) == []
    assert "by one reading" not in (ls.explain(text, "h200").undecided or "")
    assert codes(text.replace("208", "200")) == ["TMA005"]


@pytest.mark.parametrize("columns", range(2, 300, 6))
def test_an_instruction_in_words_is_judged_as_in_ptx(columns: int) -> None:
    said, ptx = (f"wgmma{mid}m64n{columns}k16{dot}f32{dot}bf16{dot}bf16" for mid, dot in ((" ", " "), (PTX, ".")))
    assert codes(said) == codes(ptx) == ([] if columns % 8 == 0 and columns <= 256 else ["WGMMA008"])

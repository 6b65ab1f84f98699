"""Public reports of what no encode call sees, replayed from their numbers: the root cause comes first or second."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from reported_failures import FAILURES, text_of

import legalsat as ls
from legalsat.tensor import plain

Params = dict[str, Any]
_TYPES = {"int8": "u8", "int16": "u16", "int32": "i32", "float16": "fp16", "bfloat16": "bf16"}


def tile_off_the_pattern(params: Params) -> ls.TensorCopy:
    """A tile in a buffer that the allocator put `smem_base_offset` bytes behind a multiple of 1024."""
    span = int(params["swizzle"].removesuffix("B"))
    tm = ls.TensorMap("u8", (span, 64), (span,), (span, 64), swizzle=params["swizzle"])
    return ls.TensorCopy(tm, shared_address=1024 + params["smem_base_offset"], read_as=params["swizzle"])


def stored_columns(params: Params) -> ls.TensorCopy:
    """The store of a matrix that is the left part of a wider one."""
    tm = ls.TensorMap(
        _TYPES[params["dtype"]],
        tuple(params["globalDim"]),
        tuple(params["globalStrides_bytes"]),
        tuple(params["boxDim_framework"]),
    )
    return ls.TensorCopy(tm, stores=True)


def bulk_of_a_plain_array(params: Params) -> ls.BulkCopy:
    """A bulk copy from an array of ints, which is aligned to its elements."""
    size = ls.Tensor((params["buf_len"],), _TYPES[params["dtype"]]).span_bits // 8
    return ls.BulkCopy(bytes=size, global_address=params["gmem_alignment"])


def aligned_bulk_of_a_plain_array(params: Params) -> ls.BulkCopy:
    return bulk_of_a_plain_array({**params, "gmem_alignment": params["fixed"]})


def read_by_another_swizzle(params: Params) -> ls.TensorCopy:
    """A tile that a matrix descriptor with another layout type reads."""
    tm = ls.TensorMap(_TYPES[params["dtype"]], (64, 64), (128,), (64, 64), swizzle=params["tma_swizzle"])
    return ls.TensorCopy(tm, read_as=params["wgmma_layout_type"])


def strides_from_the_shape(params: Params) -> ls.TensorCopy:
    """A map whose strides were made up from a view's shape, as if the view were dense."""
    stored = ls.Tensor(params["shape"], "bf16")
    view = stored.transposed((0, 2, 1, 3))
    dense = ls.Tensor(view.shape, view.dtype)
    tm = ls.TensorMap(
        "bf16",
        plain(dense.shape)[::-1],
        tuple(2 * stride for stride in plain(dense.strides)[-2::-1]),
        (64, 1, 128, 1),
        swizzle="128B",
    )
    return ls.TensorCopy(tm, tensor=view)


def strides_of_the_view(params: Params) -> ls.TensorCopy:
    """The same with the view's own strides, which is the fix."""
    made_up = strides_from_the_shape(params)
    assert made_up.tensor is not None
    strides = tuple(2 * stride for stride in plain(made_up.tensor.strides)[-2::-1])
    fixed = ls.TensorMap("bf16", made_up.tensor_map.global_dim, strides, (64, 1, 128, 1), swizzle="128B")
    return ls.TensorCopy(fixed, tensor=made_up.tensor)


def maps_in_slots(params: Params) -> ls.TensorCopy:
    """Maps in an array whose slots are smaller than a map."""
    tm = ls.TensorMap("bf16", (64, 64), (128,), (64, 64), swizzle="128B")
    return ls.TensorCopy(tm, map_pitch=params["TensormapDescBytes"])


def bulk_reduction_of_a_matrix_tile(params: Params) -> ls.BulkCopy:
    """A reduction without a tensor map from a tile that is laid out for wgmma."""
    assert "cp.reduce.async.bulk " in params["instr"] and "swizzled" in params["smem_layout"]
    return ls.BulkCopy(bytes=16384, reduces="add", swizzle="128B")


def advanced_descriptor(params: Params) -> str:
    """The word of a descriptor that was advanced by the increment in the report."""
    start = ls.MatrixDescriptor("wgmma", 16, 1024, "128B").word
    increment = int(params["desc_increment"].rsplit("= ", 1)[1])
    advanced = ls.MatrixDescriptor.from_word("wgmma", start + increment)
    assert advanced.start == params["sK_offset_elems"] * 2, "the increment is the offset in units of 16 bytes"
    return f"{advanced.word:#018x}"


def reduction_of_integers(params: Params) -> ls.TensorCopy:
    """The reduction by a tensor map of whose type the instruction has no form."""
    tm = ls.TensorMap(_TYPES[params["dtype"]], (64, 64), (128,), (64, 64))
    return ls.TensorCopy(tm, reduces=params["op"])


def load_at_a_coordinate(params: Params) -> ls.TensorCopy:
    """The load of the last program of the grid."""
    pid = params["grid"][0] - 1
    found = re.fullmatch(r"\(pid // (\d+)\) \* (\d+)", params["inner_coordinate"])
    assert found is not None and params["dtype_bytes"] == 2
    tm = ls.TensorMap("fp16", (1024, 64), (2048,), (64, 64), swizzle="128B")
    return ls.TensorCopy(tm, coordinate=(pid // int(found[1]) * int(found[2]), 0))


# By id: what the reporter would ask about, the GPU, and the code of the root cause; None where nothing is wrong.
REPLAYED: dict[str, tuple[Callable[[Params], Any], str, str | None]] = {
    "tilelang-2379-bad": (tile_off_the_pattern, "b200", "COPY005"),
    "triton-11583-int8": (stored_columns, "h200", "COPY008"),
    "triton-11583-ctl": (stored_columns, "h200", None),
    "cccl-3198": (bulk_of_a_plain_array, "h200", "BULK001"),
    "matmultut-14": (read_by_another_swizzle, "h200", "COPY012"),
    "fa-2667": (strides_from_the_shape, "b200", "COPY010"),
    "flashinfer-4386": (maps_in_slots, "h200", "COPY011"),
    "tilelang-1655": (bulk_reduction_of_a_matrix_tile, "h200", "BULK003"),
    "tilelang-2583": (reduction_of_integers, "h200", "COPY013"),
    "triton-7385": (load_at_a_coordinate, "h200", "COPY001"),
    "flashmla-67": (advanced_descriptor, "h200", None),
}
# The fix that the thread names, which nothing is wrong with.
FIXED: dict[str, tuple[Callable[[Params], Any], Params]] = {
    "tilelang-2379-bad": (tile_off_the_pattern, {"smem_base_offset": 0}),
    "cccl-3198": (aligned_bulk_of_a_plain_array, {}),
    "matmultut-14": (read_by_another_swizzle, {"tma_swizzle": "128B"}),
    "fa-2667": (strides_of_the_view, {}),
    "flashinfer-4386": (maps_in_slots, {"TensormapDescBytes": 128}),
    "tilelang-2583": (reduction_of_integers, {"dtype": "float16"}),
    "triton-7385": (load_at_a_coordinate, {"inner_coordinate": "(pid // 9) * 136"}),
}
BROKEN = {"wrong", "illegal", "hang"}


@pytest.mark.parametrize("name", REPLAYED)
def test_a_reports_root_cause_comes_first_or_second(name: str) -> None:
    made, gpu, code = REPLAYED[name]
    entry = FAILURES[name]
    found = ls.explain(made(entry["params"]), gpu)
    assert found.legal == (entry["verdict_expected"] == "legal") == (code is None)
    if code is None:
        assert not [d for d in found.diagnostics if d.level == "error"]
    else:
        assert entry["verdict_expected"] in BROKEN
        assert code in [d.code for d in found.diagnostics[:2]]


@pytest.mark.parametrize("name", FIXED)
def test_what_a_report_was_fixed_by_is_legal(name: str) -> None:
    made, changed = FIXED[name]
    assert ls.explain(made({**FAILURES[name]["params"], **changed}), REPLAYED[name][1]).legal


def test_the_columns_that_a_report_found_overwritten_are_counted() -> None:
    params = FAILURES["triton-11583-int8"]["params"]
    said = ls.explain(stored_columns(params), "h200").diagnostics[0].message
    assert f"the {params['cols_overwritten']} elements" in said


def test_a_kernel_that_wants_whole_scale_blocks_is_named_among_the_causes() -> None:
    """No rule of hardware is broken by N = 16: one library lacks a kernel. Its text could come from a pitch too."""
    found = ls.explain(text_of(FAILURES["vllm-48587"]), "rtx5090")
    assert not found.legal and "multiple of the scale block" in found.diagnostics[0].message


def product_of_whole_granules(params: Params) -> list[ls.TensorCopy]:
    """The operands and the result of a product of bf16, A and B stored along M and along K, by boxes of 128 bytes."""
    m, n, k = params["M"], params["N"], params["K"]
    maps = [
        ls.TensorMap("bf16", (inner, outer), (2 * inner,), (64, 64), swizzle="128B")
        for inner, outer in ((m, k), (k, n), (m, n))
    ]
    return [ls.TensorCopy(maps[0]), ls.TensorCopy(maps[1]), ls.TensorCopy(maps[2], stores=True)]


def test_a_fault_of_one_compilers_own_layout_is_missed() -> None:
    """M = 1752 is whole granules of 16 bytes, so all copies are legal; what breaks is a 16 x 16 tile of stmatrix.

    Where nobody tells that tile, nothing here can know of it; the report stays a miss, and no other cause is made up.
    """
    entry = FAILURES["fuser-3963"]
    assert entry["verdict_expected"] == "wrong"
    assert all(ls.explain(copy, "h200").legal for copy in product_of_whole_granules(entry["params"]))


def test_a_report_without_a_cause_gets_none() -> None:
    """Groups of one row, where the library wants 128: the maintainers could not reproduce the hang."""
    params = FAILURES["deepgemm-178"]["params"]
    rows = ls.TensorMap("u8", (params["K"], params["m_per_group"]), (params["K"],), (128, 128), swizzle="128B")
    assert FAILURES["deepgemm-178"]["verdict_expected"] == "unknown"
    assert ls.explain(rows, "h200").legal

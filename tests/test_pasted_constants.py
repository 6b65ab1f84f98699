"""What numbers and branches of pasted fragments break, each beside the same fragment as it is right."""

from __future__ import annotations

import time
from itertools import product
from typing import NamedTuple

import pytest

import legalsat as ls
from legalsat.pasted.code.constants import adds_up, explain_constants
from legalsat.pasted.code.elected import explain_elected
from legalsat.targets import target

SAID = "the kernel gives wrong results, or hangs\n"


class Fragment(NamedTuple):
    """The rule that a fragment breaks, on which GPU, the fragment, and one replacement that makes it right."""

    code: str
    gpu: str
    wrong: str
    old: str
    new: str

    @property
    def right(self) -> str:
        assert self.old in self.wrong
        return self.wrong.replace(self.old, self.new, 1)


NUMBERS = {
    "a barrier at no multiple of 8": Fragment(
        "PIPE025",
        "h200",
        "#define OFF_COUNTER 4096\n#define OFF_MBAR 4100\nmbarrier_init(smem + OFF_MBAR, 1);\n",
        "MBAR 4100",
        "MBAR 4104",
    ),
    "a barrier of Python": Fragment(
        "PIPE025", "b200", "TILE = 3 * 1000\nfull_bar_offset = TILE + 2  # bytes\n", "TILE + 2", "TILE + 8"
    ),
    "a tile inside of the swizzle's pattern": Fragment(
        "COPY005",
        "h200",
        "constexpr int kStageOffset = 0x8080;\nencode(&map, CU_TENSOR_MAP_SWIZZLE_128B);\n"
        "tma_store(smem + kStageOffset);\n",
        "0x8080",
        "0x8400",
    ),
    "a tile at 16 bytes": Fragment(
        "COPY004", "h200", "const int offset_a = 48;\ntma_load_2d(&map, smem + offset_a);\n", "48;", "128;"
    ),
    "an array that nothing aligns": Fragment(
        "COPY004",
        "h200",
        "__shared__ half tile[64 * 64];\ntma_load_2d(tile, &map, x, y, &bar);\n",
        "__shared__ half",
        "__shared__ alignas(128) half",
    ),
    "an array that is aligned too little": Fragment(
        "COPY004",
        "h200",
        "constexpr int kBytes = 64;\nalignas(kBytes) __shared__ float rows[8][32];\n"
        "cde::cp_async_bulk_tensor_2d_global_to_shared(&rows, &map, x, y, bar);\n",
        "= 64",
        "= 1024",
    ),
    "a descriptor of wgmma without the map's swizzle": Fragment(
        "MDESC003",
        "h200",
        "encode(CU_TENSOR_MAP_SWIZZLE_64B);\nuint64_t desc = start | (uint64_t)1 << 62;\n",
        ")1 << 62",
        ")2 << 62",
    ),
    "a descriptor of tcgen05 with a code of wgmma": Fragment(
        "MDESC003",
        "b200",
        "encode(CU_TENSOR_MAP_SWIZZLE_128B);\ndesc |= 1ULL << 61;\n",
        "1ULL << 61",
        "2ULL << 61",
    ),
    "a code that names no swizzle": Fragment(
        "MDESC009", "b200", "encode(CU_TENSOR_MAP_SWIZZLE_32B);\ndesc |= 5ull << 61;\n", "5ull", "6ull"
    ),
    "a layout of CuTe with another swizzle": Fragment(
        "COPY012",
        "h200",
        "encode(CU_TENSOR_MAP_SWIZZLE_64B);\nauto tile = composition(Swizzle<3, 4, 3>{}, layout);\n",
        "Swizzle<3,",
        "Swizzle<2,",
    ),
    "a field of CUTLASS": Fragment(
        "MDESC003",
        "h200",
        "desc.bitfield.layout_type_ = 0x1;\nencode(CU_TENSOR_MAP_SWIZZLE_NONE);\n",
        "SWIZZLE_NONE",
        "SWIZZLE_128B",
    ),
    "multiplies of a pair that are committed for one": Fragment(
        "TMEM015",
        "b200",
        "tcgen05.mma.cta_group::2.kind::f16 [d], a, b, i, p;\n"
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [bar];\n",
        "commit.cta_group::1",
        "commit.cta_group::2",
    ),
    "bytes that no boxes add up to": Fragment(
        "PIPE006",
        "h200",
        "cuuint64_t size[2] = {4096, 4096}; cuuint64_t pitch[1] = {8192}; cuuint32_t box[2] = {64, 96};\n"
        "cuuint32_t step[2] = {1, 1};\n"
        "cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, ptr, size, pitch, box, step, "
        "CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, "
        "CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);\n"
        "#define STAGE_BYTES (64 * 128 * 2)\nmbarrier_arrive_expect_tx(&full[s], STAGE_BYTES);\n",
        "64 * 128 * 2",
        "2 * 64 * 96 * 2",
    ),
}
BRANCHES = {
    "a shuffle of a whole warp": Fragment(
        "PIPE018",
        "h200",
        "if (lane_id == 0) {\n  total = __shfl_sync(0xffffffff, part, 3);\n}\n",
        "lane_id == 0",
        "warp_id == 0",
    ),
    "registers of a warpgroup": Fragment(
        "TOOL007",
        "h200",
        'if (threadIdx.x == 0) { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }\n',
        "threadIdx.x == 0",
        "threadIdx.x < 128",
    ),
    "a copy of CuTe's Python": Fragment(
        "PIPE018",
        "h200",
        "    if tidx == 0:\n        ring.producer_acquire(state)\n        cute.copy(atom, g, s, tma_bar_ptr=bar)\n"
        "    done()\n",
        "if tidx == 0:",
        "if warp_idx == 0:",
    ),
    "tensor memory by an elected thread": Fragment(
        "TMEM014",
        "b200",
        "if (elect_one_sync()) {\n  tcgen05.ld.sync.aligned.32x32b.x8 ...;\n}\n",
        "elect_one_sync()",
        "warp < 4",
    ),
}


def _told(fragment: Fragment, code: str) -> list[str]:
    found = explain_constants(f"{SAID}{code}", target(fragment.gpu))
    return [one.code for one in (*found, *explain_elected(f"{SAID}{code}", target(fragment.gpu)))]


@pytest.mark.parametrize("name", [*NUMBERS, *BRANCHES])
def test_a_fragment_that_is_wrong_is_told_and_the_same_one_right_is_not(name: str) -> None:
    fragment = {**NUMBERS, **BRANCHES}[name]
    assert fragment.code in _told(fragment, fragment.wrong)
    assert not _told(fragment, fragment.right)


@pytest.mark.parametrize("name", [*NUMBERS, *BRANCHES])
def test_nothing_is_told_where_nothing_fails_nor_of_a_gpu_without_the_unit(name: str) -> None:
    fragment = {**NUMBERS, **BRANCHES}[name]
    assert not list(explain_constants(fragment.wrong, target(fragment.gpu)))
    assert not list(explain_elected(fragment.wrong, target(fragment.gpu)))
    found = {one.code for one in explain_constants(f"{SAID}{fragment.wrong}", target("a100"))}
    assert not found - {"PIPE025"}  # which Ampere's barriers need as well


@pytest.mark.parametrize("name", NUMBERS)
def test_the_cause_comes_first_or_second_of_a_whole_report(name: str) -> None:
    fragment = NUMBERS[name]
    found = ls.explain(f"{SAID}{fragment.wrong}", fragment.gpu)
    assert fragment.code in [one.code for one in found.diagnostics[:2]]
    assert not found.legal and not found.repairs


def test_sums_of_boxes_are_those_that_counting_finds() -> None:
    for boxes in ((128,), (48, 80), (32, 48, 112)):
        sums = {
            sum(n * box for n, box in zip(times, boxes, strict=True)) for times in product(range(12), repeat=len(boxes))
        }
        for value in range(0, 352, 16):
            assert adds_up(value, boxes) == (value in sums)


@pytest.mark.parametrize(
    "right",
    [
        "if (elect_one_sync()) {\n  pipeline.producer_acquire(state);\n}\n",  # C++ leaves the choice to the caller
        "with cute.arch.elect_one():\n    cute.copy(bulk_atom, src, dst, mbar_ptr=tma_bar)\n",
    ],
)
def test_what_one_thread_is_to_execute_is_no_fault(right: str) -> None:
    assert not list(explain_elected(f"{SAID}{right}", target("h200")))


def test_instructions_that_a_text_has_of_both_groups_say_nothing() -> None:
    both = "tcgen05.mma.cta_group::1.kind::f16 works; tcgen05.mma.cta_group::2.kind::f16 hangs, commit.cta_group::2"
    assert not list(explain_constants(both, target("b200")))


def test_long_texts_take_time_in_proportion() -> None:
    piece = "if (lane == 0) {\n  x = OFF_A + 3;\n  if tidx == 0:\n    expect_tx(bar, 77);\n"
    begin = time.monotonic()
    list(explain_constants(SAID + piece * 20_000, target("b200")))
    list(explain_elected(SAID + piece * 20_000 + "__shfl_sync(0xffffffff, v, 0)", target("b200")))
    assert time.monotonic() - begin < 8


def test_an_encode_call_that_returns_what_a_kernel_left_has_no_field_to_blame() -> None:
    found = ls.explain("cuTensorMapEncodeTiled returns cudaErrorMisalignedAddress once the sizes are large", "h200")
    assert found.diagnostics[0].code == "CUDA716"
    assert not [one.code for one in found.diagnostics if one.code.startswith("TMA0") and one.refused_by == "driver"]


def test_what_code_does_wrong_comes_before_what_is_only_seen_of_it() -> None:
    waits = f"kernel hangs at the barrier\n{BRANCHES['a shuffle of a whole warp'].wrong}mbarrier_wait(&bar, 0);\n"
    found = [one.code for one in ls.explain(waits, "h200").diagnostics]
    assert found[0] == "PIPE018" and "PIPE007" in found


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Triton Error [HIP]: Code: 719, Messsage: unspecified launch failure",
        "hipErrorLaunchFailure",
        "HIP error: unspecified launch failure",
    ],
)
def test_results_of_hip_have_the_numbers_of_cuda(text: str) -> None:
    assert [one.code for one in ls.explain(text, "mi300x").diagnostics] == ["CUDA719"]

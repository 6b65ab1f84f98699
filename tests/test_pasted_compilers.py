"""What compilers and verifiers say: every recogniser is tried, and the installed headers' own assertions are read."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from reported_failures import FAILURES, text_of
from test_pasted import SAID
from test_pasted_faults import FAULTS
from test_pasted_messages import MESSAGES
from test_reported_texts import REPORTS, WITH_CODE

import legalsat as ls
from legalsat.pasted.causes import ROWS, named_causes
from legalsat.pasted.grammar import compiled, even, needles
from legalsat.pasted.sentences import RULE_OF, SENTENCES, explain_causes, explain_sentences
from legalsat.pasted.wording import likely
from legalsat.targets import TARGETS

COMPILED = [
    (
        "wgmma.mma_async instructions are serialized due to ill formed pipeline stage in the function 'f'",
        "TOOL001",
        "ill",
    ),
    ("ptxas error   : Entry function 'f' uses too much shared data (0x12000 bytes, 0xc000 max)", "SMEM001", "73728"),
    ("ptxas a.ptx, line 7; fatal   : Unsupported .version 9.1; current version is '8.8'", "CUDA222", "knows is 8.8"),
    ("ptxas a.ptx, line 7; fatal   : Unsupported .version 9.1", "CUDA222", "PTX 9.1"),
    (
        "error : Feature 'x' requires PTX ISA .version 8.6 or later",
        "TOOL004",
        "need PTX 8.6",
    ),  # the text is the old one
    ("cuModuleLoadData: no kernel image is available for execution on the device", "TOOL004", "no code for this GPU"),
    ("Trying to use tma without CUTE_ARCH_TMA_SM90_ENABLED.", "TOOL004", "tma"),
    ("out of resource: registers, Required: 80000, Hardware limit: 65536", "TOOL003", "80000 registers"),
    ("CUDA error: too many resources requested for launch", "TOOL003", "registers"),
    (
        "ptxas info    : (C7519) warpgroup.arrive is injected in around line 31 by compiler in function 'f'",
        "PIPE020",
        "near line 31",
    ),
    ("ptxas fatal: PTX with .target 'sm_100a' cannot be compiled for architecture 'sm_100'", "TOOL004", "sm_100a"),
    (
        "========= Invalid __global__ write of size 16 bytes\n=========     at f(float4 *)+0x90\n"
        "=========     by thread (3,0,0) in block (1,0,0)\n=========     Address 0x7f0000000308 is misaligned",
        "VEC002",
        f"a write of 16 bytes of global memory begins at byte {0x7F0000000308}, which is no multiple of 16",
    ),
    (
        "CUDA error: invalid argument\n  current device: 0, in function launch at f.cu:9\n"
        "  cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)",
        "SMEM001",
        "refused its shared memory",
    ),
    ("cudaFuncSetAttribute() returned error: invalid argument", "SMEM001", "shared memory"),
    ("error : Unexpected instruction types specified for 'wgmma.mma_async'", "WGMMA009", "wgmma"),
    ("error : Arguments mismatch for instruction 'tcgen05.mma'", "TCGEN001", "tcgen05.mma"),
    ("error   : Arguments mismatch for instruction 'st.bulk'", "TOOL004", "st.bulk"),
    ("CUDA error: invalid configuration argument", "TOOL011", "grid"),
    ("libfoo.so: undefined symbol: cuTensorMapEncodeTiled", "TOOL004", "EncodeTiled"),
    ('"Could not find a common tile-gmem vectorization. Does the Tile select out major GMEM modes?"', "TMA024", "axis"),
    ("TMA requires CTA_Tile and SLayout top-level size equivalence.", "COPY007", "size"),
    ("Bulk Copy requires copy vector size align to 16B.", "BULK002", "16"),
    ("Unsupported pair of SmemSwizzleBits and SmemSwizzleBase!", "MDESC003", "swizzle"),
    ("Unknown TMA Format!", "TMA010", "type"),
    ("No eligible GMMA operator for request configuration.", "WGMMA009", "types"),
    ("Tile_M must be a multiple of 64.", "WGMMA002", "64"),
    ("Tile_N must be a multiple of 8.", "WGMMA008", "8"),
    ("Tile_K must be a multiple of 32.", "WGMMA009", "32"),
    ("Register source A operand GMMAs must have K-major A layout.", "WGMMA011", "K-major"),
    ("Only K major inputs are supported", "TCGEN007", "K-major"),
    ("SM100_MMA_TF32 A from TMEM can't be transposed", "TCGEN009", "transposed"),
    ("SM100_MMA_TF32 M-mode size should be 64 or 128 for 1 CTA cluster MMA.", "TCGEN003", "64 or 128"),
    ("SM100_MMA_TF32 N-mode size should be a multiple of 8 between 8 and 256.", "TCGEN004", "between 8 and 256"),
    ("SM100_MMA_F8F6F4_SS supports types with leq 8bit types", "TCGEN001", "kind"),
    ("SM100_MMA_S8_SS result type can only be int32_t.", "TCGEN002", "int32"),
    ("SM100_MMA_MXF4_SS Vector size can only be 16 or 32.", "TCGEN010", "16 or 32"),
    ("Requesting more TMEM than is available.", "TMEM002", "512"),
    ("SMEM usage exceeded capacity.", "SMEM001", "shared memory"),
    ("Pingpong kernel must have TiledMMA operating using 128 threads.", "TOOL007", "warps"),
    ("CAN IMPLEMENT: Padding values don't meet requirements for TMA LOAD IM2COL.", "TMA043", "im2col"),
    ("Cluster shape not divisible by MMA size", "TOOL008", "cluster"),
    ("No MMA matches SM120_16x8x32_TN for given data types.", "PROD001", "SM120_16x8x32_TN"),
    ("WGMMA result M dimension must be divisible by 64", "WGMMA002", "64"),
    ("WGMMA result N dimension must be divisible by 8", "WGMMA008", "8"),
    ("WGMMA requires num_warps to be divisible by 4", "TOOL007", "4"),
    ("WGMMA A operand must have NVMMA shared or dot layout", "WGMMA004", "layout"),
    ("failed to find valid tcgen05.mma layout for operand A in shared memory descriptor", "MDESC004", "tcgen05.mma"),
    ("descriptor gather of bf16 must have at least 16 columns, but got 8", "TOOL005", "8 columns"),
    ("descriptor scatter must have at least 8 rows, but got [4]", "TOOL005", "4 rows"),
    ("descriptor block must have 1 row, but got [4, 64]", "TOOL005", "[4, 64]"),
    ("Gather4 mode expects 5 coordinates", "TOOL005", "matrix"),
    ("AssertionError: Expected block_shape[-1] to be at least 64 but got 32", "TMA009", "swizzle"),
    ("TMA descriptor layout must match shared layout, but got descriptor layout #a", "COPY012", "differ"),
    ("TMA dtype cannot be greater than 32 bits", "TMA010", "wider"),
    ("For fp4_padded, tensor strides must be 32-byte aligned", "TMA032", "4-bit"),
    ("blockM must be 64 or 128 but got 32", "TCGEN003", "rows"),
    ("inconsistent two_ctas setting across matmuls; expected all matmuls to use it", "TMEM015", "pair"),
    ("num_ctas > 1 requires NVIDIA SM90+ (Hopper).", "TOOL004", "GPU"),
    ("Barrier arrive underflow: current count or tx-count would become invalid", "PIPE005", "arrivals"),
    ("Barrier used before initialization or after invalidation", "PIPE001", "initialised"),
    ("Barrier re-initialized without prior invalidation", "PIPE024", "barrier"),
    ("Deadlock detected while waiting on an mbarrier", "PIPE007", "phase"),
    ("Buffer being accessed has outstanding reads", "PIPE008", "reads"),
    ("RuntimeError: Kernel requires a runtime memory allocation, but no allocator was set.", "TOOL009", "memory"),
    ("ValueError: Tiling ((128, 8), (32, 8), (8, 8), (2,)) does not apply to shape (64, 128)", "TCGEN003", "128"),
    ("nvcc fatal : Unsupported gpu architecture 'compute_120'", "TOOL004", "compute_120"),
    ("OpError: expects the M-mode to be 64, but got 32", "WGMMA009", "64 rows, and 32"),
    ("OpError: expects the M-mode to be 128 or 256, but got 64", "TCGEN003", "128 or 256 rows"),
    ("OpError: expects the N-mode to satisfy 8 <= N <= 256 and N % 8 == 0, but got 12", "TCGEN004", "12 are given"),
    ("ptxas f.ptx, line 6; error : Feature 'mma' requires .target sm_70 or higher", "TOOL004", "from sm_70 on"),
    ("Got cutlass error: Error Invalid Problem at: 152", "TOOL010", "alignment"),
    ("CUDA error: device-side assert triggered", "TOOL010", "index beyond its array"),
    ("RuntimeError: cutlass cannot initialize", "TOOL004", "built for another"),
    ("RuntimeError: cutlass cannot implement", "TMA005", "can_implement"),
    ("condition: (values[j] & 0x807fffffu) == 0", "TOOL010", "power of two"),
    ("failed to partition '!cute.shape<\"(144,96)\">' with tiled_mma", "TCGEN003", "144 x 96"),
    ("GroupMMCommon.cuh:64: prepare_grouped_gemm_data: block: [0,0,0], thread: [0,0,0]", "TMA005", "16 elements of 8"),
    ("Error in function 'operator()': Unsupported group_size: 64", "TOOL010", "64 heads of queries"),
    ("cuBLAS API failed with status 15", "TOOL004", "COL32"),
    (
        "ptxas info : (C7504) Potential Performance Loss: 'setmaxnreg' ignored to maintain compatibility across "
        "compilation units.",
        "TOOL002",
        "compatibility across compilation units",
    ),
    ("ptxas error : Instruction 'wgmma.fence' not supported on target 'sm_100a'", "TOOL004", "sm_100a"),
    ("OpError: expects arch to be one of ['sm_100a', 'sm_100f'], but got sm_121a", "TOOL004", "names sm_121"),
    ("MmaF16BF16Op rejects Arch.sm_103a", "TOOL004", "another GPU"),
    ("this example must be compiled with sm_90a", "TOOL004", "another GPU"),
    ("error: CUTE_ARCH_MMA_SM90A_ENABLED is not defined in the host pass", "TOOL004", "device code"),
    ("CUDA_EXCEPTION_17 (cluster target block not present)", "PIPE015", "not there any more"),
    ("OpError: expects the 'acc_dtype' Op parameter to be Float32 or Float16", "TCGEN001", "acc_dtype"),
]
# One cause in words of several programs that no recogniser of sentences knows.
IN_OTHER_WORDS = {
    "TMA005": (
        "ValueError: TMA needs each outer stride to be divisible by 16 bytes",
        "assert x.stride(0) * x.element_size() % 16 == 0",
        "error: leading dimension must be 16B aligned",
    ),
    "TMA004": (
        "tensor data_ptr must be aligned to 16 bytes for TMA",
        "global address is not 16-byte aligned (tensor map)",
    ),
    "TMA024": ("tensor must be contiguous in its last dimension", "expected A.stride(-1) == 1", "B must be row-major"),
    "TMA003": ("box dimension 1 exceeds 256 elements", "TMA tile size must be <= 256, got 512"),
    "TMA001": ("TMA supports at most 5 dimensions, got 6", "tensor map rank must be between 1 and 5"),
    "TMA008": ("inner box dimension must be a multiple of 16 bytes", "innermost tile needs at least 16 bytes for TMA"),
    "TMA009": (
        "box inner dimension exceeds the swizzle width",
        "swizzle 128B requires an inner tile of at most 128 bytes",
    ),
    "COPY005": ("shared memory for a swizzled TMA tile must be 1024-byte aligned",),
    "COPY001": ("the innermost coordinate of a TMA copy must be a multiple of 16 bytes",),
    "BULK002": ("cp.async.bulk size must be a multiple of 16",),
    "SMEM001": ("requested shared memory exceeds the limit of 232448 bytes",),
    "TMEM002": ("tensor memory exceeded: 640 columns of 512",),
    "TMEM001": ("TMEM columns must be a power of two",),
    "TOOL004": (
        "this kernel requires Hopper (sm_90a)",
        "FA3 only supports Hopper GPUs",
        "Unsupported SM major version: 8",
    ),
    "PIPE004": (
        "synccheck: a local arrival on the barrier of a remote CTA",
        "error: mbarrier arrives at a remote address in the local form .shared::cta",
    ),
    "PIPE008": ("with a multicast of 4 the tiles of rank 3 are corrupt", "TMA multicast: stale data in the receivers"),
    "PIPE009": ("adding a printf before the wgmma makes the wrong result correct",),
    "PIPE010": ("the tma_store writes wrong values, and with a __nanosleep(100) before it the test passes",),
    "PIPE013": ("error: the bulk store is still in flight when the next tile overwrites its buffer",),
    "PIPE015": ("wrong results: one CTA of the cluster exits before its peer has read from it",),
    "WGMMA010": ("Assertion error (gemm.hpp:120): major_a == cute::UMMA::Major::K",),
    "CUDA001": ("Invalid TMA descriptor arguments for __tvm_tensormap_create_tiled:", "cuTensorMapEncodeTiled failed"),
    "TOOL008": ("cluster size must be a power of 2 and at most 8",),
}


@pytest.mark.parametrize(("text", "code", "says"), COMPILED)
def test_what_a_compiler_says_is_explained(text: str, code: str, says: str) -> None:
    found = ls.explain(f"note: something before\n{text}\nnote: something after", "b200").diagnostics[0]
    assert found.code == code
    assert says in found.message


def test_every_sentence_is_tried_and_holds_its_needles() -> None:
    tried = [even(text) for text, *_ in (*SAID, *COMPILED, *FAULTS)]
    reported = (report["text"] for report in (*REPORTS, *WITH_CODE, *MESSAGES))
    tried += [even(text) for text in (*map(text_of, FAILURES.values()), *reported)]
    for sentence in SENTENCES:
        matches = [text for text in tried if compiled(sentence.pattern).search(text)]
        assert matches, sentence
        assert "" not in needles(sentence.pattern), sentence
        for text in matches:
            assert any(needle in text for needle in needles(sentence.pattern)), (sentence, text)


def test_rows_have_rules_and_helps_that_begin_with_a_verb() -> None:
    for row in (*SENTENCES, *ROWS):
        assert set(row.code.split("/")) <= set(RULE_OF), row
        assert row.help[0].islower() and not row.message.endswith("."), row


@pytest.mark.parametrize(("code", "text"), [(code, text) for code, texts in IN_OTHER_WORDS.items() for text in texts])
def test_a_cause_in_other_words_is_named(code: str, text: str) -> None:
    found = ls.explain(text, "b200" if code.startswith("TMEM") else "h200")
    first, *others = found.diagnostics
    assert first.code == code and all(one.where == likely.WHERE for one in others)
    assert found.verdict == "refused" and text[:60] in first.where


@pytest.mark.parametrize(
    "text",
    [
        "the train left at 16:30, aligned with its timetable",
        "pip failed with error code: 1",
        "docker: no space left on device",
        "128 passed, 16 warnings in 5.03s",
        "ModuleNotFoundError: No module named 'triton'",
        "assert response.status_code == 200",
        "AddressSanitizer: SEGV on unknown address in layout.hpp:99",
        "with a print of the loss every epoch it works",
        "the worker process exited before the server answered",
    ],
)
def test_texts_about_something_else_name_no_cause(text: str) -> None:
    assert list(named_causes(even(text))) == []
    with pytest.raises(ls.InvalidInput, match="nothing in the text is understood"):
        ls.explain(text, "h200")


def test_advice_alone_leaves_legality_undecided() -> None:
    found = ls.explain(COMPILED[0][0], "h200")
    assert (found.legal, found.verdict) == (False, "undecided")
    assert [d.level for d in found.diagnostics] == ["warning"]
    assert "undecided" in str(found).splitlines()[0] and found.to_json()["undecided"]


def test_the_assertions_of_the_installed_headers_are_read() -> None:
    """Of the copy and matrix instructions' own static assertions in CUTLASS, nine of ten name a cause."""
    package = importlib.util.find_spec("cutlass_library")
    if package is None or not package.submodule_search_locations:
        pytest.skip("needs the CUTLASS headers")
    include = Path(package.submodule_search_locations[0]) / "source" / "include" / "cute" / "arch"
    said = set()
    for path in include.glob("*sm*.hpp"):
        if re.search(r"(?:mma|copy)_sm(?:90|100)", path.name):
            found = re.findall(
                r'(?:static_assert|CUTE_INVALID_CONTROL_PATH)\([^;"]{0,300}"([^"\n]{12,})"',
                path.read_text(encoding="utf-8"),
            )
            said |= set(found)
    target = TARGETS["sm_100a"]
    missed = [
        text
        for text in sorted(said)
        if not [*explain_sentences(even(text), target), *explain_causes(even(f"gemm: {text}"), target)]
    ]
    assert len(said) > 60
    assert len(missed) <= 0.1 * len(said), missed


def test_an_undecided_answer_is_shown_as_such_in_html() -> None:
    page = ls.explain(COMPILED[0][0], "h200")._repr_html_()
    assert "? undecided" in page and "✗ refused" not in page and "no extents" not in page


@pytest.mark.parametrize(
    "text",
    [
        "the CuTe DSL compiler hangs when cute.copy gets predicates of another shape",
        "Triton: compilation of the attention kernel never finishes for BLOCK_N = 256",
        "ptxas does not terminate on the sm_100 gemm",
        "nvcc takes forever to compile flash_fwd_hdim256",
        "the kernel's autotuning is stuck while compiling",
    ],
)
def test_a_compiler_that_never_ends_is_no_kernel_that_hangs(text: str) -> None:
    assert ls.explain(text, "h100").diagnostics[0].code == "TOOL014"


@pytest.mark.parametrize("text", ["my gemm kernel compiles and hangs", "the attention kernel hangs on H100"])
def test_a_kernel_that_hangs_is_no_compiler_that_does(text: str) -> None:
    assert "TOOL014" not in [one.code for one in ls.explain(text, "h100").diagnostics]


def test_a_compiler_that_infers_no_layout_says_that_users_of_a_buffer_disagree() -> None:
    for text in ("Layout inference failed to find a solution", "layout inference is unsatisfiable for this wgmma"):
        assert [one.code for one in ls.explain(text, "h100").diagnostics] == ["TOOL006"]

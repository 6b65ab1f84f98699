"""Rules that only compilers enforce: what ptxas advises, and what a program's text must be for its GPU.

They are met in texts that compilers print (`legalsat.pasted.tables.compilers`); no site of a plan meets them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from legalsat.rule import Requirements, Source, Unit, require, rules_in
from legalsat.targets import Target

COMPILER = Unit("compiler", lambda target: target)
_PTX = "PTX ISA 9.1"


@dataclass(frozen=True, slots=True, eq=False)
class CompilerMessage:
    """What a compiler says, as the code of the rule that it is about."""

    about: str


@COMPILER.rule(
    "TOOL001",
    Source("ptxas of CUDA 13.0", "advisories C7506 to C7520").saying("Potential Performance Loss: wgmma.mma_async"),
    refused_by="compiler",
    level="warning",
)
def wgmma_serialized(message: CompilerMessage, target: Target) -> Requirements:
    """Ptxas waits after each wgmma: the result is right, and much of the speed is gone.

    It does so where it cannot prove that nobody touches the registers of a running wgmma: where they do not fit, where
    a call lies between, where other instructions write them, or where fence, commit and wait are not in one path.
    """
    yield require(
        message.about != "TOOL001", "wgmma runs one instruction at a time", help="see the reason that it names"
    )


@COMPILER.rule(
    "TOOL002",
    Source(_PTX, "setmaxnreg").saying(
        "the kernel has been launched with a valid maximum number of per-thread registers"
    ),
    refused_by="compiler",
    level="warning",
)
def register_change_ignored(message: CompilerMessage, target: Target) -> Requirements:
    """Ptxas drops setmaxnreg unless it knows the registers of a thread at entry.

    They are known where the kernel states its threads and the blocks of an SM (`.maxntid`, `.minnctapersm`; in CUDA
    both arguments of `__launch_bounds__`) or `.maxnreg`, and calls nothing.
    """
    yield require(message.about != "TOOL002", "the change of registers is ignored", help="state both launch bounds")


@COMPILER.rule(
    "TOOL003",
    Source(_PTX, ".maxnreg").saying("maximum number of registers that can be allocated per thread"),
    refused_by="compiler",
)
def registers_insufficient(message: CompilerMessage, target: Target) -> Requirements:
    """All threads of a kernel are compiled with one number of registers, whatever setmaxnreg moves between them."""
    yield require(message.about != "TOOL003", "an instruction needs more registers", help="take fewer threads")


@COMPILER.rule(
    "TOOL004",
    Source(_PTX, ".target").saying("supported on the specified architecture only"),
    refused_by="compiler",
)
def built_for_another_gpu(message: CompilerMessage, target: Target) -> Requirements:
    """Instructions of copy engines and matrix units exist on some GPUs only, most under a suffix such as sm_90a.

    wgmma is sm_90a's alone, tcgen05 and tensor memory are those of sm_100 to sm_110, block-scaled mma of sm_120a: a
    GeForce has the copy engine without either matrix unit. Text for sm_90 or sm_120 without the suffix lacks them too,
    and CUTLASS then compiles an abort in their place.
    """
    yield require(
        message.about != "TOOL004", "it was compiled for another GPU", help="compile for the GPU that is there"
    )


@COMPILER.rule(
    "TOOL005",
    Source(_PTX, "cp.async.bulk.tensor, .tile::gather4").saying("four rows in the source tensor are combined"),
    refused_by="compiler",
)
def rows_gathered_illegally(message: CompilerMessage, target: Target) -> Requirements:
    """A gather or scatter of rows takes four at a time, of a matrix, by a map whose box has one row.

    Triton asks for 8 indices of 16 or 32 bits and for columns of 32 bytes at least. The first column begins at a
    multiple of 16 bytes as in every copy, and a scatter takes no negative row.
    """
    yield require(message.about != "TOOL005", "rows are gathered illegally", help="take a block of 1 row")


@COMPILER.rule(
    "TOOL006",
    Source(_PTX, "wgmma, matrix descriptor").saying("swizzling mode"),
    refused_by="compiler",
)
def layouts_disagree(message: CompilerMessage, target: Target) -> Requirements:
    """Two users of one buffer ask for two layouts of it, such as a swizzle of the copy and another of the product."""
    yield require(message.about != "TOOL006", "two layouts of one buffer", help="give both the same layout")


@COMPILER.rule(
    "TOOL007",
    Source(_PTX, "wgmma").saying("A warpgroup is a set of four contiguous warps"),
    refused_by="compiler",
)
def warps_of_no_group(message: CompilerMessage, target: Target) -> Requirements:
    """Wgmma and setmaxnreg are executed by whole warpgroups: 4 warps, the first a multiple of 4."""
    yield require(message.about != "TOOL007", "the warps form no groups of 4", help="take a multiple of 4 warps")


@COMPILER.rule(
    "TOOL008",
    Source("CUDA C++ Programming Guide 13.0", "thread block clusters").saying("a maximum of 8 thread blocks"),
    refused_by="compiler",
)
def cluster_of_no_shape(message: CompilerMessage, target: Target) -> Requirements:
    """A cluster has 8 CTAs at most, 16 where the kernel allows sizes that are not portable, and divides the grid."""
    yield require(message.about != "TOOL008", "no such cluster", help="take a smaller cluster that divides the grid")


@COMPILER.rule(
    "TOOL009",
    Source("Triton 3.6", "set_allocator").saying("Kernel requires a runtime memory allocation"),
    refused_by="compiler",
)
def no_memory_for_descriptors(message: CompilerMessage, target: Target) -> Requirements:
    """Tensor maps that a kernel makes itself lie in memory that the program gives it, 128 bytes for each and CTA.

    Maps made on the host are parameters of the launch and need none.
    """
    yield require(message.about != "TOOL009", "no memory for tensor maps", help="call triton.set_allocator")


@COMPILER.rule(
    "TOOL010",
    Source("CUTLASS 4.2", "cutlass.h, Status::kErrorInvalidProblem").saying(
        "Specified problem size is not supported by operator"
    ),
    refused_by="compiler",
)
def kernel_missing(message: CompilerMessage, target: Target) -> Requirements:
    """Libraries are compiled for some shapes, types and page sizes, and refuse the others whatever the hardware could.

    What the hardware asks too is said beside it: rows of a multiple of 16 bytes (TMA005), boxes of at most 256 rows
    (TMA003), columns of a product in steps of 8 (WGMMA008, TCGEN004), scales of 16 or 32 elements (TCGEN010).
    """
    yield require(message.about != "TOOL010", "the program has no such kernel", help="choose another kernel")


@COMPILER.rule(
    "TOOL011",
    Source("CUDA C++ Programming Guide 13.0", "compute capabilities").saying(
        "Maximum number of threads per block: 1024"
    ),
    refused_by="driver",
)
def launch_too_large(message: CompilerMessage, target: Target) -> Requirements:
    """A block has 1 to 1024 threads on every GPU, and a grid 1 to 65535 blocks along y and z, to 2^31 - 1 along x.

    The runtime calls whatever is outside cudaErrorInvalidConfiguration, 9, and does not say which number it is. Most
    often it is a launch of no blocks, for an input that is empty: the number of blocks, rounded up from its size, is 0
    then, and the program is to return before the launch.
    """
    yield require(message.about != "TOOL011", "the launch is larger than any GPU takes", help="take fewer threads")


@COMPILER.rule(
    "TOOL012",
    Source("CUDA C++ Programming Guide 13.0", "shared memory").saying(
        "Shared memory has 32 banks that are organized such that successive 32-bit words map to successive banks"
    ),
    refused_by="compiler",
    level="warning",
)
def banks_conflict(message: CompilerMessage, target: Target) -> Requirements:
    """Words of one bank are served one after the other: the result is right, and the access takes several turns.

    A column of rows that are a multiple of 128 bytes lies in one bank; plans count the turns of their own tiles.
    """
    yield require(message.about != "TOOL012", "threads meet in one bank", help="pad the rows, or swizzle the tile")


@COMPILER.rule(
    "TOOL013",
    Source(_PTX, "mul").saying("d = t<n-1..0>; // for .lo variant"),
    refused_by="hardware",
    level="warning",
)
def offsets_overflow(message: CompilerMessage, target: Target) -> Requirements:
    """Offsets that are counted in 32 bits hold 2147483647 at most; those behind wrap, and reach other memory or none.

    Kernels count so unless they ask for more: program ids, extents and strides of Triton are 32-bit integers, and so is
    `int` of CUDA. A tensor of 2^31 elements or more needs the first factor of its offsets in 64 bits.
    """
    yield require(message.about != "TOOL013", "offsets pass 32 bits", help="count them in 64 bits")


TOOL_RULES = rules_in(sys.modules[__name__])
# A text that meets each rule, for its page.
TOOL_TEXTS = {
    "TOOL001": "wgmma.mma_async instructions are serialized due to insufficient register resources",
    "TOOL002": "'setmaxnreg' ignored; unable to determine register count at entry",
    "TOOL003": "Register allocation failed with register count of '64'",
    "TOOL004": "Instruction 'wgmma.fence' not supported on .target 'sm_90'",
    "TOOL005": "descriptor gather must have at least 8 rows, but got [4]",
    "TOOL006": "Get different layout for B_s",
    "TOOL007": "WGMMA requires num_warps to be divisible by 4",
    "TOOL008": "CUDA_ERROR_INVALID_CLUSTER_SIZE",
    "TOOL009": "Kernel requires a runtime memory allocation",
    "TOOL011": "the block has 4224 threads, and the launch failed",
    "TOOL012": "As[0][0] and As[4][0] are in the same bank, which causes a bank conflict",
    "TOOL013": "bias_4d_view.stride(0) overflows",
    "TOOL010": "Paged KV cache block size must be divisible by 128",
}

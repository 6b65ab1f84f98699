"""Rules that no site of a plan meets: what compilers advise, what a program must be for its GPU, and what it forgot.

They are met in texts that compilers, profilers and users write (`legalsat.pasted.tables`).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from legalsat.rule import Requirements, Source, Unit, require, rules_in
from legalsat.targets import Target

COMPILER = Unit("compiler", lambda target: target)
_PTX, _GUIDE = "PTX ISA 9.1", "CUDA C++ Programming Guide 13.0"


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
    Source(_GUIDE, "thread block clusters").saying("a maximum of 8 thread blocks"),
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
    Source(_GUIDE, "compute capabilities").saying("Maximum number of threads per block: 1024"),
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
    Source(_GUIDE, "shared memory").saying(
        "Shared memory has 32 banks that are organized such that successive 32-bit words map to successive banks"
    ),
    refused_by="nobody",
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


@COMPILER.rule(
    "TOOL014",
    Source("LLVM", "what clang and opt print of a crash").saying("PLEASE submit a bug report"),
    refused_by="compiler",
)
def compiler_fails(message: CompilerMessage, target: Target) -> Requirements:
    """A compiler that crashes, stops in a pass of its own, or writes wrong code has a fault, whatever the program does.

    Signs are a signal or a stack of the compiler itself, an assertion in one of its files, and results that are right
    with less optimisation (`-O0`, `-Xptxas -O1`, fewer stages) or with another version of the same compiler. First
    exclude that the program relies on what nobody promises: a race too comes and goes with how code is compiled.
    """
    yield require(
        message.about != "TOOL014",
        "the compiler itself fails",
        help="compile with another version of it, and with less optimisation",
    )


@COMPILER.rule(
    "TOOL015",
    Source(_GUIDE, "device memory accesses").saying(
        "local memory accesses have the same high latency and low bandwidth as global memory accesses"
    ),
    refused_by="nobody",
    level="warning",
)
def registers_spilled(message: CompilerMessage, target: Target) -> Requirements:
    """Values that find no register lie in local memory, which is global memory: the result is right, and slower.

    `ptxas -v` counts the bytes that are stored and loaded for it. A thread has 255 registers at most, and fewer where a
    block has more than 256 threads or its launch bounds ask for more blocks of an SM; arrays that are indexed by what
    is known only at run time lie there too, whatever registers are left.
    """
    yield require(
        message.about != "TOOL015", "values are spilled to local memory", help="keep fewer values at once in a thread"
    )


@COMPILER.rule(
    "TOOL016",
    Source("CUDA Runtime API 13.0", "cudaMalloc").saying("The memory is not cleared"),
    refused_by="hardware",
)
def values_not_initialised(message: CompilerMessage, target: Target) -> Requirements:
    """Memory that nobody wrote holds what was there before: the rest of a tile behind the last row, padding, a counter.

    Zero times what lies there need not be zero, since it may be NaN, so that a padding is to be masked or written and
    not only multiplied away. An output into which a kernel adds is to be cleared first, shared memory and accumulators
    too. Often the first run is right, as fresh memory holds zeros, and a later one is not.
    """
    yield require(
        message.about != "TOOL016",
        "memory is read that nobody wrote",
        help="write or clear all that is read, tails and padding too",
    )


@COMPILER.rule(
    "TOOL017",
    Source(_GUIDE, "streams").saying(
        "may execute their commands out of order with respect to one another or concurrently"
    ),
    refused_by="hardware",
)
def streams_not_ordered(message: CompilerMessage, target: Target) -> Requirements:
    """Kernels and copies of one stream come one after the other; those of two streams, and the host, wait for nothing.

    An event that one stream records and the other waits for orders them. A stream that was made non-blocking does not
    wait for the default stream either, the host has to wait before it reads what a copy brings, and an allocator that
    knows nothing of a second stream gives memory away while that one still uses it (`record_stream` of PyTorch).
    """
    yield require(
        message.about != "TOOL017",
        "work of two streams, or of the host, is not ordered",
        help="let the second wait for an event of the first",
    )


@COMPILER.rule(
    "TOOL018",
    Source(_GUIDE, "built-in variables").saying("contains the warp size in threads"),
    refused_by="hardware",
)
def warp_size_assumed(message: CompilerMessage, target: Target) -> Requirements:
    """A warp has 32 lanes on NVIDIA's GPUs, a wavefront of AMD's 64 or 32, and code that counts on one fails on others.

    What depends on it: masks and votes of 32 bits, lane numbers, steps of a reduction by shuffles, arrays with an
    element for each warp, and the number of threads in a block.
    """
    yield require(
        message.about != "TOOL018", "code counts on another number of lanes", help="ask for warpSize of the device"
    )


@COMPILER.rule(
    "TOOL019",
    Source("CUDA Runtime API 13.0", "cudaDeviceSetLimit").saying(
        "cudaLimitStackSize controls the stack size in bytes of each GPU thread"
    ),
    refused_by="driver",
)
def stack_or_heap_exceeded(message: CompilerMessage, target: Target) -> Requirements:
    """A thread's stack and the heap of `malloc` in kernels have limits of their own, 1 KiB and 8 MiB unless told.

    Recursion, virtual functions and calls by pointer leave the compiler without a bound of the stack, and it says so;
    what does not fit ends as an illegal address or a launch failure. `malloc` and `new` of a kernel return null where
    the heap is full.
    """
    yield require(
        message.about != "TOOL019",
        "a stack or the heap of the device is too small",
        help="raise cudaLimitStackSize or cudaLimitMallocHeapSize before the first launch",
    )


@COMPILER.rule(
    "TOOL020",
    Source("Triton 3.6", "the launcher of kernels").saying("cannot be accessed from Triton (cpu tensor?)"),
    refused_by="driver",
)
def pointer_of_another_device(message: CompilerMessage, target: Target) -> Requirements:
    """A kernel runs on the current device, and its pointers are to be of memory that this device reaches.

    An array that stayed on the CPU is none, nor is one of another GPU than the current one: a process with several GPUs
    sets the device of the arrays before it launches.
    """
    yield require(
        message.about != "TOOL020",
        "an argument lies where the kernel's device does not reach",
        help="move it to the device, and make that device the current one",
    )


@COMPILER.rule(
    "TOOL021",
    Source(_GUIDE, "device memory accesses").saying(
        "it coalesces the memory accesses of the threads within the warp into one or more of these memory transactions"
    ),
    refused_by="nobody",
    level="warning",
)
def accesses_uncoalesced(message: CompilerMessage, target: Target) -> Requirements:
    """Global memory comes in sectors of 32 bytes: lanes that read far apart use a part of each, and the rest is wasted.

    The result is right, and the copy takes up to 8 times as long for words of 4 bytes. Neighbouring lanes are to read
    neighbouring words; what is transposed goes through shared memory.
    """
    yield require(
        message.about != "TOOL021",
        "lanes of a warp read words that lie apart",
        help="let neighbouring lanes read neighbouring words",
    )


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
    "TOOL014": "nvcc error : 'cicc' died due to signal 11 (Invalid memory reference)",
    "TOOL015": "ptxas info : 440 bytes stack frame, 436 bytes spill stores, 640 bytes spill loads",
    "TOOL016": "Uninitialized __global__ memory read of size 4 bytes",
    "TOOL017": "the copy on the second stream is not synchronized with the kernel on the first one",
    "TOOL018": "the kernel assumes a warp size of 32, and wavefronts have 64 lanes",
    "TOOL019": "Stack size for entry function 'trace' cannot be statically determined",
    "TOOL020": "Pointer argument (at 2) cannot be accessed from Triton (cpu tensor?)",
    "TOOL021": "This kernel has uncoalesced global accesses resulting in a total of 3072 excessive sectors",
}

"""What ptxas, LLVM and the loader say of a text's instructions and target, and of launches that cannot be.

Sources: ptxas and the runtime of CUDA 13.0, CUTLASS 4.2's guards of instructions, and public threads.
"""

from __future__ import annotations

from legalsat.pasted.grammar import Sentence

ARCHITECTURE = (
    "compile for the GPU that runs it, with the suffix that its matrix and copy instructions need (sm_90a, sm_100a, "
    "sm_120a), or choose a kernel for the GPU that is there"
)
TYPES = "take a pair of types and a shape of the instruction's table: both operands of one 16-bit type or 8-bit floats"

PTXAS = (
    Sentence(
        "ptxas",
        r"wgmma\.mma_async instructions are serialized due to (?:the )?(?P<reason>insufficient register "
        r"resources[^\n]{0,80}?)"
        r"(?= in (?:the )?function|\n|$)",
        "TOOL001",
        "wgmma runs one instruction at a time: {reason}",
        "leave the multiplying warps more registers: a narrower tile or another consumer warpgroup, setmaxnreg, "
        "__launch_bounds__ with the real number of threads, no -O0 or -G",
        "warning",
    ),
    Sentence(
        "ptxas",
        r"wgmma\.mma_async instructions are serialized due to (?:the )?(?P<reason>[^\n]{0,60}?(?:function boundary|"
        r"call)"
        r"[^\n]{0,60}?)(?= in (?:the )?function|\n|$)",
        "TOOL001",
        "wgmma runs one instruction at a time: {reason}",
        "inline every function between the first wgmma and its wait (__forceinline__), device printf and assert too",
        "warning",
    ),
    Sentence(
        "ptxas",
        r"wgmma\.mma_async instructions are serialized due to (?:the )?(?P<reason>non[ -]wgmma[^\n]{0,140}?)"
        r"(?= in (?:the )?function|\n|$)",
        "TOOL001",
        "wgmma runs one instruction at a time: {reason}",
        "touch no accumulator and no operand register between wgmma.fence and the wait: zero sums by scale-d of the "
        "first instruction, convert A before the fence, and read sums after wait_group",
        "warning",
    ),
    Sentence(
        "ptxas",
        r"wgmma\.mma_async instructions are serialized due to (?:the )?(?P<reason>(?!insufficient register|"
        r"non[ -]wgmma)"
        r"(?![^\n]{0,60}(?:function boundary|call))[^\n]{0,140}?)(?= in (?:the )?function|\n|$)",
        "TOOL001",
        "wgmma runs one instruction at a time: {reason}",
        "begin each group with wgmma.fence, end it with commit_group and wait_group, in the same branch of every warp",
        "warning",
    ),
    Sentence(
        "ptxas",
        r"warpgroup\.(?P<what>arrive|wait) is injected in around (?P<reason>line \d+)",
        "PIPE020",
        "the compiler puts a warpgroup {what} near {reason}: registers of wgmma are touched there without one",
        "execute wgmma.fence (warpgroup_arrive) after the last write of accumulators and of A in registers, right "
        "before the first wgmma that reads them, and wait_group before they are read",
        "warning",
    ),
    Sentence(
        "ptxas",
        r"'setmaxnreg' ignored (?P<reason>to maintain compatibility[^\n.]{0,80})",
        "TOOL002",
        "the change of registers is ignored {reason}: other units may call the kernel's functions",
        "compile the kernel in one unit, without relocatable device code (-rdc=true, separable compilation)",
        "warning",
    ),
    Sentence(
        "ptxas",
        r"'setmaxnreg' ignored(?! to maintain)(?:[;,] (?P<reason>[^\n.]{0,80}))?",
        "TOOL002",
        "the change of registers is ignored: {reason}",
        "state the threads and the blocks of an SM (__launch_bounds__(threads, 1), .minnctapersm 1), so that the "
        "registers at entry are known, and inline all calls",
        "warning",
    ),
    Sentence(
        "ptxas",
        r"Insufficient registers \((?P<given>\d+)\) to compile instruction(?:[^\n]{0,2000}?register target of "
        r"(?P<needed>\d+))?",
        "TOOL003",
        "an instruction needs {needed} registers of a thread, and {given} are left for it, as {threads} threads leave "
        "each",
        "take {fewer} threads in the block or a smaller tile, since all threads compile with the same number, or raise "
        "maxnreg",
    ),
    Sentence(
        "ptxas",
        r"Register allocation failed with register count of '(?P<given>\d+)'",
        "TOOL003",
        "the kernel does not fit the {given} registers that a thread has, as {threads} threads leave each",
        "take fewer threads (num_warps) or a smaller tile; the registers of an SM over the threads is what each may "
        "have, 255 at most",
    ),
    Sentence(
        "ptxas",
        r"uses too much shared data \((?P<needed>0x[0-9a-f]+) bytes, (?P<limit>0x[0-9a-f]+) max",
        "SMEM001",
        "the kernel declares {needed} bytes of static shared memory, more than {limit}",
        "declare it extern __shared__ and ask for it with cudaFuncSetAttribute, or take a smaller tile",
    ),
    Sentence(
        "ptxas",
        r"'(?P<what>[^'\n]{0,80})' (?:is )?not supported on \.?target '?(?P<target>sm_\w+)",
        "TOOL004",
        "{what} does not exist on the GPU that the text was compiled for ({target}){here}",
        ARCHITECTURE,
    ),
    Sentence(
        "ptxas",
        r"'(?P<what>[^'\n]{0,80})' requires \.target '?(?P<target>sm_\w+)",
        "TOOL004",
        "{what} exists from {target} on, and the text was compiled for an older GPU{here}{own}",
        "take a GPU of that architecture or a later one and compile for it, or a kernel without the instruction",
    ),
    Sentence(
        "LLVM",
        r"Cannot select: (?:intrinsic|[^\n]{0,80}Constant) ?[^\n]{0,60}?%?(?P<what>llvm\.nvvm\.[\w.]+)",
        "TOOL004",
        "{what} does not exist on the GPU that the text was compiled for{here}",
        ARCHITECTURE,
    ),
    Sentence(
        "CUTLASS",
        r"(?:Attempting|Trying) to use (?P<what>[^\n\"]{1,80}?) (?:without|PTX without) CUTE_ARCH_\w+",
        "TOOL004",
        "{what} was not compiled in, since the text was compiled for another GPU{here}",
        ARCHITECTURE,
    ),
    Sentence(
        "CUTLASS",
        r"Arch conditional MMA instruction used without targeting",
        "TOOL004",
        "the kernel's matrix instructions were not compiled in, since the text was compiled for another GPU",
        ARCHITECTURE,
    ),
    Sentence(
        "the runtime",
        r"no kernel image is available for execution|CUDA_ERROR_NO_BINARY_FOR_GPU|hipErrorNoBinaryForGpu"
        r"|invalid device function|cudaErrorNoKernelImageForDevice|CUDA_ERROR_INVALID_PTX|cudaErrorInvalidPtx"
        r"|device kernel image is invalid|SM version specified by \.target is higher",
        "TOOL004",
        "the program holds no code for this GPU and driver",
        ARCHITECTURE,
    ),
    Sentence(
        "the runtime",
        r"CUDA_ERROR_INVALID_CLUSTER_SIZE|cudaErrorInvalidClusterSize|cluster misconfiguration",
        "TOOL008",
        "the launch's cluster is larger than what fits the GPU at once, or does not divide the grid",
        "take a cluster of at most 8 CTAs that divides the grid, less shared memory for each CTA, and no cooperative "
        "launch beside clusters; more than 8 needs cudaFuncAttributeNonPortableClusterSizeAllowed",
    ),
    Sentence(
        "the runtime",
        r"too many resources requested for launch|CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
        r"|cudaErrorLaunchOutOfResources",
        "TOOL003",
        "the block's threads need more registers than the SM has",
        "take fewer threads, or compile with __launch_bounds__ of the real number of threads",
    ),
    Sentence(
        "the runtime",
        r"cudaFuncSetAttribute[^\n]{0,120}(?:error|fail|invalid)"
        r"|invalid argument[^\n]{0,120}\n(?:[^\n]{0,300}\n){0,2}[^\n]{0,40}cudaFuncSetAttribute\([^\n]{0,160}"
        r"MaxDynamicSharedMemorySize",
        "SMEM001",
        "the kernel was refused its shared memory: more than a block of this GPU has, or a kernel of another GPU",
        "compare what it asks for with the GPU's limit (99 KB on sm_120, 227 KB on sm_90 and sm_100), and build it "
        "for the GPU that is there",
    ),
    Sentence(
        "ptxas",
        r"Value '(?P<what>sm_\w+)' is not defined for option 'gpu-name'"
        r"|Unsupported gpu architecture '(?P<what_too>compute_\w+)'",
        "TOOL004",
        "the toolkit does not know {what}: it is older than that GPU, or has dropped it",
        "build for the GPU that is there, with a toolkit that lists it (nvcc --list-gpu-arch)",
    ),
    Sentence(
        "ptxas",
        r"PTX with \.target '(?P<what>sm_\w+)' cannot be compiled for architecture '(?P<target>sm_\w+)'",
        "TOOL004",
        "the text is for {what}, and ptxas is asked for {target}, which has not all of its instructions",
        "ask ptxas and the loader for the target that the text names, with its suffix (-arch={what})",
    ),
    Sentence(
        "compute-sanitizer",
        r"Invalid __(?P<what>\w+)__ (?P<kind>read|write|atomic) of size (?P<given>\d+)[\s\S]{0,600}?"
        r"(?:Address|Access to) (?P<address>0x[0-9a-f]+) is misaligned",
        "VEC002",
        "a {kind} of {given} bytes of {what} memory begins at byte {address}, which is no multiple of {given}",
        "begin the vector at a multiple of its size: an even start, rows of whole vectors, an aligned array, or "
        "narrower accesses",
    ),
    Sentence(
        "ptxas",
        r"Unsupported \.version (?P<needed>\d{1,2}\.\d)(?:; current version is '?(?P<known>\d{1,2}\.\d))?",
        "CUDA222",
        "the text is PTX {needed}, and the newest that this ptxas knows is {known}",
        "take a ptxas of the toolkit that wrote the text, or newer (TRITON_PTXAS_PATH, XLA's --xla_gpu_cuda_data_dir), "
        "or write the text with an older toolkit (a lower .version, as long as its instructions exist there)",
    ),
    Sentence(
        "ptxas",
        r"requires PTX ISA \.version (?P<needed>[\d.]+)",
        "TOOL004",
        "the text's instructions need PTX {needed}, and its first line or the ptxas that reads it is older",
        "take a ptxas of the toolkit that wrote the text, or newer (TRITON_PTXAS_PATH, XLA's --xla_gpu_cuda_data_dir), "
        "and a driver of at least that version",
    ),
    Sentence(
        "ptxas",
        r"'(?P<what>[^'\n]{1,80})' should be used on \.target '(?P<target>sm_\w+)'",
        "TOOL004",
        "{what} is compiled for a target other than {target}, where it may be slow on later GPUs",
        ARCHITECTURE,
        "warning",
    ),
    Sentence(
        "ptxas",
        r"(?:Unexpected instruction types|Illegal matrix shape|Arguments mismatch|(?:Illegal|Unknown|Unexpected) "
        r"modifier"
        r"|Incorrect (?:size|type))[^\n]{0,120}?'[^'\n]{0,60}wgmma(?P<what>[^'\n]{0,60})'",
        "WGMMA009",
        "wgmma{what} has no such types, shape or operands",
        TYPES,
    ),
    Sentence(
        "ptxas",
        r"(?:Unexpected instruction types|Illegal matrix shape|Arguments mismatch|(?:Illegal|Unknown|Unexpected) "
        r"modifier"
        r"|Incorrect (?:size|type))[^\n]{0,120}?'[^'\n]{0,60}tcgen05(?P<what>[^'\n]{0,60})'",
        "TCGEN001",
        "tcgen05{what} has no such types, shape or operands",
        "take a kind, shape and operands of the instruction's tables",
    ),
    Sentence(
        "ptxas",
        r"(?:Arguments mismatch|Unexpected instruction types|(?:Illegal|Unknown|Unexpected) modifier|Incorrect "
        r"(?:size|type)) (?:specified )?for (?:instruction )?'"
        r"(?P<what>(?:cp\.|st\.(?:bulk|async)|mbarrier|tensormap|setmaxnreg|fence|"
        r"multimem|barrier|griddepcontrol|elect|[ls][td]matrix|mma|redux|cvt|prefetch|clusterlaunch)[^'\n]{0,60})'",
        "TOOL004",
        "ptxas knows {what} with other operands or modifiers, as another version or target has it{here}",
        "compile with the toolkit and for the target that the text was written for; operands' sizes and modifiers "
        "change between PTX versions",
    ),
    Sentence(
        "the runtime",
        r"invalid configuration argument|(?:cuda|hip)ErrorInvalidConfiguration|CUDA (?:runtime )?error:? ?\(?9\b(?!\.)",
        "TOOL011",
        "the launch's grid, block or cluster is outside the limits",
        "check for an empty grid, the most frequent cause: return before the launch where there is nothing to do; for "
        "more than 65535 blocks along y or z, more than 1024 threads, and a cluster that does "
        "not divide the grid",
    ),
    Sentence(
        "the loader",
        r"(?:undefined symbol|Failed to (?:get|load|find|retrieve)|not found|dlsym)[^\n]{0,80}cuTensorMap(?P<what>\w+)"
        r"|cuTensorMap(?P<what_too>\w+)[^\n]{0,40}(?:not found|undefined|entry point)",
        "TOOL004",
        "the driver has no cuTensorMap{what}: it is older than CUDA 12.0",
        "install a driver of CUDA 12.0 or newer, and ask for the entry point by cudaGetDriverEntryPointByVersion",
    ),
)

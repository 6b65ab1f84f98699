"""What compilers, profilers and users say of faults that no plan has: crashes of a compiler, spills, stacks, streams.

Sources: nvcc and ptxas of CUDA 13.0, LLVM, Triton 3.6, compute-sanitizer, cuda-gdb, Nsight Compute, and public threads.
"""

from __future__ import annotations

from legalsat.pasted.grammar import Cause, Sentence

_FAILING = (
    "compile with another version of the compiler (a newer one first), with less optimisation or without the option "
    "that its pass is for; make the kernel smaller until it compiles, and report that to whoever makes the compiler"
)
_SPILLING = (
    "keep fewer values at once in a thread (a smaller tile, less unrolling), state the threads of a block in "
    "__launch_bounds__ without a least number of blocks, or give arrays indices that are known at compile time"
)
_STACK = (
    "raise the limit before the first launch, cudaDeviceSetLimit(cudaLimitStackSize, bytes), by what the deepest call "
    "takes; or write recursion as a loop, and put arrays of a thread elsewhere"
)
_COALESCED = (
    "let neighbouring lanes read neighbouring words: the index of a thread goes to the contiguous axis; what has to be "
    "transposed goes through shared memory"
)
_COMPILERS = "cicc|ptxas|nvlink|nvcc|tileiras|hipcc|nvrtc|libnvvm"
_HOW = "(?:itself|sometimes|always|often|also|now|still|just|keeps|is|was|has)"
# What a compiler made may crash too, and a crash may be said not to be.
_NO_PRODUCT = r"(?<!by )(?<!with )(?<!using )(?<!via )(?<!from )(?<!through )"
_DENIED = r"(?<!no )(?<!not )(?<!never )(?<!without )(?<!without a )"
FAULT_CHECKS = (
    Sentence(
        "the compiler",
        r"[\'\"`]?(?P<what>cicc|ptxas|nvlink|cudafe\+\+|clang\S{0,20}|opt|llc|nvcc|fatbinary|tileiras|hipcc)[\'\"`]?"
        r"(?: command)? (?:died|failed|was killed|terminated|crashed)(?: \w+){0,3} (?:due to|with|by|from) (?:a )?"
        r"signal\b",
        "TOOL014",
        "{what} crashed, so the fault is the compiler's",
        _FAILING,
    ),
    Sentence(
        "the compiler",
        r"PLEASE (?:submit a|ATTACH THE FOLLOWING FILES TO THE) (?:bug report|BUG REPORT)|Stack dump: ?\n? ?0\.|"
        r"[Ii]nternal compiler error: Segmentation fault|ptxas[`']? failed with error code:? (?:-\d{1,2}\b|139\b)|"
        r"ptxas[^\n]{0,40}(?:[Ss]egmentation fault|Internal error|internal error)|Unexpected internal compiler error|"
        rf"{_NO_PRODUCT}\b(?:{_COMPILERS})[\'\"`]? (?:{_HOW} ){{0,2}}crash(?:e?s|ed|ing)?\b(?! (?:\w+ ){{0,3}}signal)|"
        rf"{_NO_PRODUCT}\b(?:{_COMPILERS})[\'\"`]? (?:{_HOW} ){{0,2}}segfault(?:s|ed|ing)?\b|"
        rf"{_DENIED}\b[Cc]rash(?:e?s|ed)? (?:in|inside|inside of|of) [\'\"`]?(?:{_COMPILERS})\b|"
        rf"{_DENIED}\b[Ss]egfault(?:s|ed)? (?:in|inside|inside of|of) [\'\"`]?(?:{_COMPILERS})\b",
        "TOOL014",
        "the compiler crashed in a pass of its own, so the fault is its own",
        _FAILING,
    ),
    Sentence(
        "the compiler",
        r"operand #\d+ does not dominate this use|Instruction does not dominate all uses|op does not have expected "
        r"attribute|Broken (?:module|function) found, compilation aborted",
        "TOOL014",
        "a pass of the compiler wrote code that its own verifier refuses, so the fault is its own",
        _FAILING,
    ),
    Sentence(
        "ptxas",
        r"(?P<stores>[1-9]\d{0,8}) bytes spill stores, (?P<loads>\d{1,9}) bytes spill loads",
        "TOOL015",
        "a thread stores {stores} and loads {loads} bytes of local memory for values that find no register",
        _SPILLING,
        "warning",
    ),
    Sentence(
        "Triton",
        r"\bn_spills\W{1,4}(?P<spills>[1-9]\d{0,5})\b",
        "TOOL015",
        "a thread of the kernel spills {spills} values to local memory",
        _SPILLING,
        "warning",
    ),
    Sentence(
        "compute-sanitizer",
        r"Uninitialized __(?P<space>global|shared|local)__ memory read of size (?P<size>\d{1,3}) bytes",
        "TOOL016",
        "{size} bytes of {space} memory are read that nobody wrote",
        "write or clear all that is read before: tails of the last tile, padding, outputs that are added to",
    ),
    Sentence(
        "ptxas",
        r"Stack size for entry function '(?P<kernel>[^'\n]{1,200})' cannot be statically determined",
        "TOOL019",
        "the compiler cannot bound the stack of {kernel}, which gets what the limit says, 1024 bytes unless told",
        _STACK,
        "warning",
    ),
    Sentence(
        "the debugger",
        r"(?:Warp Hardware|Lane User|[Hh]ardware|[Dd]evice|GPU) [Ss]tack (?:[Oo]verflow|error)|"
        r"CUDBG_EXCEPTION_\w*STACK_OVERFLOW|CUDA_ERROR_HARDWARE_STACK_ERROR|cudaErrorHardwareStackError",
        "TOOL019",
        "the stack of a thread is deeper than the limit of the device allows",
        _STACK,
    ),
    Sentence(
        "Triton",
        r"Pointer argument \(at (?P<at>\d{1,3})\) cannot be accessed from Triton \(cpu tensor\?\)",
        "TOOL020",
        "argument {at} of the kernel, counted from 0, lies where the current device does not reach",
        "move it to the GPU (.cuda()); if it is there, launch with its device current (torch.cuda.device(x.device))",
    ),
    Sentence(
        "Nsight Compute",
        r"uncoalesced (?:global|shared) accesses resulting in a total of (?P<excess>\d{1,12}) excessive sectors",
        "TOOL021",
        "lanes of a warp read words that lie apart: {excess} sectors of 32 bytes are moved that nobody uses",
        _COALESCED,
        "warning",
    ),
    Sentence(
        "Nsight Compute",
        r"[Oo]n average, only (?P<used>\d{1,2}(?:\.\d)?) of the 32 bytes transmitted per sector",
        "TOOL021",
        "of each sector of 32 bytes that is moved, {used} bytes are used",
        _COALESCED,
        "warning",
    ),
)
# Lines of any program that name one of them.
FAULT_CAUSES = (
    Cause(
        "CUDA720",
        r"\bgrid(?:[- ]?wide)?[- _]?(?:sync\w*|barrier)|\bthis_grid\b|\bgrid\.sync\b",
        r"time[ds]?[- ]?out",
        "blocks wait at the grid's barrier for others: all of them have to be resident at once, beside whatever else "
        "runs on the GPU",
        "launch no more blocks than cudaOccupancyMaxActiveBlocksPerMultiprocessor gives times the SMs that nothing "
        "else occupies (another stream, another process), by a cooperative launch, which refuses what does not fit",
        unless=r"nccl|nvshmem|rank|peer|remote",
    ),
    Cause(
        "TOOL014",
        rf"\b(?:{_COMPILERS})\b",
        rf"{_NO_PRODUCT}\b(?:{_COMPILERS})\b[^.;]{{0,40}}\b(?:sig(?:segv|abrt|ill|bus)\b|"
        r"exit(?:s|ed)? (?:with )?(?:code |status )?13[469]\b)",
        "the compiler ended by a signal, so the fault is its own",
        _FAILING,
    ),
    Cause(
        "TOOL014",
        r"\b(?:nvcc|ptxas|cicc|nvrtc|cuda toolkit|triton|tilelang|llvm|hipcc|module|compil\w+)\b",
        r"compilation order|order of compil\w+|"
        r"(?:fail|error|wrong|crash|hang|break|illegal)\w* .{0,60}\bwhen (?:built|compiled) with (?:the )?"
        r"(?:cuda toolkit|nvcc|ptxas|triton|llvm|tilelang)\b[\w .]{0,12}\d|"
        r"\bwhen (?:built|compiled|building|compiling) with (?:the )?(?:cuda toolkit|nvcc|ptxas|triton|llvm|tilelang)"
        r"\b[\w .]{0,12}\d.{0,60}(?:fail|error|wrong|crash|hang|break|illegal)",
        "whether the kernel fails depends on the compiler's version or on what was compiled before, so the fault is "
        "the compiler's",
        _FAILING,
        unless=r"driver version|requires? |at least",
    ),
    Cause(
        "TOOL018",
        r"warp[ _]?size|wave(?:front)?[ _]?(?:size|32|64)|wavefronts?\b|warps? of (?:32|64)",
        r"assum|hard-?cod|must be (?:32|64)|expects? (?:32|64)|[!=]= ?(?:32|64)|is not (?:32|64)|instead of (?:32|64)",
        "code counts on another number of lanes in a warp than the GPU has",
        "take warpSize of the device, masks and votes of 64 bits where there are 64 lanes, and count the warps of a "
        "block by it",
        unless=r"align|byte|divisib|multiple",
    ),
    Cause(
        "TOOL017",
        r"\bstreams?\b",
        r"(?:not|never|isn't|without|missing|no) (?:\w+ ){0,2}(?:synchroni[sz]\w*|ordered|waited|awaited)|"
        r"record_stream|non-?blocking stream",
        "work of one stream is not ordered before that of another, or of the host",
        "record an event in the first stream and let the second wait for it (cudaStreamWaitEvent, wait_stream), or put "
        "both in one stream; synchronise before the host reads",
        unless=r"nccl|http|token|video|audio|tcp|socket|response|log",
    ),
    Cause(
        "TOOL020",
        r"(?:other than|isn't|is not|except|besides|only (?:\w+ ){0,4}(?:on|with|for)|"
        r"(?:doesn't|does not|never|not) (?:\w+ ){0,2}(?:on|with|for)) (?:\w+ ){0,2}[`'\"]?(?:cuda|gpu|device)[: ]?0\b",
        r"error|fail|fault|crash|illegal|wrong|only|otherwise|appear|happen",
        "a kernel fails on any GPU but the first: it is launched on one device with the memory of another",
        "make the device of the tensors current around the launch (torch.cuda.device(x.device), cudaSetDevice), or "
        "show the program that GPU alone (CUDA_VISIBLE_DEVICES)",
        unless=r"nccl|rank",
    ),
)

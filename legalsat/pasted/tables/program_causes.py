"""What libraries of kernels refuse because no kernel of theirs does it, whatever the hardware could.

Rows like those of `legalsat.pasted.tables.cause_table`. In their messages `{asked}` is what the line asks and was
given, and `{hardware}` what of it the target's hardware asks too, with the rules that say so.
"""

from __future__ import annotations

import re

from legalsat.pasted.grammar import Cause
from legalsat.targets import Target

_ASKS = (
    r"only|support|must|should|expect|multiple|divisib|% ?\d|at most|<=|>=|up to|larger|greater|exceed|invalid|"
    r"not in\b|unknown|requires? |cannot|can't|no (?:kernel|instance)|equal|==|limit|dispatch|too |got\b|one of|"
    r"less than"
)
_GRANULE = r"(?:divisib\w* by|multiples? of|%)\W{0,3}(?:4|8|16)\b"  # 16 bytes of some type: the hardware's own rule
_MACHINE = r"sm_?\d\d|hopper|blackwell|ampere|\bada\b|[abh][12]00\b|compute capab|device capab|cuda arch"
_MEMORY = r"shared[ _]mem|\bsmem\b|tmem|tensor memory|stride|\bbytes?\b|aligned|alignment"
_LIBRARY = (
    r"attention|attn|flash|fmha|\bmla\b|\bmoe\b|gemm|matmul|scaled_mm|grouped_mm|cutlass|cublas\w*|cudnn|marlin"
    r"|machete|"
    r"trtllm|tensorrt|flashinfer|triton|cute|deep_?ep|xformers|bitsandbytes|gptq|awq|exllama|kernel|backend|sageattn"
)
_OTHERS = "choose another kernel or backend of the library, one that lists the value, or pad it to one that is listed"


def _no_rule(target: Target, line: str) -> str:
    return "the hardware has no such rule"


def _no_rule_known(target: Target, line: str) -> str:
    return "the hardware has no such rule as far as is known"


def _of_heads(target: Target, line: str) -> str:
    if target.wgmma is not None:
        product = "a depth in steps of 32 bytes (WGMMA009) and columns in steps of 8, 256 at once (WGMMA008)"
    elif target.tcgen05 is not None:
        product = "columns in steps of 8, 256 at once (TCGEN004)"
    else:
        product = ""
    rows = "rows of a multiple of 16 bytes (TMA005)" if target.tma is not None else ""
    own = ", ".join(filter(None, (rows, product)))
    return f"the hardware itself asks for {own}, no more" if own else _no_rule(target, line)


def _of_pages(target: Target, line: str) -> str:
    return "the hardware has none but boxes of at most 256 rows (TMA003)" if target.tma else _no_rule(target, line)


def _of_extents(target: Target, line: str) -> str:
    if target.tma is None or re.search(
        r"heads|experts|warps|tokens|parallel|layers|ranks|image|batch|sequence|"
        r"_len\b",
        line,
        re.IGNORECASE,
    ):
        return _no_rule(target, line)
    return "the hardware itself asks for rows of a multiple of 16 bytes alone (TMA005)"


def _of_tiles(target: Target, line: str) -> str:
    return "the copy engine clips boxes at the tensor's end" if target.tma is not None else _no_rule(target, line)


def _of_scales(target: Target, line: str) -> str:
    if target.tcgen05 is None:
        return "the hardware has no such rule where threads apply the scales"
    return "tcgen05 itself has scales of 16 or 32 elements alone (TCGEN010), threads apply others"


# Names what keeps the instructions out, which a refusal for want of an architecture does not.
MACROS = Cause(
    "TOOL004",
    r"(?:cutlass|cute)_arch_\w+_enabled",
    r"not defined|undefined|#if|missing|unset",
    "the macro is defined in device code of its architecture alone: not in host code, nor where the text was "
    "compiled without the suffix of that architecture",
    "compile with the suffix (sm_90a, sm_100a, sm_120a), and ask host code for the macro that ends in _SUPPORTED",
)
LIBRARY_FAILED = "the library could not run its kernel"
PROGRAM_CAUSES = (
    MACROS,
    Cause(
        "TOOL004",
        r"\bsm_?\d\d|\barch",
        r"\barch\w* to be|expects? \w*arch|(?:reject|refus)\w* (?:\w+\.)?sm_?\d|"
        r"must be (?:compiled|built) (?:with|for)",
        "the kernel's instructions are those of another GPU than the one it was asked to run on or compiled for",
        "compile for the GPU that runs it, with the suffix that its matrix and copy instructions need (sm_90a, "
        "sm_100a, sm_120a), or choose a kernel for the GPU that is there",
    ),
    Cause(
        "TOOL010",
        r"cublas",
        r"status_invalid_value|\b(?:status|code|error)\W{1,4}7\b",
        "cuBLAS was given a number that it does not take: an extent of 0, a leading dimension below the extent that it "
        "spans, or types and scales that do not go together",
        "print m, n, k and the leading dimensions of the call, skip empty products, and check that they fit 32 bits",
    ),
    Cause(
        "TOOL004",
        r"cublas|cudnn",
        r"status_arch_mismatch|\b(?:status|code|error)\W{1,4}8\b",
        "the library has no code for this GPU, or the GPU lacks a type or a unit that the call asks for",
        "take a version of the library that knows the GPU, or types that the GPU multiplies",
    ),
    Cause(
        "TOOL010",
        r"cublas|cudnn",
        r"status_(?:alloc_failed|not_initialized|internal_error\b|mapping_error|execution_failed)|"
        r"\b(?:status|code|error)\W{1,4}(?:1|3|11|13|14)\b",
        f"{LIBRARY_FAILED}: memory for its handle or its workspace ran out, or an earlier kernel "
        "left an "
        "error, or a pointer, an extent or an index is not what the call says",
        "free memory, find an earlier failure with CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer, and check that "
        "pointers and "
        "leading dimensions of the call are those of its arrays",
    ),
    Cause(
        "TOOL010",
        r"cublas|cudnn",
        r"status_not_supported|\b(?:status|code|error)\W{1,4}15\b|internal_error_comp|no execution plans?|"
        r"(?:unable to|n't|not) find .{0,20}(?:gemm|algo|plan)",
        "the library has no kernel for the shapes, types, majors and scales that it was given: as a rule an extent, "
        "a leading "
        "dimension or a pointer is no multiple of 16 bytes, 16 elements of 8 bits or 8 of 16, or 8-bit operands are "
        "not "
        "K-major{asked}",
        "give pointers and leading dimensions of a multiple of 16 bytes, for 8-bit types K-major operands and the "
        "scales that the library lists for this GPU; or choose another backend",
    ),
    Cause(
        "TOOL004",
        r"capabilit|\bsm_?\d\d|\barch|\bgpus?\b|\bdevice\b",
        r"no compiled|not (?:implemented or )?(?:compiled|built)\b|unsupported arch|"
        r"requir\w+ (?:\w+ ){0,3}(?:compute )?capab|required sm|"
        r"(?:can't|cannot|failed to|could not|unable to) (?:legaliz|lower|select)\w*",
        "nothing was compiled for the GPU, or a compiler does not know its instruction there",
        "compile for the GPU that runs it, with the suffix that its matrix and copy instructions need (sm_90a, "
        "sm_100a, sm_120a), or choose a kernel for the GPU that is there",
    ),
    Cause(
        "TOOL010",
        r"head[ _-]?(?:dim|size)|\bhdim|\bheaddim|\bd_(?:qk|v|head)\b|\bdim_(?:qk|v)\b|\bdim_per_head",
        _ASKS,
        "the program has no kernel for this head dimension{asked}; {hardware}",
        "pad the head dimension with zeros to one that the program has, or choose a backend that has it",
        unless=rf"{_GRANULE}|{_MEMORY}|require.{{0,40}}(?:{_MACHINE})|num_heads|number of heads|warning:",
        hardware=_of_heads,
    ),
    Cause(
        "TOOL010",
        r"page[ _-]?(?:block[ _-]?)?size|tokens?_?per_?(?:page|block)|\bpages? of \d|"
        r"(?:paged|kv[ _-]?cache|cache|page)\w*.{0,30}block[ _-]?size|block[ _-]?size.{0,30}(?:page|kv|cache)|"
        r"unsupported block[ _-]?size",
        _ASKS,
        "the program has no kernel for pages of this size{asked}; {hardware}",
        "set the page or block size of the cache to one that the program has, or choose another attention backend",
        unless=_MEMORY,
        hardware=_of_pages,
    ),
    Cause(
        "TOOL010",
        r"(?:flash\w*infer|prefill|decode|attention|attn|kv_?cache|\bgqa|\bmha|query heads|"
        r"kv[ _]heads).*(?:group[ _-]?size|"
        r"\bgqa\w*)|(?:group[ _-]?size|\bgqa\w*).*(?:attention|attn|prefill|decode|\bgqa\b|query heads|kv[ _]heads)",
        _ASKS,
        "the program has no attention kernel for so many heads of queries to each head of keys and values{asked}; the "
        "hardware has no such rule",
        "choose another attention backend, build the kernel for this group, or repeat the heads of keys and values",
        unless=r"quanti|scale|marlin|gptq|awq",
    ),
    Cause(
        "TOOL010",
        r"group[ _-]?size|groupsize|quant\w*[ _]block|weight_block|block_?shape|recipe|scale granular",
        rf"(?:{_ASKS}|not)",
        "the program has no kernel for scales of so many elements{asked}; {hardware}",
        "quantize with a group that the program's kernels have, such as 128 or 128 x 128, or choose another backend",
        unless=r"byte|tma|tensor ?_?map|descriptor|stride|swizzl|last dim|columns|inner|cluster|ulimit|\bmxfp|nvfp|"
        r"(?:per_partition|size_k|in_features|input size).{0,40}divisib",
        hardware=_of_scales,
    ),
    Cause(
        "TOOL010",
        _LIBRARY + r"|dispatch|config|tactic|engine|algo|plan|instance|recipe|operator",
        r"failed to dispatch|(?:\bno|not found(?: any)?|not find|n't find|missing|without) (?:[\w./-]+ ){0,6}?"
        r"(?:kernels?|tactics?|engines?|instances?|heuristics?|algorithms?|execution plans?|implementations?|"
        r"instantiations?|operators?|configs?|configurations?|backends?)\b"
        r"(?! image)(?! (?:launch|time|error|fail|was running|file))|"
        r"(?:kernel|tactic|engine|config\w*|combination|backend|instance|operator|plan)s? (?:is |are |was |were )?"
        r"(?:not|never) (?:found|set|valid|implemented|supported|available|instantiated|compiled)|"
        r"invalid configuration ?:|"
        r"(?:not|un)[ -]?(?:instantiated|supported) (?:\w+ )?(?:config|kernel|tile|combination|problem)|"
        r"(?:could not|couldn't|unable to|cannot|failed to) (?:find|get|select|initiali[sz]e|run) .{0,30}"
        r"(?:kernel|config|tactic|engine|algo|heuristic|plan|gemm)|error occurred when running gemm|"
        r"kernel compilation fail",
        "the program has no kernel for what it was given",
        "compare shapes, types and options with what the program's kernels are listed for, and choose another kernel "
        "or backend, or pad to what is listed; of cuBLAS check pointers, leading dimensions and types for 16 bytes",
        unless=rf"{_MACHINE}|no such file|shared lib|attribute|kernel image|import|no module|linux|version|"
        r"triton configs",
    ),
    Cause(
        "TOOL010",
        r"numel\b|number of elements",
        r"exceed|limit|maximum|past\b|beyond",
        "a tile has more elements than the compiler takes, 1048576 of Triton's, of which the hardware has no rule",
        "take smaller blocks",
        unless=r"2 ?(?:\^|\*\*) ?3[12]|2147483647|4294967296|int_?32|32-?bit",
    ),
)

# An extent of a problem or of a GPU's part of it.
EXTENTS = Cause(
    "TOOL010",
    r"features|\w*size|dim|partition|\b[mnk]\b|hidden|intermediate|channels|len(?:gth)?\b|shape|weight|tokens|columns|"
    r"rows|heads|experts|vocab|rank",
    r"(?:not|n't|must|should|has to|have to|needs? to|expect\w*|requires?).{0,30}(?:divisible by|a multiple of|"
    r"multiples of)(?! ?(?:4|8|16)\b)",
    "extents are no multiple of what the program's kernels take{asked}; {hardware}",
    "pad the extents with zeros to the multiple, split the layer over fewer GPUs (tensor parallel size) if the "
    "extent is "
    "the part of one, or choose another kernel",
    unless=rf"{_MEMORY}|swizzl|batch[ _]size|page|world|\bgrid|cluster",
    hardware=_of_extents,
)
# What else a line asks of a quantity that it names.
ASKED = Cause(
    "TOOL010",
    "",
    "",
    "the program's own condition fails{asked}; {hardware}",
    "give what it asks for, or choose another kernel or backend",
    hardware=_no_rule_known,
)
# Tried after all others: what a library says that it does not do.
LAST_CAUSES = (
    Cause(
        "SMEM001",
        r"occupancy|blocks[_ ]?per[_ ]?(?:sm|multiprocessor)|active blocks",
        r"\b(?:is|==|=|of|returns?|was|value) ?(?:the value )?(?:is )?(?:0|zero)\b|(?:\bno|zero) (?:active )?blocks",
        "no block of the kernel fits an SM: it has more shared memory, registers or threads than there are",
        "take a smaller tile, fewer stages or fewer threads",
        unless=r"> ?0\b",
    ),
    EXTENTS,
    Cause(
        "TOOL010",
        r"tiling|\btiles?\b|tile[ _]?size|(?:block|tile)_?(?:size_?)?[mnk]\b",
        r"% ?tile_?[mnk]\b|not (?:evenly )?divi[sd]|(?:must|should) (?:evenly )?divide|(?:must|should) be divisible|"
        r"not a multiple|evenly divi[sd]",
        "the extents are no multiple of the program's tile{asked}; {hardware}",
        "pad the extents to whole tiles, or take a tile that divides them",
        unless=rf"{_MEMORY}|swizzl|atom|\bmma\b|thread|warp",
        hardware=_of_tiles,
    ),
    Cause(
        "TOOL010",
        r"\bn?dim(?:s|\(\))?\b|\brank\b|dimensions",
        r"== ?\d|!= ?\d|\b\d-?d(?:imensional)?\b (?:tensor|input|matri)|must be \d-?d|"
        r"(?:expect|should be|must be)\w* \d",
        "the program takes tensors of another number of dimensions{asked}; {hardware}",
        "reshape the tensor to the number of dimensions that the program takes",
        unless=rf"align|byte|stride|%|{_MACHINE}|head",
        hardware=_no_rule,
    ),
    Cause(
        "TOOL010",
        _LIBRARY + r"|\bdtypes?\b|data[ _]?type|\bfp(?:4|8|16|32)\b|\bbf16\b|bfloat16|float(?:8|16|32)",
        r"only (?:\w+ ){0,3}(?:supports?|supported|support|implemented|available)|supports? only|"
        r"(?:does(?: not|n't)|do not|don't|did not|can't|cannot) (?:yet )?(?:support|handle|implement)|"
        r"(?:is|are|was|were)(?: not|n't) (?:yet |currently )?(?:supported|implemented)|"
        r"not (?:yet )?(?:supported|implemented)|reject\w* (?:\w+ ){0,4}(?:d?types?|mismatch)|"
        r"unsupported|must be (?:one of|in)\b|must be (?:\w+ )?(?:bf16|fp16|fp8|bfloat16|float\w*|torch\.\w+|half)|"
        r"expected? .{0,40}(?:dtype|type|bfloat16|float16|float8|torch\.\w+)",
        "the program has no kernel for what it was given{asked}",
        _OTHERS,
        unless=rf"{_MACHINE}|attributeerror|no module|import|shared[ _]mem|\bsmem\b|tmem|stride",
    ),
    Cause(
        "TOOL014",
        r"\b(?:nvcc|ptxas|cicc|mlir|llvm|triton|tilelang|mosaic|pallas|cute|dsl|kernels?|autotun\w+|jit)\b|"
        r"\b(?:gemm|attention|wgmma|tma)\b",
        r"\b(?:compiler|ptxas|nvcc|cicc)s? (?:\w+ )?(?:hangs?|hung|freezes|spins|never (?:ends?|returns?|finish\w*)|"
        r"(?:does not|doesn't) (?:end|return|finish|terminate))|"
        r"\bcompil(?:ation|ing)\b (?:\w+ ){0,4}(?:hangs?|hung|never (?:ends?|returns?|finish\w*)|takes forever|"
        r"(?:does not|doesn't) (?:end|finish|terminate))|"
        r"\b(?:hangs?|hung|stuck) (?:\w+ )?(?:while|when|during|in|at) compil(?:ing|ation)\b|"
        r"\btakes forever to compile\b",
        "the compiler never ends, which is a fault of its own whatever the program does; no kernel ran",
        "compile a smaller tile, fewer stages or less unrolling to find what it does not end on, or take another "
        "version of it",
    ),
    Cause(
        "TOOL006",
        r"layout inference|infer(?:ring)? (?:the |a )?layouts?",
        r"unsatisfiable|fail\w*|no solution|cannot|can't|could not|couldn't|conflict\w*|contradict\w*",
        "no layout suits all users of a buffer, or all that is annotated of them, as far as the compiler finds",
        "annotate one layout, tiling and swizzle for the buffer that its copies and products share, or leave the "
        "annotation out",
    ),
    Cause(
        "PIPE007",
        r"\bkernels?\b|\bexamples?\b|\bgemm|attention|warp[- ]?speciali|pipelined|\bloop\b|hopper|blackwell|"
        r"[abh][12]00",
        r"\bhangs?\b|\bhung\b|dead-?locks?\b",
        "the kernel never ends: as a rule a thread waits at a barrier for a phase that never completes, or that it "
        "missed",
        "count arrivals and the bytes of every copy for each phase, and check the parity of every wait, with "
        "`legalsat check kernel.ptx`",
        unless=r"nccl|watchdog|heartbeat|http|rpc|model|weights|download|compil|build|install|server|start-?up|init|"
        r"import|linux|driver|boot|lock file|dataloader|rank|train|epoch|inference|request|ethernet|\btx (?:unit"
        r"|queue)|"
        r"\bkernel: ?\[|\bnic\b",
    ),
)

# Taken where nothing else in a text says more: a check of the program's own that failed, as far as anybody knows, or
# a compiler that gave up.
_OWN_CHECK = Cause(
    "TOOL010",
    r"\bdotcu\b|assert|check failed|(?:is|are) not (?:yet |currently )?(?:supported|implemented)|fail(?:ed|s) with\b|"
    r"(?:value|runtime|internal|notimplemented|compilation|lowering|op|dsl\w*)_?(?:error|"
    r"exception)|torch_check|what\(\)|\berror:|\bfatal\b",
    r"assert|check failed|\bmust\b|should|\bonly\b|support|expect|requires?\b|divisib|multiple of|[<>=!]=|not in\b|"
    r"invalid|unknown|mismatch|exceed|too (?:large|small|many|few)|cannot|can't|"
    r"not (?:found|implemented|valid)|incompatible|\bis false\b",
    "a check of the program's own fails{said}, which is no rule of the hardware as far as is known{asked}",
    "read the condition beside the numbers that were given, and change what it names",
    unless=r"import|no module|attribute|nonetype|no such file|\bpath\b|argument\(?s?\)?:|keyword|positional|json|"
    r"tokenizer|\btoken\b|\bpip\b|distribution|unpack|\bloss\b|not close|mismatched elements|diverg|subprocess|"
    r"http|connect|download|permission|password|(?:same|all) devices?|not compiled with cuda|driver init|nccl|"
    r"sanitizer|\bsegv\b|segfault|segmentation fault|result == cuda_success|cuda_?error|status ==|== cudasuccess|"
    r"out of memory|syntax|undefined ref",
)
_COMPILER = Cause(
    "TOOL014",
    r"\bunreachable executed\b|(?:: |layout |compiler )ice\b|internal (?:compiler )?error|internalerror|"
    r"pipeline failed|passmanager|llvm error|\b(?:pass|mlir)\b|\.cpp\b|(?:compil|codegen|lowering)\w* (?:error|fail)",
    r"unreachable|\bice\b|error\b|fail|abort|crash",
    "the compiler gives up in a pass of its own, which is no rule of the hardware as far as is known",
    "write the loop or the layout that the message names otherwise, without the option that the pass is for (such as "
    "warp specialization), or take another version of the compiler",
    unless=_OWN_CHECK.unless + r"|nvcc|ninja|cmake|\bgcc\b|wheel|setup\.py|pass(?:ed|word)|cuda error",
)
# An assertion in a compiler's own source, or what LLVM ends it with: nothing of the kernel's was checked.
COMPILER_CHECK = Cause(
    "TOOL014",
    r"\bdotcompiler\b|\b(?:llvm|mlir)::|\bllvm error:|\b(?:llvm|mlir|ptxas|cicc|nvcc) (?:itself )?(?:assert|abort|"
    r"crash|segfault)",
    r"assert|llvm error:|unreachable|abort|crash|segfault",
    "an assertion in the compiler fails{said}, where it should refuse what it does not know, or take it",
    "write the layout, the shape or the option that the message names otherwise (such as another num_warps, tile or "
    "type), or take another version of the compiler; a kernel that compiles with one configuration is not illegal",
    unless=_OWN_CHECK.unless,
)
_NO_CONFIG = Cause(
    "TOOL010",
    r"tun(?:er|ing)|config",
    r"noconfigfound|no ?(?:valid|working) (?:\w+ )?config|all configs? fail",
    "the program's tuner finds no configuration that compiles and runs",
    "give one configuration by hand with smaller tiles and fewer stages, and paste the error of its own",
)
ON_DEVICE = Cause(
    "TOOL010",
    r"device-side assert",
    r"triggered",
    'an assertion in a kernel fails; the line with "Assertion" that the GPU printed names it, most often an index '
    "beyond its array, such as a label, a token or an expert, or a group that is not aligned",
    "read that line, and print the indices and extents that it compares, on the CPU or with CUDA_LAUNCH_BLOCKING=1",
)
NO_CHECK = _OWN_CHECK.unless
OWN_CHECKS = (ON_DEVICE, COMPILER_CHECK, _OWN_CHECK, _NO_CONFIG, _COMPILER)

"""What people tell of a failure, by its cause: the words that stand for one thing, and what is told of each cause.

`legalsat.pasted.wording.likely` counts them, together with the words of reports whose cause is known
(`legalsat/pasted/wording/evidence.json`, made by `bench/fit_evidence.py`).
"""

from __future__ import annotations

# Names of what many words say. The patterns are searched without regard to case, between characters that are no
# letters and no digits, in a text whose camel case is taken apart.
CONCEPTS = {
    "product": r"\w*(?:pid|program_id|ind(?:ex|ices)|offs?(?:et)?s?|idx|row|_id)\w*(?:\[[^\]\n]{0,20}\])? ?\* ?"
    r"\w*(?:stride|cols?|columns|dim|size|numel|width)\w*|stride\w* ?\* ?\w*(?:pid|ind(?:ex|ices)|offs?(?:et)?s?|idx)"
    r"\w*",
    "compile": r"compil\w+ (?:fail|error|crash|abort)\w*|compiler (?:crash|abort)\w*|fails? to compile|"
    r"static[_ ]assert\w*|ptxas (?:error|fatal)|legalize operation",
    "fails": r"fail\w*|crash\w*|errors?|broken|breaks|do(?:es)?(?: not|n't) (?:work|launch|start|run|compile|load|"
    r"take)|dies|died|refus\w+|reject\w+|cannot be|can't be|won't|faults?|nothing happens",
    "hang": r"hang\w*|hung|(?:dead|endless|infinite) loops?|dead-?lock\w*|stuck|never (?:ends?|returns?|complet\w+|"
    r"finish\w*|flips?|signals?)|"
    r"parked|starv\w+|blocks? forever|spins?|time[sd]? ?out|do(?:es)?(?: not|n't) (?:return|end|finish)|livelock|"
    r"never comes? back|waits? for ?ever|stall\w*|fr(?:ee|o)z\w+",
    "wrong": r"wrong|gibberish|incorrect\w*|corrupt\w*|garbage|\bnans?\b|\binf\b|inaccura\w+|mismatch\w*|not close|"
    r"silent\w*|"
    r"diverge\w*|miscomput\w+|miscompil\w+|bad results?|precision issues?|garbled|error of 0\.\d+|"
    r"not correct|inconsistent|(?:do(?:es)?|did) not match|not what|values? (?:are )?off|stale|violat\w+|"
    r"undefined behaviou?r|"
    r"not right|mixed up|scrambled|random numbers|different results?|twice as (?:much|large)|off by|"
    r"zeros instead|instead of (?:the \w+'s\b|-?\d+)|(?:sees?|reads?) (?:old|stale) (?:data|values?)|"
    r"bytes wrong|== -?\d+ instead",
    "flaky": r"between (?:identical )?runs|run[- ]to[- ]run|from run to run|in \d+ of \d+ runs|intermittent\w*|flaky|"
    r"non-?determin\w+|now and then|sometimes|randomly|at random|"
    r"\d+(?:\.\d+)?% of (?:calls|runs|launches)|sporadic\w*|occasional\w*|rare(?:ly)?|not reproducible|"
    r"(?:differ\w*|change[sd]?|var(?:y|ies)|wrong|random) (?:between|from|with|in|at|on)? ?(?:every|each|some) "
    r"(?:run|time|call|launch)\w*|once in (?:a while|\w+)|one (?:run|launch|call)?(?: ?in| ?of) (?:a |ten|fifty|\d)\w*",
    "race": r"\brac(?:e|es|y|ing)\b|racecheck|hazards?|\b(?-i:RAW|WAR|WAW)\b",
    "fence": r"fences?|fence_\w+|proxy",
    "before": r"before|too early|early|not yet|ahead|prior to|while (?:\w+ ){0,4}still|in[- ]flight|still (?:reads?|"
    r"reading|in use|uses)",
    "again": r"re-?us\w+|overwrit\w+|again|alias\w*|stale|same (?:buffer|stage|slot|tile)|re-?issu\w+|recycl\w+",
    "barrier": r"m?barriers?|mbar\w*|\bbars?\b|bar_\w+|try_wait\w*|semaphores?|full_bar\w*|empty_bar\w*",
    "phase": r"phases?|parit(?:y|ies)|\w*_phase\b|flip\w*|toggl\w+|phasechk\w*",
    "arrive": r"arriv\w+|arrive_\w+|arrivals?",
    "count": r"counts?|number of (?:arrivals|threads)|\w+_count",
    "bytes": r"expect[_ ]?tx\w*|expect[_ ]?(?:bytes|transaction)\w*|tx_?(?:count|bytes)\w*|transaction\w*|"
    r"complete_tx\w*|arriveexpecttx",
    "tma": r"tma\w*|cp\.async\.bulk\w*|bulk tensor|utmaldg\w*|utmastg\w*|tensor memory accelerator",
    "store": r"tma[ _]?stores?|stores?|s2g|write[sd]? back|descriptor_store|shared_to_global",
    "map": r"tensor ?_?maps?\w*|cutensormap\w*|descriptors?|descs?|tma_desc\w*|tensordesc\w*",
    "edit": r"(?:updat|edit|modif|replac|chang|patch)\w* .{0,40}(?:tensor ?_?map|descriptor|\bmaps?\b)|"
    r"(?:tensor ?_?map|descriptor)s?\W.{0,30}(?:updat|edit|modif|replac|chang)\w*|update_tensormap|"
    r"tensormap(?:manager|\.replace)|fence\.proxy\.tensormap|in[- ]place",
    "cluster": r"clusters?|dsmem|distributed shared|shared::cluster|mapa|peer|remote|2-?cta|two-?cta|pair of ctas|"
    r"num_ctas|multi-?cta|cga\w*|leader|follower",
    "exit": r"exits?\w*|ret\b|returns? before|terminat\w+|leaves?\b|gone",
    "multicast": r"multicast\w*|mcast\w*|cluster_mask",
    "regs": r"setmaxnreg\w*|reg_(?:de)?alloc|usetmaxreg\S*|registers?|launch_bounds\w*|maxrregcount|"
    r"resources requested",
    "view": r"transpos\w+|(?:non|is|not)[-_ ]?contiguous|\.contiguous|views?|slic\w+|split\w*|unbind\w*|chunk\w*|"
    r"packed|padded|fused|"
    r"narrow|as_strided|permut\w+|assumes? .{0,30}(?:contiguous|packed|dense)|hard-?cod\w+",
    "stride": r"strid\w+|pitch|leading dim\w*|\bld[abcd]\b",
    "align": r"align\w*|misalign\w*|unalign\w*|multiple of|divisib\w+|granul\w+",
    "address": r"address\w*|\bptrs?\b|pointers?|data_ptr|offset\w*",
    "smem": r"__shared__|smem|shared|shmem|dsmem|lds",
    "limit": r"exceed\w*|too (?:much|large|many|big)|limit\w*|out of|required|insufficient|capacity|"
    r"maxdynamicsharedmemorysize|optin|over(?:flow|subscri)\w*",
    "swizzle": r"swizzl\w+|xor",
    "layout": r"layouts?|canonical|core[- ]matri\w+|atoms?|major\w*",
    "mdesc": r"lbo|sbo|matrix desc\w*|smem desc\w*|umma desc\w*|wgmma desc\w*|leading byte|stride byte|"
    r"make_gmma_smem_desc",
    "wgmma": r"w?gmma\w*|warpgroup_mma|warpgroup\.arrive|mma_async",
    "commit": r"commit\w*|wait_group\w*|warpgroup_wait|store_wait|wait_all|group::\w+",
    "tcgen": r"tcgen05\w*|umma\w*|utc\w*mma|mmav5",
    "tmem": r"tmem\w*|tensor memory(?! acc)",
    "alloc": r"alloc\w*|dealloc\w*|relinquish\w*|permit",
    "cpasync": r"cp[._]async(?!\.bulk)\w*|ldgsts|async cop\w+",
    "sync": r"__sync\w+|syncthreads|syncwarp|bar\.sync|barrier\.sync|barrier\.cta|named ?barrier",
    "int32": r"int_?32|i32|int64|32-?bit|2\*?\*?\^?31|2147483\d+|overflow\w*",
    "large": r"large|huge|big|long (?:context|sequence)|\d{2,}k\b|billion|many tokens|high token|batch size",
    "illegal": r"illegal (?:memory|address)|ima\b|illegal_address|(?:error|code|status|result|cuda)\W{0,3}700\b"
    r"|invalid __global__|page fault|"
    r"out[- ]of[- ]bounds",
    "illinst": r"illegal instruction|illegal_instruction|illegalinstruction|(?:error|code|status|result"
    r"|cuda)\W{0,3}715\b",
    "misaddr": r"misaligned(?: address|_address)?|(?:error|code|status|result|cuda)\W{0,3}716\b|misalignedaddress",
    "launchfail": r"unspecified launch failure|launch_?fail\w*|(?:error|code|status|result|cuda)\W{0,3}719\b",
    "invalid": r"invalid argument|invalid[_ ]?value|cuda_error_invalid|cudaerrorinvalidvalue",
    "vector": r"vectori[sz]\w*|float[24]\b|uint4|int4\b|ld\.v\d|128-?bit|ldmatrix\w*|loadgeneric|half2|"
    r"\b\w+, ?\(?int\)?2>",
    "dtype": r"dtypes?|bf16|bfloat16|fp16|float16|half|fp8|e4m3\w*|e5m2\w*|fp4|int8|tf32|fp32",
    "scale": r"scales?|scaling|\bsf[ab]?\b|scale_?factor\w*|blockscal\w*|nvfp4|mxfp\w*",
    "arch": r"sm_?\d{2,3}\w?|compute_\d+|architectures?|\barch\w*|gencode|capabilit\w+|\.target|gpu-name",
    "warps": r"warps?|num_warps|warpgroups?|warp-?speciali\w+",
    "cond": r"only (?:some|part|one)|divergent|predicat\w+|elect\w*|if \(|branch",
    "zero": r"zero|empty|k ?= ?0\b|size 0|no tokens",
    "init": r"init\w*|uninit\w*",
    "conflict": r"bank conflicts?|banks?",
    "box": r"box\w*|block_shape|blockshape|tile shape",
    "nullp": r"nullptr|null pointer",
    "streams": r"(?<!k[- ])streams?(?! ?-?k\b)|record_stream|wait_stream|launch_blocking|non-?blocking|overlap\w*",
    "tail": r"last (?:rows?|columns?|tiles?|blocks?|elements?)|(?:no|not a|isn't a|not an exact) (?:whole |exact )?"
    r"multiple|(?:beyond|past|behind|after) the (?:end|last)|left-?overs?|remainder|ragged|tail|not divisible",
    "later": r"first (?:\w+ ){0,3}(?:right|fine|ok|correct|works?)|(?:every|each) (?:later|other|further) (?:call|run|"
    r"launch)\w*|(?:later|subsequent|repeated|second|next) (?:calls?|launch\w*|runs?|replays?)",
    "elsewhere": r"(?:old|new|other|another|newer|older|smaller|bigger|consumer) (?:cards?|gpus?|devices?|machines?)|"
    r"(?:works?|runs?|fine|right|ok) on (?:the |an? )?(?:[a-z]{0,3}\d{2,4}\w*|pascal|volta|turing|ampere|nvidia)",
    "second": r"second|next|later wave|persistent|iteration|wave|round",
    "stage": r"stages?|num_stages|pipelin\w+|circular buffer\w*|ring|slots?",
    "sanitizer": r"compute-sanitizer|memcheck|synccheck|invalid __(?:shared|global|local)__",
    "readload": r"(?:ld\.shared|\blds\b|threads? (?:still )?reads?|reads? (?:the|a|its|that) (?:stage|buffer|tile"
    r"|smem))"
    r"[^\n]{0,160}(?:tma[ _]?loads?|next (?:tma |bulk )?(?:load|stage|copy)|cp\.async\.bulk)",
    "freed": r"dealloc\w*|tmem[._ ]?free\w*|\.free\(\)|frees?|freed|relinquish\w*|use-after-free",
    "linear": r"linear(?:ly)?(?: scan)?|permutation|base ?\+ ?i\b|logical (?:index|order)|unswizzled",
    "grid": r"grids?\w*|griddim\w*|dim3|<<<\w*|blockdim\w*|num_blocks",
    "small": r"small(?:er)? (?:inputs?|sizes?|shapes?|batch\w*|tensors?)|short (?:prompts?|sequences?)",
    "slow": r"slow\w*|speed\w*|perf\w*|latency|throughput|times? (?:longer|faster)|too long|bandwidth",
    "dependent": r"griddepcontrol\w*|launch_pdl|programmatic\w*|pdl|gdc_\w+|launch_dependents|dependent launch\w*",
    "otherdev": r"cuda:[1-9]|device[_ ](?:id )?[1-9]|(?:not|isn't|other than|except|only|but|!=)\W{0,3}(?:\w+ ){0,4}"
    r"(?:cuda|gpu|device)[: _]?0|set[ _]device|device[ _]?guard|current[ _]device|(?:another|other|wrong|different) "
    r"(?:gpus?|devices?)(?! (?:cards?|works?))",
    "outstanding": r"drain\w*|exits? .{0,40}(?:store|copy)|store .{0,40}exit\w*",
}
# What is told of a failure with this cause: what is seen, of what kind of kernel, and what its code does or lacks.
TOLD = {
    "PIPE001": "mbarrier used before mbarrier.init, barrier not initialised, uninitialised barrier memory, hang or "
    "illegal instruction on the first wait, thread 0 initialises without sync",
    "PIPE002": "mbarrier init not visible to the copy engine or the cluster, missing fence_barrier_init, "
    "fence.mbarrier_init.release.cluster, fence.proxy.async after init, first TMA load hangs sometimes",
    "PIPE003": "cluster: peer CTA's barrier is not initialised yet when a remote arrive or a multicast reaches it, "
    "missing cluster_sync or barrier.cluster after mbarrier init, sporadic hang or launch failure at "
    "kernel start with clusters",
    "PIPE004": "arrivals missing: arrival count too high, init count number of threads, only one thread or elected "
    "lane arrives, a role never arrives, consumer never releases the empty barrier, commit arrives at "
    "one CTA only, mask wrong, count of consumers; kernel hangs, deadlock, wait never completes, arrive "
    "has no effect, num arrivals multicast mask cluster, CTAs of a cluster hold blocks of different groups "
    "and one multicasts what the other does not expect",
    "PIPE005": "too many arrivals: barrier gets more arrivals than its count, arrives twice, surplus arrival, every "
    "thread arrives though count is 1, arrives with no matching wait, phase completes early, flips "
    "twice; hang or data used too early",
    "PIPE006": "expect_tx bytes differ from bytes that TMA delivers: transaction bytes mismatch, tx count wrong, "
    "expects fewer or more bytes than the box brings, sizeof wrong, clamped tile, tail tile, partial "
    "box, padded, one of two operands not counted, multicast slice bytes; consumer waits forever at full "
    "barrier, phase never flips, hang at mbarrier try_wait after TMA load issued",
    "PIPE007": "phase parity wrong: phase bit not toggled, parity computed from the loop or iteration instead of "
    "the barrier's own history, phase reset for each tile, second tile or wave of a persistent kernel "
    "hangs, odd number of iterations, zero or empty trips skip a flip, waits for a phase that has "
    "already passed or never comes, num_stages more than one, early continue without flipping, producer "
    "and consumer state out of step; deadlock, hang",
    "PIPE008": "data race on shared memory: stage overwritten while others still read it, WAR hazard, missing "
    "__syncthreads or barrier between reading and the next write, buffer used again by the next "
    "iteration, tile, store of C or epilogue over operands, other warps lag behind, warpgroups run "
    "ahead, multicast writes into a buffer not yet free, empty barrier not waited for, racecheck hazard; "
    "wrong results, nan, flaky, correct with extra sync",
    "PIPE009": "read before the copy is complete: missing wait for cp.async, wait_group count too large, "
    "cp.async.wait_all before __syncthreads missing, consumer does not wait on the full barrier, waits "
    "on the wrong or an old stage's barrier, try_wait returns at once, RAW hazard, stale shared memory; "
    "wrong results when the load is slow, correct when a sleep or print is added",
    "PIPE010": "missing proxy fence: ordinary or generic stores, st.shared, stmatrix, STSM, local_store, r2s copy "
    "of the epilogue write shared memory, then TMA store, cp.async.bulk, wgmma or tcgen05 reads it "
    "through the async proxy; fence.proxy.async, fence_view_async_shared, fence_async_shared, "
    "tma_store_fence missing or after the store instead of before; __syncthreads alone is not enough; "
    "output tile partly stale, intermittent wrong results of the epilogue",
    "PIPE011": "operands released early: empty barrier arrived at before wgmma or tcgen05.mma has finished reading, "
    "warpgroup_wait or wgmma.wait_group missing before the arrive or release, producer overwrites "
    "operand tile that the matrix unit still reads; wrong results depending on timing",
    "PIPE012": "group not committed: wgmma.commit_group, cp.async.commit_group, bulk commit_group or tcgen05.commit "
    "missing, wait_group waits for nothing, waits have no effect",
    "PIPE013": "TMA store source reused: shared memory tile written again while a bulk store still reads it, "
    "cp.async.bulk.wait_group.read missing, tma_store_wait with too many groups pending, store_wait at "
    "the wrong place, epilogue staging buffer of C used again for the next tile or as a load stage; "
    "wrong output for some shapes",
    "PIPE014": "kernel ends with copies or arrivals outstanding: not drained, producer_tail missing, exit before "
    "stores or loads of shared memory complete, launch failure at exit, next block's shared memory "
    "corrupted",
    "PIPE015": "cluster: CTA exits while peers still read its shared memory by DSMEM, mapa ld.shared::cluster or "
    "arrive remotely; missing cluster barrier (barrier.cluster arrive wait) before ret; unspecified "
    "launch failure at kernel end, cluster target block not present, num_ctas greater than 1, multi-CTA",
    "PIPE017": "multicast mask names CTAs outside of the cluster, cta_mask too wide for the cluster size, hang or "
    "illegal instruction of multicast",
    "PIPE018": "not all warps or roles execute the same barrier: __syncthreads or bar.sync in a branch, divergent, "
    "only part of the warps, threads of the block execute it, barrier count does not match the "
    "participating threads, misaligned synchronization, early return of some warps, named barrier with "
    "wrong number of threads, num_threads of the barrier hard-coded for fewer warps than call arrive and "
    "arrive_and_wait, number of participants; hang or wrong results",
    "PIPE019": "accumulators read before wgmma or tcgen05.mma is complete: missing warpgroup_wait, wgmma.wait_group "
    "0, tcgen05 commit and wait before the epilogue reads registers or tensor memory; wrong or partial "
    "sums",
    "PIPE020": "wgmma registers touched without warpgroup_arrive, wgmma.fence before the first mma or after "
    "changing accumulator or A registers; C7519 warpgroup.arrive is injected, C7514; wrong sums",
    "PIPE022": "mbarrier transaction count overflow: expected bytes above 2^20-1 = 1048575",
    "PIPE024": "mbarrier invalidated or its memory reused, re-initialised while others use it, mbarrier.inval; init "
    "again in a loop or second kernel phase",
    "PIPE026": "write after async read without fence: generic writes to a buffer that TMA or wgmma has read, before "
    "ordering across proxies",
    "PIPE027": "generic reads of a buffer, then TMA load overwrites it without proxy fence, LDS and TMA load race",
    "PIPE028": "named barrier id out of range, barrier id above 15, bar.sync 16, NamedBarrier ids collide with "
    "reserved",
    "PIPE030": "fetched value or bulk prefetch not waited for",
    "PIPE031": "a thread that does not wait is overtaken: bystander warp, phases advance by two",
    "PIPE032": "TMA store not awaited before another kernel, block or host reads the output, "
    "cp.async.bulk.wait_group without read, results missing in global memory, flag set before store "
    "complete",
    "PIPE033": "tensor map changed in memory while copies use it: descriptor updated in place on device, "
    "tensormap.replace, update_tensormap, cuTensorMap replaced between launches, grouped GEMM per-group "
    "descriptors, missing fence.proxy.tensormap acquire or release, previous TMA loads in flight read "
    "the old map, stale descriptor cache, descriptor prefetch; sporadic corruption, illegal instruction, "
    "illegal address, hang in UTMALDG",
    "PIPE034": "cp.async or copies by threads into shared memory read by wgmma or TMA without proxy fence",
    "PIPE035": "tensor memory accesses not fenced: tcgen05.fence before_thread_sync after_thread_sync, tcgen05.ld "
    "wait::ld, tcgen05.st wait::st missing around barriers",
    "PIPE036": "arrival without release semantics: relaxed arrive, cluster scope release acquire missing, remote "
    "arrive",
    "BULK001": "cp.async.bulk source or destination address no multiple of 16 bytes, 1D bulk copy of a misaligned "
    "pointer",
    "BULK002": "cp.async.bulk size no multiple of 16 bytes, 1D bulk copy or tma_load_1d of an odd number of elements, "
    "tail dropped, hang or launch failure",
    "PIPE016": "tensor memory freed or used in the wrong order between warps",
    "PIPE021": "mbarrier arrival count 0 or above 2^20-1",
    "PIPE025": "mbarrier not aligned to 8 bytes in shared memory",
    "COPY002": "TMA store or reduce at a negative coordinate",
    "COPY011": "two maps or tensors overlap in memory, a store clobbers another tensor",
    "COPY001": "coordinate of the innermost axis times element size is no multiple of 16 bytes: offset of tile, odd "
    "column start, illegal instruction of TMA load with start not divisible by 8",
    "COPY004": "shared memory destination of TMA not aligned to 128 bytes: misaligned smem buffer, dynamic shared "
    "memory base, stage size not a multiple of 128, __align__(128), warp misaligned address in UTMALDG "
    "or SM90_TMA_LOAD, 1-D bulk stage of 32 or 64 bytes, num_stages",
    "COPY005": "swizzled tile in shared memory not aligned to 1024 bytes (128B swizzle; 512, 256): smem base phase, "
    "buf_dyn_shmem offset, padding before the buffer, values permuted, wrong results only on another "
    "architecture or offset, alignas(1024)",
    "COPY006": "barrier expects other bytes than the box of the map brings; hang",
    "COPY007": "box larger than the shared buffer, out of bounds writes in shared memory, overlapping stages, smem "
    "allocation too small for the box",
    "COPY008": "store overwrites past the end of rows, inner extent rounded to 16 bytes, neighbouring columns "
    "clobbered",
    "COPY009": "stored elements overlap: stride 0 or overlapping view as output of TMA store",
    "COPY010": "descriptor describes other memory than the tensor: strides taken from sizes, assumes packed, "
    "contiguous or dense rows though the input is a view, slice, split, transposed, padded, fused qkv, "
    "unbind, kv cache with larger block stride; hard-coded stride or shape, wrong base pointer or "
    "offset, rebuilt layout, descriptor of a freed or reallocated buffer, template generated for other "
    "strides; wrong results or illegal memory access for non-contiguous input, correct after "
    ".contiguous()",
    "COPY012": "written with one swizzle or layout and read with another: swizzle mode of the map and of the kernel "
    "differ, kernel has no swizzle parameter, layouts of producer and consumer disagree, reader expects "
    "linear but writer swizzles, permuted garbage values; a scan, reduction or copy ignores the swizzle of an "
    "annotated "
    "shared buffer, swizzled layout annotation makes it wrong, the same kernel without swizzle is correct",
    "COPY013": "reduction or atomic of an unsupported type by TMA, red.async, cp.reduce.async.bulk",
    "TMA001": "tensor rank above 5 or 0 dimensions for tensor map",
    "TMA002": "tensor map of an extent of zero: empty tensor, K = 0, M = 0, no tokens for an expert, empty batch, "
    "globalDim 0; failed to initialize TMA descriptor",
    "TMA003": "box dimension above 256 elements: BLOCK size 512, tile too large for one box, "
    "cuTensorMapEncodeTiled invalid value, hang of descriptor load with block 512",
    "TMA004": "base address of the tensor not aligned to 16 bytes: data_ptr, storage offset, slice x[1:], "
    "sub-allocated buffer, byte offset, misaligned global pointer for TMA descriptor",
    "TMA005": "row stride no multiple of 16 bytes: odd head dim, vocabulary, K or N not divisible by 8 for bf16, "
    "16 for fp8, 4 for fp32, padded needed; cuTensorMapEncode invalid argument, misaligned stride, "
    "alignment error, TMA unsupported, falls back slow",
    "TMA006": "stride overflow above 2^40 or negative stride, a large stride converted to bytes or units in 32 bits "
    "overflows, encode call of the tensor map returns invalid value for large strides of a view",
    "TMA008": "innermost box below 16 bytes or no multiple of 16 bytes: block 1, 2 or 4 elements wide, small head "
    "dim, last block dimension too small",
    "TMA009": "innermost box wider than the swizzle span: 128 bytes for 128B swizzle, box_k 128 bf16 = 256 bytes, "
    "split the box; invalid value",
    "TMA010": "dtype has no tensor map type",
    "TMA019": "CUtensorMap object misaligned: alignas(64), alignas(128), __grid_constant__ const, struct member, "
    "stack or heap copy, mod 128",
    "TMA021": "box larger than shared memory",
    "TMA023": "elements of a tensor map overlap: stride smaller than row, expand",
    "TMA024": "innermost dimension not contiguous: stride of last axis is not 1, transposed, column major, .t(), "
    "permuted input; last dimension must be contiguous, stride -1",
    "TMA027": "boxes or stages in shared memory begin at misaligned offsets",
    "TMA028": "extent beyond 32-bit coordinates",
    "TMA037": "axis of size 1 with arbitrary stride: one KV head per rank, batch 1, unsqueeze, expand, degenerate "
    "stride of 1 element after view, unbind or permute; is_contiguous says true; driver invalid argument "
    "or illegal instruction",
    "TMA007": "element stride outside 1 to 8 or not 1",
    "TMA011": "swizzle mode or enum that the copy engine has not",
    "TMA018": "extent above 2^31 or 2^32 in one dimension of a tensor map",
    "TMA025": "TMA store writes past the inner extent up to 16 bytes, neighbouring columns clobbered",
    "TMA033": "packed fp4 or fp6 elements, 16U4_ALIGN16B, box of 128 elements, fp4_padded",
    "MDESC006": "major bit of the instruction or matrix descriptor differs from the tile, K-major or MN-major "
    "transposed",
    "WGMMA002": "wgmma M is 64, rows of the tile no multiple of 64",
    "WGMMA012": "rows of a wgmma tile are scattered over warpgroups in another order",
    "MDESC004": "matrix descriptor offsets wrong: LBO, SBO, leading and stride byte offset swapped or computed for "
    "another tile, K-major vs MN-major, no-swizzle interleaved core matrices, advance along K; wgmma or "
    "tcgen05 gives wrong values for some tile sizes",
    "MDESC003": "swizzle mode in the matrix descriptor differs from the layout of the tile in shared memory",
    "MDESC005": "base offset of matrix descriptor, tile does not begin at the swizzle pattern's repeat, sub tile "
    "slice start",
    "MDESC001": "matrix descriptor start address misaligned or truncated, above 18 bits, >> 4",
    "WGMMA004": "tile or warp tile is not a multiple of the swizzle atom: 64 elements of 16 bits with 128B, atom "
    "straddles warpgroups, N 96 or 192, layout atom, tile_to_shape; static assert, wrong results",
    "WGMMA008": "wgmma N not a multiple of 8 or above 256",
    "WGMMA009": "tile K not a multiple of the instruction depth: K tail dropped, block_K 24, 16 for 16-bit, 32 for "
    "8-bit, 8 for tf32; unsupported wgmma shape or type",
    "WGMMA010": "wgmma of fp8, int8 or tf32 needs K-major operands, transposed operand not supported: MN-major B of "
    "32-bit or 8-bit type, WGMMA type or shape is not supported",
    "TCGEN003": "tcgen05 M of 64, 128, 256 illegal, block M for cta_group",
    "TCGEN004": "tcgen05 N not a multiple of 8 or 16 or above 256",
    "TCGEN010": "scale factors of block scaled mma: vector size 16 or 32, layout of scales 128x4, K not multiple of "
    "scale block; scales of the wrong shape or layout, nvfp4 mxfp8 block_scale, dot_scaled, scale of B has rows of N "
    "and K / 32 columns, scales read from other places of tensor memory, sliced scale descriptor, SFA SFB",
    "TCGEN002": "accumulator type of tcgen05 too narrow, fp16 sums of tf32, kind and D type do not go together",
    "TCGEN006": "tcgen05 N of a transposed operand, M = 64 with N not a multiple of 8, kind::i8 N",
    "TCGEN008": "tcgen05 operand's swizzle atom does not fit its columns, N below the atom of an MN-major B",
    "TCGEN014": "collector, disable_output_lane mask of tcgen05.mma of another number of lanes",
    "TCGEN017": "tcgen05.mma or tcgen05.commit issued by every thread of the warp instead of one elected thread, "
    "results "
    "added many times, elect_one missing",
    "TMEM001": "tcgen05.alloc columns not a power of two of at least 32",
    "TMEM002": "tensor memory exceeded 512 columns, out of tmem, two blocks on one SM compete for tensor memory, "
    "tcgen05.alloc blocks",
    "TMEM006": "tensor memory not freed before exit, dealloc missing, later kernels hang in alloc",
    "TMEM007": "tensor memory used without tcgen05.alloc, no allocation, address assumed 0",
    "TMEM008": "tensor memory access outside of the allocated columns, tcgen05.ld or mma after tcgen05.dealloc, freed "
    "while other warps still read their accumulators, use after free",
    "TMEM003": "tcgen05.alloc of more columns after an allocation was freed, allocations grow",
    "TMEM004": "tcgen05.alloc after relinquish_alloc_permit",
    "TMEM005": "tcgen05.dealloc of what was not allocated, guardrail trap unallocated columns, wrong address or "
    "columns "
    "given to dealloc",
    "TMEM009": "two accumulators overlap in tensor memory, columns of scales inside the accumulator, column offset "
    "computed too small",
    "TMEM010": "tcgen05.ld of lanes of another warp, warp id modulo 4, 32 lanes each",
    "TMEM011": "warps of a tcgen05.ld or st give different tensor memory addresses, tmem address of another warp or "
    "stage",
    "TMEM012": "tcgen05.ld or st of a shape or repeat that does not exist, .x3",
    "TMEM014": "tcgen05.ld, st, alloc or dealloc executed by a part of the warp, if (threadIdx.x == 0) around a "
    ".sync.aligned instruction, divergent warp, hang",
    "TMEM015": "cta_group::1 and cta_group::2 mixed in one kernel",
    "TMEM016": "cta_group::2 without a cluster of two CTAs",
    "TMEM018": "tcgen05.dealloc by one CTA of a pair before the peer is done or has allocated, cta_group::2, "
    "cluster barrier missing before free; tensor memory freed while other warps of the CTA or the peer still read it, "
    "tmem.free() by the MMA warp, dealloc barrier missing",
    "TMEM020": "rows of an accumulator with M = 64 lie at other lanes than read",
    "TMEM022": "scales of tcgen05 are not copied to all four warps' lanes, warpx4 missing",
    "TMEM023": "scale factors in tensor memory too few columns, scale buffer of another shape than the tile needs",
    "TMEM024": "tcgen05.cp of a shape that does not exist, or its source layout does not fit",
    "TMEM019": "only one CTA of a pair allocates with cta_group::2",
    "TMEM026": "2-CTA tensor memory allocation before the peer CTA runs: missing cluster sync before tcgen05.alloc "
    "cta_group::2, Allocator2Sm, 2SM alloc race, racecheck at allocate",
    "TOOL003": "registers: setmaxnreg, warpgroup_reg_alloc, reg_dealloc budgets exceed what the block has, kernel "
    "hangs at setmaxnreg.inc or USETMAXREG, too many resources requested for launch, CUDA error 701, "
    "launch bounds missing, threads times registers above 65536",
    "TOOL006": "two users of one buffer want different layouts: layout conflict, inference disagrees, scales "
    "written in another layout than read",
    "TOOL001": "wgmma serialized, C7510, C7511, C7514, C7515, slow, Potential Performance Loss, function call or "
    "insufficient registers in the pipeline stage",
    "TOOL002": "setmaxnreg ignored, C7507, C7508, unable to determine register count at entry, minnctapersm, "
    "launch bounds missing",
    "TOOL004": "built for another GPU, instruction or feature not supported on the target, sm_90a or sm_100a suffix "
    "missing, no kernel image, older PTX version or ptxas of an older toolkit rejects the instruction, state space "
    "incorrect, unknown modifier, requires PTX ISA",
    "TOOL005": "gather4 or scatter4 of TMA: rows of four, column start, block of one row",
    "TOOL007": "number of warps or threads no multiple of a warpgroup of 4 warps, 128 threads",
    "TOOL008": "cluster size or shape invalid, cluster launch fails, cluster larger than 8, grid not divisible by "
    "cluster",
    "TOOL011": "too many threads in a block, more than 1024 threads, grid dimension y or z above 65535, batch or heads "
    "along grid y or z, large batch, empty grid of 0 blocks for an empty input, invalid configuration argument",
    "TOOL013": "int32 overflow of offsets or indices: program_id * stride, offset * num_cols, row index times "
    "columns, batch times "
    "stride, tensors above 2^31 elements, long context, large batch or many tokens, cast to int64; "
    "illegal memory access, nan or wrong results only for large inputs, small inputs work",
    "SMEM001": "shared memory of a block exceeded: cudaFuncSetAttribute MaxDynamicSharedMemorySize invalid "
    "argument, kernel for a larger GPU (228 KB) on consumer GPU (100 KB, 64 KB of Turing), too many "
    "stages, tile too large, launch fails, no output, kErrorInternal",
    "VEC003": "a vector access is torn: float4 spans the end of a row",
    "VEC005": "vectorised stores of neighbouring threads overlap",
    "VEC002": "vectorised access misaligned: float4, half2, int4, uint4, 8 or 16 byte load or store at an address "
    "that is no multiple of its size, odd row length, odd offset, slice, workspace or sub-buffer not "
    "aligned, head size or hidden size times element size no multiple of 16 bytes, row pitch, ldmatrix rows, "
    "compute-sanitizer Invalid read of size 16 Address is misaligned, misaligned "
    "address error 716",
    "TOOL012": "bank conflicts in shared memory, slow, stride 32, column access",
    "SMEM002": "stages begin misaligned in shared memory",
    "TOOL014": "fault of the compiler itself: ptxas, nvcc, LLVM, Triton or MLIR crashes, segfaults or writes wrong "
    "code; "
    "right without optimisation or with another version of the compiler",
    "TOOL015": "register spills to local memory, spill stores and loads, slow kernel, register pressure",
    "TOOL016": "memory read that was never written: tails, padding, accumulators, workspace, uninitialised, stale, NaN",
    "TOOL017": "order of streams on the host: missing event, synchronisation, record_stream, default and non-blocking "
    "stream, asynchronous copy not awaited",
    "TOOL018": "warp size of 32 or 64 lanes assumed, wavefront, wave64, ballot mask of 32 bits, AMD",
    "TOOL019": "stack or heap limit of the device, recursion, cudaLimitStackSize, device malloc, stack overflow",
    "TOOL020": "tensor on the CPU or on another GPU given to a kernel, host pointer, cpu tensor, wrong current device",
    "TOOL021": "uncoalesced global memory accesses, strided reads of neighbouring threads, low bandwidth, slow",
}

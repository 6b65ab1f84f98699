"""What people tell of a failure, once more in other words: each telling counts like a report whose cause is known.

None is any report's: they say what is seen and what the code does, in the words of several languages of kernels.
"""

from __future__ import annotations

TELLINGS: dict[str, tuple[str, ...]] = {
    "PIPE001": (
        "hang or garbage at the first mbarrier wait: the barriers of some warps or stages were never initialised, "
        "only the first warp's or the first stage's mbarrier_init runs",
        "num_stages barriers are used, fewer are initialised; the loop over init ends one too early; alloc "
        "without init",
        "arrive_and_expect_tx used where mbarrier_init was meant, shared memory of the barrier holds garbage",
    ),
    "PIPE002": (
        "thread 0 initialises the mbarriers and the producer warp issues its first TMA load after __syncthreads; "
        "no fence_barrier_init, no fence.mbarrier_init; now and then the first load hangs",
        "mbarrier.init and its fence are executed by different threads, elected lane or thread 0; rare hang at start",
        "mbarrier_init_fence missing after init; init visible to other threads but not to the async proxy",
    ),
    "PIPE003": (
        "2-CTA or multicast kernel: mbarrier init, then loads with multicast go out at once; the other CTA has "
        "not yet initialised its barriers; no cluster_sync after init; rare hang or launch failure at start",
        "a CTA arrives remotely at or writes to the peer's barrier or buffer before the peer has started; missing "
        "cluster arrive and wait between init and first use",
    ),
    "PIPE004": (
        "empty barrier initialised with number of consumer warps, but only one warp or elected thread arrives; "
        "producer waits forever for a free stage",
        "barrier init count 128 or 256, arrivals come from one lane per warp or one thread; init(1) needs one",
        "a branch, mask or empty work item skips the arrive; consumer_release is not called in one path; the "
        "producer hangs in acquire",
        "expect_tx without arrive: bytes come, but the pending arrival never does",
        "cluster: empty barrier counts consumers of all CTAs, local consumers arrive at their own only",
    ),
    "PIPE005": (
        "every thread of the warp arrives at a barrier initialised with 1; phase flips several times, data read "
        "too early",
        "arrive.expect_tx and another arrive for each stage, or both producers arrive where one is counted; the "
        "barrier completes before the copy",
    ),
    "PIPE006": (
        "load of A and B, expect_tx of A alone; sizes of a padded, partial or fp4 tile; sizeof(float) where half "
        "is loaded",
        "no expect_tx at all before or after cp.async.bulk.tensor, plain arrive; complete_tx underflows; hang",
        "expected transaction bytes computed from the full tile though the box was clamped, or of one CTA's half "
        "where both halves come by multicast, only rank 0 expects the multicast bytes",
        "one of several loads was removed, merged or falls back to threads, and bytes still counted; wait never "
        "returns",
    ),
    "PIPE007": (
        "wait parity computed from k or iter & 1 with several stages instead of (iter / stages) & 1; second round "
        "of the ring hangs or passes at once",
        "phase is reset or not carried over between tiles, work items or calls of the pipeline; odd trip counts hang",
        "producer's first wait on the empty barrier with phase 0 blocks at once; initial phase must be 1",
        "state not advanced in a skipped iteration, phase toggles too often or never; PipelineState index and phase",
    ),
    "PIPE008": (
        "loop writes shared memory at its top, reads it at the bottom, no __syncthreads at the end; fast warps "
        "overwrite what slow ones still read; run-to-run differences, nondeterministic, racecheck",
        "buffer aliased or reused by another array, reduction scratch or the next phase while others still read "
        "it, WAR",
        "producer refills a stage without waiting for the empty barrier; ring has too few stages; one warp runs ahead",
        "idle threads or next iteration reset or zero a shared variable before all have read the result",
        "tensor memory or accumulator stage is overwritten or released while tcgen05.ld of another warp is in flight",
    ),
    "PIPE009": (
        "threads write a shared array and read others' entries with no __syncthreads between; uninitialised "
        "values; inconsistent results between identical runs",
        "cp.async, then compute, wait_group one too many, commit after wait, last iterations not drained; stale tile",
        "the dot or mma comes before barrier_wait of its operand; only one of the two full barriers is waited "
        "for; sleep instead of wait; works with delay",
        "a required barrier was dropped by the compiler, between a store to shared and a load by other threads or "
        "warps",
        "missing dependency, consumer not told that local_store or copy is done; no completion edge",
    ),
    "PIPE010": (
        "stmatrix or st.shared of the epilogue, __syncthreads, one thread issues cp.async.bulk store; no "
        "fence.proxy.async",
        "operands are written, dequantised, converted, transposed or zeroed by threads in shared memory and then "
        "read by wgmma or tcgen05.mma; missing fence; wrong now and then",
        "local_store or T.copy to shared, then tma store, descriptor_store or mma; mbarrier or barrier alone does "
        "not order generic and async proxies",
    ),
    "PIPE011": (
        "consumer releases the stage right after issuing wgmma, wait<1> keeps one in flight that reads the stage",
        "empty barrier arrive placed before warpgroup_wait; commit of tcgen05 does not stand before the release",
    ),
    "PIPE012": (
        "wait_group returns at once because commit_group was never executed, or by another thread than the one "
        "that issued",
        "wgmma without commit_group, cp.async without commit, bulk store without cp.async.bulk.commit_group",
    ),
    "PIPE013": (
        "loop: write tile to smem, fence, TMA store, next iteration writes the same smem; commit and wait only "
        "after the loop; output of earlier tiles is overwritten by later ones",
        "double buffered epilogue staging with wait_group.read too late or with the wrong number of pending stores",
        "store wait is executed by another thread than issued the store, others rewrite the buffer without barrier",
        "tma_store_wait was moved behind the next write, or pipelined to the wrong stage",
    ),
    "PIPE014": (
        "producer warp exits while loads are outstanding; no drain, no producer tail; kernel end with pending "
        "copies, shared memory of next block corrupted",
    ),
    "PIPE015": (
        "one CTA of the cluster returns early while the other reads its shared memory or arrives at its barrier; "
        "launch failure, cluster_sync at the end missing",
        "tile scheduler gives one CTA of a pair no work and it leaves; peer's DSMEM access or multicast faults",
    ),
    "PIPE018": (
        "return before __syncthreads for threads out of range, if (tid >= n) return; deadlock in later barrier",
        "bar.sync or named barrier with 256 threads in a branch that only one warpgroup of 128 takes; hangs",
        "break or continue that depends on data skips a barrier in the loop; divergent lanes at different barriers",
        "runtime helper or instrumentation does a block-wide barrier that producer or worker warps never call",
        "elect.sync, __syncwarp or shuffle executed in a divergent branch by one lane; waits for the other 31 lanes",
        "synccheck: divergent thread(s) in block, barrier; syncthreads in conditional code",
    ),
    "PIPE019": (
        "epilogue reads accumulators right after issuing wgmma or tcgen05.mma, no wait for the last group or "
        "commit barrier; partial sums, last K block missing",
    ),
    "PIPE020": (
        "accumulator registers zeroed or scaled between wgmma without wgmma.fence, warpgroup_arrive missing, A "
        "fragments written by threads; wrong sums",
    ),
    "PIPE024": (
        "mbarrier_init inside the loop for every tile; the phase goes back to 0; parity of waits no longer fits",
        "two barriers or a barrier and data get the same shared memory, init on top of a live barrier, no "
        "mbarrier.inval",
    ),
    "PIPE032": (
        "another kernel, flag, atomic or peer GPU reads the output before the bulk store is complete; "
        "wait_group.read only waits for reading shared memory; release does not cover async writes",
        "kernel signals completion after commit_group but without wait_group 0; message passing, dependent launch",
    ),
    "PIPE033": (
        "tensor map replaced in place for the next group while earlier TMA loads still use it; grouped GEMM corrupt",
        "descriptor written in global memory by another kernel or thread, used without fence.proxy.tensormap "
        "acquire, or acquire of fewer bytes or of another address",
        "tensormap.cp_fenceproxy or release without waiting for outstanding copies, tma_desc_commit_group, wait "
        "missing",
        "host updates cudaMemcpyAsync the CUtensorMap in device memory, stale descriptor cache",
    ),
    "COPY010": (
        "kernel or descriptor computes strides from the shape, input is a transposed, permuted, sliced or "
        "expanded view; silently wrong, right after .contiguous()",
        "stride(0) or the leading dimension of another tensor is passed; rows interleaved, garbage for padded rows",
        "wrapper passes data_ptr of a non-contiguous tensor; assumes row-major NCHW, gets NHWC; no is_contiguous check",
        "output error when input is not contiguous",
        "map built with wrong strides or base, offset of view ignored; MLIR memref strides",
    ),
    "COPY012": (
        "tile written with swizzle by TMA and read linearly by threads, or the other way round; scrambled elements",
        "scale factors passed linear where the kernel reads an interleaved layout, or swizzled twice",
    ),
    "TCGEN010": (
        "block scales are row-major but tcgen05 mxf8 nvfp4 wants 128x4 interleaved; values not close, garbage",
        "scale tensor padded or shaped for other tile; K / 32 or K / 16 columns; SFA SFB TMEM columns; head dim 64",
        "checkpoint's scales interleaved once more, global scale reciprocal",
    ),
    "TMEM018": (
        "CTA frees tensor memory of a pair while its peer still multiplies or loads; barrier.cluster before "
        "dealloc missing in warp-specialised cleanup",
    ),
    "TMEM009": (
        "buffers share tensor memory columns by reuse or aliasing; a store overwrites what another warp reads; P "
        "aliases S",
    ),
    "TMEM023": ("scale allocation in tensor memory of the wrong shape, (64, 8) instead of (128, 4), padded",),
    "MDESC004": (
        "core matrices written with another number along M or N than the smem descriptor says; canonical layout "
        "offset; LBO and SBO for 128 rows used with 16 rows",
        "no-swizzle layout with wgmma or tcgen05 wrong, swizzled ones right; descriptor offsets as for swizzle",
    ),
    "MDESC006": ("operand B is N-major but the descriptor or instruction says K-major; transpose flag hard-coded",),
    "TMA004": (
        "tensor begins at an offset into its allocation, slice, storage_offset or view of a workspace; address no "
        "multiple of 16; TMA hang or misaligned",
    ),
    "TMA005": (
        "strides given in elements instead of bytes to cuTensorMapEncodeTiled, {1, cols}; invalid value",
        "N, K, vocabulary, hidden size or sequence length odd or not a multiple of 8; TMA descriptor fails",
        "row pitch of int8 or fp8 scales 44 bytes; descriptor creation failed for some shapes only",
    ),
    "TMA037": (
        "one KV head or batch 1 after tensor parallel sharding, degenerate stride like 128, 128, 1; descriptor "
        "check fails",
    ),
    "COPY004": (
        "shared memory buffer without __align__(128); extern __shared__ base 16 byte aligned; TMA destination "
        "misaligned",
    ),
    "COPY005": (
        "128B swizzle and the tile does not begin at a multiple of 1024 bytes in dynamic shared memory; wrong rows",
    ),
    "TMA019": (
        "CUtensorMap passed by pointer to host memory, by value without __grid_constant__, copied to the stack, "
        "or packed in a struct at offset 8; illegal instruction or hang",
    ),
    "SMEM001": (
        "block size, stages or head dim hard-coded for H100 or A100; consumer card has 99 KB; OutOfResources",
        "static __shared__ arrays larger than 48 KB; ptxas uses too much shared data",
        "dynamic shared memory grows with num_experts, vocabulary or sequence; cudaFuncSetAttribute not called or "
        "failed, return value unchecked; invalid argument at launch",
    ),
    "TOOL003": (
        "1024 threads with many registers, no __launch_bounds__, works on one GPU or compiler and not another; "
        "too many resources requested for launch",
        "setmaxnreg or USETMAXREG.TRY_ALLOC waits for ever; registers of helper functions; launch bounds min blocks",
    ),
    "TOOL004": (
        "compiled for sm_90 or sm_120 without a suffix, wrong arch flag or hard-coded arch string; Cannot select "
        "intrinsic",
        "error messages ask for architecture sm_75 or higher; wmma, ldmatrix, bf16 or fp8 not on older GPU; nvcc flags",
    ),
    "TOOL011": (
        "grid.y or grid.z is number of tokens, rows, heads or channels and exceeds 65535; nothing is launched, zeros",
        "empty tensor gives grid of 0; blockDim above 1024; batch times heads along z",
    ),
    "TOOL013": (
        "slot index, block table, token index or row id int32 times stride overflows for large KV cache, long "
        "context or many tokens; illegal address far away; negative offset",
        "offs_m[:, None] * stride_m wraps beyond 2**31 elements in Triton; tensor of 40960 x 128256",
    ),
    "VEC002": (
        "row of 46, 3420 or odd number of half elements read with 16-byte vectors; every second row misaligned",
        "ptr + offset cast to float4* or int4*; the base or the row pitch is no multiple of 16; sanitizer says "
        "misaligned",
        "vec_size = 16 / sizeof(T) hard-coded; second half begins at element d; intermediate size no multiple of 8",
    ),
    "TOOL006": ("layout conflict between two uses of one shared buffer; writer swizzles, reader takes linear",),
    "TOOL012": ("column access, stride of 32 words, padding declared but not used in the index; ncu bank conflicts",),
    "WGMMA002": ("wgmma tile of 96 or 32 rows; M-mode must be 64; block_M not a multiple of 64 for warpgroups",),
    "WGMMA009": ("K tile of 20, 24 or 8 elements; instruction depth of 16, 32; block_K not supported",),
    "WGMMA004": ("tile rows of 40 bytes or stride not 4 or a multiple of 8; swizzle layout constructor refuses",),
    "TILE003": ("shared tile's columns no multiple of the swizzle atom; stride % 8; layout check failed",),
    "TCGEN003": ("umma M 64 in block-scaled or cta_group::2 kind, field of instruction descriptor, 128 and 256 work",),
}

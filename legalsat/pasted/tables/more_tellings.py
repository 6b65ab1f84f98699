"""More tellings of failures, by what kernels of other libraries and older GPUs show, and by what their code looks like.

As in `legalsat.pasted.tables.tellings`: each counts like a report whose cause is known, and none is any report's.
"""

from __future__ import annotations

MORE_TELLINGS: dict[str, tuple[str, ...]] = {
    "PIPE001": (
        "semaphore or barrier object in shared memory used without a constructor, init skipped when the branch of the "
        "first warp is not taken; full_barriers initialised for fewer stages than the ring has",
        "only one CTA of the cluster initialises its mbarriers; the other waits on garbage",
    ),
    "PIPE002": (
        "no fence after mbarrier initialisation: init_barrier then TMA load, cutlass::arch::fence_barrier_init not "
        "called; first launch after a while hangs",
    ),
    "PIPE003": (
        "peer CTA receives a remote arrive, DSMEM store or multicast before it initialised its barrier; need "
        "cluster_arrive_relaxed and cluster_wait, cluster.sync() behind the init",
    ),
    "PIPE004": (
        "mbarrier count and number of arriving threads disagree; waits forever at arrive_and_wait; one of the "
        "consumer warpgroups does not arrive after an early exit or when its tile is masked",
        "atomic counter or semaphore across blocks never reaches the expected number, split-K or stream-K tile lock "
        "spins for ever since one block skipped its increment or was not scheduled",
        "more blocks than fit on the GPU at once wait for each other, spin lock or lookback on a block that has not "
        "started; deadlock when the grid is larger than what is resident",
        "consumer_release missing on the empty path, num_consumers in pipeline params does not equal threads that "
        "release",
    ),
    "PIPE005": (
        "fast block or warp arrives again for the next round before the slow ones have left this one; the counter "
        "moves past the value that is waited for; grid barrier made of atomicAdd and spinning is not reusable",
        "barrier counter is not reset between calls, second sync of the same object passes early or deadlocks",
        "arrive is executed by all 32 lanes where one was counted",
    ),
    "PIPE006": (
        "transaction bytes set for a full tile, last tile of K or M is smaller; predicated off copies; TMA waits hang",
        "bytes of scales or of the second operand not included in set_barrier_transaction_bytes",
    ),
    "PIPE007": (
        "phase variable toggled once per tile but barrier completes twice; hang only when k iterations per tile is odd",
        "the loop over work tiles keeps its own stage index, not the pipeline state; hang from second work item on",
        "wait for parity 1 of a fresh barrier returns at once; first iteration reads nothing",
    ),
    "PIPE008": (
        "shared array is written in the next loop iteration while slow threads still read the last one; a second "
        "__syncthreads at the loop's end makes it right; block reduce called twice with the same scratch",
        "cub temp_storage reused without __syncthreads between two collective calls; results change from run to run",
        "double buffer with one barrier per iteration too few; racecheck reports WAR hazard",
        "atomic work counter in shared memory: thread 0 fetches the next index and overwrites it before all have read",
        "register or shared staging of the epilogue aliases the mainloop's operands that other warps still use",
        "local array in shared memory is zeroed for the next row before every thread added the last one",
    ),
    "PIPE009": (
        "threads of a warp exchange values through shared memory without __syncwarp; warp synchronous code, volatile, "
        "independent thread scheduling of Volta and newer; fails with -G or in debug builds, passes with compute_60",
        "reduction over the last 32 threads without sync; works on Pascal and not on Volta or later",
        "shared memory read right after it is written by other threads, missing barrier; garbage on first iteration",
        "shared accumulator or histogram is used before thread 0's initialisation is visible",
        "compiler's membar or barrier insertion misses a dependency: store to shared then load by other warps, "
        "dot operand converted through shared memory; non-deterministic, wrong for some num_warps, num_stages",
        "cp_async_wait with wrong number of groups in the last iterations of the pipelined loop; stale tile, nan",
        "AMD LDS: missing s_barrier, s_waitcnt or sched_barrier between ds_write and ds_read; direct to LDS loads not "
        "waited for; wrong results on gfx942 or gfx950 with some pipelines",
        "simd group or workgroup barrier missing, threadgroup memory read too early",
        "__syncthreads removed as an optimisation, threads of different warps share the tile; flaky test",
        "pipeline_consumer_wait or barrier.wait placed behind the first use of the buffer",
    ),
    "PIPE010": (
        "tile is produced by threads (dequantised, cast, gathered with ld.global, zero filled), then used by TMA, "
        "wgmma or UMMA; add fence.proxy.async.shared::cta before the barrier",
        "fence is issued by the thread that issues the store and not by those that wrote",
    ),
    "PIPE011": ("K and V stage is released to the producer before the warpgroup_wait of the product that reads it",),
    "PIPE012": ("cp_async_commit_group or tma_store_arrive is missing or under another predicate; wait does nothing",),
    "PIPE013": (
        "TMA store of C still reads its tile while the epilogue of the next tile writes it; tma_store_wait missing; "
        "only the last tile is right",
        "bulk reduce add from shared memory and buffer refilled before cp.async.bulk.wait_group.read",
    ),
    "PIPE014": (
        "prefetched loads that nobody waits for at the end of the kernel; loop loads past the last tile; crash",
    ),
    "PIPE015": ("block leaves the cluster while others map its shared memory; cluster.sync() needed before return",),
    "PIPE018": (
        "blocks or warps call the grid's or cluster's barrier a different number of times: loop with a trip count of "
        "its own for each block around grid.sync() or this_grid().sync(); cooperative groups deadlock",
        "__syncthreads inside if, inside a loop that some threads leave early, or after a return of threads out of "
        "range; hangs or undefined behaviour; threads with idx >= n return before the block-wide reduction",
        "shuffle or ballot with full mask 0xffffffff in divergent code, __shfl_sync of lanes that have exited; "
        "__syncwarp in a branch",
        "barrier in non-uniform control flow; workgroup barrier not reached by all work items",
        "cub BlockReduce or BlockScan called by part of the block",
        "named barrier id shared by two groups of warps, bar.sync with a number of threads that never come",
        "barrier.cta count does not match the warps of a partition; partitions each call __syncthreads",
        "numba cuda.syncthreads() in a conditional branch; kernel freezes",
        "cluster.sync or barrier.cluster.arrive executed by one warp or one partition only",
    ),
    "PIPE019": (
        "accumulator is read or rescaled before the asynchronous product has completed; warpgroup_wait<0> missing",
    ),
    "PIPE020": ("registers of wgmma changed between issue and wait; missing warpgroup_fence_operand",),
    "PIPE024": (
        "barriers initialised again for each tile or head while threads still wait on them; second kernel phase reuses "
        "barrier storage for data",
        "shared memory pool is repurposed over live mbarriers",
    ),
    "PIPE030": ("tcgen05.ld result used without tcgen05.wait::ld; tmem load reordered past its wait",),
    "PIPE032": (
        "programmatic dependent launch: kernel reads the previous kernel's output without griddepcontrol.wait or "
        "cudaGridDependencySynchronize; launch_pdl, PDL on gives NaN now and then, off is clean",
        "griddepcontrol.launch_dependents or cudaTriggerProgrammaticLaunchCompletion is executed before results are "
        "stored, dependent kernel does not wait; race between two kernels under load",
        "gdc_wait missing in one of the kernels of a chain; stale or half written activation",
        "flag or counter is set before the data stores are complete; another block or GPU reads old data; missing "
        "__threadfence, st.release, membar.gl",
        "TMA store result is consumed by the next kernel or a peer before cp.async.bulk.wait_group",
        "split-K partials or semaphore read by the last block without a fence; nondeterministic sums",
    ),
    "PIPE033": (
        "descriptor cache, workspace or graph replay: the CUtensorMap is rewritten or freed while a kernel in flight "
        "uses it; addresses of an older launch are used",
        "device-side tensormap.replace and fence.proxy.tensormap::generic.acquire missing; stale descriptor state",
        "update_tma_descriptor for grouped gemm per expert; consumer warp does not acquire",
    ),
    "PIPE034": (
        "cp.async filled shared memory is read by wgmma, mma of tcgen05 or TMA store without fence.proxy.async",
    ),
    "PIPE035": ("tcgen05 fence before_thread_sync and after_thread_sync missing around the barrier",),
    "COPY001": (
        "TMA box starts at a column that is no multiple of 16 bytes; coordinate off by a few elements; illegal "
        "instruction",
        "sub-tile or slice of the innermost dimension at an odd offset copied by cp.async.bulk.tensor",
    ),
    "COPY002": ("tma store or reduce with a negative coordinate, padding offset, illegal instruction",),
    "COPY004": (
        "smem pointer for TMA or UMMA not 128 byte aligned after other arrays were put in front; alignas missing",
    ),
    "COPY005": (
        "swizzled tile at an offset inside the 1024 byte pattern: dynamic shared memory begins after static arrays",
    ),
    "COPY006": ("expect bytes of the descriptor's box differ from what was told to the barrier; deadlock",),
    "COPY007": (
        "region in shared memory too small: one element allocated and one per stage written, later stages overwrite "
        "what follows; barriers and data overlap",
        "shared buffer sized for the input type and used for fp32; index past the tile; Invalid __shared__ write; out "
        "of range shared or local address",
        "dynamic shared memory bytes of the launch smaller than what the kernel indexes; storage computed for another "
        "tile shape or fewer warps",
        "store of fragments writes beyond the destination when the tile is smaller than the instruction's",
    ),
    "COPY008": ("tma store clobbers columns past the row's end, next tensor's data overwritten",),
    "COPY010": (
        "wrong output for transposed, sliced, expanded or channels_last input; kernel assumes stride of the last or "
        "batch dimension; call .contiguous() first; missing check of strides",
        "leading dimension passed is that of the full buffer or of another tensor; rows shifted, padded KV cache",
        "custom op returns or takes a view, inductor changes layout, kernel indexes as row-major",
        "interleaved q, k, v packed tensor, head stride assumed; batch stride times zero; wrong tensor base",
        "row major and column major swapped in a call of cuBLAS or CUTLASS, lda ldb ldc; result is transposed",
    ),
    "COPY012": (
        "data written to shared memory with one layout or permutation and read with another; swizzle on one side only; "
        "weights not shuffled or preshuffled twice",
        "ldmatrix addresses ignore the swizzle; scrambled fragments",
    ),
    "SMEM001": (
        "RESOURCE_EXHAUSTED: shared memory size limit exceeded, requested bytes; tile search of XLA, Triton emitter or "
        "autotuner does not count shared memory",
        "kernel uses more LDS than 64 KB; local memory limit exceeded; invalid configuration",
        "fails on RTX 4090, 3090, A10, L4, sm_86, sm_89, sm_120 and works on A100, H100: tile too large for 99 KB",
        "cudaFuncSetAttribute MaxDynamicSharedMemorySize returns invalid value; smem_size above 48 KB without opt in",
        "large head dim 256, block 128, num_stages 4: out of resource: shared memory, reduce block sizes",
        "too much shared data in entry function; static shared arrays",
        "hidden size or vocabulary too large for one block's shared memory in softmax, layer norm, top-k, sampling",
    ),
    "TMA001": ("tensor of 6 or more dimensions, rank must be at most 5, 2D to 5D for descriptors",),
    "TMA003": ("box dimension of 512 or tile larger than 256 elements for the tensor map; boxDim > 256",),
    "TMA004": ("data_ptr % 16 != 0, storage offset, expected data_ptr to be aligned to 16 bytes; view at odd offset",),
    "TMA005": (
        "grouped_mm, scaled_mm: strides should be multiple of 16 bytes, tensors not 16-byte aligned; trailing "
        "dimension must be divisible by 16",
        "K = 1000 fp8, N = 27 or odd vocabulary; pad to a multiple of 8 or 16; can_implement fails, alignment of ld",
        "cuBLASLt finds no algorithm, CUBLAS_STATUS_NOT_SUPPORTED, for fp8 with lda not divisible by 16",
        "TMA requires the leading dimension to be a multiple of 16 bytes",
    ),
    "TMA008": ("block of 8 bytes in the last dimension; head dim or tile of 4 fp16, at least 16 bytes",),
    "TMA009": (
        "box's inner dimension above the swizzle: 128 bytes for swizzle_128b, 64 for swizzle_64b; block_k of 128 bf16 "
        "elements; verifier demands 128 bytes of the last dimension",
    ),
    "TMA019": (
        "tensor map in a kernel parameter without __grid_constant__ const, host pointer, struct at unaligned offset, "
        "misaligned CUtensorMap, alignas(64)",
    ),
    "TMA024": ("last dimension not contiguous, stride(-1) != 1, innermost stride must be 1; column major operand",),
    "TMA037": (
        "dimension of size 1 has an arbitrary stride, which a check compares; scale of one column, batch 1, one head, "
        "K <= 128 or N <= 128; as_strided, unsqueeze, stride normalisation of size-1 axis",
    ),
    "VEC002": (
        "attention mask or bias in bf16 whose last dimension is no multiple of 8: attn_bias not aligned, xformers, "
        "memory efficient attention, stride must be a multiple of 8",
        "requires strides to be multiples of 8; channel last layout; slice of a wider projection; x.stride(0) % 8",
        "struct of three floats of 12 bytes loaded with an alignment of 16 or 12; unsafe_load, no power of two",
        "reinterpret_cast<float4*>, int4, uint4, half2, __nv_bfloat162 on a pointer with an odd offset or row length; "
        "misaligned address, Invalid __global__ read of size 16",
        "hidden size not divisible by 4 or 8 with vectorised kernel: layer norm, rotary, activation, quantisation; "
        "wrong tail",
        "aligned barrier, shared array of char cast to double or int4 without __align__",
        "ldg 128, ld.global.v4, cp.async of 16 bytes from an address that is a multiple of 4 or 8 only",
        "tensor begins at storage_offset, packed buffer or sub-batch; vector width assumed from dtype alone",
        "numba, CuPy, Julia: record or structured dtype that is not aligned, misaligned load",
    ),
    "WGMMA001": ("wgmma does not take fp64, fp32 without tf32, int4; unsupported operand type",),
    "WGMMA010": ("fp8 or tf32 operand is M- or N-major, needs transposition; only K-major B for 8 bit types",),
    "TCGEN010": (
        "scale factors passed in the wrong layout, order, type or block; 1x32 e8m0, 1x16 e4m3; padded to 128 x 4; "
        "swizzled SF tensor; garbage output of nvfp4, mxfp8 MoE",
        "scales of another expert, token or block; index into scale is wrong; global scale applied twice or inverted",
    ),
    "TOOL003": (
        "instrumentation, sanitizer or debug build needs more registers than launch bounds or setmaxnreg leave; ptxas "
        "register allocation failed, timeouts of ptxas, spills",
        "CUDA error: too many resources requested for launch: block of 1024 or 512 threads, kernel with 128 registers; "
        "debug build -G; maxThreadsPerBlock of the function",
        "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, out of resource: threads, registers per block",
        "huge unrolled kernel, compile time explodes, local memory spills, slow",
    ),
    "CUDA222": (
        "provided PTX was compiled with an unsupported toolchain; driver older than the toolkit, PTX JIT of a newer "
        "PTX version; works after a driver update or with an older CUDA toolkit",
    ),
    "CUDA720": (
        "grid barrier or grid.sync() hangs when there are more blocks than SMs times resident blocks; ordinary launch "
        "instead of cudaLaunchCooperativeKernel; works with fewer blocks",
        "cooperative launch too large, too many blocks; grid taken from the occupancy of another kernel or GPU with "
        "more SMs; cudaOccupancyMaxActiveBlocksPerMultiprocessor; debug build has more registers",
    ),
    "TOOL004": (
        "no kernel image is available for execution on the device; TORCH_CUDA_ARCH_LIST, gencode, PTX JIT",
        "kernel body is guarded by __CUDA_ARCH__ >= 900 or a feature macro and compiles to nothing: zeros, or "
        "trap; runs on other GPU",
        "instruction requires sm_90a, sm_100a, .target; not supported on sm_120, sm_89; ptxas of an older CUDA; PTX "
        "version 8.x does not know it",
        "bf16, fp8e4nv, atomicAdd of half or double not supported in this architecture",
        "check of capability is == or >= the wrong number and picks a kernel for another GPU; GB10, RTX PRO, Thor",
    ),
    "TOOL006": (
        "cannot infer or reconcile layouts of a buffer, conflicting layouts, layout inference failed; encoding "
        "mismatch of operand and memory descriptor",
    ),
    "TOOL007": (
        "number of warps not a multiple of 4, num_warps 1, 2 or 8 and wgmma, warp specialisation with partial "
        "warpgroups; thread count must be 128 or 256",
    ),
    "TOOL008": (
        "grid not a multiple of the cluster's size; grid counts clusters or blocks, multiplied twice; "
        "blocksareclusters; cluster_dims attribute and launch attribute disagree",
        "cluster size 16 without non-portable attribute; too many SMs for a GPC; cudaErrorInvalidClusterSize, cluster "
        "misconfiguration, cudaOccupancyMaxActiveClusters returns 0",
        "cluster launch on a GPU with 1x1x1 clusters only, sm_120, GeForce",
    ),
    "TOOL009": (
        "Kernel requires a runtime memory allocation, but no allocator was set; triton.set_allocator; "
        "device-made descriptors, global scratch; allocator per thread or context",
    ),
    "TOOL010": (
        "no kernel or configuration for this head dimension, group size, dtype, page size; not divisible by block or "
        "thread tile; unsupported by this backend; only 64, 128",
    ),
    "TOOL011": (
        "invalid configuration argument: grid of 0 blocks, grid y or z above 65535, block of 2048 threads, empty input",
        "nothing is launched and the output stays as it was, error is not checked; large batch times heads in grid.y",
        "number of blocks computed in int overflows or is zero; CUDA error 9, hipErrorInvalidConfiguration",
    ),
    "TOOL012": (
        "slow for one size only, power of two row of doubles or floats, threads of a warp hit the same banks; pad the "
        "shared array by one; ncu shared memory bank conflicts, l1tex data bank",
        "transpose kernel with 32 x 32 tile, stride 32 words; column reads of shared memory are serialised",
    ),
    "TOOL013": (
        "index computed in int: blockIdx.x * blockDim.x, row * stride, numel above 2^31; illegal memory access or "
        "wrong values for large tensors, batch, sequence or vocabulary only",
        "tl.program_id times stride wraps, cast to int64; offsets of more than 2147483647 elements; large KV cache",
        "size_t narrowed to int in the wrapper; negative index; 4 GB buffer; 32-bit indexing of tensor iterator",
        "cumsum or prefix of token counts in int32; expert weights of more than 2 GiB",
    ),
    "MDESC004": (
        "leading byte offset and stride byte offset swapped or computed for another tile or swizzle; wrong sums with "
        "no-swizzle or MN-major layout",
    ),
    "TMEM002": ("tcgen05.alloc waits: another CTA on the SM holds columns; 512 columns; two kernels at once; hang",),
    "TMEM006": ("tensor memory not deallocated at exit; next kernel hangs in alloc",),
    "TMEM014": ("tcgen05.alloc, dealloc or ld in a divergent branch by one elected thread",),
    "TOOL014": (
        "ptxas, cicc or clang segfaults or dies with signal 11 while it compiles the kernel; stack dump of LLVM, "
        "please "
        "submit a bug report",
        "wrong results with -O3, right with -O0, -G or -Xptxas -O1; SASS differs between two versions of CUDA; wrong "
        "code generated by ptxas; worked with the older compiler",
        "MLIR or Triton pass asserts in its own C++ file, PassManager::run failed, LLVM ERROR, optimizer crash, "
        "internal compiler error; another version of triton compiles it",
        "miscompilation: compiler moves a load across a barrier, drops a store, swaps operands; printing a value or "
        "volatile makes it right; regression of LLVM or nvcc",
        "numba, Julia or Mojo kernel gives wrong values only with optimisation, LLVM pass fuses or reorders wrongly",
        "nvcc hangs or takes all memory while it compiles, never ends",
    ),
    "TOOL015": (
        "bytes spill stores, spill loads, stack frame in ptxas -v output; kernel slow after more registers were needed",
        "local memory traffic in Nsight Compute, register spilling makes the kernel several times slower; n_spills",
        "launch bounds limit registers and the compiler spills; VGPR spill to scratch, private segment, occupancy",
        "array of a thread indexed at run time lies in local memory, slow; loop not unrolled",
        "register pressure, regression of performance after an unroll, bigger tile or new compiler",
    ),
    "TOOL016": (
        "NaN or garbage only in padded rows, tail of the last tile or unused tokens; torch.empty instead of zeros; 0 * "
        "NaN",
        "output or workspace is accumulated into with atomicAdd or += and never zeroed; right in the first run, wrong "
        "later",
        "shared memory tile has stale values behind the sequence length; masked loads without other=0; out of range "
        "keys",
        "results depend on what ran before, on memory that is fresh; different between runs; initcheck, uninitialized "
        "memory read",
        "accumulator, semaphore or counter not reset between launches; scratch buffer is reused and holds old values",
        "split-K or stream-K workspace must be zero before the launch; beta=0 multiplies uninitialised C",
    ),
    "TOOL017": (
        "kernel on one stream reads what a copy or kernel on another stream writes, no event, no synchronize; flaky",
        "cudaMemcpyAsync to the host and the value is read before cudaStreamSynchronize; stale zero on the host",
        "non-blocking stream does not wait for the default stream; memset or copy on stream 0, kernel on own stream",
        "caching allocator reuses the tensor while a side stream still uses it, record_stream missing",
        "library launches on the legacy default stream and not on torch's current stream; wrong under multi-stream or "
        "CUDA graphs, right with CUDA_LAUNCH_BLOCKING=1 or a device synchronize",
        "buffer is freed or pinned memory overwritten while an asynchronous copy is in flight",
    ),
    "TOOL018": (
        "WARP_SIZE 32 hard-coded; wrong results on AMD CDNA with wavefronts of 64 lanes, fine on NVIDIA and RDNA",
        "ballot stored in 32 bits, upper lanes lost; lane = threadIdx.x % 32; shuffle reduction of 16, 8, 4, 2, 1 on "
        "wave64",
        "static assertion on warpSize, warp size must be 32, subgroup size differs between GPUs, wave32 and wave64",
        "port of a CUDA kernel to HIP or SYCL fails on MI100, MI250, MI300, Vega, gfx90a, passes on NVIDIA",
    ),
    "TOOL019": (
        "recursive device function, stack overflow; cudaDeviceSetLimit(cudaLimitStackSize) makes the failure go away",
        "illegal address or unspecified launch failure in a kernel with deep calls, virtual functions or large local "
        "arrays; invalid __local__ write",
        "malloc or new in a kernel returns NULL after many allocations; device heap of 8 MB, cudaLimitMallocHeapSize",
        "Warp Hardware Stack Overflow, Lane User Stack Overflow; stack size cannot be statically determined",
        "setting the stack limit fails or takes all memory: the limit times all resident threads",
        "printf of a kernel loses lines: FIFO of the device is full, cudaLimitPrintfFifoSize",
    ),
    "TOOL020": (
        "Pointer argument cannot be accessed from Triton (cpu tensor?); tensor left on the CPU, .cuda() forgotten",
        "multiple GPUs: tensors on cuda:1 while the current device is cuda:0; torch.cuda.set_device, device guard "
        "missing",
        "host pointer passed to a kernel, illegal memory access at once; numpy array or vector.data() given to the "
        "device",
        "model offloaded to the CPU, device_map auto, a weight or index tensor is on cpu",
    ),
    "TOOL021": (
        "kernel reaches a small part of the bandwidth, neighbouring threads read with a large stride; uncoalesced "
        "global "
        "accesses, sectors per request, excessive sectors",
        "array of structures, column-major access from threadIdx.x, transposed read; swap of x and y makes it 10 times "
        "faster",
        "transpose or permute copy is slow, tile through shared memory makes it coalesced",
    ),
}

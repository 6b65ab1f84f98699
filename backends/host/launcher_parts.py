"""Parts of what launches a program, in C++17, that no number of the program is in.

They call the CUDA runtime. The driver's encode functions are asked of that, so that nothing links libcuda.
"""

from __future__ import annotations

from legalsat.backends.host.maps import LAST_QUIRKY_DRIVER, QUIRK_BIT
from legalsat.runtime.driver import DEFAULT_SHARED, PORTABLE_CLUSTER

MAPS = """\
// A tensor map, fastest dimension first, but for the tensor's address.
struct Map {
    CUtensorMapDataType type;
    cuuint32_t rank;
    cuuint64_t extent[5], stride[4];  // elements, bytes
    cuuint32_t box[5], step[5];
    CUtensorMapInterleave interleave;
    CUtensorMapSwizzle swizzle;
    CUtensorMapL2promotion promotion;
    CUtensorMapFloatOOBfill fill;
    bool small;  // less than 128 KiB from the first byte to the last
    int refused;  // what `run` returns if the driver does not take it
    int lower[3] = {}, upper[3] = {};  // of im2col, as what follows
    cuuint32_t channels = 0, pixels = 0;
};
""".splitlines()

LAUNCH = f"""\

std::uint64_t address(void const *pointer) {{ return reinterpret_cast<std::uint64_t>(pointer); }}

int launch(void const *kernel, dim3 grid, unsigned threads, unsigned shared, dim3 cluster, bool dependent,
           bool cooperative, void **arguments, cudaStream_t stream) {{
    unsigned const blocks = cluster.x * cluster.y * cluster.z;
    if (shared > {DEFAULT_SHARED}) {{
        int const bytes = static_cast<int>(shared);
        if (int error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)) return error;
    }}
    if (blocks > {PORTABLE_CLUSTER}) {{
        if (int error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1)) return error;
    }}
    cudaLaunchAttribute said[4] = {{}};
    cudaLaunchConfig_t config = {{}};
    if (dependent) {{  // it begins early, and waits by itself for the kernel in front of it
        said[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        said[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }}
    if (cooperative) {{
        said[config.numAttrs].id = cudaLaunchAttributeCooperative;
        said[config.numAttrs++].val.cooperative = 1;
    }}
    if (blocks > 1) {{
        said[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
        said[config.numAttrs].val.clusterDim.x = cluster.x;
        said[config.numAttrs].val.clusterDim.y = cluster.y;
        said[config.numAttrs++].val.clusterDim.z = cluster.z;
        said[config.numAttrs].id = cudaLaunchAttributeClusterSchedulingPolicyPreference;
        said[config.numAttrs++].val.clusterSchedulingPolicyPreference = cudaClusterSchedulingPolicySpread;
    }}
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = said;
    return cudaLaunchKernelExC(&config, kernel, arguments);
}}

""".splitlines()


def asked(missing: int) -> list[str]:
    """Return the function that finds one of the driver, `missing` being its code where there is none."""
    return f"""\
// Finds a function of the driver; the library need not be linked.
int asked(char const *name, void **function) {{
    cudaDriverEntryPointQueryResult status{{}};
#if CUDART_VERSION >= 12050
    cudaError_t const error = cudaGetDriverEntryPointByVersion(name, function, 12000, cudaEnableDefault, &status);
#else
    cudaError_t const error = cudaGetDriverEntryPoint(name, function, cudaEnableDefault, &status);
#endif
    if (error != cudaSuccess) return error;
    return status == cudaDriverEntryPointSuccess && *function != nullptr ? 0 : {missing};
}}
""".splitlines()


def encode(*, tiled: bool, im2col: bool) -> list[str]:
    """Return the function that encodes a map, by the driver's functions that the maps need."""
    between = "map.extent, map.stride, "
    ways = []
    for name, needed, arguments in (
        ("cuTensorMapEncodeTiled", tiled, f"{between}map.box, map.step"),
        ("cuTensorMapEncodeIm2col", im2col, f"{between}map.lower, map.upper, map.channels, map.pixels, map.step"),
    ):
        if needed:
            ways.append(
                f"""\
        static thread_local void *function = nullptr;
        if (function == nullptr) {{
            if (int error = asked("{name}", &function)) return error;
        }}
        refused = reinterpret_cast<decltype(&{name})>(function)(
            to, map.type, map.rank, reinterpret_cast<void *>(address), {arguments},
            map.interleave, map.swizzle, map.promotion, map.fill);"""
            )
    first = "    {" if len(ways) == 1 else "    if (map.channels == 0) {"
    body = f"{first}\n{ways[0]}\n    }}" + "".join(f" else {{\n{way}\n    }}" for way in ways[1:])
    return f"""\

int encode(CUtensorMap *to, Map const &map, std::uint64_t address) {{
    CUresult refused = CUDA_SUCCESS;
{body}
    if (refused != CUDA_SUCCESS) return map.refused;
    if (map.small) {{  // drivers up to 13.1 may set a bit on which Blackwell faults if the tensor is not dense
        int version = 0;
        if (int error = cudaDriverGetVersion(&version)) return error;
        if (version <= {LAST_QUIRKY_DRIVER}) to->opaque[1] &= ~(cuuint64_t{{1}} << {QUIRK_BIT});
    }}
    return 0;
}}
""".splitlines()

"""A libcuda that writes down what it is asked and owns no GPU: two devices of compute capability 9.0.

It is compiled against the real cuda.h, so that a function with the wrong types does not build, and reads launches as
the driver would, through cuda.h's structs. Sizes of parameters come from `layout`, as a test reads them off PTX; one
of several times 128 bytes is a struct of tensor maps.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from legalsat.runtime.driver import Driver

SOURCE = r"""
#include <cuda.h>

#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

namespace {
std::mutex guard;
std::ostringstream said;
std::string told;
std::map<std::string, std::vector<int>> layouts;
std::vector<std::string> functions;
thread_local std::vector<CUcontext> contexts;
cuuint64_t next_address = 0x700000000000;
int version = 13020, capability = 90, refusal = 0;

#define SAY(call)                               \
    std::lock_guard<std::mutex> held(guard);    \
    said << "\n{\"call\": \"" << call << "\""

template <class T>
void put(const char* key, T value) { said << ", \"" << key << "\": " << value; }

template <class T>
void list(const char* key, const T* values, unsigned count) {
    said << ", \"" << key << "\": [";
    for (unsigned i = 0; i < count; ++i) said << (i ? ", " : "") << values[i];
    said << "]";
}

void text(const char* key, const std::string& value) { said << ", \"" << key << "\": \"" << value << "\""; }
cuuint64_t number(const void* pointer) { return reinterpret_cast<cuuint64_t>(pointer); }
CUcontext context_of(int device) { return reinterpret_cast<CUcontext>(static_cast<cuuint64_t>(0x1000 + device)); }
cuuint64_t current() { return contexts.empty() ? 0 : number(contexts.back()); }
}  // namespace

extern "C" {
const char* recorded() {
    std::lock_guard<std::mutex> held(guard);
    told = said.str();
    said.str("");
    return told.c_str();
}
void layout(const char* entry, const int* sizes, int count) { layouts[entry].assign(sizes, sizes + count); }
void set_driver(int with_version, int with_capability, int with_refusal) {
    version = with_version, capability = with_capability, refusal = with_refusal;
}

CUresult CUDAAPI cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuDriverGetVersion(int* found) { *found = version; return CUDA_SUCCESS; }
CUresult CUDAAPI cuGetErrorName(CUresult code, const char** name) {
    *name = code == CUDA_ERROR_INVALID_VALUE ? "CUDA_ERROR_INVALID_VALUE"
            : code == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : nullptr;
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuDeviceGetCount(int* count) { *count = 2; return CUDA_SUCCESS; }
CUresult CUDAAPI cuDeviceGet(CUdevice* device, int index) { *device = index; return CUDA_SUCCESS; }
CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
    if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) *value = capability / 10;
    else if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) *value = capability % 10;
    else return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    *context = context_of(device);
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxGetCurrent(CUcontext* context) {
    *context = contexts.empty() ? nullptr : contexts.back();
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) { contexts.push_back(context); return CUDA_SUCCESS; }
CUresult CUDAAPI cuCtxPopCurrent(CUcontext* context) {
    if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    *context = contexts.back();
    contexts.pop_back();
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
    if (attribute != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL || address < 0x100000000) return CUDA_ERROR_INVALID_VALUE;
    *static_cast<int*>(data) = address >= 0x10000000000 && address < 0x20000000000 ? 1 : 0;
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void* image) {
    SAY("cuModuleLoadData");
    put("context", current());
    text("begins", std::string(static_cast<const char*>(image), 0, 4).substr(1));
    *module = reinterpret_cast<CUmodule>(current() + 0x10000);
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    SAY("cuModuleGetFunction");
    put("module", number(module));
    text("name", name);
    functions.push_back(name);
    *function = reinterpret_cast<CUfunction>(functions.size());
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    SAY("cuFuncSetAttribute");
    text("name", functions[number(function) - 1]);
    text("attribute", attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? "shared"
         : attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED ? "any cluster" : "?");
    put("value", value);
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
    SAY("cuLaunchKernelEx");
    const std::string& name = functions[number(function) - 1];
    text("name", name);
    put("context", current());
    put("stream", number(config->hStream));
    put("shared", config->sharedMemBytes);
    const unsigned grid[] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    const unsigned block[] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    list("grid", grid, 3);
    list("block", block, 3);
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        const CUlaunchAttribute& one = config->attrs[i];
        if (one.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
            const unsigned size[] = {one.value.clusterDim.x, one.value.clusterDim.y, one.value.clusterDim.z};
            list("cluster", size, 3);
        } else if (one.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
            put("dependent", one.value.programmaticStreamSerializationAllowed);
        } else if (one.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) {
            put("cooperative", one.value.cooperative);
        } else if (one.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE) {
            put("scheduling", one.value.clusterSchedulingPolicyPreference);
        } else put("unknown_attribute", one.id);
    }
    put("extra", number(extra));
    said << ", \"parameters\": [";
    const std::vector<int>& sizes = layouts[name];
    for (size_t i = 0; i < sizes.size(); ++i) {
        const size_t size = static_cast<size_t>(sizes[i]), maps = size / sizeof(CUtensorMap);
        std::vector<cuuint64_t> value(size / 8 + 1);
        std::memcpy(value.data(), parameters[i], size);
        if (i) said << ", ";
        if (maps == 0) said << value[0];
        if (maps > 1) said << "[";
        for (size_t j = 0; j < maps; ++j)
            said << (j ? ", " : "") << "{\"address\": " << value[16 * j] << ", \"word\": " << value[16 * j + 1] << "}";
        if (maps > 1) said << "]";
    }
    said << "]}";
    return static_cast<CUresult>(refusal);
}
CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType dtype, cuuint32_t rank, void* address,
                                        const cuuint64_t* dim, const cuuint64_t* stride, const cuuint32_t* box,
                                        const cuuint32_t* element_stride, CUtensorMapInterleave interleave,
                                        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                                        CUtensorMapFloatOOBfill fill) {
    SAY("cuTensorMapEncodeTiled");
    if (number(map) % 64) return CUDA_ERROR_INVALID_VALUE;
    put("address", number(address));
    list("global_dim", dim, rank);
    list("global_stride", stride, rank - 1);
    list("box", box, rank);
    list("element_stride", element_stride, rank);
    const int enums[] = {dtype, interleave, swizzle, l2, fill};
    list("enums", enums, 5);
    std::memset(map, 0xff, sizeof *map);
    map->opaque[0] = number(address);
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType dtype, cuuint32_t rank, void* address,
                                         const cuuint64_t* dim, const cuuint64_t* stride, const int* lower,
                                         const int* upper, cuuint32_t channels, cuuint32_t pixels,
                                         const cuuint32_t* element_stride, CUtensorMapInterleave interleave,
                                         CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2,
                                         CUtensorMapFloatOOBfill fill) {
    SAY("cuTensorMapEncodeIm2col");
    if (number(map) % 64) return CUDA_ERROR_INVALID_VALUE;
    put("address", number(address));
    list("global_dim", dim, rank);
    list("global_stride", stride, rank - 1);
    list("lower_corner", lower, rank - 2);
    list("upper_corner", upper, rank - 2);
    put("channels", channels);
    put("pixels", pixels);
    list("element_stride", element_stride, rank);
    const int enums[] = {dtype, interleave, swizzle, l2, fill};
    list("enums", enums, 5);
    std::memset(map, 0xff, sizeof *map);
    map->opaque[0] = number(address);
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* address, size_t size, CUstream stream) {
    SAY("cuMemAllocAsync");
    put("size", size);
    put("stream", number(stream));
    put("context", current());
    *address = next_address;
    put("address", next_address);
    next_address += 0x1000000;
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
    SAY("cuMemFreeAsync");
    put("address", address);
    put("stream", number(stream));
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t size, CUstream stream) {
    SAY("cuMemsetD8Async");
    put("address", address);
    put("value", static_cast<int>(value));
    put("size", size);
    put("stream", number(stream));
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuEventCreate(CUevent* event, unsigned) { *event = reinterpret_cast<CUevent>(7); return CUDA_SUCCESS; }
CUresult CUDAAPI cuEventDestroy(CUevent) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuEventRecord(CUevent, CUstream stream) {
    SAY("cuEventRecord");
    put("stream", number(stream));
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent, unsigned) {
    SAY("cuStreamWaitEvent");
    put("stream", number(stream));
    return CUDA_SUCCESS;
}
}
"""


class RecordingDriver(Driver):
    """The library above as the runtime loads libcuda."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.recorded.restype = ctypes.c_char_p
        super().__init__(str(path))

    def calls(self, *names: str) -> list[dict[str, Any]]:
        """Return what was asked since the last time; of these functions alone, where some are named."""
        lines = self._library.recorded().decode().splitlines()
        found = [json.loads(line if line.endswith("]}") else line + "}") for line in lines if line]
        return [one for one in found if not names or one["call"] in names]

    def layout(self, ptx: str) -> None:
        """Learn the sizes of each kernel's parameters from its PTX."""
        for entry, parameters in re.findall(r"\.entry (\w+)\s*\((.*?)\)", ptx, re.DOTALL):
            sizes = [
                int(bits) // 8 * int(count or 1)
                for bits, count in re.findall(r"\.param.*?\.[bu](\d+)\s[^,\[]*(?:\[(\d+)\])?", parameters)
            ]
            self._library.layout(entry.encode(), (ctypes.c_int * len(sizes))(*sizes), len(sizes))

    def become(self, *, version: int = 13020, capability: int = 90, refusal: int = 0) -> None:
        """Be another driver or GPU, or one that answers launches with an error."""
        self._library.set_driver(version, capability, refusal)


def build(folder: Path) -> RecordingDriver:
    """Compile the library with every warning an error, and load it."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None or shutil.which("g++") is None:
        pytest.skip("the recording driver needs g++, and triton's wheel for cuda.h")
    headers = Path(spec.origin).parent / "backends" / "nvidia" / "include"
    source, library = folder / "driver.cpp", folder / "librecording.so"
    source.write_text(SOURCE)
    strict = ("-std=c++17", "-Wall", "-Wextra", "-Werror", f"-isystem{headers}", "-shared", "-fPIC")
    built = subprocess.run(
        ["g++", *strict, str(source), "-o", str(library)], capture_output=True, text=True, check=False
    )
    assert not built.returncode, built.stderr
    return RecordingDriver(library)

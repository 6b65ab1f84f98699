"""A libcudart that hands on to the recording libcuda what emitted host code asks of it."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
from recording_driver import RecordingDriver

from legalsat.backends.cute.compile import CompilationFailed, nvcc
from legalsat.backends.host.launcher import Launcher
from legalsat.runtime.open_program import OpenProgram
from legalsat.runtime.program import MapArgument, MapsArgument, NumberArgument, Program
from legalsat.runtime.schedule import Schedule

RUNTIME = r"""
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstring>

void const *kernel_named(char const *name) {
    CUfunction found;
    cuModuleGetFunction(&found, nullptr, name);
    return found;
}

extern "C" {
cudaError_t cudaGetDriverEntryPointByVersion(char const *name, void **found, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult *status) {
    *found = std::strcmp(name, "cuTensorMapEncodeTiled") ? reinterpret_cast<void *>(&cuTensorMapEncodeIm2col)
                                                         : reinterpret_cast<void *>(&cuTensorMapEncodeTiled);
    *status = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) { return static_cast<cudaError_t>(cuDriverGetVersion(version)); }
char const *cudaGetErrorString(cudaError_t) { return "an error of the runtime"; }
cudaError_t cudaFuncSetAttribute(void const *function, cudaFuncAttribute attribute, int value) {
    CUfunction_attribute const known = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize
                                           ? CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                                           : CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
    return static_cast<cudaError_t>(
        cuFuncSetAttribute(reinterpret_cast<CUfunction>(const_cast<void *>(function)), known, value));
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t size, cudaStream_t stream) {
    return static_cast<cudaError_t>(
        cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(to), static_cast<unsigned char>(value), size, stream));
}
cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const *given, void const *function, void **arguments) {
    static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute), "they are the same");
    CUlaunchAttribute attributes[8];
    std::memcpy(attributes, given->attrs, given->numAttrs * sizeof *attributes);
    CUlaunchConfig config{};
    config.gridDimX = given->gridDim.x, config.gridDimY = given->gridDim.y, config.gridDimZ = given->gridDim.z;
    config.blockDimX = given->blockDim.x, config.blockDimY = given->blockDim.y, config.blockDimZ = given->blockDim.z;
    config.sharedMemBytes = static_cast<unsigned>(given->dynamicSmemBytes);
    config.hStream = given->stream;
    config.attrs = attributes;
    config.numAttrs = given->numAttrs;
    return static_cast<cudaError_t>(
        cuLaunchKernelEx(&config, reinterpret_cast<CUfunction>(const_cast<void *>(function)), arguments, nullptr));
}
}
"""


def learn(driver: RecordingDriver, *programs: Program | OpenProgram) -> None:
    """Tell the driver how long each kernel's parameters are."""
    # Of kernels with one name the driver knows one; what runs in front takes the fewest parameters.
    for _, recipe in (launch for one in programs for launch in reversed(Launcher(one).launches)):
        sizes = [
            128 * len(argument.maps)
            if isinstance(argument, MapsArgument)
            else 128
            if isinstance(argument, MapArgument)
            else int(argument.type.strip("uifp")) // 8
            if isinstance(argument, NumberArgument)
            else 8
            for argument in recipe.arguments
        ]
        text = ", ".join(f".param .b8 p{n}[{size}]" for n, size in enumerate(sizes))
        driver.layout(f".entry {recipe.entry}({text})")


def build(program: Program | Schedule | OpenProgram, folder: Path) -> ctypes.CDLL:
    """Compile what launches programs with every warning an error, and load it; the recording driver is loaded."""
    try:
        compiler = nvcc()
    except CompilationFailed as error:
        pytest.skip(str(error))
    made = Launcher(program)
    kernels = {(turn.program.text, recipe.entry): f'kernel_named("{recipe.entry}")' for turn, recipe in made.launches}
    number = len(list(folder.glob("*.so")))
    source, library = folder / f"run{number}.cpp", folder / f"librun{number}.so"
    source.write_text(RUNTIME + made.text(kernels))
    strict = ["-std=c++17", "-cudart=none", "-shared", "-Xcompiler=-Wall,-Wextra,-Werror,-fPIC"]
    done = subprocess.run(
        [compiler, *strict, str(source), str(folder / "librecording.so"), "-Xlinker=-Bsymbolic", "-o", str(library)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    found = ctypes.CDLL(str(library))
    found.workspace_bytes.restype, found.message.restype = ctypes.c_size_t, ctypes.c_char_p
    return found

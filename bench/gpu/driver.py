"""A thin wrapper of libcuda, for measurements on a machine that has a GPU and Python but not LegalSAT's dependencies.

    device = Device()
    kernel = device.load(cubin).kernel("name")
    kernel(device.encode(arguments), pointer, c_uint32(7), grid=(1,), block=(128,), shared=65536)
    device.synchronize()

It uses the primary context, as torch does, so pointers of torch tensors can be passed as plain ints. An error of an
asynchronous kernel is sticky: nothing works in that process any more, so risky kernels go into processes of their own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from typing import Any

MAP_BYTES = 128
_MAP_ALIGNMENT = 64
_MOST_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_DEFAULT_SHARED = 48 * 1024  # a block has no more without opting in


class DriverError(RuntimeError):
    """A call of the driver failed; `name` is its CUresult, such as "CUDA_ERROR_MISALIGNED_ADDRESS"."""

    def __init__(self, call: str, code: int, name: str) -> None:
        """Take the call's name, and its CUresult as number and as name."""
        super().__init__(f"{call}: {name} ({code})")
        self.code, self.name = code, name


class Device:
    """GPU 0 and its primary context."""

    def __init__(self, index: int = 0) -> None:
        """Open a GPU; raises `OSError` where there is no driver and `DriverError` where there is no GPU."""
        self._cuda = ctypes.CDLL("libcuda.so.1")
        handle, context = c_int(), c_void_p()
        self.call("cuInit", c_uint(0))
        self.call("cuDeviceGet", byref(handle), c_int(index))
        self.call("cuDevicePrimaryCtxRetain", byref(context), handle)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver; raises `DriverError` unless it succeeds."""
        code = getattr(self._cuda, name)(*arguments)
        if code:
            text = c_char_p()
            self._cuda.cuGetErrorName(c_int(code), byref(text))
            raise DriverError(name, code, (text.value or b"unknown").decode())

    def load(self, image: bytes) -> Module:
        """Return the module of a cubin, or of PTX text, which the driver then assembles."""
        module = c_void_p()
        self.call("cuModuleLoadData", byref(module), c_char_p(image + b"\0"))
        return Module(self, module)

    def allocate(self, size: int) -> int:
        """Return the address of `size` new bytes."""
        pointer = c_uint64()
        self.call("cuMemAlloc_v2", byref(pointer), c_size_t(size))
        return pointer.value

    def free(self, pointer: int) -> None:
        """Give the bytes of `allocate` back."""
        self.call("cuMemFree_v2", c_uint64(pointer))

    def write(self, pointer: int, data: bytes) -> None:
        """Copy bytes to the GPU."""
        self.call("cuMemcpyHtoD_v2", c_uint64(pointer), c_char_p(data), c_size_t(len(data)))

    def read(self, pointer: int, size: int) -> bytes:
        """Copy bytes from the GPU, once all kernels are done."""
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", data, c_uint64(pointer), c_size_t(size))
        return data.raw

    def synchronize(self) -> None:
        """Wait for all kernels; raises `DriverError` with what befell them."""
        self.call("cuCtxSynchronize")

    def encode(self, arguments: Mapping[str, Any], address: int | None = None) -> bytes:
        """Return the 128 bytes of a tiled tensor map.

        Args:
            arguments: as `map_arguments` returns them: driver's enum values and plain ints.
            address: of the tensor, instead of the one in `arguments`.
        """
        buffer = ctypes.create_string_buffer(MAP_BYTES + _MAP_ALIGNMENT)
        place = -(-ctypes.addressof(buffer) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT
        rank = len(arguments["global_dim"])
        self.call(
            "cuTensorMapEncodeTiled",
            c_void_p(place),
            c_int(arguments["dtype"]),
            c_uint32(rank),
            c_void_p(arguments["address"] if address is None else address),
            (c_uint64 * rank)(*arguments["global_dim"]),
            (c_uint64 * max(rank - 1, 1))(*arguments["global_stride"]),
            (c_uint32 * rank)(*arguments["box"]),
            (c_uint32 * rank)(*arguments["element_stride"]),
            *(c_int(arguments[name]) for name in ("interleave", "swizzle", "l2_promotion", "oob_fill")),
        )
        return ctypes.string_at(place, MAP_BYTES)


class Module:
    """A loaded module."""

    def __init__(self, device: Device, handle: c_void_p) -> None:
        """Take the device and the driver's handle; `Device.load` makes it."""
        self._device, self._handle = device, handle

    def kernel(self, name: str) -> Kernel:
        """Return the kernel called `name`."""
        handle = c_void_p()
        self._device.call("cuModuleGetFunction", byref(handle), self._handle, c_char_p(name.encode()))
        return Kernel(self._device, handle)


class Kernel:
    """A kernel that can be called."""

    def __init__(self, device: Device, handle: c_void_p) -> None:
        """Take the device and the driver's handle; `Module.kernel` makes it."""
        self._device, self._handle = device, handle
        self._shared = _DEFAULT_SHARED

    def __call__(
        self, *arguments: Any, grid: Sequence[int], block: Sequence[int], shared: int = 0, stream: int = 0
    ) -> None:
        """Launch.

        Args:
            arguments: an int is 64 bits wide, as pointers are; a ctypes value is itself; bytes are passed by value,
                which is how a kernel takes a tensor map as `.param .align 64 .b8 map[128]`.
            grid: blocks, up to three numbers.
            block: threads, up to three numbers.
            shared: bytes of dynamic shared memory; what a block has by default is raised where that is too little.
            stream: the driver's handle, 0 for the default stream.
        """
        if shared > self._shared:
            self._device.call("cuFuncSetAttribute", self._handle, c_int(_MOST_DYNAMIC_SHARED), c_int(shared))
            self._shared = shared
        held = [_value(argument) for argument in arguments]
        pointers = (c_void_p * max(len(held), 1))(*(ctypes.addressof(value) for value in held))
        extents = [c_uint(n) for shape in (grid, block) for n in (*shape, 1, 1)[:3]]
        self._device.call(
            "cuLaunchKernel",
            self._handle,
            *extents,
            c_uint(shared),
            c_void_p(stream),
            ctypes.cast(pointers, POINTER(c_void_p)),
            c_void_p(None),
        )


def _value(argument: Any) -> Any:
    if isinstance(argument, bytes):
        return ctypes.create_string_buffer(argument, len(argument))
    return c_uint64(argument) if isinstance(argument, int) else argument


def map_arguments(tm: Any) -> dict[str, Any]:
    """Return a tiled `legalsat.TensorMap` as plain values that JSON holds, for `Device.encode`."""
    from legalsat.tensor_map import driver_value  # noqa: PLC0415  # where it is prepared; runs need no LegalSAT

    enums = ("dtype", "interleave", "swizzle", "l2_promotion", "oob_fill")
    numbers = ("global_dim", "global_stride", "box", "element_stride")
    return {
        **{name: driver_value(name, getattr(tm, name)) for name in enums},
        **{name: list(getattr(tm, name)) for name in numbers},
        "address": tm.address,
    }

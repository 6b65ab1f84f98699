"""GPU 0 for measurements: what `legalsat.runtime.driver` has, with memory and launches of single kernels.

    device = Device()
    kernel = device.load(cubin).kernel("name")
    kernel(device.encode(arguments), pointer, c_uint32(7), grid=(1,), block=(128,), shared=65536)
    device.synchronize()

It needs Python and a driver, and none of LegalSAT's dependencies. Pointers of torch tensors can be passed as ints. An
error of an asynchronous kernel is sticky: nothing works in that process any more, so risky kernels go into processes
of their own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_size_t, c_uint64, c_void_p
from typing import Any

from legalsat.runtime.driver import MAP_BYTES, DriverError, launch_config, map_arguments, the_driver

__all__ = ["MAP_BYTES", "Device", "DriverError", "Kernel", "Module", "map_arguments"]


class Device:
    """A GPU, its primary context being this thread's current one."""

    def __init__(self, index: int = 0) -> None:
        """Open a GPU; raises `OSError` where there is no driver or no GPU."""
        self._device = the_driver().device(index)
        self.call = self._device.call
        self.call("cuCtxSetCurrent", c_void_p(self._device.context))

    def load(self, image: bytes) -> Module:
        """Return the module of a cubin, or of PTX text, which the driver then assembles."""
        return Module(self, self._device.load(image))

    def function(self, module: int, name: str, shared: int) -> c_void_p:
        """Return the handle of a kernel that may be launched with these bytes of dynamic shared memory."""
        return self._device.function(module, name, shared=shared)

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
        """Return the 128 bytes of a tiled tensor map; see `legalsat.runtime.driver.Device.encode`."""
        return self._device.encode(arguments, address)


class Module:
    """A loaded module."""

    def __init__(self, device: Device, handle: int) -> None:
        """Take the device and the driver's handle; `Device.load` makes it."""
        self._device, self._handle = device, handle

    def kernel(self, name: str) -> Kernel:
        """Return the kernel called `name`."""
        return Kernel(self._device, self._handle, name)


class Kernel:
    """A kernel that can be called."""

    def __init__(self, device: Device, module: int, name: str) -> None:
        """Take the device, the module's handle and the kernel's name; `Module.kernel` makes it."""
        self._device, self._module, self._name = device, module, name
        self._shared = 0
        self._handle = device.function(module, name, 0)

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
            self._handle = self._device.function(self._module, self._name, shared)
            self._shared = shared
        held = [_value(argument) for argument in arguments]
        pointers = (c_void_p * max(len(held), 1))(*(ctypes.addressof(value) for value in held))
        config = launch_config(grid, block, shared, stream, {})
        self._device.call(
            "cuLaunchKernelEx",
            byref(config),
            self._handle,
            ctypes.cast(pointers, POINTER(c_void_p)),
            c_void_p(None),
        )


def _value(argument: Any) -> Any:
    if isinstance(argument, bytes):
        return ctypes.create_string_buffer(argument, len(argument))
    return c_uint64(argument) if isinstance(argument, int) else argument

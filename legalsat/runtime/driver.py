"""A thin wrapper of libcuda: devices and their primary contexts, modules, launches, tensor maps.

It uses primary contexts, as torch does, so that addresses and streams of torch are its own. An error of an asynchronous
kernel is sticky: nothing works in that process any more. Needs nothing but Python, and a driver once it is called.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint32, c_uint64, c_void_p
from functools import lru_cache
from typing import Any

from legalsat.errors import LegalSatError

LIBRARY = "libcuda.so.1"
MAP_BYTES = 128
DEFAULT_SHARED = 48 * 1024  # a block has no more without opting in
PORTABLE_CLUSTER = 8  # blocks; more must be asked for
# CUdevice_attribute, CUfunction_attribute and CUpointer_attribute of cuda.h.
_MAJOR, _MINOR = 75, 76
_MOST_DYNAMIC_SHARED, _ANY_CLUSTER_SIZE = 8, 14
_POINTER_DEVICE = 9
_EVENT_WITHOUT_TIME = 2
_MAP_ALIGNMENT = 64
_NEEDED, _NEEDED_CUDA = ("cuLaunchKernelEx", "cuTensorMapEncodeTiled"), 12  # the youngest functions that are called


class NoDriver(LegalSatError, OSError):
    """There is no NVIDIA driver, or it sees no such GPU; run where one is."""


class DriverError(LegalSatError, RuntimeError):
    """A call of the driver failed; `name` is its CUresult, such as "CUDA_ERROR_MISALIGNED_ADDRESS"."""

    def __init__(self, call: str, code: int, name: str, then: str = "") -> None:
        """Take the call's name, its CUresult as number and as name, and what to do about it."""
        super().__init__(f"{call}: {name} ({code})" + (f"; {then}" if then else ""))
        self.code, self.name = code, name


_THEN = {
    "CUDA_ERROR_OUT_OF_MEMORY": "free memory of the GPU",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "plan for the architecture of this GPU",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "install a newer driver, or triton, whose ptxas assembles beforehand",
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": "call the kernel once before the stream is captured",
}


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute: a number and up to 64 bytes."""

    _fields_ = (("id", c_int), ("_pad", c_int), ("value", c_uint32 * 16))


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig; `kept` is the memory that it points to."""

    kept: Any
    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("count", c_uint),
    )


# CUlaunchAttributeID of cuda.h.
COOPERATIVE, CLUSTER, SCHEDULING, DEPENDENT = 2, 4, 5, 6


def launch_config(
    grid: Sequence[int],
    block: Sequence[int],
    shared: int,
    stream: int,
    attributes: Mapping[int, Sequence[int]],
) -> LaunchConfig:
    """Return the driver's description of a launch; `attributes` are 32-bit words by their id."""
    several = (LaunchAttribute * max(len(attributes), 1))()
    for one, (number, words) in zip(several, attributes.items(), strict=False):
        one.id = number
        for i, word in enumerate(words):
            one.value[i] = word
    config = LaunchConfig()
    config.grid[:] = (*grid, 1, 1)[:3]
    config.block[:] = (*block, 1, 1)[:3]
    config.shared, config.stream, config.count = shared, stream, len(attributes)
    config.attributes = ctypes.cast(several, ctypes.POINTER(LaunchAttribute))
    config.kept = several
    return config


class Driver:
    """A loaded libcuda."""

    def __init__(self, library: str = LIBRARY) -> None:
        """Load the driver.

        Raises:
            NoDriver: there is no such library, one that is too old, or no GPU.
        """
        try:
            self._cuda = ctypes.CDLL(library)
        except OSError:
            raise NoDriver(
                f"no NVIDIA driver was found ({library}); run where a GPU is, or in a container that is given one"
            ) from None
        if missing := [name for name in _NEEDED if not hasattr(self._cuda, name)]:
            raise NoDriver(f"{library} lacks {', '.join(missing)}; install a driver of CUDA {_NEEDED_CUDA} or later")
        self.launch = self._cuda.cuLaunchKernelEx
        self.current = self._cuda.cuCtxGetCurrent
        self._devices: dict[int, Device] = {}
        self._lock = threading.Lock()
        try:
            self.call("cuInit", c_uint(0))
            self.count = self.number("cuDeviceGetCount")
        except DriverError as error:
            raise NoDriver(f"the NVIDIA driver sees no GPU ({error}); run where one is") from None

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver; raises `DriverError` unless it succeeds."""
        self.check(name, getattr(self._cuda, name)(*arguments))

    def check(self, name: str, code: int) -> None:
        """Raise `DriverError` unless `code`, what the function `name` returned, is success."""
        if code:
            text = c_char_p()
            self._cuda.cuGetErrorName(c_int(code), byref(text))
            said = (text.value or b"unknown").decode()
            raise DriverError(name, code, said, _THEN.get(said, ""))

    def number(self, name: str, *arguments: Any) -> int:
        """Return the int that a function of the driver writes through its first argument."""
        found = c_int()
        self.call(name, byref(found), *arguments)
        return found.value

    @property
    def version(self) -> int:
        """CUDA's version that the driver knows, 13010 for 13.1."""
        return self.number("cuDriverGetVersion")

    def device(self, index: int = 0) -> Device:
        """Return a GPU; raises `NoDriver` where there is none of that number."""
        with self._lock:
            if index not in self._devices:
                if not 0 <= index < self.count:
                    raise NoDriver(f"there is no GPU {index}, the driver sees {self.count}; name another one")
                self._devices[index] = Device(self, index)
            return self._devices[index]

    def device_of(self, address: int) -> int | None:
        """Return the number of the GPU in whose memory an address lies, None where the driver knows no such memory."""
        try:
            return self.number("cuPointerGetAttribute", c_int(_POINTER_DEVICE), c_uint64(address))
        except DriverError:
            return None


@lru_cache(maxsize=1)
def the_driver() -> Driver:
    """Return the one driver of this process; raises `NoDriver` where there is none."""
    return Driver()


class Device:
    """A GPU and its primary context."""

    def __init__(self, driver: Driver, index: int) -> None:
        """Retain the context; `Driver.device` makes it."""
        self.driver, self.index, self.call = driver, index, driver.call
        handle, context = driver.number("cuDeviceGet", c_int(index)), c_void_p()
        driver.call("cuDevicePrimaryCtxRetain", byref(context), c_int(handle))
        self.context: int = context.value or 0
        self.capability = tuple(
            driver.number("cuDeviceGetAttribute", c_int(attribute), c_int(handle)) for attribute in (_MAJOR, _MINOR)
        )

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Make the context this thread's current one for a block."""
        before = c_void_p()
        self.call("cuCtxGetCurrent", byref(before))
        if before.value == self.context:
            yield
            return
        self.call("cuCtxPushCurrent_v2", c_void_p(self.context))
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", byref(before))

    def require(self, architecture: str) -> None:
        """Raise `LegalSatError` unless this GPU runs images for an architecture such as "sm_90a"."""
        found = re.fullmatch(r"sm_(\d+)(\d)([af]?)", architecture)
        if not found:
            raise LegalSatError(f"image is for {architecture}, which no NVIDIA GPU is; plan for another target")
        wanted = int(found[1]), int(found[2])
        major, minor = self.capability
        if major != wanted[0] or minor < wanted[1] or (found[3] == "a" and minor != wanted[1]):
            raise LegalSatError(f"image is for {architecture}, GPU {self.index} is sm_{major}{minor}; plan for that")

    def load(self, image: bytes) -> int:
        """Return the driver's handle of a module: of a cubin, or of PTX text, which the driver then assembles."""
        module = c_void_p()
        with self.entered():
            self.call("cuModuleLoadData", byref(module), c_char_p(image + b"\0"))
        return module.value or 0

    def function(self, module: int, name: str, *, shared: int = 0, cluster: int = 1) -> c_void_p:
        """Return the handle of a kernel that may be launched with these bytes of dynamic shared memory.

        Args:
            module: what `load` returned.
            name: of the kernel.
            shared: bytes; what a block has by default is raised where that is too little.
            cluster: blocks of a cluster.
        """
        handle = c_void_p()
        with self.entered():
            self.call("cuModuleGetFunction", byref(handle), c_void_p(module), c_char_p(name.encode()))
            if shared > DEFAULT_SHARED:
                self.call("cuFuncSetAttribute", handle, c_int(_MOST_DYNAMIC_SHARED), c_int(shared))
            if cluster > PORTABLE_CLUSTER:
                self.call("cuFuncSetAttribute", handle, c_int(_ANY_CLUSTER_SIZE), c_int(1))
        return handle

    def allocate(self, size: int, stream: int) -> int:
        """Return the address of new bytes, there from this place in the stream on."""
        pointer = c_uint64()
        with self.entered():
            self.call("cuMemAllocAsync", byref(pointer), c_size_t(size), c_void_p(stream))
        return pointer.value

    def free(self, pointer: int, stream: int) -> None:
        """Give the bytes of `allocate` back at this place in the stream."""
        with self.entered():
            self.call("cuMemFreeAsync", c_uint64(pointer), c_void_p(stream))

    def clear(self, pointer: int, size: int, stream: int) -> None:
        """Fill bytes with zeros, in the stream."""
        with self.entered():
            self.call("cuMemsetD8Async", c_uint64(pointer), c_ubyte(0), c_size_t(size), c_void_p(stream))

    def follow(self, stream: int, other: int) -> None:
        """Let what comes next in a stream wait for what is in the other one now."""
        event = c_void_p()
        with self.entered():
            self.call("cuEventCreate", byref(event), c_uint(_EVENT_WITHOUT_TIME))
            self.call("cuEventRecord", event, c_void_p(other))
            self.call("cuStreamWaitEvent", c_void_p(stream), event, c_uint(0))
            self.call("cuEventDestroy_v2", event)

    def encode(self, arguments: Mapping[str, Any], address: int | None = None) -> bytes:
        """Return the 128 bytes of a tensor map, tiled or im2col.

        Args:
            arguments: as `map_arguments` returns them: driver's enum values and plain ints.
            address: of the tensor, instead of the one in `arguments`.
        """
        buffer = ctypes.create_string_buffer(MAP_BYTES + _MAP_ALIGNMENT)
        place = -(-ctypes.addressof(buffer) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT
        rank = len(arguments["global_dim"])
        if "box" in arguments:
            function, taken = "cuTensorMapEncodeTiled", list[Any]([(c_uint32 * rank)(*arguments["box"])])
        else:
            function = "cuTensorMapEncodeIm2col"
            taken = [(c_int * (rank - 2))(*arguments[name]) for name in ("lower_corner", "upper_corner")]
            taken += [c_uint32(arguments[name]) for name in ("channels", "pixels")]
        with self.entered():  # a thread that has called nothing yet has no context, as autograd's
            self.call(
                function,
                c_void_p(place),
                c_int(arguments["dtype"]),
                c_uint32(rank),
                c_void_p(arguments["address"] if address is None else address),
                (c_uint64 * rank)(*arguments["global_dim"]),
                (c_uint64 * max(rank - 1, 1))(*arguments["global_stride"]),
                *taken,
                (c_uint32 * rank)(*arguments["element_stride"]),
                *(c_int(arguments[name]) for name in ("interleave", "swizzle", "l2_promotion", "oob_fill")),
            )
        return ctypes.string_at(place, MAP_BYTES)


def map_arguments(tm: Any) -> dict[str, Any]:
    """Return a `legalsat.TensorMap` as plain values that JSON holds, for `Device.encode`."""
    from legalsat.units.tensor_map import driver_value  # noqa: PLC0415 - with numpy, which the rest here can do without

    enums = ("dtype", "interleave", "swizzle", "l2_promotion", "oob_fill")
    tiled = tm.mode == "tiled"
    shape = ("box",) if tiled else ("lower_corner", "upper_corner")
    numbers = ("global_dim", "global_stride", *shape, "element_stride")
    columns = {} if tiled else {"channels": tm.channels, "pixels": tm.pixels}
    return {
        **{name: driver_value(name, getattr(tm, name)) for name in enums},
        **{name: list(getattr(tm, name)) for name in numbers},
        **columns,
        "address": tm.address,
    }

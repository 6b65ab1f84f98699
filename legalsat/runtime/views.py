"""Reads arrays as a kernel needs them: where they are, and whether they are what the kernel was planned for.

torch tensors by their methods, others by DLPack or `__cuda_array_interface__`, whose streams are waited for.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from legalsat.arrays import Description, describe, read_capsule
from legalsat.errors import InvalidInput
from legalsat.printable import shown
from legalsat.runtime.driver import Driver
from legalsat.runtime.program import Operand
from legalsat.tensor import plain

# What torch calls our types, as far as one element is one of its own.
TORCH_NAMES = {
    "bool": "bool",
    "u8": "uint8",
    "i8": "int8",
    "u16": "uint16",
    "i16": "int16",
    "u32": "uint32",
    "i32": "int32",
    "u64": "uint64",
    "i64": "int64",
    "fp16": "float16",
    "bf16": "bfloat16",
    "tf32": "float32",
    "fp32": "float32",
    "fp64": "float64",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e8m0": "float8_e8m0fnu",
}
_CUDA = 2  # of DLDeviceType, dlpack.h
_LEGACY_STREAM = 1  # as DLPack numbers the default stream, which is 0 for the driver


class Mismatch(InvalidInput):
    """An array is not what a kernel was planned for; the message says what differs and what to do."""


@dataclass(frozen=True, slots=True)
class View:
    """An array: its address, the GPU that has it (None for the host), its layout, and what keeps it alive."""

    address: int
    device: int | None
    layout: Description
    owner: Any


def torch_or_none() -> Any:
    """Return torch if this process has imported it, else None: nobody passes a tensor of it without."""
    return sys.modules.get("torch")


def view_of(array: Any, driver: Driver | None, stream: int) -> View:
    """Return where an array is; what its producer's stream still does to it, `stream` will wait for.

    Raises:
        InvalidInput: it does not describe itself.
    """
    if hasattr(array, "data_ptr") and hasattr(array, "stride"):
        device = array.device.index if array.device.type == "cuda" else None
        return View(array.data_ptr(), device, describe(array), array)
    if hasattr(array, "__cuda_array_interface__"):
        return _interface(array, driver, stream)
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        kind, number = array.__dlpack_device__()
        if int(kind) == _CUDA:
            capsule = array.__dlpack__(stream=stream or _LEGACY_STREAM)
            layout, address = read_capsule(capsule)
            return View(address, int(number), layout, capsule)
    layout = describe(array)  # says what is wrong with whatever is no array
    interface = getattr(array, "__array_interface__", {"data": (0, False)})
    return View(interface["data"][0], None, layout, array)


def _interface(array: Any, driver: Driver | None, stream: int) -> View:
    layout, interface = describe(array), array.__cuda_array_interface__
    address = interface["data"][0]
    device = None if driver is None else driver.device_of(address)
    theirs = interface.get("stream")
    if driver is not None and device is not None and theirs is not None:
        ours = stream or _LEGACY_STREAM
        if theirs != ours:
            driver.device(device).follow(stream, theirs)
    return View(address, device, layout, array)


def check(operand: Operand, view: View, device: int | None) -> None:
    """Raise `Mismatch` unless an array is the operand that was planned, on this GPU; None for the host."""
    name, tensor, found = operand.name, operand.tensor, view.layout
    if view.device != device:
        here = "in the host's memory" if view.device is None else f"on GPU {view.device}"
        if device is None:
            raise Mismatch(f"{name} is {here}; pass arrays in the host's memory to Triton's interpreter")
        raise Mismatch(f"{name} is {here}; move it to GPU {device}, where the rest is")
    dtype = "fp32" if tensor.dtype.name == "tf32" else tensor.dtype.name
    if found.dtype.name not in {dtype, tensor.dtype.name}:
        raise Mismatch(f"{name} holds {found.dtype}, this kernel is for {tensor.dtype}; convert it, or plan for that")
    shape, strides = plain(tensor.shape), plain(tensor.strides)
    if found.shape != shape:
        raise Mismatch(f"{name} has shape {found.shape}, this kernel is for {shape}; plan for that")
    theirs = found.strides or _dense(shape)
    if not same_strides(shape, theirs, strides):
        raise Mismatch(
            f"{name} has strides {theirs}, this kernel is for {strides}, in elements; copy it to those, or plan for "
            "these (legalsat.Tensor.from_array)"
        )
    if (view.address - tensor.offset) % tensor.align:
        raise Mismatch(
            f"{name} starts {view.address % tensor.align} bytes past a multiple of {tensor.align}, this kernel is for "
            f"{tensor.offset}; copy it to memory of its own, or plan for that (legalsat.Tensor.from_array)"
        )
    for lazy in ("conj", "neg"):
        if getattr(view.owner, f"is_{lazy}", bool)():
            raise Mismatch(f"{name} is a lazy view of other numbers; resolve it first, with resolve_{lazy}()")


def same_strides(shape: tuple[int, ...], one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether strides mean the same; those of axes of one element mean nothing."""
    return all(n == 1 or s == t for n, s, t in zip(shape, one, other, strict=True))


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps = [1]
    for extent in reversed(shape[1:]):
        steps.append(steps[-1] * extent)
    return tuple(reversed(steps)) if shape else ()


def stream_of(stream: Any) -> int:
    """Return the driver's handle of a stream: an int, or torch's, CuPy's, Numba's or cuda.core's."""
    if isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "ptr", "handle"):
        found = getattr(stream, name, None)
        found = getattr(found, "value", found)
        if isinstance(found, int):
            return found
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    raise InvalidInput(f"stream is {shown(stream)}; give the driver's handle as an int, or a torch.cuda.Stream")

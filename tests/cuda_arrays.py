"""Arrays of a GPU that is not there: addresses that describe themselves as CuPy's and JAX's do."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

CUDA = 2  # kDLCUDA of dlpack.h
# DLDataTypeCode and bits
CODES = {"bf16": (4, 16), "fp16": (2, 16), "fp32": (2, 32), "i8": (0, 8), "i32": (0, 32), "e4m3": (10, 8)}
TYPE_STRINGS = {"fp16": "<f2", "fp32": "<f4", "i8": "|i1"}


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h 1.0."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)


@dataclass
class DlpackArray:
    """An array that exports a DLPack capsule, and notes the streams that it was asked for."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None
    device: int = 0
    streams: list[Any] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.device

    def __dlpack__(self, *, stream: Any = None) -> Any:
        self.streams.append(stream)
        rank = len(self.shape)
        shape = (ctypes.c_int64 * rank)(*self.shape)
        strides = (ctypes.c_int64 * rank)(*self.strides) if self.strides else None
        code, bits = CODES[self.dtype]
        # The address is split, so that a reader that leaves the offset out is wrong.
        tensor = _Tensor(self.address - 64, CUDA, self.device, rank, code, bits, 1, shape, strides, 64)
        self.kept += [shape, strides, tensor]
        return _new(ctypes.addressof(tensor), b"dltensor", None)


@dataclass
class InterfaceArray:
    """An array with `__cuda_array_interface__`, version 3."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None
    stream: int | None = None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        size = CODES[self.dtype][1] // 8
        return {
            "shape": self.shape,
            "typestr": TYPE_STRINGS[self.dtype],
            "strides": None if self.strides is None else tuple(size * s for s in self.strides),
            "data": (self.address, False),
            "version": 3,
            "stream": self.stream,
        }

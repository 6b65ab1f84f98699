"""Reads the layout of other libraries' arrays: numpy, torch, `__cuda_array_interface__`, DLPack.

Nothing is imported for it and no data are touched: torch is recognised by its methods, DLPack by reading the
capsule's C struct, since no other library may be there to do it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from legalsat.dtypes import DType, dtype
from legalsat.errors import InvalidInput
from legalsat.printable import shown

MAX_ALIGNMENT = 256


class Description(NamedTuple):
    """Shape and strides in elements, element type, and the base address's alignment in bytes."""

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...] | None
    align: int


def describe(array: Any) -> Description:
    """Return what `array` says of itself; raises `InvalidInput` where it says nothing that we can read."""
    try:
        found = _described(array)
    except (AttributeError, BufferError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"{type(array).__name__} does not describe itself as an array does ({shown(error)}); "
            "copy it to one that does"
        ) from None
    negative = [s for s in found.strides or () if s < 0]
    if negative:
        raise InvalidInput(f"array has a stride of {negative[0]} elements; copy it, the hardware steps forward only")
    return found


def _described(array: Any) -> Description:
    if hasattr(array, "data_ptr") and hasattr(array, "stride"):
        return _torch(array)
    if hasattr(array, "__cuda_array_interface__"):
        return _array_interface(array.__cuda_array_interface__)
    if hasattr(array, "__array_interface__"):
        return _array_interface(array.__array_interface__, array.dtype)
    if hasattr(array, "__dlpack__"):
        return _dlpack(array)
    raise InvalidInput(
        f"{type(array).__name__} has no __dlpack__, __cuda_array_interface__ or __array_interface__; "
        "give a numpy array, a torch tensor or a Tensor"
    )


def _alignment(address: int) -> int:
    return min(address & -address, MAX_ALIGNMENT) if address else MAX_ALIGNMENT


def _torch(array: Any) -> Description:
    shape, strides = tuple(array.shape), tuple(array.stride())
    name = str(array.dtype)
    if name.endswith("_x2"):  # two packed elements a byte: torch counts bytes along the last axis, we count elements
        shape = (*shape[:-1], shape[-1] * 2)
        strides = (*(s * 2 for s in strides[:-1]), strides[-1])
        name = name.removesuffix("_x2")
    # A meta tensor has no storage, and asking for its address is an error in some versions.
    address = 0 if array.device.type == "meta" else array.data_ptr()
    return Description(shape, dtype(name), strides, _alignment(address))


def _array_interface(interface: Mapping[str, Any], native: Any = None) -> Description:
    element = dtype(_type_string(interface["typestr"]) if native is None else native)
    if native is not None and 8 * native.itemsize != element.bits:
        raise InvalidInput(
            f"this array holds {element} in {native.itemsize} bytes each, but {element} means {element.bits} bits; "
            f"pack the elements, or view the array as u{8 * native.itemsize}"
        )
    byte_strides = interface.get("strides")
    strides = None if byte_strides is None else tuple(_elements(s, element.bytes) for s in byte_strides)
    return Description(tuple(interface["shape"]), element, strides, _alignment(interface["data"][0]))


def _elements(byte_stride: int, size: int) -> int:
    if byte_stride % size:
        raise InvalidInput(f"stride of {byte_stride} bytes is no multiple of the {size}-byte element; copy the array")
    return byte_stride // size


def _type_string(code: str) -> str:
    kinds = {"f": "float", "i": "int", "u": "uint", "b": "bool"}
    kind, size = code[1], int(code[2:])
    if kind not in kinds:
        raise InvalidInput(f"element type {code} is no number; view it as an integer type of its size")
    return "bool" if kind == "b" else f"{kinds[kind]}{size * 8}"


class _DLTensor(ctypes.Structure):
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


# DLDataTypeCode of dlpack.h 1.1, those that are fixed by code alone.
_DLPACK_KINDS: dict[int, Callable[[int], str]] = {
    0: lambda bits: f"int{bits}",
    1: lambda bits: f"uint{bits}",
    2: lambda bits: f"float{bits}",
    4: lambda bits: f"bfloat{bits}",
    6: lambda bits: "bool",
    10: lambda bits: "float8_e4m3fn",
    11: lambda bits: "float8_e4m3fnuz",
    12: lambda bits: "float8_e5m2",
    13: lambda bits: "float8_e5m2fnuz",
    14: lambda bits: "float8_e8m0fnu",
    15: lambda bits: "float6_e2m3fn",
    16: lambda bits: "float6_e3m2fn",
    17: lambda bits: "float4_e2m1fn",
}


def _dlpack(array: Any) -> Description:
    return read_capsule(array.__dlpack__())[0]


def read_capsule(capsule: Any) -> tuple[Description, int]:
    """Return what a DLPack capsule says of its tensor, and the tensor's address; its own destructor frees the tensor.

    Raises:
        InvalidInput: the element type is unknown.
    """
    prototype = ctypes.PYFUNCTYPE(
        ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p
    )  # the process's own stays as it is
    pointer = prototype(("PyCapsule_GetPointer", ctypes.pythonapi))
    found = _DLTensor.from_address(pointer(capsule, b"dltensor"))
    if found.code not in _DLPACK_KINDS or found.lanes > 2:
        raise InvalidInput(f"DLPack element type {found.code} is unknown; view the array as an integer type")
    element = dtype(_DLPACK_KINDS[found.code](found.bits))
    shape = tuple(found.shape[i] for i in range(found.ndim))
    strides = tuple(found.strides[i] for i in range(found.ndim)) if found.strides else None
    if found.lanes == 2 and shape:  # vector of two packed elements, as torch exports four-bit types
        shape = (*shape[:-1], shape[-1] * 2)
        strides = strides and (*(s * 2 for s in strides[:-1]), strides[-1])
    address = (found.data or 0) + found.byte_offset
    return Description(shape, element, strides, _alignment(address)), address

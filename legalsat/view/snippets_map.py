"""Repairs of tensor maps as source text to paste: the driver's call, torch's copy, descriptors of Triton and CuTe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from legalsat.errors import InvalidInput
from legalsat.explanation import Snippet
from legalsat.logic import ceil_div
from legalsat.tensor import Tensor
from legalsat.units.tensor_map import TensorMap
from legalsat.view.snippets import cute_tensor, in_torch, torch_allocation, torch_copy, triton_descriptor

_BYTE = 8
_REMADE = frozenset({"rank", "element_stride"})  # parts whose change has other dimensions than the user's tensor
_DATA = frozenset({"pad", "extent", "address"})
# What arrays hold that a map's data type moves, and what CuTe calls it; of floats that round as they load, none.
_ELEMENTS = {
    "u8": ("u8", "uint8_t"),
    "u16": ("u16", "uint16_t"),
    "u32": ("u32", "uint32_t"),
    "s32": ("i32", "int32_t"),
    "u64": ("u64", "uint64_t"),
    "s64": ("i64", "int64_t"),
    "f16": ("fp16", "cute::half_t"),
    "bf16": ("bf16", "cute::bfloat16_t"),
    "f32": ("fp32", "float"),
    "f64": ("fp64", "double"),
}
_OWN_SWIZZLES = {32: "32B", 64: "64B", 128: "128B"}  # of rows of so many bytes, in Triton and in CuTe's atoms
_ATOM_ROWS = 8


def map_snippets(tm: TensorMap, after: TensorMap, parts: frozenset[str]) -> tuple[Snippet, ...]:
    """Return how to apply a repair that makes a tensor map another one: what the user does first comes first.

    Args:
        tm: the refused map, of a tensor `x`.
        after: the legal one.
        parts: what changes, as `legalsat.extract.explain.map_changes` names it.
    """
    moves = [Snippet("torch", text) for text in _torch(tm, after, parts)] if parts & _DATA else []
    described = _tensor(after)
    triton = [] if described is None else [Snippet("triton", text) for text in _triton(after, described)]
    cute = [] if described is None else [Snippet("cute", text) for text in _cute(after, described)]
    return (*moves, Snippet("cuda", _driver_call(tm, after)), *triton, *cute)


def _driver_call(tm: TensorMap, after: TensorMap) -> str:
    from legalsat.backends.host import encode_cpp_in_place_of  # noqa: PLC0415 - backends stand above nouns

    return encode_cpp_in_place_of(after, tm, "tensor").rstrip()


def _torch(tm: TensorMap, after: TensorMap, parts: frozenset[str]) -> Iterator[str]:
    """Yield torch's copy to new memory, where it can make one: elements that share bytes are copied as bytes."""
    remade = bool(parts & _REMADE)
    if tm.interleave != "none" or (remade and parts & {"pad", "extent"}):
        return
    bits = tm.map_type.bits
    unit, name = (1, "u8") if bits < _BYTE else (bits // _BYTE, f"u{bits}")
    inner = ceil_div(tm.global_dim[0] * bits, _BYTE) // unit
    room = ceil_div(after.global_dim[0] * after.map_type.bits, _BYTE) // unit if "extent" in parts else inner
    lie = tm.global_stride if remade else after.global_stride
    if any(stride % unit for stride, extent in zip(lie, tm.global_dim[1:], strict=True) if extent > 1):
        return
    steps, reach = [1], room
    for stride, extent in zip(lie, tm.global_dim[1:], strict=True):
        steps.append(stride // unit if extent > 1 else reach)  # no stride of one element reserves memory
        reach = steps[-1] * extent
    steps.reverse()
    tensor = _laid((*reversed(tm.global_dim[1:]), room), name, steps)
    if tensor is None or not in_torch(tensor):
        return
    if room == inner:
        yield torch_copy(tensor, "y")
    else:
        yield f"y = {torch_allocation(tensor)}\ny.zero_()\ny[..., :{inner}].copy_(x)"


def _tensor(tm: TensorMap) -> Tensor | None:
    """Return the tensor of a plain tiled map, slowest axis first; None if descriptors cannot say all of the map."""
    plain = tm.mode == "tiled" and tm.interleave == "none" and tm.oob_fill == "zero" and set(tm.element_stride) == {1}
    ascending = all(a <= b for a, b in zip(tm.global_stride, tm.global_stride[1:], strict=False))
    if not plain or not ascending or tm.dtype not in _ELEMENTS or max(tm.global_dim) >= 2**31:
        return None
    size = tm.map_type.bits // _BYTE
    strides = (*(stride // size for stride in reversed(tm.global_stride)), 1)
    return _laid(tuple(reversed(tm.global_dim)), _ELEMENTS[str(tm.dtype)][0], strides)


def _laid(shape: Sequence[int], dtype: str, strides: Sequence[int]) -> Tensor | None:
    """Return a tensor; None for one that no memory holds."""
    try:
        return Tensor(tuple(shape), dtype, tuple(strides))
    except InvalidInput:
        return None


def _row_bytes(tm: TensorMap) -> int:
    return tm.box[0] * tm.map_type.bits // _BYTE


def _triton(tm: TensorMap, tensor: Tensor) -> Iterator[str]:
    """Yield Triton's descriptor, if the map is one that Triton makes: it chooses the swizzle by the row."""
    powers = all(extent & (extent - 1) == 0 for extent in tm.box)
    if not powers or _OWN_SWIZZLES.get(_row_bytes(tm)) != tm.swizzle:
        return
    described = triton_descriptor(tensor, tuple(reversed(tm.box)))
    if described is not None:
        yield f"x = {described}  # Triton swizzles rows of {_row_bytes(tm)} bytes by {tm.swizzle}"


def _cute(tm: TensorMap, tensor: Tensor) -> Iterator[str]:
    """Yield CuTe's copy of a matrix, if one of its layouts is the box: an atom a row, or rows without a swizzle."""
    if tm.rank != 2:
        return
    columns, rows = tm.box
    element = _ELEMENTS[str(tm.dtype)][1]
    shape = f"make_shape(Int<{rows}>{{}}, Int<{columns}>{{}})"
    if tm.swizzle == "none":
        shared = f"make_layout({shape}, make_stride(Int<{columns}>{{}}, Int<1>{{}}))"
    elif _OWN_SWIZZLES.get(_row_bytes(tm)) == tm.swizzle and rows % _ATOM_ROWS == 0:
        shared = f"tile_to_shape(GMMA::Layout_K_SW{_row_bytes(tm)}_Atom<{element}>{{}}, {shape})"
    else:
        return
    yield "\n".join(
        [
            f"// x_ptr points to {element}; using namespace cute.",
            cute_tensor(tensor),
            f"auto shared = {shared};",
            "auto load_x = make_tma_copy(SM90_TMA_LOAD{}, x, shared);  // asks for L2 promotion 128B, as always",
        ]
    )

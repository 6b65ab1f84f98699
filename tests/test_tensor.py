"""Tensors, their extents and element types; what other libraries' arrays say of themselves."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import legalsat as ls
from legalsat.dims import Scaled, bind, dims_of, times
from legalsat.dtypes import DTYPES, dtype
from legalsat.operators import Copy, Transpose, access_of, dense_like
from legalsat.tensor import MAX_RANK, row_major
from legalsat.units.tensor_map import MAP_TYPES

T = ls.Tensor


def allocated(shape: tuple[int, ...], name: str) -> np.ndarray[Any, Any]:
    """Return an array whose base address is a multiple of 256 bytes."""
    element = np.dtype(name)
    size = math.prod(shape) * element.itemsize
    memory = np.zeros(size + 256, dtype=np.uint8)
    start = -memory.ctypes.data % 256
    return memory[start : start + size].view(element).reshape(shape)


def described(tensor: ls.Tensor) -> tuple[Any, ...]:
    return tensor.shape, str(tensor.dtype), tensor.strides, tensor.align


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        *(("float16", "fp16"), ("float32", "fp32"), ("float64", "fp64"), ("int8", "i8"), ("uint8", "u8")),
        *(("int16", "i16"), ("uint16", "u16"), ("int32", "i32"), ("uint32", "u32"), ("int64", "i64")),
        *(("uint64", "u64"), ("bool", "bool")),
    ],
)
def test_numpy_arrays_of_every_type(name: str, ours: str) -> None:
    array = allocated((3, 16), name)
    assert described(T.from_array(array)) == ((3, 16), ours, (16, 1), 256)


def test_numpy_views_keep_their_strides_and_alignment() -> None:
    array = allocated((8, 64), "float16")
    assert described(T.from_array(array.T)) == ((64, 8), "fp16", (1, 64), 256)
    assert described(T.from_array(array[:, ::2])) == ((8, 32), "fp16", (64, 2), 256)
    assert described(T.from_array(array[1:])) == ((7, 64), "fp16", (64, 1), 128)
    assert described(T.from_array(array[:, 3:])) == ((8, 61), "fp16", (64, 1), 2)
    assert described(T.from_array(np.broadcast_to(array[0], (5, 64)))) == ((5, 64), "fp16", (0, 1), 256)
    overlapping = as_strided(array, (4, 8), (2, 2))
    assert described(T.from_array(overlapping)) == ((4, 8), "fp16", (1, 1), 256)
    assert described(T.from_array(allocated((1,), "float32")[0:1].reshape(()))) == ((), "fp32", (), 256)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_offsets_of_a_view_are_the_arrays_own(data: Any) -> None:
    """The strides address every element: reading memory by them gives the view."""
    array = allocated((4, 6, 8), "int32")
    array[...] = np.arange(array.size).reshape(array.shape)
    axes = data.draw(st.permutations(range(3)))
    steps = data.draw(st.tuples(*[st.integers(1, 3)] * 3))
    view = array.transpose(axes)[tuple(slice(None, None, step) for step in steps)]
    tensor = T.from_array(view)
    for at in itertools.product(*map(range, view.shape)):
        offset = sum(c * int(s) for c, s in zip(at, tensor.strides, strict=True) if isinstance(s, int))
        assert view[at] == array.reshape(-1)[offset]
    assert tensor.span_bits == 32 * (int(view.max()) + 1)


class OnGpu:
    """An array that lives elsewhere and says so by `__cuda_array_interface__`."""

    def __init__(self, **interface: Any) -> None:
        self.__cuda_array_interface__ = {"shape": (4, 8), "typestr": "<f2", "data": (4096, False), **interface}


@pytest.mark.parametrize(
    ("interface", "ours"),
    [
        ({}, ((4, 8), "fp16", (8, 1), 256)),
        ({"strides": None}, ((4, 8), "fp16", (8, 1), 256)),
        ({"strides": (32, 2)}, ((4, 8), "fp16", (16, 1), 256)),
        ({"typestr": "|u1", "data": (4098, True)}, ((4, 8), "u8", (8, 1), 2)),
        ({"typestr": "|b1"}, ((4, 8), "bool", (8, 1), 256)),
        ({"typestr": "<i8", "shape": ()}, ((), "i64", (), 256)),
        ({"data": (0, False)}, ((4, 8), "fp16", (8, 1), 256)),
    ],
)
def test_cuda_array_interface(interface: dict[str, Any], ours: tuple[Any, ...]) -> None:
    assert described(T.from_array(OnGpu(**interface))) == ours


class Exported:
    """An array with nothing but `__dlpack__`."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __dlpack__(self) -> Any:
        return self._array.__dlpack__()


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "int8", "uint16", "int64", "bool"])
def test_dlpack(name: str) -> None:
    array = allocated((6, 16), name)
    for view in (array, array.T, array[1:, ::2], array[2:3]):
        assert described(T.from_array(Exported(view))) == described(T.from_array(view))


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    made = torch.zeros(4, 24, dtype=torch.bfloat16).t()
    assert described(T.from_array(made))[:3] == ((24, 4), "bf16", (1, 24))
    assert described(T.from_array(torch.zeros(3, 5, device="meta"))) == ((3, 5), "fp32", (5, 1), 256)


class Garbled:
    """What an array's description may hold by mistake."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Packed:
    """A type whose name promises fewer bits than its array's elements take, as ml_dtypes' four-bit types do."""

    itemsize = 1

    def __str__(self) -> str:
        return "int4"


WELL = {"shape": (4,), "typestr": "<f2", "data": (256, False)}
NOT_ARRAYS: dict[str, tuple[Any, str]] = {
    "a number": (3, "has no __dlpack__"),
    "nothing": (None, "has no __dlpack__"),
    "a list": ([1, 2], "has no __dlpack__"),
    "backwards": (np.zeros(8)[::-1], "stride of -1 elements"),
    "empty": (np.zeros((0, 4)), "at least 1"),
    "complex": (np.zeros(4, dtype=np.complex64), "complex64"),
    "text": (np.array(["a"]), "is unknown"),
    "records": (np.zeros(4, dtype=[("a", "i4")]), "is unknown"),
    "dates": (np.zeros(4, dtype="datetime64[s]"), "is unknown"),
    "a field of records": (np.zeros(4, dtype=[("a", "i4"), ("b", "u1")])["a"], "no multiple of the 4-byte element"),
    "complex on the GPU": (OnGpu(typestr="<c8"), "is no number"),
    "no such type": (OnGpu(typestr="<f3"), "is unknown"),
    "half a type": (OnGpu(typestr="<"), "does not describe itself"),
    "no type": (Garbled(__cuda_array_interface__={"shape": (4,)}), "does not describe itself"),
    "no interface": (Garbled(__cuda_array_interface__=None), "does not describe itself"),
    "no address": (OnGpu(data=None), "does not describe itself"),
    "no capsule": (Garbled(__dlpack__=lambda: 3), "does not describe itself"),
    "unwilling": (Garbled(__dlpack__=[].pop), "does not describe itself"),
    "like torch": (Garbled(data_ptr=None, stride=None), "does not describe itself"),
    "strides of another rank": (OnGpu(strides=(2,)), "strides has 1 entry"),
    "fractional shape": (OnGpu(shape=(4.5, 2)), "give an integer"),
    "unpacked four-bit elements": (Garbled(__array_interface__=WELL, dtype=Packed()), "pack the elements"),
}


@pytest.mark.parametrize("name", NOT_ARRAYS)
def test_what_is_no_array_is_refused_with_a_reason(name: str) -> None:
    array, reason = NOT_ARRAYS[name]
    with pytest.raises(ls.InvalidInput, match=reason):
        T.from_array(array)


M, K, N = ls.Dim("M"), ls.Dim("K", multiple_of=8, max=8192), ls.Dim("N", min=2, max=100)
NO_TENSORS: dict[str, tuple[Any, str]] = {
    "negative extent": (lambda: T((-1, 4), "u8"), r"shape\[0\] is -1; give at least 1"),
    "empty": (lambda: T((4, 0), "u8"), r"shape\[1\] is 0"),
    "fraction": (lambda: T((4.0, 4), "u8"), "give an integer"),
    "not a number": (lambda: T((float("nan"),), "u8"), "give an integer"),
    "truth": (lambda: T((True, 4), "u8"), "give an integer"),
    "text": (lambda: T("44", "u8"), "sequence"),
    "number": (lambda: T(44, "u8"), "sequence"),  # type: ignore[arg-type]
    "nothing": (lambda: T(None, "u8"), "sequence"),  # type: ignore[arg-type]
    "no such type": (lambda: T((4,), "bf17"), "is unknown"),
    "no type": (lambda: T((4,), None), "is unknown"),
    "negative stride": (lambda: T((4, 4), "u8", (-4, 1)), r"strides\[0\] is -4"),
    "too few strides": (lambda: T((4, 4), "u8", (4,)), "strides has 1 entry; give 2"),
    "odd alignment": (lambda: T((4,), "u8", align=24), "power of two"),
    "no alignment": (lambda: T((4,), "u8", align=0), "at least 1"),
    "huge": (lambda: T((2**40, 2**40), "u8"), "beyond"),
    "far": (lambda: T((2, 2), "u8", (2**62, 1)), "beyond"),
    "beyond 64 bits": (lambda: T((2**70,), "u8"), "at most"),
    "too many axes": (lambda: T((1,) * (MAX_RANK + 1), "u8"), "at most 64"),
    "one name, two dims": (lambda: T((M, ls.Dim("M", max=7)), "u8"), "two different dims are called M"),
    "open size": (lambda: T((M, K), "u8").size, "symbolic"),
    "open span": (lambda: T((M, K), "u8").span_bits, "symbolic"),
    "unbound": (lambda: T((M, K), "u8").bind({"M": 4}), "dim K has no value"),
    "bound to nothing": (lambda: T((M, K), "u8").bind(None), "mapping"),  # type: ignore[arg-type]
    "bound outside": (lambda: T((M, K), "u8").bind({"M": 4, "K": 12}), "multiple of 8"),
    "bound too high": (lambda: T((M, K), "u8").bind({"M": 4, "K": 8200}), "at most 8192"),
    "unknown axis": (lambda: T((4, 4), "u8").transposed((0, 2)), "at most 1"),
    "axis twice": (lambda: T((4, 4), "u8").transposed((1, 1)), "twice"),
    "axis left out": (lambda: T((4, 4), "u8").transposed((1,)), "give 2"),
    "axes of nothing": (lambda: T((4, 4), "u8").transposed(None), "sequence"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", NO_TENSORS)
def test_what_is_no_tensor_is_refused_with_a_reason(name: str) -> None:
    make, reason = NO_TENSORS[name]
    with pytest.raises(ls.InvalidInput, match=reason):
        make()


def test_numpy_integers_are_integers() -> None:
    tensor = T(np.array([4, 8]), "u8", np.array([8, 1]), align=np.int64(16))  # type: ignore[arg-type]
    assert tensor == T((4, 8), "u8", (8, 1), align=16)
    assert all(type(n) is int for n in (*tensor.shape, *tensor.strides, tensor.align))


BAD_DIMS: dict[str, tuple[Any, str]] = {
    "no name": (lambda: ls.Dim(""), "identifier"),
    "no identifier": (lambda: ls.Dim("2x"), "identifier"),
    "a number for a name": (lambda: ls.Dim(3), "identifier"),  # type: ignore[arg-type]
    "no values": (lambda: ls.Dim("M", multiple_of=100, min=1, max=99), "has no value"),
    "backwards": (lambda: ls.Dim("M", min=9, max=3), "has no value"),
    "zero": (lambda: ls.Dim("M", min=0), "at least 1"),
    "fraction": (lambda: ls.Dim("M", max=2.5), "give an integer"),  # type: ignore[arg-type]
    "times text": (lambda: M * "x", "factor"),
    "times a fraction": (lambda: M * 1.5, "factor"),
    "times a negative": (lambda: -2 * M, "factor"),
    "times truth": (lambda: M * True, "factor"),
    "bound too far": (lambda: bind(times(M, times(M, M)), {"M": 2**32}), "beyond"),
}


@pytest.mark.parametrize("name", BAD_DIMS)
def test_what_is_no_dim_is_refused_with_a_reason(name: str) -> None:
    make, reason = BAD_DIMS[name]
    with pytest.raises(ls.InvalidInput, match=reason):
        make()


EXTENTS = st.recursive(
    st.sampled_from((M, K, N)) | st.integers(0, 9),
    lambda inner: st.tuples(inner, inner).map(lambda two: times(*two)),
    max_leaves=5,
)
VALUES = {"M": 12, "K": 16, "N": 3}


@given(EXTENTS, EXTENTS)
def test_products_of_dims_are_products_of_their_values(one: Any, other: Any) -> None:
    found = times(one, other)
    assert found == times(other, one)
    assert bind(found, VALUES) == bind(one, VALUES) * bind(other, VALUES)
    assert found == (one * other if not isinstance(one, int) or isinstance(other, int) else other * one)
    if isinstance(found, Scaled):
        assert found.coefficient > 0 and list(found.dims) == sorted(found.dims)
        assert str(found).count("*") == len(found.dims) + (found.coefficient != 1) - 1
    assert set(dims_of(found)) <= {M, K, N}


@given(st.integers(1, 50), st.integers(1, 200), st.integers(1, 200))
def test_a_dim_knows_its_values(multiple: int, low: int, high: int) -> None:
    values = [n for n in range(low, high + 1) if n % multiple == 0]
    if not values:
        with pytest.raises(ls.InvalidInput, match="has no value"):
            ls.Dim("M", multiple, low, high)
        return
    dim = ls.Dim("M", multiple, low, high)
    assert dim.smallest == values[0]
    for number in (low - 1, *range(low, high + 1), high + 1):
        if number in values:
            assert dim.check(number) == number
        else:
            with pytest.raises(ls.InvalidInput):
                dim.check(number)


def test_symbolic_tensors_bind_to_plain_ones() -> None:
    open_ = T((M, 3, K), "bf16")
    assert open_.strides == (Scaled(3, (K,)), K, 1)
    assert open_.dims == (K, M)
    assert open_.bind({"M": 5, "K": 16}) == T((5, 3, 16), "bf16")
    assert str(open_) == "bf16 M x 3 x K"


@given(st.lists(st.integers(1, 5), max_size=4))
def test_row_major_strides_are_numpys(shape: list[int]) -> None:
    assert row_major(shape) == tuple(s // 8 for s in np.zeros(shape, dtype=np.int64).strides)


def test_dense_copies_keep_the_order_of_axes() -> None:
    assert dense_like(T((4, 6), "u8", (1, 8))).strides == (1, 4)
    assert dense_like(T((4, 6), "u8", (8, 1))).strides == (6, 1)
    assert dense_like(T((4, 6), "u8", (0, 1))).strides == (6, 1)
    assert dense_like(T((M, K), "u8")).strides == (K, 1)


def test_element_types_go_by_many_names() -> None:
    for name, found in DTYPES.items():
        assert dtype(name) is found is dtype(found)
        assert dtype(name.upper()) is found
        by_name = {t.name: t for t in MAP_TYPES}[found.map_type]
        assert by_name.bits == found.bits
    assert dtype(np.float32) is dtype(np.dtype("float32")) is dtype("f32") is DTYPES["fp32"]
    assert dtype("torch.bfloat16") is DTYPES["bf16"]
    assert DTYPES["bf16"].bytes == 2
    with pytest.raises(ls.InvalidInput, match="not whole bytes"):
        _ = DTYPES["e2m1"].bytes


NO_MAPS: dict[str, tuple[dict[str, Any], str]] = {
    "no such type": ({"dtype": "f17"}, "is unknown"),
    "type of truth": ({"dtype": True}, "give an integer"),
    "negative type": ({"dtype": -1}, "at least 0"),
    "no such swizzle": ({"swizzle": "256B"}, "give one of none, 32B"),
    "swizzle of truth": ({"swizzle": False}, "give an integer"),
    "no swizzle": ({"swizzle": None}, "give an integer"),
    "no such mode": ({"mode": "im3col"}, "give one of"),
    "mode beyond": ({"mode": 7}, "give one of"),
    "negative extent": ({"global_dim": (-1, 4)}, "at least 0"),
    "extent beyond 64 bits": ({"global_dim": (2**64, 4)}, "at most"),
    "missing stride": ({"global_stride": ()}, "give 1"),
    "stride for the fastest dimension too": ({"global_stride": (2, 128)}, "give 1"),
    "short box": ({"box": (64,)}, "give 2"),
    "box beyond 32 bits": ({"box": (2**32, 1)}, "at most"),
    "fractional box": ({"box": (64, 1.0)}, "give an integer"),
    "box of text": ({"box": "64"}, "sequence"),
    "element stride of one number": ({"element_stride": 1}, "sequence"),
    "no element stride": ({"element_stride": None}, "sequence"),
    "negative address": ({"address": -16}, "at least 0"),
    "map far off": ({"map_offset": 128}, "at most 127"),
    "im2col fields of a tiled map": ({"channels": 4}, "belong to im2col"),
    "corners of a tiled map": ({"lower_corner": (0,)}, "give 0"),
    "box of an im2col map": ({"mode": "im2col"}, "give 0"),
}


@pytest.mark.parametrize("name", NO_MAPS)
def test_what_is_no_tensor_map_is_refused_with_a_reason(name: str) -> None:
    fields, reason = NO_MAPS[name]
    legal: dict[str, Any] = {"dtype": "bf16", "global_dim": (64, 8), "global_stride": (128,), "box": (64, 8)}
    with pytest.raises(ls.InvalidInput, match=reason):
        ls.TensorMap(**{**legal, **fields})


def test_tensor_maps_take_names_and_driver_values_alike() -> None:
    named = ls.TensorMap("bf16", (64, 8), (128,), (64, 8), swizzle="128B", l2_promotion="256B", oob_fill="nan")
    coded = ls.TensorMap(9, [64, 8], [128], [64, 8], [1, 1], 0, 0, 3, 3, 1, 0)  # type: ignore[arg-type]
    assert named == coded
    assert ls.TensorMap(np.int64(9), (64,), (), (64,)).dtype == "bf16"  # type: ignore[arg-type]
    assert ls.TensorMap("e4m3", (64,), (), (64,)).dtype == "u8"
    assert ls.TensorMap(16, (64,), (), (64,)).dtype == 16
    with pytest.raises(ls.InvalidInput, match="unknown to the driver"):
        _ = ls.TensorMap(16, (64,), (), (64,)).map_type


NO_OPERATORS: dict[str, tuple[Any, str]] = {
    "copy of nothing": (lambda: Copy(None), "has no __dlpack__"),
    "target of another shape": (lambda: Copy(T((4, 4), "u8"), T((4, 5), "u8")), "give one of shape"),
    "target of another type": (lambda: Copy(T((4, 4), "u8"), T((4, 4), "i8")), "give one of shape"),
    "no target": (lambda: Copy(T((4, 4), "u8"), "dense"), "give a numpy array"),  # type: ignore[arg-type]
    "tile of another rank": (lambda: Copy(T((4, 4), "u8"), tile=(4,)), "give 2"),
    "empty tile": (lambda: Copy(T((4, 4), "u8"), tile=(0, 4)), "at least 1"),
    "huge tile": (lambda: Copy(T((4, 4), "u8"), tile=(2**31 + 1, 4)), "at most"),
    "no such consumer": (lambda: Copy(T((4, 4), "u8"), consumer="wgmma"), "give one of threads"),  # type: ignore[arg-type]
    "consumers": (lambda: Copy(T((4, 4), "u8"), consumer=np.arange(2)), "give one of"),  # type: ignore[arg-type]
    "transpose of a vector": (lambda: Transpose(T((4,), "u8")), "at least 2 axes"),
    "axis twice": (lambda: Transpose(T((4, 4), "u8"), (1, 1)), "twice"),
    "unknown axis": (lambda: Transpose(T((4, 4), "u8"), (1, 2)), "at most 1"),
    "result of another shape": (lambda: Transpose(T((4, 5), "u8"), target=T((4, 5), "u8")), "give one of shape"),
    "far": (lambda: access_of(Copy(T((2, 2), "u8", (2**59, 1)))), "at most 2"),
}


@pytest.mark.parametrize("name", NO_OPERATORS)
def test_what_is_no_operator_is_refused_with_a_reason(name: str) -> None:
    make, reason = NO_OPERATORS[name]
    with pytest.raises(ls.InvalidInput, match=reason):
        make()

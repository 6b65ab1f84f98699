"""Calls a Triton module's `run` where neither torch nor a GPU is: its host code runs, and its kernels are compiled.

    python -m bench.gpu.no_gpu FILE OPERANDS    # JSON of what `run` is given: name, dtype, shape, strides, offset

Tensors here have addresses, shapes, strides and types, and no elements. Triton's compiler is the real one, for sm_90;
what it would launch ends there.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

SIZES = {
    "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1,
}  # fmt: skip
PROCESSORS = 132
FIRST = 1 << 40


class Kind:
    """A type of elements."""

    def __init__(self, name: str) -> None:
        self.name, self.itemsize, self.is_floating_point = name, SIZES[name], "float" in name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


# Triton asks for a type's class by torch's name.
Kind.__name__, Kind.__module__ = "dtype", "torch"
TYPES = {name: Kind(name) for name in SIZES}
DEVICE = SimpleNamespace(type="cuda", index=0)


@dataclass(frozen=True)
class Tensor:
    """What `run` asks of a tensor."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Kind
    address: int

    is_cuda, device = True, DEVICE

    @property
    def ndim(self) -> int:
        """Axes."""
        return len(self.shape)

    def data_ptr(self) -> int:
        """The address."""
        return self.address

    def element_size(self) -> int:
        """Bytes."""
        return self.dtype.itemsize

    def numel(self) -> int:
        """Elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    def stride(self, axis: int | None = None) -> Any:
        """Elements between neighbours of an axis, or of each."""
        return self.strides if axis is None else self.strides[axis]

    def t(self) -> Tensor:
        """The matrix turned."""
        return Tensor(self.shape[::-1], self.strides[::-1], self.dtype, self.address)

    def as_strided(self, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Tensor:
        """A view."""
        return Tensor(tuple(shape), tuple(strides), self.dtype, self.address + offset * self.element_size())

    def view(self, kind: Kind) -> Tensor:
        """Return the same memory as elements of another type."""
        *outer, last = self.shape
        size, other = self.element_size(), kind.itemsize
        strides = tuple(step * size // other for step in self.strides[:-1])
        return Tensor((*outer, last * size // other), (*strides, 1), kind, self.address)

    def is_conj(self) -> bool:
        """No tensor here is lazy."""
        return False

    is_neg = is_conj


def made(shape: Sequence[int], *, dtype: Any = None, strides: Sequence[int] | None = None, **_: Any) -> Tensor:
    """Return a tensor of its own memory, row-major unless strides are given."""
    dense, step = list[int](), 1
    for extent in reversed(tuple(shape)):
        dense.insert(0, step)
        step *= extent
    return Tensor(tuple(shape), tuple(strides or dense), dtype or TYPES["float32"], FIRST)


def _torch() -> ModuleType:
    """Return a module with what emitted host code asks of torch."""
    torch = ModuleType("torch")
    for name, kind in TYPES.items():
        setattr(torch, name, kind)
    properties = SimpleNamespace(major=9, minor=0, multi_processor_count=PROCESSORS)

    class Within:
        def __init__(self, *_: Any) -> None: ...

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    found: dict[str, Any] = {
        "dtype": Kind,
        "Tensor": Tensor,
        "empty": made,
        "zeros": made,
        "empty_strided": lambda shape, strides, **more: made(shape, strides=strides, **more),
        "cuda": SimpleNamespace(
            get_device_properties=lambda _: properties,
            get_device_capability=lambda *_: (9, 0),
            device=Within,
        ),
    }
    for name, one in found.items():
        setattr(torch, name, one)
    return torch


def _driver(compiled: list[str]) -> Any:
    """Return a driver of Triton's that names what it would launch."""
    from triton.backends.compiler import GPUTarget  # noqa: PLC0415

    def launcher(source: Any, metadata: Any) -> Callable[..., None]:
        del source
        compiled.append(metadata.name)
        return lambda *_: None

    properties = {"max_shared_mem": 227 << 10, "multiprocessor_count": PROCESSORS, "warpSize": 32}
    utils = SimpleNamespace(
        get_device_properties=lambda _: properties,
        load_binary=lambda *_: (None, 1, 32, 0, 1024),
        unload_module=lambda _: None,
    )
    return SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
        get_current_device=lambda: 0,
        get_current_stream=lambda _: 0,
        launcher_cls=launcher,
        utils=utils,
    )


def imported(path: Path) -> ModuleType:
    """Return the module in a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rehearse(path: Path, operands: Sequence[dict[str, Any]]) -> list[str]:
    """Call a module's `run` with tensors that have no elements; return the names of the kernels that were compiled.

    Args:
        path: its file.
        operands: what `run` is given: name, dtype as torch has it, shape, strides in elements, offset in bytes.

    Raises:
        Exception: what `run`, or Triton, raises.
    """
    from triton.runtime import driver  # noqa: PLC0415

    compiled: list[str] = []
    sys.modules["torch"] = _torch()
    driver.set_active(_driver(compiled))
    given = {
        one["name"]: Tensor(
            tuple(one["shape"]), tuple(one["strides"]), TYPES[one["dtype"]], FIRST * (2 + at) + one["offset"]
        )
        for at, one in enumerate(operands)
    }
    imported(path).run(**given)
    return compiled


if __name__ == "__main__":
    print(*rehearse(Path(sys.argv[1]), json.loads(sys.argv[2])))

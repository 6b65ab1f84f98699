"""Runs the kernel function of an emitted module on numpy, one program after another.

Asynchronous copies happen either when they are issued or as late as the kernel's own waits allow, so that a buffer
that is used too early, or reused too early, gives a wrong result. Barriers count arrivals and bytes. What numpy cannot
know, layouts and the order of threads, is left to the compiler.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

POISON = 0x55


class Words(np.ndarray[Any, np.dtype[Any]]):
    """A register tensor: an array with Gluon's method names."""

    def permute(self, order: list[int]) -> Words:
        return self.transpose(order).view(Words)

    def split(self) -> tuple[Words, Words]:
        return self[..., 0].view(Words), self[..., 1].view(Words)

    def to(self, dtype: Any) -> Words:
        return self.astype(dtype).view(Words)


@dataclass
class Barrier:
    """A shared-memory barrier with one expected arrival: phases done, and the bytes still to come."""

    completed: int = 0
    armed: bool = False
    missing: int = 0
    late: list[Callable[[], None]] = field(default_factory=list)

    def index(self, slot: int) -> Barrier:
        return self

    def expect(self, count: int) -> None:
        assert not self.armed, "armed twice in one phase"
        self.armed, self.missing = True, count

    def deliver(self, count: int) -> None:
        self.missing -= count
        if self.armed and self.missing == 0:
            self.armed, self.completed = False, self.completed + 1

    def wait(self, phase: int) -> None:
        for copy in self.late:
            copy()
        self.late.clear()
        assert self.completed % 2 != phase, "waits for a phase that never completes"


@dataclass
class Barriers:
    each: list[Barrier]

    def index(self, slot: int) -> Barrier:
        return self.each[slot]


@dataclass
class Buffer:
    """Shared memory."""

    data: Any

    def index(self, slot: int) -> Buffer:
        return Buffer(self.data[slot])

    def load(self, layout: Any) -> Words:
        return self.data.copy().view(Words)  # type: ignore[no-any-return]

    def store(self, words: Words) -> None:
        assert words.shape == self.data.shape and words.dtype == self.data.dtype
        self.data[...] = words


@dataclass
class Descriptor:
    """A tensor map over words of global memory."""

    memory: Any
    extent: list[int]
    stride: list[int]
    block_shape: list[int]
    layout: Any = None

    @property
    def dtype(self) -> Any:
        return self.memory.dtype

    def inside(self, corner: list[int]) -> tuple[Any, tuple[slice, ...]]:
        """The words of a block that lie in the tensor, and where they lie in the block."""
        assert len(corner) == len(self.extent)
        assert corner[-1] * self.memory.itemsize % 16 == 0, "the innermost coordinate must be a multiple of 16 bytes"
        tensor = as_strided(self.memory, self.extent, [d * self.memory.itemsize for d in self.stride])
        ends = [max(0, min(c + b, n)) for b, n, c in zip(self.block_shape, self.extent, corner, strict=True)]
        begins = [min(max(c, 0), end) for c, end in zip(corner, ends, strict=True)]
        words = tuple(slice(begin, end) for begin, end in zip(begins, ends, strict=True))
        return tensor[words], tuple(slice(w.start - c, w.stop - c) for w, c in zip(words, corner, strict=True))


@dataclass
class Pointer:
    """Addresses of words, of which every `vector` along the last axis are to be one access."""

    memory: Any
    offset: Any = 0
    vector: int = 1

    def __add__(self, offset: Any) -> Pointer:
        return Pointer(self.memory, self.offset + offset)

    def multiple_of(self, multiples: list[int]) -> Pointer:
        """The same, said to be multiples of so many bytes wherever a vector begins; the memory itself is, of 16."""
        size = self.memory.itemsize
        assert multiples[:-1] == [size] * (len(multiples) - 1) and multiples[-1] % size == 0
        return Pointer(
            self.memory,
            vectors(self.offset, [1] * (len(multiples) - 1) + [multiples[-1] // size]),
            multiples[-1] // size,
        )

    def chosen(self, words: Any, mask: Any) -> tuple[Any, Any]:
        """Offsets and mask as wide as the words; no vector is cut by the mask."""
        offset, mask = (np.broadcast_to(each, np.shape(words)) for each in (self.offset, mask))
        each = mask.reshape(-1, self.vector)
        assert np.all(each.all(axis=1) == each.any(axis=1)), "a mask cuts a vector"
        assert np.all(offset[mask] >= 0)
        return offset, mask


def vectors(offset: Any, multiples: list[int]) -> Any:
    """Return offsets that are said to be multiples wherever a vector begins, if they are, and neighbours in it."""
    assert len(multiples) == offset.ndim and set(multiples[:-1]) <= {1}
    each = offset.reshape(*offset.shape[:-1], -1, multiples[-1])
    assert np.all(each[..., 0] % multiples[-1] == 0), "a vector is misaligned"
    assert np.all(np.diff(each, axis=-1) == 1), "a vector's words are not neighbours"
    return offset


class Machine:
    """The Gluon functions that emitted kernels call."""

    def __init__(self, late_loads: bool, late_stores: bool) -> None:
        self.late_loads, self.late_stores = late_loads, late_stores
        self.program = 0
        self.stores: list[Callable[[], None]] = []

    def allocate(self, dtype: Any, shape: list[int], layout: Any) -> Any:
        if dtype is np.int64:
            return Barrier() if shape == [1] else Barriers([Barrier() for _ in range(shape[0])])
        item = np.dtype(dtype).itemsize
        return Buffer(np.full([*shape[:-1], shape[-1] * item], POISON, np.uint8).view(dtype))

    def load(self, source: Descriptor, corner: list[int], barrier: Barrier, buffer: Buffer, pred: bool = True) -> None:
        def copy() -> None:
            words, where = source.inside(corner)
            buffer.data[...] = 0
            buffer.data[where] = words
            barrier.deliver(buffer.data.nbytes)

        if pred:
            assert list(buffer.data.shape) == source.block_shape
            barrier.late.append(copy) if self.late_loads else copy()

    def store(self, target: Descriptor, corner: list[int], buffer: Buffer) -> None:
        assert all(c >= 0 for c in corner), "a store faults on negative coordinates"

        def copy() -> None:
            words, where = target.inside(corner)
            words[...] = buffer.data[where]

        assert list(buffer.data.shape) == target.block_shape
        self.stores.append(copy)
        if not self.late_stores:
            copy()

    def store_wait(self, pending: int) -> None:
        while len(self.stores) > pending:
            copy = self.stores.pop(0)
            if self.late_stores:
                copy()

    def plain_store(self, pointer: Pointer, words: Words, mask: Any = True) -> None:
        offset, mask = np.broadcast_to(pointer.offset, words.shape), np.broadcast_to(mask, words.shape)
        pointer.memory[offset[mask]] = words[mask]

    def names(self) -> dict[str, Any]:
        """Globals that stand in for an emitted module's own."""
        gl = SimpleNamespace(
            int16=np.int16,
            int64=np.int64,
            program_id=lambda axis: self.program,
            static_range=range,
            allocate_shared_memory=self.allocate,
            arange=lambda low, high, layout: np.arange(low, high, dtype=np.int32).view(Words),
            SliceLayout=lambda axis, layout: layout,
            convert_layout=lambda words, layout: words,
            join=lambda a, b: np.stack([a, b], -1).view(Words),
            store=self.plain_store,
        )
        barrier = SimpleNamespace(
            MBarrierLayout=lambda: None,
            init=lambda each, count: None,
            expect=lambda each, count, pred=True: each.expect(count) if pred else None,
            wait=lambda each, phase: each.wait(phase),
        )
        return {
            "gl": gl,
            "mbarrier": barrier,
            "tma": SimpleNamespace(store_wait=self.store_wait),
            "tma_load": self.load,
            "tma_store": self.store,
            "cta_barrier": lambda: None,
            "fence_async_shared": lambda: None,
            "reinterpret": lambda b, dtype, shape, layout: Buffer(b.data.reshape(-1).view(dtype).reshape(shape)),
        }


class ThreadMachine:
    """The Triton functions that kernels by threads call; whole vectors alone are loaded and stored."""

    def __init__(self) -> None:
        self.program = 0

    def load(self, pointer: Pointer, mask: Any = True, other: int = POISON) -> Words:
        words = np.full(pointer.offset.shape, other, pointer.memory.dtype)
        offset, mask = pointer.chosen(words, mask)
        words[mask] = pointer.memory[offset[mask]]
        return words.view(Words)

    def store(self, pointer: Pointer, words: Words, mask: Any = True) -> None:
        assert words.shape == pointer.offset.shape
        offset, mask = pointer.chosen(words, mask)
        pointer.memory[offset[mask]] = words[mask]

    def names(self) -> dict[str, Any]:
        """Globals that stand in for an emitted module's own."""
        tl = SimpleNamespace(
            int64=np.int64,
            program_id=lambda axis: np.array(self.program, np.int32).view(Words),
            arange=lambda low, high: np.arange(low, high, dtype=np.int32).view(Words),
            multiple_of=lambda value, multiples: (
                value.multiple_of(multiples) if isinstance(value, Pointer) else vectors(value, multiples)
            ),
            load=self.load,
            store=self.store,
        )
        return {"tl": tl}


def run_threads_on_numpy(module: ModuleType, source: Any, target: Any, programs: range | None = None) -> None:
    """Run programs of an emitted module's kernel by threads, every one if not told which, on 1-D arrays of words."""
    machine = ThreadMachine()
    kernel = types.FunctionType(module.move_tiles.fn.__code__, vars(module) | machine.names())
    for program in range(module.TILES) if programs is None else programs:
        machine.program = program
        kernel(Pointer(source), Pointer(target))


def run_on_numpy(
    module: ModuleType, name: str, source: Any, target: Any, *, late_loads: bool, late_stores: bool
) -> None:
    """Run every program of an emitted module's kernel `name` on 1-D arrays of words."""
    machine = Machine(late_loads, late_stores)
    scope = {k: getattr(v, "value", v) for k, v in vars(module).items()} | machine.names()

    def python(function: str) -> Any:
        return types.FunctionType(getattr(module, function).fn.__code__, scope)

    if hasattr(module, "corner"):
        scope["corner"] = python("corner")
    kernel = python(name)
    load = Descriptor(source, module.LOAD_EXTENT, module.LOAD_STRIDE, module.LOAD_BLOCK)
    store: Any = Pointer(target)
    if hasattr(module, "STORE_BLOCK"):
        store = Descriptor(target, module.STORE_EXTENT, module.STORE_STRIDE, module.STORE_BLOCK)
    for program in range(scope["PROGRAMS"]):
        machine.program = program
        kernel(load, store)
        assert not machine.stores, "the kernel ends before its stores have read shared memory"

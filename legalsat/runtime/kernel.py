"""`Kernel`: a program that takes arrays. It runs in the caller's stream, on any GPU, from any thread."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from legalsat.errors import InvalidInput, LegalSatError
from legalsat.runtime.cache import Cache, key_of
from legalsat.runtime.calls import (
    Memory,
    in_stream,
    in_torch,
    memory_on,
    new_result,
    one_gpu,
    require_apart,
    stream_number,
)
from legalsat.runtime.driver import Driver, the_driver
from legalsat.runtime.kept import KEPT, made_once
from legalsat.runtime.loaded import Loaded
from legalsat.runtime.memory import TorchMemory
from legalsat.runtime.program import Image, InvalidProgram, Program, Relayout, span_bytes
from legalsat.runtime.views import TORCH_NAMES, check, same_strides, torch_or_none, view_of
from legalsat.tensor import plain

INTERPRET = "TRITON_INTERPRET"


def _builder(program: Program) -> Any:
    from legalsat.backends import builder_of  # noqa: PLC0415 - backends make programs

    return builder_of(program)


def _name_of(relayout: Relayout) -> str:
    """Return what a relayout's copies are kept under, "" for those that are not."""
    return key_of("relayout", json.dumps(relayout.program.to_json())) if relayout.constant else ""


def image_of(program: Program, cache: Cache) -> Image:
    """Return the image of a program, from the cache if it has one.

    Raises:
        LegalSatError: the tool that compiles it is missing, or refuses it.
    """
    builder = _builder(program)
    recipes = Image(b"", program.recipes).to_bytes()
    key = key_of(
        "image", program.builder, builder.tools_of(program), program.architecture, str(program.signature), recipes,
        program.text,
    )  # fmt: skip
    if (data := cache.read(key)) is not None:
        try:
            return Image.from_bytes(data)
        except InvalidProgram:  # another version wrote it
            pass
    image: Image = builder.image_of(program)
    cache.write(key, image.to_bytes())
    return image


def at_hand(program: Program, cache: Cache) -> bool:
    """Return whether the images of a program, and of those in front of it, need no compiler."""
    for one in program.in_order:
        builder = _builder(one)
        if not hasattr(builder, "at_hand") or not builder.at_hand(one, cache):
            return False
    return True


@dataclass(slots=True)
class _Call:
    """One call: its arrays, addresses of operands and then workspaces, its stream, memory and what was taken of it."""

    arrays: tuple[Any, ...]
    addresses: list[int]
    stream: int
    memory: Memory
    taken: list[Any] = field(default_factory=list)

    def take(self, size: int) -> int:
        """Return the address of bytes for the time of the call."""
        address, owner = self.memory.take(size)
        self.taken.append(owner)
        return address


class Kernel:
    """A program that can be called with arrays: `c = kernel(a, b)`, `kernel(a, b, out=c)`, `y = kernel(x)`.

    Arrays are torch tensors, or anything with DLPack or `__cuda_array_interface__`. Each must have the shape, strides,
    element type and alignment that was planned for. The call returns at once; its kernels run in torch's current
    stream, or in `stream`. With TRITON_INTERPRET=1 in the environment, kernels of Triton run on the host's arrays.

    A call may be captured into a CUDA graph after one that was not, or after `load`. The graph needs constant operands
    that are laid out anew kept for as long as it is replayed. No gradient flows through a call:
    `legalsat.torch.matmul` has them.

    Attributes:
        program: what is launched, and how.
    """

    def __init__(
        self,
        program: Program,
        *,
        driver: Driver | None = None,
        cache: Cache | None = None,
        like: Kernel | None = None,
    ) -> None:
        """Take a program; nothing is built yet.

        Args:
            program: what to run.
            like: a kernel of the same texts, whose images it shares.
            driver: libcuda; the process's one when left out, loaded at the first call.
            cache: of images; the environment's when left out.
        """
        self.program, self._driver, self._cache, self._like = program, driver, cache, like
        self._names = (*(one.name for one in program.operands), *(one.name for one in program.workspaces))
        self._inputs = program.operands[:-1]
        self._simple = not program.before and not program.workspaces
        others: list[Kernel | None] = [None] * len(program.before)
        if like is not None:
            others = [*like._before]
        self._before: list[Kernel] = [
            Kernel(one.program, driver=driver, cache=cache, like=other)
            for one, other in zip(program.before, others, strict=True)
        ]
        self._position = {name: i for i, name in enumerate(self._names)}
        self._image: Image | None = None
        self._interpreter: Callable[..., None] | None = None
        self._relayouts = [_name_of(one) for one in program.before]
        self._loaded: dict[int, Loaded] = {}
        self._memory: dict[int, TorchMemory] = {}
        self._torch: tuple[Any, ...] | None = None
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<Kernel: {self.program.subject}, for {self.program.architecture}, by {self.backend}>"

    @property
    def backend(self) -> str:
        """The name of the backend that printed the program."""
        from legalsat.backends import backend_of  # noqa: PLC0415 - backends make programs

        return backend_of(self.program)

    def build(self) -> Kernel:
        """Compile what is not in the cache yet, for any call to come; needs no GPU.

        Raises:
            LegalSatError: the tool that compiles it is missing, or refuses it.
        """
        apart = [one for one in self._before if getattr(_builder(one.program), "APART", False)]
        with self._lock, ThreadPoolExecutor(max(1, len(apart))) as pool:
            coming = [pool.submit(one.build) for one in apart]
            for one in self._before:
                if one not in apart:
                    one.build()
            self._build_own()
            for done in coming:
                done.result()
        return self

    def _build_own(self) -> None:
        """Compile the program's own text, under the lock."""
        builder = _builder(self.program)
        if os.environ.get(INTERPRET) == "1" and hasattr(builder, "interpreter_of"):
            self._interpreter = self._interpreter or builder.interpreter_of(self.program)
        elif self._image is None and self._like is not None:
            made = self._like.build()._image
            assert made is not None
            self._image = Image(made.code, self.program.recipes)
        elif self._image is None:
            self._image = image_of(self.program, self._cache or Cache.default())

    def load(self, device: int = 0) -> Kernel:
        """Load onto a GPU what calls on it need, compiled if need be, so that what its driver refuses is told now.

        Args:
            device: the GPU's number.

        Raises:
            NoDriver: there is no such GPU.
            LegalSatError: as `build`, the kernel is for another GPU, or the driver refuses the image.
        """
        for one in (self, *self._before):  # the first one builds them all
            one._load(device)
        return self

    def forget(self) -> None:
        """Forget what was made of constant operands, as after a change that torch does not count (`.data`).

        Kernels that lay the same operands out alike share that, so it is forgotten for them as well. Call it when
        streams that still read it are done.
        """
        KEPT.forget(self._relayouts)

    def __call__(self, *arrays: Any, out: Any = None, stream: Any = None) -> Any:
        """Run on arrays.

        Args:
            arrays: the operands, in the program's order.
            out: where the result goes; a new torch tensor when left out.
            stream: a stream of the GPU; torch's current one when left out, or the default stream without torch.

        Returns:
            The result.

        Raises:
            Mismatch: an array is not what was planned for.
            NoDriver: there is no GPU.
            LegalSatError: the kernel is for another GPU, or cannot be compiled or launched.
        """
        if len(arrays) != len(self._inputs):
            names = ", ".join(one.name for one in self._inputs)
            raise InvalidInput(f"kernel was given {len(arrays)} arrays; give {len(self._inputs)}: {names}")
        torch = torch_or_none()
        if stream is None and torch is not None and self._fits(torch, arrays, out):
            result = self.run(torch, arrays, out)
        else:
            result = self._call(arrays, out, stream)
        if torch is not None and isinstance(out, torch.Tensor):
            torch.autograd.graph.increment_version(out)  # so that copies kept of it, and autograd, see the change
        return result

    # The usual way: torch's tensors in torch's stream, a few microseconds.

    def _fits(self, torch: Any, arrays: tuple[Any, ...], out: Any) -> bool:
        """Whether everything is a tensor of torch just as planned, on one GPU; if not, the other way says why."""
        known = self._torch
        if known is None:
            known = self._torch = self._expected(torch)
        if not known:
            return False
        device = getattr(arrays[0], "device", None)
        given = arrays if out is None else (*arrays, out)
        for one, (dtype, shape, strides, align, offset, _) in zip(given, known, strict=False):
            if (
                not isinstance(one, torch.Tensor)
                or not one.is_cuda
                or one.device != device
                or one.dtype is not dtype
                or one.shape != shape
                or ((theirs := one.stride()) != strides and not same_strides(shape, theirs, strides))
                or (one.data_ptr() - offset) % align
                or one.is_neg()
                or one.is_conj()
            ):
                return False
        if out is None:
            return True
        begin, size = out.data_ptr(), known[-1][-1]
        return all(
            begin + size <= one.data_ptr() or one.data_ptr() + entry[-1] <= begin
            for one, entry in zip(arrays, known, strict=False)
        )

    def _expected(self, torch: Any) -> tuple[Any, ...]:
        """Return what torch says of tensors that fit, or nothing where torch packs elements or has no such type."""
        found = []
        for one in self.program.operands:
            if not (known := in_torch(torch, one)):
                return ()
            found.append((*known, one.tensor.align, one.tensor.offset, span_bytes(one.tensor)))
        return tuple(found)

    def run(self, torch: Any, arrays: tuple[Any, ...], out: Any = None) -> Any:
        """Run in torch's current stream on torch tensors that are known to be what was planned for; return the result.

        This is what a call does once it has checked them.
        """
        index: int = arrays[0].get_device()
        loaded = self._loaded.get(index) or self._load(index)
        memory = self._memory.get(index) or self._memory.setdefault(index, TorchMemory(torch, index))
        if out is None:
            if self._torch is None:
                self._torch = self._expected(torch)
            out = memory.result(*self._torch[-1][:3])
        addresses = [one.data_ptr() for one in arrays]
        addresses.append(out.data_ptr())
        if self._simple:
            loaded.launch(self._names, (*addresses, memory.stream))
        else:
            self._run(loaded, _Call(arrays, addresses, memory.stream, memory))
        return out

    # Any other way.

    def _call(self, arrays: tuple[Any, ...], out: Any, stream: Any) -> Any:
        if os.environ.get(INTERPRET) == "1" and hasattr(_builder(self.program), "interpreter_of"):
            return self._interpret(arrays, out)
        driver, torch = self._the_driver(), torch_or_none()
        number = stream_number(torch, arrays, stream)
        views = [view_of(one, driver, number) for one in arrays]
        index = one_gpu(self._inputs, views)
        memory = memory_on(driver, torch, index, number, self._memory)
        for operand, view in zip(self._inputs, views, strict=True):
            check(operand, view, index)
        with in_stream(memory, number):
            if out is None:
                out = new_result(torch, memory, self.program.result)
            place = view_of(out, driver, number)
            check(self.program.result, place, index)
            require_apart(self._inputs, views, self.program.result, place)
            loaded = self._loaded.get(index) or self._load(index)
            addresses = [*(view.address for view in views), place.address]
            self._run(loaded, _Call(arrays, addresses, number, memory))
        return out

    def _the_driver(self) -> Driver:
        return self._driver or the_driver()

    def _load(self, index: int) -> Loaded:
        """Return the image on a GPU, loaded at the first call there."""
        device = self._the_driver().device(index)
        with self._lock:
            if index not in self._loaded:
                self.build()
                if self._image is None:
                    raise LegalSatError(f"{INTERPRET} is 1, so nothing was compiled for a GPU; unset it")
                if self._like is not None:
                    self._loaded[index] = self._like._load(index).again(self._image)
                else:
                    self._loaded[index] = Loaded(device, self._image, self.program.architecture)
            return self._loaded[index]

    def _run(self, loaded: Loaded, call: _Call) -> None:
        """Lay operands out anew where the plan says so, then launch."""
        try:
            for number in range(len(self._before)):
                call.addresses[self._position[self.program.before[number].operand]] = self._relaid(number, loaded, call)
            for space in self.program.workspaces:
                call.addresses.append(call.take(space.bytes))
                if space.zeroed:
                    loaded.device.clear(call.addresses[-1], space.bytes, call.stream)
            loaded.launch(self._names, (*call.addresses, call.stream))
        finally:
            for one in call.taken:
                call.memory.give(one)

    def _relaid(self, number: int, loaded: Loaded, call: _Call) -> int:
        """Return the address of what a relayout makes of its operand, or made before."""
        relayout, kernel, memory = self.program.before[number], self._before[number], call.memory
        index, position = loaded.device.index, self._position[relayout.operand]
        mover = kernel._loaded.get(index) or kernel._load(index)
        size = span_bytes(relayout.program.result.tensor)
        array, source = call.arrays[position], call.addresses[position]

        def write(address: int) -> None:
            mover.launch(kernel._names, (source, address, call.stream))

        return made_once(self._relayouts[number], (array,), size, memory, take=call.take, write=write)

    def _interpret(self, arrays: tuple[Any, ...], out: Any) -> Any:
        """Run on arrays in the host's memory."""
        self.build()
        assert self._interpreter is not None
        views = [view_of(one, None, 0) for one in arrays]
        for operand, view in zip(self._inputs, views, strict=True):
            check(operand, view, None)
        if out is None:
            out = _empty_like(arrays[0], self.program)
        place = view_of(out, None, 0)
        check(self.program.result, place, None)
        require_apart(self._inputs, views, self.program.result, place)
        self._interpreter(*(view.address for view in views), place.address)
        return out


def _empty_like(array: Any, program: Program) -> Any:
    """Return an array in the host's memory for the result: of torch beside torch's, else of numpy."""
    tensor = program.result.tensor
    torch = torch_or_none()
    if torch is not None and isinstance(array, torch.Tensor):
        dtype = getattr(torch, TORCH_NAMES[tensor.dtype.name])
        return torch.empty_strided(plain(tensor.shape), plain(tensor.strides), dtype=dtype)
    import numpy as np  # noqa: PLC0415 - only here

    words = np.empty(-(-span_bytes(tensor) // array.itemsize), array.dtype)
    strides = tuple(step * array.itemsize for step in plain(tensor.strides))
    return np.lib.stride_tricks.as_strided(words, plain(tensor.shape), strides)

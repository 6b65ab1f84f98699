"""What every call of a kernel does with its arrays: on which GPU and stream they are, and whether they lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

from legalsat.errors import InvalidInput
from legalsat.runtime.driver import Driver
from legalsat.runtime.memory import DriverMemory, TorchMemory
from legalsat.runtime.program import Operand, span_bytes
from legalsat.runtime.views import TORCH_NAMES, Mismatch, View, stream_of
from legalsat.tensor import plain

Memory: TypeAlias = TorchMemory | DriverMemory


def in_torch(torch: Any, operand: Operand) -> tuple[Any, ...]:
    """Return dtype, shape and strides of an operand as torch has them; nothing where torch has no such type."""
    tensor = operand.tensor
    dtype = getattr(torch, TORCH_NAMES.get(tensor.dtype.name, ""), None)
    return () if dtype is None else (dtype, plain(tensor.shape), plain(tensor.strides))


def stream_number(torch: Any, arrays: Sequence[Any], stream: Any) -> int:
    """Return the driver's handle of a call's stream: torch's current one where none is given."""
    if stream is not None:
        return stream_of(stream)
    if torch is None or not torch.cuda.is_initialized():
        return 0
    at = next((one.device.index for one in arrays if getattr(one, "is_cuda", False)), None)
    found: int = torch._C._cuda_getCurrentRawStream(torch.cuda.current_device() if at is None else at)
    return found


def one_gpu(operands: Sequence[Operand], views: Sequence[View]) -> int:
    """Return the GPU that has the first array; raise `Mismatch` where one is in the host's memory."""
    for operand, view in zip(operands, views, strict=True):
        if view.device is None:
            raise Mismatch(f"{operand.name} is in the host's memory; move it to a GPU")
    return views[0].device or 0


def memory_on(driver: Driver, torch: Any, index: int, stream: int, known: dict[int, TorchMemory]) -> Memory:
    """Return a GPU's memory for the time of a call: torch's, of which each GPU has one, or the driver's."""
    if torch is not None and torch.cuda.is_available():
        return known.setdefault(index, TorchMemory(torch, index))
    return DriverMemory(driver.device(index), stream)


def in_stream(memory: Memory, stream: int) -> AbstractContextManager[Any]:
    """Make a stream torch's current one, for a block."""
    return memory.on(stream) if isinstance(memory, TorchMemory) else nullcontext()


def new_result(torch: Any, memory: Memory, result: Operand) -> Any:
    """Return a new tensor of torch for a result; raise `InvalidInput` where torch cannot make it."""
    known = in_torch(torch, result) if isinstance(memory, TorchMemory) else ()
    if not known or isinstance(memory, DriverMemory):
        dtype = result.tensor.dtype
        raise InvalidInput(f"no torch with CUDA and {dtype} is imported to make the result; pass out=")
    return memory.result(*known)


def require_apart(operands: Sequence[Operand], views: Sequence[View], result: Operand, place: View) -> None:
    """Raise unless a result lies apart from other operands: kernels read after they began to write."""
    end = place.address + span_bytes(result.tensor)
    for operand, view in zip(operands, views, strict=True):
        if view.address < end and place.address < view.address + span_bytes(operand.tensor):
            raise Mismatch(f"{result.name} overlaps {operand.name}; give it memory of its own")

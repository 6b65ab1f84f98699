"""Memory for the time of a call: from torch's caching allocator where torch is, else from the driver's."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from legalsat.runtime.driver import Device


class TorchMemory:
    """torch's caching allocator: no driver call once it has the memory, and right in CUDA graphs.

    What it gives belongs to the stream that is torch's current one in `on`, so it may be dropped before kernels end.
    """

    def __init__(self, torch: Any, index: int) -> None:
        """Take torch and a GPU's number."""
        torch.cuda.init()
        self._torch, self._index, self._place = torch, index, torch.device("cuda", index)
        self._stream = torch._C._cuda_getCurrentRawStream
        self._empty = torch.empty_strided

    @property
    def stream(self) -> int:
        """The driver's handle of torch's current stream."""
        found: int = self._stream(self._index)
        return found

    def on(self, stream: int) -> AbstractContextManager[Any]:
        """Make a stream torch's current one, for a block."""
        if stream == self.stream:
            return nullcontext()
        cuda = self._torch.cuda
        other = cuda.ExternalStream(stream, self._place) if stream else cuda.default_stream(self._place)
        found: AbstractContextManager[Any] = cuda.stream(other)
        return found

    def result(self, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        """Return a new tensor."""
        return self._empty(shape, strides, dtype=dtype, device=self._place)

    def take(self, size: int) -> tuple[int, Any]:
        """Return the address of new bytes, and what keeps them."""
        found = self._torch.empty(size, dtype=self._torch.uint8, device=self._place)
        return found.data_ptr(), found

    def give(self, kept: Any) -> None:
        """Take nothing back: dropping what keeps bytes is enough."""

    def captures(self) -> bool:
        """Whether this GPU's current stream is being captured into a graph."""
        with self._torch.cuda.device(self._place):  # torch asks of the current GPU, which may be another one
            found: bool = self._torch.cuda.is_current_stream_capturing()
        return found

    def wait(self) -> None:
        """Wait for the current stream."""
        self._torch.cuda.current_stream(self._place).synchronize()


class DriverMemory:
    """The driver's allocator, in the order of a stream."""

    def __init__(self, device: Device, stream: int) -> None:
        """Take a GPU, and the stream of the call."""
        self._device, self._stream = device, stream

    def take(self, size: int) -> tuple[int, int]:
        """Return the address of new bytes, twice."""
        address = self._device.allocate(size, self._stream)
        return address, address

    def give(self, kept: int) -> None:
        """Take bytes back."""
        self._device.free(kept, self._stream)

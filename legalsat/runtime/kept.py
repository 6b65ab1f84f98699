"""What relayouts of constant operands gave, for as long as the operand lives and is not changed in place."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class _Entry:
    storage: Any
    version: int
    address: int
    memory: Any


class Kept:
    """Memory by the relayout that wrote it and the torch tensor that it was made from.

    A tensor is known by its address, its storage (a weak reference: it is not kept alive, and memory that is used again
    is another storage) and its version, which counts changes in place. Changes through `.data` are not counted.

    Attributes:
        lock: held by who makes an entry, so that no relayout runs twice.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._entries: dict[tuple[str, int], _Entry] = {}
        self.lock = threading.RLock()

    @staticmethod
    def trackable(tensor: Any) -> bool:
        """Whether changes of an array can be told: torch's tensors, but not those made in inference mode."""
        return hasattr(tensor, "untyped_storage") and not tensor.is_inference()

    def find(self, relayout: str, tensor: Any) -> tuple[int, bool] | None:
        """Return the memory that a relayout made from a tensor, and whether it is up to date; None if there is none."""
        entry = self._entries.get((relayout, tensor.data_ptr()))
        if entry is None or entry.storage.cdata != tensor.untyped_storage()._cdata or entry.storage.expired():
            return None
        return entry.address, entry.version == tensor._version

    def keep(self, relayout: str, tensor: Any, address: int, memory: Any) -> None:
        """Remember memory, and forget that of tensors that are no more."""
        from torch.multiprocessing.reductions import StorageWeakRef  # noqa: PLC0415 - whose tensor it is

        with self.lock:
            for key in [key for key, entry in self._entries.items() if entry.storage.expired()]:
                del self._entries[key]
            storage = StorageWeakRef(tensor.untyped_storage())
            self._entries[relayout, tensor.data_ptr()] = _Entry(storage, tensor._version, address, memory)

    def renew(self, relayout: str, tensor: Any) -> None:
        """Say that a tensor's memory is up to date."""
        if (entry := self._entries.get((relayout, tensor.data_ptr()))) is not None:
            entry.version = tensor._version

    def forget(self, relayouts: Iterable[str]) -> None:
        """Forget what these relayouts made."""
        gone = set(relayouts)
        with self.lock:
            for key in [key for key in self._entries if key[0] in gone]:
                del self._entries[key]


# One for all kernels: those that read a weight in one layout share its copy.
KEPT = Kept()

"""What was made of constant operands, for as long as these live and are not changed in place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from legalsat.runtime.memory import DriverMemory, TorchMemory


@dataclass(slots=True)
class _Entry:
    storages: tuple[Any, ...]
    versions: tuple[int, ...]
    address: int
    memory: Any


class Kept:
    """Memory by what wrote it and the torch tensors that it was made from.

    A tensor is known by its address, its storage (a weak reference: it is not kept alive, and memory that is used again
    is another storage) and its version, which counts changes in place. Changes through `.data` are not counted.

    Attributes:
        lock: held by who makes an entry, so that nothing is made twice.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._entries: dict[tuple[str, tuple[int, ...]], _Entry] = {}
        self.lock = threading.RLock()

    @staticmethod
    def trackable(tensor: Any) -> bool:
        """Whether changes of an array can be told: torch's tensors, but not those made in inference mode."""
        return hasattr(tensor, "untyped_storage") and not tensor.is_inference()

    def find(self, name: str, tensors: Sequence[Any]) -> tuple[int, bool] | None:
        """Return the memory that was made from tensors, and whether it is up to date; None if there is none."""
        entry = self._entries.get(_key(name, tensors))
        if entry is None:
            return None
        for storage, tensor in zip(entry.storages, tensors, strict=True):
            if storage.cdata != tensor.untyped_storage()._cdata or storage.expired():
                return None
        return entry.address, entry.versions == _versions(tensors)

    def keep(self, name: str, tensors: Sequence[Any], address: int, memory: Any) -> None:
        """Remember memory, and forget that of tensors that are no more."""
        from torch.multiprocessing.reductions import StorageWeakRef  # noqa: PLC0415 - whose tensor it is

        with self.lock:
            gone = [key for key, entry in self._entries.items() if any(one.expired() for one in entry.storages)]
            for key in gone:
                del self._entries[key]
            storages = tuple(StorageWeakRef(tensor.untyped_storage()) for tensor in tensors)
            self._entries[_key(name, tensors)] = _Entry(storages, _versions(tensors), address, memory)

    def renew(self, name: str, tensors: Sequence[Any]) -> None:
        """Say that what was made from tensors is up to date."""
        if (entry := self._entries.get(_key(name, tensors))) is not None:
            entry.versions = _versions(tensors)

    def forget(self, names: Iterable[str]) -> None:
        """Forget what was made under these names."""
        gone = set(names)
        with self.lock:
            for key in [key for key in self._entries if key[0] in gone]:
                del self._entries[key]


def _key(name: str, tensors: Sequence[Any]) -> tuple[str, tuple[int, ...]]:
    return name, tuple(tensor.data_ptr() for tensor in tensors)


def _versions(tensors: Sequence[Any]) -> tuple[int, ...]:
    return tuple(tensor._version for tensor in tensors)


# One for all kernels: those that read a weight in one layout share its copy.
KEPT = Kept()


def made_once(
    name: str,
    arrays: Sequence[Any],
    size: int,
    memory: TorchMemory | DriverMemory,
    *,
    take: Callable[[int], int],
    write: Callable[[int], None],
) -> int:
    """Return the address of what `write` makes of constant arrays; at once where it was made before.

    Args:
        name: what is made is known by it and the arrays; "" where nothing is kept.
        arrays: what it is made of.
        size: of it, in bytes.
        memory: of the call.
        take: returns memory for the time of the call alone, for what cannot be kept.
        write: launches what makes it there.
    """
    kept = bool(name) and isinstance(memory, TorchMemory) and all(map(Kept.trackable, arrays))
    found = KEPT.find(name, arrays) if kept else None
    if found is not None and found[1]:
        return found[0]
    if not kept or not isinstance(memory, TorchMemory) or memory.captures():  # a graph does it at each replay
        address = take(size)
        write(address)
        return address
    with KEPT.lock:
        found = KEPT.find(name, arrays)  # another thread may have been here
        # The same memory again, since graphs may hold its address.
        address, owner = memory.take(size) if found is None else (found[0], None)
        if found is None or not found[1]:
            write(address)
            memory.wait()  # once, so that any stream may use it from now on
        if found is None:
            KEPT.keep(name, arrays, address, owner)
        else:
            KEPT.renew(name, arrays)
    return address

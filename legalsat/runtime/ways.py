"""How products of each class of operands are computed: made when one is first seen, or behind while torch serves."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from legalsat.errors import LegalSatError
from legalsat.operators.gemm import Gemm
from legalsat.runtime.kernel import Kernel
from legalsat.runtime.planned import kernel_at_hand, kernel_for
from legalsat.targets import Target

LOG = logging.getLogger("legalsat.torch")
MOST_WAYS = 4096
MOST_THREADS = 4  # that plan, one at a time, and wait for compilers
COMING = "its kernel is being compiled"


@dataclass(frozen=True, slots=True)
class Way:
    """How a product is computed.

    Attributes:
        kernel: the kernel, None where torch computes the product.
        reason: why there is none, or why backends that would be better have none; "" where the best one has.
        fallback: what computes it without one.
    """

    kernel: Kernel | None
    reason: str = ""
    fallback: str = "torch.matmul"

    def __str__(self) -> str:
        by = self.fallback if self.kernel is None else repr(self.kernel)
        return f"{by}, since {self.reason}" if self.reason else by


@dataclass(frozen=True, slots=True)
class Asked:
    """A product that a kernel is wanted for: on which GPU, by its number, and what computes it without one."""

    product: Gemm
    target: Target
    device: int
    fallback: str = "torch.matmul"


class Ways:
    """Ways by the class of operands, which say all that a plan depends on.

    Attributes:
        found: ways that are known, by class.
    """

    def __init__(self) -> None:
        """Begin with nothing known; who asks waits for the compiler."""
        self.found: dict[Any, Way] = {}
        self._lock = threading.Lock()  # of those who wait
        self._changed = threading.Condition()  # held for the tables alone
        self._behind = False
        self._coming: queue.SimpleQueue[tuple[Any, Asked, str]] = queue.SimpleQueue()
        self._open: set[Any] = set()
        self._threads: list[threading.Thread] = []

    def of(self, key: Any, ask: Callable[[], Way | Asked], words: str) -> Way:
        """Return the way of a class, made when it is first seen, or said to come.

        Args:
            key: the class.
            ask: returns what is wanted, or the way where no kernel is.
            words: that name the operands in the log.
        """
        known = self.found.get(key)
        if known is not None:
            return known
        if self._behind:
            asked = ask()
            if isinstance(asked, Way):
                return self._keep(key, asked, words)
            return self._come(key, asked, words)
        with self._lock:
            known = self.found.get(key)
            if known is None:
                asked = ask()
                known = self._keep(key, asked if isinstance(asked, Way) else _made(asked), words)
        return known

    def drop(self, key: Any) -> None:
        """Forget the way of a class."""
        with self._changed:
            self.found.pop(key, None)

    def clear(self) -> None:
        """Forget all ways, and what their kernels made of constant operands; what is being made is not kept."""
        with self._changed:
            for way in self.found.values():
                if way.kernel is not None:
                    way.kernel.forget()
            self.found.clear()
            self._open.clear()

    def compile_behind(self, on: bool) -> None:
        """Say whether classes that are seen first from now on are made behind their calls."""
        self._behind = on

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until nothing is being made, so many seconds at most; return whether nothing is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, seconds)

    def _keep(self, key: Any, way: Way, words: str) -> Way:
        if way.reason and way.reason != COMING:
            LOG.info("%s by %s", words, way)
        with self._changed:
            if len(self.found) >= MOST_WAYS:
                self.found.clear()
            self.found[key] = way
        return way

    def _come(self, key: Any, asked: Asked, words: str) -> Way:
        """Have a kernel made behind; what serves meanwhile is torch, until a kernel that is at hand does."""
        meanwhile = Way(None, COMING, asked.fallback)
        with self._changed:
            known = self.found.setdefault(key, meanwhile)
            if known is not meanwhile:  # another thread was first
                return known
            self._open.add(key)
            if len(self._threads) < min(MOST_THREADS, os.cpu_count() or 1):
                self._threads.append(threading.Thread(target=self._work, name="legalsat", daemon=True))
                self._threads[-1].start()
        self._coming.put((key, asked, words))
        return meanwhile

    def _work(self) -> None:
        while True:
            key, asked, words = self._coming.get()
            try:
                serves = kernel_at_hand(asked.product, asked.target, asked.device)
                if serves is not None:
                    self._replace(key, Way(serves, COMING, asked.fallback), words)
                self._replace(key, _made(asked), words)
            except Exception as error:
                LOG.exception("no kernel could be made of %s", words)
                self._replace(key, Way(None, f"making its kernel failed: {error}", asked.fallback), words)
            with self._changed:
                self._open.discard(key)
                self._changed.notify_all()

    def _replace(self, key: Any, way: Way, words: str) -> None:
        with self._changed:
            wanted = key in self._open and key in self.found
        if wanted:
            self._keep(key, way, words)


def _made(asked: Asked) -> Way:
    try:
        kernel, reason = kernel_for(asked.product, asked.target, asked.device)
    except LegalSatError as error:
        return Way(None, str(error), asked.fallback)
    return Way(kernel, reason, asked.fallback)

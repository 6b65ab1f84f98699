"""Answers that are remembered by another key than a function's arguments; `functools.lru_cache` is for the others."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class Recent(Generic[Answer]):
    """The latest answers, so many at most; where a new one has no place, the oldest goes.

    Attributes:
        most: answers that are kept.
    """

    def __init__(self, most: int) -> None:
        """Begin with none."""
        self.most = most
        self._answers: dict[Hashable, Answer] = {}

    def answer(self, key: Hashable, ask: Callable[[], Answer]) -> Answer:
        """Return what is remembered by a key, else what `ask` returns now; what it raises is not remembered."""
        if key in self._answers:
            return self._answers[key]
        found = ask()
        while len(self._answers) >= self.most:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = found
        return found

    def __len__(self) -> int:
        return len(self._answers)

    def clear(self) -> None:
        """Forget all."""
        self._answers.clear()

"""Ways of classes of operands: made once whoever asks, and behind, while what is at hand serves."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from legalsat.errors import LegalSatError
from legalsat.runtime import ways as module
from legalsat.runtime.ways import COMING, Asked, Way, Ways

SECONDS = 20.0  # for what is done at once


class Maker:
    """Stands for planning and compiling: answers when it is let, and counts."""

    def __init__(self) -> None:
        self.let, self.asked, self.lock = threading.Event(), list[Any](), threading.Lock()
        self.hand: Any = None
        self.error: Exception | None = None

    def kernel_for(self, product: Any, *_: Any) -> tuple[Any, str]:
        with self.lock:
            self.asked.append(product)
        assert self.let.wait(SECONDS)
        if self.error is not None:
            raise self.error
        return f"kernel of {product}", ""

    def kernel_at_hand(self, *_: Any) -> Any:
        return self.hand


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Maker]:
    made = Maker()
    monkeypatch.setattr(module, "kernel_for", made.kernel_for)
    monkeypatch.setattr(module, "kernel_at_hand", made.kernel_at_hand)
    yield made
    made.let.set()


def asked(product: Any) -> Any:
    return lambda: Asked(product, None, 0)  # type: ignore[arg-type]


def made(product: Any) -> Way:
    kernel: Any = f"kernel of {product}"
    return Way(kernel)


def test_a_class_is_made_once_though_many_ask_at_once(maker: Maker) -> None:
    ways, found = Ways(), list[Way]()
    threads = [threading.Thread(target=lambda: found.append(ways.of("k", asked("p"), ""))) for _ in range(8)]
    for one in threads:
        one.start()
    maker.let.set()
    for one in threads:
        one.join(SECONDS)
    assert maker.asked == ["p"] and len(found) == 8 and len(set(map(id, found))) == 1
    assert found[0] == made("p")


def test_behind_torch_serves_until_the_kernel_is_there(maker: Maker) -> None:
    ways = Ways()
    ways.compile_behind(True)
    first = ways.of("k", asked("p"), "")
    assert first == Way(None, COMING) and ways.of("k", asked("p"), "") is ways.found["k"]
    assert str(first) == f"torch.matmul, since {COMING}"
    assert not ways.wait(0.05), "it is still being made"
    maker.let.set()
    assert ways.wait(SECONDS)
    assert ways.of("k", asked("p"), "") == made("p") and maker.asked == ["p"]


def test_behind_a_kernel_at_hand_serves_meanwhile(maker: Maker) -> None:
    ways, maker.hand = Ways(), "kernel at hand"
    ways.compile_behind(True)
    ways.of("k", asked("p"), "")
    for _ in range(2000):
        if ways.found["k"].kernel is not None:
            break
        threading.Event().wait(0.005)
    assert ways.of("k", asked("p"), "") == Way("kernel at hand", COMING)  # type: ignore[arg-type]
    maker.let.set()
    assert ways.wait(SECONDS) and ways.found["k"] == made("p")


def test_behind_each_class_is_made_once_and_all_are(maker: Maker) -> None:
    ways = Ways()
    ways.compile_behind(True)
    for _ in range(3):
        for number in range(20):
            ways.of(number, asked(number), "")
    maker.let.set()
    assert ways.wait(SECONDS)
    assert sorted(maker.asked) == list(range(20))
    assert all(ways.found[number] == made(number) for number in range(20))


def test_behind_what_needs_no_kernel_is_said_at_once(maker: Maker) -> None:
    ways = Ways()
    ways.compile_behind(True)
    said = Way(None, "operands are on the CPU")
    assert ways.of("k", lambda: said, "") is said and ways.wait(0.0) and not maker.asked


def test_what_cannot_be_made_behind_is_said_and_torch_goes_on(maker: Maker, caplog: pytest.LogCaptureFixture) -> None:
    ways = Ways()
    ways.compile_behind(True)
    maker.let.set()
    maker.error = LegalSatError("no nvcc was found; install it")
    ways.of("k", asked("p"), "")
    assert ways.wait(SECONDS) and ways.found["k"] == Way(None, "no nvcc was found; install it")
    maker.error = ZeroDivisionError("a fault of ours")
    with caplog.at_level(logging.ERROR, "legalsat.torch"):
        ways.of("other", asked("p"), "64 x 64")
        assert ways.wait(SECONDS)
    assert ways.found["other"] == Way(None, "making its kernel failed: a fault of ours")
    assert "no kernel could be made of 64 x 64" in caplog.text and "ZeroDivisionError" in caplog.text


def test_what_was_forgotten_meanwhile_is_not_kept(maker: Maker) -> None:
    ways = Ways()
    ways.compile_behind(True)
    ways.of("k", asked("p"), "")
    ways.clear()
    assert ways.wait(SECONDS), "nobody waits for it"
    maker.let.set()
    ways.of("other", asked("q"), "")
    assert ways.wait(SECONDS) and list(ways.found) == ["other"]


def test_calls_wait_again_where_they_are_told_to(maker: Maker) -> None:
    ways = Ways()
    ways.compile_behind(True)
    ways.compile_behind(False)
    maker.let.set()
    assert ways.of("k", asked("p"), "") == made("p")

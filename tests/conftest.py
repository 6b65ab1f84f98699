"""What all tests share."""

from __future__ import annotations

import time

import pytest

from legalsat.analyses.ptx import bounds

PATIENCE = 5  # a machine that is this much slower than usual answers the same


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what writes the texts that tests compare with."""
    parser.addoption("--update-golden", action="store_true", help="write golden texts instead of comparing with them")


@pytest.fixture(autouse=True)
def _no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let text wrap where it does without a terminal: pytest-xdist tells its workers a width of its own."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(autouse=True)
def _patient(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let checks of PTX take longer: what is proven is asked here, and how quickly in ``bench.ptx``."""
    if request.node.get_closest_marker("seconds") is None:
        monkeypatch.setattr(bounds, "_spent", lambda: time.thread_time() / PATIENCE)

"""What all tests share."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what writes the texts that tests compare with."""
    parser.addoption("--update-golden", action="store_true", help="write golden texts instead of comparing with them")


@pytest.fixture(autouse=True)
def _no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let text wrap where it does without a terminal: pytest-xdist tells its workers a width of its own."""
    monkeypatch.delenv("COLUMNS", raising=False)

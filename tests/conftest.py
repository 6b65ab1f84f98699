"""What all tests share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let text wrap where it does without a terminal: pytest-xdist tells its workers a width of its own."""
    monkeypatch.delenv("COLUMNS", raising=False)

"""`make demo` prints a page: every step of it, in lines that a terminal shows whole."""

from __future__ import annotations

import re

import pytest

from legalsat import demo

MOST_LINES = 30


def test_the_demo_is_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= demo.WIDTH == 100
    assert [line[0] for line in lines if re.match(r"\d\. ", line)] == ["1", "2", "3", "4"]

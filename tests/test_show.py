"""Answers as text: what they keep to, whatever their width and colours."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import legalsat as ls
from legalsat.view.look import Look
from legalsat.view.show import byte_count, duration, show_diagnostic, show_plan, table
from legalsat.view.show_explanation import show_explanation

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def test_wide_diagnostics_read_as_the_library_words_them() -> None:
    found = ls.explain(ls.Transpose(ls.Tensor((64, 63), "bf16", align=2)), "h200").diagnostics
    assert len(found) > 1
    for diagnostic in found:
        assert show_diagnostic(diagnostic, Look(width=10**6)) == str(diagnostic)


def test_colours_change_no_letter() -> None:
    bad = ls.explain(ls.Transpose(ls.Tensor((64, 63), "bf16", align=2)), "h200")
    plan = ls.synthesize(ls.Transpose(ls.Tensor((64, 64), "bf16")), "h200")
    for width in (40, 100):
        for plainly, coloured in (
            (show_explanation(bad, Look(width)), show_explanation(bad, Look(width, colour=True))),
            (show_plan(plan, Look(width)), show_plan(plan, Look(width, colour=True))),
        ):
            assert "\x1b" not in plainly
            assert "\x1b" in coloured
            assert ANSI.sub("", coloured) == plainly


@pytest.mark.parametrize("width", [60, 80, 120])
def test_prose_keeps_to_the_width(width: int) -> None:
    found = ls.explain(ls.Transpose(ls.Tensor((64, 63), "bf16", align=2)), "h200")
    # A title is one line, and so is the first line of a diagnostic where it fits; all others wrap.
    lines = show_explanation(found, Look(width)).splitlines()[1:]
    assert max(map(len, lines)) <= width


@given(st.lists(st.lists(st.text("abc", max_size=5), min_size=3, max_size=3), min_size=1))
def test_table_columns_start_where_their_heads_do(rows: list[list[str]]) -> None:
    lines = table(rows, indent="", gap="|")
    for column in range(3):
        starts = [sum(max(len(r[c]) for r in rows) + 1 for c in range(column))] * len(rows)
        for line, row, start in zip(lines, rows, starts, strict=True):
            assert line[start : start + len(row[column])] == row[column]


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1 KiB"), (1536, "1.5 KiB"), (2**50, "1024 TiB")]
)
def test_byte_counts_read_well(number: int, text: str) -> None:
    assert byte_count(number) == text


@pytest.mark.parametrize(("nanoseconds", "text"), [(3000.4, "3000 ns"), (17e3, "17.0 us"), (1.25e6, "1.25 ms")])
def test_durations_read_well(nanoseconds: float, text: str) -> None:
    assert duration(nanoseconds) == text

"""Causes that cannot show themselves as a failure did: no words make them likely, whatever was learned."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import legalsat as ls
from bench.fit_evidence import labelled, whole
from legalsat.pasted.grammar import plain
from legalsat.pasted.tables.more_tellings import MORE_TELLINGS
from legalsat.pasted.tables.tellings import TELLINGS
from legalsat.pasted.wording import likely
from legalsat.pasted.wording.apart import told_apart
from legalsat.pasted.wording.excluded import excluded
from legalsat.pasted.wording.kinds import is_by_line

# What is told of promises about order, none of which moves an address.
OF_ORDER = [
    text
    for table in (TELLINGS, MORE_TELLINGS)
    for code, texts in table.items()
    if code.startswith("PIPE") and code != "PIPE025"
    for text in texts
]


def guessed(text: str, name: str = "b200") -> list[str]:
    return [one.code for one in ls.explain(text, name).diagnostics if one.where == likely.WHERE]


@pytest.mark.parametrize("result", ["CUDA error: misaligned address", "CUDA error: invalid argument"])
def test_order_that_is_broken_neither_moves_an_address_nor_refuses_a_call(result: str) -> None:
    assert len(OF_ORDER) > 100
    found = Counter(code for text in OF_ORDER for code in guessed(f"{text}\n{result}"))
    assert found and not [code for code in found if code.startswith("PIPE") and code != "PIPE025"]


def test_a_barrier_that_lies_wrongly_is_a_misaligned_address() -> None:
    never = excluded("CUDA error: misaligned address")
    assert "PIPE025" not in never and {"PIPE010", "CUDA700"} <= never
    assert excluded("CUDA error: an illegal memory access was encountered") == set()


def test_a_result_that_only_prose_hints_at_excludes_nothing() -> None:
    prose = "relative error 0.002\nthe switch to the next group writes its tensor map while TMA loads still use the map"
    assert excluded(prose) == set() and "PIPE033" in guessed(prose)


def test_no_public_report_has_a_broken_order_as_the_cause_of_what_excludes_it() -> None:
    asked = 0
    for report in labelled():
        never = excluded(plain(whole(report)))
        asked += bool(never)
        # Two name an invalid address beside another fault, which a text that prints the other alone cannot tell.
        assert never & {*report["codes"]} <= {"CUDA700"}, report["id"]
    assert asked > 200


@pytest.mark.parametrize(
    "text",
    [
        "the kernel compiles and hangs",
        "it compiled fine, but then deadlocks at the second tile",
        "compiles without errors and the kernel never finishes",
    ],
)
def test_a_compiler_that_was_done_is_not_what_hangs(text: str) -> None:
    assert "TOOL014" in excluded(text)


@pytest.mark.parametrize(
    "text", ["nvcc compiles for an hour and never finishes", "the kernel compiles and gives wrong results", "it hangs"]
)
def test_a_compiler_that_may_have_failed_is_not_excluded(text: str) -> None:
    assert excluded(text) == set()


def test_what_a_tool_has_shown_comes_before_what_words_weigh() -> None:
    answered = ls.explain(
        "Each warp writes its rows of the tile and all read it in the k loop; some runs give wrong sums in a few "
        "elements. racecheck reports a RAW hazard on the tile.",
        "h200",
    )
    by_code = {one.code: one for one in answered.diagnostics}
    told = (by_code["PIPE008"], by_code["PIPE009"])
    assert told[0].where == likely.WHERE and is_by_line(told[1])
    assert [one.code for one in told_apart(told, likely.WHERE, "racecheck: a RAW hazard")] == ["PIPE009", "PIPE008"]
    assert [one.code for one in told_apart(told, likely.WHERE, "racecheck: a WAR hazard")] == ["PIPE008", "PIPE009"]
    assert [one.code for one in told_apart(told, likely.WHERE, "racecheck")] == ["PIPE008", "PIPE009"]


@pytest.mark.parametrize(
    "text",
    [
        "tileiras crashes on my gemm",
        "ptxas itself segfaults when I compile the attention kernel",
        "crash in ptxas while compiling for sm_100a",
    ],
)
def test_a_compiler_that_is_said_to_crash_has_a_fault_of_its_own(text: str) -> None:
    assert [(one.code, one.basis) for one in ls.explain(text, "b200").diagnostics] == [("TOOL014", "known")]


@pytest.mark.parametrize(
    "text",
    [
        "the gemm kernel compiled by nvcc crashes with an illegal memory access",
        "no crash in ptxas with -O1, the sums of the kernel are wrong",
        "the attention kernel gives wrong results, and nvcc does not crash",
    ],
)
def test_what_a_compiler_made_is_not_the_compiler_that_crashes(text: str) -> None:
    assert not [one for one in ls.explain(text, "b200").diagnostics if re.search("pass of its own", one.message)]

"""Every rule has a site that violates it and the same site repaired; what it says keeps the house style."""

from __future__ import annotations

from typing import Any

import pytest

from legalsat.diagnostics import worst_first
from legalsat.errors import LegalSatError
from legalsat.rule import Source, Unit, require, rules_in
from legalsat.rules import (
    RULES,
    TENSOR_MAP_RULES,
    granules,
    judge,
    lenient,
    map_edits,
    matrix,
    movement,
    padding,
    pipeline,
    products,
    tcgen05,
    tcgen05_tiles,
    tensor_copy,
    tensor_memory,
    tensor_rows,
    tma,
    tma_tiled,
    vectors,
    wgmma,
    wgmma_shapes,
    windows,
)
from legalsat.rules.examples import EXAMPLES, Example
from legalsat.rules.examples.tensor_maps import tiled
from legalsat.targets import TARGETS, target
from legalsat.units.sites import TmaCopy

BY_CODE = {rule.code: rule for rule in RULES}
# Messages start in lower case, but for names that are written in capitals.
NAMES = ("TMA", "L2", "NaN", "CUtensorMap")
# Words that begin a help; a new one is added here once somebody has read that it is a verb.
VERBS = (
    *(
        "bring",
        "convert",
        "copy",
        "declare",
        "deliver",
        "fill",
        "give",
        "keep",
        "let",
        "load",
        "merge",
        "move",
        "name",
        "pad",
        "plan",
        "raise",
        "round",
    ),
    *("set", "split", "start", "store", "take", "use"),
)


def test_there_is_exactly_one_example_for_each_rule() -> None:
    assert sorted(example.code for example in EXAMPLES) == sorted(BY_CODE)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.code)
def test_refused_example_is_refused_and_no_rule_minds_the_repaired_one(example: Example) -> None:
    assert example.code in {said.code for said in judge(example.refused, example.target)}
    assert not judge(example.repaired, example.elsewhere or example.target)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.code)
def test_what_a_rule_says_keeps_the_house_style(example: Example) -> None:
    rule = BY_CODE[example.code]
    for said in rule.check(example.refused, target(example.target)):
        assert said.message[0].islower() or said.message[0].isdigit() or said.message.startswith(NAMES)
        assert said.help.split()[0] in VERBS, "help begins with a verb"
        for text in (said.message, said.help):
            assert not text.endswith((".", "!"))
            assert not set("{}\n") & set(text)
        lines = str(said).splitlines()
        assert lines[0] == f"{rule.level}[{rule.code}]: {said.message}"
        assert len(lines) == 4 and all(line.strip() for line in lines)
        assert said.measured == rule.source.document.startswith("measured")
        assert said.to_json()["code"] == rule.code


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_is_documented(rule: Any) -> None:
    summary = rule.docs.splitlines()[0]
    assert summary.endswith(".") and summary[0].isupper()
    assert rule.source.quote and rule.source.document and rule.source.field
    assert rule.name.islower() and rule.refused_by in ("driver", "hardware", "document")
    # A warning is for what nobody enforces; who enforces something refuses with an error.
    assert rule.level == "error" or rule.refused_by == "document"


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_no_rule_speaks_where_the_target_lacks_the_unit(name: str) -> None:
    on = target(name)
    for example in EXAMPLES:
        if on.tma is None and isinstance(example.refused, TmaCopy):
            assert not judge(example.refused, on)


def test_a_driver_rule_that_no_document_states_says_that_it_was_measured() -> None:
    measured = {rule.code for rule in RULES if rule.source.measured}
    assert {"TMA017", "TMA042", "TMA045"} <= measured


def test_two_rules_with_one_code_are_refused() -> None:
    with pytest.raises(LegalSatError, match="share the code"):
        rules_in(tma, tma_tiled, tma)


def test_a_rule_without_docstring_or_quote_is_refused() -> None:
    def undocumented(site: Any, limits: Any) -> Any:
        yield require(site, "fails", help="give something else")

    def documented(site: Any, limits: Any) -> Any:
        """Has a help page."""
        yield require(site, "fails", help="give something else")

    unit, source = Unit("nothing", lambda on: on), Source("nowhere", "field")
    with pytest.raises(LegalSatError, match="docstring"):
        unit.rule("X001", source.saying("words"), refused_by="document")(undocumented)
    with pytest.raises(LegalSatError, match="docstring"):
        unit.rule("X001", source, refused_by="document")(documented)


def test_errors_come_before_warnings() -> None:
    site = tiled(global_dim=(64, 2**32), address=8, element_stride=(2, 1))
    said = worst_first(d for rule in TENSOR_MAP_RULES for d in rule.check(site, target("h200")))
    assert [d.level for d in said] == ["error", "warning", "warning"]


def test_rules_of_movements_are_no_tensor_map_rules() -> None:
    codes = {rule.code for rule in TENSOR_MAP_RULES}
    extra = {
        rule.code
        for rule in rules_in(
            movement,
            vectors,
            wgmma,
            windows,
            padding,
            tcgen05_tiles,
            matrix,
            wgmma_shapes,
            tcgen05,
            tensor_memory,
            tensor_rows,
            products,
            pipeline,
            map_edits,
            lenient,
            tensor_copy,
            granules,
        )
    }
    assert not codes & extra
    assert codes | extra == set(BY_CODE)

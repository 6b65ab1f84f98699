"""The pages of rules: complete, linked, and their Python runs and prints what they say; values as Python."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest
from test_repository import FOLDERS, ROOT

from legalsat.errors import LegalSatError
from legalsat.pasted.results import RESULT_RULES
from legalsat.pasted.tools import TOOL_RULES
from legalsat.rule import Rule
from legalsat.rules import RULES
from legalsat.rules.examples import EXAMPLES, Example
from legalsat.units.sites import Movement, TmaCopy
from legalsat.units.tensor_map import TensorMap
from legalsat.view.python_source import change, expression, subject
from legalsat.view.show_rules import FAMILIES, INDEX, families, pages, title

ALL_RULES = (*RULES, *RESULT_RULES, *TOOL_RULES)
PAGES = pages()


def blocks(page: str, language: str) -> list[str]:
    """Return the fenced blocks of a page in a language."""
    return re.findall(rf"```{language}\n(.*?)\n```", page, re.DOTALL)


def as_site(value: Any) -> Any:
    """Return the site that is judged for a value on a page."""
    return TmaCopy.of(value) if isinstance(value, TensorMap) else value


def words(text: str) -> list[str]:
    """Return what a reader sees of Markdown, word by word."""
    link = r"\[([A-Z]+\d+|FACTS [A-Z]+-\d+)\]\((?:[A-Z]+\d+\.md|\.\./facts\.md#[a-z]+-\d+)\)"
    return re.sub(link, r"\1", re.sub(r"\\(.)", r"\1", text)).split()


def test_there_is_a_page_for_each_rule_and_an_index() -> None:
    assert set(PAGES) == {INDEX} | {f"{rule.code}.md" for rule in ALL_RULES}


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.code)
def test_a_page_says_all_that_a_rule_does(rule: Rule) -> None:
    page = PAGES[f"{rule.code}.md"]
    assert page.startswith(f"# {rule.code}: ")
    read = " ".join(words(page))
    for text in (rule.docs, rule.source.quote, rule.source.document):
        assert " ".join(text.split()) in read
    assert f"| level | {rule.level} |" in page
    by = "nobody" if rule.refused_by == "nobody" else f"(?:the|a) {rule.refused_by}"
    assert re.search(rf"\| refused by \| {by}:", page)
    assert ("| measured: no document says so |" in page) == rule.source.measured


@pytest.mark.parametrize("name", sorted(set(PAGES) - {INDEX}))
def test_the_python_of_a_page_prints_what_the_page_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for block in blocks(PAGES[name], "python"):
        exec(compile(block, name, "exec"), names)
    (said,) = blocks(PAGES[name], "text")
    assert capsys.readouterr().out.rstrip("\n") == said
    assert f"[{name.removesuffix('.md')}]: " in said


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.code)
def test_the_python_of_a_page_makes_the_example(example: Example) -> None:
    names: dict[str, Any] = {}
    for block in blocks(PAGES[f"{example.code}.md"], "python"):
        exec(compile(re.sub(r"(?m)^(for|assert) .*\n?( .*\n?)*", "", block), example.code, "exec"), names)
    assert repr(as_site(names["refused"])) == repr(example.refused)
    assert repr(as_site(names["repaired"])) == repr(example.repaired)


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES.values():
        links = set(re.findall(r"\]\(([^)]*)\)", page))
        assert {link for link in links if not link.startswith("../facts.md#")} <= set(PAGES)
    assert "[TMA021](TMA021.md)" in PAGES["TMA017.md"]
    assert "[TMA017](" not in PAGES["TMA017.md"]


def test_the_index_lists_every_rule_once_under_its_family() -> None:
    family, listed = "", {}
    for line in PAGES[INDEX].splitlines():
        if line.startswith("## "):
            family = line.removeprefix("## ")
        elif match := re.match(r"\| \[(\w+)\]\(\1\.md\)", line):
            assert match[1] not in listed
            listed[match[1]] = family
    assert set(listed) == {rule.code for rule in ALL_RULES}
    assert all(listed[code] == FAMILIES[code.rstrip("0123456789")] for code in listed)


def test_a_family_without_a_title_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FAMILIES, "MDESC")
    with pytest.raises(LegalSatError, match="MDESC001 belongs to no family"):
        families()


def test_titles_are_names_in_words() -> None:
    by_code = {rule.code: rule for rule in RULES}
    assert title(by_code["TMA018"]) == "TMA018: global extent beyond 2^31"


def test_numbers_near_powers_of_two_are_written_as_such() -> None:
    for power in (19, 20, 31, 32, 40):
        for beyond in range(-80, 81):
            number = 2**power + beyond
            text = expression(number).text
            assert eval(text) == number
            assert ("**" in text) == (power >= 20 and abs(beyond) <= 64)


def test_what_is_as_usual_is_left_out() -> None:
    assert expression(Movement(8)).text == "Movement(word=8)"
    tm = TensorMap(dtype="bf16", global_dim=(64,), box=(64,), element_stride=(1,), swizzle=3)
    assert expression(tm).text == 'ls.TensorMap(dtype="bf16", global_dim=(64,), box=(64,), swizzle="128B")'
    assert expression(("a", 'say "b"')).text == '("a", "say \\"b\\"")'


def test_only_what_differs_is_changed() -> None:
    assert change("x", Movement(8), Movement(16)).text == "replace(x, word=16)"
    assert change("x", 8, Movement(16)).text == "Movement(word=16)"
    stores = TmaCopy.of(TensorMap("bf16", (64,), box=(64,)), stores=True)
    assert subject(stores) is stores
    assert subject(TmaCopy.of(TensorMap("bf16", (64,), box=(64,)))) == TensorMap("bf16", (64,), box=(64,))


def said_facts() -> set[str]:
    """Return the ids of facts in all text that may be shown: strings of the sources, of docstrings those of rules."""
    found = set()
    for path in [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]:
        if any(part.is_symlink() for part in path.parents):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        quiet = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
            and not any("rule(" in ast.unparse(one) for one in getattr(node, "decorator_list", ()))
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in quiet:
                found |= set(re.findall(r"FACTS ([A-Z]+-[0-9]+)", node.value))
                if path.name == "obligations.py":  # where the ids fill in what says FACTS
                    found |= set(re.findall(r"^([A-Z]+-[0-9]+)$", node.value))
    return found


def test_every_fact_that_is_cited_has_its_words_and_a_link() -> None:
    text = (ROOT / "docs" / "facts.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^## ([A-Z]+-\d+)\n\n((?:.+\n)+)", text, re.MULTILINE))
    said = said_facts()
    assert len(said) >= 14 and said <= set(told)
    linked = [match for page in PAGES.values() for match in re.findall(r"\(\.\./facts\.md#([a-z]+-\d+)\)", page)]
    assert len(linked) >= 10 and {one.upper() for one in linked} <= set(told)
    prose = [re.sub(r"```.*?```", "", page, flags=re.DOTALL) for page in PAGES.values()]
    assert not [match for page in prose for match in re.findall(r"(?<!\[)FACTS [A-Z]+-\d+", page)]

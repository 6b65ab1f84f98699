"""Explanations as HTML and SARIF: complete, escaped and well-formed; pages are read in Chromium, on a phone too."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from chromium import PHONE, WIDE, chromium_browser, page_opener  # noqa: F401 - fixtures

import legalsat as ls
from legalsat.cli import main
from legalsat.diagnostics import Diagnostic
from legalsat.explanation import Explanation, Obligation, Repair, Snippet
from legalsat.view.sarif import SCHEMA
from legalsat.view.show_html import explanation_html, explanation_page
from legalsat.view.show_rules import rules_by_code
from legalsat.view.show_sarif import explanation_sarif

Run = pytest.CaptureFixture[str]
VOID = {"meta", "hr", "br", "link", "img"}
EVIL = "<script>alert('x')</script> & \"quoted\" <b>"
ODD = ls.TensorMap("bf16", (4095, 4096), (8190,), (64, 64), swizzle="128B")
EVEN = ls.TensorMap("bf16", (4096, 4096), (8192,), (64, 64), swizzle="128B")
REFUSED = ls.explain(ls.Copy(ls.Tensor((4096, 4095), "bf16"), tile=(128, 64)), "h200")
MAP_WORDS = ["dtype=bf16", "global_dim=64,64", "global_stride=130", "box=64,8"]

HOSTILE = Explanation(
    subject=EVIL,
    target=EVIL,
    legal=False,
    diagnostics=(Diagnostic("TMA005", "error", "driver", EVIL, EVIL, EVIL, EVIL, EVIL, measured=True),),
    repairs=(
        Repair("pad", EVIL, ls.Tensor((4,), "u8"), 5000, 12.0, 3.0, (Snippet(EVIL, EVIL), Snippet("cuda", "a < b"))),
    ),
    obligations=(Obligation("hang", EVIL, EVIL),),
    values=(EVIL,),
)
CASES = {
    "refused": REFUSED,
    "map": ls.explain(ODD, "h200"),
    "legal map": ls.explain(EVEN, "h200"),
    "result": ls.explain("700", "h200"),
    "product": ls.explain(ls.Gemm(256, 256, 255, "bf16"), "h200"),
    "hostile": HOSTILE,
}


class Nesting(HTMLParser):
    """Checks that every tag is closed where it should be; what is read is kept."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.read: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["title"], ["desc"]):
            self.read.append(data)


def read(html: str) -> str:
    return " ".join(" ".join(Nesting(html).read).split())


@pytest.mark.parametrize("name", CASES)
def test_a_fragment_says_all_that_the_explanation_does(name: str) -> None:
    found = CASES[name]
    text = read(explanation_html(found))
    wanted = [found.subject, "legal" if found.legal else "refused", *found.values, found.way]
    wanted += [part.subject.partition(": ")[2] for part in found.parts]
    for diagnostic in found.diagnostics:
        wanted += [diagnostic.code, diagnostic.message, diagnostic.help, diagnostic.where, diagnostic.refused_by]
    for repair in found.repairs:
        wanted += [repair.message, *(part for one in repair.snippets for part in (one.terms, one.text))]
    wanted += [part for one in found.obligations for part in (one.message, one.note)]
    for said in wanted:
        assert " ".join(said.split()) in text, said


def test_the_source_is_quoted_with_its_document() -> None:
    html = explanation_html(CASES["map"])
    source = rules_by_code()["TMA005"].source
    (quoted,) = re.findall(r"<blockquote>(.*?)</blockquote>", html)
    assert source.quote in unescape(quoted) and source.document in quoted
    assert 'title="TMA005: stride misaligned"' in html
    measured = explanation_html(
        ls.explain(
            replace(
                EVEN, box=(64, 256, 8), global_dim=(64, 256, 9), global_stride=(128, 32768), element_stride=(1, 1, 1)
            ),
            "h200",
        )
    )
    assert "measured on hardware" in measured


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_loaded_and_no_style_leaves_the_fragment(name: str) -> None:
    html = explanation_html(CASES[name])
    nesting = Nesting(html)
    assert not [tag for tag, _ in nesting.tags if tag in {"script", "link", "img", "iframe", "object"}]
    for _, attributes in nesting.tags:
        assert not [key for key in attributes if key in {"src", "href", "xlink:href"} or key.startswith("on")]
    assert set(re.findall(r"https?://[^\"' ]+", html)) <= {"http://www.w3.org/2000/svg"}
    for style in re.findall(r"<style>(.*?)</style>", html, re.DOTALL):
        for selectors in re.findall(r"([^{}]+)\{[^{}]*\}", re.sub(r"@media[^{]*\{(.*?\})\s*\}", r"\1", style)):
            for selector in selectors.split(","):
                assert selector.strip().startswith((".legalsat", "svg:root"))


def test_every_text_is_escaped() -> None:
    html = explanation_page(HOSTILE)
    assert "<script" not in html and "<b>" not in html.replace("<b>hangs</b>", "")
    assert read(html).count("<script>alert('x')</script>") >= 10


def test_details_hold_what_is_long() -> None:
    nesting = Nesting(explanation_html(REFUSED))
    assert [tag for tag, _ in nesting.tags].count("pre") == sum(len(r.snippets) for r in REFUSED.repairs) + 1
    opened = [attributes for tag, attributes in nesting.tags if tag == "details" and "open" in attributes]
    assert len(opened) == 1 + len(REFUSED.repairs[0].snippets), "the pictures, and the first repair's text"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (REFUSED, "TMA005"),
        (ls.Layout("(4,8):(8,1)"), "bank"),
        (ls.composition(ls.Swizzle(1, 0, 1), ls.Layout("(2,2):(2,1)")), "bank"),
        (ls.LinearLayout({"lane": [(1,), (2,)]}, ["n"]), "T3"),
        (EVEN, "wavefront"),
        (ls.synthesize(ls.Tensor((256, 128), "bf16"), "h200", tile=(64, 64)), "predicted"),
    ],
)
def test_notebooks_show_pictures(value: Any, shown: str) -> None:
    html = value._repr_html_()
    assert shown in read(html) and "<svg" in html


def test_products_show_their_operands_maps() -> None:
    plan = ls.synthesize(ls.Gemm(256, 256, 256, "bf16"), "h200")
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", plan._repr_html_())
    assert {name for caption in captions for name in caption.split(":")[0].split(", ")} == set("ABC")


def test_what_cannot_be_drawn_shows_as_text() -> None:
    assert ls.LinearLayout({"offset": [(1,)]}, ["n"])._repr_html_() is None
    assert ls.TensorMap("bf16", (0, 0), (0,), (0, 0))._repr_html_() is None


# The command line


def test_a_page_is_written(capsys: Run, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert main(["explain", "--tensor-map", *MAP_WORDS, "--target", "h200", "--html", "--output", str(file)]) == 1
    assert not capsys.readouterr().out
    page = file.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "TMA005" in read(page)
    assert main(["explain", "--gemm", "256x256x255", "--dtype", "bf16", "--target", "h200", "--html"]) == 1
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", capsys.readouterr().out)
    assert {"A, B: where rows start", "C: the box in shared memory"} <= set(captions)


def test_a_map_of_bytes_is_a_page_too(capsys: Run, tmp_path: Path) -> None:
    blob = ls.encode_blob(EVEN)
    file = tmp_path / "map.bin"
    file.write_bytes(blob)
    assert main(["decode", str(file), "--html"]) == 0
    assert "fields of the map" in capsys.readouterr().out
    assert main(["decode", str(file), "--sarif"]) == 0
    assert json.loads(capsys.readouterr().out)["$schema"] == SCHEMA


def test_two_forms_are_one_too_many(capsys: Run) -> None:
    for forms in (["--html", "--json"], ["--html", "--sarif"]):
        assert main(["explain", "--text", "700", "--target", "h200", *forms]) == 2
        out, err = capsys.readouterr()
        assert "give one of them" in out + err


# SARIF


def checked(log: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the results of a log, after a look at what the schema asks of it."""
    assert json.loads(json.dumps(log)) == log
    assert log["version"] == "2.1.0" and log["$schema"] == SCHEMA
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert run["tool"]["driver"]["name"] == "legalsat"
    assert len({rule["id"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["shortDescription"]["text"]
        assert rule.get("defaultConfiguration", {}).get("level", "note") in {"error", "warning", "note"}
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in {"error", "warning", "note"} and result["message"]["text"]
        assert "fixes" not in result
        for location in result.get("locations", ()):
            assert set(location) <= {"physicalLocation", "logicalLocations"}
    assert {rule["id"] for rule in rules} == {result["ruleId"] for result in run["results"]}
    results: list[dict[str, Any]] = run["results"]
    return results


@pytest.mark.parametrize("name", CASES)
def test_a_log_has_a_result_for_each_reason_and_each_obligation(name: str) -> None:
    found = CASES[name]
    results = checked(explanation_sarif(found))
    reasons = [(one["ruleId"], one["level"], one["message"]["text"]) for one in results]
    assert reasons[: len(found.diagnostics)] == [(d.code, d.level, d.message) for d in found.diagnostics]
    assert [text for _, _, text in reasons[len(found.diagnostics) :]] == [o.message for o in found.obligations]
    for result, diagnostic in zip(results, found.diagnostics, strict=False):
        properties = result["properties"]
        assert (properties["refused_by"], properties["measured"]) == (diagnostic.refused_by, diagnostic.measured)
        assert diagnostic.help in result["message"]["markdown"]
        (place,) = result["locations"]
        assert "physicalLocation" not in place
        assert place["logicalLocations"] == [{"fullyQualifiedName": diagnostic.where or found.subject}]
    if found.repairs:
        assert results[0]["properties"]["repairs"] == [repair.to_json() for repair in found.repairs]
        assert not any("repairs" in result["properties"] for result in results[1:])


def test_a_rule_tells_its_help() -> None:
    (run,) = explanation_sarif(CASES["map"])["runs"]
    rule = next(rule for rule in run["tool"]["driver"]["rules"] if rule["id"] == "TMA005")
    known = rules_by_code()["TMA005"]
    assert known.source.quote in rule["help"]["text"] and known.source.quote in rule["help"]["markdown"]
    assert rule["name"] == "StrideMisaligned" and rule["defaultConfiguration"] == {"level": known.level}
    assert " ".join(known.docs.split()) == " ".join(rule["fullDescription"]["text"].split())


def test_results_name_the_file_that_was_given(capsys: Run, tmp_path: Path) -> None:
    file = tmp_path / "my log.txt"
    file.write_text("CUDA_ERROR_ILLEGAL_ADDRESS")
    assert main(["explain", str(file), "--target", "h200", "--sarif"]) == 1
    (result,) = checked(json.loads(capsys.readouterr().out))
    (place,) = result["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"].endswith("/my%20log.txt")
    assert main(["explain", "--text", "700", "--target", "h200", "--sarif"]) == 1
    (result,) = checked(json.loads(capsys.readouterr().out))
    assert "physicalLocation" not in result["locations"][0]


# In a browser


@pytest.mark.site
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("name", CASES)
def test_a_page_reads_well(open_page: Any, tmp_path: Path, name: str, size: tuple[int, int], scheme: str) -> None:
    file = tmp_path / "page.html"
    file.write_text(explanation_page(CASES[name]), encoding="utf-8")
    page = open_page(size, scheme)
    page.goto(file.as_uri())
    closed = page.locator("details:not([open]) > summary")
    for left in range(closed.count(), 0, -1):
        closed.first.click()
        assert closed.count() == left - 1, "details open"
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    inside = "all => all.every(one => one.getBoundingClientRect().right <= innerWidth)"
    assert page.eval_on_selector_all("svg, pre, blockquote, h1", inside)
    light, dark = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in _colours(page))
    assert (light > dark) == (scheme == "light"), "the page is lighter than its text"
    shown = page.eval_on_selector_all("svg text", "all => all.map(one => getComputedStyle(one).fill)")
    assert all(sum(map(int, re.findall(r"\d+", colour)[:3])) == dark for colour in shown)


def _colours(page: Any) -> tuple[str, str]:
    """Return the colours of the page and of its text: that of a page without one is its canvas'."""
    canvas = "(e => { e.style.color = 'Canvas'; return getComputedStyle(e).color })"
    return (
        page.evaluate(f"{canvas}(document.body.appendChild(document.createElement('p')))"),
        page.evaluate("getComputedStyle(document.querySelector('.legalsat')).color"),
    )

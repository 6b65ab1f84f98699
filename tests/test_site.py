"""The documentation site, built and read as a person does: in Chromium, from disk, without a network."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from chromium import PHONE, chromium_browser, page_opener  # noqa: F401 - fixtures

ROOT = Path(__file__).parents[1]
pytestmark = [
    pytest.mark.site,
    pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="no mkdocs-material; see `make browser`"),
]


def mkdocs(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run MkDocs; its warnings are errors."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", *arguments]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, just built."""
    folder = tmp_path_factory.mktemp("site")
    done = mkdocs("--site-dir", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


def test_searching_a_code_leads_to_its_page(site: Path, open_page: Any) -> None:
    page = open_page()
    page.goto((site / "index.html").as_uri())
    page.get_by_placeholder("Search").press_sequentially("TMA005")  # the search listens to keys
    page.locator(".md-search-result__link").first.click()
    page.wait_for_url("**/rules/TMA005.html*")
    assert page.locator("h1").inner_text().startswith("TMA005: stride misaligned")
    headings = [heading.strip("¶\n ") for heading in page.locator("h2").all_inner_texts()]
    assert headings == ["Source", "Refused", "Repaired"]
    assert "error[TMA005]: stride of dimension 1 is 8190 bytes" in page.locator(".language-text").inner_text()


def test_the_index_leads_to_a_rule(site: Path, open_page: Any) -> None:
    page = open_page()
    page.goto((site / "index.html").as_uri())
    page.locator(".md-nav--primary").get_by_role("link", name="Rules", exact=True).click()
    page.wait_for_url("**/rules/index.html")
    page.get_by_role("link", name="PIPE007", exact=True).click()
    page.wait_for_url("**/rules/PIPE007.html")
    assert "phase missed" in page.locator("h1").inner_text()


def test_the_reference_shows_a_call_with_its_arguments(site: Path, open_page: Any) -> None:
    page = open_page()
    page.goto((site / "reference/functions.html").as_uri())
    shown = page.locator("article").inner_text()
    assert all(word in shown for word in ("Parameters:", "consumer", "Raises:", "NoLegalLayout", "GemmPlan"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "name",
    ["rules/index.html", "rules/TMA017.html", "rules/CUDA716.html", "reference/layouts.html", "reference/plans.html"],
)
def test_a_phone_shows_whole_lines(site: Path, open_page: Any, name: str, scheme: str) -> None:
    page = open_page(PHONE, scheme)
    page.goto((site / name).as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    cut = "code => code.scrollWidth > code.clientWidth + 1"
    assert not page.eval_on_selector_all(".language-text code, table", f"all => all.filter({cut}).length")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(map(int, re.findall(r"\d+", background)[:3])) > 3 * 128
    assert light == (scheme == "light")


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", path.read_text(encoding="utf-8")):
            assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag), (path.name, tag)


@pytest.mark.parametrize("link", ["[x](nowhere.md)", "[x](#nowhere)", "[x](/absolute.md)", "![x](nowhere.png)"])
def test_a_link_that_leads_nowhere_fails_the_build(tmp_path: Path, link: str) -> None:
    """With our settings but for the pages, so that nothing else can fail it; the same without the link passes."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "mkdocs.yml").write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\nhooks: []\nplugins: []\nnav: [index.md]\ndocs_dir: docs\nsite_dir: out\n"
    )
    page = tmp_path / "docs" / "index.md"
    page.write_text("# Page\n\nText.\n")
    assert mkdocs(cwd=tmp_path).returncode == 0
    page.write_text(f"# Page\n\n{link}\n")
    done = mkdocs(cwd=tmp_path)
    assert done.returncode != 0 and "warning" in done.stderr.lower()

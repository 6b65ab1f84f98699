"""The examples of docs/ run, and print what their lines after `# >` say, however these are broken."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from legalsat.cli import main

DOCS = Path(__file__).parents[1] / "docs"
WIDTH = 100  # columns of a line of a page
PAGES = sorted(DOCS.rglob("*.md"))
BLOCKS = [
    pytest.param(block, id=f"{path.relative_to(DOCS).with_suffix('')}-{number}")
    for path in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_examples_print_what_they_say(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "docs", "exec"), {})
    said = [line.removeprefix("# >") for line in block.splitlines() if line.startswith("# >")]
    printed = capsys.readouterr().out
    if said or "\nassert " not in block:
        assert said, "an example says what it prints, or asserts what holds"
        assert printed.split() == " ".join(said).split()


def test_the_workflow_of_continuous_integration_checks_what_compilers_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workflow,) = re.findall(r"```yaml\n(.*?)```", (DOCS / "check.md").read_text(encoding="utf-8"), re.DOTALL)
    (command,) = re.findall(r"run: legalsat (check .*)", workflow)
    words = shlex.split(command)
    folders = [word for word in words if word.startswith("build/")]
    report = words[words.index("--output") + 1]
    assert f"sarif_file: {report}" in workflow and all(
        folder in workflow.partition("name: check")[0] for folder in folders
    )
    monkeypatch.chdir(tmp_path)
    right = (DOCS.parent / "tests" / "data" / "ptx" / "gluon_add_in_a_ring_sm_90.ptx").read_text()
    for folder in folders:
        (tmp_path / folder / "ab12").mkdir(parents=True)
        (tmp_path / folder / "ab12" / "k.ptx").write_text(right)
    assert main(words) == 0
    (tmp_path / folders[0] / "ab12" / "k.ptx").write_text(right.replace("fence.proxy.async.shared::cta;", ""))
    assert main(words) == 1  # which fails the step
    (run,) = json.loads((tmp_path / report).read_text())["runs"]
    (wrong,) = [one for one in run["results"] if one["level"] == "error"]
    assert wrong["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == f"{folders[0]}/ab12/k.ptx"


def test_something_was_found() -> None:
    assert {str(block.id).split("-")[0] for block in BLOCKS} >= {"banks", "operands", "reference/banks"}
    assert len(BLOCKS) >= 11


@pytest.mark.parametrize("page", ["README.md", *(str(path.relative_to(DOCS.parent)) for path in PAGES)])
def test_no_line_of_a_page_is_wide(page: str) -> None:
    """Rows of tables cannot be broken; all else can. The indent that makes a block of code is not shown."""
    lines = (DOCS.parent / page).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line.removeprefix("    ")) > WIDTH and not line.startswith("|")] == []


def test_every_result_that_the_measured_page_names_is_kept() -> None:
    """A claim has a figure, a command that exists, and a file."""
    claims = re.split(r"^\*\*", (DOCS / "measured.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert len(claims) > 40
    for claim in claims:
        figure, command, result = (claim.partition(f"- {part}: ")[2] for part in ("figure", "command", "result"))
        assert figure and command and result, claim
        files = re.findall(r"`((?:bench|tests)/[^`]*)`", result)
        assert files or "not kept" in result, claim
        assert all((DOCS.parent / file).is_file() for file in files), claim
        for module in re.findall(r"python -m ((?:bench|tests)[\w.]*)", command):
            where = DOCS.parent / module.replace(".", "/")
            assert where.with_suffix(".py").is_file() or (where / "__main__.py").is_file(), module

"""The examples of docs/ run, and print what their lines after `# >` say, however these are broken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
BLOCKS = [
    pytest.param(block, id=f"{path.stem}-{number}")
    for path in sorted(DOCS.glob("*.md"))
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_examples_print_what_they_say(
    block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "docs", "exec"), {})
    said = [line.removeprefix("# >") for line in block.splitlines() if line.startswith("# >")]
    assert said, "an example says what it prints"
    assert capsys.readouterr().out.split() == " ".join(said).split()


def test_something_was_found() -> None:
    assert {str(block.id).split("-")[0] for block in BLOCKS} >= {"banks", "operands"}
    assert len(BLOCKS) >= 11

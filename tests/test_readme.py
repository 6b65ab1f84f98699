"""The README's examples run, and its sample output is what the command prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from legalsat.cli import main

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
KERNEL = Path(__file__).parent / "data" / "ptx" / "gluon_add_in_a_ring_sm_90.ptx"
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = re.findall(r"^    (?:\$ )?legalsat (.*)$", README, re.MULTILINE)


@pytest.mark.parametrize("block", BLOCKS)
def test_python_examples_run(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "import torch" in block:
        pytest.importorskip("torch", reason="the example is for users of torch")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_answer(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernel.ptx").write_text(KERNEL.read_text(encoding="utf-8"), encoding="utf-8")
    assert main(shlex.split(command, comments=True)) in {0, 1}
    assert capsys.readouterr().out


def test_the_sample_output_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    command, shown = re.findall(r"^    \$ legalsat (.*?)\n(.*?)\n\nEvery", README, re.MULTILINE | re.DOTALL)[0]
    main(shlex.split(command))
    expected = "\n".join(line.removeprefix("    ") for line in shown.splitlines())
    assert capsys.readouterr().out.rstrip() == expected.rstrip()


def test_something_was_found() -> None:
    assert len(BLOCKS) == 3  # one for each reader
    for block in BLOCKS:
        assert sum(bool(line) and not line.startswith("import ") for line in block.splitlines()) <= 5
    assert len(COMMANDS) >= 5

"""Each program of examples/ runs as it is, in a folder of its own, and says what its first line promises."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
MOST_LINES, MOST_COLUMNS = 30, 120
# A part of what each must say: facts that other tests derive, and no figures of this version.
SAYS = {
    "banks_of_amd": "mi300x, rows 272 bytes apart: ",
    "check_ptx_in_ci": "planned: proven, 0 breaks",
    "custom_target": "half an H200: ",
    "explain_a_stride": "stride of axis 0 is 8190 bytes, no multiple of 16",
    "read_a_pasted_dump": "is 8190 bytes, no multiple of 16",
    "sweep_a_model": " operators: legal",
    "tensor_memory": "tcgen05, instructions of ",
    "use_the_map_in_your_kernel": "(row < 32, k < 64): box at {64 k, 128 row}, source + 0",
}


def test_every_example_is_told_here() -> None:
    assert {path.stem for path in EXAMPLES} == set(SAYS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_is_short(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= MOST_COLUMNS
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(path)])
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        assert not end.code
    assert SAYS[path.stem] in capsys.readouterr().out

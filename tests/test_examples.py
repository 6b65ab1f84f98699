"""Each program of examples/ runs as it is, in a folder of its own, and says what its first line promises."""

from __future__ import annotations

import json
import runpy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import legalsat as ls
from legalsat.backends.cute.compile import headers, nvcc


def compiler() -> bool:
    """Whether nvcc and CuTe's headers are there."""
    try:
        return bool(nvcc() and headers())
    except ls.LegalSatError:
        return False


FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))
MOST_LINES, MOST_COLUMNS = 30, 120
# A part of what each must say: facts that other tests derive, and no figures of this version.
SAYS = {
    "banks_of_amd": "mi300x, rows 272 bytes apart: ",
    "check_ptx_in_ci": "planned: proven, 0 breaks",
    "custom_rule": "error[HOUSE001]: rows of the box have 64 bytes, no multiple of 128",
    "custom_target": "half an H200: ",
    "cute_kernel": "compiled; where a GPU is",
    "explain_a_stride": "stride of axis 0 is 8190 bytes, no multiple of 16",
    "matmul_in_torch": "k = 4095: ",
    "product_for_triton": "product.py: ",
    "read_a_pasted_dump": "is 8190 bytes, no multiple of 16",
    "sweep_a_model": " operators: legal",
    "symbolic_plan": "compiled; where a GPU is: ./symbolic_plan 1 77",
    "tensor_memory": "tcgen05, instructions of ",
    "use_the_map_in_your_kernel": "(row < 32, k < 64): box at {64 k, 128 row}, source + 0",
}
# What some need besides, and those that take long: nvcc works for seconds.
NEEDS = {"matmul_in_torch": lambda: find_spec("torch"), "cute_kernel": compiler, "symbolic_plan": compiler}
SLOW = {"cute_kernel", "symbolic_plan"}


def test_every_example_is_told_here() -> None:
    assert {path.stem for path in EXAMPLES} == set(SAYS)


@pytest.mark.parametrize(
    "path",
    [pytest.param(one, marks=[pytest.mark.slow] * (one.stem in SLOW)) for one in EXAMPLES],
    ids=lambda one: one.stem,
)
def test_an_example_runs_and_is_short(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if not NEEDS.get(path.stem, lambda: True)():
        pytest.skip("what it is about is not installed")
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


def test_the_notebook_shows_what_its_cells_say() -> None:
    """Each cell of code as a notebook runs it: the value of its last line as HTML, which names what is said there."""
    notebook = json.loads((FOLDER / "explain_in_a_notebook.ipynb").read_text())
    names: dict[str, Any] = {}
    shown = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            *before, last = "".join(cell["source"]).splitlines()
            exec("\n".join(before), names)
            shown.append(eval(last, names)._repr_html_())
            assert not cell["outputs"]  # what it shows depends on the version
    assert "TMA005" in shown[0]
    assert "coordinates" in shown[1] or "box" in shown[1]
    assert all("<svg" in one for one in shown)

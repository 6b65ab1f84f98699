"""`legalsat sweep`: what it answers, its exit codes, and two sweeps side by side."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import legalsat as ls
from legalsat.cli import main
from legalsat.cli.sweep import _bar, fitted
from legalsat.sweeps.compare import compare
from legalsat.sweeps.engine import Progress, rows_in

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is an extra")
Capture = pytest.CaptureFixture[str]
PROBLEMS = "name,m,n,k\nup,512,512,1001\ndown,512,512,1024\nbad,0,1,1\n"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("swept") / "p.csv"
    path.write_text(PROBLEMS, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def answers(file: Path) -> dict[str, Path]:
    """Return the answers for two GPUs, one of which has no copy engine."""
    paths = {name: file.with_name(f"{name}.parquet") for name in ("h200", "a100")}
    for name, path in paths.items():
        ls.sweep(file, name, out=path, workers=1)
    return paths


def test_a_bad_row_is_counted_and_the_command_says_so(file: Path, capsys: Capture) -> None:
    assert main(["sweep", str(file), "--target", "h200", "--workers", "1", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["verdicts"] == {"invalid": 1, "repaired": 1, "legal": 1} and said["complete"]
    assert said["invalid_rows"] == [{"line": 4, "name": "bad", "error": "m is 0; give at least 1"}]
    assert main(["sweep", str(file), "--target", "h200", "--workers", "1"]) == 1
    text = capsys.readouterr().out
    assert "3 rows of p.csv on h200" in text and "33.3%" in text
    assert "line 4 (bad)" in text and "m is 0" in text
    places = [text.index(word) for word in ("invalid rows", "repaired ", "legal ")]
    assert places == sorted(places), "failures come first"


@pytest.mark.parametrize(
    "words",
    [
        ["sweep"],
        ["sweep", "p.csv"],
        ["sweep", "nowhere.csv", "--target", "h200"],
        ["sweep", "--compare", "a.parquet", "b.parquet"],
        ["sweep", "p.csv", "--target", "h200", "--compare", "a", "b"],
        ["sweep", "p.csv", "--target", "h200", "--workers", "0"],
        ["sweep", "p.csv", "--target", "h200", "--out", "no/such/folder.parquet"],
    ],
)
def test_wrong_usage_is_said(
    words: list[str], file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(file, tmp_path)
    assert main(words) == 2
    assert "error: " in capsys.readouterr().err


def test_two_targets_are_compared(answers: dict[str, Path], capsys: Capture) -> None:
    found = compare(answers["h200"], answers["a100"])
    assert (found.both, found.only_old, found.only_new) == (2, 0, 0)
    assert found.targets[0].startswith("h200") and found.targets[1].startswith("a100")
    assert found.verdicts == {("repaired", "refused"): 1, ("legal", "refused"): 1}
    assert {change.name for change in found.changes} == {"up", "down"}
    assert main(["sweep", "--compare", str(answers["h200"]), str(answers["a100"])]) == 0
    assert "legal -> refused" in capsys.readouterr().out
    assert main(["sweep", "--compare", str(answers["h200"]), str(answers["a100"]), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdicts"]["legal -> refused"] == 1


def test_a_sweep_equals_itself(answers: dict[str, Path]) -> None:
    found = compare(answers["h200"], answers["h200"])
    assert found.changes == () and found.both == 2


def test_a_change_of_time_counts_from_two_percent_on(answers: dict[str, Path], tmp_path: Path) -> None:
    table = pyarrow.parquet.read_table(answers["h200"])
    place = table.schema.get_field_index("predicted_ns")
    for factor, changes in ((1.01, 0), (1.5, 2)):
        times = pyarrow.array([time and factor * time for time in table.column("predicted_ns").to_pylist()])
        slower = tmp_path / f"{factor}.parquet"
        pyarrow.parquet.write_table(table.set_column(place, "predicted_ns", times), slower)
        found = compare(answers["h200"], slower)
        assert [round(one.ratio, 6) for one in found.changes] == [factor] * changes


def test_what_no_sweep_wrote_is_refused(answers: dict[str, Path], tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"m": [1]}), other)
    for wrong in (other, tmp_path / "none.parquet", Path(__file__)):
        with pytest.raises(ls.InvalidInput, match="legalsat sweep --out"):
            compare(answers["h200"], wrong)


def test_answers_open_in_a_database(answers: dict[str, Path]) -> None:
    duckdb: Any = pytest.importorskip("duckdb", reason="duckdb is not installed")
    counts = duckdb.sql(f"select verdict, count(*) from '{answers['h200']}' group by verdict").fetchall()
    assert dict(counts) == {"repaired": 1, "legal": 1, "invalid": 1}


def test_progress_counts_what_is_done(file: Path, capsys: Capture) -> None:
    pytest.importorskip("tqdm", reason="tqdm is an extra")
    total = rows_in(str(file))
    assert total == 3
    with _bar(total) as show:
        assert show is not None
        ls.sweep(file, "h200", workers=1, on_progress=show)
    shown = capsys.readouterr().err
    assert "3/3" in shown and "repaired=1" in shown
    with _bar(None) as silent:
        assert silent is None


def test_progress_has_a_rate() -> None:
    progress = Progress(rows=10)
    assert progress.rate > 0


def test_names_that_a_terminal_would_obey_are_written_out_in_columns_that_stand_below_each_other() -> None:
    lines = fitted([("\x1b[31mred\x1b[0m", "1", "a"), ("plain", "2", "b")])
    assert all("\x1b" not in line for line in lines) and lines[0].index("1   a") == lines[1].index("2   b")

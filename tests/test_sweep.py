"""Sweeps: the same answers whoever gives them, kept across kills, and every bad row an answer of its own."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import legalsat as ls
from legalsat.extract.explain.explain import explain_tensor
from legalsat.extract.kernels.product_kernels import product_kernels
from legalsat.sweeps import engine, workers
from legalsat.sweeps.answers import answer
from legalsat.sweeps.columns import COLUMNS
from legalsat.sweeps.problem import Problem, as_problem, problem_of
from legalsat.sweeps.store import Store, key_of
from legalsat.targets import target

pytest.importorskip("pyarrow", reason="pyarrow is an extra")
H200 = target("h200")


def rows(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return products and attentions of extents near and far from legal ones."""
    rng, found = random.Random(seed), []
    for _ in range(count):
        if rng.random() < 0.7:
            step = rng.choice((1, 4, 8, 64))
            m, n, k = (max(1, rng.randint(1, 5000) // step) * step for _ in "mnk")
            found.append({"operator": "gemm", "m": m, "n": n, "k": k, "dtype": rng.choice(("bf16", "e4m3"))})
        else:
            tokens, keys = rng.randint(1, 4096), rng.randint(1, 4096)
            shape = {"batch": 1 + rng.randint(0, 3), "heads": 8, "queries": tokens, "keys": keys}
            found.append({"operator": "attention", **shape, "head": rng.choice((64, 80, 100, 128))})
    return found


def write_csv(path: Path, problems: list[dict[str, Any]]) -> Path:
    names = list(dict.fromkeys(name for row in problems for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(problems)
    return path


def test_rows_say_what_explain_and_the_kernels_say() -> None:
    problems = [problem_of(row, line) for line, row in enumerate(rows(40), start=1)]
    for problem, found in zip(problems, answer(problems, H200), strict=True):
        assert isinstance(problem, Problem)
        alone = {name: explain_tensor(one, H200) for name, one in problem.operator.travels(H200).items()}
        illegal = [name for name, one in alone.items() if not one.legal]
        assert found["operands"] == ", ".join(illegal)
        assert (found["verdict"] == "legal") == (not illegal)
        assert found["verdict"] != "invalid"
        codes = {d.code for name in illegal for d in alone[name].diagnostics if d.level == "error"}
        assert set(filter(None, found["codes"].split(", "))) == codes
        if isinstance(problem.operator, ls.Gemm):
            best = product_kernels(problem.operator, H200, 1)
            assert found["predicted_ns"] == best[0][0] and found["kernel"] == str(best[0][1])
        else:
            assert found["predicted_ns"] is None, "nothing is predicted"
        assert found["measured_ns"] is None, "nobody measured"
        assert set(found) == {name for name, _ in COLUMNS}


def test_a_repaired_row_is_legal() -> None:
    (found,) = answer([problem_of({"m": 512, "n": 512, "k": 1001}, 1)], H200)
    assert found["verdict"] == "repaired" and found["repair"] == "pad k 1001 to 1008 (A, B)"
    assert found["bytes_added"] == 2 * 511 * 14
    mended = {"m": 512, "n": 512, "k": 1001, "a_pitch": 1008, "b_pitch": 1008}
    (legal,) = answer([problem_of(mended, 1)], H200)
    assert legal["verdict"] == "legal" and legal["predicted_ns"] == found["repaired_ns"]


def test_the_file_is_the_same_whoever_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CHUNK", 16)
    file = write_csv(tmp_path / "p.csv", rows(60))
    alone, together = tmp_path / "1.parquet", tmp_path / "2.parquet"
    one = ls.sweep(file, "h200", out=alone, workers=1)
    two = ls.sweep(file, "h200", out=together, workers=2)
    assert alone.read_bytes() == together.read_bytes()
    assert one.rows == two.rows == 60 and one.verdicts == two.verdicts and one.complete
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.parquet", "2.parquet", "p.csv"]
    table = one.table().to_pylist()
    assert Counter(row["verdict"] for row in table) == one.verdicts
    assert [row["line"] for row in table] == list(range(2, 62))


def test_what_no_unit_multiplies_is_refused_and_stops_nothing() -> None:
    types = ("fp64", "e2m1", "bf16")
    found = answer([problem_of({"m": 64, "n": 64, "k": 64, "dtype": name}, 1) for name in types], H200)
    assert [one["verdict"] for one in found] == ["refused", "refused", "legal"]
    assert found[0]["codes"] == "WGMMA001" and found[1]["predicted_ns"] is None


def test_the_order_of_rows_changes_no_answer() -> None:
    problems = [problem_of(row, line) for line, row in enumerate(rows(30), start=1)]
    forth, back = answer(problems, H200), answer(problems[::-1], H200)
    assert forth == back[::-1]


def test_what_was_answered_is_not_answered_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CHUNK", 8)
    problems, store = rows(40), tmp_path / "store"
    first = ls.sweep(problems[:16], "h200", store=store, workers=1)
    again = ls.sweep(problems, "h200", store=store, workers=1, out=tmp_path / "a.parquet")
    assert (first.reused, again.reused) == (0, 16)
    fresh = ls.sweep(problems, "h200", workers=1, out=tmp_path / "b.parquet")
    assert fresh.reused == 0
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert ls.sweep(problems, "b200", store=store, workers=1).reused == 0, "another GPU has other answers"


def test_another_version_reuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key_of("question")
    monkeypatch.setattr("legalsat.sweeps.store.version_digest", lambda: "another")
    assert key_of("question") != before


def test_a_cut_answer_is_answered_again(tmp_path: Path) -> None:
    store = tmp_path / "store"
    ls.sweep(rows(5), "h200", store=store, workers=1)
    (kept,) = store.rglob("*.arrow")
    whole = kept.read_bytes()
    kept.write_bytes(whole[: len(whole) // 2])
    again = ls.sweep(rows(5), "h200", store=store, workers=1)
    assert again.reused == 0 and kept.read_bytes() == whole


def test_two_writers_keep_one_whole_answer(tmp_path: Path) -> None:
    one, other = Store(tmp_path / "s"), Store(tmp_path / "s")
    one.put("ab" * 32, b"answer")
    other.put("ab" * 32, b"answer")
    assert one.get("ab" * 32) == b"answer" and other.get("cd" * 32) is None
    assert [path.suffix for path in (tmp_path / "s").rglob("*") if path.is_file()] == [".arrow"]
    one.clear()
    assert not (tmp_path / "s").exists()


_SWEEP = """
import sys
from legalsat.sweeps import engine
if __name__ == "__main__":
    engine.CHUNK = 16
    engine.sweep(sys.argv[1], "h200", out=sys.argv[2], workers=2)
"""


def started(file: Path, out: Path, script: Path) -> subprocess.Popen[bytes]:
    script.write_text(_SWEEP, encoding="utf-8")
    words = [sys.executable, str(script), str(file), str(out)]
    root = str(Path(ls.__file__).parents[1])
    return subprocess.Popen(words, env={**os.environ, "PYTHONPATH": root}, stderr=subprocess.PIPE)


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_sweep_goes_on(tmp_path: Path, way: signal.Signals) -> None:
    file, out = write_csv(tmp_path / "p.csv", rows(400)), tmp_path / "out.parquet"
    process = started(file, out, tmp_path / "run.py")
    parts = tmp_path / "out.parquet.parts"
    while process.poll() is None and len(list(parts.rglob("*.arrow"))) < 3:
        time.sleep(0.02)
    process.send_signal(way)
    process.communicate(timeout=30)
    kept = len(list(parts.rglob("*.arrow")))
    assert 3 <= kept < 25, "it was stopped in the middle"
    if way == signal.SIGINT:
        before = ls.sweeps.arrow.parquet().read_table(out)
        assert 0 < before.num_rows < 400, "what was done can be read"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "CHUNK", 16)
        resumed = ls.sweep(file, "h200", out=out, workers=1)
        whole = tmp_path / "whole.parquet"
        ls.sweep(file, "h200", out=whole, workers=1)
    assert resumed.reused >= 16 * 3, "nothing that was kept is planned again"
    assert out.read_bytes() == whole.read_bytes()
    left = {path.name for path in tmp_path.iterdir()} - {"p.csv", "run.py", "out.parquet", "whole.parquet"}
    assert not left, "neither answers nor drafts stay behind"


_UNGUARDED = """
import enum
from legalsat.sweeps import engine
class Type(str, enum.Enum):
    HALF = "fp16"
engine.CHUNK = 2
print("once")
rows = [{"m": 512, "n": 512, "k": k, "x_of": Type.HALF} for k in (64, 128, 192, 256, 1001)]
print(engine.sweep(rows, "h200", workers=2).verdicts)
"""


@pytest.mark.parametrize("told", ["file", "stdin"])
def test_a_script_needs_no_guard_and_its_own_classes_may_be_asked(tmp_path: Path, told: str) -> None:
    """What a worker would import of the script, it would run again."""
    script = tmp_path / "run.py"
    script.write_text(_UNGUARDED, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script) if told == "file" else "-"],
        input=_UNGUARDED if told == "stdin" else "",
        env={**os.environ, "PYTHONPATH": str(Path(ls.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.splitlines() == ["once", "{'repaired': 1, 'legal': 4}"] and not done.stderr


def test_few_rows_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def started() -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(workers, "_Process", started)
    assert ls.sweep(rows(8), "h200", workers=8).rows == 8
    monkeypatch.setattr(engine, "CHUNK", 4)
    with pytest.raises(AssertionError, match="was started"):
        ls.sweep(rows(8), "h200", workers=8)


def _fail(_: object) -> bytes:
    raise ls.NoLegalLayout("nothing fits", ())


def _die(_: object) -> bytes:
    os._exit(3)


@pytest.mark.parametrize(("task", "error"), [(_fail, ls.NoLegalLayout), (_die, workers.WorkerDied)])
def test_what_goes_wrong_in_a_worker_reaches_who_asked(task: workers.Task, error: type[Exception]) -> None:
    with pytest.raises(error), workers.processes(2) as at_work:
        at_work.submit(task, None).result()


def test_operators_and_their_rows_are_answered_alike() -> None:
    gemm = ls.Gemm(512, 512, 1001, "bf16")
    by_row, by_operator = (
        ls.sweep([one], "h200", workers=1).verdicts for one in ({"m": 512, "n": 512, "k": 1001}, gemm)
    )
    assert by_row == by_operator == {"repaired": 1}


def test_a_tensor_is_asked_as_the_copy_of_it() -> None:
    x = ls.Tensor((64, 63), "bf16")
    assert answer([as_problem(x, 1)], H200) == answer([as_problem(ls.Copy(x), 1)], H200)
    pitched = ls.Tensor((64, 63), "bf16", (65, 1))
    assert ls.sweep([x, pitched], "h200", workers=1).verdicts == {"legal": 1, "repaired": 1}


@pytest.mark.parametrize("problems", [3, [], [object()], "nowhere.csv", "shapes.txt"])
def test_what_holds_no_problems_is_refused(problems: Any) -> None:
    with pytest.raises(ls.InvalidInput, match="give"):
        ls.sweep(problems, "h200", workers=1)


def test_answers_are_plain_json() -> None:
    found = answer([problem_of({"m": 1, "n": 1, "k": 1}, 1)], H200)
    assert json.loads(json.dumps(found)) == found

"""The fuzzing harness: that it calls everything, that what it found stays mended, and a few of its calls."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz import draw
from fuzz.run import ROWS, Tally, drawn, one_call
from fuzz.table import Call

import legalsat as ls
from legalsat import cli

FOUND = Path(__file__).parent / "data" / "fuzz_found.json"
ROOT = Path(__file__).parent.parent
SEED = 0
# What a user never calls on an object, or calls only for its text, which `NAME shown` rows do.
FROM_PYTHON = {"add_note", "with_traceback", "args", "name", "obj"}
# Of these only what functions return is of use; a row each shows it.
RECORDS = {"Snippet", "ColumnRead", "LayoutWavefronts"}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let relative paths lead into a folder of the test's own."""
    monkeypatch.chdir(tmp_path)


def public_members(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") and name not in FROM_PYTHON}


def test_every_public_name_has_a_row() -> None:
    assert set(ls._HOME) <= {row.name.split(" ")[0].split(".")[0] for row in ROWS}


def test_every_method_of_a_public_class_has_a_row() -> None:
    named = {row.name for row in ROWS}
    for name in ls._HOME:
        value = getattr(ls, name)
        if not inspect.isclass(value) or issubclass(value, Exception | str) or name in RECORDS:
            continue
        slots = {one for one in public_members(value) if inspect.ismemberdescriptor(inspect.getattr_static(value, one))}
        fields = set(getattr(value, "__dataclass_fields__", ()))
        for member in public_members(value) - slots - fields:
            assert f"{name}.{member}" in named, f"{name}.{member}"


def test_every_function_of_a_public_module_has_a_row() -> None:
    named = {row.name for row in ROWS}
    for name in ls._HOME:
        module = getattr(ls, name)
        if inspect.ismodule(module):
            for member, value in vars(module).items():
                ours = inspect.isfunction(value) or inspect.isclass(value)
                if ours and value.__module__ == module.__name__ and not member.startswith("_"):
                    assert f"{name}.{member}" in named or f"{name}.{member} shown" in named or member in named, member


def test_every_verb_has_a_row() -> None:
    commands = next(action for action in cli._parser()._actions if action.choices and "rule" in action.choices)
    assert {f"${verb}" for verb in commands.choices or ()} == {row.name for row in ROWS if row.family == "verbs"}


def test_a_call_is_drawn_the_same_again() -> None:
    for number in range(50):
        (row, one), (again, other) = drawn("quick", SEED, number), drawn("quick", SEED, number)
        assert row is again
        assert str(one) == str(other) or " at 0x" in str(one)


@pytest.mark.parametrize("answer", [lambda _: 1 // 0, lambda _: -1], ids=["escapes", "wrong"])
def test_what_escapes_and_what_is_wrong_is_told(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    row = next(row for row in ROWS if row.name == "size" and row.judge is not None)
    call = Call(answer, (ls.Layout((4, 8)),), {}, good=True)
    monkeypatch.setattr("fuzz.run.drawn", lambda *_: (row, call))
    tally = Tally()
    one_call("quick", SEED, 0, tally)
    assert tally.calls["foreign"] == len(tally.findings) == 1


NAMES: dict[str, Any] = {"ls": ls, "cli": cli, "np": np, "draw": draw, "Path": Path}


@pytest.mark.parametrize("row", json.loads(FOUND.read_text(encoding="utf-8")), ids=lambda row: str(row["call"])[:60])
def test_what_was_found_stays_mended(row: dict[str, str]) -> None:
    """Each was a foreign exception, or took too long: now it is a result or a LegalSatError."""
    try:
        eval(row["call"], dict(NAMES))
    except ls.LegalSatError as refusal:
        assert str(refusal)


@pytest.mark.parametrize(
    ("family", "calls"), [("plan", 40), ("explain", 60), ("readers", 60), ("verbs", 30), ("quick", 1500)]
)
def test_some_calls_end_in_a_result_or_a_reason(family: str, calls: int) -> None:
    tally = Tally()
    for number in range(calls):
        one_call(family, SEED, number, tally)
    assert not tally.findings
    assert tally.calls["answered"] >= calls / (5 if family == "readers" else 3)  # most files are damaged


@pytest.mark.slow
def test_a_million_calls_end_in_a_result_or_a_reason(tmp_path: Path) -> None:
    told = tmp_path / "fuzz.json"
    command = [sys.executable, "-m", "tests.fuzz", "--calls", "1000000", "--seed", str(SEED), "--json", str(told)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    found = json.loads(told.read_text(encoding="utf-8"))
    for family, least in (("plan", 20_000), ("explain", 20_000), ("ptx", 5000)):
        counts = found[family]
        assert counts["answered"] + (counts["refused"] if family == "ptx" else 0) >= least, family
    rows = {name for counts in found.values() for name in counts["rows"]}
    assert {row.name for row in ROWS} <= {name.rpartition(" ")[0] for name in rows}, "a row is never reached"

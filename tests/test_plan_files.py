"""Plan files of any content: a plan that holds, or InvalidPlan in printable words."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import legalsat as ls
from legalsat.cli import main
from legalsat.printable import printable, shown

ESCAPES = "\x1b]0;owned\x07\x1b[2J\u202e\x9b31m"
KINDS = {
    "Copy": ls.Tensor((64, 64), "bf16"),
    "Transpose": ls.Transpose(ls.Tensor((64, 128), "bf16")),
    "Pad": ls.Pad(ls.Tensor((64, 64), "bf16"), 1),
    "Im2col": ls.operators.Im2col(ls.Tensor((1, 8, 8, 64), "bf16"), (3, 3), padding=1),
}


def saved(problem: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(json.dumps(ls.synthesize(problem, "h200").to_json()))
    return data


PLAIN = saved(KINDS["Copy"])


def loaded(path: Path, text: str) -> ls.Plan:
    path.write_text(text, encoding="utf-8")
    return ls.Plan.load(path)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_operator_is_read_back_as_itself(kind: str, tmp_path: Path) -> None:
    data = saved(KINDS[kind])
    assert data["operator"]["kind"] == kind
    assert type(loaded(tmp_path / "p.json", json.dumps(data)).operator).__name__ == kind


@pytest.mark.parametrize("kind", ["Scatter", "copy", "", None, 3, ["Copy"], "Copy" + ESCAPES])
def test_an_operator_of_another_kind_is_no_copy(kind: Any, tmp_path: Path) -> None:
    data = copy.deepcopy(PLAIN)
    data["operator"]["kind"] = kind
    with pytest.raises(ls.InvalidPlan, match="operator is"):
        loaded(tmp_path / "p.json", json.dumps(data))


X, W = (ls.Value(name, ls.Tensor((64, 64), "bf16")) for name in "xw")
PROGRAM = ls.Program(y=X @ W.T)
OF_KINDS: list[tuple[Any, type[ls.Plan]]] = [
    (KINDS["Copy"], ls.MovementPlan),
    (ls.Gemm(64, 64, 64, "bf16"), ls.GemmPlan),
    (PROGRAM, ls.ProgramPlan),
]


@pytest.mark.parametrize(("problem", "kind"), OF_KINDS, ids=lambda one: getattr(one, "__name__", ""))
def test_a_plan_of_any_kind_is_read_and_explained(
    problem: Any, kind: type[ls.Plan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.json"
    plan = ls.synthesize(problem, "h200")
    plan.save(path)
    assert isinstance(plan, kind) and ls.Plan.load(path) == kind.load(path) == plan
    assert ls.check_pipeline(plan).proven and plan.cost.nanoseconds > 0 and "<" in plan._repr_html_()
    assert main(["explain", str(path)]) == 0 and "predicted" in capsys.readouterr().out
    for _, other in OF_KINDS:
        if other is not kind:
            with pytest.raises(ls.InvalidPlan, match=rf"holds a {kind.__name__}; read it with {kind.__name__}\.load"):
                other.load(path)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        '{"version": ' + "9" * 5000 + "}",
        "\ud800",
        "",
        "null",
        "[]",
        '{"version": {}}',
    ],
    ids=lambda text: text[:12],
)
def test_what_is_no_plan_is_said(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(ls.InvalidPlan):
        ls.Plan.load(path)
    assert main(["explain", str(path)]) in (1, 2)
    said = capsys.readouterr()
    assert "Traceback" not in said.err and len(said.err) < 2000


@pytest.mark.parametrize("cost", [10**400, 10**4000, -1, True, "1", None, float("nan"), float("inf"), [], {}])
def test_a_cost_is_a_finite_number(cost: Any, tmp_path: Path) -> None:
    data = copy.deepcopy(PLAIN)
    data["cost"]["nanoseconds"] = cost
    with pytest.raises(ls.InvalidPlan):
        loaded(tmp_path / "p.json", json.dumps(data))


def numbers(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where in plain values the numbers are."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [found for key, one in items for found in numbers(one, (*at, key))]
    return [at] if isinstance(value, int) and not isinstance(value, bool) else []


@pytest.mark.parametrize("number", [0, -1, 2**40])
def test_a_kernel_with_another_number_is_no_plan(number: int, tmp_path: Path) -> None:
    data = saved(ls.Gemm(256, 512, 1024, "bf16"))
    path = tmp_path / "p.json"
    for at in numbers(data["kernel"], ("kernel",)):
        wrong = changed(data, at, lambda _: number)
        if wrong != data:
            path.write_text(json.dumps(wrong), encoding="utf-8")
            with pytest.raises(ls.LegalSatError):
                ls.GemmPlan.load(path)


def texts(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where in plain values the texts are."""
    if isinstance(value, dict):
        return [found for key, one in value.items() for found in texts(one, (*at, key))]
    if isinstance(value, list):
        return [found for number, one in enumerate(value) for found in texts(one, (*at, number))]
    return [at] if isinstance(value, str) else []


def changed(data: Any, at: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    data = copy.deepcopy(data)
    inner = data
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] = change(inner[at[-1]])
    return data


@pytest.mark.parametrize("at", texts(PLAIN), ids=lambda at: ".".join(map(str, at)))
def test_no_text_of_a_file_reaches_a_terminal_with_its_escapes(
    at: tuple[Any, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.json"
    try:
        plan = loaded(path, json.dumps(changed(PLAIN, at, lambda text: text + ESCAPES)))
    except ls.LegalSatError as error:
        said = str(error)
    else:
        said = str(plan)
    assert printable(said) == said
    main(["explain", str(path), "--target", "h200"])
    out, err = capsys.readouterr()
    assert printable(out + err) == out + err


@pytest.mark.parametrize("text", [ESCAPES, f"{{ {ESCAPES} globalDim = 4", f"error: {ESCAPES} misaligned address"])
def test_pasted_text_neither(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    for form in ([], ["--sarif"]):
        main(["explain", "--target", "h200", "--text", text, *form])
        out, err = capsys.readouterr()
        assert printable(out + err) == out + err


@pytest.mark.parametrize(
    "value",
    [10**5000, [10**5000], "a" * 10**6, ESCAPES, "\n\t", object(), b"\x1b"],
    ids=lambda value: type(value).__name__,
)
def test_values_are_shown_in_a_short_line(value: Any) -> None:
    text = shown(value)
    assert len(text) < 200 and "\n" not in text and printable(text) == text

"""An operator is a class and nothing else: those of another module are planned, proven, run, explained, swept, printed.

Nothing names a class of operators to ask what it is: what is asked of one stands in `legalsat.operators.operator`.
"""

from __future__ import annotations

import ast
import itertools
import json
import random
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from execute import execute, padded
from foreign_operators import Blocked, ByBytes, Changing, EveryOther, Shifted, Speechless, every_other
from gluon_on_numpy import run_on_numpy, run_threads_on_numpy
from hypothesis import HealthCheck, given, settings
from in_windows import windows_by_definition
from movement_on_host import compiled
from movement_on_host import run as run_on_host
from problems import operators, pads
from test_repository import name_of, sources

import legalsat as ls
from bench.kernels.moved import memory_of, moved
from legalsat.backends.triton import kernel_name, load_module
from legalsat.backends.triton.adapter import kernel_of
from legalsat.extract.check.recheck import recheck
from legalsat.operators import Move, Operator, access_of
from legalsat.plans.codec import InvalidPlan
from legalsat.plans.movement_plan import MovementPlan
from legalsat.sweeps.answers import answer
from legalsat.sweeps.problem import as_problem
from legalsat.sweeps.products import Products
from legalsat.targets import target
from legalsat.tensor import plain
from legalsat.view.margins import Margin

T = ls.Tensor
TARGETS = ("h200", "b200", "a100")
MEANS = ("tma", "tma.phases", "bulk", "cp.async", "threads", "fragments")
FOREIGN: dict[str, Move] = {
    "rows": every_other(T((96, 256), "bf16")),
    "rows a pitch apart": every_other(T((97, 64), "u8", (65, 1)), 3),
    "narrow rows": every_other(T((64, 7), "fp32")),
    "columns of a transpose": every_other(T((40, 64), "u8", (1, 40)), 4),
    "tiles": every_other(T((40, 6, 32), "bf16"), tile=(8, 2, 32)),
    "an operand": every_other(T((128, 64), "bf16"), tile=(64, 64), consumer="wgmma.a"),
    "an operand of odd rows": every_other(T((128, 63), "bf16"), tile=(64, 32), consumer="wgmma.b"),
    "blocks": Blocked(T((64, 96), "bf16"), T((64, 96), "bf16"), 32),
    "narrow blocks": Blocked(T((60, 96), "u8"), T((60, 96), "u8"), 3),
    "shifted": Shifted(T((64, 64), "bf16"), T((64, 64), "bf16"), 3),
    "shifted narrow rows": Shifted(T((33, 7), "u8"), T((33, 7), "u8"), 5),
    "shifted blocks": Shifted(T((20, 6, 32), "fp32"), T((20, 6, 32), "fp32"), 1),
    "anywhere": ByBytes(T((64, 64), "bf16", offset=1), T((32, 64), "bf16")),
}
NO_PLAN = {("an operand", "b200"), ("an operand", "a100"), ("an operand of odd rows", "b200")}
NO_PLAN |= {("an operand of odd rows", "a100")}  # wgmma is Hopper's alone


def run(found: MovementPlan) -> None:
    """Execute the plan on random bytes, and compare with what its operator means."""
    source, result = memory_of(found.operator.source, 1), memory_of(found.operator.target)
    assert np.array_equal(execute(found, source, result), moved(found.operator, source, result))


def random_foreign(rng: random.Random) -> Move:
    """Return one of somebody's operators with random extents, strides, and tile."""
    if rng.random() < 0.3:
        columns, rows = rng.choice((1, 3, 8, 16, 32)), rng.choice((1, 5, 16, 40))
        matrix = T((rows, columns * rng.choice((1, 2, 3, 5))), rng.choice(("u8", "bf16", "fp32", "i64")))
        return Blocked(matrix, matrix, columns)
    shape = tuple(rng.choice((1, 2, 3, 7, 16, 33, 64)) for _ in range(rng.choice((1, 2, 2, 3))))
    steps: list[int] = []
    step = 1
    for extent in reversed(shape):
        steps.insert(0, step)
        step = step * extent + rng.choice((0, 0, 8, 1))
    tile = None if rng.random() < 0.5 else tuple(min(n, rng.choice((1, 8, 16, 32))) for n in shape)
    source = T(shape, rng.choice(("u8", "bf16", "fp32", "fp64", "e2m1")), steps)
    return every_other(source, rng.choice((1, 2, 3, 5)), tile=tile)


@pytest.mark.parametrize("gpu", TARGETS)
@pytest.mark.parametrize("name", FOREIGN)
def test_somebodys_operator_is_planned_proven_and_run(name: str, gpu: str) -> None:
    operator, ran = FOREIGN[name], Counter[str]()
    for means in (None, *((one,) for one in MEANS)):
        try:
            found = ls.synthesize(operator, gpu, means=means)  # type: ignore[arg-type]
        except ls.NoLegalLayout as refusal:
            assert means is not None or (name, gpu) in NO_PLAN, refusal
            continue
        recheck(found)
        assert found.operator is operator and found.access == found.derivation[-1].access
        if not found.before:
            run(found)
            ran[found.access.by] += 1
    assert ran or (name, gpu) in NO_PLAN


def test_random_operators_of_somebody_are_moved_as_they_mean() -> None:
    rng, ran = random.Random(18), Counter[str]()
    while sum(ran.values()) < 150:
        operator = random_foreign(rng)
        means = rng.choice((None, *((one,) for one in MEANS)))
        try:
            found = ls.synthesize(operator, rng.choice(TARGETS), means=means)  # type: ignore[arg-type]
        except ls.NoLegalLayout as refusal:
            assert means is not None or refusal.diagnostics
            continue
        run(found)
        ran[found.access.by] += 1
    assert len(ran) >= 5, ran


def test_a_law_of_its_own_makes_its_plan() -> None:
    """Words of 16 bits at an odd address go nowhere; the operator's law makes bytes of them."""
    operator = FOREIGN["anywhere"]
    with pytest.raises(ls.NoLegalLayout):
        ls.synthesize(EveryOther(operator.source, operator.target), "h200")
    found = ls.synthesize(operator, "h200")
    assert "halve_words" in [step.law for step in found.derivation]
    with pytest.raises(InvalidPlan, match="halve_words does not lead"):
        recheck(replace(found, operator=EveryOther(operator.source, operator.target)))


@pytest.mark.parametrize("name", FOREIGN)
def test_it_is_explained_and_every_repair_is_legal(name: str) -> None:
    operator = FOREIGN[name]
    found = ls.explain(operator, "h200")
    assert found.legal or (found.diagnostics and found.repairs)
    for repair in found.repairs:
        after = repair.after
        assert isinstance(after, type(operator)) and after.target.shape == operator.target.shape
        assert (repair.kind == "fall back") == (after == operator)
        assert after == operator or ls.explain(after, "h200").legal
    for shown in (str(found), found._repr_html_()):
        assert type(operator).__name__.lower() in shown


@pytest.mark.parametrize("name", FOREIGN)
def test_its_plan_is_shown_saved_and_read_back(name: str, tmp_path: Path) -> None:
    operator, path = FOREIGN[name], tmp_path / "plan.json"
    found = ls.synthesize(operator, "h200")
    for shown in (str(found), found._repr_html_()):
        assert type(operator).__name__.lower() in shown
    found.save(path)
    assert MovementPlan.load(path, operators=(type(operator),)) == found
    with pytest.raises(InvalidPlan, match=rf"operator is '{type(operator).__name__}', and plans of Copy, "):
        MovementPlan.load(path)
    data = json.loads(path.read_text())
    data["operator"]["kind"] = f"{type(operator).__module__}.{type(operator).__name__}"
    path.write_text(json.dumps(data))
    with pytest.raises(InvalidPlan):  # a file has nothing imported
        MovementPlan.load(path, operators=(type(operator),))


def test_it_is_swept_beside_ours() -> None:
    rows = [*FOREIGN.values(), ls.Gemm(64, 64, 64, "bf16"), ls.Transpose(T((64, 64), "bf16"))]
    found = answer([as_problem(one, line) for line, one in enumerate(rows, start=1)], target("h200"))
    assert [row["problem"] for row in found] == [str(one) for one in rows]
    for row, operator in zip(found, rows, strict=True):
        assert not row["error"] and row["dtype"] == operator.dtype.name
        assert row["bytes"] == sum(one.size * one.dtype.bits / 8 for one in operator.tensors.values())
        if isinstance(operator, Move) and operator.order is None:
            assert (row["verdict"] == "legal") == ls.explain(operator, "h200").legal, row
    assert {row["verdict"] for row in found} >= {"legal", "repaired"}


def test_answers_about_it_are_not_kept_for_later(tmp_path: Path) -> None:
    """They are kept by the package's sources, which do not tell what another module says of its operators."""
    ours, theirs = [ls.Transpose(T((64, 64), "bf16"))], [FOREIGN["rows"]]
    for problems, reused in ((ours, 1), (theirs, 0), ([*ours, *theirs], 0)):
        ls.sweep(problems, "h200", store=tmp_path, workers=1)
        assert ls.sweep(problems, "h200", store=tmp_path, workers=1).reused == reused * len(problems)


@pytest.mark.parametrize("name", FOREIGN)
def test_triton_prints_what_it_has_the_operations_for(name: str, tmp_path: Path) -> None:
    operator, printed = FOREIGN[name], 0
    for means in ("tma", "threads"):
        try:
            found = ls.synthesize(operator, "h200", means=[means])
            module = load_module(found.emit("triton"), tmp_path)
        except ls.LegalSatError:
            continue
        source, result = memory_of(operator.source, 1), memory_of(operator.target)
        want, word = moved(operator, source, result), f"i{found.access.word // 8}"
        ends = (
            source[: len(source) // (found.access.word // 8) * (found.access.word // 8)].view(word),
            result.view(word),
        )
        if means == "threads":
            run_threads_on_numpy(module, *ends)
        else:
            run_on_numpy(module, kernel_name(kernel_of(found)), *ends, late_loads=True, late_stores=False)
        assert np.array_equal(result, want), means
        printed += 1
    assert printed or operator.consumer is not None


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_cute_prints_it(tmp_path: Path) -> None:
    plans = [plan for plan in (ls.synthesize(one, "h200") for one in FOREIGN.values()) if not plan.before]
    library = compiled(plans, tmp_path)
    for number, plan in enumerate(plans):
        source, result = memory_of(plan.operator.source, 1), memory_of(plan.operator.target)
        want = moved(plan.operator, source, result.copy())
        assert np.array_equal(run_on_host(library, number, plan, source, result), want), plan.operator
    assert plans


def test_what_an_operator_does_not_say_is_named() -> None:
    small = T((4, 4), "u8")
    symbolic = every_other(T((64, 8), "u8")).but(source=T((ls.Dim("M"), 8), "u8"))
    for operator, says in (
        (Speechless(small, small), "Speechless does not say which element goes where"),
        (Changing(small, small), "Changing may change and so cannot be planned"),
        (symbolic, "everyother of u8 M x 8 does more than permute axes"),
        (every_other(T((2**36, 2**20), "u8")).but(step=2**10), "bits of its source"),
    ):
        for ask in (ls.synthesize, ls.explain):
            with pytest.raises(ls.InvalidInput, match=says):
                ask(operator, "h200")
    for one in (ls.Attention(1, 2, 64, 64, 64, "bf16"), Products(2, 64, 64, 64, "bf16")):
        with pytest.raises(ls.InvalidInput, match="is no movement"):
            ls.synthesize(one, "h200")
        assert all(ls.explain(part, "h200").legal for part in one.travels(target("h200")).values())


def by_access(operator: Move, source: Any, result: Any) -> Any:
    """Return the target's bytes after the movement, word by word as its access has it, zeros where it fills in."""
    access = access_of(operator)
    margins = operator.margins(access) or tuple(Margin(0, mode.extent) for mode in access.modes)
    bits, after = (np.unpackbits(memory, bitorder="little") for memory in (source, result))
    for at in itertools.product(*(range(mode.extent) for mode in access.modes)):
        steps = list(zip(at, access.modes, margins, strict=True))
        write = sum(n * mode.target for n, mode, _ in steps)
        read = sum((n - margin.before) * mode.source for n, mode, margin in steps)
        there = all(margin.before <= n < margin.before + margin.held for n, _, margin in steps)
        after[write : write + access.word] = bits[read : read + access.word] if there else 0
    return np.packbits(after, bitorder="little")


@settings(deadline=None, max_examples=150, derandomize=True, suppress_health_check=list(HealthCheck))
@given(operators())
def test_accesses_are_what_operators_mean(operator: Move) -> None:
    if operator.source.size <= 5000:
        source, result = memory_of(operator.source, 1), memory_of(operator.target)
        assert np.array_equal(by_access(operator, source, result), moved(operator, source, result))


def test_accesses_of_somebodys_operators_are_what_they_mean() -> None:
    rng = random.Random(5)
    for operator in (*FOREIGN.values(), *(random_foreign(rng) for _ in range(100))):
        if operator.source.size <= 10_000:
            source, result = memory_of(operator.source, 1), memory_of(operator.target)
            assert np.array_equal(by_access(operator, source, result), moved(operator, source, result))


@settings(deadline=None, max_examples=100, derandomize=True, suppress_health_check=list(HealthCheck))
@given(pads())
def test_paddings_mean_what_numpy_pads(operator: ls.Pad) -> None:
    source, result = memory_of(operator.source, 1), memory_of(operator.target)
    assert np.array_equal(moved(operator, source, result), padded(operator, source, result))


def test_windows_mean_what_textbooks_have() -> None:
    rng, tried = random.Random(2), 0
    while tried < 60:
        axes = rng.choice((1, 2, 2, 3))
        shape = (rng.randint(1, 3), *(rng.randint(1, 7) for _ in range(axes)), rng.randint(1, 9))
        around = [(rng.randint(0, 2), rng.randint(0, 2)) for _ in range(axes)]
        stride, dilation, taps = ([rng.randint(1, 3) for _ in range(axes)] for _ in range(3))
        try:
            operator = ls.Im2col(T(shape, "bf16"), taps, stride=stride, padding=around, dilation=dilation)
        except ls.InvalidInput:  # wider than its image
            continue
        source, result = memory_of(operator.source, 1), memory_of(operator.target)
        assert np.array_equal(moved(operator, source, result), windows_by_definition(operator, source, result))
        tried += 1


def test_products_and_attention_mean_what_they_say() -> None:
    """By sums in plain Python, element by element."""
    rng = np.random.default_rng(1)
    a, b = rng.integers(-3, 4, (5, 7)), rng.integers(-3, 4, (4, 7))
    want = [[sum(int(x) * int(y) for x, y in zip(row, column, strict=True)) for column in b] for row in a]
    assert np.array_equal(ls.Gemm(5, 4, 7, "i8").meaning(a, b), want)
    assert np.array_equal(ls.Gemm(5, 4, 7, "e4m3", scaled=True).meaning(a, b, np.array(2.0), np.array(0.5)), want)
    for others in ((a,), (a, b, b), (b, a), (a.astype("S1"), b), ([[1] * 7] * 5, b)):
        with pytest.raises(ls.InvalidInput, match=r"give numpy arrays of shapes \(5, 7\), \(4, 7\)"):
            ls.Gemm(5, 4, 7, "i8").meaning(*others)
    many = Products(2, 5, 4, 7, "bf16").meaning(np.stack([a, -a]), np.stack([b, b]))
    assert np.array_equal(many, np.stack([want, np.negative(want)]))
    for causal in (False, True):
        attention = ls.Attention(1, 4, 3, 5, 2, "fp32", kv_heads=2, v_head=6, causal=causal)
        q, k, v = (rng.random(plain(one.shape)) for one in (attention.q, attention.k, attention.v))
        found = attention.meaning(q, k, v)
        assert found.shape == attention.out.shape
        for head, query in itertools.product(range(4), range(3)):
            keys = range(3 + query) if causal else range(5)  # the last query sees all of them
            weights = [np.exp(sum(q[0, head, query] * k[0, head // 2, key])) for key in keys]
            rows = sum(weight * v[0, head // 2, key] for weight, key in zip(weights, keys, strict=True))
            assert np.allclose(found[0, head, query], rows / sum(weights))


PROTOCOL = {"Operator", "Move"}  # which say whether something is an operator at all
ASKED = ("isinstance", "issubclass", "type")


def kinds(one: type[Operator]) -> Iterator[str]:
    """Yield the names of a class and of those derived from it, that the product defines."""
    for derived in one.__subclasses__():
        if derived.__module__.startswith("legalsat"):
            yield derived.__name__
        yield from kinds(derived)


def asked_of(text: str, names: set[str]) -> list[int]:
    """Return the lines that ask whether something is one of these classes: by a call, a comparison or a pattern."""
    found = []
    for node in ast.walk(ast.parse(text)):
        asked: list[ast.AST] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASKED[:2]:
            asked = list(node.args[1:])
        elif isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchClass):
            asked = [node.cls]
        elif isinstance(node, ast.Dict):  # a table by class
            asked = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_is_a":
            asked = list(node.args)
        inside = [one for part in asked for one in ast.walk(part)]
        calls = {id(name) for one in inside if isinstance(one, ast.Call) for name in ast.walk(one.func)}
        named = {getattr(one, "id", getattr(one, "attr", "")) for one in inside if id(one) not in calls}
        if named & names:
            found.append(getattr(node, "lineno", 0) or asked[0].lineno)  # type: ignore[attr-defined]
    return found


def test_nothing_asks_which_operator_it_has() -> None:
    names = set(kinds(Operator)) - PROTOCOL
    assert names >= {"Copy", "Transpose", "Pad", "Im2col", "Gemm", "Attention", "Products"}
    assert "legalsat.torch" not in sys.modules
    texts = {name_of(path): path.read_text(encoding="utf-8") for path in sources()}
    # What happens in tensor memory is a program too, for whom knows no other.
    others = {
        name: names if "operators.program import" in text else names - {"Program"} for name, text in texts.items()
    }
    found = {name: asked_of(text, others[name]) for name, text in texts.items()}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(operator, Copy)",
        "isinstance(one.operator, Copy | operators.Transpose)",
        "issubclass(kind, (int, Pad))",
        "type(operator) is Im2col",
        "type(operator) in (Pad, Gemm)",
        "match operator:\n    case Transpose(source=x):\n        pass",
        "rows = {Copy: 1}[type(operator)]",
        "row = Subject('a Gemm', _is_a(Gemm), explain)",
    ],
)
def test_asking_which_operator_it_is_would_be_seen(text: str) -> None:
    assert asked_of(text, set(kinds(Operator)) - PROTOCOL)


@pytest.mark.parametrize(
    "text", ["isinstance(x, Move)", "first.operator != Copy(source, target)", "isinstance(x, Pads)"]
)
def test_making_one_is_no_question(text: str) -> None:
    assert not asked_of(text, set(kinds(Operator)) - PROTOCOL)

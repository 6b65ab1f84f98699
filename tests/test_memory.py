"""A process that lives long: whatever the package remembers is bounded, and memory stays flat."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import memory
from legalsat.recent import Recent

ROOT = Path(__file__).parent.parent
FOLDERS = ("legalsat", "rules", "analyses", "extract", "backends")
MOST_ENTRIES = 8192
UNBOUNDED = 0
# Empty containers of modules: filled as the module loads, or up to a number of its own.
FILLED = {"analyses/protocol/typestate_run.py": "RULES_OF", "legalsat/torch/__init__.py": "_ways"}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not any(part.is_symlink() for part in path.parents):
                yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def most_entries(decorator: ast.expr) -> int | None:
    """Return what a decorator remembers at most, `UNBOUNDED` if anything, None if it does not remember."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = ast.unparse(called).removeprefix("functools.")
    if name == "cache":
        return UNBOUNDED
    if name != "lru_cache":
        return None
    if not isinstance(decorator, ast.Call):
        return 128
    for value in (*decorator.args, *(keyword.value for keyword in decorator.keywords if keyword.arg == "maxsize")):
        if isinstance(value, ast.Name):  # a constant of the module, which says what it is for
            return 1
        found = ast.literal_eval(value) if not isinstance(value, ast.BinOp) else eval(ast.unparse(value))
        return UNBOUNDED if found is None else int(found)
    return 128


def test_what_functions_remember_is_bounded() -> None:
    """A function without arguments has one answer; one within another is forgotten with its call."""
    for name, tree in sources():
        for node in tree.body:
            for one in [node, *(node.body if isinstance(node, ast.ClassDef) else ())]:
                if isinstance(one, ast.FunctionDef) and (one.args.args or one.args.kwonlyargs):
                    for most in filter(lambda most: most is not None, map(most_entries, one.decorator_list)):
                        assert UNBOUNDED < (most or 0) <= MOST_ENTRIES, f"{name}: {one.name}"


def test_modules_fill_no_other_container() -> None:
    for name, tree in sources():
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict | ast.List | ast.Call):
                empty = ast.unparse(node.value) in {"{}", "[]", "dict()", "list()", "set()", "defaultdict(list)"}
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                if empty:
                    assert ast.unparse(target) == FILLED.get(name), f"{name}: {ast.unparse(node)}"


def test_the_latest_answers_are_kept() -> None:
    asked: list[int] = []

    def ask(key: int) -> int:
        asked.append(key)
        return -key

    recent: Recent[int] = Recent(3)
    for key in (1, 2, 3, 1, 2, 4, 1, 4):  # 4 takes the place of 1, the oldest, and 1 then that of 2
        assert recent.answer(key, lambda key=key: ask(key)) == -key  # type: ignore[misc]
        assert len(recent) <= 3
    assert asked == [1, 2, 3, 4, 1]
    recent.clear()
    assert len(recent) == 0


def test_what_is_raised_is_not_remembered() -> None:
    recent: Recent[int] = Recent(3)
    with pytest.raises(ZeroDivisionError):
        recent.answer("x", lambda: 1 // 0)
    assert recent.answer("x", lambda: 7) == 7


@pytest.mark.slow
def test_memory_stays_flat_over_20_000_mixed_calls() -> None:
    found = memory.curve(20_000)
    assert found["growth"] <= memory.MOST_GROWTH, found["points"]
    for name, entries in found["remembered"].items():
        assert entries["now"] <= (entries["most"] or 0), name

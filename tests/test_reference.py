"""Every public name is on one page of the reference, and says what it takes, returns and raises."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import legalsat as ls

ROOT = Path(__file__).parents[1]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md")}
SHOWN = [name for text in PAGES.values() for name in re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)]


def names_in(section: str, text: str) -> set[str]:
    """Return the names that a section of a docstring in Google's style tells of."""
    found = re.search(rf"^{section}:\n((?:[ ].*\n|\n)*)", text + "\n", re.MULTILINE)
    lines = re.findall(r"^    ((?:\*{0,2}\w+, )*\*{0,2}\w+):", found[1], re.MULTILINE) if found else []
    return {name.strip("* ") for line in lines for name in line.split(",")}


def taken(subject: Any) -> list[str]:
    """Return the parameters of a call."""
    try:
        return [one for one in inspect.signature(subject).parameters if one != "self" and not one.startswith("_")]
    except ValueError:  # an exception's, which takes a message
        return []


def faults(subject: Any) -> list[str]:
    """Return what a public function, class or module does not say."""
    text = inspect.cleandoc(subject.__doc__ or "")
    if not text or isinstance(subject, ModuleType):
        return [] if text else ["says nothing"]
    if isinstance(subject, type) and issubclass(subject, Exception):
        return []
    sections = ("Args", "Attributes") if isinstance(subject, type) else ("Args",)
    made = inspect.cleandoc(vars(subject)["__init__"].__doc__ or "") if "__init__" in vars(subject) else ""
    told = set().union(*(names_in(section, text) | names_in("Args", made) for section in sections))
    found = [f"does not tell of {one}" for one in taken(subject) if one not in told]
    if not isinstance(subject, type):
        if not text.startswith("Return ") and "\nReturns:\n" not in text and "None" not in str(subject.__annotations__):
            found.append("does not say what it returns")
        if taken(subject) and "\nRaises:\n" not in text:
            found.append("does not say what it raises")
    return found


@pytest.mark.parametrize("name", ls.__all__)
def test_a_public_name_says_what_it_takes_returns_and_raises(name: str) -> None:
    assert faults(getattr(ls, name)) == []


def test_every_error_that_a_public_name_raises_is_public() -> None:
    for name in ls.__all__:
        raised = names_in("Raises", inspect.cleandoc(getattr(ls, name).__doc__ or ""))
        assert raised <= set(ls.__all__), name


def test_what_says_too_little_is_found() -> None:
    def silent(x: int) -> int:
        return x

    def vague(x: int, y: int) -> int:
        """Do it.

        Args:
            x: a number.
        """
        return x + y

    assert faults(silent) == ["says nothing"]
    assert faults(vague) == ["does not tell of y", "does not say what it returns", "does not say what it raises"]


def test_every_public_name_is_on_one_page() -> None:
    tree = ast.parse((ROOT / "legalsat" / "torch" / "__init__.py").read_text(encoding="utf-8"))
    (listed,) = (
        one.value for one in tree.body if isinstance(one, ast.Assign) and "__all__" in map(ast.unparse, one.targets)
    )
    wanted = [*ls.__all__, *(f"torch.{name}" for name in ast.literal_eval(listed))]
    assert sorted(SHOWN) == sorted(f"legalsat.{name}" for name in wanted)


def test_the_index_leads_to_every_page() -> None:
    assert {"index.md", *re.findall(r"\((\w+\.md)\)", PAGES["index.md"])} == set(PAGES)

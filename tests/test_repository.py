"""The repository itself: packages, links, sizes, which way imports point, and the list of public names."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import legalsat

ROOT = Path(__file__).parent.parent
FOLDERS = ("legalsat", "rules", "analyses", "extract", "backends")
SIBLINGS = FOLDERS[1:]
MOST_LINES = 600
MOST_MODULES = 25
# Solvers and libraries that few modules may know, so that the rest is plain Python.
HOMES = {
    "z3": {"extract/solve/z3_logic.py", "extract/solve/z3_search.py"},
    "egglog": {"legalsat/terms/graph.py"},
    "islpy": {
        "analyses/sets/isl_logic.py",
        "analyses/sets/relations.py",
        "analyses/sets/progressions.py",
        "analyses/sets/canonical.py",
        "analyses/sets/regions.py",
        "analyses/sets/groups.py",
    },
}
# Imports point from later to earlier layers. What a user calls stands above the folders, though it lives in legalsat/.
LAYERS = (
    ("legalsat",),
    ("legalsat.rules", "legalsat.analyses"),
    ("legalsat.extract",),
    ("legalsat.backends",),
    ("legalsat.api", "legalsat.pasted", "legalsat.subjects", "legalsat.pytest_plugin"),
    ("legalsat.sweeps", "legalsat.torch"),
    (
        "legalsat.cli",
        "legalsat.sweeps.report",
        "legalsat.view.show",
        "legalsat.view.pictures",
        "legalsat.demo",
        "legalsat.__main__",
    ),
)


def sources() -> list[Path]:
    """Return every Python file of the product, once: links are not followed."""
    return [
        path
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not any(part.is_symlink() for part in (path, *path.parents) if ROOT in part.parents)
    ]


def name_of(path: Path) -> str:
    """Return a file's path from the root."""
    return path.relative_to(ROOT).as_posix()


def module_of(path: Path) -> str:
    """Return the name that a file imports as."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "legalsat" else ("legalsat", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, *, everywhere: bool) -> set[str]:
    """Return the modules that a file imports: at its top level, or `everywhere` in it, functions too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree) if everywhere else tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def layer_of(module: str) -> int:
    """Return the number of the layer that a module belongs to: that of the longest name that it begins with."""
    matches = [
        (len(name), number)
        for number, names in enumerate(LAYERS)
        for name in names
        if module == name or module.startswith((f"{name}.", f"{name}_"))
    ]
    return max(matches)[1]


def configuration() -> dict[str, dict[str, object]]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found: dict[str, dict[str, object]] = tomllib.loads(text)["tool"]["setuptools"]
    return found


def test_the_packages_list_matches_the_folders() -> None:
    """An editable install hides a forgotten package, so the explicit list is compared with what is there."""
    there = {module_of(path) for path in sources() if path.name == "__init__.py"}
    listed = configuration()
    assert set(listed["packages"]) == there
    for package, folder in listed["package-dir"].items():
        assert module_of(ROOT / str(folder) / "__init__.py") == package
    assert set(listed["package-dir"]) == there


def test_every_folder_of_python_files_is_a_package() -> None:
    assert {path.parent for path in sources()} == {path.parent for path in sources() if path.name == "__init__.py"}


def test_a_folder_is_a_room() -> None:
    """So that someone finds his way."""
    files = (*sources(), *(ROOT / "bench").rglob("*.py"))
    counted = Counter(name_of(path.parent) for path in files if path.name != "__init__.py")
    assert {folder: count for folder, count in counted.items() if count > MOST_MODULES} == {}


@pytest.mark.parametrize("folder", SIBLINGS)
def test_links_let_type_checkers_see_the_siblings(folder: str) -> None:
    link = ROOT / "legalsat" / folder
    assert link.is_symlink()
    assert link.readlink() == Path("..") / folder
    assert link.resolve() == ROOT / folder


def test_there_are_no_other_links() -> None:
    links = {name_of(path) for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_symlink()}
    assert {link for link in links if link.count("/") == 1} == {f"legalsat/{folder}" for folder in SIBLINGS}


@pytest.mark.parametrize("path", sources(), ids=name_of)
def test_modules_are_short_and_say_what_they_are(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MOST_LINES
    assert ast.get_docstring(ast.parse(text)), "a module begins with what it is"


@pytest.mark.parametrize("library", HOMES)
def test_solvers_are_known_to_few_modules(library: str) -> None:
    users = {
        name_of(path)
        for path in sources()
        if any(module.split(".")[0] == library for module in imported(path, everywhere=True))
    }
    assert users == HOMES[library]


@pytest.mark.parametrize("path", sources(), ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    """Only what a module imports as it loads counts: public functions may reach up when they are called."""
    module = module_of(path)
    for other in imported(path, everywhere=False):
        if other.startswith("legalsat."):
            assert layer_of(other) <= layer_of(module), f"{module} imports {other}, which stands above it"


def test_layers_are_told_apart() -> None:
    assert layer_of("legalsat.tensor") < layer_of("legalsat.rules.tma") < layer_of("legalsat.extract.solve.fields")
    assert layer_of("legalsat.extract") < layer_of("legalsat.backends.host") < layer_of("legalsat.api")
    assert layer_of("legalsat.api") < layer_of("legalsat.cli.plan") == layer_of("legalsat.cli")
    assert layer_of("legalsat.rules.rewrites") == layer_of("legalsat.analyses.sets.isl_logic")


def public_names() -> dict[str, str]:
    """Return the names that type checkers see in the package, with the module that each comes from."""
    tree = ast.parse((ROOT / "legalsat" / "__init__.py").read_text(encoding="utf-8"))
    found = {}
    for block in tree.body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for node in block.body:
                assert isinstance(node, ast.ImportFrom) and node.module
                for alias in node.names:
                    assert alias.asname in (None, alias.name)
                    assert alias.name not in found
                    found[alias.name] = node.module
    return found


def test_type_checkers_and_the_interpreter_see_the_same_names() -> None:
    assert public_names() == legalsat._HOME


@pytest.mark.parametrize("name", sorted(public_names()))
def test_public_names_load_and_are_documented(name: str) -> None:
    value = getattr(legalsat, name)
    assert value is getattr(importlib.import_module(public_names()[name]), name)
    assert value.__doc__
    assert name in dir(legalsat)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'sythesize'"):
        legalsat.sythesize  # noqa: B018


def test_parts_of_the_ptx_machine_can_be_imported_first() -> None:
    """They make each other's operations: whichever comes first, the others find it."""
    code = """
import importlib, sys
for name in sys.argv[1:]:
    for known in [one for one in sys.modules if one.partition(".")[0] == "legalsat"]:
        del sys.modules[known]
    importlib.import_module("legalsat." + name)
"""
    names = [f"analyses.ptx_machine.{one}" for one in ("copies", "matrix", "cancel")] + ["extract.check.ptx_sweep"]
    subprocess.run([sys.executable, "-c", code, *names], check=True, cwd=ROOT)


def test_importing_the_package_loads_no_solver() -> None:
    code = "import sys, legalsat; print([m for m in sys.argv[1:] if m in sys.modules])"
    command = [sys.executable, "-c", code, "z3", "egglog", "islpy", "triton", "numpy"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_files_name_no_place_on_a_machine() -> None:
    """What is committed works anywhere, so it says nothing of where it was written."""
    here = re.compile("/" + "(work|home|root)" + r"/\w")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".json", ".yml", ".txt"} and path.is_file():
            assert not here.search(path.read_text(encoding="utf-8")), name

"""The wheel has every file of its packages, and works where there is no checkout and no user's folder."""

from __future__ import annotations

import shutil
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from bench.newcomer import bare, built, step, used

ROOT = Path(__file__).parents[1]
SOURCES = ("legalsat", "rules", "analyses", "extract", "backends")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of a copy of this tree, which building it would litter."""
    folder = tmp_path_factory.mktemp("built")
    tree = folder / "tree"
    tree.mkdir()
    for name in SOURCES:
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    return built(tree, sys.executable, folder, bare(folder / "home"))


def test_every_file_of_a_package_is_in_the_wheel(wheel: Path) -> None:
    places = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
    wanted = {
        f"{package.replace('.', '/')}/{path.name}"
        for package, folder in places.items()
        for path in (ROOT / folder).iterdir()
        if path.is_file()
    } | {f"legalsat/sweeps/data/{path.name}" for path in (ROOT / "legalsat/sweeps/data").iterdir()}
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == wanted
    assert any(name.endswith(".cuh") for name in held) and any(name.endswith(".json") for name in held)


def test_the_wheel_works_without_a_checkout(wheel: Path, tmp_path: Path) -> None:
    """What LegalSAT depends on is borrowed of this environment, behind what is installed in the new one."""
    env = bare(tmp_path / "home")
    venv.create(tmp_path / "fresh", with_pip=False, symlinks=True)
    python = tmp_path / "fresh/bin/python"
    (packages,) = (tmp_path / "fresh/lib").glob("python3*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    words = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", str(wheel)]
    step("install the wheel", words, tmp_path, env)
    (tmp_path / "work").mkdir()
    used(python, tmp_path / "work", env)

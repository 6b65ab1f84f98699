"""What a measurement on the host ran on, where its data lie, and how its result is written."""

from __future__ import annotations

import json
import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS, DATA = ROOT / "bench" / "results", ROOT / "tests" / "data"
LIBRARIES = ("egglog", "islpy", "z3-solver", "numpy")
CPU_NAMES = Path("/proc/cpuinfo")


def machine() -> dict[str, Any]:
    """Return the processor, how many of its cores there are, versions, and the date."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: _version(name) for name in LIBRARIES},
        "date": time.strftime("%Y-%m-%d"),
    }


def write(path: Path, found: Any) -> None:
    """Write a result as JSON, with what it ran on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine(), **found}, indent=1) + "\n", encoding="utf-8")


def _cpu() -> str:
    """Return the processor's model, its family and model numbers where the name says little."""
    if not CPU_NAMES.is_file():
        return platform.processor() or platform.machine()
    lines = (line.split(":", 1) for line in CPU_NAMES.read_text(encoding="utf-8").splitlines() if ":" in line)
    fields = {name.strip(): value.strip() for name, value in reversed([*lines])}
    numbers = ", ".join(f"{name} {fields[name]}" for name in ("cpu family", "model") if name in fields)
    return f"{fields.get('model name', platform.machine())} ({numbers})"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"

"""How tests of the command line run it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from legalsat.cli import main

COPY = ["synthesize", "copy", "--shape", "256x128", "--dtype", "bf16", "--tile", "64x64", "--target", "h200"]
TRANSPOSE = ["synthesize", "transpose", "--shape", "256x128", "--dtype", "bf16", "--target", "h200"]
RAGGED = ["--shape", "64x63", "--dtype", "bf16", "--tile", "64x64", "--target", "h200"]
LEGAL_MAP = ["dtype=bf16", "global_dim=64,64", "global_stride=128", "box=64,8", "swizzle=128B"]

Run = pytest.CaptureFixture[str]


def run(capsys: Run, *words: str) -> tuple[int, str, str]:
    """Run a command in this process: exit code, standard output, standard error."""
    code = main(words)
    out, err = capsys.readouterr()
    return code, out, err


def as_json(capsys: Run, *words: str) -> tuple[int, Any]:
    """Run a command with --json: exit code, and what its answer holds."""
    code, out, err = run(capsys, *words, "--json")
    assert not err
    return code, json.loads(out)

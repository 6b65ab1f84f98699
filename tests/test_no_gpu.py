"""Emitted Triton modules are called where no torch and no GPU is: their host code runs, their kernels compile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import legalsat as ls
from bench.gpu.files import prepared_file, typed_as

pytest.importorskip("triton", reason="triton is an extra")

PROBLEMS: dict[str, tuple[Any, list[str]]] = {
    "product": (ls.Gemm(128, 64, 64, "bf16"), ["product"]),
    "relaid": (ls.Gemm(300, 200, 4095, "bf16"), ["a_move_tiles", "b_move_tiles", "product"]),
    "movement": (ls.Copy(ls.Tensor((300, 256), "bf16"), tile=(64, 64)), ["copy_tiles"]),
    "packed": (ls.Copy(ls.Tensor((64, 96), "i4")), []),
}


def called(path: Path, operands: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "bench.gpu.no_gpu", str(path), json.dumps(operands)]
    env = {**os.environ, "PYTHONPATH": str(Path(ls.__file__).parents[1])}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=env)


@pytest.mark.parametrize("name", PROBLEMS)
def test_modules_run_without_a_gpu_up_to_their_launches(name: str, tmp_path: Path) -> None:
    operator, kernels = PROBLEMS[name]
    entry = prepared_file(tmp_path, name, operator, "triton", "triton")
    done = called(tmp_path / name / entry["file"], typed_as(entry))
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == kernels if kernels else done.stdout.split()


def test_modules_refuse_what_they_are_not_for(tmp_path: Path) -> None:
    entry = prepared_file(tmp_path, "x", PROBLEMS["movement"][0], "triton", "triton")
    source, target = typed_as(entry)
    for wrong, said in (({"shape": (300, 255)}, "shape (300, 255)"), ({"offset": 8}, "8 bytes past a multiple of 16")):
        done = called(tmp_path / "x" / entry["file"], [{**source, **wrong}, target])
        assert done.returncode == 1 and said in done.stderr

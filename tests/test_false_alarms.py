"""What the readers of pasted code say of kernels that are right, counted over a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.false_alarms import MOST_CHARACTERS, main, sources

RIGHT = """__global__ void total(float* out) {
  __shared__ float part[256];
  part[threadIdx.x] = out[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = part[255 - threadIdx.x];
}
"""
WRONG = RIGHT.replace("  __syncthreads();\n", "")


def test_what_is_said_of_each_file_is_printed_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "right.cu").write_text(RIGHT, encoding="utf-8")
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("1 files, 0 findings")
    (tmp_path / "wrong.cu").write_text(WRONG + "// __launch_bounds__\n", encoding="utf-8")
    assert main([str(tmp_path), "--target", "b200"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("wrong.cu: what threads of a block share: PIPE009") and last.startswith(
        "2 files, 1 findings"
    )


def test_files_of_other_things_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.md").write_text(WRONG, encoding="utf-8")
    (tmp_path / "host.py").write_text("print(1)\n", encoding="utf-8")
    (tmp_path / "long.cu").write_text(WRONG + "// mbarrier" + "x" * MOST_CHARACTERS, encoding="utf-8")
    (tmp_path / "link.cu").symlink_to(tmp_path / "long.cu")
    assert not list(sources(tmp_path))
    assert main([str(tmp_path)]) == 2
    assert "no source" in capsys.readouterr().err

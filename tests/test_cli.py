"""The command line: how it starts, and its manners on terminals and pipes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cli_runs import Run, run

import legalsat as ls
from legalsat import cli
from legalsat.backends import BACKENDS
from legalsat.operators import CONSUMERS
from legalsat.targets import TARGETS

HEAVY = ("z3", "egglog", "islpy", "numpy", "triton", "torch")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["synthesize", "copy", "--help"], ["explain", "--help"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    script = (
        f"import sys; from legalsat.cli import main; main({words!r}); print([m for m in {HEAVY} if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"


def test_a_check_imports_no_more_than_it_runs() -> None:
    """Solvers and what plans are made of take a second to load, a check a third of that."""
    ptx = str(Path(__file__).parent / "data" / "ptx" / "gluon_cp_async_ring_sm_90.ptx")
    others = {*HEAVY, "legalsat.api", "legalsat.rules", "legalsat.backends"} - {"numpy"}
    script = (
        f"import sys; from legalsat.cli import main; main(['check', {ptx!r}]); "
        f"print([m for m in {sorted(others)} if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "proven" in out and out.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "verb",
    [
        *("", "explain", "check", "decode", "sweep", "rule", "targets"),
        *("synthesize", *(f"synthesize {name}" for name in ("copy", "transpose", "pad", "gemm"))),
    ],
)
def test_no_line_of_the_help_is_wide(verb: str, capsys: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = run(capsys, *verb.split(), "--help")
    assert code == 0 and out
    assert [line for line in out.splitlines() if len(line) > 100] == []


@pytest.mark.parametrize(
    "words",
    [
        *("targets", *(f"targets {name}" for name in TARGETS), "rule --all", "rule TMA005", "rule PIPE007"),
        "explain --gemm MxNxK --dtype bf16 --target h200",
        "explain --shape Mx65 --dtype bf16 --target h200",
        "synthesize gemm --m M --n N --k K --dtype bf16 --target h200 --b-major N",
    ],
)
def test_no_line_of_an_answer_is_wide(words: str, capsys: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    _, out, _ = run(capsys, *shlex.split(words))
    assert out and [line for line in out.splitlines() if len(line) > 100] == []


def test_what_is_no_ptx_is_no_verdict(tmp_path: Path, capsys: Run) -> None:
    (tmp_path / "k.ptx").write_text("hello\n", encoding="utf-8")
    code, out, err = run(capsys, "check", str(tmp_path / "k.ptx"))
    assert code == 2 and "not checked" in out + err


def test_module_runs_and_tells_its_version() -> None:
    done = subprocess.run([sys.executable, "-m", "legalsat", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"legalsat {ls.__version__}\n"


def test_options_offer_what_the_library_has() -> None:
    assert cli._CONSUMERS == CONSUMERS
    assert set(cli._BACKENDS) == set(BACKENDS)


def test_every_example_in_the_help_works(capsys: Run) -> None:
    _, out, _ = run(capsys, "--help")
    examples = [line.strip() for line in out.splitlines() if line.startswith("  legalsat ")]
    assert len(examples) >= 5
    for example in examples:
        code, out, _ = run(capsys, *shlex.split(example)[1:])
        assert out
        assert code == any(shown in example for shown in ("explain --shape 4096x4095", "--text"))  # refusals


def terminal(words: list[str], **environment: str) -> str:
    """Return what a command prints on a terminal of 70 columns."""
    import pty  # noqa: PLC0415 - only where there are terminals

    master, slave = pty.openpty()
    settings_ = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM", "COLUMNS")}
    settings_ |= {"TERM": "xterm", "COLUMNS": "70", **environment}
    subprocess.run([sys.executable, "-m", "legalsat", *words], stdout=slave, check=True, env=settings_)
    os.close(slave)
    text = b""
    try:
        while chunk := os.read(master, 65536):
            text += chunk
    except OSError:  # Linux's way to say that the other end is closed
        pass
    os.close(master)
    return text.decode()


def test_colours_are_for_terminals_that_want_them(capsys: Run) -> None:
    words = ["rule", "SMEM001"]
    on_terminal = terminal(words)
    assert "\x1b[" in on_terminal
    assert max(len(ANSI.sub("", line)) for line in on_terminal.splitlines()) <= 70
    assert "\x1b[" not in terminal(words, NO_COLOR="1")
    assert "\x1b[" not in terminal(words, TERM="dumb")
    assert "\x1b[" in terminal(words, NO_COLOR="")
    assert "\x1b[" not in run(capsys, *words)[1]


def test_reader_that_leaves_ends_it_quietly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "legalsat", "rule", "--all"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (141, b"")


def test_interrupt_ends_it_quietly() -> None:
    # Nobody writes to the pipe, so the command waits there until the alarm plays the part of Ctrl-C.
    reader, writer = os.pipe()
    script = (
        "import signal, sys; from legalsat.cli import check as cli_check; from legalsat.cli import main\n"
        "signal.signal(signal.SIGALRM, signal.default_int_handler); signal.setitimer(signal.ITIMER_REAL, 1)\n"
        "sys.exit(main(['check', '-']))"
    )
    with os.fdopen(reader), os.fdopen(writer, "w"):
        done = subprocess.run(
            [sys.executable, "-c", script], stdin=reader, capture_output=True, timeout=60, check=False
        )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_full_disk_is_told() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "legalsat", "targets"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write the answer: ")
    assert "Traceback" not in done.stderr

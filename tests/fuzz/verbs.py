"""The command line: every verb with drawn words, in this process, its answer captured."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from legalsat.cli import main

from .draw import TEXTS, text
from .nouns import GPUS, dtype, extent, tensor_map
from .table import Row
from .texts import encoded, pasted, ptx

CODES = {0, 1, 2, 3}


class Captured(io.TextIOWrapper):
    """A stream as a process has: text that is written as UTF-8."""

    def __init__(self, errors: str) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors=errors)


def run(words: list[str], stdin: str = "") -> None:
    """Run a command as a shell would; its exit code is one of four, and JSON is JSON."""
    out, err = Captured("strict"), Captured("backslashreplace")
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode("utf-8", "surrogatepass")), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
    finally:
        sys.stdin = before
    out.flush()
    said = out.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert code in CODES, f"exit code {code}"
    helped = any(word in {"--help", "--version"} or word.startswith("-h") for word in words)
    if "--json" in words and not helped and said.strip() and "--output" not in words:
        json.loads(said)


def _shape(r: Random) -> str:
    return "x".join(
        str(extent(r)) if r.random() < 0.9 else r.choice(("M", "K%8", "M:1..512")) for _ in range(r.randint(1, 3))
    )


def _numbers(*values: int) -> Any:
    return lambda r: r.choice((",", "x")).join(str(r.choice(values)) for _ in range(r.randint(1, 3)))


def _tensor(r: Random) -> list[str]:
    words = ["--shape", _shape(r), "--dtype", dtype(r)]
    for option, draw in (
        ("--strides", _numbers(1, 64, 4096)),
        ("--align", _numbers(16, 256)),
        ("--tile", _numbers(8, 64, 128)),
    ):
        if r.random() < 0.25:
            words += [option, draw(r)]
    return words


def _target(r: Random) -> list[str]:
    return ["--target", r.choice(GPUS)] if r.random() < 0.95 else []


def _forms(r: Random) -> list[str]:
    chosen = [word for word in ("--json", "--sarif", "--html") if r.random() < 0.2]
    return chosen + (["--output", "answer.txt"] if r.random() < 0.1 else [])


def synthesize(r: Random) -> list[str]:
    """Draw the words of a plan's request."""
    operator = r.choice(
        ("copy", "copy", "transpose", "pad", "gemm") if r.random() < 0.3 else ("copy", "transpose", "pad")
    )
    words = ["synthesize", operator]
    if operator == "gemm":
        words += ["--m", str(extent(r)), "--n", "64", "--k", "64", "--dtype", dtype(r)]
        words += ["--chart", "chart.svg"] if r.random() < 0.2 else []
    else:
        words += _tensor(r)
        words += ["--padding", r.choice(("1", "0x1:2", "0x0:1", "1x1"))] if operator == "pad" else []
        words += ["--order", r.choice(("1,0", "0,2,1"))] if operator == "transpose" and r.random() < 0.5 else []
        words += ["--consumer", r.choice(("threads", "wgmma.a"))] if operator == "copy" and r.random() < 0.2 else []
        words += ["--means", r.choice(("tma", "tma,threads"))] if r.random() < 0.1 else []
        words += ["--emit", r.choice(("host", "host-python", "triton", "cute"))] if r.random() < 0.2 else []
    return words + _target(r) + _forms(r)[:1]


def explain(r: Random) -> list[str]:
    """Draw the words of an explanation's request."""
    how = r.randrange(5)
    if how == 0:
        words = _tensor(r)
    elif how == 1:
        tm = tensor_map(r)
        words = ["--tensor-map", f"dtype={tm.dtype}"]
        for name in ("global_dim", "global_stride", "box"):
            words.append(f"{name}={','.join(map(str, getattr(tm, name)))}")
        words += ["--copy", "stores=true", "coordinate=8,0"] if r.random() < 0.3 else []
    elif how == 2:
        words = ["--text", pasted(r)[:2000]]
    elif how == 3:
        words = (
            ["--gemm", "x".join(str(extent(r)) for _ in range(3)), "--dtype", dtype(r)] if r.random() < 0.3 else ["-"]
        )
    else:
        Path("pasted.txt").write_text(pasted(r), encoding="utf-8", errors="surrogatepass")
        words = ["pasted.txt"]
    return ["explain", *words, *_target(r), *_forms(r)]


def check(r: Random) -> list[str]:
    """Draw the words of a check of PTX."""
    Path("kernel.ptx").write_text(ptx(r)[:20000], encoding="utf-8", errors="surrogatepass")
    words = ["check", r.choice(("kernel.ptx", "kernel.ptx", "-", "none.ptx"))]
    words += ["--param", r.choice(("n=4096", "%ctaid.x=1", "=", "n=", "n=" + "9" * 5000))] if r.random() < 0.3 else []
    return words + (["--target", r.choice(GPUS)] if r.random() < 0.3 else []) + _forms(r)[:1]


def decode(r: Random) -> list[str]:
    """Draw the words of a reading of a map's bytes."""
    digits = encoded(r).hex()
    how = r.randrange(3)
    given = [digits] if how else [f"0x{digits[i : i + 16]}" for i in range(0, 256, 16)]
    if how == 2:
        Path("map.bin").write_bytes(bytes.fromhex(digits)[: r.choice((128, 128, 127, 0))])
        given = ["map.bin"]
    return ["decode", *given, *(["--hardware-only"] if r.random() < 0.2 else []), *_target(r), *_forms(r)]


def sweep(r: Random) -> list[str]:
    """Draw the words of a sweep: of a small file, or none."""
    Path("rows.csv").write_text(
        "m,n,k\n" + "".join(f"{r.choice((64, 'x', 0))},64,64\n" for _ in range(2)), encoding="utf-8"
    )
    words = [
        "sweep",
        r.choice(("rows.csv", "rows.csv", "none.csv", ".")),
        *_target(r),
        "--workers",
        r.choice(("1", "1", "0", "x")),
    ]
    for more in (
        ["--out", "out.parquet"],
        ["--report", "report.html"],
        ["--table"],
        ["--table", "markdown"],
        ["--json"],
    ):
        words += more if r.random() < 0.2 else []
    if r.random() < 0.05:
        words = ["sweep", "--compare", "out.parquet", r.choice(("out.parquet", "rows.csv"))]
    return words


def build(r: Random) -> list[str]:
    """Draw the words of a pack's request: of products that no kernel is compiled for, or of one."""
    rows = "".join(f"{r.choice(('x', 0, '', '64' if r.random() < 0.1 else '-1'))},64,64\n" for _ in range(2))
    Path("products.csv").write_text("m,n,k\n" + rows, encoding="utf-8")
    words = ["build", "--pack", r.choice(("products.csv", "products.csv", "none.csv", "llma", ".")), *_target(r)]
    for more in (["--out", "some.pack"], ["--out", "."], ["--kernels", "0"], ["--workers", "1"], ["--json"]):
        words += more if r.random() < 0.2 else []
    return words


def page(r: Random) -> list[str]:
    """Draw the words of a rule's page, a target's, or help."""
    return r.choice(
        (
            ["rule", r.choice(("TMA003", "TMA005", "PIPE001", "XX", "box_extent_out_of_range"))],
            ["rule", "--all"],
            ["targets", r.choice(GPUS)],
            ["targets"],
            ["--help"],
            ["--version"],
            [],
            ["nobody"],
            [r.choice(("synthesize", "explain", "check", "decode", "sweep", "rule", "targets")), "--help"],
        )
    ) + (["--json"] if r.random() < 0.3 else [])


def garbled(words: list[str], r: Random) -> list[str]:
    """Return words with one or two of them changed, dropped or doubled; none leads out of the folder."""
    words = [*words]
    for _ in range(r.choice((0, 0, 1, 1, 2))):
        if not words:
            break
        at = r.randrange(len(words))
        how = r.randrange(6)
        if how == 0:
            del words[at]
        elif how == 1:
            words.insert(at, r.choice(words))
        elif how == 2:
            words.insert(at, r.choice(TEXTS)[:3000])
        else:
            words[at] = text(words[at], r, 1) if how < 5 else r.choice(TEXTS)[:3000]
        words = [word.replace("/", "") for word in words]
    # Paths stay in this folder, and no sweep starts thousands of processes.
    return [word if words[max(0, at - 1)] != "--workers" else word[:1] for at, word in enumerate(words)]


def _verb(draw: Any) -> Any:
    def words(r: Random) -> tuple[list[str], str]:
        return garbled(draw(r), r), r.choice(("", pasted(r) if r.random() < 0.2 else "715", "\0"))

    return words


def verbs() -> Iterator[Row]:
    """Yield a row for each verb."""
    for name, draw, weight in (
        ("synthesize", synthesize, 1.0),
        ("explain", explain, 1.5),
        ("check", check, 0.3),
        ("decode", decode, 0.8),
        ("sweep", sweep, 0.5),
        ("build", build, 0.2),
        ("rule", page, 0.5),
        ("targets", page, 0.2),
    ):
        yield Row(f"${name}", run, (), {}, _verb(draw), family="verbs", weight=weight, changed=False)


ROWS: tuple[Row, ...] = tuple(verbs())

"""What the check of kernels takes, and how it tells what it found: one finding a cause, what a verdict rests on."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from test_check_ptx import DATA, HEAD, kernel, ping_pong

import legalsat as ls
from legalsat.analyses.ptx.findings import Finding
from legalsat.analyses.ptx.instruction import operation_of
from legalsat.cli import main
from legalsat.extract.check.check_ptx import check_ptx
from legalsat.extract.check.ptx_names import by_reason, lines_told, one_a_cause

RIGHT = DATA / "triton_product_by_maps_sm_90.ptx"
# Each of 64 threads writes a word, and reads those of a thread of the other warp, with no barrier between.
RACES = kernel(
    "mov.u32 %r0, %tid.x;", "shl.b32 %r1, %r0, 4;", "mov.u32 %r2, memory;", "add.s32 %r3, %r2, %r1;",
    "xor.b32 %r4, %r1, 512;", "add.s32 %r4, %r2, %r4;", "st.shared.v4.b32 [%r3], {%r0, %r0, %r0, %r0};",
    *(f"ld.shared.b32 %r5, [%r4+{byte}];" for byte in range(0, 16, 4)),
)  # fmt: skip


def a_finding(kind: str, line: int, message: str, note: str, launch: str = "") -> Finding:
    return Finding(kind, line, message, note, "wait", launch)


def test_what_is_the_same_about_the_same_place_is_one_finding() -> None:
    one, other = "written at line 3", "written at line 4"
    found = [
        a_finding("read_before_full", 7, "early", one, "n = 1"),
        a_finding("read_before_full", 9, "early", one, "n = 2"),
        a_finding("read_before_full", 11, "early", other),
        a_finding("stage_overwritten", 12, "early", one),
        a_finding("read_before_full", 13, "early", one),
        a_finding("read_before_full", 15, "late", one),
    ]
    told = [(f.kind, f.line, f.also, f.launch) for f in one_a_cause(found)]
    assert told == [
        ("read_before_full", 7, (9, 13), "n = 1"),
        ("read_before_full", 11, (), ""),
        ("stage_overwritten", 12, (), ""),
        ("read_before_full", 15, (), ""),
    ]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([4], "line 4"),
        ([4, 5], "lines 4 and 5"),
        (range(1, 8), "lines 1, 2, 3, 4, 5, 6 and 7"),
        (range(1, 9), "lines 1, 2, 3, 4, 5, 6 and 2 more"),
    ],
)
def test_lines_are_told_in_words(lines: list[int], said: str) -> None:
    assert lines_told(lines) == said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mbarrier.try_wait.parity.shared::cta.b64", "mbarrier.try_wait"),
        ("mbarrier.init.b64", "mbarrier.init"),
        ("mbarrier.arrive.expect_tx.release.cluster.shared::cta.b64", "mbarrier.arrive.expect_tx"),
        ("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", "cp.async.bulk.tensor"),
        ("cp.async.cg.shared.global", "cp.async"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32", "cp.reduce.async.bulk"),
        ("tcgen05.wait::ld.sync.aligned", "tcgen05.wait::ld"),
        ("barrier.cluster.arrive.relaxed.aligned", "barrier.cluster.arrive"),
        ("bar.sync", "bar.sync"),
        ("ret", "ret"),
    ],
)
def test_operations_are_told_without_modifiers(name: str, said: str) -> None:
    assert operation_of(name) == said


def test_a_race_is_one_finding_at_all_its_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loads = [n for n, line in enumerate(RACES.splitlines(), 1) if line.startswith("ld.shared")]
    early = [f for f in check_ptx(RACES).findings if f.kind == "read_before_full"]
    assert [(f.line, f.also) for f in early] == [(loads[0], tuple(loads[1:]))]
    file = tmp_path / "k.ptx"
    file.write_text(RACES)
    assert main(["check", str(file)]) == 1
    page = capsys.readouterr().out
    assert f"  --> {file}:{loads[0]}\n  = also at lines {loads[1]}, {loads[2]} and {loads[3]}\n" in page
    assert main(["check", str(file), "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["kernels"]
    assert [f["also"] for f in found["findings"] if f["kind"] == "read_before_full"] == [loads[1:]]
    assert main(["check", str(file), "--sarif"]) == 1
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    related = [r["relatedLocations"] for r in run["results"] if r["properties"]["kind"] == "read_before_full"]
    assert [[at["physicalLocation"]["region"]["startLine"] for at in one] for one in related] == [loads[1:]]
    (told,) = [d for d in ls.check_pipeline(RACES).diagnostics if d.code == "PIPE009"]
    assert told.where == f"line {loads[0]}, also {lines_told(loads[1:])}"
    (told,) = [d for d in ls.explain(RACES, "h200").diagnostics if d.code == "PIPE009"]
    assert told.where == f"line {loads[0]}, and 3 more"


def test_a_launch_that_shows_a_break_is_told_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.ptx"
    file.write_text(ping_pong(released=False))
    (finding,) = check_ptx(file.read_text()).findings
    assert re.fullmatch(r"n = \d+", finding.launch) and "n = " not in finding.message
    assert main(["check", str(file)]) == 1
    assert f"\n  = when: {finding.launch}\n" in capsys.readouterr().out
    assert main(["check", str(file), "--sarif"]) == 1
    assert f"; when {finding.launch}; help: " in capsys.readouterr().out
    (told,) = ls.check_pipeline(file.read_text()).diagnostics
    assert told.where == f"line {finding.line}, when {finding.launch}"


def test_a_verdict_says_what_it_rests_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = RIGHT.read_text()
    (one,) = check_ptx(text).kernels
    # Counted by hand in the text, by what stands behind guards and labels.
    names = [
        operation_of(found[1])
        for line in text.splitlines()
        if (found := re.match(r"\s*(?:@!?%p\d+ )?((?:mbarrier|cp|wgmma|bar|barrier)\.[\w.:]+)", line))
    ]
    assert {name: count for name, (_, count) in one.covered.items()} == {name: names.count(name) for name in names}
    assert one.proven and one.reached == (len(names), len(names))
    assert main(["check", str(RIGHT), "--explain"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert f"proven (all {len(names)} operations in {one.runs} runs" in page
    assert f"reached all {len(names)} barriers and asynchronous operations: " in page
    assert f"wgmma.mma_async all {names.count('wgmma.mma_async')}," in page
    for name, values in one.parameters.items():
        assert f"tried {name.replace(one.name + '_', '')} = {values[0]}" in page
    assert all(f"a box of map {name.replace(one.name + '_', '')} has" in page for name in one.assumed)
    assert main(["check", str(RIGHT), "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)["kernels"]
    products = names.count("wgmma.mma_async")
    assert told["covered"]["wgmma.mma_async"] == {"reached": products, "of": products}
    assert main(["check", str(RIGHT)]) == 0
    assert "tried" not in capsys.readouterr().out


def test_reasons_are_told_once() -> None:
    assert by_reason([(3, "a"), (5, "b"), (9, "a")]) == {"a": [3, 9], "b": [5]}


def test_no_line_of_a_page_is_wider_than_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(DATA), "--explain"]) in {0, 1}
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("  --> ")]
    assert lines and max(map(len, lines)) <= 100


# Files.


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"int main() {}", "no .target line"),
        (b"", "no .target line"),
        (HEAD.encode(), "no .entry"),
        (b"\x7fELF no cubin", "nvdisasm"),
        (b"\xff\xfe.\0v\0", "neither text nor a cubin"),
        (b"\t/*0000*/ ;\n", "no instructions"),
        (None, "no such file"),
    ],
)
def test_a_file_that_cannot_be_checked_is_no_break(
    data: bytes | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, report = tmp_path / "k.ptx", tmp_path / "k.sarif"
    if data is not None:
        file.write_bytes(data)
    assert main(["check", str(file)]) == 2
    page = capsys.readouterr().out
    assert page.startswith("not checked: ") and said in page and page.rstrip().endswith(f"--> {file}")
    assert main(["check", str(file), "--json"]) == 2
    assert said in json.loads(capsys.readouterr().out)["error"]
    assert main(["check", str(file), "--sarif", "--output", str(report)]) == 2
    (run,) = json.loads(report.read_text())["runs"]
    (result,) = run["results"]
    assert result["ruleId"] == "not_checked" and said in result["message"]["text"]
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 1}
    (rule,) = run["tool"]["driver"]["rules"]  # what code hosts ask for
    assert all(rule[key]["text"] for key in ("shortDescription", "fullDescription", "help"))


def test_modules_of_one_text_are_checked_each_for_its_chip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.ptx"
    alloc = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"  # which sm_90a has not
    newer = kernel(alloc).replace("sm_90a", "sm_100a")
    file.write_text("Fatbin ptx code:\n\n" + ping_pong() + "\nFatbin ptx code:\n" + newer)
    assert main(["check", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["target"] for one in told["files"]] == ["sm_90a", "sm_100a"]
    lines = [n for n, line in enumerate(file.read_text().splitlines(), 1) if ".entry" in line]
    assert [kernel["line"] for one in told["files"] for kernel in one["kernels"]] == lines
    assert main(["check", str(file), "--param", "n=3"]) == 0
    assert main(["check", str(file), "--param", "m=3"]) == 2
    file.write_text(file.read_text().replace("sm_100a", "sm_90a"))
    assert main(["check", str(file)]) == 1


def test_letters_of_other_encodings_and_endless_files_are_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "k.ptx"
    file.write_bytes("// f\xfcr\n".encode("latin-1") + ping_pong().encode())
    assert main(["check", str(file)]) == 0
    monkeypatch.setattr("legalsat.cli.check_files.MOST_BYTES", 1 << 20)
    assert main(["check", "/dev/zero"]) == 2
    assert "more than 1 MiB" in capsys.readouterr().out

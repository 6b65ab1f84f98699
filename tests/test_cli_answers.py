"""What the verbs of the command line answer: plans, texts, verdicts and pages."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from cli_runs import COPY, LEGAL_MAP, RAGGED, TRANSPOSE, Run, as_json, run

import legalsat as ls
from legalsat.backends import BACKENDS, OPEN_MOVEMENTS
from legalsat.cli import arguments as cli_arguments
from legalsat.cli import main
from legalsat.pasted.results import RESULT_RULES
from legalsat.pasted.tools import TOOL_RULES
from legalsat.program.pipeline_text import role_lines
from legalsat.rules import RULES
from legalsat.targets import TARGETS
from legalsat.view.show import duration, show_plan
from legalsat.view.show_explanation import show_explanation
from legalsat.view.show_rules import families

# Synthesize


def test_copy_shows_the_plan_that_the_library_makes(capsys: Run) -> None:
    plan = ls.synthesize(ls.Tensor((256, 128), "bf16"), "h200", tile=(64, 64))
    code, data = as_json(capsys, *COPY)
    assert code == 0
    assert data == json.loads(json.dumps(plan.to_json()))
    assert run(capsys, *COPY) == (0, show_plan(plan) + "\n", "")


def test_transpose_takes_an_order_and_strides(capsys: Run) -> None:
    x = ls.Tensor((8, 64, 32), "e4m3", strides=(32, 256, 1), align=64)
    words = ["--shape", "8x64x32", "--strides", "32x256x1", "--align", "64", "--dtype", "e4m3", "--order", "1,0,2"]
    code, data = as_json(capsys, "synthesize", "transpose", *words, "--target", "sm_90a")
    assert code == 0
    assert data == json.loads(json.dumps(ls.synthesize(ls.Transpose(x, (1, 0, 2)), "sm_90a").to_json()))


def test_pad_takes_what_is_around_and_a_value(capsys: Run) -> None:
    x = ls.Tensor((8, 64), "bf16")
    words = ["--shape", "8x64", "--dtype", "bf16", "--target", "h200"]
    for options, operator in (
        (["--padding", "0x8"], ls.Pad(x, (0, 8))),
        (["--padding", "1:0,8:16"], ls.Pad(x, ((1, 0), (8, 16)))),
        (["--padding", "2", "--value", "-1.5"], ls.Pad(x, 2, -1.5)),
        (["--padding", "2", "--value", "7", "--means", "threads"], ls.Pad(x, 2, 7)),
    ):
        code, data = as_json(capsys, "synthesize", "pad", *words, *options)
        means = ("threads",) if "--means" in options else None
        plan = ls.synthesize(operator, "h200", means=means)  # type: ignore[arg-type]
        assert (code, data) == (0, json.loads(json.dumps(plan.to_json())))
        assert "\npadding\n" in show_plan(plan)
    for options, says in (
        (["--padding", "1:"], "give 2, one for each axis"),
        (["--padding", "1x-2"], "--padding is '-2'"),
        (["--padding", "1", "--value", "one"], "--value is 'one'; give a number"),
        (["--padding", "1", "--value", "nan", "--dtype", "i8"], "give a whole number"),
    ):
        code, out, err = run(capsys, "synthesize", "pad", *words, *options)
        assert code == 2 and says in err and not out


def test_plan_text_names_every_number_of_the_maps_and_buffers() -> None:
    plan = ls.synthesize(ls.Transpose(ls.Tensor((256, 96), "bf16")), "h200")
    text = show_plan(plan)
    for tm in plan.tensor_maps:
        for numbers_ in (tm.global_dim, tm.global_stride, tm.box, tm.element_stride):
            assert ", ".join(map(str, numbers_)) in text
        for name in (tm.dtype, tm.interleave, tm.swizzle, tm.l2_promotion, tm.oob_fill):
            assert str(name) in text
    for buffer in plan.shared:
        assert f"aligned to {buffer.alignment} bytes" in text
    for step in (
        *(step.strip() for _, steps in role_lines(plan.pipeline) for step in steps),
        *(s.law for s in plan.derivation),
    ):
        assert step in text
    assert f"{plan.pipeline.barriers[0].transaction_bytes} bytes a phase" in text
    assert duration(plan.cost.nanoseconds) in text


def test_plan_text_says_where_no_map_describes_the_target() -> None:
    staged, ragged = ls.Tensor((64, 63), "bf16", (64, 1)), ls.Tensor((64, 63), "bf16")
    plan = ls.synthesize(ls.Copy(staged, ragged, tile=(64, 64)), "h200")
    assert "no map for the target" in show_plan(plan)


@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_emit_prints_the_source_text(capsys: Run, tmp_path: Path, backend: str) -> None:
    text = ls.synthesize(ls.Transpose(ls.Tensor((256, 128), "bf16")), "h200").emit(backend)  # type: ignore[arg-type]
    assert run(capsys, *TRANSPOSE, "--emit", backend) == (0, text.rstrip("\n") + "\n", "")
    file = tmp_path / "source"
    assert run(capsys, *TRANSPOSE, "--emit", backend, "--output", str(file)) == (0, "", "")
    assert file.read_text(encoding="utf-8") == text.rstrip("\n") + "\n"
    assert as_json(capsys, *TRANSPOSE, "--emit", backend)[1]["emitted"] == {backend: text}


def test_saved_plan_loads_and_explains(capsys: Run, tmp_path: Path) -> None:
    file = str(tmp_path / "plan.json")
    assert run(capsys, *COPY, "--json", "--output", file) == (0, "", "")
    assert ls.Plan.load(file) == ls.synthesize(ls.Tensor((256, 128), "bf16"), "h200", tile=(64, 64))
    code, out, err = run(capsys, "explain", file)
    assert (code, err) == (0, "")
    assert out.startswith("copy of bf16 256 x 128, tile 64 x 64 on h200: legal\n")
    assert as_json(capsys, "explain", "--target", "a100", file)[0] == 1


def test_broken_plan_is_refused(capsys: Run, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    run(capsys, *COPY, "--json", "--output", str(file))
    data = json.loads(file.read_text(encoding="utf-8"))
    for field, value in (("box", [3, 5]), ("box", [3, 5, 7]), ("swizzle", "64B"), ("global_dim", "x")):
        data["tensor_maps"][0][field], kept = value, data["tensor_maps"][0][field]
        file.write_text(json.dumps(data), encoding="utf-8")
        data["tensor_maps"][0][field] = kept
        code, out, err = run(capsys, "explain", str(file))
        assert (code, out) == (1, "")
        assert err.startswith("error: ")
    file.write_text("no plan", encoding="utf-8")
    assert as_json(capsys, "explain", str(file))[1]["kind"] == "InvalidPlan"


def test_refusal_gives_reasons_and_repairs_on_standard_error(capsys: Run) -> None:
    ragged = ls.Tensor((64, 63), "bf16")
    with pytest.raises(ls.NoLegalLayout) as refusal:
        ls.synthesize(ragged, "h200", tile=(64, 64), means=("tma",))
    found = ls.explain(ragged, "h200", tile=(64, 64))
    code, out, err = run(capsys, "synthesize", "copy", *RAGGED, "--means", "tma")
    assert (code, out, err) == (1, "", show_explanation(found) + "\n")
    code, data = as_json(capsys, "synthesize", "copy", *RAGGED, "--means", "tma")
    assert code == 1
    assert "126 bytes" in data["error"]
    assert [d["code"] for d in data["diagnostics"]] == [d.code for d in refusal.value.diagnostics]
    assert len(data["repairs"]) == len(found.repairs) > 0


def test_refusal_writes_no_file(capsys: Run, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    assert run(capsys, "synthesize", "copy", *RAGGED, "--means", "tma", "--output", str(file))[0] == 1
    assert not file.exists()


def test_symbolic_plan_says_for_which_extents_it_is_legal(capsys: Run) -> None:
    words = ["--shape", "MxK:..100", "--dtype", "bf16", "--target", "h200"]
    code, out, _ = run(capsys, "synthesize", "copy", *words)
    assert code == 0
    assert "(K) mod 8 = 0 and 0 < K <= 100" in out
    assert "mod 8" in run(capsys, "explain", *words)[1]


@pytest.mark.parametrize("backend", OPEN_MOVEMENTS)
def test_symbolic_plans_are_emitted(capsys: Run, backend: str) -> None:
    code, out, err = run(capsys, *COPY, "--shape", "MxK%8", "--emit", backend)
    plan = ls.synthesize(ls.Tensor((ls.Dim("M"), ls.Dim("K", multiple_of=8)), "bf16"), "h200", tile=(64, 64))
    assert (code, out.rstrip(), err) == (0, plan.emit(backend).rstrip(), "")  # type: ignore[arg-type]


# Gemm


@pytest.mark.parametrize(
    ("m", "n", "k", "refused"), [(256, 256, 128, ""), (256, 256, 127, "AB"), (255, 253, 128, ""), (8, 8, 4, "AB")]
)
def test_gemm_judges_each_operand(capsys: Run, m: int, n: int, k: int, refused: str) -> None:
    words = ["explain", "--gemm", f"{m}x{n}x{k}", "--dtype", "bf16", "--target", "h200"]
    code, data = as_json(capsys, *words)
    # Rows of A and B are K elements of 2 bytes, and tensor-map strides are multiples of 16 bytes (TMA005).
    assert code == bool(refused)
    assert [o["operand"] for o in data["operands"] if not o["legal"]] == list(refused)
    assert {d["code"] for o in data["operands"] for d in o["diagnostics"]} == ({"TMA005"} if refused else set())
    assert data["legal"] == (not refused)
    code, out, _ = run(capsys, *words)
    assert code == bool(refused)
    for line in (f"A *bf16 {m} x {k}", f"B *bf16 {n} x {k}", f"C *bf16 {m} x {n}"):
        assert re.search(line, out)
    # A store that ends inside a 16-byte granule would overwrite what follows (TMA025), so threads do it.
    assert ("stored from registers" in out) == bool(n * 2 % 16)


def test_gemm_without_a_unit_of_kernels_is_refused(capsys: Run) -> None:
    code, out, _ = run(capsys, "explain", "--gemm", "128x128x64", "--dtype", "fp16", "--target", "mi300x")
    assert code == 1
    assert out.count("error[PROD004]: mi300x has neither wgmma nor tcgen05") == 1


def test_gemm_is_planned(capsys: Run, tmp_path: Path) -> None:
    words = ["synthesize", "gemm", "--m", "256", "--n", "255", "--k", "128", "--target", "h200"]
    code, data = as_json(capsys, *words, "--dtype", "bf16")
    plan = ls.synthesize(ls.Gemm(256, 255, 128, "bf16"), "h200")
    assert code == 0 and data == json.loads(json.dumps(plan.to_json()))
    code, out, _ = run(capsys, *words, "--dtype", "e4m3", "--out-dtype", "fp32")
    assert code == 0 and "to fp32" in out and "wgmma m64n" in out
    code, out, _ = run(capsys, *words, "--dtype", "bf16", "--a-major", "M", "--b-major", "K")
    assert code == 0 and re.search(r"A +MN ", out) and re.search(r"B +K ", out)
    chart = tmp_path / "chart.svg"
    code, out, _ = run(capsys, *words, "--dtype", "bf16", "--chart", str(chart))
    assert code == 0 and "consumer" in chart.read_text() and chart.read_text().startswith("<svg")
    code, _, errors = run(capsys, *words, "--dtype", "bf16", "--chart", str(tmp_path / "none" / "chart.svg"))
    assert code == 2 and "cannot write" in errors
    code, out, errors = run(capsys, *words, "--dtype", "fp64")
    assert code == 1 and not out and "PROD001" in errors


# Explain


def test_explain_takes_products_with_dims(capsys: Run) -> None:
    code, data = as_json(capsys, "explain", "--gemm", "Mx512xK%8", "--dtype", "bf16", "--target", "h200")
    region = ls.legal_region(ls.Gemm(ls.Dim("M"), 512, ls.Dim("K", multiple_of=8), "bf16"), "h200")
    assert (code, data["legal_region"]["sentence"]) == (0, region.sentence)


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B", "7"])
def test_tensor_map_verdict_is_that_of_the_rules(capsys: Run, swizzle: str) -> None:
    words = [*LEGAL_MAP[:-1], f"swizzle={swizzle}"]
    found = ls.violations(cli_arguments.tensor_map_of(words), "h200")
    code, out, _ = run(capsys, "explain", "--target", "h200", "--tensor-map", *words)
    assert code == any(d.level == "error" for d in found)
    for diagnostic in found:
        assert f"{diagnostic.level}[{diagnostic.code}]: {diagnostic.message}" in out


def test_explain_judges_a_transpose_by_its_order(capsys: Run) -> None:
    words = ["explain", "--shape", "64x60", "--dtype", "bf16", "--target", "h200"]
    code, out, _ = run(capsys, *words)  # rows of 120 bytes are no multiple of 16; a copy may see them as one
    assert code == 1 and out.splitlines()[0].endswith("refused by its rows; another view of it is legal")
    code, out, _ = run(capsys, *words, "--order", "1,0")
    assert code == 1 and out.splitlines()[0].endswith("no TMA path; goes by tma.phases")


def test_explain_counts_the_uses_that_are_asked_for(capsys: Run) -> None:
    words = ["explain", "--shape", "4096x4095", "--dtype", "bf16", "--tile", "128x64", "--target", "h200"]
    first = {}
    for uses in ("1", "1000"):
        code, out, _ = run(capsys, *words, "--uses", uses, "--json")
        answer = json.loads(out)
        assert code == 1 and answer["uses"] == int(uses)
        for one in answer["repairs"]:
            whole = one["once_nanoseconds"] + int(uses) * one["nanoseconds"]
            assert one["total_nanoseconds"] == pytest.approx(whole, abs=0.1)
        first[uses] = answer["repairs"][0]["kind"]
    assert first["1"] == "fall back" and first["1000"] != "fall back", "what is used once is not worth a copy"
    assert run(capsys, *words, "--uses", "0")[0] == 2


# Pages


@pytest.mark.parametrize("rule", (*RULES, *RESULT_RULES, *TOOL_RULES), ids=lambda rule: rule.code)
def test_every_rule_has_a_page(capsys: Run, rule: Any) -> None:
    code, data = as_json(capsys, "rule", rule.name)
    assert code == 0
    assert (data["code"], data["quote"], data["docs"]) == (rule.code, rule.source.quote, rule.docs)
    assert data["targets"] == [t.name for t in TARGETS.values() if rule.unit.limits(t) is not None]
    out = run(capsys, "rule", rule.code.lower())[1]
    flat = " ".join(out.split())
    for part in (rule.code, rule.name, " ".join(rule.docs.split()), rule.source.quote, rule.refused_by, rule.level):
        assert part in flat
    names: dict[str, Any] = {}
    assert list(data["examples"]) in (["refused", "repaired"], ["explained"])
    for heading, example in data["examples"].items():
        assert f"\n{heading}\n\n" in out and textwrap.indent(example["python"], "  ") in out
        exec(compile(example["python"], rule.code, "exec"), names)
        printed = capsys.readouterr().out.rstrip("\n")
        assert printed == example["printed"] and " ".join(printed.split()) in flat


def test_rule_list_has_them_all(capsys: Run) -> None:
    out = run(capsys, "rule", "--all")[1]
    codes = [rule.code for family in families() for rule in family.rules]
    assert set(codes) == {rule.code for rule in (*RULES, *RESULT_RULES, *TOOL_RULES)}
    listed = [line.split()[0] for line in out.splitlines()[1:] if line and not line.endswith(":")]
    assert listed == codes
    assert all(f"\n{family.title}:\n{family.rules[0].code} " in out for family in families())
    assert [entry["code"] for entry in as_json(capsys, "rule", "--all")[1]] == codes


def test_targets_has_them_all(capsys: Run) -> None:
    out = run(capsys, "targets")[1]
    assert [line.split()[0] for line in out.splitlines()[1:]] == list(TARGETS)
    assert [entry["name"] for entry in as_json(capsys, "targets")[1]] == list(TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_target_page_has_every_field(capsys: Run, name: str) -> None:
    out = run(capsys, "targets", name)[1]
    shown = {line.split()[0].split(".")[0] for line in out.splitlines()[1:]}
    assert shown == {f.name for f in fields(TARGETS[name])}
    assert as_json(capsys, "targets", name)[1]["shared_bytes_per_block"] == TARGETS[name].shared_bytes_per_block


def test_a_file_that_launches_itself_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "synthesize gemm --m 64 --n 64 --k 64 --dtype bf16 --target h200 --emit cute --out"
    assert main([*shlex.split(words), str(tmp_path / "gemm.cu")]) == 0
    assert capsys.readouterr().out == ""
    assert 'extern "C" {' in (tmp_path / "gemm.cu").read_text()

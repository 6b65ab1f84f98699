"""The command line: its notations, answers, exit codes and manners."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import legalsat as ls
from legalsat import cli
from legalsat.backends import BACKENDS
from legalsat.cli import arguments as cli_arguments
from legalsat.cli import main
from legalsat.dims import Extent, times
from legalsat.operators import CONSUMERS
from legalsat.pasted.results import RESULT_RULES
from legalsat.pasted.tools import TOOL_RULES
from legalsat.program.pipeline_text import role_lines
from legalsat.rules import RULES
from legalsat.targets import TARGETS
from legalsat.view.show import duration, show_plan
from legalsat.view.show_explanation import show_explanation
from legalsat.view.show_rules import families

HEAVY = ("z3", "egglog", "islpy", "numpy", "triton", "torch")
ANSI = re.compile(r"\x1b\[[0-9;]*m")
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
    code, out, err = run(capsys, *words, "--json")
    assert not err
    return code, json.loads(out)


# Start-up


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["synthesize", "copy", "--help"], ["explain", "--help"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    script = (
        f"import sys; from legalsat.cli import main; main({words!r}); print([m for m in {HEAVY} if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"


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


# Notations

numbers = st.integers(1, 2**40)
names = st.sampled_from(["K", "M", "batch", "_", "h_2", "X"])  # none with an x, which separates


@st.composite
def dims(draw: st.DrawFn) -> ls.Dim:
    multiple, low, span = draw(st.integers(1, 64)), draw(st.integers(1, 1000)), draw(st.integers(0, 1000))
    return ls.Dim(draw(names), multiple, low, low + multiple + span)


def written(extent: int | ls.Dim) -> str:
    if isinstance(extent, int):
        return str(extent)
    return f"{extent.name}%{extent.multiple_of}:{extent.min}..{extent.max}"


@given(st.lists(numbers | dims(), min_size=1, max_size=6), st.sampled_from("x,"))
def test_shape_reads_what_is_written(extents: list[int | ls.Dim], separator: str) -> None:
    assert cli_arguments.shape(separator.join(map(written, extents))) == tuple(extents)


@pytest.mark.parametrize(
    ("text", "dim"),
    [
        ("K", ls.Dim("K")),
        ("K%8", ls.Dim("K", multiple_of=8)),
        ("K:..9", ls.Dim("K", max=9)),
        ("K:9..", ls.Dim("K", min=9)),
        ("max%4:8..", ls.Dim("max", multiple_of=4, min=8)),
    ],
)
def test_facts_of_a_dim_may_be_left_out(text: str, dim: ls.Dim) -> None:
    assert cli_arguments.shape(f"7,{text}") == (7, dim)


@given(st.lists(st.tuples(st.integers(0, 99), st.lists(st.sampled_from("MK"), max_size=3)), min_size=1, max_size=4))
def test_strides_read_products_of_dims(strides: list[tuple[int, list[str]]]) -> None:
    extents = cli_arguments.shape("M,K%8")
    by_name: dict[str, Extent] = dict(zip("MK", extents, strict=True))
    expected: list[Extent] = []
    for factor, letters in strides:
        product: Extent = factor
        for letter in letters:
            product = times(product, by_name[letter])
        expected.append(product)
    text = ",".join("*".join([str(factor), *letters]) for factor, letters in strides)
    assert cli_arguments.strides(text, extents) == tuple(expected)


@given(
    st.integers(1, 5).flatmap(
        lambda rank: st.builds(
            ls.TensorMap,
            dtype=st.sampled_from(["bf16", "u8", 9, 77]),
            global_dim=st.tuples(*[st.integers(0, 2**33)] * rank),
            global_stride=st.tuples(*[st.integers(0, 2**41)] * (rank - 1)),
            box=st.tuples(*[st.integers(0, 300)] * rank),
            element_stride=st.tuples(*[st.integers(0, 9)] * rank),
            address=st.integers(0, 2**64 - 1),
            swizzle=st.sampled_from(["none", "128B", 3, 50]),
            interleave=st.sampled_from(["none", "32B"]),
        )
    )
)
def test_tensor_map_reads_what_is_written(tm: ls.TensorMap) -> None:
    words = []
    for field in fields(tm):
        value = getattr(tm, field.name)
        words.append(f"{field.name}={','.join(map(str, value)) if isinstance(value, tuple) else value}")
    assert cli_arguments.tensor_map_of(words) == tm


def test_numbers_of_a_tensor_map_may_be_hexadecimal_or_negative() -> None:
    words = "mode=im2col dtype=bf16 global_dim=64,8,8,2 global_stride=0x80,1024,8192 address=0xA0 channels=64 pixels=64"
    tm = cli_arguments.tensor_map_of([*words.split(), "lower_corner=-1,-2", "upper_corner=-3,4"])
    assert (tm.address, tm.global_stride[0]) == (160, 128)
    assert (tm.lower_corner, tm.upper_corner) == ((-1, -2), (-3, 4))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(option=st.sampled_from(["--shape", "--strides", "--tile", "--align"]), text=st.text(max_size=12))
def test_no_text_crashes_the_parser(option: str, text: str, capsys: Run) -> None:
    words = {"--shape": "MxK", "--dtype": "bf16", option: text}
    code, out, err = run(capsys, "explain", *(f"{key}={value}" for key, value in words.items()), "--target=none")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(field=st.sampled_from([f.name for f in fields(ls.TensorMap)]), text=st.text(max_size=12))
def test_no_text_crashes_a_tensor_map(field: str, text: str, capsys: Run) -> None:
    words = dict(word.split("=") for word in LEGAL_MAP) | {field: text}
    assignments = [f"{key}={value}" for key, value in words.items()]
    code, out, err = run(capsys, "explain", "--target=h200", "--tensor-map", *assignments)
    assert (code == 2) == err.startswith("error: ")
    assert (code in (0, 1)) == bool(out)


# Wrong usage


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "COMMAND is missing"),
        (["frob"], "'frob' is no command; give one of synthesize, explain"),
        (["targets", "--js"], "unrecognized arguments: --js"),
        (["targets", "h300"], "target 'h300' is unknown; did you mean h"),
        (["synthesize"], "OPERATOR is missing"),
        ([*COPY, "--emit", "ptx"], "--emit is 'ptx'; give one of triton, cute"),
        ([*COPY, "--consumer", "nobody"], "--consumer is 'nobody'; give one of threads, wgmma.a"),
        ([*COPY, "--tile", "64"], "tile has 1 entry; give 2"),
        ([*COPY, "--tile", "64x0"], "give at least 1"),
        ([*COPY, "--align", "24"], "give a power of two"),
        ([*COPY, "--align", "0x10"], "--align is '0x10'"),
        ([*COPY, "--dtype", "bf17"], "dtype 'bf17' is unknown"),
        ([*COPY, "--shape", "64x"], "--shape is '64x'"),
        ([*COPY, "--shape", "64x-3"], "--shape has '-3'"),
        ([*COPY, "--shape", "64xK%0"], "multiple_of of dim K is 0"),
        ([*COPY, "--shape", "MxK", "--strides", "L,1"], "a dim of the shape (M, K)"),
        ([*COPY, "--shape", "MxK%8", "--emit", "host"], "--emit needs every extent as a number"),
        ([*COPY, "--output", "no_such_folder/plan.json"], "cannot write no_such_folder/plan.json"),
        ([*TRANSPOSE, "--order", "0,0"], "names an axis twice"),
        (["synthesize", "gemm", "--m", "1", "--n", "2", "--dtype", "bf16", "--target", "h200"], "--k is missing"),
        (["explain", "--target", "h200"], "nothing to explain is given"),
        (["explain", "no_such_plan.json"], "no_such_plan.json is no file"),
        (["explain", "--shape", "64", "--target", "h200"], "--dtype is missing"),
        (["explain", "--shape", "64", "--dtype", "bf16"], "--target is missing"),
        (["explain", "--shape", "64", "--target", "h200", "--tensor-map", *LEGAL_MAP], "give one of FILE"),
        (["explain", *RAGGED, "--order", "1,0", "--consumer", "threads"], "leave out --consumer or --order"),
        (["explain", "--target", "h200", "--tensor-map", "dtype=bf16"], "lacks global_dim"),
        (["explain", "--target", "h200", "--tensor-map", "dtype=bf16", "dtype=bf16"], "gives dtype twice"),
        (["explain", "--target", "h200", "--tensor-map", "frob=1"], "write FIELD=VALUE"),
        (["rule"], "give either"),
        (["rule", "TMA003", "--all"], "give either"),
        (["rule", "TMA999"], "rule 'TMA999' is unknown"),
    ],
)
def test_wrong_usage_says_what_to_do(capsys: Run, words: list[str], says: str) -> None:
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert says in err
    code, data = as_json(capsys, *words)
    assert code == 2
    assert data["kind"] in ("InvalidInput", "UnknownTarget")
    assert says in data["error"]


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


def test_gemm_without_a_copy_engine_is_refused(capsys: Run) -> None:
    code, out, _ = run(capsys, "explain", "--gemm", "128x128x64", "--dtype", "fp16", "--target", "mi300x")
    assert code == 1
    assert out.count("no tensor memory accelerator") == 1  # one reason, shared by three operands


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


# Manners


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


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("synthesise copy", "synthesize"),
        ("synthesize gem --m 64", "gemm"),
        ("synthesize gemm --m 64 --n 64 --k 64 --dtyp bf16 --target h200", "--dtype"),
        ("synthesize gemm --m 64 --n 64 --k 64 --dtype bf16 --target h200 --emit cuet", "cute"),
        ("explain --shap=64x64 --dtype bf16 --target h200", "--shape"),
        ("check --grd 3 kernel.ptx", "--grid"),
        ("rule TMA05", "TMA005"),
        ("rule pipe-7", "PIPE007"),
        ("rule stride_misalinged", "stride_misaligned"),
        ("synthesize matmul --m 64", "gemm"),
        ("help", "--help"),
        ("explain --shape 64x64 --dtype bf16 --target h200 --consumer wgmma", "wgmma.a or wgmma.b"),
        ("explain --shape 64x64 --dtype bfloat --target h200", "bfloat16"),
        ("explain --shape 4096by4095 --dtype bf16 --target h200", "4096x4095"),
        ("explain --shape 4096X4095 --dtype bf16 --target h200", "4096x4095"),
        ("explain --shape (4096,4095) --dtype bf16 --target h200", "4096x4095"),
        ("explain --shape [8,4096,4095,] --dtype bf16 --target h200", "8x4096x4095"),
        ("explain --shape 64x64 --dtype bf16 --target h200 --tile 64*64", "64x64"),
        ("explain --gemm 64by64by64 --dtype bf16 --target h200", "64x64x64"),
        ("explain --target h200 --tensor-map dtype=bf16 global-dim=64,64", "global_dim"),
    ],
)
def test_a_word_that_is_not_known_is_told_the_nearest_one(
    words: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    said = capsys.readouterr().err
    assert f"; did you mean {near}?" in " ".join(said.split())
    assert max(map(len, said.splitlines())) <= 100


@pytest.mark.parametrize("shape", ["4k", "64x-1", "64.5x64", "64x", "x64", "MbyN 3", "", "64x64)x", "64xx64", "--x64"])
def test_a_size_that_is_none_is_told_how_sizes_are_written(shape: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"--shape={shape}", "--dtype=bf16", "--target=h200"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "such as 4096x64" in said or "K%8:64..8192" in said
    assert "did you mean" not in said


def test_no_line_of_an_error_or_a_note_is_wide(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["targets", "zzzzzz"],
        ["explain", "--text", "hello", "--target", "h200"],
        ["explain", "--shape", "64x64", "--dtype", "zz", "--target", "h200"],
        ["synthesize", "gemm", *["--m=512", "--n=512", "--k=511", "--dtype=bf16", "--target=h200", "--emit=triton"]],
    ):
        main(words)
        said = capsys.readouterr().err
        assert said and max(map(len, said.splitlines())) <= 100, words


def test_a_file_that_launches_itself_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "synthesize gemm --m 64 --n 64 --k 64 --dtype bf16 --target h200 --emit cute --out"
    assert main([*shlex.split(words), str(tmp_path / "gemm.cu")]) == 0
    assert capsys.readouterr().out == ""
    assert 'extern "C" {' in (tmp_path / "gemm.cu").read_text()

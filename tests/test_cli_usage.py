"""Words that the command line does not take: what it says of them, and which word it says was meant."""

from __future__ import annotations

import pytest
from cli_runs import COPY, LEGAL_MAP, RAGGED, TRANSPOSE, Run, as_json, run

from legalsat.cli import main


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "COMMAND is missing"),
        (["frob"], "'frob' is no command; give one of synthesize, explain"),
        (["targets", "--js"], "unrecognized arguments: --js"),
        (["targets", "h300"], "target 'h300' is unknown; did you mean h"),
        (["synthesize"], "OPERATOR is missing"),
        (["synthesize", "--shape", "64x64", "--dtype", "bf16"], "OPERATOR is missing in front of --shape; give one of"),
        (["--shape", "64x64"], "COMMAND is missing in front of --shape; give one of synthesize"),
        (["synthesize", "gemm", "64", "64"], "--m, --n, --k, --dtype and --target are missing"),
        (["explain", "4096x4095"], "4096x4095 is no file"),
        (["explain", "--shape", "4096", "4095", "--dtype", "bf16"], "a shape is one word, such as --shape 4096x4095"),
        (["explain", "4096x4095", "bf16", "h100"], "a value goes behind the name of its option"),
        (["explain", "0x4000004000010000"], "--text 0x4000004000010000"),
        (["explain", "CUDA error: invalid argument"], "itself goes behind --text"),
        (["explain", "--gemm", "Mx64", "--dtype", "bf16", "--target", "h200"], "give M x N x K"),
        (["rule", "tma"], "rule 'tma' is unknown; list the rules with `legalsat rule --all`; TMA001 to"),
        (["sweep", "llama", "--target", "h200"], "llama is neither a file nor a catalogue"),
        (["sweep", "llama", "--target", "h200", "--table"], "; llama-3-8b, llama-3-70b begin so"),
        ([*COPY, "--emit", "ptx"], "--emit is 'ptx'; give one of triton, cute"),
        ([*COPY, "--consumer", "nobody"], "--consumer is 'nobody'; give one of threads, wgmma.a"),
        ([*COPY, "--tile", "64"], "tile has 1 entry; give 2"),
        ([*COPY, "--tile", "64x0"], "give at least 1"),
        ([*COPY, "--align", "24"], "give a power of two"),
        ([*COPY, "--align", "0x10"], "--align is '0x10'"),
        ([*COPY, "--dtype", "bf17"], "dtype 'bf17' is unknown"),
        ([*COPY, "--shape", "64x"], "--shape is '64x'"),
        ([*COPY, "--shape", "64x-3"], "--shape has '-3'"),
        ([*COPY, "--shape", "-3x64"], "--shape has '-3'"),
        ([*COPY, "--shape", "-k"], "--shape: expected one argument"),
        ([*COPY, "--shape", "64xK%0"], "multiple_of of dim K is 0"),
        ([*COPY, "--shape", "MxK", "--strides", "L,1"], "a dim of the shape (M, K)"),
        ([*COPY, "--shape", "MxK%8", "--emit", "triton"], "--emit triton needs every extent as a number"),
        ([*COPY, "--output", "no_such_folder/plan.json"], "cannot write no_such_folder/plan.json"),
        ([*TRANSPOSE, "--order", "0,0"], "names an axis twice"),
        (["synthesize", "gemm", "--m", "1", "--n", "2", "--dtype", "bf16", "--target", "h200"], "--k is missing"),
        (["explain", "--target", "h200"], "nothing to explain is given"),
        (["explain", "no_such_plan.json"], "no_such_plan.json is no file"),
        (["explain", "--shape", "64", "--target", "h200"], "--dtype is missing"),
        (["explain", "--shape", "64", "--dtype", "bf16"], "--target is missing"),
        (["sweep", "--target", "h200"], "FILE is missing; give a file of problems or a catalogue"),
        (["sweep", "tritonbench"], "--target is missing; give a GPU such as h200"),
        (["sweep"], "FILE and --target are missing; give a file of problems or a catalogue and a GPU such as h200"),
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


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("synthesise copy", "synthesize"),
        ("explain 4096x4095 --target h200", "--shape 4096x4095"),
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

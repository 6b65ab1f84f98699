"""What `explain` takes besides texts: bytes, numbers, exceptions, descriptors, PTX and pipelines."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from printed_maps import by_cutlass

import legalsat as ls
from bench.kernels.example_pipelines import EXAMPLES, simple_wgmma
from bench.kernels.pipeline_mutants import mutants
from legalsat.analyses.protocol import pipeline_machine
from legalsat.cli import main
from legalsat.extract.check.check_ptx import check_ptx
from legalsat.extract.check.check_words import code_of
from legalsat.extract.explain.explain_pipeline import _CALLED
from legalsat.program.pipeline import At, Expect, Loop
from legalsat.rules import PIPELINE_RULES
from legalsat.subjects import SUBJECTS
from legalsat.units.tcgen05 import KINDS

DATA = Path(__file__).parent / "data"
MAP = ls.TensorMap("bf16", (64, 64), (128,), (64, 8), swizzle="128B", address=0x7008)  # no multiple of 16
WORDS = sorted(
    {int(entry["idesc"], 16) for entry in json.loads((DATA / "cutlass_tcgen05_instr_desc.json").read_text())["entries"]}
)
HANGS, PROVEN = (
    (DATA / "reported" / f"triton-10035{which}.ptx").read_text(encoding="utf-8") for which in ("", "-right")
)


def codes(subject: Any, target: str = "h200") -> list[str]:
    return [d.code for d in ls.explain(subject, target).diagnostics]


# Bytes


class Opaque:
    """Stands for cuda-python's CUtensorMap, whose `opaque` is a list of its words."""

    def __init__(self, blob: bytes) -> None:
        self.opaque = [int.from_bytes(blob[at : at + 8], "little") for at in range(0, 128, 8)]


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview, Opaque])
def test_the_bytes_of_a_map_are_judged_as_the_map(form: Any) -> None:
    found = ls.explain(form(ls.encode_blob(MAP)), "h200")
    assert found.of == MAP
    assert list(found.diagnostics) == ls.violations(MAP, "h200") != []


def test_an_array_of_128_bytes_is_a_tensor() -> None:
    found = ls.explain(np.frombuffer(ls.encode_blob(MAP), dtype=np.uint8), "h200")
    assert "128" in found.subject and "tiled" not in found.subject
    assert codes(np.frombuffer(ls.encode_blob(MAP), dtype=np.uint8).tobytes()) == ["TMA004"]


def test_other_bytes_are_no_map() -> None:
    with pytest.raises(ls.InvalidInput, match="CUtensorMap"):
        ls.explain(b"12345", "h200")


# Numbers and exceptions


@pytest.mark.parametrize("number", [1, 2, 700, 702, 715, 716, 719, 801, 999])
def test_a_result_is_explained_by_its_number(number: int) -> None:
    found = ls.explain(number, "h200")
    assert found.subject == f"CUresult {number}"
    assert found.diagnostics == ls.explain(str(number), "h200").diagnostics
    assert found.diagnostics == ls.explain(np.int32(number), "h200").diagnostics
    assert [d.code for d in found.diagnostics] == [f"CUDA{number:03}"]


def test_a_result_of_cuda_python_is_a_number() -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    assert codes(driver.CUresult.CUDA_ERROR_ILLEGAL_INSTRUCTION) == ["CUDA715"]


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: an illegal instruction was encountered\nCompile with TORCH_USE_CUDA_DSA"),
        RuntimeError("Triton Error [CUDA]: an illegal instruction was encountered"),
        OSError("CUDA_ERROR_ILLEGAL_INSTRUCTION"),
    ],
)
def test_an_exception_is_explained_by_its_text(error: Exception) -> None:
    assert codes(error) == codes(str(error)) == ["CUDA715"]


def test_an_exception_with_a_dump_is_judged_by_its_numbers() -> None:
    torn = replace(MAP, address=0x7000, global_stride=(130,))
    assert codes(RuntimeError(by_cutlass(torn, 1))) == ["TMA005"]


@pytest.mark.parametrize(
    ("number", "says"), [(0, "success"), (3, "none of those"), (123456, "neither"), (-1, "neither"), (2**70, "neither")]
)
def test_numbers_that_mean_nothing_are_refused(number: int, says: str) -> None:
    with pytest.raises(ls.InvalidInput, match=says):
        ls.explain(number, "h200")


# Descriptors


@pytest.mark.parametrize("word", WORDS, ids=hex)
def test_an_instruction_word_is_read_with_its_kind(word: int) -> None:
    fits = {}
    for kind in KINDS:
        try:
            fits[kind] = ls.InstructionDescriptor.from_word(kind, word)
        except ls.InvalidInput:
            continue
        found = ls.explain(f"kind::{kind} idesc = {word:#010x}", "b200")
        assert found.of == fits[kind]
        assert list(found.diagnostics) == ls.violations(fits[kind], "b200")
        assert found.values == ()
    assert fits
    guessed = ls.explain(word, "b200")
    assert guessed.of in fits.values()
    assert guessed.legal == any(not ls.violations(one, "b200") for one in fits.values())
    (said,) = guessed.values
    for kind in fits:
        assert f"kind::{kind} " in said + " " or f"kind::{kind}," in said
    assert ls.explain(f"{word:#010x}", "b200") == guessed == ls.explain(str(word), "b200")


def test_an_instruction_word_of_no_kind_says_why() -> None:
    (found,) = ls.explain(0xFFFFFFFF, "b200").diagnostics
    assert found.code == "TCGEN019" and all(f"kind::{kind}" in found.message for kind in KINDS)
    (found,) = ls.explain("kind::i8 0x08040490", "b200").diagnostics
    assert (found.code, found.message) == ("TCGEN019", "as kind::i8 it has type of D 1, which it lacks")
    assert codes("kind::i8 0x08040490") == ["UNIT004"]


def test_an_instruction_word_needs_the_unit() -> None:
    for subject in (0x08040490, ls.InstructionDescriptor.from_word("f16", 0x08040490)):
        assert codes(subject) == ["UNIT004"]
    assert codes(ls.WgmmaMultiply(64, 16, 16, "bf16", "bf16", "fp32"), "b200") == ["UNIT002"]


@pytest.mark.parametrize("unit", ["wgmma", "tcgen05"])
def test_a_matrix_descriptor_is_explained_as_its_word(unit: str) -> None:
    target = {"wgmma": "h200", "tcgen05": "b200"}[unit]
    for told in (ls.MatrixDescriptor(unit, 16, 1024, "128B"), ls.MatrixDescriptor(unit, 16, 64, "128B")):
        assert ls.explain(told, target) == ls.explain(told.word, target)
        assert ls.explain(told, target).of == told


def test_instructions_are_explained_by_their_violations() -> None:
    for subject, target in (
        (ls.WgmmaMultiply(64, 12, 16, "bf16", "bf16", "fp32"), "h200"),
        (ls.InstructionDescriptor("f16", "bf16", "bf16", 96, 16, "fp32"), "b200"),
    ):
        found = ls.explain(subject, target)
        assert list(found.diagnostics) == ls.violations(subject, target)
        assert not found.legal
    assert ls.explain(ls.WgmmaMultiply(64, 16, 16, "bf16", "bf16", "fp32"), "h200").legal


# PTX


def test_ptx_is_recognised_by_its_first_lines() -> None:
    found = ls.explain(HANGS, "h200")
    assert found.subject == "kernel partitions in PTX for sm_90a"
    (said,) = found.diagnostics
    lines = {f"line {f.line}" for f in check_ptx(HANGS).findings}
    assert said.code == "PIPE007" and said.where.partition(",")[0] in lines
    assert "either the current phase or the immediately preceding phase" in said.note, "the rule's source is quoted"
    assert ls.explain(PROVEN, "sm_90a").values == (
        "proven for all values of its parameters and all interleavings of its threads",
        "runs reached 12 of 12 barriers and asynchronous operations",
    )


def test_every_finding_of_ptx_is_told_once() -> None:
    text = (DATA / "reported" / "tilelang-3087.ptx").read_text(encoding="utf-8")
    found = ls.explain(text, "b200")
    told = {d.code for d in found.diagnostics} | set(re.findall(r"PIPE\d+", found.values[0]))
    assert found.values[0].startswith("what may follow from that: ")
    assert told == {code_of(f) for f in check_ptx(text).findings}
    assert len(found.diagnostics) == 2


def test_ptx_that_is_not_decided_is_said_to_be() -> None:
    odd = PROVEN.replace("bar.sync", "multimem.red.relaxed.sys.global.add.u32 [%rd1], %r1;\n\tbar.sync", 1)
    assert odd != PROVEN
    found = ls.explain(odd, "h200")
    assert found.diagnostics == ()
    assert found.values[0] == "no error was found, but not all of it is proven"
    assert "multimem.red is not followed" in found.values[1]


def test_kernels_of_one_text_are_told_apart() -> None:
    other = (DATA / "reported" / "fa-1860.ptx").read_text(encoding="utf-8")
    found = ls.explain(HANGS + other[other.index(".visible") :], "h200")
    assert found.subject == "kernels partitions, attention in PTX for sm_90a"
    assert [d.where.rpartition(" of ")[2].partition(",")[0] for d in found.diagnostics] == ["partitions", "attention"]


@pytest.mark.parametrize(
    ("chip", "target", "runs"),
    [
        ("sm_90a", "h200", True),
        ("sm_90", "h200", True),
        ("sm_80", "h200", True),
        ("sm_90", "b200", True),
        ("sm_90a", "b200", False),
        ("sm_100f", "b200", True),
        ("sm_100a", "h200", False),
        ("sm_120", "b200", False),
    ],
)
def test_ptx_is_judged_on_chips_that_run_it(chip: str, target: str, runs: bool) -> None:
    text = PROVEN.replace(".target sm_90a", f".target {chip}")
    if runs:
        assert ls.explain(text, target).subject.endswith(chip)
    else:
        with pytest.raises(ls.InvalidInput, match=f"the PTX is for {chip}"):
            ls.explain(text, target)


def test_the_command_line_takes_ptx(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "kernel.ptx"
    file.write_text(HANGS, encoding="utf-8")
    for words in (["--text", HANGS, "--target", "h200"], [str(file), "--target", "h200"]):
        assert main(["explain", *words]) == 1
        assert capsys.readouterr().out == str(ls.explain(HANGS, "h200")) + "\n"
    assert main(["explain", str(file)]) == 1, "the text names its chip"
    assert "partitions in PTX for sm_90a on sm_90a: refused" in capsys.readouterr().out
    file.write_text(PROVEN, encoding="utf-8")
    assert main(["explain", str(file)]) == 0


# Pipelines


def test_a_pipeline_is_judged_by_both_checkers() -> None:
    found = ls.explain(EXAMPLES["simple wgmma"], "h200")
    assert found.legal and found.of == EXAMPLES["simple wgmma"]
    assert found.values[0].startswith("proven for all trip counts")
    assert re.fullmatch(r"no interleaving of up to 5 turns goes wrong \(\d+ states\)", found.values[1])
    plan = ls.synthesize(ls.Gemm(256, 256, 256, "bf16"), "h200")
    assert ls.explain(plan, "h200").of == plan.pipeline
    assert ls.explain(plan, "h200").legal


@pytest.mark.parametrize("kind", ["a box too many expected", "arrival doubled", "load dropped", "role left out"])
def test_a_fault_in_a_pipeline_is_told(kind: str) -> None:
    mutant = next(m.pipeline for m in mutants(EXAMPLES["simple wgmma"]) if m.kind == kind)
    found = ls.explain(mutant, "h200")
    assert not found.legal
    assert list(found.diagnostics) == list(ls.check_pipeline(mutant, "h200").diagnostics)
    assert any(said.startswith("goes wrong in some interleaving with K tiles = ") for said in found.values)


def test_what_takes_a_larger_search_is_left_to_the_proof() -> None:
    found = ls.explain(simple_wgmma(60, 4), "h200")
    assert found.legal
    assert found.values == ("proven for all trip counts and all speeds of its roles",)


def test_every_error_of_the_search_names_a_rule() -> None:
    described = re.search(r"kind: one of (.*?)\.\n", pipeline_machine.PipelineError.__doc__ or "", re.DOTALL)
    assert described is not None
    assert set(re.findall(r'"([^"]+)"', described[1])) == set(_CALLED)
    assert set(_CALLED.values()) <= {rule.name for rule in PIPELINE_RULES}


def test_a_pipeline_on_a_chip_without_its_unit() -> None:
    assert "PIPE023" in codes(EXAMPLES["simple wgmma"], "b200")


# What is left


@pytest.mark.parametrize("subject", [object(), None, 1.5, True, {1, 2}])
def test_what_is_no_subject_is_told_what_is(subject: object) -> None:
    with pytest.raises(ls.InvalidInput, match="is nothing that explain knows") as refusal:
        ls.explain(subject, "h200")
    for row in SUBJECTS:
        assert row.form in str(refusal.value)


@pytest.mark.parametrize("subject", [b"", 715, EXAMPLES["simple wgmma"], HANGS, MAP])
def test_tiles_belong_to_tensors(subject: Any) -> None:
    with pytest.raises(ls.InvalidInput, match="tile, consumer and into"):
        ls.explain(subject, "h200", tile=(64, 64))


def test_an_expectation_in_a_loop_is_named_with_its_trips() -> None:
    pipeline = EXAMPLES["simple wgmma"]
    producer = pipeline.roles[0]

    def fewer(op: Any) -> Any:
        return replace(op, bytes=op.bytes - 16) if isinstance(op, Expect) else op

    body = tuple(replace(op, body=tuple(map(fewer, op.body))) if isinstance(op, Loop) else op for op in producer.body)
    found = ls.explain(replace(pipeline, roles=(replace(producer, body=body), *pipeline.roles[1:])), "h200")
    assert found.diagnostics[0].code in {"PIPE006", "PIPE009"}
    assert str(At("c")) in found.diagnostics[0].message


def test_a_piece_of_ptx_without_a_kernel_is_read_as_text() -> None:
    piece = ".version 8.6\n.target sm_90a\n.address_size 64\n"
    refused = "ptxas fatal   : Unsupported .version 8.6; current version is '8.4'"
    assert [one.code for one in ls.explain(f"{piece}{refused}", "h200").diagnostics] == ["CUDA222"]
    with pytest.raises(ls.InvalidInput, match="nothing in the text is understood"):
        ls.explain(piece, "h200")

"""Shipped sets of shapes: every row is a problem with a source, and counts are those of the files and of paper."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

import legalsat as ls
from legalsat.operators import Im2col, Operator
from legalsat.operators.attention import Attention
from legalsat.operators.gemm import Gemm
from legalsat.sweeps.catalogues import CATALOGUES, DATA, MODELS, catalogue, entries
from legalsat.sweeps.engine import _rows
from legalsat.sweeps.problem import problem_of
from legalsat.sweeps.products import Products
from legalsat.tensor import plain

CONFIGS: dict[str, dict[str, Any]] = {one["name"]: one for one in json.loads((DATA / "models.json").read_text("utf-8"))}
FILES = [path.stem for path in DATA.glob("*.json") if path.stem != MODELS]
# Weights of a model without those of its embeddings, norms and biases, and without Whisper's two convolutions: billions
# that its publisher names, less the embedding's where lm_head has weights of its own.
BILLIONS = {
    "llama-3-8b": 8.03 - 128256 * 4096 / 1e9,
    "llama-3-70b": 70.6 - 128256 * 8192 / 1e9,
    "qwen2.5-7b": 7.61 - 152064 * 3584 / 1e9,
    "mixtral-8x7b": 46.7 - 32000 * 4096 / 1e9,
    "deepseek-v3": 671 - 129280 * 7168 / 1e9,
    "gpt2": 0.124,
    "whisper-large-v2": 1.54,
    "whisper-large-v3": 1.54,
}


def operators(name: str) -> list[tuple[str, int, Operator]]:
    return [
        (row.values["name"], row.values.get("count", 1), problem_of(row.values, 1).operator) for row in catalogue(name)
    ]


@pytest.mark.parametrize("name", CATALOGUES)
def test_every_row_is_a_problem_with_a_source(name: str) -> None:
    rows = list(catalogue(name))
    assert [row.line for row in rows] == list(range(1, len(rows) + 1))
    for row in rows:
        found = problem_of(row.values, row.line)
        assert found.name == row.values["name"] and "/" in found.name
        assert row.values["x_source"]
    assert CATALOGUES[name]


@pytest.mark.parametrize("name", FILES)
def test_as_many_rows_as_the_file_has(name: str) -> None:
    file = json.loads((DATA / f"{name}.json").read_text("utf-8"))
    assert file["about"] and file["source"]
    counts = {entry["name"]: sum(len(block["rows"]) for block in entry.get("blocks", ())) for entry in file["entries"]}
    assert {one.name: len(one.rows) for one in entries(name)} == counts
    assert all(bool(one.rows) != bool(one.reason) for one in entries(name)), "shapes, or why there are none"
    assert sum(1 for _ in catalogue(name)) == sum(counts.values())


def test_tritonbench_has_all_of_its_operators() -> None:
    found = {entry.name: len(entry.rows) for entry in entries("tritonbench")}
    assert len(found) == 43
    without = {name for name, count in found.items() if not count}
    jagged = {f"jagged_{what}" for what in ("layer_norm", "mean", "softmax", "sum")}
    assert without == {*jagged, "embedding", "gdpa", "launch_latency"}
    # 512 to 15872 by 512 from the second on; 256 to 12672 by 128; 2^10 to 2^15; 20 in a series of quarters
    assert [found[name] for name in ("layer_norm", "softmax", "rms_norm", "fp8_gemm")] == [30, 98, 6, 20]


def test_addmm_of_tritonbench_names_k_before_n() -> None:
    found = [one for name, _, one in operators("tritonbench") if name == "addmm/LARGE_K_SHAPES"]
    assert all(isinstance(one, Gemm) and (one.m, one.n) == (13, 2) and one.b.strides == (1, 2) for one in found)
    assert max(one.k for one in found if isinstance(one, Gemm)) == 2**25


def test_caches_of_decoding_attention_keep_their_length() -> None:
    for name, _, one in operators("tritonbench"):
        if name.startswith("decoding_attention"):
            assert isinstance(one, Attention)
            assert one.k.strides == one.v.strides == (32768 * 128, 128, 128, 1)


def test_resnet_has_its_convolutions() -> None:
    """Of its 53 convolutions all but the first are in blocks of three, and four more shorten the way around blocks."""
    for layout in ("nhwc", "nchw"):
        rows = [row.values for row in catalogue("conv") if row.values["name"] == f"resnet-50/{layout}"]
        assert sum(row["count"] for row in rows) == 53
        weights = sum(
            row["count"] * row["channels"] * row["filters"] * row["kernel_h"] * row["kernel_w"] for row in rows
        )
        assert (
            weights == 25_557_032 - 2048 * 1000 - 1000 - 2 * 26_560
        )  # of 25.6 million, less the head's and the norms'


def test_convolutions_fit_together() -> None:
    for name, _, one in operators("conv"):
        assert isinstance(one, Im2col)
        if name.startswith("stable-diffusion-1.5-unet"):
            before, after = plain(one.source.shape)[1], plain(one.target.shape)[1]
            assert after in (before, before // 2)


@pytest.mark.parametrize("name", CONFIGS)
def test_layers_have_the_weights_of_their_model(name: str) -> None:
    config, weights = CONFIGS[name], 0.0
    for row in catalogue(name):
        layer, phase = row.values["name"].split("/")
        one = problem_of(row.values, 1).operator
        if phase != "prefill" or isinstance(one, Attention):
            continue
        assert isinstance(one, Gemm | Products)
        experts = config.get("experts", 1) if layer.startswith("experts.") else 1
        weights += row.values["count"] * experts * one.n * one.k
    assert weights / 1e9 == pytest.approx(BILLIONS[name], rel=0.02)


@pytest.mark.parametrize("name", CONFIGS)
def test_phases_have_their_tokens(name: str) -> None:
    config = CONFIGS[name]
    tokens = config.get("tokens", 4096)
    phases = Counter(row.values["name"].split("/")[1] for row in catalogue(name))
    assert set(phases) == {"prefill", "decode 1", "decode 16", "decode 128"}
    for said, _, one in operators(name):
        layer, phase = said.split("/")
        if layer == "lm_head":
            assert isinstance(one, Gemm)
            assert (one.m, one.n) == (tokens if phase == "prefill" else int(phase.split()[1]), config["vocabulary"])
        if layer == "attention":
            assert isinstance(one, Attention)
            assert one.causal == (phase == "prefill")
            assert (one.queries, one.batch) == ((tokens, 1) if phase == "prefill" else (1, int(phase.split()[1])))
            assert one.keys >= tokens


def test_experts_share_their_tokens() -> None:
    found = {name: one for name, _, one in operators("deepseek-v3") if name.startswith("experts.gate_up")}
    said = {name.split("/")[1]: (one.batch, one.m) for name, one in found.items() if isinstance(one, Products)}
    assert said == {"prefill": (256, 128), "decode 1": (8, 1), "decode 16": (128, 1), "decode 128": (256, 4)}


def test_all_models_are_one_set() -> None:
    alone = [(f"{model}/{name}", count, one) for model in CONFIGS for name, count, one in operators(model)]
    assert operators(MODELS) == alone


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(ls.InvalidInput, match="catalogue 'none' is unknown; give one of attention"):
        list(catalogue("none"))


def test_the_beginning_of_a_catalogue_s_name_is_told_which_are_meant() -> None:
    with pytest.raises(
        ls.InvalidInput, match=r"^lama-3-8b is neither a file nor a catalogue.*did you mean llama-3-8b\?"
    ):
        next(_rows("lama-3-8b"))

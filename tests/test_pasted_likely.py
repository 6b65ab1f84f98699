"""Causes that words make likely: never proven, never legal, and only of failures of a GPU's kernels."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from itertools import islice

import pytest

import legalsat as ls
from bench import fit_evidence, reported
from bench.fit_evidence import (
    DATA,
    MOST_GUESSED,
    MOST_SURE,
    SETS,
    UNREAD,
    counted,
    documents,
    labelled,
    named,
    unrelated,
    whole,
)
from legalsat.cli import main
from legalsat.pasted.sentences import RULE_OF
from legalsat.pasted.tables.evidence import TOLD
from legalsat.pasted.tables.more_tellings import MORE_TELLINGS
from legalsat.pasted.tables.tellings import TELLINGS
from legalsat.pasted.wording import likely, merged, ranking, scope
from legalsat.pasted.wording.apart import APART
from legalsat.targets import target

# What is seen and what the kernel does, in words of no report, and what is likely.
LIKELY = [
    (
        "The epilogue writes its tile into shared memory with st.shared, and after a __syncthreads one thread issues a "
        "TMA store of it. Some rows of the output are stale now and then.",
        "PIPE010",
    ),
    (
        "The kernel hangs in the second tile of the persistent loop. Every warp resets its phase to 0 for each tile, "
        "and the parity of the wait no longer agrees with the mbarrier.",
        "PIPE007",
    ),
    (
        "Consumers deadlock at the full barrier: expect_tx is told the bytes of A alone, but both A and B are loaded "
        "by TMA to that mbarrier.",
        "PIPE006",
    ),
    (
        "CUDA error: unspecified launch failure, at the end of a kernel with clusters: one CTA returns while another "
        "reads its shared memory through mapa, and no barrier.cluster stands before the exit.",
        "PIPE015",
    ),
    (
        "The result is wrong if the input is a slice of a larger tensor: the TMA descriptor takes its strides from the "
        "sizes, as if the view were packed. After .contiguous() it is right.",
        "COPY010",
    ),
    (
        "CUDA error: an illegal memory access was encountered, for very large batches only; the Triton kernel computes "
        "x_ptr + row_idx * stride_row + cols, and small inputs work.",
        "TOOL013",
    ),
]
# Nothing of a kernel on a GPU failed, or nothing says how.
ELSEWHERE = (
    "AssertionError: Tensor-likes are not close! Mismatched elements: 12 / 4096 (0.3%), gemm",
    "igb 0000:02:00.0: Detected Tx Unit Hang, Tx Queue <2>, desc.status <148000>, next_to_use <d>, ring of 256 slots",
    "The barrier of the parking lot is stuck, its phase is wrong again, and the peer cluster of cars cannot leave",
    "training hangs at epoch 3 on 8 H100: ranks wait in a barrier of NCCL while the pipeline stage is not filled",
    "RuntimeError: DataLoader workers hang on a barrier, the pipeline stalls and its stages are stale",
    "The kernel has 4 stages of TMA loads, an mbarrier for each, and consumer warps that arrive at empty barriers",
    "loss is NaN after 200 steps with bf16 and flash attention",
    "CUDA error: an illegal memory access was encountered",
    "racecheck is a nice tool; with it nothing was wrong in the shared memory of our kernel, whose warps meet",
    "the parking barrier hangs, and the tiles of the floor differ between runs of the simulation",
    "What does the phase of an mbarrier mean, and why do TMA loads expect bytes?",
)


def likely_ones(text: str, name: str = "h200") -> list[ls.Diagnostic]:
    try:
        found = ls.explain(text, name)
    except ls.InvalidInput:
        return []
    assert not found.legal
    return [one for one in found.diagnostics if one.where == likely.WHERE]


@pytest.mark.parametrize(("text", "code"), LIKELY)
def test_what_words_make_likely_is_told_as_no_more_than_that(text: str, code: str) -> None:
    found = likely_ones(text)
    assert code in [one.code for one in ls.explain(text, "h200").diagnostics[:2]] and 1 <= len(found) <= likely.MOST
    for one in found:
        assert one.level == "warning" and "words alone" in one.message and "not proven" in one.message
        for word in re.findall(r'"([^"]+)"', one.message):
            assert re.sub(r"\s", "", word.lower()) in re.sub(r"\s", "", text.lower())
    assert ls.explain(text, "h200").repairs == ()


@pytest.mark.parametrize("text", ELSEWHERE)
def test_nothing_is_likely_where_no_kernel_is_said_to_fail(text: str) -> None:
    assert all(one.basis == "possible" and "possible" in one.message for one in likely_ones(text))


@pytest.mark.parametrize(
    ("text", "basis", "code"),
    [
        (LIKELY[0][0], "likely", 1),
        ("Results are different every run, but only with two streams.", "possible", 3),
        ("Please find attached the minutes of the meeting, and bring coffee for everybody.", None, 2),
    ],
)
def test_what_is_likely_what_is_possible_and_what_is_about_something_else(
    text: str, basis: str | None, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "--target", "h200", "--text", text, "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    if basis is not None:
        assert told["basis"] == basis and not told["legal"] and told["repairs"] == []
        assert all(one["basis"] == basis and 1 <= one["odds"] <= 9 for one in told["diagnostics"])
        assert f"about {told['diagnostics'][0]['odds']} in 10" in told["diagnostics"][0]["message"]


def test_short_prose_names_causes_and_texts_about_something_else_are_at_most_possible() -> None:
    texts = [json.loads(line) for line in (DATA / "short_prose.jsonl").read_text(encoding="utf-8").splitlines()]
    reports = [text for text in texts if text["codes"]]
    assert len(reports) >= 90 and len(texts) - len(reports) >= 20
    assert sum(reported.named(one, reported.told(one["text"], one["target"])) for one in reports) >= 0.7 * len(reports)
    bases = [{one.basis for one in likely_ones(one["text"], one["target"])} for one in texts if not one["codes"]]
    assert sum(map(bool, bases)) <= 3 and "likely" not in set().union(*bases)


def test_what_cannot_show_itself_so_is_not_likely() -> None:
    hang, wrong = LIKELY[2][0], LIKELY[0][0]
    assert not any(re.match("TMA005|VEC|TOOL013", one.code) for one in likely_ones(hang))
    misaligned = f"{wrong.rpartition('Some rows')[0]} CUDA error: misaligned address"
    assert not likely_ones(misaligned)[0].code.startswith("PIPE")


def test_rules_of_units_that_a_gpu_lacks_are_not_likely() -> None:
    known = ranking.evidence_of(counted(documents(islice(labelled(), 40))))
    for name in ("h200", "a100", "sm_120"):
        gpu = target(name)
        assert all(RULE_OF[code].unit.limits(gpu) is not None for code in ranking.ranked(["tma"], known, gpu))


def test_a_cause_that_a_sentence_or_a_number_names_is_not_guessed_beside() -> None:
    text = f"{LIKELY[0][0]}\nptxas error   : Entry function 'f' uses too much shared data (0x12000 bytes, 0xc000 max)"
    assert [one.code for one in ls.explain(text, "h200").diagnostics] == ["SMEM001"]


def test_what_a_text_names_though_its_numbers_are_in_order_is_told_before_a_second_guess() -> None:
    needs = "kernel launch fails: tried to configure 101120 bytes of dynamic shared memory, the maximum is 101376"
    told = ls.explain(needs, "rtx3090").diagnostics
    assert "SMEM001" in [one.code for one in told[:2]]
    assert {one.code: one.where for one in told}["SMEM001"].startswith('line "')


def test_what_code_breaks_comes_before_what_prose_seems_to_name_and_results_last() -> None:
    guarded = (
        "The reduction of all ranks dies with cudaErrorMisalignedAddress. The guard is `if (bytes % 16 != 0) return;`, "
        "the tensor is a view that begins anywhere, and the kernel reads reinterpret_cast<const float4*>(p)[i]."
    )
    first, *rest = ls.explain(guarded, "rtx3090").diagnostics
    assert (first.code, first.where) == ("VEC002", 'text "bytes % 16 != 0"')
    assert [one.where.partition(" ")[0] for one in rest] == ["line", "the"]


def test_what_a_log_repeats_changes_nothing() -> None:
    text = LIKELY[0][0]
    assert likely_ones("step 4 of 9 of the pipeline is done, its stores are drained\n" * 500 + text) == likely_ones(
        text
    )


def test_the_counts_are_those_of_the_texts_whose_cause_is_known() -> None:
    kept = json.loads(ranking.COUNTS.read_text(encoding="utf-8"))
    assert {name: kept[name] for name in ("reports", "words", "overall")} == counted(documents(labelled()))
    assert set(TOLD) | set(TELLINGS) | set(MORE_TELLINGS) <= set(RULE_OF)


def test_older_reports_that_nobody_reads_are_learned_from_and_the_newest_four_sets_are_not() -> None:
    apart = sorted({name for name in reported.SETS if name.startswith("sealed")} - {*UNREAD})
    assert apart == ["sealed_gleaned", "sealed_noted", "sealed_searched", "sealed_sought"]
    assert not {*apart} & {*SETS} and len(labelled(UNREAD)) == 884 and len(labelled(apart)) == 142
    learned = labelled()
    assert {report["id"] for report in labelled(UNREAD)} <= {report["id"] for report in learned}
    bare = 60  # characters: what a call returned, which any report may have
    assert not {one["text"] for one in labelled(apart) if len(one["text"]) > bare} & {one["text"] for one in learned}


def test_weights_are_of_words_and_causes_that_are_counted() -> None:
    kept = json.loads(ranking.COUNTS.read_text(encoding="utf-8"))
    assert kept["bias"].keys() == kept["weights"].keys() == kept["reports"].keys()
    assert {word for words in kept["weights"].values() for word in words} <= kept["overall"].keys()
    assert all(isinstance(steps, int) for words in kept["weights"].values() for steps in words.values())


def test_what_a_text_names_counts_the_same_however_long_it_is() -> None:
    named_too = ["@hang", "@fence"]
    short, long = ranking.values_of([*named_too, "warp"]), ranking.values_of([*named_too, *map(str, range(99))])
    assert short[:2] == long[:2] and short[0] > 0
    for values in (short, long):
        assert sum(value * value for value in values[2:]) == pytest.approx(1)


def test_beside_a_printed_cause_another_is_told_that_is_likely_enough() -> None:
    printed = ls.explain("RuntimeError: int32 offsets overflow past 2^31 elements in the kernel", "h200")
    (one,) = printed.diagnostics
    for share, told in ((0.4, [one.code, "PIPE009"]), (0.2, [one.code])):
        other = likely.Likely({"PIPE009": math.log(share)}, {}, "likely")
        assert [d.code for d in merged._with_another(printed, one, other).diagnostics] == told


def test_no_more_unrelated_texts_than_is_said_are_thought_to_be_about_kernels() -> None:
    kept = json.loads(ranking.COUNTS.read_text(encoding="utf-8"))["scope"]
    texts, of = ([100 * scope.score(whole(text)) for text in some] for some in (unrelated(), labelled()))
    for tier, most, least in (("sure", MOST_SURE, 0.7), ("least", MOST_GUESSED, 0.95)):
        assert sum(score >= kept[tier] for score in texts) <= most * len(texts)
        assert sum(score >= kept[tier] for score in of) >= least * len(of)


def test_counts_and_weights_agree_on_what_either_alone_ranks_lower() -> None:
    known, gpu = ranking.evidence(), target("b200")
    counts_alone = known._replace(weights={}, bias={})
    words = ranking.features(LIKELY[2][0])
    both = ranking.scored(words, known, gpu)
    assert next(iter(both)) == "PIPE006" and list(both.values()) == sorted(both.values(), reverse=True)
    assert set(both) == set(ranking.scored(words, counts_alone, gpu))
    assert ranking.scored([], known, gpu).keys() == both.keys()


def test_invalid_value_is_one_result_however_it_is_written() -> None:
    for said in ("the tensor map returns invalid value", "INVALID_VALUE", "cudaErrorInvalidValue"):
        assert "invalid" in ranking.concepts(said)
    assert "invalid" not in ranking.concepts("values that are invalid, value by value")


def test_what_may_not_stand_beside_a_sentence_is_no_word_of_it() -> None:
    of = [document.text for document in fit_evidence.told() if "libnvvm" in document.text]
    assert of and not any(re.search(r"\b(?:without|never|signal)\b", text) for text in of)


def test_nan_is_one_word_and_camel_case_is_several() -> None:
    assert "wrong" in ranking.concepts("NaNs in the output") and "wrong" in ranking.concepts("NaN")
    assert "map" in ranking.concepts("cuTensorMapEncode") and "tma" in ranking.concepts("a TmaLoad")


def test_the_words_of_other_libraries_reports_name_a_reports_cause_first_or_second() -> None:
    asked = [r for r in labelled() if any(ranking.may_be(code, target("b200")) for code in r["codes"])]
    known = Counter(code for report in asked for code in report["codes"])
    often = sum(number for _, number in known.most_common(likely.MOST)) / len(asked)
    recent = [r for r in asked if r["target"] in {"h100", "h200", "b200"}]
    assert named(recent) / len(recent) >= 0.65 > often, (
        "which guessing the causes that are most frequent does not reach"
    )


def test_causes_that_look_alike_are_told_apart() -> None:
    assert {code for pair in APART for code in pair} <= set(RULE_OF)
    assert all(first < second for first, second in APART)
    report = (
        "Each warp writes its rows of the tile and all read it in the k loop; some runs give wrong sums in a few "
        "elements, and a __syncthreads more in the loop makes them right."
    )
    told = ls.explain(report, "h200").diagnostics[:2]
    assert {one.code for one in told} == {"PIPE008", "PIPE009"}
    assert all("WAR hazard" in one.help and "PIPE008" in one.help and "PIPE009" in one.help for one in told)
    for hazard, first in (("RAW", "PIPE009"), ("WAR", "PIPE008")):
        answered = ls.explain(f"{report} racecheck reports a {hazard} hazard on the tile.", "h200").diagnostics
        assert answered[0].code == first and {one.code for one in answered[:2]} == {"PIPE008", "PIPE009"}
    alone = [one for one in ls.explain(LIKELY[2][0], "h200").diagnostics if one.where == likely.WHERE]
    codes = {one.code for one in alone}
    assert all("WAR hazard" not in one.help for one in alone if not codes >= {"PIPE008", "PIPE009"})


@pytest.mark.parametrize("fault", ["an illegal instruction was encountered", "misaligned address"])
def test_another_fault_rules_an_invalid_address_out(fault: str) -> None:
    told = ls.explain(f"CUDA error: {fault}, an index beyond the end of the tensor is read by the last block", "h200")
    assert "CUDA700" not in [one.code for one in told.diagnostics]

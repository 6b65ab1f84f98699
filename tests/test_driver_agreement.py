"""The driver rules give the answers of the measured driver, in numpy and one by one."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.driver_agreement import DRIVER_RULES, SAMPLE, Requests, documents_alone, main, measure, refused
from legalsat.operators.batch import failing
from legalsat.targets import target

H200 = target("h200")
# On the H200 every packed type is refused as such (TMA010), and two rules stand in only where nobody measured.
NEVER_ALONE = {"TMA030", "TMA031", "TMA032", "TMA033", "TMA034", "TMA035"}
UNMEASURED_ONLY = {"TMA036", "TMA044"}


@pytest.fixture(scope="module")
def requests() -> Requests:
    found: Requests = np.load(SAMPLE)["requests"]
    return found


def test_no_disagreement_with_the_driver() -> None:
    found = measure(SAMPLE, single_calls=300)
    assert found.requests > 5000
    assert (found.disagreements, found.single_disagreements) == (0, 0)
    assert found.single_calls == 300


def test_documents_alone_misjudge_requests(requests: Requests) -> None:
    wrong = refused(requests, documents_alone(H200)) != (requests["result"] != 0)
    assert np.count_nonzero(wrong) > len(requests) // 20


def test_sample_holds_both_answers_for_every_driver_rule(requests: Requests) -> None:
    """Each rule alone refuses some, so none can be dropped; and others of its kind were accepted."""
    by_rule = failing(requests, H200, DRIVER_RULES)
    refusals = np.sum(list(by_rule.values()), axis=0)
    for code, fails in by_rule.items():
        alone = np.count_nonzero(fails & (refusals == 1))
        if code in UNMEASURED_ONLY:
            assert not fails.any()
        elif code in NEVER_ALONE:
            assert fails.any() and not alone
        else:
            assert alone >= 50, code
            assert np.all(requests["result"][fails] != 0)
    assert set(by_rule) > NEVER_ALONE | UNMEASURED_ONLY


def test_sample_holds_accepted_requests_of_every_kind(requests: Requests) -> None:
    accepted = requests[requests["result"] == 0]
    assert set(accepted["rank"][accepted["kind"] == 0]) == {1, 2, 3, 4, 5}
    assert set(accepted["rank"][accepted["kind"] == 1]) == {3, 4, 5}
    for field, values in (("interleave", 3), ("swizzle", 4), ("l2_promotion", 4), ("oob_fill", 2), ("dtype", 13)):
        assert set(accepted[field]) == set(range(values)), field


def test_benchmark_prints_json_and_says_which_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEGALSAT_TRUTH", raising=False)
    assert main(["--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["disagreements"] == 0 and "sample" in found["source"]
    assert main([str(SAMPLE)]) == 0
    assert "0 disagreements" in capsys.readouterr().out


def test_benchmark_refuses_a_missing_file() -> None:
    with pytest.raises(SystemExit) as stop:
        main(["no_such_file.npz"])
    assert stop.value.code == 2

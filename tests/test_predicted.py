"""First choices, as they are predicted, against cuBLAS's measured times: no change may make them slower unseen."""

from __future__ import annotations

import pytest

from bench.predicted import main, mean_of, predictions, table_of

# Geometric means of predicted times, launches included, to the table's; figures rounded up to whole steps of 0.005.
BOUNDS = {("h200", "bf16"): 1.045, ("h100", "bf16"): 1.02, ("h200", "e4m3"): 0.95}


@pytest.mark.parametrize("table", BOUNDS)
def test_first_choices_are_predicted_no_slower_than_they_were(table: tuple[str, str]) -> None:
    found = predictions(*table)
    assert len(found) == len(table_of(*table))  # every product has a kernel
    assert mean_of(found) <= BOUNDS[table]


def test_the_command_says_both_ratios_and_what_was_not_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--every", "60"]) == 0
    said = capsys.readouterr().out
    mean = mean_of(predictions(every=60))
    assert f"mean {mean:.4f}" in said
    assert f"mean {mean / 1.034:.4f}" in said
    with pytest.raises(SystemExit):
        main(["--target", "h100", "--dtype", "e4m3"])
    assert "cuBLAS was not measured with e4m3 on an h100" in capsys.readouterr().err

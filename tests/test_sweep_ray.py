"""A sweep on a Ray cluster of two nodes answers as one process does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_sweep import rows, write_csv

import legalsat as ls
from legalsat.sweeps import engine

pytest.importorskip("pyarrow", reason="pyarrow is an extra")
ray = pytest.importorskip("ray", reason="ray is an extra")
pytestmark = pytest.mark.filterwarnings("default")  # Ray's own, on its way up and down


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Return a local cluster of two nodes of one core each."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - only where Ray is

    both = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    both.add_node(num_cpus=1)
    yield both
    ray.shutdown()
    both.shutdown()  # type: ignore[no-untyped-call,unused-ignore]


def test_a_cluster_answers_as_one_process(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CHUNK", 16)
    file = write_csv(tmp_path / "p.csv", rows(50))
    alone, together = tmp_path / "1.parquet", tmp_path / "r.parquet"
    ls.sweep(file, "h200", out=alone, workers=1)
    done = ls.sweep(file, "h200", out=together, ray=cluster.address)
    assert done.complete and done.rows == 50
    assert alone.read_bytes() == together.read_bytes()


def test_a_cluster_that_is_not_there_is_refused() -> None:
    with pytest.raises(ls.LegalSatError, match="no Ray cluster at"):
        ls.sweep(rows(1), "h200", ray="127.0.0.1:1")

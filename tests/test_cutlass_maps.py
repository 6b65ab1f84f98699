"""Every argument set that CuTe computes in its own TMA unit tests is legal here, as the H200's driver says too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import legalsat as ls
from bench.maps.cute_comparison import cutes_map

GOLDEN = json.loads((Path(__file__).parent / "data" / "cutlass_tma_encode.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("entry", GOLDEN["entries"], ids=lambda entry: entry["test"])
def test_what_cute_computes_is_legal_and_moves_the_bytes_it_says(entry: dict[str, Any]) -> None:
    found = cutes_map(entry["encode"])
    assert not [d for d in ls.violations(found, "sm_90a") if d.level == "error"]
    assert ls.tx_bytes(found) == entry["box_bytes"]
    assert ls.smem_bytes(found) >= entry["box_bytes"]

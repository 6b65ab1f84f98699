"""Failures that users reported in public threads, and the texts that they saw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from printed_maps import by_cutlass

import legalsat as ls

DATA = Path(__file__).parent / "data"
TEXTS = {entry["id"]: entry["text"] for entry in json.loads((DATA / "pasted_texts.json").read_text(encoding="utf-8"))}
FAILURES: dict[str, dict[str, Any]] = {
    entry["id"]: entry
    for entry in map(json.loads, (DATA / "reported_failures.jsonl").read_text(encoding="utf-8").splitlines())
}


def dump(params: dict[str, Any]) -> str:
    """Return what CUTLASS prints for an entry's parameters."""
    tm = ls.TensorMap(
        params["format_enum"],
        tuple(params["globalDim"]),
        tuple(params["globalStrides_bytes"]),
        tuple(params["boxDim"]),
        tuple(params["elementStrides"]),
        address=int(params["globalAddress"], 0),
        interleave=params["interleave"],
        swizzle=int(params["swizzle"].split("(")[1].rstrip(")")),
        l2_promotion=params["l2Promotion"] or 0,
        oob_fill=params["oobFill"],
        map_offset=int(params.get("descriptor_address", "0"), 0),
    )
    return by_cutlass(tm, 0).rsplit("Error", 1)[0]


def text_of(entry: dict[str, Any]) -> str:
    """Return what the reporter saw; one symptom is cut short in the collection, one gives its assertion elsewhere."""
    symptom = str(entry["symptom"]).replace("must b...", "must be a multiple of 16 bytes")
    if "format_enum" in entry["params"]:
        return dump(entry["params"]) + symptom
    return symptom + str(entry["params"].get("assertion", ""))

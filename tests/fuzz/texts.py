"""Texts that people paste and compilers write: real ones, damaged or not, and drawn ones."""

from __future__ import annotations

import importlib
import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import legalsat as ls

from .draw import data, text
from .nouns import descriptor, instruction, tensor, tensor_map

DATA = Path(__file__).parent.parent / "data"


def ptx(r: Random) -> str:
    """Draw a PTX text: a real one, garbled or not, or one of random instructions."""
    return str(next(_texts()(r)))


@cache
def _texts() -> Any:
    return importlib.import_module(f"{__package__.rpartition('.')[0]}.fuzz_ptx".lstrip(".")).texts


@cache
def _pasted_texts() -> tuple[str, ...]:
    found = [row["text"] for row in json.loads((DATA / "pasted_texts.json").read_text(encoding="utf-8"))]
    found += [path.read_text(encoding="utf-8") for path in sorted((DATA / "explained").glob("*.txt"))]
    rows = map(json.loads, (DATA / "reported_failures.jsonl").read_text(encoding="utf-8").splitlines())
    found += [f"{row['symptom']}\n{json.dumps(row['params'])}" for row in rows]
    rows = map(json.loads, (DATA / "reported_with_code.jsonl").read_text(encoding="utf-8").splitlines())
    found += [f"{row['text']}\n{row['had']}" for row in rows]
    return tuple(found)


def pasted(r: Random) -> str:
    """Draw what somebody may paste: a real report, damaged or not, two of them, or a dump of a drawn map or tensor."""
    how = r.randrange(8)
    if how < 3:
        found = r.choice(_pasted_texts())
    elif how == 3:
        found = r.choice(_pasted_texts())[: r.randrange(400)] + r.choice(_pasted_texts())
    elif how < 6:
        tm = tensor_map(r)
        found = (
            f"globalDim ({','.join(map(str, tm.global_dim))})\nglobalStrides ({','.join(map(str, tm.global_stride))})\n"
            f"boxDim ({','.join(map(str, tm.box))})\nswizzle {r.choice((0, 1, 2, 3, 'CU_TENSOR_MAP_SWIZZLE_128B'))}"
        )
    elif how == 6:
        one_ = tensor(r)
        shape = f"{r.choice(('torch.Size(', 'shape=('))}{list(one_.shape)})"
        found = f"{shape} strides={tuple(one_.strides)} dtype=torch.bfloat16"
    else:
        word = r.choice((descriptor(r).word, instruction(r).word, r.getrandbits(64), r.randrange(1000)))
        found = r.choice((f"{word:#x}", f"{word}", f"kind::f16 {word:#x}", f"desc = {word:#018x}", f"error {word}"))
    return found if r.random() < 0.3 else text(found, r)


def encoded(r: Random) -> bytes:
    """Draw the bytes of a map, any where it has none."""
    try:
        return ls.encode_blob(tensor_map(r))
    except ls.LegalSatError:
        return r.randbytes(128)


def blob(r: Random) -> Any:
    """Draw a map's bytes, whole or changed."""
    found = encoded(r)
    return found if r.random() < 0.4 else data(found, r)

"""The command `decode`: a CUtensorMap's bytes in, its fields in words and what `explain` says of them out."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from legalsat import api
from legalsat.analyses.copy_engine import smem_bytes, tx_bytes
from legalsat.cli import Answer
from legalsat.cli.explanation import explained, path_of
from legalsat.errors import InvalidInput
from legalsat.explanation import Explanation
from legalsat.units.tensor_map import TensorMap
from legalsat.units.tensor_map_bytes import DecodedMap, decode_with_notes
from legalsat.view.look import Look
from legalsat.view.show import table
from legalsat.view.show_explanation import show_explanation

_UNITS = {
    "global_dim": "elements, fastest first",
    "global_stride": "bytes, from dimension 1 on",
    "box": "elements",
    "element_stride": "elements",
    "lower_corner": "pixels",
    "upper_corner": "pixels",
    "channels": "elements a pixel",
    "pixels": "a column",
}
_TEXT = re.compile(rb"[\t\n\r -~]*")
_TILED = ("box",)
_COLUMNS = ("lower_corner", "upper_corner", "channels", "pixels")


def decode(args: Namespace) -> Answer:
    """Read a map, and judge it for a target."""
    found = decode_with_notes(_blob(args.blob), hardware_only=args.hardware_only)
    explanation = api.explain(found.tensor_map, args.target)
    counts = _counts(found.tensor_map)
    data = {
        "tensor_map": asdict(found.tensor_map),
        **counts,
        "notes": list(found.notes),
        "explanation": explanation.to_json(),
    }
    page = partial(_page, found, counts, explanation)
    file = path_of(args.blob[0]) if len(args.blob) == 1 else None
    return explained(explanation, args, data=data, text=page, file=file)


def _blob(words: list[str]) -> bytes | str:
    """Return the bytes or the text that the command line, a file or standard input holds."""
    text = " ".join(words)
    if text == "-":
        return _bytes_or_text(sys.stdin.buffer.read())
    try:
        is_file = len(words) == 1 and Path(text).is_file()
    except OSError:  # hex digits too many for a file's name
        is_file = False
    if is_file:
        try:
            return _bytes_or_text(Path(text).read_bytes())
        except OSError as error:
            raise InvalidInput(f"cannot read {text}: {error.strerror}; give another file") from error
    if len(words) == 1 and any(c in text for c in "./\\"):
        raise InvalidInput(f"{text} is no file; give one that holds the 128 bytes, or the bytes as hex")
    return text


def _bytes_or_text(data: bytes) -> bytes | str:
    """Return printable bytes as text: a map's own hold zeros."""
    return data.decode("ascii") if _TEXT.fullmatch(data) else data


def _counts(tm: TensorMap) -> dict[str, Any]:
    """Return what one copy by this map counts; nothing where the engine has no meaning for it."""
    try:
        return {"transaction_bytes": tx_bytes(tm), "shared_bytes": smem_bytes(tm)}
    except InvalidInput:
        return {}


def _page(found: DecodedMap, counts: dict[str, Any], explanation: Explanation, look: Look) -> str:
    tm = found.tensor_map
    left_out = {"map_offset", *(_COLUMNS if tm.mode == "tiled" else _TILED)}
    rows = [
        (name, _value(name, value), _UNITS.get(name, "")) for name, value in asdict(tm).items() if name not in left_out
    ]
    rows += [(name.replace("_", " "), str(number), "a copy") for name, number in counts.items()]
    notes = [look.wrap(note, "  = note: ") for note in found.notes]
    return "\n".join(
        [look.paint(f"a CUtensorMap: {tm}", "title"), *table(rows), *notes, "", show_explanation(explanation, look)]
    )


def _value(name: str, value: Any) -> str:
    if name == "address":
        return f"{value:#x}"
    return (", ".join(map(str, value)) or "-") if isinstance(value, tuple) else str(value)

"""Shipped sets of operator shapes: benchmarks, and the layers of public models, each with its source.

A set is a file of `data/`: entries with blocks of rows, or with the reason why an entry has none. A block has a source,
fields that all of its rows share, and columns. Models are made of their configuration (`models.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from legalsat.checks import meant
from legalsat.errors import InvalidInput
from legalsat.printable import shown
from legalsat.sweeps.models import layers
from legalsat.sweeps.rows import Row

DATA = Path(__file__).parent / "data"
MODELS = "models"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a set lists: an operator of a benchmark, a layer of a model.

    Attributes:
        name: what the set calls it.
        rows: its operators, each with "x_source", the file that its numbers are from.
        reason: why there are none; "" where there are.
    """

    name: str
    rows: tuple[dict[str, Any], ...]
    reason: str = ""


@lru_cache
def _file(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def _models() -> dict[str, Mapping[str, Any]]:
    return {config["name"]: config for config in _file(MODELS)}


def _described() -> dict[str, str]:
    names = [path.stem for path in sorted(DATA.glob("*.json")) if path.stem != MODELS]
    sets = {name: _file(name)["about"] for name in names}
    models = {name: f"layers of {name}: {config['source']}" for name, config in _models().items()}
    return {**sets, MODELS: "the layers of all models that follow", **models}


# Each set's name with what it is.
CATALOGUES: dict[str, str] = _described()


def entries(name: str) -> Iterator[Entry]:
    """Yield what a shipped set lists, those without operators too.

    Raises:
        InvalidInput: there is no such set.
    """
    if name not in CATALOGUES:
        raise InvalidInput(f"catalogue {shown(name)} is unknown; give one of {', '.join(CATALOGUES)}")
    if name == MODELS:
        for model in _models():
            yield from (Entry(f"{model}/{one.name}", one.rows) for one in entries(model))
    elif name in _models():
        yield from _layers(_models()[name])
    else:
        for entry in _file(name)["entries"]:
            rows = (row for block in entry.get("blocks", ()) for row in _block(block))
            yield Entry(entry["name"], tuple(rows), entry.get("reason", ""))


def _layers(config: Mapping[str, Any]) -> Iterator[Entry]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in layers(config):
        layer, _, phase = row["name"].partition("/")
        found.setdefault(layer, []).append({**row, "name": phase, "x_source": config["source"]})
    for layer, rows in found.items():
        yield Entry(layer, tuple(rows))


def _block(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    said = {**block["fields"], "name": block["name"], "x_source": block["source"]}
    for numbers in block["rows"]:
        yield {**said, **dict(zip(block["columns"], numbers, strict=True))}


def require_known(name: str) -> None:
    """Raise `InvalidInput` where a name without a file's ending is nearly a catalogue's."""
    if name not in CATALOGUES and not Path(name).suffix:
        begun = [one for one in CATALOGUES if name and one.startswith(name.lower())]
        near = f"; {', '.join(begun)} begin so" if len(begun) > 1 else meant(name, CATALOGUES)
        if near:
            raise InvalidInput(f"{name} is neither a file nor a catalogue; give one of these{near}")


def catalogue(name: str) -> Iterator[Row]:
    """Yield the rows of a shipped set, named "entry/block", or "layer/phase" for models.

    Raises:
        InvalidInput: there is no such set.
    """
    place = 0
    for entry in entries(name):
        for row in entry.rows:
            place += 1
            yield Row(place, {**row, "name": f"{entry.name}/{row['name']}"})

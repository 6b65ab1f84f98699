"""How often the rules and the measured driver disagree, and how fast the rules answer.

Run `python -m bench.driver_agreement [PATH] [--json]`. PATH is a `.npz` of encode-call requests with the driver's
answers (fields in tests/data/README.md); without it, the environment variable LEGALSAT_TRUTH names one, and else the
sample in tests/data is taken. "Documents alone" judges with the same rules on a target that nobody measured, with
every data type and swizzle of the header. Exit code 1 if the rules disagree with the driver anywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import legalsat as ls
from bench.machine import DATA
from legalsat.operators.batch import failing
from legalsat.rule import Rule
from legalsat.rules import TENSOR_MAP_RULES
from legalsat.targets import Target, target
from legalsat.units.tensor_map import MAP_TYPES, SWIZZLES

SAMPLE = DATA / "tensor_map_verdicts.npz"
VARIABLE = "LEGALSAT_TRUTH"
TARGET = "h200"
SINGLE_CALLS = 5000
SEED = 1

DRIVER_RULES = tuple(rule for rule in TENSOR_MAP_RULES if rule.refused_by == "driver" and rule.level == "error")
WRITTEN_RULES = tuple(rule for rule in DRIVER_RULES if not rule.source.measured)

Requests = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Agreement:
    """What was found. Rates are requests a second, on one core.

    Attributes:
        source: where the requests come from.
        requests, accepted: how many there are, and how many the driver accepted.
        disagreements: answers of the rules that are not the driver's.
        without_measured_rules: the same without the rules that rest on a measurement.
        documents_alone: the same for a target that nobody measured.
        seconds, rate: the numpy reading of all requests.
        single_calls, single_disagreements, single_rate: `legalsat.violations` on some of them, one by one.
    """

    source: str
    requests: int
    accepted: int
    disagreements: int
    without_measured_rules: int
    documents_alone: int
    seconds: float
    rate: float
    single_calls: int
    single_disagreements: int
    single_rate: float


def refused(requests: Requests, on: Target, rules: Sequence[Rule] = DRIVER_RULES) -> NDArray[np.bool_]:
    """Return which requests the rules refuse."""
    by_rule = failing(requests, on, rules)
    found: NDArray[np.bool_] = np.any(np.stack(list(by_rule.values())), axis=0)
    return found


def documents_alone(on: Target) -> Target:
    """Return the target as documents describe it: no measurements, and all the header's types and swizzles."""
    assert on.tma is not None
    limits = replace(on.tma, map_types=len(MAP_TYPES), swizzles=len(SWIZZLES), measured=False, max_box_bytes=None)
    return replace(on, tma=limits)


def tensor_map(request: Any) -> ls.TensorMap:
    """Return one record as the value that users judge."""
    rank, tiled = int(request["rank"]), request["kind"] == 0

    def numbers(name: str, count: int) -> tuple[int, ...]:
        held: list[int] = request[name].tolist()
        # A rank beyond 5 has more entries than the records hold; it is refused whatever they are.
        return (*held, 0, 0, 0)[: max(count, 0)]

    fields: dict[str, Any] = {
        name: int(request[name])
        for name in ("dtype", "interleave", "swizzle", "l2_promotion", "oob_fill", "map_offset", "address")
    }
    fields |= {name: numbers(name, rank) for name in ("global_dim", "element_stride")}
    fields["global_stride"] = numbers("global_stride", rank - 1)
    if tiled:
        return ls.TensorMap(**fields, box=numbers("box", rank))
    return ls.TensorMap(
        **fields,
        mode="im2col",
        lower_corner=numbers("lower", rank - 2),
        upper_corner=numbers("upper", rank - 2),
        channels=int(request["box"][0]),
        pixels=int(request["box"][1]),
    )


def driver_refuses(tm: ls.TensorMap, on: Target) -> bool:
    """Whether a driver rule refuses the map, one call of the public function."""
    return any(d.refused_by == "driver" and d.level == "error" for d in ls.violations(tm, on))


def measure(path: Path, single_calls: int = SINGLE_CALLS) -> Agreement:
    """Judge every request in the file, and `single_calls` of them one by one."""
    requests = np.load(path)["requests"]
    on = target(TARGET)
    answer = requests["result"] != 0
    start = time.perf_counter()
    batch = refused(requests, on)
    seconds = time.perf_counter() - start
    chosen = np.random.default_rng(SEED).choice(len(requests), min(single_calls, len(requests)), replace=False)
    maps = [tensor_map(request) for request in requests[chosen]]
    start = time.perf_counter()
    single = [driver_refuses(tm, on) for tm in maps]
    single_seconds = time.perf_counter() - start
    return Agreement(
        source=path.name if path != SAMPLE else "the sample in tests/data",
        requests=len(requests),
        accepted=int(np.count_nonzero(~answer)),
        disagreements=int(np.count_nonzero(batch != answer)),
        without_measured_rules=int(np.count_nonzero(refused(requests, on, WRITTEN_RULES) != answer)),
        documents_alone=int(np.count_nonzero(refused(requests, documents_alone(on)) != answer)),
        seconds=seconds,
        rate=len(requests) / seconds,
        single_calls=len(maps),
        single_disagreements=int(np.count_nonzero(np.asarray(single) != answer[chosen])),
        single_rate=len(maps) / single_seconds,
    )


def report(found: Agreement) -> str:
    """Return the measurement in words."""
    return "\n".join(
        (
            f"{found.requests:,} requests from {found.source}, {found.accepted:,} accepted by the driver",
            f"rules:              {found.disagreements:,} disagreements, {found.seconds:.2f} s, "
            f"{found.rate:,.0f} requests a second (numpy)",
            f"violations():       {found.single_disagreements:,} disagreements in {found.single_calls:,} calls, "
            f"{found.single_rate:,.0f} calls a second",
            f"measured rules off: {found.without_measured_rules:,} disagreements",
            f"documents alone:    {found.documents_alone:,} disagreements",
        )
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.driver_agreement", description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="?", type=Path, help="requests with answers; the sample when left out")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    path = given.path or Path(os.environ.get(VARIABLE) or SAMPLE)
    if not path.is_file():
        parser.error(f"{path} is no file; give the .npz of requests")
    found = measure(path)
    print(json.dumps({name: getattr(found, name) for name in found.__slots__}) if given.json else report(found))
    return int(bool(found.disagreements or found.single_disagreements))


if __name__ == "__main__":
    sys.exit(main())

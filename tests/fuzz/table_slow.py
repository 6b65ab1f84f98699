"""Rows of what plans, explains and checks pipelines."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np

import legalsat as ls
from legalsat.units.means import MEANS

from . import judges
from .draw import hostile
from .nouns import (
    GPUS,
    array,
    attention,
    descriptor,
    gemm,
    instruction,
    movement,
    multiply,
    of,
    of_pool,
    one,
    open_tensor,
    pipeline,
    program,
    rows,
    several,
    some,
    tensor,
    tensor_copy,
    tensor_map,
)
from .table import Row
from .texts import blob, pasted, ptx

GPU = one(*GPUS)


def plans() -> Iterator[Row]:
    """Yield rows of what plans, and of what plans then do."""
    means = {"means": one(("tma",), ("threads",), tuple(MEANS), ("tma", "threads"), ("cp.async", "bulk"))}
    asked = means | {
        "tile": one((64, 64), (8, 64), (128,)),
        "consumer": one("threads", "wgmma.a", "wgmma.b", "tcgen05.a"),
        "into": one("shared", "global"),
    }
    planned: dict[str, Any] = {"family": "plan", "judge": judges.plan}
    yield Row("synthesize", ls.synthesize, (tensor, GPU), asked, weight=6, **planned)
    yield Row("synthesize", ls.synthesize, (movement, GPU), means, weight=80, **planned)
    yield Row("synthesize", ls.synthesize, (movement, GPU), {"seconds": one(0, 1, 5.0, 1e-9)}, weight=2, **planned)
    yield Row("synthesize", ls.synthesize, (open_tensor, GPU), weight=4, **planned)
    yield Row("synthesize", ls.synthesize, (array, GPU), weight=3, **planned)
    yield Row(
        "synthesize",
        ls.synthesize,
        (gemm, one("h200", "b200")),
        {"backend": one(None, "triton", "cute")},
        weight=0.6,
        **planned,
    )
    yield Row("synthesize", ls.synthesize, (several, GPU), weight=0.2, **planned)
    yield Row("ProgramPlan.run", _ran, (of_pool("program plan"),), weight=0.05, changed=False)
    yield Row("ProgramPlan.buffer", _buffer, (of_pool("program plan"), one("a", "x", "t1", "", 8)), weight=0.1)
    yield Row(
        "ProgramPlan.emit", ls.ProgramPlan.emit, (of_pool("program plan"), one("cute", "triton", "ptx", 8)), weight=0.05
    )
    yield Row(
        "ProgramPlan.compile", ls.ProgramPlan.compile, (of_pool("program plan"), one("nobody", "", 8)),
        weight=0.01, changed=False,
    )  # fmt: skip
    yield Row("legal_region", ls.legal_region, (open_tensor, GPU), family="plan", judge=judges.region, weight=2)
    yield Row("GroupRegion.prove", _proved, (of_pool("group region"), of(1, 9)), weight=0.05, changed=False)
    yield Row("LegalRegion.prove", _proved, (of_pool("region"), of(1, 9)), family="plan", weight=0.05, changed=False)
    yield Row("MovementPlan.bind", _bound, (of_pool("open plan"), _values), family="plan", weight=4, changed=False)
    yield Row(
        "repair_banks", _repaired, (rows, one((32, 64), (32, 32)), one("bf16", "u8"), GPU), family="plan", weight=0.2
    )
    yield Row(
        "MovementPlan.compile",
        ls.MovementPlan.compile,
        (of_pool("plan"), one("nobody", "", 8, [])),
        weight=0.01,
        changed=False,
    )
    backend = one("host", "host-python", "triton", "cute", "ptx")
    yield Row("MovementPlan.emit", ls.MovementPlan.emit, (of_pool("plan"), backend), family="plan", weight=2)
    yield Row(
        "GemmPlan.emit",
        ls.GemmPlan.emit,
        (of_pool("gemm plan"), one("ptx", "cute", "triton")),
        family="plan",
        weight=0.3,
    )
    yield Row("GemmPlan.bind", _bound, (of_pool("gemm plan"), _values), family="plan", weight=0.3, changed=False)
    compiled = one("nobody", "", 8, None.__class__)
    yield Row("GemmPlan.compile", ls.GemmPlan.compile, (of_pool("gemm plan"), compiled), weight=0.01, changed=False)
    problems = some(one({"m": 64, "n": 64, "k": 65}, {"shape": "64x65"}, ls.Gemm(64, 64, 64, "bf16")), 0, 2)
    yield Row("sweep", _swept, (problems, GPU), family="plan", weight=1)
    yield Row("Sweep.table", ls.Sweep.table, (of_pool("sweep"),), weight=0.01, changed=False)


def explains() -> Iterator[Row]:
    """Yield rows of what explains."""
    explained: dict[str, Any] = {"family": "explain", "judge": judges.explanation}
    options = {"tile": one((64, 64), (8, 64), (128,)), "consumer": one("threads", "wgmma.a")}
    for draw, weight in (
        *((tensor_map, 15), (tensor_copy, 8), (descriptor, 4), (instruction, 4), (multiply, 2), (program, 2)),
        *((attention, 0), (array, 2), (of_pool("plan"), 1), (of_pool("error"), 1), (pipeline, 1)),
        *((one(715, 1, 700, 999, 0x4000004000010001, 0x8040490, "715"), 2), (blob, 4)),
    ):
        if weight:
            yield Row("explain", ls.explain, (draw, GPU), weight=weight, **explained)
    yield Row("explain", ls.explain, (tensor, GPU), options, weight=12, **explained)
    yield Row("explain", ls.explain, (movement, GPU), weight=12, **explained)
    yield Row("explain", ls.explain, (gemm, one("h200", "b200")), weight=0.2, **explained)
    yield Row("explain", ls.explain, (several, GPU), weight=0.1, **explained)
    yield Row("explain", ls.explain, (pasted, GPU), weight=40, changed=False, **explained)
    yield Row("explain", ls.explain, (pasted, GPU), {"beside": tensor}, weight=2, changed=False, **explained)


def protocols() -> Iterator[Row]:
    """Yield rows of pipelines and of PTX."""
    yield Row("check_pipeline", ls.check_pipeline, (pipeline,), {"target": GPU}, weight=0.02)
    yield Row("gantt", ls.gantt, (of_pool("pipeline"), _trips), {"latencies": one({"load": 100.0}, {})}, weight=0.02)
    yield Row(
        "Pipeline",
        _pipeline,
        (of_pool("pipeline"), one("barriers", "buffers", "roles", "sums", "cluster")),
        weight=0.5,
        changed=False,
    )
    yield Row("check_pipeline", _checked, (ptx,), family="ptx", weight=1, changed=False)
    yield Row("explain", _explained, (ptx,), family="ptx", weight=1, changed=False)


# --- plans ---


def _ran(plan: Any) -> Any:
    return plan.run(*(np.ones(one.tensor.shape) for one in plan.operator.inputs))


def _buffer(given: Any, name: Any) -> Any:
    return given.buffer(name)


def _proved(region: Any, samples: int) -> Any:
    return region.prove(samples=samples)


def _values(r: Random) -> dict[str, Any]:
    return {name: r.choice((1, 8, 64, 100, 0, -1, 2**40, hostile(r))) for name in r.sample(("M", "K", "N"), 2)}


def _trips(r: Random) -> dict[str, int]:
    return {name: r.choice((0, 1, 2, 3, 7, -1, 10**6)) for name in ("K tiles", "tiles", "items") if r.random() < 0.9}


def _bound(plan: Any, values: Any) -> Any:
    return plan.bind(**values)


def _repaired(held: Any, tile: Any, name: Any, gpu: Any) -> Any:
    return ls.repair_banks([("ld.b128", held)], tile, name, gpu)


def _swept(problems: Any, gpu: Any) -> Any:
    found = ls.sweep(problems, gpu, workers=1)
    assert found.rows == sum(found.verdicts.values())
    return found


def _pipeline(given: ls.Pipeline, name: str) -> Any:
    """Make a pipeline of another's parts, in an order of their own."""
    parts = {field: getattr(given, field) for field in ("barriers", "buffers", "roles", "sums", "cluster")}
    part = parts[name]
    parts[name] = part[::-1] if isinstance(part, tuple) else part + 1
    return ls.Pipeline(**parts)


def _checked(given: str) -> Any:
    return ls.check_pipeline(given)


def _explained(given: str) -> Any:
    return ls.explain(given, "h200")


ROWS: tuple[Row, ...] = (*plans(), *explains(), *protocols())

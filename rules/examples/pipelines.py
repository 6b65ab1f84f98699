"""Examples of barriers, stages and phases in pipelines."""

from __future__ import annotations

from typing import Any

from legalsat.program.pipeline_sites import (
    Aligned,
    BarrierEnd,
    BarrierPhase,
    BarrierRange,
    BarrierUse,
    Exit,
    Grouped,
    MapEdit,
    Meeting,
    Multicast,
    NamedBarrier,
    PhaseWait,
    StageRead,
    StageWrite,
    SumsUse,
    TensorMemoryLife,
    UnitUse,
)
from legalsat.rules.examples.example import Example

_WHERE = "role consumer: turn"


def _use(**fields: Any) -> BarrierUse:
    return BarrierUse(_WHERE, "full[c]", **fields)


def _phase(**fields: Any) -> BarrierPhase:
    return BarrierPhase(_WHERE, "full[c]", **fields)


def _write(user: str, *, done: bool) -> StageWrite:
    return StageWrite(_WHERE, "A[c]", user, done)


def _read(**fields: Any) -> StageRead:
    return StageRead(_WHERE, "A[c]", **fields)


EXAMPLES = (
    Example("PIPE001", _use(met=False), _use()),
    Example("PIPE002", _use(fenced=False, proxy=True), _use(proxy=True)),
    Example("PIPE003", _use(fenced=False, remote=True), _use(remote=True)),
    Example("PIPE004", _phase(arrivals=2), _phase(arrivals=2, arrived=2)),
    Example("PIPE005", _phase(arrived=2), _phase(arrivals=2, arrived=2)),
    Example("PIPE006", _phase(expected=24576, completed=16384), _phase(expected=24576, completed=24576)),
    Example(
        "PIPE007", PhaseWait(_WHERE, "full[c]", waited=0, current=2), PhaseWait(_WHERE, "full[c]", waited=1, current=2)
    ),
    Example("PIPE008", _write("threads", done=False), _write("threads", done=True)),
    Example("PIPE009", _read(full=False), _read()),
    Example("PIPE010", _read(fenced=False), _read()),
    Example("PIPE011", _write("wgmma", done=False), _write("wgmma", done=True)),
    Example("PIPE012", Grouped(_WHERE, "wgmma", committed=False), Grouped(_WHERE, "wgmma", committed=True)),
    Example("PIPE013", _write("stores", done=False), _write("stores", done=True)),
    Example("PIPE014", Exit(_WHERE, "loads on full"), Exit(_WHERE)),
    Example("PIPE015", Exit(_WHERE, "CTA 1 has done with its memory", remote=True), Exit(_WHERE, remote=True)),
    Example(
        "PIPE016", TensorMemoryLife(_WHERE, "reads sums", "it was freed before"), TensorMemoryLife(_WHERE, "reads sums")
    ),
    Example("PIPE017", Multicast(_WHERE, 0b101, 2), Multicast(_WHERE, 0b11, 2)),
    Example("PIPE018", Meeting(_WHERE, "full[c]", comes=False), Meeting(_WHERE, "full[c]", comes=True)),
    Example("PIPE019", SumsUse(_WHERE, "sums", done=False), SumsUse(_WHERE, "sums")),
    Example("PIPE020", SumsUse(_WHERE, "sums", fenced=False, fence="wgmma.fence"), SumsUse(_WHERE, "sums")),
    Example("PIPE021", BarrierRange(_WHERE, arrivals=0), BarrierRange(_WHERE, arrivals=1)),
    Example("PIPE022", BarrierRange(_WHERE, bytes=2**20), BarrierRange(_WHERE, bytes=2**20 - 1)),
    Example("PIPE023", UnitUse(_WHERE, "wgmma", present=False), UnitUse(_WHERE, "wgmma", present=True)),
    Example("PIPE024", BarrierEnd(_WHERE, "full[c]", idle=False), BarrierEnd(_WHERE, "full[c]", idle=True)),
    Example(
        "PIPE025",
        Aligned(_WHERE, "the size of a bulk copy", 24, 16),
        Aligned(_WHERE, "the size of a bulk copy", 32, 16),
    ),
    Example(
        "PIPE026",
        StageWrite(_WHERE, "A[c]", "threads", done=True, fenced=False),
        StageWrite(_WHERE, "A[c]", "threads", done=True),
    ),
    Example(
        "PIPE027",
        StageWrite(_WHERE, "A[c]", "threads", done=True, reads_fenced=False),
        StageWrite(_WHERE, "A[c]", "threads", done=True),
    ),
    Example("PIPE028", NamedBarrier(_WHERE, 16), NamedBarrier(_WHERE, 15)),
    Example("PIPE030", SumsUse(_WHERE, "sums", waited=False), SumsUse(_WHERE, "sums")),
    Example(
        "PIPE031",
        PhaseWait(_WHERE, "full[c]", waited=1, current=2, looks_on=True),
        PhaseWait(_WHERE, "full[c]", waited=1, current=2),
    ),
    Example("PIPE032", Exit(_WHERE, unread="the store of C"), Exit(_WHERE)),
    Example("PIPE033", MapEdit(_WHERE, "map of A", idle=False), MapEdit(_WHERE, "map of A")),
    Example("PIPE034", _read(copies_fenced=False), _read()),
    Example("PIPE038", _read(rows_met=False), _read()),
    Example(
        "PIPE036",
        Meeting(_WHERE, "the cluster", comes=True, released=False),
        Meeting(_WHERE, "the cluster", comes=True),
    ),
    Example(
        "PIPE037", BarrierEnd(_WHERE, "full[c]", idle=True, invalidated=False), BarrierEnd(_WHERE, "full[c]", idle=True)
    ),
    Example("PIPE035", SumsUse(_WHERE, "sums", barrier_fenced=False), SumsUse(_WHERE, "sums")),
)

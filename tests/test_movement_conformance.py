"""Printed kernels of movements against their programs: equal as they are, and told apart when either one is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from random import Random

import pytest
from test_conformance import straight

import legalsat as ls
from bench.conformance.movement_conformance import trips
from bench.conformance.printed_movement import Moved, PrintedMovement, blocks_of
from bench.kernels.movement_conformance import chosen, judged, printed, texts
from bench.kernels.pipeline_mutants import Mutant, mutants, places, replaced
from legalsat.analyses.protocol.pipeline_unroll import Value
from legalsat.backends import program
from legalsat.backends.cute.compile import CompilationFailed, headers, nvcc
from legalsat.errors import InvalidInput
from legalsat.operators import Move
from legalsat.program.pipeline import CopyIn, Load, Operation, Pipeline, Store, Vectors

ROWS = ls.Tensor((2500, 1000), "bf16")
PLANS: dict[str, tuple[Move, str]] = {
    "a ring of boxes": (ls.Copy(ROWS, tile=(64, 64), consumer="wgmma.a"), "tma"),
    "boxes that are turned": (ls.Transpose(ls.Tensor((3, 100, 72), "fp32"), (2, 0, 1)), "tma"),
    "a ring of vectors": (ls.Copy(ROWS, tile=(64, 64), consumer="wgmma.a"), "cp.async"),
    "phases": (ls.Copy(ls.Tensor((30, 75), "fp32"), tile=(8, 64)), "tma.phases"),
    "runs": (ls.Copy(ls.Tensor((30, 72), "fp32"), tile=(8, 64)), "bulk"),
    "columns": (ls.Im2col(ls.Tensor((1, 8, 9, 16), "bf16"), 3, padding=1), "im2col"),
    "threads": (ls.Transpose(ls.Tensor((30, 75), "bf16")), "threads"),
    "rows of its own on either side": (
        ls.Copy(ls.Tensor((64, 33), "bf16", (40, 1)), ls.Tensor((64, 33), "bf16"), tile=(16, 33)),
        "threads",
    ),
    "windows": (ls.Im2col(ls.Tensor((1, 8, 9, 16), "bf16"), 3, padding=1), "cp.async"),
    "granules of rows": (ls.Copy(ls.Tensor((30, 75), "bf16"), ls.Tensor((30, 75), "bf16", (80, 1))), "granules"),
    "granules that are turned": (ls.Transpose(ls.Tensor((300, 131), "bf16")), "granules"),
    "granules by a table": (ls.Transpose(ls.Tensor((3, 20, 65), "bf16"), (2, 1, 0)), "granules"),
    "a padding": (ls.Pad(ls.Tensor((30, 75), "bf16"), ((1, 2), (0, 5))), "threads"),
}


@cache
def plan_of(name: str) -> ls.MovementPlan:
    operator, means = PLANS[name]
    found = ls.synthesize(operator, "h200", means=(means,))  # type: ignore[arg-type]
    assert found.access.by == means
    return found


@cache
def text_of(name: str, backend: str, old: str = "", new: str = "") -> PrintedMovement:
    """Return a plan's text made ready, with the first place of something in it replaced."""
    if backend == "cute":
        try:
            nvcc()
            headers()
        except CompilationFailed as error:
            pytest.skip(str(error))
    made = program(plan_of(name), backend)
    assert old in made.text
    return printed(plan_of(name), backend, replace(made, text=made.text.replace(old, new)) if old else made)


@cache
def moved(name: str, backend: str) -> tuple[Moved, ...]:
    one = text_of(name, backend)
    return tuple(one.run(block) for block in blocks_of(one.plan, few=True))


PRINTED = [(name, backend) for name in PLANS for backend, _ in texts(plan_of(name))]


def test_every_means_is_printed() -> None:
    assert {name for name, backend in PRINTED if backend == "cute"} == set(PLANS)
    assert len(PRINTED) > len(PLANS)


@pytest.mark.parametrize(("name", "backend"), PRINTED)
def test_a_text_does_what_its_program_says(name: str, backend: str) -> None:
    events, differences = judged(text_of(name, backend))
    assert not differences
    assert events > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_texts_of_random_plans_do_what_their_programs_say(seed: int) -> None:
    r, count = Random(seed), 0
    while count < 12:
        if (plan := chosen(r)) is None:
            continue
        for backend, made in texts(plan):
            assert not judged(printed(plan, backend, made), few=True)[1], plan.operator
            count += 1


def test_blocks_of_a_ring_have_no_tile_one_and_as_many_as_take_it_round() -> None:
    plan = plan_of("a ring of boxes")  # 16 x 40 tiles on 132 processors
    assert [trips(plan, block) for block in blocks_of(plan)] == [0, 1, 4, 5, 5]
    assert all(block >= 0 for block in blocks_of(plan))


# Programs with a fault.


def elsewhere(pipeline: Pipeline) -> Iterator[Mutant]:
    """Yield a movement's mutants that move something else: a coordinate, a map, bytes at a time, a side, a tile."""
    (role,) = pipeline.roles
    for at, op in places(role.body):
        for kind, new in _changes(op):
            where = f"{role.name} {'.'.join(map(str, at))}: {type(op).__name__}"
            yield Mutant(kind, where, replace(pipeline, roles=(replace(role, body=replaced(role.body, at, (new,))),)))


def _changes(op: Operation) -> Iterator[tuple[str, Operation]]:
    if isinstance(op, Load | Store):
        for d, along in enumerate(op.corner if not getattr(op, "each", 0) else ()):
            later = replace(along, plus=along.plus + 8)
            yield f"coordinate {d} later", replace(op, corner=(*op.corner[:d], later, *op.corner[d + 1 :]))
            for t, (mode, factor) in enumerate(along.terms):
                terms = (*along.terms[:t], (mode, factor + 8), *along.terms[t + 1 :])
                wider = replace(along, terms=terms)
                yield f"coordinate {d} of wider tiles", replace(op, corner=(*op.corner[:d], wider, *op.corner[d + 1 :]))
    if isinstance(op, Vectors):
        yield "the other side", replace(op, side="target" if op.side == "source" else "source")
    if isinstance(op, CopyIn):
        yield "copies half as wide", replace(op, each=op.each // 2)


def unseen(name: str, backend: str, mutant: Mutant, *, straightly: bool) -> str:
    """Return a mutant in words if it does something else than the text, and is not told apart."""
    one, other = text_of(name, backend), not straightly
    for run in moved(name, backend):
        try:
            if one.differences(run, mutant.pipeline):
                return ""
            values: dict[str, Value] = dict.fromkeys(one.plan.pipeline.symbols, trips(one.plan, run.block))
            if straightly:
                other |= straight(mutant.pipeline, values) != straight(one.plan.pipeline, values)
        except (InvalidInput, KeyError):
            return ""  # it names what is not there
    return f"{mutant.kind}, {mutant.where}" if other else ""


@pytest.mark.parametrize("name", PLANS)
def test_faults_in_a_program_are_told(name: str) -> None:
    pipeline = plan_of(name).pipeline
    found = list(elsewhere(pipeline))
    assert not [told for mutant in found if (told := unseen(name, "cute", mutant, straightly=False))]
    found = list(mutants(pipeline))
    assert not [told for mutant in found if (told := unseen(name, "cute", mutant, straightly=True))]


# Texts with a fault.


@dataclass(frozen=True)
class Fault:
    """What is replaced in the text of one of the plans above, and words of the difference that is told."""

    name: str
    old: str
    new: str
    words: str
    backend: str = "cute"


RING, TURNED, VECTORS, RUNS = "a ring of boxes", "boxes that are turned", "a ring of vectors", "runs"
GRANULES = "granules that are turned"
WAIT, TO_MAP = "movement::wait(full + done % 4, done / 4 & 1);\n", "&map1, c0 + box / 1 % 2 * 32"
BRINGS, ADDRESS = "if (bytes) movement::load_run(", "source + plan::source_byte(g), bytes"
TEXTS = {
    "a wait dropped": Fault(RING, WAIT, "", "says wait full[0] parity 0"),
    "the wrong parity": Fault(RING, "done / 4 & 1", "done / 4 + 1 & 1", "wait full[0] parity 1"),
    "the wrong stage": Fault(RING, "&map0, full + loaded % 4", "&map0, full", "source[1] byte 0 on full[0]"),
    "the wrong coordinate": Fault(RING, "c0 = n0 * 64 + 0", "c0 = n0 * 64 + 8", "by map 0 at 968, "),
    "axes that changed places": Fault(RING, "c0 + 0, c1 + 0", "c1 + 0, c0 + 0", "by map 0 at"),
    "the wrong map": Fault(RING, "&map0", "&map1", "by map 1 at"),
    "the next tile": Fault(RING, "block() + loaded * 132", "block() + (loaded + 1) * 132", "by map 0 at"),
    "bytes that nobody brings": Fault(RING, "loaded % 4, 8192)", "loaded % 4, 8208)", "expect full[0] (8208)"),
    "no commit": Fault(RING, "if (movement::thread() == 0) movement::commit_stores();", "", "says commit bulk"),
    "a store too early reused": Fault(RING, "wait_stores<2>", "wait_stores<3>", "wait group bulk.read (3)"),
    "barriers not made known": Fault(RING, "movement::fence_start();\n", "", "says fence mbarrier_init"),
    "barriers used too early": Fault(RING, "movement::meet();\n", "", "says meet"),
    "another thread": Fault(RING, "thread() == 0) movement::expect", "thread() == 1) movement::expect", "not by the"),
    "all threads": Fault(
        RING, "if (movement::thread() == 0) movement::expect", "movement::expect", "expect full[0] (262144)"
    ),
    "no fence of a store": Fault(TURNED, "movement::fence_async();\n", "", "says fence proxy.async"),
    "no meeting of readers": Fault(TURNED, "    movement::meet();\n    {", "    {", "says meet"),
    "boxes in one place": Fault(TURNED, "memory + 0 + box * 4096", "memory + 0", "target[0] byte 0 by map 1 at 32"),
    "boxes to one place": Fault(TURNED, TO_MAP, "&map1, c0", "target[0] byte 4096 by map 1 at 0"),
    "a group more pending": Fault(VECTORS, "wait_copies<3>", "wait_copies<4>", "wait group cp.async (4)"),
    "copies of the wrong words": Fault(VECTORS, "source + plan::source_byte(g) :", "source :", "from byte 0"),
    "a stage that is kept": Fault(
        VECTORS, "memory + 0 + loaded % 4 * 8192", "memory + 0", "the text does copy source[0]"
    ),
    "words stored elsewhere": Fault(VECTORS, "target + plan::target_byte(g)", "target + 16", "global write"),
    "nothing counted down": Fault(RUNS, "movement::complete(full, 256 - bytes)", "", "nothing on full[0]"),
    "too much counted down": Fault(RUNS, "256 - bytes)", "272 - bytes)", "nothing on full[0]"),
    "runs of the wrong rows": Fault(RUNS, ADDRESS, "source, bytes", "on full[0] from byte 0"),
    "a run too few": Fault(RUNS, BRINGS, BRINGS.replace("(bytes)", "(bytes && row)"), "from byte 0"),
    "the wrong phase": Fault("phases", "&map1", "&map2", "by map 2 at"),
    "the wrong tap": Fault("columns", "1 * (c1 + ", "1 * (1 + c1 + ", "by map 0 at"),
    "the wrong pixel": Fault("columns", "* 1 - 1;", "* 1;", "by map 0 at"),
    "no meeting of granules": Fault(GRANULES, "relayout::barrier();", "", "the program says meet"),
    "granules not committed": Fault(GRANULES, "relayout::commit_copies();", "", "the program says commit"),
    "granules not waited for": Fault(GRANULES, "wait_copies<0>", "wait_copies<1>", "the program says wait group"),
    "granules of the wrong row": Fault(GRANULES, "u64 next = source +", "u64 next = source + 16 +", "copies too many"),
    "granules stored elsewhere": Fault(GRANULES, "to += (column", "to += 2 + (column", "bytes written too many"),
    "a table that is not read": Fault("granules by a table", "exists ? read_place", "false ? read_place", "written"),
    "rows read too far": Fault("granules of rows", "begin < last, address", "true, address", "granules read too many"),
    "the wrong side of a padding": Fault("a padding", "g.at[1] >= 1", "g.at[1] >= 2", "global read"),
    "Gluon's wait dropped": Fault(
        RING, "mbarrier.wait(full.index(done_of_4), done_phase)", "pass", "says wait", "triton"
    ),
    "Gluon's wrong parity": Fault(RING, "done_phase ^ 1", "done_phase", "wait full[0] parity 0", "triton"),
    "Gluon's wrong coordinate": Fault(RING, "[index1 * 64, index0 * 64]", "[index1 * 64, index0 * 32]", "at", "triton"),
    "Gluon's wrong bytes": Fault(RING, "8192)", "8208)", "expect full[0] (8208)", "triton"),
    "Gluon's wrong stage": Fault(
        RING, "sources.index(done_of_4)", "sources.index(0)", "says store source[1]", "triton"
    ),
    "Gluon's store too early reused": Fault(RING, "store_wait(2)", "store_wait(3)", "bulk.read (3)", "triton"),
    "Gluon's fence dropped": Fault(
        TURNED, "targets.store(words)\n    fence_async_shared()", "targets.store(words)", "says meet", "triton"
    ),
}
QUICK = (
    "a wait dropped",
    "the wrong parity",
    "the wrong coordinate",
    "nothing counted down",
    "no meeting of granules",
    "Gluon's wrong bytes",
)


def told(fault: str) -> None:
    one, found = TEXTS[fault], list[str]()
    broken = text_of(one.name, one.backend, one.old, one.new)
    for block in blocks_of(broken.plan, few=True):
        found += broken.differences(broken.run(block))
    assert any(one.words in said for said in found), found[:5]


@pytest.mark.parametrize("fault", QUICK)
def test_faults_in_a_text_are_told(fault: str) -> None:
    told(fault)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [fault for fault in TEXTS if fault not in QUICK])
def test_further_faults_in_texts_are_told(fault: str) -> None:
    told(fault)

"""Programs of product kernels: each class is proven, faults in them are not, and two CTAs stand for a whole split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from lacking import without

import legalsat as ls
from legalsat.analyses.protocol import typestate
from legalsat.analyses.protocol.pipeline_unroll import unroll
from legalsat.analyses.protocol.typestate_pairs import paired
from legalsat.extract.kernels.kernel_program import kernel_program, printed_program
from legalsat.extract.kernels.product_kernels import each_kernel
from legalsat.plans.product_kernel import ProductKernel
from legalsat.program.kernel_text import program_lines
from legalsat.program.pipeline import (
    Advance,
    Commit,
    Expect,
    Fence,
    Guard,
    Load,
    Loop,
    Operation,
    Pipeline,
    Start,
    Sync,
    Wait,
    walk,
)
from legalsat.targets import target

H200 = target("h200")
PRODUCTS = (
    ls.Gemm(8192, 8192, 8192, "bf16"),
    ls.Gemm(512, 512, 8192, "bf16"),
    ls.Gemm(4096, 4097, 4099, "fp16"),
    ls.Gemm(300, 1000, 4090, "e4m3"),
)


def classes() -> dict[str, ProductKernel]:
    """Return one kernel of each class: how it multiplies, stores, shares and splits."""
    found: dict[str, ProductKernel] = {}

    def named(one: ProductKernel) -> str:
        words = [
            "ping-pong" if one.ping_pong else f"{one.warpgroups} consumers",
            *(["overlapped"] if one.overlapped else []),
            f"realign {one.realign}",
            f"store {one.store}",
            f"cluster {one.cluster[0]}x{one.cluster[1]}",
            f"split {min(one.split, 3)}",
        ]
        return ", ".join(words)

    for product in PRODUCTS:
        for _, one in each_kernel(product, H200, lambda one: named(one) not in found):
            found[named(one)] = one
    return found


KERNELS = classes()


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_each_class_is_proven_for_all_numbers_of_tiles_and_k_tiles(name: str) -> None:
    """Fragments of A that threads read leave a warning: no fence of proxies orders reads before the copy engine."""
    found = typestate.check(kernel_program(KERNELS[name], 2), H200)
    assert found.proven and {d.code for d in found.diagnostics} <= {"PIPE027"}
    assert bool(found.diagnostics) == ("realign registers" in name)


def faults(program: Pipeline, every: int) -> Iterator[tuple[Operation, Pipeline]]:
    """Yield an operation and the program without it, in all roles of its name."""
    for name in {role.name: None for role in program.roles}:
        body = next(role.body for role in program.roles if role.name == name)
        plain = [op for op in walk(body) if not isinstance(op, Loop | Guard)]
        for number in range(0, len(plain), every):
            roles = (replace(r, body=without(r.body, number)) if r.name == name else r for r in program.roles)
            yield plain[number], replace(program, roles=tuple(roles))


@pytest.mark.parametrize("kind", ["2 consumers, overlapped", "ping-pong, realign none", "1 consumers, realign none"])
def test_a_program_that_lacks_an_operation_is_not_proven(kind: str) -> None:
    """One that is done once an item; of the others, which are done again, some are spare at an end."""
    kernel = next(one for name, one in sorted(KERNELS.items()) if name.startswith(kind))
    for op, broken in faults(kernel_program(replace(kernel, stages=2), 2), every=1):
        once = isinstance(op, Start | Expect | Load | Commit) or (isinstance(op, Wait) and not op.before)
        if once or (isinstance(op, Fence) and op.kind != "wgmma"):
            found = typestate.check(broken, H200, max_forks=400)
            assert not found.proven or found.diagnostics, op


def test_two_ctas_stand_for_all_of_a_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the whole cluster, operation by operation taken away: the same verdicts and codes."""
    kernel = next(one for _, one in each_kernel(PRODUCTS[1], H200) if one.split == 3)
    program = kernel_program(replace(kernel, stages=2), 2)
    assert (program.cluster, paired(program).cluster) == (3, 2)
    broken = [program, *(one for _, one in faults(program, every=5))]
    pairs = [typestate.check(one, H200, max_forks=600) for one in broken]
    monkeypatch.setattr(typestate, "paired", lambda one: one)
    for pair, one in zip(pairs, broken, strict=True):
        whole = typestate.check(one, H200, max_forks=600)
        assert (pair.proven, {d.code for d in pair.diagnostics}) == (whole.proven, {d.code for d in whole.diagnostics})


def test_ctas_that_differ_or_reach_each_other_are_not_paired() -> None:
    kernel = next(one for _, one in each_kernel(PRODUCTS[1], H200) if one.split == 3)
    program = kernel_program(replace(kernel, stages=2), 2)
    first = program.roles[1]
    assert first.ctas == (0,)
    alone = replace(program, roles=(program.roles[0], replace(first, body=without(first.body, 3)), *program.roles[2:]))
    assert paired(alone) == alone
    shared = next(one for _, one in each_kernel(PRODUCTS[0], H200) if one.cluster_blocks > 1)
    assert paired(kernel_program(shared, 2)) == kernel_program(shared, 2)


def test_consumers_in_turn_go_on_where_the_other_got_to() -> None:
    """Unrolled, the stages that consumers wait for are the producer's, tile for tile, each item once."""
    kernel = replace(next(one for name, one in KERNELS.items() if name.startswith("ping-pong")), cluster=(1, 1))
    program = kernel_program(kernel, 2)
    values = dict.fromkeys(program.symbols, 3) | {"tiles of each consumer": 2, "last tile": 1}
    found = unroll(program, {name: values[name] for name in program.symbols})
    waits = {
        process.role.name: [todo.item for todo in course if isinstance(todo.op, Wait) and todo.op.barrier == "full"]
        for process, course in zip(found.processes, found.programs, strict=True)
    }
    tile = waits["consumer 0"].index(waits["consumer 1"][0] - 1) + 1
    assert waits["consumer 0"][:tile] == list(range(tile)) and len(waits["consumer 1"]) == 2 * tile
    assert sorted(waits["consumer 0"] + waits["consumer 1"]) == list(range(5 * tile))
    assert any(isinstance(op, Sync) and op.cursor for role in program.roles for op in walk(role.body))
    assert not any(isinstance(op, Advance) and op.by == 0 for role in program.roles for op in walk(role.body))


def test_a_program_is_told_once_for_all_consumers_and_ctas() -> None:
    kernel = next(one for _, one in each_kernel(PRODUCTS[1], H200) if one.split == 3 and one.warpgroups == 2)
    told = dict(program_lines(printed_program(kernel, 2)))
    assert list(told) == ["one thread", "all warps", "consumers i = 0, 1, 4 warps each", "producer, one thread"]
    consumers = told["consumers i = 0, 1, 4 warps each"]
    assert "  multiply A[multiplied] by B[multiplied] into accumulator i, by wgmma" in consumers
    assert not any("{" in line for lines in told.values() for line in lines)

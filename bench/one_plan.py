"""Is what is planned, costed, explained and proven what runs?

    python -m bench.one_plan [COUNT] [SEED] [--processes N] [--seconds S] [--whole S] [--out FOLDER]

Needs no GPU; 200 random products, movements and launches each when COUNT is left out. Every tenth product is one of
long k whose tiles are cut where clusters' shares of it end (stream-K).

Of each product the plan, the text that it prints, the launch that it makes and the program that is proven are read
separately and compared field by field: tile, stages, cluster, split, consumers, registers, grid, shared memory,
tensor maps, arrivals and bytes of barriers, k-tiles, predicted time; of relayouts in front, which are movements, all
that is compared of these. Writes one_plan.json, and a line of JSON as each is done, to bench/results or a folder.
What is launched, in front and behind too, is compared by `bench.kernels.one_launch`: of products, batches, groups and
programs of several operators, on every GPU and by every backend that prints them.
Movements, with every means and every backend that prints them, are compared by `bench.kernels.one_movement`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import legalsat as ls
from bench import pool
from bench.kernels import one_launch, one_movement
from bench.machine import RESULTS
from bench.search import programs
from legalsat.backends import program
from legalsat.extract.kernels.product_maps import source_maps
from legalsat.extract.moved.relayouts import nanoseconds_of
from legalsat.plans.product_kernel import ALIGNER_REGISTERS, LEAST_SHARE, SUM_BYTES, WARPS, ProductKernel
from legalsat.program.pipeline import Expect, Load, Multiply, Registers, walk
from legalsat.runtime.program import AddressArgument, MapsArgument, NumberArgument, Program
from legalsat.tensor import plain
from legalsat.view.show import byte_count, duration

TARGET, COUNT, SEED = "h200", 200, 7
MOVEMENTS, PRODUCTS, LAUNCHES = "movements", "products", "launches"
Compared = tuple[str, Any, Any]
Piece = tuple[str, int, int]  # kind, seed and number
SHARED_OUT, MOST_DRAWN = 10, 200  # every so manieth product is by stream-K, which few of long k are: so many are drawn


def drawn(r: random.Random) -> ls.Gemm:
    """Return a product: usual and odd extents, rows in a pitch of their own, either major axis or none, any type.

    Of C too there may be no elements side by side.
    """
    m, n, k = (r.choice((r.randint(1, 300), 64 * r.randint(1, 70), r.randint(1, 9000))) for _ in range(3))
    dtype = r.choice(("bf16", "bf16", "fp16", "e4m3", "fp32", "tf32", "i8", "u8"))
    out = r.choice((None, None, {"i8": "i8", "u8": "i8", "bf16": "e4m3", "fp16": "e5m2"}.get(dtype)))
    pitch = k + r.choice((0, 0, 1, 8))
    a = ls.Tensor((m, k), dtype, (pitch, 1))
    b = ls.Tensor((n, k), dtype, r.choice(((k, 1), (1, n))))
    constant = r.random() < 0.3
    if r.random() < 0.1:  # elements of A of which none lie side by side
        step = r.randint(2, 5)
        a = ls.Tensor((m, k), dtype, r.choice(((step * k, step), (step, step * m))))
    product = ls.Gemm(m, n, k, dtype, out_dtype=out, a=a, b=b, constant_b=constant)
    if r.random() < 0.1:
        step = r.randint(2, 5)
        c = ls.Tensor((m, n), product.out_dtype, r.choice(((step * n, step), (step, step * m))))
        product = ls.Gemm(m, n, k, dtype, out_dtype=out, a=a, b=b, c=c, constant_b=constant)
    return product


def long(r: random.Random) -> ls.Gemm:
    """Return a product of long k, of so few tiles that processors may idle in the last round of large ones."""
    m, n, k = r.randint(200, 3000), r.randint(1000, 9000), r.randint(4096, 17000)
    if r.random() < 0.5:
        m, n, k = (8 * (extent // 8) for extent in (m, n, k))
    dtype = r.choice(("bf16", "bf16", "fp16", "e4m3"))
    b = ls.Tensor((n, k), dtype, r.choice(((k, 1), (1, n))))
    return ls.Gemm(m, n, k, dtype, b=b)


def planned(r: random.Random, *, shared_out: bool) -> ls.GemmPlan:
    """Return the plan of a random product; or of the first of long k whose k-tiles are shared out."""
    if not shared_out:
        return ls.synthesize(drawn(r), TARGET)
    for _ in range(MOST_DRAWN):
        plan = ls.synthesize(long(r), TARGET)
        assert plan.kernel is not None
        if plan.kernel.stream_k:
            return plan
    raise ls.LegalSatError(f"of {MOST_DRAWN} products none is planned by stream-K; draw others in `long`")


def compared(plan: ls.GemmPlan) -> Iterator[Compared]:
    """Yield a field's name, what the plan says of it, and what the text, the launch or the program says."""
    kernel, cost, made, asked = plan.kernel, plan.cost, program(plan), plan.operator
    assert kernel is not None
    text = {name: int(value) for name, value in re.findall(r"constexpr int (\w+) = (\d+);", made.text)}
    yield "tile, text", plan.tile, (text["tile_m"], text["tile_n"], text["tile_k"])
    yield "stages, text", plan.stages, text["stages"]
    yield "cluster, text", kernel.cluster, (text["cluster_m"], text["cluster_n"])
    yield "split, text", kernel.split, text["split"]
    handed, expected = (re.findall(one, made.text) for one in (r"reg_(?:de)?alloc<(\d+)>", r"expect_tx\(.*, (\d+)\);"))
    sizes = zip((text["a_bytes"], text["b_bytes"]), kernel.aligned, strict=True)
    boxed = sum(size for size, aligned in sizes if not aligned)  # the others are brought as lines, and aligned
    sides = zip(kernel.lines, kernel.aligned, strict=True)
    lines = [one.bytes for one, aligned in sides if one is not None and aligned]
    given = (*plan.registers, *([ALIGNER_REGISTERS] if lines else []))
    yield "registers, text", given, tuple(map(int, handed))
    asked_for = [size for size in (sum(lines), boxed) if size]
    yield "expected bytes, text", asked_for, [int(size) for size in expected[: len(asked_for)]]
    words = [
        int(word, 16) for word in re.findall(r"constexpr unsigned long long [ab]_word = (0x[0-9a-f]+)ull;", made.text)
    ]
    mma = plan.mma
    assert mma is not None
    yield "descriptors, text", [0 if one is None else one.descriptor.word for one in (mma.a, mma.b)], words

    launch = made.recipes[-1 - (kernel.slices > 1)]
    yield "entry, text", True, f" {launch.entry}(" in made.text
    yield "warps, launch", plan.launch.warps, launch.threads / 32
    m, n = (asked.n, asked.m) if kernel.swapped else (asked.m, asked.n)
    tiles = math.prod(kernel.clusters(m, n)) * kernel.cluster_blocks
    yield "grid, launch", plan.launch.programs or tiles, launch.grid[0]
    yield "cluster, launch", kernel.cluster_blocks, launch.cluster[0]
    yield "shared bytes, launch", cost.shared_bytes, launch.shared
    maps = [one.map for given in launch.arguments if isinstance(given, MapsArgument) for one in given.maps]
    yield "tensor maps, launch", list(plan.tensor_maps), maps[: len(plan.tensor_maps)]
    numbers = [given.value for given in launch.arguments if isinstance(given, NumberArgument)]
    yield "extents, launch", [m, n, asked.k], numbers[:3]
    if kernel.store == "elements":
        pitches = [one.value for one in launch.arguments if isinstance(one, NumberArgument) and one.type == "i64"]
        yield "steps of C, launch", sorted(asked.c.strides), sorted(pitches[1:3])  # behind the first operand's
    yield from compared_relayouts(plan, kernel, made)
    yield from _shared_out(plan, kernel, text, made)

    yield from _proven(plan, text, boxed, asked_for, given)
    yield from _told(plan)
    yield "kernel, candidates", kernel, plan.candidates[0].kernel


def _proven(
    plan: ls.GemmPlan, text: dict[str, int], boxed: int, asked_for: list[int], given: tuple[int, ...]
) -> Iterator[Compared]:
    """Yield what the proven program says: bytes by boxes, all that are expected, and registers are the plan's."""
    kernel, cost = plan.kernel, plan.cost
    assert kernel is not None
    pipeline = plan.pipeline
    rings = {ring.name: ring for ring in pipeline.barriers}
    by_boxes = [not aligned for aligned in kernel.aligned]
    sharing = 1 + (text["cluster_n"] - 1) * by_boxes[0] + (text["cluster_m"] - 1) * by_boxes[1]
    readers = len({role.name for role in pipeline.roles if role.name.startswith("consumer")})
    yield "stages, program", plan.stages, rings["full"].stages
    yield "bytes, program", boxed, rings["full"].transaction_bytes
    yield "arrivals, program", 4 * sharing * (1 if kernel.ping_pong else readers), rings["empty"].arrivals
    yield "consumers, program", text["warpgroups"], readers
    yield "cluster, program", kernel.cluster_blocks, pipeline.cluster
    ops = [op for role in pipeline.roles for op in walk(role.body)]
    expects = [op for op in ops if isinstance(op, Expect)]
    yield "registers, program", set(given), {op.count for op in ops if isinstance(op, Registers)}
    yield (
        "expected bytes, program",
        set(asked_for),
        {max(op.bytes for op in expects if op.barrier == one) for one in {op.barrier for op in expects}},
    )
    yield (
        "loads, program",
        True,
        all(op.bytes <= text["a_bytes"] + text["b_bytes"] for op in ops if isinstance(op, Load)),
    )
    yield "multiplies, program", {"wgmma"}, {op.unit for op in ops if isinstance(op, Multiply)}
    held = sum(ring.stages * ring.bytes for ring in pipeline.buffers) + 16 * plan.stages
    yield "shared memory, program", True, held <= cost.shared_bytes
    yield "proof", True, ls.check_pipeline(plan).proven


def _told(plan: ls.GemmPlan) -> Iterator[Compared]:
    """Yield what is said of a plan, and its cost."""
    cost, said = plan.cost, str(plan)
    yield "time, print", True, f"time {duration(cost.nanoseconds)}" in re.sub(r" +", " ", said)
    yield "tile, print", True, " x ".join(map(str, plan.tile)) in said
    yield "time, candidates", cost.nanoseconds, plan.candidates[0].cost.nanoseconds


def _shared_out(plan: ls.GemmPlan, kernel: ProductKernel, text: dict[str, int], made: Program) -> Iterator[Compared]:
    """Yield whether k-tiles are shared out, and the memory through which sums are given, if they are."""
    yield "stream-K, text", kernel.stream_k, "constexpr bool stream_k = true;" in made.text
    shown = re.findall(r"^ +stream-K +(\S+ \S+) +of", str(plan), re.MULTILINE)
    yield "sums given, print", [byte_count(made.workspaces[0].bytes)] if kernel.stream_k else [], shown
    if not kernel.stream_k:
        return
    launch = made.recipes[-1]
    warps = text["warpgroups"] * WARPS
    sums = text["tile_m"] * text["tile_n"] * SUM_BYTES
    yield "least share, text", LEAST_SHARE, text["least"]
    given = [(one.bytes, one.zeroed) for one in made.workspaces]
    yield "sums given, launch", [(launch.grid[0] * sums, False), (launch.grid[0] * warps * 4, True)], given
    named = [one.operand for one in launch.arguments if isinstance(one, AddressArgument)]
    yield "sums given, arguments", [one.name for one in made.workspaces], named[-2:]


def compared_relayouts(plan: ls.GemmPlan, kernel: ProductKernel, made: Program) -> Iterator[Compared]:
    """Yield the same of what runs in front: each is a plan, of which all is compared that is of movements."""
    asked = [name.lower() for name, one in zip(kernel.operands, kernel.relayouts, strict=True) if one != "none"]
    yield "operands, relayouts", asked, [one.operand for one in plan.before]
    yield "operands, launch", asked, [one.operand for one in made.before]
    now = [nanoseconds_of(one) for one in plan.before if not one.constant]
    near = math.isclose(sum(now), plan.cost.relayouts, abs_tol=0.1 * len(now) + 0.01)
    yield "time, relayouts", True, near
    maps = dict(zip(map(str.lower, kernel.operands), source_maps(plan.operator, kernel), strict=True))
    for one, launched in zip(plan.before, made.before, strict=True):
        yield "constant, relayouts", one.constant, launched.constant
        alone, early = program(one.plan, "cute"), one.plan.beside  # brought in before the one in front of it ends
        said = replace(alone, recipes=tuple(replace(each, dependent=early or each.dependent) for each in alone.recipes))
        yield "program, relayouts", said, launched.program
        lies = launched.program.result.tensor
        pitch = max(plain(lies.strides)) * lies.dtype.bytes
        phases = max(1, kernel.slides)  # of k, each of which has every so many lines by a map of its own
        yield (
            "pitch, relayouts",
            [placed.map.global_stride for placed in maps[one.operand]],
            [(phases * pitch,)] * phases,
        )
        for name, ours, theirs in one_movement.compared(one.plan):
            yield f"{name}, relayouts", ours, theirs


def of_product(plan: ls.GemmPlan) -> list[str]:
    """Return in words of which classes a product's kernel is."""
    kernel = plan.kernel
    assert kernel is not None
    return [
        "ping-pong" if kernel.ping_pong else "overlapped" if kernel.overlapped else "cooperative",
        f"realign {kernel.realign}",
        f"C by {kernel.store}",
        *(["behind relayouts"] if plan.before else []),
        *(["stream-K"] if kernel.stream_k else []),
        "split" if kernel.split > 1 else "cluster" if kernel.cluster_blocks > 1 else "one CTA",
    ]


def of_movement(plan: ls.MovementPlan, found: Sequence[Compared]) -> list[str]:
    """Return in words of which class a movement is: its means, and who prints it."""
    printers = {name.rpartition(", ")[2] for name, *_ in found if name.startswith("grid")}
    return [f"by {plan.access.by}, printed by {' and '.join(sorted(printers)) or 'none'}"]


def of_launch(r: random.Random) -> tuple[Any, list[Compared]] | None:
    """Return the plan of a random product, batch, groups or program on a random GPU, and what is compared of it."""
    if r.random() < 0.3:
        plan = ls.synthesize(programs.drawn(r), r.choice(one_launch.TARGETS))
        return plan, list(one_launch.compared_program(plan))
    made = one_launch.planned(r.choice((drawn, long, one_launch.members))(r), r)
    return None if made is None else (made, list(one_launch.compared(made)))


def judged(piece: Piece) -> dict[str, Any] | None:
    """Return what the comparison of a random product or movement says; None if it has no plan of that kind."""
    kind, seed, number = piece
    r = random.Random(f"{seed} {number}")
    if kind == MOVEMENTS:
        moved = one_movement.drawn(r)
        if moved is None:
            return None
        found = list(one_movement.compared(moved))
        operator, classes = str(moved.operator), of_movement(moved, found)
    elif kind == LAUNCHES:
        launched = of_launch(r)
        if launched is None:
            return None
        made, found = launched
        operator, classes = str(made.operator), [f"{type(made.operator).__name__} on {made.target}"]
    else:
        plan = planned(r, shared_out=number % SHARED_OUT == 0)
        found = list(compared(plan))
        operator, classes = str(plan.operator), of_product(plan)
    differ = [{"field": name, "plan": str(one), "other": str(other)} for name, one, other in found if one != other]
    return {"number": number, "operator": operator, "classes": classes, "fields": len(found), "differ": differ}


def all_of(
    kind: str, count: int, seed: int, limits: pool.Limits = pool.ALONE, file: Path | None = None
) -> dict[str, Any]:
    """Compare so many that have a plan, print what differs, and return the counts."""
    rows: list[dict[str, Any]] = []
    late: list[str] = []
    for piece, row in pool.noted(_until(kind, count, seed, limits), file, lambda _, row: row or {}):
        if isinstance(row, Exception):
            late.append(f"{kind} {piece[-1]}: {row}")
            print(late[-1], flush=True)
        elif row is not None:
            rows.append(row)
            for one in row["differ"]:
                print(f"{row['operator']}: {one['field']}: plan {one['plan']}, else {one['other']}", flush=True)
    agree, fields = sum(not row["differ"] for row in rows), sum(row["fields"] for row in rows)
    classes = dict(sorted(Counter(one for row in rows for one in row["classes"]).items()))
    print(f"{agree} of {count} {kind} agree, in {fields} fields; {classes}")
    differ = [{kind[:-1]: row["operator"], **one} for row in rows for one in row["differ"]]
    return {kind: count, "agree": agree, "fields": fields, "classes": classes, "differ": differ, "no answer": late}


def _until(kind: str, count: int, seed: int, limits: pool.Limits) -> Iterator[tuple[Piece, Any]]:
    """Yield what comes of so many that have a plan: for each that has none there is another."""
    begun, left, over = 0, count, time.monotonic() + limits.whole
    while left:
        pieces = [(kind, seed, number) for number in range(begun, begun + left)]
        begun, left = begun + left, 0
        remaining = limits._replace(whole=over - time.monotonic())
        for piece, row in pool.done(judged, pieces, remaining, planning=True):
            left += row is None
            yield piece, row


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print and write; return 1 where anything differs, or has no answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=COUNT)
    parser.add_argument("seed", nargs="?", type=int, default=SEED)
    pool.options_of(parser)
    given = parser.parse_args(arguments)
    folder, limits = given.out or RESULTS, pool.limits_of(given)
    moved, made, launched = (
        all_of(kind, given.count, given.seed, limits, folder / f"one_plan_{kind}.jsonl")
        for kind in (MOVEMENTS, PRODUCTS, LAUNCHES)
    )
    more = {"of movements": moved, "of launches": launched}
    found = {"question": "is what is planned what runs", "target": TARGET, "seed": given.seed, **made, **more}
    (folder / "one_plan.json").write_text(json.dumps(found, indent=1) + "\n")
    return int(any(one["agree"] < given.count for one in (made, moved, launched)))


if __name__ == "__main__":
    sys.exit(main())

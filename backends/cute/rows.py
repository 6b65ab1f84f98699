"""Kernel programs as CUDA C++: a table with one row an operation, which chooses nothing.

Rows name functions of the parts beside this module (`*.cuh`), which hold what threads do by hand within an operation:
where boxes lie, instructions along k, how registers become rows of C. Waits, arrivals, loops over tiles and stages are
the program's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from legalsat.backends.known_stages import require_whole_turns
from legalsat.backends.lacking import row_of
from legalsat.errors import LegalSatError
from legalsat.plans.product_kernel import WARPGROUP
from legalsat.program import kernel as k
from legalsat.program.pipeline import (
    Advance,
    Arrive,
    At,
    AwaitGrid,
    Commit,
    Expect,
    Fence,
    LaunchDependents,
    Loop,
    Multiply,
    Read,
    Registers,
    Start,
    Store,
    Sync,
    UseSums,
    Wait,
    WaitGroup,
    Write,
)
from legalsat.program.stream_k import AddGiven, GiveSums

INDENT = "    "
# Barriers of the CTA by number, and how many consumers meet there; all of them where that is None.
NAMED = {
    "consumers": ("1", None),
    "turn {i}": ("1 + group", 2),
    "turn {other}": ("2 - group", 2),
    "rows {i}": ("3 + group", 1),
    "turned {i}": ("3 + group", 1),
}
Lines = Iterator[str]


@dataclass(frozen=True)
class Scope:
    """Where an operation stands.

    Attributes:
        program, role: that it is of. counts: of cursors whose items lie in stages that are known here, so far.
        part: of C, with the first one and by how many items each moves the cursor on.
        steps: of a k-tile that are multiplied. set: of registers for fragments.
        following: the number of the tile that the other consumer multiplies next.
    """

    program: k.KernelProgram
    role: k.KernelRole
    counts: dict[str, int] = field(default_factory=dict)
    part: tuple[str, int, int] = ("0", 0, 0)
    steps: str = "plan::steps"
    set: str = "0"
    following: str = "cta.first_tile"

    def body(self, body: k.Body) -> Lines:
        """Yield the lines of operations, in order.

        Raises:
            LegalSatError: an operation has no row.
        """
        for op in body:
            found = row_of("cute", ROWS, op)(op, self)
            yield from [found] if isinstance(found, str) else found

    def nested(self, body: k.Body, head: str, end: str = "}") -> Lines:
        """Yield a block of text, behind which cursors with known stages are in the stages in which they were."""
        before = dict(self.counts)
        yield head
        yield from (INDENT + line for line in self.body(body))
        yield end
        require_whole_turns(body, self.program, before, self.counts, "cute")

    def item(self, at: At) -> str:
        """Return the item of a ring, as the kernel knows it."""
        return {0: at.cursor, 1: f"{at.cursor}.next()"}[at.offset]

    def barrier(self, name: str, at: At) -> str:
        """Return the address of an item's barrier."""
        return f"cta.{name} + {self.item(at)}.stage"

    def of_c(self, op: Write | Read | Store | k.ReadPeers | k.StoreColumns | k.StoreSectors | k.StoreElements) -> str:
        """Return the part of C, and the stage of the buffer that it passes through, as arguments of a template."""
        part, first, by = self.part
        if isinstance(op, k.ReadPeers) or not op.at.cursor or self.program.stages(op.buffer) == 1:
            return f"{part}, 0"
        stages = self.program.stages(op.buffer)
        count = self.counts[op.at.cursor] % stages
        start = "" if first == count else f" {'+-'[first > count]} {abs(count - first)}"
        return f"{part}, ({part}{start}) % {stages}" if by == 1 else f"{part}, {count}"


def functions(program: k.KernelProgram) -> str:
    """Return the functions of a program's roles, and the kernel that calls them, as CUDA C++.

    Raises:
        LegalSatError: an operation has no row here.
    """
    lines = [line for role in program.roles for line in (*_role(Scope(program, role)), "")]
    return "\n".join([*lines, *_entry(Scope(program, program.roles[0])), ""])


def _entry(scope: Scope) -> Lines:
    program = scope.program
    shape = f" __cluster_dims__({program.ctas}, 1, 1)" if program.ctas > 1 else ""
    yield f'extern "C" __global__ void{shape} __launch_bounds__(threads, plan::ctas_per_sm)'
    yield "    product(__grid_constant__ Maps const maps, int m, int n, int k, int tiles_m, int tiles_n, int group,"
    yield "            unsigned long long a, long long a_pitch, unsigned long long c, long long c_pitch,"
    axes, grouped = program.batch, any(isinstance(op, k.FindGroups) for op in program.everybody)
    # Elements of C that lie apart have a step of their own, behind those of members.
    apart = any(isinstance(op, k.StoreElements) for role in program.roles for op in k.every(role.body))
    c_steps = [f"c_step{i}" for i in range(axes + apart)]
    more = [f", int batch{i}" for i in range(axes)] + [f", long long {name}" for name in c_steps]
    more += [", int const *ends, int groups"] if grouped else []
    of_b = any(isinstance(op, k.AlignLines | k.Phases) for role in program.roles for op in k.every(role.body))
    more += [", unsigned long long b, long long b_pitch"] if of_b else []
    sides = zip("ab", program.loose, strict=True)
    steps = [f"{name}_step{i}" for name, loose in sides if loose for i in range(axes or 1)]
    more += [f", long long {name}" for name in steps]
    more += [", unsigned long long sums, unsigned *given"] if program.stream_k else []
    yield "            float const *scale_a, float const *scale_b,"
    yield f"            unsigned long long a_hint, unsigned long long b_hint{''.join(more)}) {{"
    yield "    extern __shared__ __align__(1024) char memory[];"
    listed = [f"{{{', '.join(f'batch{i}' for i in range(axes))}}}", f"{{{', '.join(c_steps)}}}"]
    listed += ["ends, groups"] if grouped else []
    rest = f", {', '.join(listed)}" if c_steps or grouped else ""
    numbers = "m, n, k, tiles_m, tiles_n, group, a, a_pitch, c, c_pitch, scale_a, scale_b, a_hint, b_hint"
    yield f"    Sizes {'' if of_b or steps or program.stream_k else 'const '}sizes{{{numbers}{rest}}};"
    yield from ["    sizes.b = b, sizes.b_pitch = b_pitch;"] * of_b
    yield from (f"    sizes.{name[0]}_steps[{name[-1]}] = {name};" for name in steps)
    yield from ["    sizes.sums = sums, sizes.given = given;"] * program.stream_k
    yield "    Cta cta = cta_of(maps, sizes, memory);"
    yield from (INDENT + line for line in scope.nested(program.setup, "if (threadIdx.x == 0) {"))
    yield from (INDENT + line for line in scope.body(program.everybody))
    yield f"    int const number = cutlass::canonical_warp_group_idx(), thread = threadIdx.x % {WARPGROUP};"
    first = 0
    for role in program.roles:
        which = f"number - {first}" if first else "number"
        yield f"    if (number >= {first} && number < {first + role.count}) {role.name}(cta, {which}, thread);"
        first += role.count
    yield "}"


def _role(scope: Scope) -> Lines:
    role = scope.role
    ops = list(k.every(role.body))
    runtime = {op.at.cursor for op in ops if isinstance(op, Wait)}
    cursors = dict.fromkeys(op.cursor for op in ops if isinstance(op, Advance))
    scope.counts.update((name, 0) for name in cursors if name not in runtime)
    yield f"CUTLASS_DEVICE void {role.name}(Cta const &cta, int group, int thread) {{"
    yield from (f"    Ring {name};" for name in cursors if name in runtime)
    if not role.one_thread:
        yield "    int const warp = thread / warp_lanes, lane = thread % warp_lanes;"
    if any(isinstance(op, UseSums) for op in ops):
        yield "    float const scale = plan::scaled && !plan::scaled_by ? *cta.sizes.scale_a * *cta.sizes.scale_b : 1;"
        yield "    Accumulator accumulators[atoms];"
        yield "    Held held(cta.sizes);"
    yield from (INDENT + line for line in (_by_one(scope) if role.one_thread else scope.body(role.body)))
    yield "}"


def _by_one(scope: Scope) -> Lines:
    """Yield what one thread of a role does; all of them meet others, and set their registers."""
    alone: list[k.KernelOperation] = []
    for op in (*scope.role.body, None):
        if op is not None and not isinstance(op, Sync | Registers):
            alone.append(op)
            continue
        if alone:
            yield from scope.nested(tuple(alone), "if (thread == 0) {")
            alone.clear()
        if op is not None:
            yield from scope.body((op,))


def _tiles(op: k.Tiles, scope: Scope) -> Lines:
    first, step = "cta.first_tile", "cta.tile_step"
    own = f"{first} + group * {step}" if op.turns > 1 else first
    ours = f"{op.turns} * {step}" if op.turns > 1 else step
    head = f"for (int number = {own}; number < cta.tiles; number += {ours}) {{"
    if op.once:
        head = f"if (int const number = {own}; number < cta.tiles) {{"
    lines = replace(scope, following=f"number + {step}").nested(op.body, head)
    yield next(lines)
    changes = any(isinstance(one, k.Phases) for one in op.body)
    together = "" if scope.role.one_thread else "<true>"
    yield INDENT + f"Tile {'' if changes else 'const '}tile = cta.tile{together}(number);"
    yield from lines


def _k_tiles(op: k.KTiles, scope: Scope) -> Lines:
    count = f"tile.k_tiles - {op.before}" if op.before else "tile.k_tiles"
    yield f"int k_tile = {op.after};"
    if op.sets > 1:  # sets of registers are named when the text is compiled
        yield from replace(scope, set="set").nested(op.body, "auto const turn = [&](auto set) {", "};")
        turns = [f"turn(std::integral_constant<int, {(op.after + i) % op.sets}>());" for i in range(op.sets)]
        yield f"for (; k_tile + {op.sets} <= tile.k_tiles; k_tile += {op.sets}) {{"
        yield from (INDENT + turn for turn in turns)
        yield "}"
        yield from (f"if (k_tile + {i} < tile.k_tiles) {turn}" for i, turn in enumerate(turns[:-1]))
        return
    whole = f"k_tile + 1 < {count}" if op.short else f"k_tile < {count}"
    yield from scope.nested(op.body, f"for (; {whole}; ++k_tile) {{")
    if op.short:
        yield from replace(scope, steps="tile.last_steps").nested(op.body, "if (k_tile < tile.k_tiles) {")


def _phases(op: k.Phases, scope: Scope) -> Lines:
    lines = scope.nested(op.body, f"for (int phase = 1; phase < {op.count}; ++phase) {{")
    yield next(lines)
    loads = any(isinstance(one, k.LoadShare) for one in k.every(op.body))
    yield from [INDENT + "tile.lines = lines_of(cta.sizes, tile, phase);"] * loads
    yield from lines


def _parts(op: k.Parts, scope: Scope) -> Lines:
    by = sum(one.by for one in op.body if isinstance(one, Advance))
    (cursor,) = {one.cursor for one in op.body if isinstance(one, Advance)}
    if op.count > 1 and by != 1:
        raise LegalSatError(f"cute cannot tell the stages of {op.count} parts that move {cursor} on by {by} each")
    inner = replace(scope, part=("part", op.first, by))
    before = scope.counts[cursor]
    yield "each_part<" + f"{op.first}>([&](auto part) {{"
    yield from (INDENT + line for line in inner.body(op.body))
    yield f"}}, std::make_integer_sequence<int, {op.count}>());"
    scope.counts[cursor] = before + op.count * by


def _advance(op: Advance, scope: Scope) -> Lines:
    if op.cursor in scope.counts:
        scope.counts[op.cursor] += op.by
    else:
        yield from [f"{op.cursor}.advance();"] * op.by


def _wait_group(op: WaitGroup, scope: Scope) -> Lines:
    if op.family == "wgmma":
        yield f"cute::warpgroup_wait<{op.pending}>();"
        yield from ["fence(accumulators);"] * (not op.pending)
    else:
        yield f"if (lane == 0) cute::tma_store_wait<{op.pending}>();"
        yield "__syncwarp();"


def _fence(op: Fence, scope: Scope) -> list[str]:
    return {
        "mbarrier_init": ["cutlass::arch::fence_barrier_init();"],
        "wgmma": ["fence(accumulators);", "cute::warpgroup_arrive();"],
        "proxy.async": ["cute::tma_store_fence();", "__syncwarp();"],
    }[op.kind]


def _commit(op: Commit, scope: Scope) -> list[str]:
    if op.family == "bulk":
        return ["if (lane == 0) cute::tma_store_arrive();"]
    return ["cute::warpgroup_commit_batch();", "fence(accumulators);"]


def _sync(op: Sync, scope: Scope) -> Lines:
    if op.name == "block":
        yield "__syncthreads();"
    elif op.name == "cluster":
        yield from ("__syncwarp();", "cute::cluster_arrive();", "cute::cluster_wait();")
    else:
        number, groups = NAMED[op.name]
        threads = WARPGROUP * (scope.role.count if groups is None else groups)
        yield f"cutlass::arch::NamedBarrier::{'sync' if op.waits else 'arrive'}({threads}, {number});"
        if op.cursor and not op.waits:  # what the other one takes of the ring before it gives the turn back
            yield f"{op.cursor}.skip(cta.stages({scope.following}));"


def _meet_setup(op: k.MeetSetup, scope: Scope) -> list[str]:
    if scope.program.ctas == 1:
        return ["__syncthreads();"]
    return ["cute::cluster_arrive_relaxed();", "cute::cluster_wait();"]


def _write(op: Write, scope: Scope) -> str:
    if op.at.cursor in scope.counts or not op.at.cursor:
        return f"write_c<{scope.of_c(op)}>(cta, held, accumulators, group, warp, lane);"
    return f"drop_heads(cta, {scope.item(op.at)}, tile.shift, group, thread);"


def _read(op: Read | k.ReadPeers | k.StoreColumns | k.StoreSectors | k.StoreElements, scope: Scope) -> str:
    return f"read_c<{scope.of_c(op)}>(cta, held, group, warp, lane);"


def _load(op: k.LoadShare, scope: Scope) -> str:
    name = f"load_{'lines_' if op.lines else ''}{op.operand.lower()}"
    return f"{name}(cta, {scope.item(op.at)}, cta.{op.barrier}, tile, k_tile);"


def _operands(op: k.Release) -> str:
    return "" if op.operands == "AB" else f"<{', '.join(str(one in op.operands).lower() for one in 'AB')}>"


def _find_rows(op: k.FindRows, scope: Scope) -> list[str]:
    return [
        "Realigner rows[found_atoms];",
        "find_rows(rows, cta, tile, group, warp, lane);",
        "Fragments fragments[2];",
    ]


def _set(op: k.ReadRows | k.MultiplyRows, scope: Scope) -> str:
    return f"fragments[{scope.set if op.set < 0 else op.set}]"


ROWS: dict[type, Callable[[Any, Scope], str | list[str] | Lines]] = {
    k.Tiles: _tiles,
    k.KTiles: _k_tiles,
    k.Parts: _parts,
    k.Phases: _phases,
    k.SlideSums: lambda op, scope: "slide(cta, accumulators, lane);",
    k.IfLate: lambda op, scope: scope.nested(op.body, "if (tile.starts_late()) {"),
    k.IfWhole: lambda op, scope: scope.nested(op.body, f"if (tile.place {'<' if op.whole else '>='} 0) {{"),
    GiveSums: lambda op, scope: "give_sums(cta, accumulators, tile, group, warp, lane);",
    AddGiven: lambda op, scope: "add_given(cta, accumulators, tile, group, warp, lane);",
    k.Only: lambda op, scope: scope.nested(op.body, f"if (group == {op.consumer}) {{"),
    Loop: lambda op, scope: scope.nested(op.body, f"for (int turn = 0; turn < {op.trips.value({})}; ++turn) {{"),
    k.MeetSetup: _meet_setup,
    k.FindGroups: lambda op, scope: "cta.tiles = find_groups(cta);",
    AwaitGrid: lambda op, scope: 'asm volatile("griddepcontrol.wait;" ::: "memory");',
    LaunchDependents: lambda op, scope: 'asm volatile("griddepcontrol.launch_dependents;" ::: "memory");',
    k.Clear: lambda op, scope: "clear(accumulators);",
    k.FindRows: _find_rows,
    k.ReadRows: lambda op, scope: (
        f"read_rows<{op.steps[0]}>({_set(op, scope)}, rows, cta, {scope.item(op.at)}, group);"
    ),
    k.MultiplyRows: lambda op, scope: (
        f"multiply_rows<{op.steps[0]}>(accumulators, {_set(op, scope)}, cta, {scope.item(op.at)});"
    ),
    k.LoadShare: _load,
    k.AlignLines: lambda op, scope: f"align_{op.operand.lower()}(cta, {scope.item(op.at)}, tile, thread);",
    k.ClearOthers: lambda op, scope: (
        f"clear_others(cta, {scope.item(op.at)}, tile, {'tile.k_tiles - 1' if op.last else '0'}, thread);"
    ),
    k.Release: lambda op, scope: (
        f"release{_operands(op)}(cta, cta.{op.barrier}, {op.at.cursor}.{'before' if op.at.offset else 'stage'}, lane);"
    ),
    Arrive: lambda op, scope: f"if (lane == 0) ClusterBarrier::arrive({scope.barrier(op.barrier, op.at)});",
    k.ReadPeers: _read,
    k.StoreColumns: _read,
    k.StoreSectors: _read,
    k.StoreElements: _read,
    Start: lambda op, scope: next(
        f"for (int i = 0; i < {ring.stages}; ++i) ClusterBarrier::init(cta.{ring.name} + i, {ring.arrivals});"
        for ring in scope.program.barriers
        if ring.name == op.barrier
    ),
    Wait: lambda op, scope: (
        f"ClusterBarrier::wait({scope.barrier(op.barrier, op.at)}, {scope.item(op.at)}.parity{' ^ 1' * op.before});"
    ),
    Expect: lambda op, scope: (
        f"ClusterTransactionBarrier::arrive_and_expect_tx({scope.barrier(op.barrier, op.at)}, {op.bytes});"
    ),
    Multiply: lambda op, scope: f"multiply(cta, {scope.item(op.reads[0][1])}, accumulators, group, {scope.steps});",
    Commit: _commit,
    WaitGroup: _wait_group,
    Fence: _fence,
    Sync: _sync,
    Advance: _advance,
    Registers: lambda op, scope: f"cutlass::arch::warpgroup_reg_{'alloc' if op.more else 'dealloc'}<{op.count}>();",
    UseSums: lambda op, scope: [
        "scale_by(accumulators, scale, cta, tile, group, warp, lane);",
        "take(held, accumulators, tile);",
    ],
    Write: _write,
    Read: _read,
    Store: lambda op, scope: f"if (lane == 0) store_c<{scope.of_c(op)}>(cta, held, group, warp);",
}

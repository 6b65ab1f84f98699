"""Programs of products' kernels as Gluon: a table with one row an operation, which chooses nothing.

A role is a partition of `gl.warp_specialize`: four warps for each consumer, and one for the producer. Gluon says some
things with others: a multiplication fences and commits by itself, every box that is stored is a group of its own, and
who waits or arrives for a partition meets it first. What it cannot say has no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from legalsat.backends.known_stages import require_whole_turns
from legalsat.backends.lacking import Asked, row_of
from legalsat.backends.triton.types import TYPES
from legalsat.extract.kernels.kernel_program import parts_across, printed_program
from legalsat.extract.kernels.product_maps import box_columns
from legalsat.extract.moved.relayouts import BY_WORDS
from legalsat.operators.gemm import Gemm
from legalsat.plans.product_kernel import BLOCK_ROWS, WARPS, ProductKernel
from legalsat.program import kernel as k
from legalsat.program.pipeline import (
    Advance,
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

IN_FRONT = BY_WORDS  # means of relayouts in front, which an emitted module does as well
INDENT = "    "
RESULT = "C"  # which the names of buffers begin with through which C leaves
Lines = Iterator[str]


@dataclass(frozen=True)
class Scope:
    """Where an operation stands.

    Attributes:
        gemm, kernel, program: what is printed. role: that the operation is of, None of the set-up.
        counts: of cursors whose items lie in stages that are known here, so far. part: of C.
    """

    gemm: Gemm
    kernel: ProductKernel
    program: k.KernelProgram
    role: k.KernelRole | None = None
    counts: dict[str, int] = field(default_factory=dict)
    part: int = 0

    def body(self, body: k.Body) -> Lines:
        """Yield the lines of operations, in order.

        Raises:
            LegalSatError: an operation has no row.
        """
        for op in body:
            yield from row_of("triton", ROWS, op)(op, self)

    def nested(self, body: k.Body, *head: str) -> Lines:
        """Yield a block of text, behind which cursors with known stages are in the stages in which they were."""
        before = dict(self.counts)
        yield from head
        yield from (INDENT + line for line in self.body(body))
        require_whole_turns(body, self.program, before, self.counts, "triton")

    def ring(self, buffer: str) -> int:
        """Return the stages of a buffer; all consumers' own ones are alike."""
        return next(ring.stages for ring in self.program.buffers if ring.name == buffer.format(i=0))

    @property
    def across(self) -> int:
        """In how many parts 64 rows of C leave."""
        return parts_across(self.kernel, self.gemm.out_dtype.bytes)

    @property
    def readers(self) -> int:
        """Consumers of a tile."""
        return self.program.roles[0].count

    @property
    def rows(self) -> int:
        """Rows of a tile that are a consumer's."""
        return self.kernel.tile[0] // self.readers

    @property
    def parts(self) -> list[str]:
        """Names of the parts of a consumer's rows of C on their way out."""
        return [f"held_{number}" for number in range(self.rows // BLOCK_ROWS * self.across)]

    def stage(self, op: Write | Read | Store) -> int:
        """Return the stage of the buffer through which a part of C passes."""
        return self.counts.get(op.at.cursor, 0) % self.ring(op.buffer)


def _load_lacks(op: k.LoadShare, scope: Asked) -> str:
    rows, columns, _ = scope.kernel.tile
    extent = rows if op.operand == "A" else columns
    if _shares(scope):
        return "to several CTAs"  # Triton 3.6 sends to one, and arrives at no other CTA's barrier
    if op.operand == "B" and scope.kernel.loaded[1] != columns:
        return "of more columns than are multiplied"
    if extent & (extent - 1):
        return f"of {extent} rows, which is no power of 2,"
    return "by a map for each phase of rows" if scope.kernel.realign != "none" else ""


def _shares(scope: Asked) -> bool:
    """Whether CTAs share loads."""
    return scope.program.cluster[:2] != (1, 1)


def _registers_lack(op: Registers, scope: Asked) -> str:
    # Triton divides the registers of an SM among the warps of one CTA.
    return f"of {scope.kernel.blocks} CTAs on an SM" if scope.kernel.blocks > 1 else ""


def _sync_lacks(op: Sync, scope: Asked) -> str:
    if op.name == "turned {i}":  # of a partition's own warps
        return ""
    if op.name == "consumers":  # partitions meet nobody else
        return "of several consumers" if scope.program.roles[0].count > 1 else ""
    return {"cluster": "of a cluster", "block": "of all roles"}.get(op.name, "of consumers in turn")


def _write_lacks(op: Write, scope: Asked) -> str:
    if scope.kernel.store == "turned":
        return "of turned tiles"
    return "" if op.buffer.startswith(RESULT) else "of what was loaded"


def _tiles_lack(op: k.Tiles, scope: Asked) -> str:
    members = "of members" if scope.kernel.batch or scope.kernel.groups else ""
    return "of consumers in turn" if op.turns > 1 else members


def _multiply_lacks(op: Multiply, scope: Asked) -> str:
    # Triton 3.6 multiplies unsigned bytes as signed ones.
    return "" if scope.gemm.dtype.name in TYPES else f"of {scope.gemm.dtype}"


LACKS: dict[type, Callable[[Any, Asked], str]] = {
    k.LoadShare: _load_lacks,
    k.Tiles: _tiles_lack,
    Multiply: _multiply_lacks,
    UseSums: lambda op, scope: "by scales of rows" if scope.gemm.scaled == "rows" else "",
    k.KTiles: lambda op, scope: "of several sets of registers" if op.sets > 1 else "",
    k.Release: lambda op, scope: "to several CTAs" if _shares(scope) else "",
    k.ReadPeers: lambda op, scope: "of several CTAs" if scope.program.ctas > 1 else "",
    Registers: _registers_lack,
    Sync: _sync_lacks,
    Write: _write_lacks,
}


# Items of rings: stage, parity of its phase, and the stage of the item before.


def _stage(at: At) -> str:
    return f"{at.cursor}_before" if at.offset else at.cursor


def _barrier(name: str, at: At) -> str:
    return f"{name}.index({_stage(at)})"


def _advance(op: Advance, scope: Scope) -> Lines:
    if op.cursor in scope.counts:
        scope.counts[op.cursor] += op.by
        return
    for _ in range(op.by):
        yield f"{op.cursor}_before = {op.cursor}"
        yield f"{op.cursor} += 1"
        yield f"if {op.cursor} == STAGES:"
        yield f"{INDENT}{op.cursor} = 0"
        yield f"{INDENT}{op.cursor}_parity = {op.cursor}_parity ^ 1"


def _start(op: Start, scope: Scope) -> Lines:
    (ring,) = (one for one in scope.program.barriers if one.name == op.barrier)
    yield f"for stage in gl.static_range({ring.stages}):"
    yield f"{INDENT}mbarrier.init({ring.name}.index(stage), count={ring.arrivals})"


def _tiles(op: k.Tiles, scope: Scope) -> Lines:
    head = "for number in range(gl.program_id(0), tiles_m * tiles_n, gl.num_programs(0)):"
    yield from scope.nested(op.body, head, *(INDENT + line for line in TILE))


TILE = ("row, column = tile_at(number, tiles_m, tiles_n, group)", "k_tiles = gl.cdiv(k, TILE_K)")


def _k_tiles(op: k.KTiles, scope: Scope) -> Lines:
    # The last one is multiplied whole, also where it is short: the copy engine has filled it up with zeros.
    yield from scope.nested(op.body, f"for k_tile in range({op.after}, k_tiles):")


def _load(op: k.LoadShare, scope: Scope) -> Lines:
    which, first = (0, "row") if op.operand == "A" else (1, "column")
    k_first = "k_tile * TILE_K"
    place = f"{first}, {k_first}" if scope.kernel.majors[which] == "K" else f"{k_first}, {first}"
    name = op.operand
    yield f"tma_load({name.lower()}, [{place}], {_barrier(op.barrier, op.at)}, {name}.index({op.at.cursor}))"


def _multiply(op: Multiply, scope: Scope) -> Lines:
    (a, at), (b, _) = op.reads
    stage, (a_major, b_major) = _stage(at), scope.kernel.majors
    left, right = f"{a}.index({stage})", f"{b}.index({stage})"
    if scope.readers > 1:
        left += f".slice(which * {scope.rows}, {scope.rows}, {0 if a_major == 'K' else 1})"
    left += "" if a_major == "K" else ".permute((1, 0))"
    right += ".permute((1, 0))" if b_major == "K" else ""
    yield f"left = {left}"
    yield f"right = {right}"
    yield "accumulators = warpgroup_mma(left, right, accumulators, is_async=True)"


def _wait_group(op: WaitGroup, scope: Scope) -> Lines:
    if op.family == "wgmma":
        waited = f"warpgroup_mma_wait({op.pending}, deps=(accumulators,))"
        yield f"accumulators = {f'warpgroup_mma_init({waited})' if op.pending else waited}"
        return
    yield f"tma.store_wait({op.pending * WARPS})"  # every warp's box is a group
    yield "cta_barrier()"


def _fence(op: Fence, scope: Scope) -> Lines:
    if op.kind != "wgmma":  # which multiplications begin with
        yield "fence_async_shared()"
    if op.kind == "proxy.async":
        yield "cta_barrier()"


def _parts(op: k.Parts, scope: Scope) -> Lines:
    for part in range(op.first, op.first + op.count):
        yield from replace(scope, part=part).body(op.body)


def _use(op: UseSums, scope: Scope) -> Lines:
    if scope.gemm.scaled:
        yield "accumulators = accumulators * scale"
    if scope.kernel.store == "sums":
        return
    yield f"{', '.join(scope.parts)}{',' * (len(scope.parts) == 1)} = parts_of(kept(accumulators))"
    yield "held_row, held_column = row, column"


def _write(op: Write, scope: Scope) -> Lines:
    what = "accumulators" if scope.kernel.store == "sums" else f"elements({scope.parts[scope.part]})"
    yield f"C.index({scope.stage(op)}).store({what})"


def _first_row(scope: Scope) -> str:
    """Return the row of C that a part's rows are counted from."""
    later = scope.part // scope.across * BLOCK_ROWS
    own = f" + which * {scope.rows}" if scope.readers > 1 else ""
    return f"held_row{own}{f' + {later}' if later else ''}"


def _store(op: Store, scope: Scope) -> Lines:
    columns = box_columns(scope.kernel, scope.gemm.out_dtype.bytes)
    first, later = _first_row(scope), scope.part % scope.across * columns
    column = f"held_column + {later}" if later else "held_column"
    yield f"store_boxes(c, C.index({scope.stage(op)}), {first}, {column})"


def _read(op: Read, scope: Scope) -> Lines:
    half = scope.part % scope.across
    yield f"store_rows(c, C.index({scope.stage(op)}), {_first_row(scope)} + {8 * half}, held_column, m, n, pitch)"


ROWS: dict[type, Callable[[Any, Scope], Lines]] = {
    k.Tiles: _tiles,
    k.KTiles: _k_tiles,
    k.Parts: _parts,
    k.Only: lambda op, scope: scope.nested(op.body, f"if which == {op.consumer}:"),
    Loop: lambda op, scope: scope.nested(op.body, f"for turn in range({op.trips.value({})}):"),
    k.MeetSetup: lambda op, scope: iter(()),  # all warps meet as `warp_specialize` begins
    AwaitGrid: lambda op, scope: iter(["await_grid()"]),
    LaunchDependents: lambda op, scope: iter(["launch_dependents()"]),
    k.Clear: lambda op, scope: iter(["accumulators = warpgroup_mma_init(gl.zeros([ROWS, TILE_N], SUM, ACCUMULATORS))"]),
    k.LoadShare: _load,
    k.Release: lambda op, scope: iter([f"mbarrier.arrive({_barrier(op.barrier, op.at)}, count={WARPS})"]),
    k.ReadPeers: lambda op, scope: iter(["store_tile(c, C.index(0), row, column, m, n, pitch)"]),
    Start: _start,
    Wait: lambda op, scope: iter(
        [f"mbarrier.wait({_barrier(op.barrier, op.at)}, {op.at.cursor}_parity{' ^ 1' * op.before})"]
    ),
    Expect: lambda op, scope: iter([f"mbarrier.expect({_barrier(op.barrier, op.at)}, {op.bytes})"]),
    Multiply: _multiply,
    Commit: lambda op, scope: iter(()),  # multiplications and stores commit by themselves
    WaitGroup: _wait_group,
    Fence: _fence,
    Sync: lambda op, scope: iter(["cta_barrier()"]),
    Advance: _advance,
    Registers: lambda op, scope: iter(()),  # arguments of `warp_specialize`
    UseSums: _use,
    Write: _write,
    Read: _read,
    Store: _store,
}


# Functions of the roles, and the kernel.


def functions(gemm: Gemm, kernel: ProductKernel) -> str:
    """Return the functions of a program's roles, and the kernel that hands warps over to them, as Gluon.

    Raises:
        LegalSatError: an operation has no row here.
    """
    program = printed_program(kernel, gemm.out_dtype.bytes)
    scopes = [Scope(gemm, kernel, program, role) for role in program.roles]
    texts = [_role(scope) for scope in scopes]
    return "\n\n".join([*texts, _entry(Scope(gemm, kernel, program), dict(zip(program.roles, texts, strict=True)))])


def parameters(gemm: Gemm, kernel: ProductKernel) -> list[str]:
    """Return the names of the kernel's parameters, in order."""
    named = ["a", "b", "c", "m", "n", "k", "tiles_m", "tiles_n", "group"]
    return named + ["pitch"] * (kernel.store != "tma") + ["scale_a", "scale_b"] * bool(gemm.scaled)


def _role(scope: Scope) -> str:
    role = scope.role
    assert role is not None
    ops = list(k.every(role.body))
    runtime = {op.at.cursor for op in ops if isinstance(op, Wait)}
    cursors = dict.fromkeys(op.cursor for op in ops if isinstance(op, Advance))
    scope.counts.update((name, 0) for name in cursors if name not in runtime)
    lines = [f"{one} = 0" for name in cursors if name in runtime for one in (name, f"{name}_parity", f"{name}_before")]
    if not role.one_thread:
        lines += ["scale = gl.load(scale_a) * gl.load(scale_b)"] * bool(scope.gemm.scaled)
        if scope.kernel.overlapped:  # at first nothing, outside of C
            parts = f"{', '.join(scope.parts)}{',' * (len(scope.parts) == 1)}"
            lines += [f"{parts} = parts_of(kept(gl.zeros([ROWS, TILE_N], SUM, ACCUMULATORS)))"]
            lines += ["held_row, held_column = m, 0"]
    lines += scope.body(role.body)
    return _function(role.name, _used(scope, "\n".join(lines)), lines)


def _used(scope: Scope, text: str) -> list[str]:
    """Return the parameters that the text of a role names."""
    words = set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())
    names = [*parameters(scope.gemm, scope.kernel), "A", "B", "C", *(one.name for one in scope.program.barriers)]
    return [name for name in names if name in words] + ["which: gl.constexpr"] * ("which" in words)


def _function(name: str, arguments: list[str], lines: list[str]) -> str:
    return "\n".join(["@gluon.jit", f"def {name}({', '.join(arguments)}):", *(INDENT + line for line in lines), ""])


def _entry(scope: Scope, roles: dict[k.KernelRole, str]) -> str:
    program, names = scope.program, parameters(scope.gemm, scope.kernel)
    lines = [f"{name} = {_allocated(scope, name)}" for name in ("A", "B")]
    results = [ring for ring in program.buffers if ring.name.startswith(RESULT)]
    lines += [f"{ring.name} = gl.allocate_shared_memory({_result_part(scope, ring.stages)})" for ring in results]
    lines += [
        f"{ring.name} = gl.allocate_shared_memory(gl.int64, [{ring.stages}, 1], mbarrier.MBarrierLayout())"
        for ring in program.barriers
    ]
    lines += [*scope.body(program.setup + program.everybody), "gl.warp_specialize(", f"{INDENT}["]
    for role, text in roles.items():
        head = text[text.index("(") + 1 : text.index(")")]
        for number in range(role.count):
            own = {"C": results[number].name if len(results) > number else "C", "which: gl.constexpr": str(number)}
            passed = ", ".join(own.get(name, name) for name in head.split(", "))
            lines.append(f"{INDENT * 2}({role.name}, ({passed})),")
    workers = [role for role in roles for _ in range(role.count)][1:]
    registers = [next(op.count for op in role.body if isinstance(op, Registers)) for role in workers]
    warps = [1 if role.one_thread else WARPS for role in workers]
    lines += [f"{INDENT}],", f"{INDENT}{warps},", f"{INDENT}{registers},", ")"]
    numbers = ", ".join(f'"{name}"' for name in names if name not in {"a", "b", "c", "scale_a", "scale_b"})
    text = _function("product", names, lines)
    return text.replace("@gluon.jit", f"@gluon.jit(do_not_specialize=[{numbers}])", 1)


def _allocated(scope: Scope, name: str) -> str:
    one = name.lower()
    return f"gl.allocate_shared_memory({one}.dtype, [{scope.ring(name)}] + {one}.block_shape, {one}.layout)"


def _result_part(scope: Scope, stages: int) -> str:
    """Return type, shape and layout of a buffer through which C leaves."""
    rows, columns, _ = scope.kernel.tile
    if scope.kernel.store == "sums":
        return f"SUM, [{stages}, {rows}, {columns}], C_LAYOUT"
    if scope.kernel.store == "rows":
        return f"RESULT, [{stages}, {BLOCK_ROWS // scope.across}, {columns}], C_LAYOUT"
    return f"c.dtype, [{stages}, {BLOCK_ROWS}, {box_columns(scope.kernel, scope.gemm.out_dtype.bytes)}], c.layout"

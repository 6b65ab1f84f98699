"""Prints a `ProductKernel` as a standalone Python module: one Gluon kernel and a `run` for all extents of its class."""

from __future__ import annotations

from textwrap import indent

from legalsat.backends.triton.block import LANES, ProductKernel, ProductOperand
from legalsat.backends.triton.block_run import run_functions
from legalsat.backends.triton.text import RENAMED
from legalsat.backends.triton.types import TYPES

KERNEL = "product"
K_BYTES = 32  # of one instruction along K

IMPORTS = """\
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

# Names that Triton 3.9 changed: the new one where it exists, else the old one.
"""

CORNER = '''\
@gluon.jit
def corner(tile, m, n):
    """First row and column of a tile; GROUP tiles along m come one after the other, to be found in L2."""
    in_group = GROUP * gl.cdiv(n, TILE_N)
    first = tile // in_group * GROUP
    height = gl.minimum(gl.cdiv(m, TILE_M) - first, GROUP)
    within = tile % in_group
    return (first + within % height) * TILE_M, within // height * TILE_N
'''

STEP = """\
slot += 1
if slot == STAGES:
    slot = 0
    phase = phase ^ 1
"""

HALVES = '''\
@gluon.jit
def halves(words):
    """Left and right half of the columns, as each thread holds them."""
    return words.reshape([words.shape[0], 2, words.shape[1] // 2]).permute((0, 2, 1)).split()
'''

STORE_BOXES = '''\
@gluon.jit
def store_slice(c, staging, words, number: gl.constexpr, row, column):
    """Store SLICE columns by the copy engine, from one of the buffers in turn."""
    tma.store_wait(BUFFERS - 1)
    # The copy engine has read the buffer, and all threads know it.
    cta_barrier()
    buffer = staging.index(number % BUFFERS)
    buffer.store(words)
    # Threads wrote the buffer, the copy engine reads it: first every thread's fence, then a barrier of them all.
    fence_async_shared()
    cta_barrier()
    tma_store(c, [row, column + number * SLICE], buffer)
'''

STORE_WORDS = '''\
@gluon.jit
def store_slice(c, words, number: gl.constexpr, row, column, m, n, pitch):
    """Store SLICE columns by threads, neighbours by neighbours, and nothing outside C."""
    words = gl.convert_layout(words, C_LAYOUT)
    rows = row + gl.arange(0, TILE_M, gl.SliceLayout(1, C_LAYOUT))
    columns = column + number * SLICE + gl.arange(0, SLICE, gl.SliceLayout(0, C_LAYOUT))
    {known}
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    place = c + {place}
    gl.store(place, words, mask=inside)
'''


def emit(kernel: ProductKernel) -> str:
    """Return the source text of a module that needs only triton, and torch inside `run`."""
    parts = [CORNER, _load(kernel), _store(kernel), _multiply(kernel), _product(kernel)]
    if kernel.c.slice < kernel.tile[1]:
        parts.insert(2, HALVES)
    functions = "\n\n".join(parts)
    renamed = "".join(line for name, line in RENAMED.items() if f"{name}(" in functions)
    head = f"{_docstring(kernel)}\n\nfrom __future__ import annotations\n\n{IMPORTS}{renamed}\n{_constants(kernel)}"
    return f"{head}\n\n{functions}\n\n{run_functions(kernel)}"


def _docstring(kernel: ProductKernel) -> str:
    m, n, k = kernel.tile
    a, b, c = kernel.a, kernel.b, kernel.c
    out = f"boxes of {c.map.box[0]} x {c.map.box[1]}, swizzle {c.swizzle} bytes" if c.map else "masked stores"
    return "\n".join(
        (
            f'"""C = A B^T: {a.type} to {c.type}, A {a.major}-major and B {b.major}-major, of any extents.',
            "",
            f"Tiles of {m} x {n} x {k}, a ring of {kernel.stages} stages of {kernel.stage_bytes} bytes. One warp loads",
            f"by the copy engine, {kernel.warps} multiply by wgmma; blocks stay and take tile after tile.",
            f"A comes in boxes of {a.map.box[0]} x {a.map.box[1]}, swizzle {a.swizzle} bytes; B in boxes of "
            f"{b.map.box[0]} x {b.map.box[1]}, swizzle {b.swizzle}.",
            f"C goes out {c.slice} columns at a time, by {out}, while the next tile's operands come in.",
            '"""',
        )
    )


def _shared_layout(swizzle: int, size: int) -> str:
    return f"gl.NVMMASharedLayout(swizzle_byte_width={swizzle}, element_bitwidth={8 * size}, rank=2)"


def _constants(kernel: ProductKernel) -> str:
    a, b, c = kernel.a, kernel.b, kernel.c
    m, n, k = kernel.tile
    numbers = {"TILE_M": m, "TILE_N": n, "TILE_K": k, "STAGES": kernel.stages, "STAGE_BYTES": kernel.stage_bytes}
    numbers |= {"GROUP": kernel.group, "SLICE": c.slice}
    numbers |= {"BUFFERS": c.buffers} if c.map else {"VECTOR": c.vector}
    text = "".join(f"{name} = gl.constexpr({value})\n" for name, value in numbers.items())
    text += f"WARPS, BLOCKS = {kernel.warps}, {kernel.blocks}\n\n"
    text += "# Tiles in shared memory, slowest dimension first.\n"
    for side, one in (("A", a), ("B", b)):
        text += f"{side}_BLOCK, {side}_LAYOUT = {list(one.block)}, {_shared_layout(one.swizzle, one.size)}\n"
    if c.map:
        text += f"C_BLOCK, C_LAYOUT = {[m, c.slice]}, {_shared_layout(c.swizzle, c.size)}\n"
    else:
        text += f"# Which word of a slice of C each thread stores.\nC_LAYOUT = gl.constexpr({_threads(kernel)})\n"
    shape = f"[16, {kernel.instruction}, {K_BYTES // a.size}]"
    return (
        text + "# Which sums each thread keeps.\n"
        f"SUMS = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [{kernel.warps}, 1], {shape}))\n"
    )


def _threads(kernel: ProductKernel) -> str:
    """The layout with vectors along C's fastest axis, a warp's beside each other as far as a slice goes."""
    c = kernel.c
    extent = kernel.tile[0] if c.fast == 0 else c.slice
    vector = min(c.vector, extent)
    along = min(LANES, extent // vector)
    # Order of the axes: fastest first.
    vectors, lanes, warps = [vector, 1], [along, LANES // along], [1, kernel.warps]
    order = [0, 1]
    if c.fast == 1:
        vectors, lanes, warps, order = vectors[::-1], lanes[::-1], warps[::-1], order[::-1]
    return f"gl.BlockedLayout({vectors}, {lanes}, {warps}, {order})"


def _coordinate(operand: ProductOperand, first: str) -> str:
    return f"[{first}, turn * TILE_K]" if operand.major == "K" else f"[turn * TILE_K, {first}]"


def _load(kernel: ProductKernel) -> str:
    a, b = _coordinate(kernel.a, "row"), _coordinate(kernel.b, "column")
    return (
        "@gluon.jit\n"
        "def load_tiles(a, b, left, right, full, empty, m, n, turns):\n"
        '    """One warp: fill stage by stage, tile by tile."""\n'
        "    slot = 0\n    phase = 0\n"
        "    for tile in range(gl.program_id(0), gl.cdiv(m, TILE_M) * gl.cdiv(n, TILE_N), gl.num_programs(0)):\n"
        "        row, column = corner(tile, m, n)\n"
        "        for turn in range(turns):\n"
        "            # A fresh barrier lets the first round pass.\n"
        "            mbarrier.wait(empty.index(slot), phase ^ 1)\n"
        "            mbarrier.expect(full.index(slot), STAGE_BYTES)\n"
        f"            tma_load(a, {a}, full.index(slot), left.index(slot))\n"
        f"            tma_load(b, {b}, full.index(slot), right.index(slot))\n" + indent(STEP, " " * 12)
    )


def _store(kernel: ProductKernel) -> str:
    c = kernel.c
    if c.map:
        return STORE_BOXES
    name = "n" if c.fast == 1 else "m"
    if c.vector > 1:
        known = f"{name} = {name} // VECTOR * VECTOR  # as it is, which shows the compiler what it is a multiple of"
    else:
        known = ""
    slow, fast = ("rows", "columns[None, :]") if c.fast == 1 else ("columns", "rows[:, None]")
    spread = "[:, None]" if c.fast == 1 else "[None, :]"
    place = f"{slow}.to(gl.int64){spread} * (pitch * VECTOR) + {fast}"
    return STORE_WORDS.replace("    {known}\n", f"    {known}\n" if known else "").replace("{place}", place)


def _multiply(kernel: ProductKernel) -> str:
    a, b, c = kernel.a, kernel.b, kernel.c
    tiles = [
        "left_tile = left.index(slot)" + (".permute((1, 0))" if a.major == "MN" else ""),
        "right_tile = right.index(slot)" + (".permute((1, 0))" if b.major == "K" else ""),
    ]
    sums = f"gl.{TYPES[kernel.sums][1]}"
    arguments = "c, staging" if c.map else "c"
    more = "m, n, turns" if c.map else "m, n, turns, pitch"
    extents = "" if c.map else ", m, n, pitch"
    lines = [
        "sums = gl.zeros([TILE_M, TILE_N], " + sums + ", SUMS)",
        "mbarrier.wait(full.index(slot), phase)",
        *tiles,
        "sums = warpgroup_mma(left_tile, right_tile, sums, use_acc=False, is_async=True)",
        "sums = warpgroup_mma_wait(1, deps=(sums,))",
        "before = slot",
        *STEP.splitlines(),
        "for turn in range(1, turns):",
        "    mbarrier.wait(full.index(slot), phase)",
        *(f"    {line}" for line in tiles),
        "    sums = warpgroup_mma(left_tile, right_tile, sums, is_async=True)",
        "    # One multiplication stays in flight; the one before it has read its stage.",
        "    sums = warpgroup_mma_wait(1, deps=(sums,))",
        "    mbarrier.arrive(empty.index(before))",
        "    before = slot",
        *(f"    {line}" for line in STEP.splitlines()),
        "sums = warpgroup_mma_wait(0, deps=(sums,))",
        "mbarrier.arrive(empty.index(before))",
        "# From here on the next tile comes in.",
        "row, column = corner(tile, m, n)",
        *_narrowed(kernel),
    ]
    names, count = ["words0"], 1
    while count * c.slice < kernel.tile[1]:
        count *= 2
        halved = [f"words{i}" for i in range(count)]
        lines += [
            f"{halved[2 * i]}, {halved[2 * i + 1]} = halves({name})" for i, name in reversed(list(enumerate(names)))
        ]
        names = halved
    lines += [f"store_slice({arguments}, {name}, {i}, row, column{extents})" for i, name in enumerate(names)]
    return (
        "@gluon.jit\n"
        f"def multiply_tiles({arguments}, left, right, full, empty, {more}):\n"
        '    """Warpgroups: multiply the stages of a tile, then store its sums."""\n'
        "    slot = 0\n    phase = 0\n"
        "    for tile in range(gl.program_id(0), gl.cdiv(m, TILE_M) * gl.cdiv(n, TILE_N), gl.num_programs(0)):\n"
        + indent("\n".join(lines) + "\n", " " * 8)
        + ("    tma.store_wait(0)\n" if c.map else "")
    )


def _narrowed(kernel: ProductKernel) -> list[str]:
    """Lines that make elements of C of sums; integers saturate, as conversions to 8-bit floats do by themselves."""
    name = TYPES[kernel.c.type][1]
    if kernel.c.type == kernel.sums:
        return ["words0 = sums"]
    if kernel.c.type == "i8":
        return [f"words0 = gl.minimum(gl.maximum(sums, -128), 127).to(gl.{name})"]
    return [f"words0 = sums.to(gl.{name})"]


def _product(kernel: ProductKernel) -> str:
    c = kernel.c
    parameters = ["m", "n", "k"] + ([] if c.map else ["pitch"])
    extra = ", staging" if c.map else ""
    more = "" if c.map else ", pitch"
    staging = "    staging = gl.allocate_shared_memory(c.dtype, [BUFFERS] + c.block_shape, c.layout)\n" if c.map else ""
    unspecialised = ", ".join(f'"{name}"' for name in parameters)
    return (
        f"@gluon.jit(do_not_specialize=[{unspecialised}])\n"
        f"def {KERNEL}(a, b, c, {', '.join(parameters)}):\n"
        "    turns = gl.maximum(gl.cdiv(k, TILE_K), 1)\n"
        "    left = gl.allocate_shared_memory(a.dtype, [STAGES] + a.block_shape, a.layout)\n"
        "    right = gl.allocate_shared_memory(b.dtype, [STAGES] + b.block_shape, b.layout)\n"
        + staging
        + "    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())\n"
        "    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())\n"
        "    for slot in gl.static_range(STAGES):\n"
        "        mbarrier.init(full.index(slot), count=1)\n"
        "        mbarrier.init(empty.index(slot), count=1)\n"
        "    fence_async_shared()\n"
        "    gl.warp_specialize(\n"
        "        [\n"
        f"            (multiply_tiles, (c{extra}, left, right, full, empty, m, n, turns{more})),\n"
        "            (load_tiles, (a, b, left, right, full, empty, m, n, turns)),\n"
        "        ],\n"
        "        [1],\n"
        f"        [{kernel.loaders}],\n"
        "    )\n"
    )

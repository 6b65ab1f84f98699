"""The text of a product's kernel: the plan's constants, functions that its operations name, its program, row by row.

Extents are arguments: one text serves all products of a class, so that it is compiled once.
"""

from __future__ import annotations

from legalsat.backends.lacking import require_rows
from legalsat.backends.triton.product_rows import functions
from legalsat.backends.triton.product_run import run_functions
from legalsat.backends.triton.text import RENAMED
from legalsat.backends.triton.types import TYPES
from legalsat.extract.kernels.kernel_program import parts_across
from legalsat.extract.kernels.product_maps import STORE_ROWS, box_columns, result_lies
from legalsat.operators.gemm import Gemm, sums_of
from legalsat.plans.product_kernel import BLOCK_ROWS, WARPS, ProductKernel

KERNEL = "product"
LANES = 32
ROW_LANES = 16  # side by side of a row: fewer rows of C are a thread's, each of which takes registers
K_BYTES = 32  # of one instruction along K

IMPORTS = """\
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_init, warpgroup_mma_wait
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

# Names that Triton 3.9 changed: the new one where it exists, else the old one.
"""

TILE_AT = '''\
@gluon.jit
def tile_at(number, tiles_m, tiles_n, group):
    """First row and column of a tile; `group` tiles along m come one after the other, to be found in L2."""
    strip = group * tiles_n
    first = number // strip * group
    height = gl.minimum(tiles_m - first, group)
    return (first + number % strip % height) * TILE_M, number % strip // height * TILE_N
'''

LAUNCH_DEPENDENTS = '''\
@gluon.jit
def launch_dependents():
    """Let a kernel behind this one that waits by itself be brought in from here on."""
    does: gl.constexpr = "griddepcontrol.launch_dependents; // $0"
    gl.inline_asm_elementwise(does, "=r", [], dtype=gl.int32, is_pure=False, pack=1)
'''

AWAIT_GRID = '''\
@gluon.jit
def await_grid():
    """Wait until what kernels in front have written is there."""
    gl.inline_asm_elementwise("griddepcontrol.wait; // $0", "=r", [], dtype=gl.int32, is_pure=False, pack=1)
'''

KEPT_PAIRS = '''\
@gluon.jit
def kept(accumulators):
    """Pairs of neighbours as C's type, the first one low. The assembler moves single conversions ahead of waits."""
    pairs: gl.constexpr = [accumulators.shape[0], accumulators.shape[1] // 2, 2]
    low, high = accumulators.reshape(pairs).split()
    convert: gl.constexpr = "{convert} $0, $2, $1;"
    return gl.inline_asm_elementwise(convert, "=r,f,f", [low, high], dtype=gl.int32, is_pure=False, pack=1)


@gluon.jit
def elements(pairs):
    """Elements of C of what was kept of them."""
    both = gl.join((pairs & 0xFFFF).to(gl.int16), (pairs >> 16).to(gl.int16))
    return both.reshape([pairs.shape[0], 2 * pairs.shape[1]]).to(RESULT, bitcast=True)
'''

KEPT_BYTES = '''\
@gluon.jit
def kept(accumulators):
    """Four neighbours in registers as bytes of C's type, the first one low; what is beyond its numbers saturates."""
    convert: gl.constexpr = (
{convert}
    )
    kinds: gl.constexpr = "=r,{kind},{kind},{kind},{kind}"
    return gl.inline_asm_elementwise(convert, kinds, [accumulators], dtype=gl.int8, is_pure=False, pack=4)


@gluon.jit
def elements(words):
    """Elements of C of what was kept of them."""
    return words.to(RESULT, bitcast=True)
'''

KEPT_INTEGERS = '''\
@gluon.jit
def kept(accumulators):
    """C's elements are accumulators as they are, copied here: the compiler would do so behind the next one's fence."""
    return gl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [accumulators], dtype=gl.int32, is_pure=False, pack=1)


@gluon.jit
def elements(words):
    """Elements of C of what was kept of them."""
    return words
'''

KEPT = '''\
@gluon.jit
def kept(accumulators):
    """C's elements are accumulators as they are."""
    return accumulators


@gluon.jit
def elements(words):
    """Elements of C of what was kept of them."""
    return words
'''
CONVERT = {"bf16": "cvt.rn.bf16x2.f32", "fp16": "cvt.rn.f16x2.f32"}
_FLOATS = """\
        "{ .reg .b16 low, high; cvt.rn.satfinite.TYPEx2.f32 low, $2, $1; "
        "cvt.rn.satfinite.TYPEx2.f32 high, $4, $3; mov.b32 $0, {low, high}; }"\
"""
_INTEGERS = """\
        "{ .reg .b32 high; cvt.pack.sat.s8.s32.b32 high, $4, $3, 0; "
        "cvt.pack.sat.s8.s32.b32 $0, $2, $1, high; }"\
"""
BYTES = {**{name: (_FLOATS.replace("TYPE", name), "f") for name in ("e4m3", "e5m2")}, "i8": (_INTEGERS, "r")}
# Columns of an instruction on integers: Triton knows no 256, and a tile's is halved.
MOST_COLUMNS = {"i32": 128}

ACROSS = '''\
@gluon.jit
def across(words):
    """Left and right half of the columns, as each thread holds them."""
    return words.reshape([words.shape[0], 2, words.shape[1] // 2]).permute((0, 2, 1)).split()
'''

DOWN = '''\
@gluon.jit
def down(words):
    """Upper and lower half of the rows, as each thread holds them."""
    return words.reshape([2, words.shape[0] // 2, words.shape[1]]).permute((1, 2, 0)).split()
'''

EIGHTS = '''\
@gluon.jit
def eights(words):
    """The first and the second 8 of each 16 rows, which are a warp's, as each thread holds them."""
    first, second = words.reshape([4, 2, 8, words.shape[1]]).permute((0, 2, 3, 1)).split()
    return first.reshape([32, words.shape[1]]), second.reshape([32, words.shape[1]])
'''

STORE_BOXES_TEXT = '''\
@gluon.jit
def store_boxes(c, buffer, row, column):
    """Store a part of C by the copy engine: a box for the rows of each warp, which Triton makes a group of its own."""
    for warp in gl.static_range({warps}):
        tma_store(c, [row + {rows} * warp, column], buffer.slice({rows} * warp, {rows}))
'''

STORE_ROWS_TEXT = '''\
@gluon.jit
def store_rows(c, buffer, first, column, m, n, pitch):
    """Store 8 rows of each warp, and nothing outside C."""
    words = buffer.load(C_THREADS)
    number = gl.arange(0, words.shape[0], gl.SliceLayout(1, C_THREADS))
    rows = first + number // 8 * 16 + number % 8
    columns = column + gl.arange(0, words.shape[1], gl.SliceLayout(0, C_THREADS))
    place = c + (rows.to(gl.int64) * pitch)[:, None] + columns[None, :]
    gl.store(place, words, mask=(rows < m)[:, None] & (columns < n)[None, :])
'''

STORE_TILE_TEXT = '''\
@gluon.jit
def store_tile(c, buffer, row, column, m, n, pitch):
    """Store a tile of accumulators, and nothing outside C."""
    words = {words}
    rows = row + gl.arange(0, words.shape[0], gl.SliceLayout(1, C_THREADS))
    columns = column + gl.arange(0, words.shape[1], gl.SliceLayout(0, C_THREADS))
    place = c + {place}
    gl.store(place, words, mask=(rows < m)[:, None] & (columns < n)[None, :])
'''
PLACES = {
    False: "(rows.to(gl.int64) * pitch)[:, None] + columns[None, :]",
    True: "rows[:, None] + (columns.to(gl.int64) * pitch)[None, :]",
}


def emit(gemm: Gemm, kernel: ProductKernel) -> str:
    """Return the source text of a module that needs only triton, and torch inside `run`.

    Args:
        gemm: the product, of which the types and how C lies matter here.
        kernel: how it is computed.

    Raises:
        LegalSatError: an operation of the kernel's program has no row here.
    """
    require_rows("triton", gemm, kernel)
    parts = [TILE_AT, AWAIT_GRID, LAUNCH_DEPENDENTS, *_result_functions(gemm, kernel), functions(gemm, kernel)]
    text = "\n\n".join(parts)
    renamed = "".join(line for name, line in RENAMED.items() if f"{name}(" in text)
    head = f"{_docstring(gemm, kernel)}\n\nfrom __future__ import annotations\n\n{IMPORTS}{renamed}"
    return f"{head}\n{_constants(gemm, kernel)}\n\n{text}\n\n{run_functions(gemm, kernel)}"


def _docstring(gemm: Gemm, kernel: ProductKernel) -> str:
    (a, b), out = kernel.majors, gemm.out_dtype
    ways = {"tma": "boxes", "rows": "rows, by threads", "sums": "a tile in shared memory, by threads"}
    before = [
        f"{name} is a copy: {'padded' if first == 'pad' else 'transposed'} to rows of whole 16 bytes."
        for name, first in zip(kernel.operands, kernel.relayouts, strict=True)
        if first != "none"
    ]
    what = "C = A B^T" if not kernel.swapped else "C^T = B A^T"
    return "\n".join(
        (
            f'"""{what}: {gemm.dtype} to {out}, first operand {a}-major, second {b}-major, of any extents.',
            "",
            f"{kernel}.",
            f"C leaves by {ways[kernel.store]}.",
            *before,
            '"""',
        )
    )


def operand_block(kernel: ProductKernel, which: int) -> list[int]:
    """Return a tile of the kernel's A (0) or B (1) as Triton's descriptor has it, slowest first."""
    tile = [kernel.tile[which], kernel.tile[2]]
    return tile if kernel.majors[which] == "K" else tile[::-1]


def result_block(gemm: Gemm, kernel: ProductKernel) -> list[int]:
    """Return a box of C as Triton's descriptor has it, slowest first."""
    return [STORE_ROWS, box_columns(kernel, gemm.out_dtype.bytes)]


def shared_layout(swizzle: int, size: int) -> str:
    """Return the layout of a box in shared memory: its swizzle's span and an element, in bytes."""
    return f"gl.NVMMASharedLayout(swizzle_byte_width={swizzle}, element_bitwidth={8 * size}, rank=2)"


def _constants(gemm: Gemm, kernel: ProductKernel) -> str:
    (m, n, k), size = kernel.tile, gemm.dtype.bytes
    rows = m // kernel.warpgroups
    numbers = {"TILE_M": m, "TILE_N": n, "TILE_K": k, "STAGES": kernel.stages, "ROWS": rows}
    text = "".join(f"{name} = gl.constexpr({value})\n" for name, value in numbers.items())
    text += f"RESULT = gl.constexpr(gl.{TYPES[gemm.out_dtype.name][1]})\n"
    text += f"SUM = gl.constexpr(gl.{TYPES[sums_of(gemm.dtype).name][1]})\n"
    text += f"WARPS, CTAS, GROUP = {WARPS}, {kernel.blocks}, {kernel.group}\n\n"
    text += "# Tiles in shared memory, slowest dimension first.\n"
    for which, name in enumerate("AB"):
        text += f"{name}_BLOCK, {name}_LAYOUT = {operand_block(kernel, which)}, {shared_layout(128, size)}\n"
    text += _result_constants(gemm, kernel)
    sums = sums_of(gemm.dtype).name
    shape = f"[16, {min(n, MOST_COLUMNS.get(sums, n))}, {K_BYTES // size}]"
    text += "# Which elements of the accumulator each thread of a consumer keeps.\n"
    return text + f"ACCUMULATORS = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [{WARPS}, 1], {shape}))\n"


def _result_constants(gemm: Gemm, kernel: ProductKernel) -> str:
    size, columns = gemm.out_dtype.bytes, kernel.tile[1]
    if kernel.store == "tma":
        rows, wide = result_block(gemm, kernel)
        layout = shared_layout(wide * size, size)
        return f"C_BLOCK, C_LAYOUT = {[rows, wide]}, {layout}\n"
    along_rows = kernel.store == "sums" and result_lies(gemm, kernel)[0]
    order, fast = ([0, 1], kernel.tile[0]) if along_rows else ([1, 0], columns)
    held = 4 if kernel.store == "sums" else size
    vector = 16 // held
    swizzle = f"gl.SwizzledSharedLayout({vector}, 1, {min(8, max(1, fast // vector))}, {order})"
    along = min(ROW_LANES if kernel.store == "rows" else LANES, fast)
    each, lanes, warps = [1, 1], [LANES // along, along], [WARPS, 1]
    if along_rows:
        lanes, warps = lanes[::-1], warps[::-1]
    elif kernel.store == "rows":  # a warp's own
        each = [8 * along // LANES, 1]
    threads = f"gl.BlockedLayout({each}, {lanes}, {warps}, {order})"
    return (
        f"C_LAYOUT = gl.constexpr({swizzle})\nC_THREADS = gl.constexpr({threads})  # which words each thread stores\n"
    )


def _result_functions(gemm: Gemm, kernel: ProductKernel) -> list[str]:
    """Return the functions through which an accumulator becomes C."""
    if kernel.store == "sums":
        words = "buffer.load(C_THREADS)"
        if gemm.out_dtype.name == "i8":  # conversions to floats saturate by themselves
            words = f"gl.minimum(gl.maximum({words}, -128), 127)"
        place = PLACES[result_lies(gemm, kernel)[0]]
        return [STORE_TILE_TEXT.replace("{place}", place).replace("{words}", f"{words}.to(RESULT)")]
    blocks, many = kernel.tile[0] // kernel.warpgroups // BLOCK_ROWS, parts_across(kernel, gemm.out_dtype.bytes)
    lines, names = [], ["words"]
    by_rows = kernel.store == "rows"
    for function, count in (("down", blocks), ("eights" if by_rows else "across", many)):
        begin, target = len(names), len(names) * count
        while len(names) < target:
            halves = [f"{name}{i}" for name in names for i in range(2)]
            lines += [f"{halves[2 * i]}, {halves[2 * i + 1]} = {function}({name})" for i, name in enumerate(names)]
            names = halves
        assert len(names) == begin * count
    text = "\n".join(f"    {line}" for line in (*lines, f"return {', '.join(names)}{',' * (len(names) == 1)}"))
    split = f'@gluon.jit\ndef parts_of(words):\n    """A consumer\'s rows of C as the parts that leave."""\n{text}\n'
    used = [one for name, one in (("down", DOWN), ("across", ACROSS), ("eights", EIGHTS)) if f" {name}(" in split]
    convert = CONVERT.get(gemm.out_dtype.name)
    kept = KEPT_PAIRS.replace("{convert}", convert) if convert else KEPT
    if gemm.out_dtype.name == "i32":
        kept = KEPT_INTEGERS
    if (of_bytes := BYTES.get(gemm.out_dtype.name)) is not None:
        kept = KEPT_BYTES.replace("{convert}", of_bytes[0]).replace("{kind}", of_bytes[1])
    boxes = _filled(STORE_BOXES_TEXT, {"warps": WARPS, "rows": STORE_ROWS})
    return [kept, *used, split, STORE_ROWS_TEXT if by_rows else boxes]


def _filled(text: str, numbers: dict[str, int]) -> str:
    for name, number in numbers.items():
        text = text.replace(f"{{{name}}}", str(number))
    return text

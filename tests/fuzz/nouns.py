"""Good arguments: a draw for each noun of the library, small enough that calls are quick."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from random import Random
from typing import Any

import numpy as np

import legalsat as ls
from bench.kernels.example_pipelines import EXAMPLES
from bench.kernels.pipeline_mutants import mutants
from legalsat.analyses.banks.bank_wavefronts import shared_access
from legalsat.dtypes import DTYPES
from legalsat.layout.int_tuple import Basis
from legalsat.options import MAJORS, Major
from legalsat.units import tcgen05, tensor_memory
from legalsat.units.tensor_memory_layouts import repetitions

from .draw import Draw

OPS = tuple(
    f"{name}{more}"
    for name in ("ld.shared.b32", "ldmatrix.x1", "ldmatrix.x2", "ldmatrix.x4", "ldmatrix.x4.trans", "st.shared.b32")
    for more in ("",)
)
SWIZZLES = ("none", "32B", "64B", "128B")
GPUS = ("h200", "h200", "h200", "sm_90a", "b200", "a100", "rtx5090", "mi300x")
EXTENTS = (1, 1, 2, 3, 4, 7, 8, 16, 31, 64, 100, 128, 256, 257, 1000, 4095, 4096)
NAMES = ("M", "K", "N")


def one(*values: Any) -> Draw:
    """Draw one of these."""
    return lambda r: r.choice(values)


def some(draw: Draw, least: int = 0, most: int = 4) -> Draw:
    """Draw a tuple of some drawn values."""
    return lambda r: tuple(draw(r) for _ in range(r.randint(least, most)))


def of(low: int, high: int) -> Draw:
    """Draw an integer."""
    return lambda r: r.randint(low, high)


def of_pool(name: str) -> Draw:
    """Draw one of a few results of slow functions; which, and of what, is the same in every process."""
    return lambda r: r.choice(pool(name))


# --- layouts ---


def _tree(leaf: Draw, r: Random, depth: int) -> Any:
    if depth == 0 or r.random() < 0.5:
        return leaf(r)
    return tuple(_tree(leaf, r, depth - 1) for _ in range(r.randint(1, 3)))


def _filled(tree: Any, leaf: Callable[[], int]) -> Any:
    return tuple(_filled(item, leaf) for item in tree) if isinstance(tree, tuple) else leaf()


def layout(r: Random) -> ls.Layout:
    """Draw a layout of at most a few thousand elements: compact, padded, repeating or stepping back."""
    shape = _tree(one(1, 2, 2, 3, 4, 4, 5, 8), r, r.choice((1, 2, 2, 3)))
    if ls.size(shape) > 2048:
        shape = r.choice((4, (4, 8), ((2, 2), 3)))
    if r.random() < 0.4:
        return ls.Layout(shape)
    strides = one(0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 64, -1) if r.random() < 0.5 else one(1, 2, 4, 8, 16, 32)
    return ls.Layout(shape, _filled(shape, lambda: strides(r)))


def powers(r: Random) -> ls.Layout:
    """Draw a compact layout whose extents are powers of two."""
    shape = tuple(r.choice((1, 2, 4, 8)) for _ in range(r.randint(1, 3)))
    strides, step = [0] * len(shape), 1
    for at in r.sample(range(len(shape)), len(shape)):
        strides[at] = step
        step *= shape[at]
    return ls.Layout(shape, tuple(strides))


def swizzle(r: Random) -> ls.Swizzle:
    """Draw a swizzle."""
    return ls.Swizzle(r.randint(0, 3), r.randint(0, 5), r.choice((3, 3, 4, -3, 5)))


def composed(r: Random) -> ls.ComposedLayout:
    """Draw a swizzled layout."""
    return ls.ComposedLayout(swizzle(r), r.choice((0, 0, 64)), layout(r))


def any_layout(r: Random) -> Any:
    """Draw a layout, swizzled or not."""
    return layout(r) if r.random() < 0.8 else composed(r)


def tiler(r: Random) -> Any:
    """Draw what divides: a layout, extents, or a layout for each mode."""
    return r.choice((layout(r), ls.Layout(r.choice((2, 4))), (2, 2), 4, (ls.Layout(2), ls.Layout(2, 4))))


def linear(r: Random) -> ls.LinearLayout:
    """Draw a linear layout of registers, lanes and warps, or of bits of any kind."""
    bits = r.randint(1, 6)
    size = 1 << bits
    if r.random() < 0.3:
        return ls.LinearLayout.identity(size, "index", "offset")
    vectors = [(1 << i,) for i in range(bits)] if r.random() < 0.6 else [(r.randrange(size),) for _ in range(bits)]
    r.shuffle(vectors)
    cut = r.randint(0, bits)
    return ls.LinearLayout({"register": vectors[:cut], "lane": vectors[cut:]}, {"offset": size})


def registers(r: Random) -> Any:
    """Draw which elements of a tile of 256 to 2048 the registers of 32 lanes hold."""
    each = r.choice((1, 2, 4, 8))
    if r.random() < 0.5:
        return ls.Layout((32, each), (each, 1))
    bits = each.bit_length() - 1
    held = [(1 << i,) for i in range(bits)]
    return ls.LinearLayout(
        {"register": held, "lane": [(1 << i,) for i in range(bits, bits + 5)]}, {"offset": each * 32}
    )


# --- tensors and operators ---


def extent(r: Random) -> int:
    """Draw an extent in elements."""
    return r.choice(EXTENTS) if r.random() < 0.7 else r.randint(1, 5000)


def dtype(r: Random) -> str:
    """Draw an element type's name."""
    return r.choice(("bf16", "bf16", "u8", "fp32", "e4m3", *DTYPES))


def tensor(r: Random) -> ls.Tensor:
    """Draw a tensor without dims: dense, padded, permuted, broadcast; small or large."""
    rank = r.choice((1, 2, 2, 2, 3, 3, 4, 5))
    shape = [extent(r) if rank < 4 else r.choice(EXTENTS[:12]) for _ in range(rank)]
    align = r.choice((256, 256, 256, 128, 16, 8))
    if r.random() < 0.5:
        return ls.Tensor(shape, dtype(r), None, align)
    strides, step = [0] * rank, 1
    order = list(range(rank))[::-1] if r.random() < 0.7 else r.sample(range(rank), rank)
    for axis in order:
        strides[axis] = 0 if r.random() < 0.03 else step
        step = step * shape[axis] + r.choice((0, 0, 0, 1, 8))
        step = -(-step // 8) * 8 if r.random() < 0.4 else step
    return ls.Tensor(shape, dtype(r), strides, align)


def dim(r: Random) -> ls.Dim:
    """Draw a symbolic extent."""
    return ls.Dim(r.choice(NAMES), r.choice((1, 1, 2, 8, 16)), r.choice((1, 1, 16)), r.choice((64, 512, 4096, 2**20)))


def open_tensor(r: Random) -> ls.Tensor:
    """Draw a tensor with one or two dims."""
    names = r.sample(NAMES, 2)
    last = ls.Dim(names[0], r.choice((1, 8, 16)), 1, r.choice((512, 4096)))
    first = ls.Dim(names[1], 1, 1, 4096) if r.random() < 0.3 else r.choice((16, 64, 100))
    return ls.Tensor((first, last) if r.random() < 0.7 else (last,), r.choice(("bf16", "u8", "fp32")))


def tile(r: Random, rank: int | None = None) -> Any:
    """Draw a tile, of a rank or any."""
    count = r.choice((1, 2, 2, 3)) if rank is None else rank
    return None if r.random() < 0.4 else tuple(r.choice((1, 8, 16, 32, 64, 64, 128)) for _ in range(count))


def movement(r: Random) -> Any:
    """Draw a copy, a transpose, a pad or a convolution's windows."""
    source = tensor(r)
    how = r.randrange(6)
    if how < 2:
        return ls.Copy(source, tile=tile(r, source.rank), consumer=r.choice((None, None, "threads", "wgmma.a")))
    if how < 4 and source.rank > 1:
        order = tuple(r.sample(range(source.rank), source.rank))
        return ls.Transpose(source, order if r.random() < 0.6 else None)
    if how == 4:
        return ls.Pad(source, [(r.choice((0, 0, 1)), r.choice((0, 1, 3, 8))) for _ in range(source.rank)])
    if how == 5:
        side = r.choice((8, 14, 32))
        image = ls.Tensor((r.choice((1, 2)), side, side, r.choice((8, 64))), "bf16")
        return ls.Im2col(image, (r.choice((1, 3)),) * 2, stride=r.choice((1, 2)), padding=r.choice((0, 1)))
    return ls.Copy(source)


def gemm(r: Random) -> ls.Gemm:
    """Draw a product."""
    m, n, k = (r.choice((1, 16, 64, 127, 128, 256, 1000, 4095, 4096)) for _ in range(3))
    dtype = r.choice(("bf16", "bf16", "fp16", "e4m3", "fp32"))
    batch = r.choice(((), (), (), (1,), (3,), (2, 4)))
    return ls.Gemm(m, n, k, dtype, batch=batch)


def grouped(r: Random) -> ls.GroupedGemm:
    """Draw a product of groups of rows."""
    m, n, k = (r.choice((1, 16, 64, 127, 128, 1000)) for _ in range(3))
    return ls.GroupedGemm(m, n, k, r.choice(("bf16", "fp16", "e4m3")), groups=r.choice((1, 3, 8)))


def value(r: Random) -> ls.Value:
    """Draw a matrix of a program: an input, or what is made of one."""
    rows, columns = (r.choice((1, 8, 17, 64)) for _ in range(2))
    found = ls.Value(
        r.choice("xyz"), ls.Tensor((rows, columns), r.choice(("bf16", "bf16", "e4m3"))), constant=r.random() < 0.3
    )
    made = (found, found.T, found[:, : max(1, columns // 2)], found.pad(((0, 0), (1, 7))), found.concat(found))
    return r.choice(made)


def several(r: Random) -> ls.Program:
    """Draw a program of a few steps."""
    one = value(r)
    again = one.product(one)
    return ls.Program(
        **r.choice(({"a": again}, {"a": again, "b": again.T[:, :1]}, {"a": one.T.product(one.T).pad(((1, 0), (0, 0)))}))
    )


def attention(r: Random) -> ls.Attention:
    """Draw an attention."""
    heads, keys = r.choice((1, 4, 8)), r.choice((1, 128, 1000))
    return ls.Attention(r.choice((1, 2)), heads, r.choice((1, 128)), keys, r.choice((64, 65, 128)), "bf16")


# --- hardware ---


def tensor_map(r: Random) -> ls.TensorMap:
    """Draw a tensor map, legal or not quite, whose box is small."""
    name, size = r.choice((("bf16", 2), ("bf16", 2), ("u8", 1), ("f32", 4), ("f64", 8), ("tf32", 4)))
    rank = r.choice((1, 2, 2, 2, 3, 3, 4, 5))
    dims = [r.choice((8, 16, 64, 64, 100, 256, 1000)), *(r.choice((1, 3, 8, 64, 100)) for _ in range(rank - 1))]
    strides, step = [], dims[0] * size
    for extent_ in dims[1:]:
        step = -(-step // 16) * 16 + r.choice((0, 0, 0, 16, 4))
        strides.append(step)
        step *= extent_
    mode = r.choice(SWIZZLES)
    span = {"none": 64, "32B": 32, "64B": 64, "128B": 128}[mode]
    common: dict[str, Any] = {"swizzle": mode, "oob_fill": r.choice(("zero", "zero", "zero", "nan"))}
    common |= {"address": r.choice((0, 256, 4096)), "element_stride": (r.choice((1, 1, 1, 2)),) + (1,) * (rank - 1)}
    if rank >= 3 and r.random() < 0.2:
        corners = {side: (r.choice((0, 0, -1)),) * (rank - 2) for side in ("lower_corner", "upper_corner")}
        common |= corners | {"mode": "im2col", "channels": max(1, span // size), "pixels": r.choice((8, 16, 64))}
        return ls.TensorMap(name, tuple(dims), tuple(strides), **common)
    box = (max(1, span // size), *(min(n, r.choice((1, 2, 4, 8, 8))) for n in dims[1:]))
    return ls.TensorMap(name, tuple(dims), tuple(strides), box, **common)


def start(r: Random) -> tuple[int, ...]:
    """Draw a coordinate of a tensor map."""
    return tuple(r.choice((0, 0, 0, 8, 16, -1, 3, 64)) for _ in range(r.choice((1, 2, 2, 3, 4, 5))))


def map_and_start(r: Random) -> tuple[ls.TensorMap, tuple[int, ...]]:
    """Draw a tensor map and a coordinate of its rank."""
    tm = tensor_map(r)
    return tm, tuple(r.choice((0, 0, 8, 16, -1, 3)) for _ in range(tm.rank))


def tensor_copy(r: Random) -> Any:
    """Draw an execution of a tensor map, or a bulk copy."""
    if r.random() < 0.3:
        return ls.BulkCopy(r.choice((16, 4096, 100)), r.choice((None, 16, 8)), r.choice((None, 128)), r.random() < 0.3)
    tm, at = map_and_start(r)
    return ls.TensorCopy(tm, r.random() < 0.3, coordinate=at, shared_address=r.choice((None, 0, 1024, 16)))


def descriptor(r: Random) -> ls.MatrixDescriptor:
    """Draw a matrix descriptor."""
    unit = r.choice(("wgmma", "tcgen05"))
    sizes = (0, 16, 128, 256, 512, 1024, 2048)
    return ls.MatrixDescriptor(unit, r.choice(sizes), r.choice(sizes), r.choice(SWIZZLES), r.choice((0, 1024, 64)))


def instruction(r: Random) -> ls.InstructionDescriptor:
    """Draw an instruction descriptor of tcgen05."""
    kind, a = r.choice((("f16", "bf16"), ("f16", "fp16"), ("tf32", "tf32"), ("f8f6f4", "e4m3"), ("i8", "u8")))
    return ls.InstructionDescriptor(kind, a, a, r.choice((64, 128, 256)), r.choice((8, 16, 64, 256)))


def multiply(r: Random) -> ls.WgmmaMultiply:
    """Draw a wgmma."""
    a, k = r.choice((("bf16", 16), ("e4m3", 32), ("tf32", 8)))
    return ls.WgmmaMultiply(64, r.choice((8, 64, 100, 256)), k, a, a, "fp32", r.choice(MAJORS), "K")


def operand(r: Random) -> tuple[ls.Layout, str, int, Major, int]:
    """Draw the arguments of `matrix_operand`: a tile, its swizzle, bits of an element, major and block."""
    bits, mode, major = r.choice((8, 16, 32)), r.choice(SWIZZLES), r.choice(MAJORS)
    mn, k = r.choice((64, 128)), r.choice((128, 256)) * 4 // bits * 2
    return ls.tile_layout(mn, k, bits, mode, major), mode, bits, major, mn


def addresses(r: Random) -> list[int]:
    """Draw addresses of a warp's lanes."""
    step = r.choice((4, 8, 16, 16, 64, 128, 144))
    return [step * lane for lane in range(r.choice((8, 16, 32, 32)))]


def program(r: Random) -> tensor_memory.Program:
    """Draw a program of tensor memory: what is allocated, multiplied, read and freed."""
    columns = r.choice((32, 64, 128, 128, 48, 512))
    events: list[Any] = [tensor_memory.Allocate("sums", columns)]
    for _ in range(r.randint(0, 3)):
        what = r.randrange(4)
        if what == 0:
            events.append(tensor_memory.Multiply(instruction(r), tensor_memory.Region("sums", 0, r.choice((32, 64)))))
        elif what == 1:
            shape = "32x32b"
            num = r.choice(repetitions(shape))
            events.append(tensor_memory.Transfer("ld", "sums", shape, num, r.randrange(4), 0, r.choice((0, 16))))
        elif what == 2:
            events.append(tensor_memory.Commit())
        else:
            events.append(tensor_memory.Relinquish())
    events += [tensor_memory.Free("sums")] if r.random() < 0.7 else []
    events += [tensor_memory.Exit()] if r.random() < 0.5 else []
    return tensor_memory.Program(tuple(events))


def kind(r: Random) -> tcgen05.Kind:
    """Draw a kind of tcgen05's multiplies."""
    return r.choice(list(tcgen05.KINDS.values()))


def array(r: Random) -> Any:
    """Draw an array of numpy: dense, sliced, transposed or broadcast."""
    made = np.zeros((r.choice((4, 16, 65)), r.choice((8, 64, 100))), r.choice(("u1", "i4", "f2", "f4", "f8")))
    return r.choice((made, made.T, made[:, ::2], made[1:, 3:], np.broadcast_to(made[:1], made.shape), made[None]))


def groups(r: Random) -> ls.GroupedGemm:
    """Draw a product of groups, of rows or along k."""
    m, n, k = (r.choice((1, 40, 64, 129, 1000)) for _ in range(3))
    dtype, count = r.choice(("bf16", "e4m3", "fp32")), r.choice((1, 5))
    return ls.GroupedGemm(m, n, k, dtype, groups=count, along="m" if r.random() < 0.5 else "k")


@cache
def pool(name: str) -> tuple[Any, ...]:
    """Return results of slow functions, made once of a seed of their own."""
    r = Random(f"pool of {name}")
    makers: dict[str, tuple[int, Draw]] = {
        "plan": (24, lambda r: ls.synthesize(movement(r), r.choice(GPUS))),
        "open plan": (6, lambda r: ls.synthesize(open_tensor(r), "h200")),
        "program plan": (3, lambda r: ls.synthesize(several(r), "h200")),
        "gemm plan": (4, lambda r: ls.synthesize(gemm(r), r.choice(("h200", "b200")))),
        "region": (6, lambda r: ls.legal_region(open_tensor(r), "h200")),
        "group region": (4, lambda r: ls.legal_region(groups(r), "h200")),
        "group proof": (2, lambda r: of_pool("group region")(r).prove(samples=4)),
        "explanation": (24, lambda r: ls.explain(r.choice((tensor, movement, tensor_map))(r), r.choice(GPUS))),
        "proof": (2, lambda r: of_pool("region")(r).prove(samples=4)),
        "error": (6, _refusal),
        "pipeline": (60, pipeline),
        "check": (8, lambda r: ls.check_pipeline(pipeline(r), "h200")),
        "operand": (6, lambda r: _operand(operand(r))),
        "sweep": (2, lambda r: ls.sweep([{"m": 64, "n": 64, "k": r.choice((64, 65))}], "h200", workers=1)),
        "banks": (3, lambda r: ls.repair_banks([("ld.b128", rows(r))], (32, 64), "bf16", "h200")),
    }
    count, make = makers[name]
    found: list[Any] = []
    for _ in range(20 * count):
        if len(found) == count:
            return tuple(found)
        with suppress(ls.LegalSatError):
            found.append(make(r))
    raise AssertionError(f"hardly any {name} is made of good arguments")


def rows(r: Random) -> ls.Layout:
    """Draw lanes over the rows of a tile, and registers along them."""
    down, along = Basis(1, (0,)), Basis(1, (1,))
    each = r.choice((8, 8, 4, 2))
    return ls.Layout(((32, 1), (each, 2)), ((down, down), (along, along * each)))


def _refusal(r: Random) -> Exception:
    wide = ls.Tensor((r.choice((3, 5)), 2**33), "u8", (2**40, 2**20))
    try:
        ls.synthesize(wide, "h200", means=("tma",), tile=(1, 8))
    except ls.NoLegalLayout as refusal:
        return refusal
    return ls.NoLegalLayout("no legal layout", ())


def _operand(drawn: tuple[ls.Layout, str, int, Major, int]) -> ls.MatrixOperand:
    tile_, mode, bits, major, mn = drawn
    return ls.matrix_operand(tile_, mode, bits, unit="wgmma", major=major, block=mn)


def pipeline(r: Random) -> ls.Pipeline:
    """Draw a right pipeline, or one with a fault planted."""
    right = r.choice(list(EXAMPLES.values()))
    if r.random() < 0.3:
        return right
    faulty = _mutants(list(EXAMPLES.values()).index(right))
    return r.choice(faulty) if faulty else right


@cache
def _mutants(example: int) -> list[ls.Pipeline]:
    return [m.pipeline for m in mutants(list(EXAMPLES.values())[example])]


def access_op(r: Random) -> str:
    """Draw the name of an access to shared memory."""
    return r.choice(_ops())


@cache
def _ops() -> tuple[str, ...]:
    found = []
    for op in (*OPS, "lds.32", "lds.64", "lds.128", "sts.32", "stmatrix.x4", "ldmatrix.x1.trans"):
        try:
            shared_access(op, "h200")
        except ls.LegalSatError:
            continue
        found.append(op)
    return tuple(found)

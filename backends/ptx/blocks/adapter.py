"""Turns the plan of a product into the numbers of a `Product`; every decision is already in the plan."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from legalsat.backends.host.maps import map_lines
from legalsat.backends.ptx.blocks.epilogue import WIDTHS
from legalsat.backends.ptx.blocks.kernel import emit
from legalsat.backends.ptx.blocks.product import SMALLEST_ALIGNMENT, Box, Operand, Product, Result, shared_map
from legalsat.backends.ptx.blocks.tcgen05 import KINDS
from legalsat.backends.ptx.sums import AS_THEY_ARE, PACKED
from legalsat.backends.ptx.text import ENTRY
from legalsat.errors import LegalSatError
from legalsat.plans.block_plan import LOADERS, BlockPlan
from legalsat.plans.plan import Plan, View
from legalsat.tensor import Tensor, plain
from legalsat.units.matrix_descriptor import PERIODS, SPANS, MatrixOperand
from legalsat.units.mma import Epilogue
from legalsat.units.tensor_map import TensorMap

_SWIZZLE_BITS = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
_MOST_BLOCKS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """How to launch a kernel.

    Attributes:
        entry: its name. grid: blocks, one a tile. threads: of a block. shared: bytes of dynamic shared memory.
        parameters: in order: "a_map" and "b_map", then "c_map", or "c" for a pointer.
        maps: the tensor maps that `parameters` name, in their order, their addresses yet to be set.
    """

    entry: str
    grid: int
    threads: int
    shared: int
    parameters: tuple[str, ...]
    maps: tuple[TensorMap, ...]


def emit_ptx(plan: BlockPlan) -> str:
    """Return a kernel that computes tiles of C, in PTX; the text says how it is launched.

    Raises:
        LegalSatError: as `product_of`.
    """
    return emit(product_of(plan))


def launch_of(plan: BlockPlan) -> KernelLaunch:
    """Return how the kernel of a plan is launched.

    Raises:
        LegalSatError: as `product_of`.
    """
    return _launch(plan, product_of(plan))


def _launch(plan: BlockPlan, product: Product) -> KernelLaunch:
    maps = [plan.a.tensor_maps[0], plan.b.tensor_maps[0]]
    names = ["a_map", "b_map", "c"]
    if product.c.store == "tma":
        maps.append(plan.c.tensor_maps[-1])
        names[2] = "c_map"
    return KernelLaunch(
        entry=ENTRY,
        grid=product.tiles[0] * product.tiles[1],
        threads=product.threads,
        shared=shared_map(product).bytes,
        parameters=tuple(names),
        maps=tuple(maps),
    )


def product_of(plan: BlockPlan) -> Product:
    """Return the numbers of a plan's kernel.

    Raises:
        LegalSatError: operands travel by other means than boxes of one tensor map, no matrix unit reads them there,
            or C is stored as no kernel here stores it.
    """
    mma, epilogue = plan.mma, plan.epilogue
    if mma is None:
        raise LegalSatError(f"{plan.target} has neither wgmma nor tcgen05, and ptx prints these alone; plan for sm_90a")
    if epilogue is None:
        raise LegalSatError(f"ptx stores no C of {plan.operator.out_dtype}; name a type of 8, 16 or 32 bits")
    for name, read, one in (("A", mma.a, plan.a), ("B", mma.b, plan.b)):
        if read is None or one.access.by != "tma":
            raise LegalSatError(
                f"{name} travels by {one.access.by}, and ptx prints operands that travel by tma; give {name} rows "
                "whose pitch is a multiple of 16 bytes, as padded tensors have"
            )
    assert mma.a is not None and mma.b is not None
    if plan.operator.scaled:
        raise LegalSatError("ptx does not multiply sums by scales; ask for cute")
    if plan.launch.programs:
        raise LegalSatError("plan has a persistent grid, and ptx prints one tile a block; ask for launch.programs 0")
    m, n, k = plan.tile
    operator = plan.operator
    product = Product(
        about=(),
        architecture=plan.target.architecture,
        extent=(operator.m, operator.n, operator.k),
        tile=plan.tile,
        shape=mma.shape,
        types=mma.types,
        stages=plan.stages,
        warps=plan.launch.warps,
        warpgroups=mma.warpgroups,
        blocks=plan.blocks,
        a=_operand("A", plan.a, mma.a, (m, k)),
        b=_operand("B", plan.b, mma.b, (n, k)),
        c=_result(plan.c, epilogue, (m, n)),
        instruction=mma.instruction,
        accumulators=tuple(part.first for part in mma.tensor_memory if part.name.startswith("accumulator")),
        allocated=mma.allocated,
    )
    _require_printable(product)
    return _with_lines(plan, product)


def _operand(name: str, plan: Plan, read: MatrixOperand, tile: tuple[int, int]) -> Operand:
    if plan.access.by != "tma":
        raise LegalSatError(
            f"{name} travels by {plan.access.by}, and ptx prints loads by tma; align its rows to 16 bytes, "
            "or copy it to a tensor whose rows are"
        )
    view, tm, shared = plan.views[0], plan.tensor_maps[0], plan.shared[0]
    bits = plan.operator.source.dtype.bits
    if plan.access.word != bits:
        raise LegalSatError(f"{name} travels in words of {plan.access.word} bits, elements have {bits}")
    at = _axes(name, plan.source, view, tile, outer_first=read.major == "MN")
    return Operand(
        boxes=_boxes(view, tm, shared.bytes),
        tile_step=_steps(at[0], tile[0]),
        k_step=_steps(at[1], tile[1]),
        bytes=shared.bytes,
        alignment=max(shared.alignment, read.alignment),
        transaction_bytes=plan.pipeline.barriers[0].transaction_bytes,
        major=read.major,
        word=read.descriptor.word,
        offsets=read.offsets,
    )


def _boxes(view: View, tm: TensorMap, size: int) -> tuple[Box, ...]:
    """Return the boxes that fill a tile, side by side along the map's first dimension first."""
    starts = [range(0, tile, box) for tile, box in zip(view.tile, tm.box, strict=True)]
    places = [(first, second) for second, first in itertools.product(starts[1], starts[0])]
    return tuple(Box(i * size // len(places), begin) for i, begin in enumerate(places))


def _steps(dimension: int, size: int) -> tuple[int, int]:
    return (size, 0) if dimension == 0 else (0, size)


def _axes(name: str, tensor: Tensor, view: View, tile: tuple[int, int], *, outer_first: bool) -> tuple[int, int]:
    """Return which dimension of a map runs along the rows of a matrix, and which along its columns."""
    if len(view.extent) != 2:
        raise LegalSatError(
            f"the tensor map of {name} has {len(view.extent)} dimensions, and ptx prints those of 2; "
            "give a tensor whose rows are evenly apart"
        )
    shape, strides, bits = plain(tensor.shape), plain(tensor.strides), tensor.dtype.bits

    def fits(axis: int, dimension: int) -> bool:
        apart = shape[axis] == 1 or view.stride[dimension] == strides[axis] * bits
        return apart and (view.extent[dimension], view.tile[dimension]) == (shape[axis], tile[axis])

    ways = [(0, 1), (1, 0)] if outer_first else [(1, 0), (0, 1)]
    for way in ways:
        if fits(0, way[0]) and fits(1, way[1]):
            return way
    raise LegalSatError(f"the tensor map of {name} sees other axes than its rows and columns; give it a plain matrix")


def _result(plan: Plan, epilogue: Epilogue, tile: tuple[int, int]) -> Result:
    tensor = plan.operator.target
    size = tensor.dtype.bytes
    shape, strides = plain(tensor.shape), plain(tensor.strides)
    box = tile[0], (tile[1] if epilogue.swizzle == "none" else epilogue.pitch // size)
    if epilogue.store == "tma":
        view, tm = plan.views[-1], plan.tensor_maps[-1]
        if _axes("C", tensor, view, tile, outer_first=False) != (1, 0):
            raise LegalSatError("C runs along m in memory, and ptx prints rows of C; swap A and B to transpose it")
        box = tm.box[1], tm.box[0]
    if epilogue.swizzle not in _SWIZZLE_BITS:
        raise LegalSatError(f"C's tile has swizzle {epilogue.swizzle}, and ptx prints {', '.join(_SWIZZLE_BITS)}")
    if epilogue.swizzle != "none" and epilogue.pitch != SPANS[epilogue.swizzle]:
        raise LegalSatError(
            f"rows of C's boxes are {epilogue.pitch} bytes apart, and swizzle {epilogue.swizzle} has "
            f"{SPANS[epilogue.swizzle]}; widen the boxes"
        )
    return Result(
        type=tensor.dtype.name,
        size=size,
        rows=shape[0],
        columns=shape[1],
        strides=(strides[0], strides[1]),
        store=epilogue.store,
        copy=epilogue.copy,
        box=box,
        pitch=epilogue.pitch,
        swizzle=_SWIZZLE_BITS[epilogue.swizzle],
        overlays=epilogue.overlays,
        alignment=max(SMALLEST_ALIGNMENT, PERIODS[epilogue.swizzle]),
    )


def _require_printable(product: Product) -> None:
    """Raise where a number has no place in the kernels here."""
    kind = product.types[2], product.c.type
    if kind not in AS_THEY_ARE | PACKED:
        raise LegalSatError(f"sums of {kind[0]} become {kind[1]}, which ptx does not print; name another type for C")
    if product.c.copy not in WIDTHS:
        raise LegalSatError(f"sums are written by {product.c.copy}; ptx prints {', '.join(WIDTHS)}")
    if product.stages < 2:
        raise LegalSatError("plan has a ring of 1 stage, and ptx keeps one in use while the next one loads; plan for 2")
    if product.warps < product.keepers + LOADERS:
        raise LegalSatError(
            f"plan has {product.warps} warps, and {product.keepers} that fetch sums need {LOADERS} more; add them"
        )
    if len(product.accumulators) != math.prod(product.blocks_of_sums):
        raise LegalSatError(
            f"plan names {len(product.accumulators)} accumulators, and a tile has {math.prod(product.blocks_of_sums)}"
        )
    if product.types[0] not in KINDS:
        raise LegalSatError(f"operands are {product.types[0]}, and ptx multiplies {', '.join(KINDS)}")
    if product.tiles[0] * product.tiles[1] > _MOST_BLOCKS:
        raise LegalSatError(f"product has {product.tiles[0] * product.tiles[1]} tiles, a grid has {_MOST_BLOCKS}")


def _with_lines(plan: BlockPlan, product: Product) -> Product:
    launch = _launch(plan, product)
    lines = [
        f"{plan.operator}, on {plan.target}: C = A B^T. Written by LegalSAT, which it needs no more.",
        "",
        f"Launch {launch.grid} blocks of {launch.threads} threads with {launch.shared} bytes of dynamic shared memory.",
        f"Parameters: {', '.join(launch.parameters)}; maps by value, c the address of C.",
    ]
    for name, one in (("A", plan.a), ("B", plan.b)):
        if one.before:
            lines.append(
                f"{name} must have been copied first, from strides {one.operator.source.strides} to "
                f"{one.source.strides} elements, with anything behind a row's end."
            )
    for name, tm in zip(launch.parameters, launch.maps, strict=False):
        lines += ["", f"{name}: {tm}", *map_lines(tm)]
    return replace(product, about=tuple(lines))

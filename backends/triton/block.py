"""`ProductKernel`: the numbers that a Gluon kernel of a product is printed from, and how a plan gives them.

A block is persistent: its ring goes on filling while sums become C, so C cannot lie on the ring as it may in a block
that ends with its tile. C goes out in slices of whole boxes instead, in what the ring leaves of shared memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from legalsat.backends.triton.types import TYPES
from legalsat.errors import LegalSatError
from legalsat.extract.cost.product_cost import rates
from legalsat.options import Major
from legalsat.plans.block_plan import BlockPlan
from legalsat.plans.plan import Plan
from legalsat.targets import GRANULE_BYTES, Target
from legalsat.tensor import Tensor, plain
from legalsat.units.matrix_descriptor import MatrixOperand
from legalsat.units.mma import Epilogue, Mma
from legalsat.units.tensor_map import TensorMap

SWIZZLE_BYTES = {"none": 0, "32B": 32, "64B": 64, "128B": 128}
MOST_BOX = 256  # elements of a box along a dimension
RESERVED_BYTES = 2048  # barriers, what Triton hands to the loading warp, and what the driver takes of each block
LANES, WARPGROUP = 32, 4
LEAST_STAGES = 2
MOST_COLUMNS = {"i32": 128}  # of an instruction; of integers Triton 3.6 and 3.9 know no 256, and a tile's is halved


@dataclass(frozen=True, slots=True)
class ProductOperand:
    """How A or B comes in.

    Attributes:
        type: element type by our name. size: bytes of an element.
        major: "K" or "MN", the axis whose elements lie side by side.
        block: elements of a tile as Triton's descriptor has them, slowest first.
        swizzle: bytes of the swizzle's span, 0 for none.
        map: the plan's tensor map.
    """

    type: str
    size: int
    major: Major
    block: tuple[int, int]
    swizzle: int
    map: TensorMap


@dataclass(frozen=True, slots=True)
class ProductResult:
    """How C goes out.

    Attributes:
        type: element type by our name. size: bytes of an element.
        slice: columns that leave registers at once. buffers: of a slice, in shared memory.
        swizzle: bytes of the swizzle's span, 0 for none.
        map: the plan's tensor map; None where threads store.
        fast: the axis along which threads store neighbours, 0 for rows of C and 1 for columns.
        pitch: elements between neighbours along the other axis. vector: elements that a thread stores at once.
    """

    type: str
    size: int
    slice: int
    buffers: int
    swizzle: int
    map: TensorMap | None
    fast: int
    pitch: int
    vector: int


@dataclass(frozen=True, slots=True)
class ProductKernel:
    """A kernel: C = A B^T in tiles, one warp loads, warpgroups multiply.

    Attributes:
        tile: elements along m, n and k, powers of two. instruction: columns of C of one instruction.
        sums: type of the sums by our name. stages: of the ring. warpgroups: that multiply. loaders: registers a
            thread of the loading warp. blocks: that fit on a processor.
        a, b, c: the operands.
        programs: blocks of the grid. group: tiles along m that are neighbours in time.
    """

    tile: tuple[int, int, int]
    instruction: int
    sums: str
    stages: int
    warpgroups: int
    loaders: int
    blocks: int
    a: ProductOperand
    b: ProductOperand
    c: ProductResult
    programs: int
    group: int

    @property
    def warps(self) -> int:
        """Warps that multiply, which Triton calls the warps of the kernel."""
        return WARPGROUP * self.warpgroups

    @property
    def stage_bytes(self) -> int:
        """Bytes that a stage's barrier counts."""
        return sum(math.prod(one.block) * one.size for one in (self.a, self.b))


def product_kernel_of(plan: BlockPlan) -> ProductKernel:
    """Return the numbers of a plan's kernel.

    Raises:
        LegalSatError: the plan is for no wgmma, operands travel by other means than boxes of one tensor map, Triton
            would choose other boxes, or has no such tile or type; the message says which.
    """
    mma, epilogue = plan.mma, plan.epilogue
    if mma is None or mma.unit != "wgmma" or mma.a is None or mma.b is None:
        raise LegalSatError(
            f"triton prints products by wgmma with both operands in shared memory, not on {plan.target}"
        )
    if epilogue is None:
        raise LegalSatError(f"triton stores no C of {plan.operator.out_dtype}; name a type of 8, 16 or 32 bits")
    if plan.operator.scaled:
        raise LegalSatError("triton does not multiply sums by scales; ask for cute")
    m, n, k = plan.tile
    if any(extent & (extent - 1) for extent in plan.tile):
        raise LegalSatError(f"plan has tiles of {m} x {n} x {k}, and triton's are powers of two; ask for another tile")
    if plan.launch.programs:
        raise LegalSatError("plan has a grid of its own, and triton's takes as many blocks as fit; ask for programs 0")
    a, b = _operand("A", plan.a, mma.a, (m, k)), _operand("B", plan.b, mma.b, (n, k))
    sums = mma.types[2]
    _require_types(plan, sums)
    stages, c = _result(plan, epilogue, stage=(math.prod(a.block) + math.prod(b.block)) * a.size)
    tiles = -(-plan.operator.m // m) * -(-plan.operator.n // n)
    resident = rates(plan.operator, plan.target).processors * plan.blocks
    return ProductKernel(
        tile=plan.tile,
        instruction=min(mma.shape[1], MOST_COLUMNS.get(sums, mma.shape[1])),
        sums=sums,
        stages=stages,
        warpgroups=_warpgroups(mma, m),
        loaders=plan.registers[-1] if plan.registers else 24,
        blocks=plan.blocks,
        a=a,
        b=b,
        c=c,
        programs=min(tiles, resident),
        group=_group(resident, (m, n)),
    )


def _warpgroups(mma: Mma, rows: int) -> int:
    if rows % (mma.warpgroups * mma.shape[0]):
        raise LegalSatError(
            f"plan gives {rows} rows to {mma.warpgroups} warpgroups, and triton to each multiples of {mma.shape[0]}"
        )
    return mma.warpgroups


def _group(resident: int, tile: tuple[int, int]) -> int:
    """Return how many tiles along m are neighbours in time, so that a wave of tiles reads as little as may be.

    A wave of `resident` tiles of m x n, g of them along m, reads g m + resident / g n rows: least at the root.
    """
    return 1 << max(0, round(math.log2(resident * tile[1] / tile[0]) / 2))


def _require_types(plan: BlockPlan, sums: str) -> None:
    operand, out = plan.operator.dtype.name, plan.operator.out_dtype.name
    wanted = {"fp32": ("bf16", "fp16", "fp32", "e4m3", "e5m2"), "i32": ("i32", "i8")}.get(sums, ())
    if operand not in TYPES or out not in wanted:
        raise LegalSatError(f"operands are {operand} and sums of {sums} become {out}, which triton does not print")


def triton_box(block: tuple[int, int], swizzle: int, size: int) -> tuple[int, int]:
    """Return the box that Triton takes for a block, slowest dimension first.

    A row of a box fills the swizzle's span, and no extent is above 256 (Triton 3.6 and 3.9; their compiled
    descriptors are compared with the plan's again when an image is made).

    Args:
        block: elements, slowest first.
        swizzle: bytes of its span, 0 for none.
        size: bytes of an element.
    """
    width = min(block[1], swizzle // size) if swizzle else block[1]
    return min(block[0], MOST_BOX), min(width, MOST_BOX)


def _operand(name: str, plan: Plan, read: MatrixOperand, tile: tuple[int, int]) -> ProductOperand:
    element = plan.source.dtype
    if plan.access.by != "tma":
        raise LegalSatError(
            f"{name} travels by {plan.access.by}, and triton prints operands that travel by tma; give {name} rows "
            "whose pitch is a multiple of 16 bytes, as padded tensors have"
        )
    if element.name not in TYPES:
        raise LegalSatError(f"{name} has elements of {element}; triton multiplies {', '.join(TYPES)}")
    tm, block = plan.tensor_maps[0], tile if read.major == "K" else (tile[1], tile[0])
    _require_axes(name, plan.source, tm, fast=1 if read.major == "K" else 0)
    if str(tm.swizzle) not in SWIZZLE_BYTES or read.descriptor.swizzle != tm.swizzle:
        raise LegalSatError(f"{name} has swizzle {tm.swizzle}, and triton has {', '.join(SWIZZLE_BYTES)}")
    swizzle = SWIZZLE_BYTES[str(tm.swizzle)]
    _require_box(name, block, swizzle, tm, element.bytes)
    return ProductOperand(element.name, element.bytes, read.major, block, swizzle, tm)


def _require_box(name: str, block: tuple[int, int], swizzle: int, tm: TensorMap, size: int) -> None:
    box = triton_box(block, swizzle, size)
    if tuple(reversed(tm.box)) != box:
        raise LegalSatError(
            f"the plan loads {name} in boxes of {tm.box[0]} x {tm.box[1]}, triton in boxes of {box[1]} x {box[0]}; "
            "ask for another tile, or print the plan with ptx"
        )


def _require_axes(name: str, tensor: Tensor, tm: TensorMap, fast: int) -> None:
    """Raise unless a map sees a matrix as it is, with the axis `fast` as its first dimension."""
    shape, strides, size = plain(tensor.shape), plain(tensor.strides), tensor.dtype.bytes
    slow = 1 - fast
    apart = shape[slow] == 1 or tm.global_stride == (strides[slow] * size,)
    if tm.global_dim != (shape[fast], shape[slow]) or not apart or (shape[fast] > 1 and strides[fast] != 1):
        raise LegalSatError(f"the tensor map of {name} sees other axes than its rows and columns; give a plain matrix")


def _result(plan: BlockPlan, epilogue: Epilogue, stage: int) -> tuple[int, ProductResult]:
    """Return the stages that fit beside C, and how C goes out."""
    tensor = plan.operator.c
    size, (rows, columns) = tensor.dtype.bytes, plan.tile[:2]
    room = _room(plan.target, plan.blocks)
    if epilogue.store != "tma":
        fast, pitch, vector = _vectors(tensor)
        for stages in range(plan.stages, LEAST_STAGES - 1, -1):
            # Triton turns a slice from sums' order into rows through as many bytes of shared memory.
            for width in _halved(columns, least=GRANULE_BYTES // size):
                if stages * stage + rows * width * size <= room:
                    return stages, ProductResult(tensor.dtype.name, size, width, 1, 0, None, fast, pitch, vector)
        raise _no_room(plan)
    tm = plan.c.tensor_maps[-1]
    _require_axes("C", tensor, tm, fast=1)
    if str(tm.swizzle) not in SWIZZLE_BYTES:
        raise LegalSatError(f"C's tile has swizzle {tm.swizzle}, and triton has {', '.join(SWIZZLE_BYTES)}")
    swizzle, box = SWIZZLE_BYTES[str(tm.swizzle)], tuple(reversed(tm.box))
    widths = [w for w in _halved(columns, least=tm.box[0]) if triton_box((rows, w), swizzle, size) == box]
    if not widths:
        _require_box("C", (rows, columns), swizzle, tm, size)
    for stages in range(plan.stages, LEAST_STAGES - 1, -1):
        # A slice in two buffers is written while the one before it is stored; a whole tile has until the next tile.
        ways = [(width, 1 if width == columns else 2) for width in widths] + [(width, 1) for width in widths]
        for width, buffers in ways:
            if stages * stage + buffers * rows * width * size <= room:
                pitch = plain(tensor.strides)[0]
                return stages, ProductResult(tensor.dtype.name, size, width, buffers, swizzle, tm, 1, pitch, 1)
    raise _no_room(plan)


def _no_room(plan: BlockPlan) -> LegalSatError:
    m, n, k = plan.tile
    return LegalSatError(f"shared memory has no room for C beside a ring of tiles of {m} x {n} x {k}; ask for less")


def _room(target: Target, blocks: int) -> int:
    """Return the bytes of shared memory that a block has for its ring and C."""
    return min(target.shared_bytes_per_block, target.shared_bytes_per_processor // blocks) - RESERVED_BYTES


def _halved(columns: int, least: int) -> Iterator[int]:
    while columns >= least:
        yield columns
        columns //= 2


def _vectors(tensor: Tensor) -> tuple[int, int, int]:
    """Return the axis with neighbours side by side, the other's pitch, and how many elements a thread may store.

    Extent, pitch and address are all multiples of so many.
    """
    shape, strides, size = plain(tensor.shape), plain(tensor.strides), tensor.dtype.bytes
    fast = 1 if strides[1] == 1 else 0
    if strides[fast] != 1:
        raise LegalSatError(f"C has strides {strides}, and triton stores neighbours along one axis; give one stride 1")
    pitch = strides[1 - fast]
    aligned = math.gcd(GRANULE_BYTES, tensor.align, tensor.offset) // size
    return fast, pitch, max(1, math.gcd(aligned, shape[fast], pitch))

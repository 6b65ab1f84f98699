"""What rules judge: one site per hardware unit that a plan touches.

A site's numbers may be ints (one request), numpy arrays (a batch of requests of one rank) or symbolic
(`legalsat.logic.Number`), so enums appear as the driver's values. The rank is always a plain int: it decides how
many requirements there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from legalsat.checks import flag, integer
from legalsat.errors import InvalidInput
from legalsat.logic import Value, ceil_div, pick, product
from legalsat.operators import MATRIX_CONSUMERS, TCGEN05_CONSUMERS, WGMMA_CONSUMERS
from legalsat.options import Major
from legalsat.printable import shown
from legalsat.units.matrix_descriptor import PERIODS, MatrixDescriptor, MatrixOperand
from legalsat.units.tensor_map import MAP_TYPES, TensorMap, driver_value

TYPE_BITS = tuple(t.bits for t in MAP_TYPES)
SWIZZLE_SPANS = (16, 32, 64, 128, 128, 128, 128)  # bytes; without a swizzle the copy engine's granule


@dataclass(frozen=True, slots=True, eq=False)
class TmaCopy:
    """One tensor map, as the encode call sees it. Fields are those of `TensorMap`, enums as driver values.

    Besides: whether the copy `stores`, the stride that the innermost dimension would need, in bits (None: none), and
    the `tile` that boxes fill side by side, in elements per dimension (of im2col: columns and pixels; empty: a box
    stands alone), the `side` of the movement that the map describes, how many bytes the matrix unit that reads the
    tile has its swizzle keep together (0: none reads it), the `offsets` of im2col loads from a window's first tap to
    its last, fastest dimension first, the dimensions `by_stride`, smallest first, where a map does not list them so,
    how many elements `before` the tensor the first tile begins, along each dimension (empty: none), and the user's
    `axes`, one for each dimension, where a tensor was asked about and not a map (empty).
    """

    tiled: bool
    rank: int
    dtype: Value
    interleave: Value
    swizzle: Value
    l2_promotion: Value
    oob_fill: Value
    map_offset: Value
    address: Value
    global_dim: tuple[Value, ...]
    global_stride: tuple[Value, ...]
    element_stride: tuple[Value, ...]
    box: tuple[Value, ...] = ()
    lower_corner: tuple[Value, ...] = ()
    upper_corner: tuple[Value, ...] = ()
    channels: Value = 0
    pixels: Value = 0
    stores: bool = False
    inner_stride_bits: Value = None
    tile: tuple[Value, ...] = ()
    side: str = ""
    atom_bytes: int = 0
    offsets: tuple[Value, ...] = ()
    by_stride: tuple[int, ...] = ()
    before: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()

    @staticmethod
    def of(tm: TensorMap, *, stores: bool = False) -> TmaCopy:
        """Return the site of a tensor map; `stores` if it writes global memory.

        Rules judge no open dims: where the map has some, a number takes the place of each first.
        """
        return TmaCopy(
            stores=stores,
            tiled=tm.mode == "tiled",
            rank=tm.rank,
            dtype=driver_value("dtype", tm.dtype),
            interleave=driver_value("interleave", tm.interleave),
            swizzle=driver_value("swizzle", tm.swizzle),
            l2_promotion=driver_value("l2_promotion", tm.l2_promotion),
            oob_fill=driver_value("oob_fill", tm.oob_fill),
            map_offset=tm.map_offset,
            address=tm.address,
            global_dim=tm.global_dim,
            global_stride=tm.global_stride,
            element_stride=tm.element_stride,
            box=tm.box,
            lower_corner=tm.lower_corner,
            upper_corner=tm.upper_corner,
            channels=tm.channels,
            pixels=tm.pixels,
        )

    @property
    def element_bits(self) -> Value:
        """Bits of one element in global memory."""
        return pick(TYPE_BITS, self.dtype)

    @property
    def inner_extent(self) -> Value:
        """Elements of the innermost box dimension: box[0], or the channels of im2col; 0 for a map of rank 0."""
        if not self.tiled:
            return self.channels
        return self.box[0] if self.box else 0

    @property
    def inner_bits(self) -> Value:
        """Bits of the innermost box dimension."""
        return self.inner_extent * self.element_bits

    @property
    def inner_bytes(self) -> Value:
        """Bytes of the innermost box dimension, rounded up."""
        return ceil_div(self.inner_bits, 8)

    @property
    def stepped_over(self) -> tuple[Value, ...]:
        """Bytes that each global stride must step over, for elements not to share memory."""
        steps = (self.element_bits, *(8 * stride for stride in self.global_stride))
        order = self.by_stride or tuple(range(len(self.global_dim)))
        over = {outer: ceil_div(product([steps[inner], self.global_dim[inner]]), 8) for inner, outer in pairwise(order)}
        return tuple(over.get(dimension, 0) for dimension in range(1, len(self.global_dim)))

    def named(self, dimension: int) -> str:
        """Return what its reader calls a dimension: the axis of a tensor, or the dimension of a map."""
        return f"axis {self.axes[dimension]}" if self.axes else f"dimension {dimension}"

    def numbered(self, dimension: int) -> int:
        """Return the number of a dimension as its reader counts."""
        return self.axes[dimension] if self.axes else dimension

    def __str__(self) -> str:
        if self.axes and self.tiled:
            box = [self.box[self.axes.index(axis)] for axis in sorted(self.axes)]
            return f"TMA copy of the {self.side or 'tensor'}, box {' x '.join(map(str, box))}"
        if self.tiled:
            side = f" of the {self.side}" if self.side else ""
            return f"TMA copy{side}, box {' x '.join(map(str, self.box))}"
        side = f" of the {self.side}" if self.side else ""
        return f"TMA im2col copy{side}, {self.pixels} pixels of {self.channels} channels"


@dataclass(frozen=True, slots=True, eq=False)
class UnitAxes:
    """Axes of one element of a tensor, with the stride of each in bits, which frameworks hand to the encode call."""

    axes: tuple[int, ...]
    strides: tuple[int, ...]

    def __str__(self) -> str:
        return "tensor map as a framework encodes it from shape and strides"


@dataclass(frozen=True, slots=True, eq=False)
class SharedStages:
    """The shared memory of one block: `stages` rings of `ring` bytes, `single` bytes once, a barrier a stage."""

    stages: Value
    ring: Value
    single: Value

    @property
    def bytes(self) -> Value:
        """Bytes altogether; a barrier takes 8, and buffers start at multiples of 1024."""
        return self.stages * (self.ring + 8) + self.single + 1024

    def __str__(self) -> str:
        once = f" and {self.single} bytes once" if self.single else ""
        return f"shared memory, stages: {self.stages}, of {self.ring} bytes each{once}"


@dataclass(frozen=True, slots=True, eq=False)
class VectorAccess:
    """Rows of one side of a tile, moved `bytes` at a time by one instruction a vector.

    Address and strides in bytes (dimensions other than the innermost, and of more than one element), and how much each
    of them steps over; the stride, the extent and the tile of the innermost dimension in bits; and bits of a pixel
    whose neighbours in memory may be missing under a window, 0 where none are.
    """

    instruction: str
    side: str
    bytes: Value
    word: int
    address: Value
    strides: tuple[Value, ...]
    stepped_over: tuple[Value, ...]
    inner_stride_bits: Value
    row_bits: Value
    tile_bits: Value
    pixel_bits: int = 0

    def __str__(self) -> str:
        return f"{self.instruction} of the {self.side}, {self.bytes} bytes each"


@dataclass(frozen=True, slots=True, eq=False)
class RegisterTile:
    """A tile that threads hold in registers: its bytes."""

    bytes: Value

    def __str__(self) -> str:
        return f"tile of {self.bytes} bytes in registers"


@dataclass(frozen=True, slots=True, eq=False)
class GranuleMove:
    """A movement by granules: axes besides those that run fastest, and the largest number that its kernel counts to."""

    axes: Value
    units: Value
    turned_padding: bool = False

    def __str__(self) -> str:
        return "movement by granules"


@dataclass(frozen=True, slots=True, eq=False)
class Movement:
    """A movement as a whole.

    Bits of its words once every law has been tried; who reads the tile, if anybody; the element type; the tile as
    the user gave it, slowest axis first; whether the last axis runs fastest in memory; the means, one of
    `legalsat.units.means`; bytes of a row of the tile in shared memory, 0 where it is not known yet;
    whether rows begin at different offsets there; whether it runs over windows, and whether these leave their
    images; whether it pads, and whether with zeros; along how many axes its rows run where no matrix descriptor reads
    them as they arrive, else 0; whether others than the movement's own threads read the tile.
    """

    word: Value
    consumer: str | None = None
    element: str = ""
    tile: tuple[int, ...] = ()
    k_major: bool = True
    by: str = "any"
    row_bytes: int = 0
    shifted: bool = False
    windows: bool = False
    leaves: bool = False
    padding: bool = False
    zeros: bool = True
    scattered: int = 0
    read: bool = False

    @property
    def feeds_wgmma(self) -> bool:
        """Whether wgmma reads the tile."""
        return self.consumer in WGMMA_CONSUMERS

    @property
    def feeds_tcgen05(self) -> bool:
        """Whether tcgen05 reads the tile."""
        return self.consumer in TCGEN05_CONSUMERS

    @property
    def feeds_matrix(self) -> bool:
        """Whether a matrix unit reads the tile from shared memory."""
        return self.consumer in MATRIX_CONSUMERS

    def __str__(self) -> str:
        return f"movement of {self.element or f'{self.word}-bit words'}" + f" for {self.consumer}" * bool(self.consumer)


@dataclass(frozen=True, slots=True, eq=False)
class ProductTypes:
    """The element type of A and B of a product, that of its sums, and that of C; `scaled` is as of `Gemm`."""

    element: str
    sums: str
    result: str
    scaled: str = ""

    def __str__(self) -> str:
        whose = f", scaled by {self.scaled}" if self.scaled else ""
        return f"product of {self.element}{whose}, sums of {self.sums}, C of {self.result}"


@dataclass(frozen=True, slots=True, eq=False)
class WgmmaMultiply:
    """One wgmma instruction.

    Attributes:
        m, n, k: elements of its shape.
        a, b, sums: element types of A, B and the accumulator.
        a_major, b_major: "K" or "MN", the axis whose elements lie side by side.
        a_in_registers: whether A comes from registers rather than shared memory.
    """

    m: Value
    n: Value
    k: Value
    a: str
    b: str
    sums: str
    a_major: Major = "K"
    b_major: Major = "K"
    a_in_registers: bool = False

    def __post_init__(self) -> None:
        for name in ("m", "n", "k"):
            given = getattr(self, name)
            if isinstance(given, int | float | str | bytes | list | tuple | dict | set):  # else it is not known yet
                integer(given, name, low=0, high=2**31)
        for name in ("a", "b", "sums", "a_major", "b_major"):
            if not isinstance(given := getattr(self, name), str):
                raise InvalidInput(f"{name} is {shown(given)}; give a name")
        flag(self.a_in_registers, "a_in_registers")

    def __str__(self) -> str:
        return f"wgmma of {self.m} x {self.n} x {self.k}, {self.a} by {self.b}"


@dataclass(frozen=True, slots=True, eq=False)
class MatrixRead:
    """A matrix descriptor, and the tile in shared memory that it is to describe.

    What the instruction is told: start address, leading and stride offset in bytes, swizzle (as a tensor map has it),
    base offset, the major axis. What the tile is: its own swizzle, distances and major axis, and the address where the
    swizzle's pattern begins. `block` rows of A or columns of C are read at once, of elements of `element_bits`.
    """

    start: Value
    leading: Value
    stride: Value
    swizzle: Value
    tile_leading: Value
    tile_stride: Value
    tile_swizzle: Value
    block: Value
    element_bits: int
    base_offset: Value = 0
    pattern: Value = 0
    major: Major = "K"
    tile_major: Major = "K"

    def __str__(self) -> str:
        return f"matrix descriptor of a {self.major}-major tile, {self.block} elements at once"


def descriptor_site(told: MatrixDescriptor, operand: MatrixOperand, element_bits: int) -> MatrixRead:
    """Return the site of a descriptor beside the tile that it is to describe, which lies as `operand` says."""
    tile = operand.descriptor
    return MatrixRead(
        start=told.start,
        leading=told.leading,
        stride=told.stride,
        swizzle=driver_value("swizzle", told.swizzle),
        tile_leading=tile.leading,
        tile_stride=tile.stride,
        tile_swizzle=driver_value("swizzle", tile.swizzle),
        block=operand.block,
        element_bits=element_bits,
        base_offset=told.base_offset,
        pattern=told.start // PERIODS[told.swizzle] * PERIODS[told.swizzle],
        major=operand.major,
        tile_major=operand.major,
    )

"""What an operator is: operands, what its result holds, plainly, as numpy, and laws that say what else it equals.

An operator is a frozen dataclass. All that plans, proofs, explanations, sweeps and printers ask of one stands here, so
that a new one is a class of its own and nothing else: they know no operator by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from legalsat.dtypes import DType
from legalsat.errors import InvalidInput
from legalsat.operators.access import Access, Mode
from legalsat.options import Consumer, Into
from legalsat.targets import Target
from legalsat.tensor import Tensor, plain
from legalsat.units.windows import Sweep
from legalsat.view.margins import Margin

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from legalsat.law import Law

# Bits from the first to the last element; the e-graph multiplies extents and strides in 64-bit integers.
MAX_SPAN_BITS = 2**61
MOVE, PRODUCT, PROGRAM = "move", "product", "program"  # terms


class Operator:
    """What a user asks for.

    Attributes:
        term: what its values are to the planners: "move", "product" for one of matrices, or "program" for several
            operators. Of anything else what `travels` is planned alone.
    """

    __slots__ = ()

    term: str = MOVE

    @property
    def flops(self) -> float:
        """Operations of a matrix unit."""
        return 0.0

    @property
    def name(self) -> str:
        """What rows of sweeps call it."""
        return type(self).__name__.lower()

    @property
    def as_product(self) -> Any:
        """The product of matrices, or of a batch of them, that it is; None where it is none that has kernels."""
        return self if self.term == PRODUCT else None

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """What it reads and writes, by name, the operands first."""
        raise InvalidInput(f"{type(self).__name__} does not say what it reads and writes; give it tensors")

    @property
    def dtype(self) -> DType:
        """The element type of its first operand."""
        return next(iter(self.tensors.values())).dtype

    def travels(self, target: str | Target) -> Mapping[str, Move]:
        """Return what of `tensors` has to travel, each as tiles by boxes of a tensor map.

        Results are judged as if they were read: a plan that stores them by threads where no map reaches them is one.
        """
        raise InvalidInput(f"{type(self).__name__} does not say what of it moves; give it travels")

    @property
    def others(self) -> Mapping[str, Tensor]:
        """Operands besides `tensors`, which do not travel as tiles."""
        return {}

    def meaning(self, *operands: NDArray[Any]) -> NDArray[Any]:
        """Return what the result holds before it is rounded, given numpy arrays of what the operands hold.

        Raises:
            InvalidInput: the operands are others in number, in shape, or no numbers.
        """
        *reads, _ = self.tensors.values()
        shapes = [one.shape for one in (*reads, *self.others.values())]
        kinds = [getattr(getattr(one, "dtype", None), "kind", "") for one in operands]
        if [getattr(one, "shape", None) for one in operands] != shapes or not set(kinds) <= set("biuf"):
            raise InvalidInput(
                f"operands of {self} are others; give numpy arrays of shapes {', '.join(map(str, shapes))}"
            )
        return self._meaning(*operands)

    def _meaning(self, *operands: NDArray[Any]) -> NDArray[Any]:
        """Return `meaning`, plainly, as numpy."""
        raise InvalidInput(f"{type(self).__name__} does not say what its result holds; give it a _meaning")

    def laws(self) -> tuple[Any, ...]:
        """Return the laws that say what else it equals: `Law`s of accesses for a movement, `TermLaw`s for others."""
        return ()

    def but(self, **fields: Any) -> Self:
        """Return the operator with other values of some fields."""
        operator: Any = self
        changed: Self = replace(operator, **fields)
        return changed


class Move(Operator):
    """An operator whose result holds elements of its source as they are, and perhaps a value where that has none.

    It has `source` and `target`, `_meaning` (of bits of elements as unsigned integers as well as of numbers)
    and `access`. The rest says more of it, and what is left out costs plans or repairs, never their truth.

    Attributes:
        source, target: the tensors to read and to write, of one dtype.
        tile: elements of a tile along each axis of the source; None to have it chosen.
        consumer: who reads a tile in shared memory on its way.
        passes: how often every tile is delivered.
        constant: whether the source never changes.
        value: what the result holds where the source has nothing.
        into: "global", or "shared" where tiles are loaded and the movement ends: who reads them there is no part of it.
            Its target is then no memory, but says in which order its elements follow each other.
        axes: names of the source's axes in what is printed, numbers where there are none.
        by_rows: whether it is a copy, from axis to axis, in tiles of the source as it lies: then it is judged by the
            rows of the source, and another copy of such tiles does as well.
    """

    __slots__ = ()

    source: Tensor
    target: Tensor
    tile: tuple[int, ...] | None = None
    consumer: Consumer | None = None
    passes: int = 1
    constant: bool = False
    value: float = 0
    into: Into = "global"
    axes: tuple[str, ...] = ()
    by_rows: bool = False

    def access(self, tile: tuple[int, ...] | None = None) -> Access:
        """Return which word goes where, as modes, fastest in the source first; `access_of` checks their sizes.

        Those of an operator that permutes axes follow from its order.

        Args:
            tile: as the attribute; whole axes when left out.
        """
        if not self.permutes:
            raise InvalidInput(f"{type(self).__name__} does not say which element goes where; give it an access")
        source, bits, steps = self.source, self.source.dtype.bits, self.target.strides
        columns = (source.shape, source.strides, [steps[axis] for axis in back(self)], tile or source.shape)
        modes = [
            Mode(n, distance(n, s * bits), distance(n, d * bits), t)
            for n, s, d, t in zip(*map(plain, columns), strict=True)
        ] or [Mode(1, bits, bits, 1)]  # a scalar is one element of one mode
        return Access(bits, tuple(sorted(modes, key=fastest_first)))

    def but(self, **fields: Any) -> Self:
        """Return the movement with other values of some fields; where nothing is stored the target follows suit."""
        if self.loads_only:
            fields["target"] = None
        if self.axes and "source" in fields and fields["source"].rank != self.source.rank:
            fields.setdefault("axes", ())
        return super().but(**fields)

    @property
    def order(self) -> tuple[int, ...] | None:
        """For each axis of the target the axis of the source that runs along it; None where they are not the same."""
        return None

    @property
    def around(self) -> tuple[tuple[int, int], ...]:
        """Elements of the target in front of and behind the source's, along each axis of the source."""
        return ((0, 0),) * self.source.rank

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        """How windows move along the spatial axes of the source, slowest first; empty where none do."""
        return ()

    @property
    def fills(self) -> bool:
        """Whether something is filled in where the source has nothing. That hangs on the modes, so none may change."""
        return False

    @property
    def pattern(self) -> int:
        """The bits of an element that is filled in."""
        return 0

    def fronted(self, axis: int, before: int) -> Move | None:
        """Return the movement with so many elements `around` in front of an axis; None where it chooses none."""
        return None

    def margins(self, access: Access) -> tuple[Margin, ...] | None:
        """Return which words of each mode of an access the source has, empty if all; None if it lost its modes."""
        return ()

    @property
    def reader(self) -> Consumer | None:
        """Who reads the tile in shared memory besides the movement's own threads."""
        return self.consumer

    @property
    def axis_tile(self) -> tuple[int, ...] | None:
        """The tile along each axis of the source; None where it is chosen, or has other axes."""
        return None if self.sweeps else self.tile

    @property
    def loads_only(self) -> bool:
        """Whether nothing is stored."""
        return self.into == "shared"

    @property
    def permutes(self) -> bool:
        """Whether the result is the source with its axes in some order, and nothing else."""
        order = self.order
        return order is not None and self.target.shape == tuple(self.source.shape[axis] for axis in order)

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The source and the target."""
        return {"x": self.source, "y": self.target}

    def travels(self, target: str | Target) -> Mapping[str, Move]:
        """Return the movement itself."""
        return {"x": self}

    def laws(self) -> tuple[Law, ...]:
        """Return the laws of accesses, which hold for every movement."""
        from legalsat.rules.rewrites import LAWS  # noqa: PLC0415 - rules know nouns

        return LAWS

    def bind(self, values: Mapping[str, int]) -> Self:
        """Return the movement with every dim replaced by its value."""
        return self.but(source=self.source.bind(values), target=self.target.bind(values))

    def __str__(self) -> str:
        return f"{self.name} of {self.source}"


def back(operator: Move) -> list[int]:
    """Return for each axis of the source the axis of the target that it runs along, where there is an order."""
    order = operator.order or ()
    return [order.index(axis) for axis in range(operator.source.rank)]


def fastest_first(mode: Mode) -> tuple[bool, int, int]:
    """Return a sort key: what runs fastest in the source first, what stays at one place there last."""
    return mode.source == 0, mode.source, mode.target


def distance(extent: int, stride: int) -> int:
    """Return a mode's stride in bits. A unit mode's may be anything, so that one too large for the e-graph is none."""
    return stride if extent > 1 or stride <= MAX_SPAN_BITS else 0

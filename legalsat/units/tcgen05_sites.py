"""What rules judge of tcgen05: an instruction, and what a program does to tensor memory.

Numbers of columns and where they begin may be symbolic (`legalsat.logic.Number`), since a solver places them.
"""

from __future__ import annotations

from dataclasses import dataclass

from legalsat.logic import Value
from legalsat.units.tcgen05 import InstructionDescriptor, Kind, Scales


@dataclass(frozen=True, slots=True, eq=False)
class Tcgen05Mma:
    """One multiply: its descriptor and what else the instruction says.

    CTAs that multiply together, whether A lies in tensor memory, whether it is weight-stationary, what a scale stands
    for (block-scaled kinds), the swizzles of A and B in shared memory ("" where nobody says), words of the mask of
    lanes not to write (None: no mask), the power of two to divide D by (None: it is not divided), whether A's rows are
    shifted, what becomes of A's collector, and the threads that issue it.
    """

    descriptor: InstructionDescriptor
    cta_group: int = 1
    a_in_tensor_memory: bool = False
    ws: bool = False
    scales: Scales | None = None
    a_swizzle: str = ""
    b_swizzle: str = ""
    mask_words: int | None = None
    scale_d: int | None = None
    shifts_a: bool = False
    collector: str = ""

    @property
    def kind(self) -> Kind:
        """The kind's row in the table."""
        return self.descriptor.table

    def __str__(self) -> str:
        return f"tcgen05.mma{'.ws' * self.ws}, cta_group::{self.cta_group}, {self.descriptor}"


@dataclass(frozen=True, slots=True, eq=False)
class InstructionBits:
    """A 32-bit word that is to be an instruction descriptor, and why it is none; "" where it is one."""

    word: int
    reason: str = ""

    def __str__(self) -> str:
        return f"instruction descriptor {self.word:#010x}"


@dataclass(frozen=True, slots=True, eq=False)
class Tcgen05Tile:
    """A tile of m, n and k elements that instructions of a kind in so many CTAs are to fill."""

    kind: Kind
    shape: tuple[int, int, int]
    cta_group: int = 1

    def __str__(self) -> str:
        return f"tile {' x '.join(map(str, self.shape))} of {self.kind} in {self.cta_group} CTAs"


@dataclass(frozen=True, slots=True, eq=False)
class TensorMemoryAllocation:
    """An allocation: its columns, those that its CTA holds already, those of the one before (0: none), the permit."""

    columns: Value
    held: Value = 0
    previous: Value = 0
    relinquished: bool = False

    def __str__(self) -> str:
        return f"tcgen05.alloc of {self.columns} columns"


@dataclass(frozen=True, slots=True, eq=False)
class TensorMemoryFree:
    """A deallocation: how many columns were allocated (0: never), whether they still are, and how many are freed."""

    name: str
    allocated: Value
    live: bool
    columns: Value

    def __str__(self) -> str:
        return f"tcgen05.dealloc of {self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class TensorMemoryExit:
    """A CTA that ends, and the allocations that it has not freed."""

    cta: int
    held: tuple[str, ...]

    def __str__(self) -> str:
        return f"exit of CTA {self.cta}"


@dataclass(frozen=True, slots=True, eq=False)
class TensorMemoryUse:
    """Columns and lanes that somebody reads or writes, within an allocation of so many columns, live or not."""

    what: str
    first: Value
    count: Value
    allocated: Value
    live: bool = True
    lane: Value = 0
    lanes: Value = 128

    def __str__(self) -> str:
        return f"{self.what}, {self.count} columns from {self.first} on"


@dataclass(frozen=True, slots=True, eq=False)
class TensorMemoryPair:
    """Columns of two things that exist at once in one allocation."""

    one: str
    other: str
    first: Value
    count: Value
    other_first: Value
    other_count: Value

    def __str__(self) -> str:
        return f"{self.one} and {self.other}"


@dataclass(frozen=True, slots=True, eq=False)
class Executed:
    """An instruction that a CTA executes, and whether the CTA ended before."""

    instruction: str
    cta: int
    exited: bool = False

    def __str__(self) -> str:
        return f"{self.instruction} of CTA {self.cta}"


@dataclass(frozen=True, slots=True, eq=False)
class WarpWide:
    """An instruction that a warp executes as one: whether all its threads do, and with one address."""

    instruction: str
    converged: bool = True
    same_address: bool = True

    def __str__(self) -> str:
        return self.instruction


@dataclass(frozen=True, slots=True, eq=False)
class TensorMemoryTransfer:
    """tcgen05.ld or .st: its shape and repetition, the warp and the lane that its address names, and registers."""

    instruction: str
    shape: str
    num: int
    warp: int
    lane: int
    registers: int

    def __str__(self) -> str:
        return f"tcgen05.{self.instruction}.{self.shape}.x{self.num} of warp {self.warp}"


@dataclass(frozen=True, slots=True, eq=False)
class TensorMemoryCopy:
    """tcgen05.cp: its shape, and to which warps' lanes it brings the same data."""

    shape: str
    multicast: str

    def __str__(self) -> str:
        return f"tcgen05.cp.{self.shape}{f'.{self.multicast}' * bool(self.multicast)}"


@dataclass(frozen=True, slots=True, eq=False)
class IssuedOnce:
    """An instruction that one thread issues for all, and how many threads do."""

    instruction: str
    threads: int

    def __str__(self) -> str:
        return self.instruction


@dataclass(frozen=True, slots=True, eq=False)
class KernelGroups:
    """The values of .cta_group in a kernel."""

    groups: tuple[int, ...]

    def __str__(self) -> str:
        return "kernel"


@dataclass(frozen=True, slots=True, eq=False)
class PeerUse:
    """An instruction of two CTAs: the cluster's size, whether the other one exited, and whether the two have met.

    They have met where a barrier of both lies between everything that uses the memory and this instruction; `owned`
    says whether the other one made the same allocation, `begun` whether a barrier of both has shown that it runs.
    """

    instruction: str
    cluster: int
    peer_exited: bool = False
    met: bool = True
    owned: bool = True
    begun: bool = True

    def __str__(self) -> str:
        return f"{self.instruction}, cta_group::2"


@dataclass(frozen=True, slots=True, eq=False)
class Accumulator:
    """Columns and lanes of an instruction's D and of its A, if that lies in tensor memory (lane None: it does not).

    `half` says whether rows take half of the lanes; `needed` and `a_needed` are the columns that the shapes fill.
    """

    half: bool
    lane: int
    columns: Value
    needed: int
    a_lane: int | None = None
    a_columns: Value = 0
    a_needed: int = 0

    def __str__(self) -> str:
        return f"sums in {self.columns} columns"


@dataclass(frozen=True, slots=True, eq=False)
class ScaleFactors:
    """Scale factors of an operand: columns that they take and need, and partitions of 32 lanes that hold them."""

    operand: str
    columns: Value
    needed: int
    partitions: int

    def __str__(self) -> str:
        return f"scale factors of {self.operand}"

"""`MovementPlan`: a movement with every field solved, as plain immutable values that go to JSON and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from legalsat.checks import integer, integers, one_of
from legalsat.operators import MOVES, Move, Operator
from legalsat.operators.access import NAMES, Access, Mode
from legalsat.options import Backend, RunBackend
from legalsat.plans.codec import PLAN_VERSION, InvalidPlan, operator_of, plain_value, reading, value_of
from legalsat.plans.plan import Cost, Launch, Plan, require_dims
from legalsat.printable import printable
from legalsat.program.leaves import Leaf
from legalsat.program.pipeline import Pipeline
from legalsat.targets import target
from legalsat.tensor import Tensor
from legalsat.units.tensor_map import TensorMap
from legalsat.units.windows import Window

if TYPE_CHECKING:
    from legalsat.units.mma import Mma


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a derivation: the law (or choice) applied and the access that it gave."""

    law: str
    access: Access

    def __str__(self) -> str:
        return f"{self.law}: {self.access}"


@dataclass(frozen=True, slots=True)
class SharedTile:
    """One buffer of shared memory.

    Attributes:
        name: "source" or "target", after the side whose tile it holds.
        word: bits of an element.
        shape: elements, slowest first.
        swizzle: the copy engine's swizzle, by name.
        boxes: how many boxes the copy engine fills it with, side by side.
        bytes: size of one stage. alignment: bytes that its address must be a multiple of, so that the swizzle's
            pattern starts with the buffer (FACTS SW-11).
        stages: how many copies of the buffer there are.
        overlays: whether it lies on the first buffer, which every thread has read by then.
    """

    name: str
    word: int
    shape: tuple[int, ...]
    swizzle: str
    boxes: int
    bytes: int
    alignment: int
    stages: int
    overlays: bool


@dataclass(frozen=True, slots=True)
class MovementCost(Cost):
    """What a movement is predicted to cost; smaller is better, compared by `nanoseconds` first.

    Attributes:
        global_bytes: bytes read and written in global memory.
        transactions: sectors of 32 bytes that these take, with what short runs waste.
        boxes: copies that the copy engine is asked for, over all tiles.
        instructions: memory instructions that warps issue, over all tiles.
        wavefronts: passes through shared memory of 128 bytes each, over all tiles.
        overhang_bytes: bytes of tiles outside the tensor.
        padding_bytes: bytes of global memory for relayouts.
        launches: kernels.
        conflicts: times that a shared-memory access of the consumer is repeated because of banks; 1 is none.
        stages: stages of the ring.
        shared_bytes: shared memory of a block, all stages.
        blocks: blocks that fit on a processor by shared memory alone.
    """

    global_bytes: int
    transactions: int
    boxes: int
    instructions: int
    wavefronts: int
    overhang_bytes: int
    padding_bytes: int
    launches: int
    conflicts: int
    stages: int
    shared_bytes: int
    blocks: int


@dataclass(frozen=True, slots=True)
class VectorCopy:
    """How threads, or bulk copies, move one side of a tile.

    Attributes:
        side: "source" or "target".
        instruction: "ld.global", "st.global", "cp.async" or "cp.async.bulk".
        bytes: bytes that each one moves.
    """

    side: str
    instruction: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Granules:
    """A kernel that moves granules, and what it is bound to.

    Attributes:
        kernel: the leaf of its program, which makes its class.
        blocks: of the grid.
        numbers: the kernel's parameters behind the two addresses.
        source_align, target_align: bytes that the addresses must be multiples of.
        beside: whether it runs beside the movement in front of it, of which it needs nothing, and waits for that last.
    """

    kernel: Leaf
    blocks: int
    numbers: tuple[int, ...]
    source_align: int
    target_align: int
    beside: bool = False

    @property
    def entry(self) -> str:
        """The kernel's name."""
        return self.kernel.entry + "_beside" * self.beside


@dataclass(frozen=True, slots=True)
class Phase:
    """One of the tensor maps that share a tensor's rows out: rows n, n + r, n + 2r, ... for r phases.

    Attributes:
        offset: bytes from the tensor's base to the map's, a multiple of 16.
        shift: bytes from the start of a row of the map to the first element of the tensor's row.
    """

    offset: int
    shift: int


@dataclass(frozen=True, slots=True)
class View:
    """How one side's tensor map sees the access: dimensions, fastest first, each made of modes of the access.

    Attributes:
        side: "source" or "target".
        groups: for each dimension the indices of its modes, fastest first. By im2col, that of pixels is made of the
            modes that run over windows, and its stride in the source is that of neighbours in a row.
        extent, tile: elements of each dimension. stride: bits between neighbours.
        before: of a padding's source, for each dimension the elements of padding in front of its own, so that its
            coordinates begin below 0; empty elsewhere.
    """

    side: str
    groups: tuple[tuple[int, ...], ...]
    extent: tuple[int, ...]
    stride: tuple[int, ...]
    tile: tuple[int, ...]
    before: tuple[int, ...] = ()

    @property
    def lead(self) -> int:
        """Bits from the corner of a padding to the first element of its source."""
        return sum(n * stride for n, stride in zip(self.before, self.stride, strict=False))

    @property
    def by_stride(self) -> tuple[int, ...]:
        """The dimensions in the order of their strides, smallest first; the first stays, whose elements make rows."""
        outer = sorted(range(1, len(self.stride)), key=lambda i: (self.stride[i], self.extent[i] > 1, i))
        return (0, *outer) if self.stride else ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to do it: the access, how it was derived, and what it is predicted to cost."""

    access: Access
    derivation: tuple[Step, ...]
    cost: MovementCost
    store: str


@dataclass(frozen=True, slots=True)
class MovementPlan(Plan):
    """A movement with every field solved.

    Attributes:
        operator: what was asked.
        target: the GPU.
        access: the modes that the kernel walks.
        derivation: the laws that led from the operator to `access`, in order.
        views: how the source and the target see the access, those who have tensor maps by them.
        tensor_maps: the solved maps: the source's, then the target's where the store goes through the copy engine.
            Addresses are representative: the real one must share their alignment.
        copies: what is moved without tensor maps: the load where there are none, and the store by threads.
        phases: where a load takes several maps, which rows each of them brings.
        granules: the kernel where granules are moved, and its parameters; its blocks are then the launch's programs.
        store: "tma", or "threads" where no tensor map can describe the target.
        shared: buffers in shared memory.
        pipeline: what a block does, in order: barriers, buffers, roles.
        launch: blocks and warps.
        cost: what is predicted.
        candidates: the best few, this one first.
        window: the window that the access runs over, where im2col loads walk it, or threads load nothing where it
            leaves its image.
        before: a relayout of the source that must run first; this plan's maps then read what it wrote.
        guard: with dims, the exact set of their values for which every map of this plan, load and store, obeys every
            rule, in isl's notation; empty without dims. Then numbers of `tensor_maps` and `launch` that hang on dims
            are formulas of them, those of other fields are of one sample.
        opened: with dims, for each mode of the access its extent in words and its strides in bits on both sides.
    """

    operator: Move
    access: Access
    derivation: tuple[Step, ...]
    views: tuple[View, View]
    tensor_maps: tuple[TensorMap, ...]
    store: str
    shared: tuple[SharedTile, ...]
    pipeline: Pipeline
    launch: Launch
    cost: MovementCost
    candidates: tuple[Candidate, ...]
    copies: tuple[VectorCopy, ...] = ()
    phases: tuple[Phase, ...] = ()
    granules: Granules | None = None
    window: Window | None = None
    before: tuple[MovementPlan, ...] = ()
    guard: str = ""
    opened: tuple[tuple[Any, Any, Any], ...] = ()

    def __str__(self) -> str:
        from legalsat.view.show import show_plan  # noqa: PLC0415 - showing needs plans

        return printable(show_plan(self))

    @property
    def mma(self) -> Mma | None:
        """How a matrix unit that the tile is for reads it: the descriptor, and the steps along K. None for others."""
        from legalsat.extract.moved.tile_operand import mma_of  # noqa: PLC0415 - it follows from the rest of a plan

        return mma_of(self)

    @property
    def beside(self) -> bool:
        """Whether it runs beside the movement in front of it; see `Granules`."""
        return self.granules is not None and self.granules.beside

    @property
    def source(self) -> Tensor:
        """The tensor that this plan's kernel reads: the operator's, or what a relayout made of it."""
        return self.before[-1].operator.target if self.before else self.operator.source

    @property
    def alone(self) -> MovementPlan:
        """The plan of its own kernel in numbers: behind its relayout, whose result it moves, or at its dims' sample."""
        if self.guard:
            from legalsat.extract.solve.symbolic import sample_of  # noqa: PLC0415 - few plans are open

            return sample_of(self)
        return replace(self, operator=self.operator.but(source=self.source), before=()) if self.before else self

    def emit(self, backend: Backend) -> str:
        """Return source text that needs LegalSAT no more: "triton", "cute", "host" (C++) or "host-python".

        With dims all but "triton" print it: "cute" a kernel and what launches it, the others what encodes the maps.
        Their functions take the extents at run time.
        """
        from legalsat.backends import emit  # noqa: PLC0415 - backends import plans

        return emit(self, backend)

    def compile(self, backend: RunBackend | None = None) -> Any:
        """Return a kernel: `y = kernel(x)`, `kernel(x, out=y)`, with torch tensors or any DLPack arrays.

        With dims it is an `OpenKernel`, which takes every extent that the guard holds for, and compiles nothing at a
        call.

        Args:
            backend: "triton" or "cute"; the first that prints this plan when left out.

        Raises:
            LegalSatError: no backend prints this plan, or what compiles its text is missing. No GPU is needed for
                this; a call without one raises `legalsat.runtime.NoDriver`.
        """
        from legalsat.backends import compiled  # noqa: PLC0415 - backends import plans

        return compiled(self, backend)

    def bind(self, **values: int) -> MovementPlan:
        """Return the plan for these values of the dims.

        The tensor is planned anew with its numbers, so a bound plan may be better than this one, and may exist outside
        the guard.

        Raises:
            InvalidInput: a dim has no value or one outside its range, or a value names no dim.
            NoLegalLayout: nothing is legal for these values.
        """
        from legalsat.extract.search.planner import cached_plan  # noqa: PLC0415 - the planner makes plans

        ends = self.operator.source, self.operator.target
        require_dims(values, sorted({dim.name for end in ends for dim in end.dims}))
        return cached_plan(self.operator.bind(values), self.target)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain values; `mma` and `issued` follow from the rest, for who reads the file."""
        from legalsat.extract.moved.issued import issued  # noqa: PLC0415 - what programs issue needs plans

        follows = {"mma": plain_value(self.mma), "issued": [one.to_json() for one in issued(self)]}
        fields = {name: value for name, value in plain_value(self).items() if name != "opened"}
        return {"version": PLAN_VERSION, **fields, **follows}


def read(data: Any, operators: tuple[type[Operator], ...] = ()) -> MovementPlan:
    """Return the plan that `to_json` wrote, of one of ours or of these operators, checked again."""
    from legalsat.extract.check.recheck import recheck  # noqa: PLC0415 - checking needs the rules

    plan = from_json(data, (*MOVES, *operators))
    recheck(plan)
    return plan


def from_json(data: Any, operators: tuple[type[Operator], ...] = MOVES) -> MovementPlan:
    """Return the plan of one of `operators` that `to_json` wrote; it is not checked against the rules here."""
    with reading(data):
        if data["guard"]:
            raise InvalidPlan("plan has symbolic extents; bind its dims before saving, then load that")
        return MovementPlan(
            operator=operator_of(data["operator"], operators),
            target=target(data["target"]),
            access=_access(data["access"]),
            derivation=_steps(data["derivation"]),
            views=value_of(tuple[View, View], data["views"], "views"),
            tensor_maps=tuple(TensorMap(**m) for m in data["tensor_maps"]),
            store=value_of(str, data["store"], "store"),
            shared=tuple(value_of(SharedTile, s, "shared") for s in data["shared"]),
            pipeline=value_of(Pipeline, data["pipeline"], "pipeline"),
            launch=value_of(Launch, data["launch"], "launch"),
            cost=value_of(MovementCost, data["cost"], "cost"),
            copies=tuple(value_of(VectorCopy, c, "copies") for c in data["copies"]),
            phases=tuple(value_of(Phase, p, "phases") for p in data["phases"]),
            granules=None if data["granules"] is None else value_of(Granules, data["granules"], "granules"),
            window=None if data["window"] is None else value_of(Window, data["window"], "window"),
            before=tuple(from_json({"version": PLAN_VERSION, **p}, operators) for p in data["before"]),
            candidates=tuple(
                Candidate(
                    _access(c["access"]),
                    _steps(c["derivation"]),
                    value_of(MovementCost, c["cost"], "cost"),
                    value_of(str, c["store"], "store"),
                )
                for c in data["candidates"]
            ),
        )


def _access(data: Mapping[str, Any]) -> Access:
    modes = (integers(mode, "mode", length=4) for mode in data["modes"])
    word, by = integer(data["word"], "word", low=1), one_of(data["by"], "by", NAMES)
    return Access(word, tuple(Mode(*mode) for mode in modes), by)


def _steps(data: Any) -> tuple[Step, ...]:
    return tuple(Step(value_of(str, step["law"], "law"), _access(step["access"])) for step in data)

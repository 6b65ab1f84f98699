"""`Plan`: a chosen layout with every field solved, as plain immutable values that go to JSON and back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from legalsat import files
from legalsat.checks import flag, integer, integers, number, one_of
from legalsat.dtypes import DType, dtype
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.operators import MOVES, Move, Operator
from legalsat.operators.access import MEANS, Access, Mode
from legalsat.options import Backend, RunBackend
from legalsat.printable import printable, shown
from legalsat.program.leaves import Leaf
from legalsat.program.pipeline import Operation, Pipeline
from legalsat.targets import TARGETS, Target, target
from legalsat.tensor import Tensor
from legalsat.units.tensor_map import TensorMap
from legalsat.units.windows import Window

if TYPE_CHECKING:
    from legalsat.units.mma import Mma

PLAN_VERSION = 11


class InvalidPlan(LegalSatError, ValueError):
    """A plan file is no plan, or the plan in it does not hold; the message says where. Synthesise it again."""


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
class Launch:
    """How the kernel is launched.

    Attributes:
        warps: warps of a block.
        programs: blocks of a grid that has not one a tile, as a persistent one; 0 for one a tile.
        grid: modes of which there are several tiles, and how many, in the order in which tiles are counted, fastest
            first. By im2col the first mode of pixels stands for all.

    In a plan with open dims, blocks and tiles are formulas of these.
    """

    warps: int
    programs: int
    grid: tuple[tuple[int, int], ...] = ()

    @property
    def tiles(self) -> Any:
        """Tiles that there are; a formula where extents are open."""
        return math.prod(count for _, count in self.grid)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a plan is predicted to cost; smaller is better, compared by `nanoseconds` first.

    Attributes:
        nanoseconds: predicted time of the whole movement, of every kernel that it takes.
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

    nanoseconds: float
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
    cost: Cost
    store: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A movement with every field solved.

    Attributes:
        operator: what was asked.
        target: the GPU's name.
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
    target: Target
    access: Access
    derivation: tuple[Step, ...]
    views: tuple[View, View]
    tensor_maps: tuple[TensorMap, ...]
    store: str
    shared: tuple[SharedTile, ...]
    pipeline: Pipeline
    launch: Launch
    cost: Cost
    candidates: tuple[Candidate, ...]
    copies: tuple[VectorCopy, ...] = ()
    phases: tuple[Phase, ...] = ()
    granules: Granules | None = None
    window: Window | None = None
    before: tuple[Plan, ...] = ()
    guard: str = ""
    opened: tuple[tuple[Any, Any, Any], ...] = ()

    def __str__(self) -> str:
        from legalsat.view.show import show_plan  # noqa: PLC0415 - showing needs plans

        return printable(show_plan(self))

    def _repr_html_(self) -> str:
        """Return the plan with pictures of its maps for a notebook."""
        from legalsat.view.show_html import plan_html  # noqa: PLC0415 - showing needs plans

        return plan_html(self)

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
    def alone(self) -> Plan:
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

    def bind(self, **values: int) -> Plan:
        """Return the plan for these values of the dims.

        The tensor is planned anew with its numbers, so a bound plan may be better than this one, and may exist outside
        the guard.

        Raises:
            InvalidInput: a dim has no value or one outside its range, or a value names no dim.
            NoLegalLayout: nothing is legal for these values.
        """
        known = {dim.name for end in (self.operator.source, self.operator.target) for dim in end.dims}
        for name in values:
            if name not in known:
                raise InvalidInput(f"plan has no dim {name}; bind {', '.join(sorted(known)) or 'nothing'}")
        from legalsat.extract.search.planner import cached_plan  # noqa: PLC0415 - the planner makes plans

        return cached_plan(self.operator.bind(values), self.target)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain values; `mma` and `issued` follow from the rest, for who reads the file."""
        from legalsat.extract.moved.issued import issued  # noqa: PLC0415 - what programs issue needs plans

        follows = {"mma": plain_value(self.mma), "issued": [one.to_json() for one in issued(self)]}
        fields = {name: value for name, value in plain_value(self).items() if name != "opened"}
        return {"version": PLAN_VERSION, **fields, **follows}

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON.

        Raises:
            LegalSatError: the target is no named one, so that another reader could not tell what was planned for.
        """
        if self.guard:
            raise LegalSatError("plan is open in its dims; bind them, then save that")
        write_plan(self.to_json(), self.target, path)

    @staticmethod
    def load(path: str | Path, *, operators: tuple[type[Move], ...] = ()) -> Plan:
        """Read a plan and check it again by the rules and laws of this version.

        Args:
            path: of the file.
            operators: classes of operators of your own that it may be a plan of; a file brings no code.

        Raises:
            InvalidPlan: the file is no plan, or of an operator that is neither ours nor among yours; or the plan does
                not hold.
        """
        from legalsat.extract.check.recheck import recheck  # noqa: PLC0415 - checking needs the rules

        plan = from_json(read_plan(path, "Plan.save"), (*MOVES, *operators))
        recheck(plan)
        return plan


def write_plan(data: dict[str, Any], on: Target, path: str | Path) -> None:
    """Write plain values of a plan as JSON; raise `LegalSatError` unless the tables have its target by that name."""
    if TARGETS.get(on.name) != on:
        raise LegalSatError(f"target {on} is not the one of that name in the tables; plan for a named one")
    files.write(path, json.dumps(data, indent=1) + "\n")


def read_plan(path: str | Path, saver: str) -> Any:
    """Return the plain values of a plan file; raise `InvalidPlan`, naming what saves one, unless it holds JSON."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        why = error.strerror or error if isinstance(error, OSError) else error
        raise InvalidPlan(f"{path} is no plan: {str(why).lower()}; save one with {saver}") from None


@contextmanager
def reading(data: Any) -> Iterator[None]:
    """Raise `InvalidPlan` unless plain values of a plan are of this version and turn into one in the block."""
    try:
        _require_version(data["version"])
        yield
    except InvalidPlan:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, ArithmeticError, RecursionError) as error:
        raise InvalidPlan(f"plan lacks or garbles a field ({error}); synthesise it again") from None


def _require_version(version: Any) -> None:
    if version != PLAN_VERSION:
        raise InvalidPlan(f"plan has version {version}, this is {PLAN_VERSION}; synthesise it again")


def plain_value(value: Any) -> Any:
    """Return a plan, or a part of one, as plain values; an operation says in "op" what it is, an operator in "kind"."""
    if isinstance(value, Mode):
        return list(value)
    if isinstance(value, Tensor):
        strides, shape = ([str(n) if not isinstance(n, int) else n for n in ns] for ns in (value.strides, value.shape))
        return {
            "shape": shape,
            "dtype": value.dtype.name,
            "strides": strides,
            "align": value.align,
            "offset": value.offset,
        }
    if isinstance(value, Target | DType):
        value = value.name
    if hasattr(value, "__dataclass_fields__"):
        named = {f.name: plain_value(getattr(value, f.name)) for f in fields(value)}
        said = "op" if isinstance(value, Operation) else "kind" if isinstance(value, Operator) else ""
        return {said: type(value).__name__, **named} if said else named
    if isinstance(value, tuple | list):
        return [plain_value(v) for v in value]
    return value


def from_json(data: Any, operators: tuple[type[Operator], ...] = MOVES) -> Plan:
    """Return the plan of one of `operators` that `Plan.to_json` wrote; it is not checked against the rules here."""
    with reading(data):
        if data["guard"]:
            raise InvalidPlan("plan has symbolic extents; bind its dims before saving, then load that")
        return Plan(
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
            cost=value_of(Cost, data["cost"], "cost"),
            copies=tuple(value_of(VectorCopy, c, "copies") for c in data["copies"]),
            phases=tuple(value_of(Phase, p, "phases") for p in data["phases"]),
            granules=None if data["granules"] is None else value_of(Granules, data["granules"], "granules"),
            window=None if data["window"] is None else value_of(Window, data["window"], "window"),
            before=tuple(from_json({"version": PLAN_VERSION, **p}, operators) for p in data["before"]),
            candidates=tuple(
                Candidate(
                    _access(c["access"]),
                    _steps(c["derivation"]),
                    value_of(Cost, c["cost"], "cost"),
                    value_of(str, c["store"], "store"),
                )
                for c in data["candidates"]
            ),
        )


_CHECKS: dict[Any, Callable[[Any, str], Any]] = {int: integer, float: number, bool: flag}


def value_of(kind: Any, data: Any, what: str) -> Any:
    """Return JSON data as a value of `kind`: a number, a text, a name, a flag, a tuple, a dataclass of these, or None.

    Of several kinds it is None or the first, or the operation of a pipeline that it says it is.
    """
    if get_origin(kind) is UnionType:
        kinds = get_args(kind)
        if kind in {Leaf, Operation}:
            kinds = ({one.__name__: one for one in kinds}[data["op"]],)
        return None if data is None else value_of(kinds[0], data, what)
    if get_origin(kind) is Literal:
        return one_of(data, what, get_args(kind))
    if kind in _CHECKS:
        return _CHECKS[kind](data, what)
    if kind is str and isinstance(data, str) and data == printable(data):
        return data
    if get_origin(kind) is tuple and isinstance(data, list):
        kinds = get_args(kind)
        several = kinds if kinds[-1] is not Ellipsis else kinds[:1] * len(data)
        return tuple(value_of(one, entry, what) for one, entry in zip(several, data, strict=True))
    if hasattr(kind, "__dataclass_fields__") and isinstance(data, dict):
        hints = get_type_hints(kind)
        return kind(**{field.name: value_of(hints[field.name], data[field.name], field.name) for field in fields(kind)})
    raise InvalidPlan(f"{what} is {shown(data)}, which no plan has there; synthesise it again")


def _access(data: Mapping[str, Any]) -> Access:
    modes = (integers(mode, "mode", length=4) for mode in data["modes"])
    word, by = integer(data["word"], "word", low=1), one_of(data["by"], "by", MEANS)
    return Access(word, tuple(Mode(*mode) for mode in modes), by)


def _steps(data: Any) -> tuple[Step, ...]:
    return tuple(Step(value_of(str, step["law"], "law"), _access(step["access"])) for step in data)


def tensor_of(data: Mapping[str, Any]) -> Tensor:
    """Return the tensor that `plain_value` wrote."""
    return Tensor(data["shape"], dtype(data["dtype"]), data["strides"], data["align"], data["offset"])


def operator_of(data: Mapping[str, Any], operators: tuple[type[Operator], ...]) -> Any:
    """Return the operator that `plain_value` wrote, of the one of these classes that it names."""
    kinds = {one.__name__: one for one in operators}
    if not isinstance(data["kind"], str) or data["kind"] not in kinds:
        said = f"operator is {shown(data['kind'])}, and plans of {', '.join(kinds)} alone are read"
        raise InvalidPlan(
            f"{said}; read products with GemmPlan.load, programs with ProgramPlan.load, and movements with Plan.load, "
            "which takes classes of your own as operators"
        )
    kind: Any = kinds[data["kind"]]
    return kind(**{one.name: _field(data[one.name]) for one in fields(kind)})


def _field(data: Any) -> Any:
    """Return a field of an operator: a tensor, a tuple, or what JSON has itself."""
    if isinstance(data, list):
        return tuple(map(_field, data))
    return tensor_of(data) if isinstance(data, dict) else data

"""`Program`: a kernel's text and how it is launched, as plain values that need neither the plan nor a GPU.

Numbers of a program in an `OpenProgram` may be formulas of dims, which `Program.to_json` does not take.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from legalsat import files
from legalsat.checks import integer, one_of
from legalsat.dims import Extent
from legalsat.errors import InvalidInput, LegalSatError
from legalsat.logic import ceil_div
from legalsat.plans.codec import plain_value
from legalsat.printable import shown
from legalsat.runtime.cache import Cache
from legalsat.tensor import Tensor, plain
from legalsat.units.tensor_map import TensorMap

PROGRAM_VERSION = 1
NUMBER_TYPES = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "fp32", "fp64")


class InvalidProgram(LegalSatError, ValueError):
    """A file is no program, or one of another version; the message says where. Make it again from its plan."""


@dataclass(frozen=True, slots=True)
class MapArgument:
    """A tensor map, 128 bytes by value (`__grid_constant__`); its address is the operand's and `offset` bytes."""

    operand: str
    map: TensorMap
    offset: Any = 0


@dataclass(frozen=True, slots=True)
class AddressArgument:
    """The address of an operand or a workspace, and `offset` bytes."""

    operand: str
    offset: Any = 0


@dataclass(frozen=True, slots=True)
class NumberArgument:
    """A number of one of `NUMBER_TYPES`."""

    value: Any
    type: str

    def __post_init__(self) -> None:
        one_of(self.type, "type", NUMBER_TYPES)


@dataclass(frozen=True, slots=True)
class MapsArgument:
    """Tensor maps by value, one behind the other, as a kernel takes a struct of them."""

    maps: tuple[MapArgument, ...]


Argument = MapArgument | MapsArgument | AddressArgument | NumberArgument


def named_by(argument: Argument) -> set[str]:
    """Return the operands and workspaces that an argument names."""
    if isinstance(argument, MapsArgument):
        return {one.operand for one in argument.maps}
    return set() if isinstance(argument, NumberArgument) else {argument.operand}


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one kernel of an image is launched.

    Attributes:
        entry: its name in the image.
        grid: blocks. threads: of a block. shared: bytes of dynamic shared memory.
        arguments: in order.
        cluster: blocks of a cluster along each axis of the grid.
        dependent: whether it may begin before the kernel in front of it ends, and waits for that one by itself
            (griddepcontrol.wait).
        cooperative: whether all blocks must run at once.
    """

    entry: str
    grid: tuple[Any, Any, Any]
    threads: int
    shared: int
    arguments: tuple[Argument, ...]
    cluster: tuple[int, int, int] = (1, 1, 1)
    dependent: bool = False
    cooperative: bool = False


@dataclass(frozen=True, slots=True)
class Operand:
    """An array that is passed.

    Attributes:
        name: such as "a".
        tensor: its shape, dtype and strides; its address must lie `offset` bytes behind a multiple of `align`.
    """

    name: str
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class Workspace:
    """Memory for the time of a call, at multiples of 256 bytes.

    Attributes:
        name: by which arguments name it. bytes: its size. zeroed: whether it holds zeros when the call begins.
        kept: whether what the first call writes there stays for those that follow.
    """

    name: str
    bytes: Any
    zeroed: bool = False
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Relayout:
    """A movement that runs first; the kernel reads what it wrote instead of the operand.

    Attributes:
        operand: the operand's name.
        program: the movement.
        constant: whether the operand never changes, so that once is enough.
    """

    operand: str
    program: Program
    constant: bool


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel as text, and everything that a call needs.

    Attributes:
        subject: what it computes, in words.
        architecture: what the text is compiled for, such as "sm_90a".
        text: the source, in the builder's language.
        operands: the arrays that are passed, the result last.
        recipes: the kernels to launch, in order.
        workspaces: memory that they need besides.
        before: movements that run first.
        signature: types of the arguments, for builders whose language does not say them in the text.
        builder: the module that makes an image of the text; one of `legalsat.backends.builders()`.
    """

    subject: str
    architecture: str
    text: str
    operands: tuple[Operand, ...]
    recipes: tuple[Recipe, ...]
    workspaces: tuple[Workspace, ...] = ()
    before: tuple[Relayout, ...] = ()
    signature: tuple[str, ...] = ()
    builder: str = ""

    def __post_init__(self) -> None:
        if not self.operands or not self.recipes:
            raise InvalidInput("program has no operand or no recipe; give one of each at least")
        names = [*(one.name for one in self.operands), *(one.name for one in self.workspaces)]
        if len(set(names)) < len(names):
            raise InvalidInput(f"operands and workspaces are named {', '.join(names)}; give each its own name")
        used = {name for recipe in self.recipes for one in recipe.arguments for name in named_by(one)}
        if unknown := (used | {one.operand for one in self.before}) - set(names):
            raise InvalidInput(f"arguments name {', '.join(sorted(unknown))}; name {', '.join(names)}")

    @property
    def result(self) -> Operand:
        """What is written."""
        return self.operands[-1]

    @property
    def in_order(self) -> tuple[Program, ...]:
        """The programs that a call runs: movements first, then this one."""
        return (*(one.program for one in self.before), self)

    def to_json(self) -> dict[str, Any]:
        """Return the program as plain values."""
        return {"version": PROGRAM_VERSION, **_plain(self)}

    def save(self, path: str | Path) -> None:
        """Write the program as JSON.

        Raises:
            InvalidInput: no file can be written there.
        """
        files.write(path, json.dumps(self.to_json()) + "\n")

    @staticmethod
    def load(path: str | Path) -> Program:
        """Read a program. Its text is compiled and run as it is, so load files alone that you trust.

        Raises:
            InvalidProgram: the file is no program of this version.
        """
        try:
            return program_from_json(json.loads(Path(path).read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            if isinstance(error, LegalSatError):
                raise
            raise InvalidProgram(f"{path} is no program: {error}; save one with Program.save") from None


@dataclass(frozen=True, slots=True)
class Image:
    """What a builder made of a program.

    Attributes:
        code: a cubin, or PTX text.
        recipes: how its kernels are launched; the program's own, or what the compiler made of them.
    """

    code: bytes
    recipes: tuple[Recipe, ...]

    def to_bytes(self) -> bytes:
        """Return the image as bytes: a line of JSON, then the code."""
        return json.dumps([_plain(one) for one in self.recipes]).encode() + b"\n" + self.code

    @staticmethod
    def from_bytes(data: bytes) -> Image:
        """Return the image that `to_bytes` wrote; raises `InvalidProgram` if it is none."""
        head, _, code = data.partition(b"\n")
        return Image(code, _read(lambda: tuple(_recipe(one) for one in json.loads(head))))


def needed(tensor: Tensor, bytes: int) -> Tensor:
    """Return a tensor whose address is known to multiples of what a kernel needs, and no further.

    Args:
        tensor: as planned.
        bytes: what the kernel's accesses need the address to be a multiple of, but for the tensor's offset.
    """
    align = min(tensor.align, bytes)
    return Tensor(tensor.shape, tensor.dtype, tensor.strides, align, tensor.offset % align)


def with_operand(program: Program, name: str, tensor: Tensor) -> Program:
    """Return the program whose operand of this name is another tensor, as where a relayout reads it."""
    operands = tuple(Operand(name, tensor) if one.name == name else one for one in program.operands)
    return replace(program, operands=operands)


def span_bytes(tensor: Tensor) -> Any:
    """Return the bytes from a tensor's first to its last, rounded up; a formula where its extents are open."""
    last: Extent = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True))
    bits = tensor.dtype.bits
    found: Extent = (last + 1) * (bits // 8) if bits % 8 == 0 else ceil_div((last + 1) * bits, 8)
    return found


def program_from_json(data: Any) -> Program:
    """Return the program that `Program.to_json` wrote.

    Raises:
        InvalidProgram: it is none, or one of another version.
    """
    if not isinstance(data, Mapping) or data.get("version") != PROGRAM_VERSION:
        raise InvalidProgram(f"program is not of version {PROGRAM_VERSION}; make it again from its plan")
    found: Program = _read(lambda: _program(data))
    return found


def read_program(cache: Cache, key: str) -> Program | None:
    """Return the program that `write_program` kept under a key; None if none is, or another version wrote it."""
    data = cache.read(key)
    try:
        return None if data is None else program_from_json(json.loads(data))
    except InvalidProgram:
        return None


def write_program(cache: Cache, key: str, program: Program) -> None:
    """Keep a program under a key."""
    cache.write(key, json.dumps(program.to_json()).encode())


def _read(make: Any) -> Any:
    try:
        return make()
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise InvalidProgram(f"program lacks or garbles a field ({error}); make it again from its plan") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return {**plain_value(value), "shape": plain(value.shape), "strides": plain(value.strides)}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, TensorMap) or not hasattr(value, "__dataclass_fields__"):
        return plain_value(value)
    return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}


def _program(data: Mapping[str, Any]) -> Program:
    return Program(
        subject=_text(data["subject"]),
        architecture=_text(data["architecture"]),
        text=_text(data["text"]),
        operands=tuple(Operand(_text(one["name"]), Tensor(**one["tensor"])) for one in _list(data["operands"])),
        recipes=tuple(_recipe(one) for one in _list(data["recipes"])),
        workspaces=tuple(
            Workspace(_text(one["name"]), integer(one["bytes"], "bytes", low=1), one["zeroed"] is True)
            for one in _list(data["workspaces"])
        ),
        before=tuple(
            Relayout(_text(one["operand"]), _program(one["program"]), one["constant"] is True)
            for one in _list(data["before"])
        ),
        signature=tuple(_text(one) for one in _list(data["signature"])),
        builder=_text(data["builder"]),
    )


def _recipe(data: Mapping[str, Any]) -> Recipe:
    return Recipe(
        entry=_text(data["entry"]),
        grid=_three(data["grid"]),
        threads=integer(data["threads"], "threads", low=1),
        shared=integer(data["shared"], "shared", low=0),
        arguments=tuple(_argument(one) for one in _list(data["arguments"])),
        cluster=_three(data["cluster"]),
        dependent=data["dependent"] is True,
        cooperative=data["cooperative"] is True,
    )


def _argument(data: Mapping[str, Any]) -> Argument:
    if "map" in data:
        return _map(data)
    if "maps" in data:
        return MapsArgument(tuple(_map(one) for one in _list(data["maps"])))
    if "type" in data:
        return NumberArgument(data["value"], data["type"])
    return AddressArgument(_text(data["operand"]), integer(data["offset"], "offset"))


def _map(data: Mapping[str, Any]) -> MapArgument:
    return MapArgument(_text(data["operand"]), TensorMap(**data["map"]), integer(data["offset"], "offset"))


def _three(data: Any) -> tuple[int, int, int]:
    x, y, z = (integer(n, "extent", low=1) for n in data)
    return x, y, z


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise InvalidProgram(f"program has {shown(data)} for a list; make it again from its plan")
    return data


def _text(data: Any) -> str:
    if not isinstance(data, str):
        raise InvalidProgram(f"program has {shown(data)} for a text; make it again from its plan")
    return data

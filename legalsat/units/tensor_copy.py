"""Executions of bulk copies: what an instruction adds to its tensor map, and what the encode call never sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from legalsat.checks import flag, integer, integers, one_of
from legalsat.errors import InvalidInput
from legalsat.layout.swizzle import Swizzle
from legalsat.operators import as_tensor
from legalsat.options import SwizzleName
from legalsat.printable import shown
from legalsat.tensor import Tensor
from legalsat.units.tensor_map import INT32_MAX, INT32_MIN, UINT64_MAX, TensorMap, enum_name

REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


@dataclass(frozen=True, slots=True)
class TensorCopy:
    """One execution of cp.async.bulk.tensor, or cp.reduce.async.bulk.tensor, with its tensor map.

    All but the map may be left out: what is None is not known, and no rule judges it.

    Attributes:
        tensor_map: the map that the instruction is given.
        stores: whether it writes global memory.
        reduces: the operation if it reduces into global memory, such as "add"; it stores then.
        coordinate: rank numbers, fastest dimension first, in elements.
        shared_address: byte address in the block's shared memory, destination of a load and source of a store.
        shared_bytes: size of the buffer there, in bytes.
        transaction_bytes: what the barrier expects in one phase of `copies` copies.
        copies: how many copies of this map's box complete in that phase; with multicast, those that arrive here.
        tensor: what the map is meant to describe: a `Tensor` or an array.
        map_pitch: bytes between CUtensorMap objects, where they lie in an array.
        read_as: the swizzle that whoever reads or writes the tile assumes, such as a matrix descriptor's.
        by_address: whether whoever does swizzles absolute addresses, or tells a descriptor the base offset; else the
            swizzle is reckoned from the tile's start, as most do.

    Raises:
        InvalidInput: a number has no meaning, the coordinate has another rank than the map, or the tensor has dims.
    """

    tensor_map: TensorMap
    stores: bool = False
    reduces: str | None = None
    coordinate: tuple[int, ...] | None = None
    shared_address: int | None = None
    shared_bytes: int | None = None
    transaction_bytes: int | None = None
    copies: int = 1
    tensor: Tensor | None = None
    map_pitch: int | None = None
    read_as: str | int | None = None
    by_address: bool = False

    def __post_init__(self) -> None:
        """Check every number and name."""
        if not isinstance(self.tensor_map, TensorMap):
            raise InvalidInput(f"tensor_map is {shown(self.tensor_map)}; give a TensorMap")
        put = object.__setattr__
        put(self, "stores", _stores(self.stores, self.reduces))
        put(self, "copies", integer(self.copies, "copies", low=1))
        flag(self.by_address, "by_address")
        for name in ("shared_address", "shared_bytes", "transaction_bytes", "map_pitch"):
            put(self, name, _number(getattr(self, name), name))
        if self.coordinate is not None:
            rank = self.tensor_map.rank
            put(self, "coordinate", integers(self.coordinate, "coordinate", low=INT32_MIN, high=INT32_MAX, length=rank))
        if self.read_as is not None:
            put(self, "read_as", enum_name("swizzle", self.read_as))
        if self.tensor is not None:
            put(self, "tensor", as_tensor(self.tensor))
            if self.tensor.dims:
                raise InvalidInput("the tensor of a copy has dims; bind them, as an execution has numbers")

    @property
    def pattern_bytes(self) -> int:
        """Bytes after which the swizzle's pattern repeats in shared memory; 1 without one that is known."""
        swizzle = self.tensor_map.swizzle
        # Flipping halves of 16 bytes on every second line leaves the period alone (FACTS SW-06).
        return Swizzle.tma(swizzle.removesuffix("_flip_8B")).period if isinstance(swizzle, str) else 1

    def __str__(self) -> str:
        kind = f"{self.reduces} reduction" if self.reduces else "store" if self.stores else "load"
        at = "" if self.coordinate is None else f" at ({', '.join(map(str, self.coordinate))})"
        return f"TMA {kind}{at}, {self.tensor_map}"


@dataclass(frozen=True, slots=True)
class BulkCopy:
    """One execution of cp.async.bulk, or cp.reduce.async.bulk, which take no tensor map: plain bytes in a row.

    What is None is not known, and no rule judges it.

    Attributes:
        bytes: size of the copy.
        global_address: byte address in global memory, or where only its alignment is known, that alignment.
        shared_address: byte address in the block's shared memory.
        stores: whether it writes global memory.
        reduces: the operation if it reduces into global memory, such as "add"; it stores then.
        swizzle: how the tile in shared memory is swizzled, for whoever else reads or writes it.

    Raises:
        InvalidInput: a number has no meaning, or a name is unknown.
    """

    bytes: int | None = None
    global_address: int | None = None
    shared_address: int | None = None
    stores: bool = False
    reduces: str | None = None
    swizzle: SwizzleName | int = "none"

    def __post_init__(self) -> None:
        """Check every number and name."""
        put = object.__setattr__
        put(self, "stores", _stores(self.stores, self.reduces))
        put(self, "swizzle", enum_name("swizzle", self.swizzle))
        for name in ("bytes", "global_address", "shared_address"):
            put(self, name, _number(getattr(self, name), name))

    def __str__(self) -> str:
        kind = f"{self.reduces} reduction" if self.reduces else "store" if self.stores else "load"
        return f"bulk {kind}" + ("" if self.bytes is None else f" of {self.bytes} bytes")


def _stores(stores: Any, reduces: Any) -> bool:
    """Return whether global memory is written."""
    if reduces is not None:
        one_of(reduces, "reduces", REDUCTIONS)
    return flag(stores, "stores") or reduces is not None


def _number(value: Any, name: str) -> int | None:
    return None if value is None else integer(value, name, low=0, high=UINT64_MAX)

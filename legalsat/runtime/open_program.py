"""`OpenProgram`: texts of kernels by ranges of extents, whose launches are worked out when the dims are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from legalsat.checks import INT64_MAX
from legalsat.dims import Amount, Dim, Open, at
from legalsat.errors import InvalidInput
from legalsat.runtime.program import (
    AddressArgument,
    Argument,
    MapArgument,
    MapsArgument,
    NumberArgument,
    Operand,
    Program,
    Recipe,
)
from legalsat.runtime.views import Mismatch


@dataclass(frozen=True, slots=True)
class OpenChoice:
    """A program whose numbers are formulas of dims, and the extents that it is for.

    Attributes:
        set: the values of the dims, in isl's notation.
        program: with formulas for numbers that extents decide: of its grid, arguments, maps, operands and workspaces.
    """

    set: str
    program: Program

    def holds(self, numbers: Sequence[int]) -> bool:
        """Return whether numbers, one a dim in the order of their names, are in the set."""
        from legalsat.analyses.sets.regions import holds, pieces_of  # noqa: PLC0415 - closed programs need no isl

        return bool(holds(pieces_of(self.set), numbers))


@dataclass(frozen=True, slots=True)
class OpenProgram:
    """Programs of one computation whose extents are known at the call.

    Attributes:
        dims: the dims, by name.
        guard: what their values must be, as a sentence.
        choices: texts with the extents that each is for; no extents are in the sets of two.
    """

    dims: tuple[Dim, ...]
    guard: str
    choices: tuple[OpenChoice, ...]

    @property
    def subject(self) -> str:
        """What is computed, in words."""
        return self.choices[0].program.subject

    @property
    def architecture(self) -> str:
        """What the texts are compiled for."""
        return self.choices[0].program.architecture

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The arrays that are passed, with dims in their shapes, the result last."""
        return self.choices[0].program.operands

    def values_of(self, layouts: Sequence[tuple[Sequence[int], Sequence[int] | None]]) -> dict[str, int]:
        """Return what the dims are where the operands have these shapes and strides; the result's may be left out.

        Raises:
            Mismatch: a shape has another number of axes, two of them say different things of a dim, or none says one.
        """
        found: dict[str, int] = {}
        for operand, (shape, _) in zip(self.operands, layouts, strict=False):
            if len(shape) != operand.tensor.rank:
                raise Mismatch(f"{operand.name} has {len(shape)} axes, this kernel takes {operand.tensor.rank}")
            for extent, number in zip(operand.tensor.shape, shape, strict=True):
                if isinstance(extent, Dim) and found.setdefault(extent.name, number) != number:
                    raise Mismatch(
                        f"{operand.name} has shape {tuple(shape)}, but {extent} is {found[extent.name]} before it; "
                        "give operands that agree"
                    )
        for operand, (shape, strides) in zip(self.operands, layouts, strict=False):
            for extent, number, step in zip(operand.tensor.strides, shape, strides or (), strict=False):
                if isinstance(extent, Dim) and number != 1:
                    found.setdefault(extent.name, step)
        for dim in self.dims:
            if dim.name not in found:
                raise Mismatch(f"no operand says what {dim} is; pass out=, or plan with {dim} as an extent or a stride")
        return found

    def choice(self, values: Mapping[str, int]) -> int:
        """Return which of the choices is for these values of the dims.

        Raises:
            Mismatch: none is; the message is the guard.
        """
        numbers = [values[dim.name] for dim in self.dims]
        for number, one in enumerate(self.choices):
            if one.holds(numbers):
                return number
        said = ", ".join(f"{dim} = {values[dim.name]}" for dim in self.dims)
        raise Mismatch(f"{self.guard}, and {said}; plan for that")

    def some(self, number: int) -> Program:
        """Return the program of one of the choices for some of its values."""
        from legalsat.analyses.sets.regions import most_aligned, read  # noqa: PLC0415 - closed programs need no isl

        one = self.choices[number]
        names = [dim.name for dim in self.dims]
        return bound(one.program, dict(zip(names, most_aligned(read(one.set)), strict=True)))

    def bind(self, values: Mapping[str, int]) -> Program:
        """Return the program for these values of the dims, every number known.

        Raises:
            Mismatch: no choice is for them.
        """
        return bound(self.choices[self.choice(values)].program, values)


def bound(program: Program, values: Mapping[str, int]) -> Program:
    """Return a program whose formulas are worked out at these values of the dims."""

    def known(extent: Amount) -> int:
        number: int = at(extent, values)
        if number > INT64_MAX:
            raise InvalidInput(f"{extent} is {number}, beyond 2^63 - 1; give smaller extents")
        return number

    def map_of(one: MapArgument) -> MapArgument:
        return MapArgument(one.operand, one.map.bind(values) if one.map.dims else one.map, known(one.offset))

    def argument(one: Argument) -> Argument:
        if isinstance(one, MapsArgument):
            return MapsArgument(tuple(map(map_of, one.maps)))
        if isinstance(one, MapArgument):
            return map_of(one)
        if isinstance(one, AddressArgument):
            return AddressArgument(one.operand, known(one.offset))
        number: Any = one.value
        return NumberArgument(known(number), one.type) if isinstance(number, Open) else one

    def recipe(one: Recipe) -> Recipe:
        x, y, z = map(known, one.grid)
        return replace(one, grid=(x, y, z), arguments=tuple(map(argument, one.arguments)))

    return replace(
        program,
        operands=tuple(Operand(one.name, one.tensor.bind(values)) for one in program.operands),
        recipes=tuple(map(recipe, program.recipes)),
        workspaces=tuple(replace(one, bytes=known(one.bytes)) for one in program.workspaces),
        before=tuple(replace(one, program=bound(one.program, values)) for one in program.before),
    )

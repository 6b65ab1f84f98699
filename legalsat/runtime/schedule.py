"""`Schedule`: programs that run one after another, each once or at every call, and where the operands of each lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from legalsat.errors import InvalidInput
from legalsat.runtime.program import AddressArgument, Operand, Program, Workspace, span_bytes


@dataclass(frozen=True, slots=True)
class Turn:
    """A program in its turn.

    Attributes:
        program: without movements in front and workspaces of its own.
        places: for each name that its arguments have the operand or workspace of the schedule, and bytes into it.
        once: whether it runs at the first call alone, since all that it reads is constant.
        what: it makes, in words.
    """

    program: Program
    places: Mapping[str, AddressArgument]
    once: bool
    what: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """Programs in their turns, and all memory that they take.

    Attributes:
        subject: what is computed, in words. architecture: what the texts are compiled for.
        operands: the arrays that are passed, what is written last.
        results: how many of them are written.
        workspaces: memory besides; what a turn writes that runs once is kept.
        turns: in order.
    """

    subject: str
    architecture: str
    operands: tuple[Operand, ...]
    results: int
    workspaces: tuple[Workspace, ...]
    turns: tuple[Turn, ...]

    def __post_init__(self) -> None:
        names = [*(one.name for one in self.operands), *(one.name for one in self.workspaces)]
        if len(set(names)) < len(names):
            raise InvalidInput(f"operands and workspaces are named {', '.join(names)}; give each its own name")
        if unknown := {place.operand for turn in self.turns for place in turn.places.values()} - set(names):
            raise InvalidInput(f"turns read or write {', '.join(sorted(unknown))}; name {', '.join(names)}")

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """What is read."""
        return self.operands[: -self.results]

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """What is written."""
        return self.operands[-self.results :]

    @property
    def texts(self) -> tuple[str, ...]:
        """The turns' texts, equal ones once."""
        return tuple(dict.fromkeys(turn.program.text for turn in self.turns))

    @property
    def constants(self) -> tuple[Operand, ...]:
        """What turns read that run once."""
        names = dict.fromkeys(
            turn.places[one.name].operand for turn in self.turns if turn.once for one in turn.program.operands[:-1]
        )
        inputs = {one.name: one for one in self.inputs}
        return tuple(inputs[name] for name in names if name in inputs)


def turns_of(
    program: Program, places: Mapping[str, AddressArgument], *, once: bool, prefix: str = "", what: str = ""
) -> tuple[list[Workspace], list[Turn]]:
    """Return the workspaces and the turns of a program, with the movements that run in front of it.

    Args:
        program: what runs.
        places: where its operands lie, by name.
        once: whether all that it reads is constant.
        prefix: of the names of workspaces.
        what: it makes; its subject when left out.
    """
    spaces, turns, at = list[Workspace](), list[Turn](), dict(places)
    for one in program.before:
        name, fixed = f"{prefix}laid_out_{one.operand}", once or one.constant
        (source, result), laid = one.program.operands, AddressArgument(f"{prefix}laid_out_{one.operand}")
        spaces.append(Workspace(name, span_bytes(result.tensor), kept=fixed))
        ends = {source.name: at[one.operand], result.name: laid}
        said = f"{name}: {one.program.subject}"
        more, first = turns_of(one.program, ends, once=fixed, prefix=f"{name}_", what=said)
        spaces, turns, at = spaces + more, turns + first, {**at, one.operand: laid}
    for space in program.workspaces:
        spaces.append(replace(space, name=f"{prefix}{space.name}", kept=once))
        at[space.name] = AddressArgument(f"{prefix}{space.name}")
    alone = replace(program, before=())
    return spaces, [*turns, Turn(alone, at, once, what or program.subject)]


def schedule_of(program: Program) -> Schedule:
    """Return the schedule of a program by itself: the movements in front of it, and it."""
    places = {one.name: AddressArgument(one.name) for one in program.operands}
    spaces, turns = turns_of(program, places, once=False)
    return Schedule(program.subject, program.architecture, program.operands, 1, tuple(spaces), tuple(turns))

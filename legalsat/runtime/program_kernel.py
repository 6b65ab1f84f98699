"""`ProgramKernel`: programs in their turns that take arrays; what reads constants alone runs once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from legalsat.errors import InvalidInput
from legalsat.logic import round_up
from legalsat.runtime.cache import Cache, key_of
from legalsat.runtime.calls import Memory, in_stream, memory_on, new_result, one_gpu, require_apart, stream_number
from legalsat.runtime.driver import Driver, the_driver
from legalsat.runtime.kept import KEPT, made_once
from legalsat.runtime.kernel import Kernel
from legalsat.runtime.loaded import Loaded
from legalsat.runtime.memory import TorchMemory
from legalsat.runtime.program import Workspace
from legalsat.runtime.schedule import Schedule
from legalsat.runtime.views import check, torch_or_none, view_of

WORKSPACE_ALIGNMENT = 256


class ProgramKernel:
    """A schedule that can be called with arrays: `y = kernel(x, w)`; several results are a tuple, and so is `out`.

    Arrays and streams are as of `Kernel`. Memory between inputs and results is taken for the time of a call. What is
    made of constant inputs alone is made at the first call, and kept for as long as torch's tensors live and are not
    changed in place; of other arrays it is made at every call.

    Attributes:
        schedule: what is launched, and how.
    """

    def __init__(self, schedule: Schedule, *, driver: Driver | None = None, cache: Cache | None = None) -> None:
        """Take a schedule; nothing is built yet. Driver and cache are as of `Kernel`."""
        self.schedule, self._driver = schedule, driver
        programs = {turn.program: Kernel(turn.program, driver=driver, cache=cache) for turn in schedule.turns}
        self._kernels = [programs[turn.program] for turn in schedule.turns]
        self._memory: dict[int, TorchMemory] = {}
        self._spaces = {
            kept: _laid_out(one for one in schedule.workspaces if one.kept == kept) for kept in (True, False)
        }
        names = [one.name for one in schedule.inputs]
        self._constants = [names.index(one.name) for one in schedule.constants]
        once = [json.dumps(turn.program.to_json()) for turn in schedule.turns if turn.once]
        self._name = key_of("schedule", *once) if once else ""

    def __repr__(self) -> str:
        count = len(self._kernels)
        return f"<ProgramKernel: {self.schedule.subject}, for {self.schedule.architecture}, {count} programs>"

    def build(self) -> ProgramKernel:
        """Compile what is not in the cache yet; needs no GPU.

        Raises:
            LegalSatError: the tool that compiles it is missing, or refuses it.
        """
        for one in self._kernels:
            one.build()
        return self

    def load(self, device: int = 0) -> ProgramKernel:
        """Load onto a GPU what calls on it need, as `Kernel.load`."""
        for one in self._kernels:
            one.load(device)
        return self

    def forget(self) -> None:
        """Forget what was made of constant inputs, as after a change that torch does not count (`.data`)."""
        KEPT.forget([self._name])

    def __call__(self, *arrays: Any, out: Any = None, stream: Any = None) -> Any:
        """Run on arrays.

        Args:
            arrays: the inputs, in the program's order.
            out: where the result goes, of several a tuple; new torch tensors when left out.
            stream: as of `Kernel`.

        Returns:
            The result, or a tuple of several.

        Raises:
            Mismatch: an array is not what was planned for.
            NoDriver: there is no GPU.
            LegalSatError: the kernels are for another GPU, or cannot be compiled or launched.
        """
        schedule = self.schedule
        if len(arrays) != len(schedule.inputs):
            names = ", ".join(one.name for one in schedule.inputs)
            raise InvalidInput(f"kernel was given {len(arrays)} arrays; give {len(schedule.inputs)}: {names}")
        given = _several(out, schedule)
        driver, torch = self._driver or the_driver(), torch_or_none()
        number = stream_number(torch, arrays, stream)
        views = [view_of(one, driver, number) for one in arrays]
        index = one_gpu(schedule.inputs, views)
        memory = memory_on(driver, torch, index, number, self._memory)
        for operand, view in zip(schedule.inputs, views, strict=True):
            check(operand, view, index)
        with in_stream(memory, number):
            results = [
                new_result(torch, memory, operand) if one is None else one
                for one, operand in zip(given, schedule.outputs, strict=True)
            ]
            for operand, one in zip(schedule.outputs, results, strict=True):
                place = view_of(one, driver, number)
                check(operand, place, index)
                require_apart(schedule.operands[: len(views)], views, operand, place)
                views.append(place)
            loaded = [one._loaded.get(index) or one._load(index) for one in self._kernels]
            at = {operand.name: view.address for operand, view in zip(schedule.operands, views, strict=True)}
            self._run(loaded, arrays, at, number, memory)
        if torch is not None:
            for one in given:
                if isinstance(one, torch.Tensor):
                    torch.autograd.graph.increment_version(one)
        return results[0] if len(results) == 1 else tuple(results)

    def _run(
        self, loaded: list[Loaded], arrays: tuple[Any, ...], at: dict[str, int], stream: int, memory: Memory
    ) -> None:
        """Make what is constant, or find it; then launch the rest."""
        taken: list[Any] = []

        def take(size: int) -> int:
            address, owner = memory.take(size)
            taken.append(owner)
            return address

        def write(begin: int) -> None:
            self._launch(loaded, at | _placed(kept, begin), stream, once=True)

        kept, size = self._spaces[True]
        try:
            if size:
                constants = [arrays[position] for position in self._constants]
                begin = made_once(self._name, constants, size, memory, take=take, write=write)
                at |= _placed(kept, begin)
            places, size = self._spaces[False]
            self._launch(loaded, at | _placed(places, take(size) if size else 0), stream, once=False)
        finally:
            for one in taken:
                memory.give(one)

    def _launch(self, loaded: list[Loaded], at: Mapping[str, int], stream: int, *, once: bool) -> None:
        """Clear memory and launch what runs once, or what runs at every call."""
        for space in self.schedule.workspaces:
            if space.zeroed and space.kept == once:
                loaded[0].device.clear(at[space.name], space.bytes, stream)
        for turn, one in zip(self.schedule.turns, loaded, strict=True):
            if turn.once == once:
                names = tuple(turn.places)
                addresses = (at[place.operand] + place.offset for place in turn.places.values())
                one.launch(names, (*addresses, stream))


def _several(out: Any, schedule: Schedule) -> list[Any]:
    """Return what a call was given for each result, None for those that are to be made."""
    count = schedule.results
    if out is None:
        return [None] * count
    found = list(out) if isinstance(out, tuple | list) else [out]
    if len(found) != count:
        names = ", ".join(one.name for one in schedule.outputs)
        raise InvalidInput(f"out has {len(found)} arrays; give {count}: {names}")
    return found


def _laid_out(spaces: Iterable[Workspace]) -> tuple[dict[str, int], int]:
    """Return where each workspace begins in one piece of memory, and its size."""
    places, end = dict[str, int](), 0
    for space in spaces:
        places[space.name] = end
        end += round_up(space.bytes, WORKSPACE_ALIGNMENT)
    return places, end


def _placed(places: Mapping[str, int], begin: int) -> dict[str, int]:
    return {name: begin + place for name, place in places.items()}

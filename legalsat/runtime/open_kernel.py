"""`OpenKernel`: a kernel whose extents are those of the arrays that it is called with."""

from __future__ import annotations

import threading
from typing import Any

from legalsat.arrays import describe
from legalsat.errors import InvalidInput
from legalsat.recent import Recent
from legalsat.runtime.cache import Cache
from legalsat.runtime.driver import Driver
from legalsat.runtime.kernel import Kernel
from legalsat.runtime.open_program import OpenProgram
from legalsat.runtime.views import torch_or_none

MOST_BOUND = 256  # launches that are kept, each of a few kilobytes


class OpenKernel:
    """A kernel for every value of its dims: `c = kernel(a, b)`, as of `Kernel`.

    Its texts are compiled once, by `build` or the first call. A call reads the dims off its arrays, works the launch
    out, and keeps it for the next call with those extents.

    Attributes:
        program: what is launched, and how.
    """

    def __init__(self, program: OpenProgram, *, driver: Driver | None = None, cache: Cache | None = None) -> None:
        """Take a program; nothing is built yet. Driver and cache are those of `Kernel`."""
        self.program, self._driver, self._cache = program, driver, cache
        self._first: list[Kernel | None] = [None] * len(program.choices)
        self._bound: Recent[Kernel] = Recent(MOST_BOUND)
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        dims = ", ".join(dim.name for dim in self.program.dims)
        return f"<OpenKernel: {self.program.subject}, open in {dims}, for {self.program.architecture}>"

    def build(self) -> OpenKernel:
        """Compile every text that is not in the cache yet; needs no GPU.

        Raises:
            LegalSatError: as `Kernel.build`.
        """
        for number in range(len(self._first)):
            self._built(number)
        return self

    def bind(self, **values: int) -> Kernel:
        """Return the kernel for these values of the dims; it compiles nothing that another one has compiled.

        Raises:
            Mismatch: the guard does not hold.
            InvalidInput: a dim has no value, or a value names no dim.
        """
        names = [dim.name for dim in self.program.dims]
        if set(values) != set(names):
            raise InvalidInput(f"values are of {', '.join(sorted(values)) or 'nothing'}; bind {', '.join(names)}")
        return self._kernel(tuple(values[name] for name in names))

    def __call__(self, *arrays: Any, out: Any = None, stream: Any = None) -> Any:
        """Run on arrays; arguments and result are those of `Kernel`.

        Raises:
            Mismatch: the guard does not hold for the arrays' extents, or as `Kernel`.
        """
        torch = torch_or_none()
        inputs = self.program.operands[:-1]
        if len(arrays) != len(inputs):
            names = ", ".join(one.name for one in inputs)
            raise InvalidInput(f"kernel was given {len(arrays)} arrays; give {len(inputs)}: {names}")
        layouts = []
        for one in (*arrays, *([] if out is None else [out])):
            if torch is not None and isinstance(one, torch.Tensor):
                layouts.append((tuple(one.shape), one.stride()))
            else:
                found = describe(one)
                layouts.append((found.shape, found.strides))
        values = self.program.values_of(layouts)
        kernel = self._kernel(tuple(values[dim.name] for dim in self.program.dims))
        return kernel(*arrays, out=out, stream=stream)

    def _kernel(self, numbers: tuple[int, ...]) -> Kernel:
        def bound() -> Kernel:
            values = {dim.name: number for dim, number in zip(self.program.dims, numbers, strict=True)}
            number = self.program.choice(values)
            like = self._built(number)
            return Kernel(self.program.bind(values), driver=self._driver, cache=self._cache, like=like)

        return self._bound.answer(numbers, bound)

    def _built(self, number: int) -> Kernel:
        """Return a kernel of a choice's text, whose image all of that choice share."""
        with self._lock:
            found = self._first[number]
            if found is None:
                some = self.program.some(number)
                found = self._first[number] = Kernel(some, driver=self._driver, cache=self._cache)
            return found.build()

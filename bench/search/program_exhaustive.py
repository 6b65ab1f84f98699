"""The cheapest way to run a program, by trying every way there is: what the planner of programs is measured against.

It has no e-graph, no classes and no bounds: it rewrites whole terms of all results, breadth first, by the plain reading
of the laws, and for each of them tries every place for every matrix, every operand of every product in every place that
it may be read from, and every pass from one place to another. A way is left alone only once it already costs what the
best one does. Shared with the planner are the laws, and what a step costs (`legalsat.extract.composed.works.cost_of`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import legalsat as ls
from legalsat.extract.composed.classes import terms_of
from legalsat.extract.composed.works import cost_of
from legalsat.rules.rewrites import VALUE_LAWS
from legalsat.targets import Target, target
from legalsat.tensor import Tensor, plain
from legalsat.terms.trees import Term, TermLaw, steps_of, subterms

MOST_FORMS = 20_000
GRANULE = 16


class TooManyWays(Exception):
    """There are more ways than are tried."""


class Want(NamedTuple):
    """A matrix that must lie in a place: in memory of its own or as a view, or in a part of another's."""

    term: Term
    tensor: Tensor
    part_of: Any = None  # (what fills the memory, how it lies, bytes), or the number of a result


def forms(program: ls.Program, laws: tuple[TermLaw, ...] = VALUE_LAWS) -> set[tuple[Term, ...]]:
    """Return every form of the results: what the laws make of them together."""
    terms = terms_of(program)
    start = Term("all", tuple(terms[one.value] for one in program.results))
    seen, waiting = {start}, deque([start])
    while waiting:
        for found, _ in steps_of(waiting.popleft(), laws):
            if found not in seen:
                seen.add(found)
                waiting.append(found)
        if len(seen) > MOST_FORMS:
            raise TooManyWays(f"more than {MOST_FORMS} forms")
    return {tuple(bare(part) for part in one.parts) for one in seen}


def bare(term: Any) -> Any:
    """Return a term without what says that parts are asked for."""
    if not isinstance(term, Term):
        return term
    return bare(term.parts[-1]) if term.name == "asked" else Term(term.name, tuple(map(bare, term.parts)))


def cheapest(program: ls.Program, gpu: str) -> float:
    """Return the nanoseconds of the cheapest way."""
    trial = _Trial(program, target(gpu))
    for form in sorted(forms(program), key=str):
        trial.attempt(form)
    return round(trial.best, 1)


@dataclass
class _Trial:
    program: ls.Program
    target: Target
    best: float = float("inf")
    tried: int = 0
    _inputs: dict[str, Any] = field(default_factory=dict)
    _form: tuple[Term, ...] = ()
    _slices: list[Term] = field(default_factory=list)
    _places: dict[Term, list[Tensor]] = field(default_factory=dict)
    _known: dict[Want, list[tuple[float, tuple[Want, ...]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._inputs = {one.name: one for one in self.program.inputs}

    def attempt(self, form: tuple[Term, ...]) -> None:
        """Try every way to make results of this form."""
        self._form, self._places, self._known = form, {}, {}
        every = {one for term in form for one in subterms(term)}
        self._slices = [one for one in every if one.name == "slice"]
        results = zip(form, self.program.results, strict=True)
        self._make([Want(term, one.tensor, number) for number, (term, one) in enumerate(results)], {}, 0.0)

    def _make(self, wanted: list[Want], made: dict[Want, tuple[Want, ...]], spent: float) -> None:
        if spent >= self.best:
            return
        waiting = [one for one in wanted if one not in made]
        if not waiting:
            self.best = spent
            return
        want = waiting[0]
        for nanoseconds, needed in self._ways(want):
            if not _circular(want, needed, made):
                self.tried += 1
                self._make([*waiting[1:], *needed], {**made, want: needed}, spent + nanoseconds)

    def _ways(self, want: Want) -> list[tuple[float, tuple[Want, ...]]]:
        if want not in self._known:
            written = want.part_of is not None or want.tensor in self._own(want.term)
            self._known[want] = [*self._seen(want), *(self._written(want) if written else ())]
        return self._known[want]

    def _seen(self, want: Want) -> Iterator[tuple[float, tuple[Want, ...]]]:
        """Yield how a matrix is there without being written."""
        term, tensor, part_of = want
        if term.name == "source" and part_of is None and self._inputs[str(term.parts[0])].tensor == tensor:
            yield 0.0, ()
        if term.name == "transpose":
            yield 0.0, (Want(_only(term), tensor.transposed((1, 0)), part_of),)
        if part_of is not None:
            return
        if term.name == "slice":
            axis, first, count = (int(str(part)) for part in term.parts[:3])
            for place in self._readable(_only(term)):
                if cut(place, axis, first, count) == tensor:
                    yield 0.0, (Want(_only(term), place),)
        for number, (other, result) in enumerate(zip(self._form, self.program.results, strict=True)):
            if other == term and result.tensor == tensor and not self._constant(term):
                yield 0.0, (Want(term, tensor, number),)

    def _written(self, want: Want) -> Iterator[tuple[float, tuple[Want, ...]]]:
        """Yield how a matrix is written."""
        term, tensor, part_of = want
        parts = [part for part in term.parts if isinstance(part, Term)]
        numbers = [part for part in term.parts if isinstance(part, int)]
        if term.name == "product":
            for a, b in product(*map(self._readable, parts)):
                if 1 in a.strides and 1 in b.strides:
                    yield self._cost(want, self._gemm(parts, a, b, tensor)), (Want(parts[0], a), Want(parts[1], b))
        if term.name == "concat":
            axis, n, m = numbers
            alone = (term if part_of is None else part_of, tensor, 0)
            whole, lies, begin = part_of if isinstance(part_of, tuple) else alone
            step = plain(tensor.strides)[axis] * tensor.dtype.bytes
            places = ((parts[0], 0, n), (parts[1], n, m))
            yield (
                0.0,
                tuple(
                    Want(part, cut(tensor, axis, first, count), (whole, lies, begin + first * step))
                    for part, first, count in places
                ),
            )
        if term.name == "pad":
            axis, before, extent, end = numbers
            padding = [(before, end - extent - before) if i == axis else (0, 0) for i in (0, 1)]
            for place in self._readable(parts[0]):
                yield self._cost(want, ls.Pad(place, padding, target=tensor)), (Want(parts[0], place),)
        for place in self._readable(term):
            if place != tensor or part_of is not None:
                copy = ls.Copy(place, tensor, constant=self._constant(term))
                yield self._cost(want, copy), (Want(term, place),)

    def _gemm(self, parts: list[Term], a: Tensor, b: Tensor, c: Tensor) -> ls.Gemm:
        (m, k), (n, _) = plain(a.shape), plain(b.shape)
        return ls.Gemm(m, n, k, a.dtype, out_dtype=c.dtype, a=a, b=b, c=c, constant_b=self._constant(parts[1]))

    def _cost(self, want: Want, work: Any) -> float:
        whole = want.part_of[0] if isinstance(want.part_of, tuple) else want.part_of
        if self._constant(want.term) and not isinstance(whole, int):  # a result is written at every call
            return 0.0
        found = cost_of(work, self.target)
        return float("inf") if found is None else found

    def _constant(self, term: Term) -> bool:
        return all(self._inputs[str(one.parts[0])].constant for one in subterms(term) if one.name == "source")

    def _own(self, term: Term) -> list[Tensor]:
        """Return where a matrix may be written: lines along either axis, dense or in whole granules, any phase."""
        (rows, columns), element = _shape(term, self._inputs), _type(term, self._inputs)
        found = []
        for axis, length in ((1, columns), (0, rows)):
            size = element.bytes
            whole = -(-length * size // GRANULE) * GRANULE // size
            firsts = {one.parts[1] for one in self._slices if one.parts[4] == term and one.parts[0] == axis}
            phases = {-int(str(first)) * size % GRANULE for first in firsts}
            for pitch, phase in ((length, 0), (whole, 0), *((whole, phase) for phase in phases)):
                found.append(Tensor((rows, columns), element, (pitch, 1) if axis else (1, pitch), offset=phase))
        results = zip(self._form, self.program.results, strict=True)
        return list(dict.fromkeys([*found, *(one.tensor for other, one in results if other == term)]))

    def _readable(self, term: Term) -> list[Tensor]:
        """Return where a matrix may be read: where it may be written, where it lies, and where a view of others is."""
        if term not in self._places:
            found = self._own(term)
            if term.name == "source":
                found.append(self._inputs[str(term.parts[0])].tensor)
            if term.name == "transpose":
                found += [one.transposed((1, 0)) for one in self._readable(_only(term))]
            if term.name == "slice":
                axis, first, count = (int(str(part)) for part in term.parts[:3])
                found += [cut(one, axis, first, count) for one in self._readable(_only(term))]
            self._places[term] = list(dict.fromkeys(found))
        return self._places[term]


def _only(term: Term) -> Term:
    (part,) = (part for part in term.parts if isinstance(part, Term))
    return part


def _circular(want: Want, needed: tuple[Want, ...], made: dict[Want, tuple[Want, ...]]) -> bool:
    waiting = list(needed)
    while waiting:
        one = waiting.pop()
        if one == want:
            return True
        waiting += made.get(one, ())
    return False


def cut(tensor: Tensor, axis: int, first: int, count: int) -> Tensor:
    """Return some lines of a tensor along an axis."""
    shape = list(plain(tensor.shape))
    shape[axis] = count
    offset = tensor.offset + first * plain(tensor.strides)[axis] * tensor.dtype.bytes
    return Tensor(shape, tensor.dtype, tensor.strides, tensor.align, offset % tensor.align)


def _shape(term: Term, inputs: dict[str, Any]) -> tuple[int, int]:
    numbers = [part for part in term.parts if isinstance(part, int)]
    if term.name == "source":
        rows, columns = plain(inputs[str(term.parts[0])].tensor.shape)
        return rows, columns
    if term.name == "product":
        return numbers[0], numbers[1]
    shape = list(_shape(next(part for part in term.parts if isinstance(part, Term)), inputs))
    if term.name == "transpose":
        return shape[1], shape[0]
    axis = numbers[0]
    shape[axis] = {"slice": numbers[2:3], "pad": numbers[3:4], "concat": [sum(numbers[1:3])]}[term.name][0]
    return shape[0], shape[1]


@lru_cache
def _element(name: str) -> ls.DType:
    return Tensor((1,), name).dtype


def _type(term: Term, inputs: dict[str, Any]) -> ls.DType:
    if term.name == "source":
        found: ls.DType = inputs[str(term.parts[0])].tensor.dtype
        return found
    if term.name == "product":
        return _element(str(term.parts[0]))
    return _type(next(part for part in term.parts if isinstance(part, Term)), inputs)

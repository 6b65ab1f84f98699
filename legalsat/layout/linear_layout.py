"""Layouts that are linear over F2: every output bit is the XOR of some input bits.

This is how Triton describes which element each register of each lane holds. Swizzles are linear too, and so are
strided layouts whose extents are powers of two and whose strides never carry, so that all three compose here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from legalsat.checks import integer, integers, sequence
from legalsat.errors import InvalidInput, NoSuchLayout
from legalsat.layout import Layout, Offsets, from_modes, make_layout
from legalsat.layout.algebra import coalesced
from legalsat.layout.bit_columns import Vector, check_disjoint, flat, pivots, power_extents, split, strided_columns
from legalsat.layout.swizzle import AnyLayout, ComposedLayout, Swizzle
from legalsat.printable import shown

MAX_BITS = 62


@dataclass(frozen=True, slots=True, init=False)
class LinearLayout:
    """A linear map over F2 between named dimensions, each of a power-of-two size.

    Bit i of input dimension d contributes `bases[d][i]`, one number per output dimension, and contributions are XORed.
    Flattened, the first dimension is the fastest, on both sides.

    Attributes:
        ins: (name, basis vectors) per input dimension; a dimension of k vectors has size 2^k.
        outs: (name, size) per output dimension.

    Raises:
        InvalidInput: sizes that are no powers of two, vectors that do not fit them, or more than 62 bits.
    """

    ins: tuple[tuple[str, tuple[Vector, ...]], ...]
    outs: tuple[tuple[str, int], ...]

    def __init__(self, bases: Mapping[str, Iterable[Sequence[int]]], outs: Mapping[str, int] | Sequence[str]) -> None:
        """Make a linear layout.

        Args:
            bases: basis vectors per input dimension, lowest bit first.
            outs: sizes of the output dimensions, or just their names: the sizes are then the smallest that fit.
        """
        if not isinstance(bases, Mapping):
            raise InvalidInput(f"bases are {shown(bases)}; give basis vectors by name of input dimension")
        if isinstance(outs, str):
            raise InvalidInput(f"outs are {shown(outs)}; give sizes by name of output dimension, or a list of names")
        names = _names([*bases], "input dimension"), _names(outs, "output dimension")
        given = {name: sequence(found, f"bases of {name}", "basis vectors") for name, found in bases.items()}
        vectors = tuple(
            (name, tuple(integers(v, f"basis {i} of {name}", low=0, length=len(names[1])) for i, v in enumerate(found)))
            for name, found in given.items()
        )
        reach = [0] * len(names[1])
        for _, found in vectors:
            for vector in found:
                reach = [a | b for a, b in zip(reach, vector, strict=True)]
        if isinstance(outs, Mapping):
            sizes = [_power(outs[name], f"size of {name}") for name in names[1]]
        else:
            sizes = [1 << r.bit_length() for r in reach]
        for name, size, most in zip(names[1], sizes, reach, strict=True):
            if most >= size:
                raise InvalidInput(f"a basis reaches {most} in {name} of size {size}; give a size above it")
        if sum(len(found) for _, found in vectors) > MAX_BITS or math.prod(sizes) > 1 << MAX_BITS:
            raise InvalidInput(f"linear layout has more than {MAX_BITS} bits on one side; give smaller dimensions")
        object.__setattr__(self, "ins", vectors)
        object.__setattr__(self, "outs", tuple(zip(names[1], sizes, strict=True)))

    @classmethod
    def identity(cls, size: int, in_dim: str, out_dim: str) -> LinearLayout:
        """Return the map of `in_dim` onto `out_dim`, both of `size`, a power of two."""
        bits = _power(size, "size").bit_length() - 1
        _names((in_dim,), "input dimension"), _names((out_dim,), "output dimension")
        return cls({in_dim: [(1 << i,) for i in range(bits)]}, {out_dim: size})

    @classmethod
    def zeros(cls, size: int, in_dim: str, out_dim: str) -> LinearLayout:
        """Return the map of `in_dim` of `size` to coordinate 0: every index holds the same element."""
        _names((in_dim,), "input dimension"), _names((out_dim,), "output dimension")
        return cls({in_dim: [(0,)] * (_power(size, "size").bit_length() - 1)}, {out_dim: 1})

    @classmethod
    def from_layout(
        cls, layout: AnyLayout | Swizzle, in_dims: Sequence[str] = ("index",), out_dim: str = "offset"
    ) -> LinearLayout:
        """Return a strided or swizzled layout as a linear one.

        A strided layout is linear exactly if every extent is a power of two, no stride is negative, and the offsets of
        the powers of two of the flat index have no bit in common: then sums never carry, and a sum without carries is
        an XOR. Strides need not be powers of two. A swizzle on top changes nothing of that.

        Args:
            layout: a layout, a swizzle over one, or a bare swizzle, which is taken up to its period.
            in_dims: one name for the flat index, or one per mode.
            out_dim: name of the offset.

        Raises:
            NotLinear: the layout is not linear; the message names the mode or the bits.
        """
        if isinstance(layout, Swizzle):
            layout = ComposedLayout(layout, 0, Layout(layout.period))
        if not isinstance(layout, Layout | ComposedLayout):
            raise InvalidInput(f"layout is {shown(layout)}; give a layout or a swizzle")
        names = _names(in_dims, "input dimension")
        if len(names) not in {1, layout.rank}:
            raise InvalidInput(f"{len(names)} names for the {layout.rank} modes of {layout}; give 1 or {layout.rank}")
        modes: list[AnyLayout] = [layout] if len(names) == 1 else [*layout]
        sizes = {name: power_extents(mode) for name, mode in zip(names, modes, strict=True)}
        return _from_columns(sizes, strided_columns(layout, sizes), [out_dim])

    @property
    def in_sizes(self) -> dict[str, int]:
        """Size of every input dimension by name."""
        return {name: 1 << len(vectors) for name, vectors in self.ins}

    @property
    def out_sizes(self) -> dict[str, int]:
        """Size of every output dimension by name."""
        return dict(self.outs)

    @property
    def bases(self) -> dict[str, list[list[int]]]:
        """Basis vectors per input dimension, as plain lists."""
        return {name: [list(v) for v in vectors] for name, vectors in self.ins}

    @property
    def columns(self) -> list[int]:
        """Flattened output of every bit of the flattened input."""
        return [flat(vector, self.outs) for _, vectors in self.ins for vector in vectors]

    def __call__(self, **coordinates: int) -> dict[str, int]:
        """Return the output coordinate of an input coordinate, given by name in full."""
        if coordinates.keys() != self.in_sizes.keys():
            raise InvalidInput(f"coordinate names {', '.join(coordinates)}; give each of {', '.join(self.in_sizes)}")
        found = [0] * len(self.outs)
        for name, vectors in self.ins:
            index = integer(coordinates[name], name, low=0, high=(1 << len(vectors)) - 1)
            for bit, vector in enumerate(vectors):
                if index >> bit & 1:
                    found = [a ^ b for a, b in zip(found, vector, strict=True)]
        return {name: value for (name, _), value in zip(self.outs, found, strict=True)}

    def table(self) -> Offsets:
        """Return the flattened output of every flattened input in order, shape (inputs,)."""
        found = np.zeros(1, dtype=np.int64)
        for column in self.columns:
            found = np.concatenate([found, found ^ column])
        return found

    def compose(self, outer: LinearLayout) -> LinearLayout:
        """Return `outer(self(x))`; the outputs of `self` must be the inputs of `outer`, in any order.

        Raises:
            InvalidInput: names differ, or an output is larger than the input that takes it.
        """
        if not isinstance(outer, LinearLayout):
            raise InvalidInput(f"outer is {shown(outer)}; give a LinearLayout")
        sizes = outer.in_sizes
        if self.out_sizes.keys() != sizes.keys():
            raise InvalidInput(f"outputs {', '.join(self.out_sizes)} feed inputs {', '.join(sizes)}; name them alike")
        for name, size in self.outs:
            if size > sizes[name]:
                raise InvalidInput(f"output {name} has size {size}, the input only {sizes[name]}; enlarge the input")
        names = [name for name, _ in self.outs]

        def through(vector: Vector) -> Vector:
            return tuple(outer(**dict(zip(names, vector, strict=True))).values())

        return LinearLayout({name: map(through, vectors) for name, vectors in self.ins}, outer.out_sizes)

    def __mul__(self, other: LinearLayout) -> LinearLayout:
        """Return the product: `other` repeats `self`; in a dimension of both, `other` has the higher bits."""
        if not isinstance(other, LinearLayout):
            return NotImplemented
        sizes = self.out_sizes
        outs = sizes | {name: sizes.get(name, 1) * size for name, size in other.outs}
        bases: dict[str, list[Vector]] = {name: [] for name in self.in_sizes | other.in_sizes}
        for part, scale in ((self, dict.fromkeys(outs, 1)), (other, sizes)):
            places = [name for name, _ in part.outs]
            for name, vectors in part.ins:
                for vector in vectors:
                    found = dict(zip(places, vector, strict=True))
                    bases[name].append(tuple(found.get(out, 0) * scale.get(out, 1) for out in outs))
        return LinearLayout(bases, outs)

    @property
    def rank(self) -> int:
        """Dimension of the image in bits."""
        return len(pivots(self.columns)[0])

    def is_injective(self) -> bool:
        """Return whether different inputs have different outputs."""
        return self.rank == len(self.columns)

    def is_surjective(self) -> bool:
        """Return whether every output is reached."""
        return 1 << self.rank == math.prod(self.out_sizes.values())

    def kernel(self) -> list[dict[str, int]]:
        """Return a basis of the inputs that map to 0: those who hold copies of what input 0 holds."""
        sizes = tuple(self.in_sizes.items())
        names = [name for name, _ in sizes]
        return [dict(zip(names, split(mask, sizes), strict=True)) for mask in pivots(self.columns)[1]]

    def left_inverse(self) -> LinearLayout:
        """Return L with `L(self(x)) == x`; raises `NoSuchLayout` unless injective."""
        kernel = self.kernel()
        if kernel:
            raise NoSuchLayout(f"linear layout is not injective: input {kernel[0]} maps to 0; drop that input")
        return self._inverse()

    def right_inverse(self) -> LinearLayout:
        """Return R with `self(R(y)) == y`; raises `NoSuchLayout` unless surjective."""
        if not self.is_surjective():
            bits = sum(size.bit_length() - 1 for _, size in self.outs)
            raise NoSuchLayout(f"linear layout reaches {self.rank} of {bits} output bits; give it smaller outputs")
        return self._inverse()

    def inverse(self) -> LinearLayout:
        """Return the inverse; raises `NoSuchLayout` unless bijective."""
        self.right_inverse()
        return self.left_inverse()

    def _inverse(self) -> LinearLayout:
        leads = pivots(self.columns)[0]
        columns = []
        for bit in range(sum(size.bit_length() - 1 for _, size in self.outs)):
            rest, mask = 1 << bit, 0
            while rest:
                lead = rest.bit_length() - 1
                # An output bit outside the image may go anywhere: it goes to 0.
                vector, inputs = leads.get(lead, (1 << lead, 0))
                rest, mask = rest ^ vector, mask ^ inputs
            columns.append(mask)
        return _from_columns(self.out_sizes, columns, self.in_sizes)

    def to_layout(self) -> Layout:
        """Return the strided layout that is the same map: one mode per input dimension, to the flattened output.

        It exists exactly if no output bit is fed by two input bits, since strides add where this map XORs.

        Raises:
            NotLinear: it does not exist; the message names the bits.
        """
        sizes = self.in_sizes
        columns = self.columns
        check_disjoint(columns, sizes, "so that it is an XOR and no sum; compose a swizzle with a layout instead")
        modes, start = [], 0
        for _, vectors in self.ins:
            found = [(2, column) for column in columns[start : start + len(vectors)]]
            modes.append(from_modes(coalesced(found)) if found else Layout(1, 0))
            start += len(vectors)
        return modes[0] if len(modes) == 1 else make_layout(*modes)

    def __str__(self) -> str:
        lines = [f"{name}: {' '.join(map(str, vectors)) or '-'}" for name, vectors in self.ins]
        return "\n".join([*lines, "-> " + " ".join(f"{name}:{size}" for name, size in self.outs)])

    def _repr_html_(self) -> str | None:
        """Return who holds which element, if it has lanes, as a grid for a notebook; None where it cannot be drawn."""
        from legalsat.view.show_html import pictures_html  # noqa: PLC0415 - showing needs layouts and maps

        return pictures_html(self)


def blocked(
    shape: Sequence[int],
    size_per_thread: Sequence[int],
    threads_per_warp: Sequence[int],
    warps_per_cta: Sequence[int],
    order: Sequence[int],
) -> LinearLayout:
    """Return Triton's blocked layout within one CTA: (register, lane, warp) to (dim0, dim1, ...).

    Registers repeat the tile where the tensor is larger; where it is smaller, threads hold copies.

    Args:
        shape: extents of the tensor, powers of two, as all numbers here.
        size_per_thread: elements that one thread holds together, per dimension.
        threads_per_warp: threads per dimension.
        warps_per_cta: warps per dimension.
        order: dimensions, fastest first.
    """
    extents = [_power(n, f"shape[{i}]") for i, n in enumerate(integers(shape, "shape", low=1))]
    axes = integers(order, "order", low=0, length=len(extents))
    if sorted(axes) != list(range(len(extents))):
        raise InvalidInput(f"order is {axes}; name each of the {len(extents)} dimensions once")
    counts = {"register": size_per_thread, "lane": threads_per_warp, "warp": warps_per_cta}
    found = LinearLayout({name: [] for name in counts}, {})
    for name, sizes in counts.items():
        per_axis = integers(sizes, name, low=1, length=len(extents))
        for axis in axes:
            found *= LinearLayout.identity(per_axis[axis], name, f"dim{axis}")
    for axis in axes:
        repeats = max(1, extents[axis] // found.out_sizes[f"dim{axis}"])
        found *= LinearLayout.identity(repeats, "register", f"dim{axis}")
    places = [name for name, _ in found.outs]

    def inside(vector: Vector) -> Vector:
        by_name = dict(zip(places, vector, strict=True))
        return tuple(by_name[f"dim{axis}"] % n for axis, n in enumerate(extents))

    bases = {name: [inside(v) for v in vectors] for name, vectors in found.ins}
    return LinearLayout(bases, {f"dim{axis}": n for axis, n in enumerate(extents)})


def _names(names: Any, what: str) -> list[str]:
    if isinstance(names, str):
        raise InvalidInput(f"names of {what}s are the text {shown(names)}; give a list of names")
    names = sequence(tuple(names) if isinstance(names, Mapping) else names, f"names of {what}s", "names")
    for name in names:
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"name of {what} is {shown(name)}; give a word")
    if len(set(names)) < len(names):
        raise InvalidInput(f"two of {what}s {', '.join(names)} are called alike; rename one")
    return list(names)


def _power(value: Any, what: str) -> int:
    number = integer(value, what, low=1)
    if number.bit_count() != 1:
        raise InvalidInput(f"{what} is {number}; give a power of two")
    return number


def _from_columns(ins: Mapping[str, int], columns: Sequence[int], outs: Mapping[str, int] | list[str]) -> LinearLayout:
    """Return the layout of flattened columns; one output given by name alone takes the smallest size."""
    bits = {name: size.bit_length() - 1 for name, size in ins.items()}
    starts = accumulate(bits.values(), initial=0)
    parts = {name: columns[start : start + bits[name]] for name, start in zip(bits, starts, strict=False)}
    if isinstance(outs, list):
        return LinearLayout({name: [(c,) for c in part] for name, part in parts.items()}, outs)
    sizes = tuple(outs.items())
    return LinearLayout({name: [split(c, sizes) for c in part] for name, part in parts.items()}, outs)

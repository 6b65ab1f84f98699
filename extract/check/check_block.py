"""How many threads a block of PTX has, where the text does not say: what the caller gives, or what `.maxntid` allows.

Triton prints `.reqntid`, which every launch must keep. nvcc prints `.maxntid` for `__launch_bounds__`, the most threads
that a launch may have (PTX ISA 9.0, "Performance-Tuning Directives: .maxntid"); nearly all launches have that many.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from legalsat.analyses.ptx.text import MOST_THREADS, Kernel, PtxText
from legalsat.errors import InvalidInput

Extents = tuple[int, int, int]


def take_block(module: PtxText, block: object, parameters: Mapping[str, int]) -> dict[str, int]:
    """Give each kernel whose text leaves it open the threads of a block; return the other parameters.

    Args:
        module: the text, whose kernels are changed.
        block: threads along x, y and z, or along x alone; None where they are not given.
        parameters: values by name, where `%ntid.x` and the like say the same as `block`.

    Raises:
        InvalidInput: they are no extents of a block, or no kernel of the text can be launched with them.
    """
    given = _given(block, parameters)
    if given is not None:
        taking = [kernel for kernel in module.kernels if _takes(kernel, given)]
        if not taking:
            raise InvalidInput(f"no kernel can be launched with blocks of {words(given)} threads; {_known(module)}")
        for kernel in taking:
            kernel.threads, kernel.threads_known, kernel.threads_at_most = given, True, False
    return {name: value for name, value in parameters.items() if not name.startswith("%ntid.")}


def takes_block(module: PtxText, block: Extents) -> bool:
    """Return whether any kernel of a text can be launched with such blocks."""
    return any(_takes(kernel, block) for kernel in module.kernels)


def extents_of(given: object, what: str) -> Extents:
    """Return extents along x, y and z of what is given: a whole number, or up to three of them.

    Raises:
        InvalidInput: it is no such thing.
    """
    listed = given if isinstance(given, tuple | list) else (given,)
    if not 1 <= len(listed) <= 3 or any(isinstance(n, bool) or not hasattr(n, "__index__") for n in listed):
        raise InvalidInput(f"{what} is {given!r}; give one to three whole numbers")
    whole = [int(n) for n in listed]
    if min(whole) < 1:
        raise InvalidInput(f"{what} is {given!r}; give positive numbers")
    x, y, z = (*whole, 1, 1)[:3]
    return x, y, z


def words(extents: Extents) -> str:
    """Return the extents of a block in words: 384, or 32x8."""
    kept = [*extents]
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "x".join(map(str, kept))


def _given(block: object, parameters: Mapping[str, int]) -> Extents | None:
    named = {axis: parameters[f"%ntid.{axis}"] for axis in "xyz" if f"%ntid.{axis}" in parameters}
    if block is not None and named:
        raise InvalidInput("the block is given twice; leave out either block or %ntid")
    if named and "x" not in named:
        raise InvalidInput("%ntid.y or %ntid.z is given alone; give %ntid.x too")
    if block is None and not named:
        return None
    return block_of(block if block is not None else tuple(named.get(axis, 1) for axis in "xyz"))


def block_of(given: object) -> Extents:
    """Return the threads of a block along x, y and z.

    Raises:
        InvalidInput: they are no whole numbers, or more than a block has.
    """
    found = extents_of(given, "the block")
    if prod(found) > MOST_THREADS:
        raise InvalidInput(f"a block of {words(found)} has {prod(found)} threads; give at most {MOST_THREADS}")
    return found


def _takes(kernel: Kernel, block: Extents) -> bool:
    """Can the kernel be launched with such blocks?"""
    if kernel.threads_known:
        return kernel.threads == block
    return not kernel.threads_at_most or prod(block) <= prod(kernel.threads)


def _known(module: PtxText) -> str:
    said = {
        f".{'reqntid' if k.threads_known else 'maxntid'} {', '.join(map(str, k.threads))}": None for k in module.kernels
    }
    return f"the text says {' and '.join(said)}: leave the block out, or change the text"

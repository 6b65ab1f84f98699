"""What callers of the PTX check give besides the text: values of parameters, and bytes of boxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from legalsat.analyses.ptx.text import PtxText
from legalsat.errors import InvalidInput
from legalsat.printable import shown

_LAUNCH = tuple(f"%{name}.{axis}" for name in ("ctaid", "nctaid", "ntid", "cluster_nctaid") for axis in "xyz")
BOX_GRANULE = 16  # bytes that every box is a multiple of (FACTS TM-10)


def arguments(module: PtxText, parameters: object, box_bytes: object) -> tuple[dict[str, int], dict[str, int]]:
    """Return values of parameters and bytes of boxes, by name.

    Args:
        module: the text.
        parameters: a mapping from parameters, such as "n" or "args+8", or in short "param_0", or from `%ctaid.x`,
            `%ntid.x` and the like, to numbers.
        box_bytes: a mapping from parameters that are tensor maps to bytes.

    Raises:
        InvalidInput: either is no such mapping, or names nothing in the text.
    """
    fixed, boxes = (_in_full(module, _numbers(*one)) for one in ((parameters, "parameters"), (box_bytes, "box_bytes")))
    names = {p.name for kernel in module.kernels for p in kernel.parameters}
    for name in [*fixed, *boxes]:
        if name.startswith("%"):
            _special(name, boxed=name in boxes)
        elif name not in names and name.partition("+")[0] not in names:
            known = f"give one of {', '.join(sorted(names))}" if names else "leave it out"
            raise InvalidInput(f"no kernel has a parameter {name}; {known}")
    for name, size in boxes.items():
        if size <= 0 or size % BOX_GRANULE:
            raise InvalidInput(f"a box of {name} has {size} bytes; give a positive multiple of {BOX_GRANULE}")
    return fixed, boxes


def _in_full(module: PtxText, given: dict[str, int]) -> dict[str, int]:
    """Return values by names in full, where one is given as messages tell it: without the name of its kernel."""
    names = {p.name for kernel in module.kernels for p in kernel.parameters}
    found: dict[str, int] = {}
    for name, value in given.items():
        full = [f"{kernel.name}_{name}" for kernel in module.kernels]
        meant = [one for one in full if one.partition("+")[0] in names]
        found |= dict.fromkeys(meant if meant and name.partition("+")[0] not in names else [name], value)
    return found


def _numbers(given: object, what: str) -> dict[str, int]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{what} is of type {type(given).__name__}; give a dict of names and whole numbers")
    found: dict[str, int] = {}
    name: Any
    for name, value in given.items():
        if not isinstance(name, str):
            raise InvalidInput(f"{what} names {shown(name)}; give the name of a kernel's parameter as a string")
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise InvalidInput(f"{what} has {shown(value)} for {name}; give a whole number")
        found[name] = int(value)
    return found


def _special(name: str, *, boxed: bool) -> None:
    if boxed:
        raise InvalidInput(f"{name} is no tensor map; name the parameter that is one")
    if name not in _LAUNCH:
        raise InvalidInput(f"{name} cannot be given; give parameters, or {', '.join(_LAUNCH)}")

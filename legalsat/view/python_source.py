"""Values as the Python that makes them: what a person would type, and no argument that is not needed."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from inspect import signature
from typing import Any

import legalsat
from legalsat.dtypes import DType
from legalsat.errors import LegalSatError
from legalsat.units.sites import TmaCopy
from legalsat.units.tcgen05 import Kind
from legalsat.units.tensor_map import TensorMap

_WIDTH = 72
_NEAR = 64  # how far a number may lie from a power of two to be written as one
_LIBRARY = "import legalsat as ls"


@dataclass(frozen=True, slots=True)
class Expression:
    """A Python expression, and the lines that import what it names."""

    text: str
    imports: frozenset[str] = frozenset()


def subject(value: Any) -> Any:
    """Return the tensor map that a site of one stands for, if it says no more than the map; else the value itself."""
    if isinstance(value, TmaCopy) and not value.stores and not _beyond_the_map(value):
        return _map_of(value)
    return value


def expression(value: Any) -> Expression:
    """Return Python that makes a value of numbers, texts, tuples and dataclasses of these; element types by name."""
    value = value.name if isinstance(value, DType) else value
    if isinstance(value, Kind):
        return Expression(f'KINDS["{value.name}"]', frozenset({f"from {Kind.__module__} import KINDS"}))
    if isinstance(value, TmaCopy):
        return _copy(value)
    if is_dataclass(value):
        name = _name(type(value))
        return _call(name, {field: expression(part) for field, part in _needed(value).items()})
    if isinstance(value, tuple):
        parts = [expression(part) for part in value]
        comma = "," * (len(parts) == 1)
        return Expression(f"({', '.join(part.text for part in parts)}{comma})", _union(parts))
    if isinstance(value, str):
        return Expression('"' + repr(value)[1:-1].replace('"', '\\"') + '"')
    return Expression(_number(value) if type(value) is int else repr(value))


def change(name: str, old: Any, new: Any) -> Expression:
    """Return Python that makes `new` of what `name` names, which is `old`; from nothing if most would change."""
    if type(old) is not type(new) or not is_dataclass(old):
        return expression(new)
    changed = _differences(old, new)
    if len(changed) > 2 or "rank" in changed:
        return expression(new)
    parts = {field: change(f"{name}.{field}", getattr(old, field), part) for field, part in changed.items()}
    return _replace(Expression(name), parts)


def _copy(site: TmaCopy) -> Expression:
    stores = {"stores": Expression("True")} if site.stores else {}
    made = _call("TmaCopy.of", {"": expression(_map_of(site)), **stores})
    made = Expression(made.text, made.imports | {f"from {TmaCopy.__module__} import TmaCopy"})
    beyond = _beyond_the_map(site)
    return _replace(made, {field: expression(part) for field, part in beyond.items()}) if beyond else made


def _map_of(site: TmaCopy) -> TensorMap:
    there = {field.name: getattr(site, field.name) for field in fields(TensorMap) if field.name != "mode"}
    return TensorMap(**there, mode="tiled" if site.tiled else "im2col")


def _beyond_the_map(site: TmaCopy) -> dict[str, Any]:
    return _differences(TmaCopy.of(_map_of(site), stores=site.stores), site)


def _differences(old: Any, new: Any) -> dict[str, Any]:
    """Return the fields of `new` that differ from those of `old`, a value of the same dataclass."""
    names = [field.name for field in fields(old)]
    return {name: getattr(new, name) for name in names if getattr(new, name) != getattr(old, name)}


def _needed(value: Any) -> dict[str, Any]:
    """Return the arguments without which another value would be made."""
    given = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    for argument, parameter in signature(type(value)).parameters.items():
        if parameter.default is not parameter.empty:
            fewer = {name: part for name, part in given.items() if name != argument}
            if _makes(fewer, value):
                given = fewer
    return given


def _makes(arguments: dict[str, Any], value: Any) -> bool:
    try:
        return not _differences(type(value)(**arguments), value)
    except LegalSatError:
        return False


def _replace(made: Expression, changed: dict[str, Expression]) -> Expression:
    call = _call("replace", {"": made, **changed})
    return Expression(call.text, call.imports | {"from dataclasses import replace"})


def _name(kind: type) -> Expression:
    if getattr(legalsat, kind.__name__, None) is kind:
        return Expression(f"ls.{kind.__name__}", frozenset({_LIBRARY}))
    return Expression(kind.__name__, frozenset({f"from {kind.__module__} import {kind.__name__}"}))


def _call(name: Expression | str, arguments: dict[str, Expression]) -> Expression:
    """Return a call, on one line if it fits; the argument named "" is the one without a name."""
    name = Expression(name) if isinstance(name, str) else name
    given = [f"{word}={part.text}" if word else part.text for word, part in arguments.items()]
    text = f"{name.text}({', '.join(given)})"
    if list(arguments) != [""] and (len(text) > _WIDTH or "\n" in text):
        lines = "".join(f"    {argument},\n".replace("\n", "\n    ").removesuffix("    ") for argument in given)
        text = f"{name.text}(\n{lines})"
    return Expression(text, name.imports | _union(arguments.values()))


def _union(parts: Any) -> frozenset[str]:
    return frozenset().union(*(part.imports for part in parts))


def _number(value: int) -> str:
    """Return a large number near a power of two as its distance from it, which says more than its digits."""
    for power in (value.bit_length() - 1, value.bit_length()):
        beyond = value - 2**power
        if power >= 20 and abs(beyond) <= _NEAR:
            return f"2**{power}" + (f" {'-' if beyond < 0 else '+'} {abs(beyond)}" if beyond else "")
    return hex(value) if value >= 2**40 else str(value)  # a descriptor's word

"""Plans as plain values of JSON, and back: one codec for every kind of plan and for what plans are made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from legalsat.checks import flag, integer, number, one_of
from legalsat.dtypes import DType, dtype
from legalsat.errors import LegalSatError
from legalsat.operators import Operator
from legalsat.operators.access import Mode
from legalsat.printable import printable, shown
from legalsat.program.leaves import Leaf
from legalsat.program.pipeline import Operation
from legalsat.targets import Target
from legalsat.tensor import Tensor

PLAN_VERSION = 11


class InvalidPlan(LegalSatError, ValueError):
    """A plan file is no plan, or the plan in it does not hold; the message says where. Synthesise it again."""


def read_plan(path: str | Path) -> Any:
    """Return the plain values of a plan file; raise `InvalidPlan` unless it holds JSON."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        why = error.strerror or error if isinstance(error, OSError) else error
        raise InvalidPlan(f"{path} is no plan: {str(why).lower()}; save one with Plan.save") from None


@contextmanager
def reading(data: Any) -> Iterator[None]:
    """Raise `InvalidPlan` unless plain values of a plan are of this version and turn into one in the block."""
    try:
        _require_version(data["version"])
        yield
    except InvalidPlan:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, ArithmeticError, RecursionError) as error:
        raise InvalidPlan(f"plan lacks or garbles a field ({error}); synthesise it again") from None


def _require_version(version: Any) -> None:
    if version != PLAN_VERSION:
        raise InvalidPlan(f"plan has version {version}, this is {PLAN_VERSION}; synthesise it again")


def plain_value(value: Any) -> Any:
    """Return a plan, or a part of one, as plain values; an operation says in "op" what it is, an operator in "kind"."""
    if isinstance(value, Mode):
        return list(value)
    if isinstance(value, Tensor):
        strides, shape = ([str(n) if not isinstance(n, int) else n for n in ns] for ns in (value.strides, value.shape))
        return {
            "shape": shape,
            "dtype": value.dtype.name,
            "strides": strides,
            "align": value.align,
            "offset": value.offset,
        }
    if isinstance(value, Target | DType):
        value = value.name
    if hasattr(value, "__dataclass_fields__"):
        named = {f.name: plain_value(getattr(value, f.name)) for f in fields(value)}
        said = "op" if isinstance(value, Operation) else "kind" if isinstance(value, Operator) else ""
        return {said: type(value).__name__, **named} if said else named
    if isinstance(value, tuple | list):
        return [plain_value(v) for v in value]
    return value


_CHECKS: dict[Any, Callable[[Any, str], Any]] = {int: integer, float: number, bool: flag}


def value_of(kind: Any, data: Any, what: str) -> Any:
    """Return JSON data as a value of `kind`: a number, a text, a name, a flag, a tuple, a dataclass of these, or None.

    Of several kinds it is None or the first, or the operation of a pipeline that it says it is.
    """
    if get_origin(kind) is UnionType:
        kinds = get_args(kind)
        if kind in {Leaf, Operation}:
            kinds = ({one.__name__: one for one in kinds}[data["op"]],)
        return None if data is None else value_of(kinds[0], data, what)
    if get_origin(kind) is Literal:
        return one_of(data, what, get_args(kind))
    if kind in _CHECKS:
        return _CHECKS[kind](data, what)
    if kind is str and isinstance(data, str) and data == printable(data):
        return data
    if get_origin(kind) is tuple and isinstance(data, list):
        kinds = get_args(kind)
        several = kinds if kinds[-1] is not Ellipsis else kinds[:1] * len(data)
        return tuple(value_of(one, entry, what) for one, entry in zip(several, data, strict=True))
    if hasattr(kind, "__dataclass_fields__") and isinstance(data, dict):
        hints = get_type_hints(kind)
        return kind(**{field.name: value_of(hints[field.name], data[field.name], field.name) for field in fields(kind)})
    raise InvalidPlan(f"{what} is {shown(data)}, which no plan has there; synthesise it again")


def tensor_of(data: Mapping[str, Any]) -> Tensor:
    """Return the tensor that `plain_value` wrote."""
    return Tensor(data["shape"], dtype(data["dtype"]), data["strides"], data["align"], data["offset"])


def kind_of(data: Mapping[str, Any], operators: tuple[type[Operator], ...]) -> type[Operator]:
    """Return the class of the operator that `plain_value` wrote, the one of these that it names."""
    kinds = {one.__name__: one for one in operators}
    if not isinstance(data["kind"], str) or data["kind"] not in kinds:
        said = f"operator is {shown(data['kind'])}, and plans of {', '.join(kinds)} alone are read"
        raise InvalidPlan(f"{said}; give Plan.load classes of your own as operators")
    return kinds[data["kind"]]


def operator_of(data: Mapping[str, Any], operators: tuple[type[Operator], ...]) -> Any:
    """Return the operator that `plain_value` wrote, of the one of these classes that it names."""
    kind: Any = kind_of(data, operators)
    return kind(**{one.name: _field(data[one.name]) for one in fields(kind)})


def _field(data: Any) -> Any:
    """Return a field of an operator: a tensor, a tuple, or what JSON has itself."""
    if isinstance(data, list):
        return tuple(map(_field, data))
    return tensor_of(data) if isinstance(data, dict) else data

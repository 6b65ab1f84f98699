"""Expressions of Python in a text as far as they are known: numbers, lists, arrays, and calls that others judge."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from legalsat.pasted.code.arguments import DEVICE, element_type
from legalsat.pasted.code.calls import call_of
from legalsat.pasted.code.methods import method_of
from legalsat.pasted.code.operators import compared, is_number, of_one, of_two
from legalsat.pasted.code.views import Array, Index, NewAxis, Rest, Slice, indexed

MOST_STEPS, MOST_TRIPS = 20_000, 32
LAUNCH = "launch"  # the name of a call whose arguments are the blocks along each axis of a grid
Names = dict[str, Any]
# Calls whose value is what was called, for others to look into: descriptors, layouts, transforms, tiles.
_BUILT = re.compile(
    r"TensorDescriptor|\.from_tensor$|make_tensor_descriptor$|create_[12]d_tma_descriptor$|(?:Layout|Transform)$"
    r"|(?:^|\.)allocate_shared_memory$|(?:^|\.)alloc_shared$|(?:^|\.)Config$"
    r"|(?:^|\.)make_(?:layout|ordered_layout|ptr)$|cute\.make_tensor$"
)


# Calls that give the function that they are given, compiled.
_WRAPS = re.compile(r"(?:^|\.)(?:compile|jit|vmap|checkpoint)$")


@dataclass(frozen=True, slots=True)
class Called:
    """A call of something that the text does not define: its dotted name, and what is known of its arguments."""

    name: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function that the text defines, and the names around it."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    names: Names


@dataclass(slots=True)
class Followed:
    """What following the code of a text has found, in its order.

    Attributes:
        arrays: those that expressions make, after the views that are taken of them; each once.
        calls: calls with an array, a list or a number among their arguments.
    """

    arrays: dict[Array, None] = field(default_factory=dict)
    calls: list[Called] = field(default_factory=list)


class EnoughError(Exception):
    """The budget of steps is spent; what was found stands."""


class Expressions:
    """Reads expressions; functions of the text are followed by who inherits from it."""

    def __init__(self) -> None:
        self.found = Followed()
        self.steps = 0
        self.aliases: dict[str, str] = {}

    def user_call(self, function: Function, arguments: list[Any], keywords: Names, *, launched: bool) -> Any:
        """Return what a function of the text gives."""
        raise NotImplementedError

    def launch(self, grid: Any, kernel: Any, arguments: list[Any], keywords: Names) -> None:
        """Note the blocks along each axis of a launch, `kernel[grid](...)`."""
        raise NotImplementedError

    def step(self) -> None:
        """Count one statement or expression.

        Raises:
            EnoughError: there were too many.
        """
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise EnoughError

    def value(self, node: ast.expr | None, names: Names, *, inner: bool = False) -> Any:
        """Return what an expression is as far as it is known; None where it is not.

        Args:
            node: the expression.
            names: what names stand for.
            inner: whether a view is taken of it, so that it is not the array that is used.
        """
        self.step()
        read = getattr(self, f"_of_{type(node).__name__.lower()}", None)
        found = None if read is None else read(node, names)
        if isinstance(found, Array) and not inner and not isinstance(node, ast.Name):
            self.found.arrays.setdefault(found)
        return found

    def bind(self, target: ast.expr, value: Any, names: Names) -> None:
        """Let a target stand for a value."""
        match target:
            case ast.Name(id=name):
                names[name] = value
            case ast.Attribute():
                dotted = self.dotted(target)
                if dotted is not None:
                    names[dotted] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                fits = isinstance(value, list | tuple) and len(value) == len(parts)
                spread = any(isinstance(part, ast.Starred) for part in parts)
                for at, part in enumerate(parts):
                    self.bind(part, value[at] if fits and not spread else None, names)
            case ast.Starred(value=inner):
                self.bind(inner, value, names)

    def dotted(self, node: ast.expr) -> str | None:
        """Return a dotted name with the imports' own names; None if it is none."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        return ".".join([self.aliases.get(node.id, node.id), *reversed(parts)])

    def spread(self, parts: Sequence[ast.expr], names: Names) -> list[Any] | None:
        """Return the values of a list's parts; None if one that is spread is not known."""
        values: list[Any] = []
        known = True
        for part in parts:
            value = self.value(part, names)
            if not isinstance(part, ast.Starred):
                values.append(value)
            elif isinstance(value, list | tuple):
                values.extend(value)
            else:
                known = False
        return values if known else None

    # A method for each kind of node that anything is known of.

    def _of_constant(self, node: ast.Constant, names: Names) -> Any:
        value = node.value
        return value if isinstance(value, bool | str | float) or is_number(value) else None

    def _of_name(self, node: ast.Name, names: Names) -> Any:
        known = names[node.id] if node.id in names else element_type(self.aliases.get(node.id, ""))
        return DEVICE if known is None and node.id.lower().endswith("device") else known

    def _of_tuple(self, node: ast.Tuple, names: Names) -> tuple[Any, ...] | None:
        values = self.spread(node.elts, names)
        return None if values is None else tuple(values)

    def _of_list(self, node: ast.List, names: Names) -> list[Any] | None:
        return self.spread(node.elts, names)

    def _of_dict(self, node: ast.Dict, names: Names) -> Names | None:
        found: Names = {}
        known = True
        for key, value in zip(node.keys, node.values, strict=True):
            name, given = (None if key is None else self.value(key, names)), self.value(value, names)
            known = known and isinstance(name, str | int)
            found[str(name)] = given
        return found if known else None

    def _of_binop(self, node: ast.BinOp, names: Names) -> Any:
        return of_two(self.value(node.left, names), node.op, self.value(node.right, names))

    def _of_unaryop(self, node: ast.UnaryOp, names: Names) -> Any:
        return of_one(node.op, self.value(node.operand, names))

    def _of_compare(self, node: ast.Compare, names: Names) -> bool | None:
        values = [self.value(one, names) for one in (node.left, *node.comparators)]
        return compared(values[0], node.ops[0], values[1]) if len(node.ops) == 1 else None

    def _of_boolop(self, node: ast.BoolOp, names: Names) -> bool | None:
        known = [self.value(part, names) for part in node.values]
        neutral = isinstance(node.op, ast.And)
        if any(one is (not neutral) for one in known):
            return not neutral
        return neutral if all(one is neutral for one in known) else None

    def _of_ifexp(self, node: ast.IfExp, names: Names) -> Any:
        known = self.value(node.test, names)
        one, other = self.value(node.body, names), self.value(node.orelse, names)
        if isinstance(known, bool | int):
            return one if known else other
        return one if same(one, other) else None

    def _of_starred(self, node: ast.Starred, names: Names) -> Any:
        return self.value(node.value, names)

    def _of_listcomp(self, node: ast.ListComp | ast.GeneratorExp, names: Names) -> list[Any] | None:
        over, inside = node.generators[0], dict(names)
        values = self.value(over.iter, names)
        if over.ifs or len(node.generators) > 1 or not isinstance(values, list | tuple) or len(values) > MOST_TRIPS:
            for one in node.generators:
                self.bind(one.target, None, inside)
            self.value(node.elt, inside)
            return None
        found = []
        for value in values:
            self.bind(over.target, value, inside)
            found.append(self.value(node.elt, inside))
        return found

    _of_generatorexp = _of_listcomp

    def _of_attribute(self, node: ast.Attribute, names: Names) -> Any:
        dotted = self.dotted(node)
        if dotted is not None and dotted in names:
            return names[dotted]
        if node.attr.endswith("device"):
            return DEVICE
        if isinstance(node.value, ast.Name) and node.value.id not in names:
            return element_type(dotted or "")
        of = self.value(node.value, names, inner=True)
        if isinstance(of, Array):
            return method_of(of, node.attr, None, {})
        return element_type(dotted or "") if of is None else None

    def _of_subscript(self, node: ast.Subscript, names: Names) -> Any:
        value = self.value(node.value, names, inner=True)
        if isinstance(value, Array):
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            wanted = [self._index(part, names) for part in parts]
            return None if "?" in wanted else indexed(value, [one for one in wanted if not isinstance(one, str)])
        at = self._index(node.slice, names)
        if isinstance(value, list | tuple) and isinstance(at, Slice) and at.known:
            return value[at.begin : at.end : at.step]
        if isinstance(value, list | tuple) and isinstance(at, int):
            return value[at] if -len(value) <= at < len(value) else None
        key = self.value(node.slice, names)
        return value.get(str(key)) if isinstance(value, dict) and isinstance(key, str | int) else None

    def _index(self, node: ast.expr, names: Names) -> Index | str:
        """Return one part of an index; "?" if it is neither a number nor a slice, such as an array or a mask."""
        if isinstance(node, ast.Slice):
            parts = (node.lower, node.upper, node.step)
            ends = [None if end is None else self.value(end, names) for end in parts]
            if any(part is not None and not is_number(end) for part, end in zip(parts, ends, strict=True)):
                return Slice(None, None, 1, known=False)
            step = 1 if ends[2] is None else ends[2]
            return Slice(ends[0], ends[1], step) if step > 0 else "?"
        if isinstance(node, ast.Constant) and node.value is Ellipsis:
            return Rest()
        is_new = isinstance(node, ast.Constant) and node.value is None
        if is_new or (isinstance(node, ast.Attribute) and node.attr == "newaxis"):
            return NewAxis()
        value = self.value(node, names)
        # A bare name that nothing is known of may be a mask.
        number = value is None and isinstance(node, ast.BinOp | ast.Call)
        return int(value) if is_number(value) else None if number else "?"

    def _of_call(self, node: ast.Call, names: Names) -> Any:
        launched = isinstance(node.func, ast.Subscript)  # kernel[grid](...)
        function = node.func.value if isinstance(node.func, ast.Subscript) else node.func
        arguments, keywords = self.spread(node.args, names), self._keywords(node.keywords, names)
        if arguments is None:
            return None
        if isinstance(node.func, ast.Subscript):
            self.launch(self.value(node.func.slice, names), self.value(function, names), arguments, keywords)
        own = names.get(function.id) if isinstance(function, ast.Name) else None
        own = self.value(function, names) if isinstance(function, ast.Call) else own  # torch.compile(f)(x)
        if isinstance(own, Function):
            return self.user_call(own, arguments, keywords, launched=launched)
        if isinstance(function, ast.Name) and function.id == "map" and len(arguments) == 2:
            return self._mapped(*arguments)
        dotted = self.dotted(function)
        of: Any = None
        if isinstance(function, ast.Attribute) and (dotted is None or _of_the_text(dotted, names)):
            of = self.value(function.value, names, inner=True)
        if isinstance(of, Array) and isinstance(function, ast.Attribute):
            return method_of(of, function.attr, arguments, keywords)
        if isinstance(of, Called) and isinstance(function, ast.Attribute):
            self.found.calls.append(Called(f"{of.name}.{function.attr}", (of, *arguments), keywords))
        return None if dotted is None or isinstance(of, Called) else self._foreign(dotted, arguments, keywords)

    def _of_lambda(self, node: ast.Lambda, names: Names) -> Function:
        body: list[ast.stmt] = [ast.Return(node.body)]
        return Function(ast.FunctionDef("lambda", node.args, body, [], lineno=node.lineno), names)

    def _mapped(self, function: Any, values: Any) -> list[Any] | None:
        """Return what a function of the text gives of each entry of a list."""
        if not isinstance(function, Function) or not isinstance(values, list | tuple) or len(values) > MOST_TRIPS:
            return None
        return [self.user_call(function, [value], {}, launched=False) for value in values]

    def _keywords(self, words: Iterable[ast.keyword], names: Names) -> Names:
        found: Names = {}
        for word in words:
            given = self.value(word.value, names)
            if word.arg is not None:
                found[word.arg] = given
            elif isinstance(given, dict):
                found |= given
        return found

    def _foreign(self, dotted: str, arguments: list[Any], keywords: Names) -> Any:
        """Return what a function gives that the text does not define."""
        if _WRAPS.search(dotted) and arguments and isinstance(arguments[0], Function):
            return arguments[0]
        called = Called(dotted, tuple(arguments), keywords)
        if any(isinstance(one, Array | Called | list | tuple | int) for one in (*arguments, *keywords.values())):
            self.found.calls.append(called)
        return called if _BUILT.search(dotted) else call_of(dotted, arguments, keywords)


def same(one: Any, other: Any) -> bool:
    """Whether two values are known to be the same."""
    return one is other or (type(one) is type(other) and not isinstance(one, Function) and bool(one == other))


def _of_the_text(dotted: str, names: Mapping[str, Any]) -> bool:
    """Whether a dotted name begins with a name of the text, not with a module."""
    root = dotted
    while root and root not in names:
        root = root.rpartition(".")[0]
    return bool(root)

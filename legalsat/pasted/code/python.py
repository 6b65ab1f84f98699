"""Python in a text followed without running it: which arrays it makes, which views of them it uses, and where.

Numbers, lists, arrays and functions of the text are followed through names; a loop over a list that is known takes each
of its entries; a function is followed from its calls, from pytest's parametrize or Triton's autotune. What is not
certain is unknown, and stays so: a name that two branches leave different, a value that a call of the outside gives.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from legalsat.pasted.code.calls import pointer_to
from legalsat.pasted.code.expressions import (
    LAUNCH,
    MOST_TRIPS,
    Called,
    EnoughError,
    Expressions,
    Followed,
    Function,
    Names,
    same,
)
from legalsat.pasted.code.fragments import statements
from legalsat.pasted.code.operators import of_two
from legalsat.pasted.code.views import Array

MOST_COMBINATIONS, MOST_DEPTH = 16, 12
_KERNELS = ("triton.jit", "gluon.jit", "triton.autotune")


class _ReturnedError(Exception):
    """A function returns."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def follow(text: str) -> Followed:
    """Return what the Python in a text makes and calls; nothing if it has none."""
    reader = _Reader()
    with suppress(EnoughError, RecursionError):
        reader.run(statements(text), {})
        reader.run_uncalled()
    return reader.found


class _Reader(Expressions):
    """Reads statements, and the functions that they define."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = 0
        self.functions: dict[int, Function] = {}
        self.called: set[int] = set()
        self.doubtful = False  # whether the function that is followed may have returned already

    def run(self, body: Iterable[ast.stmt], names: Names) -> None:
        """Follow statements one after the other."""
        for statement in body:
            self.step()
            read = getattr(self, f"_do_{type(statement).__name__.lower()}", None)
            try:
                if read is not None:
                    read(statement, names)
            except _ReturnedError:
                if self.depth:
                    raise
                # Else it is a line out of a function whose head the text leaves out.

    def run_uncalled(self) -> None:
        """Follow the functions that nothing in the text calls; what they are given is not known."""
        for key, function in list(self.functions.items()):
            if key not in self.called:
                self._enter(function, [], {}, asked=False)

    # A method for each kind of statement that anything is known of.

    def _do_import(self, node: ast.Import, names: Names) -> None:
        for one in node.names:
            self.aliases[one.asname or one.name] = one.name

    def _do_importfrom(self, node: ast.ImportFrom, names: Names) -> None:
        for one in node.names:
            self.aliases[one.asname or one.name] = f"{node.module}.{one.name}" if node.module else one.name

    def _do_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, names: Names) -> None:
        function = Function(node, names)
        names[node.name] = function
        self.functions[id(node)] = function
        given = [self._choices(one, names) for one in node.decorator_list if isinstance(one, ast.Call)]
        choices = [one for one in given if one]
        for chosen in itertools.islice(itertools.product(*choices), MOST_COMBINATIONS if choices else 0):
            self._enter(function, [], {name: value for one in chosen for name, value in one.items()})  # pytest calls it

    _do_asyncfunctiondef = _do_functiondef

    def _do_classdef(self, node: ast.ClassDef, names: Names) -> None:
        self.run(node.body, dict(names))

    def _do_assign(self, node: ast.Assign, names: Names) -> None:
        given = self.value(node.value, names)
        for target in node.targets:
            self.bind(target, given, names)

    def _do_annassign(self, node: ast.AnnAssign, names: Names) -> None:
        if node.value is not None:
            self.bind(node.target, self.value(node.value, names), names)

    def _do_augassign(self, node: ast.AugAssign, names: Names) -> None:
        if isinstance(node.target, ast.Name):
            names[node.target.id] = of_two(names.get(node.target.id), node.op, self.value(node.value, names))

    def _do_expr(self, node: ast.Expr, names: Names) -> None:
        self.value(node.value, names)

    def _do_assert(self, node: ast.Assert, names: Names) -> None:
        self.value(node.test, names)

    def _do_return(self, node: ast.Return, names: Names) -> None:
        raise _ReturnedError(None if node.value is None else self.value(node.value, names))

    def _do_if(self, node: ast.If, names: Names) -> None:
        known = self.value(node.test, names)
        if _is_main(node.test):
            known = True
        if isinstance(known, bool | int):
            self.run(node.body if known else node.orelse, names)
            return
        other = dict(names)
        self._perhaps(node.body, names)
        self._perhaps(node.orelse, other)
        for name in {*names, *other}:
            names[name] = names.get(name) if same(names.get(name), other.get(name)) else None

    def _do_for(self, node: ast.For, names: Names) -> None:
        over = self.value(node.iter, names)
        if isinstance(over, list | tuple) and len(over) <= MOST_TRIPS:
            for value in over:
                self.bind(node.target, value, names)
                self.run(node.body, names)
            return
        _forget(node.body, names)
        self.bind(node.target, None, names)
        self._perhaps(node.body, names)

    def _do_while(self, node: ast.While, names: Names) -> None:
        _forget(node.body, names)
        self._perhaps(node.body, names)

    def _do_with(self, node: ast.With, names: Names) -> None:
        for item in node.items:
            given = self.value(item.context_expr, names)
            if item.optional_vars is not None:
                self.bind(item.optional_vars, given, names)
        self.run(node.body, names)

    def _do_try(self, node: ast.Try, names: Names) -> None:
        self.run([*node.body, *node.orelse], names)
        for handler in node.handlers:
            self._perhaps(handler.body, names)
        self.run(node.finalbody, names)

    def _perhaps(self, body: list[ast.stmt], names: Names) -> None:
        """Follow what may run or not: names that it changes are not known afterwards."""
        before = dict(names)
        try:
            self.run(body, names)
        except _ReturnedError:
            self.doubtful = True
        for name, value in list(names.items()):
            if name in before and not same(value, before[name]):
                names[name] = None

    # Functions of the text

    def user_call(self, function: Function, arguments: list[Any], keywords: Names, *, launched: bool) -> Any:
        """Return what a function of the text gives; a kernel is launched with each of its configurations."""
        configurations = self._configurations(function) if launched else []
        for configuration in configurations[:MOST_COMBINATIONS]:
            self._enter(function, arguments, {**configuration, **keywords})
        return None if configurations else self._enter(function, arguments, keywords)

    def launch(self, grid: Any, kernel: Any, arguments: list[Any], keywords: Names) -> None:
        """Note the blocks of a launch; a grid that is a function is given the kernel's settings."""
        metas: list[Names] = [{}]
        if isinstance(kernel, Function) and isinstance(grid, Function):
            given = self._parameters(kernel, arguments, keywords, asked=True)
            metas = [{**given, **one} for one in self._configurations(kernel)[:MOST_COMBINATIONS]] or [given]
        for meta in metas:
            blocks = self._enter(grid, [{**keywords, **meta}], {}) if isinstance(grid, Function) else grid
            axes = tuple(blocks) if isinstance(blocks, list | tuple) else (blocks,)
            if 0 < len(axes) <= 3:
                self.found.calls.append(Called(LAUNCH, axes, {}))

    def _choices(self, decorator: ast.Call, names: Names) -> list[Names]:
        """Return what a parametrize gives, a mapping for each choice; none if it is no such decorator."""
        name = self.dotted(decorator.func) or ""
        if not name.endswith("parametrize") or len(decorator.args) < 2:
            return []
        heads, choices = (self.value(argument, names) for argument in decorator.args[:2])
        if isinstance(heads, str):
            heads = [one.strip() for one in heads.split(",")]
        if not isinstance(heads, list | tuple) or not isinstance(choices, list | tuple):
            return []
        rows = [[choice] for choice in choices] if len(heads) == 1 else choices
        fitting = [row for row in rows if isinstance(row, list | tuple) and len(row) == len(heads)]
        return [dict(zip(heads, row, strict=True)) for row in fitting]

    def _configurations(self, function: Function) -> list[Names]:
        """Return what Triton's autotuner gives a kernel, a mapping for each configuration."""
        for decorator in function.node.decorator_list:
            if isinstance(decorator, ast.Call) and (self.dotted(decorator.func) or "").endswith("autotune"):
                words = {word.arg: word.value for word in decorator.keywords}
                node = words.get("configs") or (decorator.args[0] if decorator.args else None)
                configs = self.value(node, function.names)
                built = [one for one in configs if isinstance(one, Called)] if isinstance(configs, list) else []
                return [{**one.arguments[0], **one.keywords} for one in built if _has_mapping(one)]
        return []

    def _enter(
        self, function: Function, arguments: Sequence[Any], keywords: Mapping[str, Any], *, asked: bool = True
    ) -> Any:
        """Follow a function's body with what it is given; return what it returns if that is certain."""
        if self.depth >= MOST_DEPTH:
            return None
        self.called.add(id(function.node))
        given = self._parameters(function, arguments, keywords, asked=asked)
        if self._is_kernel(function):  # which is given pointers
            given = {name: pointer_to(value) if isinstance(value, Array) else value for name, value in given.items()}
        outer, self.doubtful = self.doubtful, False
        self.depth += 1
        try:
            self.run(function.node.body, {**function.names, **given})
        except _ReturnedError as returned:
            return None if self.doubtful else returned.value
        finally:
            self.depth -= 1
            self.doubtful = outer
        return None

    def _is_kernel(self, function: Function) -> bool:
        """Whether a function is a kernel of Triton or Gluon."""
        heads = (one.func if isinstance(one, ast.Call) else one for one in function.node.decorator_list)
        return any((self.dotted(head) or "") in _KERNELS for head in heads)

    def _parameters(
        self, function: Function, arguments: Sequence[Any], keywords: Mapping[str, Any], *, asked: bool
    ) -> Names:
        of = function.node.args
        heads = [*of.posonlyargs, *of.args]
        found: Names = {one.arg: None for one in (*heads, *of.kwonlyargs)}
        if asked:  # by no call no default is certain
            ends = [*zip(heads[len(heads) - len(of.defaults) :], of.defaults, strict=True)]
            named = [(one, given) for one, given in zip(of.kwonlyargs, of.kw_defaults, strict=True) if given]
            found |= {one.arg: self.value(default, function.names) for one, default in (*ends, *named)}
        for one in (*heads, *of.kwonlyargs):  # x: T.Tensor((M, K), "float16") says what it is given
            if found[one.arg] is None and isinstance(one.annotation, ast.Call):
                found[one.arg] = self.value(one.annotation, function.names)
        found |= {one.arg: value for one, value in zip(heads, arguments, strict=False) if value is not None}
        return {**found, **{name: value for name, value in keywords.items() if name in found}}


def _has_mapping(called: Called) -> bool:
    return bool(called.arguments) and isinstance(called.arguments[0], dict)


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _forget(body: Iterable[ast.stmt], names: Names) -> None:
    """Make unknown what a body assigns that may run any number of times."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in names:
                names[node.id] = None

"""The table of what is called: a row for every public name, its methods, every reader and every verb."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from .draw import Draw, hostile, nearly

GOOD, SLOW_GOOD = 0.6, 0.9  # of all calls, and of those that plan or explain, have their arguments as drawn;
NEAR = 0.6  # of the others, one argument is changed a little; of the rest, some are hostile
MISCOUNTED = 0.05
Judge = Callable[[tuple[Any, ...], Mapping[str, Any], Any], None]


class Call(NamedTuple):
    """A function and its arguments."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    good: bool  # nothing about the arguments was changed
    miscounted: bool = False  # there are too few or too many, or one of no such name

    def __call__(self) -> Any:
        """Make the call."""
        return self.function(*self.arguments, **self.options)

    def __str__(self) -> str:
        said = [*map(shown, self.arguments), *(f"{name}={shown(value)}" for name, value in self.options.items())]
        return f"{getattr(self.function, '__qualname__', self.function)}({', '.join(said)})"


def shown(value: Any) -> str:
    """Return what a value looks like, briefly; of what has no text, its type."""
    try:
        return repr(value) if len(repr(value)) < 400 else repr(value)[:400] + "..."
    except (ValueError, RecursionError):
        return f"<{type(value).__name__}>"


@dataclass(frozen=True, slots=True)
class Row:
    """One function that is called.

    Attributes:
        name: as users write it after `legalsat.`; a verb begins with a $.
        function: what is called. arguments: a draw for each. options: draws by name, each left out half of the time.
        together: draws several arguments at once, in place of `arguments`.
        family: which runs count it: "plan", "explain", "ptx", "readers", "verbs", "quick".
        weight: how often, against others of its family.
        judge: checks a result of unchanged arguments.
        changed: whether arguments are changed; not where they are whole files or texts, which are drawn changed.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Draw, ...] = ()
    options: Mapping[str, Draw] = field(default_factory=dict)
    together: Draw | None = None
    family: str = "quick"
    weight: float = 1.0
    judge: Judge | None = None
    changed: bool = True

    def call(self, r: Random) -> Call:
        """Draw a call."""
        drawn = tuple(self.together(r)) if self.together is not None else ()
        arguments = [*drawn, *(draw(r) for draw in self.arguments)]
        options = {name: draw(r) for name, draw in self.options.items() if r.random() < 0.5}
        good = SLOW_GOOD if self.family in {"plan", "explain"} else GOOD
        if not self.changed or r.random() < good or not (arguments or options):
            return Call(self.function, tuple(arguments), options, good=True)
        places = [*range(_kept(self.function), len(arguments)), *options]
        if not places:
            return Call(self.function, tuple(arguments), options, good=True)
        how = r.random()
        if how < MISCOUNTED:
            wrong_count(arguments, options, r)
            return Call(self.function, tuple(arguments), options, good=False, miscounted=True)
        if how < NEAR:
            _change(arguments, options, r.choice(places), lambda value: nearly(value, r))
        else:
            for place in r.sample(places, 1 if r.random() < 0.8 else len(places)):
                _change(arguments, options, place, lambda _: hostile(r))
        return Call(self.function, tuple(arguments), options, good=False)


def _kept(function: Callable[..., Any]) -> int:
    """Return how many arguments come first that are never changed: the noun whose method it is."""
    code = getattr(function, "__code__", None)
    return int(code is not None and code.co_argcount > 0 and code.co_varnames[0] in {"self", "given"})


def _change(arguments: list[Any], options: dict[str, Any], place: Any, to: Callable[[Any], Any]) -> None:
    if isinstance(place, int):
        arguments[place] = to(arguments[place])
    else:
        options[place] = to(options[place])


def wrong_count(arguments: list[Any], options: dict[str, Any], r: Random) -> None:
    """Give one argument too few or too many, or one of no such name."""
    how = r.randrange(3)
    if how == 0 and arguments:
        arguments.pop()
    elif how == 1:
        arguments.append(hostile(r))
    else:
        options["nobody"] = hostile(r)


def of_noun(name: str, kind: type, draw: Draw, *, but: tuple[str, ...] = (), **more: Any) -> Iterator[Row]:
    """Yield a row for each property of a noun, and for each method that needs no argument; and for its texts."""
    for member in dir(kind):
        if member.startswith("_") or member in but:
            continue
        found = inspect.getattr_static(kind, member)
        if isinstance(found, classmethod | staticmethod):
            continue
        if inspect.isfunction(found):
            needed = [p for p in inspect.signature(found).parameters.values() if p.default is p.empty and p.kind < 4]
            if len(needed) == 1 and needed[0].kind != inspect.Parameter.VAR_POSITIONAL:
                yield Row(f"{name}.{member}", found, (draw,), changed=False, **more)
        elif not inspect.ismemberdescriptor(found):
            yield Row(f"{name}.{member}", _getter(name, member), (draw,), changed=False, **more)
    yield Row(f"{name} shown", _texts, (draw,), changed=False, **more)


def _getter(name: str, member: str) -> Callable[[Any], Any]:
    def got(value: Any) -> Any:
        return getattr(value, member)

    got.__qualname__ = f"{name}.{member}"
    return got


def _texts(value: Any) -> None:
    """Show a noun in every way that it has, and compare it with itself."""
    assert isinstance(repr(value), str)
    assert isinstance(str(value), str)
    for name in ("_repr_html_", "_repr_svg_"):
        if hasattr(value, name):
            assert isinstance(getattr(value, name)(), str | None)
    assert value == value  # noqa: PLR0124 - that it can be compared at all

"""How a legality rule is declared, collected and read.

A rule is a generator that yields requirements. Decorating it returns a `Rule` value; nothing is registered by
importing. `docs` of a rule are its docstring. See `legalsat.rules` for the rules themselves.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

from legalsat.diagnostics import Authority, Diagnostic, Level
from legalsat.errors import LegalSatError
from legalsat.logic import Condition
from legalsat.targets import TARGETS, Target


class Requirement(NamedTuple):
    """One thing that must hold, and what to say if it does not."""

    condition: Condition
    message: str
    help: str
    numbers: dict[str, Any]


Requirements: TypeAlias = Iterator[Requirement]


def require(condition: Condition, message: str, *, help: str, **numbers: Any) -> Requirement:
    """State that `condition` must hold; `message` and `help` are format strings over `numbers`."""
    return Requirement(condition, message, help, numbers)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a rule is written down or was measured.

    Attributes:
        document: its name and version, or "measured" and where the data are.
        field: the `TensorMap` field that it speaks of.
        quote: its own words, or the finding.
    """

    document: str
    field: str
    quote: str = ""

    def saying(self, quote: str) -> Source:
        """Return this source with the words that the rule rests on."""
        return replace(self, quote=quote)

    @property
    def measured(self) -> bool:
        """Whether hardware said so rather than a document."""
        return self.document.startswith("measured")

    def __str__(self) -> str:
        return f'{self.document}, {self.field}: "{self.quote}"'


@dataclass(frozen=True, slots=True)
class Rule:
    """One legality rule.

    Attributes:
        code: stable name, such as "TMA003".
        name: the violation in words, the generator's name.
        unit: the part of the target that imposes it.
        source: the words or the measurement that it rests on.
        refused_by: who enforces it.
        level: "error" or "warning".
        docs: the help page.
        site: the class in `legalsat.units.sites` that it judges, by name; read off the generator's first parameter.
    """

    code: str
    name: str
    unit: Unit
    source: Source
    refused_by: Authority
    level: Level
    docs: str
    site: str
    requirements: Callable[[Any, Any], Requirements]

    @property
    def targets(self) -> list[str]:
        """The names of the targets that have the unit which imposes it."""
        return [name for name, target in TARGETS.items() if self.unit.limits(target) is not None]

    @property
    def architectures(self) -> list[str]:
        """Those of `targets` that are architectures; products have what theirs has."""
        return [name for name in self.targets if TARGETS[name].device is None]

    def __call__(self, site: Any, target: Target) -> Requirements:
        """Yield the requirements at `site`; none where the target lacks the unit or the unit lacks the limit."""
        limits = self.unit.limits(target)
        return iter(()) if limits is None else self.requirements(site, limits)

    def check(self, site: Any, target: Target) -> Iterator[Diagnostic]:
        """Yield a diagnostic for every requirement that fails at a site of plain numbers."""
        for requirement in self(site, target):
            if not requirement.condition:
                yield self.diagnostic(requirement, str(site))

    def told(self, site: Any, target: Target) -> Diagnostic | None:
        """Return what the rule says at a site of plain numbers, once for all axes that break it; None if it holds."""
        failed = [requirement for requirement in self(site, target) if not requirement.condition]
        if not failed:
            return None
        said = self.diagnostic(failed[0], str(site))
        others = [str(r.numbers["axis"]).removeprefix("axis ") for r in failed[1:] if "axis" in r.numbers]
        if not others:
            return said
        *some, last = others
        listed = f"axes {', '.join(some)} and {last}" if some else f"axis {last}"
        return replace(said, message=f"{said.message}; likewise {listed}")

    def diagnostic(self, requirement: Requirement, where: str) -> Diagnostic:
        """Return what the violation of `requirement` says."""
        return Diagnostic(
            code=self.code,
            level=self.level,
            refused_by=self.refused_by,
            field=self.source.field,
            message=requirement.message.format(**requirement.numbers),
            note=str(self.source),
            help=requirement.help.format(**requirement.numbers),
            where=where,
            measured=self.source.measured,
        )


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of a target that imposes rules; `limits` reads its table off the target, None where it lacks one."""

    name: str
    limits: Callable[[Target], Any]

    def rule(
        self, code: str, source: Source, *, refused_by: Authority, level: Level = "error"
    ) -> Callable[[Callable[[Any, Any], Requirements]], Rule]:
        """Return a decorator that turns a generator of requirements into a `Rule`."""

        def declare(requirements: Callable[[Any, Any], Requirements]) -> Rule:
            docs = inspect.getdoc(requirements)
            if not docs or not source.quote:
                raise LegalSatError(f"rule {code} lacks a docstring or a quoted source; write both")
            named = next(iter(inspect.signature(requirements).parameters.values())).annotation
            site = named.__name__ if isinstance(named, type) else str(named)  # a text where annotations are postponed
            return Rule(code, requirements.__name__, self, source, refused_by, level, docs, site, requirements)

        return declare


def rules_in(*modules: ModuleType) -> tuple[Rule, ...]:
    """Return the rules that the modules hold, in code order; a code used twice is an error."""
    found = sorted((r for m in modules for r in vars(m).values() if isinstance(r, Rule)), key=lambda r: r.code)
    for one, other in pairwise(found):
        if one.code == other.code:
            raise LegalSatError(f"rules {one.name} and {other.name} share the code {one.code}; renumber one")
    return tuple(found)

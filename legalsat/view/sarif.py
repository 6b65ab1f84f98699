"""Findings as SARIF 2.1.0, the format in which code hosts and editors read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import quote

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION = "2.1.0"
_NONE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Result:
    """One finding.

    Attributes:
        rule: a stable name, such as "PIPE007" or "not_proven".
        summary: what the rule is about, in a sentence.
        level: "error" for a break, "warning" for what only a document asks for, "note" for what could not be decided or
            is taken for granted.
        message: what is wrong here, with numbers.
        line: of the file, from 1; 0 where it is about the whole file, or there is none.
        markdown: the message at more length; empty for none.
        about: what it is about besides a place in a file, such as "TMA copy, box 64 x 8" or a kernel's name.
        properties: more about it, as plain values.
        path: of its file, where it is another than that of the log.
        also: other lines of the file with the same.
    """

    rule: str
    summary: str
    level: Literal["error", "warning", "note"]
    message: str
    line: int = 0
    markdown: str = ""
    about: str = ""
    properties: Mapping[str, Any] = field(default_factory=dict)
    path: str = ""
    also: tuple[int, ...] = ()


def sarif(
    results: Iterable[Result], path: str | None, tool: str, version: str, *, rules: Mapping[str, Any] = _NONE
) -> dict[str, Any]:
    """Return a SARIF log with one run: plain values for JSON.

    Args:
        results: what was found.
        path: of the file, as a URI reference relative to where readers look; None where there is no file.
        tool: name of the program.
        version: of the program.
        rules: for rules by name, more fields of their reportingDescriptor, such as "help".
    """
    listed = list(results)
    named = {one.rule: one for one in listed}
    index = {name: n for n, name in enumerate(named)}
    driver = {
        "name": tool,
        "version": version,
        "rules": [{**_descriptor(one), **rules.get(name, {})} for name, one in named.items()],
    }
    return {
        "$schema": SCHEMA,
        "version": VERSION,
        "runs": [{"tool": {"driver": driver}, "results": [_result(one, index[one.rule], path) for one in listed]}],
    }


def _descriptor(one: Result) -> dict[str, Any]:
    """Return the least that code hosts ask of a rule: two descriptions, help and a level."""
    said = {"text": one.summary}
    return {
        "id": one.rule,
        "shortDescription": said,
        "fullDescription": said,
        "help": said,
        "defaultConfiguration": {"level": one.level},
    }


def _result(one: Result, index: int, path: str | None) -> dict[str, Any]:
    place: dict[str, Any] = {}
    path = one.path or path
    if path is not None:
        # Code hosts show nothing without a line, so what is about a whole file stands at its first.
        place["physicalLocation"] = _place(path, max(1, one.line))
    if one.about:
        place["logicalLocations"] = [{"fullyQualifiedName": one.about}]
    message = {"text": one.message}
    if one.markdown:
        message["markdown"] = one.markdown
    found: dict[str, Any] = {"ruleId": one.rule, "ruleIndex": index, "level": one.level, "message": message}
    if place:
        found["locations"] = [place]
    if path is not None and one.also:
        found["relatedLocations"] = [
            {"physicalLocation": _place(path, line), "message": {"text": "the same"}} for line in one.also
        ]
    if one.properties:
        found["properties"] = dict(one.properties)
    return found


def _place(path: str, line: int) -> dict[str, Any]:
    return {"artifactLocation": {"uri": quote(path, errors="replace")}, "region": {"startLine": line}}

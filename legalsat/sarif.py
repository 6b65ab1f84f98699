"""Findings about a file as SARIF 2.1.0, the format in which code hosts and editors read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION = "2.1.0"


@dataclass(frozen=True, slots=True)
class Result:
    """One finding.

    Attributes:
        rule: a stable name, such as "PIPE007" or "not_proven".
        summary: what the rule is about, in a sentence.
        level: "error" for a break, "warning" for what only a document asks for, "note" for what could not be decided or
            is taken for granted.
        message: what is wrong here, with numbers.
        line: of the file, from 1; 0 where it is about the whole file.
    """

    rule: str
    summary: str
    level: Literal["error", "warning", "note"]
    message: str
    line: int


def sarif(results: Iterable[Result], path: str, tool: str, version: str) -> dict[str, Any]:
    """Return a SARIF log with one run: plain values for JSON.

    Args:
        results: what was found.
        path: of the file, as a URI reference relative to where readers look.
        tool: name of the program.
        version: of the program.
    """
    listed = list(results)
    rules = {one.rule: one.summary for one in listed}
    index = {name: n for n, name in enumerate(rules)}
    driver = {
        "name": tool,
        "version": version,
        "rules": [{"id": name, "shortDescription": {"text": text}} for name, text in rules.items()],
    }
    return {
        "$schema": SCHEMA,
        "version": VERSION,
        "runs": [{"tool": {"driver": driver}, "results": [_result(one, index[one.rule], path) for one in listed]}],
    }


def _result(one: Result, index: int, path: str) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(path)}}
    if one.line > 0:
        place["region"] = {"startLine": one.line}
    return {
        "ruleId": one.rule,
        "ruleIndex": index,
        "level": one.level,
        "message": {"text": one.message},
        "locations": [{"physicalLocation": place}],
    }

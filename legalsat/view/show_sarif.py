"""Explanations as SARIF: a result for each violated rule and each thing that must hold besides.

Repairs change no file, so they are no `fixes`: they stand in the properties of the first result, and in its Markdown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import legalsat
from legalsat.diagnostics import Diagnostic
from legalsat.explanation import Explanation, Obligation
from legalsat.rule import Rule
from legalsat.view.sarif import Result, sarif
from legalsat.view.show_explanation import CONSEQUENCE_HEADS, repairs_title
from legalsat.view.show_rules import rules_by_code, summary, title


def explanation_sarif(found: Explanation, path: str | None = None) -> dict[str, Any]:
    """Return a SARIF 2.1.0 log of an explanation: plain values for JSON.

    Args:
        found: the explanation.
        path: of the file that was explained, as a URI reference; None where there is none, and results name what they
            are about alone.
    """
    return with_rules(_results(found), path)


def with_rules(results: Iterable[Result], path: str | None = None) -> dict[str, Any]:
    """Return a SARIF 2.1.0 log of results, in which each rule of the library tells its help page and its source."""
    listed, known = list(results), rules_by_code()
    rules = {one.rule: _descriptor(known[one.rule]) for one in listed if one.rule in known}
    return sarif(listed, path, "legalsat", legalsat.__version__, rules=rules)


def _results(found: Explanation) -> Iterator[Result]:
    repairs = [repair.to_json() for repair in found.repairs]
    for number, diagnostic in enumerate(found.diagnostics):
        yield _violation(diagnostic, found, repairs if number == 0 else [])
    for obligation in found.obligations:
        yield _must_hold(obligation, found)


def _violation(one: Diagnostic, found: Explanation, repairs: list[dict[str, Any]]) -> Result:
    rule = rules_by_code().get(one.code)
    lines = [one.message, "", f"> {one.note}", "", f"help: {one.help}"]
    if repairs:
        lines += ["", f"{repairs_title(found)}:", ""]
        lines += [f"{number}. {repair['message']}" for number, repair in enumerate(repairs, start=1)]
    properties: dict[str, Any] = {
        "subject": found.subject,
        "target": found.target,
        "refused_by": one.refused_by,
        "measured": one.measured,
        "field": one.field,
        "note": one.note,
        "help": one.help,
    }
    if repairs:
        properties["repairs"] = repairs
    return Result(
        rule=one.code,
        summary=summary(rule.docs) if rule else one.message,
        level=one.level,
        message=one.message,
        markdown="\n".join(lines),
        about=one.where or found.subject,
        properties=properties,
    )


def _must_hold(one: Obligation, found: Explanation) -> Result:
    head = CONSEQUENCE_HEADS[one.consequence]
    return Result(
        rule=f"must_hold_{one.consequence}",
        summary=f"what must hold that no call checks beforehand; else: {head}",
        level="note",
        message=one.message,
        about=found.subject,
        properties={"subject": found.subject, "target": found.target, "consequence": one.consequence, "note": one.note},
    )


def _descriptor(rule: Rule) -> dict[str, Any]:
    source = rule.source
    said = "\n\n".join(" ".join(text.split()) for text in rule.docs.split("\n\n"))
    return {
        "name": "".join(word.capitalize() for word in rule.name.split("_")),
        "fullDescription": {"text": said},
        "help": {
            "text": f"{title(rule)}\n\n{said}\n\n{source}",
            "markdown": f"{said}\n\n> {source.quote}\n\n{source.document}",
        },
        "defaultConfiguration": {"level": rule.level},
        "properties": {"refused_by": rule.refused_by, "measured": source.measured, "unit": rule.unit.name},
    }

"""Explanations and plans as HTML: a fragment for notebooks, and a page of its own that needs nothing else.

Text has the colour of the page around it, so that a fragment reads in light and in dark ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from legalsat.diagnostics import CONSEQUENCES, Diagnostic
from legalsat.errors import LegalSatError
from legalsat.explanation import Explanation, Obligation, Repair
from legalsat.extract.check.check_pipeline import PipelineCheck
from legalsat.extract.region.region import LegalRegion
from legalsat.plans.plan import Plan
from legalsat.program.pipeline import Pipeline
from legalsat.program.pipeline_text import role_lines
from legalsat.rule import Rule
from legalsat.targets import TARGETS
from legalsat.units.tensor_map import TensorMap
from legalsat.view.pictures import Picture, pictures_of
from legalsat.view.pipeline_chart import gantt
from legalsat.view.show import byte_count, duration
from legalsat.view.show_explanation import CONSEQUENCE_HEADS, costs, in_short, part_rows, repairs_title
from legalsat.view.show_rules import rules_by_code, title
from legalsat.view.svg import Drawing

_CLASS = "legalsat"
_TURNS = 3  # of each loop of a pipeline that is drawn
_TARGET = "h200"  # whose banks are drawn where the target has no name of ours

# Every selector begins with the class, so that nothing else on a page changes. Colours are mixed with that of the text
# around, which makes them darker on light pages and lighter on dark ones.
_STYLE = """
.legalsat{--error:color-mix(in srgb,#d1242f 78%,currentColor);--warning:color-mix(in srgb,#b35900 78%,currentColor);
--good:color-mix(in srgb,#0a7f42 78%,currentColor);--accent:color-mix(in srgb,#0072b2 78%,currentColor);
--line:color-mix(in srgb,currentColor 22%,transparent);--soft:color-mix(in srgb,currentColor 6%,transparent);
font:15px/1.5 system-ui,sans-serif;max-width:960px;overflow-wrap:anywhere}
.legalsat h1,.legalsat h2{line-height:1.3;margin:1.5em 0 .5em;font-weight:600}
.legalsat h1{font-size:1.3em;margin-top:0}.legalsat h2{font-size:1.05em}
.legalsat p{margin:.4em 0}.legalsat ul,.legalsat ol{margin:.3em 0;padding-left:1.5em}.legalsat li{margin:.35em 0}
.legalsat .tag{display:inline-block;border:1px solid currentColor;border-radius:4px;padding:0 .45em;font-size:.85em;
font-weight:600}
.legalsat .error{color:var(--error)}.legalsat .warning{color:var(--warning)}.legalsat .good{color:var(--good)}
.legalsat .faint{opacity:.72;font-size:.92em}
.legalsat .found{border-left:3px solid var(--line);padding:.1em 0 .1em .9em;margin:1em 0}
.legalsat .found.is-error{border-color:var(--error)}.legalsat .found.is-warning{border-color:var(--warning)}
.legalsat .said{font-weight:600}
.legalsat blockquote{margin:.5em 0;padding:.35em .8em;background:var(--soft);border:0;border-radius:4px;color:inherit}
.legalsat blockquote footer{opacity:.72;font-size:.88em}
.legalsat .help::before{content:"help: ";font-weight:600;color:var(--accent)}
.legalsat pre{margin:.5em 0;padding:.6em .8em;background:var(--soft);border-radius:4px;overflow-x:auto;
font:13px/1.45 ui-monospace,monospace;overflow-wrap:normal;color:inherit}
.legalsat summary{cursor:pointer}.legalsat details{margin:.4em 0}
.legalsat .drawn{margin:1.2em 0}.legalsat .drawn summary{margin-bottom:.6em}
.legalsat table{border-collapse:collapse;margin:.5em 0}.legalsat td{border-top:1px solid var(--line);
padding:.15em 1em .15em 0;text-align:left;vertical-align:top}
.legalsat td.means{white-space:nowrap}
.legalsat .pictures{display:flex;flex-wrap:wrap;gap:1.2em 2em;align-items:flex-start}
.legalsat figure{margin:0;max-width:100%;min-width:0}.legalsat figcaption{font-weight:600;margin-bottom:.3em}
.legalsat figure svg{display:block}
""".strip()
_PAGE_STYLE = ":root{color-scheme:light dark}body{margin:0;padding:20px 16px 48px}.legalsat{margin:0 auto}"


def explanation_html(found: Explanation) -> str:
    """Return an explanation as a fragment of HTML, with its style and pictures in it; no script, nothing to load.

    It holds the verdict, the reasons with their quoted sources, what else must hold, for which values it works, and the
    repairs with source text to paste. Every text in it is escaped.
    """
    return _fragment(_parts(found))


def explanation_page(found: Explanation) -> str:
    """Return an explanation as a page of its own."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(found.subject)}</title>",
            f"<style>{_PAGE_STYLE}</style></head><body>",
            explanation_html(found),
            "</body></html>",
        ]
    )


def plan_html(plan: Plan) -> str:
    """Return a plan as a fragment of HTML: its text as `str` gives it, and pictures of its maps."""
    head, _, rest = str(plan).partition("\n")
    text = f"<details><summary>the whole plan</summary><pre>{escape(rest.strip())}</pre></details>"
    cost = f"<p>predicted: {duration(plan.cost.nanoseconds)}</p>"
    return _fragment([f"<h1>{escape(head)}</h1>", cost, text, _pictures(pictures_of(plan, plan.target))])


def region_html(found: LegalRegion) -> str:
    """Return a region as a fragment of HTML: for which values, what they are planned as, and the set in isl's words."""
    family = ((one.sentence, one.means) for one in found.family)
    rows = (f"<tr><td>{escape(said)}</td><td class=means>{escape(by)}</td></tr>" for said, by in family)
    return _fragment(
        [
            f"<h1>{escape(str(found.operator))} on {escape(str(found.target))}</h1>",
            f'<p class="said">{escape(found.sentence)}</p>',
            f"<table>{''.join(rows)}</table>" if found.plan is not None else "",
            *map(_diagnostic, found.diagnostics),
            f"<details><summary>as an isl set</summary><pre>{escape(found.set)}</pre></details>",
        ]
    )


def check_html(found: PipelineCheck) -> str:
    """Return the check of a pipeline as a fragment of HTML: the verdict, what is wrong, what is open or assumed."""
    wrong = any(one.level == "error" for one in found.diagnostics)
    state, look = ("proven", "good") if found.proven else ("wrong", "error") if wrong else ("not proven", "warning")
    return _fragment(
        [
            f'<h1>pipeline of {escape(found.subject)} <span class="tag {look}">{state}</span></h1>',
            *map(_diagnostic, found.diagnostics),
            _list("ul", (f"not proven: {escape(one)}" for one in found.unproven)) if found.unproven else "",
            _list("ul", (f"assumes that {escape(one)}" for one in found.assumptions)) if found.assumptions else "",
        ]
    )


def pipeline_html(pipeline: Pipeline) -> str:
    """Return a pipeline as a fragment of HTML: its roles in words, and a chart of a few turns of its loops."""
    try:
        chart = gantt(pipeline, dict.fromkeys(pipeline.symbols, _TURNS))
    except LegalSatError:  # its operations wait for what never comes, or name what is not there
        chart = Drawing()
    roles = "\n".join("\n".join([who, *steps]) for who, steps in role_lines(pipeline))
    text = f"<details open><summary>roles</summary><pre>{escape(roles)}</pre></details>"
    said = f"a course of {_TURNS} turns" if pipeline.symbols else "a course"
    return _fragment([text, _figures([Picture(said, chart)]) if chart else ""])


def pictures_html(subject: Any) -> str | None:
    """Return the pictures of a layout or tensor map as a fragment of HTML; None where nothing can be drawn."""
    drawn = pictures_of(subject)
    return _fragment([f"<p><code>{escape(str(subject))}</code></p>", _figures(drawn)]) if drawn else None


def _fragment(parts: Iterable[str]) -> str:
    return f'<div class="{_CLASS}"><style>{_STYLE}</style>\n' + "\n".join(filter(None, parts)) + "\n</div>"


def _parts(found: Explanation) -> Iterator[str]:
    yield f"<h1>{escape(found.subject)} on {escape(found.target)} {_verdict(found)}</h1>"
    yield _operands(found)
    if found.undecided:
        yield f"<p>{escape(found.undecided)}</p>"
    elif not found.legal and not found.diagnostics:
        yield "<p>no extents in the given range satisfy the rules; widen the range, or explain one value</p>"
    yield from map(_diagnostic, found.diagnostics)
    yield _pictures(pictures_of(found, found.target if found.target in TARGETS else _TARGET))
    if isinstance(found.of, TensorMap):
        yield _fields(found.of)
    if found.obligations:
        yield "<h2>what the encode call cannot see</h2>"
        yield _list("ul", map(_obligation, found.obligations))
    yield from (f"<p>{escape(sentence)}</p>" for sentence in found.values)
    if found.repairs:
        yield f"<h2>{repairs_title(found)}</h2>"
        yield _list("ol", (_repair(repair, found.repairs, opened=n == 0) for n, repair in enumerate(found.repairs)))
    if found.plan is not None:
        short = "\n".join(in_short(found.plan))
        how = "how it is done" if found.legal else "how it is done as it is"
        yield f"<details><summary>{how}</summary><pre>{escape(short)}</pre></details>"
    if found.way:
        yield f"<p>as it is: {escape(found.way)}</p>"
    if found.derivation:
        yield f"<p>derivation: {escape(', '.join(found.derivation))}</p>"


def _operands(found: Explanation) -> str:
    """Return what a product is made of as a table; nothing of other subjects."""
    rows = (
        f"<tr><td>{escape(name)}</td><td>{escape(what)}</td>"
        f'<td class="{"good" if verdict == "legal" else "error"}">{verdict}</td><td>{escape(more)}</td></tr>'
        for name, what, verdict, more in part_rows(found)
    )
    return f"<table>{''.join(rows)}</table>" if found.parts else ""


def _verdict(found: Explanation) -> str:
    mark = {"good": "✓", "warning": "?", "error": "✗"}[found.tone]
    return f'<span class="tag {found.tone}">{mark} {escape(found.verdict)}</span>'


def _diagnostic(found: Diagnostic) -> str:
    rule = rules_by_code().get(found.code)
    named = f' title="{escape(title(rule))}"' if rule else ""
    parts = [
        f'<div class="found is-{found.level}">',
        f'<p class="said"><span class="tag {found.level}"{named}>{found.level} {escape(found.code)}</span> '
        f"{escape(found.message)}</p>",
        f'<p class="faint">at {escape(found.where)}</p>' if found.where else "",
        _source(found, rule),
        f'<p class="faint">refused by {"the" if found.refused_by != "document" else "a"} {found.refused_by}: '
        f"{CONSEQUENCES[found.refused_by]}{'; measured on hardware' if found.measured else ''}</p>",
        f'<p class="help">{escape(found.help)}</p>',
        f"<details><summary>about {escape(found.code)}</summary>{_docs(rule)}</details>" if rule else "",
        "</div>",
    ]
    return "".join(filter(None, parts))


def _source(found: Diagnostic, rule: Rule | None) -> str:
    """Return the words that a rule rests on as a quotation, or what the diagnostic notes instead."""
    if rule is None or found.note != str(rule.source):
        return f"<blockquote>{escape(found.note)}</blockquote>"
    by = f"<footer>{escape(rule.source.document)}, {escape(rule.source.field)}</footer>"
    return f"<blockquote>“{escape(rule.source.quote)}”{by}</blockquote>"


def _docs(rule: Rule) -> str:
    return "".join(f"<p>{escape(' '.join(text.split()))}</p>" for text in rule.docs.split("\n\n"))


def _obligation(one: Obligation) -> str:
    head = escape(CONSEQUENCE_HEADS[one.consequence])
    return f'<b>{head}</b>: {escape(one.message)} <span class="faint">({escape(one.note)})</span>'


def _repair(repair: Repair, among: Sequence[Repair], *, opened: bool) -> str:
    facts = costs(repair, among) + ([f"{byte_count(repair.bytes_added)} more memory"] if repair.bytes_added else [])
    said = escape(repair.message) + (f'<br><span class="faint">{escape("; ".join(facts))}</span>' if facts else "")
    shown = " open" if opened else ""
    return said + "".join(
        f"<details{shown}><summary>{escape(one.terms)}</summary><pre>{escape(one.text)}</pre></details>"
        for one in repair.snippets
    )


def _fields(tm: TensorMap) -> str:
    """Return the fields of a map as a table, those that its mode has."""
    other = {
        "map_offset",
        *(("lower_corner", "upper_corner", "channels", "pixels") if tm.mode == "tiled" else ("box",)),
    }
    rows = (
        f"<tr><td>{name}</td><td>{escape(_value(value))}</td></tr>"
        for name, value in asdict(tm).items()
        if name not in other
    )
    return f"<details><summary>fields of the map</summary><table>{''.join(rows)}</table></details>"


def _value(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _list(kind: str, items: Iterable[str]) -> str:
    return f"<{kind}>" + "".join(f"<li>{item}</li>" for item in items) + f"</{kind}>"


def _pictures(drawn: Sequence[Picture]) -> str:
    return f"<details open class=drawn><summary>pictures</summary>{_figures(drawn)}</details>" if drawn else ""


def _figures(drawn: Sequence[Picture]) -> str:
    figures = (f"<figure><figcaption>{escape(one.caption)}</figcaption>{one.svg}</figure>" for one in drawn)
    return f'<div class="pictures">{"".join(figures)}</div>'

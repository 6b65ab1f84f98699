"""A sweep's report as one page: its sections as HTML, with style, script and rows in it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape
from typing import NamedTuple

from legalsat.rules import RULES
from legalsat.sweeps.columns import BAD, LEGAL, REFUSED, REPAIRED
from legalsat.sweeps.report_explained import Explained
from legalsat.sweeps.report_numbers import (
    WEIGHTS,
    Answers,
    Gains,
    Share,
    by_column,
    by_reason,
    gains,
    measured_ratios,
    whole,
)
from legalsat.sweeps.report_plots import bytes_plot, gain_plot, roofline
from legalsat.targets import target as as_target
from legalsat.view.show import byte_count, duration

MOST_BARS = 12  # of operators, types or reasons


class Column(NamedTuple):
    """A column of the table: of the answers, its heading, and what its values are."""

    name: str
    heading: str
    kind: str


TABLE = (
    Column("line", "row", "count"),
    Column("verdict", "verdict", "verdict"),
    Column("problem", "problem", "text"),
    Column("name", "name", "text"),
    Column("dtype", "type", "text"),
    Column("count", "runs", "count"),
    Column("codes", "reasons", "codes"),
    Column("predicted_ns", "predicted", "time"),
    Column("repaired_ns", "repaired", "time"),
    Column("gain", "gain", "ratio"),
    Column("measured_ns", "measured", "time"),
    Column("bytes_added", "adds", "bytes"),
)
FILTERS = {"verdict": "verdict", "operator": "operator", "dtype": "type", "codes": "reason"}
_MEANINGS = {
    LEGAL: "boxes of a tensor map reach every operand as it lies",
    REPAIRED: "they do after the repair that its row names",
    REFUSED: "no layout of the same numbers makes them legal",
    BAD: "the row could not be read; it says why",
}
_RULES = {rule.code: rule.name.replace("_", " ") for rule in RULES}


def page(
    answers: Answers,
    why: Explained,
    *,
    source: str,
    shown: int,
    rows: str,
    explanations: str,
    style: str,
    script: str,
) -> str:
    """Return the page.

    Args:
        answers: the sweep.
        why: explanations of its groups.
        source: the name of the file that holds the answers.
        shown: how many rows the table has.
        rows: of the table, as the script unpacks them: JSON, compressed by gzip, in base64.
        explanations: the same way.
        style: the page's, as CSS.
        script: the page's.
    """
    target = as_target(answers.target)
    chip = "" if target.architecture == target.name else f" ({target.architecture})"
    allowed = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    # Nothing is fetched, and no script but this one runs, whatever the problems are called.
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
    title = f"Fast path on {target.name}{chip}"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en" data-weight="problems"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}: {escape(source)}</title>",
            f"<style>{style}</style></head><body><main>",
            f"<header><h1>{escape(title)}</h1>",
            f"<p class=faint>{_many(answers.rows, 'row')} of {escape(source)}, "
            f"answered by legalsat {escape(answers.version)}</p></header>",
            *_shares(answers),
            *_repairs(answers),
            *_roof(answers),
            *_problems(answers, why, shown),
            "</main>",
            f'<script type="text/plain" id="packed-rows">{rows}</script>',
            f'<script type="text/plain" id="packed-explanations">{explanations}</script>',
            f"<script>{script}</script>",
            "</body></html>\n",
        ]
    )


def _shares(answers: Answers) -> Iterable[str]:
    everything = whole(answers) if answers.rows else Share("all", dict.fromkeys(WEIGHTS, (0.0, 0.0, 0.0)))
    yield "<section><h2>Share on the fast path</h2>"
    bad = int(answers.bad.sum())
    if bad:
        words = "could not be read, and is not counted" if bad == 1 else "could not be read, and are not counted"
        yield f'<p class="note invalid">{_many(bad, "invalid row")} {words}: {_link("verdict", BAD, "show")}</p>'
    yield _weigh(answers)
    yield '<div class="tiles">'
    for label, kinds, kind in (
        ("on the fast path as they are", (0,), LEGAL),
        ("off it", (1, 2), "off"),
        ("on it after repair", (0, 1), REPAIRED),
        ("refused", (2,), REFUSED),
    ):
        said = _weighed({w: _percent(sum(everything.of[w][k] for k in kinds), everything.total(w)) for w in WEIGHTS})
        yield f'<div class="tile is-{kind}"><span class="big">{said}</span><span>{label}</span></div>'
    yield "</div>"
    yield _weighed({w: _bar(everything.of[w], everything.total(w)) for w in WEIGHTS}, "div", "whole")
    yield f'<ul class="legend">{"".join(_key(kind, _MEANINGS[kind]) for kind in (LEGAL, REPAIRED, REFUSED))}</ul>'
    yield '<div class="columns">'
    yield from _bars("operator", "operator", by_column(answers, "operator"))
    yield from _bars("type", "dtype", by_column(answers, "dtype"))
    yield "</div>"
    yield from _reasons(by_reason(answers), everything)
    yield "</section>"


def _weigh(answers: Answers) -> str:
    choices = "".join(
        f'<label><input type="radio" name="weight" value="{weight}"{" checked" if weight == "problems" else ""}>'
        f"<span>{label}</span></label>"
        for weight, label in WEIGHTS.items()
    )
    good = ~answers.bad
    without = int((good & ~answers.has_prediction).sum())
    note = (
        f" {_many(without, 'problem')} of {int(good.sum())} without a predicted time count with the least that the "
        "datasheet allows."
        if without
        else ""
    )
    return (
        f'<fieldset class="choice"><legend>weigh by</legend>{choices}</fieldset>'
        '<p class="note by" data-by="problems">Every row counts once.</p>'
        '<p class="note by" data-by="runs">Every row counts as often as it runs.</p>'
        f'<p class="note by" data-by="time">Every row counts with its runs\' predicted time as it is.{note}</p>'
    )


def _bars(what: str, column: str, shares: list[Share]) -> Iterable[str]:
    yield f'<div class="panel"><h3>By {what}</h3><table class="bars"><thead><tr>'
    yield f'<th scope="col">{what}, problems</th><th scope="col">legal, repaired, refused</th>'
    yield '<th scope="col">as is → repaired</th></tr></thead><tbody>'
    for share in shares[:MOST_BARS]:
        bar = _weighed({w: _bar(share.of[w], share.total(w)) for w in WEIGHTS}, "div")
        said = _weighed({w: _before_after(share.of[w]) for w in WEIGHTS})
        yield f'<tr><th scope="row">{_link(column, share.name, share.name)} <span class="faint">'
        yield f"{_whole_number(share.total('problems'))}</span></th><td>{bar}</td><td>{said}</td></tr>"
    yield f"</tbody></table>{_more(len(shares))}</div>"


def _reasons(shares: list[Share], everything: Share) -> Iterable[str]:
    yield '<div class="panel"><h3>By reason</h3>'
    if not shares:
        yield "<p>No problem breaks a rule.</p></div>"
        return
    most = {weight: max(share.total(weight) for share in shares) for weight in WEIGHTS}
    yield '<p class="note">Of all problems, those that break a rule; one that breaks two counts with both. '
    yield f"The longest bar is {_weighed({w: _percent(most[w], everything.total(w)) for w in WEIGHTS})} of all.</p>"
    yield '<table class="bars reasons"><thead><tr><th scope="col">reason, problems</th>'
    yield '<th scope="col">repaired, refused</th><th scope="col">of all</th></tr></thead><tbody>'
    for share in shares[:MOST_BARS]:
        bar = _weighed({w: _bar(share.of[w], most[w]) for w in WEIGHTS}, "div")
        said = _weighed({w: _percent(share.total(w), everything.total(w)) for w in WEIGHTS})
        name = f"{_link('codes', share.name, share.name)} {escape(_RULES.get(share.name, ''))}"
        yield f'<tr><th scope="row">{name} <span class="faint">{_whole_number(share.total("problems"))}</span></th>'
        yield f"<td>{bar}</td><td>{said}</td></tr>"
    yield f"</tbody></table>{_more(len(shares))}</div>"


def _more(count: int) -> str:
    left = count - MOST_BARS
    return f'<p class="note">and {left} more, which the table\'s filters list</p>' if left > 0 else ""


def _bar(three: tuple[float, ...], total: float) -> str:
    """Return a stacked bar: what is legal, repaired and refused, of a total that fills it."""
    parts = list(zip((LEGAL, REPAIRED, REFUSED), three, strict=True))
    said = ", ".join(f"{kind} {_percent(part, total)}" for kind, part in parts)
    pieces = "".join(
        f'<span class="{kind}" style="width:{100 * part / total:.3f}%"></span>' for kind, part in parts if part
    )
    return f'<div class="bar3" role="img" aria-label="{said}" title="{said}">{pieces}</div>'


def _before_after(three: tuple[float, ...]) -> str:
    total = sum(three)
    return f"{_percent(three[0], total)} → {_percent(three[0] + three[1], total)}"


def _weighed(said: dict[str, str], tag: str = "span", kind: str = "") -> str:
    """Return what is said of each weight; the page shows that of the weight which is chosen."""
    return "".join(f'<{tag} class="by {kind}" data-by="{w}">{text}</{tag}>' for w, text in said.items())


def _repairs(answers: Answers) -> Iterable[str]:
    found = gains(answers)
    yield "<section><h2>What repairs cost and win</h2>"
    if not found.problems:
        yield "<p>No problem needs a repair that exists.</p></section>"
        return
    yield f"<p>{' '.join(_gain_words(found))}</p>"
    yield '<div class="columns">'
    yield _figure("Bytes added", bytes_plot(answers), "How many problems grow by how much; each bar up to its number.")
    scatter = gain_plot(answers)
    if scatter:
        note = "A mark is one problem or several close ones, larger the more often they run: 1, 10, 100, 1000 times."
        yield _figure("Predicted gain", scatter, note)
    yield "</div></section>"


def _gain_words(found: Gains) -> Iterable[str]:
    part = 100 * found.bytes_added / max(found.bytes_held, 1)
    yield (
        f"The repairs of {_many(found.problems, 'problem')} add <b>{byte_count(found.bytes_added)}</b>, "
        f"{part:.2g}% of what their tensors hold."
    )
    if found.timed:
        low, middle, high = (f"{ratio:.2f}" for ratio in found.ratios)
        yield (
            f"All runs of {found.timed} of them are predicted at <b>{_long(found.before)}</b> as they are and "
            f"<b>{_long(found.after)}</b> repaired, without the time of storing tensors anew: "
            f"<b>{found.before / found.after:.2f} times</b> as fast. Half of the runs gain at least {middle} times; a "
            f"tenth at most {low}, a tenth at least {high}."
        )


def _roof(answers: Answers) -> Iterable[str]:
    target = as_target(answers.target)
    yield "<section><h2>Against the roof</h2>"
    drawn = answers.numbers["flops"] > 0
    timed, measured = (int((drawn & (answers.numbers[name] > 0)).sum()) for name in ("predicted_ns", "measured_ns"))
    if not timed and not measured:
        yield "<p>No problem has operations and a predicted or measured time.</p></section>"
        return
    nominal = "" if target.device else f" {escape(target.name)} is an architecture; the roof is that of a nominal card."
    words = f"Operations a second that {_many(timed, 'problem')} reach as predicted, as they are, below what the "
    words += f"datasheet allows.{nominal} A mark is one problem or several close ones, larger for 10, 100 and 1000. "
    count, (low, middle, high) = measured_ratios(answers)
    if count:
        words += f"Measured times are {middle:.2f} times the predicted ones at the middle of {count} problems, and "
        words += f"{low:.2f} to {high:.2f} times for eight tenths of them."
    keys = [_key(kind, "") for kind in (LEGAL, REPAIRED, REFUSED)]
    keys += ['<li><span class="swatch diamond"></span>measured</li>'] if measured else []
    yield f'<div class="roofline"><figure>{roofline(answers)}</figure>'
    yield f'<div><p>{words}</p><ul class="legend">{"".join(keys)}</ul></div></div></section>'


def _figure(title: str, plot: str, note: str) -> str:
    return f'<figure class="panel"><h3>{title}</h3>{plot}<figcaption class="note">{note}</figcaption></figure>'


def _problems(answers: Answers, why: Explained, shown: int) -> Iterable[str]:
    yield '<section id="problems"><h2>Problems</h2>'
    notes = []
    if shown < answers.rows:
        notes.append(f"The table holds {shown} of {answers.rows} rows, those off the fast path first.")
    if why.left_out:
        notes.append(
            f"{_many(why.left_out, 'problem')} of rare kinds come without an explanation: the {len(why.examples)} most "
            "frequent kinds have one."
        )
    yield f'<p class="note">{" ".join(notes)}</p>' if notes else ""
    yield "<noscript><p>The table needs JavaScript.</p></noscript>"
    yield '<form class="filters" role="search" id="filters">'
    said = 'type="search" placeholder="problem, name, kernel, repair" autocomplete="off" spellcheck="false"'
    yield _field("search", "search", f'<input id="search" {said}>', "wide")
    for name, label in FILTERS.items():
        options = f'<option value="">all</option>{_options(answers, name)}'
        yield _field(f"filter-{name}", label, f'<select id="filter-{name}" data-filter="{name}">{options}</select>')
    sorts = "".join(f'<option value="{one.name}">{one.heading}</option>' for one in TABLE)
    yield _field("sort", "sort by", f'<select id="sort">{sorts}</select>', "narrow")
    ways = '<option value="1">ascending</option><option value="-1">descending</option>'
    yield _field("order", "order", f'<select id="order">{ways}</select>', "narrow")
    yield '<button type="button" id="clear">clear</button></form>'
    yield '<p id="found" role="status" aria-live="polite"></p>'
    heads = "".join(
        f'<th scope="col" data-column="{one.name}" data-kind="{one.kind}" aria-sort="none">'
        f'<button type="button">{one.heading}</button></th>'
        for one in TABLE
    )
    yield f'<div class="scroll"><table id="table"><thead><tr>{heads}</tr></thead><tbody></tbody></table></div>'
    yield '<nav class="pager" aria-label="pages of the table"><button type="button" id="back">previous</button>'
    yield '<span id="page"></span><button type="button" id="next">next</button></nav></section>'


def _field(name: str, label: str, control: str, kind: str = "") -> str:
    """Return a control of the form with its label."""
    return f'<div class="field {kind}"><label for="{name}">{label}</label>{control}</div>'


def _options(answers: Answers, column: str) -> str:
    if column == "codes":
        values = [(share.name, f"{share.name} {_RULES.get(share.name, '')}") for share in by_reason(answers)]
    else:
        present = {value for value in answers.words[column].values if value}
        order = list(_MEANINGS)
        values = [(v, v) for v in sorted(present, key=lambda v: (order.index(v) if v in order else 0, v))]
    return "".join(f'<option value="{escape(value)}">{escape(label)}</option>' for value, label in values)


def _key(kind: str, meaning: str) -> str:
    said = f'<span class="faint">: {meaning}</span>' if meaning else ""
    return f'<li><span class="swatch {kind}"></span>{kind}{said}</li>'


def _link(column: str, value: str, label: str) -> str:
    """Return a button that shows the problems with a value."""
    return (
        f'<button type="button" class="link" data-show="{column}" data-value="{escape(value)}">{escape(label)}</button>'
    )


def _many(count: int, noun: str) -> str:
    return f"{_whole_number(count)} {noun}{'s' * (count != 1)}"


def _whole_number(count: float) -> str:
    return f"{int(count):,}".replace(",", " ")  # a narrow space that does not break


def _percent(part: float, total: float) -> str:
    return f"{100 * part / total:.1f}%" if total else "–"


def _long(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e9:.2f} s" if nanoseconds >= 1e9 else duration(nanoseconds)

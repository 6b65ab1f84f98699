"""Rules as Markdown for the documentation site: one page each, with examples that run, and an index by family."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

import legalsat
from legalsat.diagnostics import CONSEQUENCES
from legalsat.errors import LegalSatError
from legalsat.pasted.results import RESULT_RULES
from legalsat.pasted.tools import TOOL_RULES, TOOL_TEXTS
from legalsat.rule import Rule
from legalsat.rules import RULES, judge
from legalsat.rules.examples import EXAMPLES, Example
from legalsat.view.python_source import Expression, change, expression, subject

INDEX = "index.md"
# By the letters that codes begin with, in the order of the index.
FAMILIES = {
    "TMA": "Tensor maps",
    "COPY": "Executions of copies with a tensor map",
    "BULK": "Executions of copies without a tensor map",
    "VEC": "Vectors moved by threads",
    "GRAN": "Granules moved by threads",
    "WORD": "Words that can be moved",
    "UNIT": "Units that a chip lacks",
    "PAD": "Padding",
    "WIN": "Windows",
    "SMEM": "Shared memory",
    "REG": "Registers",
    "PROD": "Types of products",
    "MDESC": "Matrix descriptors",
    "WGMMA": "wgmma",
    "TILE": "Tiles for tcgen05",
    "TCGEN": "tcgen05 instructions",
    "TMEM": "Tensor memory",
    "PIPE": "Pipelines and barriers",
    "CUDA": "Results of failed calls",
    "TOOL": "Messages of compilers",
}
_ARTICLES = {"compiler": "the ", "driver": "the ", "hardware": "the ", "document": "a ", "nobody": ""}
_EXAMPLES = {example.code: example for example in EXAMPLES}


class Case(NamedTuple):
    """A case on a rule's page: what becomes of it, Python that shows it, and what that prints, if anything."""

    heading: str
    python: str
    printed: str = ""


class Family(NamedTuple):
    """Rules whose codes begin with the same letters."""

    title: str
    rules: tuple[Rule, ...]


def families() -> tuple[Family, ...]:
    """Return all rules by family, those of failed calls too.

    Raises:
        LegalSatError: a rule's code begins with letters that `FAMILIES` lacks.
    """
    found: dict[str, list[Rule]] = {letters: [] for letters in FAMILIES}
    for rule in (*RULES, *RESULT_RULES, *TOOL_RULES):
        letters = rule.code.rstrip("0123456789")
        if letters not in found:
            raise LegalSatError(f"rule {rule.code} belongs to no family; add {letters} to show_rules.FAMILIES")
        found[letters].append(rule)
    return tuple(Family(FAMILIES[letters], tuple(rules)) for letters, rules in found.items() if rules)


@cache
def rules_by_code() -> dict[str, Rule]:
    """Return all rules by their codes, those of failed calls too."""
    return {rule.code: rule for family in families() for rule in family.rules}


def title(rule: Rule) -> str:
    """Return a rule's code and name in words, such as "TMA005: global stride misaligned"."""
    words = re.sub(r"_2_(?=\d)", " 2^", rule.name).replace("_", " ")
    return f"{rule.code}: {words}"


def pages() -> dict[str, str]:
    """Return the Markdown of every page by its file name: the index, and `CODE.md` for each rule."""
    return {INDEX: index()} | {f"{rule.code}.md": page(rule) for family in families() for rule in family.rules}


def index() -> str:
    """Return the Markdown of the list of all rules, by family."""
    lines = [
        "---",
        "search: {exclude: true}  # its pages are found instead",
        "---",
        "",
        "# Rules",
        "",
        "What LegalSAT holds a tensor map, a descriptor, an instruction or a pipeline against. Each rule's page says",
        "where it is written or how it was measured, who enforces it, and shows a case that it refuses, repaired.",
        "`legalsat rule CODE` shows the same in a terminal, `legalsat rule --all` this list.",
    ]
    for family in families():
        lines += ["", f"## {family.title}", "", "| rule | what must hold | refused by |", "|---|---|---|"]
        lines += [
            f"| [{rule.code}]({rule.code}.md) | {_with_facts(_cell(summary(rule.docs)))} | {_weight(rule)} |"
            for rule in family.rules
        ]
    return "\n".join(lines) + "\n"


def page(rule: Rule) -> str:
    """Return the Markdown of one rule's page; its Python blocks run one after the other."""
    source, by = rule.source, rule.refused_by
    facts = (
        ("level", rule.level),
        ("refused by", f"{_ARTICLES[by]}{by}: {CONSEQUENCES[by]}"),
        ("authority", "measured: no document says so" if source.measured else "written in a document"),
        ("unit", rule.unit.name),
        ("field", f"`{source.field}`"),
        ("targets", ", ".join(rule.architectures)),
    )
    lines = [f"# {title(rule)}", "", _linked(rule.docs, rule.code)]
    lines += ["", "| | |", "|---|---|", *(f"| {label} | {_cell(text)} |" for label, text in facts)]
    lines += [
        "",
        "## Source",
        "",
        f"> {_escaped(source.quote)}",
        "",
        f"{_with_facts(source.document)}, `{source.field}`",
    ]
    for case in cases(rule):
        lines += ["", f"## {case.heading.capitalize()}", "", *_fenced("python", case.python)]
        lines += ["", *_fenced("text", case.printed)] if case.printed else []
    return "\n".join(lines) + "\n"


def cases(rule: Rule) -> tuple[Case, ...]:
    """Return what a rule's page shows: a refused and a repaired case, or how a result or a text is explained.

    Their Python runs, one after the other.
    """
    example = _EXAMPLES.get(rule.code)
    return _judged(example) if example else (_failed_call(rule),)


def _judged(example: Example) -> tuple[Case, ...]:
    refused, repaired = subject(example.refused), subject(example.repaired)
    made, changed = expression(refused), change("refused", refused, repaired)
    public = getattr(legalsat, type(refused).__name__, None) is type(refused)
    judging = (
        Expression(f'ls.violations({{}}, "{example.target}")', frozenset({"import legalsat as ls"}))
        if public
        else Expression(f'judge({{}}, "{example.target}")', frozenset({"from legalsat.rules import judge"}))
    )
    again = judging.text.replace(example.target, example.elsewhere or example.target)
    said = "\n".join(map(str, judge(example.refused, example.target)))
    imports = made.imports | judging.imports
    return (
        Case(
            "refused",
            _python(
                imports, f"refused = {made.text}", f"for said in {judging.text.format('refused')}:\n    print(said)"
            ),
            said,
        ),
        Case(
            "repaired",
            _python(
                changed.imports - imports,
                f"repaired = {changed.text}",
                f"assert not {again.format('repaired')}",
            ),
        ),
    )


def _failed_call(rule: Rule) -> Case:
    text = TOOL_TEXTS.get(rule.code, rule.code.removeprefix("CUDA").lstrip("0"))
    said = "\n".join(map(str, legalsat.explain(text, "h200").diagnostics))
    asked = f'for said in ls.explain("{text}", "h200").diagnostics:\n    print(said)'
    return Case("explained", _python(frozenset({"import legalsat as ls"}), asked), said)


def _python(imports: frozenset[str], *statements: str) -> str:
    standard = sorted(line for line in imports if "legalsat" not in line)
    ours = sorted(
        (line for line in imports if "legalsat" in line), key=lambda line: (line.split()[0] != "import", line)
    )
    blocks = ["\n".join(lines) for lines in (standard, ours) if lines]
    return "\n\n".join([*blocks, "\n".join(statements)])


def _fenced(language: str, text: str) -> list[str]:
    return [f"```{language}", text, "```"]


def _weight(rule: Rule) -> str:
    return rule.refused_by if rule.level == "error" else f"{rule.refused_by}, a {rule.level}"


def summary(docs: str) -> str:
    """Return the first paragraph of a help page on one line."""
    return " ".join(docs.split("\n\n", 1)[0].split())


def _linked(docs: str, code: str) -> str:
    """Return a help page with the other rules, and the facts, that it names as links."""
    codes = rules_by_code().keys() - {code}
    text = re.sub(r"\b[A-Z]+\d{3}\b", lambda m: f"[{m[0]}]({m[0]}.md)" if m[0] in codes else m[0], _escaped(docs))
    return _with_facts(text)


def _with_facts(text: str) -> str:
    """Return a text with the facts that it names as links to their page."""
    return re.sub(r"\bFACTS ([A-Z]+-\d+)\b", lambda m: f"[{m[0]}](../facts.md#{m[1].lower()})", text)


def _escaped(text: str) -> str:
    """Return a text with what is no mark of Markdown's escaped, but within backticks; *emphasis* is meant."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([_<\[\]]|(?<= )\*(?= ))", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")

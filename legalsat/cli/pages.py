"""The commands that look things up: `rule` and `targets`."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields, is_dataclass
from textwrap import indent
from typing import Any

from legalsat.checks import meant
from legalsat.cli import Answer
from legalsat.diagnostics import CONSEQUENCES
from legalsat.errors import InvalidInput
from legalsat.rule import Rule
from legalsat.targets import TARGETS, Target
from legalsat.targets import target as as_target
from legalsat.view.look import Look
from legalsat.view.show import byte_count, table
from legalsat.view.show_rules import Family, cases, families, rules_by_code

_UNITS = {
    "bytes": "bytes",
    "lanes": "threads of a warp",
    "registers_per_processor": "32-bit registers",
    "max_rank": "dimensions",
    "max_box_extent": "elements",
    "max_element_stride": "elements",
    "max_channels": "elements",
    "max_pixels": "pixels",
    "max_extent": "elements",
    "max_stride": "bytes, exclusive",
    "alignment": "bytes",
    "shared_alignment": "bytes",
    "store_granule": "bytes",
    "m": "rows",
    "n_step": "columns",
    "max_n": "columns",
    "k_bytes": "bytes",
    "columns": "columns of 32 bits",
    "allocation_columns": "columns of 32 bits",
    "max_cluster": "blocks",
    "processors": "SMs (AMD: CUs)",
}


def rule(args: Namespace) -> Answer:
    """Show one rule's page, or the list of all."""
    if args.all == (args.code is not None):
        raise InvalidInput("give either a rule's code, such as TMA003, or --all")
    if args.all:
        return Answer([_rule_json(one) for family in families() for one in family.rules], _rule_list)
    wanted = args.code.lower()
    found = next((one for one in rules_by_code().values() if wanted in (one.code.lower(), one.name)), None)
    if found is None:
        near = _codes_meant(args.code)
        raise InvalidInput(f"rule {args.code!r} is unknown; list the rules with `legalsat rule --all`{near}")
    examples = {case.heading: {"python": case.python, "printed": case.printed} for case in cases(found)}
    return Answer({**_rule_json(found), "examples": examples}, lambda look: _rule_page(found, look))


def _codes_meant(word: str) -> str:
    """Return which rule a wrong code or name may mean: the same letters and number, else what is spelled alike."""
    rules = rules_by_code()
    family = [code for code in rules if re.fullmatch(rf"{re.escape(word)}\d+", code, re.IGNORECASE)]
    if len(family) > 1:
        return f"; {family[0]} to {family[-1]} begin so"
    number = re.fullmatch(r"([A-Za-z]+)[-_ ]?0*(\d+)", word)
    same = [code for code in rules if number and re.fullmatch(rf"{number[1]}0*{number[2]}", code, re.IGNORECASE)]
    return f"; did you mean {same[0]}?" if same else meant(word, [*rules, *(one.name for one in rules.values())])


def _rule_json(one: Rule) -> dict[str, Any]:
    return {
        "code": one.code,
        "name": one.name,
        "level": one.level,
        "refused_by": one.refused_by,
        "unit": one.unit.name,
        "field": one.source.field,
        "source": one.source.document,
        "quote": one.source.quote,
        "measured": one.source.measured,
        "docs": one.docs,
        "targets": one.targets,
    }


def _rule_page(one: Rule, look: Look) -> str:
    lines = [f"{look.paint(one.code, one.level)} {look.paint(one.name, 'title')}"]
    for paragraph in one.docs.split("\n\n"):
        lines += ["", look.wrap(" ".join(paragraph.split()))]
    facts = (
        ("level", one.level),
        ("refused by", f"{one.refused_by}: {CONSEQUENCES[one.refused_by]}"),
        ("unit", one.unit.name),
        ("source", str(one.source)),
        ("targets", ", ".join(one.architectures)),
    )
    widest = max(len(label) for label, _ in facts)
    lines += ["", *(look.wrap(text, f"  {label.ljust(widest)}   ") for label, text in facts)]
    for case in cases(one):
        lines += ["", look.paint(case.heading, "title"), "", indent(case.python, "  ")]
        lines += ["", look.paint("  which prints", "faint"), "", _printed(case.printed, look)] if case.printed else []
    return "\n".join(lines)


def _printed(text: str, look: Look) -> str:
    """Return diagnostics as they are printed, wrapped to the look's width."""
    lines = []
    for line in text.splitlines():
        blanks = "  " + " " * (len(line) - len(line.lstrip()))
        lines.append(look.wrap(line.strip(), blanks, blanks + "  "))
    return "\n".join(lines)


def _rule_list(look: Look) -> str:
    """Return one table of all rules, with a line above each family."""
    found = families()
    rows = [("code", "level", "refused by", "name")]
    rows += [(one.code, one.level, one.refused_by, one.name) for family in found for one in family.rules]
    head, *lines = table(rows, indent="")
    listed = iter(lines)
    blocks = ["\n".join(_painted(family, listed, look)) for family in found]
    return "\n\n".join([look.paint(head, "title"), *blocks])


def _painted(family: Family, lines: Iterator[str], look: Look) -> Iterator[str]:
    yield look.paint(f"{family.title}:", "title")
    for one, line in zip(family.rules, lines, strict=False):
        yield line.replace(f" {one.level} ", f" {look.paint(one.level, one.level)} ", 1)


def targets(args: Namespace) -> Answer:
    """Show all targets as a table, or the whole table of one."""
    if args.name is not None:
        target = as_target(args.name)
        return Answer(asdict(target), lambda look: _target_page(target, look))
    return Answer([asdict(target) for target in TARGETS.values()], _target_list)


def _target_list(look: Look) -> str:
    rows = [("target", "architecture", "shared/block", "units", "SMs/CUs", "memory", "numbers from")]
    for target in TARGETS.values():
        device = target.device
        rows.append(
            (
                target.name,
                target.architecture,
                byte_count(target.shared_bytes_per_block),
                _units(target),
                str(device.processors) if device else "-",
                _bandwidth(device.memory_bandwidth) if device else "-",
                target.basis,
            )
        )
    head, *lines = table(rows, indent="", gap="  ")
    return "\n".join([look.paint(head, "title"), *lines])


def _units(target: Target) -> str:
    return " ".join(name for name in ("tma", "wgmma", "tcgen05") if getattr(target, name) is not None) or "-"


def _bandwidth(bytes_a_second: float) -> str:
    return f"{bytes_a_second / 1e12:.3g} TB/s"


def _target_page(target: Target, look: Look) -> str:
    rows: list[tuple[str, str]] = []
    for field in fields(target):
        value = getattr(target, field.name)
        if is_dataclass(value):
            rows += [
                (f"{field.name}.{part.name}", _value(part.name, getattr(value, part.name))) for part in fields(value)
            ]
        else:
            rows.append((field.name, _value(field.name, value)))
    return "\n".join([look.paint(target.name, "title"), *table(rows)])


_SHOWN: dict[str, Callable[[Any], str]] = {
    "toolkit": lambda version: "CUDA " + ".".join(map(str, version)),
    "multiplies": lambda rates: f"{_by_rate(rates)} (beside bf16)",
    "measured": lambda measured: "yes, on an H200" if measured else "no",
    "memory_bandwidth": _bandwidth,
    "bf16_flops": lambda operations: f"{operations / 1e12:g} TFLOP/s",
}


def _by_rate(rates: Sequence[tuple[str, float]]) -> str:
    """Return the types that multiply at each speed."""
    found: dict[float, list[str]] = {}
    for element, rate in rates:
        found.setdefault(rate, []).append(element)
    return "; ".join(f"{rate:g} {' '.join(elements)}" for rate, elements in found.items())


def _value(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if name in _SHOWN:
        return _SHOWN[name](value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "not measured"
    if "bytes" in name and isinstance(value, int) and value >= 1024:
        return f"{byte_count(value)} ({value} bytes)"
    return f"{value} {_UNITS[name]}" if name in _UNITS else str(value)

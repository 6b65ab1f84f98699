"""Error texts that name a condition, and the rule that each is about.

Programs refuse a map before the driver sees it, or a kernel before it runs, in a sentence that names one condition.
The sentences of known programs come first (`pasted_host_checks`,
`pasted_ptxas`, `pasted_compilers`); a line of any other program is
taken for what it is about and what it asks (`pasted_causes`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from legalsat.diagnostics import Diagnostic
from legalsat.pasted_asked import asked
from legalsat.pasted_causes import Named, failed_check, named_causes
from legalsat.pasted_compilers import COMPILERS
from legalsat.pasted_grammar import Sentence, compiled, needles
from legalsat.pasted_host_checks import HOST_CHECKS
from legalsat.pasted_ptxas import PTXAS
from legalsat.pasted_results import RESULT_RULES
from legalsat.pasted_tools import TOOL_RULES
from legalsat.rule import Rule, require
from legalsat.rules import RULES
from legalsat.targets import Target

SENTENCES = (*HOST_CHECKS, *PTXAS, *COMPILERS)
RULE_OF: dict[str, Rule] = {rule.code: rule for rule in (*RULES, *RESULT_RULES, *TOOL_RULES)}
_UNSAID = {"limit": "there are", "needed": "more"}  # what stands for a number that the text leaves out
_MOST_MATCHES = 200  # of one sentence: a log repeats itself
_MOST_REGISTERS, _REGISTERS_AT_ONCE = 255, 8  # of a thread
_GROUP = 128  # threads of a warpgroup
_UNITS: tuple[tuple[re.Pattern[str], Callable[[Target], bool]], ...] = (
    (re.compile(r"tcgen05|tmem"), lambda target: target.tcgen05 is not None),
    (re.compile(r"wgmma|gmma"), lambda target: target.wgmma is not None),
    (
        re.compile(r"tensormap|cp\.async\.bulk|\btma|tensor\.|descriptor|mbarrier"),
        lambda target: target.tma is not None,
    ),
    (re.compile(r"cp\.async"), lambda target: target.cp_async),
    (re.compile(r"cluster"), lambda target: target.max_cluster > 1),
)


def rule_of(codes: str, target: Target) -> Rule:
    """Return the rule of the first of several codes, as "WGMMA008/TCGEN004", whose unit the target has."""
    rules = [RULE_OF[code] for code in codes.split("/")]
    return next((rule for rule in rules if rule.unit.limits(target) is not None), rules[0])


def explain_sentences(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield what is wrong by the error texts in `text`, as `even` leaves it, in its order, each once.

    All but advice are errors, also where the driver would accept what the program refused.
    """
    found = [(match.start(), sentence, match) for sentence in SENTENCES for match in _matches(sentence, text)]
    told = set()
    for _, sentence, match in sorted(found, key=lambda one: one[0]):
        numbers = {name: _number(match, name, target) for name in match.groupdict()}
        numbers |= {**_limits(target), **numbers, **_registers(numbers, target), **_units(numbers, target)}
        diagnostic = rule_of(sentence.code, target).diagnostic(
            require(False, sentence.message, help=sentence.help, **numbers),
            f"text of {sentence.program}",
        )
        if (diagnostic.code, diagnostic.message) not in told:
            told.add((diagnostic.code, diagnostic.message))
            yield replace(diagnostic, level=sentence.level)


def explain_causes(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield the causes that lines of an unknown program name, in the order of an even text, each rule once."""
    for named in named_causes(text):
        yield _of_line(named, target)


def explain_failed_check(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield the check of a program's own that an even text tells of, of no known rule; one diagnostic at most."""
    named = failed_check(text)
    if named is not None:
        yield _of_line(named, target)


def _of_line(named: Named, target: Target) -> Diagnostic:
    line, cause = named
    shown = line if len(line) <= 100 else f"{line[:97]}..."
    numbers = {"asked": asked(line), "hardware": cause.hardware(target)}
    requirement = require(False, cause.message, help=cause.help, **numbers)
    return replace(rule_of(cause.code, target).diagnostic(requirement, f'line "{shown}"'), level="error")


def _matches(sentence: Sentence, plain: str) -> Iterator[re.Match[str]]:
    if not any(needle in plain for needle in needles(sentence.pattern)):
        return
    for count, match in enumerate(compiled(sentence.pattern).finditer(plain)):
        if count == _MOST_MATCHES:
            return
        yield match


def _limits(target: Target) -> dict[str, str]:
    return {} if target.tcgen05 is None else {"limit": str(target.tcgen05.columns)}


def _registers(numbers: dict[str, str], target: Target) -> dict[str, str]:
    """Return how many threads leave each the registers that a message tells, `given`, and how many those `needed`."""
    found = {}
    for name, threads in (("given", "threads"), ("needed", "fewer")):
        word = numbers.get(name, "")
        if word.isdigit() and 0 < int(word) <= _MOST_REGISTERS:
            each = -(-int(word) // _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
            found[threads] = str(target.registers_per_processor // each // _GROUP * _GROUP)
    return {"threads": "too many", "fewer": "fewer", **found}


def _units(numbers: dict[str, str], target: Target) -> dict[str, str]:
    """Return whether the target has what a message says that a GPU lacks, in words, if it is a unit of its own."""
    what = numbers.get("what", "").lower()
    for pattern, has in _UNITS:
        if pattern.search(what):
            return {"here": f"; {target} has it" if has(target) else f"; {target} does not have it either"}
    return {"here": ""}


def _number(match: re.Match[str], name: str, target: Target) -> str:
    """Return what the text gives, in one of its two spellings; a limit that it leaves out is the target's."""
    given = match[name] or match.groupdict().get(f"{name}_too")
    if given is None and name == "limit" and target.tcgen05 is not None:
        return str(target.tcgen05.columns)
    if given is not None and given.startswith("0x"):
        return str(int(given, 16))
    return given or _UNSAID.get(name, "not said")

"""Error texts that name a condition, and the rule that each is about.

Programs refuse a map before the driver sees it, or a kernel before it runs, in a sentence that names one condition.
The sentences of known programs come first (`legalsat.pasted.tables`); a line of any other program is taken for what it
is about and what it asks (`legalsat.pasted.causes`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from legalsat.diagnostics import Diagnostic
from legalsat.pasted.causes import Named, failed_check, named_causes
from legalsat.pasted.chips import told_of_chips
from legalsat.pasted.conditions import condition
from legalsat.pasted.grammar import Sentence, compiled, needles
from legalsat.pasted.results import RESULT_RULES
from legalsat.pasted.tables.compilers import COMPILERS
from legalsat.pasted.tables.cute_checks import CUTE_CHECKS
from legalsat.pasted.tables.fault_checks import FAULT_CHECKS
from legalsat.pasted.tables.host_checks import HOST_CHECKS
from legalsat.pasted.tables.kernel_checks import KERNEL_CHECKS
from legalsat.pasted.tables.mosaic_checks import MOSAIC_CHECKS
from legalsat.pasted.tables.ptxas import PTXAS
from legalsat.pasted.tables.tile_checks import TILE_CHECKS
from legalsat.pasted.tables.torch_checks import TORCH_CHECKS
from legalsat.pasted.tables.triton_checks import TRITON_CHECKS
from legalsat.pasted.tools import TOOL_RULES
from legalsat.rule import Rule, require
from legalsat.rules import RULES
from legalsat.targets import Target

SENTENCES = (
    *HOST_CHECKS,
    *PTXAS,
    *COMPILERS,
    *TRITON_CHECKS,
    *CUTE_CHECKS,
    *MOSAIC_CHECKS,
    *TILE_CHECKS,
    *TORCH_CHECKS,
    *KERNEL_CHECKS,
    *FAULT_CHECKS,
)
RULE_OF: dict[str, Rule] = {rule.code: rule for rule in (*RULES, *RESULT_RULES, *TOOL_RULES)}
OWN_LIMIT = "TOOL010"
_MOST_SHOWN = 160  # characters of a line that is told
# What a check of a program's own checks, in its words.
_CHECKED = re.compile(
    r"[Cc]heck failed: ?(\([^\n]{1,120}?\)) is false|[Aa]ssertion [`'\"]([^`'\"\n]{1,120})['`\"] failed"
    r"|assert\w* failed(?: with|:)? ?[\"']?([^\"'\n(]{4,120})|\b\w+Error: (?:\w+Error: )?(?!\w+Error\b|Failed\b|"
    r"Check failed|Assertion|[\[(])([^\n(]{8,120})"
)
_SLOW = "TOOL012"  # the one cause that a line names of what is right and slow
_OF_PROGRAMS = re.compile("TMA|TCGEN010")
_OF_CHIPS = ("TOOL004", "PROD001")
_ASKS_NO_NUMBER = re.compile("PIPE|CUDA|TOOL004")
_UNSAID = {"limit": "there are", "needed": "more", "known": "older"}  # stands for a number that is left out
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
        numbers |= {
            **_limits(target),
            **numbers,
            **_registers(numbers, target),
            **_units(numbers, target),
            "own": _own(target),
        }
        rule = rule_of(sentence.code, target)
        imposed, apart = _imposed(rule, match[0], target)
        # Most sentences are known to be about their unit; strides and scales are asked by programs of any GPU.
        rule, apart = (imposed, apart) if _OF_PROGRAMS.match(rule.code) and imposed.code == OWN_LIMIT else (rule, "")
        diagnostic = _by_who_asks(
            rule.diagnostic(
                require(False, sentence.message + apart, help=sentence.help, **numbers), f"text of {sentence.program}"
            ),
            sentence.program,
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
    shown = line if len(line) <= _MOST_SHOWN else f"{line[: _MOST_SHOWN - 3]}..."
    asked, rule, message = condition(line), rule_of(cause.code, target), cause.message
    if "{asked}" not in message and (asked.asks or rule.code == OWN_LIMIT) and not _ASKS_NO_NUMBER.match(rule.code):
        message += "{asked}"
    if rule.code in _OF_CHIPS:
        message += told_of_chips(target, line).replace("{", "(")
    rule, apart = _imposed(rule, line, target)
    message += apart
    checked = _CHECKED.search(line)
    said = "" if checked is None else f': "{next(filter(None, checked.groups())).strip()}"'
    numbers = {"asked": asked, "hardware": cause.hardware(target, line), "nearest": asked.nearest, "said": said}
    help_ = cause.help if _ASKS_NO_NUMBER.match(rule.code) else "{nearest}" + cause.help
    speaker = "CUTLASS" if "cutlass" in line.lower() else "the program that printed the line"
    found = _by_who_asks(rule.diagnostic(require(False, message, help=help_, **numbers), f'line "{shown}"'), speaker)
    return replace(found, level="warning" if rule.code == _SLOW else "error")


def _by_who_asks(found: Diagnostic, speaker: str) -> Diagnostic:
    """Return a finding of a program's own limit as said by that program, not by the one that its page quotes."""
    cites = found.code == OWN_LIMIT and speaker != "CUTLASS"
    return replace(found, note=f"{speaker}, whose own limit it is") if cites else found


def _imposed(rule: Rule, words: str, target: Target) -> tuple[Rule, str]:
    """Return who imposes a rule on `target`: where that lacks the unit, the program, or a kernel for another GPU."""
    if rule.unit.limits(target) is not None:
        return rule, ""
    lacks = f"; {target} has no {rule.unit.name}, so "
    if any(pattern.search(words.lower()) for pattern, has in _UNITS if not has(target)):
        return RULE_OF["TOOL004"], f"{lacks}the kernel is for another GPU"
    return RULE_OF[OWN_LIMIT], f"{lacks}it is the program that asks this"


def _matches(sentence: Sentence, plain: str) -> Iterator[re.Match[str]]:
    if not any(needle in plain for needle in needles(sentence.pattern)):
        return
    for count, match in enumerate(compiled(sentence.pattern).finditer(plain)):
        if count == _MOST_MATCHES:
            return
        yield match


def _own(target: Target) -> str:
    return "" if target.architecture == target.name else f"; {target} is {target.architecture}"


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
    if numbers.get("target") == target.architecture:  # for which it was compiled, and refused
        return {"here": ""}
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

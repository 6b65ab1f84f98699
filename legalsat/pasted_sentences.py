"""Error texts that name a condition, and the rule that each is about.

Programs refuse a map before the driver sees it, or a kernel before it runs, in a sentence that names one condition.
The sentences of known programs come first (`pasted_host_checks`,
`pasted_ptxas`, `pasted_compilers`); a line of any other program is
taken for what it is about and what it asks (`pasted_causes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from legalsat.diagnostics import Diagnostic
from legalsat.pasted_causes import named_causes
from legalsat.pasted_compilers import COMPILERS
from legalsat.pasted_grammar import Sentence, compiled, even, needles
from legalsat.pasted_host_checks import HOST_CHECKS
from legalsat.pasted_ptxas import PTXAS
from legalsat.pasted_results import RESULT_RULES
from legalsat.pasted_tools import TOOL_RULES
from legalsat.rule import Rule, require
from legalsat.rules import RULES
from legalsat.targets import Target

SENTENCES = (*HOST_CHECKS, *PTXAS, *COMPILERS)
RULE_OF: dict[str, Rule] = {rule.code: rule for rule in (*RULES, *RESULT_RULES, *TOOL_RULES)}
_MOST_MATCHES = 200  # of one sentence: a log repeats itself


def explain_sentences(text: str, target: Target) -> Iterator[Diagnostic]:
    """Yield what is wrong by the error texts in `text`, in its order, each once.

    All but advice are errors, also where the driver would accept what the program refused.
    """
    plain = even(text)
    found = [(match.start(), sentence, match) for sentence in SENTENCES for match in _matches(sentence, plain)]
    told = set()
    for _, sentence, match in sorted(found, key=lambda one: one[0]):
        numbers = {name: _number(match, name, target) for name in match.groupdict()}
        diagnostic = RULE_OF[sentence.code].diagnostic(
            require(False, sentence.message, help=sentence.help, **{**_limits(target), **numbers}),
            f"text of {sentence.program}",
        )
        if (diagnostic.code, diagnostic.message) not in told:
            told.add((diagnostic.code, diagnostic.message))
            yield replace(diagnostic, level=sentence.level)


def explain_causes(text: str) -> Iterator[Diagnostic]:
    """Yield the causes that lines of an unknown program name, in the text's order, each rule once."""
    for line, cause in named_causes(even(text)):
        shown = line if len(line) <= 100 else f"{line[:97]}..."
        requirement = require(False, cause.message, help=cause.help)
        yield replace(RULE_OF[cause.code].diagnostic(requirement, f'line "{shown}"'), level="error")


def _matches(sentence: Sentence, plain: str) -> Iterator[re.Match[str]]:
    if not any(needle in plain for needle in needles(sentence.pattern)):
        return
    for count, match in enumerate(compiled(sentence.pattern).finditer(plain)):
        if count == _MOST_MATCHES:
            return
        yield match


def _limits(target: Target) -> dict[str, int]:
    return {} if target.tcgen05 is None else {"limit": target.tcgen05.columns}


def _number(match: re.Match[str], name: str, target: Target) -> str:
    """Return what the text gives, in one of its two spellings; a limit that it leaves out is the target's."""
    given = match[name] or match.groupdict().get(f"{name}_too")
    if given is None and name == "limit" and target.tcgen05 is not None:
        return str(target.tcgen05.columns)
    if given is not None and given.startswith("0x"):
        return str(int(given, 16))
    return given or "there are"

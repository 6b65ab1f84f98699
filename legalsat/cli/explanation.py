"""How commands answer with explanations: text, JSON, SARIF or a page of HTML."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from legalsat.cli import DONE, REFUSED, UNSURE, Answer
from legalsat.errors import InvalidInput
from legalsat.explanation import Explanation
from legalsat.view.look import Look

_FORMS = ("json", "sarif", "html")


def explained(
    found: Explanation, args: Namespace, *, data: Any, text: Callable[[Look], str], file: str | None = None
) -> Answer:
    """Return the answer of a command in the form that its options ask for.

    Args:
        found: what was found.
        args: the options.
        data: what --json answers.
        text: what a person reads without options.
        file: the file that was explained, if its path is known.

    Raises:
        InvalidInput: two forms are asked for.
    """
    asked = [form for form in _FORMS if getattr(args, form)]
    if len(asked) > 1:
        raise InvalidInput(f"{' and '.join(f'--{form}' for form in asked)} are given; give one of them")
    code = DONE if found.legal else UNSURE if found.basis == "possible" else REFUSED
    if args.sarif:
        from legalsat.view.show_sarif import explanation_sarif  # noqa: PLC0415 - few ask for it

        return Answer(explanation_sarif(found, file), text, code)
    if args.html:
        from legalsat.view.show_html import explanation_page  # noqa: PLC0415 - few ask for it

        page = explanation_page(found)
        return Answer(data, lambda _: page, code)
    return Answer(data, text, code)


def path_of(words: str | None) -> str | None:
    """Return what an argument names if that is a file, None for standard input, bytes as hex, or nothing."""
    try:
        return words if words and words != "-" and Path(words).is_file() else None
    except OSError:  # hex digits too many for a file's name
        return None

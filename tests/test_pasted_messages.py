"""Messages that libraries hold, filled with numbers: each is told as its rule, and none is called legal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import legalsat as ls
from legalsat.pasted.sentences import RULE_OF

MESSAGES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "printed_messages.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message["text"][:60])
def test_a_message_of_a_library_is_told_as_its_rule(message: dict[str, Any]) -> None:
    found = ls.explain(message["text"], message["target"])
    assert found.diagnostics[0].code in message["codes"] and not found.legal
    assert found.verdict == ("undecided" if found.diagnostics[0].level == "warning" else "refused")


def test_messages_are_of_known_rules_and_of_several_libraries() -> None:
    assert {code for message in MESSAGES for code in message["codes"]} <= RULE_OF.keys()
    assert len({message["text"] for message in MESSAGES}) == len(MESSAGES)
    assert len({message["program"] for message in MESSAGES}) >= 10

"""Names of GPUs as people and drivers write them, and what to say of those that have no table."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from legalsat.printable import shown

_MOST = 80  # characters of a name; a longer one is no GPU's
# Words about a card that do not change which table is its own, and of which memory it has.
_WORDS = (
    r"nvidia|geforce|amd|instinct|radeon|tesla|jetson|agx|dgx|hgx|igx|oam|blackwell|superchip|server|workstation|edition|"
    r"max-?q|generation|sxm\d?|hbm\d?e?|ac"
)
_NOISE = re.compile(rf"\b(?:{_WORDS})\b")
_MEMORY = re.compile(r"\b\d{2,3} ?gi?b\b")
_SQUASHED = re.compile(r"[^a-z0-9]")
_CAPABILITY = re.compile(r"(?:sm|compute|cc)?[ _-]?(\d{1,2})\.?(\d)([af]?)")
# Other names of a table.
_ALIASES = {
    "sm101a": "sm_110a",
    "sm101": "sm_110a",
    "t5000": "thor",
    "agxthor": "thor",
    "spark": "gb10",
    "a100pcie": "a100",
    "a10080gbpcie": "a100-80gb",
    "h100sxm5": "h100",
    "rtxa6000": "a6000",
    "rtx6000pro": "rtxpro6000",
}
# Real chips without a table: what each is, and the nearest table.
_NEAREST = {
    "sm_70": ("Volta, which has no cp.async", "sm_80"),
    "sm_72": ("Volta, which has no cp.async", "sm_80"),
    "sm_75": ("Turing, which has no cp.async", "sm_80"),
    "sm_88": ("an Ampere of 8 W", "sm_87"),
    "sm_100f": ("the family of sm_100a, without what that has alone", "sm_100a"),
    "sm_103f": ("the family of sm_103a, without what that has alone", "sm_103a"),
    "sm_107": ("Rubin, of which no public numbers were read", "sm_103a"),
    "sm_110f": ("the family of sm_110a, without what that has alone", "sm_110a"),
    "sm_120f": ("the family of sm_120a, without what that has alone", "sm_120a"),
    "gfx908": ("CDNA, whose matrix units have half the rate of bf16", "gfx90a"),
    "v100": ("Volta (sm_70), which has no cp.async", "sm_80"),
    "t4": ("Turing (sm_75), which has no cp.async", "sm_80"),
    "mi100": ("CDNA (gfx908), whose matrix units have half the rate of bf16", "gfx90a"),
    "ampere": ("a family", "sm_80, or sm_86 for cards without HBM"),
    "ada": ("a family", "sm_89"),
    "hopper": ("a family", "sm_90a"),
    "blackwell": ("a family", "sm_100a for data centres, or sm_120a for cards"),
    "cdna2": ("a family", "gfx90a"),
    "cdna3": ("a family", "gfx942"),
    "cdna4": ("a family", "gfx950"),
}
# Chips before cp.async, of which texts are explained though they have no table: names, KiB of a block's shared memory.
_OLDER = (
    ("sm_13", r"tesla|g[89]\d|gt200|(?:gtx)?2[68][05]|(?:8|9)[468]00\w*", 16),
    ("sm_20", r"fermi|(?:gtx|gts?)?[45][1-9]\d(?:ti|m)*|c20[57]0|m20[579]0", 48),
    ("sm_37", r"k\d{1,2}\w?|k\d{4}m?|(?:gtx|gt)?[67][1-9]0(?:ti|m)*|kepler", 48),
    ("sm_53", r"nano|jetsonnano|tx1", 48),
    ("sm_52", r"m(?:4|6|10|40|60)|(?:gtx)?9[5-8]0(?:ti|m)*|(?:gtx)?titanx?|maxwell", 48),
    ("sm_60", r"p100\w*|gp100|pascal", 48),
    ("sm_62", r"tx2", 48),
    ("sm_61", r"p4|p40|p\d{4}|(?:gtx)?10[1-8]0(?:ti|m)*|titanxp", 48),
    ("sm_70", r"v100\w*|titanv|gv100|volta", 96),
    ("sm_72", r"xavier\w*", 96),
    (
        "sm_75",
        r"t4g?|(?:rtx)?20[5-8]0(?:ti|super)*|gtx16[5-6]0(?:ti|super)*|(?:quadro)?rtx[3-8]000(?:turing)?|titanrtx|turing",
        64,
    ),
    ("gfx908", r"mi100", 64),
    ("gfx906", r"mi[56]0", 64),
    ("gfx1100", r"(?:rx)?7900\w*|gfx11\d\d", 64),
    ("gfx1200", r"(?:rx)?90[67]0\w*|gfx12\d\d|r9700", 64),
)
_PARTS = re.compile(r"\b(?:laptop|mobile|gpus?|nvl\d+|cards?)\b")  # words of a whole machine
_OLDER_ARCHITECTURE = re.compile(r"sm[3-7]\d")
# Cards of a series, of which one or two have a table.
_SERIES = (
    (re.compile(r"(?:rtx)?20[5-8]0(?:ti|super)*|gtx16[5-6]0(?:ti|super)*|quadrortx\d000"), *_NEAREST["sm_75"]),
    (re.compile(r"(?:rtx)?30[5-9]0(?:ti)?|rtxa\d{4}|a2|a16|a10g"), "an Ampere card (sm_86)", "sm_86"),
    (re.compile(r"(?:rtx)?40[5-9]0(?:ti|super|d)*|rtx\d000(?:sff)?ada|l20|l2"), "an Ada card (sm_89)", "sm_89"),
    (re.compile(r"(?:rtx)?50[5-9]0(?:ti|d)*|rtxpro\d{3,4}\w*"), "a Blackwell card (sm_120a)", "sm_120a"),
    (re.compile(r"orin\w+"), "an Orin (sm_87)", "sm_87"),
    (re.compile(r"t4000"), "a Thor (sm_110a)", "sm_110a"),
    (re.compile(r"mi308x?"), "a CDNA3 (gfx942)", "gfx942"),
)


def table_named(name: str, tables: Collection[str]) -> str | None:
    """Return the one of `tables` that a name means; None if none does.

    Case and separators do not matter, nor do words of marketing: "NVIDIA H100 80GB HBM3" is h100. "sm_90", "sm90" and
    "9.0" mean sm_90a.
    """
    key = name.strip().lower()
    if key in tables:
        return key
    if not key or len(key) > _MOST:
        return None
    known = {_squash(table): table for table in tables} | _ALIASES
    plain = _NOISE.sub(" ", key.replace("_", " "))
    for text in (key, plain, _MEMORY.sub(" ", plain)):
        squashed = _squash(text)
        if found := known.get(squashed) or (known.get(f"{squashed}a") if squashed[:2] == "sm" else None):
            return found
    capability = _CAPABILITY.fullmatch(key)
    if capability and capability[3] != "f":
        number = f"sm_{capability[1]}{capability[2]}"
        return next((table for table in (f"{number}a", number) if table in tables), None)
    return None


def chip_named(name: str, tables: Collection[str]) -> tuple[str, int]:
    """Return the architecture of a chip that has no table, and the bytes of its blocks' shared memory.

    The architecture is one of `tables` for another card of a series, and the bytes are 0 then; "" for an unknown name.
    """
    key = name[:_MOST].strip().lower()
    bare = _MEMORY.sub(" ", _NOISE.sub(" ", _PARTS.sub(" ", key.replace("_", " "))))
    plain = _squash(bare) or _squash(key)
    if (table := table_named(bare, tables)) is not None:
        return table, 0
    for architecture, names, kib in _OLDER:
        if plain == _squash(architecture) or re.fullmatch(names, plain):
            return architecture, kib * 1024
    if _OLDER_ARCHITECTURE.fullmatch(plain):
        return f"sm_{plain[2:]}", 48 * 1024
    near = (words[1] for pattern, *words in _SERIES if pattern.fullmatch(plain))
    family = _NEAREST.get(plain, ("", ""))[1].partition(",")[0].partition(" ")[0]
    found = next(near, family)
    return (found, 0) if found in tables else ("", 0)


def unknown_name(name: Any, tables: Collection[str]) -> str:
    """Return what to say of a name that means no table: what it is and what is nearest, or which names are near."""
    said = shown(name)
    key = name.strip().lower() if isinstance(name, str) and len(name) <= _MOST else ""
    plain = _squash(_MEMORY.sub(" ", _NOISE.sub(" ", _PARTS.sub(" ", key.replace("_", " "))))) or _squash(key)
    chips = ((re.compile(f"{_squash(chip)}a?"), *words) for chip, words in _NEAREST.items())
    for pattern, what, nearest in (*chips, *_SERIES):
        if pattern.fullmatch(plain):
            return f"target {said} is unknown: it is {what} and has no table; give the nearest, {nearest}"
    architecture, _ = chip_named(key, tables)
    if architecture in {older for older, _, _ in _OLDER}:
        chip = "" if architecture == key else f" ({architecture})"
        return f"target {said}{chip} has no table; give one of `legalsat targets`, or a text of it to explain"
    squashed = {_squash(table): table for table in tables}
    near = [squashed[one] for one in get_close_matches(plain, squashed, n=3, cutoff=0.7)] if plain else []
    if near:
        return f"target {said} is unknown; did you mean {' or '.join(near)}? `legalsat targets` lists all"
    return f"target {said} is unknown; give one of {', '.join(tables)}"


def _squash(text: str) -> str:
    return _SQUASHED.sub("", text)

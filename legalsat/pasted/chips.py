"""Which GPUs a line speaks of: architectures by number and family, and element types that began with one."""

from __future__ import annotations

import re

from legalsat.targets import TARGETS, Target

_FAMILIES = {
    "kepler": 37, "maxwell": 52, "pascal": 60, "volta": 70, "turing": 75, "ampere": 80, "ada": 89, "hopper": 90,
    "blackwell": 100, "rubin": 107,
}  # fmt: skip
_NAMED = re.compile(
    r"\b(?:sm|compute|arch)[ _=]?(?P<number>\d{2,3})[af]?\b|\bsm\s?(?P<version>\d{1,2}\.\d)\b"
    r"|capability\D{0,20}?(?P<capability>\d{1,2}\.\d)\b|\b(?P<family>"
    + "|".join(_FAMILIES)
    + r")\b|\b(?P<product>"
    + "|".join(name for name, target in TARGETS.items() if target.device is not None and target.vendor == "nvidia")
    + r")\b",
    re.IGNORECASE,
)
# The architectures from which on matrix units multiply a type, and the names that frameworks give it.
_TYPES = (
    (80, "bf16", r"bf16|bfloat16"),
    (80, "tf32", r"tf32"),
    (89, "e4m3 and e5m2", r"fp8(?:e4nv|e5|_e4m3\w*|_e5m2\w*)?|float8\w*|e4m3\w*|e5m2\w*|w8a8_fp8"),
    (100, "4- and 6-bit floats with block scales", r"(?:nv|mx)_?fp[468]\w*|fp4\w*|e2m1\w*|e2m3|e3m2|float4\w*"),
)
_A_TYPE = tuple((since, name, re.compile(rf"\b(?:{words})\b", re.IGNORECASE)) for since, name, words in _TYPES)


def number_of(target: Target) -> int:
    """Return a target's architecture as a number, such as 90; 0 of other vendors' chips."""
    found = re.fullmatch(r"sm_(\d+)[af]?", target.architecture)
    return int(found[1]) if found else 0


def told_of_chips(target: Target, line: str) -> str:
    """Return which architecture a line names or its element types need, beside the target's, in words; "" if none."""
    own = number_of(target)
    if not own:
        return f"; {target} is {target.architecture}" if _NAMED.search(line) else ""
    asked = []
    for match in _NAMED.finditer(line):
        if match["product"]:
            product = TARGETS[match["product"].lower()]
            if number_of(product) != own:
                asked.append(f"{product} (sm_{number_of(product)})")
            continue
        words = match["number"] or (match["version"] or match["capability"] or "").replace(".", "")
        number = int(words) if words else _FAMILIES[match["family"].lower()]
        name = f"sm_{number}" if words else f"sm_{number} ({match['family'].capitalize()})"
        if number != own and 30 <= number <= 130:
            asked.append(name)
    types = [f"{name} {'are' if ' ' in name else 'is'} multiplied from sm_{since} on" for since, name, has in _A_TYPE
             if has.search(line)]  # fmt: skip
    named = [f"the text names {', '.join(dict.fromkeys(asked))}"] if asked else []
    said = [*named, *types]
    return f"; {'; '.join(said)}; {target} is sm_{own}" if said else ""

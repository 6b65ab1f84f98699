"""What a line asks of a quantity, by which number, and what it was given: one grammar of all such sentences.

Whoever refuses a call says a quantity, a relation and a bound, and most often the number that was given: "size_n = 32
is not divisible by tile_n = 64", "Expected the trailing dimension to be a multiple of 16 but got (32x8)". A statement
of what is wrong, "96 is larger than 64", asks the opposite of what it says.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

MULTIPLE, MOST, LEAST = "a multiple of {0}", "at most {0}", "at least {0}"
_PART = r"(?!\.\d|,\d{3}\b|\^|\*\*)"  # what follows a number that is a part of one: 0.5, 2,147,483,647, 2^31
_NUMBER = rf"(?<![A-Za-z_\d.])(?<!\d,)(\d{{1,9}})\b{_PART}"
# A number, or a name that stands for one, with its value if the line says it: "tile_n = 64", "block size (128)".
_BOUND = (
    rf"(?:(?<![A-Za-z_\d.])(?<!\d,)(?P<bound>\d{{1,9}})(?:[ -]?(?P<of>b(?:ytes?)?|elements?)\b|\b{_PART})"
    r"|(?P<name>(?:(?!(?:is|but|for|and|in|or|on|with|to|because|when|so|since|if|that|which|does|it)\b)"
    r"[A-Za-z_][\w.]{0,40}(?:\([-\d]{0,2}\))?(?: (?=[A-Za-z_]))?){1,5})"
    r"(?:(?:\s?(?:==?|\(|:)\s?| of | )(?P<value>[1-9]\d{0,8})\b(?!\.\d)\)?)?)"
)
_OPERAND = r"(?:(?P<bound>\d{1,9})|(?P<name>[A-Za-z_][\w.]{0,60}(?:\([-\d]{0,2}\))?))"
_MANY = r"(\d{1,6}(?:(?:\s*,\s*(?:and |or )?|\s+(?:and|or)\s+|\s*/\s*|\s*\|\s*)\d{1,6})+)"
_VERBS = (
    r"only supports?|supports? only|supported|must be|should be|has to be|have to be|needs? to be|expects?|expected|"
    r"one of|not in|be in|are|allowed|valid|available|requires?|required"
)
_ISNT = r"\b(?:is|are|was|were|got|of size|\d) "
# The relations in the order in which they are tried, and how what is asked reads.
_RELATIONS = tuple(
    (re.compile(pattern, re.IGNORECASE), words)
    for pattern, words in (
        (
            rf"(?:(?<!ed up to a )(?<!ded to a )(?<!ded to )(?<!ed up to )\b(?:a )?multiples? of|divi[sd]\w+ by|"
            rf"aligned (?:to|"
            rf"on|at)(?: an?)?)\W{{0,3}}(?:the )?{_BOUND}",
            MULTIPLE,
        ),
        (rf"%\W{{0,3}}{_OPERAND}(?=\W{{0,3}}(?:[=!]=|is\b|must|should|to be))", MULTIPLE),
        (r"(?<![\w.])(?P<bound>\d{1,4})[ -]?(?P<of>b(?:ytes?)?|elements?)[ -]align", MULTIPLE),
        (rf"\b{_NUMBER} ?<=? ?[A-Za-z_]\w* ?<=? ?{_NUMBER}", "{0} to {1}"),
        (r"\brange (?:of )?([(\[]-?\d{1,9}, ?-?\d{1,9}[)\]])", "{0}"),
        (rf"\bbetween {_NUMBER} and {_NUMBER}", "{0} to {1}"),
        (rf"\b(?:{_VERBS})\b(?P<gap>[^\d\n]{{0,40}}?){_MANY}", "{1}"),
        (rf"\bonly\b[^\d\n]{{0,30}}?{_MANY}", "{0}"),
        (rf"==\W{{0,2}}{_NUMBER}\W{{0,12}}(?:\bor\b|\|\|)[^\d\n]{{0,40}}==\W{{0,2}}{_NUMBER}", "{0} or {1}"),
        (rf"{_ISNT}(?:smaller|less|fewer|lower) than (?:the )?(?:minimum )?(?:of )?{_BOUND}", LEAST),
        (
            rf"(?:at most|<=|up to|less than or equal to|no (?:more|larger|greater) than|maximum(?: of)?|not exceed|"
            rf"not be (?:larger|greater) than|limit(?:ed)? (?:of|to)|\bmax(?:imum)?(?: is| =|:)?)\W{{0,3}}{_NUMBER}",
            MOST,
        ),
        (
            rf"\b(?:must|only|should|needs?|has to|have to|requires?|expect\w*|assert\w*)\b[^\d\n]{{0,40}}?"
            rf"(?:>|greater than|more than|larger than|above) ?{_NUMBER}",
            "more than {0}",
        ),
        (rf"(?:exceed\w*|larger than|greater than|more than|above)\W{{0,3}}(?:the )?{_BOUND}", MOST),
        (
            r"(?:at least|>=|minimum(?: of| is)?|no(?:t be)? (?:less|smaller) than)\W{0,3}(?P<bound>\d{1,9})\b" + _PART,
            LEAST,
        ),
        (r"powers? of (?:2|two)", "a power of two"),
        (r"not meet (?:the )?requirements?\W{1,3}(\d{1,4} (?:bits|bytes))", "{0}"),
        (rf"(?:\b(?:{_VERBS})|==)[^\d\n]{{0,24}}?(?!0\b){_NUMBER}", "{0}"),
    )
)
_AND_MOST = re.compile(r",? (?:and |but )?(?:<=|at most|up to|no more than|not exceed\w*) ?(\d{1,6})\b")
_SHAPE = r"(?:torch\.Size\()?[(\[]\d{1,9}(?:(?:, ?|x)\d{1,9}){0,8},?[)\]]\)?"
_GIVEN = re.compile(
    rf"(?:\bbut|\bgot|\bgiven|\breceived|\bfound|\bactual(?:ly)?|\binstead)\b"
    rf"(?:[^(\[\n]{{0,40}}?(?P<shape>{_SHAPE})|"
    r"(?:(?!divisib|multipl|align|less than|more than|at (?:least|most))[^\d(\[\n]|(?<=[A-Za-z_])\d){0,40}?"
    rf"(?<![\w.])(?P<given>-?\d{{1,9}}\b))"
    r"|(?:unsupported|dispatch|invalid|for)\b[^\d\n=,]{0,30}(?:size|dim\w*|recipe|rank|heads?)\w*(?:\W{1,3}|"
    r" )(?P<named>\d{1,6})\b"
    r"|\b(?:head_?dim\w*|head_?size|page_?size|block_?size|group_?size|dim|hidden_size)\s?[=:]\s?(?P<equals>\d{1,6})\b",
    re.IGNORECASE,
)
# What joins a quantity to what is asked of it, and what stands before a quantity and is none of its words.
_JOINS = re.compile(
    r"(?:[\s!=<>,]|\.\.\.|\b(?:is|are|was|were|be|been|must|should|has|have|needs?|required?|requires|expected|expects|to|not|"
    r"n't|isn't|aren't|doesn't|don't|does|do|did|an?|the|evenly|both|also|currently|cannot|in|with|and|which|it|currently)(?![\w(]))*$",
    re.IGNORECASE,
)
_OPENS = re.compile(
    r"^(?:expect(?:ed|s)?|requires?|assert\w*|that|the|if|but|and|or|for|when|because|since|all|of|any|its|each|every|"
    r"invalid|unsupported|both|only|weight|check failed)\b\W*",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"(?:\s?(?:==?|:|\(|\bof\b|\bis\b)\s?|(?<=\w) (?=-?\d\d)|^)(?P<given>-?\d{1,9})\)?$|"
    r" ?(?P<list>[\[(]\d[\d, x]{0,60}[\])])$"
)
_CLAUSE = re.compile(r"[,;:'\"`]|\. |\b(?:when|if|because|since|where|while|whenever|unless|that|so|whose)\b")
_WORDS = re.compile(r"(?:[A-Za-z_][\w.]{0,60}(?:\[-?\w{0,9}\]|\( ?-?\w{0,9}\))?(?: ?(?:[*+]|//) ?| |$)){1,6}$")
_IDENTIFIER = re.compile(r"\b[a-z]+_\w+\b")
SHORTENED = re.compile(r"(?<=\w)'(?:[msd]|ll|ve|re)\b")  # what is left of a word, as in I'm
_SETTING = re.compile(
    r"(?<![\w.:])[A-Za-z_]\w{0,40} ?[=:] ?(?:\d{1,9}|[A-Z][a-z]?\d\w{1,12}|b?float\d+\w*|"
    r"[bf]+p?\d+)(?![\w.])"
)
_NAMED_NUMBER = re.compile(r"(?P<name>[A-Za-z_]\w*)\s?(?:=(?!=)|:)\s?(?P<number>-?\d{1,9})\b(?!\.\d)")


# "Group size (32) does not evenly divide the number of input features (4304)": the divisor comes first.
_DIVIDES = re.compile(
    r"(?:not|n't|must|should|has to) (?:evenly )?divide (?:the )?(?P<what>[A-Za-z_][\w. ]{0,60}?)"
    r"(?:\s?[=:(]\s?(?P<given>\d{1,9})\)|\s?[=:]\s?(?P<own>\d{1,9})\b|\s?(?P<list>[\[(]\d[\d, x]{0,60}[\])])|[^\w. ]|"
    r"$)",
    re.IGNORECASE,
)


_REFUSED = re.compile(r"\b(?P<what>[A-Za-z]\w*_\w+) (?:is )?(?:not supported|unsupported)", re.IGNORECASE)


class Condition(NamedTuple):
    """What a line asks of a quantity and was given, in words; "" for what it does not print.

    It may print a number that meets what is asked, as where that is rounded up before it is compared.
    """

    asks: str
    given: str
    quantity: str = ""
    multiple: int = 0
    holds: bool = False

    def __str__(self) -> str:
        asks = f": it asks for {self.asks}" if self.asks else ""
        given = f"{',' if asks else ':'} given {self.given}" if self.given else ""
        said = asks + given + (f" for {self.quantity}" if (asks or given) and self.quantity else "")
        return said + ", which meets it, so a number made of that one fails" * self.holds

    @property
    def nearest(self) -> str:
        """How to meet a multiple that was missed, as words that begin a help; "" where the numbers do not say."""
        numbers = (int(one) for one in re.findall(r"\d{1,9}", self.given)) if self.multiple else ()
        missed = [one for one in dict.fromkeys(numbers) if one % self.multiple]
        if not missed:
            return ""
        more = " and ".join(str(-(-one // self.multiple) * self.multiple) for one in missed)
        return f"make {' and '.join(map(str, missed))} a multiple of {self.multiple}, {more} for one; "


@lru_cache(maxsize=1024)
def condition(line: str) -> Condition:
    """Return what a line asks of a quantity and was given; all of it "" if it asks nothing."""
    line = SHORTENED.sub("", line)
    given = _GIVEN.search(line)
    plain, other = ("", "") if given is None else (given["given"] or given["shape"], given["named"] or given["equals"])
    reversed_ = _DIVIDES.search(line)
    if reversed_ is not None:
        name, bound = _quantity(line[: reversed_.start()])
        shown = f"{name} = {bound}" if bound else name
        given_of = reversed_["given"] or reversed_["own"] or reversed_["list"] or ""
        return Condition(
            MULTIPLE.format(shown), given_of, reversed_["what"].strip(), int(bound) if bound.isdigit() else 0
        )
    before = line[: given.start()] if given is not None and plain else line
    for pattern, words in _RELATIONS:
        match = pattern.search(before)
        if match is None:
            continue
        groups = match.groupdict()
        bound = groups.get("bound") or groups.get("value") or ""
        name = (groups.get("name") or "").strip()
        shown = f"{name} = {bound}" if name and bound else name or bound
        if groups.get("of"):
            shown += " bytes" if groups["of"][0].lower() == "b" else " elements"
        asks = words.format(*([shown] if "bound" in groups else match.groups()))
        most = _AND_MOST.match(before, match.end()) if words is MULTIPLE else None
        asks += f" and at most {most[1]}" if most is not None else ""
        quantity, own = _quantity(before[: match.start()])
        inside = _IDENTIFIER.search(groups.get("gap") or "")
        quantity = quantity if inside is None else inside[0]
        got = plain or own or _told_apart(line, quantity) or (other if other != bound else "")
        got = got or _too_small(before, bound, words)
        got = "" if asks == got else got
        multiple = int(bound or 0) if words is MULTIPLE and not groups.get("of") else 0
        return Condition(asks, got, quantity, multiple, _holds(words, bound, got))
    refused = _REFUSED.search(line)
    value = "" if refused is None else _told_apart(line, refused["what"])
    return (
        Condition("", value, refused["what"]) if refused and value else Condition("", plain or other or _listed(line))
    )


def _holds(words: str, bound: str, given: str) -> bool:
    """Whether the number that a line prints is within the bound that it prints."""
    if words not in {MOST, LEAST} or not (bound.isdigit() and given.isdigit()):
        return False
    return int(given) <= int(bound) if words is MOST else int(given) >= int(bound)


def _listed(line: str) -> str:
    """Return the settings that a line lists by name, if there are several."""
    pairs = [match[0].strip() for match in islice(_SETTING.finditer(line), 8)]
    return ", ".join(pairs) if len(pairs) > 1 else ""


def _quantity(words: str) -> tuple[str, str]:
    """Return the quantity that words end with, and the number that they give of it."""
    clause = _JOINS.sub("", words[-160:])
    value = _VALUE.search(clause)
    given = "" if value is None else value["given"] or value["list"]
    clause = _JOINS.sub("", clause if value is None else clause[: value.start()])
    clause = re.sub(r"(?<=\w) -?\d$", "", _CLAUSE.split(clause)[-1].strip())  # the number of an axis
    match = _WORDS.search(clause)
    name = "" if match is None or clause.endswith(".") else match[0]
    while (shorter := _OPENS.sub("", name)) != name:
        name = shorter
    return name.strip(), given


def _too_small(line: str, bound: str, words: str) -> str:
    """Return the numbers of a shape in a line that are below the least that it asks for."""
    if words is not LEAST or not bound:
        return ""
    inside = [match[0] for match in re.finditer(r"[(\[][^()\n]{0,80},[^()\n]{0,80}[)\]]", line)]
    return ", ".join(one for one in re.findall(r"(?<![\w.])\d{1,9}\b", " ".join(inside)) if int(one) < int(bound))


def _told_apart(line: str, quantity: str) -> str:
    """Return the number that a line gives a quantity elsewhere, as in "stride % 8 == 0 is false: stride=20"."""
    named = {match["name"].lower(): match["number"] for match in _NAMED_NUMBER.finditer(line)}
    words = [word for word in quantity.lower().split() if word in named]
    return named[words[-1]] if words else ""

"""What the e-graph knows of every class of modes, as egglog rules; each fact merges where classes do.

Facts of one side carry its name. All hold for the movement, whatever list of modes stands for it:

- `size`: elements. `reach`: bits from the first element to the last one. Equal in equal lists.
- `first`: the smallest stride of a mode of more than one element, in bits.
- `step`: the largest power of two, in bits, that every stride of such a mode is known to be a multiple of. Lists know
  different ones; the class knows the largest.
- `rank`: the fewest modes of more than one element.
- `apart`: 1 where some list nests, so that no two elements share memory; absent where none is known to.
- `wild`: the fewest modes that can be no outer dimension of a tensor map, their stride being more than a granule and
  no multiple of one.
- `whole`: 1 where some list has a whole mode, shorter than a granule apart, that could swallow a wild one.
"""

from __future__ import annotations

from collections.abc import Mapping

from legalsat.targets import GRANULE_BYTES

SIDES = ("source", "target")
_GRANULE = 8 * GRANULE_BYTES
_ANY_STEP = 2**62


def _function(name: str, merge: str) -> str:
    return f"(function {name} (Modes) i64 :merge ({merge} old new))"


def _of_nil(**values: int) -> str:
    sets = " ".join(f"(set ({name} m) {value})" for name, value in values.items())
    return f"(rule ((= m (nil))) ({sets}) :ruleset facts)"


def _of_link(name: str, value: str, *conditions: str) -> str:
    return (
        f"(rule ((= m (link n source target t rest)) (= r ({name} rest)) {' '.join(conditions)}) "
        f"((set ({name} m) {value})) :ruleset facts)"
    )


def _program() -> str:
    lines = [_function("size", "max"), _of_nil(size=1), _of_link("size", "(* n r)")]
    lines += [_function("rank", "min"), _of_nil(rank=0)]
    lines += [_of_link("rank", "(+ r 1)", "(< 1 n)"), _of_link("rank", "r", "(= 1 n)")]
    for s in SIDES:
        lines += [
            _function(f"reach_{s}", "max"),
            _of_nil(**{f"reach_{s}": 0}),
            _of_link(f"reach_{s}", f"(+ r (* {s} (- n 1)))"),
            _function(f"first_{s}", "min"),
            _of_nil(**{f"first_{s}": _ANY_STEP}),
            _of_link(f"first_{s}", f"(min r {s})", "(< 1 n)"),
            _of_link(f"first_{s}", "r", "(= 1 n)"),
            _function(f"step_{s}", "max"),
            _of_nil(**{f"step_{s}": _ANY_STEP}),
            _of_link(f"step_{s}", f"(min r (& {s} (- 0 {s})))", "(< 1 n)", f"(< 0 {s})"),
            _of_link(f"step_{s}", "r", f"(= 0 {s})"),
            _of_link(f"step_{s}", "r", "(= 1 n)"),
            _function(f"apart_{s}", "max"),
            _of_nil(**{f"apart_{s}": 1}),
            _of_link(f"apart_{s}", "1", "(= 1 r)", f"(= f (first_{s} rest))", f"(<= (* n {s}) f)", f"(< 0 {s})"),
            _of_link(f"apart_{s}", "r", "(= 1 n)"),
            _function(f"wild_{s}", "min"),
            _of_nil(**{f"wild_{s}": 0}),
            _of_link(f"wild_{s}", "(+ r 1)", "(< 1 n)", f"(< {_GRANULE} {s})", f"(!= 0 (% {s} {_GRANULE}))"),
            _of_link(f"wild_{s}", "r", f"(= 0 (% {s} {_GRANULE}))"),
            _of_link(f"wild_{s}", "r", f"(< {s} {_GRANULE})"),
            _of_link(f"wild_{s}", "r", "(= 1 n)"),
            _function(f"whole_{s}", "max"),
            _of_nil(**{f"whole_{s}": 0}),
            _of_link(f"whole_{s}", "1", "(<= n t)", "(< 1 n)", f"(< {s} {_GRANULE})"),
            _of_link(f"whole_{s}", "r"),
        ]
    return "\n".join(lines)


FACTS = _program()


def barred(means: str, facts: Mapping[str, int]) -> bool:
    """Whether no tensor map can load these modes, whatever list of them stands for the class.

    A wild mode stays an outer dimension unless a whole mode that is shorter than a granule apart swallows it.
    """
    return means == "tma" and facts["wild_source"] > 0 and not facts["whole_source"]

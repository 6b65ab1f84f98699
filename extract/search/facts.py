"""What the e-graph knows of every class of modes, as egglog rules; each fact merges where classes do.

Both hold for the movement, whatever list of modes stands for it, and bar what no tensor map can load:

- `misaligned`: the fewest modes that can be no outer dimension of the source's map, their stride being more than a
  granule and no multiple of one.
- `absorbing`: 1 where some list has a whole mode, shorter than a granule apart, that could swallow such a one.
"""

from __future__ import annotations

from collections.abc import Mapping

from legalsat.targets import GRANULE_BYTES

_GRANULE = 8 * GRANULE_BYTES


def _function(name: str, merge: str) -> str:
    of_nil = f"(rule ((= m (nil))) ((set ({name} m) 0)) :ruleset facts)"
    return f"(function {name} (Modes) i64 :merge ({merge} old new)) {of_nil}"


def _of_link(name: str, value: str, *conditions: str) -> str:
    return (
        f"(rule ((= m (link n source target t rest)) (= r ({name} rest)) {' '.join(conditions)}) "
        f"((set ({name} m) {value})) :ruleset facts)"
    )


FACTS = "\n".join(
    (
        _function("misaligned", "min"),
        _of_link("misaligned", "(+ r 1)", "(< 1 n)", f"(< {_GRANULE} source)", f"(!= 0 (% source {_GRANULE}))"),
        _of_link("misaligned", "r", f"(= 0 (% source {_GRANULE}))"),
        _of_link("misaligned", "r", f"(< source {_GRANULE})"),
        _of_link("misaligned", "r", "(= 1 n)"),
        _function("absorbing", "max"),
        _of_link("absorbing", "1", "(<= n t)", "(< 1 n)", f"(< source {_GRANULE})"),
        _of_link("absorbing", "r"),
    )
)


def barred(means: str, facts: Mapping[str, int]) -> bool:
    """Whether no tensor map can load these modes, whatever list of them stands for the class.

    A misaligned mode stays an outer dimension unless a whole mode that is shorter than a granule apart swallows it.
    """
    return means == "tma" and facts["misaligned"] > 0 and not facts["absorbing"]

"""What results must be, by brute force or by going back the way they came."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import legalsat as ls
from legalsat.extract.check.recheck import recheck

MOST = 4096  # elements that are counted one by one
Arguments = tuple[Any, ...]
Options = Mapping[str, Any]


def offsets(layout: Any) -> list[int]:
    """Return a layout's offsets in the order of its index, each by a call."""
    return [layout(i) for i in range(layout.size)]


def _small(*layouts: Any) -> bool:
    return all(isinstance(one, ls.Layout) and one.size <= MOST for one in layouts)


def same_function(given: Arguments, _: Options, result: Any) -> None:
    """A layout written otherwise: the same offset for every index."""
    if _small(given[0], result):
        assert offsets(given[0]) == offsets(result)


def composed(given: Arguments, _: Options, result: Any) -> None:
    """R(i) = A(B(i))."""
    outer, inner = given
    if _small(inner, result) and not isinstance(outer, str):
        assert offsets(result) == [outer(i) for i in offsets(inner)], f"{outer} o {inner} = {result}"


def complemented(given: Arguments, options: Options, result: Any) -> None:
    """No offset but 0 is in both, and the complement's offsets rise."""
    if _small(given[0], result):
        both = set(offsets(given[0])) & set(offsets(result))
        assert both <= {0}, f"{given[0]} and its complement {result} share {sorted(both)[:4]}"
        found = offsets(ls.coalesce(result))
        assert found == sorted(found)


def right_inverse(given: Arguments, _: Options, result: Any) -> None:
    """L(R(i)) = i."""
    if _small(given[0], result):
        assert [given[0](i) for i in offsets(result)] == list(range(result.size))


def left_inverse(given: Arguments, _: Options, result: Any) -> None:
    """R(L(i)) = i wherever L is one to one."""
    layout = given[0]
    if _small(layout, result) and len(set(offsets(layout))) == layout.size:
        assert [result(i) for i in offsets(layout)] == list(range(layout.size))


def divided(given: Arguments, _: Options, result: Any) -> None:
    """A division by a layout whose repeats fill what is divided holds the same offsets, each as often."""
    layout, tiler = given
    if _small(layout, result) and result.size == layout.size and _small(tiler) and layout.size % tiler.size == 0:
        try:
            repeats = ls.complement(tiler, layout.size)
        except ls.LegalSatError:
            return
        filled = sorted(at + by for at in offsets(tiler) for by in offsets(repeats))
        if filled == list(range(layout.size)):
            assert sorted(offsets(result)) == sorted(offsets(layout))


def multiplied(given: Arguments, _: Options, result: Any) -> None:
    """A product has as many elements as its two sides have together."""
    if _small(*given):
        assert result.size == given[0].size * given[1].size


def written_and_read(_: Arguments, __: Options, result: Any) -> None:
    """A layout is what its text says, and what its JSON says."""
    assert ls.Layout(str(result)) == result
    assert ls.Layout.from_json(json.loads(json.dumps(result.to_json()))) == result


def counts(given: Arguments, _: Options, result: Any) -> None:
    """A layout's numbers, counted."""
    if _small(given[0]):
        assert result == given[0].size


def permutes(given: Arguments, _: Options, result: Any) -> None:
    """A swizzle keeps the numbers of a period, each once, and turned twice it is where it was."""
    swizzle = given[0]
    period = min(swizzle.period, 1024)
    if period == swizzle.period:
        assert sorted(swizzle(i) for i in range(period)) == list(range(period))


def inverted(given: Arguments, _: Options, result: Any) -> None:
    """L^-1(L(i)) = i, bit by bit."""
    layout = given[0]
    back = layout.compose(result)
    for name, size in back.in_sizes.items():
        for i in (0, 1, size - 1):
            if i < size:
                coordinates = dict.fromkeys(back.in_sizes, 0) | {name: i}
                assert back(**coordinates) == {k: coordinates.get(k, 0) for k in back.out_sizes}


def of_bytes(given: Arguments, _: Options, result: Any) -> None:
    """A map's bytes read back are the map as its hardware knows it, and make the same bytes."""
    if not any(d.level == "error" for d in ls.violations(given[0], "h200")):
        assert ls.encode_blob(ls.decode(result)) == result


def image(given: Arguments, _: Options, result: Any) -> None:
    """The bytes that arrive are those that the barrier counts."""
    tm = given[0]
    if tm.mode == "tiled" and tm.swizzle == "none":
        assert int(np.count_nonzero(result != -2)) == ls.tx_bytes(tm)


def wavefronts(given: Arguments, _: Options, result: Any) -> None:
    """An access takes a wavefront at least, and no more than each lane by itself."""
    assert 1 <= result <= 8 * len(given[1])


def plan(given: Arguments, _: Options, result: Any) -> None:
    """A plan passes the check that knows neither the e-graph nor the solver."""
    if isinstance(result, ls.MovementPlan):
        if not result.guard:
            recheck(result)
        assert result.cost.nanoseconds > 0
    json.dumps(result.to_json())


def diagnostics(_: Arguments, __: Options, result: Any) -> None:
    """Findings say what, why and what to do."""
    for found in result:
        assert found.message and found.help and found.level in {"error", "warning"}, found
        assert found.message[0] == found.message[0].lower() or not found.message[0].isalpha() or " " in found.message


def explanation(_: Arguments, __: Options, result: Any) -> None:
    """Legal where boxes of a map plan it, or where there is no error; its repairs are of numbers that make sense."""
    boxed = result.plan is not None and result.plan.access.by == "tma"
    errors = any(d.level == "error" for d in result.diagnostics)
    assert not result.legal or boxed or not errors, "legal, with errors"
    assert result.legal or errors or result.parts or result.undecided, "refused for no reason"
    for repair in result.repairs:
        assert repair.bytes_added >= 0
        assert repair.nanoseconds is None or math.isfinite(repair.nanoseconds)
    assert str(result)
    json.dumps(result.to_json(), allow_nan=False)


def region(_: Arguments, __: Options, result: Any) -> None:
    """What holds at a point is what its plan, bound there, says."""
    values = {dim.name: dim.smallest for dim in result.dims}
    assert isinstance(result.holds(**values), bool)
    json.dumps(result.to_json())


def picture(_: Arguments, __: Options, result: Any) -> None:
    """A drawing is a whole SVG."""
    text = str(result).strip()
    assert text.startswith("<svg") and text.endswith("</svg>"), text[:80]

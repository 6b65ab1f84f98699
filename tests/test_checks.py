"""Arguments of any type and size: what has no meaning ends in InvalidInput, in words, at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legalsat as ls
from legalsat import checks
from legalsat.units import tcgen05, tensor_memory

X = ls.Tensor((64, 64), "bf16")
MAP = ls.TensorMap("bf16", (64, 64), (128,), (64, 8))
HUGE = 10**5000  # which Python refuses to write in digits


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = (value,)
    return value


class Hostile:
    """A value that raises whatever it is asked."""

    def __index__(self) -> int:
        raise RuntimeError

    def __repr__(self) -> str:
        raise ZeroDivisionError

    def __iter__(self) -> Any:
        raise TypeError


def type_of(value: Any) -> str:
    return type(value).__name__


CALLS: dict[str, Callable[[], Any]] = {
    "seconds beyond floats": lambda: ls.synthesize(X, "h200", seconds=10**400),
    "seconds without end": lambda: ls.synthesize(X, "h200", seconds=float("inf")),
    "an array of no axis": lambda: ls.Tensor(np.array(5), "bf16"),
    "an array of no axis as a box": lambda: ls.TensorMap("bf16", np.array(5), (), (8,)),  # type: ignore[arg-type]
    "a shape without order": lambda: ls.Tensor({4, 8}, "bf16"),
    "a shape by name": lambda: ls.Tensor({"M": 4}, "bf16"),
    "a shape without end": lambda: ls.Tensor(itertools.count(1), "bf16"),
    "bases that are a number": lambda: ls.LinearLayout({"M": 1}, ()),  # type: ignore[dict-item]
    "outs without end": lambda: ls.LinearLayout({"M": [(1,)]}, range(10**12)),  # type: ignore[arg-type]
    "names of no kind": lambda: ls.LinearLayout.identity(2, [], "x"),  # type: ignore[arg-type]
    "an extent of 16,610 bits": lambda: ls.Tensor((HUGE,), "bf16"),
    "a layout of 62,000 bits": lambda: ls.Layout((2**62,) * 1000),
    "a size of 62,000 bits": lambda: ls.size((2**62,) * 1000),
    "offsets of 2^62": lambda: ls.Layout(2**62).offsets(),
    "a number that is no word": lambda: ls.explain(HUGE, "h200"),
    "a tiler 300 deep": lambda: ls.logical_divide(ls.Layout(8), deep(300)),
    "a profile 5,000 deep": lambda: ls.coalesce(ls.Layout(8), deep(5000)),
    "a shape 5,000 deep": lambda: ls.Layout(deep(5000)),
    "composed layouts in common": lambda: ls.max_common_vector(
        ls.ComposedLayout(ls.Swizzle(3, 4, 3), 0, ls.Layout(8)),  # type: ignore[arg-type]
        ls.Layout(8),
    ),
    "rows that are none": lambda: ls.draw_rows(MAP, rows=[]),  # type: ignore[arg-type]
    "lines without end": lambda: ls.draw_shared(MAP, lines=2**40),
    "bytes without end": lambda: ls.decode(range(10**12)),
    "a flag of many": lambda: ls.decode(bytes(128), hardware_only=np.zeros(2)),  # type: ignore[arg-type]
    "constant that is an array": lambda: ls.Copy(X, constant=np.zeros(2)),  # type: ignore[arg-type]
    "a padding that is a text": lambda: ls.Pad(X, "ab"),
    "a pipeline of letters": lambda: ls.Pipeline("a", "b", "c"),  # type: ignore[arg-type]
    "an operand of nothing": lambda: ls.MatrixOperand("K", 64, None, ()),  # type: ignore[arg-type]
    "a kind by name": lambda: tcgen05.legal_m("f16", 1),  # type: ignore[arg-type]
    "scales of no kind": lambda: tcgen05.scale_steps("f16", None, 1),  # type: ignore[arg-type]
    "factors in a list": lambda: tcgen05.scale_ids([1]),  # type: ignore[arg-type]
    "events without axis": lambda: tensor_memory.Program(np.array(5)),  # type: ignore[arg-type]
    "events without end": lambda: tensor_memory.Program(range(10**12)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", CALLS)
def test_it_ends_in_words(name: str) -> None:
    with pytest.raises(ls.InvalidInput) as caught:
        CALLS[name]()
    assert 0 < len(str(caught.value)) < 2000 or "shape" in name or "layout" in name


@pytest.mark.parametrize(
    "junk", [Hostile(), HUGE, -HUGE, float("nan"), 1.0, True, "4", None, b"4", [4], np.bool_(True), 4j], ids=type_of
)
def test_an_integer_is_nothing_else(junk: Any) -> None:
    with pytest.raises(ls.InvalidInput, match="extent is"):
        checks.integer(junk, "extent", low=1)


@pytest.mark.parametrize(
    "junk", [Hostile(), HUGE, -1, float("nan"), float("inf"), True, "4", None, 4j, np.array([1.0, 2.0])], ids=type_of
)
def test_a_number_is_finite_and_not_negative(junk: Any) -> None:
    with pytest.raises(ls.InvalidInput, match="time is"):
        checks.number(junk, "time")


def test_numbers_of_numpy_are_numbers() -> None:
    assert checks.integer(np.uint8(4), "n") == 4 and type(checks.integer(np.int64(4), "n")) is int
    assert checks.number(np.float32(0.5), "n") == 0.5 and checks.integers(np.arange(3), "n") == (0, 1, 2)
    assert checks.integers(iter((1, 2)), "n") == (1, 2)


@pytest.mark.parametrize(
    "junk", [Hostile(), "ab", b"ab", {1, 2}, {1: 2}, 3, None, itertools.repeat(1), np.array(5)], ids=type_of
)
def test_a_sequence_has_an_order_and_an_end(junk: Any) -> None:
    with pytest.raises(ls.InvalidInput, match="tile"):
        checks.sequence(junk, "tile", "integers")


def test_names_of_classes_of_their_own_are_plain_afterwards() -> None:
    class Name(str):
        __slots__ = ()

    assert type(ls.Copy(X, consumer=Name("wgmma.a")).consumer) is str  # type: ignore[arg-type]
